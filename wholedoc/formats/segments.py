"""Segments: what a document has to translate, as text with inline tags, whatever its format.

A segment is a paragraph, a heading, a cell, an entry. Its content is text with tags between: what
is bold, a link, a picture, a placeholder. The model reads the text; each tag then finds its place
in the translation (`placing`), so that none is lost and none comes twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from wholedoc.errors import UserError

Kind = Literal["open", "close", "alone"]


@dataclass(frozen=True)
class Tag:
    """An inline tag: one of a pair around some text, or one that stands alone."""

    kind: Kind
    id: int
    """Which tag of its segment it is; both of a pair have the same."""
    shown: str = ""
    """How people see it, such as ``<b>``."""
    space: bool = False
    """Whether it stands for white space, as the end of a line does; it then stands alone."""


Content = tuple[str | Tag, ...]
"""Text and tags in their order; tags that open are closed, the last opened first."""


@dataclass(frozen=True)
class Segment:
    """One piece of a document that is translated by itself."""

    source: Content
    place: str
    """Where it stands, for people: ``line 12``, ``word/footnotes.xml, paragraph 3``."""
    target: Content | None = None
    """The translation that the document has already."""
    approved: bool = False
    """Whether a person has approved that translation, which then stays as it is."""
    sentence: bool = False
    """Whether it is one sentence, whatever its marks: it is not split."""


class DocumentFile(Protocol):
    """A document in one format: its segments out, their translations in."""

    name: ClassVar[str]
    """Of the format, for ``--format``."""
    endings: ClassVar[tuple[str, ...]]
    """Of its files."""
    segments: Sequence[Segment]

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:
        """Read a file; ``where`` names it in errors."""

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with a translation for each segment; where there is None it stays as it is."""


def plain(content: Content) -> str:
    """The text alone; a tag that stands for white space is a space."""
    return "".join(part if isinstance(part, str) else " " * part.space for part in content)


def shown(content: Content) -> str:
    """The text with its tags, for people."""
    return "".join(part if isinstance(part, str) else part.shown for part in content)


def tags_of(content: Content) -> list[Tag]:
    """The tags in their order."""
    return [part for part in content if isinstance(part, Tag)]


def normalised(parts: Iterable[str | Tag]) -> Content:
    """Content without empty texts and with no two texts beside each other."""
    content: list[str | Tag] = []
    for part in parts:
        if isinstance(part, str) and content and isinstance(content[-1], str):
            content[-1] += part
        elif part != "":
            content.append(part)
    return tuple(content)


def check_tags(source: Content, translation: Content) -> None:
    """Raise where a translation does not have the tags of its source, each once, well nested."""
    opened: list[int] = []
    for tag in tags_of(translation):
        if tag.kind == "open":
            opened.append(tag.id)
        elif tag.kind == "close" and (not opened or opened.pop() != tag.id):
            raise UserError(f"{tag.shown or tag.id} closes no tag", where=shown(translation))
    if opened:
        raise UserError("a tag is not closed", where=shown(translation))
    wanted, found = ({(t.kind, t.id) for t in tags_of(each)} for each in (source, translation))
    if wanted != found or len(tags_of(source)) != len(tags_of(translation)):
        raise UserError("not the tags of the source", where=shown(translation))
