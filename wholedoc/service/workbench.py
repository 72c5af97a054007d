"""Documents that people work on: translated as they watch, corrected, approved, fetched."""

import json
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from wholedoc.app.documents import DocumentText, assemble, read_sentences, take_translation
from wholedoc.config import CorpusFiles
from wholedoc.corpus.glossary import Glossary
from wholedoc.corpus.readers.lines import GZIP_MAGIC, one_line
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.errors import UserError
from wholedoc.formats import find_format
from wholedoc.formats.exchange import Pair, write_tmx, write_xliff
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.segments import DocumentFile, plain
from wholedoc.service.core import Service
from wholedoc.service.engine import Caller, Ticket
from wholedoc.service.errors import RequestError
from wholedoc.service.web import note_failure
from wholedoc.tm.memory import TranslationMemory
from wholedoc.tm.sources import open_source
from wholedoc.tm.writer import MemoryWriter

_KEPT_SECONDS = 12 * 3600.0
_ALTERNATIVES = 5
_PART_BYTES = 1000  # that a sentence, a text or a tag of an open document takes, about
_NAMED = 3  # sentences that are named of those one has read
_LEAST_READ = 0.05


@dataclass
class OpenDocument:
    """A document on the workbench."""

    name: str
    file: DocumentFile
    text: DocumentText
    caller: Caller
    folder: Path
    size: int
    """Bytes that it takes about, and those of the memories that were sent."""
    memories: tuple[TranslationMemory, ...] = ()
    glossary: Glossary | None = None
    """The one that was sent."""
    enforced: Glossary | None = None
    """That, and what the service always enforces."""
    translated: TranslatedDocument | None = None
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What has happened, for those who watch: its kind and its values."""
    changed: threading.Condition = field(default_factory=threading.Condition)
    working: threading.Lock = field(default_factory=threading.Lock)
    """Held while sentences are translated again."""
    used: float = field(default_factory=time.monotonic)

    def tell(self, kind: str, **values: Any) -> None:
        """Tell those who watch."""
        with self.changed:
            self.events.append((kind, values))
            self.changed.notify_all()

    @property
    def done(self) -> TranslatedDocument:
        """The translations; raises while there are none."""
        if self.translated is None:
            raise RequestError(409, "the document is not translated yet")
        return self.translated


class Workbench:
    """The open documents of a service."""

    def __init__(self, service: Service) -> None:
        """Open a workbench; its memories lie in a folder of their own until it is closed."""
        self.service = service
        self._documents: OrderedDict[str, OpenDocument] = OrderedDict()
        self._lock = threading.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="wholedoc-"))
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="wholedoc-workbench")

    def cancel(self) -> None:
        """Translate nothing any more."""
        for document in list(self._documents.values()):
            document.caller.ticket.cancelled = True
            document.tell("closed")

    def close(self) -> None:
        """End, and drop all documents."""
        self.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def open(self, data: bytes, name: str, source: str, target: str) -> tuple[str, OpenDocument]:
        """Take a document, and begin to translate it."""
        if len(data) > self.service.limits.file_bytes:
            raise RequestError(413, f"more than {self.service.limits.file_bytes:,} bytes")
        kind = find_format(name)
        if kind is None and PurePath(name).suffix.lower() not in ("", ".txt"):
            raise RequestError(400, f"{PurePath(name).suffix} is not a format we know")
        kind = kind or PlainText
        with self.service.file_turn(Ticket()):
            segments = kind(data, name, "", "").segments
            sample = " ".join(plain(segment.source) for segment in segments)
            caller = self.service.choose(source or "auto", target, sample, Ticket())
            languages = caller.src_language, caller.trg_language
            file = kind(data, name, *languages)
            text = read_sentences(file.segments, *languages)
        number = secrets.token_urlsafe(16)
        parts = len(text.sentences) + sum(len(each.source) for each in file.segments)
        size = len(data) + _PART_BYTES * parts
        document = OpenDocument(name, file, text, caller, self._folder / number, size)
        document.memories, document.enforced = caller.memories, caller.glossary
        with self._lock:
            self._make_room(size)
            self._documents[number] = document
        self._pool.submit(self._translate, document)
        return number, document

    def find(self, number: str) -> OpenDocument:
        """An open document."""
        self.drop_old()
        document = self._documents.get(number)
        if document is None:
            raise RequestError(404, "there is no such document; it may have been closed")
        document.used = time.monotonic()
        return document

    def drop(self, number: str) -> None:
        """Close a document."""
        document = self.find(number)
        document.caller.ticket.cancelled = True
        with self._lock:
            self._documents.pop(number, None)
        document.tell("closed")
        shutil.rmtree(document.folder, ignore_errors=True)

    def _make_room(self, size: int) -> None:
        """Close documents that nobody has used; raises where that leaves no room for ``size``."""
        self._drop_old()
        limits = self.service.limits
        size += sum(each.size for each in self._documents.values())
        if len(self._documents) >= limits.open_documents or size > limits.kept_bytes:
            raise RequestError(503, "too many documents are open; close some of them first")

    def drop_old(self) -> None:
        """Close documents that nobody has used for long."""
        with self._lock:
            self._drop_old()

    def _drop_old(self) -> None:
        limit = time.monotonic() - _KEPT_SECONDS
        for number in [n for n, each in self._documents.items() if each.used < limit]:
            shutil.rmtree(self._documents.pop(number).folder, ignore_errors=True)

    def _translate(self, document: OpenDocument) -> None:
        """Translate a document, and tell as its sentences come."""
        try:
            with document.working:
                self._stream(document, dict(document.text.approved))
        except (RequestError, UserError) as error:
            document.tell("error", message=str(error))
        except CancelledError:  # it was closed meanwhile
            document.tell("closed")
        except Exception as error:  # noqa: BLE001 (its text may hold what the document says)
            note_failure(error)
            document.tell("error", message="the document could not be translated")

    def _stream(self, document: OpenDocument, approved: dict[int, str]) -> None:
        engine, ticket = document.caller.engine, document.caller.ticket
        stream = engine.translator.stream(
            document.text.sentences,
            approved=approved,
            memories=document.memories,
            glossary=document.enforced,
        )
        while (found := engine.call(partial(next, stream, None), ticket)) is not None:
            document.tell("sentence", place=found.place, text=found.text, passes=found.passes)
        document.translated = stream.document
        document.tell("done", passes=len(document.done.history) - 1)

    def approve(self, document: OpenDocument, place: int, text: str | None) -> list[int]:
        """Approve a translation, or take that back with None; returns what has changed."""
        before = document.done
        if not 0 <= place < len(before.sentences):
            raise RequestError(404, f"there is no sentence {place}")
        if text is not None and not text.strip():
            raise RequestError(400, "an approved translation is not empty")
        with document.working:
            before = document.done  # which others may have changed since
            if text is None:
                rest = {t: each for t, each in before.task.approved.items() if t != place}
                self._stream(document, rest)
            else:
                engine = document.caller.engine
                document.translated = engine.call(
                    partial(engine.translator.approve, before, place, one_line(text))
                )
        return _differing(before, document.done)

    def recall_from(self, document: OpenDocument, data: bytes, name: str) -> list[int]:
        """Recall from a memory that was sent, a TMX or any other; returns what has changed."""
        before, engine = document.done, document.caller.engine
        if len(data) > self.service.limits.file_bytes:
            raise RequestError(413, f"more than {self.service.limits.file_bytes:,} bytes")
        if data.startswith(GZIP_MAGIC):
            raise RequestError(400, "a gzipped file may grow without limit; send it unpacked")
        with self._lock:
            self._make_room(len(data))
            document.size += len(data)
            number = document.size  # rises, so that no two memories have one name
        path = self._build_memory(document, data, clean_name(name), number)
        opened = engine.translator.open_memories([path])
        with document.working:
            before = document.done
            document.memories = (*document.memories, *opened)
            self._stream(document, dict(before.task.approved))
        return _differing(before, document.done)

    def _build_memory(self, document: OpenDocument, data: bytes, name: str, number: int) -> Path:
        """Make a memory of a file that was sent; the file itself is not kept."""
        document.folder.mkdir(exist_ok=True)
        languages = document.caller.src_language, document.caller.trg_language
        with tempfile.TemporaryDirectory(dir=document.folder) as folder:
            file = Path(folder, name)
            file.write_bytes(data)
            path = document.folder / f"{number}-{name}.memory"
            try:
                with MemoryWriter.build(path, *languages) as writer:
                    counts = writer.add(open_source(CorpusFiles(str(file)), *languages), name)
                    if not counts.entries:
                        raise RequestError(400, f"no pair was found; left out: {counts.left_out}")
            except UserError as error:  # which names the file as it lies here
                raise RequestError(400, str(error).replace(f"{folder}/", "")) from error
        return path

    def use_glossary(self, document: OpenDocument, data: bytes, name: str) -> list[int]:
        """Enforce the terms of a glossary instead of those before; returns what has changed.

        An empty one ends that.
        """
        if len(data) > self.service.limits.glossary_characters:
            most = self.service.limits.glossary_characters
            raise RequestError(413, f"{len(data):,} bytes are more than {most:,}")
        languages = document.caller.src_language, document.caller.trg_language
        sent = Glossary.parse(data, *languages, name) if data.strip() else None
        before, engine = document.done, document.caller.engine
        with document.working:
            before = document.done
            always = document.caller.glossary
            document.glossary, document.enforced = sent, sent.over(always) if sent else always
            work = partial(engine.translator.change_glossary, before, document.enforced)
            document.translated = engine.call(work)
        return _differing(before, document.done)

    def alternatives(self, document: OpenDocument, place: int) -> list[str]:
        """Other translations of a sentence, the best first."""
        before, engine = document.done, document.caller.engine
        if not 0 <= place < len(before.sentences):
            raise RequestError(404, f"there is no sentence {place}")
        if place in before.task.approved:
            return [before.sentences[place]]
        work = partial(engine.translator.alternatives, before, place, _ALTERNATIVES)
        return list(dict.fromkeys(found.text for found in engine.call(work)))

    def fetch(self, document: OpenDocument, kind: str) -> tuple[bytes, str]:
        """The translated document and its name: in its format, or its sentences for other tools.

        TMX has those that were approved: what is in a memory is taken for a person's.
        """
        done = document.done
        stem = PurePath(document.name).stem
        languages = document.caller.src_language, document.caller.trg_language
        if kind == "original":
            suffix = PurePath(document.name).suffix or ".txt"
            return self._write(document), f"{stem}.{languages[1]}{suffix}"
        pairs = [
            Pair(source, translation, place in done.task.approved)
            for place, (source, translation) in enumerate(
                zip(document.text.sentences, done.sentences, strict=True)
            )
        ]
        if kind == "xliff":
            return write_xliff(pairs, document.name, *languages), f"{stem}.xlf"
        if kind == "tmx":
            approved = [pair for pair in pairs if pair.approved]
            return write_tmx(approved, document.name, *languages), f"{stem}.tmx"
        raise RequestError(400, f"{kind!r} is none of original, xliff and tmx")

    def _write(self, document: OpenDocument) -> bytes:
        done = document.done
        found = [
            take_translation(document.caller, document.text, done, place)
            for place in range(len(done.sentences))
        ]
        read, given = document.text, done.task.approved
        places: dict[int, list[int]] = {}
        for place, placed in enumerate(read.places):
            places.setdefault(placed.segment, []).append(place)
        standing, written = list(read.segments), list(read.segments)
        for n, inside in places.items():
            now = [given.get(place) for place in inside]
            if now != [read.approved.get(place) for place in inside]:  # a person has changed that
                standing[n] = replace(read.segments[n], approved=None not in now)
                written[n] = replace(read.segments[n], approved=False)
        document.file.segments = standing
        return document.file.write(assemble(replace(read, segments=written), found))


def clean_name(name: str) -> str:
    """The name of a file that was sent, as one that any folder can hold."""
    return re.sub(r"[^\w.-]", "_", PurePath(name).name)[-40:].lstrip(".") or "file"


def _differing(before: TranslatedDocument, after: TranslatedDocument) -> list[int]:
    """The places of the sentences that have another translation, standing, or state of a term."""
    given = before.task.approved.keys() ^ after.task.approved.keys()
    old = list(zip(before.sentences, before.terms, strict=True))
    new = list(zip(after.sentences, after.terms, strict=True))
    return sorted({t for t, sentence in enumerate(old) if sentence != new[t]} | given)


def describe_sentence(document: OpenDocument, place: int) -> dict[str, Any]:
    """A sentence as the page shows it: its translation, and where that comes from."""
    done = document.translated
    values: dict[str, Any] = {
        "place": place,
        "segment": document.text.places[place].segment,
        "source": document.text.sentences[place],
        "approved": place in document.text.approved,
        "translation": document.text.approved.get(place),
    }
    if done is None:
        return values
    return {
        **values,
        "approved": place in done.task.approved,
        "translation": done.sentences[place],
        "first": done.history[0][place],
        "words": _words(done, place),
        "known": [_known(pair) for pair in done.known[place]],
        "read": _read(done, place),
        "terms": [asdict(term) for term in done.terms[place]],
    }


def _words(done: TranslatedDocument, place: int) -> list[dict[str, Any]]:
    recall = done.recall[place] if done.recall else []
    return [
        {
            "text": word.text,
            "gate": round(word.gate, 3),
            "share": round(word.share, 3),
            "sources": [
                {"pair": source.pair, "word": source.word, "weight": round(source.weight, 3)}
                for source in word.sources[:3]
            ],
        }
        for word in recall
    ]


def _known(pair: Any) -> dict[str, Any]:
    return {
        "src": pair.src,
        "trg": pair.trg,
        "score": pair.score,
        "approved": pair.approved,
        "document": pair.document,
        "place": pair.place,
        "origin": pair.origin,
    }


def _read(done: TranslatedDocument, place: int) -> dict[str, list[list[float]]]:
    """The sentences that one has read most, in either memory, with their weights."""
    found: dict[str, list[list[float]]] = {}
    for side, weights in (("source", done.source_weights), ("target", done.target_weights)):
        if weights is None:
            continue
        row = weights[place]
        order: Sequence[int] = row.argsort(descending=True)[:_NAMED].tolist()
        found[side] = [[t, round(float(row[t]), 3)] for t in order if row[t] >= _LEAST_READ]
    return found


def watch(document: OpenDocument, patience: float) -> Iterator[str]:
    """The events of a document as they come, in the form of server-sent events.

    A comment comes after every ``patience`` seconds without one. It ends with the translation.
    """
    at = 0
    while True:
        with document.changed:
            if len(document.events) <= at:
                document.changed.wait(patience)
            events = document.events[at:]
        at += len(events)
        if not events:
            yield ": waiting\n\n"
        for kind, values in events:
            yield f"event: {kind}\ndata: {json.dumps(values, ensure_ascii=False)}\n\n"
            if kind in ("done", "error", "closed"):
                return
