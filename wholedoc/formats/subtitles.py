"""Subtitles: SubRip (.srt) and WebVTT (.vtt), edited by position.

A sentence often runs over several cues. Such cues are one segment, and where one ends and the
next begins is a tag in it, so that the model reads the whole sentence and each cue still gets its
share. Times, numbers, settings, notes and styles stay byte by byte as they are; pysubs2 writes
files anew, so it is not used.
"""

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from wholedoc.errors import UserError
from wholedoc.formats.segments import Content, Segment, Tag, check_tags, normalised
from wholedoc.formats.textdata import Edit, TextData

_LINE = re.compile(r"([^\r\n]*)(\r\n|\n|\r|\Z)")
_TIME_LINE = re.compile(r"[ \t]*\d[\d:., \t]*-->")
_CLOCK = r"(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9})[.,](\d{1,9})"
_TIMES = re.compile(rf"\s*{_CLOCK}\s*-->\s*{_CLOCK}")
_INDEX = re.compile(r"\s*\d+\s*")
_ASIDE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")

_CODE = r"\{(?:\\|[A-Za-z]:)[^{}\r\n]*\}"  # {\an8} {y:i}
_NAMES = "i|b|u|s|em|strong|font|span|c|v|lang|ruby|rt|br"
_SRT_TAG = re.compile(rf"</?(?:{_NAMES})(?:[\s.][^<>\r\n]*)?/?>|<[\d:.]+>|{_CODE}", re.IGNORECASE)
_VTT_TAG = re.compile(rf"<[^<>\r\n]*>|{_CODE}")
_TAG_NAME = re.compile(r"<(/?)([A-Za-z]+)")
_ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]*|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});")

_DASH = re.compile(rf"(?:{_CODE})*[-‐‑–—][ \t]*(?=[^\s-])")
_FINAL = re.compile(r"""[.!?…:。！？][\s"'”’»«“)\]}]*$|♪$|^[\[(].*[\])]$""")
_PAUSE = 3.0  # seconds, after which a cue does not go on with the sentence before it
_MOST_CUES = 6
_MOST_DEPTH = 100  # of tags that are open


@dataclass(frozen=True)
class _Line:
    """A line of text in a cue."""

    start: int
    end: int
    """Of its text, without the white space around it."""
    outer: tuple[int, int]
    """With the white space around it and the end of the line."""
    cue: int
    dialogue: bool = False
    """Whether a dash says that another person speaks."""
    marked: bool = False
    """Whether that dash stands before its text, which is then never all of the line."""


@dataclass(frozen=True)
class _Text:
    """The text of a segment: each line's content, and what its tags are in the file."""

    lines: tuple[_Line, ...]
    pieces: tuple[Content, ...]
    raw: dict[tuple[str, int], str]


class Subtitles:
    """A file of subtitles: sentences out, sentences in, cues and times as they were."""

    name: ClassVar[str] = "subtitles"
    endings: ClassVar[tuple[str, ...]] = (".srt", ".vtt")

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read a file of subtitles."""
        self._data = TextData(data, where)
        text = self._data.text
        self._web = text.startswith("WEBVTT") or where.lower().endswith(".vtt")
        times, lines = _read_cues(text, self._web)
        if not times:
            raise UserError(
                "no subtitle found",
                where=where,
                fix="each needs a line such as 00:00:01,000 --> 00:00:04,000 before its text",
            )
        self._counts = _count_lines(lines)
        groups = _join_cues(text, lines, times)
        self._texts = [self._read_text(group) for group in groups]
        self.segments: Sequence[Segment] = [self._segment(each) for each in self._texts]

    def _read_text(self, lines: Sequence[_Line]) -> _Text:
        """Find the tags of a segment."""
        pattern = _VTT_TAG if self._web else _SRT_TAG
        found = [_split(self._data.text[line.start : line.end], pattern) for line in lines]
        tags = _pair_tags([raw for line in found for raw in line[1::2]])
        raw: dict[tuple[str, int], str] = {}
        pieces, at = [], iter(tags)
        for line in found:
            parts: list[str | Tag] = []
            for n, part in enumerate(line):
                if n % 2:
                    tag = next(at)
                    raw[tag.kind, tag.id] = part
                    parts.append(tag)
                else:
                    parts.append(_unescape(part) if self._web else part)
            pieces.append(normalised(parts))
        return _Text(tuple(lines), tuple(pieces), raw)

    def _segment(self, text: _Text) -> Segment:
        """Join the lines of a segment by tags for what lies between."""
        parts: list[str | Tag] = list(text.pieces[0])
        number = len(text.raw)
        for n, (before, line) in enumerate(zip(text.lines, text.lines[1:], strict=False)):
            shown = "⏎" if before.cue == line.cue else "⏵"
            parts += [Tag("alone", number + n, shown, space=True), *text.pieces[n + 1]]
        return Segment(normalised(parts), f"line {self._data.line_of(text.lines[0].start)}")

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with its sentences translated."""
        rows = zip(self.segments, self._texts, translations, strict=True)
        written: list[tuple[_Line, str]] = []
        for segment, text, content in rows:
            if content is not None:
                check_tags(segment.source, content)
                written += self._write_text(text, content)
        return self._data.edited(_edits(written, self._counts))

    def _write_text(self, text: _Text, content: Content) -> Iterator[tuple[_Line, str]]:
        """The lines that a translation changes; those of the source keep their writing."""
        for line, old, new in zip(text.lines, text.pieces, _cut(content), strict=True):
            if new != old:
                parts = [self._write_part(part, text) for part in new]
                yield line, "".join(parts).strip()

    def _write_part(self, part: str | Tag, text: _Text) -> str:
        if isinstance(part, Tag):
            return text.raw[part.kind, part.id]
        part = re.sub(r"\s*[\r\n]+\s*", " ", part)
        return _escape(part) if self._web else part


def _read_cues(text: str, web: bool) -> tuple[list[tuple[float, float] | None], list[_Line]]:
    """The times of the cues, None where they cannot be read, and their lines of text."""
    times: list[tuple[float, float] | None] = []
    lines: list[_Line] = []
    rows = [match for match in _LINE.finditer(text) if match.group()]
    inside = aside = False
    for n, row in enumerate(rows):
        line = row.group(1)
        if web and not line:
            inside = aside = False
        elif web and not inside and _ASIDE.match(line):
            aside = True
        elif aside:
            continue
        elif _TIME_LINE.match(line):
            times.append(_read_times(line))
            inside = True
        elif inside and line.strip() and not _is_index(rows, n):
            lines.append(_read_line(row, len(times) - 1))
    return times, lines


def _is_index(rows: Sequence[re.Match[str]], n: int) -> bool:
    """Whether a line is the number of the cue that begins after it."""
    after = rows[n + 1].group(1) if n + 1 < len(rows) else ""
    return bool(_INDEX.fullmatch(rows[n].group(1)) and _TIME_LINE.match(after))


def _read_times(line: str) -> tuple[float, float] | None:
    match = _TIMES.match(line)
    if match is None:
        return None
    first, last = match.groups()[:4], match.groups()[4:]
    return _seconds(first), _seconds(last)


def _seconds(clock: Sequence[str | None]) -> float:
    hours, minutes, seconds, rest = (part or "0" for part in clock)
    return 3600 * int(hours) + 60 * int(minutes) + float(f"{int(seconds)}.{rest}")


def _read_line(row: re.Match[str], cue: int) -> _Line:
    line = row.group(1)
    end = row.start() + len(line.rstrip())
    start = row.start() + len(line) - len(line.lstrip())
    dash = _DASH.match(row.string, start, end)
    if dash:
        return _Line(dash.end(), end, row.span(), cue, dialogue=True, marked=True)
    inner = _SRT_TAG.sub("", line).lstrip()
    return _Line(start, end, row.span(), cue, dialogue=_DASH.match(inner) is not None)


def _count_lines(lines: Iterable[_Line]) -> dict[int, int]:
    """How many lines each cue has."""
    counts: dict[int, int] = {}
    for line in lines:
        counts[line.cue] = counts.get(line.cue, 0) + 1
    return counts


def _join_cues(
    text: str, lines: Sequence[_Line], times: Sequence[tuple[float, float] | None]
) -> list[list[_Line]]:
    """The lines of each segment."""
    groups: list[list[_Line]] = []
    for line in lines:
        if groups and _goes_on(text, groups[-1], line, times):
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _goes_on(
    text: str,
    group: Sequence[_Line],
    line: _Line,
    times: Sequence[tuple[float, float] | None],
) -> bool:
    """Whether a line goes on with the sentence before it."""
    last = group[-1]
    if line.dialogue or last.cue == line.cue:
        return not line.dialogue
    before, after = times[last.cue], times[line.cue]
    if line.cue > last.cue + 1 or before is None or after is None:
        return False
    if after[0] < before[0] or after[0] - before[1] > _PAUSE:
        return False
    ended = _FINAL.search(_SRT_TAG.sub("", text[last.start : last.end]).strip())
    return not ended and line.cue - group[0].cue < _MOST_CUES


def _split(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Texts and tags in turn, a text first and last."""
    parts, at = [], 0
    for match in pattern.finditer(text):
        parts += [text[at : match.start()], match.group()]
        at = match.end()
    return [*parts, text[at:]]


def _pair_tags(raws: Sequence[str]) -> list[Tag]:
    """Tags that open and close form pairs where they nest; each other one stands alone."""
    tags = [Tag("alone", n, raw) for n, raw in enumerate(raws)]
    opened: list[tuple[str, int]] = []
    for n, raw in enumerate(raws):
        match = _TAG_NAME.match(raw)
        if match is None:
            continue
        name = match.group(2).lower()
        if not match.group(1):
            if len(opened) < _MOST_DEPTH:
                opened.append((name, n))
            continue
        depth = next((d for d in reversed(range(len(opened))) if opened[d][0] == name), None)
        if depth is not None:
            first = opened[depth][1]
            tags[first] = replace(tags[first], kind="open")
            tags[n] = replace(tags[n], kind="close", id=first)
            del opened[depth:]
    return tags


def _cut(content: Content) -> list[Content]:
    """A content line by line."""
    lines: list[list[str | Tag]] = [[]]
    for part in content:
        if isinstance(part, Tag) and part.space:
            lines.append([])
        else:
            lines[-1].append(part)
    return [normalised(line) for line in lines]


def _edits(written: Sequence[tuple[_Line, str]], counts: dict[int, int]) -> Iterator[Edit]:
    """Write lines; one without text goes where its cue has another, for it would end the cue."""
    left = dict(counts)
    for line, text in written:
        if not text and not line.marked and left[line.cue] > 1:
            left[line.cue] -= 1
            yield Edit(*line.outer, "")
        else:
            yield Edit(line.start, line.end, text)


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        found = html.unescape(match.group())
        return match.group() if set(found) & set("\r\n\x00") else found

    return _ENTITY.sub(character, text)


def _escape(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("-->", "--&gt;").replace("\xa0", "&nbsp;")
