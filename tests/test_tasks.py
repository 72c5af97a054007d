"""Stage 2 in several batches: the same gradients, and no more in memory than one of them."""

from dataclasses import replace
from functools import partial
from weakref import WeakSet

import numpy as np
import pytest
import torch
from torch import Tensor

from wholedoc.benchmark.workload import make_workload
from wholedoc.config import ModelConfig
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.corpus.vocabulary import PAD
from wholedoc.kernels.recurrence import GRUTape
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.tasks import (
    DocumentSet,
    document_loss,
    encode_with_recomputation,
    token_batches,
)

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


@pytest.fixture
def tapes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tapes there were each time that another was made, itself included."""
    alive: WeakSet[GRUTape] = WeakSet()
    counts: list[int] = []
    make = GRUTape.__init__

    def made(tape: GRUTape, *arguments: object) -> None:
        make(tape, *arguments)  # type: ignore[arg-type]
        alive.add(tape)
        counts.append(len(alive))

    monkeypatch.setattr(GRUTape, "__init__", made)
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
    variant: str, corpus: EncodedCorpus, tapes: list[int]
) -> None:
    """Those of the encoder or of the decoder's two layers, and that of the document's GRU."""
    gradients(VARIANTS[variant], corpus, 20)
    assert len(tapes) > 12
    assert max(tapes) <= 3


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
