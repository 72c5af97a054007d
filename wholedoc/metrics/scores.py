"""Metrics of translations against references, each number with the signature that repeats it.

A metric counts first and scores later: a row of statistics for each sentence or document, and a
score of their sum. A paired test then only sums again. Every metric is one class and one line of
:data:`METRICS`; whatever is put there gets its column, its deviation over seeds and its tests.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from wholedoc.corpus.documents import primary_language
from wholedoc.metrics.discourse import Discourse, DiscourseCounts, cut_documents
from wholedoc.metrics.meteor import MeteorJar, UnavailableError
from wholedoc.metrics.words import UNKNOWN, Splitter

Array = npt.NDArray[np.float64]
Unit = Literal["sentence", "document"]


@dataclass(frozen=True)
class Score:
    """A number and how it was computed."""

    value: float
    signature: str


@dataclass(frozen=True)
class EvaluationSet:
    """What translations are measured against, sentence by sentence."""

    references: Sequence[str]
    documents: Sequence[int]
    """How many sentences each document has, in order."""
    src: Sequence[str] | None = None
    lang: str = "en"
    """The target language."""
    src_lang: str = ""
    """The source language, where it is known: for lemmas and pronouns."""

    def __post_init__(self) -> None:
        if sum(self.documents) != len(self.references) or min(self.documents, default=0) < 1:
            raise ValueError("every sentence belongs to one document, and no document is empty")
        if self.src is not None and len(self.src) != len(self.references):
            raise ValueError("every reference needs its source sentence")
        for name in ("lang", "src_lang"):  # tokenisers and lemmas know no countries
            object.__setattr__(self, name, primary_language(getattr(self, name)))

    @property
    def sizes(self) -> dict[Unit, int]:
        """How many there are of each unit."""
        return {"sentence": len(self.references), "document": len(self.documents)}


class Metric(ABC):
    """Statistics of translations, and the scores of their sums.

    Whatever keeps it from being computed is raised as :class:`UnavailableError`, with the reason.
    """

    names: tuple[str, ...]
    """The names of its scores, the main one first."""
    unit: Unit = "sentence"
    """What a row of statistics belongs to."""
    lower_is_better: bool = False
    digits: int = 2
    signature: str
    """All that the numbers depend on, in one line."""

    def __init__(self, data: EvaluationSet) -> None:
        self._data = data

    @abstractmethod
    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """For each output, which has a line for each sentence: (unit, statistic)."""

    @abstractmethod
    def scores(self, sums: Array) -> Array:
        """The scores of summed statistics: (..., statistic) → (..., name)."""


class _Sacrebleu(Metric):
    """A metric whose statistics sacrebleu counts."""

    def __init__(self, data: EvaluationSet) -> None:
        super().__init__(data)
        self._metric = self._make(self._segments(data.references))
        documents = f"|docs:{len(data.documents)}" if self.unit == "document" else ""
        self.signature = f"{self._metric.get_signature()}{documents}"

    @abstractmethod
    def _make(self, references: Sequence[str]) -> SacrebleuMetric: ...

    def _segments(self, lines: Sequence[str]) -> Sequence[str]:
        if self.unit == "sentence":
            return lines
        return [" ".join(document) for document in cut_documents(lines, self._data.documents)]

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """Those of sacrebleu."""
        count = self._metric._extract_corpus_statistics
        counts = (count(self._segments(output), None) for output in outputs)
        return [np.array(rows, dtype=np.float64) for rows in counts]


class Bleu(_Sacrebleu):
    """BLEU of all sentences, and its n-gram precisions p_1 … p_4: see :func:`score_bleu`."""

    names: tuple[str, ...] = ("bleu", "bleu1", "bleu2", "bleu3", "bleu4")

    def _make(self, references: Sequence[str]) -> SacrebleuMetric:
        try:  # sacrebleu's tokeniser for a language, where that has its own
            return BLEU(trg_lang=self._data.lang, references=[references])
        except (ImportError, RuntimeError) as error:  # a tokeniser that is not installed
            raise UnavailableError(" ".join(str(error).split())) from error

    def scores(self, sums: Array) -> Array:
        """BLEU, p_1, p_2, p_3, p_4."""
        return score_bleu(sums)[..., : len(self.names)]


class DocumentBleu(Bleu):
    """BLEU of documents, each joined into one line: n-grams reach over sentences (d-BLEU)."""

    names = ("document_bleu",)
    unit = "document"


class Chrf(_Sacrebleu):
    """chrF2: the F-score, recall counting four times, of character n-grams up to six.

    Precision and recall are averaged over the orders that both sides have.
    """

    names = ("chrf",)
    _RECALL = CHRF.BETA**2

    def _make(self, references: Sequence[str]) -> SacrebleuMetric:
        return CHRF(references=[references])

    def scores(self, sums: Array) -> Array:
        """The F-score in percent."""
        output, reference, matches = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, 3), -1, 0)
        orders = (output > 0) & (reference > 0)
        count = orders.sum(axis=-1)
        precision = _ratio(np.where(orders, _ratio(matches, output), 0).sum(axis=-1), count)
        recall = _ratio(np.where(orders, _ratio(matches, reference), 0).sum(axis=-1), count)
        both = (1 + self._RECALL) * precision * recall
        return 100 * _ratio(both, self._RECALL * precision + recall)[..., None]


class Ter(_Sacrebleu):
    """TER: edits over words of the reference, in percent; a shift of a phrase is one edit."""

    names = ("ter",)
    lower_is_better = True

    def _make(self, references: Sequence[str]) -> SacrebleuMetric:
        return TER(references=[references])

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """Edits and words; a sentence that several outputs have is counted once: it takes long."""
        metric, references = self._metric, self._metric._ref_cache or []
        counted: dict[tuple[int, str], list[int | float]] = {}
        for i, line in {key for output in outputs for key in enumerate(output)}:
            prepared = metric._preprocess_segment(line)
            counted[i, line] = metric._compute_segment_statistics(prepared, references[i])
        return [
            np.array([counted[key] for key in enumerate(output)], dtype=np.float64)
            for output in outputs
        ]

    def scores(self, sums: Array) -> Array:
        """The rate in percent."""
        edits, words = sums[..., 0], sums[..., 1]
        empty = np.where(edits > 0, 1.0, 0.0)  # words where the reference has none
        return 100 * np.where(words > 0, _ratio(edits, words), empty)[..., None]


class Meteor(Metric):
    """METEOR 1.5: F_mean · (1 − γ · frag^β), counted by its authors' own program.

    P = matches / words of the output, R of the reference; a match of a module counts with its
    weight, a content word δ and a function word 1 − δ. F_mean = 1 / ((1 − α) / P + α / R); frag =
    chunks / matched words, where sentences that match whole have no chunk.
    """

    names = ("meteor",)
    digits = 4

    def __init__(self, data: EvaluationSet) -> None:
        super().__init__(data)
        self._jar = MeteorJar(data.lang)
        self.signature = self._jar.parameters.signature

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """Words, function words, matches of each module, chunks, matched words."""
        # One run for all: most of its time goes into reading its tables.
        lines = [line for output in outputs for line in output]
        rows = np.array(self._jar.count(lines, list(self._data.references) * len(outputs)))
        whole = (rows[:, -2:] == rows[:, :2]).all(axis=1) & (rows[:, -3] == 1)
        rows[whole, -3] = 0  # as the jar sums up: a sentence that matches whole is not fragmented
        return np.split(rows, len(outputs))

    def scores(self, sums: Array) -> Array:
        """The score, between 0 and 1 as the jar prints it."""
        found = self._jar.parameters
        words, functions = sums[..., 0:2], sums[..., 2:4]  # of the output, of the reference
        matches = sums[..., 4:-3].reshape(*sums.shape[:-1], -1, 2, 2)  # content or function, side
        matches = matches[..., : len(found.weights), :, :]  # a language may have fewer modules
        chunks, matched = sums[..., -3], sums[..., -2:]
        kinds = np.array([found.delta, 1 - found.delta])
        weighted = np.einsum("...mks,m,k->...s", matches, np.array(found.weights), kinds)
        length = found.delta * (words - functions) + (1 - found.delta) * functions
        share = _ratio(weighted, length)
        precision, recall = share[..., 0], share[..., 1]
        mean = _ratio(precision * recall, (1 - found.alpha) * recall + found.alpha * precision)
        fragmentation = _ratio(chunks, matched.mean(axis=-1))
        return (mean * (1 - found.gamma * fragmentation**found.beta))[..., None]


class DiscourseShares(Metric):
    """Shares in percent of what a document should keep: see ``docs/discourse.md``.

    Pairs of occurrences of a source word translated alike, also relative to the reference's;
    pronouns right; repeated names and terms kept. Where there is nothing to count, there is none.
    """

    names = tuple(field.name for field in fields(DiscourseCounts))
    unit = "document"

    def __init__(self, data: EvaluationSet) -> None:
        super().__init__(data)
        if data.src is None:
            raise UnavailableError("the discourse measures need the source: give --src")
        splitters = (Splitter(data.src_lang), Splitter(data.lang))
        self._test = Discourse(data.src, data.references, data.documents, splitters=splitters)
        self.signature = self._test.signature

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """For each share its part, then its whole."""
        counts = [list(map(astuple, self._test.measure(output))) for output in outputs]
        return [np.array(documents).reshape(len(documents), -1) for documents in counts]

    def scores(self, sums: Array) -> Array:
        """The shares in percent; NaN where there is nothing to count."""
        right, total = sums[..., 0::2], sums[..., 1::2]
        return np.where(total > 0, 100 * _ratio(right, total), np.nan)


class Unknown(Metric):
    """How many words were given as ``<unk>``."""

    names = ("unknown",)
    lower_is_better = True
    digits = 0
    signature = f"occurrences of {UNKNOWN}"

    def statistics(self, outputs: Sequence[Sequence[str]]) -> list[Array]:
        """Occurrences in each sentence."""
        return [np.array([[line.count(UNKNOWN)] for line in o], dtype=np.float64) for o in outputs]

    def scores(self, sums: Array) -> Array:
        """Their number."""
        return sums


METRICS: dict[str, type[Metric]] = {
    "bleu": Bleu,
    "document_bleu": DocumentBleu,
    "chrf": Chrf,
    "ter": Ter,
    "meteor": Meteor,
    "consistency": DiscourseShares,
    "unknown": Unknown,
}


def score_bleu(sums: Array) -> Array:
    """BLEU = BP · exp(¼ Σ_n log p_n) and the precisions: (..., statistic) → (..., 5).

    BP = min(1, exp(1 − r / c)) for lengths c of the output and r of the reference. p_n is the share
    of the output's n-grams that the reference has, in percent; for the k-th order without a match
    it is that of 2⁻ᵏ matches, as in sacrebleu.
    """
    length, ref_length = sums[..., 0], sums[..., 1]
    correct, total = sums[..., 2:6], sums[..., 6:10]
    halved = np.exp2(-np.cumsum(correct == 0, axis=-1))
    precisions = 100 * _ratio(np.where(correct > 0, correct, halved), total)
    precisions[~correct.any(axis=-1)] = 0
    shortness = np.where(length < ref_length, 1 - _ratio(ref_length, length), 0)
    brevity = np.where((length == 0) & (ref_length > 0), 0, np.exp(shortness))
    with np.errstate(divide="ignore"):  # no n-gram of some order: log 0, a score of 0
        mean = np.log(precisions).mean(axis=-1)
    return np.concatenate([(brevity * np.exp(mean))[..., None], precisions], axis=-1)


def corpus_bleu(translations: Sequence[str], references: Sequence[str], lang: str = "en") -> Score:
    """BLEU of all sentences together, by sacrebleu's defaults for the target language."""
    metric = Bleu(EvaluationSet(references, [len(references)], lang=lang))
    (statistics,) = metric.statistics([translations])
    return Score(float(metric.scores(statistics.sum(axis=0))[0]), metric.signature)


def sum_documents(statistics: Array, documents: Sequence[int]) -> Array:
    """Statistics of documents of so many sentences: (sentence, statistic) → (document, same)."""
    firsts = [0, *accumulate(documents)][:-1]
    return np.add.reduceat(statistics, firsts, axis=0)


def _ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Array:
    """Quotients, 0 where the denominator is."""
    over, under = np.broadcast_arrays(numerator, denominator)
    result = np.zeros(over.shape)
    np.divide(over, under, out=result, where=under != 0)
    return result
