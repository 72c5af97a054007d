"""Word alignment: which words of a translation stand for which source words.

A small statistical aligner of our own, so that the measures that need one work offline and without
a compiler. It learns from the very text that is measured: a few thousand sentence pairs will do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wholedoc.metrics.words import Sentence

Links = tuple[tuple[int, int], ...]
"""Pairs (i, j) of a source and a target word, in order."""


@dataclass(frozen=True, slots=True)
class Aligned:
    """A source sentence and a translation of it, with their links."""

    src: Sentence
    trg: Sentence
    links: Links

    def targets(self, i: int) -> Sentence:
        """The words that source word ``i`` is linked to, in order."""
        return tuple(self.trg[j] for linked, j in self.links if linked == i)


_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]

SIGNATURE = "align:agreeing-m1-diagonal.1"

# Chosen on the artificial corpus, where the right links are known, and on the numbers and names
# that Estonian and English Europarl share; docs/discourse.md has the figures.
_FREE_ROUNDS = 2
_AGREEING_ROUNDS = 3
_NULL = 0.2
_SMOOTHING = 1.0
_STEEPEST = 20.0
# Two words are linked if the directions' probabilities have at least this product. A pair that
# lies on it, as two equal words can, must not depend on the order in which sums are rounded.
_LINKED = 0.25 + 1e-9


@dataclass(frozen=True, slots=True)
class _Cells:
    """Every pair of a source and a target word of the same sentence pair, in one row."""

    src: _Ints
    """Numbers of all source words."""
    trg: _Ints
    """Numbers of all target words."""
    src_places: _Ints
    """For each cell, where its source word stands in ``src``."""
    trg_places: _Ints
    distances: _Floats
    """How far each cell lies off the diagonal."""
    shapes: tuple[tuple[int, int], ...]
    """Target and source words of each sentence pair, whose cells are a block in this shape."""

    def sum_by_src(self, values: _Floats) -> _Floats:
        return _sum_by(self.src_places, values, len(self.src))

    def sum_by_trg(self, values: _Floats) -> _Floats:
        return _sum_by(self.trg_places, values, len(self.trg))


def _sum_by(places: NDArray[np.intp], values: _Floats, size: int) -> _Floats:
    return np.bincount(places, weights=values, minlength=size).astype(np.float64, copy=False)


def _lay_out(src: Sequence[Sequence[int]], trg: Sequence[Sequence[int]]) -> _Cells:
    src_lengths = np.array([len(sentence) for sentence in src], dtype=np.int64)
    trg_lengths = np.array([len(sentence) for sentence in trg], dtype=np.int64)
    sentences = np.repeat(np.arange(len(trg)), trg_lengths)  # of each target word
    widths = src_lengths[sentences]  # cells of each target word
    trg_places = np.repeat(np.arange(len(sentences)), widths)
    i = np.arange(len(trg_places)) - np.repeat(np.cumsum(widths) - widths, widths)
    src_starts = np.cumsum(src_lengths) - src_lengths
    trg_starts = np.cumsum(trg_lengths) - trg_lengths
    j = (np.arange(len(sentences)) - trg_starts[sentences])[trg_places]
    here = sentences[trg_places]
    return _Cells(
        src=np.array([number for sentence in src for number in sentence], dtype=np.int64),
        trg=np.array([number for sentence in trg for number in sentence], dtype=np.int64),
        src_places=src_starts[here] + i,
        trg_places=trg_places,
        distances=np.abs((i + 0.5) / src_lengths[here] - (j + 0.5) / trg_lengths[here]),
        shapes=tuple(zip(trg_lengths.tolist(), src_lengths.tolist(), strict=True)),
    )


class Aligner:
    """IBM Model 1 with a diagonal prior, both directions learned together so that they agree.

    For source words f_1 … f_I and target words e_1 … e_J of a sentence pair:

    - P(i | j) = (1 − ν) δ(i | j) τ(e_j | f_i) / [ν u(e_j) + (1 − ν) Σ_k δ(k | j) τ(e_j | f_k)]
    - δ(i | j) ∝ exp(−λ |(i − ½)/I − (j − ½)/J|), summing to 1 over i
    - τ(e | f) = [c(f, e) + ½ (1[e = f] + u(e))] / [Σ_e' c(f, e') + 1]

    with u the share of a word in the target text, ν = 0.2 the share of words that translate
    nothing, and Q(j | i) the same with the sides exchanged, from the same counts c. A word never
    seen translates as itself or as anything. Expectation maximisation: two rounds with
    c = Σ (P + Q)/2 and λ = 0, then three with c = Σ P·Q, in which λ takes a Newton step each. The
    words i and j are linked if √(P(i | j) Q(j | i)) > ½.

    The model is that of fast_align (Dyer et al. 2013), the product of the directions that of
    alignment by agreement (Liang et al. 2006).
    """

    def __init__(self, src: Sequence[Sequence[str]], trg: Sequence[Sequence[str]]) -> None:
        """Learn from parallel sentences, given as words."""
        self._words: dict[str, int] = {}
        for sentence in (*src, *trg):
            for word in sentence:
                self._words.setdefault(word, len(self._words))
        # One number more stands for all words that were not here to be learned from.
        self._size = len(self._words) + 1
        self._steepness = 0.0
        cells = self._cells(src, trg)
        self._src_shares = self._shares(cells.src)
        self._trg_shares = self._shares(cells.trg)
        self._pairs, places = np.unique(self._keys(cells), return_inverse=True)
        self._count(np.ones(len(places)), places)
        for turn in range(_FREE_ROUNDS + _AGREEING_ROUNDS):
            forward, backward = self._directions(cells, self._counts[places])
            agreeing = turn >= _FREE_ROUNDS
            weights = forward * backward if agreeing else (forward + backward) / 2
            self._count(weights, places)
            # The first step of λ comes before the directions are first made to agree.
            if turn >= _FREE_ROUNDS - 1:
                self._steepness = self._steepen(cells, weights)

    def align(self, src: Sequence[Sequence[str]], trg: Sequence[Sequence[str]]) -> list[Links]:
        """Link the words of parallel sentences, learned from or not."""
        cells = self._cells(src, trg)
        keys = self._keys(cells)
        places = np.searchsorted(self._pairs, keys)
        places[places == len(self._pairs)] = 0
        counts: _Floats = np.zeros(len(keys))
        if len(self._pairs):
            counts = np.where(self._pairs[places] == keys, self._counts[places], 0.0)
        forward, backward = self._directions(cells, counts)
        linked = forward * backward > _LINKED
        found: list[Links] = []
        start = 0
        for rows, columns in cells.shapes:
            block = linked[start : start + rows * columns].reshape(rows, columns)
            start += rows * columns
            i, j = np.nonzero(block.T)
            found.append(tuple(zip(i.tolist(), j.tolist(), strict=True)))
        return found

    def _cells(self, src: Sequence[Sequence[str]], trg: Sequence[Sequence[str]]) -> _Cells:
        # Unknown words are numbered too, past the known ones: equal strings must stay equal.
        unknown: dict[str, int] = {}

        def number(word: str) -> int:
            known = self._words.get(word)
            return unknown.setdefault(word, self._size + len(unknown)) if known is None else known

        return _lay_out(
            [[number(word) for word in sentence] for sentence in src],
            [[number(word) for word in sentence] for sentence in trg],
        )

    def _known(self, numbers: _Ints) -> _Ints:
        return np.minimum(numbers, self._size - 1)

    def _keys(self, cells: _Cells) -> _Ints:
        src = self._known(cells.src)[cells.src_places]
        return src * self._size + self._known(cells.trg)[cells.trg_places]

    def _shares(self, numbers: _Ints) -> _Floats:
        known = self._known(numbers)
        counts = _sum_by(known, np.ones(len(known)), self._size) + 0.5
        return counts / float(counts.sum())

    def _count(self, weights: _Floats, places: NDArray[np.intp]) -> None:
        self._counts = _sum_by(places, weights, len(self._pairs))
        self._src_totals = _sum_by(self._pairs // self._size, self._counts, self._size)
        self._trg_totals = _sum_by(self._pairs % self._size, self._counts, self._size)

    def _directions(self, cells: _Cells, counts: _Floats) -> tuple[_Floats, _Floats]:
        """P(i | j) and Q(j | i) of each cell, given the counts of its pair of words."""
        src, trg = self._known(cells.src), self._known(cells.trg)
        same = (cells.src[cells.src_places] == cells.trg[cells.trg_places]).astype(np.float64)
        near = np.exp(-self._steepness * cells.distances)

        trg_share = self._trg_shares[trg][cells.trg_places]
        forward = counts + _SMOOTHING * (same + trg_share) / 2
        forward /= (self._src_totals[src] + _SMOOTHING)[cells.src_places]
        forward *= (1 - _NULL) * near / cells.sum_by_trg(near)[cells.trg_places]
        forward /= cells.sum_by_trg(forward)[cells.trg_places] + _NULL * trg_share

        src_share = self._src_shares[src][cells.src_places]
        backward = counts + _SMOOTHING * (same + src_share) / 2
        backward /= (self._trg_totals[trg] + _SMOOTHING)[cells.trg_places]
        backward *= (1 - _NULL) * near / cells.sum_by_src(near)[cells.src_places]
        backward /= cells.sum_by_src(backward)[cells.src_places] + _NULL * src_share
        return forward, backward

    def _steepen(self, cells: _Cells, weights: _Floats) -> float:
        """One Newton step of λ towards the most probable one, given the expected links."""
        near = np.exp(-self._steepness * cells.distances)
        prior = near / cells.sum_by_trg(near)[cells.trg_places]
        mean = cells.sum_by_trg(prior * cells.distances)
        variance = cells.sum_by_trg(prior * cells.distances**2) - mean**2
        links = cells.sum_by_trg(weights)
        curvature = float(links @ variance)
        if curvature <= 1e-9:
            return self._steepness
        slope = float(links @ mean - weights @ cells.distances)
        return min(max(self._steepness + slope / curvature, 0.0), _STEEPEST)
