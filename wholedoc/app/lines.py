"""Line-based translation: as many lines out as in, in order, written as they are ready."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from wholedoc.app.terms import TermReport
from wholedoc.config import SearchConfig
from wholedoc.corpus.documents import GROUP_SENTENCES, group_documents
from wholedoc.corpus.readers import SourceDocument, SourceText
from wholedoc.corpus.readers.inputs import Beginning
from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError
from wholedoc.files import name_file
from wholedoc.progress import ProgressBar, say

if TYPE_CHECKING:  # outputs are checked before torch is loaded
    from wholedoc.corpus.glossary import Glossary
    from wholedoc.decoding.results import TranslatedDocument, Translation
    from wholedoc.decoding.translator import Knowledge, Translator
    from wholedoc.tm.memory import TranslationMemory


def translate_lines(
    translator: "Translator",
    source: SourceText,
    output: TextIO,
    config: SearchConfig,
    nbest: int = 1,
    keep: "Callable[[SourceDocument, TranslatedDocument], None] | None" = None,
    known: "KnownLines | None" = None,
) -> None:
    """Write one line per line read; lines that mark a boundary are copied.

    With ``nbest`` above 1 each line becomes that many, ``index ||| text ||| log P ||| score``, as
    the model has them. Else what is not text, such as ``{name}`` and addresses, passes through.
    What is translated is written at once, so an interruption loses little: at most a thousand
    sentences, or one document for a model that reads documents whole. ``keep`` is given every
    document, whole, with its translations. ``known`` is what people have translated.
    """
    known = known or KnownLines()
    written = 0
    terms = TermReport("line")
    in_pieces: list[int] = []
    rounds = 1 + config.passes if translator.reads_documents else 1
    with ProgressBar("translating", max(rounds * len(source.lines), 1)) as bar:
        whole = translator.reads_documents or keep is not None or bool(known.approved)
        documents = source.documents if whole else _pieces(source.documents)
        groups = group_documents(documents, lambda document: len(document.sentences))
        for group in [source.documents] if config.shuffle_memory else groups:
            texts = [[text for _, text in document.sentences] for document in group]
            translated = translator.translate_documents(
                texts,
                config,
                nbest,
                bar.advance,
                measure=keep is not None,
                known=known.of(group, protect=nbest == 1),
                explain=keep is not None,
            )
            lines = {}
            for document, result in zip(group, translated, strict=True):
                if keep is not None:
                    keep(document, result)
                terms.add([index + 1 for index, _ in document.sentences], result)
                found = zip(document.sentences, result.candidates, result.pieces, strict=True)
                for (index, _), candidates, pieces in found:
                    lines[index] = _format(index, candidates, nbest)
                    if pieces > 1:
                        in_pieces.append(index + 1)
            end = max(lines) + 1
            write_lines(output, (lines.get(i, source.lines[i]) for i in range(written, end)))
            written = end
        write_lines(output, source.lines[written:])
    if known.glossary is not None:
        say(str(terms))
    if in_pieces:
        some = ", ".join(map(str, in_pieces[:5])) + (" …" if len(in_pieces) > 5 else "")
        say(
            f"translated in pieces of at most {config.piece_tokens} tokens, as too long for one "
            f"sentence: {len(in_pieces):,} of {len(source.lines):,} lines (line {some})"
        )


@dataclass(frozen=True)
class KnownLines:
    """What people have translated, beside an input of lines."""

    memories: "tuple[TranslationMemory, ...]" = ()
    approved: Sequence[str] = ()
    """A line for each line of the input, empty where nothing is approved; or none at all."""
    glossary: "Glossary | None" = None
    """Terms that translations must have."""

    def of(self, documents: Sequence[SourceDocument], *, protect: bool) -> "Knowledge":
        """What is known for some documents of the input."""
        from wholedoc.decoding.translator import Knowledge

        approved: list[dict[int, str]] = []
        for document in documents if self.approved else ():
            lines = [self.approved[index] for index, _ in document.sentences]
            approved.append({t: line for t, line in enumerate(lines) if line.strip()})
        befores = [document.before for document in documents]
        return Knowledge(
            approved, self.memories, befores=befores, glossary=self.glossary, protect=protect
        )


def refuse_markup(lines: Sequence[str], where: str) -> None:
    """Refuse what is markup and not text in lines; lines that mark documents are none."""
    beginning = Beginning("\n".join(lines[:100]))
    if beginning.is_markup:
        fix = "give a document in a format of --format, or add --format lines"
        if beginning.root == "tmx":
            fix = f"make a translation memory of it: wholedoc tm build MEMORY {where}"
        raise UserError(f"is a {beginning.root or 'markup'} file, not text", where=where, fix=fix)


def read_approved(path: str, source: SourceText) -> list[str]:
    """Approved translations, line by line with an input."""
    lines = list(read_lines(Path(path)))
    if len(lines) != len(source.lines):
        raise UserError(
            f"has {len(lines):,} lines, but the input has {len(source.lines):,}",
            where=path,
            fix="give a line for each line of the input, empty where nothing is approved",
        )
    return lines


@contextmanager
def open_output(path: Path | None) -> Iterator[TextIO]:
    """A stream into the file ``path``, or standard output without one.

    The file gets its name when all is written. Until then it is ``NAME.part``, which is kept
    where the work ends early, and whatever had the name before is untouched.
    """
    if path is None:
        yield sys.stdout
        return
    fix = "choose another place with -o"
    if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
        with name_file(path, fix), path.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    path = path.resolve()  # a link stays one
    partial = path.with_name(f"{path.name}.part")
    with name_file(path, fix):
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = partial.open("w", encoding="utf-8", newline="\n")
    try:
        try:
            yield stream
        finally:
            with name_file(path, fix), stream:
                os.fsync(stream.fileno())
    except BaseException:
        if partial.stat().st_size:
            say(f"{partial}: kept what was finished; {path.name} is as it was")
        else:
            partial.unlink()
        raise
    with name_file(path, fix):
        if path.exists():
            shutil.copymode(path, partial)
        partial.replace(path)


def check_output(path: Path | None, inputs: Sequence[str], option: str = "-o") -> None:
    """Find out before long work that its result cannot be written, or would replace an input."""
    if path is None:
        return
    fix = f"choose another place with {option}"
    if path.is_dir():
        raise UserError("is a folder", where=str(path), fix=fix)
    written = [each for each in (path, path.with_name(f"{path.name}.part")) if each.exists()]
    for file in inputs:
        if file and Path(file).exists() and any(each.samefile(file) for each in written):
            raise UserError("would overwrite an input", where=str(path), fix=fix)
    if path.exists() and not path.is_file():
        return
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    with name_file(path, fix), tempfile.TemporaryFile(dir=folder):
        pass  # the permission, a writable disk and room for an entry: only trying tells


def _pieces(documents: Sequence[SourceDocument]) -> Iterator[SourceDocument]:
    """Parts of documents, none larger than a group."""
    for document in documents:
        for start in range(0, len(document.sentences), GROUP_SENTENCES):
            part = document.sentences[start : start + GROUP_SENTENCES]
            earlier = (text for _, text in reversed(document.sentences[:start]) if text.strip())
            yield SourceDocument(document.name, part, next(earlier, ""))


def _format(index: int, candidates: "list[Translation]", nbest: int) -> str:
    if nbest == 1:
        return candidates[0].text
    return "\n".join(
        f"{index} ||| {found.text} ||| {found.log_probability:.4f} ||| {found.score:.4f}"
        for found in candidates
    )


def write_lines(output: TextIO, lines: Iterable[str]) -> None:
    """Write lines at once; a failure names the file."""
    place = "standard output" if output is sys.stdout else getattr(output, "name", "output")
    with name_file(place, "make room or choose another file with -o"):
        output.writelines(f"{line}\n" for line in lines)
        output.flush()
