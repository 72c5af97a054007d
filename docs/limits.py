"""Write ``docs/limits.md`` from the code: the largest value of everything that users can give.

Run ``python docs/limits.py`` after a change; a test compares the page.
"""

import ast
import dataclasses
import inspect
import runpy
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from wholedoc import config
from wholedoc.cli import app
from wholedoc.corpus import glossary
from wholedoc.corpus.readers import lines
from wholedoc.decoding.document import MOST_WEIGHED
from wholedoc.experiment.grid import ExperimentConfig
from wholedoc.formats import markdown, textdata, xml
from wholedoc.service import deepl
from wholedoc.service.core import Limits
from wholedoc.synthetic import language
from wholedoc.tm import writer

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Limits

Everything that a user can give has a largest value. What is larger is refused in one line, with exit code 2 or a status of HTTP from 400 on, before anything is made of it. A number without cost, such as a threshold, goes up to a thousand million. This page is made by `python docs/limits.py`.

Models are as large as their configuration says: `vocabulary.size` times `model.embedding` is at most {embedded:,}. Training keeps weights, gradients and the sums of Adam, 16 bytes for each parameter, which `wholedoc params` counts, and in proportion to `batch_tokens` what a batch needs. Corpora, memories and documents of lines are read part by part; a document that is read whole takes memory in proportion to its sentences; what each sentence reads of each other is kept up to {weighed:,} sentences.
"""  # noqa: E501 (a paragraph is a line of Markdown)
FILES = (
    ("a line of a corpus, an input or a glossary", "bytes", lines, "MOST_LINE_BYTES"),
    ("a configuration or an experiment", "bytes", config, "MOST_TOML_BYTES"),
    ("a glossary", "bytes", glossary, "MOST_BYTES"),
    ("a side of an entry of a translation memory", "characters", writer, "MAX_CHARACTERS"),
    ("a Markdown file", "bytes", markdown, "MOST_BYTES"),
    ("a paragraph of Markdown", "characters", markdown, "MOST_BLOCK"),
    ("a file of text that is read whole", "lines and tags", textdata, "MOST_PARTS"),
    ("XML that is read whole", "tags and attributes", xml, "MOST_TAGS"),
    ("an archive (.docx, .odt)", "members", xml, "MOST_MEMBERS"),
    ("a member of an archive, unpacked", "bytes", xml, "MOST_MEMBER"),
    ("an XML member that is read", "bytes", xml, "MOST_XML"),
    ("an archive, unpacked", "bytes", xml, "MOST_TOTAL"),
    ("a member, unpacked, above 10 MB", "times its packed size", xml, "MOST_RATIO"),
    ("an artificial corpus, each split", "documents", language, "MOST_DOCUMENTS"),
    ("an artificial language, each kind", "words", language, "MOST_WORDS"),
)
"""What of a file, the unit, and the constant that limits it."""


def find_settings(cls: Any, prefix: str = "") -> Iterator[tuple[str, Any, config.Interval | None]]:
    """The numbers of a configuration: name, type, range."""
    for name, hint in get_type_hints(cls, include_extras=True).items():
        inner = get_args(hint)[0] if isinstance(hint, types.UnionType) else hint
        if dataclasses.is_dataclass(inner):
            yield from find_settings(inner, f"{prefix}{name}.")
            continue
        inner = get_args(inner)[0] if get_origin(inner) is tuple else inner
        if get_origin(inner) is Annotated:
            kind, interval = get_args(inner)
            yield f"{prefix}{name}", kind, interval
        elif inner in (int, float):
            yield f"{prefix}{name}", inner, None


def find_options() -> Iterator[tuple[str, str, Any]]:
    """The numbers of the command line: command, option, what typer knows of it."""
    commands = runpy.run_path(str(PAGE.with_name("commands.py")))
    groups = [(app, ""), *((each.typer_instance, "tm ") for each in app.registered_groups)]
    for group, prefix in groups:
        for command in commands["find_commands"](group, prefix):
            for option in commands["read_parameters"](command.function):
                if option.kind in (int, float):
                    yield command.name, option.flags.strip("`"), option.info


def make_page() -> str:
    """The whole page."""
    parts = [HEAD.format(embedded=config.MOST_EMBEDDED, weighed=MOST_WEIGHED)]
    rows = [(f"`{name}`", i.low, i.high) for name, _, i in find_settings(config.Config) if i]
    title = "## Configuration\n\nSet in a file, by `--set`, or in Python."
    parts.append(_table(title, ("value", "least", "most"), rows))
    rows = [
        (f"`{name}`", i.low, i.high)
        for name, _, i in find_settings(ExperimentConfig)
        if i and not name.startswith("synth.")
    ]
    parts.append(_table("## Experiments", ("value", "least", "most"), rows))
    rows = [(f"`{name} {flag}`", info.min, info.max) for name, flag, info in find_options()]
    parts.append(_table("## Command line", ("option", "least", "most"), rows))
    files = [(what, getattr(module, name), unit) for what, unit, module, name in FILES]
    parts.append(_table("## Files", ("what", "most", ""), files))
    meanings = _docstrings(Limits)
    service = [
        (f"`{each.name}`", each.default, meanings.get(each.name, ""))
        for each in dataclasses.fields(Limits)
    ]
    service.append(("texts of a request in DeepL's dialect", deepl._MOST_TEXTS, ""))
    title = "## Service\n\nWhat is larger gets 413; where there is no room, 503 with `Retry-After`."
    parts.append(_table(title, ("limit", "most", ""), service))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _table(title: str, head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines_ = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines_ += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return f"{title}\n\n" + "\n".join(lines_)


def _cell(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,}" if value == int(value) and 1000 <= value < 1e15 else f"{value:g}"
    return str(value)


def _docstrings(cls: type) -> dict[str, str]:
    """The texts under the fields of a class."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            value = ast.literal_eval(text.value)
            found[ast.unparse(field.target)] = " ".join(str(value).split())
    return found


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
