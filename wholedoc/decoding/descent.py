"""Block coordinate descent: translate each sentence again, given the rest of its document."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from math import fsum
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import length_batches, pad
from wholedoc.corpus.shares import Indices
from wholedoc.decoding.cells import look_up
from wholedoc.decoding.constraints import Enforcer, Wanted
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence, shuffle_memories
from wholedoc.decoding.known import Known
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.scoring import Recalls, read_translations, score_translations
from wholedoc.decoding.search import Hypothesis, search
from wholedoc.kernels import in_threads, one_thread
from wholedoc.model.memory import Readings, concatenate_readings, gather_readings

Given = ParamSpec("Given")
Step = TypeVar("Step")


def descend(
    system: TranslationSystem,
    documents: Sequence[Sequence[Sentence]],
    config: SearchConfig,
    nbest: int = 1,
    progress: Progress | None = None,
    measure: bool = True,
    known: Sequence[Known] = (),
    approved: Sequence[Mapping[int, Sentence]] = (),
    wanted: Sequence[Wanted] = (),
    enforcer: Enforcer | None = None,
) -> Iterator[list[DocumentTranslation]]:
    """Translate documents of token ids, each sentence ended by ``</s>``: all, after each pass.

    Paper: [bcd]. The sentence model translates every sentence by itself; then, in each pass, every
    sentence is translated again given the source memory and the others' current translations. A
    document is done when a pass changes nothing, or after ``config.passes``. The objective is
    computed only if it is to be measured. ``known`` are the pairs that each sentence of each
    document may recall; ``approved`` sentences stay as they are, and the others read them.
    ``wanted`` is what each translation must have: the ``enforcer`` searches again where it has not.
    """
    descent = _CoordinateDescent(system, config, nbest, progress, enforcer)
    with _computing():
        opened = [DocumentTranslation(system, d, config.batch_tokens) for d in documents]
        for document, pairs in zip(opened, known, strict=False):
            document.known = pairs
        for document, required in zip(opened, wanted, strict=False):
            document.wanted = required
        for document, given in zip(opened, approved, strict=False):
            sentences = [document.sentences[t] for t in given]
            read = read_translations(system.base, sentences, list(given.values()), config)
            document.approved = dict(zip(given, read, strict=True))
        if config.shuffle_memory:
            shuffle_memories(system, opened)
        descent.translate_first(opened)
    yield opened
    for _ in range(config.passes if system.reads_documents else 0):
        going = [d for d in opened if d.sentences and not d.settled]
        if not going:
            break
        with _computing():
            if config.order == "parallel":
                descent.update_together(going)
            else:
                descent.update_in_turn(going)
            if measure:
                descent.measure(going)
        yield opened


def _last(steps: Callable[Given, Iterator[Step]]) -> Callable[Given, Step]:
    @wraps(steps)
    def run(*args: Given.args, **settings: Given.kwargs) -> Step:
        *_, last = steps(*args, **settings)
        return last

    return run


translate_documents = _last(descend)


@contextmanager
def _computing() -> Iterator[None]:
    with one_thread(), torch.inference_mode():
        yield


@dataclass(frozen=True)
class _CoordinateDescent:
    """The settings of a descent and its steps, each for many documents at once."""

    system: TranslationSystem
    config: SearchConfig
    nbest: int
    progress: Progress | None
    enforcer: Enforcer | None = None

    def translate_first(self, documents: Sequence[DocumentTranslation]) -> None:
        """Pass 0: by the sentence model, or by the document model with the source memory alone."""
        if self.config.first_pass == "document" and self.system.reads_documents:
            self.update_together(documents)
        else:
            _add_pass(documents, self._search(self.system.base_predictor, _places(documents)))

    def update_together(self, documents: Sequence[DocumentTranslation]) -> None:
        """One more pass: all sentences at once, each seeing the translations of the pass before."""
        readings = [document.read() for document in documents]
        _add_pass(documents, self._search(self.system.predictor, _places(documents), readings))
        for document, read in zip(documents, readings, strict=True):
            document.readings = read

    def update_in_turn(self, documents: Sequence[DocumentTranslation]) -> None:
        """One more pass: sentence after sentence, each seeing the new translations before it."""
        read: list[list[Readings]] = [[] for _ in documents]
        for document in documents:
            document.add_pass(list(document.passes[-1]))
        for t in range(max(len(document.sentences) for document in documents)):
            longer = [d for d, document in enumerate(documents) if len(document.sentences) > t]
            readings = [documents[d].read(t) for d in longer]
            places = [(documents[d], t) for d in longer]
            found = self._search(self.system.predictor, places, readings)
            for d, hypotheses, reading in zip(longer, found, readings, strict=True):
                documents[d].update(t, hypotheses)
                read[d].append(reading)
        for document, parts in zip(documents, read, strict=True):
            document.readings = concatenate_readings(parts)

    def measure(self, documents: Sequence[DocumentTranslation]) -> None:
        """The pseudo-log-likelihood of each document's current translations."""
        scores = score_translations(
            self.system.model,
            [document.sentences for document in documents],
            [[list(tokens) for tokens in document.tokens] for document in documents],
            self.config.batch_tokens,
            [document.read() for document in documents],
            recalls=Recalls.of(
                self.system.recaller, [d.known_of(t) for d, t in _places(documents)]
            ),
        )
        for document, found in zip(documents, scores, strict=True):
            document.objective.append(fsum(found))

    def _search(
        self,
        predictor: Predictor,
        places: Sequence[tuple[DocumentTranslation, int]],
        readings: Sequence[Readings] = (),
    ) -> list[list[Hypothesis]]:
        """Translate sentences in batches of like length; results in the given order.

        ``readings`` are those of all, the approved ones included, which stay as they are.
        """
        device = self.system.device
        found = [[document.approved[t]] if t in document.approved else [] for document, t in places]
        chosen = np.array([i for i, given in enumerate(found) if not given], dtype=np.int64)
        sentences = [places[i][0].sentences[places[i][1]] for i in chosen]
        known = [places[i][0].known_of(places[i][1]) for i in chosen]
        cells_of = look_up(predictor.recaller, known)

        def run(part: Indices) -> list[list[Hypothesis]]:
            src, lengths = pad([sentences[i] for i in part])
            rows = torch.from_numpy(chosen[part]).to(device)
            read = gather_readings(readings, rows) if readings else None
            src, lengths, cells = src.to(device), lengths.to(device), cells_of(part.tolist())
            return search(predictor, src, lengths, self.config, self.nbest, read, cells)

        if self.progress is not None and len(chosen) < len(places):
            self.progress(len(places) - len(chosen), 0)
        tokens = max(1, self.config.batch_tokens // max(self.config.beam, self.nbest))
        parts = length_batches([len(s) for s in sentences], tokens)
        every = in_threads(run, parts) if device.type == "cpu" else map(run, parts)
        for part, results in zip(parts, every, strict=True):
            for i, hypotheses in zip(part, results, strict=True):
                found[chosen[i]] = hypotheses
            if self.progress is not None:
                self.progress(len(part), sum(len(best[0].tokens) + 1 for best in results))
        if self.enforcer is not None:
            self._enforce(self.enforcer, predictor, places, readings, found)
        return found

    def _enforce(
        self,
        enforcer: Enforcer,
        predictor: Predictor,
        places: Sequence[tuple[DocumentTranslation, int]],
        readings: Sequence[Readings],
        found: list[list[Hypothesis]],
    ) -> None:
        """Search again, one by one, for those of ``found`` that lack what is required of them."""
        device = self.system.device
        wanted = [document.wanted_of(t) for document, t in places]
        asked = [i for i, each in enumerate(wanted) if each]
        lacking = [i for i in asked if enforcer.missing(wanted[i], found[i][0])]
        known = [places[i][0].known_of(places[i][1]) for i in lacking]
        cells_of = look_up(predictor.recaller, known)

        def run(n: int) -> list[Hypothesis]:
            i = lacking[n]
            document, t = places[i]
            read = gather_readings(readings, torch.tensor([i], device=device)) if readings else None
            given = (document.sentences[t], wanted[i], found[i], self.config, self.nbest)
            return enforcer.search(predictor, *given, read, cells_of([n]))

        numbers = range(len(lacking))
        every = in_threads(run, numbers) if device.type == "cpu" else map(run, numbers)
        for i, hypotheses in zip(lacking, list(every), strict=True):
            found[i] = hypotheses


def _places(documents: Sequence[DocumentTranslation]) -> list[tuple[DocumentTranslation, int]]:
    """All sentences of some documents, in order."""
    return [(document, t) for document in documents for t in range(len(document.sentences))]


def _add_pass(documents: Sequence[DocumentTranslation], found: list[list[Hypothesis]]) -> None:
    """Give each document the translations of its sentences as a new pass."""
    rest = iter(found)
    for document in documents:
        document.add_pass([next(rest) for _ in document.sentences])
