"""Many clients at once: does the service keep up, mix answers up, or grow?

    python bench/service/load.py MODEL SOURCE.txt --clients 200 --seconds 120

Starts ``wholedoc serve`` and asks it for every sentence alone. Then so many clients at once send
single sentences (LibreTranslate's dialect), each the next one when it has its answer, and beside
them one client measures how long it waits. Every answer is compared with that to the same sentence
alone. The same sentences are translated by the batch command, ``wholedoc translate``, in turns
before and after, for the ratio of speeds; both have the same number of threads
(``OMP_NUM_THREADS``). The command is given lines: it does a little less than the service, which
splits texts into sentences and protects what is not text. What clients take of the processor is in
the figures: in life they run elsewhere. Prints one JSON object.
"""

import argparse
import asyncio
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

COPIES = 4  # of the sentences that the batch command is timed by
PATIENCE = 60  # seconds for an answer


def main() -> None:
    """Read the arguments, serve, load, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--port", type=int, default=8399)
    parser.add_argument("--languages", default="de-en")
    parser.add_argument("--turns", type=int, default=2, help="of the command, before and after")
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text(encoding="utf-8").splitlines()]
    texts = list(dict.fromkeys(line for line in lines if line))
    command = [sys.executable, "-m", "wholedoc"]
    turns = range(options.turns)
    batches = [measure_batch(command, options.model, texts) for _ in turns]
    serve = [*command, "serve", options.model, "--port", str(options.port)]
    group = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(serve, **group) as process:
        try:
            while "serving" not in (line := process.stderr.readline()):
                assert line, "the service did not start"
            found = asyncio.run(load(options, texts, process.pid))
        finally:
            process.terminate()
    batches += [measure_batch(command, options.model, texts) for _ in turns]
    if batches:
        rates, costs = zip(*batches, strict=True)
        found["batch_sentences_per_second"] = [round(rate, 1) for rate in rates]
        found["batch_processor_ms"] = [round(1000 * cost, 2) for cost in costs]
        found["ratio"] = round(found["sentences_per_second"] / statistics.median(rates), 2)
    print(json.dumps(found, indent=2))


def measure_batch(command: list[str], model: str, texts: list[str]) -> tuple[float, float]:
    """Sentences per second of the batch command, and seconds of the processor for a sentence.

    One run has the sentences once, one some times more, as so many documents: what the second
    takes longer is without the start of the program and whatever is done once.
    """
    seconds, busy = [], []
    for copies in (1, 1 + COPIES):
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, f"{n}.lines") for n in range(copies)]
            for file in files:
                file.write_text("\n".join(texts) + "\n", encoding="utf-8")
            start, used = time.monotonic(), children_seconds()
            places = [*map(str, files), "-o", str(Path(folder, "out"))]
            subprocess.run([*command, "translate", model, *places], check=True, capture_output=True)
            seconds.append(time.monotonic() - start)
            busy.append(children_seconds() - used)
    count = COPIES * len(texts)
    return count / (seconds[1] - seconds[0]), (busy[1] - busy[0]) / count


def children_seconds() -> float:
    """Seconds of the processor of all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Answer(NamedTuple):
    """What came for a request."""

    status: int
    body: bytes

    @property
    def translation(self) -> str | None:
        """The text in it, if it is an answer and no error."""
        return json.loads(self.body).get("translatedText") if self.status == 200 else None


class Connection(asyncio.Protocol):
    """A client with one connection: a request out, its answer in, then the next one.

    httpx and aiohttp take more time for a request than the service; this takes a tenth of that.
    """

    def __init__(self) -> None:
        self.answer: asyncio.Future[Answer] | None = None
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self.transport = transport

    async def ask(self, request: bytes) -> Answer:
        """The answer to a request."""
        self.answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await asyncio.wait_for(self.answer, PATIENCE)

    def data_received(self, data: bytes) -> None:
        """Give the answer out when all of it is there."""
        self.received += data
        head, _, rest = self.received.partition(b"\r\n\r\n")
        found = read_body(head.lower(), rest)
        if found is not None:
            assert self.answer is not None, "an answer to nothing"
            self.answer.set_result(Answer(int(head[9:12]), found))
            self.received, self.answer = b"", None

    def connection_lost(self, error: Exception | None) -> None:
        """Say so to who waits."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error or ConnectionError("closed"))


def read_body(head: bytes, rest: bytes) -> bytes | None:
    """The body of an answer, None while some of it is to come; nothing may follow it."""
    _, found, length = head.partition(b"\r\ncontent-length: ")
    if found:
        size = int(length.partition(b"\r\n")[0])
        assert len(rest) <= size, "more than was announced"
        return rest if len(rest) == size else None
    if b"\r\ntransfer-encoding: chunked" not in head:
        return None  # the head is not there yet
    body = b""
    while True:
        line, found, rest = rest.partition(b"\r\n")
        size = int(line or b"1", 16)
        if not found or len(rest) < size + 2:
            return None
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            assert not rest, "more than was announced"
            return body


def make_request(text: str, languages: str, port: int) -> bytes:
    """A request for a translation, as a client sends it."""
    source, target = languages.split("-")
    body = json.dumps({"q": text, "source": source, "target": target}).encode()
    head = (
        f"POST /translate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def load(options: argparse.Namespace, texts: list[str], pid: int) -> dict[str, object]:
    """Ask for the sentences alone, then by many clients at once."""
    loop = asyncio.get_running_loop()
    requests = [make_request(text, options.languages, options.port) for text in texts]
    answers: Counter[int | str] = Counter()
    wrong: list[int] = []

    async def connect() -> Connection:
        return (await loop.create_connection(Connection, "127.0.0.1", options.port))[1]

    prober = await connect()
    alone = [await prober.ask(request) for request in requests]
    assert all(answer.translation for answer in alone)
    memory = [resident(pid)]
    ends = time.monotonic() + options.seconds

    async def client(number: int) -> None:
        connection = await connect()
        at = number % len(texts)
        while time.monotonic() < ends:
            try:
                answer = await connection.ask(requests[at])
            except (OSError, TimeoutError, AssertionError) as error:
                answers[type(error).__name__] += 1
                connection = await connect()
            else:
                answers[answer.status] += 1
                # The same bytes are the same answer; one that began with spaces is read.
                if answer != alone[at] and answer.status == 200:
                    wrong.extend([at] * (answer.translation != alone[at].translation))
            at = (at + options.clients) % len(texts)

    async def probe() -> list[float]:
        waits = []
        while time.monotonic() < ends:
            start = time.monotonic()
            await prober.ask(requests[len(waits) % len(texts)])
            waits.append(time.monotonic() - start)
            if len(waits) % 10 == 0:
                memory.append(resident(pid))
            await asyncio.sleep(0.2)
        return waits

    start, used, own = time.monotonic(), process_seconds(pid), time.process_time()
    *_, waits = await asyncio.gather(*map(client, range(options.clients)), probe())
    seconds, used = time.monotonic() - start, process_seconds(pid) - used
    own, count = time.process_time() - own, answers[200]
    waits.sort()
    return {
        "clients": options.clients,
        "seconds": round(seconds, 1),
        "answers": dict(answers),
        "other_than_alone": len(wrong),
        "sentences_per_second": round(count / seconds, 1),
        "processor_ms": round(1000 * used / count, 2),
        "cores": round(used / seconds, 2),
        "clients_processor_ms": round(1000 * own / count, 2),
        "wait_median": round(statistics.median(waits), 2),
        "wait_p95": round(waits[int(0.95 * len(waits))], 2),
        "memory_mb_before_and_quarters": [
            round(memory[int(q * (len(memory) - 1))]) for q in (0, 0.25, 0.5, 0.75, 1)
        ],
    }


def processes_of(session: int) -> list[Path]:
    """The processes of a session: the service and those that it has started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                found.append(place)
    return found


def process_seconds(session: int) -> float:
    """Seconds of the processor that the processes of a session have used."""
    ticks = 0
    for place in processes_of(session):
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(session: int) -> float:
    """The memory of the processes of a session in MB; what several share counts once."""
    kilobytes = 0
    for place in processes_of(session):
        lines = (place / "smaps_rollup").read_text().splitlines()
        kilobytes += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


if __name__ == "__main__":
    main()
