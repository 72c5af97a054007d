"""The translation model, put together from its parts."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import FusionName, MemoryName, ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.model.decoder import Decoded, Decoder
from wholedoc.model.encoder import Encoder, Gates
from wholedoc.model.memory import DocumentContext, Queries, Readings, SourceMemory, TargetQuery


class TranslationModel(nn.Module):
    """P(y_t | x_t, y_-t, x_-t) = Π_j P(y_tj | y_t<j, x_t, c_src, c_trg).

    An encoder, an attentional decoder, and the memories that ``config.memory`` names, or the local
    context that ``config.context`` names. Without any, or with no readings given, it is the
    sentence model S-NMT, P(y_t | x_t). The dropout rates of encoder and decoder, and of the
    document RNN, belong to training.
    """

    def __init__(
        self,
        config: ModelConfig,
        src_vocabulary: int,
        trg_vocabulary: int,
        dropout: float = 0.0,
        document_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.reads_translations = config.reads_translations
        self.encoder = Encoder(src_vocabulary, config, dropout)
        self.decoder = Decoder(trg_vocabulary, config, dropout)
        self.source_memory = SourceMemory(config, document_dropout) if config.reads_source else None
        self.target_query = TargetQuery(config) if config.reads_target else None
        if config.tie in ("target", "all"):
            self.decoder.output.vocabulary.weight = self.decoder.embedding.weight
        if config.tie == "all":
            self.encoder.embedding.weight = self.decoder.embedding.weight

    def forward(
        self,
        src: Int[Tensor, "sent src_word"],
        src_lengths: Int[Tensor, " sent"],
        trg_in: Int[Tensor, "sent trg_word"],
        readings: Readings | None = None,
    ) -> Decoded:
        """Read given translations of the given sentences."""
        decoded: Decoded = self.decoder(self.encoder(src, src_lengths), trg_in, readings)
        return decoded

    def contexts(
        self,
        documents: Sequence[Sequence[Sequence[int]]],
        vectors: Float[Tensor, "cell states"] | None,
        last_states: Float[Tensor, "cell hidden"] | None = None,
    ) -> list[DocumentContext]:
        """What some documents offer to their sentences; the cells of all stand in a row.

        The source memory is made from the sentence ``vectors``, the target memory of the current
        translations' ``last_states``.
        """
        sizes = [len(sentences) for sentences in documents]
        source_cells: Sequence[Tensor | None] = [None] * len(sizes)
        target_cells: Sequence[Tensor | None] = [None] * len(sizes)
        if self.source_memory is not None:
            if vectors is None:
                raise ValueError("a source memory is read whose sentence vectors are not given")
            source_cells = torch.split(self.source_memory(vectors, sizes), sizes)
        if self.reads_translations and last_states is not None:
            target_cells = torch.split(last_states, sizes)
        return [
            DocumentContext(sentences, self.encoder.embedding, src, trg)
            for sentences, src, trg in zip(documents, source_cells, target_cells, strict=True)
        ]

    def read(
        self,
        document: DocumentContext,
        places: Int[Tensor, " query"],
        summaries: Float[Tensor, "query states"],
        last_states: Float[Tensor, "query hidden"] | None,
        *,
        foreign: bool = False,
    ) -> Readings:
        """What some sentences read of their document, or of a ``foreign`` one.

        ``summaries`` and ``last_states`` are those of the sentences that read.
        """
        if self.decoder.fusion is None:
            return Readings()
        target = None
        if self.target_query is not None and last_states is not None:
            target = self.target_query(last_states.detach(), summaries)
        return self.decoder.fusion.read(Queries(places, summaries, target, foreign), document)


def initialise(model: nn.Module, seed: int) -> None:
    """Glorot-uniform matrices, one per gate; zero biases; uniform embeddings of variance 1/E."""
    generator = torch.Generator().manual_seed(seed)
    # An output matrix may be tied to an embedding, and then has its initial values.
    embeddings = {m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Embedding):
                _fill(module.weight, math.sqrt(3 / module.embedding_dim), generator)
                module.weight[PAD].zero_()
                continue
            gates = 3 if isinstance(module, Gates | nn.GRU) else 1
            for parameter in module.parameters(recurse=False):
                if parameter.dim() == 1:
                    parameter.zero_()
                elif parameter not in embeddings:
                    rows, columns = parameter.shape
                    _fill(parameter, math.sqrt(6 / (rows // gates + columns)), generator)


def _fill(parameter: Tensor, bound: float, generator: torch.Generator) -> None:
    """Uniform values, drawn on the CPU so that they are the same on every device."""
    parameter.copy_(torch.empty(parameter.shape).uniform_(-bound, bound, generator=generator))


@dataclass(frozen=True)
class Size:
    """A variant and its trainable parameters; the frozen sentence language models do not count."""

    fusion: FusionName
    memory: MemoryName
    parameters: int


def measure_sizes(config: ModelConfig, src_vocabulary: int, trg_vocabulary: int) -> list[Size]:
    """The size of every variant of a model with the given vocabularies."""
    sizes = []
    for fusion, memory in itertools.product(get_args(FusionName), get_args(MemoryName)):
        if (fusion == "none") != (memory == "none"):
            continue
        variant = replace(config, fusion=fusion, memory=memory)
        with torch.device("meta"):  # no weights are allocated
            model = TranslationModel(variant, src_vocabulary, trg_vocabulary)
        sizes.append(Size(fusion, memory, sum(p.numel() for p in model.parameters())))
    return sizes
