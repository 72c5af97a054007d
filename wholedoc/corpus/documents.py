"""The values that every reader makes and everything later takes: a document of sentence pairs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

Part = TypeVar("Part")
GROUP_SENTENCES = 1000
"""Sentences that are translated or scored together: enough to fill batches of like lengths."""


@dataclass(frozen=True, slots=True)
class SentencePair:
    """One source sentence and its translation; ``trg`` is empty where none is given."""

    src: str
    trg: str = ""


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
