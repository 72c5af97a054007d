"""How much of a memory's gain is copying: BLEU with exact matches copied, all else as without it.

    python bench/recall/exact.py --train SRC --src SRC --ref TRG \\
        --base FILE --copy FILE --recall FILE

``--train`` is the source side of the memory, ``--src`` that of the test set; ``--base``, ``--copy``
and ``--recall`` are the translations ``results/*/pass-0.txt.gz`` of an experiment.
"""

import argparse
import gzip
from pathlib import Path

import sacrebleu


def main() -> None:
    """Read the files, score, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("train", "src", "ref", "base", "copy", "recall"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    texts = {name: read_lines(path) for name, path in vars(options).items()}
    known, ref = set(texts["train"]), texts["ref"]
    exact = [line in known for line in texts["src"]]
    rows = list(zip(exact, texts["base"], texts["copy"], strict=True))
    words = [len(line.split()) for line in ref]
    share = sum(n for n, is_exact in zip(words, exact, strict=True) if is_exact) / sum(words)
    print(f"exact matches: {sum(exact):,} of {len(exact):,} sentences, {share:.0%} of the words")
    copied = [copy if is_exact else base for is_exact, base, copy in rows]
    rest = [n for n, is_exact in enumerate(exact) if not is_exact]
    for name, found in (*((n, texts[n]) for n in ("base", "recall")), ("exact copied", copied)):
        others = bleu([found[n] for n in rest], [ref[n] for n in rest])
        print(
            f"{name}: BLEU {bleu(found, ref):.2f}, on sentences without an exact match {others:.2f}"
        )


def bleu(found: list[str], ref: list[str]) -> float:
    return float(sacrebleu.corpus_bleu(found, [ref]).score)


def read_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8")
    return text.rstrip("\n").split("\n")


if __name__ == "__main__":
    main()
