"""Measure a model in the box: `python bench/box/evaluate.py MODEL de-en CORPORA --out FILE.json`.

On the test set of each corpus that it was trained on, for a document model beside its own sentence
model and with the memory of another document; on news, beside what other systems made of it; and on
the documents of one team (German: manual pages, which it was not trained on) with and without what
a team has: a memory of its own (the training set of that corpus), and every second sentence of each
document approved. The last are scored on the other sentences. Search is that kept with the model.
Prints the tables of the model card; FILE gets all figures with their signatures.
"""

import argparse
import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import sacrebleu
from corpus import CORPORA, TESTS, read_documents

from wholedoc import Knowledge, TranslationMemory, Translator
from wholedoc.config import CorpusFiles
from wholedoc.corpus.readers import read_corpus
from wholedoc.tm.writer import MemoryWriter

TEAMS = {"de-en": "manpages-de-en", "et-en": "libreoffice-help-et-en"}
NEWS = {"de-en": ("newstest2009", "newstest2011", "newstest2016")}
PEERS = ("bergamot-tiny", "bergamot-base", "google", "microsoft")


class Evaluation:
    """A model, the corpora, and the figures so far."""

    def __init__(self, model: str, pair: str, corpora: Path, most: int) -> None:
        self.translator = Translator.load(model)
        self.pair, self.corpora, self.most = pair, corpora, most
        self.languages = (pair[:2], pair[3:])
        self.rows: list[dict[str, object]] = []

    def read(self, corpus: str, prefix: str) -> tuple[list[list[str]], list[list[str]]]:
        """The documents of a test set: sources, references."""
        documents = list(read_documents(self.corpora / corpus, prefix, self.languages))
        documents = documents[: self.most] if self.most else documents
        return tuple([[line[side] for line in each] for each in documents] for side in (0, 1))

    def translate(
        self, sources: list[list[str]], known: Knowledge | None = None, *, shuffle: bool = False
    ) -> list[str]:
        """All translations, line by line; each sentence must have one."""
        return self.passes(sources, known, shuffle=shuffle)[-1]

    def passes(
        self, sources: list[list[str]], known: Knowledge | None = None, *, shuffle: bool = False
    ) -> list[list[str]]:
        """The translations of the sentence model, and after each pass over the documents."""
        config = replace(self.translator.config.search, shuffle_memory=shuffle)
        found = self.translator.translate_documents(sources, config, measure=False, known=known)
        most = max(len(document.history) for document in found)  # a settled document has fewer
        histories = [[*d.history, *[d.history[-1]] * (most - len(d.history))] for d in found]
        passes = [_flat(list(each)) for each in zip(*histories, strict=True)]
        texts = _flat(sources)
        empty = sum(not line for line, text in zip(passes[-1], texts, strict=True) if text)
        assert not empty, f"{empty} sentences without a translation"
        assert not any("<unk>" in line for line in passes[-1])
        return passes

    def add(self, name: str, system: str, lines: Sequence[str], references: Sequence[str]) -> None:
        """Score a system on a test set."""
        row: dict[str, object] = {"set": name, "system": system, "sentences": len(references)}
        for key, metric in (("bleu", sacrebleu.BLEU()), ("chrf", sacrebleu.CHRF())):
            score = metric.corpus_score(list(lines), [list(references)])
            row |= {key: round(score.score, 2), f"{key}_signature": str(metric.get_signature())}
        self.rows.append(row)
        print(f"| {name} | {system} | {row['bleu']:.1f} | {row['chrf']:.1f} |", flush=True)

    def domains(self) -> None:
        """The test sets of the corpora that it was trained on."""
        for corpus in CORPORA[self.pair]:
            sources, references = self.read(corpus, TESTS.get(corpus, "test"))
            wanted, passes = _flat(references), self.passes(sources)
            if self.translator.reads_documents:
                self.add(corpus, "its sentence model", passes[0], wanted)
                shuffled = self.translate(sources, shuffle=True)
                self.add(corpus, "box, another document's memory", shuffled, wanted)
            self.add(corpus, "box", passes[-1], wanted)

    def news(self) -> None:
        """News, and what other systems make of them."""
        for prefix in NEWS.get(self.pair, ()):
            sources, references = self.read(f"news-{self.pair}", prefix)
            wanted = _flat(references)
            self.add(prefix, "box", self.translate(sources), wanted)
            for peer in PEERS:
                file = self.corpora / f"peers-news-{self.pair}" / f"{prefix}.{peer}.en.gz"
                lines = gzip.decompress(file.read_bytes()).decode().split("\n")
                self.add(prefix, peer, lines[: len(wanted)], wanted)

    def team(self) -> None:
        """The documents of a team, with what that team has."""
        corpus = TEAMS[self.pair]
        sources, references = self.read(corpus, "test")
        approved = [{t: doc[t] for t in range(0, len(doc), 2)} for doc in references]
        rest = [t % 2 == 1 for document in references for t in range(len(document))]
        with tempfile.TemporaryDirectory() as folder:
            memory = self._build(corpus, Path(folder) / "memory")
            conditions = {
                "box": Knowledge(),
                "box, half approved": Knowledge(approved),
                "box, own memory": Knowledge(memories=(memory,)),
                "box, own memory, half approved": Knowledge(approved, (memory,)),
            }
            for name, known in conditions.items():
                lines = self.translate(sources, known)
                both = zip(lines, _flat(references), rest, strict=True)
                chosen = [(line, wanted) for line, wanted, scored in both if scored]
                self.add(f"{corpus}, every second sentence", name, *zip(*chosen, strict=True))

    def _build(self, corpus: str, path: Path) -> TranslationMemory:
        sides = (*self.languages, "doc")
        files = CorpusFiles(*(str(self.corpora / corpus / f"train.{side}.gz") for side in sides))
        with MemoryWriter.build(path, *self.languages) as writer:
            writer.add(read_corpus(files, *self.languages), corpus, "")
        return TranslationMemory.open(path)


def _flat(documents: list[list[str]]) -> list[str]:
    return [line for document in documents for line in document]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("pair", choices=CORPORA)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=0, help="of each set; 0: all")
    options = parser.parse_args()
    found = Evaluation(options.model, options.pair, options.corpora, options.documents)
    for part in (found.domains, found.team, found.news):
        part()
        text = json.dumps({"model": options.pair, "rows": found.rows}, indent=1)
        options.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
