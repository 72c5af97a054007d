"""Measures of translations against references, each with the signature that makes it repeatable."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU


@dataclass(frozen=True)
class Score:
    """A number and how it was computed."""

    value: float
    signature: str


def corpus_bleu(translations: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of all sentences together, by sacrebleu's defaults."""
    metric = BLEU()
    score = metric.corpus_score(list(translations), [list(references)])
    return Score(score.score, str(metric.get_signature()))
