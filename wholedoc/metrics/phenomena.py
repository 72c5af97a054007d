"""Accuracy on the words of the artificial corpus that need their document, beside its bounds."""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from wholedoc.corpus.readers.lines import read_lines
from wholedoc.errors import UserError
from wholedoc.synthetic.bounds import INFORMATION, KINDS, Bound, Information, KeyItem, Kind, expect

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Best:
    """What the best possible translator reaches from some information."""

    accuracy: float
    """Its expected accuracy: the bound."""
    deviation: float
    """Standard deviation of its accuracy around the bound, for these items."""
    realised: float
    """The accuracy of its guesses on this very test set."""
    consistency: float | None
    """The consistency of its guesses; names only."""


@dataclass(frozen=True, slots=True)
class Phenomenon:
    """The measures of one kind of item."""

    items: int
    right: int
    """Items whose expected rendering stands in the translation, and no other rendering does."""
    unrendered: int
    """Items with none of their renderings in the translation, or several; they are not right."""
    accuracy: float
    consistency: float | None
    """Share of the pairs of names within a document that are rendered in the same style.

    A pair with an unrendered name is not consistent. None where there is no pair, and for other
    kinds.
    """
    best: dict[Information, Best]


def read_key(path: Path) -> list[KeyItem]:
    """Read a ``.key.jsonl`` file that ``write_synth`` wrote."""
    items = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            fields = json.loads(line)
            if fields["kind"] not in KINDS:
                raise ValueError(f"unknown kind {fields['kind']!r}")
            bounds = {name: Bound(**fields["bounds"][name]) for name in INFORMATION}
            fields |= {"renderings": tuple(fields["renderings"]), "bounds": bounds}
            items.append(KeyItem(**fields))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"not an item of a key ({type(error).__name__}: {error})",
                where=f"{path}:{number}",
                fix="write the corpus again",
            ) from error
    return items


def measure(key: Sequence[KeyItem], translations: Sequence[str]) -> dict[Kind, Phenomenon]:
    """Measure each kind of item in ``translations``, one for each line of the corpus of ``key``."""
    for item in key:
        if item.lines != len(translations) or not 0 <= item.line < item.lines:
            raise UserError(
                f"the key's line {item.line + 1} of {item.lines} is not among"
                f" {len(translations)} translations",
                fix="give the translation of the whole split the key belongs to",
            )
    tokens = [frozenset(_TOKEN.findall(line.lower())) for line in translations]
    kinds: dict[Kind, Phenomenon] = {}
    for kind in KINDS:
        items = [item for item in key if item.kind == kind]
        if items:
            kinds[kind] = _phenomenon(kind, items, [tokens[item.line] for item in items])
    return kinds


def _phenomenon(
    kind: Kind, items: Sequence[KeyItem], outputs: Sequence[frozenset[str]]
) -> Phenomenon:
    found = [_rendering(item, output) for item, output in zip(items, outputs, strict=True)]
    right = _hits(items, found)
    best: dict[Information, Best] = {}
    for information in INFORMATION:
        guesses = [item.bounds[information].guess for item in items]
        best[information] = Best(
            **expect(items, information),
            realised=_hits(items, guesses) / len(items),
            consistency=_consistency(items, guesses) if kind == "name" else None,
        )
    return Phenomenon(
        items=len(items),
        right=right,
        unrendered=found.count(None),
        accuracy=right / len(items),
        consistency=_consistency(items, found) if kind == "name" else None,
        best=best,
    )


def _rendering(item: KeyItem, output: frozenset[str]) -> str | None:
    """The one rendering of ``item`` in ``output``; None for none or several."""
    present = [word for word in item.renderings if word in output]
    return present[0] if len(present) == 1 else None


def _hits(items: Sequence[KeyItem], found: Sequence[str | None]) -> int:
    return sum(item.expected == word for item, word in zip(items, found, strict=True))


def _consistency(items: Sequence[KeyItem], found: Sequence[str | None]) -> float | None:
    """Share of the pairs of a document's names that are in one style."""
    styles: dict[str, list[int | None]] = defaultdict(list)
    for item, word in zip(items, found, strict=True):
        styles[item.document].append(None if word is None else item.renderings.index(word))
    pairs = [pair for document in styles.values() for pair in combinations(document, 2)]
    if not pairs:
        return None
    return sum(one is not None and one == other for one, other in pairs) / len(pairs)
