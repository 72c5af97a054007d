"""The sentence encoder: a bidirectional GRU over the source words."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD


@dataclass(frozen=True)
class Encoding:
    """A batch of source sentences as the decoder sees them."""

    states: Float[Tensor, "sent src_word states"]
    """h_i, 2H wide, zero at padding."""
    mask: Bool[Tensor, "sent src_word"]
    """True at real words."""
    summary: Float[Tensor, "sent states"]
    """h_t = [last forward state ; first backward state], each at the sentence's own end."""


class Encoder(nn.Module):
    """h_i = [→h_i ; ←h_i],  →h_i = GRU(→h_{i-1}, E_S[x_i]),  ←h_i = GRU(←h_{i+1}, E_S[x_i]).

    Paper: [enc]. ``embedding`` is E_S. Sentences are packed: no state ever sees padding.
    """

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.rnn = nn.GRU(config.embedding, config.hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src: Int[Tensor, "sent src_word"], lengths: Int[Tensor, "sent"]) -> Encoding:
        """Encode padded sentences of the given true lengths (at least one word each)."""
        embedded = self.dropout(self.embedding(src))  # (T, I, E)
        packed = pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, last = self.rnn(packed)  # last: (2, T, H)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=src.shape[1])
        mask = torch.arange(src.shape[1], device=src.device) < lengths[:, None]
        return Encoding(self.dropout(states), mask, torch.cat((last[0], last[1]), dim=-1))
