"""What each stage trains: sentences by themselves, or documents."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from wholedoc.config import DocumentStageConfig, StageConfig
from wholedoc.corpus.batches import (
    DocumentBatches,
    DocumentPart,
    SentenceBatches,
    make_batch,
    pad,
)
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.shares import Indices
from wholedoc.corpus.vocabulary import EOS, Vocabulary
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import GREEDY, search
from wholedoc.kernels import mixed_precision
from wholedoc.model.language import LanguageModel, read_words
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import language_stage
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.objective import (
    DocumentSet,
    Loss,
    document_loss,
    read_documents,
    sentence_loss,
    word_loss,
)

BatchLoss = Callable[[Any, Any, float], tuple[float, int]]
"""−Σ log P of the words of a batch of a set, with a label smoothing, and their number.

Where gradients are enabled, the backward pass is made too.
"""
Corpora = tuple[EncodedCorpus, EncodedCorpus]
"""The training set and the dev set."""


@dataclass(frozen=True)
class DevSample:
    """How some dev sentences are translated, and one of them with its translation."""

    bleu: float
    """BLEU of sacrebleu, between texts as the vocabulary spells them."""
    sentences: int
    source: str
    translation: str
    reference: str


@dataclass(frozen=True)
class Sampler:
    """Translates dev sentences with a model under training."""

    src_vocabulary: Vocabulary
    trg_vocabulary: Vocabulary
    count: int
    """How many sentences, about."""

    @torch.inference_mode()
    def sample(
        self,
        model: TranslationModel,
        corpus: EncodedCorpus,
        sentences: Sequence[int],
        readings: Readings | None = None,
    ) -> DevSample:
        """Translate given sentences of a corpus, with what each reads; the second is shown."""
        import sacrebleu  # takes a while, and only this needs it

        model.eval()
        device = next(model.parameters()).device
        src, lengths = pad([corpus.src(t) for t in sentences])
        found = search(Predictor(model), src.to(device), lengths.to(device), GREEDY, 1, readings)
        translations = [self.trg_vocabulary.decode(best[0].tokens) for best in found]
        references = [self.trg_vocabulary.decode(corpus.trg(t)[:-1].tolist()) for t in sentences]
        shown = min(1, len(sentences) - 1)
        return DevSample(
            sacrebleu.corpus_bleu(translations, [references], force=True).score,
            len(sentences),
            self.src_vocabulary.decode(corpus.src(sentences[shown])[:-1].tolist()),
            translations[shown],
            references[shown],
        )


class Task:
    """What a stage trains: a model, the updates of an epoch, their losses, the dev perplexity.

    An update is a batch of sentences drawn across documents, or of whole documents.
    """

    def __init__(
        self,
        name: str,
        config: StageConfig,
        model: nn.Module,
        loss: BatchLoss,
        sets: tuple[Any, Any],
        batches: tuple[SentenceBatches, SentenceBatches] | tuple[DocumentBatches, DocumentBatches],
        sample: Callable[[], DevSample] | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.loss = loss
        self.train, self.dev = sets
        self.config = config
        self.batches: Any = batches[0]
        dev: Any = batches[1]
        self.dev_batches = [dev.share(batch, 0, 1) for batch in dev.epoch(1)]
        self.sample = sample
        """Translates some dev sentences, where there is something to translate."""

    def updates(self, epoch: int) -> Sequence[Any]:
        """The work of each update of an epoch; the same for the same epoch, always."""
        updates: Sequence[Any] = self.batches.epoch(epoch)
        return updates

    def backward(self, update: Any, group: ProcessGroup) -> tuple[float, int]:
        """Forward and backward pass of this process's share, in the precision of the stage.

        Adds to the gradients of the model; returns −Σ log P of the words, and their number.
        """
        share = self.batches.share(update, group.rank, group.size)
        device = next(self.model.parameters()).device.type
        with mixed_precision(self.config.precision == "mixed", device):
            smoothing = self.config.label_smoothing
            return self.loss(self.train, share, smoothing) if len(share) else (0.0, 0)

    @torch.inference_mode()
    def dev_perplexity(self, group: ProcessGroup) -> float:
        """Perplexity per word of the dev set, dropout and smoothing off, over all processes."""
        self.model.eval()
        nats, words = 0.0, 0
        for batch in group.share(self.dev_batches):
            batch_nats, batch_words = self.loss(self.dev, batch, 0.0)
            nats, words = nats + batch_nats, words + batch_words
        total, count = group.sum([nats, words])
        return math.exp(min(total / count, 700))


def _sentence_task(
    name: str,
    config: StageConfig,
    seed: int,
    model: nn.Module,
    loss: Callable[[EncodedCorpus, Indices, float], Loss],
    corpora: Corpora,
    sample: Callable[[], DevSample] | None = None,
) -> Task:
    """A stage whose updates are batches of sentences drawn across documents."""

    def minimise(corpus: EncodedCorpus, batch: Indices, smoothing: float) -> tuple[float, int]:
        found = loss(corpus, batch, smoothing)
        if torch.is_grad_enabled():
            found.smoothed.backward()  # type: ignore[no-untyped-call]
        return found.nats, found.words

    train, dev = (SentenceBatches(corpus, config.batch_tokens, seed) for corpus in corpora)
    return Task(name, config, model, minimise, corpora, (train, dev), sample)


def translation_task(
    model: TranslationModel,
    corpora: Corpora,
    config: StageConfig,
    seed: int,
    sampler: Sampler | None = None,
) -> Task:
    """Stage 1: translate sentences by themselves."""
    device = next(model.parameters()).device

    def loss(corpus: EncodedCorpus, sentences: Indices, smoothing: float) -> Loss:
        return sentence_loss(model, make_batch(corpus, sentences).to(device), smoothing)

    sample = None
    if sampler is not None:
        _, dev = corpora
        some = range(0, len(dev), max(1, len(dev) // sampler.count))[: sampler.count]
        sample = partial(sampler.sample, model, dev, some)
    return _sentence_task("stage1", config, seed, model, loss, corpora, sample)


def language_task(
    direction: str, model: LanguageModel, corpora: Corpora, config: StageConfig, seed: int
) -> Task:
    """Stage 0: predict each word of source sentences, read in one direction."""
    device = next(model.parameters()).device

    def loss(corpus: EncodedCorpus, sentences: Indices, smoothing: float) -> Loss:
        words, lengths = read_words([corpus.src(int(t)).tolist() for t in sentences], direction)
        following = words.roll(-1, dims=1)
        rows = torch.arange(len(words))
        following[rows, lengths - 1] = EOS
        mask = torch.arange(words.shape[1]) < lengths[:, None]
        states = model(words.to(device))[mask.to(device)]
        return word_loss(model.output, states, following[mask].to(device), smoothing)

    return _sentence_task(language_stage(direction), config, seed, model, loss, corpora)


def document_task(
    model: TranslationModel,
    train: DocumentSet,
    dev: DocumentSet,
    config: DocumentStageConfig,
    seed: int,
    sampler: Sampler | None = None,
) -> Task:
    """Stage 2: translate the sentences of whole documents, given their memories."""

    def loss(
        data: DocumentSet, share: Sequence[DocumentPart], smoothing: float
    ) -> tuple[float, int]:
        documents, parts = zip(*share, strict=True)
        return document_loss(model, data, documents, config.batch_tokens, smoothing, parts)

    @torch.inference_mode()
    def sample(sampler: Sampler) -> DevSample:
        """Translate the first dev sentences, given the memories that the dev perplexity is of."""
        corpus = dev.corpus
        sentences = range(min(sampler.count, len(corpus)))
        ranges = [corpus.document_sentences(d) for d in range(corpus.documents)]
        documents = [document for document in ranges if document and document[0] in sentences]
        parts = [range(d.start, min(d.stop, len(sentences))) for d in documents]
        device = next(model.parameters()).device
        batch = make_batch(corpus, sentences).to(device)
        model.eval()
        summaries = model.encoder(batch.src, batch.src_lengths).summary
        readings = read_documents(model, dev, documents, summaries, parts)
        rows = torch.arange(len(sentences), device=device)
        return sampler.sample(model, corpus, sentences, gather_readings(readings, rows))

    # On the dev set documents only share a batch, never an update.
    batches = (
        DocumentBatches(train.corpus, config.update_tokens, seed),
        DocumentBatches(dev.corpus, config.batch_tokens, seed),
    )
    sampling = None if sampler is None else partial(sample, sampler)
    return Task("stage2", config, model, loss, (train, dev), batches, sampling)
