"""Documents of sentence pairs, which every reader makes and everything later takes, and filters.

Filters leave unusable pairs and documents out and count what they leave out: very short documents
and missing translations go, as in the paper; length limits are optional.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TypeVar

Part = TypeVar("Part")
GROUP_SENTENCES = 1000
"""Sentences that are translated or scored together: enough to fill batches of like lengths."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """One source sentence and its translation; ``trg`` is empty where none is given."""

    src: str
    trg: str = ""
    date: str = ""
    """When it was translated or last changed, in ISO 8601; empty where the file does not say."""
    line: int = field(default=0, compare=False)
    """Where it stands in the file of both sides; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Document:
    """Sentence pairs that belong together, in order."""

    name: str
    pairs: tuple[SentencePair, ...]

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[SentencePair]:
        return iter(self.pairs)


def group_documents(parts: Iterable[Part], size: Callable[[Part], int]) -> Iterator[list[Part]]:
    """Groups of whole documents, each with enough sentences to fill batches."""
    group: list[Part] = []
    sentences = 0
    for part in parts:
        group.append(part)
        sentences += size(part)
        if sentences >= GROUP_SENTENCES:
            yield group
            group, sentences = [], 0
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class Filters:
    """What is kept. A pair with an empty side is never kept: it has no translation."""

    min_sentences: int = 1
    """Documents with fewer pairs, after the filters on pairs, are left out."""
    max_words: int = 0
    """Pairs with more words on either side are left out; 0 keeps all."""
    max_ratio: float = 0.0
    """Pairs with a side more than this many times as long as the other are left out; 0: none."""


@dataclass(slots=True)
class FilterCounts:
    """How much was left out, by reason: pairs, then documents."""

    missing_translations: int = 0
    """Pairs with nothing on one side."""
    long_sentences: int = 0
    """Pairs with more than ``max_words`` words on a side."""
    uneven_lengths: int = 0
    """Pairs whose lengths differ by more than ``max_ratio``."""
    emptied_documents: int = 0
    """Documents without a pair left."""
    short_documents: int = 0
    """Documents with pairs, but fewer than ``min_sentences``."""

    def __str__(self) -> str:
        """In words, such as ``3 long sentences, 1 short documents``; ``nothing`` if so."""
        reasons = [f"{n:,} {name.replace('_', ' ')}" for name, n in asdict(self).items() if n]
        return ", ".join(reasons) or "nothing"


def filter_documents(
    documents: Iterable[Document], filters: Filters, counts: FilterCounts
) -> Iterator[Document]:
    """Yields the documents without the pairs that are filtered out; adds to ``counts``."""
    for document in documents:
        pairs = tuple(pair for pair in document if _keeps(pair, filters, counts))
        if not pairs:
            counts.emptied_documents += 1
        elif len(pairs) < filters.min_sentences:
            counts.short_documents += 1
        else:
            yield Document(document.name, pairs)


def _keeps(pair: SentencePair, filters: Filters, counts: FilterCounts) -> bool:
    src_words, trg_words = len(pair.src.split()), len(pair.trg.split())
    shorter, longer = min(src_words, trg_words), max(src_words, trg_words)
    if shorter == 0:
        counts.missing_translations += 1
        return False
    if filters.max_words and longer > filters.max_words:
        counts.long_sentences += 1
        return False
    if filters.max_ratio and longer > filters.max_ratio * shorter:
        counts.uneven_lengths += 1
        return False
    return True


def primary_language(code: str) -> str:
    """A code of a language without country or script: ``de`` for ``DE-AT``."""
    return re.split("[-_]", code.strip())[0].lower()


def clean_text(text: str) -> str:
    """Text that can be written: half a surrogate pair, which is no text, becomes ``?``."""
    return text.encode("utf-8", "replace").decode("utf-8")
