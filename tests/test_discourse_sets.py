"""Sets that test discourse: their conventions, and other contexts for their items."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wholedoc.errors import UserError
from wholedoc.metrics.discourse_sets import (
    ContrastiveItem,
    ExpectedItem,
    Item,
    read_contrastive,
    read_ctxpro,
    with_context,
)

# DiscEvalMT: two blocks in the shape of each of its files.

ANAPHORA: dict[str, Any] = {
    "1": {
        "inspired by": ["…", "…"],
        "src": ["The lamp is new.", "It is red."],
        "trg": [
            {
                "correct": ["La lampe est neuve.", "Elle est rouge."],
                "incorrect": ["La lampe est neuve.", "Il est rouge."],
                "type": "f.sg",
            },
            {
                "semi-correct": ["Le seau est neuf.", "Il est rouge."],
                "incorrect": ["Le seau est neuf.", "Elle est rouge."],
                "type": "m.sg",
            },
        ],
    },
    "2": {
        "src": ["Where are the keys?", "I have them."],
        "trg": [{"correct": ["Où ?", "Je les ai."], "incorrect": ["Où ?", "Je l'ai."]}],
    },
}
LEXICAL: dict[str, Any] = {
    "1": {
        "type": "disambig",
        "examples": [
            {
                "src": ["The river is high.", "The bank is wet."],
                "trg": {
                    "correct": ["La rivière est haute.", "La rive est humide."],
                    "incorrect": ["La rivière est haute.", "La banque est humide."],
                },
            },
            {
                "src": ["I need money.", "The bank is wet."],
                "trg": {
                    "correct": ["Il me faut de l'argent.", "La banque est humide."],
                    "incorrect": ["Il me faut de l'argent.", "La rive est humide."],
                },
            },
        ],
    }
}


def read(folder: Path, value: object, indent: int | None = 2) -> list[ContrastiveItem]:
    path = folder / "set.json"
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=False), encoding="utf-8")
    return read_contrastive(path)


@pytest.mark.parametrize("indent", [2, None], ids=["on many lines", "on one line"])
def test_anaphora_of_discevalmt(tmp_path: Path, indent: int | None) -> None:
    first, second, third = read(tmp_path, ANAPHORA, indent)
    assert first == ContrastiveItem(
        line=1,
        source=("The lamp is new.", "It is red."),
        sentence=1,
        target=("La lampe est neuve.", "Elle est rouge."),
        kinds=("f.sg", "correct"),
        reference="Elle est rouge.",
        alternatives=("Il est rouge.",),
    )
    assert (second.line, second.kinds) == (2, ("m.sg", "semi-correct"))
    assert (second.reference, second.alternatives) == ("Il est rouge.", ("Elle est rouge.",))
    assert (third.source[0], third.kinds) == ("Where are the keys?", ("correct",))


def test_lexical_choice_of_discevalmt(tmp_path: Path) -> None:
    first, second = read(tmp_path, LEXICAL)
    assert first.kinds == second.kinds == ("disambig",)
    assert (first.source[0], second.source[0]) == ("The river is high.", "I need money.")
    assert (first.reference,) == second.alternatives == ("La rive est humide.",)
    assert second.target == ("Il me faut de l'argent.", "La banque est humide.")
    packed = tmp_path / "set.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "set.json").read_bytes()))
    assert read_contrastive(packed) == [first, second]


def changed(block: dict[str, Any]) -> dict[str, Any]:
    return {**ANAPHORA, "2": block}


PAIR = ANAPHORA["2"]["trg"][0]
BAD_BLOCKS: dict[str, tuple[dict[str, Any], str]] = {
    "no object": (changed([]), "'block' holds no JSON object"),  # type: ignore[arg-type]
    "no translations": (changed({"src": ["a", "b"]}), "'trg' is not a list"),
    "no pairs": (changed({"src": ["a", "b"], "trg": []}), "'trg' is empty"),
    "no source": (changed({"trg": [PAIR]}), "'src' is not a list"),
    "nothing right": (
        changed({"src": ["a", "b"], "trg": [{"incorrect": ["c", "d"]}]}),
        "'semi-correct' is not a list",
    ),
    "a sentence less": (changed({"src": ["a"], "trg": [PAIR]}), "number of sentences"),
    "a number": (changed({"src": ["a", 1], "trg": [PAIR]}), "'src' holds 1"),
    "no example": (changed({"examples": [1]}), "'examples' holds no JSON object"),
    "an example without": (changed({"examples": [{"src": ["a"]}]}), "'trg' holds no JSON object"),
}


@pytest.mark.parametrize(("value", "what"), BAD_BLOCKS.values(), ids=BAD_BLOCKS)
def test_a_bad_block_is_named(tmp_path: Path, value: object, what: str) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, value)
    assert caught.value.where == f"{tmp_path / 'set.json'}: block 2"
    assert what in caught.value.what
    assert caught.value.fix


def test_broken_blocks_are_named_by_their_line(tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text('{\n "1": {\n  "src": [}\n')
    with pytest.raises(UserError, match="not JSON") as caught:
        read_contrastive(path)
    assert caught.value.where == f"{path}:3"


# ctxpro: examples in the shape of its files.

EXAMPLES: list[dict[str, Any]] = [
    {
        "expected": "it",
        "src pronoun": "sie",
        "ante distance": 1,
        "src segment": "Sie ist rot.",
        "ref segment": "It is red.",
        "segment id": 3,
        "document id": "de-en/2000/1",
        "rule": "NOM.FEM.SING",
    },
    {
        "expected": "It",
        "ante distance": 0,
        "src segment": "Der Hut , er passt.",
        "rule": "NOM.MASC.SING",
    },
    {"expected": "du", "src segment": "Are you?", "rule": "NOM.INF.SING"},
]
INPUTS = "Da.<eos> Die Lampe.<eos> Sie ist rot.\nDer Hut, er passt.\n<eos> Yes.<eos> Are you?\n"


def read_examples(
    folder: Path, examples: object = EXAMPLES, inputs: str = INPUTS
) -> list[ExpectedItem]:
    path, lines = folder / "set.json", folder / "inputs"
    path.write_text(json.dumps(examples, indent=2), encoding="utf-8")
    lines.write_text(inputs, encoding="utf-8")
    return read_ctxpro(path, lines)


def test_examples_of_ctxpro(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = read_examples(tmp_path)
    assert first == ExpectedItem(
        line=1,
        source=("Da.", "Die Lampe.", "Sie ist rot."),
        sentence=2,
        kinds=("NOM.FEM.SING", "antecedent before"),
        expected="it",
    )
    assert (second.source, second.sentence) == (("Der Hut, er passt.",), 0)
    assert second.kinds == ("NOM.MASC.SING", "antecedent inside")
    assert (third.source, third.kinds) == (("", "Yes.", "Are you?"), ("NOM.INF.SING",))
    said = capsys.readouterr().err
    assert "lines that end with another sentence than the example's: 1\n" in said


ACCEPTED = {
    "It is red.": True,
    "Is IT?": True,
    "(it)": True,
    "It": True,
    "": False,
    "He sits.": False,
    "Its lid": False,
    "It's red.": False,  # as ctxpro has it: without its apostrophe, a word "its"
    "It-like": False,
    "“It” is": False,  # as ctxpro has it: only ASCII punctuation goes
}


@pytest.mark.parametrize(("translation", "right"), ACCEPTED.items())
def test_a_form_is_found_as_ctxpro_finds_it(translation: str, right: bool) -> None:
    item = ExpectedItem(line=1, source=("x",), sentence=0, expected="It")
    assert item.accepts(translation) is right


def example(**fields: object) -> list[dict[str, object]]:
    return [*EXAMPLES[:2], {**EXAMPLES[2], **fields}]


BAD_EXAMPLES: dict[str, tuple[object, str, str]] = {
    "no list": ({"1": EXAMPLES}, "set.json", "not a JSON list"),
    "none": ([], "set.json", "not a JSON list"),
    "no object": ([*EXAMPLES[:2], "x"], "set.json: example 3", "no JSON object"),
    "no form": (example(expected=None), "set.json: example 3", "'expected' holds null"),
    "no rule": (example(rule=3), "set.json: example 3", "'rule' holds 3"),
    "no sentence": (example(**{"src segment": 1}), "set.json: example 3", "'src segment' holds 1"),
    "other inputs": (EXAMPLES[:2], "inputs", "has 3 lines"),
    "in another order": ([EXAMPLES[i] for i in (2, 0, 1)], "inputs", "3 of 3 lines do not end"),
}


@pytest.mark.parametrize(("examples", "where", "what"), BAD_EXAMPLES.values(), ids=BAD_EXAMPLES)
def test_a_bad_example_is_named(tmp_path: Path, examples: object, where: str, what: str) -> None:
    with pytest.raises(UserError) as caught:
        read_examples(tmp_path, examples)
    assert caught.value.where == str(tmp_path / where)
    assert what in caught.value.what
    assert caught.value.fix


# Contexts.


def make_item(name: str, sentence: int, size: int, given: bool = True) -> Item:
    source = tuple(f"{name}{t}" for t in range(size))
    target = tuple(text.upper() for text in source) if given else None
    return Item(line=1, source=source, sentence=sentence, target=target, kinds=(name,))


ITEMS = [make_item("a", 1, 3), make_item("b", 2, 3), make_item("c", 0, 2), make_item("d", 0, 1)]


def test_own_context_is_the_item_as_it_is() -> None:
    assert with_context(ITEMS, "own") == ITEMS


def test_without_context_the_sentence_stands_alone() -> None:
    found = with_context([*ITEMS, make_item("e", 1, 2, given=False)], "none")
    assert [item.source for item in found] == [("a1",), ("b2",), ("c0",), ("d0",), ("e1",)]
    assert [item.target for item in found] == [("A1",), ("B2",), ("C0",), ("D0",), None]
    assert {item.sentence for item in found} == {0}
    assert [item.kinds for item in found] == [("a",), ("b",), ("c",), ("d",), ("e",)]


def test_shuffled_context_is_that_of_an_item_far_away() -> None:
    found = with_context(ITEMS, "shuffled")
    assert [item.source for item in found] == [
        ("a1", "c1"),
        ("b2",),
        ("a0", "c0", "a2"),
        ("b0", "b1", "d0"),
    ]
    assert [item.sentence for item in found] == [0, 0, 1, 2]
    assert [item.target and item.target[item.sentence] for item in found] == [
        "A1",
        "B2",
        "C0",
        "D0",
    ]
    assert found[0].target == ("A1", "C1")
    assert [item.kinds for item in found] == [item.kinds for item in ITEMS]


def test_shuffled_context_is_never_that_of_the_same_document() -> None:
    items = [make_item("a", 0, 3), make_item("b", 1, 2), make_item("a", 1, 3)]
    items += [replace(items[0], sentence=2), make_item("c", 0, 2, given=False)]
    for item, found in zip(items, with_context(items, "shuffled"), strict=True):
        own = item.source[item.sentence]
        assert found.source[found.sentence] == own
        others = {text[0] for t, text in enumerate(found.source) if t != found.sentence}
        assert others
        assert own[0] not in others
        assert (found.target is None) == (others == {"c"} or own[0] == "c")


def test_one_document_cannot_be_shuffled() -> None:
    items = [make_item("a", 0, 2), make_item("a", 1, 2)]
    with pytest.raises(UserError, match="all items have one document"):
        with_context(items, "shuffled")
