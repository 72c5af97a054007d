"""Lexical consistency: is a source word translated the same way throughout its document?"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from wholedoc.metrics.counts import Counts, share
from wholedoc.metrics.words import Aligned, ContentWords


@dataclass(frozen=True, slots=True)
class Consistency(Counts):
    """Pairs of occurrences of a source lemma within a document.

    consistency = same / pairs, relative_consistency = same / reference_same. The reference is
    counted on the same pairs, so that a system is not favoured by what it leaves out.
    """

    words: int = 0
    """Source lemmas with at least one pair, counted once in each document."""
    occurrences: int = 0
    """Occurrences, of lemmas that occur more than once, that the reference translates."""
    untranslated: int = 0
    """Those of them that the output does not translate."""
    pairs: int = 0
    """Pairs of occurrences that reference and output both translate."""
    same: int = 0
    """Pairs that share a target lemma in the output."""
    reference_same: int = 0
    """Pairs that share a target lemma in the reference."""

    def rates(self) -> dict[str, float | None]:
        """The consistency of the output, of the reference, and the one relative to the other."""
        return {
            "consistency": share(self.same, self.pairs),
            "reference_consistency": share(self.reference_same, self.pairs),
            "relative_consistency": share(self.same, self.reference_same),
        }


def count_consistency(
    reference: Sequence[Aligned],
    output: Sequence[Aligned],
    src_content: ContentWords,
    trg_content: ContentWords,
) -> Consistency:
    """Count one document, given as reference and as output, for the content words of its source.

    An occurrence is translated by the content words that it is linked to.
    """
    occurrences: dict[str, list[tuple[frozenset[str], frozenset[str]]]] = defaultdict(list)
    for right, given in zip(reference, output, strict=True):
        for i, word in enumerate(right.src):
            if word.lemma in src_content:
                translations = (_lemmas(right, i, trg_content), _lemmas(given, i, trg_content))
                occurrences[word.lemma].append(translations)
    return sum(map(_count_word, occurrences.values()), Consistency())


def _lemmas(pair: Aligned, i: int, content: ContentWords) -> frozenset[str]:
    return frozenset(word.lemma for word in pair.targets(i) if word.lemma in content)


def _count_word(occurrences: Sequence[tuple[frozenset[str], frozenset[str]]]) -> Consistency:
    expected = [translations for translations in occurrences if translations[0]]
    if len(expected) < 2:
        return Consistency()
    found = [translations for translations in expected if translations[1]]
    pairs = list(combinations(found, 2))
    return Consistency(
        words=int(bool(pairs)),
        occurrences=len(expected),
        untranslated=len(expected) - len(found),
        pairs=len(pairs),
        same=sum(not one[1].isdisjoint(other[1]) for one, other in pairs),
        reference_same=sum(not one[0].isdisjoint(other[0]) for one, other in pairs),
    )
