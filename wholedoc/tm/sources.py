"""What a memory is made from: parallel files of every convention, TMX first."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wholedoc.config import CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import Corpus, read_corpus, tmx
from wholedoc.errors import UserError


@dataclass(frozen=True)
class MemorySource:
    """Parallel files that are to be added to a memory."""

    corpus: Corpus
    src_language: str
    trg_language: str
    """As the file or the user names them; empty where nobody does."""

    @property
    def name(self) -> str:
        """The name of the file, which is the origin of its entries unless another is given."""
        return self.corpus.inputs.src.name

    @property
    def path(self) -> Path:
        """The source side, or the file of both sides."""
        return self.corpus.inputs.src

    def __iter__(self) -> Iterator[Document]:
        """Documents; those of a TMX in pieces, as units may stand in any order there."""
        if not tmx.is_tmx(self.corpus.inputs):
            yield from self.corpus
            return
        try:
            yield from tmx.read_pieces(self.corpus.inputs)
        except UserError as error:
            raise error.with_traceback(None)  # noqa: B904 (see Corpus)


def open_source(files: CorpusFiles, src_language: str = "", trg_language: str = "") -> MemorySource:
    """Find out how files are to be read, and in which languages they are."""
    corpus = read_corpus(files, src_language, trg_language)
    if tmx.is_tmx(corpus.inputs):
        src_language, trg_language = tmx.find_sides(corpus.inputs)
    return MemorySource(corpus, src_language, trg_language)
