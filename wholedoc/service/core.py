"""What the service does, whatever dialect it is asked in."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from wholedoc.app.documents import (
    Approved,
    TranslatesSentences,
    translate_all,
    translate_variously,
)
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.glossary import Glossary, is_tbx
from wholedoc.corpus.readers.lines import read_head
from wholedoc.decoding.alignment import Origin
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.formats import FORMATS, find_format
from wholedoc.formats.html import Html
from wholedoc.formats.segments import DocumentFile, plain
from wholedoc.formats.sentences import split_sentences
from wholedoc.formats.text import PlainText
from wholedoc.service.engine import Caller, Engine, Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.glossaries import Glossaries
from wholedoc.service.languages import detect, name_of, primary
from wholedoc.service.web import note_failure
from wholedoc.tm.memory import TranslationMemory
from wholedoc.tm.writer import MemoryWriter

Markup = Literal["text", "html"]


@dataclass(frozen=True)
class Limits:
    """The sizes of what may be asked for."""

    characters: int = 200_000
    """Of all texts of a request."""
    file_bytes: int = 30_000_000
    waiting: int = 256
    """Documents that wait for a model."""
    kept_documents: int = 1000
    """Translated documents that wait to be fetched."""
    kept_seconds: float = 3600.0
    glossaries: int = 1000
    """Glossaries that clients have made."""
    glossary_characters: int = 10_000_000
    """Of the terms of all of them."""
    alternatives: int = 10
    """Other translations of a text."""


class Translated(NamedTuple):
    """A text, and the language it was found to be in."""

    text: str
    source: str
    characters: int
    alternatives: Sequence[str] = ()
    """Other translations, the best first, where they are asked for."""


@dataclass
class StoredDocument:
    """A document that was sent, and what has become of it."""

    key: str
    name: str
    characters: int = 0
    status: Literal["queued", "translating", "done", "error"] = "queued"
    data: bytes = b""
    message: str = ""
    since: float = field(default_factory=time.monotonic)
    ticket: Ticket = field(default_factory=Ticket)


@dataclass(frozen=True)
class _AfterContext:
    """Translates documents that go on with a text which is read, but not translated for anyone."""

    caller: Caller
    context: list[str]

    @property
    def src_language(self) -> str:
        return self.caller.src_language

    @property
    def trg_language(self) -> str:
        return self.caller.trg_language

    def translate(
        self,
        documents: Sequence[tuple[list[str], Approved]],
        *,
        explain: bool = False,
        nbest: int = 1,
    ) -> list[TranslatedDocument]:
        count = len(self.context)
        longer = [
            ([*self.context, *sentences], {place + count: text for place, text in given.items()})
            for sentences, given in documents
        ]
        found = self.caller.translate(longer, explain=explain, nbest=nbest)
        return [translated.after(count) for translated in found]

    def align(self, document: TranslatedDocument, place: int) -> list[Origin]:
        return self.caller.align(document, place)


class Service:
    """Models by their languages, memories, and documents on their way."""

    def __init__(
        self,
        translators: Sequence[Translator],
        memories: Sequence[str | Path] = (),
        limits: Limits | None = None,
        suggestions: Path | None = None,
        glossary: Path | None = None,
        glossaries: Path | None = None,
    ) -> None:
        """Open an engine for each model.

        ``suggestions`` is a memory that clients may add to; it is recalled from too. The terms of
        ``glossary`` are always enforced; ``glossaries`` is a folder for those that clients make.
        """
        self.limits = limits or Limits()
        self.suggestions = suggestions
        self.engines: dict[tuple[str, str], Engine] = {}
        self.memories: dict[tuple[str, str], tuple[TranslationMemory, ...]] = {}
        self.characters = 0
        self._documents: OrderedDict[str, StoredDocument] = OrderedDict()
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="wholedoc-documents")
        if suggestions is not None:
            memories = [*memories, suggestions]
            self._make_suggestions(translators, suggestions)
        for translator in translators:
            self._open(translator, memories)
        self.terms = {} if glossary is None else _read_glossary(glossary, list(self.engines))
        """Glossaries that are always enforced, by their languages."""
        most = self.limits.glossaries, self.limits.glossary_characters
        self.glossaries = Glossaries(*most, self.terms, glossaries)

    def _make_suggestions(self, translators: Sequence[Translator], path: Path) -> None:
        """Make the memory of suggestions where there is none."""
        if len(translators) > 1:
            what = "a memory has two languages, and there are several models"
            raise UserError(what, where="--suggestions", fix="serve one model")
        data = translators[0].config.data
        MemoryWriter.open(path, data.src_language, data.trg_language, create=True).close()

    def suggest(self, source: str, target: str, text: str, translation: str) -> None:
        """Add a translation that somebody suggests to the memory of suggestions."""
        if self.suggestions is None:
            raise RequestError(403, "suggestions are not taken; start with --suggestions TM")
        if not text.strip() or not translation.strip():
            raise RequestError(400, "a suggestion has a text and its translation")
        caller = self.choose(source, target, text, Ticket())
        pair = SentencePair(text, translation, time.strftime("%Y-%m-%dT%H:%M:%S"))
        with self._lock, MemoryWriter.open(self.suggestions) as writer:
            writer.add([Document(caller.src_language, (pair,))], "suggestions")

    def _open(self, translator: Translator, memories: Sequence[str | Path]) -> None:
        data = translator.config.data
        pair = primary(data.src_language), primary(data.trg_language)
        if not all(pair):
            what = "the model does not say what languages it translates"
            fix = "train it with data.src_language and data.trg_language"
            raise UserError(what, where="serve", fix=fix)
        if pair in self.engines:
            raise UserError(f"two models for {pair[0]} to {pair[1]}", where="serve", fix="give one")
        self.memories[pair] = translator.open_memories(memories)
        self.engines[pair] = Engine(translator, most_waiting=self.limits.waiting)

    def close(self) -> None:
        """Finish what is waiting, and end."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for engine in self.engines.values():
            engine.close()

    @property
    def sources(self) -> list[str]:
        """The languages that can be translated from."""
        return sorted({src for src, _ in self.engines})

    def targets(self, source: str = "") -> list[str]:
        """The languages that can be translated to."""
        return sorted({trg for src, trg in self.engines if not source or src == source})

    def detect(self, text: str) -> list[tuple[str, float]]:
        """The languages of the models that a text may be in."""
        return detect(text, self.sources)

    def choose(self, source: str, target: str, text: str, ticket: Ticket) -> Caller:
        """The model for a pair of languages; the source may be ``auto`` or nothing."""
        src, trg = primary(source), primary(target)
        if src in ("", "auto"):
            fitting = [code for code, _ in self.detect(text) if (code, trg) in self.engines]
            src = fitting[0] if fitting else src
        if not trg:
            raise RequestError(400, "no target language is given")
        engine = self.engines.get((src, trg))
        if engine is None:
            pairs = ", ".join(f"{a} to {b}" for a, b in self.engines)
            raise RequestError(400, f"cannot translate {src or '?'} to {trg}; there is {pairs}")
        return Caller(engine, self.memories[src, trg], ticket, self.terms.get((src, trg)))

    def translate_texts(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        markup: Markup = "text",
        context: str = "",
        ticket: Ticket | None = None,
        *,
        glossary: Glossary | None = None,
        alternatives: int = 0,
    ) -> list[Translated]:
        """Translate texts, each by itself, with what stands before them where that is given.

        ``glossary`` is enforced instead of the one that always is.
        """
        characters = sum(map(len, texts))
        if characters > self.limits.characters:
            most = self.limits.characters
            raise RequestError(413, f"{characters:,} characters are more than {most:,}")
        ticket = ticket or Ticket()
        found: list[Translated | None] = [None] * len(texts)
        groups: dict[str, list[int]] = {}
        callers: dict[str, Caller] = {}
        for n, text in enumerate(texts):
            caller = _with_glossary(self.choose(source, target, text, ticket), glossary)
            callers[caller.src_language] = caller
            groups.setdefault(caller.src_language, []).append(n)
        for language, places in groups.items():
            translated = self._translate_group(
                callers[language], [texts[n] for n in places], markup, context, alternatives
            )
            for n, (text, *others) in zip(places, translated, strict=True):
                found[n] = Translated(text, primary(language), len(texts[n]), others)
        with self._lock:
            self.characters += characters
        return [each for each in found if each is not None]

    def _translate_group(
        self, caller: Caller, texts: Sequence[str], markup: Markup, context: str, alternatives: int
    ) -> list[list[str]]:
        """The translation of each text, and others where they are asked for."""
        kind: type[DocumentFile] = Html if markup == "html" else PlainText
        files = [kind(text.encode("utf-8", "replace"), "text", "", "") for text in texts]
        translator: TranslatesSentences = caller
        if context.strip() and caller.engine.translator.reads_documents:
            spans = split_sentences(context, caller.src_language)
            translator = _AfterContext(caller, [context[slice(*span)] for span in spans])
        found = translate_variously(translator, files, alternatives)
        return [[data.decode("utf-8") for data in each] for each in found]

    def translate_file(
        self,
        data: bytes,
        name: str,
        source: str,
        target: str,
        ticket: Ticket | None = None,
        glossary: Glossary | None = None,
    ) -> tuple[bytes, int]:
        """Translate a file in its format; returns it, and how many characters it has."""
        if len(data) > self.limits.file_bytes:
            most = self.limits.file_bytes
            raise RequestError(413, f"{len(data):,} bytes are more than {most:,}")
        kind = find_format(name) or (PlainText if name.lower().endswith(".txt") else None)
        if kind is None:
            raise RequestError(400, f"{PurePath(name).suffix or name!r} is not a format we know")
        try:
            sample = kind(data, name, "", "")
            words = " ".join(plain(segment.source) for segment in sample.segments)
            caller = self.choose(source, target, words, ticket or Ticket())
            caller = _with_glossary(caller, glossary)
            file = kind(data, name, caller.src_language, caller.trg_language)
            (done,) = translate_all(caller, [file])
        except UserError as error:
            raise RequestError(400, str(error)) from error
        characters = sum(map(len, done.text.sentences))
        with self._lock:
            self.characters += characters
        return done.data, characters

    def store(
        self, data: bytes, name: str, source: str, target: str, glossary: Glossary | None = None
    ) -> tuple[str, StoredDocument]:
        """Take a document to be translated in the background; returns its id."""
        self.choose(source or "auto", target, "", Ticket())  # a wrong language is said at once
        document = StoredDocument(secrets.token_hex(16).upper(), name)
        number = secrets.token_hex(16).upper()
        with self._lock:
            self._make_room()
            self._documents[number] = document
        self._pool.submit(self._translate_stored, document, data, source, target, glossary)
        return number, document

    def _translate_stored(
        self,
        document: StoredDocument,
        data: bytes,
        source: str,
        target: str,
        glossary: Glossary | None,
    ) -> None:
        document.status = "translating"
        try:
            document.data, document.characters = self.translate_file(
                data, document.name, source, target, document.ticket, glossary
            )
            document.status = "done"
        except RequestError as error:
            document.message, document.status = error.message, "error"
        except Exception as error:  # noqa: BLE001 (its text may hold what the document says)
            note_failure(error)
            document.message, document.status = "the document could not be translated", "error"

    def keep(self, name: str, data: bytes, characters: int) -> tuple[str, str]:
        """Keep a translated document to be fetched; returns its id and its key."""
        document = StoredDocument(secrets.token_hex(16), name, characters, "done", data)
        number = secrets.token_hex(16)
        with self._lock:
            self._make_room()
            self._documents[number] = document
        return number, document.key

    def stored(self, number: str, key: str) -> StoredDocument:
        """A document that was sent; raises where there is none of this id and key."""
        document = self._documents.get(number)
        if document is None or not secrets.compare_digest(document.key, key):
            raise RequestError(404, "there is no document of this id and key")
        return document

    def forget(self, number: str) -> None:
        """Drop a document that was fetched."""
        with self._lock:
            self._documents.pop(number, None)

    def _make_room(self) -> None:
        """Drop documents that nobody fetched; raises where that leaves no room."""
        limit = time.monotonic() - self.limits.kept_seconds
        for number in [n for n, each in self._documents.items() if each.since < limit]:
            del self._documents[number]
        if len(self._documents) >= self.limits.kept_documents:
            raise RequestError(503, "too many documents are kept; fetch some of them first")

    @property
    def endings(self) -> list[str]:
        """Of the files that can be translated."""
        return [".txt", *(ending for each in FORMATS for ending in each.endings)]

    def languages(self) -> Mapping[str, str]:
        """All languages by their codes."""
        return {code: name_of(code) for code in sorted({*self.sources, *self.targets()})}


def _with_glossary(caller: Caller, glossary: Glossary | None) -> Caller:
    """A caller with a glossary of its own, where there is one."""
    return caller if glossary is None else replace(caller, glossary=glossary)


def _read_glossary(path: Path, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Glossary]:
    """A glossary for each pair of languages that it has terms for."""
    if len(pairs) > 1 and not is_tbx(read_head(path).encode()):
        what = "lines do not say what languages they are in, and there are several models"
        raise UserError(what, where=str(path), fix="serve one model, or give TBX")
    found: dict[tuple[str, str], Glossary] = {}
    faults: list[UserError] = []
    for pair in pairs:
        try:
            found[pair] = Glossary.read(path, *pair)
        except UserError as fault:  # such as TBX without terms in these languages
            faults.append(fault)
    if not found:
        raise faults[0]
    return found
