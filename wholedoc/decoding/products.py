"""Products with a fixed matrix, laid out for the few rows that a step of search has."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor


class Product(ABC):
    """x ↦ W x + b for every row x of a batch."""

    @abstractmethod
    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None: ...

    @abstractmethod
    def __call__(self, inputs: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """W x + b."""


@final
class ExactProduct(Product):
    """In the precision of the weights; the matrix stands transposed, which is read fastest."""

    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None:
        self.weight = weight.T.contiguous()
        self.bias = bias

    def __call__(self, inputs: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """W x + b."""
        if self.bias is None:
            return torch.mm(inputs, self.weight)
        return torch.addmm(self.bias, inputs, self.weight)
