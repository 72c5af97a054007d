"""The statistics of a corpus, counted by hand."""

import dataclasses
from pathlib import Path

import pytest

from wholedoc.config import CorpusFiles
from wholedoc.corpus.documents import FilterCounts, Filters
from wholedoc.corpus.readers import Corpus, read_corpus
from wholedoc.corpus.statistics import measure_corpus

SRC = "Der Hund bellt .\nDer Hund der Nachbarn .\n\nEin Satz\n"
TRG = "The dog barks .\nThe neighbours' dog .\nNo source\nA single  sentence\n"
DOC = "dog\ndog\ndog\nsingle\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    for name, text in {"src": SRC, "trg": TRG, "doc": DOC}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return read_corpus(CorpusFiles(*(str(tmp_path / name) for name in ("src", "trg", "doc"))))


NOTHING = {
    "missing_translations": 0,
    "long_sentences": 0,
    "uneven_lengths": 0,
    "emptied_documents": 0,
    "short_documents": 0,
}


def test_counts_by_hand(corpus: Corpus) -> None:
    assert dataclasses.asdict(measure_corpus(corpus)) == {
        "documents": 2,
        "sentences": 3,
        "sentences_per_document": 1.5,
        "src_words": 11,
        "trg_words": 11,
        "src_vocabulary": 8,
        "trg_vocabulary": 8,
        "boundaries": "document-ids",
        "filtered": NOTHING | {"missing_translations": 1},
    }


@pytest.mark.parametrize(
    ("filters", "sentences", "filtered"),
    [
        (Filters(min_sentences=2), 2, {"short_documents": 1}),
        (Filters(max_words=4), 2, {"long_sentences": 1}),
        (Filters(min_sentences=3), 0, {"short_documents": 2}),
    ],
)
def test_filtered_corpus(
    filters: Filters, sentences: int, filtered: dict[str, int], corpus: Corpus
) -> None:
    statistics = measure_corpus(corpus, filters)
    assert statistics.sentences == sentences
    assert statistics.filtered == FilterCounts(missing_translations=1, **filtered)
    if sentences == 0:
        assert statistics.sentences_per_document == 0
