"""Plain text: each line is a paragraph, but where its lines were broken to a width.

What stands in columns is a paragraph each. The ends of lines in a paragraph are tags, and so is
what else is no single space, as in lines that were made even.
"""

import re
from collections.abc import Iterator, Sequence
from typing import ClassVar

from wholedoc.formats.protected import Span
from wholedoc.formats.segments import Content, Segment, Tag, normalised
from wholedoc.formats.textdata import Edit, TextData

_LINE = re.compile(r"[^\r\n]+")
_LEAST_WIDTH = 40  # no line of a text that was broken to a width is a paragraph's and shorter
_MOST_WIDTH = 100
_MOST_LINES = 200  # of a paragraph: more are no text
_MOST_GAPS = 500  # of a paragraph: with more, those inside of lines stay text
_LINE_END = re.compile(r"\r\n|\r|\n")
_COLUMN = re.compile(r"(?<=\S)(?: {4,}| *\t[ \t]*)(?=\S)")
_GAP = re.compile(rf"[ \t]*(?:{_LINE_END.pattern})[ \t]*| [ \t]+|\t[ \t]*")


class PlainText:
    """A text file: paragraphs out, paragraphs in, empty lines and indentation as they were."""

    name: ClassVar[str] = "text"
    endings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, data: bytes, where: str, src_language: str, trg_language: str) -> None:  # noqa: ARG002
        """Read a text file."""
        self._data = TextData(data, where)
        paragraphs = _paragraphs(self._data.text)
        self._spans = [part for span in paragraphs for part in _columns(self._data.text, span)]
        self._gaps: list[list[str]] = []
        self.segments: Sequence[Segment] = [self._segment(*span) for span in self._spans]

    def _segment(self, start: int, end: int) -> Segment:
        text, at = self._data.text[start:end], 0
        parts: list[str | Tag] = []
        gaps = []
        for n, match in enumerate(_gaps(text)):
            shown = "⏎" if _LINE_END.search(match.group()) else " "
            parts += [text[at : match.start()], Tag("alone", n, shown, space=True)]
            gaps.append(match.group())
            at = match.end()
        self._gaps.append(gaps)
        return Segment(normalised([*parts, text[at:]]), f"line {self._data.line_of(start)}")

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with its paragraphs translated."""
        rows = zip(self._spans, self._gaps, translations, strict=True)
        return self._data.edited(
            Edit(start, end, "".join(p if isinstance(p, str) else gaps[p.id] for p in content))
            for (start, end), gaps, content in rows
            if content is not None
        )


def _columns(text: str, span: Span) -> Iterator[Span]:
    """The parts of a paragraph that stand in columns; mostly it is one."""
    at = span[0]
    for match in _COLUMN.finditer(text, *span):
        yield at, match.start()
        at = match.end()
    yield at, span[1]


def _gaps(text: str) -> list[re.Match[str]]:
    """The white space of a paragraph that is no single space."""
    found = list(_GAP.finditer(text))
    few = len(found) <= _MOST_GAPS
    return found if few else [match for match in found if _LINE_END.search(match.group())]


def _paragraphs(text: str) -> list[Span]:
    """Where paragraphs lie: lines, joined where the first of two was broken to a width."""
    lines = [match.span() for match in _LINE.finditer(text) if match.group().strip()]
    width = _width([end - start for start, end in lines])
    found: list[Span] = []
    for start, end in lines:
        stripped = start + len(text[start:end]) - len(text[start:end].lstrip())
        if found and width and _goes_on(text, found[-1], (stripped, end), width):
            found[-1] = (found[-1][0], end)
        else:
            found.append((stripped, end))
    return [(start, start + len(text[start:end].rstrip())) for start, end in found]


def _width(lengths: Sequence[int]) -> int:
    """The width that the lines of a text were broken to, or 0 where they were not."""
    if len(lengths) < 3:
        return 0
    longest = max(lengths)
    full = sum(length > 0.75 * longest for length in lengths)
    return longest if _LEAST_WIDTH <= longest <= _MOST_WIDTH and 2 * full >= len(lengths) else 0


def _goes_on(text: str, before: Span, line: Span, width: int) -> bool:
    """Whether a line goes on with the paragraph before it: that one's last line had no room."""
    ends = len(_LINE_END.findall(text, before[1], line[0]))
    if ends != 1 or text.count("\n", *before) >= _MOST_LINES:
        return False
    start = max(text.rfind(end, *before) for end in "\r\n") + 1
    length = before[1] - max(start, before[0])
    word = text[line[0] : line[1]].split(maxsplit=1)[0]
    return length + 1 + len(word) > width
