"""One translator for several threads: each gets what it would have got alone."""

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.glossary import Entry, Glossary
from wholedoc.decoding import cells
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.decoding.translator import Translator
from wholedoc.tm.memory import MemoryWriter, TranslationMemory

PAIRS = [
    ("Schließen Sie die Tür.", "Close the door."),
    ("Öffnen Sie die Tür vorsichtig.", "Open the door carefully."),
    ("Drücken Sie die Taste Start.", "Press the Start button."),
    ("Legen Sie die Wäsche in die Trommel.", "Put the laundry into the drum."),
    ("Die Datei wird gespeichert.", "The file is saved."),
    ("Klicken Sie auf die Schaltfläche.", "Click the button."),
]
THREADS = 4


@pytest.fixture
def quick_switches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Threads take turns often; no cells are kept, so that all are read in the same batches."""
    monkeypatch.setattr(cells, "_KEPT", 0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> list[TranslationMemory]:
    opened = []
    for n in range(2):
        path = tmp_path_factory.mktemp("memories") / f"tm{n}"
        pairs = tuple(SentencePair(*pair) for pair in PAIRS[n::2])
        with MemoryWriter.build(path, "de", "en") as writer:
            writer.add([Document("handbook", pairs)], origin="test")
        opened.append(TranslationMemory.open(path))
    return opened


def values(document: TranslatedDocument) -> dict[str, Any]:
    """All that can be compared; the settings are not."""
    return document.to_dict()


def at_once_and_alone(
    make: Callable[[], Translator], work: Callable[[Translator, int], Any], jobs: int
) -> tuple[list[Any], list[Any]]:
    """What threads get that begin together with a new translator, and what one alone gets."""
    alone, shared = make(), make()
    start = threading.Barrier(THREADS)

    def begin(thread: int) -> list[Any]:
        start.wait(20)
        return [work(shared, job) for job in range(thread, jobs, THREADS)]

    with ThreadPoolExecutor(THREADS) as pool:
        found = list(pool.map(begin, range(THREADS)))
    at_once = [found[job % THREADS][job // THREADS] for job in range(jobs)]
    return at_once, [work(alone, job) for job in range(jobs)]


@pytest.mark.usefixtures("quick_switches")
def test_the_model_in_the_box(memories: list[TranslationMemory]) -> None:
    """Documents, memories, glossaries, approvals, alternatives, streams and scores."""
    glossary = Glossary((Entry("Trommel", "tub", 0),), "de", "en")

    def work(translator: Translator, job: int) -> Any:
        sentences = [PAIRS[(job + n) % len(PAIRS)][0] for n in range(3)]
        sentences[1] = sentences[1].replace("Sie", "wir")
        known: dict[str, Any] = {"memories": memories[: job % 3]}
        known |= {"glossary": glossary} if job == 1 else {}
        document = translator.translate(sentences, **known)
        approved = translator.approve(document, 1, f"Approved by {job}.")
        others = translator.alternatives(document, 1, count=2)
        stream = translator.stream(sentences, **known)
        updates = list(stream)
        assert values(stream.document) == values(document)
        scored = translator.score(sentences, document.sentences).log_probabilities
        return values(document), values(approved), [o.text for o in others], updates, scored

    at_once, alone = at_once_and_alone(lambda: Translator.load("de-en"), work, jobs=4)
    assert at_once == alone
    assert len({document["sentences"][1] for _, document, *_ in alone}) == 4


def test_results_can_be_pickled(memories: list[TranslationMemory]) -> None:
    """To go on with them in another process."""
    translator = Translator.load("de-en")
    glossary = Glossary((Entry("Trommel", "tub", 0),), "de", "en")
    sentences = [src for src, _ in PAIRS[:3]]
    document = translator.translate(sentences, memories=memories, glossary=glossary)
    again = pickle.loads(pickle.dumps(document))
    assert values(again) == values(document)
    approve = [translator.approve(each, 1, "Open it.") for each in (document, again)]
    assert values(approve[0]) == values(approve[1])
    scored = translator.score(sentences, document.sentences)
    assert pickle.loads(pickle.dumps(scored)) == scored
