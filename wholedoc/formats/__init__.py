"""Documents in the formats that people have: segments out, translations in."""

import sys
from pathlib import Path

from wholedoc.corpus.readers.lines import open_file
from wholedoc.errors import UserError
from wholedoc.formats.docx import Docx
from wholedoc.formats.html import Html
from wholedoc.formats.markdown import Markdown
from wholedoc.formats.odt import Odt
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.po import Po
from wholedoc.formats.segments import DocumentFile
from wholedoc.formats.subtitles import Subtitles
from wholedoc.formats.xliff import Xliff

FORMATS: tuple[type[DocumentFile], ...] = (
    *(PlainText, Markdown, Html),
    *(Docx, Odt),
    *(Subtitles, Xliff, Po),
)


def find_format(path: str) -> type[DocumentFile] | None:
    """The format of a file by its ending; None where it is none of ours."""
    ending = Path(path).suffix.lower()
    return next((each for each in FORMATS if ending in each.endings), None)


def format_named(name: str) -> type[DocumentFile]:
    """The format of a name."""
    for each in FORMATS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in FORMATS)
    raise UserError(f"{name!r} is no format", where="--format", fix=f"use lines, {names}")


def read_document(
    chosen: type[DocumentFile], path: str, src_language: str, trg_language: str
) -> DocumentFile:
    """Read a file, or standard input for ``-``, in a format."""
    where = "standard input" if path == "-" else path
    if path == "-":
        data = sys.stdin.buffer.read()
    else:
        with open_file(Path(path)) as stream:
            data = stream.read()
    return chosen(data, where, src_language, trg_language)
