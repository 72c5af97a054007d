"""Markup as a stream of tags and text: XML by the book, and SGML that only resembles it.

Neither tokeniser builds a tree, so that a file may be larger than the memory, and neither follows
a reference to another file or defines an entity, so that a file may come from anyone.
"""

import html
import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from wholedoc.corpus.readers.lines import read_chunks, read_lines
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


class Text(NamedTuple):
    """A piece of text between two tags, with its entities resolved."""

    text: str


Token = Opening | Closing | Text


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
    parser.CharacterDataHandler = lambda text: tokens.append(Text(text))
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
            yield Text(html.unescape(pending[position : tag.start()]))
            position = tag.end()
            name = tag.group(2).lower()
            if tag.group(1):
                yield Closing(name, line)
            else:
                yield Opening(name, _attributes(tag.group(3)), line)
        yield Text(html.unescape(pending[position:]))
        pending = ""
    if pending:
        raise UserError("a tag is not closed", where=str(path), fix="repair the file")


def _attributes(text: str) -> dict[str, str]:
    return {
        name.lower(): html.unescape(double or single or bare)
        for name, double, single, bare in _ATTRIBUTE.findall(text)
    }
