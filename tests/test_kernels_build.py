"""Building the CPU kernels at installation, and choosing one of them when they are loaded."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from wholedoc.kernels import build, native
from wholedoc.kernels.build import InstructionSet, compile_kernels, instruction_sets, source_hash
from wholedoc.kernels.native import Library, load_library

ROOT = Path(__file__).parents[1]
on_known_machine = pytest.mark.skipif(not instruction_sets(), reason="no kernels for this machine")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the kernels of this machine, compiled now."""
    directory = tmp_path_factory.mktemp("lib")
    messages: list[str] = []
    if not compile_kernels(directory, messages.append):
        pytest.skip(f"nothing can be compiled here: {messages}")
    return directory


def fake_compiler(directory: Path, text: str) -> str:
    program = directory / "compiler"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


# Building.


@on_known_machine
def test_there_is_a_library_for_each_instruction_set(built: Path) -> None:
    names = {file.name for file in built.iterdir()}
    assert names <= {target.file for target in instruction_sets()}
    for name in names:
        library = ctypes.CDLL(str(built / name))
        library.source_hash.restype = ctypes.c_char_p
        assert library.source_hash() == source_hash().encode()


@on_known_machine
def test_a_failing_compiler_is_reported_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "lib"
    directory.mkdir()
    (directory / instruction_sets()[0].file).write_text("of an older build")
    failing = fake_compiler(tmp_path, "printf 'In f:\\n1: error: here\\n' >&2; exit 1")
    monkeypatch.setenv("CC", failing)
    messages: list[str] = []
    assert compile_kernels(directory, messages.append) == []
    assert list(directory.iterdir()) == []
    assert len(messages) == len(instruction_sets()) + 1
    assert messages[0].endswith("1: error: here")
    assert "will use PyTorch" in messages[-1]


@on_known_machine
def test_one_instruction_set_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a compiler that is too old for the newest processors."""
    good = InstructionSet("good", (), frozenset())
    bad = InstructionSet("bad", ("-fail",), frozenset())
    monkeypatch.setattr(build, "instruction_sets", lambda: (bad, good))
    writes = 'for x; do [ "$x" = -fail ] && exit 1; [ "$last" = -o ] && echo > "$x"; last=$x; done'
    monkeypatch.setenv("CC", fake_compiler(tmp_path, f"{writes}; true"))
    messages: list[str] = []
    found = compile_kernels(tmp_path / "lib", messages.append)
    assert [file.name for file in found] == ["kernels-good.so"]
    assert len(messages) == 1


@on_known_machine
def test_no_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -O0")
    messages: list[str] = []
    assert compile_kernels(tmp_path, messages.append) == []
    assert len(messages) == 1
    assert "no C compiler (no-such-compiler)" in messages[0]


def test_the_hash_knows_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_hash()
    for source in build.SOURCES.iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    assert source_hash() == before
    (tmp_path / "kernels.c").write_text("int x;")
    assert source_hash() != before


def test_the_build_hook_runs_without_the_package() -> None:
    """It loads one file, before torch or anything else is installed."""
    code = "import runpy, sys; build = runpy.run_path(sys.argv[1]); build['source_hash']()"
    file = str(ROOT / "wholedoc" / "kernels" / "build.py")
    subprocess.run([sys.executable, "-I", "-S", "-c", code, file], check=True)
    hook = (ROOT / "hatch_build.py").read_text(encoding="utf-8")
    assert {*re.findall(r'build\["(\w+)"\]', hook)} <= vars(build).keys()


def test_nothing_in_the_package_compiles() -> None:
    package = ROOT / "wholedoc"
    users = [
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if "compile_kernels" in file.read_text(encoding="utf-8")
    ]
    assert users == ["kernels/build.py"]


# Loading.


@on_known_machine
def test_the_best_library_that_is_announced_is_loaded(built: Path) -> None:
    announced, here = native._announced(), working(built)
    library = load_library(built, instruction_sets(), announced)
    assert library is not None
    assert library.name == here[0].name
    lesser = load_library(built, instruction_sets(), announced - here[0].features)
    assert lesser is None or lesser.name != here[0].name


@on_known_machine
def test_tiles_that_linux_refuses_are_not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_ASK_FOR_TILES", (158, 0x1023, 63))  # there is no such state
    assert "amx_tile" not in native._announced()


def targets(*names: str) -> list[InstructionSet]:
    return [InstructionSet(name, (), frozenset()) for name in names]


def working(built: Path) -> list[InstructionSet]:
    """Those whose library passes its self-test here: virtual machines announce more."""
    announced = native._announced()
    here = [target for target in instruction_sets() if target.features <= announced]
    works = [t for t in here if native._failure(Library(t.name, built / t.file)) is None]
    return works or pytest.skip("no instruction set of ours on this processor")


def usable(built: Path) -> Path:
    """A library that works on this processor."""
    return built / working(built)[0].file


@on_known_machine
def test_a_library_that_cannot_be_loaded_is_passed_over_and_said(
    built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels-broken.so").write_text("no library")
    (tmp_path / "kernels-works.so").write_bytes(usable(built).read_bytes())
    library = load_library(tmp_path, targets("missing", "broken", "works"), frozenset())
    assert library is not None
    assert library.name == "works"
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "cannot load the CPU kernels" in said[0]


@on_known_machine
@pytest.mark.parametrize(
    ("name", "other"), [("source_hash", lambda: "other"), ("DecoderSteps", native.AttendedCells)]
)
def test_a_library_of_other_sources_or_structures_is_not_used(
    name: str,
    other: object,
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "kernels-old.so").write_bytes(usable(built).read_bytes())
    monkeypatch.setattr(native, name, other)
    assert load_library(tmp_path, targets("old"), frozenset()) is None
    said = capsys.readouterr().err
    assert "run `make setup` or reinstall" in said
    assert "using PyTorch" in said


@on_known_machine
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (lambda _: os.kill(os.getpid(), signal.SIGILL), f"signal {signal.SIGILL.value}"),
        (lambda _: False, "wrong results"),
        (lambda _: 1 / 0, "wrong results"),
        (lambda _: time.sleep(5), "no answer"),
    ],
)
def test_a_library_that_fails_its_self_test_does_not_end_this_process(
    failure: object,
    said: str,
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "kernels-new.so").write_bytes(usable(built).read_bytes())
    monkeypatch.setattr(native, "_right", failure)
    monkeypatch.setattr(native, "_SELF_TEST_SECONDS", 0.5)
    assert load_library(tmp_path, targets("new"), frozenset()) is None
    lines = capfd.readouterr().err
    assert f"do not work on this machine ({said})" in lines
    assert "using PyTorch" in lines


@on_known_machine
def test_the_self_test_sees_wrong_results(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = native.Library("any", usable(built))
    assert native._right(library)
    for name in ("dropout_mask", "softmax", "multiply"):
        with monkeypatch.context() as patch:
            patch.setattr(library.c, name, lambda *_: None)
            assert not native._right(library)


def test_a_package_without_libraries_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load_library(tmp_path, targets("one", "two"), frozenset()) is None
    assert capsys.readouterr().err.count("CPU kernels are not built") == 1
    assert load_library(tmp_path, [], frozenset()) is None  # a machine without kernels
    assert capsys.readouterr().err == ""
