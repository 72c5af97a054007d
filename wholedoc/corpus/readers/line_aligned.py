"""Readers of line-aligned plain text: two files, or two folders of files.

Boundaries stand in a third file, on marker lines, at lines of tags (TED talks, Europarl debates),
at the ends of files, or nowhere.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import cast

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers.inputs import Beginning, Inputs, marker_of
from wholedoc.corpus.readers.lines import (
    Block,
    PairRow,
    align_blocks,
    align_files,
    group_rows,
    read_head,
    read_lines,
)
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
        and not any(beginning.is_markup for beginning in inputs.beginnings)
        and not all(beginning.is_rows for beginning in inputs.beginnings)
    )


def read_whole(inputs: Inputs) -> Iterator[Document]:
    """Yields one document: the files have no boundaries."""
    yield Document("1", _pairs(inputs.src, inputs.trg))


def _pairs(src: Path, trg: Path) -> tuple[SentencePair, ...]:
    return tuple(SentencePair(line, other) for line, other in align_files(src, trg))


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
    numbers = (int(line) if _WHOLE_NUMBER.fullmatch(line) else -1 for line in read_lines(doc))
    first = last = next(numbers)
    if first not in (0, 1):
        return False
    count = 1
    for number in numbers:
        if number <= last:
            return False
        last = number
        count += 1
    lines = sum(1 for _ in sentences)
    if 1 < count < lines and last - first == count - 1:
        raise UserError(
            f"{count} numbers without a gap for {lines} lines: either document ids of which the "
            "last are lost, or start lines of which only the last begins a longer document",
            where=str(doc),
            fix="write one document id for each line",
        )
    return count < lines


def read_document_ids(inputs: Inputs) -> Iterator[Document]:
    """Yields runs of sentences that have the same document id."""
    doc = cast(Path, inputs.doc)
    lines = align_files(inputs.src, inputs.trg, doc, fix=DOC_FILE_FIX)
    rows = (PairRow(line, name.strip(), src, trg) for line, (src, trg, name) in enumerate(lines, 1))
    return group_rows(rows, doc)


def read_start_lines(inputs: Inputs) -> Iterator[Document]:
    """Yields the sentences from each start line to the next."""
    doc = cast(Path, inputs.doc)
    return group_rows(number_rows(align_files(inputs.src, inputs.trg), doc), doc)


def number_rows(pairs: Iterable[tuple[str, ...]], doc: Path) -> Iterator[PairRow]:
    """Numbers the documents of line pairs by a file of start lines, counted as its first is."""
    starts = [int(line) for line in read_lines(doc)]
    document = 0
    number = starts[0]
    for number, (src, trg) in enumerate(pairs, start=starts[0]):
        document += number in starts[document : document + 1]
        yield PairRow(number, str(document), src, trg)
    if document < len(starts):
        what = f"a document starts on line {starts[document]}, but the last line is {number}"
        fix = "check that the doc file belongs to this text"
        raise UserError(what, where=f"{doc}:{document + 1}", fix=fix)


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
    for line, (src, trg) in enumerate(align_files(src_path, trg_path), start=1):
        boundary = is_boundary(src)
        if boundary != is_boundary(trg):
            with_boundary, without = (src_path, trg_path) if boundary else (trg_path, src_path)
            kind = (src if boundary else trg).strip() or "an empty line"
            what = f"a document boundary ({kind}) that {without}:{line} does not have"
            fix = "put it on the same line of both sides, or give the boundaries as a doc file"
            raise UserError(what, where=f"{with_boundary}:{line}", fix=fix)
        if not boundary:
            pairs.append(SentencePair(src, trg))
        elif pairs:
            yield Document(str(number), tuple(pairs))
            number += 1
            pairs = []
    if pairs:
        yield Document(str(number), tuple(pairs))


def _find_marker(inputs: Inputs) -> str:
    lines = (line for pair in align_files(inputs.src, inputs.trg) for line in pair)
    return next((marker for line in lines if (marker := marker_of(line))), "")


# Talks and debates, whose documents begin at lines of tags

_TED_LINE = re.compile(
    r"\s*</?(doc|url|keywords|speaker|talkid|title|description|reviewer|translator|transcript)\b"
    r"([^>]*)>([^<]*)",
    re.IGNORECASE,
)
_EUROPARL_LINE = re.compile(r"\s*<(chapter|speaker|p)\b([^>]*)>\s*$", re.IGNORECASE)
_ID = re.compile(r"\bid\s*=\s*[\"']?([^\s\"'>]+)", re.IGNORECASE)


def is_ted(inputs: Inputs) -> bool:
    """Tells whether both files begin with the description of a talk."""
    return not inputs.one_file and all(
        _TED_LINE.match(beginning.first_line)
        and (beginning.has_tag("talkid") or beginning.has_tag("url"))
        and not beginning.has_tag("seg")
        for beginning in inputs.beginnings
    )


def is_europarl(inputs: Inputs) -> bool:
    """Tells whether both files begin with the tags of a debate."""
    return not inputs.one_file and all(_is_debate(beginning) for beginning in inputs.beginnings)


def _is_debate(beginning: Beginning) -> bool:
    tags = _EUROPARL_LINE.match(beginning.first_line)
    return bool(tags) and (beginning.has_tag("chapter") or beginning.has_tag("speaker"))


def read_ted(inputs: Inputs) -> Iterator[Document]:
    """Yields the talks of IWSLT training files; lines that describe a talk are not sentences."""
    return align_blocks(inputs.src, inputs.trg, _talks(inputs.src), _talks(inputs.trg))


def read_europarl(inputs: Inputs) -> Iterator[Document]:
    """Yields the speakers' turns of one debate, or of every debate in two folders.

    A chapter's heading is a document of its own.
    """
    for name, src, trg in _pair_files(inputs):
        for turn in align_blocks(src, trg, _turns(src), _turns(trg)):
            yield Document(f"{name}, {turn.name}" if name else turn.name, turn.pairs)


def _talks(path: Path) -> Iterator[Block]:
    """Cuts a side into talks: a talk ends where a description follows on its sentences."""
    number = 1
    talk = Block("1", 1)
    for line, text in enumerate(read_lines(path), start=1):
        tag = _TED_LINE.match(text)
        if not tag:
            talk.append(line, text)
            continue
        if talk.sentences:
            yield talk
            number += 1
            talk = Block(str(number), line)
        if tag.group(1).lower() == "talkid" and tag.group(3).strip():
            talk.name = tag.group(3).strip()
    if talk.sentences:
        yield talk


def _turns(path: Path) -> Iterator[Block]:
    """Cuts a side into turns, named by the numbers of the chapter and the speaker."""
    chapter = ""
    turn = Block("start", 1)
    for line, text in enumerate(read_lines(path), start=1):
        tag = _EUROPARL_LINE.match(text)
        if not tag:
            turn.append(line, text)
            continue
        kind = tag.group(1).lower()
        if kind == "p":
            continue
        yield turn
        number = _ID.search(tag.group(2))
        if kind == "chapter":
            chapter = number.group(1) if number else ""
            turn = Block(f"chapter {chapter}", line)
        else:
            turn = Block(f"chapter {chapter}, speaker {number.group(1) if number else ''}", line)
    yield turn


# Folders: one file per document, or one debate per file


def has_debates(inputs: Inputs) -> bool:
    """Tells whether the corpus is two folders of Europarl files."""
    return inputs.src.is_dir() and _is_debate(Beginning(read_head(_pair_files(inputs)[0][1])))


def has_folders(inputs: Inputs) -> bool:
    """Tells whether the corpus is two folders."""
    return inputs.src.is_dir()


def read_folders(inputs: Inputs) -> Iterator[Document]:
    """Yields one document per file, in the order of the file names.

    Empty lines in the same places on both sides set off paragraphs and are no sentences.
    """
    for name, src, trg in _pair_files(inputs):
        if Beginning(read_head(src)).is_markup:
            what = "markup in a folder of plain documents"
            fix = "give plain text, one sentence per line, or Europarl files only"
            raise UserError(what, where=str(src), fix=fix)
        if both_have_empty_lines(src, trg):
            paragraphs = split_documents(src, trg, is_empty)
            yield Document(name, tuple(pair for paragraph in paragraphs for pair in paragraph))
        else:
            yield Document(name, _pairs(src, trg))


def _pair_files(inputs: Inputs) -> list[tuple[str, Path, Path]]:
    """Pairs files of the same name, or of names that differ only in the language at the end.

    Two files that are no folders are a pair without a name.
    """
    if not inputs.src.is_dir():
        return [("", inputs.src, inputs.trg)]
    src_files, trg_files = _list_files(inputs.src), _list_files(inputs.trg)
    if src_files.keys() != trg_files.keys():
        src_files = _strip_language(src_files, inputs.src_language)
        trg_files = _strip_language(trg_files, inputs.trg_language)
    for name in sorted(src_files.keys() ^ trg_files.keys()):
        lonely, other = (src_files, inputs.trg) if name in src_files else (trg_files, inputs.src)
        fix = "give the two files of a document the same name, up to the language at the end"
        raise UserError(f"no file of this name in {other}", where=str(lonely[name]), fix=fix)
    return [(name, src_files[name], trg_files[name]) for name in sorted(src_files)]


def _list_files(folder: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not path.is_file():
            raise UserError("is no file", where=str(path), fix="keep only documents in the folder")
        files[path.name.removesuffix(".gz").removesuffix(".txt")] = path
    if not files:
        raise UserError("the folder is empty", where=str(folder), fix="give a folder of documents")
    return files


def _strip_language(files: dict[str, Path], language: str) -> dict[str, Path]:
    code = re.escape(language) if language else "[A-Za-z]{2,3}"
    stripped: dict[str, Path] = {}
    for name, path in files.items():
        short = re.sub(rf"[._-]{code}$", "", name)
        if short in stripped:
            what = f"cannot be told from {stripped[short].name}"
            fix = "give the two files of a document the same name"
            raise UserError(what, where=str(path), fix=fix)
        stripped[short] = path
    return stripped
