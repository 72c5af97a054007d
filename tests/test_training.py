"""Training: the update against one made by hand, schedules as formulas, what a run leaves."""

import errno
import fcntl
import json
import math
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from toy import toy_config, write_toy

from wholedoc.config import Config, StageConfig
from wholedoc.corpus.batches import make_batch
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.kernels import Dropout, describe, use
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.store.checkpoint import Position, load_weights, read_position
from wholedoc.store.run import Run, StageFiles
from wholedoc.training import loop
from wholedoc.training.data import prepare_data
from wholedoc.training.distribution import ProcessGroup
from wholedoc.training.loop import RunLog, flush_denormals, peak_rss_mb, read_log, train_stage
from wholedoc.training.objective import sentence_loss
from wholedoc.training.optimisation import learning_rate, make_optimiser, take_step
from wholedoc.training.stages import train
from wholedoc.training.tasks import Task


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("toy")
    write_toy(directory)
    return directory


@pytest.fixture(scope="module")
def run(toy: Path) -> Run:
    """Three epochs; never changed."""
    return train(toy_config(toy), toy / "run")


def weights_of(run: Run) -> dict[str, Tensor]:
    return load_file(run.stage("stage1").best)


def test_the_toy_is_learned(tmp_path: Path) -> None:
    write_toy(tmp_path, train_documents=160)
    settings = [
        *("stage1.epochs=8", "stage1.schedule=cosine", "stage1.learning_rate=0.03"),
        *("stage1.dropout=0", "stage1.batch_tokens=200"),
    ]
    learned = train(toy_config(tmp_path, *settings), tmp_path / "run")
    epochs = [event for event in read_log(learned.directory) if event["event"] == "epoch"]
    losses = [float(event["train_perplexity"]) for event in epochs]
    assert losses[0] > 5
    assert losses[-1] < 1.3
    # A model that knows the words but no sentence would be at 12, one that knows all at 1.
    assert min(float(event["dev_perplexity"]) for event in epochs) < 1.5
    src = (tmp_path / "dev.src").read_text().splitlines()
    trg = (tmp_path / "dev.trg").read_text().splitlines()
    found = Translator.load(learned.directory).translate(src).sentences
    assert sum(a == b for a, b in zip(found, trg, strict=True)) >= 0.6 * len(trg)


@pytest.mark.parametrize(
    "config",
    [StageConfig(optimiser=name, learning_rate=0.1) for name in ("adam", "sgd")],  # type: ignore[arg-type]
)
def test_a_scaled_step_is_a_step_with_scaled_gradients(config: StageConfig) -> None:
    scaled, plain = (torch.nn.Parameter(torch.ones(5)) for _ in range(2))
    optimisers = [make_optimiser(config, [parameter]) for parameter in (scaled, plain)]
    for scale in (0.5, 3.0, 0.01):
        gradient = torch.linspace(-1, 2, 5) / scale**2
        scaled.grad, plain.grad = gradient.clone(), gradient * scale
        take_step(optimisers[0], scale)
        optimisers[1].step()
        torch.testing.assert_close(scaled, plain)


@pytest.mark.parametrize(
    ("normalisation", "clip", "is_clipped"),
    [("sum", 5.0, True), ("token", 5.0, False), ("token", 0.01, True), ("sum", 0.0, False)],
)
def test_an_update_of_gradient_descent_by_hand(
    toy: Path, tmp_path: Path, normalisation: str, clip: float, is_clipped: bool
) -> None:
    """w' = w − lr · g · min(1, clip / |g|), g the gradient of the summed loss, or of its mean."""
    settings = [
        *("stage1.optimiser=sgd", "stage1.learning_rate=0.1", "stage1.epochs=1"),
        *("stage1.batch_tokens=10000", "stage1.dropout=0", "model.tie=none"),
        *(f"stage1.normalisation={normalisation}", f"stage1.clip={clip}"),
    ]
    config = toy_config(toy, *settings)
    run = train(config, tmp_path / "run")

    src, trg = run.load_vocabularies()
    model = TranslationModel(config.model, len(src), len(trg)).double()
    initialise(model, config.seed)
    corpus = run.load_corpus("train")
    # Sentence by sentence, in float64: batching, padding and rounding must not matter.
    words = 0
    for t in range(len(corpus)):
        loss = sentence_loss(model, make_batch(corpus, [t]))
        loss.smoothed.backward()
        words += loss.words
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    scale = 1 / words if normalisation == "token" else 1
    norm = scale * math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    assert (0 < clip < norm) == is_clipped
    if is_clipped:
        scale *= clip / norm
    found = weights_of(run)
    for name, parameter in model.named_parameters():
        expected = parameter - 0.1 * scale * gradients[name]
        torch.testing.assert_close(found[name].double(), expected, rtol=1e-4, atol=1e-6)
    [epoch] = [event for event in read_log(run.directory) if event["event"] == "epoch"]
    assert epoch["words"] == words


def test_plain_gradient_descent_has_no_memory() -> None:
    """Two steps with one gradient go twice as far as one, and a third without any goes nowhere."""
    weight = torch.nn.Parameter(torch.zeros(3))
    optimiser = make_optimiser(StageConfig(optimiser="sgd", learning_rate=0.5), [weight])
    gradient = torch.tensor([1.0, -2.0, 4.0])
    for step in (1, 2):
        weight.grad = gradient.clone()
        take_step(optimiser, 1.0)
        assert torch.equal(weight, -0.5 * step * gradient)
    weight.grad = torch.zeros(3)
    take_step(optimiser, 1.0)
    assert torch.equal(weight, -gradient)


def test_the_printed_schedule() -> None:
    """Halved after each epoch from the fourth on."""
    config = StageConfig(learning_rate=0.1, schedule="epoch", decay=0.5, decay_after=4)
    rates = [learning_rate(config, epoch - 1 + 0.7, 99) for epoch in range(1, 8)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.05, 0.025, 0.0125])


def test_the_cosine_schedule() -> None:
    config = StageConfig(learning_rate=0.2, schedule="cosine", epochs=4)
    for epoch in (1, 2, 3, 4):
        for share in (0.0, 0.25, 0.9):
            angle = math.pi * (epoch - 1 + share) / 4
            expected = 0.2 * (1 + math.cos(angle)) / 2
            assert learning_rate(config, epoch - 1 + share, 99) == pytest.approx(expected)
    assert learning_rate(config, 0.0, 0) == 0.2
    assert learning_rate(config, 4.0, 99) == pytest.approx(0)


def test_warm_up_rises_to_the_schedule() -> None:
    config = StageConfig(learning_rate=0.1, warmup=4)
    rates = [learning_rate(config, 0.0, update) for update in range(6)]
    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])


class ScriptedTask(Task):
    """A task whose dev perplexities are given; remembers the weights at each of them."""

    name = "stage1"

    def __init__(self, perplexities: Sequence[float]) -> None:
        self.model: nn.Module = nn.Linear(2, 1)
        self.sample = None
        self.perplexities = perplexities
        self.weights: list[Tensor] = []

    def updates(self, epoch: int) -> Sequence[int]:
        return [epoch, -epoch]

    def backward(self, update: int, group: ProcessGroup) -> tuple[float, int]:  # noqa: ARG002
        loss = self.model(torch.tensor([1.0, float(update)])).square().sum()
        loss.backward()
        return loss.item(), 1

    def dev_perplexity(self, group: ProcessGroup) -> float:  # noqa: ARG002
        self.weights.append(next(self.model.parameters()).detach().clone())
        return self.perplexities[len(self.weights) - 1]


def train_scripted(task: Task, directory: Path, config: StageConfig) -> Position:
    directory.mkdir(exist_ok=True)
    files = StageFiles(directory / "best.safetensors", directory / "checkpoint")
    return train_stage(task, config, 1, files, RunLog(directory), ProcessGroup())


def test_the_best_weights_are_kept(tmp_path: Path) -> None:
    task = ScriptedTask([5.0, 3.0, 4.0, 2.5, 6.0])
    config = StageConfig(epochs=5, learning_rate=0.01)
    position = train_scripted(task, tmp_path, config)
    assert (position.best_epoch, position.best_perplexity) == (4, 2.5)
    assert (position.finished, position.updates) == (True, 10)
    best = task.weights[3]
    assert torch.equal(load_file(tmp_path / "best.safetensors")["weight"], best)
    assert torch.equal(next(task.model.parameters()), best)
    assert not torch.equal(task.weights[3], task.weights[4])


@pytest.mark.parametrize(("patience", "epochs"), [(0, 6), (1, 3), (2, 6), (9, 6)])
def test_patience(tmp_path: Path, patience: int, epochs: int) -> None:
    task = ScriptedTask([5.0, 3.0, 4.0, 2.5, 3.0, 2.9])
    config = StageConfig(epochs=6, learning_rate=0.01, patience=patience)
    position = train_scripted(task, tmp_path, config)
    assert len(task.weights) == epochs
    assert position.finished


def test_an_equal_perplexity_is_not_better(tmp_path: Path) -> None:
    position = train_scripted(ScriptedTask([3.0, 3.0]), tmp_path, StageConfig(epochs=2))
    assert position.best_epoch == 1


def test_the_seed_decides_every_bit(toy: Path, run: Run, tmp_path: Path) -> None:
    again = train(toy_config(toy), tmp_path / "again")
    other = train(toy_config(toy, "seed=8"), tmp_path / "other")
    weights = [each.stage("stage1").best.read_bytes() for each in (run, again, other)]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def first_masks(config: Config, directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first values of the first dropout mask of each update."""
    masks: list[str] = []
    update, draw = loop._Loop._update, Dropout.mask

    def updating(self: loop._Loop, *arguments: Any) -> Any:
        masks.append("")
        return update(self, *arguments)

    def drawing(self: Dropout, *arguments: Any) -> Tensor | None:
        mask = draw(self, *arguments)
        if mask is not None and not masks[-1]:
            masks[-1] = str(mask.flatten()[:12].tolist())
        return mask

    with monkeypatch.context() as patch:
        patch.setattr(loop._Loop, "_update", updating)
        patch.setattr(Dropout, "mask", drawing)
        train(config, directory)
    return masks


def test_every_update_and_every_seed_has_its_own_dropout_masks(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ("stage1.epochs=1", "stage1.dropout=0.5", "stage1.batch_tokens=30")
    found = [
        first_masks(toy_config(toy, *settings, f"seed={seed}"), tmp_path / name, monkeypatch)
        for name, seed in (("one", 7), ("again", 7), ("other", 8))
    ]
    assert len(found[0]) >= 4
    assert all(found[0])
    assert found[0] == found[1]
    assert len({*found[0], *found[2]}) == len(found[0]) + len(found[2])


def test_updates_are_computed_by_one_thread(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    update = loop._Loop._update

    def updating(self: loop._Loop, *arguments: Any) -> Any:
        threads.append(torch.get_num_threads())
        return update(self, *arguments)

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(loop._Loop, "_update", updating)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train(toy_config(toy, "stage1.epochs=1"), tmp_path / "run")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert set(threads) == {1}


def test_training_says_where_mixed_precision_cannot_be_had(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("stage1.epochs=1", "stage1.precision=mixed")
    with use("torch"):
        train(toy_config(toy, *settings), tmp_path / "run")
    assert capsys.readouterr().err.count("training in single precision") == 1
    versions = json.loads((tmp_path / "run" / "versions.json").read_text())
    assert versions["kernels"] == "torch"


def test_the_log_is_json_with_the_documented_fields(toy: Path, tmp_path: Path) -> None:
    config = toy_config(toy, "stage1.epochs=13", "stage1.patience=0", "samples=4")
    log = train(config, tmp_path / "run").directory / "log.jsonl"
    events = [json.loads(line) for line in log.read_text().splitlines()]
    always = {"event", "stage", "time"}
    kinds = {"kernels"}
    place = {"epoch", "updates", "seconds", "words", "peak_rss_mb"}
    sample = {"bleu", "sentences", "source", "translation", "reference"}
    texts = {"source", "translation", "reference"}
    fields = {
        "sample": always | place | sample,
        "start": always | kinds | {"updates", "processes"},
        "update": always | place | {"loss", "learning_rate", "gradient_norm"},
        "epoch": always | place | {"dev_perplexity", "train_perplexity"},
    }
    assert {event["event"] for event in events} == fields.keys()
    for event in events:
        assert event.keys() == fields[event["event"]]
        assert event["stage"] == "stage1"
        assert all(
            isinstance(v, int | float) for k, v in event.items() if k not in always | kinds | texts
        )
        assert event.get("kernels", describe()) == describe()
    epochs = [event for event in events if event["event"] == "epoch"]
    assert [event["epoch"] for event in epochs] == list(range(1, 14))
    assert all(e["updates"] % 50 == 0 for e in events if e["event"] == "update")
    times = [event["time"] for event in events]
    assert times == sorted(times)


def test_tensorboard_gets_the_numbers_when_asked(toy: Path, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = toy_config(toy, "tensorboard=true", "stage1.epochs=2")
    directory = train(config, tmp_path / "run").directory
    board = EventAccumulator(str(directory / "tensorboard"))
    board.Reload()
    found = [scalar.value for scalar in board.Scalars("stage1/epoch/dev_perplexity")]
    logged = [e["dev_perplexity"] for e in read_log(directory) if e["event"] == "epoch"]
    assert found == pytest.approx(logged)


def test_without_asking_there_is_no_tensorboard(run: Run) -> None:
    assert not (run.directory / "tensorboard").exists()


def test_a_run_holds_all_that_the_documentation_lists(run: Run) -> None:
    names = {file.name for file in run.directory.iterdir()}
    assert names == {
        *("config.toml", "versions.json", "src.vocabulary", "trg.vocabulary", "data"),
        *("stage1.safetensors", "stage1.checkpoint", "lexicon.tsv", "log.jsonl", "lock"),
    }
    versions = json.loads((run.directory / "versions.json").read_text())
    assert versions["seed"] == 7
    assert versions["torch"] == torch.__version__


def test_a_finished_stage_keeps_its_best_weights_alone(run: Run, tmp_path: Path) -> None:
    files = run.stage("stage1")
    assert read_position(files.checkpoint).finished
    assert load_file(files.checkpoint) == {}
    assert files.checkpoint.stat().st_size < 1000


def test_filters_that_leave_out_most_pairs_are_named(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, warned in ((1, True), (4, False)):
        config = toy_config(toy, f"data.max_words={words}", "stage1.epochs=1")
        prepared = Run(tmp_path / str(words))
        with prepared.lock():
            prepared.prepare(config)
            prepare_data(config, prepared)
        said = capsys.readouterr().err
        assert (said.count("warning") == 1) == warned
        if warned:
            left = len(prepared.load_corpus("train"))
            assert f"the filters left out {40 - left} of 40 sentence pairs" in said
            assert f"{config.data.train.src}: " in said
            assert "check data.min_sentences, data.max_words" in said


@pytest.mark.parametrize("setting", ["data.train.src=nowhere", "data.dev.trg=nowhere"])
def test_a_missing_file_leaves_no_run_directory(toy: Path, tmp_path: Path, setting: str) -> None:
    with pytest.raises(UserError, match="nowhere: no such file"):
        train(toy_config(toy, setting), tmp_path / "runs" / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_finished_run_does_nothing_and_says_so(
    toy: Path, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file: file.stat().st_mtime_ns for file in run.directory.rglob("*.*")}
    train(toy_config(toy), run.directory)
    errors = capsys.readouterr().err
    assert errors == "stage1: nothing left to do, finished by an earlier start\n"
    assert {file: file.stat().st_mtime_ns for file in run.directory.rglob("*.*")} == before


@pytest.mark.parametrize(
    "setting", ["seed=9", "stage1.epochs=4", "model.alignment=9", "data.max_words=4"]
)
def test_another_configuration_is_refused(toy: Path, run: Run, setting: str) -> None:
    with pytest.raises(UserError, match=f"begun with {setting.partition('=')[0]} = "):
        train(toy_config(toy, setting), run.directory)


def test_what_does_not_touch_training_may_change(toy: Path, tmp_path: Path) -> None:
    one_epoch = "stage1.epochs=1"
    directory = train(toy_config(toy, one_epoch), tmp_path / "run").directory
    weights = (directory / "stage1.safetensors").read_bytes()
    changed = toy_config(toy, one_epoch, "search.beam=7", "stage1.checkpoint_minutes=3")
    train(changed, directory)
    assert (directory / "stage1.safetensors").read_bytes() == weights
    assert Translator.load(directory).config.search.beam == 7


def test_a_mistake_can_be_corrected_before_anything_is_trained(toy: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    one_epoch = "stage1.epochs=1"
    with pytest.raises(UserError, match="no such file"):
        train(toy_config(toy, one_epoch, "data.dev.src=nowhere", "vocabulary.size=6"), directory)
    train(toy_config(toy, one_epoch), directory)
    straight = train(toy_config(toy, one_epoch), tmp_path / "straight").directory
    for name in ("stage1.safetensors", "src.vocabulary", "config.toml"):
        assert (directory / name).read_bytes() == (straight / name).read_bytes()


def test_a_second_process_is_kept_out(toy: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with run.lock(), pytest.raises(UserError, match="another process is training here"):
        train(toy_config(toy), run.directory)
    train(toy_config(toy, "stage1.epochs=1"), run.directory)  # the lock has gone with its owner


def test_a_disk_without_locks_is_not_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(UserError, match="cannot be locked: No locks available; choose"),
        Run(tmp_path / "run").lock(),
    ):
        pass


@pytest.mark.parametrize(("platform", "unit"), [("linux", 1024), ("darwin", 1024 * 1024)])
def test_peak_memory(platform: str, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(ru_maxrss=300 * unit)
    monkeypatch.setattr(resource, "getrusage", lambda _: usage)
    monkeypatch.setattr(sys, "platform", platform)
    assert peak_rss_mb() == 300


def test_damaged_numbers_are_made_again(toy: Path, tmp_path: Path) -> None:
    config = toy_config(toy, "stage1.epochs=1")
    run = train(config, tmp_path / "run")
    ids = run.data("train") / "src.ids"
    before = ids.read_bytes()
    ids.write_bytes(before[:-2])
    train(config, run.directory)
    assert ids.read_bytes() == before


def test_numbers_that_vanish_are_missed(run: Run) -> None:
    with pytest.raises(UserError, match="is incomplete or damaged"):
        run.load_corpus("test")


def test_changed_training_data_is_refused_once_something_is_trained(tmp_path: Path) -> None:
    write_toy(tmp_path)
    config = toy_config(tmp_path, "stage1.epochs=1")
    train(config, tmp_path / "run")
    src = Path(config.data.train.src)
    lines = src.read_text(encoding="utf-8").splitlines()
    src.write_text("\n".join([*lines[1:], lines[0]]) + "\n", encoding="utf-8")
    with pytest.raises(UserError, match="not the one that this run was begun with"):
        train(config, tmp_path / "run")


def test_a_run_goes_on_without_the_files_it_was_made_from(tmp_path: Path) -> None:
    write_toy(tmp_path)
    config = toy_config(tmp_path, "stage1.epochs=1")
    first = load_file(train(config, tmp_path / "run").stage("stage1").best)
    for name in ("train", "dev"):
        Path(getattr(config.data, name).src).unlink()
    again = load_file(train(config, tmp_path / "run").stage("stage1").best)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_mixed_precision_is_for_updates_and_learns_as_well(
    toy: Path, run: Run, tmp_path: Path
) -> None:
    if not describe(mixed=True).endswith("mixed"):
        pytest.skip("no CPU kernels for bfloat16 on this machine")
    mixed = train(toy_config(toy, "stage1.precision=mixed"), tmp_path / "run")
    weights, exact = weights_of(mixed), weights_of(run)
    assert not any(torch.equal(weights[name], exact[name]) for name in weights)
    perplexities = [
        min(
            event["dev_perplexity"]
            for event in read_log(each.directory)
            if event["event"] == "epoch"
        )
        for each in (mixed, run)
    ]
    assert perplexities[0] == pytest.approx(perplexities[1], rel=0.02)
    # The dev set is read exactly: another reader of the same weights finds the same.
    config = mixed.load_config()
    model = TranslationModel(config.model, *map(len, mixed.load_vocabularies()))
    load_weights(mixed.stage("stage1").best, model)
    dev = mixed.load_corpus("dev")
    with torch.no_grad():
        loss = sentence_loss(model.eval(), make_batch(dev, range(len(dev))))
    assert math.exp(loss.nats / loss.words) == pytest.approx(perplexities[0], rel=1e-6)


def test_tiny_numbers_are_zero_in_training_and_only_there() -> None:
    tiny = torch.tensor(1e-30)
    assert (tiny * 1e-10).item() > 0
    with flush_denormals():
        assert (tiny * 1e-10).item() == 0
    assert (tiny * 1e-10).item() > 0
