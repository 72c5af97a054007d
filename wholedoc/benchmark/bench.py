"""``wholedoc bench``: how fast this machine trains and translates, as ratios inside one run.

Everything is measured in CPU seconds of one thread. Contenders take turns, and so does the
machine's best matrix product: whatever slows it down for a while slows all of them. Only the
documents of several lengths, the last and longest part, are translated once each.
"""

import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from timeit import repeat
from typing import Any

import numpy as np
import torch
from torch import nn

from wholedoc.benchmark.memories import measure_memory
from wholedoc.benchmark.recall import measure_recall
from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.config import FusionName, SearchConfig, StageConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.kernels import ExactProduct, describe, use
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel
from wholedoc.progress import say
from wholedoc.store.run import Run
from wholedoc.store.shortlist import learn_shortlist
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.loop import flush_denormals, peak_rss_mb
from wholedoc.training.objective import DocumentSet
from wholedoc.training.optimisation import make_optimiser, take_step
from wholedoc.training.tasks import Task, document_task, translation_task

PEAK_SIZE = 1024  # rows and columns of the matrices whose product is the machine's peak
WORDS = 1500  # target words of a turn of training; few, as a machine's speed changes all the time
TURNS = 3  # of each contender in a round of training
SEARCHED = 200  # sentences for comparing ways to search
QUERIES = 300  # searches of a translation memory
DOCUMENT_SIZES = (10, 50, 200, 1000, 5000)
Speeds = dict[str, float]  # figures by name, such as words_per_second


@dataclass(frozen=True)
class Bench:
    """What was measured, by the names of ``bench --json``."""

    kernels: str  # what computes the first configuration
    peak_gflops: float  # speed of the best matrix product, the median over all turns
    train: dict[str, Speeds]
    """Of each configuration and variant: words per second, operations per second as a share of the
    peak, and the CPU seconds of a word beside the first one's."""
    document_cost_ratio: float  # of both memories and the sentence model, the larger one
    decode: dict[str, Speeds]  # of each way to search: words and sentences per second
    document_length: dict[int, float]  # CPU seconds per sentence for documents of each size
    recall: dict[str, float]  # what known pairs cost in search: see RecallCost
    memory: dict[str, float]  # building and searching a translation memory: see measure_memory
    peak_rss_mb: int


def run_bench(
    run: Path | None, names: Sequence[str], rounds: int, sentences: int, remembered: int
) -> Bench:
    """Measure a run, or shipped configurations with made-up text; the first one in every way.

    The translation memory that is built and searched has so many ``remembered`` pairs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as directory, flush_denormals():
            place = Path(directory)
            materials = [run_material(Run(run))] if run is not None else []
            materials = materials or [shipped_material(name, place / name) for name in names]
            return _measure(materials, rounds, sentences, remembered, place)
    finally:
        torch.set_num_threads(threads)


def _measure(
    materials: Sequence[Material], rounds: int, sentences: int, remembered: int, place: Path
) -> Bench:
    """The first material in every way, the others as sentence models."""
    first, *others = materials
    mixed = first.config.stage1.precision == "mixed"
    base = sentence_contender(first)
    memories = [document_contender(first, "context"), document_contender(first, "output")]
    contenders = [base, sentence_contender(first, by_torch=True, single=True), *memories]
    if mixed:
        contenders.append(sentence_contender(first, single=True))
    contenders += [sentence_contender(material) for material in others]
    peaks = []
    for number in range(rounds):
        say(f"training, round {number + 1} of {rounds}")
        peaks += [contender.turn() for _ in range(TURNS) for contender in contenders]
    train = {contender.name: contender.speed for contender in contenders}
    for speed in train.values():
        speed["cost"] = train[base.name]["words_per_second"] / speed["words_per_second"]
    return Bench(
        describe(mixed=mixed),
        median(peaks) / 1e9,
        train,
        max(train[contender.name]["cost"] for contender in memories),
        _search(first, rounds, min(sentences, SEARCHED)),
        _translate_documents(first, sentences),
        measure_recall(first, rounds, min(sentences, SEARCHED), place)._asdict(),
        _measure_memory(remembered, place),
        peak_rss_mb(),
    )


def _measure_memory(pairs: int, place: Path) -> dict[str, float]:
    say(f"building and searching a translation memory of {pairs:,} pairs")
    return measure_memory(pairs, QUERIES, place)


# Training.


@dataclass(frozen=True)
class TextSize:
    """The size of some sentence pairs."""

    sentences: int
    src_words: int
    trg_words: int
    pairs: int  # of a source and a target word of the same sentence


def size_of(corpus: EncodedCorpus, update: Any) -> TextSize:
    """The size of an update: the sentences of a batch, or of a tuple of documents."""
    sentences = np.concatenate([np.atleast_1d(part) for part in update])
    src, trg = (lengths[sentences] for lengths in (corpus.src_lengths, corpus.trg_lengths))
    pairs = int((src.astype(np.int64) * trg).sum())
    return TextSize(len(src), int(src.sum()), int(trg.sum()), pairs)


def training_flops(model: TranslationModel, text: TextSize) -> float:
    """How many operations matrix products take: nothing for padding and what is computed twice.

    2 for multiplying and adding · 3 for the forward pass and both gradients · (source words ·
    weights of encoder and attention keys + target words · weights of decoder and output layer +
    pairs of source and target word · (A + 2H) + sentences · weights of memories and fusions).
    """
    encoder, decoder = model.encoder, model.decoder
    attention, lower, upper = decoder.attention, decoder.lower, decoder.upper
    src = (*encoder.rnn.children(), attention.key)
    states = (attention.query, lower.state, decoder.between, upper.state)
    trg = (*states, decoder.word, decoder.context, *decoder.output.children())
    known = {id(layer) for layer in (*src, *trg, attention.score)}
    others = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in known]
    words = text.src_words * weights_of(*src) + text.trg_words * weights_of(*trg)
    pairs = text.pairs * (attention.score.weight.numel() + 2 * encoder.rnn.hidden)
    return 6.0 * (words + pairs + text.sentences * weights_of(*others))


def weights_of(*layers: nn.Module) -> int:
    """How many weights the matrices of some layers have."""
    return sum(p.numel() for layer in layers for p in layer.parameters() if p.dim() == 2)


def peak_flops() -> float:
    """Operations per second of a large 32-bit product, by PyTorch or compiled if that is faster."""
    ones = torch.ones(PEAK_SIZE, PEAK_SIZE)
    products = [ExactProduct(ones)]
    with use("torch"):
        products.append(ExactProduct(ones))
    turns = [repeat(partial(p, ones), timer=time.process_time, number=1) for p in products]
    return 2 * PEAK_SIZE**3 / min(median(seconds) for seconds in turns)


@dataclass
class TrainingContender:
    """A stage being trained, and the cost of each of its turns."""

    name: str
    task: Task
    model: TranslationModel
    config: StageConfig
    corpus: EncodedCorpus
    by_torch: bool = False  # even where there are compiled kernels
    seconds: float = 0.0
    words: int = 0
    flops: float = 0.0
    flops_at_peak: float = 0.0  # what the best matrix product would have done in the same time

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.config, self.model.parameters())
        self._updates = (update for epoch in count(1) for update in self.task.updates(epoch))
        self.model.train()
        self.update()  # allocators and caches warm up
        self.optimiser.zero_grad()  # until its first turn

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
            self.task.backward(update, ProcessGroup())
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch.nn.utils.get_total_norm(gradients).item()
        take_step(self.optimiser, 1e-3)  # any rate: it is the time that counts
        return time.process_time() - start, size_of(self.corpus, update)

    @property
    def speed(self) -> Speeds:
        """Over all turns, as each has other sentences."""
        ratio = self.flops / self.flops_at_peak
        return {"words_per_second": self.words / self.seconds, "peak_ratio": ratio}


def sentence_contender(
    material: Material, *, by_torch: bool = False, single: bool = False
) -> TrainingContender:
    """Stage 1 as configured, or ``by_torch`` alone, or ``single``: in 32 bits."""
    config = material.config
    stage1 = replace(config.stage1, precision="single") if single else config.stage1
    name = material.name + (", by PyTorch" if by_torch else "")
    name += ", in 32 bits" if stage1 != config.stage1 else ""
    model = material.model(config.model.without_context(), stage1.dropout)
    corpora = material.corpus, material.corpus
    task = translation_task(model, corpora, stage1, config.seed)
    return TrainingContender(name, task, model, stage1, material.corpus, by_torch)


def document_contender(material: Material, fusion: FusionName) -> TrainingContender:
    """Stage 2 with both memories, of random vectors: its cost does not depend on them."""
    config, stage2 = material.config, material.config.stage2
    settings = replace(config.model, context="none", memory="both", fusion=fusion)
    random = np.random.default_rng(config.seed)
    rows = random.standard_normal((len(material.corpus), 3 * settings.hidden), dtype=np.float32)
    vectors, states = np.split(rows, [2 * settings.hidden], axis=1)
    data = DocumentSet(material.corpus, vectors, states)
    model = material.model(settings, *stage2.dropouts(settings))
    task = document_task(model, data, data, stage2, config.seed)
    name = f"{material.name}, both memories, {fusion}"
    return TrainingContender(name, task, model, stage2, material.corpus)


# Search.


def search_speed(
    system: TranslationSystem, documents: list[list[list[int]]], config: SearchConfig
) -> Speeds:
    """Words and sentences per second while all documents are translated once."""
    start = time.process_time()
    done = translate_documents(system, documents, config, measure=False)
    seconds = time.process_time() - start
    best = [hypotheses[0] for document in done for hypotheses in document.passes[-1]]
    words = sum(len(hypothesis.tokens) + 1 for hypothesis in best)
    return {"words_per_second": words / seconds, "sentences_per_second": len(best) / seconds}


def _search(material: Material, rounds: int, sentences: int) -> dict[str, Speeds]:
    """The median speeds of the ways to search with the sentence model."""
    model = material.model(material.config.model.without_context()).eval()
    exact = TranslationSystem(model, model)
    compact = replace(exact, int8=True)
    fast = replace(compact, shortlist=learn_shortlist(material.corpus, material.sizes, 20, 200))
    beam5 = replace(material.search, beam=5)
    ways = {
        "beam5, one by one": (exact, replace(beam5, batch_tokens=1)),
        "greedy": (exact, replace(beam5, beam=1)),
        "beam5": (exact, beam5),
        "beam5, int8": (compact, beam5),
        "beam5, int8, shortlist": (fast, beam5),
    }
    documents, turns = [material.source(sentences)], []
    for number in range(rounds):
        say(f"searching, round {number + 1} of {rounds}")
        turns.append({n: search_speed(way, documents, search) for n, (way, search) in ways.items()})
    return {
        name: {figure: median(turn[name][figure] for turn in turns) for figure in turns[0][name]}
        for name in ways
    }


def _translate_documents(material: Material, sentences: int) -> dict[int, float]:
    """Seconds per sentence of one greedy pass with both memories, in documents of each size."""
    config = replace(material.config.model, context="none", memory="both", fusion="context")
    model, base = (material.model(c).eval() for c in (config, config.without_context()))
    system = TranslationSystem(model, base, SentenceVectors(material.sizes[0], config))
    greedy, source = replace(material.search, beam=1, passes=1), material.source(sentences)
    found = {}
    for size in (size for size in DOCUMENT_SIZES if size <= sentences):
        say(f"translating {sentences:,} sentences, {size:,} to a document")
        documents = [source[start : start + size] for start in range(0, sentences, size)]
        found[size] = 1 / search_speed(system, documents, greedy)["sentences_per_second"]
    return found


def format_bench(bench: Bench) -> str:
    """Tables for people."""
    lines = [
        f"peak: {bench.peak_gflops:.0f} GFLOP/s, 32-bit product of {PEAK_SIZE}² matrices",
        f"kernels: {bench.kernels}; one thread",
        f"\n{'training':36}  words/s  of peak  cost of a word",
    ]
    for name, row in bench.train.items():
        lines.append(f"{name:36} {row['words_per_second']:8.0f}")
        lines[-1] += f" {100 * row['peak_ratio']:6.0f} % {row['cost']:14.2f}x"
    lines.append(f"\n{'searching':36}  words/s  sentences/s")
    first = next(iter(bench.decode.values()))["words_per_second"]
    for name, row in bench.decode.items():
        lines.append(f"{name:36} {row['words_per_second']:8.0f}")
        lines[-1] += f" {row['sentences_per_second']:12.1f} {row['words_per_second'] / first:7.1f}x"
    lines.append(f"\n{'sentences in a document':36} ms per sentence")
    lines += [f"{size:<36,} {1e3 * s:15.1f}" for size, s in bench.document_length.items()]
    recall, memory = bench.recall, bench.memory
    lines += [
        f"\n{'recall of known pairs':36} beside search without",
        f"{'pairs of a sentence, at most':36} {recall['pairs']:15}",
        f"{'cells of a sentence':36} {recall['cells']:15.0f}",
        f"{'time, with a memory read before':36} {recall['ratio']:14.2f}x",
        f"{'time, with a memory not read before':36} {recall['ratio_unread']:14.2f}x",
        f"{'of it finding pairs, ms a sentence':36} {recall['finding_ms']:15.1f}",
        f"{'more memory, MiB':36} {recall['rss_mb']:15.0f}",
        f"\n{'translation memory, pairs':36} {memory['pairs']:15,}",
        f"{'building, pairs/s':36} {memory['pairs_per_second']:15,.0f}",
        f"{'a search, ms':36} {memory['search_ms_p50']:15.1f}",
        f"{'95 of 100 searches, ms at most':36} {memory['search_ms_p95']:15.1f}",
    ]
    return "\n".join([*lines, f"\npeak memory: {bench.peak_rss_mb:,} MiB"])
