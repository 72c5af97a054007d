"""wholedoc beside other toolkits: the same text, subwords, sizes, batches, time and one thread.

Makes the peers' environments in ``--work`` (the versions of ``requirements-*.txt``), trains each
system for ``--minutes``, one after the other, scores the dev set and translates the test set:
wholedoc as it ships and with all products in 32 bits, and its model once more after ``wholedoc
export``. With ``--turns`` all train for a minute and translate again, in turn, as the speed of a
shared machine changes from hour to hour. What is done is kept there, and a second start goes on
with the rest. Only the standard library is used here: a child's peak memory begins at that of its
parent, which should be small.

Speed is that of target subwords, ends of sentences included. In training it leaves out start-up,
the first tenth of the time (wholedoc: the first 50 updates) and validation; in decoding, loading
the model. Perplexity is per subword, without label smoothing, by each tool's own scorer, which must
count the same subwords.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from table import (
    CONTENDERS,
    OURS,
    TRAINED,
    TURN_STEPS,
    Results,
    print_table,
    print_turns,
    warn_of_lengths,
    warn_of_waiting,
)
from task import RECIPE

HERE = Path(__file__).resolve().parent
STEPS = ("train", "score", "decode", "bleu")
EXPORT_STEPS = ("export", "decode", "bleu")
"""Those of wholedoc's own model in 8 bits, which is not trained but made of the other."""
TURN_SECONDS = 60
"""Of training, in each turn."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


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

    @property
    def turns(self) -> Path:
        """The numbers of turns with these models."""
        return self.directory / "runs" / f"{self.minutes:g}min" / "turns"

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
    if (run / f"{step}.json").exists():
        return
    if step == "train":
        shutil.rmtree(run, ignore_errors=True)  # of a training that was broken off
        shutil.rmtree(work.turns, ignore_errors=True)  # of other models
    if step == "train" and contender == "wholedoc":
        shutil.rmtree(work.run("export"), ignore_errors=True)  # of another model
    run.mkdir(parents=True, exist_ok=True)
    say(f"{contender}: {step}")
    if step == "bleu":
        program = [sys.executable, HERE / "text.py", step, work.data, run]
    else:
        program = step_command(work, contender, step, run, 60 * work.minutes)
    measure_step(program, run / step)


def step_command(work: Work, contender: str, step: str, run: Path, seconds: float) -> list[Any]:
    """What does a step, but for where it writes its numbers."""
    program = HERE / f"contender_{contender}.py"
    return [work.python(contender), program, step, work.data, run, seconds]


def measure_step(command: list[Any], result: Path) -> None:
    """Run a step; its numbers and what it took go to ``result`` with the ending ``.json``."""
    part = result.with_suffix(".part")
    arguments = [str(argument) for argument in (*command, part)]
    took = run_measured(arguments, result.with_suffix(".output"))
    content = json.dumps({**json.loads(part.read_text()), **took}, indent=1) + "\n"
    result.with_suffix(".json").write_text(content)
    part.unlink()


def run_turn(work: Work, contender: str, place: Path) -> None:
    """Train anew for a while, and translate with the model that there is."""
    place.mkdir(parents=True)
    if contender != "export":
        step = "trial" if contender in TRAINED else "train"
        trained = place / "model"
        trained.mkdir()
        measure_step(step_command(work, contender, step, trained, TURN_SECONDS), place / "train")
        shutil.rmtree(trained)
    decode = step_command(work, contender, "decode", work.run(contender), TURN_SECONDS)
    measure_step(decode, place / "decode")


def take_turn(work: Work, number: int, contenders: list[str]) -> Results:
    """The numbers of a turn of all contenders: kept as a whole, as their ratios count."""
    place = work.turns / str(number)
    kept = place.with_suffix(".json")
    found: Results = json.loads(kept.read_text()) if kept.exists() else {}
    if found.keys() == set(contenders):
        return found
    shutil.rmtree(place, ignore_errors=True)  # of a turn that was broken off, or of others
    found = {}
    for contender in contenders:
        say(f"turn {number}: {contender}")
        succeeds(run_turn, work, contender, place / contender)
        steps = {step: place / contender / f"{step}.json" for step in TURN_STEPS}
        found[contender] = {s: json.loads(p.read_text()) for s, p in steps.items() if p.exists()}
        add_rates(found[contender].get("decode", {}))
    kept.write_text(json.dumps(found, indent=1) + "\n")
    return found


def run_contender(work: Work, contender: str) -> None:
    """All steps of one contender."""
    if contender not in OURS:
        make_environment(work, contender)
    if contender == "export" and not work.result("wholedoc", "train"):
        raise StepFailedError("there is no model to export: wholedoc has to be trained first")
    for step in EXPORT_STEPS if contender == "export" else STEPS:
        run_step(work, contender, step)


def succeeds(run: Callable[..., None], work: Work, contender: str, *others: Path) -> bool:
    """Run a contender's part; say so if it fails."""
    try:
        run(work, contender, *others)
    except StepFailedError as error:
        say(f"{contender}: failed, {error}")
        return False
    return True


def collect(work: Work, counts: dict[str, Any]) -> Results:
    """The results so far, of every contender that has any."""
    found: Results = {}
    for contender in CONTENDERS:
        steps = {step: work.result(contender, step) for step in STEPS}
        if not any(steps.values()):
            continue
        add_rates(steps["decode"])
        found[contender] = {"version": version(contender), **steps}
        scored = steps["score"].get("words", counts["dev"]["trg"])
        if scored != counts["dev"]["trg"]:
            say(f"{contender} scored {scored} subwords of {counts['dev']['trg']}: do not compare")
    return found


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


def add_rates(found: dict[str, Any]) -> None:
    """Words and sentences per second of decoding."""
    if found:
        found["words_per_second"] = found["words"] / found["seconds"]
        found["sentences_per_second"] = found["sentences"] / found["seconds"]
        found["words_per_sentence"] = found["words"] / found["sentences"]


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
    parser.add_argument("--turns", type=int, default=0, help="of all, a minute each, at the end")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    work = Work(options.work.resolve(), options.minutes)
    spec = corpus_spec(options)
    counts = prepare(work, spec)
    failed = [name for name in options.only if not succeeds(run_contender, work, name)]
    compared = [name for name in options.only if name not in failed]
    turns = [take_turn(work, number + 1, compared) for number in range(options.turns)]
    results = collect(work, counts)
    setting = {
        "machine": machine(),
        "minutes": options.minutes,
        "recipe": asdict(RECIPE),
        "text": counts,
        "corpus": spec,
    }
    print(json.dumps(setting, indent=1))
    print_table(results)
    if turns:
        print_turns(turns)
    for found in (results, *turns):
        warn_of_waiting(found)
    warn_of_lengths(results, counts)
    if options.json:
        content = {**setting, "results": results, "turns": turns}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
