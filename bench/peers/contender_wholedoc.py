"""wholedoc itself, through its command line: ``small`` with as many epochs as fit."""

import itertools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from task import (
    RECIPE,
    Numbers,
    Task,
    decoding_numbers,
    perplexity_numbers,
    read_lines,
    run_step,
    training_numbers,
    write_lines,
)

TRIAL_SECONDS = 30
"""Training that is watched to find how many epochs fit into the time."""
TRIAL_LINES = 3
"""Lines of the log, each 50 updates, that the trial takes at least."""
DEV_COST = 0.4
"""What a word of the dev set costs, in words of training: there is no backward pass."""


SETTINGS: dict[str, str] = {}
"""What differs from ``small``, for contenders that are made from this one."""


def wholedoc(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "wholedoc", *map(str, arguments)]


def train_command(task: Task, run: Path, epochs: int) -> list[str]:
    settings = {
        f"data.{name}.{side}": task.data / f"{name}.{side}"
        for name in ("train", "dev")
        for side in ("src", "trg")
    }
    settings |= {"stage1.epochs": epochs, "device": "cpu", **SETTINGS}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return wholedoc("train", "small", *options, "--run", run)


def read_log(run: Path) -> list[dict[str, Any]]:
    path = run / "log.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def marks(run: Path) -> list[tuple[float, int]]:
    """Seconds and words so far, at each line of the log; the dev set's seconds are among them."""
    found, before = [], 0
    for event in read_log(run):
        if event["event"] in ("update", "epoch"):
            found.append((event["seconds"], before + event["words"]))
        if event["event"] == "epoch":
            before += event["words"]
    return found


def speed_of_updates(run: Path) -> float:
    """Words per second between lines of the log with nothing but updates between them."""
    words, seconds = 0.0, 0.0
    lines = [event for event in read_log(run) if event["event"] in ("update", "epoch")]
    for last, event in itertools.pairwise(lines):
        if last["event"] == event["event"] == "update":
            words += event["words"] - last["words"]
            seconds += event["seconds"] - last["seconds"]
    return words / seconds if seconds else 0.0


def trial_speed(task: Task, seconds: float) -> float:
    """Words per second of training that is broken off after some time."""
    run = task.run / "trial"
    process = subprocess.Popen(train_command(task, run, 1000))
    while process.poll() is None:
        time.sleep(0.5)
        lines = [event for event in read_log(run) if event["event"] == "update"]
        if len(lines) >= TRIAL_LINES and lines[-1]["seconds"] >= seconds and speed_of_updates(run):
            process.send_signal(signal.SIGTERM)
            process.wait()
            return speed_of_updates(run)
    raise SystemExit(f"the trial ended early, see {run}")


def fitting_epochs(task: Task) -> int:
    """As many epochs as a trial says will end in time, at least one."""
    speed = trial_speed(task, min(TRIAL_SECONDS, task.seconds))
    train, dev = (
        sum(len(line.split()) + 1 for line in read_lines(task.data / f"{name}.trg.tok"))
        for name in ("train", "dev")
    )
    return max(1, int(task.seconds * speed / (train + DEV_COST * dev)))


def train(task: Task) -> Numbers:
    """Train with a schedule that ends in time."""
    run = task.run / "model"
    epochs = fitting_epochs(task)
    subprocess.run(train_command(task, run, epochs), check=True)
    if (run / "trg.vocabulary").read_bytes() != (task.data / "vocabulary").read_bytes():
        raise SystemExit("wholedoc learned other subwords than the contenders were given")
    speed = {"words_per_second": speed_of_updates(run)}
    return {**training_numbers(marks(run), read_log(run)[-1]["updates"]), **speed, "epochs": epochs}


def trial(task: Task) -> Numbers:
    """A turn of training, for its speed only."""
    return {"words_per_second": trial_speed(task, task.seconds)}


def score(task: Task) -> Numbers:
    """What ``wholedoc score`` says."""
    files = [task.data / "dev.src", task.data / "dev.trg"]
    command = wholedoc("score", task.run / "model", *files, "--json")
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads(output)
    return perplexity_numbers(-found["log_probability"], found["words"])


def decode(task: Task) -> Numbers:
    """Beam search over the test set; the time of one sentence, mostly loading, is taken off."""
    one = task.run / "one.src"
    write_lines(one, read_lines(task.data / "test.src")[:1])
    output = task.run / "test.txt"
    loading = translation_seconds(task, one, task.run / "one.txt")
    seconds = translation_seconds(task, task.data / "test.src", output) - loading
    encode = [sys.executable, str(Path(__file__).with_name("text.py")), "encode"]
    encode += [str(task.data / "vocabulary"), str(output), str(task.run / "encoded.tok")]
    subprocess.run(encode, check=True)
    return decoding_numbers(task.run, read_lines(task.run / "encoded.tok"), seconds)


def translation_seconds(task: Task, source: Path, output: Path) -> float:
    begun = time.monotonic()
    command = wholedoc("translate", task.run / "model", source, "-o", output, "--beam", RECIPE.beam)
    subprocess.run(command, check=True)
    return time.monotonic() - begun


STEPS = {"train": train, "trial": trial, "score": score, "decode": decode}

if __name__ == "__main__":
    run_step(STEPS)
