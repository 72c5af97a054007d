"""Scoring: log P(y_t | x_t, y_-t, x_-t) of given translations of documents."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import ScoringMemory
from wholedoc.decoding.descent import Descent, DocumentReader, System, exchange_memories
from wholedoc.decoding.likelihood import (
    Progress,
    Sentence,
    generated_states,
    given_states,
    score_sentences,
)
from wholedoc.errors import UserError
from wholedoc.model.memory import Readings
from wholedoc.model.translation import TranslationModel


@dataclass(frozen=True)
class Candidate:
    """A translation that a sentence of a document might have."""

    document: int
    """Index of the document."""
    t: int
    """Index of the sentence in it."""
    tokens: Sentence


@dataclass(frozen=True)
class ContextScores:
    """The log-probabilities of a document's translations, by what the model read for them."""

    words: list[int]
    """Tokens of each translation, ``</s>`` included."""
    document: list[float]
    """log P(y_t | x_t, y_-t, x_-t): their own document."""
    nothing: list[float]
    """The same weights, with all readings zero."""
    sentence_model: list[float]
    """log P(y_t | x_t) by the sentence model of stage 1."""
    shuffled: list[float] | None
    """The memory of another document; None where there is no other."""
    source_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the source memory of its own document."""
    target_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the target memory of its own document."""


@torch.inference_mode()
def score_documents(
    system: System,
    documents: Sequence[Sequence[Sentence]],
    translations: Sequence[Sequence[Sentence]],
    batch_tokens: int,
    memory: ScoringMemory = "given",
) -> list[list[float]]:
    """The log-probability of each sentence's translation, given the rest of its document.

    The cells of the target memory are made from the given translations themselves, or from those
    that the sentence model generates. Sources end with ``</s>``, translations do not.
    """
    readings: list[Readings] = []
    if system.model is not system.base:
        known = translations if memory == "given" else [None] * len(documents)
        reader = DocumentReader(system, batch_tokens)
        walks = [Descent(document) for document in documents]
        cells = _target_cells(system, documents, known, batch_tokens)
        readings = [reader.read(walk, states) for walk, states in zip(walks, cells, strict=True)]
    sentences = [sentence for document in documents for sentence in document]
    targets = [tokens for document in translations for tokens in document]
    scores = iter(score_sentences(system.model, sentences, targets, batch_tokens, readings))
    return [[next(scores) for _ in document] for document in documents]


@torch.inference_mode()
def score_context(
    system: System,
    documents: Sequence[Sequence[Sentence]],
    translations: Sequence[Sequence[Sentence]],
    batch_tokens: int,
    memory: ScoringMemory = "given",
    progress: Progress | None = None,
) -> list[ContextScores]:
    """Score translations as :func:`score_documents` does, and again with less to read.

    The other document is the one before, as in translating with shuffled memory.
    """
    if system.model is system.base:
        raise UserError(
            "this model reads no document",
            where="use of context",
            fix="choose a model that was trained with a memory or a local context",
        )
    walks = [Descent(document) for document in documents]
    known = translations if memory == "given" else [None] * len(documents)
    cells = _target_cells(system, documents, known, batch_tokens)
    reader = DocumentReader(system, batch_tokens)
    own = [reader.read(walk, states) for walk, states in zip(walks, cells, strict=True)]
    shuffled = _read_others(system, reader, walks, cells)
    sentences = [sentence for document in documents for sentence in document]
    targets = [tokens for document in translations for tokens in document]

    def run(model: TranslationModel, readings: Sequence[Readings] = ()) -> list[list[float]]:
        scores = iter(score_sentences(model, sentences, targets, batch_tokens, readings, progress))
        return [[next(scores) for _ in document] for document in documents]

    with_document = run(system.model, own)
    with_nothing = run(system.model)
    by_base = run(system.base)
    with_other = run(system.model, shuffled) if shuffled else None
    return [
        ContextScores(
            words=[len(tokens) + 1 for tokens in translations[d]],
            document=with_document[d],
            nothing=with_nothing[d],
            sentence_model=by_base[d],
            shuffled=with_other[d] if with_other else None,
            source_weights=own[d].src_weights,
            target_weights=own[d].trg_weights,
        )
        for d in range(len(documents))
    ]


def _read_others(
    system: System, reader: DocumentReader, walks: Sequence[Descent], cells: list[Tensor | None]
) -> list[Readings]:
    """What each document reads of another one's memory; nothing where there is only one."""
    if sum(bool(walk.sentences) for walk in walks) < 2:
        return []
    others = exchange_memories(system, walks)
    states = {id(walk): found for walk, found in zip(walks, cells, strict=True)}
    return [
        reader.read_other(walk, states[id(walk)], other, states[id(other)])
        if (other := others.get(id(walk)))
        else Readings()
        for walk in walks
    ]


@torch.inference_mode()
def score_candidates(
    system: System,
    documents: Sequence[Sequence[Sentence]],
    translations: Sequence[Sequence[Sentence] | None],
    candidates: Sequence[Candidate],
    batch_tokens: int,
) -> list[float]:
    """The log-probability of each candidate in its place of its document.

    Where a document's translations are given, they make the target memory, and a candidate is
    scored as :func:`score_documents` would with it in the place of its sentence's translation;
    where they are None, the sentence model generates them.
    """
    sentences = [documents[c.document][c.t] for c in candidates]
    targets = [c.tokens for c in candidates]
    readings: list[Readings] = []
    if system.model is not system.base:
        reader = DocumentReader(system, batch_tokens)
        walks = [Descent(document) for document in documents]
        cells = _target_cells(system, documents, translations, batch_tokens)
        known = [i for i, c in enumerate(candidates) if translations[c.document] is not None]
        own = given_states(
            system.base, [sentences[i] for i in known], [targets[i] for i in known], batch_tokens
        )
        own_states = dict(zip(known, own, strict=True))
        for i, candidate in enumerate(candidates):
            states = cells[candidate.document]
            if states is not None and i in own_states:
                states = states.clone()
                states[candidate.t] = own_states[i]
            readings.append(reader.read(walks[candidate.document], states, candidate.t))
    return score_sentences(system.model, sentences, targets, batch_tokens, readings)


def _target_cells(
    system: System,
    documents: Sequence[Sequence[Sentence]],
    translations: Sequence[Sequence[Sentence] | None],
    batch_tokens: int,
) -> list[Tensor | None]:
    """The cells of each document's target memory: of its translations, or of generated ones."""
    cells: list[Tensor | None] = [None] * len(documents)
    if not system.model.reads_translations:
        return cells
    given = [d for d, known in enumerate(translations) if known is not None]
    others = [d for d, known in enumerate(translations) if known is None]
    sources = [[s for d in chosen for s in documents[d]] for chosen in (given, others)]
    targets = [tokens for known in translations if known is not None for tokens in known]
    states = (
        given_states(system.base, sources[0], targets, batch_tokens),
        generated_states(system.base, sources[1]),
    )
    for chosen, found in zip((given, others), states, strict=True):
        parts = torch.split(found, [len(documents[d]) for d in chosen])
        for d, part in zip(chosen, parts, strict=True):
            cells[d] = part
    return cells
