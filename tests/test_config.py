"""Configurations: every value checked, every error names the key and the way out."""

import ast
import dataclasses
import inspect
import runpy
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import wholedoc.config
from wholedoc.config import (
    Config,
    CorpusFiles,
    DataConfig,
    ModelConfig,
    SearchConfig,
    StageConfig,
    VocabularyConfig,
    build,
    load_config,
    shipped_configs,
)
from wholedoc.errors import UserError
from wholedoc.store.run import format_toml


def write(path: Path, text: str) -> Path:
    file = path / "my.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_configurations_load_by_name_and_by_path(name: str) -> None:
    by_name = load_config(name)
    assert by_name == load_config(shipped_configs()[name])
    files = {by_name.data.train, by_name.data.dev, by_name.data.test}
    assert files == {CorpusFiles()}  # which the user is to name
    assert by_name != Config()


def test_the_shipped_configurations_are_where_the_package_looks() -> None:
    assert shipped_configs().keys() == {"paper", "small", "tiny"}


def test_paper_holds_the_printed_set_up() -> None:
    config = load_config("paper")
    assert (config.vocabulary.kind, config.vocabulary.min_frequency) == ("word", 5)
    assert (config.model.hidden, config.model.embedding, config.model.alignment) == (512, 512, 256)
    stage = config.stage1
    assert (stage.optimiser, stage.learning_rate) == ("sgd", 0.1)
    assert (stage.schedule, stage.decay, stage.decay_after) == ("epoch", 0.5, 4)
    assert (stage.normalisation, stage.clip, stage.epochs) == ("sum", 5.0, 10)
    for memory, dropouts in (("src", (0.2, 0.2)), ("trg", (0.2, 0.2)), ("both", (0.5, 0.2))):
        model = dataclasses.replace(config.model, memory=memory, fusion="context")
        assert config.stage2.dropouts(model) == dropouts


# (lines of TOML, what the message must hold)
REFUSED = [
    ("sed = 1", "unknown key sed; did you mean seed?"),
    ("[modle]\nhidden = 3", "unknown key modle; did you mean model?"),
    ("[model]\nhiden = 3", "unknown key model.hiden; did you mean model.hidden?"),
    ("[stage1]\nlerning_rate = 3", "did you mean stage1.learning_rate?"),
    ("[data.train]\nsource = 'x'", "unknown key data.train.source"),
    ("[model]\nxyzzy = 3", "known keys: hidden, embedding"),
    ("seed = '1'", 'seed = "1" is not a whole number'),
    ("seed = 1.0", "seed = 1.0 is not a whole number"),
    ("seed = true", "seed = true is not a whole number"),
    ("seed = 1979-05-27", "seed ="),
    ("[stage1]\nclip = 'five'", 'stage1.clip = "five" is not a number'),
    ("[stage1]\nclip = false", "stage1.clip = false is not a number"),
    ("tensorboard = 1", "tensorboard = 1 is not true or false"),
    ("[data.train]\nsrc = 3", "data.train.src = 3 is not a text"),
    ("[data.train]\nsrc = ['a']", 'data.train.src = ["a"] is not a text'),
    ("seed = -1", "seed = -1 is out of range; it must be between 0 and 4294967295"),
    ("seed = 4294967296", "seed = 4294967296 is out of range"),
    ("[model]\nhidden = 0", "model.hidden = 0 is out of range; it must be between 1 and 4096"),
    ("[stage1]\nlearning_rate = 0.0", "stage1.learning_rate = 0.0 is out of range"),
    ("[stage1]\nclip = -0.5", "it must be at least 0"),
    ("[stage1]\nclip = nan", "stage1.clip = nan is out of range"),
    ("[stage1]\nclip = inf", "stage1.clip = inf is out of range"),
    ("[stage1]\ndropout = 0.96", "it must be between 0 and 0.95"),
    ("[stage1]\ndecay = 1.5", "it must be between 0.01 and 1"),
    ("[model]\ntie = 'targett'", "did you mean 'target'? choices: none, target, all"),
    ("[stage1]\noptimiser = 3", "stage1.optimiser = 3 is not a choice; choices: sgd, adam"),
    ("model = 3", "model must be a section, not 3; set the keys of [model] one by one"),
    ("[data]\ntrain = 'corpus'", 'data.train must be a section, not "corpus"'),
    ("seed = ", "not valid TOML"),
    ("seed = 1\nseed = 2", "not valid TOML"),
    ("[model]\ntie = 'all'", "set vocabulary.shared=true or model.tie='target'"),
    ("[model]\ntie = 'target'\nhidden = 4", "make them equal or set model.tie='none'"),
]


@pytest.mark.parametrize(("toml", "message"), REFUSED)
def test_refused(tmp_path: Path, toml: str, message: str) -> None:
    file = write(tmp_path, toml)
    with pytest.raises(UserError) as caught:
        load_config(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "'seed' is not key=value"),
        ("=3", "'=3' is not key=value"),
        ("modle.hidden=3", "unknown key modle"),
        ("model.hidden=big", 'model.hidden = "big" is not a whole number'),
        ("model=3", "model must be a section"),
        ("data.train.src=\udce9.et", "a byte that is not UTF-8"),
        ("seed.x=3", "seed = 1 is a value, not a section; set seed itself"),
    ],
)
def test_refused_settings(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config(write(tmp_path, "seed = 1"), [setting])
    assert message in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        (["seed=2", "model.hidden=big"], "--set model.hidden=big"),
        (["modle.hidden=3"], "--set modle.hidden=3"),
        (["model.hiden=3"], "--set model.hiden=3"),
        (["model=3"], "--set model=3"),
        (["model.hidden=-1", "seed=4"], "--set model.hidden=-1"),
        (["model.tie=targett"], "--set model.tie=targett"),
        (["model.memory=both"], "--set model.memory=both"),
        (["model.tie=all"], "--set model.tie=all"),
        (["model.hidden=65"], "--set model.hidden=65"),
        (["seed=-1", "seed=-2"], "--set seed=-2"),
        (["model=3", "model.hidden=4"], "--set model.hidden=4"),
    ],
)
def test_a_wrong_setting_is_blamed_itself(settings: list[str], where: str) -> None:
    with pytest.raises(UserError) as caught:
        load_config("tiny", settings)
    assert caught.value.where == where


def test_a_wrong_file_is_not_blamed_on_settings(tmp_path: Path) -> None:
    file = write(tmp_path, "[model]\nhidden = 0\n")
    with pytest.raises(UserError) as caught:
        load_config(file, ["model.embedding=4", "seed=2"])
    assert caught.value.where == str(file)


def test_settings_of_every_type_win_over_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "seed = 1\n[model]\nhidden = 3\nembedding = 4\n")
    settings = [
        "seed=3",
        "seed=4",  # the last one counts
        "model.hidden = 8",
        "stage1.learning_rate=1e-3",
        "stage1.clip=2",
        "tensorboard=true",
        "model.initial_state=encoder",
        "data.train.src=some where/a=b.et",
        "data.train.trg='3'",
        "data.train.doc=",
        "vocabulary.kind='word'",
    ]
    config = load_config(file, settings)
    assert config.seed == 4
    assert (config.model.hidden, config.model.embedding) == (8, 4)
    assert config.stage1.learning_rate == 0.001
    assert config.stage1.clip == 2.0
    assert isinstance(config.stage1.clip, float)
    assert config.tensorboard is True
    assert config.model.initial_state == "encoder"
    assert config.data.train == CorpusFiles("some where/a=b.et", "3", "")
    assert config.vocabulary.kind == "word"


@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_configurations_survive_the_run_directory(name: str, tmp_path: Path) -> None:
    config = load_config(name, ['data.train.src=õ \\ "x" \'.et', "tensorboard=true"])
    assert load_config(write(tmp_path, format_toml(config.to_dict()))) == config


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    src=TEXT,
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(1e-12, 1e9),
    factor=st.floats(0.01, 1),
    beam=st.integers(1, 100),
    board=st.booleans(),
)
@example(src="\x7f", seed=0, rate=1e-12, factor=1.0, beam=1, board=False)
def test_every_configuration_survives_the_run_directory(
    tmp_path_factory: pytest.TempPathFactory,
    src: str,
    seed: int,
    rate: float,
    factor: float,
    beam: int,
    board: bool,
) -> None:
    config = Config(
        seed=seed,
        tensorboard=board,
        data=DataConfig(train=CorpusFiles(src=src)),
        stage1=StageConfig(learning_rate=rate, decay=factor),
        search=SearchConfig(beam=beam),
    )
    file = write(tmp_path_factory.getbasetemp(), format_toml(config.to_dict()))
    assert load_config(file) == config


def test_a_file_on_a_base_says_only_what_differs(tmp_path: Path) -> None:
    changes = '[data.train]\nsrc = "a"\n[model]\nmemory = "both"\nfusion = "context"'
    file = write(tmp_path, f'base = "small"\n{changes}')
    small, mine = load_config("small"), load_config(file, ["model.hidden=128", "model.tie=none"])
    assert mine.data.train.src == "a"
    assert mine.data.max_words == small.data.max_words == 100
    assert (mine.model.memory, mine.model.hidden) == ("both", 128)
    assert mine.model.embedding == small.model.embedding == 256
    assert mine.stage1 == small.stage1


@pytest.mark.parametrize("base", ['"smal"', "3", '"my.toml"', '["small"]'])
def test_a_base_is_a_shipped_configuration(tmp_path: Path, base: str) -> None:
    with pytest.raises(UserError, match=r"not a shipped configuration.*choices: .*small"):
        load_config(write(tmp_path, f"base = {base}"))


def test_a_whole_number_is_good_for_a_number_only() -> None:
    assert build(Config, {"stage1": {"clip": 1}}, "x").stage1.clip == 1.0
    with pytest.raises(UserError, match="whole number"):
        build(Config, {"stage1": {"epochs": 1.5}}, "x")


@pytest.mark.parametrize("what", ["missing", "directory", "binary"])
def test_no_such_configuration(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x.toml"
    if what == "directory":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(b"\x80\x81\xff")
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert str(path) in str(caught.value)
    assert caught.value.fix
    if what == "missing":
        assert "tiny" in str(caught.value)


def _undocumented_fields(source: str) -> list[str]:
    """Fields of the dataclasses in some source code without a docstring on the next line."""
    found = []
    for cls in ast.walk(ast.parse(source)):
        if not isinstance(cls, ast.ClassDef) or cls.name in ("Interval", "_Origins"):
            continue
        for statement, after in zip(cls.body, [*cls.body[1:], None], strict=True):
            documented = (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            )
            if isinstance(statement, ast.AnnAssign) and not documented:
                found.append(f"{cls.name}.{ast.unparse(statement.target)}")
    return found


def test_every_field_is_documented() -> None:
    assert _undocumented_fields(inspect.getsource(wholedoc.config)) == []
    assert _undocumented_fields("class A:\n  x: int\n  y: int\n  'why'") == ["A.x"]


def test_configurations_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().seed = 3  # type: ignore[misc]


# The page


def test_the_page_is_made_from_the_dataclasses() -> None:
    script = Path(__file__).parent.parent / "docs" / "configuration.py"
    made = runpy.run_path(str(script))["make_page"]()
    page = script.with_suffix(".md").read_text(encoding="utf-8")
    assert page == made, "run `python docs/configuration.py`"
    for cls in (DataConfig, ModelConfig, StageConfig, SearchConfig, VocabularyConfig):
        for field in dataclasses.fields(cls):
            assert f"`{field.name}`" in page or f"[data.{field.name}]" in page
    row = next(line for line in page.splitlines() if line.startswith("| `hidden` |"))
    default, *shipped = row.split(" | ")[-4:]
    assert (default, shipped[-1]) == ("`512`", "`64` |")
