"""The lexicon of a run: how each source word is translated.

Rare words are unknown to a model of ``word`` vocabularies; attention says which source word an
``<unk>`` stands for, and the lexicon how that is translated.
"""

from collections.abc import Iterable
from pathlib import Path

from wholedoc.corpus.documents import Document
from wholedoc.corpus.vocabulary import Vocabulary
from wholedoc.corpus.word_translations import Aligner, WordIds
from wholedoc.errors import UserError
from wholedoc.files import write_atomically


def learn_lexicon(
    documents: Iterable[Document], src_vocabulary: Vocabulary, trg_vocabulary: Vocabulary
) -> dict[str, str]:
    """Find the likeliest translation of each source word, from sentence pairs.

    The vocabularies split text into words; those that they do not hold are learned too.
    """
    ids = WordIds()
    src: list[list[int]] = []
    trg: list[list[int]] = []
    for document in documents:
        src += ids.encode(src_vocabulary.tokens(pair.src) for pair in document)
        trg += ids.encode(trg_vocabulary.tokens(pair.trg) for pair in document)
    src_words, trg_words = Aligner(src, trg).translations(src, trg, most=1)
    words = list(ids)
    pairs = zip(src_words.tolist(), trg_words.tolist(), strict=True)
    return dict(sorted((words[one], words[other]) for one, other in pairs))


def write_lexicon(path: Path, lexicon: dict[str, str]) -> None:
    """Write one pair per line, separated by a tab."""
    write_atomically(path, "".join(f"{src}\t{trg}\n" for src, trg in lexicon.items()))


def read_lexicon(path: Path) -> dict[str, str]:
    """Read what :func:`write_lexicon` wrote."""
    lexicon = {}
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            src, trg = line.decode("utf-8").split("\t")
        except ValueError as error:
            what = "not a pair of words separated by a tab"
            fix = "remove the file and run `wholedoc train` again"
            raise UserError(what, where=f"{path}:{number}", fix=fix) from error
        lexicon[src] = trg
    return lexicon
