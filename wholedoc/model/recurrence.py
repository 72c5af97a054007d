"""GRU recurrences, written so that CPUs are kept busy.

The formulas of a GRU step and their derivative stand here once, without a graph; the recurrences
built on them multiply inputs for all steps at once and take each weight's gradient as one product
over all steps. Sequences of any lengths are packed, and nothing is computed for padding.
"""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@final
class Gates(nn.Linear):
    """A projection into the three gates of a GRU: reset, update, new."""

    def __init__(self, inputs: int, hidden: int, *, bias: bool = True) -> None:
        super().__init__(inputs, 3 * hidden, bias=bias)


@dataclass(frozen=True)
class Packing:
    """Rows of unlike lengths as one list of words: all first words, all second words, and so on.

    Within a step the longest row comes first, so that a step's rows are the first ones of the step
    before it.
    """

    order: Int[Tensor, " row"]
    """The rows, the longest first."""
    rows: Int[Tensor, " word"]
    """The row that each word is in."""
    places: Int[Tensor, " word"]
    """Its place there."""
    counts: list[int]
    """How many words each step has."""

    def pad(
        self, words: Float[Tensor, "word width"], steps: int
    ) -> Float[Tensor, "row step width"]:
        """The words of each row, with zeros after its last, up to some number of steps."""
        padded = words.new_zeros(len(self.order), steps, words.shape[-1])
        padded[self.rows, self.places] = words
        return padded


def pack(lengths: Int[Tensor, " row"]) -> Packing:
    """The packing of rows of given lengths, at least one word each."""
    order = lengths.argsort(descending=True, stable=True)
    steps = torch.arange(int(lengths.max()), device=lengths.device)
    real = steps[:, None] < lengths[order]  # (step, row)
    places, rows = real.nonzero(as_tuple=True)
    return Packing(order, order[rows], places, real.sum(dim=1).tolist())


class GRUTape:
    """The steps of a GRU over packed rows, kept for the way back.

    Any dimensions may stand before the last two. [u_r u_z u_n] is the projected input of a step,
    [g_r g_z g_n] = W_s s + b;
    r = σ(u_r + g_r),  z = σ(u_z + g_z),  n = tanh(u_n + r ⊙ g_n),  s' = (1 − z) ⊙ n + z ⊙ s.
    """

    def __init__(self, first: Float[Tensor, "*any row hidden"], counts: list[int]) -> None:
        *others, _, self.hidden = first.shape
        words = sum(counts)
        self.states = first.new_empty(*others, words, self.hidden)
        self.after = torch.split(self.states, counts, dim=-2)
        """s_j of each step."""
        starts = (first, *self.after)
        self.before = [state[..., :n, :] for state, n in zip(starts, counts, strict=False)]
        """s_{j-1} of the rows of each step."""
        gates = first.new_empty(*others, words, 3 * self.hidden)
        self.gates = torch.split(gates, counts, dim=-2)  # r, z, n
        memory = first.new_empty(*others, words, self.hidden)
        self.memory = torch.split(memory, counts, dim=-2)  # g_n

    def forward(
        self,
        j: int,
        projected: Float[Tensor, "*rows gates"],
        recurrent: Float[Tensor, "*rows gates"],
    ) -> Float[Tensor, "*rows hidden"]:
        """s_j, from u and g."""
        both = 2 * self.hidden
        gates, memory = self.gates[j], self.memory[j]
        memory.copy_(recurrent[..., both:])
        torch.add(projected[..., :both], recurrent[..., :both], out=gates[..., :both]).sigmoid_()
        reset, update, new = gates.chunk(3, dim=-1)
        torch.addcmul(projected[..., both:], reset, memory, out=new).tanh_()
        return torch.lerp(new, self.before[j], update, out=self.after[j])

    def backward(
        self,
        j: int,
        grad: Float[Tensor, "*rows hidden"],
        projected: Float[Tensor, "*rows gates"],
        recurrent: Float[Tensor, "*rows gates"],
    ) -> Float[Tensor, "*rows hidden"]:
        """Write the gradients of u and g; give the part of s_{j-1}'s that does not go through g."""
        both = 2 * self.hidden
        reset, update, new = self.gates[j].chunk(3, dim=-1)
        d_reset, d_update, d_new = projected.chunk(3, dim=-1)
        torch.mul(grad, 1 - update, out=d_new).mul_(1 - new * new)
        torch.mul(grad, self.before[j] - new, out=d_update).mul_(update * (1 - update))
        torch.mul(d_new, self.memory[j], out=d_reset).mul_(reset * (1 - reset))
        recurrent[..., :both] = projected[..., :both]
        torch.mul(d_new, reset, out=recurrent[..., both:])
        return grad * update


def add_rows(
    total: Float[Tensor, "*any row hidden"], first: Float[Tensor, "*any fewer hidden"]
) -> None:
    """Add to the first rows: the gradient of a step's states that the step after it gives."""
    total[..., : first.shape[-2], :] += first


@final
class BidirectionalGRU(nn.Module):
    """→h_i = GRU(→h_{i-1}, x_i) and ←h_i = GRU(←h_{i+1}, x_i), both from zero.

    Each sequence is read backward from its own end, so that no state sees padding.
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.forward_input, self.backward_input = Gates(inputs, hidden), Gates(inputs, hidden)
        self.forward_state, self.backward_state = Gates(hidden, hidden), Gates(hidden, hidden)

    def forward(
        self, inputs: Float[Tensor, "step row input"], lengths: Int[Tensor, " row"]
    ) -> tuple[Float[Tensor, "step row states"], Float[Tensor, "row states"]]:
        """States [→h ; ←h] of all steps, zero at padding, and [last →h ; first ←h]."""
        packing = pack(lengths)
        places, rows = packing.places, packing.rows
        mirrored = lengths[rows] - 1 - places
        both = torch.stack((inputs[places, rows], inputs[mirrored, rows]))  # (2, word, input)
        weight = torch.stack((self.forward_input.weight, self.backward_input.weight))
        bias = torch.stack((self.forward_input.bias, self.backward_input.bias))
        states: Tensor = _BidirectionalGRU.apply(  # type: ignore[no-untyped-call]
            torch.baddbmm(bias[:, None], both, weight.mT),
            torch.stack((self.forward_state.weight, self.backward_state.weight)),
            torch.stack((self.forward_state.bias, self.backward_state.bias)),
            packing.counts,
        )  # (2, word, hidden)
        paired = states.new_zeros(*inputs.shape[:2], 2, self.hidden)
        paired[places, rows, 0], paired[mirrored, rows, 1] = states
        last = states.new_zeros(len(lengths), 2, self.hidden)
        ends = mirrored == 0
        last[rows[ends]] = states[:, ends].transpose(0, 1)
        return paired.flatten(2), last.flatten(1)


class _BidirectionalGRU(torch.autograd.Function):
    """Two recurrences side by side, from their projected inputs."""

    @staticmethod
    def forward(
        ctx: Any, projected: Tensor, weight: Tensor, bias: Tensor, counts: list[int]
    ) -> Tensor:
        """All steps in order; every tensor has the two directions before its words."""
        directions, _, gates = projected.shape
        tape = GRUTape(projected.new_zeros(directions, counts[0], gates // 3), counts)
        for j, inputs in enumerate(torch.split(projected, counts, dim=1)):
            tape.forward(j, inputs, torch.baddbmm(bias[:, None], tape.before[j], weight.mT))
        ctx.save_for_backward(weight)
        ctx.tape, ctx.counts = tape, counts
        return tape.states.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """All steps in reverse order, then one product for the weights."""
        (weight,) = ctx.saved_tensors
        tape: GRUTape = ctx.tape
        d_projected = weight.new_empty(*grad_states.shape[:2], weight.shape[1])
        d_recurrent = torch.empty_like(d_projected)
        projected, recurrent, grads = (
            torch.split(tensor, ctx.counts, dim=1)
            for tensor in (d_projected, d_recurrent, grad_states.clone())
        )
        d_state = grad_states[:, :0]
        for j in reversed(range(len(grads))):
            add_rows(grads[j], d_state)
            d_state = tape.backward(j, grads[j], projected[j], recurrent[j])
            d_state.baddbmm_(recurrent[j], weight)
        before = torch.cat(tape.before, dim=1)
        return d_projected, torch.bmm(d_recurrent.mT, before), d_recurrent.sum(dim=1), None
