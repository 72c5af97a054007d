"""Search for translations: greedy and beam, many sentences at once, one answer for each.

Every hypothesis ends with ``</s>``: one that reaches its length cap is closed there, so that its
score is still the log-probability of a whole sentence and its last state the one that predicts
``</s>``. A sentence without words has cap 0 and gets the empty translation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.model.decoder import DecoderState, Source
from wholedoc.model.memory import Readings
from wholedoc.model.translation import TranslationModel


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one sentence."""

    tokens: tuple[int, ...]
    """y_1 … y_J, without ``</s>``."""
    log_probability: float
    """log P(y|x), ``</s>`` included."""
    score: float
    """What it was ranked by: log P / (J+1)**length_penalty."""
    attention: Float[Tensor, "trg_word src_word"]
    """α_j for each word and ``</s>``, over the source words and ``</s>``."""
    last_state: Float[Tensor, " hidden"]
    """s_J of the upper layer, the state that predicted ``</s>``."""


def length_caps(src_lengths: Sequence[int], config: SearchConfig) -> list[int]:
    """The most words each translation may have; source lengths include ``</s>``."""
    return [
        min(
            math.ceil(config.max_length_factor * (length - 1)) + config.max_length_extra,
            config.max_length,
        )
        if length > 1
        else 0
        for length in src_lengths
    ]


@torch.inference_mode()
def search(
    model: TranslationModel,
    src: Int[Tensor, "sent src_word"],
    src_lengths: Int[Tensor, " sent"],
    config: SearchConfig,
    nbest: int = 1,
    readings: Readings | None = None,
) -> list[list[Hypothesis]]:
    """The ``nbest`` best translations of each sentence, best first; fewer where no more exist."""
    caps = torch.tensor(length_caps(src_lengths.tolist(), config), device=src.device)
    encoding = model.encoder(src, src_lengths)
    source = model.decoder.prepare(encoding, readings)
    state = model.decoder.start(encoding)
    if config.beam == 1 and nbest == 1:
        return [[best] for best in greedy(model, state, source, caps, config)]
    return beam(model, state, source, caps, config, nbest)


def greedy(
    model: TranslationModel,
    state: DecoderState,
    source: Source,
    caps: Int[Tensor, " sent"],
    config: SearchConfig,
) -> list[Hypothesis]:
    """The most probable word at each step; sentences leave the batch when they end."""
    trace = _Trace(len(caps), 1, config.length_penalty)
    words = torch.full_like(caps, BOS)
    scores = torch.zeros(len(caps), device=caps.device)
    live = torch.arange(len(caps), device=caps.device)
    for step in range(int(caps.max()) + 1):
        state, log_probabilities, weights = model.decoder.predict(state, words, source)
        _close(log_probabilities, caps[live] == step)
        best, words = log_probabilities.max(dim=-1)
        scores = scores + best
        ended = words == EOS
        rows = torch.arange(len(live), device=live.device)
        trace.record(weights, source.attended.mask)
        trace.finish(live[ended], rows[ended], scores[ended], state.upper)
        stay = rows[~ended]
        if len(stay) == 0:
            break
        trace.extend(words[stay], stay)
        live, words, scores = live[stay], words[stay], scores[stay]
        state, source = state.select(stay), source.select(stay)
    return [hypotheses[0] for hypotheses in trace.hypotheses()]


def beam(
    model: TranslationModel,
    state: DecoderState,
    source: Source,
    caps: Int[Tensor, " sent"],
    config: SearchConfig,
    nbest: int,
) -> list[list[Hypothesis]]:
    """Beam search; a sentence ends when it has as many finished hypotheses as the beam is wide.

    Rows are sentences × beam; an ended sentence's rows leave the batch. Of the 2·beam best
    continuations at most beam end, so beam of them always go on.
    """
    width = max(config.beam, nbest)
    device = caps.device
    trace = _Trace(len(caps), nbest, config.length_penalty)
    live = torch.arange(len(caps), device=device)  # sentences still searched
    finished = torch.zeros(len(caps), dtype=torch.long, device=device)
    copies = live.repeat_interleave(width)
    state, source = state.select(copies), source.select(copies)
    words = torch.full_like(copies, BOS)
    scores = torch.full((len(caps), width), -math.inf, device=device)
    scores[:, 0] = 0.0
    for step in range(int(caps.max()) + 1):
        state, log_probabilities, weights = model.decoder.predict(state, words, source)
        _close(log_probabilities, (caps[live] == step).repeat_interleave(width))
        vocabulary = log_probabilities.shape[-1]
        totals = (scores.view(-1, 1) + log_probabilities).view(len(live), -1)
        best, places = totals.topk(2 * width, dim=-1)  # (S, 2K)
        parents = places // vocabulary + width * torch.arange(len(live), device=device)[:, None]
        chosen = places % vocabulary
        ends = (chosen == EOS) & torch.isfinite(best)
        counted = ends & (torch.arange(2 * width, device=device) < width)
        trace.record(weights, source.attended.mask)
        trace.finish(
            live[:, None].expand_as(counted)[counted], parents[counted], best[counted], state.upper
        )
        finished[live] += counted.sum(dim=-1)
        going = (finished[live] < width) & (caps[live] > step)
        if not going.any():
            break
        onward = ends.long().argsort(dim=-1, stable=True)[going, :width]
        scores = best[going].gather(-1, onward)
        rows = parents[going].gather(-1, onward).flatten()
        words = chosen[going].gather(-1, onward).flatten()
        trace.extend(words, rows)
        state = state.select(rows)
        if not going.all():
            source = source.select(going.repeat_interleave(width).nonzero().squeeze(-1))
            live = live[going]
    return trace.hypotheses()


def _close(
    log_probabilities: Float[Tensor, "row vocabulary"], capped: Bool[Tensor, " row"]
) -> None:
    """Allow only ``</s>`` where the cap is reached, and never padding or ``<s>``."""
    log_probabilities[:, [PAD, BOS]] = -math.inf
    if capped.any():
        end = log_probabilities[capped, EOS]
        log_probabilities[capped] = -math.inf
        log_probabilities[capped, EOS] = end


class _Trace:
    """What a search did, step by step, from which finished hypotheses are read backwards.

    At each step: the attention of every row, then for every row of the next step its word and
    the row of this step it goes on from.
    """

    def __init__(self, sentences: int, nbest: int, length_penalty: float) -> None:
        self.nbest = nbest
        self.length_penalty = length_penalty
        self.weights: list[Float[Tensor, "row src_word"]] = []
        self.masks: list[Bool[Tensor, "row src_word"]] = []
        self.words: list[Int[Tensor, " row"]] = []
        self.parents: list[Int[Tensor, " row"]] = []
        self.ended: list[list[tuple[int, int, float, Tensor]]] = [[] for _ in range(sentences)]

    def record(
        self, weights: Float[Tensor, "row src_word"], mask: Bool[Tensor, "row src_word"]
    ) -> None:
        """The attention of a step."""
        self.weights.append(weights)
        self.masks.append(mask)

    def extend(self, words: Int[Tensor, " next_row"], parents: Int[Tensor, " next_row"]) -> None:
        """The rows of the next step."""
        self.words.append(words.cpu())
        self.parents.append(parents.cpu())

    def finish(
        self,
        sentences: Int[Tensor, " end"],
        rows: Int[Tensor, " end"],
        log_probabilities: Float[Tensor, " end"],
        states: Float[Tensor, "row hidden"],
    ) -> None:
        """Hypotheses that end at this step, each with its row."""
        step = len(self.weights) - 1
        for sentence, row, log_probability in zip(
            sentences.tolist(), rows.tolist(), log_probabilities.tolist(), strict=True
        ):
            # A copy: a view would keep the states of all rows alive with the hypothesis.
            self.ended[sentence].append((step, row, log_probability, states[row].clone()))

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of each sentence, best first."""
        return [
            [
                self._read_back(*end)
                for end in sorted(ends, key=lambda end: -self._score(end[0], end[2]))[: self.nbest]
            ]
            for ends in self.ended
        ]

    def _score(self, step: int, log_probability: float) -> float:
        return log_probability / float((step + 1) ** self.length_penalty)

    def _read_back(self, step: int, row: int, log_probability: float, state: Tensor) -> Hypothesis:
        """Walk from the last row to the first."""
        words: list[int] = []
        weights = [self.weights[step][row][self.masks[step][row]]]
        for earlier in range(step - 1, -1, -1):
            words.append(int(self.words[earlier][row]))
            row = int(self.parents[earlier][row])
            weights.append(self.weights[earlier][row][self.masks[earlier][row]])
        return Hypothesis(
            tuple(reversed(words)),
            log_probability,
            self._score(step, log_probability),
            torch.stack(weights[::-1]),
            state,
        )
