"""Recurrences over packed words: the bidirectional GRU and all steps of the decoder.

Rows of any lengths are packed, and nothing is computed for padding. The compiled kernels run all
steps in one call, forward and backward. Around them, inputs are multiplied for all steps at once,
and each weight's gradient is one product over all steps. Without them, torch's GRU and the
decoder's own loop compute the same with autograd.
"""

import math
from collections.abc import Callable
from ctypes import byref
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from wholedoc.kernels.layers import Factor, address, matmul
from wholedoc.kernels.native import AttendedCells, DecoderSteps, Library, Recurrence, library_for


@dataclass(frozen=True)
class Packing:
    """Rows of unlike lengths as one list of words: all first words, all second words, and so on.

    Within a step the longest row comes first, so that a step's rows are the first ones of the step
    before it: the layout of torch's ``PackedSequence``.
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
        """Where in the list the last words of the rows are, in the order of the rows."""
        return self.mirror[self.order.argsort()]

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


class GRUWeights(NamedTuple):
    """The weights of a GRU in one direction, gates in the order reset, update, new."""

    input: Float[Tensor, "gates input"]
    state: Float[Tensor, "gates hidden"]
    input_bias: Float[Tensor, " gates"]
    state_bias: Float[Tensor, " gates"]


def bigru(
    words: Float[Tensor, "word input"], packing: Packing, ahead: GRUWeights, back: GRUWeights
) -> tuple[Float[Tensor, "word states"], Float[Tensor, "row states"]]:
    """States [→h ; ←h] of packed words, both from zero, and [last →h ; first ←h] of their rows.

    r = σ(W_r x + b_r + U_r h + b'_r),  z = σ(W_z x + b_z + U_z h + b'_z),
    n = tanh(W_n x + b_n + r ⊙ (U_n h + b'_n)),  h' = (1 − z) ⊙ n + z ⊙ h.
    """
    library = library_for(words)
    if library is None:
        first = words.new_zeros(2, packing.counts[0], ahead.state.shape[-1])
        weights, counts = [*ahead, *back], torch.tensor(packing.counts)
        states = torch._VF.gru(words, counts, first, weights, True, 1, 0.0, True, True)[0]
    else:
        both = (torch.stack(pair) for pair in zip(ahead, back, strict=True))
        states = _BiGRU.apply(library, words, packing, *both)  # type: ignore[no-untyped-call]
    hidden, rank = ahead.state.shape[-1], packing.order.argsort()
    # Where they are in the list →h ←h of the first word, →h ←h of the second, and so on.
    halves = torch.stack((2 * packing.ends, 2 * rank + 1), dim=1)
    last = states.view(-1, hidden).index_select(0, halves.view(-1))
    return states, last.view(-1, 2 * hidden)


class _Tape:
    """The memory of a compiled recurrence, kept for the backward pass; see ``kernels.c``.

    Any dimensions may stand before the last two. ``projected`` becomes the tape's own.
    """

    def __init__(
        self, first: Tensor, projected: Tensor, bias: Tensor, counts: list[int], extra: int = 0
    ) -> None:
        *others, words, gates = projected.shape
        self.hidden, self.extra, self.counts = gates // 3, extra, counts
        self.first, self.bias = first.contiguous(), bias[..., 2 * self.hidden :].contiguous()
        self.projected = projected
        self.both = first.new_empty(*others, words, extra + gates)
        self.new = first.new_empty(*others, words, self.hidden)
        self.states = torch.empty_like(self.new)

    def structure(self, weight: Factor, d: int = 0, grads: Tensor | None = None) -> Recurrence:
        """One direction, with W_s, and in the backward pass with the memory of its gradients."""
        return Recurrence(
            steps=len(self.counts), words=self.states.shape[-2], hidden=self.hidden,
            extra=self.extra, counts=torch.tensor(self.counts), state=weight.packed[d],
            first=address(self.first, d), bias=address(self.bias, d),
            projected=address(self.projected, d), both=address(self.both, d),
            new_states=address(self.new, d), states=address(self.states, d),
            grads=address(grads, d),
        )  # fmt: skip


class _TapeGrad:
    """The gradients of a tape: [s e g_n r z u_n] of every word."""

    def __init__(self, tape: _Tape) -> None:
        self._tape, hidden = tape, tape.hidden
        width = tape.extra + 5 * hidden
        self.grads = tape.states.new_empty(*tape.states.shape[:-1], width)
        self.projected = self.grads[..., -3 * hidden :]
        """Those of u = [r z n]."""
        self._recurrent = self.grads[..., hidden:-hidden]

    def first(self) -> Tensor:
        """The gradient of the first states."""
        return self.grads[..., : self._tape.counts[0], : self._tape.hidden].clone()

    def weight(self) -> Tensor:
        """The gradient of W_s, in the order of [e n r z]."""
        tape = self._tape
        steps = (tape.first, *torch.split(tape.states, tape.counts, dim=-2))
        before = [state[..., :n, :] for state, n in zip(steps, tape.counts, strict=False)]
        return matmul(self._recurrent.mT, torch.cat(before, dim=-2))

    def bias(self) -> Tensor:
        """The gradient of b, in the order of [r z n]."""
        hidden = self._tape.hidden
        return self._recurrent[..., -3 * hidden :].sum(dim=-2).roll(-hidden, dims=-1)


def _gate_bias(bias: Tensor) -> Tensor:
    """[b_r b_z 0]: the part of a recurrent bias that may as well be added to u."""
    both = 2 * bias.shape[-1] // 3
    return torch.cat((bias[..., :both], torch.zeros_like(bias[..., both:])), dim=-1)


def _new_first(gates: Tensor) -> Tensor:
    """Rows [r z n] as [n r z], the order of the compiled steps."""
    return gates.roll(gates.shape[-2] // 3, dims=-2)


class _BiGRU(torch.autograd.Function):
    """Two compiled recurrences; weights have the two directions before all else."""

    @staticmethod
    def forward(
        ctx: Any, library: Library, words: Tensor, packing: Packing,
        w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor,
    ) -> Tensor:  # fmt: skip
        """All steps in order, of each row from both its ends."""
        ctx.library, counts, mirror = library, packing.counts, packing.mirror
        inputs = torch.stack((words, words.index_select(0, mirror)))
        projected = matmul(inputs, w_input.mT, b_input + _gate_bias(b_state))
        first = projected.new_zeros(2, counts[0], w_state.shape[-1])
        ctx.tape = tape = _Tape(first, projected, b_state, counts)
        weight, workspace = Factor(_new_first(w_state).mT, library), library.workspace()
        for d in range(2):
            library.c.gru_forward(byref(tape.structure(weight, d)), address(workspace))
        ctx.save_for_backward(inputs, mirror, w_input, w_state)
        return torch.cat((tape.states[0], tape.states[1].index_select(0, mirror)), dim=-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        """All steps in reverse order, then one product for each weight."""
        inputs, mirror, w_input, w_state = ctx.saved_tensors
        library, tape = ctx.library, ctx.tape
        back, (ahead, behind) = _TapeGrad(tape), grad_states.chunk(2, dim=-1)
        grads = torch.stack((ahead, behind.index_select(0, mirror)))
        weight, workspace = Factor(_new_first(w_state), library), library.workspace()
        for d in range(2):
            gru = tape.structure(weight, d, back.grads)
            library.c.gru_backward(byref(gru), address(grads, d), address(workspace))
        ahead, behind = matmul(back.projected, w_input)
        return (
            None, behind.index_select(0, mirror).add_(ahead), None,
            matmul(back.projected.mT, inputs), back.weight().roll(-tape.hidden, dims=-2),
            back.projected.sum(dim=1), back.bias(),
        )  # fmt: skip


@dataclass(frozen=True)
class StepInputs:
    """What the decoder's steps are computed from: N packed words of T sentences, longest first."""

    words: Float[Tensor, "word gates"]
    """The part of the lower layer's projected input that does not depend on earlier steps."""
    counts: list[int]
    """How many words each step has."""
    keys: Float[Tensor, "sent src_word align"]
    values: Float[Tensor, "sent src_word states"]
    mask: Bool[Tensor, "sent src_word"]
    lower: Float[Tensor, "sent hidden"]
    upper: Float[Tensor, "sent hidden"]
    context_dropout: Float[Tensor, "word states"] | None
    """Scaled dropout masks of the lower layer's context and the upper layer's input."""
    lower_dropout: Float[Tensor, "word hidden"] | None


class StepLayers(NamedTuple):
    """The decoder's layers that a step uses: query, score and context have no bias."""

    query: nn.Linear
    score: nn.Linear
    context: nn.Linear
    lower: nn.Linear
    between: nn.Linear
    upper: nn.Linear


Steps = tuple[
    Float[Tensor, "word hidden"], Float[Tensor, "word states"], Float[Tensor, "word src_word"]
]


def decode_steps(
    inputs: StepInputs, layers: StepLayers, reference: Callable[[StepInputs], Steps]
) -> Steps:
    """States s_j of the upper layer, contexts c_j and attention weights α_j of all steps.

    ``reference`` computes the same, step by step: the decoder's own loop, which holds the formulas.
    The compiled steps give α_j no gradient.
    """
    library = library_for(inputs.words)
    if library is None:
        return reference(inputs)
    query, score, context, lower, between, upper = layers
    # The rows of 2 W_at that meet a layer's state stand above that layer's recurrent matrix.
    to_lower, to_upper = (2 * query.weight).chunk(2, dim=-1)
    w_lower = torch.cat((to_lower, _new_first(lower.weight)))
    w_upper = torch.cat((to_upper, _new_first(upper.weight)))
    result: Steps = _DecodeSteps.apply(  # type: ignore[no-untyped-call]
        library, *vars(inputs).values(), score.weight[0], context.weight, w_lower, lower.bias,
        between.weight, between.bias, w_upper, upper.bias,
    )  # fmt: skip
    return result


def _structure(
    ctx: Any, score: Tensor, weights: list[Tensor], grads: list[Tensor | None], **others: Tensor
) -> DecoderSteps:
    """What the compiled steps are given: all that ``ctx`` keeps, packed weights, the others."""
    source = AttendedCells(score=score, **ctx.source)
    lower, upper, context, between = (Factor(weight, ctx.library) for weight in weights)
    return DecoderSteps(
        source=source,
        lower=ctx.lower.structure(lower, grads=grads[0]),
        upper=ctx.upper.structure(upper, grads=grads[1]),
        context=context.packed, between=between.packed, workspace=ctx.library.workspace(),
        **ctx.steps, **others,
    )  # fmt: skip


class _DecodeSteps(torch.autograd.Function):
    """The compiled :func:`decode_steps`. Attention energies are recomputed, not kept."""

    @staticmethod
    def forward(
        ctx: Any, library: Library,
        words: Tensor, counts: list[int], keys: Tensor, values: Tensor, mask: Tensor,
        lower0: Tensor, upper0: Tensor,
        context_dropout: Tensor | None, lower_dropout: Tensor | None,
        score: Tensor, w_context: Tensor, w_lower: Tensor, b_lower: Tensor,
        w_between: Tensor, b_between: Tensor, w_upper: Tensor, b_upper: Tensor,
    ) -> Steps:  # fmt: skip
        """The steps in order."""
        ctx.library = library
        given = (words + _gate_bias(b_lower)).contiguous()
        ctx.lower = _Tape(lower0, given, b_lower, counts, keys.shape[-1])
        ctx.upper = _Tape(upper0, torch.empty_like(given), b_upper, counts, keys.shape[-1])
        states, contexts = ctx.lower.states, words.new_empty(len(words), values.shape[-1])
        alphas = words.new_zeros(len(words), keys.shape[1])
        ctx.source = {
            "cells": keys.shape[1], "align": keys.shape[2], "width": values.shape[2],
            "keys": doubled_exp(keys.contiguous()), "values": values.contiguous(),
            "lengths": mask.sum(dim=1),
        }  # fmt: skip
        ctx.steps = {
            "context_mask": context_dropout, "lower_mask": lower_dropout,
            "alphas": alphas, "contexts": contexts,
            "dropped_contexts": contexts if context_dropout is None else torch.empty_like(contexts),
            "dropped_lower": states if lower_dropout is None else torch.empty_like(states),
        }  # fmt: skip
        weights = [weight.T for weight in (w_lower, w_upper, w_context, w_between)]
        bias = b_between + _gate_bias(b_upper)
        steps = _structure(ctx, -2 * score, weights, [None, None], between_bias=bias)
        ctx.library.c.decoder_forward(byref(steps))
        ctx.save_for_backward(score, w_lower, w_upper, w_context, w_between)
        # What goes out must not be what the tape holds, or neither would ever be freed.
        outputs = ctx.upper.states.clone(), contexts.clone(), alphas.clone()
        ctx.mark_non_differentiable(outputs[2])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor, grad_alphas: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The steps in reverse order, then one product per weight."""
        del grad_alphas
        score, *weights = ctx.saved_tensors
        lower, upper = _TapeGrad(ctx.lower), _TapeGrad(ctx.upper)
        states, d_contexts = (
            grads.clone(memory_format=torch.contiguous_format)
            for grads in (grad_states, grad_contexts)
        )
        keys, values = ctx.source["keys"], ctx.source["values"]
        d_keys, d_scores = torch.zeros_like(keys), score.new_zeros(len(keys), len(score))
        step = score.new_empty(len(keys), ctx.lower.hidden + values.shape[-1] + keys.shape[1])
        steps = _structure(
            ctx, 2 * score, weights, [lower.grads, upper.grads], grad_states=states,
            d_contexts=d_contexts, d_keys=d_keys, d_scores=d_scores, step=step,
        )  # fmt: skip
        ctx.library.c.decoder_backward(byref(steps))
        d_words, d_between = lower.projected, upper.projected
        # The gradient of h is one product per sentence over all its steps: (sentence, step, …),
        # zero for the sentences that a step no longer has.
        alphas, of_contexts = (
            pad_sequence(list(torch.split(words, ctx.lower.counts)))
            for words in (ctx.steps["alphas"], d_contexts)
        )
        return (
            None, d_words, None, d_keys * (4 * score), torch.bmm(alphas.mT, of_contexts), None,
            lower.first(), upper.first(), None, None, d_scores.sum(dim=0),
            matmul(d_words.T, ctx.steps["dropped_contexts"]), lower.weight(), lower.bias(),
            matmul(d_between.T, ctx.steps["dropped_lower"]), d_between.sum(dim=0),
            upper.weight(), upper.bias(),
        )  # fmt: skip


def doubled_exp(values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """e^{2x}, neither zero nor infinite.

    tanh(k + q) = 1 − 2u with u = 1 / (1 + e^{2k} e^{2q}). The exponentials are taken once per key
    and once per query: what is left for each pair is cheaper than its tanh. With one of them kept
    in bounds the other may be anything.
    """
    bound = -0.99 * math.log(torch.finfo(values.dtype).tiny)
    return (2 * values).clamp_(-bound, bound).exp_()
