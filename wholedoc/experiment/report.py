"""What an experiment has shown, as the tables and figures of the paper, and more.

A report is a function of what lies on disk. HTML, Markdown and JSON are made from the same values.
"""

from dataclasses import dataclass
from typing import Any

from wholedoc.experiment import further_tables, paper_tables
from wholedoc.experiment.cells import CellMaker
from wholedoc.experiment.examples import Examples, choose_examples
from wholedoc.experiment.results import Results
from wholedoc.rendering.tables import Figure, Table

Block = Table | Figure | Examples


@dataclass(frozen=True)
class Report:
    """All that the page shows, in order."""

    title: str
    facts: dict[str, str]
    """What was done, for the head of the page."""
    failed: dict[str, str]
    """The runs that failed, and why."""
    blocks: list[Block]
    signatures: dict[str, str]
    """How each measure was computed."""
    missing: dict[str, str]
    """Measures that could not be computed, and why."""

    def to_json(self) -> dict[str, Any]:
        """Every number of the report."""
        return {
            "title": self.title,
            "facts": self.facts,
            "failed": self.failed,
            "tables": [block.to_json() for block in self.blocks if isinstance(block, Table)],
            "figures": [block.to_json() for block in self.blocks if isinstance(block, Figure)],
            "examples": [
                example.to_json()
                for block in self.blocks
                if isinstance(block, Examples)
                for example in block.chosen
            ],
            "signatures": self.signatures,
            "missing": self.missing,
        }


def build_report(results: Results) -> Report:
    """Measure everything and put it where the paper has it."""
    make = CellMaker(results)
    blocks: list[Block] = [
        paper_tables.corpora_table(make),
        paper_tables.main_table(make),
        paper_tables.parameter_table(make),
        paper_tables.local_context_table(make),
        paper_tables.unigram_table(make),
        paper_tables.target_context_table(make),
        paper_tables.larger_corpus_figure(make),
        Examples(tuple(choose_examples(results))),
    ]
    if results.experiment.key is not None:
        blocks.append(further_tables.artificial_table(make, results.experiment.key))
    blocks += [
        further_tables.discourse_table(make),
        further_tables.context_use_table(make),
        further_tables.distance_figure(make),
        further_tables.metric_table(make),
        further_tables.learning_figure(make),
        further_tables.passes_figure(make),
        further_tables.resource_table(make),
    ]
    return Report(
        title=make.config.title or results.experiment.out.name,
        facts=_facts(make),
        failed=results.failed,
        blocks=blocks,
        signatures=make.scores.signatures,
        missing=dict(make.scores.counts.missing),
    )


def _facts(make: CellMaker) -> dict[str, str]:
    """What was done."""
    jobs = make.results.experiment.jobs()
    config, data = make.results.config, make.results.config.data
    vocabulary = config.vocabulary
    return {
        "runs": f"{len(make.results.runs)} of {len(jobs)} finished",
        "seeds": ", ".join(map(str, make.config.seeds)),
        "configuration": make.config.config,
        "model": f"{config.model.hidden} hidden, {config.model.embedding} embedding, "
        f"{config.model.alignment} alignment",
        "vocabulary": f"{vocabulary.kind}s, "
        + ("shared" if vocabulary.shared else "one for each side"),
        "test set": "artificial" if make.config.synth else data.test.src,
        "translation": f"beam {config.search.beam}, {config.search.passes} "
        f"pass{'es' if config.search.passes != 1 else ''} after the first translations",
    }
