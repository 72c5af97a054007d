"""Commands for corpora: ``stats`` measures them, ``synth`` writes an artificial one."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table
from typer import Argument, Option

from wholedoc.cli.options import DocOption, JsonFlag, given_options, print_result
from wholedoc.config import MOST, MOST_SEED, CorpusFiles, DataConfig, load_config
from wholedoc.errors import UserError
from wholedoc.synthetic import MOST_DOCUMENTS, SynthConfig, write_synth

if TYPE_CHECKING:
    from wholedoc.corpus.statistics import Statistics


def stats(
    corpora: Annotated[
        list[str] | None,
        Argument(metavar="CORPUS", help="Files or folders of both sides, or TOML configurations."),
    ] = None,
    src: Annotated[str, Option(help="Source side, or the file of both sides.")] = "",
    trg: Annotated[str, Option(help="Target side.")] = "",
    doc: DocOption = "",
    src_language: Annotated[str | None, Option(help="Where a file holds several.")] = None,
    trg_language: Annotated[str | None, Option(help="Where a file holds several.")] = None,
    min_sentences: Annotated[
        int | None, Option(help="Leave out shorter documents.", min=1, max=MOST)
    ] = None,
    max_words: Annotated[
        int | None, Option(help="Leave out longer pairs; 0: none.", min=0, max=MOST)
    ] = None,
    max_ratio: Annotated[
        float | None, Option(help="Leave out uneven pairs; 0: none.", min=0, max=MOST)
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
    given = given_options(
        src_language=src_language,
        trg_language=trg_language,
        min_sentences=min_sentences,
        max_words=max_words,
        max_ratio=max_ratio,
    )
    measured = {
        name: _measure_training_set(dataclasses.replace(data, **given))
        for name, data in chosen.items()
    }
    objects = {name: dataclasses.asdict(found) for name, found in measured.items()}
    values = {"corpora": objects} if len(objects) > 1 else next(iter(objects.values()))
    print_result(_make_table(measured), values, as_json)


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
    from wholedoc.corpus.documents import Filters
    from wholedoc.corpus.readers import read_corpus
    from wholedoc.corpus.statistics import measure_corpus

    corpus = read_corpus(data.train, data.src_language, data.trg_language)
    return measure_corpus(corpus, Filters(data.min_sentences, data.max_words, data.max_ratio))


def _make_table(measured: "dict[str, Statistics]") -> Table:
    """A column per corpus, a row per measure."""
    table = Table("")
    for name in measured:
        table.add_column(name, justify="right", overflow="fold")
    for measure in dataclasses.fields(next(iter(measured.values()))):
        values = [getattr(found, measure.name) for found in measured.values()]
        cells = [
            f"{v:,.1f}".removesuffix(".0") if isinstance(v, int | float) else v for v in values
        ]
        table.add_row(measure.name.replace("_", " "), *map(str, cells))
    return table


def synth(
    directory: Annotated[Path, Argument(metavar="DIR", help="Where the corpus is written.")],
    seed: Annotated[
        int, Option(help="Fixes the language and all documents.", min=0, max=MOST_SEED)
    ] = 1,
    train: Annotated[
        int, Option(help="Training documents.", min=1, max=MOST_DOCUMENTS)
    ] = SynthConfig.train,
    dev: Annotated[
        int, Option(help="Development documents.", min=1, max=MOST_DOCUMENTS)
    ] = SynthConfig.dev,
    test: Annotated[
        int, Option(help="Test documents.", min=1, max=MOST_DOCUMENTS)
    ] = SynthConfig.test,
    force: Annotated[bool, Option("--force", help="Overwrite a corpus of other settings.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Write the artificial corpus on which only context resolves some words."""
    config = SynthConfig(seed=seed, train=train, dev=dev, test=test)
    summary = write_synth(directory, config, force=force)
    print_result(_format_synth(summary), summary, as_json)


def _format_synth(summary: dict[str, Any]) -> str:
    """The size of each split, and how well each kind of word can be translated."""
    lines = []
    for name, split in summary["splits"].items():
        lines.append(f"{name}: {split['documents']:,} documents, {split['sentences']:,} sentences")
        for kind, found in split["kinds"].items():
            bounds = ", ".join(
                f"{100 * bound['accuracy']:.1f} % from {information}"
                for information, bound in found["bounds"].items()
            )
            lines.append(f"  {kind}: {found['items']:,} items; at best {bounds}")
    return "\n".join(lines)
