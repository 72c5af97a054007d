"""A shortlist: the few words that may stand in the translations of some sentences."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from wholedoc.corpus.vocabulary import BOS, EOS, PAD, UNK

SPECIALS = (PAD, UNK, BOS, EOS)
"""The first words of every vocabulary, in order; always in the list, so they keep their places."""


@dataclass(frozen=True)
class Shortlist:
    """Words that may always be produced, and pairs of a source word and one that translates it."""

    frequent: Int[Tensor, " frequent"]
    src: Int[Tensor, " pair"]
    trg: Int[Tensor, " pair"]
    vocabularies: tuple[int, int]
    """The sizes of both vocabularies."""

    def select(self, src: Int[Tensor, "sent src_word"]) -> Int[Tensor, " output"]:
        """The words that may be produced for a batch, in order, the special ones first."""
        present = torch.zeros(self.vocabularies[0], dtype=torch.bool)
        present[src.flatten().cpu()] = True
        allowed = torch.zeros(self.vocabularies[1], dtype=torch.bool)
        allowed[list(SPECIALS)] = True
        allowed[self.frequent] = True
        allowed[self.trg[present[self.src]]] = True
        return allowed.nonzero()[:, 0].to(src.device)
