"""What each stage trains: sentences by themselves, or documents."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from wholedoc.config import DocumentStageConfig, StageConfig
from wholedoc.corpus.batches import (
    DocumentBatches,
    Indices,
    SentenceBatches,
    make_batch,
    token_batches,
)
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import EOS
from wholedoc.model.encoder import Encoder, Encoding
from wholedoc.model.language import DIRECTIONS, LanguageModel
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Rows
from wholedoc.training.distribution import World
from wholedoc.training.loop import Task
from wholedoc.training.objective import Loss, sentence_loss, translation_loss, word_loss
from wholedoc.training.samples import DevSample, Sampler

Detached = TypeVar("Detached", Encoding, Readings)
BatchLoss = Callable[[EncodedCorpus, Indices, float], Loss]


@dataclass(frozen=True)
class Sets:
    """The corpora of a stage."""

    train: EncodedCorpus
    dev: EncodedCorpus


@dataclass(frozen=True)
class Stage:
    """A stage and its settings."""

    name: str
    config: StageConfig
    seed: int


@final
class SentenceTask(Task):
    """A stage whose updates are batches of sentences drawn across documents.

    ``loss`` gives the loss of some sentences of a corpus, with a label smoothing.
    """

    def __init__(
        self,
        stage: Stage,
        model: nn.Module,
        loss: BatchLoss,
        sets: Sets,
        sample: Callable[[], DevSample] | None = None,
    ) -> None:
        self.name = stage.name
        self.model = model
        self.loss = loss
        self.sets = sets
        self.sample = sample
        self.label_smoothing = stage.config.label_smoothing
        tokens = stage.config.batch_tokens
        self.batches = SentenceBatches(sets.train, tokens, stage.seed)
        self.dev_batches = SentenceBatches(sets.dev, tokens, stage.seed).epoch(1)

    def updates(self, epoch: int) -> list[Indices]:
        """One batch of sentences per update."""
        return self.batches.epoch(epoch)

    def backward(self, update: Indices, world: World) -> tuple[float, int]:
        """The loss of this process's sentences of the batch."""
        sentences = world.share(update)
        if not len(sentences):
            return 0.0, 0
        loss = self.loss(self.sets.train, sentences, self.label_smoothing)
        loss.smoothed.backward()  # type: ignore[no-untyped-call]
        return loss.nats, loss.words

    @torch.inference_mode()
    def dev_perplexity(self, world: World) -> float:
        """Over all sentences of the dev set."""
        self.model.eval()
        losses = (self.loss(self.sets.dev, part, 0.0) for part in world.share(self.dev_batches))
        return _perplexity(((loss.nats, loss.words) for loss in losses), world)


def translation_task(
    stage: Stage, model: TranslationModel, sets: Sets, sampler: Sampler | None = None
) -> SentenceTask:
    """Stage 1: translate sentences by themselves."""
    device = next(model.parameters()).device

    def loss(corpus: EncodedCorpus, sentences: Indices, smoothing: float) -> Loss:
        return sentence_loss(model, make_batch(corpus, sentences).to(device), smoothing)

    sample = None
    if sampler is not None:
        step = max(1, len(sets.dev) // sampler.count)
        some = range(0, len(sets.dev), step)[: sampler.count]
        sample = partial(sampler.sample, model, sets.dev, some)
    return SentenceTask(stage, model, loss, sets, sample)


def language_task(stage: Stage, direction: str, model: LanguageModel, sets: Sets) -> SentenceTask:
    """Stage 0: predict each word of source sentences, read in one direction."""
    device = next(model.parameters()).device
    read = DIRECTIONS[direction]

    def loss(corpus: EncodedCorpus, sentences: Indices, smoothing: float) -> Loss:
        words, lengths = read([corpus.src(int(t)).tolist() for t in sentences])
        following = words.roll(-1, dims=1)
        rows = torch.arange(len(words))
        following[rows, lengths - 1] = EOS
        mask = torch.arange(words.shape[1]) < lengths[:, None]
        states = model(words.to(device))[mask.to(device)]
        return word_loss(model.output, states, following[mask].to(device), smoothing)

    return SentenceTask(stage, model, loss, sets)


@dataclass(frozen=True)
class DocumentSet:
    """A corpus with what its memories are made from; None for a memory that is not read."""

    corpus: EncodedCorpus
    vectors: Rows | None
    """Sentence vectors of the source side."""
    last_states: Rows | None
    """Last decoder states of the current translations."""


@final
class DocumentTask(Task):
    """Stage 2: translate the sentences of whole documents, given their memories."""

    name = "stage2"

    def __init__(
        self,
        model: TranslationModel,
        train: DocumentSet,
        dev: DocumentSet,
        config: DocumentStageConfig,
        seed: int,
        sampler: Sampler | None = None,
    ) -> None:
        self.model: TranslationModel = model
        self.sample = None if sampler is None else partial(self._sample, sampler)
        self.train = train
        self.dev = dev
        self.config = config
        self.batches = DocumentBatches(train.corpus, config.update_tokens, seed)
        # On the dev set documents only share a batch, never an update.
        self.dev_batches = DocumentBatches(dev.corpus, config.batch_tokens, seed).epoch(1)

    def updates(self, epoch: int) -> list[tuple[range, ...]]:
        """One document per update, or several up to a number of tokens."""
        return self.batches.epoch(epoch)

    def backward(self, update: tuple[range, ...], world: World) -> tuple[float, int]:
        """The loss of this process's documents of the update."""
        documents, config = world.share(update), self.config
        if not documents:
            return 0.0, 0
        return document_loss(
            self.model, self.train, documents, config.batch_tokens, config.label_smoothing
        )

    @torch.inference_mode()
    def dev_perplexity(self, world: World) -> float:
        """Over all documents of the dev set, with the same memories at every epoch."""
        self.model.eval()
        tokens = self.config.batch_tokens
        groups = world.share(self.dev_batches)
        totals = (document_loss(self.model, self.dev, group, tokens) for group in groups)
        return _perplexity(totals, world)

    @torch.inference_mode()
    def _sample(self, sampler: Sampler) -> DevSample:
        """Translate the first dev sentences, given the memories that the dev perplexity is of."""
        corpus = self.dev.corpus
        sentences = range(min(sampler.count, len(corpus)))
        ranges = [corpus.document_sentences(d) for d in range(corpus.documents)]
        documents = [document for document in ranges if document and document[0] in sentences]
        device = next(self.model.parameters()).device
        batch = make_batch(corpus, sentences).to(device)
        self.model.eval()
        summaries = self.model.encoder(batch.src, batch.src_lengths).summary
        readings = _read(self.model, self.dev, documents, summaries)
        rows = torch.arange(len(sentences), device=device)
        return sampler.sample(self.model, corpus, sentences, gather_readings(readings, rows))


def document_loss(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    batch_tokens: int,
    label_smoothing: float = 0.0,
) -> tuple[float, int]:
    """−Σ_t log P(y_t | x_t, y_-t, x_-t) over the sentences of some documents, and their words.

    Where gradients are enabled, the backward pass is made too: that of the decoder batch by batch,
    so that only one batch's decoder is ever in memory, then that of the encoder and the memories.
    Sentences of like length are computed together, whatever document they are in; a document RNN
    and a reading belong to one document.
    """
    corpus = data.corpus
    device = next(model.parameters()).device
    sentences = [t for document in documents for t in document]
    lengths = corpus.src_lengths[sentences], corpus.trg_lengths[sentences]
    parts = token_batches(*lengths, batch_tokens)
    batches = [make_batch(corpus, [sentences[i] for i in part]).to(device) for part in parts]
    encode = model.encoder if len(parts) == 1 else partial(encode_with_recomputation, model.encoder)
    encodings = [encode(batch.src, batch.src_lengths) for batch in batches]
    order = torch.cat([torch.from_numpy(part) for part in parts]).argsort().to(device)
    summaries = torch.cat([encoding.summary for encoding in encodings])[order]
    readings = _read(model, data, documents, summaries)
    split = SplitBackward()
    nats, words = 0.0, 0
    for part, batch, encoding in zip(parts, batches, encodings, strict=True):
        read = gather_readings(readings, torch.from_numpy(part).to(device))
        decoded = model.decoder(split.detach(encoding), batch.trg_in, split.detach(read))
        loss = translation_loss(model, decoded, batch, label_smoothing)
        del decoded
        nats, words = nats + loss.nats, words + loss.words
        if torch.is_grad_enabled():
            loss.smoothed.backward()  # type: ignore[no-untyped-call]
        del loss  # and all that it was computed from, before the next one is
    split.backward()
    return nats, words


def _read(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    summaries: Float[Tensor, "sent states"],
) -> list[Readings]:
    """What the sentences of each document read; ``summaries`` may end inside the last one."""
    if model.reads_translations and data.last_states is None:
        raise ValueError("a target memory is read whose cells are not given")
    contexts = model.contexts(
        [[data.corpus.src(t).tolist() for t in document] for document in documents],
        _rows(data.vectors, documents, summaries.device),
        _rows(data.last_states, documents, summaries.device),
    )
    readings, begin = [], 0
    for context in contexts:
        part = summaries[begin : begin + len(context.sentences)]
        places = torch.arange(len(part), device=part.device)
        states = None if context.last_states is None else context.last_states[places]
        readings.append(model.read(context, places, part, states))
        begin += len(part)
    return readings


def _rows(rows: Rows | None, documents: Sequence[range], device: torch.device) -> Tensor | None:
    """The vectors of the sentences of some documents, in a row."""
    if rows is None:
        return None
    chosen = [rows[document.start : document.stop] for document in documents]
    return torch.from_numpy(np.concatenate(chosen)).to(device)


class SplitBackward:
    """A backward pass in two parts, so that what comes last in the forward pass goes first.

    The last part of the model sees detached copies, which gather its gradients;
    :meth:`backward` goes on from the originals. Where no gradients are recorded, nothing is
    detached.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def detach(self, given: Detached) -> Detached:
        """The same, with copies in the place of all tensors that have a gradient."""
        return replace(
            given, **{field.name: self._copy(getattr(given, field.name)) for field in fields(given)}
        )

    def _copy(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._copy, value))
        if not isinstance(value, Tensor) or not value.requires_grad or not torch.is_grad_enabled():
            return value
        copy = value.detach().requires_grad_()
        self._pairs.append((value, copy))
        return copy

    def backward(self) -> None:
        """The first part of the model, when the last part's backward passes are made."""
        reached = [(value, copy.grad) for value, copy in self._pairs if copy.grad is not None]
        if reached:
            values, gradients = zip(*reached, strict=True)
            torch.autograd.backward(values, gradients)


def encode_with_recomputation(
    encoder: Encoder, src: Int[Tensor, "sent src_word"], lengths: Int[Tensor, " sent"]
) -> Encoding:
    """Encode, keeping only the states: the backward pass runs the encoder once more."""
    if not torch.is_grad_enabled():
        encoding: Encoding = encoder(src, lengths)
        return encoding

    def run(_: Tensor) -> tuple[Any, ...]:
        encoding = encoder(src, lengths)
        return tuple(getattr(encoding, field.name) for field in fields(encoding))

    # What comes out has a gradient only if something that goes in has one.
    anything = torch.empty(0, device=src.device, requires_grad=True)
    return Encoding(*checkpoint(run, anything, use_reentrant=True))


def _perplexity(totals: Iterable[tuple[float, int]], world: World) -> float:
    """exp of the mean −log P of a word, over all processes."""
    nats, words = 0.0, 0
    for part_nats, part_words in totals:
        nats, words = nats + part_nats, words + part_words
    total, count = world.sum([nats, words])
    return math.exp(min(total / count, 700))
