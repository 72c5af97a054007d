"""Ways to keep less in memory between the way there and the way back."""

from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from wholedoc.model.encoder import Encoder, Encoding
from wholedoc.model.memory import Readings

Cut = TypeVar("Cut", Encoding, Readings)


class Seam:
    """Where a computation is cut in two, so that the parts beyond go back one by one.

    What is beyond the seam sees copies, which gather its gradients; :meth:`backward` takes these
    on from the originals. Where no gradients are recorded, nothing is cut.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def cut(self, given: Cut) -> Cut:
        """The same, with copies in the place of all tensors that have a gradient."""
        return replace(
            given, **{field.name: self._copy(getattr(given, field.name)) for field in fields(given)}
        )

    def _copy(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._copy, value))
        if not isinstance(value, Tensor) or not value.requires_grad or not torch.is_grad_enabled():
            return value
        copy = value.detach().requires_grad_()
        self._pairs.append((value, copy))
        return copy

    def backward(self) -> None:
        """On from the seam, when all that is beyond it has gone back."""
        reached = [(value, copy.grad) for value, copy in self._pairs if copy.grad is not None]
        if reached:
            values, gradients = zip(*reached, strict=True)
            torch.autograd.backward(values, gradients)


def encode_twice(
    encoder: Encoder, src: Int[Tensor, "sent src_word"], lengths: Int[Tensor, " sent"]
) -> Encoding:
    """Encode, keeping only the states: on the way back the encoder runs once more."""
    if not torch.is_grad_enabled():
        encoding: Encoding = encoder(src, lengths)
        return encoding

    def run(_: Tensor) -> tuple[Any, ...]:
        encoding = encoder(src, lengths)
        return tuple(getattr(encoding, field.name) for field in fields(encoding))

    # What comes out has a gradient only if something that goes in has one.
    anything = torch.empty(0, device=src.device, requires_grad=True)
    return Encoding(*checkpoint(run, anything, use_reentrant=True))
