"""From text to what is searched: sentences split and encoded, and what each of them knows."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

from wholedoc.config import Config, ScoringMemory, SearchConfig
from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.glossary import Found, Glossary
from wholedoc.corpus.vocabulary import EOS, Vocabulary
from wholedoc.decoding.arguments import check_approved, check_count, check_documents
from wholedoc.decoding.document import Sentence
from wholedoc.decoding.known import KnownPair, find_approved, find_exact, find_remembered
from wholedoc.decoding.results import Task, TranslatedDocument
from wholedoc.errors import UserError
from wholedoc.formats.protected import find_protected
from wholedoc.tm.memory import TranslationMemory

_MOST_SCORED_TOKENS = 10_000
_MOST_PROTECTED = 60  # characters in a sentence that search has to copy
_LEAST_LONG = 10  # characters of a part that is read by a stand-in


@dataclass(frozen=True)
class Piece:
    """A sentence, or a part of one that is too long to be searched at once."""

    text: str
    separator: str
    """What stands between it and the next one."""
    tokens: Sentence
    """Its token ids, ``</s>`` included."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """What the model reads and writes instead of long parts that are not text."""

    @property
    def read(self) -> str:
        """The text as the model reads it."""
        text = self.text
        for short, long in self.stand_ins.items():
            text = text.replace(long, short)
        return text

    def restore(self, text: str) -> str:
        """A translation, or a part of it, with what the stand-ins stand for."""
        for short, long in self.stand_ins.items():
            text = text.replace(short, long)
        return text


@dataclass(frozen=True)
class Knowledge:
    """What people have translated: approved sentences of documents, and translation memories."""

    approved: Sequence[Mapping[int, str]] = ()
    """For each document, translations by the places of their sentences; or nothing at all. They
    stay as they are, and the other sentences recall them."""
    memories: tuple[TranslationMemory, ...] = ()
    """Recalled from beside the model's own."""
    rehearse: bool = False
    """A translator at work, from top to bottom: approved sentences are translated too, and each
    sentence recalls those before it alone."""
    befores: Sequence[str] = ()
    """For each document, the sentence before its first one, where it is a part of another."""
    glossary: Glossary | None = None
    """Terms that translations must have."""
    protect: bool = True
    """Whether what is not text must come through as it is: placeholders, addresses, paths."""


@dataclass(frozen=True)
class Prepared:
    """Sentences of a task, split and encoded, with what they know."""

    task: Task
    places: list[int]
    """Of the sentences: all of the document, or some."""
    pieces: list[list[Piece]]
    """Of each sentence."""
    known: list[list[KnownPair]]
    """Of each sentence."""
    given: Mapping[int, str]
    """Translations that stay as they are, by the places of their sentences."""
    found: list[list[list[Found]]]
    """The terms of the glossary in each piece of each sentence."""

    @property
    def pieces_with_terms(self) -> list[tuple[Piece, list[Found]]]:
        """All pieces, each with the terms in it."""
        sentences = zip(self.pieces, self.found, strict=True)
        return [pair for each in sentences for pair in zip(*each, strict=True)]

    @property
    def counts(self) -> list[int]:
        """Pieces of each sentence."""
        return [len(pieces) for pieces in self.pieces]

    @property
    def tokens(self) -> list[Sentence]:
        """The token ids of all pieces."""
        return [piece.tokens for pieces in self.pieces for piece in pieces]

    @property
    def known_of_pieces(self) -> list[list[KnownPair]]:
        """A piece knows what its sentence knows."""
        pairs = zip(self.pieces, self.known, strict=True)
        return [known for pieces, known in pairs for _ in pieces]

    @property
    def fixed(self) -> dict[int, str]:
        """The translations that stay as they are, by the places of their pieces."""
        found, first = {}, 0
        for place, pieces in zip(self.places, self.pieces, strict=True):
            if place in self.given:
                found[first] = self.given[place]
            first += len(pieces)
        return found

    def select(self, places: Sequence[int]) -> "Prepared":
        """Some sentences of a whole document."""
        pieces, known = [self.pieces[t] for t in places], [self.known[t] for t in places]
        found = [self.found[t] for t in places]
        return Prepared(self.task, list(places), pieces, known, self.given, found)


@dataclass(frozen=True)
class Preparer:
    """A model's vocabularies and settings, by which documents are prepared for it."""

    config: Config
    src_vocabulary: Vocabulary
    trg_vocabulary: Vocabulary
    recalls: bool
    """Whether the model has learned to recall."""

    def make_tasks(
        self, texts: list[list[str]], known: Knowledge, config: SearchConfig, nbest: int
    ) -> list[Task]:
        """What is to be done with each document; raises where it cannot be."""
        approved = [dict(given) for given in known.approved] or [{} for _ in texts]
        check_count(len(approved), len(texts), "documents", "approved")
        check_approved(approved, texts)
        befores = known.befores or [""] * len(texts)
        shared = Task([], config, nbest, {}, known.memories, known.rehearse, "", known.glossary)
        shared = replace(shared, protect=known.protect)
        return [
            replace(shared, sentences=sentences, approved=given, before=before)
            for sentences, given, before in zip(texts, approved, befores, strict=True)
        ]

    def prepare(self, task: Task, remembered: list[list[KnownPair]] | None = None) -> Prepared:
        """Split and encode a document, and find what its sentences know.

        ``remembered`` is what they know of memories, where that was found before.
        """
        known = self.find_known(task, remembered)
        exact = dict(enumerate(map(find_exact, known))) if self.config.tm.exact else {}
        given = {  # on one line each, as all translations are
            t: " ".join(known[t][n].trg.splitlines()) for t, n in exact.items() if n is not None
        }
        if task.glossary:
            given = self._terms_alone(task.glossary, task.sentences) | given
        if not task.rehearse:
            given |= task.approved
        pieces = [
            self._whole(text, task.config) if t in given else self._pieces(text, task.config)
            for t, text in enumerate(task.sentences)
        ]
        if task.protect:
            pieces = [[self._shorten(piece) for piece in each] for each in pieces]
        found = find_terms(task.glossary, pieces)
        return Prepared(task, list(range(len(pieces))), pieces, known, given, found)

    def _terms_alone(self, glossary: Glossary, sentences: Sequence[str]) -> dict[int, str]:
        """The translations of sentences that are a term of the glossary and no more."""
        found = enumerate(map(glossary.translate_term, sentences))
        return {t: translation for t, translation in found if translation is not None}

    def prepare_again(self, document: TranslatedDocument, task: Task) -> Prepared:
        """Prepare a task of sentences that were translated before: no memory is searched again."""
        remembered = [[pair for pair in known if not pair.approved] for known in document.known]
        return self.prepare(task, remembered)

    def find_known(
        self, task: Task, remembered: list[list[KnownPair]] | None = None
    ) -> list[list[KnownPair]]:
        """What the sentences of a document know; nothing where the model cannot recall."""
        texts, limits = task.sentences, self.config.tm
        if not self.recalls:
            return [[] for _ in texts]
        if remembered is None:
            remembered = find_remembered(texts, task.memories, limits, task.before)
        approved = find_approved(texts, task.approved, limits, task.rehearse)
        return [[*pairs, *more] for pairs, more in zip(remembered, approved, strict=True)]

    def _shorten(self, piece: Piece) -> Piece:
        """Give long parts that are not text a stand-in, until few characters are left of them.

        A model copies ``{1}`` well and an address of a hundred letters badly.
        """
        spans = find_protected(piece.text)
        parts = sorted({piece.text[start:end] for start, end in spans}, key=len)
        names = (name for n in itertools.count(1) if (name := f"{{{n}}}") not in piece.text)
        stand_ins: dict[str, str] = {}
        while sum(map(len, parts)) > _MOST_PROTECTED and len(parts[-1]) > _LEAST_LONG:
            stand_ins[next(names)] = parts.pop()
        if not stand_ins:
            return piece
        shorter = replace(piece, stand_ins=stand_ins)
        return replace(shorter, tokens=self.encode_source(shorter.read))

    def _whole(self, text: str, config: SearchConfig) -> list[Piece]:
        """A sentence that is not translated; of a very long one, its beginning is read."""
        tokens = self.encode_source(text[: 10 * config.sentence_tokens])
        return [Piece(text, "", [*tokens[:-1][: config.sentence_tokens], EOS])]

    def _pieces(self, text: str, config: SearchConfig) -> list[Piece]:
        """A sentence as it is, or in pieces where it is too long for one search."""
        whole = self.split(text, config.sentence_tokens)
        return whole if len(whole) == 1 else self.split(text, config.piece_tokens)

    def split(self, text: str, most: int) -> list[Piece]:
        """A sentence in pieces of at most so many tokens, or ten times as many characters.

        Text is cut at white space near its middle, or inside a word where there is none. Tokens
        are counted only where characters are few, so that time grows no faster than length.
        """
        tokens = self.encode_source(text) if len(text) <= 10 * most else []
        if (tokens and len(tokens) - 1 <= most) or len(text) < 2:
            return [Piece(text, "", tokens)]
        middle = len(text) // 2
        spaces = (
            text.rfind(" ", middle // 2, middle),
            text.find(" ", middle, middle + middle // 2),
        )
        cut = min(spaces, key=lambda place: abs(place - middle))
        first, second = (text[:cut], text[cut + 1 :]) if cut > 0 else (text[:middle], text[middle:])
        *head, last = self.split(first, most)
        last = replace(last, separator=" " if cut > 0 else "")
        return [*head, last, *self.split(second, most)]

    def encode_pairs(
        self,
        documents: Iterable[Iterable[str]],
        translations: Iterable[Iterable[str]],
        memory: ScoringMemory,
    ) -> tuple[list[list[Sentence]], list[list[Sentence]]]:
        """The token ids of both sides; each sentence must have a translation."""
        if memory not in get_args(ScoringMemory):
            choices = ", ".join(get_args(ScoringMemory))
            raise UserError(f"{memory!r} is not a choice", where="memory", fix=f"use {choices}")
        texts = check_documents(documents, "documents")
        given = check_documents(translations, "translations")
        check_count(len(given), len(texts), "documents", "translations")
        for d, (source, target) in enumerate(zip(texts, given, strict=True)):
            check_count(len(target), len(source), "sentences", f"translations[{d}]")
        sources = [[self.encode_source(text) for text in document] for document in texts]
        targets = [[encode(text, self.trg_vocabulary) for text in each] for each in given]
        longest = max((len(s) for side in (sources, targets) for d in side for s in d), default=0)
        if longest > _MOST_SCORED_TOKENS:  # its attention would fill the memory
            raise UserError(
                f"a sentence has {longest:,} tokens; at most {_MOST_SCORED_TOKENS:,} can be scored",
                where="scoring",
                fix="split the text into sentences first",
            )
        return sources, targets

    def encode_source(self, text: str) -> list[int]:
        """The token ids of a source sentence, ``</s>`` included."""
        return [*encode(text, self.src_vocabulary), EOS]


def find_terms(
    glossary: Glossary | None, pieces: Sequence[Sequence[Piece]]
) -> list[list[list[Found]]]:
    """The terms of a glossary in each piece of each sentence.

    What is only a part of an address or of another protected part is none.
    """

    def find(text: str) -> list[Found]:
        spans = find_protected(text)
        return [
            term
            for term in (glossary.find(text) if glossary else [])
            if not any(
                start < term.end and term.start < end and not term.start <= start <= end <= term.end
                for start, end in spans
            )
        ]

    return [[find(piece.text) for piece in of_sentence] for of_sentence in pieces]


def encode(text: str, vocabulary: Vocabulary) -> list[int]:
    """The token ids of a sentence; one of white space alone has none."""
    text = clean_text(text)
    return vocabulary.encode(text) if text.strip() else []
