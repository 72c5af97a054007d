"""Sets that test discourse, item by item: reading them, and giving their items another context.

A contrastive item has a reference and wrong alternatives, of which the model must prefer the
reference. An expected item has a form that the model's own translation must hold.
"""

import json
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from wholedoc.config import ItemContext
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError
from wholedoc.progress import say

_REQUIRED = ("source", "sentence", "reference", "alternatives")
_FIELDS = (*_REQUIRED, "target", "kind", "tags")
_SEPARATOR = "<eos>"  # between the sentences of a line of ctxpro's inputs
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_FIRST_VALUE_IS_AN_OBJECT = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\{')


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A sentence of a document whose translation tests something."""

    line: int
    """Its line in the file, or its number where the file is one JSON value; from 1."""
    source: tuple[str, ...]
    """The sentences of the document."""
    sentence: int
    """Index of the sentence in the document, from 0."""
    target: tuple[str, ...] | None = None
    """Translations of all sentences of the document, where they are given."""
    kinds: tuple[str, ...] = ()
    """What the item tests; it counts in each of them, and in the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastiveItem(Item):
    """An item with its translation, and others that are wrong."""

    reference: str
    alternatives: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedItem(Item):
    """An item whose translation must hold a form."""

    expected: str

    def accepts(self, translation: str) -> bool:
        """Whether the form stands in a translation, between spaces, by the rule of ctxpro.

        Case and ASCII punctuation do not count. Punctuation leaves no space behind: in "it's" there
        is no "it".
        """
        words = translation.lower().translate(_NO_PUNCTUATION)
        return f" {self.expected.lower()} " in f" {words} "


AnyItem = TypeVar("AnyItem", bound=Item)


def with_context(items: Sequence[AnyItem], context: ItemContext) -> list[AnyItem]:
    """The same sentences in their ``own`` documents, in ``none``, or in ``shuffled`` ones.

    Shuffled, a sentence takes the place of that of the item half a set further on: neighbours in a
    set often have one document, or two that are opposites.
    """
    if context == "own":
        return list(items)
    if context == "none":
        return [_alone(item) for item in items]
    return [_replace_context(item, other) for item, other in _far_apart(items)]


def _alone(item: AnyItem) -> AnyItem:
    own = slice(item.sentence, item.sentence + 1)
    target = None if item.target is None else item.target[own]
    return replace(item, source=item.source[own], sentence=0, target=target)


def _replace_context(item: AnyItem, other: Item) -> AnyItem:
    t, place = item.sentence, other.sentence
    source = (*other.source[:place], item.source[t], *other.source[place + 1 :])
    target = None
    if item.target is not None and other.target is not None:
        target = (*other.target[:place], item.target[t], *other.target[place + 1 :])
    return replace(item, source=source, sentence=place, target=target)


def _far_apart(items: Sequence[AnyItem]) -> Iterator[tuple[AnyItem, AnyItem]]:
    """Each item with one of another document: half a set further on, or the next after that."""
    for i, item in enumerate(items):
        start = i + len(items) // 2
        others = (items[(start + step) % len(items)] for step in range(len(items)))
        other = next((other for other in others if other.source != item.source), None)
        if other is None:
            what, fix = "all items have one document", "give a set of several documents"
            raise UserError(what, where="--context shuffled", fix=fix)
        yield item, other


def read_contrastive(path: Path) -> list[ContrastiveItem]:
    """Read a contrastive set, plain or gzipped: an item per line, or DiscEvalMT's blocks."""
    lines = list(read_lines(path))
    text = "\n".join(lines)
    if _FIRST_VALUE_IS_AN_OBJECT.match(text):  # no field of an item is one
        return _read_discevalmt(path, text)
    items = [
        _ItemReader(f"{path}:{number}").read_item(number, line)
        for number, line in enumerate(lines, start=1)
        if line and not line.isspace()
    ]
    if not items:
        raise UserError("holds no items", where=str(path), fix="write one JSON object per line")
    return items


def _read_discevalmt(path: Path, text: str) -> list[ContrastiveItem]:
    """Read a set of Bawden et al. (2018), in the order of the file.

    A block on anaphora has one ``src`` and a list of pairs of translations; one on lexical choice
    has a ``type`` and ``examples``, each with a ``src`` and its pair. Each text is a list of
    sentences, of which the last is the one that is translated right or wrong.
    """
    items: list[ContrastiveItem] = []
    for name, value in _load_json(path, text).items():
        reader = _ItemReader(f"{path}: block {name}")
        block = reader.mapping(value, "block")
        if "examples" in block:
            for value in reader.values(block, "examples"):
                example = reader.mapping(value, "examples")
                pair = reader.mapping(example.get("trg"), "trg")
                kinds = [block.get("type")]
                items.append(reader.read_pair(len(items) + 1, example, pair, kinds))
        else:
            for value in reader.values(block, "trg"):
                pair = reader.mapping(value, "trg")
                kinds = [pair.get("type"), "correct" if "correct" in pair else "semi-correct"]
                items.append(reader.read_pair(len(items) + 1, block, pair, kinds))
    return items


def read_ctxpro(path: Path, inputs: Path) -> list[ExpectedItem]:
    """Read a set of ctxpro (Wicks and Post, 2023) and the source text of its examples.

    The set is a JSON list. ``inputs`` has a line for each example: sentences before it and, last,
    the sentence itself, separated by ``<eos>``.
    """
    examples = _load_json(path, "\n".join(read_lines(path)))
    if not isinstance(examples, list) or not examples:
        what, fix = "is not a JSON list of examples", "give an evaluation set of ctxpro"
        raise UserError(what, where=str(path), fix=fix)
    lines = list(read_lines(inputs))
    if len(lines) != len(examples):
        what = f"has {len(lines):,} lines, but {path} has {len(examples):,} examples"
        raise UserError(what, where=str(inputs), fix="give the inputs of the same set")
    items, others = [], 0
    for number, (example, line) in enumerate(zip(examples, lines, strict=True), start=1):
        reader = _ItemReader(f"{path}: example {number}")
        fields = reader.mapping(example, "example")
        source = tuple(sentence.strip() for sentence in line.split(_SEPARATOR))
        items.append(reader.read_example(number, fields, source))
        sentence = reader.text(fields.get("src segment"), "src segment")
        others += sentence.split() != source[-1].split()
    if 2 * others > len(items):
        what = f"{others:,} of {len(items):,} lines do not end with the example's sentence"
        fix = f"give the inputs of the same set, sentences separated by {_SEPARATOR}"
        raise UserError(what, where=str(inputs), fix=fix)
    if others:
        say(f"{inputs}: lines that end with another sentence than the example's: {others:,}")
    return items


def _load_json(path: Path, text: str) -> Any:
    """The one JSON value of a file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}"
        raise UserError(f"not JSON ({error.msg})", where=where, fix="repair it") from error
    except RecursionError as error:
        raise UserError("nested too deeply", where=str(path), fix="repair it") from error


@dataclass(frozen=True, slots=True)
class _ItemReader:
    """Reads a part of a set; what is wrong with it is said with its place."""

    where: str

    def fail(self, what: str, fix: str) -> NoReturn:
        raise UserError(what, where=self.where, fix=fix)

    def read_item(self, number: int, line: str) -> ContrastiveItem:
        fields = self.fields(line)
        source, alternatives = self.texts(fields, "source"), self.texts(fields, "alternatives")
        target = None if fields.get("target") is None else self.texts(fields, "target")
        if target is not None and len(target) != len(source):
            self.fail(
                f"'target' has {len(target)} sentences, 'source' has {len(source)}",
                "give one translation for each sentence, or leave 'target' out",
            )
        sentence = fields["sentence"]
        if type(sentence) is not int:  # True is no index
            self.fail("'sentence' is not a whole number", "give its index in 'source', from 0")
        if not 0 <= sentence < len(source):
            self.fail(
                f"'sentence' is {sentence}, but 'source' has {len(source)} sentences",
                "give its index in 'source', from 0",
            )
        reference = self.text(fields["reference"], "reference")
        if reference in alternatives:
            self.fail("an alternative equals the reference", "give only wrong translations")
        kinds = [name for name in ("kind", "tags") if fields.get(name) is not None]
        if len(kinds) > 1:
            self.fail("both 'kind' and 'tags' are given", "give one of them")
        return ContrastiveItem(
            line=number,
            source=source,
            sentence=sentence,
            target=target,
            kinds=tuple(kind for name in kinds if (kind := self.text(fields[name], name))),
            reference=reference,
            alternatives=alternatives,
        )

    def read_pair(
        self, number: int, example: dict[str, Any], pair: dict[str, Any], kinds: Sequence[object]
    ) -> ContrastiveItem:
        """A right and a wrong translation, in the context of the right one."""
        source, incorrect = self.texts(example, "src"), self.texts(pair, "incorrect")
        correct = self.texts(pair, "correct" if "correct" in pair else "semi-correct")
        if not len(source) == len(correct) == len(incorrect):
            what = "'src', 'correct' and 'incorrect' differ in their number of sentences"
            self.fail(what, "give each sentence one translation")
        return ContrastiveItem(
            line=number,
            source=source,
            sentence=len(source) - 1,
            target=correct,
            kinds=tuple(self.text(kind, "type") for kind in kinds if kind is not None),
            reference=correct[-1],
            alternatives=incorrect[-1:],
        )

    def read_example(
        self, number: int, fields: dict[str, Any], source: tuple[str, ...]
    ) -> ExpectedItem:
        """An example of ctxpro: its rule, and where the antecedent stands, if it has one."""
        kinds = [self.text(fields.get("rule"), "rule")]
        distance = fields.get("ante distance")
        if distance is not None:
            kinds.append("antecedent before" if distance else "antecedent inside")
        return ExpectedItem(
            line=number,
            source=source,
            sentence=len(source) - 1,
            kinds=tuple(kinds),
            expected=self.text(fields.get("expected"), "expected"),
        )

    def fields(self, line: str) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.fail(f"not JSON ({error})", "write one JSON object per line")
        if not isinstance(fields, dict):
            self.fail("not a JSON object", 'write {"source": [...], "sentence": 0, ...}')
        for name in fields:
            if name not in _FIELDS:
                self.fail(f"unknown field {name!r}", f"known are {', '.join(_FIELDS)}")
        for name in _REQUIRED:
            if name not in fields:
                self.fail(f"{name!r} is missing", f"add the field {name!r}")
        return fields

    def mapping(self, value: object, name: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.fail(f"{name!r} holds no JSON object", "write it as {…}")
        return value

    def values(self, fields: dict[str, Any], name: str) -> list[Any]:
        values = fields.get(name)
        if not isinstance(values, list):
            self.fail(f"{name!r} is not a list", f"write {name!r} as a list")
        if not values:
            self.fail(f"{name!r} is empty", f"give at least one entry in {name!r}")
        return values

    def texts(self, fields: dict[str, Any], name: str) -> tuple[str, ...]:
        return tuple(self.text(value, name) for value in self.values(fields, name))

    def text(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            self.fail(f"{name!r} holds {json.dumps(value)}, which is no text", "write a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self.fail(f"{name!r} holds half a surrogate pair", "write whole characters")
        return value
