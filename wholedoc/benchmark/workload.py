"""What speed is measured on: the corpus of a run, or made-up text with the sizes of real text."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wholedoc.config import Config, ModelConfig, SearchConfig, load_config
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.vocabulary import SPECIALS, Vocabulary, WordVocabulary
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.checkpoint import load_weights
from wholedoc.store.run import Run

PAPER_VOCABULARIES = (25_100, 21_000)  # of its French–English corpus
_DOCUMENTS = 200
_WORDS = {"subword": (29.0, 30.0), "word": (16.5, 22.0)}
"""Words of a sentence of europarl-et-en and of its translation, the geometric mean."""


@dataclass(frozen=True)
class Material:
    """An encoded corpus, with its configuration and the sizes of its vocabularies."""

    name: str
    config: Config
    corpus: EncodedCorpus
    vocabularies: tuple[Vocabulary, Vocabulary]
    weights: Path | None = None  # of the trained sentence model, if there is one

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the vocabularies."""
        return len(self.vocabularies[0]), len(self.vocabularies[1])

    def model(
        self, config: ModelConfig, dropout: float = 0.0, document_dropout: float = 0.0
    ) -> TranslationModel:
        """A model with the trained weights, if there are any, and others at random."""
        model = TranslationModel(config, *self.sizes, dropout, document_dropout)
        initialise(model, seed=1)
        if self.weights is not None:
            load_weights(self.weights, model, extend=True)
        return model

    def source(self, sentences: int) -> list[list[int]]:
        """So many source sentences, from the beginning again where there are fewer."""
        return [self.corpus.src(t % len(self.corpus)).tolist() for t in range(sentences)]

    @property
    def search(self) -> SearchConfig:
        """How to search; an untrained model, which never ends, with as many words as the source."""
        config = replace(self.config.search, order="parallel", shuffle_memory=False)
        if self.weights is None:
            config = replace(config, max_length_factor=1.0, max_length_extra=0)
        return config


def shipped_material(name: str, directory: Path) -> Material:
    """A shipped configuration and made-up text."""
    config = load_config(name)
    size = config.vocabulary.size
    sizes = (size, size) if size else PAPER_VOCABULARIES
    corpus = make_workload(directory, sizes, _WORDS[config.vocabulary.kind])
    return Material(name, config, corpus, make_vocabularies(sizes))


def run_material(run: Run) -> Material:
    """The corpus, vocabularies and configuration of a run; nothing is written into it."""
    vocabularies, best = run.load_vocabularies(), run.stage("stage1").best
    weights, corpus = best if best.exists() else None, run.load_corpus("train")
    return Material(run.directory.name, run.load_config(), corpus, vocabularies, weights)


def make_vocabularies(sizes: tuple[int, int]) -> tuple[Vocabulary, Vocabulary]:
    """Vocabularies of made-up words."""
    src, trg = ([f"w{i}" for i in range(size - len(SPECIALS))] for size in sizes)
    return WordVocabulary(src, "en"), WordVocabulary(trg, "en")


def make_workload(
    directory: Path, sizes: tuple[int, int], words: tuple[float, float]
) -> EncodedCorpus:
    """Documents of random words, for vocabularies and with sentences of the given sizes.

    Numbers of words and sentences vary as measured in europarl-et-en: their logarithms deviate by
    0.6 for sentences, 0.2 for a sentence and its translation, and 0.44 for documents, which have
    12.6 sentences. Frequencies of words fall as one over their rank.
    """
    random = np.random.default_rng(1)
    frequencies = [1 / np.arange(1, size - len(SPECIALS) + 1) for size in sizes]
    shares = [side / side.sum() for side in frequencies]

    def text(side: int, length: float) -> str:
        size = max(1, min(round(words[side] * length), 100))
        return " ".join(f"w{i}" for i in random.choice(len(shares[side]), size, p=shares[side]))

    def pair() -> SentencePair:
        length = random.lognormal(sigma=0.6)
        return SentencePair(text(0, length), text(1, length * random.lognormal(sigma=0.2)))

    counts = [max(1, round(12.6 * random.lognormal(sigma=0.44))) for _ in range(_DOCUMENTS)]
    documents = [Document(str(d), tuple(pair() for _ in range(n))) for d, n in enumerate(counts)]
    return encode_corpus(documents, *make_vocabularies(sizes), directory)
