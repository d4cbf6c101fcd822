"""matmul of arrays on the CPU, in the simulator, by the code of a GPU; on one: tests/gpu/test_matmul.py."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from layoutalg import errors
from layoutalg.codegen.expr import GRID_LIMITS
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import FUNCTIONS
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.calls.arrays import View, form_of
from layoutalg.kernels.calls.product_api import _compute, chunks, matmul
from layoutalg.kernels.calls.product_plan import find_product
from layoutalg.kernels.elements import ELEMENT
from layoutalg.kernels.gemm import BatchMode, gemm_problem
from layoutalg.kernels.gemm.launches import called_launches
from layoutalg.limits import Most
from tests.draws import products
from tests.judges.view_judge import Host, Numpy
from tests.stand_ins.hostgpu import (
    HostArray,
    HostGpu,
    allocation,
    compiled_names,
    planning_gpu,
    simulated_gpu,
)
from tests.sweeps import each

NUMPY = tuple(kind for kind in products.KINDS if kind != "bfloat16")


@each("seed", range(300))
def test_random_products_are_their_definition(seed: int) -> None:
    case = products.draw(seed, kinds=NUMPY)
    assert not (wrong := products.run(case, Numpy())), f"{case}: {wrong}"


@each("seed", range(100), sample=4)
def test_random_products_are_their_definition_in_the_simulator(seed: int) -> None:
    case = products.draw(seed, kinds=NUMPY, most=24, most_elems=8000)
    assert not (wrong := products.run(case, Numpy(), simulate=True)), f"{case}: {wrong}"


@each("seed", range(40), sample=4)
def test_random_products_are_their_definition_by_the_code_of_a_gpu(seed: int) -> None:
    case = products.draw(seed, most=30, most_elems=8000)
    with simulated_gpu("sm_90") as gpu:
        assert not (wrong := products.run(case, Host(gpu))), f"{case}: {wrong}"


def test_the_judge_sees_what_is_wrong() -> None:
    """A result that is off, and a byte beside one that is written."""
    drawn = map(products.draw, range(100))
    case = next(c for c in drawn if "out" in c.arrays and c.shape and 0 not in c.shape)
    made = products.make(case)
    right = products.bits(products.expected(case, made)[0], case.result)
    assert not products.judge(case, made, right, made)
    off = right.copy()
    off.flat[0] ^= np.array(1 << 8 * off.itemsize - 3, off.dtype)
    assert "are wrong" in products.judge(case, made, off, made)
    touched = {name: raw.copy() for name, raw in made.items()}
    touched["out"][3] ^= 1
    assert "were written" in products.judge(case, made, right, touched)


def arrays(gpu: HostGpu, *shapes: tuple[int, ...], kind: str = "float32") -> list[HostArray]:
    """Dense arrays of ones on a GPU that is host memory."""
    found, size = [], products.NBYTES[kind]
    for shape in shapes:
        strides = tuple(size * prod(shape[i + 1 :]) for i in range(len(shape)))
        found.append(gpu.array(allocation(8 * prod(shape) + 16), 0, kind, shape, strides))
        found[-1].fill(1)
    return found


@each(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (7, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)),
        ((1, 3, 4), (2, 4, 5)), ((0, 3, 4), (4, 5)), ((3, 0), (0, 5)), ((0,), (0,)), ((0, 4), (4, 5)),
        ((2, 0, 3, 4), (1, 4, 5)), ((3, 4), (3, 5)), ((4,), (5,)), ((2, 3, 4), (3, 4, 5)), ((), (4,)),
        ((3, 4), ()), ((3, 4), (5,)), ((1,), (2, 2)),
    ],
    sample=4,
)  # fmt: skip
def test_shapes_are_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = np.ones(a, "f4"), np.ones(b, "f4")
    try:
        wanted = np.matmul(x, y)
    except ValueError:
        with pytest.raises(errors.ShapeError) as raised:
            matmul(x, y)
        assert not (a and b) or f"a has shape {a}, b {b}: " in str(raised.value)
        return
    for simulate in (False, True):
        got = matmul(x, y, simulate=simulate)
        assert got.shape == wanted.shape and got.dtype == wanted.dtype and np.array_equal(got, wanted)
    with simulated_gpu("sm_90") as gpu:
        there = matmul(*arrays(gpu, a, b))
        assert there.shape == wanted.shape and np.array_equal(there.bits.view("f4"), wanted)


# --- kernels -------------------------------------------------------------------------------------------


@each("modes", [1, 3])
@each("dtype", ["f32", "f16", "s8"])
def test_kernels_for_any_batch_address_all_of_it(modes: int, dtype: str) -> None:
    """Places in a batch are below the limit of a third axis: 64 bits reach all of every operand."""
    family = FAMILIES["gemm-simt" if dtype == "f32" else "gemm-sm80"]
    batch = [BatchMode(5, 4096, 4096, 0, 4096 * 5**i) for i in range(modes)]
    p = gemm_problem(64, 64, 64, dtype, batch=batch)
    (kernel,) = called_launches(p, family.choose(p)).kernels
    assert f"batch_at{modes - 1}" in to_cuda(kernel)


def test_another_size_and_other_factors_compile_nothing() -> None:
    family, sizes = FAMILIES["gemm-sm80"], ((200, 136, 72), (201, 400, 80), (130, 1000, 64), (999, 200, 640))
    configs = {}
    with planning_gpu("sm_80") as gpu, compiled_names() as ran:
        for alpha, (m, n, k) in enumerate(sizes):
            matmul(*arrays(gpu, (m, k), (k, n), kind="float16"), alpha=alpha)
            config = family.choose(family.problem(m, n, k, b_major="mn"), "sm_80")
            configs[replace(config, splits=min(config.splits, 2))] = config.splits > 1
    assert len(ran) == len(configs) + sum(configs.values()) < len(sizes)


@pytest.mark.deep
@each("kind", ["float32", "float16", "int8", "float64"])
@each("n", [33, 36])
def test_parts_of_k_are_added_up_whatever_the_rows_are(kind: str, n: int) -> None:
    """Rows of 33 results, which no vector cuts, and of 36."""
    element, result = ELEMENT[kind], {"int8": "int32"}.get(kind, kind)
    family = FAMILIES["gemm-simt" if element in ("f32", "f64") else "gemm-sm80"]
    p = family.problem(16, n, 2048, element, b_major="k" if kind == "int8" else "mn")
    assert family.choose(p, "sm_90").splits > 1
    with simulated_gpu("sm_90") as gpu:
        got = matmul(*arrays(gpu, (16, 2048), (2048, n), kind=kind), alpha=2)
    assert (products.numbers(got.bits, result) == 4096).all()


def test_more_products_than_a_launch_has_are_several_launches() -> None:
    modes = [BatchMode(300, a=900, b=0, d=70_000), BatchMode(500, a=0, b=8, d=16)]
    p = gemm_problem(2, 3, 4, "f32", batch=modes)
    some = list(chunks(p))
    assert len(some) > 1 and sum(q.products for q, _ in some) == p.products
    places = set()
    for q, further in some:
        assert q.products <= GRID_LIMITS[2]
        first, second = q.batch
        at = {x: n // 4 for x, n in further.items()}
        for i, j in ((0, 0), (first.extent - 1, second.extent - 1)):
            d = at["d"] + i * first.d + j * second.d
            places_of_d = d // 70_000 * 900, d % 70_000 // 16 * 8
            assert (at["a"] + i * first.a, at["b"] + j * second.b) == places_of_d
        places.add(at["d"])
    assert len(places) == len(some)


# --- numbers -------------------------------------------------------------------------------------------


def test_int8_is_added_up_in_int32_modulo_2_to_the_32() -> None:
    a, b = np.full((1, 70_000), -128, "i1"), np.full((70_000, 2), -128, "i1")
    assert matmul(a, b).dtype == np.int32
    for alpha in (2, 2 + (1 << 32)):
        assert matmul(a, b, alpha=alpha).tolist() == [[2 * 70_000 * 128**2 - 2**32] * 2]
    bias = np.array([2**31 - 1] * 2, "i4")
    assert matmul(a[:, :1], b[:1], bias=bias, c=bias, beta=1).tolist() == [[2**14 - 2] * 2]


def test_bfloat16_on_the_cpu_is_multiplied_in_float64_and_rounded_once() -> None:
    """As of a PyTorch tensor, whose bits are seen as integers; NumPy has no such type."""
    rng = np.random.default_rng(0)
    numbers = [rng.standard_normal(shape) for shape in ((5, 7), (7, 4))]
    hosts = [products.bits(x, "bfloat16").view("i2") for x in numbers] + [np.zeros((5, 4), "i2")]
    a, b, out = (
        View(x, x.ctypes.data, form_of("torch", None, "bfloat16", 2, x.shape, x.strides), x) for x in hosts
    )
    _compute(find_product(a.form, b.form, out=out.form), {"a": a, "b": b, "out": out}, 1, 0)
    left, right = (products.numbers(x.view("u2"), "bfloat16") for x in hosts[:2])
    assert np.array_equal(out.host.view("u2"), products.bits(left @ right, "bfloat16"))


@each("simulate", [False, True])
def test_no_k_leaves_beta_c_and_the_bias_and_infinities_are_as_by_definition(simulate: bool) -> None:
    a, b, c = np.zeros((2, 0), "f4"), np.zeros((0, 3), "f4"), np.arange(6, dtype="f4").reshape(2, 3)
    bias = np.array([-1, -2, -30], "f4")
    assert matmul(a, b, simulate=simulate).tolist() == [[0.0] * 3] * 2
    got = matmul(a, b, beta=2, c=c, bias=bias, activation="relu", simulate=simulate)
    assert got.tolist() == np.maximum(2 * c + bias, 0).tolist()
    x, y = np.array([[np.inf, 1], [np.nan, 1], [1e30, 1]], "f4"), np.array([[1, 0], [2, 3]], "f4")
    got = matmul(x, y, alpha=1e30, simulate=simulate)
    assert np.isinf(got[[0, 2], 0]).all() and np.isnan(got[[0, 1], 1]).all() and np.isnan(got[1, 0])


@pytest.mark.deep
@each("kind", ["f2", "f4"])
@each("activation", FUNCTIONS)
def test_an_activation_of_edges_is_the_same_by_definition_and_in_the_simulator(
    kind: str, activation: str
) -> None:
    """The result for -infinity of 16 bits is 0 by gelu, and PyTorch's NaN by other functions."""
    x, one = np.array([[-np.inf, np.inf, np.nan, -0.0, 6e4, -6e4, -15, 6e-8]], kind).T, np.ones((1, 8), kind)
    got, kernels = (matmul(x, one, activation=activation, simulate=ran) for ran in (False, True))
    np.testing.assert_allclose(got, kernels, rtol=1e-3, atol=1e-7)
    assert (got[0, 0] == 0) == (activation == "relu" or (activation, kind) == ("gelu", "f2"))


# --- what is copied, and what is refused ---------------------------------------------------------------


@each("name", ["a", "b", "out", "c", "bias"], sample=1)
def test_what_no_kernel_reads_is_copied_unless_that_is_refused(name: str) -> None:
    with planning_gpu("sm_80") as gpu:
        raw = allocation(4096)
        dense, apart = (gpu.array(raw, at, "float32", (6, 6), x) for at, x in ((0, (24, 4)), (1024, (96, 8))))
        odd = gpu.array(raw, 2048, "float32", (6,), (8,)) if name == "bias" else apart
        given: dict[str, Any] = {"a": dense, "b": dense, name: odd} | {"beta": 1 if name == "c" else 0}
        with pytest.raises(errors.UnsupportedError, match=rf"{name} of f32 .* copy=True moves it"):
            matmul(**given, copy=False)
        matmul(**given)
        turned = gpu.array(raw, 1024, "float32", (6, 6), (4, 24))
        assert matmul(turned, turned, copy=False).shape == (6, 6)


X, S8 = np.ones((6, 6), "f4"), np.ones((6, 6), "i1")
READ_ONLY = np.zeros((6, 6), "f4")
READ_ONLY.setflags(write=False)
F2, F8 = X.astype("f2"), X.astype("f8")
ONTO_ITSELF = np.lib.stride_tricks.as_strided(np.zeros(6, "f4"), (6, 6), (0, 4))
SEVEN, WIDE = np.ones((7, 6), "f4"), np.zeros((5, 6, 6), "f4")

REFUSALS: dict[type[errors.LayoutAlgError], list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = {
    errors.ArgumentTypeError: [
        ("list is no array", ([[1.0]], X), {}), ("such as float64", (X, F8), {}),
        ("such as float16", (F2, S8), {}), ("such as float32", (F2, X), {}),
        ("product of float32 is float32", (X, X, F8), {}),
        ("product of float16 is float32", (F2, F2, F2), {"out_dtype": "f32"}),
        ("out is read-only", (X, X, READ_ONLY), {}), ("out overlaps a: ", (X, X.copy(), X), {}),
        ("out overlaps b: ", (X[:3].copy(), X, X[3:]), {}),
        ("out overlaps c: .*; c may be out itself", (X, X, SEVEN[1:]), {"beta": 1, "c": SEVEN[:-1]}),
        ("c is given and beta is 0", (X, X), {"c": X}), ("no c is given", (X, X), {"beta": 2}),
        ("c holds float64", (X, X), {"c": F8, "beta": 1}), ("bias holds float32", (F2, F2), {"bias": X[0]}),
        ("alpha is '2'", (X, X), {"alpha": "2"}), (r"alpha is \[2\]", (X, X), {"alpha": [2]}),
        ("activation is 3", (X, X), {"activation": 3}), ("tf32 is 1", (X, X), {"tf32": 1}),
        ("dtype 'what'", (X, X), {"out_dtype": "what"}),
    ],
    errors.UnsupportedError: [
        ("a holds int16 .* to float32 first", (X.astype("i2"), X), {}),
        ("b holds complex64 .* part by part", (X, X.astype("c8")), {}),
        ("a holds bool .* to int8 first", (X > 0, X), {}), ("a holds >f4", (X.astype(">f4"), X), {}),
        ("activation 'tanh'", (X, X), {"activation": "tanh"}),
        ("gelu of s32", (S8, S8), {"activation": "gelu"}),
        ("float32 is accepted", (X, X), {"out_dtype": "f2"}), ("int32 is", (S8, S8), {"out_dtype": np.int8}),
        ("tf32 of float64", (F8, F8), {"tf32": True}),
    ],
    errors.ShapeError: [
        ("a has no modes", (X[0, 0, ...], X), {}),
        ("5 along a's last .* 6 along the last but one", (X[:, :5], X), {}),
        (r"\(2,\) and \(3,\)", (np.ones((2, 4, 4), "f4"), np.ones((3, 4, 4), "f4")), {}),
        (r"out has shape \(6, 5\)", (X, X, X[:, :5].copy()), {}), ("out has shape", (X, X, WIDE), {}),
        (r"c has shape \(5, 6\)", (X, X), {"c": X[:5], "beta": 1}),
        (r"\(4,\); \(6,\) adds a number per column .*, \(5, 1\) one per row", (X[:5], X), {"bias": X[0, :4]}),
        ("alpha is 0.5: s8", (S8, S8), {"alpha": 0.5}),
    ],
    errors.NotInjectiveError: [("one place for two", (X, X, ONTO_ITSELF), {})],
    errors.ResourceError: [
        (f"the limit is {Most.ONE_BY_ONE.number}", (np.ones((300, 300), "f4"), np.ones((300, 2), "f4")),
        {"simulate": True})
    ],
}  # fmt: skip


@each(
    ("kind", "said", "given", "options"), [(kind, *row) for kind, rows in REFUSALS.items() for row in rows],
    ids=lambda x: str(x)[:40],
)  # fmt: skip
def test_what_a_product_cannot_take_is_refused(kind: Any, said: str, given: Any, options: Any) -> None:
    with pytest.raises(kind, match=said):
        matmul(*given, **options)


def test_arrays_of_several_devices_and_libraries_are_refused() -> None:
    with simulated_gpu("sm_80") as gpu, simulated_gpu("sm_80") as other:
        (x,), (y,) = arrays(gpu, (6, 6)), arrays(other, (6, 6))
        for operands in ((x, X), (X, x), (x, y), (x, x, np.zeros((6, 6), "f4"))):
            with pytest.raises(errors.ArgumentTypeError, match="both must be of one library"):
                matmul(*operands)
    with simulated_gpu("sm_80") as gpu:
        (x,) = arrays(gpu, (6, 6))
        with pytest.raises(errors.ArgumentTypeError, match="for arrays on the CPU"):
            matmul(x, x, simulate=True)


def test_an_architecture_without_the_instruction_is_named() -> None:
    with planning_gpu("sm_75") as gpu:
        (x,), (y,), (half,) = (arrays(gpu, (16, 16), kind=k) for k in ("bfloat16", "float32", "float16"))
        assert matmul(y, y).shape == matmul(half, half).shape == (16, 16)  # halves by gemm-sm75
        for refused, tf32 in ((x, False), (y, True)):
            with pytest.raises(errors.UnsupportedError, match="needs sm_80; sm_75 does not have it"):
                matmul(refused, refused, tf32=tf32)
