"""What ``wholedoc score`` measures: the perplexity of a corpus, accuracy on a discourse set.

A contrastive set asks: is the reference more probable than each of its wrong alternatives? Others
ask: does the model's own translation hold the form that is expected?
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from wholedoc.config import ItemContext, ScoringMemory
from wholedoc.corpus.documents import Document, group_documents
from wholedoc.metrics.discourse_sets import ContrastiveItem, ExpectedItem, with_context
from wholedoc.progress import ProgressBar

if TYPE_CHECKING:  # sets are read before torch is loaded
    from wholedoc.decoding.results import ScoredDocument
    from wholedoc.decoding.translator import Translator
    from wholedoc.tm.memory import TranslationMemory

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


# Discourse sets.


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
            "kind": ", ".join(self.item.kinds),
            "right": self.right,
            "tied": self.tied,
            "reference": self.reference,
            "alternatives": list(self.alternatives),
        }


@dataclass(frozen=True, slots=True)
class ItemTranslation:
    """The model's own translation of an item's sentence."""

    item: ExpectedItem
    translation: str

    @property
    def right(self) -> bool:
        """Whether it holds the form that is expected."""
        return self.item.accepts(self.translation)

    def to_json(self) -> dict[str, Any]:
        """One line of the output."""
        return {
            "line": self.item.line,
            "kind": ", ".join(self.item.kinds),
            "right": self.right,
            "expected": self.item.expected,
            "translation": self.translation,
        }


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How many items of some are right."""

    items: int
    right: int
    ties: int | None
    """Items whose reference is only as probable as an alternative; they are not right. None where
    nothing is compared."""
    accuracy: float

    def to_json(self) -> dict[str, Any]:
        """The measures that there are."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class SetAccuracy:
    """The accuracy on a discourse set."""

    whole: Accuracy
    kinds: dict[str, Accuracy]
    """By kind, in the order of the file; items without a kind are in none."""
    context: ItemContext = "own"
    """What the sentences were read with."""

    @property
    def summary(self) -> list[str]:
        """A line for the whole and one for each kind, for people."""
        return [
            f"{name}: {100 * found.accuracy:.1f} % right, {found.right:,} of {found.items:,}"
            + (f"; {found.ties:,} ties, counted as not right" if found.ties else "")
            for name, found in [("all", self.whole), *self.kinds.items()]
        ]

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --contrastive --json`` and ``--ctxpro``."""
        kinds = {kind: found.to_json() for kind, found in self.kinds.items()}
        return {**self.whole.to_json(), "kinds": kinds, "context": self.context}


def count_right(
    scores: Sequence[ItemScore | ItemTranslation], context: ItemContext = "own"
) -> SetAccuracy:
    """The accuracy over ``scores``, of which there is at least one, and over each kind of them."""
    kinds: dict[str, list[ItemScore | ItemTranslation]] = {}
    for score in scores:
        for kind in score.item.kinds:
            kinds.setdefault(kind, []).append(score)
    by_kind = {kind: _accuracy(found) for kind, found in kinds.items()}
    return SetAccuracy(_accuracy(scores), by_kind, context)


def _accuracy(scores: Sequence[ItemScore | ItemTranslation]) -> Accuracy:
    right = sum(score.right for score in scores)
    ties = [score.tied for score in scores if isinstance(score, ItemScore)]
    return Accuracy(len(scores), right, sum(ties) if ties else None, right / len(scores))


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


def translate_items(
    translator: "Translator", items: Sequence[ExpectedItem]
) -> Iterator[list[ItemTranslation]]:
    """Translate the sentence of each item in its document: groups of items, in order.

    The model's own settings of search are used. Nothing but the document is read.
    """
    rounds = 1
    if translator.reads_documents:
        rounds += translator.config.search.passes
    else:
        items = with_context(items, "none")
    with ProgressBar("translating", rounds * sum(len(item.source) for item in items)) as bar:
        for group in group_documents(items, lambda item: len(item.source)):
            documents = translator.translate_documents(
                [item.source for item in group], progress=bar.advance, measure=False
            )
            yield [
                ItemTranslation(item, document.sentences[item.sentence])
                for item, document in zip(group, documents, strict=True)
            ]
