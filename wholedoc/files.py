"""Writing files so that a reader, or a killed process, never meets half of one."""

import os
from pathlib import Path

from wholedoc.errors import UserError


def write_atomically(path: Path, content: bytes | str) -> None:
    """Replace a file in one step: it holds the old content or the new, whatever happens."""
    data = content.encode("utf-8") if isinstance(content, str) else content
    temporary = path.with_name(f"{path.name}.part")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"cannot write: {error.strerror}",
            where=str(path),
            fix="make room or choose another place; what was there before is untouched",
        ) from error
