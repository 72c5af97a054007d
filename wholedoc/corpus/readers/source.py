"""Text to be translated: every line of the input, and the documents its lines belong to."""

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wholedoc.corpus.readers.inputs import marker_of
from wholedoc.corpus.readers.line_aligned import (
    DOC_FILE_FIX,
    is_empty,
    lists_start_lines,
    number_rows,
)
from wholedoc.corpus.readers.lines import (
    PairRow,
    align_lines,
    decode_lines,
    group_rows,
    open_bytes,
    read_lines,
    unpack,
)


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """The sentences of one document, in order; some may be empty."""

    name: str
    sentences: tuple[tuple[int, str], ...]
    """Each after its index among the lines of the input."""
    before: str = ""
    """The sentence before the first one, where this is a part of a document."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """All lines of an input and the documents among them.

    A line that belongs to no document is a marker, which a writer copies as it is.
    """

    lines: tuple[str, ...]
    documents: tuple[SourceDocument, ...]
    boundaries: str
    """The convention of the boundaries; ``paragraphs``: empty lines that are no boundaries."""

    @property
    def summary(self) -> str:
        """How many documents were found, and by which boundaries."""
        count = f"{len(self.documents):,} document{'s' * (len(self.documents) != 1)}"
        if self.boundaries == "none":
            return f"{count}, no boundaries found"
        if self.boundaries == "paragraphs":
            return f"{count}; its empty lines are taken to set off paragraphs"
        return f"{count}, by {self.boundaries.replace('-', ' ')}"


def read_source_lines(
    source: str | Path | BinaryIO, doc: str = "", name: str = "standard input"
) -> SourceText:
    """Reads lines to be translated from a file or a stream of this name, plain or gzipped.

    Boundaries are those of ``doc`` (document ids or start lines) if it is given, else marker
    lines, else empty lines. An empty line is always an empty sentence, so that it keeps its place;
    where it is a boundary it belongs to the document before it. Empty lines that would leave fewer
    than two sentences to a document, on average, set off paragraphs and are no boundaries: such
    documents would have no context.
    """
    if isinstance(source, str | Path):
        name, stream = str(source), open_bytes(Path(source))
    else:
        stream = unpack(io.BufferedReader(io.BytesIO(source.read())), name)
    with stream:
        lines = tuple(decode_lines(stream, name))
    boundaries, labels = _label_lines(lines, name, doc)
    sentences: dict[str, list[tuple[int, str]]] = {}
    for index, (line, label) in enumerate(zip(lines, labels, strict=True)):
        if label:
            sentences.setdefault(label, []).append((index, line))
    documents = tuple(SourceDocument(label, tuple(found)) for label, found in sentences.items())
    return SourceText(lines, documents, boundaries)


def _label_lines(lines: Sequence[str], name: str, doc: str) -> tuple[str, Iterable[str]]:
    """Returns the convention of the boundaries and the document of each line; empty for none."""
    if not lines:
        return "none", []
    if doc:
        return _label_by_doc_file(lines, name, Path(doc))
    marker = next((marker for line in lines if (marker := marker_of(line))), "")
    if marker:
        is_marker = [marker_of(line) == marker for line in lines]
        numbers = zip(is_marker, _number_documents(is_marker), strict=True)
        return "marker-lines", ["" if skipped else label for skipped, label in numbers]
    empty = [is_empty(line) for line in lines]
    labels = list(_number_documents(empty))
    blocks = int(labels[-1])
    if blocks > 1 and empty.count(False) >= 2 * blocks:
        return "empty-lines", labels
    return "paragraphs" if blocks > 1 else "none", ["1"] * len(lines)


def _label_by_doc_file(lines: Sequence[str], name: str, doc: Path) -> tuple[str, list[str]]:
    if lists_start_lines(doc, lines):
        boundaries = "start-lines"
        rows = number_rows(((line, "") for line in lines), doc)
    else:
        boundaries = "document-ids"
        ids = (str(doc), read_lines(doc))
        aligned = align_lines((name, iter(lines)), ids, fix=DOC_FILE_FIX)
        rows = (
            PairRow(number, label.strip(), "", "") for number, (_, label) in enumerate(aligned, 1)
        )
    return boundaries, [document.name for document in group_rows(rows, doc) for _ in document]


def _number_documents(boundaries: Iterable[bool]) -> Iterator[str]:
    """Numbers documents, given which lines are boundaries; these belong to the one before."""
    number = 1
    has_text = ended = False  # a boundary before the first sentence ends no document
    for is_boundary in boundaries:
        if is_boundary:
            ended = has_text
        else:
            number += ended
            has_text, ended = True, False
        yield str(number)
