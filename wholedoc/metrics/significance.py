"""Paired tests: would systems as good as each other differ this much by chance?

Both tests take sentences or documents as their units and compare two systems on the same ones.
They work on statistics that sum up over units, so a trial is a new sum. Sentences of one document
are not independent of each other; where they depend on their document, only the test over documents
holds its level.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
TestName = Literal["randomisation", "bootstrap"]
MOST_TRIALS = 100_000
"""With so many, p-values near .05 are exact to about ± .001; more only take longer."""
_CELLS_AT_ONCE = 1 << 22
_ROUNDING = 1e-9  # differences this close are equal: sums come in another order


@dataclass(frozen=True)
class Pair:
    """The statistics of two systems in each unit, and the scores of their sums."""

    system: Array
    """(unit, statistic)"""
    baseline: Array
    """(unit, statistic)"""
    scores: Callable[[Array], Array]
    """(..., statistic) → (..., score)"""

    def difference(self, system: Array, baseline: Array) -> Array:
        """How much better the first sums score than the second: (..., score).

        Where either has nothing to count, there is no difference.
        """
        return np.nan_to_num(self.scores(system) - self.scores(baseline))


def randomisation(pairs: Sequence[Pair], trials: int, seed: int) -> list[Array]:
    """p = (1 + #{|d*| ≥ |d|}) / (1 + trials), the two-sided approximate randomisation test.

    d is the difference of the scores, and d* the one after the two systems' translations of each
    unit are swapped or not, by a coin (Noreen 1989; Riezler and Maxwell 2005). Under the null
    hypothesis that it does not matter which system a unit's translation comes from, p ≤ q with a
    probability of at most q, however few the units. All pairs have the same units and are given
    the same coins; the result holds the p-values of each pair's scores.
    """
    random = np.random.default_rng(seed)
    units = len(pairs[0].system)
    totals = [(pair.system.sum(axis=0), pair.baseline.sum(axis=0)) for pair in pairs]
    observed = [np.abs(pair.difference(*total)) for pair, total in zip(pairs, totals, strict=True)]
    reached = [np.zeros(len(difference), dtype=np.int64) for difference in observed]
    gain = np.hstack([pair.system - pair.baseline for pair in pairs])
    for size in _blocks(trials, units):
        swapped = random.integers(0, 2, size=(size, units), dtype=np.int8).astype(np.float64)
        for i, moved in enumerate(_split(swapped @ gain, pairs)):
            system, baseline = totals[i]
            difference = np.abs(pairs[i].difference(system - moved, baseline + moved))
            reached[i] += (difference >= observed[i] - _ROUNDING).sum(axis=0)
    return [(1 + count) / (1 + trials) for count in reached]


def bootstrap(pairs: Sequence[Pair], trials: int, seed: int) -> list[Array]:
    """p = min(1, 2 · (1 + min(#{d* ≤ 0}, #{d* ≥ 0})) / (1 + trials)), the two-sided bootstrap.

    d* is the difference of the scores on a test set of as many units, drawn from the given ones
    with replacement: Koehn (2004), who asks how often the better system stays better, on both
    sides. With few units it rejects somewhat too often: see docs/evaluation.md. All pairs have the
    same units and are given the same draws; the result holds the p-values of each pair's scores.
    """
    random = np.random.default_rng(seed)
    units = len(pairs[0].system)
    system = np.hstack([pair.system for pair in pairs])
    baseline = np.hstack([pair.baseline for pair in pairs])
    below = [np.zeros(1, dtype=np.int64) for _ in pairs]
    above = [np.zeros(1, dtype=np.int64) for _ in pairs]
    for size in _blocks(trials, units):
        drawn = random.integers(0, units, size=(size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        times = counts.astype(np.float64)
        sums = zip(_split(times @ system, pairs), _split(times @ baseline, pairs), strict=True)
        for i, (one, other) in enumerate(sums):
            difference = pairs[i].difference(one, other)
            below[i] = below[i] + (difference <= _ROUNDING).sum(axis=0)
            above[i] = above[i] + (difference >= -_ROUNDING).sum(axis=0)
    return [
        np.minimum(1, 2 * (1 + np.minimum(low, high)) / (1 + trials))
        for low, high in zip(below, above, strict=True)
    ]


TESTS: dict[TestName, Callable[[Sequence[Pair], int, int], list[Array]]] = {
    "randomisation": randomisation,
    "bootstrap": bootstrap,
}


def _blocks(trials: int, units: int) -> Iterator[int]:
    """How many trials to compute at once, so that they fit into memory."""
    most = max(1, _CELLS_AT_ONCE // units)
    for start in range(0, trials, most):
        yield min(most, trials - start)


def _split(sums: Array, pairs: Sequence[Pair]) -> list[Array]:
    """Columns of several pairs, side by side, as the columns of each."""
    ends = np.cumsum([pair.system.shape[1] for pair in pairs])
    return np.split(sums, ends[:-1], axis=1)
