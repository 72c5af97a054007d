"""Matrix products, matrices prepared for search, weights in 8 bits, dropout, and the output loss.

In training PyTorch multiplies large matrices in single precision, and the compiled kernels do in
mixed precision; ``docs/kernels.md`` has the measurements. Search multiplies few rows by the same
matrices again and again: these are packed once for the compiled kernels, or rounded to 8 bits. The
loss of the output layer never has the whole matrix of words × vocabulary in memory.
"""

import warnings
from collections.abc import Mapping
from threading import Lock
from typing import Any, final

import torch
from jaxtyping import Float, Int, Int8
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wholedoc.kernels.native import Library, library_for, multiplies_bf16

_MANY_ROWS = 64  # from so many on, packing a matrix for one product costs less than it gains
_LARGEST_INPUT = 63
_CHUNK = 512  # words whose logits exist at once: they fit the caches and multiply efficiently
_SCALES = ".scales"
_FEWEST_ROWS = 3  # smaller matrices and vectors are not rounded to 8 bits: they take no room
_quantising = Lock()


def address(tensor: Tensor | None, number: int = 0) -> int | None:
    """Where the first, second, … matrix of a float32 tensor begins, if there is a tensor."""
    return None if tensor is None else tensor.data_ptr() + 4 * number * tensor.stride(0)


@final
class Factor:
    """A matrix, or several side by side, to multiply by; packed where a library multiplies."""

    def __init__(self, matrix: Float[Tensor, "*any inner column"], library: Library | None) -> None:
        self._matrix, self._library = matrix, library
        if library is not None:
            matrix, (inner, columns) = _dense(matrix), matrix.shape[-2:]
            several, bf16 = matrix.shape[:-2].numel(), multiplies_bf16()
            self.packed = matrix.new_empty(several, library.c.packed_size(inner, columns, bf16))
            for d in range(several):
                start, strides, to = address(matrix, d), matrix.stride()[-2:], self.packed[d]
                library.c.pack(inner, columns, start, *strides, bf16, address(to))

    def multiply(
        self,
        rows: Float[Tensor, "*any row inner"],
        start: Float[Tensor, "*any row column"] | Float[Tensor, "*any column"] | None = None,
        out: Float[Tensor, "*any row column"] | None = None,
    ) -> Float[Tensor, "*any row column"]:
        """start + rows · matrix, written to ``out``; ``start`` may be ``out``, or a row for all."""
        if self._library is None:
            if start is None:
                return torch.matmul(rows, self._matrix, out=out)
            if rows.dim() == 2:
                return torch.addmm(start, rows, self._matrix, out=out)
            return torch.baddbmm(start[..., None, :], rows, self._matrix, out=out)
        rows, (inner, columns) = _dense(rows), self._matrix.shape[-2:]
        if out is None:
            out = rows.new_empty(*rows.shape[:-1], columns)
        if start is not None and start.dim() < out.dim():
            start = start.contiguous()[..., None, :]
        start_row = 0 if start is None or start.shape[-2] == 1 else start.stride(-2)
        workspace = self._library.workspace()
        for d, packed in enumerate(self.packed):
            self._library.c.multiply(
                rows.shape[-2], inner, columns, address(rows, d), *rows.stride()[-2:],
                address(packed), address(start, d), start_row, address(out, d), out.stride(-2),
                address(workspace),
            )  # fmt: skip
        return out


def _dense(matrix: Float[Tensor, "*any row column"]) -> Float[Tensor, "*any row column"]:
    """The same matrix, with neighbours in a row or in a column side by side in memory."""
    return matrix if 1 in matrix.stride()[-2:] else matrix.contiguous()


def matmul(
    left: Float[Tensor, "*any row inner"],
    right: Float[Tensor, "*any inner column"],
    start: Float[Tensor, "*any row column"] | Float[Tensor, "*any column"] | None = None,
    out: Float[Tensor, "*any row column"] | None = None,
) -> Float[Tensor, "*any row column"]:
    """start + left · right, written to ``out`` if there is one; no gradients are recorded."""
    many = multiplies_bf16() and left.shape[-2] >= _MANY_ROWS
    return Factor(right, library_for(left) if many else None).multiply(left, start, out)


@final
class _Linear(torch.autograd.Function):
    """x ↦ W x + b for every row x, each product by :func:`matmul`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """All rows in one product."""
        ctx.save_for_backward(rows, weight)
        return matmul(rows, weight.T, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Only the gradients that are needed."""
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            matmul(grad, weight) if of_rows else None,
            matmul(grad.T, rows) if of_weight else None,
            grad.sum(dim=0) if of_bias else None,
        )


class Linear(nn.Linear):
    """W x + b for every row x: torch's layer, whose products may be in mixed precision."""

    def forward(self, rows: Float[Tensor, "*any input"]) -> Float[Tensor, "*any output"]:
        """W x + b."""
        many = rows.numel() >= _MANY_ROWS * self.in_features
        if not many or not multiplies_bf16() or library_for(rows) is None:
            return super().forward(rows)
        flat = rows.reshape(-1, self.in_features)
        found: Tensor = _Linear.apply(flat, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return found.view(*rows.shape[:-1], -1)


@final
class ExactProduct:
    """x ↦ W x + b with a matrix that is prepared once, for the few rows of a search step."""

    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None:
        self._factor, self._bias = Factor(weight.T.contiguous(), library_for(weight)), bias

    def __call__(self, inputs: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """W x + b."""
        return self._factor.multiply(inputs, self._bias)


@final
class EightBitProduct:
    """The same in 8-bit integers, on CPUs only; each row of W has a scale of its own.

    Inputs lie between -1 and 1, as states of a GRU, their averages, and tanh do. So their scale is
    fixed, and a row's result does not depend on the rest of its batch. They have 7 bits: with 8,
    sums would overflow on CPUs without VNNI.
    """

    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None:
        rounded, scales = round_rows(weight.float())
        # The filters of warnings and the choice of an engine hold for all threads, so one packs at
        # a time.
        with _quantising, warnings.catch_warnings():
            # torch announces a successor of its quantised tensors; the packed ones stay.
            warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
            quantised = torch._make_per_channel_quantized_tensor(
                rounded, scales.double(), torch.zeros(len(scales), dtype=torch.long), 0
            )
            # Other engines may use instructions that a virtual machine announces and does not have.
            before, torch.backends.quantized.engine = torch.backends.quantized.engine, "fbgemm"
            try:
                self.packed = torch.ops.quantized.linear_prepack(quantised, bias)
            finally:
                torch.backends.quantized.engine = before

    @staticmethod
    def works_on(device: torch.device) -> bool:
        """Whether there are 8-bit products here."""
        return device.type == "cpu" and "fbgemm" in torch.backends.quantized.supported_engines

    def __call__(self, inputs: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """W x + b."""
        found: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            inputs, 1 / _LARGEST_INPUT, _LARGEST_INPUT + 1, self.packed
        )
        return found


Product = ExactProduct | EightBitProduct


def round_rows(
    matrix: Float[Tensor, "row column"],
) -> tuple[Int8[Tensor, "row column"], Float[Tensor, " row"]]:
    """n = round(x / s) from -127 to 127, with s = max |x| / 127 for each row."""
    scales = matrix.abs().amax(dim=1).clamp(min=torch.finfo(matrix.dtype).tiny) / 127
    return (matrix / scales[:, None]).round().clamp(-127, 127).to(torch.int8), scales


def compact(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Named weights, matrices in 8 bits with their scales beside them."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.dim() == 2 and len(tensor) >= _FEWEST_ROWS:
            found[name], found[name + _SCALES] = round_rows(tensor.detach().float())
        else:
            found[name] = tensor.detach()
    return found


def restore(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights that :func:`compact` was given, rounded; other tensors stay as they are."""
    return {
        name: tensor * tensors[name + _SCALES][:, None] if tensor.dtype == torch.int8 else tensor
        for name, tensor in tensors.items()
        if name.removesuffix(_SCALES) == name
    }


@torch.no_grad()
def round_weights(model: nn.Module) -> None:
    """Give a model the weights that it would have if it were written in 8 bits and read again."""
    parameters = dict(model.named_parameters())
    for name, tensor in restore(compact(parameters)).items():
        parameters[name].copy_(tensor)


def dropout_mask(shape: tuple[int, ...], rate: float, like: Tensor) -> Float[Tensor, "..."]:
    """m_i = 0 with probability ``rate``, else 1/(1 − rate): the i-th of a hash of one random seed.

    The same with compiled kernels and without, on any device, after the same ``manual_seed``.
    """
    seed = int(torch.randint(2**63 - 1, ()).item())
    threshold, scale = round(rate * 2**32), 1 / (1 - rate)
    library = library_for(like)
    if library is None:
        return _dropout_mask_reference(shape, seed, threshold, scale, like)
    mask = like.new_empty(shape)
    library.c.dropout_mask(mask.numel(), seed, threshold, scale, address(mask))
    return mask


def _dropout_mask_reference(
    shape: tuple[int, ...], seed: int, threshold: int, scale: float, like: Tensor
) -> Float[Tensor, "..."]:
    """``dropout_mask`` of ``kernels.c``, whose 32-bit hash is computed here in 64 bits."""

    def scramble(x: Tensor) -> Tensor:
        x = (x ^ x >> 16) * 0x7FEB352D & 0xFFFFFFFF
        x = (x ^ x >> 15) * 0x846CA68B & 0xFFFFFFFF
        return x ^ x >> 16

    places = torch.arange(torch.Size(shape).numel(), device=like.device)
    draws = scramble(scramble(places + (seed & 0xFFFFFFFF) & 0xFFFFFFFF) ^ seed >> 32)
    return (draws >= threshold).to(like.dtype).mul_(scale).view(shape)


@final
class Dropout(nn.Module):
    """x ⊙ m in training, with a fresh :func:`dropout_mask` m; x otherwise."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def mask(self, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "..."] | None:
        """A fresh m of the given shape; None where nothing is dropped."""
        if not self.training or self.rate == 0:
            return None
        return dropout_mask(shape, self.rate, like)

    def forward(self, values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """The values with a fresh mask on them."""
        mask = self.mask(tuple(values.shape), values)
        return values if mask is None else values * mask


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
