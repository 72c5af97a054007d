"""The fast recurrences against torch, the plain loop and finite differences."""

import gc

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from wholedoc.config import ModelConfig
from wholedoc.kernels.dropout import Dropout
from wholedoc.kernels.recurrence import BidirectionalGRU, Gates, GRUTape, pack
from wholedoc.kernels.unroll import UnrollInputs, UnrollWeights, source_blocks, unroll
from wholedoc.model.attention import Attended
from wholedoc.model.decoder import Decoder, DecoderState
from wholedoc.model.translation import initialise

LENGTHS = torch.tensor([7, 3, 5, 1])
COUNTS = [4, 4, 3, 2, 1]
"""Words of four sentences at each step, the longest first."""


def double(module: nn.Module) -> nn.Module:
    """In float64, with biases that are not zero."""
    initialise(module, seed=5)
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.uniform_(-0.5, 0.5, generator=generator)
    return module.double()


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def torch_gru(ours: BidirectionalGRU) -> nn.GRU:
    """torch's GRU with the same weights."""
    theirs = nn.GRU(ours.forward_input.in_features, ours.hidden, bidirectional=True).double()
    for suffix, inputs, states in (
        ("", ours.forward_input, ours.forward_state),
        ("_reverse", ours.backward_input, ours.backward_state),
    ):
        for name, module in (("ih", inputs), ("hh", states)):
            getattr(theirs, f"weight_{name}_l0{suffix}").data.copy_(module.weight)
            getattr(theirs, f"bias_{name}_l0{suffix}").data.copy_(module.bias)
    return theirs


def test_packing_lists_the_words_step_by_step_the_longest_row_first() -> None:
    packing = pack(torch.tensor([1, 3, 2]))
    assert packing.order.tolist() == [1, 2, 0]
    assert packing.rows.tolist() == [1, 2, 0, 1, 2, 1]
    assert packing.places.tolist() == [0, 0, 0, 1, 1, 2]
    assert packing.mirror.tolist() == [5, 4, 2, 3, 1, 0]
    assert packing.ends.tolist() == [5, 4, 2]
    assert packing.counts == [3, 2, 1]
    padded = packing.pad(torch.arange(1.0, 7.0)[:, None], len(packing.counts))[:, :, 0]
    assert padded.tolist() == [[3, 0, 0], [1, 4, 6], [2, 5, 0]]


def test_packing_knows_whether_rows_are_in_order() -> None:
    assert pack(torch.tensor([5, 3, 3, 1])).in_order
    assert not pack(torch.tensor([5, 1, 3])).in_order
    assert pack(torch.tensor([2])).in_order


def test_bidirectional_gru_equals_torchs_packed_one_with_its_gradients() -> None:
    ours = double(BidirectionalGRU(5, 4))
    assert isinstance(ours, BidirectionalGRU)
    theirs = torch_gru(ours)
    inputs, again = random(7, 4, 5).requires_grad_(), random(7, 4, 5).requires_grad_()

    packing = pack(LENGTHS)
    words, last = ours(inputs[packing.places, packing.rows], packing)
    states = packing.pad(words, 7).transpose(0, 1)
    packed, ends = theirs(pack_padded_sequence(again, LENGTHS, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed)
    expected_last = torch.cat((ends[0], ends[1]), dim=-1)
    torch.testing.assert_close(states, expected)
    torch.testing.assert_close(last, expected_last)

    (states.sin().sum() + last.cos().sum()).backward()
    (expected.sin().sum() + expected_last.cos().sum()).backward()
    torch.testing.assert_close(inputs.grad, again.grad)
    torch.testing.assert_close(ours.backward_state.weight.grad, theirs.weight_hh_l0_reverse.grad)
    torch.testing.assert_close(ours.forward_state.bias.grad, theirs.bias_hh_l0.grad)
    torch.testing.assert_close(ours.backward_input.weight.grad, theirs.weight_ih_l0_reverse.grad)


def test_bidirectional_gru_gradcheck() -> None:
    module = double(BidirectionalGRU(3, 2))
    inputs = random(8, 3).requires_grad_()
    packing = pack(torch.tensor([4, 1, 3]))
    assert torch.autograd.gradcheck(lambda x: module(x, packing), inputs)


def decoder_and_source(dropout: float = 0.0) -> tuple[Decoder, DecoderState, Tensor, Attended]:
    config = ModelConfig(hidden=4, embedding=3, alignment=5)
    decoder = double(Decoder(9, config, dropout))
    assert isinstance(decoder, Decoder)
    mask = torch.arange(8) < LENGTHS[:, None]  # padding even after the longest
    source = Attended(random(4, 8, 5), random(4, 8, 8), mask)
    return decoder, DecoderState(random(4, 4), random(4, 4, seed=1)), random(14, 12), source


@pytest.fixture(params=["one block", "blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention to all sentences at once, and to blocks of one and two."""
    if request.param == "blocks":
        monkeypatch.setattr("wholedoc.kernels.unroll._BLOCK_COST", 2)
    blocks = source_blocks(LENGTHS.tolist())
    assert len(blocks) == (3 if request.param == "blocks" else 1)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=40))
@settings(deadline=None)
def test_blocks_hold_every_sentence_once_and_whole(lengths: list[int]) -> None:
    blocks = source_blocks(lengths)
    assert [t for rows, _ in blocks for t in range(rows.start, rows.stop)] == [*range(len(lengths))]
    assert all(max(lengths[rows]) == words for rows, words in blocks)
    cells = sum((rows.stop - rows.start) * words for rows, words in blocks)
    assert cells <= len(lengths) * max(lengths)


@pytest.mark.usefixtures("_blocks")
def test_unroll_equals_the_plain_loop_with_its_gradients() -> None:
    results = []
    for method in ("unroll", "step_by_step"):
        decoder, state, words, source = decoder_and_source()
        inputs = (state.lower, state.upper, words, source.keys, source.values)
        for tensor in inputs:
            tensor.requires_grad_()
        states, contexts, weights = getattr(decoder, method)(state, words, COUNTS, source)
        (states.sin().sum() + contexts.cos().sum()).backward()
        gradients = {f"input {i}": tensor.grad for i, tensor in enumerate(inputs)}
        gradients |= {name: p.grad for name, p in decoder.named_parameters() if p.grad is not None}
        results.append((states, contexts, weights.detach(), gradients))
    fast, plain = results
    assert fast[3].keys() == plain[3].keys()
    assert len(plain[3]) == 14
    torch.testing.assert_close(fast, plain)


@pytest.mark.usefixtures("_blocks")
def test_unroll_gradcheck_with_dropout() -> None:
    decoder, state, words, source = decoder_and_source()
    masks = (2.0 * (random(9, 8) > 0), 2.0 * (random(9, 4) > 0))
    weights = UnrollWeights(
        *(
            weight.detach().requires_grad_()
            for weight in (
                decoder.attention.query.weight,
                decoder.attention.score.weight,
                decoder.context.weight,
                decoder.lower.state.weight,
                decoder.lower.state.bias,
                decoder.between.weight,
                decoder.between.bias,
                decoder.upper.state.weight,
                decoder.upper.state.bias,
            )
        )
    )

    def run(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        words, *others = tensors[:5]
        given = (*others[:2], source.mask, *others[2:], masks[0].double(), masks[1].double())
        states, contexts, _ = unroll(
            UnrollInputs(words, [4, 3, 2], *given), UnrollWeights(*tensors[5:])
        )
        return states, contexts

    inputs = [words[:9], source.keys, source.values, state.lower, state.upper]
    given = [tensor.clone().requires_grad_() for tensor in inputs]
    assert torch.autograd.gradcheck(run, (*given, *vars(weights).values()))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_unroll_leaves_nothing_to_the_garbage_collector(dropout: float) -> None:
    decoder, state, words, source = decoder_and_source(dropout)
    gc.collect()
    gc.disable()
    try:
        states, contexts, _ = decoder.unroll(state, words, COUNTS, source)
        (states.sum() + contexts.sum()).backward()
        del states, contexts
        assert not [kept for kept in gc.get_objects() if type(kept) is GRUTape]
    finally:
        gc.enable()


def test_unroll_drops_fresh_values_at_each_step_and_none_in_evaluation() -> None:
    decoder, state, words, source = decoder_and_source(dropout=0.5)
    decoder.eval()
    torch.testing.assert_close(
        decoder.unroll(state, words, COUNTS, source),
        decoder.step_by_step(state, words, COUNTS, source),
    )
    decoder.train()
    mask = decoder.dropout.mask((50, 40, 8), words)
    assert mask is not None
    assert not torch.equal(mask[0], mask[1])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_dropout_keeps_the_mean_and_drops_at_its_rate(rate: float) -> None:
    dropout = Dropout(rate)
    torch.manual_seed(1)
    mask = dropout.mask((1000, 1001), torch.zeros(1))
    assert mask is not None
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])
    assert (mask == 0).double().mean().item() == pytest.approx(rate, abs=0.003)
    # Four masks come from one random number: neighbours must not know of each other.
    dropped = (mask.flatten() == 0).double()
    for shift in range(1, 5):
        together = (dropped[:-shift] * dropped[shift:]).mean().item()
        assert together == pytest.approx(rate**2, abs=0.003)
    assert dropout.eval()(torch.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_gates_are_initialised_one_by_one() -> None:
    gates = Gates(10, 20)
    initialise(gates, seed=1)
    assert gates.weight.abs().max().item() == pytest.approx((6 / 30) ** 0.5, rel=0.02)
    assert gates.bias.eq(0).all()
