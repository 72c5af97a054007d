"""The compiled loops beside the same formulas as calls of torch, and what there is without them."""

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from wholedoc.config import ModelConfig
from wholedoc.corpus.vocabulary import PAD
from wholedoc.errors import UserError
from wholedoc.kernels import native as loops
from wholedoc.kernels.dropout import Dropout
from wholedoc.kernels.recurrence import BidirectionalGRU, pack
from wholedoc.model.translation import TranslationModel, initialise
from wholedoc.training.objective import word_loss

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="nothing is compiled there")
needs_compiler = pytest.mark.skipif(loops.loops_kind() == "torch", reason="there is no C compiler")


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Takes the text of a program that is to be the C compiler; nothing is compiled yet."""

    def set_compiler(text: str) -> None:
        program = tmp_path / "compiler"
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
        monkeypatch.setenv("CC", str(program))
        loops.compiled_loops.cache_clear()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("WHOLEDOC_LOOPS", raising=False)
    yield set_compiler
    loops.compiled_loops.cache_clear()


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the loops away."""

    def take_away() -> None:
        for module in ("model.recurrence", "model.unroll", "model.matrices", "training.objective"):
            monkeypatch.setattr(f"wholedoc.{module}.loops_for", lambda _: None)

    return take_away


def random(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return scale * torch.randn(*shape, generator=generator)


@needs_compiler
@pytest.mark.parametrize("scale", [1.0, 8.0])  # the second where gates are open or closed
def test_a_recurrence_and_its_gradients_are_those_of_torch(
    scale: float, by_torch: Callable[[], None]
) -> None:
    def run() -> list[Tensor]:
        gru = BidirectionalGRU(13, 21)  # no multiples of what a vector holds
        with torch.no_grad():
            for number, parameter in enumerate(gru.parameters(), start=1):
                parameter.copy_(random(*parameter.shape, number, scale=scale)[..., 0])
        words = random(14, 13).requires_grad_()
        states, last = gru(words, pack(torch.tensor([1, 4, 2, 4, 3])))
        ((states * random(*states.shape)).sum() + last.sin().sum()).backward()
        return [states.detach(), last.detach(), *(p.grad for p in (words, *gru.parameters()))]

    compiled = run()
    by_torch()
    for ours, theirs in zip(compiled, run(), strict=True):
        size = theirs.abs().max().item()  # beside 64-bit numbers both err by 2e-5 at scale 8
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5 * scale * size)


def model_and_gradients(scale: float, dropout: float = 0.0) -> list[Tensor]:
    """What a model computes of sentences of unlike lengths, and its gradients."""
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
    return [decoded.features, decoded.weights, decoded.states, *gradients]


@needs_compiler
@pytest.mark.parametrize(("scale", "dropout"), [(1.0, 0.0), (4.0, 0.0), (1.0, 0.3)])
def test_a_models_states_and_gradients_are_those_of_torch(
    scale: float, dropout: float, by_torch: Callable[[], None]
) -> None:
    torch.manual_seed(1)
    compiled = model_and_gradients(scale, dropout)
    by_torch()
    torch.manual_seed(1)
    for ours, theirs in zip(compiled, model_and_gradients(scale, dropout), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4 * theirs.abs().max().item())


@pytest.mark.parametrize("kind", ["compiled", "torch"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.95])
def test_masks_drop_as_much_as_they_should_and_never_alike(
    rate: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "torch":
        monkeypatch.setattr("wholedoc.kernels.dropout.loops_for", lambda _: None)
    elif loops.loops_kind() == "torch":
        pytest.skip("there is no C compiler")

    def draw(seed: int) -> list[Tensor]:
        torch.manual_seed(seed)
        masks = [Dropout(rate).mask((500, 201), torch.zeros(1)) for _ in range(2)]
        return [mask for mask in masks if mask is not None]

    one, two = draw(1)
    assert torch.equal(one, draw(1)[0])  # resumed and repeated computations rely on it
    spread = math.sqrt(rate * (1 - rate))
    deviation = spread / math.sqrt(one.numel())
    for mask in (one, two, *draw(2)):
        assert mask.unique().tolist() == pytest.approx([0, 1 / (1 - rate)])
        assert (mask == 0).float().mean().item() == pytest.approx(rate, abs=5 * deviation)
    dropped = [(mask == 0).float().flatten() - rate for mask in (one, two, draw(2)[0])]
    pairs = [(dropped[0], other) for other in dropped[1:]]
    pairs += [(dropped[0][lag:], dropped[0][:-lag]) for lag in (1, 2, 4, 16, 201)]
    for x, y in pairs:
        assert (x * y).mean().item() == pytest.approx(0, abs=5 * deviation * spread)


@needs_compiler
@pytest.mark.parametrize("target", [-1, 20])
def test_targets_have_to_be_words(target: int) -> None:
    with pytest.raises(IndexError, match="20 words"):
        word_loss(torch.nn.Linear(4, 20), torch.ones(2, 4), torch.tensor([3, target]))


@needs_compiler
def test_scores_may_be_larger_than_an_exponent(by_torch: Callable[[], None]) -> None:
    def weights() -> Tensor:
        model = TranslationModel(ModelConfig(hidden=4, embedding=3, alignment=5), 9, 9)
        initialise(model, seed=1)
        with torch.no_grad():
            model.decoder.attention.score.weight.fill_(300.0)
        sentence = torch.tensor([[5, 6, 7, 8]])
        found: Tensor = model(sentence, torch.tensor([4]), sentence).weights
        return found

    compiled = weights()
    by_torch()
    torch.testing.assert_close(compiled, weights(), rtol=0, atol=1e-3)


@needs_compiler
@pytest.mark.parametrize("scale", [1.0, 300.0])  # the second with words that have no chance
@pytest.mark.parametrize("sentences", [None, torch.tensor([2, 0, 0, 1, 1, 1, 0])])
def test_the_loss_and_its_gradients_are_those_of_torch(
    sentences: Tensor | None, scale: float, by_torch: Callable[[], None]
) -> None:
    def run() -> list[Tensor]:
        output = torch.nn.Linear(6, 37)
        with torch.no_grad():
            output.weight.copy_(random(37, 6))
            output.bias.copy_(random(37))
        features = random(7, 6, scale=scale).requires_grad_()
        added = None if sentences is None else random(3, 37).requires_grad_()
        targets = torch.tensor([0, 36, 5, 5, 12, 1, 36])
        loss = word_loss(output, features, targets, 0.1, added, sentences)
        loss.smoothed.backward()  # type: ignore[no-untyped-call]
        learned = [output.weight, output.bias, features, *([] if added is None else [added])]
        with torch.no_grad():
            assert word_loss(output, features, targets, 0.1, added, sentences).nats == loss.nats
        return [loss.smoothed.detach(), torch.tensor(loss.nats), *(p.grad for p in learned)]

    compiled = run()
    by_torch()
    for ours, theirs in zip(compiled, run(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["compiled", "torch"])
@pytest.mark.parametrize("key", [-400.0, 0.0, 400.0])
@pytest.mark.parametrize("query", [-400.0, 0.0, 400.0])
def test_attention_stays_finite_where_tanh_is_flat(
    key: float, query: float, kind: str, by_torch: Callable[[], None]
) -> None:
    if kind == "torch":
        by_torch()
    elif loops.loops_kind() == "torch":
        pytest.skip("there is no C compiler")
    config = ModelConfig(hidden=4, embedding=3, alignment=5, initial_state="encoder")
    model = TranslationModel(config, 9, 9)
    initialise(model, seed=1)
    attention = model.decoder.attention
    with torch.no_grad():
        attention.key.weight.fill_(key)
        attention.query.weight.fill_(query)
    sentences = torch.randint(PAD + 1, 9, (2, 6))
    decoded = model(sentences, torch.tensor([6, 6]), sentences)
    decoded.features.sum().backward()
    assert decoded.weights.sum(dim=-1).allclose(torch.ones(2, 6))
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@needs_compiler
def test_not_a_number_is_not_hidden() -> None:
    gru = BidirectionalGRU(3, 4)
    states, _ = gru(torch.full((2, 3), float("nan")), pack(torch.tensor([2])))
    assert states.isnan().all()
    features = torch.ones(3, 4)
    features[1, 1] = float("nan")
    assert math.isnan(word_loss(torch.nn.Linear(4, 20), features, torch.tensor([1, 2, 3])).nats)


def test_only_32_bits_on_a_cpu_are_for_the_loops() -> None:
    assert loops.loops_for(torch.zeros(1, dtype=torch.float64)) is None
    assert loops.loops_for(torch.zeros(1, device="meta")) is None
    assert loops.loops_for(torch.zeros(1)) is loops.compiled_loops()


@needs_compiler
def test_they_are_compiled_once_and_kept(compiler: Callable[[str], None], tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    compiler(f'echo >> "{calls}"; exec cc "$@"')
    assert loops.compiled_loops() is not None
    loops.compiled_loops.cache_clear()  # as in another process
    assert loops.loops_kind() == "compiled"
    assert calls.read_text() == "\n" * 2  # to compile and to link
    kept = list((tmp_path / "cache" / "wholedoc").iterdir())
    assert [file.suffix for file in kept] == [".so"]


@on_linux
@pytest.mark.parametrize(
    ("text", "reason", "files"),
    [
        ("echo no such flag >&2; exit 1", "no such flag", 0),
        (
            "printf 'In f:\\n1: error: here\\n' >&2; exit 1",
            "torch computes instead: 1: error: here",
            0,
        ),
        ("printf 'ld: no libx\\ncollect2: error: 1\\n' >&2; exit 1", "instead: ld: no libx", 0),
        ('for x; do [ "$last" = -o ] && echo > "$x"; last=$x; done; true', "file too short", 1),
    ],
)
def test_torch_computes_where_nothing_comes_of_compiling(
    text: str,
    reason: str,
    files: int,
    compiler: Callable[[str], None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    compiler(text)  # that fails; that writes what cannot be loaded
    assert loops.loops_kind() == "torch"
    assert reason in capsys.readouterr().err
    assert len(list((tmp_path / "cache" / "wholedoc").iterdir())) == files
    model_and_gradients(1.0)


def test_torch_computes_where_nothing_can_be_kept(
    compiler: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "cache").touch()  # where a directory has to be
    compiler('exec cc "$@"')
    assert loops.loops_kind() == "torch"


@needs_compiler
def test_threads_change_nothing() -> None:
    config = ModelConfig(hidden=192, embedding=64, alignment=64)
    model = TranslationModel(config, 90, 90)
    initialise(model, seed=3)
    src, trg = (torch.randint(PAD + 1, 90, (32, 40)) for _ in range(2))  # enough to be divided
    found = []
    before = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            model.zero_grad()
            decoded = model(src, torch.full((32,), 40), trg)
            decoded.packed_features.sin().sum().backward()
        finally:
            torch.set_num_threads(before)
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        found.append([decoded.packed_features.detach(), *gradients])
    for one, many in zip(*found, strict=True):
        torch.testing.assert_close(one, many, rtol=1e-5, atol=1e-5 * one.abs().max().item())


def test_the_environment_asks_for_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHOLEDOC_LOOPS", "fast")
    with pytest.raises(UserError, match="'torch' or 'compiled'"):
        loops.asked_for("WHOLEDOC_LOOPS")


@pytest.mark.parametrize(
    ("name", "value"), [("CC", "no-such-compiler"), ("WHOLEDOC_LOOPS", "torch")]
)
def test_torch_computes_without_a_compiler_or_where_it_is_asked_to(
    name: str, value: str, compiler: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler('exec cc "$@"')
    monkeypatch.setenv(name, value)
    assert loops.loops_kind() == "torch"
