"""Join the corpora of a model in the box: `python bench/box/corpus.py de-en CORPORA OUT`.

CORPORA is the folder that holds them, each as PREFIX.LANGUAGE.gz and PREFIX.doc.gz. OUT gets one
training set (`train`), more sentences for stage 1 (`extra`), a dev set with as many documents of
each domain as make some 300 sentences (`dev`), and all test sets (`test`). Half of europarl-de-en's
dev set is not German: its share of dev are the last training documents instead, which are then not
trained on. Document names begin with their corpus.
"""

import gzip
import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

CORPORA = {
    "de-en": (
        "dynamics365-de-en",
        "dotnet-docs-de-en",
        "php-manual-de-en",
        "gnome-help-de-en",
        "libreoffice-help-de-en",
        "europarl-de-en",
    ),
    "et-en": ("dynamics365-et-en", "libreoffice-help-et-en", "europarl-et-en"),
}
DEV_SENTENCES = 300
DEV_FROM_TRAINING = {"europarl-de-en": 25}
TESTS = {"europarl-de-en": "test-europarl7"}  # two in five lines of its test set are not German

Line = tuple[str, str, str]
"""A source sentence, its translation, the name of its document."""
Document = list[Line]


def read_documents(folder: Path, prefix: str, languages: tuple[str, str]) -> Iterator[Document]:
    """The documents of one set; nothing where the corpus has no such set."""
    paths = [folder / f"{prefix}.{side}.gz" for side in (*languages, "doc")]
    if not paths[0].exists():
        return
    columns = [gzip.decompress(path.read_bytes()).decode().split("\n")[:-1] for path in paths]
    lines = ((s.strip(), t.strip(), d.strip()) for s, t, d in zip(*columns, strict=True))
    for _, document in itertools.groupby(lines, key=lambda line: line[2]):
        yield [(src, trg, f"{folder.name}/{name}") for src, trg, name in document]


def take_sentences(documents: Iterable[Document], sentences: int) -> list[Document]:
    """Whole documents until there are so many sentences."""
    taken: list[Document] = []
    for document in documents:
        if sum(map(len, taken)) >= sentences:
            break
        taken.append(document)
    return taken


def write_documents(out: Path, languages: tuple[str, str], documents: list[Document]) -> None:
    """Write the three line-aligned files of a set."""
    lines = [line for document in documents for line in document]
    for column, side in enumerate((*languages, "doc")):
        with gzip.open(f"{out}.{side}.gz", "wt", encoding="utf-8", newline="\n") as file:
            file.writelines(line[column] + "\n" for line in lines)
    print(f"{out.name}: {len(documents)} documents, {len(lines)} sentences")


def main() -> None:
    pair, corpora, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    src, _, trg = pair.partition("-")
    languages = (src, trg)
    sets: dict[str, list[Document]] = {"train": [], "dev": [], "extra": [], "test": []}
    for name in CORPORA[pair]:
        train = list(read_documents(corpora / name, "train", languages))
        dev = take_sentences(read_documents(corpora / name, "dev", languages), DEV_SENTENCES)
        if held_out := DEV_FROM_TRAINING.get(name):
            train, dev = train[:-held_out], train[-held_out:]
        sets["train"] += train
        sets["dev"] += dev
        sets["test"] += read_documents(corpora / name, TESTS.get(name, "test"), languages)
        sets["extra"] += read_documents(corpora / name, "extra-sentences", languages)
    out.mkdir(parents=True, exist_ok=True)
    for name, documents in sets.items():
        if documents:
            write_documents(out / name, languages, documents)


if __name__ == "__main__":
    main()
