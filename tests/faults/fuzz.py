"""Fuzz all readers of files, then the HTTP service: ``make fuzz``.

Each target runs in a process of its own, by atheris where it is installed (it follows coverage),
else by hypothesis. A summary is written as JSON; the inputs at fault are kept beside it.
"""

import argparse
import hashlib
import json
import os
import platform
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]
os.environ.setdefault("OMP_NUM_THREADS", "1")

_PATIENCE = 120  # seconds without a sign of life after which a process is ended
_MOST_DATA = 4 * 2**30
_SLOW_SHARE = 0.1  # of a quick target's inputs, for a slow one
_REPORT_EVERY = 250
_ROUND = 1000
_PACKAGES = ("wholedoc", "atheris", "hypothesis", "schemathesis", "lxml", "safetensors",
             "sentencepiece", "tantivy", "torch", "fastapi", "starlette", "uvicorn",
             "python-multipart")  # fmt: skip


class Report:
    """What came of the inputs of one target, written as it goes."""

    def __init__(self, file: Path, faults: Path) -> None:
        self._file, self._faults = file, faults
        self.values: dict[str, Any] = {"inputs": 0, "answers": 0, "errors": 0, "faults": {}}

    def count(self, kind: str) -> None:
        """Count an answer or an error."""
        self.values["inputs"] += 1
        self.values[kind] += 1
        if self.values["inputs"] % _REPORT_EVERY == 0:
            self.write()

    def fault(self, error: BaseException, data: bytes) -> None:
        """Note something that must not happen, each kind of it once with its input."""
        frames = traceback.extract_tb(error.__traceback__)
        ours = [f for f in frames if "wholedoc" in f.filename and "/tests/" not in f.filename]
        frame = (ours or frames)[-1]
        name = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
        self.values["inputs"] += 1
        found = self.values["faults"]
        if name not in found:
            found[name] = {"count": 0, "message": str(error)[:300]}
            self._faults.mkdir(parents=True, exist_ok=True)
            (self._faults / hashlib.sha256(name.encode()).hexdigest()[:12]).write_bytes(data)
            if len(found) < 20:
                traceback.print_exception(error)
        found[name]["count"] += 1
        self.write()

    def write(self) -> None:
        """Write what is known so far, with the memory that is used."""
        from watch import peak_megabytes, used_megabytes

        self.values.setdefault("first_megabytes", round(used_megabytes()))
        self.values["last_megabytes"] = round(used_megabytes())
        self.values["peak_megabytes"] = round(peak_megabytes())
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(self.values))
        part.replace(self._file)


def fuzz_target(target: Any, count: int, options: argparse.Namespace) -> None:
    """In a process of its own: give one target its inputs."""
    import targets
    from watch import bounded, confined

    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA, _MOST_DATA))
    warnings.simplefilter("error")
    folder = options.place / "folder"
    folder.mkdir(exist_ok=True)
    place = options.place
    current = place / "current"
    report = Report(options.report, place / "faults" / target.name.replace(" ", "-"))

    def try_one(data: bytes) -> None:
        if report.values["inputs"] >= count:
            return
        current.write_bytes(data)
        try:
            with confined(place, Path(tempfile.gettempdir())), bounded():
                found = targets.attempt(target, data, folder)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            report.fault(error, data)
        else:
            report.count({"answer": "answers", "error": "errors"}[found])
        if report.values["inputs"] >= count:
            report.write()

    for seed in target.seeds:
        try_one(seed)
    engine = _by_atheris if options.engine == "atheris" else _by_hypothesis
    engine(try_one, target, count, options)


def _by_atheris(
    try_one: Callable[[bytes], None], target: Any, count: int, options: argparse.Namespace
) -> None:
    import atheris

    seeds, place = target.seeds, options.place
    corpus = place / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir()
    for n, seed in enumerate(seeds):
        (corpus / str(n)).write_bytes(seed)
    listed = ("".join(f"\\x{byte:02x}" for byte in word) for word in target.words)
    (place / "words").write_text("".join(f'"{word}"\n' for word in listed))
    atheris.Setup(
        [
            sys.argv[0],
            str(corpus),
            f"-runs={count + len(seeds) + 10}",
            f"-seed={options.seed}",
            f"-dict={place / 'words'}",
            "-max_len=20000",
            "-len_control=0",
            "-timeout=100",
            "-rss_limit_mb=6000",
            "-print_final_stats=0",
            "-verbosity=0",
            f"-artifact_prefix={place}/",
        ],
        try_one,
    )
    atheris.Fuzz()


def _by_hypothesis(
    try_one: Callable[[bytes], None], target: Any, count: int, options: argparse.Namespace
) -> None:
    from mutations import inputs

    run_examples(inputs(target.seeds, target.words), try_one, count + 10, options.seed)


def run_examples(strategy: Any, work: Callable[[Any], None], count: int, first_seed: int) -> None:
    """Examples of a strategy, in rounds: hypothesis remembers all examples of a round."""
    from hypothesis import HealthCheck, Phase, given, seed, settings

    for number in range(-(-count // _ROUND)):

        @seed(1_000_003 * first_seed + number)
        @settings(
            max_examples=min(_ROUND, count - number * _ROUND),
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def run(example: Any) -> None:
            work(example)

        run()


def run_child(work: Callable[[], None], report: Path, place: Path) -> str:
    """Run work in a process of its own until that ends or shows no sign of life.

    Returns what was wrong, if anything. A copy of this process need not import anything.
    """
    log = place / "log"
    if (child := os.fork()) == 0:
        with log.open("wb") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (the process ends here)
            traceback.print_exception(error)
            os._exit(1)
        os._exit(0)
    alive, seen = time.monotonic(), 0.0
    current = place / "current"
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
        times = [f.stat().st_mtime for f in (report, current) if f.exists()]
        if max(times, default=0.0) != seen:
            alive, seen = time.monotonic(), max(times)
        elif time.monotonic() - alive > _PATIENCE:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "hang"
    shown = log.read_text(errors="replace")
    if "Traceback" in shown:
        print(shown[-6000:], flush=True)
    return "" if status == 0 else f"status {status}"


def fuzz_files(options: argparse.Namespace, place: Path) -> dict[str, Any]:
    """All targets, one after the other."""
    if options.engine == "atheris":
        import atheris

        with atheris.instrument_imports(include=["wholedoc"]):
            import targets
    else:
        import targets

    found = [t for t in targets.make_targets(place / "originals") if options.only in t.name]
    weight = sum(_SLOW_SHARE if target.slow else 1 for target in found)
    results: dict[str, Any] = {}
    for target in found:
        share = (_SLOW_SHARE if target.slow else 1) / weight
        count = round(options.inputs * share)
        work = partial(fuzz_target, target)
        results[target.name] = _fuzz_one(options, target.name, count, work)
        values = results[target.name]
        print(f"{target.name}: {json.dumps(values)}", flush=True)
    return results


def _fuzz_one(
    options: argparse.Namespace,
    name: str,
    count: int,
    work: Callable[[int, argparse.Namespace], None],
) -> dict[str, Any]:
    """One target, begun again with another seed where its process has died."""
    total: dict[str, Any] = {"inputs": 0, "answers": 0, "errors": 0, "faults": {}}
    begun = time.monotonic()
    place, report = options.place, options.report
    for attempt in range(5):
        report.unlink(missing_ok=True)
        chosen = argparse.Namespace(**{**vars(options), "seed": options.seed + attempt})
        ended = run_child(partial(work, count - total["inputs"], chosen), report, place)
        values = json.loads(report.read_text()) if report.exists() else {}
        for key in ("inputs", "answers", "errors"):
            total[key] += values.get(key, 0)
        for key, fault in values.get("faults", {}).items():
            total["faults"].setdefault(key, fault)
        total |= {key: value for key, value in values.items() if key.endswith("megabytes")}
        if not ended:
            break
        kept = place / "faults" / name.replace(" ", "-")
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(place / "current", kept / f"crash-{attempt}")
        total["faults"][f"the process: {ended} ({attempt})"] = {"count": 1, "message": ""}
    total["seconds"] = round(time.monotonic() - begun, 1)
    return total


def versions() -> dict[str, str]:
    """What was tried, and with what."""
    known = {}
    for name in _PACKAGES:
        try:
            known[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            known[name] = "not installed"
    return {**known, "python": platform.python_version(), "machine": platform.machine()}


def main() -> None:
    """Fuzz everything, or one target in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="over all readers of files")
    parser.add_argument("--requests", type=int, default=20_000, help="to the HTTP service")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="targets with this in their names")
    parser.add_argument("--out", type=Path, default=Path("fuzz.json"))
    parser.add_argument(
        "--engine",
        choices=["atheris", "hypothesis"],
        default="atheris" if find_spec("atheris") else "hypothesis",
    )
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wholedoc-fuzz-") as folder:
        place = options.place = Path(folder)
        options.report = place / "report.json"
        summary: dict[str, Any] = {
            "command": f"fuzz.py --inputs {options.inputs} --requests {options.requests} "
            f"--seed {options.seed} --engine {options.engine}",
            "date": time.strftime("%Y-%m-%d"),
            "seed": options.seed,
            "engine": options.engine,
            "versions": versions(),
        }
        summary["targets"] = fuzz_files(options, place) if options.inputs else {}
        if options.requests and not options.only:
            from fuzz_service import fuzz_service

            summary["http"] = _fuzz_one(options, "http", options.requests, fuzz_service)
        runs = [*summary["targets"].values(), *([summary["http"]] if "http" in summary else [])]
        summary["inputs"] = sum(run["inputs"] for run in summary["targets"].values())
        summary["requests"] = summary.get("http", {}).get("inputs", 0)
        summary["faults"] = sum(len(run["faults"]) for run in runs)
        summary["peak_megabytes"] = max((run.get("peak_megabytes", 0) for run in runs), default=0)
        summary["seconds"] = round(time.monotonic() - begun)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(summary, indent=1) + "\n")
        if (place / "faults").exists():
            kept = options.out.with_suffix(".faults")
            shutil.copytree(place / "faults", kept, dirs_exist_ok=True)
            print(f"inputs at fault: {kept}")
    totals = {key: summary[key] for key in ("inputs", "requests", "faults", "peak_megabytes")}
    print(json.dumps(totals))
    sys.exit(1 if summary["faults"] else 0)


if __name__ == "__main__":
    main()
