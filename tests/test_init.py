"""Training that begins with a trained model."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from toy import DOCUMENT_SETTINGS, toy_config

from wholedoc.app.export import export_model
from wholedoc.config import load_config
from wholedoc.errors import UserError
from wholedoc.store.model import load_model
from wholedoc.store.run import Run, digest_files
from wholedoc.training import data
from wholedoc.training.loop import read_log
from wholedoc.training.stages import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def first(corpus: Path) -> Run:
    return train(toy_config(corpus), corpus / "first")


def best(run: Run) -> dict[str, torch.Tensor]:
    return load_file(run.stage("stage1").best)


def dev_perplexities(run: Run) -> list[float]:
    log = read_log(run.directory)
    return [float(line["dev_perplexity"]) for line in log if "dev_perplexity" in line]


def test_training_goes_on_from_the_weights_of_another_run(corpus: Path, first: Run) -> None:
    config = toy_config(corpus, f"init={first.directory}", "stage1.learning_rate=1e-6", "seed=8")
    again = train(config, corpus / "again")
    assert [file.read_bytes() for file in again.vocabulary_files()] == [
        file.read_bytes() for file in first.vocabulary_files()
    ]
    assert dev_perplexities(again)[0] == pytest.approx(min(dev_perplexities(first)), rel=1e-3)


def test_vocabularies_are_those_of_the_files_and_of_the_weights(
    corpus: Path, first: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start is interrupted before the corpora are there; then a file or the model is another."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def begin(*settings: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(data, "encode_corpus", interrupt)
            with pytest.raises(KeyboardInterrupt):
                train(toy_config(tmp_path, *settings), tmp_path / "run")

    begin()
    source = tmp_path / "train.src"
    source.write_text(source.read_text("utf-8").replace("s", "z"), "utf-8")
    run = train(toy_config(tmp_path, "stage1.epochs=1"), tmp_path / "run")
    assert "z1" in run.vocabulary_files()[0].read_text("utf-8")
    shutil.rmtree(tmp_path / "run")
    model = Path(shutil.copytree(first.directory, tmp_path / "model"))
    begin(f"init={model}")
    for file in model.glob("*.vocabulary"):
        file.write_text(file.read_text("utf-8").replace("s1", "y1"), "utf-8")
    weights = model / "stage1.safetensors"
    save_file({n: value + 1 for n, value in load_file(weights).items()}, weights)
    begin(f"init={model}")
    run = Run(tmp_path / "run")
    assert "y1" in run.vocabulary_files()[0].read_text("utf-8")
    assert run.load_versions()["init"] == digest_files(weights)


def test_no_epochs_keep_the_weights_and_a_document_model_stands_on_them(
    corpus: Path, first: Run
) -> None:
    export_model(first.directory, corpus / "export", 20, 200)
    settings = [*DOCUMENT_SETTINGS, "model.memory=both", "model.fusion=context", "stage1.epochs=0"]
    run = train(toy_config(corpus, *settings, f"init={corpus / 'export'}"), corpus / "documents")
    exported = load_model(corpus / "export").base.state_dict()
    kept = load_model(run.directory).base.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in exported.items())
    assert run.stage("stage2").best.exists()


def test_a_model_of_another_shape_is_refused_before_anything_is_written(
    corpus: Path, first: Run, tmp_path: Path
) -> None:
    config = toy_config(corpus, f"init={first.directory}", "model.alignment=9")
    with pytest.raises(UserError, match=r"init = .*model.alignment = 8.*--set model.alignment=8"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_runs_that_began_with_other_weights_share_no_stage(corpus: Path, first: Run) -> None:
    other = train(toy_config(corpus, "seed=9"), corpus / "other")
    begun = []
    for n, init in enumerate((first, other)):
        settings = [f"init={init.directory}", "share=true", "stage1.epochs=0"]
        begun.append(train(toy_config(corpus, *settings), corpus / "shared" / str(n)))
    assert any(not torch.equal(best(begun[0])[k], best(begun[1])[k]) for k in best(begun[0]))


@pytest.mark.parametrize("stage", ["stage0", "stage1", "stage2"])
def test_random_weights_are_not_left_as_they_are(stage: str) -> None:
    with pytest.raises(UserError, match=f"{stage}.epochs = 0"):
        load_config("tiny", [f"{stage}.epochs=0"])
