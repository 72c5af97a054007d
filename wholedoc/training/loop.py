"""The training loop, one for every stage."""

import math
import resource
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn

from wholedoc.config import StageConfig
from wholedoc.errors import UserError
from wholedoc.kernels import check_precision, describe, mixed_precision
from wholedoc.progress import ProgressBar, format_seconds, say
from wholedoc.store.checkpoint import (
    Position,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)
from wholedoc.training.distribution import World
from wholedoc.training.log import RunLog
from wholedoc.training.objective import Loss
from wholedoc.training.optimisation import Moment, learning_rate, make_optimiser, take_step

_UPDATES_PER_LOG_LINE = 50


class Task(ABC):
    """What a stage trains: a model, the updates of an epoch, their losses, the dev perplexity."""

    name: str
    model: nn.Module

    @abstractmethod
    def updates(self, epoch: int) -> Sequence[Any]:
        """The work of each update of an epoch; the same for the same epoch, always."""

    @abstractmethod
    def losses(self, update: Any, world: World) -> Iterator[Loss]:
        """This process's share of an update, one minibatch after the other."""

    @abstractmethod
    def dev_perplexity(self, world: World) -> float:
        """Perplexity per word of the dev set, dropout and smoothing off."""


def add_gradients(task: Task, update: Any, world: World, config: StageConfig) -> tuple[float, int]:
    """Go there and back for this process's share of an update; its −Σ log P, and its words."""
    nats, words = 0.0, 0
    with mixed_precision(config.precision == "mixed"):
        for loss in task.losses(update, world):
            loss.smoothed.backward()  # type: ignore[no-untyped-call]
            nats, words = nats + loss.nats, words + loss.words
            del loss  # and all that it was computed from, before the next one is
    return nats, words


@dataclass(frozen=True)
class StageFiles:
    """Where a stage keeps its state."""

    best: Path
    """Weights of the lowest dev perplexity."""
    checkpoint: Path
    """Everything needed to go on."""


@contextmanager
def tiny_numbers_as_zero() -> Iterator[None]:
    """Let numbers below 10⁻³⁸ be zero: CPUs take very long over them, and gradients have many."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Stopped(Exception):  # noqa: N818 (a request, not an error)
    """Training was asked to stop; everything is saved."""


def train_stage(
    task: Task, config: StageConfig, seed: int, files: StageFiles, log: RunLog, world: World
) -> Position:
    """Train a stage to its end, from its checkpoint if there is one; leaves the best weights."""
    optimiser = make_optimiser(config, task.model.parameters())
    position = Position()
    if files.checkpoint.exists():
        position = load_checkpoint(files.checkpoint, task.model, optimiser)
    if position.finished:
        if world.leads:
            say(f"{task.name}: nothing left to do, finished by an earlier start")
    else:
        if world.leads:
            check_precision(config.precision)
            if position.updates:
                say(f"{task.name}: resuming at epoch {position.epoch}, update {position.done}")
            log.write(
                "start",
                task.name,
                updates=position.updates,
                processes=world.size,
                kernels=describe(mixed=config.precision == "mixed"),
            )
        with _graceful_stop() as stop:
            _Loop(task, config, seed, files, log, world, optimiser, position, stop).run()
    world.wait()  # for the leader to have written the best weights
    load_weights(files.best, task.model)
    return position


@dataclass
class _StopFlag:
    """Set by a signal, looked at between updates."""

    wanted: bool = False


@contextmanager
def _graceful_stop() -> Iterator[_StopFlag]:
    """Turn the first SIGINT or SIGTERM into a flag; the second one acts as usual."""
    flag = _StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag  # signals reach the main thread only
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        flag.wanted = True
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, handle)
    try:
        yield flag
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
    world: World
    optimiser: torch.optim.Optimizer
    position: Position
    stop: _StopFlag

    def run(self) -> None:
        """Epoch after epoch until the last one, or until patience ends."""
        position = self.position
        length = len(self.task.updates(position.epoch))
        total = self.config.epochs * length
        done = (position.epoch - 1) * length + position.done
        self._saved = self._clock = time.monotonic()
        with ProgressBar(self.task.name, total, done, shown=self.world.leads) as bar:
            while not position.finished:
                self._epoch(bar)
        if self.world.leads:
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

    def _update(self, update: Any, share: float) -> tuple[float, float, int]:
        """One step of the optimiser; gives the learning rate, gradient norm and words."""
        position, model, config = self.position, self.task.model, self.config
        torch.manual_seed(hash((self.seed, position.updates, self.world.rank)) % 2**63)
        rate = learning_rate(config, Moment(position.epoch, share, position.updates))
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.zero_grad()
        nats, words = add_gradients(self.task, update, self.world, config)
        self.world.sum_gradients(model.parameters())
        nats, total = self.world.sum([nats, words])
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        scale = 1 / total if config.normalisation == "token" else 1.0
        norm = scale * torch.nn.utils.get_total_norm(gradients).item()
        if not math.isfinite(norm):
            raise UserError(
                f"the gradient is not finite in epoch {position.epoch}, update {position.done}",
                where=self.task.name,
                fix="lower its learning_rate or clip, in another directory with --run",
            )
        if 0 < config.clip < norm:
            scale *= config.clip / norm
        take_step(self.optimiser, scale)
        position.nats += nats
        position.words += int(total)
        position.done += 1
        position.updates += 1
        return rate, norm, int(total)

    def _finish_epoch(self) -> None:
        """Dev perplexity, best weights, the end or the next epoch, a checkpoint."""
        position = self.position
        perplexity = self.task.dev_perplexity(self.world)
        better = perplexity < position.best_perplexity
        if better:
            position.best_perplexity, position.best_epoch = perplexity, position.epoch
            if self.world.leads:
                save_weights(self.files.best, self.task.model)
        train_perplexity = math.exp(min(position.nats / position.words, 700))
        self._count_time()
        self._log("epoch", dev_perplexity=perplexity, train_perplexity=train_perplexity)
        if self.world.leads:
            say(
                f"{self.task.name}, epoch {position.epoch}/{self.config.epochs}: perplexity "
                f"{train_perplexity:.2f} train, {perplexity:.2f} dev{' (best)' if better else ''}"
            )
        waited = position.epoch - position.best_epoch
        tired = 0 < self.config.patience <= waited
        position.finished = tired or position.epoch == self.config.epochs
        position.epoch += 1
        position.done, position.nats, position.words = 0, 0.0, 0
        self._checkpoint()

    def _keep(self) -> None:
        """Between updates: a checkpoint when it is time, or the end when asked to stop."""
        wanted = (
            self.world.sum([self.stop.wanted])[0] > 0 if self.world.size > 1 else self.stop.wanted
        )
        late = time.monotonic() - self._saved > 60 * self.config.checkpoint_minutes
        if wanted or (late and self.config.checkpoint_minutes > 0):
            self._count_time()
            self._checkpoint()
        if wanted:
            raise Stopped

    def _checkpoint(self) -> None:
        if self.world.leads:
            save_checkpoint(self.files.checkpoint, self.task.model, self.optimiser, self.position)
        self._saved = time.monotonic()

    def _count_time(self) -> None:
        now = time.monotonic()
        self.position.seconds += now - self._clock
        self._clock = now

    def _log(self, event: str, **values: float) -> None:
        if not self.world.leads:
            return
        position = self.position
        now = position.seconds + time.monotonic() - self._clock
        self.log.write(
            event,
            self.task.name,
            epoch=position.epoch,
            updates=position.updates,
            seconds=round(now, 3),
            words=position.words,
            peak_rss_mb=peak_rss_mb(),
            **values,
        )


def peak_rss_mb() -> int:
    """The most memory this process has had so far, in mebibytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024 * 1024 if sys.platform == "darwin" else 1024)  # bytes there, else KiB
