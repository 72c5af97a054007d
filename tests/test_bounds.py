"""S-NMT on the artificial corpus: it reaches what a sentence can tell, and does not pass it."""

from pathlib import Path

import pytest

from wholedoc.app.demo import Tour, run_demo
from wholedoc.app.demo_report import print_tour, write_report
from wholedoc.corpus.synth import KINDS


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Tour:
    return run_demo(tmp_path_factory.mktemp("demo"), seed=1)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sentence_model_reaches_its_bound_and_does_not_pass_it(tour: Tour, kind: str) -> None:
    found = tour.systems[0].phenomena.kinds[kind]
    best = found.best["sentence"]
    assert found.accuracy > best.realised - 0.05
    assert found.accuracy < best.accuracy + 3 * best.deviation
    assert found.best["source"].accuracy > best.accuracy + 0.15  # there is something to gain


def test_everything_that_a_sentence_tells_is_learned(tour: Tour) -> None:
    items = {(item.document, item.sentence) for item in tour.key}
    pairs = [
        (output, pair.trg)
        for document, outputs in zip(tour.documents, tour.systems[0].translations, strict=True)
        for t, (output, pair) in enumerate(zip(outputs, document, strict=True))
        if (document.name, t) not in items
    ]
    right = sum(output.replace(" ", "") == trg.replace(" ", "") for output, trg in pairs)
    assert len(pairs) > 100
    assert right / len(pairs) > 0.98


def test_the_tour_is_shown_as_json_as_text_and_as_a_page(
    tour: Tour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = tour.to_json()
    (system,) = shown["systems"]
    assert {"name", "bleu", "pronoun", "topic", "name_consistency"} <= system.keys()
    assert system["name"] == "s-nmt"
    print_tour(tour)
    assert "s-nmt" in capsys.readouterr().out
    write_report(tmp_path / "report.html", tour)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<td>{100 * system['pronoun']:.1f}</td>" in page
    assert "http" not in page  # opens from disk, asks nobody
