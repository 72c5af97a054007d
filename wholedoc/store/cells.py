"""The cells of a translation memory as one model reads it, on disk and memory-mapped.

A directory ``cells/MODEL`` in the memory holds, little-endian and without headers::

    keys      the keys of all cells, one after the other (int8, as wide as the model's projection)
    words     the token id of each cell (uint32)
    offsets   where the cells of entry 0, 1, … begin, and where the last end (int64)
    digests   of the texts of each entry (uint64): cells of another text are not taken
    meta.json width and sizes; written last

Entries that were added since are not in it; those that were removed are never asked for.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from wholedoc.files import name_file, write_atomically

_FORMAT = 2
_FILES = ("keys", "words", "offsets", "digests")


@dataclass(frozen=True, slots=True)
class PairCells:
    """The cells of one known pair."""

    keys: npt.NDArray[np.int8]
    """(cell, width): A r'_k in steps of the projection's scale."""
    words: npt.NDArray[np.uint32]
    """y'_k, ``</s>`` last."""


class CellStore:
    """Cells of a memory's entries, read as they are asked for."""

    def __init__(self, directory: Path, width: int) -> None:
        self._offsets = np.memmap(directory / "offsets", dtype="<i8", mode="r")
        self._digests = np.memmap(directory / "digests", dtype="<u8", mode="r")
        self._words = np.memmap(directory / "words", dtype="<u4", mode="r")
        self._keys = np.memmap(directory / "keys", dtype=np.int8, mode="r").reshape(-1, width)

    @classmethod
    def open(cls, directory: Path, width: int) -> Self | None:
        """Open what :func:`write_cells` wrote; None where it is missing, damaged or of old."""
        try:
            meta = json.loads((directory / "meta.json").read_text(encoding="utf-8"))
            if meta != _meta(directory, width):
                return None
            return cls(directory, width)
        except (OSError, ValueError):
            return None

    @property
    def last_id(self) -> int:
        """The largest id of an entry that it can hold."""
        return len(self._offsets) - 2

    def get(self, entry: int, src: str, trg: str) -> PairCells | None:
        """The cells of an entry with these texts, if they are here."""
        if entry > self.last_id or self._digests[entry] != digest_pair(src, trg):
            return None
        begin, end = self._offsets[entry], self._offsets[entry + 1]
        return PairCells(self._keys[begin:end], self._words[begin:end]) if end > begin else None


class EntryCells(NamedTuple):
    """An entry of a memory and its cells."""

    entry: int
    src: str
    trg: str
    cells: PairCells


def write_cells(directory: Path, width: int, entries: Iterable[EntryCells], last_id: int) -> None:
    """Write the cells of entries, given by rising id; the directory appears when it is complete."""
    unfinished = directory.with_name(f"{directory.name}.{os.getpid()}.part")
    offsets = np.zeros(last_id + 2, dtype="<i8")
    digests = np.zeros(last_id + 1, dtype="<u8")
    with name_file(directory):
        unfinished.mkdir(parents=True)
        try:
            files = ((unfinished / name).open("wb") for name in ("keys", "words"))
            with next(files) as keys, next(files) as words:
                for entry, src, trg, cells in entries:
                    keys.write(cells.keys.tobytes())
                    words.write(cells.words.astype("<u4").tobytes())
                    offsets[entry + 1] = len(cells.words)
                    digests[entry] = digest_pair(src, trg)
            (unfinished / "offsets").write_bytes(offsets.cumsum().astype("<i8").tobytes())
            (unfinished / "digests").write_bytes(digests.tobytes())
            write_atomically(unfinished / "meta.json", json.dumps(_meta(unfinished, width)))
            shutil.rmtree(directory, ignore_errors=True)
            unfinished.rename(directory)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def digest_pair(src: str, trg: str) -> int:
    """64 bits that stand for a pair of texts."""
    text = f"{src}\0{trg}".encode("utf-8", "replace")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _meta(directory: Path, width: int) -> dict[str, Any]:
    sizes = {name: (directory / name).stat().st_size for name in _FILES}
    return {"format": _FORMAT, "width": width, "sizes": sizes}
