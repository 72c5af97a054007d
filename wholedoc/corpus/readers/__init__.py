"""Readers for every convention by which parallel corpora mark their documents, in one table."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from wholedoc.config import CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import line_aligned, markup, rows, tmx
from wholedoc.corpus.readers.inputs import Inputs as Inputs
from wholedoc.corpus.readers.inputs import fingerprint as fingerprint
from wholedoc.corpus.readers.source import SourceDocument as SourceDocument
from wholedoc.corpus.readers.source import SourceText as SourceText
from wholedoc.corpus.readers.source import read_source_lines as read_source_lines
from wholedoc.errors import UserError


@dataclass(frozen=True)
class Convention:
    """One way to mark document boundaries: how it is recognised and how it is read."""

    name: str
    fits: Callable[[Inputs], bool]
    read: Callable[[Inputs], Iterator[Document]]


# The first that fits is used. Folders go first: the others look into files. Boundaries that are
# given as a file win over those inside the text.
CONVENTIONS = (
    Convention("europarl", line_aligned.has_debates, line_aligned.read_europarl),
    Convention("folders", line_aligned.has_folders, line_aligned.read_folders),
    Convention("start-lines", line_aligned.has_start_lines, line_aligned.read_start_lines),
    Convention("document-ids", line_aligned.has_document_ids, line_aligned.read_document_ids),
    Convention("tmx", tmx.names_documents, tmx.read_tmx),
    Convention("none", tmx.is_tmx, tmx.read_tmx),
    Convention("sgml", markup.is_evaluation_set, markup.read_evaluation_set),
    Convention("ted", line_aligned.is_ted, line_aligned.read_ted),
    Convention("europarl", line_aligned.is_europarl, line_aligned.read_europarl),
    Convention("jsonl", rows.begins_with(r"\{"), rows.read_jsonl),
    Convention("triple-bar", rows.begins_with(r".*\|\|\|"), rows.read_triple_bars),
    Convention("tsv", rows.begins_with(r".*\t"), rows.read_tsv),
    Convention("marker-lines", line_aligned.has_marker_lines, line_aligned.read_marker_lines),
    Convention("empty-lines", line_aligned.has_empty_lines, line_aligned.read_empty_lines),
    Convention("none", line_aligned.is_line_aligned, line_aligned.read_whole),
)


@dataclass(frozen=True)
class Corpus:
    """A parallel corpus on disk: a stream of documents that can be read again and again.

    No more than one document is held in memory.
    """

    convention: Convention
    inputs: Inputs

    @property
    def boundaries(self) -> str:
        """The name of the convention by which the documents are marked."""
        return self.convention.name

    def __iter__(self) -> Iterator[Document]:
        found = False
        try:
            for document in self.convention.read(self.inputs):
                found = True
                yield document
        except UserError as error:
            # The message names file and line. A traceback would keep the readers' frames, and
            # with them their files, open for as long as somebody keeps the error.
            raise error.with_traceback(None)  # noqa: B904 (its cause is set)
        if not found:
            raise UserError(
                "no sentences found", where=str(self.inputs.src), fix="give files with text"
            )


def read_corpus(files: CorpusFiles, src_language: str = "", trg_language: str = "") -> Corpus:
    """Finds out how a corpus marks its documents and returns it, ready to be read.

    The languages are needed only where a file holds more than two, or the wrong one first.
    """
    inputs = Inputs.check(files, src_language, trg_language)
    for convention in CONVENTIONS:
        if convention.fits(inputs):
            return Corpus(convention, inputs)
    raise _unknown_convention(inputs, same_file_twice=inputs.one_file and bool(files.trg))


def _unknown_convention(inputs: Inputs, *, same_file_twice: bool) -> UserError:
    where = str(inputs.src)
    if same_file_twice:
        return UserError("the same file is given for both sides", where=where, fix="give two files")
    src, trg = inputs.beginnings
    if not inputs.one_file and (src.is_rows or "tmx" in (src.root, trg.root)):
        return UserError("a file of this kind holds both sides", where=where, fix="give it alone")
    if src.root != trg.root:
        kinds = [f"<{root}>" if root else "plain lines" for root in (src.root, trg.root)]
        what = f"begins with {kinds[0]} but {inputs.trg} with {kinds[1]}"
        return UserError(what, where=f"{where}:1", fix="give both sides in the same format")
    if src.is_markup:
        what = f"markup that no reader knows (<{src.root or '?'}>)"
        fix = "convert it to plain lines, TMX, WMT SGML or XML, or JSON lines"
        return UserError(what, where=f"{where}:1", fix=fix)
    what = "only one side is given, and this file does not hold two"
    return UserError(what, where=where, fix="give the target side too")
