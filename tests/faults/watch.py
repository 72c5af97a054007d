"""What an input may not do: write or connect elsewhere, take long, take much memory."""

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECONDS = 20
"""Of the processor, that an input may take: a thousand times as long as most."""
MEGABYTES = 600
"""By which an input may raise the peak of memory."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate"}
)
_NEVER = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"})
_allowed: list[Path] = []
_hooked = False


class MisdeedError(AssertionError):
    """Something that reading an input must never do."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not _allowed:
        return
    if event in _NEVER:
        raise MisdeedError(f"{event} {arguments[:2]}")
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES
    if writes:
        _check(event, arguments[0])
    elif event in _CHANGES:
        _check(event, arguments[0], arguments[-1])
        if event == "os.rename":
            _check(event, arguments[1], arguments[-1])


def _check(event: str, path: Any, folder: Any = -1) -> None:
    """``folder`` is the number of the open one that a path is relative to, or -1."""
    if not isinstance(path, str | bytes | os.PathLike):
        return  # a file that is open already
    base = Path(f"/proc/self/fd/{folder}").readlink() if folder not in (None, -1) else Path.cwd()
    place = Path(os.path.normpath(base / os.fsdecode(path)))  # links are not followed
    if str(place) == os.devnull or any(folder in place.parents for folder in _allowed):
        return
    raise MisdeedError(f"{event} outside its place: {place}")


@contextmanager
def confined(*folders: Path) -> Iterator[None]:
    """Let nothing be written outside some folders, nothing be run, and nothing be connected to."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    _allowed.extend(folders)
    try:
        yield
    finally:
        _allowed.clear()


def _late(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


@contextmanager
def bounded(seconds: float = SECONDS, megabytes: int = MEGABYTES) -> Iterator[None]:
    """Let something take only so long, and only so much more memory than was ever taken."""
    before = signal.signal(signal.SIGPROF, _late)
    peak = peak_megabytes()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if peak_megabytes() - peak > megabytes:
        raise MemoryError(f"{peak_megabytes() - peak:.0f} MB more")


def peak_megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def used_megabytes() -> float:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
