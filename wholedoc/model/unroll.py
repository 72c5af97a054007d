"""All steps of the decoder over given words as one differentiable function, written for speed.

It computes what :meth:`Decoder.step` computes word by word, and its derivative by hand: no graph is
built per step, products that use the same state are one product, and each weight's gradient is one
product over all steps. Attention energies are computed anew on the way back instead of kept.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from wholedoc.model.recurrence import GRUTape, add_rows


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
    # The rows of W_at that meet a layer's state stand under that layer's recurrent matrix.
    hidden = i.lower.shape[-1]
    lower = torch.cat((w.lower, w.query[:, :hidden]))
    upper = torch.cat((w.upper, w.query[:, hidden:]))
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
        gates = 3 * lower0.shape[-1]
        lower, upper = GRUTape(lower0, counts), GRUTape(upper0, counts)
        queries = torch.split(words.new_empty(len(words), keys.shape[-1]), counts)
        alphas = words.new_empty(len(words), keys.shape[1])
        contexts = words.new_empty(len(words), values.shape[-1])
        alpha_of, context_of, word_of = (
            torch.split(tensor, counts) for tensor in (alphas, contexts, words)
        )
        context_mask, lower_mask = _split(context_dropout, counts), _split(lower_dropout, counts)
        energies = torch.empty_like(keys)
        padding = ~mask
        for j, n in enumerate(counts):
            from_lower = lower.before[j] @ w_lower.T
            from_upper = upper.before[j] @ w_upper.T
            query = torch.add(from_lower[:, gates:], from_upper[:, gates:], out=queries[j])
            energy = torch.add(keys[:n], query[:, None], out=energies[:n]).tanh_()
            alpha = (energy @ score).masked_fill_(padding[:n], float("-inf"))
            alpha = torch.softmax(alpha, dim=-1, out=alpha_of[j])
            context = torch.bmm(alpha[:, None], values[:n], out=context_of[j][:, None])[:, 0]
            seen = context if context_mask is None else context * context_mask[j]
            projected = torch.addmm(word_of[j], seen, w_context.T)
            state = lower.forward(j, projected, from_lower[:, :gates].add_(b_lower))
            seen = state if lower_mask is None else state * lower_mask[j]
            projected = torch.addmm(b_between, seen, w_between.T)
            upper.forward(j, projected, from_upper[:, :gates].add_(b_upper))
        ctx.save_for_backward(
            keys, values, contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        )  # fmt: skip
        ctx.lower, ctx.upper, ctx.queries, ctx.alphas = lower, upper, queries, alpha_of
        ctx.counts = counts
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
            keys, values, contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        ) = ctx.saved_tensors  # fmt: skip
        lower, upper, queries, alphas = ctx.lower, ctx.upper, ctx.queries, ctx.alphas
        counts: list[int] = ctx.counts
        words, hidden = grad_states.shape
        gates = 3 * hidden
        d_words = keys.new_empty(words, gates)
        d_between = torch.empty_like(d_words)
        d_lower = keys.new_empty(words, len(w_lower))  # gates, then query
        d_upper = torch.empty_like(d_lower)
        d_word, d_under, d_low, d_up, grad_state, grad_context = (
            torch.split(tensor, counts)
            for tensor in (d_words, d_between, d_lower, d_upper, grad_states.clone(), grad_contexts)
        )
        context_mask, lower_mask = _split(context_dropout, counts), _split(lower_dropout, counts)
        # α_j and the gradient of c_j for every sentence, zero where it has no word: see d_values.
        all_alphas = keys.new_zeros(len(counts), *keys.shape[:2])
        d_contexts = keys.new_zeros(len(counts), len(values), values.shape[-1])
        d_keys, d_score = torch.zeros_like(keys), torch.zeros_like(score)
        energies = torch.empty_like(keys)
        d_lower_state = d_upper_state = grad_states[:0]
        for j, n in reversed(list(enumerate(counts))):
            add_rows(grad_state[j], d_upper_state)
            d_upper_state = upper.backward(j, grad_state[j], d_under[j], d_up[j][:, :gates])
            d_seen = d_under[j] @ w_between
            if lower_mask is not None:
                d_seen *= lower_mask[j]
            add_rows(d_seen, d_lower_state)
            d_lower_state = lower.backward(j, d_seen, d_word[j], d_low[j][:, :gates])
            d_context = torch.mm(d_word[j], w_context, out=d_contexts[j, :n])
            if context_mask is not None:
                d_context *= context_mask[j]
            d_context += grad_context[j]
            d_alpha = torch.bmm(values[:n], d_context[:, :, None])[:, :, 0]
            alpha = all_alphas[j, :n].copy_(alphas[j])
            d_alpha = alpha * (d_alpha - (alpha * d_alpha).sum(dim=-1, keepdim=True))
            energy = torch.add(keys[:n], queries[j][:, None], out=energies[:n]).tanh_()
            d_score.addmv_(energy.view(-1, len(score)).T, d_alpha.flatten())
            energy.square_().neg_().add_(1).mul_(d_alpha[:, :, None])
            energy *= score
            d_keys[:n] += energy
            query = energy.sum(dim=1)
            d_low[j][:, gates:] = query
            d_up[j][:, gates:] = query
            d_lower_state.addmm_(d_low[j], w_lower)
            d_upper_state.addmm_(d_up[j], w_upper)
        # c_j = Σ α_ji h_i: all steps in one product per sentence.
        d_values = torch.bmm(all_alphas.permute(1, 2, 0), d_contexts.transpose(0, 1))
        seen_context = contexts if context_dropout is None else contexts * context_dropout
        seen_lower = lower.states if lower_dropout is None else lower.states * lower_dropout
        return (
            d_words, None, d_keys, d_values, None, d_lower_state, d_upper_state, None, None,
            d_score,
            d_words.T @ seen_context,
            d_lower.T @ torch.cat(lower.before), d_lower[:, :gates].sum(dim=0),
            d_between.T @ seen_lower, d_between.sum(dim=0),
            d_upper.T @ torch.cat(upper.before), d_upper[:, :gates].sum(dim=0),
        )  # fmt: skip


def _split(tensor: Tensor | None, counts: list[int]) -> tuple[Tensor, ...] | None:
    """The words of each step, where there are any."""
    return None if tensor is None else torch.split(tensor, counts)
