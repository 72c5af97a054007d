"""Several processes that share each update: start them with ``torchrun``.

An update is the same whatever the number of processes: its sentences are dealt out, gradients are
summed over all processes, and each then takes the same step.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import distributed, nn

Items = TypeVar("Items", bound=Sequence[Any] | NDArray[Any])


@dataclass(frozen=True)
class ProcessGroup:
    """This process among all that train together."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which writes files and prints messages."""
        return self.rank == 0

    def share(self, items: Items) -> Items:
        """The part of some work that this rank does."""
        part: Items = items[self.rank :: self.size]  # type: ignore[assignment]
        return part

    def barrier(self) -> None:
        """Wait until all processes have come here."""
        if self.size > 1:
            distributed.barrier()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Values summed over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        distributed.all_reduce(total)
        return total.tolist()

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over all processes."""
        if self.size == 1:
            return
        trainable = [parameter for parameter in parameters if parameter.requires_grad]
        # A process without a sentence in this update adds nothing.
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trainable]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        distributed.all_reduce(flat)
        parts = torch.split(flat, [parameter.numel() for parameter in trainable])
        for parameter, part in zip(trainable, parts, strict=True):
            parameter.grad = part.view_as(parameter)


def is_leader() -> bool:
    """Whether this process is rank 0, known before the process group is made."""
    return os.environ.get("RANK", "0") == "0"


def join_process_group(device: torch.device) -> ProcessGroup:
    """Join the process group that ``torchrun`` started; without it there is one process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return ProcessGroup()
    if not distributed.is_initialized():
        # Gradients live on the device, counts on the CPU. The leader may prepare data for long.
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(days=1))
    return ProcessGroup(distributed.get_rank(), size)
