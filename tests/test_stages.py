"""All stages of a document model, on a toy corpus."""

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from toy import DOCUMENT_SETTINGS, document_config, stopped_training, toy_config, translate_twice

from wholedoc.config import Config, SearchConfig, StageConfig
from wholedoc.corpus.batches import DocumentBatches
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import search
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.kernels import Dropout
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.model import load_model, load_sentence_vectors
from wholedoc.store.run import Run
from wholedoc.training.loop import read_log
from wholedoc.training.stages import train
from wholedoc.training.tasks import Task

STAGES = ("stage0-forward", "stage0-backward", "stage1", "stage2")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def trained(corpus: Path) -> Run:
    return train(document_config(corpus), corpus / "both")


def weights(run: Run, stage: str) -> dict[str, torch.Tensor]:
    return load_file(run.stage(stage).best)


def test_stage_2_moves_every_parameter_and_leaves_the_language_models_alone(trained: Run) -> None:
    before, after = weights(trained, "stage1"), weights(trained, "stage2")
    assert before.keys() < after.keys()
    assert {name for name in before if torch.equal(before[name], after[name])} == set()
    new = after.keys() - before.keys()
    src, _ = trained.load_vocabularies()
    assert {name.split(".")[0] for name in new} == {"source_memory", "target_query", "decoder"}
    vectors = load_sentence_vectors(trained, trained.load_config(), len(src))
    assert not any(parameter.requires_grad for parameter in vectors.parameters())
    for direction, model in vectors.models.items():
        kept = weights(trained, f"stage0-{direction}")
        assert all(torch.equal(value, kept[name]) for name, value in model.named_parameters())


def test_zero_passes_give_the_sentence_model(trained: Run, corpus: Path) -> None:
    alone = train(toy_config(corpus, *DOCUMENT_SETTINGS), corpus / "alone")
    assert all(
        torch.equal(value, weights(trained, "stage1")[name])
        for name, value in weights(alone, "stage1").items()
    )
    found = translate_twice(trained, alone)
    assert found.source_weights.shape == found.target_weights.shape == (4, 4)
    assert len(found.objective) == len(found.history) - 1


@pytest.mark.parametrize("stage", STAGES)
def test_training_resumes_exactly_inside_every_stage(
    stage: str, trained: Run, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = document_config(corpus)
    stopped_training(config, tmp_path / "run", stage, monkeypatch)
    resumed = train(config, tmp_path / "run")
    for name in STAGES:
        expected = weights(trained, name)
        assert all(torch.equal(v, expected[k]) for k, v in weights(resumed, name).items())


@pytest.mark.parametrize(
    ("fusion", "memory", "target"),
    [("output", "both", "generated"), ("context", "src", "generated"), ("output", "trg", "gold")],
)
def test_other_variants_train_and_translate(
    fusion: str, memory: str, target: str, corpus: Path, tmp_path: Path
) -> None:
    config = document_config(
        corpus,
        f"model.fusion={fusion}",
        f"model.memory={memory}",
        f"stage2.target_memory={target}",
        "stage2.update_tokens=100",
    )
    run = train(config, tmp_path / "run")
    rows = {path.name.split("-")[0] for path in (run.directory / "data").glob("*.f32")}
    expected = set()
    if memory != "trg":
        expected |= {"train.vectors", "dev.vectors"}
    if memory != "src":
        expected |= {f"train.{target}", "dev.generated"}
    assert rows == expected
    found = Translator.load(run.directory).translate(["s1 s2", "s3"], passes=1)
    assert len(found.sentences) == 2
    assert (found.source_weights is None) == (memory == "trg")
    assert (found.target_weights is None) == (memory == "src")


def test_with_a_zero_start_stage_2_begins_at_the_sentence_model(
    trained: Run, corpus: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained.directory, tmp_path / "both")
    config = document_config(
        corpus, "stage2.start=zero", "share=true", "stage2.learning_rate=1e-12"
    )
    run = train(config, tmp_path / "still")
    best: dict[str, float] = {}
    for event in read_log(run.directory):
        if event["event"] == "epoch":
            best[event["stage"]] = min(event["dev_perplexity"], best.get(event["stage"], math.inf))
    assert best["stage2"] == pytest.approx(best["stage1"], rel=1e-6)


def test_a_memory_needs_a_fusion(corpus: Path) -> None:
    with pytest.raises(UserError, match=r"does not go with model\.fusion"):
        toy_config(corpus, "model.memory=src")


# What stage 2 is given.


@pytest.mark.parametrize("name", ["train", "dev"])
def test_the_generated_memory_is_that_of_greedy_translations_one_by_one(
    trained: Run, name: str
) -> None:
    model = load_model(trained.directory).base
    corpus = trained.load_corpus(name)
    (file,) = (trained.directory / "data").glob(f"{name}.generated-*.f32")
    rows = torch.from_numpy(np.fromfile(file, dtype=np.float32)).view(len(corpus), -1)
    differ = 0
    for t, row in enumerate(rows):
        src = torch.from_numpy(corpus.src(t).astype(np.int64))[None]
        length = torch.tensor([src.shape[1]])
        greedy, wide = (
            search(Predictor(model), src, length, SearchConfig(beam=beam))[0][0].last_state
            for beam in (1, 5)
        )
        torch.testing.assert_close(row, greedy, rtol=1e-4, atol=1e-5)
        differ += not torch.allclose(row, wide, atol=1e-3)
    assert differ  # so that a beam would show


@dataclass(frozen=True)
class Asked:
    """What the training loop is asked to do."""

    task: Task
    config: StageConfig
    seed: int


def asked_for(config: Config, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Asked]:
    """All stages of a configuration, none of which is trained."""
    asked: dict[str, Asked] = {}

    def note(task, config, seed, files, log, group):  # type: ignore[no-untyped-def]
        asked[task.name] = Asked(task, config, seed)
        save_weights(files.best, task.model)

    with monkeypatch.context() as patch:
        patch.setattr("wholedoc.training.stages.train_stage", note)
        train(config, directory)
    return asked


def test_every_stage_has_its_own_settings(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"stage0": 0.1, "stage1": 0.2, "stage2": 0.3}
    config = document_config(
        corpus,
        *(f"{stage}.dropout={rate}" for stage, rate in rates.items()),
        "stage2.document_dropout=0.4",
    )
    asked = asked_for(config, tmp_path / "run", monkeypatch)
    assert set(asked) == set(STAGES)
    for name, each in asked.items():
        assert each.config == config.stage(name)
        assert each.seed == config.seed
        found = {
            module.rate: part
            for part, module in each.task.model.named_modules()
            if isinstance(module, Dropout) and not part.startswith("source_memory")
        }
        assert found.keys() == {rates[name.partition("-")[0]]}
    assert asked["stage2"].task.model.source_memory.dropout.rate == 0.4


@pytest.mark.parametrize(("memory", "rate"), [("both", 0.5), ("src", 0.3), ("trg", 0.3)])
def test_two_memories_have_a_dropout_of_their_own(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, rate: float
) -> None:
    settings = ("stage2.dropout=0.3", "stage2.dual_dropout=0.5", f"model.memory={memory}")
    asked = asked_for(document_config(corpus, *settings), tmp_path / "run", monkeypatch)
    assert asked["stage2"].task.model.encoder.dropout.rate == rate


def test_the_seed_reaches_stage_2(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = {}
    for seed in (1, 2):
        config = document_config(corpus, f"seed={seed}")
        directory = tmp_path / str(seed)
        asked = asked_for(config, directory, monkeypatch)["stage2"]
        assert asked.seed == seed
        batches = DocumentBatches(Run(directory).load_corpus("train"), 0, seed)
        assert asked.task.updates(1) == batches.epoch(1)
        tasks[seed] = asked.task
    assert tasks[1].updates(1) != tasks[2].updates(1)
    for new in ("source_memory", "target_query"):
        one, two = (next(getattr(tasks[seed].model, new).parameters()) for seed in (1, 2))
        assert not torch.equal(one, two)


def test_vectors_are_standardised_by_the_training_set(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = document_config(corpus, "model.vectors=standard")
    task = asked_for(config, tmp_path / "run", monkeypatch)["stage2"].task
    vectors = np.asarray(task.train.vectors, dtype=np.float64)
    expected = np.stack((vectors.mean(axis=0), vectors.std(axis=0)))
    np.testing.assert_allclose(task.model.source_memory.moments.numpy(), expected, atol=1e-6)
    assert not np.allclose(vectors.mean(axis=0), task.dev.vectors.mean(axis=0), atol=1e-4)


# Samples.


@pytest.mark.parametrize("memory", ["both", "none"])
def test_dev_sentences_are_translated_after_each_epoch(
    memory: str,
    corpus: Path,
    trained: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ["samples=7"]
    if memory == "none":
        settings += ["model.memory=none", "model.fusion=none"]
    run = train(document_config(corpus, *settings), tmp_path / "run")
    said = capsys.readouterr().err
    stages = ["stage1"] if memory == "none" else ["stage1", "stage2"]
    samples = [event for event in read_log(run.directory) if event["event"] == "sample"]
    assert [event["stage"] for event in samples] == [stage for stage in stages for _ in range(2)]
    for event in samples:
        assert event["sentences"] == 7
        assert f"BLEU {event['bleu']:.1f} on 7 dev sentences" in said
        assert f"{event['source']!r} → {event['translation']!r}" in said
    for stage in stages:  # looking on changes nothing
        expected = weights(trained, stage)
        assert all(torch.equal(v, expected[k]) for k, v in weights(run, stage).items())
    # The last epoch's weights are the best ones: they translate as the sample says.
    dev = Translator.load(run.directory)
    document = (corpus / "dev.src").read_text(encoding="utf-8").splitlines()[:5]
    config = replace(dev.config.search, beam=1, passes=len(stages) - 1)
    perplexities = [e["dev_perplexity"] for e in read_log(run.directory) if e["event"] == "epoch"]
    assert perplexities[-1] < perplexities[-2]
    if memory == "none":
        step = 15 // 7
        assert samples[-1]["source"] == document[step]
        assert dev.translate(document, config).sentences[step] == samples[-1]["translation"]
    else:
        assert samples[-1]["source"] == document[1]
        assert dev.translate(document, config).sentences[1] == samples[-1]["translation"]
