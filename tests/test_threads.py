"""Batches in threads: the same results in the same order, and everything as it was afterwards."""

import threading
from collections.abc import Iterator

import pytest
import torch

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.vocabulary import EOS
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.kernels.threads import in_threads
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_order_from_as_many_threads_as_torch_has(threads: int) -> None:
    together = threading.Barrier(threads)
    seen = set()

    def run(batch: int) -> int:
        together.wait(timeout=20)  # no batch is done before as many have begun
        seen.add(threading.get_ident())
        assert threads == 1 or torch.get_num_threads() == 1
        assert threads == 1 or torch.is_inference_mode_enabled()
        return batch * batch

    assert list(in_threads(run, range(6))) == [0, 1, 4, 9, 16, 25]
    assert len(seen) == threads
    assert torch.get_num_threads() == threads


def test_an_error_reaches_the_caller_and_threads_are_set_back(threads: int) -> None:
    def fail(batch: int) -> int:
        raise ValueError(f"batch {batch}")

    with pytest.raises(ValueError, match="batch 0"):
        list(in_threads(fail, range(6)))
    assert torch.get_num_threads() == threads


def test_documents_are_translated_the_same_whatever_the_threads(threads: int) -> None:
    config = ModelConfig(hidden=5, embedding=4, alignment=3, fusion="output", memory="both")
    system = TranslationSystem(
        TranslationModel(config, 11, 9).double().eval(),
        TranslationModel(config.without_context(), 11, 9).double().eval(),
        SentenceVectors(11, config).double(),
    )
    for seed, module in enumerate((system.model, system.base, system.vectors)):
        assert module is not None
        initialise(module, seed)
    documents = [[[4, 5, EOS], [6, EOS], [7, 8, 9, EOS]], [[5, EOS]]]
    search = SearchConfig(beam=2, passes=2, batch_tokens=6)  # a sentence or two to a batch
    told: list[int] = []
    found = translate_documents(
        system, documents, search, progress=lambda sentences, _: told.append(sentences)
    )
    torch.set_num_threads(1)
    expected = translate_documents(system, documents, search)
    for walk, alone in zip(found, expected, strict=True):
        assert [[best[0].tokens for best in once] for once in walk.passes] == [
            [best[0].tokens for best in once] for once in alone.passes
        ]
    assert sum(told) >= 2 * 4  # the first translations, and at least one pass
