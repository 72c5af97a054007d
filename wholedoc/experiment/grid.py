"""An experiment: which systems are trained, on what, with which seeds, and in which order."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from wholedoc.config import (
    Config,
    CorpusFiles,
    Interval,
    build,
    find_config,
    load_config,
    read_toml,
)
from wholedoc.errors import UserError
from wholedoc.metrics.significance import MOST_TRIALS
from wholedoc.synthetic import MOST_DOCUMENTS, SPLITS, SynthConfig

SystemName = Literal[
    "s-nmt",
    "src-context",
    "trg-context",
    "both-context",
    "src-output",
    "trg-output",
    "both-output",
    "jean2017",
    "wang2017",
    "prevtrg",
    "more",
    "more-dual",
    "longer",
    "fuzzy",
    "copy",
    "recall",
    "approved",
    "recall-approved",
    "both-context-recall",
    "both-output-recall",
    "recall-other",
    "recall-random",
    "recall-empty",
]
SYSTEMS: tuple[SystemName, ...] = get_args(SystemName)
PAPER_SYSTEMS: tuple[SystemName, ...] = SYSTEMS[:11]
CONTROLS: tuple[SystemName, ...] = ("more", "more-dual")
"""They read nothing: the second has the dropout of systems with both memories."""
RECALL_SYSTEMS: tuple[SystemName, ...] = SYSTEMS[12:]
"""Recall, and what it is compared with."""
BASELINE: SystemName = "s-nmt"
MEMORY_SYSTEMS: tuple[SystemName, ...] = SYSTEMS[1:7]
_DOCUMENTS = {*SYSTEMS[1:12], "both-context-recall", "both-output-recall"}
_LARGER: tuple[SystemName, ...] = SYSTEMS[:7]
_DOCUMENT_BASES: dict[SystemName, SystemName] = {
    "both-context-recall": "both-context",
    "both-output-recall": "both-output",
}
_TRAINED: tuple[SystemName, ...] = ("longer", "fuzzy")  # sentence models of their own
_LONGER = 4  # times as many epochs of stage 1


@dataclass(frozen=True)
class Larger(CorpusFiles):
    """More sentence pairs for stage 1 alone: the larger corpus of the paper's Figure 3."""

    documents: Annotated[int, Interval(0, MOST_DOCUMENTS)] = 0
    """In place of files: so many more documents of the artificial corpus."""


@dataclass(frozen=True)
class RecallOptions:
    """What the systems with recall stand on, and what they are compared with."""

    base: Literal["s-nmt", "longer"] = "s-nmt"
    """The sentence model that recalls."""
    other: CorpusFiles = field(default_factory=CorpusFiles)
    """The memory of ``recall-other``: parallel text of another domain."""


@dataclass(frozen=True)
class ExperimentConfig:
    """What an experiment file says."""

    title: str = ""
    """Heads the report."""
    config: str = "small"
    """What all systems are trained with: a TOML file, or the name of a shipped one."""
    seeds: tuple[Annotated[int, Interval(0, 2**32 - 1)], ...] = (1, 2)
    """Each system is trained once with each."""
    systems: tuple[SystemName, ...] = PAPER_SYSTEMS
    """The sentence model, the memories with either fusion, the baselines, ``more`` training; and
    those with recall, where they are named."""
    shuffled: bool = True
    """A control: the memory systems translate once more, reading another document's memory."""
    passes: Annotated[int, Interval(1, 100)] = 3
    """Updates of each translation up to which the passes curve goes; the tables show those of
    ``search.passes``."""
    trials: Annotated[int, Interval(1, MOST_TRIALS)] = 10_000
    """Of each significance test."""
    set: dict[str, Any] = field(default_factory=dict)
    """Values of the configuration to set for all systems, its corpora too."""
    synth: SynthConfig | None = None
    """Make the artificial corpus and train on it."""
    larger: Larger = field(default_factory=Larger)
    """Train sentence model and memory systems once more, their stage 1 on a larger corpus."""
    recall: RecallOptions = field(default_factory=RecallOptions)
    """Of the systems with recall."""

    @property
    def has_larger(self) -> bool:
        """Whether there is a larger corpus."""
        return bool(self.larger.src or self.larger.documents)

    def base_of(self, system: SystemName) -> SystemName | None:
        """The system whose model another one translates with; None where it has its own."""
        if system not in RECALL_SYSTEMS or system in _TRAINED:
            return None
        return _DOCUMENT_BASES.get(system, self.recall.base)


@dataclass(frozen=True)
class Job:
    """One system trained with one seed, then made to translate the test set."""

    system: SystemName
    seed: int
    larger: bool = False
    """Whether stage 1 is trained on the larger corpus."""
    base: SystemName | None = None
    """The system whose model it translates with, where it trains none itself."""

    @property
    def name(self) -> str:
        """Also that of its run directory, if it has its own."""
        return f"{self.system}{'-larger' if self.larger else ''}-{self.seed}"

    @property
    def trained(self) -> "Job":
        """The job that trains its model: itself, or the one it stands on."""
        return self if self.base is None else Job(self.base, self.seed)

    @property
    def needs(self) -> str:
        """The job that must have succeeded before, if any: the sentence model of the same seed,
        or the one whose model it translates with."""
        if self.base is not None:
            return self.trained.name
        first = self.system in (BASELINE, *_TRAINED)
        return "" if first else Job(BASELINE, self.seed, self.larger).name

    @property
    def parts(self) -> frozenset[str]:
        """The parts it shares with other jobs: made by the first of them, reused by the others."""
        if self.base is not None or self.system in _TRAINED:
            return frozenset({"fuzzy"} & {self.system})
        kind = f"{'larger-' if self.larger else ''}{self.seed}"
        parts = {f"stage1-{kind}"}
        memory = self.system.partition("-")[0]
        if memory in ("src", "both"):
            parts.add(f"stage0-{kind}")
        if memory in ("trg", "both", "prevtrg"):
            parts.add(f"generated-{kind}")
        return frozenset(parts)


@dataclass(frozen=True)
class Experiment:
    """An experiment and the directory that holds all of it."""

    config: ExperimentConfig
    out: Path
    results: Path
    """Where the results of finished runs lie, apart from their models."""

    @property
    def corpus(self) -> Path:
        """Where the artificial corpus is written."""
        return self.out / "corpus"

    @property
    def larger_corpus(self) -> Path:
        """Where the further documents of the artificial corpus are written."""
        return self.out / "larger"

    @property
    def fuzzy_corpus(self) -> Path:
        """Where the corpus with best matches beside its sources is written."""
        return self.out / "fuzzy"

    def run(self, job: Job) -> Path:
        """The run directory of a job: its own, or that of the job whose model it takes."""
        return self.out / "runs" / job.trained.name

    def jobs(self) -> list[Job]:
        """The grid, in the order in which jobs start: the sentence models first."""
        chosen, seeds = self.config.systems, self.config.seeds
        base_of = self.config.base_of
        jobs = [Job(s, seed, base=base_of(s)) for s in chosen for seed in seeds]
        if self.config.has_larger:
            systems = [system for system in chosen if system in _LARGER]
            jobs += [Job(system, seed, True) for system in systems for seed in seeds]
        return sorted(jobs, key=lambda job: (job.larger, job.system != BASELINE, bool(job.needs)))

    def job_config(self, job: Job) -> Config:
        """The whole configuration of a job: what all have in common, and what tells it apart."""
        job = job.trained
        corpora = _settings(self._corpora(job), "data.")
        settings = [*_settings(self.config.set), *corpora, f"seed={job.seed}"]
        bases = {self.config.base_of(system) for system in self.config.systems}
        settings.append(f"tm.fit={json.dumps(job.system in bases and not job.larger)}")
        if job.system in MEMORY_SYSTEMS:
            memory, _, fusion = job.system.partition("-")
            settings += [f"model.memory={memory}", f"model.fusion={fusion}"]
        elif job.system == "longer":
            epochs = load_config(self.config.config, settings).stage1.epochs
            settings.append(f"stage1.epochs={_LONGER * epochs}")
        elif job.system == "more-dual":  # as the systems with both memories are trained
            both = ["model.memory=both", "model.fusion=context"]
            config = load_config(self.config.config, [*settings, *both])
            dropout, _ = config.stage2.dropouts(config.model)
            settings += ["model.context=more", f"stage2.dropout={dropout}"]
        elif job.system not in (BASELINE, "fuzzy"):
            settings.append(f"model.context={job.system}")
        return load_config(self.config.config, settings)

    def _corpora(self, job: Job) -> dict[str, Any]:
        """What a job reads beside the corpora that the configuration names, or in their place."""
        corpora: dict[str, Any] = {}
        more = self.config.larger
        if self.config.synth:
            corpora = {split: _written_files(self.corpus, split) for split in SPLITS}
        if job.larger and more.documents:
            corpora["extra"] = _written_files(self.larger_corpus, "train")
        elif job.larger:
            corpora["extra"] = {"src": more.src, "trg": more.trg, "doc": more.doc}
        if job.system == "fuzzy":  # filtered before its sources became longer
            corpora = {split: _written_files(self.fuzzy_corpus, split) for split in SPLITS}
            corpora |= {"min_sentences": 1, "max_words": 0, "max_ratio": 0.0}
        return corpora


def _written_files(directory: Path, split: str) -> dict[str, str]:
    """One split of a corpus that an experiment has written, as :class:`CorpusFiles` names it."""
    return {side: str(directory / f"{split}.{side}") for side in ("src", "trg", "doc")}


def load_experiment(
    path: str | Path, out: Path | None = None, results: Path | None = None
) -> Experiment:
    """Read an experiment (a file or the name of a shipped one), all of its settings checked."""
    file = find_config(path, experiments=True)
    where = str(file)
    config = build(ExperimentConfig, read_toml(file), where)
    _check_grid(config, where)
    if not config.recall.other.src:  # no other domain, no control of that name
        systems = tuple(system for system in config.systems if system != "recall-other")
        config = replace(config, systems=systems)
    out = out or Path("experiments") / file.stem
    experiment = Experiment(config, out, results or out / "results")
    load_config(config.config)  # at fault itself, it is named itself
    try:
        configs = [experiment.job_config(job) for job in experiment.jobs()]
    except UserError as error:
        raise UserError(error.what, where=f"{where} [set]", fix=error.fix) from error
    for name in SPLITS:
        if not getattr(configs[0].data, name).src:
            raise UserError(
                f"there is no {name} set",
                where=where,
                fix=f"add [set.data.{name}] with src, trg and doc, or [synth]",
            )
    return experiment


def _check_grid(config: ExperimentConfig, where: str) -> None:
    """Refuse what the check of single values cannot see."""
    for name, values in (("seeds", config.seeds), ("systems", config.systems)):
        twice = [value for value in values if values.count(value) > 1]
        if twice:
            raise UserError(f"{name} holds {twice[0]} twice", where=where, fix="name it once")
    for system in config.systems:
        base = config.base_of(system)
        if base not in (None, BASELINE, *config.systems):
            what = f"systems holds {system}, but not {base}, whose model it takes"
            raise UserError(what, where=where, fix=f"add {base}")
    settings = set(_settings(config.set))
    keys = {setting.partition("=")[0] for setting in settings}
    checks = (
        (not config.seeds, "seeds is empty", "write e.g. seeds = [1, 2]"),
        (
            BASELINE not in config.systems,
            f"systems lacks {BASELINE}",
            "add it: every table compares with it, and the others begin with its weights",
        ),
        (
            bool(keys & {"seed", "model.memory", "model.fusion", "model.context", "tm.fit"}),
            "[set] holds what tells the systems apart",
            "choose with seeds = [...] and systems = [...]",
        ),
        (
            "search.shuffle_memory" in keys,
            "[set] holds search.shuffle_memory",
            "write shuffled = true: the memory systems then translate once more",
        ),
        (
            "search.passes=0" in settings and set(config.systems) & _DOCUMENTS,
            "with search.passes = 0 every system is the sentence model",
            "set it to at least 1, or leave it out",
        ),
        (
            config.larger.documents and not config.synth,
            "larger.documents needs the artificial corpus",
            "name files with larger.src and larger.trg, or add [synth]",
        ),
        (
            config.larger.documents and config.larger.src,
            "larger.documents does not go with larger.src",
            "give one of them",
        ),
    )
    for wrong, what, fix in checks:
        if wrong:
            raise UserError(what, where=where, fix=fix)


def _settings(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Nested values as ``section.key=value``."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _settings(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={json.dumps(value, ensure_ascii=False, default=str)}"
