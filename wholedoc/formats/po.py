"""PO files of gettext, edited by position.

Only the translations that change are written; every other byte stays. polib would write the
whole file anew and break its lines elsewhere, so it is not used. What is written here is marked
``fuzzy``: gettext then waits for a person before it uses it.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from wholedoc.errors import UserError
from wholedoc.formats.segments import Content, Segment, Tag, normalised
from wholedoc.formats.textdata import Edit, TextData

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    | (?P<comment>\#[^\r\n]*)
    | (?P<keyword>msgctxt|msgid_plural|msgid|domain|msgstr(?:[ \t]*\[[ \t]*\d{1,3}[ \t]*\])?)
      (?=["\s])
    | (?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*")""",
    re.VERBOSE,
)
_CHARSET = re.compile(rb'Content-Type:[^\r\n"]{0,200}?charset=([\w.:-]+)', re.IGNORECASE)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_LETTERS |= {'"': '"', "\\": "\\"}
_ESCAPED = {character: f"\\{letter}" for letter, character in _LETTERS.items()}
_BREAK = re.compile(r"[ \t]*\n\s*")
_TEXT_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\S+\s*|\s+")
_LANGUAGE = re.compile(r'(?<=["n])Language:[ \t]*(?=\\n)')
_ASCII = "".join(map(chr, range(32, 127)))
_WIDTH = 79  # columns of a line with its quotes, as gettext has them


class _String(NamedTuple):
    """A string, and where it stands; its pieces may stand on several lines."""

    text: str
    start: int
    end: int
    pieces: tuple[str, ...]


@dataclass
class _Entry:
    """An entry: its comments, what is translated and the translations."""

    start: int
    strings: dict[str, _String] = field(default_factory=dict)
    flags: list[tuple[int, str]] = field(default_factory=list)
    previous: int | None = None
    """Where the comments with the source of before begin."""

    @property
    def fuzzy(self) -> bool:
        """Whether its translation waits for a person."""
        return any("fuzzy" in _flags(text) for _, text in self.flags)

    @property
    def header(self) -> bool:
        """Whether it is the one that tells about the file."""
        return "msgctxt" not in self.strings and not self.strings["msgid"].text

    @property
    def forms(self) -> list[str]:
        """The keywords of its translations."""
        return [keyword for keyword in self.strings if keyword.startswith("msgstr")]


def _flags(comment: str) -> list[str]:
    return re.split(r"[,\s]+", comment[2:])


@dataclass(frozen=True)
class _Slot:
    """What a segment fills."""

    entry: _Entry
    source: str
    forms: tuple[str, ...]


class _Style(NamedTuple):
    """How a file breaks its strings into lines."""

    newline: str
    splits: bool
    """After the end of a line in the text."""
    wraps: bool
    """Where a line gets too long."""


class Po:
    """A PO file: entries out, entries in, the rest as it was.

    A plural is a segment of its own, for all forms but the first. Where there is one form for
    every number, the plural alone is translated, for the singular may say "one".
    """

    name: ClassVar[str] = "po"
    endings: ClassVar[tuple[str, ...]] = (".po", ".pot")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read a PO file."""
        self._where, self._language = where, trg_language
        self._charset = _find_charset(data, where)
        self._data = TextData(_to_utf8(data, self._charset, where), where)
        self._entries = _read_entries(self._data, where)
        self._style = _find_style(self._data.text, self._entries)
        self._slots = [slot for entry in self._entries for slot in _find_slots(entry)]
        self.segments: Sequence[Segment] = [self._segment(slot) for slot in self._slots]

    def _segment(self, slot: _Slot) -> Segment:
        strings = slot.entry.strings
        source = strings[slot.source]
        targets = [strings[form].text for form in slot.forms]
        return Segment(
            _read_text(source.text),
            f"line {self._data.line_of(source.start)}",
            target=_read_text(targets[0]) or None,
            approved=not slot.entry.fuzzy
            and all(strings[form].text.strip("\n") for form in slot.entry.forms),
        )

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with its entries translated."""
        edits: list[Edit] = []
        marked: list[_Entry] = []
        stands: dict[int, bool] = {}  # entries by where they begin: all of it is approved
        for slot, segment, content in zip(self._slots, self.segments, translations, strict=True):
            entry = slot.entry
            ready = segment.approved and bool(content)
            stands[entry.start] = stands.get(entry.start, True) and ready
            if not content or content == segment.target:
                continue
            edits += self._fill(slot, content)
            if not (segment.approved or entry.fuzzy) and entry not in marked[-1:]:
                marked.append(entry)
        edits += [self._mark(entry) for entry in marked]
        for entry in self._entries:
            if entry.fuzzy and stands.get(entry.start):
                edits += self._unmark(entry)
        if edits:
            edits += self._name_language()
        return self._encode(self._data.edited(edits))

    def _fill(self, slot: _Slot, content: Content) -> Iterator[Edit]:
        strings = slot.entry.strings
        text = _write_text(content, strings[slot.source].text)
        for form in slot.forms:
            old = strings[form]
            if old.text != text:
                yield Edit(old.start, old.end, _write_string(form, text, self._style))

    def _mark(self, entry: _Entry) -> Edit:
        """Add the flag ``fuzzy``, to other flags where the entry has some."""
        if entry.flags:
            at = entry.flags[0][0] + len("#,")
            others = entry.flags[0][1][2:].strip()
            return Edit(at, at, " fuzzy," if others else " fuzzy")
        at = entry.start if entry.previous is None else entry.previous
        newline = self._style.newline
        fresh = at == 0 or self._data.text[at - 1] in "\r\n"
        return Edit(at, at, f"{'' if fresh else newline}#, fuzzy{newline}")

    def _unmark(self, entry: _Entry) -> Iterator[Edit]:
        """Take the flag ``fuzzy`` away, and its line where there is no other flag in it."""
        for at, text in entry.flags:
            others = [flag for flag in _flags(text) if flag and flag != "fuzzy"]
            end = at + len(text)
            if others:
                yield Edit(at, end, f"#, {', '.join(others)}")
            else:
                line = re.compile(r"\r\n?|\n|").match(self._data.text, end)
                yield Edit(at, line.end() if line else end, "")

    def _name_language(self) -> Iterator[Edit]:
        """Write the language into the header where it has an empty field for it."""
        header = next((entry for entry in self._entries if entry.header), None)
        if header is None or not self._language or not header.forms:
            return
        place = header.strings[header.forms[0]]
        match = _LANGUAGE.search(self._data.text, place.start, place.end)
        if match:
            yield Edit(*match.span(), f"Language: {self._language.replace('-', '_')}")

    def _encode(self, data: bytes) -> bytes:
        if self._charset is None:
            return data
        try:
            return data.decode("utf-8").encode(self._charset)
        except UnicodeEncodeError as error:
            raise UserError(
                f"{error.object[error.start]!r} of a translation is not in {self._charset}",
                where=self._where,
                fix="convert the file first: msgconv --to-code=UTF-8",
            ) from error


def _find_charset(data: bytes, where: str) -> str | None:
    """The encoding that the header names, None for UTF-8."""
    match = _CHARSET.search(data)
    name = match.group(1).decode("ascii", "replace") if match else "CHARSET"
    if name.upper() in ("CHARSET", "UTF-8", "UTF8"):
        return None
    try:
        known = _ASCII.encode(name) == _ASCII.encode("ascii")
    except (LookupError, ValueError):
        known = False
    if not known:
        raise UserError(
            f"{name} is no encoding of a PO file",
            where=where,
            fix="name the right one in the header: Content-Type: text/plain; charset=UTF-8",
        )
    return name


def _to_utf8(data: bytes, charset: str | None, where: str) -> bytes:
    if charset is None:
        return data
    try:
        text = data.decode(charset)
        same = text.encode(charset) == data
    except ValueError:
        same = False
    if not same:
        raise UserError(
            f"not {charset}, which its header names",
            where=where,
            fix="put the right charset into the header",
        )
    return text.encode("utf-8")


def _read_entries(data: TextData, where: str) -> list[_Entry]:
    """The entries of a file in their order."""
    entries: list[_Entry] = []
    waiting = _Entry(0)
    keyword, pieces = "", list[re.Match[str]]()
    for match in [*_read_tokens(data, where), None]:
        if match is not None and match.lastgroup == "string" and keyword:
            pieces.append(match)
            continue
        if match is not None and match.lastgroup == "comment":
            _add_comment(waiting, match)
            continue
        if keyword:
            waiting = _add_string(entries, waiting, keyword, pieces, data, where)
        keyword, pieces = "", []
        if match is not None:
            keyword = re.sub(r"\s", "", match.group())
            if match.lastgroup == "string":
                raise _wrong("a string without a keyword", data, match.start(), where)
            pieces.append(match)
    for entry in entries:
        if not entry.forms or "msgid" not in entry.strings:
            raise _wrong("an entry without msgid or msgstr", data, entry.start, where)
    return entries


def _read_tokens(data: TextData, where: str) -> Iterator[re.Match[str]]:
    """The comments, keywords and strings of a file."""
    at = 0
    while at < len(data.text):
        match = _TOKEN.match(data.text, at)
        if match is None:
            raise _wrong("not a line of a PO file", data, at, where)
        if match.lastgroup != "space":
            yield match
        at = match.end()


def _add_comment(entry: _Entry, match: re.Match[str]) -> None:
    text = match.group()
    if text.startswith("#,"):
        entry.flags.append((match.start(), text))
    elif text.startswith("#|") and entry.previous is None:
        entry.previous = match.start()
    elif text.startswith("#~"):  # an obsolete entry, whose flags came before it
        entry.flags, entry.previous = [], None


def _add_string(
    entries: list[_Entry],
    waiting: _Entry,
    keyword: str,
    matches: Sequence[re.Match[str]],
    data: TextData,
    where: str,
) -> _Entry:
    """Add a string to its entry; what comes back waits for the entry after it."""
    first, *found = matches
    if not found:
        raise _wrong(f"{keyword} without a string", data, first.start(), where)
    if keyword == "domain":
        return waiting
    begins = keyword == "msgctxt" or (
        keyword == "msgid" and (not entries or set(entries[-1].strings) != {"msgctxt"})
    )
    if begins:
        waiting.start = first.start()
        entries.append(waiting)
        waiting = _Entry(0)
    if not entries or keyword in entries[-1].strings:
        raise _wrong(f"{keyword} where an entry has none", data, first.start(), where)
    pieces = tuple(match.group()[1:-1] for match in found)
    text = "".join(map(_unescape, pieces))
    entries[-1].strings[keyword] = _String(text, found[0].start(), found[-1].end(), pieces)
    return waiting


def _wrong(what: str, data: TextData, at: int, where: str) -> UserError:
    return UserError(what, where=f"{where}:{data.line_of(at)}", fix="msgfmt --check tells more")


def _find_slots(entry: _Entry) -> list[_Slot]:
    """What there is to translate in an entry."""
    forms = tuple(entry.forms)
    if entry.header:
        return []
    if "msgid_plural" not in entry.strings:
        slots = [_Slot(entry, "msgid", forms[:1])]
    elif len(forms) == 1:
        slots = [_Slot(entry, "msgid_plural", forms)]
    else:
        slots = [_Slot(entry, "msgid", forms[:1]), _Slot(entry, "msgid_plural", forms[1:])]
    return [slot for slot in slots if entry.strings[slot.source].text.strip("\n")]


def _find_style(text: str, entries: Sequence[_Entry]) -> _Style:
    """How a file breaks its strings into lines."""
    strings = [s for entry in entries if not entry.header for s in entry.strings.values()]
    inner = [piece for string in strings for piece in string.pieces[:-1] if piece]
    wraps = any(not piece.endswith("\\n") for piece in inner)
    if not wraps:
        lines = (line for line in text.splitlines() if not line.startswith("#"))
        wraps = all(_columns(line) <= _WIDTH + 1 for line in lines)
    whole = any("\n" in _unescape(piece)[:-1] for string in strings for piece in string.pieces)
    return _Style("\r\n" if "\r\n" in text else "\n", not whole, wraps)


def _read_text(text: str) -> Content:
    """A text without the ends of lines around it; those in it are tags."""
    text = text.strip("\n")
    parts: list[str | Tag] = []
    at = 0
    for n, match in enumerate(_BREAK.finditer(text)):
        parts += [text[at : match.start()], Tag("alone", n, "⏎", space=True)]
        at = match.end()
    return normalised([*parts, text[at:]])


def _write_text(content: Content, source: str) -> str:
    """The text of a translation, with the ends of lines that its source has."""
    inner = source.strip("\n")
    lead = source[: len(source) - len(source.lstrip("\n"))]
    trail = source[len(lead) + len(inner) :]
    breaks = _BREAK.findall(inner)
    parts = []
    for part in content:
        if isinstance(part, Tag):
            parts.append(breaks[part.id] if part.id < len(breaks) else "\n" * part.space)
        else:
            parts.append(part)
    return lead + "".join(parts).strip("\n") + trail


def _write_string(keyword: str, text: str, style: _Style) -> str:
    """A string as gettext writes it: on one line, or on lines of their own after an empty one."""
    whole = f'"{_escape(text)}"'
    lines = _TEXT_LINE.findall(text) if style.splits else [text]
    short = _columns(f"{keyword} {whole}") <= _WIDTH
    if len(lines) <= 1 and (short or not style.wraps):
        return whole
    if style.wraps:
        lines = [row for line in lines for row in _wrap(line)]
    return style.newline.join(['""', *(f'"{_escape(line)}"' for line in lines)])


def _wrap(line: str) -> list[str]:
    """A line broken after spaces to lines that are not too long, where it has spaces."""
    rows = [""]
    for word in _WORD.findall(line):
        if rows[-1] and _columns(_escape(rows[-1] + word)) > _WIDTH - 2:
            rows.append("")
        rows[-1] += word
    return rows


def _columns(text: str) -> int:
    """How many columns a text takes; the letters of East Asia take two."""
    return len(text) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match.group(1)
        if code in _LETTERS:
            return _LETTERS[code]
        if code[0] == "x" and len(code) > 1:
            number = int(code[1:], 16)
        elif code[0] in "01234567":
            number = int(code, 8)
        else:
            return match.group()
        return chr(number) if 0 < number < 128 else match.group()

    return _ESCAPE.sub(character, text)


def _escape(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)
