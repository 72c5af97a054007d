"""Commands that measure: ``evaluate`` quality, ``score`` probability, ``params`` size, ``bench``
speed."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wholedoc.app.lines import check_output, open_output, write_lines
from wholedoc.cli.options import (
    ConfigArgument,
    DocOption,
    JsonFlag,
    ModelArgument,
    name_standard_output,
    print_json,
)
from wholedoc.config import CorpusFiles, ScoringMemory, load_config, load_model_config
from wholedoc.corpus.readers import read_corpus
from wholedoc.errors import UserError
from wholedoc.metrics.scoring import (
    Contrast,
    ScoredCorpus,
    count_right,
    read_contrastive,
    score_corpus,
    score_items,
)
from wholedoc.progress import say

if TYPE_CHECKING:
    from wholedoc.metrics.context_use import ContextUse
    from wholedoc.model.translation import Size


def evaluate(
    ref: Annotated[str, typer.Option(help="References, one line for each sentence.")],
    outputs: Annotated[
        list[str],
        typer.Option(
            "--sys",
            metavar="NAME=FILE",
            help="Of one NAME: seeds of one system.",
        ),
    ],
    src: Annotated[str, typer.Option(help="Source sentences, for measures that need them.")] = "",
    doc: DocOption = "",
    baseline: Annotated[
        str,
        typer.Option(help="The system that others are tested against.", show_default="the first"),
    ] = "",
    lang: Annotated[str, typer.Option(help="Target language: METEOR, tokens, lemmas.")] = "en",
    src_lang: Annotated[str, typer.Option(help="Source language: lemmas, pronouns.")] = "",
    trials: Annotated[
        int, typer.Option(help="Draws of each paired test, at most 100,000.", min=1)
    ] = 10_000,
    seed: Annotated[int, typer.Option(help="Fixes the draws.", min=0)] = 1,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="METRIC", help="Leave it out: ter and meteor take longest."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Also a file of the same tables: .html .md .csv .tex")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """BLEU, chrF, TER, METEOR, consistency and more; paired tests against a baseline."""
    from wholedoc.metrics import evaluation

    if out:
        evaluation.check_format(out)
        files = [output.partition("=")[2] for output in outputs]
        check_output(out, [ref, src, doc, *files], "--out")
    data, systems = evaluation.read_evaluation(ref, outputs, src, doc, (src_lang, lang))
    comparison = evaluation.compare(data, systems, baseline, trials, seed, without or [])
    if out:
        evaluation.write_comparison(comparison, out)
    if as_json:
        print_json(comparison.to_json())
    else:
        with name_standard_output():
            print(evaluation.format_comparison(comparison, shutil.get_terminal_size().columns))


def score(
    model: ModelArgument,
    src: Annotated[
        str, typer.Argument(metavar="SRC", help="Source side, or the file of both sides.")
    ] = "",
    trg: Annotated[str, typer.Argument(metavar="TRG", help="The translations to score.")] = "",
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
    _check_score_options(contrastive, context_use, sentence_model, (src, doc))
    inputs = [str(contrastive)] if contrastive else [src, trg, doc]
    check_output(output, inputs)
    data = load_model_config(model).data
    items = read_contrastive(contrastive) if contrastive else []
    corpus = None
    if not contrastive:
        corpus = read_corpus(CorpusFiles(src, trg, doc), data.src_language, data.trg_language)

    from wholedoc.decoding.translator import Translator
    from wholedoc.metrics.context_use import score_context_use

    translator = Translator.load(model)
    if sentence_model:
        translator = translator.without_memory()
    lines: list[str]
    found: ScoredCorpus | ContextUse | Contrast
    if corpus is None:
        scores = score_items(translator, items, target_memory)
        lines = [json.dumps(score.to_json(), ensure_ascii=False) for score in scores]
        found = count_right(scores)
    else:
        measure = score_context_use if context_use else score_corpus
        measured = measure(translator, corpus, target_memory)
        lines = [f"{log_probability:.6f}" for log_probability in measured.log_probabilities]
        found = measured
    prints_summary = corpus is None or context_use
    if output or not (as_json or prints_summary):
        with open_output(output) as stream:
            write_lines(stream, lines)
    if as_json:
        print_json(found.to_json())
    elif prints_summary:
        with name_standard_output():
            print("\n".join(found.summary))
    else:
        say("\n".join(found.summary))


def _check_score_options(
    contrastive: Path | None, context_use: bool, sentence_model: bool, corpus: tuple[str, str]
) -> None:
    """Refuse what does not go together; ``corpus`` is its source side and its document ids."""
    if contrastive and any(corpus):
        raise UserError(
            "takes the place of SRC, TRG and --doc", where="--contrastive", fix="give one of them"
        )
    if context_use and (contrastive or sentence_model):
        raise UserError(
            "goes with neither --contrastive nor --sentence-model",
            where="--context-use",
            fix="leave one out; the sentence model is among what is compared",
        )
    if not contrastive and not corpus[0]:
        raise UserError(
            "nothing to score is given", where="score", fix="add SRC TRG, or --contrastive SET"
        )


def params(
    config: ConfigArgument = "paper",
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
        print_json({"src_vocab": src_vocab, "trg_vocab": trg_vocab, "variants": variants})
    else:
        _print_sizes(sizes, src_vocab, trg_vocab)


@name_standard_output()
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
    if run:
        load_model_config(run)

    from wholedoc.benchmark.bench import format_bench, run_bench

    found = run_bench(run, ("small", "paper"), rounds, sentences)
    if as_json:
        print_json(dataclasses.asdict(found))
    else:
        with name_standard_output():
            print(format_bench(found))
