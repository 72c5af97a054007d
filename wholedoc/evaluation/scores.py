"""The measures of all systems of an experiment, and which of them are significantly better."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wholedoc.evaluation.comparison import FEWEST_UNITS, Comparison, Tested, Value, compare
from wholedoc.evaluation.experiment import BASELINE, Job, SystemName
from wholedoc.evaluation.metrics import EvaluationSet, Unit
from wholedoc.evaluation.results import Results, RunResults
from wholedoc.evaluation.significance import TestName

Variant = Literal["", "shuffled", "larger"]
TEST: TestName = "randomisation"
LEVEL = 0.05
# Beside the sentence model, the systems that others are tested against, and those others.
_RIVALS: dict[SystemName, tuple[SystemName, ...]] = {
    "more": (
        "src-context",
        "trg-context",
        "both-context",
        "src-output",
        "trg-output",
        "both-output",
    ),
    "jean2017": ("src-context", "both-context"),
    "wang2017": ("src-context", "both-context"),
}
_UNTESTED = ("document_bleu", "chrf", "ter")  # in tables that have these rivals


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
        language = results.config.data.trg_language or "en"
        self.data = EvaluationSet(results.references, results.sizes, results.sources, language)
        self.unit: Unit = "document" if len(results.sizes) >= FEWEST_UNITS else "sentence"
        systems = results.experiment.config.systems
        variants: tuple[Variant, ...] = ("", "shuffled", "larger")
        entries = [Entry(system, variant) for variant in variants for system in systems]
        self._compared: dict[SystemName, Comparison] = {}
        self._compare(BASELINE, entries)
        for rival, others in _RIVALS.items():
            tested = [Entry(rival), *(Entry(system) for system in others)]
            self._compare(rival, tested, _UNTESTED)

    def _compare(
        self, baseline: SystemName, entries: Sequence[Entry], without: Sequence[str] = ()
    ) -> None:
        """Test systems against one of them, if that has finished runs."""
        outputs = {entry.name: self.translations(entry) for entry in entries}
        outputs = {name: found for name, found in outputs.items() if found}
        if baseline in outputs:
            trials = self.results.experiment.config.trials
            self._compared[baseline] = compare(
                self.data, outputs, baseline, trials=trials, without=without
            )

    @property
    def signatures(self) -> dict[str, str]:
        """How each number was computed."""
        if BASELINE not in self._compared:
            return {}
        found = self._compared[BASELINE]
        mark = f"{found.tests[TEST]}|unit:{self.unit}|p<{LEVEL}|seeds:averaged"
        return {**found.signatures, "significantly better": mark}

    @property
    def missing(self) -> dict[str, str]:
        """Measures that could not be computed, and why."""
        return dict(self._compared[BASELINE].missing) if BASELINE in self._compared else {}

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
        if BASELINE not in self._compared:
            return None
        for system in self._compared[BASELINE].systems:
            if system.name == entry.name and metric in system.values:
                value = system.values[metric]
                return _percent(value) if metric == "meteor" else value
        return None

    def tested(self, entry: Entry, against: SystemName, metric: str) -> Tested | None:
        """A measure of a system beside that of another."""
        if against not in self._compared:
            return None
        for system in self._compared[against].systems:
            if system.name == entry.name and system.tested is not None:
                return system.tested.get(metric)
        return None

    def is_better(self, entry: Entry, than: SystemName, metric: str) -> bool:
        """Whether a system is significantly better than another."""
        tested = self.tested(entry, than, metric)
        p_value = tested.p_values[TEST][self.unit] if tested else None
        if tested is None or p_value is None or p_value >= LEVEL:
            return False
        return tested.difference < 0 if metric == "ter" else tested.difference > 0


def _percent(value: Value) -> Value:
    """METEOR's own scale ends at 1, the paper's at 100."""
    return Value(100 * value.mean, None if value.deviation is None else 100 * value.deviation)
