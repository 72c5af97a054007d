"""Log-probability and perplexity of the given translations of a corpus."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum
from typing import Any, TypeVar

from wholedoc.config import ScoringMemory
from wholedoc.corpus.documents import Document, group_documents
from wholedoc.decoding.translator import ScoredDocument, Translator, perplexity
from wholedoc.progress import ProgressBar

Part = TypeVar("Part")


@dataclass(frozen=True)
class ScoredCorpus:
    """How probable the given translations of a corpus are."""

    names: list[str]
    documents: list[ScoredDocument]

    @property
    def log_probabilities(self) -> list[float]:
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
        return fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Per target token."""
        return perplexity(self.log_probability, self.words)

    @property
    def summary(self) -> list[str]:
        """The measures of the whole, for people."""
        lines = [
            f"{len(self.documents):,} documents, {len(self.log_probabilities):,} sentences, "
            f"{self.words:,} words with </s>: log-probability {self.log_probability:.2f}, "
            f"perplexity {self.perplexity:.3f}"
        ]
        if self.empty:
            lines.append(f"translations without a word, scored by their </s>: {self.empty:,}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --json``."""
        return {
            "sentences": len(self.log_probabilities),
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
        for group in group_documents(documents, len):
            found = translator.score_documents(
                [[pair.src for pair in document] for document in group],
                [[pair.trg for pair in document] for document in group],
                memory,
            )
            scored += found
            bar.advance(sum(map(len, group)), sum(sum(document.words) for document in found))
    return ScoredCorpus([document.name for document in documents], scored)
