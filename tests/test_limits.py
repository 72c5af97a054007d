"""Limits: every number that a user can give has a largest value, and the page says which."""

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from wholedoc.cli import app
from wholedoc.config import Config, Interval, load_config
from wholedoc.errors import UserError
from wholedoc.experiment.grid import ExperimentConfig
from wholedoc.synthetic import SynthConfig

PAGE = Path(__file__).parents[1] / "docs" / "limits.md"
MADE: dict[str, Any] = runpy.run_path(str(PAGE.with_suffix(".py")))
SETTINGS: list[tuple[str, Any, Interval]] = list(MADE["find_settings"](Config))
OPTIONS: list[tuple[str, str, Any]] = list(MADE["find_options"]())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == MADE["make_page"](), "run python docs/limits.py"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting[0])
def test_every_setting_has_a_largest_value(setting: tuple[str, Any, Interval]) -> None:
    name, kind, interval = setting
    assert interval is not None
    assert interval.high < sys.float_info.max
    with pytest.raises(UserError, match="out of range"):
        load_config("tiny", [f"{name}={max(kind(interval.high) + 1, kind(2 * interval.high))}"])


def test_experiments_have_largest_values() -> None:
    found = {name: interval for name, _, interval in MADE["find_settings"](ExperimentConfig)}
    numbers = {name: i for name, i in found.items() if not name.startswith("synth.")}
    assert numbers
    assert all(interval is not None for interval in numbers.values())
    counts = [n for n in found if n.startswith("synth.") and n.split(".")[1] not in ("seed",)]
    for name in counts:
        with pytest.raises(UserError, match=r"must|below"):
            SynthConfig(**{name.removeprefix("synth."): 10**9})


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: " ".join(option[:2]))
def test_every_option_has_a_largest_value(option: tuple[str, str, Any]) -> None:
    command, flag, info = option
    assert info.max is not None
    needed = {"synth": ["x"], "translate": ["x"], "export": ["x", "y"], "experiment": ["x"]}
    needed["evaluate"] = ["--ref", "x", "--sys", "x=y"]
    needed["tm search"] = ["x", "y"]
    arguments = [*command.split(), *needed.get(command, []), flag, str(info.max + 1)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert flag in result.output


def test_vocabulary_and_embedding_are_limited_together() -> None:
    settings = ["vocabulary.size=1000000", "model.embedding=4096", "model.hidden=4096"]
    with pytest.raises(UserError, match=r"vocabulary\.size × model\.embedding"):
        load_config("tiny", settings)
