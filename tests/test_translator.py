"""The translator's promise: one line out for each line in, in order, whatever the line."""

import copy
import io
import json
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import wholedoc
from wholedoc.app.lines import translate_lines
from wholedoc.config import Config, ModelConfig, SearchConfig, VocabularyConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers import read_source_lines
from wholedoc.corpus.vocabulary import EOS, UNK, Vocabulary, build_vocabularies
from wholedoc.decoding import descent
from wholedoc.decoding.answering import join_weights
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.model.translation import TranslationModel
from wholedoc.store.checkpoint import save_weights
from wholedoc.store.lexicon import write_lexicon
from wholedoc.store.model import TrainedModel
from wholedoc.store.run import Run

Kind = Literal["word", "subword"]
KINDS: tuple[Kind, Kind] = ("word", "subword")

PAIRS = (
    ("the red house stands on the hill .", "das rote haus steht auf dem hügel ."),
    ("a dog sleeps in the house .", "ein hund schläft im haus ."),
    ("who sees the red dog ?", "wer sieht den roten hund ?"),
    ("the hill is green , the house is red .", "der hügel ist grün , das haus ist rot ."),
    ("green dogs sleep .", "grüne hunde schlafen ."),
)
DOCUMENTS = [Document("made up", tuple(SentencePair(src, trg) for src, trg in PAIRS))]
MODEL = ModelConfig(hidden=6, embedding=5, alignment=4, initial_state="encoder")
SEARCH = SearchConfig(beam=1, max_length_factor=1.0, max_length_extra=1)
BEAM = replace(SEARCH, beam=3)

ODD_LINES = {
    "empty": "",
    "spaces": "   ",
    "tab": "\t",
    "no-break space": "\u00a0",
    "ideographic space": "\u3000",
    "all unknown": "zyx wvu tsr",
    "other scripts": "Мой дом — моя крепость. 我的家",
    "right to left": "הבית שלי \u200fאדום",
    "emoji": "👩\u200d👩\u200d👧\u200d👦 🇪🇪",
    "combining": "e\u0301\u0323o\u0308",
    "beyond 16 bits": "𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
    "byte order mark": "\ufeffthe house",
    "separators": "the\u2028house\u2029the\u0085dog",
    "control characters": "the \x00\x01\x1b house",
    "only control": "\x00\x07",
    "sentencepiece's space": "▁the▁house▁",
    "names of specials": "<s> </s> <pad> <unk>",
    "escapes": "&amp; &#91; @-@ @@",
    "line break inside": "the house\nthe dog",
    "half a surrogate pair": "the \ud800 house",
    "one long word": "house" * 20,
}

texts = st.lists(st.sampled_from([src for src, _ in PAIRS] + list(ODD_LINES.values())), max_size=5)


def translator_of(model: TranslationModel, src: Vocabulary, trg: Vocabulary) -> Translator:
    """A sentence model with given vocabularies."""
    return Translator(TrainedModel(Config(search=SEARCH), src, trg, model))


@pytest.fixture(scope="session")
def translators(make_model) -> dict[str, Translator]:
    """A translator with random weights for each kind of vocabulary."""
    made = {}
    for kind, size in (("word", 0), ("subword", 310)):
        config = VocabularyConfig(kind=kind, size=size, min_frequency=1)
        src, trg = build_vocabularies(DOCUMENTS, config, "en", "de")
        model = make_model(MODEL, (len(src), len(trg)), seed=2)
        made[kind] = translator_of(model, src, trg)
    return made


@pytest.fixture(scope="session")
def saying(make_model, translators) -> Callable[[Kind, int], Translator]:
    """Make a translator that says one token over and over, up to the cap."""

    def make(kind: Kind, token: int) -> Translator:
        base = translators[kind]
        model = make_model(MODEL, (len(base.src_vocabulary), len(base.trg_vocabulary)), seed=3)
        with torch.no_grad():
            model.decoder.output.vocabulary.bias[token] = 60.0
        return translator_of(model, base.src_vocabulary, base.trg_vocabulary)

    return make


# One translation for each sentence.


@pytest.mark.parametrize("config", [SEARCH, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_line_has_one_translation_of_one_line(
    translators, kind: Kind, line: str, config: SearchConfig
) -> None:
    around = ["the red house .", line, "a dog sleeps ."]
    found = translators[kind].translate(around, config).sentences
    assert len(found) == 3
    for text in found:
        assert len(text.splitlines()) <= 1
    for i in (0, 2):
        assert found[i] == translators[kind].translate([around[i]], config).sentences[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blank", ["", " ", "\t \u3000"])
def test_nothing_is_translated_by_nothing(translators, kind: Kind, blank: str) -> None:
    [[found]] = translators[kind].translate([blank], nbest=1).candidates
    assert found.text == ""
    assert found.attention.shape == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("space", [" ", ""])
def test_a_very_long_sentence_is_translated_in_pieces(
    translators, kind: Kind, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator, most = translators[kind], 20
    searched: list[int] = []
    search = descent.search

    def spy(predictor, src, lengths, *rest):  # type: ignore[no-untyped-def]
        searched.extend(lengths.tolist())
        return search(predictor, src, lengths, *rest)

    monkeypatch.setattr(descent, "search", spy)
    long = space.join(["house", "dog", "the", "unheard", ",", "?"] * 80)
    config = replace(SEARCH, sentence_tokens=2 * most, piece_tokens=most)
    found = translator.translate(["the dog .", long, "who ?"], config, nbest=2)
    assert max(searched) <= most + 1
    assert [len(found.sentences), found.pieces[0], found.pieces[2]] == [3, 1, 1]
    assert found.pieces[1] > len(long) / (10 * most)
    assert found.sentences[0] == translator.translate(["the dog ."], config, nbest=2).sentences[0]
    # As long as its pieces are together, each of which may have the words of its source and one.
    joined = found.candidates[1][0]
    assert joined.attention is None
    assert joined.text == found.sentences[1]
    pieces = [piece.text for piece in translator._preparer.split(long, most)]
    alone = translator.translate(pieces, config, nbest=2).candidates
    assert joined.log_probability == pytest.approx(sum(c[0].log_probability for c in alone))
    words = sum(len(c[0].attention) for c in alone)
    assert joined.score == pytest.approx(joined.log_probability / words)
    assert joined.text.split() == " ".join(c[0].text for c in alone).split() or space == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["ab " * 200_000, "a" * 400_000], ids=["words", "one word"])
def test_pieces_of_a_huge_line_are_small_and_complete(translators, kind: Kind, text: str) -> None:
    pieces = translators[kind]._preparer.split(text, 400)
    assert max(len(piece.tokens) for piece in pieces) <= 401
    assert max(len(piece.text) for piece in pieces) <= 4000
    assert "".join(piece.text + piece.separator for piece in pieces) == text


def test_the_weights_of_pieces_are_those_of_their_sentence() -> None:
    weights = torch.tensor(
        [[0, 0.5, 0.2, 0.3], [0.1, 0, 0.6, 0.3], [0.2, 0.2, 0, 0.6], [1, 0, 0, 0]]
    )
    found = join_weights(weights, [1, 2, 1], [1, 2, 1])
    expected = [[0, 0.7, 0.3], [0.15, 0.4, 0.45], [1, 0, 0]]
    torch.testing.assert_close(found, torch.tensor(expected))
    assert join_weights(weights, [1] * 4, [1] * 4) is weights
    assert join_weights(None, [1, 2], [1, 2]) is None


def test_lines_in_pieces_are_named_once(translators, capsys: pytest.CaptureFixture[str]) -> None:
    config = replace(SEARCH, sentence_tokens=30, piece_tokens=10, max_length_extra=0)
    text = f"the dog .\n\n{'house ' * 40}\n{'dog ' * 31}\n{'dog ' * 30}\n"
    assert len(translated_lines(translators["word"], text, config)) == 5
    said = capsys.readouterr().err
    assert said == (
        "translated in pieces of at most 10 tokens, as too long for one sentence: "
        "2 of 5 lines (line 3, 4)\n"
    )


# What is asked for is checked.


BAD_CALLS: dict[str, tuple[Callable[[Translator], object], str]] = {
    "a text": (lambda t: t.translate("the dog ."), "sentences: 'the dog .' is not a list of sent"),
    "texts for documents": (
        lambda t: t.translate_documents(["abc", "def"]),
        r"documents\[0\]: 'abc'",
    ),
    "a text for all": (lambda t: t.translate_documents("abc"), "documents: 'abc' is not a list of"),
    "bytes": (lambda t: t.translate(["a", b"b"]), r"sentences\[1\]: b'b' is not a text; decode it"),
    "settings by name": (
        lambda t: t.translate(["a"], {"beam": 3}),
        "config: .* give a SearchConfig",
    ),
    "a list of approved": (
        lambda t: t.translate(["a"], approved=["x"]),
        "approved: .* give transl",
    ),
    "no memories": (lambda t: t.translate(["a"], memories=None), "memories: None does not fit"),
    "a strange memory": (lambda t: t.translate(["a"], memories=[5]), "memories: 5 does not fit"),
    "a strange glossary": (lambda t: t.translate(["a"], glossary={}), "glossary: {} does not fit"),
    "no place": (lambda t: t.align(t.translate(["a"]), 5), "place: there is no sentence 5"),
    "a number": (lambda t: t.translate([3]), r"sentences\[0\]: 3 is not a text"),
    "no list": (lambda t: t.translate(None), "sentences: None is not a list of sentences"),
    "passes": (
        lambda t: t.translate(["a"], passes=-1),
        "passes = -1 is out of range",
    ),
    "half passes": (lambda t: t.translate(["a"], passes=0.5), "passes = 0.5 is not a whole number"),
    "beam": (lambda t: t.translate(["a"], replace(SEARCH, beam=0)), "beam = 0 is out of range"),
    "wide beam": (
        lambda t: t.translate(["a"], replace(SEARCH, beam=100_000)),
        "beam = 100000 is out of range; it must be between 1 and 100",
    ),
    "order": (lambda t: t.translate(["a"], replace(SEARCH, order="foo")), '"foo" is not a choice'),
    "nbest": (lambda t: t.translate(["a"], nbest=0), "nbest = 0"),
    "many best": (lambda t: t.translate(["a"], nbest=5000), "nbest = 5000.* between 1 and 100"),
    "translations": (lambda t: t.score(["a"], ["b", "c"]), "2 translations are given for 1"),
    "documents": (
        lambda t: t.score_documents([["a"], ["b"]], [["c"]]),
        "translations: 1 translations are given for 2 documents",
    ),
    "memory": (lambda t: t.score(["a"], ["b"], "gold"), "memory: 'gold' is not a choice"),
    "a huge sentence": (lambda t: t.score(["a " * 20_000], ["b"]), "20,001 tokens; at most 10,000"),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_wrong_argument_is_named(
    translators, call: Callable[[Translator], object], message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        call(translators["word"])
    assert caught.value.where
    assert caught.value.fix


def test_generators_are_documents_too(translators) -> None:
    translator = translators["word"]
    texts = [src for src, _ in PAIRS]
    assert translator.translate(iter(texts)).sentences == translator.translate(texts).sentences
    (found,) = translator.translate_documents(iter([iter(texts)]))
    assert found.sentences == translator.translate(texts).sentences
    assert translator.score(iter(texts), iter(texts)) == translator.score(texts, texts)


@pytest.mark.parametrize("kind", KINDS)
def test_no_documents_and_empty_documents(translators, kind: Kind) -> None:
    assert translators[kind].translate_documents([]) == []
    assert translators[kind].translate([]).sentences == []
    found = translators[kind].translate_documents([[], ["the dog ."], []])
    assert [len(document.sentences) for document in found] == [0, 1, 0]


# Order, documents, batches.


@given(st.lists(texts, max_size=3), st.sampled_from(KINDS), st.sampled_from([1, 9, 40, 4000]))
@settings(deadline=None, max_examples=15)
def test_documents_and_batches_do_not_mix(
    translators, documents: list[list[str]], kind: Kind, batch_tokens: int
) -> None:
    translator = translators[kind]
    found = translator.translate_documents(documents, replace(BEAM, batch_tokens=batch_tokens))
    assert [len(document.sentences) for document in found] == [len(texts) for texts in documents]
    for texts, document in zip(documents, found, strict=True):
        alone = [translator.translate([text], BEAM).sentences[0] for text in texts]
        assert document.sentences == alone
        assert document.history == [alone]


def test_the_translations_are_of_their_own_sentences(translators) -> None:
    """The sentences differ in translation, so that a mix-up would show in the tests above."""
    found = translators["word"].translate([src for src, _ in PAIRS], BEAM).sentences
    assert len(set(found)) == len(PAIRS)


def test_progress_counts_every_sentence_once(translators) -> None:
    counts: list[tuple[int, int]] = []
    texts = [src for src, _ in PAIRS]
    translators["word"].translate_documents(
        [texts, texts], replace(SEARCH, batch_tokens=20), progress=lambda *done: counts.append(done)
    )
    assert len(counts) > 1
    assert sum(sentences for sentences, _ in counts) == 2 * len(texts)
    assert all(words >= sentences for sentences, words in counts)


def test_candidates_are_the_nbest_list(translators) -> None:
    [found] = translators["word"].translate(["the red house ."], SEARCH, nbest=4).candidates
    assert len(found) == 4
    scores = [candidate.score for candidate in found]
    assert scores == sorted(scores, reverse=True)
    for candidate in found:
        words = len(candidate.attention)
        assert candidate.score == pytest.approx(candidate.log_probability / words)


# What may stand in a translation.


@pytest.mark.parametrize("byte", ["0A", "0D", "0B", "0C", "1C", "1E"])
def test_line_breaks_spelt_by_bytes_stay_inside(saying, translators, byte: str) -> None:
    vocabulary = translators["subword"].trg_vocabulary
    [token] = [i for i in range(len(vocabulary)) if vocabulary.to_tokens([i]) == [f"<0x{byte}>"]]
    assert vocabulary.decode([token, token]) == 2 * chr(int(byte, 16))
    [[found]] = saying("subword", token).translate(["the red house"]).candidates
    assert len(found.attention) > 2
    assert found.text.splitlines() in ([], [found.text])


@pytest.mark.parametrize("line", ["the zyx house wvu", "zyx", "Zyx WVU tsr , QPO ?"])
def test_unknown_words_are_copied_from_where_the_model_looks(saying, line: str) -> None:
    translator = saying("word", UNK)
    words = translator.src_vocabulary.tokens(line)
    unknown, copied, translated = (
        translator.translate([line], replace(SEARCH, replace_unknown=how)).candidates[0][0]
        for how in ("none", "copy", "lexicon")
    )
    assert unknown.text == " ".join(["<unk>"] * (len(words) + 1))
    looked_at = [max(range(len(words)), key=row.tolist().__getitem__) for row in copied.attention]
    assert copied.text == translator.trg_vocabulary.decode_tokens(
        [words[i] for i in looked_at[:-1]]  # the last row is that of </s>
    )
    assert translated.text == copied.text  # the lexicon is empty


def test_copied_words_depend_on_the_attention(saying) -> None:
    """Attention fixed on one place after the other copies the word that stands there."""
    translator = saying("word", UNK)
    config = replace(SEARCH, replace_unknown="copy")
    encoder = translator.system.model.encoder
    known = translator.src_vocabulary.encode("red")[0]
    with torch.no_grad():
        attention = translator.system.model.decoder.attention
        attention.query.weight.zero_()
        attention.key.weight.zero_()
        attention.key.weight[0] = 1.0
        attention.score.weight.zero_()
        attention.score.weight[0, 0] = 200.0
        for gates in (encoder.rnn.forward_state, encoder.rnn.backward_state):
            gates.weight.zero_()
            gates.bias.fill_(-20.0)  # nothing remembered: a state is that of its word
        for gates in (encoder.rnn.forward_input, encoder.rnn.backward_input):
            gates.weight.zero_()
            gates.bias.zero_()
            gates.weight[2 * MODEL.hidden :, 0] = 1.0
        encoder.embedding.weight.zero_()
        encoder.embedding.weight[known] = 3.0
        encoder.embedding.weight[EOS] = 30.0  # </s> draws most attention and is no word
    for line, attended in (("red zyx dog", "red"), ("zyx wvu the red", "red")):
        [found] = translator.translate([line], config).sentences
        assert set(found.split()) == {attended}


def test_the_lexicon_translates_what_is_copied(saying) -> None:
    translator = saying("word", UNK)
    lexicon = {"zyx": "xyz", "the": "das"}
    translator = Translator(replace(translator.trained, lexicon=lexicon))
    line = "zyx the wvu"
    copied, translated = (
        translator.translate([line], replace(SEARCH, replace_unknown=how)).sentences[0].split()
        for how in ("copy", "lexicon")
    )
    assert translated == [lexicon.get(word, word) for word in copied]
    one_word = translator.translate(["Zyx"], replace(SEARCH, replace_unknown="lexicon"))
    assert one_word.sentences == ["xyz xyz"]


# Lines.


def translated_lines(
    translator: Translator, text: str, config: SearchConfig = SEARCH, nbest: int = 1
) -> list[str]:
    output = io.StringIO()
    source = read_source_lines(io.BytesIO(text.encode()))
    translate_lines(translator, source, output, config, nbest)
    written = output.getvalue()
    assert written == "" or written.endswith("\n")
    return written.split("\n")[:-1]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("\n", 1),
        ("the dog .", 1),
        ("the dog .\n", 1),
        ("the dog .\nthe house .", 2),
        ("the dog .\n\n\nthe house .\n\n", 5),
        ("the dog .\r\nthe house .\r\n", 2),
        ("\n\nthe dog .\n", 3),
        ("the\u2028dog .\nthe\x0chouse .\n", 2),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_as_many_lines_out_as_in(translators, kind: Kind, text: str, lines: int) -> None:
    assert len(translated_lines(translators[kind], text)) == lines


@pytest.mark.parametrize("marker", ["<d>", "<SEP>", "_eos"])
def test_marker_lines_are_copied_in_place(translators, marker: str) -> None:
    text = f"{marker}\nthe dog .\nwho sees ?\n{marker}\n\nthe house .\n{marker}"
    translator = translators["word"]
    found = translated_lines(translator, text)
    assert found == [
        marker,
        *translator.translate(["the dog .", "who sees ?"]).sentences,
        marker,
        "",
        *translator.translate(["the house ."]).sentences,
        marker,
    ]


def test_many_documents_are_written_in_order(translators) -> None:
    sources = [src for src, _ in PAIRS]
    text = "\n\n".join("\n".join(sources) for _ in range(250)) + "\n"  # more than are held at once
    translator = translators["word"]
    expected = translator.translate(sources).sentences
    found = translated_lines(translator, text)
    assert found == ([*expected, ""] * 250)[:-1]


def test_nbest_lines(translators) -> None:
    translator = translators["word"]
    found = translated_lines(translator, "the dog .\n\nthe house .\n", nbest=3)
    document = translator.translate(["the dog .", "", "the house ."], nbest=3)
    expected = [
        (t, candidate) for t, found in enumerate(document.candidates) for candidate in found
    ]
    assert [t for t, _ in expected] == [0, 0, 0, 1, 2, 2, 2]
    for line, (t, candidate) in zip(found, expected, strict=True):
        index, text, log_probability, score = re.split(r" \|\|\| ", line)
        assert int(index) == t
        assert text == candidate.text
        assert float(log_probability) == pytest.approx(candidate.log_probability, abs=1e-4)
        assert float(score) == pytest.approx(candidate.score, abs=1e-4)


# As plain values, and in another process.


def test_results_are_ready_for_json(translators) -> None:
    translator = translators["word"]
    document = translator.translate(["the dog .", ""], nbest=2)
    found = json.loads(json.dumps(document.to_dict()))
    assert found["sentences"] == document.sentences
    assert found["history"] == document.history
    assert (found["source_weights"], found["objective"], found["pieces"]) == (None, [], [1, 1])
    best = document.candidates[0][0]
    assert found["candidates"][0][0]["text"] == best.text
    assert found["candidates"][0][0]["attention"] == best.attention.tolist()
    scored = translator.score(["the dog ."], ["ein hund"])
    assert json.loads(json.dumps(scored.to_dict(), allow_nan=False)) == {
        "log_probabilities": scored.log_probabilities,
        "words": [3],
        "log_probability": scored.log_probability,
        "perplexity": scored.perplexity,
    }
    assert translator.score([], []).to_dict()["perplexity"] is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("int8", [False, True])
def test_a_translator_can_be_pickled(translators, kind: Kind, int8: bool) -> None:
    trained = translators[kind].trained
    model = copy.deepcopy(trained.base).float()
    made = Translator(replace(trained, base=model), int8=int8)
    lines = [src for src, _ in PAIRS]
    before = made.translate(lines).sentences  # the weights are prepared for search by now
    again = pickle.loads(pickle.dumps(made))
    assert again.translate(lines).sentences == before
    assert again.config == made.config


def test_threads_that_share_a_document_model(make_model, translators) -> None:
    """Each gets what it would have got alone."""
    trained = translators["word"].trained
    sizes = len(trained.src_vocabulary), len(trained.trg_vocabulary)
    config = replace(MODEL, memory="trg", fusion="output")
    document = make_model(config, sizes, seed=4)
    alone, shared = (Translator(replace(trained, document=document)) for _ in range(2))

    def work(translator: Translator, job: int) -> list[dict[str, Any]]:
        sentences = [src for src, _ in (*PAIRS[job : job + 2], *PAIRS[:3])][:4]
        document = translator.translate(sentences, passes=2, approved={job: "das Haus"})
        again = translator.approve(document, (job + 1) % 4, "der Hund")
        return [document.to_dict(), again.to_dict()]

    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(partial(work, shared), range(4)))
    assert at_once == [work(alone, job) for job in range(4)]
    assert at_once[0] != at_once[1]


def test_the_package_offers_what_a_caller_needs() -> None:
    results = ("ScoredDocument", "Term", "TranslatedDocument", "Translation")
    others = (
        "Glossary",
        "Knowledge",
        "SearchConfig",
        "Stream",
        "TranslationMemory",
        "Translator",
        "Update",
        "UserError",
    )
    assert {*results, *others, "__version__"} == set(wholedoc.__all__)
    assert wholedoc.UserError is UserError
    assert wholedoc.SearchConfig is SearchConfig
    assert wholedoc.Translator is Translator
    assert all(getattr(wholedoc, name) for name in wholedoc.__all__)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = wholedoc.Nothing


# On disk.


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_translator_equals_the_one_in_memory(
    translators, tmp_path: Path, kind: Kind
) -> None:
    base = translators[kind]
    model = copy.deepcopy(base.system.model).float()
    config = Config(model=MODEL, search=replace(BEAM, replace_unknown="lexicon"))
    vocabularies = base.src_vocabulary, base.trg_vocabulary
    made = Translator(TrainedModel(config, *vocabularies, model, lexicon={"zyx": "xyz"}))
    run = Run(tmp_path / "run")
    with run.lock():
        run.prepare(config)
    for vocabulary, file in zip(
        (made.src_vocabulary, made.trg_vocabulary), run.vocabulary_files(), strict=True
    ):
        vocabulary.save(file)
    save_weights(run.stage("stage1").best, made.system.model)
    write_lexicon(run.lexicon_file, made.trained.lexicon)

    loaded = Translator.load(str(run.directory))
    assert loaded.config == made.config
    assert loaded.trained.lexicon == made.trained.lexicon
    assert not loaded.system.model.training
    lines = [*(src for src, _ in PAIRS), *ODD_LINES.values()]
    for found, expected in zip(
        loaded.translate(lines).candidates, made.translate(lines).candidates, strict=True
    ):
        assert [(c.text, c.log_probability) for c in found] == [
            (c.text, c.log_probability) for c in expected
        ]


def test_an_unknown_word_approved_for_an_empty_sentence(translators) -> None:
    config = replace(SEARCH, replace_unknown="copy")
    found = translators["word"].translate(["the dog .", ""], config, approved={1: "zzzz qqqq"})
    assert found.sentences[1] == "zzzz qqqq"
