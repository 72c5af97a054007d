"""The speed of training and of search: contenders that take turns, in CPU seconds of one thread."""

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from statistics import median
from timeit import repeat
from typing import Any

import numpy as np
import torch
from torch import nn

from wholedoc.benchmark.workload import Material
from wholedoc.config import FusionName, SearchConfig, StageConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.kernels import ExactProduct, describe, use
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel
from wholedoc.store.shortlist import learn_shortlist
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.loop import add_gradients
from wholedoc.training.objective import DocumentSet
from wholedoc.training.optimisation import make_optimiser, take_step
from wholedoc.training.tasks import Sets, Stage, Task, document_task, translation_task

FORMULA = (
    "6 · (source words · weights of encoder and attention keys + target words · weights of decoder "
    "and output layer + pairs of source and target word of a sentence · (A + 2H) + sentences · "
    "weights of memories and fusions)"
)
"""2 for a multiplication and an addition; 3 for the forward pass and both gradients.

Padding, what is computed twice, and everything that is no matrix product count for nothing.
"""
PEAK_SIZE = 1024
"""Rows and columns of the matrices whose product is the machine's peak."""
WORDS = 1500
"""Target words of a turn of training, at least; few, as a machine's speed changes all the time."""
DOCUMENT_SIZES = (10, 50, 200, 1000, 5000)


@dataclass(frozen=True)
class TextSize:
    """The size of some sentence pairs."""

    sentences: int
    src_words: int
    trg_words: int
    pairs: int
    """Pairs of a source and a target word of the same sentence."""


def size_of(corpus: EncodedCorpus, update: Any) -> TextSize:
    """The size of an update: the sentences of a batch, or of a tuple of documents."""
    sentences = np.concatenate([np.atleast_1d(part) for part in update])
    src, trg = (lengths[sentences] for lengths in (corpus.src_lengths, corpus.trg_lengths))
    pairs = int((src.astype(np.int64) * trg).sum())
    return TextSize(len(src), int(src.sum()), int(trg.sum()), pairs)


def training_flops(model: TranslationModel, text: TextSize) -> float:
    """:data:`FORMULA`."""
    encoder, decoder = model.encoder, model.decoder
    attention, lower, upper = decoder.attention, decoder.lower, decoder.upper
    src = (*encoder.rnn.children(), attention.key)
    states = (attention.query, lower.state, decoder.between, upper.state)
    trg = (*states, decoder.word, decoder.context, *decoder.output.children())
    known = {id(layer) for layer in (*src, *trg, attention.score)}
    others = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in known]
    pair = attention.score.weight.numel() + 2 * encoder.rnn.hidden
    return 6.0 * (
        text.src_words * weights_of(*src)
        + text.trg_words * weights_of(*trg)
        + text.pairs * pair
        + text.sentences * weights_of(*others)
    )


def weights_of(*layers: nn.Module) -> int:
    """How many weights the matrices of some layers have."""
    return sum(p.numel() for layer in layers for p in layer.parameters() if p.dim() == 2)


def peak_flops() -> float:
    """Multiplications and additions per second of a large matrix product in 32 bits.

    By PyTorch or by the compiled kernels, whichever is faster here.
    """
    a, b = torch.ones(PEAK_SIZE, PEAK_SIZE), torch.ones(PEAK_SIZE, PEAK_SIZE)
    products = [ExactProduct(b)]
    if describe() != "torch":
        with use("torch"):
            products.append(ExactProduct(b))
    turns = [repeat(partial(p, a), timer=time.process_time, number=1) for p in products]
    return 2 * PEAK_SIZE**3 / min(median(seconds) for seconds in turns)


# Training.


@dataclass
class TrainingContender:
    """A stage being trained, and the cost of each of its turns."""

    name: str
    task: Task
    model: TranslationModel
    config: StageConfig
    corpus: EncodedCorpus
    by_torch: bool = False
    """Whether PyTorch computes, even where there are compiled kernels."""
    seconds: float = 0.0
    words: int = 0
    flops: float = 0.0
    flops_at_peak: float = 0.0
    """What the best matrix product would have done in the same time."""

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.config, self.model.parameters())
        self._updates = (update for epoch in count(1) for update in self.task.updates(epoch))
        self.model.train()
        self.turn()  # allocators and caches warm up
        self.seconds, self.words, self.flops, self.flops_at_peak = 0.0, 0, 0.0, 0.0

    def turn(self) -> float:
        """Measure the peak, then some updates; return the peak."""
        peak = peak_flops()
        enough = self.words + max(WORDS, self.config.batch_tokens)
        while self.words < enough:
            seconds, text = self.update()
            self.seconds += seconds
            self.words += text.trg_words
            self.flops += training_flops(self.model, text)
            self.flops_at_peak += seconds * peak
        self.optimiser.zero_grad()  # while others have their turn
        return peak

    def update(self) -> tuple[float, TextSize]:
        """Do what the training loop does for one update; return its seconds and its size."""
        update = next(self._updates)
        start = time.process_time()
        self.optimiser.zero_grad()
        with use("torch") if self.by_torch else nullcontext():
            add_gradients(self.task, update, ProcessGroup(), self.config)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch.nn.utils.get_total_norm(gradients).item()
        take_step(self.optimiser, 1e-3)  # any rate: it is the time that counts
        return time.process_time() - start, size_of(self.corpus, update)

    @property
    def cost(self) -> float:
        """CPU seconds of a target word, over all turns, as each has other sentences."""
        return self.seconds / self.words

    @property
    def speed(self) -> dict[str, float]:
        """Words and operations per second, the latter also as a share of the peak."""
        return {
            "words_per_second": self.words / self.seconds,
            "gflops": 1e-9 * self.flops / self.seconds,
            "peak_ratio": self.flops / self.flops_at_peak,
        }


def sentence_contender(
    material: Material, *, by_torch: bool = False, single: bool = False
) -> TrainingContender:
    """Stage 1 as configured, or ``by_torch`` alone, or ``single``: in 32 bits."""
    config, name = material.config, material.name
    stage1 = replace(config.stage1, precision="single") if single else config.stage1
    name += ", by PyTorch" if by_torch else ""
    name += ", in 32 bits" if stage1 != config.stage1 else ""
    model = material.model(config.model.without_context(), stage1)
    sets = Sets(material.corpus, material.corpus)
    task = translation_task(Stage("stage1", stage1, config.seed), model, sets)
    return TrainingContender(name, task, model, stage1, material.corpus, by_torch)


def document_contender(material: Material, fusion: FusionName) -> TrainingContender:
    """Stage 2 with both memories, of random vectors: its cost does not depend on them."""
    config = material.config
    settings = replace(config.model, context="none", memory="both", fusion=fusion)
    random = np.random.default_rng(config.seed)
    vectors, states = (
        random.standard_normal((len(material.corpus), width), dtype=np.float32)
        for width in (2 * settings.hidden, settings.hidden)
    )
    data = DocumentSet(material.corpus, vectors, states)
    model = material.model(settings, config.stage2)
    task = document_task(model, data, data, config.stage2, config.seed)
    name = f"{material.name}, both memories, {fusion}"
    return TrainingContender(name, task, model, config.stage2, material.corpus)


# Search.


@dataclass
class SearchContender:
    """A way to translate some documents, and the cost of each of its turns."""

    system: TranslationSystem
    documents: list[list[list[int]]]
    config: SearchConfig
    seconds: list[float] = field(default_factory=list)
    words: int = 0
    sentences: int = 0

    def turn(self) -> None:
        """Translate everything once."""
        start = time.process_time()
        done = translate_documents(self.system, self.documents, self.config, measure=False)
        self.seconds.append(time.process_time() - start)
        best = [hypotheses[0] for document in done for hypotheses in document.passes[-1]]
        self.words, self.sentences = sum(len(b.tokens) + 1 for b in best), len(best)

    @property
    def speed(self) -> dict[str, float]:
        """Words and sentences per second in the median turn."""
        seconds = median(self.seconds)
        return {
            "words_per_second": self.words / seconds,
            "sentences_per_second": self.sentences / seconds,
        }


def search_contenders(material: Material, sentences: int) -> dict[str, SearchContender]:
    """Ways to search with the sentence model."""
    model = material.model(material.config.model.without_context(), material.config.stage1).eval()
    exact = TranslationSystem(model, model)
    compact = replace(exact, int8=True)
    fast = replace(compact, shortlist=learn_shortlist(material.corpus, material.sizes, 20, 200))
    beam5 = replace(material.search, beam=5)
    documents = [material.source(sentences)]
    return {
        "beam5, one by one": SearchContender(exact, documents, replace(beam5, batch_tokens=1)),
        "greedy": SearchContender(exact, documents, replace(beam5, beam=1)),
        "beam5": SearchContender(exact, documents, beam5),
        "beam5, int8": SearchContender(compact, documents, beam5),
        "beam5, int8, shortlist": SearchContender(fast, documents, beam5),
    }


def length_contenders(material: Material, sentences: int) -> dict[int, SearchContender]:
    """One pass over the same sentences in documents of each size, both memories, greedily."""
    config = replace(material.config.model, context="none", memory="both", fusion="context")
    base = material.model(config.without_context(), material.config.stage1).eval()
    model = material.model(config, material.config.stage2).eval()
    system = TranslationSystem(model, base, SentenceVectors(material.sizes[0], config))
    greedy, source = replace(material.search, beam=1, passes=1), material.source(sentences)
    return {
        size: SearchContender(
            system, [source[start : start + size] for start in range(0, sentences, size)], greedy
        )
        for size in DOCUMENT_SIZES
        if size <= sentences
    }
