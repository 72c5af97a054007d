"""Processes that translate for the threads of an engine, each with a Python of its own.

Threads of one process wait for its lock of Python wherever they do not multiply: two threads and an
event loop have 0.72 of the speed of the batch command, with processes 0.85.
"""

import gc
import multiprocessing
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, TypeAlias

import torch

from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.results import TranslatedDocument, Translation
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.progress import say
from wholedoc.tm.memory import TranslationMemory

_MOST_LOST = 3
"""Processes that may end one after the other without an answer; then there is none any more."""
_PAUSE = 5.0  # seconds before one more is tried to start
_Pipe: TypeAlias = "Connection[Any, Any]"


@dataclass(frozen=True)
class Assignment:
    """What a process translates with."""

    model: str
    int8: bool
    own_memory: bool
    memories: tuple[TranslationMemory, ...] = ()
    glossary: Glossary | None = None

    @classmethod
    def of(
        cls,
        translator: Translator,
        memories: tuple[TranslationMemory, ...] = (),
        glossary: Glossary | None = None,
    ) -> "Assignment":
        """To do what a translator does that was loaded from a directory."""
        trained = translator.trained
        if trained.directory is None:
            raise ValueError("the model was not read from a directory")
        own = trained.memory is not None
        return cls(str(trained.directory), trained.int8, own, memories, glossary)

    def covers(self, memories: tuple[TranslationMemory, ...], glossary: Glossary | None) -> bool:
        """Whether documents that these belong to may be given to the process."""
        return memories == self.memories and glossary is self.glossary


class TranslatingProcess:
    """One process and the thread that gives it work. One that is lost is replaced.

    Whatever goes wrong with it, its thread goes on without.
    """

    def __init__(self, assignment: Assignment) -> None:
        """Let it start, and load its model, while others go on."""
        self.assignment = assignment
        self.running: ForkServerProcess | None = None
        self._pipe: _Pipe | None = None
        self._ready = False
        self._lost = 0
        self._closed = False
        self._lock = threading.Lock()
        self._begin()

    @property
    def ready(self) -> bool:
        """Whether it has loaded its model."""
        return self._ready

    def _begin(self) -> None:
        """Start in a thread: the first process waits until torch is imported."""
        threading.Thread(target=self._start, name="wholedoc-process", daemon=True).start()

    def _start(self) -> None:
        while not self._closed:
            try:
                pipe, process = _start_process(self.assignment)
            except Exception as error:  # noqa: BLE001 (the machine is full, or does not allow it)
                if self._give_up(f"cannot be started ({type(error).__name__})"):
                    return
                time.sleep(_PAUSE)
                continue
            with self._lock:
                self._pipe, self.running = pipe, process
            break
        if self._closed:
            self._end()

    def _give_up(self, why: str) -> bool:
        """Count one that is lost; whether there were too many."""
        self._lost += 1
        if self._lost < _MOST_LOST:
            return False
        say(f"processes to translate in {why}; it is done in threads")
        return True

    def translate(
        self, documents: Sequence[list[str]], approved: Sequence[Mapping[int, str]], nbest: int
    ) -> list[TranslatedDocument] | None:
        """Translations, with no more of their tasks than the sentences.

        None where there are none: the process is loading, was lost, or failed.
        """
        pipe = self._pipe
        if pipe is None:
            return None
        try:
            if not self._ready:
                if not pipe.poll():
                    return None
                self._ready = bool(pipe.recv())
            pipe.send((documents, approved, nbest))
            found = pipe.recv()
            answer = None if found is None else [each.unpack() for each in found]
        except Exception:  # noqa: BLE001 (it has ended, or what it says cannot be carried)
            self._end()
            if not self._give_up("end without an answer"):
                self._begin()
            return None
        self._lost = 0
        return answer

    def _end(self) -> None:
        with self._lock:
            pipe, process = self._pipe, self.running
            self._pipe, self.running, self._ready = None, None, False
        if pipe is not None and process is not None:
            pipe.close()
            process.terminate()
            process.join()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._closed = True
        self._end()


def _start_process(assignment: Assignment) -> "tuple[_Pipe, ForkServerProcess]":
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ours: _Pipe
    ours, other = context.Pipe()
    process = context.Process(target=_serve, args=(assignment, other), daemon=True)
    process.start()
    other.close()  # so that the death of the process is seen at this end
    return ours, process


@dataclass(frozen=True)
class _Packed:
    """A translated document on its way: torch would make a file of each tensor."""

    document: TranslatedDocument
    """Without attention and weights; of its task only the sentences and the settings of search."""
    attention: list[list[Any]]
    weights: list[Any]

    @classmethod
    def pack(cls, document: TranslatedDocument) -> "_Packed":
        candidates = [
            [replace(each, attention=None) for each in of_sentence]
            for of_sentence in document.candidates
        ]
        attention = [
            [None if each.attention is None else each.attention.numpy() for each in of_sentence]
            for of_sentence in document.candidates
        ]
        both = document.source_weights, document.target_weights
        weights = [None if each is None else each.numpy() for each in both]
        task = replace(document.task, memories=(), glossary=None)
        light = replace(
            document, candidates=candidates, source_weights=None, target_weights=None, task=task
        )
        return cls(light, attention, weights)

    def unpack(self) -> TranslatedDocument:
        candidates: list[list[Translation]] = [
            [replace(each, attention=_tensor(rows)) for each, rows in zip(*both, strict=True)]
            for both in zip(self.document.candidates, self.attention, strict=True)
        ]
        source, target = map(_tensor, self.weights)
        return replace(
            self.document, candidates=candidates, source_weights=source, target_weights=target
        )


def _tensor(rows: Any) -> torch.Tensor | None:
    return None if rows is None else torch.from_numpy(rows)


def _serve(assignment: Assignment, pipe: _Pipe) -> None:
    """The life of a process: it ends when the other end of its pipe does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the whole group; the service ends it
    torch.set_num_threads(1)
    translator = Translator.load(
        assignment.model, int8=assignment.int8, own_memory=assignment.own_memory
    )
    search = translator.config.search
    gc.freeze()  # what is there now stays
    with suppress(EOFError, OSError):
        pipe.send(True)
        while True:
            documents, approved, nbest = pipe.recv()
            known = Knowledge(approved, assignment.memories, glossary=assignment.glossary)
            try:
                found = translator.translate_documents(
                    documents,
                    config=replace(search, beam=max(search.beam, nbest)),
                    nbest=nbest,
                    measure=False,
                    known=known,
                )
                answer: list[_Packed] | None = list(map(_Packed.pack, found))
            except Exception:  # noqa: BLE001 (the engine does it again, and meets the same fault)
                answer = None
            pipe.send(answer)
