"""Readers of two folders with one file per document, or one debate per file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers.alignment import NamedLines, align_lines
from wholedoc.corpus.readers.inputs import Beginning, Inputs
from wholedoc.corpus.readers.line_aligned import both_have_empty_lines, is_empty, split_documents
from wholedoc.corpus.readers.lines import read_head
from wholedoc.corpus.readers.tagged import is_debate, read_debate
from wholedoc.errors import UserError


class _FilePair(NamedTuple):
    name: str
    src: Path
    trg: Path


def has_debates(inputs: Inputs) -> bool:
    """Tells whether the corpus is two folders of Europarl files."""
    if not inputs.src.is_dir():
        return False
    return is_debate(Beginning(read_head(_pair_files(inputs)[0].src)))


def read_debates(inputs: Inputs) -> Iterator[Document]:
    """Yields the speakers' turns of every debate, in the order of the file names."""
    for pair in _pair_files(inputs):
        for document in read_debate(pair.src, pair.trg):
            yield Document(f"{pair.name}, {document.name}", document.pairs)


def has_folders(inputs: Inputs) -> bool:
    """Tells whether the corpus is two folders."""
    return inputs.src.is_dir()


def read_folders(inputs: Inputs) -> Iterator[Document]:
    """Yields one document per file, in the order of the file names.

    Empty lines in the same places on both sides set off paragraphs and are no sentences.
    """
    for pair in _pair_files(inputs):
        if Beginning(read_head(pair.src)).is_markup:
            raise UserError(
                "markup in a folder of plain documents",
                where=str(pair.src),
                fix="give plain text, one sentence per line, or Europarl files only",
            )
        yield Document(pair.name, _read_pairs(pair.src, pair.trg))


def _read_pairs(src: Path, trg: Path) -> tuple[SentencePair, ...]:
    if both_have_empty_lines(src, trg):
        paragraphs = split_documents(src, trg, is_empty)
        return tuple(pair for paragraph in paragraphs for pair in paragraph)
    lines = align_lines(NamedLines.of(src), NamedLines.of(trg))
    return tuple(SentencePair(*sides) for sides in lines)


def _pair_files(inputs: Inputs) -> list[_FilePair]:
    """Pairs files of the same name, or of names that differ only in the language at the end."""
    src_files, trg_files = _list_files(inputs.src), _list_files(inputs.trg)
    if src_files.keys() != trg_files.keys():
        src_files = _strip_language(src_files, inputs.src_language)
        trg_files = _strip_language(trg_files, inputs.trg_language)
    for name in sorted(src_files.keys() ^ trg_files.keys()):
        lonely, other = (src_files, inputs.trg) if name in src_files else (trg_files, inputs.src)
        raise UserError(
            f"no file of this name in {other}",
            where=str(lonely[name]),
            fix="give the two files of a document the same name, up to the language at the end",
        )
    return [_FilePair(name, src_files[name], trg_files[name]) for name in sorted(src_files)]


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
            raise UserError(
                f"cannot be told from {stripped[short].name}",
                where=str(path),
                fix="give the two files of a document the same name",
            )
        stripped[short] = path
    return stripped
