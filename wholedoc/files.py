"""Writing files so that a reader, or a killed process, never meets half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from wholedoc.errors import UserError


def write_atomically(path: Path, content: bytes | str, previous: Path | None = None) -> None:
    """Replace a file in one step: it holds the old content or the new, whatever happens.

    Missing folders are made. The old content stays as ``previous``, if that is given and the disk
    can link files.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f"{path.name}.part")
    try:
        with name_file(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)  # it may be a link to a file of somebody else
            with temporary.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if previous is not None:
                _link(path, previous)
            temporary.replace(path)
    except UserError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def append_to(path: Path) -> BinaryIO:
    """Open a file to append to it, without a buffer; one that is a link elsewhere is refused."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW, 0o666)

    with name_file(path):
        return open(path, "ab", buffering=0, opener=opener)


def _link(path: Path, other: Path) -> None:
    """Give a file, if it is there, a second name."""
    other.unlink(missing_ok=True)
    with suppress(OSError):  # there is none yet, or the disk has no links
        other.hardlink_to(path)


@contextmanager
def name_file(
    place: Path | str,
    fix: str = "make room or choose another place; what was finished before is untouched",
) -> Iterator[None]:
    """Turn a failure to write, such as a full disk, into an error that names the file."""
    try:
        yield
    except BrokenPipeError:  # as in `wholedoc … | head`
        raise
    except OSError as error:
        what = f"cannot write: {error.strerror}"
        raise UserError(what, where=str(place), fix=fix) from error
