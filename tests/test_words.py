"""Words, lemmas, names and content words against cases by hand."""

from math import exp, log2

import pytest
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

from wholedoc.metrics.words import PRONOUNS, ContentWords, Splitter, find_names

PLAIN = Splitter("xx", str)


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("", []),
        (" ... ", []),
        ("L'homme d’Europe", ["L", "homme", "d", "Europe"]),
        ("the Commission's 3.5 % or 1,000", ["the", "Commission", "s", "3.5", "or", "1,000"]),
        ("the G20 -- inim- ning 2nd .", ["the", "G20", "inim", "ning", "2nd"]),
        ("<unk> of <UNK>.", ["<unk>", "of", "<UNK>"]),
        ("o\u0303igus", ["õigus"]),  # composed
    ],
)
def test_text_is_split_into_words(text: str, forms: list[str]) -> None:
    assert [word.form for word in PLAIN.split(text)] == forms


def test_raw_and_tokenised_text_are_split_alike() -> None:
    raw, tokenised = "It's (not) the EU's.", "It 's ( not ) the EU 's ."
    assert PLAIN.split(raw) == PLAIN.split(tokenised)


def test_words_that_start_a_sentence_are_known() -> None:
    words = PLAIN.split('Mr Smith said: "We go. They - Ann and I - stay (Or not)."')
    assert [word.form for word in words if word.initial] == [
        "Mr",
        "We",
        "They",
        "Ann",
        "stay",
        "Or",
    ]


@pytest.mark.parametrize(
    ("language", "forms", "lemmas"),
    [
        ("en", "Children met him and HIS houses .", "child meet he and he house"),
        ("en", "them their her us <unk>", "they they she we <unk>"),
        ("fr", "Chevaux droits", "cheval droit"),
        ("xx", "Chevaux droits", "chevaux droits"),  # a language without lemmas
        ("", "Chevaux", "chevaux"),
    ],
)
def test_lemmas(language: str, forms: str, lemmas: str) -> None:
    assert [word.lemma for word in Splitter(language).split(forms)] == lemmas.split()


def test_lemmas_exist_for_the_languages_with_pronouns() -> None:
    # Loading German and Estonian takes seconds, so they are only looked for.
    assert PRONOUNS.keys() == {"en", "fr", "de", "et"}
    assert PRONOUNS.keys() <= SUPPORTED_LANGUAGES


def test_signatures_tell_where_lemmas_come_from() -> None:
    assert Splitter("xx").signature == "xx.forms"
    assert Splitter("").signature == "und.forms"
    assert PLAIN.signature == "xx.given"
    assert Splitter("en").signature.startswith("en.simplemma-")


@pytest.mark.parametrize(
    ("language", "text", "pronouns"),
    [
        ("en", "She told us of the US and its I", ["She", "us", "its", "I"]),
        ("de", "Er sah die Frau und ihre Katze", ["Er", "ihre"]),
        ("fr", "Elle l'a donné à leur chat", ["Elle", "leur"]),
        ("et", "Ta andis neile oma auto", ["Ta", "neile", "oma"]),
        ("xx", "She", []),
    ],
)
def test_pronouns_are_known(language: str, text: str, pronouns: list[str]) -> None:
    splitter = Splitter(language, str)
    words = splitter.split(text)
    assert [word.form for word in words if splitter.is_pronoun(word)] == pronouns


@pytest.mark.parametrize(
    ("reference", "src", "names"),
    [
        ("Today Qimonda and I met.", "Täna kohtusid Qimonda ja mina.", {"qimonda"}),
        ("Qimonda meets it.", "Qimonda täidab.", {"qimonda"}),  # initial, but copied
        ("Countries meet.", "Riigid täidavad.", set()),
        ("The problem was big.", "Das Problem war groß.", set()),  # equal but for a capital
        ("In 2009 the G20 rose 3.5.", "2009", {"2009", "g20", "3.5"}),
        ("qimonda meets so", "qimonda täidab so", {"qimonda"}),  # no capitals at all
        ("", "", set()),
    ],
)
def test_names(reference: str, src: str, names: set[str]) -> None:
    assert find_names([PLAIN.split(reference)], [PLAIN.split(src)]) == names


def test_a_name_is_one_wherever_it_stands_in_the_document() -> None:
    reference = [PLAIN.split("Lukashenko left."), PLAIN.split("We saw Lukashenko.")]
    assert find_names(reference, [(), ()]) == {"lukashenko"}


def test_content_words_keep_to_their_documents() -> None:
    # "gas" stands in all ten sentences of one document of four, "and" in ten over all four.
    english = Splitter("en", str)
    documents = [["gas and 2009 ox it"] * 3 + ["gas and her"] + ["gas"] * 6]
    documents += [["and"] * 2] * 3
    content = ContentWords([[english.split(text) for text in doc] for doc in documents], english)
    # gas: s = 10, d = 1, D = 4; and: s = 10, d = 4.
    assert log2(1 - exp(-10 / 4)) - log2(1 / 4) > 0.4 > log2(1 - exp(-10 / 4)) - log2(4 / 4)
    assert content.even == {"and"}
    assert "gas" in content
    assert "unseen" in content
    for lemma in ("and", "ox", "2009", "it", "she", "<unk>"):  # even, short, no word, pronouns
        assert lemma not in content


def test_few_sentences_tell_nothing_of_how_words_are_spread() -> None:
    assert ContentWords([[PLAIN.split("and then")] * 9], PLAIN).even == frozenset()
    assert ContentWords([[PLAIN.split("and then")] * 10], PLAIN).even == {"and", "then"}
    assert ContentWords([], PLAIN).even == frozenset()
