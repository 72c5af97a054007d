"""Greedy and beam search against slow searches that read every prefix anew."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.decoding import search as search_module
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import Hypothesis, beam, length_caps, search
from wholedoc.model.decoder import Decoded
from wholedoc.model.translation import TranslationModel

GREEDY = SearchConfig(beam=1, max_length_factor=1.5, max_length_extra=2)
SRC = [[4, 5, 6, 7], [8], [], [9, 10, 4, 4, 5, 6], [6, 6], [10, 4, 9]]
SEEDS = range(1, 5)

Words = tuple[int, ...]

sentences = st.lists(st.integers(1, 10).filter(lambda word: word not in (BOS, EOS)), max_size=6)


@pytest.fixture(scope="session")
def models(make_model) -> dict[int, TranslationModel]:
    """Models of all tempers: some stop at once, some never."""
    config = ModelConfig(hidden=5, embedding=4, alignment=3, initial_state="encoder")
    return {seed: make_model(config, seed=seed) for seed in SEEDS}


def search_ids(
    model: TranslationModel, src: Sequence[Sequence[int]], config: SearchConfig, nbest: int = 1
) -> list[list[Hypothesis]]:
    return search(Predictor(model), *pad([[*sentence, EOS] for sentence in src]), config, nbest)


# The reference: everything that depends on a prefix comes from reading that prefix from its start.


def read(model: TranslationModel, src: Sequence[int], prefix: Sequence[int]) -> Decoded:
    ids, lengths = pad([[*src, EOS]])
    with torch.inference_mode():
        return model(ids, lengths, torch.tensor([[BOS, *prefix]]))


def next_words(model: TranslationModel, src: Sequence[int], prefix: Sequence[int]) -> list[float]:
    return _next_words(model, tuple(src), tuple(prefix))


@cache
def _next_words(model: TranslationModel, src: Words, prefix: Words) -> list[float]:
    features = read(model, src, prefix).packed_features[-1]
    with torch.inference_mode():
        found: list[float] = model.decoder.log_probabilities(features).tolist()
    return found


def log_probability(model: TranslationModel, src: Sequence[int], trg: Sequence[int]) -> float:
    whole = [*trg, EOS]
    return sum(next_words(model, src, whole[:j])[word] for j, word in enumerate(whole))


def cap_of(src: Sequence[int], config: SearchConfig) -> int:
    if not src:
        return 0
    return math.ceil(config.max_length_factor * len(src)) + config.max_length_extra


def allowed(log_probabilities: Sequence[float], done: int, cap: int) -> dict[int, float]:
    """Words that may come after so many: at the cap the end alone, and never an empty sentence."""
    if done == cap:
        return {EOS: log_probabilities[EOS]}
    never = (PAD, BOS, EOS) if done == 0 else (PAD, BOS)
    return {w: value for w, value in enumerate(log_probabilities) if w not in never}


def greedy_slowly(
    model: TranslationModel, src: Sequence[int], config: SearchConfig
) -> tuple[list[int], float]:
    words: list[int] = []
    total = 0.0
    while True:
        choices = allowed(next_words(model, src, words), len(words), cap_of(src, config))
        best = max(choices, key=lambda word: choices[word])
        total += choices[best]
        if best == EOS:
            return words, total
        words.append(best)


@dataclass
class Finished:
    words: list[int]
    log_probability: float

    def score(self, length_penalty: float) -> float:
        return self.log_probability / (len(self.words) + 1) ** length_penalty


def beam_slowly(
    model: TranslationModel, src: Sequence[int], config: SearchConfig, nbest: int
) -> list[Finished]:
    """Keep the ``width`` best unfinished prefixes; end with as many finished ones, or at the cap.

    All continuations of all prefixes are ranked by log-probability; ``</s>`` finishes a hypothesis
    where it ranks among the first ``width``.
    """
    width = max(config.beam, nbest)
    prefixes: list[tuple[list[int], float]] = [([], 0.0)]
    finished: list[Finished] = []
    for step in range(cap_of(src, config) + 1):
        ranked = sorted(
            (
                (total + value, prefix, word)
                for prefix, total in prefixes
                for word, value in allowed(
                    next_words(model, src, prefix), step, cap_of(src, config)
                ).items()
            ),
            reverse=True,
        )
        ends = [found for found in ranked[:width] if found[2] == EOS]
        finished += [Finished(prefix, total) for total, prefix, _ in ends]
        if len(finished) >= width:
            break
        prefixes = [([*prefix, word], total) for total, prefix, word in ranked if word != EOS]
        prefixes = prefixes[:width]
    finished.sort(key=lambda found: -found.score(config.length_penalty))
    return finished[:nbest]


def close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def same(found: Hypothesis, expected: Hypothesis) -> None:
    assert found.tokens == expected.tokens
    assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-9)
    assert found.score == pytest.approx(expected.score, abs=1e-9)
    close(found.attention, expected.attention)
    close(found.last_state, expected.last_state)


# Greedy.


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_takes_the_best_word_at_each_step(models, seed: int) -> None:
    for src, [found] in zip(SRC, search_ids(models[seed], SRC, GREEDY), strict=True):
        words, total = greedy_slowly(models[seed], src, GREEDY)
        assert found.tokens == tuple(words)
        assert found.log_probability == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_beam_of_one_is_greedy(models, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    greedy = search_ids(models[seed], SRC, GREEDY)
    monkeypatch.setattr(search_module, "greedy", partial(beam, width=1))
    for [found], [expected] in zip(search_ids(models[seed], SRC, GREEDY), greedy, strict=True):
        same(found, expected)


def test_the_models_end_early_and_late(models) -> None:
    """The comparisons above and below cover both ways a hypothesis can end."""
    lengths = {
        len(found.tokens) - cap_of(src, GREEDY)
        for model in models.values()
        for src, [found] in zip(SRC, search_ids(model, SRC, GREEDY), strict=True)
        if src
    }
    assert 0 in lengths
    assert min(lengths) < 0


# Beam.


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("width", "nbest"), [(2, 1), (3, 3), (2, 4)])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
def test_beam_equals_a_slow_one(
    models, seed: int, width: int, nbest: int, length_penalty: float
) -> None:
    config = replace(GREEDY, beam=width, length_penalty=length_penalty)
    for src, found in zip(SRC, search_ids(models[seed], SRC, config, nbest), strict=True):
        expected = beam_slowly(models[seed], src, config, nbest)
        assert [list(hypothesis.tokens) for hypothesis in found] == [e.words for e in expected]
        for hypothesis, reference in zip(found, expected, strict=True):
            assert hypothesis.log_probability == pytest.approx(reference.log_probability, abs=1e-9)
            assert hypothesis.score == pytest.approx(reference.score(length_penalty), abs=1e-9)


@pytest.mark.parametrize("width", [1, 3])
def test_a_large_vocabulary_is_searched_like_a_small_one(make_model, width: int) -> None:
    """Large enough that its words are looked at in columns, some of which end early."""
    model = make_model(vocabularies=(11, 75))
    config = replace(GREEDY, beam=width)
    for src, found in zip(SRC, search_ids(model, SRC, config, width), strict=True):
        expected = beam_slowly(model, src, config, width)
        assert [list(hypothesis.tokens) for hypothesis in found] == [e.words for e in expected]


@pytest.mark.parametrize("size", [32, 96, 4000 + 32])
def test_the_best_continuations_are_those_of_all_words(size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    logits = torch.randn(4 * 3, size, generator=generator)
    offsets = torch.randn(4, 3, generator=generator)
    offsets[1, 1:] = -math.inf  # as at the first step
    totals = (logits.view(4, 3, size) + offsets[:, :, None]).flatten(1)
    expected, places = totals.topk(6)
    best, rows, words = search_module._best(logits, offsets, 6)
    torch.testing.assert_close(best, expected)
    assert torch.equal(words, places % size)
    assert torch.equal(rows, places // size + 3 * torch.arange(4)[:, None])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all(make_model, seed: int) -> None:
    model = make_model(vocabularies=(11, 6), seed=seed)
    words = [1, 4, 5]
    config = SearchConfig(beam=150, length_penalty=0.0, max_length_factor=1.0, max_length_extra=1)
    src = [7, 8, 9]  # cap 4: 3 + 9 + 27 + 81 translations
    everything = {
        trg: log_probability(model, src, trg)
        for length in range(1, 5)
        for trg in itertools.product(words, repeat=length)
    }
    ranked = sorted(everything, key=lambda trg: -everything[trg])
    [found] = search_ids(model, [src], config, nbest=150)
    assert [hypothesis.tokens for hypothesis in found] == ranked
    assert len(ranked) == 120


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0])
def test_hypotheses_are_ranked_by_normalised_log_probability(models, length_penalty: float) -> None:
    config = replace(GREEDY, beam=6, length_penalty=length_penalty)
    for model in models.values():
        for found in search_ids(model, SRC, config, nbest=6):
            scores = [hypothesis.score for hypothesis in found]
            assert scores == sorted(scores, reverse=True)
            for hypothesis in found:
                words = len(hypothesis.tokens) + 1
                expected = hypothesis.log_probability / words**length_penalty
                assert hypothesis.score == pytest.approx(expected, abs=1e-12)


def test_length_normalisation_prefers_longer_translations(models) -> None:
    lengths = []
    for length_penalty in (0.0, 1.0):
        config = replace(GREEDY, beam=6, length_penalty=length_penalty)
        found = [search_ids(model, SRC, config) for model in models.values()]
        lengths.append([len(best.tokens) for translated in found for [best] in translated])
    assert all(after >= before for before, after in zip(*lengths, strict=True))
    assert lengths[0] != lengths[1]


@pytest.mark.parametrize(("width", "nbest"), [(1, 1), (1, 3), (4, 2), (3, 5)])
def test_as_many_distinct_hypotheses_as_asked_for(models, width: int, nbest: int) -> None:
    for model in models.values():
        results = search_ids(model, SRC, replace(GREEDY, beam=width), nbest)
        for src, found in zip(SRC, results, strict=True):
            assert len(found) == (nbest if src else 1)  # without words there is one translation
            assert len({hypothesis.tokens for hypothesis in found}) == len(found)


# Both.


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_hypotheses_agree_with_reading_them(models, seed: int, width: int) -> None:
    """Score, attention and last state are those of the translation read as a given one."""
    model = models[seed]
    results = search_ids(model, SRC, replace(GREEDY, beam=width), nbest=width)
    for src, found in zip(SRC, results, strict=True):
        for hypothesis in found:
            decoded = read(model, src, hypothesis.tokens)
            close(hypothesis.attention, decoded.packed_weights)
            close(hypothesis.last_state, decoded.packed_states[-1])
            expected = log_probability(model, src, hypothesis.tokens)
            assert hypothesis.log_probability == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(
    ("factor", "extra", "words", "cap"),
    [(2.0, 10, 3, 16), (1.5, 0, 3, 5), (0.5, 0, 1, 1), (0.1, 0, 9, 1), (1.0, 3, 0, 0)],
)
def test_the_cap_closes_a_translation(
    make_model, width: int, factor: float, extra: int, words: int, cap: int
) -> None:
    model = make_model()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[EOS] = -40.0  # never ends by itself
    config = SearchConfig(beam=width, max_length_factor=factor, max_length_extra=extra)
    assert length_caps([words + 1], config) == [cap]
    src = [4 + i % 5 for i in range(words)]
    [found] = search_ids(model, [src], config, nbest=width)
    for hypothesis in found:
        assert len(hypothesis.tokens) == cap
        assert hypothesis.attention.shape == (cap + 1, words + 1)
        expected = log_probability(model, src, hypothesis.tokens)
        assert hypothesis.log_probability == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("width", [1, 3])
def test_finished_sentences_leave_the_batch(
    models, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more rows are computed at a step than there are sentences that may still go on."""
    rows: list[int] = []
    predict = search_module.Frontier.predict

    def counted(frontier: search_module.Frontier, step: int) -> tuple[Tensor, Tensor, Tensor]:
        rows.append(len(frontier.words))
        return predict(frontier, step)

    monkeypatch.setattr(search_module.Frontier, "predict", counted)
    config = replace(GREEDY, beam=width)
    for model in models.values():
        rows.clear()
        search_ids(model, SRC, config)
        caps = [cap_of(src, config) for src in SRC]
        assert rows[0] == width * len(SRC)
        for step, count in enumerate(rows):
            assert count <= width * sum(cap >= step for cap in caps)


@pytest.mark.parametrize("width", [1, 3])
def test_padding_and_start_are_never_produced(make_model, width: int) -> None:
    model = make_model()
    with torch.no_grad():
        model.decoder.output.vocabulary.bias[[PAD, BOS]] = 40.0
    results = search_ids(model, SRC, replace(GREEDY, beam=width), nbest=width)
    produced = {word for found in results for h in found for word in h.tokens}
    assert produced
    assert not produced & {PAD, BOS, EOS}


@pytest.mark.parametrize("width", [1, 3])
def test_a_sentence_without_words_gets_the_empty_translation(models, width: int) -> None:
    for model in models.values():
        [[found]] = search_ids(model, [[]], replace(GREEDY, beam=width), nbest=width)
        assert found.tokens == ()
        assert found.log_probability == pytest.approx(log_probability(model, [], []), abs=1e-9)
        assert found.attention.tolist() == [[1.0]]


@given(st.lists(sentences, min_size=1, max_size=6), st.randoms(), st.sampled_from([1, 2, 3]))
@settings(deadline=None, max_examples=30)
def test_the_rest_of_the_batch_does_not_matter(models, src, random, width: int) -> None:
    config = replace(GREEDY, beam=width)
    model = models[1 + len(src) % len(SEEDS)]
    together = search_ids(model, src, config, nbest=width)
    order = random.sample(range(len(src)), random.randint(1, len(src)))
    chosen = search_ids(model, [src[t] for t in order], config, nbest=width)
    for t, found in zip(order, chosen, strict=True):
        assert len(found) == len(together[t])
        for one, other in zip(found, together[t], strict=True):
            same(one, other)


@pytest.mark.parametrize("width", [1, 3])
def test_search_works_in_single_precision_and_leaves_no_graph(models, width: int) -> None:
    config = ModelConfig(hidden=5, embedding=4, alignment=3)
    single = TranslationModel(config, 11, 9)
    for found in search_ids(single, SRC, replace(GREEDY, beam=width)):
        assert found[0].last_state.dtype == torch.float32
        assert not found[0].last_state.requires_grad
        assert math.isfinite(found[0].log_probability)
