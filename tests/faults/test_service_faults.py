"""The service killed under load: what it has said yes to is kept, and it starts again."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from wholedoc.tm.memory import TranslationMemory

PAIR = {"source": "de", "target": "en"}
CLIENTS = 8


@contextmanager
def serve(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service in a process of its own, and its address."""
    command = [sys.executable, "-m", "wholedoc", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(m for line in process.stderr if (m := re.search(r"http://\S+/", line)))
            yield process, found[0]
        finally:
            process.kill()


def ask_until_it_ends(address: str, ask: Callable[[httpx.Client, int], None]) -> None:
    """Send requests from some clients, each until its connection is lost."""

    def client(number: int) -> None:
        with httpx.Client(base_url=address, timeout=60) as web:
            try:
                for n in range(number, 100_000, CLIENTS):
                    ask(web, n)
            except httpx.TransportError:
                return

    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(client, range(CLIENTS)))


def test_a_killed_service_keeps_what_it_has_acknowledged(learned_toy: Path, tmp_path: Path) -> None:
    memory, folder = tmp_path / "suggestions", tmp_path / "glossaries"
    suggested: dict[str, str] = {}
    glossaries: list[str] = []
    options = (learned_toy, "--suggestions", memory, "--glossaries", folder)

    def ask(web: httpx.Client, n: int) -> None:
        if n % 4 == 0:
            terms = {"name": f"{n}", "source_lang": "de", "target_lang": "en", "entries": "a\tb"}
            answer = web.post("/v2/glossaries", json=terms)
            assert answer.status_code == 201
            glossaries.append(answer.json()["glossary_id"])
        elif n % 4 == 1:
            assert web.post("/translate", json={"q": "s1 s2", **PAIR}).status_code == 200
        else:
            text, words = f"s1 s2 x{n}", f"my words {n}"
            answer = web.post("/suggest", json={"q": text, "s": words, **PAIR})
            assert answer.json() == {"success": True}
            suggested[text] = words
        if len(suggested) >= 12 and len(glossaries) >= 4:
            process.kill()

    with serve(*options) as (process, address):
        ask_until_it_ends(address, ask)
        assert process.wait(20) == -signal.SIGKILL
    with TranslationMemory.open(memory) as opened:
        kept = {entry.src: entry.trg for entry in opened.entries()}
    assert suggested.items() <= kept.items()
    assert len(kept) <= len(suggested) + CLIENTS  # what was not acknowledged is whole, or not there

    with serve(*options) as (process, address), httpx.Client(base_url=address) as web:
        found = web.get("/v2/glossaries").json()["glossaries"]
        assert {*glossaries} <= {each["glossary_id"] for each in found}
        assert all(each["entry_count"] == 1 for each in found)
        text, words = suggested.popitem()
        answer = web.post("/translate", json={"q": text, **PAIR}, timeout=60)
        assert answer.json() == {"translatedText": words}
        more = web.post("/suggest", json={"q": "s3", "s": "one more", **PAIR}, timeout=60)
        assert more.json() == {"success": True}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM  # 143, as shells count it
