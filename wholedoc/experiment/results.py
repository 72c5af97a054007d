"""What an experiment leaves on disk.

``results/<name>/pass-0.txt.gz``   the sentence model's translations, one line per sentence
``results/<name>/pass-1.txt.gz``   after the first pass over the document, and so on
``results/<name>/shuffled.txt.gz`` the translations that read the memory of another document
``results/<name>/results.json``    the figures of the run; written last, when all else is there
``runs/<name>/weights-<system>.safetensors``  attention weights over sentences, by document
``failed.json``                    the runs that failed, and why

A report needs ``results`` alone; without the weights its examples have no maps.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Self

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from wholedoc.config import Config, CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import fingerprint, read_corpus
from wholedoc.errors import UserError
from wholedoc.experiment.grid import BASELINE, Experiment, Job, SystemName
from wholedoc.files import write_atomically
from wholedoc.metrics.context_use import ContextUse
from wholedoc.store.run import current_versions

Request = dict[str, Any]
"""All that the results of a job depend on, as JSON."""


@dataclass(frozen=True)
class EpochFigures:
    """One epoch of training, from the log of the run."""

    stage: str
    epoch: int
    dev_perplexity: float
    seconds: float
    """Since the stage began."""
    words: int

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read a line of a log, or what :meth:`RunFigures.to_json` wrote."""
        return cls(**{field.name: values[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class RunFigures:
    """The figures of a run, stored in its ``results.json``."""

    parameters: int
    src_vocabulary: int
    trg_vocabulary: int
    passes: int
    """How many files of translations there are, the first pass included."""
    table_pass: int
    """The pass that the tables show."""
    shuffled: bool
    """Whether there are translations that read the memory of another document."""
    translation_seconds: float
    words_per_second: float
    context_use: ContextUse | None
    """Of the whole test set, without its documents; None where no document is read."""
    request: Request
    epochs: tuple[EpochFigures, ...]
    peak_rss_mb: float
    perplexity: float | None = None
    """Of the references of the test set, by what the system may know; None for what has no model,
    or was translated before this was measured."""
    kernels: str = ""
    """What computed them; runs of an experiment may come from several machines."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_json` wrote."""
        use = values["context_use"] and ContextUse.from_json(values["context_use"])
        epochs = tuple(map(EpochFigures.from_json, values["epochs"]))
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        return cls(**{**known, "context_use": use, "epochs": epochs})

    def to_json(self) -> dict[str, Any]:
        """Plain values by name."""
        use = self.context_use and self.context_use.to_json()
        return {**vars(self), "context_use": use, "epochs": [vars(epoch) for epoch in self.epochs]}

    def stage_epochs(self, stage: str) -> list[EpochFigures]:
        """The epochs of one stage; one that was ended twice, around a kill, as it ended last."""
        return list({epoch.epoch: epoch for epoch in self.epochs if epoch.stage == stage}.values())


class ResultFiles:
    """The files of one job."""

    def __init__(self, experiment: Experiment, job: Job) -> None:
        self.directory = experiment.results / job.name
        self.results = self.directory / "results.json"
        self.shuffled = self.directory / "shuffled.txt.gz"
        self.weights = experiment.run(job) / f"weights-{job.system}.safetensors"

    def translations(self, number: int) -> Path:
        """The translations after a pass."""
        return self.directory / f"pass-{number}.txt.gz"

    def read(self, request: Request) -> RunFigures | None:
        """The figures, if they are what is asked for and their translations are there."""
        if not self.results.exists():
            return None
        try:
            found: dict[str, Any] = json.loads(self.results.read_text(encoding="utf-8"))
            if found["request"] != request:
                return None
            figures = RunFigures.from_json(found)
        except (ValueError, LookupError, TypeError) as error:
            raise _damaged(self.results) from error
        asked = [self.translations(n) for n in range(figures.passes)]
        asked += [self.shuffled] if figures.shuffled else []
        return figures if all(path.exists() for path in asked) else None

    def write(
        self,
        figures: RunFigures,
        passes: Sequence[Sequence[str]],
        shuffled: Sequence[str] | None = None,
    ) -> None:
        """Write all that a run has reached. A kill leaves no figures beside other translations."""
        self.results.unlink(missing_ok=True)
        for number, lines in enumerate(passes):
            write_lines(self.translations(number), lines)
        if shuffled is not None:
            write_lines(self.shuffled, shuffled)
        write_atomically(self.results, json.dumps(figures.to_json(), indent=1) + "\n")

    def write_weights(self, weights: dict[str, Tensor], lines: Sequence[str]) -> None:
        """Write which sentences each sentence read for the translations ``lines``."""
        write_atomically(self.weights, save(weights, {"translations": _digest(lines)}))


def make_requests(experiment: Experiment) -> dict[Job, Request]:
    """All that the results of each job depend on; results of another request are not reused.

    Digests stand for the files, wherever they lie; for those of ``fuzzy``, what they are made from.
    """
    digest = cache(fingerprint)  # each file is read once
    requests = {}
    for job in experiment.jobs():
        values = experiment.job_config(job).to_dict()
        given = Job(BASELINE, job.seed) if job.system == "fuzzy" else job
        data = vars(experiment.job_config(given).data)
        sets = {name: files for name, files in data.items() if isinstance(files, CorpusFiles)}
        values["data"] = {name: value for name, value in data.items() if name not in sets}
        requests[job] = {
            "config": values,
            "passes": experiment.config.passes,
            "shuffled": experiment.config.shuffled,
            **{name: digest(files) for name, files in sets.items()},
        }
        if init := current_versions(experiment.job_config(job)).get("init"):
            requests[job]["init"] = init
        if job.base is not None:
            requests[job]["recall"] = job.system
        if job.system == "recall-other":
            requests[job]["other"] = digest(experiment.config.recall.other)
    return requests


@dataclass(frozen=True)
class RunResults:
    """What one run reached."""

    job: Job
    figures: RunFigures
    passes: list[list[str]]
    """The translations of the test set after each pass, those of the sentence model first."""
    shuffled: list[str] | None
    """Those that read the memory of another document."""
    weights: Path
    """Where the attention weights over its memories lie."""

    @property
    def translations(self) -> list[str]:
        """Those that the tables measure: after as many passes as the configuration says."""
        return self.passes[min(self.figures.table_pass, len(self.passes) - 1)]

    def document_weights(self, d: int) -> dict[str, Tensor]:
        """Which sentences each sentence of a document read, by memory: "source", "target"."""
        if not self.weights.exists():
            return {}
        with safe_open(self.weights, "pt") as file:
            if (file.metadata() or {}).get("translations") != _digest(self.translations):
                return {}  # those of other translations
            keys = {side: f"{side}.{d}" for side in ("source", "target")}
            names = set(file.keys())
            return {side: file.get_tensor(key) for side, key in keys.items() if key in names}


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
        """Of all sentences of the test set, in order; in lower case where the models' words are."""
        found = [pair.trg for document in self.documents for pair in document]
        return [text.lower() for text in found] if self.lower_cased else found

    @property
    def lower_cased(self) -> bool:
        """Whether the models know no capital letters."""
        return has_lower_case(self.config)

    @property
    def sources(self) -> list[str]:
        """All sentences of the test set, in order."""
        return [pair.src for document in self.documents for pair in document]

    @property
    def sizes(self) -> list[int]:
        """Sentences of each document."""
        return [len(document) for document in self.documents]

    def of(self, system: SystemName) -> list[RunResults]:
        """The finished runs of a system, in the order of the seeds."""
        return [run for job, run in self.runs.items() if job.system == system and not job.larger]


def has_lower_case(config: Config) -> bool:
    """Whether models know no capital letters."""
    return config.vocabulary.kind == "word"


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest()[:16]


def read_documents(config: Config) -> list[Document]:
    """The test set."""
    return list(read_corpus(config.data.test, config.data.src_language, config.data.trg_language))


def load_results(experiment: Experiment) -> Results:
    """Read what is on disk."""
    runs = {}
    asked = make_requests(experiment)
    config = experiment.job_config(next(iter(asked)))

    def read(path: Path) -> list[str]:
        lines = read_lines(path)  # what was copied from people has their capital letters
        return [line.lower() for line in lines] if has_lower_case(config) else lines

    for job, request in asked.items():
        files = ResultFiles(experiment, job)
        figures = files.read(request)
        if figures is not None:
            passes = [read(files.translations(n)) for n in range(figures.passes)]
            shuffled = read(files.shuffled) if figures.shuffled else None
            runs[job] = RunResults(job, figures, passes, shuffled, files.weights)
    file = experiment.out / "failed.json"
    failed = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return Results(experiment, config, read_documents(config), runs, failed)


def read_lines(path: Path) -> list[str]:
    """The lines of a file, plain or gzip by its name; only line feeds end one."""
    data = path.read_bytes()
    try:
        plain = gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(path) from error
    return plain.decode("utf-8").removesuffix("\n").split("\n")


def _damaged(path: Path) -> UserError:
    fix = "restore it from a copy, or remove its folder: the run is then done again"
    return UserError("damaged, or not written by an experiment", where=str(path), fix=fix)


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Write lines, all or none; the same lines always make the same file."""
    plain = "".join(f"{line}\n" for line in lines).encode("utf-8")
    write_atomically(path, gzip.compress(plain, mtime=0) if path.suffix == ".gz" else plain)
