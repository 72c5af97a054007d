"""Which words of a source the words of its translation come from, by the model's attention."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from rapidfuzz import fuzz
from torch import Tensor

from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.decoding.results import Translation

_WORD = re.compile(r"\w+|[^\w\s]")
_LEAST_ALIKE = 4  # letters of a word that is compared with another
_NEAR = 8  # characters that a token may have been written in another way before the next is found


class Origin(NamedTuple):
    """A stretch of a translation, and the place in the source that it comes from."""

    start: int
    end: int
    source: int


def align(text: str, translation: Translation, vocabulary: Vocabulary) -> list[Origin]:
    """Where the words of a translation come from: the source word that fits each best.

    That is the one which its tokens attend to most, here and, by a quarter, one step later, as
    attention lags behind; a word that many attend to counts for less, and one that is written
    alike for more. Marks have no origin. ``vocabulary`` is that of the source. A translation
    without attention, made in pieces, is taken to have the proportions of its source.
    """
    sources, words = find_words(text), find_words(translation.text)
    tokens = token_spans(text, vocabulary.tokens(clean_text(text)))
    spans = token_spans(translation.text, translation.tokens)
    if translation.attention is None or not (sources and words and tokens and spans):
        return _by_proportion(text, translation.text)
    weights = translation.attention[: len(spans), : len(tokens)].float()  # without </s>
    if weights.shape != (len(spans), len(tokens)):
        return _by_proportion(text, translation.text)
    later = torch.cat([weights[1:], weights[-1:]])
    attended = _owners(words, spans) @ (weights + 0.25 * later) @ _owners(sources, tokens).T
    attended = attended / attended.sum(dim=0).clamp(min=1e-6).sqrt()
    alike = [
        [_likeness(translation.text[slice(*word)], text[slice(*source)]) for source in sources]
        for word in words
    ]
    best = (attended + torch.tensor(alike)).argmax(dim=-1).tolist()
    return [
        Origin(start, end, sources[i][0])
        for (start, end), i in zip(words, best, strict=True)
        if translation.text[start].isalnum()
    ]


def find_words(text: str) -> list[tuple[int, int]]:
    """The words and marks of a text."""
    return [match.span() for match in _WORD.finditer(text)]


def _owners(
    words: Sequence[tuple[int, int]], tokens: Sequence[tuple[int, int]]
) -> Float[Tensor, "word token"]:
    """1 where a token lies in a word."""
    owners = torch.zeros(len(words), len(tokens))
    n = 0
    for k, (start, end) in enumerate(tokens):
        while n < len(words) - 1 and words[n][1] <= start:
            n += 1
        owners[n, k] = float(words[n][0] < max(end, start + 1))
    return owners


def _likeness(word: str, source: str) -> float:
    """How alike two words are written: 1 for the same, 0 for little."""
    if word == source:
        return 1.0
    if min(len(word), len(source)) < _LEAST_ALIKE:
        return 0.0
    return fuzz.ratio(word.lower(), source.lower(), score_cutoff=65) / 150


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
