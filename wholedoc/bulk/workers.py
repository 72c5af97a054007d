"""Workers that translate at the same time, some of which may be lost: processes of this machine.

``cluster`` has the same on a Ray cluster. Everything else is shared.
"""

import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, Protocol, TypeAlias

from wholedoc.bulk.work import Document, Outcome, Work
from wholedoc.errors import UserError

MOST_FAILED_STARTS = 3
"""Workers that may die one after the other before any of them has loaded its model."""


_Pipe: TypeAlias = "Connection[Any, Any]"


class Answer(NamedTuple):
    """What came of a task: its outcomes, or None where the worker was lost with it."""

    task: int
    outcomes: list[Outcome] | None


class Workers(Protocol):
    """Workers with one task each. One that is lost is replaced; its task comes back."""

    def has_room(self) -> bool:
        """Whether a worker waits for a task."""

    def submit(self, task: int, documents: Sequence[Document]) -> None:
        """Give a task to a worker that waits for one."""

    def wait(self) -> list[Answer]:
        """Wait until something happens: tasks that ended, or none where workers became ready.

        Raises UserError where a worker cannot load its model or reach its memory.
        """

    def close(self) -> None:
        """End all workers."""


def too_many_failed_starts() -> UserError:
    """The error where workers die while they load."""
    what = f"{MOST_FAILED_STARTS} workers died one after the other while loading the model"
    return UserError(what, where="workers", fix="use fewer with --jobs, or find memory for them")


class ProcessWorkers:
    """Each worker a process with one thread, forked from one that has imported torch."""

    def __init__(self, work: Work, count: int) -> None:
        self._work = work
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["wholedoc.bulk.worker"])
        self._processes: dict[_Pipe, BaseProcess] = {}
        self._idle: list[_Pipe] = []
        self._tasks: dict[_Pipe, int] = {}
        self._failed_starts = 0
        for _ in range(count):
            self._start()

    def has_room(self) -> bool:
        """Whether a worker waits for a task."""
        return bool(self._idle)

    def submit(self, task: int, documents: Sequence[Document]) -> None:
        """Give a task to a worker that waits for one."""
        pipe = self._idle.pop()
        self._tasks[pipe] = task
        with suppress(OSError):  # it has died since; `wait` finds that out
            pipe.send(list(documents))

    def wait(self) -> list[Answer]:
        """Wait until something happens: tasks that ended, or none where workers became ready."""
        ready = wait(list(self._processes))
        pipes = [pipe for pipe in self._processes if pipe in ready]
        return [answer for pipe in pipes for answer in self._receive(pipe)]

    def _receive(self, pipe: _Pipe) -> list[Answer]:
        try:
            reply = pipe.recv()
        except (EOFError, OSError):
            return self._replace(pipe)
        if isinstance(reply, UserError):
            raise reply
        self._failed_starts = 0
        self._idle.append(pipe)
        return [Answer(self._tasks.pop(pipe), reply)] if pipe in self._tasks else []

    def _replace(self, pipe: _Pipe) -> list[Answer]:
        """Start another worker in the place of one that was lost."""
        self._processes.pop(pipe).join()
        pipe.close()
        if pipe in self._idle:
            self._idle.remove(pipe)
        elif pipe not in self._tasks:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise too_many_failed_starts()
        self._start()
        return [Answer(self._tasks.pop(pipe), None)] if pipe in self._tasks else []

    def _start(self) -> None:
        pipe, other = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._work, other), daemon=True)
        process.start()
        other.close()  # so that the death of the worker is seen at this end
        self._processes[pipe] = process

    def close(self) -> None:
        """End all workers."""
        for process in self._processes.values():
            process.terminate()
        for pipe, process in self._processes.items():
            process.join()
            pipe.close()


def _serve(work: Work, pipe: _Pipe) -> None:
    """The life of a worker: it ends when the other end of its pipe does."""
    import torch  # here alone: who reads documents and writes shards has no use for it

    from wholedoc.bulk.worker import Worker

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the whole group; who started it ends it
    torch.set_num_threads(1)
    try:
        worker = Worker(work)
        pipe.send([])
        while True:
            pipe.send(worker.translate(pipe.recv()))
    except UserError as error:
        pipe.send(error)
    except (EOFError, OSError):
        pass
