"""wholedoc beside other toolkits: the same text, subwords, sizes, batches, time and one thread.

Makes the peers' environments in ``--work`` (the versions of ``requirements-*.txt``), trains each
system for ``--minutes``, one after the other, scores the dev set and translates the test set; with
wholedoc's model translates once more after ``wholedoc export``. What is done is kept there, and a
second start goes on with the rest. Only the standard library is used here: a child's peak memory
begins at that of its parent, which should be small.

Speed is that of target subwords, ends of sentences included. In training it leaves out start-up,
the first tenth of the time and validation; in decoding, loading the model. Perplexity is per
subword, without label smoothing, by each tool's own scorer, which must count the same subwords.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from task import RECIPE

HERE = Path(__file__).resolve().parent
PEERS = ("joeynmt", "opennmt", "pymarian")
OURS = ("wholedoc", "export")
CONTENDERS = (*OURS, *PEERS)
STEPS = ("train", "score", "decode", "bleu")
EXPORT_STEPS = ("export", "decode", "bleu")
"""Those of wholedoc's own model in 8 bits, which is not trained but made of the other."""
BUSY = 0.9
"""A step that had less of a core than this waited for others, and its speed means nothing."""
OTHER_LENGTH = 0.25
"""Translations that are shorter or longer than the reference by more than this cost something else
per word, so that their words per second say little."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
Results = dict[str, dict[str, Any]]


class StepFailedError(Exception):
    """A step of one contender did not end well; its message says where to look."""


def environment() -> dict[str, str]:
    """One thread, no GPU, and wholedoc from this checkout."""
    threads = dict.fromkeys(THREADS, "1")
    wholedoc = str(HERE.parents[1])
    return {**os.environ, **threads, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": wholedoc}


def run_measured(command: list[str], log: Path) -> dict[str, float]:
    """Run a command to its end; what it took, its children included."""
    begun, load = time.monotonic(), os.getloadavg()[0]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment())
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise StepFailedError(f"exit code {process.returncode}, see {log}")
    wall = time.monotonic() - begun
    return {
        "wall_seconds": wall,
        "cores": (usage.ru_utime + usage.ru_stime) / wall,
        "peak_rss_mb": usage.ru_maxrss / (1024 * 1024 if sys.platform == "darwin" else 1024),
        "load_before": load,
    }


@dataclass(frozen=True)
class Work:
    """Where everything is kept."""

    directory: Path
    minutes: float

    @property
    def data(self) -> Path:
        """The text, the same for all."""
        return self.directory / "data"

    def run(self, contender: str) -> Path:
        """The model and the results of one contender."""
        return self.directory / "runs" / f"{self.minutes:g}min" / contender

    def python(self, contender: str) -> str:
        """The interpreter of one contender."""
        if contender in OURS:
            return sys.executable
        return str(self.directory / "env" / contender / "bin" / "python")

    def result(self, contender: str, step: str) -> dict[str, Any]:
        """The numbers of a step; nothing where it is not done."""
        path = self.run(contender) / f"{step}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return found


def make_environment(work: Work, contender: str) -> None:
    """Install a peer with the versions of its list, and nothing beside them."""
    home = work.directory / "env" / contender
    versions = HERE / f"requirements-{contender}.txt"
    done = home / "installed.txt"
    if done.exists() and done.read_text() == versions.read_text():
        return
    say(f"{contender}: installing")
    log = work.directory / f"install-{contender}.log"
    run_measured([sys.executable, "-m", "venv", "--clear", str(home)], log)
    # The lists are complete, so nothing is resolved: OpenNMT-py asks for an old torch, and a
    # resolver may bring gigabytes of CUDA.
    pip = [work.python(contender), "-m", "pip", "install", "--no-deps", "-r", str(versions)]
    run_measured(pip, log)
    shutil.copy(versions, done)


def prepare(work: Work, spec: dict[str, Any]) -> dict[str, Any]:
    """Write the text once; a work directory holds that of one corpus."""
    manifest = work.data / "manifest.json"
    if not manifest.exists():
        say("preparing the text")
        work.directory.mkdir(parents=True, exist_ok=True)
        request = work.directory / "spec.json"
        request.write_text(json.dumps(spec, indent=1))
        command = [sys.executable, str(HERE / "text.py"), "prepare", str(request), str(work.data)]
        run_measured(command, work.directory / "prepare.log")
    content = json.loads(manifest.read_text())
    if content["spec"] != spec:
        sys.exit(f"{work.data} holds another corpus: name another directory with --work")
    counts: dict[str, Any] = content["counts"]
    return counts


def run_step(work: Work, contender: str, step: str) -> None:
    """Do one step, if it is not done."""
    run = work.run(contender)
    done = run / f"{step}.json"
    if done.exists():
        return
    if step == "train" and run.exists():
        shutil.rmtree(run)  # of a training that was broken off
    if step == "train" and contender == "wholedoc":
        shutil.rmtree(work.run("export"), ignore_errors=True)  # of another model
    run.mkdir(parents=True, exist_ok=True)
    say(f"{contender}: {step}")
    part = run / f"{step}.part"
    if step == "bleu":
        arguments = [sys.executable, HERE / "text.py", "bleu", work.data, run, part]
    else:
        program = HERE / f"contender_{contender}.py"
        seconds = 60 * work.minutes
        arguments = [work.python(contender), program, step, work.data, run, seconds, part]
    took = run_measured([str(argument) for argument in arguments], run / f"{step}.output")
    numbers = json.loads(part.read_text())
    done.write_text(json.dumps({**numbers, **took}, indent=1) + "\n")
    part.unlink()


def run_contender(work: Work, contender: str) -> None:
    """All steps of one contender."""
    if contender not in OURS:
        make_environment(work, contender)
    if contender == "export" and not work.result("wholedoc", "train"):
        raise StepFailedError("there is no model to export: wholedoc has to be trained first")
    for step in EXPORT_STEPS if contender == "export" else STEPS:
        run_step(work, contender, step)


def collect(work: Work, counts: dict[str, Any]) -> Results:
    """The results so far, of every contender that has any."""
    found: Results = {}
    for contender in CONTENDERS:
        steps = {step: work.result(contender, step) for step in STEPS}
        if not any(steps.values()):
            continue
        found[contender] = {"version": version(contender), **steps}
        scored = steps["score"].get("words", counts["dev"]["trg"])
        if scored != counts["dev"]["trg"]:
            say(f"{contender} scored {scored} subwords of {counts['dev']['trg']}: do not compare")
    return found


def warn_of_waiting(results: Results) -> None:
    """Say which speeds were measured on a machine that had other work, or was paused."""
    for contender, steps in results.items():
        for step in ("train", "decode"):
            if (cores := steps[step].get("cores", 1.0)) < BUSY:
                print(f"WARNING {contender}: {step} had {cores:.2f} of a core, measure it again")


def warn_of_lengths(results: Results, counts: dict[str, Any]) -> None:
    """Say whose translations are too short or too long for their speed to be compared."""
    reference = counts["test"]["trg"] / counts["test"]["pairs"]
    for contender, steps in results.items():
        length = steps["decode"].get("words_per_sentence", reference)
        if abs(length / reference - 1) > OTHER_LENGTH:
            print(
                f"WARNING {contender}: {length:.1f} words per translation, {reference:.1f} in the "
                "reference: do not compare its speed of decoding, train it longer"
            )


def version(contender: str) -> str:
    """The version of a contender and of its torch."""
    if contender in OURS:
        command = [sys.executable, "-m", "wholedoc", "--version"]
        shown = subprocess.run(command, env=environment(), capture_output=True, text=True)
        return shown.stdout.strip().split()[-1]
    lines = (HERE / f"requirements-{contender}.txt").read_text().lower().splitlines()
    pins = dict(line.split("==") for line in lines)
    names = {"opennmt": "opennmt-py"}
    return pins[names.get(contender, contender)]


def machine() -> dict[str, Any]:
    """The processor and its threads."""
    model = "unknown"
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    return {"cpu": model, "cores": os.cpu_count(), "threads": 1, "python": sys.version.split()[0]}


COLUMNS = (
    ("training words/s", "train", "words_per_second", ".0f"),
    ("words seen", "train", "words", ",.0f"),
    ("seconds", "train", "seconds", ".0f"),
    ("RSS, MB", "train", "peak_rss_mb", ".0f"),
    ("cores", "train", "cores", ".2f"),
    ("dev perplexity", "score", "perplexity", ".2f"),
    ("decoding words/s", "decode", "words_per_second", ".0f"),
    ("sentences/s", "decode", "sentences_per_second", ".2f"),
    ("words/sentence", "decode", "words_per_sentence", ".1f"),
    ("RSS, MB", "decode", "peak_rss_mb", ".0f"),
    ("cores", "decode", "cores", ".2f"),
    ("BLEU", "bleu", "bleu", ".2f"),
    ("brevity", "bleu", "brevity", ".3f"),
)


def add_rates(results: Results) -> None:
    """Words and sentences per second of decoding."""
    for steps in results.values():
        if found := steps["decode"]:
            found["words_per_second"] = found["words"] / found["seconds"]
            found["sentences_per_second"] = found["sentences"] / found["seconds"]
            found["words_per_sentence"] = found["words"] / found["sentences"]


def print_table(results: Results) -> None:
    """One row for each measure, one column for each contender, in Markdown."""
    heads = [f"{name} {steps['version']}" for name, steps in results.items()]
    print("| | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for title, step, key, form in COLUMNS:
        cells = [format(s[step][key], form) if key in s[step] else "–" for s in results.values()]
        print(f"| {step}: {title} | " + " | ".join(cells) + " |")
    print()
    for step in ("train", "decode"):
        speeds = {name: s[step].get("words_per_second") for name, s in results.items()}
        for ours, peer in product(OURS, PEERS):
            if (speed := speeds.get(ours)) and (other := speeds.get(peer)):
                print(f"{step}: {ours} does {speed / other:.2f} times the words/s of {peer}")


def corpus_spec(options: argparse.Namespace) -> dict[str, Any]:
    """The files and how much of them is used."""
    return {
        name: {
            "src": str(getattr(options, f"{name}_src").resolve()),
            "trg": str(getattr(options, f"{name}_trg").resolve()),
            "limit": getattr(options, f"{name}_pairs"),
        }
        for name in ("train", "dev", "test")
    }


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("train", "dev", "test"):
        for side in ("src", "trg"):
            parser.add_argument(f"--{name}-{side}", type=Path, required=True, help="plain or .gz")
        parser.add_argument(f"--{name}-pairs", type=int, default=0, help="the first so many only")
    parser.add_argument("--work", type=Path, required=True, help="environments, text and results")
    parser.add_argument("--minutes", type=float, default=20, help="of training, for each")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    work = Work(options.work.resolve(), options.minutes)
    spec = corpus_spec(options)
    counts = prepare(work, spec)
    failed = 0
    for contender in options.only:
        try:
            run_contender(work, contender)
        except StepFailedError as error:
            failed += 1
            say(f"{contender}: failed, {error}")
    results = collect(work, counts)
    add_rates(results)
    setting = {
        "machine": machine(),
        "minutes": options.minutes,
        "recipe": asdict(RECIPE),
        "text": counts,
        "corpus": spec,
    }
    print(json.dumps(setting, indent=1))
    print_table(results)
    warn_of_waiting(results)
    warn_of_lengths(results, counts)
    if options.json:
        content = {**setting, "results": results}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
