"""Given translations: how probable they are, sentence by sentence or given their documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wholedoc.config import ScoringMemory, SearchConfig
from wholedoc.corpus.batches import in_order, length_batches, pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.cells import CellLookup, Recaller, look_up
from wholedoc.decoding.document import (
    DocumentTranslation,
    Progress,
    Sentence,
    require_context,
    shuffle_memories,
)
from wholedoc.decoding.known import Known
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.search import GREEDY, Hypothesis, search
from wholedoc.kernels import Packing, one_thread
from wholedoc.model.decoder import Decoded
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.recall import Cells, Recall, Recalled
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
    recalls: "Recalls | None" = None,
) -> list[list[float]]:
    """log P(y_t | x_t, c_src, c_trg) of each document's translations, ``</s>`` included.

    Sources end with ``</s>``, translations do not. ``readings`` are those of the sentences in
    order, in any number of parts; without any, the model reads nothing. What the sentences recall
    counts too, where it is given.
    """
    sentences, targets = list(chain(*documents)), list(chain(*translations))

    def score(decoded: Decoded, chosen: list[int]) -> list[float]:
        trg_out, _ = pad([[*targets[i], EOS] for i in chosen])
        trg_out = trg_out.to(decoded.packed_features.device)
        cells = None if recalls is None else recalls.cells(chosen)
        seen = see_words(model, decoded, trg_out, None if cells is None else cells.types)
        log_probabilities = seen.own
        if recalls is not None and cells is not None:
            padded = seen.pad(decoded.packing, trg_out.shape[1])
            features = decoded.packing.pad(decoded.packed_features, trg_out.shape[1])
            recalled = recalls.recall.follow(
                features, trg_out, padded.own, padded.types, padded.surest, cells
            )
            mixed = of_words(recalled, padded, trg_out, cells)
            log_probabilities = mixed[decoded.packing.rows, decoded.packing.places]
        scores = torch.zeros(len(chosen), dtype=torch.float64, device=trg_out.device)
        scores.index_add_(0, decoded.packing.rows, log_probabilities.double())
        if progress is not None:
            progress(len(chosen), len(log_probabilities))
        return scores.tolist()

    scores = iter(decode_given(model, sentences, targets, batch_tokens, score, readings))
    return [[next(scores) for _ in document] for document in documents]


class SeenWords(NamedTuple):
    """What the output layer says at the words of given translations, packed or by places."""

    own: Float[Tensor, "*place"]
    """log P_model(y_j)."""
    surest: Float[Tensor, "*place"]
    """max_y P_model(y)."""
    types: Float[Tensor, "*place type"]
    """log P_model of the types of the sentence."""

    def pad(self, packing: Packing, steps: int) -> "SeenWords":
        """By places (sentence, word) instead of packed, zero at padding."""
        own, surest = packing.pad(torch.stack(self[:2], dim=1), steps).unbind(dim=-1)
        return SeenWords(own, surest, packing.pad(self.types, steps))


def see_words(
    model: TranslationModel,
    decoded: Decoded,
    words: Int[Tensor, "sent trg_word"],
    types: Int[Tensor, "sent type"] | None = None,
) -> SeenWords:
    """log P_model of the words of given translations, packed, and of the types of each sentence."""
    packing, features = decoded.packing, decoded.packed_features
    if types is None:
        types = words.new_zeros(len(words), 1)
    own, surest = features.new_empty(len(features)), features.new_empty(len(features))
    of_types = features.new_empty(len(features), types.shape[1])
    step = max(1, _LOGITS_AT_ONCE // model.decoder.output.vocabulary.out_features)
    for start in range(0, len(features), step):
        part = slice(start, start + step)
        rows, places = packing.rows[part], packing.places[part]
        added = None if decoded.logits is None else decoded.logits[rows]
        every = model.decoder.log_probabilities(features[part], added)
        own[part] = every.gather(-1, words[rows, places][:, None])[:, 0]
        surest[part] = every.amax(dim=-1).exp()
        of_types[part] = every.gather(-1, types[rows])
    return SeenWords(own, surest, of_types)


def of_words(
    recalled: Recalled, seen: SeenWords, words: Int[Tensor, "sent trg_word"], cells: Cells
) -> Float[Tensor, "sent trg_word"]:
    """log P(y_j) of given words, recall included."""
    rest, mixed = recalled.mix(seen.types)
    places, found = places_of(words, cells)
    return torch.where(found, mixed.gather(2, places)[:, :, 0], seen.own + rest)


def places_of(words: Int[Tensor, "sent trg_word"], cells: Cells) -> tuple[Tensor, Tensor]:
    """Where among the types of its sentence each word is, and whether it is there."""
    same = cells.types[:, None] == words[:, :, None]  # (S, J, U)
    return same.int().argmax(dim=-1, keepdim=True), same.any(dim=-1)


@dataclass(frozen=True)
class Recalls:
    """What given sentences may recall while their translations are read."""

    recall: Recall
    cells: CellLookup

    @classmethod
    def of(cls, recaller: Recaller | None, known: Known) -> "Recalls | None":
        """Get ready to recall the known pairs of sentences; None where there are none."""
        if recaller is None or not any(known):
            return None
        return cls(recaller.recall, look_up(recaller, known))


@torch.inference_mode()
def read_translations(
    model: TranslationModel,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    config: SearchConfig,
) -> list[Hypothesis]:
    """Given translations as if search had found them, read by the sentence model."""
    (scores,) = score_translations(model, [sentences], [translations], config.batch_tokens)

    def read(decoded: Decoded, chosen: list[int]) -> list[tuple[Tensor, Tensor]]:
        weights = decoded.packing.pad(decoded.packed_weights, len(decoded.packing.counts))
        return [
            (row[: len(translations[i]) + 1, : len(sentences[i])], state)
            for row, state, i in zip(
                weights, decoded.packed_states[decoded.packing.ends], chosen, strict=True
            )
        ]

    found = decode_given(model, sentences, translations, config.batch_tokens, read)
    return [
        Hypothesis(tuple(tokens), score, score / (len(tokens) + 1) ** config.length_penalty, *rest)
        for tokens, score, rest in zip(translations, scores, found, strict=True)
    ]


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

    return torch.stack(decode_given(model, sentences, translations, batch_tokens, last_states))


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


def decode_given(
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
    known: Sequence[Known] = (),
) -> list[list[float]]:
    """The log-probability of each sentence's translation, given the rest of its document.

    The cells of the target memory are made from the given translations themselves, or from those
    that the sentence model generates. Sources end with ``</s>``, translations do not. ``known`` are
    the pairs that the sentences of each document may recall.
    """
    recalls = Recalls.of(system.recaller, list(chain(*known)))
    given = translations if memory == "given" else [None] * len(documents)
    opened = _open_documents(system, documents, given, batch_tokens)
    readings = [document.read() for document in opened] if system.reads_documents else []
    return score_translations(
        system.model, documents, translations, batch_tokens, readings, recalls=recalls
    )


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
