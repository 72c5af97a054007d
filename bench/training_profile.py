"""Where the time of training goes, and what the machine allows.

``training_profile.py [small|paper]`` with made-up text, or ``--run RUN`` with that of a run. The
first table gives CPU milliseconds of the parts of an update, beside what their products would take
at the machine's peak and what the same calls take with all widths at 8, where there is next to
nothing to compute. The second gives the speed of a step's products by the number of rows: of each
matrix again and again, which then stays in the nearest cache, and of all in turn, as in training.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from wholedoc.allocation import keep_freed_memory
from wholedoc.app.training_speed import Contender, peak_flops, sentence_contender, text_of
from wholedoc.app.workload import Material, run_material, shipped_material
from wholedoc.model.flops import Text, training_flops
from wholedoc.model.recurrence import _BidirectionalGRU
from wholedoc.model.unroll import _Unroll
from wholedoc.training.loop import tiny_numbers_as_zero
from wholedoc.training.objective import _OutputLoss
from wholedoc.training.run import Run

PARTS = {
    "decoder steps, there": (_Unroll, "forward"),
    "decoder steps, back": (_Unroll, "backward"),
    "encoder steps, there": (_BidirectionalGRU, "forward"),
    "encoder steps, back": (_BidirectionalGRU, "backward"),
    "output layer, there and back": (_OutputLoss, "forward"),
}
REST = "the rest"
NARROW = 8
ROWS = (4, 8, 12, 16, 24, 32, 48, 96)


def clocked(function: Callable[..., Any], part: str, spent: Counter[str]) -> Callable[..., Any]:
    """The function, with its CPU seconds added up."""

    def run(*arguments: Any) -> Any:
        start = time.process_time()
        result = function(*arguments)
        spent[part] += time.process_time() - start
        return result

    return run


def milliseconds(contender: Contender, updates: int) -> tuple[Counter[str], Text]:
    """CPU milliseconds of the parts of an update, and the size of one, on the average."""
    spent: Counter[str] = Counter()
    text = Text()
    with ExitStack() as stack:
        for part, (owner, name) in PARTS.items():
            timed = clocked(getattr(owner, name), part, spent)
            stack.enter_context(patch.object(owner, name, staticmethod(timed)))
        step = clocked(contender.optimiser.step, "optimiser", spent)
        stack.enter_context(patch.object(contender.optimiser, "step", step))
        for _ in range(updates):
            seconds, work = contender.update()
            spent[REST] += seconds
            text += text_of(contender.corpus, work)
    spent[REST] -= sum(seconds for part, seconds in spent.items() if part != REST)
    return Counter({part: 1e3 * seconds / updates for part, seconds in spent.items()}), text


def operations(contender: Contender, text: Text) -> dict[str, float]:
    """What the textbook asks of each part; of the rest, what is left of the whole."""
    decoder, encoder = contender.model.decoder, contender.model.encoder
    steps = (
        decoder.attention.query,
        decoder.context,
        decoder.lower.state,
        decoder.between,
        decoder.upper.state,
    )
    pair = decoder.attention.score.weight.numel() + 2 * encoder.rnn.hidden
    decoding = 2.0 * (text.trg_words * sum(m.weight.numel() for m in steps) + text.pairs * pair)
    states = (encoder.rnn.forward_state, encoder.rnn.backward_state)
    encoding = 2.0 * text.src_words * sum(m.weight.numel() for m in states)
    output = 6.0 * text.trg_words * decoder.output.vocabulary.weight.numel()
    amounts = [decoding, 2 * decoding, encoding, 2 * encoding, output]
    parts = dict(zip(PARTS, amounts, strict=True))
    return {**parts, REST: training_flops(contender.model, text) - sum(amounts)}


def narrow(material: Material) -> Material:
    """The same text for a model that has next to nothing to compute, its output layer included."""
    model = replace(material.config.model, hidden=NARROW, embedding=NARROW, alignment=NARROW)
    return replace(material, config=replace(material.config, model=model), weights=None)


def print_parts(material: Material, updates: int) -> None:
    """The first table."""
    contender = sentence_contender(material)
    peak = peak_flops()
    spent, text = milliseconds(contender, updates)
    peak = (peak + peak_flops()) / 2
    calls, _ = milliseconds(sentence_contender(narrow(material)), updates)
    needed = operations(contender, text)
    print(f"{material.name}: {updates} updates of {text.trg_words / updates:.0f} target words")
    print(f"\n{'CPU ms of an update':30} {'all':>8} {'at peak':>8} {'calls':>8}")
    at_peak = {part: 1e3 * flops / updates / peak for part, flops in needed.items()}
    for part in (*PARTS, REST, "optimiser"):
        print(f"{part:30} {spent[part]:8.1f} {at_peak.get(part, 0):8.1f} {calls[part]:8.1f}")
    totals = (sum(column.values()) for column in (spent, at_peak, calls))
    print(f"{'total':30} " + " ".join(f"{total:8.1f}" for total in totals))


def seconds_of(run: Callable[[], Any]) -> float:
    """CPU seconds of a call, the median of many."""
    found = []
    for _ in range(100):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return median(found)


def print_products(material: Material) -> None:
    """The second table."""
    hidden, align = material.config.model.hidden, material.config.model.alignment
    gates = 3 * hidden
    shapes = [(hidden, gates + align)] * 2 + [(2 * hidden, gates), (hidden, gates)]
    matrices = [torch.randn(*shape) for shape in shapes]
    size = sum(m.numel() for m in matrices)
    print(f"\nproducts of a step, {4 * size / 2**20:.1f} MB of matrices, GFLOP/s")
    print(f"{'rows':>8} {'one again':>10} {'in turn':>10} {'GB/s read':>10}")
    for rows in ROWS:
        pairs = [(torch.randn(rows, len(m)), m, torch.empty(rows, m.shape[1])) for m in matrices]

        def multiply(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
            torch.mm(a, b, out=out)

        again = sum(seconds_of(lambda pair=pair: multiply(*pair)) for pair in pairs)  # type: ignore[misc]
        turns = seconds_of(lambda pairs=pairs: [multiply(*pair) for pair in pairs])  # type: ignore[misc]
        speeds = (2e-9 * rows * size / again, 2e-9 * rows * size / turns, 4e-9 * size / turns)
        print(f"{rows:8} {speeds[0]:10.0f} {speeds[1]:10.0f} {speeds[2]:10.1f}")
    print(f"{'peak':>8} {peak_flops() / 1e9:10.0f}")


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
        print_parts(material, options.updates)
        print_products(material)


if __name__ == "__main__":
    main()
