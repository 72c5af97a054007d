"""What a neighbour's memory is worth: one model, several memories, one test set.

    python bench/recall/neighbour.py RUN --tm own=TM --tm neighbour=TM --test SRC TRG DOC --out DIR

Translates the test set with no memory, with each memory by itself, with all of them, with the
approved sentences before each sentence, and with everything. Writes the translations and
``scores.json``, as ``wholedoc evaluate`` would: all scores, and tests against no memory.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from wholedoc import Knowledge, TranslationMemory, Translator
from wholedoc.config import CorpusFiles
from wholedoc.corpus.documents import Document
from wholedoc.corpus.readers import read_corpus
from wholedoc.metrics.evaluation import compare, format_comparison
from wholedoc.metrics.scores import EvaluationSet


def main() -> None:
    """Read the arguments, translate, score, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--tm", action="append", default=[], metavar="NAME=TM")
    parser.add_argument("--test", nargs=3, metavar=("SRC", "TRG", "DOC"), required=True)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    translator = Translator.load(options.model, own_memory=False)
    data, search = translator.config.data, replace(translator.config.search, beam=options.beam)
    test = list(read_corpus(CorpusFiles(*options.test), data.src_language, data.trg_language))
    named = dict(each.split("=", 1) for each in options.tm)
    memories = {name: TranslationMemory.open(path) for name, path in named.items()}
    sources = [[pair.src for pair in document] for document in test]
    systems = {}
    for name, known in conditions(memories, test).items():
        known = replace(known, protect=False)  # the systems as they are
        found = translator.translate_documents(sources, search, measure=False, known=known)
        lines = [line for document in found for line in document.sentences]
        file = options.out / f"{name.replace(' + ', '-')}.{data.trg_language}"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        systems[name] = [lines]
    references = [pair.trg for document in test for pair in document]
    scored = EvaluationSet(references, list(map(len, test)), lang=data.trg_language)
    comparison = compare(scored, systems, without=["meteor"])
    text = json.dumps(comparison.to_json(), indent=1, ensure_ascii=False)
    (options.out / "scores.json").write_text(f"{text}\n", encoding="utf-8")
    print(format_comparison(comparison, 120))


def conditions(
    memories: dict[str, TranslationMemory], test: list[Document]
) -> dict[str, Knowledge]:
    """What is known in each translation of the test set."""
    approved = [{t: pair.trg for t, pair in enumerate(document)} for document in test]
    every = tuple(memories.values())
    return {
        "nothing": Knowledge(),
        **{name: Knowledge(memories=(memory,)) for name, memory in memories.items()},
        " + ".join(memories): Knowledge(memories=every),
        "approved": Knowledge(approved, rehearse=True),
        " + ".join((*memories, "approved")): Knowledge(approved, every, rehearse=True),
    }


if __name__ == "__main__":
    main()
