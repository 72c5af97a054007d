"""Paired tests: would systems as good as each other differ this much by chance?

Both tests take sentences or documents as their units and compare two systems on the same ones.
They work on statistics that sum up over units, so a trial is a new sum. Sentences of one document
are not independent of each other; where they depend on their document, only the test over documents
holds its level.
"""

from collections.abc import Callable, Sequence
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
    system, baseline = _side_by_side(pairs)
    gain = system - baseline

    def swap(size: int) -> tuple[Array, Array]:
        swapped = random.integers(0, 2, size=(size, len(gain)), dtype=np.int8)
        moved = swapped.astype(np.float64) @ gain
        return system.sum(axis=0) - moved, baseline.sum(axis=0) + moved

    p_values = []
    for pair, differences in zip(pairs, _run_trials(pairs, trials, swap), strict=True):
        observed = np.abs(pair.difference(pair.system.sum(axis=0), pair.baseline.sum(axis=0)))
        reached = (np.abs(differences) >= observed - _ROUNDING).sum(axis=0)
        p_values.append((1 + reached) / (1 + trials))
    return p_values


def bootstrap(pairs: Sequence[Pair], trials: int, seed: int) -> list[Array]:
    """p = min(1, 2 · (1 + min(#{d* ≤ 0}, #{d* ≥ 0})) / (1 + trials)), the two-sided bootstrap.

    d* is the difference of the scores on a test set of as many units, drawn from the given ones
    with replacement: Koehn (2004), who asks how often the better system stays better, on both
    sides. With few units it rejects somewhat too often: see docs/evaluation.md. All pairs have the
    same units and are given the same draws; the result holds the p-values of each pair's scores.
    """
    random = np.random.default_rng(seed)
    system, baseline = _side_by_side(pairs)
    units = len(system)

    def draw(size: int) -> tuple[Array, Array]:
        drawn = random.integers(0, units, size=(size, units)) + units * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * units).reshape(size, units)
        times = counts.astype(np.float64)
        return times @ system, times @ baseline

    p_values = []
    for differences in _run_trials(pairs, trials, draw):
        below = (differences <= _ROUNDING).sum(axis=0)
        above = (differences >= -_ROUNDING).sum(axis=0)
        p_values.append(np.minimum(1, 2 * (1 + np.minimum(below, above)) / (1 + trials)))
    return p_values


TESTS: dict[TestName, Callable[[Sequence[Pair], int, int], list[Array]]] = {
    "randomisation": randomisation,
    "bootstrap": bootstrap,
}


def _side_by_side(pairs: Sequence[Pair]) -> tuple[Array, Array]:
    """The statistics of all pairs, systems and baselines: (unit, statistic of any pair)."""
    return np.hstack([pair.system for pair in pairs]), np.hstack([pair.baseline for pair in pairs])


def _run_trials(
    pairs: Sequence[Pair], trials: int, make: Callable[[int], tuple[Array, Array]]
) -> list[Array]:
    """The differences of each pair: (trial, score); ``make`` sums up so many trials at once."""
    most = max(1, _CELLS_AT_ONCE // len(pairs[0].system))  # they fit into memory
    ends = np.cumsum([pair.system.shape[1] for pair in pairs])[:-1]
    blocks = []
    for start in range(0, trials, most):
        sums = [np.split(side, ends, axis=1) for side in make(min(most, trials - start))]
        blocks.append([pair.difference(*two) for pair, *two in zip(pairs, *sums, strict=True)])
    return [np.concatenate(differences) for differences in zip(*blocks, strict=True)]
