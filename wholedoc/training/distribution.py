"""Several processes that share each update: start them with ``torchrun``.

An update is the same whatever the number of processes: its sentences are dealt out, gradients are
summed over all processes, and each then takes the same step. Only dropout differs: a rank draws its
own masks.
"""

import math
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from wholedoc.errors import UserError
from wholedoc.training.optimisation import make_state

_RESTARTS = "TORCHELASTIC_RESTART_COUNT"
_LINE = 16  # numbers of a cache line
_MOST_COUNTS = 8
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
            with _name_lost_process():
                distributed.barrier()

    def sum(self, values: Sequence[float]) -> list[float]:
        """Values summed over all processes."""
        if self.size == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        with _name_lost_process():
            distributed.all_reduce(total)
        return total.tolist()


class _Pipes:
    """A barrier of the processes of one machine: a byte from each to every other.

    It takes 5 µs where that of gloo takes 170, whose threads need a core while all are busy.
    """

    def __init__(self, group: ProcessGroup) -> None:
        others = [rank for rank in range(group.size) if rank != group.rank]
        mine = {rank: os.pipe() for rank in others}
        handles = torch.zeros(group.size, group.size, 2, dtype=torch.int64)
        for rank, (_, write) in mine.items():
            handles[group.rank, rank] = torch.tensor([os.getpid(), write])
        with _name_lost_process():
            distributed.all_reduce(handles)
        ends = [f"/proc/{pid}/fd/{end}" for pid, end in handles[others, group.rank].tolist()]
        self._to_others = [os.open(end, os.O_WRONLY) for end in ends]
        self._from_others = [read for read, _ in mine.values()]
        group.barrier()  # all have opened theirs
        for _, write in mine.values():
            os.close(write)  # so that reading ends when the other process does

    def barrier(self) -> None:
        """Wait until all processes have come here."""
        with _name_lost_process():
            for end in self._to_others:
                os.write(end, b".")
            for end in self._from_others:
                if not os.read(end, 1):
                    raise ConnectionError

    def close(self) -> None:
        for end in self._to_others + self._from_others:
            os.close(end)


class Exchange:
    """What processes tell each other in an update: gradients, some counts, and new weights.

    On one machine without a GPU all of it goes through memory that all processes share, together
    with the weights and the state of the optimiser. Each parameter has an owner, who adds up its
    gradients and takes its step: the others find its new weights where they are. Otherwise
    gradients are one flat tensor, with the counts at its end: one all-reduce, and each process
    takes the whole step.
    """

    def __init__(self, group: ProcessGroup, optimiser: torch.optim.Optimizer) -> None:
        self._group = group
        parameters = [p for part in optimiser.param_groups for p in part["params"]]
        self._trainable = [parameter for parameter in parameters if parameter.requires_grad]
        self._owners: list[int] | None = None
        on_cpu = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in self._trainable)
        if on_cpu and _one_machine(group.size) and hasattr(os, "memfd_create"):
            self._owners = _deal([p.numel() for p in self._trainable], group.size)
            self._share(optimiser)
            self._pipes = _Pipes(group)

    def _share(self, optimiser: torch.optim.Optimizer) -> None:
        """Move weights and the optimiser's state into shared memory, with room for the rest."""
        make_state(optimiser)
        states = [optimiser.state[parameter] for parameter in self._trainable]
        kept = [(s, name) for s in states for name, value in s.items() if torch.is_tensor(value)]
        moved = [*self._trainable, *(state[name] for state, name in kept)]
        gradients = self._trainable * self._group.size
        counts = torch.empty(2, self._group.size, 2 * _MOST_COUNTS)
        *views, counts = _share_memory(self._group, [*moved, *gradients, counts])
        for view, tensor in zip(views, moved, strict=False):
            view.copy_(tensor.detach())  # all processes write the same
        rest = iter(views)
        for parameter in self._trainable:
            parameter.data = next(rest)
        for state, name in kept:
            state[name] = next(rest)
        self._gradients = [[next(rest) for _ in self._trainable] for _ in range(self._group.size)]
        """Of each rank, those of parameters that others own."""
        self._counts = counts.view(torch.float64)

    def close(self) -> None:
        """Give this process weights of its own again."""
        if self._owners is not None:
            for parameter in self._trainable:
                parameter.data = parameter.data.clone()
            self._pipes.close()

    def sum_gradients(self, counts: Sequence[float]) -> list[float]:
        """Replace gradients by their sums over all processes; return the counts, summed.

        Of parameters that others own, no gradients are left: the optimiser passes them by.
        """
        for parameter in self._trainable:
            if (
                parameter.grad is None
            ):  # without a gradient, Adam would skip it in one process alone
                parameter.grad = torch.zeros_like(parameter)
        if self._group.size == 1:
            return list(counts)
        if self._owners is None:
            return self._all_reduce(counts)
        rank = self._group.rank
        mine = self._gradients[rank]
        for parameter, owner, place in zip(self._trainable, self._owners, mine, strict=True):
            if owner != rank:
                place.copy_(parameter.grad)
                parameter.grad = None
        summed = self._sum(0, counts)  # and all have written
        for other in (row for row in self._gradients if row is not mine):
            for parameter, place in zip(self._trainable, other, strict=True):
                if parameter.grad is not None:
                    parameter.grad.add_(place)
        return summed

    def _all_reduce(self, counts: Sequence[float]) -> list[float]:
        gradients = [p.grad.flatten() for p in self._trainable if p.grad is not None]
        flat = torch.cat([*gradients, gradients[0].new_tensor(counts)])
        with _name_lost_process():
            distributed.all_reduce(flat)
        *parts, summed = torch.split(flat, [*map(len, gradients), len(counts)])
        for parameter, part in zip(self._trainable, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        return summed.tolist()

    def norm(self) -> float:
        """The norm of the summed gradients."""
        gradients = [p.grad for p in self._trainable if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if self._owners is None:
            return norm
        return math.sqrt(*self._sum(1, [norm * norm]))

    def finish(self) -> None:
        """Wait until all processes have taken their step."""
        if self._owners is not None:
            self._pipes.barrier()

    def _sum(self, step: int, values: Sequence[float]) -> list[float]:
        """Values summed over all processes, in places that the next step leaves alone."""
        places = self._counts[step, :, : len(values)]
        places[self._group.rank] = torch.tensor(values, dtype=torch.float64)
        self._pipes.barrier()
        return places.sum(dim=0).tolist()


def _deal(sizes: Sequence[int], ranks: int) -> list[int]:
    """The owner of each parameter: the largest are dealt out first, each to who has least."""
    owners, loads = [0] * len(sizes), [0] * ranks
    for i in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        owners[i] = loads.index(min(loads))
        loads[owners[i]] += sizes[i]
    return owners


def _share_memory(group: ProcessGroup, likes: Sequence[Tensor]) -> list[Tensor]:
    """Zeros of the shapes of some tensors, in memory that all processes of this machine share.

    The memory has no name and belongs to the processes: it is free when they have ended, however
    they do.
    """
    ends = list(accumulate(-(-like.numel() // _LINE) * _LINE for like in likes))
    handle = torch.zeros(2, dtype=torch.int64)
    if group.leads:
        handle[:] = torch.tensor([os.getpid(), os.memfd_create("training")])
        os.truncate(int(handle[1]), 4 * ends[-1])
    with _name_lost_process():
        distributed.broadcast(handle, src=0)
    with open(f"/proc/{handle[0]}/fd/{handle[1]}", "r+b") as file:  # noqa: PTH123 (no path)
        memory = mmap.mmap(file.fileno(), 4 * ends[-1])
    group.barrier()  # all have opened it
    if group.leads:
        os.close(int(handle[1]))
    flat = torch.frombuffer(memory, dtype=torch.float32)
    starts = [0, *ends[:-1]]
    return [
        flat[start : start + like.numel()].view(like.shape)
        for start, like in zip(starts, likes, strict=True)
    ]


@contextmanager
def _name_lost_process() -> Iterator[None]:
    """Turn the end of a connection into an error that says what to do."""
    try:
        yield
    except (RuntimeError, ConnectionError) as error:
        what = "lost the connection to another process of this training"
        fix = "start it again: it resumes from its last checkpoint (torchrun --max-restarts 3 does)"
        raise UserError(what, where="torchrun", fix=fix) from error


def _one_machine(processes: int) -> bool:
    """Whether all processes were started on this machine."""
    return processes > 1 and os.environ.get("LOCAL_WORLD_SIZE") == str(processes)


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
        store, rank, _ = next(iter(distributed.rendezvous("env://")))  # type: ignore[attr-defined]
        if _one_machine(size):
            # After a restart the launcher's store still has the addresses of the processes before,
            # which now and then are taken for new ones; then all wait for ever. On several machines
            # launchers count restarts each for itself: there docs/scale.md asks for a new store.
            attempt = os.environ.get(_RESTARTS, "0")
            store = distributed.PrefixStore(attempt, store)  # type: ignore[attr-defined]
        distributed.init_process_group(
            backend, store=store, rank=rank, world_size=size, timeout=timedelta(days=1)
        )
    return ProcessGroup(distributed.get_rank(), size)
