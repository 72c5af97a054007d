"""Discourse measures of a test set: what a translation keeps or loses across its sentences.

Consistency, pronouns, repeated names and terms, and the errors of a baseline that a system puts
right. ``docs/discourse.md`` tells how to read them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate, combinations, pairwise
from typing import Self, TypeVar

from wholedoc.corpus.word_translations import SIGNATURE, Aligner, Links, WordIds
from wholedoc.metrics.words import ContentWords, Splitter, Tokens, find_names

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Share:
    """part / whole: counts add up over documents, and the rate comes from their sums."""

    part: int = 0
    whole: int = 0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.part + other.part, self.whole + other.whole)

    @property
    def rate(self) -> float | None:
        """None where there is nothing to count."""
        return self.part / self.whole if self.whole else None


@dataclass(frozen=True, slots=True)
class Counts:
    """Shares that add up, each under its own name."""

    def __add__(self, other: Self) -> Self:
        names = (field.name for field in fields(self))
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True, slots=True)
class Aligned:
    """A source sentence and a translation of it, with their links."""

    src: Tokens
    trg: Tokens
    links: Links

    def targets(self, i: int) -> Tokens:
        """The words that source word ``i`` is linked to, in order."""
        return tuple(self.trg[j] for linked, j in self.links if linked == i)


def count_consistency(
    reference: Sequence[Aligned],
    output: Sequence[Aligned],
    src_content: ContentWords,
    trg_content: ContentWords,
) -> tuple[Share, Share]:
    """Is a content word of the source translated the same way throughout its document?

    Of the pairs of its occurrences that reference and output both translate, those that share a
    target lemma in the output: of all pairs, and relative to those that share one in the
    reference. It is counted on the same pairs, so that leaving words out does not help. An
    occurrence is translated by the content words that it is linked to.
    """
    occurrences: dict[str, list[list[set[str]]]] = defaultdict(list)
    for sentences in zip(reference, output, strict=True):
        for i, word in enumerate(sentences[0].src):
            if word.lemma in src_content:
                translations = [
                    {word.lemma for word in sentence.targets(i) if word.lemma in trg_content}
                    for sentence in sentences
                ]
                if all(translations):
                    occurrences[word.lemma].append(translations)
    pairs = [pair for found in occurrences.values() for pair in combinations(found, 2)]
    same_in_reference, same = (
        sum(not one[side].isdisjoint(other[side]) for one, other in pairs) for side in (0, 1)
    )
    return Share(same, len(pairs)), Share(same, same_in_reference)


def count_pronouns(
    reference: Sequence[Aligned], output: Sequence[Aligned], src: Splitter, trg: Splitter
) -> Share:
    """Of the source pronouns that the reference translates by pronouns, those that are right.

    Right is a pronoun of the reference's in any case: *he*, *him* and *his* are one; otherwise in
    the manner of APT (Miculicich Werlen & Popescu-Belis 2017). Without a table of the source
    language's pronouns, every source word is counted that the reference translates by one. Without
    a table of the target's, there is nothing to count.
    """
    total = correct = 0
    for right, given in zip(reference, output, strict=True):
        for i, word in enumerate(right.src):
            if src.pronouns and not src.is_pronoun(word):
                continue
            expected, found = (
                {token.lemma for token in pair.targets(i) if trg.is_pronoun(token)}
                for pair in (right, given)
            )
            total += bool(expected)
            correct += not expected.isdisjoint(found)
    return Share(correct, total)


def count_repetition(
    reference: Sequence[Tokens], output: Sequence[Tokens], chosen: Callable[[str], bool]
) -> Share:
    """Of the ``chosen`` lemmas that the reference repeats in a document, those that are kept.

    Each occurrence counts, and is kept if the output has the lemma in the same sentence: the
    paper's 22 of 32, on every document.
    """
    expected = [Counter(w.lemma for w in sentence if chosen(w.lemma)) for sentence in reference]
    found = [Counter(word.lemma for word in sentence) for sentence in output]
    everywhere: Counter[str] = sum(expected, Counter())
    cases = kept = 0
    for right, given in zip(expected, found, strict=True):
        for lemma, count in right.items():
            if everywhere[lemma] >= 2:
                cases += count
                kept += min(count, given[lemma])
    return Share(kept, cases)


@dataclass(frozen=True, slots=True)
class Errors(Counts):
    """Reference words that a baseline misses in their sentence: the paper's 85 % and 10 %."""

    corrected: Share = Share()
    """Those of them that a system has."""
    new: Share = Share()
    """Words that the system misses and the baseline has, for each of them."""


def count_errors(reference: Tokens, baseline: Tokens, system: Tokens) -> Errors:
    """Count one sentence, given as the baseline's and the system's output.

    A word that the reference has r times, the baseline b times and the system s times (as lemma)
    is wrong max(r − b, 0) times in the baseline and max(r − s, 0) times in the system; the
    difference is corrected, or new.
    """
    expected, before, after = (
        Counter(token.lemma for token in sentence) for sentence in (reference, baseline, system)
    )
    missed, still = expected - before, expected - after
    corrected, new = (missed - still).total(), (still - missed).total()
    return Errors(Share(corrected, missed.total()), Share(new, missed.total()))


@dataclass(frozen=True, slots=True)
class DiscourseCounts(Counts):
    """All measures of an output, of one document or of several."""

    consistency: Share = Share()
    relative_consistency: Share = Share()
    pronoun_accuracy: Share = Share()
    names_kept: Share = Share()
    terms_kept: Share = Share()


class Discourse:
    """A test set, ready to measure any number of outputs.

    For each output the aligner learns anew, from the source with its references and the source
    with this output: a system's odd translations must be found too, and its figures must not
    depend on which others it is compared with.
    """

    def __init__(
        self,
        src: Sequence[str],
        references: Sequence[str],
        sizes: Sequence[int],
        *,
        splitters: tuple[Splitter, Splitter],
    ) -> None:
        """Prepare documents of ``sizes`` sentences each; ``splitters`` of source and target."""
        if not len(src) == len(references) == sum(sizes):
            raise ValueError("every source sentence has one reference and belongs to one document")
        self._sizes = tuple(sizes)
        self._src_splitter, self._trg_splitter = splitters
        self._src = [self._src_splitter.split(text) for text in src]
        self._references = [self._trg_splitter.split(text) for text in references]
        originals, documents = (cut_documents(s, sizes) for s in (self._src, self._references))
        self._src_content = ContentWords(originals, self._src_splitter)
        self._trg_content = ContentWords(documents, self._trg_splitter)
        self._names = [
            # Names keep to their documents; "Mr" and "President" do not.
            find_names(reference, original) - self._trg_content.even
            for reference, original in zip(documents, originals, strict=True)
        ]
        self.signature = (
            f"src:{self._src_splitter.signature}|trg:{self._trg_splitter.signature}"
            f"|{SIGNATURE}|content:ridf.1"
        )

    def measure(self, output: Sequence[str]) -> list[DiscourseCounts]:
        """Count each document of an output, which has a translation for each source sentence."""
        aligned = [cut_documents(side, self._sizes) for side in self._align(self._split(output))]
        return [
            self._measure_document(*document)
            for document in zip(*aligned, self._names, strict=True)
        ]

    def _measure_document(
        self, reference: Sequence[Aligned], given: Sequence[Aligned], names: frozenset[str]
    ) -> DiscourseCounts:
        expected, found = ([pair.trg for pair in pairs] for pairs in (reference, given))

        def is_term(lemma: str) -> bool:
            return lemma in self._trg_content and lemma not in names

        return DiscourseCounts(
            *count_consistency(reference, given, self._src_content, self._trg_content),
            count_pronouns(reference, given, self._src_splitter, self._trg_splitter),
            count_repetition(expected, found, names.__contains__),
            count_repetition(expected, found, is_term),
        )

    def compare(self, baseline: Sequence[str], system: Sequence[str]) -> Errors:
        """Count what ``system`` puts right of the errors of ``baseline``, and what it breaks."""
        outputs = zip(self._references, self._split(baseline), self._split(system), strict=True)
        return sum((count_errors(*sentence) for sentence in outputs), Errors())

    def _split(self, output: Sequence[str]) -> list[Tokens]:
        if len(output) != len(self._src):
            raise ValueError(f"{len(output)} translations of {len(self._src)} sentences")
        return [self._trg_splitter.split(text) for text in output]

    def _align(self, output: Sequence[Tokens]) -> tuple[list[Aligned], list[Aligned]]:
        """The references and ``output`` with their links."""
        ids = WordIds()
        src, reference, given = (
            ids.encode([token.lemma for token in sentence] for sentence in text)
            for text in (self._src, self._references, output)
        )
        aligner = Aligner([*src, *src], [*reference, *given])
        right = map(Aligned, self._src, self._references, aligner.align(src, reference))
        found = map(Aligned, self._src, output, aligner.align(src, given))
        return list(right), list(found)


def cut_documents(sentences: Sequence[_Item], sizes: Sequence[int]) -> list[Sequence[_Item]]:
    """Group what there is for each sentence by documents of ``sizes`` sentences."""
    return [sentences[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
