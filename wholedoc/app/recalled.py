"""The recalled words of a translation on a page: tints, and the known pairs they came from."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from wholedoc.decoding.known import KnownPair
from wholedoc.decoding.recollection import RecalledWord, WordSource
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.rendering.tables import escape

_TINTED = 0.1  # the smallest share of a word that is marked
_NAMED = 0.05  # the smallest weight of a source that is named beside a heavier one
_STEPS = (0.1, 0.4, 0.7, 1.0)  # the shares in the legend

Span = tuple[int, int]
"""Where a part of a text begins and ends."""


class _PlacedWord(NamedTuple):
    """A word that is marked, and where it stands in the translation."""

    start: int
    end: int
    word: RecalledWord


def recalled_words(translated: TranslatedDocument, t: int) -> list[RecalledWord]:
    """What is told of the words of a sentence: nothing where nobody asked."""
    return translated.recall[t] if translated.recall else []


def mark_spans(text: str, spans: Sequence[Span], tag: str, whole: Span | None = None) -> str:
    """Text as HTML, or the part ``whole`` of it, with what lies in spans in a tag."""
    at, end = whole or (0, len(text))
    parts = []
    for first, last in spans:
        first, last = max(first, at), min(last, end)
        if first < last:
            parts.append(escape(text[at:first]))
            parts.append(f"<{tag}>{escape(text[first:last])}</{tag}>")
            at = last
    return "".join([*parts, escape(text[at:end])])


def draw_recalled(text: str, words: Sequence[RecalledWord], changed: Sequence[Span] = ()) -> str:
    """A translation with its recalled words marked, and the spans that changed in ``<ins>``."""
    parts, at = [], 0
    for start, end, word in _place_words(text, words):
        parts.append(mark_spans(text, changed, "ins", (at, start)))
        inner = mark_spans(text, changed, "ins", (start, end))
        parts.append(f"<mark {_describe_word(word)}>{inner}</mark>")
        at = end
    return "".join([*parts, mark_spans(text, changed, "ins", (at, len(text)))])


def draw_pairs(text: str, words: Sequence[RecalledWord], known: Sequence[KnownPair]) -> str:
    """The known pairs that the marked words of a translation came from, each of them once."""
    placed = _place_words(text, words)
    used = sorted({source.pair for _, _, word in placed for source in _named(word)})
    if not used:
        return ""
    listed = "".join(
        f'<li value="{k + 1}"><span class="src" dir="auto">{escape(known[k].src)}</span> '
        f'<span class="trg" dir="auto">{escape(known[k].trg)}</span> '
        f"<small>{escape(name_pair(known[k]))}</small></li>"
        for k in used
    )
    title = f"{len(used)} known pair{'s' * (len(used) > 1)}"
    return f'<details class="known"><summary>{title}</summary><ol>{listed}</ol></details>'


def name_pair(pair: KnownPair) -> str:
    """How well a known pair matches, and where it comes from."""
    if pair.approved:
        return f"{pair.score} % match, approved in this document, sentence {pair.place + 1}"
    parts = [
        f"{pair.score} % match",
        pair.origin,
        f"document {pair.document}",
        f"pair {pair.place + 1}",
    ]
    return ", ".join([*parts, pair.date] if pair.date else parts)


def draw_legend(translated: TranslatedDocument) -> str:
    """What the tints mean, and how many words have one; nothing where no sentence knew any."""
    if not any(translated.known):
        return ""
    sentences = range(len(translated.sentences))
    words = [recalled_words(translated, t) for t in sentences]
    marked = sum(len(_place_words(translated.sentences[t], words[t])) for t in sentences)
    tints = " ".join(
        f'<mark class="recalled" style="--share:{step:.1f}">{step * 100:.0f}&nbsp;%</mark>'
        for step in _STEPS
    )
    approved = len(translated.approved)
    stayed = f" {approved:,} approved sentences stayed as they are." if approved > 1 else ""
    stayed = " One approved sentence stayed as it is." if approved == 1 else stayed
    return (
        '<p class="legend">Tinted words were recalled from what people have translated; the tint '
        f"is the share of a word's probability that came from there: {tints}. Under "
        f"{_TINTED * 100:.0f} % there is none. Point at a word, tap it, or go to it with → and ← "
        "from the number of its sentence, to see λ, which is how much recall counted there, and "
        f"the pairs it came from. {marked:,} of "
        f"{sum(map(len, words)):,} words are tinted.{stayed}</p>"
    )


def _place_words(text: str, words: Sequence[RecalledWord]) -> list[_PlacedWord]:
    """Where the words to be marked stand in a translation.

    Only white space may lie between two words, but where one is written in another way, such as
    an unknown word that was replaced.
    """
    placed, at, lost = [], 0, False
    for word in words:
        start = text.find(word.text, at)
        if not word.text or start < 0 or (text[at:start].strip() and not lost):
            lost = True
            continue
        at, lost = start + len(word.text), False
        if word.share >= _TINTED and word.sources:
            placed.append(_PlacedWord(start, at, word))
    return placed


def _named(word: RecalledWord) -> list[WordSource]:
    """The sources of a word that are worth naming: the heaviest, and others of some weight."""
    return [s for n, s in enumerate(word.sources) if n == 0 or s.weight >= _NAMED]


def _describe_word(word: RecalledWord) -> str:
    """The attributes of a marked word: its figures, and its sources by the numbers of pairs."""
    sources = json.dumps([_describe_source(s, word) for s in _named(word)], separators=(",", ":"))
    title = f"{word.share * 100:.0f} % recalled: pair {word.sources[0].pair + 1}"
    return (
        f'class="recalled" style="--share:{word.share:.2f}" data-gate="{word.gate:.2f}" '
        f'data-from="{escape(sources)}" title="{title}"'
    )


def _describe_source(source: WordSource, word: RecalledWord) -> list[int | float | str]:
    """The number of the pair, the weight, and the word where it is another one."""
    other = [source.word] if source.word != word.text else []
    return [source.pair + 1, round(source.weight, 2), *other]
