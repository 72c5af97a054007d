"""Loading a configuration: TOML files, ``--set section.key=value``, and the check of each value."""

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wholedoc.config.schema import Config
from wholedoc.errors import UserError

Checked = TypeVar("Checked")

_EXPERIMENT = "experiment-"


def load_config(path: str | Path, settings: Sequence[str] = ()) -> Config:
    """Read a TOML configuration (a file or the name of a shipped one) and apply ``key=value``s."""
    file = find_config(path)
    values = read_toml(file)
    for setting in settings:
        _apply(values, setting)
    return config_from_dict(values, where=str(file))


def read_toml(file: Path) -> dict[str, Any]:
    """The values of a TOML file."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(
            "not a text file", where=str(file), fix="a configuration is UTF-8 TOML"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"not valid TOML: {error}", where=str(file), fix="correct it") from error


def shipped_configs() -> dict[str, Path]:
    """The configurations that come with wholedoc, by name."""
    return {name: file for name, file in _shipped().items() if not name.startswith(_EXPERIMENT)}


def shipped_experiments() -> dict[str, Path]:
    """The experiments that come with wholedoc, by name."""
    return {name: file for name, file in _shipped().items() if name.startswith(_EXPERIMENT)}


def _shipped() -> dict[str, Path]:
    package = Path(__file__).parent.parent
    for folder in (package / "configs", package.parent / "configs"):  # installed; a checkout
        if folder.is_dir():
            return {file.stem: file for file in sorted(folder.glob("*.toml"))}
    return {}


def find_config(path: str | Path, shipped: Mapping[str, Path] | None = None) -> Path:
    """The file meant by a path or by the name of a shipped configuration, or experiment."""
    if Path(path).is_file():
        return Path(path)
    shipped = shipped_configs() if shipped is None else shipped
    if str(path) in shipped:
        return shipped[str(path)]
    if Path(path).is_dir():
        raise UserError("is a directory", where=str(path), fix="name a TOML file")
    known = ", ".join(shipped)
    raise UserError(
        "no such configuration", where=str(path), fix=f"give a TOML file or one of: {known}"
    )


def config_from_dict(values: Mapping[str, Any], where: str) -> Config:
    """Check nested dictionaries against the dataclasses; ``where`` names their file in errors."""
    config = build(Config, values, where)
    if config.model.tie == "all" and not config.vocabulary.shared:
        raise UserError(
            "model.tie = 'all' needs one vocabulary for both sides",
            where=where,
            fix="set vocabulary.shared=true or model.tie='target'",
        )
    if (config.model.memory == "none") != (config.model.fusion == "none"):
        raise UserError(
            f"model.memory = '{config.model.memory}' does not go with "
            f"model.fusion = '{config.model.fusion}'",
            where=where,
            fix="set both, or neither: a memory needs a fusion through which it is read",
        )
    if config.model.context != "none" and config.model.memory != "none":
        raise UserError(
            f"model.context = '{config.model.context}' does not go with "
            f"model.memory = '{config.model.memory}'",
            where=where,
            fix="set model.memory='none' and model.fusion='none', or model.context='none'",
        )
    if config.model.tie != "none" and config.model.embedding != config.model.hidden:
        raise UserError(
            f"model.tie = '{config.model.tie}' needs equal widths, but model.embedding is "
            f"{config.model.embedding} and model.hidden {config.model.hidden}",
            where=where,
            fix="make them equal or set model.tie='none'",
        )
    return config


def _apply(values: dict[str, Any], setting: str) -> None:
    """Put one ``section.key=value`` of the command line into the nested dictionaries."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise UserError(
            f"'{setting}' is not key=value", where="--set", fix="write e.g. --set model.hidden=256"
        )
    *sections, last = key.strip().split(".")
    for section in sections:
        inner = values.setdefault(section, {})
        if not isinstance(inner, dict):
            raise UserError(
                f"'{section}' is a value, not a section",
                where=f"--set {key}",
                fix=f"set {section} itself",
            )
        values = inner
    values[last] = _parse(text.strip())


def _parse(text: str) -> Any:
    """A TOML value where the text is one, the text itself otherwise."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def build(cls: type[Checked], values: Mapping[str, Any], where: str) -> Checked:
    """An instance of a dataclass from a dictionary; ``where`` names its file in errors."""
    checked: Checked = _build(cls, values, "", where)
    return checked


def _build(cls: Any, values: Any, prefix: str, where: str) -> Any:
    """An instance of dataclass ``cls`` from a dictionary, every key and value checked."""
    if not isinstance(values, Mapping):
        raise UserError(
            f"{prefix.rstrip('.')} must be a section, not {json.dumps(values, default=str)}",
            where=where,
            fix=f"set the keys of [{prefix.rstrip('.')}] one by one",
        )
    hints = get_type_hints(cls, include_extras=True)
    unknown = [key for key in values if key not in hints]
    if unknown:
        near = difflib.get_close_matches(unknown[0], hints, n=1, cutoff=0.5)
        fix = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(hints)}"
        raise UserError(f"unknown key {prefix}{unknown[0]}", where=where, fix=fix)
    checked = {}
    for key, value in values.items():
        hint = _without_none(hints[key])
        if dataclasses.is_dataclass(hint):
            checked[key] = _build(hint, value, f"{prefix}{key}.", where)
        else:
            checked[key] = _check(hint, value, f"{prefix}{key}", where)
    return cls(**checked)


def _without_none(hint: Any) -> Any:
    """The type of an optional section: TOML has no None, a section is there or not."""
    kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
    return kinds[0] if isinstance(hint, types.UnionType) and len(kinds) == 1 else hint


def _check(hint: Any, value: Any, key: str, where: str) -> Any:
    """The value as the field's type, or an error that names the key and what it takes."""
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise UserError(
                f"{key} = {json.dumps(value, default=str)} is not a list",
                where=where,
                fix=f"write {key} = [...]",
            )
        item = get_args(hint)[0]
        return tuple(_check(item, one, f"{key}[{i}]", where) for i, one in enumerate(value))
    interval = None
    if get_origin(hint) is Annotated:
        hint, interval = get_args(hint)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value in choices and isinstance(value, str):
            return value
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        fix = f"did you mean '{near[0]}'? " if near else ""
        raise UserError(
            f"{key} = {json.dumps(value, default=str)} is not a choice",
            where=where,
            fix=f"{fix}choices: {', '.join(choices)}",
        )
    hint = get_origin(hint) or hint
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        names: dict[types.GenericAlias | type, str] = {
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            str: "a text",
            dict: "a section",
        }
        raise UserError(
            f"{key} = {json.dumps(value, default=str)} is not {names[hint]}",
            where=where,
            fix=f"give {names[hint]}",
        )
    if isinstance(value, str) and value.encode(errors="replace").decode() != value:
        raise UserError(
            f"{key} = {json.dumps(value)} holds a byte that is not UTF-8",
            where=where,
            fix="rename the file",
        )
    if interval is not None and not interval.low <= value <= interval.high:
        raise UserError(
            f"{key} = {value} is out of range", where=where, fix=f"it must be {interval}"
        )
    return value
