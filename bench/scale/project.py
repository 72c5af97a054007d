"""Projected speed of training on many workers, from what ``measure.py`` measured.

``python bench/scale/project.py INPUTS.json`` prints the tables of docs/scale.md. An update of W
words on m workers, gradients of S bytes, a network of bandwidth b and latency l takes

    T(m) = fixed + word · (W / m + largest) + 2 (m − 1) / m · S / b + 2 log2(m) · l

seconds: what each worker does whatever its share, its share with the bound of what it may be larger
than the mean, and an all-reduce that is bound by bandwidth. Efficiency is W / T(m) over m times
that of one worker with the update as it is shipped.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

WORKERS = (1, 2, 8, 64, 512)
NETWORKS = {  # bytes per second and seconds; assumptions, not measurements
    "10 Gbit/s Ethernet": (1.1e9, 50e-6),
    "100 Gbit/s": (11e9, 10e-6),
}


def seconds(inputs: dict[str, Any], workers: int, words: float, network: str) -> float:
    """T(m)."""
    bandwidth, latency = NETWORKS[network]
    share = words / workers + (inputs["words_of_a_sentence"] if workers > 1 else 0)
    moved = 2 * (workers - 1) / workers * inputs["gradient_bytes"]
    compute = inputs["fixed_seconds"] + inputs["seconds_per_word"] * share
    return float(compute + moved / bandwidth + 2 * math.log2(workers) * latency)


def efficiency(inputs: dict[str, Any], workers: int, words: float, network: str) -> float:
    """Words per second and worker, beside those of one worker with the shipped update."""
    shipped = inputs["words_of_an_update"]
    alone = shipped / seconds(inputs, 1, shipped, network)
    return words / seconds(inputs, workers, words, network) / workers / alone


def enough_words(inputs: dict[str, Any], workers: int, network: str) -> float:
    """The smallest update, as a multiple of the shipped one, with an efficiency of one half."""
    factor = 1.0
    while efficiency(inputs, workers, factor * inputs["words_of_an_update"], network) < 0.5:
        factor *= 1.05
    return factor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("inputs", type=Path)
    inputs = json.loads(parser.parse_args().inputs.read_text(encoding="utf-8"))
    shipped = inputs["words_of_an_update"]
    for network in NETWORKS:
        print(f"\n{network}\n")
        print("| workers | words/s, same update | efficiency | words/s, update × workers |", end="")
        print(" efficiency | update for one half |\n|---|---|---|---|---|---|")
        for workers in WORKERS:
            cells = [str(workers)]
            for words in (shipped, shipped * workers):
                speed = words / seconds(inputs, workers, words, network)
                share = efficiency(inputs, workers, words, network)
                cells += [f"{speed:,.0f}", f"{100 * share:.0f} %"]
            cells.append(f"× {enough_words(inputs, workers, network):.1f}")
            print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
