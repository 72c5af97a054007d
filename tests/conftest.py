"""Shared by all tests: shapes checked at every call, and small models."""

# ruff: noqa: E402 (the hook has to come before the imports it acts on)

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

# Every tensor that enters or leaves a function of these packages is checked against its
# annotation. Only here; users do not pay for it. The translator checks its arguments itself.
DECODING = ("constraints", "descent", "document", "predictor", "results", "scoring", "search")
install_import_hook(
    ["wholedoc.model", *(f"wholedoc.decoding.{name}" for name in DECODING)], "beartype.beartype"
)

import torch
from safetensors.torch import save_file
from toy import toy_config, write_by_hand, write_toy

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import Batch, pad
from wholedoc.corpus.vocabulary import BOS, EOS, UNK
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.stages import train

# A shell that starts the suite in the background has SIGINT ignored, and children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

MakeModel = Callable[..., TranslationModel]
MakeBatch = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], Batch]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests at the head of either half: two workers begin with a half each."""
    long = [item for item in items if item.get_closest_marker("long")]
    short = [item for item in items if not item.get_closest_marker("long")]
    half = len(short) // 2
    items[:] = long[::2] + short[:half] + long[1::2] + short[half:]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """Make a small model in float64 whose every weight, biases included, is random and sizeable."""

    def make(
        config: ModelConfig | None = None,
        vocabularies: tuple[int, int] = (11, 9),
        *,
        dropout: float = 0.0,
        seed: int = 1,
    ) -> TranslationModel:
        config = config or ModelConfig(hidden=5, embedding=4, alignment=3)
        model = TranslationModel(config, *vocabularies, dropout).double().eval()
        initialise(model, seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.empty(parameter.shape, dtype=torch.float64)
                parameter.add_(noise.normal_(generator=generator))
        return model

    return make


@pytest.fixture(scope="session")
def make_pairs() -> MakeBatch:
    """Make a batch of given sentence pairs of numbers, without ``<s>`` and ``</s>``."""

    def make(src: Sequence[Sequence[int]], trg: Sequence[Sequence[int]]) -> Batch:
        src_ids, src_lengths = pad([[*sentence, EOS] for sentence in src])
        trg_in, trg_lengths = pad([[BOS, *sentence] for sentence in trg])
        trg_out, _ = pad([[*sentence, EOS] for sentence in trg])
        return Batch(
            sentences=torch.arange(len(src)),
            src=src_ids,
            src_lengths=src_lengths,
            trg_in=trg_in,
            trg_out=trg_out,
            trg_lengths=trg_lengths,
            words=int(trg_lengths.sum()),
        )

    return make


@pytest.fixture(scope="session")
def learned_toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence model that knows the toy, and has learned to recall: s1 is t1, in the same order.

    What a small model learns beyond that differs from processor to processor; so its weights are
    written by hand, all else is as training leaves it.
    """
    directory = tmp_path_factory.mktemp("learned")
    write_toy(directory, train_documents=40)
    sizes = ("model.hidden=32", "model.embedding=32", "model.initial_state=zero", "model.tie=none")
    settings = (*sizes, "data.src_language=de", "data.trg_language=en")
    begun = train(toy_config(directory, *settings, "stage1.epochs=1"), directory / "begun")
    src, trg = begun.load_vocabularies()
    known = {
        word: trg.encode(src.decode([word]).replace("s", "t"))[0] for word in range(4, len(src))
    }
    weights = TranslationModel(begun.load_config().model, len(src), len(trg))
    write_by_hand(weights, {EOS: EOS, UNK: trg.encode("t0")[0], **known})
    save_file(weights.state_dict(), begun.stage("stage1").best)
    settings = (*settings, f"init={begun.directory}", "stage1.epochs=0", "tm.fit=true")
    return train(toy_config(directory, *settings), directory / "run").directory
