"""Write ``docs/commands/``, a page for each command, from the functions of ``wholedoc.cli``.

Run ``python docs/commands.py`` after a change there; a test compares the pages.
"""

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from wholedoc.cli import app

FOLDER = Path(__file__).with_suffix("")
MADE_BY = "This page is made from `wholedoc/cli` by `python docs/commands.py`."
INDEX = f"""# Commands

`wholedoc COMMAND --help` prints what these pages say. Results go to standard output, all else to standard error, and commands that report take `--json`. Exit codes: 0 done; 2 the input is at fault, and one line says what, where, what to do; 130 interrupted; 1 anything else. `WHOLEDOC_TRACEBACK=1` shows where in the code an error arose. {MADE_BY}
"""  # noqa: E501 (a paragraph is a line of Markdown)
KINDS = {int: "whole number", float: "number", str: "text", Path: "path"}


@dataclass(frozen=True)
class Command:
    """A command as it was registered."""

    name: str
    """With that of its group: ``tm build``."""
    function: Callable[..., Any]
    epilog: str

    @property
    def summary(self) -> str:
        """The first paragraph of its help."""
        return self.help.partition("\n\n")[0]

    @property
    def help(self) -> str:
        """What it does, a paragraph in a line."""
        paragraphs = (inspect.getdoc(self.function) or "").split("\n\n")
        return "\n\n".join(" ".join(each.split()) for each in paragraphs)

    @property
    def examples(self) -> list[str]:
        """Command lines."""
        return [line for line in self.epilog.split("\n\n") if line.startswith("wholedoc ")]


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command."""

    name: str
    kind: Any
    """The type of its value; of one of them, where there may be several."""
    several: bool
    default: Any
    info: ArgumentInfo | OptionInfo

    @property
    def required(self) -> bool:
        """Whether a command line must have it."""
        return self.default is inspect.Parameter.empty

    @property
    def synopsis(self) -> str:
        """An argument as it stands in a command line."""
        shown = str(self.info.metavar) if self.required else f"[{self.info.metavar}]"
        return f"{shown}..." if self.several else shown

    @property
    def flags(self) -> str:
        """An option as it is written: ``--port``."""
        given = (self.info.default, *(self.info.param_decls or ()))  # typer keeps one as default
        written = [each for each in given if isinstance(each, str)]
        return ", ".join(f"`{each}`" for each in written or [f"--{self.name.replace('_', '-')}"])

    @property
    def value(self) -> str:
        """What an option takes."""
        if self.kind is bool:
            return ""
        if get_origin(self.kind) is Literal:
            return ", ".join(f"`{choice}`" for choice in get_args(self.kind))
        shown = f"`{self.info.metavar}`" if self.info.metavar else KINDS[self.kind]
        low, high = self.info.min, self.info.max
        if low is not None and high is not None:
            return f"{shown}, {low:,} to {high:,}"
        return shown if low is None else f"{shown}, at least {low:,}"

    @property
    def shown_default(self) -> str:
        """What holds where an option is not given."""
        if self.required:
            return "required"
        if isinstance(self.info.show_default, str):
            return self.info.show_default
        nothing = self.default is None or self.default is False or self.default == ""
        return "" if nothing else f"`{self.default}`"

    @property
    def meaning(self) -> str:
        """Its help, and where else it may be set."""
        text = str(self.info.help).replace("<", "&lt;").replace("|", "\\|")
        return f"{text} Or set `{self.info.envvar}`." if self.info.envvar else text


def find_commands(group: typer.Typer, prefix: str = "") -> list[Command]:
    """The commands of a group, in their order."""
    return [
        Command(f"{prefix}{each.callback.__name__}", each.callback, str(each.epilog))
        for each in group.registered_commands
        if each.callback is not None
    ]


def read_parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a command, from its signature."""
    hints = get_type_hints(function, include_extras=True)
    found = []
    for name, given in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])
        if get_origin(kind) in (types.UnionType, Union):
            (kind,) = (each for each in get_args(kind) if each is not types.NoneType)
        several = get_origin(kind) is list
        (kind,) = get_args(kind) if several else (kind,)
        found.append(Parameter(name, kind, several, given.default, info))
    return found


def describe(command: Command, level: str = "#") -> str:
    """Synopsis, meaning, arguments, options and examples of a command."""
    parameters = read_parameters(command.function)
    arguments = [each for each in parameters if isinstance(each.info, ArgumentInfo)]
    options = [each for each in parameters if isinstance(each.info, OptionInfo)]
    needed = [each.flags.strip("`") for each in options if each.required]
    pieces = [command.name, *(f"{flag} …" for flag in needed), "[OPTIONS]"]
    synopsis = " ".join(["wholedoc", *pieces, *(each.synopsis for each in arguments)])
    parts = [f"{level} wholedoc {command.name}", f"`{synopsis}`", command.help]
    if arguments:
        rows = [[f"`{each.info.metavar}`", each.meaning] for each in arguments]
        parts.append(make_table(["argument", ""], rows))
    if options:
        rows = [[each.flags, each.value, each.meaning, each.shown_default] for each in options]
        parts.append(make_table(["option", "value", "", "default"], rows))
    parts.append("\n".join(["```", *command.examples, "```"]))
    return "\n\n".join(parts)


def make_table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def make_pages() -> dict[str, str]:
    """All pages by their names."""
    pages, rows = {}, []
    for command in find_commands(app):
        pages[f"{command.name}.md"] = f"{describe(command)}\n\n{MADE_BY}\n"
        rows.append([f"[`{command.name}`]({command.name}.md)", command.summary])
    for group in filter(None, (each.typer_instance for each in app.registered_groups)):
        name, members = group.info.name, find_commands(group, f"{group.info.name} ")
        parts = [f"# wholedoc {name}", str(group.info.help), *(describe(m, "##") for m in members)]
        pages[f"{name}.md"] = "\n\n".join([*parts, MADE_BY]) + "\n"
        for each in members:
            anchor = f"{name}.md#wholedoc-{each.name.replace(' ', '-')}"
            rows.append([f"[`{each.name}`]({anchor})", each.summary])
    pages["README.md"] = f"{INDEX}\n{make_table(['command', ''], rows)}\n"
    return pages


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for page in FOLDER.glob("*.md"):
        page.unlink()
    for file, text in make_pages().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
