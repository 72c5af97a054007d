"""Where the tags of a source go in its translation, by an alignment of the two.

Each pair of tags surrounds one stretch of the translation: the one with the most words that come
from what it surrounds in the source, and the fewest others; one word at about its place where
there is none. A tag that stands alone comes before the word that follows it in the source, with
white space beside it where the source has some. Tags keep their nesting: what is inside a pair
stays there. No tag is lost and none comes twice, whatever the alignment says.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from wholedoc.formats.protected import Span, find_protected
from wholedoc.formats.segments import Content, Tag, normalised, plain

_UNIT = re.compile(r"\w+|[^\w\s]")
_OPENING = "([{„“«"
_TAKEN = -1_000_000_000
_MOST_PLACED = 2_000_000  # tags of a node times words; with more, tags are placed by proportion


@dataclass(frozen=True)
class Unit:
    """A word or a mark of a translation, and the place in the source that it comes from."""

    start: int
    end: int
    origin: int | None


@dataclass
class _Node:
    """A tag that stands alone, or a pair with what it surrounds."""

    tag: Tag
    closing: Tag | None = None
    start: int = 0
    end: int = 0
    children: list["_Node"] = field(default_factory=list)


def find_units(text: str, origins: Sequence[tuple[int, int, int]]) -> list[Unit]:
    """The words and marks of a translation.

    ``origins`` are stretches of it with the place in the source that each comes from.
    """
    units, at = [], 0
    for start, end in _spans(text):
        while at < len(origins) and origins[at][1] <= start:
            at += 1
        within = at < len(origins) and origins[at][0] < end
        units.append(Unit(start, end, origins[at][2] if within else None))
    return units


def _spans(text: str) -> list[Span]:
    """Words and marks; what is protected is one, as no tag may come into it."""
    whole = find_protected(text)
    parts = [match.span() for match in _UNIT.finditer(text)]
    if not whole:
        return parts
    inside = {place for start, end in whole for place in range(start, end)}
    return sorted([*whole, *(part for part in parts if part[0] not in inside)])


def place_tags(source: Content, text: str, units: Sequence[Unit]) -> Content:
    """The translation ``text`` with the tags of its source."""
    root = _build_tree(source)
    if not root.children:
        return normalised([text])
    return normalised(_Placer(plain(source), text, units).fill(root, 0, len(units), outer=True))


def _build_tree(source: Content) -> _Node:
    root = _Node(Tag("open", -1), None, 0, len(plain(source)))
    opened, at = [root], 0
    for part in source:
        if isinstance(part, str):
            at += len(part)
        elif part.kind == "close":
            node = opened.pop()
            node.closing, node.end = part, at
        else:
            node = _Node(part, None, at, at + part.space)
            opened[-1].children.append(node)
            at += part.space
            if part.kind == "open":
                opened.append(node)
    return root


class _Placer:
    """Places the tags of one segment."""

    def __init__(self, source: str, text: str, units: Sequence[Unit]) -> None:
        self.source, self.text, self.units = source, text, units

    def fill(self, node: _Node, first: int, last: int, *, outer: bool = False) -> list[str | Tag]:
        """What a node surrounds in the translation: the units from ``first`` to ``last``."""
        ranges = self._share(node, first, last)
        start, end = self._edges(first, last, outer)
        parts: list[str | Tag] = []
        at = start
        order = sorted(range(len(ranges)), key=lambda n: (ranges[n][0], ranges[n][1], n))
        for n in order:
            child, (low, high) = node.children[n], ranges[n]
            if child.closing is None:
                at = self._add_alone(parts, child, at, low, last, end)
                continue
            opening = min(max(at, self._start_of(low, last, end)), end)
            parts += [self.text[at:opening], child.tag]
            closing = self.units[high - 1].end if high > low else opening
            parts += [*self.fill(child, low, high), child.closing]
            at = max(at, closing)
        return [*parts, self.text[at:end]]

    def _edges(self, first: int, last: int, outer: bool) -> tuple[int, int]:
        """The characters of some units; all of the translation for the outermost node."""
        if outer:
            return 0, len(self.text)
        if first >= last:
            return 0, 0
        return self.units[first].start, self.units[last - 1].end

    def _start_of(self, unit: int, last: int, end: int) -> int:
        return self.units[unit].start if unit < last else end

    def _add_alone(
        self, parts: list[str | Tag], node: _Node, at: int, unit: int, last: int, end: int
    ) -> int:
        """Add a tag that stands alone before a unit; the white space there as in the source."""
        start = max(at, min(self._start_of(unit, last, end), end))
        gap = self.text[at:start]
        kept = gap.rstrip()
        space = gap[len(kept) :]
        if node.tag.space:
            parts += [kept, node.tag]
            return start
        previous, following = self._beside(node)
        before, after = previous.isspace(), following.isspace()
        left, right = self.text[max(start - 1, 0) : start], self.text[start : start + 1]
        if before and after and space:
            parts += [kept, space[0], node.tag, space[1:] or space]
        elif before and after and left and not right.isalnum():
            parts += [kept, " ", node.tag]
        elif after or self._belongs_before(node) or (not before and unit >= last):
            lacks = after and right.isalnum() and (not left or left in _OPENING)
            parts += [kept, node.tag, space or " " * lacks]
        else:
            lacks = before and left.isalnum() and not right.isalnum()
            apart = following and not following.isalnum() and right.isalnum()
            parts += [gap, " " * lacks, node.tag, " " * bool(apart)]
        return start

    def _share(self, node: _Node, first: int, last: int) -> list[tuple[int, int]]:
        """The units that each child gets, none for a tag that stands alone or finds no word."""
        children = node.children
        if len(children) * (last - first) > _MOST_PLACED:
            return self._by_proportion(node, first, last)
        found: dict[int, tuple[int, int]] = {}
        free = [True] * (last - first)
        best = {
            n: self._best_stretch(node, child, first, free)
            for n, child in enumerate(children)
            if child.closing is not None
        }
        while best:
            n = max(best, key=lambda k: best[k][0])
            score, low, high = best.pop(n)
            if score <= 0:
                break
            found[n] = (low, high)
            free[low - first : high - first] = [False] * (high - low)
            for k, (_, start, end) in best.items():
                if start < high and low < end:
                    best[k] = self._best_stretch(node, children[k], first, free)
        for n, child in enumerate(children):
            if child.closing is not None and n not in found:
                self._take_nearest(node, child, first, free, found, n)
        places = self._place_rest(node, first, last, found)
        return [found.get(n, (places.get(n, first),) * 2) for n in range(len(children))]

    def _by_proportion(self, node: _Node, first: int, last: int) -> list[tuple[int, int]]:
        """The units of each child by where it stands in the source."""
        share = (last - first) / max(node.end - node.start, 1)
        edges = (
            (child.start, child.start if child.closing is None else child.end)
            for child in node.children
        )
        return [
            (first + int((a - node.start) * share), first + int((b - node.start) * share))
            for a, b in edges
        ]

    def _take_nearest(
        self,
        parent: _Node,
        node: _Node,
        first: int,
        free: list[bool],
        found: dict[int, tuple[int, int]],
        n: int,
    ) -> None:
        """Give a pair that no word comes from the free word nearest to its place in the source."""
        if not self.source[node.start : node.end].strip() or not any(free):
            return
        middle = (node.start + node.end) / 2 - parent.start
        place = middle / (parent.end - parent.start) * len(free) - 0.5
        words = [k for k, is_free in enumerate(free) if is_free and self._is_word(first + k)]
        if words:
            k = min(words, key=lambda each: abs(each - place))
            found[n], free[k] = (first + k, first + k + 1), False

    def _is_word(self, unit: int) -> bool:
        return self.text[self.units[unit].start].isalnum()

    def _best_stretch(
        self, parent: _Node, node: _Node, first: int, free: Sequence[bool]
    ) -> tuple[int, int, int]:
        """How well the best stretch fits what a pair surrounds, and the stretch."""
        inside = self.source[node.start : node.end].strip()
        if not inside:
            return 0, first, first
        if inside == self.source[parent.start : parent.end].strip() and all(free) and free:
            return len(free), first, first + len(free)
        best = (0, first, first)
        score, low = 0, first
        for n, is_free in enumerate(free):
            gain = self._fit(self.units[first + n], node) if is_free else _TAKEN
            if score <= 0:
                score, low = 0, first + n
            score += gain
            if score > best[0]:
                best = (score, low, first + n + 1)
        return best

    def _fit(self, unit: Unit, node: _Node) -> int:
        if unit.origin is None:
            return 0
        return 1 if node.start <= unit.origin < node.end else -1

    def _place_rest(
        self, node: _Node, first: int, last: int, found: dict[int, tuple[int, int]]
    ) -> dict[int, int]:
        """The units before which the other children come: tags alone, and pairs without words."""
        places: dict[int, int] = {}
        for n, child in enumerate(node.children):
            if n in found:
                continue
            place = self._next_unit(node, child, first, last)
            for other, (low, high) in found.items():
                if low < place < high or (place == low < high and other < n):
                    place = high if other < n else low
            places[n] = place
        self._keep_order(node, places, first, last)
        return places

    def _next_unit(self, parent: _Node, node: _Node, first: int, last: int) -> int:
        """The unit of what follows a place of the source.

        Where the translation can be cut so that all before it comes from before that place, as
        between two sentences, it is cut there; so are lines, with the fewest words astray.
        """
        if not self.source[parent.start : node.start].strip():
            return first
        if not self.source[node.end : parent.end].strip():
            return last
        astray, cut = self._best_cut(node, first, last)
        if node.tag.space:
            return self._between_words(cut, first, last)
        if astray == 0:
            return cut
        origins = [
            (unit.origin, n)
            for n, unit in enumerate(self.units[first:last], first)
            if unit.origin is not None
        ]
        if self._belongs_before(node):
            earlier = [each for each in origins if each[0] < node.start]
            return max(earlier)[1] + 1 if earlier else first
        later = [each for each in origins if each[0] >= node.end]
        return min(later)[1] if later else last

    def _between_words(self, cut: int, first: int, last: int) -> int:
        """A cut, or the next one after or else before it where there is white space, if any."""
        after, before = range(cut, last), range(cut - 1, first, -1)
        return next((n for n in (*after, *before) if first < n and self._is_apart(n)), cut)

    def _is_apart(self, unit: int) -> bool:
        return self.units[unit - 1].end < self.units[unit].start

    def _beside(self, node: _Node) -> tuple[str, str]:
        """What stands right before a tag in the source, and right after."""
        before, after = max(node.start - 1, 0), node.end + 1
        return self.source[before : node.start], self.source[node.end : after]

    def _belongs_before(self, node: _Node) -> bool:
        """Whether a tag stands right after a word, as the mark of a footnote does."""
        previous, following = self._beside(node)
        return previous.isalnum() and not following.isalnum()

    def _best_cut(self, node: _Node, first: int, last: int) -> tuple[int, int]:
        """The last place with the fewest words on the wrong side of it, and how many those are."""
        origins = [unit.origin for unit in self.units[first:last]]
        astray = sum(origin is not None and origin < node.end for origin in origins)
        best = (astray, first)
        for n, origin in enumerate(origins, first + 1):
            if origin is not None:
                astray += 1 if origin >= node.end else -1
            if astray <= best[0]:
                best = (astray, n)
        return best

    def _keep_order(self, node: _Node, places: dict[int, int], first: int, last: int) -> None:
        """Ends of lines stay in their order, with a word between two where words are enough."""
        tags = {n: node.children[n].tag for n in places}  # two gaps, shown as spaces, make one
        breaks = [n for n, tag in tags.items() if tag.space and tag.shown.strip()]
        if last - first <= len(breaks):
            return
        least = first
        for rank, n in enumerate(breaks):
            is_end = not self.source[node.children[n].end : node.end].strip()
            most = last - (len(breaks) - rank) + is_end
            places[n] = max(least, min(places[n], most))
            least = places[n] + 1
