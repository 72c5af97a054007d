"""Text files as lines: reading them, aligning two sides, cutting rows into documents.

Files are plain or gzipped UTF-8; every fault is named by file and line.
"""

import gzip
import io
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.errors import UserError

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = "\ufeff"
CHUNK_BYTES = 1 << 16
MOST_LINE_BYTES = 1 << 26
"""Of a line, or of a text that runs over several: a small archive may unpack to any length."""

# First bytes → what the file is. All are checked before a line is read, so that a document given
# by mistake is named as what it is and not as "invalid UTF-8".
BINARY_MAGIC = (
    (b"PK\x03\x04", "a zip archive (or a .docx, .odt, .xlsx)"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"%PDF-", "a PDF"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF89a", "a GIF image"),
    (b"\xd0\xcf\x11\xe0", "an old Office document (.doc, .xls)"),
    (b"{\\rtf", "an RTF document"),
    (b"BZh9", "bzip2-compressed"),
    (b"\xfd7zXZ", "xz-compressed"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed"),
    (b"7z\xbc\xaf", "a 7-Zip archive"),
    (b"PAR1\x15", "a Parquet table"),
    (b"SQLite format 3", "a SQLite database"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)

GZIP_FAULTS = (EOFError, gzip.BadGzipFile, zlib.error)


def read_lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file without their line ends; an empty file is an error."""
    is_empty = True
    with open_bytes(path) as stream:
        for line in decode_lines(stream, str(path)):
            is_empty = False
            yield line
    if is_empty:
        raise UserError("the file is empty", where=str(path), fix="give a file with text in it")


def read_head(path: Path) -> str:
    """Returns the beginning of a file, enough to tell which convention it follows."""
    head = next(read_chunks(path), b"")
    # A character cut in two at the end, or a real fault, is for the full reading to judge.
    return head.decode("utf-8", errors="replace").removeprefix(BYTE_ORDER_MARK)


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yields the bytes of a file, unpacked if gzipped, in chunks of bounded size."""
    with open_bytes(path) as stream:
        try:
            while chunk := stream.read(CHUNK_BYTES):
                yield chunk
        except GZIP_FAULTS as fault:
            raise _gzip_error(str(path), fault) from fault


def open_bytes(path: Path) -> BinaryIO:
    """Opens a file for reading; raises UserError if it cannot be opened or is no text."""
    raw = open_file(path)
    try:
        return unpack(raw, str(path))
    except UserError:
        raw.close()
        raise


def open_file(path: Path) -> "io.BufferedReader[Any]":
    """Opens a file of any kind for reading; raises UserError if it cannot be opened."""
    try:
        return path.open("rb")
    except FileNotFoundError as fault:
        raise UserError("no such file", where=str(path), fix="check the path") from fault
    except IsADirectoryError as fault:
        raise UserError("is a folder", where=str(path), fix="give a file") from fault
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise UserError(f"cannot be read ({reason})", where=str(path)) from fault


def unpack(stream: "io.BufferedReader[Any]", name: str) -> BinaryIO:
    """Returns the stream, unpacked if it is gzipped; refuses what is certainly not text."""
    if stream.peek(2).startswith(GZIP_MAGIC):
        unpacked = io.BufferedReader(_GzipStream(stream))
        try:
            _refuse_binary(unpacked.peek(16), name)
        except GZIP_FAULTS as fault:
            raise _gzip_error(name, fault) from fault
        return unpacked
    _refuse_binary(stream.peek(16), name)
    return stream


class _GzipStream(gzip.GzipFile):
    """A gzip reader that closes the file underneath, which the standard one leaves open."""

    def __init__(self, packed: "io.BufferedReader[Any]") -> None:
        super().__init__(fileobj=packed, mode="rb")
        self._packed = packed

    def close(self) -> None:
        super().close()
        self._packed.close()


def decode_lines(stream: BinaryIO, name: str) -> Iterator[str]:
    r"""Yields the lines of UTF-8 bytes, which end at ``\n`` (or ``\r\n``) and nowhere else."""
    number = 0
    offset = 0
    try:
        for number, raw in enumerate(_raw_lines(stream), start=1):
            if len(raw) > MOST_LINE_BYTES:
                what = f"a line of more than {MOST_LINE_BYTES:,} bytes"
                fix = "give one sentence or paragraph on each line"
                raise UserError(what, where=f"{name}:{number}", fix=fix)
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as fault:
                what = f"invalid UTF-8 at byte offset {offset + fault.start}"
                fix = "convert the file to UTF-8"
                raise UserError(what, where=f"{name}:{number}", fix=fix) from fault
            if "\0" in line:
                what = f"a NUL byte at byte offset {offset + raw.index(0)}"
                fix = "this is no UTF-8 text: convert it (from UTF-16?) or remove the byte"
                raise UserError(what, where=f"{name}:{number}", fix=fix)
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            offset += len(raw)
            yield line.removesuffix("\n").removesuffix("\r")
    except GZIP_FAULTS as fault:
        raise _gzip_error(f"{name}:{number + 1}", fault) from fault


def _raw_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yields lines with their ends, of one that is too long only the beginning."""
    return iter(partial(stream.readline, MOST_LINE_BYTES + 1), b"")


def one_line(text: str) -> str:
    """Joins the lines of a text that a file format lets run over several, and trims the ends."""
    if "\n" not in text:
        return text.strip(" \t\r")
    return " ".join(part for part in (line.strip(" \t\r") for line in text.split("\n")) if part)


def _refuse_binary(start: bytes, name: str) -> None:
    for magic, kind in BINARY_MAGIC:
        if start.startswith(magic):
            fix = "give plain or gzipped text in UTF-8"
            raise UserError(f"this is {kind}", where=name, fix=fix)


def _gzip_error(where: str, fault: Exception) -> UserError:
    what = f"the gzip data is cut off or damaged ({fault})"
    return UserError(what, where=where, fix="fetch the file again")


# Putting two sides together

_END = "\n"  # stands for a file that has ended: no line contains it


def align_files(
    *paths: Path, fix: str = "the files must be aligned line by line"
) -> Iterator[tuple[str, ...]]:
    """Yields the lines of several files side by side; unequal lengths are an error."""
    return align_lines(*((str(path), read_lines(path)) for path in paths), fix=fix)


def align_lines(*streams: tuple[str, Iterator[str]], fix: str) -> Iterator[tuple[str, ...]]:
    """Yields the lines of several named streams side by side; unequal lengths are an error."""
    side_by_side = zip_longest(*(lines for _, lines in streams), fillvalue=_END)
    try:
        for number, lines in enumerate(side_by_side, start=1):
            if _END in lines:
                counts = [
                    (number - 1 if line == _END else number + sum(1 for _ in rest), name)
                    for line, (name, rest) in zip(lines, streams, strict=True)
                ]
                least, shortest = min(counts, key=itemgetter(0))
                most, longest = max(counts, key=itemgetter(0))
                what = f"has {most} lines but {shortest} has {least}"
                raise UserError(what, where=f"{longest}:{number}", fix=fix)
            yield lines
    finally:  # a fault of one file leaves the others open
        for _, rest in streams:
            if isinstance(rest, Generator):
                rest.close()


class PairRow(NamedTuple):
    """One sentence pair and the document it names, with the line it stands on."""

    line: int
    document: str
    src: str
    trg: str
    date: str = ""


def group_rows(rows: Iterable[PairRow], path: Path) -> Iterator[Document]:
    """Yields runs of rows with equal ids as documents; an id that comes back is an error."""
    name = ""
    pairs: list[SentencePair] = []
    first_lines: dict[str, int] = {}
    for row in rows:
        if pairs and row.document != name:
            yield Document(name, tuple(pairs))
            pairs = []
        if not pairs:
            name = row.document
            where = f"{path}:{row.line}"
            if not name:
                fix = "name a document for each sentence"
                raise UserError("no document id", where=where, fix=fix)
            if name in first_lines:
                began = f"it began on line {first_lines[name]}"
                what = f"document {name!r} comes back after another one ({began})"
                fix = "put the sentences of a document together"
                raise UserError(what, where=where, fix=fix)
            first_lines[name] = row.line
        pairs.append(SentencePair(row.src, row.trg, row.date, row.line))
    if pairs:
        yield Document(name, tuple(pairs))


@dataclass
class Block:
    """One side of a document.

    ``sentences`` are by the key that aligns them with the other side, each after its line.
    """

    name: str
    line: int
    sentences: dict[str, tuple[int, str]] = field(default_factory=dict)

    def append(self, line: int, text: str) -> None:
        """Adds a sentence that has no key of its own but its place."""
        self.sentences[str(len(self.sentences) + 1)] = (line, text)


def align_blocks(
    src_path: Path, trg_path: Path, src_blocks: Iterator[Block], trg_blocks: Iterator[Block]
) -> Iterator[Document]:
    """Yields documents from two sides; what exists on one side only is an error."""
    for src in src_blocks:
        trg = next(trg_blocks, None)
        if trg is None or trg.name != src.name:
            raise _lonely_document(src, src_path, trg, trg_path)
        _require_counterparts(src, src_path, trg, trg_path)
        _require_counterparts(trg, trg_path, src, src_path)
        if src.sentences:
            texts = ((text, trg.sentences[key][1]) for key, (_, text) in src.sentences.items())
            yield Document(src.name, tuple(SentencePair(*pair) for pair in texts))
    for trg in trg_blocks:
        raise _lonely_document(trg, trg_path, None, src_path)


def _require_counterparts(block: Block, path: Path, other: Block, other_path: Path) -> None:
    for key, (line, _) in block.sentences.items():
        if key not in other.sentences:
            what = f"sentence {key} of document {block.name!r} has no counterpart in {other_path}"
            fix = "align the two sides sentence by sentence"
            raise UserError(what, where=f"{path}:{line}", fix=fix)


def _lonely_document(block: Block, path: Path, other: Block | None, other_path: Path) -> UserError:
    found = f"{other_path}:{other.line} has {other.name!r}" if other else f"{other_path} has ended"
    what = f"document {block.name!r} has no counterpart: {found}"
    fix = "both sides need the same documents in the same order"
    return UserError(what, where=f"{path}:{block.line}", fix=fix)
