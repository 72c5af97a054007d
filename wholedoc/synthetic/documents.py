"""Drawing a document: its hidden world, its plan, and the sentences of both sides.

A document has a hidden ``DocumentWorld``: the gender of its protagonist, its topic and its spelling
style of names, drawn independently. A ``Plan`` holds everything else and is drawn without knowledge
of the world, so nothing but the words meant to tell about the world can do so.
"""

from dataclasses import dataclass
from random import Random
from typing import Literal

from wholedoc.corpus.documents import SentencePair
from wholedoc.synthetic.language import Language, Lexeme, SynthConfig, topic_margin


@dataclass(frozen=True, slots=True)
class DocumentWorld:
    """What a document is about and its words depend on."""

    gender: int
    topic: int
    style: int


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase of one or two source words."""

    noun: tuple[Lexeme, Lexeme]
    plural: bool
    definite: bool
    adjective: Lexeme | None


@dataclass(frozen=True, slots=True)
class Clause:
    """An ordinary sentence; a ``Lexeme`` in place of a phrase depends on the world."""

    adverb: Lexeme | None
    subject: Phrase | Lexeme
    """The pronoun, where it is a word."""
    object: Phrase | Lexeme
    """A name, where it is a word."""
    place: Phrase | Lexeme
    """A word with several senses, where it is a word."""
    postposition: Lexeme
    verb: Lexeme
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
    postposition: Lexeme
    cue_right: bool


Plan = tuple[Clause | Telling, ...]
_Words = tuple[list[str], list[str]]  # of the source and of the target


@dataclass(frozen=True, slots=True)
class SynthDocument:
    """A document, and what it was made from."""

    name: str
    plan: Plan
    world: DocumentWorld
    pairs: tuple[SentencePair, ...]


def draw_document(name: str, language: Language, config: SynthConfig, rng: Random) -> SynthDocument:
    """Draw a document: gender, topic and style, each by itself, and all that depends on none."""
    world = DocumentWorld(
        gender=int(rng.random() >= config.gender_prior),
        topic=rng.randrange(config.topics),
        style=rng.randrange(2),
    )
    plan = draw_plan(language, config, rng)
    return SynthDocument(name, plan, world, realise(plan, world, language))


def draw_plan(language: Language, config: SynthConfig, rng: Random) -> Plan:
    """Draw all of a document that does not depend on its world."""
    length = rng.randint(config.min_sentences, config.max_sentences)
    topic_at = rng.randint(0, topic_margin(length))
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
            head = rng.randrange(len(language.persons[0]))
            complement = rng.randrange(len(language.participles[0]))
            return Telling("gender", head, complement, phrase(), postposition, cue_right)
        if t == topic_at:
            head, complement = rng.sample(range(len(language.topic_nouns[0])), 2)
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


def realise(plan: Plan, world: DocumentWorld, language: Language) -> tuple[SentencePair, ...]:
    """Put a plan into words that fit ``world``: source verb-final, target verb-second."""
    pairs = []
    for sentence in plan:
        if isinstance(sentence, Telling):
            src, trg = _telling(sentence, world, language)
        else:
            src, trg = _clause(sentence, world, language)
        cue = language.cues[cue_style(sentence, world)]
        # As people write, and as a translator's output is: no space before the mark.
        pairs.append(SentencePair(" ".join(src) + cue, " ".join(trg) + "."))
    return tuple(pairs)


def split_words(sentence: str) -> list[str]:
    """The words of a sentence of either side, its final mark among them."""
    return [*sentence[:-1].split(), sentence[-1]]


def cue_style(sentence: Clause | Telling, world: DocumentWorld) -> int:
    """The style of names that the mark of a sentence points to."""
    return world.style if sentence.cue_right else 1 - world.style


def _words(part: Phrase | Lexeme, language: Language, feature: int = 0) -> _Words:
    """Source: article noun adjective; target: article adjective noun; or a form of one word."""
    if isinstance(part, Lexeme):
        return [part.src], [part.trg[feature]]
    noun = part.noun[part.plural]
    src, trg = [noun.src], [*noun.trg]
    if part.adjective is not None:
        src = [*src, part.adjective.src]
        trg = [*part.adjective.trg, *trg]
    if part.definite:
        src = [language.definite.src, *src]
        trg = [language.definite.trg[part.plural], *trg]
    elif not part.plural:
        trg = [language.indefinite, *trg]
    return src, trg


def _telling(sentence: Telling, world: DocumentWorld, language: Language) -> _Words:
    heads = complements = language.topic_nouns[world.topic]
    if sentence.tells == "gender":
        heads, complements = language.persons[world.gender], language.participles[world.gender]
    head, complement = heads[sentence.head], complements[sentence.complement]
    place_src, place_trg = _words(sentence.place, language)
    src = [head.src, *place_src, sentence.postposition.src, complement.src]
    trg = [*head.trg, language.copula, *complement.trg, *sentence.postposition.trg, *place_trg]
    return src, [*trg, language.particles[2]]


def _clause(sentence: Clause, world: DocumentWorld, language: Language) -> _Words:
    subject_src, subject_trg = _words(sentence.subject, language, world.gender)
    object_src, object_trg = _words(sentence.object, language, world.style)
    place_src, place_trg = _words(sentence.place, language, world.topic)
    adverb_src = [sentence.adverb.src] if sentence.adverb else []
    adverb_trg = [*sentence.adverb.trg] if sentence.adverb else []
    plural = isinstance(sentence.subject, Phrase) and sentence.subject.plural
    # Before the name, the particle makes the style one decision that all names share, not one per
    # name; at the end, it makes a decoder carry the style to its last state.
    particle = language.particles[2]
    if isinstance(sentence.object, Lexeme):
        particle = language.particles[world.style]
        object_trg = [particle, *object_trg]
    src = [*adverb_src, *subject_src, *object_src, *place_src, sentence.postposition.src]
    trg = [*subject_trg, sentence.verb.trg[plural], *object_trg]
    trg += [*sentence.postposition.trg, *place_trg, *adverb_trg, particle]
    return [*src, sentence.verb.src], trg
