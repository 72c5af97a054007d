"""How training scales: one process beside two in one run, and the inputs of ``project.py``.

``torchrun --nproc-per-node 2 bench/scale/measure.py [RUN] [--config NAME] [--out FILE]`` trains the
sentence model of a run, or of a shipped configuration with made-up text. These take turns with the
same updates; whoever waits sleeps:

one         rank 0 trains, alone on the machine
all         all ranks train together
shares      all ranks train at the same time, each with its own share of each update and a model of
            its own: what there would be if nothing had to be exchanged
apart       the same with whole updates: what the machine gives to several processes

Figures are medians over turns, by the clock and by CPU time: on a machine that others use too, only
the second says what the processes need. Then follow the parts of an update, rank 0 with shares of
other sizes, and the way from gradients to new weights, over the loopback network and through shared
memory.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from wholedoc.benchmark.workload import Material, run_material, shipped_material
from wholedoc.config import StageConfig
from wholedoc.kernels import describe, keep_freed_memory, one_thread
from wholedoc.store.run import Run
from wholedoc.training.distribution import Exchange, ProcessGroup, join_process_group
from wholedoc.training.loop import flush_denormals
from wholedoc.training.optimisation import make_optimiser, take_step
from wholedoc.training.tasks import translation_task

SHARES = (1, 2, 4, 8, 16)
PARTS = ("backward", "sum", "norm", "step", "finish")
CLOCKS = ("wall", "cpu")


class Trainer:
    """A model under training, and updates as the training loop makes them."""

    def __init__(self, material: Material, stage: StageConfig, group: ProcessGroup) -> None:
        self.model = material.model(material.config.model.without_context(), stage.dropout).train()
        corpora = (material.corpus, material.corpus)
        self.task = translation_task(self.model, corpora, stage, material.config.seed)
        self.optimiser = make_optimiser(stage, self.model.parameters())
        self.group, self.exchange = group, Exchange(group, self.optimiser)

    def update(self, update: Any) -> tuple[int, np.ndarray]:
        """One step; returns its words, and the seconds of each part."""
        times = [clock()]
        self.optimiser.zero_grad()
        nats, words = self.task.backward(update, self.group)
        times.append(clock())
        _, total = self.exchange.sum_gradients([nats, words])
        times.append(clock())
        self.exchange.norm()
        times.append(clock())
        take_step(self.optimiser, 1e-3 / total)
        times.append(clock())
        self.exchange.finish()
        times.append(clock())
        return int(total), np.diff(times, axis=0)

    def train(self, updates: Sequence[Any]) -> tuple[int, np.ndarray]:
        """Some steps; returns their words, and the seconds of each part."""
        found = [self.update(update) for update in updates]
        return sum(words for words, _ in found), sum(parts for _, parts in found)

    def share(self, update: Any, rank: int, ranks: int) -> Any:
        """What a rank has of an update."""
        return self.task.batches.share(update, rank, ranks)


def clock() -> np.ndarray:
    """Seconds of the wall clock and of this process's CPU time."""
    return np.array([time.perf_counter(), time.process_time()])


def compare(one: Trainer, together: Trainer, turns: int, length: int) -> dict[str, Any]:
    """Words per second in turns with the same updates, and where the time goes."""
    group = together.group
    updates = one.task.updates(1)
    speeds: dict[str, list[np.ndarray]] = {name: [] for name in ("one", "all", "shares", "apart")}
    spent: dict[str, list[np.ndarray]] = {"one": [], "all": []}
    for turn in range(turns + 1):
        whole = updates[turn * length : (turn + 1) * length]
        mine = [one.share(update, group.rank, group.size) for update in whole]
        for name in speeds:
            group.barrier()
            if name == "one" and not group.leads:
                continue
            trainer = together if name == "all" else one
            words, parts = trainer.train(mine if name == "shares" else whole)
            if name in spent:
                spent[name].append(parts / length)
            if name == "one":
                speeds[name].append(words / parts.sum(axis=0))
                continue
            # Words of all, by the time of who needs most.
            words = words if name == "all" else int(group.sum([words])[0])
            everybody = np.zeros((group.size, 2))
            everybody[group.rank] = parts.sum(axis=0)
            slowest = np.reshape(group.sum(everybody.ravel()), everybody.shape).max(axis=0)
            speeds[name].append(words / slowest)
    if not group.leads:
        return {}
    kept = {name: np.array(found[1:]) for name, found in speeds.items()}  # the first warms up
    ratios = {name: found / kept["one"] for name, found in kept.items() if name != "one"}
    return {
        "words_per_second": {name: named(found, 0) for name, found in kept.items()},
        "ratio": {name: named(found, 3) for name, found in ratios.items()},
        "ratio_of_each_turn": ratios["all"].round(3).tolist(),
        "milliseconds_of_parts": {
            name: {part: named(1e3 * np.array(found[1:])[:, i], 2) for i, part in enumerate(PARTS)}
            for name, found in spent.items()
        },
    }


def named(turns: np.ndarray, digits: int) -> dict[str, float]:
    """The medians over turns of both clocks."""
    return dict(zip(CLOCKS, np.median(turns, axis=0).round(digits).tolist(), strict=True))


def fit(trainer: Trainer, updates: int) -> dict[str, float]:
    """CPU seconds of computing an update: so many for each word, and some whatever its size."""
    rows = []
    for update in trainer.task.updates(2)[:updates]:
        for ranks in SHARES:
            share = trainer.share(update, 0, ranks)
            if len(share):
                words, parts = trainer.train([share])
                rows.append((words, parts.sum(axis=0)[1]))
    words_seconds = np.array(rows[len(SHARES) :])
    slope, fixed = np.polyfit(words_seconds[:, 0], words_seconds[:, 1], 1)
    return {"seconds_per_word": slope, "fixed_seconds": fixed}


def exchange(trainer: Trainer, turns: int) -> dict[str, Any]:
    """Seconds from gradients to new weights, over the network and through shared memory."""
    found: dict[str, Any] = {}
    group, parameters = trainer.group, list(trainer.model.parameters())
    for name, here in (("network", "0"), ("shared_memory", str(group.size))):
        with patch.dict(os.environ, LOCAL_WORLD_SIZE=here):
            exchange = Exchange(group, trainer.optimiser)
        seconds = []
        for _ in range(turns):
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            group.barrier()
            begun = clock()
            exchange.sum_gradients([0.0])
            exchange.norm()
            take_step(trainer.optimiser, 1e-3)
            exchange.finish()
            seconds.append(clock() - begun)
        found[name] = dict(zip(CLOCKS, np.median(seconds, axis=0).tolist(), strict=True))
        exchange.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--config", default="small", help="shipped, with made-up text")
    parser.add_argument("--batch-tokens", type=int, help="not those of the configuration")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--updates", type=int, default=12, help="of a turn")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    keep_freed_memory()
    group = join_process_group(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as place, one_thread(), flush_denormals():
        run = options.run
        material = run_material(Run(run)) if run else shipped_material(options.config, Path(place))
        stage = material.config.stage1
        if options.batch_tokens:
            stage = replace(stage, batch_tokens=options.batch_tokens)
        one, together = (Trainer(material, stage, g) for g in (ProcessGroup(), group))
        found = compare(one, together, options.turns, options.updates)
        if group.leads:
            found |= fit(one, 12)
            lengths = material.corpus.trg_lengths
            sizes = [int(lengths[update].sum()) for update in one.task.updates(1)]
            found |= {
                "processes": group.size,
                "kernels": describe(mixed=stage.precision == "mixed"),
                "gradient_bytes": 4 * sum(p.numel() for p in one.model.parameters()),
                "words_of_an_update": median(sizes),
                "words_of_a_sentence": float(lengths.mean()),
            }
        found["exchange_seconds"] = exchange(together, 15)
        if group.leads:
            report = json.dumps(found, indent=1)
            print(report)
            if options.out:
                options.out.write_text(report + "\n", encoding="utf-8")
        group.barrier()


if __name__ == "__main__":
    main()
