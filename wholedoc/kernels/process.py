"""How this process uses threads and memory."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
_PAD = 64 * 2**20
_pool_size: ContextVar[int | None] = ContextVar("pool_size", default=None)
"""Threads of :func:`in_threads` within :func:`one_thread`."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute every operation with one thread, unless ``OMP_NUM_THREADS`` asks for a number.

    Threads that divide small matrix products wait for each other at each of them. Where another
    process has one of the cores, each time is a turn of the scheduler: training then takes five to
    thirty times as long (docs/speed.md). :func:`in_threads` still has all of torch's threads.
    """
    import torch

    if os.environ.get("OMP_NUM_THREADS") or _pool_size.get() is not None:
        yield
        return
    before = torch.get_num_threads()
    token = _pool_size.set(before)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _pool_size.reset(token)


def in_threads(run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """The results of batches in order, as many batches at a time as torch has threads.

    The matrix products of a search step are too small to be divided: threads that wait for each
    other at each of them gain little, and lose a lot where a core is busy with something else.
    """
    import torch

    threads = min(_pool_size.get() or torch.get_num_threads(), len(batches))
    if threads < 2:
        yield from map(run, batches)
        return

    @torch.inference_mode()
    def run_alone(batch: Batch) -> Result:
        return run(batch)

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(run_alone, batches)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(before)


def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of giving it back to the system.

    By default large tensors are given fresh pages, each cleared when it is first touched, which is
    a few per cent of training, more in large batches. Only glibc can be told so.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _PAD), (_MMAP_MAX, 0)):
            mallopt(option, value)
