"""How like two segments are: the percentage that translators know; which cover a text together."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

EXACT = 100
IN_CONTEXT = 101
"""An exact match whose segment before it is the same, too."""
_LEAST_SHARE = 0.05
"""A segment with less of a text, by worth, has nothing to do with it."""
_COVERED = 0.4  # what a word is still worth after a segment that has it was chosen
_LENGTH = 8  # tokens that every segment counts as more than it has
_TOKEN = re.compile(r"\w+|[^\w\s]")


def split_tokens(text: str) -> list[str]:
    """Words and marks, case kept; spaces do not count, nor does half a surrogate pair."""
    return _TOKEN.findall(text if text.isascii() else text.encode("utf-8", "ignore").decode())


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


class Coverage(NamedTuple):
    """Which tokens of a text some segments have."""

    shared: npt.NDArray[np.float32]
    """(segment, type of token): how often both have it, the text and the segment."""
    lengths: npt.NDArray[np.float32]
    """Tokens of each segment."""
    worths: npt.NDArray[np.float32]
    """How telling each type is."""
    whole: float
    """What all tokens of the text are worth."""

    @property
    def shares(self) -> list[float]:
        """How much of the text each segment has, by worth, from 0 to 1."""
        found: list[float] = (self.shared @ self.worths / max(self.whole, 1e-6)).tolist()
        return found

    def together(self, places: Sequence[int]) -> float:
        """How much of the text some of the segments have together, likewise."""
        if not len(places):
            return 0.0
        best = self.shared[np.array(places)].max(axis=0)
        return float(best @ self.worths / max(self.whole, 1e-6))

    def choose(self, limit: int) -> list[int]:
        """Segments that together have the tokens of the text: their places, best first.

        Each is the one with the largest Σ_w worth(w) · shared count of w · 0.4^(times w was covered
        already) / √(8 + length); one that has less than a twentieth of the text is no help.
        """
        gains = self.shared / np.sqrt(_LENGTH + self.lengths)[:, None]
        gains[np.array(self.shares, dtype=np.float32) < _LEAST_SHARE] = 0
        left = self.worths.copy()
        chosen: list[int] = []
        while len(chosen) < min(limit, len(gains)):
            values = gains @ left
            best = int(values.argmax())
            if values[best] <= 0:
                break
            chosen.append(best)
            gains[best] = 0
            left[self.shared[best] > 0] *= _COVERED
        return chosen


def cover(text: str, segments: Sequence[str], worth: Mapping[str, float]) -> Coverage:
    """How far segments have the tokens of a text; all as :func:`encode_tokens` makes them."""
    types, wanted = np.unique(_codes(text), return_counts=True)
    lengths = np.array([len(segment) for segment in segments], dtype=np.int64)
    codes = _codes("".join(segments))
    places = np.searchsorted(types, codes).clip(max=max(len(types) - 1, 0))
    shared_at = (types[places] == codes).nonzero()[0] if len(types) else places[:0]
    rows = np.repeat(np.arange(len(segments)), lengths)[shared_at]
    cells = rows * len(types) + places[shared_at]
    counts = np.bincount(cells, minlength=len(segments) * len(types))
    shared = np.minimum(counts.reshape(len(segments), len(types)), wanted).astype(np.float32)
    worths = np.array([worth[chr(code)] for code in types], dtype=np.float32)
    return Coverage(shared, lengths.astype(np.float32), worths, float(wanted @ worths))


def _codes(text: str) -> npt.NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
