"""The command line: ``wholedoc COMMAND``. Results on standard output, all else on standard error.

Exit codes: 0 done; 2 the user's input is at fault (one line says what, where, what to do);
130 interrupted; 1 anything else. ``WHOLEDOC_TRACEBACK=1`` shows where in the code an error arose.
A command imports what it needs when it runs, after its arguments were checked, so that ``--help``
and a wrong path are answered at once.
"""

import io
import os
import sys
from typing import Annotated

import typer
from typer.exceptions import TyperException

from wholedoc import __version__
from wholedoc.cli import corpora, evaluate, train, translate
from wholedoc.cli.options import name_standard_output
from wholedoc.errors import UserError
from wholedoc.kernels.allocation import keep_freed_memory
from wholedoc.progress import say

_INTERRUPTED = 130  # as shells count it; typer returns it after Ctrl-C

app = typer.Typer(
    name="wholedoc",
    help="Translation that reads the whole document.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    corpora.stats,
    corpora.synth,
    train.train,
    translate.translate,
    evaluate.score,
    evaluate.evaluate,
    evaluate.params,
    evaluate.bench,
    train.export,
    train.experiment,
    train.demo,
):
    app.command()(command)


def main() -> None:
    """Run a command and turn every error into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text is the same whatever the locale
            stream.reconfigure(encoding="utf-8", errors=stream.errors, newline="\n")
    keep_freed_memory()
    try:
        code = _run()
    except TyperException as error:  # the command line itself is wrong
        _fail(f"{error.format_message() or 'no command'} (see wholedoc --help)", 2, error)
    except UserError as error:
        _fail(str(error), 2, error)
    except (KeyboardInterrupt, typer.Abort) as error:
        _fail("interrupted", _INTERRUPTED, error)
    except BrokenPipeError as error:
        _fail("", 1, error)  # as in `wholedoc … | head`: typer is silent about it too
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror}; check the path and the room on the disk", 2, error)
    except Exception as error:  # noqa: BLE001 (the outermost frame: report and leave)
        _fail(f"{type(error).__name__}: {error} (set WHOLEDOC_TRACEBACK=1 to see where)", 1, error)
    else:
        sys.exit(code)


def _run() -> int:
    code = app(standalone_mode=False)
    if code == _INTERRUPTED:
        raise KeyboardInterrupt
    with name_standard_output():
        sys.stdout.flush()
    return code or 0


def _fail(message: str, code: int, error: BaseException) -> None:
    if os.environ.get("WHOLEDOC_TRACEBACK"):
        raise error
    if message:
        say(f"wholedoc: {' '.join(message.split())}")
    try:
        sys.stdout.flush()
    except OSError:  # Python would fail again on its way out, with a traceback
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


@app.callback(invoke_without_command=True)
def version(
    show: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Translation that reads the whole document."""
    if show:
        print(__version__)
        raise typer.Exit
