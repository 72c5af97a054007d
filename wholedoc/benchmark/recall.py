"""What recall costs: search with known pairs beside search without, in turns within one run."""

import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from wholedoc.benchmark.workload import Material
from wholedoc.config import MemoryConfig, SearchConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.decoding.cells import Recaller
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.known import find_remembered
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.model.recall import Recall
from wholedoc.model.translation import TranslationModel
from wholedoc.progress import say
from wholedoc.tm.memory import MemoryWriter, TranslationMemory
from wholedoc.training.recall import learn_projection

PAIRS = 8
_PROJECTED = 200  # pairs from whose features the projection is learned


class RecallCost(NamedTuple):
    """What recall costs, by the names of ``bench --json``."""

    pairs: int
    """Known pairs of a sentence, at most."""
    cells: float
    """Cells of a sentence, on average."""
    ratio: float
    """Time of search with recall beside search without, both with beam 5: finding the pairs in a
    memory that was read beforehand included."""
    ratio_unread: float
    """The same where the memory was not read beforehand."""
    finding_ms: float
    """Of it, finding the pairs of a sentence."""
    rss_mb: float
    """Memory that recall takes beside the plain model."""


@dataclass(frozen=True)
class _Turn:
    """Seconds of one way to translate."""

    finding: float
    searching: float

    @property
    def whole(self) -> float:
        """Both."""
        return self.finding + self.searching


def measure_recall(material: Material, rounds: int, sentences: int, directory: Path) -> RecallCost:
    """Search with recall and without, in turns; the material's corpus is the memory."""
    texts = _texts(material, sentences)
    config = replace(material.search, beam=5)
    model = material.model(material.config.model.without_context()).eval()
    plain = TranslationSystem(model, model)
    sources = material.source(sentences)
    _search(plain, sources, texts, None, config)  # caches warm up, and the memory of both is known
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # what it needs is not counted
        recall = pool.submit(_read_memory, material, directory / "memory").result()
    before = _rss_mb()
    with TranslationMemory.open(directory / "memory") as memory:
        recaller = Recaller(model, recall, material.vocabularies)
        ways: dict[str, list[_Turn]] = {"plain": [], "read": [], "unread": []}
        for number in range(rounds):
            say(f"recalling, round {number + 1} of {rounds}")
            ways["plain"].append(_search(plain, sources, texts, None, config))
            able = replace(plain, recaller=recaller, base_recaller=recaller)
            ways["read"].append(_search(able, sources, texts, memory, config))
            fresh = _Unprepared(model, recall, material.vocabularies)
            able = replace(plain, recaller=fresh, base_recaller=fresh)
            ways["unread"].append(_search(able, sources, texts, memory, config))
        known = find_remembered(texts, [memory], MemoryConfig(pairs=PAIRS))
        cells = sum(len(c.words) for c in recaller.gather(known).values())
        distinct = len({pair.key for pairs in known for pair in pairs})
    after = _rss_mb()
    each = zip(*ways.values(), strict=True)
    ratios = [(read.whole / base.whole, unread.whole / base.whole) for base, read, unread in each]
    return RecallCost(
        PAIRS,
        cells / max(1, distinct) * sum(map(len, known)) / len(known),
        median(ratio for ratio, _ in ratios),
        median(ratio for _, ratio in ratios),
        1000 * median(turn.finding for turn in ways["read"]) / len(texts),
        max(0.0, after - before),
    )


class _Unprepared(Recaller):
    """One that has nothing stored."""

    def _prepared(self, pair: object) -> None:
        del pair


def _search(
    system: TranslationSystem,
    sources: list[list[int]],
    texts: Sequence[str],
    memory: TranslationMemory | None,
    config: SearchConfig,
) -> _Turn:
    begun = time.process_time()
    known = [find_remembered(texts, [memory], MemoryConfig(pairs=PAIRS))] if memory else []
    found = time.process_time()
    translate_documents(system, [sources], config, measure=False, known=known)
    return _Turn(found - begun, time.process_time() - found)


def _texts(material: Material, sentences: int) -> list[str]:
    decode = material.vocabularies[0].decode
    return [decode(ids[:-1]) for ids in material.source(sentences)]


def _read_memory(material: Material, path: Path) -> Recall:
    """Make the corpus of the material a memory, and read it: what ``tm`` commands do."""
    corpus, (src, trg) = material.corpus, material.vocabularies
    pairs = tuple(
        SentencePair(src.decode(corpus.src(t).tolist()), trg.decode(corpus.trg(t).tolist()))
        for t in range(len(corpus))
    )
    with MemoryWriter.build(path) as writer:
        writer.add([Document("corpus", pairs)], "corpus")
    model = material.model(material.config.model.without_context()).eval()
    with TranslationMemory.open(path) as memory:
        recall = _projected(model, material.vocabularies, memory)
        Recaller(model, recall, material.vocabularies).prepare(memory)
    return recall


def _projected(
    model: TranslationModel,
    vocabularies: tuple[Vocabulary, Vocabulary],
    memory: TranslationMemory,
) -> Recall:
    """Keys as after training; a gate that is never shut."""
    recall = Recall(model.decoder.upper.state.in_features)
    entries = [entry for entry, _ in zip(memory.entries(), range(_PROJECTED), strict=False)]
    with torch.no_grad():
        reader = Recaller(model, recall, vocabularies)
        learn_projection(reader.features([(e.src, e.trg) for e in entries]), recall)
    return recall


def _rss_mb() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 2**20
