"""The command line: ``wholedoc COMMAND``. Results on standard output, all else on standard error.

Exit codes: 0 done; 2 the user's input is at fault (one line says what, where, what to do);
1 anything else. ``WHOLEDOC_TRACEBACK=1`` shows where in the code an error arose. A command imports
what it needs when it runs, so that ``--help`` answers at once.
"""

import dataclasses
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.exceptions import TyperException

from wholedoc import __version__
from wholedoc.config import (
    CorpusFiles,
    DataConfig,
    FirstPass,
    Order,
    ScoringMemory,
    SearchConfig,
    UnknownWords,
    load_config,
)
from wholedoc.errors import UserError
from wholedoc.kernels import keep_freed_memory
from wholedoc.progress import say
from wholedoc.synthetic.documents import SynthConfig, write_synth

if TYPE_CHECKING:
    from wholedoc.app.explain import Explanation
    from wholedoc.corpus.filters import FilterCounts
    from wholedoc.corpus.statistics import Statistics
    from wholedoc.decoding.translator import Translator
    from wholedoc.metrics.context_use import ContextUse
    from wholedoc.metrics.contrastive import Contrast
    from wholedoc.metrics.scored import ScoredCorpus
    from wholedoc.model.translation import Size

app = typer.Typer(
    name="wholedoc",
    help="Translation that reads the whole document.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]
SrcOption = Annotated[str, typer.Option("--src", help="Source side, or the file of both sides.")]
TrgOption = Annotated[str, typer.Option("--trg", help="Target side.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="section.key=value, for any value.")
]
DocOption = Annotated[str, typer.Option("--doc", help="Document ids, or start-line indices.")]


def main() -> None:
    """Run a command and turn every error into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text is the same whatever the locale
            stream.reconfigure(encoding="utf-8", errors=stream.errors, newline="\n")
    keep_freed_memory()
    try:
        code = app(standalone_mode=False)
        with _standard_output():
            sys.stdout.flush()
    except TyperException as error:  # the command line itself is wrong
        _fail(f"{error.format_message() or 'no command'} (see wholedoc --help)", 2, error)
    except UserError as error:
        _fail(str(error), 2, error)
    except (KeyboardInterrupt, typer.Abort) as error:
        _fail("interrupted", 1, error)
    except BrokenPipeError as error:
        _fail("", 1, error)  # as in `wholedoc … | head`: typer is silent about it too
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror}; check the path and the room on the disk", 2, error)
    except Exception as error:  # noqa: BLE001 (the outermost frame: report and leave)
        _fail(f"{type(error).__name__}: {error} (set WHOLEDOC_TRACEBACK=1 to see where)", 1, error)
    else:
        sys.exit(code or 0)


def _fail(message: str, code: int, error: BaseException) -> None:
    if os.environ.get("WHOLEDOC_TRACEBACK"):
        raise error
    if message:
        say(f"wholedoc: {' '.join(message.split())}")
    try:
        sys.stdout.flush()
    except OSError:  # Python would fail again on its way out, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


@contextmanager
def _standard_output() -> Iterator[None]:
    """Around what prints results: an error on the way out names standard output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror}",
            where="standard output",
            fix="make room or send it elsewhere",
        ) from error


@_standard_output()
def _print_json(values: Any) -> None:
    print(json.dumps(values, ensure_ascii=False, indent=2))


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Translation that reads the whole document."""
    if show:
        print(__version__)
        raise typer.Exit


@app.command()
def stats(
    corpora: Annotated[
        list[str] | None,
        typer.Argument(help="Files or folders of both sides, or TOML configurations."),
    ] = None,
    src: SrcOption = "",
    trg: TrgOption = "",
    doc: DocOption = "",
    src_language: Annotated[str | None, typer.Option(help="Where a file holds several.")] = None,
    trg_language: Annotated[str | None, typer.Option(help="Where a file holds several.")] = None,
    min_sentences: Annotated[
        int | None, typer.Option(help="Leave out shorter documents.", min=1)
    ] = None,
    max_words: Annotated[
        int | None, typer.Option(help="Leave out longer pairs; 0: none.", min=0)
    ] = None,
    max_ratio: Annotated[
        float | None, typer.Option(help="Leave out uneven pairs; 0: none.", min=0)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Documents, sentences, words, vocabulary and boundaries of corpora.

    The training set of a configuration is measured after its filters; what is said here wins.
    """
    chosen = _named_corpora(corpora or [])
    if src or trg or doc:
        chosen[src] = DataConfig(CorpusFiles(src, trg, doc))
    if not chosen:
        raise UserError("no corpus is given", where="stats", fix="add --src FILE --trg FILE")
    options = {
        "src_language": src_language,
        "trg_language": trg_language,
        "min_sentences": min_sentences,
        "max_words": max_words,
        "max_ratio": max_ratio,
    }
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    measured = {
        name: _measure_training_set(dataclasses.replace(data, **given))
        for name, data in chosen.items()
    }
    objects = {name: dataclasses.asdict(found) for name, found in measured.items()}
    if not as_json:
        _print_statistics(measured)
    elif len(objects) == 1:
        _print_json(*objects.values())
    else:
        _print_json({"corpora": objects})


def _named_corpora(paths: list[str]) -> dict[str, DataConfig]:
    """The corpora of configurations, and files that hold both sides, by name.

    Each is the training set of a configuration, the set that filters apply to; what was a dev or
    test set has only its languages beside it.
    """
    named: dict[str, DataConfig] = {}
    for path in paths:
        if path.endswith(".toml"):
            data = load_config(path).data
            unfiltered = DataConfig(src_language=data.src_language, trg_language=data.trg_language)
            sets = {
                "train": data,
                "dev": dataclasses.replace(unfiltered, train=data.dev),
                "test": dataclasses.replace(unfiltered, train=data.test),
            }
            named |= {f"{path} {name}": found for name, found in sets.items() if found.train.src}
        else:
            named[path] = DataConfig(CorpusFiles(path))
    return named


def _measure_training_set(data: DataConfig) -> "Statistics":
    from wholedoc.corpus.filters import Filters
    from wholedoc.corpus.readers import read_corpus
    from wholedoc.corpus.statistics import measure_corpus

    corpus = read_corpus(data.train, data.src_language, data.trg_language)
    return measure_corpus(corpus, Filters(data.min_sentences, data.max_words, data.max_ratio))


@_standard_output()
def _print_statistics(measured: "dict[str, Statistics]") -> None:
    """A column per corpus, a row per measure."""
    from rich.console import Console
    from rich.table import Table

    table = Table("")
    for name in measured:
        table.add_column(name, justify="right", overflow="fold")
    for measure in dataclasses.fields(next(iter(measured.values()))):
        cells = [_format_measure(getattr(found, measure.name)) for found in measured.values()]
        table.add_row(measure.name.replace("_", " "), *cells)
    Console().print(table)


def _format_measure(value: "float | str | FilterCounts") -> str:
    return f"{value:,.1f}".removesuffix(".0") if isinstance(value, int | float) else str(value)


@app.command()
def synth(
    directory: Annotated[Path, typer.Argument(help="Where the corpus is written.")],
    seed: Annotated[int, typer.Option(help="Fixes the language and all documents.", min=0)] = 1,
    train_documents: Annotated[
        int, typer.Option("--train", help="Training documents.", min=1)
    ] = SynthConfig.train,
    dev_documents: Annotated[
        int, typer.Option("--dev", help="Development documents.", min=1)
    ] = SynthConfig.dev,
    test_documents: Annotated[
        int, typer.Option("--test", help="Test documents.", min=1)
    ] = SynthConfig.test,
    as_json: JsonFlag = False,
) -> None:
    """Write the artificial corpus on which only context resolves some words."""
    config = SynthConfig(seed=seed, train=train_documents, dev=dev_documents, test=test_documents)
    summary = write_synth(directory, config).to_json()
    if as_json:
        _print_json(summary)
    else:
        _print_synth(summary)


@_standard_output()
def _print_synth(summary: dict[str, Any]) -> None:
    """The size of each split, and how well each kind of word can be translated."""
    for name, split in summary["splits"].items():
        print(f"{name}: {split['documents']:,} documents, {split['sentences']:,} sentences")
        for kind, found in split["kinds"].items():
            bounds = ", ".join(
                f"{100 * bound['accuracy']:.1f} % from {information}"
                for information, bound in found["bounds"].items()
            )
            print(f"  {kind}: {found['items']:,} items; at best {bounds}")


@app.command()
def train(
    config: Annotated[str, typer.Argument(help="A TOML file, or the name of a shipped one.")],
    settings: Settings = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Run directory; runs/CONFIG by default.")
    ] = None,
) -> None:
    """Train a model, all stages in order; run again, it resumes where it stopped."""
    chosen = load_config(config, settings or [])  # before torch: a slip is answered at once

    from wholedoc.training.distribution import is_leader
    from wholedoc.training.loop import Stopped
    from wholedoc.training.stages import train as train_stages

    directory = run or Path("runs") / Path(config).stem
    try:
        train_stages(chosen, directory)
    except Stopped:
        if is_leader():
            say(f"stopped and saved; the same command goes on from here: {directory}")
        raise typer.Exit(1) from None
    if is_leader():
        with _standard_output():
            print(directory)


@app.command()
def translate(
    model: Annotated[str, typer.Argument(help="A run directory.")],
    inputs: Annotated[
        list[str] | None, typer.Argument(help="Text files; standard input without any.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A file; a folder for several inputs.")
    ] = None,
    doc: DocOption = "",
    beam: Annotated[int | None, typer.Option(help="Beam width; 1 is greedy.", min=1)] = None,
    nbest: Annotated[int, typer.Option(help="Translations per sentence.", min=1)] = 1,
    passes: Annotated[
        int | None, typer.Option(help="Updates of each translation, given the document.", min=0)
    ] = None,
    order: Annotated[
        Order | None, typer.Option(help="Whether a pass sees its own new translations.")
    ] = None,
    first_pass: Annotated[
        FirstPass | None, typer.Option(help="Which model makes the first translations.")
    ] = None,
    shuffle_memory: Annotated[
        bool, typer.Option("--shuffle-memory", help="A control: read another document's memory.")
    ] = False,
    replace_unknown: Annotated[
        UnknownWords | None,
        typer.Option(help="For an unknown word: nothing, its source word, or that translated."),
    ] = None,
    explain: Annotated[
        Path | None,
        typer.Option(help="A page that shows what each pass changed and whom sentences read."),
    ] = None,
    int8: Annotated[
        bool,
        typer.Option(
            "--int8",
            help="Multiply in 8 bits: nearly the same output, faster on processors with VNNI.",
        ),
    ] = False,
) -> None:
    """Translate text, line by line: one line out for each line in."""
    from wholedoc.app.lines import check_output, open_output, translate_lines
    from wholedoc.corpus.readers import read_source_lines
    from wholedoc.decoding.translator import Translator

    sources = inputs or ["-"]
    if doc and len(sources) > 1:
        raise UserError("goes with one input", where="--doc", fix="translate them one by one")
    if explain and len(sources) > 1:
        raise UserError("goes with one input", where="--explain", fix="translate them one by one")
    check_output(explain, [*sources, doc], "--explain")
    if explain and output and explain.resolve() == output.resolve():
        raise UserError(
            "translations and page would be written to one file",
            where=str(explain),
            fix="choose another place with --explain",
        )
    names = [Path(source).name for source in sources]
    if output and len(set(names)) < len(names):
        raise UserError(
            "two inputs of the same name would be written to one file",
            where=str(output),
            fix="translate them one by one",
        )
    translator = Translator.load(model, int8=int8)
    config = dataclasses.replace(
        translator.config,
        beam=beam or translator.config.beam,
        passes=translator.config.passes if passes is None else passes,
        order=order or translator.config.order,
        first_pass=first_pass or translator.config.first_pass,
        shuffle_memory=shuffle_memory or translator.config.shuffle_memory,
        replace_unknown=replace_unknown or translator.config.replace_unknown,
    )
    page = _explanation(translator, model, sources[0], config) if explain else None
    for source in sources:
        text = read_source_lines(sys.stdin.buffer if source == "-" else source, doc)
        with open_output(output, source, several=len(sources) > 1) as stream:
            translate_lines(translator, text, stream, config, nbest, page.add if page else None)
    if page and explain:
        page.write(explain)


def _explanation(
    translator: "Translator", model: str, source: str, config: SearchConfig
) -> "Explanation":
    """The page of an input that is to be translated."""
    from wholedoc.app.explain import Explanation
    from wholedoc.store.run import Run

    if config.shuffle_memory:
        raise UserError(
            "does not go with shuffled memory, where sentences read another document",
            where="--explain",
            fix="leave one out",
        )
    name = "standard input" if source == "-" else source
    settings = Run(Path(model)).load_config().model
    return Explanation(model, name, settings, config, translator.reads_documents)


@app.command()
def score(
    model: Annotated[str, typer.Argument(help="A run directory.")],
    src: Annotated[str, typer.Argument(help="Source side, or the file of both sides.")] = "",
    trg: Annotated[str, typer.Argument(help="The translations to score.")] = "",
    doc: DocOption = "",
    contrastive: Annotated[
        Path | None,
        typer.Option(help="A contrastive set in place of SRC and TRG: JSON lines."),
    ] = None,
    target_memory: Annotated[
        ScoringMemory,
        typer.Option(help="Made from the translations given, or from the model's own."),
    ] = "given",
    sentence_model: Annotated[
        bool, typer.Option("--sentence-model", help="Score with the sentence model alone.")
    ] = False,
    context_use: Annotated[
        bool,
        typer.Option("--context-use", help="Measure what the rest of the document is worth."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A file for the scores of each sentence or item."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Log-probabilities and perplexity of given translations, or accuracy on a contrastive set.

    One log-probability per line, for each sentence in order; --json adds those of documents.
    With --context-use, what the rest of the document is worth, and which of it is read.
    """
    if contrastive and (src or doc):
        raise UserError(
            "takes the place of SRC, TRG and --doc", where="--contrastive", fix="give one of them"
        )
    if context_use and (contrastive or sentence_model):
        raise UserError(
            "goes with neither --contrastive nor --sentence-model",
            where="--context-use",
            fix="leave one out; the sentence model is among what is compared",
        )
    if not contrastive and not src:
        raise UserError(
            "nothing to score is given", where="score", fix="add SRC TRG, or --contrastive SET"
        )
    from wholedoc.app.lines import check_output, open_output, write_lines
    from wholedoc.decoding.translator import Translator

    inputs = [str(contrastive)] if contrastive else [src, trg, doc]
    check_output(output, inputs)
    translator = Translator.load(model)
    if sentence_model:
        translator = translator.without_memory()
    lines: list[str]
    found: ScoredCorpus | ContextUse | Contrast
    if contrastive:
        lines, found = _score_set(translator, contrastive, target_memory)
    else:
        files = CorpusFiles(src, trg, doc)
        lines, found = _score_corpus(translator, model, files, target_memory, context_use)
    prints_summary = contrastive or context_use
    if output or not (as_json or prints_summary):
        with open_output(output, inputs[0], several=False) as stream:
            write_lines(stream, lines)
    if as_json:
        _print_json(found.to_json())
    elif prints_summary:
        with _standard_output():
            print("\n".join(found.summary))
    else:
        say("\n".join(found.summary))


def _score_corpus(
    translator: "Translator",
    model: str,
    files: CorpusFiles,
    memory: ScoringMemory,
    context_use: bool,
) -> "tuple[list[str], ScoredCorpus | ContextUse]":
    """The log-probability of each sentence, and their sum or what context adds to it."""
    from wholedoc.corpus.readers import read_corpus
    from wholedoc.metrics.scored import score_context_use, score_corpus
    from wholedoc.store.run import Run

    data = Run(Path(model)).load_config().data
    corpus = read_corpus(files, data.src_language, data.trg_language)
    measure = score_context_use if context_use else score_corpus
    found = measure(translator, corpus, memory)
    return [f"{log_probability:.6f}" for log_probability in found.sentences], found


def _score_set(
    translator: "Translator", file: Path, memory: ScoringMemory
) -> "tuple[list[str], Contrast]":
    """The log-probabilities of each item, and the accuracy."""
    from wholedoc.metrics.contrastive import count_right, read_contrastive
    from wholedoc.metrics.scored import score_items

    scores = score_items(translator, read_contrastive(file), memory)
    return [json.dumps(score.to_json(), ensure_ascii=False) for score in scores], count_right(
        scores
    )


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="A run directory.")],
    out: Annotated[Path, typer.Argument(help="The directory to write.")],
    translations: Annotated[
        int, typer.Option(help="Shortlist: target words for each source word.", min=1)
    ] = 20,
    frequent: Annotated[
        int, typer.Option(help="Shortlist: frequent target words for every sentence.", min=1)
    ] = 200,
) -> None:
    """Write a trained model for serving: small, and fast on CPUs; translate with it as with a run.

    Weights take 8 bits, and a shortlist learned from the training data says which words may
    translate which.
    """
    from wholedoc.app.export import export_model

    export_model(model, out, translations, frequent)
    with _standard_output():
        print(out)


@app.command()
def evaluate(
    ref: Annotated[str, typer.Option(help="References, one line for each sentence.")],
    outputs: Annotated[
        list[str],
        typer.Option("--sys", help="NAME=FILE, any number; of one NAME: seeds of one system."),
    ],
    src: Annotated[str, typer.Option(help="Source sentences, for measures that need them.")] = "",
    doc: DocOption = "",
    baseline: Annotated[
        str, typer.Option(help="The system that others are tested against; the first by default.")
    ] = "",
    lang: Annotated[str, typer.Option(help="Target language: METEOR, tokens, lemmas.")] = "en",
    src_lang: Annotated[str, typer.Option(help="Source language: lemmas, pronouns.")] = "",
    trials: Annotated[int, typer.Option(help="Draws of each paired test.", min=1)] = 10_000,
    seed: Annotated[int, typer.Option(help="Fixes the draws.", min=0)] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(help="A metric to leave out, any number: ter and meteor take longest."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """BLEU, chrF, TER, METEOR, consistency and more; paired tests against a baseline."""
    from wholedoc.metrics.comparison import compare
    from wholedoc.metrics.evaluate import print_comparison, read_evaluation

    data, systems = read_evaluation(ref, outputs, src, doc, (src_lang, lang))
    comparison = compare(data, systems, baseline, trials, seed, without or [])
    if as_json:
        _print_json(comparison.to_json())
    else:
        with _standard_output():
            print_comparison(comparison)


@app.command()
def params(
    config: Annotated[str, typer.Argument(help="Whose sizes to take.")] = "paper",
    src_vocab: Annotated[int, typer.Option(help="Source vocabulary.", min=1)] = 25_100,
    trg_vocab: Annotated[int, typer.Option(help="Target vocabulary.", min=1)] = 21_000,
    as_json: JsonFlag = False,
) -> None:
    """Parameter counts of every variant: the paper's Table 3."""
    sizes_of = load_config(config).model.without_context()  # checked before torch is imported
    from wholedoc.model.translation import measure_sizes

    sizes = measure_sizes(sizes_of, src_vocab, trg_vocab)
    if as_json:
        variants = [dataclasses.asdict(size) for size in sizes]
        _print_json({"src_vocab": src_vocab, "trg_vocab": trg_vocab, "variants": variants})
    else:
        _print_sizes(sizes, src_vocab, trg_vocab)


@_standard_output()
def _print_sizes(sizes: "list[Size]", src_vocab: int, trg_vocab: int) -> None:
    """A row per variant, with what it has more than the sentence model."""
    base = sizes[0].parameters
    print(f"vocabularies {src_vocab:,} / {trg_vocab:,}; millions of parameters")
    for size in sizes:
        name = (
            "S-NMT" if size.memory == "none" else f"Memory-to-{size.fusion.title()} +{size.memory}"
        )
        more = (size.parameters - base) / 1e6
        print(f"{name:<24} {size.parameters / 1e6:8.2f}   +{more:.2f}")
    print("The paper prints S-NMT smaller by 2·H·2H, 1.05 million: see docs/equations.md.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where corpus, runs and report go.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another language, another model.", min=0)] = 1,
    config: Annotated[
        str, typer.Option(help="What to train with: a TOML file, or the name of a shipped one.")
    ] = "tiny",
    settings: Settings = None,
    as_json: JsonFlag = False,
) -> None:
    """The tour: makes a corpus, trains on it, translates, shows what a sentence cannot know."""
    load_config(config, settings or [])  # before torch: a slip is answered at once

    from wholedoc.app.demo import run_demo
    from wholedoc.app.demo_report import print_tour, write_report

    tour = run_demo(out, seed, config, settings or [])
    write_report(out / "report.html", tour)
    if as_json:
        _print_json(tour.to_json())
    else:
        with _standard_output():
            print_tour(tour)
        say(f"the same as a page: {out / 'report.html'}")


@app.command()
def bench(
    run: Annotated[
        Path | None,
        typer.Option(help="A run to measure; by default, small and paper with made-up text."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(help="Rounds of turns: the more, the less noise.", min=1)
    ] = 3,
    sentences: Annotated[
        int, typer.Option(help="Sentences to translate, in documents of up to so many.", min=10)
    ] = 1000,
    as_json: JsonFlag = False,
) -> None:
    """Speed of training and translating on this machine, one thread, as ratios within one run."""
    from wholedoc.benchmark.bench import print_bench, run_bench

    found = run_bench(run, ("small", "paper"), rounds, sentences)
    if as_json:
        _print_json(found.to_json())
    else:
        with _standard_output():
            print_bench(found)


@app.command()
def experiment(
    file: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="A TOML file, or the name of a shipped one.")
    ],
    jobs: Annotated[
        int | None, typer.Option(help="Runs at a time, one thread each; 2 by default.", min=1)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where all of it goes; experiments/NAME by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Train a grid of systems and write the paper's tables and figures; run again, it goes on."""
    from wholedoc.experiment.grid import load_experiment

    chosen = load_experiment(file, out)

    from wholedoc.experiment.page import write_reports
    from wholedoc.experiment.report import build_report
    from wholedoc.experiment.results import load_results
    from wholedoc.experiment.runner import run_experiment

    try:
        failed = run_experiment(chosen, jobs or min(2, os.cpu_count() or 1))
    except KeyboardInterrupt:
        say(f"stopped and saved; the same command goes on from here: {chosen.out}")
        raise typer.Exit(1) from None
    say("writing the report")
    report = build_report(load_results(chosen))
    files = write_reports(report, chosen.out)
    if as_json:
        _print_json(report.to_json())
    else:
        with _standard_output():
            print(files[0])
    if failed:
        say(f"{len(failed)} runs failed or were skipped: {', '.join(failed)}")
        raise typer.Exit(1)
