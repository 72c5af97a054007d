"""Runs in one folder share what they would train alike, and nothing else."""

import json
import shutil
from pathlib import Path

import pytest
from toy import DOCUMENT_SETTINGS, toy_config, write_toy

from wholedoc.store.checkpoint import Position
from wholedoc.store.run import Run, compare_versions
from wholedoc.training.data import prepare_data
from wholedoc.training.loop import read_log, train_stage
from wholedoc.training.stages import train

BOTH = [*DOCUMENT_SETTINGS, "model.memory=both", "model.fusion=output"]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stages that are trained, not reused, in order."""
    names: list[str] = []

    def spy(task, config, seed, files, log, group):  # type: ignore[no-untyped-def]
        if not files.checkpoint.exists():
            names.append(task.name)
        return train_stage(task, config, seed, files, log, group)

    monkeypatch.setattr("wholedoc.training.stages.train_stage", spy)
    return names


def run(folder: Path, name: str, *settings: str) -> Run:
    return train(toy_config(folder / "corpus", *settings), folder / "runs" / name)


def contents(run: Run) -> dict[str, bytes]:
    """The weights and rows of a run."""
    files = [*run.directory.glob("*.safetensors"), *(run.directory / "data").glob("*.f32")]
    return {file.name: file.read_bytes() for file in files}


def test_variants_train_only_what_is_theirs(tmp_path: Path, trained: list[str]) -> None:
    run(tmp_path, "s-nmt", *DOCUMENT_SETTINGS, "share=true")
    run(tmp_path, "src", *BOTH, "model.memory=src", "share=true")
    both = run(tmp_path, "both", *BOTH, "share=true")
    assert trained == ["stage1", "stage0-forward", "stage0-backward", "stage2", "stage2"]
    # The same as if all had been trained, to the last bit, and the log tells the whole story.
    alone = run(tmp_path / "elsewhere", "both", *BOTH)
    assert contents(both) == contents(alone)
    assert both.lexicon_file.read_bytes() == alone.lexicon_file.read_bytes()
    logs = [
        [
            (line["event"], line["stage"], line.get("dev_perplexity"))
            for line in read_log(r.directory)
        ]
        for r in (both, alone)
    ]
    assert logs[0] == logs[1]


def test_the_generated_memory_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trg = [*BOTH, "model.memory=trg", "share=true"]
    first = run(tmp_path, "trg", *trg)

    def never(*_: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr("wholedoc.training.stages.generated_states", never)
    second = run(tmp_path, "trg-context", *trg, "model.fusion=context")
    names = {name for name in contents(first) if name.endswith(".f32")}
    assert len(names) == 2
    assert names == {name for name in contents(second) if name.endswith(".f32")}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    run(folder, "first", *BOTH, "share=true")
    return folder


@pytest.mark.parametrize(
    ("settings", "retrained"),
    [
        (["seed=8"], ["stage1", "stage0-forward", "stage0-backward", "stage2"]),
        (["stage1.learning_rate=0.01"], ["stage1", "stage2"]),
        (["stage0.epochs=1"], ["stage0-forward", "stage0-backward", "stage2"]),
        (["model.alignment=4"], ["stage1", "stage2"]),
        (["data.max_words=4"], ["stage1", "stage0-forward", "stage0-backward", "stage2"]),
        (["share=false"], ["stage1", "stage0-forward", "stage0-backward", "stage2"]),
        (["stage1.checkpoint_minutes=1"], ["stage2"]),
        (["model.vectors=standard", "stage2.dropout=0.3"], ["stage2"]),
    ],
)
def test_what_differs_is_trained_again(
    first: Path, tmp_path: Path, trained: list[str], settings: list[str], retrained: list[str]
) -> None:
    shutil.copytree(first / "runs", tmp_path / "runs")
    config = toy_config(first / "corpus", *BOTH, "share=true", *settings)
    train(config, tmp_path / "runs" / "second")
    assert trained == retrained


def test_more_sentences_for_stage_1_are_another_recipe(
    first: Path, tmp_path: Path, trained: list[str]
) -> None:
    shutil.copytree(first / "runs", tmp_path / "runs")
    # The same sentences again: vocabularies and training documents are those of the other run.
    files = [f"data.extra.{side}={first}/corpus/train.{side}" for side in ("src", "trg", "doc")]
    config = toy_config(first / "corpus", *BOTH, "share=true", *files)
    second = train(config, tmp_path / "runs" / "second")
    assert "stage1" in trained
    before = Run(tmp_path / "runs" / "first")
    assert [f.read_bytes() for f in second.vocabulary_files()] == [
        f.read_bytes() for f in before.vocabulary_files()
    ]
    sizes = {name: len(second.load_corpus(name)) for name in ("train", "stage1")}
    assert sizes == {"train": 40, "stage1": 80}
    words = {
        run: [line["words"] for line in read_log(run.directory) if line["event"] == "epoch"]
        for run in (before, second)
    }
    # Two epochs each of stage 1, stage 0 in two directions, and stage 2.
    assert words[second][:2] == [2 * count for count in words[before][:2]]
    assert words[second][2:] == words[before][2:]


def test_a_corpus_is_numbered_once(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(first, tmp_path, dirs_exist_ok=True)
    other = Run(tmp_path / "runs" / "first")
    before = {file: file.read_bytes() for file in other.directory.rglob("*") if file.is_file()}
    config = toy_config(first / "corpus", *BOTH, "share=true")
    second = Run(tmp_path / "runs" / "second")
    second.directory.mkdir()
    second.prepare(config)
    with monkeypatch.context() as patch:
        patch.setattr("wholedoc.training.data.open_corpus", None)  # not even read
        prepare_data(config, second)
    assert second.data("train").joinpath("src.ids").samefile(other.data("train") / "src.ids")
    assert [f.read_bytes() for f in second.vocabulary_files()] == [
        f.read_bytes() for f in other.vocabulary_files()
    ]
    # What is made anew is never written into what is shared.
    second.data("train").joinpath("meta.json").unlink()
    prepare_data(config, second)
    assert all(file.read_bytes() == content for file, content in before.items())


def test_a_corpus_that_differs_anywhere_is_numbered_again(tmp_path: Path) -> None:
    corpus = write_toy(tmp_path / "corpus", 8).parent
    one, two = (Run(tmp_path / "runs" / name) for name in ("one", "two"))
    config = toy_config(corpus, "share=true")
    for run in (one, two):
        run.directory.mkdir(parents=True)
        run.prepare(config)
        prepare_data(config, run)
        lines = (corpus / "train.src").read_text(encoding="utf-8").splitlines()
        middle = len(lines) // 2
        lines[middle] = lines[middle].replace("s", "z")  # as many bytes, the same ends
        (corpus / "train.src").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ids = [run.vocabulary_files()[0].read_text(encoding="utf-8") for run in (one, two)]
    assert "z" not in ids[0]
    assert "z" in ids[1]


@pytest.mark.parametrize(("key", "value"), [("sentencepiece", "0.1"), ("kernels", "beads")])
def test_what_another_machine_made_is_not_reused_and_that_is_said_once(
    first: Path,
    tmp_path: Path,
    trained: list[str],
    key: str,
    value: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(first / "runs", tmp_path / "runs")
    other = Run(tmp_path / "runs" / "first")
    versions = json.loads(other.versions_file.read_text(encoding="utf-8"))
    now, versions[key] = versions[key], value
    other.versions_file.write_text(json.dumps(versions), encoding="utf-8")
    config = toy_config(first / "corpus", *BOTH, "share=true", "stage2.epochs=1")
    second = train(config, tmp_path / "runs" / "second")
    assert trained == ["stage1", "stage0-forward", "stage0-backward", "stage2"]
    said = capsys.readouterr().err
    message = f"not reused from {other.directory}, which was made with {key} {value}, now {now}\n"
    assert said.count(f"data and vocabularies: {message}") == 1
    assert said.count(f"stage1: {message}") == 1
    assert said.count("not reused") == 2
    # A run that goes on elsewhere says so too.
    assert second.load_versions()[key] == now
    train(toy_config(first / "corpus", *BOTH, "share=true"), other.directory)
    said = capsys.readouterr().err
    assert f"{other.directory} was begun with {key} {value}, now {now}: results may" in said


def test_kernels_of_mixed_precision_matter_where_they_are_used() -> None:
    one = {"kernels": "a", "kernels, mixed precision": "b"}
    other = {**one, "kernels, mixed precision": "c"}
    assert compare_versions(one, other) == ""
    assert compare_versions(one, other, mixed=True) == "kernels, mixed precision b, now c"
    for key in ("wholedoc", "torch", "numpy", "sentencepiece", "machine", "kernels"):
        assert compare_versions({**one, key: "1"}, {**one, key: "2"}) == f"{key} 1, now 2"
    assert compare_versions({}, {"torch": "2"}) == "torch unknown, now 2"


def test_unfinished_damaged_and_foreign_runs_are_left_alone(
    tmp_path: Path, trained: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(tmp_path, "first", *DOCUMENT_SETTINGS)
    (tmp_path / "runs" / "notes.txt").write_text("not a run")
    (tmp_path / "runs" / "empty").mkdir()
    trained.clear()
    with monkeypatch.context() as patch:
        patch.setattr("wholedoc.training.reuse.read_position", lambda _: Position(epoch=2))
        run(tmp_path, "second", *DOCUMENT_SETTINGS, "share=true")
    first.stage("stage1").checkpoint.write_bytes(b"damaged")
    (tmp_path / "runs" / "second" / "versions.json").write_text('{"wholedoc": "0", "torch": "0"}')
    run(tmp_path, "third", *DOCUMENT_SETTINGS, "share=true")
    assert trained == ["stage1", "stage1"]
