"""Discourse measures against cases counted by hand, and what must hold for any text."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.metrics.discourse import (
    Aligned,
    Discourse,
    DiscourseCounts,
    Errors,
    Share,
    count_consistency,
    count_pronouns,
)
from wholedoc.metrics.words import ContentWords, Splitter

LEMMAS = {
    "courts": "court", "dishes": "dish", "sits": "sit", "sit": "sit", "meets": "meet",
    "gerichte": "gericht", "tagt": "tagen", "cars": "car", "goals": "goal",
}  # fmt: skip


def splitter(language: str) -> Splitter:
    """Splits text with the few lemmas that these tests need."""
    return Splitter(language, lambda form: LEMMAS.get(form, form))


ENGLISH = splitter("en")


def aligned(language: str, *pairs: tuple[str, str, str]) -> list[Aligned]:
    """Sentence pairs with their links written as ``i-j``, or as ``=`` for word by word."""
    found = []
    for src, trg, links in pairs:
        one, other = splitter(language).split(src), ENGLISH.split(trg)
        if links == "=":
            assert len(one) == len(other)
            numbers = [(i, i) for i in range(len(one))]
        else:
            numbers = [(int(i), int(j)) for i, j in (link.split("-") for link in links.split())]
        found.append(Aligned(one, other, tuple(numbers)))
    return found


# Lexical consistency, German to English. "Gericht" is a court, or a dish.


def court(*translations: tuple[str, str]) -> list[Aligned]:
    """A document of three sentences with the given translations and links."""
    src = ("Das Gericht tagt", "Die Gerichte tagen", "Ein Gericht urteilt")
    return aligned("de", *((one, *other) for one, other in zip(src, translations, strict=True)))


COURT = court(("The court sits", "="), ("The courts meet", "="), ("A tribunal rules", "="))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        # gericht: court court tribunal, of three pairs one is the same; tagen: sit meet.
        (COURT, (Share(1, 4), Share(1, 1))),
        # gericht: court dish court; tagen: sit sit.
        (
            court(("The court sits", "="), ("The dishes sit", "="), ("A court rules", "=")),
            (Share(2, 4), Share(2, 1)),
        ),
        # The second is not translated: the pair of the first and the third is left, which the
        # reference does not translate alike.
        (
            court(("The court sits", "="), ("They meet", "2-1"), ("A court rules", "=")),
            (Share(1, 2), Share(1, 0)),
        ),
        # One linked word in common is enough; a pronoun and <unk> are no translations.
        (
            court(
                ("The court of law sits", "0-0 1-1 1-3 2-4"),
                ("The law <unk>", "="),
                ("A them rules", "="),
            ),
            (Share(1, 1), Share(1, 1)),
        ),
        (court(*[("", "")] * 3), (Share(0, 0), Share(0, 0))),
    ],
)
def test_consistency(output: list[Aligned], expected: tuple[Share, Share]) -> None:
    content = (
        ContentWords([[pair.src for pair in COURT]], splitter("de")),
        ContentWords([[pair.trg for pair in COURT]], ENGLISH),
    )
    assert count_consistency(COURT, output, *content) == expected


# Pronouns, from each language.


@pytest.mark.parametrize(
    ("language", "reference", "outputs", "expected"),
    [
        # Right; the wrong gender; no pronoun; another case of the right one.
        ("et", ("Ta tuli", "She came", "="), ["She came"], Share(1, 1)),
        ("et", ("Ta tuli", "She came", "="), ["He came"], Share(0, 1)),
        ("et", ("Ta tuli", "She came", "="), ["Kati came"], Share(0, 1)),
        ("et", ("Ta tuli", "She came", "="), ["Her came"], Share(1, 1)),
        # Two pronouns of which one is right; "elle" is "it", not "she".
        ("de", ("Er sah ihn", "He saw him", "="), ["He saw her"], Share(1, 2)),
        ("fr", ("Elle brille", "It shines", "="), ["She shines"], Share(0, 1)),
        # What the reference says without a pronoun is skipped; other words are not looked at.
        ("et", ("Ta tuli", "Kati came", "="), ["She came"], Share()),
        ("et", ("Tulime siia", "We came", "0-0"), ["They came"], Share()),
        # No table of the source language: whatever stands for the reference's pronoun.
        ("xx", ("Tulime siia", "We came", "0-0"), ["They came"], Share(0, 1)),
        ("xx", ("Tulime siia", "We came", "0-0"), ["We came"], Share(1, 1)),
    ],
)
def test_pronouns(
    language: str, reference: tuple[str, str, str], outputs: list[str], expected: Share
) -> None:
    right = aligned(language, reference)
    found = aligned(language, *((reference[0], output, reference[2]) for output in outputs))
    assert count_pronouns(right, found, splitter(language), ENGLISH) == expected


def test_pronouns_need_a_table_of_the_target_language() -> None:
    right = aligned("et", ("Ta tuli", "She came", "="))
    assert count_pronouns(right, right, splitter("et"), splitter("xx")) == Share()


# Whole test sets. Two documents, of three sentences and of one.

SRC = ["Qimonda täidab eesmärke.", "Eesmärk on Qimonda.", "See on Qimonda auto.", "Auto."]
REFERENCE = ["Qimonda meets goals.", "The goal is Qimonda.", "It is the car of Qimonda.", "Car car"]
BASELINE = ["<unk> meets aims.", "The goal is <unk> <unk>.", "She is a car.", "Car."]
SYSTEM = ["qimonda reaches the goals.", "The goal is it.", "It is the house of Qimonda.", "Car car"]


def discourse() -> Discourse:
    return Discourse(SRC, REFERENCE, [3, 1], splitters=(splitter("et"), ENGLISH))


def total(test_set: Discourse, output: list[str]) -> DiscourseCounts:
    """The counts of all documents."""
    return sum(test_set.measure(output), DiscourseCounts())


@pytest.mark.parametrize(
    ("output", "names", "terms"),
    [
        # Repeated in the first document: "Qimonda" (three times), "goal" (two), "the" (two; so
        # small a text has no function words); "is" is too short. In the second: "car".
        (REFERENCE, (3, 3), (6, 6)),
        (BASELINE, (0, 3), (3, 6)),  # kept: goal, the; one of two "car"
        (SYSTEM, (2, 3), (6, 6)),
        (["", "", "", ""], (0, 3), (0, 6)),
        # Words count in their own sentence, and once.
        (["goal goal", "Qimonda Qimonda", "car", ""], (1, 3), (1, 6)),
    ],
)
def test_repetition(output: list[str], names: tuple[int, int], terms: tuple[int, int]) -> None:
    found = total(discourse(), output)
    assert found.names_kept == Share(*names)
    assert found.terms_kept == Share(*terms)


def test_names_that_every_document_has_are_none() -> None:
    reference = ["see Mr Ann and Mr Ann"] + ["see Mr and Mr"] * 9
    measure = Discourse(["x"] * 10, reference, [1] * 10, splitters=(splitter("et"), ENGLISH))
    assert total(measure, reference).names_kept == Share(2, 2)


def test_corrections() -> None:
    found = discourse().compare(BASELINE, SYSTEM)
    # Sentence 1: baseline misses Qimonda, goals; system misses meets.
    # Sentence 2: baseline misses Qimonda; so does the system.
    # Sentence 3: baseline misses It, the, of, Qimonda; system misses car.
    # Sentence 4: baseline misses one "car".
    assert found == Errors(corrected=Share(7, 8), new=Share(2, 8))
    assert (found.corrected.rate, found.new.rate) == (7 / 8, 2 / 8)


def test_a_text_is_aligned_and_measured_whole() -> None:
    # "auto" and "ta" stand in enough sentences to be aligned.
    src = ["Ta ostis auto", "Ta müüs auto", "Ta nägi maja", "Ta ostis maja"]
    reference = ["She bought cars", "She sold cars", "He saw houses", "He bought houses"]
    output = ["She bought cars", "It sold vehicles", "He saw houses", "saw houses"]
    measure = Discourse(src * 3, reference * 3, [2, 2] * 3, splitters=(splitter("et"), ENGLISH))
    found = total(measure, output * 3)
    # In each first document "auto" twice, in each second "maja" twice.
    assert (found.consistency, found.relative_consistency) == (Share(3, 6), Share(3, 6))
    assert found.pronoun_accuracy == Share(6, 12)


def test_the_signature_says_how_words_were_found() -> None:
    assert discourse().signature == (
        "src:et.given|trg:en.given|align:agreeing-m1-diagonal.1|content:ridf.1"
    )


def test_texts_that_do_not_fit_are_refused() -> None:
    splitters = (splitter("et"), ENGLISH)
    with pytest.raises(ValueError, match="one reference"):
        Discourse(SRC, REFERENCE[:3], [3, 1], splitters=splitters)
    with pytest.raises(ValueError, match="belongs to one document"):
        Discourse(SRC, REFERENCE, [3, 2], splitters=splitters)
    for call in (
        lambda: discourse().measure(SYSTEM[:2]),
        lambda: discourse().compare(BASELINE, SYSTEM[:2]),
        lambda: discourse().compare(BASELINE[:2], SYSTEM),
    ):
        with pytest.raises(ValueError, match=r"2 translations of 4 sentences"):
            call()


def test_nothing_to_measure() -> None:
    empty = Discourse([], [], [], splitters=(splitter("et"), ENGLISH))
    assert empty.measure([]) == []
    assert empty.compare([], []) == Errors()
    assert Share().rate is None


# Properties of any text.

src_sentences = st.lists(st.sampled_from(["er", "sie", "haus", "Anna", "und"]), max_size=5)
trg_sentences = st.lists(
    st.sampled_from(["he", "she", "house", "home", "Anna", "and", "<unk>"]), max_size=5
)
rows = st.tuples(*(sentences.map(" ".join) for sentences in (src_sentences, *[trg_sentences] * 3)))
documents = st.lists(st.lists(rows, max_size=4), min_size=1, max_size=3)
Documents = list[list[tuple[str, str, str, str]]]


def prepare(documents: Documents) -> tuple[Discourse, list[str], list[str], list[str]]:
    """A test set, its references, and two outputs."""
    lines = [row for document in documents for row in document]
    src, reference, baseline, system = ([line[k] for line in lines] for k in range(4))
    splitters = (splitter("de"), ENGLISH)
    test_set = Discourse(src, reference, [len(d) for d in documents], splitters=splitters)
    return test_set, reference, baseline, system


@settings(max_examples=25, deadline=None)
@given(documents)
def test_the_reference_is_perfect(documents: Documents) -> None:
    test_set, reference, baseline, _ = prepare(documents)
    found = total(test_set, reference)
    shares = (
        found.relative_consistency,
        found.pronoun_accuracy,
        found.names_kept,
        found.terms_kept,
    )
    assert all(share.part == share.whole for share in shares)
    errors = test_set.compare(baseline, reference)
    assert (errors.corrected.part, errors.new.part) == (errors.corrected.whole, 0)
    assert test_set.compare(reference, baseline).corrected.whole == 0


@settings(max_examples=25, deadline=None)
@given(documents)
def test_a_system_like_the_baseline_changes_nothing(documents: Documents) -> None:
    test_set, _, baseline, system = prepare(documents)
    comparison = test_set.compare(baseline, baseline)
    assert (comparison.corrected.part, comparison.new.part) == (0, 0)
    # What one system puts right of the other's, the other breaks of its.
    there, back = test_set.compare(baseline, system), test_set.compare(system, baseline)
    assert there.corrected.part == back.new.part
    still = there.corrected.whole - there.corrected.part
    assert still + there.new.part == back.new.whole == back.corrected.whole


@settings(max_examples=25, deadline=None)
@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_documents_does_not_matter(documents: Documents, random: Random) -> None:
    shuffled = documents.copy()
    random.shuffle(shuffled)
    results = []
    for order in (documents, shuffled):
        test_set, _, baseline, system = prepare(order)
        results.append((total(test_set, system), test_set.compare(baseline, system)))
    assert results[0] == results[1]


@settings(max_examples=25, deadline=None)
@given(documents)
def test_counts_fit_together(documents: Documents) -> None:
    test_set, _, _, system = prepare(documents)
    found = total(test_set, system)
    assert found.consistency.part == found.relative_consistency.part
    assert 0 <= found.relative_consistency.whole <= found.consistency.whole
    for share in (found.consistency, found.pronoun_accuracy, found.names_kept, found.terms_kept):
        assert 0 <= share.part <= share.whole
