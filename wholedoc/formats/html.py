"""HTML: what people read out of a page, its translation in, every other byte as it was.

The page is read by position and not rebuilt, so that broken HTML stays as broken as it was.
"""

import html
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html.entities import html5
from typing import ClassVar

from wholedoc.formats.segments import Content, Segment, Tag, normalised
from wholedoc.formats.textdata import Edit, TextData

_BLOCKS = frozenset(
    {
        "address", "article", "aside", "audio", "blockquote", "body", "button", "canvas",
        "caption", "center", "col", "colgroup", "dd", "details", "dialog", "dir", "div", "dl",
        "dt", "fieldset", "figcaption", "figure", "footer", "form", "frame", "frameset", "h1",
        "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "iframe",
        "label", "legend", "li", "link", "main", "menu", "meta", "nav", "noframes", "noscript",
        "object", "ol", "optgroup", "option", "p", "param", "pre", "search", "section",
        "select", "source", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "title",
        "tr", "track", "ul", "video",
    }
)  # fmt: skip
_VOID = frozenset(
    {
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
        "frame",
    }
)
_NOT_TEXT = frozenset(
    {"code", "kbd", "math", "pre", "samp", "script", "style", "svg", "template", "var"}
)  # what stands inside is no text
_FIELD = "textarea"
_RAW = frozenset({"script", "style", _FIELD, "title"})  # no tags inside
_UNSEEN = frozenset({"br", "script", "style", "template"})  # at the edge of a segment, outside it
_READ = frozenset(
    {"alt", "title", "placeholder"}
    | {f"aria-{each}" for each in ("label", "description", "placeholder", "valuetext")}
)  # of any element
_READ_OF = {
    "option": "label", "optgroup": "label", "track": "label", "th": "abbr", "table": "summary",
}  # fmt: skip
_PRESSED = frozenset({"submit", "button", "reset"})  # kinds of input that show their value
_META = frozenset(
    {
        "description",
        "keywords",
        "og:title",
        "og:description",
        "twitter:title",
        "twitter:description",
    }
)
_MOST_DEPTH = 100
_SHOWN = 40  # the longest tag that people see as it is
_SPECIAL = frozenset("&<>\"'")

_VALUE = r"[^\s<>\"'][^\s<>]*+"
_ATTRIBUTE = rf"[^\s/<>][^\s/<>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|{_VALUE})?)?"


def _token_pattern(first: str) -> re.Pattern[str]:
    """What parts the texts of a page, where names begin with these characters."""
    return re.compile(
        rf"""
        <!--(?:>|->|.*?(?:-->|\Z))
        | <!\[CDATA\[.*?(?:\]\]>|\Z)
        | <\?(?:php|=).*?(?:\?>|\Z)
        | <[!?][^>]*+(?:>|\Z)
        | <(?P<close>/)?(?P<name>[{first}][^\s/<>]*+)
          (?P<rest>(?>[\s/]++|{_ATTRIBUTE}){{0,500}})>
        """,
        re.VERBOSE | re.DOTALL,
    )


_TOKEN = _token_pattern("A-Za-z")
_XML_TOKEN = _token_pattern(r"A-Za-z_:\x80-\U0010ffff")
_ATTRIBUTES = re.compile(
    rf"(?P<name>[^\s/<>][^\s/<>=]*+)"
    rf"(?:\s*+=\s*+(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)'|(?P<bare>{_VALUE}))?)?"
)
_UNIT = re.compile(
    r"[ \t\f\r\n]+|&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|(?P<name>[A-Za-z][A-Za-z0-9]*;?))"
)
_BARE = re.compile(_VALUE)
_DECLARED = re.compile(
    rb"<\?xml[^>]*?encoding\s*=\s*[\"']([\w.:-]+)|<meta[^>]*?charset\s*=\s*[\"']?\s*([\w.:-]+)",
    re.IGNORECASE,
)


class Spellings:
    """How the characters of a segment were written in its file, such as ``&uuml;`` for ü."""

    def __init__(self, units: Iterable[tuple[str, str]], special: frozenset[str]) -> None:
        """Remember them from pieces of text with the way each was written, in their order."""
        units = list(units)
        watched = special | {text for text, written in units if text != written}
        self._found: dict[str, list[str]] = {}
        for text, written in units:
            if text != written:
                self._found.setdefault(text, []).append(written)
                continue
            for character in text:
                if character in watched:
                    self._found.setdefault(character, []).append(character)

    def speller(self, default: Callable[[str, int], str]) -> Callable[[str], str]:
        """What writes the texts of a translation, one after the other.

        A character is written as it was in the source: each time the same way, or in the order of
        the ways it was written in. ``default`` writes the others: of a text, the one at an index.
        """
        used = dict.fromkeys(self._found, 0)

        def spell(text: str, at: int) -> str:
            found = self._found.get(text[at])
            if found is None:
                return default(text, at)
            used[text[at]] += 1
            if used[text[at]] <= len(found):
                return found[used[text[at]] - 1]
            return found[0] if len(set(found)) == 1 else default(text, at)

        return lambda text: "".join(spell(text, at) for at in range(len(text)))


@dataclass(frozen=True)
class _Elements:
    """What the names of elements mean."""

    void: frozenset[str] = frozenset()
    """They have nothing inside."""
    raw: frozenset[str] = frozenset()
    """They have no tags inside."""
    not_text: frozenset[str] = frozenset()
    """What stands inside is no text."""
    unseen: frozenset[str] = frozenset()
    """At the edge of a segment they stay outside."""
    blocks: frozenset[str] = frozenset()
    """No segment reaches over their edges."""
    inline: frozenset[str] = frozenset()
    """In XML, they are never blocks."""
    xml: bool = False
    """Whether names are only names. A block is then what stands beside no text of its parent."""


_HTML = _Elements(_VOID, _RAW, _NOT_TEXT, _UNSEEN, _BLOCKS)
_XML = _Elements(xml=True)


@dataclass(frozen=True)
class _Part:
    """A piece of a page: text, or half of an element, or something that stands alone."""

    kind: str  # text, open, close, alone
    start: int
    end: int
    text: str = ""
    name: str = ""
    edge: bool = False  # at the edge of a segment it stays outside
    space: bool = False


@dataclass(frozen=True)
class _Token:
    """A tag, a comment, or the text between."""

    kind: str  # text, open, close, other
    start: int
    end: int
    name: str = ""
    rest: int = 0  # where the attributes of a tag begin
    closed: bool = False  # it has nothing inside


@dataclass(frozen=True)
class _Piece:
    """Where a segment lies in the page, and what writes it again."""

    start: int
    end: int
    source: Content
    spans: Mapping[tuple[str, int], tuple[int, int]]
    spellings: Spellings
    quote: str | None = None  # of an attribute's value, if it has any; ``</`` of a field's text


class Html:
    """A page, or a part of one: its paragraphs, headings, cells, and the attributes people read.

    What stands in ``code``, ``pre``, ``script`` and the like, or is marked ``translate="no"``, is
    no text; inside a block so marked, what is marked ``translate="yes"`` is. The language that
    ``<html lang>`` names becomes that of the translation.
    """

    name: ClassVar[str] = "html"
    endings: ClassVar[tuple[str, ...]] = (".html", ".htm", ".xhtml")

    def __init__(
        self,
        data: bytes,
        where: str,
        src_language: str,
        trg_language: str,
        *,
        ignored: Collection[str] = (),
        xml: bool = False,
        blocks: Collection[str] = (),
        inline: Collection[str] = (),
    ) -> None:
        """Read a page; in the elements ``ignored``, nothing is text.

        In ``xml``, names are only names: all other elements hold text, and no attribute does. The
        elements named as ``blocks`` part segments, those ``inline`` do not; of the others, those
        that stand beside no text of their parent do.
        """
        self._data = TextData(data, where, _declared_encoding(data))
        self._text = self._data.text
        self._languages = src_language, trg_language
        self._spelled = _file_spellings(self._text)
        known = _XML if xml else _HTML
        self._elements = replace(
            known,
            not_text=known.not_text.union(ignored),
            blocks=known.blocks.union(blocks),
            inline=frozenset(inline),
        )
        reader = _Reader(self._text, _SPECIAL | self._spelled.keys(), self._elements)
        self._pieces = sorted(reader.pieces, key=lambda piece: piece.start)
        self._language_spans = reader.language_spans
        self.segments: Sequence[Segment] = list(self._segments())

    def _segments(self) -> Iterator[Segment]:
        line, at = 1, 0
        for piece in self._pieces:
            line += self._text.count("\n", at, piece.start)
            at = piece.start
            yield Segment(piece.source, f"line {line}")

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The page with its segments translated."""
        rows = [
            (piece, content)
            for piece, content in zip(self._pieces, translations, strict=True)
            if content is not None
        ]
        inner = [self._write_value(piece, content) for piece, content in rows if _is_value(piece)]
        if rows:
            inner += self._language_edits()
        inner.sort()
        parts, at = [], 0
        for piece, content in rows:
            if not _is_value(piece):
                parts += [self._raw(at, piece.start, inner), self._write(piece, content, inner)]
                at = piece.end
        whole = "".join([*parts, self._raw(at, len(self._text), inner)])
        return self._data.edited([Edit(0, len(self._text), whole)], "xmlcharrefreplace")

    def _raw(self, start: int, end: int, edits: Sequence[Edit]) -> str:
        """A stretch of the page with the edits that lie in it."""
        parts, at = [], start
        first = bisect_left(edits, start, key=lambda each: each.start)
        last = bisect_left(edits, end, key=lambda each: each.start)
        for edit in edits[first:last]:
            parts += [self._text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self._text[at:end]])

    def _write(self, piece: _Piece, content: Content, edits: Sequence[Edit]) -> str:
        """A segment of text: as the source was written, where it then reads as it should."""
        wanted, written = "", ""
        spell = piece.spellings.speller(self._escape)
        for part in content:
            if isinstance(part, str):
                written += spell(part)
                wanted += html.escape(part, quote=False)
            else:
                raw = self._raw(*piece.spans[part.kind, part.id], edits)
                written += raw
                wanted += raw
        known = (wanted, self._text[piece.start : piece.end])  # which are read as they should
        if written in known:
            return written
        same = _reading(written, self._elements) == _reading(wanted, self._elements)
        return written if same else wanted

    def _escape(self, text: str, at: int) -> str:
        """A character that the source of its segment does not have."""
        return self._spelled.get(text[at]) or html.escape(text[at], quote=False)

    def _write_value(self, piece: _Piece, content: Content) -> Edit:
        """The value of an attribute."""
        spell = piece.spellings.speller(self._escape_in_value)
        written, careful = "", ""
        for part in content:
            if isinstance(part, str):
                written += spell(part)
                careful += html.escape(part)
            else:
                start, end = piece.spans[part.kind, part.id]
                written += self._text[start:end]
                careful += self._text[start:end]
        if written != self._text[piece.start : piece.end]:
            written = _as_value(written, careful, piece.quote or "")
        return Edit(piece.start, piece.end, written)

    def _escape_in_value(self, text: str, at: int) -> str:
        return self._spelled.get(text[at]) or html.escape(text[at])

    def _language_edits(self) -> list[Edit]:
        """The language of the page, where it is the one that was translated."""
        source, target = self._languages
        if not source or not target or source == target:
            return []
        found = [(start, end, self._text[start:end].lower()) for start, end in self._language_spans]
        return [
            Edit(start, end, target)
            for start, end, language in found
            if language == source.lower() or language.startswith(source.lower() + "-")
        ]


def _declared_encoding(data: bytes) -> str | None:
    """The encoding that a page declares, if it is another than UTF-8 and the page is in it."""
    found = _DECLARED.search(data[:4096])
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) or found is None:
        return None
    name = (found[1] or found[2]).decode("ascii", "replace").lower()
    if name.replace("_", "-").startswith(("utf", "u8", "unicode")):
        return None
    latin = name in ("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii")
    for encoding in ("cp1252", "latin-1") if latin else (name,):
        try:
            if data.decode(encoding).encode(encoding) == data:
                return encoding
        except (LookupError, ValueError):
            continue
    return None


def _is_value(piece: _Piece) -> bool:
    return piece.quote is not None


def _as_value(written: str, careful: str, quote: str) -> str:
    """The value of an attribute: as it was written, where it then reads as it should."""
    same = written == careful
    if not same and _decoded(written, in_value=True) != _decoded(careful, in_value=True):
        written = careful
    if quote:
        return written if quote not in written else careful
    return written if _BARE.fullmatch(written) else f'"{careful}"'


def _decoded(raw: str, *, in_value: bool) -> str:
    """A text as people read it."""
    parts = _text_parts(raw, 0, len(raw), in_value=in_value)
    return "".join(part.text or raw[part.start : part.end] for part in parts)


def _reading(raw: str, elements: _Elements) -> list[str]:
    """What a browser makes of a segment: its texts, and its tags as they are."""
    found: list[str] = [""]
    for token in _tokens(raw, elements):
        if token.kind == "text":
            found[-1] += _decoded(raw[token.start : token.end], in_value=False)
        else:
            found += [raw[token.start : token.end], ""]
    return found


def _file_spellings(text: str) -> dict[str, str]:
    """How a page writes letters that are not ASCII, where it has names or numbers for them."""
    found: dict[str, str] = {}
    for match in _UNIT.finditer(text):
        character, length = _reference(match, in_value=False)
        if len(character) == 1 and not character.isascii():
            found[character] = match.group()[:length]
    return {each: raw if raw.endswith(";") else raw + ";" for each, raw in found.items()}


def _reference(match: re.Match[str], *, in_value: bool) -> tuple[str, int]:
    """What a character reference stands for, and its length; nothing if it is none."""
    raw, name = match.group(), match["name"]
    if name is None:
        return (html.unescape(raw), len(raw)) if raw[0] == "&" else ("", 0)
    if name in html5:
        bare = in_value and name[-1] != ";" and match.string[match.end() :][:1] == "="
        return ("", 0) if bare else (html5[name], len(raw))
    if not in_value:
        for length in range(min(len(name) - 1, 8), 1, -1):
            if name[:length] in html5:
                return html5[name[:length]], length + 1
    return "", 0


def _text_parts(text: str, start: int, end: int, *, in_value: bool) -> Iterator[_Part]:
    """The parts of a text: plain text, character references, white space with ends of lines."""
    at = start
    for match in _UNIT.finditer(text, start, end):
        raw = match.group()
        if raw[0] == "&":
            found, length = _reference(match, in_value=in_value)
            part = _reference_part(found, match.start(), match.start() + length)
        else:
            length = len(raw) if "\n" in raw or "\r" in raw else 0
            part = _Part("alone", *match.span(), edge=True, space=True)
        if length:
            if at < match.start():
                yield _Part("text", at, match.start(), text[at : match.start()])
            yield part
            at = part.end
    if at < end:
        yield _Part("text", at, end, text[at:end])


def _reference_part(found: str, start: int, end: int) -> _Part:
    if len(found) != 1 or not (found.isprintable() or found.isspace()):
        return _Part("alone", start, end)
    if found.isspace() and found.isascii():
        return _Part("alone", start, end, space=True)
    return _Part("text", start, end, found)


def _tokens(text: str, elements: _Elements) -> Iterator[_Token]:
    """The tags and comments of a page and the text between, in their order."""
    xml = text.lstrip().startswith("<?xml")
    at = position = 0
    unclosed: set[str] = set()
    pattern = _XML_TOKEN if elements.xml else _TOKEN
    while match := pattern.search(text, position):
        if at < match.start():
            yield _Token("text", at, match.start())
        token = _tag(match, elements.void)
        yield token
        at = position = match.end()
        name = token.name
        if token.kind == "open" and name in elements.raw - unclosed and not (xml and token.closed):
            found = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, position)
            if found is None and name == "title":
                unclosed.add(name)
            else:
                position = found.start() if found else len(text)
    if at < len(text):
        yield _Token("text", at, len(text))


def _tag(match: re.Match[str], void: frozenset[str]) -> _Token:
    if match["name"] is None:
        return _Token("other", *match.span())
    name, rest = match["name"].lower(), match["rest"]
    closed = name in void or (rest.endswith("/") and not _ends_with_value(rest))
    kind = "close" if match["close"] else "open"
    return _Token(kind, *match.span(), name, match.start("rest"), closed)


def _ends_with_value(rest: str) -> bool:
    """Whether the attributes of a tag end with a value without quotes, to which a slash belongs."""
    last = deque(_ATTRIBUTES.finditer(rest), maxlen=1)
    return bool(last) and last[0]["bare"] is not None and last[0].end() == len(rest)


def _outline(
    text: str, tokens: Sequence[_Token], ends: Mapping[int, int], elements: _Elements
) -> set[int]:
    """Where the tags of blocks of XML stand: of elements beside which their parent has no text."""
    found: set[int] = set()
    closing = {last: first for first, last in ends.items()}
    inside: list[list[int]] = [[]]  # the elements in each that is open
    has_text = [False]

    def close() -> None:
        beside_text, children = has_text.pop(), inside.pop()
        for n in children:
            name = tokens[n].name
            if name in elements.blocks or not (beside_text or name in elements.inline):
                found.update({n, ends.get(n, n)})

    for n, token in enumerate(tokens):
        if token.kind == "text":
            has_text[-1] |= not text[token.start : token.end].isspace()
        elif token.kind == "open" and (n in ends or token.closed):
            inside[-1].append(n)
            if n in ends:
                inside.append([])
                has_text.append(False)
        elif n in closing and len(inside) > 1:
            close()
    while inside:
        close()
    return found


def _ends(tokens: Sequence[_Token]) -> dict[int, int]:
    """For each element that is closed, where its tags stand among the tokens."""
    opened: dict[str, list[int]] = {}
    ends: dict[int, int] = {}
    for n, token in enumerate(tokens):
        if token.kind == "open" and not token.closed:
            opened.setdefault(token.name, []).append(n)
        elif token.kind == "close" and opened.get(token.name):
            ends[opened[token.name].pop()] = n
    return ends


class _Reader:
    """Finds the segments of a page."""

    def __init__(self, text: str, watched: frozenset[str], elements: _Elements) -> None:
        self._text, self._watched, self._elements = text, watched, elements
        self._tokens = list(_tokens(text, elements))
        self._ends = _ends(self._tokens)
        if elements.xml:
            self._blocks = _outline(text, self._tokens, self._ends, elements)
        else:
            self._blocks = {
                n for n, each in enumerate(self._tokens) if each.name in elements.blocks
            }
        self._run: list[_Part] = []
        self._inside = 0
        self.pieces: list[_Piece] = []
        self.language_spans: list[tuple[int, int]] = []
        at = 0
        while at < len(self._tokens):
            at = self._read(at) + 1
        self._end_run()

    def _read(self, at: int) -> int:
        """Read a token, or an element that is no text; the last token that was read."""
        token = self._tokens[at]
        attributes = self._attributes(token) if token.kind == "open" else {}
        skipped = token.kind == "open" and self._is_skipped(token, attributes)
        whole = skipped or self._is_field(token) or self._is_sign(at)
        last = self._skip_end(at) if whole else at
        if at in self._blocks:
            self._end_run()
            last = self._read_inside(at, last) if skipped else last
        else:
            self._run += self._parts(token, self._tokens[last].end, skipped=whole)
        if not skipped:
            self._read_attributes(token, attributes)
            self._read_field(at, last)
        return last

    def _read_inside(self, at: int, last: int) -> int:
        """Read what is text again inside a block that is none; the last token that was read."""
        if self._inside == _MOST_DEPTH:
            return last
        self._inside += 1
        n = at + 1
        while n < last:
            end = self._ends.get(n, last) if self._is_marked(self._tokens[n]) else last
            while n <= end < last:
                n = self._read(n) + 1
            self._end_run()
            n += end >= last
        self._inside -= 1
        return max(last, n - 1)

    def _is_marked(self, token: _Token) -> bool:
        """Whether an element is marked as text."""
        attributes = self._attributes(token) if token.kind == "open" else {}
        return self._values(attributes, "translate") == {"yes"}

    def _is_field(self, token: _Token) -> bool:
        return token.kind == "open" and token.name == _FIELD and _FIELD in self._elements.raw

    def _is_sign(self, at: int) -> bool:
        """Whether an element is a link on a sign, such as ¶ after a heading: no word goes there."""
        if self._tokens[at].name != "a" or self._ends.get(at) != at + 2:
            return False
        text = self._tokens[at + 1]
        shown = _decoded(self._text[text.start : text.end], in_value=False)
        is_text = text.kind == "text" and bool(shown.strip())
        return is_text and not any(character.isalnum() for character in shown)

    def _read_field(self, at: int, last: int) -> None:
        """The text that stands in a field of a form from the beginning."""
        text = self._tokens[at + 1] if self._ends.get(at) == last == at + 2 else self._tokens[at]
        if self._is_field(self._tokens[at]) and text.kind == "text":
            parts = _text_parts(self._text, text.start, text.end, in_value=False)
            self._add(list(parts), "</")

    def _parts(self, token: _Token, end: int, *, skipped: bool) -> Iterable[_Part]:
        if token.kind == "text":
            return _text_parts(self._text, token.start, token.end, in_value=False)
        edge = token.name in self._elements.unseen or self._text.startswith("<!", token.start)
        kind = "alone" if skipped or token.closed or token.kind == "other" else token.kind
        return [_Part(kind, token.start, end, name=token.name, edge=edge)]

    def _attributes(self, token: _Token) -> dict[str, tuple[int, int, str]]:
        """Where the values of a tag's attributes lie, and their quotes."""
        found: dict[str, tuple[int, int, str]] = {}
        for match in _ATTRIBUTES.finditer(self._text, token.rest, token.end - 1):
            for group, quote in (("double", '"'), ("single", "'"), ("bare", "")):
                if match[group] is not None:
                    found.setdefault(match["name"].lower(), (*match.span(group), quote))
        return found

    def _is_skipped(self, token: _Token, attributes: dict[str, tuple[int, int, str]]) -> bool:
        translate, classes = (
            self._text[slice(*attributes[name][:2])].lower().split() if name in attributes else []
            for name in ("translate", "class")
        )
        return (
            token.name in self._elements.not_text or translate == ["no"] or "notranslate" in classes
        )

    def _skip_end(self, at: int) -> int:
        """The last token of an element; one that is not closed goes on until a block."""
        if self._tokens[at].closed and self._tokens[at].name not in self._elements.raw:
            return at
        if at in self._ends:
            return self._ends[at]
        last = at
        while last + 1 < len(self._tokens) and last + 1 not in self._blocks:
            last += 1
        return last

    def _read_attributes(self, token: _Token, attributes: dict[str, tuple[int, int, str]]) -> None:
        for name, (start, end, quote) in () if self._elements.xml else attributes.items():
            if name in _READ or self._is_read(token, name, attributes):
                parts = _text_parts(self._text, start, end, in_value=True)
                self._add(list(parts), quote)
            elif token.name == "html" and name in ("lang", "xml:lang"):
                self.language_spans.append((start, end))

    def _is_read(
        self, token: _Token, name: str, attributes: dict[str, tuple[int, int, str]]
    ) -> bool:
        """Whether people read an attribute of this element, which not every element has."""
        if (token.name, name) == ("input", "value"):
            return not _PRESSED.isdisjoint(self._values(attributes, "type"))
        if (token.name, name) == ("meta", "content"):
            return not _META.isdisjoint(self._values(attributes, "name", "property"))
        return _READ_OF.get(token.name) == name

    def _values(self, attributes: dict[str, tuple[int, int, str]], *names: str) -> set[str]:
        places = [attributes[name] for name in names if name in attributes]
        return {self._text[start:end].strip().lower() for start, end, _ in places}

    def _end_run(self) -> None:
        self._add(self._run, None)
        self._run = []

    def _add(self, parts: list[_Part], quote: str | None) -> None:
        """Add the segment of some parts, if there is text in them."""
        if not any(part.text.strip() for part in parts):
            return
        kept = _trim(_spaced(_unpaired_alone(parts, _pair(parts))))
        content: list[str | Tag] = []
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        opened: list[int] = []
        for number, part in enumerate(kept):
            if part.kind == "text":
                content.append(part.text)
                continue
            if part.kind == "open":
                opened.append(number)
            tag = self._make_tag(part, opened.pop() if part.kind == "close" else number)
            spans[tag.kind, tag.id] = part.start, part.end
            content.append(tag)
        texts = [(p.text, self._text[p.start : p.end]) for p in kept if p.kind == "text"]
        start, end = kept[0].start, kept[-1].end
        spellings = Spellings(texts, self._watched)
        self.pieces.append(_Piece(start, end, normalised(content), spans, spellings, quote))

    def _make_tag(self, part: _Part, number: int) -> Tag:
        raw = self._text[part.start : part.end]
        short = raw if len(raw) <= _SHOWN else f"<{part.name or '!'}>"
        if part.kind == "open":
            return Tag("open", number, short)
        if part.kind == "close":
            return Tag("close", number, short)
        return Tag("alone", number, "⏎" if part.space else short, space=part.space)


def _pair(parts: Sequence[_Part]) -> set[int]:
    """Which parts are halves of elements that open and close in the same segment."""
    paired: set[int] = set()
    opened: list[int] = []
    names: dict[str, int] = {}
    for n, part in enumerate(parts):
        if part.kind == "open":
            opened.append(n)
            names[part.name] = names.get(part.name, 0) + 1
        elif part.kind == "close" and names.get(part.name):
            last = opened.pop()
            while parts[last].name != part.name:
                names[parts[last].name] -= 1
                last = opened.pop()
            names[part.name] -= 1
            if len(opened) < _MOST_DEPTH:
                paired |= {last, n}
    return paired


def _unpaired_alone(parts: Sequence[_Part], paired: set[int]) -> list[_Part]:
    """The parts, with halves of elements that are not paired as tags that stand alone."""
    return [
        replace(part, kind="alone", edge=True)
        if part.kind in ("open", "close") and n not in paired
        else part
        for n, part in enumerate(parts)
    ]


def _spaced(parts: Sequence[_Part]) -> list[_Part]:
    """The parts, with ``<br>`` as white space where there is no other between two words."""
    spaced, before = list(parts), ""
    for n, part in enumerate(parts):
        after = parts[n + 1] if n + 1 < len(parts) else part
        if part.name == "br" and not before.isspace() and not after.space:
            spaced[n] = replace(part, space=not after.text[:1].isspace())
        before = " " if spaced[n].space else part.text[-1:]
    return spaced


def _trim(parts: Sequence[_Part]) -> list[_Part]:
    """The parts without white space, comments and the like at their edges."""
    first, last = 0, len(parts)
    while _is_outside(parts[first]):
        first += 1
    while _is_outside(parts[last - 1]):
        last -= 1
    kept = list(parts[first:last])
    kept[0] = _stripped(kept[0], kept[0].text.lstrip(), from_start=True)
    kept[-1] = _stripped(kept[-1], kept[-1].text.rstrip(), from_start=False)
    return kept


def _is_outside(part: _Part) -> bool:
    if part.kind == "text":
        return not part.text.strip()
    return part.kind == "alone" and (part.edge or part.space)


def _stripped(part: _Part, text: str, *, from_start: bool) -> _Part:
    """A text without white space at one side, which a character reference has not."""
    less = len(part.text) - len(text)
    if from_start:
        return replace(part, start=part.start + less, text=text)
    return replace(part, end=part.end - less, text=text)
