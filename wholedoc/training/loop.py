"""The training loop, one for every stage, its steps, and the log that it writes."""

import errno
import json
import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from wholedoc.config import StageConfig
from wholedoc.errors import UserError
from wholedoc.files import append_to, name_file
from wholedoc.kernels import describe
from wholedoc.progress import ProgressBar, format_seconds, say
from wholedoc.store.checkpoint import (
    Position,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)
from wholedoc.store.run import StageFiles
from wholedoc.training.distribution import Exchange, ProcessGroup
from wholedoc.training.optimisation import learning_rate, make_optimiser, take_step
from wholedoc.training.tasks import Task

_UPDATES_PER_LOG_LINE = 50


class RunLog:
    """Appends events to ``log.jsonl``, and their values to TensorBoard where that is asked for."""

    def __init__(self, directory: Path, tensorboard: bool = False) -> None:
        self.path = directory / "log.jsonl"
        self._board = None
        if tensorboard:
            try:
                from torch.utils.tensorboard.writer import SummaryWriter
            except ImportError as error:
                what = "TensorBoard is not installed"
                fix = "run: pip install 'wholedoc[tensorboard]'"
                raise UserError(what, where="tensorboard = true", fix=fix) from error
            self._board = SummaryWriter(str(directory / "tensorboard"))

    def write(self, event: str, stage: str = "", **values: float | str) -> None:
        """One line: the event, the stage, the wall clock and the values."""
        self.append({"event": event, "stage": stage, "time": round(time.time(), 3), **values})
        if self._board is not None:
            step = int(values.get("updates", 0))
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(f"{stage}/{event}/{name}", value, step)
            self._board.flush()

    def append(self, record: dict[str, float | str]) -> None:
        """One line, as it is, or on a full disk none of it."""
        line = (json.dumps(record) + "\n").encode()
        with name_file(self.path), append_to(self.path) as stream:
            before = stream.tell()
            if stream.write(line) < len(line):
                stream.truncate(before)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_log(directory: Path) -> list[dict[str, float | str]]:
    """All events of a run, in order."""
    path = directory / "log.jsonl"
    if not path.exists():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        fix = "remove what is not JSON from it, or the whole of it"
        raise UserError(f"damaged: {error}", where=str(path), fix=fix) from error


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Flush denormal floats to zero: CPUs are slow with them, and gradients have many."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Stopped(Exception):  # noqa: N818 (a request, not an error)
    """Training was asked to stop by a signal; everything is saved."""

    def __init__(self, signal_number: int = signal.SIGTERM) -> None:
        super().__init__(signal_number)
        self.exit_code = 128 + signal_number
        """That of a program that a signal ended, by convention."""


def train_stage(
    task: Task, config: StageConfig, seed: int, files: StageFiles, log: RunLog, group: ProcessGroup
) -> Position:
    """Train a stage to its end, from its checkpoint if there is one; leaves the best weights."""
    optimiser = make_optimiser(config, task.model.parameters())
    position = _resume(task, optimiser, files, group)
    if position.finished:
        if group.leads:
            say(f"{task.name}: nothing left to do, finished by an earlier start")
    else:
        if group.leads:
            if position.updates:
                say(f"{task.name}: resuming at epoch {position.epoch}, update {position.done}")
            kernels = describe(mixed=config.precision == "mixed")
            log.write(
                "start", task.name, updates=position.updates, processes=group.size, kernels=kernels
            )
        with _graceful_stop() as received:
            _Loop(task, config, seed, files, log, group, optimiser, position, received).run()
    group.barrier()  # for the leader to have written the best weights
    load_weights(files.best, task.model)
    return position


def _resume(
    task: Task, optimiser: torch.optim.Optimizer, files: StageFiles, group: ProcessGroup
) -> Position:
    """Go on from the checkpoint, or if it is damaged from the one before, which is made anew."""
    if not files.checkpoint.exists():
        return Position()
    damage: UserError | None = None
    try:
        position = load_checkpoint(files.checkpoint, task.model, optimiser)
    except UserError as error:
        if not files.previous.exists():
            raise
        damage = error
        position = load_checkpoint(files.previous, task.model, optimiser)
    if group.sum([position.updates])[0] != group.size * position.updates:
        what = "processes do not read the same checkpoint"
        fix = "keep the run directory on a disk that all machines share"
        raise UserError(what, where=str(files.checkpoint), fix=fix)
    if damage is not None and group.leads:
        put_aside = files.checkpoint.with_name(f"{files.checkpoint.name}.damaged")
        files.checkpoint.replace(put_aside)
        files.previous.replace(files.checkpoint)
        say(
            f"warning: {files.checkpoint} {damage.what}; it is put aside as {put_aside.name}, and "
            f"{task.name} goes on from the checkpoint before it"
        )
    return position


@contextmanager
def _graceful_stop() -> Iterator[list[int]]:
    """Note the first signal that asks to stop in a list; the second one acts as usual.

    One that is ignored, as SIGHUP is under nohup, stays so.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # signals reach the main thread only
        return
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in signals}
    before = {number: old for number, old in handlers.items() if old is not signal.SIG_IGN}

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, handle)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Loop:
    """The parts of a running stage."""

    task: Task
    config: StageConfig
    seed: int
    files: StageFiles
    log: RunLog
    group: ProcessGroup
    optimiser: torch.optim.Optimizer
    position: Position
    received: list[int]
    """Signals that ask to stop, looked at between updates."""

    def run(self) -> None:
        """Epoch after epoch until the last one, or until patience ends."""
        position = self.position
        length = len(self.task.updates(position.epoch))
        total = self.config.epochs * length
        done = (position.epoch - 1) * length + position.done
        self._saved = time.monotonic()
        self._exchange = Exchange(self.group, self.optimiser)
        if not self.config.epochs:
            self._finish_at_once()
        with ProgressBar(self.task.name, total, done, shown=self.group.leads) as bar:
            while not position.finished:
                self._epoch(bar)
        self._exchange.close()
        if self.group.leads:
            say(
                f"{self.task.name}: done in {format_seconds(position.seconds)}, best dev "
                f"perplexity {position.best_perplexity:.2f} in epoch {position.best_epoch}"
            )

    def _epoch(self, bar: ProgressBar) -> None:
        """The rest of the epoch under way, then the dev set."""
        position = self.position
        updates = self.task.updates(position.epoch)
        self.task.model.train()
        for update in updates[position.done :]:
            rate, norm, words = self._update(update, position.done / len(updates))
            loss = position.nats / position.words
            if position.updates % _UPDATES_PER_LOG_LINE == 0:
                self._log("update", loss=loss, learning_rate=rate, gradient_norm=norm)
            label = f"{self.task.name}, epoch {position.epoch}/{self.config.epochs}"
            bar.advance(1, words, f"loss {loss:.3f}", label)
            self._keep()
        self._finish_epoch()

    def _finish_at_once(self) -> None:
        """No epochs: the initial weights are the best ones."""
        self.position.best_perplexity = self.task.dev_perplexity(self.group)
        if self.group.leads:
            save_weights(self.files.best, self.task.model)
        self._log("kept", dev_perplexity=self.position.best_perplexity)
        self.position.finished = True
        self._checkpoint()

    def _update(self, update: Any, share: float) -> tuple[float, float, int]:
        """One step of the optimiser; gives the learning rate, gradient norm and words."""
        position, config, exchange = self.position, self.config, self._exchange
        torch.manual_seed(hash((self.seed, position.updates, self.group.rank)) % 2**63)
        rate = learning_rate(config, position.epoch - 1 + share, position.updates)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        nats, words = self.task.backward(update, self.group)
        nats, total, self._asked = exchange.sum_gradients([nats, words, len(self.received)])
        scale = 1 / total if config.normalisation == "token" else 1.0
        norm = scale * exchange.norm()
        if not math.isfinite(norm):
            raise UserError(
                f"the gradient is not finite in epoch {position.epoch}, update {position.done}",
                where=self.task.name,
                fix="lower its learning_rate or clip, in another directory with --run",
            )
        if 0 < config.clip < norm:
            scale *= config.clip / norm
        take_step(self.optimiser, scale)
        exchange.finish()
        position.nats += nats
        position.words += int(total)
        position.done += 1
        position.updates += 1
        return rate, norm, int(total)

    def _finish_epoch(self) -> None:
        """Dev perplexity, best weights, the end or the next epoch, a checkpoint."""
        position = self.position
        perplexity = self.task.dev_perplexity(self.group)
        better = perplexity < position.best_perplexity
        if better:
            position.best_perplexity, position.best_epoch = perplexity, position.epoch
            if self.group.leads:
                save_weights(self.files.best, self.task.model)
        train_perplexity = math.exp(min(position.nats / position.words, 700))
        self._log("epoch", dev_perplexity=perplexity, train_perplexity=train_perplexity)
        if self.group.leads:
            say(
                f"{self.task.name}, epoch {position.epoch}/{self.config.epochs}: perplexity "
                f"{train_perplexity:.2f} train, {perplexity:.2f} dev{' (best)' if better else ''}"
            )
            if self.task.sample is not None:
                sample = self.task.sample()
                self._log("sample", **asdict(sample))
                say(
                    f"  BLEU {sample.bleu:.1f} on {sample.sentences} dev sentences, greedily; such "
                    f"as {sample.source!r} → {sample.translation!r} (reference "
                    f"{sample.reference!r})"
                )
        waited = position.epoch - position.best_epoch
        tired = 0 < self.config.patience <= waited
        position.finished = tired or position.epoch == self.config.epochs
        position.epoch += 1
        position.done, position.nats, position.words = 0, 0.0, 0
        self._checkpoint()

    def _keep(self) -> None:
        """Between updates: a checkpoint when it is time, or the end when asked to stop."""
        wanted = self._asked > 0  # as all processes know by now, whichever got the signal
        late = time.monotonic() - self._saved > 60 * self.config.checkpoint_minutes
        if wanted or (late and self.config.checkpoint_minutes > 0):
            self._checkpoint()
        if wanted:
            raise Stopped(*self.received[:1])

    def _checkpoint(self) -> None:
        now = time.monotonic()
        self.position.seconds += now - self._saved
        if self.group.leads:
            save_checkpoint(self.files.checkpoint, self.task.model, self.optimiser, self.position)
        self._saved = now

    def _log(self, event: str, **values: float | str) -> None:
        if not self.group.leads:
            return
        position = self.position
        place = {
            "epoch": position.epoch,
            "updates": position.updates,
            "seconds": round(position.seconds + time.monotonic() - self._saved, 3),
            "words": position.words,
            "peak_rss_mb": peak_rss_mb(),
        }
        self.log.write(event, self.task.name, **place, **values)


def peak_rss_mb() -> int:
    """The most memory this process has had so far, in mebibytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)  # bytes there, else KiB
