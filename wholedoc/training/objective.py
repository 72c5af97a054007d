"""What training minimises: the negative log-likelihood of the given translations."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from wholedoc.corpus.batches import Batch
from wholedoc.model.translation import TranslationModel

# Numbers of the output layer that exist at once: 16 MiB, whatever the batch and vocabulary.
_CHUNK = 4 * 2**20


@dataclass(frozen=True)
class Loss:
    """The loss of some sentences, summed over their words; ``</s>`` counts, padding never."""

    smoothed: Float[Tensor, ""]
    """What is differentiated."""
    nats: float
    """−Σ log P(y_j), without smoothing."""
    words: int
    """Target words, ``</s>`` included."""


def sentence_loss(model: TranslationModel, batch: Batch, label_smoothing: float = 0.0) -> Loss:
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t), with some probability spread evenly over all words.

    Paper: [pll], for one sentence at a time. Only real words are multiplied by the output matrix.
    """
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    mask = batch.trg_mask
    output = model.decoder.output.vocabulary
    smoothed, nats = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        decoded.features[mask], output.weight, output.bias, batch.trg_out[mask], label_smoothing
    )
    return Loss(smoothed, nats.item(), batch.words)


class _OutputLoss(torch.autograd.Function):
    """−Σ (1−ε) log p(y) + ε mean log p, with p = softmax(W_y r + b), a chunk of words at a time.

    The gradient of a chunk, p − (1−ε) 1_y − ε/V, is taken while its p is at hand, so that no more
    than one chunk of the words × vocabulary matrix ever exists.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "word hidden"],
        weight: Float[Tensor, "vocabulary hidden"],
        bias: Float[Tensor, "vocabulary"],
        targets: Int[Tensor, "word"],
        label_smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain loss; gradients too, where they will be asked for."""
        differentiate = any(ctx.needs_input_grad)
        d_features = torch.empty_like(features) if differentiate else None
        d_weight = torch.zeros_like(weight) if differentiate else None
        d_bias = torch.zeros_like(bias) if differentiate else None
        smoothed, nats = features.new_zeros(()), features.new_zeros(())
        rows = max(1, _CHUNK // len(weight))
        for start in range(0, len(features), rows):
            part = slice(start, start + rows)
            logits = torch.addmm(bias, features[part], weight.T)
            target = targets[part, None]
            total = torch.logsumexp(logits, dim=-1)
            lost = (total - logits.gather(-1, target)[:, 0]).sum()
            even = (total - logits.mean(dim=-1)).sum()
            nats += lost
            smoothed += torch.lerp(lost, even, label_smoothing)
            if d_features is None or d_weight is None or d_bias is None:
                continue
            slope = logits.sub_(total[:, None]).exp_().sub_(label_smoothing / len(weight))
            slope[torch.arange(len(target)), target[:, 0]] -= 1 - label_smoothing
            torch.mm(slope, weight, out=d_features[part])
            d_weight.addmm_(slope.T, features[part])
            d_bias += slope.sum(dim=0)
        ctx.save_for_backward(d_features, d_weight, d_bias)
        ctx.mark_non_differentiable(nats)
        return smoothed, nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_nats: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients at hand, scaled."""
        del grad_nats
        return *(kept * grad for kept in ctx.saved_tensors), None, None
