"""A trained model as a value: all that translating needs, each file of the run read once."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor, nn

from wholedoc.config import Config, ModelConfig, find_model
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.errors import UserError
from wholedoc.model.language import SentenceVectors
from wholedoc.model.recall import Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.store.checkpoint import load_weights, save_weights
from wholedoc.store.lexicon import read_lexicon
from wholedoc.store.run import Run, digest_files, language_stage
from wholedoc.store.shortlist import Shortlist, read_shortlist


@dataclass(frozen=True)
class TrainedModel:
    """What a run directory or an export holds, loaded and ready for search."""

    config: Config
    src_vocabulary: Vocabulary
    trg_vocabulary: Vocabulary
    base: TranslationModel
    """The sentence model of stage 1."""
    document: TranslationModel | None = None
    """The document model of stage 2; None for a sentence model."""
    vectors: SentenceVectors | None = None
    """The language models of stage 0, from which the source memory is made."""
    lexicon: dict[str, str] = field(default_factory=dict)
    """Word translations; empty where none were learned."""
    shortlist: Shortlist | None = None
    """The words that search may produce, in an export."""
    int8: bool = False
    """Whether the weights are in 8 bits, as in an export."""
    base_recall: Recall | None = None
    """How the sentence model recalls known pairs; None where that was never fitted."""
    document_recall: Recall | None = None
    """How the document model does."""
    memory: Path | None = None
    """The translation memory that belongs to the model, if there is one."""
    directory: Path | None = None
    """Where it was read from."""


def load_model(model: str | Path, *, recall: bool = True) -> TrainedModel:
    """Read a run directory, an export or a shipped model, with ``recall`` or without."""
    run = Run(find_model(model))
    config = run.load_config()
    src, trg = run.load_vocabularies()
    sizes = len(src), len(trg)
    device = choose_device(config)
    stage1, stage2 = run.stage("stage1").best, run.stage("stage2").best
    for file in (stage1, stage2) if config.model.reads_document else (stage1,):
        if not file.exists():
            raise UserError(
                f"holds no trained weights yet: {file.name} is missing",
                where=str(run.directory),
                fix=f"let `wholedoc train` finish the first epoch of {file.stem}, or restore it",
            )
    base = TranslationModel(config.model.without_context(), *sizes)
    load_weights(stage1, base)
    document, vectors = None, None
    if config.model.reads_document:
        document = TranslationModel(config.model, *sizes)
        load_weights(stage2, document)
        document.to(device).eval()
        if config.model.reads_source:
            vectors = load_sentence_vectors(run, config, len(src)).to(device)
    base_recall, document_recall = load_recall(run, config.model) if recall else (None, None)
    return TrainedModel(
        config,
        src,
        trg,
        base.to(device).eval(),
        document,
        vectors,
        read_lexicon(run.lexicon_file) if run.lexicon_file.exists() else {},
        read_shortlist(run.shortlist_file, sizes) if run.is_export else None,
        run.is_export,
        base_recall and base_recall.to(device),
        document_recall and document_recall.to(device),
        run.memory if run.memory.exists() else None,
        run.directory,
    )


def load_recall(run: Run, config: ModelConfig) -> tuple[Recall | None, Recall | None]:
    """How the sentence model and the document model recall; None where it was not fitted."""
    if not run.recall_file.exists():
        return None, None
    base = Recall(config.hidden)
    document = Recall(config.hidden) if config.reads_document else None
    try:
        load_weights(run.recall_file, _together(base, document))
    except UserError as error:
        fix = f"fit it anew: wholedoc tm fit {run.directory}"
        raise UserError(error.what, where=str(run.recall_file), fix=fix) from error
    if not run.is_export:
        for stage, found in (("stage1", base), ("stage2", document)):
            if found is not None and not torch.equal(found.weights, _digest_weights(run, stage)):
                return None, None  # the model was trained anew
    return base, document


def _digest_weights(run: Run, stage: str) -> Int[Tensor, "8"]:
    """What stands for the weights of a stage."""
    digest = bytes.fromhex(digest_files(run.stage(stage).best))
    return torch.tensor(list(digest), dtype=torch.uint8)


def save_recall(run: Run, trained: TrainedModel) -> None:
    """Write what :func:`load_recall` reads; nothing where nothing was fitted."""
    if trained.base_recall is not None:
        together = _together(trained.base_recall, trained.document_recall)
        save_weights(run.recall_file, together)


def mark_recall(run: Run, trained: TrainedModel) -> None:
    """Note which weights a new recall belongs to; in an export, those that it was fitted for."""
    for stage, recall in (("stage1", trained.base_recall), ("stage2", trained.document_recall)):
        if recall is not None and not run.is_export:
            recall.weights.copy_(_digest_weights(run, stage))


def _together(base: Recall, document: Recall | None) -> nn.ModuleDict:
    return nn.ModuleDict({"base": base} | ({} if document is None else {"document": document}))


def load_sentence_vectors(run: Run, config: Config, vocabulary: int) -> SentenceVectors:
    """The language models of stage 0, frozen."""
    vectors = SentenceVectors(vocabulary, config.model)
    for direction, model in vectors.models.items():
        load_weights(run.stage(language_stage(direction)).best, model)
    return vectors.eval()


def choose_device(config: Config) -> torch.device:
    """The device a configuration asks for; of several, each process started here has its own."""
    available = torch.cuda.is_available()
    if config.device == "cuda" and not available:
        raise UserError(
            "there is no CUDA device here", where="device = 'cuda'", fix="set device=auto or cpu"
        )
    if not available or config.device == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
