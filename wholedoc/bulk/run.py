"""Translate a collection: documents to workers, what comes back to shards, each document once."""

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wholedoc.bulk.ledger import Ledger
from wholedoc.bulk.shards import Shard, Source, read_shards
from wholedoc.bulk.work import Document, Outcome
from wholedoc.bulk.workers import Answer, Workers
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.progress import say

FAILED_NAME = "failed.jsonl"
TASK_BYTES = 40_000
"""Text of a task: some 400 sentences, enough to fill batches of like lengths."""
TASK_DOCUMENTS = 256
"""The most documents of a task; so many are lost with a worker, and translated again."""
MOST_LOSSES = 3
"""Workers that may be lost with one document, alone, before it is set aside."""
_SECONDS_BETWEEN_LINES = 15.0

Task = Sequence[Document]


@dataclass
class Summary:
    """What a run has done."""

    translated: int = 0
    """Documents, in this run and those before it."""
    failed: int = 0
    """Documents set aside, likewise."""
    lost_workers: int = 0
    """Workers that were lost with a task, in this run."""


def translate_collection(
    sources: Sequence[Source],
    output: Path,
    ledger: Ledger,
    start: Callable[[], Workers],
    rows: int,
) -> Summary:
    """Translate what is not done yet; returns when every document is in a shard or set aside.

    Workers are started where there is something to do. Interrupted at any moment, it loses the
    tasks at work. What was set aside is listed in ``failed.jsonl``.
    """
    ledger.begin(sources)
    run = _Run(sources, output, ledger, rows)
    try:
        if run.has_tasks():
            workers = start()
            try:
                run.work(workers)
            finally:
                workers.close()
    finally:
        failures = (json.dumps(each, ensure_ascii=False) for each in ledger.failures())
        write_atomically(output / FAILED_NAME, "".join(f"{line}\n" for line in failures))
    run.summary.translated, run.summary.failed = ledger.count()
    return run.summary


class _Run:
    """One run over a collection: what is read, at work, lost, and waits for its shard."""

    def __init__(self, sources: Sequence[Source], output: Path, ledger: Ledger, rows: int) -> None:
        self.summary = Summary()
        self._sources = sources
        self._output = output
        self._ledger = ledger
        self._rows = rows
        self._open: dict[str, Shard] = {}
        self._left: dict[str, set[int]] = {}  # rows of an open shard that are not done
        self._at_work: dict[int, Task] = {}
        self._waiting: deque[Task] = deque()  # the next task, and those that were lost
        self._losses: Counter[tuple[str, int]] = Counter()
        self._next = self._tasks()
        self._count = self._done = 0
        self._begun = self._lately = time.monotonic()

    def has_tasks(self) -> bool:
        """Whether anything is left to do; what needs no worker is done on the way."""
        if not self._waiting and (task := next(self._next, None)):
            self._waiting.append(task)
        return bool(self._waiting)

    def work(self, workers: Workers) -> None:
        """Keep all workers busy until nothing is left."""
        while self.has_tasks() or self._at_work:
            while workers.has_room() and self.has_tasks():
                self._count += 1
                self._at_work[self._count] = self._waiting.popleft()
                workers.submit(self._count, self._at_work[self._count])
            for answer in workers.wait():
                self._receive(answer)

    def _receive(self, answer: Answer) -> None:
        documents = self._at_work.pop(answer.task)
        if answer.outcomes is not None:
            self._record(answer.outcomes)
            return
        self.summary.lost_workers += 1
        say(f"a worker was lost; its {len(documents):,} documents are translated again")
        if len(documents) > 1:  # alone, so that one that kills its worker takes no other with it
            self._waiting.extend([document] for document in documents)
            return
        (document,) = documents
        self._losses[document.shard, document.row] += 1
        losses = self._losses[document.shard, document.row]
        if losses < MOST_LOSSES:
            self._waiting.append(documents)
            return
        reason = f"its worker died {losses} times while translating it alone"
        self._record([Outcome(document.shard, document.row, document.id, None, reason)])

    def _record(self, outcomes: Sequence[Outcome]) -> None:
        """Keep what became of documents, and write the shards that are complete with them."""
        self._ledger.record(outcomes)
        self._done += len(outcomes)
        for outcome in outcomes:
            left = self._left[outcome.shard]
            left.discard(outcome.row)
            if not left:
                self._finish(outcome.shard)
        if time.monotonic() - self._lately >= _SECONDS_BETWEEN_LINES:
            self._lately = time.monotonic()
            speed = self._done / (self._lately - self._begun)
            say(f"{self._done:,} documents, {speed:,.1f} a second")

    def _tasks(self) -> Iterator[Task]:
        """Documents that are not done, in tasks of like sizes."""
        task: list[Document] = []
        size = 0
        for document in self._documents():
            task.append(document)
            size += len(document.content)
            if size >= TASK_BYTES or len(task) == TASK_DOCUMENTS:
                yield task
                task, size = [], 0
        if task:
            yield task

    def _documents(self) -> Iterator[Document]:
        """Documents that are not done; their shards are opened on the way."""
        for source in self._sources:
            try:
                for shard in read_shards(source, self._rows, self._ledger.is_finished):
                    yield from self._begin(shard)
            except UserError as error:
                self._ledger.record([Outcome(source.name, 0, source.name, None, str(error))])
                say(f"set aside: {error}")

    def _begin(self, shard: Shard) -> list[Document]:
        """Open a shard; returns those of its documents that are not done."""
        self._ledger.record(shard.refused)
        done = self._ledger.rows_done(shard.name)
        documents = [document for document in shard.documents if document.row not in done]
        self._open[shard.name] = shard
        self._left[shard.name] = {document.row for document in documents}
        if not documents:
            self._finish(shard.name)
        return documents

    def _finish(self, name: str) -> None:
        """Write a shard under its name, in one step, and note that it is finished."""
        shard = self._open.pop(name)
        del self._left[name]
        translations = self._ledger.translations(name)
        data = shard.assemble(translations)
        if data is not None:
            write_atomically(self._output / name, data)
        self._ledger.finish(name, len(translations))
