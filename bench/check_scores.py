"""Whether ``wholedoc evaluate`` prints what ``sacrebleu`` and the METEOR jar print, on any files.

``check_scores.py --ref REF --sys FILE …`` runs the three commands on each output and puts their
numbers side by side, to as many digits as sacrebleu is asked for. It ends with an error if one
differs.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from wholedoc.metrics.meteor import MeteorJar, UnavailableError

DIGITS = 8


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, check=True, encoding="utf-8")
    return done.stdout


def ours(options: argparse.Namespace) -> dict[str, Any]:
    systems = [word for file in options.sys for word in ("--sys", f"{file.name}={file}")]
    command = (sys.executable, "-m", "wholedoc", "evaluate", "--json", "--trials", "1")
    printed = run(*command, "--ref", options.ref, "--lang", options.lang, *systems)
    return {system["name"]: system["scores"] for system in json.loads(printed)["systems"]}


def theirs(output: Path, options: argparse.Namespace) -> dict[str, float]:
    command = (sys.executable, "-m", "sacrebleu", options.ref, "-i", output, "-f", "json")
    scores = json.loads(run(*command, "-m", "bleu", "chrf", "ter", "-w", str(DIGITS)))
    found = dict(zip(("bleu", "chrf", "ter"), (score["score"] for score in scores), strict=True))
    try:
        jar = MeteorJar(options.lang)
        text = run(*jar.command(output, options.ref))
        found["meteor"] = float(re.findall(r"Final score: +(\S+)", text)[0])
    except (UnavailableError, subprocess.CalledProcessError) as error:
        print(f"no METEOR: {error}", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ref", type=Path, required=True)
    parser.add_argument("--sys", type=Path, nargs="+", required=True)
    parser.add_argument("--lang", default="en")
    options = parser.parse_args()
    scores = ours(options)
    differ = False
    for output in options.sys:
        for metric, value in theirs(output, options).items():
            found = scores[output.name][metric]
            if found is None:
                found = float("nan")  # equal to nothing
            equal = round(found, DIGITS) == round(value, DIGITS)
            differ |= not equal
            print(f"{output.name:24} {metric:8} {value:14.{DIGITS}f} {found:14.{DIGITS}f} {equal}")
    sys.exit(differ)


if __name__ == "__main__":
    main()
