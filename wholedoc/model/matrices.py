"""Products of matrices in training, by the compiled ones of ``matrices.c`` or by torch.

On CPUs torch multiplies with Intel's library, which leaves a good deal to gain on processors of
AMD, most of all where matrices have few rows: there, the compiled ones are taken. Elsewhere they
have not been measured; ``WHOLEDOC_PRODUCTS=compiled`` or ``torch`` in the environment asks for
either.
"""

import ctypes
import os
from functools import cache
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.model.loops import address, loops_for, processor


@final
class Factor:
    """A matrix that others are multiplied by, laid out for that once; or several side by side."""

    def __init__(self, matrix: Float[Tensor, "*any inner column"]) -> None:
        self._loops = _products_for(matrix)
        if self._loops is None:
            self._packed = matrix.contiguous()
            return
        self._shape = inner, columns = matrix.shape[-2:]
        several = matrix.shape[:-2].numel()
        size = self._loops.packed_size(inner, columns)
        self._packed = matrix.new_empty(several, size)
        self._addresses = [address(self._packed, d) for d in range(several)]
        for d, packed in enumerate(self._addresses):
            self._loops.pack(inner, columns, address(matrix, d), *matrix.stride()[-2:], packed)

    def multiply(
        self,
        rows: Float[Tensor, "*any row inner"],
        out: Float[Tensor, "*any row column"],
        *,
        add: bool = False,
    ) -> Float[Tensor, "*any row column"]:
        """The product of the rows and this matrix, written to ``out`` or added to it.

        The numbers of a row of ``out`` follow each other.
        """
        if self._loops is None:
            if not add:
                return torch.matmul(rows, self._packed, out=out)
            return (out.addmm_ if out.dim() == 2 else out.baddbmm_)(rows, self._packed)
        for d, packed in enumerate(self._addresses):
            self._loops.multiply(
                rows.shape[-2], *self._shape, address(rows, d), *rows.stride()[-2:],
                packed, address(out, d), out.stride(-2), add,
            )  # fmt: skip
        return out


def multiply(
    left: Float[Tensor, "*any row inner"], right: Float[Tensor, "*any inner column"]
) -> Float[Tensor, "*any row column"]:
    """The product of two matrices."""
    if _products_for(left) is None:
        return left @ right
    return Factor(right).multiply(left, left.new_empty(*left.shape[:-1], right.shape[-1]))


def _products_for(tensor: Tensor) -> ctypes.CDLL | None:
    """The compiled products, if they are to be taken."""
    return loops_for(tensor) if compiled_are_faster() else None


def products_kind() -> str:
    """By what matrices are multiplied in training on this machine's CPU."""
    return "torch" if _products_for(torch.empty(0)) is None else "compiled"


@cache
def compiled_are_faster() -> bool:
    """Whether they are taken on this machine."""
    asked = os.environ.get("WHOLEDOC_PRODUCTS")
    return asked == "compiled" if asked else "AuthenticAMD" in processor()
