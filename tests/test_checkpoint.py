"""Checkpoints: exact round trips, damage told apart, and the old file kept when a write fails."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from wholedoc.config import ModelConfig
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.checkpoint import (
    Position,
    load_checkpoint,
    load_weights,
    save_checkpoint,
    save_weights,
)

SIZES = ModelConfig(hidden=4, embedding=4, alignment=3)
TIED = ModelConfig(hidden=4, embedding=4, alignment=3, tie="all")


def make_model(seed: int = 1, config: ModelConfig = SIZES) -> TranslationModel:
    model = TranslationModel(config, 7, 7)
    initialise(model, seed)
    return model


def step(model: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    optimiser.zero_grad()
    sum((p - 0.3).square().sum() for p in model.parameters()).backward()  # type: ignore[union-attr]
    optimiser.step()


def equal(left: nn.Module, right: nn.Module) -> bool:
    pairs = zip(left.parameters(), right.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("config", [SIZES, TIED])
def test_weights_round_trip(tmp_path: Path, config: ModelConfig) -> None:
    model, other = make_model(1, config), make_model(2, config)
    assert not equal(model, other)
    save_weights(tmp_path / "w", model)
    load_weights(tmp_path / "w", other)
    assert equal(model, other)


def test_tied_weights_are_written_once_and_stay_tied(tmp_path: Path) -> None:
    model = make_model(1, TIED)
    save_weights(tmp_path / "w", model)
    with safe_open(tmp_path / "w", framework="pt") as file:
        shapes = [tuple(file.get_slice(name).get_shape()) for name in file.keys()]  # noqa: SIM118
    assert shapes.count((7, 4)) == 1
    load_weights(tmp_path / "w", model)
    assert model.encoder.embedding.weight is model.decoder.output.vocabulary.weight


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_training_goes_on_exactly(tmp_path: Path, kind: type[torch.optim.Optimizer]) -> None:
    """Saved after two steps and loaded elsewhere, the third is the same to the last bit."""
    model, other = make_model(1), make_model(2)
    optimiser = kind(model.parameters(), lr=0.1)  # type: ignore[call-arg]
    step(model, optimiser)
    step(model, optimiser)
    position = Position(3, 2, 17, 12.5, 99, 3.25, 4.0625, 2, False)
    save_checkpoint(tmp_path / "c", model, optimiser, position)
    resumed = kind(other.parameters(), lr=0.1)  # type: ignore[call-arg]
    assert load_checkpoint(tmp_path / "c", other, resumed) == position
    step(model, optimiser)
    step(other, resumed)
    assert equal(model, other)


def test_a_new_position_survives(tmp_path: Path) -> None:
    """Its best perplexity is infinite, which plain JSON does not know."""
    model = make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    save_checkpoint(tmp_path / "c", model, optimiser, Position())
    assert load_checkpoint(tmp_path / "c", model, optimiser) == Position()


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/w: cannot be read as weights"):
        load_weights(tmp_path / "w", make_model())


@pytest.mark.parametrize("length", [0, 1, 7, 100, -1])
def test_a_file_cut_short(tmp_path: Path, length: int) -> None:
    model = make_model()
    save_weights(tmp_path / "w", model)
    (tmp_path / "w").write_bytes((tmp_path / "w").read_bytes()[:length])
    with pytest.raises(UserError, match="cannot be read as weights"):
        load_weights(tmp_path / "w", model)


@pytest.mark.parametrize("place", [0.3, 0.6, 0.999])
def test_a_flipped_bit_is_noticed(tmp_path: Path, place: float) -> None:
    model = make_model()
    save_weights(tmp_path / "w", model)
    content = bytearray((tmp_path / "w").read_bytes())
    content[int(place * len(content))] ^= 1
    (tmp_path / "w").write_bytes(bytes(content))
    with pytest.raises(UserError, match=f"{tmp_path}/w: cannot be read as weights"):
        load_weights(tmp_path / "w", model)


def test_a_changed_checkpoint_is_noticed(tmp_path: Path) -> None:
    model = make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    save_checkpoint(tmp_path / "c", model, optimiser, Position(updates=17))
    content = (tmp_path / "c").read_bytes()
    (tmp_path / "c").write_bytes(content.replace(b'updates\\": 17', b'updates\\": 18'))
    assert (tmp_path / "c").read_bytes() != content
    with pytest.raises(UserError, match="does not match its checksum"):
        load_checkpoint(tmp_path / "c", model, optimiser)


def test_a_file_without_a_checksum_is_read(tmp_path: Path) -> None:
    model, other = make_model(1), make_model(2)
    save_file(dict(model.named_parameters()), tmp_path / "old")
    load_weights(tmp_path / "old", other)
    assert equal(model, other)


def test_a_file_that_cannot_be_opened_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_weights(tmp_path / "w", make_model())

    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="Is a directory"):
        load_weights(tmp_path / "folder", make_model())
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match="Permission denied"):
        load_weights(tmp_path / "w", make_model())


def test_other_sizes_are_named(tmp_path: Path) -> None:
    save_weights(tmp_path / "w", TranslationModel(SIZES, 8, 7))
    model = make_model()
    with pytest.raises(UserError, match=r"encoder\.embedding\.weight has size 8×4, .* needs 7×4"):
        load_weights(tmp_path / "w", model)


@pytest.mark.parametrize(
    ("written", "read", "message"),
    [
        (SIZES, TIED, "w: has an unknown tensor decoder.embedding.weight; "),
        (TIED, SIZES, "w: lacks tensor decoder.embedding.weight; "),
    ],
)
def test_other_names_are_named(
    tmp_path: Path, written: ModelConfig, read: ModelConfig, message: str
) -> None:
    save_weights(tmp_path / "w", make_model(1, written))
    with pytest.raises(UserError) as caught:
        load_weights(tmp_path / "w", make_model(1, read))
    assert message in str(caught.value)


def test_weights_are_not_a_checkpoint(tmp_path: Path) -> None:
    model = make_model()
    save_weights(tmp_path / "w", model)
    with pytest.raises(UserError, match="not a checkpoint"):
        load_checkpoint(tmp_path / "w", model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_names_of_an_optimiser_are_checked(tmp_path: Path) -> None:
    """Fuzzing found it: without a checksum, as in files of earlier versions."""
    save_file({"optimiser.x": torch.zeros(1)}, tmp_path / "c", {"position": "{}"})
    with pytest.raises(UserError, match=r"optimiser\.x is no part of an optimiser"):
        load_checkpoint(tmp_path / "c", make_model(), torch.optim.SGD([torch.zeros(1)], lr=0.1))


def test_a_write_is_all_or_nothing(tmp_path: Path) -> None:
    """Under a real limit of the system, in the middle of the second file."""
    file = tmp_path / "weights"
    write_atomically(file, b"old" * 100)
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from wholedoc.files import write_atomically\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: write_atomically(Path(sys.argv[1]), b'new' * 100_000)\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    assert done.stdout.startswith(f"UserError {file}: cannot write: File too large; make room")
    assert file.read_bytes() == b"old" * 100
    assert list(tmp_path.iterdir()) == [file]


def test_a_write_replaces_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "x"
    write_atomically(file, "first, longer")
    write_atomically(file, "õ")
    assert file.read_bytes() == "õ".encode()
    assert list(tmp_path.iterdir()) == [file]
