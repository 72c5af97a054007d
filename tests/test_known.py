"""A trained model recalls: its own memory, other memories, approved sentences."""

import dataclasses
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from toy import document_config, toy_config

from wholedoc.app.export import export_model
from wholedoc.config import MemoryConfig, load_config
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.decoding import descent
from wholedoc.decoding.known import KnownPair, find_approved
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.model import TrainedModel, load_model
from wholedoc.tm.memory import Match, MemoryWriter, TranslationMemory
from wholedoc.training import stages
from wholedoc.training.loop import read_log
from wholedoc.training.stages import train


@pytest.fixture(scope="module")
def sentence_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence model that keeps its training set."""
    directory = tmp_path_factory.mktemp("sentence")
    train(toy_config(directory, "tm.fit=true", "tm.keep=true"), directory / "run")
    return directory / "run"


@pytest.fixture(scope="module")
def document_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with both memories that keeps its training set."""
    directory = tmp_path_factory.mktemp("document")
    train(document_config(directory, "tm.fit=true", "tm.keep=true"), directory / "run")
    return directory / "run"


@pytest.fixture(params=["sentence_run", "document_run"])
def run(request: pytest.FixtureRequest) -> Path:
    """Either of them."""
    path: Path = request.getfixturevalue(request.param)
    return path


DOCUMENT = ["s1 s2 s3", "s4 s5", "s1 s2 s4", "", "s5 s5 s6 s7"]


def memory_of(path: Path, *pairs: tuple[str, str]) -> TranslationMemory:
    """A memory of one document."""
    with MemoryWriter.build(path) as writer:
        writer.add([Document("book", tuple(SentencePair(*each) for each in pairs))], "book.tmx")
    return TranslationMemory.open(path)


def test_training_learns_to_recall_and_prepares_its_memory(run: Path) -> None:
    events = [line for line in read_log(run) if line["event"] == "recall"]
    assert events
    assert all(event["with_recall"] < event["dev_perplexity"] for event in events)
    translator = Translator.load(run)
    (memory,) = translator.memories
    recallers = {translator.system.recaller, translator.system.base_recaller}
    assert len(recallers) == len(events)
    assert all(recaller is not None and recaller.is_prepared(memory) for recaller in recallers)
    assert sorted(p.name for p in (memory.path / "cells").iterdir()) == sorted(
        recaller.name for recaller in recallers if recaller is not None
    )


def test_prepared_cells_are_those_that_are_read_now(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    recaller, (memory,) = translator.system.base_recaller, translator.memories
    assert recaller is not None
    for entry in list(memory.entries())[:5]:
        match = Match(entry, 100, 1.0)
        stored = recaller._prepared(KnownPair.from_memory(memory, match))
        (read,) = recaller.read([(entry.src, entry.trg)])
        assert stored is not None
        assert stored.words.tolist() == read.words.tolist()
        assert np.abs(stored.keys.astype(int) - read.keys).max() <= 1  # batches round otherwise


def test_training_again_changes_nothing(sentence_run: Path) -> None:
    before = (sentence_run / "recall.safetensors").read_bytes()
    changed = (sentence_run / "recall.safetensors").stat().st_mtime_ns
    train(load_config(sentence_run / "config.toml"), sentence_run)
    assert (sentence_run / "recall.safetensors").read_bytes() == before
    assert (sentence_run / "recall.safetensors").stat().st_mtime_ns == changed


def test_recall_is_learned_anew_for_other_settings(sentence_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(sentence_run, tmp_path / "run"))
    fits = [1]
    for settings in ([], ["search.beam=3"], ["search.beam=3"], ["search.beam=3", "tm.pairs=3"]):
        train(load_config(run / "config.toml", settings), run)
        fits.append(sum(line["event"] == "recall" for line in read_log(run)))
    assert fits == [1, 1, 2, 2, 3]


def test_what_was_interrupted_while_the_memory_was_read_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run = toy_config(tmp_path, "tm.fit=true", "tm.keep=true"), tmp_path / "run"

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stages, "prepare_memory", interrupt)
        with pytest.raises(KeyboardInterrupt):
            train(config, run)
    train(config, run)
    translator = Translator.load(run)
    assert translator.system.base_recaller is not None
    assert translator.system.base_recaller.is_prepared(*translator.memories)


def test_without_known_pairs_every_result_is_as_before(run: Path, tmp_path: Path) -> None:
    plain = Translator.load(run, own_memory=False)
    unable = Translator(dataclasses.replace(plain.trained, base_recall=None, document_recall=None))
    empty = memory_of(tmp_path / "other", ("q q q", "r r r"))
    expected = unable.translate(DOCUMENT)
    for found in (plain.translate(DOCUMENT), plain.translate(DOCUMENT, memories=[empty])):
        assert found.history == expected.history
        for ours, theirs in zip(found.candidates, expected.candidates, strict=True):
            assert ours[0].log_probability == theirs[0].log_probability
        assert found.known == [[] for _ in DOCUMENT]


def test_approved_sentences_stay_and_are_recalled(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    odd = "t1  t2 – t3 "
    found = translator.translate(DOCUMENT, approved={0: odd})
    assert found.sentences[0] == odd  # to the letter
    assert all(sentences[0] == odd for sentences in found.history)
    assert found.approved == [0]
    assert [p.trg for p in found.known[2]] == [odd]
    assert found.known[0] == []
    plain = translator.translate(DOCUMENT)
    assert found.candidates[2][0].log_probability != plain.candidates[2][0].log_probability
    again = translator.translate(DOCUMENT, approved={0: odd})
    assert again.sentences == found.sentences


def test_approved_sentences_are_cells_of_the_target_memory(document_run: Path) -> None:
    translator = Translator.load(document_run, own_memory=False)
    deaf = Translator(
        dataclasses.replace(translator.trained, base_recall=None, document_recall=None)
    )
    plain = deaf.translate(DOCUMENT, passes=1)
    found = deaf.translate(DOCUMENT, passes=1, approved={0: "t9 t9 t9 t9"})
    assert found.target_weights is not None
    assert plain.target_weights is not None
    assert not torch.equal(found.target_weights[1], plain.target_weights[1])


def test_approving_goes_on_from_where_a_document_stands(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    document = translator.translate(DOCUMENT)
    assert document.approved == []
    document = translator.approve(document, 0, "t1 t2 t3")
    document = translator.approve(document, 1, "t4 t9")
    expected = translator.translate(DOCUMENT, approved={0: "t1 t2 t3", 1: "t4 t9"})
    assert document.sentences == expected.sentences
    assert document.approved == [0, 1]
    assert document.known == expected.known
    assert document.recall is not None
    assert expected.recall is not None
    for ours, theirs in zip(document.recall, expected.recall, strict=True):
        assert [word.text for word in ours] == [word.text for word in theirs]
        assert [w.gate for w in ours] == pytest.approx([w.gate for w in theirs], abs=1e-5)
    changed = translator.approve(document, 1, "t4 t5")
    assert changed.sentences[1] == "t4 t5"
    with pytest.raises(UserError, match="no sentence 7"):
        translator.approve(document, 7, "t1")


def test_sentences_that_know_nothing_new_are_not_translated_again(
    sentence_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    document = translator.translate(DOCUMENT)
    searched = []
    before = descent.search
    monkeypatch.setattr(
        descent, "search", lambda *a, **k: searched.append(len(a[1])) or before(*a, **k)
    )
    translator.approve(document, 0, "t1 t2 t3")
    assert sum(searched) == 1  # the third sentence shares words with the first


def test_approving_does_not_search_the_memories_again(run: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path / "tm", ("s4 s5 s6", "t4 t5 t6"), ("s1 s2 s9", "t1 t2 t9"))
    translator = Translator.load(run, own_memory=False)
    document = translator.translate(DOCUMENT, memories=[memory])
    expected = translator.translate(DOCUMENT, memories=[memory], approved={1: "t4 t9"})
    memory.close()  # it cannot be searched any more
    document = translator.approve(document, 1, "t4 t9")
    assert document.known == expected.known
    assert document.sentences == expected.sentences


def test_an_exact_match_is_taken_as_it_is(run: Path, tmp_path: Path) -> None:
    memory = memory_of(
        tmp_path / "tm",
        ("s4 s5", "Four, five!"),
        ("s9", "nine"),
        ("s4 s5", "4 5"),
        ("s4 s5", "4 5"),
    )
    translator = Translator.load(run, own_memory=False)
    found = translator.translate(DOCUMENT, memories=[memory])
    assert found.sentences[1] == "4 5"  # the more frequent one
    assert found.known[1][0].score == 100
    assert [p.trg for p in found.known[1]] == ["4 5", "Four, five!"]
    assert found.recall is not None
    assert [(w.text, w.share, w.sources[0].pair) for w in found.recall[1]] == [
        ("4", 1.0, 0),
        ("5", 1.0, 0),
    ]
    approved = translator.translate(DOCUMENT, memories=[memory], approved={1: "mine"})
    assert approved.sentences[1] == "mine"
    in_context = memory_of(tmp_path / "context", ("s1 s2 s3", "x"), ("s4 s5", "in context"))
    both = translator.translate(DOCUMENT, memories=[memory, in_context])
    assert both.sentences[1] == "in context"
    assert both.known[1][0].score == 101


def test_each_word_tells_what_it_was_recalled_from(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    for recall in (translator.trained.base_recall, translator.trained.document_recall):
        if recall is not None:
            with torch.no_grad():
                recall.gate.copy_(torch.tensor([3.0, *[0.0] * 7]))  # wide open
    found = translator.translate(DOCUMENT, approved={0: "t1 t2 t3", 1: "t4 t5"})
    assert found.recall is not None
    assert found.recall[0] == []  # it was given
    assert found.recall[3] == []
    words = found.recall[2]
    assert [word.text for word in words] == found.sentences[2].split()
    for word in words:
        assert 0 <= word.share <= 1
        assert 0 <= word.gate <= 1
        for source in word.sources:
            assert source.word in found.known[2][source.pair].trg.split()
            assert source.word == word.text
    assert any(word.share > 0.5 for word in words)
    json.dumps(found.to_dict())


def test_a_translator_at_work_knows_what_stands_before(run: Path) -> None:
    translator = Translator.load(run, own_memory=False)
    references = {t: text.replace("s", "t") for t, text in enumerate(DOCUMENT)}
    (found,) = translator.translate_documents(
        [DOCUMENT], known=Knowledge([references], rehearse=True)
    )
    assert found.approved == []
    assert [{p.place for p in known} for known in found.known] == [
        set(),
        set(),
        {0, 1},
        set(),
        {1},
    ]


def test_exports_recall_and_keep_people_s_text_only_where_asked(
    sentence_run: Path, tmp_path: Path
) -> None:
    export_model(sentence_run, tmp_path / "plain", 5, 5)
    assert not (tmp_path / "plain" / "memory").exists()
    export_model(sentence_run, tmp_path / "full", 5, 5, with_memory=True)
    plain, full = Translator.load(tmp_path / "plain"), Translator.load(tmp_path / "full")
    assert plain.memories == ()
    (memory,) = full.memories
    assert full.system.base_recaller is not None
    assert full.system.base_recaller.is_prepared(memory)  # read by the run, not again
    assert full.translate(DOCUMENT).sentences != plain.translate(DOCUMENT).sentences
    assert plain.translate(DOCUMENT, approved={0: "t9 t9"}).sentences[0] == "t9 t9"


def test_wrong_knowledge_is_refused(sentence_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(sentence_run)
    for approved, message in (
        ({9: "x"}, "no sentence 9"),
        ({"0": "x"}, "no sentence '0'"),
        ({-1: "x"}, "no sentence -1"),
        ({0: None}, "not a text"),
    ):
        with pytest.raises(UserError, match=message):
            translator.translate(DOCUMENT, approved=approved)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no such translation memory"):
        translator.translate(DOCUMENT, memories=[tmp_path / "nothing"])
    with MemoryWriter.build(tmp_path / "fi", "fi", "en") as writer:
        writer.add([Document("d", (SentencePair("a", "b"),))], "o")
    data = dataclasses.replace(translator.config.data, src_language="et", trg_language="en")
    config = dataclasses.replace(translator.config, data=data)
    estonian = Translator(dataclasses.replace(translator.trained, config=config))
    with pytest.raises(UserError, match="from fi to en"):
        estonian.translate(DOCUMENT, memories=[tmp_path / "fi"])
    unable = Translator(dataclasses.replace(translator.trained, base_recall=None))
    with pytest.raises(UserError, match="not learned to recall"):
        unable.translate(DOCUMENT, memories=[memory_of(tmp_path / "tm", ("s1", "t1"))])
    with pytest.raises(UserError, match="1 translations are given for 2 documents"):
        translator.translate_documents([DOCUMENT] * 2, known=Knowledge([{}]))


def test_known_pairs_of_a_document_cover_its_sentences() -> None:
    texts = ["red green", "green blue", "red blue black", "white"]
    approved = {0: "a", 1: "b", 3: "d"}
    found = find_approved(texts, approved, MemoryConfig())
    assert [[p.trg for p in pairs] for pairs in found] == [["b"], ["a"], ["a", "b"], []]
    limited = find_approved(texts, approved, MemoryConfig(approved=1))
    assert [len(pairs) for pairs in limited] == [1, 1, 1, 0]
    assert find_approved(texts, approved, MemoryConfig(approved=0)) == [[], [], [], []]


# What a review found.


@pytest.mark.parametrize("rehearse", [False, True])
def test_in_a_long_document_too_the_nearest_sentences_are_known(rehearse: bool) -> None:
    """Its very sentence and its rare word, however late they come and however common the rest."""
    texts = [f"the file {n}" for n in range(3000)]
    texts[2900], texts[2950] = "the the file", "the quokka file"
    texts[2990], texts[2995] = "the the file", "a quokka"
    approved = dict(enumerate(texts))
    found = find_approved(texts, approved, MemoryConfig(approved=2), rehearse)
    assert (found[2990][0].place, found[2990][0].exact) == (2900, True)
    assert found[2995][0].place == 2950
    assert not rehearse or all(pair.place < t for t, known in enumerate(found) for pair in known)


def test_an_empty_document_knows_nothing(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    assert translator.translate([]).sentences == []
    first, second = translator.translate_documents([[], ["s1 s2"]])
    assert (first.sentences, len(second.sentences)) == ([], 1)


def test_given_sentences_are_read_as_they_are_scored(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    found = translator.translate(["s1 s2", "s3"], approved={0: "t1 t2"}).candidates[0][0]
    scored = translator.score(["s1 s2"], ["t1 t2"])
    assert found.log_probability == pytest.approx(scored.log_probability, abs=1e-4)
    assert found.attention is not None
    assert found.attention.shape == (3, 3)


def test_what_was_not_explained_can_be_approved(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    (document,) = translator.translate_documents([["s1 s2", "s1 s3"]])
    assert document.recall is None
    again = translator.approve(document, 0, "t1 t2")
    assert (again.sentences[0], again.recall) == ("t1 t2", None)


def test_the_order_of_approving_does_not_matter(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    texts = ["s1 s2", "s3", "s1 s2", "s1 s2"]
    document = translator.approve(translator.translate(texts), 2, "LATER")
    document = translator.approve(document, 0, "FIRST")
    anew = translator.translate(texts, approved={0: "FIRST", 2: "LATER"})
    assert document.sentences == anew.sentences
    assert document.sentences[3] == "FIRST"


def test_line_breaks_of_a_memory_do_not_shift_lines(sentence_run: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path / "tm", ("s1 s2", "one\rtwo\u2028three"))
    translator = Translator.load(sentence_run, own_memory=False)
    found = translator.translate(["s1 s2", "s1 \ud800"], memories=[memory])
    assert found.sentences[0] == "one two three"
    assert len(found.sentences) == 2  # half a surrogate pair is no reason to fail


def test_blank_lines_are_no_context(sentence_run: Path, tmp_path: Path) -> None:
    with MemoryWriter.build(tmp_path / "tm") as writer:
        pairs = (SentencePair("s9", "nine"), SentencePair("s1 s2", "AFTER"))
        documents = [Document("x", pairs), Document("y", (SentencePair("s1 s2", "BEGINNING"),))]
        writer.add(documents, "o")
    translator = Translator.load(sentence_run, own_memory=False)
    find = [tmp_path / "tm"]
    assert translator.translate(["s9", "", "s1 s2"], memories=find).sentences[2] == "AFTER"
    assert translator.translate(["s1 s2"], memories=find).sentences[0] == "BEGINNING"
    part = Knowledge(memories=(TranslationMemory.open(tmp_path / "tm"),), befores=["s9"])
    (found,) = translator.translate_documents([["s1 s2"]], known=part)
    assert found.sentences == ["AFTER"]


def test_cells_of_another_text_are_not_taken(sentence_run: Path, tmp_path: Path) -> None:
    translator = Translator.load(sentence_run, own_memory=False)
    recaller = translator.system.base_recaller
    assert recaller is not None
    first = memory_of(tmp_path / "tm", ("s1 s2", "t1 t2"))
    recaller.prepare(first)
    (entry,) = first.entries()
    known = KnownPair.from_memory(first, Match(entry, 100, 1.0))
    assert recaller._prepared(known) is not None
    other = dataclasses.replace(known, trg="t5 t6 t7")
    assert recaller._prepared(other) is None


def test_recall_of_other_weights_is_not_taken(tmp_path: Path) -> None:
    config = toy_config(tmp_path, "tm.fit=true", "tm.keep=true")
    run = tmp_path / "run"
    train(config, run)
    stage = run / "stage1.safetensors"
    before = load_model(run)
    assert before.base_recall is not None
    save_weights(stage, toy_model(before))
    assert load_model(run).base_recall is None
    assert Translator.load(run).memories == ()
    (run / "recall.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="wholedoc tm fit"):
        load_model(run)


def toy_model(trained: TrainedModel) -> torch.nn.Module:
    """The sentence model with other weights."""
    with torch.no_grad():
        for parameter in trained.base.parameters():
            parameter.mul_(1.01)
    return trained.base


def test_a_small_memory_is_recalled(sentence_run: Path, tmp_path: Path) -> None:
    memory = memory_of(tmp_path / "tm", ("s1 s2 s3 s4 s5", "t1 t2 t3 t4 t5"))
    translator = Translator.load(sentence_run, own_memory=False)
    ((known,),) = translator.translate(["s1 s2 s3 s4 s6"], memories=[memory]).known
    assert known.score == 80
    assert known.coverage > 0.5


def test_a_dev_set_that_knows_nothing_leaves_a_model_that_translates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(toy_config(tmp_path, "tm.fit=true", "tm.pairs=0", "tm.approved=0"), tmp_path / "run")
    assert "cannot be fitted" in capsys.readouterr().err
    assert Translator.load(tmp_path / "run").translate(["s1"]).sentences


def test_a_pickled_translator_holds_no_memory(sentence_run: Path) -> None:
    translator = Translator.load(sentence_run)
    before = len(pickle.dumps(translator))
    expected = translator.translate(DOCUMENT).sentences
    after = pickle.dumps(translator)
    assert len(after) < 1.1 * before
    assert pickle.loads(after).translate(DOCUMENT).sentences == expected
