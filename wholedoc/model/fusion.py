"""What sentences read of their document and how it enters the decoder: one class per fusion.

A reading is the same for all words of a sentence, so its product with a matrix is taken once per
sentence and added at every step. For the same reason its dropout mask is drawn once per sentence.
Words that are attended to anew at each step have a way of their own.
"""

from dataclasses import dataclass, replace
from typing import final

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.kernels import Dropout
from wholedoc.model.attention import Attended
from wholedoc.model.encoder import Gates
from wholedoc.model.memory import DocumentContext, Queries, Readings, read_memory


@dataclass(frozen=True)
class Source:
    """All that the decoder is given of a batch of sentences, prepared once, used at every step."""

    attended: Attended
    gates: Float[Tensor, "sent gates"] | None = None
    """What the readings add to the lower layer's projected input."""
    logits: Float[Tensor, "sent vocabulary"] | None = None
    """What the readings add to the logits."""
    words: Attended | None = None
    """Words outside the sentence that are attended to as well."""


class Fusion(nn.Module):
    """What sentences read, and what it adds to the decoder's lower layer or to its logits.

    Each fusion says what and where; by itself this class reads and adds nothing.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__()
        self.scaled = config.scaled
        self.dropout = Dropout(dropout)

    def read(self, queries: Queries, document: DocumentContext) -> Readings:
        """What some sentences read of a document."""
        del queries, document
        return Readings()

    def entrances(self) -> list[nn.Linear]:
        """The matrices through which readings enter: with these at zero, they add nothing."""
        return []

    def add(
        self, source: Source, readings: Readings, words: Int[Tensor, " vocabulary"] | None = None
    ) -> Source:
        """The source with what the readings add; to the logits of all or some ``words`` alone."""
        del readings, words
        return source

    def look(
        self, state: Float[Tensor, "sent both"], words: Attended
    ) -> Float[Tensor, "sent gates"]:
        """What words outside the sentence add at a step, seen from the state of both layers."""
        raise NotImplementedError


class MemoryFusion(Fusion):
    """A fusion of what the source memory and the target memory give."""

    source: nn.Linear | None
    target: nn.Linear | None

    def entrances(self) -> list[nn.Linear]:
        """W_sm and W_st, or W_ym and W_yt."""
        return [matrix for matrix in (self.source, self.target) if matrix is not None]

    def read(self, queries: Queries, document: DocumentContext) -> Readings:
        """c_src and c_trg, from whichever memories the document has.

        Paper: [src-read]. c_src = MemNet(M[x_-t], h_t), where h_t is the encoder's summary as it
        is.
        Paper: [trg-mem]. The cells of the target memory are the last decoder states of the current
        translations; no gradient goes into them.
        """
        own = None if queries.foreign else queries.places
        src: tuple[Tensor | None, Tensor | None] = (None, None)
        trg = src
        if document.source_cells is not None and self.source is not None:
            src = read_memory(document.source_cells, queries.source, own, scaled=self.scaled)
        if document.last_states is not None and queries.target is not None:
            cells = document.last_states.detach()
            trg = read_memory(cells, queries.target, own, scaled=self.scaled)
        return Readings(src[0], trg[0], src[1], trg[1])

    def _project(
        self, readings: Readings, rows: Int[Tensor, " row"] | None = None
    ) -> Tensor | None:
        """The sum of the projected readings that are there, by all or some rows of the matrices."""
        total: Tensor | None = None
        for matrix, reading in ((self.source, readings.src), (self.target, readings.trg)):
            if matrix is not None and reading is not None:
                weight = matrix.weight if rows is None else matrix.weight[rows]
                projected = F.linear(self.dropout(reading), weight)
                total = projected if total is None else total + projected
        return total


@final
class MemoryToContext(MemoryFusion):
    """s_j = GRU(s_{j-1}, … + W_sm c_src + W_st c_trg): readings enter the next decoder state.

    Paper: [m2c]. ``source`` is W_sm, ``target`` is W_st; both reach all three gates.
    """

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        del vocabulary
        hidden = config.hidden
        self.source = Gates(2 * hidden, hidden, bias=False) if config.reads_source else None
        self.target = Gates(hidden, hidden, bias=False) if config.reads_target else None

    def add(
        self, source: Source, readings: Readings, words: Int[Tensor, " vocabulary"] | None = None
    ) -> Source:
        """W_sm c_src + W_st c_trg, to the gates."""
        del words
        return replace(source, gates=self._project(readings))


@final
class MemoryToOutput(MemoryFusion):
    """y_j ~ softmax(W_y r_j + W_ym c_src + W_yt c_trg + b): readings enter the output layer.

    Paper: [m2o]. ``source`` is W_ym, ``target`` is W_yt.
    """

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        hidden = config.hidden
        self.source = nn.Linear(2 * hidden, vocabulary, bias=False) if config.reads_source else None
        self.target = nn.Linear(hidden, vocabulary, bias=False) if config.reads_target else None

    def add(
        self, source: Source, readings: Readings, words: Int[Tensor, " vocabulary"] | None = None
    ) -> Source:
        """W_ym c_src + W_yt c_trg, to the logits."""
        return replace(source, logits=self._project(readings, words))


FUSIONS: dict[str, type[MemoryToContext] | type[MemoryToOutput]] = {
    "context": MemoryToContext,
    "output": MemoryToOutput,
}
