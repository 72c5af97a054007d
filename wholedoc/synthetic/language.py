"""The invented language pair: its settings, and the lexicon that a seed gives."""

import itertools
from dataclasses import dataclass
from random import Random

from wholedoc.errors import UserError

# Sizes of the closed classes, which no experiment has a reason to change.
ADVERBS, POSTPOSITIONS, PERSONS, PARTICIPLES, TOPIC_NOUNS = 6, 4, 4, 3, 3
_COUNTS = ("train", "dev", "test", "ambiguous", "names", "nouns", "verbs", "adjectives", "far")


MOST_DOCUMENTS = 1_000_000
"""Of a split: it is made in memory, a few kilobytes a document."""
MOST_WORDS = 10_000
"""Of a kind, and sentences of a document."""


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
        for name, least in {**dict.fromkeys(_COUNTS, 1), "max_sentences": 1, "topics": 3}.items():
            most = MOST_DOCUMENTS if name in ("train", "dev", "test") else MOST_WORDS
            if not least <= getattr(self, name) <= most:
                raise UserError(f"must be between {least} and {most:,}", where=f"synth.{name}")
        ranges = {
            "gender_prior": (0 < self.gender_prior < 1, "must lie between 0 and 1"),
            "cue_accuracy": (0.5 < self.cue_accuracy < 1, "must lie between 0.5 and 1"),
            "density": (0 < self.density <= 1, "must be above 0 and at most 1"),
            "max_sentences": (self.max_sentences >= self.min_sentences, "is below min_sentences"),
        }
        for name, (is_fine, what) in ranges.items():
            if not is_fine:
                raise UserError(what, where=f"synth.{name}")
        # Of the sentences far from the topic's, one may be the introduction: two are needed.
        if self.min_sentences - topic_margin(self.min_sentences) - self.far < 2:
            what = f"documents of {self.min_sentences} sentences are too short for far={self.far}"
            fix = "raise min_sentences or lower far"
            raise UserError(what, where="synth.min_sentences", fix=fix)


def topic_margin(length: int) -> int:
    """How far from either end of a document the sentence that tells the topic may stand."""
    return length // 4


@dataclass(frozen=True, slots=True)
class Lexeme:
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

    nouns: tuple[tuple[Lexeme, Lexeme], ...]
    """Singular and plural of each noun."""
    verbs: tuple[Lexeme, ...]
    """Target forms by the number of the subject."""
    adjectives: tuple[Lexeme, ...]
    adverbs: tuple[Lexeme, ...]
    postpositions: tuple[Lexeme, ...]
    definite: Lexeme
    """The article; target forms by number."""
    indefinite: str
    """Target article of singular nouns that have none in the source."""
    copula: str
    """Target verb of sentences that have none in the source."""
    persons: tuple[tuple[Lexeme, ...], ...]
    """Nouns that introduce the protagonist, by gender."""
    participles: tuple[tuple[Lexeme, ...], ...]
    """What is said of the protagonist, by gender; the target shows no gender."""
    topic_nouns: tuple[tuple[Lexeme, ...], ...]
    """Nouns that tell the topic, by topic."""
    cues: tuple[str, str]
    """Source marks that end every sentence, by the style they point to."""
    particles: tuple[str, str, str]
    """Target particles that end every sentence: with a name in either style, without a name.

    The former also stand before the name.
    """
    pronoun: Lexeme
    """Target forms by gender."""
    ambiguous: tuple[Lexeme, ...]
    """Target forms by topic, of which some are equal."""
    names: tuple[Lexeme, ...]
    """Target forms by style."""


@dataclass(frozen=True)
class _Speller:
    """Invents word forms of consonant–vowel syllables, never the same one twice."""

    rng: Random
    consonants: str
    vowels: str
    taken: set[str]

    def forms(self, *endings: str, syllables: int = 2) -> tuple[str, ...]:
        """A new stem with each of ``endings``."""
        for attempt in itertools.count():
            stem = "".join(
                self.rng.choice(self.consonants) + self.rng.choice(self.vowels)
                for _ in range(syllables + attempt // 9)  # longer, where short ones are rare
            )
            forms = tuple(stem + ending for ending in endings)
            if self.taken.isdisjoint(forms):
                break
        self.taken.update(forms)
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

    def plain(count: int, syllables: int = 2) -> tuple[Lexeme, ...]:
        return tuple(Lexeme(src.form(syllables), (trg.form(syllables),)) for _ in range(count))

    def noun() -> tuple[Lexeme, Lexeme]:
        singular, plural = src.forms("", "d")
        trg_singular, trg_plural = trg.forms("", "s")
        return Lexeme(singular, (trg_singular,)), Lexeme(plural, (trg_plural,))

    def participle() -> tuple[Lexeme, Lexeme]:
        first, second = src.forms("v", "t")
        form = trg.forms("ed")
        return Lexeme(first, form), Lexeme(second, form)

    def name() -> Lexeme:
        form, first, second = src.forms("rai", "ray", "rei")  # the target spells after the source
        return Lexeme(form, (first, second))

    def ambiguous(index: int) -> Lexeme:
        # One sense serves half of the topics (rounded up), each other topic has its own; which
        # topics those are rotates from word to word, so that no topic is the easy one.
        shared = (config.topics + 1) // 2
        senses = [trg.form() for _ in range(config.topics - shared + 1)]
        places = [(topic - index) % config.topics for topic in range(config.topics)]
        by_topic = [senses[max(0, place - shared + 1)] for place in places]
        return Lexeme(src.form(), tuple(by_topic))

    return Language(
        nouns=tuple(noun() for _ in range(config.nouns)),
        verbs=tuple(Lexeme(src.form(3), trg.forms("t", "nt")) for _ in range(config.verbs)),
        adjectives=plain(config.adjectives, syllables=3),
        adverbs=plain(ADVERBS),
        postpositions=plain(POSTPOSITIONS, syllables=1),
        definite=Lexeme(src.form(1), trg.forms("", "s", syllables=1)),
        indefinite=trg.form(1),
        copula=trg.form(1),
        persons=(plain(PERSONS), plain(PERSONS)),
        participles=tuple(zip(*(participle() for _ in range(PARTICIPLES)), strict=True)),
        topic_nouns=tuple(plain(TOPIC_NOUNS) for _ in range(config.topics)),
        # Marks, not particles before a full stop: the last state of a language model, which a
        # source memory is made of, tells far better what it has just read.
        cues=(".", "!"),
        particles=(trg.form(1), trg.form(1), trg.form(1)),
        pronoun=Lexeme(src.form(1), (trg.form(1), trg.form(1))),
        ambiguous=tuple(ambiguous(index) for index in range(config.ambiguous)),
        names=tuple(name() for _ in range(config.names)),
    )
