"""Export: a trained model as a directory that holds no more than translation needs."""

import json
import shutil
from pathlib import Path

from torch import nn

import wholedoc
from wholedoc.config import find_model
from wholedoc.errors import UserError
from wholedoc.files import name_file, write_atomically
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.model import load_model
from wholedoc.store.run import Run, format_toml, language_stage
from wholedoc.store.shortlist import learn_shortlist, write_shortlist
from wholedoc.tm.memory import copy_memory


def export_model(
    model: Path, out: Path, translations: int, frequent: int, *, with_memory: bool = False
) -> None:
    """Write a model for serving: weights in 8 bits, vocabularies, configuration, shortlist.

    The translation memory of the run, people's text, is copied only where that is asked for.
    For the last two arguments see :func:`wholedoc.store.lexicon.learn_shortlist`. ``out``
    appears when it is complete.
    """
    run, unfinished = Run(find_model(model)), out.with_name(f"{out.name}.part")
    _check(run, out, with_memory)
    trained = load_model(model)
    sizes = len(trained.src_vocabulary), len(trained.trg_vocabulary)
    corpus = run.load_corpus("stage1" if run.data("stage1").exists() else "train")
    shortlist = learn_shortlist(corpus, sizes, translations, frequent)
    models: dict[str, nn.Module | None] = {"stage1": trained.base, "stage2": trained.document}
    if trained.vectors is not None:
        models |= {language_stage(name): found for name, found in trained.vectors.models.items()}
    with name_file(out):
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
        try:
            made = Run(unfinished)
            for stage, found in models.items():
                if found is not None:
                    save_weights(made.stage(stage).best, found, int8=True)
            write_shortlist(made.shortlist_file, shortlist)
            for file in (*run.vocabulary_files(), run.lexicon_file, run.recall_file):
                if file.exists():
                    shutil.copyfile(file, unfinished / file.name)
            if with_memory:
                copy_memory(run.memory, made.memory)
            made_by = {"wholedoc": wholedoc.__version__, "format": 1}
            write_atomically(made.export_file, json.dumps(made_by) + "\n")
            write_atomically(made.config_file, format_toml(trained.config.to_dict()))
            unfinished.rename(out)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


def _check(run: Run, out: Path, with_memory: bool) -> None:
    """Refuse what cannot be exported, before anything is loaded."""
    where = str(run.directory)
    if run.is_export:
        fix = "copy it, or export the run that it was made from"
        raise UserError("is an export already", where=where, fix=fix)
    if out.exists():
        raise UserError("exists already", where=str(out), fix="choose another place, or remove it")
    if with_memory and not run.memory.exists():
        fix = "leave --with-memory out, or train with --set tm.keep=true"
        raise UserError("keeps no translation memory", where=where, fix=fix)
