"""Given translations: how probable they are, and the last decoder states they lead to."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from wholedoc.config import SearchConfig
from wholedoc.corpus.batches import Indices, in_order, length_batches, pad
from wholedoc.corpus.vocabulary import BOS, EOS
from wholedoc.decoding.search import search
from wholedoc.model.memory import Readings, gather_readings
from wholedoc.model.translation import TranslationModel

Sentence = list[int]
Progress = Callable[[int, int], None]

# Numbers of the output layer that exist at once: 16 MiB, whatever the batch and vocabulary.
_LOGITS_AT_ONCE = 4 * 2**20
# How the cells of the target memory are made for training, whatever a model's search is set to.
_GREEDY = SearchConfig(beam=1)


@torch.inference_mode()
def score_sentences(
    model: TranslationModel,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    batch_tokens: int,
    readings: Sequence[Readings] = (),
    progress: Progress | None = None,
) -> list[float]:
    """log P(y_t | x_t, c_src, c_trg) of each translation, ``</s>`` included.

    Sources end with ``</s>``, translations do not. ``readings`` are those of the sentences in
    order, in any number of parts; without any, the model reads nothing. ``progress`` is told of
    finished sentences and words.
    """
    device = next(model.parameters()).device

    def run(chosen: list[int]) -> list[float]:
        src, src_lengths = pad([sentences[i] for i in chosen])
        trg_in, _ = pad([[BOS, *translations[i]] for i in chosen])
        trg_out, _ = pad([[*translations[i], EOS] for i in chosen])
        rows = torch.tensor(chosen, device=device)
        read = gather_readings(readings, rows) if readings else None
        decoded = model(src.to(device), src_lengths.to(device), trg_in.to(device), read)
        of_sentence = decoded.packing.rows
        features = decoded.packed_features
        words = trg_out.to(device)[of_sentence, decoded.packing.places]
        scores = torch.zeros(len(chosen), dtype=torch.float64, device=device)
        step = max(1, _LOGITS_AT_ONCE // model.decoder.output.vocabulary.out_features)
        for start in range(0, len(words), step):
            part = slice(start, start + step)
            added = None if decoded.logits is None else decoded.logits[of_sentence[part]]
            every = model.decoder.log_probabilities(features[part], added)
            found = every.gather(-1, words[part, None])[:, 0]
            scores.index_add_(0, of_sentence[part], found.double())
        if progress is not None:
            progress(len(chosen), len(words))
        return scores.tolist()

    return in_order(range(len(sentences)), _batches(sentences, translations, batch_tokens), run)


@torch.inference_mode()
def given_states(
    model: TranslationModel,
    sentences: Sequence[Sentence],
    translations: Sequence[Sentence],
    batch_tokens: int,
) -> Float[Tensor, "sent hidden"]:
    """Last decoder states of given translations, read by the sentence model."""
    device = next(model.parameters()).device

    def run(chosen: list[int]) -> list[Tensor]:
        src, src_lengths = pad([sentences[i] for i in chosen])
        trg_in, _ = pad([[BOS, *translations[i]] for i in chosen])
        decoded = model(src.to(device), src_lengths.to(device), trg_in.to(device))
        packing = decoded.packing
        return list(decoded.packed_states[packing.ends[packing.order.argsort()]])

    batches = _batches(sentences, translations, batch_tokens)
    return _stack(model, in_order(range(len(sentences)), batches, run))


@torch.inference_mode()
def generated_states(
    model: TranslationModel, sentences: Sequence[Sentence]
) -> Float[Tensor, "sent hidden"]:
    """Last decoder states of the sentence model's own translations, greedily searched."""
    device = next(model.parameters()).device

    def run(chosen: list[Sentence]) -> list[Tensor]:
        src, lengths = pad(chosen)
        found = search(model, src.to(device), lengths.to(device), _GREEDY)
        return [hypotheses[0].last_state for hypotheses in found]

    batches = length_batches([len(s) for s in sentences], _GREEDY.batch_tokens)
    return _stack(model, in_order(sentences, batches, run))


def _batches(
    sentences: Sequence[Sentence], translations: Sequence[Sentence], tokens: int
) -> list[Indices]:
    pairs = zip(sentences, translations, strict=True)
    return length_batches([max(len(src), len(trg) + 1) for src, trg in pairs], tokens)


def _stack(model: TranslationModel, states: Sequence[Tensor]) -> Float[Tensor, "sent hidden"]:
    """One row per state, of which there may be none."""
    if not states:
        return model.decoder.embedding.weight.new_empty(0, model.decoder.upper.state.in_features)
    return torch.stack(list(states))
