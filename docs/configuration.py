"""Write ``docs/configuration.md`` from the dataclasses of ``wholedoc.config``.

Run ``python docs/configuration.py`` after a change there; a test compares the page.
"""

import ast
import dataclasses
import inspect
import textwrap
import types
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from wholedoc.config import Config, load_config, shipped_configs

PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Configuration

A configuration is a TOML file. Every value has a default, so a file holds only what differs; an unknown key is refused. `base` names a shipped configuration whose values hold wherever the file says nothing. `--set section.key=value` on the command line wins over the file. This page is made from `wholedoc/config.py` by `python docs/configuration.py`.

```toml
base = "small"
seed = 1

[data.train]
src = "train.et"
trg = "train.en"
doc = "train.doc"

[model]
memory = "both"
fusion = "output"
```

The columns `paper`, `small` and `tiny` are the shipped configurations; an empty cell is the default.
"""  # noqa: E501 (a paragraph is a line of Markdown)
KINDS = {int: "whole number", float: "number", bool: "`true` or `false`", str: "text"}


def make_page() -> str:
    """The whole page."""
    shipped = {name: load_config(name) for name in shipped_configs()}
    hints = get_type_hints(Config, include_extras=True)
    sections = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    plain = [name for name in hints if name not in sections]
    parts = [HEAD, f"## Top level\n\n{make_table(Config, plain, '', shipped)}"]
    for name, cls in sections.items():
        meaning = read_docstrings(Config)[name]
        names = get_type_hints(cls, include_extras=True)
        inner = {key: hint for key, hint in names.items() if dataclasses.is_dataclass(hint)}
        keys = [key for key in names if key not in inner]
        parts.append(f"## [{name}]\n\n{meaning}\n\n{make_table(cls, keys, f'{name}.', shipped)}")
        if inner:
            rows = [f"- `[{name}.{key}]`: {read_docstrings(cls)[key]}" for key in inner]
            files = next(iter(inner.values()))
            table = make_table(files, list(get_type_hints(files)), f"{name}.train.", shipped)
            parts.append("\n".join(["Each corpus is a section of its own:\n", *rows, "", table]))
    return "\n\n".join(part.strip() for part in parts) + "\n"


def make_table(cls: Any, keys: list[str], prefix: str, shipped: dict[str, Config]) -> str:
    """A row for each key: meaning, values, default, and the values of the shipped ones."""
    meanings = read_docstrings(cls)
    hints = get_type_hints(cls, include_extras=True)
    defaults = {field.name: field.default for field in dataclasses.fields(cls)}
    rows = [["key", "meaning", "values", "default", *shipped], ["---"] * (4 + len(shipped))]
    for key in keys:
        chosen = [look_up(config, f"{prefix}{key}") for config in shipped.values()]
        cells = ["" if value == defaults[key] else show(value) for value in chosen]
        values = describe(hints[key])
        rows.append([f"`{key}`", meanings[key], values, show(defaults[key]), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def read_docstrings(cls: Any) -> dict[str, str]:
    """The docstring under each field, those of base classes too."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        statements = body.body if isinstance(body, ast.ClassDef) else []
        for statement, after in pairwise(statements):
            if isinstance(statement, ast.AnnAssign) and isinstance(after, ast.Expr):
                text = " ".join(ast.literal_eval(after.value).split())
                found[ast.unparse(statement.target)] = text.replace("``", "`").replace("|", "\\|")
    return found


def describe(hint: Any) -> str:
    """The values that a field takes."""
    interval = None
    if get_origin(hint) is Annotated:
        hint, interval = get_args(hint)
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    kind = KINDS[hint if isinstance(hint, type) else types.NoneType]
    return f"{kind}, {interval}" if interval else kind


def look_up(config: Config, key: str) -> Any:
    """The value of ``section.key``."""
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def show(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{str(value).lower()}`"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
