"""ODT: the paragraphs and headings of an OpenDocument text, its notes, headers and footers.

Spans that look alike and stand beside each other are one, whatever their styles are called. White
space is as the format has it: several characters of it are one space, unless ``text:s`` says so.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lxml import etree

from wholedoc.errors import UserError
from wholedoc.formats.segments import Content, Segment, plain
from wholedoc.formats.xml import (
    Alone,
    Archive,
    Filled,
    Inline,
    Node,
    Pair,
    Piece,
    Token,
    clean_text,
    find_segments,
    has_text,
    parse_xml,
    write_parts,
)

_OASIS = "urn:oasis:names:tc:opendocument:xmlns"
_TEXT = f"{{{_OASIS}:text:1.0}}"
_STYLE = f"{{{_OASIS}:style:1.0}}"
_FORMAT = f"{{{_OASIS}:xsl-fo-compatible:1.0}}"
_OFFICE = f"{{{_OASIS}:office:1.0}}"
_MANIFEST = "META-INF/manifest.xml"
_SPAN, _SPACE = f"{_TEXT}span", f"{_TEXT}s"
_PARTS = ("content.xml", "styles.xml")
_FLAT = "flat"
_AROUND = {f"{_TEXT}a": "a", f"{_TEXT}meta": "meta", _SPAN: "span"}
_WHITE = {f"{_TEXT}line-break": "⏎", f"{_TEXT}tab": "⇥"}
_MARKS = frozenset({f"{_TEXT}soft-page-break"})
_ELSEWHERE = frozenset({f"{_TEXT}tracked-changes", f"{_OFFICE}annotation"})
_UNSEEN = frozenset(  # of spans that look alike all the same
    {f"{_FORMAT}language", f"{_FORMAT}country", f"{_FORMAT}script"}
    | {f"{_STYLE}{what}-{where}" for what in ("language", "country", "script")
       for where in ("asian", "complex")}
)  # fmt: skip
_NAMES = {
    f"{_FORMAT}font-weight": "b",
    f"{_FORMAT}font-style": "i",
    f"{_STYLE}text-underline-style": "u",
    f"{_FORMAT}color": "color",
}
_COLLAPSED = re.compile("[ \t\r\n]+")
_MOST_SPACES = 100  # that one text:s is read as


class Odt:
    """An OpenDocument text: paragraphs out, paragraphs in, all else as it was."""

    name: ClassVar[str] = "odt"
    endings: ClassVar[tuple[str, ...]] = (".odt", ".ott", ".fodt")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read an OpenDocument text, or one that is flat: a single XML file."""
        self._where, self._flat = where, data
        is_flat = data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        self._archive = None if is_flat else _open(data, where)
        self._names = [] if self._archive is None else _find_parts(self._archive)
        self.segments: Sequence[Segment] = find_segments(part[2] for part in self._parts())

    def _parts(self) -> "Iterator[tuple[str, Any, list[_Paragraph]]]":
        """The parts with text: their names, trees, and what there is to translate in them."""
        if self._archive is not None:
            for name in self._names:
                tree = self._archive.parse(name)
                yield name, tree, _find_paragraphs(tree.getroot(), f"{name}, ")
            return
        tree = parse_xml(self._flat, self._where)
        if tree.getroot().tag != f"{_OFFICE}document":
            raise UserError("XML, but not an OpenDocument text", where=self._where)
        yield _FLAT, tree, _find_paragraphs(tree.getroot(), "")

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The document with its paragraphs translated."""
        changed = write_parts(self._parts(), translations)
        if self._archive is None:
            return changed.get(_FLAT, self._flat)
        return self._archive.edited(changed)


def _open(data: bytes, where: str) -> Archive:
    """The archive of a document that has no password."""
    archive = Archive(data, where, ".odt")
    if _MANIFEST in archive.names and b"encryption-data" in archive.read(_MANIFEST):
        raise UserError("encrypted", where=where, fix="save it without a password")
    return archive


def _find_parts(archive: Archive) -> list[str]:
    if _PARTS[0] not in archive.names:
        raise UserError(
            f"not an OpenDocument text: it has no {_PARTS[0]}",
            where=archive.where,
            fix="open it in an office program and save it as .odt",
        )
    return [name for name in _PARTS if name in archive.names]


@dataclass(frozen=True, eq=False)
class _Paragraph:
    """A paragraph or a heading, and its inline content."""

    node: Any
    inline: Inline
    place: str

    @property
    def content(self) -> Content:
        """The source."""
        return self.inline.content

    def write(self, content: Content) -> None:
        """Give the paragraph new content."""
        _Writer().fill(self.node, self.inline.fill(content))


@dataclass(frozen=True)
class _Look:
    """What a style looks like: equal for styles that nobody can tell apart."""

    format: str
    name: str


def _find_paragraphs(root: Any, part: str) -> list[_Paragraph]:
    """What there is to translate in a part, in its order."""
    looks = _find_looks(root)
    names = {look.format: look.name for look in looks.values()}
    found = []
    for number, node in enumerate(root.iter(f"{_TEXT}p", f"{_TEXT}h"), 1):
        if any(above.tag in _ELSEWHERE for above in node.iterancestors()):
            continue
        inline = Inline(_Reader(looks).read(node), names)
        if any(character.isalnum() for character in plain(inline.content)):
            found.append(_Paragraph(node, inline, f"{part}paragraph {number}"))
    return found


def _find_looks(root: Any) -> dict[str, _Look]:
    """What the automatic styles of text in a part look like."""
    looks = {}
    for styles in root.iter(f"{_OFFICE}automatic-styles"):
        for style in styles.iter(f"{_STYLE}style"):
            if style.get(f"{_STYLE}family") == "text":
                looks[style.get(f"{_STYLE}name", "")] = _look_of(style)
    return looks


def _look_of(style: Any) -> _Look:
    properties = [
        item
        for each in style.iter(f"{_STYLE}text-properties")
        for item in sorted(each.items())
        if item[0] not in _UNSEEN and not item[0].endswith("rsid")
    ]
    parent = style.get(f"{_STYLE}parent-style-name", "")
    format_ = f"{parent} {properties}" if parent or properties else ""
    name = next((_NAMES[key] for key, _ in properties if key in _NAMES), "span")
    return _Look(format_, name)


class _Reader:
    """Reads the inline content of a paragraph."""

    def __init__(self, looks: dict[str, _Look]) -> None:
        self._looks = looks
        self._spaced = True  # whether white space that follows is not seen

    def read(self, parent: Any, holder: Any = None) -> list[Node]:
        """The nodes of a paragraph, or of what surrounds some of it."""
        nodes: list[Node] = list(self._text(parent.text, holder))
        for child in parent:
            nodes += self._nodes(child, holder)
            nodes += self._text(child.tail, holder)
        return nodes

    def _text(self, raw: str | None, holder: Any) -> Iterator[Piece]:
        if raw:
            text = _collapse(raw, self._spaced)
            self._spaced = text.endswith(" ") if text else self._spaced
            yield Piece(raw, holder, text, self._format_of(holder))

    def _nodes(self, node: Any, holder: Any) -> list[Node]:
        if node.tag == _SPACE:
            self._spaced = False
            return [Piece(node, holder, " " * _count_of(node), self._format_of(holder))]
        if node.tag in _MARKS:
            return [Piece(node, holder)]
        if node.tag == _SPAN and not any(child.tag in _AROUND for child in node):
            return self.read(node, node) or [Piece(None, node)]
        if node.tag in _AROUND:
            children = self.read(node)
            if has_text(children):
                return [Pair(children, _AROUND[node.tag], node, node)]
        self._spaced = self._spaced and _is_invisible(node)
        return [_alone(node, holder)]

    def _format_of(self, span: Any) -> str:
        """What a span looks like; nothing where the text is in none."""
        if span is None:
            return ""
        style = span.get(f"{_TEXT}style-name", "")
        look = self._looks.get(style)
        rest = sorted(item for item in span.items() if item[0] != f"{_TEXT}style-name")
        return (look.format if look else style) + (str(rest) if rest else "")


def _is_invisible(node: Any) -> bool:
    """Whether a node only marks a place, as a bookmark does."""
    if not isinstance(node.tag, str):
        return True
    name = etree.QName(node).localname
    return node.tag in _MARKS or re.search("mark(-start|-end)?$|^change", name) is not None


def _alone(node: Any, holder: Any) -> Alone:
    """A node that is no text."""
    if node.tag in _WHITE:
        return Alone([Piece(node, holder)], _WHITE[node.tag], space=True)
    name = etree.QName(node).localname if isinstance(node.tag, str) else "comment"
    stem = name.removesuffix("-start").removesuffix("-end")
    keys = (f"{_TEXT}name", f"{_TEXT}id", f"{_TEXT}change-id", f"{_OFFICE}name")
    range_ = f"{stem} {[node.get(key) for key in keys]}" if stem != name else ""
    return Alone([Piece(node, holder)], f"<{name}/>", range=range_)


def _count_of(node: Any) -> int:
    """How many spaces a ``text:s`` stands for."""
    count = node.get(f"{_TEXT}c", "1")
    return min(int(count), _MOST_SPACES) if count.isdecimal() else 1


def _collapse(raw: str, spaced: bool) -> str:
    """Text as people see it, where it follows a space (or the start of all) or not."""
    text = _COLLAPSED.sub(" ", raw)
    return text[1:] if spaced and text.startswith(" ") else text


class _Writer:
    """Writes the inline content of a paragraph."""

    def __init__(self) -> None:
        self._spaced = True
        self._used: set[Any] = set()
        self._holder: Any = None  # whose span is written to
        self._span: Any = None

    def fill(self, parent: Any, tokens: Sequence[Token]) -> None:
        """Give a paragraph, or what surrounds some of it, new content."""
        _empty(parent)
        self._holder = None
        for token in tokens:
            self._add(parent, token)
        self._holder = None

    def _add(self, parent: Any, token: Token) -> None:
        if isinstance(token, Filled):
            for piece in token.pair.opening:
                self._add(parent, piece)
            _append(parent, token.pair.element)
            self.fill(token.pair.inner, token.tokens)
            for piece in token.pair.closing:
                self._add(parent, piece)
        else:
            self._add_piece(self._place_for(parent, token.holder), token)

    def _place_for(self, parent: Any, holder: Any) -> Any:
        """The element that something of a holder goes into."""
        if holder is None:
            self._holder = None
            return parent
        if holder is not self._holder:
            self._holder, self._span = holder, self._take_span(holder)
            _append(parent, self._span)
        return self._span

    def _take_span(self, holder: Any) -> Any:
        """A span itself the first time, then a copy without content."""
        if holder in self._used:
            return etree.Element(holder.tag, holder.attrib, nsmap=holder.nsmap)
        self._used.add(holder)
        _empty(holder)
        return holder

    def _add_piece(self, target: Any, piece: Piece) -> None:
        if isinstance(piece.node, str) and _collapse(piece.node, self._spaced) == piece.text:
            _append_text(target, piece.node)
            self._spaced = piece.text.endswith(" ") if piece.text else self._spaced
        elif piece.node is None or isinstance(piece.node, str):
            self._add_new(target, clean_text(piece.text))
        else:
            _append(target, piece.node)
            if piece.node.tag in _AROUND and not self._spaced:
                _drop_spaces(piece.node)
            if piece.text or not _is_invisible(piece.node):
                self._spaced = False

    def _add_new(self, target: Any, text: str) -> None:
        """Add text; each space that would not be seen as ``text:s``."""
        for part in re.split("( +)", text):
            if not part.startswith(" "):
                _append_text(target, part)
                self._spaced = self._spaced and not part
                continue
            rest = len(part) - (not self._spaced)
            _append_text(target, " " * (len(part) - rest))
            self._spaced = True
            if rest:
                node = etree.SubElement(target, _SPACE)
                if rest > 1:
                    node.set(f"{_TEXT}c", str(rest))
                self._spaced = False


def _empty(node: Any) -> None:
    """Take all content out of an element; what follows it stays."""
    node.text = None
    for child in list(node):
        child.tail = None
        node.remove(child)


def _drop_spaces(node: Any) -> None:
    """Drop the white space of a link without text, which is not seen only after other."""
    node.text = None
    for child in node:
        child.tail = None
        if child.tag in _AROUND:
            _drop_spaces(child)


def _append(parent: Any, node: Any) -> None:
    node.tail = None
    parent.append(node)


def _append_text(parent: Any, text: str) -> None:
    """Add text at the end of an element."""
    if not text:
        return
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text
