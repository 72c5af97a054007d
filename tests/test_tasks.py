"""What the stages train on: losses against slow ones, and stage 2 in several batches."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import pytest
import torch
from torch import Tensor
from toy import read

from wholedoc.benchmark.workload import make_workload
from wholedoc.config import ModelConfig, StageConfig
from wholedoc.corpus.batches import make_batch, token_batches
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.model.decoder import Decoded, Decoder
from wholedoc.model.language import LanguageModel, read_words
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.objective import DocumentSet, document_loss, encode_with_recomputation
from wholedoc.training.tasks import language_task

SIZES = (20, 22)
CONFIG = ModelConfig(hidden=3, embedding=4, alignment=2)
VARIANTS = {
    "none": CONFIG,
    "memories, context": replace(CONFIG, memory="both", fusion="context"),
    "memories, output": replace(CONFIG, memory="both", fusion="output"),
    "words before": replace(CONFIG, context="jean2017"),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    return make_workload(tmp_path_factory.mktemp("corpus"), SIZES, (4, 5))


class Probe(torch.autograd.Function):
    """Nothing, but its context lives as long as the graph that it is a part of."""

    alive: ClassVar[WeakSet[Any]] = WeakSet()

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        Probe.alive.add(ctx)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # noqa: ARG004 (torch calls it so)
        return grad


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many graphs of batches there were each time that the decoder had read one."""
    counts: list[int] = []
    read = Decoder.forward

    def reading(*arguments: object) -> Decoded:
        decoded = read(*arguments)  # type: ignore[arg-type]
        features: Tensor = Probe.apply(decoded.packed_features)
        counts.append(len(Probe.alive))
        return replace(decoded, packed_features=features)

    monkeypatch.setattr(Decoder, "forward", reading)
    return counts


def gradients(
    config: ModelConfig, corpus: EncodedCorpus, tokens: int
) -> tuple[dict[str, Tensor], int]:
    """Of the first two documents, and the number of batches."""
    model = TranslationModel(config, *SIZES).double()
    initialise(model, seed=1)
    random = np.random.default_rng(1)
    vectors, states = (
        random.standard_normal((len(corpus), width)) for width in (2 * config.hidden, config.hidden)
    )
    documents = [corpus.document_sentences(d) for d in range(2)]
    document_loss(model, DocumentSet(corpus, vectors, states), documents, tokens)
    sentences = [t for document in documents for t in document]
    batches = len(
        token_batches(corpus.src_lengths[sentences], corpus.trg_lengths[sentences], tokens)
    )
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}, batches


@pytest.mark.parametrize("variant", VARIANTS)
def test_batches_of_documents_change_no_gradient(variant: str, corpus: EncodedCorpus) -> None:
    whole, one = gradients(VARIANTS[variant], corpus, 10_000)
    parts, many = gradients(VARIANTS[variant], corpus, 20)
    assert one == 1
    assert many > 4
    assert whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("variant", ["none", "memories, context", "memories, output"])
def test_memory_holds_one_batch_of_an_update(
    variant: str, corpus: EncodedCorpus, alive: list[int]
) -> None:
    gradients(VARIANTS[variant], corpus, 20)
    assert len(alive) > 4
    assert max(alive) == 1


def test_batches_that_nobody_frees_are_counted(alive: list[int]) -> None:
    model = TranslationModel(CONFIG, *SIZES)
    sentence, length = torch.tensor([[4, 5, 6]]), torch.tensor([3])
    kept = [model(sentence, length, sentence).packed_features.sum() for _ in range(3)]
    assert len(kept) == 3
    assert alive == [1, 2, 3]


def test_an_encoder_that_runs_twice_draws_the_same_masks() -> None:
    encoder = TranslationModel(CONFIG, *SIZES, dropout=0.5).encoder.train()
    src, lengths = torch.tensor([[4, 5, 6, 7], [8, 9, 4, PAD]]), torch.tensor([4, 3])
    found = []
    for encode in (encoder, partial(encode_with_recomputation, encoder)):
        encoder.zero_grad()
        torch.manual_seed(1)
        encoding = encode(src, lengths)
        torch.manual_seed(2)  # what is drawn in between does not matter
        (encoding.packed_states.square().sum() + encoding.summary.sum()).backward()
        found.append([parameter.grad for parameter in encoder.parameters()])
    assert all(gradient.any() for gradient in found[0])
    torch.testing.assert_close(found[1], found[0])


# Losses, sentence by sentence and word by word.


@pytest.mark.parametrize("variant", [*VARIANTS, "previous translation"])
def test_a_sentence_reads_the_memory_of_its_own_document_and_place(
    variant: str, corpus: EncodedCorpus
) -> None:
    config = VARIANTS.get(variant) or replace(CONFIG, context="prevtrg")
    model = TranslationModel(config, *SIZES).double().eval()
    initialise(model, seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # large enough that every row matters
    random = np.random.default_rng(1)
    vectors, states = (
        random.standard_normal((len(corpus), width)) for width in (2 * config.hidden, config.hidden)
    )
    documents = [corpus.document_sentences(d) for d in (2, 0, 1)]
    with torch.no_grad():
        found, words = document_loss(model, DocumentSet(corpus, vectors, states), documents, 50)
        expected = 0.0
        for document in documents:
            src = [corpus.src(t).tolist() for t in document]
            cells = last_states = None
            if model.source_memory is not None:
                cells = model.source_memory(torch.tensor(vectors[list(document)]))
            if model.reads_translations:
                last_states = torch.tensor(states[list(document)])
            for place, t in enumerate(document):
                batch = make_batch(corpus, [t])
                summary = model.encoder(batch.src, batch.src_lengths).summary
                read_here = read(model, summary, torch.tensor([place]), cells, last_states, src)
                decoded = model(batch.src, batch.src_lengths, batch.trg_in, read_here)
                features = decoded.packed_features
                added = None if decoded.logits is None else decoded.logits.expand(len(features), -1)
                scores = model.decoder.log_probabilities(features, added)
                expected -= scores.gather(1, batch.trg_out.T).sum().item()
    assert found == pytest.approx(expected, rel=1e-9)
    assert words == sum(int(corpus.trg_lengths[t]) for document in documents for t in document)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_language_model_predicts_every_word_and_the_end(
    direction: str, corpus: EncodedCorpus
) -> None:
    """−Σ log P(x_i | <s> x_1 … x_{i-1}) − log P(</s> | all); ``</s>`` itself is never read."""
    model = LanguageModel(SIZES[0], CONFIG).double().eval()
    initialise(model, seed=3)
    sentences = np.arange(4)
    task = language_task(direction, model, (corpus, corpus), StageConfig(), 1)
    nats, counted = task.loss(corpus, sentences, 0.0)
    expected, words = 0.0, 0
    for t in sentences:
        src = corpus.src(t).tolist()[:-1]
        ordered = src if direction == "forward" else src[::-1]
        states, _ = model.rnn(model.embedding(torch.tensor([[BOS, *ordered]])))
        scores = torch.log_softmax(model.output(states[0]), dim=-1)
        for i, word in enumerate([*ordered, EOS]):
            expected -= scores[i, word].item()
            words += 1
    assert nats == pytest.approx(expected, rel=1e-9)
    assert counted == words
    batch, lengths = read_words([[7, 8, 9, EOS], [4, EOS]], direction)
    found = [row[:n] for row, n in zip(batch.tolist(), lengths.tolist(), strict=True)]
    assert found == [[BOS, 7, 8, 9] if direction == "forward" else [BOS, 9, 8, 7], [BOS, 4]]


def test_gradients_of_the_encoder_cannot_be_lost(corpus: EncodedCorpus) -> None:
    """One call gives all gradients, whatever the caller does with what it returns."""
    for tokens in (20, 10_000):
        found, _ = gradients(VARIANTS["memories, context"], corpus, tokens)
        for name in ("encoder.embedding.weight", "source_memory.rnn.forward_input.weight"):
            assert found[name].abs().sum() > 0
