"""A lexicon learned from a trained model: which word each source word is translated by.

For ``word`` vocabularies: rare words are unknown to the model, but its attention still says which
source word an ``<unk>`` stands for, in training as in translation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch

from wholedoc.corpus.batches import length_batches, pad
from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import BOS, EOS, Vocabulary
from wholedoc.errors import UserError
from wholedoc.files import write_atomically
from wholedoc.model.translation import TranslationModel

_PAIRS_AT_ONCE = 1000


@torch.inference_mode()
def learn_lexicon(
    model: TranslationModel,
    documents: Iterable[Document],
    src_vocabulary: Vocabulary,
    trg_vocabulary: Vocabulary,
    batch_tokens: int,
) -> dict[str, str]:
    """Count, for each source word, the target words that attend to it most; keep the commonest."""
    model.eval()
    device = next(model.parameters()).device
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pairs in _groups(documents):
        src = [[*src_vocabulary.encode(pair.src), EOS] for pair in pairs]
        trg = [[BOS, *trg_vocabulary.encode(pair.trg)] for pair in pairs]
        for batch in length_batches([len(sentence) for sentence in trg], batch_tokens):
            src_ids, src_lengths = pad([src[t] for t in batch])
            trg_ids, _ = pad([trg[t] for t in batch])
            decoded = model(src_ids.to(device), src_lengths.to(device), trg_ids.to(device))
            attended = decoded.weights.argmax(dim=-1).tolist()  # (T, J)
            for t, places in zip(batch, attended, strict=True):
                src_words = [*src_vocabulary.tokens(pairs[t].src), ""]
                trg_words = trg_vocabulary.tokens(pairs[t].trg)
                for trg_word, i in zip(trg_words, places, strict=False):
                    counts[src_words[i]][trg_word] += 1
    counts.pop("", None)  # </s>
    return {
        word: min(found, key=lambda w: (-found[w], w)) for word, found in sorted(counts.items())
    }


def _groups(documents: Iterable[Document]) -> Iterator[Sequence[SentencePair]]:
    """Sentence pairs, many at a time, so that they can be batched by length."""
    pairs: list[SentencePair] = []
    for document in documents:
        pairs.extend(document)
        if len(pairs) >= _PAIRS_AT_ONCE:
            yield pairs
            pairs = []
    if pairs:
        yield pairs


def write_lexicon(path: Path, lexicon: dict[str, str]) -> None:
    """One pair per line, separated by a tab."""
    write_atomically(path, "".join(f"{src}\t{trg}\n" for src, trg in lexicon.items()))


def read_lexicon(path: Path) -> dict[str, str]:
    """What :func:`write_lexicon` wrote."""
    lexicon = {}
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            src, trg = line.decode("utf-8").split("\t")
        except ValueError as error:
            raise UserError(
                "not a pair of words separated by a tab",
                where=f"{path}:{number}",
                fix="remove the file and run `wholedoc train` again",
            ) from error
        lexicon[src] = trg
    return lexicon
