"""How the C library allocates memory."""

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's malloc.h
_PAD = 64 * 2**20


def keep_freed_memory() -> None:
    """Let freed memory be used again by this process instead of giving it back to the system.

    By default large tensors are given fresh pages, each cleared when it is first touched, which is
    a few per cent of training, more in large batches. Only glibc can be told so.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in ((_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, _PAD), (_MMAP_MAX, 0)):
            mallopt(option, value)
