"""What is done: a small database beside the results, which makes each document come once.

A translation is kept here until its shard is complete. The shard is then written under its name in
one step, and noted as finished in one transaction. Whoever is killed between the two writes the
same shard again, and nothing else.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from wholedoc.bulk.shards import Source
from wholedoc.bulk.work import Outcome
from wholedoc.errors import UserError

FILE_NAME = "bulk.sqlite"
_LAYOUT = """
CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS sources (name TEXT PRIMARY KEY, stamp TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS finished (shard TEXT PRIMARY KEY, documents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS translations (
    shard TEXT NOT NULL, row INTEGER NOT NULL, translation BLOB NOT NULL, PRIMARY KEY (shard, row)
);
CREATE TABLE IF NOT EXISTS failed (
    shard TEXT NOT NULL, row INTEGER NOT NULL, id TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (shard, row)
);
"""


class Ledger:
    """The database of one place of results; one process has it open at a time."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        """Open the ledger of a folder, or begin it; refuses to go on with other settings."""
        self._folder = folder
        with self._name_failure():
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(folder / FILE_NAME, isolation_level=None, timeout=1)
        try:
            with self._name_failure():
                self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
                self._database.execute("PRAGMA synchronous = FULL")
                self._database.execute("BEGIN EXCLUSIVE")
                self._database.execute("COMMIT")
                self._database.executescript(_LAYOUT)
            self._keep_settings(settings)
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def _keep_settings(self, settings: Mapping[str, Any]) -> None:
        """Note the settings of the first run; raise where those of a later one differ."""
        given = {key: json.dumps(value, sort_keys=True) for key, value in settings.items()}
        with self._together() as execute:
            known = dict(execute("SELECT key, value FROM settings").fetchall())
            for key, value in given.items():
                if known.get(key, value) != value:
                    what = f"was begun with {key} = {known[key]}, not {value}"
                    fix = "go on with the same settings, or choose another place with -o"
                    raise UserError(what, where=str(self._folder), fix=fix)
                execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (key, value))

    def begin(self, sources: Iterable[Source]) -> None:
        """Note the files of a collection as they are; a document that has changed is done again."""
        with self._together() as execute:
            known = dict(execute("SELECT name, stamp FROM sources").fetchall())
            for source in sources:
                if known.get(source.name, source.stamp) != source.stamp:
                    if source.has_rows:
                        what = f"has changed since its translation in {self._folder} was begun"
                        fix = "choose another place with -o"
                        raise UserError(what, where=str(source.path), fix=fix)
                    for table in ("finished", "translations", "failed"):
                        execute(f"DELETE FROM {table} WHERE shard = ?", (source.name,))
                execute("INSERT OR REPLACE INTO sources VALUES (?, ?)", (source.name, source.stamp))
            execute("DELETE FROM failed WHERE row = 0")  # files that could not be read: tried again

    def is_finished(self, shard: str) -> bool:
        """Whether a shard is written, or has nothing to write."""
        found = "SELECT 1 FROM finished WHERE shard = ?"
        return self._database.execute(found, (shard,)).fetchone() is not None

    def rows_done(self, shard: str) -> set[int]:
        """The rows of a shard that are translated or set aside."""
        found = "SELECT row FROM {} WHERE shard = ?"
        return {
            row
            for table in ("translations", "failed")
            for (row,) in self._database.execute(found.format(table), (shard,))
        }

    def record(self, outcomes: Iterable[Outcome]) -> None:
        """Keep what became of documents; what comes a second time changes nothing."""
        keep = "INSERT OR IGNORE INTO translations VALUES (?, ?, ?)"
        set_aside = "INSERT OR IGNORE INTO failed VALUES (?, ?, ?, ?)"
        with self._together() as execute:
            for shard, row, number, translation, reason in outcomes:
                if translation is None:
                    execute(set_aside, (shard, row, number, reason))
                else:
                    execute(keep, (shard, row, translation))

    def translations(self, shard: str) -> dict[int, bytes]:
        """The translations of a shard by row, while it is not finished."""
        found = "SELECT row, translation FROM translations WHERE shard = ? ORDER BY row"
        return dict(self._database.execute(found, (shard,)).fetchall())

    def finish(self, shard: str, documents: int) -> None:
        """Note that a shard is written, and let its translations go."""
        with self._together() as execute:
            execute("INSERT OR IGNORE INTO finished VALUES (?, ?)", (shard, documents))
            execute("DELETE FROM translations WHERE shard = ?", (shard,))

    def failures(self) -> Iterator[dict[str, Any]]:
        """The documents that were set aside, with the reasons."""
        found = "SELECT shard, row, id, reason FROM failed ORDER BY shard, row"
        for shard, row, number, reason in self._database.execute(found):
            yield {"id": number, "shard": shard, "row": row, "reason": reason}

    def count(self) -> tuple[int, int]:
        """How many documents are translated in finished shards, and how many were set aside."""
        one = self._database.execute
        (done,) = one("SELECT COALESCE(SUM(documents), 0) FROM finished").fetchone()
        (failed,) = one("SELECT COUNT(*) FROM failed").fetchone()
        return int(done), int(failed)

    @contextmanager
    def _together(self) -> Iterator[Any]:
        """A transaction: all of it is kept, or nothing."""
        with self._name_failure():
            self._database.execute("BEGIN")
            try:
                yield self._database.execute
                self._database.execute("COMMIT")
            finally:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")

    @contextmanager
    def _name_failure(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            where = str(self._folder)
            if "locked" in str(error):
                what, fix = "another run is writing here", "wait until it has finished"
            else:
                what = f"cannot write {FILE_NAME}: {getattr(error, 'strerror', None) or error}"
                fix = "make room, or choose another place with -o"
            raise UserError(what, where=where, fix=fix) from error
