"""What became of the terms of a glossary, in words."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wholedoc.decoding.results import Term, TranslatedDocument


@dataclass
class TermReport:
    """Counts the terms that were found, and lists those that are missing."""

    unit: str
    """What is counted to say where a term stands: a line, or a sentence."""
    counts: Counter[str] = field(default_factory=Counter)
    missing: "list[tuple[int, Term]]" = field(default_factory=list)
    """With the numbers of their lines or sentences."""

    def add(self, numbers: Sequence[int], translated: "TranslatedDocument") -> None:
        """Take one more document, and the numbers of its sentences."""
        for number, terms in zip(numbers, translated.terms, strict=True):
            self.counts.update(term.state for term in terms)
            self.missing += [(number, term) for term in terms if term.state == "missing"]

    def __str__(self) -> str:
        found, counts = self.counts.total(), self.counts
        lines = [
            f"terms of the glossary: {found:,} found, {counts['kept']:,} kept, "
            f"{counts['enforced']:,} enforced, {len(self.missing):,} missing"
        ]
        for number, term in self.missing:
            lines.append(f"missing in {self.unit} {number}: {term.source} → {term.target}")
        return "\n".join(lines)
