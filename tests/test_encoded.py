"""The corpus on disk equals the corpus in memory, and an unfinished one is noticed."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wholedoc.corpus.batches import make_batch
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.vocabulary import EOS, WordVocabulary
from wholedoc.errors import UserError

SRC = WordVocabulary(["esimene", "teine", "lause", "."], "et")
TRG = WordVocabulary(["the", "first", "second", "sentence", "."], "en")
DOCUMENTS = [
    Document("a", (SentencePair("Esimene lause.", "The first sentence."), SentencePair("", ""))),
    Document("b\n„b“", (SentencePair("Tundmatu", "Unknown words"),)),
]


def sentences() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(["Esimene", "first", "lause", "."]), max_size=8).map(" ".join)


@given(
    st.lists(
        st.builds(
            Document,
            name=st.text(st.characters(exclude_categories=["Cs"])),
            pairs=st.lists(st.builds(SentencePair, sentences(), sentences())).map(tuple),
        ),
        min_size=1,
    ).filter(lambda documents: any(document.pairs for document in documents))
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_encoded_equals_plain(tmp_path: Path, documents: list[Document]) -> None:
    encode_corpus(documents, SRC, TRG, tmp_path)
    corpus = EncodedCorpus.open(tmp_path)
    assert corpus is not None
    assert corpus.documents == len(documents)
    pairs = [pair for document in documents for pair in document]
    assert len(corpus) == len(pairs)
    for t, pair in enumerate(pairs):
        assert corpus.src(t).tolist() == [*SRC.encode(pair.src), EOS]
        assert corpus.trg(t).tolist() == [*TRG.encode(pair.trg), EOS]
        assert corpus.src_lengths[t] == len(corpus.src(t))
        assert corpus.trg_lengths[t] == len(corpus.trg(t))
    for d, document in enumerate(documents):
        assert [pairs[t] for t in corpus.document_sentences(d)] == list(document)


def test_lengths_are_small_integers(tmp_path: Path) -> None:
    corpus = encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    assert corpus.src_lengths.tolist() == [4, 1, 2]
    assert corpus.src_lengths.dtype == corpus.trg_lengths.dtype == np.int32


def test_ids_are_two_bytes_or_four_as_the_vocabulary_needs(tmp_path: Path) -> None:
    fits = WordVocabulary([f"w{i}" for i in range(2**16 - 4)], "en")
    large = WordVocabulary([f"w{i}" for i in range(2**16 - 3)], "en")
    documents = [Document("d", (SentencePair("w65531", "w65532"),))]
    corpus = encode_corpus(documents, fits, large, tmp_path)
    assert corpus.src(0).dtype == np.uint16
    assert corpus.trg(0).dtype == np.uint32
    assert corpus.src(0).tolist() == [2**16 - 1, EOS]
    assert corpus.trg(0).tolist() == [2**16, EOS]


def test_ids_stay_on_disk(tmp_path: Path) -> None:
    corpus = encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    for sentence in (corpus.src(0), corpus.trg(0)):
        assert isinstance(sentence, np.memmap)
        assert not sentence.flags.writeable
        assert not sentence.flags.owndata
    assert make_batch(corpus, [0]).src.tolist() == [corpus.src(0).tolist()]


def test_indices_out_of_range_are_refused(tmp_path: Path) -> None:
    corpus = encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    for t in (-1, 3):
        with pytest.raises(IndexError):
            corpus.src(t)
        with pytest.raises(IndexError):
            corpus.trg(t)
    for d in (-1, 2):
        with pytest.raises(IndexError):
            corpus.document_sentences(d)


def test_a_fingerprint_has_to_be_the_same_if_one_is_asked_for(tmp_path: Path) -> None:
    encode_corpus(DOCUMENTS, SRC, TRG, tmp_path, fingerprint="train 1")
    assert EncodedCorpus.open(tmp_path, "train 2") is None
    assert EncodedCorpus.open(tmp_path, "") is None
    assert EncodedCorpus.open(tmp_path, "train 1") is not None
    assert EncodedCorpus.open(tmp_path) is not None


def test_a_crash_half_way_leaves_nothing_to_open_and_can_be_repeated(tmp_path: Path) -> None:
    def crashing() -> Iterator[Document]:
        yield DOCUMENTS[0]
        raise KeyboardInterrupt

    encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        encode_corpus(crashing(), SRC, TRG, tmp_path)
    assert EncodedCorpus.open(tmp_path) is None
    encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    reopened = EncodedCorpus.open(tmp_path)
    assert reopened is not None
    assert len(reopened) == 3


@pytest.mark.parametrize(
    "name",
    ["src.ids", "src.offsets", "trg.ids", "trg.offsets", "documents.starts"],
)
def test_a_truncated_or_missing_file_is_noticed(tmp_path: Path, name: str) -> None:
    encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-1])
    assert EncodedCorpus.open(tmp_path) is None
    file.unlink()
    assert EncodedCorpus.open(tmp_path) is None


@pytest.mark.parametrize("meta", ["", "{", "[]", json.dumps({"version": 1})])
def test_a_damaged_meta_file_is_noticed(tmp_path: Path, meta: str) -> None:
    encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    (tmp_path / "meta.json").write_text(meta)
    assert EncodedCorpus.open(tmp_path) is None


def test_a_full_disk_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"/meta\.json: cannot write: No space left on device"):
        encode_corpus(DOCUMENTS, SRC, TRG, tmp_path)
    assert EncodedCorpus.open(tmp_path) is None


def test_nothing_there_opens_as_none(tmp_path: Path) -> None:
    assert EncodedCorpus.open(tmp_path / "nowhere") is None


@pytest.mark.parametrize("documents", [[], [Document("empty", ())]])
def test_a_corpus_without_sentences_is_refused(tmp_path: Path, documents: list[Document]) -> None:
    with pytest.raises(UserError, match="no sentences"):
        encode_corpus(documents, SRC, TRG, tmp_path)
    assert EncodedCorpus.open(tmp_path) is None
