"""Systems that recall what people have translated: their memories, and what each of them knows.

They train nothing: each translates with the model of another system. The memories lie in
``memories``, their names ending with a digest of what they were made from.

``train``   the training set
``other``   parallel text of another domain
``empty``   nothing

``recall-random`` is given pairs of the training set that were drawn for each sentence: real pairs,
as many as recall reads, with their true match, from the same domain. What it lacks is the search.
"""

import hashlib
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from wholedoc.config import Config, CorpusFiles, DataConfig
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.readers import fingerprint, read_corpus
from wholedoc.decoding.known import sentences_before
from wholedoc.decoding.translator import Knowledge
from wholedoc.experiment.grid import Experiment, Job, SystemName
from wholedoc.experiment.results import read_documents, write_lines
from wholedoc.files import write_atomically
from wholedoc.progress import say
from wholedoc.tm.matching import percentage, split_tokens
from wholedoc.tm.memory import Entry, Match, MemoryWriter, TranslationMemory
from wholedoc.training.data import open_corpus

_MEMORIES: dict[SystemName, str] = {
    "copy": "train",
    "recall": "train",
    "recall-approved": "train",
    "both-context-recall": "train",
    "both-output-recall": "train",
    "recall-other": "other",
    "recall-random": "train",
    "recall-empty": "empty",
}
_SEPARATOR = " ‖ "  # between a source and the target of its best match
_MATCHES = 2  # one of them may be the pair itself
_LEAST = 50  # per cent of a match that is put beside a source
_SETS = ("train", "dev", "test")
_APPROVED: tuple[SystemName, ...] = ("approved", "recall-approved")


class RandomMemory(TranslationMemory):
    """A memory that is not searched: each text is given entries by chance, the same every time."""

    def __init__(self, path: str | Path, seed: int) -> None:
        super().__init__(path)
        self._seed = seed

    @cached_property
    def _entries(self) -> list[Entry]:
        return list(self.entries())

    def covering(self, text: str, limit: int = 8, before: str | None = None) -> list[Match]:  # noqa: ARG002
        """Entries by chance, with the match and the coverage that they truly have."""
        tokens = split_tokens(text)
        if not tokens:
            return []
        draw = random.Random(f"{self._seed} {text}")
        chosen = draw.sample(self._entries, min(limit, len(self._entries)))
        coverage = self.cover(text, [entry.src for entry in chosen])
        together = coverage.together(range(len(chosen)))
        return [
            Match(entry, percentage(tokens, split_tokens(entry.src)), share, together)
            for entry, share in zip(chosen, coverage.shares, strict=True)
        ]


def memory_path(experiment: Experiment, name: str) -> Path:
    """Where a memory lies."""
    return experiment.out / "memories" / f"{name}-{_digest(experiment, name)[:8]}"


def _digest(experiment: Experiment, name: str) -> str:
    """Of what a memory is made from: files, and what is left out of them."""
    data = _config(experiment).data
    files = {"train": data.train, "other": experiment.config.recall.other}
    read = replace(data, train=files.get(name, CorpusFiles()))
    return hashlib.sha256(_made_from(read, ["train"]).encode()).hexdigest()


def _made_from(data: DataConfig, names: Sequence[str]) -> str:
    """What says whether something made from some sets is as it would be made now."""
    settings = {k: v for k, v in vars(data).items() if not isinstance(v, CorpusFiles)}
    return json.dumps([settings, [fingerprint(getattr(data, name)) for name in names]])


def _config(experiment: Experiment) -> Config:
    return experiment.job_config(experiment.jobs()[0])


def write_memories(experiment: Experiment) -> None:
    """Write the memories that are missing."""
    config = _config(experiment)
    languages = config.data.src_language, config.data.trg_language
    asked = {_MEMORIES.get(system, "") for system in experiment.config.systems}
    if "fuzzy" in experiment.config.systems:
        asked.add("train")
    for name in sorted(asked - {""}):
        path = memory_path(experiment, name)
        if path.exists():
            continue
        say(f"preparing the memory {path}")
        documents: Iterable[Document] = ()
        if name == "train":
            documents = open_corpus(config, "train")
        elif name == "other":
            documents = read_corpus(experiment.config.recall.other, *languages)
        with MemoryWriter.build(path, *languages) as writer:
            writer.add(documents, name)


@contextmanager
def open_knowledge(
    experiment: Experiment, job: Job, documents: Sequence[Document]
) -> Iterator[Knowledge]:
    """What the system of a job knows while it translates the test set."""
    references: list[dict[int, str]] = []
    if job.system in _APPROVED:
        references = [{t: pair.trg for t, pair in enumerate(d)} for d in documents]
    memories: tuple[TranslationMemory, ...] = ()
    with ExitStack() as stack:
        if name := _MEMORIES.get(job.system):
            path = memory_path(experiment, name)
            is_random = job.system == "recall-random"
            memory = RandomMemory(path, job.seed) if is_random else TranslationMemory.open(path)
            memories = (stack.enter_context(memory),)
        yield Knowledge(references, memories, rehearse=True, protect=False)


def best_matches(memory: TranslationMemory, documents: Iterable[Document]) -> list[Match | None]:
    """The best match of each sentence of some documents; None where there is none."""
    found: list[Match | None] = []
    for document in documents:
        texts = [pair.src for pair in document]
        for matches in memory.search_all(texts, 1, sentences_before(texts)):
            found.append(matches[0] if matches else None)
    return found


def write_fuzzy(experiment: Experiment) -> None:
    """Write the corpora with the target of each source's best match beside it (``fuzzy``).

    Bulté and Tezcan (ACL 2019): source ‖ target of the best match of at least 50 per cent, of the
    training set as a memory; a pair never stands beside itself.
    """
    config, directory = _config(experiment), experiment.fuzzy_corpus
    made_from = _made_from(config.data, _SETS)
    stamp = directory / "made-from.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == made_from:
        return
    directory.mkdir(parents=True, exist_ok=True)
    with TranslationMemory.open(memory_path(experiment, "train")) as memory:
        for name in _SETS:
            say(f"searching the best matches of {name}")
            lines: dict[str, list[str]] = {"src": [], "trg": [], "doc": []}
            # Of the test set, nothing is left out.
            corpus = read_documents(config) if name == "test" else open_corpus(config, name)
            for number, document in enumerate(corpus):
                for pair in document:
                    lines["src"].append(beside_match(memory, pair, own=name == "train"))
                    lines["trg"].append(pair.trg)
                    lines["doc"].append(f"d{number}")
            for side, found in lines.items():
                write_lines(directory / f"{name}.{side}", found)
    write_atomically(stamp, made_from)


def beside_match(memory: TranslationMemory, pair: SentencePair, *, own: bool) -> str:
    """A source with the target of its best match; where the memory has the pair as its ``own``,
    with that of the next best."""
    for match in memory.search(pair.src, _MATCHES, least=_LEAST):
        entry = match.entry
        if not own or (entry.src, entry.trg) != (pair.src, pair.trg):
            return f"{pair.src}{_SEPARATOR}{' '.join(entry.trg.split())}"
    return pair.src
