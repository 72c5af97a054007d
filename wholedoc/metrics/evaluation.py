"""What ``wholedoc evaluate`` does: systems side by side, and tests against one of them.

A score is the mean over the outputs of a system, which differ by the seed of its training, and has
their standard deviation beside it. A test takes the mean statistics of a unit over the seeds, so
that all translations of a sentence or document are swapped or drawn together: they have its
difficulty, and the system's ways, in common. What is tested is thus the difference on other
sentences or documents; what other seeds would give is for the deviation to say.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np

from wholedoc import __version__
from wholedoc.corpus.readers import SourceText, read_source_lines
from wholedoc.corpus.readers.inputs import marker_of
from wholedoc.corpus.readers.lines import align_files
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.metrics.meteor import UnavailableError
from wholedoc.metrics.scores import METRICS, Array, EvaluationSet, Metric, Unit, sum_documents
from wholedoc.metrics.significance import TESTS, Pair, TestName
from wholedoc.metrics.words import PRONOUNS, has_lemmas
from wholedoc.progress import ProgressBar
from wholedoc.rendering.tables import (
    Row,
    Table,
    escape,
    escape_latex,
    make_page,
    mark_best,
    number_cell,
)

Outputs = dict[str, list[Sequence[str]]]
"""The outputs of each system, one for each seed of its training."""
UNITS: tuple[Unit, ...] = get_args(Unit)
FEWEST_UNITS = 6  # with fewer, no randomisation reaches p < .05: 2 / 2⁵ > .05
FEW_UNITS = 30  # with fewer, the bootstrap rejects equal systems in more than 6 % of all cases
_LANGUAGE = re.compile(r"[a-zA-Z]{2,3}([-_][a-zA-Z0-9]{2,8})*")
_LEVELS = ((0.01, "**"), (0.05, "*"))
Rows = list[int] | slice
"""Some rows of statistics."""
_ALL = slice(None)


@dataclass(frozen=True)
class Value:
    """A score of a system."""

    mean: float
    deviation: float | None
    """Over seeds, of a sample; None for a single one."""


@dataclass(frozen=True)
class Tested:
    """A score beside that of the baseline."""

    difference: float
    p_values: dict[TestName, dict[Unit, float | None]]
    """None where there is no such test: the notes say why."""


@dataclass(frozen=True)
class SystemScores:
    """What a system reached."""

    name: str
    seeds: int
    values: Mapping[str, Value]
    """By score; those that are missing are not here."""
    tested: Mapping[str, Tested] | None
    """By score; None for the baseline."""


@dataclass(frozen=True)
class _Counted:
    """The statistics of a metric, by system: one array for each seed."""

    metric: Metric
    statistics: Mapping[str, Sequence[Array]]

    def values(self, system: str, rows: Rows = _ALL) -> dict[str, Value]:
        sums = [statistics[rows].sum(axis=0) for statistics in self.statistics[system]]
        scores = np.array([self.metric.scores(each) for each in sums])
        many = len(scores) > 1
        deviations = scores.std(axis=0, ddof=1).tolist() if many else [None] * scores.shape[1]
        means = scores.mean(axis=0).tolist()
        return {
            name: Value(mean, deviation)
            for name, mean, deviation in zip(self.metric.names, means, deviations, strict=True)
            if not math.isnan(mean)
        }

    def units(self, system: str, unit: Unit, documents: Sequence[int]) -> Array:
        """The mean statistics of each unit over the seeds of a system."""
        rows: Array = np.mean(self.statistics[system], axis=0)
        return rows if unit == self.metric.unit else sum_documents(rows, documents)


@dataclass(frozen=True)
class AllCounts:
    """What all metrics have counted: from it systems are scored, and any two of them tested."""

    data: EvaluationSet
    metrics: Sequence[_Counted]
    missing: Mapping[str, str]
    """Scores that could not be computed, and why."""

    @property
    def signatures(self) -> dict[str, str]:
        """By score."""
        return {name: one.metric.signature for one in self.metrics for name in one.metric.names}

    def values(self, system: str) -> dict[str, Value]:
        """The scores of a system."""
        return {name: value for one in self.metrics for name, value in one.values(system).items()}

    def values_among(self, system: str, sentences: Sequence[int]) -> dict[str, Value]:
        """The scores of a system on some sentences, where they are scores of sentences."""
        counted = [one for one in self.metrics if one.metric.unit == "sentence"]
        found = [one.values(system, list(sentences)) for one in counted]
        return {name: value for values in found for name, value in values.items()}

    def statistics(self, system: str, name: str) -> Sequence[Array]:
        """What a score of a system is made from, one array for each seed; none if it is missing."""
        found = [one for one in self.metrics if name in one.metric.names]
        return found[0].statistics[system] if found else []

    def test(self, system: str, baseline: str, trials: int, seed: int) -> dict[str, Tested]:
        """The scores of a system beside those of another; the same seed, the same p-values."""
        base = self.values(baseline)
        tested = {}
        for name, own in self.values(system).items():
            if name in base:
                untested: dict[TestName, dict[Unit, float | None]] = {
                    test: dict.fromkeys(UNITS) for test in TESTS
                }
                tested[name] = Tested(own.mean - base[name].mean, untested)
        for unit, size in self.data.sizes.items():
            counted = [one for one in self.metrics if one.metric.unit in ("sentence", unit)]
            if size == 1 or not counted:
                continue
            pairs = []
            for one in counted:
                rows = [one.units(name, unit, self.data.documents) for name in (system, baseline)]
                pairs.append(Pair(rows[0], rows[1], one.metric.scores))
            for test, run in TESTS.items():
                for one, found in zip(counted, run(pairs, trials, seed), strict=True):
                    for name, p_value in zip(one.metric.names, found.tolist(), strict=True):
                        if name in tested:
                            tested[name].p_values[test][unit] = p_value
        return tested


@dataclass(frozen=True)
class Comparison:
    """All systems, and all that their numbers depend on."""

    counts: AllCounts
    baseline: str
    columns: Mapping[str, type[Metric]]
    """The metric of each score, those that are missing too."""
    systems: Sequence[SystemScores]
    tests: Mapping[TestName, str]
    """The signature of each test."""
    notes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """One object for ``evaluate --json``."""
        sizes = self.counts.data.sizes
        return {
            "sentences": sizes["sentence"],
            "documents": sizes["document"],
            "lang": self.counts.data.lang,
            "baseline": self.baseline,
            "tests": dict(self.tests),
            "notes": list(self.notes),
            "systems": [self._system_json(system) for system in self.systems],
        }

    def _system_json(self, system: SystemScores) -> dict[str, Any]:
        found = {name: system.values.get(name) for name in self.columns}
        against: dict[str, Any] | None = None
        if system.tested is not None:
            against = {"baseline": self.baseline}
            for name, tested in system.tested.items():
                against[name] = {"difference": tested.difference, **tested.p_values}
        return {
            "name": system.name,
            "seeds": system.seeds,
            "scores": {name: value and value.mean for name, value in found.items()},
            "deviations": {name: value and value.deviation for name, value in found.items()},
            "signatures": self.counts.signatures,
            "missing": {n: why for n, why in self.counts.missing.items() if found[n] is None},
            "against": against,
        }


def compare(
    data: EvaluationSet,
    systems: Mapping[str, Sequence[Sequence[str]]],
    baseline: str = "",
    trials: int = 10_000,
    seed: int = 1,
    without: Collection[str] = (),
) -> Comparison:
    """Score systems, each given as the outputs of its seeds, and test them against ``baseline``.

    The baseline is the first system unless it is named; an output has one line for each reference.
    Metrics ``without`` are left out. The same ``seed`` gives the same p-values.
    """
    baseline = baseline or next(iter(systems))
    _check_known("system", baseline, systems, "the baseline")
    counts = count_systems(data, systems, without)
    compared = []
    for name, outputs in systems.items():
        tested = None if name == baseline else counts.test(name, baseline, trials, seed)
        compared.append(SystemScores(name, len(outputs), counts.values(name), tested))
    return Comparison(
        counts=counts,
        baseline=baseline,
        columns={name: metric for metric in METRICS.values() for name in metric.names},
        systems=compared,
        tests={test: describe_test(test, trials, seed) for test in TESTS},
        notes=_language_notes(data) + (_test_notes(counts) if len(systems) > 1 else []),
    )


def _check_known(kind: str, name: str, known: Collection[str], where: str) -> None:
    if name not in known:
        fix = f"name one of {', '.join(known)}"
        raise UserError(f"there is no {kind} {name!r}", where=where, fix=fix)


def describe_test(test: TestName, trials: int, seed: int) -> str:
    """All that the p-values of a test depend on."""
    return f"{test}|sides:2|trials:{trials}|seed:{seed}|wholedoc:{__version__}"


def count_systems(
    data: EvaluationSet,
    systems: Mapping[str, Sequence[Sequence[str]]],
    without: Collection[str] = (),
) -> AllCounts:
    """Count systems, each given as the outputs of its seeds, with all metrics but ``without``."""
    for name in without:
        _check_known("metric", name, METRICS, "without")
    for name, seeds in systems.items():
        for output in seeds:
            if len(output) != len(data.references):
                raise UserError(
                    f"has {len(output)} translations of {len(data.references)} sentences",
                    where=f"system {name!r}",
                    fix="give one line for each reference",
                )
    counted: list[_Counted] = []
    missing: dict[str, str] = {}
    outputs = [output for seeds in systems.values() for output in seeds]
    words = sum(len(line.split()) for output in outputs for line in output)
    with ProgressBar("evaluating", len(METRICS)) as bar:
        for name, make in METRICS.items():
            bar.advance(0, label=f"evaluating: {name}")
            try:
                if name in without:
                    raise UnavailableError("left out as asked")
                metric = make(data)
                arrays = iter(metric.statistics(outputs))
            except UnavailableError as error:
                missing |= dict.fromkeys(make.names, str(error))
            else:
                by_system = {
                    system: list(islice(arrays, len(seeds))) for system, seeds in systems.items()
                }
                counted.append(_Counted(metric, by_system))
                found = [set(counted[-1].values(system)) for system in systems]
                empty = [score for score in make.names if not all(score in each for each in found)]
                missing |= dict.fromkeys(empty, "there is nothing to count")
            bar.advance(1, words)
    return AllCounts(data, counted, missing)


def _language_notes(data: EvaluationSet) -> list[str]:
    """What cannot be done for the languages given."""
    notes = []
    for language in dict.fromkeys((data.src_lang, data.lang)):
        missing = [] if has_lemmas(language) else ["lemmas (words are compared as written)"]
        missing += [] if language in PRONOUNS else ["table of pronouns"]
        if language and missing:
            notes.append(f"language {language!r} has no {' and no '.join(missing)}")
    return notes


def _test_notes(counts: AllCounts) -> list[str]:
    """What the reader of p-values has to know."""
    notes = []
    for unit, size in counts.data.sizes.items():
        if size == 1:
            notes.append(f"no test over {unit}s: there is only one {unit}")
        elif size < FEWEST_UNITS:
            notes.append(
                f"only {size} {unit}s: no test over them can tell, as randomisation cannot reach "
                "p < .05 and the bootstrap rejects too often"
            )
        elif size < FEW_UNITS:
            notes.append(
                f"only {size} {unit}s: the bootstrap over them rejects too often; "
                "randomisation does not"
            )
    metrics = [one.metric for one in counts.metrics if one.metric.unit == "document"]
    names = ", ".join(name for metric in metrics for name in metric.names)
    return notes + ([f"no test over sentences for {names}: counted by document"] if names else [])


# Reading.


def read_evaluation(
    ref: str,
    outputs: Sequence[str],
    src: str = "",
    doc: str = "",
    languages: tuple[str, str] = ("", "en"),
) -> tuple[EvaluationSet, Outputs]:
    """Read references and outputs, line by line, plain or gzipped.

    An output is given as ``NAME=FILE``; of one name, they are seeds of one system. Documents are
    those of ``doc``, document ids or start lines, else those between marker lines, else all is one.
    ``languages`` are source and target.
    """
    for option, code in zip(("--src-lang", "--lang"), languages, strict=True):
        if code and not _LANGUAGE.fullmatch(code):
            raise UserError(
                f"{code!r} is no language code", where=option, fix="give one such as de, en or et"
            )
    names, files = [], []
    for output in outputs:
        name, _, file = output.partition("=")
        if not (name and file):
            what = f"{output!r} names no system and its file"
            raise UserError(what, where="--sys", fix="write --sys NAME=FILE")
        names.append(name)
        files.append(file)
    paths = [ref, *([src] if src else []), *files]
    fix = "all files need the same sentences, line by line"
    lines = list(align_files(*map(Path, paths), fix=fix))
    text = read_source_lines(ref, doc)
    sizes = [len(lines)]
    if doc or text.boundaries == "marker-lines":
        sizes = [len(document.sentences) for document in text.documents]
        lines = _drop_markers(lines, text, paths)
    columns = list(zip(*lines, strict=True))
    systems: Outputs = {}
    for name, column in zip(names, columns[-len(names) :], strict=True):
        systems.setdefault(name, []).append(column)
    src_lang, lang = languages
    return EvaluationSet(columns[0], sizes, columns[1] if src else None, lang, src_lang), systems


def _drop_markers(
    lines: Sequence[tuple[str, ...]], ref: SourceText, paths: Sequence[str]
) -> list[tuple[str, ...]]:
    """The lines that are sentences of the references; other files have the same boundaries."""
    sentences = {index for document in ref.documents for index, _ in document.sentences}
    for number in set(range(len(lines))) - sentences:
        for path, line in zip(paths, lines[number], strict=True):
            if marker_of(line) != marker_of(lines[number][0]):
                raise UserError(
                    f"no document boundary, where {paths[0]} has one",
                    where=f"{path}:{number + 1}",
                    fix="put it into all files, or into none and give --doc",
                )
    if not sentences:
        raise UserError("holds no sentence", where=paths[0], fix="give the references")
    return [lines[index] for index in sorted(sentences)]


# Showing.


def format_comparison(comparison: Comparison, width: int) -> str:
    """The scores, the tests and all that they depend on, for a terminal."""
    tables = [f"{table.title}\n{table.to_text(width)}" for table in make_tables(comparison)]
    return "\n".join([*tables, *_remarks(comparison)])


def check_format(path: Path) -> None:
    """Refuse a file whose ending names no format, before long work."""
    if path.suffix not in _FORMATS:
        raise UserError(
            f"the ending {path.suffix!r} names no format" if path.suffix else "has no ending",
            where=f"--out {path}",
            fix=f"end it with one of {', '.join(_FORMATS)}",
        )


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the same tables and remarks as a file of the format that its ending names."""
    text = _FORMATS[path.suffix](make_tables(comparison), _remarks(comparison))
    write_atomically(path, text)


def _to_html(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    parts = [f"<h2>{escape(table.title)}</h2>{table.to_html()}" for table in tables]
    items = "".join(f"<li>{escape(remark)}</li>" for remark in remarks)
    body = f'<h1>Evaluation</h1>{"".join(parts)}<ul class="note">{items}</ul>'
    return make_page("wholedoc evaluate", body)


def _to_markdown(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    parts = [f"## {table.title}\n\n{table.to_markdown()}\n" for table in tables]
    return "\n".join(["# Evaluation\n", *parts, *(f"- {remark}" for remark in remarks)]) + "\n"


def _to_csv(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    del remarks  # a program reads it
    return "\n".join(table.to_csv() for table in tables)


def _to_latex(tables: Sequence[Table], remarks: Sequence[str]) -> str:
    parts = [f"% {table.title}; needs booktabs\n{table.to_latex()}" for table in tables]
    return "\n".join([*parts, *(f"% {escape_latex(remark)}" for remark in remarks)]) + "\n"


_FORMATS = {".html": _to_html, ".md": _to_markdown, ".csv": _to_csv, ".tex": _to_latex}


def make_tables(comparison: Comparison) -> list[Table]:
    """A row of scores for each system, then a row for each test against the baseline."""
    tables = [_score_table(comparison)]
    if len(comparison.systems) > 1:
        tables.append(_test_table(comparison))
    return tables


def _score_table(comparison: Comparison) -> Table:
    """Means with marks, the best of each column, and standard deviations below."""
    systems = comparison.systems
    found = {name for system in systems for name in system.values}
    columns = {name: metric for name, metric in comparison.columns.items() if name in found}
    means, deviations = [], []
    for system in systems:
        above, below = [], []
        for name, metric in columns.items():
            value, form = system.values.get(name), f".{metric.digits}f"
            mark = _mark(system, name, _marked_unit(comparison))
            above.append(number_cell(value.mean if value else None, form, after=mark))
            below.append(number_cell(value.deviation if value else None, form, before="±"))
        means.append(Row(system.name, tuple(above)))
        deviations.append(Row(f"± of {system.seeds} seeds", tuple(below)))
    for n, metric in enumerate(columns.values()):
        means = mark_best(means, (n,), lowest=metric.lower_is_better)
    rows: list[Row] = []
    for system, mean, deviation in zip(systems, means, deviations, strict=True):
        rows += [mean, deviation] if system.seeds > 1 else [mean]
    headings = [_heading(name, metric) for name, metric in columns.items()]
    return Table("scores", "Scores", {"": headings}, rows)


def _heading(name: str, metric: type[Metric]) -> str:
    return name.replace("_", " ") + (" ↓" if metric.lower_is_better else "")


def _mark(system: SystemScores, name: str, unit: Unit) -> str:
    """Stars for the randomisation test."""
    tested = (system.tested or {}).get(name)
    p_value = tested.p_values["randomisation"][unit] if tested else None
    return next((mark for level, mark in _LEVELS if p_value is not None and p_value < level), "")


def _marked_unit(comparison: Comparison) -> Unit:
    return "document" if comparison.counts.data.sizes["document"] > 1 else "sentence"


def _test_table(comparison: Comparison) -> Table:
    """The p-values of every score, those without a mark too."""
    rows = []
    for system in comparison.systems:
        for name, tested in (system.tested or {}).items():
            metric = comparison.columns[name]
            p_values = [tested.p_values[test][unit] for test in TESTS for unit in UNITS]
            cells = [number_cell(tested.difference, f"+.{metric.digits}f")]
            cells += [number_cell(p_value, ".4f") for p_value in p_values]
            rows.append(Row(f"{system.name}, {_heading(name, metric)}", tuple(cells)))
    units = [f"{unit}s" for unit in UNITS]
    title = f"Tests against {comparison.baseline}: differences and p-values"
    return Table("tests", title, {"": ["Δ"], **dict.fromkeys(TESTS, units)}, rows)


def _remarks(comparison: Comparison) -> list[str]:
    """What stands below the tables: marks, gaps, notes, signatures."""
    counts = comparison.counts
    sizes = ", ".join(f"{size:,} {unit}s" for unit, size in counts.data.sizes.items())
    remarks = [f"{sizes}; target language {counts.data.lang}"]
    if len(comparison.systems) > 1:
        unit = _marked_unit(comparison)
        remarks.append(
            f"* p < .05, ** p < .01 against {comparison.baseline}: randomisation over {unit}s"
        )
    if any(system.seeds > 1 for system in comparison.systems):
        remarks.append("means over seeds, and below them, after ±, their standard deviations")
    for reason in dict.fromkeys(counts.missing.values()):
        names = [name for name, given in counts.missing.items() if given == reason]
        remarks.append(f"missing: {', '.join(names)}: {reason}")
    remarks += comparison.notes
    remarks += [f"{one.metric.names[0]}: {one.metric.signature}" for one in counts.metrics]
    return remarks + (list(comparison.tests.values()) if len(comparison.systems) > 1 else [])
