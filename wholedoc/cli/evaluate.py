"""Commands that measure: ``evaluate`` quality, ``score`` probability, ``params`` size, ``bench``
speed."""

import dataclasses
import json
import shutil
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

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
from wholedoc.config import (
    MOST,
    MOST_SEED,
    CorpusFiles,
    ItemContext,
    ScoringMemory,
    load_config,
    load_model_config,
)
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import read_corpus
from wholedoc.errors import UserError
from wholedoc.metrics.discourse_sets import read_contrastive, read_ctxpro, with_context
from wholedoc.metrics.scoring import (
    ItemScore,
    ItemTranslation,
    count_right,
    score_corpus,
    score_items,
    translate_items,
)
from wholedoc.progress import say

_NOTHING_RECALLED = (
    ("--contrastive", "--ctxpro", "--context-use"),
    "leave one out: nothing is recalled there",
)
# What ``score`` does not take together: option → others, what to do.
_APART = {
    "--contrastive": (("SRC", "--doc", "--ctxpro"), "give one of them"),
    "--ctxpro": (("TRG", "--doc"), "give SRC alone, the inputs of the set"),
    "--context-use": (
        ("--contrastive", "--ctxpro", "--sentence-model"),
        "leave one out; the sentence model is among what is compared",
    ),
    "--tm": _NOTHING_RECALLED,
    "--no-tm": _NOTHING_RECALLED,
    "--sentence-model": (("--target-memory",), "leave one out: the sentence model has no memory"),
    "--target-memory": (("--ctxpro",), "leave it out: translations are searched for"),
    "--approved": _NOTHING_RECALLED,
}


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
    seed: Annotated[int, Option(help="Fixes the draws.", min=0, max=MOST_SEED)] = 1,
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
        Path | None,
        Option(help="A contrastive set in place of SRC and TRG: JSON lines, or DiscEvalMT."),
    ] = None,
    ctxpro: Annotated[
        Path | None,
        Option(help="A set of ctxpro in place of TRG: translate SRC, its inputs, and count."),
    ] = None,
    context: Annotated[
        ItemContext, Option(help="Of the items of a set: their own, none, or another item's.")
    ] = "own",
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
    """Log-probabilities and perplexity of given translations, or accuracy on a discourse set.

    One log-probability per line, for each sentence in order; --json adds those of documents.
    With --context-use, what the rest of the document is worth, and which of it is read.
    """
    given: dict[str, object] = {
        "SRC": src,
        "TRG": trg,
        "--doc": doc,
        "--contrastive": contrastive,
        "--ctxpro": ctxpro,
        "--context": context != "own",
        "--context-use": context_use,
        "--tm": memories,
        "--no-tm": no_tm,
        "--target-memory": target_memory != "given",
        "--sentence-model": sentence_model,
        "--approved": approved,
    }
    _check_score_options({name for name, value in given.items() if value})
    check_output(output, [str(contrastive or ""), str(ctxpro or ""), src, trg, doc])
    data = load_model_config(model).data
    contrasts = with_context(read_contrastive(contrastive), context) if contrastive else []
    examples = with_context(read_ctxpro(ctxpro, Path(src)), context) if ctxpro else []
    corpus: Iterable[Document] = ()
    if not (contrasts or examples):
        corpus = read_corpus(CorpusFiles(src, trg, doc), data.src_language, data.trg_language)

    from wholedoc.decoding.translator import Translator
    from wholedoc.metrics.context_use import score_context_use

    translator = Translator.load(model, own_memory=not (no_tm or examples))
    if sentence_model:
        translator = translator.without_memory()
    opened = translator.open_memories(memories or [])
    if approved and translator.system.base_recaller is None:
        fix = "fit it first: wholedoc tm fit MODEL"
        raise UserError("this model has not learned to recall", where="--approved", fix=fix)
    if contrastive:
        scores = [score_items(translator, contrasts, target_memory)]
        _print_accuracy(scores, context, output, as_json)
    elif ctxpro:
        _print_accuracy(translate_items(translator, examples), context, output, as_json)
    elif context_use:
        used = score_context_use(translator, corpus, target_memory)
        if output:
            _write_scores(used.log_probabilities, output)
        print_result("\n".join(used.summary), used.to_json(), as_json)
    else:
        found = score_corpus(translator, corpus, target_memory, memories=opened, approved=approved)
        if output or not as_json:
            _write_scores(found.log_probabilities, output)
        if as_json:
            print_result("", found.to_json(), as_json)
        else:
            say("\n".join(found.summary))


def _check_score_options(given: set[str]) -> None:
    """Refuse what does not go together, and what is incomplete."""
    for option, (others, fix) in _APART.items():
        if option in given and (found := [other for other in others if other in given]):
            raise UserError(f"does not go with {found[0]}", where=option, fix=fix)
    if "--context" in given and not given & {"--contrastive", "--ctxpro"}:
        fix = "leave it out; --context-use measures a corpus with other context and without"
        raise UserError("goes with --contrastive or --ctxpro", where="--context", fix=fix)
    if "--ctxpro" in given and "SRC" not in given:
        fix = "add SRC: a line for each example, its sentences separated by <eos>"
        raise UserError("the inputs of the set are missing", where="--ctxpro", fix=fix)
    if not given & {"SRC", "--contrastive"}:
        fix = "add SRC TRG, or --contrastive SET"
        raise UserError("nothing to score is given", where="score", fix=fix)


def _print_accuracy(
    groups: Iterable[Sequence[ItemScore | ItemTranslation]],
    context: ItemContext,
    output: Path | None,
    as_json: bool,
) -> None:
    """Count what is right; items go into the file ``output`` as they are ready."""
    items: list[ItemScore | ItemTranslation] = []
    with open_output(output) if output else nullcontext() as stream:
        for group in groups:
            items += group
            if stream:
                lines = (json.dumps(item.to_json(), ensure_ascii=False) for item in group)
                write_lines(stream, lines)
    found = count_right(items, context)
    print_result("\n".join(found.summary), found.to_json(), as_json)


def _write_scores(log_probabilities: Sequence[float], output: Path | None) -> None:
    with open_output(output) as stream:
        write_lines(stream, (f"{found:.6f}" for found in log_probabilities))


def params(
    config: ConfigArgument = "paper",
    src_vocab: Annotated[int, Option(help="Source vocabulary.", min=1, max=MOST)] = 25_100,
    trg_vocab: Annotated[int, Option(help="Target vocabulary.", min=1, max=MOST)] = 21_000,
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
    rounds: Annotated[
        int, Option(help="Rounds of turns: the more, the less noise.", min=1, max=1000)
    ] = 3,
    sentences: Annotated[
        int,
        Option(
            help="Sentences to translate, in documents of up to so many.", min=10, max=1_000_000
        ),
    ] = 1000,
    memory: Annotated[
        int,
        Option(
            help="Pairs of the translation memory to build and search.", min=100, max=10_000_000
        ),
    ] = 1_000_000,
    as_json: JsonFlag = False,
) -> None:
    """Speed of training and translating on this machine, one thread, as ratios within one run."""
    if run:
        load_model_config(run)

    from wholedoc.benchmark.bench import format_bench, run_bench

    found = run_bench(run, ("small", "paper"), rounds, sentences, memory)
    print_result(format_bench(found), dataclasses.asdict(found), as_json)
