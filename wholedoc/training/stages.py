"""Training from parallel documents to a model: the stages, in order."""

import dataclasses
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import torch

from wholedoc.config import Config, CorpusFiles
from wholedoc.corpus.batches import Indices, SentenceBatches, make_batch
from wholedoc.corpus.documents import Document
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.filters import FilterCounts, Filters, filter_documents
from wholedoc.corpus.readers import Corpus, read_corpus
from wholedoc.corpus.vocabulary import build_vocabularies
from wholedoc.errors import UserError
from wholedoc.files import name_file
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.progress import say
from wholedoc.training.distribution import World, join_world
from wholedoc.training.lexicon import learn_lexicon, write_lexicon
from wholedoc.training.log import RunLog
from wholedoc.training.loop import Task, train_stage
from wholedoc.training.objective import Loss, sentence_loss
from wholedoc.training.run import Run, choose_device


class SentenceTask(Task):
    """Stage 1: the sentence model, on batches of sentences drawn across documents."""

    name = "stage1"

    def __init__(
        self, config: Config, model: TranslationModel, train: EncodedCorpus, dev: EncodedCorpus
    ) -> None:
        self.model: TranslationModel = model
        self.label_smoothing = config.stage1.label_smoothing
        self.device = next(model.parameters()).device
        self.train = train
        self.dev = dev
        self.batches = SentenceBatches(train, config.stage1.batch_tokens, config.seed)
        self.dev_batches = SentenceBatches(dev, config.stage1.batch_tokens, config.seed).epoch(1)

    def updates(self, epoch: int) -> list[Indices]:
        """One batch of sentences per update."""
        return self.batches.epoch(epoch)

    def losses(self, update: Indices, world: World) -> Iterator[Loss]:
        """The loss of this process's sentences of the batch."""
        sentences = world.share(update)
        if len(sentences):
            batch = make_batch(self.train, sentences).to(self.device)
            yield sentence_loss(self.model, batch, self.label_smoothing)

    @torch.inference_mode()
    def dev_perplexity(self, world: World) -> float:
        """exp of the mean −log P over the words of the dev set."""
        self.model.eval()
        losses = [
            sentence_loss(self.model, make_batch(self.dev, sentences).to(self.device))
            for sentences in world.share(self.dev_batches)
        ]
        nats, words = world.sum([sum(x.nats for x in losses), sum(x.words for x in losses)])
        return math.exp(min(nats / words, 700))


def train(config: Config, directory: Path) -> Run:
    """Run all stages of a configuration into a run directory, from wherever it stopped."""
    if config.model.memory != "none":
        raise UserError(
            "document models cannot be trained yet",
            where=f"model.memory = '{config.model.memory}'",
            fix="set model.memory=none and model.fusion=none",
        )
    device = choose_device(config)
    world = join_world(device)
    run = Run(directory)
    with ExitStack() as stack:
        if world.leads:
            stack.enter_context(run.lock())
            run.prepare(config)
            _prepare_data(config, run)
        world.wait()
        model = _train_sentence_model(config, run, device, world)
        if world.leads and config.vocabulary.kind == "word" and not run.lexicon_file.exists():
            lexicon = learn_lexicon(
                model,
                _open_corpus(config, "train"),
                *run.load_vocabularies(),
                config.stage1.batch_tokens,
            )
            write_lexicon(run.lexicon_file, lexicon)
        world.wait()
    return run


def _train_sentence_model(
    config: Config, run: Run, device: torch.device, world: World
) -> TranslationModel:
    """Stage 1; gives the best model."""
    src, trg = run.load_vocabularies()
    model = TranslationModel(config.model, len(src), len(trg), config.stage1.dropout)
    initialise(model, config.seed)
    task = SentenceTask(config, model.to(device), run.load_corpus("train"), run.load_corpus("dev"))
    log = RunLog(run.directory, config.tensorboard and world.leads)
    train_stage(task, config.stage1, config.seed, run.stage(task.name), log, world)
    return model


def _prepare_data(config: Config, run: Run) -> None:
    """Build the vocabularies and number the corpora, unless an earlier start has done so."""
    files = run.vocabulary_files()
    if not all(file.exists() for file in files):
        say("building vocabularies")
        train = _open_corpus(config, "train")
        vocabularies = build_vocabularies(
            train, config.vocabulary, config.data.src_language, config.data.trg_language
        )
        for vocabulary, file in zip(vocabularies, files, strict=True):
            vocabulary.save(file)
    vocabularies = run.load_vocabularies()
    for name in ("train", "dev"):
        if EncodedCorpus.open(run.data(name)) is None:
            corpus = _open_corpus(config, name)
            with name_file(run.data(name)):
                encoded = encode_corpus(corpus, *vocabularies, run.data(name))
            say(
                f"{name}: {encoded.documents:,} documents, {len(encoded):,} sentences; "
                f"boundaries: {corpus.corpus.boundaries}; left out: {corpus.left_out()}"
            )


class _FilteredCorpus:
    """A corpus without what the filters leave out; can be read any number of times."""

    def __init__(self, corpus: Corpus, filters: Filters) -> None:
        self.corpus = corpus
        self.filters = filters
        self.counts = FilterCounts()

    def __iter__(self) -> Iterator[Document]:
        self.counts = FilterCounts()
        empty = True
        for document in filter_documents(self.corpus, self.filters, self.counts):
            empty = False
            yield document
        if empty:
            raise UserError(
                f"no sentence is left: {self.left_out()}",
                where=str(self.corpus.inputs.src),
                fix="loosen data.min_sentences, data.max_words or data.max_ratio, or check the "
                "files",
            )

    def left_out(self) -> str:
        """What the last reading left out, in words."""
        counts = dataclasses.asdict(self.counts)
        return (
            ", ".join(f"{n:,} {why.replace('_', ' ')}" for why, n in counts.items() if n) or "none"
        )


def _open_corpus(config: Config, name: str) -> _FilteredCorpus:
    """One set of the configuration; only the training set is filtered by length."""
    files: CorpusFiles = getattr(config.data, name)
    if not files.src:
        raise UserError(
            f"data.{name}.src is not set",
            where="configuration",
            fix=f"add --set data.{name}.src=FILE --set data.{name}.trg=FILE",
        )
    data = config.data
    filters = (
        Filters(data.min_sentences, data.max_words, data.max_ratio)
        if name == "train"
        else Filters()
    )
    return _FilteredCorpus(read_corpus(files, data.src_language, data.trg_language), filters)
