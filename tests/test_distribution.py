"""Several processes: the same updates as one, and one of them writes."""

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed, nn
from toy import toy_config, write_toy

from wholedoc.config import StageConfig
from wholedoc.corpus.batches import SentenceBatches
from wholedoc.store.run import Run
from wholedoc.training.distribution import (
    Exchange,
    ProcessGroup,
    is_leader,
    join_process_group,
)
from wholedoc.training.loop import read_log
from wholedoc.training.optimisation import make_optimiser, take_step
from wholedoc.training.stages import train

# Batches of one sentence too: some updates have nothing for the second process. Without dropout, of
# which each rank draws its own, and without a memory of translations, where rounding could choose
# another word.
SETTINGS = [
    *("model.tie=none", "model.memory=src", "model.fusion=context", "stage2.update_tokens=30"),
    *(f"stage{n}.{s}" for n in range(3) for s in ("dropout=0", "batch_tokens=8", "epochs=2")),
    *(f"stage{n}.{s}" for n in (0, 2) for s in ("optimiser=adam", "learning_rate=0.01")),
]
STAGES = ("stage0-forward", "stage0-backward", "stage1", "stage2")


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("toy")
    write_toy(directory, train_documents=5)
    return directory


@pytest.fixture(scope="module")
def two(toy: Path) -> "tuple[Path, subprocess.CompletedProcess[str]]":
    """A run of two processes, by the configuration that its directory has."""
    run = Run(toy / "two")
    with run.lock():
        run.prepare(toy_config(toy, *SETTINGS))
    # Without the dashes the launcher takes --run for an abbreviation of its own --run-path.
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--"]
    command = ["wholedoc", "train", "--run", str(run.directory)]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, *command],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
        timeout=300,
    )
    return run.directory, done


def test_two_processes_learn_what_one_does(
    toy: Path, two: "tuple[Path, subprocess.CompletedProcess[str]]"
) -> None:
    directory, done = two
    assert done.returncode == 0, done.stderr
    alone = train(toy_config(toy, *SETTINGS), toy / "one").directory
    for stage in STAGES:
        found, expected = (load_file(run / f"{stage}.safetensors") for run in (directory, alone))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    for here, there in zip(_epochs(directory), _epochs(alone), strict=True):
        assert here == pytest.approx(there, rel=1e-3)


def _epochs(run: Path) -> list[tuple[float | str, ...]]:
    names = ("epoch", "updates", "words", "train_perplexity", "dev_perplexity")
    return [tuple(e[name] for name in names) for e in read_log(run) if e["event"] == "epoch"]


def test_some_updates_had_fewer_sentences_than_processes(
    two: "tuple[Path, subprocess.CompletedProcess[str]]",
) -> None:
    directory, _ = two
    batches = SentenceBatches(Run(directory).load_corpus("train"), tokens=8, seed=7).epoch(1)
    assert {1, 2} <= set(map(len, batches))


def test_only_one_process_writes_and_speaks(
    two: "tuple[Path, subprocess.CompletedProcess[str]]",
) -> None:
    directory, done = two
    events = [(event["event"], event.get("epoch")) for event in read_log(directory)]
    expected = [("start", None), ("epoch", 1), ("epoch", 2)] * len(STAGES)
    assert [event for event in events if event[0] != "update"] == expected
    assert next(iter(read_log(directory)))["processes"] == 2
    assert done.stdout == f"{directory}\n"
    said = done.stderr.splitlines()
    assert len([line for line in said if line.startswith("stage1, epoch 1/2")]) == 1
    assert len([line for line in said if line.startswith("stage1: done")]) == 1


def test_work_is_dealt_out_without_rest() -> None:
    items = list(range(11))
    shares = [ProcessGroup(rank, 3).share(items) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert ProcessGroup().share(items) == items
    assert ProcessGroup(2, 3).share([1]) == []


def test_alone_nothing_is_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    group = join_process_group(torch.device("cpu"))
    assert (group, group.leads, is_leader()) == (ProcessGroup(0, 1), True, True)
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.tensor([3.0, 4.0])
    unused = nn.Parameter(torch.ones(1))
    place = parameter.data_ptr()
    exchange = Exchange(group, make_optimiser(StageConfig(), [parameter, unused]))
    assert exchange.sum_gradients([3, 0.5]) == [3, 0.5]
    assert exchange.norm() == 5
    assert unused.grad is not None  # as in several processes, where Adam counts its step too
    exchange.finish()
    exchange.close()
    group.barrier()
    assert parameter.grad.tolist() == [3.0, 4.0]
    assert parameter.data_ptr() == place
    assert group.sum([1, 2.5]) == [1, 2.5]


def test_the_leader_is_known_before_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert not is_leader()
    monkeypatch.setenv("RANK", "0")
    assert is_leader()


def make_updates(group: ProcessGroup, ranks: list[int], optimiser: str) -> tuple[bool, list[Any]]:
    """Three updates with the gradients of some ranks, one of two parameters frozen.

    Rank r has gradients of r + 1 and, but for rank 1, of ten times that in one place. What comes
    of it: whether memory is shared, and counts, norms, weights and the state of the optimiser.
    """
    first, second = nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.zeros(3))
    parameters = [first, nn.Parameter(torch.ones(2), requires_grad=False), second]
    config = StageConfig(optimiser="adam" if optimiser == "adam" else "sgd")
    maker = make_optimiser(config, parameters)
    exchange = Exchange(group, maker)
    found: list[Any] = []
    for _ in range(3):  # the memory is used again
        first.grad = torch.full((2, 2), sum(rank + 1.0 for rank in ranks))
        second.grad = None
        if ranks != [1]:
            second.grad = torch.tensor([0, sum(10 * (r + 1.0) for r in ranks if r != 1), 0])
        found += [exchange.sum_gradients([1.0 * sum(ranks), 0.5 * len(ranks)]), exchange.norm()]
        take_step(maker, 0.1)
        exchange.finish()
        found += [p.tolist() for p in parameters]
    states = maker.state_dict()["state"] if optimiser == "adam" else {}
    found += [{i: {name: v.tolist() for name, v in states[i].items()}} for i in states]
    exchange.close()
    before = first.detach() + group.rank
    with torch.no_grad():
        first.add_(group.rank)  # from here on each for itself
    group.barrier()
    assert torch.equal(first, before)
    return exchange._owners is not None, found


def update_together(rank: int, optimiser: str, place: Path) -> None:
    distributed.init_process_group(
        "gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=3
    )
    found = make_updates(ProcessGroup(rank, 3), [rank], optimiser)
    (place / f"{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    distributed.destroy_process_group()


@pytest.mark.parametrize("here", [3, 1], ids=["one machine", "several machines"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_updates_of_three_processes_are_those_of_one(
    optimiser: str, here: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also all that a checkpoint has of the optimiser, in each process."""
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(here))
    context = multiprocessing.get_context("fork")
    given = [(rank, optimiser, tmp_path) for rank in range(3)]
    processes = [context.Process(target=update_together, args=some, daemon=True) for some in given]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        assert process.exitcode == 0
    shared = here == 3 and hasattr(os, "memfd_create")
    _, expected = make_updates(ProcessGroup(), [0, 1, 2], optimiser)
    for rank in range(3):
        found = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        torch.testing.assert_close(found, [shared, json.loads(json.dumps(expected))])
