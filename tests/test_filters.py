"""The filters: what each leaves out, and that everything left out is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholedoc.corpus.documents import (
    Document,
    FilterCounts,
    Filters,
    SentencePair,
    filter_documents,
)


def document(*pairs: tuple[str, str]) -> Document:
    return Document("d", tuple(SentencePair(*pair) for pair in pairs))


GOOD = ("a b", "c d")


def test_in_words() -> None:
    assert str(FilterCounts()) == "nothing"
    counts = FilterCounts(long_sentences=1200, short_documents=3)
    assert str(counts) == "1,200 long sentences, 3 short documents"


@pytest.mark.parametrize(
    ("pair", "filters", "counted"),
    [
        (("", "c"), Filters(), FilterCounts(missing_translations=1)),
        (("a", " \t"), Filters(), FilterCounts(missing_translations=1)),
        (("", ""), Filters(max_words=2, max_ratio=1), FilterCounts(missing_translations=1)),
        (("a b c", "c"), Filters(max_words=2), FilterCounts(long_sentences=1)),
        (("a", "c d e"), Filters(max_words=2), FilterCounts(long_sentences=1)),
        (("a b", "c d"), Filters(max_words=2), FilterCounts()),
        (("a b c", "d"), Filters(max_ratio=2.5), FilterCounts(uneven_lengths=1)),
        (("a", "b c d"), Filters(max_ratio=2.5), FilterCounts(uneven_lengths=1)),
        (("a b c", "d"), Filters(max_ratio=3), FilterCounts()),
        (("a b c d e f", "g"), Filters(), FilterCounts()),
    ],
)
def test_pair(pair: tuple[str, str], filters: Filters, counted: FilterCounts) -> None:
    counts = FilterCounts()
    kept = list(filter_documents([document(GOOD, pair, GOOD)], filters, counts))
    assert counts == counted
    expected = [GOOD, pair, GOOD] if counted == FilterCounts() else [GOOD, GOOD]
    assert kept == [document(*expected)]


@pytest.mark.parametrize(
    ("pairs", "min_sentences", "kept", "counted"),
    [
        ([GOOD, GOOD], 2, True, FilterCounts()),
        ([GOOD], 2, False, FilterCounts(short_documents=1)),
        ([GOOD, ("a", "")], 2, False, FilterCounts(missing_translations=1, short_documents=1)),
        ([("", "c")], 2, False, FilterCounts(missing_translations=1, emptied_documents=1)),
        ([("", "c")], 0, False, FilterCounts(missing_translations=1, emptied_documents=1)),
    ],
)
def test_document(
    pairs: list[tuple[str, str]], min_sentences: int, kept: bool, counted: FilterCounts
) -> None:
    counts = FilterCounts()
    documents = [document(*pairs)]
    filtered = list(filter_documents(documents, Filters(min_sentences=min_sentences), counts))
    assert filtered == (documents if kept else [])
    assert counts == counted


texts = st.lists(st.sampled_from("ab"), max_size=5).map(" ".join)


@given(
    st.lists(st.lists(st.tuples(texts, texts), min_size=1, max_size=5), max_size=5),
    st.builds(Filters, max_words=st.integers(0, 4), max_ratio=st.sampled_from([0.0, 1.0, 2.0])),
)
def test_everything_is_kept_or_counted(
    corpus: list[list[tuple[str, str]]], filters: Filters
) -> None:
    counts = FilterCounts()
    documents = [document(*pairs) for pairs in corpus]
    kept = list(filter_documents(documents, filters, counts))
    dropped = counts.missing_translations + counts.long_sentences + counts.uneven_lengths
    assert sum(map(len, kept)) + dropped == sum(map(len, documents))
    assert len(kept) + counts.emptied_documents == len(documents)
    again = FilterCounts()
    assert list(filter_documents(kept, filters, again)) == kept
    assert again == FilterCounts()
