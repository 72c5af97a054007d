"""The entries of a memory in a directory: a SQLite file and its index, beside whoever writes."""

import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wholedoc.tm.database import INDEX_NAME, name_damage, open_to_read, text_key
from wholedoc.tm.entries import Entry, MemoryStatistics
from wholedoc.tm.index import IndexReader
from wholedoc.tm.writer import last_id

# Of each entry, the best place where it was found: one after the same segment as the query, else
# the newest, else the first. SQLite takes the plain columns from the row of the maximum.
_DETAILS = """
SELECT e.id, e.src, e.trg, d.name, o.place, d.origin, o.date, o.count, o.same
FROM (SELECT entry, document, place, date, COUNT(*) AS count, before IS :before AS same,
             MAX((before IS :before) || date)
      FROM occurrences WHERE entry IN ({ids}) GROUP BY entry) AS o
JOIN entries AS e ON e.id = o.entry JOIN documents AS d ON d.id = o.document
"""


class DirectoryStore:
    """A directory to be read, from any number of threads; opens at once, whatever its size.

    Sees what a writer has committed, from the next candidates on.
    """

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path
        self._guard = threading.RLock()
        self._connect()
        self.languages = str(self._meta("src_language")), str(self._meta("trg_language"))

    def close(self) -> None:
        """Let the files go."""
        with self._guard:
            if self._process == os.getpid():
                self._connection.close()
                self._index.close()

    def candidates(self, text: str, tokens: Sequence[str], count: int) -> dict[int, str]:
        """The encoded sources of candidates by id; the same text is always among them."""
        exact = "SELECT id, tokens FROM entries WHERE src_key = ?"
        with self._guard, name_damage(self._path):
            database = self._database()
            encoded = dict(database.execute(exact, (text_key(text),)).fetchall())
            ids = ",".join(map(str, self._index.candidates(tokens, count)))
            encoded |= database.execute(f"SELECT id, tokens FROM entries WHERE id IN ({ids})")
        return encoded

    def worth(self, tokens: Sequence[str]) -> list[float]:
        """How telling each token is: log(1 + entries / entries that have it), in any case."""
        with self._guard:
            self._database()
            return self._index.worth(tokens)

    def sources(self, ids: Sequence[int]) -> dict[int, str]:
        """The source texts of entries."""
        chosen = ",".join(map(str, ids))
        found = f"SELECT id, src FROM entries WHERE id IN ({chosen})"
        with self._guard, name_damage(self._path):
            return dict(self._database().execute(found).fetchall())

    def details(self, ids: Sequence[int], before: str | None) -> list[tuple[Entry, bool]]:
        """Entries in full, and whether each was found after the segment ``before``."""
        key = None if before is None else text_key(before)
        listed = ",".join(map(str, ids))
        with self._guard, name_damage(self._path):
            rows = self._database().execute(_DETAILS.format(ids=listed), {"before": key}).fetchall()
        return [(Entry(*row[:-1]), bool(row[-1])) for row in rows]

    def occurrences(self, ids: Sequence[int]) -> dict[int, list[tuple[Any, ...]]]:
        """Where entries were found: document, place, origin, date, key of the segment before."""
        listed = ",".join(map(str, ids))
        query = (
            "SELECT o.entry, d.name, o.place, d.origin, o.date, o.before FROM occurrences AS o "
            f"JOIN documents AS d ON d.id = o.document WHERE o.entry IN ({listed}) "
            "ORDER BY o.entry, o.document, o.place"
        )
        found: dict[int, list[tuple[Any, ...]]] = {number: [] for number in ids}
        with self._guard, name_damage(self._path):
            for number, *rest in self._database().execute(query):
                found[number].append(tuple(rest))
        return found

    def ids_after(self, last: int, count: int) -> list[int]:
        """The next ids after one, so many at most."""
        page = "SELECT id FROM entries WHERE id > ? ORDER BY id LIMIT ?"
        with self._guard, name_damage(self._path):
            return [row[0] for row in self._database().execute(page, (last, count))]

    def count(self) -> int:
        """How many entries there are."""
        return int(self._one("SELECT COUNT(*) FROM entries"))

    def version(self) -> int:
        """A number that changes whenever the content does."""
        return int(str(self._meta("version")))

    def last_id(self) -> int:
        """The highest id that an entry ever had; entries added later have higher ones."""
        with self._guard, name_damage(self._path):
            return last_id(self._database())

    def statistics(self) -> MemoryStatistics:
        """Count what the memory holds."""
        origins = (
            "SELECT origin, COUNT(*) FROM occurrences JOIN documents ON id = document "
            "GROUP BY origin ORDER BY origin"
        )
        several = "SELECT src_key FROM entries GROUP BY src_key HAVING COUNT(*) > 1"
        dates = "SELECT {}(date) FROM occurrences WHERE date != ''"
        with self._guard, name_damage(self._path):
            counts = dict(self._database().execute(origins).fetchall())
        entries, occurrences = self.count(), sum(counts.values())
        return MemoryStatistics(
            entries=entries,
            occurrences=occurrences,
            duplicates=occurrences - entries,
            contradictions=int(self._one(f"SELECT COUNT(*) FROM ({several})")),
            documents=int(self._one("SELECT COUNT(*) FROM documents")),
            origins=counts,
            src_language=self.languages[0],
            trg_language=self.languages[1],
            first_date=self._one(dates.format("MIN")) or "",
            last_date=self._one(dates.format("MAX")) or "",
            bytes_on_disk=sum(f.stat().st_size for f in self._path.rglob("*") if f.is_file()),
        )

    def _connect(self) -> None:
        self._process = os.getpid()
        self._connection = open_to_read(self._path)
        try:
            self._seen = self._data_version()
            self._index = IndexReader(self._path / INDEX_NAME)
        except BaseException:
            self._connection.close()
            raise

    def _database(self) -> sqlite3.Connection:
        """The connection of this process, after a look at whether somebody has written."""
        if self._process != os.getpid():  # a connection must not be used after a fork
            self._connect()
        if (seen := self._data_version()) != self._seen:
            self._index.reload()
            self._seen = seen
        return self._connection

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _one(self, query: str) -> Any:
        with self._guard, name_damage(self._path):
            return self._database().execute(query).fetchone()[0]

    def _meta(self, key: str) -> Any:
        return self._one(f"SELECT value FROM meta WHERE key = '{key}'")
