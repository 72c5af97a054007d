"""Joey NMT: two methods of its training loop are wrapped, for the clock and the learning rate.

Its batches take sentences as they come, so the training text is laid out for it in blocks of like
length: else more than half of its work is padding.
"""

import json
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from joeynmt import training
from joeynmt.config import load_config, parse_global_args
from joeynmt.helpers import make_model_dir
from joeynmt.helpers_for_ddp import get_logger
from joeynmt.prediction import predict, prepare
from task import (
    DECODING_BATCH,
    RECIPE,
    Meter,
    Numbers,
    Task,
    decoding_numbers,
    perplexity_numbers,
    read_lines,
    run_step,
    write_lines,
)

LEARNING_RATE = 0.004
"""Better than 0.002 in twenty minutes of Europarl."""
BATCH_TOKENS = 940
"""Its batches go over this; with 1,000 they would hold more words than wholedoc's do."""
Pairs = list[tuple[str, str]]
Layout = Callable[[Pairs, random.Random], Pairs]
PASSES = 2
"""Orders of the training text that are laid out; few, as Joey NMT keeps all of its text in RAM."""


def settings(task: Task, training_text: str) -> Path:
    """Write Joey NMT's configuration; JSON is YAML."""
    side = {
        "max_length": -1,
        "lowercase": False,
        "normalize": False,
        "level": "word",
        "voc_file": str(task.data / "tokens.txt"),
    }
    embeddings = {"embedding_dim": RECIPE.embedding, "scale": False}
    layer = {
        "type": "recurrent",
        "rnn_type": "gru",
        "hidden_size": RECIPE.hidden,
        "dropout": RECIPE.dropout,
    }
    config = {
        "name": "peers",
        "joeynmt_version": "2.3.0",
        "model_dir": str(task.run / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": RECIPE.seed,
        "data": {
            "train": training_text,
            "dev": str(task.run / "dev"),
            "test": str(task.run / "test"),
            "dataset_type": "plain",
            "src": {**side, "lang": "src"},
            "trg": {**side, "lang": "trg"},
        },
        "testing": {
            "n_best": 1,
            "beam_size": RECIPE.beam,
            "beam_alpha": 1.0,
            "batch_size": DECODING_BATCH,
            "batch_type": "sentence",
            "max_output_length": -1,
            "eval_metrics": [],
            "load_model": str(task.run / "model" / "latest.ckpt"),
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.999],
            "learning_rate": LEARNING_RATE,
            "scheduling": "exponential",
            "decrease_factor": 1.0,
            "weight_decay": 0.0,
            "clip_grad_norm": RECIPE.clip,
            "loss": "crossentropy",
            "label_smoothing": RECIPE.label_smoothing,
            "normalization": "tokens",
            "batch_size": BATCH_TOKENS,
            "batch_type": "token",
            "early_stopping_metric": "ppl",
            "epochs": 10**6,
            "validation_freq": 10**9,
            "logging_freq": 100,
            "shuffle": False,
            "print_valid_sents": [],
        },
        "model": {
            "initializer": "xavier_uniform",
            "bias_initializer": "zeros",
            "embed_initializer": "normal",
            "embed_init_weight": 0.2,
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**layer, "embeddings": embeddings, "bidirectional": True, "num_layers": 1},
            "decoder": {
                **layer,
                "embeddings": embeddings,
                "hidden_dropout": RECIPE.dropout,
                "num_layers": 2,
                "input_feeding": True,
                "init_hidden": "bridge",
                "attention": "bahdanau",
            },
        },
    }
    path = task.run / "joeynmt.yaml"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return path


def lay_out(task: Task, order_text: Layout) -> str:
    """The training text in the order it is to have, dev and test text in order of length."""
    for name in ("dev", "test"):
        order = by_length(task, name)
        for side in ("src", "trg"):
            lines = read_lines(task.data / f"{name}.{side}.tok")
            write_lines(task.run / f"{name}.{side}", [lines[t] for t in order])
    src, trg = (read_lines(task.data / f"train.{side}.tok") for side in ("src", "trg"))
    pairs = list(zip(src, trg, strict=True))
    generator = random.Random(RECIPE.seed)
    ordered = [pair for _ in range(PASSES) for pair in order_text(pairs, generator)]
    for side, lines in zip(("src", "trg"), zip(*ordered, strict=True), strict=True):
        write_lines(task.run / f"train.{side}", list(lines))
    return str(task.run / "train")


def by_length(task: Task, name: str) -> list[int]:
    """The order in which a set is given to Joey NMT, which makes batches of what comes next."""
    lengths = [len(line.split()) for line in read_lines(task.data / f"{name}.src.tok")]
    return sorted(range(len(lengths)), key=lengths.__getitem__)


def blocks(pairs: Pairs, generator: random.Random) -> Pairs:
    """One pass over the text in blocks, each of which Joey NMT's batch rule closes exactly."""
    sized = [(1 + max(len(src.split()), len(trg.split())), src, trg) for src, trg in pairs]
    found: list[list[tuple[int, str, str]]] = [[]]
    for pair in sorted(sized, key=lambda pair: pair[0] + 2 * generator.random()):
        found[-1].append(pair)
        if is_full(found[-1]):
            found.append([])
    last = found[-1]
    while last and not is_full(last):
        last.append(generator.choice(last))  # repeats, so that the last block closes too
    generator.shuffle(found)
    return [(src, trg) for block in found for _, src, trg in block]


def shuffled(pairs: Pairs, generator: random.Random) -> Pairs:
    """One pass over the text in random order, as Joey NMT makes it by itself."""
    return generator.sample(pairs, len(pairs))


def is_full(block: list[tuple[int, str, str]]) -> bool:
    return max(length for length, _, _ in block) * len(block) >= BATCH_TOKENS


def train(task: Task, order_text: Layout = blocks) -> Numbers:
    """Train until the time is over, then save."""
    meter = Meter(task.seconds, LEARNING_RATE)
    step = training.TrainManager._train_step

    def timed_step(self: Any, batch: Any) -> Any:
        if not meter.begin(int(batch.ntokens)):
            raise KeyboardInterrupt  # Joey NMT's own way to stop
        for group in self.optimizer.param_groups:
            group["lr"] = meter.learning_rate()
        return step(self, batch)

    training.TrainManager._train_step = timed_step
    make_model_dir(task.run / "model", overwrite=True)
    get_logger("", log_file=str(task.run / "model" / "train.log"))
    config = load_config(str(settings(task, lay_out(task, order_text))))
    training.train(rank=0, world_size=None, cfg=config, skip_test=True)
    return meter.numbers()


def train_as_shipped(task: Task) -> Numbers:
    """Train without the help of like lengths, to see what it is worth."""
    return train(task, shuffled)


def load(task: Task) -> tuple[Any, Any, Any, Any]:
    """The configuration, the trained model, the dev and the test set."""
    config = load_config(str(task.run / "joeynmt.yaml"))
    args = parse_global_args(config, rank=0, mode="test")
    model, _, dev, test = prepare(args, rank=0, mode="test")
    return args, model, dev, test


def score(task: Task) -> Numbers:
    """Joey NMT's scores of the references, without label smoothing."""
    args, model, dev, _ = load(task)
    model.loss_function = ("crossentropy", 0.0)
    scores, *_ = predict(
        model=model,
        data=dev,
        compute_loss=True,
        device=args.device,
        n_gpu=0,
        normalization="none",
        args=args.test._replace(return_prob="ref", beam_size=1),
        autocast=args.autocast,
    )
    return perplexity_numbers(scores["loss"], round(scores["loss"] / math.log(scores["ppl"])))


def decode(task: Task) -> Numbers:
    """Beam search over the test set."""
    args, model, _, test = load(task)
    begun = time.monotonic()
    _, _, _, output, _, _ = predict(
        model=model,
        data=test,
        device=args.device,
        n_gpu=0,
        args=args.test,
        autocast=args.autocast,
    )
    seconds = time.monotonic() - begun
    lines = [""] * len(output)
    for t, row in zip(by_length(task, "test"), output, strict=True):
        lines[t] = " ".join(token for token in row if token.startswith("w"))
    return decoding_numbers(task.run, lines, seconds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_step(
        {"train": train, "train-as-shipped": train_as_shipped, "score": score, "decode": decode}
    )
