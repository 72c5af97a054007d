"""One vector per sentence of a corpus, kept on disk and memory-mapped."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wholedoc.files import name_file

Rows = npt.NDArray[np.float32]


def digest_files(*paths: Path) -> str:
    """A digest of what some files hold."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def rows_file(directory: Path, name: str, digest: str) -> Path:
    """Where the rows made by what ``digest`` stands for are kept."""
    return directory / f"{name}-{digest}.f32"


def cached_rows(
    directory: Path, name: str, digest: str, width: int, parts: Iterable[Tensor]
) -> Rows:
    """The rows made by what ``digest`` stands for: read from disk, else computed from ``parts``.

    The digest is in the file's name, so rows of other weights are never taken for these; they are
    removed when new ones are written.
    """
    path = rows_file(directory, name, digest)
    if not path.exists():
        unfinished = path.with_suffix(".part")
        with name_file(path), unfinished.open("wb") as stream:
            for part in parts:
                stream.write(part.float().cpu().numpy().tobytes())
        for stale in directory.glob(f"{name}-*.f32"):
            stale.unlink()
        unfinished.replace(path)
    return np.memmap(path, dtype=np.float32, mode="r").reshape(-1, width)
