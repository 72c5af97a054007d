"""Fitting recall: the few numbers by which a trained model weighs what people have translated.

No weight of the model changes. Keys are the principal components of what the model sees in known
pairs; scores and gate are fitted by likelihood on the dev set, with the training set as the
translation memory. All of it is deterministic.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wholedoc.config import Config, MemoryConfig, SearchConfig
from wholedoc.corpus.batches import length_batches, pad
from wholedoc.corpus.documents import Document
from wholedoc.corpus.vocabulary import BOS, EOS, Vocabulary
from wholedoc.decoding.cells import EncodedPair, Recaller, look_up
from wholedoc.decoding.known import (
    Known,
    KnownPair,
    find_approved,
    find_exact,
    find_remembered,
)
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.scoring import SeenWords, of_words, see_words
from wholedoc.decoding.search import Hypothesis, search
from wholedoc.errors import UserError
from wholedoc.kernels import ExactProduct, Packing
from wholedoc.model.recall import Cells, Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.progress import say
from wholedoc.store.model import TrainedModel
from wholedoc.store.run import Run
from wholedoc.tm.matching import percentage, split_tokens
from wholedoc.tm.memory import MemoryWriter, TranslationMemory
from wholedoc.training.data import open_corpus

_STEPS = 50  # of LBFGS, at most
_PROJECTED = 2000  # known pairs from whose features the projection is learned
_SENTENCES = 500  # of the dev set, about so many
_NEAREST = 32  # cells of a word
_BATCH_TOKENS = 2000
_RANGE = 100.0  # of the 127 steps of an 8-bit key, for all but one in a thousand numbers
_LENGTHS = (0.0, 0.1, -0.1, 0.2, -0.2, 0.3, 0.4, 0.5, 0.6)  # added to the length penalty
_PENALTY = 1e-4  # on the squares of the fitted numbers
_START = (1.0, 1.0, 0.0), (-1.0, -1.0, -0.3, 0.5, 0.2, 0.5, 0.5, 0.0)  # of scores and gate


class Fit(NamedTuple):
    """What fitting reached on its sentences."""

    words: int
    before: float
    """Perplexity of the model by itself."""
    after: float
    """Perplexity with recall."""


@dataclass(frozen=True)
class _Words:
    """Words of references, each with its nearest cells and what the model says of them.

    Each word stands as a sentence of one word: the cells of two words are not the same.
    """

    distances: Float[Tensor, "word 1 cell"]
    seen: SeenWords
    words: Int[Tensor, "word 1"]
    cells: Cells


def fit_recall(
    model: TranslationModel,
    vocabularies: tuple[Vocabulary, Vocabulary],
    pairs: Sequence[EncodedPair],
    conditions: Sequence[Known],
    projection: Recall | None = None,
) -> tuple[Recall, Fit]:
    """Learn to recall for a model.

    ``pairs`` are dev sentences with their references; each of the ``conditions`` is what all of
    them know, and counts as much as any other. The projection is learned from what they know, or
    taken over from another fit, so that prepared memories stay as they are.
    """
    device = next(model.parameters()).device
    recall = Recall(model.decoder.upper.state.in_features).to(device)
    recaller = Recaller(model, recall, vocabularies)
    known = list(dict.fromkeys(p.key for pair in chain(*conditions) for p in pair))
    if not known:
        what = "no sentence of the dev set knows a pair, so recall cannot be fitted"
        raise UserError(what, fix="take a larger dev set, or a memory that has more in common")
    with torch.no_grad():
        if projection is None:
            learn_projection(recaller.features(known[:: -(-len(known) // _PROJECTED)]), recall)
        else:
            recall.load_state_dict(projection.state_dict())
        recaller = Recaller(model, recall, vocabularies)  # its name is made from the projection
        parts = [part for known in conditions for part in _read(recaller, pairs, known)]
    return recall, _maximise(recall, parts)


def learn_projection(features: Float[Tensor, "word hidden"], recall: Recall) -> None:
    """Make the principal components of r' the keys, scaled for 8 bits."""
    features = features.double()
    center = features.mean(dim=0)
    centred = features - center
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    directions = vectors.flip(dims=[1])[:, : len(recall.projection)]  # the largest come last
    # Of the two signs of a direction, the one that makes its largest number positive.
    largest = directions.abs().argmax(dim=0, keepdim=True)
    directions = directions * directions.gather(0, largest).sign()
    numbers = (centred @ directions).abs().flatten().sort().values
    scale = _RANGE / float(numbers[int(0.999 * (len(numbers) - 1))].clamp(min=1e-6))
    recall.center.copy_(center)
    recall.projection.copy_(scale * directions.T)


def _read(recaller: Recaller, pairs: Sequence[EncodedPair], known: Known) -> Iterator[_Words]:
    """Read the references of all sentences that know something."""
    model, device = recaller.model, recaller.recall.projection.device
    chosen = [i for i, found in enumerate(known) if found and pairs[i].trg]
    cells_of = recaller.gather([known[i] for i in chosen])
    lengths = [max(len(pairs[i].src), len(pairs[i].trg) + 1) for i in chosen]
    for part in length_batches(lengths, _BATCH_TOKENS):
        batch = [chosen[n] for n in part]
        src, src_lengths = (t.to(device) for t in pad([pairs[i].src for i in batch]))
        trg_in = pad([[BOS, *pairs[i].trg] for i in batch])[0].to(device)
        words = pad([[*pairs[i].trg, EOS] for i in batch])[0].to(device)
        decoded = model(src, src_lengths, trg_in)
        cells = recaller.cells([known[i] for i in batch], cells_of)
        if cells is not None:
            seen = see_words(model, decoded, words, cells.types)
            features = decoded.packing.pad(decoded.packed_features, words.shape[1])
            distances = recaller.recall.distances(features, cells)
            yield _nearest(distances, seen, words, cells, decoded.packing)


def _nearest(
    distances: Float[Tensor, "sent word cell"],
    seen: SeenWords,
    words: Int[Tensor, "sent word"],
    cells: Cells,
    packing: Packing,
) -> _Words:
    """The nearest cells of each packed word: those farther away weigh next to nothing."""
    rows, places = packing.rows, packing.places
    far = distances[rows, places]
    nearest = far.topk(min(_NEAREST, far.shape[1]), dim=1, largest=False)
    chosen = nearest.indices  # (N, M)
    types = cells.words[rows].gather(1, chosen)
    tokens = cells.types[rows].gather(1, types)
    # Of several cells with one word, the first stands for it.
    first = (tokens[:, :, None] == tokens[:, None]).int().argmax(dim=2)
    near = Cells(
        cells.keys.new_zeros(*chosen.shape, 0),
        nearest.values,
        first,
        cells.match[rows].gather(1, chosen),
        cells.approved[rows].gather(1, chosen),
        cells.mask[rows].gather(1, chosen),
        torch.zeros_like(tokens, dtype=torch.bool),
        tokens,
        cells.covered[rows],
    )
    own, surest = seen.own[:, None], seen.surest[:, None]
    at = SeenWords(own, surest, seen.types.gather(1, types)[:, None])
    return _Words(
        nearest.values[:, None].nan_to_num(posinf=0.0), at, words[rows, places][:, None], near
    )


def _maximise(recall: Recall, parts: Sequence[_Words]) -> Fit:
    """Fit scores and gate by LBFGS, in units in which distances are about 1."""
    words = sum(len(part.words) for part in parts)
    if not words:
        return Fit(0, math.nan, math.nan)
    unit = float(torch.cat([part.distances[:, 0, 0] for part in parts]).median().clamp(min=1e-6))
    fitted = Recall(recall.projection.shape[1]).double().to(recall.projection.device)
    fitted.scores.data.copy_(fitted.scores.new_tensor(_START[0]))
    fitted.gate.data.copy_(fitted.gate.new_tensor(_START[1]))
    parameters = [fitted.scores, fitted.gate]
    optimiser = torch.optim.LBFGS(parameters, max_iter=_STEPS, line_search_fn="strong_wolfe")

    def close() -> float:
        optimiser.zero_grad()
        loss = 0.0
        for part in parts:  # one after the other: all graphs at once would fill the memory
            nats = -_log_likelihood(fitted, part, unit) / words
            nats.backward()  # type: ignore[no-untyped-call]
            loss += nats.item()
        penalty = _PENALTY * torch.stack([p.square().sum() for p in parameters]).sum()
        penalty.backward()  # type: ignore[no-untyped-call]
        return loss + penalty.item()

    optimiser.step(close)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        recall.scores.copy_(fitted.scores)
        recall.scores[0] /= unit
        recall.gate.copy_(fitted.gate)
        after = math.fsum(_log_likelihood(fitted, part, unit).item() for part in parts)
    before = math.fsum(part.seen.own.double().sum().item() for part in parts)
    return Fit(words, math.exp(-before / words), math.exp(-after / words))


def _log_likelihood(recall: Recall, part: _Words, unit: float) -> Float[Tensor, ""]:
    """Of some words, in double precision."""
    seen = SeenWords(*(values.double() for values in part.seen))
    names = ("match", "approved", "covered")
    cells = replace(part.cells, **{name: getattr(part.cells, name).double() for name in names})
    recalled = recall.weigh(part.distances.double() / unit, seen.types, seen.surest, cells)
    return of_words(recalled, seen, part.words, cells).sum()


def fit_length(
    recaller: Recaller,
    pairs: Sequence[EncodedPair],
    conditions: Sequence[Known],
    config: SearchConfig,
) -> float:
    """What recall adds to the length penalty: of some values, the one with the highest BLEU.

    A search finds the same hypotheses with any penalty, so one search serves them all.
    """
    if config.beam == 1:
        return 0.0
    import sacrebleu  # takes a while, and only this needs it

    predictor = Predictor(recaller.model, ExactProduct, None, recaller)
    decode = recaller.vocabularies[1].decode
    ranked: list[list[tuple[Hypothesis, str]]] = []
    references = []
    for known in conditions:
        chosen = [i for i, found in enumerate(known) if found and pairs[i].trg]
        cells_of = look_up(recaller, known)
        for part in length_batches([len(pairs[i].src) for i in chosen], config.batch_tokens):
            batch = [chosen[n] for n in part]
            cells = cells_of(batch)
            if cells is None:
                continue
            src, lengths = (t.to(cells.keys.device) for t in pad([pairs[i].src for i in batch]))
            found = search(predictor, src, lengths, config, config.beam, cells=cells)
            served = recaller.recall.serves(cells).nonzero()[:, 0].tolist()
            ranked += [[(h, decode(h.tokens)) for h in found[n]] for n in served]
            references += [decode(pairs[batch[n]].trg) for n in served]

    def bleu(added: float) -> float:
        penalty = config.length_penalty + added
        best = [
            max(each, key=lambda h: h[0].log_probability / (len(h[0].tokens) + 1) ** penalty)[1]
            for each in ranked
        ]
        return sacrebleu.corpus_bleu(best, [references], force=True).score

    return max(_LENGTHS, key=bleu) if ranked else 0.0


# A whole run.


@contextmanager
def training_memory(config: Config, run: Run) -> Iterator[TranslationMemory]:
    """The training set as a translation memory: kept in the run, or gone afterwards."""
    if not run.memory.exists() and config.tm.keep:
        _build_memory(run.memory, config)
    if run.memory.exists():
        with TranslationMemory.open(run.memory) as memory:
            yield memory
        return
    with TemporaryDirectory(dir=run.directory, prefix="memory-") as directory:
        _build_memory(Path(directory, "memory"), config)
        with TranslationMemory.open(Path(directory, "memory")) as memory:
            yield memory


def _build_memory(path: Path, config: Config) -> None:
    languages = config.data.src_language, config.data.trg_language
    with MemoryWriter.build(path, *languages) as writer:
        writer.add(open_corpus(config, "train"), Path(config.data.train.src).name)


def fit_model(
    trained: TrainedModel, memories: Sequence[TranslationMemory], dev: Iterable[Document]
) -> tuple[TrainedModel, list[Fit]]:
    """Learn to recall from some memories and from approved sentences, for each model of a run.

    What was projected before stays projected so: prepared memories stay of use.
    """
    vocabularies = trained.src_vocabulary, trained.trg_vocabulary
    documents = _sample(list(dev))
    pairs = [
        EncodedPair([*vocabularies[0].encode(p.src), EOS], vocabularies[1].encode(p.trg))
        for document in documents
        for p in document
    ]
    conditions = _conditions(documents, memories, trained.config.tm)
    base, fit = fit_recall(trained.base, vocabularies, pairs, conditions, trained.base_recall)
    recaller = Recaller(trained.base, base, vocabularies)
    length = fit_length(recaller, pairs, conditions[:2], trained.config.search)
    base.length.data.fill_(length)
    trained, fits = replace(trained, base_recall=base), [fit]
    if trained.document is not None:
        before = trained.document_recall
        found, fit = fit_recall(trained.document, vocabularies, pairs, conditions, before)
        found.length.data.fill_(length)
        trained, fits = replace(trained, document_recall=found), [*fits, fit]
    return trained, fits


def _sample(documents: list[Document]) -> list[Document]:
    """Whole documents from all over a set, with about as many sentences as fitting needs."""
    sentences = sum(map(len, documents))
    step = max(1, round(sentences / _SENTENCES))
    return documents[::step]


def _conditions(
    documents: Sequence[Document], memories: Sequence[TranslationMemory], limits: MemoryConfig
) -> list[Known]:
    """What the sentences know: memories alone, the approved sentences before alone, both."""
    remembered: list[list[KnownPair]] = []
    approved: list[list[KnownPair]] = []
    for document in documents:
        texts = [pair.src for pair in document]
        references = {t: pair.trg for t, pair in enumerate(document)}
        remembered += find_remembered(texts, memories, limits)
        approved += find_approved(texts, references, limits, rehearse=True)
    if limits.exact:  # what is taken as it is does not reach the gate
        taken = [find_exact(pairs) is not None for pairs in remembered]
        remembered = [[] if t else p for t, p in zip(taken, remembered, strict=True)]
        approved = [[] if t else p for t, p in zip(taken, approved, strict=True)]
    both = [[*first, *second] for first, second in zip(remembered, approved, strict=True)]
    texts = [pair.src for document in documents for pair in document]
    return [remembered, approved, both, _strangers(texts, remembered, memories)]


def _strangers(
    texts: Sequence[str],
    known: Sequence[Sequence[KnownPair]],
    memories: Sequence[TranslationMemory],
) -> list[list[KnownPair]]:
    """What sentences far away know: pairs that have nothing to do with a sentence.

    From them the gate learns to stay closed.
    """
    found = []
    for t, text in enumerate(texts):
        pairs = known[(t + len(texts) // 2) % len(texts)]
        tokens = split_tokens(text)
        coverage = memories[0].cover(text, [pair.src for pair in pairs])
        together = coverage.together(range(len(pairs)))
        scores = [percentage(tokens, split_tokens(pair.src)) for pair in pairs]
        found.append(
            [
                replace(pair, coverage=share, together=together, score=score)
                for pair, share, score in zip(pairs, coverage.shares, scores, strict=True)
            ]
        )
    return found


def prepare_memory(trained: TrainedModel, memory: TranslationMemory) -> None:
    """Store the cells of a memory as the models of a run read them; say so if that cannot be."""
    vocabularies = trained.src_vocabulary, trained.trg_vocabulary
    models = (trained.base, trained.base_recall), (trained.document, trained.document_recall)
    for model, recall in models:
        if model is not None and recall is not None:
            recaller = Recaller(model, recall, vocabularies)
            try:
                if not recaller.is_prepared(memory):
                    recaller.prepare(memory)
            except UserError as error:
                say(f"{error}; the memory is read anew in each translation, which is slower")
