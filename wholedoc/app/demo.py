"""The tour: make a corpus, train on it, translate with it, and see what a sentence cannot know."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wholedoc.app.translator import Translator
from wholedoc.config import Config, load_config
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.synth import KINDS, KeyItem, SynthConfig, write_synth
from wholedoc.evaluation.metrics import corpus_bleu
from wholedoc.evaluation.phenomena import Phenomena, measure, read_key
from wholedoc.progress import say
from wholedoc.training.stages import train


@dataclass(frozen=True)
class System:
    """A trained system and what it reached on the test set."""

    name: str
    bleu: float
    signature: str
    phenomena: Phenomena
    translations: list[list[str]]

    def to_json(self) -> dict[str, Any]:
        """The measures, by their names on the command line."""
        kinds = self.phenomena.kinds
        return {
            "name": self.name,
            "bleu": self.bleu,
            "signature": self.signature,
            "pronoun": kinds["pronoun"].accuracy,
            "topic": kinds["topic"].accuracy,
            "name_accuracy": kinds["name"].accuracy,
            "name_consistency": kinds["name"].consistency,
        }


@dataclass(frozen=True)
class Tour:
    """All that the demo shows."""

    documents: list[Document]
    key: list[KeyItem]
    systems: list[System]

    def to_json(self) -> dict[str, Any]:
        """One object for ``demo --json``."""
        best = self.systems[0].phenomena.to_json()
        return {
            "systems": [system.to_json() for system in self.systems],
            "bounds": {kind: best[kind]["best"] for kind in KINDS},
        }


def run_demo(out: Path, seed: int = 1) -> Tour:
    """Make the artificial corpus, train the sentence model on it, translate, measure."""
    corpus = out / "corpus"
    say("writing an artificial corpus in which some words depend on the rest of the document")
    write_synth(corpus, SynthConfig(seed=seed))
    config = demo_config(corpus, seed)
    documents = list(read_corpus(config.data.test))
    key = read_key(corpus / "test.key.jsonl")
    say("training the sentence model S-NMT, from scratch, on this machine")
    directory = out / "runs" / "s-nmt"
    if (directory / "config.toml").exists():  # of an earlier tour
        shutil.rmtree(directory)
    run = train(config, directory)
    return Tour(documents, key, [_measure_system(run.directory, documents, key)])


def demo_config(corpus: Path, seed: int) -> Config:
    """The shipped ``tiny`` configuration, on the corpus of the demo."""
    files = [
        f"data.{split}.{side}={corpus / split}.{side}"
        for split in ("train", "dev", "test")
        for side in ("src", "trg", "doc")
    ]
    return load_config("tiny", [*files, f"seed={seed}"])


def _measure_system(run: Path, documents: list[Document], key: list[KeyItem]) -> System:
    translator = Translator.load(run)
    translated = translator.translate_documents([[p.src for p in d] for d in documents])
    translations = [result.sentences for result in translated]
    flat = [line for document in translations for line in document]
    bleu = corpus_bleu(flat, [pair.trg for document in documents for pair in document])
    return System(run.name, bleu.value, bleu.signature, measure(key, flat), translations)
