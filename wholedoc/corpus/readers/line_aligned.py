"""Readers of two line-aligned files: boundaries in a third file, on marker lines, or nowhere."""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers.alignment import NamedLines, Row, align_lines, group_rows
from wholedoc.corpus.readers.inputs import Inputs, marker_of
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError

_WHOLE_NUMBER = re.compile(r"\s*[0-9]{1,18}\s*")
DOC_FILE_FIX = (
    "a doc file holds one document id per line, or the rising numbers of the lines "
    "on which documents start, the first being 0 or 1; all files are aligned line by line"
)


def is_line_aligned(inputs: Inputs) -> bool:
    """Tells whether the corpus is two different files of plain lines."""
    return (
        not inputs.one_file
        and not inputs.src.is_dir()
        and not inputs.src_beginning.is_markup
        and not inputs.trg_beginning.is_markup
        and not (inputs.src_beginning.is_rows and inputs.trg_beginning.is_rows)
    )


def read_whole(inputs: Inputs) -> Iterator[Document]:
    """Yields one document: the files have no boundaries."""
    yield Document("1", tuple(SentencePair(src, trg) for src, trg in _pairs(inputs)))


def _pairs(inputs: Inputs) -> Iterator[tuple[str, ...]]:
    return align_lines(NamedLines.of(inputs.src), NamedLines.of(inputs.trg))


# Boundaries in a file of their own


def has_document_ids(inputs: Inputs) -> bool:
    """Tells whether a file of document ids is given: whatever is not a file of start lines."""
    return inputs.doc is not None and not has_start_lines(inputs)


def has_start_lines(inputs: Inputs) -> bool:
    """Tells whether a file is given that lists the lines on which documents start."""
    return inputs.doc is not None and lists_start_lines(inputs.doc, read_lines(inputs.src))


def lists_start_lines(doc: Path, sentences: Iterable[str]) -> bool:
    """Tells start lines from document ids.

    Start lines are whole numbers that rise from 0 or 1 and are fewer than the sentences. As many
    rising numbers as sentences are ids: every sentence is a document in either reading. Fewer,
    without a gap, may be start lines or ids of which the last are lost: raises ``UserError``.
    """
    previous = -1
    count = 0
    gaps = False
    for line in read_lines(doc):
        if not _WHOLE_NUMBER.fullmatch(line) or int(line) <= previous:
            return False
        gaps = gaps or (count > 0 and int(line) > previous + 1)
        previous = int(line)
        if count == 0 and previous > 1:
            return False
        count += 1
    lines = sum(1 for _ in sentences)
    if 1 < count < lines and not gaps:
        raise UserError(
            f"{count} numbers without a gap for {lines} lines: either document ids of which the "
            "last are lost, or start lines of which only the last begins a longer document",
            where=str(doc),
            fix="write one document id for each line",
        )
    return count < lines


def read_document_ids(inputs: Inputs) -> Iterator[Document]:
    """Yields runs of sentences that have the same document id."""
    doc = _doc_file(inputs)
    files = (NamedLines.of(path) for path in (inputs.src, inputs.trg, doc))
    lines = align_lines(*files, fix=DOC_FILE_FIX)
    rows = (Row(line, name.strip(), src, trg) for line, (src, trg, name) in enumerate(lines, 1))
    return group_rows(rows, doc)


def read_start_lines(inputs: Inputs) -> Iterator[Document]:
    """Yields the sentences from each start line to the next."""
    doc = _doc_file(inputs)
    return group_rows(number_rows(_pairs(inputs), doc), doc)


def number_rows(pairs: Iterable[tuple[str, ...]], doc: Path) -> Iterator[Row]:
    """Numbers the documents of line pairs by a file of start lines, counted as its first is."""
    starts = enumerate((int(line) for line in read_lines(doc)), start=1)
    _, base = next(starts)
    document = 1
    upcoming = next(starts, None)
    number = base
    for number, (src, trg) in enumerate(pairs, start=base):
        if upcoming and upcoming[1] == number:
            document += 1
            upcoming = next(starts, None)
        yield Row(number, str(document), src, trg)
    if upcoming:
        raise UserError(
            f"a document starts on line {upcoming[1]}, but the last line is {number}",
            where=f"{doc}:{upcoming[0]}",
            fix="check that the doc file belongs to this text",
        )


def _doc_file(inputs: Inputs) -> Path:
    if inputs.doc is None:
        raise ValueError("this reader is for corpora with a doc file")
    return inputs.doc


# Boundaries on lines of their own


def has_marker_lines(inputs: Inputs) -> bool:
    """Tells whether a line on either side is a boundary marker."""
    return is_line_aligned(inputs) and _find_marker(inputs) != ""


def has_empty_lines(inputs: Inputs) -> bool:
    """Tells whether both sides have empty lines; on one side only they are missing translations."""
    return is_line_aligned(inputs) and both_have_empty_lines(inputs.src, inputs.trg)


def both_have_empty_lines(src: Path, trg: Path) -> bool:
    """Tells whether each of two files has an empty line somewhere."""
    return all(any(is_empty(line) for line in read_lines(path)) for path in (src, trg))


def read_marker_lines(inputs: Inputs) -> Iterator[Document]:
    """Yields the sentences between marker lines; the marker is the first kind that occurs."""
    marker = _find_marker(inputs)
    return split_documents(inputs.src, inputs.trg, lambda line: marker_of(line) == marker)


def read_empty_lines(inputs: Inputs) -> Iterator[Document]:
    """Yields the sentences between empty lines."""
    return split_documents(inputs.src, inputs.trg, is_empty)


def is_empty(line: str) -> bool:
    """Tells whether a line has nothing but white space on it."""
    return not line or line.isspace()


def split_documents(
    src_path: Path, trg_path: Path, is_boundary: Callable[[str], bool]
) -> Iterator[Document]:
    """Yields the sentences between boundary lines, which must be the same on both sides.

    Boundaries may stand before, between or after documents: no empty document comes of it.
    """
    number = 1
    pairs: list[SentencePair] = []
    lines = align_lines(NamedLines.of(src_path), NamedLines.of(trg_path))
    for line, (src, trg) in enumerate(lines, start=1):
        boundary = is_boundary(src)
        if boundary != is_boundary(trg):
            with_boundary, without = (src_path, trg_path) if boundary else (trg_path, src_path)
            kind = (src if boundary else trg).strip() or "an empty line"
            raise UserError(
                f"a document boundary ({kind}) that {without}:{line} does not have",
                where=f"{with_boundary}:{line}",
                fix="put it on the same line of both sides, or give the boundaries as a doc file",
            )
        if not boundary:
            pairs.append(SentencePair(src, trg))
        elif pairs:
            yield Document(str(number), tuple(pairs))
            number += 1
            pairs = []
    if pairs:
        yield Document(str(number), tuple(pairs))


def _find_marker(inputs: Inputs) -> str:
    for src, trg in _pairs(inputs):
        if marker := marker_of(src) or marker_of(trg):
            return marker
    return ""
