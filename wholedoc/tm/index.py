"""The index of a memory: which entries share words with a text, by BM25 (tantivy).

It is made from the database and can be made again; of an entry it holds the id and the tokens of
the source, no text.
"""

import json
import math
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tantivy

from wholedoc.errors import UserError
from wholedoc.tm.matching import split_tokens

CANDIDATES = 160
"""Entries that are compared word by word. Measured: the best of them all by percentage is among
so many for 99 to 100 of 100 queries that have a match of 50 per cent or more."""
MAX_TERMS = 20
"""Different tokens that are searched for; of a longer text the rarest."""
_HEAP_BYTES = 64_000_000
_SEGMENT_FILES = frozenset({".fast", ".fieldnorm", ".idx", ".pos", ".store", ".term"})
_MAGIC = 1337


def _make_schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=False, indexed=True, fast=True)
    builder.add_text_field("src", stored=False, tokenizer_name="whitespace", index_option="freq")
    return builder.build()


_SCHEMA = _make_schema()


class IndexReader:
    """Finds candidates; sees what was committed when it was opened or last reloaded."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._links: tempfile.TemporaryDirectory[str] | None = None
        try:
            with _naming_damage(directory):
                _check_sums(directory)
                self._index = self._open()
                self._searcher = self._index.searcher()
        except UserError:
            self.close()
            raise

    def _open(self) -> Any:
        """Open the index, through links where its directory is read-only: it wants a lock file."""
        try:
            return _open_index(self._directory)
        except (ValueError, OSError):
            if not (self._directory / "meta.json").is_file() or _can_write(self._directory):
                raise
            self._links = tempfile.TemporaryDirectory(prefix="wholedoc-index-")
            place = Path(self._links.name)
            for file in self._directory.iterdir():
                if not file.name.endswith(".lock"):
                    (place / file.name).symlink_to(file.resolve())
            return _open_index(place)

    def reload(self) -> None:
        """See what was committed since."""
        if self._links is None:  # a directory that nobody can write to does not change
            with _naming_damage(self._directory):
                self._index.reload()
                self._searcher = self._index.searcher()

    def candidates(self, tokens: Sequence[str], limit: int = CANDIDATES) -> list[int]:
        """Ids of entries that have tokens in common with these, the likeliest first."""
        terms = list(dict.fromkeys(token.lower() for token in tokens))
        searcher = self._searcher
        if len(terms) > MAX_TERMS:
            frequencies = {term: searcher.doc_freq("src", term) for term in terms}
            known = [term for term in terms if frequencies[term]]
            terms = sorted(known, key=frequencies.__getitem__)[:MAX_TERMS]
        should = tantivy.Occur.Should
        query = tantivy.Query.boolean_query(
            [(should, tantivy.Query.term_query(_SCHEMA, "src", term)) for term in terms]
        )
        with _naming_damage(self._directory):
            hits = searcher.search(query, limit, count=False).hits
            ids = searcher.fast_field_values("id", [address for _, address in hits])
        return list(dict.fromkeys(ids))  # an interrupted writer may have indexed some twice

    def worth(self, tokens: Sequence[str]) -> list[float]:
        """How telling each token is: log(1 + entries / entries that have it), in any case."""
        entries, frequency = self._searcher.num_docs, self._searcher.doc_freq
        return [math.log(1 + entries / max(1, frequency("src", token.lower()))) for token in tokens]

    def close(self) -> None:
        """Let the files go."""
        if self._links is not None:
            self._links.cleanup()


class IndexWriter:
    """Adds entries and removes them; nothing is seen before :meth:`commit`."""

    def __init__(self, directory: Path, entries: int) -> None:
        """Open the index, or make an empty one where it does not hold so many ``entries``."""
        self.is_new = not _holds(directory, entries)
        if self.is_new:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
        self._writer = tantivy.Index(_SCHEMA, str(directory)).writer(_HEAP_BYTES, 1)

    def add(self, entries: Iterable[tuple[int, str]]) -> None:
        """Add entries by their ids and source texts."""
        add, document = self._writer.add_document, tantivy.Document
        for number, src in entries:
            add(document(id=number, src=" ".join(split_tokens(src)).lower()))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove entries by their ids."""
        for number in ids:
            self._writer.delete_documents_by_term("id", number)

    def commit(self) -> None:
        """Make all of it visible at once, and wait until it is on the disk."""
        self._writer.commit()

    def close(self) -> None:
        """Finish what is merged in the background."""
        self._writer.wait_merging_threads()


def _open_index(directory: Path) -> Any:
    index = tantivy.Index.open(str(directory))
    index.config_reader("manual")
    return index


def _holds(directory: Path, entries: int) -> bool:
    """Whether the index can be opened and holds at least so many entries."""
    try:
        with _naming_damage(directory):
            _check_sums(directory)
            return bool(_open_index(directory).searcher().num_docs >= entries)
    except UserError:
        return False


def _can_write(directory: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


@contextmanager
def _naming_damage(directory: Path) -> Iterator[None]:
    """Turn what tantivy raises over damaged files into an error that names the memory."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise _damaged(directory, error) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, and no Exception
            raise
        raise _damaged(directory, error) from error


def _check_sums(directory: Path) -> None:
    """Raise where a file of a segment does not match the checksum that tantivy writes after it.

    Tantivy itself trusts its files, and aborts the process over some that are damaged.
    """
    meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
    committed = {segment["segment_id"].replace("-", "") for segment in meta["segments"]}
    for file in directory.iterdir():
        if file.suffix not in _SEGMENT_FILES or file.stem not in committed:
            continue  # a writer that was killed leaves some half-written
        try:
            data = file.read_bytes()
        except FileNotFoundError:  # a writer has just merged it with another
            continue
        length, magic = (int.from_bytes(data[-at:][:4], "little") for at in (8, 4))
        footer = data[-8 - length : -8]
        body = data[: len(data) - 8 - length]
        if magic != _MAGIC or json.loads(footer)["crc"] != zlib.crc32(body):
            raise ValueError(f"{file.name} does not match its checksum")


def _damaged(directory: Path, error: BaseException) -> UserError:
    what = f"the index of this memory is damaged or missing ({error})"
    fix = "wholedoc tm add makes it again from the entries, or build the memory again"
    return UserError(what, where=str(directory.parent), fix=fix)
