"""What the service does, whatever dialect it is asked in."""

import asyncio
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple

from wholedoc.app.documents import DocumentText, read_all, translate_all, write_variously
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.glossary import Glossary, is_tbx
from wholedoc.corpus.readers.lines import read_head
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.errors import UserError
from wholedoc.formats import FORMATS, find_format
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.segments import DocumentFile, plain
from wholedoc.formats.sentences import split_sentences
from wholedoc.kernels import describe
from wholedoc.service.engine import Caller, Engine, Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.glossaries import Glossaries
from wholedoc.service.languages import detect, name_of, primary
from wholedoc.service.markup import Markup
from wholedoc.service.processes import Assignment
from wholedoc.service.web import note_failure
from wholedoc.tm.memory import TranslationMemory
from wholedoc.tm.writer import MemoryWriter

_FEW = 1000  # characters of texts that are read in the event loop


@dataclass(frozen=True)
class Limits:
    """The sizes of what may be asked for."""

    characters: int = 200_000
    """Of all texts of a request."""
    file_bytes: int = 30_000_000
    sent_bytes: int = 500_000_000
    """Of all requests that are not answered yet."""
    sent_seconds: float = 300.0
    """From the beginning of a request to the end of its body; then the answer is 408."""
    connections: int = 1000
    """Or a third of the files that the process may open, if that is less."""
    silent_seconds: float = 30.0
    """Twice as long without a request, or half of one, at most, and a connection is closed."""
    files: int = 8
    """Files that are read and translated at a time; others wait."""
    waiting: int = 256
    """Documents that wait for a model, and as many files that wait."""
    kept_documents: int = 1000
    """Translated documents that wait to be fetched."""
    kept_seconds: float = 3600.0
    kept_bytes: int = 500_000_000
    """Of the translated documents that wait, and of those that people work on, each."""
    open_documents: int = 200
    """Documents that people work on."""
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
    size: int = 0
    """Bytes of what was sent or of what is kept."""
    message: str = ""
    since: float = field(default_factory=time.monotonic)
    ticket: Ticket = field(default_factory=Ticket)
    fetched: bool = False
    """Whether somebody has it, so that it may be dropped when room is needed."""

    def fail(self, message: str) -> None:
        """Note that it could not be translated; it takes no room any more."""
        self.message, self.status, self.size, self.fetched = message, "error", 0, True


@dataclass(frozen=True)
class _Group:
    """Texts of a request in one language, read."""

    caller: Caller
    places: list[int]
    """Of the texts in the request."""
    files: list[DocumentFile]
    texts: list[DocumentText]
    context: list[str]
    """Sentences that stand before each text, and are not translated for anyone."""

    def submit(self, nbest: int) -> "list[Future[TranslatedDocument]]":
        """Let all texts wait for their turn."""
        documents = [
            (
                [*self.context, *text.sentences],
                {place + len(self.context): given for place, given in text.approved.items()},
            )
            for text in self.texts
        ]
        return self.caller.submit(documents, nbest=nbest)

    def write(self, found: Sequence[TranslatedDocument], alternatives: int) -> list[list[str]]:
        """The translation of each text, and others where they are asked for."""
        results = [each.after(len(self.context)) if self.context else each for each in found]
        given = (self.caller, self.files, self.texts, results, alternatives)
        return [[data.decode("utf-8-sig") for data in each] for each in write_variously(*given)]


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
        *,
        processes: bool = False,
    ) -> None:
        """Open an engine for each model, whose threads have ``processes`` where that is asked for.

        ``suggestions`` is a memory that clients may add to; it is recalled from too. The terms of
        ``glossary`` are always enforced; ``glossaries`` is a folder for those that clients make.
        """
        describe()  # tries the kernels in a fork, which would keep the locks of files open then
        self.limits = limits or Limits()
        self.suggestions = suggestions
        self.engines: dict[tuple[str, str], Engine] = {}
        self.memories: dict[tuple[str, str], tuple[TranslationMemory, ...]] = {}
        self.characters = 0
        self._documents: OrderedDict[str, StoredDocument] = OrderedDict()
        self._lock = threading.Lock()
        files = self.limits.files
        self._pool = ThreadPoolExecutor(files, thread_name_prefix="wholedoc-documents")
        self._file_turn = threading.BoundedSemaphore(files)
        self._files_waiting = 0
        if suggestions is not None:
            memories = [*memories, suggestions]
            self._make_suggestions(translators, suggestions)
        served: dict[tuple[str, str], Translator] = {}
        for translator in translators:
            pair = _languages_of(translator, served)
            served[pair] = translator
            self.memories[pair] = translator.open_memories(memories)
        self.terms = {} if glossary is None else _read_glossary(glossary, list(served))
        """Glossaries that are always enforced, by their languages."""
        for pair, translator in served.items():
            known = self.memories[pair], self.terms.get(pair)
            apart = processes and translator.system.device.type == "cpu"
            assignment = Assignment.of(translator, *known) if apart else None
            self.engines[pair] = Engine(
                translator, most_waiting=self.limits.waiting, assignment=assignment
            )
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
        sides = (text, caller.src_language), (translation, caller.trg_language)
        parts = [
            [side[slice(*span)] for span in split_sentences(side, code)] for side, code in sides
        ]
        if len(parts[0]) != len(parts[1]):  # which is whose cannot be told
            parts = [[text], [translation]]
        date = time.strftime("%Y-%m-%dT%H:%M:%S")
        pairs = tuple(SentencePair(src, trg, date) for src, trg in zip(*parts, strict=True))
        with self._lock, MemoryWriter.open(self.suggestions) as writer:
            counts = writer.add([Document(caller.src_language, pairs)], "suggestions")
        if counts.left_out:
            raise RequestError(400, f"not everything was taken: {counts.left_out}")

    def close(self) -> None:
        """End, with no more translated than what is under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for document in list(self._documents.values()):
            document.ticket.cancelled = True
        for engine in self.engines.values():
            engine.close()
        self._pool.shutdown(wait=True)

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
            raise RequestError(
                400, f"cannot translate {src} to {trg}; there is {pairs}".replace("  ", " ")
            )
        return Caller(engine, self.memories[src, trg], ticket, self.terms.get((src, trg)))

    async def translate_texts(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        markup: Markup | None = None,
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
        read = characters + len(context) * len(texts)  # before each of them
        if read > self.limits.characters:
            most = self.limits.characters
            what = "characters, with the context of each text," if context else "characters"
            raise RequestError(413, f"{read:,} {what} are more than {most:,}")
        # A thread for a sentence would cost more than to read it. Languages are told by long lists.
        told = primary(source) not in ("", "auto") or len(self.sources) < 2
        run = _here if told and characters + len(context) <= _FEW else asyncio.to_thread
        given = (texts, source, target, markup or Markup(), context, ticket or Ticket(), glossary)
        groups = await run(self._read_texts, *given)
        found: list[Translated | None] = [None] * len(texts)
        for group, answers in [(group, group.submit(alternatives + 1)) for group in groups]:
            results = [await group.caller.engine.wait(answer) for answer in answers]
            written = await run(group.write, results, alternatives)
            language = primary(group.caller.src_language)
            for n, (text, *others) in zip(group.places, written, strict=True):
                found[n] = Translated(text, language, len(texts[n]), others)
        with self._lock:
            self.characters += characters
        return [each for each in found if each is not None]

    def _read_texts(
        self,
        texts: Sequence[str],
        source: str,
        target: str,
        markup: Markup,
        context: str,
        ticket: Ticket,
        glossary: Glossary | None,
    ) -> list[_Group]:
        """Texts by their languages, split into sentences."""
        places: dict[str, list[int]] = {}
        callers: dict[str, Caller] = {}
        for n, text in enumerate(texts):
            caller = _with_glossary(self.choose(source, target, text, ticket), glossary)
            callers[caller.src_language] = caller
            places.setdefault(caller.src_language, []).append(n)
        groups = []
        for language, caller in callers.items():
            files = [markup.read(texts[n]) for n in places[language]]
            before = []
            if context.strip() and caller.engine.translator.reads_documents:
                before = [context[slice(*span)] for span in split_sentences(context, language)]
            group = _Group(caller, places[language], files, read_all(caller, files), before)
            groups.append(group)
        return groups

    def translate_file(
        self,
        data: bytes,
        name: str,
        source: str,
        target: str,
        ticket: Ticket | None = None,
        glossary: Glossary | None = None,
    ) -> tuple[bytes, int]:
        """Translate a file in its format, when its turn has come; returns it and its characters."""
        ticket = ticket or Ticket()
        with self.file_turn(ticket):
            return self._translate_file(data, name, source, target, ticket, glossary)

    @contextmanager
    def file_turn(self, ticket: Ticket, *, taken: bool = False) -> Iterator[None]:
        """Wait until there is room in memory for what a file holds.

        Raises where too many wait, unless the file was ``taken`` before.
        """
        with self._lock:
            if self._files_waiting >= self.limits.waiting and not taken:
                raise RequestError(503, "too many files are waiting; try again in some seconds")
            self._files_waiting += 1
        try:
            while not self._file_turn.acquire(timeout=1.0):
                if ticket.cancelled:
                    raise RequestError(499, "the client has left")
        finally:
            with self._lock:
                self._files_waiting -= 1
        try:
            yield
        finally:
            self._file_turn.release()

    def _translate_file(
        self,
        data: bytes,
        name: str,
        source: str,
        target: str,
        ticket: Ticket,
        glossary: Glossary | None,
    ) -> tuple[bytes, int]:
        if len(data) > self.limits.file_bytes:
            most = self.limits.file_bytes
            raise RequestError(413, f"{len(data):,} bytes are more than {most:,}")
        kind = find_format(name) or (PlainText if name.lower().endswith(".txt") else None)
        if kind is None:
            raise RequestError(400, f"{PurePath(name).suffix or name!r} is not a format we know")
        try:
            sample = kind(data, name, "", "")
            words = " ".join(plain(segment.source) for segment in sample.segments)
            del sample  # it may be large
            caller = self.choose(source, target, words, ticket)
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
        if len(data) > self.limits.file_bytes:
            most = self.limits.file_bytes
            raise RequestError(413, f"{len(data):,} bytes are more than {most:,}")
        document = StoredDocument(secrets.token_hex(16).upper(), name, size=len(data))
        number = secrets.token_hex(16).upper()
        with self._lock:
            self._make_room(len(data))
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
            with self.file_turn(document.ticket, taken=True):
                document.data, document.characters = self._translate_file(
                    data, document.name, source, target, document.ticket, glossary
                )
            document.status = "done"
        except RequestError as error:
            document.fail(error.message)
        except Exception as error:  # noqa: BLE001 (its text may hold what the document says)
            note_failure(error)
            document.fail("the document could not be translated")

    def keep(self, name: str, data: bytes, characters: int) -> tuple[str, str]:
        """Keep a translated document to be fetched; returns its id and its key."""
        document = StoredDocument(secrets.token_hex(16), name, characters, "done", data, len(data))
        number = secrets.token_hex(16)
        with self._lock:
            self._make_room(len(data))
            self._documents[number] = document
        return number, document.key

    def stored(self, number: str, key: str) -> StoredDocument:
        """A document that was sent; raises where there is none of this id and key."""
        self.drop_old()
        document = self._documents.get(number)
        if document is None or not secrets.compare_digest(document.key.encode(), key.encode()):
            raise RequestError(404, "there is no document of this id and key")
        return document

    def forget(self, number: str) -> None:
        """Drop a document that was fetched."""
        with self._lock:
            self._documents.pop(number, None)

    def _make_room(self, size: int) -> None:
        """Drop documents that are old or fetched; raises where that leaves no room for ``size``."""
        self._drop_old()
        size += sum(each.size for each in self._documents.values())
        count = len(self._documents)
        for number, each in list(self._documents.items()):
            if count < self.limits.kept_documents and size <= self.limits.kept_bytes:
                return
            if each.fetched:
                del self._documents[number]
                count, size = count - 1, size - each.size
        if count >= self.limits.kept_documents or size > self.limits.kept_bytes:
            raise RequestError(503, "too many documents are kept; fetch some of them first")

    def drop_old(self) -> None:
        """Drop documents that have been kept for as long as they are kept."""
        with self._lock:
            self._drop_old()

    def _drop_old(self) -> None:
        limit = time.monotonic() - self.limits.kept_seconds
        for number in [n for n, each in self._documents.items() if each.since < limit]:
            del self._documents[number]

    @property
    def endings(self) -> list[str]:
        """Of the files that can be translated."""
        return [".txt", *(ending for each in FORMATS for ending in each.endings)]

    def languages(self) -> Mapping[str, str]:
        """All languages by their codes."""
        return {code: name_of(code) for code in sorted({*self.sources, *self.targets()})}


async def _here(work: Callable[..., Any], *given: Any) -> Any:
    """Do some work in the event loop, as ``asyncio.to_thread`` does it in a thread."""
    return work(*given)


def _languages_of(translator: Translator, others: Collection[tuple[str, str]]) -> tuple[str, str]:
    """From which language to which a model translates, as none of the others does."""
    data = translator.config.data
    src, trg = primary(data.src_language), primary(data.trg_language)
    if not src or not trg:
        what = "the model does not say what languages it translates"
        fix = "train it with data.src_language and data.trg_language"
        raise UserError(what, where="serve", fix=fix)
    if (src, trg) in others:
        raise UserError(f"two models for {src} to {trg}", where="serve", fix="give one")
    return src, trg


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
