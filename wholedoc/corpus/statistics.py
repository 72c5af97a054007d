"""The size of a corpus: the columns of the paper's Table 1."""

from collections import Counter
from dataclasses import dataclass

from wholedoc.corpus.documents import FilterCounts, Filters, filter_documents
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
    documents = sentences = 0
    src_words: Counter[str] = Counter()
    trg_words: Counter[str] = Counter()
    counts = FilterCounts()
    for document in filter_documents(corpus, filters or Filters(), counts):
        documents += 1
        sentences += len(document)
        for pair in document:
            src_words.update(pair.src.split())
            trg_words.update(pair.trg.split())
    return Statistics(
        documents=documents,
        sentences=sentences,
        sentences_per_document=sentences / documents if documents else 0.0,
        src_words=src_words.total(),
        trg_words=trg_words.total(),
        src_vocabulary=len(src_words),
        trg_vocabulary=len(trg_words),
        boundaries=corpus.boundaries,
        filtered=counts,
    )
