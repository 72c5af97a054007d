"""The lexicon: which word each source word is translated by."""

from pathlib import Path

import pytest

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import WordVocabulary
from wholedoc.errors import UserError
from wholedoc.store.lexicon import learn_lexicon, read_lexicon, write_lexicon

SRC = WordVocabulary(["koer", "kass"], "et")
TRG = WordVocabulary(["the", "dog", "cat"], "en")


def learn(*pairs: tuple[str, str]) -> dict[str, str]:
    documents = [Document(str(d), (SentencePair(*pair),)) for d, pair in enumerate(pairs)]
    return learn_lexicon(documents, SRC, TRG)


def test_the_commonest_translation_is_kept() -> None:
    pairs = [("koer kass", "dog cat"), ("koer", "hound"), ("koer", "dog"), ("lõvi", "lion")]
    found = learn(*pairs)
    assert found == {"kass": "cat", "koer": "dog", "lõvi": "lion"}
    assert list(found) == sorted(found)


def test_words_unknown_to_the_vocabulary_are_learned_by_their_names() -> None:
    assert learn(("Tallinn", "Reval")) == {"tallinn": "reval"}


def test_a_name_translates_as_itself() -> None:
    assert learn(("Qimonda tuli", "came Qimonda"))["qimonda"] == "qimonda"


def test_nothing_to_learn_from() -> None:
    assert learn() == learn(("", "")) == learn(("koer", "")) == {}


def test_round_trip(tmp_path: Path) -> None:
    words = {"koer": "dog", "õ": "\u2028", "a b": "'", '"': "\x85"}
    write_lexicon(tmp_path / "lexicon.tsv", words)
    assert read_lexicon(tmp_path / "lexicon.tsv") == words


def test_an_empty_lexicon(tmp_path: Path) -> None:
    write_lexicon(tmp_path / "lexicon.tsv", {})
    assert read_lexicon(tmp_path / "lexicon.tsv") == {}


@pytest.mark.parametrize("line", [b"koer dog", b"koer\tdog\tcat", b"", b"\xff\tdog"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "lexicon.tsv"
    file.write_bytes(b"kass\tcat\n" + line + b"\n")
    with pytest.raises(UserError, match=f"{file}:2: not a pair of words"):
        read_lexicon(file)
