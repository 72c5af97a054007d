"""Faults in one training: its weights must be those of the undisturbed one, bit for bit.

``python bench/faults/kills.py [--kills 50] [--seed 1] [--out FILE]`` trains ``tiny`` with both
memories on a small artificial corpus, once undisturbed and once through faults, and prints what
happened as JSON. Each start of the second training is ended by SIGKILL after a random time; four in
five are given the time to come to their first update. Before
every fifth start the newest checkpoint is cut short or a byte of it is changed, and every seventh
start has a disk on which files cannot grow beyond a random size. Checkpoints are written after each
update, so that kills hit their writing too. It exits with 1 if a single bit differs.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import wholedoc.training.stages  # noqa: F401 (before each fork, which then need not)
from wholedoc.cli import main as run_command_line
from wholedoc.config import load_config
from wholedoc.kernels import describe
from wholedoc.store.run import Run, format_toml
from wholedoc.synthetic import SynthConfig, write_synth
from wholedoc.training.loop import read_log

EVERY_UPDATE = [f"--set=stage{stage}.checkpoint_minutes=1e-9" for stage in range(3)]
SMALL = [
    *("model.memory=both", "model.fusion=context", "samples=0", "share=false"),
    *("stage0.epochs=2", "stage1.epochs=3", "stage2.epochs=2", "stage2.update_tokens=300"),
]


@dataclass
class Faults:
    """What was done to a training."""

    config: Path
    run: Path
    random: random.Random
    hits: Counter[str] = field(default_factory=Counter)
    """How often a kill hit each stage, or what comes before all stages."""
    damaged: int = 0
    recovered: int = 0
    """Damaged checkpoints, and how often a start said that it took the one before."""
    full_disks: int = 0
    """Starts that ended with exit code 2 because a file could not be written."""

    def start(self, seconds: float | None = None, largest: int = 0) -> int:
        """Train until the end, or be killed after so many seconds; return the exit code."""
        errors = self.run.with_suffix(".errors")
        child = os.fork()
        if child == 0:
            self._train(errors, largest)
        if seconds is not None:
            if self.random.random() < 0.8:
                self._await_training(child)
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = errors.read_text(encoding="utf-8")
        self.recovered += "goes on from the checkpoint before it" in said
        if code not in (0, -signal.SIGKILL, 2) or (code == 2 and "cannot write" not in said):
            raise SystemExit(f"unexpected exit code {code}: {said}")
        return code

    def _await_training(self, child: int) -> None:
        """Wait until a start has come to its first update, or has ended."""
        log, begun = self.run / "log.jsonl", time.time()
        while not (log.exists() and log.stat().st_mtime >= begun):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return
            time.sleep(0.002)

    def _train(self, errors: Path, largest: int) -> NoReturn:
        """Be a process that trains, with files of at most so many bytes; never return."""
        code = 1
        with errors.open("w") as sys.stderr, Path(os.devnull).open("w") as sys.stdout:
            try:
                if largest:
                    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
                sys.argv[1:] = ["train", str(self.config), f"--run={self.run}", *EVERY_UPDATE]
                run_command_line()
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                sys.stderr.flush()
                os._exit(code)  # and not on to what the parent does at its end

    def kill(self, seconds: float) -> bool:
        """Start and kill at a random moment within some seconds; false if it had finished."""
        full = self.random.random() < 1 / 7
        code = self.start(self.random.uniform(0, seconds), self._file_size() if full else 0)
        self.full_disks += code == 2
        if code == -signal.SIGKILL:
            names = [str(line["stage"]) for line in read_log(self.run)]
            self.hits[names[-1] if names else "before the first stage"] += 1
        return code != 0

    def damage(self) -> None:
        """Cut the newest checkpoint short or change a byte, if there is one before it."""
        files = [Run(self.run).stage(path.stem) for path in self.run.glob("*.checkpoint")]
        files = [stage for stage in files if stage.previous.exists()]
        if not files:
            return
        newest = max((stage.checkpoint for stage in files), key=lambda path: path.stat().st_mtime)
        content = bytearray(newest.read_bytes())
        place = self.random.randrange(len(content))
        if self.random.random() < 0.5:
            content = content[:place]
        else:
            content[place] ^= 1 << self.random.randrange(8)
        newest.unlink()  # not through the name that it shares with another
        newest.write_bytes(bytes(content))
        self.damaged += 1

    def _file_size(self) -> int:
        sizes = [path.stat().st_size for path in self.run.rglob("*") if path.is_file()]
        return self.random.randrange(1, max(sizes, default=1000) + 1)


def digests(run: Path) -> dict[str, str]:
    """What a training made, by file."""
    files = sorted([*run.glob("*.safetensors"), *run.glob("*.tsv")])
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def measure(config: Path, place: Path, kills: int, seed: int) -> dict[str, Any]:
    """Train undisturbed and through faults; compare."""
    describe()  # finds and proves the kernels, once for all starts
    undisturbed = Faults(config, place / "undisturbed", random.Random(seed))
    begun = time.monotonic()
    if undisturbed.start() != 0:
        raise SystemExit(undisturbed.run.with_suffix(".errors").read_text(encoding="utf-8"))
    whole = time.monotonic() - begun
    faults = Faults(config, place / "faults", random.Random(seed))
    while faults.hits.total() < kills:
        if not faults.kill(1.5 * whole / kills):
            break
        if faults.hits.total() % 5 == 4:
            faults.damage()
    code = faults.start()
    expected, found = digests(undisturbed.run), digests(faults.run)
    left = [str(path.relative_to(faults.run)) for path in faults.run.rglob("*.part")]
    return {
        "kills": faults.hits.total(),
        "where": dict(faults.hits),
        "damaged_checkpoints": faults.damaged,
        "recovered_from_the_one_before": faults.recovered,
        "full_disks": faults.full_disks,
        "seconds_undisturbed": round(whole, 1),
        "last_exit_code": code,
        "half_written_files": left,
        "files": expected,
        "same": code == 0 and not left and found == expected,
    }


def write_artificial(place: Path, documents: int) -> Path:
    """A small artificial corpus and a configuration for it."""
    write_synth(place / "corpus", SynthConfig(train=documents, dev=5, test=5))
    files = [
        f"data.{split}.{side}={place / 'corpus' / split}.{side}"
        for split in ("train", "dev")
        for side in ("src", "trg", "doc")
    ]
    config = place / "tiny.toml"
    config.write_text(format_toml(load_config("tiny", [*files, *SMALL]).to_dict()))
    return config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        config = write_artificial(Path(name), options.documents)
        found = measure(config, Path(name), options.kills, options.seed)
    report = json.dumps({"seed": options.seed, **found}, indent=1)
    print(report)
    if options.out:
        options.out.write_text(report + "\n", encoding="utf-8")
    sys.exit(not found["same"])


if __name__ == "__main__":
    main()
