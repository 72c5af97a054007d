"""Collections: which files and rows there are to translate, and the files their translations make.

A shard is a file of results, made of the translations of its documents: of one document that was a
file, or of so many rows of JSON lines or Parquet. Which documents a shard has depends on the
collection alone, so that a run that was killed goes on with the same shards.
"""

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wholedoc.app.lines import refuse_markup
from wholedoc.bulk.work import LINES, SENTENCES, TEXT, Document, Outcome
from wholedoc.corpus.readers.lines import GZIP_FAULTS, open_bytes, open_file, read_head
from wholedoc.errors import UserError
from wholedoc.formats import find_format

_ROWS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".jsonl.gz": "jsonl", ".parquet": "parquet"}
_SHARD_BYTES = 1 << 26  # of JSON lines: a shard ends there, so that one fits into memory
_FIX = "a row has an id, and text or sentences"


@dataclass(frozen=True)
class Source:
    """A file of a collection."""

    path: Path
    name: str
    """Its path inside the collection, which is that of its translation."""
    form: str
    """``jsonl`` and ``parquet`` have a document in each row; others are one document."""
    stamp: str
    """Changes whenever the file does."""

    @property
    def has_rows(self) -> bool:
        """Whether each row is a document."""
        return self.form in _ROWS.values()

    def shard(self, number: int) -> str:
        """The name of a shard of its rows, counted from 0."""
        stem = self.name[: -len(_row_ending(self.name))]
        return f"{stem}-{number:05d}.{self.form}"

    @property
    def place(self) -> str:
        """What its results are named by; no two files of a collection may have the same."""
        return self.shard(0) if self.has_rows else self.name


@dataclass
class Shard:
    """A file of results: its documents, and how their translations are put together."""

    name: str
    documents: list[Document] = field(default_factory=list)
    refused: list[Outcome] = field(default_factory=list)
    """Documents that cannot be read, with the reasons."""
    rows: Any = None
    """The rows as they were read, which come back with their text translated."""

    def assemble(self, translations: Mapping[int, bytes]) -> bytes | None:
        """The file, from the translations by row; None where there is nothing to write."""
        return translations.get(1)


class _JsonShard(Shard):
    """Some lines of JSON lines; ``rows`` are their objects by line."""

    def add(self, number: int, line: bytes, where: str) -> None:
        """Take a line."""
        values: Any = None
        try:
            values = json.loads(line)
            document = _read_row(values, self.name, number, where)
        except (UserError, ValueError, RecursionError) as error:
            reason = error.what if isinstance(error, UserError) else f"not valid JSON: {error}"
            self.refused.append(Outcome(self.name, number, _id_of(values), None, reason))
        else:
            self.documents.append(document)
            self.rows[number] = values

    def assemble(self, translations: Mapping[int, bytes]) -> bytes:
        """The rows that are translated, in their order."""
        lines = []
        for number, values in self.rows.items():
            if number in translations:
                name, translated = _translated(values, translations[number])
                lines.append(json.dumps({**values, name: translated}, ensure_ascii=False))
        return "".join(f"{line}\n" for line in lines).encode("utf-8")


@dataclass
class _ParquetShard(Shard):
    """Some rows of a Parquet file; ``rows`` is their table."""

    first: int = 1
    """The first of them."""

    def assemble(self, translations: Mapping[int, bytes]) -> bytes:
        """The rows that are translated, in their order; other columns as they were."""
        import pyarrow
        import pyarrow.parquet

        places = sorted(translations)
        table = self.rows.take([row - self.first for row in places])
        name = TEXT if TEXT in table.column_names else SENTENCES
        values = [_decode(name, translations[row]) for row in places]
        column = table.schema.get_field_index(name)
        kind = table.schema.field(column)
        table = table.set_column(column, kind, pyarrow.array(values, kind.type))
        file = io.BytesIO()
        pyarrow.parquet.write_table(table, file)
        return file.getvalue()


def list_sources(
    inputs: Sequence[str], form: str, output: Path
) -> tuple[list[Source], Counter[str]]:
    """The files of a collection, folders searched; and the endings of files that were left out.

    ``form`` is the format of all files, where it does not go by their endings. In folders, hidden
    files are passed over, and so are those of other endings than documents have.
    """
    sources: list[Source] = []
    left_out: Counter[str] = Counter()
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            if output.resolve().is_relative_to(path.resolve()):
                what = "lies inside an input, which would be read again"
                raise UserError(what, where=str(output), fix="choose another place with -o")
            for file in _walk(path):
                chosen = form or _form_of(file)
                if chosen or file.suffix == ".txt":
                    name = file.relative_to(path).as_posix()
                    sources.append(_source(file, name, chosen))
                else:
                    left_out[file.suffix or file.name] += 1
        elif not path.exists():
            raise UserError("no such file", where=given, fix="check the path")
        else:
            chosen = form or _form_of(path)
            if not chosen:
                refuse_markup(read_head(path).split("\n"), given)
            sources.append(_source(path, path.name, chosen))
    places = Counter(source.place for source in sources)
    for source in sources:
        if places[source.place] > 1:
            what = f"two inputs would be written to {source.place}"
            raise UserError(what, where=str(source.path), fix="translate them one by one")
    return sources, left_out


def is_collection(path: str) -> bool:
    """Whether an input is more than one document: a folder, JSON lines, Parquet."""
    return Path(path).is_dir() or _form_of(Path(path)) in _ROWS.values()


def read_shards(source: Source, rows: int, is_done: Callable[[str], bool]) -> Iterator[Shard]:
    """The shards of a file, ``rows`` documents each; those that are done are passed over.

    Raises UserError where the file cannot be read.
    """
    if source.form == "jsonl":
        yield from _read_json(source, rows, is_done)
    elif source.form == "parquet":
        yield from _read_parquet(source, rows, is_done)
    elif not is_done(source.name):
        with open_file(source.path) as stream:
            content = stream.read()
        where = str(source.path)
        document = Document(source.name, 1, source.name, source.form, content, where)
        yield Shard(source.name, [document])


def _source(path: Path, name: str, form: str) -> Source:
    status = path.stat()
    return Source(path, name, form or LINES, f"{status.st_size} {status.st_mtime_ns}")


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a folder and of those in it, by name; hidden ones are passed over."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(files) if not name.startswith("."))


def _form_of(path: Path) -> str:
    """The form of a file by its ending; empty where it is none of ours."""
    if ending := _row_ending(path.name):
        return _ROWS[ending.lower()]
    found = find_format(path.name)
    return found.name if found else ""


def _row_ending(name: str) -> str:
    """The ending of a file of rows; empty where it is none."""
    found = (ending for ending in _ROWS if name.lower().endswith(ending))
    return name[-len(ending) :] if (ending := next(found, "")) else ""


def _read_json(source: Source, rows: int, is_done: Callable[[str], bool]) -> Iterator[Shard]:
    shard, count, size = _JsonShard(source.shard(0), rows={}), 0, 0
    number, done = 0, is_done(source.shard(0))
    with open_bytes(source.path) as stream:
        try:
            for place, line in enumerate(stream, start=1):
                if count == rows or size >= _SHARD_BYTES:
                    if not done:
                        yield shard
                    number, count, size = number + 1, 0, 0
                    shard = _JsonShard(source.shard(number), rows={})
                    done = is_done(shard.name)
                if line.strip():
                    count, size = count + 1, size + len(line)
                    if not done:
                        shard.add(place, line, f"{source.path}:{place}")
        except GZIP_FAULTS as fault:
            what = f"damaged gzip file ({fault})"
            raise UserError(what, where=str(source.path), fix="restore it from a copy") from fault
    if count and not done:
        yield shard


def _read_parquet(source: Source, rows: int, is_done: Callable[[str], bool]) -> Iterator[Shard]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        fix = "pip install 'wholedoc[parquet]'"
        raise UserError("Parquet needs pyarrow", where=str(source.path), fix=fix) from error
    where = str(source.path)
    try:
        with pyarrow.parquet.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            wanted = [name for name in ("id", TEXT, SENTENCES) if name in names]
            if "id" not in wanted or len(wanted) != 2:
                raise UserError(f"columns are {', '.join(names)}", where=where, fix=_FIX)
            for number, batch in enumerate(file.iter_batches(batch_size=rows)):
                if is_done(source.shard(number)):
                    continue
                table, first = pyarrow.table(batch), 1 + number * rows
                shard = _ParquetShard(source.shard(number), rows=table, first=first)
                for row, values in enumerate(table.select(wanted).to_pylist(), first):
                    try:
                        place = f"{where}, row {row}"
                        shard.documents.append(_read_row(values, shard.name, row, place))
                    except UserError as error:
                        reason = error.what
                        refused = Outcome(shard.name, row, _id_of(values), None, reason)
                        shard.refused.append(refused)
                yield shard
    except pyarrow.ArrowException as error:
        what = f"cannot be read as Parquet ({error})"
        raise UserError(what, where=where, fix="restore it from a copy") from error


def _read_row(values: Any, shard: str, row: int, where: str) -> Document:
    """The document of a row; raises UserError where it is none."""
    if not isinstance(values, dict):
        raise UserError("not a JSON object", where=where, fix=_FIX)
    number = values.get("id")
    if not isinstance(number, str | int) or isinstance(number, bool):
        raise UserError("no id, which is a text or a whole number", where=where, fix=_FIX)
    text, sentences = values.get(TEXT), values.get(SENTENCES)
    if (text is None) == (sentences is None):
        what = "neither text nor sentences" if text is None else "both text and sentences"
        raise UserError(what, where=where, fix=_FIX)
    if text is not None and not isinstance(text, str):
        raise UserError("text is not a text", where=where, fix=_FIX)
    if sentences is not None and not _are_texts(sentences):
        raise UserError("sentences is not a list of texts", where=where, fix=_FIX)
    form, content = (TEXT, text) if text is not None else (SENTENCES, json.dumps(sentences))
    try:
        return Document(shard, row, str(number), form, content.encode("utf-8"), where)
    except UnicodeEncodeError as error:
        raise UserError("text that is no Unicode", where=where, fix=_FIX) from error


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(each, str) for each in values)


def _id_of(values: Any) -> str:
    """The id of a row that may be none."""
    found = values.get("id") if isinstance(values, dict) else None
    return str(found) if isinstance(found, str | int) else ""


def _translated(values: Mapping[str, Any], translation: bytes) -> tuple[str, Any]:
    """The field of a row that is translated, and what it becomes."""
    name = TEXT if values.get(TEXT) is not None else SENTENCES
    return name, _decode(name, translation)


def _decode(name: str, translation: bytes) -> Any:
    text = translation.decode("utf-8")
    return text if name == TEXT else json.loads(text)
