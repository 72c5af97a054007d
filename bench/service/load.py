"""Many clients at once: does the service keep up, mix answers up, or grow?

    python bench/service/load.py MODEL SOURCE.txt --clients 200 --seconds 120

Starts ``wholedoc serve``, sends single sentences from so many clients at once (LibreTranslate's
dialect), and beside them one sentence after the other from a client that measures how long it
waits. Every answer is compared with what the service says to the same sentence alone, before the
load. The same sentences are then translated by the batch command, ``wholedoc translate``, for the
ratio of speeds. Prints one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp  # pip install aiohttp: httpx takes more time for a request than the service


def main() -> None:
    """Read the arguments, serve, load, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--port", type=int, default=8399)
    parser.add_argument("--languages", default="de-en")
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text(encoding="utf-8").splitlines()]
    texts = list(dict.fromkeys(line for line in lines if line))
    command = [sys.executable, "-m", "wholedoc"]
    batch = measure_batch(command, options.model, texts)
    serve = [*command, "serve", options.model, "--port", str(options.port)]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as process:
        try:
            while "serving" not in (line := process.stderr.readline()):
                assert line, "the service did not start"
            found = asyncio.run(load(options, texts, process.pid))
        finally:
            process.terminate()
    found["batch_sentences_per_second"] = round(batch, 1)
    found["ratio"] = round(found["sentences_per_second"] / batch, 2)
    print(json.dumps(found, indent=2))


def measure_batch(command: list[str], model: str, texts: list[str]) -> float:
    """Sentences per second of the batch command, its start left out by two sizes."""
    seconds = []
    for part in (texts[:20], texts):
        with tempfile.NamedTemporaryFile("w", suffix=".lines", encoding="utf-8") as file:
            file.write("\n".join(part) + "\n")
            file.flush()
            start = time.monotonic()
            subprocess.run(
                [*command, "translate", model, file.name, "-o", f"{file.name}.out"],
                check=True,
                capture_output=True,
            )
            seconds.append(time.monotonic() - start)
            Path(f"{file.name}.out").unlink()
    return (len(texts) - 20) / (seconds[1] - seconds[0])


async def load(options: argparse.Namespace, texts: list[str], pid: int) -> dict[str, object]:
    """Ask for the sentences alone, then by many clients at once."""
    source, target = options.languages.split("-")
    statuses: Counter[int | str] = Counter()
    connector = aiohttp.TCPConnector(limit=options.clients + 8)
    url = f"http://127.0.0.1:{options.port}/translate"
    patience = aiohttp.ClientTimeout(60)
    async with aiohttp.ClientSession(connector=connector, timeout=patience) as web:

        async def ask(text: str) -> str | None:
            sent = {"q": text, "source": source, "target": target}
            try:
                async with web.post(url, json=sent) as answer:
                    statuses[answer.status] += 1
                    found: str | None = (await answer.json()).get("translatedText")
                    return found
            except (aiohttp.ClientError, TimeoutError) as error:
                statuses[type(error).__name__] += 1
                return None

        probes = texts[:200]
        alone = {text: await ask(text) for text in probes}
        memory = [resident(pid)]
        wrong = answered = 0
        ends = time.monotonic() + options.seconds

        async def client(number: int) -> None:
            nonlocal wrong, answered
            at = number
            while time.monotonic() < ends:
                text = texts[at % len(texts)]
                at += options.clients
                found = await ask(text)
                answered += found is not None
                wrong += found is not None and text in alone and found != alone[text]

        async def probe() -> list[float]:
            waits = []
            while time.monotonic() < ends:
                start = time.monotonic()
                await ask(probes[len(waits) % len(probes)])
                waits.append(time.monotonic() - start)
                memory.append(resident(pid))
                await asyncio.sleep(0.2)
            return waits

        start = time.monotonic()
        *_, waits = await asyncio.gather(*map(client, range(options.clients)), probe())
        seconds = time.monotonic() - start
    waits.sort()
    return {
        "clients": options.clients,
        "seconds": round(seconds, 1),
        "answers": dict(statuses),
        "other_than_alone": wrong,
        "sentences_per_second": round(answered / seconds, 1),
        "wait_median": round(statistics.median(waits), 2),
        "wait_p95": round(waits[int(0.95 * len(waits))], 2),
        "memory_mb_before_and_quarters": [
            round(memory[int(q * (len(memory) - 1))]) for q in (0, 0.25, 0.5, 0.75, 1)
        ],
    }


def resident(pid: int) -> float:
    """The memory of a process in MB."""
    with Path(f"/proc/{pid}/statm").open() as file:
        return int(file.read().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main()
