"""Baselines that read only what stands just before a sentence: one small class each.

Each is a fusion. Widths: E of an embedding, H of a recurrent layer; T sentences of a document, I
words of a sentence. Without a sentence before it, a sentence reads exactly zero.
"""

from dataclasses import replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from wholedoc.config import ModelConfig
from wholedoc.kernels import pack
from wholedoc.model.attention import Attended, Attention
from wholedoc.model.encoder import BidirectionalGRU, Gates
from wholedoc.model.fusion import Fusion, Source
from wholedoc.model.memory import DocumentContext, Queries, Readings

_WINDOW = 3


class LocalContext(Fusion):
    """A fusion that reads the sentences before and enters the lower layer by one matrix."""

    enter: Gates

    def entrances(self) -> list[nn.Linear]:
        """W_sd, W_st or W_sp."""
        return [self.enter]

    def add(
        self, source: Source, readings: Readings, words: Int[Tensor, " vocabulary"] | None = None
    ) -> Source:
        """W_sd d_t or W_st m_{t−1}, to the gates."""
        del words
        reading = readings.trg if readings.src is None else readings.src
        gates = None if reading is None else self.enter(self.dropout(reading))
        return replace(source, gates=gates)


@final
class Wang2017(LocalContext):
    """d_t = GRU(d, w_k) over k = t−3 … t−1,  w_k = GRU(w, E_S[x_ki]) over i = 1 … I.

    Wang et al. (2017). w_k (H) is the last state over the words of sentence k, ``</s>`` included;
    d_t (H) the last state over the up to three sentences before, the nearest last. Both start at
    zero. s_j = GRU(s_{j-1}, … + W_sd d_t). ``word`` and ``sentence`` are the two GRUs, ``enter`` is
    W_sd, 3H × H.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        self.word = nn.GRU(config.embedding, config.hidden, batch_first=True)
        self.sentence = nn.GRU(config.hidden, config.hidden, batch_first=True)
        self.enter = Gates(config.hidden, config.hidden, bias=False)

    def read(self, queries: Queries, document: DocumentContext) -> Readings:
        """d_t of each sentence."""
        own = _places(queries, document)
        first, last = max(0, int(own.min()) - _WINDOW), int(own.max())
        if last == 0:
            return Readings(self.enter.weight.new_zeros(len(own), self.enter.in_features))
        embedded, lengths = document.embed(range(first, last))
        sentences = _last(self.word, self.dropout(embedded), lengths)  # (last − first, H)
        begin = (own - _WINDOW).clamp(min=0)
        places = begin[:, None] + torch.arange(_WINDOW, device=own.device)  # (Q, 3)
        window = sentences[(places - first).clamp(max=len(sentences) - 1)]  # (Q, 3, H)
        count = own - begin
        summary = _last(self.sentence, self.dropout(window), count.clamp(min=1))
        return Readings(summary * (count > 0)[:, None])


@final
class PrevTrg(LocalContext):
    """s_j = GRU(s_{j-1}, … + W_st m_{t−1}): a target memory with all weight on the cell before.

    m_{t−1} (H) is the last upper decoder state of the previous sentence's current translation; no
    gradient goes into it. ``enter`` is W_st, 3H × H.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        self.enter = Gates(config.hidden, config.hidden, bias=False)

    def read(self, queries: Queries, document: DocumentContext) -> Readings:
        """m_{t−1} for each sentence, as a weighted sum over all cells."""
        own = _places(queries, document)
        if document.last_states is None:
            return Readings()
        cells = document.last_states.detach()
        weights = (torch.arange(len(cells), device=own.device) == own[:, None] - 1).to(cells.dtype)
        return Readings(trg=weights @ cells, trg_weights=weights)


@final
class Jean2017(LocalContext):
    """a'_ji = v' · tanh(W'_ae h'_i + W'_at s_{j-1}),  α'_j = softmax(a'_j),  c'_j = Σ_i α'_ji h'_i.

    Jean et al. (2017). h'_i (2H) are the states of a bidirectional GRU over the words of the
    previous source sentence, ``</s>`` included; s_{j-1} is the state of both decoder layers, as in
    the first attention. s_j = GRU(s_{j-1}, … + W_sp c'_j). ``rnn`` and ``attention`` are those of
    the previous sentence alone, ``enter`` is W_sp, 3H × 2H.
    """

    def __init__(self, config: ModelConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        width = 2 * config.hidden
        self.rnn = BidirectionalGRU(config.embedding, config.hidden)
        self.attention = Attention(width, width, config.alignment)
        self.enter = Gates(width, config.hidden, bias=False)

    def read(self, queries: Queries, document: DocumentContext) -> Readings:
        """h'_i for each sentence; where there is none before it, a single state of zero."""
        before = (_places(queries, document) - 1).tolist()
        nothing = self.enter.weight.new_zeros(1, self.enter.in_features)
        encoded: dict[int, Tensor] = {}
        if places := [t for t in before if t >= 0]:
            embedded, lengths = document.embed(places)
            packing = pack(lengths)
            words = embedded[packing.rows, packing.places]
            states, _ = self.rnn(self.dropout(words), packing)
            rows = packing.pad(self.dropout(states), embedded.shape[1])
            trimmed = [row[:n] for row, n in zip(rows, lengths.tolist(), strict=True)]
            encoded = dict(zip(places, trimmed, strict=True))
        return Readings(words=tuple(encoded.get(t, nothing) for t in before))

    def add(
        self, source: Source, readings: Readings, words: Int[Tensor, " vocabulary"] | None = None
    ) -> Source:
        """W'_ae h'_i and h'_i, padded."""
        del words
        if readings.words is None:
            return source
        states = pad_sequence(list(readings.words), batch_first=True)  # (T, I, 2H)
        lengths = torch.tensor([len(words) for words in readings.words], device=states.device)
        mask = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
        return replace(source, words=Attended(self.attention.key(states), states, mask))

    def look(
        self, state: Float[Tensor, "sent both"], words: Attended
    ) -> Float[Tensor, "sent gates"]:
        """W_sp c'_j; c'_j has a fresh dropout mask at each step, as c_j has."""
        context, _ = self.attention(state, words)
        added: Tensor = self.enter(self.dropout(context))
        return added


@final
class More(Fusion):
    """s_j = GRU(s_{j-1}, …), and nothing else: the sentence model, trained as long as the others.

    A control. What the second stage gains without any context is no gain from context.
    """


CONTEXTS: dict[str, type[Fusion]] = {
    "jean2017": Jean2017,
    "wang2017": Wang2017,
    "prevtrg": PrevTrg,
    "more": More,
}


def _places(queries: Queries, document: DocumentContext) -> Int[Tensor, " query"]:
    """Where the sentences stand; beyond the end of another, shorter document: at its end."""
    return queries.places.clamp(max=len(document.sentences)) if queries.foreign else queries.places


def _last(
    rnn: nn.GRU, inputs: Float[Tensor, "row step input"], lengths: Int[Tensor, " row"]
) -> Float[Tensor, "row hidden"]:
    """The state after the last real step of each row."""
    states, _ = rnn(inputs)
    last: Tensor = states[torch.arange(len(inputs), device=inputs.device), lengths - 1]
    return last
