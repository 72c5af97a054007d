"""Sentences to look at, chosen by rule: where a memory system gains and loses most."""

from dataclasses import dataclass
from typing import Any

from sacrebleu.metrics.chrf import CHRF
from torch import Tensor

from wholedoc.experiment.grid import BASELINE, Job, SystemName
from wholedoc.experiment.results import Results, RunResults

# Whose translations are looked at: the first of these that is there.
_PREFERRED: tuple[SystemName, ...] = (
    "both-context",
    "both-output",
    "src-context",
    "src-output",
    "trg-context",
    "trg-output",
)


@dataclass(frozen=True)
class Example:
    """A sentence of the test set in all its translations."""

    kind: str
    """Why it was chosen: "largest gain" or "largest loss"."""
    system: SystemName
    """Whose gain or loss it is."""
    seed: int
    document: int
    """The number of the document in the test set."""
    document_name: str
    sentence: int
    """The number of the sentence in its document."""
    change: float
    """chrF of the system's translation minus that of the sentence model's."""
    src: str
    trg: str
    translations: dict[SystemName, str]
    weights: dict[str, Tensor]
    """Whom each sentence of the document read, by memory."""

    def to_json(self) -> dict[str, Any]:
        """All but the weights of the sentences around it."""
        plain = {name: value for name, value in vars(self).items() if name != "weights"}
        read = {side: matrix[self.sentence].tolist() for side, matrix in self.weights.items()}
        return {**plain, "weights": read}


@dataclass(frozen=True)
class Examples:
    """The sentences that stand where the paper has its Table 7."""

    chosen: tuple[Example, ...]
    name: str = "Table 7"
    title: str = "Examples"
    note: str = (
        "Chosen by rule, not by hand as in the paper: of all sentences of the test set, the one "
        "whose chrF rises most from S-NMT to the system with both memories, and the one whose chrF "
        "falls most."
    )


def choose_examples(results: Results) -> list[Example]:
    """The sentence that gains most from a memory and the one that loses most, in chrF.

    The system is the paper's best, with both memories to context, or the next that is there; the
    seed is the first with which it and the sentence model were trained. Of equals the first counts.
    """
    for system in _PREFERRED:
        for run in results.of(system):
            base = results.runs.get(Job(BASELINE, run.job.seed))
            if base is not None:
                return _extremes(results, run, base)
    return []


def _extremes(results: Results, run: RunResults, base: RunResults) -> list[Example]:
    metric = CHRF()
    changes = [
        metric.sentence_score(ours, [reference]).score
        - metric.sentence_score(theirs, [reference]).score
        for ours, theirs, reference in zip(
            run.translations, base.translations, results.references, strict=True
        )
    ]
    lines = range(len(changes))
    gain, loss = max(lines, key=changes.__getitem__), min(lines, key=changes.__getitem__)
    examples = []
    if changes[gain] > 0:
        examples.append(_example(results, run, "largest gain", gain, changes[gain]))
    if changes[loss] < 0:
        examples.append(_example(results, run, "largest loss", loss, changes[loss]))
    return examples


def _example(results: Results, run: RunResults, kind: str, line: int, change: float) -> Example:
    fusion = run.job.system.partition("-")[2]
    shown = (BASELINE, f"src-{fusion}", f"trg-{fusion}", f"both-{fusion}", "wang2017")
    translations = {
        job.system: found.translations[line]
        for job, found in results.runs.items()
        if job.seed == run.job.seed and not job.larger and job.system in shown
    }
    document, sentence = 0, line
    while sentence >= results.sizes[document]:
        sentence -= results.sizes[document]
        document += 1
    pair = results.documents[document].pairs[sentence]
    return Example(
        kind,
        run.job.system,
        run.job.seed,
        document,
        results.documents[document].name,
        sentence,
        change,
        pair.src,
        pair.trg,
        translations,
        run.document_weights(document),
    )
