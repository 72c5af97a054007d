"""Subwords, vocabulary and length-bucketed training text for Joey NMT: ``prepare.py DATA``."""

import random
import sys
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

BATCH_TOKENS = 1024  # training.batch_size of gru.yaml
PASSES = 40
LONGEST = 100  # data.*.max_length of gru.yaml


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def write_pairs(stem: Path, pairs: Iterable[tuple[str, str]]) -> None:
    src, trg = zip(*pairs, strict=True)
    for side, lines in (("et", src), ("en", trg)):
        stem.with_suffix(f".{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")


def train_subwords(data: Path) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.SentencePieceTrainer.train(
        input=[str(data / "train.et"), str(data / "train.en")],
        model_prefix=str(data / "joint"),
        vocab_size=4000,
        model_type="unigram",
        normalization_rule_name="identity",
        byte_fallback=True,
        character_coverage=0.9995,
        pad_id=1,
        unk_id=0,
        bos_id=2,
        eos_id=3,
        num_threads=1,
        max_sentence_length=100_000,
    )
    subwords = sentencepiece.SentencePieceProcessor(model_file=str(data / "joint.model"))
    pieces = [subwords.id_to_piece(i) for i in range(subwords.get_piece_size())]
    (data / "joint.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return subwords


def bucketed_pass(
    pairs: list[tuple[int, str, str]], generator: random.Random
) -> list[tuple[str, str]]:
    """Pairs in blocks of like length, each of which Joey NMT's batch rule closes exactly."""
    blocks: list[list[tuple[int, str, str]]] = [[]]
    for pair in sorted(pairs, key=lambda pair: pair[0] + 2 * generator.random()):
        blocks[-1].append(pair)
        if max(length for length, _, _ in blocks[-1]) * len(blocks[-1]) >= BATCH_TOKENS:
            blocks.append([])
    last = blocks[-1]
    while last and max(length for length, _, _ in last) * len(last) < BATCH_TOKENS:
        last.append(generator.choice(last))  # repeats, so that the last block closes too
    generator.shuffle(blocks)
    return [(src, trg) for block in blocks for _, src, trg in block]


def main() -> None:
    data = Path(sys.argv[1])
    subwords = train_subwords(data)
    sides = zip(read(data / "train.et"), read(data / "train.en"), strict=True)
    pairs = [
        (max(len(subwords.encode(src)), len(subwords.encode(trg))) + 1, src, trg)
        for src, trg in sides
    ]
    pairs = [pair for pair in pairs if pair[0] <= LONGEST + 1]
    generator = random.Random(1)
    write_pairs(
        data / "train_bucketed",
        [pair for _ in range(PASSES) for pair in bucketed_pass(pairs, generator)],
    )
    # In order of length, which only makes validation cheaper.
    dev = zip(read(data / "dev.et"), read(data / "dev.en"), strict=True)
    write_pairs(data / "dev_sorted", sorted(dev, key=lambda pair: len(subwords.encode(pair[0]))))


main()
