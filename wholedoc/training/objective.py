"""What training minimises: the negative log-likelihood of the given translations."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wholedoc.corpus.batches import Batch
from wholedoc.model.decoder import Decoded
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
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t): the sentence model's, with all readings at zero."""
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    return translation_loss(model, decoded, batch, label_smoothing)


def translation_loss(
    model: TranslationModel, decoded: Decoded, batch: Batch, label_smoothing: float = 0.0
) -> Loss:
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t, c_src, c_trg), with some probability spread evenly.

    Paper: [pll], the pseudo-likelihood of sentences given all others. Only real words are
    multiplied by the output matrix.
    """
    mask = batch.trg_mask
    output = model.decoder.output.vocabulary
    sentences = mask.nonzero()[:, 0]
    return word_loss(
        output,
        decoded.features[mask],
        batch.trg_out[mask],
        label_smoothing,
        decoded.logits,
        sentences,
    )


def word_loss(
    output: nn.Linear,
    features: Float[Tensor, "word hidden"],
    targets: Int[Tensor, " word"],
    label_smoothing: float = 0.0,
    added: Float[Tensor, "sent vocabulary"] | None = None,
    sentences: Int[Tensor, " word"] | None = None,
) -> Loss:
    """−Σ log P(y) of given words; ``added`` are logits of the sentence that each word is in."""
    smoothed, nats = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        features, output.weight, output.bias, added, sentences, targets, label_smoothing
    )
    return Loss(smoothed, nats.item(), len(targets))


class _OutputLoss(torch.autograd.Function):
    """−Σ (1−ε) log p(y) + ε mean log p, p = softmax(W_y r + b + added), a chunk of words at a time.

    The gradient of a chunk, p − (1−ε) 1_y − ε/V, is taken while its p is at hand, so that no more
    than one chunk of the words × vocabulary matrix ever exists.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "word hidden"],
        weight: Float[Tensor, "vocabulary hidden"],
        bias: Float[Tensor, " vocabulary"],
        added: Float[Tensor, "sent vocabulary"] | None,
        sentences: Int[Tensor, " word"] | None,
        targets: Int[Tensor, " word"],
        label_smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain loss; gradients too, where they will be asked for."""
        differentiate = any(ctx.needs_input_grad)
        d_features = torch.empty_like(features) if differentiate else None
        d_weight = torch.zeros_like(weight) if differentiate else None
        d_bias = torch.zeros_like(bias) if differentiate else None
        d_added = torch.zeros_like(added) if differentiate and added is not None else None
        shifts = None if added is None else added + bias
        smoothed, nats = features.new_zeros(()), features.new_zeros(())
        rows = max(1, _CHUNK // len(weight))
        for start in range(0, len(features), rows):
            part = slice(start, start + rows)
            if shifts is not None and sentences is not None:
                logits = shifts[sentences[part]].addmm_(features[part], weight.T)
            else:
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
            if d_added is not None and sentences is not None:
                d_added.index_add_(0, sentences[part], slope)
        ctx.save_for_backward(d_features, d_weight, d_bias, d_added)
        ctx.mark_non_differentiable(nats)
        return smoothed, nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_nats: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients at hand, scaled."""
        del grad_nats
        scaled = (None if kept is None else kept * grad for kept in ctx.saved_tensors)
        return *scaled, None, None, None
