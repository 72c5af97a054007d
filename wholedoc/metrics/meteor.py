"""METEOR 1.5 by its authors' own program, a jar: run, read and understood.

The jar is that of the Python package pycocoevalcap (``pip install 'wholedoc[meteor]'``), or the
one that the environment variable ``WHOLEDOC_METEOR_JAR`` names. It needs Java.
"""

import gzip
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess

JAR_VARIABLE = "WHOLEDOC_METEOR_JAR"
STATISTICS = 23  # words, function words, four modules, chunks, matched words; see Meteor
_MEMORY = "-Xmx2G"  # what its own manual says
_ID = re.compile(
    r"^Eval ID:\s+(?P<id>meteor-\S+?-(?P<parameters>[\d._]+)-[a-z_]+-(?P<weights>[\d._]+))\s*$",
    re.MULTILINE,
)
_FAULT = re.compile(r"^(?:Exception in thread \S+ )?(?:[\w.]+(?:Exception|Error): )?(.+)$")


class UnavailableError(Exception):
    """Why a metric cannot be computed here, in words that go under its empty column."""


@dataclass(frozen=True, slots=True)
class MeteorParameters:
    """What the score is computed with, as the jar has it for a language."""

    signature: str
    """The jar's own: version, language, normalisation, parameters, modules, weights."""
    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, ...]
    """Of the modules, such as exact match, stem, synonym and paraphrase."""

    @classmethod
    def parse(cls, text: str) -> "MeteorParameters | None":
        """Read the parameters from what the jar prints before its scores."""
        found = _ID.search(text)
        if not found:
            return None
        alpha, beta, gamma, delta = map(float, found["parameters"].split("_"))
        weights = tuple(map(float, found["weights"].split("_")))
        return cls(found["id"], alpha, beta, gamma, delta, weights)


class MeteorJar:
    """The program, ready for one target language; raises :class:`UnavailableError` if it is not."""

    def __init__(self, lang: str) -> None:
        self._lang = lang
        self._java = shutil.which("java")
        if self._java is None:
            raise UnavailableError("METEOR needs Java, and there is no command 'java'")
        self._jar = _find_jar()
        self.parameters = self._ask_parameters()

    def _ask_parameters(self) -> MeteorParameters:
        """What this jar computes the score with; asked of the jar, not written down here."""
        with tempfile.TemporaryDirectory() as folder:
            # Without a line to score it fails in the end, but says first what it would do. The
            # empty table of paraphrases spares it reading a large one for that.
            nothing, table = Path(folder) / "nothing", Path(folder) / "paraphrases.gz"
            nothing.touch()
            table.write_bytes(gzip.compress(b""))
            done = self._run(nothing, nothing, "-a", str(table))
        found = MeteorParameters.parse(done.stdout)
        if found is None:
            raise UnavailableError(_reason(done.stderr))
        return found

    def count(self, outputs: Sequence[str], references: Sequence[str]) -> list[list[float]]:
        """The statistics of each line, whose sums :class:`~.scores.Meteor` scores."""
        with tempfile.TemporaryDirectory() as folder:
            output, reference = Path(folder) / "output", Path(folder) / "reference"
            for file, lines in ((output, outputs), (reference, references)):
                # To Java a carriage return ends a line too, and would shift those after it.
                text = "".join(line.replace("\r", " ") + "\n" for line in lines)
                file.write_text(text, encoding="utf-8", newline="\n")
            done = self._run(output, reference, "-ssOut")
        try:
            rows = [[float(value) for value in line.split()] for line in done.stdout.splitlines()]
        except ValueError:  # not the program it is taken for
            rows = []
        if done.returncode or [len(row) for row in rows] != [STATISTICS] * len(outputs):
            raise UnavailableError(_reason(done.stderr))
        return rows

    def command(self, output: Path, reference: Path, *options: str) -> list[str]:
        """What runs the jar on two files."""
        java = [str(self._java), _MEMORY, "-Dfile.encoding=UTF-8", "-jar", str(self._jar)]
        return [*java, str(output), str(reference), "-l", self._lang, "-norm", *options]

    def _run(self, output: Path, reference: Path, *options: str) -> CompletedProcess[str]:
        command = self.command(output, reference, *options)
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def _find_jar() -> Path:
    named = os.environ.get(JAR_VARIABLE)
    if named:
        jar = Path(named)
    else:
        package = find_spec("pycocoevalcap")
        if package is None or not package.submodule_search_locations:
            raise UnavailableError(
                "the METEOR jar is not there: pip install 'wholedoc[meteor]', "
                f"or name a jar in {JAR_VARIABLE}"
            )
        jar = Path(package.submodule_search_locations[0]) / "meteor" / "meteor-1.5.jar"
    if not jar.is_file():
        raise UnavailableError(f"no METEOR jar at {jar}")
    return jar


def _reason(errors: str) -> str:
    """The fault that the jar names, without Java's words around it."""
    lines = [line for line in errors.splitlines() if line.strip() and not line.startswith("\t")]
    fault = _FAULT.match(lines[-1]) if lines else None
    return f"METEOR failed: {fault[1] if fault else 'it does not print what METEOR 1.5 prints'}"
