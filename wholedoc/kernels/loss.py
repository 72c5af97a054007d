"""The loss of the output layer, without the whole matrix of words × vocabulary in memory."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from wholedoc.kernels.layers import Factor, address, matmul
from wholedoc.kernels.native import Library, library_for, multiplies_bf16

# Words whose logits exist at once: few enough for the caches, enough for an efficient product.
_CHUNK = 512


def output_loss(
    features: Float[Tensor, "word hidden"],
    weight: Float[Tensor, "vocabulary hidden"],
    shifts: Float[Tensor, "sent vocabulary"],
    sentences: Int[Tensor, " word"],
    targets: Int[Tensor, " word"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """−Σ (1−ε) log p(y) + ε mean log p, and −Σ log p(y), with p = softmax(W r + shift).

    Each word has the shift of its sentence: the bias of the output layer and all that is added to
    its logits. Only the first result has a gradient.
    """
    first, last = targets.aminmax() if len(targets) else (0, 0)
    if first < 0 or last >= len(weight):
        raise IndexError(f"targets from {first} to {last} of {len(weight)} words")
    library = library_for(features)
    if library is None:
        logits = features @ weight.T + (shifts if len(shifts) == 1 else shifts[sentences])
        logs = torch.log_softmax(logits, dim=-1)
        nats = -logs.gather(-1, targets[:, None]).sum()
        return torch.lerp(nats, -logs.mean(dim=-1).sum(), smoothing), nats.detach()
    found: tuple[Tensor, Tensor] = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        library, features, weight, shifts, sentences, targets, smoothing, torch.is_grad_enabled()
    )
    return found


class _OutputLoss(torch.autograd.Function):
    """The loss with the compiled softmax, a chunk of words at a time.

    The gradient of a chunk, p − (1−ε) 1_y − ε/V, is taken while its p is at hand. Its last term is
    the same for all words, and so is the mean of the logits a product with mean weights: both are
    taken without going through the logits again.
    """

    @staticmethod
    def forward(
        ctx: Any, library: Library, features: Tensor, weight: Tensor, shifts: Tensor,
        sentences: Tensor, targets: Tensor, smoothing: float, differentiate: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """Both losses, and where ``differentiate``, their gradients.

        ``ctx.needs_input_grad`` alone does not tell: weights need one in evaluation too.
        """
        shifts, summed = shifts.contiguous(), weight.sum(dim=0)
        ctx.grads = None
        if differentiate and any(ctx.needs_input_grad):
            counts = torch.bincount(sentences, minlength=len(shifts)).to(features.dtype)
            ctx.grads = _Gradients(features, weight, -smoothing / len(weight), summed, counts)
        d_shifts = None if ctx.grads is None else ctx.grads.shifts
        target_logits, target_logs = features.new_empty(2, len(features))
        buffer = features.new_empty(min(_CHUNK, len(features)), len(weight))
        to_logits = _factor(weight.T)
        for start in range(0, len(features), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits = to_logits.multiply(features[part], out=buffer[: len(features[part])])
            library.c.softmax(
                *logits.shape, address(logits), address(shifts), sentences[part].data_ptr(),
                targets[part].data_ptr(), smoothing - 1, address(d_shifts),
                address(target_logits[part]), address(target_logs[part]),
            )  # fmt: skip
            if ctx.grads is not None:
                ctx.grads.add(part, logits)
        nats = -target_logs.sum()
        means = features @ (summed / len(weight)) + shifts.mean(dim=-1)[sentences]
        even = (target_logits - target_logs - means).sum()
        ctx.mark_non_differentiable(nats)
        return torch.lerp(nats, even, smoothing), nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_nats: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients at hand, scaled; most often by 1, which needs no product."""
        del grad_nats
        kept = (ctx.grads.features, ctx.grads.weight, ctx.grads.shifts)
        return None, *(kept if grad == 1 else (one * grad for one in kept)), None, None, None, None


def _factor(matrix: Tensor) -> Factor:
    """A matrix that several chunks are multiplied by: in mixed precision it is packed once."""
    return Factor(matrix, library_for(matrix) if multiplies_bf16() else None)


class _Gradients:
    """The gradients of :class:`_OutputLoss`, summed chunk by chunk.

    They begin at the part of smoothing, ``even`` for every word of the vocabulary.
    """

    def __init__(
        self, features: Tensor, weight: Tensor, even: float, summed: Tensor, counts: Tensor
    ) -> None:
        self._features, self._from_logits = features, _factor(weight)
        self._of_features, self._of_weight = even * summed, even * features.sum(dim=0)
        self.features = features.new_empty(features.shape)  # contiguous, whatever they are
        self.weight = weight.new_empty(weight.shape) if len(features) else torch.zeros_like(weight)
        self.shifts = (even * counts)[:, None].repeat(1, len(weight))

    def add(self, part: slice, slope: Tensor) -> None:
        """Those of a chunk, but for the shifts, from p − (1−ε) 1_y."""
        self._from_logits.multiply(slope, self._of_features, self.features[part])
        start = self.weight if part.start else self._of_weight
        matmul(slope.T, self._features[part], start, self.weight)
