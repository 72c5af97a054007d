"""HTML pages that open from disk: one look for all of them."""

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files


def make_page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """A page that needs nothing else: ``style`` and ``script`` name assets of their own."""
    styles = "".join(read_asset(name) for name in ("page.css", style) if name)
    code = f"<script>\n{read_asset(script)}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{styles}</style>\n{body}\n{code}</html>\n"
    )


def read_asset(name: str) -> str:
    """The text of a file that ships with the pages."""
    return (files("wholedoc.rendering") / "assets" / name).read_text(encoding="utf-8")


def escape(text: str) -> str:
    """Text as HTML, in an attribute too; half a surrogate pair becomes a question mark."""
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of given HTML that scrolls where it is too wide; ``kind`` is its class."""
    titles = "".join(f"<th>{title}</th>" for title in head)
    lines = ["".join(f"<td>{cell}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    opening = f'<table class="{kind}">' if kind else "<table>"
    table = f"{opening}<thead><tr>{titles}</tr></thead>\n<tbody>\n{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
