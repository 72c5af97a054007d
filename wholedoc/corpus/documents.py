"""The values that every reader makes and everything later takes: a document of sentence pairs."""

from collections.abc import Iterator
from dataclasses import dataclass


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
