"""The use of context: what reading is worth, against slow scores; which sentences are read."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_descent import DOCUMENTS, VARIANTS, make_system
from test_local import make_system as make_local_system
from test_scoring import TARGETS, TOKENS, alone, by_hand, states_by_hand
from torch import Tensor
from toy import read

from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.scoring import (
    ContextScores,
    generated_states,
    score_context,
    score_documents,
)
from wholedoc.errors import UserError
from wholedoc.metrics.context_use import measure_context_use, measure_gain, measure_reading
from wholedoc.model.memory import Readings

# Scores


def zeros(memory: str) -> Readings:
    """Readings that are zero, of the memories there are; a cell of the source memory is 2H wide."""
    src = torch.zeros(1, 12, dtype=torch.float64) if memory != "trg" else None
    trg = torch.zeros(1, 6, dtype=torch.float64) if memory != "src" else None
    return Readings(src, trg)


@torch.inference_mode()
def of_another(
    system: TranslationSystem, d: int, other: int, t: int, states: dict[int, Tensor]
) -> Readings:
    """What a sentence reads of another document, all of its cells."""
    model, sentence = system.model, DOCUMENTS[d][t]
    summary = model.encoder(torch.tensor([sentence]), torch.tensor([len(sentence)])).summary
    cells = model.source_memory(system.vectors(DOCUMENTS[other])) if system.vectors else None
    last_states = states[other] if model.target_query else None
    return read(model, summary, torch.tensor([t]), cells, last_states, (), states[d][t : t + 1])


@pytest.mark.parametrize(
    ("fusion", "name", "memory"),
    [*((*variant, "given") for variant in VARIANTS), ("context", "both", "generated")],
)
def test_every_condition_equals_a_slow_score(fusion: str, name: str, memory: str) -> None:
    system = make_system(fusion, name)
    found = score_context(system, DOCUMENTS, TARGETS, TOKENS, memory)
    before = {0: 3, 1: 0, 3: 1}  # document 2 is empty
    states = {
        d: states_by_hand(system, d, TARGETS[d])
        if memory == "given"
        else generated_states(system.base_predictor, DOCUMENTS[d])
        for d in before
    }
    for d, other in before.items():
        for t, (sentence, target) in enumerate(zip(DOCUMENTS[d], TARGETS[d], strict=True)):
            shuffled = of_another(system, d, other, t, states)
            slow = [
                by_hand(system, d, t, states[d], target),
                alone(system.model, sentence, target, zeros(name)),
                alone(system.base, sentence, target, None),
                alone(system.model, sentence, target, shuffled),
            ]
            scores = found[d]
            assert scores.shuffled is not None
            quick = (scores.document, scores.nothing, scores.sentence_model, scores.shuffled)
            assert [condition[t] for condition in quick] == pytest.approx(slow, abs=1e-9)
        assert found[d].words == [len(target) + 1 for target in TARGETS[d]]
    assert found[2] == ContextScores([], None, None, [], [], [], [])


def test_the_conditions_differ() -> None:
    """So that the test above has something to tell apart."""
    scores = score_context(make_system(), DOCUMENTS, TARGETS, TOKENS)[0]
    assert len({scores.document[0], scores.nothing[0], scores.sentence_model[0]}) == 3
    assert scores.shuffled is not None
    assert scores.shuffled[0] not in (scores.document[0], scores.nothing[0])


def test_progress_counts_every_condition() -> None:
    counts: list[tuple[int, int]] = []
    score_context(make_system(), DOCUMENTS, TARGETS, 6, progress=lambda *done: counts.append(done))
    words = sum(len(target) + 1 for document in TARGETS for target in document)
    assert [sum(column) for column in zip(*counts, strict=True)] == [4 * 8, 4 * words]


@pytest.mark.parametrize("context", ["prevtrg", "wang2017", "jean2017", "more"])
def test_local_contexts(context: str) -> None:
    system = make_local_system(context)
    documents, targets = DOCUMENTS[::3], TARGETS[::3]
    found = score_context(system, documents, targets, TOKENS)
    expected = score_documents(system, documents, targets, TOKENS)
    use = measure_context_use(["a", "b"], found, "given")
    assert [scores.document for scores in found] == expected
    assert use.source is None
    if context == "more":  # trained longer, but nothing is read
        assert (use.gain.cxmi, use.gain.shuffled_change) == (0, 0)
        assert use.gain.over_sentence_model != 0
    else:
        assert use.gain.cxmi != 0
        assert use.gain.shuffled_change != 0
    if context == "prevtrg":
        assert use.target is not None
        assert (use.target.readers, use.target.alone) == (5, 2)
        assert use.target.distances == {-1: 1.0}
        assert (use.target.entropy, use.target.effective) == (0, 1)
        assert use.target.others == pytest.approx((3 * 3 + 2 * 2) / 5)
    else:
        assert use.target is None


def test_one_document_has_no_other() -> None:
    (scores,) = score_context(make_system(), DOCUMENTS[:1], TARGETS[:1], TOKENS)
    assert scores.shuffled is None
    use = measure_context_use(["a"], [scores], "given")
    assert use.to_json()["shuffled_change"] is None
    assert any("no other document" in line for line in use.summary)


def test_a_sentence_model_uses_no_context() -> None:
    base = make_system().base
    with pytest.raises(UserError, match="reads no document"):
        score_context(TranslationSystem(base, base), DOCUMENTS, TARGETS, TOKENS)


# Measures


def made(*log2: tuple[float, ...], words: list[int]) -> ContextScores:
    """Scores from logarithms to base 2: one row per condition."""
    rows = [[math.log(2) * value for value in row] for row in log2]
    return ContextScores(words, None, None, rows[0], rows[1], rows[2], rows[3])


FIRST = made((-1, -2), (-4, -3), (-5, -4), (-9, -6), words=[2, 2])
SECOND = made((-3,), (-2,), (-3,), (-3,), words=[1])


def test_gains_are_in_bits_per_word() -> None:
    use = measure_context_use(["a", "b"], [FIRST, SECOND], "generated")
    # (−1 −2 −3) − (−4 −3 −2) = 3 bits over five words, and so on
    assert use.gain.words == 5
    assert use.gain.cxmi == pytest.approx(3 / 5)
    assert use.gain.over_sentence_model == pytest.approx(6 / 5)
    assert use.gain.shuffled_change == pytest.approx(-12 / 5)
    assert [document.gain.cxmi for document in use.documents] == pytest.approx([1, -1])
    assert "above 0 in 1 of 2 documents" in use.summary[1]
    assert "target-memory:generated" in use.signature
    assert use.signature in use.summary[-1]
    found = use.to_json()
    assert found["documents"][1] == {
        "name": "b",
        "sentences": [pytest.approx(-3 * math.log(2))],
        "words": 1,
        "cxmi": pytest.approx(-1),
        "over_sentence_model": 0,
        "shuffled_change": 0,
    }


def test_readings_counted_by_hand() -> None:
    weights = torch.tensor([[0, 0.5, 0.5], [1, 0, 0], [0.25, 0.75, 0]])
    found = measure_reading([weights, torch.zeros(1, 1), None])
    assert found is not None
    assert (found.readers, found.alone, found.others) == (3, 1, 2)
    assert found.distances == pytest.approx({-2: 0.25 / 3, -1: 1.75 / 3, 1: 0.5 / 3, 2: 0.5 / 3})
    assert found.uniform_distances == pytest.approx({-2: 1 / 6, -1: 1 / 3, 1: 1 / 3, 2: 1 / 6})
    entropies = [1, 0, 0.25 * 2 + 0.75 * math.log2(4 / 3)]
    assert found.entropy == pytest.approx(sum(entropies) / 3)
    assert found.effective == pytest.approx(sum(2**entropy for entropy in entropies) / 3)


def test_no_weights_and_nothing_read() -> None:
    assert measure_reading([None, None]) is None
    found = measure_reading([torch.zeros(1, 1)])
    assert found is not None
    assert (found.readers, found.alone, found.distances, found.effective) == (0, 1, {}, 0)


def test_far_sentences_share_a_line() -> None:
    weights = torch.zeros(9, 9)
    weights[:, 0] = 1.0
    weights[0] = 0.0
    source = ContextScores([1], weights, None, [-1.0], [-1.0], [-1.0])
    lines = measure_context_use(["a"], [source], "given").summary
    (far,) = [line for line in lines if line.strip().startswith("< -5")]
    assert far.split()[:4] == ["<", "-5", "37.5%", "9.4%"]  # 3 of 8 readings, 6 of 64 pairs
    assert "target memory: the model has no weights over its sentences" in lines


@st.composite
def documents(draw: st.DrawFn) -> list[Tensor]:
    """Weights of some documents, each row over the others."""
    drawn = []
    for size in draw(st.lists(st.integers(2, 6), min_size=1, max_size=3)):
        scores = torch.tensor(
            draw(st.lists(st.floats(-9, 9), min_size=size * size, max_size=size * size)),
            dtype=torch.float64,
        ).view(size, size)
        drawn.append(torch.softmax(scores.fill_diagonal_(-math.inf), dim=-1))
    return drawn


@given(documents())
@settings(max_examples=60, deadline=None)
def test_properties_of_a_reading(weights: list[Tensor]) -> None:
    found = measure_reading(weights)
    assert found is not None
    for shares in (found.distances, found.uniform_distances):
        assert math.fsum(shares.values()) == pytest.approx(1)
        assert 0 not in shares
    assert found.distances.keys() <= found.uniform_distances.keys()
    assert 1 - 1e-9 <= found.effective <= found.others + 1e-9
    assert 2**found.entropy <= found.effective + 1e-9  # the mean of powers is no less
    turned = measure_reading([document.flip(0, 1) for document in weights])  # read from the end
    assert turned is not None
    mirrored = {-distance: share for distance, share in turned.distances.items()}
    assert mirrored == pytest.approx(found.distances)


@given(st.lists(st.integers(2, 7), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_uniform_weights_read_everyone(sizes: list[int]) -> None:
    found = measure_reading([(1 - torch.eye(size)) / (size - 1) for size in sizes])
    assert found is not None
    assert found.distances == pytest.approx(found.uniform_distances)
    assert found.effective == pytest.approx(found.others)


documents_of_scores = st.lists(
    st.lists(st.tuples(*[st.floats(-90, 0)] * 4), min_size=1, max_size=4), min_size=1, max_size=4
)


@given(documents_of_scores)
@settings(max_examples=60, deadline=None)
def test_the_whole_is_the_mean_of_its_documents_by_words(
    drawn: list[list[tuple[float, ...]]],
) -> None:
    parts = [made(*zip(*rows, strict=True), words=[2] * len(rows)) for rows in drawn]
    whole = measure_gain(parts)
    gains = [measure_gain([part]) for part in parts]
    for name in ("cxmi", "over_sentence_model", "shuffled_change"):
        mean = math.fsum(gain.words * getattr(gain, name) for gain in gains) / whole.words
        assert getattr(whole, name) == pytest.approx(mean, abs=1e-9)
