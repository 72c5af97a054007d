"""What training minimises: the negative log-likelihood of the given translations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from wholedoc.corpus.batches import Batch, make_batch, token_batches
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.kernels.matrices import Factor
from wholedoc.kernels.native import loops_for
from wholedoc.model.decoder import Decoded
from wholedoc.model.encoder import Encoder, Encoding
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel
from wholedoc.store.run import Rows

Detached = TypeVar("Detached", Encoding, Readings)

# Words whose logits exist at once: few enough for the caches, enough for an efficient product.
_CHUNK = 512


@dataclass(frozen=True)
class Loss:
    """The loss of some sentences, summed over their words; ``</s>`` counts, padding never."""

    smoothed: Float[Tensor, ""]
    """What is differentiated."""
    nats: float
    """−Σ log P(y_j), without smoothing."""
    words: int
    """Target words, ``</s>`` included."""


def sentence_loss(model: TranslationModel, batch: Batch, label_smoothing: float = 0.0) -> Loss:
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t): the sentence model's, with all readings at zero."""
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    return translation_loss(model, decoded, batch, label_smoothing)


def translation_loss(
    model: TranslationModel, decoded: Decoded, batch: Batch, label_smoothing: float = 0.0
) -> Loss:
    """−Σ_t Σ_j log P(y_tj | y_t<j, x_t, c_src, c_trg), with some probability spread evenly.

    Paper: [pll], the pseudo-likelihood of sentences given all others. Only real words are
    multiplied by the output matrix.
    """
    packing = decoded.packing
    return word_loss(
        model.decoder.output.vocabulary,
        decoded.packed_features,
        batch.trg_out[packing.rows, packing.places],
        label_smoothing,
        decoded.logits,
        packing.rows,
    )


@dataclass(frozen=True)
class DocumentSet:
    """A corpus with what its memories are made from; None for a memory that is not read."""

    corpus: EncodedCorpus
    vectors: Rows | None
    """Sentence vectors of the source side."""
    last_states: Rows | None
    """Last decoder states of the current translations."""


def document_loss(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    batch_tokens: int,
    label_smoothing: float = 0.0,
) -> tuple[float, int]:
    """−Σ_t log P(y_t | x_t, y_-t, x_-t) over the sentences of some documents, and their words.

    Where gradients are enabled, the backward pass is made too: that of the decoder batch by batch,
    so that only one batch's decoder is ever in memory, then that of the encoder and the memories.
    Sentences of like length are computed together, whatever document they are in; a document RNN
    and a reading belong to one document.
    """
    corpus = data.corpus
    device = next(model.parameters()).device
    sentences = [t for document in documents for t in document]
    lengths = corpus.src_lengths[sentences], corpus.trg_lengths[sentences]
    parts = token_batches(*lengths, batch_tokens)
    batches = [make_batch(corpus, [sentences[i] for i in part]).to(device) for part in parts]
    encode = model.encoder if len(parts) == 1 else partial(encode_with_recomputation, model.encoder)
    encodings = [encode(batch.src, batch.src_lengths) for batch in batches]
    order = torch.cat([torch.from_numpy(part) for part in parts]).argsort().to(device)
    summaries = torch.cat([encoding.summary for encoding in encodings])[order]
    readings = read_documents(model, data, documents, summaries)
    split = SplitBackward()
    nats, words = 0.0, 0
    for part, batch, encoding in zip(parts, batches, encodings, strict=True):
        read = gather_readings(readings, torch.from_numpy(part).to(device))
        decoded = model.decoder(split.detach(encoding), batch.trg_in, split.detach(read))
        loss = translation_loss(model, decoded, batch, label_smoothing)
        del decoded
        nats, words = nats + loss.nats, words + loss.words
        if torch.is_grad_enabled():
            loss.smoothed.backward()  # type: ignore[no-untyped-call]
        del loss  # and all that it was computed from, before the next one is
    split.backward()
    return nats, words


def read_documents(
    model: TranslationModel,
    data: DocumentSet,
    documents: Sequence[range],
    summaries: Float[Tensor, "sent states"],
) -> list[Readings]:
    """What the sentences of each document read; ``summaries`` may end inside the last one."""
    if model.reads_translations and data.last_states is None:
        raise ValueError("a target memory is read whose cells are not given")
    contexts = model.contexts(
        [[data.corpus.src(t).tolist() for t in document] for document in documents],
        _rows(data.vectors, documents, summaries.device),
        _rows(data.last_states, documents, summaries.device),
    )
    readings, begin = [], 0
    for context in contexts:
        part = summaries[begin : begin + len(context.sentences)]
        places = torch.arange(len(part), device=part.device)
        states = None if context.last_states is None else context.last_states[places]
        readings.append(model.read(context, places, part, states))
        begin += len(part)
    return readings


def _rows(rows: Rows | None, documents: Sequence[range], device: torch.device) -> Tensor | None:
    """The vectors of the sentences of some documents, in a row."""
    if rows is None:
        return None
    chosen = [rows[document.start : document.stop] for document in documents]
    return torch.from_numpy(np.concatenate(chosen)).to(device)


class SplitBackward:
    """A backward pass in two parts, so that what comes last in the forward pass goes first.

    The last part of the model sees detached copies, which gather its gradients;
    :meth:`backward` goes on from the originals. Where no gradients are recorded, nothing is
    detached.
    """

    def __init__(self) -> None:
        self._pairs: list[tuple[Tensor, Tensor]] = []

    def detach(self, given: Detached) -> Detached:
        """The same, with copies in the place of all tensors that have a gradient."""
        return replace(
            given, **{field.name: self._copy(getattr(given, field.name)) for field in fields(given)}
        )

    def _copy(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._copy, value))
        if not isinstance(value, Tensor) or not value.requires_grad or not torch.is_grad_enabled():
            return value
        copy = value.detach().requires_grad_()
        self._pairs.append((value, copy))
        return copy

    def backward(self) -> None:
        """The first part of the model, when the last part's backward passes are made."""
        reached = [(value, copy.grad) for value, copy in self._pairs if copy.grad is not None]
        if reached:
            values, gradients = zip(*reached, strict=True)
            torch.autograd.backward(values, gradients)


def encode_with_recomputation(
    encoder: Encoder, src: Int[Tensor, "sent src_word"], lengths: Int[Tensor, " sent"]
) -> Encoding:
    """Encode, keeping only the states: the backward pass runs the encoder once more."""
    if not torch.is_grad_enabled():
        encoding: Encoding = encoder(src, lengths)
        return encoding

    def run(_: Tensor) -> tuple[Any, ...]:
        encoding = encoder(src, lengths)
        return tuple(getattr(encoding, field.name) for field in fields(encoding))

    # What comes out has a gradient only if something that goes in has one.
    anything = torch.empty(0, device=src.device, requires_grad=True)
    return Encoding(*checkpoint(run, anything, use_reentrant=True))


def word_loss(
    output: nn.Linear,
    features: Float[Tensor, "word hidden"],
    targets: Int[Tensor, " word"],
    label_smoothing: float = 0.0,
    added: Float[Tensor, "sent vocabulary"] | None = None,
    sentences: Int[Tensor, " word"] | None = None,
) -> Loss:
    """−Σ log P(y) of given words; ``added`` are logits of the sentence that each word is in."""
    smoothed, nats = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        features,
        output.weight,
        output.bias,
        added,
        sentences,
        targets,
        label_smoothing,
        torch.is_grad_enabled(),
    )
    return Loss(smoothed, nats.item(), len(targets))


class _OutputLoss(torch.autograd.Function):
    """−Σ (1−ε) log p(y) + ε mean log p, p = softmax(W_y r + b + added), a chunk of words at a time.

    The gradient of a chunk, p − (1−ε) 1_y − ε/V, is taken while its p is at hand, so that no more
    than one chunk of the words × vocabulary matrix ever exists. Its last term is the same for all
    words, and so is the mean of the logits a product with mean weights: both are taken without
    another walk through the matrix.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "word hidden"],
        weight: Float[Tensor, "vocabulary hidden"],
        bias: Float[Tensor, " vocabulary"],
        added: Float[Tensor, "sent vocabulary"] | None,
        sentences: Int[Tensor, " word"] | None,
        targets: Int[Tensor, " word"],
        label_smoothing: float,
        differentiate: bool,
    ) -> tuple[Tensor, Tensor]:
        """The smoothed and the plain loss, and where ``differentiate``, their gradients.

        ``ctx.needs_input_grad`` alone does not tell: weights need one in evaluation too.
        """
        shifts = (bias[None] if added is None else added + bias).contiguous()
        of_word = torch.zeros_like(targets) if added is None or sentences is None else sentences
        summed, slopes = weight.sum(dim=0), None
        if differentiate and any(ctx.needs_input_grad):
            slopes = _Slopes(features, weight, summed, len(shifts), of_word, label_smoothing)
        target_logits, target_logs = features.new_empty(2, len(features))
        buffer = features.new_empty(min(_CHUNK, len(features)), len(weight))
        to_logits = Factor(weight.T)
        for start in range(0, len(features), _CHUNK):
            part = slice(start, start + _CHUNK)
            logits = to_logits.multiply(features[part], buffer[: len(features[part])])
            target_logits[part], target_logs[part] = _softmax(
                logits,
                shifts,
                of_word[part],
                targets[part],
                label_smoothing - 1,
                None if slopes is None else slopes.shifts,
            )
            if slopes is not None:
                slopes.add(part, logits)
        nats = -target_logs.sum()
        means = features @ (summed / len(weight)) + shifts.mean(dim=-1)[of_word]
        even = (target_logits - target_logs - means).sum()
        ctx.with_added = added is not None
        ctx.slopes = slopes
        ctx.mark_non_differentiable(nats)
        return torch.lerp(nats, even, label_smoothing), nats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_nats: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients at hand, scaled; most often by 1, which needs no product."""
        del grad_nats
        kept = (ctx.slopes.features, ctx.slopes.weight, ctx.slopes.shifts)
        features, weight, shifts = kept if grad == 1 else (slope * grad for slope in kept)
        return features, weight, shifts.sum(dim=0), shifts if ctx.with_added else None, *[None] * 4


def _softmax(
    logits: Float[Tensor, "word vocabulary"],
    shifts: Float[Tensor, "sent vocabulary"],
    of_word: Int[Tensor, " word"],
    targets: Int[Tensor, " word"],
    target_slope: float,
    d_shifts: Float[Tensor, "sent vocabulary"] | None,
) -> tuple[Float[Tensor, " word"], Float[Tensor, " word"]]:
    """Logits of the targets, with ``shifts`` in them, and log p.

    If gradients are wanted, ``logits`` give way to p with ``target_slope`` added at the targets,
    which is added to those of the shifts; if not, nobody may look at them afterwards.
    """
    loops = loops_for(logits)
    if loops is not None:
        first, last = targets.aminmax()
        if first < 0 or last >= logits.shape[1]:
            raise IndexError(f"targets from {first} to {last} of {logits.shape[1]} words")
        found = logits.new_empty(2, len(logits))
        loops.softmax(
            *logits.shape, logits.data_ptr(), shifts.data_ptr(), of_word.data_ptr(),
            targets.data_ptr(), target_slope, 0 if d_shifts is None else d_shifts.data_ptr(),
            found[0].data_ptr(), found[1].data_ptr(),
        )  # fmt: skip
        return found[0], found[1]
    logits.add_(shifts if len(shifts) == 1 else shifts.index_select(0, of_word))
    target_logits = logits.gather(-1, targets[:, None])[:, 0]
    logs = torch.log_softmax(logits, dim=-1, out=logits)
    target_logs = logs.gather(-1, targets[:, None])[:, 0]
    slope = logs.exp_()
    if d_shifts is not None:
        slope[torch.arange(len(slope), device=slope.device), targets] += target_slope
        if len(shifts) == 1:
            d_shifts[0].addmv_(slope.T, slope.new_ones(len(slope)))
        else:
            d_shifts.index_add_(0, of_word, slope)
    return target_logits, target_logs


class _Slopes:
    """The gradients of :class:`_OutputLoss`, added up chunk by chunk.

    They begin at what smoothing takes from them: the same for every word of the vocabulary.
    """

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        summed: Tensor,
        sentences: int,
        of_word: Tensor,
        smoothing: float,
    ) -> None:
        self._features, self._from_logits = features, Factor(weight)
        even = -smoothing / len(weight)
        self._of_features, self._of_weight = even * summed, even * features.sum(dim=0)
        self.features = features.new_empty(features.shape)  # row by row, whatever they are
        self.weight = weight.new_empty(weight.shape) if len(features) else torch.zeros_like(weight)
        counts = torch.bincount(of_word, minlength=sentences).to(features.dtype)
        self.shifts = (even * counts)[:, None].repeat(1, len(weight))

    def add(self, part: slice, slope: Tensor) -> None:
        """A chunk's, but for those of the shifts, from p − (1−ε) 1_y."""
        self._from_logits.multiply(slope, self.features[part], self._of_features)
        start = self.weight if part.start else self._of_weight
        Factor(self._features[part]).multiply(slope.T, self.weight, start)
