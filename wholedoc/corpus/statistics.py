"""The size of a corpus: the columns of the paper's Table 1."""

from dataclasses import dataclass

from wholedoc.corpus.filters import FilterCounts, Filters, filter_documents
from wholedoc.corpus.readers import Corpus


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a corpus holds after filtering, and what was filtered out.

    Words are what white space separates in the raw text, and the vocabulary is the number of
    different words, cased; the paper counts after tokenising and lower-casing.
    """

    documents: int
    sentences: int
    sentences_per_document: float
    src_words: int
    trg_words: int
    src_vocabulary: int
    trg_vocabulary: int
    boundaries: str
    filtered: FilterCounts


def measure_corpus(corpus: Corpus, filters: Filters | None = None) -> Statistics:
    """Counts documents, sentences, words and different words in one pass over a corpus."""
    documents = sentences = src_words = trg_words = 0
    src_vocabulary: set[str] = set()
    trg_vocabulary: set[str] = set()
    counts = FilterCounts()
    for document in filter_documents(corpus, filters or Filters(), counts):
        documents += 1
        sentences += len(document)
        for pair in document:
            src, trg = pair.src.split(), pair.trg.split()
            src_words += len(src)
            trg_words += len(trg)
            src_vocabulary.update(src)
            trg_vocabulary.update(trg)
    return Statistics(
        documents=documents,
        sentences=sentences,
        sentences_per_document=sentences / documents if documents else 0.0,
        src_words=src_words,
        trg_words=trg_words,
        src_vocabulary=len(src_vocabulary),
        trg_vocabulary=len(trg_vocabulary),
        boundaries=corpus.boundaries,
        filtered=counts,
    )
