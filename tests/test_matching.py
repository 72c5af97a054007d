"""Which segments cover a text together, against a loop in plain numbers."""

import math
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.tm.matching import cover, encode_tokens

WORDS = ["a", "b", "c", "d", "é", "die", "Tür"]
texts = st.lists(st.sampled_from(WORDS), max_size=8)


def cover_by_hand(
    text: list[str], segments: list[list[str]], worth: dict[str, float], limit: int
) -> tuple[list[float], list[int], float]:
    """Shares, chosen places and the share of the chosen together, word by word."""
    whole = sum(worth[w] for w in text) or 1e-6

    def shared(segment: list[str], word: str) -> int:
        return min(segment.count(word), text.count(word))

    shares = [sum(worth[w] * shared(s, w) for w in set(text)) / whole for s in segments]
    chosen: list[int] = []
    while len(chosen) < limit:
        covered = {w: sum(shared(segments[n], w) > 0 for n in chosen) for w in text}
        gains = [
            0.0
            if n in chosen or shares[n] < 0.05
            else sum(worth[w] * 0.4 ** covered[w] * shared(s, w) for w in set(text))
            / math.sqrt(8 + len(s))
            for n, s in enumerate(segments)
        ]
        best = max(gains, default=0.0)
        if best <= 0:
            break
        near = [n for n, gain in enumerate(gains) if gain > best * (1 - 1e-5)]
        chosen.append(near[0])
    together = sum(
        worth[w] * max((shared(segments[n], w) for n in chosen), default=0) for w in set(text)
    )
    return shares, chosen, together / whole


@settings(max_examples=200, deadline=None)
@given(texts, st.lists(texts, max_size=6), st.integers(1, 6), st.randoms(use_true_random=False))
def test_coverage_equals_a_loop_over_words(
    text: list[str], segments: list[list[str]], limit: int, random: Random
) -> None:
    worth = {word: random.uniform(0.5, 3) for word in WORDS}
    found = cover(
        encode_tokens(text),
        [encode_tokens(segment) for segment in segments],
        {encode_tokens([word]): value for word, value in worth.items()},
    )
    shares, chosen, together = cover_by_hand(text, segments, worth, limit)
    assert all(math.isclose(a, b, abs_tol=1e-5) for a, b in zip(found.shares, shares, strict=True))
    ours = found.choose(limit)
    assert [segments[n] for n in ours] == [segments[n] for n in chosen]
    assert math.isclose(found.together(ours), together, abs_tol=1e-5)


def test_what_nobody_has_is_not_covered() -> None:
    worth = {encode_tokens([word]): 1.0 for word in WORDS}
    nothing = cover(encode_tokens(["a"]), [], worth)
    assert nothing.shares == []
    assert nothing.choose(8) == []
    assert nothing.together([]) == 0
    assert cover("", [encode_tokens(["a"])], worth).choose(8) == []
