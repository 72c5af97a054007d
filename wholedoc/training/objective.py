"""What training minimises: the negative log-likelihood of the given translations."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wholedoc.corpus.batches import Batch
from wholedoc.kernels.matrices import Factor
from wholedoc.kernels.native import loops_for
from wholedoc.model.decoder import Decoded
from wholedoc.model.translation import TranslationModel

# Words whose logits exist at once: few enough for the caches, enough for an efficient product.
_CHUNK = 512


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
    smoothed, nats = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        features,
        output.weight,
        output.bias,
        added,
        sentences,
        targets,
        label_smoothing,
        torch.is_grad_enabled(),
    )
    return Loss(smoothed, nats.item(), len(targets))


class _OutputLoss(torch.autograd.Function):
    """−Σ (1−ε) log p(y) + ε mean log p, p = softmax(W_y r + b + added), a chunk of words at a time.

    The gradient of a chunk, p − (1−ε) 1_y − ε/V, is taken while its p is at hand, so that no more
    than one chunk of the words × vocabulary matrix ever exists. Its last term is the same for all
    words, and so is the mean of the logits a product with mean weights: both are taken without
    another walk through the matrix.
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
        differentiate: bool,
    ) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain loss, and where ``differentiate``, their gradients.

        ``ctx.needs_input_grad`` alone does not tell: weights need one in evaluation too.
        """
        shifts = (bias[None] if added is None else added + bias).contiguous()
        of_word = torch.zeros_like(targets) if added is None or sentences is None else sentences
        summed, slopes = weight.sum(dim=0), None
        if differentiate and any(ctx.needs_input_grad):
            slopes = _Slopes(features, weight, summed, len(shifts), of_word, label_smoothing)
        target_logits, target_logs = features.new_empty(2, len(features))
        buffer = features.new_empty(min(_CHUNK, len(features)), len(weight))
        to_logits = Factor(weight.T)
        for start in range(0, len(features), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits = to_logits.multiply(features[part], buffer[: len(features[part])])
            target_logits[part], target_logs[part] = _softmax(
                logits,
                shifts,
                of_word[part],
                targets[part],
                label_smoothing - 1,
                None if slopes is None else slopes.shifts,
            )
            if slopes is not None:
                slopes.add(part, logits)
        nats = -target_logs.sum()
        means = features @ (summed / len(weight)) + shifts.mean(dim=-1)[of_word]
        even = (target_logits - target_logs - means).sum()
        ctx.with_added = added is not None
        ctx.slopes = slopes
        ctx.mark_non_differentiable(nats)
        return torch.lerp(nats, even, label_smoothing), nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_nats: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients at hand, scaled; most often by 1, which needs no product."""
        del grad_nats
        kept = (ctx.slopes.features, ctx.slopes.weight, ctx.slopes.shifts)
        features, weight, shifts = kept if grad == 1 else (slope * grad for slope in kept)
        return features, weight, shifts.sum(dim=0), shifts if ctx.with_added else None, *[None] * 4


def _softmax(
    logits: Float[Tensor, "word vocabulary"],
    shifts: Float[Tensor, "sent vocabulary"],
    of_word: Int[Tensor, " word"],
    targets: Int[Tensor, " word"],
    target_slope: float,
    d_shifts: Float[Tensor, "sent vocabulary"] | None,
) -> tuple[Float[Tensor, " word"], Float[Tensor, " word"]]:
    """Logits of the targets, with ``shifts`` in them, and log p.

    If gradients are wanted, ``logits`` give way to p with ``target_slope`` added at the targets,
    which is added to those of the shifts; if not, nobody may look at them afterwards.
    """
    loops = loops_for(logits)
    if loops is not None:
        first, last = targets.aminmax()
        if first < 0 or last >= logits.shape[1]:
            raise IndexError(f"targets from {first} to {last} of {logits.shape[1]} words")
        found = logits.new_empty(2, len(logits))
        loops.softmax(
            *logits.shape, logits.data_ptr(), shifts.data_ptr(), of_word.data_ptr(),
            targets.data_ptr(), target_slope, 0 if d_shifts is None else d_shifts.data_ptr(),
            found[0].data_ptr(), found[1].data_ptr(),
        )  # fmt: skip
        return found[0], found[1]
    logits.add_(shifts if len(shifts) == 1 else shifts.index_select(0, of_word))
    target_logits = logits.gather(-1, targets[:, None])[:, 0]
    logs = torch.log_softmax(logits, dim=-1, out=logits)
    target_logs = logs.gather(-1, targets[:, None])[:, 0]
    slope = logs.exp_()
    if d_shifts is not None:
        slope[torch.arange(len(slope), device=slope.device), targets] += target_slope
        if len(shifts) == 1:
            d_shifts[0].addmv_(slope.T, slope.new_ones(len(slope)))
        else:
            d_shifts.index_add_(0, of_word, slope)
    return target_logits, target_logs


class _Slopes:
    """The gradients of :class:`_OutputLoss`, added up chunk by chunk.

    They begin at what smoothing takes from them: the same for every word of the vocabulary.
    """

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        summed: Tensor,
        sentences: int,
        of_word: Tensor,
        smoothing: float,
    ) -> None:
        self._features, self._from_logits = features, Factor(weight)
        even = -smoothing / len(weight)
        self._of_features, self._of_weight = even * summed, even * features.sum(dim=0)
        self.features = features.new_empty(features.shape)  # row by row, whatever they are
        self.weight = weight.new_empty(weight.shape) if len(features) else torch.zeros_like(weight)
        counts = torch.bincount(of_word, minlength=sentences).to(features.dtype)
        self.shifts = (even * counts)[:, None].repeat(1, len(weight))

    def add(self, part: slice, slope: Tensor) -> None:
        """A chunk's, but for those of the shifts, from p − (1−ε) 1_y."""
        self._from_logits.multiply(slope, self.features[part], self._of_features)
        start = self.weight if part.start else self._of_weight
        Factor(self._features[part]).multiply(slope.T, self.weight, start)
