"""Additive attention over the words of the source sentence."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from wholedoc.kernels import Linear
from wholedoc.model.encoder import Encoding


@dataclass(frozen=True)
class Attended:
    """What attention reads from, projected once per sentence and used at every step."""

    keys: Float[Tensor, "sent src_word align"]
    """W_ae h_i."""
    values: Float[Tensor, "sent src_word states"]
    """h_i."""
    mask: Bool[Tensor, "sent src_word"]
    """True at real words."""

    def select(self, rows: Int[Tensor, " row"]) -> "Attended":
        """The given sentences, in the given order; a sentence may come more than once."""
        # Its backward pass is a good deal faster than that of indexing.
        return Attended(
            self.keys.index_select(0, rows), self.values.index_select(0, rows), self.mask[rows]
        )

    def first(self, count: int) -> "Attended":
        """The first sentences."""
        return Attended(self.keys[:count], self.values[:count], self.mask[:count])


class Attention(nn.Module):
    """a_ji = v · tanh(W_ae h_i + W_at s_{j-1}),  α_j = softmax(a_j),  c_j = Σ_i α_ji h_i.

    Paper: [att]. ``key`` is W_ae, ``query`` is W_at, ``score`` is v. The state s_{j-1} is that of
    both decoder layers, concatenated; padding gets no weight.
    """

    def __init__(self, values: int, state: int, alignment: int) -> None:
        super().__init__()
        self.key = Linear(values, alignment, bias=False)
        self.query = nn.Linear(state, alignment, bias=False)
        self.score = nn.Linear(alignment, 1, bias=False)

    def attend(self, encoding: Encoding) -> Attended:
        """Project the keys of a batch of sentences; nothing is multiplied for padding."""
        keys = encoding.pad(self.key(encoding.packed_states))
        return Attended(keys, encoding.states, encoding.mask)

    def forward(
        self, state: Float[Tensor, "row state"], source: Attended
    ) -> tuple[Float[Tensor, "row states"], Float[Tensor, "row src_word"]]:
        """The context c_j and the weights α_j for a batch of decoder states.

        Each sentence has as many rows as any other, one after the other; most often one.
        """
        query = self.query(state).view(len(source.keys), -1, 1, source.keys.shape[-1])
        energies = torch.tanh(source.keys[:, None] + query)  # (T, rows of a sentence, I, A)
        scores = self.score(energies).squeeze(-1)
        scores = scores.masked_fill(~source.mask[:, None], float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        context = torch.bmm(weights, source.values)
        return context.flatten(0, 1), weights.flatten(0, 1)
