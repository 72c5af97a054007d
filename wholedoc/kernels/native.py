"""Which backend computes: the compiled kernels of ``csrc/`` or PyTorch.

Of the libraries that ``build.py`` left in ``lib/``, the best one that the processor announces to
have the instructions for is loaded when it is first needed, and proven in a child process: virtual
machines announce instructions that they do not have. The compiled kernels are for float32 tensors
on the CPU; everything else is PyTorch's. ``WHOLEDOC_KERNELS=torch`` or ``compiled`` in the
environment asks for one of the two, and :func:`use` does so in tests. How many threads compute is
decided here as well.
"""

import ctypes
import faulthandler
import math
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, final

import torch
from torch import Tensor

from wholedoc.errors import UserError
from wholedoc.kernels.build import LIBRARIES, InstructionSet, instruction_sets, source_hash
from wholedoc.progress import say

Backend = Literal["torch", "compiled"]
Batch = TypeVar("Batch")
Result = TypeVar("Result")
_VARIABLE = "WHOLEDOC_KERNELS"
_TYPES = {"n": ctypes.c_long, "p": ctypes.c_void_p, "f": ctypes.c_float}
_FUNCTIONS = {
    "gru_forward": "pp",
    "gru_backward": "ppp",
    "decoder_forward": "p",
    "decoder_backward": "p",
    "softmax": "nnppppfppp",
    "dropout_mask": "nnnfp",
    "pack": "nnpnnnp",
    "multiply": "nnnpnnppnpnp",
    "packed_size": "nnn",
}
"""The arguments of each: integers, pointers, floats."""
_SELF_TEST_SECONDS = 20.0
_ASK_FOR_TILES = (158, 0x1023, 18)
"""arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA) of x86-64: Linux keeps AMX from who does not ask."""
_forced: list[Backend] = []
_mixed: ContextVar[bool] = ContextVar("mixed", default=False)
_pool_size: ContextVar[int | None] = ContextVar("pool_size", default=None)
"""Threads of :func:`in_threads` within :func:`one_thread`."""
_threads_before: list[int] = []
"""What torch had before :func:`_undivided`, for each thread that is within."""
_counting = threading.Lock()


def _fields(integers: str, pointers: str) -> list[tuple[str, type]]:
    return [(name, ctypes.c_long) for name in integers.split()] + [
        (name, ctypes.c_void_p) for name in pointers.split()
    ]


class _Structure(ctypes.Structure):
    """A structure of ``kernels.c``, which keeps the tensors whose addresses it is given."""

    def __init__(self, **fields: Any) -> None:
        self._kept = fields
        for name, value in fields.items():
            setattr(self, name, value.data_ptr() if isinstance(value, Tensor) else value)


class Recurrence(_Structure):
    """A GRU over packed words; ``grads`` in the backward pass only."""

    _fields_ = [
        *_fields("steps words hidden extra", "counts first bias state"),
        *_fields("", "projected both new_states states grads"),
    ]


class AttendedCells(_Structure):
    """What the decoder attends to."""

    _fields_ = _fields("cells align width", "lengths keys values score")


class DecoderSteps(_Structure):
    """All steps of the decoder; the last line in the backward pass only."""

    _fields_ = [
        *[("source", AttendedCells), ("lower", Recurrence), ("upper", Recurrence)],
        *_fields("", "context between between_bias context_mask lower_mask"),
        *_fields("", "alphas contexts dropped_contexts dropped_lower workspace"),
        *_fields("", "grad_states d_contexts d_keys d_scores step"),
    ]


@final
class Library:
    """A loaded library; raises OSError if it is not what this code was written for."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.c = ctypes.CDLL(str(path))
        self.c.source_hash.restype = ctypes.c_char_p
        if self.c.source_hash() != source_hash().encode():
            raise OSError(f"{path.name} was built from other sources")
        structures = (Recurrence, AttendedCells, DecoderSteps)
        sizes = (ctypes.c_long * len(structures)).in_dll(self.c, "structure_sizes")
        if [*sizes] != [*map(ctypes.sizeof, structures)]:
            raise OSError(f"{path.name} has structures of other sizes")
        for function, types in _FUNCTIONS.items():
            getattr(self.c, function).argtypes = [_TYPES[letter] for letter in types]
        self.c.packed_size.restype = ctypes.c_long
        self.has_bf16 = bool(ctypes.c_long.in_dll(self.c, "has_bf16"))
        self.workspace_size = ctypes.c_long.in_dll(self.c, "workspace_size").value

    def workspace(self) -> Tensor:
        """Memory that matrix products need beside their matrices."""
        return torch.empty(self.workspace_size)


def library_for(tensor: Tensor) -> Library | None:
    """The dispatch: the compiled kernels if they are to compute on such tensors, else None."""
    if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
        return None
    torch.get_num_threads()  # lets OpenMP know of torch's choice in a new thread
    return _library()


def _library() -> Library | None:
    """What the environment or :func:`use` asks for, or the best there is."""
    backend = _forced[-1] if _forced else os.environ.get(_VARIABLE) or None
    if backend not in (None, "torch", "compiled"):
        raise UserError(f"it is {backend!r}", where=_VARIABLE, fix="make it 'torch' or 'compiled'")
    if backend == "compiled" and _loaded() is None:
        fix = "reinstall wholedoc with a C compiler, or unset it"
        raise UserError("there are no compiled kernels", where=_VARIABLE, fix=fix)
    return None if backend == "torch" else _loaded()


@contextmanager
def use(backend: Backend) -> Iterator[None]:
    """Within, compute by ``torch`` or by the ``compiled`` kernels; for tests and comparisons."""
    _forced.append(backend)
    try:
        yield
    finally:
        _forced.pop()


def describe(*, mixed: bool = False) -> str:
    """The backend on this machine's CPU: ``torch``, or e.g. ``compiled x86-64-v4+bf16, mixed``."""
    library = _library()
    if library is None:
        return "torch"
    return f"compiled {library.name}" + (", mixed" if mixed and library.has_bf16 else "")


@contextmanager
def mixed_precision(wanted: bool = True, device: str = "cpu") -> Iterator[None]:
    """Within, compiled matrix products round their factors to bfloat16 and sum in 32 bits.

    Only if that is ``wanted`` and the processor has instructions for it. On other devices torch
    does the same (autocast).
    """
    if device != "cpu":
        with torch.autocast(device, torch.bfloat16, enabled=wanted):
            yield
        return
    library = _library()
    token = _mixed.set(wanted and library is not None and library.has_bf16)
    try:
        yield
    finally:
        _mixed.reset(token)


def multiplies_bf16() -> bool:
    """Whether we are within :func:`mixed_precision`, and it can be had."""
    return _mixed.get()


def check_precision(*precisions: str, device: str = "cpu") -> None:
    """Say so if any of the configured precisions is ``mixed`` and that cannot be had."""
    if device == "cpu" and "mixed" in precisions and not describe(mixed=True).endswith("mixed"):
        say(
            'precision = "mixed" needs the compiled kernels and a processor with bfloat16 '
            f"instructions (AVX512-BF16); training in single precision ({describe()})"
        )


@cache
def _loaded() -> Library | None:
    return load_library(LIBRARIES, instruction_sets(), _announced())


def load_library(
    directory: Path, sets: Sequence[InstructionSet], announced: frozenset[str]
) -> Library | None:
    """The best library of a directory that works here; says why where it is not the first."""
    here = [target for target in sets if target.features <= announced]
    built = [target for target in here if (directory / target.file).exists()]
    if here and not built:
        say("CPU kernels are not built: using PyTorch (for speed, reinstall with a C compiler)")
    for target in built:
        try:
            library = Library(target.name, directory / target.file)
        except OSError as error:
            say(f"cannot load the CPU kernels ({error}): run `make setup` or reinstall wholedoc")
            continue
        if failure := _failure(library):
            say(f"the {target.name} CPU kernels do not work on this machine ({failure})")
            continue
        return library
    if built:
        say("no CPU kernels work here: using PyTorch")
    return None


def _announced() -> frozenset[str]:
    """The instructions that the processor says it has, and who says that he made it."""
    info = Path("/proc/cpuinfo")
    first = info.read_text().partition("\n\n")[0].splitlines() if info.exists() else []
    lines = [line for line in first if line.startswith(("flags", "Features", "vendor_id"))]
    words = {word for line in lines for word in line.partition(":")[2].split()}
    if "amx_tile" in words and ctypes.CDLL(None).syscall(*_ASK_FOR_TILES) != 0:
        words.discard("amx_tile")
    return frozenset(words)


def _failure(library: Library) -> str | None:
    """What happens when a child process runs the kernels; None if they are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child starts no threads
        child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()  # an illegal instruction is an answer, not a crash
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, _SELF_TEST_SECONDS)
            os._exit(0 if _right(library) else 1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGALRM:
        return "no answer"
    return None if code == 0 else "wrong results" if code > 0 else f"signal {-code}"


def _right(library: Library) -> bool:
    """A few small calls of the kernels against Python, without torch and on one thread."""

    def floats(values: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
        return (ctypes.c_float * len(values))(*values)

    c, rows, inner, columns = library.c, 13, 37, 35
    a = [float(i % 7 - 3) for i in range(rows * inner)]
    b = [float(i % 5 - 2) for i in range(inner * columns)]
    expected = [
        sum(a[r * inner + k] * b[k * columns + x] for k in range(inner))
        for r in range(rows)
        for x in range(columns)
    ]
    left, right, out = floats(a), floats(b), floats([0.0] * len(expected))
    workspace = (ctypes.c_float * library.workspace_size)()
    for bf16 in range(1 + library.has_bf16):  # small integers: exact in both
        packed = (ctypes.c_float * c.packed_size(inner, columns, bf16))()
        c.pack(inner, columns, right, columns, 1, bf16, packed)
        c.multiply(rows, inner, columns, left, inner, 1, packed, None, 0, out, columns, workspace)
        if list(out) != expected:
            return False
    logits, zeros, index = floats(b[:32]), floats([0.0] * 32), (ctypes.c_int64 * 1)(0)
    chosen, logs = floats([0.0]), floats([0.0])
    c.softmax(1, 32, logits, zeros, index, index, 0.0, None, chosen, logs)
    log_p = b[0] - math.log(sum(map(math.exp, b[:32])))
    mask = floats([0.0] * 64)
    c.dropout_mask(64, 1, 2**31, 2.0, mask)
    return math.isclose(logs[0], log_p, rel_tol=1e-5) and sum(mask) == 50


# Threads.


@contextmanager
def _undivided() -> Iterator[int]:
    """Compute every operation of this thread with one thread; yields how many torch has otherwise.

    torch's number holds for the calling thread and for every thread that is yet to compute. So
    while one is within, another that begins must not take 1 for what the user has chosen.
    """
    with _counting:
        before = _threads_before[-1] if _threads_before else torch.get_num_threads()
        _threads_before.append(before)
    _set_one_thread()
    try:
        yield before
    finally:
        torch.set_num_threads(before)
        with _counting:
            _threads_before.pop()


def _set_one_thread() -> None:
    """Let this thread compute alone, whatever others set afterwards."""
    torch.get_num_threads()  # a thread takes torch's number at its first use, and over its own
    torch.set_num_threads(1)


@contextmanager
def one_thread(pool: int = 0) -> Iterator[None]:
    """Compute every operation with one thread, unless ``OMP_NUM_THREADS`` asks for a number.

    Threads that divide small matrix products wait for each other at each of them. Where another
    process has one of the cores, each time is a turn of the scheduler: training then takes five to
    thirty times as long (docs/speed.md). :func:`in_threads` still has all of torch's threads, or
    a ``pool`` of so many, whatever the environment asks for.
    """
    asked = os.environ.get("OMP_NUM_THREADS") or _pool_size.get() is not None
    if asked and not pool:
        yield
        return
    with _undivided() as before:
        token = _pool_size.set(pool or before)
        try:
            yield
        finally:
            _pool_size.reset(token)


def in_threads(run: Callable[[Batch], Result], batches: Sequence[Batch]) -> Iterator[Result]:
    """The results of batches in order, as many batches at a time as torch has threads.

    The matrix products of a search step are too small to be divided: threads that wait for each
    other at each of them gain little, and lose a lot where a core is busy with something else.
    """
    within = _pool_size.get()
    threads = min(within or torch.get_num_threads(), len(batches))
    if threads < 2:
        yield from map(run, batches)
        return
    pool = ThreadPoolExecutor(threads, initializer=_set_one_thread)
    with nullcontext() if within else _undivided():
        try:
            yield from pool.map(torch.inference_mode()(run), batches)
        finally:
            pool.shutdown(cancel_futures=True)
