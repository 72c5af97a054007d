"""The document under translation: its source, what its sentences read, its translations so far."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.decoding.constraints import Requirement, Wanted
from wholedoc.decoding.known import Known, KnownPair
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.search import Hypothesis
from wholedoc.errors import UserError
from wholedoc.model.memory import DocumentContext, Readings, concatenate_readings

Sentence = list[int]
Progress = Callable[[int, int], None]
"""Called with how many sentences and words have been finished since the last call."""


MOST_WEIGHED = 5000
"""Sentences of a document up to which what each reads of each is kept: a hundred megabytes."""


@dataclass(eq=False)
class DocumentTranslation:
    """A document and its translations after each pass.

    Its sentences are encoded, and its source memory is made, once, when they are first read.
    """

    system: TranslationSystem
    sentences: Sequence[Sentence]
    """The source token ids, each sentence ended by ``</s>``."""
    batch_tokens: int
    """Source positions that are encoded at once."""
    passes: list[list[list[Hypothesis]]] = field(default_factory=list)
    """For each pass, for each sentence, its best translations; pass 0 is the first one."""
    last_states: Float[Tensor, "sent hidden"] | None = None
    """The cells of its target memory: the last decoder state of each current translation."""
    readings: Readings = field(default_factory=Readings)
    """What the sentences read in the last pass."""
    objective: list[float] = field(default_factory=list)
    """Σ_t log P(y_t | x_t, y_-t, x_-t) after each pass but the first, if measured."""
    known: Known = ()
    """The known pairs that each sentence may recall; empty where none may."""
    approved: Mapping[int, Hypothesis] = field(default_factory=dict)
    """Translations that stay as they are, by the places of their sentences."""
    wanted: Wanted = ()
    """What is required of the translation of each sentence; empty where nothing is."""
    foreign: "DocumentTranslation | None" = None
    """The document whose memory is read instead of its own, in the control of shuffled memory."""

    @property
    def tokens(self) -> list[tuple[int, ...]]:
        """The current translations."""
        return _tokens(self.passes[-1])

    @property
    def settled(self) -> bool:
        """Whether the last pass changed nothing: no later one will.

        Of a document whose memory is another one's nobody knows: that one may change.
        """
        if self.foreign is not None:
            return False
        return len(self.passes) > 1 and _tokens(self.passes[-1]) == _tokens(self.passes[-2])

    def known_of(self, t: int) -> Sequence[KnownPair]:
        """The known pairs that a sentence may recall."""
        return self.known[t] if self.known else ()

    def wanted_of(self, t: int) -> Sequence[Requirement]:
        """What is required of the translation of a sentence; nothing of an approved one."""
        return self.wanted[t] if self.wanted and t not in self.approved else ()

    def add_pass(self, translations: list[list[Hypothesis]]) -> None:
        """Make translations of all sentences the current ones."""
        self.passes.append(translations)
        if translations:
            self.last_states = torch.stack([best[0].last_state for best in translations])

    def update(self, t: int, translations: list[Hypothesis]) -> None:
        """Replace the current translations of one sentence."""
        self.passes[-1][t] = translations
        if self.last_states is not None:
            self.last_states[t] = translations[0].last_state

    def read(
        self, t: int | None = None, last_state: Float[Tensor, " hidden"] | None = None
    ) -> Readings:
        """What all sentences read at this point, or sentence ``t`` alone.

        ``last_state`` stands for that of its current translation. Of a document of very many
        sentences the weights, of which there are as many as their square, are not kept.
        """
        if not self.sentences:
            return Readings()
        source = self.foreign or self
        document = replace(source.context, last_states=source.last_states)
        chosen = list(range(len(self.sentences))) if t is None else [t]
        rows = len(chosen)
        if len(source.sentences) > MOST_WEIGHED:
            rows = max(1, MOST_WEIGHED**2 // len(source.sentences))
        parts = []
        for first in range(0, len(chosen), rows):
            places = torch.tensor(chosen[first : first + rows], device=self.system.device)
            states = None if self.last_states is None else self.last_states[places]
            if last_state is not None:
                states = last_state[None]
            foreign = self.foreign is not None
            summaries = self.summaries[places]
            part = self.system.model.read(document, places, summaries, states, foreign=foreign)
            if len(source.sentences) > MOST_WEIGHED:
                part = replace(part, src_weights=None, trg_weights=None)
            parts.append(part)
        return parts[0] if len(parts) == 1 else concatenate_readings(parts)

    @cached_property
    def context(self) -> DocumentContext:
        """What the document offers to its sentences, but for the target memory."""
        vectors = self.system.vectors
        found = None if vectors is None else vectors(self.sentences)
        (context,) = self.system.model.contexts([self.sentences], found)
        return context

    @cached_property
    def summaries(self) -> Float[Tensor, "sent states"]:
        """h_t of each sentence."""
        device = self.system.device

        def encode(chosen: list[Sentence]) -> list[Tensor]:
            src, lengths = pad(chosen)
            return list(self.system.model.encoder(src.to(device), lengths.to(device)).summary)

        batches = length_batches([len(s) for s in self.sentences], self.batch_tokens)
        return torch.stack(in_order(self.sentences, batches, encode))


def _tokens(translations: list[list[Hypothesis]]) -> list[tuple[int, ...]]:
    return [best[0].tokens for best in translations]


def require_context(system: TranslationSystem, where: str) -> None:
    """Raise where a model reads nothing but the sentence that it translates."""
    if not system.reads_documents:
        fix = "choose a model that was trained with a memory or a local context"
        raise UserError("this model reads no document", where=where, fix=fix)


def shuffle_memories(system: TranslationSystem, documents: Sequence[DocumentTranslation]) -> None:
    """Let each document read the memory of the one before it, and the first that of the last."""
    where = "search.shuffle_memory"
    require_context(system, where)
    filled = [document for document in documents if document.sentences]
    if len(filled) == 1:
        what = "there is no other document whose memory could be read"
        raise UserError(what, where=where, fix="translate at least two documents at once")
    for i, document in enumerate(filled):
        document.foreign = filled[i - 1]
