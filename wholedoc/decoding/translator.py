"""The translator: documents in, documents out, one translation per sentence."""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from wholedoc.config import Config, ScoringMemory, SearchConfig, build
from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.alignment import Origin, align
from wholedoc.decoding.answering import Answerer
from wholedoc.decoding.arguments import (
    check_approved,
    check_document,
    check_documents,
    check_place,
    check_type,
)
from wholedoc.decoding.cells import Recaller
from wholedoc.decoding.document import Progress
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.preparing import Knowledge as Knowledge
from wholedoc.decoding.preparing import Prepared, Preparer, encode, find_terms
from wholedoc.decoding.results import ScoredDocument, Task, TranslatedDocument, Translation
from wholedoc.decoding.scoring import (
    Candidate,
    ContextScores,
    score_candidates,
    score_context,
    score_documents,
)
from wholedoc.decoding.streaming import CHUNK, Stream
from wholedoc.errors import UserError
from wholedoc.kernels import round_weights
from wholedoc.model.recall import Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.store.model import TrainedModel, load_model
from wholedoc.tm.memory import TranslationMemory


class Translator:
    """Trained models, their vocabularies and their settings of search; for any number of threads.

    >>> translator = Translator.load("de-en")
    >>> document = translator.translate(["Klicken Sie auf OK.", "Die Datei wird gespeichert."])
    >>> len(document.sentences)
    2
    """

    def __init__(self, trained: TrainedModel, *, int8: bool = False) -> None:
        """Make a translator of a loaded model.

        ``int8`` rounds the weights of a run to 8 bits; those of an export are always in 8 bits.
        """
        if int8 and not trained.int8:
            trained = _rounded(trained)
        self.trained = trained
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
        vocabularies = self.src_vocabulary, self.trg_vocabulary
        self._preparer = Preparer(trained.config, *vocabularies, recaller is not None)
        self._answerer = Answerer(self.trained, self.system)

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
        protect: bool = True,
    ) -> TranslatedDocument:
        """Translate one document, given as its sentences; ``passes`` updates of each translation.

        Without ``passes`` and ``config``, the settings kept with the model are used. ``approved``
        are translations by people, by the places of their sentences: they stay as they are, and the
        other sentences recall them. ``memories`` are recalled from beside the model's own. The
        terms of a ``glossary`` must be in the translations. What is not text, such as ``{name}``
        and addresses, passes through, unless ``protect`` is false. Raises a ``UserError`` that
        names the argument at fault.

        >>> translator = Translator.load("de-en")
        >>> document = translator.translate(["Erstens.", "Zweitens."], approved={0: "First."})
        >>> document.sentences[0]
        'First.'
        """
        known = self._knowledge(approved, memories, glossary, protect)
        task = self._task(sentences, config, nbest, passes, known)
        return self._answerer.translate([self._preparer.prepare(task)], explain=True)[0]

    def stream(
        self,
        sentences: Iterable[str],
        config: SearchConfig | None = None,
        nbest: int = 1,
        *,
        passes: int | None = None,
        approved: Mapping[int, str] | None = None,
        memories: Iterable[TranslationMemory | str | Path] = (),
        glossary: Glossary | str | Path | None = None,
        protect: bool = True,
        together: int = CHUNK,
        explain: bool = True,
    ) -> Stream:
        """Translate one document step by step, for people who watch.

        Takes what :meth:`translate` takes, and checks it at once. Iterate over the stream: each
        update is a sentence that has a translation, or another one after a further pass. Then
        ``stream.document`` is what :meth:`translate` would have returned. So many sentences appear
        ``together``; not to ``explain`` what words were recalled from saves time.

        >>> stream = Translator.load("de-en").stream(["Guten Tag.", "Auf Wiedersehen."])
        >>> [update.place for update in stream]
        [0, 1]
        >>> len(stream.document.sentences)
        2
        """
        known = self._knowledge(approved, memories, glossary, protect)
        task = self._task(sentences, config, nbest, passes, known)
        if together < 1:
            fix = "give 1 or more"
            raise UserError(f"cannot be {together}", where="stream(together=…)", fix=fix)
        return Stream(task, self._preparer, self._answerer, together, explain=explain)

    def approve(self, document: TranslatedDocument, place: int, text: str) -> TranslatedDocument:
        """Approve a translation of a sentence, and translate the document again with it.

        The others recall it at once. A model that translates each sentence by itself translates
        only those again that know more, or less, than before. The given document stays as it is.

        >>> translator = Translator.load("de-en")
        >>> document = translator.translate(["Guten Tag.", "Auf Wiedersehen."])
        >>> again = translator.approve(document, 1, "See you soon.")
        >>> again.sentences[1], again.approved, document.approved
        ('See you soon.', [1], [])
        """
        task = replace(document.task, approved={**document.task.approved, place: text})
        check_approved([task.approved], [task.sentences])
        prepared = self._preparer.prepare_again(document, task)
        pairs = enumerate(zip(prepared.known, document.known, strict=True))
        changed = [t for t, (known, before) in pairs if known != before or t == place]
        return self._translate_again(document, prepared, changed)

    def change_glossary(
        self, document: TranslatedDocument, glossary: Glossary | str | Path | None
    ) -> TranslatedDocument:
        """Translate a document again with another glossary, or with none.

        A model that translates each sentence by itself translates only those again that have other
        terms than before.
        """
        task = replace(document.task, glossary=self.open_glossary(glossary))
        prepared = self._preparer.prepare_again(document, task)
        before = find_terms(document.task.glossary, prepared.pieces)
        pairs = enumerate(zip(prepared.found, before, strict=True))
        changed = [t for t, (found, others) in pairs if found != others]
        return self._translate_again(document, prepared, changed)

    def _translate_again(
        self, document: TranslatedDocument, prepared: Prepared, changed: Sequence[int]
    ) -> TranslatedDocument:
        """Translate the sentences that have changed, or the document where the others read them."""
        explain = document.recall is not None
        if self.reads_documents:
            return self._answerer.translate([prepared], explain=explain)[0]
        if not changed:
            return replace(document, task=prepared.task)
        (again,) = self._answerer.translate([prepared.select(changed)], explain=explain)
        return _replaced(document, again, changed, prepared.task)

    def alternatives(
        self, document: TranslatedDocument, place: int, count: int = 5
    ) -> list[Translation]:
        """The best translations of a sentence of a document, the others being as they are.

        There may be fewer than ``count``; an approved sentence has the approved one alone.

        >>> translator = Translator.load("de-en")
        >>> document = translator.translate(["Die Datei wird gespeichert."])
        >>> 1 <= len(translator.alternatives(document, 0, count=3)) <= 3
        True
        """
        check_place(place, document.task.sentences, "place")
        _check_nbest(count, "count")
        config = replace(document.task.config, beam=max(document.task.config.beam, count))
        task = replace(document.task, config=config, nbest=count)
        prepared = self._preparer.prepare_again(document, task)
        if self.reads_documents:
            return self._answerer.translate([prepared], measure=False)[0].candidates[place]
        return self._answerer.translate([prepared.select([place])])[0].candidates[0]

    def translate_documents(
        self,
        documents: Iterable[Iterable[str]],
        config: SearchConfig | None = None,
        nbest: int = 1,
        progress: Progress | None = None,
        *,
        measure: bool = True,
        known: Knowledge | None = None,
        explain: bool = False,
    ) -> list[TranslatedDocument]:
        """Translate many documents at once.

        ``config`` replaces the model's own settings of search; ``progress`` is called with finished
        sentences and words; not to ``measure`` the objective saves time. A sentence of more than
        ``config.sentence_tokens`` is translated in pieces, each as a sentence of its document, and
        put together again. ``known`` is what people have translated; to ``explain`` is to find out
        what each word was recalled from.

        >>> translator = Translator.load("de-en")
        >>> found = translator.translate_documents([["Guten Tag.", "Danke."], [], ["Danke."]])
        >>> [len(document.sentences) for document in found]
        [2, 0, 1]
        """
        texts = check_documents(documents, "documents")
        tasks = self._tasks(texts, known, config or self.config.search, nbest)
        prepared = [self._preparer.prepare(task) for task in tasks]
        return self._answerer.translate(prepared, progress, measure, explain)

    def open_memories(
        self, memories: Iterable[TranslationMemory | str | Path]
    ) -> tuple[TranslationMemory, ...]:
        """Translation memories, given themselves or by their paths; their languages must fit."""
        if isinstance(memories, str | Path):
            memories = [memories]
        check_type(memories, Iterable, "a list of memories or of their paths", "memories")
        for memory in (memories := list(memories)):
            check_type(memory, (TranslationMemory, str, Path), "a memory or its path", "memories")
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
        check_type(glossary, (str, Path), "a Glossary or its path", "glossary")
        data = self.config.data
        return Glossary.read(glossary, data.src_language, data.trg_language)

    def _knowledge(
        self,
        approved: Mapping[int, str] | None,
        memories: Iterable[TranslationMemory | str | Path],
        glossary: Glossary | str | Path | None,
        protect: bool,
    ) -> Knowledge:
        """What is known of one document."""
        if approved is not None:
            check_type(
                approved, Mapping, "translations by the places of their sentences", "approved"
            )
        return Knowledge(
            [approved or {}],
            self.open_memories(memories),
            glossary=self.open_glossary(glossary),
            protect=protect,
        )

    def _task(
        self,
        sentences: Iterable[str],
        config: SearchConfig | None,
        nbest: int,
        passes: int | None,
        known: Knowledge,
    ) -> Task:
        """One document to translate."""
        document = check_document(sentences, "sentences")
        config = self.config.search if config is None else config
        check_type(config, SearchConfig, "a SearchConfig", "config")
        if passes is not None:
            config = replace(config, passes=passes)
        return self._tasks([document], known, config, nbest)[0]

    def _tasks(
        self, texts: list[list[str]], known: Knowledge | None, config: SearchConfig, nbest: int
    ) -> list[Task]:
        """Documents to translate, with the model's own memory."""
        check_type(config, SearchConfig, "a SearchConfig", "config")
        config = build(SearchConfig, asdict(config), where="search settings")
        _check_nbest(nbest, "nbest")
        known = known or Knowledge()
        known = replace(known, memories=(*self.memories, *known.memories))
        return self._preparer.make_tasks(texts, known, config, nbest)

    def align(self, document: TranslatedDocument, place: int) -> list[Origin]:
        """Where the words of a sentence's translation come from in the source."""
        check_place(place, document.task.sentences, "place")
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

        >>> translator = Translator.load("de-en")
        >>> right = translator.score(["Die Datei ist leer."], ["The file is empty."])
        >>> wrong = translator.score(["Die Datei ist leer."], ["The boat sings quietly."])
        >>> right.perplexity < wrong.perplexity
        True
        """
        source = check_document(sentences, "sentences")
        given = check_document(translations, "translations")
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
        texts = check_documents(documents, "documents")
        sources, targets = self._preparer.encode_pairs(texts, translations, memory)
        search = self.config.search
        tasks = self._tasks(texts, known, search, 1)
        pairs = [self._preparer.find_known(task) for task in tasks]
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
        sources, targets = self._preparer.encode_pairs(documents, translations, memory)
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
            [[self._preparer.encode_source(text) for text in document] for document in documents],
            [
                None if given is None else [encode(text, trg) for text in given]
                for given in translations
            ],
            [Candidate(d, t, encode(text, trg)) for d, t, text in candidates],
            self.config.search.batch_tokens,
        )


def _check_nbest(count: int, name: str) -> None:
    """As many hypotheses are followed at once as are asked for, so one limit serves both."""
    build(SearchConfig, {"beam": count}, where=f"{name} = {count}")


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


def _rounded(trained: TrainedModel) -> TrainedModel:
    """The model with its weights rounded to 8 bits; the given one, which others use, stays."""
    trained = replace(
        trained,
        base=deepcopy(trained.base),
        document=deepcopy(trained.document),
        vectors=deepcopy(trained.vectors),
        int8=True,
    )
    for module in (trained.base, trained.document, trained.vectors):
        if module is not None:
            round_weights(module)
    return trained
