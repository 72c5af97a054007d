"""Translation memories: percentages, search, writing, and whatever may go wrong meanwhile."""

import json
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wholedoc.cli
from wholedoc.benchmark.memories import measure_memory
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.errors import UserError
from wholedoc.tm import database, index
from wholedoc.tm.matching import percentage, split_tokens
from wholedoc.tm.memory import AddCounts, MemoryWriter, TranslationMemory
from wholedoc.tm.writer import MAX_CHARACTERS

Pair = tuple[str, str] | tuple[str, str, str]
ROOT = Path(__file__).parent.parent


def document(name: str, *pairs: Pair) -> Document:
    return Document(name, tuple(SentencePair(*pair) for pair in pairs))


def add(path: Path, *documents: Document, origin: str = "o") -> AddCounts:
    with MemoryWriter.open(path, "de", "en", create=True) as writer:
        return writer.add(documents, origin)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the memory of a test is."""
    return tmp_path / "memory"


def found(memory: TranslationMemory, text: str, before: str | None = None) -> list[tuple[int, str]]:
    return [(match.score, match.entry.trg) for match in memory.search(text, before=before)]


# The percentage


def slow_distance(a: Sequence[str], b: Sequence[str]) -> int:
    @lru_cache(None)
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = a[i - 1] == b[j - 1]
        return min(
            distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (not same)
        )

    return distance(len(a), len(b))


WORDS = st.lists(st.sampled_from(["a", "b", "A", "c", "."]), max_size=8)


@settings(max_examples=300, deadline=None)
@given(WORDS, WORDS)
def test_percentage_is_that_of_the_formula(a: list[str], b: list[str]) -> None:
    longest = max(len(a), len(b))
    if longest:
        shares = 100 * (longest - slow_distance(a, b)) / longest
        assert percentage(a, b) == int(shares + 1e-9)
    assert percentage(a, b) == percentage(b, a)
    assert (percentage(a, b) == 100) == (a == b)


def test_tokens_are_words_and_marks_with_their_case() -> None:
    tokens = ["Don", "'", "t", "press", "Größe_2", ",", "ok", "?", "!", "→"]
    assert split_tokens("Don't  press\tGröße_2,ok?! →\u00a0") == tokens
    assert percentage(split_tokens("Save the file."), split_tokens("save the file.")) == 75


# Search


def test_search_ranks_by_score_count_date_and_id(path: Path) -> None:
    add(
        path,
        document("d1", ("a b c d", "old", "2020-01-01"), ("a b c d", "new", "2024-01-01")),
        document("d2", ("a b c d", "none"), ("x a b c", "less"), ("a b c d", "undated")),
        document("d3", ("a b c d", "none"), ("other words", "unlike")),
    )
    with TranslationMemory.open(path) as memory:
        expected = [(100, "none"), (100, "new"), (100, "old"), (100, "undated"), (50, "less")]
        assert found(memory, "a b c d") == expected
        assert [m.entry.trg for m in memory.search("a b c d", 2)] == ["none", "new"]
        assert [m.score for m in memory.search("a b c d", least=60)] == [100] * 4
        best = memory.search("a b c d")[0].entry
        assert (best.document, best.place, best.origin, best.date, best.count) == (
            *("d2", 1, "o", ""),
            2,
        )


def test_an_exact_match_in_context_has_101_per_cent(path: Path) -> None:
    add(
        path,
        document("d", ("First.", "1"), ("OK", "good"), ("Second.", "2"), ("OK", "well")),
        document("e", ("OK", "begins"), ("", ""), ("OK", "gap"), ("No.", ""), ("OK", "after")),
    )
    with TranslationMemory.open(path) as memory:
        assert found(memory, "OK", "Second.")[0] == (101, "well")
        assert [score for score, _ in found(memory, "OK", "Second.")] == [101, 100, 100, 100, 100]
        assert memory.search("OK", before="Second.")[0].entry.place == 4
        assert found(memory, "OK", "")[0] == (101, "begins")
        assert found(memory, "OK", "OK")[0] == (101, "gap")  # an empty segment is none
        assert found(memory, "OK", "No.")[0] == (101, "after")
        assert {score for score, _ in found(memory, "OK")} == {100}
        assert {score for score, _ in found(memory, "OK", "Third.")} == {100}
        assert found(memory, "OK!", "Second.")[0][0] == 50


def test_the_best_occurrence_is_the_one_in_context_else_the_newest(path: Path) -> None:
    add(
        path,
        document("d1", ("A", "a"), ("OK", "ok", "2020-01-01")),
        document("d2", ("B", "b"), ("OK", "ok", "2024-01-01")),
        document("d3", ("C", "c"), ("OK", "ok", "2022-01-01")),
    )
    with TranslationMemory.open(path) as memory:
        (match,) = memory.search("OK", before="A")
        assert (match.score, match.entry.document, match.entry.count) == (101, "d1", 3)
        (match,) = memory.search("OK")
        assert (match.score, match.entry.document, match.entry.date) == (100, "d2", "2024-01-01")


def make_sentences(seed: int, number: int) -> list[str]:
    draw = random.Random(seed)
    words = [f"w{i}" for i in range(40)]
    weights = [1 / (i + 1) for i in range(40)]
    return [" ".join(draw.choices(words, weights, k=draw.randint(1, 12))) for _ in range(number)]


def test_search_equals_brute_force(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wholedoc.tm.memory.CANDIDATES", 10_000)
    texts = make_sentences(1, 400)
    add(path, document("d", *((text, f"t{i}") for i, text in enumerate(texts))))
    with TranslationMemory.open(path) as memory:
        queries = make_sentences(2, 60)
        results = memory.search_all(queries, 5)
        for query, matches in zip(queries, results, strict=True):
            scores = [percentage(query.split(), text.split()) for text in texts]
            order = sorted(range(len(texts)), key=lambda i: (-scores[i], i))[:5]
            expected = [(scores[i], f"t{i}") for i in order if scores[i]]
            assert [(m.score, m.entry.trg) for m in matches if m.score] == expected


def test_the_best_is_among_the_candidates(path: Path) -> None:
    draw = random.Random(3)
    texts = [f"{text} ." for text in make_sentences(3, 3000)]
    add(path, document("d", *((text, "t") for text in texts)))
    hits = total = 0
    with TranslationMemory.open(path) as memory:
        for text in draw.sample([text for text in texts if len(text.split()) > 4], 100):
            words = text.split()
            words[draw.randrange(len(words))] = "new"
            best = max(percentage(words, other.split()) for other in texts)
            hits += memory.search(" ".join(words), 1)[0].score == best
            total += 1
    assert hits >= 0.95 * total


def test_tokens_that_look_alike_change_no_score(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = {"bad": "good"}
    monkeypatch.setattr("wholedoc.tm.matching._character", lambda token: alike.get(token, token)[0])
    pairs = [("it is bad now", "b"), ("it is good then", "g"), ("it is good then", "g")]
    add(path, document("d", *pairs))
    with TranslationMemory.open(path) as memory:
        assert found(memory, "it is good now") == [(75, "g"), (75, "b")]
        (match,) = memory.search("it is good now", 1)  # "b" alone looks like an exact match
        assert (match.score, match.entry.trg) == (75, "g")


@pytest.mark.parametrize(
    "text",
    ['"', "AND OR NOT", "src:x", "a*", "(", "[a TO b]", "\\", "^2~", "'", "%_", "ا", "\x00",
     "a\x00b", "💡 +", "NULL; DROP TABLE entries", "İ", "x" * 9990],
)  # fmt: skip
def test_no_character_is_special(text: str, path: Path) -> None:
    add(path, document("d", (text, f"<{text}>"), ("something else", "x")))
    with TranslationMemory.open(path) as memory:
        assert found(memory, text)[0] == (100, f"<{text}>")


@pytest.mark.parametrize("text", ["", "  \n\t", "\u00a0", "x" * (MAX_CHARACTERS + 1), "y " * 9999])
def test_nothing_is_like_no_text_nor_an_endless_one(text: str, path: Path) -> None:
    add(path, document("d", ("x", "y")))
    with TranslationMemory.open(path) as memory:
        assert memory.search(text) == []
        assert memory.search("x", 0) == []


def test_a_long_text_is_found_by_its_rare_words(path: Path) -> None:
    long = " ".join(f"w{i}" for i in range(1000))
    add(path, document("d", (long, "long"), *((f"w{i} x", "short") for i in range(300))))
    with TranslationMemory.open(path) as memory:
        assert found(memory, long + " more")[0] == (99, "long")


# What is kept


def test_duplicates_are_counted_and_contradictions_kept(path: Path) -> None:
    counts = add(
        path,
        document("d1", ("a", "x", "2024-05-01"), ("a", "y"), ("b", "z")),
        document("d2", ("a", "x", "2023-01-01"), ("b", "z")),
    )
    assert (counts.pairs, counts.entries, counts.duplicates, counts.known) == (5, 3, 2, 0)
    with TranslationMemory.open(path) as memory:
        assert len(memory) == 3
        stats = memory.stats()
        assert (stats.entries, stats.occurrences, stats.duplicates) == (3, 5, 2)
        assert (stats.contradictions, stats.documents, stats.origins) == (1, 2, {"o": 5})
        assert (stats.first_date, stats.last_date) == ("2023-01-01", "2024-05-01")
        assert (stats.src_language, stats.trg_language) == ("de", "en")
        assert stats.bytes_on_disk > 10_000
        assert [(e.id, e.src, e.trg, e.count) for e in memory.entries()] == [
            (1, "a", "x", 2), (2, "a", "y", 1), (3, "b", "z", 2),
        ]  # fmt: skip


def test_the_same_file_twice_changes_nothing(path: Path) -> None:
    same = document("d", ("a", "x"), ("a", "x"), ("b", "y"))
    add(path, same)
    with TranslationMemory.open(path) as memory:
        version = memory.version
        counts = add(path, same)
        assert (counts.entries, counts.duplicates, counts.known) == (0, 0, 3)
        assert (memory.version, memory.stats().occurrences) == (version, 3)
        counts = add(path, same, origin="other")
        assert (counts.entries, counts.duplicates) == (0, 3)
        assert memory.version != version


def test_a_corrected_file_takes_the_place_of_its_mistakes(path: Path) -> None:
    add(path, document("d", ("a", "x"), ("a", "x"), ("b", "z")), document("e", ("a", "x")))
    counts = add(path, document("d", ("a", "x"), ("a", "y"), ("b", "w")))
    assert (counts.entries, counts.known, counts.replaced) == (2, 1, 2)
    with TranslationMemory.open(path) as memory:
        assert found(memory, "a") == [(100, "x"), (100, "y")]  # it stands elsewhere too
        assert found(memory, "b") == [(100, "w")]
        assert [entry.trg for entry in memory.entries()] == ["x", "y", "w"]
    counts = add(path, document("d", ("c", "v")))  # another text at that place: both stay
    assert (counts.entries, counts.replaced) == (1, 0)
    with TranslationMemory.open(path) as memory:
        assert len(list(memory.entries())) == 4


def test_pieces_of_a_document_go_on_counting(path: Path) -> None:
    add(path, document("d", ("a", "x")), document("e", ("b", "y")), document("d", ("c", "z")))
    with TranslationMemory.open(path) as memory:
        (match,) = memory.search("c", before="a")
        assert (match.score, match.entry.document, match.entry.place) == (101, "d", 2)


def test_all_entries_are_streamed_by_id(path: Path) -> None:
    add(path, document("d", *((f"s{i}", f"t{i}") for i in range(2500))))
    with TranslationMemory.open(path) as memory:
        entries = memory.entries()
        assert next(entries).src == "s0"
        add(path, document("e", ("later", "x")))
        assert [entry.src for entry in entries][-2:] == ["s2499", "later"]
        assert memory.last_id == 2501


def test_removing_keeps_what_was_found_elsewhere(path: Path) -> None:
    add(path, document("d1", ("shared", "x"), ("only here", "y")), origin="one")
    add(path, document("d1", ("shared", "x")), document("d2", ("third", "z")), origin="two")
    with TranslationMemory.open(path) as memory:
        assert len(memory) == 3
        with MemoryWriter.open(path) as writer:
            assert writer.remove(document="no") == 0
            assert writer.remove(document="d1", origin="one") == 2
            assert len(memory) == 2
            assert found(memory, "only here") == []
            assert memory.search("shared")[0].entry.origin == "two"
            assert writer.remove(origin="two") == 2
            assert len(memory) == 0
            assert found(memory, "shared") == []
            with pytest.raises(UserError, match="nothing to remove"):
                writer.remove()
        assert memory.stats().origins == {}
        last = memory.last_id
        add(path, document("d1", ("shared", "x")))
        assert [entry.id for entry in memory.entries()] == [last + 1]  # never an old id
        assert found(memory, "shared") == [(100, "x")]


def test_left_out_is_counted_with_its_place(path: Path) -> None:
    long, most = "x" * (MAX_CHARACTERS + 1), "x" * MAX_CHARACTERS
    pairs = [("a", ""), (" \n", "b"), ("c", long), (long, "d"), ("\ud800", "e"), (most, "f")]
    with MemoryWriter.open(path, create=True) as writer:
        counts = writer.add([document("d", *pairs)], "o", "dir/file.de")
    assert (counts.pairs, counts.entries) == (6, 1)
    assert counts.left_out == (
        "2 missing translations, 2 over-long entries, 1 entries with broken characters "
        "(dir/file.de, document d, pair 1)"
    )


# Readers


def test_a_memory_is_pickled_by_its_path(path: Path) -> None:
    add(path, document("d", ("a", "x")))
    with TranslationMemory.open(path) as memory:
        assert (memory.name, memory.src_language, memory.trg_language) == ("memory", "de", "en")
        with pickle.loads(pickle.dumps(memory)) as copy:
            assert found(copy, "a") == [(100, "x")]


def test_threads_share_a_memory(path: Path) -> None:
    texts = make_sentences(4, 300)
    add(path, document("d", *((text, "t") for text in texts)))
    with TranslationMemory.open(path) as memory:
        expected = memory.search_all(texts)
        results: dict[int, object] = {}

        def work(number: int) -> None:
            results[number] = memory.search_all(texts)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(results[number] == expected for number in range(4))


def test_a_forked_process_reads_with_a_connection_of_its_own(path: Path) -> None:
    add(path, document("d", ("a", "x")))
    with TranslationMemory.open(path) as memory:
        connection = memory._store._connection
        memory._store._process = -1  # as it looks after a fork
        assert found(memory, "a") == [(100, "x")]
        assert memory._store._connection is not connection
        connection.close()


def test_a_reader_sees_what_is_committed_later(path: Path) -> None:
    add(path, document("d", ("a b c", "x")))
    with TranslationMemory.open(path) as memory:
        version = memory.version
        assert found(memory, "p q r s") == []
        add(path, document("e", ("p q r t", "new")))
        assert found(memory, "p q r s") == [(75, "new")]
        assert memory.version > version


READER = """
import sys, time
from wholedoc.tm.memory import TranslationMemory
memory = TranslationMemory.open(sys.argv[1])
print("open", flush=True)
seen, end = 0, time.monotonic() + 20
while time.monotonic() < end:
    for match in memory.search("common word number 7", 20):
        assert match.entry.trg == match.entry.src.upper(), match
    assert len(memory) >= seen, (len(memory), seen)
    seen = len(memory)
    assert seen % 50 == 1, seen
    if memory.search("this is the last one", least=100):
        sys.exit(0)
sys.exit("never saw the last one")
"""


def start(program: str, *arguments: object) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)


def test_two_readers_and_a_writer_at_once(path: Path) -> None:
    add(path, document("first", ("common word", "COMMON WORD")))
    readers = [start(READER, path) for _ in range(2)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "open\n"
    with MemoryWriter.open(path) as writer:
        for batch in range(10):
            texts = [f"common word number {n} of {batch}" for n in range(50)]
            writer.add([document(str(batch), *((t, t.upper()) for t in texts))], "o")
        last = "this is the last one"
        more = [(f"filler {n}", f"FILLER {n}") for n in range(49)]
        writer.add([document("end", (last, last.upper()), *more)], "o")
    assert [reader.wait() for reader in readers] == [0, 0]
    for reader in readers:
        reader.communicate()


def test_a_second_writer_is_refused_at_once(path: Path) -> None:
    add(path, document("d", ("a", "x")))
    with MemoryWriter.open(path), pytest.raises(UserError, match="another process is writing"):
        MemoryWriter.open(path)
    add(path, document("d", ("b", "y")))


# Killed writers

WRITER = """
import sys
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.tm.memory import MemoryWriter
with MemoryWriter.open(sys.argv[1], create=True) as writer:
    for batch in range(10_000):
        pairs = [SentencePair(f"batch {batch} pair {n}", f"BATCH {batch} PAIR {n}") for n in range(300)]
        writer.add([Document(str(batch), tuple(pairs))], "o")
        print(batch, flush=True)
"""  # noqa: E501


@pytest.mark.parametrize("seconds", [0.02, 0.11, 0.27])
def test_a_killed_writer_loses_nothing_that_was_acknowledged(seconds: float, path: Path) -> None:
    for turn in range(2):
        process = start(WRITER, path)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        rest = process.communicate()[0].split()
        acknowledged = int(rest[-1]) if rest else 0
        with TranslationMemory.open(path) as memory:
            texts = {entry.src: entry.trg for entry in memory.entries()}
            assert len(texts) % 300 == 0  # all of an addition or nothing
            assert len(texts) >= (acknowledged + 1) * 300
            assert all(trg == src.upper() for src, trg in texts.items())
            assert found(memory, "batch 0 pair 1")[0] == (100, "BATCH 0 PAIR 1")
        with MemoryWriter.open(path) as writer:
            writer.add([document("later", (f"after turn {turn}", "x"), ("y", "z"))], "late")
            assert writer.remove(origin="late") == 2
        with TranslationMemory.open(path) as memory:
            for src, trg in list(texts.items())[::97]:
                assert found(memory, f"{src} indeed")[0] == (80, trg)


@pytest.mark.parametrize("moment", ["before the index", "after the index"])
def test_an_index_left_behind_is_repaired(
    moment: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(path, document("d", ("one two three", "1"), ("four five six", "2")))
    commit = index.IndexWriter.commit

    def die(writer: index.IndexWriter) -> None:
        if moment == "after the index":
            commit(writer)
        raise KeyboardInterrupt

    monkeypatch.setattr(index.IndexWriter, "commit", die)
    with pytest.raises(KeyboardInterrupt), MemoryWriter.open(path) as writer:
        writer.add([document("e", ("seven eight nine", "3"))], "o")
    monkeypatch.undo()
    with TranslationMemory.open(path) as memory:
        assert len(memory) == 3
        assert found(memory, "seven eight nine") == [(100, "3")]  # exact ones need no index
    with MemoryWriter.open(path):
        pass
    with TranslationMemory.open(path) as memory:
        assert found(memory, "seven eight ten") == [(66, "3")]
        assert [e.src for e in memory.entries()] == [
            "one two three", "four five six", "seven eight nine",
        ]  # fmt: skip


def test_an_entry_that_only_the_index_knows_is_not_found(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(path, document("d", ("one two three", "1")), document("e", ("one two four", "2")))

    def die(writer: index.IndexWriter) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(index.IndexWriter, "commit", die)
    with MemoryWriter.open(path, create=True) as writer, pytest.raises(KeyboardInterrupt):
        writer.remove(document="d")
    monkeypatch.undo()
    with TranslationMemory.open(path) as memory:
        assert found(memory, "one two three") == [(66, "2")]
        assert len(memory._store._index.candidates(["one"])) == 2
        with MemoryWriter.open(path):
            pass
        memory.search("x")
        assert len(memory._store._index.candidates(["one"])) == 1


@pytest.mark.parametrize("lost", ["all", "meta.json", "*.idx", "emptied"])
def test_a_lost_index_is_made_again_by_a_writer(lost: str, path: Path) -> None:
    add(path, document("d", ("one two three", "1"), ("four five six", "2")))
    folder = path / "index"
    if lost == "all":
        shutil.rmtree(folder)
    elif lost == "emptied":
        for file in folder.iterdir():
            file.write_bytes(b"")
    else:
        for file in folder.glob(lost):
            file.unlink()
    with pytest.raises(UserError, match="index of this memory is damaged or missing"):
        TranslationMemory.open(path).search("one two four")
    with MemoryWriter.open(path):
        pass
    with TranslationMemory.open(path) as memory:
        assert found(memory, "one two four") == [(66, "1")]


# Places that cannot be used


def no_memory(path: Path) -> None:
    shutil.rmtree(path)


def another_directory(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()
    (path / "notes.txt").write_text("x")


def a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("x")


def another_format(path: Path) -> None:
    connection = sqlite3.connect(path / database.FILE_NAME)
    with connection:
        connection.execute("UPDATE meta SET value = 99 WHERE key = 'format'")
    connection.close()


def another_database(path: Path) -> None:
    (path / database.FILE_NAME).unlink()
    connection = sqlite3.connect(path / database.FILE_NAME)
    with connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()


def no_format(path: Path) -> None:
    connection = sqlite3.connect(path / database.FILE_NAME)
    with connection:
        connection.execute("DELETE FROM meta")
    connection.close()


def overwritten(path: Path) -> None:
    (path / database.FILE_NAME).write_bytes(b"not a database" * 1000)


def cut_short(path: Path) -> None:
    data = (path / database.FILE_NAME).read_bytes()
    (path / database.FILE_NAME).write_bytes(data[: len(data) // 2])


def emptied(path: Path) -> None:
    (path / database.FILE_NAME).write_bytes(b"")


BROKEN: dict[Callable[[Path], None], str] = {
    no_memory: "no such translation memory; check the path",
    another_directory: "is no translation memory; give a directory",
    a_file: "is no translation memory; give a directory",
    another_format: "made by another version of wholedoc (format 99, not 1); build it again",
    another_database: "damaged",
    no_format: "damaged",
    overwritten: "damaged",
    cut_short: "damaged",
    emptied: "damaged",
}


@pytest.mark.parametrize("spoil", BROKEN, ids=lambda spoil: spoil.__name__)
def test_what_is_no_memory_is_refused(spoil: Callable[[Path], None], path: Path) -> None:
    add(path, document("d", *((f"s{i}", f"t{i}") for i in range(300))))
    spoil(path)
    for use in (lambda: list(TranslationMemory.open(path).entries()), lambda: add_without(path)):
        with pytest.raises(UserError) as caught:
            use()
        assert str(caught.value).startswith(f"{path}: ")
        assert BROKEN[spoil] in str(caught.value)
        assert "\n" not in str(caught.value)


def add_without(path: Path) -> None:
    """Add to a memory that must be there."""
    with MemoryWriter.open(path) as writer:
        writer.add([document("d", *((f"more {i}", "y") for i in range(300)))], "o")


READ_ONLY = """
import os, sys
from wholedoc.errors import UserError
from wholedoc.tm.memory import MemoryWriter, TranslationMemory
if os.geteuid() == 0:  # nothing is read-only for root
    os.setgid(65534)
    os.setuid(65534)
memory = TranslationMemory.open(sys.argv[1])
print([(m.score, m.entry.trg) for m in memory.search("one two four")], memory.stats().entries)
memory.close()
try: MemoryWriter.open(sys.argv[1])
except UserError as error: print(error)
"""


def test_a_read_only_directory_is_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder) / "memory"
        add(path, document("d", ("one two three", "1")))
        places = [path, path / "index"]
        for file in path.rglob("*"):
            if file.is_file():
                file.chmod(0o444)
        for place in places:
            place.chmod(0o555)
        process = start(READ_ONLY, path)
        output = process.communicate()[0].splitlines()
        for place in places:
            place.chmod(0o755)
    assert process.returncode == 0
    assert output[0] == "[(66, '1')] 1"
    assert output[1].startswith(f"{path}: cannot write: Permission denied")


# A full disk

FULL = """
import resource, sys
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.errors import UserError
from wholedoc.tm.memory import MemoryWriter
batch = 0
with MemoryWriter.open(sys.argv[1]) as writer:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
    try:
        while True:
            pairs = [SentencePair(f"pair {n} of {batch} " + "x" * 90, "y" * 90) for n in range(200)]
            writer.add([Document(str(batch), tuple(pairs))], "full")
            batch += 1
    except UserError as error:
        print(batch, error, flush=True)
"""


@pytest.mark.parametrize("room", [200_000, 700_000])
def test_a_full_disk_loses_nothing_that_was_acknowledged(room: int, path: Path) -> None:
    add(path, document("d", ("one two three", "1")))
    process = start(FULL, path, room)
    acknowledged, _, message = process.communicate()[0].partition(" ")
    assert message.startswith(f"{path}: cannot write")
    assert message.count("\n") == 1
    with TranslationMemory.open(path) as memory:
        entries = list(memory.entries())
        assert len(entries) % 200 == 1
        assert len(entries) >= 1 + 200 * int(acknowledged)
        assert all(entry.trg == "y" * 90 for entry in entries[1:])
    add(path, document("d2", ("seven eight nine", "2")))  # there is room again
    with TranslationMemory.open(path) as memory:
        assert found(memory, "seven eight ten")[0] == (66, "2")


# The command line


class Done:
    """How a command ended."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code, self.output, self.errors = code, output, errors

    @property
    def values(self) -> dict[str, object]:
        loaded = json.loads(self.output)
        assert isinstance(loaded, dict)
        return loaded


Cli = Callable[..., Done]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Runs a command of ``wholedoc tm`` in this process, in a directory with some files."""
    monkeypatch.chdir(tmp_path)
    Path("a.de").write_text("eins\nzwei drei\nzwei drei\n")
    Path("a.en").write_text("one\ntwo three\ntwo three\n")
    Path("a.doc").write_text("d1\nd1\nd2\n")
    Path("a.tmx").write_text(tmx(("eins", "one"), ("vier fünf", "four five"), document="x"))

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["wholedoc", "tm", *arguments])
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        assert isinstance(caught.value.code, int)
        return Done(caught.value.code, *capsys.readouterr())

    return run


def tmx(
    *pairs: tuple[str, str], document: str = "", languages: tuple[str, str] = ("de", "en")
) -> str:
    prop = f'<prop type="x-document">{document}</prop>' if document else ""
    units = (
        f'<tu changedate="20260118T101500Z">{prop}'
        f'<tuv xml:lang="{languages[0]}"><seg>{src}</seg></tuv>'
        f'<tuv xml:lang="{languages[1]}"><seg>{trg}</seg></tuv></tu>\n'
        for src, trg in pairs
    )
    head = f'<tmx version="1.4"><header srclang="{languages[0]}"/><body>'
    return f"{head}\n{''.join(units)}</body></tmx>"


LINES = ("--src", "a.de", "--trg", "a.en", "--doc", "a.doc")


def test_build_add_search_stats_and_remove(cli: Cli) -> None:
    done = cli("build", "m", *LINES, "--src-language", "de", "--trg-language", "en", "--json")
    assert done.code == 0
    assert done.values == {
        "memory": "m", "pairs": 3, "entries": 2, "duplicates": 1, "known": 0, "replaced": 0,
        "missing_translations": 0, "overlong_entries": 0, "broken_characters": 0,
        "first_left_out": "",
    }  # fmt: skip
    done = cli("add", "m", "a.tmx", "--json")
    assert (done.values["entries"], done.values["duplicates"]) == (1, 1)
    done = cli("search", "m", "vier sechs", "--json")
    with TranslationMemory.open("m") as memory:
        last = memory.last_id
    assert done.values == {
        "matches": [
            {"score": 50, "id": last, "src": "vier fünf", "trg": "four five", "document": "x",
             "place": 2, "origin": "a.tmx", "date": "2026-01-18T10:15:00Z", "count": 1}
        ]
    }  # fmt: skip
    done = cli("search", "m", "zwei drei", "--before", "eins", "--limit", "1")
    assert (
        done.output
        == "101 %  zwei drei\n       two three\n       a.de, document d1, pair 2, 2 times\n"
    )
    assert cli("search", "m", "nichts").output == "no match\n"
    values = cli("stats", "m", "--json").values
    assert values["origins"] == {"a.de": 3, "a.tmx": 2}
    assert (values["src_language"], values["trg_language"]) == ("de", "en")
    assert "contradictions" in cli("stats", "m").output
    assert cli("remove", "m", "--document", "d2", "--json").values == {
        "occurrences": 1,
        "entries": 0,
    }
    done = cli("remove", "m", "--origin", "a.tmx")
    assert (done.code, done.output) == (0, "m: removed 2 occurrences, 1 entries\n")


def test_build_takes_several_files_and_an_origin(cli: Cli) -> None:
    done = cli("build", "m", "a.tmx", *LINES, "--origin", "house")
    assert (done.code, done.output) == (0, "m: 3 new entries from 5 pairs, 2 duplicates\n")
    values = cli("stats", "m", "--json").values
    assert (values["origins"], values["src_language"]) == ({"house": 5}, "de")


def test_left_out_pairs_are_reported_with_their_line(cli: Cli) -> None:
    pairs = [("a b", "x"), ("b", ""), ("c" * 10_000_000, "y"), ("d", "z")]
    Path("big.tmx").write_text(tmx(*pairs))
    begun = time.process_time()
    done = cli("build", "m", "big.tmx")
    assert time.process_time() - begun < 5
    assert (done.code, done.output) == (0, "m: 2 new entries from 4 pairs\n")
    assert "left out: 1 missing translations, 1 over-long entries (big.tmx:3)\n" in done.errors
    assert cli("search", "m", "c" * 100_000).output == "no match\n"


Bad = tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]
# Files to write, the arguments, and what the one line must hold.
WRONG: dict[str, Bad] = {
    "broken TMX": (
        {"b.tmx": tmx(*((f"s{i}", f"t{i}") for i in range(3000))).replace("</body>", "")},
        ("add", "m", "b.tmx"), ("b.tmx:", "malformed XML"),
    ),
    "good, then broken": (
        {
            "b.tmx": tmx(*((f"s{i}", f"t{i}") for i in range(3000))).replace("</body>", ""),
            "g.tmx": tmx(("neu", "new")),
        },
        ("add", "m", "g.tmx", "b.tmx"), ("b.tmx:", "malformed XML"),
    ),
    "languages that the memory does not have": (
        {"b.tmx": tmx(("un", "uno"), languages=("fr", "es"))},
        ("add", "m", "b.tmx"), ("b.tmx: no unit in the language 'de', only es, fr",),
    ),
    "one wrong language": (
        {"b.tmx": tmx(("eins", "uno"), languages=("de", "es"))},
        ("add", "m", "b.tmx"), ("b.tmx: no unit in the language 'en', only de, es",),
    ),
    "languages that are said": (
        {}, ("add", "m", "a.tmx", "--src-language", "fr"),
        ("m: the source language of this memory is 'de', not 'fr'", "memory of its own"),
    ),
    "unequal lines": (
        {"b.en": "x\n" * 4}, ("add", "m", "--src", "a.de", "--trg", "b.en"),
        ("b.en:4: has 4 lines",),
    ),
    "no file": ({}, ("add", "m", "no.tmx"), ("no.tmx: no such file or folder",)),
    "nothing to add": ({}, ("add", "m"), ("tm add: no file is given; add FILE",)),
    "no memory": ({}, ("add", "no", "a.tmx"), ("no: no such translation memory", "tm build")),
    "memory that exists": ({}, ("build", "m", "a.tmx"), ("m: exists already", "tm add")),
    "empty memory": (
        {"b.tmx": tmx(("a", ""))}, ("build", "n", "b.tmx"),
        ("n: no pair was found", "1 missing translations (b.tmx:2)"),
    ),
    "unknown document": (
        {}, ("remove", "m", "--document", "d9"), ("m: nothing from document 'd9'", "tm stats"),
    ),
    "nothing to remove": ({}, ("remove", "m"), ("tm remove: nothing to remove", "--document")),
    "limit": ({}, ("search", "m", "x", "--limit", "0"), ("--limit", "--help")),
    "search in no memory": ({}, ("search", "a.de", "x"), ("a.de: is no translation memory",)),
    "no such command": ({}, ("serach", "m", "x"), ("serach", "search")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_bad_input_is_one_line_and_leaves_the_memory_as_it_was(name: str, cli: Cli) -> None:
    assert cli("build", "m", "a.tmx").code == 0
    files, arguments, expected = WRONG[name]
    for file, content in files.items():
        Path(file).write_text(content)
    with TranslationMemory.open("m") as memory:
        before = memory.version, list(memory.entries()), memory.stats().origins
        done = cli(*arguments)
        assert (done.code, done.output) == (2, "")
        *said, line = done.errors.splitlines()
        assert all(text.startswith("left out: ") or "pairs read" in text for text in said)
        assert line.startswith("wholedoc: ")
        assert all(part in line for part in expected), line
        assert (memory.version, list(memory.entries()), memory.stats().origins) == before
    assert not Path("n").exists()
    assert not Path("n.part").exists()


def test_an_interrupted_build_leaves_nothing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index.IndexWriter, "commit", interrupt)
        assert cli("build", "m", "a.tmx").code == 130
    assert {file.name for file in Path().iterdir()} == {"a.de", "a.en", "a.doc", "a.tmx"}
    Path("m.part").mkdir()  # what a killed one has left
    Path("m.part/x").write_text("")
    assert cli("build", "m", "a.tmx").code == 0
    assert not Path("m.part").exists()


def test_memories_do_not_wait_for_torch(path: Path) -> None:
    add(path, document("d", ("a", "x")))
    program = (
        "import sys, wholedoc.cli\n"
        "sys.argv = ['wholedoc', 'tm', 'search', sys.argv[1], 'a']\n"
        "try: wholedoc.cli.main()\n"
        "finally: assert 'torch' not in sys.modules"
    )
    process = start(program, path)
    assert "100 %" in process.communicate()[0]
    assert process.returncode == 0


# Speed


def test_speed_is_measured(tmp_path: Path) -> None:
    measured = measure_memory(2000, 30, tmp_path)
    assert measured["pairs"] == 2000
    assert measured["entries"] > 1900
    assert measured["pairs_per_second"] > 0
    assert 0 < measured["search_ms_p50"] <= measured["search_ms_p95"]
    assert measured["bytes"] > 100_000
    assert measured["found"] >= 0.9
    assert list(tmp_path.iterdir()) == []
