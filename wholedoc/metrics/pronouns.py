"""Pronoun accuracy: does the output have the reference's pronoun at the aligned place?"""

from collections.abc import Sequence
from dataclasses import dataclass

from wholedoc.metrics.counts import Counts, share
from wholedoc.metrics.words import Aligned, Splitter


@dataclass(frozen=True, slots=True)
class Pronouns(Counts):
    """Source pronouns that the reference translates by pronouns.

    pronoun_accuracy = correct / total; total = correct + other + missing. In the manner of APT
    (Miculicich Werlen & Popescu-Belis 2017), save that the case of an English pronoun is no matter:
    *he*, *him* and *his* are one.
    """

    total: int = 0
    correct: int = 0
    """A pronoun of the reference's, in any case, is linked to the source word."""
    identical: int = 0
    """Those of them in the very form of the reference's."""
    other: int = 0
    """Only other pronouns are linked to it."""
    missing: int = 0
    """No pronoun is linked to it."""
    skipped: int = 0
    """Source pronouns, beside the total, that the reference translates by no pronoun."""

    def rates(self) -> dict[str, float | None]:
        """The accuracy, and that of the very forms."""
        return {
            "pronoun_accuracy": share(self.correct, self.total),
            "identical_pronouns": share(self.identical, self.total),
        }


def count_pronouns(
    reference: Sequence[Aligned], output: Sequence[Aligned], src: Splitter, trg: Splitter
) -> Pronouns:
    """Count one document, given as reference and as output.

    Without a table of the source language's pronouns, every source word is counted that the
    reference translates by one. Without a table of the target's, there is nothing to count.
    """
    total = correct = identical = missing = skipped = 0
    for right, given in zip(reference, output, strict=True):
        for i, word in enumerate(right.src):
            if src.pronouns and not src.is_pronoun(word):
                continue
            expected = [target for target in right.targets(i) if trg.is_pronoun(target)]
            if not expected:
                skipped += bool(src.pronouns)
                continue
            found = [target for target in given.targets(i) if trg.is_pronoun(target)]
            total += 1
            missing += not found
            correct += not {w.lemma for w in expected}.isdisjoint(w.lemma for w in found)
            identical += not {w.form.lower() for w in expected}.isdisjoint(
                w.form.lower() for w in found
            )
    return Pronouns(total, correct, identical, total - correct - missing, missing, skipped)
