"""A translation memory to be read: the entries most like a text, all entries, statistics.

A memory is a directory that opens at once, whatever its size. Any number of processes read it
while one writes.
"""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.readers.inputs import same_language
from wholedoc.errors import UserError
from wholedoc.tm.database import INDEX_NAME, name_damage, open_to_read, text_key
from wholedoc.tm.index import CANDIDATES, IndexReader
from wholedoc.tm.matching import (
    EXACT,
    IN_CONTEXT,
    Coverage,
    cover,
    encode_tokens,
    percentage,
    split_tokens,
)
from wholedoc.tm.writer import MAX_CHARACTERS, last_id
from wholedoc.tm.writer import AddCounts as AddCounts
from wholedoc.tm.writer import MemoryWriter as MemoryWriter
from wholedoc.tm.writer import copy_memory as copy_memory

_PAGE = 1000  # entries that are read together
_COVERING = 64  # candidates among which those are chosen that cover a text together

# Of each entry, the best place where it was found: one after the same segment as the query, else
# the newest, else the first. SQLite takes the plain columns from the row of the maximum.
_DETAILS = """
SELECT e.id, e.src, e.trg, d.name, o.place, d.origin, o.date, o.count, o.same
FROM (SELECT entry, document, place, date, COUNT(*) AS count, before IS :before AS same,
             MAX((before IS :before) || date)
      FROM occurrences WHERE entry IN ({ids}) GROUP BY entry) AS o
JOIN entries AS e ON e.id = o.entry JOIN documents AS d ON d.id = o.document
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A segment and its translation, with the best place where the two were found."""

    id: int
    src: str
    trg: str
    document: str
    place: int
    """Of the segment in the document, counted from 1."""
    origin: str
    date: str
    """In ISO 8601; empty where none is known."""
    count: int
    """How many times the two were found."""


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that is like a text."""

    entry: Entry
    score: int
    """Per cent; 100 the same tokens, 101 the same segment before it, too."""
    coverage: float = 0.0
    """How much of the text it has, from 0 to 1, where that was asked for."""
    together: float = 0.0
    """How much of the text it has together with the others that were found."""


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """What a memory holds."""

    entries: int
    """Different pairs."""
    occurrences: int
    """Places where they were found."""
    duplicates: int
    """Occurrences beyond the first of each entry."""
    contradictions: int
    """Source segments with more than one translation."""
    documents: int
    origins: dict[str, int]
    """Occurrences from each origin."""
    src_language: str
    trg_language: str
    first_date: str
    last_date: str
    bytes_on_disk: int


class TranslationMemory:
    """A memory to be read, from any number of threads; pickled by its path.

    Sees what a writer has committed, from the next call on.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.resolve().name
        self._guard = threading.RLock()
        self._connect()
        self.src_language = str(self._meta("src_language"))
        self.trg_language = str(self._meta("trg_language"))

    @classmethod
    def open(cls, path: str | Path) -> "TranslationMemory":
        """Open a memory; raises UserError where there is none that can be read."""
        return cls(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return TranslationMemory, (self.path.resolve(),)

    def __enter__(self) -> "TranslationMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the files go."""
        with self._guard:
            if self._process == os.getpid():
                self._connection.close()
                self._index.close()

    def search(
        self, text: str, limit: int = 8, before: str | None = None, *, least: int = 0
    ) -> list[Match]:
        """The entries whose source is most like a text, by per cent, the best first.

        Of equal ones the more frequent comes first, then the newer, then the older id.
        ``before`` is the segment before the text, empty at the beginning of a document: an exact
        match after the same segment has 101 per cent. Entries of 0 per cent, or under ``least``,
        are left out.
        A text longer than any entry may be has no match.
        """
        text, before = clean_text(text), before and clean_text(before)
        tokens = split_tokens(text) if len(text) <= MAX_CHARACTERS else []
        if not tokens or limit < 1:
            return []
        with self._guard, name_damage(self.path):
            database = self._database()
            best = self._find_best(database, text, tokens, (limit, max(least, 1)))
            found = self._details(database, list(best), before)
        matches = [
            Match(entry, IN_CONTEXT if same and best[entry.id] == EXACT else best[entry.id])
            for entry, same in found
        ]
        return [match for match in _ranked(matches) if match.score >= least][:limit]

    def search_all(
        self,
        texts: Sequence[str],
        limit: int = 8,
        befores: Sequence[str | None] | None = None,
    ) -> list[list[Match]]:
        """:meth:`search` for each of several texts."""
        known = befores if befores is not None else [None] * len(texts)
        return [self.search(text, limit, before) for text, before in zip(texts, known, strict=True)]

    def covering(self, text: str, limit: int = 8, before: str | None = None) -> list[Match]:
        """Entries whose sources together have the words of a text, the most telling first.

        What recall reads: eight sentences with a part of the text each help more than eight that
        are like it in the same place.
        """
        text, before = clean_text(text), before and clean_text(before)
        tokens = split_tokens(text) if len(text) <= MAX_CHARACTERS else []
        if not tokens or limit < 1:
            return []
        with self._guard, name_damage(self.path):
            database = self._database()
            encoded = self._encoded(database, text, tokens, _COVERING)
            ids, coverage = list(encoded), self._cover(tokens, list(encoded.values()))
            code = encode_tokens(tokens)
            same = [place for place, number in enumerate(ids) if encoded[number] == code]
            places = list(dict.fromkeys((*same, *coverage.choose(limit))))
            chosen = {ids[place]: place for place in places}
            details = self._details(database, list(chosen), before)
        shares, together = coverage.shares, coverage.together(places)
        found = {}
        for entry, in_context in details:
            score = percentage(tokens, split_tokens(entry.src))
            score = IN_CONTEXT if in_context and score == EXACT else score
            found[entry.id] = Match(entry, score, shares[chosen[entry.id]], together)
        exact = _ranked([match for match in found.values() if match.score >= EXACT])
        others = [found[n] for n in chosen if n in found and found[n].score < EXACT]
        return [*exact, *others][:limit]

    def cover(self, text: str, sources: Sequence[str]) -> Coverage:
        """How much of a text other segments have; telling words count for more."""
        with self._guard, name_damage(self.path):
            self._database()
            encoded = [encode_tokens(split_tokens(src)) for src in sources]
            return self._cover(split_tokens(text), encoded)

    def _cover(self, tokens: Sequence[str], encoded: Sequence[str]) -> Coverage:
        code = encode_tokens(tokens)
        return cover(code, encoded, dict(zip(code, self._index.worth(tokens), strict=True)))

    def covering_all(
        self,
        texts: Sequence[str],
        limit: int = 8,
        befores: Sequence[str | None] | None = None,
    ) -> list[list[Match]]:
        """:meth:`covering` for each of several texts."""
        known = befores if befores is not None else [None] * len(texts)
        pairs = zip(texts, known, strict=True)
        return [self.covering(text, limit, before) for text, before in pairs]

    def check_languages(self, src: str, trg: str) -> None:
        """Raise where the memory is known to be of other languages."""
        own = self.src_language, self.trg_language
        for mine, wanted in zip(own, (src, trg), strict=True):
            if mine and wanted and not same_language(mine, wanted):
                what = f"is a memory from {own[0]} to {own[1]}, but {src} to {trg} is wanted"
                raise UserError(what, where=str(self.path), fix="give a memory of these languages")

    def entries(self) -> Iterator[Entry]:
        """All entries by id, read as they are asked for."""
        last = 0
        page = "SELECT id FROM entries WHERE id > ? ORDER BY id LIMIT ?"
        while True:
            with self._guard, name_damage(self.path):
                database = self._database()
                ids = [row[0] for row in database.execute(page, (last, _PAGE))]
                found = self._details(database, ids, None)
            if not ids:
                return
            yield from sorted((entry for entry, _ in found), key=lambda entry: entry.id)
            last = ids[-1]

    def __len__(self) -> int:
        return int(self._one("SELECT COUNT(*) FROM entries"))

    @property
    def version(self) -> int:
        """A number that changes whenever the content does."""
        return int(str(self._meta("version")))

    @property
    def last_id(self) -> int:
        """The highest id that an entry ever had; entries added later have higher ones."""
        with self._guard, name_damage(self.path):
            return last_id(self._database())

    def stats(self) -> MemoryStatistics:
        """Count what the memory holds."""
        origins = (
            "SELECT origin, COUNT(*) FROM occurrences JOIN documents ON id = document "
            "GROUP BY origin ORDER BY origin"
        )
        several = "SELECT src_key FROM entries GROUP BY src_key HAVING COUNT(*) > 1"
        dates = "SELECT {}(date) FROM occurrences WHERE date != ''"
        with self._guard, name_damage(self.path):
            counts = dict(self._database().execute(origins).fetchall())
        entries, occurrences = len(self), sum(counts.values())
        return MemoryStatistics(
            entries=entries,
            occurrences=occurrences,
            duplicates=occurrences - entries,
            contradictions=int(self._one(f"SELECT COUNT(*) FROM ({several})")),
            documents=int(self._one("SELECT COUNT(*) FROM documents")),
            origins=counts,
            src_language=self.src_language,
            trg_language=self.trg_language,
            first_date=self._one(dates.format("MIN")) or "",
            last_date=self._one(dates.format("MAX")) or "",
            bytes_on_disk=sum(f.stat().st_size for f in self.path.rglob("*") if f.is_file()),
        )

    def _encoded(
        self, database: sqlite3.Connection, text: str, tokens: Sequence[str], count: int
    ) -> dict[int, str]:
        """The encoded sources of candidates by id; the same text is always among them."""
        exact = "SELECT id, tokens FROM entries WHERE src_key = ?"
        encoded = dict(database.execute(exact, (text_key(text),)).fetchall())
        ids = ",".join(map(str, self._index.candidates(tokens, count)))
        encoded |= database.execute(f"SELECT id, tokens FROM entries WHERE id IN ({ids})")
        return encoded

    def _find_best(
        self,
        database: sqlite3.Connection,
        text: str,
        tokens: Sequence[str],
        wanted: tuple[int, int],
    ) -> dict[int, int]:
        """The percentages of the best candidates by id; exact matches are always among them.

        ``wanted``: how many, of how many per cent at least. Of equal ones all are returned.
        """
        encoded = self._encoded(database, text, tokens, CANDIDATES)
        code = encode_tokens(tokens)
        estimates = {number: percentage(code, other) for number, other in encoded.items()}
        chosen = ",".join(map(str, _keep_best(estimates, *wanted)))
        sources = database.execute(f"SELECT id, src FROM entries WHERE id IN ({chosen})")
        scores = {number: percentage(tokens, split_tokens(src)) for number, src in sources}
        if any(estimates[number] != score for number, score in scores.items()):
            everything = ",".join(map(str, estimates))  # two tokens look alike: compare the words
            sources = database.execute(f"SELECT id, src FROM entries WHERE id IN ({everything})")
            scores = {number: percentage(tokens, split_tokens(src)) for number, src in sources}
        return _keep_best(scores, *wanted)

    def _details(
        self, database: sqlite3.Connection, ids: Sequence[int], before: str | None
    ) -> list[tuple[Entry, bool]]:
        """Entries in full, and whether each was found after the segment ``before``."""
        key = None if before is None else text_key(before)
        listed = ",".join(map(str, ids))
        rows = database.execute(_DETAILS.format(ids=listed), {"before": key})
        return [(Entry(*row[:-1]), bool(row[-1])) for row in rows]

    def _connect(self) -> None:
        self._process = os.getpid()
        self._connection = open_to_read(self.path)
        try:
            self._seen = self._data_version()
            self._index = IndexReader(self.path / INDEX_NAME)
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
        with self._guard, name_damage(self.path):
            return self._database().execute(query).fetchone()[0]

    def _meta(self, key: str) -> Any:
        return self._one(f"SELECT value FROM meta WHERE key = '{key}'")


def _keep_best(scores: dict[int, int], limit: int, least: int) -> dict[int, int]:
    """Those that are among the best so many, or equal to one that is."""
    ranked = sorted(scores.values(), reverse=True)[:limit]
    floor = max(ranked[-1] if ranked else 0, least)
    return {number: score for number, score in scores.items() if score >= floor}


def _ranked(matches: list[Match]) -> list[Match]:
    """The best first: by score, then the more frequent, then the newer, then the older id."""
    matches = sorted(matches, key=lambda match: match.entry.id)
    matches.sort(key=lambda match: match.entry.date, reverse=True)
    matches.sort(key=lambda match: (-match.score, -match.entry.count))
    return matches
