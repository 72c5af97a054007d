"""How much a model uses the rest of the document, and which sentences it reads."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc import __version__
from wholedoc.config import ScoringMemory
from wholedoc.corpus.documents import Document
from wholedoc.decoding.scoring import ContextScores
from wholedoc.decoding.translator import Translator
from wholedoc.progress import ProgressBar

_NEAR = 5  # distances that have a line of their own in the summary
_BAR = 30  # characters of a bar that stands for all weight


@dataclass(frozen=True, slots=True)
class Gain:
    """What context is worth to some translations, in bits per word (``</s>`` is one)."""

    words: int
    cxmi: float
    """(log₂ P(y | x, document) − log₂ P(y | x)) / words; without: same weights, readings zero.

    Conditional cross-mutual information, Fernandes et al. (2021).
    """
    over_sentence_model: float
    """The same difference from the sentence model of stage 1."""
    shuffled_change: float | None
    """(log₂ P(y | x, another document) − log₂ P(y | x, document)) / words; None without others."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Which sentences of a memory are read: weights, over all sentences that read it."""

    readers: int
    """Sentences that read others."""
    alone: int
    """Sentences that have nothing to read, as the only one of a document has; not counted below."""
    distances: dict[int, float]
    """t' − t → share of all weight that sentences t put on sentences t'."""
    uniform_distances: dict[int, float]
    """What the shares would be if everyone read all others alike."""
    entropy: float
    """−Σ p log₂ p of a sentence's weights, in bits, on average."""
    effective: float
    """2^entropy, the number of sentences that are read in effect, on average."""
    others: float
    """Sentences that there are to read, on average: at most that many are read in effect."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> "Reading | None":
        """Read it back from JSON, where distances are texts."""
        if values is None:
            return None
        shares = {
            name: {int(distance): share for distance, share in values[name].items()}
            for name in ("distances", "uniform_distances")
        }
        return cls(**{**values, **shares})


@dataclass(frozen=True, slots=True)
class DocumentGain:
    """What context is worth to the translations of one document."""

    name: str
    log_probabilities: list[float]
    """Natural logarithm of P(y_t | x_t, y_-t, x_-t) of each sentence's translation."""
    gain: Gain


@dataclass(frozen=True, slots=True)
class ContextUse:
    """How much a model uses the rest of the document for given translations."""

    gain: Gain
    sentences: int
    """How many there are."""
    documents: tuple[DocumentGain, ...]
    """Each document by itself; left out where only the whole is kept."""
    source: Reading | None
    """The source memory; None where the model has no weights over sentences there."""
    target: Reading | None
    """The target memory."""
    signature: str

    @property
    def log_probabilities(self) -> list[float]:
        """The log-probability of each sentence's translation, given its document."""
        return [score for document in self.documents for score in document.log_probabilities]

    @property
    def summary(self) -> list[str]:
        """The measures of the whole, for people."""
        above = sum(document.gain.cxmi > 0 for document in self.documents)
        lines = [
            f"{len(self.documents):,} documents, {self.sentences:,} sentences, "
            f"{self.gain.words:,} words with </s>; bits per word:",
            f"  {self.gain.cxmi:+.4f}  own document, over reading nothing (CXMI); "
            f"above 0 in {above:,} of {len(self.documents):,} documents",
            f"  {self.gain.over_sentence_model:+.4f}  own document, over the sentence model",
            "  there is no other document whose memory could be read"
            if self.gain.shuffled_change is None
            else f"  {self.gain.shuffled_change:+.4f}  another document's memory, over their own",
        ]
        for name, reading in (("source", self.source), ("target", self.target)):
            lines += _describe(name, reading)
        return [*lines, f"signature: {self.signature}"]

    def to_json(self) -> dict[str, Any]:
        """One object for ``score --context-use --json``, and part of an experiment's results."""
        found = asdict(self)
        documents = [
            {"name": one["name"], "sentences": one["log_probabilities"], **one["gain"]}
            for one in found.pop("documents")
        ]
        whole = {**found.pop("gain"), **found}
        return {**whole, "documents": documents} if documents else whole

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ContextUse":
        """Read what :meth:`to_json` wrote, without the documents."""
        return cls(
            gain=Gain(**{field.name: values[field.name] for field in fields(Gain)}),
            sentences=values["sentences"],
            documents=(),
            source=Reading.from_json(values["source"]),
            target=Reading.from_json(values["target"]),
            signature=values["signature"],
        )


def score_context_use(
    translator: Translator, corpus: Iterable[Document], memory: ScoringMemory = "given"
) -> ContextUse:
    """Measure how much a model uses context for the translations of a corpus.

    All documents are scored together: each is also made to read the memory of the one before.
    """
    documents = list(corpus)
    conditions = 4 if len(documents) > 1 else 3
    with ProgressBar("scoring", conditions * sum(map(len, documents))) as bar:
        scores = translator.score_context(
            [[pair.src for pair in document] for document in documents],
            [[pair.trg for pair in document] for document in documents],
            memory,
            bar.advance,
        )
    return measure_context_use([document.name for document in documents], scores, memory)


def measure_context_use(
    names: Sequence[str], scores: Sequence[ContextScores], memory: ScoringMemory
) -> ContextUse:
    """Measure from the scores of documents; ``memory`` is what they read as target memory."""
    named = zip(names, scores, strict=True)
    return ContextUse(
        gain=measure_gain(scores),
        sentences=sum(len(s.document) for s in scores),
        documents=tuple(DocumentGain(name, s.document, measure_gain([s])) for name, s in named),
        source=measure_reading([s.source_weights for s in scores]),
        target=measure_reading([s.target_weights for s in scores]),
        signature=f"unit:bits|words:tokens+eos|target-memory:{memory}|"
        f"shuffled:document-before|version:{__version__}",
    )


def measure_gain(scores: Sequence[ContextScores]) -> Gain:
    """The differences over all sentences of some documents together."""
    words = sum(sum(document.words) for document in scores)

    def bits_per_word(documents: Iterable[list[float]]) -> float:
        nats = math.fsum(log_probability for found in documents for log_probability in found)
        return nats / math.log(2) / words if words else math.nan

    own = bits_per_word(document.document for document in scores)
    shuffled = [document.shuffled for document in scores if document.shuffled is not None]
    return Gain(
        words,
        own - bits_per_word(document.nothing for document in scores),
        own - bits_per_word(document.sentence_model for document in scores),
        bits_per_word(shuffled) - own if len(shuffled) == len(scores) else None,
    )


def measure_reading(weights: Sequence[Float[Tensor, "_ _"] | None]) -> Reading | None:
    """Where the weights of documents fall, each a row per sentence; None where there are none."""
    given = [document.double().cpu() for document in weights if document is not None]
    if not given:
        return None
    reading = [document[document.sum(dim=-1) > 0] for document in given]
    readers = sum(len(rows) for rows in reading)
    entropies = torch.cat([torch.special.entr(rows).sum(dim=-1) for rows in reading]) / math.log(2)
    others = [len(rows) * (rows.shape[1] - 1) for rows in reading]
    return Reading(
        readers=readers,
        alone=sum(len(document) for document in given) - readers,
        distances=_shares(given),
        uniform_distances=_shares([_uniform(document) for document in given]),
        entropy=entropies.mean().item() if readers else 0.0,
        effective=torch.exp2(entropies).mean().item() if readers else 0.0,
        others=sum(others) / readers if readers else 0.0,
    )


def _uniform(weights: Tensor) -> Tensor:
    """The weights of sentences that read all others alike, where they read at all."""
    off_diagonal = 1 - torch.eye(len(weights), dtype=weights.dtype)
    reads = (weights.sum(dim=-1, keepdim=True) > 0).to(weights.dtype)
    return reads * off_diagonal / max(len(weights) - 1, 1)


def _shares(documents: Sequence[Tensor]) -> dict[int, float]:
    """The share of all weight at each distance at which there is any."""
    sums: dict[int, float] = {}
    for weights in documents:
        for distance in range(1 - len(weights), len(weights)):
            weight = weights.diagonal(distance).sum().item()
            if weight:
                sums[distance] = sums.get(distance, 0.0) + weight
    total = math.fsum(sums.values())
    return {distance: sums[distance] / total for distance in sorted(sums)}


def _describe(name: str, reading: Reading | None) -> list[str]:
    """Lines on one memory: how many are read, and how far away they stand."""
    if reading is None:
        return [f"{name} memory: the model has no weights over its sentences"]
    alone = f"; {reading.alone:,} have nothing to read" if reading.alone else ""
    lines = [
        f"{name} memory: {reading.readers:,} sentences read {reading.effective:.2f} others in "
        f"effect, of {reading.others:.1f}; entropy {reading.entropy:.2f} bits{alone}"
    ]
    if reading.distances:
        lines.append("  distance   weight  uniform")
    shares = (_grouped(reading.distances), _grouped(reading.uniform_distances))
    for place in range(-_NEAR - 1, _NEAR + 2):
        weight, uniform = (found.get(place, 0.0) for found in shares)
        if weight or uniform:
            label = {-_NEAR - 1: f"< -{_NEAR}", _NEAR + 1: f"> +{_NEAR}"}.get(place, f"{place:+d}")
            bar = "█" * round(_BAR * weight)
            lines.append(f"  {label:>8}  {weight:7.1%}  {uniform:7.1%}  {bar}".rstrip())
    return lines


def _grouped(shares: dict[int, float]) -> dict[int, float]:
    """Shares with all that is further than ``_NEAR`` put together, on either side."""
    grouped: dict[int, float] = {}
    for distance, share in shares.items():
        place = max(-_NEAR - 1, min(_NEAR + 1, distance))
        grouped[place] = grouped.get(place, 0.0) + share
    return grouped
