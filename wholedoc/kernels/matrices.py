"""Large products of matrices, by the compiled ones of ``matrices.c`` or by torch.

On CPUs torch multiplies with Intel's library, which leaves something to gain on processors of AMD:
there, the compiled ones are taken. Elsewhere they have not been measured;
``WHOLEDOC_PRODUCTS=compiled`` or ``torch`` in the environment asks for either. (Compiled steps of a
recurrence multiply in their own way everywhere.) Within :func:`mixed_precision` compiled products,
those of steps too, round what they multiply to 16 bits.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from wholedoc.kernels.native import address, asked_for, loops_for, processor

_halves: ContextVar[bool] = ContextVar("halves", default=False)
"""Whether matrices are laid out as pairs of 16-bit numbers; what is laid out says so itself."""
_MANY_ROWS = 64
"""From so many on, laying out a matrix for one product costs less than it gains; about."""


@final
class Packed:
    """A matrix, or several side by side, laid out for compiled products."""

    def __init__(self, loops: ctypes.CDLL, matrix: Float[Tensor, "*any inner column"]) -> None:
        self.shape = inner, columns = matrix.shape[-2:]
        several, halves = matrix.shape[:-2].numel(), _halves.get()
        self._numbers = matrix.new_empty(several, loops.packed_size(inner, columns, halves))
        self.addresses = [address(self._numbers, d) for d in range(several)]
        for d, packed in enumerate(self.addresses):
            loops.pack(inner, columns, address(matrix, d), *matrix.stride()[-2:], halves, packed)


@final
class Factor:
    """A matrix that others are multiplied by, laid out for that once; or several side by side.

    By compiled products where that is faster, unless one says whether to take them.
    """

    def __init__(
        self, matrix: Float[Tensor, "*any inner column"], *, compiled: bool | None = None
    ) -> None:
        self._loops = _products_for(matrix) if compiled is None else None
        if compiled:
            self._loops = loops_for(matrix)
        if self._loops is None:
            self._matrix = matrix
        else:
            self._packed = Packed(self._loops, matrix)

    def multiply(
        self,
        rows: Float[Tensor, "*any row inner"],
        out: Float[Tensor, "*any row column"],
        start: Float[Tensor, "*any row column"] | Float[Tensor, "*any column"] | None = None,
    ) -> Float[Tensor, "*any row column"]:
        """The product of the rows and this matrix, written to ``out``.

        It is added to ``start``, which may be ``out`` itself, or what every row begins at. The
        numbers of a row of ``out`` follow each other.
        """
        if start is not None:
            if start.dim() < out.dim():
                start = start[..., None, :]
            if start.stride(-1) != 1:
                start = start.contiguous()
        if self._loops is None:
            if start is None:
                return torch.matmul(rows, self._matrix, out=out)
            add = torch.addmm if out.dim() == 2 else torch.baddbmm
            return add(start, rows, self._matrix, out=out)
        if out.stride(-1) != 1 and out.shape[-1] > 1:
            raise ValueError(f"numbers of a row are {out.stride(-1)} apart")
        start_row = 0 if start is None or start.shape[-2] == 1 else start.stride(-2)
        for d, packed in enumerate(self._packed.addresses):
            self._loops.multiply(
                rows.shape[-2], *self._packed.shape, address(rows, d), *rows.stride()[-2:], packed,
                None if start is None else address(start, d), start_row, address(out, d),
                out.stride(-2),
            )  # fmt: skip
        return out

    def project(
        self, rows: Float[Tensor, "row inner"], bias: Float[Tensor, " column"] | None = None
    ) -> Float[Tensor, "row column"]:
        """The product of the rows and this matrix, with the bias added to each row."""
        if self._loops is None:
            matrix = self._matrix
            return rows @ matrix if bias is None else torch.addmm(bias, rows, matrix)
        return self.multiply(rows, rows.new_empty(len(rows), self._packed.shape[1]), bias)


@final
class _Project(torch.autograd.Function):
    """x ↦ W x + b for every row x."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """All rows in one product."""
        ctx.save_for_backward(rows, weight)
        return Factor(weight.T).project(rows, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Only what is asked for."""
        rows, weight = ctx.saved_tensors
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            multiply(grad, weight) if of_rows else None,
            multiply(grad.T, rows) if of_weight else None,
            grad.sum(dim=0) if of_bias else None,
        )


class Linear(nn.Linear):
    """x ↦ W x + b for every row x, multiplied as everything else."""

    def forward(self, rows: Float[Tensor, "*any input"]) -> Float[Tensor, "*any output"]:
        """W x + b."""
        many = rows.numel() >= _MANY_ROWS * self.in_features  # so that W is worth being laid out
        if not many or _products_for(rows) is None:
            return super().forward(rows)
        found: Tensor = _Project.apply(  # type: ignore[no-untyped-call]
            rows.reshape(-1, self.in_features), self.weight, self.bias
        )
        return found.view(*rows.shape[:-1], -1)


def multiply(
    left: Float[Tensor, "*any row inner"],
    right: Float[Tensor, "*any inner column"],
    start: Float[Tensor, "*any column"] | None = None,
) -> Float[Tensor, "*any row column"]:
    """The product of two matrices, with ``start`` added to every row, if there is one."""
    few = left.shape[-2] < _MANY_ROWS
    out = left.new_empty(*left.shape[:-1], right.shape[-1])
    return Factor(right, compiled=False if few else None).multiply(left, out, start)


def _products_for(tensor: Tensor) -> ctypes.CDLL | None:
    """The compiled products, if they are to be taken."""
    return loops_for(tensor) if compiled_are_faster() else None


@contextmanager
def mixed_precision(wanted: bool = True) -> Iterator[None]:
    """Within, matrices are laid out in halves, if that is wanted and faster on this machine.

    Compiled products then round what they multiply to 16 bits (bfloat16), and add up in 32.
    """
    token = _halves.set(wanted and products_kind(mixed=True) == "mixed")
    try:
        yield
    finally:
        _halves.reset(token)


def products_kind(*, mixed: bool = False) -> str:
    """By what matrices are multiplied in training on this machine's CPU.

    ``torch``, ``compiled``, or ``mixed`` where that is asked for and faster.
    """
    loops = _products_for(torch.empty(0))
    if loops is None:
        return "torch"
    return "mixed" if mixed and loops.halves_are_faster() else "compiled"


@cache
def compiled_are_faster() -> bool:
    """Whether they are taken on this machine."""
    asked = asked_for("WHOLEDOC_PRODUCTS")
    return asked == "compiled" if asked else "AuthenticAMD" in processor()
