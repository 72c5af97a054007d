"""What callers give, checked: documents as lists of texts, translations for each of them."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from wholedoc.errors import UserError

Item = TypeVar("Item")


def check_documents(documents: Iterable[Iterable[str]], where: str) -> list[list[str]]:
    """Documents as lists of texts."""
    checked = _check_list(documents, "documents", where)
    return [check_document(document, f"{where}[{d}]") for d, document in enumerate(checked)]


def check_document(sentences: Iterable[str], where: str) -> list[str]:
    """A document as a list of texts."""
    checked = _check_list(sentences, "sentences", where)
    for t, sentence in enumerate(checked):
        if not isinstance(sentence, str):
            fix = "decode it first" if isinstance(sentence, bytes) else "give a text"
            raise UserError(
                f"{reprlib.repr(sentence)} is not a text", where=f"{where}[{t}]", fix=fix
            )
    return checked


def check_approved(approved: Sequence[Mapping[int, str]], texts: Sequence[Sequence[str]]) -> None:
    """Raise where an approved translation is none, or has no sentence."""
    for d, (given, sentences) in enumerate(zip(approved, texts, strict=True)):
        for place, text in given.items():
            where = f"approved[{d}][{place!r}]" if len(texts) > 1 else f"approved[{place!r}]"
            check_place(place, sentences, where)
            if not isinstance(text, str):
                what = f"{reprlib.repr(text)} is not a text"
                raise UserError(what, where=where, fix="give a text")


def check_type(value: object, kind: type | tuple[type, ...], wanted: str, where: str) -> None:
    """Raise where a value is not of a type; ``wanted`` says what to give."""
    if not isinstance(value, kind):
        raise UserError(f"{reprlib.repr(value)} does not fit", where=where, fix=f"give {wanted}")


def check_place(place: int, sentences: Sequence[str], where: str) -> None:
    """Raise where a document has no such sentence."""
    if not isinstance(place, int) or not 0 <= place < len(sentences):
        what = f"there is no sentence {place!r} in a document of {len(sentences)}"
        raise UserError(what, where=where, fix="count sentences from 0")


def _check_list(values: Iterable[Item], kind: str, where: str) -> list[Item]:
    """Values as a list; a text by itself would be taken for its characters."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        fix = f"give a list of {kind}, not one text"
        raise UserError(f"{reprlib.repr(values)} is not a list of {kind}", where=where, fix=fix)
    return list(values)


def check_count(given: int, wanted: int, kind: str, where: str) -> None:
    """Raise where there is not one translation for each document, or for each sentence."""
    if given != wanted:
        fix = f"give one for each of the {kind}"
        raise UserError(f"{given} translations are given for {wanted} {kind}", where=where, fix=fix)
