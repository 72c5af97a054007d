"""Commands for translation memories: ``tm build add search stats remove publish fit``."""

import dataclasses
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from wholedoc.cli.options import DocOption, JsonFlag, ModelArgument, print_result
from wholedoc.config import CorpusFiles, find_model, load_model_config, shipped_models
from wholedoc.corpus.readers import read_corpus
from wholedoc.errors import UserError
from wholedoc.progress import say

if TYPE_CHECKING:
    from wholedoc.corpus.documents import Document
    from wholedoc.tm.memory import AddCounts, Match, MemoryWriter
    from wholedoc.tm.sources import MemorySource

_SECONDS_BETWEEN_LINES = 15.0
MemoryArgument = Annotated[Path, Argument(metavar="TM", help="The directory of the memory.")]
PlaceArgument = Annotated[
    str,
    Argument(metavar="TM", help="The directory of the memory, or opensearch://HOST:PORT/INDEX."),
]
FilesArgument = Annotated[
    list[str] | None, Argument(metavar="FILE", help="Files that hold both sides, such as TMX.")
]
SrcOption = Annotated[str, Option(help="Source side of two line-aligned files.")]
TrgOption = Annotated[str, Option(help="Target side.")]
SrcLanguageOption = Annotated[str, Option(help="Of the memory; where a file holds several.")]
TrgLanguageOption = Annotated[str, Option(help="Of the memory; where a file holds several.")]
OriginOption = Annotated[str, Option(help="Where the pairs come from; else the file's name.")]


def build(
    memory: MemoryArgument,
    files: FilesArgument = None,
    src: SrcOption = "",
    trg: TrgOption = "",
    doc: DocOption = "",
    src_language: SrcLanguageOption = "",
    trg_language: TrgLanguageOption = "",
    origin: OriginOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Make a translation memory from files; it appears when it is complete."""
    chosen = _chosen_files("build", files or [], CorpusFiles(src, trg, doc))
    from wholedoc.tm.memory import MemoryWriter
    from wholedoc.tm.sources import open_source

    sources = [open_source(each, src_language, trg_language) for each in chosen]
    with MemoryWriter.build(memory, src_language, trg_language) as writer:
        counts = _add_sources(writer, sources, origin)
        if not counts.entries:
            what = f"no pair was found for the memory; left out: {counts.left_out or 'nothing'}"
            raise UserError(what, where=str(memory), fix="give files with translations")
    print_result(_format_counts(memory, counts), _count_values(memory, counts), as_json)


def add(
    memory: MemoryArgument,
    files: FilesArgument = None,
    src: SrcOption = "",
    trg: TrgOption = "",
    doc: DocOption = "",
    src_language: SrcLanguageOption = "",
    trg_language: TrgLanguageOption = "",
    origin: OriginOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Add files to a translation memory: all of them, or nothing if one is at fault.

    A pair that the memory has from the same origin, document and place is not counted again.
    """
    chosen = _chosen_files("add", files or [], CorpusFiles(src, trg, doc))
    from wholedoc.tm.memory import MemoryWriter
    from wholedoc.tm.sources import open_source

    with MemoryWriter.open(memory, src_language, trg_language) as writer:
        languages = writer.languages
        sources = [open_source(each, *languages) for each in chosen]
        counts = _add_sources(writer, sources, origin)
    print_result(_format_counts(memory, counts), _count_values(memory, counts), as_json)


def search(
    memory: PlaceArgument,
    text: Annotated[str, Argument(metavar="TEXT", help="The segment to look for.")],
    limit: Annotated[int, Option(help="At most so many matches.", min=1, max=1000)] = 8,
    before: Annotated[
        str | None, Option(help="The segment before it; empty at the beginning of a document.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """The entries most like a segment, with the percentage that translators know."""
    from wholedoc.tm.memory import TranslationMemory

    with TranslationMemory.open(memory) as opened:
        matches = opened.search(text, limit, before)
    values = [{"score": match.score, **dataclasses.asdict(match.entry)} for match in matches]
    print_result(_format_matches(matches), {"matches": values}, as_json)


def stats(memory: PlaceArgument, as_json: JsonFlag = False) -> None:
    """Entries, duplicates, contradictions, documents, origins and size of a memory."""
    from wholedoc.tm.memory import TranslationMemory

    with TranslationMemory.open(memory) as opened:
        found = dataclasses.asdict(opened.stats())
    table = Table("", str(memory))
    for name, value in found.items():
        listed = value.items() if isinstance(value, dict) else [("", value)]
        for key, each in listed:
            label = f"{name.replace('_', ' ')} {key}".strip()
            table.add_row(label, f"{each:,}" if isinstance(each, int) else each)
    print_result(table, found, as_json)


def remove(
    memory: MemoryArgument,
    document: Annotated[str | None, Option(help="Remove what was found in it.")] = None,
    origin: Annotated[str | None, Option(help="Remove what came from it.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Remove a document or an origin; entries that were found elsewhere too are kept."""
    if document is None and origin is None:
        fix = "add --document D or --origin O"
        raise UserError("nothing to remove is named", where="tm remove", fix=fix)
    from wholedoc.tm.memory import MemoryWriter, TranslationMemory

    with MemoryWriter.open(memory) as writer, TranslationMemory.open(memory) as opened:
        before = len(opened)
        occurrences = writer.remove(document, origin)
        entries = before - len(opened)
    if not occurrences:
        given = {"document": document, "origin": origin}
        named = " and ".join(f"{key} {name!r}" for key, name in given.items() if name is not None)
        fix = "wholedoc tm stats lists the origins, wholedoc tm search shows the documents"
        raise UserError(f"nothing from {named} is in this memory", where=str(memory), fix=fix)
    shown = f"{memory}: removed {occurrences:,} occurrences, {entries:,} entries"
    print_result(shown, {"occurrences": occurrences, "entries": entries}, as_json)


def publish(
    memory: MemoryArgument,
    address: Annotated[
        str, Argument(metavar="ADDRESS", help="opensearch://HOST:PORT/INDEX, or https://…")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Put a translation memory into an index of OpenSearch, from which many machines recall.

    Done again, it brings the index up to what the memory holds now.
    """
    from wholedoc.tm.opensearch import publish as publish_memory

    entries = publish_memory(memory, address)
    shown = f"{address}: {entries:,} entries of {memory}"
    print_result(shown, {"memory": str(memory), "address": address, "entries": entries}, as_json)


def _chosen_files(command: str, files: list[str], sides: CorpusFiles) -> list[CorpusFiles]:
    chosen = [CorpusFiles(file) for file in files]
    if sides != CorpusFiles():
        chosen.append(sides)
    if not chosen:
        fix = "add FILE, or --src FILE --trg FILE"
        raise UserError("no file is given", where=f"tm {command}", fix=fix)
    return chosen


def _add_sources(writer: "MemoryWriter", sources: "list[MemorySource]", origin: str) -> "AddCounts":
    """Add files one after the other, all or none of them; reports on standard error."""
    from wholedoc.tm.memory import AddCounts

    total = AddCounts()
    with writer.together():
        for source in sources:
            writer.set_languages(source.src_language, source.trg_language)
            counts = writer.add(_report(source), origin or source.name, str(source.path))
            if counts.left_out:
                say(f"left out: {counts.left_out}")
            total.add(counts)
        say(f"{total.pairs:,} pairs read, making the index")
    return total


def _report(source: "Iterable[Document]") -> "Iterator[Document]":
    """Say now and then how many pairs have been read."""
    begun = lately = time.monotonic()
    pairs = 0
    for document in source:
        yield document
        pairs += len(document)
        if time.monotonic() - lately >= _SECONDS_BETWEEN_LINES:
            lately = time.monotonic()
            say(f"{pairs:,} pairs read, {pairs / (lately - begun):,.0f} pairs/s")


def _format_counts(memory: Path, counts: "AddCounts") -> str:
    text = f"{memory}: {counts.entries:,} new entries from {counts.pairs:,} pairs"
    more = {
        "duplicates": counts.duplicates,
        "known before": counts.known,
        "in the place of others": counts.replaced,
    }
    return ", ".join([text, *(f"{n:,} {name}" for name, n in more.items() if n)])


def _count_values(memory: Path, counts: "AddCounts") -> dict[str, Any]:
    return {"memory": str(memory), **dataclasses.asdict(counts)}


def _format_matches(matches: "list[Match]") -> str:
    if not matches:
        return "no match"
    return "\n".join(
        f"{match.score:3d} %  {match.entry.src}\n       {match.entry.trg}\n"
        f"       {match.entry.origin}, document {match.entry.document}, "
        f"pair {match.entry.place}{f', {match.entry.date}' if match.entry.date else ''}"
        f"{f', {match.entry.count:,} times' if match.entry.count > 1 else ''}"
        for match in matches
    )


def fit(
    model: ModelArgument,
    memories: Annotated[
        list[Path] | None,
        Option("--tm", metavar="TM", help="A memory; any number. Else the model's own."),
    ] = None,
    src: Annotated[str, Option(help="Source side of a dev set; else that of the run.")] = "",
    trg: Annotated[str, Option(help="Its target side.")] = "",
    doc: DocOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Learn how a model recalls from given memories, on a dev set, and read them for it.

    No weight of the model changes. Reading a memory once makes translating with it faster.
    """
    config = load_model_config(model)
    if (directory := find_model(model)) in shipped_models().values():
        fix = f"fit a copy: cp -r {directory} my-model"
        raise UserError("comes with wholedoc and stays as it is", where=model, fix=fix)
    data = config.data
    if (trg or doc) and not src:
        option = "--trg" if trg else "--doc"
        raise UserError("goes with --src", where=option, fix="name the source side too")
    files = CorpusFiles(src, trg, doc) if src else data.dev
    if not files.src:
        fix = "name one with --src and --trg"
        raise UserError("the model names no dev set", where=model, fix=fix)
    dev = read_corpus(files, data.src_language, data.trg_language)

    from wholedoc.store.model import load_model, mark_recall, save_recall
    from wholedoc.store.run import Run
    from wholedoc.tm.memory import TranslationMemory
    from wholedoc.training.recall import fit_model, prepare_memory

    run = Run(directory)
    chosen = memories or ([run.memory] if run.memory.exists() else [])
    if not chosen:
        fix = "name one with --tm, or train with --set tm.keep=true"
        raise UserError("the model has no memory of its own", where=model, fix=fix)
    opened = [TranslationMemory.open(path) for path in chosen]
    for memory in opened:
        memory.check_languages(data.src_language, data.trg_language)
    try:
        trained = load_model(model)
    except UserError:  # what was fitted before cannot be read: begin anew
        trained = load_model(model, recall=False)
    trained, fits = fit_model(trained, opened, dev)
    mark_recall(run, trained)
    for memory in opened:
        say(f"reading {memory.path}: {len(memory):,} entries")
        prepare_memory(trained, memory)
    save_recall(run, trained)
    values = {
        name: found._asdict() for name, found in zip(("stage1", "stage2"), fits, strict=False)
    }
    lines = [
        f"{name}: perplexity {found['before']:.2f} dev, {found['after']:.2f} with recall"
        for name, found in values.items()
    ]
    print_result("\n".join(lines), values, as_json)
