"""The cells of a report: a measure of a system, or why there is none."""

from collections.abc import Sequence
from math import fsum

from wholedoc.experiment.grid import SystemName
from wholedoc.experiment.results import Results
from wholedoc.experiment.scores import Entry, Scores
from wholedoc.rendering.tables import Cell, Row

MEMORIES = ("src", "trg", "both")
FUSIONS: dict[str, dict[str, SystemName]] = {
    "Memory-to-Context": {"src": "src-context", "trg": "trg-context", "both": "both-context"},
    "Memory-to-Output": {"src": "src-output", "trg": "trg-output", "both": "both-output"},
}
LABELS: dict[SystemName, str] = {
    "s-nmt": "S-NMT",
    "src-context": "+src mem, to context",
    "trg-context": "+trg mem, to context",
    "both-context": "+both mems, to context",
    "src-output": "+src mem, to output",
    "trg-output": "+trg mem, to output",
    "both-output": "+both mems, to output",
    "jean2017": "Jean et al. (2017)",
    "wang2017": "Wang et al. (2017)",
    "prevtrg": "+prev trg",
    "more": "S-NMT, more training",
}
COLOURS: dict[SystemName, int] = {
    "s-nmt": 0,
    "src-context": 1,
    "trg-context": 2,
    "both-context": 3,
    "src-output": 1,
    "trg-output": 2,
    "both-output": 3,
    "jean2017": 4,
    "wang2017": 5,
    "prevtrg": 6,
    "more": 7,
}
NONE = Cell("–")
SPREAD = "± standard deviation over the seeds"


class CellMaker:
    """Makes the cells and rows of tables from what an experiment has left."""

    def __init__(self, results: Results) -> None:
        self.results = results
        self.config = results.experiment.config
        self.scores = Scores(results)

    def cell(self, entry: Entry, metric: str, marks: str = "") -> Cell:
        """The mean over the seeds; what is missing is said."""
        found = self.scores.measured(entry, metric)
        if found is None:
            return Cell(self.absence(entry) or "missing")
        seeds, runs = len(self.config.seeds), len(self.scores.runs(entry))
        spread = f" ± {found.deviation:.2f}" if found.deviation is not None else ""
        fewer = f" ({runs} of {seeds} seeds)" if runs < seeds else ""
        return Cell(f"{found.mean:.2f}{spread}{marks}{fewer}", found.mean)

    def absence(self, entry: Entry) -> str:
        """Why a system has no numbers; empty where it has some."""
        if entry.system not in self.config.systems:
            return "not asked for"
        if self.scores.runs(entry):
            return ""
        names = [job.name for job in entry.jobs(self.config.seeds)]
        reasons = [self.results.failed[name] for name in names if name in self.results.failed]
        if not reasons:
            return "not finished"
        return "skipped" if reasons[0].startswith("skipped") else "failed"

    def scored(
        self,
        label: str,
        entry: Entry,
        metrics: Sequence[str],
        against: dict[str, SystemName] | None = None,
        block: int = 0,
    ) -> Row:
        """A row of measures, each marked where it is significantly better than a system."""
        cells = []
        for metric in metrics:
            marks = [
                mark
                for mark, system in (against or {}).items()
                if self.scores.is_better(entry, system, metric)
            ]
            cells.append(self.cell(entry, metric, "".join(marks)))
        return Row(label, tuple(cells), block)


def count_cell(number: int) -> Cell:
    """A whole number."""
    return Cell(f"{number:,}", number)


def mean_cell(values: Sequence[float], digits: int = 1) -> Cell:
    """The mean of some values."""
    value = fsum(values) / len(values)
    return Cell(f"{value:,.{digits}f}", value)


def share_cell(values: Sequence[float | None]) -> Cell:
    """The mean of shares, in per cent; those that do not exist do not count."""
    known = [100 * value for value in values if value is not None]
    return mean_cell(known) if known else NONE
