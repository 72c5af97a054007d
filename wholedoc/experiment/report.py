"""The report of an experiment: one HTML page, Markdown and JSON, all from the same values.

A report is a function of what lies on disk.
"""

import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from wholedoc.experiment import tables
from wholedoc.experiment.grid import BASELINE, Job, SystemName
from wholedoc.experiment.results import Results, RunResults
from wholedoc.experiment.tables import FUSIONS, LABELS, CellMaker
from wholedoc.files import write_atomically
from wholedoc.rendering.charts import Figure, draw_heat_map
from wholedoc.rendering.page import escape, make_page
from wholedoc.rendering.tables import Cell, Row, Table, join_parts

_PIECE = re.compile(r"\w+|\W+")
# Examples come from the first of these that is there.
_PREFERRED: tuple[SystemName, ...] = tuple(
    fusion[memory] for memory in ("both", "src", "trg") for fusion in FUSIONS.values()
)


@dataclass(frozen=True)
class Example:
    """A sentence of the test set in all its translations."""

    kind: str
    """Why it was chosen: "largest gain" or "largest loss"."""
    system: SystemName
    """Whose gain or loss it is."""
    seed: int
    document: int
    """The index of the document in the test set."""
    document_name: str
    sentence: int
    """The index of the sentence in its document."""
    change: float
    """chrF of the system's translation minus that of the sentence model's."""
    src: str
    trg: str
    translations: dict[SystemName, str]
    weights: dict[str, Tensor]
    """Which sentences each sentence of the document read, by memory."""

    def to_json(self) -> dict[str, Any]:
        """All but the weights of the sentences around it."""
        plain = {name: value for name, value in vars(self).items() if name != "weights"}
        read = {side: matrix[self.sentence].tolist() for side, matrix in self.weights.items()}
        return {**plain, "weights": read}


@dataclass(frozen=True)
class Examples:
    """The sentences that stand where the paper has its Table 7."""

    chosen: tuple[Example, ...]
    name: str = "Table 7"
    title: str = "Examples"
    note: str = (
        "Chosen by rule, not by hand as in the paper: of all sentences of the test set, the one "
        "whose chrF rises most from S-NMT to the system with both memories, and the one whose chrF "
        "falls most."
    )

    def to_html(self) -> str:
        """Each sentence with its translations and the weights of its document."""
        return f'<p class="note">{escape(self.note)}</p>' + _html_examples(self.chosen)

    def to_markdown(self) -> str:
        """Each sentence with its translations."""
        return join_parts([self.note, *map(_markdown_example, self.chosen)])


Block = Table | Figure | Examples


@dataclass(frozen=True)
class Report:
    """All that the page shows, in order."""

    title: str
    facts: dict[str, str]
    """What was done, for the head of the page."""
    failed: dict[str, str]
    """The runs that failed, and why."""
    blocks: list[Block]
    signatures: dict[str, str]
    """How each measure was computed."""
    missing: dict[str, str]
    """Measures that could not be computed, and why."""

    def to_json(self) -> dict[str, Any]:
        """Every number of the report."""
        return {
            "title": self.title,
            "facts": self.facts,
            "failed": self.failed,
            "tables": [block.to_json() for block in self.blocks if isinstance(block, Table)],
            "figures": [block.to_json() for block in self.blocks if isinstance(block, Figure)],
            "examples": [
                example.to_json()
                for block in self.blocks
                if isinstance(block, Examples)
                for example in block.chosen
            ],
            "signatures": self.signatures,
            "missing": self.missing,
        }


def build_report(results: Results) -> Report:
    """Measure everything and put it where the paper has it."""
    make = CellMaker(results)
    blocks: list[Block] = [
        tables.corpora_table(make),
        tables.main_table(make),
        tables.parameter_table(make),
        tables.local_context_table(make),
        tables.unigram_table(make),
        tables.target_context_table(make),
        tables.larger_corpus_figure(make),
        Examples(tuple(choose_examples(results))),
    ]
    if results.experiment.key is not None:
        blocks.append(tables.artificial_table(make, results.experiment.key))
    blocks += [
        tables.discourse_table(make),
        tables.context_use_table(make),
        tables.distance_figure(make),
        tables.metric_table(make),
        tables.learning_figure(make),
        tables.passes_figure(make),
        tables.resource_table(make),
    ]
    return Report(
        title=make.config.title or results.experiment.out.name,
        facts=_facts(make),
        failed=results.failed,
        blocks=blocks,
        signatures=make.scores.signatures,
        missing=dict(make.scores.counts.missing),
    )


def _facts(make: CellMaker) -> dict[str, str]:
    """What was done."""
    jobs = make.results.experiment.jobs()
    config, data = make.results.config, make.results.config.data
    vocabulary = config.vocabulary
    return {
        "runs": f"{len(make.results.runs)} of {len(jobs)} finished",
        "seeds": ", ".join(map(str, make.config.seeds)),
        "configuration": make.config.config,
        "model": f"{config.model.hidden} hidden, {config.model.embedding} embedding, "
        f"{config.model.alignment} alignment",
        "vocabulary": f"{vocabulary.kind}s, "
        + ("shared" if vocabulary.shared else "one for each side"),
        "test set": "artificial" if make.config.synth else data.test.src,
        "translation": f"beam {config.search.beam}, {config.search.passes} "
        f"pass{'es' if config.search.passes != 1 else ''} after the first translations",
    }


def choose_examples(results: Results) -> list[Example]:
    """The sentence that gains most from a memory and the one that loses most, in chrF.

    The system is the paper's best, with both memories to context, or the next that is there; the
    seed is the first with which it and the sentence model were trained. Of equals the first counts.
    """
    for system in _PREFERRED:
        for run in results.of(system):
            base = results.runs.get(Job(BASELINE, run.job.seed))
            if base is not None:
                return _extremes(results, run, base)
    return []


def _extremes(results: Results, run: RunResults, base: RunResults) -> list[Example]:
    metric = CHRF()
    changes = [
        metric.sentence_score(ours, [reference]).score
        - metric.sentence_score(theirs, [reference]).score
        for ours, theirs, reference in zip(
            run.translations, base.translations, results.references, strict=True
        )
    ]
    lines = range(len(changes))
    gain, loss = max(lines, key=changes.__getitem__), min(lines, key=changes.__getitem__)
    examples = []
    if changes[gain] > 0:
        examples.append(_example(results, run, "largest gain", gain, changes[gain]))
    if changes[loss] < 0:
        examples.append(_example(results, run, "largest loss", loss, changes[loss]))
    return examples


def _example(results: Results, run: RunResults, kind: str, line: int, change: float) -> Example:
    fusion = run.job.system.partition("-")[2]
    shown = (BASELINE, f"src-{fusion}", f"trg-{fusion}", f"both-{fusion}", "wang2017")
    translations = {
        job.system: found.translations[line]
        for job, found in results.runs.items()
        if job.seed == run.job.seed and not job.larger and job.system in shown
    }
    document, sentence = 0, line
    while sentence >= results.sizes[document]:
        sentence -= results.sizes[document]
        document += 1
    pair = results.documents[document].pairs[sentence]
    return Example(
        kind,
        run.job.system,
        run.job.seed,
        document,
        results.documents[document].name,
        sentence,
        change,
        pair.src,
        pair.trg,
        translations,
        run.document_weights(document),
    )


def write_reports(report: Report, out: Path) -> list[Path]:
    """Write ``report.html``, ``report.md`` and ``report.json`` into a directory."""
    texts = {
        "report.html": format_html(report),
        "report.md": format_markdown(report),
        "report.json": json.dumps(report.to_json(), ensure_ascii=False, indent=1) + "\n",
    }
    for name, text in texts.items():
        write_atomically(out / name, text)
    return [out / name for name in texts]


def format_markdown(report: Report) -> str:
    """The report as Markdown; figures as tables of their points."""
    parts = [f"# {report.title}", _bullets(report.facts)]
    if report.failed:
        parts += ["## Failed runs", _bullets(report.failed)]
    for block in report.blocks:
        parts += [f"## {_heading(block)}", block.to_markdown()]
    parts += ["## Signatures", _bullets(report.signatures)]
    if report.missing:
        parts += ["## Missing measures", _bullets(report.missing)]
    return join_parts(parts) + "\n"


def _heading(block: Block) -> str:
    return f"{block.name}: {block.title}"


def _bullets(values: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in values.items())


def _markdown_example(example: Example) -> str:
    texts = {"Source": example.src, "Target": example.trg}
    texts |= {LABELS[system]: text for system, text in example.translations.items()}
    rows = tuple(Row(name, (Cell(text),)) for name, text in texts.items())
    return join_parts([_choice(example), Table("", "", (("", ""),), rows).to_markdown()])


def _choice(example: Example) -> str:
    """Why a sentence is shown."""
    return (
        f"{example.kind.capitalize()}: sentence {example.sentence + 1} of {example.document_name}, "
        f"chrF {example.change:+.1f} ({LABELS[example.system]} over S-NMT, seed {example.seed})."
    )


# HTML.


def format_html(report: Report) -> str:
    """The report as one page that needs nothing else."""
    sections = (
        f'<section id="{_anchor(block)}"><h2>{escape(_heading(block))}</h2>'
        f"{block.to_html()}</section>"
        for block in report.blocks
    )
    contents = "".join(
        f'<li><a href="#{_anchor(block)}">{escape(_heading(block))}</a></li>'
        for block in report.blocks
    )
    body = (
        f"<h1>{escape(report.title)}</h1>\n{_html_facts(report.facts)}\n"
        f"{_html_failed(report.failed)}\n<nav><h2>Contents</h2><ol>{contents}</ol></nav>\n"
        f"{''.join(sections)}\n"
        '<section id="signatures"><h2>Signatures</h2><p class="note">All that repeats the numbers '
        f"above.</p>{_html_facts(report.signatures | _missing(report))}</section>"
    )
    return make_page(report.title, body, style="experiment.css")


def _missing(report: Report) -> dict[str, str]:
    return {name: f"missing: {reason}" for name, reason in report.missing.items()}


def _anchor(block: Block) -> str:
    return block.name.lower().replace(" ", "-")


def _html_facts(facts: dict[str, str]) -> str:
    rows = (f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
    return f"<dl>{''.join(rows)}</dl>"


def _html_failed(failed: dict[str, str]) -> str:
    if not failed:
        return ""
    return f'<div class="failed"><h2>Failed runs</h2>{_html_facts(failed)}</div>'


def _html_examples(examples: Sequence[Example]) -> str:
    if not examples:
        return "<p>No translation differs.</p>"
    return (
        '<p class="note"><mark class="right">Blue</mark> words stand in the reference and not in '
        'every translation shown, <mark class="wrong">red</mark> ones not in the reference. The '
        "maps show which sentences each sentence reads in the last pass; the framed row is the "
        f"sentence shown.</p>{''.join(map(_html_example, examples))}"
    )


def _html_example(example: Example) -> str:
    rows = [("Source", escape(example.src)), ("Target", escape(example.trg))]
    everywhere = _words(example.trg).intersection(*map(_words, example.translations.values()))
    for system, text in example.translations.items():
        rows.append((LABELS[system], _marked(text, example.trg, everywhere)))
    body = "".join(f"<tr><th>{escape(name)}</th><td>{text}</td></tr>" for name, text in rows)
    maps = "".join(
        draw_heat_map(weights, f"{side.capitalize()} memory", side, example.sentence)
        for side, weights in example.weights.items()
    )
    return (
        f"<h3>{escape(_choice(example))}</h3>"
        f'<div class="wide"><table class="example">{body}</table></div>'
        f'<div class="maps">{maps}</div>'
    )


def _marked(text: str, reference: str, everywhere: Set[str]) -> str:
    """A translation with the words marked that tell it from the reference and from others."""
    known = _words(reference)
    pieces = []
    for piece in _PIECE.findall(text):
        word, shown = piece.lower(), escape(piece)
        if not piece[0].isalnum() or word in everywhere:
            pieces.append(shown)
        else:
            kind = "right" if word in known else "wrong"
            pieces.append(f'<mark class="{kind}">{shown}</mark>')
    return "".join(pieces)


def _words(text: str) -> set[str]:
    return set(_PIECE.findall(text.lower()))
