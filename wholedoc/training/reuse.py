"""What runs share: nothing is made again that a run beside it has made alike and finished.

Stages are deterministic: the same data, settings, seed and versions give the same weights, up to
rounding where they are made on different machines. Files are linked, not copied, where the disk can
do so; a run never changes them in place.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wholedoc.config import Config, load_config
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.errors import UserError
from wholedoc.progress import say
from wholedoc.store.checkpoint import read_position
from wholedoc.store.run import Run, digest_files
from wholedoc.training.log import RunLog, read_log

_VERSIONS = ("wholedoc", "torch")
_NUMBERS = ("src.ids", "src.offsets", "trg.ids", "trg.offsets", "documents.starts")
_SENTENCE_MODEL = ("hidden", "embedding", "alignment", "initial_state", "tie")
_LANGUAGE_MODEL = ("hidden", "embedding")


def adopt_data(config: Config, run: Run, digests: Mapping[str, str | None]) -> None:
    """Take over vocabularies and numbers from a run in the same folder made from the same files."""
    files = run.vocabulary_files()
    if not config.share or None in digests.values() or any(path.exists() for path in files):
        return
    for other in _neighbours(run):
        corpora = {name: other.data(name) for name in digests}
        try:
            theirs = load_config(other.config_file)
            same = (theirs.data, theirs.vocabulary) == (config.data, config.vocabulary)
            same = same and _versions(other) == _versions(run)
            same = same and all(path.exists() for path in other.vocabulary_files())
        except (UserError, OSError, ValueError, KeyError):
            continue
        if same and all(EncodedCorpus.open(corpora[name], digests[name]) for name in digests):
            for name, corpus in corpora.items():
                for file in sorted(corpus.iterdir(), key=lambda file: file.name == "meta.json"):
                    _link(file, run.data(name) / file.name)
            for old, new in zip(other.vocabulary_files(), files, strict=True):
                _link(old, new)
            say(f"data and vocabularies: taken over from {other.directory}")
            return


def adopt_stage(config: Config, run: Run, name: str, log: RunLog) -> None:
    """Take over a finished stage from a run in the same folder, if there is one; never the last."""
    files = run.stage(name)
    if not config.share or name == "stage2" or files.checkpoint.exists():
        return
    recipe = _recipe(config, name)
    for other in _relatives(run):
        theirs = other.stage(name)
        try:
            same = _recipe(load_config(other.config_file), name) == recipe
            finished = same and theirs.best.exists() and read_position(theirs.checkpoint).finished
        except UserError:  # being written, damaged, or of another version: not for us
            continue
        if finished:
            for line in read_log(other.directory):
                if line["stage"] == name:
                    log.append(line)
            if name == "stage1" and other.lexicon_file.exists():
                _link(other.lexicon_file, run.lexicon_file)
            _link(theirs.best, files.best)
            _link(theirs.checkpoint, files.checkpoint)  # last: it is what says "finished"
            say(f"{name}: taken over from {other.directory}")
            return


def adopt_file(config: Config, run: Run, path: Path) -> None:
    """Take over a file whose name says what it was made from, if a run in the same folder has it.

    It is made from the training data too, which therefore must be the same.
    """
    if not config.share or path.exists():
        return
    for other in _relatives(run):
        theirs = other.directory / path.relative_to(run.directory)
        if theirs.exists():
            _link(theirs, path)
            return


def _neighbours(run: Run) -> Iterator[Run]:
    """The other runs in the same folder."""
    directory = run.directory.resolve()
    for other in sorted(directory.parent.iterdir()):
        if other != directory and (other / "config.toml").is_file():
            yield Run(other)


def _relatives(run: Run) -> Iterator[Run]:
    """The neighbours that have the same data, vocabularies and versions."""
    identity = _identity(run)
    for other in _neighbours(run):
        if _identity(other) == identity != ():
            yield other


def _identity(run: Run) -> tuple[str, ...]:
    """What must be the same for anything to be shared; empty where it is not known."""
    names = [name for name in ("train", "dev", "stage1") if run.data(name).exists()]
    numbers = [run.data(name) / file for name in names for file in _NUMBERS]
    try:
        return *_versions(run), digest_files(*run.vocabulary_files(), *numbers)
    except (OSError, ValueError, KeyError):
        return ()


def _versions(run: Run) -> list[str]:
    versions = json.loads((run.directory / "versions.json").read_text(encoding="utf-8"))
    return [str(versions[key]) for key in _VERSIONS]


def _recipe(config: Config, name: str) -> dict[str, Any]:
    """All settings that the weights of a stage depend on, beside the data."""
    values = config.to_dict()
    sizes = _SENTENCE_MODEL if name == "stage1" else _LANGUAGE_MODEL
    stage = values[name.partition("-")[0]]
    del stage["checkpoint_minutes"]
    return {
        "seed": config.seed,
        "model": {size: values["model"][size] for size in sizes},
        "stage": stage,
    }


def _link(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    unfinished = new.with_name(new.name + ".part")
    unfinished.unlink(missing_ok=True)
    try:
        os.link(old, unfinished)
    except OSError:  # another disk, or one without links
        shutil.copyfile(old, unfinished)
    unfinished.replace(new)
