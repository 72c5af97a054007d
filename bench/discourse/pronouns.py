"""German pronouns in the shape of ctxpro: `python bench/discourse/pronouns.py CORPORA OUT`.

From the news test sets come sentences with one *er*, *ihn* or *sie*, no other pronoun that could be
meant, and one of *he, him, she, her, it* in the reference: is a person meant or a thing? Unlike
ctxpro's set on animacy, this one expects all of them. A rule of a few lines found the sentences, so
many do not need their context. OUT gets `pronouns.de-en.json` and the text, `pronouns.de-en`, for
`wholedoc score`. What other systems made of the same sentences is counted by the same rule and
printed as JSON.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wholedoc.metrics.discourse_sets import read_ctxpro
from wholedoc.metrics.scoring import ItemTranslation, count_right

SETS = ("newstest2009", "newstest2011", "newstest2016")
PEERS = ("bergamot-tiny", "bergamot-base", "google", "microsoft")
FORMS = {"er": {"he", "it"}, "ihn": {"him", "it"}, "sie": {"she", "her", "it"}}
OTHER_PRONOUNS = {"es", "ihr", "ihm", "ihnen", "man", "dies", "das"}
ENGLISH_PRONOUNS = {"he", "him", "she", "her", "it", "they", "them", "this", "you"}
BEFORE = 9  # sentences: with the one meant, ten in a line, as ctxpro has them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpora", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    examples: list[dict[str, Any]] = []
    lines: list[str] = []
    for name in SETS:
        for example, context in find_examples(arguments.corpora / "news-de-en", name):
            examples.append(example)
            lines.append("<eos> ".join(context) + "\n")
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = arguments.out / "pronouns.de-en"
    annotations = arguments.out / "pronouns.de-en.json"
    text.write_text("".join(lines), encoding="utf-8")
    annotations.write_text(json.dumps(examples, ensure_ascii=False, indent=2), encoding="utf-8")
    print(json.dumps(score_peers(arguments.corpora, annotations, text), indent=2))


def find_examples(corpus: Path, name: str) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Sentences that qualify, each with the sentences before it in its document."""
    sides = [read_lines(corpus / f"{name}.{part}.gz") for part in ("de", "en", "doc")]
    document: list[str] = []
    last = None
    for index, (src, trg, identity) in enumerate(zip(*sides, strict=True)):
        document = [*document, src][-1 - BEFORE :] if identity == last else [src]
        last = identity
        if found := find_pronoun(src, trg):
            pronoun, expected = found
            yield (
                {
                    "expected": expected,
                    "src pronoun": pronoun,
                    "src segment": src,
                    "ref segment": trg,
                    "segment id": index,  # in the set, from 0: line by line with other outputs
                    "document id": f"{name}/{identity}",
                    "rule": f"{pronoun} {expected}",
                },
                document,
            )


def find_pronoun(src: str, trg: str) -> tuple[str, str] | None:
    """The pronoun that may be a person or a thing, and what the reference has for it."""
    words = re.findall(r"\w+", src)
    if "Sie" in words[1:]:  # the polite form
        return None
    lowered = [word.lower() for word in words]
    found = [word for word in lowered if word in FORMS]
    forms = [word for word in re.findall(r"\w+", trg.lower()) if word in ENGLISH_PRONOUNS]
    if len(found) != 1 or len(forms) != 1 or OTHER_PRONOUNS & set(lowered):
        return None
    return (found[0], forms[0]) if forms[0] in FORMS[found[0]] else None


def score_peers(corpora: Path, annotations: Path, text: Path) -> dict[str, Any]:
    """The accuracy of other systems on the examples."""
    items = read_ctxpro(annotations, text)
    examples = json.loads(annotations.read_text(encoding="utf-8"))
    scores = {}
    for peer in PEERS:
        folder = corpora / "peers-news-de-en"
        outputs = {name: read_lines(folder / f"{name}.{peer}.en.gz") for name in SETS}
        made: list[ItemTranslation] = []
        for item, example in zip(items, examples, strict=True):
            name = example["document id"].partition("/")[0]
            made.append(ItemTranslation(item, outputs[name][example["segment id"]]))
        scores[peer] = count_right(made).to_json()
        del scores[peer]["context"]  # not known
    return scores


def read_lines(path: Path) -> Sequence[str]:
    """The lines of a gzipped file."""
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        return [line.rstrip("\n") for line in stream]


if __name__ == "__main__":
    main()
