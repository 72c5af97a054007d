"""The key of a document: the words that depend on it, each with the best accuracy there can be.

The bound of an item is the posterior probability of its most probable rendering, given what is
known: the sentence alone, the source document, or both sides of the rest of the document.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Literal

from wholedoc.synthetic.documents import Clause, SynthDocument, Telling, cue_style
from wholedoc.synthetic.language import Lexeme, SynthConfig

Kind = Literal["pronoun", "topic", "name"]
Information = Literal["sentence", "source", "both"]

KINDS: tuple[Kind, ...] = ("pronoun", "topic", "name")
INFORMATION: tuple[Information, ...] = ("sentence", "source", "both")


@dataclass(frozen=True, slots=True)
class Bound:
    """How well an item can be translated from some information."""

    guess: str
    """The most probable rendering."""
    accuracy: float
    """Its posterior probability."""
    variance: float
    """The covariances of this guess being right with those of its document, this one's included.

    Summed over items it is the exact variance of the number of right guesses.
    """


@dataclass(frozen=True, slots=True)
class KeyItem:
    """A word whose translation depends on its document."""

    document: str
    sentence: int
    """Index of the sentence in its document, from 0."""
    line: int
    """Index of the sentence in its file, from 0."""
    lines: int
    """Lines of that file, so that a translation of another one is found out."""
    kind: Kind
    word: str
    """The source word."""
    expected: str
    """Its right rendering."""
    renderings: tuple[str, ...]
    """All renderings the word has anywhere; those of a name in the order of the styles."""
    bounds: dict[Information, Bound]

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The renderings that are wrong here."""
        return tuple(word for word in self.renderings if word != self.expected)


def expect(items: Sequence[KeyItem], information: Information) -> dict[str, float]:
    """Mean accuracy of the best guesses over ``items`` (at least one) and standard deviation."""
    bounds = [item.bounds[information] for item in items]
    variance = fsum(bound.variance for bound in bounds)
    deviation = sqrt(max(0.0, variance)) / len(bounds)  # rounding may leave −1e-17
    return {"accuracy": fsum(b.accuracy for b in bounds) / len(bounds), "deviation": deviation}


def make_key(
    document: SynthDocument, first_line: int, lines: int, config: SynthConfig
) -> Iterator[KeyItem]:
    """Yields the items of a document, each with its exact bounds, sentence by sentence.

    ``first_line`` is the index of the document's first sentence in its file of ``lines`` lines.
    """
    world = document.world
    features = dict(zip(KINDS, (world.gender, world.topic, world.style), strict=True))
    words = [_dependent_words(sentence) for sentence in document.plan]
    counts = Counter(kind for found in words for kind in found)
    senses = [found["topic"] for found in words if "topic" in found]
    cues = [cue_style(sentence, world) for sentence in document.plan]
    for t, kind, word in [(t, *pair) for t, found in enumerate(words) for pair in found.items()]:
        expected = word.trg[features[kind]]
        source = both = Bound(expected, 1.0, 0.0)
        if kind == "pronoun":
            prior = config.gender_prior
            alone = _joint_bound(word.trg[int(prior < 0.5)], max(prior, 1 - prior), counts[kind])
        elif kind == "topic":
            alone = _sense_bound(word, senses)
        else:
            alone = _joint_bound(word.trg[cues[t]], config.cue_accuracy, 1)
            source = _style_bound(word, cues, counts[kind], config)
            both = both if counts[kind] > 1 else source
        yield KeyItem(
            document=document.name,
            sentence=t,
            line=first_line + t,
            lines=lines,
            kind=kind,
            word=word.src,
            expected=expected,
            renderings=word.renderings,
            bounds={"sentence": alone, "source": source, "both": both},
        )


def _dependent_words(sentence: Clause | Telling) -> dict[Kind, Lexeme]:
    if isinstance(sentence, Telling):
        return {}
    places = zip(KINDS, (sentence.subject, sentence.place, sentence.object), strict=True)
    return {kind: word for kind, word in places if isinstance(word, Lexeme)}


def _sense_bound(word: Lexeme, words: Sequence[Lexeme]) -> Bound:
    """From the sentence alone: the most frequent sense; ``words`` are those of the document."""

    def right(of: Lexeme) -> list[bool]:  # by topic
        guess = max(of.renderings, key=of.trg.count)
        return [form == guess for form in of.trg]

    here = right(word)
    topics = len(here)
    accuracy = sum(here) / topics
    covariance = 0.0
    for there in map(right, words):
        together = sum(one and other for one, other in zip(here, there, strict=True))
        covariance += together / topics - accuracy * (sum(there) / topics)
    return Bound(word.trg[here.index(True)], accuracy, covariance)


def _style_bound(word: Lexeme, cues: Sequence[int], count: int, config: SynthConfig) -> Bound:
    """From the source document: 1 / (1 + ((1 - q) / q)^|n₀ - n₁|), q a cue's accuracy.

    n₀ and n₁ count the cues to either style; on a tie all ``count`` names take the first.
    """
    lead = cues.count(0) - cues.count(1)
    odds_against = ((1 - config.cue_accuracy) / config.cue_accuracy) ** abs(lead)
    return _joint_bound(word.trg[int(lead < 0)], 1 / (1 + odds_against), count)


def _joint_bound(guess: str, accuracy: float, count: int) -> Bound:
    """Of ``count`` guesses in a document that are all right or all wrong."""
    return Bound(guess, accuracy, count * accuracy * (1 - accuracy))
