"""The readers: every convention plain and gzipped, every error with its place, round trips."""

import gc
import gzip
import html
import io
import json
import os
import re
import shlex
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from wholedoc.config import CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import (
    CONVENTIONS,
    Corpus,
    Inputs,
    fingerprint,
    read_corpus,
    read_source_lines,
)
from wholedoc.corpus.readers import tmx as tmx_reader
from wholedoc.corpus.readers.rows import SRC_NAMES, TRG_NAMES
from wholedoc.errors import UserError

Pairs = list[list[tuple[str, str]]]
Files = dict[str, str | bytes]

EXAMPLE: Pairs = [
    [("Die Katze schläft.", "The cat sleeps."), ("Sie träumt.", "She dreams.")],
    [("Der Zug kommt.", "The train arrives.")],
]
CORPORA_MD = Path(__file__).parent.parent / "docs" / "corpora.md"


def pairs_of(documents: Iterable[Document]) -> Pairs:
    return [[(pair.src, pair.trg) for pair in document] for document in documents]


def write_files(folder: Path, files: Files, *, packed: bool = False) -> None:
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if packed else data)


def corpus_files(folder: Path, src: str, trg: str = "", doc: str = "") -> CorpusFiles:
    return CorpusFiles(*(str(folder / name) if name else "" for name in (src, trg, doc)))


# The examples of the documentation


def documented_examples() -> list[tuple[str, CorpusFiles, Files]]:
    examples = []
    for section in re.split(r"^## ", CORPORA_MD.read_text(encoding="utf-8"), flags=re.M)[1:]:
        command = re.search(r"^    wholedoc stats (.*)$", section, re.M)
        if command:
            words = shlex.split(command.group(1))
            options = {
                flag.removeprefix("--"): value
                for flag, value in zip(words[::2], words[1::2], strict=True)
            }
            files: Files = dict(re.findall(r"^`(\S+)`:\n```\n(.*?)^```", section, re.M | re.S))
            examples.append((section.split("\n")[0], CorpusFiles(**options), files))
    return examples


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzipped"])
@pytest.mark.parametrize("example", documented_examples(), ids=lambda example: example[0])
def test_documented_example_is_read_as_documented(
    example: tuple[str, CorpusFiles, Files], packed: bool, tmp_path: Path
) -> None:
    heading, named, files = example
    write_files(tmp_path, files, packed=packed)
    corpus = read_corpus(corpus_files(tmp_path, named.src, named.trg, named.doc))
    assert corpus.boundaries == heading.split()[0]
    assert pairs_of(corpus) == EXAMPLE
    assert list(corpus) == list(corpus)


NAMES = {
    "start-lines": ["1", "2"],
    "marker-lines": ["1", "2"],
    "empty-lines": ["1", "2"],
    "ted": ["1", "2"],
    "europarl": ["chapter 1, speaker 1", "chapter 1, speaker 2"],
}


@pytest.mark.parametrize("example", documented_examples(), ids=lambda example: example[0])
def test_documents_are_named_as_the_file_names_them(
    example: tuple[str, CorpusFiles, Files], tmp_path: Path
) -> None:
    heading, named, files = example
    write_files(tmp_path, files)
    corpus = read_corpus(corpus_files(tmp_path, named.src, named.trg, named.doc))
    assert [document.name for document in corpus] == NAMES.get(heading, ["cat", "train"])


def test_every_convention_is_documented() -> None:
    table = re.findall(r"^\| `([\w-]+)` \| (?:two|one)", CORPORA_MD.read_text("utf-8"), re.M)
    assert set(table) == {convention.name for convention in CONVENTIONS}
    headings = {heading.split()[0] for heading, _, _ in documented_examples()}
    assert headings == set(table) - {"none"}


# Variants


@dataclass(frozen=True)
class Case:
    """Files, how they are given, and what comes of it: documents, or an error and its place."""

    name: str
    files: Files
    src: str = "a"
    trg: str = "b"
    doc: str = ""
    languages: tuple[str, str] = ("", "")
    boundaries: str = ""
    documents: Pairs = field(default_factory=list)
    where: str = ""
    what: str = ""

    def open(self, folder: Path) -> Corpus:
        write_files(folder, self.files)
        return read_corpus(corpus_files(folder, self.src, self.trg, self.doc), *self.languages)


LINES: Files = {"a": "s1\ns2\ns3\n", "b": "t1\nt2\nt3\n"}
SPLIT: Pairs = [[("s1", "t1"), ("s2", "t2")], [("s3", "t3")]]
EACH: Pairs = [[("s1", "t1")], [("s2", "t2")], [("s3", "t3")]]
WHOLE: Pairs = [[("s1", "t1"), ("s2", "t2"), ("s3", "t3")]]


def both(layout: str) -> Files:
    """Two sides of the same layout, in which ``@`` stands for the letter of the side."""
    return {"a": layout.replace("@", "s"), "b": layout.replace("@", "t")}


def sgml(kind: str, *documents: str) -> str:
    return f'<{kind} setid="x" srclang="et" trglang="en">\n' + "\n".join(documents) + f"\n</{kind}>"


def segments(letter: str, *numbers: int) -> str:
    return "".join(f"<seg id={number}>{letter}{number}</seg>" for number in numbers)


def dataset(*documents: str) -> str:
    body = "\n".join(documents)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<dataset id="x">\n{body}\n</dataset>'


def version(kind: str, language: str, *texts: str) -> str:
    segs = "".join(f'<seg id="{key}">{text}</seg>' for key, text in enumerate(texts, start=1))
    return f'<{kind} lang="{language}"><p>{segs}</p></{kind}>'


def tmx(*units: str, srclang: str = "et") -> str:
    body = "\n".join(units)
    return f'<tmx version="1.4"><header srclang="{srclang}"/><body>\n{body}\n</body></tmx>'


def unit(document: str = "", **texts: str) -> str:
    prop = f'<prop type="x-filename">{document}</prop>' if document else ""
    tuvs = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in texts.items())
    return f"<tu>{prop}{''.join(tuvs)}</tu>"


TED_SIDE = (
    '<doc docid="x">\n<url>u</url>\n<talkid>1</talkid>\n@1\n@2\n<reviewer></reviewer>\n</doc>\n'
    "<doc>\n<keywords>k</keywords>\n<talkid>2</talkid>\n<description>d</description>\n@3\n</doc>"
)
EUROPARL_SIDE = '<CHAPTER ID="3">\n@1\n@2\n<SPEAKER ID=1 NAME="x">\n<P>\n@3\n<P>\n'
TWO_REFERENCES = dataset(
    f'<doc id="x">{version("src", "et", "s1", "s2")}{version("ref", "de", "u1", "u2")}'
    f"{version('ref', 'en', 't1', 't2')}</doc>",
    f'<doc id="y">{version("src", "et", "s3")}{version("ref", "en", "t3")}</doc>',
)

VARIANTS = [
    Case("no boundaries", LINES, boundaries="none", documents=WHOLE),
    Case(
        "sentences with tags",
        {"a": "<b><i>s1</i></b>\n", "b": "<b>t1</b>\n"},
        boundaries="none",
        documents=[[("<b><i>s1</i></b>", "<b>t1</b>")]],
    ),
    Case("ids", LINES | {"d": "7\n7\n3\n"}, doc="d", boundaries="document-ids", documents=SPLIT),
    Case(
        "rising ids", LINES | {"d": "1\n5\n9"}, doc="d", boundaries="document-ids", documents=EACH
    ),
    Case("starts", LINES | {"d": "1\n3"}, doc="d", boundaries="start-lines", documents=SPLIT),
    Case("one start", LINES | {"d": "0\n"}, doc="d", boundaries="start-lines", documents=WHOLE),
    *(
        Case(
            f"{marker} {place}",
            both(layout.replace("%", marker)),
            boundaries="marker-lines",
            documents=SPLIT,
        )
        for marker in ("<d>", "<D>", "_eos", "####", "<sep>")
        for place, layout in {
            "between": "@1\n@2\n%\n@3\n",
            "before": "%\n@1\n@2\n%\n@3\n",
            "after": "@1\n@2\n%\n%\n@3\n%",
        }.items()
    ),
    Case(
        "empty line beside markers",
        {"a": "s1\n\n<d>\ns3\n", "b": "t1\n\n<d>\nt3\n"},
        boundaries="marker-lines",
        documents=[[("s1", "t1"), ("", "")], [("s3", "t3")]],
    ),
    Case("empty lines", both("\n@1\n@2\n \n\n@3\n\n"), boundaries="empty-lines", documents=SPLIT),
    Case(
        "empty lines on one side are missing translations",
        LINES | {"b": "t1\n\nt3\n"},
        boundaries="none",
        documents=[[("s1", "t1"), ("s2", ""), ("s3", "t3")]],
    ),
    Case(
        "triple bar with missing translation",
        {"a": "x ||| s1 ||| t1\r\nx ||| s2 |||\r\n\r\n"},
        trg="a",
        boundaries="triple-bar",
        documents=[[("s1", "t1"), ("s2", "")]],
    ),
    Case(
        "tsv without header",
        {"a": "x\ts1\tt1\nx\ts2\tt2\ny\ts3\tt3"},
        trg="",
        boundaries="tsv",
        documents=SPLIT,
    ),
    Case(
        "tsv with usual names",
        {"a": "Target\tnote\tSource\tDocID\nt1\t\ts1\tx\nt2\t-\ts2\tx\nt3\t\ts3\ty\n"},
        trg="",
        boundaries="tsv",
        documents=SPLIT,
    ),
    Case(
        "tsv by language",
        {"a": "doc\tde\ten\tet\nx\tu1\tt1\ts1\nx\tu2\tt2\ts2\ny\tu3\tt3\ts3\n"},
        trg="",
        languages=("et", "en"),
        boundaries="tsv",
        documents=SPLIT,
    ),
    Case(
        "jsonl with the target first",
        {
            "a": '{"document": 4, "en": "t1", "et": "s1"}\n'
            '{"document": 4, "et": "s\\n2", "en": null}\n'
        },
        trg="",
        languages=("et", ""),
        boundaries="jsonl",
        documents=[[("s1", "t1"), ("s 2", "")]],
    ),
    Case(
        "jsonl with usual names",
        {"a": '{"docid": "x", "source": "s1", "tgt": "t1", "et": "no"}\n'},
        trg="",
        boundaries="jsonl",
        documents=[[("s1", "t1")]],
    ),
    Case(
        "sgml with ids in another order, entities and stray ampersands",
        {
            "a": sgml(
                "srcset",
                "<DOC docid='x'><hl><seg id=2>R&D &lt;b&gt;</seg></hl>",
                "<p><seg\n id=1>\n s1\n</seg></p></DOC>",
            ),
            "b": "<?xml version='1.0'?>\n<mteval>"
            + sgml("refset", "<doc docid=x><url>u</url>", segments("t", 1, 2) + "</doc>")
            + sgml("refset", "<doc docid=x></doc>")
            + "</mteval>",
        },
        boundaries="sgml",
        documents=[[("R&D <b>", "t2"), ("s1", "t1")]],
    ),
    Case(
        "source set as target",
        {
            side: sgml(
                "srcset",
                f"<doc docid=x>{segments(letter, 1, 2)}</doc>",
                f"<doc docid=y>{segments(letter, 3)}</doc>",
            )
            for side, letter in ("as", "bt")
        },
        boundaries="sgml",
        documents=SPLIT,
    ),
    Case(
        "source and reference sets in one file",
        {
            "a": "<mteval>"
            + "".join(
                sgml(
                    kind,
                    f"<doc docid=x>{segments(letter, 1, 2)}</doc>",
                    f"<doc docid=y>{segments(letter, 3)}</doc>",
                )
                for kind, letter in (("srcset", "s"), ("refset", "t"))
            )
            + "</mteval>"
        },
        trg="",
        boundaries="sgml",
        documents=SPLIT,
    ),
    Case(
        "reference in the target language",
        {"a": TWO_REFERENCES},
        trg="",
        languages=("et", "en"),
        boundaries="sgml",
        documents=SPLIT,
    ),
    Case(
        "first reference",
        {"a": TWO_REFERENCES, "b": TWO_REFERENCES},
        boundaries="sgml",
        documents=[[("s1", "u1"), ("s2", "u2")], [("s3", "t3")]],
    ),
    Case("ted with doc tags", both(TED_SIDE), boundaries="ted", documents=SPLIT),
    Case("europarl with a heading", both(EUROPARL_SIDE), boundaries="europarl", documents=SPLIT),
    Case(
        "europarl folders",
        {
            f"{side}/ep.{number}.{code}": text
            for side, code, letter in (("a", "et", "s"), ("b", "en", "t"))
            for number, text in (
                (1, f"<SPEAKER ID=1>\n{letter}1\n{letter}2\n"),
                (2, f"<SPEAKER ID=1>\n{letter}3\n"),
            )
        },
        boundaries="europarl",
        documents=SPLIT,
    ),
    Case(
        "folders with languages in the names",
        {
            "a/x-1.et.txt": "s1\ns2\n",
            "a/x-2.et.txt": "s3",
            "b/x-1.en.txt": "t1\nt2\n",
            "b/x-2.en.txt": "t3",
            "b/.hidden": "x",
        },
        languages=("et", "en"),
        boundaries="folders",
        documents=SPLIT,
    ),
    Case(
        "folder with a missing translation",
        {"a/1": "s1\ns2\n", "b/1": "t1\n\n"},
        boundaries="folders",
        documents=[[("s1", "t1"), ("s2", "")]],
    ),
    Case(
        "tmx with an external document type",
        {
            "a": '<!DOCTYPE tmx SYSTEM "http://example.org/tmx14.dtd">'
            + tmx(
                unit("x", en="t1", et="s1"),
                unit("x", en="t2", et="s2"),
                unit("y", et="s3", en="t3"),
            )
        },
        trg="",
        boundaries="tmx",
        documents=SPLIT,
    ),
    Case(
        "tmx against its direction, with a region",
        {"a": tmx(unit("x", et="t1", en="s1"), unit("x", et="t2"), unit("y", en="s3"))},
        trg="",
        languages=("", "et-EE"),
        boundaries="tmx",
        documents=[[("s1", "t1"), ("", "t2")], [("s3", "")]],
    ),
    Case(
        "tmx in three languages",
        {"a": tmx(unit("x", de="u", en="t1", et="s1"), srclang="*all*")},
        trg="a",
        languages=("et", "en"),
        boundaries="tmx",
        documents=[[("s1", "t1")]],
    ),
    Case(
        "tmx with the document as an attribute",
        {"a": tmx(unit(et="s1", en="t1").replace("<tu>", '<tu origin="x">'))},
        trg="",
        boundaries="tmx",
        documents=[[("s1", "t1")]],
    ),
    Case(
        "tmx without documents",
        {"a": tmx(unit(et="s1", en="t1"), unit(et="s2", en="t2"), unit(et="s3", en="t3"))},
        trg="",
        boundaries="none",
        documents=WHOLE,
    ),
]


@pytest.mark.parametrize("case", VARIANTS, ids=lambda case: case.name)
def test_variant(case: Case, tmp_path: Path) -> None:
    corpus = case.open(tmp_path)
    assert (corpus.boundaries, pairs_of(corpus)) == (case.boundaries, case.documents)


# Errors

LONG_GZIP = gzip.compress("".join(f"line {number}\n" for number in range(20_000)).encode())
PNG = b"\x89PNG\r\n\x1a\n\0\0"
BOMB = '<!DOCTYPE tmx [\n<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n'

ERRORS = [
    Case("no source", {}, src="", trg="", what="no source file"),
    Case("missing file", {"a": "x\n"}, where="b", what="no such file"),
    Case(
        "folder and file", {"a/1": "x", "b": "x"}, where="a", what="is a folder, but .*b is a file"
    ),
    Case("folder as doc", LINES | {"d/1": ""}, doc="d", where="d", what="is a folder"),
    Case("one folder", {"a/1": "x"}, trg="", where="a", what="only one side"),
    Case("one side only", {"a": "x\n"}, trg="", where="a", what="only one side"),
    Case(
        "one side and a doc file",
        {"a": "x\n", "d": "1\n"},
        trg="",
        doc="d",
        where="a",
        what="one side",
    ),
    Case("same file twice", {"a": "x\n"}, trg="a", where="a", what="same file"),
    Case("empty file", {"a": "x\n", "b": ""}, where="b", what="is empty"),
    Case("empty gzip file", {"a": "x\n", "b": gzip.compress(b"")}, where="b", what="is empty"),
    Case("no sentences", both("\n\n"), where="a", what="no sentences"),
    Case(
        "lengths",
        {"a": "1\n2\n3\n4\n", "b": "1\n2\n"},
        where="a:3",
        what="has 4 lines but .*b has 2",
    ),
    Case(
        "lengths, target longer",
        {"a": "1\n", "b": "1\n2\n"},
        where="b:2",
        what="2 lines but .*a has 1",
    ),
    Case(
        "invalid UTF-8",
        LINES | {"b": b"t1\nt\xff2\nt3\n"},
        where="b:2",
        what="UTF-8 at byte offset 4",
    ),
    Case("Latin-1 doc", LINES | {"d": b"x\n\xe4\nx\n"}, doc="d", where="d:2", what="byte offset 2"),
    Case("NUL", LINES | {"a": "s1\ns2\ns\0\n"}, where="a:3", what="NUL byte at byte offset 7"),
    Case("cut gzip", {"a": gzip.compress(b"x\n" * 99)[:-12], "b": "x\n"}, where="a", what="gzip"),
    Case("gzip cut far on", {"a": LONG_GZIP[:-12], "b": LONG_GZIP}, where="a:", what="gzip"),
    Case(
        "damaged gzip",
        {"a": gzip.compress(b"x\n")[:10] + b"\xff\xff\xff", "b": "x"},
        where="a",
        what="gzip",
    ),
    Case(
        "zip", {"a": b"PK\x03\x04\x14\0", "b": "x\n"}, where="a", what=r"zip archive \(or a \.docx"
    ),
    Case("image, gzipped", {"a": "x\n", "b": gzip.compress(PNG)}, where="b", what="PNG"),
    Case("UTF-16", {"a": "x".encode("utf-16"), "b": "x"}, where="a", what="UTF-16"),
    Case(
        "id comes back",
        LINES | {"d": "x\ny\nx\n"},
        doc="d",
        where="d:3",
        what="'x' comes back .*line 1",
    ),
    Case("long numbers", LINES | {"d": "0\n" + "9" * 5000}, doc="d", where="a:3", what="d has 2"),
    Case("no id", LINES | {"d": "x\n\ny\n"}, doc="d", where="d:2", what="no document id"),
    Case(
        "too few ids", LINES | {"d": "x\ny\n"}, doc="d", where="a:3", what="3 lines but .*d has 2"
    ),
    Case(
        "too many ids",
        LINES | {"d": "x\nx\nx\nx"},
        doc="d",
        where="d:4",
        what="4 lines but .*a has 3",
    ),
    Case(
        "neither ids nor starts",
        LINES | {"d": "2\n3\n"},
        doc="d",
        where="a:3",
        what="one document id per line, or",
    ),
    *(
        Case(
            f"ids cut short or starts {ids!r}",
            LINES | {"d": ids},
            doc="d",
            where="d",
            what="2 numbers without a gap for 3 lines: either document ids .*, or start lines",
        )
        for ids in ("1\n2\n", "0\n1\n")
    ),
    Case(
        "start beyond the end",
        LINES | {"d": "0\n9\n"},
        doc="d",
        where="d:2",
        what="starts on line 9, but the last line is 2",
    ),
    Case(
        "marker on one side",
        LINES | {"b": "t1\n<d>\nt3\n"},
        where="b:2",
        what="<d>.*a:2 does not have",
    ),
    Case("two markers", {"a": "s\n<d>\n", "b": "t\n_eos\n"}, where="a:2", what="<d>"),
    Case(
        "empty lines disagree",
        {"a": "s1\n\ns3\ns4\n", "b": "t1\nt2\n\nt4\n"},
        where="a:2",
        what="an empty line.*b:2",
    ),
    Case("bars", {"a": "x ||| s1 ||| t1\nx ||| s2\n"}, trg="", where="a:2", what="2 fields"),
    Case(
        "bars, id comes back",
        {"a": "x|||s|||t\ny|||s|||t\nx|||s|||t\n"},
        trg="",
        where="a:3",
        what="comes back",
    ),
    Case(
        "rows on both sides",
        {"a": "x ||| s ||| t\n", "b": "x ||| s ||| t\n"},
        where="a",
        what="holds both sides",
    ),
    Case("tsv width", {"a": "x\ts\tt\nx\ts\n"}, trg="", where="a:2", what="2 columns, not 3"),
    Case("tsv id", {"a": "x\ts\tt\n\ts\tt\n"}, trg="", where="a:2", what="no document id"),
    Case(
        "tsv document",
        {"a": "src\ttrg\ns\tt\n"},
        trg="",
        where="a:1",
        what="no document among src, trg",
    ),
    Case(
        "tsv sides",
        {"a": "doc\tsrc\tnotes\nx\ts\tn\n"},
        trg="",
        where="a:1",
        what="no target .*src, notes",
    ),
    Case(
        "broken JSON",
        {"a": '{"doc": 1, "src": "s", "trg": "t"}\n{"doc"\n'},
        trg="",
        where="a:2",
        what="broken JSON",
    ),
    Case(
        "JSON list",
        {"a": '{"doc": 1, "src": "s", "trg": "t"}\n[]\n'},
        trg="",
        where="a:2",
        what="no JSON object",
    ),
    Case(
        "JSON document",
        {"a": '{"page": 1, "src": "s", "trg": "t"}\n'},
        trg="",
        where="a:1",
        what="no document among page, src, trg",
    ),
    Case(
        "JSON sides",
        {"a": '{"doc": 1, "et": "s"}\n'},
        trg="",
        where="a:1",
        what="no source sentence among et",
    ),
    Case(
        "JSON number",
        {"a": '{"doc": 1, "src": ["s"], "trg": "t"}\n'},
        trg="",
        where="a:1",
        what="'src' is no text",
    ),
    Case(
        "JSON translation",
        {"a": '{"doc": 1, "translation": "t"}\n'},
        trg="",
        where="a:1",
        what="'translation' is no",
    ),
    Case(
        "seg on the source side only",
        {
            "a": sgml("srcset", f"<doc docid=x>{segments('s', 1)}", f"{segments('s', 2)}</doc>"),
            "b": sgml("refset", f"<doc docid=x>{segments('t', 1)}</doc>"),
        },
        where="a:3",
        what="sentence 2 of document 'x' .* in .*b",
    ),
    Case(
        "seg on the target side only",
        {
            "a": sgml("srcset", f"<doc docid=x>{segments('s', 1)}</doc>"),
            "b": sgml("refset", f"<doc docid=x>{segments('t', 1, 2)}</doc>"),
        },
        where="b:2",
        what="sentence 2",
    ),
    Case(
        "doc on the source side only",
        {
            "a": sgml("srcset", "<doc docid=x></doc>", "<doc docid=y></doc>"),
            "b": sgml("refset", "<doc docid=x></doc>"),
        },
        where="a:3",
        what="'y' has no counterpart: .*b has ended",
    ),
    Case(
        "doc on the target side only",
        {
            "a": sgml("srcset", "<doc docid=x></doc>"),
            "b": sgml("refset", "<doc docid=x></doc>", "<doc docid=y></doc>"),
        },
        where="b:3",
        what="'y' has no counterpart",
    ),
    Case(
        "docs in another order",
        {"a": sgml("srcset", "<doc docid=x></doc>"), "b": sgml("refset", "<doc docid=y></doc>")},
        where="a:2",
        what="'x' has no counterpart: .*b:2 has 'y'",
    ),
    *(
        Case(
            name,
            {
                "a": sgml("srcset", "<doc docid=x>", broken),
                "b": sgml("refset", "<doc docid=x></doc>"),
            },
            where=f"a:{line}",
            what=what,
        )
        for name, broken, line, what in (
            ("open seg", "<seg id=1>s<seg id=2>s</seg></doc>", 3, "<seg> is not closed"),
            ("open seg at the end", "<seg id=1>s\n</doc>", 3, "<seg> is not closed"),
            ("open doc", "<doc docid=y></doc>", 2, "<doc> is not closed"),
            ("open doc at the end", "", 2, "<doc> is not closed"),
            ("closed twice", "</doc></doc>", 3, "outside a document"),
            ("seg outside", "</doc><seg>s</seg>", 3, "outside a document"),
            ("seg twice", f"{segments('s', 1, 1)}</doc>", 3, "segment 1 comes twice"),
            ("doc without id", "</doc><doc>", 3, "no id"),
        )
    ),
    Case(
        "cut tag",
        {
            "a": sgml("srcset", "<doc docid=x></doc>") + "\n<doc docid=",
            "b": sgml("refset", "<doc docid=x></doc>"),
        },
        where="a",
        what="tag is not closed",
    ),
    Case(
        "malformed XML",
        {"a": dataset('<doc id="x"><src><seg id="1">s</sge></src></doc>')},
        trg="",
        where="a:3",
        what="malformed XML",
    ),
    Case(
        "cut XML", {"a": dataset('<doc id="x">')[:-12]}, trg="", where="a:3", what="malformed XML"
    ),
    Case(
        "no reference",
        {"a": dataset(f'<doc id="x">{version("src", "et", "s")}</doc>')},
        trg="",
        where="a:3",
        what="no counterpart",
    ),
    Case(
        "talk lengths",
        {
            "a": "<url>u</url>\n<talkid>1</talkid>\ns1\ns2\n",
            "b": "<url>u</url>\n<talkid>1</talkid>\nt1\n",
        },
        where="a:4",
        what="sentence 2 of document '1'",
    ),
    Case(
        "talks differ",
        {"a": "<talkid>1</talkid>\ns\n", "b": "<talkid>2</talkid>\nt\n"},
        where="a:1",
        what="'1' has no counterpart: .*b:1 has '2'",
    ),
    Case(
        "turns differ",
        {"a": "<CHAPTER ID=1>\n<SPEAKER ID=1>\ns\n", "b": "<CHAPTER ID=1>\nt\n"},
        where="b:2",
        what="sentence 1",
    ),
    Case(
        "formats differ",
        {"a": "<CHAPTER ID=1>\ns\n", "b": "t\nt\n"},
        where="a:1",
        what="<chapter> but .* plain lines",
    ),
    Case(
        "talks and lines",
        LINES | {"a": "<url>u</url>\ns\n"},
        where="a:1",
        what="<url> but .* plain",
    ),
    Case("unknown markup", both("<xliff>\n@\n"), where="a:1", what="no reader knows .<xliff>"),
    Case(
        "unknown markup, one file",
        {"a": "<?xml version='1.0'?>\n<html><p>x"},
        trg="",
        where="a:1",
        what="<html>",
    ),
    Case(
        "lonely file",
        {"a/x": "s", "a/y": "s", "b/x": "t"},
        where="a/y",
        what="no file of this name in .*b",
    ),
    Case(
        "names too alike",
        {"a/x-de": "s", "a/x-fr": "s", "b/x": "t"},
        where="a/x-fr",
        what="cannot be told",
    ),
    Case("folder in a folder", {"a/x/y": "s", "b/x": "t"}, where="a/x", what="is no file"),
    Case(
        "lengths in a folder",
        {"a/x": "s\ns\n", "b/x": "t\n"},
        where="a/x:2",
        what="2 lines but .*b/x has 1",
    ),
    Case("markup in a folder", {"a/x": "<html>\n", "b/x": "t\n"}, where="a/x", what="markup"),
    Case("empty document in a folder", {"a/x": "", "b/x": ""}, where="a/x", what="is empty"),
    Case(
        "malformed TMX",
        {"a": tmx(unit("x", et="s", en="t"), "<tu>") + "\n"},
        trg="",
        where="a:4",
        what="mismatched tag",
    ),
    Case(
        "TMX bomb",
        {"a": BOMB + tmx(unit("x", et="&b;", en="t"))},
        trg="",
        where="a:2",
        what="entity 'a'",
    ),
    Case(
        "TMX entity from outside",
        {"a": '<!DOCTYPE tmx SYSTEM "x.dtd">\n' + tmx(unit("x", et="&x;", en="t"))},
        trg="",
        where="a:3",
        what="entity 'x'",
    ),
    Case("TMX without units", {"a": tmx()}, trg="", where="a", what="no translation unit"),
    Case(
        "TMX without the language",
        {"a": tmx(unit("x", et="s", en="t"))},
        trg="",
        languages=("et", "fr"),
        where="a",
        what="language 'fr', only en, et",
    ),
    Case(
        "TMX in one language",
        {"a": tmx(unit("x", et="s"))},
        trg="",
        where="a",
        what="only one language, et",
    ),
    Case(
        "TMX in three languages",
        {"a": tmx(unit("x", et="s", en="t", de="u"))},
        trg="",
        where="a:2",
        what="3 languages .et, en, de",
    ),
    Case(
        "TMX with some documents",
        {"a": tmx(unit("x", et="s", en="t"), unit(et="s", en="t"))},
        trg="",
        where="a:3",
        what="names no document",
    ),
    Case(
        "TMX document comes back",
        {"a": tmx(*(unit(name, et="s", en="t") for name in "xyx"))},
        trg="",
        where="a:4",
        what="comes back",
    ),
    Case(
        "TMX on both sides",
        {"a": tmx(unit("x", et="s", en="t")), "b": tmx(unit("x", et="s", en="t"))},
        where="a",
        what="holds both sides",
    ),
]


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.name)
def test_error_names_the_place(case: Case, tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        list(case.open(tmp_path))
    message = str(caught.value)
    place = f"{tmp_path / case.where}" if case.where else ""
    assert caught.value.where.startswith(place)
    if not case.where.endswith(":"):
        assert caught.value.where == place
    assert re.search(case.what, message)
    assert caught.value.fix
    assert "\n" not in message


def test_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    with pytest.raises(UserError, match="read more than once"):
        read_corpus(corpus_files(tmp_path, "a", "a"))


# Lines


def test_lines_end_at_line_feeds_only(tmp_path: Path) -> None:
    odd = "a\u2028b\x0bc\x0cd\x85e\x1cf\rg"
    write_files(tmp_path, {"a": f"\ufeff{odd}\r\nlast", "b": "x\ny\r\n"})
    corpus = read_corpus(corpus_files(tmp_path, "a", "b"))
    assert pairs_of(corpus) == [[(odd, "x"), ("last", "y")]]


# Streams


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("x{} ||| s ||| t\n", "broken"),
        ('<tu><prop type="document">{}</prop><tuv lang="et"><seg>s</seg></tuv>'
         '<tuv lang="en"><seg>t</seg></tuv></tu>', "</broken>"),
    ],
    ids=["triple-bar", "tmx"],
)  # fmt: skip
def test_documents_come_before_the_end_is_read(good: str, bad: str, tmp_path: Path) -> None:
    start = "<tmx>" if good.startswith("<") else ""
    text = start + "".join(good.format(number) for number in range(30_000)) + bad
    write_files(tmp_path, {"a": text}, packed=True)
    corpus = read_corpus(corpus_files(tmp_path, "a"))
    tracemalloc.start()
    documents = iter(corpus)
    assert pairs_of([next(documents), next(documents)]) == [[("s", "t")], [("s", "t")]]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(text)  # though the TMX is a single line
    with pytest.raises(UserError):
        list(documents)


# Dates and pieces of memories


@pytest.mark.parametrize(
    ("given", "date"),
    [
        ("20260118T101500Z", "2026-01-18T10:15:00Z"),
        ("2026-01-18T10:15:00Z", "2026-01-18T10:15:00Z"),
        ("2026-01-18T10:15", "2026-01-18T10:15:00"),
        ("20260118", "2026-01-18"),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates_of_a_memory_become_iso(given: str, date: str) -> None:
    assert tmx_reader.iso_date(given) == date


def test_a_unit_has_the_newest_date_of_itself_and_its_target(tmp_path: Path) -> None:
    old, new = "20250101T000000Z", "20260118T101500Z"
    dated = unit(et="s", en="t").replace("<tu>", f'<tu creationdate="{old}">')
    changed = dated.replace('lang="en"', f'lang="en" changedate="{new}" creationdate="{old}"')
    other_side = dated.replace('lang="et"', f'lang="et" changedate="{new}"')
    write_files(tmp_path, {"a": tmx(dated, changed, other_side)})
    (document,) = read_corpus(corpus_files(tmp_path, "a"))
    dates = [(pair.date, pair.line) for pair in document]
    early, late = "2025-01-01T00:00:00Z", "2026-01-18T10:15:00Z"
    assert dates == [(early, 2), (late, 3), (early, 4)]


def test_pieces_of_a_memory_come_in_any_order(tmp_path: Path) -> None:
    units = [unit(name, et=f"s{i}", en="t") for i, name in enumerate(["x", "y", "x", ""])]
    write_files(tmp_path, {"a": tmx(*units)})
    inputs = Inputs.check(corpus_files(tmp_path, "a"))
    found = [(d.name, [p.src for p in d]) for d in tmx_reader.read_pieces(inputs)]
    assert found == [("x", ["s0"]), ("y", ["s1"]), ("x", ["s2"]), ("1", ["s3"])]
    assert tmx_reader.find_sides(inputs) == ("et", "en")


# Round trips


def plain_text(forbidden: str = "") -> st.SearchStrategy[str]:
    letters = st.characters(
        codec="utf-8", exclude_categories=["Cs", "Cc"], exclude_characters="<{|" + forbidden
    )
    sentences = st.text(letters | st.sampled_from("\u2028\x85 "), min_size=1, max_size=8)
    return sentences.map(str.strip).filter(lambda text: text != "" and text[0] not in "#_\ufeff")


def markup_text() -> st.SearchStrategy[str]:
    return plain_text("\ufffe\uffff") | st.sampled_from(["<b>", "a & b", "&amp;", "x < y > z", '"'])


def documents_of(text: st.SearchStrategy[str]) -> st.SearchStrategy[Pairs]:
    return st.lists(st.lists(st.tuples(text, text), min_size=1, max_size=4), min_size=1, max_size=4)


def write_sides(folder: Path, documents: Pairs, layout: Callable[[int, list[str]], str]) -> None:
    for side, name in enumerate("ab"):
        texts = (layout(t, [pair[side] for pair in pairs]) for t, pairs in enumerate(documents))
        write_files(folder, {name: "".join(texts)})


def as_ids(folder: Path, documents: Pairs) -> CorpusFiles:
    write_sides(folder, documents, lambda _, lines: "".join(f"{line}\n" for line in lines))
    ids = (f"d{t}\n" for t, pairs in enumerate(documents) for _ in pairs)
    write_files(folder, {"d": "".join(ids)})
    return corpus_files(folder, "a", "b", "d")


def as_starts(folder: Path, documents: Pairs) -> CorpusFiles:
    as_ids(folder, documents)
    starts = list(accumulate((len(pairs) for pairs in documents), initial=0))[:-1]
    # Without a gap they are refused, unless each sentence, or all of them, are a document.
    assume(len(starts) == 1 or starts[-1] >= len(starts) or len(documents[-1]) == 1)
    write_files(folder, {"d": "".join(f"{start}\n" for start in starts)})
    return corpus_files(folder, "a", "b", "d")


def as_markers(folder: Path, documents: Pairs) -> CorpusFiles:
    write_sides(folder, documents, lambda _, lines: "\n".join(["<d>", *lines, ""]))
    return corpus_files(folder, "a", "b")


def as_empty_lines(folder: Path, documents: Pairs) -> CorpusFiles:
    write_sides(folder, documents, lambda _, lines: "\n".join([*lines, "", ""]))
    return corpus_files(folder, "a", "b")


def as_rows(folder: Path, documents: Pairs, row: str) -> CorpusFiles:
    rows = (row.format(t, src, trg) for t, pairs in enumerate(documents) for src, trg in pairs)
    write_files(folder, {"a": "\n".join(rows)})
    return corpus_files(folder, "a")


def as_json(folder: Path, documents: Pairs) -> CorpusFiles:
    rows = (
        json.dumps({"doc": t, "src": src, "trg": trg}, ensure_ascii=t % 2 == 0)
        for t, pairs in enumerate(documents)
        for src, trg in pairs
    )
    write_files(folder, {"a": "\n".join(rows)})
    return corpus_files(folder, "a")


def as_ted(folder: Path, documents: Pairs) -> CorpusFiles:
    head = "<url>x</url>\n<talkid>{}</talkid>"
    write_sides(folder, documents, lambda t, lines: "\n".join([head.format(t), *lines, ""]))
    return corpus_files(folder, "a", "b")


def as_europarl(folder: Path, documents: Pairs) -> CorpusFiles:
    write_sides(folder, documents, lambda t, lines: "\n".join([f"<SPEAKER ID={t}>", *lines, ""]))
    return corpus_files(folder, "a", "b")


def as_folders(folder: Path, documents: Pairs) -> CorpusFiles:
    for t, pairs in enumerate(documents):
        for side, name in enumerate(("f", "g")):
            write_files(folder, {f"{name}/{t}": "\n".join(pair[side] for pair in pairs)})
    return corpus_files(folder, "f", "g")


def as_sgml(folder: Path, documents: Pairs) -> CorpusFiles:
    def layout(t: int, lines: list[str]) -> str:
        segs = (f"<seg id={i}> {html.escape(line)} </seg>\n" for i, line in enumerate(lines))
        return f"{'<srcset>' if t == 0 else ''}<doc docid={t}>{''.join(segs)}</doc>"

    write_sides(folder, documents, layout)
    return corpus_files(folder, "a", "b")


def as_dataset(folder: Path, documents: Pairs) -> CorpusFiles:
    docs = (
        f'<doc id="{t}">{version("src", "et", *(html.escape(src) for src, _ in pairs))}'
        f"{version('ref', 'en', *(html.escape(trg) for _, trg in pairs))}</doc>"
        for t, pairs in enumerate(documents)
    )
    write_files(folder, {"a": dataset(*docs)})
    return corpus_files(folder, "a")


def as_tmx(folder: Path, documents: Pairs) -> CorpusFiles:
    units = (
        unit(f"d{t}", et=html.escape(src), en=html.escape(trg))
        for t, pairs in enumerate(documents)
        for src, trg in pairs
    )
    write_files(folder, {"a": tmx(*units)})
    return corpus_files(folder, "a")


ROUND_TRIPS: dict[str, tuple[Callable[[Path, Pairs], CorpusFiles], st.SearchStrategy[str]]] = {
    "document-ids": (as_ids, plain_text()),
    "start-lines": (as_starts, plain_text()),
    "marker-lines": (as_markers, plain_text()),
    "empty-lines": (as_empty_lines, plain_text()),
    "triple-bar": (partial(as_rows, row="{} ||| {} ||| {}"), plain_text()),
    "tsv": (  # a first row with the name of a column is a header
        partial(as_rows, row="{}\t{}\t{}"),
        plain_text().filter(lambda text: text.lower() not in {*SRC_NAMES, *TRG_NAMES}),
    ),
    "jsonl": (as_json, plain_text() | st.sampled_from(['"', "\\", "{", "|||", "<d>"])),
    "ted": (as_ted, plain_text()),
    "europarl": (as_europarl, plain_text()),
    "folders": (as_folders, plain_text()),
    "sgml": (as_sgml, markup_text()),
    "dataset": (as_dataset, markup_text()),
    "tmx": (as_tmx, markup_text()),
}


@pytest.mark.parametrize("convention", ROUND_TRIPS)
def test_what_is_written_is_read(convention: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    write, text = ROUND_TRIPS[convention]

    @settings(max_examples=25, deadline=None)
    @given(documents_of(text))
    def check(documents: Pairs) -> None:
        folder = tmp_path_factory.mktemp(convention)
        assert pairs_of(read_corpus(write(folder, documents))) == documents

    check()


# Text to be translated


def source_documents(text: str, doc: str = "") -> tuple[str, list[list[tuple[int, str]]]]:
    found = read_source_lines(io.BytesIO(text.encode()), doc)
    assert list(found.lines) == text.removesuffix("\n").split("\n")
    documents = [list(document.sentences) for document in found.documents]
    return found.boundaries, documents


@pytest.mark.parametrize(
    ("text", "boundaries", "documents"),
    [
        ("a\nb\n", "none", [[(0, "a"), (1, "b")]]),
        ("a\n\nb\nc\nd", "empty-lines", [[(0, "a"), (1, "")], [(2, "b"), (3, "c"), (4, "d")]]),
        ("\na\nb\n\n\nc\nd", "empty-lines",
         [[(0, ""), (1, "a"), (2, "b"), (3, ""), (4, "")], [(5, "c"), (6, "d")]]),
        ("a\n\nb", "paragraphs", [[(0, "a"), (1, ""), (2, "b")]]),
        ("a\n\nb\nc", "paragraphs", [[(0, "a"), (1, ""), (2, "b"), (3, "c")]]),
        ("\na\nb\n\n", "none", [[(0, ""), (1, "a"), (2, "b"), (3, "")]]),
        ("\n\n", "none", [[(0, ""), (1, "")]]),
        ("<d>\na\n\n<d>\n<d>\nb\n", "marker-lines", [[(1, "a"), (2, "")], [(5, "b")]]),
        ("a\n_eos\n", "marker-lines", [[(0, "a")]]),
    ],
)  # fmt: skip
def test_source_boundaries_inside_the_text(
    text: str, boundaries: str, documents: list[list[tuple[int, str]]]
) -> None:
    assert source_documents(text) == (boundaries, documents)


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("a\nb\n", "1 document, no boundaries found"),
        ("a\nb\n\nc\nd\n", "2 documents, by empty lines"),
        ("a\n\nb\n\nc\n", "1 document; its empty lines are taken to set off paragraphs"),
        ("a\n<d>\nb\n", "2 documents, by marker lines"),
        ("", "0 documents, no boundaries found"),
    ],
)
def test_source_says_what_was_found(text: str, summary: str) -> None:
    assert read_source_lines(io.BytesIO(text.encode())).summary == summary


def test_source_documents_are_counted_from_one() -> None:
    text = read_source_lines(io.BytesIO(b"<d>\na\n<d>\n<d>\nb\n"))
    assert [document.name for document in text.documents] == ["1", "2"]


@pytest.mark.parametrize(
    ("doc", "boundaries"), [("x\nx\ny\n", "document-ids"), ("0\n2\n", "start-lines")]
)
def test_source_boundaries_in_a_doc_file(doc: str, boundaries: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"d": doc})
    expected = [[(0, "a"), (1, "")], [(2, "<d>")]]
    assert source_documents("a\n\n<d>\n", str(tmp_path / "d")) == (boundaries, expected)


def test_source_from_a_gzipped_file_and_stream(tmp_path: Path) -> None:
    write_files(tmp_path, {"a": "ä\nb\n"}, packed=True)
    from_file = read_source_lines(tmp_path / "a")
    from_stream = read_source_lines(io.BytesIO((tmp_path / "a").read_bytes()))
    assert from_file == from_stream
    assert from_file.lines == ("ä", "b")


def test_source_without_lines() -> None:
    text = read_source_lines(io.BytesIO(b""))
    assert (text.lines, text.documents, text.boundaries) == ((), (), "none")


@pytest.mark.parametrize(
    ("data", "doc", "message"),
    [
        (b"a\n\xff\n", "", "standard input:2: invalid UTF-8 at byte offset 2"),
        (b"PK\x03\x04", "", "standard input: this is a zip archive"),
        (b"a\nb\n", "x\n", "standard input:2: has 2 lines but .* has 1; a doc file holds"),
        (b"a\nb\nc\n", "0\n7\n", ":2: a document starts on line 7"),
        (gzip.compress(b"a\n" * 9999, mtime=0)[:-12], "", "gzip data is cut off"),
    ],
)
def test_source_error(data: bytes, doc: str, message: str, tmp_path: Path) -> None:
    write_files(tmp_path, {"d": doc})
    with pytest.raises(UserError) as caught:
        read_source_lines(io.BytesIO(data), str(tmp_path / "d") if doc else "")
    assert re.search(message, str(caught.value))


@pytest.mark.parametrize("fault", ["invalid text", "a document that comes back"])
def test_an_error_that_is_kept_keeps_no_file_open(fault: str, tmp_path: Path) -> None:
    (tmp_path / "src").write_text("x\n" * 5)
    (tmp_path / "trg").write_bytes(b"x\n\xe9\nx\nx\nx\n" if fault == "invalid text" else b"x\n" * 5)
    (tmp_path / "doc").write_text("a\nb\na\nc\nc\n")
    names = [str(tmp_path / name) for name in ("src", "trg", "doc")]
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(UserError) as kept:
            list(read_corpus(CorpusFiles(*names[:2] if fault == "invalid text" else names)))
        held = [file for file in gc.get_objects() if type(file) is io.FileIO]
        assert [file.name for file in held if not file.closed and file.name in names] == []
    finally:
        gc.enable()
    assert kept.value.where


def test_hidden_files_of_a_folder_are_no_change(tmp_path: Path) -> None:
    for side in ("a.src", "a.trg"):
        (tmp_path / side).write_text("one\n", encoding="utf-8")
    before = fingerprint(CorpusFiles(str(tmp_path)))
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / ".git").mkdir()
    assert before is not None
    assert fingerprint(CorpusFiles(str(tmp_path))) == before


def read_units(path: Path, units: str, head: str = "", encoding: str = "UTF-8") -> list[Any]:
    """The pairs of a TMX file of these units."""
    start = f'<?xml version="1.0" encoding="{encoding}"?><tmx><header srclang="{head}"/><body>'
    path.write_bytes(f"{start}{units}</body></tmx>".encode(encoding))
    return [(pair.src, pair.trg) for each in read_corpus(CorpusFiles(str(path))) for pair in each]


def unit_of(*texts: str, attributes: str = "") -> str:
    """A unit of texts after their languages."""
    sides = zip(texts[::2], texts[1::2], strict=True)
    parts = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in sides)
    return f"<tu {attributes}>{''.join(parts)}</tu>"


def test_a_memory_may_have_several_countries(tmp_path: Path) -> None:
    units = unit_of("de-DE", "a", "en-US", "x") + unit_of("de-AT", "b", "en-GB", "y")
    assert read_units(tmp_path / "a.tmx", units, "de-DE") == [("a", "x"), ("b", "y")]


def test_a_unit_may_have_several_translations(tmp_path: Path) -> None:
    units = unit_of("de", "a", "en", "x", "en", "y", "en", "x")
    assert read_units(tmp_path / "a.tmx", units, "de") == [("a", "x"), ("a", "y")]


def test_any_language_may_be_the_source_of_a_unit(tmp_path: Path) -> None:
    units = unit_of("de", "a", "en", "x", attributes='srclang="*all*"')
    assert read_units(tmp_path / "a.tmx", units, "*all*") == [("a", "x")]


def test_lines_of_a_segment_are_not_glued(tmp_path: Path) -> None:
    units = unit_of("de", 'a<ph type="lb"/>b', "en", 'x<ph type="lb"/>y')
    assert read_units(tmp_path / "a.tmx", units) == [("a b", "x y")]


@pytest.mark.parametrize("encoding", ["UTF-8", "ISO-8859-1", "windows-1252", "iso-8859-15"])
def test_a_memory_is_in_the_encoding_that_it_names(tmp_path: Path, encoding: str) -> None:
    units = unit_of("de", "Tür", "en", "é")
    assert read_units(tmp_path / "a.tmx", units, encoding=encoding) == [("Tür", "é")]
