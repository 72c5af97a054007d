"""How weights move: optimisers and learning-rate schedules."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from wholedoc.config import StageConfig


def learning_rate(config: StageConfig, epochs: float, updates: int) -> float:
    """The step size after so many updates, and epochs with the share of the one under way.

    The ``epoch`` schedule is the paper's, lr · decay^max(0, epoch − decay_after), epoch counted
    from 1; ``cosine`` is half a cosine from the full rate to zero after the last epoch. A function
    of its place alone, so that a resumed run agrees.
    """
    if config.schedule == "epoch":
        share = config.decay ** max(0, int(epochs) + 1 - config.decay_after)
    else:
        share = 0.5 * (1 + math.cos(math.pi * min(1.0, epochs / config.epochs)))
    rate = config.learning_rate * share
    if updates < config.warmup:
        rate *= (updates + 1) / config.warmup
    return rate


def make_optimiser(
    config: StageConfig, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimiser of a stage."""
    if config.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=config.learning_rate, fused=True)
    betas = (0.9, 0.98)
    return torch.optim.Adam(parameters, config.learning_rate, betas, eps=1e-9, fused=True)


def make_state(optimiser: torch.optim.Optimizer) -> None:
    """What Adam would make at its first step, unless it is there; SGD keeps nothing."""
    if not isinstance(optimiser, torch.optim.Adam):
        return
    for parameter in (p for part in optimiser.param_groups for p in part["params"]):
        if parameter.requires_grad and parameter not in optimiser.state:
            moments = (torch.zeros_like(parameter.detach()) for _ in range(2))
            names = ("step", "exp_avg", "exp_avg_sq")
            state = dict(zip(names, (torch.zeros(()), *moments), strict=True))
            optimiser.state[parameter] = state


def take_step(optimiser: torch.optim.Optimizer, scale: float) -> None:
    """Move the weights by their gradients times ``scale``; the gradients are scaled as well."""
    # What fused optimisers divide by, made for losses that were scaled up before going back.
    optimiser.grad_scale = torch.tensor(1 / scale, dtype=torch.float32)  # type: ignore[attr-defined]
    optimiser.step()
    del optimiser.grad_scale  # type: ignore[attr-defined]
