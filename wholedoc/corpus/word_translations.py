"""Word translations, learned from sentence pairs: which words of a translation stand for which.

One small statistical aligner serves all who ask: the shortlist of an export, the lexicon of
``word`` vocabularies, and the discourse measures. It needs no compiler and no download, works on
token ids, and a few thousand sentence pairs are enough for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Links = tuple[tuple[int, int], ...]
"""Pairs (i, j) of the positions of a source and a target word, in order."""
Ids = Sequence[int] | NDArray[np.integer[Any]]
"""The token ids of a sentence."""

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
# Two words are linked if the product of P and Q is above this. A pair that lies on it, as two
# equal words can, must not depend on the order in which sums are rounded.
_LINKED = 0.25 + 1e-9
# A translation that is less probable than this is not counted where it stands.
_LEAST = 0.05
# Cells computed at once, and cells learned from: of a larger text, evenly spaced sentence pairs.
_CELLS_AT_ONCE = 1 << 18
_CELLS_LEARNED = 1 << 26


class WordIds(dict[str, int]):
    """Ids of words, the same for equal words of both languages; in order, counted from 0."""

    def encode(self, sentences: Iterable[Iterable[str]]) -> list[list[int]]:
        """The ids of the words of some sentences; new words get the next ones."""
        return [[self.setdefault(word, len(self)) for word in sentence] for sentence in sentences]


class _Text:
    """The sentences of one side in one array."""

    def __init__(self, sentences: Sequence[Ids]) -> None:
        arrays = [np.asarray(sentence, dtype=np.int64) for sentence in sentences]
        self.ids: _Ints = np.concatenate([*arrays, np.zeros(0, dtype=np.int64)])
        self.lengths: _Ints = np.array([len(array) for array in arrays], dtype=np.int64)
        self.starts: _Ints = np.append(0, np.cumsum(self.lengths))

    def slice(self, sentences: slice) -> _Ints:
        """The ids of consecutive sentences."""
        return self.ids[self.starts[sentences.start] : self.starts[sentences.stop]]


class _Words(NamedTuple):
    """The words of one side of some cells."""

    ids: _Ints
    places: _Ints
    """For each cell, where its word stands in ``ids``."""

    def sum(self, values: _Floats) -> _Floats:
        """For each word, the sum over its cells."""
        return _sum_by(self.places, values, len(self.ids))


class _Cells(NamedTuple):
    """Every pair of a source and a target word of the same sentence pair, in one row."""

    src: _Words
    trg: _Words
    distances: _Floats
    """How far each cell lies off the diagonal."""
    shapes: tuple[tuple[int, int], ...]
    """Target and source words of each sentence pair, whose cells are a block in this shape."""


def _sum_by(places: NDArray[np.integer[Any]], values: _Floats, size: int) -> _Floats:
    return np.bincount(places, weights=values, minlength=size).astype(np.float64, copy=False)


def _cells(src: _Text, trg: _Text) -> Iterator[_Cells]:
    """The cells of all sentence pairs, in blocks that fit into memory."""
    blocks = np.cumsum(src.lengths * trg.lengths) // _CELLS_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
    for first, end in pairwise(bounds):
        if first < end:
            yield _lay_out(src, trg, slice(first, end))


def _lay_out(src: _Text, trg: _Text, chosen: slice) -> _Cells:
    src_lengths, trg_lengths = src.lengths[chosen], trg.lengths[chosen]
    sentences = np.repeat(np.arange(len(trg_lengths)), trg_lengths)  # of each target word
    widths = src_lengths[sentences]  # cells of each target word
    trg_places = np.repeat(np.arange(len(sentences)), widths)
    i = np.arange(len(trg_places)) - np.repeat(np.cumsum(widths) - widths, widths)
    src_starts = np.cumsum(src_lengths) - src_lengths
    trg_starts = np.cumsum(trg_lengths) - trg_lengths
    j = (np.arange(len(sentences)) - trg_starts[sentences])[trg_places]
    here = sentences[trg_places]
    return _Cells(
        src=_Words(src.slice(chosen), src_starts[here] + i),
        trg=_Words(trg.slice(chosen), trg_places),
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

    Words are token ids. Both sides share one id space: the same id on both sides means the same
    word, which is likely to translate as itself.
    """

    def __init__(self, src: Sequence[Ids], trg: Sequence[Ids]) -> None:
        """Learn from parallel sentences."""
        cells = sum(len(one) * len(other) for one, other in zip(src, trg, strict=True))
        step = max(1, -(-cells // _CELLS_LEARNED))  # so that the cells fit into memory
        src_text, trg_text = _Text(src[::step]), _Text(trg[::step])
        # One id more stands for all words that were not here to be learned from.
        largest = max(src_text.ids.max(initial=-1), trg_text.ids.max(initial=-1))
        self._size = int(largest) + 2
        self._steepness = 0.0
        self._src_shares = self._shares(src_text.ids)
        self._trg_shares = self._shares(trg_text.ids)
        found = [_distinct(self._keys(part)) for part in _cells(src_text, trg_text)]
        # No pair has the key at the end, so that each pair has a place to be looked up at.
        self._pairs = _distinct(np.concatenate([*found, [self._size**2]]))
        places = [self._places(self._keys(part)) for part in _cells(src_text, trg_text)]
        counts = np.zeros(len(self._pairs))
        for at in places:
            np.add.at(counts, at, 1.0)
        self._count(counts)
        for turn in range(_FREE_ROUNDS + _AGREEING_ROUNDS):
            self._improve(src_text, trg_text, places, turn)

    def align(self, src: Sequence[Ids], trg: Sequence[Ids]) -> list[Links]:
        """Link the words of parallel sentences, learned from or not."""
        found: list[Links] = []
        for cells in _cells(_Text(src), _Text(trg)):
            forward, backward = self._directions(cells, self._lookup(cells))
            linked = forward * backward > _LINKED
            start = 0
            for rows, columns in cells.shapes:
                block = linked[start : start + rows * columns].reshape(rows, columns)
                start += rows * columns
                i, j = np.nonzero(block.T)
                found.append(tuple(zip(i.tolist(), j.tolist(), strict=True)))
        return found

    def translations(
        self, src: Sequence[Ids], trg: Sequence[Ids], most: int
    ) -> tuple[_Ints, _Ints]:
        """The translations of each source word of some sentence pairs, at most ``most`` of them.

        They are ranked by Σ P(i | j) over all pairs of the two words. Returned as ids of source
        words, in order, and of their translations, the likeliest of each first.
        """
        src_text, trg_text = _Text(src), _Text(trg)
        width = int(trg_text.ids.max(initial=0)) + 1
        keys: list[_Ints] = [np.zeros(0, dtype=np.int64)]
        weights: list[_Floats] = [np.zeros(0)]
        for cells in _cells(src_text, trg_text):
            forward, _ = self._directions(cells, self._lookup(cells))
            kept = np.flatnonzero(forward > _LEAST)
            src_ids, trg_ids = (side.ids[side.places[kept]] for side in (cells.src, cells.trg))
            words = src_ids * width + trg_ids
            found, places = np.unique(words, return_inverse=True)
            keys.append(found)
            weights.append(_sum_by(places, forward[kept], len(found)))
        pairs, places = np.unique(np.concatenate(keys), return_inverse=True)
        # Rounded: which of two equals comes first must not depend on the order of sums.
        totals = _sum_by(places, np.concatenate(weights), len(pairs)).round(6)
        src_words, trg_words = pairs // width, pairs % width
        order = np.lexsort((trg_words, -totals, src_words))
        src_words, trg_words = src_words[order], trg_words[order]
        rank = np.arange(len(src_words)) - np.searchsorted(src_words, src_words)
        return src_words[rank < most], trg_words[rank < most]

    def _known(self, ids: _Ints) -> _Ints:
        return np.minimum(ids, self._size - 1)

    def _keys(self, cells: _Cells) -> _Ints:
        """One number for each cell's pair of words."""
        src, trg = (self._known(side.ids)[side.places] for side in (cells.src, cells.trg))
        return src * self._size + trg

    def _places(self, keys: _Ints) -> NDArray[np.int32]:
        """Where pairs of words stand among those learned from, or would stand."""
        found, inverse = np.unique(keys, return_inverse=True)  # sorted, they are found faster
        return np.searchsorted(self._pairs, found).astype(np.int32)[inverse]

    def _lookup(self, cells: _Cells) -> _Floats:
        """The counts of each cell's pair of words; 0 where it was never seen."""
        keys = self._keys(cells)
        places = self._places(keys)
        return np.where(self._pairs[places] == keys, self._counts[places], 0.0)

    def _shares(self, ids: _Ints) -> _Floats:
        counts = _sum_by(ids, np.ones(len(ids)), self._size) + 0.5
        return counts / float(counts.sum())

    def _count(self, counts: _Floats) -> None:
        self._counts = counts
        self._src_totals = _sum_by(self._pairs // self._size, counts, self._size)
        self._trg_totals = _sum_by(self._pairs % self._size, counts, self._size)

    def _improve(
        self, src: _Text, trg: _Text, places: Sequence[NDArray[np.int32]], turn: int
    ) -> None:
        """One round of expectation maximisation."""
        counts = np.zeros(len(self._pairs))
        slope = curvature = 0.0
        for cells, at in zip(_cells(src, trg), places, strict=True):
            forward, backward = self._directions(cells, self._counts[at])
            agreeing = turn >= _FREE_ROUNDS
            weights = forward * backward if agreeing else (forward + backward) / 2
            np.add.at(counts, at, weights)
            more = self._slope(cells, weights)
            slope, curvature = slope + more[0], curvature + more[1]
        self._count(counts)
        # The first step of λ comes before the directions are first made to agree.
        if turn >= _FREE_ROUNDS - 1 and curvature > 1e-9:
            self._steepness = min(max(self._steepness + slope / curvature, 0.0), _STEEPEST)

    def _directions(self, cells: _Cells, counts: _Floats) -> tuple[_Floats, _Floats]:
        """P(i | j) and Q(j | i) of each cell, given the counts of its pair of words."""
        src, trg = cells.src, cells.trg
        same = (src.ids[src.places] == trg.ids[trg.places]).astype(np.float64)
        near = np.exp(-self._steepness * cells.distances)

        def direction(given: _Words, totals: _Floats, made: _Words, shares: _Floats) -> _Floats:
            """P(given | made)."""
            share = shares[self._known(made.ids)][made.places]
            found: _Floats = counts + _SMOOTHING * (same + share) / 2
            found /= (totals[self._known(given.ids)] + _SMOOTHING)[given.places]
            found *= (1 - _NULL) * near / made.sum(near)[made.places]
            found /= made.sum(found)[made.places] + _NULL * share
            return found

        forward = direction(src, self._src_totals, trg, self._trg_shares)
        return forward, direction(trg, self._trg_totals, src, self._src_shares)

    def _slope(self, cells: _Cells, weights: _Floats) -> tuple[float, float]:
        """Slope and curvature of the likelihood of λ, given the expected links: a Newton step."""
        near = np.exp(-self._steepness * cells.distances)
        prior = near / cells.trg.sum(near)[cells.trg.places]
        mean = cells.trg.sum(prior * cells.distances)
        variance = cells.trg.sum(prior * cells.distances**2) - mean**2
        links = cells.trg.sum(weights)
        return float(links @ mean - weights @ cells.distances), float(links @ variance)


def _distinct(keys: _Ints) -> _Ints:
    """Each key once, in order; np.unique takes several times as long."""
    ordered = np.sort(keys)
    distinct: _Ints = ordered[np.diff(ordered, prepend=-1) != 0]
    return distinct
