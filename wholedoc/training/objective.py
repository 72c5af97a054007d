"""What training minimises: the negative log-likelihood of the given translations."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from wholedoc.corpus.batches import Batch, make_batch, token_batches
from wholedoc.corpus.encoded import EncodedCorpus
from wholedoc.kernels import output_loss
from wholedoc.model.decoder import Decoded
from wholedoc.model.encoder import Encoder, Encoding
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel

Rows = npt.NDArray[np.float32]
"""One vector per sentence of a corpus, memory-mapped."""
Detached = TypeVar("Detached", Encoding, Readings)


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
    parts: Sequence[range] | None = None,
) -> tuple[float, int]:
    """−Σ_t log P(y_t | x_t, y_-t, x_-t) over the sentences of some documents, and their words.

    Of each document all sentences, or those of its part, which read the whole document.

    Where gradients are enabled, the backward pass is made too: that of the decoder batch by batch,
    so that only one batch's decoder is ever in memory, then that of the encoder and the memories.
    Sentences of like length are computed together, whatever document they are in; a document RNN
    and a reading belong to one document.
    """
    corpus = data.corpus
    device = next(model.parameters()).device
    sentences = [t for part in (documents if parts is None else parts) for t in part]
    lengths = corpus.src_lengths[sentences], corpus.trg_lengths[sentences]
    chosen = token_batches(*lengths, batch_tokens)
    batches = [make_batch(corpus, [sentences[i] for i in rows]).to(device) for rows in chosen]
    several = len(batches) > 1
    encode = partial(encode_with_recomputation, model.encoder) if several else model.encoder
    encodings = [encode(batch.src, batch.src_lengths) for batch in batches]
    order = torch.cat([torch.from_numpy(rows) for rows in chosen]).argsort().to(device)
    summaries = torch.cat([encoding.summary for encoding in encodings])[order]
    readings = read_documents(model, data, documents, summaries, parts)
    split = SplitBackward()
    nats, words = 0.0, 0
    for rows, batch, encoding in zip(chosen, batches, encodings, strict=True):
        read = gather_readings(readings, torch.from_numpy(rows).to(device))
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
    parts: Sequence[range] | None = None,
) -> list[Readings]:
    """What the sentences of each document read, or those of its part; ``summaries`` are theirs."""
    if model.reads_translations and data.last_states is None:
        raise ValueError("a target memory is read whose cells are not given")
    contexts = model.contexts(
        [[data.corpus.src(t).tolist() for t in document] for document in documents],
        _rows(data.vectors, documents, summaries.device),
        _rows(data.last_states, documents, summaries.device),
    )
    readings, begin = [], 0
    for document, part, context in zip(documents, parts or documents, contexts, strict=True):
        first, own = part.start - document.start, summaries[begin : begin + len(part)]
        places = torch.arange(first, first + len(part), device=own.device)
        states = None if context.last_states is None else context.last_states[places]
        readings.append(model.read(context, places, own, states))
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
    if added is None or sentences is None:
        shifts, sentences = output.bias[None], torch.zeros_like(targets)
    else:
        shifts = added + output.bias
    smoothed, nats = output_loss(
        features, output.weight, shifts, sentences, targets, label_smoothing
    )
    return Loss(smoothed, nats.item(), len(targets))
