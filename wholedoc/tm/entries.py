"""Entries of a memory, and what a place that keeps them can do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


class EntryStore(Protocol):
    """Where the entries of a memory are kept and found: a directory, or an index of OpenSearch.

    It finds candidates; :class:`~wholedoc.tm.memory.TranslationMemory` compares them with a text.
    """

    place: str
    """Names it in errors."""
    languages: tuple[str, str]
    """Source and target; empty where they are not known."""

    def candidates(self, text: str, tokens: Sequence[str], count: int) -> dict[int, str]:
        """The encoded sources of entries that share tokens with a text, by id.

        The best so many by BM25, and always all entries of the same text.
        """

    def worth(self, tokens: Sequence[str]) -> list[float]:
        """How telling each token is: log(1 + entries / entries that have it), in any case."""

    def sources(self, ids: Sequence[int]) -> dict[int, str]:
        """The source texts of entries."""

    def details(self, ids: Sequence[int], before: str | None) -> list[tuple[Entry, bool]]:
        """Entries in full, and whether each was found after the segment ``before``."""

    def ids_after(self, last: int, count: int) -> list[int]:
        """The next ids after one, so many at most."""

    def count(self) -> int:
        """How many entries there are."""

    def version(self) -> int:
        """A number that changes whenever the content does."""

    def last_id(self) -> int:
        """The highest id that an entry ever had; entries added later have higher ones."""

    def statistics(self) -> MemoryStatistics:
        """Count what is kept."""

    def close(self) -> None:
        """Let files and connections go."""
