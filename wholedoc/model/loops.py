"""What is compiled of training: all steps of a recurrence, softmax, products of matrices.

In ``loops.c``, ``matrices.c`` and ``steps.c`` gates, attention and softmax take one walk instead of
many, products of matrices suit few rows, and no step waits for Python. They are compiled by the
machine's own C compiler when they are first needed, for its processor, and kept in the user's
cache. Where there is none, and for everything but 32-bit numbers on a CPU, the same formulas are
computed by calls of torch. ``WHOLEDOC_LOOPS=torch`` in the environment asks for that. Threads are
those of torch: the library is linked to no OpenMP of its own, but finds the one that torch has
loaded.
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

_SOURCES = [Path(__file__).with_name(name) for name in ("loops.c", "matrices.c", "steps.c")]
_HEADER = Path(__file__).with_name("loops.h")
_FLAGS = [
    *("-O3", "-march=native", "-std=gnu11", "-fPIC"),
    # What vector instructions need; -ffast-math would change how all of the process computes.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
]
_FUNCTIONS = {
    "gru_steps_forward": "npp",
    "gru_steps_backward": "npppp",
    "unroll_forward": "p",
    "unroll_backward": "pp",
    "softmax": "nnppppfppp",
    "packed_size": "nn",
    "pack": "nnpnnp",
    "multiply": "nnnpnnppnn",
}
"""The arguments of each: whole numbers, pointers, fractions."""
PARTS = ("products", "gates", "attention", "rest")
_TYPES = {"n": ctypes.c_long, "p": ctypes.c_void_p, "f": ctypes.c_float}


def loops_kind() -> str:
    """By what recurrences and softmax are computed on this machine's CPU."""
    return "torch" if compiled_loops() is None else "compiled"


def loops_for(tensor: Tensor) -> ctypes.CDLL | None:
    """The compiled loops, if they can compute on such tensors and there are any."""
    usable = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    return compiled_loops() if usable else None


def seconds_of_steps() -> dict[str, float]:
    """What the compiled steps of this process have taken so far, by parts."""
    loops = compiled_loops()
    if loops is None:
        return dict.fromkeys(PARTS, 0.0)
    return dict(zip(PARTS, (ctypes.c_double * 4).in_dll(loops, "seconds_of_steps"), strict=True))


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
        function.restype = ctypes.c_long if name == "packed_size" else None
    return library


def _compiled(compiler: str) -> Path:
    """The library for this source, these flags and this processor."""
    flags = list(_FLAGS)
    if platform.machine() == "x86_64":
        flags.append("-mprefer-vector-width=512")
    if platform.system() == "Linux":
        flags.append("-fopenmp")
    parts = [source.read_text(encoding="utf-8") for source in (_HEADER, *_SOURCES)]
    parts += [compiler, *flags, processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wholedoc"
    library = home / f"loops-{name}.so"
    if not library.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as place:
            sources = [str(source) for source in _SOURCES]
            compile_all = [compiler, *flags, "-c", *sources]
            subprocess.run(compile_all, check=True, capture_output=True, cwd=place)
            objects = [source.with_suffix(".o").name for source in _SOURCES]
            link = [compiler, "-shared", *objects, "-o", library.name, "-lm"]
            subprocess.run(link, check=True, capture_output=True, cwd=place)
            Path(place, library.name).replace(library)  # at once, as other processes may be at it
    return library


def processor() -> str:
    """What tells apart processors that are made differently or know different instructions."""
    lines = [platform.machine(), platform.processor()]
    info = Path("/proc/cpuinfo")
    if info.exists():
        known = info.read_text().splitlines()
        lines += sorted(
            {line for line in known if line.startswith(("vendor", "flags", "Features"))}
        )
    return "\n".join(lines)


def address(tensor: Tensor, number: int) -> int:
    """Where the first, second … of several matrices begins; 32-bit numbers."""
    return tensor.data_ptr() + 4 * number * tensor.stride(0)
