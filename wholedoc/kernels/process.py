"""How this process uses threads and memory."""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
_PAD = 64 * 2**20


def in_threads(run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """The results of batches in order, as many batches at a time as torch has threads.

    The matrix products of a search step are too small to be divided: threads that wait for each
    other at each of them gain little, and lose a lot where a core is busy with something else.
    """
    import torch

    threads = min(torch.get_num_threads(), len(batches))
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
