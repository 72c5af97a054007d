"""Markdown: paragraphs, headings and cells out, their translations in, the rest as it was.

What markdown-it finds is edited by its place in the file; blocks of HTML are read as pages of HTML
are. Code, front matter and link definitions stay as they are. The description of a picture is a
segment of its own, if there is no markup in it.
"""

import re
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise, takewhile
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from wholedoc.errors import UserError
from wholedoc.formats.html import Html, Spellings
from wholedoc.formats.segments import Content, Segment, Tag, normalised, plain
from wholedoc.formats.textdata import Edit, TextData, check_parts

_FRONT = re.compile(
    r"\A---[ \t]*(?:\r\n?|\n)"
    r"(?:[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n))*+(?:[\w\"'][^\r\n]*?:.*?(?:\r\n?|\n))??"
    r"(?:---|\.\.\.)[ \t]*(?=[\r\n]|\Z)"
    # TOML between lines of +++, and JSON, as Hugo has them.
    r"|\A\+\+\+[ \t]*(?:\r\n?|\n)(?:.*?(?:\r\n?|\n))??\+\+\+[ \t]*(?=[\r\n]|\Z)"
    r"|\A\{[ \t]*(?:\r\n?|\n)\s*\"[^\r\n]*?\"\s*:.*?(?:\r\n?|\n)\}[ \t]*(?=[\r\n]|\Z)",
    re.DOTALL,
)
_LINE_END = re.compile(r"\r\n?|\n")
_BREAK = re.compile(r"[ \t]*\\?\n[ \t]*")
_NOTE = re.compile(r"\[\^[^\]\s]+\]:?")
# What begins a line in dialects of Markdown: a box, the title of one, a definition.
_LINE_MARK = re.compile(r":{3,}[^\n]*|!!![ \t]+[\w-]+[ \t]*|:[ \t]+(?=\S)")
# A line that begins a paragraph of its own there: a footnote, or the definition of a term.
_OWN_LINE = re.compile(r"\[\^[^\]\s]+\]:|:[ \t]+\S")
# A picture whose description is plain, and does not name its definition.
_PICTURE = re.compile(
    r"!\[((?:[^\\\[\]`*_<>&~|\n]|\\[!-/:-@\[-`{-~]|&\#124;)*+)(\](?:\(|\[[^\]]).*)", re.DOTALL
)
_BAR = "&#124;"  # above a line any other makes a table
_ESCAPED = re.compile(r"\\(.)|&\#124;")
_TO_ESCAPE = re.compile(r"[\\\[\]`*_<>&~|]")
_CHECKBOX = re.compile(r"\[[ xX]\](?=\s)")
_ENTITY = re.compile(r"&(?:#|[A-Za-z])")
_MARKER = re.compile(r"(?:[-+]|#{1,6})(?=\s|$)|-[\s-]*$|>|={1,}\s*$")
_NUMBER = re.compile(r"\d{1,9}[.)](?=\s|$)")
_WHITE = " \t\n\r\f\v"
_BLANK = _WHITE + "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_SPECIAL = frozenset("\\`*_[]<>&~!#|+-=:().")
_CAREFUL = frozenset("\\`*_[]<>&~!#|")
_CAREFUL_FIRST = frozenset("+-=:(.)")
_EMPHASIS = {"em": "em", "strong": "strong", "s": "del"}
_MOST_DEPTH = 100
_INLINE = b"<*_[`|~"
_UTF_8 = b"\xef\xbb\xbf"  # says how a page is encoded, whatever stands in it
MOST_BYTES = 10_000_000
"""Of a file: some are read at a hundred microseconds a character."""
MOST_BLOCK = 100_000
"""Characters of a paragraph: emphasis takes the square of their number."""
_EXACT = ("link", "image", "autolink", "html_inline", "backticks")


@dataclass(frozen=True)
class _Piece:
    """A piece of the content of a block: text, or what a tag stands for."""

    kind: str  # text, open, close, alone
    raw: str
    text: str = ""
    space: bool = False
    name: str = ""  # of the element that a pair makes


@dataclass(frozen=True)
class _Block:
    """A block of a file: its content as markdown-it has it, and where that lies."""

    kind: str  # paragraph, heading, underlined, cell
    content: str
    offsets: Sequence[int]
    """For each character of the content, and for its end, the place in the file."""
    children: Sequence[Token]


@dataclass(frozen=True)
class _Marked:
    """What a tag of a segment stands for: in the content of its block, and in the file."""

    piece: _Piece
    written: str
    label: str = ""  # of a link that names its definition by its text alone


@dataclass(frozen=True)
class _Manner:
    """A way to write a block: with the marks of the source, or with more care."""

    careful: bool
    emphasis: str = ""
    """What surrounds emphasis: as in the source, ``*`` for any mark, or tags of HTML."""


_MANNERS = (
    *(_Manner(False), _Manner(False, "*")),
    *(_Manner(True), _Manner(True, "*"), _Manner(True, "html")),
)


@dataclass(frozen=True)
class _Unit:
    """A segment with what it needs to be written."""

    block: _Block
    source: Content
    marked: Mapping[tuple[str, int], _Marked]
    spellings: Spellings
    pictures: Mapping[int, str]
    """The descriptions of pictures, by the numbers of their tags."""

    @property
    def segments(self) -> Iterator[Content]:
        """What there is to translate: its text, if it has any, and the descriptions."""
        if self.has_text:
            yield self.source
        yield from ((text,) for text in self.pictures.values())

    @property
    def has_text(self) -> bool:
        return any(isinstance(part, str) and part.strip() for part in self.source)


@dataclass(frozen=True)
class _Page:
    """A block of HTML, and where it lies."""

    start: int
    end: int
    html: Html
    line: int

    @property
    def segments(self) -> Iterator[Segment]:
        """What there is to translate in it, by its lines in the file."""
        for each in self.html.segments:
            line = self.line + int(each.place.removeprefix("line ")) - 1
            yield replace(each, place=f"line {line}")


class Markdown:
    """A Markdown file (CommonMark, with tables and strikethrough).

    ``not_located`` counts the blocks whose place in the file was not found: they stay as they are.
    """

    name: ClassVar[str] = "markdown"
    endings: ClassVar[tuple[str, ...]] = (".md", ".markdown")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read a Markdown file."""
        if len(data) > MOST_BYTES:
            what = f"more than {MOST_BYTES:,} bytes of Markdown"
            raise UserError(what, where=where, fix="translate it in parts")
        check_parts(data, where, _INLINE)
        self._data = TextData(data, where)
        self._parser = _make_parser(where)
        self._environment: dict[str, Any] = {}
        front = _FRONT.match(self._data.text)
        self._lines = _Lines(self._data.text, front.end() if front else 0)
        self.not_located = 0
        self._parts = [part for block in self._blocks() if (part := self._part(block))]
        self.segments: Sequence[Segment] = [
            segment for part in self._parts for segment in self._segments(part)
        ]

    def _part(self, block: "_Block | _Page") -> "_Unit | _Page | None":
        return block if isinstance(block, _Page) else self._unit(block)

    def _segments(self, part: "_Unit | _Page") -> Iterator[Segment]:
        if isinstance(part, _Page):
            yield from part.segments
        else:
            line = self._lines.number_of(part.block.offsets[0])
            yield from (Segment(content, f"line {line}") for content in part.segments)

    def _blocks(self) -> Iterator[_Block | _Page]:
        """The blocks that have text, with their places."""
        tokens = self._parser.parse(self._lines.body, self._environment)
        column = 0
        for before, token in pairwise([Token("", "", 0), *tokens]):
            column = 0 if before.type == "tr_open" else column
            if token.type == "html_block" and (page := self._page(token)):
                yield page
            if token.type != "inline":
                continue
            kind = _kind_of(before)
            first, last = token.map or (0, 0)
            if kind == "cell":
                start = token.meta.get("start", 0)
                offsets = _cell_offsets(self._lines, first, start, column, token.content)
                column += 1
            else:
                offsets = _offsets(self._lines, range(first, last), token.content, kind)
            if offsets is not None:
                yield _Block(kind, token.content, offsets, token.children or [])
            elif token.content:
                self.not_located += 1

    def _page(self, token: Token) -> _Page | None:
        """A block of HTML; none where other marks stand before its lines, as in a quote."""
        first, last = token.map or (0, 0)
        written = [line.strip(_WHITE) for line in self._lines.texts[first:last]]
        if written != [line.strip(_WHITE) for line in token.content.splitlines()]:
            return None
        start, end = self._lines.starts[first], self._lines.stops[last - 1]
        data = _UTF_8 + self._data.text[start:end].encode()
        return _Page(start, end, Html(data, "", "", ""), self._lines.number_of(start))

    def _unit(self, block: _Block) -> _Unit | None:
        pieces = _read(block.content, block.children)
        content: list[str | Tag] = []
        marked: dict[tuple[str, int], _Marked] = {}
        opened: list[int] = []
        at = 0
        for number, piece in enumerate(pieces):
            start, at = at, at + len(piece.raw)
            if piece.kind == "text":
                content.append(piece.text)
                continue
            tag = _make_tag(piece, number, opened)
            written = self._data.text[block.offsets[start] : block.offsets[at]]
            label = "".join(each.raw for each in pieces[tag.id + 1 : number])
            named = piece.kind == "close" and piece.raw in ("]", "][]")
            marked[tag.kind, tag.id] = _Marked(piece, written, label if named else "")
            content.append(tag)
        pictures = {id_: text for (_, id_), each in marked.items() if (text := _describe(each))}
        spellings = self._spellings(block, pieces)
        unit = _Unit(block, normalised(content), marked, spellings, pictures)
        return unit if any(unit.segments) else None

    def _spellings(self, block: _Block, pieces: Sequence[_Piece]) -> Spellings:
        """How the characters of a block are written; a zero byte is read as U+FFFD."""
        units: list[tuple[str, str]] = []
        at = 0
        for piece in pieces:
            start, at = at, at + len(piece.raw)
            if piece.kind == "text" and "\ufffd" in piece.raw:
                places = zip(piece.raw, block.offsets[start:at], strict=True)
                units += [(c, "\0" if self._data.text[n] == "\0" else c) for c, n in places]
            elif piece.kind == "text":
                units.append((piece.text, piece.raw))
        return Spellings(units, _SPECIAL)

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with its segments translated."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations of {len(self.segments)} segments")
        return self._data.edited(self._edits(iter(translations)))

    def _edits(self, translations: Iterator[Content | None]) -> Iterator[Edit]:
        for part in self._parts:
            if isinstance(part, _Page):
                data = part.html.write([next(translations) for _ in part.html.segments])
                yield Edit(part.start, part.end, data.removeprefix(_UTF_8).decode())
                continue
            content = next(translations) if part.has_text else None
            described = {id_: next(translations) for id_ in part.pictures}
            unit = _with_descriptions(part, described)
            content = part.source if content is None else content
            if unit is not part or content != part.source:
                yield self._edit(unit, content)

    def _edit(self, unit: _Unit, content: Content) -> Edit:
        """A block in the first manner of writing it that reads as it should."""
        start, end = unit.block.offsets[0], unit.block.offsets[-1]
        content = _tidied(content, unit)
        written = ""
        for manner in _MANNERS:
            writer = _Writer(unit, manner)
            written = writer.write(content)
            same = written == self._data.text[start:end]  # which was read as it should
            if same or manner.emphasis == "html" or self._reads(unit.block.kind, writer.pieces):
                break
        if unit.block.kind == "cell" and written.endswith("\\"):
            written += " " * self._data.text.startswith("|", end)
        return Edit(start, end, written)

    def _reads(self, kind: str, pieces: Sequence[_Piece]) -> bool:
        """Whether pieces are read again as they were written."""
        content = "".join(piece.raw for piece in pieces)
        shape = {"heading": ("# ", ""), "underlined": ("", "\n---")}.get(kind, ("", ""))
        environment = {"references": ChainMap({}, self._environment.get("references", {}))}
        if kind == "cell":
            tokens = self._parser.parseInline(content, environment)
        else:
            tokens = self._parser.parse(content.join(shape), environment)
        inline = [token for token in tokens if token.type == "inline"]
        expected = {"cell": 1}.get(kind, 3)
        if len(tokens) != expected or len(inline) != 1 or inline[0].content != content:
            return False
        if kind != "cell" and _kind_of(tokens[0]) != kind:
            return False
        return _shape(_read(content, inline[0].children or [])) == _shape(pieces)


class _Lines:
    """The lines of a file from some place on."""

    def __init__(self, text: str, start: int) -> None:
        ends = [match.span() for match in _LINE_END.finditer(text, start)]
        self.starts = [start, *(end for _, end in ends)]
        self.stops = [*(begin for begin, _ in ends), len(text)]
        self.texts = [text[a:b] for a, b in zip(self.starts, self.stops, strict=True)]
        self.body = "\n".join(self.texts).replace("\0", "\ufffd")
        self._before = len(_LINE_END.findall(text, 0, start))

    def number_of(self, position: int) -> int:
        """The number of the line at a place of the file, from 1."""
        return self._before + bisect_right(self.starts, position)


def _make_parser(where: str) -> MarkdownIt:
    """A parser that tells where what it finds in a line ends."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
    for name in _EXACT:
        rule = _rule_of(parser.inline.ruler, name)
        parser.inline.ruler.at(name, _recording(rule))
    parser.core.ruler.before("inline", "size", partial(_check_sizes, where))
    table = _rule_of(parser.block.ruler, "table")
    parser.block.ruler.at("table", _recording_table(table), {"alt": ["paragraph", "reference"]})
    paragraph = _rule_of(parser.block.ruler, "paragraph")
    parser.block.ruler.before(
        "reference", "note", partial(_note, paragraph), {"alt": ["paragraph", "reference"]}
    )
    return parser


def _note(
    paragraph: Callable[..., bool], state: StateBlock, start: int, end: int, silent: bool
) -> bool:
    """A footnote or a definition: a paragraph that begins in the middle of another, too."""
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if not _OWN_LINE.match(line) or state.is_code_block(start):
        return False
    return silent or paragraph(state, start, end, silent)


def _check_sizes(where: str, state: StateCore) -> None:
    """A step of the parser, after which it reads what stands inside blocks."""
    for token in state.tokens:
        if token.type == "inline" and len(token.content) > MOST_BLOCK:
            what = f"a paragraph of {len(token.content):,} characters, more than {MOST_BLOCK:,}"
            line = (token.map or [0])[0] + 1
            raise UserError(what, where=f"{where}:{line}", fix="break it into paragraphs")


def _rule_of(ruler: Any, name: str) -> Callable[..., bool]:
    """A rule of the parser by its name."""
    rule: Callable[..., bool] = next(each.fn for each in ruler.__rules__ if each.name == name)
    return rule


def _recording(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """A rule that leaves with its last token the place where it ends."""

    def record(state: StateInline, silent: bool) -> bool:
        before = len(state.tokens)
        found = rule(state, silent)
        if found and not silent and len(state.tokens) > before:
            state.tokens[-1].meta["end"] = state.pos
        return found

    return record


def _recording_table(
    rule: Callable[[StateBlock, int, int, bool], bool],
) -> Callable[[StateBlock, int, int, bool], bool]:
    """The rule for tables, which leaves with each cell where its row begins in its line."""

    def record(state: StateBlock, first: int, last: int, silent: bool) -> bool:
        before = len(state.tokens)
        found = rule(state, first, last, silent)
        for token in state.tokens[before:]:
            if token.type == "inline" and token.map:
                start = state.bMarks[token.map[0]] + state.tShift[token.map[0]]
                token.meta["start"] = start - (state.src.rfind("\n", 0, start) + 1)
        return found

    return record


def _kind_of(opening: Token) -> str:
    if opening.type == "heading_open":
        return "heading" if opening.markup.startswith("#") else "underlined"
    return "cell" if opening.type in ("th_open", "td_open") else "paragraph"


def _offsets(lines: _Lines, numbers: range, content: str, kind: str) -> list[int] | None:
    """For each character of a block, and for its end, its place in the file."""
    texts = content.split("\n")
    if len(texts) != len(numbers) or not content:
        return None
    offsets: list[int] = []
    for number, text in zip(numbers, texts, strict=True):
        body = text.lstrip(" \t")
        line = lines.texts[number].replace("\0", "\ufffd")
        at = _find_last(line, body, closed=kind == "heading")
        if at is None:
            return None
        start = lines.starts[number] + at
        offsets += [start] * (len(text) - len(body))
        offsets += range(start, start + len(body) + 1)
    return offsets


def _find_last(line: str, body: str, *, closed: bool) -> int | None:
    """Where a text ends a line, but for white space and the marks that close a heading."""
    bare = line.rstrip(_WHITE)
    if closed and (cut := bare.rstrip("#").rstrip(_WHITE)).endswith(body):
        return len(cut) - len(body)
    if line.endswith(body):
        return len(line) - len(body)
    return len(bare) - len(body) if bare.endswith(body) else None


def _cell_offsets(
    lines: _Lines, number: int, start: int, column: int, content: str
) -> list[int] | None:
    """The places of the characters of a cell."""
    line = lines.texts[number].replace("\0", "\ufffd")
    cells: list[list[int]] = [[]]
    for at in range(start, len(line)):
        if line[at] != "|":
            cells[-1].append(at)
        elif at > start and line[at - 1] == "\\":
            cells[-1][-1] = at
        else:
            cells.append([])
    if not cells[0] or (line[start:].startswith("|")):
        cells = cells[1:]
    if column >= len(cells) or not content:
        return None
    places = cells[column]
    text = "".join(line[at] for at in places)
    first = len(text) - len(text.lstrip(_WHITE))
    places = places[first : first + len(content)]
    if text.strip(_WHITE) != content:
        return None
    starts = [at - (line[at] == "|") for at in places]
    return [lines.starts[number] + at for at in [*starts, places[-1] + 1]]


def _describe(marked: _Marked) -> str:
    """The description of a picture, if that is what a tag stands for and it can be changed."""
    match = _PICTURE.fullmatch(marked.piece.raw)
    if match is None or not marked.written.endswith(match[2]):
        return ""
    text = _ESCAPED.sub(lambda found: found[1] or "|", match[1])
    return text if text.strip() else ""


def _with_descriptions(unit: _Unit, described: Mapping[int, Content | None]) -> _Unit:
    """A unit whose pictures have other descriptions, if there are any."""
    marked = dict(unit.marked)
    for id_, content in described.items():
        old = marked["alone", id_]
        match = _PICTURE.fullmatch(old.piece.raw)
        if match is None or content is None or plain(content) == unit.pictures[id_]:
            continue
        text = _TO_ESCAPE.sub(r"\\\g<0>", _LINE_END.sub(" ", plain(content)))
        is_cell = unit.block.kind == "cell"
        text = text if is_cell else text.replace("\\|", _BAR)
        raw = f"![{text}{match[2]}"
        bars = text.replace("|", "\\|") if is_cell else text
        piece = replace(old.piece, raw=raw)
        marked["alone", id_] = replace(old, piece=piece, written=f"![{bars}{match[2]}")
    return unit if marked == unit.marked else replace(unit, marked=marked)


def _make_tag(piece: _Piece, number: int, opened: list[int]) -> Tag:
    if piece.kind == "open":
        opened.append(number)
        return Tag("open", number, piece.raw)
    if piece.kind == "close":
        return Tag("close", opened.pop(), piece.raw)
    return Tag("alone", number, "⏎" if piece.space else piece.raw, space=piece.space)


def _read(content: str, children: Sequence[Token]) -> list[_Piece]:
    """The pieces of a content: together they are it, character by character."""
    pieces = _walk(content, children)
    pieces = pieces and list(_set_apart(pieces))
    deep = pieces is not None and _depth(pieces) > _MOST_DEPTH
    if pieces is None or deep or "".join(piece.raw for piece in pieces) != content:
        pieces = list(_read_lines(content))
    return pieces


def _depth(pieces: Sequence[_Piece]) -> int:
    """How deep emphasis and links nest."""
    steps = ({"open": 1, "close": -1}.get(piece.kind, 0) for piece in pieces)
    return max(accumulate(steps), default=0)


def _read_lines(content: str) -> Iterator[_Piece]:
    """A content as text with ends of lines."""
    at = 0
    for match in _BREAK.finditer(content):
        yield from _text_pieces(content[at : match.start()])
        yield _Piece("alone", match.group(), space=True)
        at = match.end()
    yield from _text_pieces(content[at:])


def _text_pieces(text: str, *, first: bool = False) -> Iterator[_Piece]:
    """Text, and the marks of footnotes and the box of a task in it."""
    at = 0
    if first and (box := _CHECKBOX.match(text)):
        yield _Piece("alone", box.group())
        at = box.end()
    for match in _NOTE.finditer(text, at):
        yield _Piece("text", text[at : match.start()], text[at : match.start()])
        yield _Piece("alone", match.group())
        at = match.end()
    yield _Piece("text", text[at:], text[at:])


def _walk(content: str, children: Sequence[Token]) -> list[_Piece] | None:
    """The pieces that the parser found in a content, or None where it cannot be followed."""
    pieces: list[_Piece] = []
    at, tokens = 0, iter(children)
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            at = _take_break(content, at, token, pieces)
        elif token.type == "text":
            if not content.startswith(token.content, at):
                return None
            pieces += _text_pieces(token.content, first=at == 0)
            at += len(token.content)
        else:
            piece = _piece_of(content, at, token)
            if piece is None:
                return None
            if token.markup == "autolink":
                end = [next(tokens), next(tokens)][-1].meta.get("end", at)
                piece = _Piece("alone", content[at:end])
            pieces.append(piece)
            at += len(piece.raw)
    return [piece for piece in pieces if piece.raw]


def _set_apart(pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """The pieces, with what begins a line and is no text as a tag."""
    starts, at = True, 0
    while at < len(pieces):
        run = list(takewhile(lambda piece: piece.kind == "text", pieces[at:])) if starts else []
        raw = "".join(piece.raw for piece in run)
        match = _LINE_MARK.match(raw)
        if match and all(piece.raw == piece.text for piece in run):
            yield _Piece("alone", match.group())
            if rest := raw[match.end() :]:
                yield _Piece("text", rest, rest)
            at, starts = at + len(run), False
            continue
        starts = pieces[at].space and "\n" in pieces[at].raw
        yield pieces[at]
        at += 1


def _take_break(content: str, at: int, token: Token, pieces: list[_Piece]) -> int:
    """Add the end of a line with the white space before it; the place after it."""
    while pieces and pieces[-1].kind == "text" and pieces[-1].raw.endswith((" ", "\t")):
        last = pieces.pop()
        kept = last.raw.rstrip(" \t")
        at -= len(last.raw) - len(kept)
        if last.text != last.raw:
            break
        pieces.append(_Piece("text", kept, kept))
    match = _BREAK.match(content, at)
    raw = match.group() if match else ""
    pieces.append(_Piece("alone", raw, space=True, name=token.type))
    return at + len(raw)


def _piece_of(content: str, at: int, token: Token) -> _Piece | None:
    """The piece that a token stands for."""
    if token.type == "text_special":
        if len(token.content) == 1 and not token.content.isspace():
            return _Piece("text", token.markup, token.content)
        if token.content == token.markup:
            return _Piece("text", token.markup, token.content)
        return _Piece("alone", token.markup, space=token.content.isspace())
    name, _, side = token.type.rpartition("_")
    kind = side if side in ("open", "close") else "alone"
    if name == "link" and kind == "open":
        return _Piece("open", "[", name="link")
    if name in _EMPHASIS:
        return _Piece(kind, token.markup, name=name)
    end = token.meta.get("end")
    return _Piece(kind, content[at:end], name=name) if end is not None and end > at else None


def _shape(pieces: Sequence[_Piece]) -> list[tuple[str, str]]:
    """What pieces say: texts, and tags as they are written."""
    shape: list[tuple[str, str]] = [("text", "")]
    for piece in pieces:
        if piece.kind != "text":
            shape += [(piece.kind, piece.raw), ("text", "")]
        else:
            shape[-1] = "text", shape[-1][1] + piece.text
    return shape


def _tidied(content: Content, unit: _Unit) -> Content:
    """A translation whose emphasis and ends of lines stand where Markdown has them."""
    parts = [re.sub(r"[\r\n]+", " ", p) if isinstance(p, str) else p for p in content]
    parts = _move_space(parts, unit, "open")
    parts = _move_space(parts[::-1], unit, "close")[::-1]
    return normalised(_strip_breaks(list(_part_code(_drop_empty(parts, unit), unit)), unit))


def _piece_at(part: str | Tag, unit: _Unit) -> _Piece | None:
    return None if isinstance(part, str) else unit.marked[part.kind, part.id].piece


def _is_emphasis(part: str | Tag, unit: _Unit) -> bool:
    piece = _piece_at(part, unit)
    return piece is not None and piece.name in _EMPHASIS


def _is_break(part: str | Tag, unit: _Unit) -> bool:
    piece = _piece_at(part, unit)
    return piece is not None and piece.space and "\n" in piece.raw


def _move_space(parts: Sequence[str | Tag], unit: _Unit, kind: str) -> list[str | Tag]:
    """The parts with the white space that follows a mark of emphasis before it.

    For marks that close, the parts are in reverse.
    """
    moved: list[str | Tag] = []
    for part in reversed(parts):
        if isinstance(part, str) or part.kind != kind or not _is_emphasis(part, unit):
            moved.append(part)
            continue
        spaces: list[str | Tag] = []
        while moved and (_is_break(moved[-1], unit) or moved[-1] == ""):
            spaces.append(moved.pop())
        if moved and isinstance(text := moved[-1], str):
            kept = text.lstrip(_BLANK) if kind == "open" else text.rstrip(_BLANK)
            space = text[: len(text) - len(kept)] if kind == "open" else text[len(kept) :]
            moved[-1] = kept
            spaces.append(space)
        moved += [part, *reversed(spaces)]
    return moved[::-1]


def _drop_empty(parts: Sequence[str | Tag], unit: _Unit) -> list[str | Tag]:
    """The parts without emphasis on nothing, which Markdown cannot write."""
    kept: list[str | Tag] = []
    for part in parts:
        closes = isinstance(part, Tag) and part.kind == "close" and _is_emphasis(part, unit)
        opening = kept[-1] if kept else ""
        if closes and isinstance(opening, Tag) and opening.kind == "open":
            kept.pop()
        elif part != "":
            kept.append(part)
    return kept


def _part_code(parts: Sequence[str | Tag], unit: _Unit) -> Iterator[str | Tag]:
    """The parts with a space between two pieces of code, which would else be one."""
    was_code = False
    for part in parts:
        piece = _piece_at(part, unit)
        is_code = piece is not None and piece.name == "code"
        if is_code and was_code:
            yield " "
        yield part
        was_code = is_code


def _strip_breaks(parts: Sequence[str | Tag], unit: _Unit) -> list[str | Tag]:
    """The parts without white space at ends of lines, and no end of a line after another."""
    kept: list[str | Tag] = []
    for part in normalised(parts):
        starts = not kept or _is_break(kept[-1], unit)
        if isinstance(part, str):
            part = part.lstrip(" \t") if starts else part
        elif _is_break(part, unit):
            if kept and isinstance(last := kept[-1], str):
                kept[-1:] = filter(None, [last.rstrip(" \t")])
            piece = unit.marked["alone", part.id].piece
            if (not kept or _is_break(kept[-1], unit)) and "\\" not in piece.raw:
                continue
        if part != "":
            kept.append(part)
    while kept and _is_break(kept[-1], unit):
        kept.pop()
    if kept and isinstance(last := kept[-1], str):
        kept[-1] = last.rstrip(" \t")
    return kept


class _Writer:
    """Writes a block in one manner; ``pieces`` is then what it should read as."""

    def __init__(self, unit: _Unit, manner: _Manner) -> None:
        self._unit, self._manner = unit, manner
        self._cell = unit.block.kind == "cell"
        self.pieces: list[_Piece] = []
        self._spell = unit.spellings.speller(self._escape)

    def write(self, content: Content) -> str:
        """A translation as it stands in the file."""
        written: list[str] = []
        opened: list[int] = []
        for part in content:
            if isinstance(part, str):
                raw = self._write_text(part)
                self.pieces.append(_Piece("text", raw, part))
                written.append(self._in_file(raw))
                continue
            marked = self._unit.marked[part.kind, part.id]
            raw = self._mark_of(marked, opened)
            same = raw == marked.piece.raw
            written.append(marked.written if same else self._in_file(raw))
            piece = marked.piece
            self.pieces.append(_Piece(piece.kind, raw, "", piece.space, piece.name))
            if piece.kind == "open":
                opened.append(len(self.pieces))
        return "".join(written)

    def _in_file(self, raw: str) -> str:
        return raw.replace("|", "\\|") if self._cell else raw

    def _mark_of(self, marked: _Marked, opened: list[int]) -> str:
        """What a tag is written as."""
        piece = marked.piece
        start = opened.pop() if piece.kind == "close" and opened else 0
        if piece.name in _EMPHASIS and self._manner.emphasis == "html":
            return f"<{'/' * (piece.kind == 'close')}{_EMPHASIS[piece.name]}>"
        if piece.name in _EMPHASIS and self._manner.emphasis == "*":
            return piece.raw.replace("_", "*")
        if marked.label and "".join(each.raw for each in self.pieces[start:]) != marked.label:
            return f"][{' '.join(marked.label.split())}]"
        return piece.raw

    def _write_text(self, text: str) -> str:
        if self._manner.careful:
            return "".join(self._escape(text, at) for at in range(len(text)))
        return self._spell(text)

    def _escape(self, text: str, at: int) -> str:
        """A character of a text, with a backslash where it could be taken for a mark."""
        needed = _could_mark(text, at)
        if self._manner.careful and text[at] == "|" and self._unit.block.kind == "underlined":
            return _BAR
        if self._manner.careful:
            first = at == 0 and text[at] in _CAREFUL_FIRST
            needed = text[at] in _CAREFUL or first
        if not needed and (not self.pieces or self.pieces[-1].raw.endswith(("\n", " ", "\t"))):
            number = _NUMBER.match(text)
            needed = (at == 0 and _MARKER.match(text) is not None) or (
                number is not None and at == number.end() - 1
            )
        return "\\" + text[at] if needed else text[at]


def _could_mark(text: str, at: int) -> bool:
    """Whether a character could begin or end some markup inside a line."""
    character = text[at]
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if character == "_":
        return not (before.isalnum() and after.isalnum())
    if character == "&":
        return _ENTITY.match(text, at) is not None
    if character == "~":
        return "~" in (before, after)
    return character in "\\`*[]<"
