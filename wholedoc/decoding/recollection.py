"""Where the words of a translation were recalled from."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor

from wholedoc.corpus.batches import pad
from wholedoc.corpus.vocabulary import EOS, Vocabulary
from wholedoc.decoding.cells import CellRow, Recaller
from wholedoc.decoding.document import Sentence
from wholedoc.decoding.known import Known, KnownPair, find_exact
from wholedoc.decoding.scoring import decode_given, of_words, places_of, see_words
from wholedoc.kernels import one_thread
from wholedoc.model.decoder import Decoded
from wholedoc.model.memory import Readings

_SOURCES = 3  # cells that are named for a word, the heaviest ones
_LEAST = 0.01  # the smallest weight that is named


@dataclass(frozen=True, slots=True)
class RecalledFrom:
    """A word of a known pair that a word of a translation was recalled from."""

    pair: int
    """Which of the sentence's known pairs."""
    place: int
    """Which token of its translation."""
    weight: float
    """c_k / λ_j: its part in what was recalled."""


@dataclass(frozen=True, slots=True)
class RecalledToken:
    """How far one token of a translation was recalled."""

    gate: float
    """λ_j: how much recall counted."""
    share: float
    """How much of P(y_j) is recalled: λ_j Σ p_k / P(y_j)."""
    sources: tuple[RecalledFrom, ...]
    """The cells of this word, the heaviest first."""


@dataclass(frozen=True, slots=True)
class WordSource:
    """A word of a known pair that a word of a translation was recalled from."""

    pair: int
    """Which of the sentence's known pairs."""
    word: str
    """The word of its translation."""
    weight: float
    """p_k, on average over the tokens of the word."""


@dataclass(frozen=True, slots=True)
class RecalledWord:
    """How far one word of a translation was recalled; figures are means over its tokens."""

    text: str
    gate: float
    """λ_j: how much recall counted."""
    share: float
    """How much of the word's probability is recalled."""
    sources: tuple[WordSource, ...]
    """Where it was recalled from, the heaviest first."""


def join_words(
    tokens: Sequence[RecalledToken],
    names: Sequence[str],
    known: Sequence[KnownPair],
    vocabulary: Vocabulary,
) -> list[RecalledWord]:
    """The words of a translation from its tokens, given by their names too."""
    words = []
    spelt = [vocabulary.tokens(pair.trg) for pair in known]
    for start, end in vocabulary.word_spans(names):
        part = tokens[start:end]
        sources: dict[tuple[int, str], float] = {}
        for token in part:
            for source in token.sources:
                word = _word_at(spelt[source.pair], source.place, vocabulary)
                key = source.pair, word
                sources[key] = sources.get(key, 0.0) + source.weight / len(part)
        ranked = sorted(sources.items(), key=lambda found: -found[1])[:_SOURCES]
        words.append(
            RecalledWord(
                vocabulary.decode_tokens(names[start:end]).strip(),
                fmean(token.gate for token in part),
                fmean(token.share for token in part),
                tuple(WordSource(*key, weight) for key, weight in ranked),
            )
        )
    return words


def copied_words(known: Sequence[KnownPair]) -> list[RecalledWord]:
    """The words of a translation that was taken from the pair with the same sentence as it is."""
    pair = find_exact(known)
    words = [] if pair is None else known[pair].trg.split()
    return [RecalledWord(word, 1.0, 1.0, (WordSource(pair or 0, word, 1.0),)) for word in words]


def _word_at(names: Sequence[str], place: int, vocabulary: Vocabulary) -> str:
    """The word that a token belongs to."""
    for start, end in vocabulary.word_spans(names):
        if start <= place < end:
            return vocabulary.decode_tokens(names[start:end]).strip()
    return ""  # the end of the sentence


@one_thread()
@torch.inference_mode()
def recollect(
    recaller: Recaller,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    known: Known,
    readings: Sequence[Readings],
    batch_tokens: int,
) -> list[list[RecalledToken]]:
    """For each token of translations, without ``</s>``, what it was recalled from."""
    found = recaller.gather(known)

    def trace(decoded: Decoded, chosen: list[int]) -> list[list[RecalledToken]]:
        cells = recaller.cells([known[i] for i in chosen], found)
        if cells is None:
            return [[RecalledToken(0.0, 0.0, ())] * len(translations[i]) for i in chosen]
        words = pad([[*translations[i], EOS] for i in chosen])[0].to(cells.types.device)
        packing, steps = decoded.packing, words.shape[1]
        seen = see_words(recaller.model, decoded, words, cells.types).pad(packing, steps)
        features = packing.pad(decoded.packed_features, steps)
        recalled = recaller.recall.follow(features, words, seen.own, seen.types, seen.surest, cells)
        mixed = of_words(recalled, seen, words, cells)
        same = cells.types.gather(1, cells.words)[:, None] == words[:, :, None]  # (S, J, K)
        weights = recalled.copies / recalled.gate[:, :, None].clamp(min=_LEAST)
        weights = weights * (same & cells.mask[:, None])
        places, is_type = places_of(words, cells)
        share = is_type * recalled.shares.gather(2, places)[:, :, 0] / mixed.exp()
        top = weights.topk(min(_SOURCES, weights.shape[-1]), dim=-1)
        return [
            _tokens(
                known[i],
                recaller.row(known[i], found),
                [part[row, : len(translations[i])] for part in (recalled.gate, share, *top)],
            )
            for row, i in enumerate(chosen)
        ]

    return decode_given(recaller.model, sentences, translations, batch_tokens, trace, readings)


def _tokens(
    pairs: Sequence[KnownPair], row: CellRow, figures: Sequence[Tensor]
) -> list[RecalledToken]:
    """The tokens of one sentence from λ, shares, and the weights and indices of the top cells."""
    if not pairs:
        return [RecalledToken(0.0, 0.0, ())] * len(figures[0])
    tokens = []
    for gate, share, weights, cells in zip(*(part.tolist() for part in figures), strict=True):
        sources = tuple(
            RecalledFrom(int(row.pairs[k]), int(row.places[k]), weight)
            for weight, k in zip(weights, cells, strict=True)
            if weight >= _LEAST
        )
        tokens.append(RecalledToken(gate, min(share, 1.0), sources))
    return tokens
