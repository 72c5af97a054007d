"""Processes that translate for the threads of the service."""

import itertools
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from toy import document_config

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.service import processes
from wholedoc.service.engine import Engine
from wholedoc.service.processes import _MOST_LOST, Assignment, TranslatingProcess
from wholedoc.tm.memory import MemoryWriter
from wholedoc.training.stages import train

DOCUMENTS = [["s1 s2", "s3 {name}"], [], ["s4"]]
APPROVED: list[Mapping[int, str]] = [{0: "my own"}, {}, {}]


@pytest.fixture(scope="module")
def process(learned_toy: Path) -> Iterator[TranslatingProcess]:
    found = TranslatingProcess(Assignment.of(Translator.load(learned_toy)))
    yield found
    found.close()


def patiently(ask: Callable[[], Any]) -> Any:
    """What a process answers when it has loaded its model."""
    ends = time.monotonic() + 120
    while (found := ask()) is None:
        assert time.monotonic() < ends, "no process has answered"
        time.sleep(0.05)
    return found


def assert_alike(found: Sequence[TranslatedDocument], wanted: Sequence[TranslatedDocument]) -> None:
    """All but what of a task only those need who translate again."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.history == other.history
        assert (one.pieces, one.known, one.terms) == (other.pieces, other.known, other.terms)
        assert (one.task.sentences, one.approved) == (other.task.sentences, other.approved)
        every = itertools.chain.from_iterable
        both = zip(every(one.candidates), every(other.candidates), strict=True)
        for mine, yours in both:
            assert (mine.text, mine.score, mine.tokens) == (yours.text, yours.score, yours.tokens)
            assert (mine.attention is None) == (yours.attention is None)
            assert mine.attention is None or torch.equal(mine.attention, yours.attention)
        for side in ("source_weights", "target_weights"):
            mine, yours = getattr(one, side), getattr(other, side)
            assert (mine is None) == (yours is None)
            assert mine is None or torch.equal(mine, yours)


@pytest.mark.parametrize("nbest", [1, 3])
def test_a_process_translates_as_the_translator_does(
    process: TranslatingProcess, learned_toy: Path, nbest: int
) -> None:
    found = patiently(lambda: process.translate(DOCUMENTS, APPROVED, nbest))
    known = Knowledge(APPROVED)
    translator = Translator.load(learned_toy)
    assert_alike(found, translator.translate_documents(DOCUMENTS, nbest=nbest, known=known))


def test_with_a_memory_a_glossary_and_a_document_model(tmp_path: Path) -> None:
    languages = ("data.src_language=de", "data.trg_language=en", "tm.fit=true")
    run = train(document_config(tmp_path, *languages), tmp_path / "run")
    with MemoryWriter.open(tmp_path / "tm", "de", "en", create=True) as writer:
        writer.add([Document("d", (SentencePair("s1 s2", "t7 t7"),))], "o")
    translator = Translator.load(run.directory)
    memories = translator.open_memories([tmp_path / "tm"])
    glossary = Glossary.of([("s4", "t9")], "de", "en")
    process = TranslatingProcess(Assignment.of(translator, memories, glossary))
    found = patiently(lambda: process.translate(DOCUMENTS, APPROVED, 1))
    process.close()
    known = Knowledge(APPROVED, memories, glossary=glossary)
    wanted = translator.translate_documents(DOCUMENTS, measure=False, known=known)
    assert_alike(found, wanted)
    assert found[2].sentences == ["t9"]
    assert found[0].source_weights is not None
    assert any(pair.trg == "t7 t7" for of_sentence in found[0].known for pair in of_sentence)


class Reluctant:
    """A translator that counts what it translates itself."""

    def __init__(self, translator: Translator) -> None:
        self.translator, self.calls = translator, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.translator, name)

    def translate_documents(self, *given: Any, **settings: Any) -> Any:
        self.calls += 1
        return self.translator.translate_documents(*given, **settings)


@pytest.fixture
def reluctant(learned_toy: Path) -> Reluctant:
    return Reluctant(Translator.load(learned_toy))


@pytest.fixture
def engine(reluctant: Reluctant) -> Iterator[Engine]:
    assignment = Assignment.of(reluctant.translator)
    found = Engine(reluctant, threads=1, assignment=assignment)  # type: ignore[arg-type]
    yield found
    found.close()


def ask(engine: Engine, *sentences: Any, **settings: Any) -> list[str]:
    return engine.submit(list(sentences), **settings).result(120).sentences


def wait_for_process(engine: Engine, reluctant: Reluctant) -> None:
    def answered_elsewhere() -> bool | None:
        before = reluctant.calls
        assert ask(engine, "s1 s2") == ["t1 t2"]  # whoever does it
        return reluctant.calls == before or None

    patiently(answered_elsewhere)


def test_what_a_process_does_not_do_the_thread_does(engine: Engine, reluctant: Reluctant) -> None:
    wait_for_process(engine, reluctant)
    done = engine.counts.sentences
    calls = reluctant.calls
    terms = Glossary.of([("s1", "t5")], "de", "en")
    assert ask(engine, "s1", glossary=terms) == ["t5"]
    assert engine.submit(["s1"], explain=True).result(120).recall is not None
    assert ask(engine, *["s1"] * 200) == ["t1"] * 200  # many: all threads of torch at once
    with pytest.raises(Exception, match="not a text"):
        ask(engine, 3)
    assert reluctant.calls == calls + 4
    assert ask(engine, "s3", approved={0: "my own"}) == ["my own"]
    assert reluctant.calls == calls + 4
    assert engine.counts.sentences == done + 203


def test_a_process_that_is_lost_is_replaced(engine: Engine, reluctant: Reluctant) -> None:
    wait_for_process(engine, reluctant)
    (process,) = engine.processes
    first = process.running.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert ask(engine, "s1 s2 s3") == ["t1 t2 t3"]
    wait_for_process(engine, reluctant)
    assert process.running.pid != first


def test_a_machine_that_is_full_is_no_end(
    engine: Engine, reluctant: Reluctant, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_process(engine, reluctant)
    (process,) = engine.processes

    tried = threading.Event()

    def fail(_: Assignment) -> None:
        if process._lost == _MOST_LOST - 1:
            tried.set()
        raise EOFError("as of a forkserver that was ended")

    monkeypatch.setattr(processes, "_start_process", fail)
    monkeypatch.setattr(processes, "_PAUSE", 0)
    process.running.kill()
    process.running.join()
    for n in range(_MOST_LOST + 1):
        assert ask(engine, f"s{n}") == [f"t{n}"]
    assert tried.wait(30)
    assert ask(engine, "s5") == ["t5"]
    assert not process.ready


def test_an_answer_that_cannot_be_carried_ends_no_thread(
    engine: Engine, reluctant: Reluctant, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_for_process(engine, reluctant)

    def fail(_: object) -> None:
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(processes._Packed, "unpack", fail)
        assert ask(engine, "s1") == ["t1"]
    wait_for_process(engine, reluctant)


def test_one_that_is_closed_before_it_has_started_ends(learned_toy: Path) -> None:
    process = TranslatingProcess(Assignment.of(Translator.load(learned_toy)))
    process.close()
    (starting,) = (t for t in threading.enumerate() if t.name == "wholedoc-process")
    starting.join(60)
    assert (process.running, process.translate([["s1"]], [{}], 1)) == (None, None)


def test_processes_that_cannot_load_the_model_are_given_up(
    learned_toy: Path, tmp_path: Path
) -> None:
    gone = shutil.copytree(learned_toy, tmp_path / "gone")
    assignment = Assignment.of(Translator.load(gone))
    shutil.rmtree(gone)
    process = TranslatingProcess(assignment)
    ends = time.monotonic() + 120
    while process._lost < _MOST_LOST:
        assert process.translate([["s1"]], [{}], 1) is None
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert process.translate([["s1"]], [{}], 1) is None
    process.close()
