"""Several processes: the same updates as one, and one of them writes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from toy import toy_config, write_toy

from wholedoc.corpus.batches import SentenceBatches
from wholedoc.store.run import Run
from wholedoc.training.distribution import ProcessGroup, is_leader, join_process_group
from wholedoc.training.loop import read_log
from wholedoc.training.stages import train

# Batches of one sentence too: some updates have nothing for the second process.
SETTINGS = ["stage1.dropout=0", "stage1.batch_tokens=8", "stage1.epochs=2", "model.tie=none"]


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
    found, expected = (load_file(run / "stage1.safetensors") for run in (directory, alone))
    assert found.keys() == expected.keys()
    for tensor in expected:
        torch.testing.assert_close(found[tensor], expected[tensor], rtol=1e-3, atol=1e-4)
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
    assert [event for event in events if event[0] != "update"] == [
        *(("start", None), ("epoch", 1), ("epoch", 2)),
    ]
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
    parameter.grad = torch.tensor([1.0, 2.0])
    group.sum_gradients([parameter])
    group.barrier()
    assert parameter.grad.tolist() == [1.0, 2.0]
    assert group.sum([1, 2.5]) == [1, 2.5]


def test_the_leader_is_known_before_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert not is_leader()
    monkeypatch.setenv("RANK", "0")
    assert is_leader()
