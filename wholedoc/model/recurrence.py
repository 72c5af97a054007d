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

from wholedoc.model.loops import gru_backward, gru_forward, loops_for
from wholedoc.model.matrices import Factor, multiply


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
    mirror: Int[Tensor, " word"]
    """Where in the list its row has the word as far from the end as it is from the beginning."""
    counts: list[int]
    """How many words each step has."""
    in_order: bool
    """Whether the longest row came first, the second longest next, and so on."""

    @property
    def ends(self) -> Int[Tensor, " row"]:
        """Where in the list the last words of the rows are, the longest row first."""
        return self.mirror[: len(self.order)]

    def pad(
        self, words: Float[Tensor, "word width"], steps: int
    ) -> Float[Tensor, "row step width"]:
        """The words of each row, with zeros after its last, up to some number of steps."""
        padded = words.new_zeros(len(self.order), steps, words.shape[-1])
        padded[self.rows, self.places] = words
        return padded


def pack(lengths: Int[Tensor, " row"]) -> Packing:
    """The packing of rows of given lengths, at least one word each."""
    lengths, order = lengths.sort(descending=True, stable=True)
    steps = torch.arange(int(lengths[0]), device=lengths.device)
    real = steps[:, None] < lengths  # (step, row)
    places, ranks = real.nonzero(as_tuple=True)
    counts = real.sum(dim=1)
    before = counts.cumsum(dim=0) - counts  # words of all earlier steps
    mirror = before[lengths[ranks] - 1 - places] + ranks
    in_order = bool((order[1:] > order[:-1]).all())
    return Packing(order, order[ranks], places, mirror, counts.tolist(), in_order)


class GRUTape:
    """The steps of a GRU over packed rows, kept for the way back.

    Any dimensions may stand before the last two. [u_r u_z u_n] is the projected input of a step
    with :func:`gate_bias` in it, [e g_n g_r g_z] = W_s s, of which e, ``extra`` numbers wide, is
    whatever else is made from the state;
    r = σ(u_r + g_r),  z = σ(u_z + g_z),  n = tanh(u_n + r ⊙ (g_n + b_n)),
    s' = (1 − z) ⊙ n + z ⊙ s. ``projected`` becomes the tape's own.
    """

    def __init__(
        self,
        first: Float[Tensor, "*any row hidden"],
        projected: Float[Tensor, "*any word gates"],
        bias: Float[Tensor, "*any gates"],
        counts: list[int],
        extra: int = 0,
    ) -> None:
        *others, words, gates = projected.shape
        hidden = gates // 3
        self.counts = counts
        self.loops = loops_for(projected)
        self._bias = bias[..., None, 2 * hidden :]
        first = first.contiguous()
        self.states = first.new_empty(*others, words, hidden)
        self.after = self.steps(self.states)
        """s_j of each step."""
        starts = (first, *self.after)
        self.before = [state[..., :n, :] for state, n in zip(starts, counts, strict=False)]
        """s_{j-1} of the rows of each step."""
        self.projected = self.steps(projected)
        """u; may still be written to before its step."""
        both = first.new_empty(*others, words, extra + gates)
        self.recurrent = self.steps(both)
        """e and g; to be written before their step.

        Without b: a product that has nothing to add to is a good deal faster.
        """
        self.new_of = self.steps(first.new_empty(*others, words, hidden))
        self.extra, self.sums = map(self.steps, (both[..., :extra], both[..., extra:]))
        if self.loops is None:
            parts = torch.split(both[..., extra:], hidden, dim=-1)
            self.memory, self.reset, self.update = map(self.steps, parts)
            self.sigmoids = self.steps(both[..., extra + hidden :])
            self._given = self.steps(projected[..., : 2 * hidden])
            self._given_new = self.steps(projected[..., 2 * hidden :])

    def steps(self, words: Float[Tensor, "*any word width"]) -> tuple[Tensor, ...]:
        """The words of each step."""
        return torch.split(words, self.counts, dim=-2)

    def forward(self, j: int) -> Float[Tensor, "*any row hidden"]:
        """s_j, from u and g, which give way to r and z."""
        before, new, after = self.before[j], self.new_of[j], self.after[j]
        if self.loops is not None:
            given, sums = self.projected[j], self.sums[j]
            gru_forward(self.loops, self._bias, before, given, sums, new, after)
            return after
        self.sigmoids[j].add_(self._given[j]).sigmoid_()
        self.memory[j].add_(self._bias)
        torch.addcmul(self._given_new[j], self.reset[j], self.memory[j], out=new)
        return torch.lerp(new.tanh_(), before, self.update[j], out=after)


class GRUReturn:
    """The way back through the steps of a tape, from the gradient of s' to those of s, u and g.

    d_un = ds' (1 − z)(1 − n²),  d_gn = d_un r,  d_ur = d_gr = d_un g_n r(1 − r),
    d_uz = d_gz = ds' (s − n) z(1 − z),  d_s = ds' z, but for the way through g.
    They are kept in the order s, e, g_n, r, z, u_n, so that the gradients of u = [r z n] and those
    of [e g] = [e n r z] both stand side by side.
    """

    def __init__(self, tape: GRUTape) -> None:
        self._tape = tape
        hidden = tape.states.shape[-1]
        extra = tape.extra[0].shape[-1]
        sizes = [hidden, extra, hidden, hidden, hidden, hidden]
        with torch.inference_mode(mode=False):  # parts of it may go out as they are
            grads = tape.states.new_empty(*tape.states.shape[:-1], sum(sizes))
        kept, extras, *others = torch.split(grads, sizes, dim=-1)
        self.kept, self.extra = tape.steps(kept), tape.steps(extras)
        """kept: the part of the gradient of s_{j-1} that does not go through g."""
        if tape.loops is None:
            self._through, self._reset, self._update, self._new = map(tape.steps, others)
            self._both = tape.steps(grads[..., -3 * hidden : -hidden])
        self.all_projected = grads[..., -3 * hidden :]
        self.projected = tape.steps(self.all_projected)
        """The gradients of u."""
        self._others = tape.steps(grads[..., -4 * hidden :])
        self.all_recurrent = grads[..., hidden:-hidden]
        self.recurrent = tape.steps(self.all_recurrent)
        """The gradients of e and g."""

    def backward(self, j: int, grad: Float[Tensor, "*any row hidden"]) -> None:
        """All gradients of a step, from that of s_j."""
        tape = self._tape
        before, new = tape.before[j], tape.new_of[j]
        if tape.loops is not None:
            kept, others = self.kept[j], self._others[j]
            gru_backward(tape.loops, grad, before, tape.sums[j], new, kept, others)
            return
        torch.mul(grad, tape.update[j], out=self.kept[j])
        d_new = torch.sub(grad, self.kept[j], out=self._new[j])
        torch.ops.aten.tanh_backward.grad_input(d_new, new, grad_input=d_new)
        torch.mul(d_new, tape.reset[j], out=self._through[j])
        torch.mul(d_new, tape.memory[j], out=self._reset[j])
        torch.sub(before, new, out=self._update[j]).mul_(grad)
        both = self._both[j]
        torch.ops.aten.sigmoid_backward.grad_input(both, tape.sigmoids[j], grad_input=both)

    def before(self) -> Float[Tensor, "*any word hidden"]:
        """s_{j-1} of all steps."""
        return torch.cat(self._tape.before, dim=-2)

    def bias(self) -> Float[Tensor, "*any gates"]:
        """The gradient of b."""
        hidden = self.kept[0].shape[-1]
        summed = self.all_recurrent[..., -3 * hidden :].sum(dim=-2)
        return summed.roll(-hidden, dims=-1)


def gate_bias(bias: Float[Tensor, "*any gates"]) -> Float[Tensor, "*any gates"]:
    """[b_r b_z 0]: the part of a recurrent bias that may as well be added to u."""
    hidden = bias.shape[-1] // 3
    return torch.cat((bias[..., : 2 * hidden], torch.zeros_like(bias[..., :hidden])), dim=-1)


def new_first(weight: Float[Tensor, "gates hidden"]) -> tuple[Tensor, Tensor]:
    """[r z n] as [n] and [r z]: the order of g, in which the gradients of u and g have no gaps."""
    both = 2 * len(weight) // 3
    others, new = torch.split(weight, [both, len(weight) - both])
    return new, others


def add_rows(
    total: Float[Tensor, "*any row hidden"], first: Float[Tensor, "*any fewer hidden"]
) -> None:
    """Add to the first rows: the gradient of a step's states that the step after it gives."""
    total.narrow(-2, 0, first.shape[-2]).add_(first)


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
        inputs = self.forward_input, self.backward_input
        recurrent = self.forward_state, self.backward_state
        states: Tensor = _BidirectionalGRU.apply(  # type: ignore[no-untyped-call]
            words,
            packing,
            torch.stack([layer.weight for layer in inputs]),
            torch.stack([layer.bias for layer in inputs]),
            torch.cat([part for layer in recurrent for part in new_first(layer.weight)]).view(
                2, -1, self.hidden
            ),
            torch.stack([layer.bias for layer in recurrent]),
        )  # (word, 2 * hidden)
        rank = packing.order.argsort()
        # Where they are in the list →h ←h of the first word, →h ←h of the second, and so on.
        halves = torch.stack((2 * packing.ends[rank], 2 * rank + 1), dim=1)
        last = states.view(-1, self.hidden).index_select(0, halves.view(-1))
        return states, last.view(-1, 2 * self.hidden)


class _BidirectionalGRU(torch.autograd.Function):
    """Two recurrences side by side; weights have the two directions before all else.

    Only the matrices of the states have their gates in the order [n r z].
    The steps run in inference mode, in which a view costs half: what goes out is made outside.
    """

    @staticmethod
    def forward(
        ctx: Any, words: Tensor, packing: Packing,
        w_input: Tensor, b_input: Tensor, w_state: Tensor, b_state: Tensor,
    ) -> Tensor:  # fmt: skip
        """All steps in order, of each row from both its ends."""
        counts, mirror = packing.counts, packing.mirror
        inputs = torch.stack((words, words.index_select(0, mirror)))
        with torch.inference_mode():
            bias = b_input + gate_bias(b_state)
            projected = bias[:, None].repeat(1, len(words), 1)
            Factor(w_input.transpose(1, 2)).multiply(inputs, projected, add=True)
            first = projected.new_zeros(2, counts[0], w_state.shape[-1])
            tape = GRUTape(first, projected, b_state, counts)
            to_state = Factor(w_state.transpose(1, 2))
            for j in range(len(counts)):
                to_state.multiply(tape.before[j], tape.recurrent[j])
                tape.forward(j)
        ctx.save_for_backward(inputs, mirror, w_input, w_state)
        ctx.tape = tape
        return torch.cat((tape.states[0], tape.states[1].index_select(0, mirror)), dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """All steps in reverse order, then one product for each weight."""
        inputs, mirror, w_input, w_state = ctx.saved_tensors
        tape: GRUTape = ctx.tape
        with torch.inference_mode():
            way = GRUReturn(tape)
            ahead, back = grad_states.chunk(2, dim=-1)
            both = torch.stack((ahead, back.index_select(0, mirror)))
            grads = torch.split(both, tape.counts, dim=1)
            from_state, d_state = Factor(w_state), both[:, :0]
            for j in reversed(range(len(grads))):
                add_rows(grads[j], d_state)
                way.backward(j, grads[j])
                d_state = from_state.multiply(way.recurrent[j], way.kept[j], add=True)
        d_projected, d_recurrent = way.all_projected, way.all_recurrent
        ahead, back = multiply(d_projected, w_input)
        return (
            back.index_select(0, mirror).add_(ahead), None,
            multiply(d_projected.transpose(1, 2), inputs), d_projected.sum(dim=1),
            multiply(d_recurrent.transpose(1, 2), way.before()), way.bias(),
        )  # fmt: skip
