"""Jobs that share parts, some at a time: the order in which they run, and the processes they are.

A shared part (a stage, a corpus of generated translations) is made by the first job that uses it;
the others wait until it is there. Where the first one fails, the next one makes it.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Protocol

import torch

from wholedoc.errors import UserError
from wholedoc.progress import say
from wholedoc.training.loop import Stopped


class Shared(Protocol):
    """What the schedule knows of a job."""

    @property
    def name(self) -> str:
        """Tells it from all others."""

    @property
    def needs(self) -> Sequence[str]:
        """Jobs that must have succeeded before."""

    @property
    def parts(self) -> frozenset[str]:
        """What it makes unless it is there."""


class Pool(Protocol):
    """Where jobs run."""

    def start(self, name: str) -> None:
        """Begin a job."""

    def wait(self) -> Mapping[str, str]:
        """Wait until a job ends: why each that has ended failed, empty where it did not."""

    def stop(self) -> None:
        """End all jobs under way so that they can be resumed."""


def run_jobs(
    jobs: Iterable[Shared], pool: Pool, limit: int, made: Iterable[str] = ()
) -> dict[str, str]:
    """Run jobs, at most ``limit`` at once; gives those that failed or were skipped, and why.

    ``made`` are the parts that earlier jobs have left.
    """
    waiting = list(jobs)
    names = [job.name for job in waiting]
    running: dict[str, Shared] = {}
    failed: dict[str, str] = {}
    ready = set(made)
    try:
        while waiting or running:
            for job in list(waiting):
                missing = [need for need in job.needs if need in failed]
                open_needs = [n for n in job.needs if n in running or n in _names(waiting)]
                making = {part for other in running.values() for part in other.parts} - ready
                if missing:
                    failed[job.name] = f"skipped, as {missing[0]} failed"
                    waiting.remove(job)
                    say(f"{job.name}: {failed[job.name]}")
                elif len(running) < limit and not open_needs and not job.parts & making:
                    waiting.remove(job)
                    running[job.name] = job
                    say(f"{job.name}: begun ({names.index(job.name) + 1} of {len(names)})")
                    pool.start(job.name)
            for name, error in pool.wait().items() if running else ():
                job = running.pop(name)
                if error:
                    failed[name] = error
                else:
                    ready |= job.parts
                say(f"{name}: {f'failed: {error}' if error else 'done'}")
    except BaseException:
        pool.stop()
        raise
    return failed


def _names(jobs: Iterable[Shared]) -> list[str]:
    return [job.name for job in jobs]


class ProcessPool:
    """Each job a process with one thread, its messages in a file.

    The processes are forked from one that has imported ``preload`` already: that takes longer than
    a small job. They stop, with all saved, when this process ends, however it does.
    """

    def __init__(self, target: Callable[[str], None], preload: str, logs: Path) -> None:
        self.target = target
        self.logs = logs
        self.running: dict[str, ForkServerProcess] = {}
        self.context = multiprocessing.get_context("forkserver")
        # Making an optimiser imports the latter, which takes even longer than torch itself.
        self.context.set_forkserver_preload([preload, "torch._dynamo"])

    def start(self, name: str) -> None:
        """Begin a job: ``target(name)`` in a process of its own."""
        self.logs.mkdir(parents=True, exist_ok=True)
        process = self.context.Process(target=_work, args=(self.target, name, self._log(name)))
        process.start()
        self.running[name] = process

    def wait(self) -> dict[str, str]:
        """Wait until a job ends: why each that has ended failed, empty where it did not."""
        wait([process.sentinel for process in self.running.values()])
        ended = {name: p for name, p in self.running.items() if not p.is_alive()}
        for name in ended:
            del self.running[name]
        return {name: self._reason(name, process) for name, process in ended.items()}

    def stop(self) -> None:
        """Ask all jobs to stop and wait until they have saved where they are."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.join()
        self.running.clear()

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.txt"

    def _reason(self, name: str, process: ForkServerProcess) -> str:
        """Why a job failed: a signal, or its last message."""
        if process.exitcode == 0:
            return ""
        if process.exitcode is not None and process.exitcode < 0:
            return f"killed by {signal.Signals(-process.exitcode).name}; see {self._log(name)}"
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"ended with code {process.exitcode}"


def _work(target: Callable[[str], None], name: str, log: Path) -> None:
    """The life of a job's process."""
    stream = log.open("w", encoding="utf-8")
    for number in (1, 2):
        os.dup2(stream.fileno(), number)
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(1)  # so many jobs as cores use them best
    try:
        target(name)
    except UserError as error:
        say(str(error))
        sys.exit(2)
    except Stopped:
        say("stopped and saved")
        sys.exit(1)


def _follow_parent() -> None:
    """End this process in good order once the one that started it is gone."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
