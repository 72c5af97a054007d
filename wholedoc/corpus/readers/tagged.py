"""Readers of line-aligned talks and debates, whose documents begin at lines of tags."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers.alignment import Block, Side, align_blocks
from wholedoc.corpus.readers.inputs import Beginning, Inputs
from wholedoc.corpus.readers.lines import read_lines

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
        for beginning in (inputs.src_beginning, inputs.trg_beginning)
    )


def is_europarl(inputs: Inputs) -> bool:
    """Tells whether both files begin with the tags of a debate."""
    return not inputs.one_file and all(
        is_debate(beginning) for beginning in (inputs.src_beginning, inputs.trg_beginning)
    )


def is_debate(beginning: Beginning) -> bool:
    """Tells whether a file begins with the tags of a debate: a chapter, a speaker, a paragraph."""
    tags = _EUROPARL_LINE.match(beginning.first_line)
    return bool(tags) and (beginning.has_tag("chapter") or beginning.has_tag("speaker"))


def read_ted(inputs: Inputs) -> Iterator[Document]:
    """Yields the talks of IWSLT training files; lines that describe a talk are not sentences."""
    return _align(inputs.src, inputs.trg, _talks)


def read_europarl(inputs: Inputs) -> Iterator[Document]:
    """Yields the speakers' turns of Europarl files."""
    return read_debate(inputs.src, inputs.trg)


def read_debate(src: Path, trg: Path) -> Iterator[Document]:
    """Yields the speakers' turns of one debate; a chapter's heading is a document of its own."""
    return _align(src, trg, _turns)


def _align(src: Path, trg: Path, cut: Callable[[Path], Iterator[Block]]) -> Iterator[Document]:
    return align_blocks(Side(src, cut(src)), Side(trg, cut(trg)))


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
