"""Repeated names and terms: are they kept wherever the reference has them?"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wholedoc.metrics.counts import Counts, share
from wholedoc.metrics.words import Sentence


@dataclass(frozen=True, slots=True)
class Repetition(Counts):
    """Occurrences of words that the reference has at least twice in a document.

    recall = kept / cases: the paper's 22 of 32, on every document.
    """

    cases: int = 0
    kept: int = 0
    """Those whose lemma the output has in the same sentence, each of its words counted once."""

    def rates(self) -> dict[str, float | None]:
        """The share of cases that are kept."""
        return {"recall": share(self.kept, self.cases)}


def count_repetition(
    reference: Sequence[Sentence], output: Sequence[Sentence], chosen: Callable[[str], bool]
) -> Repetition:
    """Count the lemmas of one document that are ``chosen`` and repeated in its reference."""
    expected = [Counter(w.lemma for w in sentence if chosen(w.lemma)) for sentence in reference]
    found = [Counter(word.lemma for word in sentence) for sentence in output]
    everywhere: Counter[str] = sum(expected, Counter())
    cases = kept = 0
    for right, given in zip(expected, found, strict=True):
        for lemma, count in right.items():
            if everywhere[lemma] >= 2:
                cases += count
                kept += min(count, given[lemma])
    return Repetition(cases, kept)
