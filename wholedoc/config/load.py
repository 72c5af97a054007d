"""Loading a configuration: TOML files, ``--set section.key=value``, and the check of each value."""

import dataclasses
import difflib
import json
import tomllib
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from wholedoc.config.schema import Config
from wholedoc.errors import UserError

Checked = TypeVar("Checked")

_EXPERIMENT = "experiment-"
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
    values = _on_base(read_toml(file), file)
    origins = _Origins(str(file))
    for setting in settings:
        _apply(values, setting, origins)
    return _check_together(_build(Config, values, "", origins), origins)


def _on_base(values: dict[str, Any], file: Path) -> dict[str, Any]:
    """The values of a file, over those of the shipped configuration that its ``base`` names."""
    base = values.pop("base", None)
    if base is None:
        return values
    shipped = shipped_configs()
    if not isinstance(base, str) or base not in shipped:
        raise UserError(
            f"base = {json.dumps(base, default=str)} is not a shipped configuration",
            where=str(file),
            fix=f"choices: {', '.join(shipped)}",
        )
    return _merge(read_toml(shipped[base]), values)


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dictionaries, the second one over the first, section by section."""
    merged = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], dict) and isinstance(above[key], dict):
            merged[key] = _merge(below[key], above[key])
    return merged


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
    origins = _Origins(where)
    return _check_together(_build(Config, values, "", origins), origins)


def _check_together(config: Config, origins: _Origins) -> Config:
    """Refuse values that are good by themselves but do not go together."""
    model = config.model
    if model.tie == "all" and not config.vocabulary.shared:
        raise UserError(
            "model.tie = 'all' needs one vocabulary for both sides",
            where=origins.of("model.tie", "vocabulary.shared"),
            fix="set vocabulary.shared=true or model.tie='target'",
        )
    if (model.memory == "none") != (model.fusion == "none"):
        raise UserError(
            f"model.memory = '{model.memory}' does not go with model.fusion = '{model.fusion}'",
            where=origins.of("model.memory", "model.fusion"),
            fix="set both, or neither: a memory needs a fusion through which it is read",
        )
    if model.context != "none" and model.memory != "none":
        raise UserError(
            f"model.context = '{model.context}' does not go with model.memory = '{model.memory}'",
            where=origins.of("model.context", "model.memory"),
            fix="set model.memory='none' and model.fusion='none', or model.context='none'",
        )
    if model.tie != "none" and model.embedding != model.hidden:
        raise UserError(
            f"model.tie = '{model.tie}' needs equal widths, but model.embedding is "
            f"{model.embedding} and model.hidden {model.hidden}",
            where=origins.of("model.tie", "model.embedding", "model.hidden"),
            fix="make them equal or set model.tie='none'",
        )
    return config


def _apply(values: dict[str, Any], setting: str, origins: _Origins) -> None:
    """Put one ``section.key=value`` of the command line into the nested dictionaries."""
    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise UserError(
            f"'{setting}' is not key=value", where="--set", fix="write e.g. --set model.hidden=256"
        )
    origins.settings.pop(key.strip(), None)  # the last one counts, and comes last
    origins.settings[key.strip()] = setting
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
        hint = _without_none(hints[key])
        if dataclasses.is_dataclass(hint):
            checked[key] = _build(hint, value, f"{prefix}{key}.", origins)
        else:
            checked[key] = _check(hint, value, f"{prefix}{key}", origins)
    return cls(**checked)


def _without_none(hint: Any) -> Any:
    """The type of an optional section: TOML has no None, a section is there or not."""
    kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
    return kinds[0] if isinstance(hint, types.UnionType) and len(kinds) == 1 else hint


def _wrong(key: str, value: Any, origins: _Origins, what: str, fix: str) -> UserError:
    shown = str(value) if isinstance(value, float) else json.dumps(value, default=str)
    return UserError(f"{key} = {shown} {what}", where=origins.of(key), fix=fix)


def _name_choices(value: Any, choices: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(value), choices, n=1, cutoff=0.5)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return f"{guess}choices: {', '.join(choices)}"


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
        if value in get_args(hint) and isinstance(value, str):
            return value
        raise wrong("is not a choice", _name_choices(value, get_args(hint)))
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
