"""Learning a shortlist: which target words translate each source word, from the training data."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import save
from torch import Tensor

from wholedoc.corpus.batches import length_batches, pad
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import PAD
from wholedoc.files import write_atomically
from wholedoc.store.checkpoint import read_tensors
from wholedoc.store.shortlist import Shortlist

_ROUNDS = 4
_BATCH_WORDS = 8000
# Places for counts of word pairs. Where there are more pairs than that, some share a place.
_PLACES = 2**25
# A link between words that is less probable than this is not counted in the end.
_LEAST = 0.05


def learn_shortlist(
    corpus: EncodedCorpus, vocabularies: tuple[int, int], translations: int, frequent: int
) -> Shortlist:
    """The ``translations`` likeliest words for each source word and the ``frequent`` commonest.

    IBM Model 1: P(i | j) ∝ τ(e_j | f_i), and τ(e | f) ∝ Σ P(i | j) over all pairs of e and f;
    ``</s>`` of the source is the word that translates nothing.
    """
    model = _Model1(*vocabularies)
    for _ in range(_ROUNDS):
        model.learn(corpus)
    src, trg, weights = model.links(corpus)
    order = np.lexsort((trg, -weights, src))
    src, trg = src[order], trg[order]
    rank = np.arange(len(src)) - np.searchsorted(src, src)  # in the list of its source word
    chosen = rank < translations
    commonest = model.trg_counts.argsort(descending=True, stable=True)[:frequent]
    return Shortlist(
        commonest, torch.from_numpy(src[chosen]), torch.from_numpy(trg[chosen]), vocabularies
    )


def write_shortlist(path: Path, shortlist: Shortlist) -> None:
    """Write it as tensors."""
    tensors = {"frequent": shortlist.frequent, "src": shortlist.src, "trg": shortlist.trg}
    write_atomically(path, save({name: t.to(torch.int32) for name, t in tensors.items()}))


def read_shortlist(path: Path, vocabularies: tuple[int, int]) -> Shortlist:
    """What :func:`write_shortlist` wrote."""
    frequent, src, trg = (t.long() for t in read_tensors(path, ("frequent", "src", "trg")))
    return Shortlist(frequent, src, trg, vocabularies)


class _Model1:
    """τ, as counts of word pairs."""

    def __init__(self, src_vocabulary: int, trg_vocabulary: int) -> None:
        self.trg_vocabulary = trg_vocabulary
        self.pairs = torch.ones(min(_PLACES, src_vocabulary * trg_vocabulary))
        self.src_totals = torch.ones(src_vocabulary)
        self.trg_counts = torch.zeros(trg_vocabulary)

    def learn(self, corpus: EncodedCorpus) -> None:
        """One round of expectation maximisation."""
        pairs = torch.zeros_like(self.pairs)
        src_totals = torch.zeros_like(self.src_totals)
        self.trg_counts.zero_()
        for src, trg in _batches(corpus):
            posterior, places = self._posterior(src, trg)
            pairs.index_add_(0, places.flatten(), posterior.flatten())
            src_totals.index_add_(0, src.flatten(), posterior.sum(dim=1).flatten())
            self.trg_counts += torch.bincount(trg[trg != PAD], minlength=self.trg_vocabulary)
        self.pairs, self.src_totals = pairs, src_totals

    def links(self, corpus: EncodedCorpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Source word, target word and weight of all pairs that are linked somewhere."""
        keys, weights = [], []
        for src, trg in _batches(corpus):
            posterior, _ = self._posterior(src, trg)
            t, j, i = (posterior > _LEAST).nonzero(as_tuple=True)
            keys.append((src[t, i] * self.trg_vocabulary + trg[t, j]).numpy())
            weights.append(posterior[t, j, i].numpy())
        found, places = np.unique(np.concatenate(keys), return_inverse=True)
        total = np.bincount(places, weights=np.concatenate(weights))
        return found // self.trg_vocabulary, found % self.trg_vocabulary, total

    def _posterior(
        self, src: Int[Tensor, "sent src_word"], trg: Int[Tensor, "sent trg_word"]
    ) -> tuple[Float[Tensor, "sent trg_word src_word"], Int[Tensor, "sent trg_word src_word"]]:
        """P(i | j), zero at padding, and the place of each pair of words."""
        places = (src[:, None] * self.trg_vocabulary + trg[:, :, None]) % len(self.pairs)
        shares = self.pairs[places] / self.src_totals[src][:, None]
        shares.masked_fill_((src == PAD)[:, None] | (trg == PAD)[:, :, None], 0.0)
        return shares / shares.sum(dim=-1, keepdim=True).clamp(min=1e-30), places


def _batches(corpus: EncodedCorpus) -> Iterator[tuple[Tensor, Tensor]]:
    """Padded sentence pairs of like length."""
    lengths = np.maximum(corpus.src_lengths, corpus.trg_lengths).tolist()
    for batch in length_batches(lengths, _BATCH_WORDS):
        yield pad([corpus.src(t) for t in batch])[0], pad([corpus.trg(t) for t in batch])[0]
