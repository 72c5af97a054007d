"""Reader of translation memories (TMX) whose units name the document they come from."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers.inputs import Inputs, choose_sides, find_language, same_language
from wholedoc.corpus.readers.lines import PairRow, group_rows, one_line
from wholedoc.corpus.readers.markup import Characters, Closing, Opening, Token, read_xml
from wholedoc.errors import UserError

# Types of <prop> and attributes of <tu> that name a document, without the x- of private types.
DOCUMENT_PROPERTIES = frozenset(
    {"document", "doc", "docid", "doc-id", "document-id", "document-name", "context-doc", "origin",
     "filename", "file-name", "file", "sourcefile", "source-file"}
)  # fmt: skip
# Elements inside a segment that hold codes of the original format and no words.
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


@dataclass
class _Unit:
    """One translation unit: a segment per language."""

    line: int
    document: str = ""
    src_language: str = ""
    segments: dict[str, str] = field(default_factory=dict)


def is_tmx(inputs: Inputs) -> bool:
    """Tells whether the file is a translation memory."""
    return inputs.one_file and inputs.beginnings[0].root == "tmx"


def names_documents(inputs: Inputs) -> bool:
    """Tells whether the file is a translation memory whose units name documents."""
    if not is_tmx(inputs):
        return False
    unit = next(_units(inputs.src), None)
    if unit is None:
        raise UserError("no translation unit", where=str(inputs.src), fix="export the memory again")
    return unit.document != ""


def read_tmx(inputs: Inputs) -> Iterator[Document]:
    """Yields runs of units that name the same document; one document if they name none."""
    return group_rows(_rows(inputs), inputs.src)


def _rows(inputs: Inputs) -> Iterator[PairRow]:
    path = inputs.src
    src_language, trg_language = inputs.src_language, inputs.trg_language
    languages: set[str] = set()
    named: bool | None = None
    for unit in _units(path):
        named = bool(unit.document) if named is None else named
        if bool(unit.document) != named:
            what = f"this unit names {'no' if named else 'a'} document, unlike those before it"
            fix = "name the document of every unit or of none"
            raise UserError(what, where=f"{path}:{unit.line}", fix=fix)
        languages.update(unit.segments)
        if not src_language and not same_language(unit.src_language, trg_language):
            src_language = unit.src_language
        src, trg = choose_sides(list(unit.segments), src_language, trg_language)
        if len(unit.segments) > 2 and not (src_language and trg_language):
            what = f"units in {len(unit.segments)} languages ({', '.join(unit.segments)})"
            fix = "say which is the source language and which the target language"
            raise UserError(what, where=f"{path}:{unit.line}", fix=fix)
        if src and trg:  # from here on, a unit without one of the two lacks a translation
            src_language, trg_language = src_language or src, trg_language or trg
        texts = {"": "", **unit.segments}
        yield PairRow(unit.line, unit.document or "1", texts[src], texts[trg])
    for wanted in (src_language, trg_language):
        if not find_language(sorted(languages), wanted):
            listed = ", ".join(sorted(languages))
            missing = f"no unit in the language {wanted!r}, only {listed}"
            what = missing if wanted else f"only one language, {listed}"
            raise UserError(what, where=str(path), fix="name the languages as the file does")


def _units(path: Path) -> Iterator[_Unit]:
    """Puts the tokens of a file together into translation units."""
    file_language = language = property_type = ""
    unit = _Unit(0)
    texts: list[str] = []
    for token in _without_codes(read_xml(path)):
        match token:
            case Opening("header", attributes):
                file_language = attributes.get("srclang", "").replace("*all*", "")
            case Opening("tu", attributes, line):
                named = (value for key, value in attributes.items() if _names_document(key))
                unit = _Unit(line, next(named, ""), attributes.get("srclang", file_language))
            case Opening("tuv", attributes):
                language = attributes.get("xml:lang") or attributes.get("lang", "")
            case Opening("seg" | "prop", attributes):
                texts, property_type = [], attributes.get("type", "")
            case Characters(text):
                texts.append(text)
            case Closing("prop") if _names_document(property_type):
                unit.document = unit.document or one_line("".join(texts))
            case Closing("seg"):
                unit.segments.setdefault(language, one_line("".join(texts)))
            case Closing("tu"):
                yield unit


def _without_codes(tokens: Iterator[Token]) -> Iterator[Token]:
    depth = 0  # inside elements of formatting codes
    for token in tokens:
        if isinstance(token, Characters):
            if not depth:
                yield token
        elif token.name in _CODES:
            depth += 1 if isinstance(token, Opening) else -1
        else:
            yield token


def _names_document(name: str) -> bool:
    return name.lower().removeprefix("x-").replace("_", "-") in DOCUMENT_PROPERTIES
