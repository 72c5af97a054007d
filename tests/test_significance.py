"""Paired tests: by hand, at their nominal rate where nothing differs, and with power where it does.

The rates are those of ``bench/null_rates.py``, with fewer pairs; docs/evaluation.md has the rest.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from wholedoc.metrics.significance import TESTS, Array, Pair, TestName

BENCH = Path(__file__).parent.parent / "bench" / "null_rates.py"
PAIRS = 200


def total(sums: Array) -> Array:
    return sums[..., :1]


def pair(differences: list[float]) -> Pair:
    """Two systems whose score is the sum of one number per unit."""
    system = np.array(differences, dtype=np.float64)[:, None]
    return Pair(system, np.zeros_like(system), total)


def p_value(test: TestName, differences: list[float], trials: int = 20_000) -> float:
    ((found,),) = TESTS[test]([pair(differences)], trials, 1)
    return float(found)


# By hand


@pytest.mark.parametrize(
    "differences", [[1, 1, 1, 1, 1], [3, -1, 2, 2, -1, 4], [1, -1, 1], [5, 0, 0, 0]]
)
def test_randomisation_is_the_share_of_sign_changes(differences: list[float]) -> None:
    signs = product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(sign, differences, strict=True))) for sign in signs]
    exact = sum(found >= abs(sum(differences)) for found in sums) / len(sums)
    assert p_value("randomisation", differences) == pytest.approx(exact, abs=0.015)


@pytest.mark.parametrize("differences", [[2, -1, 2], [1, 2, -1, 1], [3, -1, 2, -2, 1]])
def test_the_bootstrap_is_twice_the_share_of_samples_that_turn(differences: list[float]) -> None:
    sums = [sum(sample) for sample in product(differences, repeat=len(differences))]
    share = min(sum(found <= 0 for found in sums), sum(found >= 0 for found in sums)) / len(sums)
    assert p_value("bootstrap", differences) == pytest.approx(min(1, 2 * share), abs=0.02)


@pytest.mark.parametrize("test", TESTS)
def test_equal_systems_have_a_p_value_of_one(test: TestName) -> None:
    assert p_value(test, [0.0] * 5, trials=50) == 1
    thirds = np.full((9, 2), 1 / 3)
    ((found,),) = TESTS[test]([Pair(thirds, thirds[::-1].copy(), total)], 50, 1)
    assert found == 1


@pytest.mark.parametrize("test", TESTS)
def test_no_p_value_is_zero(test: TestName) -> None:
    assert 0 < p_value(test, [1.0] * 40, trials=99) <= 0.02


@pytest.mark.parametrize("test", TESTS)
def test_which_system_comes_first_does_not_matter(test: TestName) -> None:
    one = pair([2, -1, 2, 1, 0.5])
    turned = Pair(one.baseline, one.system, one.scores)
    first, second = TESTS[test]([one, turned], 500, 1)
    assert first == second


@pytest.mark.parametrize("test", TESTS)
def test_the_seed_decides(test: TestName) -> None:
    pairs = [pair([2, -1, 2, 1, -0.5, 1])]
    assert TESTS[test](pairs, 500, 0) == TESTS[test](pairs, 500, 0)
    assert TESTS[test](pairs, 500, 0) != TESTS[test](pairs, 500, 1)


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_pairs_and_blocks_do_not_change_each_other(
    test: Callable[[Sequence[Pair], int, int], list[Array]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair([2, -1, 2, 1]), pair([1, 0, -1, 1])
    wide = Pair(np.hstack([one.system] * 2), np.hstack([one.baseline] * 2), lambda sums: sums)
    found = test([one, wide, other], 300, 1)
    assert found[0] == test([one], 300, 1)[0]
    assert found[1].tolist() == found[0].tolist() * 2
    assert found[2] == test([other], 300, 1)[0]
    monkeypatch.setattr("wholedoc.metrics.significance._CELLS_AT_ONCE", 8)
    assert test([one], 300, 1)[0] == pytest.approx(found[0], abs=0.15)


# On systems drawn by chance


@pytest.fixture(scope="module")
def null_rates() -> ModuleType:
    spec = spec_from_file_location("null_rates", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def rates(module: ModuleType, world: str) -> dict[str, float]:
    drawn = module.WORLDS[world]
    found: dict[str, float] = module.rejection_rates(drawn, module.our_tests(drawn, 99), PAIRS, 1)
    return found


def test_where_nothing_differs_each_test_rejects_at_its_level(null_rates: ModuleType) -> None:
    found = rates(null_rates, "independent sentences")
    assert found.keys() == {
        f"{test}, {unit}s" for test in TESTS for unit in ("sentence", "document")
    }
    for name, rate in found.items():
        assert 0.015 <= rate <= 0.095, name  # .05 ± 3 standard deviations of 200 pairs


def test_only_documents_are_honest_where_sentences_depend_on_them(null_rates: ModuleType) -> None:
    found = rates(null_rates, "the same, three seeds")
    for test in TESTS:
        assert 0.01 <= found[f"{test}, documents"] <= 0.095
        assert found[f"{test}, sentences"] > 0.12
        assert found[f"{test}, outputs"] > found[f"{test}, sentences"] + 0.05


def test_a_better_system_is_found(null_rates: ModuleType) -> None:
    found = rates(null_rates, "one system better")
    assert min(found["randomisation, documents"], found["bootstrap, documents"]) > 0.5
