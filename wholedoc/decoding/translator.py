"""The translator: documents in, documents out, one translation per sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from wholedoc.config import Config, ScoringMemory, SearchConfig, build
from wholedoc.corpus.vocabulary import EOS, UNK, Vocabulary
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.decoding.results import (
    ScoredDocument,
    TranslatedDocument,
    Translation,
    join_pieces,
    join_weights,
    perplexity,
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
from wholedoc.store.model import TrainedModel, load_model

__all__ = ["ScoredDocument", "TranslatedDocument", "Translation", "Translator", "perplexity"]

_MOST_SCORED_TOKENS = 10_000


@dataclass(frozen=True)
class _Piece:
    """A sentence, or a part of one that is too long to be searched at once."""

    text: str
    separator: str
    """What stands between it and the next one."""
    tokens: Sentence
    """Its token ids, ``</s>`` included."""


class Translator:
    """Trained models, their vocabularies and their settings of search.

    ``Translator.load("runs/et-en").translate(["Esimene lause.", "Teine lause."]).sentences``
    """

    def __init__(self, trained: TrainedModel, *, int8: bool = False) -> None:
        """Make a translator of a loaded model.

        ``int8`` rounds the weights of a run to 8 bits; those of an export are always in 8 bits.
        """
        self.trained = replace(trained, int8=int8 or trained.int8)
        self.src_vocabulary, self.trg_vocabulary = trained.src_vocabulary, trained.trg_vocabulary
        self.system = TranslationSystem(
            trained.document or trained.base,
            trained.base,
            trained.vectors,
            trained.int8,
            trained.shortlist,
        )
        if int8 and not trained.int8:
            self.system = self.system.compacted()

    @classmethod
    def load(cls, model: str | Path, *, int8: bool = False) -> "Translator":
        """Open a run directory, or what ``wholedoc export`` made of one; for ``int8`` see above."""
        return cls(load_model(model), int8=int8)

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
        return Translator(replace(self.trained, document=None, vectors=None))

    def translate(
        self,
        sentences: Iterable[str],
        config: SearchConfig | None = None,
        nbest: int = 1,
        *,
        passes: int | None = None,
    ) -> TranslatedDocument:
        """Translate one document, given as its sentences; ``passes`` updates of each translation.

        Without ``passes`` and ``config``, the settings kept with the model are used. Raises a
        ``UserError`` that names the argument at fault.
        """
        document = _check_document(sentences, "sentences")
        config = config or self.config.search
        if passes is not None:
            config = replace(config, passes=passes)
        return self.translate_documents([document], config, nbest)[0]

    def translate_documents(
        self,
        documents: Iterable[Iterable[str]],
        config: SearchConfig | None = None,
        nbest: int = 1,
        progress: Progress | None = None,
        *,
        measure: bool = True,
    ) -> list[TranslatedDocument]:
        """Translate many documents at once; ``progress`` is told of finished sentences and words.

        ``config`` replaces the model's own settings of search. Not to ``measure`` the objective
        saves time. A sentence of more than ``config.sentence_tokens`` is translated in pieces,
        each as a sentence of its document, and put together again.
        """
        config = check_search(config or self.config.search, nbest)
        texts = _check_documents(documents, "documents")
        pieces = [[self._pieces(text, config) for text in each] for each in texts]
        encoded = [
            [piece.tokens for sentence in document for piece in sentence] for document in pieces
        ]
        found = translate_documents(self.system, encoded, config, nbest, progress, measure)
        counts = [[len(sentence) for sentence in document] for document in pieces]
        cells = [counts[found.index(document.foreign or document)] for document in found]
        return [self._translated(*each, config) for each in zip(found, pieces, cells, strict=True)]

    def score(
        self,
        sentences: Iterable[str],
        translations: Iterable[str],
        memory: ScoringMemory = "given",
    ) -> ScoredDocument:
        """How probable given translations of one document are, each given all others.

        The target memory is made from the given translations, or from ``generated`` ones.
        """
        source = _check_document(sentences, "sentences")
        given = _check_document(translations, "translations")
        return self.score_documents([source], [given], memory)[0]

    def score_documents(
        self,
        documents: Iterable[Iterable[str]],
        translations: Iterable[Iterable[str]],
        memory: ScoringMemory = "given",
    ) -> list[ScoredDocument]:
        """Score given translations of many documents at once."""
        sources, targets = self._encode_pairs(documents, translations, memory)
        batch_tokens = self.config.search.batch_tokens
        found = score_documents(self.system, sources, targets, batch_tokens, memory)
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

        ``progress`` is told of finished sentences and words, each condition by itself.
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
        return score_candidates(
            self.system,
            [[self._encode(text) for text in document] for document in documents],
            [
                None if given is None else [self._encode_target(text) for text in given]
                for given in translations
            ],
            [Candidate(d, t, self._encode_target(text)) for d, t, text in candidates],
            self.config.search.batch_tokens,
        )

    def _translated(
        self,
        document: DocumentTranslation,
        sentences: list[list[_Piece]],
        cells: list[int],
        config: SearchConfig,
    ) -> TranslatedDocument:
        """The texts of a document's translations; ``cells`` are pieces of what it has read."""
        passes = []
        for translations in document.passes:
            rest = iter(translations)
            passes.append(
                [
                    join_pieces(
                        [
                            [self._translation(piece.text, found, config) for found in next(rest)]
                            for piece in pieces
                        ],
                        [piece.separator for piece in pieces],
                        config.length_penalty,
                    )
                    for pieces in sentences
                ]
            )
        counts = [len(pieces) for pieces in sentences]
        return TranslatedDocument(
            passes[-1],
            [[candidates[0].text for candidates in translations] for translations in passes],
            join_weights(document.readings.src_weights, counts, cells),
            join_weights(document.readings.trg_weights, counts, cells),
            document.objective,
            counts,
        )

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
            raise UserError(
                f"{memory!r} is not a choice",
                where="memory",
                fix=f"choices: {', '.join(get_args(ScoringMemory))}",
            )
        sources = _check_documents(documents, "documents")
        targets = _check_documents(translations, "translations")
        if len(sources) != len(targets):
            raise UserError(
                f"translations of {len(targets)} documents are given for {len(sources)}",
                where="translations",
                fix="give one list of translations for each document",
            )
        for d, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if len(source) != len(target):
                raise UserError(
                    f"{len(target)} translations are given for {len(source)} sentences",
                    where=f"translations[{d}]",
                    fix="give one translation for each sentence",
                )
        return (
            [[_scorable(self._encode(text)) for text in document] for document in sources],
            [[_scorable(self._encode_target(text)) for text in given] for given in targets],
        )

    def _encode(self, text: str) -> list[int]:
        """The token ids of a source sentence, ``</s>`` included."""
        return [*_encode(text, self.src_vocabulary), EOS]

    def _encode_target(self, text: str) -> list[int]:
        """The token ids of a target sentence, without ``</s>``."""
        return _encode(text, self.trg_vocabulary)

    def _translation(self, text: str, found: Hypothesis, config: SearchConfig) -> Translation:
        tokens = self.trg_vocabulary.to_tokens(found.tokens)
        if config.replace_unknown != "none" and UNK in found.tokens:
            tokens = self._replace_unknown(text, tokens, found, config.replace_unknown == "lexicon")
        # A byte-wise vocabulary can spell a line break, which would shift all lines after it.
        line = " ".join(self.trg_vocabulary.decode_tokens(tokens).splitlines())
        return Translation(line, found.log_probability, found.score, found.attention)

    def _replace_unknown(
        self, text: str, tokens: list[str], found: Hypothesis, use_lexicon: bool
    ) -> list[str]:
        """Put the source word that each ``<unk>`` attends to most, or its translation."""
        lexicon = self.trained.lexicon if use_lexicon else {}
        words = self.src_vocabulary.tokens(text)
        attended = found.attention[:-1, :-1].argmax(dim=-1).tolist()  # without </s> on both sides
        return [
            lexicon.get(words[i], words[i]) if token == UNK else name
            for name, token, i in zip(tokens, found.tokens, attended, strict=True)
        ]


def check_search(config: SearchConfig, nbest: int = 1) -> SearchConfig:
    """The settings, where every value is one that search can have; else an error that names it."""
    checked = build(SearchConfig, asdict(config), where="search settings")
    # As many hypotheses are followed at once as are asked for, so one limit serves both.
    build(SearchConfig, {"beam": nbest}, where=f"nbest = {nbest}")
    return checked


def _check_documents(documents: Iterable[Iterable[str]], where: str) -> list[list[str]]:
    """Documents as lists of lists of texts."""
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise UserError(
            f"{_name(documents)} is not a list of documents",
            where=where,
            fix="give a list of documents, each a list of sentences",
        )
    return [_check_document(document, f"{where}[{d}]") for d, document in enumerate(documents)]


def _check_document(sentences: Iterable[str], where: str) -> list[str]:
    """A document as a list of texts; a text by itself would be taken for its characters."""
    if isinstance(sentences, str | bytes) or not isinstance(sentences, Iterable):
        raise UserError(
            f"{_name(sentences)}: a document is a list of sentences, not one text",
            where=where,
            fix="split the text into sentences first",
        )
    checked = list(sentences)
    for t, sentence in enumerate(checked):
        if not isinstance(sentence, str):
            fix = "decode it first" if isinstance(sentence, bytes) else "give a text"
            raise UserError(f"{_name(sentence)} is not a text", where=f"{where}[{t}]", fix=fix)
    return checked


def _name(value: Any) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]} …"


def _scorable(tokens: Sentence) -> Sentence:
    """The same tokens, if they are not so many that their attention would fill the memory."""
    if len(tokens) > _MOST_SCORED_TOKENS:
        raise UserError(
            f"a sentence has {len(tokens):,} tokens; at most {_MOST_SCORED_TOKENS:,} can be scored",
            where="scoring",
            fix="split the text into sentences first",
        )
    return tokens


def _encode(text: str, vocabulary: Vocabulary) -> list[int]:
    """The token ids of a sentence; one of white space alone has none."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
    return vocabulary.encode(text) if text.strip() else []
