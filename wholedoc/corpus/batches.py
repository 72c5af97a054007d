"""Batches: which sentences or documents are computed together, and the tensors made of them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from wholedoc.corpus.encoded import EncodedCorpus, Ids
from wholedoc.corpus.shares import Indices, cut, deal
from wholedoc.corpus.vocabulary import BOS, PAD

_OPEN_GROUPS = 8
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """T sentence pairs as tensors, padded with ``PAD``."""

    sentences: Int[Tensor, " T"]
    """Their indices in the corpus."""
    src: Int[Tensor, "T I"]
    """x_1 … x_I EOS."""
    src_lengths: Int[Tensor, " T"]
    """Source lengths, EOS included."""
    trg_in: Int[Tensor, "T J"]
    """What the decoder reads: BOS y_1 … y_J."""
    trg_out: Int[Tensor, "T J"]
    """What it is to predict: y_1 … y_J EOS."""
    trg_lengths: Int[Tensor, " T"]
    """Target lengths, EOS included."""
    words: int
    """Number of target tokens, padding not counted."""

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the tensors to ``device``."""
        moved = {name: part.to(device) for name, part in vars(self).items() if name != "words"}
        return replace(self, **moved)


def pad(sentences: Sequence[Sequence[int] | Ids]) -> tuple[Int[Tensor, "T I"], Int[Tensor, " T"]]:
    """Stack sentences of token ids into one tensor, padded with ``PAD``, and their lengths."""
    lengths = [len(sentence) for sentence in sentences]
    padded = np.full((len(sentences), max(lengths, default=0)), PAD, dtype=np.int64)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return torch.from_numpy(padded), torch.tensor(lengths, dtype=torch.long)


def make_batch(corpus: EncodedCorpus, sentences: Iterable[int]) -> Batch:
    """Read the given sentences of the corpus into a batch, in the given order."""
    indices = [int(t) for t in sentences]
    src, src_lengths = pad([corpus.src(t) for t in indices])
    trg_out, trg_lengths = pad([corpus.trg(t) for t in indices])
    trg_in = trg_out.roll(1, dims=1)
    trg_in[:, 0] = BOS
    trg_in[trg_out == PAD] = PAD
    return Batch(
        sentences=torch.tensor(indices, dtype=torch.long),
        src=src,
        src_lengths=src_lengths,
        trg_in=trg_in,
        trg_out=trg_out,
        trg_lengths=trg_lengths,
        words=int(trg_lengths.sum()),
    )


class SentenceBatches:
    """Sentence pairs of like lengths, batched anew for each epoch.

    A batch holds at most ``tokens`` positions on its longer side, padding included (its rows times
    its longest sentence); a sentence longer than that is a batch of its own. The sentences are
    sorted by source length and taken in groups, and each group is sorted by target length, upwards
    and downwards in turn, so that neighbours are alike in both; then they are cut into batches.
    Sentences of the same length are in random order and groups begin at random, so that batches
    differ between epochs. The longest translation of a batch comes first, as the decoder wants it.
    """

    def __init__(self, corpus: EncodedCorpus, tokens: int, seed: int) -> None:
        self._lengths = (corpus.src_lengths, corpus.trg_lengths)
        self._longer = np.maximum(*self._lengths).astype(np.int64)
        self._words = np.add(*self._lengths)
        self._tokens = tokens
        self._seed = seed

    def share(self, batch: Indices, rank: int, ranks: int) -> Indices:
        """The sentences of a batch that one of several processes computes, in their order."""
        return batch[deal(self._words[batch], rank, ranks)]

    def epoch(self, number: int) -> list[Indices]:
        """Return the batches of an epoch in random order; corpus, seed and ``number`` fix them."""
        generator = np.random.default_rng([self._seed, number])
        src, trg = (
            lengths + generator.random(len(lengths), dtype=np.float32) for lengths in self._lengths
        )
        order = np.argsort(src, kind="stable")
        filled = np.cumsum(self._longer[order]) / self._tokens  # batches up to each sentence
        # As many as leave about the least padding; on Europarl, with 300 to 2,600 batches.
        batches_of_a_group = max(1.0, 0.5 * math.sqrt(filled[-1]))
        groups = np.floor(filled / batches_of_a_group + generator.random())
        up_and_down = np.where(groups % 2 == 0, trg[order], -trg[order])
        order = order[np.lexsort((up_and_down, groups))]
        batches = _cut(order, self._longer[order], self._tokens)
        chosen = (batches[i] for i in generator.permutation(len(batches)))
        return [batch[np.argsort(-trg[batch], kind="stable")] for batch in chosen]


class DocumentPart(NamedTuple):
    """Some sentences of a document, which read all of it."""

    document: range
    sentences: range


class DocumentBatches:
    """Groups of whole documents, grouped anew for each epoch by its number and the seed.

    A group holds documents whose sentences have at most ``tokens`` tokens together, each sentence
    counted by its longer side; a longer document is a group of its own, and so is every document
    if ``tokens`` is 0. Each goes where it leaves the least room, of a few groups that are open at a
    time. Documents without sentences are in no group.
    """

    def __init__(self, corpus: EncodedCorpus, tokens: int, seed: int) -> None:
        longer = np.maximum(corpus.src_lengths, corpus.trg_lengths)
        ranges = [corpus.document_sentences(d) for d in range(corpus.documents)]
        self._documents = [document for document in ranges if document]
        self._sizes = [int(longer[d.start : d.stop].sum()) for d in self._documents]
        self._words = corpus.src_lengths + corpus.trg_lengths
        self._tokens = tokens
        self._seed = seed

    def share(self, documents: Sequence[range], rank: int, ranks: int) -> list[DocumentPart]:
        """The part of a group that one of several processes computes.

        It is a run of sentences, so that few documents are read by more than one process. A
        document is cut where the words are half: one that is longer than all others together would
        otherwise keep every other process waiting.
        """
        words = [self._words[d.start : d.stop] for d in documents]
        mine = cut(np.concatenate(words), rank, ranks)
        parts, begin = [], 0
        for document in documents:
            sentences = document[max(0, mine.start - begin) : max(0, mine.stop - begin)]
            if sentences:
                parts.append(DocumentPart(document, sentences))
            begin += len(document)
        return parts

    def epoch(self, number: int) -> list[tuple[range, ...]]:
        """Return the groups of an epoch in random order: the sentences of each of its documents."""
        generator = np.random.default_rng([self._seed, number])
        groups: list[list[range]] = []
        rooms: dict[int, int] = {}  # of the groups that are open
        for d in generator.permutation(len(self._documents)):
            fitting = [group for group, room in rooms.items() if self._sizes[d] <= room]
            group = min(fitting, key=rooms.__getitem__, default=len(groups))
            if group == len(groups):
                groups.append([])
                rooms[group] = self._tokens
            groups[group].append(self._documents[d])
            rooms[group] -= self._sizes[d]
            if len(rooms) > _OPEN_GROUPS:
                del rooms[min(rooms, key=rooms.__getitem__)]
        return [tuple(group) for group in groups]


def length_batches(lengths: Sequence[int] | npt.NDArray[np.int32], tokens: int) -> list[Indices]:
    """Batch sentences by length, the longest first, with at most ``tokens`` positions each.

    For translating: the longest come first so that memory runs out at once or not at all.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-sizes, kind="stable")
    return _cut(order, sizes[order], tokens)


def token_batches(
    src: npt.NDArray[np.int32], trg: npt.NDArray[np.int32], tokens: int
) -> list[Indices]:
    """Batch sentence pairs of given lengths, with at most ``tokens`` words on their longer sides.

    For reading given translations, where nothing is computed for padding: it does not count.
    Pairs of like length are together; in a batch the longest translation comes first, as the
    decoder wants it.
    """
    longer = np.maximum(src, trg)
    order = np.argsort(-longer, kind="stable")
    batches: list[list[int]] = []
    room = 0
    for sentence, size in zip(order.tolist(), longer[order].tolist(), strict=True):
        if size > room or not batches:
            batches.append([])
            room = tokens
        batches[-1].append(sentence)
        room -= size
    return [np.array(batch)[np.argsort(-trg[batch], kind="stable")] for batch in batches]


def in_order(
    items: Sequence[Item],
    batches: Iterable[Sequence[int] | Indices],
    run: Callable[[list[Item]], Sequence[Result]],
) -> list[Result]:
    """Run a function over batches of items and return its results in the order of the items.

    ``batches`` names every item once; ``run`` gives one result for each item it is given.
    """
    results: dict[int, Result] = {}
    for batch in batches:
        chosen = [int(i) for i in batch]
        results.update(zip(chosen, run([items[i] for i in chosen]), strict=True))
    return [results[i] for i in range(len(items))]


def _cut(order: Indices, sizes: npt.NDArray[np.integer], tokens: int) -> list[Indices]:
    """Cut a sequence of sentences into runs whose rows times longest is at most ``tokens``."""
    batches = []
    start = 0
    while start < len(order):
        # No more rows than these can fit, as the longest is at least as long as the first.
        window = sizes[start : start + max(1, tokens // max(1, int(sizes[start])))]
        cells = np.maximum.accumulate(window) * np.arange(1, len(window) + 1)
        rows = max(1, int(np.searchsorted(cells, tokens, side="right")))
        batches.append(order[start : start + rows])
        start += rows
    return batches
