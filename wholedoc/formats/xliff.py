"""XLIFF 1.2 and 2.x, the files that translators exchange, and their relatives.

Inline elements are tags: a pair where they surround text (``g``, ``pc``, ``mrk``, and two halves
that belong together and nest), alone where they stand for code. A target gets copies of its
source's elements. A target stays as it is, unless it is said to need work or to be a machine's.
"""

import codecs
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from typing import Any, ClassVar, Literal, NamedTuple

from lxml import etree

from wholedoc.corpus.documents import primary_language
from wholedoc.errors import UserError
from wholedoc.formats.segments import Content, Segment, Tag, check_tags, normalised, plain
from wholedoc.formats.xml import check_size

Element = Any
"""An element of lxml, which has no types."""

_XML = "{http://www.w3.org/XML/1998/namespace}"
_SURROUND = frozenset({"g", "mrk", "pc"})
_BEGIN = frozenset({"bpt", "bx", "sc", "sm"})
_END = {"ept": "bpt", "ex": "bx", "ec": "sc", "em": "sm"}
_BREAK = re.compile(r"([ \t]*\n\s*)")
_MOST_DEPTH = 300  # of halves that are open; libxml2 refuses elements that are deeper
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_PROLOG = re.compile(  # all that comes before the root
    r"""\ufeff?(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[[^\]]*\]\s*)?>)*""", re.DOTALL
)
_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# How the tools that write a dialect of 1.2 say on a unit that a person has confirmed it.
_CONFIRMED = {"confirmed": ("1",), "status": ("ManuallyConfirmed", "Proofread")}
_SDL_APPROVED = ("ApprovedTranslation", "ApprovedSignOff")
_SDL_TRANSLATED = "Translated"
_MATCHED = ("percent", "origin-system", "text-match", "struct-match")
_UNFINISHED = (
    *("new", "needs-translation", "needs-adaptation", "needs-l10n"),
    *("needs-review-translation", "needs-review-adaptation", "needs-review-l10n"),
)
_SUGGESTED = (
    *("mt-suggestion", "leveraged-mt", "fuzzy-match", "tm-suggestion"),
    *("rejected-grammar", "rejected-inaccurate", "rejected-length", "rejected-spelling"),
)
MACHINE_STATE = "wholedoc:mt"  # the subState of a machine's translation in 2.x
_NOTE = "comment"  # has it on a segment of a unit of 1.2


class _Piece(NamedTuple):
    """An inline element, one end of it, or the end of a line."""

    kind: Literal["open", "close", "alone", "begin", "end", "break"]
    element: Element = None
    raw: str = ""


class _Marked(NamedTuple):
    """What a tag is in the file: where it begins, and where a pair ends."""

    first: _Piece
    last: _Piece | None


@dataclass(frozen=True)
class _Text:
    """The content of an element, what its tags are, and the white space around it."""

    content: Content
    marked: dict[int, _Marked]
    lead: str
    trail: str


@dataclass(frozen=True)
class _Slot:
    """A segment in the file: what it is in, its source, and its target if there is one."""

    unit: Element
    source: Element
    target: Element | None
    cut: bool
    """Whether someone has cut the text into sentences."""
    approved: bool
    unfinished: bool
    """Whether a target, if there is one, is said to be a machine's or to need work."""

    @property
    def mid(self) -> str | None:
        """The number of a segment of 1.2 in its unit."""
        return self.source.get("mid") if _name(self.source) == "mrk" else None


class Xliff:
    """An XLIFF file: segments out, targets in."""

    name: ClassVar[str] = "xliff"
    endings: ClassVar[tuple[str, ...]] = (".xlf", ".xliff", ".sdlxliff", ".mxliff", ".mqxliff")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:
        """Read an XLIFF file."""
        self._data, self._where, self._trg_language = data, where, trg_language
        root = _parse(data, where).getroot()
        _check_languages(root, where, src_language, trg_language)
        read = [(slot, _read(slot.source)) for slot in _find_slots(root)]
        self.segments: Sequence[Segment] = [_segment(*row) for row in read if row[1].content]
        self._were_approved = [segment.approved for segment in self.segments]

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with targets for its segments; equal to what it was where none changes."""
        rows = enumerate(zip(self.segments, translations, self._were_approved, strict=True))
        changed = {
            n: content
            for n, (segment, content, before) in rows
            if content and (content != segment.target or (segment.approved and not before))
        }
        if not changed:
            return self._data
        tree = _parse(self._data, self._where)
        slots = [slot for slot in _find_slots(tree.getroot()) if _read(slot.source).content]
        for n, content in changed.items():
            check_tags(self.segments[n].source, content)
            _write_slot(slots[n], _read(slots[n].source), content, self.segments[n].approved)
        _name_language(tree.getroot(), self._trg_language)
        return _serialise(tree, self._data)


def _parse(data: bytes, where: str) -> Element:
    """Parse a file that may come from anyone: no entities, nothing fetched."""
    check_size(data, where)
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, strip_cdata=False
    )
    try:
        tree = etree.parse(BytesIO(data), parser)
    except etree.XMLSyntaxError as error:
        line = error.lineno or 1
        raise UserError(
            f"not well-formed XML ({error.msg})",
            where=f"{where}:{line}",
            fix="export it again from the tool that made it",
        ) from error
    if _has_entities(tree):
        raise UserError("it has entities", where=where, fix="write their text in their place")
    if _name(tree.getroot()) != "xliff":
        raise UserError(
            f"not XLIFF: its root is {tree.getroot().tag}", where=where, fix="give an XLIFF file"
        )
    return tree


def _has_entities(tree: Element) -> bool:
    """Whether a file defines entities or uses some that it does not define."""
    dtd = tree.docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        return True
    return next(tree.iter(etree.Entity), None) is not None


def _name(element: Element) -> str:
    """The name of an element without its namespace; none for a comment."""
    return str(etree.QName(element).localname) if isinstance(element.tag, str) else ""


def _child(element: Element, name: str) -> Element | None:
    return next((child for child in element if _name(child) == name), None)


# The languages of a file.


def _language_places(root: Element) -> list[tuple[Element, str, str]]:
    """The elements that name the languages, and by which attributes."""
    if root.get("srcLang") is not None or root.get("version", "").startswith("2"):
        return [(root, "srcLang", "trgLang")]
    files = [child for child in root if _name(child) == "file"]
    return [(each, "source-language", "target-language") for each in files]


def _check_languages(root: Element, where: str, src_language: str, trg_language: str) -> None:
    """Refuse a file that is in another language than the user says."""
    for place, src_name, trg_name in _language_places(root):
        source, target = place.get(src_name), place.get(trg_name)
        wrong = None
        if _differ(source, src_language):
            wrong = (src_name, source, src_language)
        elif _differ(target, trg_language) and _language(target) != _language(source):
            wrong = (trg_name, target, trg_language)
        if wrong:
            raise UserError(
                f"its {wrong[0]} is {wrong[1]}, not {wrong[2]}",
                where=f"{where}:{place.sourceline}",
                fix="name the languages that the file has, or correct it there",
            )


def _language(code: str | None) -> str:
    return primary_language(code or "")


def _differ(language: str | None, other: str) -> bool:
    first, second = _language(language), primary_language(other)
    return bool(first and second and first != second)


def _name_language(root: Element, language: str) -> None:
    """Name the language of the targets where the file does not; a copy of the source's is none."""
    for place, _, name in _language_places(root):
        if language and (not place.get(name) or _differ(place.get(name), language)):
            place.set(name, language)


# The segments of a file.


def _find_slots(root: Element) -> Iterator[_Slot]:
    for unit in root.iter("{*}trans-unit", "{*}unit"):
        if not _is_translated(unit):
            continue
        if _name(unit) == "unit":
            yield from _find_segments(unit)
        else:
            yield from _find_marks(unit)


def _is_translated(unit: Element) -> bool:
    """Whether a unit is to be translated: what the nearest element around it says, and no lock."""
    if _is_locked(unit):
        return False
    for element in (unit, *unit.iterancestors()):
        said = element.get("translate")
        if said is not None:
            return bool(said != "no")
    return True


def _is_locked(element: Element) -> bool:
    """Whether a tool has locked a unit or a segment, by an attribute of its own."""
    return any(
        etree.QName(name).localname == "locked" and value.lower() in ("true", "locked", "yes", "1")
        for name, value in element.attrib.items()
    )


def _find_segments(unit: Element) -> Iterator[_Slot]:
    """The segments of a unit of 2.x."""
    segments = [child for child in unit if _name(child) == "segment"]
    for segment in segments:
        source = _child(segment, "source")
        if source is not None:
            state, ours = segment.get("state", ""), segment.get("subState") == MACHINE_STATE
            stands = state in ("reviewed", "final"), ours or state == "initial"
            yield _Slot(segment, source, _child(segment, "target"), len(segments) > 1, *stands)


def _find_marks(unit: Element) -> Iterator[_Slot]:
    """The segments of a unit of 1.2: itself, or the marks that someone has set in it."""
    source, target = _child(unit, "source"), _child(unit, "target")
    if source is None:
        return
    approved, unfinished = _is_approved(unit, target), _is_unfinished(unit, target)
    marks = _marks(_child(unit, "seg-source"))
    targets = _marks(target)
    if not marks or (target is not None and not targets and _read(target).content):
        yield _Slot(unit, source, target, False, approved, unfinished)
        return
    segs = list(unit.iter("{*}seg"))
    said = {seg.get("id"): seg.get("conf", "Draft") for seg in segs}
    locked = {seg.get("id") for seg in segs if _is_locked(seg)}
    for mid, mark in marks.items():
        if mid in locked:
            continue
        found = targets.get(mid)
        stands = approved, unfinished or (found is not None and found.get(_NOTE) == MACHINE_STATE)
        if mid in said:  # of each segment, which says more than the unit
            stands = said[mid] in _SDL_APPROVED or approved, said[mid] != _SDL_TRANSLATED
        yield _Slot(unit, mark, found, True, *stands)


def _marks(element: Element | None) -> dict[str, Element]:
    """The marks of segments in an element by their numbers."""
    found = () if element is None else element.iter("{*}mrk")
    return {mark.get("mid", ""): mark for mark in found if mark.get("mtype") == "seg"}


def _is_approved(unit: Element, target: Element | None) -> bool:
    if unit.get("approved") == "yes":
        return True
    if target is not None and target.get("state") in ("final", "signed-off"):
        return True
    return any(
        value in _CONFIRMED.get(etree.QName(name).localname, ())
        for name, value in unit.attrib.items()
        if name.startswith("{")
    )


def _is_unfinished(unit: Element, target: Element | None) -> bool:
    if target is None:
        return True
    if target.get("state") in _UNFINISHED or target.get("state-qualifier") in _SUGGESTED:
        return True
    names = (etree.QName(name).localname for name in unit.attrib if name.startswith("{"))
    return any(name in _CONFIRMED for name in names)  # and it is not, or it were approved


def _segment(slot: _Slot, text: _Text) -> Segment:
    target = None if slot.target is None else _read_target(_read(slot.target), text)
    unit = slot.unit if _name(slot.unit) == "trans-unit" else slot.unit.getparent()
    place = f"line {slot.source.sourceline}, unit {unit.get('id', '?')}"
    kept = slot.approved or not (slot.unfinished or target == text.content)
    return Segment(
        text.content,
        place,
        target=target,
        approved=kept and target is not None,
        sentence=slot.cut,
    )


# Content out of elements.


def _read(element: Element) -> _Text:
    """The content of a source or a target."""
    pieces = list(_pieces(element))
    lead = trail = ""
    if pieces and isinstance(pieces[0], str):
        inner = pieces[0].lstrip()
        lead, pieces[0] = pieces[0][: len(pieces[0]) - len(inner)], inner
    if pieces and isinstance(pieces[-1], str):
        inner = pieces[-1].rstrip()
        trail, pieces[-1] = pieces[-1][len(inner) :], inner
    broken = [part for piece in pieces for part in _break(piece)]
    content, marked = _number(broken, _pair(broken))
    return _Text(content, marked, lead, trail)


def _pieces(element: Element) -> Iterator[str | _Piece]:
    """The texts of an element and what stands between; one text where no element parts them."""
    text = element.text or ""
    for child in element:
        name = _name(child)
        if name:
            yield from filter(None, [text])
            text = ""
            yield from _element_pieces(child, name)
        text += child.tail or ""
    yield from filter(None, [text])


def _element_pieces(element: Element, name: str) -> Iterator[str | _Piece]:
    fixed = element.get("mtype") == "protected" or element.get("translate") == "no"
    if name in _SURROUND and not fixed:
        yield _Piece("open", element)
        yield from _pieces(element)
        yield _Piece("close", element)
    elif name in _BEGIN:
        yield _Piece("begin", element)
    elif name in _END:
        yield _Piece("end", element)
    else:
        yield _Piece("alone", element)


def _break(piece: str | _Piece) -> list[str | _Piece]:
    """A text cut at the ends of its lines."""
    if isinstance(piece, _Piece):
        return [piece]
    parts = _BREAK.split(piece)
    return [_Piece("break", raw=part) if n % 2 else part for n, part in enumerate(parts)]


def _half(piece: _Piece) -> tuple[str, str]:
    """What two halves of a pair have in common."""
    element = piece.element
    name = _name(element)
    names = ("rid", "id") if name in _BEGIN else ("startRef", "rid", "id")
    found = next((element.get(each) for each in names if element.get(each)), "")
    return _END.get(name, name), found


def _pair(pieces: Sequence[str | _Piece]) -> dict[int, int]:
    """Which piece closes which one, by their positions."""
    closes: dict[int, int] = {}
    opened: list[int] = []
    for n, piece in enumerate(pieces):
        if isinstance(piece, str):
            continue
        if piece.kind == "open" or (piece.kind == "begin" and len(opened) < _MOST_DEPTH):
            opened.append(n)
        elif piece.kind in ("close", "end"):
            depth = _find_opening(pieces, opened, piece)
            if depth is not None:
                closes[opened[depth]] = n
                del opened[depth:]
    return closes


def _find_opening(
    pieces: Sequence[str | _Piece], opened: Sequence[int], piece: _Piece
) -> int | None:
    """Which of the opened pieces this one closes; a half does not reach out of an element."""
    for depth in reversed(range(len(opened))):
        other = pieces[opened[depth]]
        if isinstance(other, str):
            continue
        if other.kind == "open":
            return depth if piece.kind == "close" else None
        if piece.kind == "end" and _half(other) == _half(piece):
            return depth
    return None


def _number(
    pieces: Sequence[str | _Piece], closes: dict[int, int]
) -> tuple[Content, dict[int, _Marked]]:
    """Tags for the pieces, numbered in their order."""
    opens = {last: first for first, last in closes.items()}
    parts: list[str | Tag] = []
    marked: dict[int, _Marked] = {}
    for n, piece in enumerate(pieces):
        if isinstance(piece, str):
            parts.append(piece)
        elif n in opens:
            parts.append(Tag("close", opens[n], f"</{_name(piece.element)}>"))
        elif n in closes:
            parts.append(Tag("open", n, f"<{_label(piece.element)}>"))
            last = pieces[closes[n]]
            marked[n] = _Marked(piece, None if isinstance(last, str) else last)
        else:
            is_break = piece.kind == "break" or _is_break(piece.element)
            shown = "⏎" if piece.kind == "break" else f"<{_label(piece.element)}/>"
            parts.append(Tag("alone", n, shown, space=is_break))
            marked[n] = _Marked(piece, None)
    return _renumbered(normalised(parts), marked)


def _is_break(element: Element) -> bool:
    """Whether a code ends a line: words on its sides are two."""
    return element.get("ctype") == "lb" or element.get("subType") in ("xlf:lb", "xlf:pb")


def _renumbered(content: Content, marked: dict[int, _Marked]) -> tuple[Content, dict[int, _Marked]]:
    """Numbers from 0 on."""
    ranks = {n: rank for rank, n in enumerate(marked)}
    parts = [_with_id(part, ranks[part.id]) if isinstance(part, Tag) else part for part in content]
    return tuple(parts), {ranks[n]: each for n, each in marked.items()}


def _with_id(tag: Tag, number: int) -> Tag:
    return Tag(tag.kind, number, tag.shown, tag.space)


def _label(element: Element) -> str:
    return " ".join(filter(None, [_name(element), _id_of(element)]))


def _id_of(element: Element) -> str:
    names = ("id", "mid", "startRef", "rid")
    return next((element.get(name) for name in names if element.get(name)), "")


def _read_target(target: _Text, source: _Text) -> Content | None:
    """A target with the numbers of its source's tags; its text alone where they do not agree."""
    if not plain(target.content).strip() and not target.marked:
        return None
    numbers: dict[object, deque[int]] = defaultdict(deque)
    for n, each in source.marked.items():
        numbers[_identity(each)].append(n)
    ids: dict[int, int] = {}
    for n, each in target.marked.items():
        waiting = numbers[_identity(each)]
        if waiting:
            ids[n] = waiting.popleft()
        elif each.first.kind != "break":
            return normalised([plain(target.content)])
    parts: list[str | Tag] = []
    for part in target.content:
        if isinstance(part, str):
            parts.append(part)
        elif part.id in ids:
            parts.append(_with_id(part, ids[part.id]))
        else:
            parts.append(target.marked[part.id].first.raw)
    return normalised(parts)


def _identity(marked: _Marked) -> object:
    """What a tag of a target has in common with that of its source."""
    if marked.first.kind == "break":
        return "break"
    return marked.last is None, _name(marked.first.element), _id_of(marked.first.element)


# Content into elements.


def _write_slot(slot: _Slot, text: _Text, content: Content, approved: bool) -> None:
    """Write a target, and whether a person has approved it.

    Of a unit of 1.2 that is cut into segments only this one is marked: others may be by people.
    """
    target = slot.target
    if target is None:
        target = _new_target(slot)
    _fill(target, text, content)
    if _name(slot.unit) == "segment":
        _mark_segment(slot.unit, approved)
    elif slot.mid is None:
        _mark_unit(slot.unit, target, approved)
    else:
        _mark_part(slot, target, approved)


def _mark_part(slot: _Slot, target: Element, approved: bool) -> None:
    """Mark a segment of a unit of 1.2, as SDL does where the unit has its marks."""
    seg = next((each for each in slot.unit.iter("{*}seg") if each.get("id") == slot.mid), None)
    if seg is None:
        if not approved:
            target.set(_NOTE, MACHINE_STATE)
        elif target.get(_NOTE) == MACHINE_STATE:
            del target.attrib[_NOTE]
    elif not approved:
        seg.set("conf", "Draft")
        if seg.get("origin") is not None:
            seg.set("origin", "mt")
        for name in _MATCHED:  # what it said of a text that is no more
            seg.attrib.pop(name, None)
    elif seg.get("conf") not in _SDL_APPROVED:
        seg.set("conf", _SDL_TRANSLATED)
    if not approved and slot.unit.get("approved") == "yes":
        slot.unit.set("approved", "no")


def _mark_segment(segment: Element, approved: bool) -> None:
    """Mark a segment of 2.x."""
    if not approved:
        segment.set("state", "translated")
        segment.set("subState", MACHINE_STATE)
        return
    if segment.get("state") not in ("reviewed", "final"):
        segment.set("state", "final")
    if segment.get("subState") == MACHINE_STATE:
        del segment.attrib["subState"]


def _mark_unit(unit: Element, target: Element, approved: bool) -> None:
    """Mark a unit of 1.2 that is one segment."""
    if not approved:
        if unit.get("approved") == "yes":
            unit.set("approved", "no")
        target.set("state", "needs-review-translation")
        target.set("state-qualifier", "mt-suggestion")
    elif not _is_approved(unit, target):
        unit.set("approved", "yes")
        for name in unit.attrib:
            if name.startswith("{") and (done := _CONFIRMED.get(etree.QName(name).localname)):
                unit.set(name, done[0])
        for name, known in (("state", _UNFINISHED), ("state-qualifier", _SUGGESTED)):
            if target.get(name) in known:
                del target.attrib[name]


def _new_target(slot: _Slot) -> Element:
    """A place for a translation that the file has none for."""
    target = _child(slot.unit, "target")
    cut = _child(slot.unit, "seg-source")
    if target is None:
        target = _insert_target(slot.unit, slot.source if cut is None else cut)
    if slot.mid is None:
        return target
    if not _marks(target):
        _copy_marks(cut, target)
    found = _marks(target).get(slot.mid)
    if found is None:
        found = etree.SubElement(target, slot.source.tag, slot.source.attrib)
    return found


def _insert_target(unit: Element, after: Element) -> Element:
    """Add a target after a source, indented as that is."""
    namespace = etree.QName(after).namespace
    target = etree.Element(etree.QName(namespace, "target"), nsmap=after.nsmap)
    space = after.get(f"{_XML}space")
    if space is not None:
        target.set(f"{_XML}space", space)
    last = after.getnext() is None
    tail = after.tail
    unit.insert(unit.index(after) + 1, target)
    target.tail = tail
    if last:
        after.tail = unit.text if not (unit.text or "").strip() else None
    else:
        after.tail = tail
    return target


def _copy_marks(cut: Element, target: Element) -> None:
    """Give a target the marks of its source, without their texts."""
    copied = deepcopy(cut)
    for mark in _marks(copied).values():
        tail = mark.tail
        attributes = dict(mark.attrib)
        mark.clear()
        mark.attrib.update(attributes)
        mark.tail = tail
    target.text = copied.text
    target[:] = copied[:]


def _fill(target: Element, text: _Text, content: Content) -> None:
    """Replace what is in a target by a translation, with copies of the source's elements."""
    for child in list(target):
        target.remove(child)
    target.text = None
    opened = [target]
    _add_text(target, text.lead)
    for part in content:
        if isinstance(part, str):
            _add_text(opened[-1], part)
            continue
        marked = text.marked[part.id]
        if marked.first.kind == "break":
            _add_text(opened[-1], marked.first.raw)
        elif marked.first.kind != "open":
            half = marked.last if part.kind == "close" else None
            opened[-1].append(_copy(half or marked.first))
        elif part.kind == "open":
            shell = marked.first.element
            opened.append(etree.SubElement(opened[-1], shell.tag, shell.attrib, nsmap=shell.nsmap))
        else:
            opened.pop()
    _add_text(target, text.trail)


def _copy(piece: _Piece) -> Element:
    copied = deepcopy(piece.element)
    copied.tail = None
    return copied


def _add_text(element: Element, text: str) -> None:
    """Add text at the end of an element, without what XML cannot have."""
    text = _ILLEGAL.sub("", text)
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text


def _serialise(tree: Element, data: bytes) -> bytes:
    """A tree as bytes: encoding, declaration and ends of lines as the file had them."""
    named = tree.docinfo.encoding or "UTF-8"
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), named)
    raw = data.decode(encoding, errors="replace")
    before = raw.replace("\r\n", "\n")
    root = tree.getroot()
    later = [etree.tostring(each, encoding="unicode") for each in root.itersiblings()]
    text = "\n".join([etree.tostring(root, encoding="unicode"), *map(str.strip, later)])
    text = _prolog(before, tree) + text + before[len(before.rstrip()) :]
    if "\r\n" in raw:
        text = text.replace("\n", "\r\n")
    return text.encode(encoding, errors="xmlcharrefreplace")


def _prolog(text: str, tree: Element) -> str:
    """What comes before the root; the declaration alone where that cannot be told."""
    match = _PROLOG.match(text)
    if match and re.match(r"<(?:[\w.-]+:)?xliff\b", text[match.end() : match.end() + 80]):
        return match.group()
    return f"<?xml version='1.0' encoding='{tree.docinfo.encoding or 'UTF-8'}'?>\n"
