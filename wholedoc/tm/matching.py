"""How like two segments are: the percentage that translators know; which cover a text together."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from rapidfuzz.distance import Levenshtein

EXACT = 100
IN_CONTEXT = 101
"""An exact match whose segment before it is the same, too."""
_COVERED = 0.4  # what a word is still worth after a segment that has it was chosen
_LENGTH = 8  # tokens that every segment counts as more than it has
_TOKEN = re.compile(r"\w+|[^\w\s]")


def split_tokens(text: str) -> list[str]:
    """Words and marks, case kept; spaces do not count."""
    return _TOKEN.findall(text)


def percentage(a: Sequence[str], b: Sequence[str]) -> int:
    """100 · (max(|a|, |b|) − Levenshtein(a, b)) / max(|a|, |b|) over tokens, rounded down.

    OmegaT computes its fuzzy matches so. Two empty segments are equal.
    """
    longest = max(len(a), len(b))
    if not longest:
        return EXACT
    return EXACT * (longest - Levenshtein.distance(a, b)) // longest


def choose_covering(
    text: Sequence[str], segments: Sequence[Sequence[str]], worth: Mapping[str, float], limit: int
) -> list[int]:
    """Segments that together have the words of a text: their places, the most telling first.

    Each is the one with the largest Σ_w worth(w) · min(its count of w, the text's) · 0.4^(times w
    was covered already) / √(8 + its length). Words without worth do not count.
    """
    types = {word: i for i, word in enumerate(dict.fromkeys(w for w in text if w in worth))}
    counts = np.zeros((len(segments), len(types)), dtype=np.float32)
    for row, segment in zip(counts, segments, strict=True):
        for word in segment:
            place = types.get(word)
            if place is not None:
                row[place] += 1
    wanted = np.array([text.count(word) for word in types], dtype=np.float32)
    shared = np.minimum(counts, wanted)
    lengths = np.array([len(segment) for segment in segments], dtype=np.float32)
    gains = shared / np.sqrt(_LENGTH + lengths)[:, None]
    left = np.array([worth[word] for word in types], dtype=np.float32)
    chosen: list[int] = []
    while len(chosen) < min(limit, len(segments)):
        values = gains @ left
        best = int(values.argmax())
        if values[best] <= 0:
            break
        chosen.append(best)
        gains[best] = 0
        left[shared[best] > 0] *= _COVERED
    return chosen
