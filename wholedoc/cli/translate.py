"""The command ``translate``."""

import dataclasses
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from typer import Argument, Option

from wholedoc.app.lines import (
    KnownLines,
    check_output,
    open_output,
    read_approved,
    translate_lines,
    write_lines,
)
from wholedoc.cli.options import (
    DocOption,
    MemoriesOption,
    ModelArgument,
    NoMemoryFlag,
    given_options,
)
from wholedoc.config import Config, FirstPass, Order, UnknownWords, load_model_config
from wholedoc.corpus.readers import SourceDocument, read_source_lines
from wholedoc.errors import UserError
from wholedoc.progress import say

if TYPE_CHECKING:
    from wholedoc.app.explain import Explanation
    from wholedoc.decoding.results import TranslatedDocument


def _of_model(text: str, least: int | None = None) -> Any:
    """An option whose default is kept with the model."""
    return Option(help=text, show_default="of the model", min=least)


def translate(
    model: ModelArgument,
    inputs: Annotated[
        list[str] | None, Argument(metavar="INPUT", help="Text files; standard input without any.")
    ] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="A file; a folder for several inputs.")
    ] = None,
    doc: DocOption = "",
    beam: Annotated[int | None, _of_model("Beam width; 1 is greedy.", least=1)] = None,
    nbest: Annotated[int, Option(help="Translations per sentence.", min=1)] = 1,
    passes: Annotated[
        int | None, _of_model("Updates of each translation, given the document.", least=0)
    ] = None,
    order: Annotated[
        Order | None, _of_model("Whether a pass sees its own new translations.")
    ] = None,
    first_pass: Annotated[
        FirstPass | None, _of_model("Which model makes the first translations.")
    ] = None,
    shuffle_memory: Annotated[
        bool, Option("--shuffle-memory", help="A control: read another document's memory.")
    ] = False,
    replace_unknown: Annotated[
        UnknownWords | None,
        _of_model("For an unknown word: nothing, its source word, or that translated."),
    ] = None,
    explain: Annotated[
        Path | None,
        Option(help="Write a page: what changed, what each sentence read, what was recalled."),
    ] = None,
    int8: Annotated[
        bool, Option("--int8", help="Multiply in 8 bits: faster on processors with VNNI.")
    ] = False,
    memories: MemoriesOption = None,
    no_tm: NoMemoryFlag = False,
    approved: Annotated[
        str, Option(help="Approved translations, line by line; empty where there are none.")
    ] = "",
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object per document instead of lines.")
    ] = False,
) -> None:
    """Translate text, line by line: one line out for each line in."""
    sources = inputs or ["-"]
    places = _check_places(sources, output, {"--doc": doc, "--approved": approved}, explain)
    given = given_options(
        beam=beam,
        passes=passes,
        order=order,
        first_pass=first_pass,
        shuffle_memory=shuffle_memory or None,
        replace_unknown=replace_unknown,
    )
    config = load_model_config(model)
    search = dataclasses.replace(config.search, **given)
    _check_options(config, given, nbest)
    if explain and search.shuffle_memory:
        what = "does not go with shuffled memory, where sentences read another document"
        raise UserError(what, where="--explain", fix="leave one out")
    texts = [read_source_lines(sys.stdin.buffer if s == "-" else s, doc) for s in sources]
    given_lines = read_approved(approved, texts[0]) if approved else ()

    from wholedoc.app.explain import Explanation
    from wholedoc.decoding.translator import Translator

    translator = Translator.load(model, int8=int8, own_memory=not no_tm)
    known = KnownLines(translator.open_memories(memories or []), given_lines)
    if given.get("replace_unknown") == "lexicon" and not translator.trained.lexicon:
        fix = "use copy instead of lexicon"
        raise UserError(f"{model} has no lexicon", where="--replace-unknown", fix=fix)
    names = ["standard input" if source == "-" else source for source in sources]
    page = None
    if explain:
        page = Explanation(model, names[0], config.model, search, translator.reads_documents)
    for name, text, place in zip(names, texts, places, strict=True):
        if translator.reads_documents:
            say(f"{name}: {text.summary}")
        with open_output(place) as stream:
            keep = _Keep(page, stream if as_json else None)
            lines = io.StringIO() if as_json else stream
            wanted = keep if page or as_json else None
            translate_lines(translator, text, lines, search, nbest, wanted, known)
    if page and explain:
        page.write(explain)


@dataclass(frozen=True)
class _Keep:
    """What becomes of each translated document beside its lines: a page, JSON, or both."""

    page: "Explanation | None"
    json: TextIO | None

    def __call__(self, document: SourceDocument, translated: "TranslatedDocument") -> None:
        """Take one more document."""
        if self.page is not None:
            self.page.add(document, translated)
        if self.json is not None:
            values = {"document": document.name, **translated.to_dict()}
            write_lines(self.json, [json.dumps(values, ensure_ascii=False)])


def _check_places(
    sources: list[str], output: Path | None, beside: dict[str, str], explain: Path | None
) -> list[Path | None]:
    """Where each input's translation goes, after a check that all outputs can be written."""
    several = len(sources) > 1
    for option, value in (*beside.items(), ("--explain", explain)):
        if value and several:
            raise UserError("goes with one input", where=option, fix="translate them one by one")
    names = [Path(source).name for source in sources]
    if output and len(set(names)) < len(names):
        what = "two inputs of the same name would be written to one file"
        raise UserError(what, where=str(output), fix="translate them one by one")
    if explain and output and explain.resolve() == output.resolve():
        what = "translations and page would be written to one file"
        raise UserError(what, where=str(explain), fix="choose another place with --explain")
    places = [output / name if output and several else output for name in names]
    check_output(explain, [*sources, *beside.values()], "--explain")
    for place in places:
        check_output(place, [*sources, *beside.values()])
    return places


def _check_options(config: Config, given: dict[str, Any], nbest: int) -> None:
    """Refuse options that would change nothing with this model."""
    if not config.model.reads_document:
        for name in ("passes", "order", "first_pass", "shuffle_memory"):
            if given.get(name):
                what = "this model translates each sentence by itself"
                fix = "leave it out, or give a model that reads documents"
                raise UserError(what, where=f"--{name.replace('_', '-')}", fix=fix)
    beam = given.get("beam", config.search.beam)
    if nbest > beam:
        what = f"a beam of {beam} does not hold {nbest} translations"
        raise UserError(what, where="--nbest", fix=f"add --beam {nbest}")
    if given.get("replace_unknown", "none") != "none" and config.vocabulary.kind == "subword":
        what = "this model spells every word by subwords, none is unknown"
        raise UserError(what, where="--replace-unknown", fix="leave it out")
