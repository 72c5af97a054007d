"""Compiles ``csrc/`` into ``lib/`` when the package is installed; nothing else runs a compiler.

The build hook ``hatch_build.py`` loads this file alone, so it imports the standard library only.
There is one library for each instruction set that a processor of this kind may have.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent / "csrc"
LIBRARIES = Path(__file__).parent / "lib"


class InstructionSet(NamedTuple):
    """What a library is compiled for."""

    name: str
    flags: tuple[str, ...]
    features: frozenset[str]
    """What the processor has to announce, in the words of ``/proc/cpuinfo``: flags and maker."""

    @property
    def file(self) -> str:
        """The name of its library."""
        return f"kernels-{self.name}.so"


_V3 = frozenset(["abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"])
_V4 = _V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
_WIDE = ("-march=x86-64-v4", "-mprefer-vector-width=512")
INSTRUCTION_SETS = {
    "x86_64": (  # the best first
        InstructionSet(
            "x86-64-v4+amx",
            (*_WIDE, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
            _V4 | {"avx512_bf16", "amx_tile", "amx_bf16"},
        ),
        InstructionSet(  # vectors of bfloat16: twice as fast as numbers on AMD, slower on Intel
            "x86-64-v4+bf16",
            (*_WIDE, "-mavx512bf16"),
            _V4 | {"avx512_bf16", "AuthenticAMD"},
        ),
        InstructionSet("x86-64-v4", _WIDE, _V4),
        InstructionSet("x86-64-v3", ("-march=x86-64-v3",), _V3),
    ),
    "aarch64": (InstructionSet("arm64", ("-march=armv8-a",), frozenset()),),
}
_FLAGS = (
    *("-O3", "-std=gnu11", "-fPIC", "-fopenmp"),
    # Vector instructions need these; -ffast-math would change rounding in the whole process.
    *("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math"),
)
_LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic")  # with no OpenMP: it finds the one torch has loaded


def instruction_sets() -> tuple[InstructionSet, ...]:
    """Those of this kind of machine, the best first; none where the kernels were never tried."""
    return INSTRUCTION_SETS.get(platform.machine(), ()) if platform.system() == "Linux" else ()


def source_hash() -> str:
    """What a library says that it was built from: the sources and how they are compiled."""
    parts = [source.read_bytes() for source in sorted(SOURCES.iterdir())]
    parts.append(repr((_FLAGS, _LINK_FLAGS, [s.flags for s in instruction_sets()])).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def compile_kernels(directory: Path, report: Callable[[str], None]) -> list[Path]:
    """Compile a library for each instruction set into a directory, in place of older ones.

    The compiler is ``cc``, or what ``CC`` names. Where something fails, ``report`` is told, and the
    package works all the same, by PyTorch.
    """
    for old in directory.glob("kernels-*.so"):
        old.unlink()
    program, *options = shlex.split(os.environ.get("CC", "")) or ["cc"]
    sets = instruction_sets()
    if sets and shutil.which(program) is None:
        report(f"no C compiler ({program}): CPU kernels are not built; wholedoc will use PyTorch")
        return []
    directory.mkdir(parents=True, exist_ok=True)
    built = []
    for target in sets:
        try:
            _compile(target, [program, *options], directory / target.file)
            built.append(directory / target.file)
        except (OSError, subprocess.CalledProcessError) as error:
            lines = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
            wrong = [line for line in lines if "error:" in line and "collect2" not in line]
            why = [*wrong, *lines, "no message"][0]
            report(f"could not build the {target.name} CPU kernels with {program}: {why}")
    if sets and not built:
        report("no CPU kernels were built; wholedoc will use PyTorch")
    return built


def _compile(target: InstructionSet, compiler: list[str], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as place:
        object_file, linked = f"{place}/kernels.o", Path(place, library.name)
        source, name = str(SOURCES / "kernels.c"), f'-DSOURCE_HASH="{source_hash()}"'
        for step in (
            [*compiler, *_FLAGS, *target.flags, name, "-c", source, "-o", object_file],
            [*compiler, *_LINK_FLAGS, object_file, "-o", str(linked), "-lm"],
        ):
            subprocess.run(step, check=True, capture_output=True, text=True, errors="replace")
        linked.replace(library)  # at once, so that nobody loads half a file
