"""The command line: every command from end to end, and what the documentation says of it."""

import csv
import errno
import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from toy import write_toy

import wholedoc
import wholedoc.cli
from wholedoc.decoding.translator import Translator
from wholedoc.metrics.scores import DiscourseShares
from wholedoc.training.loop import read_log

ROOT = Path(__file__).parent.parent
COMMANDS = {
    "stats",
    "synth",
    "train",
    "translate",
    "segments",
    "serve",
    "score",
    "export",
    "evaluate",
    "params",
    "bench",
    "demo",
    "experiment",
    "tm build",
    "tm fit",
    "tm add",
    "tm search",
    "tm stats",
    "tm remove",
    "tm publish",
}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        return self.output.split("\n")[:-1]


Cli = Callable[..., Done]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs a command in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, given: str = "") -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["wholedoc", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        assert isinstance(caught.value.code, int)
        return Done(caught.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus and, in ``run``, a model trained with the command itself."""
    directory = tmp_path_factory.mktemp("trained")
    config = write_toy(directory)
    command = ["train", str(config), "--run", str(directory / "run"), "--set", "stage1.epochs=2"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["wholedoc", *command])
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
    assert caught.value.code == 0
    return directory


# Help and version


def command_parameters() -> dict[str, set[str]]:
    """The options and arguments of each command, as typer knows them."""
    group = typer.main.get_command(wholedoc.cli.app)
    found: dict[str, set[str]] = {}
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        inner = {f"{name} {key}": each for key, each in getattr(command, "commands", {}).items()}
        for full_name, each in (inner or {name: command}).items():
            options = {option for p in each.params for option in (*p.opts, *p.secondary_opts)}
            found[full_name] = options | {"--help"}
    return found


def test_the_commands_are_those_of_the_documentation() -> None:
    assert set(command_parameters()) == COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_of_a_command(command: str, cli: Cli) -> None:
    done = cli(*command.split(), "--help")
    assert (done.code, done.errors) == (0, "")
    assert f"wholedoc {command}" in done.output
    for option in command_parameters()[command]:
        if option.startswith("--"):
            assert option in done.output
    assert "<bool>" not in done.output
    assert "<list" not in done.output
    examples = done.output.partition("Examples:")[2].split("wholedoc ")[1:]
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert words[: len(command.split())] == command.split()
        options = {word for word in words if word.startswith("-")}
        assert options <= command_parameters()[command]


def test_help_tells_defaults_and_names(cli: Cli) -> None:
    found = cli("translate", "--help").output
    for option in ("--beam", "--passes"):
        after = " ".join(found[found.index(f"│ {option} ") :].replace("│", " ").split())
        assert "[default: (of the model)]" in after.split(" --")[0]
    assert "paper, small, tiny" in cli("train", "--help").output
    assert "<bool>" not in cli("--help").output


def test_help_lists_the_commands(cli: Cli) -> None:
    done = cli("--help")
    assert (done.code, done.errors) == (0, "")
    for command in COMMANDS:
        assert command.split()[0] in done.output


def test_version(cli: Cli) -> None:
    assert cli("--version") == Done(0, f"{wholedoc.__version__}\n", "")


@pytest.mark.parametrize("encoding", ["ascii", "utf-16"])
def test_the_locale_changes_nothing(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    Path("õ.tsv").write_text("1\tõ\ta\n2\tä\tb\n", encoding="utf-8")
    Path("ö.tsv").write_text("1\tö\ta\n", encoding="utf-8")
    command = [sys.executable, "-m", "wholedoc", "stats", "--json"]
    done = subprocess.run([*command, "õ.tsv", "ö.tsv"], capture_output=True, check=True)
    assert json.loads(done.stdout.decode("utf-8"))["corpora"].keys() == {"õ.tsv", "ö.tsv"}
    assert "õ.tsv".encode() in done.stdout
    failed = subprocess.run([*command, "ü.tsv"], capture_output=True, check=False)
    assert failed.returncode == 2
    assert failed.stderr.startswith("wholedoc: ü.tsv: ".encode())


def test_only_standard_output_is_called_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other failures without the name of a file are not blamed on it."""

    def fail(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("wholedoc.cli.evaluate.load_config", fail)
    done = cli("params")
    assert (done.code, done.output) == (2, "")
    assert done.errors.startswith("wholedoc: Input/output error; ")


def test_help_does_not_wait_for_torch() -> None:
    program = (
        "import sys; sys.argv = ['wholedoc', '--help']; import wholedoc.cli\n"
        "try: wholedoc.cli.main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


# stats and synth


STATISTICS = {
    *("documents", "sentences", "sentences_per_document", "src_words", "trg_words"),
    *("src_vocabulary", "trg_vocabulary", "boundaries", "filtered"),
}


def test_statistics_as_json(trained: Path, cli: Cli) -> None:
    files = [f"--{side}={trained}/train.{side}" for side in ("src", "trg", "doc")]
    done = cli("stats", *files, "--json", "--max-words", "4")
    found = json.loads(done.output)
    assert found.keys() == STATISTICS
    assert (found["documents"], found["boundaries"]) == (8, "document-ids")
    assert found["sentences"] + found["filtered"]["long_sentences"] == 40
    assert found["filtered"]["long_sentences"] > 0
    assert (done.code, done.errors) == (0, "")


def test_statistics_of_several_corpora(trained: Path, cli: Cli) -> None:
    config = trained / "toy.toml"
    found = json.loads(cli("stats", config, "--json").output)["corpora"]
    assert found.keys() == {f"{config} train", f"{config} dev"}
    assert all(corpus.keys() == STATISTICS for corpus in found.values())


def test_statistics_are_those_of_the_configuration(cli: Cli) -> None:
    """Its filters hold for the training set only, and its languages for all; options win."""
    Path("all.tsv").write_text("doc\ten\tde\tfr\n1\ta b c\td\te f g h\n1\ta\td\te\n")
    config = Path("c.toml")
    config.write_text(
        '[data]\nsrc_language = "fr"\ntrg_language = "de"\nmax_ratio = 3.5\n'
        '[data.train]\nsrc = "all.tsv"\n[data.test]\nsrc = "all.tsv"\n'
    )

    def counts(*options: str) -> list[tuple[int, int]]:
        found = json.loads(cli("stats", config, "--json", *options).output)["corpora"]
        sets = (found[f"{config} train"], found[f"{config} test"])
        return [(one["src_words"], one["filtered"]["uneven_lengths"]) for one in sets]

    assert counts() == [(1, 1), (5, 0)]
    assert counts("--max-ratio", "0") == [(5, 0), (5, 0)]
    assert counts("--max-ratio", "2", "--src-language", "en") == [(1, 1), (1, 1)]
    assert counts("--src-language", "en") == [(4, 0), (4, 0)]


def test_statistics_for_people(trained: Path, cli: Cli) -> None:
    done = cli("stats", trained / "toy.toml")
    assert done.code == 0
    assert re.search(r"sentences +│ +40 │ +15 │", done.output)
    assert "document-ids" in done.output


def test_synth_writes_a_corpus_that_stats_reads(cli: Cli) -> None:
    done = cli("synth", "corpus", "--train", "3", "--dev", "2", "--test", "2", "--json")
    assert (done.code, done.errors) == (0, "")
    summary = json.loads(done.output)
    files = [f"--{side}=corpus/train.{side}" for side in ("src", "trg", "doc")]
    found = json.loads(cli("stats", *files, "--json").output)
    assert found["documents"] == summary["splits"]["train"]["documents"] == 3
    assert found["sentences"] == summary["splits"]["train"]["sentences"]


def test_synth_does_not_overwrite_another_corpus(cli: Cli) -> None:
    command = ("synth", "corpus", "--train", "3", "--dev", "2", "--test", "2")
    assert cli(*command).code == cli(*command).code == 0
    before = Path("corpus/train.src").read_text()
    refused = cli(*command, "--seed", "2")
    assert (refused.code, refused.output) == (2, "")
    assert refused.errors.startswith("wholedoc: corpus: holds an artificial corpus of other ")
    assert Path("corpus/train.src").read_text() == before
    assert cli(*command, "--seed", "2", "--force").code == 0
    assert Path("corpus/train.src").read_text() != before


def test_synth_for_people(cli: Cli) -> None:
    done = cli("synth", "corpus", "--train", "3", "--dev", "2", "--test", "2")
    assert done.code == 0
    assert re.search(r"^train: 3 documents, \d+ sentences$", done.output, re.MULTILINE)
    assert "at best" in done.output


# train and translate


def test_train_prints_the_run_and_resumes(trained: Path, cli: Cli) -> None:
    command = ("train", trained / "toy.toml", "--run", "here", "--set", "stage1.epochs=1")
    done = cli(*command)
    assert (done.code, done.output) == (0, "here\n")
    assert "stage1: done in" in done.errors
    assert "boundaries: document-ids; left out: nothing" in done.errors
    again = cli(*command)
    assert (again.code, again.output) == (0, "here\n")
    assert "nothing left to do" in again.errors
    assert len([e for e in read_log(Path("here")) if e["event"] == "start"]) == 1


def test_the_run_is_named_after_the_configuration(trained: Path, cli: Cli) -> None:
    done = cli("train", trained / "toy.toml", "--set", "stage1.epochs=1")
    assert done.output == "runs/toy\n"
    assert Path("runs/toy/stage1.safetensors").exists()


def test_a_file_to_a_file(trained: Path, cli: Cli) -> None:
    done = cli("translate", trained / "run", trained / "dev.src", "-o", "out")
    assert (done.code, done.output) == (0, "")
    text = Path("out").read_text()
    assert text.count("\n") == 15
    assert text == cli("translate", trained / "run", trained / "dev.src").output


def test_json_goes_to_standard_output_and_lines_to_their_place(trained: Path, cli: Cli) -> None:
    lines = cli("translate", trained / "run", trained / "dev.src").lines
    done = cli("translate", trained / "run", trained / "dev.src", "-o", "out", "--json")
    assert Path("out").read_text().splitlines() == lines
    documents = [json.loads(line)["sentences"] for line in done.lines]
    assert [text for sentences in documents for text in sentences] == [
        each for each in lines if each
    ]
    alone = cli("translate", trained / "run", trained / "dev.src", "--json")
    assert alone.lines == done.lines


def test_an_input_is_not_overwritten_while_it_is_read(trained: Path, cli: Cli) -> None:
    shutil.copyfile(trained / "dev.src", "out.part")
    done = cli("translate", trained / "run", "out.part", "-o", "out")
    assert (done.code, "would overwrite an input" in done.errors) == (2, True)
    assert Path("out.part").read_bytes() == (trained / "dev.src").read_bytes()


@pytest.mark.parametrize("head", ["<html>", '<xliff version="1.2">', "<?xml version='1.0'?>"])
def test_markup_is_no_text_wherever_it_comes_from(head: str, trained: Path, cli: Cli) -> None:
    done = cli("translate", trained / "run", given=f"{head}\n<b>s1</b>\n")
    assert (done.code, done.output) == (2, "")
    assert "file, not text; give a document in a format" in done.errors
    done = cli("translate", trained / "run", "--format", "lines", given=f"{head}\n<b>s1</b>\n")
    assert len(done.lines) == 2
    Path("a.srt.gz").write_bytes(b"")
    assert "a.srt.gz: is subtitles, gzipped" in cli("translate", trained / "run", "a.srt.gz").errors


def test_folders_of_an_output_are_made(trained: Path, cli: Cli) -> None:
    assert cli("translate", trained / "run", trained / "dev.src", "-o", "new/er/out").code == 0
    assert Path("new/er/out").read_text().count("\n") == 15
    assert [file.name for file in Path("new/er").iterdir()] == ["out"]


@pytest.mark.parametrize("before", ["an old file", "nothing", "a link"])
def test_an_interrupted_translation_leaves_the_old_file_and_keeps_its_part(
    before: str, trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path("out")
    if before == "a link":
        Path("target").write_text("old\n")
        out.symlink_to("target")
    elif before == "an old file":
        out.write_text("old\n")
    whole = cli("translate", trained / "run", trained / "dev.src").output
    translate, calls = Translator.translate_documents, []

    def interrupted(*arguments: Any, **named: Any) -> Any:
        calls.append(out.read_text() if out.exists() else "nothing")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return translate(*arguments, **named)

    monkeypatch.setattr("wholedoc.app.lines.GROUP_SENTENCES", 5)
    monkeypatch.setattr("wholedoc.corpus.documents.GROUP_SENTENCES", 5)
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_documents", interrupted)
        done = cli("translate", trained / "run", trained / "dev.src", "-o", "out")
    assert (done.code, done.output) == (130, "")
    part = Path("target.part" if before == "a link" else "out.part")
    assert f"{part.name}: kept what was finished" in done.errors
    assert done.errors.endswith("wholedoc: interrupted\n")
    assert set(calls) == {"nothing" if before == "nothing" else "old\n"}
    assert out.exists() == (before != "nothing")
    assert part.read_text() == "".join(whole.splitlines(keepends=True)[:10])
    cli("translate", trained / "run", trained / "dev.src", "-o", "out")
    assert out.read_text() == whole
    assert out.is_symlink() == (before == "a link")
    assert not part.exists()


def test_a_full_disk_leaves_the_old_file(
    trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("out").write_text("old\n")
    monkeypatch.setattr(os, "fsync", full)
    done = cli("translate", trained / "run", trained / "dev.src", "-o", "out")
    assert (done.code, done.output) == (2, "")
    assert "out: cannot write: No space left on device; choose another place" in done.errors
    assert Path("out").read_text() == "old\n"


def test_an_interrupt_is_told(tmp_path: Path) -> None:
    """As Ctrl-C does: a message and the exit code of a shell."""
    program = (
        "import signal, sys, wholedoc.cli.corpora\n"
        "def stop(*_, **__): signal.raise_signal(signal.SIGINT)\n"
        "wholedoc.cli.corpora.write_synth = stop\n"
        "sys.argv = ['wholedoc', 'synth', 'corpus']\n"
        "wholedoc.cli.main()"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "wholedoc: interrupted\n")


def test_an_export_is_translated_with_like_a_run(trained: Path, cli: Cli) -> None:
    assert cli("export", trained / "run", "small", "--frequent", "100") == Done(0, "small\n", "")
    rounded = cli("translate", trained / "run", trained / "dev.src", "--int8")
    assert rounded.code == 0
    assert cli("translate", "small", trained / "dev.src").output == rounded.output
    again = cli("export", trained / "run", "small")
    assert (again.code, again.output) == (2, "")
    assert again.errors.startswith("wholedoc: small: exists already; ")


def test_standard_input_to_standard_output(trained: Path, cli: Cli) -> None:
    source = (trained / "dev.src").read_text()
    expected = cli("translate", trained / "run", trained / "dev.src").output
    assert cli("translate", trained / "run", given=source).output == expected
    assert cli("translate", trained / "run", "-", given=source).output == expected


def test_a_pipe_is_read(trained: Path, cli: Cli) -> None:
    os.mkfifo("pipe")
    writing = threading.Thread(target=Path("pipe").write_text, args=("s1\ns2\n",))
    writing.start()
    assert len(cli("translate", trained / "run", "pipe").lines) == 2
    writing.join()


@pytest.mark.parametrize("given", ["", "\n", "s1\n\n\ns2", "s1\r\ns2\r\n", "\ufeffs1\n", " \n\t\n"])
def test_as_many_lines_as_there_were(given: str, trained: Path, cli: Cli) -> None:
    lines = len(given.removesuffix("\n").split("\n")) if given else 0
    done = cli("translate", trained / "run", given=given)
    assert (done.code, len(done.lines)) == (0, lines)


def test_boundary_markers_are_copied(trained: Path, cli: Cli) -> None:
    done = cli("translate", trained / "run", given="s1 s2\n<d>\ns3\n")
    assert len(done.lines) == 3
    assert done.lines[1] == "<d>"


def test_document_ids_change_no_line_count(trained: Path, cli: Cli) -> None:
    doc = trained / "dev.doc"
    done = cli("translate", trained / "run", trained / "dev.src", "--doc", doc)
    assert len(done.lines) == 15


def test_several_inputs_into_a_folder(trained: Path, cli: Cli) -> None:
    inputs = (trained / "dev.src", trained / "train.src")
    done = cli("translate", trained / "run", *inputs, "-o", "out")
    assert (done.code, done.output) == (0, "")
    assert sorted(file.name for file in Path("out").iterdir()) == ["dev.src", "train.src"]
    both = "".join(Path("out", name).read_text() for name in ("dev.src", "train.src"))
    assert both == cli("translate", trained / "run", *inputs).output
    assert both.count("\n") == 15 + 40


def test_nbest(trained: Path, cli: Cli) -> None:
    given = "s1 s2\ns3\n"
    best = cli("translate", trained / "run", "--beam", "3", given=given).lines
    done = cli("translate", trained / "run", "--beam", "3", "--nbest", "3", given=given)
    rows = [line.split(" ||| ") for line in done.lines]
    assert [row[0] for row in rows] == ["0"] * 3 + ["1"] * 3
    assert [rows[0][1], rows[3][1]] == best
    for sentence in (rows[:3], rows[3:]):
        scores = [float(row[3]) for row in sentence]
        assert scores == sorted(scores, reverse=True)
        assert len({row[1] for row in sentence}) == 3
        assert all(float(row[2]) < 0 for row in sentence)


def test_the_beam_of_the_command_line_wins(
    trained: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wholedoc.decoding import descent

    used = []
    search = descent.search

    def spy(predictor, src, lengths, config, *others):  # type: ignore[no-untyped-def]
        used.append(config.beam)
        return search(predictor, src, lengths, config, *others)

    monkeypatch.setattr(descent, "search", spy)
    cli("translate", trained / "run", given="s1\n")
    cli("translate", trained / "run", "--beam", "4", given="s1\n")
    assert used == [2, 4]


@pytest.mark.parametrize("way", ["none", "copy", "lexicon"])
def test_unknown_words(way: str, trained: Path, cli: Cli) -> None:
    done = cli("translate", trained / "run", "--replace-unknown", way, given="s1 Tallinn s2\n")
    assert (done.code, len(done.lines)) == (0, 1)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["translate", "stats"])
def test_a_reader_that_has_gone(
    command: str, unbuffered: str, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in ``wholedoc translate … | head -1``: the exit code tells, and nothing else."""
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    arguments = {
        "translate": ["translate", str(trained / "run"), str(trained / "dev.src")],
        "stats": ["stats", str(trained / "toy.toml"), "--json"],
    }
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "wholedoc", *arguments[command]],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


# evaluate


@pytest.fixture
def outputs(cli: Cli) -> list[str]:
    """References, outputs of a baseline and of two seeds of another system, and document ids."""
    words = ["one", "two", "three", "four", "five", "six"]
    lines = [" ".join(words[i % 3 : i % 3 + 4]) for i in range(24)]
    Path("ref").write_text("".join(f"{line} .\n" for line in lines))
    Path("base").write_text("".join(f"{line[::-1]} .\n" for line in lines))
    for name, drop in (("good.1", 2), ("good.2", 4)):
        kept = (line if i % drop else f"so {line[:5]}" for i, line in enumerate(lines))
        with gzip.open(name, "wt") as stream:
            stream.writelines(f"{line} .\n" for line in kept)
    Path("doc").write_text("".join(f"d{i // 3}\n" for i in range(24)))
    systems = ["base=base", "good=good.1", "good=good.2"]
    arguments = [word for system in systems for word in ("--sys", system)]
    return ["evaluate", "--ref", "ref", "--without", "meteor", "--trials", "200", *arguments]


def test_evaluate_as_json(outputs: list[str], cli: Cli) -> None:
    done = cli(*outputs, "--src", "base", "--doc", "doc", "--json")
    assert (done.code, done.errors) == (0, "")
    found = json.loads(done.output)
    base, good = found["systems"]
    assert (base["name"], base["seeds"], base["against"]) == ("base", 1, None)
    assert (good["name"], good["seeds"], good["against"]["baseline"]) == ("good", 2, "base")
    measured = ["bleu", "bleu1", "bleu2", "bleu3", "bleu4", "document_bleu", "chrf", "ter"]
    discourse = [*DiscourseShares.names, "unknown"]
    assert list(good["scores"]) == [*measured, "meteor", *discourse]
    assert list(good["signatures"]) == [*measured, *discourse]
    assert good["missing"]["meteor"] == "left out as asked"
    assert good["missing"]["pronoun_accuracy"] == "there is nothing to count"
    assert good["scores"]["meteor"] is good["scores"]["pronoun_accuracy"] is None
    assert good["scores"]["unknown"] == 0
    for name in measured:
        against = good["against"][name]
        assert good["deviations"][name] > 0
        assert against["difference"] == good["scores"][name] - base["scores"][name]
        for test in ("randomisation", "bootstrap"):
            p_values = against[test]
            assert p_values["document"] < 0.05, name
            assert (p_values["sentence"] is None) == (name == "document_bleu")


def test_evaluate_without_documents(outputs: list[str], cli: Cli) -> None:
    found = json.loads(cli(*outputs, "--baseline", "good", "--json").output)
    assert found["documents"] == 1
    assert "no test over documents: there is only one document" in found["notes"]
    p_values = found["systems"][0]["against"]["bleu"]["randomisation"]
    assert p_values["document"] is None
    assert p_values["sentence"] < 0.05


def test_evaluate_refuses_too_many_trials_at_once(outputs: list[str], cli: Cli) -> None:
    done = cli(*outputs, "--trials", "100000000")
    assert done.code == 2
    assert "less than or equal to 100000" in done.errors


def test_evaluate_for_people(outputs: list[str], cli: Cli) -> None:
    done = cli(*outputs, "--doc", "doc")
    assert done.code == 0
    assert re.search(r"^good +\d\d\.\d\d\*\* ", done.output, re.MULTILINE)
    assert re.search(r"^± of 2 seeds +±\d+\.\d\d ", done.output, re.MULTILINE)
    assert "24 sentences, 8 documents" in done.output
    assert "** p < .01 against base: randomisation over documents" in done.output
    assert "missing: meteor: left out as asked" in done.output
    assert "bleu: nrefs:1|" in done.output
    assert "bootstrap|sides:2|trials:200|seed:1|" in done.output


@pytest.mark.parametrize("width", [50, 80, 200])
def test_every_measure_of_the_scores_is_among_the_tests(
    outputs: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = cli(*outputs, "--doc", "doc", "--src", "ref")
    scores, tests = done.output.split("Tests against", 1)
    assert "…" not in done.output  # no heading is cut off
    assert not re.search(r"^(base|good)[ –]*$", done.output, re.MULTILINE)  # no row is empty
    for heading in ("bleu", "bleu1", "bleu4", "document bleu", "chrf", "ter ↓", "unknown ↓"):
        assert f" {heading}" in scores
        assert re.search(rf"^good, {heading} +[+-]", tests, re.MULTILINE), heading
    assert "pronoun accuracy" not in scores  # there are none: said below
    assert "pronoun_accuracy, names_kept" in done.output
    tables = done.output.split("24 sentences")[0]
    assert max(map(len, tables.split("\n"))) <= width


def test_evaluate_writes_files(outputs: list[str], cli: Cli) -> None:
    done = {end: cli(*outputs, "--doc", "doc", "--out", f"o.{end}") for end in FORMATS}
    assert {found.code for found in done.values()} == {0}
    assert len({found.output for found in done.values()}) == 1  # printed as well
    texts = {end: Path(f"o.{end}").read_text() for end in FORMATS}
    score = re.search(r"^good +(\d\d\.\d\d)\*\* ", done["md"].output, re.MULTILINE)
    assert score
    assert f"| good | **{score[1]}**** |" in texts["md"]
    assert f"<td><b>{score[1]}**</b></td>" in texts["html"]
    assert f"good & \\textbf{{{score[1]}**}} &" in texts["tex"]
    assert "good, document bleu & +" in texts["tex"]
    rows = list(csv.reader(texts["csv"].splitlines()))
    assert rows[0][:3] == ["", "bleu", "bleu1"]
    assert f"{float(rows[2][1]):.2f}" == score[1]
    assert rows[2][0] == "good"
    assert rows[3][0] == "± of 2 seeds"
    assert rows[4] == []
    assert rows[5][:3] == ["", "Δ", "randomisation sentences"]
    assert rows[6][0] == "good, bleu"
    for text in (texts["md"], texts["html"], texts["tex"]):
        assert "24 sentences, 8 documents" in text


FORMATS = ("html", "md", "csv", "tex")


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("o.pdf", "--out o.pdf: the ending '.pdf' names no format; end it with one of .html"),
        ("o", "--out o: has no ending; end it with one of .html, .md, .csv, .tex"),
    ],
)
def test_evaluate_refuses_other_files_at_once(
    outputs: list[str], cli: Cli, out: str, message: str
) -> None:
    done = cli(*outputs, "--out", out)
    assert (done.code, done.output) == (2, "")
    assert message in done.errors


@pytest.mark.parametrize("option", ["--lang", "--src-lang"])
def test_evaluate_knows_language_codes(outputs: list[str], cli: Cli, option: str) -> None:
    done = cli(*outputs, option, "klingon")
    assert (done.code, done.output) == (2, "")
    assert f"{option}: 'klingon' is no language code; give one such as de, en or et" in done.errors
    assert "language 'tlh' has no lemmas" in cli(*outputs, option, "tlh").output


def test_evaluate_leaves_marker_lines_out(outputs: list[str], cli: Cli) -> None:
    plain = json.loads(cli(*outputs[:-4], "--doc", "doc", "--json").output)
    for name in ("ref", "base"):
        lines = Path(name).read_text().splitlines()
        documents = ["\n".join(lines[i : i + 3]) for i in range(0, 24, 3)]
        Path(name).write_text("\n<d>\n".join(documents) + "\n")
    assert json.loads(cli(*outputs[:-4], "--json").output) == plain


def test_evaluate_one_system(outputs: list[str], cli: Cli) -> None:
    done = cli(*outputs[:-4])
    assert done.code == 0
    assert "randomisation" not in done.output


# What the documentation says


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_two_commands_set_up_what_they_need(target: str) -> None:
    rule = re.search(rf"^{target}:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    assert "setup" in rule[1]
