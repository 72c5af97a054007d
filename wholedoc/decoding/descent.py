"""Block coordinate descent: translate each sentence again, given the rest of its document."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum

import torch
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import Indices, length_batches, pad
from wholedoc.decoding.likelihood import Progress, Sentence, score_sentences
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import Hypothesis, search_with
from wholedoc.errors import UserError
from wholedoc.kernels import EightBitProduct, ExactProduct, in_threads, round_weights
from wholedoc.model.language import SentenceVectors
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.shortlist import Shortlist


@dataclass(frozen=True)
class System:
    """The models that translate documents together."""

    model: TranslationModel
    """The document model; the sentence model itself where there is none."""
    base: TranslationModel
    """The sentence model, which makes the first translations."""
    vectors: SentenceVectors | None = None
    """What the source memory is made from."""

    int8: bool = False
    """Whether search multiplies in 8 bits, where this computer can."""
    shortlist: Shortlist | None = None
    """The words that search may produce; any, without one."""

    @cached_property
    def predictor(self) -> Predictor:
        """The document model, prepared for search when it is first asked for."""
        return self.base_predictor if self.model is self.base else self._prepare(self.model)

    @cached_property
    def base_predictor(self) -> Predictor:
        """The sentence model, likewise."""
        return self._prepare(self.base)

    def _prepare(self, model: TranslationModel) -> Predictor:
        device = next(model.parameters()).device
        in_8_bits = self.int8 and EightBitProduct.works_on(device)
        return Predictor(model, EightBitProduct if in_8_bits else ExactProduct, self.shortlist)

    def compacted(self) -> "System":
        """The same models with weights and products in 8 bits; the weights are changed in place."""
        for module in (self.model, self.base, self.vectors):
            if module is not None:
                round_weights(module)
        return replace(self, int8=True)


@dataclass
class Descent:
    """A document and its translations after each pass."""

    sentences: Sequence[Sentence]
    """The source, each sentence ended by ``</s>``."""
    passes: list[list[list[Hypothesis]]] = field(default_factory=list)
    """For each pass, for each sentence, its best translations; pass 0 is the first one."""
    objective: list[float] = field(default_factory=list)
    """Σ_t log P(y_t | x_t, y_-t, x_-t) after each pass but the first, if measured."""
    readings: Readings = field(default_factory=Readings)
    """What the sentences read in the last pass."""

    @property
    def settled(self) -> bool:
        """Whether the last pass changed nothing: no later one will."""
        return len(self.passes) > 1 and _tokens(self.passes[-1]) == _tokens(self.passes[-2])


def _tokens(translations: list[list[Hypothesis]]) -> list[tuple[int, ...]]:
    return [best[0].tokens for best in translations]


@torch.inference_mode()
def translate_documents(
    system: System,
    documents: Sequence[Sequence[Sentence]],
    config: SearchConfig,
    nbest: int = 1,
    progress: Progress | None = None,
    measure: bool = True,
) -> list[Descent]:
    """Translate documents of numbered sentences, each ended by ``</s>``.

    Paper: [bcd]. The sentence model translates every sentence by itself; then, in each pass, every
    sentence is translated again given the source memory and the others' current translations. A
    document is done when a pass changes nothing, or after ``config.passes``. The objective is
    computed only if it is to be measured.
    """
    walks = [Descent(sentences) for sentences in documents]
    descent = _Descender(system, config, nbest, progress)
    if config.shuffle_memory:
        descent.others = exchange_memories(system, walks)
    descent.translate_first(walks)
    if system.model is not system.base:
        for _ in range(config.passes):
            open_walks = [walk for walk in walks if walk.sentences and not walk.settled]
            if not open_walks:
                break
            descent.update(open_walks)
            if measure:
                descent.measure(open_walks)
    return walks


class _Descender:
    """The settings of a descent and its steps, each for many documents at once."""

    def __init__(
        self, system: System, config: SearchConfig, nbest: int, progress: Progress | None
    ) -> None:
        self.system = system
        self.model = system.model
        self.config = config
        self.nbest = nbest
        self.progress = progress
        self.device = next(system.base.parameters()).device
        self.tokens = max(1, config.batch_tokens // max(config.beam, nbest))
        self.reader = DocumentReader(system, config.batch_tokens)
        self.others: dict[int, Descent] = {}

    def translate_first(self, walks: Sequence[Descent]) -> None:
        """Pass 0: by the sentence model, or by the document model with the source memory alone."""
        by_document = self.config.first_pass == "document" and self.model is not self.system.base
        if not by_document:
            sentences = [s for walk in walks for s in walk.sentences]
            found = self._search(self.system.base_predictor, sentences)
        else:
            readings = [self._read(walk) for walk in walks]
            sentences = [s for walk in walks for s in walk.sentences]
            found = self._search(self.system.predictor, sentences, readings)
            for walk, read in zip(walks, readings, strict=True):
                walk.readings = read
        _deal(walks, found)

    def update(self, walks: Sequence[Descent]) -> None:
        """One more pass over each document."""
        if self.config.order == "parallel":
            readings = [self._read(walk) for walk in walks]
            sentences = [s for walk in walks for s in walk.sentences]
            _deal(walks, self._search(self.system.predictor, sentences, readings))
            for walk, read in zip(walks, readings, strict=True):
                walk.readings = read
        else:
            self._update_in_turn(walks)

    def _update_in_turn(self, walks: Sequence[Descent]) -> None:
        """Sentence after sentence, each seeing the new translations before it."""
        for walk in walks:
            walk.passes.append(list(walk.passes[-1]))
        read: dict[int, list[Readings]] = {id(walk): [] for walk in walks}
        for t in range(max(len(walk.sentences) for walk in walks)):
            longer = [walk for walk in walks if len(walk.sentences) > t]
            readings = [self._read(walk, t) for walk in longer]
            sentences = [walk.sentences[t] for walk in longer]
            found = self._search(self.system.predictor, sentences, readings)
            for walk, hypotheses, reading in zip(longer, found, readings, strict=True):
                walk.passes[-1][t] = hypotheses
                read[id(walk)].append(reading)
        for walk in walks:
            walk.readings = _stack(read[id(walk)])

    def _read(self, walk: Descent, t: int | None = None) -> Readings:
        """What a document's sentences read at this point: of it, or of another one's memory."""
        states = _last_states(walk.passes[-1]) if walk.passes and walk.sentences else None
        other = self.others.get(id(walk))
        if other is None:
            return self.reader.read(walk, states, t)
        cells = _last_states(other.passes[-1]) if other.passes else None
        return self.reader.read_other(walk, states, other, cells, t)

    def measure(self, walks: Sequence[Descent]) -> None:
        """The pseudo-log-likelihood of each document's current translations."""
        readings = [self._read(walk) for walk in walks]
        sentences = [sentence for walk in walks for sentence in walk.sentences]
        targets = [list(tokens) for walk in walks for tokens in _tokens(walk.passes[-1])]
        scores = score_sentences(self.model, sentences, targets, self.config.batch_tokens, readings)
        start = 0
        for walk in walks:
            walk.objective.append(fsum(scores[start : start + len(walk.sentences)]))
            start += len(walk.sentences)

    def _search(
        self,
        predictor: Predictor,
        sentences: Sequence[Sentence],
        readings: Sequence[Readings] = (),
    ) -> list[list[Hypothesis]]:
        """Translate sentences in batches of like length; results in the given order."""

        def run(part: Indices) -> list[list[Hypothesis]]:
            src, lengths = pad([sentences[i] for i in part])
            rows = torch.from_numpy(part).to(self.device)
            read = gather_readings(readings, rows) if readings else None
            src, lengths = src.to(self.device), lengths.to(self.device)
            return search_with(predictor, src, lengths, self.config, self.nbest, read)

        found: list[list[Hypothesis]] = [[] for _ in sentences]
        parts = length_batches([len(s) for s in sentences], self.tokens)
        on_cpu = self.device.type == "cpu"
        every = in_threads(run, parts) if on_cpu else map(run, parts)
        for part, results in zip(parts, every, strict=True):
            for i, hypotheses in zip(part, results, strict=True):
                found[i] = hypotheses
            if self.progress is not None:
                self.progress(len(part), sum(len(best[0].tokens) + 1 for best in results))
        return found


class DocumentReader:
    """What sentences read of their documents; each document is encoded once."""

    def __init__(self, system: System, batch_tokens: int) -> None:
        self.system = system
        self.model = system.model
        self.batch_tokens = batch_tokens
        self.device = next(system.model.parameters()).device
        self.cells: dict[int, Tensor | None] = {}
        self.summaries: dict[int, Tensor] = {}

    def read(self, walk: Descent, last_states: Tensor | None, t: int | None = None) -> Readings:
        """What the sentences of a document read, or sentence ``t`` alone."""
        if not walk.sentences:
            return Readings()
        own = self._places(walk, t)
        return self.model.read(
            self._summaries(walk)[own], own, self._cells(walk), last_states, walk.sentences
        )

    def read_other(
        self,
        walk: Descent,
        states: Tensor | None,
        other: Descent,
        last_states: Tensor | None,
        t: int | None = None,
    ) -> Readings:
        """What they would read of another document's memory; ``states`` are their own."""
        own = self._places(walk, t)
        summaries = self._summaries(walk)[own]
        if states is None:  # nothing is translated yet, and no target memory is read
            states = summaries.new_zeros(len(walk.sentences), summaries.shape[1] // 2)
        return self.model.read(
            summaries, own, self._cells(other), last_states, other.sentences, states[own]
        )

    def _places(self, walk: Descent, t: int | None) -> Tensor:
        places = range(len(walk.sentences)) if t is None else [t]
        return torch.tensor(list(places), dtype=torch.long, device=self.device)

    def _summaries(self, walk: Descent) -> Tensor:
        if id(walk) not in self.summaries:
            self.summaries[id(walk)] = self._encode(walk.sentences)
        return self.summaries[id(walk)]

    def _cells(self, walk: Descent) -> Tensor | None:
        if id(walk) not in self.cells:
            self.cells[id(walk)] = self._source_cells(walk.sentences)
        return self.cells[id(walk)]

    def _encode(self, sentences: Sequence[Sentence]) -> Tensor:
        """h_t of each sentence."""
        summaries = self.model.decoder.embedding.weight.new_empty(
            len(sentences), 2 * self.model.decoder.upper.state.in_features
        )
        for part in length_batches([len(s) for s in sentences], self.batch_tokens):
            src, lengths = pad([sentences[i] for i in part])
            encoding = self.model.encoder(src.to(self.device), lengths.to(self.device))
            summaries[torch.from_numpy(part).to(self.device)] = encoding.summary
        return summaries

    def _source_cells(self, sentences: Sequence[Sentence]) -> Tensor | None:
        if self.model.source_memory is None or self.system.vectors is None:
            return None
        cells: Tensor = self.model.source_memory(self.system.vectors(sentences))
        return cells


def exchange_memories(system: System, walks: Sequence[Descent]) -> dict[int, Descent]:
    """For each document the one before it (for the first, the last), whose memory it shall read."""
    filled = [walk for walk in walks if walk.sentences]
    reason, fix = "", ""
    if system.model is system.base:
        reason, fix = "this model reads no memory", "choose a document model, or do not shuffle"
    elif len(filled) == 1:
        reason = "there is no other document whose memory could be read"
        fix = "translate at least two documents at once"
    if reason:
        raise UserError(reason, where="search.shuffle_memory", fix=fix)
    return {id(walk): filled[i - 1] for i, walk in enumerate(filled)}


def _deal(walks: Sequence[Descent], found: list[list[Hypothesis]]) -> None:
    """Give each document the translations of its sentences as a new pass."""
    rest: Iterator[list[Hypothesis]] = iter(found)
    for walk in walks:
        walk.passes.append([next(rest) for _ in walk.sentences])


def _last_states(translations: list[list[Hypothesis]]) -> Tensor:
    """The cells of the target memory."""
    return torch.stack([best[0].last_state for best in translations])


def _stack(readings: Sequence[Readings]) -> Readings:
    """Readings of single sentences as those of a document."""
    columns = zip(*((r.src, r.trg, r.src_weights, r.trg_weights) for r in readings), strict=True)
    src, trg, src_weights, trg_weights = (None if c[0] is None else torch.cat(c) for c in columns)
    words = tuple(state for r in readings for state in r.words or ())
    return Readings(src, trg, src_weights, trg_weights, words or None)
