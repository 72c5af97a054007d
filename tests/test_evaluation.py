"""Comparisons: scores over seeds, tests over sentences and documents, whatever is missing."""

import math
from itertools import chain

import pytest

from wholedoc.errors import UserError
from wholedoc.metrics import evaluation, scores
from wholedoc.metrics.evaluation import compare
from wholedoc.metrics.meteor import UnavailableError
from wholedoc.metrics.scores import Bleu, EvaluationSet, Metric, Ter
from wholedoc.metrics.significance import Pair, bootstrap, randomisation

REFERENCES = [f"the {word} is here and there" for word in "abcdefghijkl"]
DATA = EvaluationSet(REFERENCES, [2] * 6)
RIGHT = list(REFERENCES)
WORSE = [line.replace("here", "gone") for line in REFERENCES]
MIXED = list(chain.from_iterable(zip(RIGHT[::2], WORSE[1::2], strict=True)))


@pytest.fixture(autouse=True)
def few_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics that need no jar."""
    kept = {name: metric for name, metric in scores.METRICS.items() if name != "meteor"}
    monkeypatch.setattr(evaluation, "METRICS", kept)


def value(metric: Metric, output: list[str]) -> float:
    (statistics,) = metric.statistics([output])
    return float(metric.scores(statistics.sum(axis=0))[0])


def test_scores_are_means_and_deviations_over_seeds() -> None:
    found = compare(DATA, {"one": [MIXED, WORSE, RIGHT]}, trials=1).systems[0]
    values = [value(Ter(DATA), output) for output in (MIXED, WORSE, RIGHT)]
    mean = sum(values) / 3
    deviation = math.sqrt(sum((score - mean) ** 2 for score in values) / 2)
    assert found.seeds == 3
    assert found.values["ter"].mean == pytest.approx(mean)
    assert found.values["ter"].deviation == pytest.approx(deviation)
    assert found.tested is None


def test_one_seed_has_no_deviation() -> None:
    found = compare(DATA, {"one": [MIXED]}, trials=1)
    assert found.systems[0].values["bleu"].deviation is None
    assert found.systems[0].values["bleu"].mean == pytest.approx(value(Bleu(DATA), MIXED))
    assert found.notes == []


def test_the_first_system_is_the_baseline_unless_named() -> None:
    systems = {"one": [MIXED], "two": [WORSE], "three": [RIGHT]}
    assert compare(DATA, systems, trials=1).baseline == "one"
    found = compare(DATA, systems, "two", trials=1)
    assert [system.tested is None for system in found.systems] == [False, True, False]
    with pytest.raises(UserError, match="there is no system 'four'"):
        compare(DATA, systems, "four", trials=1)


def test_p_values_are_those_of_the_mean_statistics_of_each_unit() -> None:
    found = compare(DATA, {"base": [WORSE], "new": [MIXED, RIGHT]}, trials=300, seed=4)
    metric = Ter(DATA)
    base, one, two = metric.statistics([WORSE, MIXED, RIGHT])
    mean = (one + two) / 2
    assert found.systems[1].tested is not None
    p_values = found.systems[1].tested["ter"].p_values
    by_sentence = Pair(mean, base, metric.scores)
    documents = [rows.reshape(6, 2, -1).sum(axis=1) for rows in (mean, base)]
    by_document = Pair(documents[0], documents[1], metric.scores)
    for name, test in (("randomisation", randomisation), ("bootstrap", bootstrap)):
        for unit, pair in (("sentence", by_sentence), ("document", by_document)):
            ((expected,),) = test([pair], 300, 4)
            assert p_values[name][unit] == expected  # type: ignore[index]


def test_the_same_twice() -> None:
    systems = {"base": [WORSE], "new": [MIXED]}
    first = compare(DATA, systems, trials=100, seed=3).to_json()
    assert compare(DATA, systems, trials=100, seed=3).to_json() == first
    assert compare(DATA, systems, trials=100, seed=4).to_json() != first


def test_a_system_equal_to_the_baseline() -> None:
    found = compare(DATA, {"base": [MIXED], "same": [list(MIXED)]}, trials=50).systems[1]
    assert found.tested is not None
    for tested in found.tested.values():
        assert tested.difference == 0
        values = [p for units in tested.p_values.values() for p in units.values() if p is not None]
        assert set(values) == {1.0}


def test_what_cannot_be_computed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Bleu):
        names = ("broken", "broken2")

        def __init__(self, _: EvaluationSet) -> None:
            raise UnavailableError("no such luck")

    monkeypatch.setattr(evaluation, "METRICS", {"bleu": Bleu, "broken": Broken, "ter": Ter})
    systems = {"base": [WORSE], "new": [MIXED]}
    found = compare(DATA, systems, trials=10, without=["ter"]).to_json()
    reasons = {"broken": "no such luck", "broken2": "no such luck", "ter": "left out as asked"}
    for system in found["systems"]:
        assert system["missing"] == reasons
        assert system["scores"]["broken2"] is None
        assert system["scores"]["bleu"] is not None
    assert "broken" not in found["systems"][1]["against"]


@pytest.mark.parametrize(
    ("documents", "noted"),
    [
        ([12], "no test over documents: there is only one document"),
        ([6, 6], "only 2 documents: no test over them can tell"),
        ([2] * 6, "only 6 documents: the bootstrap over them rejects too often"),
        ([1] * 36, None),
    ],
)
def test_notes_on_documents(documents: list[int], noted: str | None) -> None:
    times = sum(documents) // len(REFERENCES)
    data = EvaluationSet(REFERENCES * times, documents)
    notes = compare(data, {"base": [WORSE * times], "new": [MIXED * times]}, trials=10).notes
    found = [note for note in notes if "documents: " in note]
    assert len(found) == (noted is not None)
    assert noted is None or found[0].startswith(noted)
    assert "no test over sentences for document_bleu: counted by document" in notes


def test_no_note_on_measures_of_documents_where_there_are_none() -> None:
    systems = {"base": [WORSE], "new": [MIXED]}
    notes = compare(DATA, systems, trials=10, without=["document_bleu"]).notes
    assert not any("counted by document" in note for note in notes)


def test_outputs_have_a_line_for_each_reference() -> None:
    with pytest.raises(UserError, match="has 11 translations of 12 sentences"):
        compare(DATA, {"base": [WORSE], "new": [MIXED[1:]]}, trials=10)


def test_languages_that_are_not_known_are_said() -> None:
    def notes(src_lang: str, lang: str) -> list[str]:
        data = EvaluationSet(REFERENCES, [12], None, lang, src_lang)
        return list(compare(data, {"one": [MIXED]}, trials=1).notes)

    assert notes("et", "en") == notes("", "en") == []
    written = "lemmas (words are compared as written) and no table of pronouns"
    assert notes("tlh", "fi") == [
        f"language 'tlh' has no {written}",
        "language 'fi' has no table of pronouns",
    ]
