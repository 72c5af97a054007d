"""``wholedoc bench``: how fast this machine trains and translates, as ratios inside one run.

Everything is measured in CPU seconds of one thread. Contenders take turns, and so does the
machine's best matrix product: whatever slows it down for a while slows all of them. Only the
documents of several lengths, the last and longest part, are translated once each.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from wholedoc.benchmark.speed import (
    FORMULA,
    PEAK_SIZE,
    document_contender,
    length_contenders,
    search_contenders,
    sentence_contender,
)
from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.kernels import describe
from wholedoc.progress import say
from wholedoc.store.run import Run
from wholedoc.training.loop import flush_denormals, peak_rss_mb

SEARCHED = 200
"""Sentences for comparing ways to search."""
TURNS = 3
"""Turns of each contender in a round of training."""

Speeds = dict[str, float]
"""Figures by name, such as ``words_per_second``."""


@dataclass(frozen=True)
class Bench:
    """What was measured, by the names of ``bench --json``."""

    kernels: str
    """What computes the first configuration."""
    peak_gflops: float
    """Speed of the best matrix product, the median over all turns."""
    train: dict[str, Speeds]
    """Of each configuration and variant: words and operations per second, the latter as a share of
    the peak, and the cost of a word beside the first one's."""
    document_cost_ratio: float
    """What a word costs with both memories, beside one of the sentence model; at most."""
    decode: dict[str, Speeds]
    """Of each way to search: words and sentences per second."""
    document_length: dict[int, float]
    """CPU seconds per sentence for documents of each size."""
    peak_rss_mb: int
    flops: str = FORMULA
    """How operations are counted."""


def run_bench(run: Path | None, names: Sequence[str], rounds: int, sentences: int) -> Bench:
    """Measure a run, or shipped configurations with made-up text; the first one in every way."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as directory, flush_denormals():
            if run is not None:
                materials = [run_material(Run(run))]
            else:
                materials = [shipped_material(name, Path(directory, name)) for name in names]
            return _measure(materials, rounds, sentences)
    finally:
        torch.set_num_threads(threads)


def _measure(materials: Sequence[Material], rounds: int, sentences: int) -> Bench:
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
    decode, document_length = _translate(first, rounds, sentences)
    return Bench(
        describe(mixed=mixed),
        median(peaks) / 1e9,
        {c.name: {**c.speed, "cost": c.cost / base.cost} for c in contenders},
        max(contender.cost for contender in memories) / base.cost,
        decode,
        document_length,
        peak_rss_mb(),
    )


def _translate(
    material: Material, rounds: int, sentences: int
) -> tuple[dict[str, Speeds], dict[int, float]]:
    """Speeds of the ways to search, and seconds per sentence in documents of several lengths."""
    ways = search_contenders(material, min(sentences, SEARCHED))
    for number in range(rounds):
        say(f"searching, round {number + 1} of {rounds}")
        for way in ways.values():
            way.turn()
    lengths = length_contenders(material, sentences)
    for size, contender in lengths.items():
        say(f"translating {sentences:,} sentences, {size:,} to a document")
        contender.turn()
    return (
        {name: way.speed for name, way in ways.items()},
        {size: 1 / contender.speed["sentences_per_second"] for size, contender in lengths.items()},
    )


def format_bench(bench: Bench) -> str:
    """Tables for people."""
    first = next(iter(bench.decode.values()))["words_per_second"]
    return "\n".join(
        [
            f"peak: {bench.peak_gflops:.0f} GFLOP/s, 32-bit product of {PEAK_SIZE}² matrices",
            f"kernels: {bench.kernels}; one thread",
            f"\n{'training':36}  words/s  GFLOP/s  of peak  cost of a word",
            *(
                f"{name:36} {row['words_per_second']:8.0f} {row['gflops']:8.1f}"
                f" {100 * row['peak_ratio']:6.0f} % {row['cost']:14.2f}x"
                for name, row in bench.train.items()
            ),
            f"operations: {bench.flops}",
            f"\n{'searching':36}  words/s  sentences/s",
            *(
                f"{name:36} {row['words_per_second']:8.0f} {row['sentences_per_second']:12.1f}"
                f" {row['words_per_second'] / first:7.1f}x"
                for name, row in bench.decode.items()
            ),
            f"\n{'sentences in a document':36} ms per sentence",
            *(f"{size:<36,} {1e3 * s:15.1f}" for size, s in bench.document_length.items()),
            f"\npeak memory: {bench.peak_rss_mb:,} MiB",
        ]
    )
