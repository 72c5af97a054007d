"""Export: a trained model as a directory that holds no more than translation needs."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import wholedoc
from wholedoc.errors import UserError
from wholedoc.files import name_file, write_atomically
from wholedoc.store.checkpoint import save_compact
from wholedoc.store.model import load_model
from wholedoc.store.run import Run, format_toml, language_stage
from wholedoc.store.shortlist import learn_shortlist, write_shortlist


def export_model(model: Path, out: Path, translations: int, frequent: int) -> None:
    """Write a model for serving: weights in 8 bits, vocabularies, configuration, shortlist.

    For the last two arguments see :func:`wholedoc.store.shortlist.learn_shortlist`. ``out``
    appears when it is complete.
    """
    run = Run(model)
    _check(run, out)
    trained = load_model(model)
    sizes = len(trained.src_vocabulary), len(trained.trg_vocabulary)
    corpus = run.load_corpus("stage1" if run.data("stage1").exists() else "train")
    shortlist = learn_shortlist(corpus, sizes, translations, frequent)
    with _complete_directory(out) as directory:
        made = Run(directory)
        save_compact(made.stage("stage1").best, trained.base)
        if trained.document is not None:
            save_compact(made.stage("stage2").best, trained.document)
        if trained.vectors is not None:
            for direction, language_model in trained.vectors.models.items():
                save_compact(made.stage(language_stage(direction)).best, language_model)
        write_shortlist(made.shortlist_file, shortlist)
        for file in (*run.vocabulary_files(), run.lexicon_file):
            if file.exists():
                shutil.copyfile(file, directory / file.name)
        made_by = {"wholedoc": wholedoc.__version__, "format": 1}
        write_atomically(made.export_file, json.dumps(made_by) + "\n")
        write_atomically(made.config_file, format_toml(trained.config.to_dict()))


def _check(run: Run, out: Path) -> None:
    """Find out before long work that it cannot be done."""
    if run.is_export:
        raise UserError(
            "is an export already",
            where=str(run.directory),
            fix="copy it, or export the run that it was made from",
        )
    if out.exists():
        raise UserError("exists already", where=str(out), fix="choose another place, or remove it")


@contextmanager
def _complete_directory(out: Path) -> Iterator[Path]:
    """A directory to write into, which gets its name when all is written."""
    unfinished = out.with_name(f"{out.name}.part")
    with name_file(out):
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
        try:
            yield unfinished
            unfinished.rename(out)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
