"""What ``wholedoc evaluate`` reads and prints."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from wholedoc.corpus.readers import SourceText, read_source_lines
from wholedoc.corpus.readers.inputs import marker_of
from wholedoc.corpus.readers.lines import NamedLines, align_lines
from wholedoc.errors import UserError
from wholedoc.metrics.comparison import UNITS, Column, Comparison, System
from wholedoc.metrics.metrics import EvaluationSet, Unit
from wholedoc.metrics.significance import TESTS

_LEVELS = ((0.01, "**"), (0.05, "*"))
_COLUMNS = 9  # that fit beside each other on a terminal

Outputs = dict[str, list[Sequence[str]]]


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
    named = [_parse_output(output) for output in outputs]
    paths = [ref, *([src] if src else []), *(file for _, file in named)]
    streams = [NamedLines.of(Path(path)) for path in paths]
    fix = "all files need the same sentences, line by line"
    lines = list(align_lines(*streams, fix=fix))
    text = read_source_lines(ref, doc)
    sizes = [len(lines)]
    if doc or text.boundaries == "marker-lines":
        sizes = [len(document.sentences) for document in text.documents]
        lines = _drop_markers(lines, text, paths)
    columns = list(zip(*lines, strict=True))
    systems: Outputs = {}
    for (name, _), column in zip(named, columns[-len(named) :], strict=True):
        systems.setdefault(name, []).append(column)
    src_lang, lang = languages
    return EvaluationSet(columns[0], sizes, columns[1] if src else None, lang, src_lang), systems


def _parse_output(output: str) -> tuple[str, str]:
    name, equals, file = output.partition("=")
    if not (name and equals and file):
        raise UserError(
            f"{output!r} names no system and its file", where="--sys", fix="write --sys NAME=FILE"
        )
    return name, file


def _drop_markers(
    lines: Sequence[tuple[str, ...]], ref: SourceText, paths: Sequence[str]
) -> list[tuple[str, ...]]:
    """The lines that are sentences of the references; other files have the same boundaries."""
    sentences = {sentence.index for document in ref.documents for sentence in document.sentences}
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


def print_comparison(comparison: Comparison) -> None:
    """A row per system, tests against the baseline, and what the numbers depend on."""
    console = Console(highlight=False)
    for start in range(0, len(comparison.columns), _COLUMNS):
        columns = comparison.columns[start : start + _COLUMNS]
        if any(column.name in comparison.signatures for column in columns):
            console.print(_score_table(comparison, columns), "")
    if len(comparison.systems) > 1:
        console.print(_test_table(comparison), "")
    for note in _remarks(comparison):
        console.print(note, soft_wrap=True, markup=False)


def _score_table(comparison: Comparison, columns: Sequence[Column]) -> Table:
    table = Table("", box=None, padding=(0, 1, 0, 0))
    for column in columns:
        arrow = " ↓" if column.lower_is_better else ""
        table.add_column(column.name.replace("_", " ") + arrow, justify="right")
    for system in comparison.systems:
        cells = [_cell(system, column, comparison) for column in columns]
        table.add_row(system.name, *cells)
    return table


def _cell(system: System, column: Column, comparison: Comparison) -> str:
    value = system.values.get(column.name)
    if value is None:
        return "–"
    cell = f"{value.mean:.{column.digits}f}{_mark(system, column, comparison):<2}"
    if value.deviation is not None:
        cell += f"\n±{value.deviation:.{column.digits}f}  "
    return cell


def _mark(system: System, column: Column, comparison: Comparison) -> str:
    """Stars for the randomisation test over documents, or over sentences where that is all."""
    if system.tested is None or column.name not in system.tested:
        return ""
    p_value = system.tested[column.name].p_values["randomisation"][_marked_unit(comparison)]
    if p_value is None:
        return ""
    return next((mark for level, mark in _LEVELS if p_value < level), "")


def _marked_unit(comparison: Comparison) -> Unit:
    return "document" if comparison.documents > 1 else "sentence"


def _test_table(comparison: Comparison) -> Table:
    """The p-values of what each metric is known for."""
    table = Table(f"against {comparison.baseline}", "", box=None, padding=(0, 1, 0, 0))
    table.add_column("Δ", justify="right")
    for test in TESTS:
        for unit in UNITS:
            table.add_column(f"{test}\n{unit}s, p", justify="right", no_wrap=True)
    known_for = [column for column in comparison.columns if column.name == column.metric]
    for system in comparison.systems:
        for column in known_for:
            if system.tested is None or column.name not in system.tested:
                continue
            tested = system.tested[column.name]
            p_values = [tested.p_values[test][unit] for test in TESTS for unit in UNITS]
            table.add_row(
                system.name,
                column.name.replace("_", " "),
                f"{tested.difference:+.{column.digits}f}",
                *("–" if p_value is None else f"{p_value:.4f}" for p_value in p_values),
            )
    return table


def _remarks(comparison: Comparison) -> list[str]:
    """What stands below the tables: marks, gaps, notes, signatures."""
    remarks = [
        f"{comparison.sentences:,} sentences, {comparison.documents:,} documents; "
        f"target language {comparison.lang}"
    ]
    if len(comparison.systems) > 1:
        unit = _marked_unit(comparison)
        remarks.append(
            f"* p < .05, ** p < .01 against {comparison.baseline}: randomisation over {unit}s"
        )
    if any(system.seeds > 1 for system in comparison.systems):
        seeds = ", ".join(f"{system.name} {system.seeds}" for system in comparison.systems)
        remarks.append(f"means and, after ±, standard deviations over seeds: {seeds}")
    for reason in dict.fromkeys(comparison.missing.values()):
        names = [name for name, given in comparison.missing.items() if given == reason]
        remarks.append(f"missing: {', '.join(names)}: {reason}")
    remarks += comparison.notes
    known_for = {
        column.metric: comparison.signatures.get(column.metric) for column in comparison.columns
    }
    remarks += [f"{metric}: {signature}" for metric, signature in known_for.items() if signature]
    return remarks + (list(comparison.tests.values()) if len(comparison.systems) > 1 else [])
