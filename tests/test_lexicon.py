"""The lexicon: which word each source word is translated by, as the model's attention tells."""

from pathlib import Path

import pytest
import torch
from torch import nn

from wholedoc.corpus.documents import Document, SentencePair
from wholedoc.corpus.vocabulary import PAD, WordVocabulary
from wholedoc.errors import UserError
from wholedoc.kernels import pack
from wholedoc.model.decoder import Decoded
from wholedoc.store import lexicon
from wholedoc.store.lexicon import learn_lexicon, read_lexicon, write_lexicon

SRC = WordVocabulary(["koer", "kass"], "et")
TRG = WordVocabulary(["the", "dog", "cat"], "en")


class Monotone(nn.Module):
    """Stands for a model: its j-th target word looks at the j-th source word, then at </s>."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, src: torch.Tensor, lengths: torch.Tensor, trg_in: torch.Tensor) -> Decoded:
        words = torch.arange(trg_in.shape[1])
        place = torch.minimum(words[None], lengths[:, None] - 1)
        weights = nn.functional.one_hot(place, src.shape[1]).float()
        packing = pack((trg_in != PAD).sum(dim=1))
        words = weights[packing.rows, packing.places]
        nothing = torch.zeros(len(words), 1)
        return Decoded(packing, trg_in.shape[1], nothing, words, nothing)


def learn(*pairs: tuple[str, str], batch_tokens: int = 1000) -> dict[str, str]:
    documents = [Document(str(d), (SentencePair(*pair),)) for d, pair in enumerate(pairs)]
    model = Monotone()
    return learn_lexicon(model, documents, SRC, TRG, batch_tokens)  # type: ignore[arg-type]


def test_the_commonest_translation_is_kept() -> None:
    pairs = [("koer kass", "dog cat"), ("koer", "hound"), ("koer", "dog"), ("lõvi", "lion")]
    assert learn(*pairs) == {"kass": "cat", "koer": "dog", "lõvi": "lion"}


def test_words_unknown_to_the_vocabulary_are_learned_by_their_names() -> None:
    assert learn(("Tallinn", "Reval")) == {"tallinn": "reval"}


def test_the_end_of_a_sentence_translates_nothing() -> None:
    assert learn(("koer", "dog the the the")) == {"koer": "dog"}


def test_a_draw_goes_to_the_first_in_the_alphabet() -> None:
    assert learn(("koer", "hound"), ("koer", "dog")) == {"koer": "dog"}
    assert learn(("koer", "dog"), ("koer", "hound")) == {"koer": "dog"}


@pytest.mark.parametrize("batch_tokens", [1, 7, 1000])
@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_batching_does_not_matter(
    monkeypatch: pytest.MonkeyPatch, batch_tokens: int, at_once: int
) -> None:
    monkeypatch.setattr(lexicon, "_PAIRS_AT_ONCE", at_once)
    pairs = [("koer kass koer", "dog cat dog"), ("kass", "cat"), ("kass koer", "cat hound")]
    assert learn(*pairs, batch_tokens=batch_tokens) == {"kass": "cat", "koer": "dog"}


def test_round_trip(tmp_path: Path) -> None:
    words = {"koer": "dog", "õ": "\u2028", "a b": "'", '"': "\x85"}
    write_lexicon(tmp_path / "lexicon.tsv", words)
    assert read_lexicon(tmp_path / "lexicon.tsv") == words


def test_an_empty_lexicon(tmp_path: Path) -> None:
    write_lexicon(tmp_path / "lexicon.tsv", {})
    assert read_lexicon(tmp_path / "lexicon.tsv") == {}


@pytest.mark.parametrize("line", [b"koer dog", b"koer\tdog\tcat", b"", b"\xff\tdog"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "lexicon.tsv"
    file.write_bytes(b"kass\tcat\n" + line + b"\n")
    with pytest.raises(UserError, match=f"{file}:2: not a pair of words"):
        read_lexicon(file)
