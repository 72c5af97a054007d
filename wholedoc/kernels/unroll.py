"""All steps of the decoder over given words as one differentiable function, written for speed.

It computes what :meth:`Decoder.step` computes word by word, and its derivative by hand: no graph is
built per step, products that use the same state are one product, and each weight's gradient is one
product over all steps. Attention energies are computed anew on the way back instead of kept. The
steps are compiled ones where there are any, and calls of torch otherwise, in inference mode, in
which a view costs half: what goes out of it is allocated outside.
"""

import math
from collections.abc import Sequence
from ctypes import CDLL, byref
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from wholedoc.kernels.matrices import Packed, multiply
from wholedoc.kernels.native import loops_for
from wholedoc.kernels.recurrence import (
    GRUReturn,
    GRUReturnSteps,
    GRUSteps,
    GRUTape,
    add_rows,
    gate_bias,
    new_first,
)
from wholedoc.kernels.steps import Return, Source, Unroll, UnrollReturn, pointer

_BLOCK_COST = 128
"""What a block's calls cost at every step, in source words that are attended to; about."""


@dataclass(frozen=True)
class UnrollInputs:
    """What the steps are computed from: N packed words of T sentences, the longest first."""

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
class UnrollWeights:
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


def unroll(
    inputs: UnrollInputs, weights: UnrollWeights
) -> tuple[
    Float[Tensor, "word hidden"], Float[Tensor, "word states"], Float[Tensor, "word src_word"]
]:
    """States s_j of the upper layer, contexts c_j and attention weights α_j of all steps."""
    i, w = inputs, weights
    # The rows of 2 W_at that meet a layer's state stand above that layer's recurrent matrix.
    to_lower, to_upper = (2 * w.query).chunk(2, dim=-1)
    lower = torch.cat((to_lower, *new_first(w.lower)))
    upper = torch.cat((to_upper, *new_first(w.upper)))
    result: tuple[Tensor, Tensor, Tensor] = _Unroll.apply(  # type: ignore[no-untyped-call]
        i.words, i.counts, i.keys, i.values, i.mask, i.lower, i.upper,
        i.context_dropout, i.lower_dropout,
        w.score[0], w.context, lower, w.lower_bias, w.between, w.between_bias, upper, w.upper_bias,
    )  # fmt: skip
    return result


class _Unroll(torch.autograd.Function):
    """Forward and backward of :func:`unroll`."""

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor, counts: list[int], keys: Tensor, values: Tensor, mask: Tensor,
        lower0: Tensor, upper0: Tensor,
        context_dropout: Tensor | None, lower_dropout: Tensor | None,
        score: Tensor, w_context: Tensor, w_lower: Tensor, b_lower: Tensor,
        w_between: Tensor, b_between: Tensor, w_upper: Tensor, b_upper: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """The steps in order."""
        align, lengths = keys.shape[-1], mask.sum(dim=1)
        contexts = words.new_empty(len(words), values.shape[-1])
        seen_contexts = contexts if context_dropout is None else torch.empty_like(contexts)
        with torch.inference_mode():
            between_bias = b_between + gate_bias(b_upper)
            given_lower = (words + gate_bias(b_lower)).contiguous()
            lower = GRUTape(lower0, given_lower, b_lower, counts, align)
            upper = GRUTape(upper0, torch.empty_like(given_lower), b_upper, counts, align)
            seen_lower = lower.states if lower_dropout is None else torch.empty_like(lower.states)
            run = _Run(
                counts, doubled_exp(keys.contiguous()), values.contiguous(), lengths,
                score, context_dropout, lower_dropout, lower, upper,
                words.new_zeros(len(words), keys.shape[1]), contexts, seen_contexts, seen_lower,
            )  # fmt: skip
            loops = loops_for(words)
            steps = _forward_by_torch if loops is None else partial(_forward_compiled, loops)
            steps(run, _Weights(w_lower, w_upper, w_context, w_between), between_bias)
        ctx.save_for_backward(
            values, contexts, seen_contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        )  # fmt: skip
        ctx.kept = run.keys, lengths, lower, upper, run.alphas, seen_lower
        ctx.loops = loops
        alphas = run.alphas.clone()
        ctx.mark_non_differentiable(alphas)
        return upper.states.clone(), contexts, alphas

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_states: Tensor, grad_contexts: Tensor, grad_alphas: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The steps in reverse order, then one product per weight."""
        del grad_alphas
        (
            values, contexts, seen_contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        ) = ctx.saved_tensors  # fmt: skip
        keys, lengths, lower, upper, alphas, seen_lower = ctx.kept
        with torch.inference_mode():
            run = _Run(
                lower.counts, keys, values.contiguous(), lengths,
                score, context_dropout, lower_dropout, lower, upper,
                alphas, contexts, seen_contexts, seen_lower,
            )  # fmt: skip
            way = _RunReturn(run, grad_states, grad_contexts)
            steps = _backward_by_torch
            if ctx.loops is not None:
                steps = partial(_backward_compiled, ctx.loops)
            steps(run, way, _Weights(w_lower, w_upper, w_context, w_between))
        d_words, d_between = way.lower.projected, way.upper.projected
        return (
            d_words, None, way.d_keys * (4 * score), _d_values(run, way), None,
            way.lower.first(), way.upper.first(), None, None,
            way.d_scores.sum(dim=0),
            multiply(d_words.T, seen_contexts),
            way.lower.weight(), way.lower.bias(),
            multiply(d_between.T, seen_lower), d_between.sum(dim=0),
            way.upper.weight(), way.upper.bias(),
        )  # fmt: skip


class _Weights(NamedTuple):
    """The matrices of a step, as they are given to :class:`_Unroll`."""

    lower: Tensor
    upper: Tensor
    context: Tensor
    between: Tensor


@dataclass(frozen=True)
class _Run:
    """All steps: what they are given and what they leave behind, of all words."""

    counts: list[int]
    keys: Float[Tensor, "sent src_word align"]
    """e^{2k}."""
    values: Float[Tensor, "sent src_word states"]
    lengths: Int[Tensor, " sent"]
    score: Float[Tensor, " align"]
    context_dropout: Float[Tensor, "word states"] | None
    lower_dropout: Float[Tensor, "word hidden"] | None
    lower: GRUTape
    """Beside g it makes the query, which gives way to e^{2q}."""
    upper: GRUTape
    alphas: Float[Tensor, "word src_word"]
    """Zero at padding beforehand."""
    contexts: Float[Tensor, "word states"]
    seen_contexts: Float[Tensor, "word states"]
    """What dropout leaves of them."""
    seen_lower: Float[Tensor, "word hidden"]

    @property
    def blocks(self) -> list[tuple[slice, int]]:
        """Sentences that are attended to together, and how many source words they have."""
        if self.keys.is_cpu:
            return source_blocks(self.lengths.tolist())
        # Elsewhere a block's calls cost more than the padding that it saves.
        return [(slice(0, len(self.keys)), self.keys.shape[1])]

    def masks(self) -> list[tuple[Tensor, ...] | None]:
        """Those of the context and of the lower layer for each step, if there are any."""
        masks = (self.context_dropout, self.lower_dropout)
        return [None if mask is None else self.lower.steps(mask) for mask in masks]


class _RunReturn:
    """The gradients of all steps."""

    def __init__(self, run: _Run, grad_states: Tensor, grad_contexts: Tensor) -> None:
        self.lower, self.upper = GRUReturn(run.lower), GRUReturn(run.upper)
        self.states, self.d_contexts = (
            grads.clone(memory_format=torch.contiguous_format)
            for grads in (grad_states, grad_contexts)
        )
        """Those that come from elsewhere; the steps add theirs."""
        self.d_keys = torch.zeros_like(run.keys)  # Σ_j ∂a_ji (u − u²)
        self.d_scores = run.score.new_zeros(len(run.keys), len(run.score))


def _d_values(run: _Run, way: _RunReturn) -> Tensor:
    """The gradient of h: one product per sentence over all its steps."""
    # (sentence, step, …), zero for the sentences that a step no longer has
    alphas, d_contexts = (
        pad_sequence(list(run.lower.steps(words))) for words in (run.alphas, way.d_contexts)
    )
    d_values = run.values.new_empty(run.values.shape)
    for rows, words in run.blocks:
        steps = sum(count > rows.start for count in run.counts)
        of_words = alphas[rows, :steps, :words].mT
        torch.bmm(of_words, d_contexts[rows, :steps], out=d_values[rows, :words])
        d_values[rows, words:] = 0
    return d_values


def _forward_compiled(loops: CDLL, run: _Run, weights: _Weights, between_bias: Tensor) -> None:
    packed = [Packed(loops, weight.T) for weight in weights]
    score, counts = -2 * run.score, torch.tensor(run.counts)
    steps = _structure(run, score, counts)
    steps.lower.state, steps.upper.state, steps.context, steps.between = (
        weight.addresses[0] for weight in packed
    )
    steps.between_bias = pointer(between_bias)
    loops.unroll_forward(byref(steps))


def _backward_compiled(loops: CDLL, run: _Run, way: _RunReturn, weights: _Weights) -> None:
    packed = [Packed(loops, weight) for weight in weights]
    lower, upper, context, between = (weight.addresses[0] for weight in packed)
    score, counts = 2 * run.score, torch.tensor(run.counts)
    sentences, cells, _ = run.keys.shape
    room = score.new_empty(sentences * (run.lower.hidden + run.values.shape[-1] + cells))
    back = UnrollReturn(
        Return(lower, pointer(way.lower.grads)), Return(upper, pointer(way.upper.grads)),
        context, between,
        *map(pointer, (way.states, way.d_contexts, way.d_keys, way.d_scores, room)),
    )  # fmt: skip
    loops.unroll_backward(byref(_structure(run, score, counts)), byref(back))


def _structure(run: _Run, score: Tensor, counts: Tensor) -> Unroll:
    """All steps as they are given to the compiled ones, without the weights of the way there."""
    source = Source(
        *run.keys.shape[1:], run.values.shape[-1],
        *map(pointer, (run.lengths, run.keys, run.values, score)),
    )  # fmt: skip
    return Unroll(
        len(counts), pointer(counts), source, run.lower.compiled(), run.upper.compiled(),
        None, None, None,
        *map(pointer, (run.context_dropout, run.lower_dropout)),
        *map(pointer, (run.alphas, run.contexts, run.seen_contexts, run.seen_lower)),
    )  # fmt: skip


def _forward_by_torch(run: _Run, weights: _Weights, between_bias: Tensor) -> None:
    lower, upper = GRUSteps(run.lower), GRUSteps(run.upper)
    alpha, context, seen_context, seen_lower = map(
        run.lower.steps, (run.alphas, run.contexts, run.seen_contexts, run.seen_lower)
    )
    context_mask, lower_mask = run.masks()
    # Few rows are multiplied a good deal faster by matrices laid out for them.
    lower_t, upper_t, context_t, between_t = (weight.T.contiguous() for weight in weights)
    attention = _Attention(run)
    for j in range(len(run.counts)):
        torch.mm(lower.before[j], lower_t, out=lower.recurrent[j])
        torch.mm(upper.before[j], upper_t, out=upper.recurrent[j])
        query = lower.extra[j].add_(upper.extra[j])
        attention.forward(query, alpha[j], context[j])
        if context_mask is not None:
            torch.mul(context[j], context_mask[j], out=seen_context[j])
        lower.projected[j].addmm_(seen_context[j], context_t)
        state = lower.forward(j)
        if lower_mask is not None:
            torch.mul(state, lower_mask[j], out=seen_lower[j])
        torch.addmm(between_bias, seen_lower[j], between_t, out=upper.projected[j])
        upper.forward(j)


def _backward_by_torch(run: _Run, way: _RunReturn, weights: _Weights) -> None:
    lower, upper = GRUReturnSteps(run.lower, way.lower), GRUReturnSteps(run.upper, way.upper)
    query = run.lower.steps(run.lower.both[..., : run.lower.extra])
    attention = _AttentionReturn(run, way)
    grad_state, d_context, alpha = map(run.lower.steps, (way.states, way.d_contexts, run.alphas))
    context_mask, lower_mask = run.masks()
    d_lower_state = d_upper_state = way.states[:0]
    for j in reversed(range(len(run.counts))):
        add_rows(grad_state[j], d_upper_state)
        upper.backward(j, grad_state[j])
        d_seen = torch.mm(upper.projected[j], weights.between)
        if lower_mask is not None:
            d_seen.mul_(lower_mask[j])
        add_rows(d_seen, d_lower_state)
        lower.backward(j, d_seen)
        through = torch.mm(lower.projected[j], weights.context)
        if context_mask is None:
            d_context[j].add_(through)
        else:
            d_context[j].addcmul_(through, context_mask[j])
        attention.backward(d_context[j], query[j], alpha[j], lower.extra[j])
        upper.extra[j].copy_(lower.extra[j])
        d_lower_state = lower.kept[j].addmm_(lower.recurrent[j], weights.lower)
        d_upper_state = upper.kept[j].addmm_(upper.recurrent[j], weights.upper)


class _Block:
    """Some sentences in a row, with no more source words than the longest of them has.

    Gives tensors of those that are not yet at their end, made anew only when they change.
    """

    def __init__(self, rows: slice, words: int, *tensors: Tensor) -> None:
        self._start, self._words = rows.start, words
        self._all = self._first = tensors

    def active(self, rows: int) -> tuple[Tensor, ...]:
        """The tensors of the block's sentences among the first ``rows``; nothing if it has none."""
        count = min(max(0, rows - self._start), len(self._all[0]))
        if count != len(self._first[0]):
            self._first = tuple(tensor[:count] for tensor in self._all)
        return self._first if count else ()

    def rows(self, of_all: Tensor) -> Tensor:
        """The block's part of numbers for all sentences."""
        count = len(self._first[0])
        return of_all if len(of_all) == count else of_all.narrow(0, self._start, count)

    def cells(self, of_all: Tensor) -> Tensor:
        """The block's part of numbers for all sentences and source words."""
        rows = self.rows(of_all)
        return rows if rows.shape[1] == self._words else rows.narrow(1, 0, self._words)


def source_blocks(lengths: Sequence[int], start: int = 0) -> list[tuple[slice, int]]:
    """Sentences of given lengths, in order, as blocks of like lengths, and the longest of each.

    A block is cut in two where that saves most padding, if it saves enough to be worth it.
    """
    sizes = np.array(lengths)
    rows = np.arange(1, len(sizes))
    ahead, behind = np.maximum.accumulate(sizes), np.maximum.accumulate(sizes[::-1])[::-1]
    cells = rows * ahead[:-1] + rows[::-1] * behind[1:]
    if len(rows) and cells.min() < len(sizes) * ahead[-1] - _BLOCK_COST:
        cut = int(cells.argmin()) + 1
        return source_blocks(lengths[:cut], start) + source_blocks(lengths[cut:], start + cut)
    return [(slice(start, start + len(sizes)), int(ahead[-1]))]


class _Attention:
    """a_ji = v · tanh(k_i + q_j), α_j = softmax(a_j), c_j = Σ_i α_ji h_i, step by step.

    With u = 1 / (1 + e^{2k} e^{2q}), tanh(k + q) = 1 − 2u; as softmax does not see what is the same
    for all words, −2 v · u stands for a.
    """

    def __init__(self, run: _Run) -> None:
        self._score, self._one = -2 * run.score, run.score.new_ones(())
        cells = torch.arange(run.keys.shape[1], device=run.keys.device)
        padding = run.keys.new_zeros(run.keys.shape[:2])
        padding.masked_fill_(cells >= run.lengths[:, None], float("-inf"))
        self._blocks = []
        for rows, words in run.blocks:
            k, h, infinite = (t[rows, :words] for t in (run.keys, run.values, padding))
            tensors = (k, h, k.new_empty(k.shape), infinite.contiguous())
            self._blocks.append(_Block(rows, words, *tensors))

    def forward(self, query: Tensor, alpha: Tensor, context: Tensor) -> None:
        """A step, from 2q, which gives way to e^{2q}; writes α, zero at padding before, and c."""
        queries = query.exp_().unsqueeze(1)
        for block in self._blocks:
            if not (tensors := block.active(len(query))):
                break
            keys, values, units, padding = tensors
            u = torch.addcmul(self._one, keys, block.rows(queries), out=units).reciprocal_()
            scores = torch.addmv(padding.view(-1), u.view(-1, len(self._score)), self._score)
            weights = block.cells(alpha)
            torch.softmax(scores.view_as(weights), dim=-1, out=weights)
            torch.bmm(weights.unsqueeze(1), values, out=block.rows(context).unsqueeze(1))


class _AttentionReturn:
    """The way back through :class:`_Attention`.

    ∂a/∂k_i = ∂a/∂q_j = v ⊙ (1 − tanh²) = 4v ⊙ (u − u²), half of that for 2q, and ∂a/∂v = 1 − 2u,
    whose 1 is left out: the gradients of a sum to zero over the words.
    """

    def __init__(self, run: _Run, way: _RunReturn) -> None:
        self._doubled, self._one = 2 * run.score, run.score.new_ones(())
        self._d_score = way.d_scores[0]
        self._blocks = []
        for rows, words in run.blocks:
            k, h, d_keys = (tensor[rows, :words] for tensor in (run.keys, run.values, way.d_keys))
            tensors = (k, h.transpose(1, 2), k.new_empty(k.shape), d_keys)
            self._blocks.append(_Block(rows, words, *tensors))

    def backward(self, d_context: Tensor, query: Tensor, alpha: Tensor, d_query: Tensor) -> None:
        """A step, from e^{2q}; writes the gradient of 2q."""
        queries = query.unsqueeze(1)
        for block in self._blocks:
            if not (tensors := block.active(len(query))):
                break
            keys, values_t, units, d_keys = tensors
            weights = block.cells(alpha)
            d_alpha = torch.bmm(block.rows(d_context).unsqueeze(1), values_t).squeeze(1)
            d_scores = torch._softmax_backward_data(d_alpha, weights, -1, weights.dtype)
            u = torch.addcmul(self._one, keys, block.rows(queries), out=units).reciprocal_()
            self._d_score.addmv_(u.view(-1, len(self._doubled)).T, d_scores.view(-1), alpha=-2)
            slopes = torch.addcmul(u, u, u, value=-1, out=u)
            d_keys.addcmul_(slopes, d_scores.unsqueeze(2))
            summed = torch.bmm(d_scores.unsqueeze(1), slopes).squeeze(1)
            torch.mul(summed, self._doubled, out=block.rows(d_query))


def doubled_exp(values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """e^{2x}, neither zero nor infinite.

    tanh(k + q) = 1 − 2u with u = 1 / (1 + e^{2k} e^{2q}). The exponentials are taken once per key
    and once per query: what is left for each pair is cheaper than its tanh. With one of them kept
    in bounds the other may be anything.
    """
    bound = -0.99 * math.log(torch.finfo(values.dtype).tiny)
    return (2 * values).clamp_(-bound, bound).exp_()
