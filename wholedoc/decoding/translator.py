"""The translator: documents in, documents out, one translation per sentence."""

import math
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import Config, ScoringMemory, SearchConfig, build
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
from wholedoc.kernels import round_weights
from wholedoc.store.model import TrainedModel, load_model

_MOST_SCORED_TOKENS = 10_000
Item = TypeVar("Item")


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    log_probability: float
    """log P(y|x)."""
    score: float
    """What it was ranked by: the log-probability, normalised for length."""
    attention: Float[Tensor, "trg_token src_token"] | None
    """Where each output token, ``</s>`` last, looked in the source; None for a sentence that was
    translated in pieces."""


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
    pieces: list[int]
    """In how many pieces each sentence was translated: 1, but for very long ones."""

    @property
    def sentences(self) -> list[str]:
        """The final translations, exactly one per source sentence."""
        return self.history[-1]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; ``sentences`` included."""
        return {"sentences": self.sentences, **_plain(self)}


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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the perplexity of nothing is None."""
        found = self.perplexity if self.words else None
        return {**_plain(self), "log_probability": self.log_probability, "perplexity": found}


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries and tensors as lists, however deep."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.tolist() if isinstance(value, Tensor) else value


def perplexity(log_probability: float, words: int) -> float:
    """exp(−log P / words), within what can be printed; without words there is none."""
    return math.exp(min(-log_probability / words, 700)) if words else math.nan


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
        if int8 and not trained.int8:
            for module in (trained.base, trained.document, trained.vectors):
                if module is not None:
                    round_weights(module)
        self.trained = replace(trained, int8=int8 or trained.int8)
        self.src_vocabulary, self.trg_vocabulary = trained.src_vocabulary, trained.trg_vocabulary
        models = trained.document or trained.base, trained.base, trained.vectors
        self.system = TranslationSystem(*models, self.trained.int8, trained.shortlist)

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
        """Translate many documents at once.

        ``config`` replaces the model's own settings of search; ``progress`` is called with finished
        sentences and words; not to ``measure`` the objective saves time. A sentence of more than
        ``config.sentence_tokens`` is translated in pieces, each as a sentence of its document, and
        put together again.
        """
        config = build(SearchConfig, asdict(config or self.config.search), where="search settings")
        # As many hypotheses are followed at once as are asked for, so one limit serves both.
        build(SearchConfig, {"beam": nbest}, where=f"nbest = {nbest}")
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
        self, sentences: Iterable[str], translations: Iterable[str], memory: ScoringMemory = "given"
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
        sentences: list[list[_Piece]],
        cells: list[int],
        config: SearchConfig,
    ) -> TranslatedDocument:
        """The texts of a document's translations; ``cells`` are pieces of what it has read."""
        passes = []
        for found in document.passes:
            rest = iter(found)
            passes.append([self._joined(pieces, rest, config) for pieces in sentences])
        counts = [len(pieces) for pieces in sentences]
        return TranslatedDocument(
            passes[-1],
            [[candidates[0].text for candidates in translations] for translations in passes],
            join_weights(document.readings.src_weights, counts, cells),
            join_weights(document.readings.trg_weights, counts, cells),
            document.objective,
            counts,
        )

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
        return Translation(line, found.log_probability, found.score, found.attention)


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
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a surrogate pair is no text
    return vocabulary.encode(text) if text.strip() else []
