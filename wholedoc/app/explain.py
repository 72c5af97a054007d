"""A page that explains translations: what each pass changed, what was read, what was recalled."""

import re
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from wholedoc import __version__
from wholedoc.app.recalled import (
    Span,
    draw_legend,
    draw_pairs,
    draw_recalled,
    mark_spans,
    recalled_words,
)
from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.readers import SourceDocument
from wholedoc.decoding.results import TranslatedDocument
from wholedoc.files import write_atomically
from wholedoc.rendering.charts import draw_heat_map
from wholedoc.rendering.tables import escape, make_page, make_table

_LISTED = 25  # sentences that are named of those one sentence read; the rest is summed up
_FOREMOST = 3  # of them, those that are named in the table
_SMALLEST = 0.0005  # what would be shown as 0.000
_WORD = re.compile(r"\w+|[^\w\s]")
_WITHOUT_WEIGHTS = {
    "wang2017": "Each sentence read up to three source sentences before it. This model has one "
    "summary of them and no weights, so none are shown.",
    "jean2017": "Each sentence read the words of the source sentence before it, if there is one. "
    "This model has no weights over sentences, so none are shown.",
    "more": "Nothing was read: this model was trained longer, but translates each sentence by "
    "itself.",
}


@dataclass
class Explanation:
    """The page, one document after the other."""

    model: str
    source: str
    """The file that was translated."""
    config: ModelConfig
    search: SearchConfig
    reads_document: bool
    """Whether it was the document model that translated, not the sentence model."""
    names: list[str] = field(default_factory=list)
    """Of the documents so far."""
    sections: list[str] = field(default_factory=list)
    """The documents so far, as HTML."""
    memories: dict[str, None] = field(default_factory=dict)
    """The translation memories they recalled from, in order."""

    def add(self, document: SourceDocument, translated: TranslatedDocument) -> None:
        """Explain one more document."""
        self.names.append(document.name)
        self.memories |= {str(memory.path): None for memory in translated.task.memories}
        texts = [text for _, text in document.sentences]
        number, last = len(self.names), len(translated.history) - 1
        maps = "".join(
            draw_heat_map(weights, f"{side.title()} memory", side)
            for side, weights in _memories(translated).items()
            if weights.any()
        )
        body = [
            f'<section id="d{number}" data-last="{last}" data-order="{self.search.order}">',
            f"<h2>Document {escape(document.name)}</h2>",
            f"<p>{self._describe(translated)}</p>",
            draw_legend(translated),
            f'<div class="overview">{_draw_updates(translated)}{maps}</div>',
            _draw_controls(last) if last else "",
            _draw_sentences(number, texts, translated),
            "</section>",
        ]
        self.sections.append("\n".join(body))

    def write(self, path: Path) -> None:
        """Write the page: it needs no other file."""
        title = f"{Path(self.source).name}, translated by {Path(self.model).resolve().name}"
        settings = "".join(
            f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>"
            for name, value in self._settings().items()
        )
        options = "".join(
            f'<option value="d{number}">{escape(name)}</option>'
            for number, name in enumerate(self.names, start=1)
        )
        label = f'<label>Document <select id="chooser">{options}</select></label>'
        chooser = f'<p class="control">{label} of {len(self.names):,}</p>'
        body = [
            f"<h1>{escape(title)}</h1>",
            f"<dl>{settings}</dl>",
            chooser if len(self.names) > 1 else "",
            *(self.sections or ["<p>There was nothing to translate.</p>"]),
            '<aside id="panel" aria-label="what the chosen sentence read" hidden></aside>',
            '<div id="recall" role="status" hidden></div>',
        ]
        style, script = "explain.css", "explain.js"
        write_atomically(path, make_page(title, "\n".join(body), style=style, script=script))

    def _settings(self) -> dict[str, str]:
        """The model and the settings of search."""
        config, search = self.config, self.search
        kind, descent = "sentence model", {}
        if self.reads_document:
            memories = f"Memory-to-{config.fusion.title()} +{config.memory}"
            kind = memories if config.context == "none" else config.context
            document_model = "the document model, source memory alone"
            first = "the sentence model" if search.first_pass == "base" else document_model
            updates = f"at most {search.passes}, {search.order}"
            descent = {"first pass": f"by {first}", "updates": updates}
        beam = "greedy" if search.beam == 1 else f"beam {search.beam}"
        known = {"translation memories": ", ".join(self.memories)} if self.memories else {}
        model = f"{self.model} ({kind})"
        return {"model": model, "search": beam, **descent, **known, "wholedoc": __version__}

    def _describe(self, translated: TranslatedDocument) -> str:
        """What this page shows, or why it shows no weights."""
        memories = _memories(translated)
        if not self.reads_document:
            return "No other sentence was read: this model translates each sentence by itself."
        by_document = len(translated.history) > 1 or self.search.first_pass == "document"
        if not memories and by_document and self.config.context in _WITHOUT_WEIGHTS:
            return _WITHOUT_WEIGHTS[self.config.context]
        if not memories:
            return "Nothing was read: no update followed the first pass, which read nothing."
        if not any(weights.any() for weights in memories.values()):
            return "Nothing was read: no sentence has another one to read in this document."
        sides = " and the ".join(f'<b class="{side}">{side}</b> memory' for side in memories)
        then = ""
        if "target" in memories:
            newer = ", or of it where they stand earlier" * (self.search.order == "sequential")
            then = f" The target memory held the translations before that pass{newer}."
        return (
            f"Choose a sentence to see which others it read in the {sides}. Weights are those of "
            f"the last pass; those of a sentence in a memory sum to 1.{then}"
        )


def mark_changes(before: str, after: str) -> tuple[str, str]:
    """Two translations as HTML, the words that differ in ``<del>`` and ``<ins>``."""
    old, new = _changes(before, after)
    return mark_spans(before.rstrip(), old, "del"), mark_spans(after.rstrip(), new, "ins")


def _changes(before: str, after: str) -> tuple[list[Span], list[Span]]:
    """Where two texts have words that differ."""
    old, new = list(_WORD.finditer(before)), list(_WORD.finditer(after))
    matcher = SequenceMatcher(None, [w[0] for w in old], [w[0] for w in new], autojunk=False)
    changed = [code[1:] for code in matcher.get_opcodes() if code[0] != "equal"]
    left = [(old[i].start(), old[i_end - 1].end()) for i, i_end, _, _ in changed if i < i_end]
    right = [(new[j].start(), new[j_end - 1].end()) for _, _, j, j_end in changed if j < j_end]
    return left, right


def _memories(translated: TranslatedDocument) -> dict[str, Tensor]:
    """The weights of the memories that were read, by side."""
    sides = {"source": translated.source_weights, "target": translated.target_weights}
    return {side: weights for side, weights in sides.items() if weights is not None}


def _draw_updates(translated: TranslatedDocument) -> str:
    """How many sentences each update changed, and the objective after it."""
    history = translated.history
    if len(history) == 1:
        return ""
    rows = [["first pass", "", ""]]
    for number, objective in enumerate(translated.objective, start=1):
        pairs = zip(history[number - 1], history[number], strict=True)
        changed = sum(before != after for before, after in pairs)
        rows.append([f"update {number}", f"{changed:,} of {len(history[0]):,}", f"{objective:.3f}"])
    return make_table(["", "sentences changed", "objective Σ log P"], rows, "measures updates")


def _draw_controls(last: int) -> str:
    """Which update is compared with the first pass; whether sentences that stayed are shown."""
    chooser = ""
    if last > 1:
        options = "".join(
            f'<option value="{number}"{" selected" if number == last else ""}>update {number}'
            f"{', the final one' if number == last else ''}</option>"
            for number in range(1, last + 1)
        )
        select = f'<select class="choice">{options}</select>'
        chooser = f"<label>Compare the first pass with {select}</label>"
    box = '<input type="checkbox" class="changed-only">'
    return f'<p class="control">{chooser} <label>{box} changed sentences only</label></p>'


def _draw_sentences(number: int, texts: list[str], translated: TranslatedDocument) -> str:
    """A row for each sentence: source, first pass, final, and what it read most."""
    memories = _memories(translated)
    columns = {"source": "source", "final": "translation"}
    if len(translated.history) > 1:
        columns = {"source": "source", "first": "first pass", "final": "final"}
    if memories:
        columns["read"] = "read most"
    rows = []
    for t, text in enumerate(texts):
        versions = [sentences[t] for sentences in translated.history]
        read = [_draw_read(side, weights[t]) for side, weights in memories.items()]
        contents = {
            "source": escape(text),
            **_draw_versions(translated, t),
            "read": "<br>".join(shown for shown, _ in read),
        }
        cells = "".join(
            f'<td class="{name}" data-title="{title}" dir="auto">{contents[name]}</td>'
            for name, title in columns.items()
        )
        changes = " ".join(str(k) for k, found in enumerate(versions) if found != versions[0])
        kind = ' class="changed"' if versions[-1] != versions[0] else ""
        data = "".join(data for _, data in read)
        rows.append(
            f'<tr id="d{number}s{t + 1}"{kind} data-changed="{changes}"{data}>'
            f'<td class="number"><button type="button">{t + 1}</button></td>{cells}</tr>\n'
        )
    head = "".join(f'<th class="{name}">{title}</th>' for name, title in columns.items())
    return (
        f'<table class="text"><thead><tr><th></th>{head}</tr></thead>\n'
        f"<tbody>\n{''.join(rows)}</tbody></table>"
    )


def _draw_versions(translated: TranslatedDocument, t: int) -> dict[str, str]:
    """A sentence's first and final translation, as they look beside each update."""
    versions = [sentences[t].rstrip() for sentences in translated.history]
    words, known = recalled_words(translated, t), translated.known[t]
    approved = '<span class="approved">approved</span>' if t in translated.approved else ""
    below = approved + draw_pairs(versions[-1], words, known)
    if len(versions) == 1:
        return {"final": draw_recalled(versions[0], words) + below}
    last = len(versions) - 1
    shown: dict[str, list[str]] = {"first": [], "final": []}
    for number, later in enumerate(versions[1:], start=1):
        old, new = _changes(versions[0], later)
        recalled = words if number == last else []  # it was the last pass that they tell of
        both = mark_spans(versions[0], old, "del"), draw_recalled(later, recalled, new)
        for name, text in zip(shown, both, strict=True):
            hidden = "" if number == last else " hidden"
            shown[name].append(f'<span data-update="{number}"{hidden}>{text}</span>')
    return {"first": "".join(shown["first"]), "final": "".join(shown["final"]) + below}


def _draw_read(side: str, weights: Float[Tensor, " cell"]) -> tuple[str, str]:
    """What one sentence read most in a memory, and all of it as the page's script takes it."""
    ranked = sorted(enumerate(weights.tolist(), start=1), key=lambda found: -found[1])
    listed = [(k, weight) for k, weight in ranked[:_LISTED] if weight >= _SMALLEST]
    rest = [weight for _, weight in ranked[len(listed) :]]  # the sentence itself is one of them
    shown = ", ".join(f"{k}&nbsp;({weight:.3f})" for k, weight in listed[:_FOREMOST])
    data = " ".join(f"{k}:{weight:.3f}" for k, weight in listed)
    return (
        f'<span class="{side}">{shown or "nothing"}</span>',
        f' data-{side}="{data}" data-{side}-rest="{len(rest) - 1}:{sum(rest):.3f}"',
    )
