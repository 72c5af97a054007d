"""Writing to a memory: one process at a time, all of an addition or nothing of it.

The database is committed first, then the index, then the database notes how far the index reaches.
Whoever writes next brings an index that was left behind up to date, so a process may be killed at
any moment.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wholedoc.corpus.documents import Document, SentencePair, clean_text
from wholedoc.corpus.readers.inputs import same_language
from wholedoc.errors import UserError
from wholedoc.tm.database import (
    FILE_NAME,
    INDEX_NAME,
    LOCK_NAME,
    create_database,
    lock_directory,
    name_failure,
    open_to_write,
    text_key,
)
from wholedoc.tm.index import IndexWriter
from wholedoc.tm.matching import encode_tokens, split_tokens

MAX_CHARACTERS = 10_000
"""A side that is longer is no segment."""
_BATCH = 10_000  # pairs that are handed to the database together
_OVERLONG = 1  # the key of a segment before that is too long to be searched for


@dataclass(slots=True)
class AddCounts:
    """What became of the pairs of an addition."""

    pairs: int = 0
    """All that were read."""
    entries: int = 0
    """New entries of the memory."""
    duplicates: int = 0
    """Pairs that were entries already and are now counted once more."""
    known: int = 0
    """Pairs that the memory already has from this very place."""
    replaced: int = 0
    """Translations of the same sentence at this very place that they are put in the place of."""
    missing_translations: int = 0
    """Left out: nothing on one side."""
    overlong_entries: int = 0
    """Left out: more than 10,000 characters on a side."""
    broken_characters: int = 0
    """Left out: text that is no Unicode."""
    first_left_out: str = ""
    """Where the first pair stands that was left out."""

    @property
    def left_out(self) -> str:
        """In words, with the place of the first; empty if nothing was left out."""
        reasons = {
            "missing translations": self.missing_translations,
            "over-long entries": self.overlong_entries,
            "entries with broken characters": self.broken_characters,
        }
        listed = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items() if n)
        return f"{listed} ({self.first_left_out})" if listed else ""

    def add(self, other: "AddCounts") -> None:
        """Sum up with those of another addition."""
        for name in ("pairs", "entries", "duplicates", "known", "replaced"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("missing_translations", "overlong_entries", "broken_characters"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.first_left_out = self.first_left_out or other.first_left_out


@dataclass(slots=True)
class _Batch:
    """Rows for the database that are inserted together."""

    entries: list[tuple[int, int, str, str, str]] = field(default_factory=list)
    occurrences: list[tuple[int, int, str, int, int, int]] = field(default_factory=list)


class _Addition:
    """One run of documents on its way into the database."""

    def __init__(self, database: sqlite3.Connection, origin: str, source: str) -> None:
        self.counts = AddCounts()
        self._database = database
        self._origin = clean_text(origin)
        self._source = source or origin
        self._batch = _Batch()
        self._begun: set[int] = set()  # documents that the memory had before
        # Of each document: its id, how many pairs of it have been read, and the key of the last.
        self._documents: dict[str, tuple[int, int, int]] = {}

    def add(self, document: Document) -> None:
        """Take a document, or a further piece of one."""
        known = self._documents.get(document.name)
        number, done, before = known or (self._find_document(document.name), 0, 0)
        entries, occurrences = self._batch.entries, self._batch.occurrences
        for place, pair in enumerate(document.pairs, start=done + 1):
            src, trg = pair.src, pair.trg
            if len(src) > MAX_CHARACTERS or len(trg) > MAX_CHARACTERS:
                self.counts.overlong_entries += 1
                self._note_place(document, place, pair)
                before = _OVERLONG
                continue
            try:
                src_key, trg_key = text_key(src), text_key(trg)
            except UnicodeEncodeError:
                self.counts.broken_characters += 1
                self._note_place(document, place, pair)
                continue
            if not src.strip() or not trg.strip():
                self.counts.missing_translations += 1
                self._note_place(document, place, pair)
            else:
                tokens = encode_tokens(split_tokens(src))
                entries.append((src_key, trg_key, tokens, src, trg))
                occurrences.append((number, place, pair.date, before, src_key, trg_key))
            before = src_key if src.strip() else before
        self.counts.pairs += len(document)
        self._documents[document.name] = number, done + len(document), before
        if len(entries) >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hand what was taken to the database."""
        batch, self._batch = self._batch, _Batch()
        new = self._database.executemany(
            "INSERT OR IGNORE INTO entries (src_key, trg_key, tokens, src, trg) "
            "VALUES (?, ?, ?, ?, ?)",
            batch.entries,
        ).rowcount
        places = self._database.executemany(
            "INSERT OR IGNORE INTO occurrences (entry, document, place, date, before) "
            "SELECT id, ?, ?, ?, ? FROM entries WHERE src_key = ? AND trg_key = ?",
            batch.occurrences,
        ).rowcount
        self._replace(batch)
        self.counts.entries += max(new, 0)  # -1 where there was no row
        self.counts.duplicates += max(places, 0) - max(new, 0)
        self.counts.known += len(batch.occurrences) - max(places, 0)

    def _replace(self, batch: _Batch) -> None:
        """Drop other translations of the same sentences at the same places: they were corrected."""
        corrected = [
            (number, place, src_key, trg_key)
            for number, place, _, _, src_key, trg_key in batch.occurrences
            if number in self._begun
        ]
        if not corrected:
            return
        stale = (
            "FROM occurrences WHERE document = ? AND place = ? AND entry IN "
            "(SELECT id FROM entries WHERE src_key = ? AND trg_key <> ?)"
        )
        many = self._database.executemany
        many(f"INSERT OR IGNORE INTO removed SELECT entry {stale}", corrected)
        self.counts.replaced += max(many(f"DELETE {stale}", corrected).rowcount, 0)
        drop_removed(self._database)

    def _find_document(self, name: str) -> int:
        key = self._origin, clean_text(name)
        insert = "INSERT OR IGNORE INTO documents (origin, name) VALUES (?, ?)"
        is_new = self._database.execute(insert, key).rowcount > 0
        found = "SELECT id FROM documents WHERE origin = ? AND name = ?"
        number = int(self._database.execute(found, key).fetchone()[0])
        if not is_new:
            self._begun.add(number)
        return number

    def _note_place(self, document: Document, place: int, pair: SentencePair) -> None:
        if not self.counts.first_left_out:
            where = f":{pair.line}" if pair.line else f", document {document.name}, pair {place}"
            self.counts.first_left_out = f"{self._source}{where}"


class MemoryWriter:
    """A memory to be written to; a context manager. Another writer is refused meanwhile.

    ``with MemoryWriter.open(path, create=True) as writer: writer.add(documents, "handbook")``
    """

    def __init__(self, path: Path, database: sqlite3.Connection, lock: int) -> None:
        self.path = path
        self._database = database
        self._lock = lock
        self._depth = 0
        self._index: IndexWriter | None = None
        self._languages = "", ""  # those of the next addition

    @classmethod
    def open(
        cls,
        path: str | Path,
        src_language: str = "",
        trg_language: str = "",
        *,
        create: bool = False,
    ) -> Self:
        """Open a memory to write to, and repair it after a writer that was killed.

        Languages may be given where the memory does not know its own; others are refused.
        With ``create``, a memory that does not exist is made.
        """
        path = Path(path)
        if create and not path.exists():
            with name_failure(path):
                path.mkdir(parents=True)
        elif not path.is_dir() or not (path / FILE_NAME).exists():
            cls._refuse_other_content(path, create)
        lock = lock_directory(path)
        try:
            if create and not (path / FILE_NAME).exists():
                create_database(path, src_language, trg_language)
            writer = cls(path, open_to_write(path), lock)
        except BaseException:
            os.close(lock)
            raise
        try:
            writer.set_languages(src_language, trg_language)
            writer._update_index()
        except BaseException:
            writer.close()
            raise
        return writer

    @staticmethod
    def _refuse_other_content(path: Path, create: bool) -> None:
        """Only the beginning of a memory, or an empty directory, can become one."""
        known = {LOCK_NAME, f"{FILE_NAME}.part"}
        if create and path.is_dir() and {file.name for file in path.iterdir()} <= known:
            return
        if not path.exists():
            fix = "check the path, or make it with wholedoc tm build"
            raise UserError("no such translation memory", where=str(path), fix=fix)
        fix = "give a directory that wholedoc tm build has made"
        raise UserError("is no translation memory", where=str(path), fix=fix)

    @classmethod
    @contextmanager
    def build(cls, path: Path, src_language: str = "", trg_language: str = "") -> Iterator[Self]:
        """Write a new memory that appears under its name when it is complete, or not at all."""
        if path.exists():
            fix = "choose another place, or add to it with wholedoc tm add"
            raise UserError("exists already", where=str(path), fix=fix)
        unfinished = path.with_name(f"{path.name}.part")
        if unfinished.exists():
            with name_failure(unfinished):
                os.close(lock_directory(unfinished))  # refused while another process builds it
                shutil.rmtree(unfinished)
        try:
            with cls.open(unfinished, src_language, trg_language, create=True) as writer:
                yield writer
            with name_failure(path):
                unfinished.rename(path)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the memory go; everything is written already."""
        try:
            if self._index is not None:
                with _name_index_failure(self.path):
                    self._index.close()
        finally:
            self._index = None
            self._database.close()
            os.close(self._lock)

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language; empty where they are not known."""
        src_language, trg_language = self._languages
        return (
            self._meta("src_language") or src_language,
            self._meta("trg_language") or trg_language,
        )

    def set_languages(self, src_language: str, trg_language: str) -> None:
        """Name the languages of what is added next; others than the memory's are refused.

        A memory that did not know its languages has these from then on.
        """
        given = src_language, trg_language
        for side, wanted, known in zip(("source", "target"), given, self.languages, strict=True):
            if wanted and known and not same_language(wanted, known):
                what = f"the {side} language of this memory is {known!r}, not {wanted!r}"
                fix = "add it to a memory of its own languages"
                raise UserError(what, where=str(self.path), fix=fix)
        src_known, trg_known = self._languages
        self._languages = src_known or src_language, trg_known or trg_language

    def add(self, documents: Iterable[Document], origin: str, source: str = "") -> AddCounts:
        """Add the pairs of documents: all of them, safe on the disk when this returns, or none.

        A document may come in several pieces. A pair that the memory has from the same origin,
        document and place changes nothing, so a file may be added again; another translation of
        the same sentence at that place takes its place, as that of a file that was corrected.
        ``source`` names the file in reports where it is not the origin.
        """
        with self.together():
            addition = _Addition(self._database, origin, source)
            for document in documents:
                addition.add(document)
            addition.flush()
        return addition.counts

    def remove(self, document: str | None = None, origin: str | None = None) -> int:
        """Remove what was found in a document, or came from an origin, or both.

        Entries found elsewhere too are kept. Returns how many occurrences were removed.
        """
        given = {"name": document, "origin": origin}
        chosen = {column: clean_text(text) for column, text in given.items() if text is not None}
        if not chosen:
            fix = "name a document, an origin or both"
            raise UserError("nothing to remove is named", where=str(self.path), fix=fix)
        condition = " AND ".join(f"{column} = :{column}" for column in chosen)
        execute = self._database.execute
        with self.together():
            execute("CREATE TEMP TABLE IF NOT EXISTS going (id INTEGER PRIMARY KEY)")
            execute("DELETE FROM going")
            execute(f"INSERT INTO going SELECT id FROM documents WHERE {condition}", chosen)
            execute(
                "INSERT OR IGNORE INTO removed SELECT DISTINCT entry FROM occurrences "
                "WHERE document IN (SELECT id FROM going)"
            )
            count = execute(
                "DELETE FROM occurrences WHERE document IN (SELECT id FROM going)"
            ).rowcount
            execute("DELETE FROM documents WHERE id IN (SELECT id FROM going)")
            drop_removed(self._database)
        return count

    @contextmanager
    def together(self) -> Iterator[None]:
        """Around several additions or removals: all of them are committed, or none."""
        if self._depth:
            yield
            return
        before = self._database.total_changes
        try:
            with name_failure(self.path):
                self._database.execute("BEGIN IMMEDIATE")
            self._depth = 1
            yield
            with name_failure(self.path):
                if self._database.total_changes != before:
                    self._note_change()
                self._database.execute("COMMIT")
        except BaseException as error:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                with name_failure(self.path):
                    raise
            raise
        finally:
            self._depth = 0
        self._update_index()

    def _note_change(self) -> None:
        """Give the memory its next version, and its languages if it did not know them."""
        note = "UPDATE meta SET value = ? WHERE key = ?"
        src_language, trg_language = self.languages
        self._database.execute(note, (self._meta("version") + 1, "version"))
        self._database.execute(note, (src_language, "src_language"))
        self._database.execute(note, (trg_language, "trg_language"))

    def _update_index(self) -> None:
        """Bring the index up to what the database holds, and note it there."""
        execute = self._database.execute
        with name_failure(self.path):
            indexed = self._meta("indexed")
            last = last_id(self._database)
            removed = [row[0] for row in execute("SELECT id FROM removed")]
            index, indexed = self._open_index(indexed)
            if indexed == last and not removed:
                return
            with _name_index_failure(self.path):
                index.remove(removed)
                added = "SELECT id, src FROM entries WHERE id > ? ORDER BY id"
                index.add(execute(added, (indexed,)))
                index.commit()
            execute("BEGIN IMMEDIATE")
            execute("UPDATE meta SET value = ? WHERE key = 'indexed'", (last,))
            execute("DELETE FROM removed")
            execute("COMMIT")

    def _open_index(self, indexed: int) -> tuple[IndexWriter, int]:
        """The index, and how far it reaches: not at all where it was lost and is begun again."""
        if self._index is None:
            until = "SELECT COUNT(*) FROM entries WHERE id <= ?"
            (expected,) = self._database.execute(until, (indexed,)).fetchone()
            with _name_index_failure(self.path):
                self._index = IndexWriter(self.path / INDEX_NAME, expected)
            indexed = 0 if self._index.is_new else indexed
        return self._index, indexed

    def _meta(self, key: str) -> Any:
        found = "SELECT value FROM meta WHERE key = ?"
        return self._database.execute(found, (key,)).fetchone()[0]


def drop_removed(database: sqlite3.Connection) -> None:
    """Of the entries that were removed somewhere, drop those that stand nowhere any more."""
    database.execute("DELETE FROM removed WHERE id IN (SELECT entry FROM occurrences)")
    database.execute("DELETE FROM entries WHERE id IN (SELECT id FROM removed)")


def copy_memory(source: Path, target: Path) -> None:
    """Copy a memory whole, while nobody writes to it."""
    with MemoryWriter.open(source), name_failure(target):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(LOCK_NAME, "*.lock", "*-shm"))


def last_id(database: sqlite3.Connection) -> int:
    """The highest id that an entry ever had; ids are never used again."""
    found = "SELECT seq FROM sqlite_sequence WHERE name = 'entries'"
    row = database.execute(found).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _name_index_failure(path: Path) -> Iterator[None]:
    """Turn a failure of the index into an error that names the memory."""
    try:
        yield
    except (ValueError, OSError) as error:
        what = f"cannot write the index: {error}"
        fix = "make room and add again: the entries are kept, their index is made then"
        raise UserError(what, where=str(path), fix=fix) from error
