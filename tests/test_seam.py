"""Stage 2 in several batches: the same gradients, and no more in memory than one of them."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import pytest
import torch
from torch import Tensor

from wholedoc.benchmark.workload import make_workload
from wholedoc.config import ModelConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import PAD
from wholedoc.model.decoder import Decoded, Decoder
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.seam import encode_twice
from wholedoc.training.tasks import DocumentSet, document_losses

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
    batches = 0
    for loss in document_losses(model, DocumentSet(corpus, vectors, states), documents, tokens):
        loss.smoothed.backward()
        batches += 1
        del loss
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
    for encode in (encoder, partial(encode_twice, encoder)):
        encoder.zero_grad()
        torch.manual_seed(1)
        encoding = encode(src, lengths)
        torch.manual_seed(2)  # what is drawn in between does not matter
        (encoding.packed_states.square().sum() + encoding.summary.sum()).backward()
        found.append([parameter.grad for parameter in encoder.parameters()])
    assert all(gradient.any() for gradient in found[0])
    torch.testing.assert_close(found[1], found[0])
