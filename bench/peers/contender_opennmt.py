"""OpenNMT-py: its training step is wrapped, for the clock and the learning rate.

Encoder and decoder must have the same width and depth there, so two layers stand on either side and
the 256 of the encoder are those of both directions: less to compute than in the other models.
"""

import functools
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
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
)

LEARNING_RATE = 0.002
BATCH_TOKENS = 1020
"""With 1,000 its batches would hold somewhat fewer words than wholedoc's do."""

for unused in ("spacy", "fasttext"):  # imported for transforms that nothing here asks for
    sys.modules[unused] = ModuleType(unused)
# Its checkpoints hold options beside tensors, which a current torch refuses unless told otherwise.
torch.load = functools.partial(torch.load, weights_only=False)

from onmt.bin import train as train_command  # noqa: E402 (after what it needs)
from onmt.bin import translate as translate_command  # noqa: E402
from onmt.inference_engine import InferenceEnginePY  # noqa: E402
from onmt.trainer import Trainer  # noqa: E402
from onmt.utils.optimizers import Optimizer  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402


def settings(task: Task) -> Path:
    """Write OpenNMT-py's configuration; JSON is YAML."""
    tokens = str(task.data / "tokens.txt")
    corpora = {
        name: {side: str(task.data / f"{stem}.{ours}.tok") for side, ours in SIDES}
        for name, stem in (("corpus_1", "train"), ("valid", "dev"))
    }
    config = {
        "data": corpora,
        "src_vocab": tokens,
        "tgt_vocab": tokens,
        "share_vocab": True,
        "save_model": str(task.run / "model"),
        "seed": RECIPE.seed,
        "num_workers": 0,
        "bucket_size": len(read_lines(task.data / "train.src")),
        "batch_type": "tokens",
        "batch_size": BATCH_TOKENS,
        "valid_batch_size": BATCH_TOKENS,
        "normalization": "tokens",
        "encoder_type": "brnn",
        "decoder_type": "rnn",
        "rnn_type": "GRU",
        "layers": 2,
        "word_vec_size": RECIPE.embedding,
        "hidden_size": RECIPE.hidden,
        "global_attention": "mlp",
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "optim": "adam",
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": RECIPE.clip,
        "label_smoothing": RECIPE.label_smoothing,
        "dropout": [RECIPE.dropout],
        "train_steps": 10**9,
        "valid_steps": 10**9,
        "save_checkpoint_steps": 10**9,
        "report_every": 100,
    }
    path = task.run / "opennmt.yaml"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return path


SIDES = (("path_src", "src"), ("path_tgt", "trg"))


class TimeIsOver(Exception):  # noqa: N818 (the way out of a loop, not an error)
    """Training has had its time."""


def train(task: Task) -> Numbers:
    """Train until the time is over, then save, and keep the dev set's statistics for ``score``."""
    meter = Meter(task.seconds, LEARNING_RATE)
    update, train_loop = Trainer._gradient_accumulation, Trainer.train

    def timed_update(self: Any, batches: Any, *rest: Any) -> None:
        padding = self.train_loss.padding_idx
        words = sum(int(batch["tgt"][:, 1:, 0].ne(padding).sum()) for batch in batches)
        if not meter.begin(words):
            raise TimeIsOver
        update(self, batches, *rest)

    def timed_loop(self: Any, *args: Any, valid_iter: Any, **options: Any) -> None:
        try:
            train_loop(self, *args, valid_iter=valid_iter, **options)
        except TimeIsOver:
            stats = self.validate(valid_iter)
            dev = perplexity_numbers(stats.loss, int(stats.n_words))
            (task.run / "dev.json").write_text(json.dumps(dev), encoding="utf-8")
            self.model_saver.save(0)

    Trainer._gradient_accumulation = timed_update
    Trainer.train = timed_loop
    Optimizer.learning_rate = lambda _: meter.learning_rate()
    options = train_command._get_parser().parse_args(["-config", str(settings(task))])
    train_command.train(options)
    return meter.numbers()


def score(task: Task) -> Numbers:
    """What OpenNMT-py's own validation gave after the last update; it has no label smoothing."""
    numbers: Numbers = json.loads((task.run / "dev.json").read_text(encoding="utf-8"))
    return numbers


def decode(task: Task) -> Numbers:
    """Beam search over the test set."""
    flags = {
        "model": task.run / "model_step_0.pt",
        "src": task.data / "test.src.tok",
        "output": task.run / "test.opennmt",
        "gpu": -1,
        "beam_size": RECIPE.beam,
        "length_penalty": "avg",
        "batch_size": DECODING_BATCH,
        "batch_type": "sents",
    }
    arguments = [text for name, value in flags.items() for text in (f"-{name}", str(value))]
    options = translate_command._get_parser().parse_args(arguments)
    ArgumentParser.validate_translate_opts(options)
    ArgumentParser._get_all_transform_translate(options)
    ArgumentParser._validate_transforms_opts(options)
    ArgumentParser.validate_translate_opts_dynamic(options)
    engine = InferenceEnginePY(options)
    begun = time.monotonic()
    _, output = engine.infer_file()
    seconds = time.monotonic() - begun
    return decoding_numbers(task.run, [best[0].strip() for best in output], seconds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_step({"train": train, "score": score, "decode": decode})
