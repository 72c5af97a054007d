"""Inputs made from good ones: bytes changed, dropped, doubled, cut, moved, and words put in."""

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

_MOST_BYTES = 40_000


def inputs(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    """Changed copies of some inputs, or any bytes."""
    return st.one_of(_changed(seeds, words), _changed(seeds, words), st.binary(max_size=200))


@st.composite
def _changed(draw: st.DrawFn, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        change = draw(st.sampled_from(_CHANGES))
        data = change(draw, data, words)[:_MOST_BYTES]
    return data


def _place(draw: st.DrawFn, data: bytes) -> int:
    return draw(st.integers(0, len(data)))


def _span(draw: st.DrawFn, data: bytes) -> tuple[int, int]:
    first = _place(draw, data)
    return first, first + draw(st.integers(0, min(len(data) - first, 100)))


def _flip(draw: st.DrawFn, data: bytes, _: Sequence[bytes]) -> bytes:
    at = draw(st.integers(0, max(len(data) - 1, 0)))
    flipped = bytes(byte ^ 1 << draw(st.integers(0, 7)) for byte in data[at : at + 1])
    return data[:at] + flipped + data[at + 1 :]


def _insert(draw: st.DrawFn, data: bytes, words: Sequence[bytes]) -> bytes:
    at = _place(draw, data)
    some = st.binary(min_size=1, max_size=8)
    word = draw(st.one_of(st.sampled_from(words), some) if words else some)
    return data[:at] + word + data[at:]


def _drop(draw: st.DrawFn, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = _span(draw, data)
    return data[:first] + data[last:]


def _repeat(draw: st.DrawFn, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = _span(draw, data)
    return data[:first] + data[first:last] * draw(st.sampled_from([2, 3, 50, 2000])) + data[last:]


def _cut(draw: st.DrawFn, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: _place(draw, data)]


def _move(draw: st.DrawFn, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = _span(draw, data)
    rest = data[:first] + data[last:]
    at = _place(draw, rest)
    return rest[:at] + data[first:last] + rest[at:]


_CHANGES: Sequence[Callable[[st.DrawFn, bytes, Sequence[bytes]], bytes]] = (
    *(_flip, _insert, _insert, _drop),
    *(_repeat, _cut, _move),
)
