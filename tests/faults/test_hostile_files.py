"""Files that somebody has damaged or made to do harm: an error or a right answer, in bounds."""

import gzip
import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import targets
from hypothesis import HealthCheck, given, settings
from mutations import inputs
from targets import CUT, SECRET, Target, attempt, make_docx, make_odt, make_targets, pack
from watch import MisdeedError, bounded, confined

from wholedoc.config import load_config
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers.lines import MOST_LINE_BYTES, read_lines
from wholedoc.errors import UserError
from wholedoc.formats import format_named, xml
from wholedoc.formats.markdown import MOST_BLOCK
from wholedoc.formats.protected import find_protected
from wholedoc.formats.sentences import split_sentences
from wholedoc.formats.textdata import MOST_PARTS
from wholedoc.formats.xml import MOST_TAGS
from wholedoc.store.shortlist import read_shortlist
from wholedoc.tm.memory import MemoryWriter, TranslationMemory

MILLION = 10**6


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    """All targets by their names."""
    return {each.name: each for each in make_targets(tmp_path_factory.mktemp("originals"))}


QUICK = [target.name for target in make_targets(Path(), stored=False)]


def _fuzz(target: Target, folder: Path, count: int) -> dict[str, int]:
    """Give a target changed inputs; returns how many had an answer, and how many an error."""
    found = {"answer": 0, "error": 0}

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target.seeds, target.words))
    def run(data: bytes) -> None:
        with confined(folder), bounded():
            found[attempt(target, data, folder)] += 1

    for seed in target.seeds:
        found[attempt(target, seed, folder)] += 1
    run()
    return found


@pytest.mark.parametrize("name", QUICK)
def test_changed_files(name: str, known: dict[str, Target], tmp_path: Path) -> None:
    found = _fuzz(known[name], tmp_path, 4 if known[name].slow else 25)
    assert found["answer"]
    assert found["error"]


def test_changed_models_and_memories(known: dict[str, Target], tmp_path: Path) -> None:
    for name in known.keys() - set(QUICK):
        assert _fuzz(known[name], tmp_path, 3)["answer"], name


def _never_end() -> None:
    while True:
        pass


def test_the_watch_sees_what_is_written_elsewhere(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with confined(inner):
        (inner / "a").mkdir()
        (inner / "a" / "b").write_text("x")
        shutil.rmtree(inner / "a")
        with pytest.raises(MisdeedError):
            (tmp_path / "b").write_text("x")
    with pytest.raises(TimeoutError), bounded(0.05):
        _never_end()


# XML and zip archives that do harm

_BOMB = "<!DOCTYPE x [<!ENTITY a0 'lol'>" + "".join(
    f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12)
)
_XML_KINDS: dict[str, Callable[[bytes], bytes]] = {
    "docx": make_docx,
    "odt": make_odt,
    "xliff": lambda data: data,
}


@pytest.mark.parametrize("name", _XML_KINDS)
@pytest.mark.parametrize("kind", ["bomb", "external"])
def test_entities_are_refused(
    name: str, kind: str, known: dict[str, Target], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    outside = f'<!DOCTYPE x [<!ENTITY a11 SYSTEM "{secret.as_uri()}">'
    seed = known[name if name == "xliff" else f"{name} part"].seeds[0].decode()
    start = (_BOMB if kind == "bomb" else outside) + "]>"
    body = seed.partition("?>")[2] if seed.startswith("<?xml") else seed
    data = (start + body.replace("gut", "&a11;")).encode()
    with bounded(10, 200), pytest.raises(UserError, match=r"entit|DTD"):
        format_named(name)(_XML_KINDS[name](data), "a", "de", "en")


def test_deep_nesting_is_refused_or_read() -> None:
    for open_, close in ((b"<w:p>", b"</w:p>"), (b"<w:smartTag>", b"</w:smartTag>")):
        part = open_ * 100_000 + close * 100_000
        with bounded(), pytest.raises(UserError):
            format_named("docx")(make_docx(part), "a", "de", "en")
    for name, data in (("html", b"<b>" * 50_000), ("markdown", b"> " * 10_000 + b"a")):
        with bounded():
            file = format_named(name)(data + b"Wort", "a", "de", "en")
            file.write([segment.source for segment in file.segments])


def test_zip_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = make_docx(b" " * 50 * MILLION)
    with bounded(10, 100), pytest.raises(UserError, match="expands to"):
        format_named("docx")(grown, "a", "de", "en")
    monkeypatch.setattr(xml, "MOST_MEMBERS", 10)
    many = pack({f"{n}": b"" for n in range(11)})
    with pytest.raises(UserError, match="more than 10 members"):
        format_named("odt")(many, "a", "de", "en")
    monkeypatch.setattr(xml, "MOST_XML", 1000)
    for name, data in (("odt", make_odt(b"<a/>" + b" " * 1000)), ("xliff", b" " * 1001)):
        with pytest.raises(UserError, match="more than 1,000"):
            format_named(name)(data, "a", "de", "en")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("text", b"a\n"),
        ("text", b"a\r"),
        ("html", b"<b>"),
        ("html", b"<meta charset=cp1252>"),
        ("markdown", b"- a\n"),
        ("markdown", b"*a* "),
        ("markdown", b"|a"),
        ("po", b'"a"\n'),
        ("subtitles", b"a\n"),
    ],
)
def test_files_of_too_many_parts_are_refused(name: str, data: bytes) -> None:
    """Before anything is made of them: half a million of them were a gigabyte."""
    with bounded(5, 50), pytest.raises(UserError, match="more than 500,000 lines and tags"):
        format_named(name)(data * (MOST_PARTS + 1), "a", "de", "en")


def test_xml_of_too_many_tags_is_refused(
    known: dict[str, Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = "more than 2,000,000 tags and attributes"
    for data in (b"<a/>" * (MOST_TAGS + 1), b"<a a=''/>" * (MOST_TAGS // 2 + 1)):
        with bounded(5, 50), pytest.raises(UserError, match=refused):
            format_named("xliff")(data, "a", "de", "en")
    monkeypatch.setattr(xml, "MOST_TAGS", 10)
    for name in ("docx", "odt"):
        with pytest.raises(UserError, match="more than 10 tags"):
            format_named(name)(known[name].seeds[0], "a", "de", "en")


def test_members_stay_in_the_archive(known: dict[str, Target], tmp_path: Path) -> None:
    part = known["docx part"].seeds[0]
    parts = {"../../evil": b"x", "/etc/evil": b"x", "C:\\evil": b"x"}
    data = make_docx(part)
    with confined(tmp_path):
        extra = pack({**targets.unpack(data), **parts})
        file = format_named("docx")(extra, "a", "de", "en")
        written = file.write([segment.source for segment in file.segments])
    assert set(targets.unpack(written)) == {*targets.unpack(data), *parts}


@pytest.mark.parametrize("name", ["docx", "odt"])
def test_members_of_one_name_or_of_none_are_refused(name: str, known: dict[str, Target]) -> None:
    parts = targets.unpack(known[name].seeds[0])
    twice = pack({**parts, "aa": b"", "ab": b""}).replace(b"ab", b"aa")
    with pytest.raises(UserError, match="two members are called 'aa'"):
        format_named(name)(twice, "a", "de", "en")
    stream = io.BytesIO(known[name].seeds[0])
    with zipfile.ZipFile(stream, "a") as archive, archive.open(zipfile.ZipInfo(""), "w") as member:
        member.write(b"x")
    with pytest.raises(UserError, match="a member has no name"):
        format_named(name)(stream.getvalue(), "a", "de", "en")


# What took the square of its length, or more


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("text", b"a" * MILLION),
        ("text", b"." * MILLION),
        ("text", b"<![CDATA[" * 50_000),
        ("text", b"Das ist ein Satz. " * 50_000),
        ("html", b"_" * MILLION),
        ("po", b"Content-Type:" * 50_000),
        ("corpus sgml", b"<srcset><doc docid=a>\n<seg " + b"a" * MILLION + b">x</seg></doc>"),
        ("corpus sgml", b"<srcset><doc docid=a>\n" + b"<seg\n" * 50_000),
        ("corpus tmx", b"<?xml version='1.0'?>" + b"<!---->" * 5_000 + b"x"),
        ("corpus tmx", b"<tmx>" + b"<tu>" * 200_000),
        ("configuration", b"a = " + b"[" * 20_000),
        ("configuration", b"seed = " + b"9" * 5_000),
        ("configuration", b"[model]\n" + b"a." * 10_000 + b"b = 1\n"),
        ("settings", b"a" + b".a" * 20_000 + b"=1"),
        ("corpus jsonl", b'{"doc": ' + b"[" * 100_000),
        ("source lines", b"s1 s2\n" * 100_000),
        ("source lines", b"s" * 10 * MILLION),
    ],
)
def test_long_inputs_take_no_longer_than_they_are(
    name: str, data: bytes, known: dict[str, Target], tmp_path: Path
) -> None:
    if name == "corpus sgml":
        data = CUT.join([data, data])
    with confined(tmp_path), bounded():
        attempt(known[name], data, tmp_path)


def test_windows_find_the_sentences_that_the_whole_text_has() -> None:
    sentences = [f"Das ist Satz {n} von vielen, z. B. hier!" for n in range(1000)]
    text = "  ".join(sentences)
    assert [text[slice(*span)] for span in split_sentences(text, "de")] == sentences
    word = "a" * 25_000
    spans = split_sentences(word, "de")
    assert "".join(word[slice(*span)] for span in spans) == word


def test_mail_is_protected() -> None:
    text = "Schreiben Sie an a.b+c@example.org oder x@y.de."
    assert [text[slice(*s)] for s in find_protected(text)] == ["a.b+c@example.org", "x@y.de"]


def test_long_paragraphs_of_markdown_are_refused() -> None:
    data = b"Eins\n\n" + b"a" * (MOST_BLOCK + 1)
    with pytest.raises(UserError, match="a paragraph of 100,001 characters") as found:
        format_named("markdown")(data, "a.md", "de", "en")
    assert found.value.where == "a.md:3"


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.gz"
    with gzip.open(file, "wb", compresslevel=1) as stream:
        for _ in range(2 * MOST_LINE_BYTES // MILLION):
            stream.write(b"a" * MILLION)
    with bounded(20, 400), pytest.raises(UserError, match="a line of more than"):
        next(read_lines(file))


def test_numbers_beyond_floats_are_out_of_range() -> None:
    with pytest.raises(UserError, match="out of range"):
        load_config("tiny", ["stage1.learning_rate=" + "9" * 400])


# What wholedoc has written itself


def test_a_damaged_shortlist_is_refused(known: dict[str, Target], tmp_path: Path) -> None:
    file = tmp_path / "shortlist"
    data = known["export shortlist.safetensors"].seeds[0]
    file.write_bytes(data)
    read_shortlist(file, (16, 16))
    with pytest.raises(UserError, match="words that the vocabularies do not have"):
        read_shortlist(file, (3, 3))


def test_a_damaged_index_is_named_and_made_again(tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with MemoryWriter.build(memory, "de", "en") as writer:
        pairs = tuple(SentencePair(f"Satz {n} ist da.", f"Sentence {n}.") for n in range(20))
        writer.add([Document("d", pairs)], "a")
    for suffix in (".store", ".idx", ".term", ".fast"):
        (file,) = (memory / "index").glob(f"*{suffix}")
        data = bytearray(file.read_bytes())
        data[len(data) // 4] ^= 1
        file.write_bytes(bytes(data))
        with pytest.raises(UserError, match="does not match its checksum"):
            TranslationMemory.open(memory)
        MemoryWriter.open(memory).close()
        with TranslationMemory.open(memory) as opened:
            assert opened.search("Satz 3 ist da.")[0].score == 100
