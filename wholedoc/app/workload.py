"""Made-up text with the sizes of real text, for measuring speed where no corpus is given."""

from pathlib import Path

import numpy as np

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.vocabulary import SPECIALS, WordVocabulary

_DOCUMENTS = 150


def make_workload(directory: Path, sizes: tuple[int, int]) -> EncodedCorpus:
    """Documents of random words, for vocabularies of the given sizes.

    Numbers of words and sentences are drawn as in speeches of the European parliament: sentences
    of 25 words, documents of 11 sentences in the median, both with a long tail. Frequencies of
    words fall as one over their rank.
    """
    random = np.random.default_rng(1)
    vocabularies = [
        WordVocabulary([f"w{i}" for i in range(size - len(SPECIALS))], "en") for size in sizes
    ]
    frequencies = [1 / np.arange(1, size - len(SPECIALS) + 1) for size in sizes]

    def text(side: int, words: float) -> str:
        share = frequencies[side] / frequencies[side].sum()
        chosen = random.choice(len(share), size=max(1, min(round(words), 100)), p=share)
        return " ".join(f"w{i}" for i in chosen)

    def pair() -> SentencePair:
        words = 21 * random.lognormal(sigma=0.6)
        return SentencePair(text(0, words), text(1, words * random.lognormal(sigma=0.15)))

    documents = [
        Document(str(d), tuple(pair() for _ in range(max(1, round(11 * random.lognormal())))))
        for d in range(_DOCUMENTS)
    ]
    return encode_corpus(documents, vocabularies[0], vocabularies[1], directory)
