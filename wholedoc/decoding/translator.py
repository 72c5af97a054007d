"""The translator: documents in, documents out, one translation per sentence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from wholedoc.config import Config, ScoringMemory, SearchConfig
from wholedoc.corpus.vocabulary import EOS, UNK, Vocabulary
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.document import DocumentTranslation, Progress, Sentence
from wholedoc.decoding.predictor import TranslationSystem
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


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    log_probability: float
    """log P(y|x)."""
    score: float
    """What it was ranked by: the log-probability, normalised for length."""
    attention: Float[Tensor, "trg_token src_token"]
    """Where each output token, ``</s>`` last, looked in the source."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translations, sentence by sentence."""

    candidates: list[list[Translation]]
    """For each source sentence its translations, best first."""
    history: list[list[str]]
    """The translations after each pass; the last are the final ones."""
    source_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the source memory; None where it was not read."""
    target_weights: Float[Tensor, "sent cell"] | None
    """Whom each sentence read in the target memory."""
    objective: list[float]
    """The pseudo-log-likelihood of the document after each pass but the first, if measured."""

    @property
    def sentences(self) -> list[str]:
        """The final translations, exactly one per source sentence."""
        return self.history[-1]


@dataclass(frozen=True)
class ScoredDocument:
    """How probable the given translations of a document are."""

    log_probabilities: list[float]
    """log P(y_t | x_t, y_-t, x_-t) of each sentence's translation, ``</s>`` included."""
    words: list[int]
    """Tokens of each translation, ``</s>`` included."""

    @property
    def log_probability(self) -> float:
        """The sum over the sentences."""
        return math.fsum(self.log_probabilities)

    @property
    def perplexity(self) -> float:
        """Per token."""
        return perplexity(self.log_probability, sum(self.words))


def perplexity(log_probability: float, words: int) -> float:
    """exp(−log P / words), within what can be printed; without words there is none."""
    return math.exp(min(-log_probability / words, 700)) if words else math.nan


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
        sentences: Sequence[str],
        config: SearchConfig | None = None,
        nbest: int = 1,
        *,
        passes: int | None = None,
    ) -> TranslatedDocument:
        """Translate one document, given as its sentences; ``passes`` updates of each translation.

        Without ``passes`` and ``config``, the settings kept with the model are used.
        """
        if isinstance(sentences, str):
            raise UserError(
                "a document is a list of sentences, not one text",
                where="Translator.translate",
                fix="split the text into sentences first",
            )
        config = config or self.config.search
        if passes is not None:
            config = replace(config, passes=passes)
        return self.translate_documents([sentences], config, nbest)[0]

    def translate_documents(
        self,
        documents: Sequence[Sequence[str]],
        config: SearchConfig | None = None,
        nbest: int = 1,
        progress: Progress | None = None,
        *,
        measure: bool = True,
    ) -> list[TranslatedDocument]:
        """Translate many documents at once; ``progress`` is told of finished sentences and words.

        ``config`` replaces the model's own settings of search. Not to ``measure`` the objective
        saves time.
        """
        config = config or self.config.search
        encoded = [[self._encode(text) for text in document] for document in documents]
        found = translate_documents(self.system, encoded, config, nbest, progress, measure)
        return [
            self._translated(texts, document, config)
            for texts, document in zip(documents, found, strict=True)
        ]

    def score(
        self,
        sentences: Sequence[str],
        translations: Sequence[str],
        memory: ScoringMemory = "given",
    ) -> ScoredDocument:
        """How probable given translations of one document are, each given all others.

        The target memory is made from the given translations, or from ``generated`` ones.
        """
        if isinstance(sentences, str) or isinstance(translations, str):
            raise UserError(
                "a document is a list of sentences, not one text",
                where="Translator.score",
                fix="split the text into sentences first",
            )
        return self.score_documents([sentences], [translations], memory)[0]

    def score_documents(
        self,
        documents: Sequence[Sequence[str]],
        translations: Sequence[Sequence[str]],
        memory: ScoringMemory = "given",
    ) -> list[ScoredDocument]:
        """Score given translations of many documents at once."""
        sources, targets = self._encode_pairs(documents, translations)
        found = score_documents(
            self.system, sources, targets, self.config.search.batch_tokens, memory
        )
        return [
            ScoredDocument(scores, [len(tokens) + 1 for tokens in target])
            for scores, target in zip(found, targets, strict=True)
        ]

    def score_context(
        self,
        documents: Sequence[Sequence[str]],
        translations: Sequence[Sequence[str]],
        memory: ScoringMemory = "given",
        progress: Progress | None = None,
    ) -> list[ContextScores]:
        """Score given translations with their documents, without, and with other documents.

        ``progress`` is told of finished sentences and words, each condition by itself.
        """
        sources, targets = self._encode_pairs(documents, translations)
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
        self, texts: Sequence[str], document: DocumentTranslation, config: SearchConfig
    ) -> TranslatedDocument:
        passes = [
            [
                [self._translation(text, hypothesis, config) for hypothesis in hypotheses]
                for text, hypotheses in zip(texts, translations, strict=True)
            ]
            for translations in document.passes
        ]
        return TranslatedDocument(
            passes[-1],
            [[candidates[0].text for candidates in translations] for translations in passes],
            document.readings.src_weights,
            document.readings.trg_weights,
            document.objective,
        )

    def _encode_pairs(
        self, documents: Sequence[Sequence[str]], translations: Sequence[Sequence[str]]
    ) -> tuple[list[list[Sentence]], list[list[Sentence]]]:
        """The numbers of both sides; each sentence must have a translation."""
        for document, given in zip(documents, translations, strict=True):
            if len(document) != len(given):
                raise UserError(
                    f"{len(given)} translations are given for {len(document)} sentences",
                    where="Translator.score",
                    fix="give one translation for each sentence",
                )
        return (
            [[self._encode(text) for text in document] for document in documents],
            [[self._encode_target(text) for text in given] for given in translations],
        )

    def _encode(self, text: str) -> list[int]:
        """The numbers of a source sentence, ``</s>`` included."""
        return [*_number(text, self.src_vocabulary), EOS]

    def _encode_target(self, text: str) -> list[int]:
        """The numbers of a target sentence, without ``</s>``."""
        return _number(text, self.trg_vocabulary)

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
        words = self.src_vocabulary.tokens(text)
        attended = found.attention[:-1, :-1].argmax(dim=-1).tolist()  # without </s> on both sides
        return [
            (self.trained.lexicon.get(words[i], words[i]) if use_lexicon else words[i])
            if token == UNK
            else name
            for name, token, i in zip(tokens, found.tokens, attended, strict=True)
        ]


def _number(text: str, vocabulary: Vocabulary) -> list[int]:
    """The numbers of a sentence; one of white space alone has no words."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
    return vocabulary.encode(text) if text.strip() else []
