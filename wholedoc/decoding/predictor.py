"""The decoder as search uses it: what :meth:`Decoder.predict` computes, arranged for speed.

A batch has S sentences with K rows each, the hypotheses of a sentence one after the other. What
belongs to a sentence is kept once and not per row. Products with the same input are one product.
What a target word adds is looked up, and what a source word adds is multiplied before it is
averaged by attention, once for all steps.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from wholedoc.decoding.cells import Recaller
from wholedoc.kernels import EightBitProduct, ExactProduct, Product, doubled_exp
from wholedoc.model.attention import Attended
from wholedoc.model.decoder import DecoderState, gated
from wholedoc.model.language import SentenceVectors
from wholedoc.model.memory import Readings
from wholedoc.model.recall import Cells
from wholedoc.model.translation import TranslationModel
from wholedoc.store.shortlist import Shortlist

# The output layer is padded to a multiple of this: search looks at its words in blocks.
BLOCK = 32


@dataclass(frozen=True)
class Sentences:
    """All that is known of some sentences before their translations begin."""

    keys: Float[Tensor, "sent src_word align"]
    """exp(2 W_ae h_i)."""
    values: Float[Tensor, "sent src_word width"]
    """[W_sc ; W_rc] h_i: what a word gives to the gates and to the output if attended to; with it
    what readings give to the gates, as the weights of attention sum to 1."""
    padding: Float[Tensor, "sent 1 src_word"]
    """0 at real words, -inf at padding."""
    logits: Float[Tensor, "sent 1 output"] | None
    """What readings add to the logits; -inf where a word is not in the sentence's shortlist."""
    others: Attended | None
    """Words outside the sentence that are attended to as well."""
    output: Product
    """r_j ↦ the logits of the words that may be produced; those of the padding are -inf."""
    words: Int[Tensor, " output"]
    """The token id of each output; those of the padding do not matter."""
    cells: Cells | None = None
    """What is recalled, its types as places among the outputs."""

    def select(self, rows: Int[Tensor, " row"]) -> "Sentences":
        """The given sentences."""
        return replace(
            self,
            keys=self.keys.index_select(0, rows),
            values=self.values.index_select(0, rows),
            padding=self.padding[rows],
            logits=None if self.logits is None else self.logits[rows],
            others=None if self.others is None else self.others.select(rows),
            cells=None if self.cells is None else self.cells.select(rows),
        )


class Step(NamedTuple):
    """What one step gives."""

    state: DecoderState
    """s_j."""
    logits: Float[Tensor, "row output"]
    """Of y_j."""
    weights: Float[Tensor, "sent hypothesis src_word"]
    """α_j."""
    features: Float[Tensor, "row hidden"]
    """r_j."""


@final
class Predictor:
    """The weights of a model's decoder, prepared once for any number of searches.

    They are copied: a model that is trained on needs a new predictor.
    """

    def __init__(
        self,
        model: TranslationModel,
        product: type[Product] = ExactProduct,
        shortlist: Shortlist | None = None,
        recaller: Recaller | None = None,
    ) -> None:
        decoder = model.decoder
        hidden = decoder.upper.state.in_features
        query = decoder.attention.query.weight.detach()
        self.model = model
        self.gates = 3 * hidden
        self.product = product
        self.lower = _beside(product, decoder.lower.state, query[:, :hidden])
        self.upper = _beside(product, decoder.upper.state, query[:, hidden:])
        self.context = product(
            torch.cat((decoder.context.weight, decoder.output.context.weight)).detach()
        )
        self.between = product(decoder.between.weight.detach(), decoder.between.bias.detach())
        self.score = -2 * decoder.attention.score.weight.detach()[0]
        self.one = torch.ones_like(self.score[:1])
        with torch.no_grad():
            embedded = decoder.embedding.weight
            self.words = torch.cat((decoder.word(embedded), decoder.output.word(embedded)), dim=-1)
        self.shortlist = shortlist
        self.recaller = recaller

    @cached_property
    def _everything(self) -> tuple[Product, Int[Tensor, " output"]]:
        """The output layer for the whole vocabulary, and its words."""
        return self._outputs(torch.arange(len(self.words), device=self.words.device))

    def _outputs(self, words: Int[Tensor, " word"]) -> tuple[Product, Int[Tensor, " output"]]:
        """The output layer for some words, in order, the special ones first."""
        layer = self.model.decoder.output.vocabulary
        padding = -len(words) % BLOCK
        weight = pad(layer.weight.detach()[words], (0, 0, 0, padding))
        bias = pad(layer.bias.detach()[words], (0, padding), value=-math.inf)
        return self.product(weight, bias), pad(words, (0, padding))

    def start(
        self,
        src: Int[Tensor, "sent src_word"],
        src_lengths: Int[Tensor, " sent"],
        readings: Readings | None,
        cells: Cells | None = None,
        allowed: Int[Tensor, " word"] | None = None,
    ) -> tuple[DecoderState, Sentences]:
        """The first state of each sentence, and all that its steps are given.

        ``allowed`` words may be produced beside those of the shortlist.
        """
        decoder = self.model.decoder
        encoding = self.model.encoder(src, src_lengths)
        words, listed = None, None
        if self.shortlist is not None:  # the words of the cells are always allowed
            more = [] if cells is None else [cells.types]
            more += [] if allowed is None else [allowed.expand(len(src), -1)]
            listed = self.shortlist.allow(src, torch.cat(more, dim=1) if more else None)
            words = listed.any(dim=0).nonzero()[:, 0]
            listed, words = listed[:, words].to(src.device), words.to(src.device)
            if cells is not None:
                cells = replace(cells, types=torch.searchsorted(words, cells.types))
        source = decoder.prepare(encoding, readings, words)
        mask = source.attended.mask
        padding = torch.zeros(mask.shape, dtype=encoding.summary.dtype, device=mask.device)
        padding.masked_fill_(~mask, -math.inf)
        logits = source.logits
        if listed is not None and not listed.all():  # a sentence has only the words of its own list
            logits = padding.new_zeros(listed.shape) if logits is None else logits
            logits = logits.masked_fill(~listed, -math.inf)
        if logits is not None:
            logits = pad(logits, (0, -logits.shape[-1] % BLOCK))[:, None]
        states = source.attended.values
        values = self.context(states.flatten(0, 1)).view(*states.shape[:2], -1)
        if source.gates is not None:
            values[:, :, : self.gates] += source.gates[:, None]
        sentences = Sentences(
            doubled_exp(source.attended.keys),
            values,
            padding[:, None],
            logits,
            source.words,
            *(self._everything if words is None else self._outputs(words)),
            cells,
        )
        return decoder.start(encoding), sentences

    def step(self, state: DecoderState, words: Int[Tensor, " row"], sentences: Sentences) -> Step:
        """One more word, given the last words."""
        gates, count = self.gates, len(sentences.keys)
        word = self.words.index_select(0, words)  # (R, 4H)
        from_lower, from_upper = self.lower(state.lower), self.upper(state.upper)  # (R, 3H + A)
        query = from_lower[:, gates:] + from_upper[:, gates:]
        context, weights = self._attend(query.view(count, -1, query.shape[-1]), sentences)
        seen = context.flatten(0, 1).add_(word)  # (R, 4H)
        projected = seen[:, :gates]
        if sentences.others is not None and self.model.decoder.fusion is not None:
            both = torch.cat((state.lower, state.upper), dim=-1)
            projected = projected + self.model.decoder.fusion.look(both, sentences.others)
        lower = gated(projected, from_lower[:, :gates], state.lower)
        upper = gated(self.between(lower), from_upper[:, :gates], state.upper)
        features = seen[:, gates:].add_(upper).tanh_()  # (R, H)
        logits = sentences.output(features)  # (R, V)
        if sentences.logits is not None:
            logits.view(count, -1, logits.shape[-1]).add_(sentences.logits)
        return Step(DecoderState(lower, upper), logits, weights, features)

    def _attend(
        self, query: Float[Tensor, "sent hypothesis align"], sentences: Sentences
    ) -> tuple[Float[Tensor, "sent hypothesis width"], Float[Tensor, "sent hypothesis src_word"]]:
        """v · tanh(k + q) = Σ_a v_a − 2 Σ_a v_a / (1 + e^{2 k_a} e^{2 q_a}), softmax, weighted sum.

        Σ v falls out of the softmax.
        """
        queries = doubled_exp(query)[:, :, None]  # (S, K, 1, A)
        energies = torch.addcmul(self.one, sentences.keys[:, None], queries).reciprocal_()
        scores = (energies @ self.score).add_(sentences.padding)  # (S, K, I)
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights, sentences.values), weights


def _beside(
    product: type[Product], recurrent: torch.nn.Linear, query: Float[Tensor, "align hidden"]
) -> Product:
    """A layer's recurrent gates, and beside them its part of the attention's query."""
    weight = torch.cat((recurrent.weight.detach(), query))
    return product(weight, pad(recurrent.bias.detach(), (0, len(query))))


@dataclass(frozen=True)
class TranslationSystem:
    """The models that translate documents together, each prepared for search once."""

    model: TranslationModel
    """The document model; the sentence model itself where there is none."""
    base: TranslationModel
    """The sentence model, which makes the first translations."""
    vectors: SentenceVectors | None = None
    """What the source memory is made from."""

    int8: bool = False
    """Whether search multiplies in 8 bits, where this computer can."""
    shortlist: Shortlist | None = None
    """The words that search may produce; any, without one."""
    recaller: Recaller | None = None
    """How the document model recalls known pairs, or the sentence model where there is none."""
    base_recaller: Recaller | None = None
    """How the sentence model does."""

    @property
    def reads_documents(self) -> bool:
        """Whether a translation depends on the other sentences of its document."""
        return self.model is not self.base

    @property
    def device(self) -> torch.device:
        """Where the models are."""
        return next(self.base.parameters()).device

    @cached_property
    def predictor(self) -> Predictor:
        """The document model, prepared for search when it is first asked for."""
        if not self.reads_documents:
            return self.base_predictor
        return self._prepare(self.model, self.recaller)

    @cached_property
    def base_predictor(self) -> Predictor:
        """The sentence model, likewise."""
        return self._prepare(self.base, self.base_recaller)

    def _prepare(self, model: TranslationModel, recaller: Recaller | None) -> Predictor:
        in_8_bits = self.int8 and EightBitProduct.works_on(self.device)
        product = EightBitProduct if in_8_bits else ExactProduct
        return Predictor(model, product, self.shortlist, recaller)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the weights, not what was prepared from them."""
        prepared = ("predictor", "base_predictor")
        return {name: value for name, value in vars(self).items() if name not in prepared}
