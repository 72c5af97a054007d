"""How weights move: optimisers and learning-rate schedules."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from wholedoc.config import StageConfig


@dataclass(frozen=True)
class Moment:
    """Where in a stage an update stands."""

    epoch: int
    """From 1."""
    share: float
    """Share of the epoch's updates already done."""
    update: int
    """Updates already done in the whole stage."""


def epoch_schedule(config: StageConfig, moment: Moment) -> float:
    """lr · decay^max(0, epoch − decay_after): the paper's."""
    return config.decay ** max(0, moment.epoch - config.decay_after)


def cosine_schedule(config: StageConfig, moment: Moment) -> float:
    """Half a cosine from the full rate at the start to zero after the last epoch."""
    done = min(1.0, (moment.epoch - 1 + moment.share) / config.epochs)
    return 0.5 * (1 + math.cos(math.pi * done))


SCHEDULES: dict[str, Callable[[StageConfig, Moment], float]] = {
    "epoch": epoch_schedule,
    "cosine": cosine_schedule,
}


def learning_rate(config: StageConfig, moment: Moment) -> float:
    """The step size of one update: a function of its place alone, so that a resumed run agrees."""
    rate = config.learning_rate * SCHEDULES[config.schedule](config, moment)
    if moment.update < config.warmup:
        rate *= (moment.update + 1) / config.warmup
    return rate


def make_optimiser(
    config: StageConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser of a stage."""
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=config.learning_rate, fused=True)
    return torch.optim.Adam(
        parameters, lr=config.learning_rate, betas=(0.9, 0.98), eps=1e-9, fused=True
    )


def take_step(optimiser: torch.optim.Optimizer, scale: float) -> None:
    """Move the weights by their gradients times ``scale``; the gradients are scaled as well."""
    # What fused optimisers divide by, made for losses that were scaled up before going back.
    optimiser.grad_scale = torch.tensor(1 / scale, dtype=torch.float32)  # type: ignore[attr-defined]
    optimiser.step()
    del optimiser.grad_scale  # type: ignore[attr-defined]
