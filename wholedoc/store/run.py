"""The run directory: everything that belongs to one trained model, in one place.

``config.toml``            the resolved configuration
``versions.json``          what it was trained with
``src.vocabulary``, ``trg.vocabulary``
``data/train``, ``data/dev``  the corpora as token ids, memory-mapped
``data/stage1``            the same of what stage 1 is trained on, if that is more
``stage1.safetensors``     the best weights of a stage
``stage1.checkpoint``      the state of a stage under way, or that it has finished
``stage1.checkpoint.previous``  the one before, until all stages have finished
``lexicon.tsv``            word translations, for word vocabularies
``recall.safetensors``     how known pairs are recalled, fitted after the last stage
``memory``                 the training set as a translation memory, if it is kept
``log.jsonl``              what happened

An export (``wholedoc export``) has the same files as far as translation needs them, its weights in
8 bits, and besides

``export.json``            what it was made with
``shortlist.safetensors``  which words translate which
"""

import fcntl
import hashlib
import json
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import wholedoc
from wholedoc.config import Config, find_model, load_config, load_model_config
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import Vocabulary, load_vocabulary
from wholedoc.errors import UserError
from wholedoc.files import append_to, write_atomically
from wholedoc.kernels import describe
from wholedoc.progress import say
from wholedoc.store.checkpoint import previous_checkpoint

# What may differ between the configuration of a run and that of its resumption.
_FREE_KEYS = (
    "device",
    "samples",
    "share",
    "tensorboard",
    "data.test",
    "search",
    "tm",
    *(f"stage{number}.checkpoint_minutes" for number in range(3)),
)
_STAGES = ("stage0-forward", "stage0-backward", "stage1", "stage2")


@dataclass(frozen=True)
class StageFiles:
    """Where a stage keeps its state."""

    best: Path
    """Weights of the lowest dev perplexity."""
    checkpoint: Path
    """What training needs to resume; of a finished stage, only that it has finished."""

    @property
    def previous(self) -> Path:
        """The checkpoint before it, for when that one is damaged."""
        return previous_checkpoint(self.checkpoint)


class Run:
    """A run directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config_file = directory / "config.toml"
        self.versions_file = directory / "versions.json"
        self.lexicon_file = directory / "lexicon.tsv"
        self.shortlist_file = directory / "shortlist.safetensors"
        self.export_file = directory / "export.json"
        self.recall_file = directory / "recall.safetensors"
        self.memory = directory / "memory"

    def vocabulary_files(self) -> tuple[Path, Path]:
        """Where the vocabularies of both sides lie."""
        return self.directory / "src.vocabulary", self.directory / "trg.vocabulary"

    def data(self, name: str) -> Path:
        """Where an encoded corpus lies."""
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
        old = load_config(self.config_file) if self.config_file.exists() else None
        now, before = current_versions(config), self.load_versions()
        if self.has_begun():
            self.check_config(config)
            if begun := compare_versions({**now, **before}, now):
                say(f"{self.directory} was begun with {begun}: results may differ by rounding")
        else:
            if old != config or before.get("init") != now.get("init"):
                self.forget_data()
            write_atomically(self.versions_file, json.dumps(now, indent=2) + "\n")
        if old != config:
            write_atomically(self.config_file, format_toml(config.to_dict()))

    def check_config(self, config: Config) -> None:
        """Refuse another configuration than the run was begun with, but for what is free."""
        old = load_config(self.config_file)
        _compare(old.to_dict(), config.to_dict(), self.config_file)

    def has_begun(self) -> bool:
        """Whether anything is trained."""
        files = [self.stage(name) for name in _STAGES]
        return any(file.exists() for stage in files for file in (stage.checkpoint, stage.best))

    def forget_previous_checkpoints(self) -> None:
        """Remove what a complete run has no use for."""
        for name in _STAGES:
            self.stage(name).previous.unlink(missing_ok=True)

    def forget_data(self) -> None:
        """Remove vocabularies, encoded corpora and what was learned for recall."""
        for file in (*self.vocabulary_files(), self.recall_file):
            file.unlink(missing_ok=True)
        shutil.rmtree(self.memory, ignore_errors=True)
        if (self.directory / "data").exists():
            shutil.rmtree(self.directory / "data")

    def load_versions(self) -> dict[str, Any]:
        """What the run was begun with; nothing where that cannot be read."""
        try:
            return dict(json.loads(self.versions_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the directory and keep a second process from training in it."""
        self._make_directory()
        with append_to(self.directory / "lock") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                fix = "wait for it, or choose another directory with --run"
                raise self._error("another process is training here", fix) from error
            except OSError as error:  # some network file systems know no locks
                fix = "choose a directory on another disk with --run"
                raise self._error(f"cannot be locked: {error.strerror}", fix) from error
            yield

    def _make_directory(self) -> None:
        other = "choose another with --run"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            names = {file.name for file in self.directory.iterdir() if file.suffix != ".part"}
        except OSError as error:
            raise self._error(f"cannot be made: {error.strerror}", other) from error
        if self.is_export:
            raise self._error("holds an exported model, which cannot be trained", other)
        # What a start that was killed at once may leave is no reason to refuse.
        if not self.config_file.exists() and names - {"lock", "versions.json"}:
            raise self._error("the directory is not empty and holds no run", other)

    def _error(self, what: str, fix: str) -> UserError:
        return UserError(what, where=str(self.directory), fix=fix)

    def load_config(self) -> Config:
        """The configuration of a model that is ready to use."""
        return load_model_config(self.directory)

    def load_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of both sides."""
        src, trg = self.vocabulary_files()
        return load_vocabulary(src), load_vocabulary(trg)

    def load_corpus(self, name: str) -> EncodedCorpus:
        """An encoded corpus."""
        corpus = EncodedCorpus.open(self.data(name))
        if corpus is None:
            fix = "remove it and run `wholedoc train` again"
            raise UserError("is incomplete or damaged", where=str(self.data(name)), fix=fix)
        return corpus


def current_versions(config: Config) -> dict[str, Any]:
    """What weights depend on beside settings and data, and what else is good to know."""
    return {
        **({"init": _digest_init(config.init)} if config.init else {}),
        "wholedoc": wholedoc.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "sentencepiece": version("sentencepiece"),
        "machine": platform.machine(),
        "kernels": describe(mixed=False),
        "kernels, mixed precision": describe(mixed=True),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "seed": config.seed,
    }


def _digest_init(model: str) -> str:
    """What stands for the weights that training begins with; empty where they are gone."""
    try:
        return digest_files(Run(find_model(model)).stage("stage1").best)
    except (UserError, OSError):
        return ""


_DECISIVE = ("wholedoc", "torch", "numpy", "sentencepiece", "machine", "kernels", "init")


def compare_versions(
    before: Mapping[str, Any], now: Mapping[str, Any], *, mixed: bool = False
) -> str:
    """Where weights made with one may differ from weights made with the other; empty where not."""
    keys = (*_DECISIVE, "kernels, mixed precision") if mixed else _DECISIVE
    return "; ".join(
        f"{key} {before.get(key, 'unknown')}, now {now.get(key, 'unknown')}"
        for key in keys
        if before.get(key) != now.get(key)
    )


def language_stage(direction: str) -> str:
    """The name of a direction's part of stage 0."""
    return f"stage0-{direction}"


def format_toml(values: dict[str, Any], prefix: str = "") -> str:
    """Nested dictionaries of numbers, texts and booleans as TOML."""
    lines = []
    for key, value in values.items():
        if not isinstance(value, dict):  # JSON is TOML but for one character
            text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
            lines.append(f"{key} = {text}")
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{prefix}{key}]", format_toml(value, f"{prefix}{key}.").rstrip("\n")]
    return "\n".join(lines) + "\n"


def _compare(old: dict[str, Any], new: dict[str, Any], file: Path, prefix: str = "") -> None:
    """Refuse to resume with another configuration than the run began with."""
    for key, before in old.items():
        name, after = f"{prefix}{key}", new[key]
        if isinstance(before, dict) and name not in _FREE_KEYS:
            _compare(before, after, file, f"{name}.")
        elif before != after and name not in _FREE_KEYS:
            raise UserError(
                f"this run was begun with {name} = {before!r}, not {after!r}",
                where=str(file),
                fix="choose another directory with --run, or set the old value",
            )


def digest_files(*paths: Path) -> str:
    """A digest of what some files hold."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
