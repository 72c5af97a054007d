"""Reuse: nothing is made again that a run beside it has made alike and finished.

Stages are deterministic: the same data, settings, seed, versions and kind of machine give the same
weights. What differs in any of these is made again; where only versions or machine differ, that is
said. Files are linked, not copied, where the disk can do so; a run never changes them in place.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from wholedoc.config import SENTENCE_MODEL, Config, load_config
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.errors import UserError
from wholedoc.progress import say
from wholedoc.store.checkpoint import read_position
from wholedoc.store.run import Run, compare_versions, digest_files
from wholedoc.training.loop import RunLog, read_log

_ENCODED = ("src.ids", "src.offsets", "trg.ids", "trg.offsets", "documents.starts")
_LANGUAGE_MODEL = ("hidden", "embedding")


class Reuse:
    """What a run takes over from the other runs in its folder."""

    def __init__(self, config: Config, run: Run) -> None:
        self.config = config
        self.run = run
        self._said: set[str] = set()
        self._digests: dict[Path, str | None] = {}

    def data(self, digests: Mapping[str, str | None]) -> None:
        """Take vocabularies and encoded corpora that were made from the same files."""
        config, run = self.config, self.run
        files = run.vocabulary_files()
        if not config.share or None in digests.values() or any(path.exists() for path in files):
            return
        for other in self._neighbours:
            corpora = {name: other.data(name) for name in digests}
            try:
                theirs = load_config(other.config_file)
            except (UserError, OSError):
                continue
            same = (theirs.data, theirs.vocabulary) == (config.data, config.vocabulary)
            same = same and all(path.exists() for path in other.vocabulary_files())
            same = same and all(EncodedCorpus.open(corpora[n], digests[n]) for n in digests)
            if same and self._made_alike("data and vocabularies", other):
                for name, corpus in corpora.items():
                    for file in sorted(corpus.iterdir(), key=lambda file: file.name == "meta.json"):
                        _link(file, run.data(name) / file.name)
                for old, new in zip(other.vocabulary_files(), files, strict=True):
                    _link(old, new)
                say(f"data and vocabularies: reused from {other.directory}")
                return

    def stage(self, name: str, log: RunLog) -> None:
        """Take a finished stage, if another run has it; never the last stage."""
        run, files = self.run, self.run.stage(name)
        if not self.config.share or name == "stage2" or files.checkpoint.exists():
            return
        recipe = _recipe(self.config, name)
        for other in self._with_same_data():
            theirs = other.stage(name)
            try:
                same = _recipe(load_config(other.config_file), name) == recipe
                ready = same and theirs.best.exists() and read_position(theirs.checkpoint).finished
            except UserError:  # being written, damaged, or of another version: not for us
                continue
            mixed = self.config.stage(name).precision == "mixed"
            if ready and self._made_alike(name, other, mixed=mixed):
                for line in read_log(other.directory):
                    if line["stage"] == name:
                        log.append(line)
                if name == "stage1" and other.lexicon_file.exists():
                    _link(other.lexicon_file, run.lexicon_file)
                _link(theirs.best, files.best)
                _link(theirs.checkpoint, files.checkpoint)  # last: it is what says "finished"
                say(f"{name}: reused from {other.directory}")
                return

    def file(self, path: Path) -> None:
        """Take a file whose name says which weights it was made with.

        It is made from the training data too, which therefore must be the same.
        """
        if not self.config.share or path.exists():
            return
        for other in self._with_same_data():
            theirs = other.directory / path.relative_to(self.run.directory)
            if theirs.exists() and self._made_alike(path.name, other):
                _link(theirs, path)
                return

    @cached_property
    def _neighbours(self) -> list[Run]:
        """The other runs in the same folder."""
        directory = self.run.directory.resolve()
        return [
            Run(other)
            for other in sorted(directory.parent.iterdir())
            if other != directory and (other / "config.toml").is_file()
        ]

    def _with_same_data(self) -> Iterator[Run]:
        """Those that have the same vocabularies and corpora."""
        own = self._data_digest(self.run)
        for other in self._neighbours:
            if own is not None and self._data_digest(other) == own:
                yield other

    def _data_digest(self, run: Run) -> str | None:
        """A digest of vocabularies and corpora; None where they are not complete."""
        if run.directory not in self._digests:
            names = [name for name in ("train", "dev", "stage1") if run.data(name).exists()]
            encoded = [run.data(name) / file for name in names for file in _ENCODED]
            try:
                digest = digest_files(*run.vocabulary_files(), *encoded)
            except OSError:
                return None  # it may be complete when it is asked for again
            self._digests[run.directory] = digest
        return self._digests[run.directory]

    def _made_alike(self, what: str, other: Run, *, mixed: bool = False) -> bool:
        """Whether two runs were begun with the same versions and machine; says once if not."""
        differences = compare_versions(other.load_versions(), self.run.load_versions(), mixed=mixed)
        if differences and differences not in self._said:
            self._said.add(differences)
            say(f"{what}: not reused from {other.directory}, which was made with {differences}")
        return not differences


def _recipe(config: Config, name: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """All settings that the weights of a stage depend on, beside the data."""
    values = config.to_dict()
    sizes = SENTENCE_MODEL if name == "stage1" else _LANGUAGE_MODEL
    stage = values[name.partition("-")[0]]
    del stage["checkpoint_minutes"]
    return config.seed, {size: values["model"][size] for size in sizes}, stage


def _link(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    unfinished = new.with_name(new.name + ".part")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(old, unfinished)
    except OSError:  # another disk, or one without links
        shutil.copyfile(old, unfinished)
    unfinished.replace(new)
