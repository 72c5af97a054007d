"""The sentence encoder: a bidirectional GRU over the source words."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.kernels.dropout import Dropout
from wholedoc.kernels.recurrence import BidirectionalGRU, Packing, pack


@dataclass(frozen=True)
class Encoding:
    """A batch of source sentences as the decoder sees them."""

    packed_states: Float[Tensor, "word states"]
    """h_i, 2H wide."""
    packing: Packing
    mask: Bool[Tensor, "sent src_word"]
    """True at real words."""
    summary: Float[Tensor, "sent states"]
    """h_t = [last forward state ; first backward state], each at the sentence's own end."""

    def pad(self, words: Float[Tensor, "word width"]) -> Float[Tensor, "sent src_word width"]:
        """Anything that is known of each word, zero at padding."""
        return self.packing.pad(words, self.mask.shape[1])

    @property
    def states(self) -> Float[Tensor, "sent src_word states"]:
        """h_i, zero at padding."""
        return self.pad(self.packed_states)


class Encoder(nn.Module):
    """h_i = [→h_i ; ←h_i],  →h_i = GRU(→h_{i-1}, E_S[x_i]),  ←h_i = GRU(←h_{i+1}, E_S[x_i]).

    Paper: [enc]. ``embedding`` is E_S. No state ever sees padding.
    """

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.rnn = BidirectionalGRU(config.embedding, config.hidden)
        self.dropout = Dropout(dropout)

    def forward(self, src: Int[Tensor, "sent src_word"], lengths: Int[Tensor, " sent"]) -> Encoding:
        """Encode padded sentences of the given true lengths (at least one word each)."""
        packing = pack(lengths)
        embedded = self.embedding(src[packing.rows, packing.places])
        states, summary = self.rnn(self.dropout(embedded), packing)
        mask = torch.arange(src.shape[1], device=src.device) < lengths[:, None]
        return Encoding(self.dropout(states), packing, mask, summary)
