"""What becomes of arrays that are multiplied: what is read where it lies, what is turned, what is copied."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.calls.arrays import Form, form_of
from layoutalg.kernels.calls.product_plan import Copy, Plan, copied_sets, find_product, plan_of
from layoutalg.kernels.gemm.problem import BatchMode

SIZES = {"float32": 4, "float16": 2, "int8": 1, "float64": 8, "int32": 4}


def form(shape: tuple[int, ...], strides: tuple[int, ...] | None = None, kind: str = "float32") -> Form:
    """The form of an array with strides in elements, dense ones by default."""
    size = SIZES[kind]
    if strides is None:
        strides, step = (), 1
        for n in reversed(shape):
            strides, step = (step, *strides), step * n
    return form_of("cupy", 0, kind, size, shape, tuple(d * size for d in strides))


def plan(a: Form, b: Form, starts: dict[str, int] | None = None, **options: Any) -> Plan:
    return plan_of(find_product(a, b, **options), starts or {})


A, B = form((32, 64)), form((64, 48))


def test_dense_matrices_are_read_where_they_lie() -> None:
    found = plan(A, B)
    assert not found.copies and not found.turned
    p = found.p
    assert (p.a_major, p.lda, p.b_major, p.ldb, p.ldd) == ("k", 64, "mn", 48, 48)
    turned = plan(form((32, 64), (1, 32)), form((64, 48), (1, 64))).p
    assert (turned.a_major, turned.lda, turned.b_major, turned.ldb) == ("mn", 32, "k", 64)
    padded = plan(form((32, 64), (80, 1)), form((64, 48), (100, 1))).p
    assert (padded.lda, padded.ldb) == (80, 100)


def test_of_a_row_or_a_column_the_longer_vectors_are_taken() -> None:
    p = plan(form((32, 1), (1, 1)), form((1, 48), (1, 1))).p
    assert (p.a_major, p.b_major) == ("mn", "mn")
    q = plan(form((64,)), form((64,))).p
    assert (q.a_major, q.b_major, q.m, q.n, q.k) == ("k", "k", 1, 1, 64)


def test_a_result_in_columns_is_the_transposed_product() -> None:
    found = plan(A, B, out=form((32, 48), (1, 32)), bias=form((32, 1)))
    assert found.turned and (found.p.m, found.p.n, found.p.ldd) == (48, 32, 32)
    assert (found.p.a_major, found.p.b_major) == ("mn", "k")
    assert (
        found.p.epilogue.arrays == {"bias": "n"} and not found.copies
    )  # by row of the result: by column of what is computed
    column = plan(A, form((64,)))  # 32 results in a row, by vectors of four
    assert column.turned and (column.p.m, column.p.n) == (1, 32)


def test_a_start_between_vectors_narrows_them() -> None:
    found = plan(A, B, {"a": 8, "b": 4, "out": 12, "bias": 2}, out=form((32, 48)))
    assert not found.copies and found.p.align_bytes == (8, 4, 4)
    assert plan(A, B, {"a": 2}).copies["a"] == Copy((32, 64), (256, 4))


@pytest.mark.parametrize(
    ("name", "arrays", "copied"),
    [
        ("a", (form((32, 64), (-64, 1)), B, {}), Copy((32, 64), (-256, 4))),
        ("a", (form((32, 64), (128, 2)), B, {}), Copy((32, 64), (512, 8))),
        ("a", (form((32, 64), (0, 1)), B, {}), Copy((32, 64), (0, 4))),
        ("b", (A, form((64, 48), (8, 1)), {}), Copy((48, 64), (4, 32))),
        ("out", (A, B, {"out": form((32, 48), (96, 2))}), Copy((32, 48), (384, 8))),
        ("out", (A, B, {"out": form((32, 48), (-48, 1))}), Copy((32, 48), (-192, 4))),
        ("c", (A, B, {"c": form((32, 48), (1, 32))}), Copy((32, 48), (4, 128))),
        ("c", (A, B, {"c": form((48,))}), Copy((32, 48), (0, 4))),
        ("bias", (A, B, {"bias": form((48,), (2,))}), Copy((48,), (8,))),
    ],
)
def test_what_no_kernel_reads_or_writes_is_copied(name: str, arrays: Any, copied: Copy) -> None:
    a, b, rest = arrays
    found = plan(a, b, **rest)
    assert found.copies == {name: copied}
    with pytest.raises(UnsupportedError, match=rf"{name} of f32 has shape .* copy=True moves it first"):
        plan(a, b, **rest, copy=False)


def test_what_ldmatrix_does_not_turn_is_stored_along_k() -> None:
    a, b = form((32, 64), kind="int8"), form((64, 48), kind="int8")
    found = plan(a, b)
    assert set(found.copies) == {"b"} and (found.p.a_major, found.p.b_major, found.p.ldb) == ("k", "k", 64)
    assert not plan(a, form((64, 48), (1, 64), "int8")).copies
    with pytest.raises(UnsupportedError, match="as ldmatrix turns elements of 16 bits alone"):
        plan(a, b, copy=False)


def test_copies_of_tf32_lie_along_k() -> None:
    """As they lie, one of them along k, and both; of rows that TMA does not read copies are padded."""
    a, b, odd = form((32, 64), (1, 32)), form((64, 48)), form((64, 45))
    product = find_product(a, b, tf32=True)
    assert copied_sets(product, {}) == ((), ("a",), ("b",), ("a", "b"))
    assert copied_sets(find_product(a, odd, tf32=True), {}) == ((), ("b",), ("a", "b"))
    for other in (find_product(a, b, tf32=True, copy=False), find_product(a, b)):
        assert copied_sets(other, {}) == ((),)
    majors = [(p.a_major, p.b_major) for p in (plan_of(product, {}, x).p for x in copied_sets(product, {}))]
    assert majors == [("mn", "mn"), ("k", "mn"), ("mn", "k"), ("k", "k")]


def test_copies_of_f32_lie_along_rows() -> None:
    """B is turned, or both operands; A alone is not, and an operand that lies along rows stays."""
    a, b = form((32, 64)), form((64, 48), (1, 64))
    product = find_product(a, b)
    assert copied_sets(product, {}) == ((), ("b",), ("a", "b"))
    assert copied_sets(find_product(form((32, 64), (1, 32)), b), {}) == ((), ("b",))
    majors = [(p.a_major, p.b_major) for p in (plan_of(product, {}, x).p for x in copied_sets(product, {}))]
    assert majors == [("k", "k"), ("k", "mn"), ("mn", "mn")]


def test_modes_of_a_batch_that_step_alike_are_one() -> None:
    dense = plan(form((5, 3, 32, 64)), form((5, 3, 64, 48))).p
    assert dense.batch == (BatchMode(15, 2048, 3072, 0, 1536),)
    crossed = plan(form((5, 1, 32, 64)), form((3, 64, 48)), c=form((5, 1, 32, 48))).p
    assert crossed.batch == (BatchMode(5, 2048, 0, 1536, 4608), BatchMode(3, 0, 3072, 0, 1536))
    assert not plan(form((1, 1, 32, 64)), B).p.batch


def test_products_that_share_b_are_one_of_more_rows() -> None:
    weights = plan(form((5, 3, 32, 64)), B, c=form((5, 3, 32, 48))).p
    assert (weights.m, weights.batch, weights.lda, weights.ldc, weights.ldd) == (480, (), 64, 48, 48)
    padded = plan(form((5, 32, 64), (32 * 80, 80, 1)), B).p
    assert (padded.m, padded.batch, padded.lda) == (160, (), 80)
    rows = plan(form((7, 1, 64), (100, 1, 1)), B).p  # of one row each, however far apart
    assert (rows.m, rows.batch, rows.lda, rows.ldd) == (7, (), 100, 48)
    part = plan(form((5, 3, 32, 64), (9999, 2048, 64, 1)), B).p
    assert (part.m, part.batch) == (96, (BatchMode(5, 9999, 0, 0, 4608),))
    apart = BatchMode(5, 2048, 0, 0, 1536)
    assert plan(form((5, 32, 64)), B, bias=form((32, 1))).p.batch == (apart,)  # a bias of each row
    assert plan(form((5, 32, 64)), B, c=form((32, 48))).p.batch == (apart,)  # a C that all share
    assert plan(form((5, 32, 64)), B, out=form((5, 32, 48), (2048, 48, 1))).p.batch == (
        BatchMode(5, 2048, 0, 0, 2048),
    )
    overlapping = plan(form((5, 32, 64), (32, 1, 32)), B)  # read as it lies only one by one
    assert not overlapping.copies and overlapping.p.batch == (BatchMode(5, 32, 0, 0, 1536),)
    many = plan(form((600, 32, 64)), B).p
    few = plan(form((60, 512, 64)), B).p  # past what 32 bits address
    assert (many.m, many.batch, few.m) == (19200, (), 512)


def test_a_batch_that_runs_backwards_is_copied_and_a_broadcast_one_only_once() -> None:
    backwards = plan(form((5, 32, 64), (-2048, 64, 1)), B)
    assert backwards.copies == {"a": Copy((5, 32, 64), (-8192, 256, 4))}
    assert backwards.p.batch == (BatchMode(5, 2048, 0, 0, 1536),)
    shared = plan(form((5, 32, 64), (0, 64, 2)), form((5, 64, 48)))
    assert shared.copies == {"a": Copy((1, 32, 64), (0, 256, 8))} and shared.p.batch[0].a == 0


def test_leading_dimensions_past_what_a_kernel_takes_are_copied() -> None:
    assert set(plan(form((2, 64), ((1 << 30) + 64, 1)), B).copies) == {"a"}
    assert not plan(form((1, 64), ((1 << 40), 1)), B).copies  # one row has no next
    assert set(plan(form((2, 32, 64), ((1 << 37), 64, 1)), B).copies) == {"a"}
