"""The decoder of search against the plain one, and its products against torch's."""

import re

import pytest
import torch
from toy import predict
from typer.testing import CliRunner

from wholedoc.cli import app
from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import search
from wholedoc.kernels import EightBitProduct, ExactProduct
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.shortlist import Shortlist

SIZES = {"hidden": 6, "embedding": 5, "alignment": 4}
SRC = [[4, 5, 6, 7, EOS], [8, EOS], [9, 10, 4, EOS]]
VARIANTS = {
    "sentence": ModelConfig(**SIZES),
    "learned start": ModelConfig(**SIZES, initial_state="encoder"),
    "context": ModelConfig(**SIZES, memory="both", fusion="context"),
    "output": ModelConfig(**SIZES, memory="both", fusion="output"),
    "previous words": ModelConfig(**SIZES, context="jean2017"),
}


def readings_of(config: ModelConfig) -> Readings:
    """Readings of three sentences, of all kinds that a variant may look at."""
    generator = torch.Generator().manual_seed(3)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    words = tuple(random(length, 12) for length in (2, 4, 1))
    return Readings(random(3, 12), random(3, 6), words=words if config.context != "none" else None)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_steps_equal_those_of_the_decoder(make_model, config: ModelConfig, width: int) -> None:
    model = make_model(config, (11, 37))
    readings = readings_of(config)
    predictor = Predictor(model)
    rows = torch.arange(len(SRC)).repeat_interleave(width)
    with torch.inference_mode():
        encoding = model.encoder(*pad([SRC[row] for row in rows]))
        expected_state = model.decoder.start(encoding)
        source = model.decoder.prepare(encoding, gather_readings([readings], rows))
        state, sentences = predictor.start(*pad(SRC), readings)
        state = state.select(rows)
        words = torch.full_like(rows, BOS)
        for step in range(3):
            expected_state, expected, weights = predict(
                model.decoder, expected_state, words, source
            )
            state, logits, found, _ = predictor.step(state, words, sentences)
            assert logits.shape[-1] == 64
            assert logits[:, 37:].eq(-torch.inf).all()
            torch.testing.assert_close(torch.log_softmax(logits, dim=-1)[:, :37], expected)
            torch.testing.assert_close(found.flatten(0, 1), weights)
            torch.testing.assert_close(state.lower, expected_state.lower)
            torch.testing.assert_close(state.upper, expected_state.upper)
            words = 4 + (words + step + torch.arange(len(words))) % 33


def test_attention_is_sure_of_itself_where_exponentials_run_over(make_model) -> None:
    """Keys and queries far beyond what a tanh can tell apart."""
    model = make_model(VARIANTS["sentence"]).float()
    with torch.no_grad():
        model.decoder.attention.key.weight.mul_(1e4)
        model.decoder.attention.query.weight.mul_(1e4)
    state, sentences = Predictor(model).start(*pad(SRC), None)
    words = torch.tensor([4, 5, 6])
    predictor = Predictor(model)
    with torch.inference_mode():
        for _ in range(3):
            state, logits, weights, _ = predictor.step(state, words, sentences)
            assert logits[:, :9].isfinite().all()
            torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 1))


# Products in 8 bits.


def test_products_in_8_bits_are_near_exact_ones() -> None:
    generator = torch.Generator().manual_seed(4)
    weight = torch.randn(40, 24, generator=generator)
    bias = torch.randn(40, generator=generator)
    inputs = torch.rand(7, 24, generator=generator) * 2 - 1
    found = EightBitProduct(weight, bias)(inputs)
    # Each input is off by half of 1/63 at most, each weight by half of its row's largest / 127.
    scales = weight.abs().amax(dim=1) / 127
    bound = weight.abs().sum(dim=1) / 126 + 24 * scales / 2 + 24 * scales / 252
    error = (found - ExactProduct(weight, bias)(inputs)).abs()
    assert (error <= bound + 1e-5).all()
    assert error.mean() < 0.05


def test_a_row_in_8_bits_does_not_depend_on_the_others() -> None:
    generator = torch.Generator().manual_seed(5)
    product = EightBitProduct(torch.randn(40, 24, generator=generator))
    inputs = torch.rand(50, 24, generator=generator) * 2 - 1
    alone = torch.cat([product(row[None]) for row in inputs])
    torch.testing.assert_close(product(inputs), alone, rtol=0, atol=1e-6)


def test_the_engine_of_torch_stays_as_it_was() -> None:
    before = torch.backends.quantized.engine
    EightBitProduct(torch.eye(4))
    assert torch.backends.quantized.engine == before


def test_8_bits_are_promised_to_be_faster_only_where_they_are() -> None:
    """Without VNNI they are about as fast as prepared matrices in 32 bits."""
    shown = " ".join(CliRunner().invoke(app, ["translate", "--help"]).output.split())
    assert "processors with VNNI" in re.sub(r"[│\s]+", " ", shown)


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_steps_in_8_bits_predict_nearly_the_same(config: ModelConfig) -> None:
    model = TranslationModel(config, 11, 37).eval()
    initialise(model, seed=2)
    read = readings_of(config)
    words = None if read.words is None else tuple(states.float() for states in read.words)
    readings = Readings(read.src.float(), read.trg.float(), words=words)
    found: list[list[torch.Tensor]] = [[], []]
    with torch.inference_mode():
        for steps, product in zip(found, (ExactProduct, EightBitProduct), strict=True):
            predictor = Predictor(model, product)
            state, sentences = predictor.start(*pad(SRC), readings)
            for word in (BOS, 4, 20, 36):
                state, logits, _, _ = predictor.step(state, torch.full((3,), word), sentences)
                steps.append(torch.log_softmax(logits, dim=-1)[:, :37])
    exact, rounded = (torch.stack(steps) for steps in found)
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.05)
    assert not torch.equal(rounded, exact)


# Shortlists.


def test_a_sentence_may_have_the_words_of_its_shortlist_and_those_of_all() -> None:
    shortlist = Shortlist(
        torch.tensor([9]), torch.tensor([7, 5, 6, 5]), torch.tensor([20, 12, 12, 4]), (8, 30)
    )
    more = torch.tensor([[0, 0], [0, 0], [25, 0]])
    allowed = shortlist.allow(torch.tensor([[5, EOS, 4], [6, 7, EOS], [EOS, 4, 4]]), more)
    words = [sentence.nonzero()[:, 0].tolist() for sentence in allowed]
    assert words == [[0, 1, 2, 3, 4, 9, 12], [0, 1, 2, 3, 9, 12, 20], [0, 1, 2, 3, 9, 25]]


@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_shortlist_is_that_of_the_sentence_whatever_its_batch(
    make_model, config: ModelConfig
) -> None:
    model = make_model(config, (11, 37))
    src = torch.arange(4, 11).repeat_interleave(4)
    shortlist = Shortlist(torch.tensor([5, 8]), src, torch.arange(9, 37), (11, 37))
    predictor, settings = Predictor(model, shortlist=shortlist), SearchConfig(beam=3)
    readings = readings_of(config)
    together = search(predictor, *pad(SRC), settings, 3, readings)
    for t, found in enumerate(together):
        own = gather_readings([readings], torch.tensor([t]))
        (alone,) = search(predictor, *pad(SRC[t : t + 1]), settings, 3, own)
        assert [h.tokens for h in found] == [h.tokens for h in alone]


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_a_shortlist_of_all_words_changes_nothing(
    make_model, config: ModelConfig, beam: int
) -> None:
    model = make_model(config, (11, 37))
    nothing = torch.empty(0, dtype=torch.long)
    every_word = Shortlist(torch.arange(37), nothing, nothing, (11, 37))
    exact, listed = (
        search(
            Predictor(model, shortlist=shortlist), *pad(SRC), SearchConfig(beam=beam), beam,
            readings_of(config),
        )
        for shortlist in (None, every_word)
    )  # fmt: skip
    for found, expected in zip(listed, exact, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected])


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS)
def test_only_words_of_the_shortlist_are_produced(
    make_model, config: ModelConfig, beam: int
) -> None:
    """And their probabilities are those of a model whose vocabulary has no others."""
    model = make_model(config, (11, 37))
    nothing = torch.empty(0, dtype=torch.long)
    allowed = [0, 1, 2, 3, 8, 13, 21, 36]
    shortlist = Shortlist(torch.tensor(allowed), nothing, nothing, (11, 37))
    settings = SearchConfig(beam=beam)
    found = search(
        Predictor(model, shortlist=shortlist), *pad(SRC), settings, 1, readings_of(config)
    )
    others = [word for word in range(37) if word not in allowed]
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[others] = -1e9
    expected = search(Predictor(model), *pad(SRC), settings, 1, readings_of(config))
    assert [h.tokens for [h] in found] == [h.tokens for [h] in expected]
    assert [h.score for [h] in found] == pytest.approx([h.score for [h] in expected])
    assert {word for [h] in found for word in h.tokens} <= set(allowed)
