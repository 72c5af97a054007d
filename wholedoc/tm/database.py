"""The truth of a memory: a SQLite file, how it is laid out, opened and locked."""

import fcntl
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wholedoc.errors import UserError

FORMAT = 1
FILE_NAME = "memory.sqlite"
INDEX_NAME = "index"
LOCK_NAME = "lock"
CACHE_KIB = 64 * 1024

# An entry is a pair of texts, kept once. An occurrence is a place where it was found. Texts are
# found by 64 bits of a hash each: both sides together tell any two pairs apart. `tokens` are those
# of the source, encoded to be compared fast. `removed` lists entries that the index may still hold.
_LAYOUT = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    src_key INTEGER NOT NULL, trg_key INTEGER NOT NULL,
    tokens TEXT NOT NULL, src TEXT NOT NULL, trg TEXT NOT NULL
);
CREATE UNIQUE INDEX entry_by_text ON entries (src_key, trg_key);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, origin TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (origin, name)
);
CREATE TABLE occurrences (
    entry INTEGER NOT NULL, document INTEGER NOT NULL, place INTEGER NOT NULL,
    date TEXT NOT NULL, before INTEGER NOT NULL, PRIMARY KEY (entry, document, place)
) WITHOUT ROWID;
CREATE TABLE removed (id INTEGER PRIMARY KEY);
"""


def text_key(text: str) -> int:
    """64 bits that stand for a text, as a number that SQLite can keep; 0 for no text."""
    if not text:
        return 0
    digest = hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def create_database(directory: Path, src_language: str, trg_language: str) -> None:
    """Make an empty memory in a new directory; it appears complete or not at all."""
    unfinished = directory / f"{FILE_NAME}.part"
    with name_failure(directory):
        directory.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            connection.executescript(_LAYOUT)
            meta = {"format": FORMAT, "src_language": src_language, "trg_language": trg_language}
            meta |= {"version": 0, "indexed": 0}
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        unfinished.replace(directory / FILE_NAME)


def open_to_read(directory: Path) -> sqlite3.Connection:
    """Open a memory beside whoever writes it, in a directory that may be read-only."""
    file = _find_file(directory)
    address = file.resolve().as_uri()
    with name_damage(directory):
        try:
            connection = _check(_connect(f"{address}?mode=ro"), directory)
            connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            return connection
        except sqlite3.OperationalError:
            # Where nothing can be written, readers cannot keep watch of a writer; so there must
            # be none, and nothing that one has left for the next to finish.
            log = file.with_name(f"{FILE_NAME}-wal")
            if os.access(directory, os.W_OK) or (log.exists() and log.stat().st_size):
                raise
            return _check(_connect(f"{address}?immutable=1"), directory)


def open_to_write(directory: Path) -> sqlite3.Connection:
    """Open a memory for the one writer; :func:`lock_directory` comes first."""
    address = _find_file(directory).resolve().as_uri()
    with name_damage(directory):
        connection = _check(_connect(f"{address}?mode=rw"), directory)
        connection.execute("PRAGMA synchronous = FULL")  # what is committed survives a power cut
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        return connection


def _find_file(directory: Path) -> Path:
    file = directory / FILE_NAME
    if not directory.exists():
        fix = "check the path, or make it with wholedoc tm build"
        raise UserError("no such translation memory", where=str(directory), fix=fix)
    if not file.is_file():
        fix = "give a directory that wholedoc tm build has made"
        raise UserError("is no translation memory", where=str(directory), fix=fix)
    return file


def _connect(address: str) -> sqlite3.Connection:
    return sqlite3.connect(
        address, uri=True, isolation_level=None, timeout=30, check_same_thread=False
    )


def _check(connection: sqlite3.Connection, directory: Path) -> sqlite3.Connection:
    """Refuse a memory of another format; close what cannot be used."""
    try:
        (found,) = connection.execute("SELECT value FROM meta WHERE key = 'format'").fetchone()
        if found != FORMAT:
            what = f"made by another version of wholedoc (format {found}, not {FORMAT})"
            raise UserError(what, where=str(directory), fix="build it again with wholedoc tm build")
        connection.execute("SELECT id, src_key, tokens, src, trg FROM entries LIMIT 1").fetchone()
        connection.execute("SELECT entry, date, before FROM occurrences LIMIT 1").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def name_damage(directory: Path) -> Iterator[None]:
    """Turn a failure to read the file into an error that names the memory."""
    try:
        yield
    except (sqlite3.Error, TypeError) as error:  # TypeError: no format is noted
        what = f"the translation memory is damaged or cannot be read ({error})"
        fix = "restore it from a copy, or build it again with wholedoc tm build"
        raise UserError(what, where=str(directory), fix=fix) from error


@contextmanager
def name_failure(directory: Path) -> Iterator[None]:
    """Turn a failure to write, such as a full disk, into an error that names the memory."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        what = f"cannot write: {getattr(error, 'strerror', None) or error}"
        fix = "make room or check the directory; what was finished before is untouched"
        raise UserError(what, where=str(directory), fix=fix) from error


def lock_directory(directory: Path) -> int:
    """Keep other writers out until the file that is returned is closed, by death at the latest."""
    with name_failure(directory):
        handle = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        what = "another process is writing to this memory"
        raise UserError(what, where=str(directory), fix="wait until it has finished") from error
    return handle
