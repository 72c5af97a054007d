"""How like two segments are: the percentage that translators know."""

import re
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

EXACT = 100
IN_CONTEXT = 101
"""An exact match whose segment before it is the same, too."""
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
