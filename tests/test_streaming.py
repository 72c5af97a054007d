"""Streams: sentence by sentence and pass by pass, to the same document as at once."""

from collections import Counter
from pathlib import Path

import pytest
from toy import document_config

from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.document import DocumentTranslation
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.search import Hypothesis
from wholedoc.decoding.streaming import Stream
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.training.stages import train

TEXTS = [f"s{n % 12} s{(5 * n + 1) % 12} s{(7 * n) % 12}" for n in range(19)]
GIVEN = {3: "what people say", 7: ""}


@pytest.fixture(scope="module")
def sentence_model(learned_toy: Path) -> Translator:
    """A model that translates each sentence by itself."""
    return Translator.load(learned_toy)


@pytest.fixture(scope="module")
def document_model(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """A model with both memories."""
    directory = tmp_path_factory.mktemp("streaming")
    config = document_config(directory, "tm.fit=true", "search.passes=2")
    return Translator.load(train(config, directory / "run").directory)


def follow(stream: Stream) -> tuple[list[str], Counter[int]]:
    """What one who watches has seen in the end, and how many updates each pass brought."""
    seen = [""] * len(TEXTS)
    passes: Counter[int] = Counter()
    for update in stream:
        assert seen[update.place] != update.text or update.passes == 0
        seen[update.place] = update.text
        passes[update.passes] += 1
    return seen, passes


def texts_of(document: TranslatedDocument) -> tuple[list[list[str]], list[list[str]]]:
    """The translations of all sentences, and the words whose origin is known."""
    candidates = [[each.text for each in found] for found in document.candidates]
    return candidates, [[word.text for word in words] for words in document.recall or []]


@pytest.mark.parametrize("name", ["sentence_model", "document_model"])
@pytest.mark.parametrize("terms", [[], [("s1", "t5 t6")]], ids=["plain", "glossary"])
def test_a_stream_ends_with_what_translating_gives(
    name: str, terms: list[tuple[str, str]], request: pytest.FixtureRequest
) -> None:
    translator = request.getfixturevalue(name)
    settings = {"approved": GIVEN, "glossary": Glossary.of(terms) if terms else None, "nbest": 2}
    stream = translator.stream(TEXTS, **settings)
    seen, passes = follow(stream)
    at_once = translator.translate(TEXTS, **settings)
    assert seen == stream.document.sentences == at_once.sentences
    for part in ("history", "pieces", "known", "terms", "task"):
        assert getattr(stream.document, part) == getattr(at_once, part)
    assert texts_of(stream.document) == texts_of(at_once)
    assert passes[0] == len(TEXTS)
    assert (max(passes) > 0) == translator.reads_documents
    assert list(stream) == []  # it has ended


def test_a_pass_is_told_before_the_next_is_made(
    document_model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, add = [], DocumentTranslation.add_pass

    def noted(document: DocumentTranslation, found: list[list[Hypothesis]]) -> None:
        made.append(len(document.passes))
        add(document, found)

    monkeypatch.setattr(DocumentTranslation, "add_pass", noted)
    told = {update.passes: max(made) for update in document_model.stream(TEXTS, passes=2)}
    assert told[1] == 1
    assert max(made) == 2


def test_passes_are_those_that_were_asked_for(document_model: Translator) -> None:
    stream = document_model.stream(TEXTS, passes=0)
    assert list(follow(stream)[1]) == [0]
    assert stream.document.sentences == document_model.translate(TEXTS, passes=0).sentences


def test_the_document_is_there_when_all_updates_have_come(sentence_model: Translator) -> None:
    stream = sentence_model.stream(TEXTS)
    first = next(stream)
    assert (first.place, first.passes) == (0, 0)
    with pytest.raises(UserError, match="not translated yet"):
        _ = stream.document


def test_what_a_stream_is_given_is_checked_at_once(sentence_model: Translator) -> None:
    with pytest.raises(UserError, match="is not a list of sentences"):
        sentence_model.stream("s1 s2")
    with pytest.raises(UserError, match="no sentence 1 in a document of 1"):
        sentence_model.stream(["s1"], approved={1: "t1"})


@pytest.mark.parametrize("name", ["sentence_model", "document_model"])
def test_alternatives_are_the_nbest_of_one_sentence(
    name: str, request: pytest.FixtureRequest
) -> None:
    translator = request.getfixturevalue(name)
    document = translator.translate(TEXTS, approved=GIVEN)
    found = translator.alternatives(document, 5, 4)
    wanted = translator.translate(TEXTS, nbest=4, approved=GIVEN).candidates[5]
    assert len(found) == 4
    assert [each.text for each in found] == [each.text for each in wanted]
    assert [each.text for each in translator.alternatives(document, 3)] == [GIVEN[3]]


def test_alternatives_are_checked(sentence_model: Translator) -> None:
    document = sentence_model.translate(["s1"])
    for place in (-1, 1, "0"):
        with pytest.raises(UserError, match="there is no sentence"):
            sentence_model.alternatives(document, place)
    with pytest.raises(UserError, match="count = 0"):
        sentence_model.alternatives(document, 0, 0)
