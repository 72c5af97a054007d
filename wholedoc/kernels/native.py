"""What is compiled of training: all steps of a recurrence, softmax, products of matrices.

In ``loops.c``, ``matrices.c`` and ``steps.c`` gates, attention and softmax take one walk instead of
many, products of matrices suit few rows, and no step waits for Python. On Linux they are compiled
by the machine's own C compiler when they are first needed, for its processor, and kept in the
user's cache. Elsewhere, where there is none, and for everything but 32-bit numbers on a CPU, the
same formulas are computed by calls of torch. ``WHOLEDOC_LOOPS=torch`` in the environment asks for
that. Threads are those of torch: the library is linked to no OpenMP of its own, but finds the one
that torch has loaded.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from wholedoc.errors import UserError
from wholedoc.progress import say

_SOURCES = [Path(__file__).parent / "csrc" / name for name in ("loops.c", "matrices.c", "steps.c")]
_HEADER = Path(__file__).parent / "csrc" / "loops.h"
_FLAGS = [
    *("-O3", "-march=native", "-std=gnu11", "-fPIC", "-fopenmp"),
    # What vector instructions need; -ffast-math would change how all of the process computes.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
]
_LINKING = ["-shared", "-Wl,-Bsymbolic"]  # functions call each other, not others of their name
_FUNCTIONS = {
    "gru_steps_forward": "npp",
    "gru_steps_backward": "npppp",
    "unroll_forward": "p",
    "unroll_backward": "pp",
    "softmax": "nnppppfppp",
    "draw_mask": "nnnfp",
    "time_steps": "p",
    "halves_are_faster": "",
    "packed_size": "nnn",
    "pack": "nnpnnnp",
    "multiply": "nnnpnnppnpn",
}
"""The arguments of each: whole numbers, pointers, fractions."""
_COUNTS = ("halves_are_faster", "packed_size")
"""Those that give a whole number, and not nothing."""
PARTS = ("products", "gates", "attention", "rest")
_TYPES = {"n": ctypes.c_long, "p": ctypes.c_void_p, "f": ctypes.c_float}


def loops_kind() -> str:
    """By what recurrences and softmax are computed on this machine's CPU."""
    return "torch" if compiled_loops() is None else "compiled"


@contextmanager
def timed_steps() -> Iterator[Callable[[], dict[str, float]]]:
    """Gives what the compiled steps take from now on, by parts: CPU seconds, of one thread."""
    loops = compiled_loops()
    seconds = (ctypes.c_double * len(PARTS))()
    if loops is not None:
        loops.time_steps(ctypes.addressof(seconds))
    try:
        yield lambda: dict(zip(PARTS, seconds, strict=True))
    finally:
        if loops is not None:
            loops.time_steps(None)


def loops_for(tensor: Tensor) -> ctypes.CDLL | None:
    """The compiled loops, if they can compute on such tensors and there are any."""
    if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
        return None
    torch.get_num_threads()  # lets OpenMP know of torch's choice in a thread that is new
    return compiled_loops()


@cache
def compiled_loops() -> ctypes.CDLL | None:
    """Compile the loops unless that is done, and load them; None where that is not possible."""
    compiler = _compiler()
    if asked_for("WHOLEDOC_LOOPS") == "torch" or compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_compiled(compiler)))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", b"") or str(error).encode()
        lines = said.decode(errors="replace").strip().splitlines() or [type(error).__name__]
        wrong = [line for line in lines if "error:" in line and not line.startswith("collect2")]
        reason = (wrong or lines)[0]
        say(f"nothing came of compiling with {compiler[0]}, torch computes instead: {reason}")
        return None
    for name, types in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes = [_TYPES[letter] for letter in types]
        function.restype = ctypes.c_long if name in _COUNTS else None
    return library


def asked_for(variable: str) -> str | None:
    """What a variable of the environment asks for, if it is set: ``torch`` or ``compiled``."""
    value = os.environ.get(variable)
    if value not in (None, "", "torch", "compiled"):
        raise UserError(f"it is {value!r}", where=variable, fix="make it 'torch' or 'compiled'")
    return value or None


def _compiler() -> list[str] | None:
    """The C compiler, as a command; None where there is none or where it was never tried."""
    program, *options = shlex.split(os.environ.get("CC", "")) or ["cc"]
    found = shutil.which(program)
    if found is None or platform.system() != "Linux":
        return None
    return [str(Path(found).absolute()), *options]


def _compiled(compiler: list[str]) -> Path:
    """The library for this source, these flags and this processor."""
    flags = list(_FLAGS)
    if platform.machine() == "x86_64":
        flags.append("-mprefer-vector-width=512")
    parts = [source.read_text(encoding="utf-8") for source in (_HEADER, *_SOURCES)]
    parts += [*compiler, *flags, *_LINKING, processor()]
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wholedoc"
    library = home / f"loops-{name}.so"
    if not library.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home) as place:
            sources = [str(source) for source in _SOURCES]
            objects = [source.with_suffix(".o").name for source in _SOURCES]
            for step in (
                [*compiler, *flags, "-c", *sources],
                [*compiler, *_LINKING, *objects, "-o", library.name, "-lm"],
            ):
                subprocess.run(step, check=True, capture_output=True, cwd=place)
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
