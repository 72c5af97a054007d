"""Metrics: statistics that sum up, and scores equal to sacrebleu's and to METEOR's own."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from wholedoc.metrics import meteor
from wholedoc.metrics.discourse import Discourse
from wholedoc.metrics.meteor import JAR_VARIABLE, MeteorParameters, UnavailableError
from wholedoc.metrics.scores import (
    METRICS,
    Bleu,
    Chrf,
    DiscourseShares,
    DocumentBleu,
    EvaluationSet,
    Meteor,
    Metric,
    Ter,
    Unknown,
    corpus_bleu,
    sum_documents,
)
from wholedoc.metrics.words import Splitter

REFERENCES = [
    "The cat sat on the mat.",
    "It was not alone there, they say.",
    "Hello, world!",
    "«Õhtu» means evening in Estonian.",
    "Something that no system translates.",
]
OUTPUTS = [
    "A cat was sitting on the mat.",
    "They say that it was not alone.",
    "Hello, world!",
    "«Õhtu» means morning in Estonian",
    "",
]
WORDS = st.lists(st.sampled_from(["a", "b", "c", "the", "Ta", "õ", ".", ","]), max_size=7)
TEXTS = st.lists(st.tuples(WORDS.map(" ".join), WORDS.map(" ".join)), min_size=1, max_size=5)


def score(metric: Metric, output: list[str]) -> list[float]:
    (statistics,) = metric.statistics([output])
    found: list[float] = metric.scores(statistics.sum(axis=0)).tolist()
    return found


def whole(references: list[str]) -> EvaluationSet:
    return EvaluationSet(references, [len(references)])


# Beside sacrebleu


def test_every_score_is_sacrebleus() -> None:
    data = whole(REFERENCES)
    bleu = BLEU().corpus_score(OUTPUTS, [REFERENCES])
    assert score(Bleu(data), OUTPUTS) == pytest.approx([bleu.score, *bleu.precisions], rel=1e-12)
    for metric, oracle in ((Chrf(data), CHRF()), (Ter(data), TER())):
        expected = oracle.corpus_score(OUTPUTS, [REFERENCES]).score
        assert score(metric, OUTPUTS) == pytest.approx([expected], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_scores_of_strange_texts_are_sacrebleus_too(texts: list[tuple[str, str]]) -> None:
    """Empty lines, orders without a match, orders without an n-gram."""
    references, outputs = (list(side) for side in zip(*texts, strict=True))
    data = whole(references)
    bleu = BLEU().corpus_score(outputs, [references])
    assert score(Bleu(data), outputs) == pytest.approx([bleu.score, *bleu.precisions], rel=1e-9)
    oracles: list[tuple[Metric, SacrebleuMetric]] = [(Chrf(data), CHRF()), (Ter(data), TER())]
    for metric, oracle in oracles:
        expected = oracle.corpus_score(outputs, [references]).score
        assert score(metric, outputs) == pytest.approx([expected], rel=1e-9)


def test_the_signature_is_sacrebleus() -> None:
    data = EvaluationSet(REFERENCES, [2, 3])
    for metric, oracle in ((Bleu(data), BLEU()), (Chrf(data), CHRF()), (Ter(data), TER())):
        oracle.corpus_score(OUTPUTS, [REFERENCES])
        assert metric.signature == str(oracle.get_signature())
    assert DocumentBleu(data).signature.endswith("|docs:2")


def test_scores_are_those_of_sacrebleus_own_command(tmp_path: Path) -> None:
    (tmp_path / "ref").write_text("".join(f"{line}\n" for line in REFERENCES), encoding="utf-8")
    (tmp_path / "out").write_text("".join(f"{line}\n" for line in OUTPUTS), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "out", "-w", "9", "-f", "json"]
    done = subprocess.run(
        [*command, "-m", "bleu", "chrf", "ter"], cwd=tmp_path, capture_output=True, check=True
    )
    printed = [found["score"] for found in json.loads(done.stdout)]
    data = whole(REFERENCES)
    ours = [score(metric, OUTPUTS)[0] for metric in (Bleu(data), Chrf(data), Ter(data))]
    assert [round(value, 9) for value in ours] == printed


def test_bleu_by_hand() -> None:
    """5 of 5 words, 2 of 4 pairs, 1 of 3 triples, none of 2 quadruples: half of one."""
    (bleu, *precisions) = score(Bleu(whole(["a b c d x f"])), ["a b c f d"])
    assert precisions == pytest.approx([100, 50, 100 / 3, 25])
    assert bleu == pytest.approx(np.exp(1 - 6 / 5) * (100 * 50 * 100 / 3 * 25) ** 0.25)


def test_the_language_chooses_the_tokeniser() -> None:
    assert "tok:zh" in Bleu(EvaluationSet(["你好"], [1], lang="zh")).signature
    assert "tok:13a" in Bleu(EvaluationSet(["tere"], [1], lang="et")).signature


def test_languages_have_their_tokens_whatever_the_country() -> None:
    outputs, references = ["我喜欢苹果。"], ["我喜欢红苹果。"]
    found = {
        lang: corpus_bleu(outputs, references, lang) for lang in ("zh", "zh-CN", "ZH_tw", "en-GB")
    }
    assert found["zh-CN"] == found["ZH_tw"] == found["zh"]
    assert "tok:zh" in found["zh"].signature
    assert "tok:13a" in found["en-GB"].signature
    assert found["zh"].value > found["en-GB"].value + 20


def test_corpus_bleu() -> None:
    found = corpus_bleu(OUTPUTS, REFERENCES)
    assert found.value == pytest.approx(BLEU().corpus_score(OUTPUTS, [REFERENCES]).score)
    assert "tok:13a" in found.signature


# Statistics


@pytest.mark.parametrize("metric", [Bleu, Chrf, Ter])
def test_statistics_of_documents_are_sums(metric: type[Metric]) -> None:
    (statistics,) = metric(EvaluationSet(REFERENCES, [2, 3])).statistics([OUTPUTS])
    summed = sum_documents(statistics, [2, 3])
    assert summed[0] == pytest.approx(statistics[0] + statistics[1])
    assert summed[1] == pytest.approx(statistics[2] + statistics[3] + statistics[4])


@pytest.mark.parametrize("metric", [Bleu, Chrf, Ter])
def test_many_sums_are_scored_at_once(metric: type[Metric]) -> None:
    made = metric(whole(REFERENCES))
    (statistics,) = made.statistics([OUTPUTS])
    sums = np.cumsum(statistics, axis=0)
    assert made.scores(sums) == pytest.approx(np.array([made.scores(row) for row in sums]))


def test_document_bleu_is_bleu_of_joined_sentences() -> None:
    data = EvaluationSet(REFERENCES, [2, 3])
    joined = [" ".join(lines) for lines in (OUTPUTS[:2], OUTPUTS[2:])]
    references = [" ".join(lines) for lines in (REFERENCES[:2], REFERENCES[2:])]
    expected = BLEU().corpus_score(joined, [references]).score
    assert score(DocumentBleu(data), OUTPUTS) == pytest.approx([expected])
    assert expected != pytest.approx(score(Bleu(data), OUTPUTS)[0])


@pytest.mark.parametrize("documents", [[], [4], [5, 0], [3, 3]])
def test_documents_hold_all_sentences(documents: list[int]) -> None:
    with pytest.raises(ValueError, match="one document"):
        EvaluationSet(REFERENCES, documents)


def test_names_are_unique() -> None:
    names = [name for metric in METRICS.values() for name in metric.names]
    assert len(set(names)) == len(names)
    assert all(metric.names[0] == name for name, metric in METRICS.items())


# METEOR without its jar

HEADER = (
    "Meteor version: 1.5\n\n"
    "Eval ID:        meteor-1.5-wo-en-norm-0.85_0.2_0.6_0.75-ex_st_sy_pa-1.0_0.6_0.8_0.6\n\n"
    "Language:       English\n"
)
# What the jar prints of four sentences with -ssOut; without it, the scores of each and of all.
PRINTED = """\
7.0 8.0 4.0 5.0 2.0 2.0 3.0 3.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.0 1.0 0.0 1.0 1.0 6.0 7.0
2.0 2.0 0.0 0.0 2.0 2.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 1.0 2.0 2.0
0.0 2.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0
13.0 10.0 6.0 3.0 7.0 7.0 3.0 3.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 0.0 4.0 10.0 10.0
"""
SEGMENTS = [0.4797086858936586, 1.0, 0.0, 0.4912570066835594]
FINAL = 0.4500668632387917


def answer(
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    errors: str = "",
    code: int = 0,
    header: str = HEADER,
) -> None:
    """Let the jar have said this; what is asked of it has no effect."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        said = output if "-ssOut" in command else header
        return subprocess.CompletedProcess(command, code, said, errors)

    monkeypatch.setattr(meteor.shutil, "which", lambda _: "java")
    monkeypatch.setattr(meteor.subprocess, "run", run)
    monkeypatch.setenv(JAR_VARIABLE, __file__)


def test_meteor_parameters() -> None:
    found = MeteorParameters.parse(HEADER)
    assert found == MeteorParameters(
        "meteor-1.5-wo-en-norm-0.85_0.2_0.6_0.75-ex_st_sy_pa-1.0_0.6_0.8_0.6",
        *(0.85, 0.2, 0.6, 0.75),
        (1.0, 0.6, 0.8, 0.6),
    )
    assert MeteorParameters.parse("Unknown language") is None


def test_meteor_scores_are_the_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, PRINTED)
    metric = Meteor(whole([""] * 4))
    (statistics,) = metric.statistics([[""] * 4])
    assert metric.scores(statistics)[:, 0] == pytest.approx(SEGMENTS, rel=1e-12)
    assert metric.scores(statistics.sum(axis=0)) == pytest.approx([FINAL], rel=1e-12)
    assert metric.signature.startswith("meteor-1.5-wo-en-norm-")


def test_meteor_counts_all_outputs_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, PRINTED)
    one, other = Meteor(whole(["", ""])).statistics([["", ""], ["", ""]])
    assert (one[0, 0], other[1, 0]) == (7, 13)


@pytest.mark.parametrize(
    ("output", "errors", "code", "reason"),
    [
        (
            "",
            'Exception in thread "main" java.lang.RuntimeException: Unknown language (et)\n'
            "\tat edu.cmu.meteor.util.Constants.normLanguageName(Unknown Source)\n",
            1,
            "METEOR failed: Unknown language (et)",
        ),
        (PRINTED, "", 0, "it does not print what METEOR 1.5 prints"),  # four rows for two lines
        ("so many words\n" * 2, "", 0, "it does not print what METEOR 1.5 prints"),
    ],
)
def test_why_meteor_failed(
    output: str, errors: str, code: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, output, errors, code)
    with pytest.raises(UnavailableError, match=re.escape(reason)):
        Meteor(whole(["", ""])).statistics([["", ""]])


def test_a_jar_without_parameters_is_refused_before_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, PRINTED, header="some other program\n")
    with pytest.raises(UnavailableError, match="does not print what METEOR"):
        Meteor(whole([""] * 4))


def test_meteor_without_java_or_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(meteor.shutil, "which", lambda _: "java")
    monkeypatch.setenv(JAR_VARIABLE, str(tmp_path / "none.jar"))
    with pytest.raises(UnavailableError, match=r"no METEOR jar at .*none\.jar"):
        Meteor(whole(REFERENCES))
    monkeypatch.delenv(JAR_VARIABLE)
    monkeypatch.setattr(meteor, "find_spec", lambda _: None)
    with pytest.raises(UnavailableError, match=r"pip install 'wholedoc\[meteor\]'"):
        Meteor(whole(REFERENCES))
    monkeypatch.setattr(meteor.shutil, "which", lambda _: None)
    with pytest.raises(UnavailableError, match="needs Java"):
        Meteor(whole(REFERENCES))


# METEOR with its jar, where there is one


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The jar of pycocoevalcap beside a small table of paraphrases: its own takes long to read."""
    package = find_spec("pycocoevalcap")
    if package is None or not package.submodule_search_locations or not shutil.which("java"):
        pytest.skip("the METEOR jar or Java is not there")
    found = Path(package.submodule_search_locations[0]) / "meteor" / "meteor-1.5.jar"
    copy = tmp_path / "meteor.jar"
    shutil.copy(found, copy)
    (tmp_path / "data").mkdir()
    table = "0.9\nevening\nnight\n0.9\nnight\nevening\n"
    (tmp_path / "data" / "paraphrase-en.gz").write_bytes(gzip.compress(table.encode()))
    monkeypatch.setenv(JAR_VARIABLE, str(copy))
    return copy


def test_meteor_is_that_of_the_jars_own_command(jar: Path, tmp_path: Path) -> None:
    outputs = [*OUTPUTS[:4], "a ||| b\ra «night»"]
    references = [*REFERENCES[:4], "a ||| c a «evening»"]
    metric = Meteor(whole(references))
    (statistics,) = metric.statistics([outputs])
    for name, lines in (("out", outputs), ("ref", references)):
        text = "\n".join(line.replace("\r", " ") for line in lines)
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    command = ["java", "-Dfile.encoding=UTF-8", "-jar", jar, "out", "ref", "-l", "en", "-norm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True)
    segments = [float(value) for value in re.findall(r"Segment \d+ score:\t(\S+)", done.stdout)]
    final = float(re.findall(r"Final score: +(\S+)", done.stdout)[0])
    assert metric.scores(statistics)[:, 0] == pytest.approx(segments, rel=1e-12)
    assert metric.scores(statistics.sum(axis=0)) == pytest.approx([final], rel=1e-12)
    assert metric.signature in done.stdout
    assert statistics[4, 16:20].any(), "the paraphrase is not found"


def test_discourse_shares_are_those_counted_by_hand() -> None:
    # The example of docs/discourse.md: in the system's output "eesmärk" is goal, goal, aim.
    data = EvaluationSet(
        ["Qimonda meets goals.", "The goal is big.", "It is Qimonda.", "Goal."],
        [4],
        ["Qimonda täidab eesmärke.", "Eesmärk on suur.", "Ta on Qimonda.", "Eesmärk."],
        src_lang="xx",  # no lemmas, so that no dictionary is loaded
    )
    metric = DiscourseShares(data)
    output = ["Qimonda meets goals.", "The goal is large.", "It is Qimonda.", "Aim."]
    copied, found = metric.statistics([data.references, output])
    right = dict(zip(metric.names, metric.scores(copied.sum(axis=0)), strict=True))
    assert {name for name in right if right[name] == 100} >= {"names_kept", "terms_kept"}
    scores = dict(zip(metric.names, metric.scores(found.sum(axis=0)), strict=True))
    assert scores["names_kept"] == 100  # Qimonda, twice
    assert scores["terms_kept"] == pytest.approx(200 / 3)  # goals, goal, not Goal
    # Every share stands under its own name: as the measures themselves have it.
    splitters = (Splitter("xx"), Splitter("en"))
    (counts,) = Discourse(data.src, data.references, [4], splitters=splitters).measure(output)
    expected = {name: getattr(counts, name).rate for name in metric.names}
    assert len(set(expected.values())) > 2
    assert scores == pytest.approx({name: 100 * value for name, value in expected.items()})
    nothing = metric.scores(np.zeros(10))
    assert np.isnan(nothing).all()


def test_discourse_shares_need_the_source() -> None:
    with pytest.raises(UnavailableError, match="--src"):
        DiscourseShares(EvaluationSet(REFERENCES, [2, 3]))


def test_unknown_words_are_counted() -> None:
    metric = Unknown(EvaluationSet(REFERENCES[:2], [2]))
    (found,) = metric.statistics([["a <unk> <unk>.", "none"]])
    assert found.tolist() == [[2], [0]]
    assert metric.scores(found.sum(axis=0)).tolist() == [2]
