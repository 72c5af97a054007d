"""The HTTP service: real clients, errors in each dialect's shape, many requests at once."""

import asyncio
import functools
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import deepl
import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from serving import Running, ask_again_soon
from typer.testing import CliRunner

from wholedoc.app.documents import read_sentences
from wholedoc.cli import app as command_line
from wholedoc.config import SearchConfig
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.kernels import in_threads, native
from wholedoc.service.core import Limits, Service
from wholedoc.service.engine import Engine, Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.languages import detect, primary
from wholedoc.service.markup import Markup
from wholedoc.service.server import make_app, run_app
from wholedoc.service.web import Fields, check_access
from wholedoc.service.workbench import Workbench, watch


@pytest.fixture(scope="module")
def service(learned_toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    suggestions = tmp_path_factory.mktemp("service") / "suggestions"
    limits = Limits(characters=2000, file_bytes=100_000)
    running = Running(Service([Translator.load(learned_toy)], (), limits, suggestions))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def web(service: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.address, timeout=30) as client:
        yield client


def by_command_line(model: Path, file: Path) -> bytes:
    out = file.with_name(f"translated{file.suffix}")
    arguments = ["translate", str(model), str(file), "-o", str(out)]
    if file.suffix == ".txt":
        arguments += ["--format", "text"]
    result = CliRunner().invoke(command_line, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return out.read_bytes()


TEXT = "s1 s2. s3 s4\n\ns5 s6"


@pytest.fixture(scope="module")
def translation(learned_toy: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("text") / "a.txt"
    file.write_text(TEXT)
    return by_command_line(learned_toy, file).decode()


# Clients that others wrote.


def test_the_deepl_client(service: Running, translation: str) -> None:
    client = deepl.Translator("any key", server_url=service.address)
    assert client.translate_text(TEXT, target_lang="EN-US").text == translation
    found = client.translate_text(["s1", TEXT], source_lang="DE", target_lang="EN-GB", context="s7")
    assert found[1].text == translation
    assert found[1].detected_source_lang == "DE"
    assert found[1].billed_characters == len(TEXT)
    assert [each.code for each in client.get_source_languages()] == ["DE"]
    assert [each.code for each in client.get_target_languages()] == ["EN-GB", "EN-US"]
    assert client.get_usage().character.count > 0
    tagged = client.translate_text("<b>s1</b> s2", target_lang="EN-US", tag_handling="xml")
    assert tagged.text == "<b>t1</b> t2"
    kept = client.translate_text(
        "<k>s1</k> s2", target_lang="EN-US", tag_handling="xml", ignore_tags=["k"]
    )
    assert kept.text == "<k>s1</k> t2"
    # In XML, names are only names: those of HTML mean nothing, and attributes are not read.
    document = '<title alt="s3">s1 <b>s2</b></title><style/><code>s3</code>'
    tagged = client.translate_text(document, target_lang="EN-US", tag_handling="xml")
    assert tagged.text == '<title alt="s3">t1 <b>t2</b></title><style/><code>t3</code>'
    page = '<meta charset="iso-8859-1"><p>größe</p>'  # it is a text, whatever it says of itself
    tagged = client.translate_text(page, target_lang="EN-US", tag_handling="html")
    assert "Ã" not in tagged.text
    assert tagged.text.startswith('<meta charset="iso-8859-1"><p>')
    points = "<punkt>s1</punkt><punkt>s2</punkt><punkt>s3 <v/></punkt>"  # none of them beside text
    tagged = client.translate_text(points, target_lang="EN-US", tag_handling="xml")
    assert tagged.text == points.replace(">s", ">t")
    inside = 's1 <link>s2</link> s3 <ph url="a?b=c"/> s4 <_x/> s5'
    tagged = client.translate_text(
        inside, target_lang="EN-US", tag_handling="xml", ignore_tags=["ph"]
    )
    assert re.sub("<.*?>", "", tagged.text).split() == ["t1", "t2", "t3", "t4", "t5"]
    assert tagged.text.startswith("t1 <link>t2</link> t3")
    with pytest.raises(deepl.DeepLException, match="with the context of each text, are more than"):
        client.translate_text(["s1"] * 50, target_lang="EN-US", context="s7 " * 2000)
    with pytest.raises(deepl.DeepLException, match="cannot translate"):
        client.translate_text("s1", target_lang="FR")
    with pytest.raises(deepl.DeepLException, match="no glossary"):
        client.translate_text("s1", source_lang="DE", target_lang="EN-US", glossary="0")


def test_the_deepl_client_with_a_document(
    service: Running, learned_toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_again_soon(monkeypatch)
    client = deepl.Translator("any key", server_url=service.address)
    file, out = tmp_path / "page.html", tmp_path / "page.en.html"
    file.write_text("<p>s1 <b>s2</b></p>\n<p>s3</p>\n")
    status = client.translate_document_from_filepath(file, out, target_lang="EN-US")
    assert status.done
    assert out.read_bytes() == by_command_line(learned_toy, file)
    assert "<b>t2</b>" in out.read_text()
    broken = tmp_path / "broken.docx"
    broken.write_bytes(b"no zip")
    with pytest.raises(deepl.DocumentTranslationException, match="docx"):
        client.translate_document_from_filepath(
            broken, out.with_suffix(".docx"), target_lang="EN-US"
        )
    with pytest.raises(deepl.DeepLException, match="output_format 'docx'"):
        client.translate_document_from_filepath(file, out.with_suffix(".docx"), target_lang="EN-US")
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(deepl.DocumentHandle("0", "0"))


def test_the_libretranslate_client(service: Running, translation: str) -> None:
    client = LibreTranslateAPI(service.address)
    assert client.translate(TEXT, "de", "en") == translation
    assert client.translate(TEXT, "auto", "en") == translation
    assert [each["code"] for each in client.languages()] == ["de", "en"]
    assert client.detect("s1")[0]["language"] == "de"


def test_texts_are_split_unless_a_client_says_not_to() -> None:
    text = "S1 s2. S3 s4."
    rows = [(Markup(), [2]), (Markup(split=False), [1]), (Markup("html"), [2])]
    for markup, counts in rows:
        read = read_sentences(markup.read(text).segments, "de", "en")
        assert [len(read.sentences)] == counts


@pytest.mark.parametrize("code", ["de", "DE-AT", "de_DE", "deu", "GER"])
def test_codes_of_languages(code: str) -> None:
    assert primary(code) == "de"


# What Weblate, OmegaT and others send, by the fields in their code.


@pytest.mark.parametrize(
    ("method", "path", "sent", "wanted"),
    [
        (
            "POST",
            "/v2/translate",
            {"json": {"text": ["s1\ns2"], "target_lang": "EN", "split_sentences": "nonewlines"}},
            {
                "translations": [
                    {"detected_source_language": "DE", "text": "t1 t2", "billed_characters": 5}
                ]
            },
        ),
        (
            "POST",
            "/translate",
            {"json": {"q": ["s1 s2"], "source": "de", "target": "en", "api_key": ""}},
            {"translatedText": ["t1 t2"]},
        ),
        (
            "POST",
            "/translate",
            {"json": {"q": "<i>s1</i>", "source": "de", "target": "en", "format": "html"}},
            {"translatedText": "<i>t1</i>"},
        ),
        (
            "POST",
            "/translate",
            {"files": {"q": (None, "s1"), "source": (None, "de"), "target": (None, "en")}},
            {"translatedText": "t1"},
        ),
        (  # as curl -d sends it: letters as they are
            "POST",
            "/translate",
            {
                "content": "q={größe}&source=de&target=en".encode(),
                "headers": {"Content-Type": "application/x-www-form-urlencoded"},
            },
            {"translatedText": "{größe}"},
        ),
        (
            "POST",
            "/v2/translate",
            {
                "json": {"text": ["s1"], "source_lang": "DE", "target_lang": "EN", "split": "1"},
                "headers": {"Authorization": "DeepL-Auth-Key key"},
            },
            {
                "translations": [
                    {"detected_source_language": "DE", "text": "t1", "billed_characters": 2}
                ]
            },
        ),
        (
            "GET",
            "/translate",
            {"params": {"q": "s1 s2", "langpair": "de|en", "markUnknown": "no"}},
            {
                "responseData": {"translatedText": "t1 t2"},
                "responseDetails": None,
                "responseStatus": 200,
            },
        ),
        (
            "GET",
            "/MTRestService/TranslateJson",
            {
                "params": {
                    "tokenCode": "0",
                    "input": "s1",
                    "srcLangCode": "de",
                    "trgLangCode": "en",
                    "modelTag": "",
                }
            },
            {"translation": "t1"},
        ),
        (
            "GET",
            "/MtRestService/listsupportedlanguagepairs",
            {"params": {"tokenCode": "0"}},
            ["de-en"],
        ),
        (
            "GET",
            "/MTRestService/CheckModelStatus",
            {"params": {"sourceCode": "de", "srcLangCode": "de", "trgLangCode": "en"}},
            "Model is loaded.",
        ),
    ],
)
def test_requests_of_other_tools(web: httpx.Client, method, path, sent, wanted) -> None:
    answer = web.request(method, path, **sent)
    assert answer.status_code == 200
    assert answer.json() == wanted


def test_a_file_by_libretranslate(web: httpx.Client, learned_toy: Path, tmp_path: Path) -> None:
    file = tmp_path / "büro s.md"
    file.write_text("# s1\n\ns2 **s3**\n")
    with file.open("rb") as stream:
        answer = web.post(
            "/translate_file", files={"file": stream}, data={"source": "de", "target": "en"}
        )
    url = answer.json()["translatedFileUrl"]
    assert web.get(url).content == by_command_line(learned_toy, file)
    number = url.split("/")[-3]
    assert web.get(f"/download_file/{number}/wrong/a.md").status_code == 404


def test_suggestions_take_effect(web: httpx.Client) -> None:
    sent = {"q": "s9 s8 s7 s9", "source": "de", "target": "en"}
    assert web.post("/translate", data=sent).json() != {"translatedText": "my own words"}
    answer = web.post("/suggest", data={**sent, "s": "my own words"})
    assert answer.json() == {"success": True}
    assert web.post("/translate", data=sent).json() == {"translatedText": "my own words"}
    web.post("/suggest", data={**sent, "s": "better words"})
    assert web.post("/translate", data=sent).json() == {"translatedText": "better words"}


def test_a_suggestion_of_several_sentences_is_one_for_each(web: httpx.Client) -> None:
    sent = {"q": "S10 s8. S9 s7.", "source": "de", "target": "en"}
    answer = web.post("/suggest", data={**sent, "s": "One two. Three four."})
    assert answer.json() == {"success": True}
    for text, wanted in (("S9 s7.", "Three four."), (sent["q"], "One two. Three four.")):
        found = web.post("/translate", data={**sent, "q": text}).json()
        assert found == {"translatedText": wanted}


def test_what_cannot_be_suggested_or_told_apart_is_said(web: httpx.Client) -> None:
    sent = {"q": "s1 " * 5000, "s": "x", "source": "de", "target": "en"}
    answer = web.post("/suggest", data=sent)
    assert (answer.status_code, "over-long" in answer.json()["error"]) == (400, True)
    twice = {"text": ["s1", "s2"], "target": "en"}
    assert web.post("/api/documents", json=twice).status_code == 400


# Documents that people work on.


def events_of(web: httpx.Client, number: str) -> list[tuple[str, dict[str, object]]]:
    found = []
    with web.stream("GET", f"/api/documents/{number}/events") as answer:
        for block in "".join(answer.iter_text()).strip().split("\n\n"):
            kind, data = block.split("\n")
            found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_a_document_is_watched_approved_and_fetched(web: httpx.Client) -> None:
    text = "\n".join([*(f"s{n}" for n in range(12)), "s3 s4", "s3 s4"])
    opened = web.post("/api/documents", data={"text": text, "target": "en"})
    assert opened.status_code == 201
    number = opened.json()["id"]
    assert [each["source"] for each in opened.json()["sentences"]] == text.split("\n")
    *updates, (last, values) = events_of(web, number)
    assert (last, values) == ("done", {"passes": 0})
    assert [update["place"] for _, update in updates] == list(range(14))
    state = web.get(f"/api/documents/{number}").json()
    assert state["done"]
    assert state["sentences"][3]["translation"] == updates[3][1]["text"] == "t3"
    path = f"/api/documents/{number}/sentences/12"
    assert web.get(f"{path}/alternatives").json()[0] == "t3 t4"
    answer = web.put(path, data={"text": "my  words"}).json()
    assert [each["place"] for each in answer["changed"]] == [12, 13]
    assert [each["approved"] for each in answer["changed"]] == [True, False]
    assert {each["translation"] for each in answer["changed"]} == {"my  words"}  # as it was typed
    fetched = web.get(f"/api/documents/{number}/file")
    assert fetched.text.split("\n")[-2:] == ["my  words"] * 2
    assert "text.en.txt" in fetched.headers["content-disposition"]
    answer = web.put(path, data={"text": "…"}).json()  # by people: it may say nothing
    assert web.get(f"/api/documents/{number}/file").text.split("\n")[-2] == "…"
    answer = web.delete(path).json()
    assert [each["translation"] for each in answer["changed"]] == ["t3 t4", "t3 t4"]
    assert web.delete(f"/api/documents/{number}").json() == {"success": True}
    assert web.get(f"/api/documents/{number}").status_code == 404


def test_approvals_at_the_same_time_are_both_kept(service: Running) -> None:
    bench = Workbench(service.service)
    _, document = bench.open(b"s1\ns2\ns3", "text.txt", "", "en")
    list(watch(document, 1))
    with ThreadPoolExecutor(2) as pool:
        with document.working:  # both have seen the same document before either changes it
            first, second = (pool.submit(bench.approve, document, t, f"my {t}") for t in (0, 2))
            time.sleep(0.2)
        assert (first.result(30)[0], second.result(30)[-1]) == (0, 2)
    assert document.done.sentences == ["my 0", "t2", "my 2"]
    bench.close()


def test_approved_units_of_a_file_stay_unless_they_are_changed(web: httpx.Client) -> None:
    po = 'msgid "s1 s2"\nmsgstr "as it was"\n\nmsgid "s3"\nmsgstr ""\n'
    files = {"file": ("a.po", po.encode())}
    number = web.post("/api/documents", files=files, data={"target": "en"}).json()["id"]
    events_of(web, number)
    sentences = web.get(f"/api/documents/{number}").json()["sentences"]
    assert [each["approved"] for each in sentences] == [True, False]
    assert 'msgstr "as it was"' in web.get(f"/api/documents/{number}/file").text
    web.put(f"/api/documents/{number}/sentences/0", data={"text": "another"})
    assert 'msgstr "another"' in web.get(f"/api/documents/{number}/file").text
    assert "#, fuzzy" in web.get(f"/api/documents/{number}/file").text
    kept = "made by\u00a0hand"  # with what keeps words together
    web.put(f"/api/documents/{number}/sentences/1", data={"text": f" {kept}\n "})
    written = web.get(f"/api/documents/{number}/file").text
    assert "fuzzy" not in written
    assert f'msgstr "{kept}"' in written
    web.delete(f"/api/documents/{number}/sentences/1")
    assert "#, fuzzy" in web.get(f"/api/documents/{number}/file").text


def test_what_cannot_be_done_with_a_document(web: httpx.Client) -> None:
    wrong = web.post("/api/documents", files={"file": ("a.pdf", b"x")}, data={"target": "en"})
    assert (wrong.status_code, "pdf" in wrong.json()["error"]) == (400, True)
    wrong = web.post("/api/documents", files={"file": ("a.docx", b"x")}, data={"target": "en"})
    assert wrong.status_code == 400
    assert web.post("/api/documents", data={"text": "s1", "target": "fr"}).status_code == 400
    number = web.post("/api/documents", data={"text": "s1", "target": "en"}).json()["id"]
    events_of(web, number)
    path = f"/api/documents/{number}"
    assert web.put(f"{path}/sentences/7", data={"text": "x"}).status_code == 404
    assert web.put(f"{path}/sentences/0", data={"text": " "}).status_code == 400
    assert web.get(f"{path}/sentences/7/alternatives").status_code == 404
    assert web.get(f"{path}/file", params={"kind": "pdf"}).status_code == 400
    broken = web.post(f"{path}/memories", files={"file": ("a.tmx", b"<tmx><body>")})
    assert (broken.status_code, broken.json().keys()) == (400, {"error"})
    assert web.get(path).json()["sentences"][0]["translation"] == "t1"
    assert web.get("/api/documents/none").status_code == 404


# Errors.


@pytest.mark.parametrize(
    ("method", "path", "sent", "status", "keys"),
    [
        ("POST", "/translate", {"json": {"q": "s1", "source": "de"}}, 400, {"error"}),
        ("POST", "/translate", {"json": {"source": "de", "target": "en"}}, 400, {"error"}),
        ("POST", "/translate", {"json": [1]}, 400, {"error"}),
        ("POST", "/translate", {"json": {"q": {"a": 1}, "source": "de"}}, 400, {"error"}),
        ("POST", "/translate", {"content": b"{", "headers": {"content-type": "application/json"}},
         400, {"error"}),
        ("POST", "/translate", {"json": {"q": "s" * 3000, "source": "de", "target": "en"}},
         413, {"error"}),
        ("POST", "/translate", {"content": b"x" * 1_200_000,
         "headers": {"content-type": "application/json"}}, 413, {"error"}),
        ("GET", "/nothing", {}, 404, {"error"}),
        ("DELETE", "/languages", {}, 405, {"error"}),
        ("POST", "/v2/translate", {"json": {"target_lang": "EN"}}, 400, {"message", "detail"}),
        ("POST", "/v2/translate", {"json": {"text": ["s1"] * 51, "target_lang": "EN"}}, 413,
         {"message", "detail"}),
        ("POST", "/v2/document", {"data": {"target_lang": "EN"}}, 400, {"message", "detail"}),
        ("POST", "/v2/translate", {"json": {"text": ["s1"], "target_lang": "EN",
         "formality": "less"}}, 400, {"message", "detail"}),
        ("POST", "/v2/translate", {"json": {"text": ["s1"], "target_lang": "EN",
         "split_sentences": "x"}}, 400, {"message", "detail"}),
        ("POST", "/v2/translate", {"json": {"text": ["s1"], "target_lang": "EN",
         "formality": "bogus"}}, 400, {"message", "detail"}),
        ("GET", "/v2/languages", {"params": {"type": "x"}}, 400, {"message", "detail"}),
        ("POST", "/v2/document/0", {}, 404, {"message", "detail"}),
        ("GET", "/v2/nothing", {}, 404, {"message", "detail"}),
        ("GET", "/translate", {"params": {"q": "s1", "langpair": "de"}}, 400,
         {"status", "code", "message", "explanation"}),
        ("GET", "/MTRestService/Nothing", {}, 404, {"error"}),
        ("GET", "/mtRestService/Nothing", {}, 404, {"error"}),
    ],
)  # fmt: skip
def test_errors_have_the_shape_of_their_dialect(
    web: httpx.Client, method, path, sent, status, keys
) -> None:
    answer = web.request(method, path, **sent)
    assert answer.status_code == status
    assert answer.json().keys() == keys
    assert all(isinstance(value, str | int) for value in answer.json().values())


def test_a_token_is_asked_for_wherever_a_dialect_puts_it(learned_toy: Path) -> None:
    running = Running(Service([Translator.load(learned_toy)]), token="secret")
    try:
        with httpx.Client(base_url=running.address) as web:
            text = {"q": "s1", "source": "de", "target": "en"}
            assert web.post("/translate", data=text).status_code == 403
            assert web.post("/translate", data={**text, "api_key": "wrong"}).status_code == 403
            assert web.post("/translate", data={**text, "api_key": "secret"}).status_code == 200
            bearer = {"Authorization": "Bearer secret"}
            assert web.post("/translate", data=text, headers=bearer).status_code == 200
            assert web.get("/languages").status_code == 200  # as LibreTranslate does
            assert web.get("/v2/usage").status_code == 403
            assert web.get("/listPairs").status_code == 403
            assert web.get("/listPairs", params={"token": "secret"}).status_code == 200
            omegat = {"q": "s1", "markUnknown": "no", "langpair": "de|en_US", "key": "secret"}
            assert web.get("/translate", params=omegat).status_code == 200
            assert web.get("/health").status_code == 200
        client = deepl.Translator("secret", server_url=running.address)
        assert client.translate_text("s1", target_lang="EN-US").text == "t1"
        with pytest.raises(deepl.AuthorizationException):
            deepl.Translator("x", server_url=running.address).translate_text(
                "s1", target_lang="EN-US"
            )
    finally:
        running.stop()


def test_a_page_of_another_site_may_not_send_anything(web: httpx.Client) -> None:
    sent = {"q": "s1", "s": "t9", "source": "de", "target": "en"}
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        headers = {"Sec-Fetch-Site": site}
        assert web.post("/translate", data=sent, headers=headers).status_code == status
        assert web.get("/languages", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9", 200),
        ("localhost:9", 200),
        ("me.localhost", 200),
        ("[::1]:9", 200),
        ("192.0.2.7", 200),
        ("evil.example:9", 403),
        ("127.0.0.1.evil.example", 403),
        ("localhost.evil.example", 403),
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(
    web: httpx.Client, host: str, status: int
) -> None:
    answer = web.get("/translate", params={"q": "s1", "langpair": "de|en"}, headers={"Host": host})
    assert answer.status_code == status
    if status == 403:
        assert "--token" in answer.text


def test_a_page_of_another_site_is_told_by_its_origin(web: httpx.Client) -> None:
    """Where browsers do not say more: the service is not on this machine, and without TLS."""
    here = str(web.base_url)
    sent = {"q": "s1", "source": "de", "target": "en"}
    for origin, status in (
        ("http://evil.example", 403),
        ("null", 403),
        (here, 200),
        ("moz-extension://0123", 200),
    ):
        answer = web.post("/translate", data=sent, headers={"Origin": origin})
        assert answer.status_code == status


def test_the_token_is_asked_for_by_the_path_alone() -> None:
    """Whatever an older Starlette takes for the address, which ``Host`` is a part of."""
    request = SimpleNamespace(
        app=SimpleNamespace(state=SimpleNamespace(token="secret")),
        method="POST",
        headers={},
        url=SimpleNamespace(path="/languages", hostname="localhost"),
        scope={"path": "/translate"},
    )
    with pytest.raises(RequestError, match="token"):
        check_access(request, Fields({}))  # type: ignore[arg-type]


def test_what_ends_because_its_document_was_closed_says_so(
    web: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = web.post("/api/documents", data={"text": "s1", "target": "en"}).json()["id"]
    events_of(web, number)

    def close(*_: object) -> None:
        raise CancelledError

    monkeypatch.setattr(Workbench, "approve", close)
    answer = web.put(f"/api/documents/{number}/sentences/0", data={"text": "x"})
    assert (answer.status_code, answer.json().keys()) == (409, {"error"})


def test_what_should_not_happen_has_the_shape_of_its_dialect(
    service: Running, web: httpx.Client, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("what was sent")

    monkeypatch.setattr(service.service.glossaries, "make", fail)
    sent = {"name": "n", "source_lang": "DE", "target_lang": "EN", "entries": "a\tb"}
    answer = web.post("/v2/glossaries", json=sent)
    assert (answer.status_code, answer.json().keys()) == (500, {"message", "detail"})
    assert "what was sent" not in answer.text + capfd.readouterr().err


def test_heads_and_paths_that_are_not_there(web: httpx.Client) -> None:
    for path in ("/", "/health", "/languages", "/page.js"):
        assert web.head(path).status_code == 200
    assert web.head("/nothing").status_code == 404
    for path, keys in (("/v2/write/rephrase", {"message", "detail"}), ("/nothing", {"error"})):
        answer = web.post(path, json={})
        assert (answer.status_code, set(answer.json())) == (404, keys)
    assert web.post("/page.js").status_code == 405


def test_what_is_kept_is_dropped_in_time_or_for_others(learned_toy: Path) -> None:
    translator = Translator.load(learned_toy)
    limits = Limits(kept_documents=1, kept_seconds=60)
    running = Running(Service([translator], (), limits))
    file, languages = {"file": ("a.txt", b"s1")}, {"source": "de", "target": "en"}
    try:
        with httpx.Client(base_url=running.address, timeout=30) as web:
            url = web.post("/translate_file", files=file, data=languages).json()
            assert web.post("/translate_file", files=file, data=languages).status_code == 503
            assert web.get(url["translatedFileUrl"]).content == b"t1"
            again = web.post("/translate_file", files=file, data=languages).json()
            assert web.get(url["translatedFileUrl"]).status_code == 404
            assert web.get(again["translatedFileUrl"]).content == b"t1"
            sent = {"source_lang": "DE", "target_lang": "EN"}
            broken = {"file": ("a.docx", b"no zip")}
            one = web.post("/v2/document", files=broken, data=sent).json()
            key = {"document_key": one["document_key"]}
            path = f"/v2/document/{one['document_id']}"
            while web.post(path, data=key).json()["status"] != "error":
                time.sleep(0.01)
            failed = web.post(f"{path}/result", data=key)
            assert failed.status_code == 400
            assert "a.docx" in failed.json()["message"]
            assert "document_id" in web.post("/v2/document", files=file, data=sent).json()
            object.__setattr__(running.service.limits, "kept_seconds", 0.0)
            time.sleep(0.01)
            assert web.get(again["translatedFileUrl"]).status_code == 404
    finally:
        running.stop()


def test_a_token_serves_any_name(learned_toy: Path) -> None:
    running = Running(Service([Translator.load(learned_toy)]), token="secret")
    try:
        sent = {"q": "s1", "source": "de", "target": "en", "api_key": "secret"}
        headers = {"Host": "translate.example"}
        answer = httpx.post(f"{running.address}/translate", data=sent, headers=headers)
        assert answer.json()["translatedText"] == "t1"
    finally:
        running.stop()


def test_a_port_that_is_taken(service: Running, learned_toy: Path) -> None:
    port = int(service.address.rpartition(":")[2])
    other = Service([Translator.load(learned_toy)])
    with pytest.raises(UserError, match="cannot listen"):
        run_app(make_app(other), "127.0.0.1", port, lambda _: None)


# Many requests.


def test_many_requests_at_once_get_their_own_answers(web: httpx.Client) -> None:
    def ask(n: int) -> tuple[str, str]:
        text = f"s{n % 12} s{n // 12 % 12}"
        sent = {"q": text, "source": "de", "target": "en"}
        return text, web.post("/translate", data=sent).json()["translatedText"]

    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(ask, range(96)))
    alone = dict(ask(n) for n in range(24))
    for text, translation in answers:
        if text in alone:
            assert translation == alone[text]
    assert sum(a.replace("s", "t") == b for a, b in answers) > 90
    figures = web.get("/metrics").text
    assert 'wholedoc_http_answers_total{status="200"}' in figures
    batches = float(figures.partition('wholedoc_batches_total{model="de-en"} ')[2].split()[0])
    documents = float(figures.partition('wholedoc_documents_total{model="de-en"} ')[2].split()[0])
    assert batches < documents


class Slow:
    """A translator that takes its time."""

    def __init__(self, translator: Translator) -> None:
        self.translator, self.config = translator, translator.config
        self.calls: list[list[list[str]]] = []
        self.go = threading.Event()

    reads_documents = False

    def translate_documents(self, documents, **settings):
        self.calls.append(documents)
        assert self.go.wait(20)
        return self.translator.translate_documents(documents, **settings)

    def stream(self, sentences, *settings, **others):
        """The first update comes at once, the second when it may."""
        stream = self.translator.stream(sentences, *settings, **others)
        first = next(stream)

        class Waiting:
            def __next__(_):  # noqa: N805
                if len(self.calls) and self.calls[-1] == "begun":
                    assert self.go.wait(20)
                    return next(stream)
                self.calls.append("begun")
                return first

            document = property(lambda _: stream.document)

        return Waiting()


@pytest.fixture
def slow(learned_toy: Path) -> Iterator[Slow]:
    found = Slow(Translator.load(learned_toy))
    yield found
    found.go.set()


def test_the_queue_is_bounded_fair_and_drops_what_was_cancelled(slow: Slow) -> None:
    engine = Engine(slow, most_waiting=4, threads=1)
    first = engine.submit(["s1"])
    while not slow.calls:
        time.sleep(0.01)
    ticket = Ticket()
    large = engine.submit([f"s{n % 12}" for n in range(200)])
    gone = engine.submit(["s2"], ticket=ticket)
    small = [engine.submit([text]) for text in ("s3", "s4")]
    with pytest.raises(RequestError) as error:
        engine.submit(["s5"])
    assert error.value.status == 503
    ticket.cancelled = True
    slow.go.set()
    assert first.result(20).sentences == ["t1"]
    assert [answer.result(20).sentences for answer in small] == [["t3"], ["t4"]]
    assert len(large.result(20).sentences) == 200
    engine.close()
    assert gone.cancelled()
    assert slow.calls[1] == [["s3"], ["s4"]]  # together, and before the large one
    assert engine.counts.refused == engine.counts.cancelled == 1
    with pytest.raises(RequestError):
        engine.submit(["s1"])


def begin_long(slow: Slow, ticket: Ticket | None = None) -> tuple[Engine, Future]:
    """An engine of one thread in the middle of a long document."""
    slow.calls.append([])
    engine = Engine(slow, threads=1)  # type: ignore[arg-type]
    long = engine.submit([f"s{n % 12}" for n in range(400)], ticket=ticket)
    while slow.calls[-1] != "begun":
        time.sleep(0.01)
    return engine, long


def test_short_documents_do_not_wait_for_a_long_one(slow: Slow) -> None:
    engine, long = begin_long(slow)
    first = engine.submit(["s1"])
    slow.go.set()
    assert first.result(20).sentences == ["t1"]
    assert not long.done()
    found, whole = long.result(20), slow.translator.translate([f"s{n % 12}" for n in range(400)])
    engine.close()
    assert found == replace(whole, recall=None)
    assert engine.counts.documents == 2


def test_a_long_document_ends_where_its_client_leaves_or_the_service_does(slow: Slow) -> None:
    ticket = Ticket()
    engine, long = begin_long(slow, ticket)
    ticket.cancelled = True
    slow.go.set()
    with pytest.raises(RequestError):
        long.result(20)
    assert engine.counts.cancelled == 1
    engine.close()
    slow.go.clear()
    engine, long = begin_long(slow)
    waiting = engine.submit(["s1"])
    closing = threading.Thread(target=engine.close)
    closing.start()
    while not engine._closing:
        time.sleep(0.01)
    slow.go.set()
    closing.join(20)
    assert not closing.is_alive()
    with pytest.raises(RequestError):
        long.result(20)
    assert waiting.done()  # translated, or given up


def test_a_long_list_is_one_request(learned_toy: Path) -> None:
    running = Running(Service([Translator.load(learned_toy)], (), Limits(waiting=4)))
    try:
        sent = {"q": ["s1", "s2"] * 150, "source": "de", "target": "en"}
        answer = httpx.post(f"{running.address}/translate", json=sent, timeout=60)
        assert answer.json() == {"translatedText": ["t1", "t2"] * 150}
    finally:
        running.stop()


def test_each_thread_has_a_batch_and_a_large_document_has_all_threads() -> None:
    together, pools = threading.Barrier(2), {}

    def run(_: int) -> int:
        if len(pools) < 2:
            return threading.get_ident()
        together.wait(20)  # a second thread must be there
        return threading.get_ident()

    class Meeting:
        """A translator that waits until two batches are with it."""

        reads_documents = True

        def translate_documents(self, documents, **_):
            if len(documents[0]) == 1:
                together.wait(20)
            pools[documents[0][0]] = len(set(in_threads(run, [0, 1])))
            return documents

    translator = Meeting()
    translator.config = SimpleNamespace(search=SearchConfig())  # type: ignore[attr-defined]
    engine = Engine(translator, threads=2)  # type: ignore[arg-type]
    with engine._changed:  # alternatives are asked for, so they cannot be one batch
        small = [engine.submit([text], nbest=n) for n, text in ((1, "a"), (2, "b"))]
    assert [answer.result(20) for answer in small] == [["a"], ["b"]]
    assert pools == {"a": 1, "b": 1}
    assert engine.submit(["c"] * 65).result(20) == ["c"] * 65
    assert pools["c"] == 2
    engine.close()


def test_the_fault_of_one_document_is_not_that_of_others(learned_toy: Path) -> None:
    translator = Translator.load(learned_toy)
    engine = Engine(translator)
    futures = [engine.submit(["s1"]), engine.submit([3]), engine.submit(["s2"])]  # type: ignore[list-item]
    assert futures[0].result(20).sentences == ["t1"]
    assert futures[2].result(20).sentences == ["t2"]
    with pytest.raises(UserError):
        futures[1].result(20)
    engine.close()


def test_a_slow_answer_begins_with_white_space_and_one_for_nobody_is_given_up(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wholedoc.service.web._PATIENCE", 0.3)
    running, engine = serve_slowly(slow, most_waiting=20)
    text = {"q": "s1", "source": "de", "target": "en"}
    try:
        with httpx.Client(base_url=running.address) as web:
            for _ in range(2):  # one is being translated, one waits when its client leaves
                with pytest.raises(httpx.ReadTimeout):
                    web.post("/translate", data=text, timeout=httpx.Timeout(5, read=0.1))
            time.sleep(1)
            with web.stream("POST", "/translate", data=text, timeout=20) as answer:
                parts = answer.iter_raw()
                assert next(parts) == b" "
                slow.go.set()
                assert json.loads(b"".join(parts)) == {"translatedText": "t1"}
            assert engine.counts.cancelled == 1
    finally:
        slow.go.set()
        running.stop()


def serve_slowly(slow: Slow, most_waiting: int) -> tuple[Running, Engine]:
    """A service of one thread whose translator waits for a signal."""
    service = Service([])
    engine = Engine(slow, most_waiting=most_waiting, threads=1)  # type: ignore[arg-type]
    service.engines["de", "en"], service.memories["de", "en"] = engine, ()
    return Running(service), engine


@contextmanager
def asked_at_once(running: Running, slow: Slow, texts: list[str]) -> Iterator[list[Future]]:
    """Requests of as many clients, the first of them in translation: their answers to be."""
    with httpx.Client(base_url=running.address, timeout=60) as web, ThreadPoolExecutor(50) as pool:

        def ask(text: str) -> httpx.Response:
            return web.post("/translate", json={"q": text, "source": "de", "target": "en"})

        answers = [pool.submit(ask, texts[0])]
        while not slow.calls:
            time.sleep(0.01)
        try:
            yield answers + [pool.submit(ask, text) for text in texts[1:]]
        finally:
            slow.go.set()
            running.stop()


def test_of_fifty_requests_at_once_each_has_its_own_answer_or_503(slow: Slow) -> None:
    texts = [f"s{n % 12} s{n // 12} s{n % 5}" for n in range(50)]
    alone = {text: slow.translator.translate([text]).sentences[0] for text in texts}
    running, engine = serve_slowly(slow, most_waiting=20)
    with asked_at_once(running, slow, texts) as answers:
        while sum(answer.done() for answer in answers) < 29:  # one is translated, 20 wait
            assert engine.waiting <= 20
            time.sleep(0.01)
        slow.go.set()
        found = [answer.result() for answer in answers]
    refused = [answer for answer in found if answer.status_code == 503]
    assert len(refused) == engine.counts.refused == 29
    assert all(each.headers["retry-after"] and each.json().keys() == {"error"} for each in refused)
    for text, answer in zip(texts, found, strict=True):
        if answer.status_code != 503:
            assert answer.json() == {"translatedText": alone[text]}


def test_a_service_that_is_told_to_end_answers_what_is_under_way(slow: Slow) -> None:
    running, engine = serve_slowly(slow, most_waiting=20)
    with asked_at_once(running, slow, [f"s{n}" for n in range(12)]) as answers:
        while engine.waiting < 11:
            time.sleep(0.01)
        running.tell_to_end()
        while running.listens():
            time.sleep(0.01)
        slow.go.set()
        found = [answer.result().json()["translatedText"] for answer in answers]
    assert found == [f"t{n}" for n in range(12)]


# Languages.


def test_nothing_is_forked_once_there_are_threads(
    learned_toy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork keeps files open, and with them the lock of a memory that takes a suggestion."""
    translator = Translator.load(learned_toy)
    loaded = functools.cache(native._loaded.__wrapped__)  # as in a new process
    monkeypatch.setattr(native, "_loaded", loaded)
    service = Service([translator])
    monkeypatch.setattr(os, "fork", None)
    try:
        (found,) = asyncio.run(service.translate_texts(["s1 s2"], "de", "en"))
        assert found.text
    finally:
        service.close()


def test_languages() -> None:
    assert [primary(code) for code in ("DE", "de-AT", "EN_us", " fr ")] == ["de", "de", "en", "fr"]
    assert detect("Das ist ein Haus.", ["de", "et"])[0][0] == "de"
    assert detect("See on maja.", ["de", "et"])[0][0] == "et"
    assert detect("", ["de", "et"]) == [("de", 0.5), ("et", 0.5)]
    assert detect("nuqneH", ["de", "tlh"]) == [("de", 0.5), ("tlh", 0.5)]


def test_models_without_languages_and_two_of_the_same_are_refused(learned_toy: Path) -> None:
    translator = Translator.load(learned_toy)
    with pytest.raises(UserError, match="two models"):
        Service([translator, translator])
    data = replace(translator.config.data, src_language="")
    config = replace(translator.config, data=data)
    nameless = Translator(replace(translator.trained, config=config, memory=None))
    with pytest.raises(UserError, match="does not say what languages"):
        Service([nameless])
