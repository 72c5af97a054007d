"""How much of a memory-mapped corpus each of several processes reads in an epoch.

``python bench/scale/pages.py RUN`` counts the 4 KiB pages of source token ids that hold a sentence
of one rank's share, of all pages: in stage 1, whose batches draw from the whole corpus, and in
stage 2, whose updates are whole documents.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from wholedoc.corpus.batches import DocumentBatches, SentenceBatches
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.store.run import Run

PAGE = 4096
RANKS = (1, 2, 8, 64)


def pages(corpus: EncodedCorpus, sentences: Any) -> int:
    """Pages with a token of some sentences; ids have two bytes."""
    ends = 2 * np.cumsum(corpus.src_lengths, dtype=np.int64)
    first = (ends - 2 * corpus.src_lengths)[sentences] // PAGE
    last = (ends[sentences] - 1) // PAGE
    return len({page for a, b in zip(first, last, strict=True) for page in range(a, b + 1)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    run = Run(parser.parse_args().run)
    corpus, config = run.load_corpus("train"), run.load_config()
    whole = pages(corpus, np.arange(len(corpus)))
    stage1 = SentenceBatches(corpus, config.stage1.batch_tokens, config.seed)
    stage2 = DocumentBatches(corpus, config.stage2.update_tokens, config.seed)
    print(f"{whole} pages\n\n| ranks | stage 1 | stage 2 |\n|---|---|---|")
    for ranks in RANKS:
        drawn = np.concatenate([stage1.share(batch, 0, ranks) for batch in stage1.epoch(1)])
        parts = [part for group in stage2.epoch(1) for part in stage2.share(group, 0, ranks)]
        read = np.concatenate([part.sentences for part in parts])
        shares = [100 * pages(corpus, found) / whole for found in (drawn, read)]
        print(f"| {ranks} | {shares[0]:.0f} % | {shares[1]:.0f} % |")


if __name__ == "__main__":
    main()
