"""The tutorial of docs/translation-memory.md: its commands, run as they stand there."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

import wholedoc.cli
from wholedoc.tm.memory import TranslationMemory

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "translation-memory.md").read_text(encoding="utf-8")
TUTORIAL = PAGE.partition("## From a TMX to a translated text")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
COMMANDS = [block.replace("\\\n", " ") for block in BLOCKS if block.startswith("wholedoc ")]
FILES = ("handbook.tmx", "dev.tmx", "handbook.toml", "new.de", "approved.en")


def lines_of(file: str) -> list[str]:
    return Path(file).read_text(encoding="utf-8").splitlines()


def test_the_five_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in FILES:
        shutil.copy(ROOT / "docs" / "examples" / file, file)
    outputs = []
    for command in COMMANDS:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as caught:
            wholedoc.cli.main()
        output, errors = capsys.readouterr()
        assert caught.value.code == 0, errors
        outputs.append(output)
    assert len(COMMANDS) == 5
    assert all(output in BLOCKS for output in outputs[:2])  # of building and searching
    check_translations()
    check_page()


def check_translations() -> None:
    """One line for each; approved lines are as approved, exact matches as in the memory."""
    source, draft, final = lines_of("new.de"), lines_of("draft.en"), lines_of("new.en")
    approved = lines_of("approved.en")
    assert len(source) == len(draft) == len(final) == len(approved)
    assert 0 < sum(map(bool, approved)) < len(source) / 2
    assert all(given in ("", found) for given, found in zip(approved, final, strict=True))
    with TranslationMemory.open("handbook") as memory:
        found = [memory.search(text, limit=1) for text in source]
    exact = {t: each[0].entry.trg for t, each in enumerate(found) if each and each[0].score >= 100}
    assert len(exact) >= 5
    for translations in (draft, final):
        assert {t: translations[t] for t in exact} == exact


def check_page() -> None:
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
