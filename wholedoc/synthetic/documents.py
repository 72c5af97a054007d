"""The artificial corpus: documents in which known words need the document to be translated right.

A document has a hidden ``World``: the gender of its protagonist, its topic and its spelling style
of names, drawn independently. Three kinds of words depend on it: the *pronoun* (gender), words
with several senses (*topic*) and *names* (style). A ``Plan`` holds everything else and is drawn
without knowledge of the world, so nothing but the words meant to tell about the world can do so,
and the best accuracy any translator can reach is known exactly. ``docs/artificial-corpus.md``
describes the language.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import fsum, sqrt
from pathlib import Path
from random import Random
from typing import Any, Literal

from wholedoc.corpus.documents import SentencePair
from wholedoc.errors import UserError
from wholedoc.files import write_atomically

Kind = Literal["pronoun", "topic", "name"]
Information = Literal["sentence", "source", "both"]

KINDS: tuple[Kind, ...] = ("pronoun", "topic", "name")
INFORMATION: tuple[Information, ...] = ("sentence", "source", "both")
SPLITS = ("train", "dev", "test")
FORMAT = "wholedoc-synth-1"

# Sizes of the closed classes, which no experiment has a reason to change.
_ADVERBS = 6
_POSTPOSITIONS = 4
_PERSONS = 4
_PARTICIPLES = 3
_TOPIC_NOUNS = 3


@dataclass(frozen=True)
class SynthConfig:
    """What the corpus is made of; the same values always give the same bytes."""

    seed: int = 1
    """Fixes the language and all documents; a split does not change with the others' sizes."""
    train: int = 2000
    """Training documents."""
    dev: int = 60
    """Development documents."""
    test: int = 200
    """Test documents."""
    min_sentences: int = 6
    """Sentences in the shortest documents."""
    max_sentences: int = 14
    """Sentences in the longest documents."""
    density: float = 0.5
    """Share of the sentences open to a kind of item that hold one; at least one sentence does."""
    far: int = 3
    """Least distance, in sentences, from the sentence that tells the topic to a word it decides."""
    gender_prior: float = 0.6
    """Share of documents whose protagonist has the first of the two genders."""
    cue_accuracy: float = 0.75
    """Probability that a sentence's cue points to the document's style of names."""
    topics: int = 4
    """Topics, all equally frequent."""
    ambiguous: int = 12
    """Source words whose sense depends on the topic."""
    names: int = 24
    """Names, each with one rendering in either style."""
    nouns: int = 24
    """Ordinary nouns, each with a singular and a plural."""
    verbs: int = 16
    """Verbs."""
    adjectives: int = 10
    """Adjectives."""

    def __post_init__(self) -> None:
        for field in ("train", "dev", "test", "ambiguous", "names", "nouns", "verbs", "adjectives"):
            if getattr(self, field) < 1:
                raise UserError("must be at least 1", where=f"synth.{field}")
        if self.topics < 3:
            raise UserError("must be at least 3", where="synth.topics")
        if not 0 < self.gender_prior < 1:
            raise UserError("must lie between 0 and 1", where="synth.gender_prior")
        if not 0.5 < self.cue_accuracy < 1:
            raise UserError("must lie between 0.5 and 1", where="synth.cue_accuracy")
        if not 0 < self.density <= 1:
            raise UserError("must be above 0 and at most 1", where="synth.density")
        if self.far < 1:
            raise UserError("must be at least 1", where="synth.far")
        if self.max_sentences < self.min_sentences:
            raise UserError(
                "is below min_sentences", where="synth.max_sentences", fix="raise it or lower that"
            )
        # Of the sentences far from the topic's, one may be the introduction: two are needed.
        if self.min_sentences - _topic_margin(self.min_sentences) - self.far < 2:
            raise UserError(
                f"documents of {self.min_sentences} sentences are too short for far={self.far}",
                where="synth.min_sentences",
                fix="raise min_sentences or lower far",
            )


@dataclass(frozen=True, slots=True)
class Word:
    """A source word and its target forms, chosen by number, gender, topic or style."""

    src: str
    trg: tuple[str, ...]

    @property
    def renderings(self) -> tuple[str, ...]:
        """The different target forms, in order."""
        return tuple(dict.fromkeys(self.trg))


@dataclass(frozen=True)
class Language:
    """The lexicon of both sides; no word form belongs to two entries or to both sides."""

    nouns: tuple[tuple[Word, Word], ...]
    """Singular and plural of each noun."""
    verbs: tuple[Word, ...]
    """Target forms by the number of the subject."""
    adjectives: tuple[Word, ...]
    adverbs: tuple[Word, ...]
    postpositions: tuple[Word, ...]
    definite: Word
    """The article; target forms by number."""
    indefinite: str
    """Target article of singular nouns that have none in the source."""
    copula: str
    """Target verb of sentences that have none in the source."""
    persons: tuple[tuple[Word, ...], ...]
    """Nouns that introduce the protagonist, by gender."""
    participles: tuple[tuple[Word, ...], ...]
    """What is said of the protagonist, by gender; the target shows no gender."""
    topic_nouns: tuple[tuple[Word, ...], ...]
    """Nouns that tell the topic, by topic."""
    cues: tuple[str, str]
    """Source marks that end every sentence, by the style they point to."""
    particles: tuple[str, str, str]
    """Target particles that end every sentence: with a name in either style, without a name.

    The former also stand before the name.
    """
    pronoun: Word
    """Target forms by gender."""
    ambiguous: tuple[Word, ...]
    """Target forms by topic, of which some are equal."""
    names: tuple[Word, ...]
    """Target forms by style."""


@dataclass(frozen=True, slots=True)
class World:
    """What a document is about and its words depend on."""

    gender: int
    topic: int
    style: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase of one or two source words."""

    noun: tuple[Word, Word]
    plural: bool
    definite: bool
    adjective: Word | None


@dataclass(frozen=True, slots=True)
class Clause:
    """An ordinary sentence; a ``Word`` in place of a phrase depends on the world."""

    adverb: Word | None
    subject: Phrase | Word
    """The pronoun, where it is a word."""
    object: Phrase | Word
    """A name, where it is a word."""
    place: Phrase | Word
    """A word with several senses, where it is a word."""
    postposition: Word
    verb: Word
    cue_right: bool


@dataclass(frozen=True, slots=True)
class Telling:
    """A sentence that tells the gender or the topic by its first word and its last before the mark.

    ``head`` and ``complement`` choose among the words of whichever gender or topic it is.
    """

    tells: Literal["gender", "topic"]
    head: int
    complement: int
    place: Phrase
    postposition: Word
    cue_right: bool


Plan = tuple[Clause | Telling, ...]


@dataclass(frozen=True, slots=True)
class SynthDocument:
    """A document, and what it was made from."""

    name: str
    plan: Plan
    world: World
    pairs: tuple[SentencePair, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """How well an item can be translated from some information."""

    guess: str
    """The most probable rendering."""
    accuracy: float
    """Its posterior probability."""
    variance: float
    """The covariances of this guess being right with those of its document, this one's included.

    Summed over items it is the exact variance of the number of right guesses.
    """


@dataclass(frozen=True, slots=True)
class KeyItem:
    """A word whose translation depends on its document."""

    document: str
    sentence: int
    """Index of the sentence in its document, from 0."""
    line: int
    """Index of the sentence in its file, from 0."""
    lines: int
    """Lines of that file, so that a translation of another one is found out."""
    kind: Kind
    word: str
    """The source word."""
    expected: str
    """Its right rendering."""
    renderings: tuple[str, ...]
    """All renderings the word has anywhere; those of a name in the order of the styles."""
    bounds: dict[Information, Bound]

    @property
    def alternatives(self) -> tuple[str, ...]:
        """The renderings that are wrong here."""
        return tuple(word for word in self.renderings if word != self.expected)


@dataclass(frozen=True, slots=True)
class Expectation:
    """The mean accuracy of the best guesses over some items and its standard deviation."""

    accuracy: float
    deviation: float


@dataclass(frozen=True, slots=True)
class KindSummary:
    """The items of one kind in a split."""

    items: int
    share: float
    """Items per target word."""
    bounds: dict[Information, Expectation]


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """Sizes of a split, in words that include punctuation, and its items by kind."""

    documents: int
    sentences: int
    src_words: int
    trg_words: int
    src_vocabulary: int
    trg_vocabulary: int
    kinds: dict[Kind, KindSummary]


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written."""

    config: SynthConfig
    splits: dict[str, SplitSummary]

    def to_json(self) -> dict[str, Any]:
        """The content of ``summary.json``."""
        return {"format": FORMAT, **asdict(self)}


def expect(items: Sequence[KeyItem], information: Information) -> Expectation:
    """Mean over ``items`` (at least one) of the best guess's probability, and its deviation."""
    bounds = [item.bounds[information] for item in items]
    variance = fsum(bound.variance for bound in bounds)
    return Expectation(
        accuracy=fsum(bound.accuracy for bound in bounds) / len(bounds),
        deviation=sqrt(max(0.0, variance)) / len(bounds),  # rounding may leave −1e-17
    )


class _Speller:
    """Invents word forms of consonant–vowel syllables, never the same one twice."""

    def __init__(self, rng: Random, consonants: str, vowels: str, taken: set[str]) -> None:
        self._rng = rng
        self._consonants = consonants
        self._vowels = vowels
        self._taken = taken

    def forms(self, *endings: str, syllables: int = 2) -> tuple[str, ...]:
        """A new stem with each of ``endings``."""
        for attempt in itertools.count():
            stem = "".join(
                self._rng.choice(self._consonants) + self._rng.choice(self._vowels)
                for _ in range(syllables + attempt // 9)  # longer, where short ones are rare
            )
            forms = tuple(stem + ending for ending in endings)
            if self._taken.isdisjoint(forms):
                break
        self._taken.update(forms)
        return forms

    def form(self, syllables: int = 2) -> str:
        """A new word with one form."""
        return self.forms("", syllables=syllables)[0]


def build_language(config: SynthConfig) -> Language:
    """Invent the lexicon of ``config.seed``."""
    rng = Random(f"{config.seed}/language")
    taken: set[str] = set()
    src = _Speller(rng, "hklmnprstv", "aeiou", taken)
    trg = _Speller(rng, "bcdfgjlmnrwz", "aeiouy", taken)

    def plain(count: int, syllables: int = 2) -> tuple[Word, ...]:
        return tuple(Word(src.form(syllables), (trg.form(syllables),)) for _ in range(count))

    def noun() -> tuple[Word, Word]:
        singular, plural = src.forms("", "d")
        trg_singular, trg_plural = trg.forms("", "s")
        return Word(singular, (trg_singular,)), Word(plural, (trg_plural,))

    def participle() -> tuple[Word, Word]:
        first, second = src.forms("v", "t")
        form = trg.forms("ed")
        return Word(first, form), Word(second, form)

    def name() -> Word:
        form, first, second = src.forms("rai", "ray", "rei")  # the target spells after the source
        return Word(form, (first, second))

    def ambiguous(index: int) -> Word:
        # One sense serves half of the topics (rounded up), each other topic has its own; which
        # topics those are rotates from word to word, so that no topic is the easy one.
        shared = (config.topics + 1) // 2
        senses = [trg.form() for _ in range(config.topics - shared + 1)]
        by_topic = [
            senses[max(0, (topic - index) % config.topics - shared + 1)]
            for topic in range(config.topics)
        ]
        return Word(src.form(), tuple(by_topic))

    return Language(
        nouns=tuple(noun() for _ in range(config.nouns)),
        verbs=tuple(Word(src.form(3), trg.forms("t", "nt")) for _ in range(config.verbs)),
        adjectives=plain(config.adjectives, syllables=3),
        adverbs=plain(_ADVERBS),
        postpositions=plain(_POSTPOSITIONS, syllables=1),
        definite=Word(src.form(1), trg.forms("", "s", syllables=1)),
        indefinite=trg.form(1),
        copula=trg.form(1),
        persons=(plain(_PERSONS), plain(_PERSONS)),
        participles=tuple(zip(*(participle() for _ in range(_PARTICIPLES)), strict=True)),
        topic_nouns=tuple(plain(_TOPIC_NOUNS) for _ in range(config.topics)),
        # Marks, not particles before a full stop: the last state of a language model, which a
        # source memory is made of, tells far better what it has just read.
        cues=(".", "!"),
        particles=(trg.form(1), trg.form(1), trg.form(1)),
        pronoun=Word(src.form(1), (trg.form(1), trg.form(1))),
        ambiguous=tuple(ambiguous(index) for index in range(config.ambiguous)),
        names=tuple(name() for _ in range(config.names)),
    )


def _topic_margin(length: int) -> int:
    """How far from either end of a document the sentence that tells the topic may stand."""
    return length // 4


def draw_world(config: SynthConfig, rng: Random) -> World:
    """Draw gender, topic and style independently."""
    return World(
        gender=int(rng.random() >= config.gender_prior),
        topic=rng.randrange(config.topics),
        style=rng.randrange(2),
    )


def draw_plan(language: Language, config: SynthConfig, rng: Random) -> Plan:
    """Draw all of a document that does not depend on its world."""
    length = rng.randint(config.min_sentences, config.max_sentences)
    topic_at = rng.randint(0, _topic_margin(length))
    if rng.random() < 0.5:
        topic_at = length - 1 - topic_at
    gender_at = rng.choice([t for t in range(length) if t != topic_at])
    clauses = [t for t in range(length) if t not in (topic_at, gender_at)]
    far_clauses = [t for t in clauses if abs(t - topic_at) >= config.far]

    def holders(candidates: list[int]) -> set[int]:
        return set(rng.sample(candidates, max(1, round(config.density * len(candidates)))))

    with_pronoun, with_name = holders(clauses), holders(clauses)
    with_ambiguous = holders(far_clauses)

    def phrase() -> Phrase:
        shape = rng.choice(("bare", "bare", "definite", "adjective"))
        return Phrase(
            noun=rng.choice(language.nouns),
            plural=rng.random() < 0.4,
            definite=shape == "definite",
            adjective=rng.choice(language.adjectives) if shape == "adjective" else None,
        )

    def sentence(t: int) -> Clause | Telling:
        cue_right = rng.random() < config.cue_accuracy
        postposition = rng.choice(language.postpositions)
        if t == gender_at:
            head, complement = rng.randrange(_PERSONS), rng.randrange(_PARTICIPLES)
            return Telling("gender", head, complement, phrase(), postposition, cue_right)
        if t == topic_at:
            head, complement = rng.sample(range(_TOPIC_NOUNS), 2)
            return Telling("topic", head, complement, phrase(), postposition, cue_right)
        return Clause(
            adverb=rng.choice(language.adverbs) if rng.random() < 0.3 else None,
            subject=language.pronoun if t in with_pronoun else phrase(),
            object=rng.choice(language.names) if t in with_name else phrase(),
            place=rng.choice(language.ambiguous) if t in with_ambiguous else phrase(),
            postposition=postposition,
            verb=rng.choice(language.verbs),
            cue_right=cue_right,
        )

    return tuple(sentence(t) for t in range(length))


def realise(plan: Plan, world: World, language: Language) -> tuple[SentencePair, ...]:
    """Put a plan into words that fit ``world``: source verb-final, target verb-second."""
    return tuple(
        _telling(sentence, world, language)
        if isinstance(sentence, Telling)
        else _clause(sentence, world, language)
        for sentence in plan
    )


def _cue_style(sentence: Clause | Telling, world: World) -> int:
    return world.style if sentence.cue_right else 1 - world.style


def _phrase(phrase: Phrase, language: Language) -> tuple[list[str], list[str]]:
    """Source: article noun adjective; target: article adjective noun."""
    noun = phrase.noun[phrase.plural]
    src, trg = [noun.src], [*noun.trg]
    if phrase.adjective is not None:
        src = [*src, phrase.adjective.src]
        trg = [*phrase.adjective.trg, *trg]
    if phrase.definite:
        src = [language.definite.src, *src]
        trg = [language.definite.trg[phrase.plural], *trg]
    elif not phrase.plural:
        trg = [language.indefinite, *trg]
    return src, trg


def _telling(sentence: Telling, world: World, language: Language) -> SentencePair:
    if sentence.tells == "gender":
        head = language.persons[world.gender][sentence.head]
        complement = language.participles[world.gender][sentence.complement]
    else:
        head = language.topic_nouns[world.topic][sentence.head]
        complement = language.topic_nouns[world.topic][sentence.complement]
    place_src, place_trg = _phrase(sentence.place, language)
    cue = language.cues[_cue_style(sentence, world)]
    preposition = sentence.postposition.trg
    src = [head.src, *place_src, sentence.postposition.src, complement.src, cue]
    trg = [*head.trg, language.copula, *complement.trg, *preposition, *place_trg]
    return SentencePair(" ".join(src), " ".join([*trg, language.particles[2], "."]))


def _clause(sentence: Clause, world: World, language: Language) -> SentencePair:
    def part(of: Phrase | Word, feature: int) -> tuple[list[str], list[str]]:
        if isinstance(of, Word):
            return [of.src], [of.trg[feature]]
        return _phrase(of, language)

    subject_src, subject_trg = part(sentence.subject, world.gender)
    object_src, object_trg = part(sentence.object, world.style)
    place_src, place_trg = part(sentence.place, world.topic)
    adverb_src = [sentence.adverb.src] if sentence.adverb else []
    adverb_trg = [*sentence.adverb.trg] if sentence.adverb else []
    plural = isinstance(sentence.subject, Phrase) and sentence.subject.plural
    # Before the name, the particle makes the style one decision that all names share, not one per
    # name; at the end, it makes a decoder carry the style to its last state.
    particle = language.particles[2]
    if isinstance(sentence.object, Word):
        particle = language.particles[world.style]
        object_trg = [particle, *object_trg]
    cue = language.cues[_cue_style(sentence, world)]
    src = [*adverb_src, *subject_src, *object_src, *place_src, sentence.postposition.src]
    trg = [*subject_trg, sentence.verb.trg[plural], *object_trg]
    trg += [*sentence.postposition.trg, *place_trg, *adverb_trg, particle, "."]
    return SentencePair(" ".join([*src, sentence.verb.src, cue]), " ".join(trg))


def draw_document(name: str, language: Language, config: SynthConfig, rng: Random) -> SynthDocument:
    """Draw a document."""
    world = draw_world(config, rng)
    plan = draw_plan(language, config, rng)
    return SynthDocument(name, plan, world, realise(plan, world, language))


def make_key(
    document: SynthDocument, first_line: int, lines: int, language: Language, config: SynthConfig
) -> list[KeyItem]:
    """The items of a document, each with its exact bounds, sentence by sentence.

    ``first_line`` is the index of the document's first sentence in its file of ``lines`` lines.
    """
    world = document.world
    clauses = [(t, clause) for t, clause in enumerate(document.plan) if isinstance(clause, Clause)]
    pronouns = [t for t, clause in clauses if isinstance(clause.subject, Word)]
    senses = {t: clause.place for t, clause in clauses if isinstance(clause.place, Word)}
    names = {t: clause.object for t, clause in clauses if isinstance(clause.object, Word)}
    cues = [_cue_style(sentence, world) for sentence in document.plan]

    def item(t: int, kind: Kind, word: Word, feature: int, *bounds: Bound) -> KeyItem:
        return KeyItem(
            document=document.name,
            sentence=t,
            line=first_line + t,
            lines=lines,
            kind=kind,
            word=word.src,
            expected=word.trg[feature],
            renderings=word.renderings,
            bounds=dict(zip(INFORMATION, bounds, strict=True)),
        )

    items = []
    for t in pronouns:
        told = Bound(language.pronoun.trg[world.gender], 1.0, 0.0)
        alone = _pronoun_bound(language.pronoun, len(pronouns), config)
        items.append(item(t, "pronoun", language.pronoun, world.gender, alone, told, told))
    for t, word in senses.items():
        told = Bound(word.trg[world.topic], 1.0, 0.0)
        alone = _sense_bound(word, list(senses.values()))
        items.append(item(t, "topic", word, world.topic, alone, told, told))
    for t, word in names.items():
        accuracy = config.cue_accuracy
        alone = Bound(word.trg[cues[t]], accuracy, accuracy * (1 - accuracy))
        source = _style_bound(word, cues, len(names), config)
        both = Bound(word.trg[world.style], 1.0, 0.0) if len(names) > 1 else source
        items.append(item(t, "name", word, world.style, alone, source, both))
    return sorted(items, key=lambda made: (made.sentence, KINDS.index(made.kind)))


def make_contrasts(
    document: SynthDocument, key: Sequence[KeyItem], language: Language
) -> list[dict[str, Any]]:
    """The items of a document as a contrastive set: its sentence against those of other worlds.

    An alternative is the whole sentence as it would read if the world were such that the word had
    that rendering; beside a name, the particles change with it.
    """
    src = [pair.src for pair in document.pairs]
    trg = [pair.trg for pair in document.pairs]
    contrasts = []
    for item in key:
        clause = document.plan[item.sentence]
        feature, forms = _dependence(item.kind, item.word, language)
        worlds = [
            replace(document.world, **{feature: forms.index(word)}) for word in item.alternatives
        ]
        contrasts.append(
            {
                "source": src,
                "sentence": item.sentence,
                "reference": trg[item.sentence],
                "alternatives": [realise((clause,), w, language)[0].trg for w in worlds],
                "target": trg,
                "kind": item.kind,
            }
        )
    return contrasts


def _dependence(kind: Kind, word: str, language: Language) -> tuple[str, tuple[str, ...]]:
    """The feature of the world that a word depends on, and its target forms by that feature."""
    if kind == "pronoun":
        return "gender", language.pronoun.trg
    feature, words = ("topic", language.ambiguous) if kind == "topic" else ("style", language.names)
    return feature, next(entry.trg for entry in words if entry.src == word)


def _pronoun_bound(pronoun: Word, count: int, config: SynthConfig) -> Bound:
    """From the sentence alone: the prior; all ``count`` pronouns of a document fall together."""
    prior = config.gender_prior
    accuracy = max(prior, 1 - prior)
    return Bound(pronoun.trg[int(prior < 0.5)], accuracy, count * accuracy * (1 - accuracy))


def _sense_bound(word: Word, words: Sequence[Word]) -> Bound:
    """From the sentence alone: the most frequent sense; ``words`` are those of the document."""

    def right(of: Word) -> list[bool]:
        guess = max(of.renderings, key=of.trg.count)
        return [form == guess for form in of.trg]

    def share(topics: Sequence[bool]) -> float:
        return sum(topics) / len(topics)

    here = right(word)
    covariances = [
        share([one and other for one, other in zip(here, there, strict=True)])
        - share(here) * share(there)
        for there in map(right, words)
    ]
    return Bound(word.trg[here.index(True)], share(here), sum(covariances))


def _style_bound(word: Word, cues: Sequence[int], count: int, config: SynthConfig) -> Bound:
    """From the source document: 1 / (1 + ((1 - q) / q)^|n₀ - n₁|), q a cue's accuracy.

    n₀ and n₁ count the cues to either style; on a tie all ``count`` names take the first.
    """
    lead = cues.count(0) - cues.count(1)
    odds_against = ((1 - config.cue_accuracy) / config.cue_accuracy) ** abs(lead)
    accuracy = 1 / (1 + odds_against)
    return Bound(word.trg[int(lead < 0)], accuracy, count * accuracy * (1 - accuracy))


def write_synth(directory: Path, config: SynthConfig) -> Summary:
    """Write the three splits, keys, contrastive sets and ``summary.json`` into ``directory``.

    Raises ``UserError`` where the directory holds anything but an artificial corpus.
    """
    _claim(directory)
    language = build_language(config)
    files: dict[str, str] = {}
    splits: dict[str, SplitSummary] = {}
    for split, count in zip(SPLITS, (config.train, config.dev, config.test), strict=True):
        rng = Random(f"{config.seed}/{split}")
        documents = [
            draw_document(f"{split}-{number:05d}", language, config, rng)
            for number in range(1, count + 1)
        ]
        pairs = [pair for document in documents for pair in document.pairs]
        key: list[KeyItem] = []
        contrasts: list[dict[str, Any]] = []
        first_line = 0
        for document in documents:
            items = make_key(document, first_line, len(pairs), language, config)
            key += items
            contrasts += make_contrasts(document, items, language) if split != "train" else []
            first_line += len(document.pairs)
        splits[split] = _summarise(documents, key)
        ids = [document.name for document in documents for _ in document.pairs]
        files[f"{split}.src"] = _lines([pair.src for pair in pairs])
        files[f"{split}.trg"] = _lines([pair.trg for pair in pairs])
        files[f"{split}.doc"] = _lines(ids)
        files[f"{split}.key.jsonl"] = _lines([json.dumps(asdict(item)) for item in key])
        if contrasts:  # nobody chooses among the translations of the training documents
            lines = [json.dumps(contrast) for contrast in contrasts]
            files[f"{split}.contrastive.jsonl"] = _lines(lines)
    summary = Summary(config, splits)
    directory.mkdir(parents=True, exist_ok=True)
    # The summary marks the directory as ours: written first, it lets a stopped run be repeated.
    write_atomically(directory / "summary.json", json.dumps(summary.to_json(), indent=2) + "\n")
    for name, text in files.items():
        write_atomically(directory / name, text)
    return summary


def _claim(directory: Path) -> None:
    """Make sure that nothing of the user's own is overwritten."""
    if not directory.exists():
        return
    if not directory.is_dir():
        raise UserError("is not a directory", where=str(directory), fix="name another place")
    if not any(directory.iterdir()):
        return
    try:
        summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise UserError(
            "holds files that are not an artificial corpus",
            where=str(directory),
            fix="name an empty or a new directory",
        )


def _summarise(documents: Sequence[SynthDocument], key: Sequence[KeyItem]) -> SplitSummary:
    pairs = [pair for document in documents for pair in document.pairs]
    src_words = [word for pair in pairs for word in pair.src.split()]
    trg_words = [word for pair in pairs for word in pair.trg.split()]
    kinds: dict[Kind, KindSummary] = {}
    for kind in KINDS:
        items = [item for item in key if item.kind == kind]
        bounds = {information: expect(items, information) for information in INFORMATION}
        kinds[kind] = KindSummary(len(items), len(items) / len(trg_words), bounds)
    return SplitSummary(
        documents=len(documents),
        sentences=len(pairs),
        src_words=len(src_words),
        trg_words=len(trg_words),
        src_vocabulary=len(set(src_words)),
        trg_vocabulary=len(set(trg_words)),
        kinds=kinds,
    )


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
