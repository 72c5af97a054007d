"""The sentence encoder: a bidirectional GRU over the source words."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.kernels import Dropout, GRUWeights, Linear, Packing, bigru, pack


@final
class Gates(Linear):
    """A projection into the three gates of a GRU: reset, update, new."""

    def __init__(self, inputs: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__(inputs, 3 * hidden, bias=bias)


@final
class BidirectionalGRU(nn.Module):
    """→h_i = GRU(→h_{i-1}, x_i) and ←h_i = GRU(←h_{i+1}, x_i), both from zero.

    Each sequence is read backward from its own end.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.forward_input, self.backward_input = Gates(inputs, hidden), Gates(inputs, hidden)
        self.forward_state, self.backward_state = Gates(hidden, hidden), Gates(hidden, hidden)

    def forward(
        self, words: Float[Tensor, "word input"], packing: Packing
    ) -> tuple[Float[Tensor, "word states"], Float[Tensor, "row states"]]:
        """States [→h ; ←h] of packed words, and [last →h ; first ←h] of their rows."""
        both = (self.forward_input, self.forward_state), (self.backward_input, self.backward_state)
        ahead, back = (GRUWeights(x.weight, h.weight, x.bias, h.bias) for x, h in both)
        return bigru(words, packing, ahead, back)


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
        """Values of packed words as padded sentences, zero at padding."""
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
