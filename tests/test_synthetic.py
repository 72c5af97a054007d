"""The artificial corpus: its language, its files, its exact bounds, and that nothing leaks."""

import errno
import json
import os
from collections import Counter, defaultdict
from dataclasses import fields, replace
from itertools import chain, product
from math import isclose, sqrt
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wholedoc.corpus.vocabulary import WordVocabulary
from wholedoc.errors import UserError
from wholedoc.metrics.discourse_sets import read_contrastive
from wholedoc.metrics.phenomena import read_key
from wholedoc.synthetic import FORMAT, SPLITS, make_contrasts, write_synth
from wholedoc.synthetic.bounds import INFORMATION, KINDS, KeyItem, expect, make_key
from wholedoc.synthetic.documents import (
    Clause,
    DocumentWorld,
    SynthDocument,
    Telling,
    draw_document,
    draw_plan,
    realise,
    split_words,
)
from wholedoc.synthetic.language import Language, Lexeme, SynthConfig, build_language

CONFIG = SynthConfig()
LANGUAGE = build_language(CONFIG)
SMALL = SynthConfig(train=8, dev=3, test=4)


def draw(count: int, config: SynthConfig = CONFIG) -> list[tuple[SynthDocument, list[KeyItem]]]:
    language = build_language(config)
    rng = Random("tests")
    documents = [draw_document(f"d{n}", language, config, rng) for n in range(count)]
    return [(document, list(make_key(document, 0, 99, config))) for document in documents]


@pytest.fixture(scope="module")
def sample() -> list[tuple[SynthDocument, list[KeyItem]]]:
    return draw(3000)


def words(language: Language) -> list[Lexeme]:
    """Every entry of the lexicon that has both sides."""
    return [
        *chain.from_iterable(language.nouns),
        *language.verbs,
        *language.adjectives,
        *language.adverbs,
        *language.postpositions,
        language.definite,
        *chain.from_iterable(language.persons),
        *chain.from_iterable(language.participles),
        *chain.from_iterable(language.topic_nouns),
        language.pronoun,
        *language.ambiguous,
        *language.names,
    ]


# ---------------------------------------------------------------- the language


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(), nouns=st.integers(1, 300), topics=st.integers(3, 7))
def test_no_form_serves_two_entries_or_both_sides(seed: int, nouns: int, topics: int) -> None:
    language = build_language(SynthConfig(seed=seed, nouns=nouns, topics=topics))
    entries = words(language)
    src = [*(word.src for word in entries), *language.cues]
    second_participles = language.participles[1]  # share their target with the first
    trg = [
        *chain.from_iterable(w.renderings for w in entries if w not in second_participles),
        *language.particles,
        language.indefinite,
        language.copula,
    ]
    assert len(set(src)) == len(src)
    assert len(set(trg)) == len(trg)
    assert not set(src) & set(trg)


@pytest.mark.parametrize(("topics", "most"), [(3, 2 / 3), (4, 2 / 4), (5, 3 / 5), (6, 3 / 6)])
def test_senses_are_not_uniform_and_no_topic_is_the_easy_one(topics: int, most: float) -> None:
    language = build_language(SynthConfig(topics=topics, ambiguous=topics))
    easy = Counter[int]()
    for word in language.ambiguous:
        (sense, count), (_, second) = Counter(word.trg).most_common(2)
        assert count / topics == most
        assert second < count
        easy.update(topic for topic in range(topics) if word.trg[topic] == sense)
    assert set(easy.values()) == {most * topics}


class Rules:
    """A translator written from the grammar in the documentation, told the world."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self.nouns = {form.src: n for n in language.nouns for form in n}
        self.entries = {word.src: word for word in words(language)}
        self.adjectives = {word.src for word in language.adjectives}

    def phrase(self, src: list[str]) -> tuple[list[str], bool]:
        definite = src[0] == self.language.definite.src
        if definite:
            src.pop(0)
        noun = self.entries[src[0]]
        plural = self.nouns[src.pop(0)][1] is noun
        adjective = [self.entries[src.pop(0)].trg[0]] if src[0] in self.adjectives else []
        if definite:
            article = [self.language.definite.trg[plural]]
        else:
            article = [] if plural else [self.language.indefinite]
        return [*article, *adjective, *noun.trg], plural

    def translate(self, sentence: str, world: DocumentWorld) -> str:
        language = self.language
        src = split_words(sentence)
        if src[0] in {w.src for w in (*chain(*language.persons), *chain(*language.topic_nouns))}:
            head = self.entries[src.pop(0)].trg[0]
            place, _ = self.phrase(src)
            preposition, complement = (self.entries[src.pop(0)].trg[0] for _ in range(2))
            out = [head, language.copula, complement, preposition, *place, language.particles[2]]
            return f"{' '.join(out)}."
        adverb = []
        if src[0] in {word.src for word in language.adverbs}:
            adverb = [self.entries[src.pop(0)].trg[0]]
        parts, number, particle = [], False, 2
        for slot, feature in enumerate((world.gender, world.style, world.topic)):
            if src[0] in self.nouns or src[0] == language.definite.src:
                part, plural = self.phrase(src)
                number |= slot == 0 and plural
            else:
                part = [self.entries[src.pop(0)].trg[feature]]
                if slot == 1:
                    particle = feature
                    part = [language.particles[feature], *part]
            parts.append(part)
        preposition, verb = self.entries[src.pop(0)].trg[0], self.entries[src.pop(0)].trg[number]
        subject, thing, place = parts
        out = [*subject, verb, *thing, preposition, *place, *adverb, language.particles[particle]]
        return f"{' '.join(out)}."


def test_translation_follows_the_documented_grammar(
    sample: list[tuple[SynthDocument, list[KeyItem]]],
) -> None:
    rules = Rules(LANGUAGE)
    for document, _ in sample[:300]:
        for pair in document.pairs:
            assert rules.translate(pair.src, document.world) == pair.trg


def test_sizes_are_as_documented(sample: list[tuple[SynthDocument, list[KeyItem]]]) -> None:
    lengths = {len(document.pairs) for document, _ in sample}
    assert lengths == set(range(CONFIG.min_sentences, CONFIG.max_sentences + 1))
    src = {len(split_words(pair.src)) for document, _ in sample for pair in document.pairs}
    assert (min(src), max(src)) == (5, 10)  # the final mark included


# ---------------------------------------------------------------- the items


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    far=st.integers(1, 5),
    spare=st.integers(0, 4),
    density=st.floats(0.01, 1),
)
def test_items_stand_where_they_may(seed: int, far: int, spare: int, density: float) -> None:
    shortest = next(n for n in range(99) if n - n // 4 - far >= 2)
    config = SynthConfig(
        seed=seed, far=far, density=density, min_sentences=shortest, max_sentences=shortest + spare
    )
    language = build_language(config)
    document = draw_document("d", language, config, Random(seed))
    key = list(make_key(document, 100, 200, config))
    tellings = {s.tells: t for t, s in enumerate(document.plan) if isinstance(s, Telling)}
    assert sorted(tellings) == ["gender", "topic"]
    assert sum(isinstance(s, Telling) for s in document.plan) == 2
    assert {item.kind for item in key} == set(KINDS)
    assert len({(item.kind, item.sentence) for item in key}) == len(key)
    for item in key:
        assert item.line == 100 + item.sentence
        assert item.sentence not in tellings.values()
        if item.kind == "topic":
            assert abs(item.sentence - tellings["topic"]) >= far
        pair = document.pairs[item.sentence]
        assert split_words(pair.src).count(item.word) == 1
        assert split_words(pair.trg).count(item.expected) == 1
        assert not set(item.alternatives) & set(split_words(pair.trg))
        assert {item.expected, *item.alternatives} == set(item.renderings)
        for bound in item.bounds.values():
            assert bound.guess in item.renderings
            assert 1 / len(item.renderings) <= bound.accuracy <= 1
        # More words may leave one item less sure; what they add is never wrong on average.
        assert item.bounds["source"].accuracy <= item.bounds["both"].accuracy


# ---------------------------------------------------------------- the bounds


def posterior(
    item: KeyItem, src: list[str], trg: list[str], config: SynthConfig, language: Language
) -> dict[str, float]:
    """P(rendering | words seen), by adding up all worlds; written from the documentation."""
    entries = {word.src: word for word in words(language)}
    gender_words = [{w.src for w in chain(p, q)} for p, q in zip(
        language.persons, language.participles, strict=True)]  # fmt: skip
    topic_words = [{w.src for w in nouns} for nouns in language.topic_nouns]
    mass: dict[str, float] = defaultdict(float)
    for gender, topic, style in product(range(2), range(config.topics), range(2)):
        p = (config.gender_prior, 1 - config.gender_prior)[gender] / config.topics / 2
        for word in src:
            if word in language.cues:
                right = language.cues.index(word) == style
                p *= config.cue_accuracy if right else 1 - config.cue_accuracy
            p *= word not in gender_words[1 - gender]
            p *= not any(word in topic_words[k] for k in range(config.topics) if k != topic)
        for word in trg:
            p *= word != language.pronoun.trg[1 - gender]
            p *= all(word not in w.trg or word == w.trg[topic] for w in language.ambiguous)
            p *= all(word != w.trg[1 - style] for w in language.names)
            p *= word != language.particles[1 - style]
        feature = {"pronoun": gender, "topic": topic, "name": style}[item.kind]
        mass[entries[item.word].trg[feature]] += p
    total = sum(mass.values())
    return {rendering: p / total for rendering, p in mass.items()}


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        SynthConfig(gender_prior=0.3, cue_accuracy=0.9, topics=5, far=2),
        SynthConfig(min_sentences=7, max_sentences=7, density=0.01),  # one item of each kind
    ],
)
def test_bounds_equal_brute_force_over_worlds(config: SynthConfig) -> None:
    language = build_language(config)
    for document, key in draw(12, config):
        sentences = [split_words(pair.src) for pair in document.pairs]
        source = list(chain.from_iterable(sentences))
        for item in key:
            others = [
                split_words(p.trg) for t, p in enumerate(document.pairs) if t != item.sentence
            ]
            seen = {
                "sentence": (sentences[item.sentence], []),
                "source": (source, []),
                "both": (source, list(chain.from_iterable(others))),
            }
            for information in INFORMATION:
                known = posterior(item, *seen[information], config, language)
                bound = item.bounds[information]
                assert isclose(bound.accuracy, max(known.values()))
                assert isclose(bound.accuracy, known[bound.guess])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("information", INFORMATION)
def test_best_guesses_do_as_well_as_their_bound(
    sample: list[tuple[SynthDocument, list[KeyItem]]], kind: str, information: str
) -> None:
    """Over many documents: mean within three deviations, and the deviation itself is true."""
    surplus, variances = [], []
    for _, key in sample:
        items = [item for item in key if item.kind == kind]
        bounds = [item.bounds[information] for item in items]
        hits = sum(b.guess == i.expected for i, b in zip(items, bounds, strict=True))
        surplus.append(hits - sum(bound.accuracy for bound in bounds))
        variances.append(sum(bound.variance for bound in bounds))
    expected = sum(variances)
    assert abs(sum(surplus)) <= 3 * sqrt(expected) + 1e-6
    realised = sum(value**2 for value in surplus)
    # The mean of 3000 squares; their own spread, estimated from the sample, gives the margin.
    spread = sqrt(sum((s**2 - v) ** 2 for s, v in zip(surplus, variances, strict=True)))
    assert abs(realised - expected) <= 3 * spread + 1e-6
    if expected > 1e-6:
        assert spread < 0.1 * expected  # else the check above could not fail


def test_deviation_counts_that_items_of_a_document_fall_together() -> None:
    for _, key in draw(20):
        pronouns = [item for item in key if item.kind == "pronoun"]
        assert isclose(expect(pronouns, "sentence")["accuracy"], 0.6)
        assert isclose(expect(pronouns, "sentence")["deviation"], sqrt(0.6 * 0.4))
        names = [item for item in key if item.kind == "name"]
        assert isclose(expect(names, "sentence")["deviation"], sqrt(0.75 * 0.25 / len(names)))
        p = expect(names, "source")["accuracy"]
        assert isclose(expect(names, "source")["deviation"], sqrt(p * (1 - p)))


def test_a_full_disk_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError) as caught:
        write_synth(tmp_path / "c", SynthConfig(train=1, dev=1, test=1))
    message = f"{tmp_path}/c/summary.json: cannot write: No space left on device; make room"
    assert str(caught.value).startswith(message)
    assert list((tmp_path / "c").iterdir()) == []


# ---------------------------------------------------------------- nothing leaks


def test_world_changes_only_the_words_meant_to_change() -> None:
    """One plan in every world: whatever does not tell is the same, so it can tell nothing."""
    worlds = [
        DocumentWorld(*values) for values in product(range(2), range(CONFIG.topics), range(2))
    ]
    rng = Random(5)
    for _ in range(40):
        plan = draw_plan(LANGUAGE, CONFIG, rng)
        versions = [realise(plan, world, LANGUAGE) for world in worlds]
        for t, sentence in enumerate(plan):
            src = [split_words(version[t].src) for version in versions]
            trg = [split_words(version[t].trg) for version in versions]
            assert len({len(tokens) for tokens in src}) == 1
            changing = {i for i, tokens in enumerate(zip(*src, strict=True)) if len({*tokens}) > 1}
            end = len(src[0])
            if isinstance(sentence, Clause):
                assert changing == {end - 1}  # the cue
                items = (sentence.subject, sentence.object, sentence.place)
                expected = sum(isinstance(part, Lexeme) for part in items)
                expected += 2 * isinstance(sentence.object, Lexeme)  # its two particles agree
                differing = sum(len({*tokens}) > 1 for tokens in zip(*trg, strict=True))
                assert differing == expected
            else:
                assert changing == {0, end - 2, end - 1}


def test_worlds_are_independent(sample: list[tuple[SynthDocument, list[KeyItem]]]) -> None:
    counts = Counter(
        (document.world.gender, document.world.topic, document.world.style)
        for document, _ in sample
    )
    chi_square = 0.0
    for gender, topic, style in product(range(2), range(CONFIG.topics), range(2)):
        expected = len(sample) * (0.6, 0.4)[gender] / CONFIG.topics / 2
        chi_square += (counts[gender, topic, style] - expected) ** 2 / expected
    assert chi_square < 37.7  # 15 degrees of freedom, p = 0.001


@pytest.mark.parametrize("kind", KINDS)
def test_no_feature_of_the_sentence_beats_the_bound(
    sample: list[tuple[SynthDocument, list[KeyItem]]], kind: str
) -> None:
    """What each feature of a sentence, beside the cue, predicts after counting other documents."""
    halves: list[dict[str, list[tuple[object, KeyItem]]]] = [defaultdict(list), defaultdict(list)]
    for number, (document, key) in enumerate(sample):
        for item in key:
            if item.kind != kind:
                continue
            tokens = split_words(document.pairs[item.sentence].src)
            features: dict[str, object] = dict.fromkeys(tokens)
            features["position"] = item.sentence
            features["from the end"] = len(document.pairs) - item.sentence
            features["document length"] = len(document.pairs)
            features["sentence length"] = len(tokens)
            features["items"] = len(key)
            # All names share their two styles, and all pronouns are one word; senses do not.
            word = item.word if kind == "topic" else None
            for name, value in features.items():
                halves[number % 2][name].append(((value, tokens[-1], word), item))
    for name, counted in halves[0].items():
        seen: dict[object, Counter[int]] = defaultdict(Counter)
        for value, item in counted:
            seen[value][item.renderings.index(item.expected)] += 1
        guess = {value: counts.most_common(1)[0][0] for value, counts in seen.items()}
        tested = [item for value, item in halves[1][name] if value in guess]
        hits = sum(
            item.renderings[guess[value]] == item.expected
            for value, item in halves[1][name]
            if value in guess
        )
        bounds = [item.bounds["sentence"] for item in tested]
        margin = 3.5 * sqrt(sum(bound.variance for bound in bounds))
        assert hits <= sum(bound.accuracy for bound in bounds) + margin, name


# ---------------------------------------------------------------- the files


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_files_are_complete_and_agree(tmp_path: Path) -> None:
    summary = write_synth(tmp_path / "new" / "corpus", SMALL)
    files = contents(tmp_path / "new" / "corpus")
    endings = ("src", "trg", "doc", "key.jsonl")
    contrastive = {"dev.contrastive.jsonl", "test.contrastive.jsonl"}
    assert set(files) == {
        *(f"{split}.{ending}" for split, ending in product(SPLITS, endings)),
        *contrastive,
        "summary.json",
    }
    assert json.loads(files["summary.json"]) == summary
    for split, count in zip(SPLITS, (8, 3, 4), strict=True):
        src, trg, doc = (files[f"{split}.{e}"].decode().splitlines() for e in endings[:3])
        assert len(src) == len(trg) == len(doc) == summary["splits"][split]["sentences"]
        assert len(set(doc)) == count == summary["splits"][split]["documents"]
        assert doc == sorted(doc)
        assert sum(len(split_words(line)) for line in trg) == summary["splits"][split]["trg_words"]
        key = [json.loads(line) for line in files[f"{split}.key.jsonl"].splitlines()]
        kinds = Counter(item["kind"] for item in key)
        for kind in KINDS:
            assert summary["splits"][split]["kinds"][kind]["items"] == kinds[kind]
        for item in key:
            assert doc[item["line"]] == item["document"]
            assert doc.index(item["document"]) == item["line"] - item["sentence"]
            assert item["lines"] == len(src)
            assert item["word"] in split_words(src[item["line"]])
            assert item["expected"] in split_words(trg[item["line"]])
            assert set(item["bounds"]) == set(INFORMATION)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_contrastive_sets_agree_with_their_keys(split: str, tmp_path: Path) -> None:
    write_synth(tmp_path, SMALL)
    key = read_key(tmp_path / f"{split}.key.jsonl")
    contrasts = read_contrastive(tmp_path / f"{split}.contrastive.jsonl")
    src, trg, doc = (
        (tmp_path / f"{split}.{e}").read_text().splitlines() for e in ("src", "trg", "doc")
    )
    assert len(contrasts) == len(key)
    for item, contrast in zip(key, contrasts, strict=True):
        here = [i for i, name in enumerate(doc) if name == item.document]
        assert contrast.source == tuple(src[i] for i in here)
        assert contrast.target == tuple(trg[i] for i in here)
        assert contrast.sentence == item.sentence
        assert contrast.kinds == (item.kind,)
        assert contrast.reference == trg[item.line]
        assert len(contrast.alternatives) == len(item.alternatives)


def test_alternatives_are_sentences_of_other_worlds(
    sample: list[tuple[SynthDocument, list[KeyItem]]],
) -> None:
    """Nothing but the word and, beside a name, its particles tells the world."""
    rules = Rules(LANGUAGE)
    features = {"pronoun": "gender", "topic": "topic", "name": "style"}
    for document, key in sample[:200]:
        for item, contrast in zip(key, make_contrasts(document, key, LANGUAGE), strict=True):
            reference = split_words(contrast["reference"])
            assert reference.count(item.expected) == 1
            values = range(CONFIG.topics if item.kind == "topic" else 2)
            worlds = [replace(document.world, **{features[item.kind]: v}) for v in values]
            possible = {rules.translate(document.pairs[item.sentence].src, w) for w in worlds}
            assert {contrast["reference"], *contrast["alternatives"]} == possible
            for text, word in zip(contrast["alternatives"], item.alternatives, strict=True):
                changed = [
                    (old, new)
                    for old, new in zip(reference, split_words(text), strict=True)
                    if old != new
                ]
                assert (item.expected, word) in changed
                assert len(changed) == (3 if item.kind == "name" else 1)


def test_same_configuration_gives_the_same_bytes(tmp_path: Path) -> None:
    write_synth(tmp_path / "a", SMALL)
    write_synth(tmp_path / "b", SMALL)
    write_synth(tmp_path / "other", replace(SMALL, seed=2))
    write_synth(tmp_path / "more", replace(SMALL, train=9))
    first = contents(tmp_path / "a")
    assert contents(tmp_path / "b") == first
    other = contents(tmp_path / "other")
    assert all(other[name] != first[name] for name in first if not name.endswith(".doc"))
    more = contents(tmp_path / "more")
    assert more["test.src"] == first["test.src"]
    assert more["train.src"].startswith(first["train.src"])


@pytest.mark.parametrize("language", ["", "en"])
def test_references_are_written_as_translators_write(
    language: str, sample: list[tuple[SynthDocument, list[KeyItem]]]
) -> None:
    """Token ids and back give the text itself, so that no metric counts spaces as errors."""
    vocabulary = WordVocabulary((), language)
    for document, _ in sample[:200]:
        for pair in document.pairs:
            for text in (pair.src, pair.trg):
                tokens = vocabulary.tokens(text)
                assert tokens == split_words(text)
                assert vocabulary.decode_tokens(tokens) == text


@pytest.mark.parametrize("other", [{"seed": 2}, {"train": 9}, {"format": "wholedoc-synth-1"}])
def test_another_corpus_is_not_overwritten_unasked(other: dict[str, Any], tmp_path: Path) -> None:
    if "format" in other:
        write_synth(tmp_path, SMALL)
        file = tmp_path / "summary.json"
        file.write_text(file.read_text().replace(FORMAT, other["format"]))
    else:
        write_synth(tmp_path, replace(SMALL, **other))
    before = contents(tmp_path)
    with pytest.raises(UserError, match="other settings; name another directory, or add --force"):
        write_synth(tmp_path, SMALL)
    assert contents(tmp_path) == before
    write_synth(tmp_path, SMALL, force=True)
    assert contents(tmp_path) != before


def test_overwrites_only_an_artificial_corpus(tmp_path: Path) -> None:
    write_synth(tmp_path, SMALL)
    (tmp_path / "test.src").write_text("spoilt\n")
    (tmp_path / "runs").mkdir()
    write_synth(tmp_path, SMALL)
    write_synth(tmp_path.with_name("fresh"), SMALL)
    (tmp_path / "runs").rmdir()
    assert contents(tmp_path) == contents(tmp_path.with_name("fresh"))


@pytest.mark.parametrize("summary", [None, "not json", "[]", '{"format": "other"}'])
def test_refuses_a_directory_of_something_else(tmp_path: Path, summary: str | None) -> None:
    (tmp_path / "train.src").write_text("mine\n")
    if summary is not None:
        (tmp_path / "summary.json").write_text(summary)
    before = contents(tmp_path)
    with pytest.raises(UserError, match="not an artificial corpus"):
        write_synth(tmp_path, SMALL)
    assert contents(tmp_path) == before


def test_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine\n")
    with pytest.raises(UserError, match="not a directory"):
        write_synth(tmp_path / "file", SMALL)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("train", 0),
        ("test", -1),
        ("nouns", 0),
        ("topics", 2),
        ("gender_prior", 1.0),
        ("cue_accuracy", 0.5),
        ("cue_accuracy", 1.0),
        ("density", 0.0),
        ("density", 1.1),
        ("far", 0),
        ("max_sentences", 5),
        ("min_sentences", 5),
    ],
)
def test_impossible_configurations_are_refused(field: str, value: float) -> None:
    with pytest.raises(UserError) as caught:
        replace(CONFIG, **{field: value})
    assert caught.value.where == f"synth.{field}"


def test_every_field_changes_the_corpus(tmp_path: Path) -> None:
    changes = {"seed": 7, "min_sentences": 7, "max_sentences": 9, "density": 0.9, "far": 1}
    changes |= {"gender_prior": 0.2, "cue_accuracy": 0.95, "topics": 5}
    write_synth(tmp_path / "plain", SMALL)
    for field in fields(SynthConfig):
        value = changes.get(field.name, getattr(SMALL, field.name) + 1)
        write_synth(tmp_path / field.name, replace(SMALL, **{field.name: value}))
        made, plain = contents(tmp_path / field.name), contents(tmp_path / "plain")
        assert any(made[f"{split}.src"] != plain[f"{split}.src"] for split in SPLITS), field.name


# ---------------------------------------------------------------- the documentation


def test_documented_sample_is_what_the_defaults_give() -> None:
    page = Path(__file__).parent.parent / "docs" / "artificial-corpus.md"
    text = page.read_text(encoding="utf-8").replace("*", "")
    rng = Random(f"{CONFIG.seed}/test")
    documents = [
        draw_document(f"test-{number:05d}", LANGUAGE, CONFIG, rng)
        for number in range(1, CONFIG.test + 1)
    ]
    sample = documents[36]
    assert f"`{sample.name}`" in text
    for t, pair in enumerate(sample.pairs):
        assert f"| {t} | {pair.src} | {pair.trg} |" in text
    for item in make_key(sample, 0, 99, CONFIG):
        guesses = [
            f"{bound.guess} {bound.accuracy:.3f}".replace("1.000", "1")
            for bound in item.bounds.values()
        ]
        others = ", ".join(item.alternatives)
        row = [str(item.sentence), item.kind, item.word, item.expected, others, *guesses]
        assert f"| {' | '.join(row)} |" in text
    key = [item for d in documents for item in make_key(d, 0, 99, CONFIG)]
    for kind in KINDS:
        items = [item for item in key if item.kind == kind]
        row = [kind, str(len(items))]
        assert f"| {' | '.join(row)} |" in text
        for information in INFORMATION:
            bound = expect(items, information)
            if bound["deviation"]:
                percent = f"{100 * bound['accuracy']:.1f} ± {100 * bound['deviation']:.1f} %"
                assert f"| {percent} |" in text
