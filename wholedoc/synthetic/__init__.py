"""The artificial corpus: documents in which known words need the document to be translated right.

Three kinds of words depend on a document's hidden world: the *pronoun* (gender), words with several
senses (*topic*) and *names* (style). The best accuracy any translator can reach on them is known
exactly. ``docs/artificial-corpus.md`` describes the language.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from wholedoc.corpus.documents import SentencePair
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.synthetic.bounds import INFORMATION, KINDS, KeyItem, expect, make_key
from wholedoc.synthetic.documents import SynthDocument, draw_document, realise, split_words
from wholedoc.synthetic.language import MOST_DOCUMENTS as MOST_DOCUMENTS
from wholedoc.synthetic.language import Language, build_language
from wholedoc.synthetic.language import SynthConfig as SynthConfig

SPLITS = ("train", "dev", "test")
_FORMAT = "wholedoc-synth-"
FORMAT = f"{_FORMAT}2"


def write_synth(directory: Path, config: SynthConfig, *, force: bool = False) -> dict[str, Any]:
    """Write the three splits, keys, contrastive sets and ``summary.json`` into ``directory``.

    Returns the content of ``summary.json``: settings, sizes (punctuation counts as words), and for
    each kind its items, their share of the target words and their bounds. Raises ``UserError``
    where the directory holds anything but an artificial corpus, or one of other settings; with
    ``force``, the latter is overwritten.
    """
    _claim(directory, config, force=force)
    language = build_language(config)
    files: dict[str, str] = {}
    splits: dict[str, Any] = {}
    for split, count in zip(SPLITS, (config.train, config.dev, config.test), strict=True):
        rng = Random(f"{config.seed}/{split}")
        names = [f"{split}-{number:05d}" for number in range(1, count + 1)]
        documents = [draw_document(name, language, config, rng) for name in names]
        pairs = [pair for document in documents for pair in document.pairs]
        key: list[KeyItem] = []
        contrasts: list[dict[str, Any]] = []
        first_line = 0
        for document in documents:
            items = list(make_key(document, first_line, len(pairs), config))
            key += items
            contrasts += make_contrasts(document, items, language) if split != "train" else []
            first_line += len(document.pairs)
        splits[split] = {"documents": count, **_summarise(pairs, key)}
        ids = [document.name for document in documents for _ in document.pairs]
        files[f"{split}.src"] = _lines([pair.src for pair in pairs])
        files[f"{split}.trg"] = _lines([pair.trg for pair in pairs])
        files[f"{split}.doc"] = _lines(ids)
        files[f"{split}.key.jsonl"] = _lines([json.dumps(asdict(item)) for item in key])
        if contrasts:  # nobody chooses among the translations of the training documents
            files[f"{split}.contrastive.jsonl"] = _lines([json.dumps(item) for item in contrasts])
    summary = {"format": FORMAT, "config": asdict(config), "splits": splits}
    directory.mkdir(parents=True, exist_ok=True)
    # The summary marks the directory as ours: written first, it lets a stopped run be repeated.
    write_atomically(directory / "summary.json", json.dumps(summary, indent=2) + "\n")
    for name, text in files.items():
        write_atomically(directory / name, text)
    return summary


def _claim(directory: Path, config: SynthConfig, *, force: bool) -> None:
    """Make sure that nothing is overwritten that cannot be made again by the same settings."""
    if directory.exists() and not directory.is_dir():
        raise UserError("is not a directory", where=str(directory), fix="name another place")
    if not directory.exists() or not any(directory.iterdir()):
        return
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    if not isinstance(summary, dict) or not str(summary.get("format")).startswith(_FORMAT):
        what = "holds files that are not an artificial corpus"
        fix = "name an empty or a new directory"
        raise UserError(what, where=str(directory), fix=fix)
    if not force and (summary["format"], summary.get("config")) != (FORMAT, asdict(config)):
        fix = "name another directory, or add --force to overwrite it"
        what = "holds an artificial corpus of other settings"
        raise UserError(what, where=str(directory), fix=fix)


def make_contrasts(
    document: SynthDocument, key: Sequence[KeyItem], language: Language
) -> Iterator[dict[str, Any]]:
    """The items of a document as a contrastive set: its sentence against those of other worlds.

    An alternative is the whole sentence as it would read if the world were such that the word had
    that rendering; beside a name, the particles change with it.
    """
    src = [pair.src for pair in document.pairs]
    trg = [pair.trg for pair in document.pairs]
    by_feature = {"gender": language.persons, "topic": language.topic_nouns, "style": language.cues}
    features = dict(zip(KINDS, by_feature, strict=True))
    for item in key:
        clause, feature = document.plan[item.sentence], features[item.kind]
        values = range(len(by_feature[feature]))
        worlds = [replace(document.world, **{feature: value}) for value in values]
        sentences = dict.fromkeys(realise((clause,), world, language)[0].trg for world in worlds)
        reference = trg[item.sentence]
        yield {
            "source": src,
            "sentence": item.sentence,
            "reference": reference,
            "alternatives": [sentence for sentence in sentences if sentence != reference],
            "target": trg,
            "kind": item.kind,
        }


def _summarise(pairs: Sequence[SentencePair], key: Sequence[KeyItem]) -> dict[str, Any]:
    src_words = [word for pair in pairs for word in split_words(pair.src)]
    trg_words = [word for pair in pairs for word in split_words(pair.trg)]
    kinds: dict[str, Any] = {}
    for kind in KINDS:
        items = [item for item in key if item.kind == kind]
        bounds = {known: expect(items, known) for known in INFORMATION}
        kinds[kind] = {"items": len(items), "share": len(items) / len(trg_words), "bounds": bounds}
    return {
        "sentences": len(pairs),
        "src_words": len(src_words),
        "trg_words": len(trg_words),
        "src_vocabulary": len(set(src_words)),
        "trg_vocabulary": len(set(trg_words)),
        "kinds": kinds,
    }


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
