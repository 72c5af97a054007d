"""GRU recurrences, written so that CPUs are kept busy.

The formulas of a GRU step and their derivative stand here as calls of torch, without a graph,
beside the compiled ones; the recurrences built on them multiply inputs for all steps at once and
take each weight's gradient as one product over all steps. Sequences of any lengths are packed, and
nothing is computed for padding.
"""

from ctypes import CDLL, byref
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wholedoc.kernels.matrices import Linear, Packed, multiply
from wholedoc.kernels.native import address, loops_for
from wholedoc.kernels.steps import Return, Tape


@final
class Gates(Linear):
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
        self.hidden, self.extra, self.counts = gates // 3, extra, counts
        self.first, self.bias = first.contiguous(), bias[..., 2 * self.hidden :]
        self.projected = projected
        """u; of a step, it may still be written to before."""
        self.both = first.new_empty(*others, words, extra + gates)
        """e and g, without b: a product that has nothing to add to is a good deal faster.

        In a step, g gives way to g_n + b_n, r and z.
        """
        self.new = first.new_empty(*others, words, self.hidden)
        self.states = first.new_empty(*others, words, self.hidden)

    def steps(self, words: Float[Tensor, "*any word width"]) -> tuple[Tensor, ...]:
        """The words of each step."""
        return torch.split(words, self.counts, dim=-2)

    @cached_property
    def before(self) -> list[Float[Tensor, "*any row hidden"]]:
        """s_{j-1} of the rows of each step."""
        starts = (self.first, *self.steps(self.states))
        return [state[..., :n, :] for state, n in zip(starts, self.counts, strict=False)]

    def compiled(self, d: int = 0) -> Tape:
        """One direction as it is given to the compiled steps, but for W_s."""
        tensors = (self.projected, self.both, self.new, self.states)
        return Tape(
            self.hidden, self.extra, address(self.first, d), address(self.bias, d), None,
            *(address(tensor, d) for tensor in tensors),
        )  # fmt: skip


class GRUSteps:
    """The steps of a tape, one after the other, by torch."""

    def __init__(self, tape: GRUTape) -> None:
        hidden, extra = tape.hidden, tape.extra
        self.before, self._bias = tape.before, tape.bias[..., None, :]
        self.projected, self.recurrent = tape.steps(tape.projected), tape.steps(tape.both)
        """u, and [e g], which are to be written before their step."""
        self.extra = tape.steps(tape.both[..., :extra])
        self._gates = _Gates(tape)
        self._given = tape.steps(tape.projected[..., : 2 * hidden])
        self._given_new = tape.steps(tape.projected[..., 2 * hidden :])
        self._after = tape.steps(tape.states)

    def forward(self, j: int) -> Float[Tensor, "*any row hidden"]:
        """s_j, from u and g, which give way to r and z."""
        gates = self._gates
        gates.both[j].add_(self._given[j]).sigmoid_()
        gates.memory[j].add_(self._bias)
        torch.addcmul(self._given_new[j], gates.reset[j], gates.memory[j], out=gates.new[j])
        return torch.lerp(gates.new[j].tanh_(), self.before[j], gates.update[j], out=self._after[j])


class _Gates:
    """What the steps of a tape write of g, and n."""

    def __init__(self, tape: GRUTape) -> None:
        parts = torch.split(tape.both[..., tape.extra :], tape.hidden, dim=-1)
        self.memory, self.reset, self.update = map(tape.steps, parts)
        self.both = tape.steps(tape.both[..., tape.extra + tape.hidden :])
        self.new = tape.steps(tape.new)


class GRUReturn:
    """The way back through the steps of a tape, from the gradient of s' to those of s, u and g.

    d_un = ds' (1 − z)(1 − n²),  d_gn = d_un r,  d_ur = d_gr = d_un g_n r(1 − r),
    d_uz = d_gz = ds' (s − n) z(1 − z),  d_s = ds' z, but for the way through g.
    They are kept in the order s, e, g_n, r, z, u_n, so that the gradients of u = [r z n] and those
    of [e g] = [e n r z] both stand side by side.
    """

    def __init__(self, tape: GRUTape) -> None:
        self._tape, hidden = tape, tape.hidden
        with torch.inference_mode(mode=False):  # parts of it may go out as they are
            self.grads = tape.states.new_empty(*tape.states.shape[:-1], tape.extra + 5 * hidden)
        self.projected = self.grads[..., -3 * hidden :]
        """The gradients of u."""
        self.recurrent = self.grads[..., hidden:-hidden]
        """The gradients of e and g."""

    def first(self) -> Float[Tensor, "*any row hidden"]:
        """The gradient of the first states."""
        rows = self._tape.first.shape[-2]
        return self.grads[..., :rows, : self._tape.hidden].clone()

    def weight(self) -> Float[Tensor, "*any both hidden"]:
        """The gradient of W_s: one product over all steps."""
        return multiply(self.recurrent.mT, torch.cat(self._tape.before, dim=-2))

    def bias(self) -> Float[Tensor, "*any gates"]:
        """The gradient of b."""
        hidden = self._tape.hidden
        return self.recurrent[..., -3 * hidden :].sum(dim=-2).roll(-hidden, dims=-1)


class GRUReturnSteps:
    """The steps of the way back, one after the other, by torch."""

    def __init__(self, tape: GRUTape, way: GRUReturn) -> None:
        hidden, extra = tape.hidden, tape.extra
        sizes = [hidden, extra, hidden, hidden, hidden, hidden]
        parts = torch.split(way.grads, sizes, dim=-1)
        self.kept, self.extra, self._through, self._reset, self._update, self._new = map(
            tape.steps, parts
        )
        """kept: the part of the gradient of s_{j-1} that does not go through g."""
        self._both = tape.steps(way.grads[..., -3 * hidden : -hidden])
        self.projected, self.recurrent = tape.steps(way.projected), tape.steps(way.recurrent)
        self._before, self._gates = tape.before, _Gates(tape)

    def backward(self, j: int, grad: Float[Tensor, "*any row hidden"]) -> None:
        """All gradients of a step, from that of s_j."""
        gates, new = self._gates, self._gates.new[j]
        torch.mul(grad, gates.update[j], out=self.kept[j])
        d_new = torch.sub(grad, self.kept[j], out=self._new[j])
        torch.ops.aten.tanh_backward.grad_input(d_new, new, grad_input=d_new)
        torch.mul(d_new, gates.reset[j], out=self._through[j])
        torch.mul(d_new, gates.memory[j], out=self._reset[j])
        torch.sub(self._before[j], new, out=self._update[j]).mul_(grad)
        both = self._both[j]
        torch.ops.aten.sigmoid_backward.grad_input(both, gates.both[j], grad_input=both)


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
            projected = multiply(inputs, w_input.mT, bias)
            first = projected.new_zeros(2, counts[0], w_state.shape[-1])
            tape = GRUTape(first, projected, b_state, counts)
            loops = loops_for(words)
            if loops is None:
                _forward_by_torch(tape, w_state)
            else:
                _forward_compiled(loops, tape, w_state)
        ctx.save_for_backward(inputs, mirror, w_input, w_state)
        ctx.tape, ctx.loops = tape, loops
        return torch.cat((tape.states[0], tape.states[1].index_select(0, mirror)), dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """All steps in reverse order, then one product for each weight."""
        inputs, mirror, w_input, w_state = ctx.saved_tensors
        with torch.inference_mode():
            way = GRUReturn(ctx.tape)
            ahead, back = grad_states.chunk(2, dim=-1)
            grads = torch.stack((ahead, back.index_select(0, mirror)))
            if ctx.loops is None:
                _backward_by_torch(ctx.tape, way, grads, w_state)
            else:
                _backward_compiled(ctx.loops, ctx.tape, way, grads, w_state)
        ahead, back = multiply(way.projected, w_input)
        return (
            back.index_select(0, mirror).add_(ahead), None,
            multiply(way.projected.mT, inputs), way.projected.sum(dim=1), way.weight(), way.bias(),
        )  # fmt: skip


def _forward_by_torch(tape: GRUTape, w_state: Tensor) -> None:
    gru = GRUSteps(tape)
    state_t = w_state.mT.contiguous()
    for j in range(len(tape.counts)):
        torch.bmm(gru.before[j], state_t, out=gru.recurrent[j])
        gru.forward(j)


def _forward_compiled(loops: CDLL, tape: GRUTape, w_state: Tensor) -> None:
    packed, counts = Packed(loops, w_state.mT), torch.tensor(tape.counts)
    for d, weight in enumerate(packed.addresses):
        one = tape.compiled(d)
        one.state = weight
        loops.gru_steps_forward(len(counts), counts.data_ptr(), byref(one))


def _backward_by_torch(tape: GRUTape, way: GRUReturn, grads: Tensor, w_state: Tensor) -> None:
    gru, grad = GRUReturnSteps(tape, way), tape.steps(grads)
    d_state = grads[:, :0]
    for j in reversed(range(len(grad))):
        add_rows(grad[j], d_state)
        gru.backward(j, grad[j])
        d_state = gru.kept[j].baddbmm_(gru.recurrent[j], w_state)


def _backward_compiled(
    loops: CDLL, tape: GRUTape, way: GRUReturn, grads: Tensor, w_state: Tensor
) -> None:
    packed, counts = Packed(loops, w_state), torch.tensor(tape.counts)
    for d, weight in enumerate(packed.addresses):
        back = Return(weight, address(way.grads, d))
        loops.gru_steps_backward(
            len(counts), counts.data_ptr(), byref(tape.compiled(d)), byref(back), address(grads, d)
        )
