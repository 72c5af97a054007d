"""Readers for every convention by which parallel corpora mark their documents."""

from wholedoc.corpus.readers.conventions import CONVENTIONS, Convention, Corpus, read_corpus
from wholedoc.corpus.readers.inputs import Inputs, fingerprint
from wholedoc.corpus.readers.source import (
    SourceDocument,
    SourceSentence,
    SourceText,
    read_source_lines,
)

__all__ = [
    "CONVENTIONS",
    "Convention",
    "Corpus",
    "Inputs",
    "SourceDocument",
    "SourceSentence",
    "SourceText",
    "fingerprint",
    "read_corpus",
    "read_source_lines",
]
