"""How like two segments are: the percentage that translators know; which cover a text together."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from zlib import crc32

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


def choose_covering(
    text: str, segments: Sequence[str], worth: Mapping[str, float], limit: int
) -> list[int]:
    """Segments that together have the tokens of a text: their places, the most telling first.

    All are given as :func:`encode_tokens` makes them. Each is the one with the largest Σ_w worth(w)
    · min(its count of w, the text's) · 0.4^(times w was covered already) / √(8 + its length).
    """
    types = list(dict.fromkeys(text))
    counts = np.array([[segment.count(w) for w in types] for segment in segments], dtype=np.float32)
    counts = counts.reshape(len(segments), len(types))
    shared = np.minimum(counts, np.array([text.count(w) for w in types], dtype=np.float32))
    lengths = np.array([len(segment) for segment in segments], dtype=np.float32)
    gains = shared / np.sqrt(_LENGTH + lengths)[:, None]
    left = np.array([worth[w] for w in types], dtype=np.float32)
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
