"""The demo: make a corpus, train on it, translate with it, show what the document context changed.

Four systems learn the same corpus: the sentence model, and document models with a source memory, a
target memory and both. Each document model is also made to read the memory of another document: a
gain that this control shares would be no gain from context.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from wholedoc.config import Config, load_config
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import read_corpus
from wholedoc.decoding.translator import Translator
from wholedoc.files import write_atomically
from wholedoc.metrics.phenomena import Phenomenon, measure, read_key
from wholedoc.metrics.scores import Score, corpus_bleu
from wholedoc.progress import say
from wholedoc.rendering.tables import escape, make_page, make_table
from wholedoc.synthetic import SynthConfig, write_synth
from wholedoc.synthetic.bounds import INFORMATION, KINDS, KeyItem, Kind
from wholedoc.synthetic.language import build_language
from wholedoc.training.stages import train

SYSTEMS = {
    "s-nmt": "the sentence model S-NMT",
    "src": "a document model with a source memory",
    "trg": "a document model with a target memory",
    "both": "a document model with both memories",
}


@dataclass(frozen=True)
class DemoMeasures:
    """What translations of the test set reached."""

    bleu: Score
    phenomena: dict[Kind, Phenomenon]

    def to_json(self) -> dict[str, Any]:
        """The measures, by their names on the command line."""
        kinds = self.phenomena
        return {
            "bleu": self.bleu.value,
            "signature": self.bleu.signature,
            "pronoun": kinds["pronoun"].accuracy,
            "topic": kinds["topic"].accuracy,
            "name_accuracy": kinds["name"].accuracy,
            "name_consistency": kinds["name"].consistency,
        }


@dataclass(frozen=True)
class DemoSystem:
    """A trained system and what it reached on the test set."""

    name: str
    measures: DemoMeasures
    shuffled: DemoMeasures | None
    """With the memory of another document; None for the sentence model."""
    translations: list[list[str]]

    def to_json(self) -> dict[str, Any]:
        """The measures, by their names on the command line."""
        shuffled = {} if self.shuffled is None else {"shuffled": self.shuffled.to_json()}
        return {"name": self.name, **self.measures.to_json(), **shuffled}


@dataclass(frozen=True)
class Tour:
    """All that the demo shows."""

    documents: list[Document]
    key: list[KeyItem]
    particles: tuple[str, str]
    """Target particles that stand beside a name, by the style of names."""
    systems: list[DemoSystem]

    def to_json(self) -> dict[str, Any]:
        """One object for ``demo --json``."""
        kinds = self.systems[0].measures.phenomena
        return {
            "systems": [system.to_json() for system in self.systems],
            "bounds": {kind: asdict(kinds[kind])["best"] for kind in KINDS},
        }


def run_demo(
    out: Path,
    seed: int = 1,
    configuration: str | Path = "tiny",
    settings: Sequence[str] = (),
    synth: SynthConfig | None = None,
) -> Tour:
    """Make the artificial corpus, train the four systems on it, translate, measure."""
    corpus = out / "corpus"
    synth = replace(synth or SynthConfig(), seed=seed)
    say("writing an artificial corpus in which some words depend on the rest of the document")
    write_synth(corpus, synth, force=True)
    for name in SYSTEMS:
        if (out / "runs" / name / "config.toml").exists():  # of an earlier tour
            shutil.rmtree(out / "runs" / name)
    files = [
        f"data.{split}.{side}={corpus / split}.{side}"
        for split in ("train", "dev", "test")
        for side in ("src", "trg", "doc")
    ]
    configs = {}
    for name in SYSTEMS:
        memory = [] if name == "s-nmt" else [f"model.memory={name}", "model.fusion=output"]
        chosen = [*files, f"seed={seed}", *memory, *settings]
        configs[name] = load_config(configuration, chosen)
    documents = list(read_corpus(configs["s-nmt"].data.test))
    key = read_key(corpus / "test.key.jsonl")
    systems = [
        _run_system(out / "runs" / name, config, documents, key) for name, config in configs.items()
    ]
    first, second, _ = build_language(synth).particles
    return Tour(documents, key, (first, second), systems)


def _run_system(
    run: Path, config: Config, documents: list[Document], key: list[KeyItem]
) -> DemoSystem:
    """Train one of the systems, named by its run directory, and translate the test set with it."""
    say(f"{run.name}: training {SYSTEMS[run.name]}, on this machine")
    train(config, run)
    say(f"{run.name}: translating the test set")
    translator = Translator.load(run)
    sources = [[pair.src for pair in document] for document in documents]
    references = [pair.trg for document in documents for pair in document]

    def translate(shuffle_memory: bool) -> tuple[DemoMeasures, list[list[str]]]:
        search = replace(config.search, shuffle_memory=shuffle_memory)
        translations = [d.sentences for d in translator.translate_documents(sources, search)]
        flat = [line for document in translations for line in document]
        return DemoMeasures(corpus_bleu(flat, references), measure(key, flat)), translations

    measures, translations = translate(shuffle_memory=False)
    shuffled = translate(shuffle_memory=True)[0] if translator.reads_documents else None
    return DemoSystem(run.name, measures, shuffled, translations)


# How the tour is shown: a table and a document in the terminal, the same as a page.

_COLUMNS = ["right, %", "BLEU", "pronouns", "topic words", "names", "consistency"]
_STYLES = {"right": "bold green", "wrong": "bold red underline", "": ""}


def draw_tour(tour: Tour) -> Group:
    """The measures and a sample document, for a terminal."""
    table = Table(title="Words that only the rest of the document can settle")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == _COLUMNS[0] else "right")
    for row in _rows(tour):
        table.add_row(*row)
    document, marked = _sample(tour)
    lines = [Text(f"Document {document.name}:", "bold")]
    width = max(len(name) for name in marked)
    for t, pair in enumerate(document):
        lines.append(Text(f"  {'':{width}}  {pair.src}", "dim"))
        for name, sentences in marked.items():
            pieces = ((text, _STYLES[mark]) for text, mark in sentences[t])
            lines.append(Text.assemble(f"  {name:{width}}  ", *pieces))
    return Group("", table, "", *lines)


def write_report(path: Path, tour: Tour) -> None:
    """The tour as one HTML page that opens from disk."""
    measures = [[escape(cell) for cell in row] for row in _rows(tour)]
    document, marked = _sample(tour)
    rows = []
    for t, pair in enumerate(document):
        translations = [
            "".join(
                f'<mark class="{mark}">{escape(text)}</mark>' if mark else escape(text)
                for text, mark in sentences[t]
            )
            for sentences in marked.values()
        ]
        rows.append([escape(pair.src), *translations, escape(pair.trg)])
    body = _BODY.format(
        measures=make_table(_COLUMNS, measures, "measures"),
        sample=make_table(["source", *map(escape, marked), "reference"], rows),
    )
    write_atomically(path, make_page("wholedoc demo", body))


def _rows(tour: Tour) -> list[list[str]]:
    """The measures of each system and its control, then the best that can be reached."""
    rows = []
    for system in tour.systems:
        rows.append([system.name, *_measured(system.measures)])
        if system.shuffled is not None:
            rows.append([f"{system.name}, shuffled", *_measured(system.shuffled)])
    kinds = tour.systems[0].measures.phenomena
    for information in INFORMATION:
        best = [kinds[kind].best[information] for kind in KINDS]
        bounds = [f"{100 * b.accuracy:.1f} ± {100 * b.deviation:.1f}" for b in best]
        label = "best: both sides" if information == "both" else f"best: {information}"
        rows.append([label, "", *bounds, _percent(best[-1].consistency)])
    return rows


def _measured(measures: DemoMeasures) -> list[str]:
    kinds = measures.phenomena
    accuracies = [_percent(kinds[kind].accuracy) for kind in KINDS]
    return [f"{measures.bleu.value:.1f}", *accuracies, _percent(kinds["name"].consistency)]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _sample(tour: Tour) -> tuple[Document, dict[str, list[list[tuple[str, str]]]]]:
    """The shortest document with every kind of item, as translated without and with context."""
    kinds = defaultdict(set)
    for item in tour.key:
        kinds[item.document].add(item.kind)
    whole = [d for d, doc in enumerate(tour.documents) if len(kinds[doc.name]) == len(KINDS)]
    d = min(whole or [0], key=lambda d: len(tour.documents[d]))
    shown = (tour.systems[0], tour.systems[-1])
    return tour.documents[d], {system.name: mark_items(tour, system, d) for system in shown}


def mark_items(tour: Tour, system: DemoSystem, d: int) -> list[list[tuple[str, str]]]:
    """The translation of a document in pieces, each with a mark: "", "right" or "wrong".

    Marked are the items of the key and, with a name, the particles that agree with its style.
    """
    lines = []
    for t, line in enumerate(system.translations[d]):
        place = (tour.documents[d].name, t)
        items = [item for item in tour.key if (item.document, item.sentence) == place]
        right = {item.expected for item in items}
        wrong = {word for item in items for word in item.alternatives}
        for item in items:
            if item.kind == "name":
                style = item.renderings.index(item.expected)
                right.add(tour.particles[style])
                wrong.add(tour.particles[1 - style])
        lines.append(
            [
                (piece, "right" if piece in right else "wrong" if piece in wrong else "")
                for piece in re.findall(r"\w+|\W+", line)
            ]
        )
    return lines


_BODY = """<h1>What the rest of the document changed</h1>
<p>The corpus is artificial: the gender behind a pronoun, the sense of an ambiguous word and the
rendering of a name are told elsewhere in the document. The generator knows the best accuracy any
translator can reach from each kind of knowledge; ± is one standard deviation on this test set.
<i>s-nmt</i> translates sentence by sentence; the others read the rest of the document through a
memory of its source, of its translations, or both. <i>Shuffled</i>, they read the memory of another
document instead: what is gained there is not gained from context. <i>Best</i> is what the sentence,
the source document, or both sides allow. Consistency is the share of pairs of names in a document
that are spelled in one style.</p>
{measures}
<h2>A document</h2>
<p>Words that depend on the document are marked: <mark class="right">right</mark> or
<mark class="wrong">wrong</mark>.</p>
{sample}"""
