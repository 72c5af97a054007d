"""What a reader is given: the files, their languages, and how the files begin."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from wholedoc.config import CorpusFiles
from wholedoc.corpus.readers.lines import read_head
from wholedoc.errors import UserError

# The first element of a file after declarations, comments and a document type.
_ROOT = re.compile(
    r"\s*+(?>(?>(?><\?.*?\?>)|(?><!--.*?-->)|(?><!DOCTYPE[^\[>]*+(?:\[.*?\]\s*+)??>))\s*+)*+"
    r"<([a-z][\w:.-]*)",
    re.IGNORECASE | re.DOTALL,
)
# A sentence may begin with a tag, so markup is a declaration, a tag that only files begin with, or
# a first line that is nothing but one tag.
_MARKUP = re.compile(
    r"\s*(?:<\?xml|<!DOCTYPE|<(?:tmx|dataset|mteval|srcset|refset|tstset|doc|url|talkid|chapter)\b"
    r"|<[a-z][\w:.-]*(?:\s[^<>]*)?>[ \t\r]*(?:\n|$))",
    re.IGNORECASE,
)
# What may stand alone on a line between documents, in lower case.
MARKERS = frozenset({"<d>", "_eos", "####", "<sep>"})


def marker_of(line: str) -> str:
    """Returns the boundary marker a line consists of, or an empty string for a sentence."""
    # Most lines are sentences, so the cheap test by length comes first.
    marker = line.strip().lower() if len(line) < 16 else ""
    return marker if marker in MARKERS else ""


@dataclass(frozen=True)
class Beginning:
    """The beginning of a file, as far as it tells the convention the file follows."""

    text: str

    @cached_property
    def first_line(self) -> str:
        """The first line with something on it."""
        return self.text.lstrip().partition("\n")[0].rstrip()

    @cached_property
    def is_markup(self) -> bool:
        """Whether the file looks like XML or SGML and not like lines of text."""
        return bool(_MARKUP.match(self.text)) and not marker_of(self.first_line)

    @cached_property
    def root(self) -> str:
        """The lower-cased name of the first element, empty if there is none."""
        match = _ROOT.match(self.text) if self.is_markup else None
        return match.group(1).lower() if match else ""

    @cached_property
    def is_rows(self) -> bool:
        """Whether the first line holds both sides: a JSON object, or triple bars."""
        return self.first_line.startswith('{"') or self.first_line.count("|||") == 2

    def has_tag(self, name: str) -> bool:
        """Tells whether an element of this name opens near the beginning."""
        return re.search(rf"<{name}\b", self.text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class Inputs:
    """The files of a corpus and the languages of its sides, checked to exist.

    ``trg`` equals ``src`` where one file or folder holds both sides.
    """

    src: Path
    trg: Path
    doc: Path | None = None
    src_language: str = ""
    trg_language: str = ""

    @classmethod
    def check(cls, files: CorpusFiles, src_language: str = "", trg_language: str = "") -> "Inputs":
        """Builds the inputs from the user's paths; raises UserError where one cannot be read."""
        if not files.src:
            raise UserError("no source file is given", fix="give the source side too")
        src = Path(files.src)
        trg = Path(files.trg) if files.trg else src
        doc = Path(files.doc) if files.doc else None
        for path in (src, trg, *([doc] if doc else [])):
            if not path.exists():
                raise UserError("no such file or folder", where=str(path), fix="check the path")
            if not path.is_file() and not path.is_dir():
                fix = "a corpus is read more than once: write it to a file first"
                raise UserError("is neither a file nor a folder", where=str(path), fix=fix)
        folder, other = (src, trg) if src.is_dir() else (trg, src)
        if folder.is_dir() and not other.is_dir():
            what, fix = f"is a folder, but {other} is a file", "give two folders or two files"
            raise UserError(what, where=str(folder), fix=fix)
        if doc and (src.is_dir() or doc.is_dir()):
            where = str(src if src.is_dir() else doc)
            fix = "document ids are a file that belongs to two line-aligned files"
            raise UserError("is a folder", where=where, fix=fix)
        if doc and (doc.samefile(src) or doc.samefile(trg)):
            what = "is given as a side and as its document ids"
            fix = "give another file of document ids, or none"
            raise UserError(what, where=str(doc), fix=fix)
        if not trg.samefile(src):
            return cls(src, trg, doc, src_language, trg_language)
        if doc or src.is_dir():
            fix = "give a source and a target side"
            raise UserError("only one side is given", where=str(src), fix=fix)
        return cls(src, src, None, src_language, trg_language)

    @property
    def one_file(self) -> bool:
        """Whether both sides are in the same file or folder."""
        return self.src == self.trg

    @cached_property
    def beginnings(self) -> tuple[Beginning, Beginning]:
        """How the source and the target file begin."""
        return Beginning(read_head(self.src)), Beginning(read_head(self.trg))


# Language codes


@lru_cache(maxsize=1024)
def same_language(code: str, wanted: str) -> bool:
    """Tells whether two codes name one language, with or without a region (``et``, ``et-EE``)."""
    first = code.lower().replace("_", "-")
    second = wanted.lower().replace("_", "-")
    return first == second or first.startswith(f"{second}-") or second.startswith(f"{first}-")


def choose_sides(codes: Sequence[str], src_language: str, trg_language: str) -> tuple[str, str]:
    """Chooses the source and the target code; empty for a side that cannot be told.

    A side whose language is not wanted by name is the other one of two; if neither is, the source
    comes first.
    """
    src = find_language(codes, src_language)
    trg = find_language(codes, trg_language)
    if len(codes) == 2:
        if not src_language and not trg_language:
            return codes[0], codes[1]
        if src and not trg_language:
            trg = codes[1 - codes.index(src)]
        if trg and not src_language:
            src = codes[1 - codes.index(trg)]
    return src, trg


def find_language(codes: Sequence[str], wanted: str) -> str:
    """Returns the code that names the wanted language, or an empty string."""
    fitting = [code for code in codes if wanted and same_language(code, wanted)]
    # An exact match goes before a match of the language alone: pt-BR beside pt.
    return min(fitting, key=lambda code: code.lower() != wanted.lower(), default="")


# Content


def fingerprint(files: CorpusFiles) -> str | None:
    """A digest of what every file holds; None where one is missing.

    It does not depend on where the files are or when they were written.
    """
    digest = hashlib.sha256()
    for path in (Path(name) for name in (files.src, files.trg, files.doc) if name):
        members = [path]
        if path.is_dir():  # in which hidden files are not read
            members = [file for file in sorted(path.iterdir()) if not file.name.startswith(".")]
        for member in members:
            if not member.is_file():
                return None
            name = member.name if path.is_dir() else ""
            with member.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            digest.update(f"{name}:{content}:".encode())
    return digest.hexdigest()
