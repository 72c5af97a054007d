"""How fast a translation memory is built and searched, on made-up text, in CPU seconds."""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate, count
from pathlib import Path
from shutil import rmtree

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.tm.memory import MemoryWriter, TranslationMemory

WORDS = 50_000  # of the vocabulary; the n-th word has a share in proportion to 1/n
MEAN_LENGTH = 14
DOCUMENT = 100  # pairs of each
EDITED = 0.2  # share of the words of a query that differ from its segment


def measure_memory(pairs: int, queries: int, directory: Path) -> dict[str, float]:
    """Build a memory of so many pairs and search it for edited segments; deterministic text.

    Returns the speed of building in pairs per second, the median and the 95th percentile of a
    search for 8 matches in milliseconds, bytes on disk, and the share of queries whose segment
    was found, with no better one than it.
    """
    place = directory / f"memory-of-{pairs}"
    text = _Text(pairs, queries)
    begun = time.process_time()
    with MemoryWriter.build(place) as writer:
        writer.add(text, "made up")
    built = time.process_time() - begun - text.seconds
    try:
        with TranslationMemory.open(place) as memory:
            seconds, found = _search(memory, text.chosen)
            stats = memory.stats()
    finally:
        rmtree(place)
    return {
        "pairs": pairs,
        "entries": stats.entries,
        "pairs_per_second": pairs / max(built, 1e-9),
        "search_ms_p50": 1000 * seconds[len(seconds) // 2],
        "search_ms_p95": 1000 * seconds[int(0.95 * (len(seconds) - 1))],
        "bytes": stats.bytes_on_disk,
        "found": found,
    }


class _Text:
    """Made-up documents; notes the CPU seconds that making them took, and some segments."""

    def __init__(self, pairs: int, queries: int) -> None:
        self.seconds = 0.0
        self.chosen: list[str] = []
        self._pairs = pairs
        self._wanted = set(random.Random(2).sample(range(pairs), min(queries, pairs)))

    def __iter__(self) -> Iterator[Document]:
        begun = time.process_time()
        numbers = count()
        for document in _documents(self._pairs):
            self.chosen += [p.src for p in document if next(numbers) in self._wanted]
            self.seconds += time.process_time() - begun
            yield document
            begun = time.process_time()


def _search(memory: TranslationMemory, texts: Sequence[str]) -> tuple[Sequence[float], float]:
    """The CPU seconds of each search, in order of size, and how often the segment was found."""
    draw = random.Random(3)
    seconds, found = [], 0
    for text in texts:
        query = _edit(text, draw)
        begun = time.process_time()
        matches = memory.search(query)
        seconds.append(time.process_time() - begun)
        same = (match.score for match in matches if match.entry.src == text)
        found += bool(matches) and next(same, -1) == matches[0].score
    return sorted(seconds), found / max(len(seconds), 1)


def _documents(pairs: int) -> Iterator[Document]:
    """The same documents at every call."""
    draw = random.Random(1)
    weights = list(accumulate(1 / (rank + 1) for rank in range(WORDS)))
    src = [f"w{number:x}" for number in range(WORDS)]
    trg = [f"t{number:x}" for number in range(WORDS)]
    numbers = range(WORDS)
    for start in range(0, pairs, DOCUMENT):
        found = []
        for _ in range(min(DOCUMENT, pairs - start)):
            length = 1 + int(draw.expovariate(1 / MEAN_LENGTH))
            chosen = draw.choices(numbers, cum_weights=weights, k=min(length, 100))
            texts = (" ".join(names[n] for n in chosen) + "." for names in (src, trg))
            found.append(SentencePair(next(texts), next(texts)))
        yield Document(str(start), tuple(found))


def _edit(text: str, draw: random.Random) -> str:
    """The text with some words replaced, left out or put in."""
    words = []
    for word in text.split():
        fate = draw.random() / EDITED
        if fate >= 2 / 3:
            words.append(word)
        if fate < 1 and fate >= 1 / 3:
            words.append(f"w{draw.randrange(WORDS):x}")
    return " ".join(words) or text
