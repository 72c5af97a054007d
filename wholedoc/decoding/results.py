"""What translating and scoring give: values for people and programs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.glossary import Glossary
from wholedoc.decoding.known import KnownPair
from wholedoc.decoding.recollection import RecalledWord
from wholedoc.tm.memory import TranslationMemory

TermState = Literal["kept", "enforced", "missing"]


@dataclass(frozen=True)
class Translation:
    """One translation of one sentence."""

    text: str
    log_probability: float
    """log P(y|x)."""
    score: float
    """What it was ranked by: the log-probability, normalised for length."""
    attention: Float[Tensor, "trg_token src_token"] | None = field(compare=False)
    """Where each output token, ``</s>`` last, looked in the source; None for a sentence that was
    translated in pieces."""
    tokens: list[str] = field(default_factory=list)
    """The output tokens, without ``</s>``; none for a sentence that was translated in pieces."""


@dataclass(frozen=True)
class Term:
    """A term of a glossary that was found in a sentence."""

    source: str
    """As the glossary has it."""
    target: str
    """What it must become."""
    start: int
    end: int
    """Where it stands in the sentence."""
    state: TermState
    """Whether the translation has it: by itself, because it had to, or not at all."""


@dataclass(frozen=True)
class Task:
    """A document to translate, and how."""

    sentences: list[str]
    config: SearchConfig
    nbest: int = 1
    approved: Mapping[int, str] = field(default_factory=dict)
    """Translations by people, by the places of their sentences."""
    memories: tuple[TranslationMemory, ...] = ()
    """What is recalled from, the model's own memory included."""
    rehearse: bool = False
    """Whether approved sentences are translated too, each sentence knowing those before it."""
    before: str = ""
    """The sentence before the first one, where this is a part of a document."""
    glossary: Glossary | None = None
    """Terms that translations must have."""
    protect: bool = False
    """Whether they must have what is not text, such as placeholders and addresses, too."""


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's translations, sentence by sentence."""

    candidates: list[list[Translation]]
    """For each source sentence its translations, best first."""
    history: list[list[str]]
    """The translations after each pass; the last are the final ones."""
    source_weights: Float[Tensor, "sent cell"] | None = field(compare=False)
    """Whom each sentence read in the source memory; None where it was not read."""
    target_weights: Float[Tensor, "sent cell"] | None = field(compare=False)
    """Whom each sentence read in the target memory."""
    objective: list[float]
    """The pseudo-log-likelihood of the document after each pass but the first, if measured."""
    pieces: list[int]
    """In how many pieces each sentence was translated: 1, but for very long ones."""
    known: list[list[KnownPair]]
    """The known pairs that each sentence could recall."""
    recall: list[list[RecalledWord]] | None
    """For each word of each translation, what it was recalled from; None where nobody asked."""
    task: Task = field(repr=False, compare=False)
    """What was asked for; ``Translator.approve`` goes on from it."""
    terms: list[list[Term]] = field(default_factory=list)
    """For each sentence the terms of the glossary that were found in it."""

    @property
    def sentences(self) -> list[str]:
        """The final translations, exactly one per source sentence."""
        return self.history[-1]

    @property
    def approved(self) -> list[int]:
        """The places of the sentences whose translations were given and stayed as they are."""
        return [] if self.task.rehearse else sorted(self.task.approved)

    def after(self, count: int) -> "TranslatedDocument":
        """The document without its first sentences, which were read as context alone."""
        return replace(
            self,
            candidates=self.candidates[count:],
            history=[sentences[count:] for sentences in self.history],
            pieces=self.pieces[count:],
            known=self.known[count:],
            recall=None if self.recall is None else self.recall[count:],
            task=replace(self.task, sentences=self.task.sentences[count:]),
            terms=self.terms[count:],
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; ``sentences`` and ``approved`` included.

        ``terms`` are there if there was a glossary.
        """
        hidden = ("task",) if self.task.glossary else ("task", "terms")
        shown = {name: _plain(value) for name, value in vars(self).items() if name not in hidden}
        return {"sentences": self.sentences, "approved": self.approved, **shown}


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


def perplexity(log_probability: float, words: int) -> float:
    """exp(−log P / words), within what can be printed; without words there is none."""
    return math.exp(min(-log_probability / words, 700)) if words else math.nan


def _plain(value: Any) -> Any:
    """Dataclasses as dictionaries and tensors as lists, however deep."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Path):
        return str(value)
    return value.tolist() if isinstance(value, Tensor) else value
