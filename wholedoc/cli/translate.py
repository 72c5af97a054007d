"""The commands ``translate`` and ``segments``."""

import dataclasses
import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from typer import Argument, Option

from wholedoc.app.documents import (
    SentenceTranslator,
    describe,
    list_segments,
    show_segments,
    translate_document,
)
from wholedoc.app.lines import (
    KnownLines,
    check_output,
    open_output,
    read_approved,
    refuse_markup,
    translate_lines,
    write_lines,
)
from wholedoc.app.terms import TermReport
from wholedoc.cli.bulk import BulkOptions, describe_work, refuse_collections, translate_bulk
from wholedoc.cli.options import (
    DocOption,
    FormatOption,
    JsonFlag,
    MemoriesOption,
    ModelArgument,
    NoMemoryFlag,
    given_options,
    name_standard_output,
    print_result,
)
from wholedoc.config import Config, FirstPass, Order, SearchConfig, UnknownWords, load_model_config
from wholedoc.corpus.glossary import Glossary
from wholedoc.corpus.readers import SourceDocument, SourceText, read_source_lines
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.formats import find_format, format_named, read_document
from wholedoc.formats.plaintext import PlainText
from wholedoc.formats.segments import DocumentFile
from wholedoc.formats.sentences import describe_splitting
from wholedoc.progress import ProgressBar, say

if TYPE_CHECKING:
    from wholedoc.app.explain import Explanation
    from wholedoc.decoding.results import TranslatedDocument
    from wholedoc.decoding.translator import Translator

_ROWS = 1000  # of a collection, whose translations make a file


def _of_model(text: str, least: int | None = None, most: int | None = None) -> Any:
    """An option whose default is kept with the model."""
    return Option(help=text, show_default="of the model", min=least, max=most)


def translate(
    model: ModelArgument,
    inputs: Annotated[
        list[str] | None, Argument(metavar="INPUT", help="Documents; standard input without any.")
    ] = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="A file; a folder for several inputs.")
    ] = None,
    form: FormatOption = "",
    doc: DocOption = "",
    beam: Annotated[int | None, _of_model("Beam width; 1 is greedy.", least=1, most=100)] = None,
    nbest: Annotated[int, Option(help="Translations per sentence.", min=1, max=100)] = 1,
    passes: Annotated[
        int | None, _of_model("Updates of each translation, given the document.", least=0, most=100)
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
    glossary: Annotated[
        str,
        Option(
            metavar="FILE", help="Terms that must come out as given: source<TAB>target, or TBX."
        ),
    ] = "",
    as_json: Annotated[
        bool, Option("--json", help="Print one JSON object per document; translations go to -o.")
    ] = False,
    jobs: Annotated[
        int | None, Option(help="Translate a collection in so many processes.", min=1, max=10_000)
    ] = None,
    ray: Annotated[
        str | None,
        Option(metavar="[ADDRESS]", help="Translate a collection on a Ray cluster, or one here."),
    ] = None,
    shard: Annotated[
        int, Option(help="Rows of a collection whose translations make a file.", min=1, max=100_000)
    ] = _ROWS,
) -> None:
    """Translate documents.

    Text comes out line by line, one line for each line in. Documents in other formats, told by
    their endings or --format, come back in their format. With --jobs or --ray, files, folders, JSON
    lines and Parquet are translated by many workers; run again, the command goes on.
    """
    sources = inputs or ["-"]
    output = None if output == Path("-") else output
    bulk = BulkOptions(jobs, ray, shard, form)
    beside = {"--doc": doc, "--approved": approved}
    if bulk.given:
        others = {"--explain": explain, "--json": as_json, "--shuffle-memory": shuffle_memory}
        bulk.refuse({**beside, **others, "--nbest": nbest > 1})
    else:
        refuse_collections(sources, form)
        formats = [_choose_format(source, form) for source in sources]
        _check_formats(formats, {**beside, "--nbest": nbest > 1})
        _check_shard(shard)
        places = _check_places(sources, output, beside, explain, glossary)
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
    if bulk.given:
        work = describe_work(model, search, memories or [], glossary, int8, no_tm)
        translate_bulk(sources, output, bulk, work)
        return
    if explain and search.shuffle_memory:
        what = "does not go with shuffled memory, where sentences read another document"
        raise UserError(what, where="--explain", fix="leave one out")
    data = config.data
    if "-" in sources and sys.stdin.isatty():
        say("reading standard input: a sentence to a line, Ctrl+D ends it")
    texts = [
        read_document(chosen, source, data.src_language, data.trg_language)
        if chosen
        else _read_lines(source, doc, form)
        for source, chosen in zip(sources, formats, strict=True)
    ]
    terms = Glossary.read(glossary, data.src_language, data.trg_language) if glossary else None
    given_lines = (
        read_approved(approved, texts[0]) if approved and isinstance(texts[0], SourceText) else ()
    )

    from wholedoc.app.explain import Explanation
    from wholedoc.decoding.translator import Translator

    translator = Translator.load(model, int8=int8, own_memory=not no_tm)
    known = KnownLines(translator.open_memories(memories or []), given_lines, terms)
    if given.get("replace_unknown") == "lexicon" and not translator.trained.lexicon:
        fix = "use copy instead of lexicon"
        raise UserError(f"{model} has no lexicon", where="--replace-unknown", fix=fix)
    names = ["standard input" if source == "-" else source for source in sources]
    page = None
    if explain:
        page = Explanation(model, names[0], config.model, search, translator.reads_documents)
    for name, text, place in zip(names, texts, places, strict=True):
        if isinstance(text, SourceText):
            _translate_text(translator, name, text, place, search, nbest, known, page, as_json)
        else:
            keep = _Keep(page, sys.stdout if as_json else None)
            _translate_file(translator, name, text, place, search, known, keep)
    if page and explain:
        page.write(explain)


def _translate_text(
    translator: "Translator",
    name: str,
    text: SourceText,
    place: Path | None,
    search: SearchConfig,
    nbest: int,
    known: KnownLines,
    page: "Explanation | None",
    as_json: bool,
) -> None:
    """Translate lines; with JSON, they are written only where there is a place for them."""
    if translator.reads_documents:
        say(f"{name}: {text.summary}")
    with open_output(place) as stream:
        keep = _Keep(page, sys.stdout if as_json else None)
        lines = io.StringIO() if as_json and place is None else stream
        wanted = keep if page or as_json else None
        translate_lines(translator, text, lines, search, nbest, wanted, known)


def _translate_file(
    translator: "Translator",
    name: str,
    file: DocumentFile,
    place: Path | None,
    search: SearchConfig,
    known: KnownLines,
    keep: "_Keep",
) -> None:
    """Translate a document in its format."""
    if note := describe_splitting(translator.config.data.src_language):
        say(note)
    rounds = 1 + search.passes if translator.reads_documents else 1
    with ProgressBar("translating", max(rounds * len(file.segments), 1)) as bar:
        given = (known.memories, bar.advance, known.glossary)
        sentences = SentenceTranslator(translator, search, *given)
        done = translate_document(sentences, file, explain=keep.wanted)
    keep(SourceDocument(name, tuple(enumerate(done.text.sentences))), done.translated)
    if place is not None:
        write_atomically(place, done.data)
    elif not keep.json:
        with name_standard_output():
            sys.stdout.buffer.write(done.data)
    say(f"{name}: {describe(done.text)}")
    if known.glossary is not None:
        terms = TermReport("sentence")
        terms.add(range(1, len(done.text.sentences) + 1), done.translated)
        say(str(terms))


def segments(
    file: Annotated[str, Argument(metavar="FILE", help="A document.")],
    form: FormatOption = "",
    language: Annotated[
        str, Option(help="Of the document, for its sentences.", show_default="en")
    ] = "",
    as_json: JsonFlag = False,
) -> None:
    """Show what is found in a document: its segments, their tags, their sentences."""
    chosen = _choose_format(file, form) or PlainText
    found = list_segments(read_document(chosen, file, language, ""), language or "en")
    print_result(show_segments(found), {"format": chosen.name, "segments": found}, as_json)


@dataclass(frozen=True)
class _Keep:
    """What becomes of each translated document beside its lines: a page, JSON, or both."""

    page: "Explanation | None"
    json: TextIO | None

    @property
    def wanted(self) -> bool:
        """Whether anything becomes of it."""
        return self.page is not None or self.json is not None

    def __call__(self, document: SourceDocument, translated: "TranslatedDocument") -> None:
        """Take one more document."""
        if self.page is not None:
            self.page.add(document, translated)
        if self.json is not None:
            values = {"document": document.name, **translated.to_dict()}
            write_lines(self.json, [json.dumps(values, ensure_ascii=False)])


def _choose_format(source: str, name: str) -> type[DocumentFile] | None:
    """The format of an input; None for lines."""
    if name == "lines":
        return None
    found = format_named(name) if name else find_format(source)
    packed = find_format(source.removesuffix(".gz"))
    if found is None and packed is not None:
        what = f"is {packed.name}, gzipped"
        raise UserError(what, where=source, fix="unpack it, or add --format lines")
    return found


def _read_lines(source: str, doc: str, form: str) -> SourceText:
    """Lines to translate, unless they are those of markup."""
    text = read_source_lines(sys.stdin.buffer if source == "-" else source, doc)
    if form != "lines":
        refuse_markup(text.lines, "standard input" if source == "-" else source)
    return text


def _check_formats(formats: list[type[DocumentFile] | None], options: dict[str, Any]) -> None:
    """Refuse options for lines where an input is a document in another format."""
    for chosen in formats:
        for option, value in options.items():
            if chosen is not None and value:
                what = f"goes with lines of text, not with {chosen.name}"
                raise UserError(what, where=option, fix="leave it out, or add --format lines")


def _check_shard(rows: int) -> None:
    if rows != _ROWS:
        fix = "leave it out, or add --jobs or --ray"
        raise UserError("goes with a collection", where="--shard", fix=fix)


def _check_places(
    sources: list[str],
    output: Path | None,
    beside: dict[str, str],
    explain: Path | None,
    glossary: str = "",
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
    read = [*sources, *beside.values(), glossary]
    check_output(explain, read, "--explain")
    for place in places:
        check_output(place, read)
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
