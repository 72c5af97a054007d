"""All stages of a document model, on a toy corpus."""

import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from toy import DOCUMENT_SETTINGS, document_config, stopped_training, toy_config, translate_twice

from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.store.model import load_sentence_vectors
from wholedoc.store.run import Run
from wholedoc.training.log import read_log
from wholedoc.training.stages import train

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
