"""Vocabularies: exact round trips, deterministic numbering, both kinds told apart on disk."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

import wholedoc.corpus.vocabulary as vocabulary_module
from wholedoc.config import VocabularyConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import (
    BOS,
    EOS,
    PAD,
    UNK,
    SubwordVocabulary,
    Vocabulary,
    WordVocabulary,
    build_vocabularies,
    load_vocabulary,
)
from wholedoc.errors import UserError

LINES = [
    f"{subject} {verb} the {noun}, {ending}."
    for subject in ("She", "He", "The Commission", "Tallinn", "Mr. Õunapuu")
    for verb in ("sees", "wants", "supports", "rejects", "has not read")
    for noun in ("report", "amendment", "vote", "directive", "Parliament's letter")
    for ending in ("again", "of course", "in 2004", "I believe")
]
DOCUMENTS = [
    Document("one", (SentencePair("Üks koer. Üks kass.", "One dog. One cat."),) * 5),
    Document("two", (SentencePair("Koer, koer ja kass", "A dog, a dog and a cat"),) * 2),
]
# Everything but surrogates, newline and NUL.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\0"))
ODD = [
    *("", " ", "   ", " a", "a ", "  a  b  ", "\t", "a\tb", "\r", "\x01\x7f", "\x85\u2028"),
    *("▁", "▁x", "x ▁ y▁", "\ufdd0", "\ufdd01", "\ufdd0▁0", "\ufffd", "\u00a0x\u00a0", "\ufeffx"),
    *("e\u0301", "👩‍👩‍👧", "日本語", "עברית", "<unk>", "<s></s>", "<0x0A>", "▅", "\U0010ffff"),
]


@pytest.fixture(scope="module")
def subwords() -> SubwordVocabulary:
    return SubwordVocabulary.train(LINES, 320)


@pytest.fixture(scope="module")
def words() -> WordVocabulary:
    return WordVocabulary(["the", "dog", ".", ",", "'s", "cat"], "en")


@pytest.mark.parametrize("text", ODD)
def test_subwords_round_trip_odd_text(subwords: SubwordVocabulary, text: str) -> None:
    assert subwords.decode(subwords.encode(text)) == text


@given(TEXT)
@example("She sees ▁the\ufdd0 report")
@settings(max_examples=500, deadline=None)
def test_subwords_round_trip_every_text(subwords: SubwordVocabulary, text: str) -> None:
    ids = subwords.encode(text)
    assert subwords.decode(ids) == text
    assert not {PAD, UNK, BOS, EOS} & set(ids)


def test_pieces_belong_to_words(subwords: SubwordVocabulary) -> None:
    assert subwords.word_spans(["▁a", "b", "▁c"]) == [(0, 2), (2, 3)]
    assert subwords.word_spans(["a", "▁b"]) == [(0, 1), (1, 2)]
    assert subwords.word_spans([]) == []


@given(TEXT)
@settings(deadline=None)
def test_tokens_stand_one_to_one_with_ids(
    subwords: SubwordVocabulary, words: WordVocabulary, text: str
) -> None:
    assert subwords.to_tokens(subwords.encode(text)) == subwords.tokens(text)
    assert subwords.decode_tokens(subwords.tokens(text)) == text
    named = words.to_tokens(words.encode(text))
    for name, token in zip(named, words.tokens(text), strict=True):
        assert name == (token if token in words.words else "<unk>")


def test_specials_are_left_out_save_for_unknown(
    subwords: SubwordVocabulary, words: WordVocabulary
) -> None:
    for vocabulary in (subwords, words):
        the = vocabulary.encode("the")
        assert vocabulary.decode([BOS, *the, EOS, PAD]) == "the"
        assert vocabulary.decode([EOS, PAD]) == ""
        assert "<unk>" in vocabulary.decode([*the, UNK])
        assert vocabulary.to_tokens([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_unknown_subwords_stand_for_themselves(subwords: SubwordVocabulary) -> None:
    assert subwords.decode_tokens(["▁the", "▁Zürich"]) == "the Zürich"
    assert subwords.decode_tokens(["▁Zürich", "▁the"]) == "Zürich the"


def test_bytes_that_spell_no_character_are_left_out(subwords: SubwordVocabulary) -> None:
    whole = ["▁the", "<0xE4>", "<0xB8>", "<0xAD>"]
    assert subwords.decode_tokens(whole) == "the中"
    assert subwords.decode_tokens(["<0xE4>", "<0xB8>", *whole, "<0xAD>", "▁the", "<0xE4>"]) == (
        "the中 the"
    )
    assert subwords.decode(subwords.encode("\ufffd")) == "\ufffd"


def test_subword_training_is_deterministic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Fewer than there are lines, so that the lines are drawn at random.
    monkeypatch.setattr(vocabulary_module, "_TRAINING_LINES", 200)
    for name in ("first", "second"):
        SubwordVocabulary.train(iter(LINES), 320).save(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_equal_lines_are_learned_from_once() -> None:
    # Sentencepiece's time grows with the square of repeated text.
    assert vocabulary_module._training_lines(["a b", "c", "a b"]) == ["a b", "c"]


def test_subword_training_is_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    SubwordVocabulary.train(LINES, 320)
    assert capfd.readouterr() == ("", "")


def test_a_small_corpus_gives_a_smaller_vocabulary_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        vocabulary = SubwordVocabulary.train(["a b c", "hello"], 4000)
    assert len(vocabulary) < 300
    assert str(len(vocabulary)) in caplog.text
    assert "4000" in caplog.text


@pytest.mark.parametrize("size", [310, 320, 350])
def test_a_vocabulary_has_its_size_or_says_that_it_is_smaller(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    # How many subwords a text yields depends on the release of sentencepiece and the processor.
    vocabulary = SubwordVocabulary.train(LINES, size)
    assert len(vocabulary) <= size
    assert len(caplog.records) == (len(vocabulary) < size)


def test_too_small_a_size_names_the_smallest() -> None:
    with pytest.raises(UserError, match="at least 268") as error:
        SubwordVocabulary.train(["a b c", "hello"], 261)
    assert error.value.where == "vocabulary.size"
    assert len(SubwordVocabulary.train(["a b c", "hello"], 268)) == 268


@pytest.mark.parametrize("size", [0, 1, 4, 260])
def test_no_room_for_subwords_is_noticed_before_reading(size: int) -> None:
    def unread() -> Iterator[str]:
        pytest.fail("the text was read")
        yield ""

    with pytest.raises(UserError) as error:
        SubwordVocabulary.train(unread(), size)
    assert str(error.value) == (
        f"vocabulary.size: a vocabulary of {size} has no room for subwords; "
        "set it well above 260, which specials and single bytes take"
    )


def test_what_sentencepiece_says_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise RuntimeError("INTERNAL: src/trainer_interface.cc(59)")

    monkeypatch.setattr(sentencepiece.SentencePieceTrainer, "train", fail)
    with pytest.raises(UserError, match="no vocabulary of 300 subwords") as error:
        SubwordVocabulary.train(["a"], 300)
    assert "INTERNAL" not in str(error.value)


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_is_refused(lines: list[str]) -> None:
    with pytest.raises(UserError, match="empty"):
        SubwordVocabulary.train(lines, 1000)


def test_no_training_line_is_skipped() -> None:
    # Each of them sentencepiece would skip, for its length or for a reserved character.
    lines = ["long words " * 500, "tab\ttab", "▅block", "x▁mark", "nul\0nul"]
    vocabulary = SubwordVocabulary.train(lines * 10, 4000)
    for word in ("long", "tab", "block", "mark", "nul"):
        assert not any(token.startswith("<0x") for token in vocabulary.tokens(word))


def test_an_error_while_reading_comes_through() -> None:
    def lines() -> object:
        yield "a b c"
        raise UserError("broken", where="train.et:2")

    with pytest.raises(UserError, match="broken"):
        SubwordVocabulary.train(lines(), 1000)  # type: ignore[arg-type]


def test_words_are_tokenised_lower_cased_and_put_back(words: WordVocabulary) -> None:
    assert words.tokens("The DOG's bone.") == ["the", "dog", "'s", "bone", "."]
    assert words.encode("The DOG's bone.") == [4, 5, 8, UNK, 6]
    assert words.decode([4, 5, 8, UNK, 6]) == "the dog's <unk>."
    assert words.decode_tokens(["the", "dog", ",", "&amp;", "<unk>", "."]) == (
        "the dog, &amp; <unk>."
    )


@pytest.mark.parametrize(
    ("text", "length"), [("", 0), ("  \u00a0\t ", 0), ("Zebra xylophone", 2), ("dog " * 5000, 5000)]
)
def test_words_of_any_line(words: WordVocabulary, text: str, length: int) -> None:
    ids = words.encode(text)
    assert len(ids) == length
    assert len(words.decode(ids).split()) == length


@pytest.mark.parametrize("text", ODD)
def test_odd_text_is_numbered_as_words(words: WordVocabulary, text: str) -> None:
    assert len(words.encode(text)) == len(words.tokens(text))
    assert all(token and token == token.strip() for token in words.tokens(text))


def test_moses_rules_are_those_of_the_language() -> None:
    # "esim" is on the Estonian list of abbreviations; a language without one has the English.
    assert WordVocabulary((), "et").tokens("esim. Tamm") == ["esim.", "tamm"]
    assert WordVocabulary((), "xx").tokens("esim. Tamm") == ["esim", ".", "tamm"]
    assert WordVocabulary((), "xx").tokens("Mr. Tamm") == ["mr.", "tamm"]
    assert WordVocabulary((), "").tokens("Mr. Tamm") == ["mr.", "tamm"]


@pytest.mark.parametrize(
    ("min_frequency", "size", "expected"),
    [
        (1, 0, ["b", "d", "a", "e", "c"]),
        (2, 0, ["b", "d", "a", "e"]),
        (2, 6, ["b", "d"]),
        (9, 0, []),
    ],
)
def test_words_are_listed_by_frequency_then_codepoint(
    min_frequency: int, size: int, expected: list[str]
) -> None:
    counts = {"a": 2, "b": 3, "c": 1, "d": 3, "e": 2}
    config = VocabularyConfig(kind="word", size=size, min_frequency=min_frequency)
    vocabulary = WordVocabulary.train(counts, config, "en")
    assert list(vocabulary.words) == expected
    assert len(vocabulary) == 4 + len(expected)


def test_a_limit_without_room_for_words_is_refused() -> None:
    with pytest.raises(UserError, match=r"vocabulary\.size"):
        WordVocabulary.train({"a": 9}, VocabularyConfig(kind="word", size=4), "en")


def test_word_vocabularies_of_both_sides() -> None:
    config = VocabularyConfig(kind="word", size=0, min_frequency=5)
    src, trg = build_vocabularies(DOCUMENTS, config, "et", "en")
    assert isinstance(src, WordVocabulary)
    assert isinstance(trg, WordVocabulary)
    assert (src.language, trg.language) == ("et", "en")
    assert src.words == (".", "üks", "koer", "kass")
    assert trg.words == (".", "one", "dog", "cat", "a")


def test_shared_words_have_the_same_numbers_and_their_own_rules() -> None:
    config = VocabularyConfig(kind="word", size=0, min_frequency=5, shared=True)
    src, trg = build_vocabularies(DOCUMENTS, config, "et", "en")
    assert isinstance(src, WordVocabulary)
    assert isinstance(trg, WordVocabulary)
    assert src.words == trg.words
    assert {"koer", "dog"} <= set(src.words)
    assert (src.language, trg.language) == ("et", "en")


@pytest.mark.parametrize("shared", [False, True])
def test_subword_vocabularies_of_both_sides(shared: bool) -> None:
    src, trg = build_vocabularies(DOCUMENTS, VocabularyConfig(size=1000, shared=shared), "et", "en")
    assert (src is trg) == shared
    # Ü is learned from the source side only.
    assert src.tokens("Ü")[-1].endswith("Ü")
    assert trg.tokens("Ü")[-1].endswith("Ü") == shared


def test_vocabularies_come_back_from_disk(
    tmp_path: Path, subwords: SubwordVocabulary, words: WordVocabulary
) -> None:
    for name, vocabulary in {"subwords": subwords, "words": words}.items():
        vocabulary.save(tmp_path / name)
        loaded: Vocabulary = load_vocabulary(tmp_path / name)
        assert type(loaded) is type(vocabulary)
        assert len(loaded) == len(vocabulary)
        for line in ("The dog's report, ▁ 日本.", "ÕUNAPUU"):
            assert loaded.encode(line) == vocabulary.encode(line)
            assert loaded.decode(loaded.encode(line)) == vocabulary.decode(vocabulary.encode(line))
    assert json.loads((tmp_path / "words").read_text(encoding="utf-8"))["language"] == "en"


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind": "word"}', b"not a model", b"\xff\xfe"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "vocabulary"
    path.write_bytes(content)
    with pytest.raises(UserError, match="not a vocabulary"):
        load_vocabulary(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such"):
        load_vocabulary(tmp_path / "none")
