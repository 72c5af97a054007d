"""Products of matrices: the compiled ones beside torch's, in every layout that training has."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from wholedoc.kernels import matrices
from wholedoc.kernels.matrices import (
    Factor,
    Linear,
    compiled_are_faster,
    mixed_precision,
    multiply,
    products_kind,
)
from wholedoc.kernels.native import loops_kind

needs_compiler = pytest.mark.skipif(loops_kind() == "torch", reason="there is no C compiler")


@pytest.fixture(scope="module", params=["compiled", "torch"])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """By what matrices are multiplied, whatever this machine is."""
    if request.param == "compiled" and loops_kind() == "torch":
        pytest.skip("there is no C compiler")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "compiled_are_faster", lambda: request.param == "compiled")
        assert products_kind() == request.param
        yield request.param


@contextmanager
def laid_out_in_halves(wanted: bool = True) -> Iterator[None]:
    """Whether that is faster on this machine or not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "products_kind", lambda mixed: "mixed" if mixed else "compiled")
        with mixed_precision(wanted):
            yield


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


LAYOUTS = ["rows", "columns", "part", "every second"]


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


STARTS = ["nothing", "out", "row"]


def check_product(
    left: Tensor, right: Tensor, out: Tensor, start: str, *, halves: bool = False
) -> None:
    """Beside one of 64-bit numbers. Of halves, what is multiplied is rounded, sums are not."""
    rounded = [(matrix.bfloat16() if halves else matrix).double() for matrix in (left, right)]
    row = random(*out.shape[:-2], out.shape[-1])
    begin = {"nothing": None, "out": out, "row": row}[start]
    exact = rounded[0] @ rounded[1]
    if begin is not None:
        exact = exact + (begin if start == "out" else begin[..., None, :]).double()
    with laid_out_in_halves(halves):
        factor = Factor(right, compiled=True) if halves else Factor(right)
    found = factor.multiply(left, out, begin)
    assert found.data_ptr() == out.data_ptr()
    size = (rounded[0].abs() @ rounded[1].abs()).max().item() + 1
    torch.testing.assert_close(out.double(), exact, rtol=0, atol=1e-6 * size)


SIZES = st.integers(1, 70)


@settings(deadline=None)
@given(rows=SIZES, inner=SIZES, columns=SIZES, start=st.sampled_from(STARTS))
def test_products_of_any_size(kind: str, rows: int, inner: int, columns: int, start: str) -> None:
    check_product(random(rows, inner), random(inner, columns), random(rows, columns), start)


@pytest.mark.parametrize("others", [(), (2,)])
@pytest.mark.parametrize("layouts", list(product(LAYOUTS, repeat=2)))
def test_products_in_any_layout(
    kind: str, layouts: tuple[str, str], others: tuple[int, ...]
) -> None:
    left = laid_out(random(*others, 29, 37), layouts[0])
    right = laid_out(random(*others, 37, 41), layouts[1])
    beside = torch.full((*others, 29, 43), 7.0)
    for start in STARTS:
        check_product(left, right, beside[..., 1:-1], start)
    assert (beside[..., [0, -1]] == 7).all()


@pytest.mark.parametrize("others", [(), (2,)])
@pytest.mark.parametrize("rows", [29, 80])  # few rows, and many
def test_one_product(kind: str, rows: int, others: tuple[int, ...]) -> None:
    left, right, start = random(*others, rows, 37), random(*others, 37, 41), random(*others, 41)
    torch.testing.assert_close(multiply(left, right), left @ right, rtol=1e-4, atol=1e-4)
    expected = left @ right + start[..., None, :]
    torch.testing.assert_close(multiply(left, right, start), expected, rtol=1e-4, atol=1e-4)


def test_a_start_may_lie_in_memory_as_it_likes(kind: str) -> None:
    left, right, buffer = random(40, 37), random(37, 41), random(50, 41)
    expected = left @ right + buffer[:40]
    Factor(right).multiply(left, buffer[:40], buffer[:40])  # two views of the same
    torch.testing.assert_close(buffer[:40], expected, rtol=1e-4, atol=1e-4)
    for row in (random(82)[::2], torch.tensor(1.5).expand(41)):
        expected = left @ right + row
        torch.testing.assert_close(Factor(right).project(left, row), expected, rtol=1e-4, atol=1e-4)


@needs_compiler
def test_results_are_written_row_by_row() -> None:
    with pytest.raises(ValueError, match="3 apart"):
        Factor(random(5, 7), compiled=True).multiply(random(3, 5), torch.empty(7, 3).T)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("rows", "inner", "columns"), [(300, 1100, 70), (3, 513, 40)])
def test_products_larger_than_what_is_packed_together(
    kind: str, rows: int, inner: int, columns: int, layout: str
) -> None:
    left, right = (laid_out(random(*shape), layout) for shape in ((rows, inner), (inner, columns)))
    for start in STARTS:
        check_product(left, right, random(rows, columns), start)
    expected = left @ right + (row := random(columns))
    torch.testing.assert_close(multiply(left, right, row), expected, rtol=1e-4, atol=1e-3)


@needs_compiler
@settings(deadline=None)
@given(rows=SIZES, inner=SIZES, columns=SIZES, start=st.sampled_from(STARTS))
def test_products_of_halves(rows: int, inner: int, columns: int, start: str) -> None:
    left, right, out = random(rows, inner), random(inner, columns), random(rows, columns)
    check_product(left, right, out, start, halves=True)


@needs_compiler
@pytest.mark.parametrize("layouts", list(product(LAYOUTS, repeat=2)))
@pytest.mark.parametrize("shape", [(29, 37, 41), (300, 1100, 70), (3, 2047, 40)])
def test_products_of_halves_in_any_layout(
    shape: tuple[int, int, int], layouts: tuple[str, str]
) -> None:
    rows, inner, columns = shape
    left, right = (
        laid_out(random(rows, inner), layouts[0]),
        laid_out(random(inner, columns), layouts[1]),
    )
    for start in STARTS:
        check_product(left, right, random(rows, columns), start, halves=True)


@needs_compiler
@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3.4e38])
def test_halves_do_not_hide_what_is_not_finite(number: float) -> None:
    left = torch.tensor([[1.0, number]])
    with laid_out_in_halves():
        found = Factor(torch.ones(2, 40), compiled=True).project(left)
    assert not found.isfinite().any()


@needs_compiler
def test_what_is_laid_out_knows_if_it_has_halves() -> None:
    left, right = random(40, 600), random(600, 200)
    exact = Factor(right, compiled=True)
    with laid_out_in_halves():
        rounded = Factor(right, compiled=True)
        inside = exact.project(left), rounded.project(left)
    outside = exact.project(left), rounded.project(left)
    assert torch.equal(inside[0], outside[0])
    assert torch.equal(inside[1], outside[1])
    assert not torch.equal(inside[0], inside[1])


@needs_compiler
def test_the_way_back_has_halves_if_it_is_gone_in_mixed_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matrices, "compiled_are_faster", lambda: True)
    layer, rows, grad = Linear(70, 80), random(90, 70).requires_grad_(), random(90, 80)
    projected = layer(rows)
    with laid_out_in_halves():
        projected.backward(grad)
    left, right = (matrix.detach().bfloat16().float() for matrix in (grad.T, rows))
    torch.testing.assert_close(layer.weight.grad, left @ right, rtol=1e-5, atol=1e-4)
    assert (layer.weight.grad - grad.T @ rows).abs().max() > 1e-2


def test_halves_are_for_machines_on_which_they_are_faster(kind: str) -> None:
    right = random(60, 70)
    exact = multiply(right.T, right)
    with mixed_precision():
        mixed = multiply(right.T, right)
    assert torch.equal(mixed, exact) == (products_kind(mixed=True) != "mixed")
    assert products_kind() == kind


@pytest.mark.parametrize("count", [5, 50])  # few rows, and many
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_is_torchs(kind: str, bias: bool, count: int) -> None:
    ours, theirs = Linear(9, 70, bias=bias), torch.nn.Linear(9, 70, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    found = []
    for layer in (ours, theirs):
        rows = random(2, count, 9).requires_grad_()
        projected = layer(rows)
        projected.sin().sum().backward()
        gradients = [p.grad for p in (rows, *layer.parameters()) if p.grad is not None]
        assert len(gradients) == (3 if bias else 2)
        found.append([projected.detach(), *gradients])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_a_choice_can_be_made(kind: str) -> None:
    left, right = random(40, 600), random(600, 200)
    ours = Factor(right, compiled=True).multiply(left, torch.empty(40, 200))
    assert torch.equal(ours[:1], Factor(right, compiled=True).project(left[:1]))  # row by row
    theirs = Factor(right, compiled=False).multiply(left, torch.empty(40, 200))
    assert torch.equal(theirs, left @ right)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@needs_compiler
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 12, 13, 40])
def test_a_row_does_not_depend_on_those_beside_it_nor_on_threads(rows: int, halves: bool) -> None:
    with laid_out_in_halves(halves):
        factor = Factor(random(600, 200), compiled=True)
    left = random(rows, 600)
    together = factor.multiply(left, torch.empty(rows, 200))
    for row, found in zip(left, together, strict=True):
        assert torch.equal(factor.multiply(row[None], torch.empty(1, 200))[0], found)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert torch.equal(factor.multiply(left, torch.empty(rows, 200)), together)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("asked", "vendor", "expected"), [
    ("torch", "AuthenticAMD", False),
    ("compiled", "GenuineIntel", True),
    (None, "AuthenticAMD", True),
    (None, "GenuineIntel", False),
])  # fmt: skip
def test_compiled_products_are_for_processors_on_which_they_were_measured(
    asked: str | None, vendor: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrices, "processor", lambda: f"vendor_id: {vendor}")
    monkeypatch.delenv("WHOLEDOC_PRODUCTS", raising=False)
    if asked:
        monkeypatch.setenv("WHOLEDOC_PRODUCTS", asked)
    assert compiled_are_faster.__wrapped__() is expected


@pytest.mark.parametrize("start", STARTS)
def test_a_sum_of_nothing_is_zero(kind: str, start: str) -> None:
    check_product(random(3, 0), random(0, 5), random(3, 5), start)


def test_other_numbers_are_torchs(kind: str) -> None:
    left, right = random(70, 4).double(), random(4, 5).double()
    assert torch.equal(multiply(left, right), left @ right)
    assert torch.equal(Factor(right, compiled=True).project(left), left @ right)
