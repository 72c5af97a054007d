"""How fast a translation memory is built and searched, on made-up text, in CPU seconds."""

import random
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
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
    came first or scored no better than what did.
    """
    place = directory / f"memory-of-{pairs}"
    begun = time.process_time()
    made_up = _cpu_seconds_of_text(pairs)
    with MemoryWriter.build(place) as writer:
        writer.add(_documents(pairs), "made up")
    built = time.process_time() - begun - 2 * made_up  # once for itself, once on the way
    try:
        with TranslationMemory.open(place) as memory:
            seconds, found = _search(memory, pairs, queries)
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


def _search(memory: TranslationMemory, pairs: int, queries: int) -> tuple[Sequence[float], float]:
    """The CPU seconds of each search, in order of size, and how often the segment was found."""
    draw = random.Random(2)
    wanted = set(draw.sample(range(pairs), min(queries, pairs)))
    texts = (pair.src for document in _documents(pairs) for pair in document)
    seconds, found = [], 0
    for text in [text for number, text in enumerate(texts) if number in wanted]:
        query = _edit(text, draw)
        begun = time.process_time()
        matches = memory.search(query)
        seconds.append(time.process_time() - begun)
        (best,) = [match.score for match in matches[:1]] or [0]
        same = (match.score for match in matches if match.entry.src == text)
        found += next(same, -1) == best
    return sorted(seconds), found / max(len(seconds), 1)


def _cpu_seconds_of_text(pairs: int) -> float:
    begun = time.process_time()
    for _ in _documents(pairs):
        pass
    return time.process_time() - begun


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
