"""Glossaries: terms of two languages, and where they stand in text.

A term is found in all its forms where simplemma knows the language, else as it is written.
"""

import io
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import simplemma
from lxml import etree
from simplemma.strategies.dictionaries.dictionary_factory import (
    SUPPORTED_LANGUAGES,
    DefaultDictionaryFactory,
)

from wholedoc.corpus.documents import primary_language
from wholedoc.corpus.readers.inputs import same_language
from wholedoc.corpus.readers.lines import BYTE_ORDER_MARK, decode_lines, one_line, read_chunks
from wholedoc.errors import UserError

# A mark above a letter may be a character of its own.
_TOKEN = re.compile(r"[\w\u0300-\u036f]+|[^\w\s]")
_FINAL = " .:!?…"  # after a term that is a sentence of its own
_ENDS = frozenset(".:!?…•")  # what comes after one of them begins a sentence
_NOUN = "^"  # before a key that only words with a capital letter have
_OBSOLETE = ("deprecated", "superseded", "forbidden", "obsolete", "notrecommended")
MOST_BYTES = 50_000_000
_HEADER = ("source", "target")
_MOST_FORMS = 4
_MOST_KEYS = 50_000  # words whose lemmas are remembered; then all are forgotten
_CONCEPTS, _LANGUAGES = ("termEntry", "conceptEntry"), ("langSet", "langSec")
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Entry(NamedTuple):
    """A term and what it must become."""

    source: str
    target: str
    line: int
    """Where it stands in its file; 0 where there is none."""


class Found(NamedTuple):
    """A term in a text: characters ``start`` to ``end``."""

    start: int
    end: int
    entry: Entry


class Word(NamedTuple):
    """A word or a mark of a text."""

    start: int
    end: int
    form: str
    keys: frozenset[str]
    """Two words are forms of one if they share a key."""

    def matches(self, other: "Word") -> bool:
        """Whether both are forms of one word."""
        return not self.keys.isdisjoint(other.keys)


class Words:
    """Splits text of one language into words, and knows their lemmas."""

    def __init__(self, language: str) -> None:
        code = primary_language(language)
        self.language = code if code in SUPPORTED_LANGUAGES else ""
        """Empty where simplemma does not know it."""
        self._keys: dict[str, frozenset[str]] = {}

    def split(self, text: str) -> list[Word]:
        """The words and marks of a text."""
        words = [Word(*m.span(), m[0], self._keys_of(m[0])) for m in _TOKEN.finditer(text)]
        return [
            word._replace(keys=self._keys_of(word.form.lower()))
            if (n == 0 or words[n - 1].form in _ENDS) and self.is_verb(word.form)
            else word
            for n, word in enumerate(words)
        ]

    def split_term(self, term: str) -> list[Word]:
        """Those of a term; one in capitals is found only as it is written, or with an s."""
        words = [Word(*m.span(), m[0], self._keys_of(m[0])) for m in _TOKEN.finditer(term)]
        if term.isupper():
            forms = [(word.form, f"{word.form}s") for word in words]
            keys = [frozenset(map(_as_written, each)) for each in forms]
            return [word._replace(keys=found) for word, found in zip(words, keys, strict=True)]
        if len(words) == 1 and self._has_double(term):
            as_noun = frozenset(key for key in words[0].keys if key.startswith(_NOUN))
            return [words[0]._replace(keys=as_noun)]
        return words

    def _has_double(self, term: str) -> bool:
        """Whether a German noun is another word with a small letter (Druck, drucken; Weg, weg)."""
        if self.language != "de" or not term[0].isupper() or self.is_verb(term):
            return False
        lower = term.lower()
        return simplemma.lemmatize(lower, "de").islower() and simplemma.is_known(lower, "de")

    def is_verb(self, word: str) -> bool:
        """Whether a German word may be an infinitive, which begins a sentence as a request does."""
        lower = word.lower()
        if self.language != "de" or not lower.endswith("n"):
            return False
        return simplemma.lemmatize(lower, "de") == lower

    def _keys_of(self, form: str) -> frozenset[str]:
        found = self._keys.get(form)
        if found is None:
            plain = unicodedata.normalize("NFC", form)
            keys = {plain.lower()}
            if self.language and plain[0].isalpha():
                lemmas = (simplemma.lemmatize(each, self.language) for each in (plain, *keys))
                keys = {*keys, *(lemma.lower() for lemma in lemmas)}
            if self.language == "de" and plain[0].isupper():
                keys |= {_NOUN + plain, _NOUN + simplemma.lemmatize(plain, "de").capitalize()}
            found = frozenset([*keys, _as_written(form)])
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[form] = found
        return found

    def locate(self, term: str, words: Sequence[Word]) -> list[tuple[int, int]]:
        """Where a text has a term, in any of its forms: first word, end."""
        wanted, found = self.split_term(term), []
        for first in range(len(words) - len(wanted) + 1 if wanted else 0):
            part = words[first : first + len(wanted)]
            if all(a.matches(b) for a, b in zip(wanted, part, strict=True)):
                found.append((first, first + len(wanted)))
        return found

    def inflect(self, terms: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Other forms of terms: those of the last word of each, as far as simplemma has any."""
        last = {term: _TOKEN.findall(term)[-1:] for term in terms if not term.isupper()}
        lemmas: dict[str, list[str]] = {word.lower(): [] for (word,) in filter(None, last.values())}
        if self.language and lemmas:
            forms = DefaultDictionaryFactory().get_dictionary(self.language)
            for form, lemma in forms.items():
                if (known := lemmas.get(_text(lemma).lower())) is not None:
                    known.append(_text(form))
        found = {
            term: _inflected(term, words[0], lemmas[words[0].lower()])
            for term, words in last.items()
            if words
        }
        return {term: found.get(term, ()) for term in terms}


def _text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _as_written(form: str) -> str:
    """A key of a word that no other form has."""
    return "=" + unicodedata.normalize("NFC", form)


def _inflected(term: str, last: str, forms: Iterable[str]) -> tuple[str, ...]:
    """A term with other forms of its last word, cased as that is, the likeliest first."""
    if not term.endswith(last):
        return ()
    cased = {form[:1].upper() + form[1:] if last[0].isupper() else form for form in forms}
    nearest = sorted(cased - {last}, key=lambda form: (abs(len(form) - len(last)), form))
    return tuple(term.removesuffix(last) + form for form in nearest[:_MOST_FORMS])


@dataclass(frozen=True)
class Glossary:
    """Terms and what they must become."""

    entries: tuple[Entry, ...]
    src_language: str = ""
    trg_language: str = ""
    name: str = field(default="glossary", compare=False)
    """What it is called in errors."""

    def __post_init__(self) -> None:
        seen: dict[str, Entry] = {}
        for entry in self.entries:
            _check_terms(entry, self.name)
            first = seen.setdefault(self._key(entry), entry)
            if first.target != entry.target:
                raise UserError(
                    f"{entry.source!r} becomes {entry.target!r} here, but {first.target!r}"
                    f" at {_place(self.name, first)}",
                    where=_place(self.name, entry),
                    fix="keep one of both",
                )
        object.__setattr__(self, "entries", tuple(seen.values()))

    @classmethod
    def of(
        cls, terms: Iterable[tuple[str, str]], src_language: str = "", trg_language: str = ""
    ) -> "Glossary":
        """A glossary of pairs of terms."""
        entries = tuple(Entry(source, target, n) for n, (source, target) in enumerate(terms, 1))
        return cls(entries, src_language, trg_language)

    @classmethod
    def read(cls, path: str | Path, src_language: str = "", trg_language: str = "") -> "Glossary":
        """Read a file: lines of ``source<TAB>target``, or TBX of both languages."""
        data = bytearray()
        for chunk in read_chunks(Path(path)):  # a packed file may have any size
            data += chunk
            if len(data) > MOST_BYTES:
                break
        return cls.parse(bytes(data), src_language, trg_language, str(path))

    @classmethod
    def parse(
        cls, data: bytes, src_language: str = "", trg_language: str = "", name: str = "glossary"
    ) -> "Glossary":
        """Read what a file of this name holds."""
        if len(data) > MOST_BYTES:
            what = f"a glossary of more than {MOST_BYTES:,} bytes"
            raise UserError(what, where=name, fix="keep the terms that are needed")
        if not data:
            fix = "give a file with text in it"
            raise UserError("the file is empty", where=name, fix=fix)
        if is_tbx(data):
            found = _read_tbx(data, name, src_language, trg_language)
        else:
            found = _read_tsv(data, name, (src_language, trg_language))
        return cls(tuple(found), src_language, trg_language, name)

    def over(self, other: "Glossary | None") -> "Glossary":
        """Both in one; where both have a term, this one says what it becomes."""
        if other is None:
            return self
        own = {self._key(entry) for entry in self.entries}
        more = (entry for entry in other.entries if self._key(entry) not in own)
        return Glossary((*self.entries, *more), self.src_language, self.trg_language, self.name)

    def _key(self, entry: Entry) -> str:
        """What two entries for one term have in common; essen and Essen are two."""
        cased = entry.source.isupper() or self._words.is_verb(entry.source)
        return entry.source if cased else entry.source.lower()

    def find(self, sentence: str) -> list[Found]:
        """The terms in a sentence, in their order: longer ones first, and none in another."""
        words = self._words.split(sentence)
        found: list[tuple[int, bool, int, int, Entry]] = []
        for first, word in enumerate(words):
            numbers = {n for key in word.keys for n in self._index.get(key, ())}
            for n in sorted(numbers):
                term = self._terms[n]
                part = words[first : first + len(term)]
                if len(part) == len(term) and all(map(Word.matches, term, part)):
                    same = all(a.form == b.form for a, b in zip(term, part, strict=True))
                    found.append((-len(term), not same, first, n, self.entries[n]))
        taken: set[int] = set()
        chosen = []
        for length, _, first, _, entry in sorted(found):
            places = range(first, first - length)
            if taken.isdisjoint(places):
                taken.update(places)
                chosen.append(Found(words[first].start, words[places[-1]].end, entry))
        return sorted(chosen)

    def translate_term(self, sentence: str) -> str | None:
        """What a sentence becomes that is a term and no more, such as a heading; else None."""
        text = sentence.rstrip(_FINAL)
        for start, end, entry in self.find(text):
            written = text[start:end].casefold() == entry.source.casefold()
            if written and (start, end) == (0, len(text)):
                first = entry.target[0].upper() if text[0].isupper() else entry.target[0]
                return first + entry.target[1:] + sentence[end:].rstrip()
        return None

    @cached_property
    def forms(self) -> dict[str, tuple[str, ...]]:
        """Other forms of the target terms."""
        words = Words(self.trg_language)
        return words.inflect(dict.fromkeys(entry.target for entry in self.entries))

    @cached_property
    def _words(self) -> Words:
        return Words(self.src_language)

    @cached_property
    def _terms(self) -> list[list[Word]]:
        return [self._words.split_term(entry.source) for entry in self.entries]

    @cached_property
    def _index(self) -> dict[str, list[int]]:
        """The numbers of the entries by the keys of their first words."""
        index: dict[str, list[int]] = {}
        for n, term in enumerate(self._terms):
            for key in term[0].keys:
                index.setdefault(key, []).append(n)
        return index


def is_tbx(data: bytes) -> bool:
    """Whether a file holds TBX, which names its languages, or lines, which do not."""
    return data.removeprefix(BYTE_ORDER_MARK.encode()).lstrip().startswith(b"<")


def _place(name: str, entry: Entry) -> str:
    return f"{name}:{entry.line}" if entry.line else name


def _check_terms(entry: Entry, name: str) -> None:
    for side, term in (("source", entry.source), ("target", entry.target)):
        if not _TOKEN.search(term):
            what, fix = f"the {side} term is empty", "give a term, or remove the entry"
            raise UserError(what, where=_place(name, entry), fix=fix)


def _read_tsv(data: bytes, name: str, languages: tuple[str, str]) -> Iterator[Entry]:
    begun, codes = False, tuple(map(primary_language, languages))
    for number, line in enumerate(decode_lines(io.BytesIO(data), name), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = [_unquoted(column.strip()) for column in line.split("\t")]
        if len(columns) < 2:
            what, fix = "a line without a tab", "write source<TAB>target"
            raise UserError(what, where=f"{name}:{number}", fix=fix)
        heads = tuple(map(str.casefold, columns[:2]))
        is_header = not begun and (heads == _HEADER or tuple(map(primary_language, heads)) == codes)
        begun = True
        if not is_header:
            yield Entry(columns[0], columns[1], number)


def _unquoted(column: str) -> str:
    """A column without the quotation marks that spreadsheets put around it."""
    if len(column) > 2 and column[0] == column[-1] == '"':
        return column[1:-1].replace('""', '"')
    return column


def _read_tbx(data: bytes, name: str, src_language: str, trg_language: str) -> Iterator[Entry]:
    """Every source term of a concept becomes the first target term; others have no translation."""
    if not src_language or not trg_language:
        what, fix = "which languages are wanted is not known", "name both languages"
        raise UserError(what, where=name, fix=fix)
    seen: set[str] = set()
    some = False
    for concept in _parse(data, name).iter(*(f"{{*}}{tag}" for tag in _CONCEPTS)):
        sources: list[Entry] = []
        targets: list[str] = []
        for part in concept.iter(*(f"{{*}}{tag}" for tag in _LANGUAGES)):
            code = part.get(_LANGUAGE, "")
            seen.add(code)
            terms = [(one_line("".join(t.itertext())), t.sourceline) for t in _usable_terms(part)]
            if same_language(code, src_language):
                sources += [Entry(term, "", line) for term, line in terms]
            elif same_language(code, trg_language):
                targets += [term for term, _ in terms]
        for entry in sources if targets else ():
            some = True
            yield entry._replace(target=targets[0])
    if not some:
        codes = ", ".join(sorted(seen)) or "none"
        what = f"no concept has terms in {src_language} and {trg_language} (languages: {codes})"
        raise UserError(what, where=name, fix="give a glossary of the model's languages")


def _usable_terms(part: Any) -> list[Any]:
    """The terms of a language, preferred ones first, without those that are not to be used."""
    ranked: list[tuple[bool, int, Any]] = []
    for term in part.iter("{*}term"):
        around = term.getparent()
        notes = [] if around is None else around.iter("{*}termNote", "{*}administrativeStatus")
        said = " ".join((note.text or "").lower() for note in notes)
        if not any(word in said for word in _OBSOLETE):
            ranked.append(("preferred" not in said, len(ranked), term))
    return [term for *_, term in sorted(ranked, key=lambda each: each[:2])]


def _parse(data: bytes, name: str) -> Any:
    """The tree of a TBX file; a document type is neither loaded nor followed."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        tree = etree.parse(io.BytesIO(data), parser)
    except etree.XMLSyntaxError as error:
        what, where = f"not XML: {error.msg or 'empty'}", f"{name}:{error.lineno or 1}"
        raise UserError(what, where=where, fix="give TBX, or lines of source<TAB>target") from error
    types = tree.docinfo.internalDTD
    if types is not None and any(True for _ in types.iterentities()):
        what, fix = "entities are not accepted", "write their text instead, and remove them"
        raise UserError(what, where=name, fix=fix)
    return tree
