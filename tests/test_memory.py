"""The memories and fusions, against loops written from the paper."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from toy import padded, read

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.model.memory import Readings, SourceMemory, read_memory
from wholedoc.model.translation import TranslationModel, initialise, measure_sizes

# Table 3, increments over S-NMT in millions, for (source, target) vocabularies.
TABLE_3 = {
    (25_100, 21_000): (6.3, 1.3, 7.6, 26.2, 11.3, 37.5),
    (45_100, 34_700): (6.3, 1.3, 7.6, 40.3, 18.3, 58.6),
    (48_600, 24_900): (6.3, 1.3, 7.6, 30.2, 13.3, 43.5),
}
VARIANTS = [
    ("context", "src"),
    ("context", "trg"),
    ("context", "both"),
    ("output", "src"),
    ("output", "trg"),
    ("output", "both"),
]


def values(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("vocabularies", TABLE_3)
def test_increments_are_those_of_table_3(vocabularies: tuple[int, int]) -> None:
    base, *sizes = measure_sizes(ModelConfig(), *vocabularies)
    assert (base.fusion, base.memory) == ("none", "none")
    assert [(size.fusion, size.memory) for size in sizes] == VARIANTS
    increments = [(size.parameters - base.parameters) / 1e6 for size in sizes]
    assert increments == pytest.approx(TABLE_3[vocabularies], abs=0.1)


@given(count=st.integers(2, 9), seed=st.integers(0, 99))
def test_reading_is_the_papers_mean_over_the_other_cells(count: int, seed: int) -> None:
    cells, queries = values(count, 4, seed=seed), values(count, 4, seed=seed + 100)
    readings, weights = read_memory(cells, queries, torch.arange(count))
    for t in range(count):
        others = [k for k in range(count) if k != t]
        raised = {
            k: math.exp(
                sum(a * b for a, b in zip(queries[t].tolist(), cells[k].tolist(), strict=True))
            )
            for k in others
        }
        total = sum(raised.values())
        for k in range(count):
            assert weights[t, k].item() == pytest.approx(raised.get(k, 0.0) / total, abs=1e-12)
        for d in range(4):
            mean = sum(raised[k] / total * cells[k, d].item() for k in others)
            assert readings[t, d].item() == pytest.approx(mean, abs=1e-12)
            column = [cells[k, d].item() for k in others]
            assert min(column) - 1e-12 <= readings[t, d].item() <= max(column) + 1e-12


def test_a_sentence_never_reads_its_own_cell() -> None:
    cells, queries = values(5, 3), values(5, 3, seed=1)
    before, _ = read_memory(cells, queries, torch.arange(5))
    for t in range(5):
        changed = cells.clone()
        changed[t] = 1e6
        after, weights = read_memory(changed, queries, torch.arange(5))
        assert torch.equal(before[t], after[t])
        assert weights[t, t] == 0


def test_a_sentence_alone_reads_zero_without_harming_gradients() -> None:
    cells, queries = values(1, 3).requires_grad_(), values(1, 3, seed=1).requires_grad_()
    reading, weights = read_memory(cells, queries, torch.zeros(1, dtype=torch.long))
    assert reading.eq(0).all()
    assert weights.eq(0).all()


def test_some_queries_read_what_they_read_among_all() -> None:
    cells, queries = values(6, 3), values(6, 3, seed=1)
    everything, _ = read_memory(cells, queries, torch.arange(6))
    some = torch.tensor([4, 1])
    torch.testing.assert_close(read_memory(cells, queries[some], some)[0], everything[some])


def test_gradient_of_a_reading() -> None:
    own = torch.arange(4)
    inputs = (values(4, 3).requires_grad_(), values(4, 3, seed=1).requires_grad_())
    assert torch.autograd.gradcheck(lambda c, q: read_memory(c, q, own)[0], inputs)


def document_model(fusion: str, memory: str, *, scaled: bool = False) -> TranslationModel:
    sizes = {"hidden": 5, "embedding": 4, "alignment": 3}
    config = ModelConfig(**sizes, fusion=fusion, memory=memory, scaled=scaled)
    model = TranslationModel(config, 11, 9).double().eval()
    initialise(model, seed=3)
    return model


SMALL = ModelConfig(hidden=5, embedding=4, alignment=3)
SRC = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0]])
LENGTHS = torch.tensor([4, 3])
TRG = torch.tensor([[2, 4, 5], [2, 6, 7]])


@pytest.mark.parametrize(("fusion", "memory"), VARIANTS)
def test_zero_readings_equal_the_sentence_model_bit_for_bit(fusion: str, memory: str) -> None:
    model = document_model(fusion, memory)
    zero = Readings(
        torch.zeros(2, 10, dtype=torch.float64) if memory != "trg" else None,
        torch.zeros(2, 5, dtype=torch.float64) if memory != "src" else None,
    )
    assert_nothing_is_added(model, zero)


@pytest.mark.parametrize(("fusion", "memory"), VARIANTS)
def test_with_its_entrances_closed_it_is_the_sentence_model_bit_for_bit(
    fusion: str, memory: str
) -> None:
    model = document_model(fusion, memory)
    entrances = model.decoder.fusion.entrances()
    assert len(entrances) == (2 if memory == "both" else 1)
    for matrix in entrances:
        torch.nn.init.zeros_(matrix.weight)
    assert_nothing_is_added(model, Readings(values(2, 10, seed=5), values(2, 5, seed=6)))


def assert_nothing_is_added(model: TranslationModel, readings: Readings) -> None:
    alone = model(SRC, LENGTHS, TRG)
    read = model(SRC, LENGTHS, TRG, readings)
    assert torch.equal(alone.packed_features, read.packed_features)
    assert alone.logits is None
    assert read.logits is None or read.logits.eq(0).all()


@pytest.mark.parametrize("memory", ["src", "trg", "both"])
def test_memory_to_context_adds_the_readings_to_every_gate(memory: str) -> None:
    model = document_model("context", memory)
    readings = Readings(values(2, 10, seed=5), values(2, 5, seed=6))
    source = model.decoder.prepare(model.encoder(SRC, LENGTHS), readings)
    assert source.gates is not None
    assert source.logits is None
    for t in range(2):
        for g in range(15):
            expected = 0.0
            if memory != "trg":
                row = model.decoder.fusion.source.weight[g]
                expected += sum((row[d] * readings.src[t, d]).item() for d in range(10))
            if memory != "src":
                row = model.decoder.fusion.target.weight[g]
                expected += sum((row[d] * readings.trg[t, d]).item() for d in range(5))
            assert source.gates[t, g].item() == pytest.approx(expected, abs=1e-12)
    # What enters the gates is what a step by hand gets from a word with that much added.
    encoding = model.encoder(SRC, LENGTHS)
    words = model.decoder.word(model.decoder.embedding(TRG.T)) + source.gates
    inputs = model.decoder.step_inputs(
        words.flatten(0, 1), [2] * len(words), model.decoder.start(encoding), source.attended
    )
    states, _, _ = model.decoder.step_by_step(inputs)
    read_here = model(SRC, LENGTHS, TRG, readings)
    expected = states.view(len(words), 2, -1).transpose(0, 1) * (TRG != PAD)[:, :, None]
    torch.testing.assert_close(padded(read_here)[2], expected)


@pytest.mark.parametrize("memory", ["src", "trg", "both"])
def test_memory_to_output_adds_the_readings_to_the_logits(memory: str) -> None:
    model = document_model("output", memory)
    readings = Readings(values(2, 10, seed=5), values(2, 5, seed=6))
    alone, read = model(SRC, LENGTHS, TRG), model(SRC, LENGTHS, TRG, readings)
    assert torch.equal(alone.packed_features, read.packed_features)
    assert read.logits is not None
    for t in range(2):
        for word in range(9):
            expected = 0.0
            if memory != "trg":
                row = model.decoder.fusion.source.weight[word]
                expected += sum((row[d] * readings.src[t, d]).item() for d in range(10))
            if memory != "src":
                row = model.decoder.fusion.target.weight[word]
                expected += sum((row[d] * readings.trg[t, d]).item() for d in range(5))
            assert read.logits[t, word].item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("fusion", "memory"), VARIANTS)
def test_a_document_reads_its_memories_by_the_formulas(fusion: str, memory: str) -> None:
    model = document_model(fusion, memory)
    summaries, last_states, vectors = values(4, 10), values(4, 5, seed=2), values(4, 10, seed=4)
    cells = model.source_memory(vectors) if model.source_memory is not None else None
    trg_cells = last_states if memory != "src" else None
    found = read(model, summaries, torch.arange(4), cells, trg_cells)
    if cells is not None:
        expected, _ = read_memory(cells, summaries, torch.arange(4))
        torch.testing.assert_close(found.src, expected)
    else:
        assert found.src is None
    if trg_cells is not None:
        queries = last_states + summaries @ model.target_query.source.weight.T
        expected, _ = read_memory(last_states, queries, torch.arange(4))
        torch.testing.assert_close(found.trg, expected)
    else:
        assert found.trg is None


def test_no_gradient_goes_into_target_cells() -> None:
    model = document_model("context", "trg")
    last_states = values(4, 5).requires_grad_()
    found = read(model, values(4, 10), torch.arange(4), None, last_states)
    found.trg.sum().backward()
    assert last_states.grad is None
    assert model.target_query.source.weight.grad.abs().sum() > 0


def test_scaled_scores_are_divided_by_the_root_of_the_width() -> None:
    cells, queries, own = values(5, 4), values(5, 4, seed=1), torch.arange(5)
    found = read_memory(cells, queries, own, scaled=True)
    torch.testing.assert_close(found, read_memory(cells, queries / 2, own))
    alone, _ = read_memory(cells[:1], queries[:1], own[:1], scaled=True)
    assert alone.eq(0).all()


@pytest.mark.parametrize("scaled", [False, True])
def test_both_memories_are_read_as_configured(scaled: bool) -> None:
    model = document_model("context", "both", scaled=scaled)
    cells, summaries, states = values(4, 10), values(4, 10, seed=1), values(4, 5)
    own = torch.arange(4)
    found = read(model, summaries, own, cells, states)
    src, src_weights = read_memory(cells, summaries, own, scaled=scaled)
    trg, _ = read_memory(states, model.target_query(states, summaries), own, scaled=scaled)
    torch.testing.assert_close((found.src, found.trg), (src, trg))
    torch.testing.assert_close(found.src_weights, src_weights)


def test_standard_vectors_have_mean_0_and_deviation_1() -> None:
    memory = SourceMemory(replace(SMALL, vectors="standard")).double()
    raw = SourceMemory(SMALL).double()
    initialise(memory, 1)
    raw.rnn.load_state_dict(memory.rnn.state_dict())
    vectors = values(6, 10) * 3 + 5
    mean, deviation = vectors.mean(dim=0), vectors.std(dim=0, correction=0)
    memory.standardise(torch.stack((mean, deviation)))
    torch.testing.assert_close(memory(vectors), raw((vectors - mean) / deviation))
    assert not memory.moments.requires_grad
    before = raw(vectors)
    raw.standardise(torch.stack((mean, deviation)))  # not asked for: nothing happens
    assert torch.equal(raw(vectors), before)


def test_cells_of_another_document_are_all_read() -> None:
    cells, queries = values(3, 4), values(5, 4, seed=1)
    reading, weights = read_memory(cells, queries, None)
    torch.testing.assert_close(weights, torch.softmax(queries @ cells.T, dim=-1))
    torch.testing.assert_close(reading, weights @ cells)


def test_source_memories_of_several_documents_are_those_of_each() -> None:
    memory = document_model("context", "src").source_memory
    sizes = [3, 1, 4]
    documents = [values(size, 10, seed=size) for size in sizes]
    together = memory(torch.cat(documents), sizes)
    torch.testing.assert_close(together, torch.cat([memory(document) for document in documents]))


def test_the_document_rnn_drops_its_input_and_its_output() -> None:
    memory = SourceMemory(SMALL, dropout=0.5).double().train()
    initialise(memory, 1)
    vectors = values(40, 10)
    masks: list[Tensor] = []
    drop = memory.dropout.forward

    def spy(given: Tensor) -> Tensor:
        dropped = drop(given)
        masks.append(torch.where(given == 0, 1, dropped / given))
        return dropped

    memory.dropout.forward = spy  # type: ignore[method-assign]
    torch.manual_seed(1)
    cells = memory(vectors)
    assert [tuple(mask.shape) for mask in masks] == [(40, 10), (40, 10)]
    for mask in masks:
        assert sorted(set(mask.flatten().round(decimals=6).tolist())) == [0.0, 2.0]
        assert 0.3 < mask.eq(0).double().mean() < 0.7
    assert cells[masks[1] == 0].eq(0).all()
    assert cells.ne(0).any()
    memory.dropout.forward = drop  # type: ignore[method-assign]
    memory.eval()
    assert memory(vectors).ne(0).all()
