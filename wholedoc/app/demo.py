"""The tour: make a corpus, train on it, translate with it, see what the document context changed.

Four systems learn the same corpus: the sentence model, and document models with a source memory, a
target memory and both. Each document model is also made to read the memory of another document: a
gain that this control shares would be no gain from context.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wholedoc.config import Config, load_config
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import read_corpus
from wholedoc.decoding.translator import Translator
from wholedoc.metrics.phenomena import Phenomena, measure, read_key
from wholedoc.metrics.scores import Score, corpus_bleu
from wholedoc.progress import say
from wholedoc.synthetic import SynthConfig, write_synth
from wholedoc.synthetic.bounds import KINDS, KeyItem
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
    phenomena: Phenomena

    def to_json(self) -> dict[str, Any]:
        """The measures, by their names on the command line."""
        kinds = self.phenomena.kinds
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
        shown = {"name": self.name, **self.measures.to_json()}
        if self.shuffled is not None:
            shown["shuffled"] = self.shuffled.to_json()
        return shown


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
        best = self.systems[0].measures.phenomena.to_json()
        return {
            "systems": [system.to_json() for system in self.systems],
            "bounds": {kind: best[kind]["best"] for kind in KINDS},
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
    settings_of_corpus = replace(synth or SynthConfig(), seed=seed)
    say("writing an artificial corpus in which some words depend on the rest of the document")
    write_synth(corpus, settings_of_corpus, force=True)
    for name in SYSTEMS:
        if (out / "runs" / name / "config.toml").exists():  # of an earlier tour
            shutil.rmtree(out / "runs" / name)
    configs = {name: demo_config(corpus, seed, name, configuration, settings) for name in SYSTEMS}
    systems = [run_system(out / "runs" / name, config) for name, config in configs.items()]
    documents = list(read_corpus(configs["s-nmt"].data.test))
    first, second, _ = build_language(settings_of_corpus).particles
    return Tour(documents, read_key(corpus / "test.key.jsonl"), (first, second), systems)


def run_system(run: Path, config: Config) -> DemoSystem:
    """Train one of the systems, named by its run directory, and translate the test set with it."""
    say(f"{run.name}: training {SYSTEMS[run.name]}, on this machine")
    train(config, run)
    say(f"{run.name}: translating the test set")
    return _measure_system(run, config)


def demo_config(
    corpus: Path,
    seed: int,
    name: str,
    configuration: str | Path = "tiny",
    settings: Sequence[str] = (),
) -> Config:
    """A configuration on the corpus of the demo, for one of its systems."""
    files = [
        f"data.{split}.{side}={corpus / split}.{side}"
        for split in ("train", "dev", "test")
        for side in ("src", "trg", "doc")
    ]
    memory = [] if name == "s-nmt" else [f"model.memory={name}", "model.fusion=output"]
    return load_config(configuration, [*files, f"seed={seed}", *memory, *settings])


def _measure_system(run: Path, config: Config) -> DemoSystem:
    documents = list(read_corpus(config.data.test))
    key = read_key(Path(config.data.test.src).with_suffix(".key.jsonl"))
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
