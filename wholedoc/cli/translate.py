"""The command ``translate``."""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wholedoc.cli.options import DocOption
from wholedoc.config import FirstPass, Order, SearchConfig, UnknownWords
from wholedoc.errors import UserError

if TYPE_CHECKING:
    from wholedoc.app.explain import Explanation
    from wholedoc.decoding.translator import Translator


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
        bool, typer.Option("--int8", help="Round weights to 8 bits: faster, nearly the same.")
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
