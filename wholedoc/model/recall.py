"""Recall: a memory of what people have translated, read at every word.

A known pair is a sentence and its translation by a person. The model reads it once; each word of
the translation, ``</s>`` included, becomes a cell whose key is what the output layer saw there and
whose value is the word.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from wholedoc.corpus.vocabulary import EOS

WIDTH = 64  # numbers of a key
LEAST_COVERED = 0.5  # pairs that have less of a sentence together have nothing to do with it
_LARGEST_GATE = 1 - 1e-6  # no word that the model knows becomes impossible
_SMALLEST = 1e-6  # probability, and the distance of certainty, inside of logarithms
_TINY = 1e-38  # the smallest probability whose logarithm is taken
_FAR = 1e9  # farther than any two keys in 8 bits
_NEAR = 0.1  # distances below this are all equally near
_GOES_ON = 0.4  # how probable it is that a recalled word goes on being recalled with its next piece


@dataclass(frozen=True)
class Cells:
    """The cells of some sentences' known pairs, padded; a sentence may have none."""

    keys: Float[Tensor, "sent cell width"]
    """A (r'_k − c)."""
    squares: Float[Tensor, "sent cell"]
    """‖A (r'_k − c)‖²; very large at padding, which is far from everything."""
    words: Int[Tensor, "sent cell"]
    """y'_k, as its place among the ``types`` of the sentence."""
    match: Float[Tensor, "sent cell"]
    """m_k: how like the two are as wholes, from 0 to 1."""
    approved: Float[Tensor, "sent cell"]
    """1 where the pair is of the same document, else 0."""
    mask: Bool[Tensor, "sent cell"]
    """True at real cells."""
    inside: Bool[Tensor, "sent cell"]
    """True where a cell goes on with the word that the cell before it is a piece of."""
    types: Int[Tensor, "sent type"]
    """The distinct words of a sentence's cells: token ids, or columns of an output layer."""
    covered: Float[Tensor, " sent"]
    """f: how much of the sentence the sources of its pairs have together, from 0 to 1."""

    @staticmethod
    def square(
        keys: Float[Tensor, "sent cell width"], mask: Bool[Tensor, "sent cell"]
    ) -> Float[Tensor, "sent cell"]:
        """The ``squares`` of keys."""
        return keys.square().sum(dim=-1).masked_fill(~mask, _FAR)

    def select(self, rows: Int[Tensor, " row"]) -> "Cells":
        """The given sentences, in the given order."""
        return Cells(*(getattr(self, field.name)[rows] for field in fields(self)))


class Recalled(NamedTuple):
    """What is recalled at some positions of some sentences."""

    gate: Float[Tensor, "sent row"]
    """λ_j: how much recall counts; exactly 0 without cells."""
    shares: Float[Tensor, "sent row type"]
    """λ_j q(y) of each of the sentence's types."""
    copies: Float[Tensor, "sent row cell"]
    """c_k: the probability that y_j is recalled, and from this cell; their sum is λ_j."""

    def mix(
        self, log_types: Float[Tensor, "sent row type"]
    ) -> tuple[Float[Tensor, "sent row"], Float[Tensor, "sent row type"]]:
        """log(1 − λ), which every word's log P_model gets, and log P of the types."""
        rest = torch.log1p(-self.gate)
        by_model = log_types + rest[:, :, None]
        mixed = torch.log((torch.exp(by_model) + self.shares).clamp(min=_TINY))
        return rest, torch.where(self.shares > 0, mixed, by_model)

    def resume(self, begun: Float[Tensor, "sent row cell"], cells: Cells) -> "Recalled":
        """The same in the middle of words that may have been recalled: c'_k = b_k + (1 − Σ b) c_k.

        ``begun`` is b, which :func:`continue_words` makes.
        """
        copies = _resumed(begun, self.copies)
        types = cells.words[:, None].expand_as(copies)
        shares = torch.zeros_like(self.shares).scatter_add(2, types, copies)
        return Recalled(copies.sum(dim=-1).clamp(max=_LARGEST_GATE), shares, copies)


class Recall(nn.Module):
    """P(y) = (1 − λ_j) P_model(y) + λ_j q(y),  q(y) = Σ_{k: y'_k = y} p_k / (1 − q_end).

    Ours: [recall].

        d_k = ‖A (r_j − r'_k)‖²
        p_k = softmax_k(−τ d_k + β m_k + δ [approved]),   q_end = Σ_{k: y'_k = </s>} p_k
        λ_j = (1 − q_end) σ(w · (1, log(τ min d + 0.1), logit max P_model, logit max q,
                                 log P_model(y*), f, Σ p_k m_k, Σ_{k approved} p_k))

    r_j and r'_k are what the output layer sees ([dec-out]); m_k is how like the sentence the source
    of the cell's pair is, f how much of the sentence the sources of all its pairs have together; y*
    is the word with the largest q. Where the recalled pair ends, the model decides whether the
    sentence does: pairs are shorter than what they are parts of. ``projection`` is A, ``center`` is
    c, a point in the middle of all r', ``scores`` are τ, β, δ, ``gate`` is w. All of it is fitted
    after training, when no weight of the model changes any more. Without cells λ is 0 exactly; so
    it is where no pair is approved and all together have less than half of the sentence (f < 1/2).
    Inside a word, what :func:`continue_words` says of the pieces before it comes first.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.projection = nn.Parameter(torch.zeros(min(WIDTH, hidden), hidden))
        self.center = nn.Parameter(torch.zeros(hidden))
        self.scores = nn.Parameter(torch.tensor([1.0, 0.0, 0.0]))
        self.weights = nn.Parameter(torch.zeros(8, dtype=torch.uint8), requires_grad=False)
        """A digest of the weights that it was fitted for."""
        self.gate = nn.Parameter(torch.tensor([0.0, -1.0, *[0.0] * 6]))
        self.length = nn.Parameter(torch.tensor(0.0))
        """What is added to the length penalty of search for sentences that recall: what is recalled
        is so probable that short translations of little else would win the beam."""

    @staticmethod
    def serves(cells: Cells) -> Bool[Tensor, " sent"]:
        """Which sentences recall at all; λ is 0 exactly for the others."""
        close = (cells.covered >= LEAST_COVERED)[:, None] | (cells.approved > 0)
        return (close & cells.mask).any(dim=1)

    def project(self, features: Float[Tensor, "*any hidden"]) -> Float[Tensor, "*any width"]:
        """A (r − c)."""
        return F.linear(features, self.projection, -(self.projection @ self.center))

    def forward(
        self,
        features: Float[Tensor, "sent row hidden"],
        log_types: Float[Tensor, "sent row type"],
        surest: Float[Tensor, "sent row"],
        cells: Cells,
    ) -> Recalled:
        """What rows with these features r_j recall.

        ``log_types`` is log P_model of the sentence's types, ``surest`` is max_y P_model(y).
        """
        return self.weigh(self.distances(features, cells), log_types, surest, cells)

    def distances(
        self, features: Float[Tensor, "sent row hidden"], cells: Cells
    ) -> Float[Tensor, "sent row cell"]:
        """d_k; very large at padding."""
        queries = self.project(features)
        others = queries.square().sum(dim=-1, keepdim=True) + cells.squares[:, None]
        return torch.baddbmm(others, queries, cells.keys.mT, alpha=-2).clamp_(min=0)

    def weigh(
        self,
        distances: Float[Tensor, "sent row cell"],
        log_types: Float[Tensor, "sent row type"],
        surest: Float[Tensor, "sent row"],
        cells: Cells,
    ) -> Recalled:
        """λ_j, q and p_k from the distances."""
        tau, by_match, by_origin = self.scores
        tau = tau.clamp(min=_SMALLEST)
        known = self.serves(cells)[:, None]
        ends = cells.types.gather(1, cells.words) == EOS
        energies = (by_match * cells.match + by_origin * cells.approved)[:, None]
        weights = torch.softmax(torch.addcmul(energies, distances, -tau), dim=-1)
        words = cells.words[:, None].expand_as(weights)
        types = torch.zeros_like(log_types).scatter_add(2, words, weights)
        types = types.masked_fill((cells.types == EOS)[:, None], 0.0)
        traits = torch.stack((ends.to(weights), cells.match, cells.approved), dim=-1)
        end, match, approved = torch.bmm(weights, traits).unbind(dim=-1)  # Σ p_k of each
        going_on = (1 - end).clamp(min=0)
        most, best = types.max(dim=-1)
        inputs = (
            torch.ones_like(most),
            torch.log(tau * distances.amin(dim=-1) + _NEAR),
            _logit(surest),
            _logit(most / going_on.clamp(min=_SMALLEST)),
            log_types.gather(2, best[:, :, None])[:, :, 0],
            cells.covered[:, None].expand_as(most),
            match,
            approved,
        )
        gate = torch.sigmoid(torch.stack(inputs, dim=-1) @ self.gate).clamp(max=_LARGEST_GATE)
        gate = gate * known  # q(y) = types / (1 − q_end), and λ has the factor 1 − q_end
        copies = gate[:, :, None] * weights.masked_fill(ends[:, None], 0.0)
        return Recalled(gate * going_on, gate[:, :, None] * types, copies)

    def follow(
        self,
        features: Float[Tensor, "sent row hidden"],
        words: Int[Tensor, "sent row"],
        own: Float[Tensor, "sent row"],
        log_types: Float[Tensor, "sent row type"],
        surest: Float[Tensor, "sent row"],
        cells: Cells,
    ) -> Recalled:
        """What is recalled along given words, whose log P_model is ``own``."""
        found: Recalled = self(features, log_types, surest, cells)
        if not cells.inside.any():
            return found
        same = cells.types.gather(1, cells.words)[:, None] == words[:, :, None]  # (S, J, K)
        begun = [torch.zeros_like(found.copies[:, 0])]
        for j in range(words.shape[1] - 1):
            copies = _resumed(begun[j], found.copies[:, j])
            by_model = (1 - copies.sum(dim=-1)) * own[:, j].exp()
            probability = by_model + (copies * same[:, j]).sum(dim=-1)
            begun.append(continue_words(copies, same[:, j], probability, cells.inside))
        return found.resume(torch.stack(begun, dim=1), cells)

    def mix(
        self,
        logits: Float[Tensor, "row output"],
        features: Float[Tensor, "row hidden"],
        cells: Cells,
        begun: Float[Tensor, "row cell"] | None = None,
    ) -> tuple[Float[Tensor, " row"], Float[Tensor, "row cell"]]:
        """Turn logits of P_model into those of P, in place.

        Each sentence has as many rows as any other; ``begun`` is what :func:`continue_words` made
        of the words before. Returns what makes logits log-probabilities when taken off, and c_k.
        ``cells.types`` are columns of the logits; no other column changes.
        """
        sentences = len(cells.types)
        table = logits.view(sentences, -1, logits.shape[-1])
        highest = table.amax(dim=-1, keepdim=True)
        totals = torch.log((table - highest).exp_().sum(dim=-1)) + highest[:, :, 0]  # log-sum
        columns = cells.types[:, None].expand(-1, table.shape[1], -1)
        log_types = table.gather(2, columns) - totals[:, :, None]
        surest = torch.exp(highest[:, :, 0] - totals)
        found = self(features.view(*totals.shape, -1), log_types, surest, cells)
        if begun is not None:
            found = found.resume(begun.view_as(found.copies), cells)
        rest, mixed = found.mix(log_types)
        totals = totals - rest
        table.scatter_(2, columns, mixed + totals[:, :, None])
        return totals.flatten(), found.copies.flatten(0, 1)


def _resumed(begun: Tensor, copies: Tensor) -> Tensor:
    return begun + (1 - begun.sum(dim=-1, keepdim=True)) * copies


def continue_words(
    copies: Float[Tensor, "row cell"],
    same: Bool[Tensor, "row cell"],
    probability: Float[Tensor, " row"],
    inside: Bool[Tensor, "row cell"],
) -> Float[Tensor, "row cell"]:
    """b_{k+1} = s [y'_k = y_j] c_k / P(y_j) where cell k + 1 is inside the word of cell k, else 0.

    A word of several pieces that was begun by recall is likely to go on so, also
    where the model is sure of another piece: [y'_k = y_j] c_k / P(y_j) is, by Bayes, the
    probability that y_j was recalled from cell k, s that the next piece is then recalled too.
    ``same`` is [y'_k = y_j].
    """
    recalled = copies * same / probability.clamp(min=_TINY)[:, None]
    begun = _GOES_ON * F.pad(recalled[:, :-1], (1, 0)) * inside
    return begun / begun.sum(dim=-1, keepdim=True).clamp(min=1)


def _logit(probability: Tensor) -> Tensor:
    return torch.logit(probability, eps=_SMALLEST)
