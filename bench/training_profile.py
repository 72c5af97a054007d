"""Where the time of training goes, and what the machine allows.

``training_profile.py [small|paper]`` with made-up text, or ``--run RUN`` with that of a run; all
products in 32 bits. The first table gives CPU milliseconds of the parts of an update; what their
products would take at the machine's peak; and what is left of them with all widths at 8, which is
calls, and work on the vocabulary and on pairs of words that is no product. The second table gives
the speed of a step's products by the number of rows: of each matrix again and again, which then
stays in the nearest cache, and of all in turn, as in training; beside it, the speed if all matrices
were read first, as fast as with the fewest rows, and then multiplied at the peak. Last comes the
share of the peak that would be reached if products took all the time, those of the decoder's steps
at the speed of all in turn and all others at the peak; and if what is no product took the time that
it does, too: dropout masks, the optimiser, and of the output layer what is left at widths of 8.
It needs the compiled kernels.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from wholedoc.benchmark.flops import Text, training_flops, weights_of
from wholedoc.benchmark.training_speed import Contender, peak_flops, sentence_contender, text_of
from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.config import ModelConfig
from wholedoc.kernels import Dropout, ExactProduct, keep_freed_memory
from wholedoc.kernels.loss import _OutputLoss
from wholedoc.kernels.recurrence import _BiGRU, _DecodeSteps
from wholedoc.model.decoder import Decoder
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Run
from wholedoc.training.loop import tiny_numbers_as_zero

DECODER, DECODER_BACK = "decoder steps, forward", "decoder steps, backward"
ENCODER, ENCODER_BACK = "encoder, forward", "encoder, backward"
DROPOUT = "dropout masks"
OUTPUT = "output layer and loss"
CLOCKS = (
    (DECODER, _DecodeSteps, "forward"),
    (DECODER_BACK, _DecodeSteps, "backward"),
    (ENCODER, _BiGRU, "forward"),
    (ENCODER_BACK, _BiGRU, "backward"),
    (DROPOUT, Dropout, "mask"),
    (OUTPUT, _OutputLoss, "forward"),
    (OUTPUT, _OutputLoss, "backward"),
)
"""The parts that have a clock; what one spends inside another is the inner one's."""
REST = "the rest"
OPTIMISER = "optimiser"
NARROW = 8
ROWS = (4, 8, 12, 16, 24, 32, 48, 96)


class Clocks:
    """CPU seconds of functions that call each other, each without what others took."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inner = [0.0]

    def time(self, function: Callable[..., Any], part: str) -> Callable[..., Any]:
        """The function, with its seconds added up."""

        def run(*arguments: Any) -> Any:
            self._inner.append(0.0)
            start = time.process_time()
            result = function(*arguments)
            seconds = time.process_time() - start
            self.spent[part] += seconds - self._inner.pop()
            self._inner[-1] += seconds
            return result

        return run


def milliseconds(contender: Contender, updates: int) -> tuple[Counter[str], Text, int]:
    """CPU milliseconds of the parts of an update, the size of all updates, and their steps."""
    text, steps = Text(), 0
    with ExitStack() as stack:
        clocks = Clocks()
        spent = clocks.spent
        for part, owner, name in CLOCKS:
            timed: Any = clocks.time(getattr(owner, name), part)
            if isinstance(owner.__dict__[name], staticmethod):
                timed = staticmethod(timed)
            stack.enter_context(patch.object(owner, name, timed))
        step = clocks.time(contender.optimiser.step, OPTIMISER)
        stack.enter_context(patch.object(contender.optimiser, "step", step))
        for _ in range(updates):
            seconds, work = contender.update()
            spent[REST] += seconds
            text += text_of(contender.corpus, work)
            steps += int(contender.corpus.trg_lengths[work].max())
    spent[REST] -= sum(seconds for part, seconds in spent.items() if part != REST)
    parts = Counter({part: 1e3 * seconds / updates for part, seconds in spent.items()})
    return parts, text, steps


def operations(model: TranslationModel, text: Text) -> dict[str, float]:
    """What the textbook asks of each part; of the rest, what is left of the whole."""
    decoder, encoder = model.decoder, model.encoder
    pairs = 2.0 * text.pairs * (decoder.attention.score.weight.numel() + 2 * encoder.rnn.hidden)
    decoding = step_operations(decoder, text.trg_words)
    encoding = 2.0 * text.src_words * weights_of(*encoder.rnn.children())
    parts = {
        DECODER: decoding + pairs,
        DECODER_BACK: 2 * (decoding + pairs),
        ENCODER: encoding,
        ENCODER_BACK: 2 * encoding,
        OUTPUT: 6.0 * text.trg_words * weights_of(decoder.output.vocabulary),
    }
    return {**parts, REST: training_flops(model, text) - sum(parts.values())}


def step_operations(decoder: Decoder, words: int) -> float:
    """Products of the decoder's steps with its weights, there; as many again come back."""
    layers = (decoder.lower.state, decoder.between, decoder.upper.state)
    return 2.0 * words * weights_of(decoder.attention.query, decoder.context, *layers)


def narrow(material: Material) -> Material:
    """The same text and vocabularies for a model that has next to nothing to multiply."""
    model = replace(material.config.model, hidden=NARROW, embedding=NARROW, alignment=NARROW)
    return replace(material, config=replace(material.config, model=model), weights=None)


@dataclass(frozen=True)
class Profile:
    """Milliseconds of an update, by parts."""

    spent: Counter[str]
    at_peak: dict[str, float]
    at_width_8: Counter[str]
    steps_at_peak: float
    """Of the decoder's products with its weights, there and back."""
    words: float
    """Target words of an update."""
    rows: float
    """Words of a step of the decoder."""


def profile(material: Material, updates: int) -> Profile:
    """Train for some updates, with the clocks running."""
    contender = sentence_contender(material, single=True)
    peaks = [peak_flops()]
    spent, text, steps = milliseconds(contender, updates)
    peaks.append(peak_flops())
    at_width_8, *_ = milliseconds(sentence_contender(narrow(material), single=True), updates)
    flop_ms = 1e3 / updates / (sum(peaks) / 2)
    needed = operations(contender.model, text)
    return Profile(
        spent,
        {part: flops * flop_ms for part, flops in needed.items()},
        at_width_8,
        2 * step_operations(contender.model.decoder, text.trg_words) * flop_ms,
        text.trg_words / updates,
        text.trg_words / steps,
    )


def print_parts(found: Profile) -> None:
    """The first table."""
    print(f"{'CPU ms of an update':30} {'all':>8} {'at peak':>8} {'width 8':>8}")
    columns = (found.spent, found.at_peak, found.at_width_8)
    for part in (*dict.fromkeys(part for part, *_ in CLOCKS), REST, OPTIMISER):
        print(f"{part:30} " + " ".join(f"{column.get(part, 0):8.1f}" for column in columns))
    print(f"{'total':30} " + " ".join(f"{sum(column.values()):8.1f}" for column in columns))


def seconds_of(run: Callable[[], Any]) -> float:
    """CPU seconds of a call, the median of many."""
    found = []
    for _ in range(100):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return median(found)


class StepProducts:
    """The products that a step of the decoder makes of the states of its rows."""

    def __init__(self, config: ModelConfig) -> None:
        hidden, gates = config.hidden, 3 * config.hidden
        beside = (hidden, gates + config.alignment)  # recurrent gates and the query
        shapes = (beside, beside, (2 * hidden, gates), (hidden, gates))
        self.matrices = [(inner, ExactProduct(torch.randn(out, inner))) for inner, out in shapes]
        self.size = sum(inner * columns for inner, columns in shapes)

    def seconds(self, rows: int) -> tuple[float, float]:
        """Each again and again, and all in turn."""
        products = [partial(product, torch.randn(rows, inner)) for inner, product in self.matrices]
        again = sum(seconds_of(product) for product in products)
        return again, seconds_of(lambda: [product() for product in products])


def print_products(products: StepProducts) -> None:
    """The second table."""
    peak, size = peak_flops(), 4 * products.size
    print(f"\nproducts of a step, {size / 2**20:.1f} MB of matrices, GFLOP/s")
    print(f"{'rows':>8} {'one again':>10} {'in turn':>10} {'read first':>11}")
    reading = 0.0
    for rows in ROWS:
        again, turns = products.seconds(rows)
        flops = 2 * rows * products.size
        reading = reading or turns - flops / peak  # what the fewest rows take beyond multiplying
        first = flops / (reading + flops / peak)
        print(
            f"{rows:8}"
            + "".join(f"{1e-9 * f:11.0f}" for f in (flops / again, flops / turns, first))
        )
    print(f"{'peak':>8} {1e-9 * peak:10.0f}; matrices are read at {1e-9 * size / reading:.0f} GB/s")


def print_bound(found: Profile, products: StepProducts) -> None:
    """What the machine leaves of the peak."""
    rows = round(found.rows)
    slower = peak_flops() * products.seconds(rows)[1] / (2 * rows * products.size)
    needed = sum(found.at_peak.values())
    alone = needed + found.steps_at_peak * (slower - 1)
    others = sum(found.spent[part] for part in (DROPOUT, OPTIMISER)) + found.at_width_8[OUTPUT]
    print("\nshare of the peak")
    print(f"products alone, those of the steps at the speed of {rows} rows: {needed / alone:.0%}")
    print(f"with dropout, softmax, optimiser: {needed / (alone + others):.0%}")
    print(f"measured: {needed / sum(found.spent.values()):.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("config", nargs="?", default="small", choices=("small", "paper"))
    parser.add_argument("--run", type=Path)
    parser.add_argument("--updates", type=int, default=30)
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as directory, tiny_numbers_as_zero():
        if options.run:
            material = run_material(Run(options.run))
        else:
            material = shipped_material(options.config, Path(directory))
        found = profile(material, options.updates)
        size = f"{options.updates} updates of {found.words:.0f} target words"
        print(f"{material.name}: {size}, {found.rows:.1f} of them in a step\n")
        print_parts(found)
        products = StepProducts(material.config.model)
        print_products(products)
        print_bound(found, products)


if __name__ == "__main__":
    main()
