"""A translation memory to be read: the entries most like a text, all entries, statistics.

A memory is a directory, or an index of OpenSearch: both find candidates (`EntryStore`), and what
makes a match of a candidate is here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.readers.inputs import same_language
from wholedoc.errors import UserError
from wholedoc.tm.directory import DirectoryStore
from wholedoc.tm.entries import Entry as Entry
from wholedoc.tm.entries import EntryStore
from wholedoc.tm.entries import MemoryStatistics as MemoryStatistics
from wholedoc.tm.index import CANDIDATES
from wholedoc.tm.matching import (
    EXACT,
    IN_CONTEXT,
    Coverage,
    cover,
    encode_tokens,
    percentage,
    split_tokens,
)
from wholedoc.tm.writer import MAX_CHARACTERS
from wholedoc.tm.writer import AddCounts as AddCounts
from wholedoc.tm.writer import MemoryWriter as MemoryWriter
from wholedoc.tm.writer import copy_memory as copy_memory

_ADDRESSES = ("opensearch://", "http://", "https://")
_PAGE = 1000  # entries that are read together
_COVERING = 64  # candidates among which those are chosen that cover a text together


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


class TranslationMemory:
    """A memory to be read, from any number of threads; pickled by its address.

    Sees what a writer has committed, from the next call on.
    """

    def __init__(self, path: str | Path) -> None:
        self._store = open_store(path)
        self.path = Path(path)
        self.name = self.path.resolve().name
        self.src_language, self.trg_language = self._store.languages

    @classmethod
    def open(cls, path: str | Path) -> "TranslationMemory":
        """Open a memory; raises UserError where there is none that can be read."""
        return cls(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return TranslationMemory, (resolve_address(self._store.place),)

    def __enter__(self) -> "TranslationMemory":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the files go."""
        self._store.close()

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
        best = self._find_best(text, tokens, (limit, max(least, 1)))
        found = self._store.details(list(best), before)
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
        encoded = self._store.candidates(text, tokens, _COVERING)
        ids, coverage = list(encoded), self._cover(tokens, list(encoded.values()))
        code = encode_tokens(tokens)
        same = [place for place, number in enumerate(ids) if encoded[number] == code]
        places = list(dict.fromkeys((*same, *coverage.choose(limit))))
        chosen = {ids[place]: place for place in places}
        details = self._store.details(list(chosen), before)
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
        encoded = [encode_tokens(split_tokens(src)) for src in sources]
        return self._cover(split_tokens(text), encoded)

    def _cover(self, tokens: Sequence[str], encoded: Sequence[str]) -> Coverage:
        code = encode_tokens(tokens)
        return cover(code, encoded, dict(zip(code, self._store.worth(tokens), strict=True)))

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
        while ids := self._store.ids_after(last, _PAGE):
            found = self._store.details(ids, None)
            yield from sorted((entry for entry, _ in found), key=lambda entry: entry.id)
            last = ids[-1]

    def __len__(self) -> int:
        return self._store.count()

    @property
    def version(self) -> int:
        """A number that changes whenever the content does."""
        return self._store.version()

    @property
    def last_id(self) -> int:
        """The highest id that an entry ever had; entries added later have higher ones."""
        return self._store.last_id()

    def stats(self) -> MemoryStatistics:
        """Count what the memory holds."""
        return self._store.statistics()

    def _find_best(
        self, text: str, tokens: Sequence[str], wanted: tuple[int, int]
    ) -> dict[int, int]:
        """The percentages of the best candidates by id; exact matches are always among them.

        ``wanted``: how many, of how many per cent at least. Of equal ones all are returned.
        """
        encoded = self._store.candidates(text, tokens, CANDIDATES)
        code = encode_tokens(tokens)
        estimates = {number: percentage(code, other) for number, other in encoded.items()}
        sources = self._store.sources(list(_keep_best(estimates, *wanted)))
        scores = {number: percentage(tokens, split_tokens(src)) for number, src in sources.items()}
        if any(estimates[number] != score for number, score in scores.items()):
            sources = self._store.sources(list(estimates))  # two tokens look alike: compare words
            scores = {n: percentage(tokens, split_tokens(src)) for n, src in sources.items()}
        return _keep_best(scores, *wanted)


def open_store(path: str | Path) -> EntryStore:
    """The entries of a memory, by its directory or the address of its index."""
    if is_address(path):
        from wholedoc.tm.opensearch import OpenSearchStore

        return OpenSearchStore(str(path))
    return DirectoryStore(Path(path))


def is_address(path: str | Path) -> bool:
    """Whether this is the address of an index of OpenSearch, not a directory."""
    return str(path).startswith(_ADDRESSES)


def resolve_address(path: str | Path) -> str:
    """The place of a memory, that holds wherever a process of this machine works."""
    return str(path) if is_address(path) else str(Path(path).resolve())


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
