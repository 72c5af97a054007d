"""Writing files so that a reader, or a killed process, never meets half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wholedoc.errors import UserError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace a file in one step: it holds the old content or the new, whatever happens.

    Missing folders are made.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f"{path.name}.part")
    try:
        with name_file(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
    except UserError:
        temporary.unlink(missing_ok=True)
        raise


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
