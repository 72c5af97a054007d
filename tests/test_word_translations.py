"""The aligner against its formulas, a language whose links are known, and cases by hand."""

from collections import Counter, defaultdict
from itertools import product
from math import exp, sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.corpus import word_translations
from wholedoc.corpus.word_translations import Aligner, Links, WordIds
from wholedoc.synthetic.documents import draw_document, split_words
from wholedoc.synthetic.language import Lexeme, SynthConfig, build_language

Text = list[list[str]]


class WordAligner:
    """The aligner on words instead of ids."""

    def __init__(self, src: Text, trg: Text) -> None:
        self.ids = WordIds()
        self.aligner = Aligner(self.ids.encode(src), self.ids.encode(trg))

    def align(self, src: Text, trg: Text) -> list[Links]:
        return self.aligner.align(self.ids.encode(src), self.ids.encode(trg))

    def translations(self, src: Text, trg: Text, most: int) -> list[tuple[str, str]]:
        found = self.aligner.translations(self.ids.encode(src), self.ids.encode(trg), most)
        words = list(self.ids)
        return [(words[one], words[other]) for one, other in zip(*found, strict=True)]


def synthetic_text(documents: int) -> tuple[Text, Text, list[Links]]:
    """Sentences of the artificial language, without punctuation, and their links by its lexicon.

    Sentences that say a word twice are left out, as the lexicon does not tell which is which.
    """
    config = SynthConfig(seed=3)
    language = build_language(config)
    words: list[object] = list(vars(language).values())
    renderings: dict[str, tuple[str, ...]] = {}
    while words:
        entry = words.pop()
        if isinstance(entry, Lexeme):
            renderings[entry.src] = entry.trg
        elif isinstance(entry, tuple):
            words.extend(entry)
    rng = Random(1)
    src, trg, links = [], [], []
    for number in range(documents):
        for pair in draw_document(str(number), language, config, rng).pairs:
            one, other = (split_words(text)[:-1] for text in (pair.src, pair.trg))
            if len(set(one)) == len(one):
                src.append(one)
                trg.append(other)
                links.append(
                    tuple(
                        (i, j)
                        for i, word in enumerate(one)
                        for j, rendering in enumerate(other)
                        if rendering in renderings.get(word, ())
                    )
                )
    return src, trg, links


def test_the_artificial_language_is_aligned() -> None:
    src, trg, right = synthetic_text(documents=25)
    found = WordAligner(src, trg).align(src, trg)
    hits = sum(len(set(a) & set(b)) for a, b in zip(found, right, strict=True))
    assert hits > 1000
    assert hits / sum(map(len, found)) > 0.98  # precision
    assert hits / sum(map(len, right)) > 0.98  # recall


class SlowAligner:
    """The formulas of ``Aligner``, cell by cell."""

    def __init__(self, src: Text, trg: Text) -> None:
        self.src, self.trg = src, trg
        self.words = len({word for sentence in (*src, *trg) for word in sentence})
        self.src_shares, self.trg_shares = self.shares(src), self.shares(trg)
        self.steepness = 0.0
        self.counts: dict[tuple[str, str], float] = defaultdict(float)
        for one, other in zip(src, trg, strict=True):
            for pair in product(one, other):
                self.counts[pair] += 1
        for turn in range(5):
            self.improve(turn)

    def shares(self, text: Text) -> dict[str, float]:
        counts = Counter(word for sentence in text for word in sentence)
        total = sum(counts.values()) + 0.5 * (self.words + 1)
        return {word: (count + 0.5) / total for word, count in counts.items()}

    def prior(self, here: int, length: int, there: int, other_length: int) -> float:
        weights = [
            exp(-self.steepness * off_diagonal(k, length, there, other_length))
            for k in range(length)
        ]
        return weights[here] / sum(weights)

    def forward(self, one: list[str], other: list[str], i: int, j: int) -> float:
        f, e = one[i], other[j]
        total = sum(count for (word, _), count in self.counts.items() if word == f)
        smoothed = self.counts[f, e] + ((e == f) + self.trg_shares[e]) / 2
        return 0.8 * self.prior(i, len(one), j, len(other)) * smoothed / (total + 1)

    def backward(self, one: list[str], other: list[str], i: int, j: int) -> float:
        f, e = one[i], other[j]
        total = sum(count for (_, word), count in self.counts.items() if word == e)
        smoothed = self.counts[f, e] + ((e == f) + self.src_shares[f]) / 2
        return 0.8 * self.prior(j, len(other), i, len(one)) * smoothed / (total + 1)

    def cells(self, one: list[str], other: list[str]) -> dict[tuple[int, int], tuple[float, float]]:
        """P(i | j) and Q(j | i)."""
        found = {}
        for i, j in product(range(len(one)), range(len(other))):
            null = 0.2 * self.trg_shares[other[j]], 0.2 * self.src_shares[one[i]]
            rivals = sum(self.forward(one, other, k, j) for k in range(len(one)))
            others = sum(self.backward(one, other, i, k) for k in range(len(other)))
            found[i, j] = (
                self.forward(one, other, i, j) / (null[0] + rivals),
                self.backward(one, other, i, j) / (null[1] + others),
            )
        return found

    def improve(self, turn: int) -> None:
        counts: dict[tuple[str, str], float] = defaultdict(float)
        slope = curvature = 0.0
        for one, other in zip(self.src, self.trg, strict=True):
            for (i, j), (p, q) in self.cells(one, other).items():
                weight = (p + q) / 2 if turn < 2 else p * q
                counts[one[i], other[j]] += weight
                sizes = len(one), j, len(other)
                chances = [self.prior(k, *sizes) for k in range(len(one))]
                distances = [off_diagonal(k, *sizes) for k in range(len(one))]
                mean = sum(c * d for c, d in zip(chances, distances, strict=True))
                square = sum(c * d**2 for c, d in zip(chances, distances, strict=True))
                slope += weight * (mean - distances[i])
                curvature += weight * (square - mean**2)
        self.counts = counts
        if turn >= 1:
            self.steepness = min(max(self.steepness + slope / curvature, 0.0), 20.0)

    def links(self) -> list[Links]:
        return [
            tuple(at for at, (p, q) in self.cells(one, other).items() if sqrt(p * q) > 0.5)
            for one, other in zip(self.src, self.trg, strict=True)
        ]


def off_diagonal(here: int, length: int, there: int, other_length: int) -> float:
    return abs((here + 0.5) / length - (there + 0.5) / other_length)


def test_links_are_those_of_the_formulas() -> None:
    src, trg, _ = synthetic_text(documents=1)
    src, trg = src[:5], trg[:5]
    found = WordAligner(src, trg).align(src, trg)
    assert found == SlowAligner(src, trg).links()
    assert sum(map(len, found)) > 8
    src[0].append("bali")  # the same word on both sides, far off the diagonal
    trg[0].insert(0, "bali")
    found = WordAligner(src, trg).align(src, trg)
    assert found == SlowAligner(src, trg).links()
    assert (5, 0) in found[0]


SRC = ["la maison", "la fleur", "la maison bleue", "la fleur bleue"]
TRG = ["the house", "the flower", "the blue house", "the blue flower"]


@pytest.mark.parametrize(
    ("src", "trg", "links"),
    [
        ("la maison", "the house", ((0, 0), (1, 1))),
        ("la maison bleue", "the blue house", ((0, 0), (1, 2), (2, 1))),
        ("la fleur bleue", "the blue flower", ((0, 0), (1, 2), (2, 1))),
        ("fleur la", "the flower", ((0, 1), (1, 0))),
        ("qimonda la fleur", "the flower qimonda", ((0, 2), (1, 0), (2, 1))),  # never seen, equal
        ("la chat", "the cat", ((0, 0), (1, 1))),  # never seen, left over
        ("la", "", ()),
        ("", "the", ()),
        ("", "", ()),
    ],
)
def test_links_by_hand(src: str, trg: str, links: Links) -> None:
    aligner = WordAligner([text.split() for text in SRC * 3], [text.split() for text in TRG * 3])
    assert aligner.align([src.split()], [trg.split()]) == [links]


def test_nothing_to_learn_from() -> None:
    assert WordAligner([], []).align([["a"], []], [["a"], ["b"]]) == [((0, 0),), ()]


# Translations of words.


def test_translations_are_ranked_by_how_often_they_stand_for_a_word() -> None:
    src, trg = [text.split() for text in SRC * 3], [text.split() for text in TRG * 3]
    src += [["maison"], ["chat"]]
    trg += [["home"], ["cat"]]
    aligner = WordAligner(src, trg)
    best = {"la": "the", "maison": "house", "fleur": "flower", "bleue": "blue", "chat": "cat"}
    assert dict(aligner.translations(src, trg, most=1)) == best
    of_house = [other for one, other in aligner.translations(src, trg, 2) if one == "maison"]
    assert of_house == ["house", "home"]
    unseen = aligner.translations([["la", "lune"]], [["the", "moon"]], most=1)
    assert unseen == [("la", "the"), ("lune", "moon")]  # not learned from, left over
    assert aligner.translations([], [], most=1) == []


def test_every_word_of_the_artificial_language_is_translated() -> None:
    src, trg, links = synthetic_text(documents=25)
    right = {(src[t][i], trg[t][j]) for t, found in enumerate(links) for i, j in found}
    found = WordAligner(src, trg).translations(src, trg, most=1)
    assert len(found) == len({word for sentence in src for word in sentence})
    assert len(set(found) & right) > 0.95 * len(found)


def test_blocks_of_cells_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    src, trg, _ = synthetic_text(documents=4)
    whole = WordAligner(src, trg)
    expected = whole.align(src, trg), whole.translations(src, trg, 3)
    monkeypatch.setattr(word_translations, "_CELLS_AT_ONCE", 50)
    parts = WordAligner(src, trg)
    assert (parts.align(src, trg), parts.translations(src, trg, 3)) == expected


def test_a_large_text_is_learned_from_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    src, trg, _ = synthetic_text(documents=4)
    cells = sum(len(one) * len(other) for one, other in zip(src, trg, strict=True))
    monkeypatch.setattr(word_translations, "_CELLS_LEARNED", (cells - 1) // 3)
    aligner = WordAligner(src, trg)
    some = Aligner(aligner.ids.encode(src[::4]), aligner.ids.encode(trg[::4]))
    found = aligner.align(src, trg)
    assert found == some.align(aligner.ids.encode(src), aligner.ids.encode(trg))


sentences = st.lists(st.sampled_from("abcdef"), max_size=5)
texts = st.lists(st.tuples(sentences, sentences), max_size=6)


@settings(max_examples=40, deadline=None)
@given(texts, st.randoms(use_true_random=False))
def test_the_order_of_sentences_does_not_matter(
    pairs: list[tuple[list[str], list[str]]], random: Random
) -> None:
    def align(order: list[int]) -> dict[int, Links]:
        src, trg = [pairs[t][0] for t in order], [pairs[t][1] for t in order]
        links = WordAligner(src, trg).align(src, trg)
        for found, one, other in zip(links, src, trg, strict=True):
            assert list(found) == sorted(set(found))
            assert all(0 <= i < len(one) and 0 <= j < len(other) for i, j in found)
        return dict(zip(order, links, strict=True))

    order = list(range(len(pairs)))
    shuffled = order.copy()
    random.shuffle(shuffled)
    assert align(order) == align(shuffled)
