"""The measures of all systems of an experiment, and which of them are significantly better."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wholedoc.experiment.grid import Job, SystemName
from wholedoc.experiment.results import Results, RunResults
from wholedoc.metrics.comparison import (
    FEWEST_UNITS,
    Tested,
    Value,
    count_systems,
    describe_test,
)
from wholedoc.metrics.metrics import METRICS, EvaluationSet, Unit
from wholedoc.metrics.significance import TestName

Variant = Literal["", "shuffled", "larger"]
TEST: TestName = "randomisation"
LEVEL = 0.05
SEED = 1


@dataclass(frozen=True)
class Entry:
    """A system in one of its conditions."""

    system: SystemName
    variant: Variant = ""
    """``shuffled``: reading another document's memory; ``larger``: stage 1 on the larger corpus."""

    @property
    def name(self) -> str:
        """Tells it from all others."""
        return f"{self.system}{f' {self.variant}' if self.variant else ''}"

    def jobs(self, seeds: Sequence[int]) -> list[Job]:
        """The runs that it is measured on."""
        return [Job(self.system, seed, self.variant == "larger") for seed in seeds]


class Scores:
    """All measures of all systems that have finished runs."""

    def __init__(self, results: Results) -> None:
        self.results = results
        data = results.config.data
        self.data = EvaluationSet(
            results.references,
            results.sizes,
            results.sources,
            data.trg_language or "en",
            data.src_language,
        )
        self.unit: Unit = "document" if len(results.sizes) >= FEWEST_UNITS else "sentence"
        systems = results.experiment.config.systems
        variants: tuple[Variant, ...] = ("", "shuffled", "larger")
        entries = [Entry(system, variant) for variant in variants for system in systems]
        outputs = {entry.name: self.translations(entry) for entry in entries}
        self.outputs = {name: found for name, found in outputs.items() if found}
        self.counts = count_systems(self.data, self.outputs)
        self.values = {name: self.counts.values(name) for name in self.outputs}
        self._tested: dict[tuple[str, str], dict[str, Tested]] = {}

    @property
    def signatures(self) -> dict[str, str]:
        """How each number was computed."""
        trials = self.results.experiment.config.trials
        test = f"{describe_test(TEST, trials, SEED)}|unit:{self.unit}|p<{LEVEL}"
        return {**self.counts.signatures, "significantly better": test}

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

    def measured(self, entry: Entry, metric: str) -> Value | None:
        """A measure of a system, as the paper prints it; None where there is none."""
        value = self.values.get(entry.name, {}).get(metric)
        return _percent(value) if value is not None and metric == "meteor" else value

    def is_better(self, entry: Entry, than: SystemName, metric: str) -> bool:
        """Whether a system is significantly better than another."""
        if entry.name == than or not {entry.name, than} <= self.outputs.keys():
            return False
        if (entry.name, than) not in self._tested:
            trials = self.results.experiment.config.trials
            tested = self.counts.test(entry.name, than, trials, SEED)
            self._tested[entry.name, than] = tested
        found = self._tested[entry.name, than].get(metric)
        p_value = found.p_values[TEST][self.unit] if found else None
        if found is None or p_value is None or p_value >= LEVEL:
            return False
        lower_is_better = any(m.lower_is_better for m in METRICS.values() if metric in m.names)
        return found.difference < 0 if lower_is_better else found.difference > 0


def _percent(value: Value) -> Value:
    """METEOR's own scale ends at 1, the paper's at 100."""
    return Value(100 * value.mean, None if value.deviation is None else 100 * value.deviation)
