"""The effort that a translator saves: what of a translation must be changed to be the reference.

Words to change are TER's edits, which :class:`wholedoc.metrics.scores.Ter` counts. The reference
stands for what the translator wants; a real translator changes less, as many translations are good.
"""

import math
from collections.abc import Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

from wholedoc.metrics.scores import Array, Metric

PLACES = {"1–5": 5.0, "6–10": 10.0, "11–20": 20.0, "21–40": 40.0, "41+": math.inf}
"""Places in the document, counted from 1, and the last of each group."""


class Characters(Metric):
    """100 · Σ Levenshtein(translation, reference) / Σ |reference|, over characters."""

    names = ("characters",)
    lower_is_better = True
    signature = "Levenshtein over characters, white space included, per 100 of the reference"

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """Characters to change, and characters of the reference."""
        references = self._data.references
        lengths = [len(reference) for reference in references]
        counted = []
        for output in outputs:
            edits = map(Levenshtein.distance, output, references)
            counted.append(np.array(list(zip(edits, lengths, strict=True)), dtype=np.float64))
        return counted

    def scores(self, sums: Array) -> Array:
        """Changes per 100."""
        return effort_rate(sums)[..., None]


def effort_rate(sums: Array) -> Array:
    """Changes per 100 of the reference's, from summed statistics; NaN where there is nothing."""
    edits, length = sums[..., 0], sums[..., 1]
    return np.where(length > 0, 100 * edits / np.maximum(length, 1), np.nan)


def saved_share(system: Array, baseline: Array) -> Array:
    """100 · (1 − changes with a system / changes without it); NaN where nothing was to change."""
    before = baseline[..., 0]
    left = system[..., 0] / np.where(before > 0, before, 1)
    return np.where(before > 0, 100 * (1 - left), np.nan)


def sum_places(statistics: Array, documents: Sequence[int]) -> dict[str, Array]:
    """Statistics of sentences, summed by their place in documents of so many sentences.

    Groups of places that no document reaches are left out.
    """
    places = np.array([t for size in documents for t in range(1, size + 1)])
    if len(statistics) != len(places):
        raise ValueError("every sentence belongs to one document")
    groups = np.searchsorted(list(PLACES.values()), places)
    return {
        name: statistics[groups == number].sum(axis=0)
        for number, name in enumerate(PLACES)
        if (groups == number).any()
    }
