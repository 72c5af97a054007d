"""Words as the discourse measures see them: split, lemmatised, and told apart by kind."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import exp, log2

import simplemma
from simplemma.strategies.dictionaries.dictionary_factory import SUPPORTED_LANGUAGES

UNKNOWN = "<unk>"

Lemmatise = Callable[[str], str]
"""From a lower-cased form to its lemma."""

# Plain Unicode words rather than Moses tokens: raw, tokenised and detokenised text must come apart
# alike, whoever wrote the output. Apostrophes and hyphens separate; a decimal number is one word.
_WORD = re.compile(rf"{UNKNOWN}|\d+(?:[.,]\d+)+|\w+", re.IGNORECASE)
_START = re.compile(r"[.!?:…\"“”„«»(\[–—]|\s-\s")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of running text."""

    form: str
    """As it is written."""
    lemma: str
    """In lower case. *He*, *him* and *his* share one, likewise the other English pronouns."""
    initial: bool
    """Whether a sentence or a quotation starts with it, so that a capital says nothing."""


Tokens = tuple[Token, ...]
"""The words of a sentence."""


# English forms by lemma: what a document decides is person, number and gender, not case.
_ENGLISH = {
    "i": "i me my mine myself",
    "you": "you your yours yourself yourselves",
    "he": "he him his himself",
    "she": "she her hers herself",
    "it": "it its itself",
    "we": "we us our ours ourselves",
    "they": "they them their theirs themselves",
}
# French "le", "la", "les" and German "der", "die", "das" are left out: they are mostly articles.
_FRENCH = (
    "je j me m moi mon ma mes mien mienne tu te t toi ton ta tes tien tienne il elle on lui soi se"
    " s son sa ses sien sienne nous notre nos nôtre nôtres vous votre vos vôtre vôtres ils elles"
    " eux leur leurs ce c ceci cela ça celui celle ceux celles y en"
)
_GERMAN = (
    "ich mich mir mein meine meinem meinen meiner meines du dich dir dein deine deinem deinen"
    " deiner deines er ihn ihm es sich sein seine seinem seinen seiner seines sie ihr ihre ihrem"
    " ihren ihrer ihres ihnen wir uns unser unsere unserem unseren unserer unseres euch euer eure"
    " eurem euren eurer eures man dies dieser diese dieses dessen deren"
)
_ESTONIAN = (
    "ma mina mu minu mind mulle minule mul minul mult minult minuga minust minusse sa sina su sinu"
    " sind sulle sinule sul sinul sult sinult sinuga sinust ta tema teda talle temale tal temal"
    " talt temalt temaga temast temasse me meie meid meile meil meilt meiega meist meisse te teie"
    " teid teile teil teilt teiega teist nad nemad nende neid neile neil neilt nendega neist"
    " nendest nendele nendel see selle seda sellele sellel sellelt sellega sellest sellesse selles"
    " oma ise enda end ennast endale endal endaga endast"
)

PRONOUNS: Mapping[str, frozenset[str]] = {
    "en": frozenset(" ".join(_ENGLISH.values()).split()),
    "fr": frozenset(_FRENCH.split()),
    "de": frozenset(_GERMAN.split()),
    "et": frozenset(_ESTONIAN.split()),
}
"""Personal, possessive, reflexive and some demonstrative pronouns, all forms, by language."""

_LEMMAS: Mapping[str, Mapping[str, str]] = {
    "en": {form: lemma for lemma, forms in _ENGLISH.items() for form in forms.split()}
}


class Splitter:
    """Splits text of one language into words with lemmas.

    Lemmas are simplemma's where it knows the language, else the lower-cased words themselves. They
    are those of the lower-cased form, so that cased and lower-cased systems are compared alike.
    """

    def __init__(self, language: str, lemmatise: Lemmatise | None = None) -> None:
        """Take lemmas from ``lemmatise`` instead, if it is given."""
        self.pronouns = PRONOUNS.get(language, frozenset())
        """All forms of pronouns; none where there is no table of the language's."""
        source = "given" if lemmatise else "forms"
        if lemmatise is None and has_lemmas(language):
            lemmatise = partial(simplemma.lemmatize, lang=language)
            source = f"simplemma-{version('simplemma')}"
        self._lemmatise = lemmatise or str
        self.signature = f"{language or 'und'}.{source}"
        """The language and where lemmas come from."""
        self._lemmas = dict(_LEMMAS.get(language, {}))

    def split(self, text: str) -> Tokens:
        """The words of a sentence; punctuation is left out, ``<unk>`` is a word."""
        return tuple(self._words(unicodedata.normalize("NFC", text)))

    def is_pronoun(self, word: Token) -> bool:
        """Whether ``word`` is a pronoun; never where there is no table, and the US is none."""
        return word.form.lower() in self.pronouns and not (
            len(word.form) > 1 and word.form.isupper()
        )

    def lemma(self, form: str) -> str:
        """The lemma of a lower-cased form."""
        lemma = self._lemmas.get(form)
        if lemma is None:
            lemma = self._lemmas[form] = self._lemmatise(form).lower()
        return lemma

    def _words(self, text: str) -> Iterator[Token]:
        end = 0
        for match in _WORD.finditer(text):
            initial = end == 0 or bool(_START.search(text, end, match.start()))
            end = match.end()
            yield Token(match[0], self.lemma(match[0].lower()), initial)


def has_lemmas(language: str) -> bool:
    """Whether there are lemmas for a language; else a word is its own lemma."""
    return language in SUPPORTED_LANGUAGES


class ContentWords:
    """Tells content words from function words by how they are spread over documents.

    A lemma is a content word if it has at least three letters, is no pronoun's (of those that the
    splitter of the text knows) and is not spread evenly. It is
    spread evenly if it stands in more than 1 % of the sentences, in at least ten, and its residual
    inverse document frequency (Church & Gale 1995) is below 0.4:

    log₂(1 − exp(−s/D)) − log₂(d/D)

    with s of the sentences and d of the D documents holding it: how much fewer documents hold the
    lemma than would if it fell anywhere by chance. Topics keep to their documents; *and* does not.
    """

    def __init__(self, documents: Sequence[Sequence[Tokens]], splitter: Splitter) -> None:
        self._pronouns = frozenset(map(splitter.lemma, splitter.pronouns))
        in_sentences: Counter[str] = Counter()
        in_documents: Counter[str] = Counter()
        for document in documents:
            lemmas = [{word.lemma for word in sentence} for sentence in document]
            for found in lemmas:
                in_sentences.update(found)
            in_documents.update(set().union(*lemmas))
        least = max(sum(map(len, documents)) * 0.01, 9)
        self.even = frozenset(
            lemma
            for lemma, count in in_sentences.items()
            if count > least and _residual(count, in_documents[lemma], len(documents)) < 0.4
        )
        """The lemmas that are spread evenly."""

    def __contains__(self, lemma: str) -> bool:
        usual = lemma in self.even or lemma in self._pronouns
        return len(lemma) >= 3 and lemma.isalpha() and not usual


def _residual(sentences: int, holding: int, documents: int) -> float:
    return log2(1 - exp(-sentences / documents)) - log2(holding / documents)


def find_names(reference: Sequence[Tokens], src: Sequence[Tokens]) -> frozenset[str]:
    """Lemmas of the names in one document, found in its reference by rule.

    A name holds a digit, or has a capital: where no sentence starts (the English *I* aside), or
    anywhere if the source sentence has the very same form. In a reference without capitals, it is
    a word of at least four letters that the source sentence has too.
    """
    cased = any(word.form != word.form.lower() for sentence in reference for word in sentence)
    names: set[str] = set()
    for sentence, original in zip(reference, src, strict=True):
        forms = {word.form if cased else word.form.lower() for word in original}
        for word in sentence:
            copied = word.form in forms
            if cased:
                named = word.form[0].isupper() and word.form != "I" and (copied or not word.initial)
            else:
                named = copied and len(word.form) >= 4
            if named or any(character.isdigit() for character in word.form):
                names.add(word.lemma)
    return frozenset(names)
