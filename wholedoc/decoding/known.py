"""Known pairs: what people have translated and a sentence under translation may recall."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wholedoc.config import MemoryConfig
from wholedoc.tm.matching import EXACT, cover, encode_tokens, percentage, split_tokens
from wholedoc.tm.memory import Match, TranslationMemory

_CANDIDATES = 200  # approved sentences of a document that are compared with one of its sentences


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A sentence and its translation by a person, and how well it matches another sentence."""

    src: str
    trg: str
    score: int
    """Per cent, as translators know it; 101 with the same sentence before it."""
    coverage: float
    """How much of the sentence its source has, from 0 to 1; telling words count for more."""
    together: float
    """How much of it its source has together with those that were found with it."""
    document: str
    place: int
    """Its place in that document, counted from 0."""
    origin: str
    """The file it came from; empty for an approved sentence of the document itself."""
    date: str = ""
    memory: Path | None = None
    """Where the memory lies that it was found in."""
    entry: int = -1
    """Its number there."""

    @property
    def approved(self) -> bool:
        """Whether it is a sentence of the document under translation."""
        return self.memory is None

    @property
    def exact(self) -> bool:
        """Whether its source has the same tokens as the sentence."""
        return self.score >= EXACT

    @property
    def key(self) -> tuple[str, str]:
        """What its cells depend on."""
        return self.src, self.trg

    @classmethod
    def from_memory(cls, memory: TranslationMemory, match: Match) -> "KnownPair":
        """A match of a translation memory."""
        entry = match.entry
        return cls(
            entry.src,
            entry.trg,
            match.score,
            match.coverage,
            match.together,
            entry.document,
            entry.place - 1,
            entry.origin,
            entry.date,
            memory.path,
            entry.id,
        )


Known = Sequence[Sequence[KnownPair]]
"""The known pairs of some sentences."""


def find_remembered(
    texts: Sequence[str],
    memories: Sequence[TranslationMemory],
    limits: MemoryConfig,
    before: str = "",
) -> list[list[KnownPair]]:
    """The pairs of memories that a document's sentences know.

    ``before`` is the sentence before the first one, where these are a part of a document.
    """
    befores = sentences_before(texts, before)
    found: list[list[KnownPair]] = [[] for _ in texts]
    for memory in memories if limits.pairs else ():
        matches = memory.covering_all(texts, limits.pairs, befores)
        for pairs, of_sentence in zip(found, matches, strict=True):
            pairs += [KnownPair.from_memory(memory, match) for match in of_sentence]
    return [_best(pairs, limits.pairs) for pairs in found] if len(memories) > 1 else found


def find_approved(
    texts: Sequence[str], approved: Mapping[int, str], limits: MemoryConfig, rehearse: bool = False
) -> list[list[KnownPair]]:
    """The approved sentences of their own document that its sentences know.

    To ``rehearse``, a sentence knows only the approved ones before it.
    """
    places = [u for u in sorted(approved) if approved[u].strip()] if limits.approved else []
    if not places:
        return [[] for _ in texts]
    document, found = _Document(texts, places), []
    for t in range(len(texts)):
        others = document.candidates(t, t if rehearse else len(texts))
        chosen, together = document.choose(t, others, limits.approved)
        found.append(
            [
                KnownPair(texts[u], approved[u], document.match(t, u), share, together, "", u, "")
                for u, share in chosen
            ]
        )
    return found


def sentences_before(texts: Sequence[str], before: str = "") -> list[str]:
    """The last sentence with something on it before each; empty where the document begins."""
    found = []
    for text in texts:
        found.append(before)
        before = text if text.strip() else before
    return found


def _best(pairs: list[KnownPair], count: int) -> list[KnownPair]:
    """Of what several memories have, the best; the same pair once."""
    ranked = sorted(pairs, key=lambda pair: (-pair.exact * pair.score, -pair.coverage))
    distinct: dict[tuple[str, str], KnownPair] = {}
    for pair in ranked:
        distinct.setdefault(pair.key, pair)
    return list(distinct.values())[:count]


class _Document:
    """The sentences of a document, compared with those of some places."""

    def __init__(self, texts: Sequence[str], places: Sequence[int]) -> None:
        self.tokens = [split_tokens(text) for text in texts]
        self.codes = [encode_tokens(tokens) for tokens in self.tokens]
        seen = Counter(code for each in self.codes for code in set(each))
        self.worth = {code: math.log(1 + len(texts) / count) for code, count in seen.items()}
        self.having: dict[str, list[int]] = {}
        self.equal: dict[str, list[int]] = {}
        for u in places:
            self.equal.setdefault(self.codes[u], []).append(u)
            for code in set(self.codes[u]):
                self.having.setdefault(code, []).append(u)

    def candidates(self, t: int, end: int) -> list[int]:
        """Places before ``end`` that share words with sentence ``t``, up to a number.

        Those with all of its words come first, then those with its rarest.
        """
        codes = sorted(set(self.codes[t]), key=lambda code: (-self.worth[code], code))
        found: dict[int, None] = {}
        for places in (self.equal.get(self.codes[t], ()), *map(self.having.get, codes)):
            found |= dict.fromkeys(u for u in places or () if u != t and u < end)
            if len(found) >= _CANDIDATES:
                break
        return sorted(list(found)[: 4 * _CANDIDATES])

    def match(self, t: int, u: int) -> int:
        """How like two sentences are, in per cent."""
        return percentage(self.tokens[t], self.tokens[u])

    def choose(
        self, t: int, places: Sequence[int], limit: int
    ) -> tuple[list[tuple[int, float]], float]:
        """Of some places, those whose sentences cover sentence ``t``: each, and all together."""
        if not places or not self.codes[t]:
            return [], 0.0
        coverage = cover(self.codes[t], [self.codes[u] for u in places], self.worth)
        chosen, shares = coverage.choose(limit), coverage.shares
        return [(places[n], shares[n]) for n in chosen], coverage.together(chosen)


def find_exact(known: Sequence[KnownPair]) -> int | None:
    """Which known pair has the very sentence: an approved one before any other, the first one."""
    exact = [n for n, pair in enumerate(known) if pair.exact]
    return min(exact, key=lambda n: (not known[n].approved, n), default=None)
