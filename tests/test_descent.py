"""Block coordinate descent: what it promises, on small random models."""

from dataclasses import replace

import pytest
import torch
from toy import read

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.vocabulary import EOS
from wholedoc.decoding import descent as descent_module
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.search import search
from wholedoc.errors import UserError
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise

SIZES = {"hidden": 6, "embedding": 5, "alignment": 4}
CONFIG = SearchConfig(beam=1, passes=1, max_length_factor=1.5, max_length_extra=2)
DOCUMENTS = [
    [[4, 5, 6, EOS], [7, 4, EOS], [5, 5, 8, 9, EOS], [6, EOS]],
    [[9, 8, EOS]],
    [],
    [[8, EOS], [EOS], [4, 7, 6, 5, EOS]],
]
VARIANTS = [(f, m) for f in ("context", "output") for m in ("src", "trg", "both")]


def make_system(fusion: str = "context", memory: str = "both") -> TranslationSystem:
    config = ModelConfig(**SIZES, fusion=fusion, memory=memory)
    base = TranslationModel(config.without_context(), 11, 9).double()
    model = TranslationModel(config, 11, 9).double()
    vectors = SentenceVectors(11, config).double() if memory != "trg" else None
    for seed, module in enumerate((base, model, vectors)):
        if module is None:
            continue
        initialise(module, seed)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(3)  # large enough that context changes words
    return TranslationSystem(model.eval(), base.eval(), vectors)


def tokens(descent: DocumentTranslation, number: int = -1) -> list[tuple[int, ...]]:
    return [best[0].tokens for best in descent.passes[number]]


def alone(model: TranslationModel, sentence: list[int]) -> tuple[int, ...]:
    found = search(
        Predictor(model), torch.tensor([sentence]), torch.tensor([len(sentence)]), CONFIG
    )
    return found[0][0].tokens


@pytest.mark.parametrize(("fusion", "memory"), VARIANTS)
def test_zero_passes_equal_the_sentence_model(fusion: str, memory: str) -> None:
    system = make_system(fusion, memory)
    found = translate_documents(system, DOCUMENTS, replace(CONFIG, passes=0))
    for document, descent in zip(DOCUMENTS, found, strict=True):
        assert len(descent.passes) == 1
        assert tokens(descent) == [alone(system.base, sentence) for sentence in document]


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize(("fusion", "memory"), VARIANTS)
def test_a_pass_equals_one_written_from_the_paper(fusion: str, memory: str, order: str) -> None:
    system = make_system(fusion, memory)
    document = DOCUMENTS[0]
    (found,) = translate_documents(system, [document], replace(CONFIG, order=order))
    model = system.model
    current = [best[0].last_state for best in found.passes[0]]
    if system.vectors is not None:
        cells = model.source_memory(torch.stack([system.vectors([s])[0] for s in document]))
    expected, new = [], list(current)
    for t, sentence in enumerate(document):
        seen = current if order == "parallel" else new
        src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
        summary = model.encoder(src, lengths).summary
        states = torch.stack(seen) if memory != "src" else None
        readings = read(
            model, summary, torch.tensor([t]), cells if memory != "trg" else None, states
        )
        best = search(Predictor(model), src, lengths, CONFIG, 1, readings)[0][0]
        expected.append(best.tokens)
        new[t] = best.last_state
    assert tokens(found) == expected


def test_the_pass_changes_something() -> None:
    """So that the tests above have something to tell apart."""
    found = translate_documents(make_system(), DOCUMENTS, CONFIG)
    assert any(tokens(descent, 0) != tokens(descent, 1) for descent in found if descent.sentences)


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_other_documents_change_nothing(order: str) -> None:
    system, config = make_system(), replace(CONFIG, order=order, passes=2)
    together = translate_documents(system, DOCUMENTS, config)
    turned = translate_documents(system, DOCUMENTS[::-1], config)[::-1]
    for document, a, b in zip(DOCUMENTS, together, turned, strict=True):
        (single,) = translate_documents(system, [document], config)
        assert tokens(a) == tokens(b) == tokens(single)


def test_a_document_of_one_sentence_reads_nothing() -> None:
    system = make_system()
    (found,) = translate_documents(system, [DOCUMENTS[1]], CONFIG)
    assert tokens(found) == [alone(system.model, DOCUMENTS[1][0])]
    assert found.readings.src.eq(0).all()
    assert found.readings.trg.eq(0).all()


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_it_stops_at_a_fixed_point_which_is_one(order: str) -> None:
    system, config = make_system(), replace(CONFIG, passes=50, order=order)
    found = translate_documents(system, DOCUMENTS, config)
    for descent in found:
        if descent.sentences and len(descent.passes) <= 50:
            assert descent.settled
            assert tokens(descent, -1) == tokens(descent, -2)
            more = translate_documents(system, [descent.sentences], replace(config, passes=60))
            assert tokens(more[0]) == tokens(descent)


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_a_settled_document_is_left_alone(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search_all = descent_module.search

    def spy(predictor, src, lengths, *rest):  # type: ignore[no-untyped-def]
        searched.append(len(src))
        return search_all(predictor, src, lengths, *rest)

    monkeypatch.setattr(descent_module, "search", spy)
    config = replace(CONFIG, passes=8, order=order)
    found = translate_documents(make_system(), DOCUMENTS, config)
    lengths = {len(document.passes) for document in found if document.sentences}
    assert len(lengths) > 1  # some settle before others
    for document in found:
        for number in range(2, len(document.passes)):
            assert tokens(document, number - 1) != tokens(document, number - 2)
    assert sum(searched) == sum(len(d.sentences) * len(d.passes) for d in found)


def test_an_objective_that_is_not_measured_changes_nothing() -> None:
    config = replace(CONFIG, passes=2)
    measured, plain = (
        translate_documents(make_system(), DOCUMENTS, config, measure=measure)
        for measure in (True, False)
    )
    for one, other in zip(measured, plain, strict=True):
        assert tokens(one) == tokens(other)
        assert len(one.passes) == len(other.passes)
        assert other.objective == []


def test_the_objective_is_the_log_probability_of_all_given_all() -> None:
    system = make_system()
    document = DOCUMENTS[0]
    (found,) = translate_documents(system, [document], replace(CONFIG, passes=2))
    assert len(found.objective) == len(found.passes) - 1
    model = system.model
    cells = model.source_memory(system.vectors(document))
    states = torch.stack([best[0].last_state for best in found.passes[-1]])
    total = 0.0
    for t, sentence in enumerate(document):
        src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
        summary = model.encoder(src, lengths).summary
        readings = read(model, summary, torch.tensor([t]), cells, states)
        words = [*found.passes[-1][t][0].tokens, EOS]
        decoded = model(src, lengths, torch.tensor([[2, *words[:-1]]]), readings)
        scores = model.decoder.log_probabilities(decoded.packed_features)
        total += sum(scores[j, word].item() for j, word in enumerate(words))
    assert found.objective[-1] == pytest.approx(total, abs=1e-9)


def test_the_first_pass_may_read_the_source_memory_alone() -> None:
    system = make_system(memory="both")
    config = replace(CONFIG, passes=0, first_pass="document")
    found = translate_documents(system, DOCUMENTS, config)
    for document, descent in zip(DOCUMENTS, found, strict=True):
        if not document:
            continue
        cells = system.model.source_memory(system.vectors(document))
        for t, sentence in enumerate(document):
            src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
            summary = system.model.encoder(src, lengths).summary
            readings = read(system.model, summary, torch.tensor([t]), cells, None)
            best = search(system.predictor, src, lengths, CONFIG, 1, readings)[0][0]
            assert tokens(descent)[t] == best.tokens


def test_the_first_pass_may_be_the_document_models() -> None:
    system = make_system(memory="trg")
    config = replace(CONFIG, passes=0, first_pass="document")
    found = translate_documents(system, DOCUMENTS, config)
    for document, descent in zip(DOCUMENTS, found, strict=True):
        assert tokens(descent) == [alone(system.model, sentence) for sentence in document]


def test_weights_tell_whom_each_sentence_read() -> None:
    for order in ("parallel", "sequential"):
        (found,) = translate_documents(make_system(), [DOCUMENTS[0]], replace(CONFIG, order=order))
        for weights in (found.readings.src_weights, found.readings.trg_weights):
            assert weights.shape == (4, 4)
            assert weights.diagonal().eq(0).all()
            torch.testing.assert_close(weights.sum(dim=-1), torch.ones(4, dtype=torch.float64))


@pytest.mark.parametrize("order", ["parallel", "sequential"])
@pytest.mark.parametrize("memory", ["src", "trg", "both"])
def test_with_shuffled_memory_a_document_reads_all_cells_of_another(
    memory: str, order: str
) -> None:
    system = make_system("context", memory)
    config = replace(CONFIG, order=order, shuffle_memory=True)
    documents = [document for document in DOCUMENTS if document]
    found = translate_documents(system, documents, config)
    model = system.model
    current = [[best[0].last_state for best in descent.passes[0]] for descent in found]
    for d in range(len(documents)) if order == "parallel" else [0]:
        other = documents[d - 1]
        cells = model.source_memory(system.vectors(other)) if memory != "trg" else None
        states = torch.stack(current[d - 1]) if memory != "src" else None
        for t, sentence in enumerate(
            documents[d][: len(documents[d]) if order == "parallel" else 1]
        ):
            src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
            summary = model.encoder(src, lengths).summary
            own = current[d][t][None]
            readings = read(model, summary, torch.tensor([t]), cells, states, (), own)
            best = search(Predictor(model), src, lengths, CONFIG, 1, readings)[0][0]
            assert tokens(found[d])[t] == best.tokens
            for weights in (readings.src_weights, readings.trg_weights):
                if weights is not None:
                    assert weights.shape == (1, len(other))
                    assert weights.gt(0).all()


def test_a_document_that_reads_another_goes_on_as_long_as_that_may_change() -> None:
    config = replace(CONFIG, passes=3, shuffle_memory=True)
    documents = [document for document in DOCUMENTS if document]
    found = translate_documents(make_system(), documents, config)
    assert [len(document.passes) for document in found] == [4] * len(documents)


def test_shuffled_memory_needs_another_document() -> None:
    with pytest.raises(UserError, match="no other document"):
        translate_documents(make_system(), DOCUMENTS[:1], replace(CONFIG, shuffle_memory=True))


def test_a_model_without_memory_has_none_to_shuffle() -> None:
    base = make_system().base
    with pytest.raises(UserError, match="reads no document"):
        translate_documents(
            TranslationSystem(base, base), DOCUMENTS, replace(CONFIG, shuffle_memory=True)
        )


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_many_sentences_are_read_in_parts(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system, config = make_system(), replace(CONFIG, order=order)
    (whole,) = translate_documents(system, [DOCUMENTS[0]], config)
    monkeypatch.setattr("wholedoc.decoding.document.MOST_WEIGHED", 2)
    (parts,) = translate_documents(system, [DOCUMENTS[0]], config)
    assert tokens(parts) == tokens(whole)
    torch.testing.assert_close(parts.readings.src, whole.readings.src)
    torch.testing.assert_close(parts.readings.trg, whole.readings.trg)
    assert parts.readings.src_weights is None
