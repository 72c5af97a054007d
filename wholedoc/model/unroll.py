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

from wholedoc.model.recurrence import GRUTape


@dataclass(frozen=True)
class UnrollInputs:
    """What the steps are computed from; J steps, T sentences, I source words."""

    words: Float[Tensor, "trg_word sent gates"]
    """The part of the lower layer's projected input that does not depend on earlier steps."""
    keys: Float[Tensor, "sent src_word align"]
    values: Float[Tensor, "sent src_word states"]
    mask: Bool[Tensor, "sent src_word"]
    lower: Float[Tensor, "sent hidden"]
    upper: Float[Tensor, "sent hidden"]
    context_dropout: Float[Tensor, "trg_word sent states"] | None
    """Scaled dropout masks of the lower layer's context and the upper layer's input."""
    lower_dropout: Float[Tensor, "trg_word sent hidden"] | None


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
    Float[Tensor, "trg_word sent hidden"],
    Float[Tensor, "trg_word sent states"],
    Float[Tensor, "trg_word sent src_word"],
]:
    """States s_j of the upper layer, contexts c_j and attention weights α_j of all steps."""
    i, w = inputs, weights
    # The rows of W_at that meet a layer's state stand under that layer's recurrent matrix.
    hidden = i.lower.shape[-1]
    lower = torch.cat((w.lower, w.query[:, :hidden]))
    upper = torch.cat((w.upper, w.query[:, hidden:]))
    result: tuple[Tensor, Tensor, Tensor] = _Unroll.apply(  # type: ignore[no-untyped-call]
        i.words, i.keys, i.values, i.mask, i.lower, i.upper, i.context_dropout, i.lower_dropout,
        w.score[0], w.context, lower, w.lower_bias, w.between, w.between_bias, upper, w.upper_bias,
    )  # fmt: skip
    return result


class _Unroll(torch.autograd.Function):
    """Forward and backward of :func:`unroll`."""

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor, keys: Tensor, values: Tensor, mask: Tensor, lower0: Tensor, upper0: Tensor,
        context_dropout: Tensor | None, lower_dropout: Tensor | None,
        score: Tensor, w_context: Tensor, w_lower: Tensor, b_lower: Tensor,
        w_between: Tensor, b_between: Tensor, w_upper: Tensor, b_upper: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """The steps in order."""
        steps, sentences, _ = words.shape
        hidden = lower0.shape[-1]
        gates = 3 * hidden
        lower, upper = GRUTape(steps, lower0), GRUTape(steps, upper0)
        queries = words.new_empty(steps, sentences, keys.shape[-1])
        alphas = words.new_empty(steps, sentences, keys.shape[1])
        contexts = words.new_empty(steps, sentences, values.shape[-1])
        energies = torch.empty_like(keys)
        padding = ~mask
        for j in range(steps):
            from_lower = lower.states[j] @ w_lower.T
            from_upper = upper.states[j] @ w_upper.T
            query = torch.add(from_lower[:, gates:], from_upper[:, gates:], out=queries[j])
            torch.add(keys, query[:, None], out=energies).tanh_()
            alpha = (energies @ score).masked_fill_(padding, float("-inf"))
            alpha = torch.softmax(alpha, dim=-1, out=alphas[j])
            context = torch.bmm(alpha[:, None], values, out=contexts[j][:, None])[:, 0]
            seen = context if context_dropout is None else context * context_dropout[j]
            projected = torch.addmm(words[j], seen, w_context.T)
            state = lower.forward(j, projected, from_lower[:, :gates].add_(b_lower))
            seen = state if lower_dropout is None else state * lower_dropout[j]
            projected = torch.addmm(b_between, seen, w_between.T)
            upper.forward(j, projected, from_upper[:, :gates].add_(b_upper))
        ctx.save_for_backward(
            keys, values, contexts, context_dropout, lower_dropout,
            score, w_context, w_lower, w_between, w_upper,
        )  # fmt: skip
        ctx.lower, ctx.upper, ctx.queries, ctx.alphas = lower, upper, queries, alphas
        alphas = alphas.clone()
        ctx.mark_non_differentiable(alphas)
        return upper.states[1:].clone(), contexts, alphas

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
        steps, sentences, hidden = grad_states.shape
        gates = 3 * hidden
        d_words = keys.new_empty(steps, sentences, gates)
        d_between = torch.empty_like(d_words)
        d_lower = keys.new_empty(steps, sentences, len(w_lower))  # gates, then query
        d_upper = torch.empty_like(d_lower)
        d_contexts = torch.empty_like(contexts)
        d_keys, d_score = torch.zeros_like(keys), torch.zeros_like(score)
        energies = torch.empty_like(keys)
        d_lower_state = keys.new_zeros(sentences, hidden)
        d_upper_state = keys.new_zeros(sentences, hidden)
        for j in reversed(range(steps)):
            d_upper_state = upper.backward(
                j, d_upper_state + grad_states[j], d_between[j], d_upper[j, :, :gates]
            )
            d_seen = d_between[j] @ w_between
            if lower_dropout is not None:
                d_seen *= lower_dropout[j]
            d_lower_state = lower.backward(
                j, d_lower_state + d_seen, d_words[j], d_lower[j][:, :gates]
            )
            d_context = torch.mm(d_words[j], w_context, out=d_contexts[j])
            if context_dropout is not None:
                d_context *= context_dropout[j]
            d_context += grad_contexts[j]
            d_alpha = torch.bmm(values, d_context[:, :, None])[:, :, 0]
            alpha = alphas[j]
            d_alpha = alpha * (d_alpha - (alpha * d_alpha).sum(dim=-1, keepdim=True))
            torch.add(keys, queries[j][:, None], out=energies).tanh_()
            d_score.addmv_(energies.view(-1, len(score)).T, d_alpha.flatten())
            energies.square_().neg_().add_(1).mul_(d_alpha[:, :, None])
            energies *= score
            d_keys += energies
            query = energies.sum(dim=1)
            d_lower[j, :, gates:] = query
            d_upper[j, :, gates:] = query
            d_lower_state.addmm_(d_lower[j], w_lower)
            d_upper_state.addmm_(d_upper[j], w_upper)
        # c_j = Σ α_ji h_i: all steps in one product per sentence.
        d_values = torch.bmm(alphas.permute(1, 2, 0), d_contexts.transpose(0, 1))
        seen_context = contexts if context_dropout is None else contexts * context_dropout
        seen_lower = lower.states[1:]
        seen_lower = seen_lower if lower_dropout is None else seen_lower * lower_dropout
        return (
            d_words, d_keys, d_values, None, d_lower_state, d_upper_state, None, None,
            d_score,
            _weight_gradient(d_words, seen_context),
            _weight_gradient(d_lower, lower.states[:-1]), d_lower[..., :gates].sum(dim=(0, 1)),
            _weight_gradient(d_between, seen_lower), d_between.sum(dim=(0, 1)),
            _weight_gradient(d_upper, upper.states[:-1]), d_upper[..., :gates].sum(dim=(0, 1)),
        )  # fmt: skip


def _weight_gradient(
    outputs: Float[Tensor, "trg_word sent out"], inputs: Float[Tensor, "trg_word sent in"]
) -> Float[Tensor, "out in"]:
    """Σ over steps and sentences of output gradient ⊗ input."""
    return outputs.flatten(0, 1).T @ inputs.flatten(0, 1)
