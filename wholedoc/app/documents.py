"""Documents in, documents out: the sentences of a file translated, its tags put back in place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wholedoc.config import SearchConfig
from wholedoc.errors import UserError
from wholedoc.formats.placing import find_units, place_tags
from wholedoc.formats.protected import Span, is_text
from wholedoc.formats.segments import (
    Content,
    DocumentFile,
    Segment,
    plain,
    shown,
    tags_of,
)
from wholedoc.formats.sentences import split_sentences, without_signs

if TYPE_CHECKING:
    from wholedoc.corpus.glossary import Glossary
    from wholedoc.decoding.alignment import Origin
    from wholedoc.decoding.document import Progress
    from wholedoc.decoding.results import TranslatedDocument
    from wholedoc.decoding.translator import Translator
    from wholedoc.tm.memory import TranslationMemory


class Placed(NamedTuple):
    """A sentence of a document: its segment, and where it stands in the segment's text."""

    segment: int
    span: Span


class TranslatedSentence(NamedTuple):
    """The translation of a sentence, and where its words come from in the sentence."""

    text: str
    origins: "Callable[[], Sequence[Origin]]"
    """They are found where a tag is to be placed by them."""


@dataclass(frozen=True)
class DocumentText:
    """What a model reads of a document: its sentences, and those that people have approved."""

    segments: Sequence[Segment]
    places: list[Placed]
    sentences: list[str]
    approved: dict[int, str]
    """Translations in the document, by the places of their sentences."""


def read_sentences(
    segments: Sequence[Segment], src_language: str, trg_language: str
) -> DocumentText:
    """Split the segments of a document into sentences; what is not text has none."""
    text = DocumentText(segments, [], [], {})
    for n, segment in enumerate(segments):
        source = plain(segment.source)
        if not is_text(source):
            continue
        spans = _spans(segment, source, src_language)
        if segment.approved and segment.target is not None:
            target = plain(segment.target)
            parts = _spans(segment, target, trg_language)
            if len(parts) != len(spans):  # then they are one
                spans, parts = [_stripped(source)], [_stripped(target)]
            first = len(text.sentences)
            text.approved.update(enumerate((target[slice(*part)] for part in parts), first))
        text.places.extend(Placed(n, span) for span in spans)
        text.sentences.extend(source[slice(*span)] for span in spans)
    return text


def _spans(segment: Segment, text: str, language: str) -> list[Span]:
    spans = [_stripped(text)] if segment.sentence else split_sentences(text, language)
    return [without_signs(text, span) for span in spans]


def _stripped(text: str) -> Span:
    """Where a text begins and ends without the white space around it."""
    return len(text) - len(text.lstrip()), len(text.rstrip())


Approved = Mapping[int, str]
"""Translations by people, by the places of their sentences."""


class TranslatesSentences(Protocol):
    """What translates the sentences of documents: a translator, or a service's queue to one."""

    @property
    def src_language(self) -> str:
        """Of the model."""

    @property
    def trg_language(self) -> str:
        """Of the model."""

    def translate(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        *,
        explain: bool = False,
        nbest: int = 1,
    ) -> "list[TranslatedDocument]":
        """The translations of documents: of each sentence the best, or so many of the best."""

    def align(self, document: "TranslatedDocument", place: int) -> "list[Origin]":
        """Where the words of a sentence's translation come from in the source."""


@dataclass(frozen=True)
class SentenceTranslator:
    """A translator with settings of search, memories to recall from, and a glossary."""

    translator: "Translator"
    config: SearchConfig
    memories: "tuple[TranslationMemory, ...]" = ()
    progress: "Progress | None" = None
    glossary: "Glossary | None" = None

    @property
    def src_language(self) -> str:
        """Of the model."""
        return self.translator.config.data.src_language

    @property
    def trg_language(self) -> str:
        """Of the model."""
        return self.translator.config.data.trg_language

    def translate(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        *,
        explain: bool = False,
        nbest: int = 1,
    ) -> "list[TranslatedDocument]":
        """The translations of documents: of each sentence the best, or so many of the best."""
        from wholedoc.decoding.translator import Knowledge

        approved = [given for _, given in documents]
        known = Knowledge(approved, self.memories, glossary=self.glossary)
        return self.translator.translate_documents(
            [sentences for sentences, _ in documents],
            replace(self.config, beam=max(self.config.beam, nbest)),
            nbest,
            self.progress,
            measure=explain,
            known=known,
            explain=explain,
        )

    def align(self, document: "TranslatedDocument", place: int) -> "list[Origin]":
        """Where the words of a sentence's translation come from in the source."""
        return self.translator.align(document, place)


@dataclass(frozen=True)
class FileTranslation:
    """A document in its format, what was read of it, and the translations."""

    data: bytes
    text: DocumentText
    translated: "TranslatedDocument"


def translate_document(
    translator: TranslatesSentences, file: DocumentFile, *, explain: bool = False
) -> FileTranslation:
    """Translate a document; what it looks like stays as it is."""
    return translate_all(translator, [file], explain=explain)[0]


def translate_all(
    translator: TranslatesSentences, files: Sequence[DocumentFile], *, explain: bool = False
) -> list[FileTranslation]:
    """Translate documents, each by itself."""
    texts = read_all(translator, files)
    results = translator.translate([(t.sentences, t.approved) for t in texts], explain=explain)
    return _write_all(translator, files, texts, results)


def write_variously(
    translator: TranslatesSentences,
    files: Sequence[DocumentFile],
    texts: Sequence[DocumentText],
    results: "Sequence[TranslatedDocument]",
    count: int,
) -> list[list[bytes]]:
    """Of each document the best translation, then so many others, or fewer.

    The next one has the next best translation of each sentence, as far as there are any.
    """
    found: list[dict[bytes, None]] = [{} for _ in files]
    for rank in range(count + 1):
        ranked = [_ranked(result, rank) for result in results]
        for seen, done in zip(found, _write_all(translator, files, texts, ranked), strict=True):
            seen[done.data] = None
    return [list(seen) for seen in found]


def _ranked(found: "TranslatedDocument", rank: int) -> "TranslatedDocument":
    """A document with the translations of this rank, or the last ones; equal ones count once."""
    chosen = []
    for candidates in found.candidates:
        distinct = list({each.text: each for each in candidates}.values())
        chosen.append(distinct[min(rank, len(distinct) - 1)])
    history = [*found.history[:-1], [each.text for each in chosen]]
    return replace(found, candidates=[[each] for each in chosen], history=history, recall=None)


def read_all(translator: TranslatesSentences, files: Sequence[DocumentFile]) -> list[DocumentText]:
    """The sentences of documents."""
    languages = translator.src_language, translator.trg_language
    return [read_sentences(file.segments, *languages) for file in files]


def _write_all(
    translator: TranslatesSentences,
    files: Sequence[DocumentFile],
    texts: Sequence[DocumentText],
    results: "Sequence[TranslatedDocument]",
) -> list[FileTranslation]:
    """Documents in their formats from the translations of their sentences."""
    found = [
        [take_translation(translator, text, each, i) for i in range(len(each.sentences))]
        for text, each in zip(texts, results, strict=True)
    ]
    rows = zip(files, texts, found, results, strict=True)
    return [
        FileTranslation(_write(file, assemble(text, sentences)), text, translated)
        for file, text, sentences, translated in rows
    ]


class WritingError(UserError):
    """A translation that its document's format or encoding cannot hold."""


def _write(file: DocumentFile, translations: Sequence[Content | None]) -> bytes:
    try:
        return file.write(translations)
    except UserError as error:
        raise WritingError(error.what, where=error.where, fix=error.fix) from error


def take_translation(
    translator: TranslatesSentences, text: DocumentText, found: "TranslatedDocument", place: int
) -> TranslatedSentence:
    """A translation with its origins; where it says nothing the sentence stays as it is.

    One by people says what it should, and so does a term.
    """
    sentence, translation = text.sentences[place], found.sentences[place]
    given = place in found.task.approved
    given = given or any(term.state != "missing" for term in found.terms[place])
    if given or _has_word(translation) or (translation and not _has_word(sentence)):
        return TranslatedSentence(translation, partial(translator.align, found, place))
    return TranslatedSentence(sentence, partial(_same_words, sentence))


def _same_words(text: str) -> "list[Origin]":
    """Where the words of a sentence come from that stays as it is."""
    from wholedoc.decoding.alignment import Origin

    return [Origin(unit.start, unit.end, unit.start) for unit in find_units(text, [])]


def _has_word(text: str) -> bool:
    return any(character.isalnum() for character in text)


def assemble(text: DocumentText, found: Sequence[TranslatedSentence]) -> list[Content | None]:
    """The translations of the segments, with their tags, from those of the sentences."""
    by_segment: dict[int, list[int]] = {}
    for i, placed in enumerate(text.places):
        by_segment.setdefault(placed.segment, []).append(i)
    contents: list[Content | None] = []
    for n, segment in enumerate(text.segments):
        if segment.approved and segment.target is not None:
            contents.append(None)
        elif n not in by_segment:
            contents.append(segment.source)
        else:
            contents.append(_assemble_segment(segment, by_segment[n], text, found))
    return contents


def _assemble_segment(
    segment: Segment,
    sentences: Sequence[int],
    text: DocumentText,
    found: Sequence[TranslatedSentence],
) -> Content:
    source = plain(segment.source)
    parts: list[str] = []
    origins: list[tuple[int, int, int]] = []
    tagged = bool(tags_of(segment.source))
    at = length = 0
    for i in sentences:
        start, end = text.places[i].span
        parts += [source[at:start], found[i].text]
        length += start - at
        for origin in found[i].origins() if tagged else ():
            place = origin.source + start
            origins.append((origin.start + length, origin.end + length, place))
        length, at = length + len(found[i].text), end
    translation = "".join([*parts, source[at:]])
    units = find_units(translation, origins) if tagged else []
    return place_tags(segment.source, translation, units)


def describe(text: DocumentText) -> str:
    """What was found in a document, in a line."""
    sentences, approved = len(text.sentences), len(text.approved)
    kept = f", {approved:,} of them approved before" if approved else ""
    return f"{len(text.segments):,} segments, {sentences:,} sentences{kept}"


def list_segments(file: DocumentFile, language: str) -> list[dict[str, Any]]:
    """The segments of a document as plain values, with their sentences."""
    text = read_sentences(file.segments, language, "")
    sentences: dict[int, list[str]] = {}
    for placed, sentence in zip(text.places, text.sentences, strict=True):
        sentences.setdefault(placed.segment, []).append(sentence)
    return [
        {
            "place": segment.place,
            "source": shown(segment.source),
            "target": None if segment.target is None else shown(segment.target),
            "approved": segment.approved,
            "tags": len(tags_of(segment.source)),
            "sentences": sentences.get(n, []),
        }
        for n, segment in enumerate(file.segments)
    ]


def show_segments(found: Sequence[dict[str, Any]]) -> str:
    """Segments for people: where each stands, what it has, and what becomes of it."""
    lines = []
    for each in found:
        state = "approved" if each["approved"] else "" if each["sentences"] else "not text"
        count = len(each["sentences"])
        state = state or ("" if count == 1 else f"{count} sentences")
        lines.append(f"{each['place']}{f' ({state})' if state else ''}: {each['source']}")
        if each["target"] is not None:
            lines.append(f"    → {each['target']}")
    sentences = sum(len(each["sentences"]) for each in found)
    tags = sum(each["tags"] for each in found)
    return "\n".join([*lines, f"{len(found):,} segments, {sentences:,} sentences, {tags:,} tags"])
