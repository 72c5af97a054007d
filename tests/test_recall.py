"""Recall: its equation against a slow loop, its cells, search, scoring, fitting, explanations."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import MakeModel
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import document_config, toy_config
from torch import Tensor

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import EOS, PAD, UNK, WordVocabulary
from wholedoc.decoding.known import KnownPair, find_known
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.recall import CellRow, Recaller, look_up
from wholedoc.decoding.scoring import Recalls, score_translations
from wholedoc.decoding.search import search
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.kernels import EightBitProduct
from wholedoc.model.recall import Cells, Recall
from wholedoc.store.cells import CellStore, PairCells, write_cells
from wholedoc.store.shortlist import Shortlist
from wholedoc.training.recall import fit_recall, learn_projection
from wholedoc.training.stages import train

HIDDEN, VOCABULARY = 5, 9
WORDS = [f"w{i}" for i in range(VOCABULARY - 4)]
VOCABULARIES = WordVocabulary([f"s{i}" for i in range(7)], "et"), WordVocabulary(WORDS, "en")


def make_recall(seed: int = 1, hidden: int = HIDDEN) -> Recall:
    """A recall with random numbers of a sensible size."""
    generator = torch.Generator().manual_seed(seed)
    recall = Recall(hidden).double()
    with torch.no_grad():
        for parameter in recall.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        recall.projection.mul_(10)
        recall.scores[0] = 0.002
        recall.gate.mul_(0.3)  # neither open nor closed
    return recall


def make_cells(counts: list[int], seed: int = 2, width: int = HIDDEN) -> Cells:
    """Random cells, so many for each sentence; some of them are ends."""
    generator = torch.Generator().manual_seed(seed)
    most = max(1, *counts)
    shape = (len(counts), most)
    mask = torch.arange(most) < torch.tensor(counts)[:, None]
    types = torch.tensor([[EOS, 4, 5, 6]]).repeat(len(counts), 1)
    return Cells(
        torch.randint(-100, 100, (*shape, width), generator=generator).double(),
        torch.randint(0, 4, shape, generator=generator),
        torch.rand(shape, generator=generator, dtype=torch.float64),
        torch.randint(0, 2, shape, generator=generator).double(),
        mask,
        types,
    )


def recall_by_hand(
    recall: Recall, feature: list[float], model: list[float], cells: Cells, sentence: int
) -> list[float]:
    """P(y) for every word of the vocabulary, written from the formula in plain numbers."""
    projection, center = recall.projection.tolist(), recall.center.tolist()
    tau, beta, delta = recall.scores.tolist()
    query = [
        sum(a * (r - c) for a, r, c in zip(row, feature, center, strict=True)) for row in projection
    ]
    real = [k for k in range(cells.mask.shape[1]) if bool(cells.mask[sentence, k])]
    if not real:
        return model
    distances, energies, values = [], [], []
    for k in real:
        key = cells.keys[sentence, k].tolist()
        distance = sum((q - x) ** 2 for q, x in zip(query, key, strict=True))
        match, approved = float(cells.match[sentence, k]), float(cells.approved[sentence, k])
        distances.append(distance)
        energies.append(-tau * distance + beta * match + delta * approved)
        values.append(int(cells.types[sentence, cells.words[sentence, k]]))
    total = sum(math.exp(energy - max(energies)) for energy in energies)
    weights = [math.exp(energy - max(energies)) / total for energy in energies]
    end = sum(p for p, y in zip(weights, values, strict=True) if y == EOS)
    q = [0.0] * len(model)
    for p, y in zip(weights, values, strict=True):
        if y != EOS:
            q[y] += p / (1 - end)
    best = max(range(len(q)), key=q.__getitem__)
    logit = lambda p: math.log(p / (1 - p)) if 1e-6 < p < 1 - 1e-6 else math.nan  # noqa: E731
    inputs = [
        1.0,
        math.log(tau * min(distances) + 0.1),
        logit(max(model)),
        logit(max(q)),
        math.log(model[best]),
    ]
    activation = sum(w * x for w, x in zip(recall.gate.tolist(), inputs, strict=True))
    gate = (1 - end) / (1 + math.exp(-activation))
    return [(1 - gate) * p + gate * r for p, r in zip(model, q, strict=True)]


def mixed(recall: Recall, features: Tensor, logits: Tensor, cells: Cells) -> Tensor:
    """P(y) by the code that search uses; a row for each sentence."""
    logits = logits.clone()
    total = recall.mix(logits, torch.logsumexp(logits, dim=-1), features, cells)
    return torch.exp(logits - total[:, None])


def test_recall_equals_its_equation() -> None:
    recall, cells = make_recall(), make_cells([4, 0, 7, 2])
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(4, HIDDEN, generator=generator, dtype=torch.float64)
    logits = torch.randn(4, VOCABULARY, generator=generator, dtype=torch.float64)
    found = mixed(recall, features, logits, cells)
    model = torch.softmax(logits, dim=-1).tolist()
    for sentence in range(4):
        expected = recall_by_hand(recall, features[sentence].tolist(), model[sentence], cells, sentence)
        assert not any(map(math.isnan, expected))
        torch.testing.assert_close(found[sentence], torch.tensor(expected, dtype=torch.float64))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.lists(st.integers(0, 6), min_size=1, max_size=4))
def test_recalled_probabilities_are_probabilities(seed: int, counts: list[int]) -> None:
    recall, cells = make_recall(seed), make_cells(counts, seed)
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(len(counts), HIDDEN, generator=generator, dtype=torch.float64)
    logits = torch.randn(len(counts), VOCABULARY, generator=generator, dtype=torch.float64)
    found = mixed(recall, features, logits, cells)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(len(counts), dtype=torch.float64))
    assert (found >= 0).all()


def test_without_cells_nothing_changes_bit_for_bit() -> None:
    recall, cells = make_recall().float(), make_cells([3, 0])
    cells = dataclasses.replace(
        cells,
        keys=cells.keys.float(),
        match=cells.match.float(),
        approved=cells.approved.float(),
        types=torch.tensor([[EOS, 4, 5, 6], [PAD] * 4]),
    )
    logits, features = torch.randn(2, VOCABULARY), torch.randn(2, HIDDEN)
    total, changed = torch.logsumexp(logits, dim=-1), logits.clone()
    after = recall.mix(changed, total, features, cells)
    assert after[1] == total[1]
    assert torch.equal(changed[1, 1:], logits[1, 1:])  # the column of padding is never produced
    assert not torch.equal(changed[0], logits[0])


def test_padding_cells_do_not_matter() -> None:
    recall, cells = make_recall(), make_cells([4, 7])
    features, logits = torch.randn(2, HIDDEN).double(), torch.randn(2, VOCABULARY).double()
    expected = mixed(recall, features, logits, cells)
    keys = cells.keys.masked_fill(~cells.mask[:, :, None], 1e4)
    found = mixed(recall, features, logits, dataclasses.replace(cells, keys=keys))
    torch.testing.assert_close(found, expected)


def test_where_the_pair_ends_the_model_decides() -> None:
    recall, cells = make_recall(), make_cells([3])
    ends = dataclasses.replace(cells, words=torch.zeros_like(cells.words))
    features, logits = torch.randn(1, HIDDEN).double(), torch.randn(1, VOCABULARY).double()
    torch.testing.assert_close(mixed(recall, features, logits, ends), torch.softmax(logits, dim=-1))


def test_gradient_of_recall() -> None:
    recall, cells = make_recall(), make_cells([4, 6])
    generator = torch.Generator().manual_seed(5)
    features = torch.randn(2, 3, HIDDEN, generator=generator, dtype=torch.float64)
    log_types = torch.log_softmax(torch.randn(2, 3, 4, generator=generator).double(), dim=-1)
    surest = torch.full((2, 3), 0.6, dtype=torch.float64)
    parameters = (recall.projection, recall.center, recall.scores, recall.gate)
    recall.scores.data[0] = 0.01

    def run(*values: Tensor) -> Tensor:
        names = ("projection", "center", "scores", "gate")
        found = torch.func.functional_call(
            recall, dict(zip(names, values, strict=True)), (features, log_types, surest, cells)
        )
        return found.mix(log_types)[1]

    inputs = tuple(p.detach().clone().requires_grad_() for p in parameters)
    assert torch.autograd.gradcheck(run, inputs, eps=1e-7, atol=1e-4)
