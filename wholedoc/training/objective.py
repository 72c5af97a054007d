"""What training minimises: the negative log-likelihood of the given translations."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.corpus.batches import Batch
from wholedoc.kernels import output_loss
from wholedoc.model.decoder import Decoded
from wholedoc.model.translation import TranslationModel


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
    packing = decoded.packing
    return word_loss(
        model.decoder.output.vocabulary,
        decoded.packed_features,
        batch.trg_out[packing.rows, packing.places],
        label_smoothing,
        decoded.logits,
        packing.rows,
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
    if added is None or sentences is None:
        shifts, sentences = output.bias[None], torch.zeros_like(targets)
    else:
        shifts = added + output.bias
    smoothed, nats = output_loss(
        features, output.weight, shifts, sentences, targets, label_smoothing
    )
    return Loss(smoothed, nats.item(), len(targets))
