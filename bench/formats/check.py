"""Whether documents of any origin come through a translation whole.

``check.py MODEL FILE_OR_FOLDER …`` reads every document that it finds, in its format, translates
it, and looks at what comes out:

- with each translation equal to its source, the file is the same: byte by byte where it is text,
  in canonical form where it is XML in a zip;
- the translated file is read again: as many segments, the same tags in each, no text lost (for text
  and subtitles, whose lines are joined by how they look, the same words and tags in all; for XML in
  a zip, the same elements in all but for runs and spans, for what looks alike may be joined);
- subtitles keep their times and have no empty cue that had text; XLIFF is well-formed; what msgfmt
  accepted of a PO file it still accepts;
- with ``--pages``, LibreOffice makes a PDF of each page and document, before and after, and their
  pages are counted.

It prints a table by format, every problem, and one JSON object. Files are called by their endings;
``.txt`` is text in paragraphs. ``--sentences`` bounds what is translated of one file: the segments
after that stay as they are.
"""

import argparse
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import ClassVar
from zlib import crc32

from lxml import etree

from wholedoc.app.documents import SentenceTranslator, read_sentences, translate_document
from wholedoc.config import load_model_config
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.formats import find_format
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.protected import find_protected, is_text
from wholedoc.formats.segments import Content, DocumentFile, Segment, Tag, plain, tags_of

PRINTED = frozenset({"docx", "odt", "html"})
JOINING = frozenset({"text", "subtitles"})
ZIPPED = frozenset({"docx", "odt"})
HOLDERS = frozenset({"r", "rPr", "t", "span", "s", "proofErr", "lastRenderedPageBreak"})
HOLDERS |= {"softHyphen", "soft-page-break"}
TIMES = re.compile(r"^.*-->.*$", re.MULTILINE)
TRANSLATED = re.compile(r"""\s(?:title|alt|placeholder|label|aria-label)=(?:"[^"]*"|'[^']*')""")
"""Attributes of HTML that are segments of their own."""
SECONDS = 120
"""For which LibreOffice may think about one file."""


@dataclass
class Report:
    """What was found in one file."""

    path: str
    format: str
    bytes: int
    segments: int = 0
    sentences: int = 0
    tags: int = 0
    read_seconds: float = 0.0
    seconds: float = 0.0
    """Of the translation, with the model."""
    pages: tuple[int, int] | None = None
    problems: list[str] = field(default_factory=list)


class Head:
    """The first segments of a file; the others are left as they are."""

    name: ClassVar[str] = ""
    endings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, file: DocumentFile, segments: int) -> None:
        self.file = file
        self.segments: Sequence[Segment] = file.segments[:segments]
        self.written: list[Content | None] = []

    def write(self, translations: Sequence[Content | None]) -> bytes:
        """The file with its first segments translated."""
        rest = len(self.file.segments) - len(self.segments)
        self.written = [*translations, *([None] * rest)]
        return self.file.write(self.written)


def format_of(path: Path) -> type[DocumentFile] | None:
    return PlainText if path.suffix.lower() == ".txt" else find_format(str(path))


def find_files(places: Sequence[Path]) -> Iterator[Path]:
    """Every document in some folders, and each file that is named."""
    for place in places:
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (path for path in found if path.is_file() and format_of(path))


def count_segments(segments: Sequence[Segment], language: str, most: int) -> int:
    """How many of the first segments have no more than so many sentences."""
    total = 0
    for n, segment in enumerate(segments):
        total += len(read_sentences([segment], language, "").sentences)
        if total > most:
            return max(n, 1)
    return len(segments)


def canonical(data: bytes) -> dict[str, bytes]:
    """The members of an archive; XML in canonical form."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            raw = archive.read(name)
            is_xml = name.endswith((".xml", ".rels")) and raw.strip()
            found[name] = etree.tostring(etree.fromstring(raw), method="c14n") if is_xml else raw
    return found


def check_identity(file: DocumentFile, data: bytes) -> Iterator[str]:
    """Translations equal to the sources leave a file as it is."""
    if any(segment.target is not None for segment in file.segments) or file.name in ("xliff", "po"):
        same = file.write([None] * len(file.segments)) == data
        yield from [] if same else ["changed though nothing was translated"]
        return
    out = file.write([segment.source for segment in file.segments])
    zipped = data[:2] == b"PK"
    if (canonical(out) != canonical(data)) if zipped else (out != data):
        yield "not the same with translations equal to the sources"


def counted(content: Content) -> Counter[tuple[str, str]]:
    """The tags of a segment by how they look; ends of lines aside, for some may go.

    A link of Markdown that was named by its text gets a label in the translation, and emphasis on
    nothing goes.
    """
    tags: list[Tag] = []
    for part in content:
        last = tags[-1] if tags else None
        if isinstance(part, str):
            tags.append(Tag("alone", -1, space=True))
        elif part.kind == "close" and last and (last.kind, last.id) == ("open", part.id):
            tags.pop()
        else:
            tags.append(part)
    tags = [tag for tag in tags if not tag.space and not tag.shown.startswith("<br")]
    shown = (TRANSLATED.sub("", tag.shown) for tag in tags)
    kinds = (tag.kind for tag in tags)
    return Counter((a, "]" if b.startswith("]") else b) for a, b in zip(kinds, shown, strict=True))


def elements(data: bytes) -> Counter[tuple[str, str]]:
    """The elements of a document in a zip, but for those that hold text and its looks."""
    found: Counter[tuple[str, str]] = Counter()
    for name, raw in canonical(data).items():
        if name.endswith(".xml") and raw:
            for node in etree.fromstring(raw).iter("*"):
                names = [etree.QName(each).localname for each in (node, *node.iterancestors())]
                if names[0] not in HOLDERS and "rPr" not in names:
                    found[name, names[0]] += 1
    return found


def check_again(head: Head, again: DocumentFile) -> Iterator[str]:
    """A translated file is read again as it was written."""
    before, after = head.file.segments, again.segments
    if again.name in JOINING:
        yield from check_whole(head, again)
        return
    rows = list(zip(before, head.written, strict=True))
    if len(before) != len(after):  # what has no letter left may be no segment any more
        rows = [(old, wanted) for old, wanted in rows if wanted is None or has_letters(wanted)]
    if len(rows) != len(after):
        yield f"{len(before)} segments, {len(after)} when read again"
        return
    bilingual = again.name in ("xliff", "po")
    for (old, wanted), new in zip(rows, after, strict=True):
        found = new.target if bilingual else new.source
        if wanted is None or found is None:
            if wanted and plain(wanted).strip():
                yield f"{old.place}: its translation is not there"
            continue
        if again.name not in ZIPPED and counted(wanted) != counted(found):
            yield f"{old.place}: tags {describe(counted(wanted), counted(found))}"
        if "".join(plain(wanted).split()) != "".join(plain(found).split()):
            yield f"{old.place}: written {plain(wanted)[:80]!r}, read {plain(found)[:80]!r}"


def has_letters(content: Content) -> bool:
    return any(character.isalnum() for character in plain(content))


def lost_protected(source: str, translation: str) -> bool:
    """Whether something is in a translation less often than it must be, wherever it stands."""
    wanted = Counter(source[start:end] for start, end in find_protected(source))
    return any(translation.count(part) < count for part, count in wanted.items())


def check_translations(head: Head) -> Iterator[str]:
    """What the model left out: all of a text, or something that must come through."""
    for old, wanted in zip(head.segments, head.written, strict=False):
        if wanted is not None and is_text(plain(old.source)) and not has_letters(wanted):
            yield f"{old.place}: the translation of {plain(old.source)[:80]!r} is empty"
        elif wanted is not None and lost_protected(plain(old.source), plain(wanted)):
            yield f"{old.place}: lost what is protected of {plain(old.source)[:80]!r}"


def check_whole(head: Head, again: DocumentFile) -> Iterator[str]:
    """A file whose lines are joined by how they look: its words and tags, whatever the segments."""
    rows = zip(head.file.segments, head.written, strict=True)
    written = [old.source if new is None else new for old, new in rows]
    found = [segment.source for segment in again.segments]
    wanted, got = (" ".join(map(plain, each)).split() for each in (written, found))
    if wanted != got:
        n = next((n for n, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), 0)
        yield f"written {' '.join(wanted[n : n + 9])!r}, read {' '.join(got[n : n + 9])!r}"
    tags = [sum(map(counted, each), Counter[tuple[str, str]]()) for each in (written, found)]
    if tags[0] != tags[1]:
        yield f"tags {describe(*tags)}"


def describe(wanted: Counter[tuple[str, str]], found: Counter[tuple[str, str]]) -> str:
    lost, more = ([shown for _, shown in (a - b)] for a, b in ((wanted, found), (found, wanted)))
    return f"lost {lost}, new {more}"


def check_cues(data: bytes, out: bytes) -> Iterator[str]:
    """Subtitles have their times, and cues that had text have some."""
    before, after = (raw.decode("utf-8", "replace").replace("\r\n", "\n") for raw in (data, out))
    if TIMES.findall(before) != TIMES.findall(after):
        yield "other times"
        return
    texts = [[part.strip() for part in TIMES.split(each)[1:]] for each in (before, after)]
    for n, (old, new) in enumerate(zip(*texts, strict=True), 1):
        if len(old.splitlines()) > 1 and len(re.sub(r"\d+\s*\Z", "", new).split()) == 0:
            yield f"cue {n} is empty"


def check_po(path: Path, out: Path) -> Iterator[str]:
    if shutil.which("msgfmt") is None:
        return
    command = ["msgfmt", "--check-format", "--use-fuzzy", "-o", "/dev/null"]
    first, second = (
        subprocess.run([*command, file], capture_output=True, check=False, text=True)
        for file in (path, out)
    )
    if first.returncode == 0 and second.returncode != 0:
        yield f"msgfmt: {second.stderr[:300]}"


def count_pages(path: Path, folder: Path) -> int | None:
    """The pages of a document as LibreOffice prints it."""
    command = ["soffice", "--headless", f"-env:UserInstallation=file://{folder}/office"]
    command += ["--convert-to", "pdf", "--outdir", str(folder), str(path)]
    try:
        subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None
    pdf = folder / f"{path.stem}.pdf"
    if not pdf.exists():
        return None
    found = subprocess.run(["pdfinfo", pdf], capture_output=True, check=False, text=True)
    match = re.search(r"Pages:\s+(\d+)", found.stdout)
    return int(match[1]) if match else None


def check_pages(path: Path, out: Path, report: Report) -> Iterator[str]:
    """Count the pages before and after."""
    if report.format not in PRINTED or shutil.which("soffice") is None:
        return
    before, after = (count_pages(file, out.parent) for file in (path, out))
    if before is None or after is None:
        yield from [] if before is None else ["LibreOffice does not open the translation"]
        return
    report.pages = before, after
    if abs(before - after) > max(1, before // 5):
        yield f"{before} pages, {after} after"


def check(path: Path, sentences: SentenceTranslator, options: argparse.Namespace) -> Report:
    """Read a file, translate it and look at what comes out."""
    chosen = format_of(path)
    if chosen is None:
        raise ValueError(path)
    data = path.read_bytes()
    report = Report(str(path), chosen.name, len(data))
    languages = ("", "") if options.any_language else (sentences.src_language, "en")
    started = time.perf_counter()
    try:
        file = chosen(data, str(path), *languages)
    except UserError as error:
        report.problems.append(f"refused: {error}")
        return report
    report.read_seconds = time.perf_counter() - started
    report.problems += check_identity(chosen(data, str(path), "", ""), data)
    head = Head(file, count_segments(file.segments, sentences.src_language, options.sentences))
    report.segments = len(head.segments)
    report.tags = sum(len(tags_of(segment.source)) for segment in head.segments)
    started = time.perf_counter()
    translated = translate_document(sentences, head)
    report.seconds = time.perf_counter() - started
    report.sentences = len(translated.text.sentences)
    out = options.output / f"{path.stem}-{crc32(str(path.resolve()).encode()):08x}{path.suffix}"
    out.write_bytes(translated.data)
    report.problems += check_translations(head)
    report.problems += check_again(head, chosen(translated.data, str(out), *languages))
    if data[:2] == b"PK" and (before := elements(data)) != (after := elements(translated.data)):
        report.problems.append(f"elements {describe(before, after)}")
    if chosen.name == "subtitles":
        report.problems += check_cues(data, translated.data)
    if chosen.name == "po":
        report.problems += check_po(path, out)
    if options.pages:
        report.problems += check_pages(path, out, report)
    return report


def print_table(reports: Sequence[Report]) -> None:
    """The files by their formats, then the problems of each."""
    columns = ("format", "files", "segments", "sentences", "tags", "seconds", "problems")
    print(" ".join(f"{name:>10}" for name in columns))
    for name in dict.fromkeys(report.format for report in reports):
        mine = [report for report in reports if report.format == name]
        sums = [sum(getattr(each, key) for each in mine) for key in columns[2:6]]
        row = [name, len(mine), *map(round, sums), sum(len(each.problems) for each in mine)]
        print(" ".join(f"{value:>10}" for value in row))
    for report in reports:
        for problem in report.problems:
            print(f"{report.path}: {problem}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, help="a run directory")
    parser.add_argument("files", type=Path, nargs="+", help="documents, and folders of them")
    parser.add_argument("--output", type=Path, help="keep the translations in this folder")
    parser.add_argument("--sentences", type=int, default=200, help="of one file, about")
    parser.add_argument("--pages", action="store_true", help="count pages with LibreOffice")
    parser.add_argument("--any-language", action="store_true", help="whatever XLIFF says it is")
    parser.add_argument("--json", type=Path, help="write the JSON here, not after the table")
    options = parser.parse_args()
    search = load_model_config(options.model).search
    sentences = SentenceTranslator(
        Translator.load(options.model, own_memory=False), replace(search, beam=1)
    )
    with tempfile.TemporaryDirectory() as folder:
        options.output = (options.output or Path(folder)).resolve()
        options.output.mkdir(parents=True, exist_ok=True)
        reports = []
        for path in find_files(options.files):
            reports.append(check(path, sentences, options))
            print(f"{path}: {reports[-1].seconds:.1f} s", file=sys.stderr)
    print_table(reports)
    found = json.dumps({"files": [asdict(report) for report in reports]}, ensure_ascii=False)
    if options.json:
        options.json.write_text(found + "\n", encoding="utf-8")
    else:
        print(found)


if __name__ == "__main__":
    main()
