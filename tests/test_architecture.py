"""The shape of the package: layers that only look down, equations with one home each."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import TypeCheckError

from wholedoc.model.attention import Attended

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "wholedoc"
EQUATIONS = ROOT / "docs" / "equations.md"
MODULES = sorted(PACKAGE.rglob("*.py"))

BASE = ("config", "errors", "files", "progress")
LAYERS = (
    *("kernels", "rendering", "corpus", "formats", "synthetic", "tm", "model", "store", "decoding"),
    *("training", "metrics", "experiment", "benchmark", "app", "service", "bulk", "cli"),
    "__main__",
)
RANK = dict.fromkeys(BASE, 0) | {name: rank for rank, name in enumerate(LAYERS, start=1)}

# `__init__` offers the translator at the top of the package, imported when it is asked for.
FROM_INIT = {
    "wholedoc.config",
    "wholedoc.corpus.glossary",
    "wholedoc.decoding.results",
    "wholedoc.decoding.streaming",
    "wholedoc.decoding.translator",
    "wholedoc.errors",
    "wholedoc.tm.memory",
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def files_of(layer: str) -> list[Path]:
    """The files of a room, or the one of a module."""
    return [path for path in MODULES if layer_of(name_of(path)) == layer]


def layer_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports_of(path: Path) -> Iterator[str]:
    """The names of our own modules that a module imports, inside functions too."""
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found = [node.module or ""]
            if node.module == "wholedoc":  # `from wholedoc import x`: a module, or our version
                found = [f"wholedoc.{a.name}" for a in node.names if a.name != "__version__"]
        else:
            continue
        yield from (name for name in found if name.startswith("wholedoc."))


def docstrings_of(path: Path) -> Iterator[str]:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(parse(path)):
        if isinstance(node, kinds):
            yield ast.get_docstring(node) or ""


def test_every_module_has_a_layer() -> None:
    assert {layer_of(name_of(path)) for path in MODULES} - {""} == RANK.keys()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_look_down(path: Path) -> None:
    layer = layer_of(name_of(path))
    if not layer:
        assert set(imports_of(path)) <= FROM_INIT
        return
    wrong = [name for name in imports_of(path) if RANK[layer_of(name)] > RANK[layer]]
    assert wrong == []


def test_base_modules_do_not_import_in_a_circle() -> None:
    graph = {
        name: {layer_of(found) for path in files_of(name) for found in imports_of(path)} - {name}
        for name in BASE
    }
    while graph:
        free = {name for name, needs in graph.items() if not needs & graph.keys()}
        assert free, f"a circle among {sorted(graph)}"
        graph = {name: needs for name, needs in graph.items() if name not in free}


# Shapes.


def test_shapes_are_checked_in_tests_those_of_one_word_too() -> None:
    keys, mask = torch.zeros(2, 3, 4), torch.ones(2, 3, dtype=torch.bool)
    attended = Attended(keys, keys, mask)
    assert attended.select(torch.tensor([1])).mask.shape == (1, 3)
    with pytest.raises(TypeCheckError):
        attended.select(torch.tensor([[1]]))
    with pytest.raises(TypeCheckError):
        attended.select(torch.tensor([1.0]))


# Equations.


def labels_in(section: str) -> set[str]:
    """The labels that a section of docs/equations.md defines, each as ``### [label]``."""
    text = EQUATIONS.read_text(encoding="utf-8")
    match = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, f"docs/equations.md has no section '{section}'"
    return set(re.findall(r"^(?:### |\| )\[([a-z0-9-]+)\]", match[1], re.MULTILINE))


def homes() -> dict[str, list[str]]:
    """Where each label stands as ``Paper: [label]`` or ``Ours: [label]`` in a docstring."""
    found: dict[str, list[str]] = {}
    for path in MODULES:
        for docstring in docstrings_of(path):
            for tag in re.findall(r"(?:Paper|Ours):\s+((?:\[[a-z0-9-]+\][\s,]*)+)", docstring):
                for label in re.findall(r"\[([a-z0-9-]+)\]", tag):
                    found.setdefault(label, []).append(name_of(path))
    return found


def test_every_implemented_equation_has_one_home() -> None:
    sections = ("The sentence model", "Training", "The document model", "Recall")
    implemented = set().union(*(labels_in(section) for section in sections))
    assert {"enc", "att", "dec-state", "dec-out", "pll"} <= implemented
    assert homes().keys() == implemented
    assert {label: places for label, places in homes().items() if len(places) != 1} == {}


def test_every_equation_is_implemented() -> None:
    everything = {
        "enc", "att", "dec-state", "dec-out", "memnet", "src-mem", "src-read",
        "trg-mem", "trg-read", "m2c", "m2o", "pll", "bcd", "recall",
    }  # fmt: skip
    assert homes().keys() == everything


def test_tags_stand_in_docstrings() -> None:
    written = sum(path.read_text(encoding="utf-8").count("Paper: [") for path in MODULES)
    assert written == sum(
        text.count("Paper: [") for path in MODULES for text in docstrings_of(path)
    )


def test_places_named_by_the_equations_page_exist() -> None:
    text = EQUATIONS.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:wholedoc|tests|configs)/[\w/.]+)`", text))
    assert len(files) > 8
    assert [file for file in sorted(files) if not (ROOT / file).is_file()] == []
    for file, names in re.findall(r"`(wholedoc/[\w/.]+)` \(((?:`\w+`(?:, )?)+)\)", text):
        defined = {
            node.name
            for node in ast.walk(parse(ROOT / file))
            if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        assert set(re.findall(r"`(\w+)`", names)) <= defined, file
    tests = {
        node.name
        for path in (ROOT / "tests").glob("test_*.py")
        for node in parse(path).body
        if isinstance(node, ast.FunctionDef)
    }
    assert set(re.findall(r"`(test_\w+)`", text)) <= tests


# House rules.


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_house_rules(path: Path) -> None:
    tree = parse(path)
    assert ast.get_docstring(tree)
    assert path.stem not in {"utils", "util", "helpers", "misc", "common"}
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"exec", "eval"}
    if layer_of(name_of(path)) in ("model", "store", "decoding", "training"):
        assert "id" not in calls  # state belongs to its object, not to a table of addresses
    if layer_of(name_of(path)) not in ("cli", "progress", "app"):
        assert "print" not in calls
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree))
