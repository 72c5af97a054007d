"""Scoring: the log-probabilities of given translations, and contrastive sets."""

import gzip
import io
import json
import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_descent import CONFIG, DOCUMENTS, VARIANTS, make_system, tokens
from toy import document_config, read, toy_config

import wholedoc.cli
from wholedoc.config import SearchConfig
from wholedoc.corpus.readers import read_corpus
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding import scoring
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.predictor import Predictor, TranslationSystem
from wholedoc.decoding.scoring import (
    Candidate,
    generated_states,
    given_states,
    score_candidates,
    score_documents,
    score_translations,
)
from wholedoc.decoding.search import Hypothesis, search
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.metrics.discourse_sets import ContrastiveItem, read_contrastive
from wholedoc.metrics.scoring import Accuracy, ItemScore, count_right, score_corpus, score_items
from wholedoc.model.memory import Readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Run
from wholedoc.training.loop import read_log
from wholedoc.training.objective import DocumentSet, document_loss, sentence_loss
from wholedoc.training.stages import train

TARGETS = [
    [[4, 5], [6], [7, 8, 4, 4, 5], []],
    [[5, 6, 7]],
    [],
    [[8], [4, 4], [6, 5, 4]],
]
TOKENS = 4000


@torch.inference_mode()
def by_hand(
    system: TranslationSystem, d: int, t: int, states: torch.Tensor, target: list[int]
) -> float:
    """log P of one translation in its document."""
    model, document = system.model, DOCUMENTS[d]
    src, lengths = torch.tensor([document[t]]), torch.tensor([len(document[t])])
    cells = model.source_memory(system.vectors(document)) if system.vectors else None
    summary = model.encoder(src, lengths).summary
    own = torch.tensor([t])
    readings = read(model, summary, own, cells, states if model.target_query else None)
    return alone(model, document[t], target, readings)


@torch.inference_mode()
def alone(
    model: TranslationModel, sentence: list[int], target: list[int], readings: Readings | None
) -> float:
    """log P of one translation by itself, word by word."""
    src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
    decoded = model(src, lengths, torch.tensor([[BOS, *target]]), readings)
    logits = model.decoder.output.vocabulary(decoded.packed_features)
    if decoded.logits is not None:
        logits = logits + decoded.logits
    scores = torch.log_softmax(logits, dim=-1)
    return sum(scores[j, word].item() for j, word in enumerate([*target, EOS]))


@torch.inference_mode()
def states_by_hand(system: TranslationSystem, d: int, targets: list[list[int]]) -> torch.Tensor:
    """The last decoder state of each given translation, one by one."""
    rows = []
    for sentence, target in zip(DOCUMENTS[d], targets, strict=True):
        src, lengths = torch.tensor([sentence]), torch.tensor([len(sentence)])
        decoded = system.base(src, lengths, torch.tensor([[BOS, *target]]))
        rows.append(decoded.packed_states[-1])
    return torch.stack(rows)


def best_of(model: TranslationModel, sentence: list[int], config: SearchConfig) -> Hypothesis:
    return search(
        Predictor(model), torch.tensor([sentence]), torch.tensor([len(sentence)]), config
    )[0][0]


# Sentences


def test_the_sentence_model_scores_as_its_search_does() -> None:
    base = make_system().base
    sentences = [sentence for document in DOCUMENTS for sentence in document]
    found = [
        search(Predictor(base), torch.tensor([s]), torch.tensor([len(s)]), CONFIG)[0][0]
        for s in sentences
    ]
    (scores,) = score_translations(base, [sentences], [[list(f.tokens) for f in found]], TOKENS)
    assert scores == pytest.approx([f.log_probability for f in found], abs=1e-9)


def test_scores_are_those_of_the_loss(make_model, make_pairs) -> None:
    model = make_model()
    src, trg = [[4, 5, 6], [7], [8, 9]], [[4], [5, 6, 7, 8], []]
    loss = sentence_loss(model, make_pairs(src, trg))
    (scores,) = score_translations(model, [[[*s, EOS] for s in src]], [trg], TOKENS)
    assert -math.fsum(scores) == pytest.approx(loss.nats, abs=1e-9)


@pytest.mark.parametrize("fusion", ["context", "output"])
def test_batches_and_chunks_change_nothing(fusion: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system = make_system(fusion)
    whole = score_documents(system, DOCUMENTS, TARGETS, TOKENS)
    monkeypatch.setattr(scoring, "_LOGITS_AT_ONCE", 20)
    for found, expected in zip(score_documents(system, DOCUMENTS, TARGETS, 6), whole, strict=True):
        assert found == pytest.approx(expected, abs=1e-9)


def test_given_states_of_what_was_generated_are_those_of_the_search() -> None:
    base = make_system().base
    sentences = [sentence for document in DOCUMENTS for sentence in document]
    config = scoring.GREEDY
    found = [
        search(Predictor(base), torch.tensor([s]), torch.tensor([len(s)]), config)[0][0]
        for s in sentences
    ]
    generated = generated_states(Predictor(base), sentences)
    given = given_states(base, sentences, [list(f.tokens) for f in found], 10)
    torch.testing.assert_close(generated, torch.stack([f.last_state for f in found]))
    torch.testing.assert_close(given, generated)


# Documents


@pytest.mark.parametrize("memory", ["given", "generated"])
@pytest.mark.parametrize(("fusion", "name"), VARIANTS)
def test_documents_are_scored_as_the_paper_says(fusion: str, name: str, memory: str) -> None:
    system = make_system(fusion, name)
    found = score_documents(system, DOCUMENTS, TARGETS, TOKENS, memory)
    assert [len(scores) for scores in found] == [len(document) for document in DOCUMENTS]
    for d, (document, targets) in enumerate(zip(DOCUMENTS, TARGETS, strict=True)):
        if not document:
            continue
        states = (
            states_by_hand(system, d, targets)
            if memory == "given"
            else generated_states(system.base_predictor, document)
        )
        expected = [by_hand(system, d, t, states, target) for t, target in enumerate(targets)]
        assert found[d] == pytest.approx(expected, abs=1e-9)


def test_the_two_memories_differ() -> None:
    """So that the test above has something to tell apart; the source memory alone does not."""
    for name, same in (("both", False), ("trg", False), ("src", True)):
        system = make_system(memory=name)
        given, generated = (
            score_documents(system, DOCUMENTS, TARGETS, TOKENS, memory)[0]
            for memory in ("given", "generated")
        )
        assert (given == pytest.approx(generated, abs=1e-9)) == same


def test_the_descent_measures_the_same() -> None:
    """With the source memory; the descent's target cells come from its own search."""
    system = make_system(memory="src")
    found = translate_documents(system, DOCUMENTS, replace(CONFIG, passes=2))
    current = [[list(words) for words in tokens(descent)] for descent in found]
    scores = score_documents(system, DOCUMENTS, current, TOKENS)
    for descent, document in zip(found, scores, strict=True):
        if descent.sentences:
            assert descent.objective[-1] == pytest.approx(math.fsum(document), abs=1e-9)


@pytest.mark.parametrize("memory", ["given", "generated"])
def test_other_documents_and_their_order_change_nothing(memory: str) -> None:
    system = make_system()
    together = score_documents(system, DOCUMENTS, TARGETS, TOKENS, memory)
    turned = score_documents(system, DOCUMENTS[::-1], TARGETS[::-1], TOKENS, memory)[::-1]
    for d, expected in enumerate(together):
        (alone,) = score_documents(system, [DOCUMENTS[d]], [TARGETS[d]], TOKENS, memory)
        assert alone == pytest.approx(expected, abs=1e-9)
        assert turned[d] == pytest.approx(expected, abs=1e-9)


# Candidates


def test_a_candidate_is_scored_as_if_it_stood_in_the_document() -> None:
    system = make_system()
    candidates = [
        Candidate(d, t, words)
        for d, document in enumerate(DOCUMENTS)
        for t in range(len(document))
        for words in (TARGETS[d][t], [8, 7, 6])
    ]
    found = score_candidates(system, DOCUMENTS, TARGETS, candidates, TOKENS)
    for candidate, score in zip(candidates, found, strict=True):
        targets = list(TARGETS[candidate.document])
        targets[candidate.t] = candidate.tokens
        (scores,) = score_documents(system, [DOCUMENTS[candidate.document]], [targets], TOKENS)
        assert score == pytest.approx(scores[candidate.t], abs=1e-9)


def test_without_given_translations_the_memory_is_generated() -> None:
    system = make_system()
    candidates = [Candidate(3, 2, [4]), Candidate(0, 0, [5, 6]), Candidate(0, 0, [6])]
    mixed: list[list[list[int]] | None] = [None, TARGETS[1], TARGETS[2], None]
    found = score_candidates(system, DOCUMENTS, mixed, candidates, TOKENS)
    for candidate, score in zip(candidates, found, strict=True):
        states = generated_states(system.base_predictor, DOCUMENTS[candidate.document])
        expected = by_hand(system, candidate.document, candidate.t, states, candidate.tokens)
        assert score == pytest.approx(expected, abs=1e-9)


# A trained model


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scored")


@pytest.fixture(scope="module")
def trained(corpus: Path) -> Run:
    return train(document_config(corpus), corpus / "run")


@pytest.fixture(scope="module")
def translator(trained: Run) -> Translator:
    return Translator.load(trained.directory)


def dev(corpus: Path):  # type: ignore[no-untyped-def]
    return read_corpus(toy_config(corpus).data.dev)


@pytest.mark.parametrize(
    ("stage", "memory"),
    [("stage1", "given"), ("stage2", "generated")],
    ids=["sentence", "document"],
)
def test_perplexity_is_that_of_training(
    stage: str, memory: str, trained: Run, translator: Translator, corpus: Path
) -> None:
    measured = min(
        event["dev_perplexity"]
        for event in read_log(trained.directory)
        if event["event"] == "epoch" and event["stage"] == stage
    )
    model = translator if stage == "stage2" else translator.without_memory()
    found = score_corpus(model, dev(corpus), memory)
    assert found.whole.perplexity == pytest.approx(measured, rel=1e-5)
    assert sum(found.whole.words) == sum(trained.load_corpus("dev").trg_lengths)


def test_given_cells_are_the_gold_ones_of_training(
    trained: Run, translator: Translator, corpus: Path
) -> None:
    encoded = trained.load_corpus("dev")
    src = [encoded.src(t).tolist() for t in range(len(encoded))]
    gold = given_states(
        translator.system.base, src, [encoded.trg(t)[:-1].tolist() for t in range(len(encoded))], 50
    )
    vectors = translator.system.vectors(src)
    data = DocumentSet(encoded, vectors.numpy(), gold.numpy())
    documents = [encoded.document_sentences(d) for d in range(encoded.documents)]
    with torch.no_grad():
        nats, _ = document_loss(translator.system.model, data, documents, 60)
    found = score_corpus(translator, dev(corpus))
    assert found.whole.log_probability == pytest.approx(-nats, rel=1e-5)
    assert [len(d.log_probabilities) for d in found.documents] == [5, 5, 5]


def test_the_python_call(translator: Translator) -> None:
    found = translator.score(["s1 s2", "", "s3"], ["t1 t2", "", "t4 unheard"])
    assert found.words == [3, 1, 3]
    assert all(score < 0 for score in found.log_probabilities)
    assert found.perplexity == pytest.approx(math.exp(-found.log_probability / 7))
    alone = translator.without_memory().score(["s1 s2"], ["t1 t2"])
    other = translator.score(["s1 s2", "s3"], ["t1 t2", "t3"])
    assert other.log_probabilities[0] != pytest.approx(alone.log_probabilities[0], abs=1e-4)
    assert math.isnan(translator.score([], []).perplexity)
    with pytest.raises(UserError, match="2 translations are given for 1 sentences"):
        translator.score(["s1"], ["t1", "t2"])
    with pytest.raises(UserError, match="not one text"):
        translator.score("s1", ["t1"])


# Contrastive sets


def item(line: int = 1, target: tuple[str, ...] | None = None, t: int = 0) -> ContrastiveItem:
    source = ("s1 s2", "s3", "s4 s5 s6")
    return ContrastiveItem(
        line=line,
        source=source,
        sentence=t,
        target=target,
        reference=f"t{line} t2",
        alternatives=("t7", f"t{line} t8 t9"),
    )


TARGET = ("t1 t2", "t3", "t4 t5 t6")
ITEMS = [item(1), item(2, TARGET, 2), item(3, t=1), item(4, TARGET, 2), item(5, TARGET, 0), item(1)]


@pytest.mark.parametrize("memory", ["given", "generated"])
def test_items_together_equal_items_one_by_one(translator: Translator, memory: str) -> None:
    together = score_items(translator, ITEMS, memory)
    assert [score.item for score in together] == ITEMS
    for score in together:
        (alone,) = score_items(translator, [score.item], memory)
        assert score.reference == pytest.approx(alone.reference, abs=1e-4)
        assert score.alternatives == pytest.approx(alone.alternatives, abs=1e-4)


def test_items_are_scored_in_their_document(translator: Translator) -> None:
    for score in score_items(translator, ITEMS):
        texts = (score.item.reference, *score.item.alternatives)
        for text, found in zip(texts, (score.reference, *score.alternatives), strict=True):
            t = score.item.sentence
            target = list(score.item.target or ("", "", ""))
            target[t] = text
            memory = "given" if score.item.target else "generated"
            scored = translator.score(score.item.source, target, memory)
            assert found == pytest.approx(scored.log_probabilities[t], abs=1e-4)


def test_equal_documents_share_their_work(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    generated: list[int] = []
    states = scoring.generated_states

    def spy(predictor, sentences):  # type: ignore[no-untyped-def]
        generated.append(len(sentences))
        return states(predictor, sentences)

    monkeypatch.setattr(scoring, "generated_states", spy)
    score_items(translator, ITEMS)
    assert generated == [3]  # three items without a target, one document


def test_a_reference_is_right_if_it_is_strictly_better() -> None:
    cases = [(-1.0, (-2.0, -3.0), True), (-2.0, (-3.0, -1.0), False), (-1.0, (-1.0,), False)]
    scores = [ItemScore(item(), *case[:2]) for case in cases]
    assert [score.right for score in scores] == [case[2] for case in cases]
    kinds = [("a", "c"), ("b", "c"), ()]
    named = [
        replace(score, item=replace(score.item, kinds=some))
        for score, some in zip(scores, kinds, strict=True)
    ]
    assert count_right(named).to_json() == {
        "items": 3,
        "right": 1,
        "ties": 1,
        "accuracy": pytest.approx(1 / 3),
        "kinds": {
            "a": {"items": 1, "right": 1, "ties": 0, "accuracy": 1.0},
            "c": {"items": 2, "right": 1, "ties": 0, "accuracy": 0.5},
            "b": {"items": 1, "right": 0, "ties": 0, "accuracy": 0.0},
        },
        "context": "own",
    }


def test_ties_are_counted_and_said() -> None:
    """Equal but for the order in which sums were rounded, or a tie behind a better one."""
    cases = [
        (-1.0, (-1.0000001, -3.0)),
        (-1.0000001, (-1.0,)),
        (-2.0, (-2.0, -1.0)),
        (-2.0, (-3.0,)),
    ]
    scores = [ItemScore(item(), *case) for case in cases]
    assert [score.tied for score in scores] == [True, True, False, False]
    assert [score.to_json()["tied"] for score in scores] == [True, True, False, False]
    assert [score.right for score in scores] == [False, False, False, True]
    assert count_right(scores).summary == [
        "all: 25.0 % right, 1 of 4; 2 ties, counted as not right"
    ]


def test_translations_of_unknown_words_alone_are_ties(translator: Translator) -> None:
    unheard = replace(item(), reference="t1 north", alternatives=("t1 south",))
    assert count_right(score_items(translator, [unheard])).whole == Accuracy(1, 0, 1, 0.0)


GOOD = {"source": ["s1", "s2"], "sentence": 1, "reference": "t2", "alternatives": ["t1"]}


def test_a_set_is_read(tmp_path: Path) -> None:
    full = {**GOOD, "target": ["t1", "t2"], "kind": "pronoun"}
    lines = ["", json.dumps(GOOD), "  ", json.dumps(full), json.dumps({**GOOD, "tags": "x"}), ""]
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(lines))
    found = read_contrastive(path)
    assert [(i.line, i.kinds, i.target) for i in found] == [
        (2, (), None),
        (4, ("pronoun",), ("t1", "t2")),
        (5, ("x",), None),
    ]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    assert read_contrastive(path) == found


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in GOOD.items() if key != name}


BAD_ITEMS = {
    "not JSON": ("{", "not JSON"),
    "deep": ("[" * 100_000, "not JSON"),
    "no object": ([1], "not a JSON object"),
    "unknown field": ({**GOOD, "targets": ["t1", "t2"]}, "unknown field 'targets'"),
    **{f"no {name}": (without(name), f"'{name}' is missing") for name in GOOD},
    "source is a text": ({**GOOD, "source": "s1"}, "'source' is not a list"),
    "no sentences": ({**GOOD, "source": []}, "'source' is empty"),
    "a number in source": ({**GOOD, "source": ["s1", 2]}, "'source' holds 2"),
    "index too high": ({**GOOD, "sentence": 2}, "'sentence' is 2, but 'source' has 2 sentences"),
    "index negative": ({**GOOD, "sentence": -1}, "'sentence' is -1"),
    "index true": ({**GOOD, "sentence": True}, "'sentence' is not a whole number"),
    "index text": ({**GOOD, "sentence": "1"}, "'sentence' is not a whole number"),
    "reference null": ({**GOOD, "reference": None}, "'reference' holds null"),
    "no alternatives": ({**GOOD, "alternatives": []}, "'alternatives' is empty"),
    "same alternative": ({**GOOD, "alternatives": ["t1", "t2"]}, "equals the reference"),
    "short target": ({**GOOD, "target": ["t1"]}, "'target' has 1 sentences, 'source' has 2"),
    "kind no text": ({**GOOD, "kind": ["a"]}, "'kind' holds"),
    "kind twice": ({**GOOD, "kind": "a", "tags": "b"}, "both 'kind' and 'tags'"),
    "surrogate": ({**GOOD, "kind": "\ud800"}, "surrogate"),
}


@pytest.mark.parametrize(("bad", "what"), BAD_ITEMS.values(), ids=BAD_ITEMS)
def test_bad_items_are_named_by_their_line(tmp_path: Path, bad: object, what: str) -> None:
    path = tmp_path / "set.jsonl"
    text = bad if isinstance(bad, str) else json.dumps(bad)
    path.write_text(f"{json.dumps(GOOD)}\n{text}\n{json.dumps(GOOD)}\n")
    with pytest.raises(UserError) as caught:
        read_contrastive(path)
    assert caught.value.where == f"{path}:2"
    assert what in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize(("text", "what"), [("", "is empty"), ("\n \n", "holds no items")])
def test_an_empty_set_is_refused(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "set.jsonl").write_text(text)
    with pytest.raises(UserError, match=what):
        read_contrastive(tmp_path / "set.jsonl")


# The command

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs ``wholedoc score`` in an empty directory: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["wholedoc", "score", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        assert isinstance(caught.value.code, int)
        return caught.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def files(corpus: Path, trained: Run) -> list[Path]:
    return [trained.directory, corpus / "dev.src", corpus / "dev.trg"]


def test_one_number_per_line_and_a_summary(files: list[Path], corpus: Path, cli: Cli) -> None:
    doc = ("--doc", corpus / "dev.doc")
    code, output, errors = cli(*files, *doc)
    assert (code, len(output.splitlines())) == (0, 15)
    assert errors.startswith("3 documents, 15 sentences, ")
    code, printed, errors = cli(*files, *doc, "--json")
    assert (code, errors) == (0, "")
    found = json.loads(printed)
    assert list(found) == ["sentences", "words", "log_probability", "perplexity", "documents"]
    keys = ["name", "sentences", "words", "log_probability", "perplexity"]
    assert [list(document) for document in found["documents"]] == [keys] * 3
    assert [document["name"] for document in found["documents"]] == ["doc0", "doc1", "doc2"]
    scores = [score for document in found["documents"] for score in document["sentences"]]
    assert [float(line) for line in output.splitlines()] == pytest.approx(scores, abs=1e-6)
    assert found["sentences"] == 15
    assert found["log_probability"] == pytest.approx(sum(scores))
    for part in (found, *found["documents"]):
        expected = math.exp(-part["log_probability"] / part["words"])
        assert part["perplexity"] == pytest.approx(expected)
    assert sum(document["words"] for document in found["documents"]) == found["words"]


def test_what_is_scored_depends_on_the_options(files: list[Path], corpus: Path, cli: Cli) -> None:
    doc = ("--doc", corpus / "dev.doc")
    outputs = {
        cli(*files, *options)[1]
        for options in (
            doc,
            (*doc, "--target-memory", "generated"),
            (*doc, "--sentence-model"),
            (),  # all in one document
        )
    }
    assert len(outputs) == 4
    given = cli(*files, *doc)[1]
    assert cli(*files, *doc, "--target-memory", "given")[1] == given
    assert cli(*files, "--sentence-model")[1] == cli(*files, *doc, "--sentence-model")[1]


def test_use_of_context(files: list[Path], translator: Translator, corpus: Path, cli: Cli) -> None:
    options = ("--doc", corpus / "dev.doc", "--context-use")
    code, output, errors = cli(*files, *options, "--json")
    assert (code, errors) == (0, "")
    found = json.loads(output)
    own = score_corpus(translator, dev(corpus))
    alone = score_corpus(translator.without_memory(), dev(corpus))
    words = sum(own.whole.words)
    nats = own.whole.log_probability - alone.whole.log_probability
    bits = nats / math.log(2) / words
    assert found["over_sentence_model"] == pytest.approx(bits, abs=1e-4)
    assert found["cxmi"] != pytest.approx(bits, abs=1e-4)
    assert (found["sentences"], found["words"]) == (15, words)
    assert [document["name"] for document in found["documents"]] == own.names
    assert math.fsum(found["source"]["distances"].values()) == pytest.approx(1)
    assert found["target"]["readers"] == 15
    code, output, errors = cli(*files, *options, "-o", "scores")
    assert (code, errors) == (0, "")
    assert f"{found['cxmi']:+.4f}  own document, over reading nothing" in output
    assert f"{found['shuffled_change']:+.4f}  another document's memory" in output
    assert f"signature: {found['signature']}\n" in output
    assert Path("scores").read_text() == cli(*files, *options[:2])[1]
    generated = json.loads(cli(*files, *options, "--target-memory", "generated", "--json")[1])
    assert generated["cxmi"] != found["cxmi"]
    assert generated["signature"] != found["signature"]


def test_gzipped_and_in_one_file(files: list[Path], corpus: Path, cli: Cli) -> None:
    names = ("src", "trg", "doc")
    src, trg, doc = ((corpus / f"dev.{name}").read_text().splitlines() for name in names)
    rows = ["\t".join(row) for row in zip(doc, src, trg, strict=True)]
    Path("one.tsv.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    expected = cli(*files, "--doc", corpus / "dev.doc")[1]
    assert cli(files[0], "one.tsv.gz")[:2] == (0, expected)


def test_empty_translations_are_counted(files: list[Path], cli: Cli) -> None:
    Path("a").write_text("s1\ns2\ns3\n")
    Path("b").write_text("t1\n\nt3\n")
    code, output, errors = cli(files[0], "a", "b")
    assert (code, len(output.splitlines())) == (0, 3)
    assert "without a word, scored by their </s>: 1\n" in errors


def test_scores_into_a_file(files: list[Path], cli: Cli) -> None:
    expected = cli(*files)[1]
    code, output, _ = cli(*files, "-o", "scores")
    assert (code, output, Path("scores").read_text()) == (0, "", expected)
    code, output, _ = cli(*files, "-o", "scores", "--json")
    assert (code, json.loads(output)["sentences"]) == (0, 15)
    assert Path("scores").read_text() == expected


def test_a_contrastive_set(files: list[Path], translator: Translator, cli: Cli) -> None:
    right = {"source": ["s1 s2 s3", "s4"], "sentence": 0, "kind": "words"}
    lines = [
        {**right, "reference": "t1 t2 t3", "alternatives": ["t9 t9 t9 t9 t9 t9 t9 t9"]},
        {**right, "reference": "t9 t9 t9 t9 t9 t9 t9 t9", "alternatives": ["t1 t2 t3", "t4"]},
        {**GOOD, "target": ["t1", "t2"], "kind": "names"},
    ]
    Path("set.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    arguments = (files[0], "--contrastive", "set.jsonl")
    code, output, errors = cli(*arguments, "-o", "out.jsonl", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(output)
    assert list(found) == ["items", "right", "ties", "accuracy", "kinds", "context"]
    assert found["kinds"]["words"] == {"items": 2, "right": 1, "ties": 0, "accuracy": 0.5}
    items = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [i["line"] for i in items] == [1, 3, 5]
    assert [len(i["alternatives"]) for i in items] == [1, 2, 1]
    assert [i["right"] for i in items][:2] == [True, False]
    assert found["right"] == sum(i["right"] for i in items)
    scored = translator.score(lines[2]["source"], ["t1", "t2"])  # type: ignore[arg-type]
    assert items[2]["reference"] == pytest.approx(scored.log_probabilities[1], abs=1e-4)
    code, output, errors = cli(*arguments)
    assert (code, errors) == (0, "")
    assert "words: 50.0 % right, 1 of 2\n" in output
    assert output.startswith("all: ")
    alone = cli(*arguments, "--sentence-model", "-o", "alone.jsonl")[0]
    assert (alone, Path("alone.jsonl").read_text() == Path("out.jsonl").read_text()) == (0, False)


def make_discevalmt() -> None:
    """Two blocks in which each translation is right once and wrong once."""
    texts = ("t1 t2", "t3 t4 t5"), ("t6 t7", "t8")
    blocks = {
        name: {
            "src": [f"s{name} s2 s3", "s4 s5"],
            "trg": [
                {"correct": [f"t{name}", texts[i][j]], "incorrect": [f"t{name}", texts[i][1 - j]]}
                for j in (0, 1)
            ],
        }
        for i, name in enumerate("12")
    }
    Path("anaphora.json").write_text(json.dumps(blocks, indent=2))


def test_contexts_of_a_set(files: list[Path], translator: Translator, cli: Cli) -> None:
    make_discevalmt()
    arguments = (files[0], "--contrastive", "anaphora.json")
    scores = {}
    for context in ("own", "none", "shuffled"):
        code, output, errors = cli(*arguments, "--context", context, "-o", "items", "--json")
        assert (code, errors) == (0, "")
        found = json.loads(output)
        assert (found["items"], found["context"]) == (4, context)
        assert found["kinds"]["correct"]["items"] == 4
        if context == "none":  # without context, of two opposite items one is right
            assert found["accuracy"] == 0.5
        items = [json.loads(line) for line in Path("items").read_text().splitlines()]
        scores[context] = [i["reference"] for i in items]
    documents = {
        "own": (["s1 s2 s3", "s4 s5"], ["t1", "t1 t2"]),
        "none": (["s4 s5"], ["t1 t2"]),
        "shuffled": (["s2 s2 s3", "s4 s5"], ["t2", "t1 t2"]),
    }
    for context, (source, target) in documents.items():
        expected = translator.score(source, target).log_probabilities[-1]
        assert scores[context][0] == pytest.approx(expected, abs=1e-4)
    assert len({round(found[0], 5) for found in scores.values()}) == 3
    assert cli(*arguments)[1] == cli(*arguments, "--context", "own")[1]


def make_ctxpro(count: int = 4) -> tuple[str, str, str]:
    """A set and its inputs: sentences 1 to 4 after two others; SRC and the option."""
    sentences = [f"s{n} s{n + 1} s{n + 2}" for n in range(1, count + 1)]
    fields = {"expected": "T3", "rule": "R", "ante distance": 1}
    examples = [{**fields, "src segment": text} for text in sentences]
    lines = [f"s{n} s7<eos> s8 s9<eos> {text}\n" for n, text in enumerate(sentences, start=1)]
    Path("set.json").write_text(json.dumps(examples))
    Path("inputs").write_text("".join(lines))
    return "inputs", "--ctxpro", "set.json"


@pytest.mark.parametrize("context", ["own", "none", "shuffled"])
def test_a_set_of_ctxpro(context: str, files: list[Path], translator: Translator, cli: Cli) -> None:
    arguments = (files[0], *make_ctxpro(), "--context", context)
    code, output, errors = cli(*arguments, "--json", "-o", "items")
    assert (code, errors) == (0, "")
    found = json.loads(output)
    assert list(found) == ["items", "right", "accuracy", "kinds", "context"]
    items = [json.loads(line) for line in Path("items").read_text().splitlines()]
    assert [i["line"] for i in items] == [1, 2, 3, 4]
    assert {i["kind"] for i in items} == {"R, antecedent before"}
    for i, made in enumerate(items, start=1):
        other = {"own": i, "shuffled": (i + 1) % 4 + 1}.get(context)
        before = [f"s{other} s7", "s8 s9"] if other else []
        expected = translator.translate([*before, f"s{i} s{i + 1} s{i + 2}"]).sentences[-1]
        assert made["translation"] == expected
        assert made["right"] == ("t3" in expected.split())
    assert found["right"] == sum(i["right"] for i in items)
    assert found["kinds"]["antecedent before"]["items"] == found["items"] == 4
    assert cli(*arguments)[1].startswith(f"all: {25 * found['right']}.0 % right, ")


def test_a_sentence_model_translates_the_sentences_alone(
    files: list[Path], translator: Translator, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    translate = Translator.translate_documents

    def spy(self, documents, *arguments, **options):  # type: ignore[no-untyped-def]
        sizes.extend(map(len, documents))
        return translate(self, documents, *arguments, **options)

    monkeypatch.setattr(Translator, "translate_documents", spy)
    assert cli(files[0], *make_ctxpro(), "--sentence-model", "-o", "items")[0] == 0
    assert sizes == [1, 1, 1, 1]
    first = json.loads(Path("items").read_text().splitlines()[0])
    expected = translator.without_memory().translate(["s1 s7", "s8 s9", "s1 s2 s3"]).sentences
    assert first["translation"] == expected[-1]


def test_what_is_translated_before_an_interruption_is_kept(
    files: list[Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wholedoc.corpus.documents.GROUP_SENTENCES", 6)  # two items
    translate, calls = Translator.translate_documents, iter((1, 2))

    def interrupted(self, documents, *arguments, **options):  # type: ignore[no-untyped-def]
        if next(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, documents, *arguments, **options)

    monkeypatch.setattr(Translator, "translate_documents", interrupted)
    code, output, errors = cli(files[0], *make_ctxpro(), "-o", "items")
    assert (code, output) == (130, "")
    assert "items.part: kept what was finished" in errors
    assert len(Path("items.part").read_text().splitlines()) == 2


def short(files: list[Path]) -> list[str | Path]:
    Path("b").write_text("t1\n")
    return [*files[:2], "b"]


def empty(files: list[Path]) -> list[str | Path]:
    Path("set").write_text("")
    return [files[0], "--contrastive", "set"]


def wrong(files: list[Path]) -> list[str | Path]:
    Path("set").write_text(json.dumps({**GOOD, "sentence": 5}))
    return [files[0], "--contrastive", "set"]


BAD_COMMANDS: dict[str, tuple[Callable[[list[Path]], list[str | Path]], str]] = {
    "line counts": (short, "b"),
    "no translations": (lambda files: files[:2], "give the target side too"),
    "nothing": (lambda files: files[:1], "nothing to score is given"),
    "both": (lambda files: [*files, "--contrastive", "set"], "--contrastive: does not go with SRC"),
    "context of a corpus": (lambda files: [*files, "--context", "none"], "--context: goes with"),
    "no inputs": (lambda files: [files[0], "--ctxpro", "set"], "--ctxpro: the inputs of the set"),
    "two sets": (
        lambda files: [files[0], "--ctxpro", "a", "--contrastive", "b"],
        "--contrastive: does not go with --ctxpro",
    ),
    "translations of a set": (
        lambda files: [*files, "--ctxpro", "set"],
        "--ctxpro: does not go with TRG; give SRC alone",
    ),
    "no context": (lambda files: [*files, "--context-use", "--sentence-model"], "--context-use"),
    "no memory": (
        lambda files: [*files, "--sentence-model", "--target-memory", "generated"],
        "--sentence-model: does not go with --target-memory",
    ),
    "no translations of a set": (
        lambda files: [*files[:2], "--ctxpro", "set", "--target-memory", "generated"],
        "--target-memory: does not go with --ctxpro",
    ),
    "nothing recalled": (
        lambda files: [files[0], "--contrastive", "set", "--no-tm"],
        "--no-tm: does not go with --contrastive",
    ),
    "no file": (lambda files: [files[0], "none", files[2]], "none: no such file"),
    "no set": (lambda files: [files[0], "--contrastive", "none"], "none: no such file"),
    "empty set": (empty, "set: the file is empty"),
    "wrong index": (wrong, "set:1: 'sentence' is 5"),
    "no model": (lambda files: ["none", *files[1:]], "none: no such model"),
    "not a model": (lambda files: [files[0].parent, *files[1:]], "is not a run directory"),
    "unknown memory": (lambda files: [*files, "--target-memory", "gold"], "target-memory"),
    "over its input": (lambda files: [*files, "-o", files[2]], "would overwrite an input"),
    "no place": (lambda files: [*files, "-o", "/proc/out"], "/proc/out: cannot write"),
    "a folder": (lambda files: [*files, "-o", "."], "is a folder"),
}


@pytest.mark.parametrize(("make", "what"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_bad_commands_say_what_is_wrong(
    make: Callable[[list[Path]], list[str | Path]], what: str, files: list[Path], cli: Cli
) -> None:
    code, output, errors = cli(*make(files))
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert errors.startswith("wholedoc: ")
    assert what in errors


# Recall.


@pytest.fixture(scope="module")
def recalling(corpus: Path) -> Run:
    """A sentence model that has learned to recall, with its training set as its memory."""
    settings = ("tm.fit=true", "tm.keep=true", "share=false")
    return train(toy_config(corpus, *settings), corpus / "recalling")


def test_a_sentence_recalls_what_stands_before_it(recalling: Run, corpus: Path, cli: Cli) -> None:
    files = [recalling.directory, corpus / "dev.src", corpus / "dev.trg"]
    doc = ("--doc", corpus / "dev.doc", "--no-tm")
    alone, approved = (
        [float(line) for line in cli(*files, *doc, *options)[1].splitlines()]
        for options in ((), ("--approved",))
    )
    same = [old == new for old, new in zip(alone, approved, strict=True)]
    assert same[::5] == [True] * 3  # five sentences a document: nothing stands before the first
    assert not all(same)
    translator = Translator.load(recalling.directory, own_memory=False)
    (first, *_) = dev(corpus)
    src, trg = [pair.src for pair in first], [pair.trg for pair in first]
    known = Knowledge([dict(enumerate(trg))], rehearse=True)
    found = translator.score(src, trg, known=known).log_probabilities
    assert found == pytest.approx(approved[:5], abs=1e-6)
    changed = [*trg[:4], "t1 t1 t1 t1"]
    later = translator.score(src, changed, known=Knowledge([dict(enumerate(changed))], (), True))
    assert later.log_probabilities[:4] == pytest.approx(found[:4], abs=1e-5)


def test_memories_are_recalled_from(recalling: Run, corpus: Path, cli: Cli) -> None:
    files = [recalling.directory, corpus / "dev.src", corpus / "dev.trg"]
    own, none = cli(*files)[1], cli(*files, "--no-tm")[1]
    assert own != none
    memory = recalling.directory / "memory"
    assert cli(*files, "--no-tm", "--tm", memory)[1] == own
    translator = Translator.load(recalling.directory)
    found = score_corpus(translator, dev(corpus)).whole.log_probabilities
    assert found == pytest.approx([float(line) for line in own.splitlines()], abs=1e-6)


def test_what_cannot_be_recalled_is_said(
    files: list[Path], recalling: Run, tmp_path: Path, cli: Cli
) -> None:
    code, _, errors = cli(*files, "--approved")
    assert (code, errors.count("\n")) == (2, 1)
    assert "--approved: this model has not learned to recall; fit it first" in errors
    memory = recalling.directory / "memory"
    assert "has not learned to recall" in cli(*files, "--tm", memory)[2]
    items = tmp_path / "items.jsonl"
    items.write_text(json.dumps(GOOD) + "\n", encoding="utf-8")
    refused = cli(recalling.directory, "--contrastive", items, "--approved")
    assert refused[0] == 2
    assert "--approved: does not go with --contrastive" in refused[2]
