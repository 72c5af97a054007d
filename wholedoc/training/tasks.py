"""What each stage trains: sentences by themselves, or documents."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
from wholedoc.model.language import DIRECTIONS, LanguageModel
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.rows import Rows
from wholedoc.training.distribution import World
from wholedoc.training.loop import Task
from wholedoc.training.objective import Loss, sentence_loss, translation_loss, word_loss
from wholedoc.training.seam import Seam, encode_twice

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

    def __init__(self, stage: Stage, model: nn.Module, loss: BatchLoss, sets: Sets) -> None:
        self.name = stage.name
        self.model = model
        self.loss = loss
        self.sets = sets
        self.label_smoothing = stage.config.label_smoothing
        tokens = stage.config.batch_tokens
        self.batches = SentenceBatches(sets.train, tokens, stage.seed)
        self.dev_batches = SentenceBatches(sets.dev, tokens, stage.seed).epoch(1)

    def updates(self, epoch: int) -> list[Indices]:
        """One batch of sentences per update."""
        return self.batches.epoch(epoch)

    def losses(self, update: Indices, world: World) -> Iterator[Loss]:
        """The loss of this process's sentences of the batch."""
        sentences = world.share(update)
        if len(sentences):
            yield self.loss(self.sets.train, sentences, self.label_smoothing)

    @torch.inference_mode()
    def dev_perplexity(self, world: World) -> float:
        """Over all sentences of the dev set."""
        self.model.eval()
        batches = world.share(self.dev_batches)
        return _perplexity((self.loss(self.sets.dev, batch, 0.0) for batch in batches), world)


def translation_task(stage: Stage, model: TranslationModel, sets: Sets) -> SentenceTask:
    """Stage 1: translate sentences by themselves."""
    device = next(model.parameters()).device

    def loss(corpus: EncodedCorpus, sentences: Indices, smoothing: float) -> Loss:
        return sentence_loss(model, make_batch(corpus, sentences).to(device), smoothing)

    return SentenceTask(stage, model, loss, sets)


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
    ) -> None:
        self.model: TranslationModel = model
        self.train = train
        self.dev = dev
        self.config = config
        self.batches = DocumentBatches(train.corpus, config.update_tokens, seed)
        # On the dev set documents only share a batch, never an update.
        self.dev_batches = DocumentBatches(dev.corpus, config.batch_tokens, seed).epoch(1)

    def updates(self, epoch: int) -> list[tuple[range, ...]]:
        """One document per update, or several up to a number of tokens."""
        return self.batches.epoch(epoch)

    def losses(self, update: tuple[range, ...], world: World) -> Iterator[Loss]:
        """The losses of this process's documents of the update."""
        documents = world.share(update)
        if documents:
            yield from document_losses(
                self.model,
                self.train,
                documents,
                self.config.batch_tokens,
                self.config.label_smoothing,
            )

    @torch.inference_mode()
    def dev_perplexity(self, world: World) -> float:
        """Over all documents of the dev set, with the same memories at every epoch."""
        self.model.eval()
        tokens = self.config.batch_tokens
        groups = world.share(self.dev_batches)
        return _perplexity(
            (
                loss
                for group in groups
                for loss in document_losses(self.model, self.dev, group, tokens)
            ),
            world,
        )


def document_losses(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    batch_tokens: int,
    label_smoothing: float = 0.0,
) -> Iterator[Loss]:
    """−Σ_t log P(y_t | x_t, y_-t, x_-t) over the sentences of some documents, batch by batch.

    Sentences of like length are computed together, whatever document they are in; a document RNN
    and a reading belong to one document. If there is a way back, each loss is to be taken there
    before the next one is asked for, so that only one batch's decoder is ever in memory.
    """
    corpus = data.corpus
    device = next(model.parameters()).device
    sentences = [t for document in documents for t in document]
    lengths = corpus.src_lengths[sentences], corpus.trg_lengths[sentences]
    parts = token_batches(*lengths, batch_tokens)
    batches = [make_batch(corpus, [sentences[i] for i in part]).to(device) for part in parts]
    encode = model.encoder if len(parts) == 1 else partial(encode_twice, model.encoder)
    encodings = [encode(batch.src, batch.src_lengths) for batch in batches]
    order = torch.cat([torch.from_numpy(part) for part in parts]).argsort().to(device)
    summaries = torch.cat([encoding.summary for encoding in encodings])[order]
    readings = _read(model, data, documents, summaries)
    seam = Seam()
    for part, batch, encoding in zip(parts, batches, encodings, strict=True):
        read = gather_readings(readings, torch.from_numpy(part).to(device))
        yield translation_loss(
            model,
            model.decoder(seam.cut(encoding), batch.trg_in, seam.cut(read)),
            batch,
            label_smoothing,
        )
    seam.backward()


def _read(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    summaries: Float[Tensor, "sent states"],
) -> list[Readings]:
    """What the sentences of each document read."""
    sizes = [len(document) for document in documents]
    all_cells: Sequence[Tensor | None] = [None] * len(documents)
    if model.source_memory is not None:
        vectors = torch.cat([_rows(data.vectors, d, summaries.device) for d in documents])
        all_cells = torch.split(model.source_memory(vectors, sizes), sizes)
    readings = []
    for document, summary, cells in zip(
        documents, torch.split(summaries, sizes), all_cells, strict=True
    ):
        last_states = (
            _rows(data.last_states, document, summaries.device)
            if model.reads_translations
            else None
        )
        own = torch.arange(len(document), device=summaries.device)
        words = [data.corpus.src(t).tolist() for t in document]
        readings.append(model.read(summary, own, cells, last_states, words))
    return readings


def _rows(rows: Rows | None, document: range, device: torch.device) -> Tensor:
    """The vectors of a document's sentences."""
    if rows is None:
        raise ValueError("a memory is read whose cells are not given")
    return torch.from_numpy(rows[document.start : document.stop].copy()).to(device)


def _perplexity(losses: Iterable[Loss], world: World) -> float:
    """exp of the mean −log P of a word, over all processes."""
    nats, words = 0.0, 0
    for loss in losses:
        nats, words = nats + loss.nats, words + loss.words
    total, count = world.sum([nats, words])
    return math.exp(min(total / count, 700))
