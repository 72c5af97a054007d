"""How many multiplications and additions training takes by the textbook."""

from dataclasses import dataclass

from torch import nn

from wholedoc.model.translation import TranslationModel

FORMULA = (
    "6 · (source words · weights of encoder and attention keys + target words · weights of decoder "
    "and output layer + pairs of source and target word of a sentence · (A + 2H) + sentences · "
    "weights of memories and fusions)"
)
"""2 for a multiplication and an addition; 3 for the way there and both gradients on the way back.

Padding, what is computed twice, and everything that is no product of matrices count for nothing.
"""


@dataclass(frozen=True)
class Text:
    """The size of some sentence pairs."""

    sentences: int = 0
    src_words: int = 0
    trg_words: int = 0
    pairs: int = 0
    """Pairs of a source and a target word of the same sentence."""

    def __add__(self, other: "Text") -> "Text":
        return Text(
            self.sentences + other.sentences,
            self.src_words + other.src_words,
            self.trg_words + other.trg_words,
            self.pairs + other.pairs,
        )


def training_flops(model: TranslationModel, text: Text) -> float:
    """:data:`FORMULA`."""
    encoder, decoder = model.encoder, model.decoder
    attention, output = decoder.attention, decoder.output
    src = (*encoder.rnn.children(), attention.key)
    trg = (
        attention.query,
        decoder.word,
        decoder.context,
        decoder.lower.state,
        decoder.between,
        decoder.upper.state,
        *output.children(),
    )
    known = {id(layer) for layer in (*src, *trg, attention.score)}
    others = [m for m in model.modules() if isinstance(m, nn.Linear) and id(m) not in known]
    pair = attention.score.weight.numel() + 2 * encoder.rnn.hidden
    return 6.0 * (
        text.src_words * weights_of(*src)
        + text.trg_words * weights_of(*trg)
        + text.pairs * pair
        + text.sentences * weights_of(*others)
    )


def weights_of(*layers: nn.Module) -> int:
    """How many numbers the matrices of some layers have."""
    return sum(p.numel() for layer in layers for p in layer.parameters() if p.dim() == 2)
