"""DOCX: the paragraphs of a Word document, its headers, footers and notes.

Text that looks alike is one text, however many runs it is in. What Word marks while it is written
in (spelling, where pages ended) stays only where the text does.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import PurePosixPath
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
    write_parts,
)

_SPACES = frozenset(  # the second is that of "strict" documents
    f"{{{each}}}"
    for each in (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    )
)
_COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_XML_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_TYPES = "[Content_Types].xml"
_MAIN = "main+xml"
_PARTS = (_MAIN, "header+xml", "footer+xml", "footnotes+xml", "endnotes+xml")
_PROPERTIES = frozenset({"pPr", "rPr", "smartTagPr", "customXmlPr"})
_MARKS = frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"})
_WHITE = {"br": "⏎", "cr": "⏎", "tab": "⇥", "ptab": "⇥"}
_AROUND = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo"})
_DELETED = frozenset({"del", "moveFrom"})
_CHOSEN = frozenset({"dropDownList", "comboBox", "date", "checkbox", "citation"})
_FIELD = frozenset({"fldChar", "instrText"})
_UNSEEN = frozenset({"lang", "noProof"})  # of runs that look alike all the same
_MOST_DEPTH = 50  # of fields in fields
_NAMES = ("b", "i", "u", "strike", "vertAlign", "highlight", "color")


class Docx:
    """A Word document: paragraphs out, paragraphs in, all else as it was."""

    name: ClassVar[str] = "docx"
    endings: ClassVar[tuple[str, ...]] = (".docx", ".docm", ".dotx")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read a Word document."""
        self._archive = Archive(data, where, ".docx")
        self._names = _find_parts(self._archive)
        self.segments: Sequence[Segment] = find_segments(part[2] for part in self._parts())

    def _parts(self) -> "Iterator[tuple[str, Any, list[_Entry]]]":
        """The parts with text: their names, trees, and what there is to translate in them."""
        for name in self._names:
            tree = self._archive.parse(name)
            yield name, tree, _find_entries(tree.getroot(), name)

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The document with its paragraphs translated."""
        return self._archive.edited(write_parts(self._parts(), translations))


def _find_parts(archive: Archive) -> list[str]:
    """The names of the parts with text: the main one, headers, footers, notes."""
    if _TYPES not in archive.names:
        raise UserError(
            "not a Word document: it says nothing of its parts",
            where=f"{archive.where}, {_TYPES}",
            fix="open it in an office program and save it as .docx",
        )
    defaults: dict[str, str] = {}
    overrides: dict[str, str] = {}
    for node in archive.parse(_TYPES).getroot().iter("{*}Default", "{*}Override"):
        if (extension := node.get("Extension")) is not None:
            defaults[extension.lower()] = node.get("ContentType", "")
        overrides[node.get("PartName", "").lstrip("/").lower()] = node.get("ContentType", "")
    types = {
        name: overrides.get(name.lower(), defaults.get(PurePosixPath(name).suffix[1:].lower(), ""))
        for name in archive.names
    }
    return _text_parts(types, archive.where)


def _text_parts(types: dict[str, str], where: str) -> list[str]:
    """The names of parts in the order of what they are, by their types."""
    found = [
        name
        for ending in _PARTS
        for name, type_ in types.items()
        if "word" in type_ and type_.endswith(ending)
    ]
    if not any(types[name].endswith(_MAIN) for name in found):
        raise UserError(
            "no Word document inside: its main part is missing",
            where=where,
            fix="open it in an office program and save it as .docx",
        )
    return found


@dataclass(frozen=True, eq=False)
class _Paragraph:
    """A paragraph and its inline content."""

    node: Any
    inline: Inline

    def write(self, content: Content) -> None:
        """Give the paragraph new content."""
        _Writer(self.node).fill(self.node, self.inline.fill(content))


@dataclass(frozen=True, eq=False)
class _Entry:
    """What is translated once: a paragraph, and its copy for programs that do not know its kind."""

    paragraphs: list[_Paragraph]
    place: str

    @property
    def content(self) -> Content:
        """The source."""
        return self.paragraphs[0].inline.content

    def write(self, content: Content) -> None:
        """Translate every copy."""
        for paragraph in self.paragraphs:
            paragraph.write(content)


def _local(node: Any) -> str:
    """The name of a Word element; empty for others."""
    if not isinstance(node.tag, str):
        return ""
    space, brace, name = node.tag.rpartition("}")
    return str(name) if space + brace in _SPACES else ""


def _find_entries(root: Any, part: str) -> list[_Entry]:
    """What there is to translate in a part, in its order."""
    nodes = [node for node in root.iter("{*}p") if _local(node) == "p" and not _is_deleted(node)]
    twins = _find_twins(root)
    entries: dict[Any, _Entry] = {}
    for number, node in enumerate(nodes, 1):
        paragraph = _read_paragraph(node)
        if not any(character.isalnum() for character in plain(paragraph.inline.content)):
            continue
        first = entries.get(twins.get(node))
        if first is not None and first.content == paragraph.inline.content:
            first.paragraphs.append(paragraph)
        else:
            entries[node] = _Entry([paragraph], f"{part}, paragraph {number}")
    return list(entries.values())


def _is_deleted(node: Any) -> bool:
    return any(_local(above) in _DELETED for above in node.iterancestors())


def _find_twins(root: Any) -> dict[Any, Any]:
    """For paragraphs of a fallback, the paragraph that they stand in for."""
    twins: dict[Any, Any] = {}
    for node in root.iter(f"{_COMPATIBILITY}AlternateContent"):
        choice = node.find(f"{_COMPATIBILITY}Choice")
        fallback = node.find(f"{_COMPATIBILITY}Fallback")
        if choice is not None and fallback is not None:
            ours, theirs = ([p for p in each.iter("{*}p") if _local(p) == "p"]
                            for each in (choice, fallback))  # fmt: skip
            twins.update(zip(theirs, ours, strict=False))
    return twins


def _read_paragraph(node: Any) -> _Paragraph:
    reader = _Reader()
    return _Paragraph(node, Inline(reader.read(node), reader.names))


class _Reader:
    """Reads the inline content of a paragraph."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def read(self, parent: Any) -> list[Node]:
        """The nodes of a paragraph, or of what surrounds some of it."""
        return _join_fields(list(self._nodes(parent)))

    def _nodes(self, parent: Any) -> Iterator[Node]:
        for child in parent:
            name = _local(child)
            if name == "r":
                yield from self._run(child)
            elif name in _MARKS:
                yield Piece(child)
            elif name not in _PROPERTIES:
                yield self._pair(child) or _alone(child)

    def _pair(self, node: Any) -> Pair | None:
        """A node that surrounds text; None where it has none, or none that may change."""
        name, inner = _local(node), node
        if name == "sdt":
            inner = next((child for child in node if _local(child) == "sdtContent"), None)
            if inner is None or _is_chosen(node):
                return None
        elif name == "fldSimple":
            if not _is_link(_attribute(node, "instr")):
                return None
        elif name not in _AROUND:
            return None
        children = self.read(inner)
        shown = "a" if name in ("hyperlink", "fldSimple") else name
        return Pair(children, shown, node, inner) if has_text(children) else None

    def _run(self, run: Any) -> Iterator[Node]:
        properties = next((child for child in run if _local(child) == "rPr"), None)
        format_ = _format_of(properties)
        self.names.setdefault(format_, _name_of(properties))
        children = [child for child in run if _local(child) != "rPr"]
        if not children:
            yield Piece(None, run)
        for child in children:
            name = _local(child)
            if name == "t":
                yield Piece(child, run, _text_of(child), format_)
            elif name == "noBreakHyphen":
                yield Piece(child, run, "-", format_)
            elif name in _MARKS:
                yield Piece(child, run)
            else:
                yield _alone(child, run)


def _is_chosen(control: Any) -> bool:
    """Whether a content control offers a choice, or has something else that is not free text."""
    properties = next((child for child in control if _local(child) == "sdtPr"), ())
    return any(str(each.tag).rpartition("}")[2] in _CHOSEN for each in properties)


def _alone(node: Any, run: Any = None) -> Alone:
    """A node that is no text."""
    name = _local(node)
    if name in _WHITE:
        return Alone([Piece(node, run)], _WHITE[name], space=True)
    shown = name or (etree.QName(node).localname if isinstance(node.tag, str) else "comment")
    stem = name.removesuffix("Start").removesuffix("End")
    range_ = f"{stem} {_attribute(node, 'id')}" if stem != name else ""
    return Alone([Piece(node, run)], f"<{shown}/>", range=range_)


def _attribute(node: Any, name: str) -> str:
    return next((value for key, value in node.items() if key.endswith("}" + name)), "")


def _text_of(node: Any) -> str:
    """The text of a ``w:t``: without the white space around it, unless that is to be kept."""
    text = clean_text("".join(node.itertext()))
    keeper = next(
        (each for each in (node, *node.iterancestors()) if each.get(_XML_SPACE) is not None), None
    )
    kept = keeper is not None and keeper.get(_XML_SPACE) == "preserve"
    return text if kept else text.strip(" ")


def _format_of(properties: Any) -> str:
    """What a run looks like: its properties but for those that nobody sees."""
    if properties is None:
        return ""
    return "".join(_described(each) for each in properties if _local(each) not in _UNSEEN)


def _described(node: Any) -> str:
    """An element as text, without the numbers of editing sessions."""
    attributes = sorted(item for item in node.items() if "}rsid" not in item[0])
    return f"<{node.tag} {attributes}{''.join(_described(child) for child in node)}>"


def _name_of(properties: Any) -> str:
    """What people call the look of a run."""
    present = {_local(each) for each in (properties if properties is not None else ())}
    return next((name for name in _NAMES if name in present), "f")


def _is_link(instruction: str) -> bool:
    return instruction.strip().upper().startswith("HYPERLINK")


def _join_fields(nodes: list[Node], depth: int = 0) -> list[Node]:
    """Nodes with each field as one: a pair where it is a link, else alone.

    Parts of a field that begins or ends elsewhere are one where they stand beside each other.
    """
    joined: list[Node] = []
    ends = _ends_of_fields(nodes)
    at = 0
    while at < len(nodes):
        if at in ends:
            joined.append(_field(nodes[at : ends[at]], depth))
            at = ends[at]
            continue
        node, before = nodes[at], joined[-1] if joined else None
        if isinstance(before, Alone) and _field_part(node) and _field_part(before):
            before.pieces.extend(node.pieces)  # type: ignore[union-attr]
        elif isinstance(node, Alone) and _field_part(node):
            joined.append(Alone(list(node.pieces), "<field/>"))
        else:
            joined.append(node)
        at += 1
    return joined


def _field_part(node: Node | None) -> str:
    """What part of a field a node is: begin, separate, end or instrText; empty for others."""
    if not isinstance(node, Alone):
        return ""
    part = node.pieces[-1].node
    if part is None or _local(part) not in _FIELD:
        return ""
    return _attribute(part, "fldCharType") or _local(part)


def _ends_of_fields(nodes: Sequence[Node]) -> dict[int, int]:
    """Where each field that begins among some nodes has ended, if it does there."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for n, node in enumerate(nodes):
        part = _field_part(node)
        if part == "begin":
            opened.append(n)
        elif part == "end" and opened:
            ends[opened.pop()] = n + 1
    return ends


def _field(nodes: list[Node], depth: int) -> Node:
    """A whole field as one node."""
    if depth == _MOST_DEPTH:
        return Alone(_flat(nodes), "<field/>")
    middle = _end_of_instruction(nodes)
    opening, inside = _flat(nodes[:middle]), _join_fields(nodes[middle:-1], depth + 1)
    words = (piece.node.text or "" for piece in opening if _is_instruction(piece.node))
    if _is_link("".join(words)) and has_text(inside):
        return Pair(inside, "a", opening=opening, closing=_flat(nodes[-1:]))
    return Alone(_flat(nodes), "<field/>")


def _end_of_instruction(nodes: Sequence[Node]) -> int:
    """Where the result of a field begins, which may have others inside; its end without one."""
    depth = 0
    for n, node in enumerate(nodes, 1):
        part = _field_part(node)
        depth += (part == "begin") - (part == "end")
        if part == "separate" and depth == 1:
            return n
    return len(nodes)


def _is_instruction(node: Any) -> bool:
    return node is not None and _local(node) == "instrText"


def _flat(nodes: Sequence[Node]) -> list[Piece]:
    """The pieces of nodes that are kept whole."""
    pieces: list[Piece] = []
    for node in nodes:
        if isinstance(node, Pair):
            pieces.append(Piece(node.element))
        else:
            pieces += [node] if isinstance(node, Piece) else node.pieces
    return pieces


class _Writer:
    """Writes the inline content of a paragraph."""

    def __init__(self, paragraph: Any) -> None:
        self._space = paragraph.tag.removesuffix("p")
        self._used: set[Any] = set()
        self._holder: Any = None  # whose run is written to
        self._run: Any = None

    def fill(self, parent: Any, tokens: Sequence[Token]) -> None:
        """Give a paragraph, or what surrounds some of it, new content."""
        for child in list(parent):
            if _local(child) not in _PROPERTIES:
                parent.remove(child)
        self._holder = None
        for token in tokens:
            self._add(parent, token)
        self._holder = None

    def _add(self, parent: Any, token: Token) -> None:
        if isinstance(token, Filled):
            self._add_pair(parent, token)
        elif token.holder is None and token.node is not None:
            self._holder = None
            parent.append(token.node)
        else:
            self._add_to_run(parent, token)

    def _add_pair(self, parent: Any, filled: Filled) -> None:
        pair = filled.pair
        for piece in pair.opening:
            self._add(parent, piece)
        if pair.element is None:
            for token in filled.tokens:
                self._add(parent, token)
        else:
            parent.append(pair.element)
            self.fill(pair.inner, filled.tokens)
        for piece in pair.closing:
            self._add(parent, piece)

    def _add_to_run(self, parent: Any, piece: Piece) -> None:
        if piece.holder is None or piece.holder is not self._holder:
            self._run = self._take_run(piece.holder)
            self._holder = piece.holder
            parent.append(self._run)
        if piece.node is not None:
            self._run.append(piece.node)
        elif piece.text:
            self._run.append(self._new_text(piece.text))

    def _take_run(self, holder: Any) -> Any:
        """A run itself the first time, then a copy without content."""
        if holder is None:
            return etree.Element(f"{self._space}r")
        if holder in self._used:
            copy = etree.Element(holder.tag, holder.attrib, nsmap=holder.nsmap)
            for each in holder:
                if _local(each) == "rPr":
                    copy.append(deepcopy(each))
            return copy
        self._used.add(holder)
        for child in list(holder):
            if _local(child) != "rPr":
                holder.remove(child)
        return holder

    def _new_text(self, text: str) -> Any:
        node = etree.Element(f"{self._space}t")
        node.text = clean_text(text)
        if node.text != node.text.strip():
            node.set(_XML_SPACE, "preserve")
        return node
