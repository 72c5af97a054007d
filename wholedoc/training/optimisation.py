"""How weights move: optimisers and learning-rate schedules."""

import math
from collections.abc import Callable, Iterable

import torch
from torch import nn

from wholedoc.config import StageConfig


def epoch_schedule(config: StageConfig, epochs: float) -> float:
    """lr · decay^max(0, epoch − decay_after): the paper's, epoch counted from 1."""
    return config.decay ** max(0, int(epochs) + 1 - config.decay_after)


def cosine_schedule(config: StageConfig, epochs: float) -> float:
    """Half a cosine from the full rate at the start to zero after the last epoch."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, epochs / config.epochs)))


SCHEDULES: dict[str, Callable[[StageConfig, float], float]] = {
    "epoch": epoch_schedule,
    "cosine": cosine_schedule,
}


def learning_rate(config: StageConfig, epochs: float, updates: int) -> float:
    """The step size after so many updates, and epochs with the share of the one under way.

    A function of its place alone, so that a resumed run agrees.
    """
    rate = config.learning_rate * SCHEDULES[config.schedule](config, epochs)
    if updates < config.warmup:
        rate *= (updates + 1) / config.warmup
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
