"""Experiments: train a grid of systems, translate the test set with each, write the report.

Everything is kept on disk as soon as it is there, so that the same command goes on after a kill,
and only writes the report again when all is trained.
"""

import fcntl
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from safetensors.torch import save

from wholedoc.config import Config
from wholedoc.decoding.translator import TranslatedDocument, Translator
from wholedoc.errors import UserError
from wholedoc.experiment.grid import MEMORY_SYSTEMS, Experiment, Job
from wholedoc.experiment.results import (
    ResultFiles,
    make_request,
    make_requests,
    read_documents,
    read_lines,
    write_lines,
)
from wholedoc.experiment.schedule import ProcessPool, run_jobs
from wholedoc.files import write_atomically
from wholedoc.metrics.scored import score_context_use
from wholedoc.progress import say
from wholedoc.synthetic import write_synth
from wholedoc.training.log import read_log
from wholedoc.training.loop import peak_rss_mb
from wholedoc.training.stages import train

_LOCK_SECONDS = 30.0


def run_experiment(experiment: Experiment, limit: int) -> dict[str, str]:
    """Do all jobs that are not done, ``limit`` at once; gives those that failed, and why."""
    experiment.out.mkdir(parents=True, exist_ok=True)
    with (experiment.out / "lock").open("w") as lock, _terminable():
        _take(lock, experiment.out)
        _write_corpora(experiment)
        done: list[Job] = []
        todo: list[Job] = []
        for job, request in make_requests(experiment).items():
            finished = ResultFiles(experiment.run(job)).read(request) is not None
            (done if finished else todo).append(job)
        say(f"{len(done)} runs are done, {len(todo)} to do, {limit} at a time")
        pool = ProcessPool(partial(run_job, experiment), __name__, experiment.out / "logs")
        made = {part for job in done for part in job.parts}
        failed = run_jobs(todo, pool, limit, made)
        write_atomically(experiment.out / "failed.json", json.dumps(failed, indent=2) + "\n")
    return failed


@contextmanager
def _terminable() -> Iterator[None]:
    """Let a request to end act like an interrupt from the keyboard: jobs are stopped first."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _take(lock: TextIO, out: Path) -> None:
    """Keep a second experiment out, and wait for jobs that one which was killed has left.

    This process and its jobs hold the lock together, as readers do; a newcomer wants it alone.
    """
    end = time.monotonic() + _LOCK_SECONDS
    told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > end:
                raise UserError(
                    "another process runs this experiment",
                    where=str(out),
                    fix="wait for it, or choose another place with --out",
                ) from error
            if not told:
                say(f"waiting for an earlier process to leave {out}")
            told = True
            time.sleep(0.1)
        else:
            fcntl.flock(lock, fcntl.LOCK_SH)
            return


def _write_corpora(experiment: Experiment) -> None:
    """The artificial corpus, and what the larger one has more."""
    synth, more = experiment.config.synth, experiment.config.larger.documents
    if synth is None:
        return
    if not (experiment.corpus / "test.key.jsonl").exists():
        write_synth(experiment.corpus, synth)
    if more and not experiment.larger_corpus.exists():
        # The documents of a larger corpus begin with those of a smaller one.
        unfinished = experiment.out / "larger.part"
        write_synth(unfinished, replace(synth, train=synth.train + more))
        first = len(read_lines(experiment.corpus / "train.src"))
        for side in ("src", "trg", "doc"):
            file = unfinished / f"train.{side}"
            write_lines(file, read_lines(file)[first:])
        unfinished.rename(experiment.larger_corpus)


def run_job(experiment: Experiment, name: str) -> None:
    """Train a system and translate the test set with it; run again, it goes on."""
    job = next(job for job in experiment.jobs() if job.name == name)
    with (experiment.out / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        config = experiment.job_config(job)
        run = train(config, experiment.run(job))
        say("translating the test set")
        figures = _translate(experiment, job, config)
        epochs = [line for line in read_log(run.directory) if line["event"] == "epoch"]
        request = make_request(experiment, job)
        figures |= {"request": request, "epochs": epochs, "peak_rss_mb": peak_rss_mb()}
        results = ResultFiles(run.directory).results
        write_atomically(results, json.dumps(figures, indent=1) + "\n")


def _translate(experiment: Experiment, job: Job, config: Config) -> dict[str, Any]:
    """Write all translations and weights of a system; gives what is to be told of them."""
    files = ResultFiles(experiment.run(job))
    files.directory.mkdir(exist_ok=True)
    translator = Translator.load(experiment.run(job))
    documents = read_documents(config)
    sources = [[pair.src for pair in document] for document in documents]
    begun = time.monotonic()
    found = translator.translate_documents(sources, config.search)
    seconds = time.monotonic() - begun
    passes = _passes(found, 1 + config.search.passes if translator.reads_documents else 1)
    _write_weights(files.weights, found)
    if config.model.reads_translations and experiment.config.passes > config.search.passes:
        more = replace(config.search, passes=experiment.config.passes)
        further = _passes(translator.translate_documents(sources, more), 1 + more.passes)
        passes += further[len(passes) :]
    for number, lines in enumerate(passes):
        write_lines(files.translations(number), lines)
    shuffled = experiment.config.shuffled and job.system in MEMORY_SYSTEMS
    if shuffled:
        other = translator.translate_documents(sources, replace(config.search, shuffle_memory=True))
        write_lines(files.shuffled, _passes(other, 1 + config.search.passes)[-1])
    use = None
    if translator.reads_documents and job.system != "more":
        use = score_context_use(translator, documents, "generated").to_json()
        del use["documents"]
    words = sum(len(line.split()) for line in passes[0])
    return {
        "parameters": sum(p.numel() for p in translator.system.model.parameters()),
        "src_vocabulary": len(translator.src_vocabulary),
        "trg_vocabulary": len(translator.trg_vocabulary),
        "passes": len(passes),
        "table_pass": config.search.passes,
        "shuffled": shuffled,
        "translation_seconds": seconds,
        "words_per_second": words / seconds,
        "context_use": use,
    }


def _passes(documents: Sequence[TranslatedDocument], count: int) -> list[list[str]]:
    """All lines after each pass; a document that has settled stays as it is."""
    return [
        [line for d in documents for line in d.history[min(number, len(d.history) - 1)]]
        for number in range(count)
    ]


def _write_weights(path: Path, documents: Sequence[TranslatedDocument]) -> None:
    """Whom each sentence read, by memory and document."""
    weights = {
        f"{side}.{d}": matrix.contiguous()
        for d, document in enumerate(documents)
        for side, matrix in (
            ("source", document.source_weights),
            ("target", document.target_weights),
        )
        if matrix is not None
    }
    if weights:
        write_atomically(path, save(weights))
