"""The tables and figures of what people have translated: recall beside what it is compared with."""

from functools import cached_property

import numpy as np

from wholedoc.experiment.grid import BASELINE, RECALL_SYSTEMS, SystemName
from wholedoc.experiment.recalling import best_matches, memory_path
from wholedoc.experiment.tables import COLOURS, LABELS, SPREAD, CellMaker, mean_of
from wholedoc.metrics.bands import split_bands
from wholedoc.metrics.effort import Characters, effort_rate, saved_share, sum_places
from wholedoc.metrics.evaluation import Value
from wholedoc.metrics.scores import Array
from wholedoc.rendering.charts import Chart, Figure, Series
from wholedoc.rendering.tables import Cell, Row, Table, mark_best, number_cell
from wholedoc.tm.memory import TranslationMemory

_CONTROLS: tuple[SystemName, ...] = ("recall-other", "recall-random", "recall-empty")
_ORDER: tuple[SystemName, ...] = (
    *(BASELINE, "longer", "copy", "fuzzy", "recall", "approved", "recall-approved"),
    *("both-context", "both-context-recall", "both-output", "both-output-recall"),
    *_CONTROLS,
)
_DRAWN: tuple[SystemName, ...] = ("recall", "approved", "recall-approved")


class RecallTables:
    """Makes what a report shows of systems with recall."""

    def __init__(self, make: CellMaker) -> None:
        self._make = make
        asked = make.config.systems
        bases = {BASELINE, *(make.config.base_of(system) for system in asked)}
        self._systems = [s for s in _ORDER if s in asked and (s in RECALL_SYSTEMS or s in bases)]
        self._base = make.config.recall.base

    def blocks(self) -> list[Table | Figure]:
        """All of it; nothing where no system recalls."""
        if not any(system in RECALL_SYSTEMS for system in self._make.config.systems):
            return []
        blocks: list[Table | Figure] = [self.main_table()]
        if self._places:
            blocks.append(self.band_table())
        if self._base in self._make.outputs:
            blocks += [self.effort_table(), self.effort_figure()]
        return blocks

    def compared_with(self, system: SystemName) -> SystemName:
        """What a system is tested against: the model it recalls with, or the sentence model."""
        return self._make.config.base_of(system) or BASELINE

    def main_table(self) -> Table:
        """Every system, each tested against what it stands on."""
        metrics = ("bleu", "chrf", "ter")
        rows = []
        for system in self._systems:
            cells = self._make.scored("", [system], metrics).cells
            than = self.compared_with(system)
            tested = self._make.tested(system, than, "bleu")
            runs = [] if system == "fuzzy" else self._make.results.of(system)  # other subwords
            found = mean_of(run.figures.perplexity for run in runs)
            change = number_cell(tested and tested[0], "+.2f")
            p_value = number_cell(tested and tested[1], ".4f")
            shown = (*cells, number_cell(found, ",.2f"), change, p_value)
            rows.append(Row(LABELS[system], shown, int(system in _CONTROLS)))
        rows = mark_best(mark_best(rows, (0, 1)), (2, 3), lowest=True)
        return Table(
            "What people have translated",
            "Recall from a translation memory and from approved sentences",
            {"": ("BLEU", "chrF", "TER ↓", "perplexity ↓"), "BLEU over its base": ("±", "p")},
            rows,
            f"Mean {SPREAD}. +recall: the memory is the training set. +approved: a translator at "
            "work from top to bottom, each sentence recalling the references of those before it. "
            "Perplexity is that of the references, with what the system knows; a system with a "
            "vocabulary of its own has none that compares. The base is the "
            f"model that recalls ({LABELS[self._base]}, or the document model), of the others "
            f"S-NMT; p is tested over {self._make.unit}s. Below the rule the controls; random "
            f"pairs are pairs of the same memory, drawn for each sentence.{self._emptiness()}",
        )

    def _emptiness(self) -> str:
        """Whether an empty memory changes nothing, as it must."""
        runs = self._make.results.of("recall-empty")
        bases = [self._make.results.runs.get(run.job.trained) for run in runs]
        pairs = [(run, base) for run, base in zip(runs, bases, strict=True) if base is not None]
        if not pairs:
            return ""
        count = sum(
            ours != theirs
            for run, base in pairs
            for ours, theirs in zip(run.translations, base.translations, strict=True)
        )
        same = all(run.figures.perplexity == base.figures.perplexity for run, base in pairs)
        if not count and same:
            return (
                " With an empty memory, translations and perplexity are those of the base, exactly."
            )
        return f" AN ERROR: with an empty memory, {count:,} translations differ from the base’s."

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The sentences of each band; none where the memory is not there."""
        results = self._make.results
        path = memory_path(results.experiment, "train")
        if not path.exists():
            return {}
        with TranslationMemory.open(path) as memory:
            matches = best_matches(memory, results.documents)
        return split_bands([match.score if match else 0 for match in matches])

    def band_table(self) -> Table:
        """Every system in each band of the best match."""
        filled = {name: places for name, places in self._places.items() if places}
        counts = [
            cell
            for places in filled.values()
            for cell in (number_cell(len(places), ","), number_cell(None))
        ]
        rows = [Row("sentences", tuple(counts))]
        scored = []
        for system in self._systems:
            cells: list[Cell] = []
            for places in filled.values():
                found: dict[str, Value] = {}
                if system in self._make.outputs:
                    found = self._make.counts.values_among(system, places)
                values = [found.get(name) for name in ("bleu", "chrf")]
                cells += [number_cell(value.mean if value else None, ".2f") for value in values]
            scored.append(Row(LABELS[system], tuple(cells), 1))
        rows += mark_best(scored, range(2 * len(filled)))
        return Table(
            "Best matches",
            "By the best match of a sentence in the training set, per cent",
            {f"{name} %": ("BLEU", "chrF") for name in filled},
            rows,
            "BLEU and chrF of the sentences of each band together, mean over the seeds. Matches "
            "are counted as translation tools do, in words; 100 has exact matches in context too. "
            "Bands without a sentence are left out.",
        )

    # Effort.

    @cached_property
    def _characters(self) -> dict[str, Array]:
        """Characters to change in each sentence, mean over the seeds."""
        metric = Characters(self._make.counts.data)
        outputs = {s: self._make.outputs[s] for s in self._systems if s in self._make.outputs}
        return {name: np.mean(metric.statistics(found), axis=0) for name, found in outputs.items()}

    def _words(self, system: str) -> Array:
        """Words to change in each sentence, mean over the seeds."""
        rows: Array = np.mean(self._make.counts.statistics(system, "ter"), axis=0)
        return rows

    def effort_table(self) -> Table:
        """What is left to change, and what that saves."""
        sizes = self._make.results.sizes
        base = self._characters[self._base]
        by_place = sum_places(base, sizes)
        rows = []
        for system in self._systems:
            if system not in self._characters:
                cells = [
                    Cell(self._make.absence(system)),
                    *[number_cell(None)] * (3 + len(by_place)),
                ]
                rows.append(Row(LABELS[system], tuple(cells)))
                continue
            sides = [(self._characters[system], base)]
            sides.append((self._words(system), self._words(self._base)))
            sums = [(own.sum(axis=0), other.sum(axis=0)) for own, other in sides]
            rates = [effort_rate(own) for own, _ in sums]
            saved = [saved_share(own, other) for own, other in sums]
            places = sum_places(self._characters[system], sizes)
            saved += [saved_share(places[name], by_place[name]) for name in by_place]
            rows.append(Row(LABELS[system], tuple(_cell(x) for x in (*rates, *saved))))
        return Table(
            "Effort",
            "What a translator has left to change",
            {
                "to change, %": ("characters", "words"),
                "saved, %": ("of characters", "of words"),
                "characters saved by place in the document, %": tuple(by_place),
            },
            rows,
            "Characters: Levenshtein distance to the reference, per 100 characters of it; words: "
            "the edits of TER, a shift of a phrase being one, per 100 words. Saved: the share of "
            f"{LABELS[self._base]}’s changes. Mean over the seeds.",
        )

    def effort_figure(self) -> Figure:
        """Characters to change over the place in the document."""
        sizes = self._make.results.sizes
        lines = []
        drawn: list[SystemName] = [s for s in (self._base, *_DRAWN) if s in self._characters]
        for system in drawn:
            sums = sum_places(self._characters[system], sizes)
            points = tuple((float(n), float(effort_rate(s))) for n, s in enumerate(sums.values()))
            lines.append(Series(LABELS[system], points, COLOURS[system]))
        names = tuple(sum_places(self._characters[self._base], sizes))
        chart = Chart("", "", "characters to change, %", tuple(lines), names)
        return Figure(
            "Effort over the document",
            "Characters to change, by the place of the sentence in its document",
            (chart,),
            "Per 100 characters of the reference, mean over the seeds. What grows "
            "with the document is what approved sentences can give.",
        )


def _cell(value: Array) -> Cell:
    """A share; a dash where there is none."""
    return number_cell(None if np.isnan(value) else float(value), ".1f")
