"""The speed of training, as a share of the best matrix product and beside other ways to train."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import numpy as np
import torch

from wholedoc.benchmark.flops import Text, training_flops
from wholedoc.benchmark.workload import Material
from wholedoc.config import FusionName, StageConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.kernels import ExactProduct, describe, use
from wholedoc.model.translation import TranslationModel
from wholedoc.progress import say
from wholedoc.training.distribution import World
from wholedoc.training.loop import Task, add_gradients
from wholedoc.training.optimisation import make_optimiser, take_step
from wholedoc.training.tasks import DocumentSet, DocumentTask, Sets, Stage, translation_task

PEAK_SIZE = 1024
"""Rows and columns of the matrices whose product is the machine's peak."""
WORDS = 1500
"""Target words of a turn of training, at least; few, as a machine's speed changes all the time."""
TURNS = 3
"""Turns of each contender in a round."""


@dataclass
class Contender:
    """A task being trained, and the cost of what it has done."""

    name: str
    task: Task
    model: TranslationModel
    config: StageConfig
    corpus: EncodedCorpus
    plain: bool = False
    """Whether PyTorch computes, even where there are compiled kernels."""
    seconds: list[float] = field(default_factory=list)
    """CPU seconds of each turn."""
    words: list[int] = field(default_factory=list)
    """Target words of each turn."""
    flops: list[float] = field(default_factory=list)
    """Multiplications and additions that the formulas ask for, of each turn."""
    peaks: list[float] = field(default_factory=list)
    """The machine's best matrix product just before each turn."""

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.config, self.model.parameters())
        self.work = self._endless_updates()
        self.model.train()
        self._train()  # allocators and caches warm up

    def _endless_updates(self) -> Iterator[Any]:
        for epoch in count(1):
            yield from self.task.updates(epoch)

    def update(self) -> tuple[float, Any]:
        """What the training loop does for one update: its seconds, and what it was about."""
        work = next(self.work)
        start = time.process_time()
        self.optimiser.zero_grad()
        with use("torch") if self.plain else nullcontext():
            add_gradients(self.task, work, World(), self.config)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        torch.nn.utils.get_total_norm(gradients).item()
        take_step(self.optimiser, 1e-3)  # any number: it is the time that counts
        return time.process_time() - start, work

    def turn(self) -> None:
        """The peak, then some updates."""
        self.peaks.append(peak_flops())
        seconds, text = self._train()
        self.seconds.append(seconds)
        self.words.append(text.trg_words)
        self.flops.append(training_flops(self.model, text))

    def _train(self) -> tuple[float, Text]:
        """Updates until enough words are done: their seconds and size."""
        seconds, text = 0.0, Text()
        while text.trg_words < max(WORDS, self.config.batch_tokens):
            spent, work = self.update()
            seconds += spent
            text += text_of(self.corpus, work)
        self.optimiser.zero_grad()  # while others have their turn
        return seconds, text

    @property
    def cost(self) -> float:
        """CPU seconds of a target word, over all turns, as each has other sentences."""
        return sum(self.seconds) / sum(self.words)

    @property
    def speed(self) -> dict[str, float]:
        """Over all turns: words and operations per second, and these as a share of the peak."""
        flops = sum(self.flops)
        at_peak = sum(s * peak for s, peak in zip(self.seconds, self.peaks, strict=True))
        return {
            "words_per_second": 1 / self.cost,
            "gflops": 1e-9 * flops / sum(self.seconds),
            "peak_ratio": flops / at_peak,
        }


def text_of(corpus: EncodedCorpus, work: Any) -> Text:
    """The size of an update: sentences of a batch, or of documents."""
    sentences = [t for document in work for t in document] if isinstance(work, tuple) else work
    src, trg = (lengths[sentences] for lengths in (corpus.src_lengths, corpus.trg_lengths))
    return Text(len(src), int(src.sum()), int(trg.sum()), int((src.astype(np.int64) * trg).sum()))


def peak_flops() -> float:
    """Multiplications and additions per second of a large product of matrices in 32 bits.

    That of torch or the compiled one, whichever is faster here, whatever training takes.
    """
    a, b = torch.ones(PEAK_SIZE, PEAK_SIZE), torch.ones(PEAK_SIZE, PEAK_SIZE)
    products = [ExactProduct(b)]
    if describe() != "torch":
        with use("torch"):
            products.append(ExactProduct(b))
    return 2 * PEAK_SIZE**3 / min(_seconds(partial(product, a)) for product in products)


def _seconds(run: Callable[[], Any]) -> float:
    """CPU seconds of a call, the median of a few after a first one."""
    run()
    found = []
    for _ in range(5):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return median(found)


def take_turns(contenders: Sequence[Contender], rounds: int) -> None:
    """Rounds of all contenders, one after the other in each turn."""
    for number in range(rounds):
        for _ in range(TURNS):
            for contender in contenders:
                contender.turn()
        say(f"training, round {number + 1} of {rounds}")


def sentence_contender(
    material: Material, *, plain: bool = False, single: bool = False, batch: int = 0
) -> Contender:
    """Stage 1; ``plain`` by PyTorch with the decoder's readable loop, ``batch`` with other batches.

    Products of a ``single`` one, and of the plain loop, are in 32 bits, whatever is configured.
    """
    config = material.config
    stage1 = replace(config.stage1, batch_tokens=batch) if batch else config.stage1
    mixed = stage1.precision == "mixed"
    if single or plain:
        stage1 = replace(stage1, precision="single")
    model = material.model(config.model.without_context(), stage1)
    exact = mixed and stage1.precision == "single"
    ways = [(", plain loop", plain), (", in 32 bits", exact), (f", {batch}", batch)]
    name = material.name + "".join(way for way, taken in ways if taken)
    stage = Stage("stage1", stage1, config.seed)
    task = translation_task(stage, model, Sets(material.corpus, material.corpus))
    return Contender(name, task, model, stage1, material.corpus, plain)


def document_contender(material: Material, fusion: FusionName) -> Contender:
    """Stage 2 with both memories, made of random numbers: cost does not depend on them.

    Without a fusion it is the control, the sentence model trained on the same documents.
    """
    config = material.config
    settings = replace(config.model.without_context(), context="more")
    name = f"{material.name}, documents"
    if fusion != "none":
        settings = replace(config.model, context="none", memory="both", fusion=fusion)
        name = f"{material.name}, both memories, {fusion}"
    random = np.random.default_rng(config.seed)
    vectors, states = (
        random.standard_normal((len(material.corpus), width), dtype=np.float32)
        for width in (2 * settings.hidden, settings.hidden)
    )
    data = DocumentSet(material.corpus, vectors, states)
    model = material.model(settings, config.stage2)
    task = DocumentTask(model, data, data, config.stage2, config.seed)
    return Contender(name, task, model, config.stage2, material.corpus)
