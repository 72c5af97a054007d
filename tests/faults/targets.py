"""What is fuzzed: every reader of files from outside, with inputs to begin from.

A target takes bytes and a folder of its own. It returns where it has a right answer and raises
``UserError`` where the input is at fault; whatever else happens is a fault of ours.
"""

import io
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from toy import toy_config, write_toy

from wholedoc.app.documents import read_sentences
from wholedoc.app.export import export_model
from wholedoc.config import CorpusFiles, load_config
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.glossary import Glossary
from wholedoc.corpus.readers import read_corpus, read_source_lines
from wholedoc.corpus.vocabulary import SubwordVocabulary, load_vocabulary
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.experiment.grid import load_experiment
from wholedoc.formats import FORMATS, format_named
from wholedoc.metrics.discourse_sets import read_contrastive
from wholedoc.store.checkpoint import Position, load_checkpoint, save_checkpoint
from wholedoc.store.run import format_toml
from wholedoc.tm.memory import MemoryWriter, TranslationMemory
from wholedoc.tm.sources import open_source
from wholedoc.training.stages import train

CUT = b"\n%%%%\n"
"""Between the files of an input that has several."""
SECRET = "a secret of another file"
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@dataclass(frozen=True)
class Target:
    """A reader, inputs to begin from, and words that its inputs are made of."""

    name: str
    run: Callable[[bytes, Path], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    slow: bool = False
    """Whether an input takes many milliseconds: then fewer are tried."""


# Corpora

_PAIR_SEEDS = {
    "document-ids": b"s1\ns2\n%%%%\nt1\nt2\n%%%%\nd1\nd2\n",
    "start-lines": b"s1\ns2\ns3\n%%%%\nt1\nt2\nt3\n%%%%\n0\n2\n",
    "marker-lines": b"s1\n<d>\ns2\n%%%%\nt1\n<d>\nt2\n",
    "empty-lines": b"s1\ns2\n\ns3\ns4\n%%%%\nt1\nt2\n\nt3\nt4\n",
    "none": b"s1\n%%%%\nt1\n",
    "ted": b"<url>http://x</url>\n<talkid>1</talkid>\n<title>A</title>\ns1\ns2\n%%%%\n"
    b"<url>http://x</url>\n<talkid>1</talkid>\n<title>B</title>\nt1\nt2\n",
    "europarl": b'<CHAPTER ID=1>\ns1\n<SPEAKER ID=1 NAME="A">\ns2\n<P>\ns3\n%%%%\n'
    b'<CHAPTER ID=1>\nt1\n<SPEAKER ID=1 NAME="A">\nt2\n<P>\nt3\n',
    "sgml": b'<srcset setid="a" srclang="any"><doc docid="d1">\n<seg id="1">s1</seg>\n'
    b'<seg id="2">s2 &amp; s3</seg>\n</doc></srcset>\n%%%%\n'
    b'<refset setid="a" trglang="en"><doc docid="d1">\n<seg id="1">t1</seg>\n'
    b'<seg id="2">t2</seg>\n</doc></refset>\n',
}
_FILE_SEEDS = {
    "tmx": b'<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4">'
    b'<header srclang="de"/><body><tu changedate="20260118T101500Z">'
    b'<prop type="x-document">d1</prop><tuv xml:lang="de"><seg>s1 <bpt i="1">x</bpt>b'
    b'<ept i="1">y</ept></seg></tuv><tuv xml:lang="en"><seg>t1 &lt;</seg></tuv></tu></body></tmx>',
    "wmt": b'<?xml version="1.0"?>\n<dataset id="a"><doc id="d1" origlang="de"><src lang="de"><p>'
    b'<seg id="1">s1</seg></p></src><ref lang="en" translator="A"><p><seg id="1">t1</seg></p>'
    b"</ref></doc></dataset>",
    "jsonl": b'{"doc": "d1", "src": "s1", "trg": "t1"}\n'
    b'{"doc": 2, "translation": {"de": "s2", "en": "t2"}}\n',
    "triple-bar": b"d1 ||| s1 ||| t1\nd1 ||| s2 ||| t2\n",
    "tsv": b"doc\tsrc\ttrg\nd1\ts1\tt1\nd2\ts2\tt2\n",
}
_MARKUP = (
    b"<tu>", b"</tu>", b"<seg>", b"</seg>", b'<seg id="1">', b"<doc>", b"</doc>", b"<!--", b"-->",
    b"<![CDATA[", b"]]>", b"&amp;", b"&lol;", b"&#0;", b"&#xD800;", b"<!DOCTYPE a [",
    b'<!ENTITY lol "lol">', b'<!ENTITY x SYSTEM "file:///etc/passwd">', b"]>", b"<?xml ", b"?>",
    b'encoding="utf-16"', b"xml:lang", b"\xff\xfe", b"\xef\xbb\xbf", b"\x00",
)  # fmt: skip
_LINES = (b"\n", b"\r\n", b"\r", b"\x1f\x8b", b"<d>", b"####", b"\t", b" ||| ", b"0\n", b"1\n",
          b"\xed\xa0\x80", b"\xc2\x85", b"\xe2\x80\xa8", b"\\ud800", CUT)  # fmt: skip


def _read_corpus(data: bytes, folder: Path) -> None:
    paths = [folder / name for name in ("src", "trg", "doc")]
    parts = data.split(CUT)[:3]
    for path, part in zip(paths, parts, strict=False):
        path.write_bytes(part)
    given = [str(path) for path in paths[: len(parts)]]
    corpus = read_corpus(CorpusFiles(*given), "de", "en")
    names = [document.name for document in corpus]
    assert all(names)
    assert len(set(names)) == len(names)


def _read_source(data: bytes, folder: Path) -> None:
    text, _, doc = data.partition(CUT)
    (folder / "doc").write_bytes(doc)
    found = read_source_lines(io.BytesIO(text), str(folder / "doc") if doc else "")
    placed = [place for document in found.documents for place, _ in document.sentences]
    assert len(set(placed)) == len(placed) <= len(found.lines)


def _read_contrastive(data: bytes, folder: Path) -> None:
    (folder / "set").write_bytes(data)
    assert read_contrastive(folder / "set")


_CONTRASTIVE = (
    b'{"source": ["s1", "s2"], "sentence": 1, "reference": "t2", "alternatives": ["t3"],'
    b' "target": ["t1", "t2"], "kind": "pronoun"}\n'
)


# Configurations


def _read_config(data: bytes, folder: Path) -> None:
    file = folder / "a.toml"
    file.write_bytes(data)
    config = load_config(file)
    again = folder / "b.toml"
    again.write_text(format_toml(config.to_dict()), encoding="utf-8")
    assert load_config(again) == config


def _read_settings(data: bytes, folder: Path) -> None:
    load_config("tiny", data.decode("utf-8", "replace").split("\0"))


def _read_experiment(data: bytes, folder: Path) -> None:
    (folder / "a.toml").write_bytes(data)
    assert load_experiment(folder / "a.toml", folder / "out").jobs()


_TOML = (b"[", b"]", b"[[", b"]]", b"=", b'"""', b"'''", b"\\u0000", b"\\ud800", b"inf", b"nan",
         b"-0", b"1979-05-27T07:32:00Z", b"9" * 400, b"true", b"{", b"}", b"model", b"hidden",
         b"base", b"stage1", b"a.b.c", b"1e999")  # fmt: skip


# Glossaries

_TBX = (
    b'<?xml version="1.0"?><!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd"><martif><text><body>'
    b'<termEntry><langSet xml:lang="de"><tig><term>Haus</term></tig></langSet>'
    b'<langSet xml:lang="en"><tig><term>house</term></tig></langSet></termEntry></body></text>'
    b"</martif>"
)


def _read_glossary(data: bytes, folder: Path) -> None:
    glossary = Glossary.parse(data, "de", "en", "glossary")
    text = " ".join(["Das Haus und die Häuser.", *(entry.source for entry in glossary.entries[:9])])
    for found in glossary.find(text):
        assert 0 <= found.start < found.end <= len(text)


# Documents

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-'
    'officedocument.wordprocessingml.document.main+xml"/></Types>'
)
_DOCX = (
    f'<w:document xmlns:w="{_WORD}"><w:body><w:p><w:r><w:t>Das ist </w:t></w:r><w:r><w:rPr><w:b/>'
    "</w:rPr><w:t>gut</w:t></w:r><w:r><w:tab/><w:t>und.</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p>"
    '<w:hyperlink w:anchor="a"><w:r><w:t>hier</w:t></w:r></w:hyperlink></w:p></w:tc></w:tr>'
    '</w:tbl><w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "x"'
    '</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>da</w:t></w:r>'
    '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p></w:body></w:document>'
).encode()
_OFFICE = "urn:oasis:names:tc:opendocument:xmlns"
_ODT = (
    f'<office:document-content xmlns:office="{_OFFICE}:office:1.0" xmlns:text="{_OFFICE}:text:1.0"'
    f' xmlns:style="{_OFFICE}:style:1.0" xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo'
    '-compatible:1.0"><office:automatic-styles><style:style style:name="T1" style:family="text">'
    '<style:text-properties fo:font-weight="bold"/></style:style></office:automatic-styles>'
    "<office:body><office:text><text:h>Ein Titel</text:h><text:p>Das ist "
    '<text:span text:style-name="T1">gut</text:span><text:s text:c="3"/>und<text:line-break/>'
    '<text:a xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="x">hier</text:a>.</text:p>'
    "</office:text></office:body></office:document-content>"
).encode()
_XLIFF1 = (
    b'<?xml version="1.0"?><xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">'
    b'<file source-language="de" target-language="en" datatype="x" original="a"><body>'
    b'<trans-unit id="1"><source>Das <g id="1">ist</g> <x id="2"/>gut.</source>'
    b'<target state="final">This</target></trans-unit><trans-unit id="2" approved="yes"><source>A'
    b'</source><seg-source><mrk mtype="seg" mid="0">A</mrk></seg-source></trans-unit></body></file>'
    b"</xliff>"
)
_XLIFF2 = (
    b'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en">'
    b'<file id="f"><unit id="1"><segment><source>Das <pc id="1">ist</pc> <sc id="2"/>gut'
    b'<ec startRef="2"/>.</source></segment></unit></file></xliff>'
)
_HTML = (
    b'<!DOCTYPE html><html lang="de"><head><meta charset="utf-8"><title>Ein Titel</title>'
    b'<meta name="description" content="Text"><style>p{}</style></head><body><p>Das <b>ist</b>'
    b' &uuml;ber <img alt="Bild" src=x>.</p><pre>code</pre><ul><li>eins<li>zwei</ul>'
    b'<!-- x --><script>var a = "</p>";</script></body></html>'
)
_MARKDOWN = (
    b'---\ntitle: x\n---\n# Ein *Titel*\n\nDas **ist** [gut](http://x "t") und `code`.\n\n'
    b"* eins\n* zwei\n\n> Zitat\n\n| a | b |\n|---|---|\n| c \\| d | e |\n\n```\ncode\n```\n\n"
    b"[^1]: Note\n\n![Bild][r] &amp; <b>x</b>\n\n[r]: http://y\n"
)
_PO = (
    b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nLanguage: \\n"\n\n#, fuzzy\n'
    b'#: a.c:1\nmsgctxt "m"\nmsgid "Das ist\\n"\n"gut: %s"\nmsgstr ""\n\nmsgid "ein"\n'
    b'msgid_plural "viele"\nmsgstr[0] ""\nmsgstr[1] ""\n\n#~ msgid "alt"\n#~ msgstr "old"\n'
)
_SRT = (
    b"1\n00:00:01,000 --> 00:00:02,000\n<i>Das ist</i>\ngut.\n\n2\n00:00:03,000 --> 00:00:04,000\n"
    b"- Ja\n- Nein\n"
)
_VTT = (
    b"WEBVTT\n\nSTYLE\n::cue {}\n\nNOTE x\n\na\n00:01.000 --> 00:02.000 align:start\n"
    b"<v Anna>Das ist &amp; gut</v>\n\n00:03.000 --> 00:04.000\nund\n"
)
_DOCUMENT_WORDS: dict[str, tuple[bytes, ...]] = {
    "markdown": (b"*", b"**", b"_", b"`", b"```\n", b"[", b"](", b"![", b"|", b"\n|---|\n", b"> ",
                 b"- ", b"1. ", b"# ", b"\n===\n", b"<b>", b"\\", b"&", b"~~", b"[^1]", b"    ",
                 b"\t", b"---\n", b"]: ", b"<!--"),
    "html": (b"<b>", b"</b>", b"<p>", b"</", b"<!--", b"-->", b'="', b"&uuml;", b"&#x", b"<pre>",
             b"<title>", b"<textarea>", b'translate="no"', b"<![CDATA[", b"<?php", b"charset=",
             b"iso-8859-1", b"utf-16", b"\xff"),
    "po": (b"msgid ", b"msgstr ", b'msgstr[0] "', b"msgid_plural", b"msgctxt", b"#~ ", b"#| ",
           b"#, fuzzy\n", b'"\n"', b"\\n", b"\\x", b"\\777", b"charset=", b"latin-1", b"utf-7"),
    "subtitles": (b"-->", b"00:00:00,000", b"WEBVTT", b"<i>", b"</i>", b"{\\an8}", b"\\N", b"- ",
                  b"STYLE", b"NOTE", b"&lt;", b"\n\n"),
    "text": (b"\n", b"\r\n", b"\r", b". ", b"http://a.b/", b"a@b.c", b"{x}", b"%s", b"--a="),
}  # fmt: skip
_INLINE = (
    b"<w:p>", b"</w:p>", b"<w:r>", b"</w:r>", b"<w:t>", b"</w:t>", b"<w:br/>", b"<w:del>",
    b'<w:fldChar w:fldCharType="begin"/>', b'<w:fldChar w:fldCharType="end"/>', b"<w:sdt>",
    b"<text:p>", b"</text:p>", b"<text:span>", b"</text:span>", b"<text:a>", b"<text:note/>",
    b'<text:s text:c="99999999999"/>', b'<g id="1">', b"</g>", b'<x id="1"/>', b'<bx id="3"/>',
    b'<ex id="3"/>', b'<sc id="1"/>', b'<ec startRef="1"/>', b"<mrk>", b"<source>", b"<target/>",
)  # fmt: skip


def _read_document(name: str, data: bytes, folder: Path) -> None:
    """Read a document, write it with nothing new and with its own text, and read that again."""
    kind = format_named(name)
    file = kind(data, "document", "de", "en")
    read_sentences(file.segments, "de", "en")
    count = len(file.segments)
    assert len(kind(file.write([None] * count), "document", "de", "en").segments) == count
    same = file.write([segment.source for segment in file.segments])
    kind(same, "document", "de", "en")
    assert SECRET.encode() not in same


def pack(parts: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive of some members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return stream.getvalue()


def unpack(data: bytes) -> dict[str, bytes]:
    """The members of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def make_docx(part: bytes) -> bytes:
    """A Word document whose main part is given."""
    return pack({"[Content_Types].xml": _TYPES.encode(), "word/document.xml": part})


def make_odt(part: bytes) -> bytes:
    """An OpenDocument text whose content is given."""
    return pack({"mimetype": b"application/vnd.oasis.opendocument.text", "content.xml": part})


def _documents() -> Iterator[Target]:
    markdown = [_MARKDOWN, (EXAMPLES / "washer-dryer.md").read_bytes()]
    seeds = {
        "text": [b"Das ist gut. Und das auch!\n\nEin Satz mit http://x.y/z und {name}.\n"],
        "markdown": markdown,
        "html": [_HTML, b"<p>a<br>b", "<meta charset=cp1252><p>ü".encode("cp1252")],
        "docx": [make_docx(_DOCX)],
        "odt": [make_odt(_ODT)],
        "subtitles": [_SRT, _VTT],
        "xliff": [_XLIFF1, _XLIFF2],
        "po": [_PO],
    }
    for kind in FORMATS:
        words = (*_DOCUMENT_WORDS.get(kind.name, (*_MARKUP, *_INLINE)), *_LINES)
        yield Target(kind.name, partial(_read_document, kind.name), seeds[kind.name], words)
    for name, make, seed in (("docx", make_docx, _DOCX), ("odt", make_odt, _ODT)):

        def read(
            data: bytes,
            folder: Path,
            *,
            name: str = name,
            make: Callable[[bytes], bytes] = make,
        ) -> None:
            _read_document(name, make(data), folder)

        yield Target(f"{name} part", read, [seed], (*_MARKUP, *_INLINE))


# What wholedoc has written itself, and somebody or something has changed since


_MODEL = ("config.toml", "src.vocabulary", "trg.vocabulary", "stage1.safetensors", "lexicon.tsv",
          "recall.safetensors")  # fmt: skip


def _seeds_of(folder: Path, names: Sequence[str]) -> list[bytes]:
    return [(folder / name).read_bytes() for name in names]


def _with_file(data: bytes, folder: Path, original: Path, name: str) -> Path:
    """A copy of a directory in which one file has other content."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(original, copy)
    (copy / name).write_bytes(data)
    return copy


def _open_model(name: str, original: Path, data: bytes, folder: Path) -> None:
    model = _with_file(data, folder, original, name)
    (found,) = Translator.load(model).translate(["s1 s2 s3"]).sentences
    assert isinstance(found, str)


def _open_vocabulary(data: bytes, folder: Path) -> None:
    (folder / "vocabulary").write_bytes(data)
    vocabulary = load_vocabulary(folder / "vocabulary")
    for text in ("s1 s2", "Das ist ein Satz. ▁ \ufdd0", ""):
        ids = vocabulary.encode(text)
        assert all(0 <= i < len(vocabulary) for i in ids)
        assert isinstance(vocabulary.decode(ids), str)


def _open_checkpoint(data: bytes, folder: Path) -> None:
    (folder / "checkpoint").write_bytes(data)
    model = torch.nn.Linear(3, 2)
    load_checkpoint(folder / "checkpoint", model, torch.optim.Adam(model.parameters()))


def _open_memory(name: str, original: Path, data: bytes, folder: Path) -> None:
    memory = _with_file(data, folder, original, name)
    with TranslationMemory.open(memory) as opened:
        for match in opened.search("Das ist ein Satz .", 3, ""):
            assert isinstance(match.entry.trg, str)
        opened.covering("Das ist ein Satz .", 3)
        opened.stats()
        assert all(isinstance(entry.src, str) for entry in opened.entries())


def _build_memory(data: bytes, folder: Path) -> None:
    """Make a memory from a TMX file, and find in it what it says it has."""
    file, memory = folder / "a.tmx", folder / "memory"
    file.write_bytes(data)
    shutil.rmtree(memory, ignore_errors=True)
    with MemoryWriter.build(memory, "de", "en") as writer:
        counts = writer.add(open_source(CorpusFiles(str(file)), "de", "en"), "a.tmx")
    with TranslationMemory.open(memory) as opened:
        assert len(opened) == counts.entries


def _train(place: Path, run: Path) -> None:
    """Train a toy and export it; what a model does not need is removed, as it is copied often."""
    write_toy(place, train_documents=4)
    settings = ("stage1.epochs=1", "tm.fit=true", "data.src_language=de", "data.trg_language=en")
    train(toy_config(place, *settings), run)
    export_model(run, place / "export", 5, 10)
    for file in run.iterdir():
        if file.is_dir():
            shutil.rmtree(file)
        elif file.name not in _MODEL:
            file.unlink()


def _stored(place: Path) -> Iterator[Target]:
    """Models, checkpoints, vocabularies and memories of a toy, which are made in a folder."""
    run = place / "run"
    if not run.exists():
        _train(place, run)
    words = (b"__metadata__", b"data_offsets", b"dtype", b"F32", b"I8", b"shape", b"\xff" * 8,
             b'{"', b"null", b"[[", b"-1", b"words", b"language")  # fmt: skip
    for directory in (run, place / "export"):
        for file in sorted(directory.iterdir()):
            name = f"{directory.name} {file.name}"
            read = partial(_open_model, file.name, directory)
            yield Target(name, read, [file.read_bytes()], words, slow=True)
    lines = [f"Das ist ein Satz {n}, und noch ein {n}." for n in range(200)]
    subwords = place / "subwords"
    SubwordVocabulary.train(lines, 300).save(subwords)
    seeds = _seeds_of(place, ["run/src.vocabulary", "subwords"])
    yield Target("vocabulary", _open_vocabulary, seeds, words)
    model = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    save_checkpoint(place / "checkpoint", model, optimiser, Position())
    yield Target("checkpoint", _open_checkpoint, _seeds_of(place, ["checkpoint"]), words)
    memory = place / "memory"
    if not memory.exists():
        with MemoryWriter.build(memory, "de", "en") as writer:
            pairs = tuple(SentencePair(line, line.upper()) for line in lines[:20])
            writer.add([Document("d1", pairs)], "a.tmx")
    for file in sorted(file for file in memory.rglob("*") if file.is_file()):
        relative = str(file.relative_to(memory))
        if file.stat().st_size:
            read = partial(_open_memory, relative, memory)
            known = file.name if file.suffix in (".json", ".sqlite") else file.suffix
            yield Target(f"memory {known}", read, [file.read_bytes()], words, slow=True)
    yield Target("tmx to memory", _build_memory, [_FILE_SEEDS["tmx"]], _MARKUP, slow=True)


def make_targets(place: Path, *, stored: bool = True) -> list[Target]:
    """All targets; those of what wholedoc writes need a folder for their originals."""
    text = (*_MARKUP, *_LINES)
    names = (*_PAIR_SEEDS, *_FILE_SEEDS)
    seeds = (*_PAIR_SEEDS.values(), *_FILE_SEEDS.values())
    found = [
        Target(f"corpus {name}", _read_corpus, [seed], text)
        for name, seed in zip(names, seeds, strict=True)
    ]
    shipped = Path(__file__).parents[2] / "configs"
    configs = _seeds_of(shipped, ["tiny.toml", "paper.toml"])
    found += [
        Target("source lines", _read_source, [b"s1\ns2\n\ns3\n%%%%\nd1\nd1\nd1\nd2\n"], _LINES),
        Target("contrastive set", _read_contrastive, [_CONTRASTIVE], (*_LINES, b"[", b"{", b"1e9")),
        Target("configuration", _read_config, [*configs, b'base = "tiny"\nseed = 3\n'], _TOML),
        Target("settings", _read_settings, [b"model.hidden=3\0seed=4", b"data.train.src=x"], _TOML),
        Target(
            "experiment",
            _read_experiment,
            _seeds_of(shipped, ["experiment-tiny.toml"]),
            _TOML,
            slow=True,
        ),
        Target("glossary tsv", _read_glossary, ["Haus\thouse\nTür\tdoor\n".encode()], _LINES),
        Target("glossary tbx", _read_glossary, [_TBX], _MARKUP),
        *_documents(),
    ]
    return [*found, *_stored(place)] if stored else found


def attempt(target: Target, data: bytes, folder: Path) -> str:
    """Give a target an input; returns what came of it: ``answer``, or ``error``."""
    try:
        target.run(data, folder)
    except UserError as error:
        line = str(error)
        return "error" if line.strip() else "nothing"
    return "answer"
