"""The translator: documents in, documents out, one translation per sentence."""

import math
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import Config, ScoringMemory, SearchConfig, build
from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.glossary import Found, Glossary
from wholedoc.corpus.vocabulary import EOS, UNK, Vocabulary
from wholedoc.decoding.alignment import Origin, align, token_spans
from wholedoc.decoding.cells import Recaller
from wholedoc.decoding.constraints import Enforcer, Requirement
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence
from wholedoc.decoding.known import KnownPair, find_approved, find_exact, find_remembered
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.recollection import (
    RecalledToken,
    RecalledWord,
    copied_words,
    join_words,
    recollect,
)
from wholedoc.decoding.results import (
    ScoredDocument,
    Task,
    Term,
    TermState,
    TranslatedDocument,
    Translation,
)
from wholedoc.decoding.scoring import (
    Candidate,
    ContextScores,
    score_candidates,
    score_context,
    score_documents,
)
from wholedoc.decoding.search import Hypothesis
from wholedoc.errors import UserError
from wholedoc.kernels import round_weights
from wholedoc.model.recall import Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.store.model import TrainedModel, load_model
from wholedoc.tm.memory import TranslationMemory

_MOST_SCORED_TOKENS = 10_000
Item = TypeVar("Item")


@dataclass(frozen=True)
class _Piece:
    """A sentence, or a part of one that is too long to be searched at once."""

    text: str
    separator: str
    """What stands between it and the next one."""
    tokens: Sentence
    """Its token ids, ``</s>`` included."""


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


@dataclass(frozen=True)
class _Prepared:
    """Sentences of a task, split and encoded, with what they know."""

    task: Task
    places: list[int]
    """Of the sentences: all of the document, or some."""
    pieces: list[list[_Piece]]
    """Of each sentence."""
    known: list[list[KnownPair]]
    """Of each sentence."""
    given: Mapping[int, str]
    """Translations that stay as they are, by the places of their sentences."""
    found: list[list[list[Found]]]
    """The terms of the glossary in each piece of each sentence."""

    @property
    def pieces_with_terms(self) -> list[tuple[_Piece, list[Found]]]:
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

    def select(self, places: Sequence[int]) -> "_Prepared":
        """Some sentences of a whole document."""
        pieces, known = [self.pieces[t] for t in places], [self.known[t] for t in places]
        found = [self.found[t] for t in places]
        return _Prepared(self.task, list(places), pieces, known, self.given, found)


class Translator:
    """Trained models, their vocabularies and their settings of search.

    ``Translator.load("runs/et-en").translate(["Esimene lause.", "Teine lause."]).sentences``
    """

    def __init__(self, trained: TrainedModel, *, int8: bool = False) -> None:
        """Make a translator of a loaded model.

        ``int8`` rounds the weights of a run to 8 bits; those of an export are always in 8 bits.
        """
        if int8 and not trained.int8:
            for module in (trained.base, trained.document, trained.vectors):
                if module is not None:
                    round_weights(module)
        self.trained = replace(trained, int8=int8 or trained.int8)
        self.src_vocabulary, self.trg_vocabulary = trained.src_vocabulary, trained.trg_vocabulary
        models = trained.document or trained.base, trained.base, trained.vectors
        recaller = self._recaller(trained.base, trained.base_recall)
        recallers = (recaller, recaller)
        if trained.document is not None:
            recallers = (self._recaller(trained.document, trained.document_recall), recaller)
        self.system = TranslationSystem(*models, self.trained.int8, trained.shortlist, *recallers)
        self.memories: tuple[TranslationMemory, ...] = ()
        """Recalled from in every translation: the model's own memory."""
        if trained.memory is not None and recaller is not None:
            self.memories = (TranslationMemory.open(trained.memory),)

    @classmethod
    def load(
        cls, model: str | Path, *, int8: bool = False, own_memory: bool = True
    ) -> "Translator":
        """Open a run directory, an export, or a shipped model; for ``int8`` see above.

        Without ``own_memory`` it does not recall from its training set, even where that was kept.
        """
        trained = load_model(model)
        return cls(trained if own_memory else replace(trained, memory=None), int8=int8)

    def _recaller(self, model: TranslationModel, recall: Recall | None) -> Recaller | None:
        vocabularies = self.src_vocabulary, self.trg_vocabulary
        return None if recall is None else Recaller(model, recall, vocabularies)

    @cached_property
    def _enforcer(self) -> Enforcer:
        """Finds terms of a glossary in translations, and searches for those without."""
        return Enforcer(self.trg_vocabulary, self.config.data.trg_language)

    @property
    def config(self) -> Config:
        """The configuration that the model was trained with; ``config.search`` is its search."""
        return self.trained.config

    @property
    def reads_documents(self) -> bool:
        """Whether a translation depends on the other sentences of its document."""
        return self.system.reads_documents

    def without_memory(self) -> "Translator":
        """The sentence model of the same run by itself."""
        trained = replace(self.trained, document=None, vectors=None, document_recall=None)
        return Translator(trained)

    def translate(
        self,
        sentences: Iterable[str],
        config: SearchConfig | None = None,
        nbest: int = 1,
        *,
        passes: int | None = None,
        approved: Mapping[int, str] | None = None,
        memories: Iterable[TranslationMemory | str | Path] = (),
        glossary: Glossary | str | Path | None = None,
    ) -> TranslatedDocument:
        """Translate one document, given as its sentences; ``passes`` updates of each translation.

        Without ``passes`` and ``config``, the settings kept with the model are used. ``approved``
        are translations by people, by the places of their sentences: they stay as they are, and the
        other sentences recall them. ``memories`` are recalled from beside the model's own. The
        terms of a ``glossary`` must be in the translations. Raises a ``UserError`` that names the
        argument at fault.
        """
        document = _check_document(sentences, "sentences")
        config = config or self.config.search
        if passes is not None:
            config = replace(config, passes=passes)
        known = Knowledge(
            [approved or {}], self.open_memories(memories), glossary=self.open_glossary(glossary)
        )
        return self.translate_documents([document], config, nbest, known=known, explain=True)[0]

    def approve(self, document: TranslatedDocument, place: int, text: str) -> TranslatedDocument:
        """Approve a translation of a sentence, and translate the document again with it.

        The others recall it at once. A model that translates each sentence by itself translates
        only those again that know more, or less, than before.
        """
        task = replace(document.task, approved={**document.task.approved, place: text})
        _check_approved([task.approved], [task.sentences])
        prepared = self._prepare_again(document, task)
        pairs = enumerate(zip(prepared.known, document.known, strict=True))
        changed = [t for t, (known, before) in pairs if known != before or t == place]
        return self._translate_again(document, prepared, changed)

    def change_glossary(
        self, document: TranslatedDocument, glossary: Glossary | None
    ) -> TranslatedDocument:
        """Translate a document again with another glossary, or with none.

        A model that translates each sentence by itself translates only those again that have other
        terms than before.
        """
        prepared = self._prepare_again(document, replace(document.task, glossary=glossary))
        before = _find_terms(document.task.glossary, prepared.pieces)
        pairs = enumerate(zip(prepared.found, before, strict=True))
        changed = [t for t, (found, others) in pairs if found != others]
        return self._translate_again(document, prepared, changed)

    def _prepare_again(self, document: TranslatedDocument, task: Task) -> "_Prepared":
        """Prepare a document that was translated; what it knows of memories is found already."""
        remembered = [[pair for pair in known if not pair.approved] for known in document.known]
        return self._prepare(task, remembered)

    def _translate_again(
        self, document: TranslatedDocument, prepared: "_Prepared", changed: Sequence[int]
    ) -> TranslatedDocument:
        """Translate the sentences that have changed, or the document where the others read them."""
        explain = document.recall is not None
        if self.reads_documents:
            return self._translate([prepared], explain=explain)[0]
        if not changed:
            return replace(document, task=prepared.task)
        (again,) = self._translate([prepared.select(changed)], explain=explain)
        return _replaced(document, again, changed, prepared.task)

    def translate_documents(
        self,
        documents: Iterable[Iterable[str]],
        config: SearchConfig | None = None,
        nbest: int = 1,
        progress: Progress | None = None,
        *,
        measure: bool = True,
        known: "Knowledge | None" = None,
        explain: bool = False,
    ) -> list[TranslatedDocument]:
        """Translate many documents at once.

        ``config`` replaces the model's own settings of search; ``progress`` is called with finished
        sentences and words; not to ``measure`` the objective saves time. A sentence of more than
        ``config.sentence_tokens`` is translated in pieces, each as a sentence of its document, and
        put together again. ``known`` is what people have translated; to ``explain`` is to find out
        what each word was recalled from.
        """
        config = build(SearchConfig, asdict(config or self.config.search), where="search settings")
        # As many hypotheses are followed at once as are asked for, so one limit serves both.
        build(SearchConfig, {"beam": nbest}, where=f"nbest = {nbest}")
        texts = _check_documents(documents, "documents")
        tasks = self._tasks(texts, known or Knowledge(), config, nbest)
        return self._translate([self._prepare(task) for task in tasks], progress, measure, explain)

    def open_memories(
        self, memories: Iterable[TranslationMemory | str | Path]
    ) -> tuple[TranslationMemory, ...]:
        """Translation memories, given themselves or by their paths; their languages must fit."""
        if isinstance(memories, str | Path):
            memories = [memories]
        opened = [
            memory if isinstance(memory, TranslationMemory) else TranslationMemory.open(memory)
            for memory in memories
        ]
        data = self.config.data
        for memory in opened:
            memory.check_languages(data.src_language, data.trg_language)
        if opened and self.system.base_recaller is None:
            raise UserError(
                "this model has not learned to recall",
                where="translation memory",
                fix="fit it first: wholedoc tm fit MODEL",
            )
        return tuple(opened)

    def open_glossary(self, glossary: Glossary | str | Path | None) -> Glossary | None:
        """A glossary, given itself or by its path."""
        if glossary is None or isinstance(glossary, Glossary):
            return glossary
        data = self.config.data
        return Glossary.read(glossary, data.src_language, data.trg_language)

    def _tasks(
        self, texts: list[list[str]], known: "Knowledge", config: SearchConfig, nbest: int
    ) -> list[Task]:
        approved = [dict(given) for given in known.approved] or [{} for _ in texts]
        _check_count(len(approved), len(texts), "documents", "approved")
        _check_approved(approved, texts)
        memories, befores = (*self.memories, *known.memories), known.befores or [""] * len(texts)
        return [
            Task(sentences, config, nbest, given, memories, known.rehearse, before, known.glossary)
            for sentences, given, before in zip(texts, approved, befores, strict=True)
        ]

    def _prepare(self, task: Task, remembered: list[list[KnownPair]] | None = None) -> "_Prepared":
        """Split and encode a document, and find what its sentences know.

        ``remembered`` is what they know of memories, where that was found before.
        """
        known = self._find_known(task, remembered)
        exact = dict(enumerate(map(find_exact, known))) if self.config.tm.exact else {}
        given = {  # on one line each, as all translations are
            t: " ".join(known[t][n].trg.splitlines()) for t, n in exact.items() if n is not None
        }
        if not task.rehearse:
            given |= task.approved
        pieces = [
            self._whole(text, task.config) if t in given else self._pieces(text, task.config)
            for t, text in enumerate(task.sentences)
        ]
        found = _find_terms(task.glossary, pieces)
        return _Prepared(task, list(range(len(pieces))), pieces, known, given, found)

    def _find_known(
        self, task: Task, remembered: list[list[KnownPair]] | None = None
    ) -> list[list[KnownPair]]:
        """What the sentences of a document know; nothing where the model cannot recall."""
        texts, limits = task.sentences, self.config.tm
        if self.system.base_recaller is None:
            return [[] for _ in texts]
        if remembered is None:
            remembered = find_remembered(texts, task.memories, limits, task.before)
        approved = find_approved(texts, task.approved, limits, task.rehearse)
        return [[*pairs, *more] for pairs, more in zip(remembered, approved, strict=True)]

    def _translate(
        self,
        prepared: "list[_Prepared]",
        progress: Progress | None = None,
        measure: bool = True,
        explain: bool = False,
    ) -> list[TranslatedDocument]:
        """Translate documents that were prepared, with the same settings of search."""
        if not prepared:
            return []
        task = prepared[0].task
        found = translate_documents(
            self.system,
            [each.tokens for each in prepared],
            task.config,
            task.nbest,
            progress,
            measure,
            [each.known_of_pieces for each in prepared],
            [self._encode_approved(each.fixed, task.config) for each in prepared],
            [self._wanted(each) for each in prepared],
            self._enforcer if task.glossary else None,
        )
        counts = [each.counts for each in prepared]
        cells = [counts[found.index(document.foreign or document)] for document in found]
        return [
            self._translated(*each, explain=explain)
            for each in zip(found, prepared, cells, strict=True)
        ]

    def align(self, document: TranslatedDocument, place: int) -> list[Origin]:
        """Where the words of a sentence's translation come from in the source."""
        text, translation = document.task.sentences[place], document.candidates[place][0]
        return align(text, translation, self.src_vocabulary)

    def score(
        self,
        sentences: Iterable[str],
        translations: Iterable[str],
        memory: ScoringMemory = "given",
        *,
        known: Knowledge | None = None,
    ) -> ScoredDocument:
        """How probable given translations of one document are, each given all others.

        The target memory is made from the given translations, or from ``generated`` ones. ``known``
        is what people have translated; with ``rehearse``, a sentence recalls what stands before it.
        """
        source = _check_document(sentences, "sentences")
        given = _check_document(translations, "translations")
        return self.score_documents([source], [given], memory, known=known)[0]

    def score_documents(
        self,
        documents: Iterable[Iterable[str]],
        translations: Iterable[Iterable[str]],
        memory: ScoringMemory = "given",
        *,
        known: Knowledge | None = None,
    ) -> list[ScoredDocument]:
        """Score given translations of many documents at once."""
        texts = _check_documents(documents, "documents")
        sources, targets = self._encode_pairs(texts, translations, memory)
        search = self.config.search
        tasks = self._tasks(texts, known or Knowledge(), search, 1)
        pairs = [self._find_known(task) for task in tasks]
        found = score_documents(self.system, sources, targets, search.batch_tokens, memory, pairs)
        return [
            ScoredDocument(scores, [len(tokens) + 1 for tokens in target])
            for scores, target in zip(found, targets, strict=True)
        ]

    def score_context(
        self,
        documents: Iterable[Iterable[str]],
        translations: Iterable[Iterable[str]],
        memory: ScoringMemory = "given",
        progress: Progress | None = None,
    ) -> list[ContextScores]:
        """Score given translations with their documents, without, and with other documents.

        ``progress`` is called with finished sentences and words, each condition by itself.
        """
        sources, targets = self._encode_pairs(documents, translations, memory)
        batch_tokens = self.config.search.batch_tokens
        return score_context(self.system, sources, targets, batch_tokens, memory, progress)

    def score_candidates(
        self,
        documents: Sequence[Sequence[str]],
        translations: Sequence[Sequence[str] | None],
        candidates: Sequence[tuple[int, int, str]],
    ) -> list[float]:
        """Score possible translations of single sentences: (document, sentence, text).

        ``translations`` of a document make its target memory, None leaves them to the model.
        """
        trg = self.trg_vocabulary
        return score_candidates(
            self.system,
            [[self._encode(text) for text in document] for document in documents],
            [
                None if given is None else [_encode(text, trg) for text in given]
                for given in translations
            ],
            [Candidate(d, t, _encode(text, trg)) for d, t, text in candidates],
            self.config.search.batch_tokens,
        )

    def _translated(
        self,
        document: DocumentTranslation,
        prepared: "_Prepared",
        cells: list[int],
        *,
        explain: bool,
    ) -> TranslatedDocument:
        """The texts of a document's translations; ``cells`` are pieces of what it has read."""
        task, counts = prepared.task, prepared.counts
        passes = []
        for found in document.passes:
            rest = iter(found)
            passes.append([self._joined(pieces, rest, task.config) for pieces in prepared.pieces])
        for t, place in enumerate(prepared.places):
            if place in prepared.given:  # to the letter
                for translations in passes:
                    translations[t] = [replace(translations[t][0], text=prepared.given[place])]
        return TranslatedDocument(
            passes[-1],
            [[candidates[0].text for candidates in translations] for translations in passes],
            join_weights(document.readings.src_weights, counts, cells),
            join_weights(document.readings.trg_weights, counts, cells),
            document.objective,
            counts,
            prepared.known,
            self._recollect(document, prepared) if explain else None,
            task,
            self._terms(document, prepared) if task.glossary else [[] for _ in counts],
        )

    def _wanted(self, prepared: "_Prepared") -> list[list[Requirement]]:
        """What is required of the translation of each piece; nothing without a glossary."""
        glossary = prepared.task.glossary
        if glossary is None:
            return []
        wanted: list[list[Requirement]] = []
        for piece, terms in prepared.pieces_with_terms:
            if not terms:
                wanted.append([])
                continue
            spans = token_spans(piece.text, self.src_vocabulary.tokens(clean_text(piece.text)))
            of_piece: list[Requirement] = []
            for start, end, entry in terms:
                within = (n for n, (a, b) in enumerate(spans) if a < end and b > start)
                source = tuple(n for n in within if n < len(piece.tokens) - 1)
                forms = glossary.forms[entry.target]
                of_piece.append(Requirement(entry.target, forms, source=source))
            wanted.append(of_piece)
        return wanted

    def _terms(self, document: DocumentTranslation, prepared: "_Prepared") -> list[list[Term]]:
        """The terms of each sentence, and whether its translation has them."""
        hypotheses, wanted = iter(document.passes[-1]), iter(self._wanted(prepared))
        every = []
        for t, place in enumerate(prepared.places):
            terms: list[Term] = []
            offset = 0
            for piece, found in zip(prepared.pieces[t], prepared.found[t], strict=True):
                best, required = next(hypotheses)[0], next(wanted)
                if not found:
                    offset += len(piece.text) + len(piece.separator)
                    continue
                text = self._translation(piece.text, best, prepared.task.config).text
                spans = self._enforcer.locate(required, prepared.given.get(place, text))
                for n, (each, span) in enumerate(zip(found, spans, strict=True)):
                    state: TermState = "enforced" if n in best.enforced else "kept"
                    start, end = each.start + offset, each.end + offset
                    if span is None:
                        state = "missing"
                    terms.append(Term(each.entry.source, each.entry.target, start, end, state))
                offset += len(piece.text) + len(piece.separator)
            every.append(terms)
        return every

    def _recollect(
        self, document: DocumentTranslation, prepared: "_Prepared"
    ) -> list[list[RecalledWord]]:
        """What the words of the final translations were recalled from, sentence by sentence."""
        words: list[list[RecalledWord]] = [[] for _ in prepared.pieces]
        system, first = self.system, prepared.task.config.first_pass
        by_document = system.reads_documents and (len(document.passes) > 1 or first == "document")
        recaller = system.recaller if by_document else system.base_recaller
        if recaller is None:
            return words
        ids = [list(found) for found in document.tokens]
        tokens = [[RecalledToken(0.0, 0.0, ())] * len(found) for found in ids]
        if any(prepared.known):
            tokens = recollect(
                recaller,
                document.sentences,
                ids,
                prepared.known_of_pieces,
                [document.readings] if by_document else [],
                prepared.task.config.batch_tokens,
            )
        owners = [t for t, count in enumerate(prepared.counts) for _ in range(count)]
        for i, (t, found) in enumerate(zip(owners, tokens, strict=True)):
            if prepared.places[t] not in prepared.given:
                names = self.trg_vocabulary.to_tokens(document.tokens[i])
                words[t] += join_words(found, names, prepared.known[t], self.trg_vocabulary)
            elif prepared.places[t] not in prepared.task.approved:
                words[t] = copied_words(prepared.known[t])
        return words

    def _joined(
        self, pieces: list[_Piece], hypotheses: Iterator[list[Hypothesis]], config: SearchConfig
    ) -> list[Translation]:
        """The translations of a sentence from those of its pieces: the best of each, then the next.

        The log-probability is the sum, normalised for length as that of one sentence.
        """
        parts = [
            [self._translation(piece.text, found, config) for found in next(hypotheses)]
            for piece in pieces
        ]
        if len(parts) == 1:
            return parts[0]
        joined = []
        for rank in range(max(map(len, parts))):
            chosen = [part[min(rank, len(part) - 1)] for part in parts]
            pairs = zip(chosen, pieces, strict=True)
            text = "".join(found.text + piece.separator for found, piece in pairs if found.text)
            log_probability = math.fsum(found.log_probability for found in chosen)
            words = sum(len(found.attention) for found in chosen if found.attention is not None)
            score = log_probability / words**config.length_penalty
            joined.append(Translation(text.strip(), log_probability, score, None))
        return joined

    def _whole(self, text: str, config: SearchConfig) -> list[_Piece]:
        """A sentence that is not translated; of a very long one, its beginning is read."""
        tokens = self._encode(text[: 10 * config.sentence_tokens])
        return [_Piece(text, "", [*tokens[:-1][: config.sentence_tokens], EOS])]

    def _encode_approved(
        self, fixed: Mapping[int, str], config: SearchConfig
    ) -> dict[int, Sentence]:
        most = config.sentence_tokens
        return {
            i: _encode(text[: 10 * most], self.trg_vocabulary)[:most] for i, text in fixed.items()
        }

    def _pieces(self, text: str, config: SearchConfig) -> list[_Piece]:
        """A sentence as it is, or in pieces where it is too long for one search."""
        whole = self._split(text, config.sentence_tokens)
        return whole if len(whole) == 1 else self._split(text, config.piece_tokens)

    def _split(self, text: str, most: int) -> list[_Piece]:
        """A sentence in pieces of at most so many tokens, or ten times as many characters.

        Text is cut at white space near its middle, or inside a word where there is none. Tokens
        are counted only where characters are few, so that time grows no faster than length.
        """
        tokens = self._encode(text) if len(text) <= 10 * most else []
        if (tokens and len(tokens) - 1 <= most) or len(text) < 2:
            return [_Piece(text, "", tokens)]
        middle = len(text) // 2
        spaces = (
            text.rfind(" ", middle // 2, middle),
            text.find(" ", middle, middle + middle // 2),
        )
        cut = min(spaces, key=lambda place: abs(place - middle))
        first, second = (text[:cut], text[cut + 1 :]) if cut > 0 else (text[:middle], text[middle:])
        *head, last = self._split(first, most)
        last = replace(last, separator=" " if cut > 0 else "")
        return [*head, last, *self._split(second, most)]

    def _encode_pairs(
        self,
        documents: Iterable[Iterable[str]],
        translations: Iterable[Iterable[str]],
        memory: ScoringMemory,
    ) -> tuple[list[list[Sentence]], list[list[Sentence]]]:
        """The token ids of both sides; each sentence must have a translation."""
        if memory not in get_args(ScoringMemory):
            choices = ", ".join(get_args(ScoringMemory))
            raise UserError(f"{memory!r} is not a choice", where="memory", fix=f"use {choices}")
        texts = _check_documents(documents, "documents")
        given = _check_documents(translations, "translations")
        _check_count(len(given), len(texts), "documents", "translations")
        for d, (source, target) in enumerate(zip(texts, given, strict=True)):
            _check_count(len(target), len(source), "sentences", f"translations[{d}]")
        sources = [[self._encode(text) for text in document] for document in texts]
        targets = [[_encode(text, self.trg_vocabulary) for text in each] for each in given]
        longest = max((len(s) for side in (sources, targets) for d in side for s in d), default=0)
        if longest > _MOST_SCORED_TOKENS:  # its attention would fill the memory
            raise UserError(
                f"a sentence has {longest:,} tokens; at most {_MOST_SCORED_TOKENS:,} can be scored",
                where="scoring",
                fix="split the text into sentences first",
            )
        return sources, targets

    def _encode(self, text: str) -> list[int]:
        """The token ids of a source sentence, ``</s>`` included."""
        return [*_encode(text, self.src_vocabulary), EOS]

    def _translation(self, text: str, found: Hypothesis, config: SearchConfig) -> Translation:
        tokens = self.trg_vocabulary.to_tokens(found.tokens)
        if config.replace_unknown != "none" and UNK in found.tokens:
            # The source word that each <unk> attends to most, </s> left out, or its translation.
            lexicon = self.trained.lexicon if config.replace_unknown == "lexicon" else {}
            words = self.src_vocabulary.tokens(text)
            attended = found.attention[:-1, :-1].argmax(dim=-1).tolist()
            tokens = [
                lexicon.get(words[i], words[i]) if token == UNK else name
                for name, token, i in zip(tokens, found.tokens, attended, strict=True)
            ]
        # A byte-wise vocabulary can spell a line break, which would shift all lines after it.
        line = " ".join(self.trg_vocabulary.decode_tokens(tokens).splitlines())
        return Translation(line, found.log_probability, found.score, found.attention, tokens)


def _find_terms(
    glossary: Glossary | None, pieces: Sequence[Sequence[_Piece]]
) -> list[list[list[Found]]]:
    """The terms of a glossary in each piece of each sentence."""
    find = glossary.find if glossary else lambda _: []
    return [[find(piece.text) for piece in of_sentence] for of_sentence in pieces]


def _replaced(
    before: TranslatedDocument, again: TranslatedDocument, places: Sequence[int], task: Task
) -> TranslatedDocument:
    """A document of which some sentences were translated again."""
    parts: dict[str, Any] = {}
    names = ["candidates", "pieces", "known", "terms", *["recall"] * (before.recall is not None)]
    for name in names:
        parts[name] = list(getattr(before, name))
        for place, value in zip(places, getattr(again, name), strict=True):
            parts[name][place] = value
    history = [[found[0].text for found in parts["candidates"]]]
    return replace(before, history=history, task=task, **parts)


def join_weights(
    weights: Float[Tensor, "piece cell"] | None, readers: Sequence[int], read: Sequence[int]
) -> Float[Tensor, "sent read"] | None:
    """Weights between sentences from those between pieces, of which each sentence has a number.

    A sentence reads as its pieces do on average, and a sentence is read as much as all its pieces.
    """
    if weights is None or max(*readers, *read, 1) == 1:
        return weights
    rows, columns = (
        torch.repeat_interleave(torch.tensor(pieces, device=weights.device))
        for pieces in (readers, read)
    )
    summed = weights.new_zeros(len(readers), weights.shape[1]).index_add_(0, rows, weights)
    joined = weights.new_zeros(len(readers), len(read)).index_add_(1, columns, summed)
    return joined / weights.new_tensor(readers)[:, None]


def _check_documents(documents: Iterable[Iterable[str]], where: str) -> list[list[str]]:
    checked = _check_list(documents, "documents", where)
    return [_check_document(document, f"{where}[{d}]") for d, document in enumerate(checked)]


def _check_document(sentences: Iterable[str], where: str) -> list[str]:
    checked = _check_list(sentences, "sentences", where)
    for t, sentence in enumerate(checked):
        if not isinstance(sentence, str):
            fix = "decode it first" if isinstance(sentence, bytes) else "give a text"
            raise UserError(
                f"{reprlib.repr(sentence)} is not a text", where=f"{where}[{t}]", fix=fix
            )
    return checked


def _check_approved(approved: Sequence[Mapping[int, str]], texts: Sequence[Sequence[str]]) -> None:
    for d, (given, sentences) in enumerate(zip(approved, texts, strict=True)):
        for place, text in given.items():
            where = f"approved[{d}][{place!r}]" if len(texts) > 1 else f"approved[{place!r}]"
            if not isinstance(place, int) or not 0 <= place < len(sentences):
                what = f"there is no sentence {place!r} in a document of {len(sentences)}"
                raise UserError(what, where=where, fix="count sentences from 0")
            if not isinstance(text, str):
                what = f"{reprlib.repr(text)} is not a text"
                raise UserError(what, where=where, fix="give a text")


def _check_list(values: Iterable[Item], kind: str, where: str) -> list[Item]:
    """Values as a list; a text by itself would be taken for its characters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        fix = f"give a list of {kind}, not one text"
        raise UserError(f"{reprlib.repr(values)} is not a list of {kind}", where=where, fix=fix)
    return list(values)


def _check_count(given: int, wanted: int, kind: str, where: str) -> None:
    """Raise where there is not one translation for each document, or for each sentence."""
    if given != wanted:
        fix = f"give one for each of the {kind}"
        raise UserError(f"{given} translations are given for {wanted} {kind}", where=where, fix=fix)


def _encode(text: str, vocabulary: Vocabulary) -> list[int]:
    """The token ids of a sentence; one of white space alone has none."""
    text = clean_text(text)
    return vocabulary.encode(text) if text.strip() else []
