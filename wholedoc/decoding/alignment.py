"""Which words of a source the words of its translation come from, by the model's attention."""

from collections.abc import Sequence
from typing import NamedTuple

from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.decoding.results import Translation

_NEAR = 8  # characters that a token may have been written in another way before the next is found


class Origin(NamedTuple):
    """A stretch of a translation, and the place in the source that it comes from."""

    start: int
    end: int
    source: int


def align(text: str, translation: Translation, vocabulary: Vocabulary) -> list[Origin]:
    """Where the tokens of a translation come from: the source token attended to most.

    ``vocabulary`` is that of the source. A translation without attention, made in pieces, is
    taken to have the order and the proportions of its source.
    """
    places = [start for start, _ in token_spans(text, vocabulary.tokens(clean_text(text)))]
    spans = token_spans(translation.text, translation.tokens)
    if translation.attention is None or not places or not spans:
        return _by_proportion(text, translation.text)
    rows = translation.attention[: len(spans), : len(places)]  # without </s>
    if rows.shape != (len(spans), len(places)):
        return _by_proportion(text, translation.text)
    attended = rows.argmax(dim=-1).tolist()
    return [
        Origin(start, end, places[i])
        for (start, end), i in zip(spans, attended, strict=True)
        if start < end
    ]


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """Where the tokens of a text stand in it, without the space before them.

    A token that is written in another way, such as the bytes of a rare character, has no width.
    """
    spans, at, lowered = [], 0, text.lower()
    if len(lowered) != len(text):  # İ becomes two characters
        lowered = text
    for token in tokens:
        name = token.replace("\u2581", "")
        cased = name if lowered is text else name.lower()
        start = lowered.find(cased, at, at + len(cased) + _NEAR) if cased.strip() else -1
        if start < 0:
            spans.append((at, at))
            continue
        at = start + len(name)
        spans.append((start, at))
    return spans


def _by_proportion(text: str, translation: str) -> list[Origin]:
    origins, at = [], 0
    for word in translation.split():
        start = translation.index(word, at)
        at = start + len(word)
        origins.append(Origin(start, at, start * len(text) // max(len(translation), 1)))
    return origins
