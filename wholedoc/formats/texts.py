"""Documents that are text: decoded, edited by position, written as they were everywhere else."""

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from wholedoc.errors import UserError

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Edit(NamedTuple):
    """New text for a stretch of a document."""

    start: int
    end: int
    text: str


class TextData:
    """The text of a file, and how to write it again."""

    def __init__(self, data: bytes, where: str) -> None:
        """Decode UTF-8, or what a byte order mark announces."""
        self._mark, encoding = next(
            ((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8")
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

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The file with some stretches replaced; they do not overlap."""
        parts, at = [], 0
        for start, end, text in sorted(edits):
            parts += [self.text[at:start], text]
            at = end
        whole = "".join([*parts, self.text[at:]])
        return self._mark + whole.encode(self._encoding)

    def line_of(self, position: int) -> int:
        """The number of the line at a position, from 1."""
        return bisect_right(self._ends, position - 1) + 1
