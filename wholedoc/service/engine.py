"""A queue to a model: documents of many callers are translated together, the small ones first."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch

from wholedoc.app.documents import Approved
from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.alignment import Origin
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.kernels import one_thread
from wholedoc.service.errors import RequestError
from wholedoc.service.processes import Assignment, TranslatingProcess
from wholedoc.tm.memory import TranslationMemory

_TOGETHER = 128  # sentences under way, divided among threads; more keep the small ones waiting
_LEAST_TOGETHER = 16  # of a thread: fewer take more time each
_MOST_PROCESSES = 16  # of a model: each takes 150 MB, and one event loop feeds them all
_PART = 256  # sentences of a long document, between which short ones are translated
_SMALL = 4  # sentences of a document that goes before the larger ones
Answer = TypeVar("Answer")
_AGED = 2.0  # seconds after which a larger one is next


@dataclass
class Ticket:
    """A caller's claim to an answer; a cancelled one is not translated any more."""

    cancelled: bool = False


@dataclass(frozen=True)
class _Job:
    """Sentences of one document that wait to be translated."""

    sentences: list[str]
    approved: Approved
    memories: tuple[TranslationMemory, ...]
    explain: bool
    ticket: Ticket
    answer: "Future[TranslatedDocument]"
    glossary: Glossary | None = None
    nbest: int = 1
    since: float = field(default_factory=time.monotonic)

    def goes_with(self, other: "_Job") -> bool:
        """Whether both can be translated at once: with the same settings, the same glossary."""
        alike = (self.memories, self.explain, self.nbest)
        return alike == (other.memories, other.explain, other.nbest) and (
            self.glossary is other.glossary
        )

    @property
    def small(self) -> bool:
        return len(self.sentences) <= _SMALL


@dataclass(frozen=True)
class _Call:
    """Something else to be done with the model, by itself."""

    work: Callable[[], Any]
    ticket: Ticket
    answer: "Future[Any]"
    since: float = field(default_factory=time.monotonic)
    small: bool = True


@dataclass
class Counts:
    """What an engine has done, for ``/metrics``."""

    documents: int = 0
    sentences: int = 0
    batches: int = 0
    refused: int = 0
    cancelled: int = 0
    busy_seconds: float = 0.0


class Engine:
    """One model, as many threads that translate as torch has, and a bounded queue before them."""

    def __init__(
        self,
        translator: Translator,
        *,
        most_waiting: int = 256,
        threads: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        """Start the threads: as many as torch has, or so many.

        With an ``assignment`` each has a process that translates what it covers.
        """
        self.translator = translator
        self.most_waiting = most_waiting
        self.counts = Counts()
        self._waiting: list[_Job | _Call] = []
        self._changed = threading.Condition()
        self._closing = False
        self._arrived: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        count = threads or torch.get_num_threads()
        count = min(count, _MOST_PROCESSES) if assignment else count
        self._together = max(_LEAST_TOGETHER, _TOGETHER // count)
        self.processes = (
            [TranslatingProcess(assignment) for _ in range(count)] if assignment else []
        )
        self._threads = [
            threading.Thread(
                target=self._run, args=(process,), name=f"wholedoc-engine-{n}", daemon=True
            )
            for n, process in enumerate(self.processes or [None] * count)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def src_language(self) -> str:
        """Of the model."""
        return self.translator.config.data.src_language

    @property
    def trg_language(self) -> str:
        """Of the model."""
        return self.translator.config.data.trg_language

    @property
    def waiting(self) -> int:
        """Documents in the queue."""
        return len(self._waiting)

    def submit(
        self,
        sentences: list[str],
        approved: Approved | None = None,
        memories: tuple[TranslationMemory, ...] = (),
        ticket: Ticket | None = None,
        *,
        explain: bool = False,
        glossary: Glossary | None = None,
        nbest: int = 1,
    ) -> "Future[TranslatedDocument]":
        """Put a document into the queue; raises ``RequestError`` 503 where there is no room."""
        documents, given = [(sentences, approved or {})], (memories, ticket or Ticket())
        (answer,) = self.submit_all(
            documents, *given, explain=explain, glossary=glossary, nbest=nbest
        )
        return answer

    def submit_all(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        memories: tuple[TranslationMemory, ...],
        ticket: Ticket,
        *,
        explain: bool = False,
        glossary: Glossary | None = None,
        nbest: int = 1,
    ) -> "list[Future[TranslatedDocument]]":
        """Put documents of one request into the queue: all of them, or where it is full none."""
        jobs = [
            _Job(*document, memories, explain, ticket, Future(), glossary, nbest)
            for document in documents
        ]
        self._put(jobs)
        return [job.answer for job in jobs]

    def _put(self, jobs: "Sequence[_Job | _Call]") -> None:
        with self._changed:
            if self._closing:
                raise RequestError(503, "the service is shutting down")
            if jobs and len(self._waiting) >= self.most_waiting:
                self.counts.refused += len(jobs)
                raise RequestError(503, "too many documents are waiting; try again in some seconds")
            self._waiting += jobs
            self._changed.notify(len(jobs))

    def call(self, work: Callable[[], Answer], ticket: Ticket | None = None) -> Answer:
        """Do something with the model in its thread, when its turn has come."""
        answer: Future[Answer] = Future()
        self._put([_Call(work, ticket or Ticket(), answer)])
        return answer.result()

    async def wait(self, answer: "Future[Answer]") -> Answer:
        """An answer in an event loop.

        The loop is woken once for all answers of a batch. ``asyncio.wrap_future`` would write to a
        socket for each, and every time the loop would take Python's lock from the next batch.
        """
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[None] = loop.create_future()

        def note(_: "Future[Answer]") -> None:
            with self._changed:
                self._arrived.setdefault(loop, []).append(arrived)

        answer.add_done_callback(note)
        if answer.done():
            self._wake()
        await arrived
        if answer.cancelled():
            raise asyncio.CancelledError
        return answer.result()

    def _wake(self) -> None:
        """Tell event loops of the answers that have arrived."""
        with self._changed:
            every, self._arrived = self._arrived, {}
        for loop, arrived in every.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(_release, arrived)

    def close(self) -> None:
        """Translate no more than what is under way, of large documents not even that, and end."""
        with self._changed:
            self._closing = True
            for job in self._waiting:
                job.ticket.cancelled = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        for process in self.processes:
            process.close()

    def _run(self, process: TranslatingProcess | None) -> None:
        torch.set_num_threads(1)  # in this thread: others have batches of their own
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    return
                batch = self._take()
            start = time.monotonic()
            self._work(batch, process)
            with self._changed:
                self.counts.busy_seconds += time.monotonic() - start

    def _work(self, batch: "list[_Job] | _Call", process: TranslatingProcess | None) -> None:
        """Answer a batch."""
        if isinstance(batch, _Call):
            with one_thread(len(self._threads)):
                self._do(batch)
        elif batch and self._is_long(batch[0]):
            self._translate_in_parts(batch[0], process)
        elif batch:
            large = sum(len(job.sentences) for job in batch) > self._together
            if large or process is None or not self._translate_elsewhere(batch, process):
                with one_thread(len(self._threads) if large else 1):
                    self._translate(batch)
        self._wake()

    def _is_long(self, job: "_Job | _Call") -> bool:
        """Whether others need not wait for all of a document: its sentences are independent."""
        return (
            isinstance(job, _Job)
            and len(job.sentences) > _PART
            and not self.translator.reads_documents
        )

    def _translate_in_parts(self, job: _Job, process: TranslatingProcess | None) -> None:
        """Translate a long document, with what came meanwhile and is short between its parts."""
        if not job.answer.set_running_or_notify_cancel():
            return
        search = self.translator.config.search
        try:
            stream = self.translator.stream(
                job.sentences,
                replace(search, beam=max(search.beam, job.nbest)),
                job.nbest,
                approved=job.approved,
                memories=job.memories,
                glossary=job.glossary,
                together=_PART,
                explain=job.explain,
            )
            while True:
                with one_thread(len(self._threads)):
                    if next(stream, None) is None:
                        break
                if job.ticket.cancelled or self._closing:
                    raise RequestError(503, "the client has left, or the service ends")
                with self._changed:
                    batch = self._take(short=True) if self._waiting else []
                self._work(batch, process)
            job.answer.set_result(stream.document)
        except Exception as error:  # noqa: BLE001 (it goes to the one who waits for the answer)
            job.answer.set_exception(error)
            self.counts.cancelled += job.ticket.cancelled
        else:
            self._count([job])

    def _take(self, *, short: bool = False) -> "list[_Job] | _Call":
        """The next documents: those that waited long, then small ones, then the others.

        Only ``short`` ones are taken between the parts of a long one.
        """
        gone = [job for job in self._waiting if job.ticket.cancelled]
        for job in gone:
            job.answer.cancel()
        self.counts.cancelled += len(gone)
        left = [job for job in self._waiting if not job.ticket.cancelled]
        if not left:
            self._waiting = []
            return []
        now = time.monotonic()
        wanted = [job for job in left if not (short and self._is_long(job))]
        if not wanted:
            self._waiting = left
            return []
        order = sorted(wanted, key=lambda job: (now - job.since < _AGED, not job.small, job.since))
        first, size = order[0], 0
        if isinstance(first, _Call):
            self._waiting = [job for job in left if job is not first]
            return first
        batch: list[_Job] = []
        for job in (each for each in order if isinstance(each, _Job)):
            fits = not batch or size + len(job.sentences) <= self._together
            if fits and job.goes_with(first):
                batch.append(job)
                size += len(job.sentences)
        taken = set(map(id, batch))
        self._waiting = [job for job in left if id(job) not in taken]
        return batch

    def _do(self, call: "_Call") -> None:
        if not call.answer.set_running_or_notify_cancel():
            return
        try:
            call.answer.set_result(call.work())
        except Exception as error:  # noqa: BLE001 (it goes to the one who waits for the answer)
            call.answer.set_exception(error)

    def _translate(self, batch: Sequence[_Job]) -> None:
        first, search = batch[0], self.translator.config.search
        approved = [job.approved for job in batch]
        try:
            results = self.translator.translate_documents(
                [job.sentences for job in batch],
                config=replace(search, beam=max(search.beam, first.nbest)),
                nbest=first.nbest,
                measure=first.explain,
                known=Knowledge(approved, first.memories, glossary=first.glossary),
                explain=first.explain,
            )
        except Exception as error:  # noqa: BLE001 (it goes to those who wait for the answer)
            self._fail(batch, error)
            return
        self._answer(batch, results)

    def _translate_elsewhere(self, batch: Sequence[_Job], process: TranslatingProcess) -> bool:
        """Let a process translate a batch, if it can."""
        first = batch[0]
        if first.explain or not process.assignment.covers(first.memories, first.glossary):
            return False
        sentences, approved = [job.sentences for job in batch], [job.approved for job in batch]
        results = process.translate(sentences, approved, first.nbest)
        if results is not None:
            self._answer(batch, results)
        return results is not None

    def _answer(self, batch: Sequence[_Job], results: Sequence[TranslatedDocument]) -> None:
        for job, result in zip(batch, results, strict=True):
            if job.answer.set_running_or_notify_cancel():
                job.answer.set_result(result)
        self._count(batch)

    def _count(self, batch: Sequence[_Job]) -> None:
        with self._changed:
            self.counts.documents += len(batch)
            self.counts.sentences += sum(len(job.sentences) for job in batch)
            self.counts.batches += 1

    def _fail(self, batch: Sequence[_Job], error: Exception) -> None:
        """One document at a time, so that the fault of one is not that of all."""
        if len(batch) > 1:
            for job in batch:
                self._translate([job])
            return
        if batch[0].answer.set_running_or_notify_cancel():
            batch[0].answer.set_exception(error)


def _release(waiting: "Sequence[asyncio.Future[None]]") -> None:
    """Let all go on that have not given up."""
    for each in waiting:
        if not each.done():
            each.set_result(None)


@dataclass(frozen=True)
class Caller:
    """An engine as one request sees it: with its memories, its ticket, and its glossary."""

    engine: Engine
    memories: tuple[TranslationMemory, ...] = ()
    ticket: Ticket = field(default_factory=Ticket)
    glossary: Glossary | None = None

    @property
    def src_language(self) -> str:
        """Of the model."""
        return self.engine.src_language

    @property
    def trg_language(self) -> str:
        """Of the model."""
        return self.engine.trg_language

    def translate(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        *,
        explain: bool = False,
        nbest: int = 1,
    ) -> list[TranslatedDocument]:
        """The translations of documents, when their turn has come."""
        return [answer.result() for answer in self.submit(documents, explain=explain, nbest=nbest)]

    def submit(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        *,
        explain: bool = False,
        nbest: int = 1,
    ) -> "list[Future[TranslatedDocument]]":
        """Put documents into the queue; their translations are to come."""
        if self.ticket.cancelled:
            raise RequestError(499, "the client has left")
        given = self.memories, self.ticket
        return self.engine.submit_all(
            documents, *given, explain=explain, glossary=self.glossary, nbest=nbest
        )

    def align(self, document: TranslatedDocument, place: int) -> list[Origin]:
        """Where the words of a sentence's translation come from in the source."""
        return self.engine.translator.align(document, place)
