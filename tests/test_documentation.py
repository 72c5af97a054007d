"""The pages for people: links lead somewhere, notes are listed, hops are those of the code."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "notes").glob("*.md")])
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
