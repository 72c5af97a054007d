"""Weights and checkpoints on disk: safetensors files, each replaced in one step.

Each file has a checksum of its content in its metadata, which is checked when it is read; files of
older versions have none.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.kernels import compact, restore

_WEIGHTS = "weights."
_OPTIMISER = "optimiser."
_CHECKSUM = "sha256"


@dataclass
class Position:
    """How far a stage has come; with the weights and the optimiser, all that a resumption needs.

    Nothing else is remembered: batches are a function of seed and epoch, dropout of seed and
    update, the learning rate of the update.
    """

    epoch: int = 1
    """The epoch under way."""
    done: int = 0
    """Updates of this epoch already made."""
    updates: int = 0
    """Updates of the stage already made."""
    nats: float = 0.0
    """Training loss of this epoch so far."""
    words: int = 0
    """Target words of this epoch so far."""
    seconds: float = 0.0
    """Time spent in this stage."""
    best_perplexity: float = float("inf")
    """Lowest dev perplexity."""
    best_epoch: int = 0
    """The epoch that had it."""
    finished: bool = False
    """Whether the stage has ended."""


def save_weights(path: Path, model: nn.Module, *, int8: bool = False) -> None:
    """Write a model's parameters, shared ones once; with ``int8`` its matrices in 8 bits."""
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    _write(path, compact(parameters) if int8 else parameters)


def load_weights(path: Path, model: nn.Module, *, extend: bool = False) -> None:
    """Read a model's parameters, in 8 bits or not; to ``extend``, the model may have more."""
    tensors, parameters = restore(_read(path)), dict(model.named_parameters())
    if extend:
        parameters = {name: value for name, value in parameters.items() if name in tensors}
    _put(tensors, parameters, path)


def save_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, position: Position
) -> None:
    """Write all that a resumption needs into one file; of a finished stage, its position alone.

    The checkpoint before it stays as :func:`previous_checkpoint`.
    """
    tensors: dict[str, Tensor] = {}
    if not position.finished:
        tensors = {_WEIGHTS + name: value for name, value in model.named_parameters()}
        for index, entries in optimiser.state_dict()["state"].items():
            for name, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{_OPTIMISER}{index}.{name}"] = value
    position_text = {"position": json.dumps(asdict(position))}
    _write(path, tensors, position_text, previous_checkpoint(path))


def previous_checkpoint(path: Path) -> Path:
    """Where the checkpoint before the one of this name is kept."""
    return path.with_name(f"{path.name}.previous")


def load_checkpoint(path: Path, model: nn.Module, optimiser: torch.optim.Optimizer) -> Position:
    """Bring model and optimiser to where a checkpoint was written; not if it has finished."""
    position = read_position(path)
    weights: dict[str, Tensor] = {}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in _read(path).items():
        if key.startswith(_OPTIMISER):
            index, _, name = key.removeprefix(_OPTIMISER).partition(".")
            if not index.isdecimal():
                raise _unreadable(path, f"{key} is no part of an optimiser")
            state.setdefault(int(index), {})[name] = value
        else:
            weights[key.removeprefix(_WEIGHTS)] = value
    if position.finished:
        return position
    _put(weights, dict(model.named_parameters()), path)
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
    return position


def read_position(path: Path) -> Position:
    """How far a checkpoint has come, without its tensors."""
    with _open(path) as file:
        metadata = file.metadata() or {}
    try:
        return Position(**json.loads(metadata["position"]))
    except (KeyError, TypeError, ValueError) as error:
        what = "not a checkpoint of this version of wholedoc"
        fix = "remove it to start the stage anew"
        raise UserError(what, where=str(path), fix=fix) from error


def read_tensors(path: Path, names: Sequence[str]) -> list[Tensor]:
    """The tensors of a file that has just these names."""
    tensors = _read(path)
    if tensors.keys() != set(names):
        what = f"holds other tensors than {', '.join(names)}"
        raise UserError(what, where=str(path), fix="restore it from a copy")
    return [tensors[name] for name in names]


def _write(
    path: Path,
    named: dict[str, Tensor],
    metadata: dict[str, str] | None = None,
    previous: Path | None = None,
) -> None:
    """Write tensors and metadata, with a checksum of both."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in named.items()}
    metadata = metadata or {}
    checksum = _checksum(tensors, metadata)
    write_atomically(path, save(tensors, {**metadata, _CHECKSUM: checksum}), previous)


def _checksum(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    """SHA-256 of names, types, shapes and values, in the order of the names."""
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Tensor]:
    with _open(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata() or {})
    written = metadata.pop(_CHECKSUM, None)
    if written is not None and written != _checksum(tensors, metadata):
        raise _unreadable(path, "its content does not match its checksum")
    return tensors


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    try:
        path.open("rb").close()  # safetensors calls every file that it cannot open missing
        with safe_open(path, framework="pt") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, getattr(error, "strerror", None) or str(error)) from error


def _unreadable(path: Path, reason: str) -> UserError:
    fix = "restore it from a copy, or train anew in another directory with --run"
    return UserError(f"cannot be read as weights ({reason})", where=str(path), fix=fix)


def _put(tensors: dict[str, Tensor], parameters: dict[str, nn.Parameter], path: Path) -> None:
    """Copy tensors into a model of the same names and shapes."""
    for name in sorted(parameters.keys() ^ tensors.keys()):
        side = "lacks" if name in parameters else "has an unknown"
        fix = "the file belongs to a model of another configuration"
        raise UserError(f"{side} tensor {name}", where=str(path), fix=fix)
    with torch.no_grad():
        for name, parameter in parameters.items():
            if parameter.shape != tensors[name].shape:
                raise UserError(
                    f"{name} has size {'×'.join(map(str, tensors[name].shape))}, the model needs "
                    f"{'×'.join(map(str, parameter.shape))}",
                    where=str(path),
                    fix="the file belongs to a model of other sizes or vocabularies",
                )
            parameter.copy_(tensors[name])
