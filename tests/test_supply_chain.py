"""What wholedoc trusts: no code from files, bounded dependencies, licences that go with MIT."""

import ast
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import wholedoc

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(line for extra in PROJECT["project"]["optional-dependencies"].values() for line in extra),
]
LICENCES: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "licences.py"))
_MODULES = frozenset(
    {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
)
_CALLS = frozenset(
    {
        "eval", "exec", "compile", "__import__",  # as names alone
        "torch.load", "torch.save", "torch.jit.load", "numpy.load", "np.load", "np.fromfile",
        "os.system", "os.popen", "tempfile.mktemp", "yaml.load",
    }
)  # fmt: skip
_ALLOWED: frozenset[tuple[str, str]] = frozenset()


def dangerous(tree: ast.AST) -> list[str]:
    """What in a module runs code that it did not come with, or reads pickles."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names if each.name.split(".")[0] in _MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [node.module] if node.module.split(".")[0] in _MODULES else []
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in _CALLS else []
            shell = any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords)
            pickles = any(k.arg == "allow_pickle" for k in node.keywords)
            found += [f"{name} with a shell or pickles"] if shell or pickles else []
    return found


def test_no_file_brings_code() -> None:
    package = Path(wholedoc.__file__).parent
    files = sorted(package.rglob("*.py"))
    assert len(files) > 100
    found = {
        (str(file.relative_to(package)), what)
        for file in files
        for what in dangerous(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found - _ALLOWED == set()


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from joblib import load",
        "import torch\ntorch.load(f)",
        "eval(text)",
        "np.load(f, allow_pickle=True)",
        "subprocess.run(c, shell=True)",
    ],
)
def test_what_is_dangerous_is_found(code: str) -> None:
    assert dangerous(ast.parse(code))


@pytest.mark.parametrize("line", REQUIREMENTS)
def test_every_dependency_has_a_lower_and_an_upper_bound(line: str) -> None:
    operators = {each.operator for each in Requirement(line).specifier}
    assert "~=" in operators or ({">=", ">"} & operators and {"<", "<="} & operators)


def test_licences_go_with_ours() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", page, re.MULTILINE))
    direct = [Requirement(line).name for line in PROJECT["project"]["dependencies"]]
    assert direct
    for name in direct:
        found = LICENCES["licences_of"](name)
        assert found
        assert set(found) <= LICENCES["ALLOWED"], name
        assert listed[name] == ", ".join(found), "run python docs/licences.py"
    for name, licences in listed.items():
        assert name == "package" or set(licences.split(", ")) <= LICENCES["ALLOWED"], name


def test_a_release_has_the_model_and_the_configurations() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["wholedoc"]
    assert wheel["force-include"] == {"configs": "wholedoc/configs"}
    assert (Path(wholedoc.__file__).parent / "models" / "de-en" / "config.toml").is_file()
