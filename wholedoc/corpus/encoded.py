"""The corpus as token ids on disk, memory-mapped: it may be larger than the memory.

A directory holds, little-endian and without headers::

    src.ids  trg.ids            token ids of all sentences, each ended by EOS (uint16 or uint32)
    src.offsets  trg.offsets    where each sentence starts in them, and where the last ends (int64)
    documents.starts            the first sentence of each document, and the number of all (int64)
    meta.json                   fingerprint, types, and the size of every file; written last

The directory is complete if and only if ``meta.json`` is there and the sizes agree.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from wholedoc.corpus.documents import Document
from wholedoc.corpus.vocabulary import EOS, Vocabulary
from wholedoc.errors import UserError
from wholedoc.files import write_atomically

_VERSION = 3
_META = "meta.json"
_SIDES = ("src", "trg")
_FILES = ("src.ids", "src.offsets", "trg.ids", "trg.offsets", "documents.starts")
_INDEX = np.dtype("<i8")

Ids = npt.NDArray[np.unsignedinteger[Any]]
Lengths = npt.NDArray[np.int32]


class EncodedCorpus:
    """Encoded sentence pairs in documents, read from disk as they are asked for."""

    def __init__(self, directory: Path, meta: Mapping[str, Any]) -> None:
        self._ids = {side: _map(directory / f"{side}.ids", meta[f"{side}_type"]) for side in _SIDES}
        self._offsets = {side: _map(directory / f"{side}.offsets") for side in _SIDES}
        self._starts = _map(directory / "documents.starts")
        # Lengths of all sentences, EOS included.
        self.src_lengths: Lengths = np.diff(self._offsets["src"]).astype(np.int32)
        self.trg_lengths: Lengths = np.diff(self._offsets["trg"]).astype(np.int32)

    @classmethod
    def open(cls, directory: Path, fingerprint: str | None = None) -> Self | None:
        """Open what ``encode_corpus`` wrote, or return None where it has to be written (again).

        That is so where the directory is missing, incomplete, damaged, or, if a ``fingerprint``
        is given, made from something else.
        """
        try:
            meta = json.loads((directory / _META).read_text(encoding="utf-8"))
            sizes = {name: (directory / name).stat().st_size for name in _FILES}
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
        expected = {"version": _VERSION, "sizes": sizes}
        if fingerprint is not None:
            expected["fingerprint"] = fingerprint
        if not isinstance(meta, dict) or any(meta.get(k) != v for k, v in expected.items()):
            return None
        return cls(directory, meta)

    def __len__(self) -> int:
        return len(self.src_lengths)

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self._starts) - 1

    def document_sentences(self, document: int) -> range:
        """Return the indices of the sentences of a document."""
        if not 0 <= document < self.documents:
            raise IndexError(f"document {document} of {self.documents}")
        return range(int(self._starts[document]), int(self._starts[document + 1]))

    def src(self, t: int) -> Ids:
        """View source sentence ``t``: x_1 … x_I EOS."""
        return self._sentence("src", t)

    def trg(self, t: int) -> Ids:
        """View target sentence ``t``: y_1 … y_J EOS."""
        return self._sentence("trg", t)

    def _sentence(self, side: str, t: int) -> Ids:
        if not 0 <= t < len(self):
            raise IndexError(f"sentence {t} of {len(self)}")
        start, end = self._offsets[side][t : t + 2]
        return self._ids[side][start:end]


def encode_corpus(
    documents: Iterable[Document],
    src_vocabulary: Vocabulary,
    trg_vocabulary: Vocabulary,
    directory: Path,
    fingerprint: str = "",
) -> EncodedCorpus:
    """Encode ``documents`` one by one into ``directory`` and open the result.

    ``fingerprint`` says what the token ids were made from; ``EncodedCorpus.open`` compares it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # The meta data first, so that a crash from here on leaves a directory known to be incomplete.
    for name in (_META, *_FILES):
        (directory / name).unlink(missing_ok=True)  # never written to: it may be another run's too
    types = {"src": _id_type(src_vocabulary), "trg": _id_type(trg_vocabulary)}
    with ExitStack() as stack:
        files = {name: stack.enter_context((directory / name).open("wb")) for name in _FILES}
        for side in _SIDES:
            _write_index(files[f"{side}.offsets"], 0)
        sentences = 0
        _write_index(files["documents.starts"], sentences)
        for document in documents:
            for pair in document:
                ids = src_vocabulary.encode(pair.src), trg_vocabulary.encode(pair.trg)
                for side, sentence in zip(_SIDES, ids, strict=True):
                    file = files[f"{side}.ids"]
                    file.write(np.array([*sentence, EOS], dtype=types[side]).tobytes())
                    _write_index(files[f"{side}.offsets"], file.tell() // types[side].itemsize)
            sentences += len(document)
            _write_index(files["documents.starts"], sentences)
    if not sentences:
        raise UserError("the corpus holds no sentences", fix="check its files and filters")
    meta = {
        "version": _VERSION,
        "fingerprint": fingerprint,
        "src_type": types["src"].str,
        "trg_type": types["trg"].str,
        "sizes": {name: (directory / name).stat().st_size for name in _FILES},
    }
    write_atomically(directory / _META, json.dumps(meta, indent=1))
    return EncodedCorpus(directory, meta)


def _write_index(file: BinaryIO, value: int) -> None:
    file.write(value.to_bytes(_INDEX.itemsize, "little"))


def _id_type(vocabulary: Vocabulary) -> np.dtype[Any]:
    return np.dtype("<u2" if len(vocabulary) <= 2**16 else "<u4")


def _map(path: Path, dtype: str = _INDEX.str) -> np.memmap[Any, Any]:
    return np.memmap(path, dtype=dtype, mode="r")
