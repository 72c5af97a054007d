"""The training loss against its formula, term by term."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import Batch
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.model.translation import TranslationModel
from wholedoc.training.objective import sentence_loss

SRC = [[4, 5, 6, 7], [8], [], [9, 10, 4]]
TRG = [[4, 5], [], [6, 7, 8, 4, 5], [1, 8]]
WORDS = sum(len(sentence) + 1 for sentence in TRG)

sentences = st.lists(st.integers(4, 8), max_size=5)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def model(make_model) -> TranslationModel:
    return make_model()


def distributions(
    model: TranslationModel, src: Sequence[int], trg: Sequence[int]
) -> list[list[float]]:
    """log P(· | y_<j, x) for each y_j of one sentence, ``</s>`` last."""
    with torch.no_grad():
        decoded = model(
            torch.tensor([[*src, EOS]]), torch.tensor([len(src) + 1]), torch.tensor([[BOS, *trg]])
        )
        return model.decoder.log_probabilities(decoded.packed_features).tolist()


def nats_of(model: TranslationModel, src: Sequence[int], trg: Sequence[int]) -> float:
    return -sum(
        log_probabilities[word]
        for log_probabilities, word in zip(distributions(model, src, trg), [*trg, EOS], strict=True)
    )


def test_loss_is_the_sum_over_sentences_and_words(model, make_pairs) -> None:
    loss = sentence_loss(model, make_pairs(SRC, TRG))
    expected = sum(nats_of(model, src, trg) for src, trg in zip(SRC, TRG, strict=True))
    assert loss.nats == pytest.approx(expected, abs=1e-10)
    assert loss.smoothed.item() == loss.nats
    assert loss.words == WORDS


@pytest.mark.parametrize("smoothing", [0.1, 0.5, 0.95])
def test_smoothing_spreads_probability_evenly(model, make_pairs, smoothing: float) -> None:
    """−Σ_j Σ_w q_j(w) log P(w) with q_j = (1 − ε) [w = y_j] + ε / V."""
    expected = 0.0
    for src, trg in zip(SRC, TRG, strict=True):
        for log_probabilities, word in zip(
            distributions(model, src, trg), [*trg, EOS], strict=True
        ):
            even = smoothing / len(log_probabilities)
            for w, value in enumerate(log_probabilities):
                expected -= (even + (1 - smoothing) * (w == word)) * value
    loss = sentence_loss(model, make_pairs(SRC, TRG), smoothing)
    assert loss.smoothed.item() == pytest.approx(expected, abs=1e-10)
    assert loss.nats == pytest.approx(sentence_loss(model, make_pairs(SRC, TRG)).nats, abs=1e-10)


def padded(batch: Batch, src: int, trg: int) -> Batch:
    return replace(
        batch,
        src=nn.functional.pad(batch.src, (0, src), value=PAD),
        trg_in=nn.functional.pad(batch.trg_in, (0, trg), value=PAD),
        trg_out=nn.functional.pad(batch.trg_out, (0, trg), value=PAD),
    )


@given(pairs, st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 0.2]))
@settings(deadline=None, max_examples=25)
def test_padding_is_never_counted(
    model, make_pairs, given_pairs, src_padding: int, trg_padding: int, smoothing: float
) -> None:
    batch = padded(make_pairs(*zip(*given_pairs, strict=True)), src_padding, trg_padding)
    loss = sentence_loss(model, batch, smoothing)
    alone = [sentence_loss(model, make_pairs([src], [trg]), smoothing) for src, trg in given_pairs]
    assert loss.nats == pytest.approx(sum(one.nats for one in alone), abs=1e-9)
    assert loss.smoothed.item() == pytest.approx(sum(x.smoothed.item() for x in alone), abs=1e-9)
    assert loss.words == sum(len(trg) + 1 for _, trg in given_pairs)


def test_padding_sends_no_gradient(make_model, make_pairs) -> None:
    model = make_model()
    gradients = []
    for batch in (make_pairs(SRC, TRG), padded(make_pairs(SRC, TRG), 3, 3)):
        model.zero_grad()
        sentence_loss(model, batch, 0.1).smoothed.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_perplexity_is_per_word_with_the_end_of_the_sentence(make_pairs) -> None:
    """A model that knows nothing has a perplexity of the size of its vocabulary."""
    model = TranslationModel(ModelConfig(hidden=5, embedding=4, alignment=3), 11, 9).double()
    with torch.no_grad():
        model.decoder.output.vocabulary.weight.zero_()
        model.decoder.output.vocabulary.bias.zero_()
    loss = sentence_loss(model, make_pairs(SRC, TRG))
    assert math.exp(loss.nats / loss.words) == pytest.approx(9, abs=1e-9)
    assert loss.nats == pytest.approx(WORDS * math.log(9), abs=1e-9)
