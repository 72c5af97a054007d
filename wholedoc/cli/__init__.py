"""The command line: ``wholedoc COMMAND``. Results on standard output, all else on standard error.

Exit codes: 0 done; 2 the user's input is at fault (one line says what, where, what to do);
130 interrupted, 143 or 129 ended by SIGTERM or SIGHUP; 1 anything else. ``WHOLEDOC_TRACEBACK=1``
shows where in the code an error arose. A command imports what it needs when it runs, after its
arguments were checked, so that ``--help`` and a wrong path do not wait for torch.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from wholedoc import __version__
from wholedoc.cli import corpora, evaluate, serve, tm, train, translate
from wholedoc.cli.bulk import fill_address
from wholedoc.cli.options import name_standard_output
from wholedoc.config import shipped_configs, shipped_models
from wholedoc.errors import UserError
from wholedoc.kernels import keep_freed_memory
from wholedoc.progress import say

_INTERRUPTED = 130  # as shells count it; typer returns it after Ctrl-C


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments, as the help shows them."""
        return _without_idle_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; ``--ray`` may stand alone."""
        return super().parse_args(ctx, fill_address(args))


class _Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        """The options, as the help shows them."""
        return _without_idle_types(super().get_params(ctx))


def _without_idle_types(params: list[Any]) -> list[Any]:
    """Leave out of the help the types that tell users nothing: ``<bool>``, ``<list[str]>``."""
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = lambda ctx: ""  # noqa: ARG005 (what typer calls)
        elif param.is_flag:
            param.metavar = ""
    return params


_START = "\n\n".join(
    (
        "To begin:",
        "wholedoc translate de-en report.docx -o report.en.docx",
        "wholedoc serve de-en",
        f"Models that come with wholedoc: {', '.join(shipped_models())}.",
        f"Configurations: {', '.join(shipped_configs())};"
        f" experiments: {', '.join(shipped_configs(experiments=True))}.",
        "See wholedoc COMMAND --help for the options and examples of a command.",
    )
)
app = typer.Typer(
    name="wholedoc",
    help="Translation that reads the whole document.",
    epilog=_START,
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_COMMANDS: tuple[Callable[..., None], ...] = (
    *(translate.translate, serve.serve, translate.segments, train.train, corpora.stats),
    *(evaluate.evaluate, evaluate.score, train.experiment, train.export, evaluate.params),
    *(evaluate.bench, corpora.synth, train.demo),
)
_MEMORY_COMMANDS: tuple[Callable[..., None], ...] = (
    *(tm.build, tm.add, tm.search, tm.stats, tm.remove, tm.publish, tm.fit),
)
_EXAMPLES = """
stats --src train.et --trg train.en --doc train.doc
stats corpus.tmx --src-language et --trg-language en
stats my.toml --json
synth corpus
synth small-corpus --train 500 --seed 2
train my.toml
train my.toml --run runs/both --set model.memory=both --set model.fusion=output
translate de-en report.docx -o report.en.docx
translate de-en report.docx --tm handbook --glossary terms.tsv -o report.en.docx
translate runs/my news.et -o news.en
translate runs/my news.et --doc news.doc --passes 2 --explain news.html
translate runs/my --beam 5 --nbest 3 < news.et
translate runs/my news.et --tm handbook --approved news.approved -o news.en
translate runs/my news.jsonl reports -o translated --jobs 2
translate runs/my news.parquet -o translated --ray head:6379
segments report.docx
segments notes.txt --format text --language de --json
serve de-en --tm handbook
serve runs/my --port 8080 --tm handbook --suggestions corrected
score runs/my test.et test.en --doc test.doc
score runs/my --contrastive pronouns.jsonl --json
score runs/my animacy.de-en.test --ctxpro animacy.de-en.test.json --context shuffled
evaluate --ref test.en --doc test.doc --sys base=base.en --sys both=both.en
evaluate --ref test.en --src test.et --sys both=seed1.en --sys both=seed2.en --json
params
params small --src-vocab 8000 --trg-vocab 8000
bench
bench --run runs/my --json
export runs/my my-model
experiment experiment-tiny
experiment my-experiment.toml --jobs 2
demo
demo --out tour --seed 2
tm build handbook handbook.tmx
tm build handbook --src train.de --trg train.en --doc train.doc --origin handbook-2025
tm add handbook approved.tmx --json
tm search handbook "Press the red button." --limit 3
tm search handbook "Press it again." --before "Press the red button."
tm stats handbook
tm remove handbook --origin approved.tmx
tm remove handbook --document chapter-3
tm publish handbook opensearch://search:9200/handbook
tm fit runs/my --tm handbook
"""
memories = typer.Typer(
    name="tm",
    help="Translation memories: make them, add to them, search them.",
    cls=_Group,
    no_args_is_help=True,
)
app.add_typer(memories)


def _register(group: typer.Typer, command: Callable[..., None], prefix: str = "") -> None:
    """Offer a function as a command, with its examples."""
    start = f"{prefix}{command.__name__} ".split()
    examples = (line for line in _EXAMPLES.split("\n") if line.split()[: len(start)] == start)
    epilog = "\n\n".join(["Examples:", *(f"wholedoc {line}" for line in examples)])
    group.command(cls=_Command, epilog=epilog)(command)


for command in _COMMANDS:
    _register(app, command)
for command in _MEMORY_COMMANDS:
    _register(memories, command, "tm ")


def main() -> None:
    """Run a command and turn every error into one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # text is the same whatever the locale
            stream.reconfigure(encoding="utf-8", errors=stream.errors, newline="\n")
    keep_freed_memory()
    try:
        code = _run()
    except TyperException as error:  # the command line itself is wrong
        context = getattr(error, "ctx", None)  # which command it is, where that is known
        path = context.command_path if context else "wholedoc"
        what = error.format_message() or "no command is given"
        _fail(f"{what} (see {path} --help)", 2, error)
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
    code = app(prog_name="wholedoc", standalone_mode=False)
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
