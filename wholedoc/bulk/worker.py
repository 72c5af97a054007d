"""One worker: a model with its memories and its glossary, which translates tasks of documents."""

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

from wholedoc.app.documents import SentenceTranslator, WritingError, translate_all
from wholedoc.app.lines import KnownLines, translate_lines
from wholedoc.bulk.work import LINES, SENTENCES, Document, Outcome, Work
from wholedoc.corpus.readers import SourceText, read_source_lines
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.formats import format_named


class Worker:
    """A loaded model. Each document comes back with its translation, or with a reason."""

    def __init__(self, work: Work) -> None:
        self._translator = Translator.load(work.model, int8=work.int8, own_memory=work.own_memory)
        memories = self._translator.open_memories(work.memories)
        glossary = self._translator.open_glossary(work.glossary or None)
        self._search = work.search
        self._known = KnownLines(memories, glossary=glossary)
        self._sentences = SentenceTranslator(
            self._translator, work.search, memories, glossary=glossary
        )

    def translate(self, documents: Sequence[Document]) -> list[Outcome]:
        """Translate documents, each by itself, in common batches.

        One that cannot be read or written is set aside, and so is one on which the code fails. Any
        other UserError is not about a document, but about the model or a memory: it is raised.
        """
        outcomes: list[Outcome] = []
        read: list[tuple[Document, Any]] = []
        for document in documents:
            try:
                read.append((document, self._read(document)))
            except Exception as error:  # noqa: BLE001 (whatever is wrong with it, it is set aside)
                outcomes.append(_set_aside(document, error))
        try:
            return outcomes + self._translate(read)
        except Exception as error:  # noqa: BLE001 (which one is at fault shows when each is alone)
            _raise_if_general(error)
            return outcomes + [self._translate_alone(*each) for each in read]

    def _translate_alone(self, document: Document, read: Any) -> Outcome:
        try:
            (outcome,) = self._translate([(document, read)])
        except Exception as error:  # noqa: BLE001 (as above)
            _raise_if_general(error)
            return _set_aside(document, error)
        return outcome

    def _read(self, document: Document) -> Any:
        """What is translated of a document, by its form."""
        if document.form == SENTENCES:
            return json.loads(document.content)
        if document.form == LINES:
            return read_source_lines(io.BytesIO(document.content), name=document.where)
        data = self._translator.config.data
        chosen = format_named(document.form)
        return chosen(document.content, document.where, data.src_language, data.trg_language)

    def _translate(self, read: Sequence[tuple[Document, Any]]) -> list[Outcome]:
        lines = [each for each in read if each[0].form == LINES]
        texts = [each for each in read if each[0].form == SENTENCES]
        files = [each for each in read if each[0].form not in (LINES, SENTENCES)]
        found = [self._translate_lines(text) for _, text in lines]
        done = self._sentences.translate([(sentences, {}) for _, sentences in texts])
        found += [json.dumps(each.sentences).encode() for each in done]
        found += [each.data for each in translate_all(self._sentences, [file for _, file in files])]
        documents = [document for document, _ in (*lines, *texts, *files)]
        return [
            Outcome(document.shard, document.row, document.id, translation)
            for document, translation in zip(documents, found, strict=True)
        ]

    def _translate_lines(self, text: SourceText) -> bytes:
        output = io.StringIO()
        with contextlib.redirect_stderr(io.StringIO()):  # its progress is that of one file of many
            translate_lines(self._translator, text, output, self._search, known=self._known)
        return output.getvalue().encode("utf-8")


def _raise_if_general(error: Exception) -> None:
    """Raise what is wrong with the model or a memory, and not with a document."""
    if isinstance(error, UserError) and not isinstance(error, WritingError):
        raise error


def _set_aside(document: Document, error: Exception) -> Outcome:
    known = isinstance(error, UserError)
    reason = str(error) if known else f"{type(error).__name__}: {error}"
    return Outcome(document.shard, document.row, document.id, None, reason)
