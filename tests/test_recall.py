"""Recall: its equation against a slow loop, its cells, search, scoring, fitting."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import MakeModel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import EOS, PAD, UNK, WordVocabulary
from wholedoc.decoding.cells import EncodedPair, Pieces, Recaller, look_up
from wholedoc.decoding.known import KnownPair
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.scoring import Recalls, score_translations
from wholedoc.decoding.search import search
from wholedoc.kernels import EightBitProduct
from wholedoc.model.recall import Cells, Recall
from wholedoc.store.cells import CellStore, EntryCells, PairCells, write_cells
from wholedoc.store.shortlist import Shortlist
from wholedoc.training.recall import fit_length, fit_recall, learn_projection

HIDDEN, VOCABULARY = 5, 9
WORDS = [f"w{i}" for i in range(VOCABULARY - 4)]
VOCABULARIES = WordVocabulary([f"s{i}" for i in range(7)], "et"), WordVocabulary(WORDS, "en")


def make_recall(seed: int = 1, hidden: int = HIDDEN) -> Recall:
    """A recall with random numbers of a sensible size."""
    generator = torch.Generator().manual_seed(seed)
    recall = Recall(hidden).double()
    with torch.no_grad():
        for parameter in (recall.projection, recall.center, recall.scores, recall.gate):
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
    keys = torch.randint(-100, 100, (*shape, width), generator=generator).double()
    return Cells(
        keys,
        Cells.square(keys, mask),
        torch.randint(0, 4, shape, generator=generator),
        torch.rand(shape, generator=generator, dtype=torch.float64),
        torch.randint(0, 2, shape, generator=generator).double(),
        mask,
        mask & (torch.randint(0, 3, shape, generator=generator) > 0),
        types,
        torch.rand(len(counts), generator=generator, dtype=torch.float64),
    )


def logit(probability: float) -> float:
    """log(p / (1 − p)), with p kept off 0 and 1 by a millionth."""
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return math.log(kept / (1 - kept))


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
    approved = any(float(cells.approved[sentence, k]) for k in real)
    covered = float(cells.covered[sentence])
    if not real or (covered < 0.5 and not approved):
        return model
    distances, energies, values = [], [], []
    for k in real:
        key = cells.keys[sentence, k].tolist()
        distance = sum((q - x) ** 2 for q, x in zip(query, key, strict=True))
        match, origin = float(cells.match[sentence, k]), float(cells.approved[sentence, k])
        distances.append(distance)
        energies.append(-tau * distance + beta * match + delta * origin)
        values.append(int(cells.types[sentence, cells.words[sentence, k]]))
    total = sum(math.exp(energy - max(energies)) for energy in energies)
    weights = [math.exp(energy - max(energies)) / total for energy in energies]
    end = sum(p for p, y in zip(weights, values, strict=True) if y == EOS)
    q = [0.0] * len(model)
    for p, y in zip(weights, values, strict=True):
        if y != EOS:
            q[y] += p / (1 - end)
    best = max(range(len(q)), key=q.__getitem__)
    inputs = [
        1.0,
        math.log(tau * min(distances) + 0.1),
        logit(max(model)),
        logit(max(q)),
        math.log(model[best]),
        covered,
        sum(p * float(cells.match[sentence, k]) for p, k in zip(weights, real, strict=True)),
        sum(p * float(cells.approved[sentence, k]) for p, k in zip(weights, real, strict=True)),
    ]
    activation = sum(w * x for w, x in zip(recall.gate.tolist(), inputs, strict=True))
    gate = (1 - end) / (1 + math.exp(-activation))
    return [(1 - gate) * p + gate * r for p, r in zip(model, q, strict=True)]


def mixed(recall: Recall, features: Tensor, logits: Tensor, cells: Cells) -> Tensor:
    """P(y) by the code that search uses; a row for each sentence."""
    logits = logits.clone()
    total, _ = recall.mix(logits, features, cells)
    return torch.exp(logits - total[:, None])


def test_recall_equals_its_equation() -> None:
    recall, cells = make_recall(), make_cells([4, 0, 7, 2])
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(4, HIDDEN, generator=generator, dtype=torch.float64)
    logits = torch.randn(4, VOCABULARY, generator=generator, dtype=torch.float64)
    found = mixed(recall, features, logits, cells)
    model = torch.softmax(logits, dim=-1).tolist()
    for sentence in range(4):
        feature = features[sentence].tolist()
        expected = recall_by_hand(recall, feature, model[sentence], cells, sentence)
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
    torch.manual_seed(1)
    recall, cells = make_recall().float(), make_cells([3, 0])
    cells = dataclasses.replace(
        cells,
        keys=cells.keys.float(),
        squares=cells.squares.float(),
        covered=cells.covered.float(),
        match=cells.match.float(),
        approved=cells.approved.float(),
        types=torch.tensor([[EOS, 4, 5, 6], [PAD] * 4]),
    )
    logits, features = torch.randn(2, VOCABULARY), torch.randn(2, HIDDEN)
    total, changed = torch.logsumexp(logits, dim=-1), logits.clone()
    after, _ = recall.mix(changed, features, cells)
    assert after[1] == total[1]
    assert torch.equal(changed[1, 1:], logits[1, 1:])  # the column of padding is never produced
    assert not torch.equal(changed[0], logits[0])


@pytest.mark.parametrize("covered", [0.0, 0.49, 0.51])
def test_pairs_with_less_than_half_of_a_sentence_are_not_recalled(covered: float) -> None:
    recall, cells = make_recall(), make_cells([5, 5])
    approved = torch.tensor([[0.0] * 5, [0, 0, 1, 0, 0]], dtype=torch.float64)
    both = torch.tensor([covered, covered], dtype=torch.float64)
    cells = dataclasses.replace(cells, approved=approved, covered=both)
    features = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(5)).double()
    logits = torch.randn(2, VOCABULARY, generator=torch.Generator().manual_seed(6)).double()
    found = mixed(recall, features, logits, cells)
    model = torch.softmax(logits, dim=-1)
    assert torch.allclose(found[0], model[0], atol=1e-12) == (covered < 0.5)
    assert not torch.allclose(found[1], model[1], atol=1e-6)  # an approved pair always counts


def test_padding_cells_do_not_matter() -> None:
    recall, cells = make_recall(), make_cells([4, 7])
    features, logits = torch.randn(2, HIDDEN).double(), torch.randn(2, VOCABULARY).double()
    expected = mixed(recall, features, logits, cells)
    keys = cells.keys.masked_fill(~cells.mask[:, :, None], 100.0)
    other = dataclasses.replace(cells, keys=keys, squares=Cells.square(keys, cells.mask))
    found = mixed(recall, features, logits, other)
    torch.testing.assert_close(found, expected)


def test_where_the_pair_ends_the_model_decides() -> None:
    recall, cells = make_recall(), make_cells([3])
    ends = dataclasses.replace(cells, words=torch.zeros_like(cells.words))
    features, logits = torch.randn(1, HIDDEN).double(), torch.randn(1, VOCABULARY).double()
    torch.testing.assert_close(mixed(recall, features, logits, ends), torch.softmax(logits, dim=-1))


def test_inside_words_recall_equals_its_equation() -> None:
    recall, cells = make_recall(), make_cells([6, 0, 9])
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(3, 5, HIDDEN, generator=generator, dtype=torch.float64)
    logs = torch.randn(3, 5, VOCABULARY, generator=generator).double().log_softmax(dim=-1)
    words = torch.tensor([[4, 5, 6, 4, EOS], [5, 5, 4, 6, EOS], [6, 4, 4, 5, EOS]])
    own, surest = logs.gather(2, words[:, :, None])[:, :, 0], logs.amax(dim=-1).exp()
    log_types = logs.gather(2, cells.types[:, None].expand(-1, 5, -1))
    found = recall.follow(features, words, own, log_types, surest, cells)
    plain = recall(features, log_types, surest, cells)
    carried = 0
    for s in range(3):
        begun = [0.0] * cells.mask.shape[1]
        for j in range(5):
            rest = 1 - sum(begun)
            copies = [b + rest * c for b, c in zip(begun, plain.copies[s, j].tolist(), strict=True)]
            assert found.copies[s, j].tolist() == pytest.approx(copies)
            assert found.gate[s, j].item() == pytest.approx(sum(copies))
            values = [int(cells.types[s, place]) for place in cells.words[s]]
            share = [0.0] * 4
            for k, copy in enumerate(copies):
                share[int(cells.words[s, k])] += copy
            assert found.shares[s, j].tolist() == pytest.approx(share)
            word = int(words[s, j])
            recalled = sum(c for c, y in zip(copies, values, strict=True) if y == word)
            probability = (1 - sum(copies)) * math.exp(own[s, j]) + recalled
            begun = [0.0] * len(begun)
            for k in range(1, len(begun)):
                if bool(cells.inside[s, k]) and values[k - 1] == word:
                    begun[k] = 0.4 * copies[k - 1] / probability
                    carried += begun[k] > 0
    assert carried > 5
    assert not found.gate[1].any()


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


# Cells.


def pair(src: str, trg: str, coverage: float = 0.5) -> KnownPair:
    """An approved pair."""
    return KnownPair(src, trg, round(100 * coverage) // 2, coverage, coverage, "", 0, "")


@pytest.fixture
def recaller(make_model: MakeModel) -> Recaller:
    """A sentence model that recalls, in single precision."""
    return Recaller(make_model().float().eval(), make_recall().float(), VOCABULARIES)


KNOWN = [
    [pair("s1 s2 s3", "w1 w2"), pair("s4", "w3 w3", 0.9)],
    [],
    [pair("s2 s2", "w2 unseen w4")],
]


def test_cells_are_what_the_output_layer_saw_before_each_word(recaller: Recaller) -> None:
    model, recall = recaller.model, recaller.recall
    (cells,) = recaller.read([("s1 s2 s3", "w1 w2")])
    src = torch.tensor([[*VOCABULARIES[0].encode("s1 s2 s3"), EOS]])
    trg_in = torch.tensor([[2, *VOCABULARIES[1].encode("w1 w2")]])
    with torch.no_grad():
        decoded = model(src, torch.tensor([4]), trg_in)
        expected = recall.project(decoded.packed_features).round().clamp(-127, 127)
    assert cells.words.tolist() == [*VOCABULARIES[1].encode("w1 w2"), EOS]
    assert np.abs(cells.keys.astype(int) - expected.numpy()).max() <= 1  # of rounding


def test_cells_of_a_batch_are_those_of_its_sentences(recaller: Recaller) -> None:
    cells = recaller.cells(KNOWN, recaller.gather(KNOWN))
    assert cells is not None
    assert cells.mask.sum(dim=1).tolist() == [6, 0, 3]  # one word is unknown: it has no cell
    words = [cells.types[s, cells.words[s]][cells.mask[s]].tolist() for s in range(3)]
    encode = VOCABULARIES[1].encode
    assert words[0] == [*encode("w1 w2"), EOS, *encode("w3 w3"), EOS]
    assert words[2] == [*encode("w2"), *encode("w4"), EOS]
    assert UNK not in cells.types
    assert cells.covered.tolist() == pytest.approx([0.9, 0, 0.5])
    assert cells.match[0].tolist() == pytest.approx([0.25] * 3 + [0.45] * 3)
    row = recaller.row(KNOWN[0], recaller.gather(KNOWN))
    assert row.pairs.tolist() == [0, 0, 0, 1, 1, 1]
    assert row.places.tolist() == [0, 1, 2, 0, 1, 2]


def test_nobody_knows_anything(recaller: Recaller) -> None:
    assert recaller.cells([[], []], {}) is None
    assert look_up(recaller, [[], []])([0]) is None
    assert look_up(None, KNOWN)([0]) is None
    assert Recalls.of(recaller, [[], []]) is None


def test_stored_cells_come_back(tmp_path: Path) -> None:
    parts = {
        2: PairCells(np.arange(6, dtype=np.int8).reshape(2, 3), np.array([5, EOS], np.uint32)),
        5: PairCells(np.full((1, 3), -7, dtype=np.int8), np.array([70_000], np.uint32)),
    }
    entries = [EntryCells(number, f"s{number}", "t", cells) for number, cells in parts.items()]
    write_cells(tmp_path / "cells", 3, entries, 6)
    store = CellStore.open(tmp_path / "cells", 3)
    assert store is not None
    assert store.last_id == 6
    for number in range(9):
        found = store.get(number, f"s{number}", "t")
        assert store.get(number, "another text", "t") is None
        if number in parts:
            assert found is not None
            assert found.keys.tolist() == parts[number].keys.tolist()
            assert found.words.tolist() == parts[number].words.tolist()
        else:
            assert found is None
    assert CellStore.open(tmp_path / "cells", 4) is None  # of another width
    (tmp_path / "cells" / "keys").write_bytes(b"")
    assert CellStore.open(tmp_path / "cells", 3) is None  # damaged
    assert CellStore.open(tmp_path / "nothing", 3) is None


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("▁the ▁was her - d ry er .", "001111100"),
        ("▁the ▁was her - d ry er s -", "0011111100"),
        ("a b ▁( c d ) ▁... ▁e", "010110000"),
        ("▁. . ▁f", "0000"),
    ],
)
def test_pieces_inside_words(text: str, inside: str) -> None:
    """Marks at the end of a word are no part of it, and neither is ``</s>``."""
    pieces = [*text.split(), "</s>"]
    names = sorted(set(pieces))
    table = Pieces(
        np.array([not name.startswith(("▁", "<")) for name in names]),
        np.array([any(map(str.isalnum, name)) for name in names]),
    )
    tokens = np.array([names.index(piece) for piece in pieces])
    found = table.inside(tokens, np.arange(len(tokens)) == 0)
    assert "".join(str(int(each)) for each in found) == inside


# Search and scoring.

SRC = [[5, 6, 7, EOS], [4, EOS], [8, 9, 9, EOS]]
VARIANTS = {
    "sentence": ModelConfig(hidden=5, embedding=4, alignment=3),
    "context": ModelConfig(hidden=5, embedding=4, alignment=3, memory="both", fusion="context"),
    "output": ModelConfig(hidden=5, embedding=4, alignment=3, memory="both", fusion="output"),
    "jean2017": ModelConfig(hidden=5, embedding=4, alignment=3, context="jean2017"),
}


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("name", VARIANTS)
def test_what_search_finds_has_the_probability_that_scoring_gives(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch, name: str, beam: int, pieces: bool
) -> None:
    if pieces:  # each text is one word
        one_word = lambda _, tokens: [(0, len(tokens))]  # noqa: E731
        monkeypatch.setattr(WordVocabulary, "word_spans", one_word)
    model = make_model(VARIANTS[name]).float()
    recaller = Recaller(model, make_recall().float(), VOCABULARIES)
    assert look_up(recaller, KNOWN)([0, 1, 2]).inside.any() == pieces
    cells_of = look_up(recaller, KNOWN)
    config = SearchConfig(beam=beam, max_length_extra=3)
    predictor = Predictor(model, recaller=recaller)
    src, lengths = pad(SRC)
    found = search(predictor, src, lengths, config, cells=cells_of([0, 1, 2]))
    recalls = Recalls.of(recaller, KNOWN)
    targets = [list(best[0].tokens) for best in found]
    (scores,) = score_translations(model, [SRC], [targets], 1000, recalls=recalls)
    assert [best[0].log_probability for best in found] == pytest.approx(scores, abs=1e-4)
    plain = search(Predictor(model), src, lengths, config)
    (without,) = score_translations(model, [SRC], [targets], 1000)
    assert scores[1] == without[1]  # it knows nothing
    assert scores[0] != pytest.approx(without[0], abs=1e-4)
    assert found[1][0].tokens == plain[1][0].tokens
    assert found[1][0].log_probability == plain[1][0].log_probability
    for i in range(3):  # one by one as in a batch
        (alone,) = search(
            predictor, src[i : i + 1, : lengths[i]], lengths[i : i + 1], config, cells=cells_of([i])
        )
        assert alone[0].tokens == found[i][0].tokens
        assert alone[0].log_probability == pytest.approx(found[i][0].log_probability, abs=1e-4)


def test_recall_adds_to_the_length_penalty_of_those_who_recall(make_model: MakeModel) -> None:
    model, recall = make_model().float(), make_recall().float()
    recall.length.data.fill_(0.5)
    recaller = Recaller(model, recall, VOCABULARIES)
    config = SearchConfig(beam=3, length_penalty=0.7, max_length_extra=3)
    cells = look_up(recaller, KNOWN)([0, 1, 2])
    found = search(Predictor(model, recaller=recaller), *pad(SRC), config, 3, cells=cells)
    for hypotheses, penalty in zip(found, (1.2, 0.7, 1.2), strict=True):
        assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)
        for h in hypotheses:
            expected = h.log_probability / (len(h.tokens) + 1) ** penalty
            assert h.score == pytest.approx(expected, rel=1e-6)


def test_words_of_cells_are_allowed_whatever_the_shortlist_says(make_model: MakeModel) -> None:
    model = make_model().float()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[4:] = -20.0  # the model alone would say nothing
    recall = make_recall().float()
    with torch.no_grad():
        recall.gate.copy_(torch.tensor([9.0, *[0.0] * 7]))
    recaller = Recaller(model, recall, VOCABULARIES)
    known = [[pair("s1 s2 s3", "w4 w4 w4 w4 w4", 1.0)]]
    nothing = torch.zeros(0, dtype=torch.long)
    shortlist = Shortlist(nothing, nothing, nothing, (11, 9))
    config = SearchConfig(beam=2)
    cells = look_up(recaller, known)([0])
    (listed,) = search(
        Predictor(model, shortlist=shortlist, recaller=recaller), *pad(SRC[:1]), config, cells=cells
    )
    (every,) = search(Predictor(model, recaller=recaller), *pad(SRC[:1]), config, cells=cells)
    assert 8 in listed[0].tokens
    assert listed[0].tokens == every[0].tokens
    rounded = Predictor(model, EightBitProduct, shortlist, recaller)
    (compact,) = search(rounded, *pad(SRC[:1]), config, cells=cells)
    assert 8 in compact[0].tokens


# Fitting.


def test_projection_keeps_distances_and_fits_into_8_bits() -> None:
    generator = torch.Generator().manual_seed(1)
    features = torch.tanh(3 * torch.randn(400, 20, generator=generator)) + 0.5
    recall = Recall(20)
    with torch.no_grad():
        learn_projection(features, recall)
        keys = recall.project(features)
    unit = float(recall.projection[0].detach().norm())
    found = torch.cdist(keys[:20], keys[20:40]) / unit
    torch.testing.assert_close(found, torch.cdist(features[:20], features[20:40]))
    assert 90 < float(keys.abs().max()) <= 127
    again = Recall(20)
    with torch.no_grad():
        learn_projection(features.flip(0), again)
    torch.testing.assert_close(again.projection, recall.projection, atol=1e-2, rtol=0)


def test_fitting_opens_the_gate_for_what_is_known_and_closes_it_for_what_is_not(
    make_model: MakeModel,
) -> None:
    """References that are known pairs themselves are recalled; strangers are not."""
    model = make_model().float()
    generator = torch.Generator().manual_seed(4)
    sentences = [torch.randint(4, 9, (4,), generator=generator).tolist() for _ in range(30)]
    texts = [
        (VOCABULARIES[0].decode(s), VOCABULARIES[1].decode(list(reversed(s)))) for s in sentences
    ]
    encoder = Recaller(model, Recall(HIDDEN), VOCABULARIES)
    pairs = encoder._encode(texts)
    own = [[pair(*text, 1.0)] for text in texts]
    strangers = [[dataclasses.replace(own[(i + 7) % 30][0], together=0.05)] for i in range(30)]
    recall, fit = fit_recall(model, VOCABULARIES, pairs, [own, strangers])
    assert fit.after < 0.6 * fit.before
    recaller = Recaller(model, recall, VOCABULARIES)
    sources, targets = [p.src for p in pairs], [p.trg for p in pairs]
    totals = []
    for known in (own, [[] for _ in own], strangers):
        recalls = Recalls.of(recaller, known)
        (scores,) = score_translations(model, [sources], [targets], 1000, recalls=recalls)
        totals.append(math.fsum(scores) / 30)
    assert totals[0] > totals[1] + 2
    assert totals[2] > totals[1] - 0.5
    again, _ = fit_recall(model, VOCABULARIES, pairs, [own, strangers])
    both = zip(recall.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in both)


def test_the_added_length_penalty_is_the_one_with_the_highest_bleu(make_model: MakeModel) -> None:
    model, recall = make_model().float(), make_recall().float()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[EOS] = 0.5  # translations of all lengths
    recaller = Recaller(model, recall, VOCABULARIES)
    config = SearchConfig(beam=5, max_length_extra=3)
    generator = torch.Generator().manual_seed(1)
    sources = [[*s, EOS] for s in torch.randint(4, 9, (40, 6), generator=generator).tolist()]
    known = [[pair("s1 s2", "w1 w2 w3 w4")] for _ in sources]
    cells = look_up(recaller, known)(range(len(sources)))

    def translate(added: float) -> list[list[int]]:
        recall.length.data.fill_(added)
        predictor = Predictor(model, recaller=recaller)
        found = search(predictor, *pad(sources), config, cells=cells)
        return [list(best[0].tokens) for best in found]

    for wanted in (-0.2, 0.6):  # the references are what that penalty would choose
        targets = translate(wanted)
        assert targets != translate(0.0)
        pairs = [EncodedPair(*each) for each in zip(sources, targets, strict=True)]
        assert fit_length(recaller, pairs, [known, known], config) == wanted
    assert fit_length(recaller, pairs, [known, known], SearchConfig(beam=1)) == 0
    assert fit_length(recaller, pairs, [[[] for _ in pairs]], config) == 0


def test_the_worst_pairs_are_left_out_where_there_are_too_many(
    recaller: Recaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wholedoc.decoding.cells._MOST_CELLS", 6)
    weak = dataclasses.replace(pair("s1", "w1 w1", 0.3), memory=Path("tm"))
    known = [weak, dataclasses.replace(weak, coverage=0.6, trg="w2 w2"), pair("s3", "w3 w3", 0.1)]
    row = recaller.row(known, recaller.gather([known]))
    assert sorted(set(row.pairs.tolist())) == [1, 2]  # the approved one, and the better match
