"""Workers on a Ray cluster: an actor each, with a model and its memories.

Plain actors, not Ray Data: which documents are done is kept by the ledger, on one machine and on
many, and so are reading and shards. Ray has actors on many machines, and word of those that are
lost. ``docs/bulk.md`` has the reasons in full.
"""

import os
from collections.abc import Sequence
from typing import Any

from wholedoc.bulk.work import Document, Outcome, Work
from wholedoc.bulk.workers import MOST_FAILED_STARTS, Answer, too_many_failed_starts
from wholedoc.errors import UserError
from wholedoc.progress import say

_SECONDS = 15.0  # after which somebody who waits for a cluster hears of it

try:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere unasked
    import ray
except ImportError as error:
    fix = "pip install 'wholedoc[ray]', or leave --ray out and use --jobs"
    raise UserError("Ray is not installed", where="--ray", fix=fix) from error


class _Actor:
    """A worker that loads when it is told to, so that an error on the way has a caller."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def load(self) -> list[Outcome]:
        """Load the model."""
        from wholedoc.bulk.worker import Worker

        self._worker = Worker(self._work)
        return []

    def translate(self, documents: Sequence[Document]) -> list[Outcome]:
        """Translate a task."""
        return self._worker.translate(documents)


class RayWorkers:
    """Actors of one processor each. Those that find no room yet begin when the cluster grows."""

    def __init__(self, work: Work, count: int | None = None, address: str = "") -> None:
        """Connect to a cluster; without an address to one that runs here, else begin one.

        Without a ``count`` there is a worker for each processor.
        """
        self._began = not ray.is_initialized()
        if self._began:
            try:
                ray.init(address or None, log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, RuntimeError, ValueError) as error:
                what = f"cannot connect to a cluster ({' '.join(str(error).split())[:200]})"
                raise UserError(what, where=f"--ray {address}", fix="check the address") from error
        self._make = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Actor).remote
        self._work = work
        self._idle: list[Any] = []
        self._calls: dict[Any, tuple[Any, int | None]] = {}
        """What each call's reference stands for: an actor, and its task unless it loads."""
        self._failed_starts = 0
        for _ in range(count or int(ray.cluster_resources().get("CPU", 1))):
            self._start()

    def has_room(self) -> bool:
        """Whether an actor waits for a task."""
        return bool(self._idle)

    def submit(self, task: int, documents: Sequence[Document]) -> None:
        """Give a task to an actor that waits for one."""
        actor = self._idle.pop()
        self._calls[actor.translate.remote(list(documents))] = actor, task

    def wait(self) -> list[Answer]:
        """Wait until something happens: tasks that ended, or none where actors became ready."""
        while not (ready := ray.wait(list(self._calls), timeout=_SECONDS)[0]):
            if all(task is None for _, task in self._calls.values()):
                say("waiting for the cluster: no worker has a place yet")
        return [answer for call in ready for answer in self._receive(call)]

    def _receive(self, call: Any) -> list[Answer]:
        actor, task = self._calls.pop(call)
        outcomes: list[Outcome] | None = None
        try:
            outcomes = ray.get(call)
        except UserError as error:
            raise UserError(error.what, where=error.where, fix=error.fix) from error
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError:  # the actor, its machine or the answer was lost
            ray.kill(actor)
            if task is None:
                self._failed_starts += 1
                if self._failed_starts >= MOST_FAILED_STARTS:
                    raise too_many_failed_starts() from None
            self._start()
        else:
            self._failed_starts = 0
            self._idle.append(actor)
        return [] if task is None else [Answer(task, outcomes)]

    def _start(self) -> None:
        actor = self._make(self._work)
        self._calls[actor.load.remote()] = actor, None

    def close(self) -> None:
        """End all actors."""
        for actor in (*self._idle, *(actor for actor, _ in self._calls.values())):
            ray.kill(actor)
        if self._began:
            ray.shutdown()
