"""Commands that measure: ``evaluate`` quality, ``score`` probability, ``params`` size, ``bench``
speed."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from wholedoc.app.lines import check_output, open_output, write_lines
from wholedoc.cli.options import (
    ConfigArgument,
    DocOption,
    JsonFlag,
    MemoriesOption,
    ModelArgument,
    NoMemoryFlag,
    print_result,
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


def evaluate(
    ref: Annotated[str, Option(help="References, one line for each sentence.")],
    outputs: Annotated[
        list[str], Option("--sys", metavar="NAME=FILE", help="Of one NAME: seeds of one system.")
    ],
    src: Annotated[str, Option(help="Source sentences, for measures that need them.")] = "",
    doc: DocOption = "",
    baseline: Annotated[
        str, Option(help="The system that others are tested against.", show_default="the first")
    ] = "",
    lang: Annotated[str, Option(help="Target language: METEOR, tokens, lemmas.")] = "en",
    src_lang: Annotated[str, Option(help="Source language: lemmas, pronouns.")] = "",
    trials: Annotated[int, Option(help="Draws of each paired test.", min=1, max=100_000)] = 10_000,
    seed: Annotated[int, Option(help="Fixes the draws.", min=0)] = 1,
    without: Annotated[
        list[str] | None,
        Option(metavar="METRIC", help="Leave it out: ter and meteor take longest."),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Also a file of the same tables: .html .md .csv .tex")
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
    text = evaluation.format_comparison(comparison, shutil.get_terminal_size().columns)
    print_result(text, comparison.to_json(), as_json)


def score(
    model: ModelArgument,
    src: Annotated[
        str, Argument(metavar="SRC", help="Source side, or the file of both sides.")
    ] = "",
    trg: Annotated[str, Argument(metavar="TRG", help="The translations to score.")] = "",
    doc: DocOption = "",
    contrastive: Annotated[
        Path | None, Option(help="A contrastive set in place of SRC and TRG: JSON lines.")
    ] = None,
    target_memory: Annotated[
        ScoringMemory, Option(help="Made from the translations given, or from the model's own.")
    ] = "given",
    sentence_model: Annotated[
        bool, Option("--sentence-model", help="Score with the sentence model alone.")
    ] = False,
    context_use: Annotated[
        bool, Option("--context-use", help="Measure what the rest of the document is worth.")
    ] = False,
    memories: MemoriesOption = None,
    no_tm: NoMemoryFlag = False,
    approved: Annotated[
        bool, Option("--approved", help="Recall the translations of the sentences before, too.")
    ] = False,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="A file for the scores of each sentence or item."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Log-probabilities and perplexity of given translations, or accuracy on a contrastive set.

    One log-probability per line, for each sentence in order; --json adds those of documents.
    With --context-use, what the rest of the document is worth, and which of it is read.
    """
    _check_score_options(contrastive, context_use, sentence_model, (src, doc))
    if (memories or approved) and (contrastive or context_use):
        what = "goes with neither --contrastive nor --context-use, where nothing is recalled"
        raise UserError(what, where="--tm" if memories else "--approved", fix="leave one out")
    check_output(output, [str(contrastive or ""), src, trg, doc])
    data = load_model_config(model).data
    items, corpus = [], None
    if contrastive:
        items = read_contrastive(contrastive)
    else:
        corpus = read_corpus(CorpusFiles(src, trg, doc), data.src_language, data.trg_language)

    from wholedoc.decoding.translator import Translator
    from wholedoc.metrics.context_use import score_context_use

    translator = Translator.load(model, own_memory=not no_tm)
    if sentence_model:
        translator = translator.without_memory()
    opened = translator.open_memories(memories or [])
    if approved and translator.system.base_recaller is None:
        fix = "fit it first: wholedoc tm fit MODEL"
        raise UserError("this model has not learned to recall", where="--approved", fix=fix)
    found: ScoredCorpus | ContextUse | Contrast
    if corpus is None:
        scores = score_items(translator, items, target_memory)
        lines = [json.dumps(score.to_json(), ensure_ascii=False) for score in scores]
        found = count_right(scores)
    else:
        if context_use:
            found = score_context_use(translator, corpus, target_memory)
        else:
            found = score_corpus(
                translator, corpus, target_memory, memories=opened, approved=approved
            )
        lines = [f"{log_probability:.6f}" for log_probability in found.log_probabilities]
    prints_summary = corpus is None or context_use
    if output or not (as_json or prints_summary):
        with open_output(output) as stream:
            write_lines(stream, lines)
    if as_json or prints_summary:
        print_result("\n".join(found.summary), found.to_json(), as_json)
    else:
        say("\n".join(found.summary))


def _check_score_options(
    contrastive: Path | None, context_use: bool, sentence_model: bool, corpus: tuple[str, str]
) -> None:
    """Refuse what does not go together; ``corpus`` is its source side and its document ids."""
    if contrastive and any(corpus):
        what = "takes the place of SRC, TRG and --doc"
        raise UserError(what, where="--contrastive", fix="give one of them")
    if context_use and (contrastive or sentence_model):
        what = "goes with neither --contrastive nor --sentence-model"
        fix = "leave one out; the sentence model is among what is compared"
        raise UserError(what, where="--context-use", fix=fix)
    if not contrastive and not corpus[0]:
        fix = "add SRC TRG, or --contrastive SET"
        raise UserError("nothing to score is given", where="score", fix=fix)


def params(
    config: ConfigArgument = "paper",
    src_vocab: Annotated[int, Option(help="Source vocabulary.", min=1)] = 25_100,
    trg_vocab: Annotated[int, Option(help="Target vocabulary.", min=1)] = 21_000,
    as_json: JsonFlag = False,
) -> None:
    """Parameter counts of every variant: the paper's Table 3."""
    sizes_of = load_config(config).model.without_context()  # checked before torch is imported
    from wholedoc.model.translation import measure_sizes

    sizes = measure_sizes(sizes_of, src_vocab, trg_vocab)
    variants = [dataclasses.asdict(size) for size in sizes]
    values = {"src_vocab": src_vocab, "trg_vocab": trg_vocab, "variants": variants}
    lines = [f"vocabularies {src_vocab:,} / {trg_vocab:,}; millions of parameters"]
    for size in sizes:
        name = f"Memory-to-{size.fusion.title()} +{size.memory}"
        more = (size.parameters - sizes[0].parameters) / 1e6  # than the sentence model
        total = f"{size.parameters / 1e6:8.2f}   +{more:.2f}"
        lines.append(f"{'S-NMT' if size.memory == 'none' else name:<24} {total}")
    lines.append("The paper prints S-NMT smaller by 2·H·2H, 1.05 million: see docs/equations.md.")
    print_result("\n".join(lines), values, as_json)


def bench(
    run: Annotated[
        Path | None, Option(help="A run to measure; by default, small and paper with made-up text.")
    ] = None,
    rounds: Annotated[int, Option(help="Rounds of turns: the more, the less noise.", min=1)] = 3,
    sentences: Annotated[
        int, Option(help="Sentences to translate, in documents of up to so many.", min=10)
    ] = 1000,
    memory: Annotated[
        int, Option(help="Pairs of the translation memory to build and search.", min=100)
    ] = 1_000_000,
    as_json: JsonFlag = False,
) -> None:
    """Speed of training and translating on this machine, one thread, as ratios within one run."""
    if run:
        load_model_config(run)

    from wholedoc.benchmark.bench import format_bench, run_bench

    found = run_bench(run, ("small", "paper"), rounds, sentences, memory)
    print_result(format_bench(found), dataclasses.asdict(found), as_json)
