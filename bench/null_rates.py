"""How often the paired tests of ``wholedoc evaluate`` reject two systems that are equally good.

``null_rates.py`` draws pairs of systems by chance, as counts of n-grams that BLEU is computed from,
and prints for each test and unit the share of pairs with p ≤ .05. Sentences and documents are
easier or harder for both systems; beyond that each system has its own luck, with each sentence and,
where ``document_luck`` is not 0, with each document as a whole. Where ``gain`` is not 0 one system
is better, and the share is the power of the test.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import Result, _paired_bs_test

from wholedoc.metrics.scores import score_bleu, sum_documents
from wholedoc.metrics.significance import TESTS, Pair

Array = npt.NDArray[np.float64]
LEVEL = 0.05


@dataclass(frozen=True)
class World:
    """What pairs of systems are drawn from."""

    documents: int = 50
    sentences: int = 5
    """Of each document."""
    document_luck: float = 0.0
    """Standard deviation, in log-odds of a matching word, of a system's luck with a document."""
    gain: float = 0.0
    """How much better one of the systems is, in log-odds."""
    seeds: int = 1
    """Outputs of each system."""

    @property
    def sizes(self) -> list[int]:
        """Sentences of each document."""
        return [self.sentences] * self.documents

    def draw(self, random: np.random.Generator) -> tuple[Array, Array]:
        """The statistics of two systems: (seed, sentence, statistic) each."""
        sentences = self.documents * self.sentences
        words = random.integers(5, 40, size=sentences)
        ease = 0.4 + self._by_document(random, 0.3) + random.normal(0, 0.5, size=sentences)
        one, other = (
            ease + self._by_document(random, self.document_luck) + random.normal(0, 0.3, sentences)
            for _ in range(2)
        )
        return self._count(random, words, one + self.gain), self._count(random, words, other)

    def _by_document(self, random: np.random.Generator, deviation: float) -> Array:
        return np.repeat(random.normal(0, deviation, size=self.documents), self.sentences)

    def _count(
        self, random: np.random.Generator, words: npt.NDArray[np.int64], ease: Array
    ) -> Array:
        """Lengths, matching n-grams and all n-grams, as sacrebleu has them for BLEU."""
        rows = []
        for _ in range(self.seeds):
            length = words + random.integers(-1, 2, size=len(words))
            share = 1 / (1 + np.exp(-ease - random.normal(0, 0.3, size=len(words))))
            total = np.stack([length - n for n in range(4)], axis=1)
            matching = np.stack([share ** (n + 1) for n in range(4)], axis=1)
            correct = random.binomial(total, matching)
            rows.append(np.column_stack([length, words, correct, total]))
        return np.array(rows, dtype=np.float64)


def bleu(sums: Array) -> Array:
    return score_bleu(sums)[..., :1]


def our_tests(world: World, trials: int) -> dict[str, Callable[[Array, Array, int], float]]:
    """Each test over each unit, as ``compare`` runs it: statistics averaged over seeds."""

    def over_sentences(statistics: Array) -> Array:
        return statistics.mean(axis=0)

    def over_documents(statistics: Array) -> Array:
        return sum_documents(statistics.mean(axis=0), world.sizes)

    def over_outputs(statistics: Array) -> Array:
        return statistics.reshape(-1, statistics.shape[-1])

    units = {"sentences": over_sentences, "documents": over_documents}
    if world.seeds > 1:
        units["outputs"] = over_outputs  # as MultEval: each seed's sentence is a unit of its own

    def make(name: Any, unit: Callable[[Array], Array]) -> Callable[[Array, Array, int], float]:
        def run(one: Array, other: Array, seed: int) -> float:
            (p_values,) = TESTS[name]([Pair(unit(one), unit(other), bleu)], trials, seed)
            return float(p_values[0])

        return run

    return {f"{test}, {name}": make(test, unit) for test in TESTS for name, unit in units.items()}


class CountedBLEU(BLEU):
    """Sacrebleu's BLEU of outputs that are counted already."""

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        del references
        return hypotheses


def sacrebleu_test(trials: int) -> dict[str, Callable[[Array, Array, int], float]]:
    def run(one: Array, other: Array, seed: int) -> float:
        metric = CountedBLEU()
        base = Result(metric._aggregate_and_compute(other[0].tolist()).score)
        found = _paired_bs_test(
            {"BLEU": (other[0].tolist(), base)},
            "system",
            one[0].tolist(),
            None,
            {"BLEU": metric},
            n_samples=trials,
            seed=seed + 1,  # to sacrebleu a seed of 0 is none
        )
        return float(found[1]["BLEU"].p_value)

    return {"sacrebleu's bootstrap, sentences": run}


def rejection_rates(
    world: World,
    tests: dict[str, Callable[[Array, Array, int], float]],
    pairs: int,
    seed: int,
) -> dict[str, float]:
    """The share of pairs with p ≤ .05, by test."""
    random = np.random.default_rng(seed)
    rejected = dict.fromkeys(tests, 0)
    for number in range(pairs):
        one, other = world.draw(random)
        for name, test in tests.items():
            rejected[name] += test(one, other, number) <= LEVEL
    return {name: count / pairs for name, count in rejected.items()}


WORLDS = {
    "independent sentences": World(),
    "sentences that depend on their document": World(document_luck=0.3),
    "the same, three seeds": World(document_luck=0.3, seeds=3),
    "one system better": World(document_luck=0.3, gain=0.2),
    "6 documents": World(documents=6, document_luck=0.3),
    "10 documents": World(documents=10, document_luck=0.3),
    "20 documents": World(documents=20, document_luck=0.3),
    "100 documents": World(documents=100, document_luck=0.3),
}


def print_rates(title: str, rates: dict[str, float]) -> None:
    print(title)
    for name, rate in rates.items():
        print(f"  {name:36} {100 * rate:5.1f} %")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=1000, help="pairs of systems")
    parser.add_argument("--trials", type=int, default=199, help="draws of each test")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", choices=WORLDS, help="one of them only")
    parser.add_argument("--sacrebleu", action="store_true", help="its own bootstrap too: slow")
    options = parser.parse_args(arguments)
    for title, world in WORLDS.items():
        if options.world in (None, title):
            tests = our_tests(world, options.trials)
            if options.sacrebleu and world.seeds == 1:
                tests |= sacrebleu_test(options.trials)
            rates = rejection_rates(world, tests, options.pairs, options.seed)
            print_rates(title, rates)


if __name__ == "__main__":
    main()
