"""Requests with the fields that Weblate and OmegaT send: the answers of the command line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import Running
from typer.testing import CliRunner

from wholedoc.cli import app as command_line
from wholedoc.decoding.translator import Translator
from wholedoc.service.core import Service

TEXTS = ["s1 s2. s3 s4", "s5  s6", "s7"]
TAGGED = ['s1 <x id="3"></x> s2 s3', "s5 s6"]
KEY = "secret"


@pytest.fixture(scope="module")
def web(learned_toy: Path) -> Iterator[httpx.Client]:
    running = Running(Service([Translator.load(learned_toy)]), token=KEY)
    with httpx.Client(base_url=running.address, timeout=30) as client:
        yield client
    running.stop()


@pytest.fixture(scope="module")
def alone(learned_toy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``wholedoc translate`` makes of each text, in a file of its own."""
    folder = tmp_path_factory.mktemp("texts")
    found = {}
    for n, text in enumerate([*TEXTS, *TAGGED]):
        name = f"{n}.html" if text in TAGGED else f"{n}.txt"
        (folder / name).write_text(text)
        arguments = ["translate", str(learned_toy), str(folder / name), "-o", f"{folder}/out"]
        arguments += ["--format", "html" if text in TAGGED else "text"]
        result = CliRunner().invoke(command_line, arguments, catch_exceptions=False)
        assert result.exit_code == 0
        found[text] = (folder / "out").read_text()
    return found


def answered(answer: httpx.Response) -> Any:
    assert answer.status_code == 200
    return answer.json()


def test_weblate_by_libretranslate(web: httpx.Client, alone: dict[str, str]) -> None:
    languages = answered(web.get("/languages"))  # it sends its key with texts alone
    assert {each["code"] for each in languages} == {"de", "en"}
    sent = {"api_key": KEY, "q": TEXTS, "source": "de", "target": "en"}
    found = answered(web.post("/translate", json=sent))["translatedText"]
    assert found == [alone[text] for text in TEXTS]
    one = answered(web.post("/translate", json={**sent, "q": TEXTS[:1]}))["translatedText"]
    assert one == [alone[TEXTS[0]]]  # a list for a list
    older = {"api_key": KEY, "q": TEXTS[0], "source": "de", "target": "en"}
    assert answered(web.post("/translate", data=older))["translatedText"] == alone[TEXTS[0]]


def words(text: str) -> list[str]:
    """Without its tags: one that is ignored stands alone, and may come elsewhere than a pair."""
    return re.sub("<[^>]*>", " ", text).split()


def test_weblate_by_deepl(web: httpx.Client, alone: dict[str, str]) -> None:
    headers = {"Authorization": f"DeepL-Auth-Key {KEY}"}
    kinds = [
        {each["language"] for each in answered(web.get(path, params=params, headers=headers))}
        for path, params in (("/v2/languages", {"type": kind}) for kind in ("source", "target"))
    ]
    assert kinds == [{"DE"}, {"EN-GB", "EN-US"}]
    pairs = answered(web.get("/v2/glossary-language-pairs", headers=headers))
    assert [{*each.values()} for each in pairs["supported_languages"]] == [{"de", "en"}]
    sent = {
        "text": TAGGED,
        "source_lang": "DE",
        "target_lang": "EN",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        "context": "s8 s9",
        "model_type": "prefer_quality_optimized",
    }
    found = answered(web.post("/v2/translate", json=sent, headers=headers))["translations"]
    assert [words(each["text"]) for each in found] == [words(alone[text]) for text in TAGGED]
    assert found[0]["text"].count('<x id="3"></x>') == 1
    terms = {
        "name": "weblate:1:DE:EN",
        "source_lang": "DE",
        "target_lang": "EN",
        "entries": "s6\tt9",
        "entries_format": "tsv",
    }
    assert web.post("/v2/glossaries", json=terms, headers=headers).status_code == 201
    (made,) = answered(web.get("/v2/glossaries", headers=headers))["glossaries"]
    assert made["name"] == terms["name"]
    sent["glossary_id"] = made["glossary_id"]
    found = answered(web.post("/v2/translate", json=sent, headers=headers))["translations"]
    assert words(found[0]["text"]) == words(alone[TAGGED[0]])
    assert "t9" in found[1]["text"].split()
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert web.delete(path, headers=headers).status_code == 204
    assert web.delete(path, headers=headers).status_code == 404


@pytest.mark.parametrize("languages", [("de", "en"), ("de_DE", "en_US")])
def test_omegat_by_apertium(
    web: httpx.Client, alone: dict[str, str], languages: tuple[str, str]
) -> None:
    for text in TEXTS:
        sent = {"q": text, "markUnknown": "no", "langpair": "|".join(languages), "key": KEY}
        found = answered(web.get("/translate", params=sent))
        assert found["responseStatus"] == 200
        assert found["responseData"]["translatedText"] == alone[text]
    assert web.get("/translate", params={**sent, "key": "other"}).status_code == 403


def test_weblate_by_apertium(web: httpx.Client, alone: dict[str, str]) -> None:
    web.headers["Authorization"] = f"Bearer {KEY}"  # as a proxy adds it: Weblate sends no key here
    try:
        (pair,) = answered(web.get("/listPairs"))["responseData"]
        languages = f"{pair['sourceLanguage']}|{pair['targetLanguage']}"
        for text in TEXTS:
            sent = {"langpair": languages, "q": text, "markUnknown": "no"}
            found = answered(web.get("/translate", params=sent))
            assert found["responseData"]["translatedText"] == alone[text]
    finally:
        del web.headers["Authorization"]
