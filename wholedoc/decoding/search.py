"""Search for translations: greedy and beam, many sentences at once, one answer for each.

Every hypothesis ends with ``</s>``: one that reaches its length cap is closed there, so that its
score is still the log-probability of a whole sentence and its last state the one that predicts
``</s>``. A sentence without words has cap 0 and gets the empty translation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.decoding.predictor import BLOCK, Predictor, Sentences
from wholedoc.model.decoder import DecoderState
from wholedoc.model.memory import Readings
from wholedoc.model.recall import Cells, continue_words

# How dev sentences and the cells of the target memory are translated in training.
GREEDY = SearchConfig(beam=1)
# A batch is made smaller when this part of its sentences has ended: each time costs a copy.
_ENDED_SHARE = 0.1


@dataclass(frozen=True)
class Hypothesis:
    """A translation of one sentence."""

    tokens: tuple[int, ...]
    """y_1 … y_J, without ``</s>``."""
    log_probability: float
    """log P(y|x), ``</s>`` included."""
    score: float
    """What it was ranked by: log P / (J+1)**length_penalty; recall may add to the exponent."""
    attention: Float[Tensor, "trg_word src_word"]
    """α_j for each word and ``</s>``, over the source words and ``</s>``."""
    last_state: Float[Tensor, " hidden"]
    """s_J of the upper layer, the state that predicted ``</s>``."""
    enforced: tuple[int, ...] = ()
    """Which of the strings required of it stand in it only because they were."""


def length_caps(src_lengths: Sequence[int], config: SearchConfig) -> list[int]:
    """The most words each translation may have; source lengths include ``</s>``."""
    factor, extra, most = config.max_length_factor, config.max_length_extra, config.max_length
    caps = [math.ceil(factor * (length - 1)) + extra for length in src_lengths]
    return [min(cap, most) * (length > 1) for cap, length in zip(caps, src_lengths, strict=True)]


@torch.inference_mode()
def search(
    predictor: Predictor,
    src: Int[Tensor, "sent src_word"],
    src_lengths: Int[Tensor, " sent"],
    config: SearchConfig,
    nbest: int = 1,
    readings: Readings | None = None,
    cells: Cells | None = None,
) -> list[list[Hypothesis]]:
    """The ``nbest`` best translations of each sentence, best first; fewer where no more exist.

    ``readings`` are what the sentences read of their documents, ``cells`` what they may recall.
    """
    lengths = src_lengths.tolist()
    caps = length_caps(lengths, config)
    state, sentences = predictor.start(src, src_lengths, readings, cells)
    trace = Trace(lengths, nbest, length_penalties(predictor, cells, len(caps), config))
    frontier = Frontier(predictor, state, sentences, caps)
    if config.beam == 1 and nbest == 1:
        greedy(frontier, trace)
    else:
        beam(frontier, trace, max(config.beam, nbest))
    return trace.hypotheses()


def length_penalties(
    predictor: Predictor, cells: Cells | None, sentences: int, config: SearchConfig
) -> list[float]:
    """Of each sentence: that of the settings, and what recall adds where it serves."""
    if cells is None or predictor.recaller is None:
        return [config.length_penalty] * sentences
    recall = predictor.recaller.recall
    with_recall = config.length_penalty + recall.length.item()
    serves = recall.serves(cells).tolist()
    return [with_recall if served else config.length_penalty for served in serves]


@dataclass
class Frontier:
    """Where a search stands: the sentences that are still searched, and the states of their rows.

    A sentence that has ended may stay for some steps, its rows worth nothing.
    """

    predictor: Predictor
    state: DecoderState
    sentences: Sentences
    caps: list[int]
    """The most words of each sentence; of the first batch, as all that follow from it."""

    def __post_init__(self) -> None:
        device = self.sentences.keys.device
        self.live = torch.arange(len(self.caps), device=device)
        """The indices of the sentences that are still in the batch."""
        self.cap = torch.tensor(self.caps, device=device)
        """Their caps."""
        self.cap_steps = set(self.caps)
        self.words = torch.full_like(self.live, BOS)
        """The last word of each row."""
        self.recalled: _Recalled | None = None
        """What the last step recalled; None before the first."""
        self.begun: Float[Tensor, "row cell"] | None = None
        """The recalled words that each row is in the middle of."""

    def predict(
        self, step: int
    ) -> tuple[
        Float[Tensor, "row output"],
        Float[Tensor, " row"],
        Float[Tensor, "sent hypothesis src_word"],
    ]:
        """Take a step: logits, what makes them log-probabilities when taken off, and attention.

        Where the cap is reached only ``</s>`` is left; padding and ``<s>`` are never produced. A
        sentence that has words gets at least one.
        """
        step_done = self.predictor.step(self.state, self.words, self.sentences)
        self.state, logits, weights, features = step_done
        if self.sentences.cells is not None and self.predictor.recaller is not None:
            cells, recall = self.sentences.cells, self.predictor.recaller.recall
            total, copies = recall.mix(logits, features, cells, self.begun)
            self.recalled = _Recalled(cells, copies, logits, total)
        else:
            total = torch.logsumexp(logits, dim=-1)
        logits[:, PAD] = -math.inf
        logits[:, BOS] = -math.inf
        if step == 0:
            rows = (self.cap > 0).repeat_interleave(len(logits) // len(self.cap)).nonzero()
            logits[rows, EOS] = -math.inf
        if step in self.cap_steps:
            rows = (self.cap == step).repeat_interleave(len(logits) // len(self.cap)).nonzero()
            ends = logits[rows, EOS]
            logits[rows[:, 0]] = -math.inf
            logits[rows, EOS] = ends
        return logits, total, weights

    def go_on(self, rows: Int[Tensor, " row"], chosen: Int[Tensor, " row"]) -> None:
        """Go on from given rows, each with its next word."""
        if self.recalled is not None:
            self.begun = self.recalled.continue_words(rows, chosen)
        self.state = self.state.select(rows)
        self.words = self.sentences.words[chosen]

    def drop(self, stay: Int[Tensor, " stay"]) -> None:
        """Keep only some sentences."""
        self.sentences = self.sentences.select(stay)
        self.live, self.cap = self.live[stay], self.cap[stay]


class _Recalled(NamedTuple):
    """A step's recall, and the distributions that it was mixed into."""

    cells: Cells
    copies: Float[Tensor, "row cell"]
    logits: Float[Tensor, "row output"]
    total: Float[Tensor, " row"]

    def continue_words(
        self, rows: Int[Tensor, " row"], chosen: Int[Tensor, " row"]
    ) -> Tensor | None:
        """What given rows are in the middle of, each with its next word."""
        cells = self.cells
        if not cells.inside.any():
            return None
        of = rows // (len(self.copies) // len(cells.types))
        same = cells.types.gather(1, cells.words)[of] == chosen[:, None]
        probability = (self.logits[rows, chosen] - self.total[rows]).exp()
        return continue_words(self.copies[rows], same, probability, cells.inside[of])


def greedy(frontier: Frontier, trace: "Trace") -> None:
    """The most probable word at each step; sentences leave the batch when they end."""
    scores = torch.zeros(len(frontier.live), device=frontier.live.device)
    for step in range(max(frontier.caps) + 1):
        logits, total, weights = frontier.predict(step)
        best, chosen = logits.max(dim=-1)
        scores = scores + (best - total)
        trace.weights.append(weights.flatten(0, 1))
        rows = (chosen == EOS).nonzero()[:, 0]
        trace.finish(frontier.live[rows], rows, scores[rows], frontier.state.upper)
        rows = (chosen != EOS).nonzero()[:, 0]
        if len(rows) == 0:
            break
        if len(rows) < len(chosen):
            frontier.drop(rows)
            scores, chosen = scores[rows], chosen[rows]
        frontier.go_on(rows, chosen)
        trace.words.append(frontier.words)
        trace.parents.append(rows)


def beam(frontier: Frontier, trace: "Trace", width: int) -> None:
    """Beam search; a sentence ends when it has as many finished hypotheses as the beam is wide.

    Of the 2·beam best continuations at most beam end, so beam of them always go on.
    """
    device = frontier.live.device
    rows = torch.arange(len(frontier.live), device=device).repeat_interleave(width)
    frontier.state, frontier.words = frontier.state.select(rows), frontier.words[rows]
    finished = torch.zeros(len(frontier.live), dtype=torch.long, device=device)
    scores = torch.full((len(frontier.live), width), -math.inf, device=device)
    scores[:, 0] = 0.0
    ranks = torch.arange(2 * width, device=device)
    for step in range(max(frontier.caps) + 1):
        logits, total, weights = frontier.predict(step)
        best, parents, chosen = _best(logits, scores - total.view_as(scores), 2 * width)
        ends = (chosen == EOS) & torch.isfinite(best)
        counted = ends & (ranks < width)
        trace.weights.append(weights.flatten(0, 1))
        if counted.any():
            sentences = frontier.live[counted.nonzero()[:, 0]]
            trace.finish(sentences, parents[counted], best[counted], frontier.state.upper)
            finished = finished + counted.sum(dim=-1)
        going = (finished < width) & (frontier.cap > step)
        stay = going.nonzero()[:, 0]
        if len(stay) == 0:
            break
        onward = ends.long().argsort(dim=-1, stable=True)[:, :width]
        if len(stay) <= (1 - _ENDED_SHARE) * len(going):
            frontier.drop(stay)
            best, parents, chosen = best[stay], parents[stay], chosen[stay]
            onward, finished = onward[stay], finished[stay]
        elif len(stay) < len(going):
            best.masked_fill_(~going[:, None], -math.inf)
        scores = best.gather(-1, onward)
        rows = parents.gather(-1, onward).flatten()
        frontier.go_on(rows, chosen.gather(-1, onward).flatten())
        trace.words.append(frontier.words)
        trace.parents.append(rows)


def _best(
    logits: Float[Tensor, "row output"], offsets: Float[Tensor, "sent hypothesis"], count: int
) -> tuple[Float[Tensor, "sent best"], Int[Tensor, "sent best"], Int[Tensor, "sent best"]]:
    """The best continuations of each sentence: their scores, their rows, their words.

    Looking for the best of all words is slow. The words are laid out in columns first: the best
    ``count`` words are in those ``count`` columns whose best words are best.
    """
    sentences, width = offsets.shape
    depth = 1
    while 4 * depth * depth * count <= logits.shape[-1] and depth < BLOCK:
        depth *= 2
    table = logits.view(len(logits), depth, -1)
    size = table.shape[-1]
    heads = (table.amax(dim=1) + offsets.view(-1, 1)).view(sentences, -1)
    _, places = heads.topk(count, dim=-1, sorted=False)  # (S, count)
    starts = width * torch.arange(sentences, device=logits.device)[:, None]
    rows, columns = places // size + starts, places % size
    found = table[rows, :, columns] + offsets.flatten()[rows][:, :, None]  # (S, count, depth)
    best, places = found.flatten(1).topk(count, dim=-1)
    of = places // depth
    return best, rows.gather(1, of), columns.gather(1, of) + size * (places % depth)


@dataclass
class Trace:
    """What a search did, step by step, from which finished hypotheses are read backwards.

    At each step: the attention of every row, then for every row of the next step its word and
    the row of this step it goes on from.
    """

    src_lengths: list[int]
    nbest: int
    length_penalties: list[float]

    def __post_init__(self) -> None:
        self.weights: list[Float[Tensor, "row src_word"]] = []
        self.words: list[Int[Tensor, " row"]] = []
        self.parents: list[Int[Tensor, " row"]] = []
        self.ended: list[list[_End]] = [[] for _ in self.src_lengths]

    def finish(
        self,
        sentences: Int[Tensor, " end"],
        rows: Int[Tensor, " end"],
        log_probabilities: Float[Tensor, " end"],
        states: Float[Tensor, "row hidden"],
        extra: Sequence[float] = (),
    ) -> None:
        """Hypotheses that end at this step, each with its row; ``extra`` counts in ranking too."""
        step = len(self.weights) - 1
        kept = states.index_select(0, rows)  # a view would keep the states of all rows alive
        ends = zip(sentences.tolist(), rows.tolist(), log_probabilities.tolist(), kept, strict=True)
        for n, (sentence, row, log_probability, state) in enumerate(ends):
            ranked = log_probability + extra[n] if extra else log_probability
            score = ranked / (step + 1) ** self.length_penalties[sentence]
            end = _End(sentence, step, row, log_probability, score, state)
            self.ended[sentence].append(end)

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of each sentence, best first.

        Follows the parents from the last rows to the first, for all hypotheses at once.
        """
        chosen = [sorted(found, key=lambda end: -end.score)[: self.nbest] for found in self.ended]
        ends = [end for found in chosen for end in found]
        order = sorted(range(len(ends)), key=lambda n: -ends[n].step)
        steps = ends[order[0]].step + 1
        device = self.weights[0].device
        rows = torch.tensor([ends[n].row for n in order], device=device)
        words = rows.new_empty(len(ends), steps)
        weights = self.weights[0].new_empty(len(ends), steps, self.weights[0].shape[-1])
        under_way = 0
        for step in range(steps - 1, -1, -1):
            while under_way < len(ends) and ends[order[under_way]].step >= step:
                under_way += 1
            here = rows[:under_way]
            weights[:under_way, step] = self.weights[step].index_select(0, here)
            if step > 0:
                words[:under_way, step - 1] = self.words[step - 1][here]
                rows[:under_way] = self.parents[step - 1][here]
        made: dict[int, Hypothesis] = {}
        for n, tokens, attention in zip(order, words.tolist(), weights, strict=True):
            end = ends[n]
            made[n] = Hypothesis(
                tuple(tokens[: end.step]),
                end.log_probability,
                end.score,
                attention[: end.step + 1, : self.src_lengths[end.sentence]].clone(),
                end.state,
            )
        rest = iter(range(len(ends)))
        return [[made[next(rest)] for _ in found] for found in chosen]


@dataclass(frozen=True)
class _End:
    """A finished hypothesis: where its trace begins, read backwards."""

    sentence: int
    step: int
    row: int
    log_probability: float
    score: float
    state: Float[Tensor, " hidden"]
