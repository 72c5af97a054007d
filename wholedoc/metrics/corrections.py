"""Error analysis against a baseline: the words it got wrong, those put right, and new errors."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from wholedoc.metrics.counts import Counts, Row, share
from wholedoc.metrics.words import ContentWords, Sentence, Splitter


@dataclass(frozen=True, slots=True)
class Errors(Counts):
    """Reference words that a baseline or a system misses in their sentence.

    corrected_share = corrected / wrong and new_share = new / wrong: the paper's 85 % and 10 %.
    """

    words: int = 0
    """All words of the reference."""
    wrong: int = 0
    """Words that the baseline misses."""
    corrected: int = 0
    """Those of them that the system has."""
    new: int = 0
    """Words that the system misses and the baseline has."""

    def rates(self) -> dict[str, float | None]:
        """Corrections and new errors, for each error of the baseline."""
        return {
            "corrected_share": share(self.corrected, self.wrong),
            "new_share": share(self.new, self.wrong),
        }


@dataclass(frozen=True, slots=True)
class Corrections(Counts):
    """The errors among all words of the reference, and among those of some kinds."""

    all: Errors = field(default_factory=Errors)
    content: Errors = field(default_factory=Errors)
    pronouns: Errors = field(default_factory=Errors)
    names: Errors = field(default_factory=Errors)

    @property
    def gain(self) -> int:
        """Words put right, less new errors."""
        return self.all.corrected - self.all.new


def count_corrections(
    reference: Sentence,
    outputs: tuple[Sentence, Sentence],
    names: Collection[str],
    content: ContentWords,
    splitter: Splitter,
) -> Corrections:
    """Count one sentence, given as the baseline's and the system's output.

    A word that the reference has r times, the baseline b times and the system s times (as lemma)
    is wrong max(r − b, 0) times in the baseline and max(r − s, 0) times in the system; the
    difference is corrected, or new.
    """
    pronouns = {word.lemma for word in reference if splitter.is_pronoun(word)}
    lemmas = Counter(word.lemma for word in reference)
    baseline, system = (Counter(word.lemma for word in output) for output in outputs)

    def count(chosen: Iterable[str]) -> Errors:
        errors = Errors()
        for lemma in chosen:
            wrong = max(lemmas[lemma] - baseline[lemma], 0)
            still = max(lemmas[lemma] - system[lemma], 0)
            errors += Errors(lemmas[lemma], wrong, max(wrong - still, 0), max(still - wrong, 0))
        return errors

    return Corrections(
        all=count(lemmas),
        content=count(lemma for lemma in lemmas if lemma in content),
        pronouns=count(pronouns),
        names=count(lemma for lemma in lemmas if lemma in names),
    )


@dataclass(frozen=True, slots=True)
class Example:
    """A sentence that a system gained or lost much in."""

    sentence: int
    """Its index in the text, from 0."""
    src: str
    reference: str
    baseline: str
    system: str
    corrected: int
    new: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A system's output against a baseline's."""

    documents: tuple[Corrections, ...]
    """The counts of each document."""
    gains: tuple[Example, ...]
    """The sentences with the most words put right beyond new errors, most first."""
    losses: tuple[Example, ...]
    """The sentences with the most new errors beyond words put right, most first."""
    signature: str

    @property
    def total(self) -> Corrections:
        """The counts of all documents."""
        return sum(self.documents, Corrections())

    def rows(self) -> list[Row]:
        """Shares of the baseline's errors, for a table."""
        total = self.total
        rows = []
        for name, errors, of in (
            ("", total.all, ""),
            ("content_", total.content, " in content words"),
            ("pronoun_", total.pronouns, " in pronouns"),
            ("name_", total.names, " in names"),
        ):
            corrected, new = errors.rates().values()
            rows.append(Row(f"{name}corrected", corrected, f"baseline's errors{of} put right"))
            rows.append(Row(f"{name}new_errors", new, f"new errors{of}, per baseline's error"))
        return rows

    def to_json(self) -> dict[str, Any]:
        """Counts and rates by kind of word, and the examples."""
        return {
            **self.total.to_json(),
            "gains": [asdict(example) for example in self.gains],
            "losses": [asdict(example) for example in self.losses],
            "signature": self.signature,
        }


def rank(gains: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """The sentences with the largest gains and the largest losses, at most ``count`` of each."""
    order = sorted(range(len(gains)), key=lambda t: (-gains[t], t))
    best = [t for t in order[:count] if gains[t] > 0]
    order.sort(key=lambda t: (gains[t], t))
    return best, [t for t in order[:count] if gains[t] < 0]
