"""Readers of one file with a document, a source sentence and its translation on each line."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers.inputs import Inputs, choose_sides
from wholedoc.corpus.readers.lines import PairRow, group_rows, one_line, read_lines
from wholedoc.errors import UserError

BAR = "|||"

# The names under which columns and keys are known, in the order in which they are tried.
DOCUMENT_NAMES = ("doc", "doc_id", "docid", "document", "document_id", "documentid", "doc-id")
SRC_NAMES = ("src", "source", "source_text")
TRG_NAMES = ("trg", "tgt", "target", "target_text")
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,8})*", re.IGNORECASE)


def begins_with(pattern: str) -> Callable[[Inputs], bool]:
    """A test: whether one file holds both sides and its first line begins with ``pattern``."""

    def fits(inputs: Inputs) -> bool:
        return inputs.one_file and bool(re.match(pattern, inputs.beginnings[0].first_line))

    return fits


def _rows(
    path: Path, parse: Callable[[str], tuple[str, str, str]], skip: int = 0
) -> Iterator[PairRow]:
    """Reads the lines after the first ``skip`` with a function that splits one into its fields."""
    for number, line in enumerate(read_lines(path), start=1):
        if number <= skip or not line.strip(" "):
            continue
        try:
            yield PairRow(number, *parse(line))
        except UserError as fault:
            raise UserError(fault.what, where=f"{path}:{number}", fix=fault.fix) from fault


# docid ||| source ||| target


def read_triple_bars(inputs: Inputs) -> Iterator[Document]:
    """Yields documents from lines of three fields between triple bars."""
    return group_rows(_rows(inputs.src, _split_bars), inputs.src)


def _split_bars(line: str) -> tuple[str, str, str]:
    fields = [field.strip() for field in line.split(BAR)]
    if len(fields) != 3:
        what = f"{len(fields)} fields between triple bars, not 3"
        raise UserError(what, fix="write: docid ||| source ||| target")
    return fields[0], fields[1], fields[2]


# Tab-separated columns


def read_tsv(inputs: Inputs) -> Iterator[Document]:
    """Yields documents from tab-separated columns, named by a header or else doc, src, trg."""
    numbered = enumerate(read_lines(inputs.src), start=1)
    number, first = next((number, line) for number, line in numbered if line.strip())
    header = [name.strip().lower() for name in first.split("\t")]
    if {*DOCUMENT_NAMES, *SRC_NAMES, *TRG_NAMES}.isdisjoint(header):
        header, number = ["doc", "src", "trg"], 0
    try:
        document = _find_document(header)
        sides = _find_sides([name for name in header if name != document], inputs)
    except UserError as fault:
        raise UserError(fault.what, where=f"{inputs.src}:{number}", fix=fault.fix) from fault
    columns = [header.index(name) for name in (document, *sides)]

    def split_tabs(line: str) -> tuple[str, str, str]:
        cells = line.split("\t")
        if len(cells) != len(header):
            what = f"{len(cells)} columns, not {len(header)} ({', '.join(header)})"
            fix = "separate the columns with one tab each and keep tabs out of the text"
            raise UserError(what, fix=fix)
        document, src, trg = (cells[column] for column in columns)
        return document.strip(), src, trg

    return group_rows(_rows(inputs.src, split_tabs, skip=number), inputs.src)


# One JSON object per line


def read_jsonl(inputs: Inputs) -> Iterator[Document]:
    """Yields documents from JSON lines with a document and two sentences under usual names."""

    def parse(line: str) -> tuple[str, str, str]:
        fix = "write one JSON object per line"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise UserError(f"broken JSON ({fault})", fix=fix) from fault
        if not isinstance(entry, dict):
            raise UserError("no JSON object", fix=fix)
        document = _find_document(list(entry))
        sentences = entry.get("translation", entry)
        if not isinstance(sentences, dict):
            raise UserError("'translation' is no JSON object", fix="give a sentence per language")
        src, trg = _find_sides([key for key in sentences if key != document], inputs)
        return _text(entry, document), _text(sentences, src), _text(sentences, trg)

    return group_rows(_rows(inputs.src, parse), inputs.src)


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry[key]
    if value is None:
        return ""
    if not isinstance(value, str | int):
        raise UserError(f"{key!r} is no text", fix="give each sentence as one string")
    return one_line(str(value))


def _find_document(names: Sequence[str]) -> str:
    document = next((name for name in DOCUMENT_NAMES if name in names), "")
    if not document:
        what = f"no document among {', '.join(names) or 'nothing'}"
        fix = f"name the document {', '.join(DOCUMENT_NAMES[:3])} or {DOCUMENT_NAMES[3]}"
        raise UserError(what, fix=fix)
    return document


def _find_sides(names: Sequence[str], inputs: Inputs) -> tuple[str, str]:
    """Finds the columns or keys of the two sides, by their usual names or by their languages."""
    src = next((name for name in SRC_NAMES if name in names), "")
    trg = next((name for name in TRG_NAMES if name in names), "")
    if not src and not trg:
        codes = [name for name in names if _LANGUAGE_CODE.fullmatch(name)]
        src, trg = choose_sides(codes, inputs.src_language, inputs.trg_language)
    if not src or not trg:
        what = f"no {'target' if src else 'source'} sentence among {', '.join(names)}"
        fix = "name the sides src and trg, or by their language codes, and say which languages"
        raise UserError(what, fix=fix)
    return src, trg
