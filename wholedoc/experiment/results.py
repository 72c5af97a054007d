"""What an experiment leaves on disk: for each run its translations of the test set and figures.

``runs/<name>/test/pass-0.txt``   the sentence model's translations, one line per sentence
``runs/<name>/test/pass-1.txt``   after the first pass over the document, and so on
``runs/<name>/test/shuffled.txt`` the translations that read the memory of another document
``runs/<name>/test/weights.safetensors``  whom each sentence read, document by document
``runs/<name>/test/results.json`` the rest; written last, so that with it all is there
``failed.json``                   the runs that failed, and why
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from wholedoc.config import Config, CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import fingerprint, read_corpus
from wholedoc.experiment.grid import Experiment, Job, SystemName
from wholedoc.files import write_atomically

Request = dict[str, Any]
Digest = Callable[[CorpusFiles], str | None]


class ResultFiles:
    """The files of one run."""

    def __init__(self, run: Path) -> None:
        self.directory = run / "test"
        self.results = self.directory / "results.json"
        self.shuffled = self.directory / "shuffled.txt"
        self.weights = self.directory / "weights.safetensors"

    def translations(self, number: int) -> Path:
        """The translations after a pass."""
        return self.directory / f"pass-{number}.txt"

    def read(self, request: Request) -> dict[str, Any] | None:
        """The results, if they are what is asked for."""
        if not self.results.exists():
            return None
        found: dict[str, Any] = json.loads(self.results.read_text(encoding="utf-8"))
        return found if found["request"] == request else None


def make_request(experiment: Experiment, job: Job, digest: Digest = fingerprint) -> Request:
    """All that the results of a job depend on; what was made from anything else is not its."""
    config = experiment.job_config(job)
    sets = ("train", "dev", "test", "extra")
    return {
        "config": config.to_dict(),
        "passes": experiment.config.passes,
        "shuffled": experiment.config.shuffled,
        **{name: digest(getattr(config.data, name)) for name in sets},
    }


def make_requests(experiment: Experiment) -> dict[Job, Request]:
    """The requests of all jobs; each file is read once."""
    digest = cache(fingerprint)
    return {job: make_request(experiment, job, digest) for job in experiment.jobs()}


@dataclass(frozen=True)
class RunResults:
    """What one run reached."""

    job: Job
    figures: dict[str, Any]
    passes: list[list[str]]
    """The translations of the test set after each pass, those of the sentence model first."""
    shuffled: list[str] | None
    """Those that read the memory of another document."""
    weights: Path
    """Where the weights of its memories lie."""

    @property
    def translations(self) -> list[str]:
        """Those that the tables measure: after as many passes as the configuration says."""
        return self.passes[min(self.figures["table_pass"], len(self.passes) - 1)]

    def document_weights(self, d: int) -> dict[str, Tensor]:
        """Whom each sentence of a document read, by memory: "source", "target"."""
        if not self.weights.exists():
            return {}
        found = load_file(self.weights)
        return {
            side: found[key] for side in ("source", "target") if (key := f"{side}.{d}") in found
        }


@dataclass(frozen=True)
class Results:
    """All that an experiment has reached so far."""

    experiment: Experiment
    config: Config
    """That of the sentence model."""
    documents: list[Document]
    """The test set."""
    runs: dict[Job, RunResults]
    failed: dict[str, str]
    """Why runs failed, by name."""

    @property
    def references(self) -> list[str]:
        """Of all sentences of the test set, in order."""
        return [pair.trg for document in self.documents for pair in document]

    @property
    def sources(self) -> list[str]:
        """All sentences of the test set, in order."""
        return [pair.src for document in self.documents for pair in document]

    @property
    def sizes(self) -> list[int]:
        """Sentences of each document."""
        return [len(document) for document in self.documents]

    def of(self, system: SystemName, larger: bool = False) -> list[RunResults]:
        """The finished runs of a system, in the order of the seeds."""
        seeds = self.experiment.config.seeds
        jobs = [Job(system, seed, larger) for seed in seeds]
        return [self.runs[job] for job in jobs if job in self.runs]


def read_documents(config: Config) -> list[Document]:
    """The test set."""
    return list(read_corpus(config.data.test, config.data.src_language, config.data.trg_language))


def load_results(experiment: Experiment) -> Results:
    """Read what is on disk."""
    runs = {}
    asked = make_requests(experiment)
    for job, request in asked.items():
        files = ResultFiles(experiment.run(job))
        figures = files.read(request)
        if figures is not None:
            passes = [read_lines(files.translations(n)) for n in range(figures["passes"])]
            shuffled = read_lines(files.shuffled) if figures["shuffled"] else None
            runs[job] = RunResults(job, figures, passes, shuffled, files.weights)
    config = experiment.job_config(next(iter(asked)))
    file = experiment.out / "failed.json"
    failed = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return Results(experiment, config, read_documents(config), runs, failed)


def read_lines(path: Path) -> list[str]:
    """The lines of a file; only line feeds end one."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines, all or none."""
    write_atomically(path, "".join(f"{line}\n" for line in lines))
