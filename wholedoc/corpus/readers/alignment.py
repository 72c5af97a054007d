"""What the readers share: putting two sides together and cutting rows into documents."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError

_END = "\n"  # stands for a file that has ended: no line contains it


class NamedLines(NamedTuple):
    """A stream of lines and what to call it in an error."""

    name: str
    lines: Iterator[str]

    @classmethod
    def of(cls, path: Path) -> "NamedLines":
        """Names the lines of a file by its path."""
        return cls(str(path), read_lines(path))


def align_lines(
    *streams: NamedLines, fix: str = "the files must be aligned line by line"
) -> Iterator[tuple[str, ...]]:
    """Yields the lines of several streams side by side; unequal lengths are an error."""
    side_by_side = zip_longest(*(stream.lines for stream in streams), fillvalue=_END)
    try:
        for number, lines in enumerate(side_by_side, start=1):
            if _END in lines:
                raise _unequal_lengths(streams, lines, number, fix)
            yield lines
    finally:  # a fault of one file leaves the others open
        for stream in streams:
            if isinstance(stream.lines, Generator):
                stream.lines.close()


def _unequal_lengths(
    streams: Sequence[NamedLines], lines: tuple[str, ...], number: int, fix: str
) -> UserError:
    counts = [
        number - 1 if line == _END else number + sum(1 for _ in stream.lines)
        for stream, line in zip(streams, lines, strict=True)
    ]
    longest = counts.index(max(counts))
    shortest = counts.index(min(counts))
    return UserError(
        f"has {counts[longest]} lines but {streams[shortest].name} has {counts[shortest]}",
        where=f"{streams[longest].name}:{number}",
        fix=fix,
    )


class Row(NamedTuple):
    """One sentence pair and the document it names, with the line it stands on."""

    line: int
    document: str
    src: str
    trg: str


def group_rows(rows: Iterable[Row], path: Path) -> Iterator[Document]:
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
            _check_new(row, first_lines, path)
            first_lines[name] = row.line
        pairs.append(SentencePair(row.src, row.trg))
    if pairs:
        yield Document(name, tuple(pairs))


def _check_new(row: Row, first_lines: dict[str, int], path: Path) -> None:
    if not row.document:
        raise UserError(
            "no document id", where=f"{path}:{row.line}", fix="name a document for each sentence"
        )
    if row.document in first_lines:
        raise UserError(
            f"document {row.document!r} comes back after another one "
            f"(it began on line {first_lines[row.document]})",
            where=f"{path}:{row.line}",
            fix="put the sentences of a document together",
        )


class Sentence(NamedTuple):
    """A sentence of one side and the line it starts on."""

    line: int
    text: str


@dataclass
class Block:
    """One side of a document: its sentences by the key that aligns them with the other side."""

    name: str
    line: int
    sentences: dict[str, Sentence] = field(default_factory=dict)

    def append(self, line: int, text: str) -> None:
        """Adds a sentence that has no key of its own but its place."""
        self.sentences[str(len(self.sentences) + 1)] = Sentence(line, text)


@dataclass(frozen=True)
class Side:
    """The blocks of one side and the file they come from."""

    path: Path
    blocks: Iterator[Block]


def align_blocks(src: Side, trg: Side) -> Iterator[Document]:
    """Yields documents from two sides; what exists on one side only is an error."""
    for src_block in src.blocks:
        trg_block = next(trg.blocks, None)
        if trg_block is None or trg_block.name != src_block.name:
            raise _lonely_document(src_block, src.path, trg_block, trg.path)
        _require_counterparts(src_block, src.path, trg_block, trg.path)
        _require_counterparts(trg_block, trg.path, src_block, src.path)
        pairs = tuple(
            SentencePair(sentence.text, trg_block.sentences[key].text)
            for key, sentence in src_block.sentences.items()
        )
        if pairs:
            yield Document(src_block.name, pairs)
    for trg_block in trg.blocks:
        raise _lonely_document(trg_block, trg.path, None, src.path)


def _require_counterparts(block: Block, path: Path, other: Block, other_path: Path) -> None:
    for key, sentence in block.sentences.items():
        if key not in other.sentences:
            raise UserError(
                f"sentence {key} of document {block.name!r} has no counterpart in {other_path}",
                where=f"{path}:{sentence.line}",
                fix="align the two sides sentence by sentence",
            )


def _lonely_document(block: Block, path: Path, other: Block | None, other_path: Path) -> UserError:
    found = f"{other_path}:{other.line} has {other.name!r}" if other else f"{other_path} has ended"
    return UserError(
        f"document {block.name!r} has no counterpart: {found}",
        where=f"{path}:{block.line}",
        fix="both sides need the same documents in the same order",
    )
