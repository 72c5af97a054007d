"""Exports: models that are small, and translate like the runs they were made from."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from wholedoc.app import export
from wholedoc.app.export import export_model
from wholedoc.config import Config, ModelConfig, SearchConfig, VocabularyConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.vocabulary import EOS, build_vocabularies
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.kernels import compact, restore
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.run import Run, language_stage
from wholedoc.store.shortlist import learn_shortlist, read_shortlist, write_shortlist

SIZES = {"hidden": 16, "embedding": 16, "alignment": 8, "initial_state": "encoder"}
MODELS = {
    "sentence": ModelConfig(**SIZES),
    "context": ModelConfig(**SIZES, memory="both", fusion="context", vectors="standard"),
    "output": ModelConfig(**SIZES, memory="both", fusion="output"),
    "local": ModelConfig(**SIZES, context="jean2017"),
}
SEARCH = SearchConfig(beam=3, max_length_factor=1.0, max_length_extra=2)
WORDS = ("red", "house", "hill", "dog", "sees", "who", "green", "sleeps")
_RANDOM = random.Random(5)
PAIRS = tuple(
    SentencePair(" ".join(WORDS[w] for w in chosen), " ".join(WORDS[w][::-1] for w in chosen))
    for chosen in (_RANDOM.sample(range(8), 1 + n % 3) for n in range(40))
)
DOCUMENTS = [Document("one", PAIRS[:4]), Document("two", PAIRS[4:])]
TEXTS = [[pair.src for pair in pairs] for pairs in (PAIRS[:4], PAIRS[4:9])] + [["", "unheard dog"]]


def make_run(directory: Path, model: ModelConfig) -> Run:
    """A run with random weights, as training would leave it."""
    run = Run(directory)
    with run.lock():
        run.prepare(Config(model=model, search=SEARCH))
    config = VocabularyConfig(kind="word", size=0, min_frequency=1)
    src, trg = build_vocabularies(DOCUMENTS, config, "en", "en")
    for vocabulary, file in zip((src, trg), run.vocabulary_files(), strict=True):
        vocabulary.save(file)
    encode_corpus(DOCUMENTS, src, trg, run.data("train"))
    stages = {"stage1": TranslationModel(model.without_context(), len(src), len(trg))}
    if model.reads_document:
        stages["stage2"] = TranslationModel(model, len(src), len(trg))
    if model.reads_source:
        vectors = SentenceVectors(len(src), model)
        stages |= {language_stage(name): part for name, part in vectors.models.items()}
    for seed, (name, stage) in enumerate(stages.items()):
        initialise(stage, seed)
        with torch.no_grad():
            for parameter in stage.parameters():
                parameter.mul_(3)
        save_weights(run.stage(name).best, stage)
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: make_run(folder / name, model) for name, model in MODELS.items()}


@pytest.fixture(scope="module")
def exports(runs: dict[str, Run]) -> dict[str, Run]:
    """Exports whose shortlists have all words."""
    made = {}
    for name, run in runs.items():
        out = run.directory.with_name(f"{name}.export")
        export_model(run.directory, out, translations=5, frequent=1000)
        made[name] = Run(out)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_an_export_translates_like_the_rounded_run(runs, exports, name: str) -> None:
    rounded = Translator.load(runs[name].directory, int8=True)
    exported = Translator.load(exports[name].directory)
    assert exported.reads_documents == (name != "sentence")
    assert exported.system.int8
    found, expected = (t.translate_documents(TEXTS) for t in (exported, rounded))
    assert len({text for document in expected for text in document.sentences}) > 3
    for one, other in zip(found, expected, strict=True):
        assert one.history == other.history
        for ours, theirs in zip(one.candidates, other.candidates, strict=True):
            assert ours[0].log_probability == pytest.approx(theirs[0].log_probability, abs=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_an_export_scores_nearly_like_the_run(runs, exports, name: str) -> None:
    exact, exported = (
        Translator.load(run.directory).score(TEXTS[0], [p.trg for p in DOCUMENTS[0]])
        for run in (runs[name], exports[name])
    )
    assert exported.log_probabilities == pytest.approx(exact.log_probabilities, rel=0.1)
    assert exported.log_probabilities != exact.log_probabilities


@pytest.mark.parametrize("name", MODELS)
def test_an_export_is_small_and_complete(runs, exports, name: str) -> None:
    weights = {
        file.name: file.stat().st_size for file in runs[name].directory.glob("*.safetensors")
    }
    exported = {file.name: file for file in exports[name].directory.iterdir()}
    for file, size in weights.items():
        assert exported[file].stat().st_size < 0.6 * size
    assert exported.keys() - weights.keys() == {
        "config.toml", "src.vocabulary", "trg.vocabulary", "export.json", "shortlist.safetensors",
    }  # fmt: skip
    assert exports[name].load_config() == runs[name].load_config()


def test_a_batch_in_8_bits_is_translated_like_its_sentences(exports) -> None:
    translator = Translator.load(exports["sentence"].directory)
    texts = [text for document in TEXTS for text in document]
    together = translator.translate(texts).sentences
    one_by_one = translator.translate(texts, replace(SEARCH, batch_tokens=1)).sentences
    assert together == one_by_one


# What goes wrong.


@pytest.mark.parametrize("case", ["an export", "existing", "no stage", "no document model"])
def test_what_cannot_be_exported(runs, exports, tmp_path: Path, case: str) -> None:
    model, out = runs["sentence"].directory, tmp_path / "out"
    if case == "an export":
        model, message = exports["sentence"].directory, "is an export already"
    elif case == "existing":
        out.mkdir()
        message = "exists already"
    elif case == "no stage":
        model = make_run(tmp_path / "run", MODELS["sentence"]).directory
        (model / "stage1.safetensors").unlink()
        message = "no trained weights"
    else:
        model = make_run(tmp_path / "run", MODELS["context"]).directory
        (model / "stage2.safetensors").unlink()
        message = "no trained weights yet: stage2"
    with pytest.raises(UserError, match=message):
        export_model(model, out, 5, 5)
    assert case == "existing" or not out.exists()


def test_an_export_is_not_trained(exports) -> None:
    with pytest.raises(UserError, match="cannot be trained"), exports["sentence"].lock():
        pass


def test_an_interrupted_export_leaves_nothing(
    runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[bool] = []

    def interrupt(path: Path, content: str) -> None:
        left.append((path.parent / "stage1.safetensors").exists())
        with pytest.raises(UserError, match="is missing"):
            Translator.load(path.parent)
        raise KeyboardInterrupt

    monkeypatch.setattr(export, "write_atomically", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_model(runs["sentence"].directory, tmp_path / "out", 5, 5)
    assert left == [True]
    assert list(tmp_path.iterdir()) == []


# Weights in 8 bits.


def test_weights_come_back_within_half_a_step() -> None:
    generator = torch.Generator().manual_seed(1)
    weights = {
        "matrix": torch.randn(9, 7, generator=generator),
        "vector": torch.randn(5, generator=generator),
        "pair": torch.randn(2, 7, generator=generator),
        "zero": torch.zeros(4, 3),
    }
    compacted = compact(weights)
    assert compacted["matrix"].dtype == compacted["zero"].dtype == torch.int8
    found = restore(compacted)
    assert found.keys() == weights.keys()
    steps = weights["matrix"].abs().amax(dim=1) / 127
    assert ((found["matrix"] - weights["matrix"]).abs() <= 0.5001 * steps[:, None]).all()
    for name in ("vector", "pair", "zero"):
        assert torch.equal(found[name], weights[name])
    again = restore(compact(found))
    torch.testing.assert_close(again["matrix"], found["matrix"], rtol=1e-6, atol=0)


# Learning a shortlist.


def test_each_word_is_listed_with_its_translation(runs, tmp_path: Path) -> None:
    """Every source word has one translation, and no two always come together."""
    src, trg = runs["sentence"].load_vocabularies()
    corpus = EncodedCorpus.open(runs["sentence"].data("train"))
    assert corpus is not None
    learned = learn_shortlist(corpus, (len(src), len(trg)), translations=1, frequent=1)
    assert learned.frequent.tolist() == [EOS]  # the end of every sentence
    file = tmp_path / "shortlist.safetensors"
    write_shortlist(file, learned)
    for shortlist in (learned, read_shortlist(file, (len(src), len(trg)))):
        listed = dict(zip(shortlist.src.tolist(), shortlist.trg.tolist(), strict=True))
        for word in WORDS:
            assert listed[src.encode(word)[0]] == trg.encode(word[::-1])[0]


def test_a_model_in_8_bits_leaves_the_one_it_was_made_from(learned_toy: Path) -> None:
    first = Translator.load(learned_toy)
    before = {name: value.clone() for name, value in first.trained.base.state_dict().items()}
    rounded = Translator(first.trained, int8=True)
    after = first.trained.base.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    theirs = rounded.trained.base.state_dict()
    assert rounded.trained.int8
    assert not all(torch.equal(value, theirs[name]) for name, value in before.items())
