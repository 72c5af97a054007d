"""Curves of what ``wholedoc bench --json`` measured: ``curves.py bench.json docs/bench.png``.

It needs matplotlib, which the toolkit itself does not.
"""

import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt


def main() -> None:
    """Four panels: shares of the peak, batches, ways to search, lengths of documents."""
    if len(sys.argv) != 3:
        sys.exit("usage: python bench/curves.py bench.json OUT.png")
    found = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")

    train = found["train"]
    highest = max(1.0, *(row["peak_ratio"] for row in train.values()))  # above 1 in 16 bits
    bars = axes[0, 0].barh(list(train), [100 * row["peak_ratio"] for row in train.values()])
    axes[0, 0].bar_label(
        bars, [f"{row['words_per_second']:,.0f} words/s" for row in train.values()]
    )
    axes[0, 0].set(title="Training: % of the 32-bit matrix-product peak", xlim=(0, 150 * highest))
    axes[0, 0].invert_yaxis()

    for name, sizes in found["batch_tokens"].items():
        shares = [100 * row["peak_ratio"] for row in sizes.values()]
        axes[0, 1].plot([int(size) for size in sizes], shares, marker="o", label=name)
    axes[0, 1].set(title="Training: % of the peak by batch_tokens", ylim=(0, 115 * highest))
    axes[0, 1].legend()

    decode = found["decode"]
    bars = axes[1, 0].barh(list(decode), [row["words_per_second"] for row in decode.values()])
    axes[1, 0].bar_label(bars, fmt="{:,.0f}")
    fastest = max(row["words_per_second"] for row in decode.values())
    axes[1, 0].set(title="Search: words/s", xlim=(0, 1.15 * fastest))
    axes[1, 0].invert_yaxis()

    lengths = {int(size): 1e3 * seconds for size, seconds in found["document_length"].items()}
    axes[1, 1].plot(list(lengths), list(lengths.values()), marker="o")
    axes[1, 1].set(title="Documents: ms a sentence, by their length", xscale="log")
    axes[1, 1].set(xlabel="sentences", ylim=(0, 1.15 * max(lengths.values())))

    figure.suptitle(f"wholedoc bench, one thread, peak {found['peak_gflops']:.0f} GFLOP/s")
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
