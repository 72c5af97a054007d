"""The compiled loops of ``loops.c``: gates, attention and softmax in one walk instead of many.

They are compiled by the machine's own C compiler when they are first needed, for its processor, and
kept in the user's cache. Where there is none, and for everything but 32-bit numbers on a CPU, the
same formulas are computed by calls of torch, beside every call of the loops.
``WHOLEDOC_LOOPS=torch`` in the environment asks for that.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

_SOURCE = Path(__file__).with_name("loops.c")
_FLAGS = [
    *("-O3", "-march=native", "-std=c11", "-shared", "-fPIC"),
    # What vector instructions need; -ffast-math would change how all of the process computes.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
]
_FUNCTIONS = {
    "gru_forward": "nnppppnpp",
    "gru_backward": "nnpppnpppn",
    "attention_forward": "nnnnpppppnpp",
    "attention_backward": "nnnnpppppnpppppnp",
    "softmax": "nnppppfppp",
}
"""The arguments of each: whole numbers, pointers, fractions."""
_TYPES = {"n": ctypes.c_long, "p": ctypes.c_void_p, "f": ctypes.c_float}


def loops_kind() -> str:
    """By what gates, attention and softmax are computed on this machine's CPU."""
    return "torch" if compiled_loops() is None else "compiled"


def loops_for(tensor: Tensor) -> ctypes.CDLL | None:
    """The compiled loops, if they can compute on such tensors and there are any."""
    usable = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    return compiled_loops() if usable else None


@cache
def compiled_loops() -> ctypes.CDLL | None:
    """Compile the loops unless that is done, and load them; None where that is not possible."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("WHOLEDOC_LOOPS") == "torch" or compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, subprocess.CalledProcessError):
        return None
    for name, types in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = [_TYPES[letter] for letter in types]
        function.restype = None
    return library


def _compiled(compiler: str) -> Path:
    """The library for this source, these flags and this processor."""
    flags = [*_FLAGS, "-mprefer-vector-width=512"] if platform.machine() == "x86_64" else _FLAGS
    parts = [_SOURCE.read_text(encoding="utf-8"), compiler, *flags, _processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wholedoc"
    library = home / f"loops-{name}.so"
    if not library.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as place:
            built = Path(place) / library.name
            command = [compiler, *flags, str(_SOURCE), "-o", str(built), "-lm"]
            subprocess.run(command, check=True, capture_output=True)
            built.replace(library)  # at once, as other processes may be at it
    return library


def _processor() -> str:
    """What tells apart processors that know different instructions."""
    lines = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines += sorted({line for line in info.read_text().splitlines() if "flags" in line[:9]})
    return "\n".join(lines)


def gru_forward(
    loops: ctypes.CDLL,
    bias: Tensor,
    before: Tensor,
    given: Tensor,
    sums: Tensor,
    new: Tensor,
    after: Tensor,
) -> None:
    """A step of :class:`GRUTape`, for each direction that it has."""
    rows, hidden = before.shape[-2:]
    for d in range(before.shape[0] if before.dim() == 3 else 1):
        loops.gru_forward(
            rows, hidden, _at(bias, d), _at(before, d), _at(given, d),
            _at(sums, d), sums.stride(-2), _at(new, d), _at(after, d),
        )  # fmt: skip


def gru_backward(
    loops: ctypes.CDLL,
    grad: Tensor,
    before: Tensor,
    sums: Tensor,
    new: Tensor,
    kept: Tensor,
    grads: Tensor,
) -> None:
    """A step of :class:`GRUReturn`, for each direction that it has."""
    rows, hidden = before.shape[-2:]
    for d in range(before.shape[0] if before.dim() == 3 else 1):
        loops.gru_backward(
            rows, hidden, _at(grad, d), _at(before, d), _at(sums, d), sums.stride(-2),
            _at(new, d), _at(kept, d), _at(grads, d), grads.stride(-2),
        )  # fmt: skip


def _at(tensor: Tensor, direction: int) -> int:
    """Where the numbers of a direction begin."""
    return tensor.data_ptr() + 4 * direction * tensor.stride(0)
