"""The translation model, put together from its parts."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.model.decoder import Decoded, Decoder
from wholedoc.model.encoder import Encoder, Gates
from wholedoc.model.local import LocalContext, Neighbourhood
from wholedoc.model.memory import Readings, SourceMemory, TargetQuery, read_memory


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
        self.scaled = config.scaled
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

    def read(
        self,
        summaries: Float[Tensor, "query states"],
        own: Int[Tensor, " query"],
        source_cells: Float[Tensor, "cell states"] | None,
        last_states: Float[Tensor, "cell hidden"] | None,
        sentences: Sequence[Sequence[int]] = (),
        states: Float[Tensor, "query hidden"] | None = None,
    ) -> Readings:
        """What some sentences of a document read, from whichever memories are given.

        A local context reads the source ``sentences`` of the document, or its last states. Where
        all this is another document's, ``states`` are the last states of the sentences themselves:
        then no cell is left out.

        Paper: [src-read]. c_src = MemNet(M[x_-t], h_t), where h_t is the encoder's summary as it
        is; ``own`` are the sentences' places.
        Paper: [trg-mem]. The cells of the target memory are the last decoder states of the current
        translations; no gradient goes into them.
        """
        if isinstance(self.decoder.fusion, LocalContext):
            document = Neighbourhood(sentences, self.encoder.embedding, last_states)
            # Another document may be shorter: what lies beyond it has its end for a neighbour.
            places = own if states is None else own.clamp(max=len(sentences))
            return self.decoder.fusion.read(document, places)
        left_out = own if states is None else None
        src = src_weights = trg = trg_weights = None
        if source_cells is not None and self.source_memory:
            src, src_weights = read_memory(source_cells, summaries, left_out, scaled=self.scaled)
        if last_states is not None and self.target_query:
            cells = last_states.detach()
            query = self.target_query(cells[own] if states is None else states, summaries)
            trg, trg_weights = read_memory(cells, query, left_out, scaled=self.scaled)
        return Readings(src, trg, src_weights, trg_weights)


def initialise(model: nn.Module, seed: int) -> None:
    """Glorot-uniform matrices, one per gate; zero biases; uniform embeddings of variance 1/E."""
    generator = torch.Generator().manual_seed(seed)
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
