"""Discourse measures of a test set: what a translation keeps or loses across its sentences.

Consistency, pronouns, repeated names and terms, and the errors of a baseline that a system puts
right. ``docs/discourse.md`` tells how to read them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Self, TypeVar

from wholedoc.corpus.word_translations import SIGNATURE, Aligner, Links, WordIds
from wholedoc.errors import UserError
from wholedoc.metrics.words import ContentWords, Splitter, Tokens, find_names

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Counts:
    """Whole numbers, or further counts, that add up over documents; rates come from the sums."""

    def __add__(self, other: Self) -> Self:
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return type(self)(*(one + another for one, another in pairs))


def share(part: int, whole: int) -> float | None:
    """part / whole; None where ``whole`` is 0."""
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class Aligned:
    """A source sentence and a translation of it, with their links."""

    src: Tokens
    trg: Tokens
    links: Links

    def targets(self, i: int) -> Tokens:
        """The words that source word ``i`` is linked to, in order."""
        return tuple(self.trg[j] for linked, j in self.links if linked == i)


# Lexical consistency: is a source word translated the same way throughout its document?


@dataclass(frozen=True, slots=True)
class Consistency(Counts):
    """Pairs of occurrences of a source lemma within a document.

    consistency = same / pairs, relative_consistency = same / reference_same. The reference is
    counted on the same pairs, so that a system is not favoured by what it leaves out.
    """

    pairs: int = 0
    """Pairs of occurrences that reference and output both translate."""
    same: int = 0
    """Pairs that share a target lemma in the output."""
    reference_same: int = 0
    """Pairs that share a target lemma in the reference."""


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
                translations = (
                    _translations(right, i, trg_content),
                    _translations(given, i, trg_content),
                )
                occurrences[word.lemma].append(translations)
    return sum(map(_count_word, occurrences.values()), Consistency())


def _translations(pair: Aligned, i: int, content: ContentWords) -> frozenset[str]:
    return frozenset(word.lemma for word in pair.targets(i) if word.lemma in content)


def _count_word(occurrences: Sequence[tuple[frozenset[str], frozenset[str]]]) -> Consistency:
    translated = [found for found in occurrences if all(found)]
    pairs = list(combinations(translated, 2))
    return Consistency(
        pairs=len(pairs),
        same=sum(not one[1].isdisjoint(other[1]) for one, other in pairs),
        reference_same=sum(not one[0].isdisjoint(other[0]) for one, other in pairs),
    )


# Pronouns: does the output have the reference's pronoun at the aligned place?


@dataclass(frozen=True, slots=True)
class Pronouns(Counts):
    """Source pronouns that the reference translates by pronouns.

    pronoun_accuracy = correct / total. In the manner of APT (Miculicich Werlen & Popescu-Belis
    2017), save that the case of an English pronoun is no matter: *he*, *him* and *his* are one.
    """

    total: int = 0
    correct: int = 0
    """A pronoun of the reference's, in any case, is linked to the source word."""


def count_pronouns(
    reference: Sequence[Aligned], output: Sequence[Aligned], src: Splitter, trg: Splitter
) -> Pronouns:
    """Count one document, given as reference and as output.

    Without a table of the source language's pronouns, every source word is counted that the
    reference translates by one. Without a table of the target's, there is nothing to count.
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
    return Pronouns(total, correct)


# Repeated names and terms: are they kept wherever the reference has them?


@dataclass(frozen=True, slots=True)
class Repetition(Counts):
    """Occurrences of words that the reference has at least twice in a document.

    recall = kept / cases: the paper's 22 of 32, on every document.
    """

    cases: int = 0
    kept: int = 0
    """Those whose lemma the output has in the same sentence, each of its words counted once."""


def count_repetition(
    reference: Sequence[Tokens], output: Sequence[Tokens], chosen: Callable[[str], bool]
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


# Errors of a baseline: which are put right, and which are new?


@dataclass(frozen=True, slots=True)
class Errors(Counts):
    """Reference words that a baseline or a system misses in their sentence.

    corrected_share = corrected / wrong and new_share = new / wrong: the paper's 85 % and 10 %.
    """

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
    return Errors(missed.total(), (missed - still).total(), (still - missed).total())


# Whole test sets.


@dataclass(frozen=True, slots=True)
class DiscourseCounts(Counts):
    """All measures of an output, of one document or of several."""

    consistency: Consistency = field(default_factory=Consistency)
    pronouns: Pronouns = field(default_factory=Pronouns)
    names: Repetition = field(default_factory=Repetition)
    terms: Repetition = field(default_factory=Repetition)


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
            raise UserError(
                f"{len(src)} source sentences, {len(references)} references and documents of"
                f" {sum(sizes)} sentences do not fit",
                fix="give one reference and one document to each source sentence",
            )
        self._sizes = tuple(sizes)
        self._src_splitter, self._trg_splitter = splitters
        self._src = [self._src_splitter.split(text) for text in src]
        self._references = [self._trg_splitter.split(text) for text in references]
        documents = self._cut(self._references)
        self._src_content = ContentWords(self._cut(self._src), self._src_splitter)
        self._trg_content = ContentWords(documents, self._trg_splitter)
        self._names = [
            # Names keep to their documents; "Mr" and "President" do not.
            find_names(reference, original) - self._trg_content.even
            for reference, original in zip(documents, self._cut(self._src), strict=True)
        ]
        self.signature = (
            f"src:{self._src_splitter.signature}|trg:{self._trg_splitter.signature}"
            f"|{SIGNATURE}|content:ridf.1"
        )

    def measure(self, output: Sequence[str]) -> list[DiscourseCounts]:
        """Count each document of an output, which has a translation for each source sentence."""
        reference, given = self._align(self._split(output))
        documents = zip(self._cut(reference), self._cut(given), self._names, strict=True)
        return [self._measure_document(*document) for document in documents]

    def _measure_document(
        self, reference: Sequence[Aligned], given: Sequence[Aligned], names: frozenset[str]
    ) -> DiscourseCounts:
        expected, found = ([pair.trg for pair in pairs] for pairs in (reference, given))

        def is_term(lemma: str) -> bool:
            return lemma in self._trg_content and lemma not in names

        return DiscourseCounts(
            count_consistency(reference, given, self._src_content, self._trg_content),
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
            raise UserError(
                f"{len(output)} translations of {len(self._src)} sentences",
                fix="give the translation of the whole source",
            )
        return [self._trg_splitter.split(text) for text in output]

    def _align(self, output: Sequence[Tokens]) -> tuple[list[Aligned], list[Aligned]]:
        """The references and ``output`` with their links."""
        ids = WordIds()
        src, reference, given = (
            ids.encode([token.lemma for token in sentence] for sentence in text)
            for text in (self._src, self._references, output)
        )
        aligner = Aligner([*src, *src], [*reference, *given])
        right = zip(self._src, self._references, aligner.align(src, reference), strict=True)
        found = zip(self._src, output, aligner.align(src, given), strict=True)
        return [Aligned(*values) for values in right], [Aligned(*values) for values in found]

    def _cut(self, items: Sequence[_Item]) -> list[Sequence[_Item]]:
        """Group one item per sentence by document."""
        documents = []
        start = 0
        for size in self._sizes:
            documents.append(items[start : start + size])
            start += size
        return documents
