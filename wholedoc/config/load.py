"""Loading a configuration: TOML files, ``--set section.key=value``, and the check of each value."""

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wholedoc.config.schema import Config
from wholedoc.errors import UserError

Checked = TypeVar("Checked")

_TYPE_NAMES: dict[types.GenericAlias | type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a section",
}


@dataclass
class _Origins:
    """Where values come from, so that an error names the place to mend."""

    file: str
    settings: dict[str, str] = field(default_factory=dict)
    """The ``--set`` options by their keys."""

    def of(self, *keys: str) -> str:
        """The last ``--set`` of one of these keys, of a section of it or inside it; or the file."""
        for key, setting in reversed(self.settings.items()):
            if any(f"{key}.".startswith(f"{k}.") or f"{k}.".startswith(f"{key}.") for k in keys):
                return f"--set {setting}"
        return self.file


def load_config(path: str | Path, settings: Sequence[str] = ()) -> Config:
    """Read a TOML configuration (a file or the name of a shipped one) and apply ``key=value``s.

    A file that begins with ``base = "small"`` only says what differs from that shipped one.
    """
    file = find_config(path)
    values, origins = read_toml(file), _Origins(str(file))
    base, shipped = values.pop("base", None), shipped_configs()
    if base is not None:
        if not isinstance(base, str) or base not in shipped:
            raise UserError(
                f"base = {json.dumps(base, default=str)} is not a shipped configuration",
                where=str(file),
                fix=f"choices: {', '.join(shipped)}",
            )
        values = _merge(read_toml(shipped[base]), values, str(file))
    for setting in settings:
        values = _merge(values, _parse(setting, origins), f"--set {setting}")
    config: Config = _build(Config, values, "", origins)
    _check_together(config, origins)
    return config


def _merge(below: Mapping[str, Any], above: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Nested dictionaries, the second one (from ``where``) over the first, section by section."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(above[key], dict):
            if not isinstance(below[key], dict):
                what = f"{key} = {json.dumps(below[key], default=str)} is a value, not a section"
                raise UserError(what, where=where, fix=f"set {key} itself")
            merged[key] = _merge(below[key], above[key], where)
    return merged


def _parse(setting: str, origins: _Origins) -> dict[str, Any]:
    """One ``section.key=value`` of the command line as nested dictionaries.

    The value is text where it is not a value of TOML.
    """
    key, equals, text = (part.strip() for part in setting.partition("="))
    if not equals or not key:
        raise UserError(
            f"'{setting}' is not key=value", where="--set", fix="write e.g. --set model.hidden=256"
        )
    origins.settings.pop(key, None)  # the last one counts, and comes last
    origins.settings[key] = setting
    value: Any = text
    with suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"value = {text}")["value"]
    *sections, last = key.split(".")
    values = {last: value}
    for section in reversed(sections):
        values = {section: values}
    return values


def load_model_config(directory: str | Path) -> Config:
    """The configuration of a trained model, from its run directory or export."""
    file = Path(directory) / "config.toml"
    if not Path(directory).is_dir():
        raise UserError("no such model", where=str(directory), fix="give the directory of a run")
    if not file.exists():
        raise UserError(
            "is not a run directory: config.toml is missing",
            where=str(directory),
            fix="give the directory that `wholedoc train` wrote",
        )
    return load_config(file)


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


def shipped_configs(*, experiments: bool = False) -> dict[str, Path]:
    """The configurations that come with wholedoc, by name; or the experiments."""
    package = Path(__file__).parent.parent
    folders = (package / "configs", package.parent / "configs")  # installed; a checkout
    files = next((sorted(folder.glob("*.toml")) for folder in folders if folder.is_dir()), [])
    return {f.stem: f for f in files if f.stem.startswith("experiment-") == experiments}


def find_config(path: str | Path, *, experiments: bool = False) -> Path:
    """The file meant by a path or by the name of a shipped configuration, or experiment."""
    shipped = shipped_configs(experiments=experiments)
    if Path(path).is_file():
        return Path(path)
    if str(path) in shipped:
        return shipped[str(path)]
    if Path(path).is_dir():
        raise UserError("is a directory", where=str(path), fix="name a TOML file")
    fix = f"give a TOML file or one of: {', '.join(shipped)}"
    raise UserError("no such configuration", where=str(path), fix=fix)


def _check_together(config: Config, origins: _Origins) -> None:
    """Refuse values that are good by themselves but do not go together."""
    names = ("tie", "memory", "fusion", "context")
    tie, memory, fusion, context = (getattr(config.model, name) for name in names)
    hidden, embedding = config.model.hidden, config.model.embedding
    if tie == "all" and not config.vocabulary.shared:
        what = "model.tie = 'all' needs one vocabulary for both sides"
        fix = "set vocabulary.shared=true or model.tie='target'"
        raise UserError(what, where=origins.of("model.tie", "vocabulary.shared"), fix=fix)
    if (memory == "none") != (fusion == "none"):
        what = f"model.memory = '{memory}' does not go with model.fusion = '{fusion}'"
        fix = "set both, or neither: a memory needs a fusion through which it is read"
        raise UserError(what, where=origins.of("model.memory", "model.fusion"), fix=fix)
    if context != "none" and memory != "none":
        what = f"model.context = '{context}' does not go with model.memory = '{memory}'"
        fix = "set model.memory='none' and model.fusion='none', or model.context='none'"
        raise UserError(what, where=origins.of("model.context", "model.memory"), fix=fix)
    if tie != "none" and embedding != hidden:
        widths = f"model.embedding is {embedding} and model.hidden {hidden}"
        what = f"model.tie = '{tie}' needs equal widths, but {widths}"
        where = origins.of("model.tie", "model.embedding", "model.hidden")
        raise UserError(what, where=where, fix="make them equal or set model.tie='none'")


def build(cls: type[Checked], values: Mapping[str, Any], where: str) -> Checked:
    """An instance of a dataclass from a dictionary; ``where`` names its file in errors."""
    checked: Checked = _build(cls, values, "", _Origins(where))
    return checked


def _build(cls: Any, values: Any, prefix: str, origins: _Origins) -> Any:
    """An instance of dataclass ``cls`` from a dictionary, every key and value checked."""
    if not isinstance(values, Mapping):
        raise UserError(
            f"{prefix.rstrip('.')} must be a section, not {json.dumps(values, default=str)}",
            where=origins.of(prefix.rstrip(".")),
            fix=f"set the keys of [{prefix.rstrip('.')}] one by one",
        )
    hints = get_type_hints(cls, include_extras=True)
    unknown = [key for key in values if key not in hints]
    if unknown:
        near = difflib.get_close_matches(unknown[0], hints, n=1, cutoff=0.5)
        fix = f"did you mean {prefix}{near[0]}?" if near else f"known keys: {', '.join(hints)}"
        key = f"{prefix}{unknown[0]}"
        raise UserError(f"unknown key {key}", where=origins.of(key), fix=fix)
    checked = {}
    for key, value in values.items():
        hint = hints[key]
        if isinstance(hint, types.UnionType):  # TOML has no None: an optional section is there
            hint = get_args(hint)[0]
        if dataclasses.is_dataclass(hint):
            checked[key] = _build(hint, value, f"{prefix}{key}.", origins)
        else:
            checked[key] = _check(hint, value, f"{prefix}{key}", origins)
    return cls(**checked)


def _wrong(key: str, value: Any, origins: _Origins, what: str, fix: str) -> UserError:
    shown = str(value) if isinstance(value, float) else json.dumps(value, default=str)
    return UserError(f"{key} = {shown} {what}", where=origins.of(key), fix=fix)


def _check(hint: Any, value: Any, key: str, origins: _Origins) -> Any:
    """The value as the field's type, or an error that names the key and what it takes."""
    wrong = partial(_wrong, key, value, origins)
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise wrong("is not a list", f"write {key} = [...]")
        item = get_args(hint)[0]
        return tuple(_check(item, one, f"{key}[{i}]", origins) for i, one in enumerate(value))
    interval = None
    if get_origin(hint) is Annotated:
        hint, interval = get_args(hint)
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        if value in choices and isinstance(value, str):
            return value
        near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
        guess = f"did you mean '{near[0]}'? " if near else ""
        raise wrong("is not a choice", f"{guess}choices: {', '.join(choices)}")
    hint = get_origin(hint) or hint
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise wrong(f"is not {_TYPE_NAMES[hint]}", f"give {_TYPE_NAMES[hint]}")
    if isinstance(value, str) and value.encode(errors="replace").decode() != value:
        raise wrong("holds a byte that is not UTF-8", "rename the file")
    if interval is not None and not interval.low <= value <= interval.high:
        raise wrong("is out of range", f"it must be {interval}")
    return value
