"""Commands that make models: ``train``, ``export``, ``experiment`` and ``demo``."""

import os
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Exit, Option

from wholedoc.cli.options import SHIPPED, ConfigArgument, JsonFlag, Settings, print_result
from wholedoc.config import MOST_SEED, load_config, load_model_config, shipped_configs
from wholedoc.corpus.readers import Inputs
from wholedoc.errors import UserError
from wholedoc.progress import say

_EXPERIMENTS = f"A TOML file, or a shipped one: {', '.join(shipped_configs(experiments=True))}."


def train(
    config: ConfigArgument = "",
    settings: Settings = None,
    run: Annotated[
        Path | None, Option("--run", help="Run directory.", show_default="runs/CONFIG")
    ] = None,
) -> None:
    """Train a model, all stages in order; run again, it resumes where it stopped.

    A run that was begun is resumed by `train --run DIR` alone.
    """
    directory = run or Path("runs") / Path(config).stem
    own = directory / "config.toml"
    if not config and (run is None or not own.exists()):
        raise UserError(
            "no configuration is given" if run is None else "there is no run to resume here",
            where="train" if run is None else str(run),
            fix="name a TOML file or a shipped configuration: wholedoc train CONFIG [--run DIR]",
        )
    chosen = load_config(config or own, settings or [])
    if not own.exists():  # a run that was begun has what it needs
        for files in (chosen.data.train, chosen.data.dev, chosen.data.extra):
            if files.src:
                Inputs.check(files)
        if not (chosen.data.src_language and chosen.data.trg_language):
            say(
                "warning: the languages are not set, and cannot be later: `wholedoc serve` refuses "
                "such a model; add e.g. --set data.src_language=de --set data.trg_language=en"
            )

    from wholedoc.training.distribution import is_leader
    from wholedoc.training.loop import Stopped
    from wholedoc.training.stages import train as train_stages

    try:
        train_stages(chosen, directory)
    except Stopped as stopped:
        if is_leader():
            say(f"stopped and saved; resume with: wholedoc train --run {directory}")
        sys.exit(stopped.exit_code)
    if is_leader():
        print_result(str(directory))


def export(
    model: Annotated[Path, Argument(metavar="MODEL", help="A run directory.")],
    out: Annotated[Path, Argument(metavar="OUT", help="The directory to write.")],
    translations: Annotated[
        int, Option(help="Shortlist: target words for each source word.", min=1, max=1000)
    ] = 20,
    frequent: Annotated[
        int, Option(help="Shortlist: frequent target words for every sentence.", min=1, max=100_000)
    ] = 200,
    with_memory: Annotated[
        bool,
        Option("--with-memory", help="Copy the run's translation memory too: people's text."),
    ] = False,
) -> None:
    """Write a trained model for serving: small, and fast on CPUs; translate with it as with a run.

    Weights take 8 bits, and a shortlist learned from the training data says which words may
    translate which.
    """
    load_model_config(model)  # before torch is loaded

    from wholedoc.app.export import export_model

    export_model(model, out, translations, frequent, with_memory=with_memory)
    print_result(str(out))


def experiment(
    file: Annotated[str, Argument(metavar="EXPERIMENT", help=_EXPERIMENTS)],
    jobs: Annotated[
        int | None,
        Option(help="Runs at a time, one thread each.", min=1, max=256, show_default="2"),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Where all of it goes.", show_default="experiments/NAME")
    ] = None,
    results: Annotated[
        Path | None,
        Option(
            help="Where the results of finished runs lie; those that are there are not run again.",
            show_default="OUT/results",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a grid of systems and write the paper's tables and figures; run again, it resumes."""
    from wholedoc.experiment.grid import load_experiment

    chosen = load_experiment(file, out, results)

    from wholedoc.experiment.report import build_report, write_reports
    from wholedoc.experiment.results import load_results
    from wholedoc.experiment.runner import run_experiment

    try:
        failed = run_experiment(chosen, jobs or min(2, os.cpu_count() or 1))
    except KeyboardInterrupt:
        say(f"stopped and saved; the same command resumes: {chosen.out}")
        sys.exit(130)
    say("writing the report")
    report = build_report(load_results(chosen))
    files = write_reports(report, chosen.out)
    print_result(str(files[0]), report.to_json(), as_json)
    if failed:
        say(f"{len(failed)} runs failed or were skipped: {', '.join(failed)}")
        raise Exit(1)


def demo(
    out: Annotated[Path, Option(help="Where corpus, runs and report go.")] = Path("demo"),
    seed: Annotated[int, Option(help="Another language, another model.", min=0, max=MOST_SEED)] = 1,
    config: Annotated[str, Option(help=SHIPPED)] = "tiny",
    settings: Settings = None,
    as_json: JsonFlag = False,
) -> None:
    """Make an artificial corpus, train four systems on it, show what document context changes."""
    load_config(config, settings or [])  # before torch is loaded

    from wholedoc.app.demo import draw_tour, run_demo, write_report

    tour = run_demo(out, seed, config, settings or [])
    write_report(out / "report.html", tour)
    print_result(draw_tour(tour), tour.to_json(), as_json)
    if not as_json:
        say(f"the same as a page: {out / 'report.html'}")
