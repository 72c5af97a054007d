"""Markup: XML and SGML as streams of tokens, and the evaluation sets written in them.

Neither tokeniser builds a tree, so that a file may be larger than the memory, and neither follows
a reference to another file or defines an entity, so that a file may come from anyone.
"""

import html
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers.inputs import Beginning, Inputs, same_language
from wholedoc.corpus.readers.lines import (
    Block,
    PlacedSentence,
    Side,
    align_blocks,
    one_line,
    read_chunks,
    read_head,
    read_lines,
)
from wholedoc.errors import UserError


class Opening(NamedTuple):
    """A start tag; names are lower-cased."""

    name: str
    attributes: Mapping[str, str]
    line: int


class Closing(NamedTuple):
    """An end tag; names are lower-cased."""

    name: str
    line: int


class Characters(NamedTuple):
    """A piece of text between two tags, with its entities resolved."""

    text: str


Token = Opening | Closing | Characters


def read_xml(path: Path) -> Iterator[Token]:
    """Yields the tokens of a well-formed XML file; raises UserError where it is not."""
    tokens: deque[Token] = deque()
    parser = _make_parser(path, tokens)
    try:
        for chunk in read_chunks(path):
            parser.Parse(chunk, False)
            while tokens:
                yield tokens.popleft()
        parser.Parse(b"", True)
    except expat.ExpatError as fault:
        raise UserError(
            f"malformed XML ({expat.ErrorString(fault.code)})",
            where=f"{path}:{fault.lineno}",
            fix="repair the file",
        ) from fault
    yield from tokens


def _make_parser(path: Path, tokens: deque[Token]) -> expat.XMLParserType:
    parser = expat.ParserCreate("UTF-8")
    parser.buffer_text = True

    def opened(name: str, attributes: dict[str, str]) -> None:
        lowered = {key.lower(): value for key, value in attributes.items()}
        tokens.append(Opening(name.lower(), lowered, parser.CurrentLineNumber))

    def closed(name: str) -> None:
        tokens.append(Closing(name.lower(), parser.CurrentLineNumber))

    def refuse_entity(name: str, *_: object) -> None:
        raise UserError(
            f"the entity {name!r} is declared here or elsewhere",
            where=f"{path}:{parser.CurrentLineNumber}",
            fix="write the text itself: entities of a document type are not read",
        )

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = lambda text: tokens.append(Characters(text))
    parser.EntityDeclHandler = refuse_entity
    parser.SkippedEntityHandler = refuse_entity
    return parser


_SGML_TAG = re.compile(
    r"<(/?)(mteval|srcset|refset|tstset|doc|hl|p|poster|seg)\b([^<>]*)>", re.IGNORECASE
)
_SGML_CUT_TAG = re.compile(r"<(?:srcset|refset|tstset|doc|seg)\b[^<>]*$", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


def read_sgml(path: Path) -> Iterator[Token]:
    """Yields the tokens of an evaluation set; whatever is no tag of these sets is text.

    The sets in circulation have stray ampersands and unquoted attributes, which XML forbids.
    """
    pending = ""
    for line, text in enumerate(read_lines(path), start=1):
        pending += text + "\n"
        if _SGML_CUT_TAG.search(pending):
            continue  # a tag runs over the end of the line
        position = 0
        for tag in _SGML_TAG.finditer(pending):
            yield Characters(html.unescape(pending[position : tag.start()]))
            position = tag.end()
            name = tag.group(2).lower()
            if tag.group(1):
                yield Closing(name, line)
            else:
                yield Opening(name, _attributes(tag.group(3)), line)
        yield Characters(html.unescape(pending[position:]))
        pending = ""
    if pending:
        raise UserError("a tag is not closed", where=str(path), fix="repair the file")


def _attributes(text: str) -> dict[str, str]:
    return {
        name.lower(): html.unescape(double or single or bare)
        for name, double, single, bare in _ATTRIBUTE.findall(text)
    }


# Evaluation sets: the SGML of NIST, WMT and IWSLT, and the XML of WMT since 2021

_SETS = {"srcset": "src", "refset": "ref", "tstset": "hyp"}


def is_evaluation_set(inputs: Inputs) -> bool:
    """Tells whether the files are evaluation sets."""
    return all(_is_set(beginning) for beginning in (inputs.src_beginning, inputs.trg_beginning))


def _is_set(beginning: Beginning) -> bool:
    if beginning.root in ("mteval", "dataset", *_SETS):
        return True
    return beginning.root == "doc" and beginning.has_tag("seg")


def read_evaluation_set(inputs: Inputs) -> Iterator[Document]:
    """Yields documents whose segments are aligned by document id and segment id.

    Of several references the first (in the target language, where it is known) is read.
    """
    src_kinds = ("src",) if inputs.one_file else ("src", "ref", "hyp")
    trg_kinds = ("ref", "hyp") if inputs.one_file else ("ref", "hyp", "src")
    return align_blocks(
        Side(inputs.src, _blocks(inputs.src, src_kinds, inputs.src_language)),
        Side(inputs.trg, _blocks(inputs.trg, trg_kinds, inputs.trg_language)),
    )


@dataclass
class _Version:
    """One version of a document: the source, a reference or a system's output."""

    kind: str
    language: str
    block: Block


@dataclass
class _Versions:
    """All versions of one document that stand together, and the set they stand in."""

    name: str
    line: int
    set_number: int
    found: list[_Version] = field(default_factory=list)

    def choose(self, kinds: tuple[str, ...], language: str) -> Block | None:
        """Returns the first version of the first kind there is, in the language if one is."""
        for kind in kinds:
            versions = [version for version in self.found if version.kind == kind]
            fitting = [v for v in versions if language and same_language(v.language, language)]
            if versions:
                return (fitting or versions)[0].block
        return None


def _blocks(path: Path, kinds: tuple[str, ...], language: str) -> Iterator[Block]:
    """Yields one side of each document, from the first set that has this side."""
    set_number = 0
    for document in _SetReader(path).documents():
        block = document.choose(kinds, language)
        if block is None:
            continue  # if the other side has it, aligning the sides says what is missing
        set_number = set_number or document.set_number
        if document.set_number != set_number:
            return
        yield block


class _SetReader:
    """Puts the tokens of one file together into documents."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_dataset = Beginning(read_head(path)).root == "dataset"
        self._set_number = 1
        self._set_kind = "src"
        self._document: _Versions | None = None
        self._segment: Opening | None = None
        self._text: list[str] = []

    def documents(self) -> Iterator[_Versions]:
        """Yields the documents of the file, each with all its versions."""
        for token in read_xml(self._path) if self._is_dataset else read_sgml(self._path):
            match token:
                case Opening():
                    self._open(token)
                case Characters(text):
                    self._text.append(text)
                case Closing("seg", line):
                    self._close_segment(line)
                case Closing("doc", line):
                    yield self._close_document(line)
        if self._document:
            raise self._malformed("a <doc> is not closed", self._document.line)

    def _open(self, tag: Opening) -> None:
        if self._segment and tag.name in ("seg", "doc"):
            raise self._malformed("a <seg> is not closed", self._segment.line)
        if tag.name in _SETS:
            self._set_number += 1
            self._set_kind = _SETS[tag.name]
        elif tag.name == "doc":
            self._open_document(tag)
        elif tag.name in ("src", "ref", "hyp") and self._document:
            self._add_version(tag.name, tag.attributes.get("lang", ""), tag.line)
        elif tag.name == "seg":
            self._segment = tag
            self._text = []

    def _open_document(self, tag: Opening) -> None:
        if self._document:
            raise self._malformed("a <doc> is not closed", self._document.line)
        name = tag.attributes.get("docid") or tag.attributes.get("id")
        if not name:
            raise self._malformed("a <doc> has no id", tag.line)
        self._document = _Versions(name, tag.line, self._set_number)
        if not self._is_dataset:
            self._add_version(self._set_kind, "", tag.line)

    def _add_version(self, kind: str, language: str, line: int) -> None:
        if self._document:
            block = Block(self._document.name, line)
            self._document.found.append(_Version(kind, language, block))

    def _close_segment(self, line: int) -> None:
        segment = self._segment
        if segment is None or self._document is None or not self._document.found:
            raise self._malformed("a </seg> outside a document", line)
        sentences = self._document.found[-1].block.sentences
        key = segment.attributes.get("id") or str(len(sentences) + 1)
        if key in sentences:
            raise self._malformed(f"segment {key} comes twice in one document", segment.line)
        sentences[key] = PlacedSentence(segment.line, one_line("".join(self._text)))
        self._segment = None

    def _close_document(self, line: int) -> _Versions:
        if self._segment:
            raise self._malformed("a <seg> is not closed", self._segment.line)
        if self._document is None:
            raise self._malformed("a </doc> outside a document", line)
        document, self._document = self._document, None
        return document

    def _malformed(self, what: str, line: int) -> UserError:
        return UserError(what, where=f"{self._path}:{line}", fix="repair the file")
