"""Which words translate which: the lexicon of a run and the shortlist of an export.

Rare words are unknown to a model of ``word`` vocabularies; attention says which source word an
``<unk>`` stands for, and the lexicon how that is translated. A shortlist holds the few words that
may stand in the translations of some sentences.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from safetensors.torch import save
from torch import Tensor

from wholedoc.corpus.documents import Document
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import SPECIALS, Vocabulary
from wholedoc.corpus.word_translations import Aligner, WordIds
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.store.checkpoint import read_tensors


def learn_lexicon(
    documents: Iterable[Document], src_vocabulary: Vocabulary, trg_vocabulary: Vocabulary
) -> dict[str, str]:
    """Find the likeliest translation of each source word, from sentence pairs.

    The vocabularies split text into words; those that they do not hold are learned too.
    """
    ids = WordIds()
    src: list[list[int]] = []
    trg: list[list[int]] = []
    for document in documents:
        src += ids.encode(src_vocabulary.tokens(pair.src) for pair in document)
        trg += ids.encode(trg_vocabulary.tokens(pair.trg) for pair in document)
    src_words, trg_words = Aligner(src, trg).translations(src, trg, most=1)
    words = list(ids)
    pairs = zip(src_words.tolist(), trg_words.tolist(), strict=True)
    return dict(sorted((words[one], words[other]) for one, other in pairs))


def write_lexicon(path: Path, lexicon: dict[str, str]) -> None:
    """Write one pair per line, separated by a tab."""
    write_atomically(path, "".join(f"{src}\t{trg}\n" for src, trg in lexicon.items()))


def read_lexicon(path: Path) -> dict[str, str]:
    """Read what :func:`write_lexicon` wrote."""
    lexicon = {}
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            src, trg = line.decode("utf-8").split("\t")
        except ValueError as error:
            what = "not a pair of words separated by a tab"
            fix = "remove the file and run `wholedoc train` again"
            raise UserError(what, where=f"{path}:{number}", fix=fix) from error
        lexicon[src] = trg
    return lexicon


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
        allowed[: len(SPECIALS)] = True  # always in the list, so they keep their places
        allowed[self.frequent] = True
        allowed[self.trg[present[self.src]]] = True
        return allowed.nonzero()[:, 0].to(src.device)


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
    return Shortlist(frequent, src, trg, vocabularies)
