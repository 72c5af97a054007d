"""Processes that translate for the threads of an engine, each with a Python of its own.

Threads of one process wait for its lock of Python wherever they do not multiply: two threads and an
event loop have 0.71 of the speed of the batch command, with processes 0.84.
"""

import gc
import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import torch

from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.results import TranslatedDocument, Translation
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.tm.memory import TranslationMemory

_MOST_LOST = 3
"""Processes that may end one after the other without an answer; then there is none any more."""
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
    """One process and the thread that gives it work. One that is lost is replaced."""

    def __init__(self, assignment: Assignment) -> None:
        """Start the process; it loads its model while others go on."""
        self.assignment = assignment
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._lost = 0
        self._start()

    def _start(self) -> None:
        self._ready = False
        self._pipe: _Pipe
        self._pipe, other = self._context.Pipe()
        args = (self.assignment, other)
        process = self._context.Process(target=_serve, args=args, daemon=True)
        process.start()
        self.running = process
        other.close()  # so that the death of the process is seen at this end

    def translate(
        self, documents: Sequence[list[str]], approved: Sequence[Mapping[int, str]], nbest: int
    ) -> list[TranslatedDocument] | None:
        """Translations, with no more of their tasks than the sentences.

        None where there are none: the process is loading, was lost, or failed.
        """
        if self._lost >= _MOST_LOST:
            return None
        try:
            if not self._ready:
                if not self._pipe.poll():
                    return None
                self._ready = bool(self._pipe.recv())
            self._pipe.send((documents, approved, nbest))
            found = self._pipe.recv()
        except (EOFError, OSError):
            self.close()
            self._lost += 1
            if self._lost < _MOST_LOST:
                with suppress(OSError):  # the machine is full: the next one may start
                    self._start()
            return None
        self._lost = 0
        return None if found is None else [each.unpack() for each in found]

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self.running.terminate()
        self.running.join()


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
            known = Knowledge(
                approved, assignment.memories, glossary=assignment.glossary, protect=True
            )
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
