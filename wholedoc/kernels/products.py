"""Products with a fixed matrix, laid out for the few rows that a step of search has."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.kernels.int8 import round_rows
from wholedoc.kernels.matrices import Factor

_LARGEST_INPUT = 63
_PACKING = Lock()


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
    """In the precision of the weights; the matrix is laid out as it is read fastest."""

    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None:
        self.weight = Factor(weight.T.contiguous())
        self.bias = bias

    def __call__(self, inputs: Float[Tensor, "row input"]) -> Float[Tensor, "row output"]:
        """W x + b."""
        return self.weight.project(inputs, self.bias)


@final
class EightBitProduct(Product):
    """In 8-bit integers, on CPUs only; each row of W has a scale of its own.

    Inputs lie between -1 and 1, as states of a GRU, their averages, and tanh do. So their scale is
    fixed, and a row's result does not depend on the rest of its batch. They have 7 bits: with 8,
    CPUs without VNNI would let sums run over.
    """

    def __init__(
        self, weight: Float[Tensor, "output input"], bias: Float[Tensor, " output"] | None = None
    ) -> None:
        numbers, scales = round_rows(weight.float())
        if bias is None:
            bias = weight.new_zeros(len(weight))
        with warnings.catch_warnings():
            # torch announces a successor of its quantised tensors; the packed ones stay.
            warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
            quantised = torch._make_per_channel_quantized_tensor(
                numbers, scales.double(), torch.zeros(len(scales), dtype=torch.long), 0
            )
            with _engine("fbgemm"):
                self.packed = torch.ops.quantized.linear_prepack(quantised, bias.float())

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


@contextmanager
def _engine(name: str) -> Iterator[None]:
    """Have torch pack matrices for one of its engines.

    Some engines use instructions that a virtual machine may announce and not have. The choice holds
    for all threads, so one packs at a time.
    """
    with _PACKING:
        before = torch.backends.quantized.engine
        torch.backends.quantized.engine = name
        try:
            yield
        finally:
            torch.backends.quantized.engine = before
