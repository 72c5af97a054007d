"""Several batches at once: one thread for each, instead of several for each product.

The products of a step of search are too small to be divided: threads that wait for each other at
each of them gain little, and lose a lot where a core is busy with something else.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def in_threads(run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """The results of batches in order, with as many batches at a time as torch has threads."""
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
