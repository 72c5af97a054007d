"""All steps of the decoder over given words as one differentiable function, written for speed.

It computes what :meth:`Decoder.step` computes word by word, and its derivative by hand: no graph is
built per step, products that use the same state are one product, and each weight's gradient is one
product over all steps. Attention energies are computed anew on the way back instead of kept. The
steps run in inference mode, in which a view costs half: what goes out of it is allocated outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from wholedoc.model.attention import doubled_exp
from wholedoc.model.loops import loops_for
from wholedoc.model.matrices import Factor, multiply
from wholedoc.model.recurrence import GRUReturn, GRUTape, add_rows, gate_bias, new_first

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
        blocks = ctx.blocks = [(slice(0, len(keys)), keys.shape[1])]
        if keys.is_cpu:  # elsewhere a block's calls cost more than the padding that it saves
            blocks = ctx.blocks = source_blocks(lengths.tolist())
        contexts = words.new_empty(len(words), values.shape[-1])
        seen_contexts = contexts if context_dropout is None else torch.empty_like(contexts)
        with torch.inference_mode():
            given = (b_between + gate_bias(b_upper)).repeat(len(words), 1)
            lower = GRUTape(lower0, words + gate_bias(b_lower), b_lower, counts, align)
            upper = GRUTape(upper0, given, b_upper, counts, align)
            alphas = words.new_zeros(len(words), keys.shape[1])
            alpha_of, context_of = torch.split(alphas, counts), torch.split(contexts, counts)
            context_mask, lower_mask = _split(counts, context_dropout, lower_dropout)
            seen_lower = lower.states if lower_mask is None else torch.empty_like(lower.states)
            seen_context_of, seen_lower_of = lower.steps(seen_contexts), lower.steps(seen_lower)
            to_lower, to_upper, to_context, to_between = (
                Factor(weight.T) for weight in (w_lower, w_upper, w_context, w_between)
            )
            attention = _Attention(keys, values, lengths, score, blocks)
            for j in range(len(counts)):
                to_lower.multiply(lower.before[j], lower.recurrent[j])
                to_upper.multiply(upper.before[j], upper.recurrent[j])
                query = lower.extra[j].add_(upper.extra[j])
                context = attention.forward(query, alpha_of[j], context_of[j])
                if context_mask is not None:
                    torch.mul(context, context_mask[j], out=seen_context_of[j])
                to_context.multiply(seen_context_of[j], lower.projected[j], add=True)
                state = lower.forward(j)
                if lower_mask is not None:
                    torch.mul(state, lower_mask[j], out=seen_lower_of[j])
                to_between.multiply(seen_lower_of[j], upper.projected[j], add=True)
                upper.forward(j)
        ctx.save_for_backward(
            values, seen_contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        )  # fmt: skip
        ctx.seen_lower, ctx.keys, ctx.lengths = seen_lower, attention.keys, lengths
        ctx.lower, ctx.upper, ctx.alphas = lower, upper, alpha_of
        alphas = alphas.clone()
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
            values, seen_contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        ) = ctx.saved_tensors  # fmt: skip
        queries, counts = ctx.lower.extra, ctx.lower.counts
        with torch.inference_mode():
            lower, upper = GRUReturn(ctx.lower), GRUReturn(ctx.upper)
            attention = _AttentionReturn(
                ctx.keys, values, ctx.lengths, score, ctx.alphas, ctx.blocks
            )
            own_states = grad_states.clone(memory_format=torch.contiguous_format)
            grad_state, grad_context = (
                torch.split(grads, counts) for grads in (own_states, grad_contexts)
            )
            context_mask, lower_mask = _split(counts, context_dropout, lower_dropout)
            from_lower, from_upper, from_context, from_between = map(
                Factor, (w_lower, w_upper, w_context, w_between)
            )
            d_lower_state = d_upper_state = grad_states[:0]
            for j in reversed(range(len(counts))):
                add_rows(grad_state[j], d_upper_state)
                upper.backward(j, grad_state[j])
                d_seen = from_between.multiply(upper.projected[j], torch.empty_like(grad_state[j]))
                if lower_mask is not None:
                    d_seen.mul_(lower_mask[j])
                add_rows(d_seen, d_lower_state)
                lower.backward(j, d_seen)
                d_context = from_context.multiply(
                    lower.projected[j], torch.empty_like(grad_context[j])
                )
                if context_mask is None:
                    d_context.add_(grad_context[j])
                else:
                    torch.addcmul(grad_context[j], d_context, context_mask[j], out=d_context)
                attention.backward(j, d_context, queries[j], lower.extra[j])
                upper.extra[j].copy_(lower.extra[j])
                d_lower_state = from_lower.multiply(lower.recurrent[j], lower.kept[j], add=True)
                d_upper_state = from_upper.multiply(upper.recurrent[j], upper.kept[j], add=True)
        d_words, d_between = lower.all_projected, upper.all_projected
        return (
            d_words, None, *attention.finish(), None,
            d_lower_state.clone(), d_upper_state.clone(), None, None,
            attention.d_score.clone(),
            multiply(d_words.T, seen_contexts),
            multiply(lower.all_recurrent.T, lower.before()), lower.bias(),
            multiply(d_between.T, ctx.seen_lower), d_between.sum(dim=0),
            multiply(upper.all_recurrent.T, upper.before()), upper.bias(),
        )  # fmt: skip


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


class _Given:
    """What compiled loops are told of the sentences, the same at every step."""

    def __init__(self, lengths: Tensor, keys: Tensor, values: Tensor, score: Tensor) -> None:
        self._tensors = lengths, keys, values.contiguous(), score  # which have to stay there
        addresses = (tensor.data_ptr() for tensor in self._tensors)
        self.numbers = (*keys.shape[1:], values.shape[-1], *addresses)


class _Attention:
    """a_ji = v · tanh(k_i + q_j), α_j = softmax(a_j), c_j = Σ_i α_ji h_i, step by step.

    With u = 1 / (1 + e^{2k} e^{2q}), tanh(k + q) = 1 − 2u; as softmax does not see what is the same
    for all words, −2 v · u stands for a.
    """

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        lengths: Tensor,
        score: Tensor,
        blocks: Sequence[tuple[slice, int]],
    ) -> None:
        self._score, self._one = -2 * score, score.new_ones(())
        self.keys = doubled_exp(keys.contiguous())
        self._loops = loops_for(keys)
        if self._loops is not None:
            self._given = _Given(lengths, self.keys, values, self._score)
            return
        real = torch.arange(keys.shape[1], device=keys.device) < lengths[:, None]
        padding = keys.new_zeros(real.shape).masked_fill_(~real, float("-inf"))
        self._blocks = []
        for rows, words in blocks:
            k, h, infinite = (tensor[rows, :words] for tensor in (self.keys, values, padding))
            tensors = (k, h, k.new_empty(k.shape), infinite.contiguous())
            self._blocks.append(_Block(rows, words, *tensors))

    def forward(self, query: Tensor, alpha: Tensor, context: Tensor) -> Tensor:
        """A step, from 2q, which gives way to e^{2q}; writes α, zero at padding before, and c."""
        if self._loops is not None:
            self._loops.attention_forward(
                len(query), *self._given.numbers, query.data_ptr(), query.stride(0),
                alpha.data_ptr(), context.data_ptr(),
            )  # fmt: skip
            return context
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
        return context


class _AttentionReturn:
    """The way back through :class:`_Attention`, whose ``keys``, e^{2k}, it takes.

    ∂a/∂k_i = ∂a/∂q_j = v ⊙ (1 − tanh²) = 4v ⊙ (u − u²), half of that for 2q, and ∂a/∂v = 1 − 2u,
    whose 1 is left out: the gradients of a sum to zero over the words.
    """

    def __init__(
        self,
        keys: Tensor,
        values: Tensor,
        lengths: Tensor,
        score: Tensor,
        alphas: Sequence[Tensor],
        blocks: Sequence[tuple[slice, int]],
    ) -> None:
        self._alphas, self._cuts = alphas, blocks
        self._doubled, self._one = 2 * score, score.new_ones(())
        self.d_score = torch.zeros_like(score)
        self._d_keys = torch.zeros_like(keys)  # Σ_j ∂a_ji (u − u²)
        self._d_contexts = [values[:0, 0]] * len(alphas)
        self._loops = loops_for(keys)
        if self._loops is not None:
            self._given = _Given(lengths, keys, values, self._doubled)
            self._room = keys.new_empty(keys.shape[1])
            return
        self._blocks = []
        for rows, words in blocks:
            k, h, d_keys = (tensor[rows, :words] for tensor in (keys, values, self._d_keys))
            tensors = (k, h.transpose(1, 2), k.new_empty(k.shape), d_keys)
            self._blocks.append(_Block(rows, words, *tensors))

    def backward(self, j: int, d_context: Tensor, query: Tensor, d_query: Tensor) -> None:
        """A step, from e^{2q}; writes the gradient of 2q."""
        self._d_contexts[j] = d_context
        alpha, queries = self._alphas[j], query.unsqueeze(1)
        if self._loops is not None:
            self._loops.attention_backward(
                len(query), *self._given.numbers, query.data_ptr(), query.stride(0),
                alpha.data_ptr(), d_context.data_ptr(),
                self._d_keys.data_ptr(), self.d_score.data_ptr(),
                d_query.data_ptr(), d_query.stride(0), self._room.data_ptr(),
            )  # fmt: skip
            return
        for block in self._blocks:
            if not (tensors := block.active(len(query))):
                break
            keys, values_t, units, d_keys = tensors
            weights = block.cells(alpha)
            d_alpha = torch.bmm(block.rows(d_context).unsqueeze(1), values_t).squeeze(1)
            d_scores = torch._softmax_backward_data(d_alpha, weights, -1, weights.dtype)
            u = torch.addcmul(self._one, keys, block.rows(queries), out=units).reciprocal_()
            self.d_score.addmv_(u.view(-1, len(self._doubled)).T, d_scores.view(-1), alpha=-2)
            slopes = torch.addcmul(u, u, u, value=-1, out=u)
            d_keys.addcmul_(slopes, d_scores.unsqueeze(2))
            summed = torch.bmm(d_scores.unsqueeze(1), slopes).squeeze(1)
            torch.mul(summed, self._doubled, out=block.rows(d_query))

    def finish(self) -> tuple[Tensor, Tensor]:
        """The gradients of k and h; that of h is one product per sentence over all its steps."""
        d_keys = self._d_keys * (2 * self._doubled)
        # (sentence, step, …), zero for the sentences that a step no longer has
        alphas, d_contexts = pad_sequence(list(self._alphas)), pad_sequence(self._d_contexts)
        d_values = d_keys.new_empty(*d_keys.shape[:2], d_contexts.shape[-1])
        for rows, words in self._cuts:
            steps = sum(len(alpha) > rows.start for alpha in self._alphas)
            of_words = alphas[rows, :steps, :words].transpose(1, 2)
            torch.bmm(of_words, d_contexts[rows, :steps], out=d_values[rows, :words])
            d_values[rows, words:] = 0
        return d_keys, d_values


def _split(counts: list[int], *tensors: Tensor | None) -> list[tuple[Tensor, ...] | None]:
    """The words of each step, of the tensors that there are."""
    return [None if tensor is None else torch.split(tensor, counts) for tensor in tensors]
