"""A memory in an index of OpenSearch gives what the same memory gives from its directory."""

import pickle
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_opensearch import serve_opensearch
from typer.testing import CliRunner

pytest.importorskip("opensearchpy", reason="opensearch-py (wholedoc[opensearch]) is not installed")

from wholedoc.cli import app
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.tm.matching import split_tokens
from wholedoc.tm.memory import MemoryWriter, TranslationMemory
from wholedoc.tm.opensearch import publish

WORDS = [f"s{n}" for n in range(12)]
_draw = random.Random(2)
QUERIES = [
    (" ".join(_draw.choices([*WORDS, "new"], k=_draw.randint(1, 30))), before)
    for before in (None, "", *(" ".join(_draw.choices(WORDS, k=2)) for _ in range(30)))
]
"""Texts, some of more tokens than are searched for, and the segments before them."""


@pytest.fixture
def server() -> Iterator[str]:
    with serve_opensearch() as address:
        yield address


def make_documents(count: int, seed: int = 1) -> list[Document]:
    draw = random.Random(seed)
    documents = []
    for number in range(count):
        pairs = []
        for _ in range(6):
            src = " ".join(draw.choices(WORDS, k=draw.randint(1, 5)))
            date = draw.choice(["", "2024-01-01", "2025-01-01"])
            pairs.append(SentencePair(src, src.replace("s", draw.choice("tu")), date))
        documents.append(Document(f"doc{number}", tuple(pairs)))
    return documents


def build(path: Path, documents: list[Document], origin: str = "one") -> Path:
    with MemoryWriter.open(path, "de", "en", create=True) as writer:
        writer.add(documents, origin)
    return path


def test_an_index_answers_as_the_directory_does(server: str, tmp_path: Path) -> None:
    directory = build(tmp_path / "memory", make_documents(20))
    address = f"{server}/memory"
    entries = publish(directory, address)
    with TranslationMemory.open(directory) as local, TranslationMemory.open(address) as remote:
        assert len(remote) == len(local) == entries
        assert list(remote.entries()) == list(local.entries())
        assert remote.last_id == local.last_id
        assert remote.stats() == local.stats()
        remote.check_languages("de", "en")
        exact = [entry.src for entry in local.entries()][:20]
        assert remote.search_all(exact, 5) == local.search_all(exact, 5)
        for text, before in QUERIES:
            assert remote.search(text, 5, before) == local.search(text, 5, before)
        again = pickle.loads(pickle.dumps(remote))
        assert again.search("s1 s2") == local.search("s1 s2")
        again.close()


def test_exact_matches_are_found_whatever_the_candidates(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = build(tmp_path / "memory", make_documents(8))
    address = f"{server}/memory"
    publish(directory, address)
    monkeypatch.setattr("wholedoc.tm.memory.CANDIDATES", 1)
    with TranslationMemory.open(address) as remote:
        for entry in list(remote.entries()):
            assert entry in [match.entry for match in remote.search(entry.src)]


def test_what_covering_is_made_from_is_the_same(server: str, tmp_path: Path) -> None:
    """Which of equally telling entries comes first goes by the order of candidates, and may differ.

    All else about covering is computed by the same code from what is compared here.
    """
    directory = build(tmp_path / "memory", make_documents(8))
    address = f"{server}/memory"
    assert publish(directory, address) <= 64  # so that all entries are candidates
    with TranslationMemory.open(directory) as local, TranslationMemory.open(address) as remote:
        for text, before in QUERIES:
            tokens = split_tokens(text)
            candidates = local._store.candidates(text, tokens, 64)
            assert remote._store.candidates(text, tokens, 64) == candidates
            assert remote._store.worth(tokens) == local._store.worth(tokens)
            ids = sorted(candidates)
            assert remote._store.details(ids, before) == local._store.details(ids, before)
            assert len(remote.covering(text, 5, before)) == len(local.covering(text, 5, before))


def test_publishing_again_takes_away_what_is_gone(server: str, tmp_path: Path) -> None:
    directory, address = tmp_path / "memory", f"{server}/memory"
    build(directory, make_documents(3), "one")
    build(directory, make_documents(3, seed=5), "two")
    publish(directory, address)
    with MemoryWriter.open(directory) as writer:
        writer.remove(origin="one")
    publish(directory, address)
    with TranslationMemory.open(directory) as local, TranslationMemory.open(address) as remote:
        assert list(remote.entries()) == list(local.entries())
        assert remote.stats().origins == {"two": 18}


def test_a_memory_that_was_built_anew_takes_the_place_of_the_other(
    server: str, tmp_path: Path
) -> None:
    """Both were written by one commit, so they have the same version."""
    address = f"{server}/memory"
    for count in (3, 2):
        directory = build(tmp_path / f"memory{count}", make_documents(count))
        publish(directory, address)
    with TranslationMemory.open(directory) as local, TranslationMemory.open(address) as remote:
        assert list(remote.entries()) == list(local.entries())


def test_a_model_recalls_from_an_index(server: str, learned_toy: Path, tmp_path: Path) -> None:
    pair = SentencePair("s1 s2 s3", "what people wrote")
    directory = build(tmp_path / "memory", [Document("d", (pair,))])
    address = f"{server}/memory"
    done = CliRunner().invoke(app, ["tm", "publish", str(directory), address])
    assert done.exit_code == 0, done.exception
    (tmp_path / "in.txt").write_text("s1 s2 s3\ns4\n", encoding="utf-8")
    arguments = ["translate", str(learned_toy), str(tmp_path / "in.txt"), "--tm", address]
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.exception
    assert (tmp_path / "out").read_text("utf-8").splitlines()[0] == "what people wrote"
    found = CliRunner().invoke(app, ["tm", "search", address, "s1 s2 s3"])
    assert "100 %  s1 s2 s3" in found.output
    translator = Translator.load(learned_toy)
    assert translator.translate(["s1 s2 s3"], memories=[address]).known[0][0].score == 101


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("{server}/none", "no such translation memory"),
        ("opensearch://127.0.0.1:1/memory", "cannot be read or written"),
        ("{server}/", "is no address of an index"),
        ("opensearch://user:secret@127.0.0.1/memory", "an address has no login"),
    ],
)
def test_faults_are_named(server: str, address: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        TranslationMemory.open(address.format(server=server))
    assert "secret" not in str(caught.value)


def test_an_index_that_is_not_complete_is_refused(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, address = build(tmp_path / "memory", make_documents(2)), f"{server}/memory"

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wholedoc.tm.opensearch._send", dies)
    with pytest.raises(KeyboardInterrupt):
        publish(directory, address)
    with pytest.raises(UserError, match="is no complete translation memory"):
        TranslationMemory.open(address)
