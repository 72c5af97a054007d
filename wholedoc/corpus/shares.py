"""Shares of an update: which of its sentences each of several processes computes, by their words.

Both ways put every item into one share, and no share is larger than the mean by more than the
largest item. All processes compute the same shares, so that nothing is exchanged.
"""

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.integer]


def deal(sizes: Sizes, rank: int, ranks: int) -> Indices:
    """The items of a share, in their order: dealt out from the largest on, to and fro.

    Shares are alike in large and small items. Two of them differ by at most the largest item: where
    one gains on the other, it does so between two sizes that no other round has passed.
    """
    order = np.argsort(-sizes.astype(np.int64), kind="stable")
    turn = np.arange(len(order)) % (2 * ranks)
    mine: Indices = np.sort(order[np.minimum(turn, 2 * ranks - 1 - turn) == rank])
    return mine


def cut(sizes: Sizes, rank: int, ranks: int) -> range:
    """The items of a share that are neighbours: each goes where its middle lies.

    A share is a run of a ``ranks``-th of the total, moved by at most half an item at either end.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    if not len(ends):
        return range(0)
    home = (2 * ends - sizes) * ranks // (2 * ends[-1])
    start, stop = np.searchsorted(home, [rank, rank + 1])
    return range(int(start), int(stop))
