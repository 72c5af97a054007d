"""What is not text comes through every way of translating, letter by letter."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from wholedoc.cli import app
from wholedoc.decoding.preparing import Piece
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.formats.protected import _PROTECTED, find_protected, is_text, missing_protected

ADDRESS = "https://beispiel.example/" + "handbuch/Qx7/" * 12 + "seite?id=42"
SENTENCES = [
    "Öffnen Sie die Datei {name} und klicken Sie auf %s.",
    "Kopieren Sie /etc/quux/server.conf nach ~/.config/quux/server.conf, bevor Sie beginnen.",
    "Schreiben Sie an support@beispiel.example, wenn {{ product }} nicht startet.",
    f"Weitere Informationen finden Sie unter {ADDRESS} und im Handbuch.",
    "Setzen Sie $HOME auf %USERPROFILE%.",
    "Kopieren Sie " + ", ".join(f"/srv/Xq{n}/{{datei{n}}}" for n in range(12)) + " in den Ordner.",
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("de-en")


@pytest.fixture(scope="module")
def done(translator: Translator) -> TranslatedDocument:
    return translator.translate(SENTENCES)


def lost(translations: list[str]) -> list[int]:
    pairs = enumerate(zip(SENTENCES, translations, strict=True))
    return [n for n, (text, found) in pairs if missing_protected(text, found)]


def test_nothing_is_lost_however_it_is_asked_for(
    translator: Translator, done: TranslatedDocument
) -> None:
    plain = translator.translate(SENTENCES, protect=False)
    assert len(lost(plain.sentences)) >= 3  # or this says nothing
    assert lost(done.sentences) == []
    stream = translator.stream(SENTENCES)
    shown = {update.place: update.text for update in stream}
    assert [shown[t] for t in range(len(SENTENCES))] == stream.document.sentences == done.sentences
    (many,) = translator.translate_documents([SENTENCES], explain=True)
    assert many.sentences == done.sentences
    assert lost(translator.approve(done, 4, "Set $HOME to %USERPROFILE%.").sentences) == []


def test_lines_are_translated_as_in_a_file_of_text(
    done: TranslatedDocument, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines").write_text("\n".join(SENTENCES) + "\n")
    for arguments in (["-o", "a"], ["--format", "text", "-o", "b"], ["--nbest", "2", "-o", "c"]):
        result = CliRunner().invoke(app, ["translate", "de-en", "lines", *arguments])
        assert result.exit_code == 0
    assert Path("a").read_text().splitlines() == done.sentences
    assert lost(Path("b").read_text().splitlines()) == []
    assert len(Path("c").read_text().splitlines()) == 2 * len(SENTENCES)


def test_other_translations_have_it_too(translator: Translator) -> None:
    done = translator.translate(SENTENCES[:1])
    others = translator.alternatives(done, 0, 5)
    assert len(others) > 1
    assert not any(missing_protected(SENTENCES[0], each.text) for each in others)


def test_a_long_part_is_read_by_a_stand_in_and_written_in_full(done: TranslatedDocument) -> None:
    assert done.sentences[3].count(ADDRESS) == 1
    assert "{1}" not in done.sentences[3]
    assert done.recall is not None
    assert any(ADDRESS in word.text for word in done.recall[3])
    read = Piece(f"Siehe {ADDRESS}.", "", [], {"{2}": ADDRESS})
    assert read.read == "Siehe {2}."
    assert read.restore("See {2}.") == f"See {ADDRESS}."


def test_a_part_that_is_there_already_gets_no_stand_in_of_its_name(translator: Translator) -> None:
    text = f"Siehe {{1}} unter {ADDRESS}."
    (found,) = translator.translate([text]).sentences
    assert sorted(found[a:b] for a, b in find_protected(found)) == sorted(["{1}", ADDRESS])


PARTS = ["a@b.c", "--opt=", "C:\\x", "www.ab", "mailto:ab", "ftp://a", "/a/b", "{a}", "%s", "$a"]
WORDS = ["<b>", "%1", ".", ":", "w", "a", "s", "7", " "]


@given(st.lists(st.sampled_from(PARTS + WORDS), max_size=6).map("".join))
def test_what_is_protected_has_a_sign_of_it(text: str) -> None:
    assert find_protected(text) == [match.span() for match in _PROTECTED.finditer(text)]
    assert is_text(text) == any(map(str.isalpha, _PROTECTED.sub("", text)))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Wählen Sie Rot/Grün/Blau.", []),
        ("Er/sie/es öffnet die Tür", []),
        ("und/oder, km/h", []),
        ("in /etc/hosts und ~/a/b", ["/etc/hosts", "~/a/b"]),
        ("(/usr/bin) '../a/b'", ["/usr/bin", "../a/b"]),
        ("in docs/index.html, src/main/", ["docs/index.html", "src/main/"]),
    ],
)
def test_words_between_slashes_are_no_path(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in find_protected(text)] == parts


@pytest.mark.parametrize(
    "part",
    ["%n", "%L1", "%*d", "%'d", "%%", "{0,date,short}", "{0,number,#.##}", "{name!r}", "{0:>5}",
     "%{count}", "#{name}", "${name}"],
)  # fmt: skip
def test_placeholders_of_other_tools(part: str) -> None:
    text = f"Nach {part} Dateien, {{siehe unten}}, 50 % von"
    assert [text[start:end] for start, end in find_protected(text)] == [part]
