"""All systems of the demo on the artificial corpus, beside what its generator says is possible."""

from pathlib import Path

import pytest

from wholedoc.app.demo import Measures, System, Tour, run_demo
from wholedoc.app.demo_report import print_tour, write_report
from wholedoc.corpus.synth import KINDS, SynthConfig

# Fewer words than by default: with fewer facts to learn, fewer documents teach them.
SYNTH = SynthConfig(
    train=2500, dev=40, test=150, ambiguous=4, names=12, nouns=12, verbs=8, adjectives=6
)


def accuracy(measures: Measures, kind: str) -> float:
    return measures.phenomena.kinds[kind].accuracy


def consistency(measures: Measures) -> float:
    value = measures.phenomena.kinds["name"].consistency
    assert value is not None
    return value


def check_sentence_model(tour: Tour, system: System) -> None:
    """It reaches what a sentence tells, and does not pass it."""
    for kind in KINDS:
        found = system.measures.phenomena.kinds[kind]
        best = found.best["sentence"]
        assert found.accuracy > best.realised - 0.05
        assert found.accuracy < best.accuracy + 3 * best.deviation
        assert found.best["source"].accuracy > best.accuracy + 0.15  # there is something to gain
    items = {(item.document, item.sentence) for item in tour.key}
    pairs = [
        (output, pair.trg)
        for document, outputs in zip(tour.documents, system.translations, strict=True)
        for t, (output, pair) in enumerate(zip(outputs, document, strict=True))
        if (document.name, t) not in items
    ]
    right = sum(output.replace(" ", "") == trg.replace(" ", "") for output, trg in pairs)
    assert len(pairs) > 100
    assert right / len(pairs) > 0.98


@pytest.mark.parametrize("seed", range(1, 6))
def test_document_models_pass_the_sentence_bound_and_shuffled_memory_does_not(
    tmp_path: Path, seed: int
) -> None:
    tour = run_demo(tmp_path, seed, SYNTH)
    sentence, src, trg, both = tour.systems
    check_sentence_model(tour, sentence)
    kinds = sentence.measures.phenomena.kinds
    for system in (src, both):
        for kind in ("pronoun", "topic"):
            bound = kinds[kind].best["source"].accuracy
            assert accuracy(system.measures, kind) > bound - 0.05, (system.name, kind)
    names = kinds["name"].best["sentence"]
    for system in (trg, both):
        assert accuracy(system.measures, "name") > names.accuracy + 2 * names.deviation
        assert consistency(system.measures) > consistency(sentence.measures) + 0.1
    for system in (src, trg, both):
        assert system.shuffled is not None
        for kind in KINDS:
            best = kinds[kind].best["sentence"]
            limit = best.accuracy + 2 * best.deviation
            assert accuracy(system.shuffled, kind) < limit, (system.name, kind)


def test_the_tour_is_shown_as_json_as_text_and_as_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    epochs = [f"stage{stage}.epochs=1" for stage in range(3)]
    tour = run_demo(tmp_path, 1, SynthConfig(train=60, dev=10, test=20), epochs)
    shown = tour.to_json()["systems"]
    assert [system["name"] for system in shown] == ["s-nmt", "src", "trg", "both"]
    measures = {"bleu", "pronoun", "topic", "name_accuracy", "name_consistency"}
    for system in shown:
        assert measures < system.keys()
        assert (tmp_path / "runs" / system["name"] / "config.toml").exists()
    assert ["shuffled" in system for system in shown] == [False, True, True, True]
    assert measures < shown[1]["shuffled"].keys()
    print_tour(tour)
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("s-nmt", "both", "shuffled"))
    write_report(tmp_path / "report.html", tour)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<td>{100 * shown[-1]['pronoun']:.1f}</td>" in page
    assert "http" not in page  # opens from disk, asks nobody
