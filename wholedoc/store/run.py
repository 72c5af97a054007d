"""The run directory: everything that belongs to one trained model, in one place.

``config.toml``            the resolved configuration
``versions.json``          what it was trained with
``src.vocabulary``, ``trg.vocabulary``
``data/train``, ``data/dev``  the corpora as numbers, memory-mapped
``data/stage1``            the same of what stage 1 is trained on, if that is more
``stage1.safetensors``     the best weights of a stage
``stage1.checkpoint``      the state of a stage under way
``lexicon.tsv``            word translations, for word vocabularies
``log.jsonl``              what happened

An export (``wholedoc export``) has the same files as far as translation needs them, its weights in
8 bits, and besides

``export.json``            what it was made with
``shortlist.safetensors``  which words translate which
"""

import fcntl
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch

import wholedoc
from wholedoc.config import Config, load_config
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import Vocabulary, load_vocabulary
from wholedoc.decoding.descent import System
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.kernels import describe
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel
from wholedoc.store.checkpoint import load_weights
from wholedoc.store.learn_shortlist import read_shortlist
from wholedoc.training.loop import StageFiles

# What may differ between the configuration of a run and that of its resumption.
_FREE_KEYS = (
    "device",
    "share",
    "tensorboard",
    "data.test",
    "search",
    *(f"stage{number}.checkpoint_minutes" for number in range(3)),
)
_STAGES = ("stage0-forward", "stage0-backward", "stage1", "stage2")


class Run:
    """A run directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config_file = directory / "config.toml"
        self.lexicon_file = directory / "lexicon.tsv"
        self.shortlist_file = directory / "shortlist.safetensors"
        self.export_file = directory / "export.json"

    def vocabulary_files(self) -> tuple[Path, Path]:
        """Where the vocabularies of both sides lie."""
        return self.directory / "src.vocabulary", self.directory / "trg.vocabulary"

    def data(self, name: str) -> Path:
        """Where a corpus lies as numbers."""
        return self.directory / "data" / name

    def stage(self, name: str) -> StageFiles:
        """The files of a stage."""
        return StageFiles(
            self.directory / f"{name}.safetensors", self.directory / f"{name}.checkpoint"
        )

    @property
    def is_export(self) -> bool:
        """Whether it holds a model to translate with, and nothing to train it further."""
        return self.export_file.exists()

    def prepare(self, config: Config) -> None:
        """Write the configuration, or check that the run was begun with the same one.

        Until something is trained, another configuration replaces the first: the user has
        corrected a path or a size.
        """
        if self.config_file.exists():
            old = load_config(self.config_file)
            if old == config:
                return
            if self.has_begun():
                _compare(old, config, self.config_file)
            else:
                self.forget_data()
        self._write_versions(config)
        write_atomically(self.config_file, format_toml(config.to_dict()))

    def has_begun(self) -> bool:
        """Whether anything is trained."""
        files = [self.stage(name) for name in _STAGES]
        return any(file.exists() for stage in files for file in (stage.checkpoint, stage.best))

    def forget_data(self) -> None:
        """Remove vocabularies and numbered corpora."""
        for file in self.vocabulary_files():
            file.unlink(missing_ok=True)
        if (self.directory / "data").exists():
            shutil.rmtree(self.directory / "data")

    def _write_versions(self, config: Config) -> None:
        versions = {
            "wholedoc": wholedoc.__version__,
            "torch": str(torch.__version__),
            "numpy": numpy.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "kernels": describe(mixed=config.stage1.precision == "mixed"),
            "seed": config.seed,
        }
        write_atomically(self.directory / "versions.json", json.dumps(versions, indent=2) + "\n")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the directory and keep a second process from training in it."""
        self._make_directory()
        with (self.directory / "lock").open("w") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise UserError(
                    "another process is training here",
                    where=str(self.directory),
                    fix="wait for it, or choose another directory with --run",
                ) from error
            except OSError as error:  # some network file systems know no locks
                raise UserError(
                    f"cannot be locked: {error.strerror}",
                    where=str(self.directory),
                    fix="choose a directory on another disk with --run",
                ) from error
            yield

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            names = {file.name for file in self.directory.iterdir() if file.suffix != ".part"}
        except OSError as error:
            raise UserError(
                f"cannot be made: {error.strerror}",
                where=str(self.directory),
                fix="choose another place with --run",
            ) from error
        if self.is_export:
            raise UserError(
                "holds an exported model, which cannot be trained",
                where=str(self.directory),
                fix="choose another with --run",
            )
        # What a start that was killed at once may leave is no reason to refuse.
        if not self.config_file.exists() and names - {"lock", "versions.json"}:
            raise UserError(
                "the directory is not empty and holds no run",
                where=str(self.directory),
                fix="choose another with --run",
            )

    def load_config(self) -> Config:
        """The configuration of a model that is ready to use."""
        if not self.directory.is_dir():
            raise UserError(
                "no such model", where=str(self.directory), fix="give the directory of a run"
            )
        if not self.config_file.exists():
            raise UserError(
                "is not a run directory: config.toml is missing",
                where=str(self.directory),
                fix="give the directory that `wholedoc train` wrote",
            )
        return load_config(self.config_file)

    def load_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of both sides."""
        src, trg = self.vocabulary_files()
        return load_vocabulary(src), load_vocabulary(trg)

    def load_corpus(self, name: str) -> EncodedCorpus:
        """A corpus as numbers."""
        corpus = EncodedCorpus.open(self.data(name))
        if corpus is None:
            raise UserError(
                "is incomplete or damaged",
                where=str(self.data(name)),
                fix="remove it and run `wholedoc train` again",
            )
        return corpus

    def load_sentence_vectors(self) -> SentenceVectors:
        """The language models of stage 0, frozen."""
        src, _ = self.load_vocabularies()
        vectors = SentenceVectors(len(src), self.load_config().model)
        for direction, model in vectors.models.items():
            load_weights(self.stage(language_stage(direction)).best, model)
        return vectors.eval()

    def load_system(self) -> System:
        """The best models of the stages that have some, ready for search."""
        config = self.load_config()
        src, trg = (len(vocabulary) for vocabulary in self.load_vocabularies())
        device = choose_device(config)
        stage1, stage2 = self.stage("stage1").best, self.stage("stage2").best
        if not stage1.exists():
            raise UserError(
                "holds no trained weights yet",
                where=str(self.directory),
                fix="let `wholedoc train` finish its first epoch",
            )
        base = TranslationModel(config.model.without_context(), src, trg)
        load_weights(stage1, base)
        base.to(device).eval()
        shortlist = read_shortlist(self.shortlist_file, (src, trg)) if self.is_export else None
        if not config.model.reads_document or not stage2.exists():
            return System(base, base, None, self.is_export, shortlist)
        model = TranslationModel(config.model, src, trg)
        load_weights(stage2, model)
        vectors = self.load_sentence_vectors().to(device) if config.model.reads_source else None
        return System(model.to(device).eval(), base, vectors, self.is_export, shortlist)


def language_stage(direction: str) -> str:
    """The name of a direction's part of stage 0."""
    return f"stage0-{direction}"


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


def format_toml(values: dict[str, Any], prefix: str = "") -> str:
    """Nested dictionaries of numbers, texts and booleans as TOML."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict)}
    lines = [f"{key} = {_format_value(value)}" for key, value in plain.items()]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", format_toml(value, f"{prefix}{key}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _format_value(value: float | str) -> str:
    """JSON, which is TOML but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _compare(old: Config, new: Config, file: Path) -> None:
    """Refuse to go on with another configuration than the run began with."""
    before, after = _flatten(old.to_dict()), _flatten(new.to_dict())
    for key in before:
        free = any(key == name or key.startswith(f"{name}.") for name in _FREE_KEYS)
        if before[key] != after[key] and not free:
            raise UserError(
                f"this run was begun with {key} = {before[key]!r}, not {after[key]!r}",
                where=str(file),
                fix="choose another directory with --run, or set the old value",
            )


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
