"""What each stage trains: sentences by themselves, or documents."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import nn

from wholedoc.config import DocumentStageConfig, SearchConfig, StageConfig
from wholedoc.corpus.batches import DocumentBatches, Indices, SentenceBatches, make_batch, pad
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import EOS, Vocabulary
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import search
from wholedoc.model.language import DIRECTIONS, LanguageModel
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.loop import DevSample, Task
from wholedoc.training.objective import (
    DocumentSet,
    Loss,
    document_loss,
    read_documents,
    sentence_loss,
    word_loss,
)

# How dev sentences are translated after an epoch: for the eye only, training does not depend on it.
_GREEDY = SearchConfig(beam=1)

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
        found = search(Predictor(model), src.to(device), lengths.to(device), _GREEDY, 1, readings)
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

    def backward(self, update: Indices, group: ProcessGroup) -> tuple[float, int]:
        """The loss of this process's sentences of the batch."""
        sentences = group.share(update)
        if not len(sentences):
            return 0.0, 0
        loss = self.loss(self.sets.train, sentences, self.label_smoothing)
        loss.smoothed.backward()  # type: ignore[no-untyped-call]
        return loss.nats, loss.words

    @torch.inference_mode()
    def dev_perplexity(self, group: ProcessGroup) -> float:
        """Over all sentences of the dev set."""
        self.model.eval()
        losses = (self.loss(self.sets.dev, part, 0.0) for part in group.share(self.dev_batches))
        return _perplexity(((loss.nats, loss.words) for loss in losses), group)


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

    def backward(self, update: tuple[range, ...], group: ProcessGroup) -> tuple[float, int]:
        """The loss of this process's documents of the update."""
        documents, config = group.share(update), self.config
        if not documents:
            return 0.0, 0
        return document_loss(
            self.model, self.train, documents, config.batch_tokens, config.label_smoothing
        )

    @torch.inference_mode()
    def dev_perplexity(self, group: ProcessGroup) -> float:
        """Over all documents of the dev set, with the same memories at every epoch."""
        self.model.eval()
        tokens = self.config.batch_tokens
        batches = group.share(self.dev_batches)
        totals = (document_loss(self.model, self.dev, batch, tokens) for batch in batches)
        return _perplexity(totals, group)

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
        readings = read_documents(self.model, self.dev, documents, summaries)
        rows = torch.arange(len(sentences), device=device)
        return sampler.sample(self.model, corpus, sentences, gather_readings(readings, rows))


def _perplexity(totals: Iterable[tuple[float, int]], group: ProcessGroup) -> float:
    """exp of the mean −log P of a word, over all processes."""
    nats, words = 0.0, 0
    for part_nats, part_words in totals:
        nats, words = nats + part_nats, words + part_words
    total, count = group.sum([nats, words])
    return math.exp(min(total / count, 700))
