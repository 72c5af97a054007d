"""Known pairs: what people have translated and a sentence under translation may recall."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wholedoc.config import MemoryConfig
from wholedoc.tm.matching import percentage, split_tokens
from wholedoc.tm.memory import Entry, TranslationMemory


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A sentence and its translation by a person, and how well it matches another sentence."""

    src: str
    trg: str
    score: int
    """Per cent, as translators know it; 101 with the same sentence before it."""
    document: str
    place: int
    """Its place in that document."""
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
    def key(self) -> tuple[str, str]:
        """What its cells depend on."""
        return self.src, self.trg

    @classmethod
    def from_memory(cls, memory: TranslationMemory, entry: Entry, score: int) -> "KnownPair":
        """A match of a translation memory."""
        where = entry.document, entry.place, entry.origin, entry.date
        return cls(entry.src, entry.trg, score, *where, memory.path, entry.id)


Known = Sequence[Sequence[KnownPair]]
"""The known pairs of some sentences."""


def find_known(
    texts: Sequence[str],
    memories: Sequence[TranslationMemory],
    approved: Mapping[int, str],
    limits: MemoryConfig,
    rehearse: bool = False,
) -> list[list[KnownPair]]:
    """The known pairs of a document's sentences: those of memories, then approved ones.

    To ``rehearse``, a sentence knows only the approved ones before it.
    """
    befores = [None, *texts[:-1]]
    found: list[list[KnownPair]] = [[] for _ in texts]
    for memory in memories if limits.pairs else ():
        matches = memory.covering_all(texts, limits.pairs, befores)
        for pairs, of_sentence in zip(found, matches, strict=True):
            pairs += [KnownPair.from_memory(memory, m.entry, m.score) for m in of_sentence]
    if len(memories) > 1:
        found = [_best(pairs, limits.pairs) for pairs in found]
    if approved and limits.approved:
        tokens = [split_tokens(text) for text in texts]
        for t, pairs in enumerate(found):
            visible = {u: text for u, text in approved.items() if u < t} if rehearse else approved
            pairs += _nearest(t, texts, tokens, visible, limits.approved)
    return found


def _best(pairs: list[KnownPair], count: int) -> list[KnownPair]:
    """Of what several memories have, the best; the same pair once."""
    distinct = {pair.key: pair for pair in sorted(pairs, key=lambda pair: pair.score)}
    return sorted(distinct.values(), key=lambda pair: -pair.score)[:count]


def _nearest(
    t: int,
    texts: Sequence[str],
    tokens: Sequence[list[str]],
    approved: Mapping[int, str],
    limit: int,
) -> list[KnownPair]:
    """The approved sentences that cover sentence ``t`` best."""
    places = [u for u in approved if u != t]
    scored = [(percentage(tokens[t], tokens[u]), -abs(t - u), u) for u in places]
    return [
        KnownPair(texts[u], approved[u], score, "", u, "")
        for score, _, u in sorted(scored, reverse=True)[:limit]
    ]
