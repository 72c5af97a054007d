"""The two memories of a document, and how a sentence reads them.

Whatever a sentence reads, memories or a local context, goes one way: :class:`Queries` ask a
:class:`DocumentContext`, and :meth:`wholedoc.model.fusion.Fusion.read` answers with
:class:`Readings`. Training and decoding both do this through ``TranslationModel.read``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import pad
from wholedoc.kernels import Dropout, pack
from wholedoc.model.encoder import BidirectionalGRU


@dataclass(frozen=True)
class DocumentContext:
    """What a document offers to sentences that read it; None for what is not read."""

    sentences: Sequence[Sequence[int]]
    """The source token ids, each sentence ended by ``</s>``."""
    embedding: nn.Embedding
    """E_S, that of the translation encoder."""
    source_cells: Float[Tensor, "cell states"] | None = None
    """M[x], one cell per sentence."""
    last_states: Float[Tensor, "cell hidden"] | None = None
    """The upper decoder state that predicted ``</s>``, of each sentence's current translation."""

    def embed(
        self, places: Sequence[int]
    ) -> tuple[Float[Tensor, "sent word embedding"], Int[Tensor, " sent"]]:
        """E_S[x_i] of the words of given sentences, and the length of each."""
        words, lengths = pad([self.sentences[t] for t in places])
        device = self.embedding.weight.device
        return self.embedding(words.to(device)), lengths.to(device)


@dataclass(frozen=True)
class Queries:
    """The sentences that read, and what they ask the memories with."""

    places: Int[Tensor, " query"]
    """t: their places in the document that they belong to."""
    source: Float[Tensor, "query states"]
    """h_t, the encoder's summary."""
    target: Float[Tensor, "query hidden"] | None = None
    """q_t (:class:`TargetQuery`); None where no target memory is read."""
    foreign: bool = False
    """Whether the document that is read is another one: then no cell is their own."""


@dataclass(frozen=True)
class Readings:
    """What some sentences read of their document; None stands for what is not read."""

    src: Float[Tensor, "sent states"] | None = None
    """c_src, or what a baseline has in its place."""
    trg: Float[Tensor, "sent hidden"] | None = None
    """c_trg, or what a baseline has in its place."""
    src_weights: Float[Tensor, "sent cell"] | None = None
    """p over the sentences of the document, in the source memory."""
    trg_weights: Float[Tensor, "sent cell"] | None = None
    """p over the sentences of the document, in the target memory."""
    words: tuple[Float[Tensor, "_ states"], ...] | None = None
    """For each sentence, states of words outside it that its decoder attends to."""


def concatenate_readings(parts: Sequence[Readings]) -> Readings:
    """Readings of the sentences of a document, given one after the other."""
    columns = zip(*((r.src, r.trg, r.src_weights, r.trg_weights) for r in parts), strict=True)
    src, trg, src_weights, trg_weights = (None if c[0] is None else torch.cat(c) for c in columns)
    words = tuple(state for part in parts for state in part.words or ())
    return Readings(src, trg, src_weights, trg_weights, words or None)


def gather_readings(documents: Sequence[Readings], rows: Int[Tensor, " row"]) -> Readings:
    """The readings of given sentences, counted through several documents; without weights."""
    src = [document.src for document in documents if document.src is not None]
    trg = [document.trg for document in documents if document.trg is not None]
    words = [state for document in documents for state in document.words or ()]
    return Readings(
        torch.cat(src)[rows] if src else None,
        torch.cat(trg)[rows] if trg else None,
        words=tuple(words[row] for row in rows.tolist()) if words else None,
    )


def read_memory(
    cells: Float[Tensor, "cell width"],
    queries: Float[Tensor, "query width"],
    own: Int[Tensor, " query"] | None,
    *,
    scaled: bool = False,
) -> tuple[Float[Tensor, "query width"], Float[Tensor, "query cell"]]:
    """MemNet(M, q) = Σ_k p_k m_k,  p = softmax(qᵀ M), for some sentences of a document.

    Paper: [memnet]. A sentence reads the cells of all others: its ``own`` cell gets no weight; None
    where the cells are another document's. A sentence alone in its document reads exactly zero.
    Where ``scaled``, p = softmax(qᵀ M / √width).
    """
    if scaled:
        queries = queries * cells.shape[-1] ** -0.5
    scores = queries @ cells.T  # (Q, K)
    if own is not None:
        if len(cells) == 1:
            return torch.zeros_like(queries), torch.zeros_like(scores)
        scores = scores.scatter(1, own[:, None], float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ cells, weights


class SourceMemory(nn.Module):
    """m_t = [→d_t ; ←d_t], a bidirectional GRU over the document's sentence vectors.

    Paper: [src-mem]. The sentence vectors come from frozen language models of the source side
    (:mod:`wholedoc.model.language`); this document RNN is trained with the translation model.
    """

    def __init__(self, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        width = 2 * config.hidden
        self.rnn = BidirectionalGRU(width, config.hidden)
        self.dropout = Dropout(dropout)
        self.moments: nn.Parameter | None = None
        if config.vectors == "standard":
            self.moments = nn.Parameter(torch.zeros(2, width), requires_grad=False)

    def standardise(self, moments: Float[Tensor, "2 states"]) -> None:
        """Take mean and deviation of the training set's vectors, where they are asked for."""
        if self.moments is not None:
            self.moments.copy_(moments)

    def forward(
        self, vectors: Float[Tensor, "cell states"], sizes: Sequence[int] = ()
    ) -> Float[Tensor, "cell states"]:
        """The cells of a document, one per sentence; or of several of given sizes, in a row."""
        if self.moments is not None:
            mean, deviation = self.moments
            vectors = (vectors - mean) / deviation.clamp(min=1e-6)
        lengths = torch.tensor(list(sizes) or [len(vectors)], device=vectors.device)
        packing = pack(lengths)
        cells = (lengths.cumsum(dim=0) - lengths)[packing.rows] + packing.places
        states, _ = self.rnn(self.dropout(vectors).index_select(0, cells), packing)
        dropped: Tensor = self.dropout(states.index_select(0, cells.argsort()))
        return dropped


class TargetQuery(nn.Module):
    """q_t = s_t + W_at h_t: the current translation, backed by its source sentence.

    Paper: [trg-read]; c_trg = MemNet(M[y_-t], q_t). ``source`` is this W_at, a matrix of its own,
    H × 2H. s_t is the last decoder state of sentence t's translation in the previous pass.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.source = nn.Linear(2 * config.hidden, config.hidden, bias=False)

    def forward(
        self, last_states: Float[Tensor, "*any hidden"], summaries: Float[Tensor, "*any states"]
    ) -> Float[Tensor, "*any hidden"]:
        """The query of each sentence."""
        query: Tensor = last_states + self.source(summaries)
        return query
