"""Weights in 8 bits: whole numbers, and for each row of a matrix the scale that brings it back."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int8
from torch import Tensor, nn

_SCALES = ".scales"
# Vectors, and matrices that are but a vector or two, stay as they are: they take no room.
_FEWEST_ROWS = 3


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
    """What :func:`compact` made, as weights; tensors that are not in 8 bits stay as they are."""
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
