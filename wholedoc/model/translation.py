"""The sentence translation model S-NMT, put together from its parts."""

import math

import torch
from jaxtyping import Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.model.decoder import Decoded, Decoder
from wholedoc.model.encoder import Encoder
from wholedoc.model.recurrence import Gates


class TranslationModel(nn.Module):
    """P(y|x) = Π_j P(y_j | y_<j, x): an encoder and an attentional decoder.

    ``dropout`` is a rate of training; a model made for search or scoring has none.
    """

    def __init__(
        self, config: ModelConfig, src_vocabulary: int, trg_vocabulary: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.encoder = Encoder(src_vocabulary, config, dropout)
        self.decoder = Decoder(trg_vocabulary, config, dropout)
        if config.tie in ("target", "all"):
            self.decoder.output.vocabulary.weight = self.decoder.embedding.weight
        if config.tie == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight

    def forward(
        self,
        src: Int[Tensor, "sent src_word"],
        src_lengths: Int[Tensor, "sent"],
        trg_in: Int[Tensor, "sent trg_word"],
    ) -> Decoded:
        """Read given translations of the given sentences."""
        decoded: Decoded = self.decoder(self.encoder(src, src_lengths), trg_in)
        return decoded


def initialise(model: nn.Module, seed: int) -> None:
    """Glorot-uniform matrices (one per gate), zero biases, embeddings uniform of variance 1/E."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                _fill(module.weight, math.sqrt(3 / module.embedding_dim), generator)
                module.weight[PAD].zero_()
                continue
            gates = 3 if isinstance(module, Gates) else 1
            for parameter in module.parameters(recurse=False):
                if parameter.dim() == 1:
                    parameter.zero_()
                elif not _is_embedding(model, parameter):
                    rows, columns = parameter.shape
                    _fill(parameter, math.sqrt(6 / (rows // gates + columns)), generator)


def _fill(parameter: Tensor, bound: float, generator: torch.Generator) -> None:
    """Uniform values, drawn on the CPU so that they are the same on every device."""
    parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))


def _is_embedding(model: nn.Module, parameter: Tensor) -> bool:
    """Whether an output matrix is tied to an embedding, which has its own initial values."""
    return any(
        module.weight is parameter for module in model.modules() if isinstance(module, nn.Embedding)
    )
