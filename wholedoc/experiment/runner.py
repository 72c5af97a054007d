"""Run an experiment: train a grid of systems, and translate the test set with each.

Jobs run some at a time, each in a process of its own. Everything is kept on disk as soon as it is
there, so that the same command goes on after a kill.
"""

import fcntl
import json
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from wholedoc.decoding.results import TranslatedDocument, perplexity
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.experiment.grid import CONTROLS, MEMORY_SYSTEMS, Experiment, Job
from wholedoc.experiment.recalling import (
    best_matches,
    memory_path,
    open_knowledge,
    write_fuzzy,
    write_memories,
)
from wholedoc.experiment.results import (
    EpochFigures,
    Request,
    ResultFiles,
    RunFigures,
    make_requests,
    read_documents,
    read_lines,
    write_lines,
)
from wholedoc.files import write_atomically
from wholedoc.kernels import describe, keep_freed_memory
from wholedoc.metrics.context_use import score_context_use
from wholedoc.progress import say
from wholedoc.store.checkpoint import read_position
from wholedoc.store.run import Run, current_versions
from wholedoc.synthetic import SynthConfig, write_synth
from wholedoc.tm.memory import TranslationMemory
from wholedoc.training.data import check_data_unchanged
from wholedoc.training.loop import Stopped, peak_rss_mb, read_log
from wholedoc.training.stages import train

_NOTHING = Knowledge(protect=False)  # systems are measured as they are
_LOCK_ATTEMPTS = 300  # of a tenth of a second


def run_experiment(experiment: Experiment, limit: int) -> dict[str, str]:
    """Do all jobs that are not done, ``limit`` at once; returns those that failed, and why."""
    experiment.out.mkdir(parents=True, exist_ok=True)
    experiment.results.mkdir(parents=True, exist_ok=True)
    with (experiment.out / "lock").open("w") as lock, ExitStack() as stack:
        # SIGTERM acts like an interrupt from the keyboard: jobs are stopped first.
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        stack.callback(signal.signal, signal.SIGTERM, before)
        _take(lock.fileno(), experiment.out)
        results = os.open(experiment.results, os.O_RDONLY)  # they may be kept for several machines
        stack.callback(os.close, results)
        _take(results, experiment.results)
        _write_corpora(experiment)
        write_memories(experiment)
        requests = make_requests(experiment)
        todo = _unfinished(experiment, requests)
        done = [job for job in requests if job not in todo]
        say(f"{len(done)} runs are done, {len(todo)} to do, {limit} at a time")
        pool = ProcessPool(partial(run_job, experiment), experiment.out / "logs")
        # What a run made is there only where its model is: results may come from elsewhere.
        made = {p for job in done if job.parts and _is_trained(experiment, job) for p in job.parts}
        failed = run_jobs(todo, pool, limit, made)
        write_atomically(experiment.out / "failed.json", json.dumps(failed, indent=2) + "\n")
    return failed


def _unfinished(experiment: Experiment, requests: Mapping[Job, Request]) -> list[Job]:
    """The jobs without results, and what they need.

    Where one needs the model of another that is gone, or not the one that is asked for, that one is
    done again, with all that translate with it: their results are those of one model.
    """
    without = {job for job in requests if not ResultFiles(experiment, job).read(requests[job])}
    needed = {job.trained for job in without if _reads_model(job)}
    gone = {model for model in needed if not _is_trained(experiment, model)}
    return [
        job for job in requests if job in without or (_reads_model(job) and job.trained in gone)
    ]


def _reads_model(job: Job) -> bool:
    return job.system != "copy"


def _is_trained(experiment: Experiment, job: Job) -> bool:
    """Whether the model that a job translates with is there, trained to its end as is asked."""
    config, run = experiment.job_config(job), Run(experiment.run(job))
    last = run.stage("stage2" if config.model.reads_document else "stage1")
    try:
        ended = read_position(last.checkpoint).finished
        run.check_config(config)
        check_data_unchanged(config, run)
        same_start = current_versions(config).get("init") == run.load_versions().get("init")
    except UserError:  # there is none, it is damaged, or another one
        return False
    return ended and same_start and (run.recall_file.exists() or not config.tm.fit)


def run_jobs(
    jobs: Iterable[Job], pool: "ProcessPool", limit: int, made: Iterable[str] = ()
) -> dict[str, str]:
    """Run jobs, at most ``limit`` at once; returns those that failed or were skipped, and why.

    A part that jobs share (a stage, a corpus of generated translations) is made by the first job
    that uses it; the others wait until it is there. Where the first one fails, the next one makes
    it. ``made`` are the parts that earlier jobs have left.
    """
    waiting = list(jobs)
    names = [job.name for job in waiting]
    running: dict[str, Job] = {}
    failed: dict[str, str] = {}
    ready = set(made)
    try:
        while waiting or running:
            for job in list(waiting):
                unfinished = {*running, *(other.name for other in waiting)}
                making = {part for other in running.values() for part in other.parts} - ready
                startable = job.needs not in unfinished and not job.parts & making
                if job.needs in failed:
                    failed[job.name] = f"skipped, as {job.needs} failed"
                    waiting.remove(job)
                    say(f"{job.name}: {failed[job.name]}")
                elif startable and len(running) < limit:
                    waiting.remove(job)
                    running[job.name] = job
                    say(f"{job.name}: started ({names.index(job.name) + 1} of {len(names)})")
                    pool.start(job.name)
            for name, error in pool.wait().items() if running else ():
                job = running.pop(name)
                if error:
                    failed[name] = error
                else:
                    ready |= job.parts
                say(f"{name}: {f'failed: {error}' if error else 'done'}")
    except BaseException:
        pool.stop()
        raise
    return failed


class ProcessPool:
    """Each job a process with one thread, its messages in a file.

    The processes are forked from one that has imported this module already: that takes longer than
    a small job. They stop, with all saved, when this process ends, however it does.
    """

    def __init__(self, target: Callable[[str], None], logs: Path) -> None:
        self.target = target
        self.logs = logs
        self.running: dict[str, ForkServerProcess] = {}
        self.context = multiprocessing.get_context("forkserver")
        # Making an optimiser imports the latter, which takes even longer than torch itself.
        self.context.set_forkserver_preload([__name__, "torch._dynamo"])

    def start(self, name: str) -> None:
        """Begin a job: ``target(name)`` in a process of its own."""
        self.logs.mkdir(parents=True, exist_ok=True)
        process = self.context.Process(target=_work, args=(self.target, name, self._log(name)))
        process.start()
        self.running[name] = process

    def wait(self) -> dict[str, str]:
        """Wait until a job ends: why each that has ended failed, empty where it did not."""
        wait([process.sentinel for process in self.running.values()])
        ended = {name: p for name, p in self.running.items() if not p.is_alive()}
        for name in ended:
            del self.running[name]
        return {name: self._reason(name, process) for name, process in ended.items()}

    def stop(self) -> None:
        """Ask all jobs to stop and wait until they have saved where they are."""
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.join()
        self.running.clear()

    def _log(self, name: str) -> Path:
        return self.logs / f"{name}.txt"

    def _reason(self, name: str, process: ForkServerProcess) -> str:
        """Why a job failed: a signal, or its last message."""
        if process.exitcode == 0:
            return ""
        if process.exitcode is not None and process.exitcode < 0:
            return f"killed by {signal.Signals(-process.exitcode).name}; see {self._log(name)}"
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"ended with code {process.exitcode}"


def _work(target: Callable[[str], None], name: str, log: Path) -> None:
    """The life of a job's process."""
    stream = log.open("w", encoding="utf-8")
    for number in (1, 2):
        os.dup2(stream.fileno(), number)
    threading.Thread(target=_follow_parent, daemon=True).start()
    torch.set_num_threads(1)  # so many jobs as cores use them best
    keep_freed_memory()
    try:
        target(name)
    except UserError as error:
        say(str(error))
        sys.exit(2)
    except Stopped:
        say("stopped and saved")
        sys.exit(1)


def _follow_parent() -> None:
    """End this process in good order once the one that started it is gone."""
    parent: Any = multiprocessing.parent_process()
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _take(lock: int, out: Path) -> None:
    """Keep a second experiment out, and wait for jobs that one which was killed has left.

    This process and its jobs hold the lock together, as readers do; a newcomer wants it alone.
    """
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(lock, fcntl.LOCK_SH)
            return
        except BlockingIOError:
            if attempt == 0:
                say(f"waiting for an earlier process to leave {out}")
            time.sleep(0.1)
        except OSError:  # a folder on some network disks knows no locks
            return
    fix = "wait for it, or choose another place with --out or --results"
    raise UserError("another process runs this experiment", where=str(out), fix=fix)


def _write_corpora(experiment: Experiment) -> None:
    """The artificial corpus, and what the larger one has more."""
    synth, more = experiment.config.synth, experiment.config.larger.documents
    if synth is None:
        return
    if not _is_written(experiment.corpus, synth):
        write_synth(experiment.corpus, synth)
    longer = replace(synth, train=synth.train + more)
    if more and not _is_written(experiment.larger_corpus, longer):
        # The documents of a larger corpus begin with those of a smaller one.
        unfinished = experiment.out / "larger.part"
        write_synth(unfinished, longer, force=True)
        first = len(read_lines(experiment.corpus / "train.src"))
        for side in ("src", "trg", "doc"):
            file = unfinished / f"train.{side}"
            write_lines(file, read_lines(file)[first:])
        unfinished.rename(experiment.larger_corpus)


def _is_written(corpus: Path, synth: SynthConfig) -> bool:
    """Whether an artificial corpus is there, whole; refuses one of other settings."""
    if not (corpus / "test.key.jsonl").exists():
        return False
    summary = json.loads((corpus / "summary.json").read_text(encoding="utf-8"))
    if summary["config"] != asdict(synth):
        fix = "choose another place with --out, or set the old values"
        raise UserError("holds the corpus of other settings", where=str(corpus), fix=fix)
    return True


def run_job(experiment: Experiment, name: str) -> None:
    """Train a system and translate the test set with it; run again, it goes on."""
    with (experiment.out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        requests = make_requests(experiment)  # before the files can change
        job = next(job for job in requests if job.name == name)
        if job.system == "fuzzy":
            write_fuzzy(experiment)
        if job.base is None:
            train(experiment.job_config(job), experiment.run(job))
        say("translating the test set")
        work = _copy if job.system == "copy" else _translate
        work(experiment, job, requests[job])


def _translate(experiment: Experiment, job: Job, request: Request) -> None:
    """Write all translations, weights and figures of a system."""
    config, files = experiment.job_config(job), ResultFiles(experiment, job)
    translator = Translator.load(experiment.run(job), own_memory=False)
    documents = read_documents(config)
    sources = [[pair.src for pair in document] for document in documents]
    references = [[pair.trg for pair in document] for document in documents]
    with open_knowledge(experiment, job, documents) as known:
        begun = time.monotonic()
        found = translator.translate_documents(sources, config.search, known=known)
        seconds = time.monotonic() - begun
        scored = translator.score_documents(sources, references, "generated", known=known)
    passes = _passes(found, 1 + config.search.passes if translator.reads_documents else 1)
    if weights := _weights(found):
        files.write_weights(weights, passes[-1])
    shuffled, use = None, None
    if job.base is None:
        passes += _further_passes(experiment, translator, sources)[len(passes) :]
        if translator.reads_documents and job.system not in CONTROLS:
            use = replace(score_context_use(translator, documents, "generated"), documents=())
        if job.system in MEMORY_SYSTEMS and experiment.config.shuffled and len(documents) > 1:
            search = replace(config.search, shuffle_memory=True)
            other = translator.translate_documents(sources, search, known=_NOTHING)
            shuffled = _passes(other, 1 + config.search.passes)[-1]
    figures = _figures(experiment, job, request, passes, seconds)
    figures = replace(
        figures,
        parameters=sum(p.numel() for p in translator.system.model.parameters() if p.requires_grad),
        src_vocabulary=len(translator.src_vocabulary),
        trg_vocabulary=len(translator.trg_vocabulary),
        shuffled=shuffled is not None,
        context_use=use,
        peak_rss_mb=peak_rss_mb(),
        perplexity=perplexity(
            math.fsum(document.log_probability for document in scored),
            sum(sum(document.words) for document in scored),
        ),
    )
    files.write(figures, passes, shuffled)


def _further_passes(
    experiment: Experiment, translator: Translator, sources: Sequence[Sequence[str]]
) -> list[list[str]]:
    """All passes up to those of the passes curve, where the configuration has fewer."""
    config, most = translator.config, experiment.config.passes
    if not config.model.reads_translations or most <= config.search.passes:
        return []
    more = replace(config.search, passes=most)
    return _passes(translator.translate_documents(sources, more, known=_NOTHING), 1 + most)


def _copy(experiment: Experiment, job: Job, request: Request) -> None:
    """Write the target of the best match for each sentence; an empty line where there is none."""
    begun = time.monotonic()
    with TranslationMemory.open(memory_path(experiment, "train")) as memory:
        matches = best_matches(memory, read_documents(experiment.job_config(job)))
    seconds = time.monotonic() - begun
    lines = [" ".join(match.entry.trg.split()) if match else "" for match in matches]
    files = ResultFiles(experiment, job)
    files.write(_figures(experiment, job, request, [lines], seconds), [lines])


def _figures(
    experiment: Experiment,
    job: Job,
    request: Request,
    passes: Sequence[Sequence[str]],
    seconds: float,
) -> RunFigures:
    """Those figures of a job that do not depend on its model."""
    epochs = [line for line in read_log(experiment.run(job)) if line["event"] == "epoch"]
    return RunFigures(
        parameters=0,
        src_vocabulary=0,
        trg_vocabulary=0,
        passes=len(passes),
        table_pass=experiment.job_config(job).search.passes,
        shuffled=False,
        translation_seconds=seconds,
        words_per_second=sum(len(line.split()) for line in passes[0]) / max(seconds, 1e-9),
        context_use=None,
        request=request,
        epochs=tuple(map(EpochFigures.from_json, epochs)) if job.base is None else (),
        peak_rss_mb=peak_rss_mb(),
        kernels=describe(mixed=True),
    )


def _passes(documents: Sequence[TranslatedDocument], count: int) -> list[list[str]]:
    """All lines after each pass; a document that has settled stays as it is."""
    return [
        [line for d in documents for line in d.history[min(number, len(d.history) - 1)]]
        for number in range(count)
    ]


def _weights(documents: Sequence[TranslatedDocument]) -> dict[str, Tensor]:
    """Which sentences each sentence read, by memory and document."""
    weights = {}
    for n, d in enumerate(documents):
        for side, matrix in (("source", d.source_weights), ("target", d.target_weights)):
            if matrix is not None:
                weights[f"{side}.{n}"] = matrix.contiguous()
    return weights
