"""A document translated step by step, for people who watch: sentence by sentence, pass by pass."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wholedoc.decoding.results import TranslatedDocument, Translation
from wholedoc.decoding.translator import Knowledge, Translator

_CHUNK = 8  # sentences that appear together


@dataclass(frozen=True)
class Update:
    """A sentence that has a translation, or another one than before."""

    place: int
    text: str
    passes: int
    """Of coordinate descent before it: 0 for a first translation."""


class Stream:
    """The updates of one document; ``document`` is there when all have come."""

    def __init__(
        self, translator: Translator, sentences: list[str], known: Knowledge | None = None
    ) -> None:
        """Prepare a document with the model's own settings of search."""
        self.translator = translator
        self.document: TranslatedDocument | None = None
        task = translator._tasks([sentences], known or Knowledge(), translator.config.search, 1)[0]
        self._task = task
        self._texts: list[str | None] = [None] * len(sentences)

    def __iter__(self) -> Iterator[Update]:
        """Translate, a few sentences at a time; a document model then goes over all of them."""
        prepared = self.translator._prepare(self._task)
        reads = self.translator.reads_documents
        parts = []
        if not (reads and self._task.config.first_pass == "document"):
            config = replace(self._task.config, passes=0)
            first = replace(prepared, task=replace(self._task, config=config))
            for start in range(0, len(self._texts), _CHUNK):
                places = range(start, min(start + _CHUNK, len(self._texts)))
                (part,) = self.translator._translate([first.select(places)], explain=not reads)
                parts.append(part)
                yield from self._changed(places, part.sentences, 0)
        if reads:
            (self.document,) = self.translator._translate([prepared], explain=True)
            for passes, texts in enumerate(self.document.history):
                yield from self._changed(range(len(texts)), texts, passes)
        else:
            self.document = self._join(parts)

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
            recall=[words for part in parts for words in part.recall or []],
            task=self._task,
            terms=[each for part in parts for each in part.terms],
        )


def find_alternatives(
    translator: Translator, document: TranslatedDocument, place: int, count: int
) -> list[Translation]:
    """The best translations of a sentence of a document, the others being as they are."""
    config = replace(document.task.config, beam=max(document.task.config.beam, count))
    task = replace(document.task, config=config, nbest=count)
    remembered = [[pair for pair in known if not pair.approved] for known in document.known]
    prepared = translator._prepare(task, remembered)
    if translator.reads_documents:
        return translator._translate([prepared])[0].candidates[place]
    return translator._translate([prepared.select([place])])[0].candidates[0]
