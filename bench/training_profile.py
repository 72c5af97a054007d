"""Where the time of training goes: CPU milliseconds of one update, by parts.

``python bench/training_profile.py [small|paper] [--run RUN]`` trains the sentence model in 32 bits
for some updates with clocks around the compiled kernels: a shipped configuration with made-up text,
or the corpus and weights of a run. Beside the time of each part stands what its matrix products
would take at the speed of the machine's best one. It needs the compiled kernels.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from wholedoc.benchmark.bench import (
    TextSize,
    TrainingContender,
    peak_flops,
    sentence_contender,
    training_flops,
    weights_of,
)
from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.kernels import Dropout, keep_freed_memory
from wholedoc.kernels.layers import _OutputLoss
from wholedoc.kernels.recurrence import _BiGRU, _DecodeSteps
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Run
from wholedoc.training.loop import flush_denormals

DECODER, DECODER_BACK = "decoder steps, forward", "decoder steps, backward"
ENCODER, ENCODER_BACK = "encoder, forward", "encoder, backward"
DROPOUT, OUTPUT = "dropout masks", "output layer and loss"
OPTIMISER, REST = "optimiser", "the rest"
CLOCKS = (
    (DECODER, _DecodeSteps, "forward"),
    (DECODER_BACK, _DecodeSteps, "backward"),
    (ENCODER, _BiGRU, "forward"),
    (ENCODER_BACK, _BiGRU, "backward"),
    (DROPOUT, Dropout, "mask"),
    (OUTPUT, _OutputLoss, "forward"),
    (OUTPUT, _OutputLoss, "backward"),
)


class Clocks:
    """CPU seconds of functions that call each other, each without what the others took."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner = [0.0]

    def time(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """Return the function with its seconds added up."""

        def run(*arguments: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            result = function(*arguments)
            seconds = time.process_time() - start
            self.spent[part] += seconds - self._inner.pop()
            self._inner[-1] += seconds
            return result

        return run


def profile(contender: TrainingContender, updates: int) -> tuple[Counter[str], list[TextSize]]:
    """CPU seconds of all updates by parts, and the size of each."""
    clocks, sizes, total = Clocks(), [], 0.0
    with ExitStack() as stack:
        for part, owner, name in CLOCKS:
            timed: Any = clocks.time(getattr(owner, name), part)
            is_method = owner is Dropout
            stack.enter_context(
                patch.object(owner, name, timed if is_method else staticmethod(timed))
            )
        step = clocks.time(contender.optimiser.step, OPTIMISER)
        stack.enter_context(patch.object(contender.optimiser, "step", step))
        for _ in range(updates):
            seconds, size = contender.update()
            total += seconds
            sizes.append(size)
    clocks.spent[REST] = total - sum(clocks.spent.values())
    return clocks.spent, sizes


def operations(model: TranslationModel, text: TextSize) -> dict[str, float]:
    """What the textbook asks of each part; of the rest, what is left of the whole."""
    decoder, encoder = model.decoder, model.encoder
    layers = (decoder.context, decoder.lower.state, decoder.between, decoder.upper.state)
    decoding = 2.0 * text.trg_words * weights_of(decoder.attention.query, *layers)
    decoding += 2.0 * text.pairs * (decoder.attention.score.weight.numel() + 2 * encoder.rnn.hidden)
    encoding = 2.0 * text.src_words * weights_of(*encoder.rnn.children())
    parts = {
        DECODER: decoding,
        DECODER_BACK: 2 * decoding,
        ENCODER: encoding,
        ENCODER_BACK: 2 * encoding,
        OUTPUT: 6.0 * text.trg_words * weights_of(decoder.output.vocabulary),
    }
    return {**parts, REST: training_flops(model, text) - sum(parts.values())}


def print_profile(material: Material, updates: int) -> None:
    """Train for some updates with the clocks running, and print the table."""
    contender = sentence_contender(material, single=True)
    peak = peak_flops()
    spent, sizes = profile(contender, updates)
    needed: Counter[str] = Counter()
    for size in sizes:
        needed.update(operations(contender.model, size))  # type: ignore[arg-type]
    words = sum(size.trg_words for size in sizes) / updates
    print(f"{material.name}: {updates} updates of {words:.0f} target words")
    print(f"\n{'CPU ms of an update':30} {'all':>8} {'at peak':>8}")
    for part in (*dict.fromkeys(part for part, *_ in CLOCKS), REST, OPTIMISER):
        all_of_it, at_peak = 1e3 * spent[part] / updates, 1e3 * needed[part] / peak / updates
        print(f"{part:30} {all_of_it:8.1f} {at_peak:8.1f}")
    total, least = sum(spent.values()), sum(needed.values()) / peak
    print(f"{'total':30} {1e3 * total / updates:8.1f} {1e3 * least / updates:8.1f}")
    print(f"\nshare of the peak of {1e-9 * peak:.0f} GFLOP/s: {least / total:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("config", nargs="?", default="small", choices=("small", "paper"))
    parser.add_argument("--run", type=Path)
    parser.add_argument("--updates", type=int, default=30)
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory, flush_denormals():
        if options.run:
            material = run_material(Run(options.run))
        else:
            material = shipped_material(options.config, Path(directory))
        print_profile(material, options.updates)


if __name__ == "__main__":
    main()
