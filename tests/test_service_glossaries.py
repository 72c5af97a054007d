"""Glossaries and alternatives over HTTP: with real clients, and as the command line has them."""

import json
from collections.abc import Iterator
from pathlib import Path

import deepl
import httpx
import pytest
from serving import Running, ask_again_soon
from typer.testing import CliRunner

from wholedoc.cli import app as command_line
from wholedoc.corpus.glossary import Entry, Glossary
from wholedoc.decoding.answering import Answerer
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.service.core import Limits, Service
from wholedoc.service.engine import Engine
from wholedoc.service.errors import RequestError
from wholedoc.service.glossaries import Glossaries

TEXT = "s2 s1 s3\n\ns4 s5"
TERMS = {"s1": "t5", "s4": "t4"}


@pytest.fixture(scope="module")
def toy(learned_toy: Path) -> Translator:
    return Translator.load(learned_toy)


@pytest.fixture(scope="module")
def always(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A glossary that is always enforced."""
    file = tmp_path_factory.mktemp("always") / "always.tsv"
    file.write_text("s9\tt8\ns11\tt10\n")
    return file


@pytest.fixture(scope="module")
def service(toy: Translator, always: Path) -> Iterator[Running]:
    limits = Limits(glossaries=3, glossary_characters=1000)
    running = Running(Service([toy], (), limits, glossary=always))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def web(service: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.address, timeout=30) as client:
        yield client


@pytest.fixture
def client(service: Running) -> Iterator[deepl.Translator]:
    """DeepL's client; the glossaries it makes are deleted."""
    found = deepl.Translator("any key", server_url=service.address)
    yield found
    for each in found.list_glossaries():
        found.delete_glossary(each)


def by_command_line(model: Path, file: Path, *options: str) -> bytes:
    out = file.with_name(f"translated{file.suffix}")
    arguments = ["translate", str(model), str(file), "-o", str(out), *options]
    result = CliRunner().invoke(command_line, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return out.read_bytes()


def write_terms(place: Path, terms: dict[str, str]) -> str:
    file = place / "terms.tsv"
    file.write_text("\n".join(map("\t".join, terms.items())))
    return str(file)


# DeepL's client.


def test_the_deepl_client_makes_and_uses_a_glossary(
    client: deepl.Translator, learned_toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_again_soon(monkeypatch)
    made = client.create_glossary("mine", "DE", "EN-US", TERMS)
    assert (made.name, made.ready, made.entry_count) == ("mine", True, 2)
    assert (made.source_lang, made.target_lang) == ("DE", "EN")
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    options = ("--format", "text", "--glossary", write_terms(tmp_path, TERMS))
    wanted = by_command_line(learned_toy, file, *options).decode()
    assert "t5" in wanted.split()
    languages = {"source_lang": "DE", "target_lang": "EN-US"}
    assert client.translate_text(TEXT, **languages, glossary=made).text == wanted
    assert client.translate_text(TEXT, **languages, glossary=made.glossary_id).text == wanted
    assert "t5" not in client.translate_text("s2 s1 s3", **languages).text
    page, out = tmp_path / "page.html", tmp_path / "page.en.html"
    page.write_text("<p>s2 <b>s1</b> s3</p>\n")
    client.translate_document_from_filepath(page, out, **languages, glossary=made)
    assert out.read_bytes() == by_command_line(learned_toy, page, *options[2:])
    assert "t5" in out.read_text()


def test_the_deepl_client_lists_and_deletes_glossaries(client: deepl.Translator) -> None:
    pairs = client.get_glossary_languages()
    assert [(pair.source_lang, pair.target_lang) for pair in pairs] == [("de", "en")]
    first = client.create_glossary("first", "DE", "EN", TERMS)
    csv = 's1,"t5, t6"\r\n\r\n"s2 ""s3""",t7,de,en\r\n'
    second = client.create_glossary_from_csv("second", "DE", "EN", csv)
    assert [each.name for each in client.list_glossaries()] == ["first", "second"]
    assert client.get_glossary(second.glossary_id).creation_time == second.creation_time
    assert client.get_glossary_entries(first) == TERMS
    assert client.get_glossary_entries(second) == {"s1": "t5, t6", 's2 "s3"': "t7"}
    client.delete_glossary(first)
    for gone in (client.get_glossary, client.get_glossary_entries, client.delete_glossary):
        with pytest.raises(deepl.GlossaryNotFoundException):
            gone(first.glossary_id)
    with pytest.raises(deepl.DeepLException, match="no glossary"):
        client.translate_text("s1", source_lang="DE", target_lang="EN-US", glossary=str(first))


def test_glossaries_are_bounded(client: deepl.Translator) -> None:
    with pytest.raises(deepl.QuotaExceededException, match="no room"):
        client.create_glossary("large", "DE", "EN", {"s1": "t" * 1000})
    for n in range(3):
        client.create_glossary(str(n), "DE", "EN", TERMS)
    with pytest.raises(deepl.QuotaExceededException, match="at most 3 glossaries"):
        client.create_glossary("one more", "DE", "EN", TERMS)


MADE = {"name": "x", "source_lang": "de", "target_lang": "en", "entries_format": "tsv"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"entries": ""}, "needs an entry"),
        ({"entries": "s1"}, "entry 1 is not a source term and a target term"),
        ({"entries": "s1\tt1\ns2\t"}, "entries:2: the target term is empty"),
        ({"entries": "s1\tt1\ns1\tt2"}, "'s1' becomes 't2' here, but 't1'"),
        ({"entries": "s1\tt1\ns1\tt1"}, "comes twice"),
        ({"entries": "s1\tt1", "name": " "}, "needs a name"),
        ({"entries": "s1\tt1", "target_lang": "fr"}, "no glossary from de to fr; there is de to"),
        ({"entries": "s1\tt1", "entries_format": "xml"}, "use tsv or csv"),
        ({"entries": "s1,t1,de,fr", "entries_format": "csv"}, "entry 1 is not in the languages"),
        ({"entries": '"s1\x00,t1', "entries_format": "csv"}, "entry 1"),
    ],
)
def test_bad_glossaries(web: httpx.Client, changed: dict[str, str], message: str) -> None:
    answer = web.post("/v2/glossaries", json={**MADE, **changed})
    assert answer.status_code == 400
    assert answer.json().keys() == {"message", "detail"}
    assert message in answer.json()["message"]
    assert web.get("/v2/glossaries").json() == {"glossaries": []}


def test_a_glossary_is_for_its_languages(web: httpx.Client, client: deepl.Translator) -> None:
    number = client.create_glossary("x", "DE", "EN", TERMS).glossary_id
    text = {"text": "s1", "target_lang": "EN-GB", "glossary_id": number}
    for changed, message in (
        ({}, "needs source_lang"),
        ({"source_lang": "et"}, "the glossary is from de to en"),
        ({"source_lang": "de", "glossary_ids": number}, "glossary_ids is not supported"),
    ):
        answer = web.post("/v2/translate", data={**text, **changed})
        assert (answer.status_code, message in answer.json()["message"]) == (400, True)
        files = {"file": ("a.txt", b"s1")}
        answer = web.post("/v2/document", data={**text, **changed}, files=files)
        assert (answer.status_code, message in answer.json()["message"]) == (400, True)


def test_glossaries_in_a_folder_outlive_the_service(tmp_path: Path) -> None:
    entries = [Entry("ä", "b", 1), Entry("c", "d", 2)]
    shelf = Glossaries(9, 99, {}, tmp_path / "kept")
    made, gone = (shelf.make(name, ("de", "en"), entries) for name in ("one", "two"))
    shelf.drop(gone.number)
    (found,) = Glossaries(9, 99, {}, tmp_path / "kept")
    assert found == made
    (tmp_path / "kept" / "x.json").write_text("[]")
    with pytest.raises(UserError, match=r"x\.json.*not a glossary"):
        Glossaries(9, 99, {}, tmp_path / "kept")
    (none,) = [Glossaries(9, 99, {}, None)]
    with pytest.raises(RequestError):
        none.find(made.number)


def test_a_glossary_that_cannot_be_written_is_not_kept(tmp_path: Path) -> None:
    shelf = Glossaries(9, 99, {}, tmp_path / "kept")
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(UserError, match="kept"):
        shelf.make("one", ("de", "en"), [Entry("ä", "b", 1)])
    assert list(shelf) == []


# Terms that are always enforced.


def test_a_glossary_is_always_enforced_and_a_client_may_say_otherwise(
    web: httpx.Client, client: deepl.Translator
) -> None:
    sent = {"q": "s2 s9 s3", "source": "de", "target": "en"}
    assert web.post("/translate", data=sent).json() == {"translatedText": "t2 t8 t3"}
    made = client.create_glossary("x", "DE", "EN", {"s9": "t6", "s1": "t5"})
    languages = {"source_lang": "DE", "target_lang": "EN-US"}
    found = client.translate_text(["s2 s9 s3", "s2 s11 s3"], **languages, glossary=made)
    assert [each.text for each in found] == ["t2 t6 t3", "t2 t10 t3"]


TBX = """<tbx xmlns="urn:iso:std:iso:30042:ed-2"><text><body><conceptEntry>
<langSec xml:lang="de"><termSec><term>s1</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>t5</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


def test_which_models_a_glossary_is_for(toy: Translator, tmp_path: Path) -> None:
    from wholedoc.service.core import _read_glossary

    tbx, lines = tmp_path / "a.tbx", tmp_path / "a.tsv"
    tbx.write_text(TBX)
    lines.write_text("s1\tt5\n")
    pairs = [("de", "en"), ("et", "en")]
    assert _read_glossary(tbx, pairs).keys() == {("de", "en")}
    with pytest.raises(UserError, match="several models"):
        _read_glossary(lines, pairs)
    with pytest.raises(UserError, match="no concept has terms"):
        _read_glossary(tbx, pairs[1:])
    with pytest.raises(UserError, match="no such file"):
        Service([toy], glossary=tmp_path / "none")


def test_the_command_line_has_a_glossary(learned_toy: Path, tmp_path: Path) -> None:
    arguments = ["serve", str(learned_toy), "--glossary", str(tmp_path / "none.tsv")]
    result = CliRunner().invoke(command_line, arguments)
    assert isinstance(result.exception, UserError)
    assert "none.tsv: no such file" in str(result.exception)


def test_documents_with_different_glossaries_are_not_translated_together(toy: Translator) -> None:
    engine, calls, translate = Engine(toy), [], toy.translate_documents
    one, two = (Glossary.of([("s1", target)], "de", "en") for target in ("t5", "t6"))

    class Noting:
        config = toy.config

        def translate_documents(self, documents, **settings):
            calls.append(documents)
            return translate(documents, **settings)

    engine.translator = Noting()  # type: ignore[assignment]
    with engine._changed:  # nothing is taken before all are there
        answers = [engine.submit(["s2 s1 s3"], glossary=each) for each in (one, None, two, one)]
        answers.append(engine.submit(["s2 s1 s3"], nbest=2))
    assert [answer.result(20).sentences for answer in answers] == [
        ["t2 t5 t3"], ["t2 t1 t3"], ["t2 t6 t3"], ["t2 t5 t3"], ["t2 t1 t3"]
    ]  # fmt: skip
    assert sorted(map(len, calls)) == [1, 1, 1, 2]
    engine.close()


# Documents that people work on.


def open_document(web: httpx.Client, text: str) -> str:
    number = web.post("/api/documents", data={"text": text, "target": "en"}).json()["id"]
    web.get(f"/api/documents/{number}/events")
    return f"/api/documents/{number}"


def states(sentences: list[dict]) -> list[list[str]]:
    return [[term["state"] for term in each["terms"]] for each in sentences]


def test_a_document_gets_a_glossary(web: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    path = open_document(web, "s2 s1 s3\ns4\ns2 s1 s3\ns6 s9 s3")
    searched: list[int] = []
    again = Answerer.translate

    def note(self, prepared, *args, **settings):
        searched.extend(place for each in prepared for place in each.places)
        return again(self, prepared, *args, **settings)

    monkeypatch.setattr(Answerer, "translate", note)
    typed = "s1 = t5\ns2\tunheard-of\n"
    answer = web.post(f"{path}/glossary", data={"entries": typed}).json()
    assert searched == [0, 2]
    assert answer["glossary"] == [["s1", "t5"], ["s2", "unheard-of"]]
    assert [each["place"] for each in answer["changed"]] == [0, 2]
    assert [each["translation"] for each in answer["changed"]] == ["t2 t5 t3"] * 2
    term = {"source": "s2", "target": "unheard-of", "start": 0, "end": 2, "state": "missing"}
    assert answer["changed"][0]["terms"][0] == term
    document = web.get(path).json()
    assert document["glossary"] == answer["glossary"]
    assert states(document["sentences"])[3] == ["enforced"]  # of the service's own
    # Approving and taking that back keep it.
    changed = web.put(f"{path}/sentences/0", data={"text": "t2 t1 t3"}).json()["changed"]
    assert (changed[0]["place"], states(changed)[0]) == (0, ["missing", "missing"])
    changed = web.delete(f"{path}/sentences/0").json()["changed"]
    assert changed[0]["translation"] == "t2 t5 t3"
    # Another one replaces it, a file too; an empty one ends it.
    files = {"file": ("terms.tbx", TBX.replace("t5", "t6").encode())}
    answer = web.post(f"{path}/glossary", files=files).json()
    assert answer["glossary"] == [["s1", "t6"]]
    assert [each["translation"] for each in answer["changed"]] == ["t2 t6 t3"] * 2
    answer = web.post(f"{path}/glossary", data={"entries": ""}).json()
    assert [each["translation"] for each in answer["changed"]] == ["t2 t1 t3"] * 2
    assert web.get(path).json()["sentences"][3]["translation"] == "t6 t8 t3"


def test_bad_glossaries_of_a_document(web: httpx.Client) -> None:
    path = open_document(web, "s1")
    for sent, message in (
        ({"data": {"entries": "s1"}}, "entries:1: a line without a tab"),
        ({"files": {"file": ("a.tbx", b"<tbx/>")}}, "a.tbx: no concept has terms"),
        ({"files": {"file": ("a.tsv", b"s1\t\xff")}}, "a.tsv:1: invalid UTF-8"),
    ):
        answer = web.post(f"{path}/glossary", **sent)
        assert (answer.status_code, message in answer.json()["error"]) == (400, True)
    large = web.post(f"{path}/glossary", data={"entries": "x" * 1001})
    assert large.status_code == 413
    assert web.get(path).json()["glossary"] == []


def test_a_changed_glossary_is_as_one_from_the_start(toy: Translator) -> None:
    texts = ["s2 s1 s3", "s4", "", "s8 s6 s1"]
    one, two = (Glossary.of([("s1", target)], "de", "en") for target in ("t5", "t6"))
    for before, after in ((None, one), (one, two), (one, None), (one, one)):
        found = toy.change_glossary(toy.translate(texts, glossary=before), after)
        wanted = toy.translate(texts, glossary=after)
        assert (found.sentences, found.terms) == (wanted.sentences, wanted.terms)
        assert found.task.glossary is after


def test_one_glossary_over_another() -> None:
    always = Glossary.of([("Haus", "house"), ("IT", "IT"), ("Tür", "door")], "de", "en")
    own = Glossary.of([("haus", "home"), ("it", "it")], "de", "en")
    found = {entry.source: entry.target for entry in own.over(always).entries}
    assert found == {"haus": "home", "it": "it", "IT": "IT", "Tür": "door"}
    assert own.over(None) is own


# Alternatives.


def nbest(model: Path, place: Path, text: str, count: int) -> list[list[str]]:
    file = place / "a"
    file.write_text(text)
    options = ["--nbest", str(count), "--beam", str(count), "--json"]
    result = CliRunner().invoke(command_line, ["translate", str(model), str(file), *options])
    found = json.loads(result.stdout)
    return [[each["text"] for each in candidates] for candidates in found["candidates"]]


def test_alternatives_are_the_next_best(
    web: httpx.Client, learned_toy: Path, tmp_path: Path
) -> None:
    sent = {"q": "s2 s1 s3", "source": "de", "target": "en", "alternatives": 3}
    answer = web.post("/translate", json=sent).json()
    ((best, *others),) = nbest(learned_toy, tmp_path, "s2 s1 s3", 4)
    assert answer == {"translatedText": best, "alternatives": others}
    assert len({best, *others}) == 4
    several = web.post("/translate", json={**sent, "q": ["s2 s1 s3", "s4\n\ns5"]}).json()
    assert several["alternatives"][0] == others
    first, second = nbest(learned_toy, tmp_path, "s4\ns5", 4)
    texts = ["\n\n".join(pair) for pair in zip(first, second, strict=True)]
    assert [several["translatedText"][1], *several["alternatives"][1]] == texts
    tagged = web.post("/translate", json={**sent, "q": "<b>s2 s1 s3</b>", "format": "html"})
    assert tagged.json()["alternatives"] == [f"<b>{text}</b>" for text in others]
    assert "alternatives" not in web.post("/translate", json={**sent, "alternatives": 0}).json()


@pytest.mark.parametrize("count", [-1, 11])
def test_the_number_of_alternatives_is_bounded(web: httpx.Client, count: int) -> None:
    sent = {"q": "s1", "source": "de", "target": "en", "alternatives": count}
    answer = web.post("/translate", json=sent)
    assert (answer.status_code, answer.json().keys()) == (400, {"error"})
    assert "0 to 10" in answer.json()["error"]
