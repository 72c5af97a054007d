"""Translations that must have given strings: search in banks, and what is required of it.

Hypotheses compete only with those that have met as many tokens of what is required (Post & Vilar
2018), so that one with a word that the model finds improbable is not lost to those without.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.documents import clean_text
from wholedoc.corpus.glossary import Words
from wholedoc.corpus.vocabulary import EOS, UNK, SubwordVocabulary, Vocabulary
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.search import Frontier, Hypothesis, Trace, length_caps, length_penalties
from wholedoc.formats.protected import find_protected
from wholedoc.model.memory import Readings
from wholedoc.model.recall import Cells

_LEAST_ROWS = 2  # hypotheses of a bank, however narrow the beam
_MOST_ROWS = 48  # of all banks, but for the least of each
_MOST_TOKENS = 60  # of all that is required of a sentence: each has a bank, and a step its rows
_PLACE = 2.0  # how much it counts that a term begins where its source term is attended to
_LEAST_SEEN = 0.01
_MOST_LONGER = 1  # tokens that another form may have more than the shortest before it
_INSIDE = re.compile(r"\w|<0x")  # how a token begins that goes on with a word; <0x0A> is a byte
_OPEN = re.compile(r"[^\w>]$")  # how one ends that a word may follow without a space
_Span = tuple[int, int]


@dataclass(frozen=True)
class Requirement:
    """A string that a translation must have: a term of whole words, or what is not text."""

    text: str
    forms: tuple[str, ...] = ()
    """Others that serve as well."""
    literal: bool = False
    """Whether it is no text, such as ``%s``: wanted letter by letter, with no word around it."""
    source: tuple[int, ...] = ()
    """The source tokens that it translates, where they are known."""


Wanted = Sequence[Sequence[Requirement]]
"""What is required of the translations of some sentences."""


class Form(NamedTuple):
    """One way to write what is required."""

    tokens: tuple[int, ...]
    place: Literal["anywhere", "start", "open"]
    """Where it may begin: anywhere, at the start alone, or after an opening mark."""


@dataclass(frozen=True)
class Constraint:
    """What is required, as tokens: any one of its forms."""

    forms: tuple[Form, ...]
    whole: bool = True
    """Whether a word must end where it ends."""
    source: tuple[int, ...] = ()
    """The source tokens that should be attended to where it begins; any, if empty."""

    @cached_property
    def size(self) -> int:
        """The tokens that it counts for when it is met."""
        return max(len(form.tokens) for form in self.forms)


class Standing(NamedTuple):
    """What a hypothesis has met."""

    met: frozenset[int] = frozenset()
    """Constraints that are met for good."""
    begun: tuple[tuple[int, int], ...] = ()
    """Constraints and their forms that its last tokens may be: they agree so far."""
    depth: int = 0
    """How many tokens of those it has."""


@dataclass(frozen=True)
class Rules:
    """How a hypothesis meets constraints, token by token."""

    constraints: Sequence[Constraint]
    inside: Sequence[bool]
    """Whether each token goes on with a word."""
    open: Sequence[bool]
    """Whether a word may follow each token without a space."""

    @cached_property
    def total(self) -> int:
        """The bank of hypotheses that have met everything."""
        return sum(constraint.size for constraint in self.constraints)

    @cached_property
    def tokens(self) -> list[int]:
        """All tokens of the constraints."""
        forms = [form for constraint in self.constraints for form in constraint.forms]
        return sorted({token for form in forms for token in form.tokens})

    def complete(self, standing: Standing) -> int | None:
        """The constraint that is met if the next token does not undo it."""
        for c, f in standing.begun:
            if len(self.constraints[c].forms[f].tokens) == standing.depth:
                return c
        return None

    def bank(self, standing: Standing) -> int:
        """How many tokens of the constraints are met."""
        complete = self.complete(standing)
        here = standing.depth if complete is None else self.constraints[complete].size
        return here + sum(self.constraints[c].size for c in standing.met)

    def follow(self, standing: Standing, token: int, last: int | None) -> Standing:
        """What is met with one more token; ``last`` is the one before, None at the start.

        What was begun goes on or is lost; what is met is lost if its last word goes on.
        """
        begun, depth = self._going_on(standing, token), standing.depth + 1
        if begun:
            return Standing(standing.met, begun, depth)
        met, complete = standing.met, self.complete(standing)
        if complete is not None and self._ends(complete, token):
            met = met | {complete}
        begun = tuple(
            (c, f) for c, f, form in self._beginning(met, last) if form.tokens[0] == token
        )
        return Standing(met, begun, int(bool(begun)))

    def next_tokens(self, standing: Standing, last: int | None) -> set[int]:
        """The tokens that go on with a constraint, or begin one."""
        tokens = {form.tokens[0] for _, _, form in self._beginning(standing.met, last)}
        forms = (self.constraints[c].forms[f].tokens for c, f in standing.begun)
        return tokens | {form[standing.depth] for form in forms if len(form) > standing.depth}

    def _going_on(self, standing: Standing, token: int) -> tuple[tuple[int, int], ...]:
        depth = standing.depth
        return tuple(
            (c, f)
            for c, f in standing.begun
            if self.constraints[c].forms[f].tokens[depth : depth + 1] == (token,)
        )

    def _ends(self, constraint: int, token: int) -> bool:
        return not (self.constraints[constraint].whole and self.inside[token])

    def _beginning(self, met: frozenset[int], last: int | None) -> "list[tuple[int, int, Form]]":
        """The forms that may begin here."""
        after_mark = last is not None and self.open[last]
        key = met, last is None, after_mark
        if key not in self._begin:
            fits = {"anywhere": True, "start": last is None, "open": after_mark}
            self._begin[key] = [
                (c, f, form)
                for c, constraint in enumerate(self.constraints)
                for f, form in enumerate(constraint.forms)
                if c not in met and fits[form.place]
            ]
        return self._begin[key]

    @cached_property
    def _begin(self) -> "dict[tuple[frozenset[int], bool, bool], list[tuple[int, int, Form]]]":
        """What may begin, by all that it depends on."""
        return {}


class _Row(NamedTuple):
    """A hypothesis, or one that may become one: its last token, and where it comes from."""

    score: float
    """log P."""
    parent: int
    column: int
    token: int
    standing: Standing
    placed: float = 0.0
    """What is added in ranking for where the constraints that are met began."""
    begun: float = 0.0
    """What is added for where the one that is begun did."""

    @property
    def order(self) -> tuple[float, int, int]:
        """Best first."""
        return -(self.score + self.extra), self.parent, self.column

    @property
    def extra(self) -> float:
        """What is added in ranking."""
        return self.placed + self.begun

    def follow(self, score: float, parent: int, column: int, token: int, then: Standing) -> "_Row":
        """This hypothesis with one more token, which begins nothing."""
        placed = self.placed + self.begun if then.met != self.standing.met else self.placed
        return _Row(score, parent, column, token, then, placed, self.begun if then.depth else 0.0)


@torch.inference_mode()
def search_constrained(
    predictor: Predictor,
    src: Sequence[int],
    rules: Rules,
    config: SearchConfig,
    nbest: int = 1,
    readings: Readings | None = None,
    cells: Cells | None = None,
) -> list[Hypothesis]:
    """The best translations of a sentence that meet all constraints, best first; maybe none."""
    device = predictor.words.device
    tokens, lengths = torch.tensor([list(src)], device=device), torch.tensor([len(src)])
    allowed = torch.tensor(rules.tokens, device=device)
    started = predictor.start(tokens, lengths.to(device), readings, cells, allowed)
    caps = length_caps([len(src)], config)
    trace = Trace([len(src)], nbest, length_penalties(predictor, cells, 1, config))
    banks = _Banks(Frontier(predictor, *started, caps), rules, max(config.beam, nbest))
    banks.run(trace)
    return trace.hypotheses()[0] if trace.ended[0] else []


class _Banks:
    """A search in banks: each keeps its best hypotheses, as many as the beam is wide."""

    def __init__(self, frontier: Frontier, rules: Rules, width: int) -> None:
        self.frontier, self.rules, self.width = frontier, rules, width
        self.rows = max(_LEAST_ROWS, min(width, _MOST_ROWS // (rules.total + 1)))
        words = frontier.sentences.words
        self.words = words.tolist()
        self.columns = {token: self.words.index(token) for token in rules.tokens}
        self.inside = torch.tensor(rules.inside, device=words.device)[words]

    def run(self, trace: Trace) -> None:
        """Search until as many hypotheses have ended as the beam is wide, or all have."""
        rows = [_Row(0.0, 0, -1, -1, Standing())]
        for step in range(self.frontier.caps[0] + 1):
            logits, total, weights = self.frontier.predict(step)
            before = logits.new_tensor([row.score for row in rows])
            scores = logits + (before - total)[:, None]
            trace.weights.append(weights.flatten(0, 1))
            ends, rows = self._choose(self._continuations(scores, rows, weights[0]))
            self._finish(trace, ends)
            if not rows or len(trace.ended[0]) >= self.width:
                break
            parents = torch.tensor([row.parent for row in rows], device=logits.device)
            chosen = torch.tensor([row.column for row in rows], device=logits.device)
            self.frontier.go_on(parents, chosen)
            trace.words.append(self.frontier.words)
            trace.parents.append(parents)

    def _finish(self, trace: Trace, ends: Sequence[_Row]) -> None:
        if ends:
            device = self.frontier.live.device
            parents = torch.tensor([end.parent for end in ends], device=device)
            scores = torch.tensor([end.score for end in ends], dtype=torch.float64)
            states, extra = self.frontier.state.upper, [end.extra for end in ends]
            trace.finish(parents.new_zeros(len(ends)), parents, scores, states, extra)

    def _choose(self, found: Iterable[_Row]) -> tuple[list[_Row], list[_Row]]:
        """Of all continuations those that end, and the best of each bank to go on from.

        As in any beam search, one ends if it is among the best of its bank, of which there are no
        more than the beam is wide.
        """
        banks: dict[int, list[_Row]] = {}
        for row in found:
            banks.setdefault(self.rules.bank(row.standing), []).append(row)
        ends: list[_Row] = []
        going: list[_Row] = []
        for bank in sorted(banks):
            ranked = sorted(banks[bank], key=lambda row: row.order)
            best = ranked[: min(self.rows, self.width)]
            ends += [row for row in best if row.token == EOS]
            going += [row for row in ranked if row.token != EOS][: self.rows]
        return ends, going

    def _continuations(
        self,
        scores: Float[Tensor, "row output"],
        rows: Sequence[_Row],
        weights: Float[Tensor, "row src_word"],
    ) -> Iterator[_Row]:
        """Every continuation that may be among the best of its bank.

        Words that no constraint has all lead to one standing, or to two: where a constraint is
        complete, one to go on with its word and one not to. Of either kind the best are enough.
        """
        place = self._places(weights)
        ends = scores[:, EOS].tolist()
        scores[:, EOS] = -math.inf
        for parent, row in enumerate(rows):
            last = row.token if row.token >= 0 else None
            if self.rules.bank(row.standing) == self.rules.total and ends[parent] > -math.inf:
                yield row.follow(ends[parent], parent, EOS, EOS, row.standing)
            wanted = sorted(self.rules.next_tokens(row.standing, last))
            columns = [self.columns[token] for token in wanted]
            found = scores[parent, columns].tolist()
            scores[parent, columns] = -math.inf
            for token, column, score in zip(wanted, columns, found, strict=True):
                if score > -math.inf:
                    standing = self.rules.follow(row.standing, token, last)
                    after = row.follow(score, parent, column, token, standing)
                    if standing.depth == 1:
                        after = after._replace(begun=place[parent][standing.begun[0][0]])
                    yield after
        yield from self._others(scores, rows)

    def _places(self, weights: Float[Tensor, "row src_word"]) -> list[list[float]]:
        """What is added for each row and each constraint if that begins here.

        A term should stand where the source term is translated: where that is attended to.
        """
        every = []
        for constraint in self.rules.constraints:
            seen = weights[:, list(constraint.source)].sum(dim=-1)
            added = _PLACE * seen.clamp(_LEAST_SEEN, 1).log()
            every.append(added if constraint.source else torch.zeros_like(added))
        return torch.stack(every, dim=1).tolist()

    def _others(self, scores: Float[Tensor, "row output"], rows: Sequence[_Row]) -> Iterator[_Row]:
        """The best continuations of each row with a word that no constraint has."""
        tables = [scores]
        if any(self.rules.complete(row.standing) is not None for row in rows):
            tables = [scores.masked_fill(mask, -math.inf) for mask in (self.inside, ~self.inside)]
        for table in tables:
            best, columns = table.topk(min(self.rows, table.shape[-1]))
            found = zip(rows, best.tolist(), columns.tolist(), strict=True)
            for parent, (row, row_scores, places) in enumerate(found):
                last = row.token if row.token >= 0 else None
                standing = self.rules.follow(row.standing, self.words[places[0]], last)
                for score, column in zip(row_scores, places, strict=True):
                    if score > -math.inf:
                        yield row.follow(score, parent, column, self.words[column], standing)


class Enforcer:
    """Finds what is required in translations of one language, and searches again without it."""

    def __init__(self, vocabulary: Vocabulary, language: str) -> None:
        self.vocabulary = vocabulary
        self.words = Words(language)

    def locate(self, requirements: Sequence[Requirement], text: str) -> list[_Span | None]:
        """Where a translation has what is required, each in a place of its own; None where not."""
        words, protected = self.words.split(text), find_protected(text)
        taken: set[int] = set()
        found: list[_Span | None] = [None] * len(requirements)
        longest = sorted(range(len(requirements)), key=lambda n: -len(requirements[n].text))
        for n in longest:
            required = requirements[n]
            if required.literal:
                spans = [span for span in protected if text[slice(*span)] == required.text]
            else:
                places = self.words.locate(required.text, words)
                spans = [(words[first].start, words[end - 1].end) for first, end in places]
            found[n] = next((span for span in spans if taken.isdisjoint(range(*span))), None)
            taken.update(range(*(found[n] or (0, 0))))
        return found

    def missing(self, requirements: Sequence[Requirement], found: Hypothesis) -> list[int]:
        """Which requirements a translation does not meet."""
        spans = self.locate(requirements, self.vocabulary.decode(found.tokens))
        return [n for n, span in enumerate(spans) if span is None]

    def rules(
        self, requirements: Sequence[Requirement], found: Hypothesis
    ) -> tuple[Rules, set[int]]:
        """The rules of a second search, and which requirements they are for.

        What the first one met it may meet as it did. What the vocabulary cannot spell is left out.
        """
        text = self.vocabulary.decode(found.tokens)
        constraints: dict[int, Constraint] = {}
        for n, span in enumerate(self.locate(requirements, text)):
            required = requirements[n]
            seen = () if span is None else (text[slice(*span)],)
            forms = self._forms([*seen, required.text, *required.forms], required.literal)
            if forms:
                constraints[n] = Constraint(forms, not required.literal, required.source)
        return Rules(list(constraints.values()), *self._edges), set(constraints)

    def search(
        self,
        predictor: Predictor,
        src: Sequence[int],
        requirements: Sequence[Requirement],
        found: list[Hypothesis],
        config: SearchConfig,
        nbest: int = 1,
        readings: Readings | None = None,
        cells: Cells | None = None,
    ) -> list[Hypothesis]:
        """Translations with what is required, instead of ``found``; those where there are none.

        Nor is searched for more tokens than banks can be had for.
        """
        missing = set(self.missing(requirements, found[0]))
        rules, possible = self.rules(requirements, found[0])
        if not missing & possible or rules.total > _MOST_TOKENS:
            return found
        count = max(nbest, config.beam)
        again = search_constrained(predictor, src, rules, config, count, readings, cells)
        better = [each for each in again if not possible & set(self.missing(requirements, each))]
        enforced = tuple(sorted(missing & possible))
        return [replace(each, enforced=enforced) for each in better[:nbest]] or found

    def _forms(self, texts: Iterable[str], literal: bool) -> tuple[Form, ...]:
        """The ways to write any of some texts, each once."""
        forms: dict[tuple[int, ...], Form] = {}
        for text in dict.fromkeys(map(clean_text, texts)):
            ways = [Form(tuple(self.vocabulary.encode(text)), "anywhere")]
            ways.append(Form(self._glued(text), "anywhere" if literal else "open"))
            if not literal:
                capital = text[:1].upper() + text[1:]
                ways.append(Form(tuple(self.vocabulary.encode(capital)), "start"))
            for form in ways:
                shortest = min(map(len, forms), default=len(form.tokens))
                fits = 0 < len(form.tokens) <= shortest + _MOST_LONGER
                if fits and UNK not in form.tokens:
                    forms.setdefault(form.tokens, form)
        return tuple(forms.values())

    def _glued(self, text: str) -> tuple[int, ...]:
        """A text without a space before it; nothing where it cannot be written so."""
        mark, *alone = self.vocabulary.encode("(") or [UNK]
        first, *rest = self.vocabulary.encode(f"({text}")
        return tuple(rest) if first == mark and not alone else ()

    @cached_property
    def _edges(self) -> tuple[list[bool], list[bool]]:
        """Which tokens go on with a word, and which ones a word may follow without a space."""
        tokens = self.vocabulary.to_tokens(range(len(self.vocabulary)))
        joins = isinstance(self.vocabulary, SubwordVocabulary)
        inside = [joins and bool(_INSIDE.match(token)) for token in tokens]
        after = [not joins or bool(_OPEN.search(token)) for token in tokens]
        return inside, after
