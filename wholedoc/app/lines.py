"""Line-based translation: as many lines out as in, in order, written as they are ready."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from wholedoc.config import SearchConfig
from wholedoc.corpus.readers import SourceDocument, SourceText
from wholedoc.decoding.translator import TranslatedDocument, Translation, Translator
from wholedoc.errors import UserError
from wholedoc.progress import ProgressBar, say

_SENTENCES_AT_ONCE = 1000


def translate_lines(
    translator: Translator,
    source: SourceText,
    output: TextIO,
    config: SearchConfig,
    nbest: int = 1,
    keep: Callable[[SourceDocument, TranslatedDocument], None] | None = None,
) -> None:
    """Write one line per line read; lines that mark a boundary are copied.

    With ``nbest`` above 1 each line becomes that many, ``index ||| text ||| log P ||| score``.
    What is translated is written at once, so an interruption loses little: at most a thousand
    sentences, or one document for a model that reads documents whole. ``keep`` is given every
    document, whole, with its translations.
    """
    written = 0
    in_pieces: list[int] = []
    rounds = 1 + config.passes if translator.reads_documents else 1
    with ProgressBar("translating", max(rounds * len(source.lines), 1)) as bar:
        groups = _groups(source.documents, translator.reads_documents or keep is not None)
        for group in [source.documents] if config.shuffle_memory else groups:
            texts = [[sentence.text for sentence in document.sentences] for document in group]
            translated = translator.translate_documents(
                texts, config, nbest, bar.advance, measure=keep is not None
            )
            lines = {
                sentence.index: _format(sentence.index, candidates, nbest)
                for document, result in zip(group, translated, strict=True)
                for sentence, candidates in zip(document.sentences, result.candidates, strict=True)
            }
            if keep is not None:
                for document, result in zip(group, translated, strict=True):
                    keep(document, result)
            in_pieces += [
                sentence.index + 1
                for document, result in zip(group, translated, strict=True)
                for sentence, pieces in zip(document.sentences, result.pieces, strict=True)
                if pieces > 1
            ]
            end = max(lines) + 1
            write_lines(output, (lines.get(i, source.lines[i]) for i in range(written, end)))
            written = end
        write_lines(output, source.lines[written:])
    if in_pieces:
        some = ", ".join(map(str, in_pieces[:5])) + (" …" if len(in_pieces) > 5 else "")
        say(
            f"translated in pieces of at most {config.piece_tokens} tokens, as too long for one "
            f"sentence: {len(in_pieces):,} of {len(source.lines):,} lines (line {some})"
        )


@contextmanager
def open_output(output: Path | None, source: str, several: bool) -> Iterator[TextIO]:
    """Standard output, the file ``output``, or the file named like ``source`` in that folder."""
    if output is None:
        yield sys.stdout
        return
    path = output / Path(source).name if several else output
    if source != "-" and path.exists() and path.samefile(source):
        raise UserError(
            "would overwrite its own input", where=str(path), fix="choose another place with -o"
        )
    try:
        if several:
            output.mkdir(parents=True, exist_ok=True)
        stream = path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror}", where=str(path), fix="choose another place with -o"
        ) from error
    try:
        yield stream
    finally:
        with suppress(OSError):  # every write is flushed at once, so its failure is known by now
            stream.close()


def check_output(output: Path | None, inputs: Sequence[str], option: str = "-o") -> None:
    """Find out before long work that its result can have no place, or would take an input's."""
    if output is None:
        return
    fix = f"choose another place with {option}"
    if not output.parent.is_dir() or output.is_dir():
        what = "is a folder" if output.is_dir() else "there is no such folder to write into"
        raise UserError(what, where=str(output), fix=fix)
    for file in inputs:
        if file and Path(file).exists() and output.exists() and output.samefile(file):
            raise UserError("would overwrite an input", where=str(output), fix=fix)


def _groups(documents: Sequence[SourceDocument], whole: bool) -> Iterator[list[SourceDocument]]:
    """Documents, as many as make good batches; in pieces unless they are read as a whole."""
    group: list[SourceDocument] = []
    size = 0
    for document in documents if whole else _pieces(documents):
        group.append(document)
        size += len(document.sentences)
        if size >= _SENTENCES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def _pieces(documents: Sequence[SourceDocument]) -> Iterator[SourceDocument]:
    """Parts of documents, none larger than a group."""
    for document in documents:
        for start in range(0, len(document.sentences), _SENTENCES_AT_ONCE):
            part = document.sentences[start : start + _SENTENCES_AT_ONCE]
            yield SourceDocument(document.name, part)


def _format(index: int, candidates: list[Translation], nbest: int) -> str:
    if nbest == 1:
        return candidates[0].text
    return "\n".join(
        f"{index} ||| {found.text} ||| {found.log_probability:.4f} ||| {found.score:.4f}"
        for found in candidates
    )


def write_lines(output: TextIO, lines: Iterable[str]) -> None:
    """Write lines at once; a failure names the file."""
    try:
        output.writelines(f"{line}\n" for line in lines)
        output.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror}",
            where="standard output" if output is sys.stdout else output.name,
            fix="make room or choose another file with -o",
        ) from error
