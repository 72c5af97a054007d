"""Contrastive sets: is the reference more probable than each of its wrong alternatives?"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wholedoc.config import ScoringMemory
from wholedoc.corpus.documents import group_documents
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError
from wholedoc.progress import ProgressBar

if TYPE_CHECKING:  # sets are read before torch is loaded
    from wholedoc.decoding.translator import Translator

_FIELDS = ("source", "sentence", "reference", "alternatives", "target", "kind", "tags")
_ROUNDING = 1e-5  # log-probabilities this close are equal: batches are summed in another order


@dataclass(frozen=True, slots=True)
class ContrastiveItem:
    """A sentence of a document, its translation, and others that are wrong."""

    line: int
    """Its line in the file, from 1."""
    source: tuple[str, ...]
    """The sentences of the document."""
    sentence: int
    """Index of the sentence in the document, from 0."""
    reference: str
    alternatives: tuple[str, ...]
    target: tuple[str, ...] | None
    """Translations of all sentences of the document, where they are given."""
    kind: str
    """What the item tests; items without a name of it count in the whole only."""


@dataclass(frozen=True, slots=True)
class ItemScore:
    """The log-probabilities of an item's translations."""

    item: ContrastiveItem
    reference: float
    alternatives: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether the reference is more probable than every alternative; a tie is not enough."""
        return self.reference > max(self.alternatives) + _ROUNDING

    @property
    def tied(self) -> bool:
        """Whether the likeliest alternative is as probable as the reference.

        So are two translations that differ only in words the vocabulary does not hold.
        """
        return abs(self.reference - max(self.alternatives)) <= _ROUNDING

    def to_json(self) -> dict[str, Any]:
        """One line of the output."""
        return {
            "line": self.item.line,
            "kind": self.item.kind,
            "right": self.right,
            "tied": self.tied,
            "reference": self.reference,
            "alternatives": list(self.alternatives),
        }


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How many items of some are right."""

    items: int
    right: int
    ties: int
    """Items whose reference is only as probable as an alternative; they are not right."""
    accuracy: float


@dataclass(frozen=True, slots=True)
class Contrast:
    """The accuracy on a contrastive set."""

    whole: Accuracy
    kinds: dict[str, Accuracy]
    """By kind, in the order of the file; items without a kind are in none."""

    @property
    def summary(self) -> list[str]:
        """A line for the whole and one for each kind, for people."""
        return [
            f"{name}: {100 * found.accuracy:.1f} % right, {found.right:,} of {found.items:,}"
            + (f"; {found.ties:,} ties, counted as not right" if found.ties else "")
            for name, found in [("all", self.whole), *self.kinds.items()]
        ]

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --contrastive --json``."""
        kinds = {kind: asdict(found) for kind, found in self.kinds.items()}
        return {**asdict(self.whole), "kinds": kinds}


def count_right(scores: Sequence[ItemScore]) -> Contrast:
    """The accuracy over ``scores``, of which there is at least one, and over each kind of them."""
    kinds = dict.fromkeys(score.item.kind for score in scores if score.item.kind)
    return Contrast(
        _accuracy(scores),
        {kind: _accuracy(score for score in scores if score.item.kind == kind) for kind in kinds},
    )


def _accuracy(scores: Iterable[ItemScore]) -> Accuracy:
    found = list(scores)
    right = sum(score.right for score in found)
    return Accuracy(len(found), right, sum(score.tied for score in found), right / len(found))


def score_items(
    translator: "Translator", items: Sequence[ContrastiveItem], memory: ScoringMemory = "given"
) -> list[ItemScore]:
    """Score the reference and the alternatives of each item of a contrastive set, in order.

    With ``given``, the target memory of an item is made from its ``target``, where it has one;
    what is not given is generated. Items of the same document share what does not depend on them.
    """
    sharing: dict[tuple[Any, ...], list[int]] = {}
    for i, item in enumerate(items):
        target = item.target if memory == "given" else None
        sharing.setdefault((item.source, target), []).append(i)
    scores: dict[int, ItemScore] = {}
    with ProgressBar("scoring", len(items)) as bar:
        for group in group_documents(list(sharing.items()), lambda shared: len(shared[0][0])):
            found = iter(
                translator.score_candidates(
                    [source for (source, _), _ in group],
                    [target for (_, target), _ in group],
                    [
                        (d, items[i].sentence, text)
                        for d, (_, chosen) in enumerate(group)
                        for i in chosen
                        for text in (items[i].reference, *items[i].alternatives)
                    ],
                )
            )
            for i in (i for _, chosen in group for i in chosen):
                reference = next(found)
                alternatives = tuple(next(found) for _ in items[i].alternatives)
                scores[i] = ItemScore(items[i], reference, alternatives)
            bar.advance(sum(len(chosen) for _, chosen in group))
    return [scores[i] for i in range(len(items))]


def read_contrastive(path: Path) -> list[ContrastiveItem]:
    """Read a set of one JSON object per line, plain or gzipped; blank lines are skipped."""
    items = [
        _ItemReader(f"{path}:{number}").read(number, line)
        for number, line in enumerate(read_lines(path), start=1)
        if line and not line.isspace()
    ]
    if not items:
        raise UserError("holds no items", where=str(path), fix="write one JSON object per line")
    return items


@dataclass(frozen=True, slots=True)
class _ItemReader:
    """Reads one line of a set; what is wrong with it is said with its place."""

    where: str

    def fail(self, what: str, fix: str) -> NoReturn:
        raise UserError(what, where=self.where, fix=fix)

    def read(self, number: int, line: str) -> ContrastiveItem:
        fields = self.fields(line)
        source = self.texts(fields, "source")
        target = self.texts(fields, "target") if fields.get("target") is not None else None
        if target is not None and len(target) != len(source):
            self.fail(
                f"'target' has {len(target)} sentences, 'source' has {len(source)}",
                "give one translation for each sentence, or leave 'target' out",
            )
        sentence = self.field(fields, "sentence")
        if not isinstance(sentence, int) or isinstance(sentence, bool):
            self.fail("'sentence' is not a whole number", "give its index in 'source', from 0")
        if not 0 <= sentence < len(source):
            self.fail(
                f"'sentence' is {sentence}, but 'source' has {len(source)} sentences",
                "give its index in 'source', from 0",
            )
        reference = self.text(self.field(fields, "reference"), "reference")
        alternatives = self.texts(fields, "alternatives")
        if reference in alternatives:
            self.fail("an alternative equals the reference", "give only wrong translations")
        kind = self.kind(fields)
        return ContrastiveItem(number, source, sentence, reference, alternatives, target, kind)

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
        return fields

    def kind(self, fields: dict[str, Any]) -> str:
        given = [name for name in ("kind", "tags") if fields.get(name) is not None]
        if len(given) > 1:
            self.fail("both 'kind' and 'tags' are given", "give one of them")
        return self.text(fields[given[0]], given[0]) if given else ""

    def field(self, fields: dict[str, Any], name: str) -> object:
        if name not in fields:
            self.fail(f"{name!r} is missing", f"add the field {name!r}")
        return fields[name]

    def texts(self, fields: dict[str, Any], name: str) -> tuple[str, ...]:
        values = self.field(fields, name)
        if not isinstance(values, list):
            self.fail(f"{name!r} is not a list", f"write {name!r} as a list of texts")
        if not values:
            self.fail(f"{name!r} is empty", f"give at least one text in {name!r}")
        return tuple(self.text(value, name) for value in values)

    def text(self, value: object, name: str) -> str:
        if not isinstance(value, str):
            self.fail(f"{name!r} holds {json.dumps(value)}, which is no text", "write a text")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self.fail(f"{name!r} holds half a surrogate pair", "write whole characters")
        return value
