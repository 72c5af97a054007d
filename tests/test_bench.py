"""The benchmark: what it promises to print, and the sizes it counts with."""

import dataclasses
import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from toy import toy_config

from wholedoc.benchmark import bench, workload
from wholedoc.benchmark.bench import (
    TextSize,
    format_bench,
    run_bench,
    size_of,
    training_flops,
)
from wholedoc.benchmark.workload import make_workload
from wholedoc.config import ModelConfig
from wholedoc.model.translation import TranslationModel
from wholedoc.training.stages import train


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The profile of training, which is a script."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
    found = importlib.import_module("training_profile")
    monkeypatch.setattr(found, "keep_freed_memory", lambda: None)
    return found


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "TURNS", 1)
    monkeypatch.setattr(bench, "WORDS", 30)
    monkeypatch.setattr(bench, "PEAK_SIZE", 16)
    monkeypatch.setattr(bench, "DOCUMENT_SIZES", (2, 5))


def test_every_number_that_is_promised_is_there(
    small_rounds: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = workload.make_workload
    monkeypatch.setattr(
        workload, "make_workload", lambda path, _, words: made(path, (40, 50), words)
    )
    monkeypatch.setattr("wholedoc.benchmark.workload._DOCUMENTS", 3)
    shipped = workload.load_config
    narrow = {"hidden": 4, "embedding": 4, "alignment": 4, "tie": "none"}

    def load(name: str) -> object:
        config = shipped(name)
        model = dataclasses.replace(config.model, **narrow)
        vocabulary = dataclasses.replace(config.vocabulary, size=50)
        stage1 = dataclasses.replace(config.stage1, batch_tokens=100)
        stage2 = dataclasses.replace(config.stage2, batch_tokens=100, update_tokens=100)
        config = dataclasses.replace(config, stage1=stage1, stage2=stage2)
        return dataclasses.replace(config, model=model, vocabulary=vocabulary)

    monkeypatch.setattr(workload, "load_config", load)
    threads = torch.get_num_threads()
    found = run_bench(None, ("small", "paper"), rounds=1, sentences=6, remembered=200)
    assert torch.get_num_threads() == threads
    shown = json.loads(json.dumps(dataclasses.asdict(found)))
    assert shown["peak_gflops"] > 0
    assert {"small", "small, in 32 bits", "paper"} < shown["train"].keys()
    for row in shown["train"].values():
        assert row["words_per_second"] > 0
        assert row["peak_ratio"] > 0
    assert shown["train"]["small"]["cost"] == 1
    both = [row["cost"] for name, row in shown["train"].items() if "both" in name]
    assert len(both) == 2
    assert shown["document_cost_ratio"] == max(both)
    assert {"greedy", "beam5", "beam5, int8, shortlist"} < shown["decode"].keys()
    for row in shown["decode"].values():
        assert row["words_per_second"] >= row["sentences_per_second"] > 0
    assert shown["document_length"].keys() == {"2", "5"}
    assert all(seconds > 0 for seconds in shown["document_length"].values())
    assert shown["peak_rss_mb"] > 50
    printed = format_bench(found)
    assert "small, both memories, output" in printed
    assert "GFLOP/s" in printed
    assert "beam5, int8, shortlist" in printed


def test_operations_are_counted_by_the_textbook() -> None:
    config = ModelConfig(hidden=2, embedding=3, alignment=5, memory="src", fusion="context")
    sentence = TranslationModel(config.without_context(), 7, 11)
    src = 2 * (6 * 3 + 6 * 2) + 5 * 4  # two GRUs, keys
    state = 5 * 4 + 6 * 3 + 6 * 4 + 3 * 6 * 2  # query, word, context, three products of states
    trg = state + 2 * 4 + 2 * 3 + 11 * 2  # and the output
    text = TextSize(sentences=1, src_words=4, trg_words=6, pairs=24)
    expected = 6 * (4 * src + 6 * trg + 24 * (5 + 4))
    assert training_flops(sentence, text) == expected
    document = TranslationModel(config, 7, 11)
    memory = 2 * (6 * 4 + 6 * 2)  # the document's two GRUs
    entrance = 6 * 4  # into the gates
    assert training_flops(document, text) == expected + 6 * (memory + entrance)


def test_profile_counts_what_each_part_multiplies(profile: ModuleType) -> None:
    config = ModelConfig(hidden=2, embedding=3, alignment=5)
    model = TranslationModel(config.without_context(), 7, 11)
    text = TextSize(sentences=1, src_words=4, trg_words=6, pairs=24)
    counted = profile.operations(model, text)
    steps = 5 * 4 + 6 * 4 + 3 * 6 * 2  # query, context, three products of states
    there = 2 * 6 * steps + 2 * 24 * (5 + 4)  # and attention to pairs of words
    encoder = 2 * 4 * 2 * (6 * 3 + 6 * 2)
    rest = 4 * 5 * 4 + 6 * (6 * 3 + 2 * 4 + 2 * 3)  # keys; word, and features of the output
    amounts = [there, 2 * there, encoder, 2 * encoder, 6 * 6 * 11 * 2, 6 * rest]
    assert list(counted.values()) == amounts
    assert sum(amounts) == training_flops(model, text)


def test_the_size_of_an_update_of_sentences_and_of_documents(tmp_path: Path) -> None:
    corpus = make_workload(tmp_path, (20, 20), (4, 5))
    src, trg = corpus.src_lengths[:3].tolist(), corpus.trg_lengths[:3].tolist()
    pairs = sum(s * t for s, t in zip(src, trg, strict=True))
    expected = TextSize(3, sum(src), sum(trg), pairs)
    assert size_of(corpus, [2, 0, 1]) == expected
    assert size_of(corpus, (range(2), range(2, 3))) == expected


def test_made_up_text_has_the_sizes_of_speeches(tmp_path: Path) -> None:
    corpus = make_workload(tmp_path, (500, 600), (16.5, 22))
    assert 18 < corpus.src_lengths.mean() < 22  # 20.2 in europarl-et-en, </s> included
    assert 25 < corpus.trg_lengths.mean() < 29  # 26.5
    assert 13 < len(corpus) / corpus.documents < 15  # 14.1
    assert max(int(corpus.trg(t).max()) for t in range(len(corpus))) < 600


def test_a_run_is_measured_with_its_own_corpus_and_left_as_it_is(
    small_rounds: None,
    tmp_path: Path,
    profile: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = train(toy_config(tmp_path, "stage1.epochs=1"), tmp_path / "run").directory
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    found = run_bench(run, (), rounds=1, sentences=6, remembered=200)
    assert found.train.keys() >= {"run", "run, by PyTorch", "run, both memories, context"}
    assert before == {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    monkeypatch.setattr("sys.argv", ["profile", "--run", str(run), "--updates", "2"])
    profile.main()
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith(profile.DECODER_BACK)]
    assert "share of the peak of " in printed
    assert before == {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
