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
    NamedLines,
    PairRow,
    align_lines,
    decode_lines,
    group_rows,
    open_bytes,
    unpack,
)

_NO_DOCUMENT = ""


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """A sentence and its place among the lines of the input, counted from 0."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """The sentences of one document, in order; some may be empty."""

    name: str
    sentences: tuple[SourceSentence, ...]


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


def read_source_lines(source: str | Path | BinaryIO, doc: str = "") -> SourceText:
    """Reads lines to be translated from a file or a stream, plain or gzipped.

    Boundaries are those of ``doc`` (document ids or start lines) if it is given, else marker
    lines, else empty lines. An empty line is always an empty sentence, so that it keeps its place;
    where it is a boundary it belongs to the document before it. Empty lines that would leave fewer
    than two sentences to a document, on average, set off paragraphs and are no boundaries: such
    documents would have no context.
    """
    if isinstance(source, str | Path):
        name = str(source)
        with open_bytes(Path(source)) as stream:
            lines = tuple(decode_lines(stream, name))
    else:
        name = "standard input"
        packed = io.BufferedReader(io.BytesIO(source.read()))
        lines = tuple(decode_lines(unpack(packed, name), name))
    boundaries, labels = _label_lines(lines, name, doc)
    sentences: dict[str, list[SourceSentence]] = {}
    for index, (line, label) in enumerate(zip(lines, labels, strict=True)):
        if label != _NO_DOCUMENT:
            sentences.setdefault(label, []).append(SourceSentence(index, line))
    documents = tuple(SourceDocument(label, tuple(found)) for label, found in sentences.items())
    return SourceText(lines, documents, boundaries)


def _label_lines(lines: Sequence[str], name: str, doc: str) -> tuple[str, Iterable[str]]:
    """Returns the convention of the boundaries and the document that each line belongs to."""
    if not lines:
        return "none", []
    if doc:
        return _label_by_doc_file(lines, name, Path(doc))
    marker = next((marker for line in lines if (marker := marker_of(line))), "")
    if marker:
        return "marker-lines", _label_by_markers(lines, marker)
    labels = list(_label_by_empty_lines(lines))
    blocks = int(labels[-1])
    if blocks > 1 and sum(not is_empty(line) for line in lines) >= 2 * blocks:
        return "empty-lines", labels
    return "paragraphs" if blocks > 1 else "none", ["1"] * len(lines)


def _label_by_doc_file(lines: Sequence[str], name: str, doc: Path) -> tuple[str, list[str]]:
    if lists_start_lines(doc, lines):
        boundaries = "start-lines"
        rows = number_rows(((line, "") for line in lines), doc)
    else:
        boundaries = "document-ids"
        streams = (NamedLines(name, iter(lines)), NamedLines.of(doc))
        aligned = align_lines(*streams, fix=DOC_FILE_FIX)
        rows = (
            PairRow(number, label.strip(), "", "") for number, (_, label) in enumerate(aligned, 1)
        )
    return boundaries, [document.name for document in group_rows(rows, doc) for _ in document]


def _label_by_markers(lines: Iterable[str], marker: str) -> Iterator[str]:
    number = 1
    has_text = False  # a marker before the first sentence, or after another, ends no document
    for line in lines:
        if marker_of(line) == marker:
            number += has_text
            has_text = False
            yield _NO_DOCUMENT
        else:
            has_text = True
            yield str(number)


def _label_by_empty_lines(lines: Iterable[str]) -> Iterator[str]:
    number = 1
    has_text = ended = False
    for line in lines:
        if is_empty(line):
            ended = has_text
        elif ended:
            number += 1
            ended = False
        has_text = has_text or not is_empty(line)
        yield str(number)
