"""Experiments with recall: what each system knows, and what the report makes of it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rapidfuzz.distance import Levenshtein
from test_experiment import TINY, table, texts, write

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.decoding.known import KnownPair
from wholedoc.decoding.translator import Translator
from wholedoc.experiment import runner
from wholedoc.experiment.grid import Experiment, Job, load_experiment
from wholedoc.experiment.recalling import (
    RandomMemory,
    beside_match,
    best_matches,
    memory_path,
    open_knowledge,
    write_fuzzy,
    write_memories,
)
from wholedoc.experiment.report import Report, build_report, format_html
from wholedoc.experiment.results import Results, load_results, read_documents, read_lines
from wholedoc.experiment.runner import ProcessPool, run_experiment
from wholedoc.metrics.scores import corpus_bleu
from wholedoc.rendering.charts import Figure
from wholedoc.tm.memory import MemoryWriter, TranslationMemory

SYSTEMS = (
    *("s-nmt", "longer", "fuzzy", "copy", "recall", "approved", "recall-approved"),
    *("both-context", "both-context-recall", "recall-other", "recall-random", "recall-empty"),
)


def recall_toml(folder: Path, base: str = "s-nmt") -> str:
    write(folder / "other.src", "one\ntwo\n")
    write(folder / "other.trg", "eins\nzwei\n")
    toml = TINY.replace("[larger]\ndocuments = 6\n", "").replace("passes = 2\n", "")
    toml = toml.replace("seeds = [1, 2]", f"seeds = [1]\nshuffled = false\nsystems = {[*SYSTEMS]}")
    other = f"[recall.other]\nsrc = '{folder}/other.src'\ntrg = '{folder}/other.trg'\n"
    return f"{toml}\n[recall]\nbase = '{base}'\n{other}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    folder = tmp_path_factory.mktemp("recall")
    experiment = load_experiment(write(folder / "e.toml", recall_toml(folder)), folder / "out")
    assert run_experiment(experiment, 2) == {}
    return experiment


@pytest.fixture(scope="module")
def results(finished: Experiment) -> Results:
    return load_results(finished)


@pytest.fixture(scope="module")
def report(results: Results) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")
        return build_report(results)


def lines_of(results: Results, system: str) -> list[str]:
    (run,) = [run for job, run in results.runs.items() if job.system == system]
    return run.translations


# The grid.


def test_what_stands_on_what(tmp_path: Path) -> None:
    toml = recall_toml(tmp_path, "longer")
    experiment = load_experiment(write(tmp_path / "e.toml", toml), tmp_path / "out")
    jobs = {job.name: job for job in experiment.jobs()}
    assert list(jobs)[:3] == ["s-nmt-1", "longer-1", "fuzzy-1"]
    assert jobs["longer-1"].needs == ""
    assert jobs["recall-1"].needs == jobs["copy-1"].needs == "longer-1"
    assert jobs["both-context-recall-1"].needs == "both-context-1"
    assert jobs["both-context-1"].needs == "s-nmt-1"
    assert experiment.run(jobs["recall-1"]) == tmp_path / "out" / "runs" / "longer-1"
    configs = {name: experiment.job_config(job) for name, job in jobs.items()}
    assert configs["longer-1"].stage1.epochs == 4 * configs["s-nmt-1"].stage1.epochs == 8
    assert configs["recall-1"] == configs["longer-1"]
    fitted = [name for name in ("s-nmt-1", "longer-1", "both-context-1") if configs[name].tm.fit]
    assert fitted == ["longer-1", "both-context-1"]
    alike = replace(configs["longer-1"], stage1=configs["s-nmt-1"].stage1)
    assert replace(alike, tm=configs["s-nmt-1"].tm) == configs["s-nmt-1"]


def test_no_other_domain_no_control_of_that_name(tmp_path: Path) -> None:
    toml = recall_toml(tmp_path).partition("[recall.other]")[0]
    experiment = load_experiment(write(tmp_path / "e.toml", toml))
    assert "recall-other" not in {job.system for job in experiment.jobs()}
    assert "recall-other" not in experiment.config.systems


def test_a_model_that_is_gone_is_trained_again_for_those_that_need_it(
    finished: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results may come from another machine: what they were made with is not here."""
    given: list[tuple[list[str], set[str]]] = []

    def collect(
        jobs: Sequence[Job], pool: ProcessPool, limit: int, made: set[str]
    ) -> dict[str, str]:
        given.append(([job.name for job in jobs], made))
        return {}

    monkeypatch.setattr(runner, "run_jobs", collect)
    results, runs = finished.results / "recall-1" / "results.json", finished.out / "runs"
    results.rename(results.with_suffix(".away"))
    try:
        run_experiment(finished, 1)
        runs.rename(runs.with_suffix(".away"))
        run_experiment(finished, 1)
        runs.with_suffix(".away").rename(runs)
        (runs / "s-nmt-1" / "recall.safetensors").rename(
            runs / "away"
        )  # killed before it was written
        run_experiment(finished, 1)
        (runs / "away").rename(runs / "s-nmt-1" / "recall.safetensors")
    finally:
        results.with_suffix(".away").rename(results)
    alone, *others = [jobs for jobs, _ in given]
    assert alone == ["recall-1"]
    of_that_model = [job.name for job in finished.jobs() if job.trained.system == "s-nmt"]
    of_that_model.remove("copy-1")  # it has none
    assert others == [of_that_model] * 2
    parts = {"stage1-1", "stage0-1", "generated-1", "fuzzy"}
    assert [made for _, made in given] == [parts, set(), parts]


def test_memories_are_those_of_the_filters(finished: Experiment) -> None:
    asked = {**finished.config.set, "data": {"max_words": 3}}
    other = replace(finished, config=replace(finished.config, set=asked))
    assert memory_path(other, "train") != memory_path(finished, "train")
    again = replace(finished, config=replace(finished.config, seeds=(3,)))
    assert memory_path(again, "train") == memory_path(finished, "train")


def test_fuzzy_has_every_line_of_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("train", "dev", "test"):
        write(Path(f"{name}.src"), "one two\nthree four\nfive\n")
        write(Path(f"{name}.trg"), "a b\n\ne\n")  # no reference for the second
    names = ("train", "dev", "test")
    data = "".join(f"[set.data.{n}]\nsrc = '{n}.src'\ntrg = '{n}.trg'\n" for n in names)
    toml = f"systems = ['s-nmt', 'fuzzy']\nseeds = [1]\n{data}"
    experiment = load_experiment(write(Path("e.toml"), toml), Path("out"))
    experiment.out.mkdir()
    write_memories(experiment)
    write_fuzzy(experiment)
    assert [len(read_lines(experiment.fuzzy_corpus / f"{n}.src")) for n in names] == [2, 2, 3]
    assert read_lines(experiment.fuzzy_corpus / "test.src")[0] == "one two ‖ a b"


# What systems know.


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    pairs = [SentencePair(f"word{n} and {n} more", f"Wort{n}") for n in range(30)]
    with MemoryWriter.build(tmp_path / "memory") as writer:
        writer.add([Document("d", tuple(pairs))], "d")
    return tmp_path / "memory"


def test_random_pairs_are_real_and_the_same_every_time(memory: Path) -> None:
    known = RandomMemory(memory, 1)
    text = "word3 and 3 more"
    found = known.covering(text, 8)
    assert found == RandomMemory(memory, 1).covering(text, 8)
    assert found != RandomMemory(memory, 2).covering(text, 8)
    assert found != known.covering("word4 and 4 more", 8)
    assert len({match.entry.id for match in found}) == 8
    assert len(known.covering(text, 100)) == 30
    entries = {entry.id: entry for entry in TranslationMemory.open(memory).entries()}
    for match in known.covering(text, 100):
        assert match.entry == entries[match.entry.id]
        assert match.score == (100 if match.entry.src == text else 50)
        assert (match.coverage == pytest.approx(1)) == (match.entry.src == text)
    assert known.covering("", 8) == []


def test_best_matches_see_the_sentence_before(memory: Path) -> None:
    texts = ["word0 and 0 more", "word1 and 1 more", "word1 and 1 more", "???"]
    document = Document("x", tuple(SentencePair(text, "") for text in texts))
    with TranslationMemory.open(memory) as opened:
        found = best_matches(opened, [document, document])
    scores = [match.score if match else None for match in found]
    assert scores == [101, 101, 100, None] * 2
    assert found[1] is not None
    assert found[1].entry.trg == "Wort1"


def known_of(results: Results, system: str) -> list[Sequence[KnownPair]]:
    """The known pairs of all sentences of the test set."""
    experiment = results.experiment
    (job,) = [job for job in experiment.jobs() if job.system == system]
    translator = Translator.load(experiment.run(job), own_memory=False)
    documents = read_documents(results.config)
    sources = [[pair.src for pair in document] for document in documents]
    with open_knowledge(experiment, job, documents) as known:
        found = translator.translate_documents(sources, known=known)
    assert [line for d in found for line in d.sentences] == lines_of(results, system)
    return [pairs for document in found for pairs in document.known]


def test_what_is_approved_stands_before(results: Results) -> None:
    for system, memories in (("approved", 0), ("recall-approved", 8)):
        found, helped = iter(known_of(results, system)), 0
        for document in results.documents:
            for t in range(len(document)):
                pairs = next(found)
                approved = [pair for pair in pairs if pair.approved]
                assert all(pair.place < t for pair in approved)
                assert all(pair.trg == document.pairs[pair.place].trg for pair in approved)
                assert 0 < len(pairs) - len(approved) <= memories or not memories
                helped += bool(approved)
        assert helped > len(results.references) / 2  # they have a word in common with one before


def test_what_the_memories_hold(finished: Experiment, results: Results) -> None:
    sizes = {}
    for name in ("train", "other", "empty"):
        with TranslationMemory.open(memory_path(finished, name)) as memory:
            sizes[name] = len(memory)
    pairs = {(pair.src, pair.trg) for d in read_train(finished) for pair in d}
    assert sizes == {"train": len(pairs), "other": 2, "empty": 0}
    assert not any(known_of(results, "recall-empty"))
    known = known_of(results, "recall")
    assert all(known)
    assert known != known_of(results, "recall-random")


def read_train(experiment: Experiment) -> list[Document]:
    config = experiment.job_config(Job("s-nmt", 1))
    return read_documents(replace(config, data=replace(config.data, test=config.data.train)))


# Results.


def test_models_are_trained_once(finished: Experiment) -> None:
    runs = {path.name for path in (finished.out / "runs").iterdir()}
    assert runs == {"s-nmt-1", "longer-1", "fuzzy-1", "both-context-1"}
    fitted = {path.parent.name for path in finished.out.glob("runs/*/recall.safetensors")}
    assert fitted == {"s-nmt-1", "both-context-1"}


def test_an_empty_memory_changes_nothing(results: Results, report: Report) -> None:
    assert lines_of(results, "recall-empty") == lines_of(results, "s-nmt")
    assert lines_of(results, "recall") != lines_of(results, "s-nmt")
    note = table(report, "What people have translated").note
    assert "are those of the base, exactly." in note
    assert "AN ERROR" not in note


def test_a_memory_that_should_be_empty_is_found_out(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")
    runs = dict(results.runs)
    (job,) = [job for job in runs if job.system == "recall-empty"]
    changed = ["x", *runs[job].translations[1:]]
    runs[job] = replace(runs[job], passes=[changed])
    note = table(build_report(replace(results, runs=runs)), "What people have translated").note
    assert "AN ERROR: with an empty memory, 1 translations differ" in note


def test_copies_are_targets_of_the_training_set(finished: Experiment, results: Results) -> None:
    targets = {pair.trg for document in read_train(finished) for pair in document}
    assert set(lines_of(results, "copy")) <= targets | {""}
    assert all(run.figures.perplexity for job, run in results.runs.items() if job.system != "copy")


def test_matches_stand_beside_their_sources(finished: Experiment, results: Results) -> None:
    folder = finished.fuzzy_corpus
    pairs = {pair.src: pair.trg for document in read_train(finished) for pair in document}
    for name in ("train", "dev", "test"):
        sources, targets = (read_lines(folder / f"{name}.{side}") for side in ("src", "trg"))
        assert len(sources) == len(targets) == len(read_lines(folder / f"{name}.doc"))
        beside = [line.split(" ‖ ") for line in sources]
        assert {found[1] for found in beside if len(found) == 2} <= set(pairs.values())
        assert 0 < sum(len(found) == 2 for found in beside) < len(beside)
    assert [found[0] for found in beside] == results.sources
    assert targets == results.references
    config = finished.job_config(Job("fuzzy", 1))
    assert config.data.test.src == str(folder / "test.src")
    assert config.data.max_words == 0
    assert config.stage1 == results.config.stage1


def test_a_pair_never_stands_beside_itself(tmp_path: Path) -> None:
    pairs = [SentencePair("a b c d", "A B"), SentencePair("a b c e", "A C"), SentencePair("x", "X")]
    with MemoryWriter.build(tmp_path / "memory") as writer:
        writer.add([Document("d", tuple(pairs))], "d")
    with TranslationMemory.open(tmp_path / "memory") as memory:
        own = [beside_match(memory, pair, own=True) for pair in pairs]
        others = [beside_match(memory, pair, own=False) for pair in pairs]
        assert beside_match(memory, SentencePair("a q r s", ""), own=False) == "a q r s"  # 25 %
    assert own == ["a b c d ‖ A C", "a b c e ‖ A B", "x"]
    assert others == ["a b c d ‖ A B", "a b c e ‖ A C", "x ‖ X"]


# The report.


def test_the_tables_of_recall(report: Report, results: Results) -> None:
    rows = texts(report, "What people have translated")
    labels = ["S-NMT", "S-NMT, four times the epochs", "copy of the best match"]
    assert list(rows)[:3] == labels
    assert len(rows) == len(SYSTEMS)
    assert (
        rows["+recall"][0]
        == f"{corpus_bleu(lines_of(results, 'recall'), results.references).value:.2f}"
    )
    perplexity = results.runs[Job("recall", 1, base="s-nmt")].figures.perplexity
    assert rows["+recall"][3].strip("*") == f"{perplexity:,.2f}"
    assert rows["S-NMT"][4:] == ["–", "–"]
    bands = table(report, "Best matches")
    counts = [cell.value for cell in bands.rows[0].cells[::2]]
    assert sum(count or 0 for count in counts) == len(results.references)
    page = format_html(report)
    assert "Characters to change" in page


def test_the_effort_of_the_report(report: Report, results: Results) -> None:
    base, own = (lines_of(results, system) for system in ("s-nmt", "recall-approved"))
    edits = [
        np.array(list(map(Levenshtein.distance, lines, results.references)))
        for lines in (base, own)
    ]
    row = {row.label: row.cells for row in table(report, "Effort").rows}["+recall, +approved"]
    assert row[0].value == pytest.approx(100 * edits[1].sum() / len("".join(results.references)))
    assert row[2].value == pytest.approx(100 * (1 - edits[1].sum() / edits[0].sum()))
    places = np.array([t for size in results.sizes for t in range(size)])
    first = [found[places < 5].sum() for found in edits]
    assert row[4].value == pytest.approx(100 * (1 - first[1] / first[0]))
    (figure,) = [b for b in report.blocks if b.name == "Effort over the document"]
    assert isinstance(figure, Figure)
    drawn = {line.label: line.points for line in figure.charts[0].series}
    letters = sum(len(results.references[n]) for n in np.flatnonzero(places < 5))
    assert drawn["+recall, +approved"][0] == (0.0, pytest.approx(100 * first[1] / letters))


def test_a_report_without_results(results: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLEDOC_METEOR_JAR", "nowhere")
    report = build_report(replace(results, runs={}))
    assert texts(report, "What people have translated")["+recall"][0] == "not finished"
    assert "not finished" in format_html(report)
