"""How fast this machine trains and translates, as ratios that mean something on a busy one.

Everything is measured in CPU seconds of one thread. Contenders take turns, and so does the
machine's best matrix product: whatever slows it down for a while slows all of them. Only the
documents of several lengths, the last and longest part, are translated once each.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from wholedoc.benchmark.flops import FORMULA
from wholedoc.benchmark.search_speed import documents, searches
from wholedoc.benchmark.training_speed import (
    PEAK_SIZE,
    document_contender,
    sentence_contender,
    take_turns,
)
from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.kernels import describe
from wholedoc.progress import say
from wholedoc.store.run import Run
from wholedoc.training.loop import peak_rss_mb, tiny_numbers_as_zero

BATCHES = (500, 1000, 2000, 4000)
SEARCHED = 200
"""Sentences for comparing ways to search."""


@dataclass(frozen=True)
class Training:
    """What was measured of training."""

    peak: float
    """Multiplications and additions per second of the best matrix product, the median."""
    speeds: dict[str, dict[str, float]]
    """Of each configuration and variant: words and operations per second, the latter as a share of
    the peak, and the cost of a word beside the first one's."""
    document_cost: float
    """What a word costs with both memories, beside one of the sentence model; at most."""
    memory_cost: float
    """The same beside the sentence model trained on the same documents."""
    kernels: str
    """What computes the first configuration."""


@dataclass(frozen=True)
class Bench:
    """What was measured."""

    training: Training
    batches: dict[str, dict[int, dict[str, float]]]
    """Of each configuration and size of batch: the same, without the cost."""
    decode: dict[str, dict[str, float]]
    """Of each way to search: words and sentences per second."""
    lengths: dict[int, float]
    """CPU seconds per sentence for documents of each size."""

    def to_json(self) -> dict[str, Any]:
        """The names that the command line promises."""
        return {
            "kernels": self.training.kernels,
            "peak_gflops": self.training.peak / 1e9,
            "flops": FORMULA,
            "train": self.training.speeds,
            "document_cost_ratio": self.training.document_cost,
            "memory_cost_ratio": self.training.memory_cost,
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
    training = _train(materials, rounds)
    batches = {material.name: _sweep(material, rounds) for material in materials}
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
        training,
        batches,
        {
            way.name: {
                "words_per_second": way.words / median(way.seconds),
                "sentences_per_second": way.sentences / median(way.seconds),
            }
            for way in ways
        },
        {size: median(d.seconds) / d.sentences for size, d in sizes.items()},
    )


def _train(materials: Sequence[Material], rounds: int) -> Training:
    """The first material in every way, the others as sentence models."""
    first = materials[0]
    base, plain = sentence_contender(first), sentence_contender(first, plain=True)
    control, *both = (document_contender(first, way) for way in ("none", "context", "output"))
    others = [sentence_contender(material) for material in materials[1:]]
    mixed = first.config.stage1.precision == "mixed"
    if mixed:
        others.insert(0, sentence_contender(first, single=True))
    contenders = [base, plain, control, *both, *others]
    take_turns(contenders, rounds)
    dearest = max(contender.cost for contender in both)
    return Training(
        median(peak for contender in contenders for peak in contender.peaks),
        {
            contender.name: {**contender.speed, "cost": contender.cost / base.cost}
            for contender in contenders
        },
        dearest / base.cost,
        dearest / control.cost,
        describe(mixed=mixed),
    )


def _sweep(material: Material, rounds: int) -> dict[int, dict[str, float]]:
    """The sentence model with batches of several sizes."""
    contenders = {size: sentence_contender(material, batch=size) for size in BATCHES}
    take_turns(list(contenders.values()), rounds)
    return {size: contender.speed for size, contender in contenders.items()}


def print_bench(bench: Bench) -> None:
    """Tables for people."""
    training = bench.training
    peak = f"{training.peak / 1e9:.0f} GFLOP/s"
    print(f"peak: {peak}, 32-bit product of {PEAK_SIZE}² matrices, 1 thread")
    print(f"kernels: {training.kernels}")
    columns = f"{'words/s':>8} {'GFLOP/s':>8} {'of peak':>8}"
    print(f"\n{'training':36} {columns} {'cost of a word':>15}")
    for name, row in training.speeds.items():
        print(f"{name:36} {_speed(row)} {row['cost']:14.2f}x")
    print(f"both memories beside the same documents without: {training.memory_cost:.2f}x at most")
    print(f"operations: {FORMULA}")
    for name, sizes in bench.batches.items():
        print(f"\n{f'{name}, batch_tokens':36} {columns}")
        for size, row in sizes.items():
            print(f"{size:<36,} {_speed(row)}")
    base = next(iter(bench.decode.values()))["words_per_second"]
    print(f"\n{'searching':36} {'words/s':>8} {'sentences/s':>12}")
    for name, row in bench.decode.items():
        speed = row["words_per_second"]
        print(f"{name:36} {speed:8.0f} {row['sentences_per_second']:12.1f} {speed / base:7.1f}x")
    print(f"\n{'sentences in a document':36} {'ms a sentence':>14}")
    for size, seconds in bench.lengths.items():
        print(f"{size:<36,} {1e3 * seconds:14.1f}")
    print(f"\npeak memory: {peak_rss_mb():,} MiB")


def _speed(row: dict[str, float]) -> str:
    return f"{row['words_per_second']:8.0f} {row['gflops']:8.1f} {100 * row['peak_ratio']:6.0f} %"
