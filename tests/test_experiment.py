"""Experiments: the grid, its order, what survives a kill, and the report that it leaves."""

import fcntl
import json
import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from wholedoc.config import shipped_configs
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.errors import UserError
from wholedoc.experiment import report as report_module
from wholedoc.experiment import results as results_module
from wholedoc.experiment import runner, tables
from wholedoc.experiment.grid import (
    MEMORY_SYSTEMS,
    PAPER_SYSTEMS,
    RECALL_SYSTEMS,
    SYSTEMS,
    Experiment,
    ExperimentConfig,
    Job,
    load_experiment,
)
from wholedoc.experiment.report import (
    Report,
    build_report,
    choose_examples,
    format_html,
    format_markdown,
)
from wholedoc.experiment.results import (
    ResultFiles,
    Results,
    RunFigures,
    load_results,
    make_requests,
    read_lines,
)
from wholedoc.experiment.runner import ProcessPool, run_experiment, run_jobs
from wholedoc.experiment.tables import CellMaker, read_printed
from wholedoc.rendering.charts import Figure
from wholedoc.rendering.tables import Table

# Small enough to learn nothing: a run takes less than a second.
TINY = """
title = "Tiny <b>"
config = "tiny"
seeds = [1, 2]
passes = 2
trials = 200

[synth]
train = 12
dev = 3
test = 8

[larger]
documents = 6

[set.model]
hidden = 8
embedding = 8
alignment = 4

[set.stage0]
epochs = 1
batch_tokens = 2000

[set.stage1]
epochs = 2
learning_rate = 0.05
warmup = 0
batch_tokens = 300

[set.stage2]
epochs = 1
warmup = 0
update_tokens = 1000
batch_tokens = 2000

[set.search]
max_length_factor = 1.0
max_length_extra = 2
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


# The experiment file.

DATA = "".join(f'[set.data.{name}]\nsrc = "x"\ntrg = "y"\n' for name in ("train", "dev", "test"))


@pytest.mark.parametrize("name", shipped_configs(experiments=True))
def test_shipped_experiments_load(name: str) -> None:
    experiment = load_experiment(name)
    assert experiment.out == Path("experiments") / name
    found = {job.system for job in experiment.jobs()}
    if name == "experiment-recall":
        assert found == set(RECALL_SYSTEMS) - {"both-output-recall", "recall-other"} | {
            "s-nmt",
            "both-context",
        }
    else:
        assert found >= set(PAPER_SYSTEMS)


REFUSED = [
    ("sedes = [1]", "unknown key sedes; did you mean seeds?"),
    ("seeds = 3", "seeds = 3 is not a list; write seeds = [...]"),
    ("seeds = []", "seeds is empty"),
    ("seeds = [1, 1]", "seeds holds 1 twice"),
    ("seeds = [-1]", "seeds[0] = -1 is out of range"),
    ("seeds = [1, '2']", 'seeds[1] = "2" is not a whole number'),
    ("systems = ['s-nmt', 'src-contex']", "did you mean 'src-context'? choices: s-nmt"),
    ("systems = ['src-context']", "systems lacks s-nmt"),
    ("systems = ['s-nmt', 's-nmt']", "systems holds s-nmt twice"),
    ("trials = 100_001", "trials = 100001 is out of range"),
    ("passes = 0", "passes = 0 is out of range; it must be between 1 and 100"),
    ("config = 'smal'", "no such configuration; give a TOML file or one of: paper, small, tiny"),
    ("[set]\nseed = 3", "choose with seeds = [...] and systems = [...]"),
    ("[set.model]\nmemory = 'src'", "choose with seeds = [...] and systems = [...]"),
    ("[set.model]\nhiden = 3", "unknown key model.hiden; did you mean model.hidden?"),
    ("[set.model]\nhidden = 'x'", 'model.hidden = "x" is not a whole number'),
    ("[set]\nmodel = 3", "model must be a section, not 3"),
    ("[set]\nsearch = 3", "search must be a section, not 3"),
    ("set = 3", "set = 3 is not a section"),
    ("[set.data.train]\nsrc = 'x'", "there is no dev set; add [set.data.dev] with src"),
    ("[larger]\ndocuments = 3", "larger.documents needs the artificial corpus"),
    ("[larger]\nsource = 'x'", "unknown key larger.source"),
    ("[synth]\ntrian = 3", "unknown key synth.trian; did you mean synth.train?"),
    ("[synth]\ntrain = 0", "synth.train: must be between 1 and 1,000,000"),
    ("[synth]\n[larger]\ndocuments = 3\nsrc = 'x'", "does not go with larger.src"),
    ("seeds = ", "not valid TOML"),
    ("[recall]\nbase = 'more'", "is not a choice; choices: s-nmt, longer"),
    ("systems = ['s-nmt', 'both-context-recall']", "but not both-context, whose model it takes"),
    ("systems = ['s-nmt', 'recall']\n[recall]\nbase = 'longer'", "recall, but not longer, whose"),
    ("[set.search]\nshuffle_memory = true", "write shuffled = true"),
    ("[set.search]\npasses = 0", "with search.passes = 0 every system is the sentence model"),
    ("[set.tm]\nfit = true", "choose with seeds = [...] and systems = [...]"),
]


@pytest.mark.parametrize(("toml", "message"), REFUSED)
def test_refused(tmp_path: Path, toml: str, message: str) -> None:
    data = "" if "[set" in toml or "set =" in toml else DATA
    file = write(tmp_path / "e.toml", f"{toml}\n{data}")
    with pytest.raises(UserError) as caught:
        load_experiment(file)
    assert message in str(caught.value)


def test_no_such_experiment() -> None:
    with pytest.raises(UserError, match="experiment-tiny"):
        load_experiment("nowhere")


def test_the_grid(tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", f"seeds = [3, 5]\n{DATA}")
    experiment = load_experiment(file)
    jobs = experiment.jobs()
    assert [job.name for job in jobs[:4]] == [
        "s-nmt-3",
        "s-nmt-5",
        "src-context-3",
        "src-context-5",
    ]
    assert len(jobs) == 22
    models = {
        job.system: (config.model.memory, config.model.fusion, config.model.context, config.seed)
        for job in jobs
        if job.seed == 5
        for config in [experiment.job_config(job)]
    }
    assert models["s-nmt"] == ("none", "none", "none", 5)
    assert models["both-output"] == ("both", "output", "none", 5)
    assert models["jean2017"] == ("none", "none", "jean2017", 5)
    assert models["more"] == ("none", "none", "more", 5)


def test_each_control_has_the_dropout_of_what_it_stands_beside(tmp_path: Path) -> None:
    systems = ("s-nmt", "src-context", "both-output", "more", "more-dual")
    for config, dual in (("paper", 0.5), ("small", 0.2)):
        toml = f"config = '{config}'\nsystems = {list(systems)}\nseeds = [1]\n{DATA}"
        experiment = load_experiment(write(tmp_path / "e.toml", toml))
        configs = [experiment.job_config(job) for job in experiment.jobs()]
        rates = [config.stage2.dropouts(config.model)[0] for config in configs]
        assert rates[1:] == [0.2, dual, 0.2, dual]
        assert [config.model.context for config in configs] == [*["none"] * 3, "more", "more"]


def test_a_larger_corpus_has_a_grid_of_its_own(tmp_path: Path) -> None:
    file = write(
        tmp_path / "e.toml", f"seeds = [1]\n[larger]\nsrc = 'l.src'\ntrg = 'l.trg'\n{DATA}"
    )
    experiment = load_experiment(file)
    larger = [job for job in experiment.jobs() if job.larger]
    assert [job.name for job in larger] == [
        f"{system}-larger-1" for system in ("s-nmt", *MEMORY_SYSTEMS)
    ]
    assert experiment.job_config(larger[0]).data.extra.src == "l.src"
    assert experiment.job_config(Job("s-nmt", 1)).data.extra.src == ""
    assert larger[1].needs == "s-nmt-larger-1"


# The schedule.


@dataclass
class FakePool(ProcessPool):
    """Ends one job at a time, in an order that a test chooses."""

    order: Sequence[int] = ()
    failing: frozenset[str] = frozenset()
    running: list[str] = field(default_factory=list)
    most: int = 0
    started: list[str] = field(default_factory=list)
    at_start: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    stopped: bool = False

    def start(self, name: str) -> None:
        self.at_start.append((name, tuple(self.running)))
        self.running.append(name)
        self.started.append(name)
        self.most = max(self.most, len(self.running))

    def wait(self) -> dict[str, str]:
        turn = self.order[len(self.started) % len(self.order)] if self.order else 0
        name = self.running.pop(turn % len(self.running))
        return {name: "broken" if name in self.failing else ""}

    def stop(self) -> None:
        self.stopped = True


GRID = [
    Job(system, seed, base=ExperimentConfig().base_of(system))
    for system in SYSTEMS
    for seed in (1, 2)
]


@given(
    order=st.lists(st.integers(0, 5), min_size=1),
    limit=st.integers(1, 4),
    failing=st.frozensets(st.sampled_from([job.name for job in GRID]), max_size=4),
)
def test_every_order_of_ends(order: list[int], limit: int, failing: frozenset[str]) -> None:
    pool = FakePool(order, failing)
    failed = run_jobs(GRID, pool, limit)
    jobs = {job.name: job for job in GRID}
    assert pool.most <= limit
    assert len(set(pool.started)) == len(pool.started)
    # What did not start needs what failed; nothing else is missing.
    skipped = jobs.keys() - set(pool.started)
    assert skipped == {n for n, job in jobs.items() if job.needs in failing | skipped}
    assert failed == {
        name: f"skipped, as {jobs[name].needs} failed" if name in skipped else "broken"
        for name in skipped | (failing - skipped)
    }
    made: set[str] = set()
    for number, (name, others) in enumerate(pool.at_start):
        before = [job for job, _ in pool.at_start[:number] if job not in others]
        made = {part for job in before if job not in failing for part in jobs[job].parts}
        assert jobs[name].needs in {"", *before}
        for other in others:  # two jobs at once never make the same part
            assert jobs[name].parts & jobs[other].parts <= made


def test_two_at_once_use_both_places() -> None:
    pool = FakePool()
    assert run_jobs(GRID, pool, 2) == {}
    assert pool.most == 2
    assert pool.at_start[1] == ("s-nmt-2", ("s-nmt-1",))


def test_what_is_made_already_is_not_waited_for() -> None:
    grid = [Job("src-context", 1), Job("src-output", 1)]
    pool = FakePool()
    run_jobs(grid, pool, 2)
    assert pool.most == 1
    pool = FakePool()
    run_jobs(grid, pool, 2, made=["stage1-1", "stage0-1"])
    assert pool.most == 2


def test_an_interrupt_stops_the_jobs() -> None:
    class Interrupted(FakePool):
        def wait(self) -> dict[str, str]:
            raise KeyboardInterrupt

    pool = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(GRID, pool, 2)
    assert pool.stopped


def work(name: str) -> None:
    print(f"{name} begins", flush=True)
    if name == "wrong":
        raise UserError("is wrong", where="here", fix="mend it")
    if name == "broken":
        raise ZeroDivisionError("of nothing")
    if name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


def test_processes_tell_why_they_failed(tmp_path: Path) -> None:
    pool = ProcessPool(work, tmp_path / "logs")
    names = ["fine", "wrong", "broken", "killed"]
    for name in names:
        pool.start(name)
    ended: dict[str, str] = {}
    while pool.running:
        ended |= pool.wait()
    assert ended == {
        "fine": "",
        "wrong": "here: is wrong; mend it",
        "broken": "ZeroDivisionError: of nothing",
        "killed": f"killed by SIGKILL; see {tmp_path}/logs/killed.txt",
    }
    assert (tmp_path / "logs" / "fine.txt").read_text() == "fine begins\n"


def keep(name: str) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    large = torch.ones(2**26)
    full = resident()
    del large
    print(round((full - resident()) * os.sysconf("SC_PAGE_SIZE") / 2**20), "MiB given back")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_jobs_use_freed_memory_again(tmp_path: Path) -> None:
    pool = ProcessPool(keep, tmp_path)
    pool.start("keeps")
    assert pool.wait() == {"keeps": ""}
    assert (tmp_path / "keeps.txt").read_text() == "0 MiB given back\n"


# A whole experiment, killed once on its way.


def start(file: Path, out: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "wholedoc", "experiment", str(file), "--out", str(out)]
    environment = {**os.environ, "WHOLEDOC_METEOR_JAR": "nowhere"}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """The whole grid, killed after its first runs and begun again."""
    folder = tmp_path_factory.mktemp("experiment")
    file = write(folder / "tiny.toml", TINY)
    out = folder / "out"
    with start(file, out) as process:
        for line in process.stderr or ():
            if line.startswith("src-context-1: started"):
                process.kill()
                break
    done = {path: path.stat().st_mtime_ns for path in out.glob("results/*/results.json")}
    assert len(done) in (1, 2)  # the sentence model of the other seed may be under way
    experiment = load_experiment(file, out)
    assert run_experiment(experiment, 2) == {}
    assert all(path.stat().st_mtime_ns == time for path, time in done.items())
    return experiment


@pytest.fixture(scope="module")
def results(finished: Experiment) -> Results:
    return load_results(finished)


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")  # it takes long, and has its own tests
        return build_report(results)


def test_shared_stages_are_trained_once(finished: Experiment) -> None:
    """For each seed and corpus one stage 1, one stage 0; eleven and seven systems."""
    logs = [file.read_text(encoding="utf-8") for file in (finished.out / "logs").iterdir()]
    counts = {
        stage: sum(re.search(rf"^{stage}: done in", log, re.MULTILINE) is not None for log in logs)
        for stage in ("stage1", "stage0-forward", "stage2")
    }
    # What was killed after stage 1 said so in a log that its second start has replaced.
    assert counts["stage1"] <= 4
    assert counts["stage0-forward"] <= 4
    assert counts["stage2"] == 2 * 10 + 2 * 6
    assert sum("preparing train.generated" in log for log in logs) == 4
    assert len(logs) == 2 * 11 + 2 * 7


def test_every_run_leaves_its_translations(finished: Experiment, results: Results) -> None:
    assert len(results.runs) == 36
    lines = len(read_lines(finished.corpus / "test.src"))
    for job, run in results.runs.items():
        reads = job.system.startswith(("trg", "both", "prevtrg"))
        count = 1 if job.system == "s-nmt" else 3 if reads else 2
        assert [len(found) for found in run.passes] == [lines] * count
        assert (run.shuffled is not None) == (job.system in MEMORY_SYSTEMS)
        assert run.translations == run.passes[0 if job.system == "s-nmt" else 1]
        memories = {"src": {"source"}, "both": {"source", "target"}}
        memories |= {"trg": {"target"}, "prevtrg": {"target"}}
        sides = memories.get(job.system.partition("-")[0], set())
        assert run.document_weights(0).keys() == sides
        assert run.passes[0] == results.runs[Job("s-nmt", job.seed, job.larger)].passes[0]


def test_figures_come_back_from_json(results: Results) -> None:
    for job, run in results.runs.items():
        assert RunFigures.from_json(json.loads(json.dumps(run.figures.to_json()))) == run.figures
        assert {epoch.stage for epoch in run.figures.epochs} >= {"stage1"}
        use = run.figures.context_use
        assert (use is None) == (job.system in ("s-nmt", "more"))
        if use is not None:
            assert use.sentences == len(results.references)
            assert (use.source is None) == (not job.system.startswith(("src", "both")))


def test_nothing_is_done_twice(
    finished: Experiment, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessPool, "start", None)
    assert run_experiment(finished, 1) == {}
    assert "36 runs are done, 0 to do" in capsys.readouterr().err


def test_other_settings_of_search_are_other_results(finished: Experiment) -> None:
    asked = replace(finished.config, set={**finished.config.set, "search": {"beam": 2}})
    assert load_results(replace(finished, config=asked)).runs == {}


def test_results_lie_where_they_are_told(tmp_path: Path) -> None:
    file = write(tmp_path / "e.toml", f"seeds = [1]\n{DATA}")
    assert load_experiment(file).results == Path("experiments/e/results")
    assert load_experiment(file, tmp_path / "out").results == tmp_path / "out" / "results"
    assert load_experiment(file, tmp_path / "out", tmp_path / "kept").results == tmp_path / "kept"


def test_results_are_enough_without_the_models(
    finished: Experiment, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine that has only them: nothing is trained, and all numbers are the same."""
    runs, away = finished.out / "runs", finished.out / "away"
    monkeypatch.setattr(ProcessPool, "start", None)
    monkeypatch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")
    runs.rename(away)
    try:
        assert run_experiment(finished, 1) == {}
        found = build_report(load_results(finished)).to_json()
    finally:
        away.rename(runs)
    asked = report.to_json()
    assert [example.pop("weights") for example in found["examples"]] == [{}, {}]
    assert all(example.pop("weights") for example in asked["examples"])
    assert found == asked


def test_a_kill_leaves_no_figures_beside_other_translations(
    finished: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job("src-context", 1)
    figures = load_results(finished).runs[job].figures
    files = ResultFiles(replace(finished, results=tmp_path), job)
    lines = [["one"], ["two"]]
    files.write(figures, lines, ["three"])
    assert files.read(figures.request) == figures
    for path in (files.translations(1), files.shuffled):  # a part of it was copied
        away = path.rename(path.with_suffix(".away"))
        assert files.read(figures.request) is None
        away.rename(path)
    monkeypatch.setattr(results_module, "write_lines", None)
    with pytest.raises(TypeError):
        files.write(figures, lines)
    assert files.read(figures.request) is None


def test_damaged_results_are_named(finished: Experiment, tmp_path: Path) -> None:
    job = Job("src-context", 1)
    figures = load_results(finished).runs[job].figures
    files = ResultFiles(replace(finished, results=tmp_path), job)
    files.write(figures, [["one"], ["two"]])
    whole = files.translations(0).read_bytes()
    files.translations(0).write_bytes(whole[:-9])
    with pytest.raises(UserError, match="damaged") as caught:
        read_lines(files.translations(0))
    assert caught.value.where == str(files.translations(0))
    for text in ("<<<<<<< HEAD\n", json.dumps({"request": figures.request})):
        files.results.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match="damaged") as caught:
            files.read(figures.request)
        assert caught.value.where == str(files.results)


def test_an_epoch_that_was_ended_twice_counts_once(results: Results) -> None:
    figures = results.runs[Job("s-nmt", 1)].figures
    first, last = figures.stage_epochs("stage1")
    again = replace(last, seconds=last.seconds + 1)
    twice = replace(figures, epochs=(first, last, again))
    assert twice.stage_epochs("stage1") == [first, again]


@pytest.mark.parametrize(("kind", "wanted"), [("word", "wer"), ("subword", "Wer")])
def test_translations_are_in_the_case_of_the_references(
    tmp_path: Path, finished: Experiment, kind: str, wanted: str
) -> None:
    """What is copied from people has capital letters."""
    config = replace(
        finished.config,
        systems=("s-nmt",),
        seeds=(1,),
        larger=type(finished.config.larger)(),
        set={**finished.config.set, "vocabulary": {"kind": kind}},
    )
    experiment = replace(finished, config=config, results=tmp_path)
    ((job, request),) = make_requests(experiment).items()
    figures = load_results(finished).runs[Job("s-nmt", 1)].figures
    ResultFiles(experiment, job).write(replace(figures, request=request, passes=1), [["Wer"]])
    assert load_results(experiment).runs[job].translations == [wanted]


def test_requests_tell_what_training_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("x"), "x\n")
    write(Path("y"), "y\n")
    toml = f"systems = ['s-nmt']\nseeds = [1]\n[set]\ninit = 'de-en'\n{DATA}"
    experiment = load_experiment(write(Path("e.toml"), toml))
    found = []
    for digest in ("one", "two"):
        monkeypatch.setattr("wholedoc.store.run._digest_init", lambda _, digest=digest: digest)
        found += make_requests(experiment).values()
    assert [request["init"] for request in found] == ["one", "two"]


def test_figures_of_a_later_version_are_read(results: Results) -> None:
    figures = next(iter(results.runs.values())).figures
    assert RunFigures.from_json({**figures.to_json(), "colour": "blue"}) == figures


def test_requests_tell_files_by_what_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toml = f"systems = ['s-nmt', 'more', 'fuzzy']\nseeds = [1]\n{DATA}"
    requests = []
    for place, text in (("a", "one\n"), ("b", "one\n"), ("c", "two\n")):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        write(Path("x"), "x\n")
        write(Path("y"), text)
        experiment = load_experiment(write(Path("e.toml"), toml), tmp_path / place)
        requests.append(list(make_requests(experiment).values()))
    assert requests[0] == requests[1]
    assert not any(one == other for one, other in zip(requests[0], requests[2], strict=True))


def test_an_artificial_corpus_of_other_settings_is_refused(finished: Experiment) -> None:
    for settings in ({"synth": {"test": 9}}, {"larger": {"documents": 7}}):
        ((name, values),) = settings.items()
        part = replace(getattr(finished.config, name), **values)
        other = replace(finished, config=replace(finished.config, **{name: part}))
        with pytest.raises(UserError, match="holds the corpus of other settings"):
            run_experiment(other, 1)


def test_results_are_for_one_process_at_a_time(
    finished: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_LOCK_ATTEMPTS", 1)
    held = os.open(finished.results, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process runs this experiment") as caught:
            run_experiment(replace(finished, out=tmp_path), 1)
    finally:
        os.close(held)
    assert caught.value.where == str(finished.results)


def test_a_model_of_other_settings_or_data_is_not_the_one(finished: Experiment) -> None:
    job = Job("s-nmt", 1)
    assert runner._is_trained(finished, job)
    changed = replace(finished.config, set={**finished.config.set, "stage1": {"epochs": 3}})
    assert not runner._is_trained(replace(finished, config=changed), job)
    train = finished.corpus / "train.src"
    text = train.read_text(encoding="utf-8")
    try:
        train.write_text(text.upper(), encoding="utf-8")
        assert not runner._is_trained(finished, job)
    finally:
        train.write_text(text, encoding="utf-8")


def test_a_test_set_of_one_document_has_no_other_memory(tmp_path: Path) -> None:
    toml = TINY.replace("[larger]\ndocuments = 6\n", "").replace("[1, 2]", "[1]")
    toml = f"systems = ['s-nmt', 'src-context']\n{toml}".replace("test = 8", "test = 1")
    experiment = load_experiment(write(tmp_path / "e.toml", toml), tmp_path / "out")
    assert run_experiment(experiment, 2) == {}
    assert load_results(experiment).runs[Job("src-context", 1)].shuffled is None


def test_curves_begin_with_stage_2_where_there_is_no_other(results: Results) -> None:
    run = results.runs[Job("src-context", 1)]
    later = tuple(run.figures.stage_epochs("stage2"))
    begun = replace(run, figures=replace(run.figures, epochs=later))
    assert [x for x, _ in tables._mean_curve([begun])] == [1.0]
    assert [x for x, _ in tables._mean_curve([run])] == [0.0, 1.0]


# The report.

TITLES = [
    "Table 1",
    "Table 2",
    "Table 3",
    "Table 4",
    "Table 5",
    "Table 6",
    "Figure 3",
    "Table 7",
    "Words that need their document",
    "Output analysis",
    "Use of context",
    "Distances",
    "All systems",
    "Learning curves",
    "Passes",
    "Speed and memory",
]


def table(report: Report, name: str) -> Table:
    (found,) = [b for b in report.blocks if b.name == name and isinstance(b, Table)]
    return found


def texts(report: Report, name: str) -> dict[str, list[str]]:
    return {row.label: [cell.text for cell in row.cells] for row in table(report, name).rows}


def test_the_report_is_complete(report: Report) -> None:
    assert [block.name for block in report.blocks] == TITLES
    assert report.failed == {}
    for block in report.blocks:
        if isinstance(block, Table):
            assert all(len(row.cells) == len(block.headings) for row in block.rows)
            for row in block.rows:
                gaps = {cell.text for cell in row.cells if cell.value is None}
                assert gaps <= {"–", "missing"}, (block.name, row.label)
        elif isinstance(block, Figure):
            assert block.charts, block.name
            assert all(line.points for chart in block.charts for line in chart.series)
    assert "METEOR" not in report.signatures
    assert "nowhere" in report.missing["meteor"]


def test_the_rows_are_those_of_the_paper(report: Report) -> None:
    assert list(texts(report, "Table 2"))[:4] == ["S-NMT", "+src", "+trg", "+both"]
    assert list(texts(report, "Table 3"))[:4] == ["S-NMT", "+src mem", "+trg mem", "+both mems"]
    five = ["Jean et al. (2017)", "Wang et al. (2017)", "S-NMT", "+src mem", "+both mems"]
    assert list(texts(report, "Table 4")) == five
    assert list(texts(report, "Table 5")) == five
    assert list(texts(report, "Table 6")) == ["S-NMT", "+prev trg", "+trg mem"]


def test_the_numbers_of_the_paper_stand_beside_ours(report: Report) -> None:
    printed = read_printed()
    counts = {name: len(found) for name, found in printed.items()}
    assert counts == {"Table 2": 2} | dict.fromkeys([*TITLES[:1], *TITLES[2:7]], 1)
    for found in [one for several in printed.values() for one in several]:
        assert all(len(row.cells) == len(found.headings) for row in found.rows)
    assert format_html(report).count("The paper’s numbers") == len(printed)
    both = printed["Table 2"][0].rows[-1]
    assert (both.label, both.cells[0].text) == ("+both", "22.00†")


@pytest.mark.parametrize(("kind", "wanted"), [("word", "wer das las"), ("subword", "Wer DAS las")])
def test_references_are_in_the_case_of_the_models(
    results: Results, kind: Literal["word", "subword"], wanted: str
) -> None:
    config = replace(results.config, vocabulary=replace(results.config.vocabulary, kind=kind))
    document = Document("d", (SentencePair("s", "Wer DAS las"),))
    found = replace(results, config=config, documents=[document], runs={})
    assert found.references == [wanted]
    facts = report_module._facts(CellMaker(found))["test set"]
    assert ("lower case" in facts) == (kind == "word")


def test_numbers_come_from_the_translations(report: Report, results: Results) -> None:
    def bleu(lines: Sequence[str]) -> float:
        return BLEU().corpus_score(list(lines), [results.references]).score

    one, two = (results.runs[Job("both-context", seed)] for seed in (1, 2))
    scores = [bleu(run.translations) for run in (one, two)]
    cell = {row.label: row.cells[0] for row in table(report, "Table 2").rows}["+both"]
    assert cell.value == pytest.approx(sum(scores) / 2)
    spread = abs(scores[0] - scores[1]) / 2**0.5
    assert cell.text.startswith(f"{sum(scores) / 2:.2f} ± {spread:.2f}")
    shuffled = [bleu(run.shuffled or []) for run in (one, two)]
    cells = {row.label: row.cells[0] for row in table(report, "Table 2").rows}
    assert cells["+both, shuffled"].value == pytest.approx(sum(shuffled) / 2)
    train = {row.label: row.cells for row in table(report, "Table 1").rows}["train"]
    assert train[0].value == 12
    assert train[1].value == len(read_lines(results.experiment.corpus / "train.src"))


def test_markdown_and_json_hold_the_same_numbers(report: Report) -> None:
    markdown = format_markdown(report)
    values = json.loads(json.dumps(report.to_json()))
    names = [found["name"] for found in values["tables"] + values["figures"]]
    assert {*names, "Table 7"} == set(TITLES)
    for found in values["tables"]:
        for row in found["rows"]:
            line = f"| {row['label']} | {' | '.join(row['texts'])} |"
            assert line in markdown.replace("**", "")
            for value, text in zip(row["values"], row["texts"], strict=True):
                if value is not None:
                    shown = float(re.sub(r" .*|[†‡♠♣♦,]", "", text))
                    assert shown == pytest.approx(value, abs=0.51 if "." not in text else 0.051)


class Page(HTMLParser):
    """Checks that tags are closed in order, and gathers the text and the links."""

    VOID = ("meta", "br", "link")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        self.links.add(values.get("href") or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_stands_alone(report: Report) -> None:
    text = format_html(report)
    assert "http" not in text
    assert "src=" not in text
    page = Page(text)
    assert page.open == []
    assert {link.removeprefix("#") for link in page.links - {""}} <= page.ids
    for title in (*TITLES, "Signatures", "Tiny <b>"):
        assert title in page.text
    for block in report.blocks:
        if isinstance(block, Table):
            assert all(cell.text in page.text for row in block.rows for cell in row.cells)


def test_what_is_missing_is_said(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")
    gone = {Job("src-context", 1), Job("src-context", 2), Job("trg-context", 2), Job("more", 1)}
    left = {
        job: run
        for job, run in results.runs.items()
        if job not in gone and not job.larger and job.system not in ("jean2017", "prevtrg")
    }
    failed = {"src-context-1": "here: is wrong", "more-1": "skipped, as s-nmt-1 failed"}
    config = replace(
        results.experiment.config,
        systems=tuple(s for s in PAPER_SYSTEMS if s != "prevtrg"),
        trials=10,
        shuffled=False,
    )
    experiment = replace(results.experiment, config=config)
    report = build_report(replace(results, experiment=experiment, runs=left, failed=failed))
    rows = texts(report, "Table 2")
    assert rows["+src"][0] == "failed"
    assert rows["+trg"][0].endswith("(1 of 2 seeds)")
    assert rows["S-NMT, more training"][0].endswith("(1 of 2 seeds)")
    assert texts(report, "Table 4")["Jean et al. (2017)"] == ["not finished", "not finished"]
    assert texts(report, "Table 6")["+prev trg"] == ["not asked for", "not asked for"]
    assert report.to_json()["failed"] == failed
    assert "here: is wrong" in Page(format_html(report)).text
    assert "src-context-1: here: is wrong" in format_markdown(report)


def test_examples_are_chosen_by_rule(results: Results) -> None:
    """Two sentences are changed by hand: one into its reference, one into nothing like it."""
    base = results.runs[Job("s-nmt", 1)]
    run = results.runs[Job("both-context", 1)]
    size = results.sizes[0]
    translations = list(base.translations)
    worst = list(base.translations)
    worst[3] = translations[3] = "q"
    translations[size + 1] = results.references[size + 1]
    worst[size + 1] = "q"
    translations[2], worst[2] = "q", results.references[2]
    runs = {
        Job("s-nmt", 1): replace(base, passes=[worst]),
        Job("both-context", 1): replace(run, passes=[worst, translations]),
        Job("wang2017", 1): results.runs[Job("wang2017", 1)],
        Job("jean2017", 1): results.runs[Job("jean2017", 1)],
    }
    gain, loss = choose_examples(replace(results, runs=runs))
    assert (gain.kind, gain.document, gain.sentence) == ("largest gain", 1, 1)
    assert (loss.kind, loss.document, loss.sentence) == ("largest loss", 0, 2)
    assert gain.change == pytest.approx(100, abs=1)
    assert gain.translations.keys() == {"s-nmt", "both-context", "wang2017"}
    assert gain.translations["both-context"] == gain.trg == results.references[size + 1]
    assert (gain.weights, loss.weights) == ({}, {})  # they are of other translations
    sizes = results.sizes[1], results.sizes[1]
    assert {side: found.shape for side, found in run.document_weights(1).items()} == {
        "source": sizes,
        "target": sizes,
    }
    assert choose_examples(replace(results, runs={Job("s-nmt", 1): base})) == []


# What goes wrong.


def test_the_rest_is_carried_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    toml = TINY.replace("[larger]\ndocuments = 6\n", "").replace(
        "seeds =", "shuffled = false\nseeds ="
    )
    file = write(tmp_path / "e.toml", f"systems = ['s-nmt', 'more']\n{toml}")
    out = tmp_path / "out"
    for name in ("s-nmt-2", "more-1"):
        (out / "runs" / name).mkdir(parents=True)
        write(out / "runs" / name / "mine.txt", "not a run")
    with start(file, out) as process:
        errors = process.stderr.read() if process.stderr else ""
    assert process.returncode == 1
    reason = "the directory is not empty and holds no run; choose another with --run"
    assert json.loads((out / "failed.json").read_text()) == {
        "s-nmt-2": f"{out}/runs/s-nmt-2: {reason}",
        "more-1": f"{out}/runs/more-1: {reason}",
        "more-2": "skipped, as s-nmt-2 failed",
    }
    assert "3 runs failed or were skipped: " in errors
    rows = {
        row["label"]: row["texts"][0]
        for row in json.loads((out / "report.json").read_text())["tables"][1]["rows"]
    }
    assert rows["S-NMT"].endswith("(1 of 2 seeds)")
    assert rows["S-NMT, more training"] == "failed"
    assert capfd.readouterr().out.strip() == str(out / "report.html")
