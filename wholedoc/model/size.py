"""How many parameters each variant has: the paper's Table 3, counted from the modules."""

from dataclasses import dataclass, replace

import torch

from wholedoc.config import FusionName, MemoryName, ModelConfig
from wholedoc.model.translation import TranslationModel

VARIANTS: tuple[tuple[FusionName, MemoryName], ...] = (
    ("none", "none"),
    ("context", "src"),
    ("context", "trg"),
    ("context", "both"),
    ("output", "src"),
    ("output", "trg"),
    ("output", "both"),
)


@dataclass(frozen=True)
class Size:
    """A variant and its trainable parameters; the frozen sentence language models do not count."""

    fusion: FusionName
    memory: MemoryName
    parameters: int


def measure_sizes(config: ModelConfig, src_vocabulary: int, trg_vocabulary: int) -> list[Size]:
    """The size of every variant of a model with the given vocabularies."""
    sizes = []
    for fusion, memory in VARIANTS:
        variant = replace(config, fusion=fusion, memory=memory)
        with torch.device("meta"):  # no weights are allocated
            model = TranslationModel(variant, src_vocabulary, trg_vocabulary)
        sizes.append(Size(fusion, memory, sum(p.numel() for p in model.parameters())))
    return sizes
