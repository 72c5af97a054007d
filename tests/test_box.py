"""The models that come with wholedoc: found by name, small, described, and of use."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wholedoc.cli.tm import fit
from wholedoc.config import find_model, shipped_models
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "box" / "results"


def test_a_directory_comes_before_a_shipped_model_of_its_name(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_model("de-en") == shipped_models()["de-en"]
    (tmp_path / "de-en").mkdir()
    assert find_model("de-en") == shipped_models()["de-en"]  # the folder holds no model
    (tmp_path / "de-en" / "config.toml").touch()
    assert find_model("de-en") == Path("de-en")
    with pytest.raises(UserError, match=r"no such model.*or de-en or et-en, which come"):
        find_model("de-fr")


@pytest.mark.parametrize("name", shipped_models())
def test_a_shipped_model_is_small_and_says_its_languages(name: str) -> None:
    directory = shipped_models()[name]
    assert sum(file.stat().st_size for file in directory.iterdir()) <= 25e6
    translator = Translator.load(name)
    data = translator.config.data
    assert f"{data.src_language}-{data.trg_language}" == name
    assert translator.system.base_recaller is not None, "it has not learned to recall"
    assert not translator.memories, "people's text is not shipped"


@pytest.mark.parametrize("name", shipped_models())
def test_every_figure_of_a_model_card_was_measured(name: str) -> None:
    card = (shipped_models()[name] / "README.md").read_text(encoding="utf-8")
    measured = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    scores = {(r["set"], r["system"]): (f"{r['bleu']:.1f}", f"{r['chrf']:.1f}") for r in measured}
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d.]+) \| ([\d.]+) \|$", card, re.M)
    assert {(a, b): (c, d) for a, b, c, d in rows} == scores
    for licence in ("CC BY", "MPL", "Europarl"):
        assert licence in card


def test_standard_input_is_translated_by_a_shipped_model(tmp_path) -> None:
    """Anywhere, with nothing beside it."""
    lines = "Klicken Sie auf die Schaltfläche.\n\nDie Datei wurde gespeichert.\n"
    done = subprocess.run(
        [sys.executable, "-m", "wholedoc", "translate", "de-en"],
        input=lines, capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    first, empty, last, end = done.stdout.split("\n")
    assert "click" in first.lower()
    assert "file" in last.lower()
    assert empty == end == ""


def test_known_pairs_are_recalled_by_a_shipped_model() -> None:
    translator = Translator.load("de-en")
    source = ["Klicken Sie auf Wumpelmodus.", "Der Wumpelmodus wird beim Start geladen."]
    found = translator.translate(source, approved={0: "Click wumple mode."})
    assert "wumple mode" in found.sentences[1]
    assert "wumple" not in translator.translate(source).sentences[1]


def test_a_shipped_model_is_served_where_none_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wholedoc", "serve", "--port", "0", "--seconds", "0.1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "translating de to en" in done.stderr
    assert "serving at http://127.0.0.1:" in done.stderr


def test_a_shipped_model_stays_as_it_is() -> None:
    with pytest.raises(UserError, match=r"stays as it is.*fit a copy: cp -r"):
        fit("de-en")
