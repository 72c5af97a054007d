"""Effort saved and bands of matches, against values computed by hand."""

import math

import numpy as np
import pytest

from wholedoc.metrics.bands import BANDS, band_of, split_bands
from wholedoc.metrics.effort import Characters, effort_rate, saved_share, sum_places
from wholedoc.metrics.evaluation import count_systems
from wholedoc.metrics.scores import EvaluationSet, corpus_bleu

REFERENCES = ["the cat sat", "on mats", "a b c d e f g h i j"]


def test_characters_to_change() -> None:
    metric = Characters(EvaluationSet(REFERENCES, [3]))
    one, two = metric.statistics([["the cat sat", "in mat", ""], ["he cat sits", "mats", "a"]])
    # in → on and the s that lacks; all 19 of the third.
    assert one.tolist() == [[0, 11], [2, 7], [19, 19]]
    # The t that lacks, sat → sits: one changed, one more; "on " lacks; 18 lack.
    assert two.tolist() == [[3, 11], [3, 7], [18, 19]]
    assert metric.scores(one.sum(axis=0)).tolist() == [pytest.approx(100 * 21 / 37)]


def test_effort_is_saved_against_a_baseline() -> None:
    system, baseline = np.array([6.0, 50.0]), np.array([24.0, 50.0])
    assert effort_rate(system) == 12
    assert saved_share(system, baseline) == 75
    assert saved_share(baseline, system) == -300
    nothing = np.zeros(2)
    assert math.isnan(saved_share(nothing, nothing))
    assert math.isnan(effort_rate(nothing))


def test_effort_by_the_place_in_the_document() -> None:
    """Documents of 7, 1 and 42 sentences: each sentence counts its place."""
    sizes = [7, 1, 42]
    places = [t for size in sizes for t in range(1, size + 1)]
    statistics = np.array([[1, place] for place in places], dtype=np.float64)
    found = {name: sums.tolist() for name, sums in sum_places(statistics, sizes).items()}
    assert found == {
        "1–5": [11, 15 + 1 + 15],
        "6–10": [7, 13 + 40],
        "11–20": [10, 155],
        "21–40": [20, 610],
        "41+": [2, 83],
    }
    assert list(sum_places(statistics[:7], [7])) == ["1–5", "6–10"]
    with pytest.raises(ValueError, match="one document"):
        sum_places(statistics, [7, 1])


def test_bands_of_matches() -> None:
    assert [band_of(score) for score in (101, 100, 99, 95, 94, 85, 84, 75, 74, 50, 49, 0)] == [
        *("100", "100", "95–99", "95–99", "85–94", "85–94"),
        *("75–84", "75–84", "50–74", "50–74", "under 50", "under 50"),
    ]
    found = split_bands([101, 30, 84, 100])
    assert found == {name: [] for name in BANDS} | {"100": [0, 3], "under 50": [1], "75–84": [2]}


def test_scores_among_some_sentences() -> None:
    """What a band reaches is what its sentences reach by themselves."""
    references = ["the cat sat on the mat", "a dog ran", "it rains in the north today"]
    output = ["the cat sat on a mat", "a dog", "it rains in the south today"]
    counts = count_systems(EvaluationSet(references, [1, 2]), {"x": [output]}, {"meteor"})
    found = counts.values_among("x", [0, 2])
    whole = corpus_bleu([output[0], output[2]], [references[0], references[2]])
    assert found["bleu"].mean == pytest.approx(whole.value)
    assert found["ter"].mean == pytest.approx(100 * 2 / 12)
    assert "document_bleu" not in found
    (edits,) = counts.statistics("x", "ter")
    assert edits.tolist() == [[1, 6], [1, 3], [1, 6]]
    assert list(counts.statistics("x", "meteor")) == []
