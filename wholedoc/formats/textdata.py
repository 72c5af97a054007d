"""Documents that are text: decoded, edited by position, written as they were everywhere else."""

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from wholedoc.errors import UserError

MOST_PARTS = 500_000
"""Lines and tags of a file of text; each takes up to 3 KB."""
_MARKS = (  # the longer ones first: one begins with another
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Edit(NamedTuple):
    """New text for a stretch of a document."""

    start: int
    end: int
    text: str


def check_parts(data: bytes, where: str, marks: bytes = b"<") -> None:
    """Refuse a file with more lines and ``marks`` than fit into memory, before it is read."""
    lines = max(data.count(b"\n"), data.count(b"\r"))
    if lines + sum(data.count(mark) for mark in marks) > MOST_PARTS:
        what = f"more than {MOST_PARTS:,} lines and tags"
        raise UserError(what, where=where, fix="translate it in parts")


class TextData:
    """The text of a file, and how to write it again."""

    def __init__(self, data: bytes, where: str, encoding: str | None = None) -> None:
        """Decode UTF-8, what a byte order mark announces, or an ``encoding`` that is known."""
        check_parts(data, where)
        marks = () if encoding else _MARKS
        self._mark, encoding = next(
            (each for each in marks if data.startswith(each[0])), (b"", encoding or "utf-8")
        )
        try:
            self.text = data[len(self._mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise UserError(
                f"not {encoding.upper()} (byte {error.start:,})",
                where=f"{where}:{line}",
                fix="save it as UTF-8",
            ) from error
        self._encoding = encoding
        self._ends = [match.start() for match in re.finditer("\n", self.text)]

    def edited(self, edits: Iterable[Edit], errors: str = "strict") -> bytes:
        """The file with some stretches replaced; they do not overlap.

        ``errors`` is what becomes of letters that its encoding does not have.
        """
        parts, at = [], 0
        for start, end, text in sorted(edits):
            parts += [self.text[at:start], text]
            at = end
        whole = "".join([*parts, self.text[at:]])
        return self._mark + whole.encode(self._encoding, errors)

    def line_of(self, position: int) -> int:
        """The number of the line at a position, from 1."""
        return bisect_right(self._ends, position - 1) + 1
