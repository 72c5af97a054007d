"""Scoring of corpora and contrastive sets: log-probabilities, perplexity, accuracy."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, TypeVar

from wholedoc.config import ScoringMemory
from wholedoc.corpus.documents import Document
from wholedoc.decoding.translator import ScoredDocument, Translator, perplexity
from wholedoc.metrics.context_use import ContextUse, measure_context_use
from wholedoc.metrics.contrastive import ContrastiveItem, ItemScore
from wholedoc.progress import ProgressBar

_SENTENCES_AT_ONCE = 1000

Part = TypeVar("Part")


@dataclass(frozen=True)
class ScoredCorpus:
    """How probable the given translations of a corpus are."""

    names: list[str]
    documents: list[ScoredDocument]

    @property
    def sentences(self) -> list[float]:
        """The log-probability of each sentence's translation."""
        return [score for document in self.documents for score in document.log_probabilities]

    @property
    def words(self) -> int:
        """Target tokens, ``</s>`` included."""
        return sum(sum(document.words) for document in self.documents)

    @property
    def empty(self) -> int:
        """Translations without a word: only their ``</s>`` is scored."""
        return sum(document.words.count(1) for document in self.documents)

    @property
    def log_probability(self) -> float:
        """The sum over all sentences."""
        return fsum(self.sentences)

    @property
    def perplexity(self) -> float:
        """Per target token."""
        return perplexity(self.log_probability, self.words)

    @property
    def summary(self) -> list[str]:
        """The measures of the whole, for people."""
        lines = [
            f"{len(self.documents):,} documents, {len(self.sentences):,} sentences, "
            f"{self.words:,} words with </s>: log-probability {self.log_probability:.2f}, "
            f"perplexity {self.perplexity:.3f}"
        ]
        if self.empty:
            lines.append(f"translations without a word, scored by their </s>: {self.empty:,}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --json``."""
        return {
            "sentences": len(self.sentences),
            "words": self.words,
            "log_probability": self.log_probability,
            "perplexity": self.perplexity,
            "documents": [
                {
                    "name": name,
                    "sentences": document.log_probabilities,
                    "log_probability": document.log_probability,
                    "words": sum(document.words),
                    "perplexity": document.perplexity,
                }
                for name, document in zip(self.names, self.documents, strict=True)
            ],
        }


def score_corpus(
    translator: Translator, corpus: Iterable[Document], memory: ScoringMemory = "given"
) -> ScoredCorpus:
    """Score the translations of all documents of a corpus."""
    documents = list(corpus)
    scored: list[ScoredDocument] = []
    with ProgressBar("scoring", sum(map(len, documents))) as bar:
        for group in _groups(documents, len):
            found = translator.score_documents(
                [[pair.src for pair in document] for document in group],
                [[pair.trg for pair in document] for document in group],
                memory,
            )
            scored += found
            bar.advance(sum(map(len, group)), sum(sum(document.words) for document in found))
    return ScoredCorpus([document.name for document in documents], scored)


def score_context_use(
    translator: Translator, corpus: Iterable[Document], memory: ScoringMemory = "given"
) -> ContextUse:
    """Measure how much a model uses context for the translations of a corpus.

    All documents are scored together: each is also made to read the memory of the one before.
    """
    documents = list(corpus)
    conditions = 4 if len(documents) > 1 else 3
    with ProgressBar("scoring", conditions * sum(map(len, documents))) as bar:
        scores = translator.score_context(
            [[pair.src for pair in document] for document in documents],
            [[pair.trg for pair in document] for document in documents],
            memory,
            bar.advance,
        )
    return measure_context_use([document.name for document in documents], scores, memory)


def score_items(
    translator: Translator, items: Sequence[ContrastiveItem], memory: ScoringMemory = "given"
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
        for group in _groups(list(sharing.items()), lambda shared: len(shared[0][0])):
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


def _groups(parts: Iterable[Part], size: Callable[[Part], int]) -> Iterator[list[Part]]:
    """Whole documents, as many as make good batches."""
    group: list[Part] = []
    sentences = 0
    for part in parts:
        group.append(part)
        sentences += size(part)
        if sentences >= _SENTENCES_AT_ONCE:
            yield group
            group, sentences = [], 0
    if group:
        yield group
