"""The command ``serve``."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from wholedoc.cli.options import MemoriesOption
from wholedoc.config import MOST
from wholedoc.progress import say

_DEFAULT = "de-en"


def serve(
    models: Annotated[
        list[str] | None,
        Argument(
            metavar="MODEL",
            help="Run directories, exports, or models that come with wholedoc; "
            "one for each pair of languages.",
            show_default=_DEFAULT,
        ),
    ] = None,
    host: Annotated[
        str, Option(help="Where to listen; 0.0.0.0 answers other machines too.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str, Option(help="Answer only requests with this token.", envvar="WHOLEDOC_TOKEN")
    ] = "",
    memories: MemoriesOption = None,
    suggestions: Annotated[
        Path | None, Option(help="A memory that suggestions of clients are added to.")
    ] = None,
    glossary: Annotated[
        Path | None,
        Option(metavar="FILE", help="Terms that are always enforced: source<TAB>target, or TBX."),
    ] = None,
    glossaries: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep the glossaries of clients here; else in memory alone."),
    ] = None,
    seconds: Annotated[
        float,
        Option(help="End after so many seconds; 0 serves until told to end.", min=0, max=MOST),
    ] = 0,
    int8: Annotated[
        bool, Option("--int8", help="Multiply in 8 bits: faster on processors with VNNI.")
    ] = False,
) -> None:
    """Serve translations over HTTP, as LibreTranslate, DeepL, OPUS-CAT and Apertium do."""
    from wholedoc.decoding.translator import Translator
    from wholedoc.service.core import Service
    from wholedoc.service.server import make_app, run_app

    translators = [Translator.load(model, int8=int8) for model in models or [_DEFAULT]]
    given = (memories or [], None, suggestions, glossary, glossaries)
    service = Service(translators, *given, processes=True)
    for src, trg in service.engines:
        say(f"translating {src} to {trg}")
    tell = partial(_tell, seconds)
    run_app(make_app(service, token), host, port, tell, seconds)


def _tell(seconds: float, address: str) -> None:
    """Say where the service listens, and how it ends."""
    end = f"it ends in {seconds:g} seconds" if seconds else "Ctrl+C ends it"
    say(f"serving at {address} ({end})")
