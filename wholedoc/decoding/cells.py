"""The cells of known pairs: what recall reads while documents are translated or scored."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.vocabulary import BOS, EOS, SPECIALS, UNK, Vocabulary
from wholedoc.decoding.known import Known, KnownPair
from wholedoc.model.recall import Cells, Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.store.cells import CellStore, EntryCells, PairCells, write_cells
from wholedoc.tm.matching import EXACT
from wholedoc.tm.memory import Entry, TranslationMemory

_READ_AT_ONCE = 4000  # tokens of known pairs that are read together
_PREPARED_AT_ONCE = 2000  # entries of a memory
_LONGEST = 400  # tokens of a known pair that are read; the rest of a longer one is not recalled
_KEPT = 5000  # pairs that were read and are kept for the next time
_MOST_CELLS = 2000  # of a sentence; with more, its worst pairs are left out


PairKey = tuple[str, str]


class EncodedPair(NamedTuple):
    """The token ids of a pair; the source ends with ``</s>``, the translation does not."""

    src: list[int]
    trg: list[int]


class Recaller:
    """A model, its way to recall, and the cells of the pairs it has read; for any thread."""

    def __init__(
        self,
        model: TranslationModel,
        recall: Recall,
        vocabularies: tuple[Vocabulary, Vocabulary],
    ) -> None:
        self.model = model
        self.recall = recall
        self.vocabularies = vocabularies
        self.name = _digest(recall)
        """Memories keep prepared cells under it: it stands for the weights and the projection."""
        self._pieces = Pieces.of(vocabularies[1])
        self._read: OrderedDict[PairKey, PairCells] = OrderedDict()
        self._stores: dict[Path, CellStore | None] = {}
        self._guard = threading.Lock()
        """Held while ``_read`` or ``_stores`` is looked at or changed, not while pairs are read."""

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled: not what was read, and no memory."""
        return Recaller, (self.model, self.recall, self.vocabularies)

    @property
    def width(self) -> int:
        """Numbers of a key."""
        return len(self.recall.projection)

    def gather(self, known: Known) -> dict[PairKey, PairCells]:
        """The cells of all pairs: prepared, read before, or read now."""
        found: dict[PairKey, PairCells] = {}
        missing: dict[PairKey, KnownPair] = {}
        with self._guard:
            for pair in chain.from_iterable(known):
                if pair.key in found or pair.key in missing:
                    continue
                cells = self._read.get(pair.key) or self._prepared(pair)
                if cells is None:
                    missing[pair.key] = pair
                else:
                    found[pair.key] = cells
        if missing:
            read = dict(zip(missing, self.read(list(missing)), strict=True))
            found |= read
            with self._guard:
                self._read |= read
                while len(self._read) > _KEPT:
                    self._read.popitem(last=False)
        return found

    def _prepared(self, pair: KnownPair) -> PairCells | None:
        if pair.memory is None:
            return None
        if pair.memory not in self._stores:
            self._stores[pair.memory] = CellStore.open(self._directory(pair.memory), self.width)
        store = self._stores[pair.memory]
        return None if store is None else store.get(pair.entry, pair.src, pair.trg)

    def _directory(self, memory: Path) -> Path:
        return memory / "cells" / self.name

    def is_prepared(self, memory: TranslationMemory) -> bool:
        """Whether the cells of all entries of a memory are stored in it."""
        store = CellStore.open(self._directory(memory.path), self.width)
        return store is not None and store.last_id >= memory.last_id

    @torch.inference_mode()
    def prepare(self, memory: TranslationMemory) -> None:
        """Read a whole memory and store its cells there."""
        last_id = memory.last_id
        write_cells(
            self._directory(memory.path), self.width, self._read_entries(memory, last_id), last_id
        )
        with self._guard:
            self._stores.pop(memory.path, None)

    def _read_entries(self, memory: TranslationMemory, last_id: int) -> Iterator[EntryCells]:
        entries: list[Entry] = []
        for entry in memory.entries():
            if entry.id > last_id:  # added meanwhile
                break
            entries.append(entry)
            if len(entries) == _PREPARED_AT_ONCE:
                yield from self._numbered(entries)
                entries = []
        yield from self._numbered(entries)

    def _numbered(self, entries: list[Entry]) -> Iterator[EntryCells]:
        cells = self.read([(entry.src, entry.trg) for entry in entries])
        for entry, found in zip(entries, cells, strict=True):
            yield EntryCells(entry.id, entry.src, entry.trg, found)

    @torch.inference_mode()
    def read(self, pairs: Sequence[PairKey]) -> list[PairCells]:
        """Read pairs of texts by teacher forcing: the cells of each."""
        encoded = self._encode(pairs)
        keys = read_features(self.model, encoded, self.recall.project)
        return [
            PairCells(_to_int8(found), np.array([*pair.trg, EOS], dtype=np.uint32))
            for found, pair in zip(keys, encoded, strict=True)
        ]

    def features(self, pairs: Sequence[PairKey]) -> Float[Tensor, "word hidden"]:
        """r'_k of all words of some pairs."""
        return torch.cat(read_features(self.model, self._encode(pairs), lambda features: features))

    def _encode(self, pairs: Sequence[PairKey]) -> "list[EncodedPair]":
        src_vocabulary, trg_vocabulary = self.vocabularies
        return [
            EncodedPair(
                [*src_vocabulary.encode(src)[:_LONGEST], EOS], trg_vocabulary.encode(trg)[:_LONGEST]
            )
            for src, trg in ((clean_text(src), clean_text(trg)) for src, trg in pairs)
        ]

    def row(self, pairs: Sequence[KnownPair], found: Mapping[PairKey, PairCells]) -> "CellRow":
        """The cells of one sentence."""
        return CellRow.of(pairs, found, self.width, self._pieces)

    def cells(self, known: Known, found: Mapping[PairKey, PairCells]) -> Cells | None:
        """The cells of a batch of sentences; None where no sentence has any."""
        if not any(known):
            return None
        rows = [self.row(pairs, found) for pairs in known]
        like = self.recall.projection
        mask = _stack([np.ones(len(row.words), dtype=np.bool_) for row in rows])
        keys = _stack([row.keys for row in rows]).to(like)
        return Cells(
            keys,
            Cells.square(keys, mask.to(like.device)),
            _stack([row.words for row in rows]).to(like.device),
            _stack([row.match for row in rows]).to(like),
            _stack([row.approved for row in rows]).to(like),
            mask.to(like.device),
            _stack([row.inside for row in rows]).to(like.device),
            _stack([row.types for row in rows]).to(like.device),
            torch.tensor([row.covered for row in rows]).to(like),
        )


CellLookup = Callable[[Sequence[int]], Cells | None]
"""The cells of some of the sentences, given by their indices."""


def look_up(recaller: Recaller | None, known: Known) -> CellLookup:
    """Get ready to recall the known pairs of sentences: read what has not been read yet."""
    if recaller is None or not any(known):
        return lambda _: None
    found = recaller.gather(known)
    return lambda chosen: recaller.cells([known[i] for i in chosen], found)


class Pieces(NamedTuple):
    """What the tokens of a vocabulary are to the words that they spell, by their ids."""

    go_on: npt.NDArray[np.bool_]
    """Whether a token goes on with the word before it."""
    spell: npt.NDArray[np.bool_]
    """Whether it has a letter or a digit."""

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "Pieces":
        """Look at all tokens."""
        tokens = vocabulary.to_tokens(range(len(vocabulary)))
        go_on = [len(vocabulary.word_spans([tokens[-1], token])) == 1 for token in tokens]
        spell = [any(map(str.isalnum, token)) for token in tokens]
        go_on[: len(SPECIALS)] = [False] * len(SPECIALS)
        return cls(np.array(go_on), np.array(spell))

    def inside(
        self, tokens: npt.NDArray[np.int64], firsts: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_]:
        """Which tokens go on with a word; marks behind its last letter or digit do not.

        ``firsts`` are the first tokens of texts.
        """
        begins = firsts | ~self.go_on[tokens]
        starts = begins.nonzero()[0]
        if not len(starts):
            return np.zeros(0, dtype=np.bool_)
        places = np.arange(len(tokens))
        last = np.maximum.reduceat(np.where(self.spell[tokens], places, -1), starts)
        inside: npt.NDArray[np.bool_] = ~begins & (places <= last[begins.cumsum() - 1])
        return inside


class CellRow(NamedTuple):
    """The cells of one sentence's known pairs, one after the other."""

    keys: npt.NDArray[np.int8]
    words: npt.NDArray[np.int64]
    """Places among ``types``."""
    match: npt.NDArray[np.float32]
    approved: npt.NDArray[np.float32]
    inside: npt.NDArray[np.bool_]
    """Whether it goes on with the word of the cell before it."""
    types: npt.NDArray[np.int64]
    pairs: npt.NDArray[np.int64]
    """Which of the pairs each cell belongs to."""
    places: npt.NDArray[np.int64]
    """Which word of the pair's translation it is."""
    covered: float
    """How much of the sentence the pairs have together."""

    @classmethod
    def of(
        cls,
        pairs: Sequence[KnownPair],
        found: Mapping[PairKey, PairCells],
        width: int,
        pieces: Pieces,
    ) -> "CellRow":
        """Put the cells of pairs together; unknown words cannot be recalled."""
        cells = [found[pair.key] for pair in pairs]
        lengths = [len(part.words) for part in cells]
        keys = np.concatenate([np.zeros((0, width), np.int8), *(part.keys for part in cells)])
        parts = [part.words.astype(np.int64) for part in cells]
        tokens = np.concatenate([np.zeros(0, np.int64), *parts])
        places = np.concatenate([np.zeros(0, np.int64), *(np.arange(n) for n in lengths)])
        of_pair = np.repeat(np.arange(len(pairs)), lengths)
        match = np.array([min(pair.score, EXACT) / EXACT for pair in pairs], dtype=np.float32)
        approved = np.array([pair.approved for pair in pairs], dtype=np.float32)
        kept = ((tokens != UNK) & _allowed(pairs, lengths)[of_pair]).nonzero()[0]
        inside = pieces.inside(tokens, places == 0)[kept] & (np.diff(kept, prepend=-1) == 1)
        types, words = np.unique(tokens[kept], return_inverse=True)
        of_pair = of_pair[kept]
        return cls(
            keys[kept],
            words,
            match[of_pair],
            approved[of_pair],
            inside,
            types,
            of_pair,
            places[kept],
            max((pair.together for pair in pairs), default=0.0),
        )


def _digest(recall: Recall) -> str:
    digest = hashlib.sha256(recall.weights.cpu().numpy().tobytes())
    for part in (recall.projection, recall.center):
        digest.update(part.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def _allowed(pairs: Sequence[KnownPair], lengths: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which pairs' cells are read: approved ones, then those that cover most, as far as they go."""
    allowed = np.zeros(len(pairs), dtype=np.bool_)
    total = 0
    for n in sorted(range(len(pairs)), key=lambda n: (not pairs[n].approved, -pairs[n].coverage)):
        total += lengths[n]
        allowed[n] = total <= _MOST_CELLS
    return allowed


def _stack(rows: Sequence[npt.NDArray[Any]]) -> Tensor:
    """Rows of unlike lengths as one tensor, padded with zeros."""
    length = max(1, *map(len, rows))
    stacked = np.zeros((len(rows), length, *rows[0].shape[1:]), dtype=rows[0].dtype)
    for place, row in zip(stacked, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(stacked)


def _to_int8(keys: Float[Tensor, "cell width"]) -> npt.NDArray[np.int8]:
    """Keys in 8 bits; the projection is scaled so that few are cut off."""
    return keys.round().clamp(-127, 127).to(torch.int8).cpu().numpy()


def read_features(
    model: TranslationModel, pairs: Sequence[EncodedPair], use: Callable[[Tensor], Tensor]
) -> list[Float[Tensor, "word width"]]:
    """What ``use`` makes of r_j, before each word of given pairs and before ``</s>``."""
    device = next(model.parameters()).device

    def run(chosen: list[EncodedPair]) -> list[Tensor]:
        src, src_lengths = pad([pair.src for pair in chosen])
        trg_in, trg_lengths = pad([[BOS, *pair.trg] for pair in chosen])
        decoded = model(src.to(device), src_lengths.to(device), trg_in.to(device))
        rows = decoded.packing.pad(use(decoded.packed_features), trg_in.shape[1])
        return [row[:length] for row, length in zip(rows, trg_lengths.tolist(), strict=True)]

    lengths = [max(len(pair.src), len(pair.trg) + 1) for pair in pairs]
    return in_order(pairs, length_batches(lengths, _READ_AT_ONCE), run)
