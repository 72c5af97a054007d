"""Documents that are XML in a zip archive: safe reading and writing, and inline content.

Nothing of a document is trusted: no entity is expanded, nothing is fetched, no member of an archive
grows without limit, and none is ever written to disk.
"""

import io
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lxml import etree

from wholedoc.errors import UserError
from wholedoc.formats.segments import Content, Segment, Tag, check_tags, normalised

_MEGABYTE = 2**20
MOST_MEMBER = 512 * _MEGABYTE
MOST_TOTAL = 1024 * _MEGABYTE
MOST_RATIO = 200
MOST_MEMBERS = 20_000
MOST_XML = 100 * _MEGABYTE
MOST_TAGS = 2_000_000
"""Tags and attributes of XML that is parsed; each takes up to 0.5 KB."""
_RATIO_FROM = 10 * _MEGABYTE
_DIRECTORY_ENTRY = b"PK\x01\x02"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BREAKS = re.compile(r"\r\n|[\t\n\r]")
_ROOT = -1
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)


def parse_xml(data: bytes, where: str) -> Any:
    """The tree of an XML file; ``where`` names it in errors.

    Entities are refused with the document type that would define them.
    """
    check_size(data, where)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
    try:
        tree = etree.parse(io.BytesIO(data), parser)
    except etree.XMLSyntaxError as error:
        what = f"not XML: {error.msg or 'empty'}"
        raise UserError(what, where=f"{where}:{error.lineno or 1}") from error
    if tree.docinfo.doctype or tree.docinfo.internalDTD is not None:
        raise UserError("a document type (DTD) is not accepted", where=where, fix="remove it")
    return tree


def check_size(data: bytes, where: str) -> None:
    """Refuse a file whose tree would take more memory than it may."""
    if len(data) > MOST_XML:
        what = f"XML of {len(data):,} bytes, more than {MOST_XML:,}"
        raise UserError(what, where=where, fix="translate it in parts")
    if data.count(b"<") + data.count(b"=") > MOST_TAGS:
        what = f"XML of more than {MOST_TAGS:,} tags and attributes"
        raise UserError(what, where=where, fix="translate it in parts")


def xml_bytes(tree: Any) -> bytes:
    """An XML file again, declared as it was."""
    info = tree.docinfo
    encoding, standalone = info.encoding or "UTF-8", info.standalone
    data: bytes = etree.tostring(
        tree, xml_declaration=True, encoding=encoding, standalone=standalone
    )
    return data


def clean_text(text: str) -> str:
    """Text that XML can hold: no control characters, and a space for a tab or the end of a line."""
    return _NOT_XML.sub("", _BREAKS.sub(" ", text))


class Archive:
    """The members of a zip archive, read with guards and written as they were but for some."""

    def __init__(self, data: bytes, where: str, ending: str) -> None:
        """Open an archive; ``ending`` is the one that its kind of file should have."""
        self.where = where
        if data.startswith(_OLE):
            raise UserError(
                "an old binary document, or one with a password",
                where=where,
                fix=f"save it as {ending}, without a password",
            )
        if data.count(_DIRECTORY_ENTRY) > MOST_MEMBERS:  # before a list of them is made
            raise UserError(f"more than {MOST_MEMBERS:,} members: refused", where=where)
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (*_DAMAGE, struct.error, NotImplementedError) as error:
            raise UserError(
                f"not a {ending} document: no zip archive, or a damaged one",
                where=where,
                fix=f"open it in an office program and save it as {ending}",
            ) from error
        self._check()

    def _check(self) -> None:
        """Refuse archives that grow without limit, or that cannot be read."""
        members = self._zip.infolist()
        names = Counter(info.filename for info in members)
        if "" in names or len(names) < len(members):
            name = "" if "" in names else names.most_common(1)[0][0]
            what = f"damaged: two members are called {name!r}" if name else "a member has no name"
            raise UserError(what, where=self.where, fix="save it again in an office program")
        for info in members:
            place = f"{self.where}, {info.filename}"
            if info.flag_bits & 1:
                raise UserError("encrypted", where=place, fix="save it without a password")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise UserError("compressed in a way that documents never are", where=place)
            ratio = info.file_size / max(info.compress_size, 1)
            grows = info.file_size > _RATIO_FROM and ratio > MOST_RATIO
            if grows or info.file_size > MOST_MEMBER:
                raise UserError(f"expands to {info.file_size:,} bytes: refused", where=place)
        total = sum(info.file_size for info in members)
        if total > MOST_TOTAL:
            raise UserError(f"expands to {total:,} bytes: refused", where=self.where)

    @property
    def names(self) -> list[str]:
        """The names of the members, in their order."""
        return self._zip.namelist()

    def read(self, name: str) -> bytes:
        """The data of the member of a name."""
        return self._read(self._zip.getinfo(name))

    def _read(self, info: zipfile.ZipInfo) -> bytes:
        try:
            return self._zip.read(info)
        except (*_DAMAGE, RuntimeError) as error:
            raise UserError(f"damaged: {error}", where=f"{self.where}, {info.filename}") from error

    def parse(self, name: str) -> Any:
        """The tree of the XML member of a name."""
        return parse_xml(self.read(name), f"{self.where}, {name}")

    def edited(self, changed: Mapping[str, bytes]) -> bytes:
        """The archive with new data for some members; the others, and all dates, as they were."""
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as target:
            target.comment = self._zip.comment
            for info in self._zip.infolist():
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                copy.compress_type, copy.external_attr = info.compress_type, info.external_attr
                copy.create_system, copy.comment = info.create_system, info.comment
                data = changed.get(info.filename)
                target.writestr(copy, self._read(info) if data is None else data)
        return stream.getvalue()


@dataclass(frozen=True, eq=False)
class Piece:
    """A piece of a paragraph: text, or a mark that matters only while the text is as it was."""

    node: Any
    """As it stands in the file; None for new text, and for an empty holder."""
    holder: Any = None
    """The run or span it stands in; None directly in the paragraph."""
    text: str = ""
    """As people read it; empty for a mark."""
    format: str = ""
    """Equal where pieces look alike."""


@dataclass(frozen=True, eq=False)
class Alone:
    """What is no text and is kept whole: a picture, a note, a field, the end of a line."""

    pieces: list[Piece]
    shown: str
    space: bool = False
    range: str = ""
    """What it begins or ends, such as a bookmark, which must begin before it ends."""


@dataclass(frozen=True, eq=False)
class Pair:
    """What surrounds text: an element such as a link, or a field of several pieces."""

    children: "list[Node]"
    shown: str
    element: Any = None
    inner: Any = None
    """The element that has the children, where it is not ``element``."""
    opening: list[Piece] = field(default_factory=list)
    closing: list[Piece] = field(default_factory=list)


Node = Piece | Alone | Pair


class Entry(Protocol):
    """What is translated once in a part of a document."""

    @property
    def place(self) -> str:
        """Where it stands, for people."""

    @property
    def content(self) -> Content:
        """The source."""

    def write(self, content: Content) -> None:
        """Put a translation in its place."""


def find_segments(parts: Iterable[Sequence[Entry]]) -> list[Segment]:
    """The segments of the parts of a document."""
    return [Segment(entry.content, entry.place) for entries in parts for entry in entries]


def write_parts(
    parts: Iterable[tuple[str, Any, Sequence[Entry]]], translations: Sequence[Content | None]
) -> dict[str, bytes]:
    """The parts that translations change, by their names: each has a tree and its entries."""
    changed, left = {}, list(translations)
    for name, tree, entries in parts:
        mine, left = left[: len(entries)], left[len(entries) :]
        for entry, content in zip(entries, mine, strict=True):
            if content is not None:
                check_tags(entry.content, content)
                entry.write(content)
        if any(content is not None for content in mine):
            changed[name] = xml_bytes(tree)
    if left:
        raise ValueError(f"{len(left)} translations more than there are segments")
    return changed


@dataclass(frozen=True, eq=False)
class Filled:
    """A pair with what it surrounds in a translation."""

    pair: Pair
    tokens: "list[Token]"


Token = Piece | Filled
"""What a paragraph is written from."""


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Pieces of text that look alike and stand beside each other."""

    format: str
    pieces: list[Piece]

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


_Item = _Stretch | Alone | Pair


def has_text(nodes: Iterable[Node]) -> bool:
    """Whether there is text anywhere in some nodes."""
    return any(_carries_text(node) for node in nodes)


def _carries_text(node: Node) -> bool:
    return isinstance(node, Pair) or (isinstance(node, Piece) and node.text != "")


class Inline:
    """The inline content of one paragraph: text and tags out, a translation in.

    What looks like most of the paragraph has no tag, nor has what stands before or after all text
    or surrounds all of it.
    """

    def __init__(self, nodes: Sequence[Node], names: Mapping[str, str]) -> None:
        """Read the nodes of a paragraph; ``names`` are those of formats, for people."""
        self._names = names
        self._around: list[tuple[Sequence[Node], Pair | None, Sequence[Node]]] = []
        self._alone: dict[int, Alone] = {}
        self._pairs: dict[int, Pair | None] = {}
        self._holders: dict[int, Any] = {}
        self._stretches: dict[tuple[int, str], list[list[Piece]]] = {}
        self.content: Content = normalised(_Level(self, self._unwrap(nodes), _ROOT).parts)

    def _unwrap(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Set aside what stands around all text; return the rest."""
        while True:
            places = [n for n, node in enumerate(nodes) if _carries_text(node)]
            if not places:
                return []
            first, last = places[0], places[-1] + 1
            only = nodes[first] if last - first == 1 else None
            pair = only if isinstance(only, Pair) else None
            self._around.append((nodes[:first], pair, nodes[last:]))
            if pair is None:
                return nodes[first:last]
            nodes = pair.children

    def add_alone(self, item: Alone) -> Tag:
        """The tag for something that stands alone."""
        number = len(self._alone) + len(self._pairs)
        self._alone[number] = item
        return Tag("alone", number, item.shown, space=item.space)

    def add_pair(self, pair: Pair | None) -> int:
        """The number of a new pair of tags; no ``pair`` where it is a format."""
        number = len(self._alone) + len(self._pairs)
        self._pairs[number] = pair
        return number

    def add_stretch(self, outer: int, stretch: _Stretch) -> None:
        """Remember how a text stands in the file, inside the pair of tags ``outer``."""
        self._stretches.setdefault((outer, stretch.text), []).append(stretch.pieces)

    def set_holder(self, outer: int, holder: Any) -> None:
        """Set what new text inside a pair of tags looks like."""
        self._holders[outer] = holder

    def name_of(self, format_: str) -> str:
        """The name of a format, for people."""
        return self._names.get(format_, "f")

    def fill(self, translation: Content) -> list[Token]:
        """What the paragraph of a translation is written from; it has the tags of the source."""
        stack: list[tuple[int, list[Token]]] = [(_ROOT, [])]
        for part in self._in_order(normalised(translation)):
            outer, tokens = stack[-1]
            if isinstance(part, str):
                tokens += self._find_text(outer, part)
            elif part.kind == "alone":
                tokens += self._alone[part.id].pieces
            elif part.kind == "open":
                stack.append((part.id, []))
            else:
                pair, inside = self._pairs[part.id], stack.pop()[1]
                stack[-1][1].extend([Filled(pair, inside)] if pair else inside)
        return self._wrap(stack[0][1])

    def _find_text(self, outer: int, text: str) -> list[Piece]:
        """Pieces for a text: those of the source where it has the same, or new ones."""
        found = self._stretches.get((outer, text))
        return found.pop(0) if found else [Piece(None, self._holders.get(outer), text)]

    def _in_order(self, content: Content) -> Content:
        """Content in which every bookmark begins before it ends."""
        parts = list(content)
        seen: dict[str, list[int]] = {}
        for n, part in enumerate(parts):
            if isinstance(part, Tag) and part.kind == "alone" and self._alone[part.id].range:
                seen.setdefault(self._alone[part.id].range, []).append(n)
        for places in seen.values():
            tags = sorted((parts[n] for n in places), key=lambda tag: tag.id)  # type: ignore[union-attr]
            for n, tag in zip(places, tags, strict=True):
                parts[n] = tag
        return tuple(parts)

    def _wrap(self, tokens: list[Token]) -> list[Token]:
        """Tokens with what stands around all text."""
        for before, pair, after in reversed(self._around):
            inside: list[Token] = [Filled(pair, tokens)] if pair else tokens
            tokens = [*_pieces_of(before), *inside, *_pieces_of(after)]
        return tokens


def _pieces_of(nodes: Iterable[Node]) -> Iterator[Piece]:
    for node in nodes:
        if isinstance(node, Alone):
            yield from node.pieces
        elif isinstance(node, Piece):
            yield node


class _Level:
    """The parts of the content of one level of a paragraph: all of it, or what a pair surrounds."""

    def __init__(self, inline: Inline, nodes: Sequence[Node], outer: int) -> None:
        self.parts: list[str | Tag] = []
        self._inline, self._outer = inline, outer
        self._format: str | None = None  # of the text before
        self._opened: Tag | None = None
        self._waiting: list[Tag] = []  # tags that stand alone since the text before
        items = _collect(nodes)
        self._base, holder = _most_common(items, nodes)
        inline.set_holder(outer, holder)
        for item in items:
            self._add(item)
        self._close()

    def _add(self, item: _Item) -> None:
        if isinstance(item, Alone):
            self._waiting.append(self._inline.add_alone(item))
        elif isinstance(item, Pair):
            self._close()
            self._add_pair(item)
        else:
            if item.format != self._format:
                self._close()
                self._open(item)
            self._flush()
            self.parts.append(item.text)
            self._inline.add_stretch(self._opened.id if self._opened else self._outer, item)

    def _add_pair(self, pair: Pair) -> None:
        number = self._inline.add_pair(pair)
        inside = _Level(self._inline, pair.children, number).parts
        opening = Tag("open", number, f"<{pair.shown}>")
        self.parts += [opening, *inside, Tag("close", number, f"</{pair.shown}>")]

    def _open(self, stretch: _Stretch) -> None:
        self._format = stretch.format
        if stretch.format == self._base:
            return
        name = self._inline.name_of(stretch.format)
        number = self._inline.add_pair(None)
        self._inline.set_holder(number, _longest(stretch.pieces).holder)
        self._opened = Tag("open", number, f"<{name}>")
        self.parts.append(self._opened)

    def _close(self) -> None:
        """Close the format that is open; tags since its last text come after it."""
        if self._opened is not None:
            name = self._opened.shown.strip("<>")
            self.parts.append(Tag("close", self._opened.id, f"</{name}>"))
        self._opened = self._format = None
        self._flush()

    def _flush(self) -> None:
        self.parts += self._waiting
        self._waiting = []


def _collect(nodes: Iterable[Node]) -> list[_Item]:
    """Texts that look alike as one; marks go with what stands before them, or else after."""
    items: list[_Item] = []
    early: list[Piece] = []
    for node in nodes:
        if isinstance(node, Piece) and node.text:
            before = items[-1] if items else None
            if isinstance(before, _Stretch) and _joins(before, node):
                before.pieces.append(node)
            else:
                items.append(_Stretch(node.format, [node]))
        elif isinstance(node, Piece):
            (_marks_after(items[-1]) if items else early).append(node)
        else:
            items.append(node)
    if items:
        first = items[0]
        (first.opening if isinstance(first, Pair) else first.pieces)[:0] = early
    return items


def _joins(stretch: _Stretch, piece: Piece) -> bool:
    """Whether text goes on with a stretch: it looks alike, or is a single space."""
    return piece.format == stretch.format or (len(piece.text) == 1 and piece.text.isspace())


def _marks_after(item: _Item) -> list[Piece]:
    return item.closing if isinstance(item, Pair) else item.pieces


def _most_common(items: Iterable[_Item], nodes: Iterable[Node]) -> tuple[str | None, Any]:
    """The format of most characters of a level, and the holder of its longest text.

    Where all text of a level is inside pairs it has no format of its own, but new text in it looks
    like most of that.
    """
    stretches = [item for item in items if isinstance(item, _Stretch)]
    inner = stretches or [_Stretch(piece.format, [piece]) for piece in _texts_of(nodes)]
    sizes: Counter[str] = Counter()
    for stretch in inner:
        sizes[stretch.format] += len(stretch.text)
    if not sizes:
        return None, None
    base = max(sizes, key=lambda each: sizes[each])
    pieces = [piece for each in inner if each.format == base for piece in each.pieces]
    return (base if stretches else None), _longest(pieces).holder


def _texts_of(nodes: Iterable[Node]) -> Iterator[Piece]:
    for node in nodes:
        if isinstance(node, Pair):
            yield from _texts_of(node.children)
        elif isinstance(node, Piece) and node.text:
            yield node


def _longest(pieces: Iterable[Piece]) -> Piece:
    return max(pieces, key=lambda piece: len(piece.text))
