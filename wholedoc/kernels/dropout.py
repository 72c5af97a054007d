"""Dropout whose masks cost little: on a CPU, torch's own take a tenth of the training time."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from wholedoc.kernels.native import loops_for

_STEPS = 2**16


@final
class Dropout(nn.Module):
    """x ⊙ m, with m = 0 with probability ``rate`` and 1/(1 − rate) otherwise, in training only.

    By torch one random 64-bit number gives four values of m, so the rate is a multiple of 2⁻¹⁶; a
    compiled loop makes all values from one number.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def mask(self, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "..."] | None:
        """A fresh m of the given shape; None where nothing is dropped."""
        if not self.training or self.rate == 0:
            return None
        size = torch.Size(shape).numel()
        loops = loops_for(like)
        if loops is not None:
            seed, mask = torch.randint(2**63 - 1, ()), like.new_empty(shape)
            threshold = round(self.rate * 2**32)
            loops.draw_mask(size, seed.item(), threshold, 1 / (1 - self.rate), mask.data_ptr())
            return mask
        bits = torch.empty((size + 3) // 4, dtype=torch.int64, device=like.device)
        draws = bits.random_(-(2**63), None).view(torch.int16)[:size].view(shape)
        threshold = round(self.rate * _STEPS) - _STEPS // 2
        return torch.ge(draws, threshold, out=like.new_empty(shape)).mul_(1 / (1 - self.rate))

    def forward(self, values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """The values with a fresh mask on them."""
        mask = self.mask(tuple(values.shape), values)
        return values if mask is None else values * mask
