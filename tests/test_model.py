"""The equations of the sentence model against slow loops, their gradients and their invariants.

The loops are written from the formulas in plain Python numbers, one word at a time; of the code
under test they use the weights alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck
from toy import padded, predict

from wholedoc.config import ModelConfig
from wholedoc.corpus.batches import Batch, pad
from wholedoc.corpus.vocabulary import BOS, EOS, PAD
from wholedoc.kernels import pack
from wholedoc.model.attention import Attended, Attention
from wholedoc.model.decoder import Decoded, DecoderState, GRULayer, Output
from wholedoc.model.encoder import Encoding
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.objective import sentence_loss

Vector = list[float]
Matrix = list[Vector]

SMALL = ModelConfig(hidden=5, embedding=4, alignment=3)
STARTS = ("zero", "encoder")
SRC = [[4, 5, 6, 7], [8], [], [9, 10, 4, 4, 5, 6]]
TRG = [[4, 5], [], [6, 7, 8, 4, 5], [1, 8, 8]]

sentences = st.lists(st.integers(4, 8), max_size=6)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=4)


def close(found: Tensor, expected: Tensor | Vector | Matrix) -> None:
    if not isinstance(expected, Tensor):
        expected = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


# The reference: vectors are lists of floats.


def times(matrix: Matrix, vector: Vector) -> Vector:
    return [sum(m * v for m, v in zip(row, vector, strict=True)) for row in matrix]


def plus(*vectors: Vector) -> Vector:
    return [sum(values) for values in zip(*vectors, strict=True)]


def tanh(vector: Vector) -> Vector:
    return [math.tanh(value) for value in vector]


def sigmoid(vector: Vector) -> Vector:
    return [1 / (1 + math.exp(-value)) for value in vector]


def softmax(vector: Vector) -> Vector:
    powers = [math.exp(value) for value in vector]
    return [power / sum(powers) for power in powers]


@dataclass
class Gru:
    """Weights of a GRU: for each gate, what multiplies the input, the state, and two biases."""

    inputs: Matrix
    state: Matrix
    input_bias: Vector
    state_bias: Vector

    def step(self, word: Vector, state: Vector) -> Vector:
        size = len(state)
        reset, update, new = (slice(gate * size, (gate + 1) * size) for gate in range(3))

        def from_input(gate: slice) -> Vector:
            return plus(times(self.inputs[gate], word), self.input_bias[gate])

        def from_state(gate: slice) -> Vector:
            return plus(times(self.state[gate], state), self.state_bias[gate])

        r = sigmoid(plus(from_input(reset), from_state(reset)))
        z = sigmoid(plus(from_input(update), from_state(update)))
        memory = [r_k * g_k for r_k, g_k in zip(r, from_state(new), strict=True)]
        n = tanh(plus(from_input(new), memory))
        return [(1 - z_k) * n_k + z_k * s_k for z_k, n_k, s_k in zip(z, n, state, strict=True)]


def weights_of(model: TranslationModel) -> dict[str, Matrix]:
    named = model.named_parameters(remove_duplicate=False)  # a tied matrix under all its names
    return {name: value.tolist() for name, value in named}


def encoding_of(states: Tensor) -> Encoding:
    """Sentences of the same length, with given states; their first ones are the summaries."""
    sentences, words, _ = states.shape
    packing = pack(torch.full((sentences,), words))
    packed = states[packing.rows, packing.places]
    return Encoding(packed, packing, torch.ones(sentences, words, dtype=torch.bool), states[:, 0])


def encode_slowly(model: TranslationModel, src: Sequence[int]) -> tuple[Matrix, Vector]:
    """[enc]: h_i for each word, and h_t = [last forward ; first backward]."""
    weights = weights_of(model)
    states: list[Matrix] = []
    for way, order in (("forward", 1), ("backward", -1)):
        gru = Gru(
            weights[f"encoder.rnn.{way}_input.weight"],
            weights[f"encoder.rnn.{way}_state.weight"],
            weights[f"encoder.rnn.{way}_input.bias"],
            weights[f"encoder.rnn.{way}_state.bias"],
        )
        state = [0.0] * (len(gru.state) // 3)
        direction = []
        for word in src[::order]:
            state = gru.step(weights["encoder.embedding.weight"][word], state)
            direction.append(state)
        states.append(direction[::order])
    forward, backward = states
    both = [left + right for left, right in zip(forward, backward, strict=True)]
    return both, forward[-1] + backward[0]


def attend_slowly(
    weights: dict[str, Matrix], states: Matrix, query: Vector
) -> tuple[Vector, Vector]:
    """[att]: c_j and α_j."""
    scores = []
    for state in states:
        energy = tanh(
            plus(
                times(weights["decoder.attention.key.weight"], state),
                times(weights["decoder.attention.query.weight"], query),
            )
        )
        scores.append(times(weights["decoder.attention.score.weight"], energy)[0])
    alpha = softmax(scores)
    context = [
        sum(a * state[k] for a, state in zip(alpha, states, strict=True))
        for k in range(len(states[0]))
    ]
    return context, alpha


@dataclass
class Step:
    """What the reference decoder computes for one word."""

    upper: Vector
    alpha: Vector
    features: Vector
    probabilities: Vector


def decode_slowly(model: TranslationModel, src: Sequence[int], trg_in: Sequence[int]) -> list[Step]:
    """[att], [dec-state] and [dec-out], word by word."""
    weights = weights_of(model)
    states, summary = encode_slowly(model, src)
    hidden = len(summary) // 2
    first = Gru(
        [
            [*word, *context]  # layer 1 reads [E(y_{j-1}) ; c_j]
            for word, context in zip(
                weights["decoder.word.weight"], weights["decoder.context.weight"], strict=True
            )
        ],
        weights["decoder.lower.state.weight"],
        weights["decoder.word.bias"],
        weights["decoder.lower.state.bias"],
    )
    second = Gru(
        weights["decoder.between.weight"],
        weights["decoder.upper.state.weight"],
        weights["decoder.between.bias"],
        weights["decoder.upper.state.bias"],
    )
    lower, upper = [0.0] * hidden, [0.0] * hidden
    if "decoder.start.project.weight" in weights:
        start = tanh(
            plus(
                times(weights["decoder.start.project.weight"], summary),
                weights["decoder.start.project.bias"],
            )
        )
        lower, upper = start[:hidden], start[hidden:]
    steps = []
    for word in trg_in:
        embedded = weights["decoder.embedding.weight"][word]
        context, alpha = attend_slowly(weights, states, lower + upper)
        lower = first.step(embedded + context, lower)
        upper = second.step(lower, upper)
        features = tanh(
            plus(
                upper,
                times(weights["decoder.output.context.weight"], context),
                times(weights["decoder.output.word.weight"], embedded),
            )
        )
        logits = plus(
            times(weights["decoder.output.vocabulary.weight"], features),
            weights["decoder.output.vocabulary.bias"],
        )
        steps.append(Step(upper, alpha, features, softmax(logits)))
    return steps


# Equations.


def test_encoder_equals_its_equation(make_model, make_pairs) -> None:
    model = make_model(SMALL)
    batch = make_pairs(SRC, TRG)
    encoding = model.encoder(batch.src, batch.src_lengths)
    for t, words in enumerate(SRC):
        states, summary = encode_slowly(model, [*words, EOS])
        close(encoding.states[t, : len(states)], states)
        close(encoding.summary[t], summary)
        assert not encoding.states[t, len(states) :].any()
        assert encoding.mask[t].tolist() == [i <= len(words) for i in range(batch.src.shape[1])]


@pytest.mark.parametrize("initial_state", STARTS)
@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_decoder_equals_its_equations(make_model, make_pairs, initial_state: str, tie: str) -> None:
    config = ModelConfig(hidden=4, embedding=4, alignment=3, initial_state=initial_state, tie=tie)
    model = make_model(config, (11, 11))
    batch = make_pairs(SRC, TRG)
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    features, weights, states = padded(decoded)
    log_probabilities = model.decoder.log_probabilities(features)
    for t, (src, trg) in enumerate(zip(SRC, TRG, strict=True)):
        for j, step in enumerate(decode_slowly(model, [*src, EOS], [BOS, *trg])):
            close(weights[t, j, : len(src) + 1], step.alpha)
            close(states[t, j], step.upper)
            close(features[t, j], step.features)
            close(log_probabilities[t, j].exp(), step.probabilities)


@pytest.mark.parametrize("initial_state", STARTS)
def test_search_steps_equal_reading_the_whole_sentence(
    make_model, make_pairs, initial_state: str
) -> None:
    model = make_model(replace(SMALL, initial_state=initial_state))
    batch = make_pairs(SRC, TRG)
    encoding = model.encoder(batch.src, batch.src_lengths)
    decoded = model.decoder(encoding, batch.trg_in)
    features, attention, states = padded(decoded)
    expected = model.decoder.log_probabilities(features)
    state, source = model.decoder.start(encoding), model.decoder.prepare(encoding)
    for j, words in enumerate(batch.trg_in.T):
        state, log_probabilities, weights = predict(model.decoder, state, words, source)
        real = batch.trg_out[:, j] != PAD
        close(log_probabilities[real], expected[real, j])
        close(state.upper[real], states[real, j])
        close(weights[real], attention[real, j])


def test_zero_start_is_zero_and_encoder_start_reads_the_summary(make_model, make_pairs) -> None:
    batch = make_pairs(SRC, TRG)
    zero, learned = (make_model(replace(SMALL, initial_state=name)) for name in STARTS)
    encoding = zero.encoder(batch.src, batch.src_lengths)
    state = zero.decoder.start(encoding)
    assert not state.lower.any()
    assert not state.upper.any()
    project = learned.decoder.start.project
    for t in range(len(SRC)):
        state = learned.decoder.start(encoding)
        summary, bias = encoding.summary[t].tolist(), project.bias.tolist()
        expected = tanh(plus(times(project.weight.tolist(), summary), bias))
        close(torch.cat((state.lower[t], state.upper[t])), expected)


# Attention as a mean.


@given(pairs)
@settings(deadline=None, max_examples=30)
def test_attention_is_a_mean_over_the_real_words(make_model, make_pairs, given_pairs) -> None:
    model = make_model(SMALL)
    batch = make_pairs(*zip(*given_pairs, strict=True))
    encoding = model.encoder(batch.src, batch.src_lengths)
    _, weights, _ = padded(model.decoder(encoding, batch.trg_in))
    close(weights.sum(dim=-1), (batch.trg_out != PAD).double())
    padding = ~(encoding.mask[:, None] & (batch.trg_out != PAD)[:, :, None])
    assert (weights[~padding] > 0).all()
    assert not weights[padding].any()


@given(st.integers(0, 2**31), st.integers(1, 6), st.integers(1, 3))
@settings(deadline=None, max_examples=50)
def test_context_lies_in_the_convex_hull_of_the_states(seed: int, words: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(1, words, width, generator=generator, dtype=torch.float64)
    attention = Attention(width, 4, 3).double()
    source = attention.attend(encoding_of(states))
    query = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    context, weights = attention(query, source)
    # A point is in the hull if no direction has it beyond all states.
    directions = torch.randn(20, width, generator=generator, dtype=torch.float64)
    reach = (states[0] @ directions.T).amax(dim=0)
    assert (context[0] @ directions.T <= reach + 1e-12).all()
    close(context[0], weights[0] @ states[0])


# Padding and batching.


def per_sentence(decoded: Decoded, t: int, src: Sequence[int], trg: Sequence[int]) -> list[Tensor]:
    words = len(trg) + 1
    features, weights, states = (part[t, :words] for part in padded(decoded))
    return [features, weights[:, : len(src) + 1], states]


@given(pairs, st.integers(0, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_batch_and_padding_change_nothing(
    make_model, make_pairs, given_pairs, src_padding: int, trg_padding: int
) -> None:
    model = make_model(replace(SMALL, initial_state="encoder"))
    batch = make_pairs(*zip(*given_pairs, strict=True))
    decoded = model(
        nn.functional.pad(batch.src, (0, src_padding), value=PAD),
        batch.src_lengths,
        nn.functional.pad(batch.trg_in, (0, trg_padding), value=PAD),
    )
    for t, (src, trg) in enumerate(given_pairs):
        single = make_pairs([src], [trg])
        alone = model(single.src, single.src_lengths, single.trg_in)
        for found, expected in zip(
            per_sentence(decoded, t, src, trg), per_sentence(alone, 0, src, trg), strict=True
        ):
            close(found, expected)


@given(pairs, st.integers(4, 8))
@settings(deadline=None, max_examples=30)
def test_garbage_in_padding_changes_nothing(
    make_model, make_pairs, given_pairs, garbage: int
) -> None:
    model = make_model(replace(SMALL, initial_state="encoder"))
    batch = make_pairs(*zip(*given_pairs, strict=True))
    clean = model(batch.src, batch.src_lengths, batch.trg_in)
    encoding = model.encoder(
        batch.src.masked_fill(batch.src == PAD, garbage), batch.src_lengths
    )  # other words where there should be none
    attend = model.decoder.attention.attend

    def attend_to_dirt(encoding: Encoding) -> Attended:
        source = attend(encoding)
        keys, values = (
            tensor.masked_fill(~source.mask[..., None], 1e6)
            for tensor in (source.keys, source.values)
        )
        return replace(source, keys=keys, values=values)

    model.decoder.attention.attend = attend_to_dirt
    dirty = model.decoder(encoding, batch.trg_in.masked_fill(batch.trg_out == PAD, garbage))
    for t, (src, trg) in enumerate(given_pairs):
        for found, expected in zip(
            per_sentence(dirty, t, src, trg), per_sentence(clean, t, src, trg), strict=True
        ):
            close(found, expected)


def test_no_matrix_is_multiplied_by_padding(make_model, make_pairs) -> None:
    """Every product of words has as many rows as there are real ones."""
    model = make_model(replace(SMALL, tie="none"))
    batch = make_pairs([[4], [4, 5, 6, 7]], [[4, 5], [4, 5, 6, 7, 4, 5]])
    src, trg = int(batch.src_lengths.sum()), batch.words
    decoder, rows = model.decoder, {}
    layers = {
        decoder.attention.key: src,
        decoder.word: trg,
        decoder.output.context: trg,
        decoder.output.word: trg,
    }
    for layer in layers:
        layer.register_forward_hook(lambda layer, given, _: rows.update({layer: len(given[0])}))
    decoded = model(batch.src, batch.src_lengths, batch.trg_in)
    assert rows == layers
    assert len(decoded.packed_features) == trg


def test_later_words_do_not_reach_earlier_ones(make_model, make_pairs) -> None:
    model = make_model(SMALL)
    one, other = make_pairs([[4, 5]], [[4, 5, 6]]), make_pairs([[4, 5]], [[4, 5, 7]])
    found, expected = (model(b.src, b.src_lengths, b.trg_in) for b in (one, other))
    close(found.packed_features[:3], expected.packed_features[:3])
    assert not torch.equal(found.packed_features[3], expected.packed_features[3])


def test_shapes_are_checked(make_model, make_pairs) -> None:
    model = make_model(SMALL)
    batch = make_pairs(SRC, TRG)
    with pytest.raises(TypeError, match="src"):
        model(batch.src[0], batch.src_lengths, batch.trg_in)
    with pytest.raises(TypeError, match="trg_in"):
        model(batch.src, batch.src_lengths, batch.trg_in.double())


# Gradients.


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_gradient_of_attention() -> None:
    torch.manual_seed(1)
    attention = Attention(4, 6, 3).double()
    mask = torch.tensor([[True, True, True], [True, False, False]])

    def attend(state: Tensor, keys: Tensor, values: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        return attention(state, Attended(keys, values, mask))

    inputs = (random(2, 6), random(2, 3, 3), random(2, 3, 4))
    used = (attention.query.weight, attention.score.weight)
    assert gradcheck(attend, (*inputs, *used))


def test_gradient_of_a_gru_layer() -> None:
    torch.manual_seed(1)
    layer = GRULayer(3).double()
    assert gradcheck(
        lambda *x: layer(x[0], x[1]), (random(2, 9), random(2, 3), *layer.parameters())
    )


def test_gradient_of_the_output() -> None:
    torch.manual_seed(1)
    output = Output(7, ModelConfig(hidden=3, embedding=2, alignment=2)).double()

    def logits(state: Tensor, context: Tensor, embedded: Tensor, *_: Tensor) -> Tensor:
        return output.vocabulary(output.features(state, context, embedded))

    inputs = (random(2, 2, 3), random(2, 2, 6), random(2, 2, 2))
    assert gradcheck(logits, (*inputs, *output.parameters()))


@pytest.mark.parametrize(
    ("initial_state", "tie", "dropout"), [("zero", "none", 0.0), ("encoder", "all", 0.4)]
)
def test_gradient_of_the_loss(
    make_model, make_pairs, initial_state: str, tie: str, dropout: float
) -> None:
    config = ModelConfig(hidden=2, embedding=2, alignment=2, initial_state=initial_state, tie=tie)
    model = make_model(config, (6, 6), dropout=dropout).train()
    batch = make_pairs([[4, 5], []], [[], [5]])

    def loss(*_: Tensor) -> Tensor:
        # gradcheck moves the parameters themselves, and the model sees them move.
        torch.manual_seed(1)  # the same dropout each time
        return sentence_loss(model, batch, 0.1).smoothed

    # Along random directions: its parts are checked entry by entry above.
    assert gradcheck(loss, tuple(model.parameters()), fast_mode=True)


@pytest.mark.parametrize("initial_state", STARTS)
@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_every_parameter_gets_a_gradient(
    make_model, make_pairs, initial_state: str, tie: str
) -> None:
    config = ModelConfig(hidden=4, embedding=4, alignment=3, initial_state=initial_state, tie=tie)
    model = make_model(config, (11, 11))
    sentence_loss(model, make_pairs(SRC, TRG)).smoothed.backward()
    without = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    ]
    assert without == []


# Parameters.


@pytest.mark.parametrize(
    ("tie", "shared", "saved"), [("none", 0, 0), ("target", 1, 20 * 6), ("all", 2, 2 * 20 * 6)]
)
def test_tying_shares_memory_and_counts_once(tie: str, shared: int, saved: int) -> None:
    config = ModelConfig(hidden=6, embedding=6, alignment=3)
    tied = TranslationModel(replace(config, tie=tie), 20, 20)
    matrices = (
        tied.decoder.embedding.weight,
        tied.decoder.output.vocabulary.weight,
        tied.encoder.embedding.weight,
    )
    assert len({matrix.data_ptr() for matrix in matrices}) == 3 - shared
    assert count(TranslationModel(config, 20, 20)) - count(tied) == saved


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("src", "trg", "ours", "printed", "unexplained"),
    [
        (25_100, 21_000, 43.56, 42.5, 0.0),
        (45_100, 34_700, 67.84, 66.8, 0.0),
        (48_600, 24_900, 59.59, 58.4, 0.1),
    ],
)
def test_parameter_count_of_the_papers_size(
    src: int, trg: int, ours: float, printed: float, unexplained: float
) -> None:
    with torch.device("meta"):
        model = TranslationModel(ModelConfig(), src, trg)
    millions = count(model) / 1e6
    assert millions == pytest.approx(ours, abs=0.01)
    # What the paper's table lacks in every column: see docs/equations.md.
    assert millions - 1.048576 == pytest.approx(printed + unexplained, abs=0.05)


# Initial values.


@pytest.mark.parametrize("tie", ["none", "target", "all"])
def test_initial_values(tie: str) -> None:
    hidden, align, vocabulary = 40, 30, 60
    config = ModelConfig(
        hidden=hidden, embedding=hidden, alignment=align, initial_state="encoder", tie=tie
    )
    model = TranslationModel(config, vocabulary, vocabulary)
    initialise(model, seed=3)
    fans = {  # of one gate where there are three
        "encoder.rnn": 2 * hidden,
        "decoder.start.project.weight": 4 * hidden,
        "decoder.attention.key.weight": align + 2 * hidden,
        "decoder.attention.query.weight": align + 2 * hidden,
        "decoder.attention.score.weight": 1 + align,
        "decoder.word.weight": 2 * hidden,
        "decoder.context.weight": 3 * hidden,
        "decoder.lower.state.weight": 2 * hidden,
        "decoder.between.weight": 2 * hidden,
        "decoder.upper.state.weight": 2 * hidden,
        "decoder.output.context.weight": 3 * hidden,
        "decoder.output.word.weight": 2 * hidden,
        "decoder.output.vocabulary.weight": vocabulary + hidden,
    }
    for name, parameter in model.named_parameters():
        if "bias" in name:
            assert not parameter.any(), name
            continue
        if "embedding" in name:
            bound = math.sqrt(3 / hidden)
            assert not parameter[PAD].any()
        else:
            bound = next(math.sqrt(6 / fans[key]) for key in fans if name.startswith(key))
        largest = parameter.abs().max().item()
        assert 0.9 * bound < largest <= bound, name


def test_initial_values_depend_on_the_seed_alone() -> None:
    models = [TranslationModel(SMALL, 11, 9) for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        initialise(model, seed)
    one, again, other = (nn.utils.parameters_to_vector(model.parameters()) for model in models)
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


# Dropout.


def read(model: TranslationModel, batch: Batch) -> Tensor:
    return model(batch.src, batch.src_lengths, batch.trg_in).packed_features


def test_evaluation_and_a_rate_of_zero_are_without_dropout(make_model, make_pairs) -> None:
    batch = make_pairs(SRC, TRG)
    expected = read(make_model(SMALL), batch)
    dropping = make_model(SMALL, dropout=0.5)
    assert torch.equal(read(dropping, batch), expected)
    assert torch.equal(read(make_model(SMALL, dropout=0.0).train(), batch), expected)
    dropping.train()
    assert not torch.equal(read(dropping, batch), read(dropping, batch))


def zero(*modules: nn.Linear) -> None:
    """Close the way through some matrices."""
    with torch.no_grad():
        for module in modules:
            module.weight.zero_()


def an_encoding() -> Encoding:
    generator = torch.Generator().manual_seed(5)
    states = torch.randn(2, 3, 2 * SMALL.hidden, generator=generator, dtype=torch.float64)
    return encoding_of(states)


def test_recurrence_and_query_are_never_dropped(make_model) -> None:
    """With the inputs of both layers closed, only a mask on s or on the query could show."""
    model = make_model(replace(SMALL, initial_state="encoder"), dropout=0.8)
    decoder = model.decoder
    zero(decoder.word, decoder.context, decoder.between)
    words = torch.tensor([[BOS, 4, 5, 6], [BOS, 7, 8, 4]])
    expected = padded(decoder(an_encoding(), words))
    assert expected[2].std(dim=1).min() > 1e-4  # the states move,
    assert expected[1].std(dim=1).max() > 1e-4  # and the attention follows them
    decoder.train()
    found = padded(decoder(an_encoding(), words))
    assert torch.equal(found[2], expected[2])
    assert torch.equal(found[1], expected[1])
    assert not torch.equal(found[0], expected[0])  # the top output is dropped


def test_output_drops_the_state_alone(make_model) -> None:
    """r_j without a state shows that its other two terms are not dropped."""
    decoder = make_model(SMALL, dropout=0.8).decoder
    with torch.no_grad():  # s_j stays at zero
        for part in (decoder.word, decoder.context, decoder.between):
            nn.utils.vector_to_parameters(
                torch.zeros(count(part), dtype=torch.float64), part.parameters()
            )
        decoder.lower.state.bias.zero_()
        decoder.upper.state.bias.zero_()
    words = torch.tensor([[BOS, 4, 5], [BOS, 7, 8]])
    expected = decoder(an_encoding(), words)
    assert not expected.packed_states.any()
    assert expected.packed_features.abs().min() > 0
    decoder.train()
    found = decoder(an_encoding(), words)
    assert torch.equal(found.packed_features, expected.packed_features)


def forget(layer: GRULayer) -> None:
    """Make s_j a function of the layer's input at step j alone."""
    with torch.no_grad():
        layer.state.weight.zero_()
        reset, update, _ = layer.state.bias.chunk(3)
        reset.fill_(-50.0)
        update.fill_(-50.0)


@pytest.mark.parametrize(
    ("closed", "outcomes"),
    [
        (["context"], 2**4 + 1),  # E[y] is 4 wide: 2⁴ lower states, each kept or dropped
        (["word"], 2**2 + 1),  # c_j is 2 wide
        (["word", "context"], 2),
    ],
)
def test_each_input_of_the_decoder_is_dropped_anew_at_each_step(
    make_model, closed: list[str], outcomes: int
) -> None:
    """With the same input at every step, each mask on one open way leaves a state of its own."""
    config = ModelConfig(hidden=1, embedding=4, alignment=2)
    decoder = make_model(config, dropout=0.5).decoder
    forget(decoder.lower)
    forget(decoder.upper)
    zero(*(getattr(decoder, name) for name in closed))
    states = torch.tensor([[[0.5, -0.8]]], dtype=torch.float64)  # one word: c_j is constant
    encoding = encoding_of(states)
    words = torch.full((1, 500), 4)
    states = decoder(encoding, words).packed_states
    assert len(states.round(decimals=9).unique()) == 1
    decoder.train()
    torch.manual_seed(1)
    assert (
        len(decoder(encoding, words).packed_states.flatten().round(decimals=9).unique()) == outcomes
    )


def test_top_output_is_scaled_or_zero_with_a_fresh_mask_each_step(make_model) -> None:
    rate = 0.4
    decoder = make_model(SMALL, dropout=rate).decoder
    zero(decoder.output.context, decoder.output.word)
    decoder.train()
    torch.manual_seed(1)
    decoded = decoder(an_encoding(), torch.full((2, 200), 4))
    features, _, states = padded(decoded)
    kept = torch.atanh(features) / states * (1 - rate)
    assert ((kept - 1).abs().minimum(kept.abs()) < 1e-9).all()
    assert kept.mean().item() == pytest.approx(1 - rate, abs=0.05)
    assert len(kept[0].round().unique(dim=0)) > 10


def test_encoder_drops_input_and_output_but_not_the_recurrence(make_model) -> None:
    src, lengths = pad([[4] * 7])
    closed = make_model(SMALL, dropout=0.5).encoder
    zero(closed.rnn.forward_input, closed.rnn.backward_input)
    expected = closed(src, lengths)
    closed.train()
    found = closed(src, lengths)
    assert torch.equal(found.summary, expected.summary)  # h_t: through the recurrence alone
    close(found.states[found.states != 0], 2 * expected.states[found.states != 0])
    assert 0 < (found.states != 0).double().mean() < 1
    assert len((found.states[0] != 0).unique(dim=0)) > 1

    opened = make_model(SMALL, dropout=0.5).encoder
    expected = opened(src, lengths)
    opened.train()
    assert not torch.equal(opened(src, lengths).summary, expected.summary)


# Selections.


def test_selecting_rows_repeats_and_reorders(make_model, make_pairs) -> None:
    model = make_model(SMALL)
    batch = make_pairs(SRC, TRG)
    encoding = model.encoder(batch.src, batch.src_lengths)
    source = model.decoder.attention.attend(encoding)
    rows = torch.tensor([3, 0, 0])
    chosen = source.select(rows)
    state = DecoderState(torch.arange(4.0)[:, None], -torch.arange(4.0)[:, None]).select(rows)
    assert state.lower.flatten().tolist() == [3, 0, 0]
    assert state.upper.flatten().tolist() == [-3, 0, 0]
    for row, t in enumerate(rows.tolist()):
        assert torch.equal(chosen.values[row], encoding.states[t])
        assert torch.equal(chosen.keys[row], source.keys[t])
        assert torch.equal(chosen.mask[row], encoding.mask[t])
