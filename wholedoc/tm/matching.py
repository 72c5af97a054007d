"""How like two segments are: the percentage that translators know."""

import re
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

from rapidfuzz.distance import Levenshtein

EXACT = 100
IN_CONTEXT = 101
"""An exact match whose segment before it is the same, too."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


def split_tokens(text: str) -> list[str]:
    """Words and marks, case kept; spaces do not count."""
    return _TOKEN.findall(text)


def encode_tokens(tokens: Sequence[str]) -> str:
    """One character for each token, of the million beyond the basic ones.

    Such strings are compared many times as fast as lists of words. Equal tokens have equal
    characters; two different ones share a character once in a million.
    """
    return "".join(map(_character, tokens))


@lru_cache(maxsize=1 << 16)
def _character(token: str) -> str:
    return chr(0x10000 + crc32(token.encode("utf-8", "surrogatepass")) % 0x100000)


def percentage(a: Sequence[str], b: Sequence[str]) -> int:
    """100 · (max(|a|, |b|) − Levenshtein(a, b)) / max(|a|, |b|) over tokens, rounded down.

    OmegaT computes its fuzzy matches so. Two empty segments are equal.
    """
    longest = max(len(a), len(b))
    if not longest:
        return EXACT
    return EXACT * (longest - Levenshtein.distance(a, b)) // longest
