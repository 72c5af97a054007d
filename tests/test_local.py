"""The local baselines: their formulas, how far they look, and all stages of their training."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import toy
from safetensors.torch import load_file
from torch import Tensor, nn
from toy import DOCUMENT_SETTINGS, stopped_training, toy_config, translate_twice

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.search import search
from wholedoc.errors import UserError
from wholedoc.kernels import pack
from wholedoc.model.attention import Attended
from wholedoc.model.fusion import Source
from wholedoc.model.local import CONTEXTS
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.run import Run
from wholedoc.training.stages import train

SIZES = {"hidden": 6, "embedding": 5, "alignment": 4}
WINDOWS = {"jean2017": 1, "wang2017": 3, "prevtrg": 1, "more": 0}
READING = [name for name, window in WINDOWS.items() if window]
DOCUMENT = [[4, 5, 6, EOS], [7, EOS], [5, 8, 9, EOS], [6, 4, EOS], [EOS], [9, 7, 8, EOS]]
NO_SOURCE = Source(Attended(*torch.zeros(2, 1, 1, 1), torch.tensor([[True]])))
TARGETS = [[4, 5], [6], [7, 8, 4], [5], [], [8, 6]]
DOCUMENTS = [DOCUMENT, [[9, 8, EOS]], [], [[8, EOS], [EOS], [4, 7, 6, 5, EOS]]]
SEARCH = SearchConfig(beam=1, passes=1, max_length_factor=1.5, max_length_extra=2)


def values(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(context: str, seed: int = 10, dropout: float = 0.0) -> TranslationModel:
    """A model whose every weight is so large that context changes words."""
    model = TranslationModel(ModelConfig(**SIZES, context=context), 11, 9, dropout).double().eval()
    initialise(model, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3).add_(values(*parameter.shape, seed=seed) / 10)
    return model


def read(
    model: TranslationModel,
    own: Sequence[int],
    sentences: Sequence[list[int]] = DOCUMENT,
    last_states: Tensor | None = None,
) -> Readings:
    """What some sentences of a document read; summaries are not looked at."""
    if last_states is None:
        last_states = values(len(sentences), 6, seed=9)
    summaries = torch.full((len(own), 12), math.nan, dtype=torch.float64)
    return toy.read(model, summaries, torch.tensor(own), None, last_states, sentences)


def log_probabilities(
    model: TranslationModel, own: Sequence[int], readings: Readings | None
) -> Tensor:
    """Of the target words of some sentences, by the steps of search."""
    src, lengths = pad([DOCUMENT[t] for t in own])
    words, _ = pad([[BOS, *TARGETS[t]] for t in own])
    encoding = model.encoder(src, lengths)
    source = model.decoder.prepare(encoding, readings)
    state, found = model.decoder.start(encoding), []
    for word in words.T:
        state, scores, _ = toy.predict(model.decoder, state, word, source)
        found.append(scores)
    return torch.stack(found, dim=1)


def sentence_model(model: TranslationModel) -> TranslationModel:
    """S-NMT with the same weights."""
    alone = TranslationModel(ModelConfig(**SIZES), 11, 9).double().eval()
    known = alone.state_dict().keys()
    alone.load_state_dict({k: v for k, v in model.state_dict().items() if k in known})
    return alone


# Formulas.


def product(matrix: Tensor, vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix.tolist()]


def gru_step(rnn: nn.GRU, word: Sequence[float], state: Sequence[float]) -> list[float]:
    def gates(matrix: Tensor, vector: Sequence[float], bias: Tensor) -> list[float]:
        return [a + b for a, b in zip(product(matrix, vector), bias.tolist(), strict=True)]

    given = gates(rnn.weight_ih_l0, word, rnn.bias_ih_l0)
    kept = gates(rnn.weight_hh_l0, state, rnn.bias_hh_l0)
    new = []
    for d, old in enumerate(state):
        reset, update = (1 / (1 + math.exp(-given[g] - kept[g])) for g in (d, d + 6))
        value = math.tanh(given[d + 12] + reset * kept[d + 12])
        new.append((1 - update) * value + update * old)
    return new


def test_wang2017_is_a_gru_over_three_grus() -> None:
    model = make("wang2017")
    fusion = model.decoder.fusion
    found = read(model, range(6))
    gates = fusion.add(NO_SOURCE, found).gates
    assert found.src.shape == (6, 6)
    for t in range(6):
        state = [0.0] * 6
        for k in range(max(0, t - 3), t):
            sentence = [0.0] * 6
            for word in DOCUMENT[k]:
                embedded = model.encoder.embedding.weight[word].tolist()
                sentence = gru_step(fusion.word, embedded, sentence)
            state = gru_step(fusion.sentence, sentence, state)
        assert found.src[t].tolist() == pytest.approx(state, abs=1e-12)
        assert gates[t].tolist() == pytest.approx(product(fusion.enter.weight, state), abs=1e-12)


def test_prevtrg_reads_the_cell_before() -> None:
    model, states = make("prevtrg"), values(6, 6)
    found = read(model, range(6), last_states=states)
    assert found.trg[0].eq(0).all()
    assert torch.equal(found.trg[1:], states[:-1])
    assert torch.equal(found.trg_weights, torch.eye(6, dtype=torch.float64).roll(-1, 1).tril())
    gates = model.decoder.fusion.add(NO_SOURCE, found).gates
    for t in range(1, 6):
        expected = product(model.decoder.fusion.enter.weight, states[t - 1].tolist())
        assert gates[t].tolist() == pytest.approx(expected, abs=1e-12)


def test_jean2017_attends_to_the_words_before() -> None:
    model = make("jean2017")
    fusion = model.decoder.fusion
    own = [3, 0, 1]
    found = read(model, own)
    assert [tuple(words.shape) for words in found.words] == [(4, 12), (1, 12), (4, 12)]
    projected, states = values(3, 18, seed=1), values(3, 12, seed=2)
    looked = projected + fusion.look(states, fusion.add(NO_SOURCE, found).words)
    assert torch.equal(looked[1], projected[1])
    for row, t in ((0, 3), (2, 1)):
        src = torch.tensor([DOCUMENT[t - 1]])
        packing = pack(torch.tensor([src.shape[1]]))
        hidden, _ = fusion.rnn(model.encoder.embedding(src[0]), packing)
        query = product(fusion.attention.query.weight, states[row].tolist())
        raised = []
        for state in hidden:
            key = product(fusion.attention.key.weight, state.tolist())
            energies = [math.tanh(a + b) for a, b in zip(key, query, strict=True)]
            raised.append(math.exp(product(fusion.attention.score.weight, energies)[0]))
        context = [
            sum(a * h for a, h in zip(raised, column, strict=True)) / sum(raised)
            for column in hidden.T.tolist()
        ]
        added = product(fusion.enter.weight, context)
        assert (looked - projected)[row].tolist() == pytest.approx(added, abs=1e-10)


def test_more_reads_nothing_and_has_no_parameters() -> None:
    model = make("more")
    assert read(model, range(6)) == Readings()
    assert model.state_dict().keys() == sentence_model(model).state_dict().keys()


# What all have in common.


@pytest.mark.parametrize("context", WINDOWS)
def test_search_steps_equal_reading_whole_sentences(context: str) -> None:
    model, own = make(context), range(6)
    readings = read(model, own)
    src, lengths = pad(DOCUMENT)
    trg_in, trg_lengths = pad([[BOS, *words] for words in TARGETS])
    decoded = model(src, lengths, trg_in, readings)
    scores = model.decoder.log_probabilities(toy.padded(decoded)[0])
    expected = log_probabilities(model, own, readings)
    for t, length in enumerate(trg_lengths.tolist()):
        torch.testing.assert_close(scores[t, :length], expected[t, :length])


@pytest.mark.parametrize("context", WINDOWS)
def test_the_first_sentence_is_translated_by_the_sentence_model(context: str) -> None:
    model = make(context)
    own = [0, 2, 0] if context != "more" else [0, 0]
    found = log_probabilities(model, own, read(model, own))
    expected = log_probabilities(sentence_model(model), own, None)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[-1], expected[-1])
    alone = log_probabilities(model, [0], read(model, [0], DOCUMENT[:1]))
    torch.testing.assert_close(alone[0], expected[0, : alone.shape[1]])


@pytest.mark.parametrize("context", WINDOWS)
def test_without_readings_it_is_the_sentence_model_bit_for_bit(context: str) -> None:
    model = make(context)
    found = log_probabilities(model, range(6), None)
    assert torch.equal(found, log_probabilities(sentence_model(model), range(6), None))


@pytest.mark.parametrize("context", WINDOWS)
def test_with_its_entrances_closed_it_is_the_sentence_model_bit_for_bit(context: str) -> None:
    model = make(context)
    assert len(model.decoder.fusion.entrances()) == (context != "more")
    for matrix in model.decoder.fusion.entrances():
        nn.init.zeros_(matrix.weight)
    found = log_probabilities(model, range(6), read(model, range(6)))
    assert torch.equal(found, log_probabilities(sentence_model(model), range(6), None))


@pytest.mark.parametrize("t", range(6))
@pytest.mark.parametrize("context", WINDOWS)
def test_it_looks_as_far_as_its_window(context: str, t: int) -> None:
    model, states = make(context), values(6, 6, seed=9)
    before = log_probabilities(model, [t], read(model, [t]))
    for k in range(6):
        sentences, changed = list(DOCUMENT), states.clone()
        sentences[k] = [10] * (len(DOCUMENT[k]) - 1) + [4]
        changed[k] += 1
        after = log_probabilities(model, [t], read(model, [t], sentences, changed))
        assert torch.equal(before, after) == (not t - WINDOWS[context] <= k < t)


@pytest.mark.parametrize("context", WINDOWS)
def test_some_sentences_read_what_they_read_among_all(context: str) -> None:
    model = make(context)
    everything = log_probabilities(model, range(6), read(model, range(6)))
    for own in ([3], [5, 1], [0], [4, 0, 2]):
        found = log_probabilities(model, own, read(model, own))
        torch.testing.assert_close(found, everything[own, : found.shape[1]])


@pytest.mark.parametrize("context", WINDOWS)
def test_sentences_of_several_documents_share_a_batch(context: str) -> None:
    model = make(context)
    states = values(6, 6)
    short = read(model, range(2), DOCUMENT[:2], states[:2])
    long = read(model, range(6), DOCUMENT, states)
    rows = torch.tensor([4, 1, 7])
    found = log_probabilities(model, [2, 1, 5], gather_readings([short, Readings(), long], rows))
    expected = log_probabilities(model, range(6), long)
    torch.testing.assert_close(found, expected[[2, 1, 5], : found.shape[1]])


@pytest.mark.parametrize("context", READING)
def test_every_new_parameter_gets_a_gradient(context: str) -> None:
    model = make(context, dropout=0.1).train()
    torch.manual_seed(1)
    states = values(6, 6).requires_grad_()
    readings = read(model, range(6), last_states=states)
    src, lengths = pad(DOCUMENT)
    trg_in, _ = pad([[BOS, *words] for words in TARGETS])
    model(src, lengths, trg_in, readings).packed_features.sin().sum().backward()
    new = dict(model.decoder.fusion.named_parameters())
    assert new
    assert [name for name, p in new.items() if p.grad is None or not p.grad.abs().sum()] == []
    assert states.grad is None


@pytest.mark.parametrize("context", ["jean2017", "wang2017"])
def test_source_embeddings_are_shared(context: str) -> None:
    model = make(context)
    found = read(model, [1], [[10, EOS], [4, EOS]])
    (found.src if found.src is not None else found.words[0]).sum().backward()
    rows = model.encoder.embedding.weight.grad.abs().sum(dim=-1).nonzero().flatten()
    assert rows.tolist() == [EOS, 10]


def test_gates_of_the_plain_grus_are_initialised_one_by_one() -> None:
    model = TranslationModel(ModelConfig(hidden=40, context="wang2017"), 11, 9)
    initialise(model, seed=1)
    weight = model.decoder.fusion.sentence.weight_ih_l0
    assert weight.abs().max().item() == pytest.approx((6 / 80) ** 0.5, rel=0.02)


# Decoding.


def make_system(context: str) -> TranslationSystem:
    return TranslationSystem(make(context), make("none", seed=2))


def tokens(descent: DocumentTranslation, number: int = -1) -> list[tuple[int, ...]]:
    return [best[0].tokens for best in descent.passes[number]]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize("context", WINDOWS)
def test_a_pass_equals_one_written_by_hand(context: str, order: str, beam: int) -> None:
    system, config = make_system(context), replace(SEARCH, order=order, beam=beam)
    found = translate_documents(system, DOCUMENTS, config)
    turned = translate_documents(system, DOCUMENTS[::-1], config)[::-1]
    for document, descent, again in zip(DOCUMENTS, found, turned, strict=True):
        if not document:
            continue
        assert tokens(descent) == tokens(again)
        states = [best[0].last_state for best in descent.passes[0]]
        for t, sentence in enumerate(document):
            src, lengths = pad([sentence])
            readings = read(system.model, [t], document, torch.stack(states))
            (first,) = search(system.base_predictor, src, lengths, config)
            (best,) = search(system.predictor, src, lengths, config, 1, readings)
            assert tokens(descent, 0)[t] == first[0].tokens
            assert tokens(descent)[t] == best[0].tokens
            if order == "sequential":
                states[t] = best[0].last_state


@pytest.mark.parametrize("context", READING)
def test_context_changes_words(context: str) -> None:
    """So that the test above has something to tell apart."""
    system = make_system(context)
    (found,) = translate_documents(system, [DOCUMENT], SEARCH)
    alone = [translate_documents(system, [[s]], SEARCH)[0] for s in DOCUMENT]
    assert tokens(found) != [tokens(descent)[0] for descent in alone]


@pytest.mark.parametrize("context", ["jean2017", "wang2017", "more"])
def test_what_reads_the_source_alone_settles_after_one_pass(context: str) -> None:
    for descent in translate_documents(make_system(context), DOCUMENTS, replace(SEARCH, passes=9)):
        if descent.sentences:
            assert len(descent.passes) <= 3
            assert tokens(descent, -1) == tokens(descent, 1)
            assert descent.objective[-1] == pytest.approx(descent.objective[0])


@pytest.mark.parametrize("context", READING)
def test_the_objective_is_the_log_probability_of_all_given_all(context: str) -> None:
    system = make_system(context)
    (found,) = translate_documents(system, [DOCUMENT], SEARCH)
    states = torch.stack([best[0].last_state for best in found.passes[-1]])
    total = 0.0
    for t, sentence in enumerate(DOCUMENT):
        words = tokens(found)[t]
        trg_in = torch.tensor([[BOS, *words]])
        readings = read(system.model, [t], DOCUMENT, states)
        decoded = system.model(*pad([sentence]), trg_in, readings)
        scores = system.model.decoder.log_probabilities(decoded.packed_features)
        total += sum(scores[j, word].item() for j, word in enumerate((*words, EOS)))
    assert found.objective == pytest.approx([total], abs=1e-9)


# Training.


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def alone(corpus: Path) -> Run:
    return train(toy_config(corpus, *DOCUMENT_SETTINGS), corpus / "alone")


def weights(run: Run, stage: str) -> dict[str, Tensor]:
    return load_file(run.stage(stage).best)


@pytest.mark.parametrize("context", WINDOWS)
def test_it_trains_resumes_exactly_and_translates(
    context: str, corpus: Path, alone: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = toy_config(
        corpus, *DOCUMENT_SETTINGS, f"model.context={context}", "stage2.update_tokens=100"
    )
    run = train(config, tmp_path / "run")
    before, after = weights(run, "stage1"), weights(run, "stage2")
    assert all(torch.equal(v, before[k]) for k, v in weights(alone, "stage1").items())
    assert [k for k, v in before.items() if torch.equal(v, after[k])] == []
    assert (after.keys() > before.keys()) == (context != "more")

    rows = {path.name.split("-")[0] for path in (run.directory / "data").glob("*.f32")}
    assert rows == ({"train.generated", "dev.generated"} if context == "prevtrg" else set())

    stopped_training(config, tmp_path / "again", "stage2", monkeypatch)
    resumed = weights(train(config, tmp_path / "again"), "stage2")
    assert all(torch.equal(value, after[name]) for name, value in resumed.items())

    found = translate_twice(run, alone)
    assert found.source_weights is None
    assert (found.target_weights is None) == (context != "prevtrg")


@pytest.mark.parametrize("context", WINDOWS)
def test_a_context_goes_without_memories(context: str, corpus: Path) -> None:
    assert context in CONTEXTS
    with pytest.raises(UserError, match=rf"model\.context = '{context}' does not go with") as error:
        toy_config(corpus, f"model.context={context}", "model.memory=src", "model.fusion=context")
    assert "model.memory='none'" in error.value.fix
    with pytest.raises(UserError, match=r"does not go with model\.fusion"):
        toy_config(corpus, f"model.context={context}", "model.fusion=output")


def test_no_such_context(corpus: Path) -> None:
    with pytest.raises(UserError, match=r"did you mean 'wang2017'"):
        toy_config(corpus, "model.context=wang2018")
