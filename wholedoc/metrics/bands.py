"""Bands of the best match in a translation memory, as translators are paid by them."""

from collections.abc import Sequence

BANDS = {"100": 100, "95–99": 95, "85–94": 85, "75–84": 75, "50–74": 50, "under 50": 0}
"""The lowest per cent of each; 101, an exact match in context, counts as 100."""


def band_of(score: int) -> str:
    """The band of a match of so many per cent."""
    return next(name for name, least in BANDS.items() if score >= least)


def split_bands(scores: Sequence[int]) -> dict[str, list[int]]:
    """The places of the sentences in each band, given their best matches; bands may be empty."""
    found: dict[str, list[int]] = {name: [] for name in BANDS}
    for place, score in enumerate(scores):
        found[band_of(score)].append(place)
    return found
