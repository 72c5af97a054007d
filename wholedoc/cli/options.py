"""Options that several commands share, and how results are printed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from wholedoc.config import shipped_configs
from wholedoc.errors import UserError

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object, nothing else.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Set a value, such as model.hidden=256; any number."
    ),
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A run directory, or what export made of one.")
]
ConfigArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONFIG", help=f"A TOML file, or a shipped one: {', '.join(shipped_configs())}."
    ),
]
DocOption = Annotated[str, typer.Option("--doc", help="Document ids, or start-line indices.")]


@contextmanager
def name_standard_output() -> Iterator[None]:
    """Around what prints results: an error on the way out names standard output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot write: {error.strerror}",
            where="standard output",
            fix="make room or send it elsewhere",
        ) from error


@name_standard_output()
def print_json(values: Any) -> None:
    """Print one JSON object on standard output."""
    print(json.dumps(values, ensure_ascii=False, indent=2))
