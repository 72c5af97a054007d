"""A toy task for the tests of training: small enough to be learned in a second."""

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor

from wholedoc.config import Config, load_config
from wholedoc.corpus.vocabulary import PAD
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.model.decoder import Decoded, Decoder, DecoderState
from wholedoc.model.fusion import Source
from wholedoc.model.memory import DocumentContext, Readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Run
from wholedoc.training import loop
from wholedoc.training.stages import train

_WORDS = 12

CONFIG = """
seed = 7
device = "cpu"
share = false
samples = 0

[vocabulary]
kind = "word"
size = 0
min_frequency = 1

[model]
hidden = 16
embedding = 16
alignment = 8
initial_state = "encoder"
tie = "target"

[stage1]
optimiser = "adam"
learning_rate = 0.02
epochs = 3
decay_after = 100
normalisation = "token"
dropout = 0.1
batch_tokens = 60

[search]
beam = 2

[tm]
fit = false
"""

DOCUMENT_SETTINGS = [
    f"{stage}.{setting}"
    for stage in ("stage0", "stage1", "stage2")
    for setting in (
        "optimiser=adam",
        "learning_rate=0.02",
        "epochs=2",
        "normalisation=token",
        "dropout=0.1",
        "batch_tokens=60",
    )
]


def write_toy(directory: Path, train_documents: int = 8) -> Path:
    """Write a corpus and ``toy.toml``; each source word has one translation, order is kept."""
    directory.mkdir(parents=True, exist_ok=True)
    generator = random.Random(3)
    toml = [CONFIG]
    for name, documents in (("train", train_documents), ("dev", 3)):
        src, trg, doc = [], [], []
        for d in range(documents):
            for _ in range(5):
                words = [generator.randrange(_WORDS) for _ in range(generator.randint(1, 5))]
                src.append(" ".join(f"s{word}" for word in words))
                trg.append(" ".join(f"t{word}" for word in words))
                doc.append(f"doc{d}")
        toml.append(f"[data.{name}]")
        for side, lines in (("src", src), ("trg", trg), ("doc", doc)):
            file = directory / f"{name}.{side}"
            file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            toml.append(f'{side} = "{file}"')
    config = directory / "toy.toml"
    config.write_text("\n".join(toml) + "\n", encoding="utf-8")
    return config


def toy_config(directory: Path, *settings: str) -> Config:
    """The toy's configuration with some values set, its corpus written where it is missing."""
    file = directory / "toy.toml"
    return load_config(file if file.exists() else write_toy(directory), settings)


def write_by_hand(model: TranslationModel, translations: dict[int, int]) -> None:
    """Weights of a sentence model that translates word by word, on any processor the same.

    Each state counts its words: 1 − r^i. The decoder looks where the encoder's count is one above
    its own, whatever it has written, and gives the word there its translation.
    """
    rate, sharpness, surety, sure = 0.97, 200.0, 6.0, 20.0
    words, hidden = model.encoder.embedding.num_embeddings, model.decoder.lower.state.in_features
    count, one = words, words + 1  # dimensions of states; those before them tell the word
    assert hidden > one
    _, update, new = (slice(gate * hidden, (gate + 1) * hidden) for gate in range(3))
    encoder, decoder = model.encoder.rnn, model.decoder
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for layer in (encoder.forward_input, decoder.lower.state, decoder.upper.state):
            layer.bias[update] = -sure
            layer.bias[update][count] = math.log(rate / (1 - rate))
            layer.bias[new][count] = layer.bias[new][one] = sure
        model.encoder.embedding.weight[:, :words] = torch.eye(words)
        encoder.forward_input.weight[new][:words, :words] = 3 * torch.eye(words)
        for energy, side in enumerate((1.0, -1.0)):  # tanh(x + 1) − tanh(x − 1) is a hill at 0
            decoder.attention.query.weight[energy, count] = sharpness * rate
            decoder.attention.key.weight[energy, count] = -sharpness
            decoder.attention.key.weight[energy, one] = sharpness * (1 - rate) + side
            decoder.attention.score.weight[0, energy] = 10 * side
        decoder.output.context.weight[:words, :words] = 3 * torch.eye(words)
        for source in range(words):
            decoder.output.vocabulary.weight[translations.get(source, PAD), source] = surety


def document_config(directory: Path, *settings: str) -> Config:
    """The toy's configuration with both memories."""
    both = ("model.memory=both", "model.fusion=context")
    return toy_config(directory, *DOCUMENT_SETTINGS, *both, *settings)


def translate_twice(document_model: Run, sentence_model: Run) -> TranslatedDocument:
    """Two passes over a document; what comes before the first is the sentence model's."""
    document = ["s1 s2 s3", "", "s4", "s5 s5 s6 s7"]
    translator = Translator.load(document_model.directory)
    assert translator.reads_documents
    plain = Translator.load(sentence_model.directory).translate(document)
    assert translator.translate(document, passes=0).sentences == plain.sentences
    found = translator.translate(document, passes=2)
    assert found.history[0] == plain.sentences
    assert len(found.sentences) == 4
    return found


def read(
    model: TranslationModel,
    summaries: Tensor,
    own: Tensor,
    source_cells: Tensor | None,
    last_states: Tensor | None,
    sentences: Sequence[Sequence[int]] = (),
    states: Tensor | None = None,
) -> Readings:
    """What some sentences read; with ``states`` of their own, of another document."""
    document = DocumentContext(sentences, model.encoder.embedding, source_cells, last_states)
    if states is not None:
        return model.read(document, own, summaries, states, foreign=True)
    return model.read(document, own, summaries, None if last_states is None else last_states[own])


def padded(decoded: Decoded) -> list[Tensor]:
    """r_j, α_j and s_j of sentences by places (sentence, word, …), zero at padding."""
    packed = (decoded.packed_features, decoded.packed_weights, decoded.packed_states)
    return [decoded.packing.pad(words, len(decoded.packing.counts)) for words in packed]


def stopped_training(
    config: Config, directory: Path, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train until the third update of a stage, as if told to stop there."""
    keep = loop._Loop._keep

    def stop_in_the_middle(self: loop._Loop) -> None:
        keep(self)
        if self.task.name == stage and self.position.updates == 3:
            self._checkpoint()
            raise loop.Stopped

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_keep", stop_in_the_middle)
        with pytest.raises(loop.Stopped):
            train(config, directory)


def predict(
    decoder: Decoder, state: DecoderState, words: Tensor, source: Source
) -> tuple[DecoderState, Tensor, Tensor]:
    """s_j, log P(y_j) for every word, and α_j, given the last words: one step of the formulas."""
    embedded = decoder.embedding(words)
    word = decoder.word(embedded)
    if source.gates is not None:
        word = word + source.gates
    state, context, weights = decoder.step(state, word, source.attended, source.words)
    features = decoder.output.features(state.upper, context, embedded)
    return state, decoder.log_probabilities(features, source.logits), weights
