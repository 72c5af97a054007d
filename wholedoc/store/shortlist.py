"""The shortlist of an export: the few words that may stand in translations of some sentences."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from safetensors.torch import save
from torch import Tensor

from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import SPECIALS
from wholedoc.corpus.word_translations import Aligner
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.store.checkpoint import read_tensors


@dataclass(frozen=True)
class Shortlist:
    """Words that may always be produced, and pairs of a source word and one that translates it."""

    frequent: Int[Tensor, " frequent"]
    src: Int[Tensor, " pair"]
    trg: Int[Tensor, " pair"]
    vocabularies: tuple[int, int]
    """The sizes of both vocabularies."""

    @cached_property
    def _by_source(self) -> tuple[Int[Tensor, " pair"], Int[Tensor, " word"]]:
        """The translating words in the order of what they translate, and where each one's begin."""
        order = torch.argsort(self.src, stable=True)
        words = torch.arange(self.vocabularies[0] + 1)
        return self.trg[order], torch.searchsorted(self.src[order], words)

    def allow(
        self, src: Int[Tensor, "sent src_word"], more: Int[Tensor, "sent type"] | None = None
    ) -> Bool[Tensor, "sent word"]:
        """The words that may be produced for each sentence, ``more`` among them."""
        src = src.cpu()
        allowed = torch.zeros(len(src), self.vocabularies[1], dtype=torch.bool)
        allowed[:, : len(SPECIALS)] = True
        allowed[:, self.frequent] = True
        trg, starts = self._by_source
        first, counts = starts[src.flatten()], starts.diff()[src.flatten()]
        begins = (first - counts.cumsum(0) + counts).repeat_interleave(counts)
        sentences = torch.arange(len(src)).repeat_interleave(src.shape[1])
        allowed[sentences.repeat_interleave(counts), trg[begins + torch.arange(len(begins))]] = True
        return allowed if more is None else allowed.scatter_(1, more.cpu(), True)


def learn_shortlist(
    corpus: EncodedCorpus, vocabularies: tuple[int, int], translations: int, frequent: int
) -> Shortlist:
    """The ``translations`` likeliest words for each source word and the ``frequent`` commonest."""
    sentences = range(len(corpus))
    src = [corpus.src(t)[:-1] for t in sentences]  # without EOS, which is in every list
    # Ids of the target side come after those of the source side: equal ids are not equal words.
    trg = [corpus.trg(t)[:-1].astype(np.int64) + vocabularies[0] for t in sentences]
    src_words, trg_words = Aligner(src, trg).translations(src, trg, translations)
    counts = np.zeros(vocabularies[1], dtype=np.int64)
    for t in sentences:
        np.add.at(counts, corpus.trg(t), 1)
    commonest = np.argsort(-counts, kind="stable")[:frequent]
    return Shortlist(
        torch.from_numpy(commonest),
        torch.from_numpy(src_words),
        torch.from_numpy(trg_words - vocabularies[0]),
        vocabularies,
    )


def write_shortlist(path: Path, shortlist: Shortlist) -> None:
    """Write it as tensors."""
    tensors = {"frequent": shortlist.frequent, "src": shortlist.src, "trg": shortlist.trg}
    write_atomically(path, save({name: t.to(torch.int32) for name, t in tensors.items()}))


def read_shortlist(path: Path, vocabularies: tuple[int, int]) -> Shortlist:
    """Read what :func:`write_shortlist` wrote."""
    frequent, src, trg = (t.long() for t in read_tensors(path, ("frequent", "src", "trg")))
    sides = ((frequent, vocabularies[1]), (src, vocabularies[0]), (trg, vocabularies[1]))
    in_range = all(((words >= 0) & (words < size)).all() for words, size in sides)
    if not in_range or frequent.dim() != 1 or src.shape != trg.shape or src.dim() != 1:
        what, fix = "holds words that the vocabularies do not have", "export the model again"
        raise UserError(what, where=str(path), fix=fix)
    return Shortlist(frequent, src, trg, vocabularies)
