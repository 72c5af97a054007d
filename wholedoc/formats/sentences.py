"""Sentence splitting: where the sentences of a paragraph lie; no character is lost."""

import re
from collections.abc import Iterator

from sentencex import get_sentence_boundaries

from wholedoc.corpus.documents import primary_language
from wholedoc.formats.protected import Span, find_protected

# The languages whose abbreviations sentencex knows; others are split as a relative of theirs, or
# by the marks that end sentences anywhere.
KNOWN_LANGUAGES = frozenset(
    {"am", "ar", "bg", "bn", "ca", "da", "de", "el", "en", "es", "fi", "fr",
     "gu", "he", "hi", "hy", "it", "ja", "kk", "kn", "ml", "mr", "my", "nl",
     "pa", "pl", "pt", "ru", "sk", "ta", "te", "uk", "ur", "zh"}
)  # fmt: skip
_SIGNS = re.compile(r"\A(?:[|¦•·‹›→←↑↓▶►◀◄★☆✓✔]\s+)++")
_SIGNS_AND_QUOTES = re.compile(_SIGNS.pattern.replace("[", "[«»"))
_QUOTED = re.compile("«.*»|».*«", re.DOTALL)
_WINDOW = 10_000  # characters that are split at once: sentencex takes the square of their number


def split_sentences(text: str, language: str) -> list[Span]:
    """The sentences of a text as spans, without the white space around them.

    Two rules beside those of sentencex: what begins with a lowercase letter belongs to the sentence
    before it, and so does what begins inside an address or the like.
    """
    spans: list[Span] = []
    inside = {at for start, end in find_protected(text) for at in range(start + 1, end)}
    for start, end in _boundaries(text, language or "en"):
        part = text[start:end]
        first, last = end - len(part.lstrip()), start + len(part.rstrip())
        if first >= last:
            continue
        if spans and (text[first].islower() or first in inside):
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans


def without_signs(text: str, span: Span) -> Span:
    """A sentence without signs that stand alone at its edges, such as ``next |`` or ``Home »``."""
    start, end = span
    sentence = text[start:end]
    alone = _SIGNS if _QUOTED.search(sentence) else _SIGNS_AND_QUOTES
    first, last = (alone.sub("", each, 1) for each in (sentence, sentence[::-1]))
    start, end = end - len(first), start + len(last)
    return (start, end) if start < end else span


def _boundaries(text: str, language: str) -> Iterator[Span]:
    """Where sentencex finds sentences; in a long text it is asked window by window.

    The last sentence of a window may go on after it, so the next window begins with it. One that
    fills a window is cut there.
    """
    begin = 0
    while begin < len(text):
        window = text[begin : begin + _WINDOW]
        found = get_sentence_boundaries(language, window)
        spans = [(begin + each["start_index"], begin + each["end_index"]) for each in found]
        is_last = begin + len(window) == len(text)
        yield from spans if is_last or len(spans) == 1 else spans[:-1]
        begin = spans[-1][0] if len(spans) > 1 and not is_last else begin + len(window)


def describe_splitting(language: str) -> str:
    """What is said of a language that the splitter has no rules for; nothing of the others."""
    if primary_language(language) in KNOWN_LANGUAGES:
        return ""
    name = f"the language {language!r}" if language else "a language that is not named"
    return f"sentences are split by general rules: no abbreviations are known for {name}"
