"""Collections translated by workers that may be lost: each document exactly once, none lost."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wholedoc.bulk import run
from wholedoc.bulk.ledger import Ledger
from wholedoc.bulk.run import Summary, translate_collection
from wholedoc.bulk.shards import list_sources, read_shards
from wholedoc.bulk.work import Document, Work
from wholedoc.bulk.worker import Worker
from wholedoc.bulk.workers import Answer, ProcessWorkers, Workers
from wholedoc.cli import app
from wholedoc.cli.bulk import fill_address
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.formats.po import Po

ROWS = 4  # of a shard


class Inline:
    """Workers of this process: two that do their tasks when somebody waits for them."""

    def __init__(self, work: Work, lose: Callable[[Sequence[Document]], bool]) -> None:
        self._worker = Worker(work)
        self._lose = lose
        self._tasks: dict[int, Sequence[Document]] = {}

    def has_room(self) -> bool:
        return len(self._tasks) < 2

    def submit(self, task: int, documents: Sequence[Document]) -> None:
        self._tasks[task] = documents

    def wait(self) -> list[Answer]:
        task, documents = self._tasks.popitem()  # not the one that was given first
        return [Answer(task, None if self._lose(documents) else self._worker.translate(documents))]

    def close(self) -> None:
        self._tasks.clear()


@pytest.fixture(scope="module")
def work(learned_toy: Path) -> Work:
    return Work(str(learned_toy), Translator.load(learned_toy).config.search)


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TASK_BYTES", 40)  # two or three of the documents below


def write_rows(file: Path, count: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = [
        {"id": f"d{n}", "sentences": [f"s{n % 12} s{n * 5 % 12}", f"s{n * 7 % 12}"], "keep": n}
        for n in range(count)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return rows


def translate(
    inputs: Sequence[Path], out: Path, work: Work, start: Callable[[], Workers] | None = None
) -> Summary:
    sources, _ = list_sources([str(path) for path in inputs], "", out)
    start = start or partial(Inline, work, lambda _: False)
    with Ledger(out, {"model": work.model}) as ledger:
        return translate_collection(sources, out, ledger, start, ROWS)


def read_rows(out: Path) -> list[dict[str, object]]:
    files = sorted(file for file in out.glob("*.jsonl") if file.name != "failed.jsonl")
    return [json.loads(line) for f in files for line in f.read_text("utf-8").splitlines()]


def failures(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "failed.jsonl").read_text("utf-8").splitlines()]


def check(rows: Sequence[dict[str, object]], out: Path, model: str) -> None:
    """Each row is there once, in its order, as the model translates it alone; the rest is kept."""
    translator = Translator.load(model)
    alone = [{**row, "sentences": translator.translate(row["sentences"]).sentences} for row in rows]
    assert read_rows(out) == alone


def test_rows_come_back_once_and_in_order(work: Work, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 10)
    assert translate([tmp_path / "in.jsonl"], tmp_path / "out", work) == Summary(10)
    names = sorted(file.name for file in (tmp_path / "out").glob("in-*"))
    assert names == ["in-00000.jsonl", "in-00001.jsonl", "in-00002.jsonl"]
    check(rows, tmp_path / "out", work.model)
    assert failures(tmp_path / "out") == []


def test_nothing_is_done_twice(work: Work, tmp_path: Path) -> None:
    write_rows(tmp_path / "in.jsonl", 10)
    translate([tmp_path / "in.jsonl"], tmp_path / "out", work)

    def start() -> Workers:
        raise AssertionError("there is nothing to do")

    assert translate([tmp_path / "in.jsonl"], tmp_path / "out", work, start) == Summary(10)
    (tmp_path / "more.jsonl").write_bytes((tmp_path / "in.jsonl").read_bytes())
    seen: list[str] = []
    both = [tmp_path / "in.jsonl", tmp_path / "more.jsonl"]
    translate(both, tmp_path / "out", work, partial(Inline, work, partial(keep_shards, seen)))
    assert set(seen) == {f"more-{n:05d}.jsonl" for n in range(3)}


def test_a_shard_goes_on_where_it_stopped(work: Work, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 4)
    seen: list[list[str]] = []

    def dies(documents: Sequence[Document]) -> bool:
        seen.append([document.id for document in documents])
        if len(seen) == 2:
            raise Killed
        return False

    with pytest.raises(Killed):
        translate([tmp_path / "in.jsonl"], tmp_path / "out", work, partial(Inline, work, dies))
    translate([tmp_path / "in.jsonl"], tmp_path / "out", work, partial(Inline, work, dies))
    first, lost, *later = seen
    assert first
    assert lost in later
    assert sorted([*first, *(number for task in later for number in task)]) == [
        "d0",
        "d1",
        "d2",
        "d3",
    ]
    check(rows, tmp_path / "out", work.model)


def keep_shards(seen: list[str], documents: Sequence[Document]) -> bool:
    seen.extend(document.shard for document in documents)
    return False


class Killed(BaseException):
    """Stands for the death of the command."""


@pytest.mark.parametrize("moment", ["record", "write", "finish"])
def test_a_run_that_was_killed_goes_on(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 10)
    out, count = tmp_path / "out", 0

    def dies(original: Callable[..., None], *arguments: object) -> None:
        nonlocal count
        count += 1
        if count % 2 == 0 and count < 9:  # four times in all
            raise Killed
        original(*arguments)

    if moment == "write":
        monkeypatch.setattr(run, "write_atomically", partial(dies, run.write_atomically))
    else:
        original = getattr(Ledger, moment)
        monkeypatch.setattr(Ledger, moment, lambda self, *a: dies(original, self, *a))
    deaths = 0
    for _ in range(9):
        try:
            translate([tmp_path / "in.jsonl"], out, work)
            break
        except Killed:
            deaths += 1
    assert deaths >= 1
    check(rows, out, work.model)
    assert translate([tmp_path / "in.jsonl"], out, work) == Summary(10)


def test_bad_documents_are_set_aside(work: Work, tmp_path: Path) -> None:
    good = {"id": 7, "text": "s1 s2. s3"}
    lines = ['{"id": "a", "text":', "", "[1]", '{"text": "s1"}', '{"id": "b"}', json.dumps(good)]
    lines += ['{"id": "c", "sentences": "s1"}', '{"id": "d", "text": "s1", "sentences": ["s1"]}']
    lines += ['{"id": "e", "text": "\\ud800"}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "broken.docx").write_bytes(b"no zip archive")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1, "text": "s1"}\n' * 99)[:40])
    names = ("in.jsonl", "broken.docx", "cut.jsonl.gz")
    out = tmp_path / "out"
    done = translate([tmp_path / name for name in names], out, work)
    assert (done.translated, done.failed) == (1, 9)
    assert [row["id"] for row in read_rows(out)] == [7]
    found = {(each["shard"], each["row"]): (each["id"], each["reason"]) for each in failures(out)}
    assert "not valid JSON" in found["in-00000.jsonl", 1][1]
    assert found["in-00000.jsonl", 5] == ("b", "neither text nor sentences")
    assert found["in-00001.jsonl", 8] == ("d", "both text and sentences")
    assert "zip archive" in found["broken.docx", 1][1]
    assert "gzip" in found["cut.jsonl.gz", 0][1]
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"id": 1, "text": "s1"}\n'))
    done = translate([tmp_path / "in.jsonl"], out, work)  # what cannot be read is tried again
    assert (done.translated, done.failed) == (1, 8)


def test_what_a_file_cannot_hold_is_set_aside(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise UserError("'“' of a translation is not in ISO-8859-1")

    monkeypatch.setattr(Po, "write", fails)
    (tmp_path / "a.po").write_text('msgid "s1"\nmsgstr ""\n')
    (tmp_path / "b.txt").write_text("s1 s2\n")
    done = translate([tmp_path / "a.po", tmp_path / "b.txt"], tmp_path / "out", work)
    assert (done.translated, done.failed) == (1, 1)
    (failed,) = failures(tmp_path / "out")
    assert (failed["shard"], "not in ISO-8859-1" in str(failed["reason"])) == ("a.po", True)


def test_markup_is_not_translated_as_lines(work: Work, tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text('<?xml version="1.0"?>\n<tmx version="1.4"/>\n')
    with pytest.raises(UserError, match="is a tmx file, not text"):
        translate([tmp_path / "a.tmx"], tmp_path / "out", work)


def test_a_bug_costs_its_document_alone(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 6)
    original = Translator.translate_documents

    def fails(self: Translator, texts: list[list[str]], *rest: object, **more: object) -> object:
        if rows[3]["sentences"] in texts:
            raise ZeroDivisionError("a bug")
        return original(self, texts, *rest, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_documents", fails)
        translate([tmp_path / "in.jsonl"], tmp_path / "out", work)
    check(rows[:3] + rows[4:], tmp_path / "out", work.model)
    (failed,) = failures(tmp_path / "out")
    assert (failed["id"], failed["reason"]) == ("d3", "ZeroDivisionError: a bug")


def test_a_fault_of_a_memory_stops_the_run(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path / "in.jsonl", 6)

    def fails(*_: object, **__: object) -> None:
        raise UserError("the memory is damaged")

    monkeypatch.setattr(Translator, "translate_documents", fails)
    with pytest.raises(UserError, match="damaged"):
        translate([tmp_path / "in.jsonl"], tmp_path / "out", work)
    assert failures(tmp_path / "out") == []


def test_a_document_that_kills_its_workers_is_set_aside(work: Work, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 6)

    def kills(documents: Sequence[Document]) -> bool:
        return any(document.id == "d2" for document in documents)

    start = partial(Inline, work, kills)
    done = translate([tmp_path / "in.jsonl"], tmp_path / "out", work, start)
    assert done == Summary(5, 1, lost_workers=4)
    check(rows[:2] + rows[3:], tmp_path / "out", work.model)
    assert "died 3 times" in str(failures(tmp_path / "out")[0]["reason"])


def test_files_come_back_under_their_names(work: Work, tmp_path: Path) -> None:
    texts = {"a.txt": "s1 s2\ns3\n", "deep/b.md": "# s4\n\n* s5 **s6**\n", "c.srt": ""}
    texts["c.srt"] = "1\n00:00:01,000 --> 00:00:02,000\ns7 s8\n"
    texts["note.xyz"] = "what is this\n"
    for name, text in texts.items():
        file = tmp_path / "in" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(text, encoding="utf-8")
    (tmp_path / "in/.hidden.md").write_text("s1", encoding="utf-8")
    out = tmp_path / "out"
    assert translate([tmp_path / "in"], out, work) == Summary(3)
    for name in ("a.txt", "deep/b.md", "c.srt"):
        alone = tmp_path / "alone"
        arguments = ["translate", work.model, str(tmp_path / "in" / name), "-o", str(alone)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert (out / name).read_bytes() == alone.read_bytes()
    assert {f.name for f in out.rglob("*.*")} == {
        *("a.txt", "b.md", "c.srt"),
        *("bulk.sqlite", "failed.jsonl"),
    }
    (tmp_path / "in/a.txt").write_text("s9\n", encoding="utf-8")  # a document that has changed
    translate([tmp_path / "in"], out, work)
    assert (out / "a.txt").read_text("utf-8") == "t9\n"


def test_parquet_keeps_its_other_columns(work: Work, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow (wholedoc[parquet]) is not installed")
    import pyarrow.parquet as parquet

    texts = ["s1 s2", None, "s3", "s4", "s5", "s6"]
    table = pyarrow.table({"id": range(6), "text": texts, "raw": [b"\xff"] * 6})
    parquet.write_table(table, tmp_path / "in.parquet")
    (tmp_path / "no.parquet").write_bytes(b"PAR1 no")
    out = tmp_path / "out"
    done = translate([tmp_path / "in.parquet", tmp_path / "no.parquet"], out, work)
    assert (done.translated, done.failed) == (5, 2)
    found = [parquet.read_table(out / f"in-0000{n}.parquet") for n in range(2)]
    assert [each.schema.names for each in found] == [["id", "text", "raw"]] * 2
    rows = [row for each in found for row in each.to_pylist()]
    assert [row["id"] for row in rows] == [0, 2, 3, 4, 5]
    assert [row["text"] for row in rows] == ["t1 t2", "t3", "t4", "t5", "t6"]
    assert {row["raw"] for row in rows} == {b"\xff"}


@pytest.mark.parametrize("case", ["settings", "rows", "inside", "same name", "at work"])
def test_what_would_spoil_results_is_refused(work: Work, tmp_path: Path, case: str) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out"
    write_rows(file, 3)
    if case == "inside":
        with pytest.raises(UserError, match="lies inside an input"):
            translate([tmp_path], out, work)
    elif case == "same name":
        (tmp_path / "other").mkdir()
        write_rows(tmp_path / "other/in.jsonl", 3)
        with pytest.raises(UserError, match="two inputs would be written"):
            translate([file, tmp_path / "other"], out, work)
    elif case == "at work":
        with Ledger(out, {}), pytest.raises(UserError, match="another run is writing here"):
            translate([file], out, work)
    else:
        translate([file], out, work)
        if case == "rows":
            write_rows(file, 4)
        other = replace(work, model="other") if case == "settings" else work
        with pytest.raises(UserError, match=r"was begun with model|has changed since"):
            translate([file], out, other, partial(Inline, work, lambda _: False))


def test_shards_depend_on_the_collection_alone(tmp_path: Path) -> None:
    write_rows(tmp_path / "in.jsonl", 10)
    (source,), _ = list_sources([str(tmp_path / "in.jsonl")], "", tmp_path / "out")
    all_of_them = [shard.documents for shard in read_shards(source, ROWS, lambda _: False)]
    later = list(read_shards(source, ROWS, lambda name: name != "in-00001.jsonl"))
    assert [shard.documents for shard in later] == all_of_them[1:2]
    assert Counter(map(len, all_of_them)) == {4: 2, 2: 1}


# Processes and clusters, with some of the workers killed.


class OneKilled(ProcessWorkers):
    """Processes of which one is killed with its third task."""

    def submit(self, task: int, documents: Sequence[Document]) -> None:
        number = self._processes[self._idle[-1]].pid if task == 3 else None
        if number:  # stopped first: it must not be done before it dies
            os.kill(number, signal.SIGSTOP)
        super().submit(task, documents)
        if number:
            os.kill(number, signal.SIGKILL)


def test_a_process_that_is_killed_costs_its_documents_alone(work: Work, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 24)
    done = translate([tmp_path / "in.jsonl"], tmp_path / "out", work, partial(OneKilled, work, 2))
    assert done == Summary(24, lost_workers=1)
    check(rows, tmp_path / "out", work.model)


def test_workers_that_cannot_load_end_the_run(work: Work, tmp_path: Path) -> None:
    write_rows(tmp_path / "in.jsonl", 3)
    wrong = replace(work, memories=(str(tmp_path / "none"),))
    with pytest.raises(UserError, match="no such translation memory"):
        translate(
            [tmp_path / "in.jsonl"], tmp_path / "out", work, partial(ProcessWorkers, wrong, 1)
        )


def test_the_command_goes_on_after_a_kill(work: Work, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "in.jsonl", 600)
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "wholedoc",
        "translate",
        work.model,
        str(tmp_path / "in.jsonl"),
    ]
    command += ["-o", str(out), "--jobs", "1", "--shard", "20"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE)
    while not (out / "in-00000.jsonl").exists() and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    running.communicate()
    assert len(list(out.glob("in-*.jsonl"))) < 30
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "600 documents translated, 0 set aside" in done.stderr
    assert [row["id"] for row in read_rows(out)] == [row["id"] for row in rows]


@pytest.fixture
def cluster() -> Iterator[object]:
    """A Ray cluster of a head and two raylets of one processor each."""
    pytest.importorskip("ray", reason="Ray (wholedoc[ray]) is not installed")
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@pytest.mark.filterwarnings("default")  # Ray's own
def test_an_actor_that_is_killed_costs_its_documents_alone(
    work: Work, tmp_path: Path, cluster: object
) -> None:
    from wholedoc.bulk.cluster import RayWorkers, ray

    class OneActorKilled(RayWorkers):
        def submit(self, task: int, documents: Sequence[Document]) -> None:
            actor = self._idle[-1]
            if task == 3:
                ray.kill(actor)
            super().submit(task, documents)

    rows = write_rows(tmp_path / "in.jsonl", 24)
    start = partial(OneActorKilled, work, None, cluster.address)  # type: ignore[attr-defined]
    done = translate([tmp_path / "in.jsonl"], tmp_path / "out", work, start)
    assert done == Summary(24, lost_workers=1)
    check(rows, tmp_path / "out", work.model)


# The command line.


def test_ray_may_stand_alone() -> None:
    assert fill_address(["m", "--ray", "in.jsonl"]) == ["m", "--ray=", "in.jsonl"]
    assert fill_address(["m", "in.jsonl", "--ray"]) == ["m", "in.jsonl", "--ray="]
    for address in ("auto", "head:6379", "ray://10.0.0.1:10001"):
        assert fill_address(["--ray", address, "in"]) == ["--ray", address, "in"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "in.jsonl: has a document in each row; give a file, or translate all"),
        (("--jobs", "2"), "needs a folder for its results; add -o DIR"),
        (("--jobs", "2", "-o", "out", "--json"), "--json: does not go with a collection"),
        (("--jobs", "2", "-o", "in.jsonl"), "in.jsonl: is not a folder"),
        (("--format", "lines", "--shard", "5"), "--shard: goes with a collection"),
    ],
)
def test_options_that_do_not_fit(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("in.jsonl"), 2)
    found = CliRunner().invoke(app, ["translate", work.model, "in.jsonl", *options])
    assert isinstance(found.exception, UserError)
    assert said in str(found.exception)


def test_a_mistyped_memory_does_not_begin_a_collection(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("in.jsonl"), 2)
    for option in ("--tm", "--glossary"):
        arguments = ["translate", work.model, "in.jsonl", "-o", "out", "--jobs", "1"]
        found = CliRunner().invoke(app, [*arguments, option, "nothing"])
        assert "nothing: no such" in str(found.exception)
        assert not Path("out").exists()


def test_without_ray_a_line_says_what_to_install(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "wholedoc.bulk.cluster", raising=False)
    write_rows(Path("in.jsonl"), 2)
    arguments = ["translate", work.model, "in.jsonl", "-o", "out", "--ray"]
    found = CliRunner().invoke(app, arguments)
    assert "pip install 'wholedoc[ray]'" in str(found.exception)
