"""What training minimises: the negative log-likelihood of the given translations."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.corpus.batches import Batch
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
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t), with some probability spread evenly over all words.

    Paper: [pll], for one sentence at a time. Only real words are multiplied by the output matrix.
    """
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    mask = batch.trg_mask
    log_probabilities = model.decoder.log_probabilities(decoded.features[mask])  # (words, V)
    chosen = log_probabilities.gather(-1, batch.trg_out[mask][:, None])
    nats = -chosen.sum()
    smoothed = nats
    if label_smoothing > 0:
        even = -log_probabilities.mean(dim=-1).sum()
        smoothed = torch.lerp(nats, even, label_smoothing)
    return Loss(smoothed, nats.item(), len(chosen))
