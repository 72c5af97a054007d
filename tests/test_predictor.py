"""The decoder of search against the plain one, and its products against torch's."""

import pytest
import torch

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.predictor import Predictor
from wholedoc.model.memory import Readings, gather_readings

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
            expected_state, expected, weights = model.decoder.predict(expected_state, words, source)
            state, logits, found = predictor.step(state, words, sentences, predictor.outputs)
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
            state, logits, weights = predictor.step(state, words, sentences, predictor.outputs)
            assert logits[:, :9].isfinite().all()
            torch.testing.assert_close(weights.sum(dim=-1), torch.ones(3, 1))
