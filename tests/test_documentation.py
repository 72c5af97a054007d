"""The pages for people: links lead somewhere, notes are listed, commands and hops are as coded."""

import ast
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import typer

from wholedoc.cli import app

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT, ROOT / "docs", ROOT / "docs" / "commands", ROOT / "notes"]
PAGES = sorted(page for folder in FOLDERS for page in folder.glob("*.md"))
NOTES = sorted((ROOT / "notes").glob("2*.md"))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        assert target.is_file(), link
        if anchor:
            assert anchor in anchors_of(target), link


def test_notes_are_listed_newest_first_by_their_titles() -> None:
    index = (ROOT / "notes" / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- (\d{4}-\d\d-\d\d): \[(.*)\]\((.*)\)$", index, re.MULTILINE)
    titles = {}
    for note in NOTES:
        title = note.read_text(encoding="utf-8").splitlines()[0]
        titles[note.name] = title
    assert {file: f"# {date}: {verdict}" for date, verdict, file in listed} == titles
    assert [date for date, *_ in listed] == sorted((date for date, *_ in listed), reverse=True)
    assert all(file.startswith(date) for date, _, file in listed)


# The commands of docs/commands/.


def commands_of(group: Any, prefix: str = "") -> dict[str, Any]:
    """The commands as the command line knows them, by their names."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found |= commands_of(command, f"{prefix}{name} ")
        else:
            found[f"{prefix}{name}"] = command
    return found


COMMANDS = commands_of(typer.main.get_command(app))


def test_pages_of_commands_are_those_the_script_makes() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "commands.py"))["make_pages"]()
    folder = ROOT / "docs" / "commands"
    written = {page.name: page.read_text(encoding="utf-8") for page in folder.iterdir()}
    assert written == made, "run `python docs/commands.py`"


@pytest.mark.parametrize("name", COMMANDS)
def test_pages_of_commands_have_what_the_command_line_takes(name: str) -> None:
    page = (ROOT / "docs" / "commands" / f"{name.split()[0]}.md").read_text(encoding="utf-8")
    section = re.search(rf"^#+ wholedoc {name}$(.*?)(^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    first_cells = re.findall(r"^\| (`.*?) \|", section[1], re.MULTILINE)
    shown = {each for cell in first_cells for each in re.findall(r"`(.*?)`", cell)}
    options = {o for p in COMMANDS[name].params for o in p.opts if o.startswith("-")}
    arguments = {p.metavar for p in COMMANDS[name].params if not p.opts[0].startswith("-")}
    assert shown == (options - {"--help"}) | arguments
    assert f"\nwholedoc {name}" in section[1]  # an example


def test_the_readme_names_every_command() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2]
    named = set(re.findall(r"^\| `wholedoc (\w+)", table, re.MULTILINE))
    assert named == {name.split()[0] for name in COMMANDS}


# The hops of docs/architecture.md.


def hops_of(command: str) -> list[tuple[str, str]]:
    """The files and functions that the page lists for a command, in order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(rf"^### {command}$(.*?)^##", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    return re.findall(r"^\d\. `([\w/.]+)` \(`(\w+)`\)", section[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "most"), [("translate", 9), ("train", 9), ("evaluate", 6), ("experiment", 8)]
)
def test_hops_are_few_and_exist(command: str, most: int) -> None:
    hops = hops_of(command)
    assert 5 < len(hops) <= most
    for file, name in hops:
        tree = ast.parse((ROOT / "wholedoc" / file).read_text(encoding="utf-8"))
        kinds = (ast.FunctionDef, ast.ClassDef)
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, kinds)}, file
