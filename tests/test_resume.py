"""Training that is killed anywhere and started again ends as if nothing had happened."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from toy import toy_config, write_toy
from typer.testing import CliRunner

from wholedoc.cli import app
from wholedoc.errors import UserError
from wholedoc.training import loop
from wholedoc.training.loop import read_log
from wholedoc.training.stages import train

# Answers each line of standard input, {moment, signal, arguments, errors}, by running the command
# line in a process of its own that sends itself the signal before or after the n-th call of a
# function: kills at exact moments, which no clock could hit. Forking saves importing torch anew.
DRIVER = """
import importlib, json, os, signal, sys
import wholedoc.decoding.translator, wholedoc.training.stages
from wholedoc.cli import main

def arm(module, function, when, call, number):
    module = importlib.import_module(module)
    original = getattr(module, function)
    calls = 0

    def wrapped(*args):
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            os.kill(os.getpid(), number)
        result = original(*args)
        if calls == call and when == "after":
            os.kill(os.getpid(), number)
        return result

    setattr(module, function, wrapped)

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whatever runs the tests, such as nohup, ignores
signal.signal(signal.SIGINT, signal.default_int_handler)

for line in sys.stdin:
    case = json.loads(line)
    process = os.fork()
    if process == 0:
        sys.stderr = open(case["errors"], "w")
        sys.argv[1:] = case["arguments"]
        arm(*case["moment"], case["signal"])
        sys.stdout = open(os.devnull, "w")
        main()
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
SECONDS = 120  # after which something hangs
EVERY_UPDATE = "stage1.checkpoint_minutes=1e-9"
EPOCHS_ONLY = "stage1.checkpoint_minutes=0"


@dataclass(frozen=True)
class Moment:
    """When a signal comes: before or after the n-th call of a function."""

    module: str
    function: str
    when: str
    call: int
    setting: str = EVERY_UPDATE


# Of os.fsync, which comes between writing a file and giving it its name, calls 1 to 6 belong to
# versions, configuration, vocabularies and corpora; later ones to checkpoints.
MOMENTS = {
    "no configuration yet": Moment("os", "fsync", "after", 2),
    "half of the vocabularies": Moment("os", "fsync", "before", 4),
    "half of the training set": Moment("wholedoc.corpus.encoded", "_write_index", "before", 60),
    "inside an epoch": Moment("wholedoc.training.loop", "save_checkpoint", "after", 3),
    "inside a checkpoint": Moment("os", "fsync", "before", 11),
    "best weights, no checkpoint": Moment("wholedoc.training.loop", "save_weights", "after", 2),
    "end of an epoch": Moment("wholedoc.training.loop", "save_checkpoint", "after", 1, EPOCHS_ONLY),
    "no lexicon yet": Moment("wholedoc.training.stages", "write_lexicon", "before", 1),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The order of a sum depends on the number of threads: here as in the killed process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("toy")
    write_toy(directory)
    return directory


@pytest.fixture(scope="module")
def uninterrupted(toy: Path) -> Path:
    return train(toy_config(toy), toy / "uninterrupted").directory


@pytest.fixture(scope="module")
def driver() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        yield process


Interrupt = Callable[[Path, Moment, int], tuple[int, str]]


@pytest.fixture(scope="module")
def interrupt(toy: Path, driver: "subprocess.Popen[str]") -> Interrupt:
    """Start training and interrupt it; gives the exit code and what it said."""

    def run(directory: Path, moment: Moment, number: int) -> tuple[int, str]:
        errors = directory.with_suffix(".errors")
        case = {
            "moment": [moment.module, moment.function, moment.when, moment.call],
            "signal": number,
            "arguments": arguments(toy, directory, moment.setting),
            "errors": str(errors),
        }
        assert driver.stdin is not None
        assert driver.stdout is not None
        print(json.dumps(case), file=driver.stdin, flush=True)
        answers, _, _ = select.select([driver.stdout], [], [], SECONDS)
        if not answers:
            driver.kill()
            pytest.fail(f"no answer: {errors.read_text(encoding='utf-8')}")
        return int(driver.stdout.readline()), errors.read_text(encoding="utf-8")

    return run


def arguments(toy: Path, run: Path, setting: str) -> list[str]:
    return ["train", str(toy / "toy.toml"), "--run", str(run), "--set", setting]


def assert_same_run(found: Path, expected: Path) -> None:
    """Same weights and dev perplexities, bit for bit, and nothing half-written."""
    assert (found / "stage1.safetensors").read_bytes() == (
        expected / "stage1.safetensors"
    ).read_bytes()
    assert (found / "lexicon.tsv").read_bytes() == (expected / "lexicon.tsv").read_bytes()
    assert perplexities(found) == perplexities(expected)
    assert list(found.rglob("*.part")) == []


def perplexities(run: Path) -> dict[float | str, float | str]:
    """By epoch; an epoch may have been logged and then, killed before its checkpoint, redone."""
    epochs = [event for event in read_log(run) if event["event"] == "epoch"]
    return {event["epoch"]: event["dev_perplexity"] for event in epochs}


@pytest.mark.parametrize("name", MOMENTS)
def test_killed_and_started_again(
    name: str, interrupt: Interrupt, toy: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    code, errors = interrupt(run, MOMENTS[name], signal.SIGKILL)
    assert code == -signal.SIGKILL, errors
    train(toy_config(toy, MOMENTS[name].setting), run)
    assert_same_run(run, uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_asked_to_stop(
    number: signal.Signals,
    interrupt: Interrupt,
    toy: Path,
    uninterrupted: Path,
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    moment = Moment("wholedoc.training.loop", "learning_rate", "before", 4, EPOCHS_ONLY)
    code, errors = interrupt(run, moment, number)
    assert code == 128 + number
    assert errors.splitlines()[-1] == (
        f"stopped and saved; resume with: wholedoc train --run {run}"
    )
    assert "Traceback" not in errors
    done = CliRunner().invoke(app, ["train", "--run", str(run)])  # by its own configuration
    assert done.exit_code == 0, done.output
    # The update under way was finished and kept.
    assert "stage1: resuming at epoch 1, update 4\n" in done.stderr
    assert_same_run(run, uninterrupted)


def test_an_ignored_signal_stays_ignored() -> None:
    """As SIGHUP under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with loop._graceful_stop() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
        assert stop == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_there_must_be_a_run_to_resume(tmp_path: Path) -> None:
    for arguments, where in ([], "train: no conf"), (["--run", str(tmp_path)], "there is no run"):
        done = CliRunner().invoke(app, ["train", *arguments])
        assert isinstance(done.exception, UserError)
        assert where in str(done.exception)
        assert "wholedoc train CONFIG" in done.exception.fix
    assert list(tmp_path.iterdir()) == []


def test_killed_from_outside(toy: Path, tmp_path: Path) -> None:
    """The command as users run it, killed at whatever moment follows its first checkpoint."""
    run = tmp_path / "run"
    long = "stage1.epochs=20"
    uninterrupted = train(toy_config(toy, long), tmp_path / "uninterrupted").directory
    command = [sys.executable, "-m", "wholedoc", *arguments(toy, run, EVERY_UPDATE), "--set", long]
    with subprocess.Popen(command, env=ENVIRONMENT) as process:
        deadline = time.monotonic() + SECONDS
        while not (run / "stage1.checkpoint").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        process.kill()
    assert process.returncode == -signal.SIGKILL  # it had not finished before
    assert (run / "stage1.checkpoint").exists()
    subprocess.run(command, env=ENVIRONMENT, check=True, timeout=SECONDS)
    assert_same_run(run, uninterrupted)


def test_rubbish_of_a_killed_process_does_no_harm(
    toy: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("config.toml", "stage1.checkpoint", "stage1.safetensors", "src.vocabulary"):
        (run / f"{name}.part").write_bytes(b"half")
    train(toy_config(toy), run)
    assert_same_run(run, uninterrupted)
