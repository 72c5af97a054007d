"""What a document model costs beside the sentence model inside it.

``document_cost.py --run DIR`` takes corpus, vocabularies and configuration from a run directory and
writes nothing into it. Training: seconds per target word of stage 2, for each memory and fusion,
over those of stage 1, backward pass and optimiser included. Decoding: seconds per sentence and per
word of documents of 10 to 5,000 sentences, all with the same sentences. The sentence model
is that of stage 1, where it is trained; sentence vectors, last states and the weights of memories
are random numbers: cost does not depend on them.

Seconds are those of one thread on a CPU, not counting when other processes had it. Contenders
take turns, so that whatever slows the machine down for a while slows all of them.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from wholedoc.config import (
    Config,
    DocumentStageConfig,
    FusionName,
    MemoryName,
    ModelConfig,
    StageConfig,
)
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.decoding.descent import System, translate_documents
from wholedoc.errors import UserError
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.checkpoint import load_known_weights
from wholedoc.training.distribution import World
from wholedoc.training.loop import Task
from wholedoc.training.optimisation import make_optimiser
from wholedoc.training.run import Run
from wholedoc.training.tasks import DocumentSet, DocumentTask, Sets, Stage, translation_task

MEMORIES: tuple[MemoryName, ...] = ("src", "trg", "both")
FUSIONS: tuple[FusionName, ...] = ("context", "output")
Variant = tuple[MemoryName, FusionName]
WORDS_PER_ROUND = 8000
DOCUMENT_SIZES = (10, 50, 200, 1000, 5000)


@dataclass
class Contender:
    """A task being trained, and the cost of what it has done."""

    name: str
    task: Task
    config: StageConfig
    seconds: float = 0.0
    words: int = 0
    per_word: list[float] = field(default_factory=list)
    """Seconds per target word in each round."""

    def __post_init__(self) -> None:
        self.optimiser = make_optimiser(self.config, self.task.model.parameters())
        self.work = self._endless_updates()
        self.task.model.train()

    def _endless_updates(self) -> Iterator[Any]:
        for epoch in count(1):
            yield from self.task.updates(epoch)

    def update(self) -> None:
        """What the training loop does for one update."""
        work = next(self.work)
        start = time.process_time()
        self.optimiser.zero_grad()
        for loss in self.task.losses(work, World()):
            loss.smoothed.backward()  # type: ignore[no-untyped-call]
            self.words += loss.words
        gradients = [p.grad for p in self.task.model.parameters() if p.grad is not None]
        torch.nn.utils.get_total_norm(gradients).item()
        torch._foreach_mul_(gradients, 0.001)  # any number: it is the time that counts
        self.optimiser.step()
        self.seconds += time.process_time() - start

    def finish_round(self) -> None:
        """Note the cost of a word in this round and begin the next."""
        self.per_word.append(self.seconds / self.words)
        self.seconds, self.words = 0.0, 0


def measure_training(run: Run, rounds: int, variants: list[Variant]) -> list[Contender]:
    config = run.load_config()
    corpus = run.load_corpus("train")
    contenders = [sentence_contender(run, config, corpus)]
    contenders += [document_contender(run, config, corpus, *variant) for variant in variants]
    for contender in contenders:  # allocators and caches warm up
        contender.update()
        contender.seconds, contender.words = 0.0, 0
    for _ in range(rounds):
        while (least := min(contenders, key=lambda c: c.words)).words < WORDS_PER_ROUND:
            least.update()
        for contender in contenders:
            contender.finish_round()
    return contenders


def sentence_contender(run: Run, config: Config, corpus: EncodedCorpus) -> Contender:
    model = make_model(run, config.model.without_context(), config.stage1)
    stage = Stage("stage1", config.stage1, config.seed)
    return Contender(
        "sentence", translation_task(stage, model, Sets(corpus, corpus)), config.stage1
    )


def document_contender(
    run: Run, config: Config, corpus: EncodedCorpus, memory: MemoryName, fusion: FusionName
) -> Contender:
    settings = replace(config.model, context="none", memory=memory, fusion=fusion)
    model = make_model(run, settings, config.stage2)
    random = np.random.default_rng(config.seed)
    vectors, states = (
        random.standard_normal((len(corpus), width), dtype=np.float32)
        for width in (2 * settings.hidden, settings.hidden)
    )
    data = DocumentSet(corpus, vectors, states)
    task = DocumentTask(model, data, data, config.stage2, config.seed)
    return Contender(f"{memory}, {fusion}", task, config.stage2)


def make_model(run: Run, config: ModelConfig, stage: StageConfig) -> TranslationModel:
    """A model with the weights of stage 1, if there are any, and others at random."""
    src, trg = run.load_vocabularies()
    rnn_dropout = stage.document_dropout if isinstance(stage, DocumentStageConfig) else 0.0
    model = TranslationModel(config, len(src), len(trg), stage.dropout, rnn_dropout)
    initialise(model, seed=1)
    if (weights := run.stage("stage1").best).exists():
        load_known_weights(weights, model)
    return model


@dataclass(frozen=True)
class Decoding:
    """The cost of greedy decoding for documents of one size."""

    size: int
    sentences: int
    words: int
    seconds: float


def measure_decoding(run: Run, sentences: int) -> list[Decoding]:
    config = run.load_config()
    system = make_system(run, config)
    corpus = run.load_corpus("train")
    source = [corpus.src(t % len(corpus)).tolist() for t in range(sentences)]
    search = replace(config.search, beam=1, passes=1, order="parallel", shuffle_memory=False)
    translate_documents(system, [source[:50]], search)  # warms up
    found = []
    for size in DOCUMENT_SIZES:
        if size > sentences:
            break
        documents = [source[start : start + size] for start in range(0, sentences, size)]
        start = time.process_time()
        walks = translate_documents(system, documents, search)
        seconds = time.process_time() - start
        words = sum(len(best[0].tokens) + 1 for walk in walks for best in walk.passes[-1])
        found.append(Decoding(size, sentences, words, seconds))
    return found


def make_system(run: Run, config: Config) -> System:
    """The sentence model of the run, and a document model on top of it."""
    base = make_model(run, config.model.without_context(), config.stage1)
    model = make_model(run, config.model, config.stage2)
    src, _ = run.load_vocabularies()
    vectors = SentenceVectors(len(src), config.model) if config.model.reads_source else None
    return System(model.eval(), base.eval(), vectors)


def print_training(contenders: list[Contender]) -> list[dict[str, Any]]:
    print(f"{'training':16} {'words/s':>8} {'cost per word':>14}")
    base = contenders[0].per_word
    rows = []
    for contender in contenders:
        ratio = median(c / b for c, b in zip(contender.per_word, base, strict=True))
        speed = 1 / median(contender.per_word)
        print(f"{contender.name:16} {speed:8.0f} {ratio:13.2f}x")
        rows.append({"name": contender.name, "words_per_second": speed, "cost": ratio})
    return rows


def print_decoding(found: list[Decoding]) -> list[dict[str, Any]]:
    print(f"\n{'sentences/doc.':16} {'ms/sentence':>12} {'ms/word':>8} {'words/sentence':>15}")
    rows = []
    for row in found:
        per_sentence, per_word = row.seconds / row.sentences, row.seconds / row.words
        length = row.words / row.sentences
        print(f"{row.size:<16} {1e3 * per_sentence:12.1f} {1e3 * per_word:8.3f} {length:15.1f}")
        rows.append(
            {"size": row.size, "seconds_per_sentence": per_sentence, "seconds_per_word": per_word}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", type=Path, required=True, help="a directory of `wholedoc train`")
    parser.add_argument("--rounds", type=int, default=20, help="of 8,000 words per contender")
    parser.add_argument("--sentences", type=int, default=5000, help="to decode, of each size")
    parser.add_argument("--quick", action="store_true", help="both memories, few rounds, short")
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    run = Run(options.run)
    variants: list[Variant] = [(memory, fusion) for fusion in FUSIONS for memory in MEMORIES]
    rounds, sentences = options.rounds, options.sentences
    if options.quick:
        rounds, sentences = 5, min(1000, sentences)
        variants = [variant for variant in variants if variant[0] == "both"]
    training = print_training(measure_training(run, rounds, variants))
    decoding = print_decoding(measure_decoding(run, sentences)) if sentences else []
    if options.json:
        result = {"training": training, "decoding": decoding}
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"document_cost.py: {error}")
