"""How fast this machine trains and translates, as ratios that mean something on a busy one.

Everything is measured in CPU seconds of one thread. Contenders take turns, a round each, and so
does the machine's best matrix product: whatever slows it down for a while slows all of them.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from wholedoc.app.workload import make_workload
from wholedoc.config import (
    Config,
    DocumentStageConfig,
    FusionName,
    ModelConfig,
    SearchConfig,
    StageConfig,
    load_config,
)
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.decoding.descent import Descent, System, translate_documents
from wholedoc.model.flops import FORMULA, Text, training_flops
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.progress import say
from wholedoc.training.checkpoint import load_known_weights
from wholedoc.training.distribution import World
from wholedoc.training.loop import Task, peak_rss_mb, tiny_numbers_as_zero
from wholedoc.training.optimisation import make_optimiser
from wholedoc.training.run import Run
from wholedoc.training.shortlist import learn_shortlist
from wholedoc.training.tasks import DocumentSet, DocumentTask, Sets, Stage, translation_task

PEAK_SIZE = 1024
"""Rows and columns of the matrices whose product is the machine's peak."""
PAPER_VOCABULARIES = (25_100, 21_000)
"""Those of the paper's French–English corpus."""
BATCHES = (500, 1000, 2000, 4000)
DOCUMENT_SIZES = (10, 50, 200, 1000, 5000)
SEARCHED = 200
"""Sentences for comparing ways to search."""
WORDS = 3000
"""Target words of a round of training."""
_BOTH = "both memories"


@dataclass(frozen=True)
class Material:
    """What is trained on: a corpus in numbers, with its configuration and vocabulary sizes."""

    name: str
    config: Config
    corpus: EncodedCorpus
    sizes: tuple[int, int]
    weights: Path | None = None
    """Trained weights of the sentence model, if there are any."""

    def model(self, config: ModelConfig, stage: StageConfig) -> TranslationModel:
        """A model with the trained weights, if there are any, and others at random."""
        document_dropout = stage.document_dropout if isinstance(stage, DocumentStageConfig) else 0.0
        model = TranslationModel(config, *self.sizes, stage.dropout, document_dropout)
        initialise(model, seed=1)
        if self.weights is not None:
            load_known_weights(self.weights, model)
        return model


def shipped_material(name: str, directory: Path) -> Material:
    """A shipped configuration and made-up text."""
    config = load_config(name)
    size = config.vocabulary.size
    sizes = (size, size) if size else PAPER_VOCABULARIES
    return Material(name, config, make_workload(directory, sizes), sizes)


def run_material(run: Run) -> Material:
    """The corpus, vocabularies and configuration of a run; nothing is written into it."""
    src, trg = run.load_vocabularies()
    best = run.stage("stage1").best
    return Material(
        run.directory.name,
        run.load_config(),
        run.load_corpus("train"),
        (len(src), len(trg)),
        best if best.exists() else None,
    )


@dataclass
class Contender:
    """A task being trained, and the cost of what it has done."""

    name: str
    task: Task
    model: TranslationModel
    config: StageConfig
    corpus: EncodedCorpus
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of each round."""
    words: list[int] = field(default_factory=list)
    """Target words of each round."""
    flops: list[float] = field(default_factory=list)
    """Multiplications and additions that the formulas ask for, of each round."""

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.config, self.model.parameters())
        self.work = self._endless_updates()
        self.model.train()
        self.update()  # allocators and caches warm up

    def _endless_updates(self) -> Iterator[Any]:
        for epoch in count(1):
            yield from self.task.updates(epoch)

    def update(self) -> tuple[float, Any]:
        """What the training loop does for one update: its seconds, and what it was about."""
        work = next(self.work)
        start = time.process_time()
        self.optimiser.zero_grad()
        for loss in self.task.losses(work, World()):
            loss.smoothed.backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch.nn.utils.get_total_norm(gradients).item()
        torch._foreach_mul_(gradients, 1e-3)  # any number: it is the time that counts
        self.optimiser.step()
        return time.process_time() - start, work

    def round(self, words: int) -> None:
        """Updates until at least so many target words are done."""
        seconds, text = 0.0, Text()
        while text.trg_words < words:
            spent, work = self.update()
            seconds += spent
            text += text_of(self.corpus, work)
        self.seconds.append(seconds)
        self.words.append(text.trg_words)
        self.flops.append(training_flops(self.model, text))

    @property
    def costs(self) -> list[float]:
        """CPU seconds per target word of each round."""
        return [s / w for s, w in zip(self.seconds, self.words, strict=True)]


def text_of(corpus: EncodedCorpus, work: Any) -> Text:
    """The size of an update: sentences of a batch, or of documents."""
    sentences = [t for document in work for t in document] if isinstance(work, tuple) else work
    src, trg = (lengths[sentences] for lengths in (corpus.src_lengths, corpus.trg_lengths))
    return Text(len(src), int(src.sum()), int(trg.sum()), int((src.astype(np.int64) * trg).sum()))


def peak_flops() -> float:
    """Multiplications and additions per second of a large product of matrices in 32 bits."""
    a, b = torch.ones(PEAK_SIZE, PEAK_SIZE), torch.ones(PEAK_SIZE, PEAK_SIZE)
    out = torch.empty_like(a)
    torch.mm(a, b, out=out)
    rates = []
    for _ in range(5):
        start = time.process_time()
        torch.mm(a, b, out=out)
        rates.append(2 * PEAK_SIZE**3 / (time.process_time() - start))
    return median(rates)


def take_turns(contenders: Sequence[Contender], rounds: int) -> list[float]:
    """Rounds of all contenders, each after a measurement of the peak; gives the peaks."""
    peaks = []
    for number in range(rounds):
        peaks.append(peak_flops())
        for contender in contenders:
            contender.round(WORDS)
        say(f"training, round {number + 1} of {rounds}")
    return peaks


def sentence_contender(material: Material, *, plain: bool = False, batch: int = 0) -> Contender:
    """Stage 1; ``plain`` with the decoder's readable loop, ``batch`` with other batches."""
    config = material.config
    stage1 = replace(config.stage1, batch_tokens=batch) if batch else config.stage1
    model = material.model(config.model.without_context(), stage1)
    name = material.name + (", plain loop" if plain else "") + (f", {batch}" if batch else "")
    if plain:
        model.decoder.unroll = model.decoder.step_by_step  # type: ignore[method-assign]
    stage = Stage("stage1", stage1, config.seed)
    task = translation_task(stage, model, Sets(material.corpus, material.corpus))
    return Contender(name, task, model, stage1, material.corpus)


def document_contender(material: Material, fusion: FusionName) -> Contender:
    """Stage 2 with both memories, made of random numbers: cost does not depend on them."""
    config = material.config
    settings = replace(config.model, context="none", memory="both", fusion=fusion)
    random = np.random.default_rng(config.seed)
    vectors, states = (
        random.standard_normal((len(material.corpus), width), dtype=np.float32)
        for width in (2 * settings.hidden, settings.hidden)
    )
    data = DocumentSet(material.corpus, vectors, states)
    model = material.model(settings, config.stage2)
    task = DocumentTask(model, data, data, config.stage2, config.seed)
    name = f"{material.name}, {_BOTH}, {fusion}"
    return Contender(name, task, model, config.stage2, material.corpus)


@dataclass
class Decoding:
    """A way to translate, and the cost of each of its rounds."""

    name: str
    run: Callable[[], list[Descent]]
    seconds: list[float] = field(default_factory=list)
    words: int = 0
    sentences: int = 0

    def round(self) -> None:
        """Translate everything once."""
        start = time.process_time()
        walks = self.run()
        self.seconds.append(time.process_time() - start)
        best = [hypotheses[0] for walk in walks for hypotheses in walk.passes[-1]]
        self.words, self.sentences = sum(len(b.tokens) + 1 for b in best), len(best)


def searches(material: Material, sentences: int) -> list[Decoding]:
    """Ways to search with the sentence model."""
    model = material.model(material.config.model.without_context(), material.config.stage1).eval()
    system = System(model, model)
    compact = System(model, model, int8=True)
    fast = replace(compact, shortlist=learn_shortlist(material.corpus, material.sizes, 20, 200))
    source = source_of(material.corpus, sentences)
    config = search_config(material)
    ways = {
        "beam5, one by one": (system, replace(config, beam=5, batch_tokens=1)),
        "greedy": (system, replace(config, beam=1)),
        "beam5": (system, replace(config, beam=5)),
        "beam5, int8": (compact, replace(config, beam=5)),
        "beam5, int8, shortlist": (fast, replace(config, beam=5)),
    }
    return [
        Decoding(name, partial(translate_documents, system, [source], config))
        for name, (system, config) in ways.items()
    ]


def documents(material: Material, sentences: int) -> dict[int, Decoding]:
    """One pass over the same sentences in documents of each size, both memories, greedily."""
    config = replace(material.config.model, context="none", memory="both", fusion="context")
    base = material.model(config.without_context(), material.config.stage1).eval()
    model = material.model(config, material.config.stage2).eval()
    system = System(model, base, SentenceVectors(material.sizes[0], config))
    source = source_of(material.corpus, sentences)
    search = replace(search_config(material), beam=1, passes=1)
    return {
        size: Decoding(
            str(size),
            partial(
                translate_documents,
                system,
                [source[start : start + size] for start in range(0, sentences, size)],
                search,
            ),
        )
        for size in DOCUMENT_SIZES
        if size <= sentences
    }


def source_of(corpus: EncodedCorpus, sentences: int) -> list[list[int]]:
    """So many source sentences, from the beginning again where there are fewer."""
    return [corpus.src(t % len(corpus)).tolist() for t in range(sentences)]


def search_config(material: Material) -> SearchConfig:
    """How to search. A model that is not trained goes on and on: as many words as the source."""
    config = replace(material.config.search, order="parallel", shuffle_memory=False)
    if material.weights is None:
        config = replace(config, max_length_factor=1.0, max_length_extra=0)
    return config


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    peak: float
    """Multiplications and additions per second of the best matrix product, the median."""
    train: dict[str, dict[str, float]]
    """Of each configuration and variant: words per second, share of the peak, cost of a word."""
    batches: dict[int, float]
    """Trained words per second for each size of batch."""
    decode: dict[str, dict[str, float]]
    """Of each way to search: words and sentences per second."""
    lengths: dict[int, float]
    """CPU seconds per sentence for documents of each size."""

    def to_json(self) -> dict[str, Any]:
        """The names that the command line promises."""
        costs = {name: row["cost"] for name, row in self.train.items() if _BOTH in name}
        return {
            "peak_gflops": self.peak / 1e9,
            "flops": FORMULA,
            "train": self.train,
            "document_cost_ratio": max(costs.values()),
            "batch_tokens": self.batches,
            "decode": self.decode,
            "document_length": self.lengths,
            "peak_rss_mb": peak_rss_mb(),
        }


def run_bench(run: Path | None, names: Sequence[str], rounds: int, sentences: int) -> Bench:
    """Measure a run, or shipped configurations with made-up text; the first one in every way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as directory, tiny_numbers_as_zero():
            if run is not None:
                materials = [run_material(Run(run))]
            else:
                materials = [shipped_material(name, Path(directory, name)) for name in names]
            return _measure(materials, rounds, sentences)
    finally:
        torch.set_num_threads(threads)


def _measure(materials: Sequence[Material], rounds: int, sentences: int) -> Bench:
    first = materials[0]
    contenders = [
        sentence_contender(first),
        sentence_contender(first, plain=True),
        *(document_contender(first, fusion) for fusion in ("context", "output")),
        *(sentence_contender(material) for material in materials[1:]),
    ]
    peaks = take_turns(contenders, rounds)
    train = {
        contender.name: {
            "words_per_second": 1 / median(contender.costs),
            "peak_ratio": median(
                flops / seconds / peak
                for flops, seconds, peak in zip(
                    contender.flops, contender.seconds, peaks, strict=True
                )
            ),
            "cost": median(
                cost / base for cost, base in zip(contender.costs, contenders[0].costs, strict=True)
            ),
        }
        for contender in contenders
    }
    del contenders
    sweep = {size: sentence_contender(first, batch=size) for size in BATCHES}
    take_turns(list(sweep.values()), rounds)
    ways = searches(first, min(sentences, SEARCHED))
    sizes = documents(first, sentences)
    for number in range(rounds):
        say(f"searching, round {number + 1} of {rounds}")
        for way in ways:
            way.round()
    for size, decoding in sizes.items():
        say(f"translating {sentences:,} sentences, {size:,} to a document")
        decoding.round()
    return Bench(
        median(peaks),
        train,
        {size: 1 / median(contender.costs) for size, contender in sweep.items()},
        {
            way.name: {
                "words_per_second": way.words / median(way.seconds),
                "sentences_per_second": way.sentences / median(way.seconds),
            }
            for way in ways
        },
        {size: median(d.seconds) / d.sentences for size, d in sizes.items()},
    )


def print_bench(bench: Bench) -> None:
    """Tables for people."""
    print(
        f"peak: {bench.peak / 1e9:.0f} GFLOP/s, 32-bit product of {PEAK_SIZE}² matrices, 1 thread"
    )
    print(f"\n{'training':36} {'words/s':>8} {'of peak':>8} {'cost of a word':>15}")
    for name, row in bench.train.items():
        share = f"{100 * row['peak_ratio']:.0f} %"
        print(f"{name:36} {row['words_per_second']:8.0f} {share:>8} {row['cost']:14.2f}x")
    print(f"operations: {FORMULA}")
    print(f"\n{'batch_tokens':36} {'words/s':>8}")
    for size, speed in bench.batches.items():
        print(f"{size:<36,} {speed:8.0f}")
    base = next(iter(bench.decode.values()))["words_per_second"]
    print(f"\n{'searching':36} {'words/s':>8} {'sentences/s':>12}")
    for name, row in bench.decode.items():
        speed = row["words_per_second"]
        print(f"{name:36} {speed:8.0f} {row['sentences_per_second']:12.1f} {speed / base:7.1f}x")
    print(f"\n{'sentences in a document':36} {'ms a sentence':>14}")
    for size, seconds in bench.lengths.items():
        print(f"{size:<36,} {1e3 * seconds:14.1f}")
    print(f"\npeak memory: {peak_rss_mb():,} MiB")
