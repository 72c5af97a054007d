"""GRU recurrences, written so that CPUs are kept busy.

The formulas of a GRU step and their derivative stand here once, without a graph; the recurrences
built on them multiply inputs for all steps at once and take each weight's gradient as one product
over all steps.
"""

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


class GRUTape:
    """The steps of a GRU, kept for the way back; any dimensions may stand before the last.

    [u_r u_z u_n] is the projected input of a step, [g_r g_z g_n] = W_s s + b;
    r = σ(u_r + g_r),  z = σ(u_z + g_z),  n = tanh(u_n + r ⊙ g_n),  s' = (1 − z) ⊙ n + z ⊙ s.
    """

    def __init__(self, steps: int, first: Float[Tensor, "*rows hidden"]) -> None:
        *rows, self.hidden = first.shape
        self.states = first.new_empty(steps + 1, *rows, self.hidden)
        self.states[0] = first
        self.gates = first.new_empty(steps, *rows, 3 * self.hidden)  # r, z, n
        self.memory = first.new_empty(steps, *rows, self.hidden)  # g_n

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
        return torch.lerp(new, self.states[j], update, out=self.states[j + 1])

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
        torch.mul(grad, self.states[j] - new, out=d_update).mul_(update * (1 - update))
        torch.mul(d_new, self.memory[j], out=d_reset).mul_(reset * (1 - reset))
        recurrent[..., :both] = projected[..., :both]
        torch.mul(d_new, reset, out=recurrent[..., both:])
        return grad * update


@final
class BidirectionalGRU(nn.Module):
    """→h_i = GRU(→h_{i-1}, x_i) and ←h_i = GRU(←h_{i+1}, x_i), both from zero.

    Each sequence is turned round at its own end, so that padding comes last in either direction
    and no real state sees any.
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
        steps, rows, _ = inputs.shape
        place = torch.arange(steps, device=inputs.device)[:, None]
        real = place < lengths
        turn = torch.where(real, lengths - 1 - place, place)  # (step, row)
        row = torch.arange(rows, device=inputs.device)
        both = torch.stack((inputs, inputs[turn, row]))  # (2, step, row, input)
        weight = torch.stack((self.forward_input.weight, self.backward_input.weight))
        bias = torch.stack((self.forward_input.bias, self.backward_input.bias))
        projected = torch.baddbmm(bias[:, None], both.flatten(1, 2), weight.mT)
        states: Tensor = _BidirectionalGRU.apply(  # type: ignore[no-untyped-call]
            projected.view(2, steps, rows, -1).transpose(0, 1),
            torch.stack((self.forward_state.weight, self.backward_state.weight)),
            torch.stack((self.forward_state.bias, self.backward_state.bias)),
        )  # (step, 2, row, hidden)
        last = states[lengths - 1, :, row].flatten(1)
        forward, backward = states.unbind(1)
        paired = torch.cat((forward, backward[turn, row]), dim=-1)
        return paired * real[:, :, None], last


class _BidirectionalGRU(torch.autograd.Function):
    """Two recurrences side by side, from their projected inputs."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """All steps in order; every tensor has the two directions before its rows."""
        steps, _, rows, gates = projected.shape
        tape = GRUTape(steps, projected.new_zeros(2, rows, gates // 3))
        for j in range(steps):
            recurrent = torch.baddbmm(bias[:, None], tape.states[j], weight.mT)
            tape.forward(j, projected[j], recurrent)
        ctx.save_for_backward(weight)
        ctx.tape = tape
        return tape.states[1:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """All steps in reverse order, then one product for the weights."""
        (weight,) = ctx.saved_tensors
        tape: GRUTape = ctx.tape
        d_projected = torch.empty_like(tape.gates)
        d_recurrent = torch.empty_like(tape.gates)
        d_state = torch.zeros_like(tape.states[0])
        for j in reversed(range(len(grad_states))):
            d_state = tape.backward(j, d_state.add_(grad_states[j]), d_projected[j], d_recurrent[j])
            d_state.baddbmm_(d_recurrent[j], weight)
        outputs = d_recurrent.transpose(0, 1).flatten(1, 2)  # (2, steps·rows, gates)
        inputs = tape.states[:-1].transpose(0, 1).flatten(1, 2)
        return d_projected, torch.bmm(outputs.mT, inputs), outputs.sum(dim=1)
