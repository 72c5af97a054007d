"""Glossaries: what is read, what is found, and translations that have it."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import document_config

from wholedoc.config import SearchConfig
from wholedoc.corpus.glossary import Glossary, Words
from wholedoc.corpus.vocabulary import BOS, EOS, PAD, SubwordVocabulary, WordVocabulary
from wholedoc.decoding.constraints import (
    Constraint,
    Enforcer,
    Form,
    Requirement,
    Rules,
    Standing,
    search_constrained,
)
from wholedoc.decoding.document import DocumentTranslation
from wholedoc.decoding.predictor import Predictor
from wholedoc.decoding.translator import Knowledge, Translator
from wholedoc.errors import UserError
from wholedoc.model.memory import Readings
from wholedoc.store.shortlist import Shortlist
from wholedoc.training.stages import train

# What is found


@pytest.mark.parametrize(
    ("terms", "sentence", "found"),
    [
        (["Haus"], "Die Häuser stehen.", ["Häuser"]),
        (["Dokument"], "Der Titel des Dokuments.", ["Dokuments"]),
        (["Dialogfeld"], "in allen Dialogfeldern", ["Dialogfeldern"]),
        (["haus"], "HAUS und Haus", ["HAUS", "Haus"]),
        (["Haus"], "Haustür, Hochhaus", []),
        (["Haus"], "Haus-Tür", ["Haus"]),
        (["neues Dokument", "Dokument"], "Ein neues Dokument.", ["neues Dokument"]),
        (["neues Dokument"], "neuer Dokumente", ["neuer Dokumente"]),
        (["a b", "b c d"], "a b c d", ["b c d"]),
        (["IT"], "it geht um IT", ["IT"]),
        (["C++"], "in C++ und C", ["C++"]),
        (["%s"], "Datei %s hier", ["%s"]),
        (["Haus"], "", []),
        (["Käse"], "Ka\u0308se", ["Ka\u0308se"]),
    ],
)
def test_terms_are_found(terms: list[str], sentence: str, found: list[str]) -> None:
    glossary = Glossary.of([(term, "x") for term in terms], "de", "en")
    assert [sentence[each.start : each.end] for each in glossary.find(sentence)] == found


def test_a_target_in_capitals_is_no_other_word() -> None:
    words = Words("en")
    for term, sentence in (("IT", "We think it is good."), ("WHO", "the man who came")):
        assert words.locate(term, words.split(sentence)) == []
        assert Glossary.of([("x", term)], "de", "en").forms == {term: ()}
    assert words.locate("API", words.split("All APIs, an API")) == [(1, 2), (4, 5)]


@pytest.mark.parametrize("header", ["source\ttarget", "Source\tTarget", "# mine\n\nSOURCE\tTarget"])
def test_a_header_is_no_term(header: str) -> None:
    glossary = Glossary.parse(f"{header}\nHaus\thouse\nsource\ttarget\n".encode(), "de", "en")
    assert [entry.source for entry in glossary.entries] == ["Haus", "source"]


def test_a_form_of_its_own_goes_before_another() -> None:
    glossary = Glossary.of([("Haus", "house"), ("Häuser", "houses")], "de-AT", "en")
    assert [each.entry.target for each in glossary.find("Häuser und Haus")] == ["houses", "house"]


def test_an_unknown_language_has_its_forms_alone() -> None:
    glossary = Glossary.of([("Haus", "house")], "xx", "yy")
    assert len(glossary.find("haus Häuser")) == 1
    assert glossary.forms == {"house": ()}


@pytest.mark.parametrize(
    ("term", "sentence", "found"),
    [
        ("Druck", "Sie können das Dokument drucken.", ""),
        ("Druck", "Drucken Sie das Dokument.", ""),
        ("Druck", "Der Druck steigt.", "Druck"),
        ("Drücke", "Der Druck steigt.", "Druck"),
        ("Start", "Starten Sie neu.", ""),
        ("Teil", "Teilen Sie den Ordner.", ""),
        ("Teil", "Mit allen Teilen geliefert.", "Teilen"),
        ("Weg", "Das Fenster ist weg.", ""),
        ("Weg", "WEG", "WEG"),
        ("Datei", "alle dateien", "dateien"),
        ("speichern", "Speichern Sie die Datei.", "Speichern"),
        ("Speichern", "Das Dokument speichern", "speichern"),
        ("Grafische Oberfläche", "die grafische Oberfläche", "grafische Oberfläche"),
    ],
)
def test_german_nouns_are_no_verbs(term: str, sentence: str, found: str) -> None:
    matches = Glossary.of([(term, "x")], "de", "en").find(sentence)
    assert [sentence[match.start : match.end] for match in matches] == [found] * bool(found)


def test_a_noun_and_a_verb_are_two_terms() -> None:
    glossary = Glossary.of([("Essen", "food"), ("essen", "eat")], "de", "en")
    (food,), (eat,) = glossary.find("Das Essen"), glossary.find("Wir essen")
    assert (food.entry.target, eat.entry.target) == ("food", "eat")


def test_spreadsheets_quote_columns_and_name_languages() -> None:
    lines = b'de\tEN-US\n"Datei"\t"file"\n"Soll ""X"""\t"the ""X"""\n'
    found = Glossary.parse(lines, "de", "en").entries
    assert [entry[:2] for entry in found] == [("Datei", "file"), ('Soll "X"', 'the "X"')]


def test_terms_that_are_not_to_be_used_are_left_out() -> None:
    def term(text: str, status: str) -> str:
        note = f'<termNote type="administrativeStatus">{status}</termNote>'
        return f"<tig><term>{text}</term>{note}</tig>"

    german = term("Knopf", "deprecatedTerm-admn-sts") + term("Taste", "preferredTerm-admn-sts")
    english = term("push knob", "supersededTerm-admn-sts") + term("key", "admittedTerm-admn-sts")
    english += term("button", "preferredTerm-admn-sts")
    concept = f'<langSet xml:lang="de">{german}</langSet><langSet xml:lang="en">{english}</langSet>'
    data = f"<martif><termEntry>{concept}</termEntry></martif>".encode()
    assert [entry[:2] for entry in Glossary.parse(data, "de", "en").entries] == [
        ("Taste", "button")
    ]


@pytest.mark.parametrize(
    ("sentence", "translation"),
    [
        ("Waschtrockner", "Washer-dryer"),
        ("waschtrockner", "washer-dryer"),
        ("Waschtrockner: ", "Washer-dryer:"),
        ("Waschtrockners", None),  # a form that the glossary does not have
        ("Der Waschtrockner", None),
        ("Waschtrockner Waschtrockner", None),
        ("", None),
        (":", None),
    ],
)
def test_a_sentence_that_is_a_term(sentence: str, translation: str | None) -> None:
    found = Glossary.of([("Waschtrockner", "washer-dryer")], "de", "en")
    assert found.translate_term(sentence) == translation


def test_other_forms_of_a_target() -> None:
    glossary = Glossary.of([("Schaltfläche", "push button"), ("Haus", "Box")], "de", "en")
    assert "push buttons" in glossary.forms["push button"]
    assert "Boxes" in glossary.forms["Box"]


# What is read

TBX_2 = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="c1">
 <langSet xml:lang="de-DE"><tig><term>Schaltfläche</term></tig>
  <ntig><termGrp><term>Button</term></termGrp></ntig></langSet>
 <langSet xml:lang="en"><tig><term>push
   button</term></tig><tig><term>knob</term></tig></langSet>
</termEntry>
<termEntry id="c2"><langSet xml:lang="de"><tig><term>Nur</term></tig></langSet></termEntry>
</body></text></martif>"""
TBX_3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" style="dca" type="TBX-Basic" xml:lang="en">
<text><body><conceptEntry id="1">
 <langSec xml:lang="fr"><termSec><term>bouton</term></termSec></langSec>
 <langSec xml:lang="en-GB"><termSec><term>push button</term></termSec></langSec>
 <langSec xml:lang="de"><termSec><term>Schaltfläche</term></termSec>
  <termSec><term>Button</term></termSec></langSec>
</conceptEntry></body></text></tbx>"""


@pytest.mark.parametrize("text", [TBX_2, TBX_3], ids=["2", "3"])
def test_tbx(text: str, tmp_path: Path) -> None:
    file = tmp_path / "terms.tbx"
    file.write_text(text, encoding="utf-8")
    found = [(entry.source, entry.target) for entry in Glossary.read(file, "de", "en").entries]
    assert found == [("Schaltfläche", "push button"), ("Button", "push button")]


def test_lines(tmp_path: Path) -> None:
    file = tmp_path / "terms.tsv"
    text = "\ufeffsource\ttarget\n# a remark\n\nHaus\thouse\tnoun\r\n Tür \t door\nHaus\thouse\n"
    file.write_text(text, encoding="utf-8", newline="")
    found = Glossary.read(str(file), "de", "en").entries
    assert [tuple(entry) for entry in found] == [("Haus", "house", 4), ("Tür", "door", 5)]


ENTITY = '<!DOCTYPE martif [<!ENTITY a "b">]><martif><term>&a;</term></martif>'


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Haus house\n", ":1: a line without a tab; write source<TAB>target"),
        (b"# x\n\thouse\n", ":2: the source term is empty"),
        (b"Haus\t \n", ":1: the target term is empty"),
        (b"Haus\thouse\nx\ty\nhaus\thome\n", ":3: 'haus' becomes 'home' here, but 'house' at"),
        (b"Haus\thouse\nT\xfcr\tdoor\n", ":2: invalid UTF-8"),
        (b"", "the file is empty"),
        (b"<martif><text>\n</martif>", ":2: not XML"),
        (b"<martif/>", "no concept has terms in de and en (languages: none)"),
        (TBX_3.replace('"de"', '"et"').encode(), "(languages: en-GB, et, fr)"),
        (ENTITY.encode(), "entities are not accepted"),
    ],
)
def test_bad_glossaries(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "terms"
    file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        Glossary.read(file, "de", "en")
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_a_contradiction_names_both_lines(tmp_path: Path) -> None:
    file = tmp_path / "terms"
    file.write_text("Haus\thouse\nx\ty\nhaus\thome\n", encoding="utf-8")
    with pytest.raises(UserError) as caught:
        Glossary.read(file, "de", "en")
    assert f"{file}:1" in str(caught.value)
    assert f"{file}:3" in str(caught.value)


# What counts as met


@pytest.mark.parametrize(
    ("wanted", "text", "met"),
    [
        ([Requirement("push button")], "Click the Push Buttons.", [True]),
        ([Requirement("button")], "a buttonhole", [False]),
        ([Requirement("button"), Requirement("push button")], "a push button", [False, True]),
        ([Requirement("box"), Requirement("box")], "one box", [True, False]),
        ([Requirement("%s", literal=True)], "file%s", [True]),
        ([Requirement("%S", literal=True)], "file %s", [False]),
    ],
)
def test_what_is_met(wanted: list[Requirement], text: str, met: list[bool]) -> None:
    enforcer = Enforcer(WordVocabulary([], "en"), "en")
    assert [span is not None for span in enforcer.locate(wanted, text)] == met


def test_a_word_that_goes_on_is_not_met() -> None:
    one = Constraint((Form((4, 5), "anywhere"), Form((4, 5, 6), "anywhere")))
    inside = [False, False, False, False, False, True, True, True, False]
    rules = Rules([one], inside, [False] * 9)

    def follow(*tokens: int) -> Standing:
        standing, last = Standing(), None
        for token in tokens:
            standing, last = rules.follow(standing, token, last), token
        return standing

    assert [rules.bank(follow(*[4, 5, 6][:n])) for n in range(4)] == [0, 1, 3, 3]
    assert rules.bank(follow(4, 5, 7)) == 0  # the word goes on
    assert rules.bank(follow(4, 5, 8)) == 3
    assert rules.bank(follow(4, 8, 5)) == 0
    assert rules.bank(follow(4, 4, 5)) == 3


# Search in banks


def log_probabilities(predictor: Predictor, src: list[int], tokens: tuple[int, ...]) -> list[float]:
    state, sentences = predictor.start(torch.tensor([src]), torch.tensor([len(src)]), None)
    for word in (BOS, *tokens):
        state, logits, _, _ = predictor.step(state, torch.tensor([word]), sentences)
    found: list[float] = torch.log_softmax(logits[0], dim=-1).tolist()
    return found[: len(predictor.words)]


@torch.inference_mode()
def reference_search(
    predictor: Predictor, src: list[int], rules: Rules, beam: int, rows: int, cap: int
) -> tuple[tuple[int, ...], float]:
    """Search in banks without any of the shortcuts: every token of every row, one by one."""
    live, done = [(0.0, (), Standing())], []
    for step in range(cap + 1):
        banks: dict[int, list[tuple[float, tuple[int, ...], Standing]]] = {}
        for score, tokens, standing in live:
            for token, found in enumerate(log_probabilities(predictor, src, tokens)):
                ends, last = token == EOS, tokens[-1] if tokens else None
                may_end = rules.bank(standing) == rules.total
                if token in (PAD, BOS) or not (may_end if ends else step < cap):
                    continue
                after = standing if ends else rules.follow(standing, token, last)
                banks.setdefault(rules.bank(after), []).append(
                    (score + found, (*tokens, token), after)
                )
        ranked = [sorted(banks[bank], key=lambda item: -item[0]) for bank in sorted(banks)]
        done += [
            (i[0] / (step + 1), i[1][:-1]) for b in ranked for i in b[:beam] if i[1][-1] == EOS
        ]
        live = [item for b in ranked for item in [i for i in b if i[1][-1] != EOS][:rows]]
        if len(done) >= beam:
            break
    score, best = max(done)
    return best, score


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_banks_equal_a_plain_search(make_model, beam: int, seed: int) -> None:
    predictor = Predictor(make_model(seed=seed + 1))
    forms = (
        (Form((4, 5), "anywhere"), Form((6,), "start")),
        (Form((7,), "open"), Form((8, 4), "anywhere")),
    )
    rules = Rules([Constraint(form) for form in forms], [False, True] * 5, [True, False, False] * 3)
    config = SearchConfig(beam=beam, max_length_extra=4, max_length_factor=1.0)
    src = [5, 7, 9, EOS]
    [best, *_] = search_constrained(predictor, src, rules, config)
    tokens, score = reference_search(predictor, src, rules, beam, max(beam, 2), 7)
    assert best.tokens == tokens
    assert best.score == pytest.approx(score, abs=1e-9)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_whatever_is_required_comes_out(make_model, data: st.DataObject) -> None:
    predictor = Predictor(make_model())
    terms = data.draw(
        st.lists(st.lists(st.integers(4, 8), min_size=1, max_size=3), min_size=1, max_size=3)
    )
    rules = Rules(
        [Constraint((Form(tuple(t), "anywhere"),)) for t in terms], [False] * 9, [True] * 9
    )
    config = SearchConfig(beam=data.draw(st.sampled_from([1, 4])), max_length_extra=12)
    [best] = search_constrained(predictor, [5, 7, EOS], rules, config)
    assert has_all(best.tokens, terms)


def has_all(tokens: tuple[int, ...], terms: list[list[int]]) -> bool:
    """Whether some order of the terms stands in the tokens, none in another."""

    def stands(order: tuple[list[int], ...]) -> bool:
        at = 0
        for term in order:
            places = (i for i in range(at, len(tokens)) if list(tokens[i : i + len(term)]) == term)
            if (place := next(places, None)) is None:
                return False
            at = place + len(term)
        return True

    return any(map(stands, itertools.permutations(terms)))


def test_what_does_not_fit_is_not_found(make_model) -> None:
    rules = Rules([Constraint((Form((4,) * 9, "anywhere"),))], [False] * 9, [True] * 9)
    config = SearchConfig(max_length_factor=1.0, max_length_extra=5)
    assert search_constrained(Predictor(make_model()), [5, EOS], rules, config) == []


def test_a_shortlist_does_not_stand_in_the_way(make_model) -> None:
    shortlist = Shortlist(torch.tensor([5]), torch.tensor([5]), torch.tensor([6]), (11, 9))
    predictor = Predictor(make_model(), shortlist=shortlist)
    rules = Rules([Constraint((Form((8, 7), "anywhere"),))], [False] * 9, [True] * 9)
    [best] = search_constrained(predictor, [5, EOS], rules, SearchConfig())
    assert has_all(best.tokens, [[8, 7]])
    assert set(best.tokens) <= {1, 5, 6, 7, 8}


def test_forms_of_subwords() -> None:
    lines = ["Click the push button (push) now.", "Push buttons are here, buttons there."] * 50
    vocabulary = SubwordVocabulary.train(lines, 310)
    forms = Enforcer(vocabulary, "en")._forms(["push"], literal=False)
    texts = {form.place: vocabulary.decode(form.tokens) for form in forms}
    assert texts["anywhere"] == "push"
    assert texts.get("start", "Push") == "Push"
    inside, after = Enforcer(vocabulary, "en")._edges
    for token, name in enumerate(vocabulary.to_tokens(range(len(vocabulary)))):
        assert inside[token] == (name[0].isalnum() or name.startswith("<0x"))
        assert after[token] == (name[-1] != ">" and not name[-1].isalnum())


# Translation


def glossary(*terms: tuple[str, str]) -> Glossary:
    return Glossary.of(terms, "de", "en")


@pytest.fixture(scope="module")
def toy(learned_toy: Path) -> Translator:
    return Translator.load(learned_toy)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    ("source", "target", "expected", "state"),
    [
        ("s1", "t5", "t2 t5 t3", "enforced"),
        ("s1", "t1", "t2 t1 t3", "kept"),
        ("s9", "t5", "t2 t1 t3", None),
        ("s1", "unheard-of", "t2 t1 t3", "missing"),
    ],
)
def test_a_term_is_enforced_and_nothing_else_changes(
    toy: Translator, beam: int, source: str, target: str, expected: str, state: str | None
) -> None:
    search = SearchConfig(beam=beam)
    found = toy.translate(["s2 s1 s3"], search, glossary=glossary((source, target)))
    assert found.sentences == [expected]
    assert [term.state for term in found.terms[0]] == ([state] if state else [])


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    ("terms", "sentence"),
    [
        ([("s1", "t5"), ("s3", "t8")], "s2 s1 s3"),
        ([("s2 s1", "t7 t9 t0")], "s2 s1 s3"),
        ([("s1", "t5")], "s1 s4 s1"),
        ([("s1", "t5"), ("s2", "unheard-of")], "s2 s1"),
    ],
)
def test_several_terms_and_terms_of_several_words(
    toy: Translator, beam: int, terms: list[tuple[str, str]], sentence: str
) -> None:
    found = toy.translate([sentence], SearchConfig(beam=beam), glossary=glossary(*terms))
    wanted = [term.target for term in found.terms[0] if term.state != "missing"]
    assert sorted({term.target for term in found.terms[0]}) == sorted(dict(terms).values())
    assert [term.target for term in found.terms[0] if term.state == "missing"] == [
        target for _, target in terms if target == "unheard-of"
    ]
    ids = [toy.trg_vocabulary.encode(term) for term in wanted]
    assert has_all(tuple(toy.trg_vocabulary.encode(found.sentences[0])), ids)


TEXTS = ["s2 s1 s3", "s4", "", "s1 s3", "s8 s6 s7 s1 s11", "s9 s10"]


@pytest.mark.parametrize("int8", [False, True])
def test_a_batch_is_as_its_sentences(learned_toy: Path, int8: bool) -> None:
    toy, terms = Translator.load(learned_toy, int8=int8), glossary(("s1", "t5"), ("s4", "t4"))
    together = toy.translate(TEXTS, glossary=terms)
    alone = [toy.translate([text], glossary=terms) for text in TEXTS]
    plain = toy.translate(TEXTS)
    assert together.sentences == [each.sentences[0] for each in alone]
    assert together.terms == [each.terms[0] for each in alone]
    for t, terms_of in enumerate(together.terms):
        changed = any(term.state == "enforced" for term in terms_of)
        assert (together.sentences[t] != plain.sentences[t]) == changed
        assert changed == ("s1" in TEXTS[t].split())


def test_without_terms_nothing_changes(toy: Translator) -> None:
    plain, found = toy.translate(TEXTS), toy.translate(TEXTS, glossary=glossary(("x", "y")))
    assert "terms" not in plain.to_dict()
    assert plain.terms == [[] for _ in TEXTS]
    values = found.to_dict()
    assert values.pop("terms") == [[] for _ in TEXTS]
    assert json.dumps(values) == json.dumps(plain.to_dict())


def test_values_and_several_translations(toy: Translator) -> None:
    found = toy.translate(["s2 s1 s3"], SearchConfig(beam=4), 3, glossary=glossary(("s1", "t5")))
    term = {"source": "s1", "target": "t5", "start": 3, "end": 5, "state": "enforced"}
    assert found.to_dict()["terms"] == [[term]]
    assert 1 <= len(found.candidates[0]) <= 3
    assert all("t5" in each.text.split() for each in found.candidates[0])


def test_what_people_have_approved_stays(toy: Translator) -> None:
    terms = glossary(("s1", "t5"), ("s4", "t7"))
    found = toy.translate(
        ["s1 s2", "s1", "s2 s4 s3"], approved={0: "my own", 1: "T5!"}, glossary=terms
    )
    assert found.sentences[:2] == ["my own", "T5!"]
    assert [[term.state for term in each] for each in found.terms] == [
        ["missing"], ["kept"], ["enforced"]
    ]  # fmt: skip
    again = toy.approve(found, 2, "t2 t7 t3")
    assert [[term.state for term in each] for each in again.terms] == [
        ["missing"], ["kept"], ["kept"]
    ]  # fmt: skip
    assert found.after(2).terms == found.terms[2:]


def test_a_sentence_that_is_a_term_becomes_its_target(toy: Translator) -> None:
    terms = glossary(("s1", "unheard-of"))
    found = toy.translate(["s1", "s2 s1"], glossary=terms)
    assert found.sentences == ["unheard-of", "t2 t1"]
    assert [[term.state for term in each] for each in found.terms] == [["kept"], ["missing"]]
    assert toy.change_glossary(found, None).sentences == ["t1", "t2 t1"]
    assert toy.change_glossary(toy.translate(["s1"]), terms).sentences == ["unheard-of"]


def test_a_glossary_may_be_given_by_its_path(toy: Translator, tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("s1\tunheard-of\n", encoding="utf-8")
    found = toy.change_glossary(toy.translate(["s1"]), tmp_path / "terms")
    assert found == toy.translate(["s1"], glossary=tmp_path / "terms")
    assert found.sentences == ["unheard-of"]


def test_terms_inside_addresses_are_none(toy: Translator) -> None:
    text = "s1 https://x.example/s2/index.html {s2}"
    terms = glossary(("s2", "unheard-of"), ("{s2}", "{s3}"))
    found = toy.translate([text], glossary=terms)
    assert [term.source for term in found.terms[0]] == ["{s2}"]
    assert "unheard-of" not in found.sentences[0]


def test_long_sentences_in_pieces(toy: Translator) -> None:
    search = SearchConfig(beam=2, sentence_tokens=4, piece_tokens=4)
    text = "s2 s3 s4 s1 s6 s7 s1"
    found = toy.translate([text], search, glossary=glossary(("s1", "t5")))
    assert found.pieces[0] > 1
    assert [text[term.start : term.end] for term in found.terms[0]] == ["s1", "s1"]
    assert [term.state for term in found.terms[0]] == ["enforced"] * 2
    assert found.sentences[0].split().count("t5") == 2


@pytest.mark.parametrize("order", ["parallel", "sequential"])
def test_a_document_model(tmp_path_factory: pytest.TempPathFactory, order: str) -> None:
    directory = tmp_path_factory.mktemp("document")
    model = Translator.load(train(document_config(directory), directory / "run").directory)
    search = replace(model.config.search, order=order, passes=2)
    plain, terms = model.translate(TEXTS, search), glossary(("s1", "t5 t6"))
    found = model.translate(TEXTS, search, glossary=terms)
    for text, sentence, of_sentence in zip(TEXTS, found.sentences, found.terms, strict=True):
        assert [term.state for term in of_sentence] == ["enforced"] * text.split().count("s1")
        assert ("t5 t6" in sentence) == bool(of_sentence)
    assert all("t5 t6" in sentences[0] for sentences in found.history)
    none = model.translate(TEXTS, search, glossary=glossary(("x", "y")))
    assert none.history == plain.history
    assert model.translate(TEXTS, search, glossary=terms).history == found.history


def test_a_second_search_reads_what_its_sentence_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a batch of sentences, each is given its own readings of the pass."""
    model = Translator.load(train(document_config(tmp_path), tmp_path / "run").directory)
    pass_readings, searched = [], []
    read, search = DocumentTranslation.read, Enforcer.search

    def remember(self: DocumentTranslation, *args: Any) -> Readings:
        pass_readings.append(read(self, *args))
        return pass_readings[-1]

    def spy(self: Enforcer, predictor: Predictor, src: list[int], *args: Any) -> Any:
        searched.append((src, args[4]))
        return search(self, predictor, src, *args)

    monkeypatch.setattr(DocumentTranslation, "read", remember)
    monkeypatch.setattr(Enforcer, "search", spy)
    terms = Knowledge(glossary=glossary(("s1", "t5 t6")))
    model.translate_documents([TEXTS], measure=False, known=terms)
    sources = [model._preparer.encode_source(text) for text in TEXTS]
    with_readings = [(sources.index(src), found) for src, found in searched if found is not None]
    assert len(with_readings) == 3
    for t, found in with_readings:
        assert torch.equal(found.trg[0], pass_readings[0].trg[t])
        assert torch.equal(found.src[0], pass_readings[0].src[t])


# The command line


def wholedoc(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wholedoc", *arguments]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)


def test_command_line(learned_toy: Path, tmp_path: Path) -> None:
    (tmp_path / "terms.tsv").write_text("s1\tt5\ns2\tunheard\ns4\tt4\n", encoding="utf-8")
    (tmp_path / "text").write_text("s4\ns2 s1 s3\n", encoding="utf-8")
    (tmp_path / "text.md").write_text("# s4\n\ns2 **s1** s3\n", encoding="utf-8")
    counts = "terms of the glossary: 3 found, 1 kept, 1 enforced, 1 missing\n"
    done = wholedoc(tmp_path, "translate", str(learned_toy), "text", "--glossary", "terms.tsv")
    assert done.stdout == "t4\nt2 t5 t3\n"
    assert f"{counts}missing in line 2: s2 → unheard\n" in done.stderr
    done = wholedoc(tmp_path, "translate", str(learned_toy), "text.md", "--glossary", "terms.tsv")
    assert "t5" in done.stdout
    assert f"{counts}missing in sentence 2: s2 → unheard\n" in done.stderr
    done = wholedoc(tmp_path, "translate", str(learned_toy), "text", "--glossary", "none.tsv")
    assert done.returncode == 2
    assert "none.tsv: no such file" in done.stderr
