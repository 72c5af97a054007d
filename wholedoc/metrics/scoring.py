"""What ``wholedoc score`` measures: the perplexity of a corpus, accuracy on a contrastive set.

A contrastive set asks: is the reference more probable than each of its wrong alternatives?
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from wholedoc.config import ScoringMemory
from wholedoc.corpus.documents import Document, group_documents
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError
from wholedoc.progress import ProgressBar

if TYPE_CHECKING:  # sets are read before torch is loaded
    from wholedoc.decoding.results import ScoredDocument
    from wholedoc.decoding.translator import Translator
    from wholedoc.tm.memory import TranslationMemory

_REQUIRED = ("source", "sentence", "reference", "alternatives")
_FIELDS = (*_REQUIRED, "target", "kind", "tags")
_ROUNDING = 1e-5  # log-probabilities this close are equal: batches are summed in another order


@dataclass(frozen=True)
class ScoredCorpus:
    """How probable the given translations of a corpus are."""

    names: list[str]
    documents: "list[ScoredDocument]"
    whole: "ScoredDocument"
    """All documents as if they were one."""

    @property
    def log_probabilities(self) -> list[float]:
        """The log-probability of each sentence's translation."""
        return self.whole.log_probabilities

    @property
    def summary(self) -> list[str]:
        """The measures of the whole, for people."""
        lines = [
            f"{len(self.documents):,} documents, {len(self.log_probabilities):,} sentences, "
            f"{sum(self.whole.words):,} words with </s>: "
            f"log-probability {self.whole.log_probability:.2f}, "
            f"perplexity {self.whole.perplexity:.3f}"
        ]
        if empty := self.whole.words.count(1):
            lines.append(f"translations without a word, scored by their </s>: {empty:,}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --json``."""
        documents = zip(self.names, self.documents, strict=True)
        return {
            "sentences": len(self.log_probabilities),
            **_measures(self.whole),
            "documents": [
                {"name": name, "sentences": found.log_probabilities, **_measures(found)}
                for name, found in documents
            ],
        }


def _measures(scored: "ScoredDocument") -> dict[str, Any]:
    return {
        "words": sum(scored.words),
        "log_probability": scored.log_probability,
        "perplexity": scored.perplexity,
    }


def score_corpus(
    translator: "Translator",
    corpus: Iterable[Document],
    memory: ScoringMemory = "given",
    *,
    memories: "tuple[TranslationMemory, ...]" = (),
    approved: bool = False,
) -> ScoredCorpus:
    """Score the translations of all documents of a corpus.

    ``memories`` are recalled from beside the model's own; where they are ``approved``, a sentence
    also recalls the given translations of those before it.
    """
    from wholedoc.decoding.results import ScoredDocument
    from wholedoc.decoding.translator import Knowledge

    documents = list(corpus)
    scored: list[ScoredDocument] = []
    with ProgressBar("scoring", sum(map(len, documents))) as bar:
        for group in group_documents(documents, len):
            targets = [[pair.trg for pair in document] for document in group]
            given = [dict(enumerate(lines)) for lines in targets] if approved else []
            found = translator.score_documents(
                [[pair.src for pair in document] for document in group],
                targets,
                memory,
                known=Knowledge(given, memories, rehearse=True),
            )
            scored += found
            bar.advance(sum(map(len, group)), sum(sum(document.words) for document in found))
    whole = ScoredDocument(
        [score for document in scored for score in document.log_probabilities],
        [words for document in scored for words in document.words],
    )
    return ScoredCorpus([document.name for document in documents], scored, whole)


# Contrastive sets.


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
    kinds: dict[str, list[ItemScore]] = {}
    for score in scores:
        if score.item.kind:
            kinds.setdefault(score.item.kind, []).append(score)
    return Contrast(_accuracy(scores), {kind: _accuracy(found) for kind, found in kinds.items()})


def _accuracy(scores: Sequence[ItemScore]) -> Accuracy:
    right = sum(score.right for score in scores)
    return Accuracy(len(scores), right, sum(score.tied for score in scores), right / len(scores))


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
            sources, targets = zip(*(document for document, _ in group), strict=True)
            chosen = [(d, i) for d, (_, indices) in enumerate(group) for i in indices]
            texts = []
            for d, i in chosen:
                candidates = (items[i].reference, *items[i].alternatives)
                texts += [(d, items[i].sentence, candidate) for candidate in candidates]
            found = iter(translator.score_candidates(sources, targets, texts))
            for _, i in chosen:
                reference, *alternatives = islice(found, 1 + len(items[i].alternatives))
                scores[i] = ItemScore(items[i], reference, tuple(alternatives))
            bar.advance(len(chosen))
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
        kind = "".join(self.text(fields[name], name) for name in kinds)
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
        for name in _REQUIRED:
            if name not in fields:
                self.fail(f"{name!r} is missing", f"add the field {name!r}")
        return fields

    def texts(self, fields: dict[str, Any], name: str) -> tuple[str, ...]:
        values = fields[name]
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
