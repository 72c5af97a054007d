"""Glossaries that clients have made, by their ids: in memory, and in a folder if there is one."""

import csv
import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from wholedoc.corpus.glossary import Entry, Glossary
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.service.errors import RequestError
from wholedoc.service.languages import primary

Pair = tuple[str, str]
"""Codes of a source and a target language."""
_FORMATS = ("tsv", "csv")
_FULL = 456  # what DeepL says where a quota is used up


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary that a client has made."""

    number: str
    name: str
    created: str
    """When, in ISO 8601."""
    own: Glossary
    """What the client has sent."""
    enforced: Glossary
    """That, and what the service enforces always."""

    @property
    def pair(self) -> Pair:
        """Its languages."""
        return self.own.src_language, self.own.trg_language

    @property
    def size(self) -> int:
        """Characters of its terms."""
        return sum(len(entry.source) + len(entry.target) for entry in self.own.entries)


class Glossaries:
    """The glossaries of a service."""

    def __init__(
        self, most: int, most_characters: int, always: Mapping[Pair, Glossary], folder: Path | None
    ) -> None:
        """Open those in a folder, where one is given; ``always`` is enforced beside each."""
        self._most, self._most_characters = most, most_characters
        self._always, self._folder = always, folder
        self._lock = threading.Lock()
        self._stored: dict[str, StoredGlossary] = {}
        for file in sorted(folder.glob("*.json")) if folder else ():
            stored = self._load(file)
            self._stored[stored.number] = stored

    def make(self, name: str, pair: Pair, terms: Iterable[Entry]) -> StoredGlossary:
        """Keep a new glossary."""
        if not name.strip():
            raise RequestError(400, "a glossary needs a name")
        given = tuple(terms)
        if not given:
            raise RequestError(400, "a glossary needs an entry; write source<TAB>target")
        own = Glossary(given, *pair, "entries")
        if len(own.entries) < len(given):
            raise RequestError(400, "a source term comes twice; keep one of both")
        created = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        stored = self._store(str(uuid.uuid4()), name, created, own)
        with self._lock:
            size = stored.size + sum(each.size for each in self._stored.values())
            if len(self._stored) >= self._most or size > self._most_characters:
                what = f"{self._most:,} glossaries or {self._most_characters:,} characters of terms"
                raise RequestError(_FULL, f"no room: at most {what} are kept; delete some first")
            self._save(stored)
            self._stored[stored.number] = stored
        return stored

    def find(self, number: str) -> StoredGlossary:
        """A glossary; raises where there is none of this id."""
        stored = self._stored.get(number)
        if stored is None:
            raise RequestError(404, "there is no glossary of this id")
        return stored

    def drop(self, number: str) -> None:
        """Delete a glossary."""
        with self._lock:
            self.find(number)
            del self._stored[number]
            if self._folder is not None:
                self._file(number).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[StoredGlossary]:
        """All of them, the oldest first."""
        return iter(sorted(self._stored.values(), key=lambda each: each.created))

    def _store(self, number: str, name: str, created: str, own: Glossary) -> StoredGlossary:
        always = self._always.get((own.src_language, own.trg_language))
        return StoredGlossary(number, name, created, own, own.over(always))

    def _file(self, number: str) -> Path:
        return (self._folder or Path()) / f"{number}.json"

    def _save(self, stored: StoredGlossary) -> None:
        if self._folder is None:
            return
        values = {
            "name": stored.name,
            "created": stored.created,
            "languages": stored.pair,
            "entries": [entry[:2] for entry in stored.own.entries],
        }
        write_atomically(self._file(stored.number), json.dumps(values, ensure_ascii=False))

    def _load(self, file: Path) -> StoredGlossary:
        try:
            values = json.loads(file.read_text(encoding="utf-8"))
            source, target = values["languages"]
            own = Glossary.of(((s, t) for s, t in values["entries"]), source, target)
            return self._store(file.stem, values["name"], values["created"], own)
        except (OSError, ValueError, KeyError, TypeError) as error:
            what, fix = "is not a glossary that was kept here", "move the file elsewhere"
            raise UserError(what, where=str(file), fix=fix) from error


def read_entries(text: str, form: str, pair: Pair) -> Iterator[Entry]:
    """The entries of a text in one of DeepL's formats: tsv, or csv."""
    if form not in _FORMATS:
        raise RequestError(400, f"entries_format {form!r} is not supported; use tsv or csv")
    lines = text.splitlines()
    rows = csv.reader(lines) if form == "csv" else (line.split("\t") for line in lines)
    try:
        for number, row in enumerate(rows, start=1):
            columns = [column.strip() for column in row]
            if any(columns):
                yield _read_row(columns, number, pair)
    except csv.Error as error:
        raise RequestError(400, f"entries are not CSV: {error}") from error


def _read_row(columns: list[str], number: int, pair: Pair) -> Entry:
    """A source term and a target term, and perhaps their languages."""
    if len(columns) not in (2, 4):
        raise RequestError(400, f"entry {number} is not a source term and a target term")
    languages = tuple(map(primary, columns[2:]))
    if languages and languages != pair:
        raise RequestError(400, f"entry {number} is not in the languages of the glossary")
    return Entry(columns[0], columns[1], number)
