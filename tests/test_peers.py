"""What ``bench/peers`` computes from the clocks and logs of contenders, against counts by hand."""

import importlib
import json
import math
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest

from wholedoc.config import load_config

PEERS = Path(__file__).parents[1] / "bench" / "peers"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    """Modules of the comparison, which stand beside each other and not in a package."""

    def load_module(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(PEERS))
        return importlib.import_module(name)

    return load_module


def test_speed_leaves_out_the_first_tenth(load):
    marks = [(9.0, 10), (10.0, 30), (60.0, 5030), (100.0, 9030)]
    assert load("task").training_numbers(marks, updates=10) == {
        "seconds": 100.0,
        "words": 9030,
        "words_per_second": 100.0,
        "words_per_update": 903.0,
    }


@pytest.mark.parametrize("marks", [[], [(5.0, 100)], [(5.0, 100), (99.0, 200)]])
def test_too_few_updates_have_no_speed(load, marks):
    with pytest.raises(SystemExit, match=rf"{len(marks)} update"):
        load("task").training_numbers(marks, len(marks))


def test_meter_counts_finished_updates_and_ends_in_time(load, monkeypatch):
    task = load("task")
    now = [100.0]
    monkeypatch.setattr(task.time, "monotonic", lambda: now[0])
    meter = task.Meter(seconds=40.0, highest_rate=0.01)
    assert meter.begin(7)
    assert meter.learning_rate() == 0.0
    now[0] += 1.0  # half of the warm-up, a twentieth of the time
    assert meter.begin(5)
    expected = 0.01 / 2 * (1 + math.cos(math.pi / 40)) / 2
    assert meter.learning_rate() == pytest.approx(expected)
    now[0] += 39.0
    assert not meter.begin(9)
    assert meter.learning_rate() == pytest.approx(0.0, abs=1e-12)
    assert meter.marks == [(1.0, 7), (40.0, 12)]


def test_wholedoc_log_gives_words_of_all_epochs_and_speed_without_the_dev_set(load, tmp_path):
    events = [
        {"event": "start"},
        {"event": "update", "seconds": 10.0, "words": 500},
        {"event": "update", "seconds": 12.0, "words": 1500},
        {"event": "epoch", "seconds": 20.0, "words": 1800},
        {"event": "update", "seconds": 21.0, "words": 200},
        {"event": "update", "seconds": 24.0, "words": 1700},
    ]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    (tmp_path / "log.jsonl").write_text(lines, encoding="utf-8")
    contender = load("contender_wholedoc")
    expected = [(10.0, 500), (12.0, 1500), (20.0, 1800), (21.0, 2000), (24.0, 3500)]
    assert contender.marks(tmp_path) == expected
    assert contender.speed_of_updates(tmp_path) == 500.0  # 2,500 words in 2 + 3 seconds


def test_recipe_is_that_of_small(load):
    small = load_config("small")
    assert asdict(load("task").RECIPE) == {
        "hidden": small.model.hidden,
        "embedding": small.model.embedding,
        "batch_tokens": small.stage1.batch_tokens,
        "label_smoothing": small.stage1.label_smoothing,
        "dropout": small.stage1.dropout,
        "clip": small.stage1.clip,
        "seed": small.seed,
        "beam": small.search.beam,
    }


def test_lines_end_at_line_feeds_alone(load, tmp_path):
    lines = ["a\rb", "", "c\u2028d"]
    load("task").write_lines(tmp_path / "x", lines)
    assert load("task").read_lines(tmp_path / "x") == lines


def test_lists_of_versions_pin_everything(load):
    run = load("run")
    for peer in load("table").PEERS:
        lines = (PEERS / f"requirements-{peer}.txt").read_text(encoding="utf-8").splitlines()
        assert all(line.count("==") == 1 for line in lines)
        assert run.version(peer)[0].isdigit()


def test_an_export_is_compared_with_peers_by_its_decoding_alone(load, tmp_path, capsys):
    run = load("run")
    work = run.Work(tmp_path, 20)
    found = {
        "wholedoc": {"train": {"words_per_second": 300.0, "cores": 1.0}},
        "export": {"decode": {"words": 900, "sentences": 30, "seconds": 3.0, "cores": 1.0}},
        "joeynmt": {
            "train": {"words_per_second": 100.0, "cores": 1.0},
            "decode": {"words": 600, "sentences": 30, "seconds": 10.0, "cores": 0.5},
        },
    }
    for contender, steps in found.items():
        work.run(contender).mkdir(parents=True)
        for step, numbers in steps.items():
            (work.run(contender) / f"{step}.json").write_text(json.dumps(numbers))
    counts = {"dev": {"trg": 7}, "test": {"trg": 600, "pairs": 30}}
    results = run.collect(work, counts)
    table = load("table")
    table.print_table(results)
    table.warn_of_waiting(results)
    table.warn_of_lengths(results, counts)
    printed = capsys.readouterr().out.splitlines()
    assert "train: wholedoc does 3.00 times the words/s of joeynmt" in printed
    assert "decode: export does 5.00 times the words/s of joeynmt" in printed
    assert not [line for line in printed if line.startswith("train: export does")]
    warnings = [line.split()[1] for line in printed if line.startswith("WARNING")]
    assert warnings == ["joeynmt:", "export:"]  # half a core; half as long again as the reference


def test_nothing_is_exported_before_it_is_trained(load, tmp_path):
    run = load("run")
    with pytest.raises(run.StepFailedError, match="trained first"):
        run.run_contender(run.Work(tmp_path, 20), "export")


def test_turns_are_compared_inside_each_turn(load, capsys):
    def turn(wholedoc, joeynmt):
        speeds = {"wholedoc": wholedoc, "joeynmt": joeynmt}
        steps = {
            name: {"words_per_second": speed} if speed else {} for name, speed in speeds.items()
        }
        return {"export": {"train": {}, "decode": {}}} | {
            name: {"train": found, "decode": {}} for name, found in steps.items()
        }

    load("table").print_turns([turn(200, 100), turn(900, 300), turn(500, None), turn(100, 25)])
    assert capsys.readouterr().out.splitlines() == [
        "train, in turn: wholedoc 200, 900, 500, 100 words/s",
        "train, in turn: joeynmt 100, 300, 25 words/s",
        "train, in turn: wholedoc does 3.00 times joeynmt's words/s",
    ]
