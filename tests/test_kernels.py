"""The compiled kernels against PyTorch, forward and backward; packing, dropout and the dispatch."""

import ast
import gc
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from toy import padded

from wholedoc.config import ModelConfig, SearchConfig
from wholedoc.corpus.vocabulary import EOS, PAD
from wholedoc.decoding.descent import translate_documents
from wholedoc.decoding.predictor import TranslationSystem
from wholedoc.errors import UserError
from wholedoc.kernels import (
    Dropout,
    ExactProduct,
    Linear,
    StepInputs,
    check_precision,
    describe,
    dropout_mask,
    in_threads,
    layers,
    mixed_precision,
    native,
    one_thread,
    output_loss,
    pack,
    recurrence,
    use,
)
from wholedoc.kernels.layers import Factor, matmul
from wholedoc.model.attention import Attended
from wholedoc.model.decoder import Decoder, DecoderState
from wholedoc.model.encoder import BidirectionalGRU, Gates
from wholedoc.model.language import SentenceVectors
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.objective import word_loss

LIBRARY = native._loaded()
needs_library = pytest.mark.skipif(LIBRARY is None, reason="the CPU kernels were not built")
needs_bf16 = pytest.mark.skipif(
    LIBRARY is None or not LIBRARY.has_bf16, reason="no CPU kernels for bfloat16 on this machine"
)
BACKENDS = [pytest.param("compiled", marks=needs_library), "torch"]
LENGTHS = torch.tensor([7, 3, 5, 1])
COUNTS = [4, 4, 3, 2, 1]
"""Words of four sentences at each step, the longest first."""


@pytest.fixture(autouse=True, scope="module")
def _both_backends() -> Iterator[None]:
    """Whatever the environment asks for, this file compares the two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WHOLEDOC_KERNELS", raising=False)
        yield


def random(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return scale * torch.randn(*shape, generator=generator)


def both(run: Callable[[], list[Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """What the compiled kernels and PyTorch compute."""
    found = []
    for backend in ("compiled", "torch"):
        with use(backend):
            found.append(run())
    return zip(*found, strict=True)


# Packing.


def test_packing_lists_the_words_step_by_step_the_longest_row_first() -> None:
    packing = pack(torch.tensor([1, 3, 2]))
    assert packing.order.tolist() == [1, 2, 0]
    assert packing.rows.tolist() == [1, 2, 0, 1, 2, 1]
    assert packing.places.tolist() == [0, 0, 0, 1, 1, 2]
    assert packing.mirror.tolist() == [5, 4, 2, 3, 1, 0]
    assert packing.counts == [3, 2, 1]
    padded = packing.pad(torch.arange(1.0, 7.0)[:, None], len(packing.counts))[:, :, 0]
    assert padded.tolist() == [[3, 0, 0], [1, 4, 6], [2, 5, 0]]


def test_packing_knows_whether_rows_are_in_order() -> None:
    assert pack(torch.tensor([5, 3, 3, 1])).in_order
    assert not pack(torch.tensor([5, 1, 3])).in_order
    assert pack(torch.tensor([2])).in_order


# The bidirectional GRU.


def random_biases(module: nn.Module) -> None:
    initialise(module, seed=5)
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.uniform_(-0.5, 0.5, generator=generator)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bigru_equals_torchs_module_on_padded_rows(backend: str) -> None:
    ours, theirs = BidirectionalGRU(5, 4), nn.GRU(5, 4, bidirectional=True)
    random_biases(ours)
    for suffix, inputs, states in (
        ("", ours.forward_input, ours.forward_state),
        ("_reverse", ours.backward_input, ours.backward_state),
    ):
        for name, module in (("ih", inputs), ("hh", states)):
            getattr(theirs, f"weight_{name}_l0{suffix}").data.copy_(module.weight)
            getattr(theirs, f"bias_{name}_l0{suffix}").data.copy_(module.bias)
    given, again = random(7, 4, 5).requires_grad_(), random(7, 4, 5).requires_grad_()
    packing = pack(LENGTHS)
    with use(backend):
        words, last = ours(given[packing.places, packing.rows], packing)
    states = packing.pad(words, 7).transpose(0, 1)
    packed, ends = theirs(pack_padded_sequence(again, LENGTHS, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed)
    expected_last = torch.cat((ends[0], ends[1]), dim=-1)
    (states.sin().sum() + last.cos().sum()).backward()
    (expected.sin().sum() + expected_last.cos().sum()).backward()
    for found, wanted in (
        (states, expected),
        (last, expected_last),
        (given.grad, again.grad),
        (ours.backward_state.weight.grad, theirs.weight_hh_l0_reverse.grad),
        (ours.forward_state.bias.grad, theirs.bias_hh_l0.grad),
        (ours.backward_input.weight.grad, theirs.weight_ih_l0_reverse.grad),
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@needs_library
@pytest.mark.parametrize("scale", [1.0, 8.0])  # the second where gates are open or closed
def test_compiled_bigru_equals_the_reference_with_its_gradients(scale: float) -> None:
    def run() -> list[Tensor]:
        gru = BidirectionalGRU(13, 21)  # no multiples of what a vector holds
        with torch.no_grad():
            for number, parameter in enumerate(gru.parameters(), start=1):
                parameter.copy_(random(*parameter.shape, number, scale=scale)[..., 0])
        words = random(14, 13).requires_grad_()
        states, last = gru(words, pack(torch.tensor([1, 4, 2, 4, 3])))
        ((states * random(*states.shape)).sum() + last.sin().sum()).backward()
        return [states.detach(), last.detach(), *(p.grad for p in (words, *gru.parameters()))]

    for ours, theirs in both(run):
        size = theirs.abs().max().item()  # beside float64 both err by 2e-5 at scale 8
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * scale * size)


@needs_library
def test_not_a_number_is_not_hidden() -> None:
    gru = BidirectionalGRU(3, 4)
    states, _ = gru(torch.full((2, 3), float("nan")), pack(torch.tensor([2])))
    assert states.isnan().all()
    features = torch.ones(3, 4)
    features[1, 1] = float("nan")
    assert math.isnan(word_loss(nn.Linear(4, 20), features, torch.tensor([1, 2, 3])).nats)


def test_gates_are_initialised_one_by_one() -> None:
    gates = Gates(10, 20)
    initialise(gates, seed=1)
    assert gates.weight.abs().max().item() == pytest.approx((6 / 30) ** 0.5, rel=0.02)
    assert gates.bias.eq(0).all()


# The decoder's steps.


def decoder_and_inputs(dropout: float = 0.0) -> tuple[Decoder, StepInputs]:
    decoder = Decoder(9, ModelConfig(hidden=4, embedding=3, alignment=5), dropout)
    random_biases(decoder)
    mask = torch.arange(8) < LENGTHS[:, None]  # padding even after the longest
    source = Attended(random(4, 8, 5), random(4, 8, 8), mask)
    return decoder, decoder.step_inputs(
        random(14, 12), COUNTS, DecoderState(random(4, 4), random(4, 4, 1)[..., 0]), source
    )


@needs_library
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_compiled_steps_equal_the_decoders_loop_with_their_gradients(dropout: float) -> None:
    def run() -> list[Tensor]:
        torch.manual_seed(1)
        decoder, inputs = decoder_and_inputs(dropout)
        given = (inputs.lower, inputs.upper, inputs.words, inputs.keys, inputs.values)
        for tensor in given:
            tensor.requires_grad_()
        states, contexts, weights = recurrence.decode_steps(
            inputs, decoder.step_layers(), decoder.step_by_step
        )
        (states.sin().sum() + contexts.cos().sum()).backward()
        gradients = [p.grad for p in (*given, *decoder.parameters()) if p.grad is not None]
        assert len(gradients) == 14
        return [states.detach(), contexts.detach(), weights.detach(), *gradients]

    for ours, theirs in both(run):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@needs_library
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_compiled_steps_leave_nothing_to_the_garbage_collector(dropout: float) -> None:
    decoder, inputs = decoder_and_inputs(dropout)
    gc.collect()
    gc.disable()
    try:
        states, contexts, _ = recurrence.decode_steps(
            inputs, decoder.step_layers(), decoder.step_by_step
        )
        (states.sum() + contexts.sum()).backward()
        del states, contexts
        assert not [kept for kept in gc.get_objects() if type(kept) is recurrence._Tape]
    finally:
        gc.enable()


def model_and_gradients(scale: float, dropout: float = 0.0) -> list[Tensor]:
    """What a model computes of sentences of unlike lengths, and its gradients."""
    torch.manual_seed(1)
    config = ModelConfig(hidden=20, embedding=12, alignment=19)
    model = TranslationModel(config, 30, 30, dropout)
    initialise(model, seed=3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    lengths = torch.tensor([3, 11, 1, 7])
    src, trg = (torch.randint(PAD + 1, 30, (4, 11)) for _ in range(2))
    src[torch.arange(11) >= lengths[:, None]] = PAD
    trg[torch.arange(11) >= lengths.flip(0)[:, None]] = PAD
    decoded = model(src, lengths, trg)
    decoded.packed_features.sin().sum().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [*padded(decoded), *gradients]


@needs_library
@pytest.mark.parametrize(("scale", "dropout"), [(1.0, 0.0), (4.0, 0.0), (1.0, 0.3)])
def test_a_models_states_and_gradients_are_those_of_torch(scale: float, dropout: float) -> None:
    for ours, theirs in both(lambda: model_and_gradients(scale, dropout)):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())


@needs_library
def test_attention_scores_may_be_larger_than_an_exponent() -> None:
    def weights() -> list[Tensor]:
        model = TranslationModel(ModelConfig(hidden=4, embedding=3, alignment=5), 9, 9)
        initialise(model, seed=1)
        with torch.no_grad():
            model.decoder.attention.score.weight.fill_(300.0)
        sentence = torch.tensor([[5, 6, 7, 8]])
        return [model(sentence, torch.tensor([4]), sentence).packed_weights]

    for ours, theirs in both(weights):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("key", [-400.0, 0.0, 400.0])
@pytest.mark.parametrize("query", [-400.0, 0.0, 400.0])
def test_attention_stays_finite_where_tanh_is_flat(key: float, query: float, backend: str) -> None:
    config = ModelConfig(hidden=4, embedding=3, alignment=5, initial_state="encoder")
    model = TranslationModel(config, 9, 9)
    initialise(model, seed=1)
    attention = model.decoder.attention
    with torch.no_grad():
        attention.key.weight.fill_(key)
        attention.query.weight.fill_(query)
    sentences = torch.randint(PAD + 1, 9, (2, 6))
    with use(backend):
        decoded = model(sentences, torch.tensor([6, 6]), sentences)
        decoded.packed_features.sum().backward()
    assert decoded.packed_weights.sum(dim=-1).allclose(torch.ones(12))
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@needs_library
def test_threads_change_nothing() -> None:
    config = ModelConfig(hidden=192, embedding=64, alignment=64)
    model = TranslationModel(config, 90, 90)
    initialise(model, seed=3)
    src, trg = (torch.randint(PAD + 1, 90, (32, 40)) for _ in range(2))  # enough to be divided
    found = []
    for count in (1, 3):
        model.zero_grad()
        with threads_of_torch(count):
            decoded = model(src, torch.full((32,), 40), trg)
            decoded.packed_features.sin().sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append([decoded.packed_features.detach(), *gradients])
    for one, many in zip(*found, strict=True):
        torch.testing.assert_close(one, many, rtol=1e-5, atol=1e-5 * one.abs().max().item())


# The loss of the output layer.


@needs_library
@pytest.mark.parametrize("chunk", [3, 512])
@pytest.mark.parametrize("scale", [1.0, 300.0])  # the second with words that have no chance
@pytest.mark.parametrize("sentences", [None, torch.tensor([2, 0, 0, 1, 1, 1, 0])])
def test_compiled_loss_equals_the_reference_with_its_gradients(
    sentences: Tensor | None, scale: float, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_CHUNK", chunk)

    def run() -> list[Tensor]:
        output = nn.Linear(6, 37)
        with torch.no_grad():
            output.weight.copy_(random(37, 6))
            output.bias.copy_(random(37))
        features = random(7, 6, scale=scale).requires_grad_()
        added = None if sentences is None else random(3, 37).requires_grad_()
        targets = torch.tensor([0, 36, 5, 5, 12, 1, 36])
        found = word_loss(output, features, targets, 0.1, added, sentences)
        (3 * found.smoothed).backward()
        learned = [output.weight, output.bias, features, *([] if added is None else [added])]
        with torch.no_grad():
            assert word_loss(output, features, targets, 0.1, added, sentences).nats == found.nats
        return [found.smoothed.detach(), torch.tensor(found.nats), *(p.grad for p in learned)]

    for ours, theirs in both(run):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * scale)


@needs_library
def test_the_loss_takes_gradients_only_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = (random(7, 6), random(37, 6).requires_grad_(), random(1, 37))
    places = torch.zeros(7, dtype=torch.long), torch.arange(7)
    expected = output_loss(*given, *places, 0.1)[1]
    monkeypatch.delattr(layers, "_Gradients")
    for evaluation in (torch.no_grad, torch.inference_mode):
        with evaluation():
            assert output_loss(*given, *places, 0.1)[1] == expected
    with pytest.raises(NameError, match="_Gradients"):
        output_loss(*given, *places, 0.1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("target", [-1, 20, -100])
def test_targets_have_to_be_words(target: int, backend: str) -> None:
    with use(backend), pytest.raises(IndexError, match="20 words"):
        word_loss(nn.Linear(4, 20), torch.ones(2, 4), torch.tensor([3, target]))


# Dropout.


def draw(rate: float, seed: int, shape: tuple[int, ...] = (500, 201)) -> list[Tensor]:
    torch.manual_seed(seed)
    return [dropout_mask(shape, rate, torch.zeros(1)) for _ in range(2)]


@needs_library
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_masks_are_the_same_bit_for_bit_compiled_and_not(rate: float, seed: int) -> None:
    for ours, theirs in both(lambda: draw(rate, seed, (7, 300))):
        assert torch.equal(ours, theirs)
    with use("torch"):
        torch.manual_seed(seed)
        double = dropout_mask((7, 300), rate, torch.zeros(1, dtype=torch.float64))
    assert torch.equal(double == 0, draw(rate, seed, (7, 300))[0] == 0)


def test_masks_are_those_of_the_hash() -> None:
    """Written down so that a seeded run stays what it is."""
    mask = layers._dropout_mask_reference((2, 12), 12345678901234567, 2**31, 2.0, torch.zeros(1))
    assert mask.int().tolist() == [
        [0, 0, 0, 2, 0, 2, 2, 2, 2, 2, 0, 0],
        [2, 2, 0, 2, 0, 0, 2, 0, 2, 0, 0, 2],
    ]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.95])
def test_masks_drop_at_their_rate_and_never_alike(rate: float, backend: str) -> None:
    with use(backend):
        one, two = draw(rate, 1)
        again, other = draw(rate, 1)[0], draw(rate, 2)[0]
    assert torch.equal(one, again)  # resumed and repeated computations rely on it
    spread = math.sqrt(rate * (1 - rate))
    deviation = spread / math.sqrt(one.numel())
    for mask in (one, two, other):
        assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
        assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=5 * deviation)
    dropped = [(mask == 0).float().flatten() - rate for mask in (one, two, other)]
    pairs = [(dropped[0], later) for later in dropped[1:]]
    pairs += [(dropped[0][lag:], dropped[0][:-lag]) for lag in (1, 2, 4, 16, 201)]
    for x, y in pairs:
        assert (x * y).mean().item() == pytest.approx(0, abs=5 * deviation * spread)


def test_nothing_is_dropped_in_evaluation() -> None:
    assert Dropout(0.5).eval()(torch.ones(3)).tolist() == [1.0, 1.0, 1.0]


# Matrix products.


LAYOUTS = ["rows", "columns", "part", "every second"]
STARTS = ["nothing", "out", "row"]
SIZES = st.integers(1, 70)


def laid_out(matrix: Tensor, layout: str) -> Tensor:
    """The same numbers, by rows or by columns, with gaps, or as a part of a larger matrix."""
    if layout == "columns":
        return matrix.mT.contiguous().mT
    if layout == "every second":
        return matrix.repeat_interleave(2, dim=-1)[..., ::2]
    if layout == "part":
        whole = torch.full((*matrix.shape[:-2], matrix.shape[-2] + 1, matrix.shape[-1] + 5), 1e30)
        part = whole[..., 1:, 2:-3]
        part.copy_(matrix)
        return part
    return matrix


def check_product(
    left: Tensor, right: Tensor, out: Tensor, start: str, *, bf16: bool = False
) -> None:
    """Against float64. In bfloat16 the factors are rounded, sums are not."""
    assert LIBRARY is not None
    rounded = [(matrix.bfloat16() if bf16 else matrix).double() for matrix in (left, right)]
    row = random(*out.shape[:-2], out.shape[-1])
    begin = {"nothing": None, "out": out, "row": row}[start]
    exact = rounded[0] @ rounded[1]
    if begin is not None:
        exact = exact + (begin if start == "out" else begin[..., None, :]).double()
    with mixed_precision(bf16):
        packed = Factor(right, LIBRARY)
    found = packed.multiply(left, begin, out)
    assert found.data_ptr() == out.data_ptr()
    size = (rounded[0].abs() @ rounded[1].abs()).max().item() + 1
    torch.testing.assert_close(out.double(), exact, rtol=0, atol=1e-6 * size)


PRECISIONS = [
    pytest.param(False, marks=needs_library, id="single"),
    pytest.param(True, marks=needs_bf16, id="bf16"),
]


@pytest.mark.parametrize("bf16", PRECISIONS)
@settings(deadline=None, max_examples=50)
@given(rows=SIZES, inner=SIZES, columns=SIZES, start=st.sampled_from(STARTS))
def test_products_of_any_size(bf16: bool, rows: int, inner: int, columns: int, start: str) -> None:
    left, right, out = random(rows, inner), random(inner, columns), random(rows, columns)
    check_product(left, right, out, start, bf16=bf16)


@pytest.mark.parametrize("bf16", PRECISIONS)
@pytest.mark.parametrize("layouts", list(product(LAYOUTS, repeat=2)))
@pytest.mark.parametrize("shape", [(29, 37, 41), (2, 29, 37, 41), (300, 1100, 70), (3, 2047, 40)])
def test_products_in_any_layout(
    shape: tuple[int, ...], layouts: tuple[str, str], bf16: bool
) -> None:
    *others, rows, inner, columns = shape
    left = laid_out(random(*others, rows, inner), layouts[0])
    right = laid_out(random(*others, inner, columns), layouts[1])
    beside = torch.full((*others, rows, columns + 2), 7.0)
    for start in STARTS:
        check_product(left, right, beside[..., 1:-1], start, bf16=bf16)
    assert (beside[..., [0, -1]] == 7).all()


@pytest.mark.parametrize("bf16", PRECISIONS)
@pytest.mark.parametrize("start", STARTS)
def test_a_sum_of_nothing_is_zero(start: str, bf16: bool) -> None:
    check_product(random(3, 0), random(0, 5), random(3, 5), start, bf16=bf16)


@pytest.mark.parametrize("bf16", PRECISIONS)
@pytest.mark.parametrize("rows", [1, 7, 12, 13, 40])
def test_a_row_does_not_depend_on_those_beside_it_nor_on_threads(rows: int, bf16: bool) -> None:
    assert LIBRARY is not None
    with mixed_precision(bf16):
        packed = Factor(random(600, 200), LIBRARY)
    left = random(rows, 600)
    together = packed.multiply(left)
    for row, found in zip(left, together, strict=True):
        assert torch.equal(packed.multiply(row[None])[0], found)
    with threads_of_torch(3):
        assert torch.equal(packed.multiply(left), together)


@needs_library
def test_a_start_may_lie_in_memory_as_it_likes() -> None:
    assert LIBRARY is not None
    left, right = random(40, 37), random(37, 41)
    for row in (random(82)[::2], torch.tensor(1.5).expand(41)):
        found = Factor(right, LIBRARY).multiply(left, row)
        torch.testing.assert_close(found, left @ right + row, rtol=1e-4, atol=1e-4)


@needs_bf16
@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3.4e38])
def test_bfloat16_does_not_hide_what_is_not_finite(number: float) -> None:
    assert LIBRARY is not None
    with mixed_precision():
        packed = Factor(torch.ones(2, 40), LIBRARY)
    assert not packed.multiply(torch.tensor([[1.0, number]])).isfinite().any()


@pytest.mark.parametrize("others", [(), (2,)])
@pytest.mark.parametrize("rows", [29, 80])  # few, and many
@pytest.mark.parametrize("mixed", [False, True])
def test_matmul_is_torchs_but_in_mixed_precision(
    rows: int, others: tuple[int, ...], mixed: bool
) -> None:
    left, right, start = random(*others, rows, 37), random(*others, 37, 41), random(*others, 41)
    rounded = mixed and rows > 64 and describe(mixed=True).endswith("mixed")
    a, b = ((m.bfloat16().float() if rounded else m) for m in (left, right))
    with mixed_precision(mixed):
        found, added = matmul(left, right), matmul(left, right, start)
    torch.testing.assert_close(found, a @ b, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(added, a @ b + start[..., None, :], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mixed", [pytest.param(True, marks=needs_bf16), False])
@pytest.mark.parametrize("count", [5, 50])  # few rows, and many
@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_is_torchs(mixed: bool, bias: bool, count: int) -> None:
    ours, theirs = Linear(9, 70, bias=bias), nn.Linear(9, 70, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    found = []
    for layer in (ours, theirs):
        rows = random(2, count, 9).requires_grad_()
        with mixed_precision(mixed):
            projected = layer(rows)
            projected.sin().sum().backward()
        gradients = [p.grad for p in (rows, *layer.parameters()) if p.grad is not None]
        assert len(gradients) == (3 if bias else 2)
        found.append([projected.detach(), *gradients])
    error = 0.0
    for a, b in zip(*found, strict=True):
        error = max(error, (a - b).abs().max().item() / b.abs().max().item())
    assert error < (2e-2 if mixed else 1e-5)
    assert (error > 1e-4) == (mixed and count == 50)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_prepared_matrix_is_a_linear_layer(backend: str) -> None:
    weight, bias, inputs = random(41, 37), random(41), random(29, 37)
    with use(backend):
        for shift in (None, bias):
            found = ExactProduct(weight, shift)(inputs)
            expected = nn.functional.linear(inputs, weight, shift)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        double = ExactProduct(weight.double(), bias.double())(inputs.double())
    torch.testing.assert_close(double.float(), expected, rtol=1e-4, atol=1e-4)


# The dispatch.


def test_only_float32_on_a_cpu_is_for_the_compiled_kernels() -> None:
    assert native.library_for(torch.zeros(1, dtype=torch.float64)) is None
    assert native.library_for(torch.zeros(1, device="meta")) is None
    with use("torch"):
        assert native.library_for(torch.zeros(1)) is None
        assert describe(mixed=True) == "torch"


@needs_library
def test_a_choice_holds_until_its_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLEDOC_KERNELS", "torch")
    assert describe() == "torch"
    with use("compiled"):
        assert LIBRARY is not None
        assert native.library_for(torch.zeros(1)) is LIBRARY
        assert describe() == f"compiled {LIBRARY.name}"
        with use("torch"):
            assert describe() == "torch"
        assert describe() != "torch"
    assert describe() == "torch"


def test_the_environment_asks_for_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLEDOC_KERNELS", "fast")
    with pytest.raises(UserError, match="'torch' or 'compiled'"):
        describe()
    monkeypatch.setenv("WHOLEDOC_KERNELS", "compiled")
    monkeypatch.setattr(native, "_loaded", lambda: None)
    with pytest.raises(UserError, match="no compiled kernels"):
        describe()


@needs_bf16
def test_mixed_precision_is_described_where_it_can_be_had(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert describe(mixed=True) == f"{describe()}, mixed"
    check_precision("mixed")
    assert capsys.readouterr().err == ""


def test_mixed_precision_that_cannot_be_had_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with use("torch"):
        check_precision("single", "single")
        assert capsys.readouterr().err == ""
        check_precision("single", "mixed")
        with mixed_precision():
            assert not native.multiplies_bf16()
    assert "training in single precision (torch)" in capsys.readouterr().err


def test_only_the_kernels_know_of_c_and_openmp() -> None:
    package = Path(native.__file__).parents[1]
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "kernels"):
            continue
        text = path.read_text(encoding="utf-8")
        assert "ctypes" not in text, path
        assert "OMP_" not in text, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):  # the package alone, none of its modules
                assert not (node.module or "").startswith("wholedoc.kernels."), path


def test_memory_can_be_kept_without_torch() -> None:
    code = "import sys; from wholedoc.kernels import keep_freed_memory as k; k(); "
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Threads.


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    with threads_of_torch(request.param):
        yield request.param


def test_results_come_in_order_from_as_many_threads_as_torch_has(threads: int) -> None:
    together = threading.Barrier(threads)
    seen = set()

    def run(batch: int) -> int:
        together.wait(timeout=20)  # no batch is done before as many have begun
        seen.add(threading.get_ident())
        assert threads == 1 or torch.get_num_threads() == 1
        assert threads == 1 or torch.is_inference_mode_enabled()
        return batch * batch

    assert list(in_threads(run, range(6))) == [0, 1, 4, 9, 16, 25]
    assert len(seen) == threads
    assert torch.get_num_threads() == threads


def test_one_thread_computes_unless_another_number_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count() -> int:
        return torch.get_num_threads()

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threads_of_torch(2):
        with one_thread():
            assert count() == 1
            with one_thread():
                assert count() == 1
            together = threading.Barrier(2, timeout=20)  # batches still have both threads
            assert list(in_threads(lambda _: together.wait() >= 0, range(2))) == [True, True]
            assert count() == 1
        assert count() == 2
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with one_thread():
            assert count() == 2


def test_threads_that_overlap_leave_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one thread sets for a while is not taken by another for the user's choice."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    found = []

    def first() -> None:
        with one_thread():
            first_is_in.set()
            assert second_is_in.wait(20)
        first_is_out.set()

    def second() -> None:
        assert first_is_in.wait(20)
        with one_thread():
            second_is_in.set()
            assert first_is_out.wait(20)
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())

    with threads_of_torch(2):
        with ThreadPoolExecutor(2) as pool:
            for each in [pool.submit(first), pool.submit(second)]:
                each.result(20)
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(torch.get_num_threads).result(20))
    assert found == [1, 2, 2]


def test_an_error_reaches_the_caller_and_threads_are_set_back(threads: int) -> None:
    def fail(batch: int) -> int:
        raise ValueError(f"batch {batch}")

    with pytest.raises(ValueError, match="batch 0"):
        list(in_threads(fail, range(6)))
    assert torch.get_num_threads() == threads


def test_documents_are_translated_the_same_whatever_the_threads(threads: int) -> None:
    config = ModelConfig(hidden=5, embedding=4, alignment=3, fusion="output", memory="both")
    system = TranslationSystem(
        TranslationModel(config, 11, 9).double().eval(),
        TranslationModel(config.without_context(), 11, 9).double().eval(),
        SentenceVectors(11, config).double(),
    )
    for seed, module in enumerate((system.model, system.base, system.vectors)):
        assert module is not None
        initialise(module, seed)
    documents = [[[4, 5, EOS], [6, EOS], [7, 8, 9, EOS]], [[5, EOS]]]
    search = SearchConfig(beam=2, passes=2, batch_tokens=6)  # a sentence or two to a batch
    told: list[int] = []
    found = translate_documents(
        system, documents, search, progress=lambda sentences, _: told.append(sentences)
    )
    torch.set_num_threads(1)
    expected = translate_documents(system, documents, search)
    for walk, alone in zip(found, expected, strict=True):
        assert [[best[0].tokens for best in once] for once in walk.passes] == [
            [best[0].tokens for best in once] for once in alone.passes
        ]
    assert sum(told) >= 2 * 4  # the first translations, and at least one pass
