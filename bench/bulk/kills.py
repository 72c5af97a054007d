"""Translate a collection on a Ray cluster of several raylets while workers are killed.

``python bench/bulk/kills.py WORK --json FILE`` makes a collection of small documents, starts a head
and three raylets of one processor each on this machine, and runs ``wholedoc translate --ray``. When
a fifth of the shards are there it kills the process of one worker with SIGKILL, and at half of them
a whole raylet with its worker. Then it counts: each document must be in the shards exactly once,
and a sample must be what the model gives for each document alone.
"""

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import ray
import torch
from ray.cluster_utils import Cluster

from wholedoc import Translator

WHO = (
    "Der Kundendienst",
    "Die Maschine",
    "Das Programm",
    "Der Benutzer",
    "Die Datei",
    "Der Drucker",
)
DOES = ("öffnet", "prüft", "zeigt", "löscht", "ändert", "speichert", "braucht", "findet")
WHAT = ("das Fenster", "den Ordner", "die Einstellung", "die Tabelle", "das Bild", "die Seite")
WHEN = (
    "nach dem Start",
    "am Ende",
    "in diesem Fall",
    "vor dem Drucken",
    "beim Speichern",
    "sofort",
)
SAMPLE = 200


@dataclass
class Figures:
    """What was found."""

    documents: int
    seed: int
    workers: int
    killed: list[str] = field(default_factory=list)
    lost_tasks: int = 0
    """Tasks whose worker was lost; their documents were translated again."""
    in_shards: int = 0
    missing: int = 0
    twice: int = 0
    set_aside: int = 0
    sample: int = SAMPLE
    different_from_alone: int = 0
    """Documents of the sample that have another translation alone."""
    seconds: float = 0.0
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)


def write_collection(file: Path, documents: int, seed: int) -> None:
    generator = random.Random(seed)
    with file.open("w", encoding="utf-8") as stream:
        for number in range(documents):
            sentences = [
                f"{generator.choice(WHO)} {generator.choice(DOES)} {generator.choice(WHAT)} "
                f"{generator.choice(WHEN)}."
                for _ in range(generator.randint(1, 3))
            ]
            row = {"id": f"doc-{number}", "sentences": sentences}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def find_actors() -> list[int]:
    """The processes of workers under raylets of this process, by the titles that Ray gives them."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().startswith(b"ray::_Actor"):
                number = int(place.parent.name)
                if parent_of(parent_of(number)) == os.getpid():
                    found.append(number)
        except OSError:  # it has ended since
            continue
    return sorted(found)


def parent_of(number: int) -> int:
    status = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    return int(status.rpartition(")")[2].split()[1])


def kill_on_the_way(
    running: "subprocess.Popen[str]", out: Path, shards: int, cluster: Cluster
) -> list[str]:
    """Kill a worker, and later a raylet with its worker; returns what was killed."""
    killed = []
    while running.poll() is None:
        done = len(list(out.glob("*.jsonl")))
        if not killed and done >= shards / 5:
            victim = find_actors()[0]
            os.kill(victim, signal.SIGKILL)
            killed.append(f"the process of a worker by SIGKILL, after {done} of {shards} shards")
        elif len(killed) == 1 and done >= shards / 2:
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            killed.append(f"a raylet with its worker, after {done} of {shards} shards")
        time.sleep(0.2)
    return killed


def check(collection: Path, out: Path, figures: Figures) -> None:
    rows = [json.loads(line) for line in collection.read_text(encoding="utf-8").splitlines()]
    files = [file for file in sorted(out.glob("*.jsonl")) if file.name != "failed.jsonl"]
    found = [json.loads(line) for f in files for line in f.read_text(encoding="utf-8").splitlines()]
    counts = Counter(row["id"] for row in found)
    figures.in_shards = len(found)
    figures.missing = sum(row["id"] not in counts for row in rows)
    figures.twice = sum(count > 1 for count in counts.values())
    figures.set_aside = len((out / "failed.jsonl").read_text(encoding="utf-8").splitlines())
    translated = {row["id"]: row["sentences"] for row in found}
    translator = Translator.load("de-en")
    search = replace(translator.config.search, beam=1)
    torch.set_num_threads(1)
    for row in random.Random(figures.seed).sample(rows, min(SAMPLE, len(rows))):
        alone = translator.translate(row["sentences"], search).sentences
        figures.different_from_alone += alone != translated.get(row["id"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    collection, out = options.work / "collection.jsonl", options.work / "out"
    options.work.mkdir(parents=True, exist_ok=True)
    if not collection.exists():
        write_collection(collection, options.documents, options.seed)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        cluster.add_node(num_cpus=1)
    arguments = ["translate", "de-en", str(collection), "-o", str(out), "--ray", cluster.address]
    arguments += ["--beam", "1", "--shard", "500"]
    shown = "wholedoc translate de-en collection.jsonl -o out --ray HOST:PORT --beam 1 --shard 500"
    figures = Figures(options.documents, options.seed, workers=3, command=shown)
    begun = time.monotonic()
    running = subprocess.Popen(
        [sys.executable, "-m", "wholedoc", *arguments], stderr=subprocess.PIPE, text=True
    )
    figures.killed = kill_on_the_way(running, out, -(-options.documents // 500), cluster)
    messages = running.communicate()[1]
    figures.seconds = round(time.monotonic() - begun, 1)
    figures.lost_tasks = messages.count("a worker was lost")
    print(messages, file=sys.stderr)
    cluster.shutdown()
    check(collection, out, figures)
    figures.versions = {"ray": ray.__version__, "python": platform.python_version()}
    result = json.dumps(asdict(figures), indent=2) + "\n"
    print(result)
    if options.json:
        options.json.write_text(result, encoding="utf-8")
    good = running.returncode == 0 and len(figures.killed) == 2 and figures.lost_tasks >= 2
    right = not (figures.missing or figures.twice or figures.set_aside)
    sys.exit(0 if good and right and not figures.different_from_alone else 1)


if __name__ == "__main__":
    main()
