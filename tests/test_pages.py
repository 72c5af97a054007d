"""The pages for people, run: the commands and programs of README.md and of docs/, in order.

The blocks of a page are run one after the other in a folder that has the files of docs/examples and
stand-ins for what its reader has. What stands right below a block, without a line between, is what
it prints. Comments above a block say what else is done with it::

    <!-- file: my.toml -->        it is written to this file
    <!-- not run: the reason -->  its commands are checked, but not run
"""

import doctest
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi import FastAPI
from serving import Serving
from toy import document_config

import wholedoc.cli
from wholedoc.config import load_config, shipped_configs
from wholedoc.decoding import translator
from wholedoc.tm.memory import TranslationMemory
from wholedoc.training.stages import train

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ADDRESS = "http://127.0.0.1:8000"
_COMMAND = re.compile(r"(wholedoc|make|torchrun|python|curl|\.venv/bin/\w+) ")
_FENCE = re.compile(r" *```(\w*)$")
_MARK = re.compile(r"<!-- (file|not run): (.+) -->")


@dataclass(frozen=True)
class Block:
    """A block of code of a page."""

    page: Path
    line: int
    language: str
    text: str
    mark: tuple[str, str] = ("", "")
    """What the comment above it says."""
    output: str | None = None
    """What it must print."""

    @property
    def commands(self) -> list[str]:
        """Its command lines; none if it is something else."""
        if self.language not in ("", "sh") or not _COMMAND.match(self.text.lstrip()):
            return []
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line for each in lines if (line := re.sub(r" +#.*", "", each).strip())]

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, each with what it prints."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    fences = [n for n, line in enumerate(lines) if _FENCE.match(line)]
    end = -1
    for start, last in zip(fences[::2], fences[1::2], strict=True):
        text = "\n".join(lines[start + 1 : last]) + "\n"
        above = next((line for line in lines[:start][::-1] if line.strip()), "")
        if end == start - 1 and found and found[-1].commands:
            found[-1] = replace(found[-1], output=text)
        else:
            mark = _MARK.fullmatch(above.strip())
            language = _FENCE.fullmatch(lines[start])[1]  # type: ignore[index]
            said = (mark[1], mark[2]) if mark else ("", "")
            found.append(Block(page, start + 1, language, text, said))
        end = last
    return found


BLOCKS = {page: blocks_of(page) for page in PAGES}
EVERY = [block for blocks in BLOCKS.values() for block in blocks]
COMMANDS: Any = typer.main.get_command(wholedoc.cli.app)


# Every command, run or not: are its options those of the command line?


def check_command(line: str, page: Path, folder: Path) -> None:
    """Raise where a command or an option does not exist, or a value cannot be one."""
    if line.startswith("curl "):
        return
    words = shlex.split(re.split(r" [<>|&]", line)[0])
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[1] in targets
    elif words[0] == "python":
        assert (ROOT / words[1]).is_file()
    if words[0] == "torchrun":
        from torch.distributed.run import get_args_parser

        launched = get_args_parser().parse_args(words[1:])
        words = [launched.training_script, *launched.training_script_args]
    if words[0] != "wholedoc":
        return
    command, rest = COMMANDS, words[1:]
    while hasattr(command, "commands"):
        command, rest = command.commands[rest[0]], rest[1:]
    given = command.make_context(command.name, list(rest)).params
    if command.name == "train":
        settings = [b for a, b in pairwise(rest) if a == "--set"]
        files = {b.mark[1]: b.text for b in BLOCKS.get(page, []) if b.mark[0] == "file"}
        if given["config"] in files:
            (folder / "given.toml").write_text(files[given["config"]], encoding="utf-8")
            load_config(folder / "given.toml", settings)
        elif given["config"] in shipped_configs():
            load_config(given["config"], settings)


def documented() -> Iterator[tuple[Path, str]]:
    """All command lines of the pages, in blocks and in the text."""
    for page in [*PAGES, *sorted((ROOT / "docs" / "commands").glob("*.md"))]:
        for block in BLOCKS.get(page) or blocks_of(page):
            yield from ((page, line) for line in block.commands)
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for line in re.findall(r"`(wholedoc [^`]+)`", " ".join(text.split())):
            if " -" in line and not re.search(r"[\[…]|COMMAND", line):
                yield page, line


def test_all_documented_commands_have_the_options_they_are_given(tmp_path: Path) -> None:
    found = sorted(set(documented()))
    assert len(found) > 60
    for page, line in found:
        try:
            check_command(line, page, tmp_path)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is the page's fault)
            pytest.fail(f"{page.relative_to(ROOT)}: {line}: {error!r}")


@pytest.mark.parametrize("block", [b for b in EVERY if b.mark[0] == "not run"], ids=str)
def test_not_run(block: Block) -> None:
    """Tells which blocks are not run, and why."""
    assert block.commands or block.language == "python"
    if block.language == "python":
        compile(block.text, str(block), "exec")
    pytest.skip(f"{block}: {block.mark[1]}")


# Pages, run from top to bottom.


class Runner:
    """Runs the blocks of a page; what it serves, it ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        self._names: dict[str, Any] = {"__name__": "page"}
        self._served: Serving | None = None
        monkeypatch.setattr("wholedoc.service.server.run_app", self._serve)

    def run(self, block: Block) -> None:
        """Run a block, or write it to its file, and compare what it prints."""
        if block.mark[0] == "file":
            Path(block.mark[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            code = compile("\n" * block.line + self._text(block.text), str(block.page), "exec")
            exec(code, self._names)  # noqa: S102 (the page is ours)
        elif block.commands:
            printed = "".join(self._command(self._text(line)) for line in block.commands)
            assert block.output is None or block.output.strip() == printed.strip(), str(block)

    def _command(self, line: str) -> str:
        """Run a command; what it prints."""
        words = shlex.split(line)
        if words[0] != "wholedoc" or re.search(r" [<>|] ?\w", line):
            line = re.sub(r"(^|\| )wholedoc ", rf"\1{sys.executable} -m wholedoc ", line)
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            return done.stdout
        self._monkeypatch.setattr(sys, "argv", words)
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        printed, errors = self._capsys.readouterr()
        assert caught.value.code == 0, f"{line}: {errors}"
        return printed

    def _text(self, text: str) -> str:
        """What stands on the page, with the address of what is served."""
        return text.replace(ADDRESS, self._served.address) if self._served else text

    def _serve(self, app: FastAPI, *_: object) -> None:
        """Serve as ``wholedoc serve`` would, on a free port and beside the next commands."""
        self.close()
        self._served = Serving(app)

    def close(self) -> None:
        """End what is served."""
        if self._served is not None:
            self._served.stop()


@pytest.fixture
def runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Runner]:
    shutil.copytree(ROOT / "docs" / "examples", tmp_path, dirs_exist_ok=True)
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "demo")
    write_report(tmp_path / "report.docx")
    monkeypatch.chdir(tmp_path)
    made = Runner(monkeypatch, capsys)
    yield made
    made.close()


def write_report(path: Path) -> None:
    """A reader's document: a heading and a paragraph with a bold word."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    bold = "<w:r><w:rPr><w:b/></w:rPr><w:t>Start</w:t></w:r>"
    runs = f"<w:r><w:t>Drücken Sie die Taste </w:t></w:r>{bold}<w:r><w:t>.</w:t></w:r>"
    body = f"<w:p><w:r><w:t>Bericht</w:t></w:r></w:p><w:p>{runs}</w:p>"
    with zipfile.ZipFile(path, "w") as file:
        kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
        part = f'<Override PartName="/word/document.xml" ContentType="{kind}"/>'
        types = "http://schemas.openxmlformats.org/package/2006/content-types"
        file.writestr("[Content_Types].xml", f'<Types xmlns="{types}">{part}</Types>')
        file.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>',
        )


@pytest.fixture(scope="session")
def estonian(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reader's corpus and document model: a toy, named as the pages name theirs."""
    folder = tmp_path_factory.mktemp("reader")
    run = train(document_config(folder / "toy"), folder / "runs" / "et-en").directory
    assert run.is_dir()
    for name in ("train", "dev"):
        for side, ending in (("src", "et"), ("trg", "en"), ("doc", "doc")):
            shutil.copy(folder / "toy" / f"{name}.{side}", folder / f"{name}.{ending}")
            shutil.copy(folder / "toy" / f"dev.{side}", folder / f"test.{ending}")
    for name, like in (("letter.et", "test.et"), ("base.en", "test.en"), ("both.en", "test.en")):
        shutil.copy(folder / like, folder / name)
    item = {"source": ["s1", "s2"], "sentence": 1, "reference": "t2", "alternatives": ["t3"]}
    (folder / "pronouns.jsonl").write_text(json.dumps(item), encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", [p for p in PAGES if BLOCKS[p]], ids=lambda page: page.stem)
def test_page(page: Path, runner: Runner, request: pytest.FixtureRequest) -> None:
    to_run = [block for block in BLOCKS[page] if block.mark[0] != "not run"]
    if any(re.search(r"\.et\b|et-en", block.text) for block in to_run):
        shutil.copytree(request.getfixturevalue("estonian"), Path.cwd(), dirs_exist_ok=True)
    for block in to_run:
        runner.run(block)
    if page.stem == "train-on-your-memory":
        check_translations()
        check_explanation()


def test_examples_in_docstrings() -> None:
    failed, tried = doctest.testmod(translator)
    assert (failed, tried > 15) == (0, True)


# What train-on-your-memory.md promises.


def lines_of(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def check_translations() -> None:
    """One line for each; approved lines are as approved, exact matches as in the memory."""
    source, draft, final = lines_of("new.de"), lines_of("draft.en"), lines_of("new.en")
    approved = lines_of("approved.en")
    assert len(source) == len(draft) == len(final) == len(approved)
    assert 0 < sum(map(bool, approved)) < len(source) / 2
    assert all(given in ("", found) for given, found in zip(approved, final, strict=True))
    with TranslationMemory.open("handbook") as memory:
        every = [memory.search(text, limit=5) for text in source]
    found = [[each for each in some if each.entry.origin == "handbook.tmx"] for some in every]
    exact = {t: each[0].entry.trg for t, each in enumerate(found) if each and each[0].score >= 100}
    assert len(exact) >= 5
    for translations in (draft, final):
        assert {t: translations[t] for t in exact} == exact


def check_explanation() -> None:
    """Words are marked and name their pairs; the settings name the memory."""
    page = Path("new.html").read_text(encoding="utf-8")
    body = page.partition("<tbody>")[2]
    assert body.count('<mark class="recalled"') > 30
    assert "100 % match, handbook.tmx, document dishwasher" in body
    assert "approved in this document, sentence 2" in body
    assert body.count('<span class="approved">') == sum(map(bool, lines_of("approved.en")))
    assert "<dt>translation memories</dt><dd>handbook</dd>" in page


def test_the_memory_has_what_the_page_says() -> None:
    """Several documents, dates, formatting codes and contradictions, as real ones have."""
    text = (ROOT / "docs" / "examples" / "handbook.tmx").read_text(encoding="utf-8")
    assert 60 <= text.count("<tu ") <= 150
    assert len(set(re.findall(r'<prop type="x-document">(.*?)</prop>', text))) == 3
    assert text.count("creationdate=") == text.count("<tu ")
    assert "<bpt" in text
