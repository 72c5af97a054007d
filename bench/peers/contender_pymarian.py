"""Marian, through what the wheel ``pymarian`` holds: it trains, scores and decodes on the CPU.

Its first decoder layer is always a pair of GRU cells with the attention between them, so two cells
are all of its decoder here. It has no schedule that ends by the clock: the rate falls as an inverse
root after a shorter warm-up, as it gets through fewer updates.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import pymarian
from task import (
    RECIPE,
    Numbers,
    Task,
    decoding_numbers,
    perplexity_numbers,
    read_lines,
    run_step,
    training_numbers,
)

LEARNING_RATE = 0.004
"""Its training loss is lower than with 0.002 throughout the first 300 updates of Europarl."""
WARMUP = 100
BATCH = 8
"""Sentences decoded at once: of 2, 4, 8 and 16, the fastest on a CPU."""
PROGRESS = re.compile(r"after ([\d,]+) : Time ([\d.]+)s")


def command_line(task: Task, **options: object) -> list[str]:
    """Marian's options, with those that every command takes."""
    vocabulary = task.run / "tokens.yml"
    if not vocabulary.exists():
        entries = ["</s>", "<unk>", *read_lines(task.data / "tokens.txt")]
        text = "".join(f'"{entry}": {number}\n' for number, entry in enumerate(entries))
        vocabulary.write_text(text, encoding="utf-8")
    given = {
        "vocabs": f"{vocabulary} {vocabulary}",
        "cpu-threads": 1,
        "workspace": 512,
        **{name.replace("_", "-"): value for name, value in options.items()},
    }
    # The long form of -m differs from command to command.
    options = [part for name, value in given.items() for part in f"--{name} {value}".split()]
    return ["-m", str(task.run / "model.npz"), *options]


def corpus(task: Task, name: str) -> str:
    return f"{task.data / name}.src.tok {task.data / name}.trg.tok"


def train(task: Task) -> Numbers:
    """Train until the time is over; Marian saves when it is asked to end."""
    log = task.run / "train.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pymarian", "train"]
    command += command_line(
        task,
        train_sets=corpus(task, "train"),
        type="s2s",
        enc_type="bidirectional",
        enc_depth=1,
        dec_depth=1,
        dec_cell_base_depth=2,
        dim_emb=RECIPE.embedding,
        dim_rnn=RECIPE.hidden,
        tied_embeddings_all="",
        dropout_rnn=RECIPE.dropout,
        label_smoothing=RECIPE.label_smoothing,
        optimizer="adam",
        learn_rate=LEARNING_RATE,
        lr_warmup=WARMUP,
        lr_decay_inv_sqrt=4 * WARMUP,
        clip_norm=RECIPE.clip,
        mini_batch_words=RECIPE.batch_tokens,
        mini_batch_round_up="false",
        max_length=1000,
        shuffle_in_ram="",
        data_threads=1,
        seed=RECIPE.seed,
        after="1000000e",
        disp_freq="1u",
        save_freq="1000000u",
        overwrite="",
        log=log,
        quiet="",
    )
    process = subprocess.Popen(command)
    wait_for(process, log, "Training started")
    try:
        process.wait(task.seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
    process.wait()  # its exit code is that of a process that was ended
    if "Saving training checkpoint" not in log.read_text(encoding="utf-8"):
        raise SystemExit(f"Marian did not train to the end of its time, see {log}")
    updates = marks(log)
    return training_numbers(updates, len(updates))


def wait_for(process: "subprocess.Popen[bytes]", log: Path, text: str) -> None:
    """Until ``text`` stands in the log."""
    while not log.exists() or text not in log.read_text(encoding="utf-8"):
        if process.poll() is not None:
            raise SystemExit(f"Marian ended early, see {log}")
        time.sleep(0.2)


def marks(log: Path) -> list[tuple[float, int]]:
    """Seconds and target words so far, at each line of progress."""
    found, seconds = [], 0.0
    for words, took in PROGRESS.findall(log.read_text(encoding="utf-8")):
        seconds += float(took)
        found.append((seconds, int(words.replace(",", ""))))
    return found


def score(task: Task) -> Numbers:
    """Log-probabilities of all words of the references."""
    command = [sys.executable, "-m", "pymarian", "score"]
    command += command_line(task, train_sets=corpus(task, "dev"), word_scores="", quiet="")
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    words = [
        float(value)
        for line in output.splitlines()
        for value in line.split("WordScores=")[1].split()
    ]
    return perplexity_numbers(-sum(words), len(words))


def decode(task: Task) -> Numbers:
    """Beam search over the test set, in 32 bits."""
    options = command_line(
        task,
        beam_size=RECIPE.beam,
        normalize=1,
        mini_batch=BATCH,
        maxi_batch=100,
        maxi_batch_sort="src",
        max_length_factor=2,
        quiet="",
        quiet_translation="",
    )
    translator = pymarian.Translator(" ".join(options))
    source = read_lines(task.data / "test.src.tok")
    translator.translate(source[0])  # builds what is built once
    begun = time.monotonic()
    output = translator.translate("\n".join(source))
    seconds = time.monotonic() - begun
    return decoding_numbers(task.run, output.split("\n"), seconds)


if __name__ == "__main__":
    run_step({"train": train, "score": score, "decode": decode})
