"""Measures on the artificial corpus against hand-made keys and its own reference."""

import json
from dataclasses import replace
from math import isclose, sqrt
from pathlib import Path

import pytest

from wholedoc.errors import UserError
from wholedoc.metrics.phenomena import measure, read_key
from wholedoc.synthetic import SynthConfig, write_synth
from wholedoc.synthetic.bounds import INFORMATION, KINDS, Bound, KeyItem, Kind

SURE = {"accuracy": 1.0, "variance": 0.0}


def name(document: str, line: int, expected: str, guess: str, stem: str = "ana") -> KeyItem:
    """A name with the renderings ``stem``+"y" and ``stem``+"i"."""
    return KeyItem(
        document=document,
        sentence=line,
        line=line,
        lines=4,
        kind="name",
        word=stem,
        expected=stem + expected,
        renderings=(stem + "y", stem + "i"),
        bounds={
            "sentence": Bound(stem + guess, 0.7, 0.21),
            "source": Bound(stem + expected, 0.9, 0.18),
            "both": Bound(stem + expected, **SURE),
        },
    )


KEY = [
    name("a", 0, "y", guess="y"),
    name("a", 1, "y", guess="i", stem="bel"),
    name("a", 2, "y", guess="y"),
    name("b", 3, "i", guess="y"),
]


@pytest.mark.parametrize(
    ("translations", "right", "unrendered", "consistency"),
    [
        (["anay", "bely", "anay", "anai"], 4, 0, 3 / 3),
        (["anay", "beli", "anay", "anai"], 3, 0, 1 / 3),
        (["anai", "beli", "anai", "anay"], 0, 0, 3 / 3),  # wrong, but of a piece
        (["Anay.", "xx ,BELY!", "(anay)", "anai"], 4, 0, 3 / 3),  # case, punctuation
        (["anay anay", "bely", "anay", "anai"], 4, 0, 3 / 3),  # said twice
        (["anay anai", "bely", "anay", "anai"], 3, 1, 1 / 3),  # both renderings
        (["", "bely", "anay", "anai"], 3, 1, 1 / 3),
        (["", "", "anay", "anai"], 2, 2, 0 / 3),  # two missing names are no pair in one style
        (["anayx", "bely", "anay", "anai"], 3, 1, 1 / 3),  # part of a word
        (["bely", "anay", "anay", "anai"], 2, 2, 0 / 3),  # another sentence's name
    ],
)
def test_names(translations: list[str], right: int, unrendered: int, consistency: float) -> None:
    names = measure(KEY, translations)["name"]
    assert names.items == 4
    assert names.right == right
    assert names.accuracy == right / 4
    assert names.unrendered == unrendered
    assert names.consistency == consistency


def test_best_translators_stand_beside_the_measure() -> None:
    best = measure(KEY, [""] * 4)["name"].best
    assert isclose(best["sentence"].accuracy, 0.7)
    assert isclose(best["sentence"].deviation, sqrt(4 * 0.21) / 4)
    assert best["sentence"].realised == 2 / 4
    assert best["sentence"].consistency == 1 / 3
    assert isclose(best["source"].accuracy, 0.9)
    assert best["both"].deviation == 0
    assert best["both"].consistency == best["both"].realised == 1


@pytest.mark.parametrize("kind", ["pronoun", "topic"])
def test_other_kinds_have_no_consistency(kind: Kind) -> None:
    items = [replace(item, kind=kind) for item in KEY]
    measured = measure(items, ["anay", "bely", "anay", "anay"])
    assert list(measured) == [kind]
    assert measured[kind].accuracy == 3 / 4
    assert measured[kind].consistency is None
    assert measured[kind].best["source"].consistency is None


def test_consistency_needs_a_pair() -> None:
    assert measure([KEY[0], KEY[3]], ["anay"] * 4)["name"].consistency is None


@pytest.mark.parametrize("count", [0, 3, 5])
def test_translations_of_another_corpus_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"among {count} translations"):
        measure(KEY, ["anay"] * count)


def test_written_corpus(tmp_path: Path) -> None:
    """Reference: all right. Guesses put in its place: as good as the summary's best translator."""
    summary = write_synth(tmp_path, SynthConfig(train=1, dev=1, test=60))["splits"]["test"]
    key = read_key(tmp_path / "test.key.jsonl")
    reference = (tmp_path / "test.trg").read_text(encoding="utf-8").splitlines()
    measured = measure(key, reference)
    for kind in KINDS:
        assert measured[kind].right == summary["kinds"][kind]["items"]
        assert measured[kind].unrendered == 0
        for information in INFORMATION:
            best = measured[kind].best[information]
            bound = summary["kinds"][kind]["bounds"][information]
            assert (best.accuracy, best.deviation) == (bound["accuracy"], bound["deviation"])
            assert abs(best.realised - bound["accuracy"]) <= 4 * bound["deviation"]
    assert measured["name"].consistency == 1
    assert measured["name"].best["source"].consistency == 1
    for information in INFORMATION:
        guessed = [line.split() for line in reference]
        for item in key:
            words = guessed[item.line]
            words[words.index(item.expected)] = item.bounds[information].guess
        outcome = measure(key, [" ".join(words) for words in guessed])
        for kind in KINDS:
            best = measured[kind].best[information]
            assert outcome[kind].accuracy == best.realised
            assert outcome[kind].consistency == best.consistency
    assert measured["name"].best["source"].realised < 1


@pytest.mark.parametrize(
    ("text", "place"),
    [("", ""), ("{}", ":1"), ("not json", ":1"), ("[1]", ":1")],
)
def test_broken_key_is_refused(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "test.key.jsonl"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read_key(path)
    assert caught.value.where == f"{path}{place}"


@pytest.mark.parametrize(
    "change", [{"kind": "tense"}, {"bounds": {}}, {"unknown": 1}, {"renderings": None}]
)
def test_broken_item_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write_synth(tmp_path, SynthConfig(train=1, dev=1, test=1))
    path = tmp_path / "test.key.jsonl"
    first, second, *_ = path.read_text(encoding="utf-8").splitlines()
    broken = json.dumps({**json.loads(second), **change})
    path.write_text(f"{first}\n{broken}\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_key(path)
    assert caught.value.where == f"{path}:2"


def test_missing_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_key(tmp_path / "none.key.jsonl")
