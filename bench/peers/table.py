"""What ``run.py`` prints: a table of all contenders, the speeds of turns, and what to beware of."""

from itertools import product
from statistics import median
from typing import Any

PEERS = ("joeynmt", "opennmt", "pymarian")
TRAINED = ("wholedoc", "single")
"""wholedoc as it ships, and with all products of training in 32 bits."""
OURS = (*TRAINED, "export")
CONTENDERS = (*OURS, *PEERS)
TURN_STEPS = ("train", "decode")
"""Those whose speed is measured again in turns: training from the start, search with the model."""
BUSY = 0.9
"""A step that had less of a core than this waited for others, and its speed means nothing."""
OTHER_LENGTH = 0.25
"""Translations that are shorter or longer than the reference by more than this cost something else
per word, so that their words per second say little."""
Results = dict[str, dict[str, Any]]

COLUMNS = (
    ("training words/s", "train", "words_per_second", ".0f"),
    ("words an update", "train", "words_per_update", ".0f"),
    ("words seen", "train", "words", ",.0f"),
    ("seconds", "train", "seconds", ".0f"),
    ("RSS, MB", "train", "peak_rss_mb", ".0f"),
    ("cores", "train", "cores", ".2f"),
    ("dev perplexity", "score", "perplexity", ".2f"),
    ("decoding words/s", "decode", "words_per_second", ".0f"),
    ("sentences/s", "decode", "sentences_per_second", ".2f"),
    ("words/sentence", "decode", "words_per_sentence", ".1f"),
    ("RSS, MB", "decode", "peak_rss_mb", ".0f"),
    ("cores", "decode", "cores", ".2f"),
    ("BLEU", "bleu", "bleu", ".2f"),
    ("brevity", "bleu", "brevity", ".3f"),
)


def print_turns(turns: list[Results]) -> None:
    """Words per second of every turn, and the medians of the ratios inside the turns."""
    for step in TURN_STEPS:
        speeds = {
            name: [turn[name].get(step, {}).get("words_per_second") for turn in turns]
            for name in turns[0]
        }
        for name, found in speeds.items():
            if shown := ", ".join(f"{speed:.0f}" for speed in found if speed):
                print(f"{step}, in turn: {name} {shown} words/s")
        for ours, peer in product(OURS, PEERS):
            pairs = zip(speeds.get(ours, []), speeds.get(peer, []), strict=False)
            if ratios := [speed / other for speed, other in pairs if speed and other]:
                print(f"{step}, in turn: {ours} does {median(ratios):.2f} times {peer}'s words/s")


def print_table(results: Results) -> None:
    """One row for each measure, one column for each contender, in Markdown."""
    heads = [f"{name} {steps['version']}" for name, steps in results.items()]
    print("| | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for title, step, key, form in COLUMNS:
        cells = [format(s[step][key], form) if key in s[step] else "–" for s in results.values()]
        print(f"| {step}: {title} | " + " | ".join(cells) + " |")
    print()
    for step in ("train", "decode"):
        speeds = {name: s[step].get("words_per_second") for name, s in results.items()}
        for ours, peer in product(OURS, PEERS):
            if (speed := speeds.get(ours)) and (other := speeds.get(peer)):
                print(f"{step}: {ours} does {speed / other:.2f} times the words/s of {peer}")


def warn_of_waiting(results: Results) -> None:
    """Say which speeds were measured on a machine that had other work, or was paused."""
    for contender, steps in results.items():
        for step in TURN_STEPS:
            if (cores := steps.get(step, {}).get("cores", 1.0)) < BUSY:
                print(f"WARNING {contender}: {step} had {cores:.2f} of a core, measure it again")


def warn_of_lengths(results: Results, counts: dict[str, Any]) -> None:
    """Say whose translations are too short or too long for their speed to be compared."""
    reference = counts["test"]["trg"] / counts["test"]["pairs"]
    for contender, steps in results.items():
        length = steps["decode"].get("words_per_sentence", reference)
        if abs(length / reference - 1) > OTHER_LENGTH:
            print(
                f"WARNING {contender}: {length:.1f} words per translation, {reference:.1f} in the "
                "reference: do not compare its speed of decoding, train it longer"
            )
