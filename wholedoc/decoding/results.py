"""What the translator returns: translations and scores as values, ready for JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    log_probability: float
    """log P(y|x)."""
    score: float
    """What it was ranked by: the log-probability, normalised for length."""
    attention: Float[Tensor, "trg_token src_token"] | None
    """Where each output token, ``</s>`` last, looked in the source; None for a sentence that was
    translated in pieces."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translations, sentence by sentence."""

    candidates: list[list[Translation]]
    """For each source sentence its translations, best first."""
    history: list[list[str]]
    """The translations after each pass; the last are the final ones."""
    source_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the source memory; None where it was not read."""
    target_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the target memory."""
    objective: list[float]
    """The pseudo-log-likelihood of the document after each pass but the first, if measured."""
    pieces: list[int]
    """In how many pieces each sentence was translated: 1, but for very long ones."""

    @property
    def sentences(self) -> list[str]:
        """The final translations, exactly one per source sentence."""
        return self.history[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; ``sentences`` included."""
        found = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        candidates = [[found.to_dict() for found in best] for best in self.candidates]
        return {"sentences": self.sentences, **found, "candidates": candidates}


@dataclass(frozen=True)
class ScoredDocument:
    """How probable the given translations of a document are."""

    log_probabilities: list[float]
    """log P(y_t | x_t, y_-t, x_-t) of each sentence's translation, ``</s>`` included."""
    words: list[int]
    """Tokens of each translation, ``</s>`` included."""

    @property
    def log_probability(self) -> float:
        """The sum over the sentences."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Per token."""
        return perplexity(self.log_probability, sum(self.words))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the perplexity of nothing is None."""
        return {
            "log_probabilities": self.log_probabilities,
            "words": self.words,
            "log_probability": self.log_probability,
            "perplexity": self.perplexity if self.words else None,
        }


def perplexity(log_probability: float, words: int) -> float:
    """exp(−log P / words), within what can be printed; without words there is none."""
    return math.exp(min(-log_probability / words, 700)) if words else math.nan


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value


def join_pieces(
    parts: Sequence[list[Translation]], separators: Sequence[str], length_penalty: float
) -> list[Translation]:
    """The translations of a sentence from those of its pieces: the best of each, then the next.

    A separator stands after each piece. The log-probability is the sum, normalised for length as
    that of one sentence.
    """
    if len(parts) == 1:
        return parts[0]
    joined = []
    for rank in range(max(map(len, parts))):
        chosen = [part[min(rank, len(part) - 1)] for part in parts]
        pairs = zip((found.text for found in chosen), separators, strict=True)
        text = "".join(text + separator for text, separator in pairs if text)
        log_probability = math.fsum(found.log_probability for found in chosen)
        words = sum(len(found.attention) for found in chosen if found.attention is not None)
        score = log_probability / words**length_penalty
        joined.append(Translation(text.strip(), log_probability, score, None))
    return joined


def join_weights(
    weights: Float[Tensor, "piece cell"] | None, readers: Sequence[int], read: Sequence[int]
) -> Float[Tensor, "sent read"] | None:
    """Weights between sentences from those between pieces, of which each sentence has a number.

    A sentence reads as its pieces do on average, and a sentence is read as much as all its pieces.
    """
    if weights is None or max(*readers, *read, 1) == 1:
        return weights
    rows, columns = (
        torch.repeat_interleave(torch.tensor(pieces, device=weights.device))
        for pieces in (readers, read)
    )
    summed = weights.new_zeros(len(readers), weights.shape[1]).index_add_(0, rows, weights)
    joined = weights.new_zeros(len(readers), len(read)).index_add_(1, columns, summed)
    return joined / weights.new_tensor(readers)[:, None]
