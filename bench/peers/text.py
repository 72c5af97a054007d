"""The text of a comparison, with wholedoc's subwords; runs in wholedoc's environment.

``text.py prepare SPEC DATA`` writes what ``task.py`` describes; ``text.py encode VOCABULARY IN
OUT`` names a text's subwords; ``text.py bleu DATA RUN RESULT`` scores the translations of a run.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from sacrebleu.metrics import BLEU
from task import LONGEST, read_lines, write_lines

from wholedoc.config import VocabularyConfig, load_config
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import (
    SPECIALS,
    Vocabulary,
    build_vocabularies,
    load_vocabulary,
)

SIDES = ("src", "trg")


def read_text(path: Path) -> list[str]:
    """The lines of a file, plain or gzipped."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8").removesuffix("\n").split("\n")


def read_pairs(spec: dict[str, Any], longest: int) -> tuple[list[tuple[str, str]], int]:
    """Pairs whose sides have 1 to ``longest`` words, and how many have not."""
    src, trg = (read_text(Path(spec[side])) for side in SIDES)
    if len(src) != len(trg):
        sys.exit(f"{spec['src']} has {len(src)} lines, {spec['trg']} has {len(trg)}")
    pairs = list(zip(src, trg, strict=True))[: spec["limit"] or None]
    kept = [pair for pair in pairs if all(1 <= len(text.split()) <= longest for text in pair)]
    return kept, len(pairs) - len(kept)


def name_subwords(vocabulary: Vocabulary, text: str) -> str:
    return " ".join(f"w{number}" for number in vocabulary.encode(text))


def learn_vocabulary(pairs: list[tuple[str, str]]) -> Vocabulary:
    """What ``wholedoc train small`` learns from this text."""
    config: VocabularyConfig = load_config("small").vocabulary
    document = Document("train", tuple(SentencePair(src, trg) for src, trg in pairs))
    return build_vocabularies([document], config, "", "")[0]


def prepare(spec_file: Path, data: Path) -> None:
    """Write text and tokens of all sets, the vocabulary, and last the counts."""
    spec = json.loads(spec_file.read_text(encoding="utf-8"))
    data.mkdir(parents=True, exist_ok=True)
    limits = {"train": LONGEST, "dev": sys.maxsize, "test": sys.maxsize}
    sets = {name: read_pairs(spec[name], longest) for name, longest in limits.items()}
    vocabulary = learn_vocabulary(sets["train"][0])
    vocabulary.save(data / "vocabulary")
    ordinary = range(len(SPECIALS), len(vocabulary))
    write_lines(data / "tokens.txt", [f"w{number}" for number in ordinary])
    counts: dict[str, Any] = {"subwords": len(vocabulary)}
    for name, (pairs, left_out) in sets.items():
        counts[name] = {"pairs": len(pairs), "left_out": left_out}
        for side, lines in zip(SIDES, zip(*pairs, strict=True), strict=True):
            tokens = [name_subwords(vocabulary, line) for line in lines]
            write_lines(data / f"{name}.{side}", list(lines))
            write_lines(data / f"{name}.{side}.tok", tokens)
            counts[name][side] = sum(len(line.split()) + 1 for line in tokens)
    manifest = {"spec": spec, "counts": counts}
    (data / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def encode(vocabulary_file: Path, source: Path, output: Path) -> None:
    """Name the subwords of each line."""
    vocabulary = load_vocabulary(vocabulary_file)
    write_lines(output, [name_subwords(vocabulary, line) for line in read_lines(source)])


def bleu(data: Path, run: Path, result: Path) -> None:
    """BLEU of a run's translations, joined to text where they are subwords."""
    text = run / "test.txt"
    if not text.exists():
        vocabulary = load_vocabulary(data / "vocabulary")
        tokens = [line.split() for line in read_lines(run / "test.tok")]
        decoded = [vocabulary.decode([int(name[1:]) for name in line]) for line in tokens]
        write_lines(text, [" ".join(line.split("\n")) for line in decoded])
    metric = BLEU()
    score = metric.corpus_score(read_lines(text), [read_lines(data / "test.trg")])
    length = {"brevity": score.sys_len / score.ref_len}
    found = {"bleu": score.score, **length, "signature": str(metric.get_signature())}
    result.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    commands = {"prepare": prepare, "encode": encode, "bleu": bleu}
    commands[sys.argv[1]](*map(Path, sys.argv[2:]))
