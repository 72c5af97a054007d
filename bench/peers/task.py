"""What every contender is given and what each has to give back; standard library only.

The modules ``contender_*.py`` run in environments of their own, one step at a time:
``contender_x.py STEP DATA RUN SECONDS RESULT``. ``train`` trains for SECONDS and leaves a model in
RUN, ``score`` finds its perplexity on the dev set, ``decode`` translates the test set. Each writes
its numbers to RESULT. wholedoc has ``trial`` as well: training of which only the speed is wanted.

DATA holds ``{train,dev,test}.{src,trg}`` as text and the same with ``.tok`` as wholedoc's subwords,
which are called ``w4``, ``w5`` and so on and are listed in ``tokens.txt``: with a number in place
of the subword no tool can split, join or normalise anything.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 100
"""Training pairs with more words on a side are left out, for all contenders."""
WARMUP_SHARE = 0.05
"""Part of the time in which the learning rate of peers rises."""
DECODING_BATCH = 16
"""Sentences that Joey NMT and OpenNMT-py translate at once; both are slower with 64."""
STARTING_SHARE = 0.1
"""Part of the time that does not count for the speed: caches and allocators warm up in it."""

Numbers = dict[str, float]


@dataclass(frozen=True)
class Recipe:
    """What the contenders have in common, as in ``configs/small.toml``."""

    hidden: int = 256
    embedding: int = 256
    batch_tokens: int = 1000
    label_smoothing: float = 0.1
    dropout: float = 0.1
    clip: float = 1.0
    seed: int = 1
    beam: int = 5


RECIPE = Recipe()


@dataclass(frozen=True)
class Task:
    """One step's input."""

    data: Path
    run: Path
    seconds: float


def run_step(steps: Mapping[str, Callable[[Task], Numbers]]) -> None:
    """Do what the command line asks for and write the numbers."""
    step, data, run, seconds, result = sys.argv[1:]
    numbers = steps[step](Task(Path(data), Path(run), float(seconds)))
    Path(result).write_text(json.dumps(numbers), encoding="utf-8")


def read_lines(path: Path) -> list[str]:
    """The lines of a file, divided by line feeds and nothing else."""
    return path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: list[str]) -> None:
    """One line each."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass
class Meter:
    """Counts the words of updates, ends training in time, and knows the learning rate.

    The clock starts at the first update, so that loading and building cost nobody anything.
    """

    seconds: float
    highest_rate: float
    """The learning rate after the warm-up."""
    marks: list[tuple[float, int]] = field(default_factory=list)
    """After each update: seconds since the first one began, target words so far."""
    words: int = 0
    begun: float | None = None

    def elapsed(self) -> float:
        """Seconds since the first call."""
        if self.begun is None:
            self.begun = time.monotonic()
        return time.monotonic() - self.begun

    def begin(self, words: int) -> bool:
        """An update over ``words`` target words begins, if there is time; the one before is done.

        The ends of sentences count among the words.
        """
        if self.begun is not None:
            self.marks.append((self.elapsed(), self.words))
        self.words += words
        return self.elapsed() < self.seconds

    def learning_rate(self) -> float:
        """The schedule of ``small``, by the clock: a warm-up, then a cosine that falls to zero."""
        share = min(1.0, self.elapsed() / self.seconds)
        rise = min(1.0, share / WARMUP_SHARE)
        return self.highest_rate * rise * 0.5 * (1 + math.cos(math.pi * share))

    def numbers(self) -> Numbers:
        """The outcome of training."""
        return training_numbers(self.marks, len(self.marks))


def training_numbers(marks: list[tuple[float, int]], updates: int) -> Numbers:
    """Words, seconds and words per second in the steady state, from (seconds, words so far)."""
    end, words = marks[-1] if marks else (0.0, 0)
    steady = [mark for mark in marks[:-1] if mark[0] >= STARTING_SHARE * end]
    if not steady:
        raise SystemExit(f"{len(marks)} update(s), none but the last after the start: no speed")
    start, before = steady[0]
    return {
        "seconds": end,
        "words": words,
        "words_per_second": (words - before) / (end - start),
        "words_per_update": words / updates,
    }


def perplexity_numbers(nats: float, words: int) -> Numbers:
    """The outcome of scoring."""
    return {"nats": nats, "words": words, "perplexity": math.exp(min(nats / words, 700))}


def decoding_numbers(run: Path, output: list[str], seconds: float) -> Numbers:
    """Keep the translations, as names of subwords, and count what was searched for."""
    write_lines(run / "test.tok", output)
    words = sum(len(line.split()) + 1 for line in output)
    return {"seconds": seconds, "sentences": len(output), "words": words}
