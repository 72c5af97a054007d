"""Progress: plain lines where nobody watches, a live bar with speed and time left on a terminal."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wholedoc import progress
from wholedoc.progress import ProgressBar, format_seconds, say

PROGRAM = """
import time
from wholedoc.progress import ProgressBar, say
with ProgressBar("stage1", 40, 10) as bar:
    say("a line between")
    for done in range(30):
        bar.advance(1, 100, "loss 1.234", "stage1, epoch 1/2")
        time.sleep(0.02)
print("result")
"""


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_plain_lines_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("stage1", total=120, done=20) as bar:
        for _ in range(50):
            clock.now += 1
            bar.advance(1, 200, "loss 2.500", "stage1, epoch 3/9")
    output, errors = capsys.readouterr()
    assert output == ""
    assert errors.splitlines() == [
        "stage1, epoch 3/9: 29%  200 words/s  loss 2.500  85 s left",
        "stage1, epoch 3/9: 42%  200 words/s  loss 2.500  70 s left",
        "stage1, epoch 3/9: 54%  200 words/s  loss 2.500  55 s left",
    ]


def test_a_quick_job_says_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("translating", 10) as bar:
        clock.now += 14
        bar.advance(10, 99)
    assert capsys.readouterr() == ("", "")


def test_only_the_leader_shows_progress(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("stage1", 10, shown=False) as bar:
        clock.now += 60
        bar.advance(5, 99)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_live_bar(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    seen = _on_a_terminal([sys.executable, str(program)])
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "\x1b[?25l" in seen  # the cursor is hidden: the bar is drawn in place,
    assert "\x1b[?25h" in seen  # and comes back
    assert re.search(r"stage1, epoch 1/2 .*\d+% .*[\d,]+ words/s  loss 1\.234 .*\d:\d\d", text)
    assert "100%" in text
    assert "a line between" in text
    assert "result" in text


def _on_a_terminal(command: list[str]) -> str:
    """What a program writes when standard output and error are a terminal."""
    terminal, inside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=inside, stdout=inside, stderr=inside, env=environment)
    os.close(inside)
    seen = b""
    try:
        while chunk := os.read(terminal, 4096):
            seen += chunk
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(terminal)
    assert process.wait(timeout=60) == 0, seen.decode()
    return seen.decode()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (42.4, "42 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (750, "12 min"),
        (5940, "99 min"),
        (6000, "1 h 40 min"),
        (11100, "3 h 05 min"),
        (360000, "100 h 00 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_say_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    say("hello")
    assert capsys.readouterr() == ("", "hello\n")
