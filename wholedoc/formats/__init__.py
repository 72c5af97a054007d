"""Documents in the formats that people have: segments out, translations in."""

from pathlib import Path

from wholedoc.errors import UserError
from wholedoc.formats.segments import DocumentFile
from wholedoc.formats.text import PlainText

FORMATS: tuple[type[DocumentFile], ...] = (PlainText,)


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
    raise UserError(f"{name!r} is no format", where="--format", fix=f"use {names}")
