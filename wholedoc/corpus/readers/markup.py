"""Markup: XML and SGML as streams of tokens, and the evaluation sets written in them.

Neither tokeniser builds a tree, so that a file may be larger than the memory, and neither follows
a reference to another file or defines an entity, so that a file may come from anyone.
"""

import html
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar
from xml.parsers import expat

from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers.inputs import Beginning, Inputs, same_language
from wholedoc.corpus.readers.lines import (
    Block,
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
Found = TypeVar("Found")


def read_xml(path: Path) -> Iterator[Token]:
    """Yields the tokens of a well-formed XML file; raises UserError where it is not."""
    tokens: deque[Token] = deque()
    parser = make_parser(path)

    def opened(name: str, attributes: dict[str, str]) -> None:
        lowered = {key.lower(): value for key, value in attributes.items()}
        tokens.append(Opening(name.lower(), lowered, parser.CurrentLineNumber))

    def closed(name: str) -> None:
        tokens.append(Closing(name.lower(), parser.CurrentLineNumber))

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = lambda text: tokens.append(Characters(text))
    return collect(parser, path, tokens)


def collect(parser: expat.XMLParserType, path: Path, found: deque[Found]) -> Iterator[Found]:
    """Yields what the handlers of a parser find in a file, part by part."""
    try:
        for chunk in read_chunks(path):
            parser.Parse(chunk, False)
            while found:
                yield found.popleft()
        parser.Parse(b"", True)
    except expat.ExpatError as fault:
        what = f"malformed XML ({expat.ErrorString(fault.code)})"
        raise _malformed(what, path, fault.lineno) from fault
    yield from found


def make_parser(path: Path) -> expat.XMLParserType:
    """Makes a parser that refuses entities; its caller says what to do with elements."""
    declared = _ONE_BYTE.match(read_head(path))  # expat reads these as they say
    parser = expat.ParserCreate(None if declared else "UTF-8")
    parser.buffer_text = True

    def refuse_entity(name: str, *_: object) -> None:
        raise UserError(
            f"the entity {name!r} is declared here or elsewhere",
            where=f"{path}:{parser.CurrentLineNumber}",
            fix="write the text itself: entities of a document type are not read",
        )

    parser.EntityDeclHandler = refuse_entity
    parser.SkippedEntityHandler = refuse_entity
    return parser


_ONE_BYTE = re.compile(
    r"<\?xml[^>]*encoding\s*=\s*[\"'](?:iso-8859-\d+|windows-125\d|us-ascii)[\"']", re.IGNORECASE
)
_SGML_TAG = re.compile(
    r"<(/?)(mteval|srcset|refset|tstset|doc|hl|p|poster|seg)\b([^<>]*)>", re.IGNORECASE
)
_SGML_CUT_TAG = re.compile(r"<(?:srcset|refset|tstset|doc|seg)\b[^<>]*$", re.IGNORECASE)
_MOST_TAG_LINES = 100  # that a tag runs over; more are text
_ATTRIBUTE = re.compile(r"(?<![\w:-])([\w:-]++)\s*+=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


def read_sgml(path: Path) -> Iterator[Token]:
    """Yields the tokens of an evaluation set; whatever is no tag of these sets is text.

    The sets in circulation have stray ampersands and unquoted attributes, which XML forbids.
    """
    pending = ""
    waiting = 0
    for line, text in enumerate(read_lines(path), start=1):
        pending += text + "\n"
        if waiting < _MOST_TAG_LINES and _SGML_CUT_TAG.search(pending):
            waiting += 1
            continue  # a tag runs over the end of the line
        waiting = 0
        position = 0
        for tag in _SGML_TAG.finditer(pending):
            yield Characters(html.unescape(pending[position : tag.start()]))
            position = tag.end()
            name = tag.group(2).lower()
            if tag.group(1):
                yield Closing(name, line)
            else:
                attributes = {
                    key.lower(): html.unescape(double or single or bare)
                    for key, double, single, bare in _ATTRIBUTE.findall(tag.group(3))
                }
                yield Opening(name, attributes, line)
        yield Characters(html.unescape(pending[position:]))
        pending = ""
    if pending:
        raise UserError("a tag is not closed", where=str(path), fix="repair the file")


# Evaluation sets: the SGML of NIST, WMT and IWSLT, and the XML of WMT since 2021

_SETS = {"srcset": "src", "refset": "ref", "tstset": "hyp"}


def is_evaluation_set(inputs: Inputs) -> bool:
    """Tells whether the files are evaluation sets."""
    return all(
        beginning.root in ("mteval", "dataset", *_SETS)
        or (beginning.root == "doc" and beginning.has_tag("seg"))
        for beginning in inputs.beginnings
    )


def read_evaluation_set(inputs: Inputs) -> Iterator[Document]:
    """Yields documents whose segments are aligned by document id and segment id.

    Of several references the first (in the target language, where it is known) is read.
    """
    src_kinds = ("src",) if inputs.one_file else ("src", "ref", "hyp")
    trg_kinds = ("ref", "hyp") if inputs.one_file else ("ref", "hyp", "src")
    src = _blocks(inputs.src, src_kinds, inputs.src_language)
    trg = _blocks(inputs.trg, trg_kinds, inputs.trg_language)
    return align_blocks(inputs.src, inputs.trg, src, trg)


class _Version(NamedTuple):
    kind: str  # src, ref or hyp
    language: str
    block: Block


def _blocks(path: Path, kinds: Sequence[str], language: str) -> Iterator[Block]:
    """Yields one side of each document, from the first set that has this side.

    That is the first version of the first kind there is, in the language if one is.
    """

    def preference(version: _Version) -> tuple[int, bool]:
        is_wanted = bool(language) and same_language(version.language, language)
        return kinds.index(version.kind), not is_wanted

    chosen_set = 0
    for set_number, versions in _documents(path):
        fitting = [version for version in versions if version.kind in kinds]
        if not fitting:
            continue  # if the other side has it, aligning the sides says what is missing
        chosen_set = chosen_set or set_number
        if set_number != chosen_set:
            return
        yield min(fitting, key=preference).block


def _documents(path: Path) -> Iterator[tuple[int, list[_Version]]]:
    """Yields the number of its set and all versions of each document."""
    is_dataset = Beginning(read_head(path)).root == "dataset"
    set_number, set_kind = 1, "src"
    document: Opening | None = None
    name = ""
    versions: list[_Version] = []
    for token in _join_segments(read_xml(path) if is_dataset else read_sgml(path), path):
        match token:
            case Opening("doc", attributes, line):
                name = attributes.get("docid") or attributes.get("id", "")
                if document or not name:
                    what = "a <doc> is not closed" if document else "a <doc> has no id"
                    raise _malformed(what, path, (document or token).line)
                document = token
                versions = [] if is_dataset else [_Version(set_kind, "", Block(name, line))]
            case Opening("src" | "ref" | "hyp", attributes, line) if document:
                block = Block(name, line)
                versions.append(_Version(token.name, attributes.get("lang", ""), block))
            case Opening(tag) if tag in _SETS:
                set_number, set_kind = set_number + 1, _SETS[tag]
            case _Segment():
                _add_segment(token, versions, path)
            case Closing("doc", line):
                if not document:
                    raise _malformed("a </doc> outside a document", path, line)
                yield set_number, versions
                document, versions = None, []
    if document:
        raise _malformed("a <doc> is not closed", path, document.line)


class _Segment(NamedTuple):
    id: str
    text: str
    line: int
    last_line: int


def _join_segments(tokens: Iterator[Token], path: Path) -> Iterator[Opening | Closing | _Segment]:
    """Puts the tokens of each segment together and leaves out all other text."""
    segment: Opening | None = None
    texts: list[str] = []
    for token in tokens:
        match token:
            case Characters(text):
                texts.append(text)
            case Closing("seg", line) if segment:
                text = one_line("".join(texts))
                yield _Segment(segment.attributes.get("id", ""), text, segment.line, line)
                segment = None
            case Closing("seg", line):
                raise _malformed("a </seg> outside a document", path, line)
            case Opening("seg" | "doc") | Closing("doc") if segment:
                raise _malformed("a <seg> is not closed", path, segment.line)
            case Opening("seg"):
                segment, texts = token, []
            case _:
                yield token


def _add_segment(segment: _Segment, versions: Sequence[_Version], path: Path) -> None:
    if not versions:
        raise _malformed("a </seg> outside a document", path, segment.last_line)
    sentences = versions[-1].block.sentences
    key = segment.id or str(len(sentences) + 1)
    if key in sentences:
        raise _malformed(f"segment {key} comes twice in one document", path, segment.line)
    sentences[key] = (segment.line, segment.text)


def _malformed(what: str, path: Path, line: int) -> UserError:
    return UserError(what, where=f"{path}:{line}", fix="repair the file")
