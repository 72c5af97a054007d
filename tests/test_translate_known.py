"""Translating with what people have translated, on the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from toy import toy_config

from wholedoc.training.stages import train

TEXT = "s1 s2 s3\ns4 s5\n\ns1 s2 s4\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that keeps its training set, and a text."""
    directory = tmp_path_factory.mktemp("known")
    train(toy_config(directory, "tm.fit=true", "tm.keep=true"), directory / "run")
    (directory / "text").write_text(TEXT, encoding="utf-8")
    return directory


def wholedoc(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the place."""
    command = [sys.executable, "-m", "wholedoc", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def translate(place: Path, *options: str) -> list[str]:
    """The lines that translating the text gives."""
    done = wholedoc(place, "translate", "run", "text", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_memories_and_approved_lines(place: Path) -> None:
    (place / "approved").write_text("\nVier, fünf.\n\n\n", encoding="utf-8")
    (place / "book.tsv").write_text("d\ts1 s2 s3\tOne, two, three!\n", encoding="utf-8")
    built = wholedoc(place, "tm", "build", "book", "book.tsv")
    assert built.returncode == 0, built.stderr
    plain = translate(place, "--no-tm")
    assert len(plain) == 4
    assert plain[2] == ""
    found = translate(place, "--no-tm", "--tm", "book", "--approved", "approved")
    assert found[0] == "One, two, three!"
    assert found[1] == "Vier, fünf."
    assert found[2] == ""
    assert translate(place, "--no-tm", "--tm", "book", "--approved", "approved") == found
    own = json.loads(wholedoc(place, "translate", "run", "text", "--json").stdout)
    without = json.loads(wholedoc(place, "translate", "run", "text", "--json", "--no-tm").stdout)
    assert own["known"][0]
    assert own["known"][0][0]["memory"].endswith("memory")
    assert without["known"] == [[], [], [], []]
    assert without["sentences"] == plain


def test_json_has_an_object_for_each_document(place: Path) -> None:
    (place / "two").write_text("s1 s2\n<d>\ns3\ns1 s2\n", encoding="utf-8")
    done = wholedoc(place, "translate", "run", "two", "--json", "--no-tm", "-o", "two.txt")
    assert done.returncode == 0
    first, second = map(json.loads, done.stdout.split("\n")[:-1])
    written = (place / "two.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert written == [*first["sentences"], "<d>", *second["sentences"]]
    assert len(first["sentences"]) == 1
    assert len(second["sentences"]) == 2
    assert second["history"][-1] == second["sentences"]
    (place / "given").write_text("t1 t2\n\n\nt1 t9\n", encoding="utf-8")
    options = ("--json", "--no-tm", "--approved", "given")
    again = [json.loads(line) for line in wholedoc(place, "translate", "run", "two", *options)
             .stdout.split("\n")[:-1]]  # fmt: skip
    assert again[0]["approved"] == [0]
    assert again[1]["sentences"][1] == "t1 t9"
    assert all(len(each["recall"]) == len(each["sentences"]) for each in again)
    words = again[1]["recall"][0]
    assert [word["text"] for word in words] == again[1]["sentences"][0].split()
    assert all({"gate", "share", "sources"} <= word.keys() for word in words)


def test_standard_output_by_its_name(place: Path) -> None:
    (place / "named").write_text("s1 s2\n", encoding="utf-8")
    done = wholedoc(place, "translate", "run", "named", "--no-tm", "-o", "-")
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert not (place / "-").exists()


def test_fitting_takes_a_whole_dev_set(place: Path) -> None:
    done = wholedoc(place, "tm", "fit", "run", "--trg", "x")
    assert (done.returncode, "--trg: goes with --src" in done.stderr) == (2, True)


def test_fitting_anew(place: Path) -> None:
    (place / "more.tsv").write_text("d\ts1 s2\tt1 t2\nd\ts3 s4 s5\tt3 t4 t5\n", encoding="utf-8")
    assert wholedoc(place, "tm", "build", "more", "more.tsv").returncode == 0
    done = wholedoc(place, "tm", "fit", "run", "--tm", "more", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["stage1"]["words"] > 0
    assert list((place / "more" / "cells").iterdir())  # it was read for this model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--approved", "short"], "short: has 2 lines, but the input has 4"),
        (["--approved", "nothing"], "nothing: "),
        (["--tm", "nothing"], "nothing: no such translation memory"),
        (["--tm", "run"], "run: is no translation memory"),
        (["--tm", "finnish"], "finnish: is a memory from fi to en, but et to en is wanted"),
    ],
)
def test_wrong_options_get_one_line(place: Path, options: list[str], message: str) -> None:
    (place / "short").write_text("a\nb\n", encoding="utf-8")
    if not (place / "finnish").exists():
        (place / "fi.tsv").write_text("d\ta\tb\n", encoding="utf-8")
        languages = ("--src-language", "fi", "--trg-language", "en")
        assert wholedoc(place, "tm", "build", "finnish", "fi.tsv", *languages).returncode == 0
        config = place / "run" / "config.toml"
        text = config.read_text(encoding="utf-8")
        text = text.replace('src_language = ""', 'src_language = "et"')
        config.write_text(text.replace('trg_language = ""', 'trg_language = "en"'), "utf-8")
    done = wholedoc(place, "translate", "run", "text", "-o", "out", *options)
    assert done.returncode == 2
    assert done.stderr.strip().split("\n")[-1].startswith(f"wholedoc: {message}")
    assert len(done.stderr.strip().split("\n")) == 1
    assert not (place / "out").exists()
