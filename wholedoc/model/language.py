"""Language models of the source side, whose last states are the vectors of sentences."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.corpus.vocabulary import BOS, PAD
from wholedoc.kernels import Dropout

_BATCH_TOKENS = 4000


@final
class LanguageModel(nn.Module):
    """P(x_1 … x_n) = Π_i P(x_i | <s> x_1 … x_{i-1}): an LSTM with embeddings of its own."""

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.rnn = nn.LSTM(config.embedding, config.hidden, batch_first=True)
        self.output = nn.Linear(config.hidden, vocabulary)
        self.dropout = Dropout(dropout)

    def forward(self, words: Int[Tensor, "sent word"]) -> Float[Tensor, "sent word hidden"]:
        """The state after each word; ``words`` begin with ``<s>``, padding comes last."""
        states, _ = self.rnn(self.dropout(self.embedding(words)))
        dropped: Tensor = self.dropout(states)
        return dropped


DIRECTIONS = {"forward": slice(None, -1), "backward": slice(-2, None, -1)}
"""Which words of a sentence a model reads, and in which order: all but ``</s>``."""


def read_words(sentences: Sequence[Sequence[int]], direction: str) -> tuple[Tensor, Tensor]:
    """``<s> x_1 … x_n`` or ``<s> x_n … x_1``, padded, and how many words are read."""
    return pad([[BOS, *sentence[DIRECTIONS[direction]]] for sentence in sentences])


@final
class SentenceVectors(nn.Module):
    """[last state of the forward model ; last state of the backward model], 2H wide.

    ``</s>`` is not read. The models are trained by themselves and never change afterwards.
    """

    def __init__(self, vocabulary: int, config: ModelConfig) -> None:
        super().__init__()
        self.width = 2 * config.hidden
        self.forward_model = LanguageModel(vocabulary, config)
        self.backward_model = LanguageModel(vocabulary, config)
        self.requires_grad_(False)

    @property
    def models(self) -> dict[str, LanguageModel]:
        """The model of each direction."""
        return {"forward": self.forward_model, "backward": self.backward_model}

    @torch.no_grad()
    def forward(self, sentences: Sequence[Sequence[int]]) -> Float[Tensor, "sent states"]:
        """One vector per sentence; sentences end with ``</s>``."""
        batches = length_batches([len(sentence) for sentence in sentences], _BATCH_TOKENS)
        vectors = in_order(sentences, batches, self._batch)
        return torch.stack(vectors) if vectors else next(self.parameters()).new_empty(0, self.width)

    def _batch(self, sentences: list[Sequence[int]]) -> list[Tensor]:
        """The vectors of sentences of like length."""
        device = next(self.parameters()).device
        last = []
        for direction, model in self.models.items():
            words, lengths = read_words(sentences, direction)
            states = model(words.to(device))
            last.append(states[torch.arange(len(sentences)), lengths - 1])
        return list(torch.cat(last, dim=-1))
