"""Discourse measures of a test set: what a translation keeps or loses across its sentences.

``docs/discourse.md`` tells how to read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wholedoc.corpus.word_translations import SIGNATURE, Aligner, WordIds
from wholedoc.errors import UserError
from wholedoc.metrics.consistency import Consistency, count_consistency
from wholedoc.metrics.corrections import (
    Corrections,
    Difference,
    Example,
    count_corrections,
    rank,
)
from wholedoc.metrics.counts import Counts, Row, share
from wholedoc.metrics.pronouns import Pronouns, count_pronouns
from wholedoc.metrics.repetition import Repetition, count_repetition
from wholedoc.metrics.words import (
    UNKNOWN,
    Aligned,
    ContentWords,
    Sentence,
    Splitter,
    find_names,
)

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Unknowns(Counts):
    """Words that a system gave as ``<unk>``."""

    sentences: int = 0
    sentences_with: int = 0
    """Sentences with at least one."""
    unknown: int = 0

    def rates(self) -> dict[str, float | None]:
        """Unknown words per sentence, and the share of sentences with any."""
        return {
            "unknown_per_sentence": share(self.unknown, self.sentences),
            "sentences_with_share": share(self.sentences_with, self.sentences),
        }


def count_unknowns(output: Sequence[Sentence]) -> Unknowns:
    """Count ``<unk>`` in the sentences of one document."""
    counts = [sum(word.lemma == UNKNOWN for word in sentence) for sentence in output]
    return Unknowns(len(counts), sum(count > 0 for count in counts), sum(counts))


@dataclass(frozen=True, slots=True)
class Measures(Counts):
    """All measures of an output, of one document or of several."""

    consistency: Consistency = field(default_factory=Consistency)
    pronouns: Pronouns = field(default_factory=Pronouns)
    names: Repetition = field(default_factory=Repetition)
    terms: Repetition = field(default_factory=Repetition)
    unknowns: Unknowns = field(default_factory=Unknowns)


@dataclass(frozen=True, slots=True)
class DiscourseScores:
    """The measures of one system's output."""

    documents: tuple[Measures, ...]
    """The counts of each document; a resampled test set is a sum of some."""
    signature: str

    @property
    def total(self) -> Measures:
        """The counts of all documents."""
        return sum(self.documents, Measures())

    def rows(self) -> list[Row]:
        """The figures of a table."""
        total = self.total
        consistency, pronouns = total.consistency.rates(), total.pronouns.rates()
        return [
            Row("consistency", consistency["consistency"], "lexical consistency"),
            Row(
                "relative_consistency",
                consistency["relative_consistency"],
                "lexical consistency, relative to the reference's",
            ),
            Row("pronoun_accuracy", pronouns["pronoun_accuracy"], "pronouns right"),
            Row("names_kept", total.names.rates()["recall"], "repeated names kept"),
            Row("terms_kept", total.terms.rates()["recall"], "repeated terms kept"),
            Row("unknown", total.unknowns.unknown, "<unk> words"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Counts and rates by measure."""
        return {**self.total.to_json(), "signature": self.signature}


class Discourse:
    """A test set, ready to measure any number of outputs.

    For each output the aligner learns anew, from the source with its references, the source with
    this output, and ``more`` sentence pairs if given: a system's odd translations must be found
    too, and its figures must not depend on which others it is compared with.
    """

    def __init__(
        self,
        src: Sequence[str],
        references: Sequence[str],
        sizes: Sequence[int],
        *,
        splitters: tuple[Splitter, Splitter],
        more: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Prepare documents of ``sizes`` sentences each; ``splitters`` of source and target."""
        if not len(src) == len(references) == sum(sizes):
            raise UserError(
                f"{len(src)} source sentences, {len(references)} references and documents of"
                f" {sum(sizes)} sentences do not fit",
                fix="give one reference and one document to each source sentence",
            )
        self._sizes = tuple(sizes)
        self._texts = tuple(zip(src, references, strict=True))
        self._src_splitter, self._trg_splitter = splitters
        self._src = [self._src_splitter.split(text) for text in src]
        self._references = [self._trg_splitter.split(text) for text in references]
        self._more_src = [self._src_splitter.split(pair[0]) for pair in more]
        self._more_trg = [self._trg_splitter.split(pair[1]) for pair in more]
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
            f"|{SIGNATURE}|content:ridf.1|more:{len(more)}"
        )

    def measure(self, output: Sequence[str]) -> DiscourseScores:
        """Measure an output, one translation for each source sentence."""
        reference, given = self._align(self._split(output))
        documents = zip(self._cut(reference), self._cut(given), self._names, strict=True)
        return DiscourseScores(
            tuple(self._measure_document(*document) for document in documents), self.signature
        )

    def _measure_document(
        self, reference: Sequence[Aligned], given: Sequence[Aligned], names: frozenset[str]
    ) -> Measures:
        expected, found = ([pair.trg for pair in pairs] for pairs in (reference, given))

        def is_term(lemma: str) -> bool:
            return lemma in self._trg_content and lemma not in names

        return Measures(
            count_consistency(reference, given, self._src_content, self._trg_content),
            count_pronouns(reference, given, self._src_splitter, self._trg_splitter),
            count_repetition(expected, found, names.__contains__),
            count_repetition(expected, found, is_term),
            count_unknowns(found),
        )

    def compare(
        self, baseline: Sequence[str], system: Sequence[str], examples: int = 5
    ) -> Difference:
        """Find what ``system`` puts right of the errors of ``baseline``, and what it breaks."""
        outputs = list(zip(self._split(baseline), self._split(system), strict=True))
        counted = [
            [
                count_corrections(right, pair, names, self._trg_content, self._trg_splitter)
                for right, pair in zip(reference, pairs, strict=True)
            ]
            for reference, pairs, names in zip(
                self._cut(self._references), self._cut(outputs), self._names, strict=True
            )
        ]
        sentences = [counts for document in counted for counts in document]

        def example(t: int) -> Example:
            return Example(
                sentence=t,
                src=self._texts[t][0],
                reference=self._texts[t][1],
                baseline=baseline[t],
                system=system[t],
                corrected=sentences[t].all.corrected,
                new=sentences[t].all.new,
            )

        gains, losses = rank([counts.gain for counts in sentences], examples)
        return Difference(
            documents=tuple(sum(document, Corrections()) for document in counted),
            gains=tuple(map(example, gains)),
            losses=tuple(map(example, losses)),
            signature=self.signature,
        )

    def _split(self, output: Sequence[str]) -> list[Sentence]:
        if len(output) != len(self._src):
            raise UserError(
                f"{len(output)} translations of {len(self._src)} sentences",
                fix="give the translation of the whole source",
            )
        return [self._trg_splitter.split(text) for text in output]

    def _align(self, output: Sequence[Sentence]) -> tuple[list[Aligned], list[Aligned]]:
        """The references and ``output`` with their links."""
        texts = (self._src, self._references, output, self._more_src, self._more_trg)
        ids = WordIds()
        src, reference, given, more_src, more_trg = (ids.encode(_lemmas(text)) for text in texts)
        aligner = Aligner([*src, *src, *more_src], [*reference, *given, *more_trg])
        right = zip(self._src, self._references, aligner.align(src, reference), strict=True)
        found = zip(self._src, output, aligner.align(src, given), strict=True)
        return [Aligned(*values) for values in right], [Aligned(*values) for values in found]

    def _cut(self, items: Sequence[_Item]) -> list[Sequence[_Item]]:
        """Cut what there is of each sentence into documents."""
        documents = []
        start = 0
        for size in self._sizes:
            documents.append(items[start : start + size])
            start += size
        return documents


def _lemmas(sentences: Sequence[Sentence]) -> list[list[str]]:
    return [[word.lemma for word in sentence] for sentence in sentences]
