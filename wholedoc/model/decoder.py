"""The attentional decoder: two GRU layers, one word per step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.kernels import (
    Dropout,
    Linear,
    Packing,
    StepInputs,
    StepLayers,
    Steps,
    decode_steps,
    pack,
)
from wholedoc.model.attention import Attended, Attention
from wholedoc.model.encoder import Encoding, Gates
from wholedoc.model.fusion import FUSIONS, Fusion, Source
from wholedoc.model.local import CONTEXTS
from wholedoc.model.memory import Readings


@dataclass(frozen=True)
class DecoderState:
    """s_j: the states of both layers after a step."""

    lower: Float[Tensor, "sent hidden"]
    upper: Float[Tensor, "sent hidden"]

    def select(self, rows: Int[Tensor, " row"]) -> "DecoderState":
        """The given rows, in the given order; a row may come more than once."""
        return DecoderState(self.lower.index_select(0, rows), self.upper.index_select(0, rows))

    def first(self, count: int) -> "DecoderState":
        """The first rows."""
        return DecoderState(self.lower[:count], self.upper[:count])


@dataclass(frozen=True)
class Decoded:
    """A batch of given target sentences, read word by word, without padding."""

    packing: Packing
    packed_features: Float[Tensor, "word hidden"]
    """r_j, from which the output layer predicts y_j."""
    packed_weights: Float[Tensor, "word src_word"]
    """α_j: where the decoder looked."""
    packed_states: Float[Tensor, "word hidden"]
    """s_j of the upper layer."""
    logits: Float[Tensor, "sent vocabulary"] | None = None
    """What the readings add to the logits of every word."""


@final
class GRULayer(nn.Module):
    """s' = (1 − z) ⊙ n + z ⊙ s: a GRU whose input comes projected, in as many parts as it has.

    [u_r u_z u_n] is the projected input, [g_r g_z g_n] = W_s s + b;
    r = σ(u_r + g_r),  z = σ(u_z + g_z),  n = tanh(u_n + r ⊙ g_n).
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.state = Gates(hidden, hidden)

    def forward(
        self, projected: Float[Tensor, "sent gates"], state: Float[Tensor, "sent hidden"]
    ) -> Float[Tensor, "sent hidden"]:
        """The next state."""
        return gated(projected, self.state(state), state)


def gated(
    projected: Float[Tensor, "sent gates"],
    recurrent: Float[Tensor, "sent gates"],
    state: Float[Tensor, "sent hidden"],
) -> Float[Tensor, "sent hidden"]:
    """The next state of a GRU, from u, g and s."""
    both = 2 * state.shape[-1]
    reset, update = torch.sigmoid(projected[:, :both] + recurrent[:, :both]).chunk(2, dim=-1)
    new = torch.tanh(torch.addcmul(projected[:, both:], reset, recurrent[:, both:]))
    # Of one type even where products are in 16 bits and states are not.
    return torch.lerp(new.to(state.dtype), state, update.to(state.dtype))


@final
class Start(nn.Module):
    """s_0 = 0 in both layers, as in the authors' code; or s_0 = tanh(W h_t + b), where learned.

    ``project`` is W with b, for both layers, 2H × 2H.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width = 2 * config.hidden
        self.project = nn.Linear(width, width) if config.initial_state == "encoder" else None

    def forward(self, encoding: Encoding) -> DecoderState:
        """The state that each sentence starts from."""
        if self.project is None:
            both = torch.zeros_like(encoding.summary)
        else:
            both = torch.tanh(self.project(encoding.summary))
        return DecoderState(*both.chunk(2, dim=-1))


@final
class Output(nn.Module):
    """r_j = tanh(s_j + W_rc c_j + W_rj E_T[y_{j-1}]),  y_j ~ softmax(W_y r_j + b).

    Paper: [dec-out]. ``context`` is W_rc, ``word`` is W_rj, ``vocabulary`` is W_y with b.
    """

    def __init__(self, vocabulary: int, config: ModelConfig) -> None:
        super().__init__()
        self.context = Linear(2 * config.hidden, config.hidden, bias=False)
        self.word = Linear(config.embedding, config.hidden, bias=False)
        self.vocabulary = nn.Linear(config.hidden, vocabulary)

    def features(
        self,
        state: Float[Tensor, "*any hidden"],
        context: Float[Tensor, "*any states"],
        embedded: Float[Tensor, "*any embedding"],
    ) -> Float[Tensor, "*any hidden"]:
        """r_j, for any number of steps at once."""
        return torch.tanh(state + self.context(context) + self.word(embedded))


class Decoder(nn.Module):
    """s_j = GRU(s_{j-1}, W_sj E_T[y_{j-1}] + W_sc c_j), with a second GRU layer on top.

    Paper: [dec-state]; the printed tanh RNN stands for the GRU. ``embedding`` is E_T, ``word`` is
    W_sj, ``context`` is W_sc. The attention's query is the state of both layers before the step.
    """

    def __init__(self, vocabulary: int, config: ModelConfig, dropout: float = 0.0) -> None:
        super().__init__()
        hidden = config.hidden
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=PAD)
        self.start = Start(config)
        self.attention = Attention(2 * hidden, 2 * hidden, config.alignment)
        self.word = Gates(config.embedding, hidden)
        self.context = Gates(2 * hidden, hidden, bias=False)
        self.lower = GRULayer(hidden)
        self.between = Gates(hidden, hidden)
        self.upper = GRULayer(hidden)
        self.output = Output(vocabulary, config)
        self.dropout = Dropout(dropout)
        self.fusion: Fusion | None = None
        if config.fusion != "none":
            self.fusion = FUSIONS[config.fusion](vocabulary, config, dropout)
        elif config.context != "none":
            self.fusion = CONTEXTS[config.context](config, dropout)

    def prepare(
        self,
        encoding: Encoding,
        readings: Readings | None = None,
        words: Int[Tensor, " vocabulary"] | None = None,
    ) -> Source:
        """Project whatever is the same at every step; logits for some ``words`` or for all."""
        source = Source(self.attention.attend(encoding))
        if self.fusion is None or readings is None:
            return source
        return self.fusion.add(source, readings, words)

    def step(
        self,
        state: DecoderState,
        word: Float[Tensor, "sent gates"],
        source: Attended,
        others: Attended | None = None,
        dropout: Sequence[Tensor | None] = (None, None),
    ) -> tuple[DecoderState, Float[Tensor, "sent states"], Float[Tensor, "sent src_word"]]:
        """s_j, c_j and α_j from s_{j-1} and what is known beforehand of the lower layer's input.

        ``word`` is W_sj E_T[y_{j-1}] and, where a fusion adds to the gates, that addition;
        ``others`` are words outside the sentence that it lets the step look at. ``dropout`` are
        the scaled masks of the context and of the upper layer's input.
        """
        query = torch.cat((state.lower, state.upper), dim=-1)
        context, weights = self.attention(query, source)
        if self.fusion is not None and others is not None:
            word = word + self.fusion.look(query, others)
        dropped = context if dropout[0] is None else context * dropout[0]
        lower = self.lower(word + self.context(dropped), state.lower)
        dropped = lower if dropout[1] is None else lower * dropout[1]
        upper = self.upper(self.between(dropped), state.upper)
        return DecoderState(lower, upper), context, weights

    def forward(
        self,
        encoding: Encoding,
        trg_in: Int[Tensor, "sent trg_word"],
        readings: Readings | None = None,
    ) -> Decoded:
        """Read given target sentences: what the decoder computes before each of their words."""
        source = self.prepare(encoding, readings)
        packing = pack((trg_in != PAD).sum(dim=1))  # nothing is computed for padding
        embedded = self.embedding(trg_in[packing.rows, packing.places])  # (N, E)
        words = self.word(self.dropout(embedded))  # all steps in one product
        if source.gates is not None:
            words = words + source.gates.index_select(0, packing.rows)
        state, attended, others = self.start(encoding), source.attended, source.words
        if not packing.in_order:
            state, attended = state.select(packing.order), attended.select(packing.order)
            others = others and others.select(packing.order)
        inputs = self.step_inputs(words, packing.counts, state, attended)
        if others is None:
            steps = decode_steps(inputs, self.step_layers(), self.step_by_step)
        else:  # only the plain loop lets the steps look at them
            steps = self.step_by_step(inputs, others)
        states, contexts, weights = steps
        features = self.output.features(self.dropout(states), contexts, embedded)
        return Decoded(packing, features, weights, states, source.logits)

    def step_inputs(
        self,
        words: Float[Tensor, "word gates"],
        counts: list[int],
        state: DecoderState,
        source: Attended,
    ) -> StepInputs:
        """All that the steps are given, with fresh dropout masks, a row for each word."""
        widths = source.values.shape[-1], state.lower.shape[-1]
        dropout = [self.dropout.mask((len(words), width), words) for width in widths]
        attended = (source.keys, source.values, source.mask)
        return StepInputs(words, counts, *attended, state.lower, state.upper, *dropout)

    def step_layers(self) -> StepLayers:
        """The layers of :meth:`step`."""
        query, score = self.attention.query, self.attention.score
        lower, upper = self.lower.state, self.upper.state
        return StepLayers(query, score, self.context, lower, self.between, upper)

    def step_by_step(self, inputs: StepInputs, others: Attended | None = None) -> Steps:
        """:meth:`step` for all words: upper states, contexts, attention weights.

        The words are packed and the sentences in the order of their packing, the longest first: a
        step has the first of the sentences that the step before it had.
        """
        state = DecoderState(inputs.lower, inputs.upper)
        source = Attended(inputs.keys, inputs.values, inputs.mask)
        masks = [
            [None] * len(inputs.counts) if mask is None else torch.split(mask, inputs.counts)
            for mask in (inputs.context_dropout, inputs.lower_dropout)
        ]
        uppers, contexts, weights = [], [], []
        words = torch.split(inputs.words, inputs.counts)
        for word, *dropout in zip(words, *masks, strict=True):
            if len(word) < len(source.keys):
                state, source = state.first(len(word)), source.first(len(word))
                others = others and others.first(len(word))
            state, context, weight = self.step(state, word, source, others, dropout)
            uppers.append(state.upper)
            contexts.append(context)
            weights.append(weight)
        return torch.cat(uppers), torch.cat(contexts), torch.cat(weights)

    def log_probabilities(
        self,
        features: Float[Tensor, "*any hidden"],
        added: Float[Tensor, "*any vocabulary"] | None = None,
    ) -> Float[Tensor, "*any vocabulary"]:
        """log P(y_j) for every word of the vocabulary; ``added`` is what readings add."""
        logits = self.output.vocabulary(features)
        return torch.log_softmax(logits if added is None else logits + added, dim=-1)
