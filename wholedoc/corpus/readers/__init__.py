"""Readers for every convention by which parallel corpora mark their documents."""

from wholedoc.corpus.readers.conventions import CONVENTIONS as CONVENTIONS
from wholedoc.corpus.readers.conventions import Convention as Convention
from wholedoc.corpus.readers.conventions import Corpus as Corpus
from wholedoc.corpus.readers.conventions import read_corpus as read_corpus
from wholedoc.corpus.readers.inputs import Inputs as Inputs
from wholedoc.corpus.readers.inputs import fingerprint as fingerprint
from wholedoc.corpus.readers.source import SourceDocument as SourceDocument
from wholedoc.corpus.readers.source import SourceSentence as SourceSentence
from wholedoc.corpus.readers.source import SourceText as SourceText
from wholedoc.corpus.readers.source import read_source_lines as read_source_lines
