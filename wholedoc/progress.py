"""Progress on standard error: a live bar on a terminal, a plain line now and then otherwise."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 15.0


def say(message: str) -> None:
    """One line for the user, beside the results on standard output."""
    print(message, file=sys.stderr, flush=True)


class ProgressBar:
    """How far a long job is, how fast it goes and when it will be done.

    ``total`` and the amounts of :meth:`advance` are in the job's own unit; ``words`` of
    :meth:`advance` only feed the speed shown. Of several processes, one has it ``shown``.
    """

    def __init__(self, label: str, total: int, done: int = 0, *, shown: bool = True) -> None:
        self.label = label
        self.total = total
        self.done = done
        self._begun = self._lately = time.monotonic()
        self._first = done
        self._words = 0
        self._bar: Progress | None = None
        self._shown = shown
        if shown and sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(elapsed_when_finished=True),
                console=Console(stderr=True),
            )
            self._task = self._bar.add_task(label, total=total, completed=done, note="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, amount: int, words: int = 0, note: str = "", label: str = "") -> None:
        """Count finished work and show it."""
        self.done += amount
        self._words += words
        self.label = label or self.label
        now = time.monotonic()
        speed = self._words / max(now - self._begun, 1e-9)
        note = f"{speed:,.0f} words/s{'  ' if note else ''}{note}"
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, description=self.label, note=note)
        elif self._shown and now - self._lately >= _SECONDS_BETWEEN_LINES:
            self._lately = now
            pace = (now - self._begun) / max(self.done - self._first, 1)
            left = pace * (self.total - self.done)
            say(f"{self.label}: {self.done / self.total:.0%}  {note}  {format_seconds(left)} left")


def format_seconds(seconds: float) -> str:
    """A duration as people say it: 42 s, 12 min, 3 h 05 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"
