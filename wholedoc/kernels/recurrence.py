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
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from wholedoc.kernels.layers import Packed, address, matmul
from wholedoc.kernels.native import (
    DecoderGrad,
    DecoderSteps,
    Recurrence,
    RecurrenceGrad,
    Source,
    compiled_for,
    library_for,
)


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
    if library_for(words) is None:
        states = _bigru_reference(words, packing, ahead, back)
    else:
        both = (torch.stack(pair) for pair in zip(ahead, back, strict=True))
        states = _BiGRU.apply(words, packing, *both)  # type: ignore[no-untyped-call]
    hidden, rank = ahead.state.shape[-1], packing.order.argsort()
    # Where they are in the list →h ←h of the first word, →h ←h of the second, and so on.
    halves = torch.stack((2 * packing.ends[rank], 2 * rank + 1), dim=1)
    last = states.view(-1, hidden).index_select(0, halves.view(-1))
    return states, last.view(-1, 2 * hidden)


def _bigru_reference(
    words: Tensor, packing: Packing, ahead: GRUWeights, back: GRUWeights
) -> Float[Tensor, "word states"]:
    first = words.new_zeros(2, packing.counts[0], ahead.state.shape[-1])
    states: Tensor = torch._VF.gru(
        words, torch.tensor(packing.counts), first, [*ahead, *back], True, 1, 0.0, True, True
    )[0]
    return states


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

    def structure(self, state: int | None, d: int = 0) -> Recurrence:
        """One direction, with the address of its packed W_s."""
        tensors = (self.projected, self.both, self.new, self.states)
        return Recurrence(
            self.hidden, self.extra, address(self.first, d), address(self.bias, d), state,
            *(address(tensor, d) for tensor in tensors),
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
        ctx: Any, words: Tensor, packing: Packing,
        w_input: Tensor, w_state: Tensor, b_input: Tensor, b_state: Tensor,
    ) -> Tensor:  # fmt: skip
        """All steps in order, of each row from both its ends."""
        ctx.library = library = compiled_for(words)
        counts, mirror = packing.counts, packing.mirror
        inputs = torch.stack((words, words.index_select(0, mirror)))
        projected = matmul(inputs, w_input.mT, b_input + _gate_bias(b_state))
        first = projected.new_zeros(2, counts[0], w_state.shape[-1])
        ctx.tape = tape = _Tape(first, projected, b_state, counts)
        packed, workspace = Packed(library, _new_first(w_state).mT), library.workspace()
        of_steps = torch.tensor(counts)
        for d, weight in enumerate(packed.addresses):
            library.c.gru_forward(
                len(counts), of_steps.data_ptr(), byref(tape.structure(weight, d)),
                address(workspace),
            )  # fmt: skip
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
        packed, workspace = Packed(library, _new_first(w_state)), library.workspace()
        of_steps = torch.tensor(tape.counts)
        for d, weight in enumerate(packed.addresses):
            library.c.gru_backward(
                len(of_steps), of_steps.data_ptr(), byref(tape.structure(None, d)),
                byref(RecurrenceGrad(weight, address(back.grads, d))), address(grads, d),
                address(workspace),
            )  # fmt: skip
        ahead, behind = matmul(back.projected, w_input)
        return (
            behind.index_select(0, mirror).add_(ahead), None,
            matmul(back.projected.mT, inputs), _new_last(back.weight()),
            back.projected.sum(dim=1), back.bias(),
        )  # fmt: skip


def _new_last(gates: Tensor) -> Tensor:
    """Rows [n r z] as [r z n]."""
    return gates.roll(-(gates.shape[-2] // 3), dims=-2)


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


@dataclass(frozen=True)
class StepWeights:
    """The decoder's weights that a step uses, as they stand in its modules."""

    query: Float[Tensor, "align both"]
    score: Float[Tensor, "one align"]
    context: Float[Tensor, "gates states"]
    lower: Float[Tensor, "gates hidden"]
    lower_bias: Float[Tensor, " gates"]
    between: Float[Tensor, "gates hidden"]
    between_bias: Float[Tensor, " gates"]
    upper: Float[Tensor, "gates hidden"]
    upper_bias: Float[Tensor, " gates"]


Steps = tuple[
    Float[Tensor, "word hidden"], Float[Tensor, "word states"], Float[Tensor, "word src_word"]
]


def decode_steps(
    inputs: StepInputs, weights: StepWeights, reference: Callable[[StepInputs], Steps]
) -> Steps:
    """States s_j of the upper layer, contexts c_j and attention weights α_j of all steps.

    ``reference`` computes the same, step by step: the decoder's own loop, which holds the formulas.
    The compiled steps give α_j no gradient.
    """
    if library_for(inputs.words) is None:
        return reference(inputs)
    i, w = inputs, weights
    # The rows of 2 W_at that meet a layer's state stand above that layer's recurrent matrix.
    to_lower, to_upper = (2 * w.query).chunk(2, dim=-1)
    lower = torch.cat((to_lower, _new_first(w.lower)))
    upper = torch.cat((to_upper, _new_first(w.upper)))
    result: Steps = _DecodeSteps.apply(  # type: ignore[no-untyped-call]
        i.words, i.counts, i.keys, i.values, i.mask, i.lower, i.upper,
        i.context_dropout, i.lower_dropout,
        w.score[0], w.context, lower, w.lower_bias, w.between, w.between_bias, upper, w.upper_bias,
    )  # fmt: skip
    return result


@dataclass(frozen=True)
class _Run:
    """The memory of the compiled steps, kept for the backward pass; see ``kernels.c``."""

    lower: _Tape
    upper: _Tape
    keys: Tensor
    values: Tensor
    lengths: Tensor
    alphas: Tensor
    contexts: Tensor
    dropped_contexts: Tensor
    dropped_lower: Tensor
    context_dropout: Tensor | None
    lower_dropout: Tensor | None

    def structure(self, tensors: list[Tensor], packed: list[Packed] | None = None) -> DecoderSteps:
        """As the compiled steps are given it; ``tensors``: counts, score, bias, workspace."""
        counts, score, bias, workspace = map(address, tensors)
        lower, upper, context, between = (
            [None] * 4 if packed is None else [matrix.addresses[0] for matrix in packed]
        )
        source = Source(
            *self.keys.shape[1:], self.values.shape[-1],
            *map(address, (self.lengths, self.keys, self.values)), score,
        )  # fmt: skip
        return DecoderSteps(
            len(tensors[0]), counts, source,
            self.lower.structure(lower), self.upper.structure(upper), context, between, bias,
            *map(address, (self.context_dropout, self.lower_dropout, self.alphas, self.contexts)),
            *map(address, (self.dropped_contexts, self.dropped_lower)), workspace,
        )  # fmt: skip


class _DecodeSteps(torch.autograd.Function):
    """The compiled :func:`decode_steps`. Attention energies are recomputed, not kept."""

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor, counts: list[int], keys: Tensor, values: Tensor, mask: Tensor,
        lower0: Tensor, upper0: Tensor,
        context_dropout: Tensor | None, lower_dropout: Tensor | None,
        score: Tensor, w_context: Tensor, w_lower: Tensor, b_lower: Tensor,
        w_between: Tensor, b_between: Tensor, w_upper: Tensor, b_upper: Tensor,
    ) -> Steps:  # fmt: skip
        """The steps in order."""
        ctx.library = library = compiled_for(words)
        align = keys.shape[-1]
        contexts = words.new_empty(len(words), values.shape[-1])
        given = (words + _gate_bias(b_lower)).contiguous()
        lower = _Tape(lower0, given, b_lower, counts, align)
        upper = _Tape(upper0, torch.empty_like(given), b_upper, counts, align)
        ctx.run = run = _Run(
            lower, upper, doubled_exp(keys.contiguous()), values.contiguous(), mask.sum(dim=1),
            words.new_zeros(len(words), keys.shape[1]), contexts,
            contexts if context_dropout is None else torch.empty_like(contexts),
            lower.states if lower_dropout is None else torch.empty_like(lower.states),
            context_dropout, lower_dropout,
        )  # fmt: skip
        packed = [Packed(library, weight.T) for weight in (w_lower, w_upper, w_context, w_between)]
        bias = b_between + _gate_bias(b_upper)
        tensors = [torch.tensor(counts), -2 * score, bias, library.workspace()]
        library.c.decoder_forward(byref(run.structure(tensors, packed)))
        ctx.save_for_backward(score, w_context, w_lower, w_between, w_upper)
        # What goes out must not be what the tape holds, or neither would ever be freed.
        outputs = upper.states.clone(), contexts.clone(), run.alphas.clone()
        ctx.mark_non_differentiable(outputs[2])
        return outputs

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor, grad_alphas: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The steps in reverse order, then one product per weight."""
        del grad_alphas
        score, w_context, w_lower, w_between, w_upper = ctx.saved_tensors
        library, run = ctx.library, ctx.run
        lower, upper = _TapeGrad(run.lower), _TapeGrad(run.upper)
        states, d_contexts = (
            grads.clone(memory_format=torch.contiguous_format)
            for grads in (grad_states, grad_contexts)
        )
        d_keys, d_scores = torch.zeros_like(run.keys), score.new_zeros(len(run.keys), len(score))
        sentences, cells, _ = run.keys.shape
        step = score.new_empty(sentences * (run.lower.hidden + run.values.shape[-1] + cells))
        packed = [Packed(library, weight) for weight in (w_lower, w_upper, w_context, w_between)]
        of_lower, of_upper, context, between = (matrix.addresses[0] for matrix in packed)
        back = DecoderGrad(
            RecurrenceGrad(of_lower, address(lower.grads)),
            RecurrenceGrad(of_upper, address(upper.grads)), context, between,
            *map(address, (states, d_contexts, d_keys, d_scores, step)),
        )  # fmt: skip
        tensors = [torch.tensor(run.lower.counts), 2 * score, score, library.workspace()]
        library.c.decoder_backward(byref(run.structure(tensors)), byref(back))
        d_words, d_between = lower.projected, upper.projected
        return (
            d_words, None, d_keys * (4 * score), _d_values(run, d_contexts), None,
            lower.first(), upper.first(), None, None, d_scores.sum(dim=0),
            matmul(d_words.T, run.dropped_contexts), lower.weight(), lower.bias(),
            matmul(d_between.T, run.dropped_lower), d_between.sum(dim=0),
            upper.weight(), upper.bias(),
        )  # fmt: skip


def _d_values(run: _Run, d_contexts: Tensor) -> Tensor:
    """The gradient of h: one product per sentence over all its steps."""
    # (sentence, step, …), zero for the sentences that a step no longer has
    alphas, d_contexts = (
        pad_sequence(list(torch.split(words, run.lower.counts)))
        for words in (run.alphas, d_contexts)
    )
    return torch.bmm(alphas.mT, d_contexts)


def doubled_exp(values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """e^{2x}, neither zero nor infinite.

    tanh(k + q) = 1 − 2u with u = 1 / (1 + e^{2k} e^{2q}). The exponentials are taken once per key
    and once per query: what is left for each pair is cheaper than its tanh. With one of them kept
    in bounds the other may be anything.
    """
    bound = -0.99 * math.log(torch.finfo(values.dtype).tiny)
    return (2 * values).clamp_(-bound, bound).exp_()
