"""Reader of translation memories (TMX) whose units name the document they come from."""

import re
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from xml.parsers import expat

from wholedoc.corpus.documents import GROUP_SENTENCES, Document, SentencePair, primary_language
from wholedoc.corpus.readers.inputs import Inputs, choose_sides, find_language, same_language
from wholedoc.corpus.readers.lines import PairRow, group_rows, one_line
from wholedoc.corpus.readers.markup import collect, make_parser
from wholedoc.errors import UserError

# Types of <prop> and attributes of <tu> that name a document, without the x- of private types.
DOCUMENT_PROPERTIES = frozenset(
    {"document", "doc", "docid", "doc-id", "document-id", "document-name", "context-doc", "origin",
     "filename", "file-name", "file", "sourcefile", "source-file"}
)  # fmt: skip
# Elements inside a segment that hold codes of the original format and no words.
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})


# 20260118T101500Z, as TMX writes dates, and ISO 8601.
_DATE = re.compile(r"\s*(\d{4})-?(\d\d)-?(\d\d)(?:[T ](\d\d):?(\d\d)(?::?(\d\d)(?:\.\d+)?)?(Z?))?")


class _Unit:
    """One translation unit: a segment per language, with the dates that stand at it."""

    __slots__ = ("dates", "document", "line", "segments", "src_language")

    def __init__(self, line: int, document: str, src_language: str, date: str) -> None:
        self.line = line
        self.document = document
        self.src_language = src_language
        self.segments: dict[str, list[str]] = {}
        """The texts of each language: one, or several translations."""
        self.dates = {"": date}


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


def read_pieces(inputs: Inputs) -> Iterator[Document]:
    """Yields documents in pieces of bounded size, for which the order of units is no matter.

    A memory is often sorted by date or by text, so that documents come back after others, and
    some of its units may name none: these belong to document 1.
    """
    name = ""
    pairs: list[SentencePair] = []
    for row in _rows(inputs, any_order=True):
        if pairs and (row.document != name or len(pairs) >= GROUP_SENTENCES):
            yield Document(name, tuple(pairs))
            pairs = []
        name = row.document
        pairs.append(SentencePair(row.src, row.trg, row.date, row.line))
    if pairs:
        yield Document(name, tuple(pairs))


def find_sides(inputs: Inputs) -> tuple[str, str]:
    """Returns the languages of the two sides, as the first unit that has both names them."""
    src_language, trg_language = inputs.src_language, inputs.trg_language
    for unit in _units(inputs.src):
        if not src_language and not same_language(unit.src_language, trg_language):
            src_language = unit.src_language
        src, trg = choose_sides(list(unit.segments), src_language, trg_language)
        if src and trg:
            return src, trg
    return src_language, trg_language


def _rows(inputs: Inputs, *, any_order: bool = False) -> Iterator[PairRow]:
    path = inputs.src
    src_language, trg_language = inputs.src_language, inputs.trg_language
    languages: set[str] = set()
    named: bool | None = None
    for unit in _units(path):
        named = bool(unit.document) if named is None else named
        if bool(unit.document) != named and not any_order:
            what = f"this unit names {'no' if named else 'a'} document, unlike those before it"
            fix = "name the document of every unit or of none"
            raise UserError(what, where=f"{path}:{unit.line}", fix=fix)
        languages.update(unit.segments)
        if not src_language and not same_language(unit.src_language, trg_language):
            src_language = primary_language(unit.src_language)
        src, trg = choose_sides(list(unit.segments), src_language, trg_language)
        if len(unit.segments) > 2 and not (src_language and trg_language):
            what = f"units in {len(unit.segments)} languages ({', '.join(unit.segments)})"
            fix = "say which is the source language and which the target language"
            raise UserError(what, where=f"{path}:{unit.line}", fix=fix)
        if src and trg:  # from here on, a unit without one of the two lacks a translation
            src_language = src_language or primary_language(src)
            trg_language = trg_language or primary_language(trg)
        date = max(unit.dates[""], unit.dates.get(trg, ""))
        for src_text in unit.segments.get(src, [""]):
            for trg_text in unit.segments.get(trg, [""]):
                yield PairRow(unit.line, unit.document or "1", src_text, trg_text, date)
    for wanted in (src_language, trg_language):
        if not find_language(sorted(languages), wanted):
            listed = ", ".join(sorted(languages))
            missing = f"no unit in the language {wanted!r}, only {listed}"
            what = missing if wanted else f"only one language, {listed}"
            raise UserError(what, where=str(path), fix="name the languages as the file does")


def _units(path: Path) -> Iterator[_Unit]:
    """Yields the translation units of a file."""
    units: deque[_Unit] = deque()
    parser = make_parser(path)
    _UnitHandlers(parser, units)
    return collect(parser, path, units)


class _UnitHandlers:
    """What a parser calls at each element: puts translation units together.

    Memories are large, so the text between segments and inside codes is never looked at.
    """

    def __init__(self, parser: expat.XMLParserType, units: deque[_Unit]) -> None:
        self.parser = parser
        self.units = units
        self.file_language = self.language = self.property_type = ""
        self.unit = _Unit(0, "", "", "")
        self.texts: list[str] = []
        self.depth = 0  # inside elements of formatting codes
        parser.StartElementHandler = self.open
        parser.EndElementHandler = self.close

    def open(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        name = name.lower()
        if name == "seg":
            self._listen()
        elif name == "tuv":
            given = _lowered(attributes)
            self.language = given.get("xml:lang") or given.get("lang", "")
            self.unit.dates.setdefault(self.language, _newest_date(given))
        elif name == "prop":
            self.property_type = _lowered(attributes).get("type", "")
            self._listen()
        elif name == "tu":
            given = _lowered(attributes)
            document = next((value for key, value in given.items() if _names_document(key)), "")
            language = given.get("srclang", self.file_language).replace("*all*", "")
            line = self.parser.CurrentLineNumber
            self.unit = _Unit(line, document, language, _newest_date(given))
        elif name in _CODES:
            if name == "ph" and attributes.get("type") == "lb":
                self.texts.append(" ")
            self.depth += 1
            self.parser.CharacterDataHandler = None
        elif name == "header":
            self.file_language = _lowered(attributes).get("srclang", "").replace("*all*", "")

    def close(self, name: str) -> None:
        """End an element."""
        name = name.lower()
        if name == "seg":
            self.parser.CharacterDataHandler = None
            texts = self.unit.segments.setdefault(self.language, [])
            if (text := one_line("".join(self.texts))) not in texts:
                texts.append(text)
        elif name == "tu":
            self.units.append(self.unit)
        elif name == "prop":
            self.parser.CharacterDataHandler = None
            if _names_document(self.property_type):
                self.unit.document = self.unit.document or one_line("".join(self.texts))
        elif name in _CODES:
            self.depth -= 1
            if not self.depth:
                self.parser.CharacterDataHandler = self.texts.append

    def _listen(self) -> None:
        self.texts = []
        if not self.depth:
            self.parser.CharacterDataHandler = self.texts.append


def _lowered(attributes: dict[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in attributes.items()}


def _newest_date(attributes: dict[str, str]) -> str:
    """Returns when a unit or segment was made or last changed, in ISO 8601."""
    return iso_date(attributes.get("changedate") or attributes.get("creationdate", ""))


@lru_cache(maxsize=1024)
def iso_date(text: str) -> str:
    """Writes a date of TMX or ISO 8601 as ``2026-01-18T10:15:00Z``; empty for anything else."""
    match = _DATE.match(text)
    if not match:
        return ""
    year, month, day, hours, minutes, seconds, zone = match.groups()
    date = f"{year}-{month}-{day}"
    return date if hours is None else f"{date}T{hours}:{minutes}:{seconds or '00'}{zone}"


@lru_cache(maxsize=1024)
def _names_document(name: str) -> bool:
    return name.lower().removeprefix("x-").replace("_", "-") in DOCUMENT_PROPERTIES
