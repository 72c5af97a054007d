"""Bulk translation, behind the options ``--jobs`` and ``--ray`` of the command ``translate``."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wholedoc.bulk.ledger import Ledger
from wholedoc.bulk.shards import is_collection, list_sources
from wholedoc.bulk.work import Work
from wholedoc.config import SearchConfig, find_model, load_model_config, shipped_models
from wholedoc.corpus.glossary import Glossary
from wholedoc.errors import UserError
from wholedoc.progress import say
from wholedoc.tm.memory import TranslationMemory

if TYPE_CHECKING:
    from wholedoc.bulk.workers import Workers

_ADDRESS = re.compile(r"auto|local|ray://.+|[\w.\-\[\]:]+:\d+")


@dataclass(frozen=True)
class BulkOptions:
    """Options of a bulk translation."""

    jobs: int | None
    ray: str | None
    """The address of a cluster; empty for one that is found or begun here."""
    shard: int
    form: str

    @property
    def given(self) -> bool:
        """Whether a bulk translation is asked for."""
        return self.jobs is not None or self.ray is not None

    def refuse(self, options: dict[str, Any]) -> None:
        """Refuse options for single documents."""
        for option, value in options.items():
            if value:
                what = "does not go with a collection"
                raise UserError(what, where=option, fix="leave it out, or --jobs and --ray")


def fill_address(arguments: list[str]) -> list[str]:
    """Give ``--ray`` an empty address where none follows: typer has no optional values."""
    filled = []
    for place, argument in enumerate(arguments):
        after = arguments[place + 1] if place + 1 < len(arguments) else ""
        alone = argument == "--ray" and not _ADDRESS.fullmatch(after)
        filled.append("--ray=" if alone else argument)
    return filled


def refuse_collections(inputs: Sequence[str], form: str) -> None:
    """Say what to do with inputs of more than one document."""
    for given in inputs:
        if not form and is_collection(given):
            what = "is a folder" if Path(given).is_dir() else "has a document in each row"
            fix = "give a file, or translate all of them: add --jobs N or --ray, and -o DIR"
            raise UserError(what, where=given, fix=fix)


def describe_work(
    model: str,
    search: SearchConfig,
    memories: Sequence[str],
    glossary: str,
    int8: bool,
    no_tm: bool,
) -> Work:
    """What workers do, with places that hold wherever a worker runs in its machine."""
    from wholedoc.tm.memory import resolve_address

    directory = find_model(model)
    return Work(
        model if directory in shipped_models().values() else str(directory.resolve()),
        search,
        tuple(map(resolve_address, memories)),
        str(Path(glossary).resolve()) if glossary else "",
        int8,
        not no_tm,
    )


def translate_bulk(
    inputs: Sequence[str], output: Path | None, bulk: BulkOptions, work: Work
) -> None:
    """Translate a collection; raises UserError at the end where documents were set aside."""
    if output is None:
        raise UserError("a collection needs a folder for its results", where="-o", fix="add -o DIR")
    if output.exists() and not output.is_dir():
        raise UserError("is not a folder", where=str(output), fix="choose another place with -o")
    if "-" in inputs:
        raise UserError("a collection is files and folders", where="-", fix="name them")
    sources, left_out = list_sources(inputs, bulk.form, output)
    if not sources:
        fix = "name documents, or add --format"
        raise UserError("no document was found", where=", ".join(inputs), fix=fix)
    if left_out:
        listed = ", ".join(f"{count:,} {ending}" for ending, count in left_out.most_common(5))
        say(f"left out, as no documents: {left_out.total():,} files ({listed})")
    from wholedoc.bulk.run import FAILED_NAME, translate_collection

    _check_knowledge(work)  # before the folder keeps them as what it was begun with
    settings = {**dataclasses.asdict(work), "shard": bulk.shard}
    with Ledger(output, settings) as ledger:
        start = partial(_start_workers, work, bulk)
        done = translate_collection(sources, output, ledger, start, bulk.shard)
    say(f"{output}: {done.translated:,} documents translated, {done.failed:,} set aside")
    if done.failed:
        what = f"{done.failed:,} documents could not be translated"
        raise UserError(what, where=str(output / FAILED_NAME), fix="it says why for each")


def _check_knowledge(work: Work) -> None:
    """Raise where a memory or the glossary cannot be read, or is of other languages."""
    data = load_model_config(work.model).data
    for path in work.memories:
        with TranslationMemory.open(path) as memory:
            memory.check_languages(data.src_language, data.trg_language)
    if work.glossary:
        Glossary.read(work.glossary, data.src_language, data.trg_language)


def _start_workers(work: Work, bulk: BulkOptions) -> "Workers":
    if bulk.ray is None:
        from wholedoc.bulk.workers import ProcessWorkers

        return ProcessWorkers(work, bulk.jobs or 1)
    from wholedoc.bulk.cluster import RayWorkers

    return RayWorkers(work, bulk.jobs, bulk.ray)
