"""Writing the corpus: three splits, their keys and contrastive sets, and a summary."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.synthetic.bounds import (
    INFORMATION,
    KINDS,
    Expectation,
    Information,
    KeyItem,
    Kind,
    expect,
    make_key,
)
from wholedoc.synthetic.documents import SynthDocument, draw_document, realise, split_words
from wholedoc.synthetic.language import Language, SynthConfig, build_language

SPLITS = ("train", "dev", "test")
_FORMAT = "wholedoc-synth-"
FORMAT = f"{_FORMAT}2"


@dataclass(frozen=True, slots=True)
class KindSummary:
    """The items of one kind in a split."""

    items: int
    share: float
    """Items per target word."""
    bounds: dict[Information, Expectation]


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Sizes of a split, in words that include punctuation, and its items by kind."""

    documents: int
    sentences: int
    src_words: int
    trg_words: int
    src_vocabulary: int
    trg_vocabulary: int
    kinds: dict[Kind, KindSummary]


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """What was written."""

    config: SynthConfig
    splits: dict[str, SplitSummary]

    def to_json(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return {"format": FORMAT, **asdict(self)}


def write_synth(directory: Path, config: SynthConfig, *, force: bool = False) -> CorpusSummary:
    """Write the three splits, keys, contrastive sets and ``summary.json`` into ``directory``.

    Raises ``UserError`` where the directory holds anything but an artificial corpus, or one of
    other settings; with ``force``, the latter is overwritten.
    """
    _claim(directory, config, force=force)
    language = build_language(config)
    files: dict[str, str] = {}
    splits: dict[str, SplitSummary] = {}
    for split, count in zip(SPLITS, (config.train, config.dev, config.test), strict=True):
        rng = Random(f"{config.seed}/{split}")
        documents = [
            draw_document(f"{split}-{number:05d}", language, config, rng)
            for number in range(1, count + 1)
        ]
        pairs = [pair for document in documents for pair in document.pairs]
        key: list[KeyItem] = []
        contrasts: list[dict[str, Any]] = []
        first_line = 0
        for document in documents:
            items = make_key(document, first_line, len(pairs), language, config)
            key += items
            contrasts += make_contrasts(document, items, language) if split != "train" else []
            first_line += len(document.pairs)
        splits[split] = _summarise(documents, key)
        ids = [document.name for document in documents for _ in document.pairs]
        files[f"{split}.src"] = _lines([pair.src for pair in pairs])
        files[f"{split}.trg"] = _lines([pair.trg for pair in pairs])
        files[f"{split}.doc"] = _lines(ids)
        files[f"{split}.key.jsonl"] = _lines([json.dumps(asdict(item)) for item in key])
        if contrasts:  # nobody chooses among the translations of the training documents
            lines = [json.dumps(contrast) for contrast in contrasts]
            files[f"{split}.contrastive.jsonl"] = _lines(lines)
    summary = CorpusSummary(config, splits)
    directory.mkdir(parents=True, exist_ok=True)
    # The summary marks the directory as ours: written first, it lets a stopped run be repeated.
    write_atomically(directory / "summary.json", json.dumps(summary.to_json(), indent=2) + "\n")
    for name, text in files.items():
        write_atomically(directory / name, text)
    return summary


def _claim(directory: Path, config: SynthConfig, *, force: bool) -> None:
    """Make sure that nothing is overwritten that cannot be made again by the same settings."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UserError("is not a directory", where=str(directory), fix="name another place")
    if not any(directory.iterdir()):
        return
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    if not isinstance(summary, dict) or not str(summary.get("format")).startswith(_FORMAT):
        raise UserError(
            "holds files that are not an artificial corpus",
            where=str(directory),
            fix="name an empty or a new directory",
        )
    if not force and (summary["format"], summary.get("config")) != (FORMAT, asdict(config)):
        raise UserError(
            "holds an artificial corpus of other settings",
            where=str(directory),
            fix="name another directory, or add --force to overwrite it",
        )


def make_contrasts(
    document: SynthDocument, key: Sequence[KeyItem], language: Language
) -> list[dict[str, Any]]:
    """The items of a document as a contrastive set: its sentence against those of other worlds.

    An alternative is the whole sentence as it would read if the world were such that the word had
    that rendering; beside a name, the particles change with it.
    """
    src = [pair.src for pair in document.pairs]
    trg = [pair.trg for pair in document.pairs]
    contrasts = []
    for item in key:
        clause = document.plan[item.sentence]
        feature, forms = _dependence(item.kind, item.word, language)
        worlds = [
            replace(document.world, **{feature: forms.index(word)}) for word in item.alternatives
        ]
        contrasts.append(
            {
                "source": src,
                "sentence": item.sentence,
                "reference": trg[item.sentence],
                "alternatives": [realise((clause,), w, language)[0].trg for w in worlds],
                "target": trg,
                "kind": item.kind,
            }
        )
    return contrasts


def _dependence(kind: Kind, word: str, language: Language) -> tuple[str, tuple[str, ...]]:
    """The feature of the world that a word depends on, and its target forms by that feature."""
    if kind == "pronoun":
        return "gender", language.pronoun.trg
    feature, words = ("topic", language.ambiguous) if kind == "topic" else ("style", language.names)
    return feature, next(entry.trg for entry in words if entry.src == word)


def _summarise(documents: Sequence[SynthDocument], key: Sequence[KeyItem]) -> SplitSummary:
    pairs = [pair for document in documents for pair in document.pairs]
    src_words = [word for pair in pairs for word in split_words(pair.src)]
    trg_words = [word for pair in pairs for word in split_words(pair.trg)]
    kinds: dict[Kind, KindSummary] = {}
    for kind in KINDS:
        items = [item for item in key if item.kind == kind]
        bounds = {information: expect(items, information) for information in INFORMATION}
        kinds[kind] = KindSummary(len(items), len(items) / len(trg_words), bounds)
    return SplitSummary(
        documents=len(documents),
        sentences=len(pairs),
        src_words=len(src_words),
        trg_words=len(trg_words),
        src_vocabulary=len(set(src_words)),
        trg_vocabulary=len(set(trg_words)),
        kinds=kinds,
    )


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
