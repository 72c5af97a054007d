"""Bad input of every kind: one line that says what, where and what to do, and exit code 2."""

import errno
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy import toy_config, write_toy

import wholedoc.cli
from wholedoc.decoding.translator import Translator
from wholedoc.training import loop
from wholedoc.training.stages import train

PROGRESS = re.compile(
    r"building vocabularies|train: \d|dev: \d|stage1[,:]|writing an artificial corpus|training the"
    r"|warning: the languages are not set"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and a run of one epoch; never changed, only copied."""
    directory = tmp_path_factory.mktemp("trained")
    write_toy(directory, train_documents=4)
    train(toy_config(directory, "stage1.epochs=1"), directory / "run")
    return directory


class Place:
    """An empty working directory with the toy corpus, and what the cases need to spoil things."""

    def __init__(self, directory: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.monkeypatch = monkeypatch
        self.trained = trained
        for file in trained.iterdir():
            if file.is_file():
                text = file.read_text(encoding="utf-8").replace(f"{trained}/", "")
                (directory / file.name).write_text(text, encoding="utf-8")

    def write(self, name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        (self.directory / name).write_bytes(data)
        return name

    def train(self, *settings: str) -> list[str]:
        """The arguments that train the toy with some values set."""
        return ["train", "toy.toml", "--run", "run", *_set(settings)]

    def model(self) -> Path:
        """A trained run that may be spoilt."""
        return Path(shutil.copytree(self.trained / "run", self.directory / "run"))

    def resume(self, *settings: str) -> list[str]:
        """The arguments that go on with that run."""
        config = str(self.trained / "toy.toml")
        return ["train", config, "--run", "run", *_set(["stage1.epochs=1", *settings])]

    def translate(self, *arguments: str) -> list[str]:
        """The arguments that translate with that run."""
        self.model()
        return ["translate", "run", *arguments]


def _set(settings: "list[str] | tuple[str, ...]") -> list[str]:
    return [argument for setting in settings for argument in ("--set", setting)]


# The arguments of the command, then what the one line must hold.
Bad = tuple[list[str], *tuple[str, ...]]
CASES: dict[str, Callable[[Place], Bad]] = {}


def case(function: Callable[[Place], Bad]) -> Callable[[Place], Bad]:
    CASES[function.__name__] = function
    return function


# The command line itself


@case
def no_command(at: Place) -> Bad:
    return [], "no command is given", "see wholedoc --help"


@case
def no_memory_to_build(at: Place) -> Bad:
    return ["tm", "build"], "Missing argument", "see wholedoc tm build --help"


@case
def export_of_a_shipped_model(at: Place) -> Bad:
    return ["export", "de-en", "out"], "is an export already"


@case
def unknown_command(at: Place) -> Bad:
    return ["trian"], "trian", "Did you mean", "train", "--help"


@case
def unknown_option(at: Place) -> Bad:
    return ["train", "toy.toml", "--runs", "x"], "--runs", "--help"


@case
def missing_argument(at: Place) -> Bad:
    return ["train"], "no configuration is given", "wholedoc train CONFIG"


@case
def beam_of_zero(at: Place) -> Bad:
    return ["translate", "run", "--beam", "0"], "--beam", "1", "--help"


@case
def nbest_of_zero(at: Place) -> Bad:
    return ["translate", "run", "--nbest", "0"], "--nbest", "1", "--help"


@case
def beam_that_is_no_number(at: Place) -> Bad:
    return ["translate", "run", "--beam", "wide"], "--beam", "--help"


@case
def unknown_choice_of_an_option(at: Place) -> Bad:
    return ["translate", "run", "--replace-unknown", "x"], "--replace-unknown", "copy"


@case
def too_few_sentences_to_keep(at: Place) -> Bad:
    return ["stats", "--src", "dev.src", "--min-sentences", "0"], "--min-sentences", "1"


# Configurations


@case
def no_such_configuration(at: Place) -> Bad:
    return ["train", "no.toml"], "no.toml: no such configuration", "tiny"


@case
def configuration_that_is_a_folder(at: Place) -> Bad:
    return ["train", "."], ".: is a directory", "TOML"


@case
def binary_configuration(at: Place) -> Bad:
    return ["train", at.write("x.toml", b"\x89PNG\xff")], "x.toml: not a text file", "UTF-8"


@case
def invalid_toml(at: Place) -> Bad:
    return ["train", at.write("x.toml", "seed = \n")], "x.toml: not valid TOML", "line 1"


@case
def unknown_key(at: Place) -> Bad:
    return at.train("stage1.lerning_rate=1"), "did you mean stage1.learning_rate?"


@case
def unknown_section(at: Place) -> Bad:
    return at.train("modl.hidden=1"), "unknown key modl; did you mean model?"


@case
def setting_without_value(at: Place) -> Bad:
    return at.train("seed"), "--set: 'seed' is not key=value", "--set model.hidden=256"


@case
def value_for_a_section(at: Place) -> Bad:
    return at.train("model=3"), "model must be a section", "one by one"


@case
def text_for_a_number(at: Place) -> Bad:
    return at.train("model.hidden=wide"), 'model.hidden = "wide" is not a whole number'


@case
def fraction_for_a_whole_number(at: Place) -> Bad:
    return at.train("stage1.epochs=1.5"), "stage1.epochs = 1.5 is not a whole number"


@case
def number_for_a_choice(at: Place) -> Bad:
    return at.train("stage1.optimiser=3"), "choices: sgd, adam"


@case
def bad_choice(at: Place) -> Bad:
    return at.train("stage1.optimiser=adm"), "did you mean 'adam'?"


def _out_of_range(setting: str, range_: str) -> Callable[[Place], Bad]:
    key, _, value = setting.partition("=")
    return lambda at: (at.train(setting), f"{key} = {value}", "out of range", range_)


CASES |= {
    f"out_of_range:{setting}": _out_of_range(setting, range_)
    for setting, range_ in [
        ("seed=-1", "between 0 and 4294967295"),
        ("model.hidden=0", "between 1 and 4096"),
        ("data.max_words=-1", "at least 0"),
        ("stage1.learning_rate=0.0", "at least 1e-12"),
        ("stage1.clip=-1.0", "at least 0"),
        ("stage1.dropout=1.0", "between 0 and 0.95"),
        ("stage1.decay=0.0", "between 0.01 and 1"),
        ("search.beam=0", "between 1 and 100"),
        ("stage1.clip=nan", "at least 0"),
    ]
}


@case
def tied_without_shared_vocabulary(at: Place) -> Bad:
    return at.train("model.tie=all"), "model.tie = 'all'", "vocabulary.shared=true"


@case
def tied_with_other_widths(at: Place) -> Bad:
    return at.train("model.hidden=4"), "model.embedding is 16", "make them equal"


@case
def no_cuda(at: Place) -> Bad:
    at.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return at.train("device=cuda"), "device = 'cuda'", "no CUDA device", "set device=auto"


# Corpora


@case
def no_training_set(at: Place) -> Bad:
    return ["train", "tiny", "--run", "run"], "data.train.src is not set", "--set data.train.src="


@case
def no_dev_set(at: Place) -> Bad:
    return at.train("data.dev.src="), "data.dev.src is not set", "--set data.dev.src="


@case
def missing_source(at: Place) -> Bad:
    return at.train("data.train.src=no.et"), "no.et: no such file", "check the path"


@case
def missing_target(at: Place) -> Bad:
    return at.train("data.train.trg=no.en"), "no.en: no such file", "check the path"


@case
def missing_document_ids(at: Place) -> Bad:
    return at.train("data.dev.doc=no.doc"), "no.doc: no such file", "check the path"


@case
def folder_for_a_file(at: Place) -> Bad:
    return at.train("data.train.trg=."), "folder", "train.src is a file", "two files"


@case
def no_corpus(at: Place) -> Bad:
    return ["stats"], "no corpus is given", "--src"


@case
def one_side_only(at: Place) -> Bad:
    return ["stats", "--src", "train.src"], "train.src: only one side", "target side"


@case
def target_without_source(at: Place) -> Bad:
    return ["stats", "--trg", "train.trg"], "no source file", "source side"


@case
def same_file_on_both_sides(at: Place) -> Bad:
    same = ["data.train.trg=train.src", "data.train.doc="]
    return at.train(*same), "train.src: the same file", "give two files"


@case
def document_ids_as_target(at: Place) -> Bad:
    return at.train("data.train.trg=train.doc"), "train.doc: is given as a side", "document ids"


@case
def source_of_another_set(at: Place) -> Bad:
    return (
        at.train("data.train.src=dev.src"),
        "train.trg:16: has 20 lines but dev.src has 15",
        "line by line",
    )


@case
def unequal_lines(at: Place) -> Bad:
    at.write("long.trg", "t1\n" * 21)
    return at.train("data.train.trg=long.trg"), "long.trg:21: has 21 lines but train.src has 20"


@case
def unequal_lines_without_documents(at: Place) -> Bad:
    at.write("a", "s1\ns2\n")
    at.write("b", "t1\n")
    return ["stats", "--src", "a", "--trg", "b"], "a:2: has 2 lines but b has 1"


@case
def short_document_ids(at: Place) -> Bad:
    at.write("short.doc", "d1\nd1\n")
    return at.train("data.train.doc=short.doc"), "has 20 lines but short.doc has 2"


@case
def document_that_comes_back(at: Place) -> Bad:
    at.write("ids", "d1\nd2\nd1\n" + "d3\n" * 17)
    return at.train("data.train.doc=ids"), "ids:3", "d1"


@case
def document_without_id(at: Place) -> Bad:
    at.write("ids", "d1\n\n" + "d3\n" * 18)
    return at.train("data.train.doc=ids"), "ids:2"


@case
def start_line_after_the_end(at: Place) -> Bad:
    at.write("starts", "0\n7\n99\n")
    return at.train("data.train.doc=starts"), "starts:3", "99", "check"


@case
def boundary_on_one_side(at: Place) -> Bad:
    at.write("a", "s1\n<d>\ns2\n")
    at.write("b", "t1\nt2\nt3\n")
    return ["stats", "--src", "a", "--trg", "b"], "a:2", "<d>", "b:2", "same line"


@case
def zip_archive(at: Place) -> Bad:
    return _with_source(at, b"PK\x03\x04rest"), "x.src: this is a zip archive", "UTF-8"


@case
def empty_file(at: Place) -> Bad:
    return _with_source(at, b""), "x.src: the file is empty", "give a file"


@case
def nul_byte(at: Place) -> Bad:
    return _with_source(at, b"s1\n\0\n" + b"s2\n" * 18), "x.src:2: a NUL byte", "convert"


@case
def invalid_utf8(at: Place) -> Bad:
    return _with_source(at, b"s1\ns2\n\xe9\n" + b"s2\n" * 17), "x.src:3: invalid UTF-8", "convert"


@case
def cut_gzip(at: Place) -> Bad:
    packed = gzip.compress(os.urandom(100).hex().encode() + b"\ns2\n" * 19)
    return _with_source(at, packed[:-20]), "x.src", "gzip data is cut off", "fetch"


def _with_source(at: Place, content: bytes) -> list[str]:
    at.write("x.src", content)
    return at.train("data.train.src=x.src")


@case
def unknown_markup(at: Place) -> Bad:
    at.write("x.html", "<!DOCTYPE html>\n<html>\n<p>a</p>\n</html>\n")
    return ["stats", "x.html"], "x.html:1", "<html>", "convert"


@case
def broken_json_line(at: Place) -> Bad:
    at.write("x.jsonl", '{"src": "a", "trg": "b", "doc": "1"}\n{"src": \n')
    return ["stats", "x.jsonl"], "x.jsonl:2", "JSON"


@case
def filters_that_leave_nothing(at: Place) -> Bad:
    found = "train.src: no sentence is left: 4 short documents"
    return at.train("data.min_sentences=100"), found, "loosen data.min_sentences"


@case
def filters_that_leave_no_subwords(at: Place) -> Bad:
    at.write("x.trg", "\n" * 20)
    settings = ["vocabulary.kind=subword", "vocabulary.size=300", "data.train.trg=x.trg"]
    return at.train(*settings), "train.src: no sentence is left: 20 missing translations"


@case
def subword_vocabulary_without_room(at: Place) -> Bad:
    settings = ["vocabulary.kind=subword", "vocabulary.size=261"]
    return at.train(*settings), "vocabulary.size: 261 entries", "at least"


@case
def subword_vocabulary_of_nothing(at: Place) -> Bad:
    settings = ["vocabulary.kind=subword", "vocabulary.size=0"]
    return at.train(*settings), "vocabulary.size: a vocabulary of 0 has no room", "above 260"


@case
def word_vocabulary_without_room(at: Place) -> Bad:
    return at.train("vocabulary.size=4"), "vocabulary.size", "above 4"


# Run directories


@case
def run_that_is_a_file(at: Place) -> Bad:
    return [*at.train()[:-1], "toy.toml"], "toy.toml: cannot be made", "--run"


@case
def run_inside_a_file(at: Place) -> Bad:
    return [*at.train()[:-1], "toy.toml/run"], "toy.toml/run: cannot be made", "--run"


@case
def directory_of_something_else(at: Place) -> Bad:
    return [*at.train()[:-1], "."], "holds no run", "--run"


@case
def run_of_another_configuration(at: Place) -> Bad:
    at.model()
    begun = "this run was begun with stage1.learning_rate = 0.02, not 0.5"
    return at.resume("stage1.learning_rate=0.5"), "run/config.toml", begun, "--run"


@case
def damaged_configuration_of_a_run(at: Place) -> Bad:
    (at.model() / "config.toml").write_text("seed = ?")
    return at.resume(), "run/config.toml: not valid TOML"


@case
def checkpoint_cut_short(at: Place) -> Bad:
    _cut(at.model() / "stage1.checkpoint")
    return at.resume(), "run/stage1.checkpoint: cannot be read as weights", "restore it"


@case
def checkpoint_that_is_text(at: Place) -> Bad:
    (at.model() / "stage1.checkpoint").write_text("weights? " * 100)
    return at.resume(), "run/stage1.checkpoint: cannot be read as weights", "restore it"


@case
def weights_for_a_checkpoint(at: Place) -> Bad:
    run = at.model()
    shutil.copy(run / "stage1.safetensors", run / "stage1.checkpoint")
    return at.resume(), "run/stage1.checkpoint: not a checkpoint", "remove it"


@case
def finished_run_without_weights(at: Place) -> Bad:
    (at.model() / "stage1.safetensors").unlink()
    return at.resume(), "run/stage1.safetensors: cannot be read", "--run"


@case
def training_set_to_encode_again_is_gone(at: Place) -> Bad:
    run = at.model()
    _cut(run / "data" / "train" / "src.ids")
    text = (run / "config.toml").read_text().replace(f"{at.trained}/train.src", "gone.src")
    (run / "config.toml").write_text(text)
    return at.resume("data.train.src=gone.src"), "gone.src: no such file"


@case
def disk_full_at_the_first_file(at: Place) -> Bad:
    _fill_disk(at, after=0)
    return at.train(), "run/versions.json: cannot write: No space left", "make room"


@case
def disk_full_at_the_vocabulary(at: Place) -> Bad:
    _fill_disk(at, after=2)
    return at.train(), "run/src.vocabulary: cannot write: No space left", "make room"


@case
def disk_full_at_the_corpora(at: Place) -> Bad:
    _fill_disk(at, after=4)
    return at.train(), "run/data/train/meta.json: cannot write: No space left", "make room"


@case
def disk_full_at_the_weights(at: Place) -> Bad:
    _fill_disk(at, after=6)
    return at.train(), "run/stage1.safetensors: cannot write: No space left", "make room"


@case
def disk_full_at_the_checkpoint(at: Place) -> Bad:
    _fill_disk(at, after=7)
    return at.train(), "run/stage1.checkpoint: cannot write: No space left", "make room"


@case
def disk_full_at_the_log(at: Place) -> Bad:
    run = at.model()
    (run / "stage1.checkpoint").unlink()
    full = Path("/dev/full")
    at.monkeypatch.setattr(loop, "append_to", lambda _: full.open("ab", buffering=0))
    return at.resume(), "run/log.jsonl: cannot write: No space left", "make room"


def _fill_disk(at: Place, after: int) -> None:
    """Let so many files be written and no more."""
    calls = iter(range(after))

    def fsync(number: int) -> None:
        if next(calls, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at.monkeypatch.setattr(os, "fsync", fsync)


@case
def learning_rate_that_explodes(at: Place) -> Bad:
    settings = ["stage1.optimiser=sgd", "stage1.learning_rate=1e38", "stage1.clip=0"]
    return at.train(*settings), "stage1: the gradient is not finite in epoch", "learning_rate"


# Models


@case
def no_such_model(at: Place) -> Bad:
    return ["translate", "no/run", "dev.src"], "no/run: no such model", "directory of a run"


@case
def memory_as_a_text(at: Place) -> Bad:
    at.write("a.tmx", '<?xml version="1.0"?>\n<tmx version="1.4"/>')
    return at.translate("a.tmx"), "a.tmx: is a tmx file, not text", "wholedoc tm build MEMORY a.tmx"


@case
def markup_as_a_text(at: Place) -> Bad:
    at.write("a.xml", '<?xml version="1.0"?>\n<!-- c --><topic/>')
    return at.translate("a.xml"), "a.xml: is a topic file, not text", "--format"


@case
def model_that_is_a_file(at: Place) -> Bad:
    return ["translate", "toy.toml", "dev.src"], "toy.toml: is a file, not a model", "directory"


@case
def model_that_is_no_run(at: Place) -> Bad:
    return ["translate", ".", "dev.src"], ".: is not a run directory", "wholedoc train"


@case
def model_without_weights(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    (at.directory / "run" / "stage1.safetensors").unlink()
    return arguments, "run: holds no trained weights", "wholedoc train"


@case
def weights_cut_short(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    _cut(at.directory / "run" / "stage1.safetensors")
    return arguments, "run/stage1.safetensors: cannot be read as weights", "restore it"


@case
def weights_that_are_text(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    at.write("run/stage1.safetensors", "hello")
    return arguments, "run/stage1.safetensors: cannot be read as weights", "restore it"


@case
def weights_of_another_size(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    file = at.directory / "run" / "stage1.safetensors"
    tensors = load_file(file)
    save_file({name: value[:3].clone() for name, value in tensors.items()}, file)
    return arguments, "run/stage1.safetensors", "the model needs", "other sizes"


@case
def weights_of_another_model(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    save_file({"x": torch.zeros(1)}, at.directory / "run" / "stage1.safetensors")
    return arguments, "run/stage1.safetensors: lacks tensor", "another configuration"


@case
def missing_vocabulary(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    (at.directory / "run" / "trg.vocabulary").unlink()
    return arguments, "run/trg.vocabulary: no such vocabulary file", "check"


@case
def vocabulary_cut_short(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    _cut(at.directory / "run" / "src.vocabulary")
    return arguments, "run/src.vocabulary: not a vocabulary", "train again"


@case
def empty_vocabulary(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    at.write("run/src.vocabulary", "")
    return arguments, "run/src.vocabulary: not a vocabulary", "train again"


@case
def vocabulary_that_is_text(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    at.write("run/src.vocabulary", "word\nlist\n")
    return arguments, "run/src.vocabulary: not a vocabulary", "train again"


@case
def damaged_lexicon(at: Place) -> Bad:
    arguments = at.translate("dev.src")
    at.write("run/lexicon.tsv", b"s1\tt1\n\xff\xff\n")
    return arguments, "run/lexicon.tsv:2: not a pair", "wholedoc train"


def _cut(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


# Translating


@case
def missing_input(at: Place) -> Bad:
    return at.translate("no.et"), "no.et: no such file", "check the path"


@case
def input_that_is_a_folder(at: Place) -> Bad:
    return at.translate("run"), "run: is a folder", "give a file"


@case
def binary_input(at: Place) -> Bad:
    return at.translate(at.write("x.pdf", "%PDF-1.4")), "x.pdf: this is a PDF", "UTF-8"


@case
def input_of_invalid_utf8(at: Place) -> Bad:
    return at.translate(at.write("x.et", b"a\n\xff\n")), "x.et:2: invalid UTF-8", "convert"


@case
def missing_ids_of_an_input(at: Place) -> Bad:
    return at.translate("dev.src", "--doc", "no.doc"), "no.doc: no such file", "check the path"


@case
def ids_of_another_input(at: Place) -> Bad:
    lines = "train.doc:16: has 20 lines but dev.src has 15"
    return at.translate("dev.src", "--doc", "train.doc"), lines, "line by line"


@case
def ids_for_two_inputs(at: Place) -> Bad:
    inputs = ("dev.src", "train.src", "--doc", "dev.doc")
    return at.translate(*inputs), "--doc: goes with one input", "one by one"


@case
def full_disk(at: Place) -> Bad:
    return at.translate("dev.src", "-o", "/dev/full"), "/dev/full: cannot write: No space", "-o"


@case
def output_where_nothing_can_be_written(at: Place) -> Bad:
    return at.translate("dev.src", "-o", "/proc/x"), "/proc/x: cannot write: ", "-o"


@case
def page_where_nothing_can_be_written(at: Place) -> Bad:
    at.monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("too late"))
    return at.translate("dev.src", "--explain", "/proc/x"), "/proc/x: cannot write", "--explain"


@case
def output_that_is_a_folder(at: Place) -> Bad:
    return at.translate("dev.src", "-o", "run"), "run: is a folder", "-o"


@case
def output_over_the_input(at: Place) -> Bad:
    overwrite = "./dev.src"
    return at.translate("dev.src", "-o", overwrite), "dev.src: would overwrite an input", "-o"


@case
def one_output_file_for_two_inputs(at: Place) -> Bad:
    arguments = at.translate("dev.src", "train.src", "-o", "toy.toml")
    return arguments, "toy.toml/dev.src: cannot write: Not a directory", "-o"


@case
def two_inputs_of_one_name(at: Place) -> Bad:
    arguments = at.translate("dev.src", "run/dev.src", "-o", "out")
    at.write("run/dev.src", "s1\n")
    return arguments, "out: two inputs of the same name", "one by one"


def ignored(at: Place, *arguments: str) -> list[str]:
    """A command with an option that would change nothing, which is known before it translates."""
    at.monkeypatch.setattr(Translator, "load", lambda *_, **__: pytest.fail("too late"))
    return at.translate("dev.src", *arguments)


@case
def passes_of_a_sentence_model(at: Place) -> Bad:
    return ignored(at, "--passes", "2"), "--passes: this model translates each sentence by itself"


@case
def first_pass_of_a_sentence_model(at: Place) -> Bad:
    return ignored(at, "--first-pass", "document"), "--first-pass: ", "leave it out"


@case
def order_of_a_sentence_model(at: Place) -> Bad:
    return ignored(at, "--order", "sequential"), "--order: ", "leave it out"


@case
def shuffled_memory_of_a_sentence_model(at: Place) -> Bad:
    return ignored(at, "--shuffle-memory"), "--shuffle-memory: ", "leave it out"


@case
def more_translations_than_the_beam_holds(at: Place) -> Bad:
    arguments = ignored(at, "--nbest", "3", "--beam", "1")
    return arguments, "--nbest: a beam of 1 does not hold 3 translations", "--beam 3"


@case
def more_translations_than_the_beam_of_the_model_holds(at: Place) -> Bad:
    return ignored(at, "--nbest", "3"), "--nbest: a beam of 2 does not hold 3 translations"


@case
def no_lexicon_for_unknown_words(at: Place) -> Bad:
    arguments = at.translate("dev.src", "--replace-unknown", "lexicon")
    Path("run/lexicon.tsv").unlink()
    return arguments, "--replace-unknown: run has no lexicon", "copy"


@case
def one_side_to_score(at: Place) -> Bad:
    at.model()
    return ["score", "run", "dev.src"], "dev.src: only one side", "give the target side too"


# Other commands


@case
def synth_into_a_file(at: Place) -> Bad:
    return ["synth", "toy.toml"], "toy.toml"


@case
def synth_of_no_documents(at: Place) -> Bad:
    return ["synth", "out", "--train", "0"], "train"


@case
def demo_into_a_file(at: Place) -> Bad:
    return ["demo", "--out", "toy.toml"], "toy.toml"


# evaluate


def evaluate(at: Place, *arguments: str) -> list[str]:
    at.write("ref", "a b\nc d\ne\n")
    at.write("out", "a\nc d\ne\n")
    return ["evaluate", "--ref", "ref", "--without", "meteor", *arguments]


@case
def evaluate_nothing(at: Place) -> Bad:
    return evaluate(at), "--sys", "--help"


@case
def system_without_a_name(at: Place) -> Bad:
    return evaluate(at, "--sys", "out"), "--sys: 'out'", "--sys NAME=FILE"


@case
def output_that_is_too_short(at: Place) -> Bad:
    short = at.write("short", "a\nc\n")
    command = evaluate(at, "--sys", "one=out", "--sys", f"two={short}")
    return command, "ref:3: has 3 lines but short has 2", "line by line"


@case
def ids_of_other_references(at: Place) -> Bad:
    ids = at.write("ids", "x\nx\ny\ny\n")
    return evaluate(at, "--sys", "one=out", "--doc", ids), "ids:4: has 4 lines but ref has 3"


@case
def source_of_other_references(at: Place) -> Bad:
    src = at.write("src", "x\n" * 5)
    return evaluate(at, "--sys", "one=out", "--src", src), "src:4: has 5 lines"


@case
def baseline_that_is_not_there(at: Place) -> Bad:
    command = evaluate(at, "--sys", "one=out", "--baseline", "two")
    return command, "baseline", "'two'", "name one of one"


@case
def metric_that_is_not_there(at: Place) -> Bad:
    command = evaluate(at, "--sys", "one=out", "--without", "comet")
    return command, "without: there is no metric 'comet'", "name one of bleu"


@case
def boundary_that_an_output_lacks(at: Place) -> Bad:
    command = evaluate(at, "--sys", "one=out")
    at.write("ref", "a b\n<d>\ne\n")
    return command, "out:2: no document boundary, where ref has one", "--doc"


@case
def references_of_boundaries_only(at: Place) -> Bad:
    command = evaluate(at, "--sys", "one=ref")
    at.write("ref", "<d>\n<d>\n")
    return command, "ref: holds no sentence"


@case
def output_that_is_empty(at: Place) -> Bad:
    return evaluate(at, "--sys", "one=" + at.write("none", "")), "none: the file is empty"


def check(code: int, output: str, errors: str, expected: tuple[str, ...]) -> None:
    """Exit code 2, and one line beside the progress, with all that is expected."""
    lines = [line for line in errors.splitlines() if not PROGRESS.match(line)]
    assert len(lines) == 1, errors
    assert lines[0].startswith("wholedoc: ")
    for text in expected:
        assert text in lines[0]
    helps = "; " in lines[0] or re.search(r"\(see wholedoc .*--help\)", lines[0])
    assert helps, "does not say what to do"
    assert code == 2
    assert output == ""


@pytest.mark.parametrize("name", CASES)
def test_bad_input(
    name: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, *expected = CASES[name](Place(tmp_path, trained, monkeypatch))
    monkeypatch.setattr(sys, "argv", ["wholedoc", *arguments])
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        wholedoc.cli.main()
    output, errors = capsys.readouterr()
    if name == "no_command":  # the help, as a courtesy
        output = ""
    assert isinstance(caught.value.code, int)
    check(caught.value.code, output, errors, tuple(expected))


@pytest.mark.parametrize(
    ("arguments", "given", "expected"),
    [
        (["translate", "RUN"], b"s1\n\xff\n", "standard input:2: invalid UTF-8"),
        (["translate", "no"], b"s1\n", "no: no such model"),
        (["train", "tiny", "--set", "model.hiden=3"], b"", "did you mean model.hidden?"),
    ],
)
def test_bad_input_of_the_real_command(
    arguments: list[str], given: bytes, expected: str, trained: Path
) -> None:
    arguments = [argument.replace("RUN", str(trained / "run")) for argument in arguments]
    done = _run(arguments, given)
    check(done.returncode, done.stdout.decode(), done.stderr.decode(), (expected,))


WRONG_PATHS = {
    "translate": (["translate", "no"], "no: no such model"),
    "input": (["translate", "RUN", "no.et"], "no.et: no such file"),
    "output": (["translate", "RUN", "dev.src", "-o", "/proc/x"], "/proc/x: cannot write"),
    "score": (["score", "no", "a", "b"], "no: no such model"),
    "scored": (["score", "RUN", "no.et", "no.en"], "no.et: no such file"),
    "export": (["export", "no", "out"], "no: no such model"),
    "bench": (["bench", "--run", "no"], "no: no such model"),
    "train": (["train", "no.toml"], "no.toml: no such configuration"),
    "trained on": (["train", "tiny", "--set", "data.train.src=no.et"], "no.et: no such file"),
    "evaluate": (["evaluate", "--ref", "no.en", "--sys", "a=b"], "no.en: no such file"),
    "experiment": (["experiment", "no.toml"], "no.toml: no such"),
}


@pytest.mark.parametrize("name", WRONG_PATHS)
def test_a_wrong_path_does_not_wait_for_torch(
    name: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dev.src").write_text("s1\n")
    arguments, expected = WRONG_PATHS[name]
    arguments = [argument.replace("RUN", str(trained / "run")) for argument in arguments]
    program = f"""import sys
sys.modules["torch"] = None  # importing it fails
sys.argv = ["wholedoc", *{arguments!r}]
from wholedoc.cli import main
main()"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    check(done.returncode, done.stdout, done.stderr, (expected,))


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["translate", "stats"])
def test_standard_output_on_a_full_disk(
    command: str, unbuffered: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    arguments = {
        "translate": ["translate", str(trained / "run")],
        "stats": ["stats", str(trained / "toy.toml"), "--json"],
    }
    with Path("/dev/full").open("wb") as full:
        done = _run(arguments[command], b"s1\n", full.fileno())
    check(
        done.returncode, "", done.stderr.decode(), ("standard output: ", "No space left on device")
    )


def _run(
    arguments: list[str], given: bytes, stdout: int = subprocess.PIPE
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "wholedoc", *arguments],
        input=given,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_a_traceback_is_shown_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["wholedoc", "translate", "no"])
    monkeypatch.setenv("WHOLEDOC_TRACEBACK", "1")
    with pytest.raises(wholedoc.cli.UserError):
        wholedoc.cli.main()


def test_a_bug_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError(json.dumps("two\nlines"))

    monkeypatch.setattr(wholedoc.cli, "app", lambda **_: broken())
    with pytest.raises(SystemExit) as caught:
        wholedoc.cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        'wholedoc: ZeroDivisionError: "two\\nlines" (set WHOLEDOC_TRACEBACK=1 to see where)\n'
    )
