"""The fast functions behind the formulas: compiled for CPUs where that was built, else PyTorch.

Every function computes the same in both; :mod:`wholedoc.kernels.native` chooses. Nothing outside
this package knows which one computes, but for :func:`describe`, :func:`use` in tests, and the
environment variable ``WHOLEDOC_KERNELS``. Names are imported when they are first asked for, so that
commands that compute nothing do not wait for torch.
"""

import ctypes
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wholedoc.kernels.layers import *
    from wholedoc.kernels.native import *
    from wholedoc.kernels.recurrence import *

__all__ = [
    "Dropout", "EightBitProduct", "ExactProduct", "GRUWeights", "Linear", "Packing", "Product",
    "StepInputs", "StepLayers", "Steps", "bigru", "check_precision", "compact", "decode_steps",
    "describe", "doubled_exp", "dropout_mask", "in_threads", "keep_freed_memory",
    "mixed_precision", "one_thread", "output_loss", "pack", "restore", "round_weights", "use",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Look a public name up in the modules, which import torch."""
    if name in __all__:
        for module in ("native", "layers", "recurrence"):
            home = import_module(f"wholedoc.kernels.{module}")
            if name in vars(home):
                return getattr(home, name)
    raise AttributeError(f"module 'wholedoc.kernels' has no attribute {name!r}")


def keep_freed_memory() -> None:
    """Let this process use freed memory again instead of giving it back to the system.

    By default large tensors are given fresh pages, each cleared when it is first touched, which is
    a few per cent of training, more in large batches. Only glibc can be told so.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, top_pad, mmap_max = -1, -2, -4  # of its malloc.h
        for option, value in ((trim_threshold, 2**31 - 1), (top_pad, 64 * 2**20), (mmap_max, 0)):
            mallopt(option, value)
