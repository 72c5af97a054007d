"""Training from parallel documents to a model: the stages, in order.

0   two language models of the source side, for the source memory
1   the sentence model
1½  its translations of the training documents, for the target memory
2   the document model, all of it
then, with all weights as they are, how to recall what people have translated

Stages 0 and 1 do not need each other; stage 1 goes first, as it is of use by itself.
"""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from wholedoc.config import Config
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.scoring import generated_states, given_states
from wholedoc.errors import UserError
from wholedoc.files import name_file
from wholedoc.kernels import check_precision, one_thread
from wholedoc.model.language import DIRECTIONS, LanguageModel
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.progress import say
from wholedoc.store.checkpoint import load_weights
from wholedoc.store.lexicon import learn_lexicon, write_lexicon
from wholedoc.store.model import (
    choose_device,
    load_model,
    load_recall,
    load_sentence_vectors,
    mark_recall,
    save_recall,
)
from wholedoc.store.run import Run, digest_files, language_stage
from wholedoc.training.data import check_data, open_corpus, prepare_data, sentence_set
from wholedoc.training.distribution import ProcessGroup, join_process_group
from wholedoc.training.loop import RunLog, flush_denormals, read_log, train_stage
from wholedoc.training.objective import DocumentSet, Rows
from wholedoc.training.recall import fit_model, prepare_memory, training_memory
from wholedoc.training.reuse import Reuse
from wholedoc.training.tasks import (
    Corpora,
    Sampler,
    Task,
    document_task,
    language_task,
    translation_task,
)

_SENTENCES_AT_ONCE = 1000


def train(config: Config, directory: Path) -> Run:
    """Run all stages of a configuration into a run directory, from wherever it stopped."""
    device = choose_device(config)
    group = join_process_group(device)
    run = Run(directory)
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        if group.leads:
            check_data(config, run)
            stack.enter_context(run.lock())
            run.prepare(config)
            stages = (config.stage0, config.stage1, config.stage2)
            check_precision(*(stage.precision for stage in stages), device=device.type)
            prepare_data(config, run)
        group.barrier()
        stack.enter_context(flush_denormals())
        vocabularies = run.load_vocabularies()
        _Training(config, run, device, group, Reuse(config, run), *vocabularies).run_stages()
        if group.leads:
            run.forget_previous_checkpoints()
        group.barrier()
    return run


@dataclass(frozen=True)
class _Training:
    """One start of ``train``."""

    config: Config
    run: Run
    device: torch.device
    group: ProcessGroup
    reuse: Reuse
    src: Vocabulary
    trg: Vocabulary

    def run_stages(self) -> None:
        """All stages that the configuration needs."""
        corpora = self.run.load_corpus("train"), self.run.load_corpus("dev")
        sentences = self.run.load_corpus(sentence_set(self.config))
        sentence_model = self._train_sentence_model((sentences, corpora[1]))
        self._learn_lexicon()
        if self.config.model.reads_document:
            if self.config.model.reads_source:
                for direction in DIRECTIONS:
                    self._train_language_model(direction, corpora)
            self._train_document_model(corpora, sentence_model)
        if self.group.leads:
            self._fit_recall()

    def _train(self, task: Task) -> None:
        log = RunLog(self.run.directory, self.config.tensorboard and self.group.leads)
        stage = self.config.stage(task.name)
        files = self.run.stage(task.name)
        if self.group.leads:
            self.reuse.stage(task.name, log)
        self.group.barrier()
        train_stage(task, stage, self.config.seed, files, log, self.group)

    def _train_sentence_model(self, corpora: Corpora) -> TranslationModel:
        """Stage 1: the model without its memories; gives the best one."""
        config, stage = self.config, self.config.stage1
        sizes = len(self.src), len(self.trg)
        model = TranslationModel(config.model.without_context(), *sizes, stage.dropout)
        initialise(model, config.seed)
        if config.init and not self.run.stage("stage1").checkpoint.exists():
            model.load_state_dict(load_model(config.init, recall=False).base.state_dict())
        model.to(self.device)
        self._train(translation_task(model, corpora, stage, config.seed, self._sampler()))
        return model

    def _learn_lexicon(self) -> None:
        run, config = self.run, self.config
        if not self.group.leads or config.vocabulary.kind != "word" or run.lexicon_file.exists():
            return
        lexicon = learn_lexicon(open_corpus(config, "train"), self.src, self.trg)
        write_lexicon(run.lexicon_file, lexicon)

    def _train_language_model(self, direction: str, corpora: Corpora) -> None:
        """Stage 0, one direction."""
        config, stage = self.config, self.config.stage0
        model = LanguageModel(len(self.src), config.model, stage.dropout)
        initialise(model, config.seed)
        self._train(language_task(direction, model.to(self.device), corpora, stage, config.seed))

    def _train_document_model(self, corpora: Corpora, base: TranslationModel) -> None:
        """Stage 2, from the weights of stage 1; what is new is random, or adds nothing yet."""
        config = self.config
        train, dev = (
            DocumentSet(corpus, self._vectors(name, corpus), self._states(name, corpus, base))
            for name, corpus in zip(("train", "dev"), corpora, strict=True)
        )
        dropouts = config.stage2.dropouts(config.model)
        model = TranslationModel(config.model, len(self.src), len(self.trg), *dropouts)
        initialise(model, config.seed)
        load_weights(self.run.stage("stage1").best, model, extend=True)
        if config.stage2.start == "zero" and model.decoder.fusion is not None:
            for matrix in model.decoder.fusion.entrances():
                nn.init.zeros_(matrix.weight)
        if model.source_memory is not None and train.vectors is not None:
            model.source_memory.standardise(_moments(train.vectors))
        model.to(self.device)
        sampler = self._sampler()
        self._train(document_task(model, train, dev, config.stage2, config.seed, sampler))

    def _fit_recall(self) -> None:
        """Learn to recall what people have translated; keep the training set if that is asked."""
        config, run = self.config, self.run
        has_memory = run.memory.exists() or not config.tm.keep
        fitted = run.recall_file.exists() and load_recall(run, config.model)[0] is not None
        tm, search = config.tm, config.search
        limits = [tm.pairs, tm.approved, tm.exact, search.beam, search.length_penalty]
        settings = json.dumps(limits)
        learned = [line for line in read_log(run.directory) if line["event"] == "recall"]
        # It may be older, or of `tm fit`: then nothing is known.
        fitted = fitted and (not learned or learned[-1].get("settings", settings) == settings)
        if not config.tm.fit or (fitted and has_memory):
            return
        say("learning to recall known pairs")
        begun = time.monotonic()
        with training_memory(config, run) as memory:
            dev = open_corpus(config, "dev")
            try:
                trained, fits = fit_model(load_model(run.directory), [memory], dev)
            except UserError as error:
                say(str(error))
                return
            mark_recall(run, trained)
            if config.tm.keep:
                prepare_memory(trained, memory)
            save_recall(run, trained)  # last: whoever is killed before begins anew
        seconds = time.monotonic() - begun
        for name, fit in zip(("stage1", "stage2"), fits, strict=False):
            figures = {"words": fit.words, "dev_perplexity": fit.before, "with_recall": fit.after}
            log = RunLog(run.directory)
            log.write("recall", name, seconds=seconds, settings=settings, **figures)
            say(f"{name}: perplexity {fit.before:.2f} dev, {fit.after:.2f} with recall")

    def _sampler(self) -> Sampler | None:
        """What translates dev sentences after each epoch, where that is asked for."""
        return Sampler(self.src, self.trg, self.config.samples) if self.config.samples else None

    def _vectors(self, name: str, corpus: EncodedCorpus) -> Rows | None:
        """The sentence vectors of a corpus by the language models of stage 0, if they are read."""
        if not self.config.model.reads_source:
            return None
        vectors = load_sentence_vectors(self.run, self.config, len(self.src)).to(self.device)

        def rows(part: range) -> Tensor:
            found: Tensor = vectors([corpus.src(t).tolist() for t in part])
            return found

        files = [self.run.stage(language_stage(direction)).best for direction in DIRECTIONS]
        return self._cached(
            f"{name}.vectors", digest_files(*files), (len(corpus), vectors.width), rows
        )

    def _states(self, name: str, corpus: EncodedCorpus, model: TranslationModel) -> Rows | None:
        """Stage 1½: the target cells of a corpus, from the sentence model's translations.

        In training they may come from the references instead; at test time there are none, so the
        dev set's never do.
        """
        if not self.config.model.reads_translations:
            return None
        kind = self.config.stage2.target_memory if name == "train" else "generated"
        digest = digest_files(self.run.stage("stage1").best)
        rows = _decoder_states(model.eval(), corpus, given=kind == "gold")
        shape = len(corpus), self.config.model.hidden
        return self._cached(f"{name}.{kind}", digest, shape, rows)

    def _cached(
        self, name: str, digest: str, shape: tuple[int, int], rows: Callable[[range], Tensor]
    ) -> Rows:
        """Rows that are computed where they are missing, each process some of them.

        The digest of the weights is in the file's name, so rows of other weights are never taken
        for these; they are removed when new ones are written.
        """
        path = self.run.data(f"{name}-{digest}.f32")
        unfinished = path.with_suffix(".part")
        sentences, width = shape
        size = 4 * sentences * width
        if self.group.leads:
            if path.exists() and path.stat().st_size != size:
                path.unlink()  # cut short by something else
            self.reuse.file(path)
            if not path.exists():
                say(f"preparing {name}")
                unfinished.unlink(missing_ok=True)
                with name_file(path), unfinished.open("xb") as stream:
                    stream.truncate(size)
        self.group.barrier()
        if not path.exists():
            with name_file(path), unfinished.open("r+b") as stream:
                for part in self.group.share(_parts(sentences)):
                    stream.seek(4 * part.start * width)
                    stream.write(rows(part).float().cpu().numpy().tobytes())
            self.group.barrier()
            if self.group.leads:
                for stale in path.parent.glob(f"{name}-*.f32"):
                    stale.unlink()
                unfinished.replace(path)
            self.group.barrier()
        return np.memmap(path, dtype=np.float32, mode="r").reshape(shape)


def _decoder_states(
    model: TranslationModel, corpus: EncodedCorpus, given: bool
) -> Callable[[range], Tensor]:
    """What gives the last decoder states of greedy translations, or of the given ones."""
    predictor = Predictor(model)

    def states(part: range) -> Tensor:
        src = [corpus.src(t).tolist() for t in part]
        if given:
            return given_states(model, src, [corpus.trg(t)[:-1].tolist() for t in part], 4000)
        return generated_states(predictor, src)

    return states


def _parts(sentences: int) -> list[range]:
    starts = range(0, sentences, _SENTENCES_AT_ONCE)
    return [range(start, min(start + _SENTENCES_AT_ONCE, sentences)) for start in starts]


def _moments(rows: Rows) -> Tensor:
    """Mean and standard deviation of each column."""
    moments = (rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64))
    return torch.from_numpy(np.stack(moments))
