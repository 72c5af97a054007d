"""Train Joey NMT for a given time and test its best checkpoint.

``train.py CONFIG DATA OUT --minutes N``. Nothing in Joey NMT is changed; two methods of its
training loop are wrapped: one ends training when the time is over, counted from the first step,
the other notes each validation in ``OUT/curve.json``, its perplexity without label smoothing.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from joeynmt import training
from joeynmt.config import load_config
from joeynmt.helpers import make_model_dir
from joeynmt.helpers_for_ddp import get_logger
from joeynmt.prediction import test


class Clock:
    """When training began, when it must end, and its validations so far."""

    def __init__(self, seconds: float, curve: Path) -> None:
        self.seconds = seconds
        self.curve = curve
        self.begun: float | None = None
        self.points: list[dict[str, float]] = []

    def elapsed(self) -> float:
        """Seconds since the first call."""
        if self.begun is None:
            self.begun = time.time()
        return time.time() - self.begun


def wrap_training(clock: Clock) -> None:
    manager = training.TrainManager
    step, validate, predict = manager._train_step, manager._validate, training.predict
    scores: dict[str, float] = {}

    def noting_predict(*args: Any, **options: Any) -> Any:
        result = predict(*args, **options)
        scores.update(result[0])
        return result

    def noting_validate(self: Any, valid_data: Any) -> None:
        seconds = clock.elapsed()
        self.model.loss_function = ("crossentropy", 0.0)
        validate(self, valid_data)
        self.model.loss_function = ("crossentropy", self.args.label_smoothing)
        clock.points.append(
            {
                "seconds": round(seconds, 1),
                "perplexity": scores["ppl"],
                "bleu": scores["bleu"],
                "target_tokens": self.stats.total_tokens,
            }
        )
        clock.curve.write_text(json.dumps(clock.points, indent=1))

    def timed_step(self: Any, batch: Any) -> Any:
        if clock.elapsed() >= clock.seconds:
            raise KeyboardInterrupt  # Joey NMT's own way to stop
        return step(self, batch)

    training.predict = noting_predict
    manager._validate = noting_validate
    manager._train_step = timed_step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, required=True)
    options = parser.parse_args()

    def configuration() -> dict[str, Any]:
        text = Path(options.config).read_text(encoding="utf-8")
        filled = options.data / "joey.yaml"
        filled.write_text(text.replace("DATA", str(options.data.resolve())), encoding="utf-8")
        config: dict[str, Any] = load_config(str(filled))
        config["model_dir"] = str(options.out)
        return config

    make_model_dir(options.out, overwrite=False)
    get_logger("", log_file=str(options.out / "train.log"))
    wrap_training(Clock(60 * options.minutes, options.out / "curve.json"))
    training.train(rank=0, world_size=None, cfg=configuration(), skip_test=True)
    config = configuration()
    config["data"].pop("dev")
    test(config, output_path=str(options.out / "best"))
    score = [sys.executable, "-m", "sacrebleu", str(options.data / "test.en")]
    subprocess.run(
        [*score, "-i", str(options.out / "best.test"), "-m", "bleu", "-w", "2"], check=True
    )


main()
