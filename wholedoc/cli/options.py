"""Options that several commands share, and how results are printed."""

import json
from contextlib import AbstractContextManager
from typing import Annotated, Any

from rich.console import Console, RenderableType
from typer import Argument, Option

from wholedoc.config import shipped_configs, shipped_models
from wholedoc.files import name_file
from wholedoc.formats import FORMATS

JsonFlag = Annotated[bool, Option("--json", help="Print one JSON object, nothing else.")]
Settings = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set a value, such as model.hidden=256; any number."),
]
_MODELS = f", or {' or '.join(shipped_models())}, which come with wholedoc"
ModelArgument = Annotated[
    str, Argument(metavar="MODEL", help=f"A run directory, an export{_MODELS}.")
]
SHIPPED = f"A TOML file, or a shipped one: {', '.join(shipped_configs())}."
ConfigArgument = Annotated[str, Argument(metavar="CONFIG", help=SHIPPED)]
MemoriesOption = Annotated[
    list[str] | None,
    Option("--tm", metavar="TM", help="Recall from a translation memory; any number."),
]
NoMemoryFlag = Annotated[bool, Option("--no-tm", help="Do not recall from the model's own memory.")]
FormatOption = Annotated[
    str,
    Option(
        "--format",
        metavar="FORMAT",
        help=f"lines, {', '.join(each.name for each in FORMATS)}.",
        show_default="by the file's ending, else lines",
    ),
]
DocOption = Annotated[str, Option("--doc", help="Document ids, or start-line indices.")]


def name_standard_output() -> AbstractContextManager[None]:
    """Around what prints results: an error on the way out names standard output."""
    return name_file("standard output", "make room or send it elsewhere")


def print_result(shown: RenderableType, values: Any = None, as_json: bool = False) -> None:
    """Print a result on standard output: text or a table, or its values as one JSON object."""
    with name_standard_output():
        if as_json:
            print(json.dumps(values, ensure_ascii=False, indent=2))
        elif isinstance(shown, str):
            print(shown)
        else:
            Console().print(shown)


def given_options(**options: Any) -> dict[str, Any]:
    """The options that were given on the command line: those that are not None."""
    return {name: value for name, value in options.items() if value is not None}
