"""What goes to workers and what comes back: documents, how to translate them, their outcomes."""

from dataclasses import dataclass
from typing import NamedTuple

from wholedoc.config import SearchConfig

LINES = "lines"
SENTENCES = "sentences"
TEXT = "text"


@dataclass(frozen=True)
class Document:
    """A document to translate."""

    shard: str
    """The file of results that it belongs to."""
    row: int
    """Its place in its input, a line or row counted from 1; 1 for a file."""
    id: str
    form: str
    """The name of a format, ``lines`` for a file of lines, ``sentences`` for a JSON list."""
    content: bytes
    where: str
    """Names it in errors."""


@dataclass(frozen=True)
class Work:
    """What a worker does with every document; places are absolute."""

    model: str
    search: SearchConfig
    memories: tuple[str, ...] = ()
    glossary: str = ""
    int8: bool = False
    own_memory: bool = True


class Outcome(NamedTuple):
    """What became of a document: a translation, or the reason why there is none."""

    shard: str
    row: int
    id: str
    translation: bytes | None
    reason: str = ""
