"""Given translations: how probable they are, sentence by sentence or given their documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import ScoringMemory
from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.document import (
    DocumentTranslation,
    Progress,
    Sentence,
    require_context,
    shuffle_memories,
)
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.search import GREEDY, search
from wholedoc.kernels import one_thread
from wholedoc.model.decoder import Decoded
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel

# Logits that exist at once: 16 MiB, whatever the batch and vocabulary.
_LOGITS_AT_ONCE = 4 * 2**20
Result = TypeVar("Result")
Documents = Sequence[Sequence[Sentence]]


class Candidate(NamedTuple):
    """A translation that a sentence of a document might have."""

    document: int
    t: int
    tokens: Sentence


@dataclass(frozen=True)
class ContextScores:
    """The log-probabilities of a document's translations, by what the model read for them."""

    words: list[int]
    """Tokens of each translation, ``</s>`` included."""
    source_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the source memory of its own document."""
    target_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the target memory of its own document."""
    document: list[float]
    """log P(y_t | x_t, y_-t, x_-t): their own document."""
    nothing: list[float]
    """The same weights, with all readings zero."""
    sentence_model: list[float]
    """log P(y_t | x_t) by the sentence model of stage 1."""
    shuffled: list[float] | None = None
    """The memory of another document; None where there is no other."""


@torch.inference_mode()
def score_translations(
    model: TranslationModel,
    documents: Documents,
    translations: Documents,
    batch_tokens: int,
    readings: Sequence[Readings] = (),
    progress: Progress | None = None,
) -> list[list[float]]:
    """log P(y_t | x_t, c_src, c_trg) of each document's translations, ``</s>`` included.

    Sources end with ``</s>``, translations do not. ``readings`` are those of the sentences in
    order, in any number of parts; without any, the model reads nothing.
    """
    sentences, targets = list(chain(*documents)), list(chain(*translations))

    def score(decoded: Decoded, chosen: list[int]) -> list[float]:
        trg_out, _ = pad([[*targets[i], EOS] for i in chosen])
        of_sentence, features = decoded.packing.rows, decoded.packed_features
        words = trg_out.to(features.device)[of_sentence, decoded.packing.places]
        scores = torch.zeros(len(chosen), dtype=torch.float64, device=features.device)
        step = max(1, _LOGITS_AT_ONCE // model.decoder.output.vocabulary.out_features)
        for start in range(0, len(words), step):
            part = slice(start, start + step)
            added = None if decoded.logits is None else decoded.logits[of_sentence[part]]
            every = model.decoder.log_probabilities(features[part], added)
            found = every.gather(-1, words[part, None])[:, 0]
            scores.index_add_(0, of_sentence[part], found.double())
        if progress is not None:
            progress(len(chosen), len(words))
        return scores.tolist()

    scores = iter(_decode(model, sentences, targets, batch_tokens, score, readings))
    return [[next(scores) for _ in document] for document in documents]


@torch.inference_mode()
def given_states(
    model: TranslationModel,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    batch_tokens: int,
) -> Float[Tensor, "sent hidden"]:
    """Last decoder states of given translations, read by the sentence model."""

    def last_states(decoded: Decoded, _: list[int]) -> list[Tensor]:
        return list(decoded.packed_states[decoded.packing.ends])

    return torch.stack(_decode(model, sentences, translations, batch_tokens, last_states))


@torch.inference_mode()
def generated_states(
    predictor: Predictor, sentences: Sequence[Sentence]
) -> Float[Tensor, "sent hidden"]:
    """Last decoder states of the sentence model's own translations, greedily searched."""
    device = predictor.words.device

    def run(chosen: list[Sentence]) -> list[Tensor]:
        src, lengths = pad(chosen)
        found = search(predictor, src.to(device), lengths.to(device), GREEDY)
        return [hypotheses[0].last_state for hypotheses in found]

    batches = length_batches([len(s) for s in sentences], GREEDY.batch_tokens)
    return torch.stack(in_order(sentences, batches, run))


def _decode(
    model: TranslationModel,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    batch_tokens: int,
    use: Callable[[Decoded, list[int]], list[Result]],
    readings: Sequence[Readings] = (),
) -> list[Result]:
    """What ``use`` makes of the forward pass of each batch of sentences, in their order."""
    device = next(model.parameters()).device

    def run(chosen: list[int]) -> list[Result]:
        src, src_lengths = pad([sentences[i] for i in chosen])
        trg_in, _ = pad([[BOS, *translations[i]] for i in chosen])
        read = gather_readings(readings, torch.tensor(chosen, device=device)) if readings else None
        return use(model(src.to(device), src_lengths.to(device), trg_in.to(device), read), chosen)

    pairs = zip(sentences, translations, strict=True)
    lengths = [max(len(src), len(trg) + 1) for src, trg in pairs]
    return in_order(range(len(lengths)), length_batches(lengths, batch_tokens), run)


@one_thread()
@torch.inference_mode()
def score_documents(
    system: TranslationSystem,
    documents: Documents,
    translations: Documents,
    batch_tokens: int,
    memory: ScoringMemory = "given",
) -> list[list[float]]:
    """The log-probability of each sentence's translation, given the rest of its document.

    The cells of the target memory are made from the given translations themselves, or from those
    that the sentence model generates. Sources end with ``</s>``, translations do not.
    """
    known = translations if memory == "given" else [None] * len(documents)
    opened = _open_documents(system, documents, known, batch_tokens)
    readings = [document.read() for document in opened] if system.reads_documents else []
    return score_translations(system.model, documents, translations, batch_tokens, readings)


@one_thread()
@torch.inference_mode()
def score_context(
    system: TranslationSystem,
    documents: Documents,
    translations: Documents,
    batch_tokens: int,
    memory: ScoringMemory = "given",
    progress: Progress | None = None,
) -> list[ContextScores]:
    """Score translations as :func:`score_documents` does, and again with less to read.

    The other document is the one before, as in translating with shuffled memory.
    """
    require_context(system, "use of context")
    known = translations if memory == "given" else [None] * len(documents)
    opened = _open_documents(system, documents, known, batch_tokens)
    own = [document.read() for document in opened]
    conditions = [(system.model, own), (system.model, []), (system.base, [])]
    if sum(map(bool, documents)) > 1:  # there is another document
        shuffle_memories(system, opened)
        conditions.append((system.model, [document.read() for document in opened]))
    scores = [
        score_translations(model, documents, translations, batch_tokens, readings, progress)
        for model, readings in conditions
    ]
    words = [[len(tokens) + 1 for tokens in document] for document in translations]
    weights = [(read.src_weights, read.trg_weights) for read in own]
    found = zip(words, weights, zip(*scores, strict=True), strict=True)
    return [ContextScores(counts, *read, *each) for counts, read, each in found]


@one_thread()
@torch.inference_mode()
def score_candidates(
    system: TranslationSystem,
    documents: Documents,
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
    if system.reads_documents:
        opened = _open_documents(system, documents, translations, batch_tokens)
        own: dict[int, Tensor] = {}
        given = [i for i, c in enumerate(candidates) if translations[c.document] is not None]
        if system.model.reads_translations and given:
            pairs = [sentences[i] for i in given], [targets[i] for i in given]
            own = dict(zip(given, given_states(system.base, *pairs, batch_tokens), strict=True))
        readings = [opened[c.document].read(c.t, own.get(i)) for i, c in enumerate(candidates)]
    (scores,) = score_translations(system.model, [sentences], [targets], batch_tokens, readings)
    return scores


def _open_documents(
    system: TranslationSystem,
    documents: Documents,
    translations: Sequence[Sequence[Sentence] | None],
    batch_tokens: int,
) -> list[DocumentTranslation]:
    """Documents whose target memory is made of their translations, or of generated ones."""
    opened = [DocumentTranslation(system, document, batch_tokens) for document in documents]
    if not system.model.reads_translations:
        return opened
    filled = [d for d, document in enumerate(documents) if document]
    for generate in (False, True):
        chosen = [d for d in filled if (translations[d] is None) == generate]
        sources = [sentence for d in chosen for sentence in documents[d]]
        targets = [tokens for d in chosen for tokens in translations[d] or ()]
        if not chosen:
            continue
        if generate:
            states = generated_states(system.base_predictor, sources)
        else:
            states = given_states(system.base, sources, targets, batch_tokens)
        parts = torch.split(states, [len(documents[d]) for d in chosen])
        for d, part in zip(chosen, parts, strict=True):
            opened[d].last_states = part
    return opened
