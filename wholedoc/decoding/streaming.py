"""A document translated step by step, for people who watch: sentence by sentence, pass by pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wholedoc.decoding.answering import Answerer
from wholedoc.decoding.preparing import Preparer
from wholedoc.decoding.results import Task, TranslatedDocument
from wholedoc.errors import UserError

CHUNK = 8  # sentences that appear together


@dataclass(frozen=True)
class Update:
    """A sentence that has a translation, or another one than before."""

    place: int
    """Of the sentence in its document, counted from 0."""
    text: str
    passes: int
    """Of coordinate descent before it: 0 for a first translation."""


class Stream(Iterator[Update]):
    """The updates of one document, for one thread; ``document`` is there when all have come.

    Nothing is translated before the first update is asked for.
    """

    def __init__(
        self,
        task: Task,
        preparer: Preparer,
        answerer: Answerer,
        together: int = CHUNK,
        *,
        explain: bool = True,
    ) -> None:
        self._together, self._explain = together, explain
        self._task, self._preparer, self._answerer = task, preparer, answerer
        self._document: TranslatedDocument | None = None
        self._texts: list[str | None] = [None] * len(task.sentences)
        self._updates = self._translate()

    def __next__(self) -> Update:
        """The next update, as soon as there is one."""
        return next(self._updates)

    @property
    def document(self) -> TranslatedDocument:
        """The whole document, as ``Translator.translate`` gives it."""
        if self._document is None:
            what, fix = "the document is not translated yet", "go through all updates first"
            raise UserError(what, where="stream.document", fix=fix)
        return self._document

    def _translate(self) -> Iterator[Update]:
        """Translate, a few sentences at a time; a document model then goes over all of them."""
        prepared = self._preparer.prepare(self._task)
        reads = self._answerer.system.reads_documents
        parts = []
        if not (reads and self._task.config.first_pass == "document"):
            config = replace(self._task.config, passes=0)
            first = replace(prepared, task=replace(self._task, config=config))
            explain = self._explain and not reads
            for start in range(0, len(self._texts), self._together):
                places = range(start, min(start + self._together, len(self._texts)))
                (part,) = self._answerer.translate([first.select(places)], explain=explain)
                parts.append(part)
                yield from self._changed(places, part.sentences, 0)
        if reads:
            document = None
            for document in self._answerer.follow(prepared):
                texts, passes = document.sentences, len(document.history) - 1
                yield from self._changed(range(len(texts)), texts, passes)
            self._document = document
        else:
            self._document = self._join(parts)

    def _changed(
        self, places: Sequence[int], texts: Sequence[str], passes: int
    ) -> Iterator[Update]:
        for place, text in zip(places, texts, strict=True):
            if self._texts[place] != text:
                self._texts[place] = text
                yield Update(place, text, passes)

    def _join(self, parts: Sequence[TranslatedDocument]) -> TranslatedDocument:
        """One document from its parts, in which each sentence was translated by itself."""
        return TranslatedDocument(
            candidates=[each for part in parts for each in part.candidates],
            history=[[text for part in parts for text in part.sentences]],
            source_weights=None,
            target_weights=None,
            objective=[],
            pieces=[each for part in parts for each in part.pieces],
            known=[each for part in parts for each in part.known],
            recall=[words for part in parts for words in part.recall or []]
            if self._explain
            else None,
            task=self._task,
            terms=[each for part in parts for each in part.terms],
        )
