"""Batches keep their budget, name every sentence once, and give results back in order."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.corpus.batches import (
    DocumentBatches,
    SentenceBatches,
    in_order,
    length_batches,
    make_batch,
    pad,
    token_batches,
)
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.encoded import EncodedCorpus, encode_corpus
from wholedoc.corpus.vocabulary import BOS, EOS, PAD, WordVocabulary

WORDS = WordVocabulary([f"w{i}" for i in range(50)], "en")


def corpus_of(directory: Path, documents: Sequence[Sequence[tuple[int, int]]]) -> EncodedCorpus:
    """Encode documents given as the (source, target) lengths of their sentences."""

    def sentence(words: int) -> str:
        return " ".join(f"w{i % 50}" for i in range(words))

    return encode_corpus(
        [
            Document(str(d), tuple(SentencePair(sentence(i), sentence(j)) for i, j in lengths))
            for d, lengths in enumerate(documents)
        ],
        WORDS,
        WORDS,
        directory,
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> EncodedCorpus:
    generator = np.random.default_rng(0)
    documents = []
    for size in generator.integers(1, 40, 60):
        src = generator.gamma(3, 5, size)
        trg = np.maximum(0, src * generator.normal(1.1, 0.2, size))
        documents.append(list(zip(src.astype(int), trg.astype(int), strict=True)))
    return corpus_of(tmp_path_factory.mktemp("corpus"), documents)


def longest(corpus: EncodedCorpus, batch: Sequence[int]) -> int:
    return max(max(len(corpus.src(t)), len(corpus.trg(t))) for t in batch)


def test_batch_holds_the_sentences_and_their_padding(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [[(2, 1), (0, 3), (1, 0)]])
    batch = make_batch(corpus, [1, 0])
    w0, w1, w2 = WORDS.encode("w0 w1 w2")
    assert batch.sentences.tolist() == [1, 0]
    assert batch.src.tolist() == [[EOS, PAD, PAD], [w0, w1, EOS]]
    assert batch.src_lengths.tolist() == [1, 3]
    assert batch.trg_in.tolist() == [[BOS, w0, w1, w2], [BOS, w0, PAD, PAD]]
    assert batch.trg_out.tolist() == [[w0, w1, w2, EOS], [w0, EOS, PAD, PAD]]
    assert batch.trg_lengths.tolist() == [4, 2]
    assert batch.words == 6
    assert {t.dtype for t in (batch.src, batch.trg_in, batch.trg_lengths)} == {torch.long}


def test_batch_moves_whole_and_keeps_its_values(corpus: EncodedCorpus) -> None:
    batch = make_batch(corpus, [3, 5])
    moved = batch.to("meta")
    tensors = (moved.sentences, moved.src, moved.src_lengths)
    tensors += (moved.trg_in, moved.trg_out, moved.trg_lengths)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.words == batch.words
    assert torch.equal(batch.to("cpu").src, batch.src)


@given(st.lists(st.lists(st.integers(4, 60), max_size=9), max_size=9))
@settings(deadline=None)
def test_padding_adds_only_padding(sentences: list[list[int]]) -> None:
    padded, lengths = pad(sentences)
    assert lengths.tolist() == [len(sentence) for sentence in sentences]
    assert padded.shape == (len(sentences), max(map(len, sentences), default=0))
    for row, sentence in zip(padded.tolist(), sentences, strict=True):
        assert row == sentence + [PAD] * (len(row) - len(sentence))


@given(tokens=st.integers(1, 3000), seed=st.integers(0, 2**32), epoch=st.integers(0, 100))
@settings(deadline=None)
def test_each_sentence_once_within_the_budget(
    corpus: EncodedCorpus, tokens: int, seed: int, epoch: int
) -> None:
    batches = SentenceBatches(corpus, tokens, seed).epoch(epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(corpus)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * longest(corpus, batch) <= tokens


@pytest.mark.parametrize("kind", [SentenceBatches, DocumentBatches])
def test_epochs_depend_on_seed_and_number_only(
    corpus: EncodedCorpus, kind: type[SentenceBatches] | type[DocumentBatches]
) -> None:
    def shown(seed: int, epoch: int) -> list[list[object]]:
        return [list(batch) for batch in kind(corpus, 300, seed).epoch(epoch)]

    batches = kind(corpus, 300, 7)
    batches.epoch(5)
    assert [list(batch) for batch in batches.epoch(2)] == shown(7, 2)
    assert shown(7, 2) != shown(7, 3)
    assert shown(7, 2) != shown(8, 2)


def test_batches_mix_anew_in_each_epoch(corpus: EncodedCorpus) -> None:
    batches = SentenceBatches(corpus, 500, 0)
    first, second = ({frozenset(batch.tolist()) for batch in batches.epoch(n)} for n in (0, 1))
    assert len(first & second) < len(first) / 2


def padding_share(corpus: EncodedCorpus, batches: Iterable[Any]) -> float:
    """The share of padding among all cells of the batches, both sides together."""
    sides = (corpus.src_lengths, corpus.trg_lengths)
    found = [lengths[batch] for batch in batches for lengths in sides]
    cells = sum(len(lengths) * int(lengths.max()) for lengths in found)
    return 1 - sum(int(lengths.sum()) for lengths in found) / cells


def test_like_lengths_leave_little_padding(corpus: EncodedCorpus) -> None:
    sorted_batches = SentenceBatches(corpus, 300, 0).epoch(0)
    rows = len(corpus) // len(sorted_batches)
    unsorted = [range(t, min(t + rows, len(corpus))) for t in range(0, len(corpus), rows)]
    assert padding_share(corpus, sorted_batches) < 0.1 < padding_share(corpus, unsorted)


def test_the_longest_translation_comes_first(corpus: EncodedCorpus) -> None:
    for batch in SentenceBatches(corpus, 500, 0).epoch(0):
        assert (np.diff(corpus.trg_lengths[batch]) <= 0).all()


def test_batches_are_well_filled(corpus: EncodedCorpus) -> None:
    needed = np.maximum(corpus.src_lengths, corpus.trg_lengths).sum() / 500
    assert len(SentenceBatches(corpus, 500, 0).epoch(0)) < 1.25 * needed


@given(tokens=st.integers(0, 5000), epoch=st.integers(0, 100))
@settings(deadline=None)
def test_documents_stay_whole_within_the_budget(
    corpus: EncodedCorpus, tokens: int, epoch: int
) -> None:
    groups = DocumentBatches(corpus, tokens, 1).epoch(epoch)
    whole = [corpus.document_sentences(d) for d in range(corpus.documents)]
    assert sorted((d for group in groups for d in group), key=lambda d: d.start) == whole
    for group in groups:
        size = sum(max(len(corpus.src(t)), len(corpus.trg(t))) for d in group for t in d)
        assert len(group) == 1 or size <= tokens


def test_groups_of_documents_are_full(tmp_path: Path) -> None:
    sizes = [1 + (7 * d) % 40 for d in range(400)]
    corpus = corpus_of(tmp_path, [[(size, size)] for size in sizes])
    longer = np.maximum(corpus.src_lengths, corpus.trg_lengths)
    groups = DocumentBatches(corpus, 100, 1).epoch(1)
    assert longer.sum() > 0.95 * 100 * len(groups)


def test_documents_without_sentences_are_in_no_group(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, [[], [(1, 1)], [], [(2, 2)]])
    assert sorted(DocumentBatches(corpus, 0, 0).epoch(0), key=str) == [(range(1),), (range(1, 2),)]


@given(lengths=st.lists(st.integers(0, 200), max_size=60), tokens=st.integers(1, 500))
@settings(deadline=None)
def test_results_come_back_in_input_order(lengths: list[int], tokens: int) -> None:
    items = [(number, length) for number, length in enumerate(lengths)]
    seen: list[int] = []

    def run(batch: list[tuple[int, int]]) -> list[int]:
        sizes = [length for _, length in batch]
        assert len(batch) == 1 or len(batch) * max(sizes) <= tokens
        seen.extend(sizes)
        return [-number for number, _ in batch]

    assert in_order(items, length_batches(lengths, tokens), run) == [-n for n, _ in items]
    assert seen == sorted(lengths, reverse=True)


def test_a_run_that_loses_a_result_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        in_order("ab", [[0, 1]], lambda batch: batch[1:])


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=40), st.integers(1, 200)
)
def test_token_batches_fill_up_without_counting_padding(
    lengths: list[tuple[int, int]], tokens: int
) -> None:
    src, trg = np.array(lengths, dtype=np.int32).reshape(-1, 2).T
    longer = np.maximum(src, trg)
    batches = token_batches(src, trg, tokens)
    sizes = [sorted(longer[batch].tolist(), reverse=True) for batch in batches]
    assert sorted(t for batch in batches for t in batch.tolist()) == list(range(len(lengths)))
    assert [size for batch in sizes for size in batch] == sorted(longer.tolist(), reverse=True)
    assert all(len(batch) == 1 or sum(batch) <= tokens for batch in sizes)
    assert all(sum(batch) + following[0] > tokens for batch, following in pairwise(sizes))
    assert all((np.diff(trg[batch]) <= 0).all() for batch in batches)
