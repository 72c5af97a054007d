"""Training through faults: the weights are those of the undisturbed run, and nothing is silent."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from toy import document_config, stopped_training, toy_config, write_toy

from wholedoc.errors import UserError
from wholedoc.store.run import Run, StageFiles, format_toml
from wholedoc.training.loop import RunLog, read_log
from wholedoc.training.stages import train

FAULTS = Path(__file__).parents[2] / "bench" / "faults"
SECONDS = 120  # after which something hangs


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """The order of a sum depends on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FAULTS))
    import kills

    yield kills
    del sys.modules["kills"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("toy")
    write_toy(directory)
    return directory


@pytest.fixture(scope="module")
def undisturbed(toy: Path) -> Path:
    return train(toy_config(toy), toy / "undisturbed").directory


def test_killed_at_random_moments(kills: ModuleType, toy: Path, tmp_path: Path) -> None:
    """All stages, a few kills, a damaged checkpoint and a full disk now and then."""
    config = tmp_path / "toy.toml"
    languages = ("data.src_language=de", "data.trg_language=en")
    config.write_text(format_toml(document_config(toy, *languages).to_dict()), encoding="utf-8")
    found = kills.measure(config, tmp_path, kills=3, seed=1)
    assert found["same"], found
    assert len(found["files"]) == 5


def stop(toy: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> StageFiles:
    """Train until the third update, with a checkpoint after each."""
    every_update = "stage1.checkpoint_minutes=1e-9"
    stopped_training(toy_config(toy, every_update), run, "stage1", monkeypatch)
    files = Run(run).stage("stage1")
    assert files.previous.exists()
    assert files.previous.read_bytes() != files.checkpoint.read_bytes()
    return files


@pytest.mark.parametrize("damage", ["empty", "cut short", "a flipped bit", "a folder"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    damage: str,
    toy: Path,
    undisturbed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = stop(toy, tmp_path / "run", monkeypatch)
    content = bytearray(files.checkpoint.read_bytes())
    content[-1] ^= 1
    found = {"empty": b"", "cut short": content[: len(content) // 2], "a flipped bit": content}
    files.checkpoint.unlink()
    if damage == "a folder":
        files.checkpoint.mkdir()
    else:
        files.checkpoint.write_bytes(bytes(found[damage]))
    capsys.readouterr()
    train(toy_config(toy), tmp_path / "run")
    said = capsys.readouterr().err
    assert f"warning: {files.checkpoint} cannot be read as weights (" in said
    assert "; it is put aside as stage1.checkpoint.damaged, and stage1 goes on from" in said
    assert "stage1: resuming at epoch 1, update 3\n" in said
    assert files.best.read_bytes() == (undisturbed / "stage1.safetensors").read_bytes()
    assert not files.previous.exists()  # a complete run has no use for it


def test_two_damaged_checkpoints_are_an_error(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never a silent start from the beginning."""
    files = stop(toy, tmp_path / "run", monkeypatch)
    for path in (files.checkpoint, files.previous):
        path.unlink()
        path.write_bytes(b"x")
    with pytest.raises(UserError, match="cannot be read as weights"):
        train(toy_config(toy), tmp_path / "run")
    assert {files.checkpoint.read_bytes(), files.previous.read_bytes()} == {b"x"}


def test_a_checkpoint_without_one_before_it_is_an_error(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = stop(toy, tmp_path / "run", monkeypatch)
    files.previous.unlink()
    files.checkpoint.unlink()
    files.checkpoint.write_bytes(b"x")
    with pytest.raises(UserError, match="cannot be read as weights"):
        train(toy_config(toy), tmp_path / "run")


def test_a_line_of_the_log_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    log.write("first")
    size = log.path.stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, before[1]))
        with pytest.raises(UserError, match="cannot write"):
            log.write("second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    log.write("third")
    assert [line["event"] for line in read_log(tmp_path)] == ["first", "third"]


def test_prepared_rows_that_are_cut_short_are_made_again(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = (f"stage{n}.epochs=1" for n in range(3))
    config, run = document_config(toy, *epochs), tmp_path / "run"
    stopped_training(config, run, "stage2", monkeypatch)
    (rows,) = (run / "data").glob("train.vectors-*.f32")
    whole = rows.read_bytes()
    rows.unlink()  # it may be another run's too
    rows.write_bytes(whole[:-4])
    capsys.readouterr()
    train(config, run)
    assert "preparing train.vectors" in capsys.readouterr().err
    assert rows.read_bytes() == whole


def test_a_run_directory_writes_to_no_file_outside_it(toy: Path, tmp_path: Path) -> None:
    """A directory that somebody has sent may have links in it."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    config, run = toy_config(toy, "stage1.epochs=1"), Run(tmp_path / "run")
    with run.lock():
        run.prepare(config)
    for name in ("stage1.safetensors", "stage1.checkpoint", "data/train/meta.json"):
        link = run.directory / f"{name}.part"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(outside)
    train(config, run.directory)
    for name in ("log.jsonl", "lock"):
        (run.directory / "stage1.checkpoint").unlink(missing_ok=True)
        file = run.directory / name
        file.unlink()
        file.symlink_to(outside)
        with pytest.raises(UserError, match=f"{name}: cannot write"):
            train(config, run.directory)
        file.unlink()
    assert outside.read_text() == "mine"


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"event": "start"}\n{"ev\n')
    with pytest.raises(UserError, match=r"log\.jsonl.*damaged"):
        read_log(tmp_path)


def test_a_lost_worker_is_replaced(toy: Path, tmp_path: Path) -> None:
    """One of two workers is killed: both start again from the last checkpoint."""
    settings = ["stage1.epochs=15", "stage1.dropout=0", "stage1.checkpoint_minutes=1e-9"]
    run = Run(tmp_path / "run")
    with run.lock():
        run.prepare(toy_config(toy, *settings))
    launcher = ["--standalone", "--nproc-per-node=2", "--max-restarts=1", "-m", "--"]
    command = [sys.executable, "-m", "torch.distributed.run", *launcher, "wholedoc", "train"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*command, f"--run={run.directory}"], stderr=stream, env=environment
        )
    try:
        deadline = time.monotonic() + SECONDS
        while not run.stage("stage1").previous.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(_worker(process.pid, rank=1), signal.SIGKILL)
        code = process.wait(SECONDS)
    finally:
        process.terminate()  # if something hangs: torchrun ends its workers
        process.wait()
    said = errors.read_text(encoding="utf-8")
    assert code == 0, said
    assert "stage1: resuming at epoch" in said
    starts = [line["updates"] for line in read_log(run.directory) if line["event"] == "start"]
    assert len(starts) == 2
    assert starts[1] > starts[0] == 0
    alone = train(toy_config(toy, *settings), tmp_path / "alone").directory
    found, expected = (load_file(d / "stage1.safetensors") for d in (run.directory, alone))
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)


def _worker(launcher: int, rank: int) -> int:
    """The process of a rank, among the children of torchrun."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if parent == launcher and f"RANK={rank}".encode() in environment:
            return int(process.name)
    raise AssertionError(f"no process of rank {rank}")
