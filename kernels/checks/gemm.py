"""Products: the data on which they are verified, and the problems that are timed.

D = activation(alpha A B + beta C + bias) is computed in float64 from the operands as they are stored, and a
result may differ from it by what rounding can do, element by element:

    A B        by 2 (k + 4) u (|A| |B|), which every step of the epilogue scales, with what it rounds itself
    D          by 2 v |exact| + tiny more

with u the roundoff of the sums, v and `tiny` the roundoff and half the least number of the result; the twos
are for tensor cores, which cut sums off.  Sums of 8-bit floats have u of TENSOR_SUM on tensor cores, over 128
of k at a time where these are added up in f32, and whole numbers up to 1 / u are exact.  The simulator
computes all sums in f32.  Integers have to be equal, modulo 2^32.  D holds NaN (or -1) before.  Every problem
is verified on several sets of data, its trials:

    normal         numbers of N(0, 1); integers of all values
    whole numbers  from -2 to 2, of 8-bit floats, whose sums are exact
    not numbers    some of A, B, C and the bias are NaN or infinite: what has to come out is what IEEE 754
                   makes of the definition, where a result past the largest number of its type is infinite
    extremes       integers at the ends of their range, so that results wrap
    beta = 0       C is NaN (or any integer), and must not be read into the result

Products are timed beside cuBLAS, through PyTorch, on normal random data.  Their rates depend on power, and so
on the data and on what ran before: only ratios within a table mean anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any

from layoutalg.codegen.gpu import device_array, largest_difference, random_normal
from layoutalg.codegen.instr import decode, encode
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.checks.baselines import (
    GroupOperands,
    Launch,
    torch_group_matmuls,
    torch_grouped_mm,
    torch_matmul,
)
from layoutalg.kernels.checks.record import Bench, Checks, Expected, Pace, square_cases
from layoutalg.kernels.elements import CARRIER, HALF_PLACE, SMALLEST_SUM, bits_of, numbers_of
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import (
    BYTE_FLOATS,
    GEMM_FAMILIES,
    PACKED_BYTES,
    PROMOTED_K,
    GemmProblem,
    epilogue_operands,
    equal_sizes,
    group_begins,
    group_boxes,
    matrices,
    multiplied,
    operand_view,
    operands_of,
    scalar_value,
    scalar_words,
    scale_elems,
    scale_view,
    sizes_of,
)

ALPHA, BETA = 2, -3
"""The factors that are verified: neither is 1, so that neither can be forgotten.  See `_factors`."""


VERIFIED = (
    (128, 128, 64), (67, 131, 45), (64, 72, 16), (64, 72, 96), (40, 72, 200), (64, 72, 264), (40, 72, 328),
    (64, 72, 392),
)  # fmt: skip
"""The verified m, n and k: they have one, two and more tiles of k, and a ring ends at each of its stages."""


VERIFIED_BY_TMA = tuple((m, n, -(-k // 8) * 8) for m, n, k in VERIFIED)
"""The same with rows of A and B that start at multiples of 16 bytes."""


VERIFIED_FEW = ((1, 37, 2053), (1, 64, 1024), (3, 40, 1100), (8, 21, 517))
"""The verified m, n and k with few rows: threads and rounds do not divide columns and k."""


SIZES = (1024, 2048, 3072, 4096, 6144, 8192)
"""The sizes that are timed by default."""


STEPS_SIZE = 4096
"""The problem on which steps are compared."""


TENSOR_SUM = 2.0**-14
"""The roundoff of tensor cores in sums of 8-bit floats."""


SAMPLE_FLOPS, ROUND_FLOPS = 3e11, 6e12
"""A timed sample is about so long, some milliseconds; a contender's samples, 5 to 15 of them, together."""


# --- data, and results by definition -------------------------------------------------------------------


def trials(p: GemmProblem) -> tuple[str, ...]:
    """The sets of data that a problem is computed for.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> trials(gemm_problem(2, 3, 4)), trials(gemm_problem(2, 3, 4, "s8", reads_c=True))
    (('normal', 'not numbers'), ('normal', 'extremes', 'beta = 0'))
    """
    special = "extremes" if p.accumulator.name == "s32" else "not numbers"
    whole = ("whole numbers",) if p.element in BYTE_FLOATS else ()
    return ("normal", *whole, special, *(("beta = 0",) if p.reads_c else ()))


def operands(p: GemmProblem, trial: str = "normal", seed: int = 0) -> dict[str, Any]:
    """Return the arguments of a kernel in a trial: numbers as their bits, D poisoned.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> sorted(operands(gemm_problem(2, 3, 4)))
    ['a', 'alpha', 'b', 'beta', 'bias', 'c', 'd']
    """
    import numpy as np

    rng = np.random.default_rng(seed)

    def draw(elems: int, name: str) -> Any:
        if p.accumulator.name == "s32":
            low, high = integer_range(name)
            some = rng.integers(low, high + 1, elems)
            some = np.array([low, high])[some % 2] if trial == "extremes" else some
            return packed_bytes(some, name) if name in PACKED_BYTES else bits_of(some, name)
        values = rng.standard_normal(elems) if trial != "whole numbers" else 1.0 * rng.integers(-2, 3, elems)
        if trial == "not numbers":
            values[rng.permutation(elems)[: 1 + elems // 500]] = np.inf
            values[rng.integers(elems)], values[rng.integers(elems)] = -np.inf, np.nan
        return bits_of(values, name)

    lengths = {"c": p.c_elems, "bias": p.n} | epilogue_operands(p.epilogue, p)
    lengths |= {name: scale_elems(p, name) for name in p.block_scales}
    alpha, beta = _factors(p)
    beta = 0 if trial == "beta = 0" else beta
    given = {
        **{x: draw(elems * p.packed, element) for x, elems, element in
           zip("ab", (p.a_elems, p.b_elems), p.elements, strict=True)},
        **{x: draw(elems, type_of(p, x)) for x, elems in lengths.items()},
        "d": ~np.zeros(p.d_elems, CARRIER[p.result.nbytes]),
        **scalar_words(p, "alpha", alpha), **scalar_words(p, "beta", beta),
    }  # fmt: skip
    if beta == 0:
        given["c"] = ~np.zeros_like(given["c"])
    if p.grouped:
        given |= group_begins(_sizes(p, rng))
    return given


def type_of(p: GemmProblem, name: str) -> str:
    """The type of an array of an epilogue, which may read no such array."""
    if name in p.block_scales:
        return "f32"
    return (p.epilogue.type_of(name, p.result) if name in p.epilogue.arrays else p.result).name


def _sizes(p: GemmProblem, rng: Any) -> list[int]:
    """Rows of each group: any; of four groups or more the second has none, and the third one at most."""
    import numpy as np

    cuts = [0, *sorted(map(int, rng.integers(0, p.m + 1, p.products - 1))), p.m]
    sizes = [int(size) for size in np.diff(cuts)]
    for group, most in ((1, 0), (2, 1)):
        if group < p.products - 1:
            sizes[0], sizes[group] = sizes[0] + max(0, sizes[group] - most), min(sizes[group], most)
    return sizes


def with_factors(family: Family, alpha: float | None = None, beta: float | None = None) -> Checks:
    """The checks of a family whose products are verified with these factors, where they are given.

    Raises UnsupportedError for a family that has none, and as `scalar_words` does.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> one = with_factors(GEMM_FAMILIES[0], alpha=0.5)
    >>> hex(one.buffers(gemm_problem(4, 4, 4, "f32"), "normal", 0)["alpha"])
    '0x3f000000'
    """
    if family.name not in [x.name for x in GEMM_FAMILIES]:
        names = " and ".join(x.name for x in GEMM_FAMILIES)
        raise UnsupportedError(f"{family.name} has no alpha and no beta: {names} do")

    def buffers(p: GemmProblem, trial: str, seed: int) -> dict[str, Any]:
        given = operands(p, trial, seed)
        for name, value in (("alpha", alpha), ("beta", beta)):
            if value is None or (name == "beta" and trial == "beta = 0"):
                continue
            of, most = (
                (f"sums of {p.k * p.packed} products", (1 << 38) / p.k)
                if name == "alpha"
                else ("integers of C", 1 << 21)
            )
            if p.accumulator.name == "s32" and abs(value) >= most:
                raise ShapeError(f"{name} is {value}: {of} are exact in float64 up to 2^53")
            given |= scalar_words(p, name, value)
            if name == "beta" and value == 0:
                given["c"] = ~(0 * given["c"])
        return given

    return replace(checks(family), buffers=buffers)


def _factors(p: GemmProblem) -> tuple[float, float]:
    """alpha and beta; of doubles all words have bits."""
    return (1.05 * ALPHA, 1.05 * BETA) if p.accumulator.name == "f64" else (ALPHA, BETA)


def definition(p: GemmProblem, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """D in float64 from the operands' bits, and how far each element may be from it: see the module's text.

    C counts where the words of beta that are `given` are not 0.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> p = gemm_problem(2, 3, 4, "s8")
    >>> definition(p, operands(p))[1].max()
    np.float64(0.0)
    """
    import numpy as np

    a, b = factors(p, given)
    exact: dict[str, Any] = {}
    for step in p.epilogue.steps:
        arrays, numbers = operands_of(step)
        exact |= {name: scalar_value(p, name, given) for name in numbers}
        for name, modes in arrays.items():
            array = numbers_of(given[name], type_of(p, name))
            exact[name] = array[_places(p, "c", p.ldc)] if modes == "mn" else array
    sums, last = (HALF_PLACE.get(x.name, 0.0) for x in (p.accumulator, p.result))
    with np.errstate(all="ignore"):
        scales = [scale_view(p, x, numbers_of(given[x], "f32")) for x in p.block_scales]
        size = multiplied(np.abs(a), np.abs(b), *(np.abs(x) for x in scales))
        error = 2 * (p.k + 4) * sums * size
        if p.element in BYTE_FLOATS:
            error = error + 2 * ((min(p.k, PROMOTED_K) if p.promoted else p.k) + 4) * TENSOR_SUM * size
            if np.all(a == np.trunc(a)) and np.all(b == np.trunc(b)):
                error = np.where(size * TENSOR_SUM <= 1, 0.0, error)
        product = multiplied(a, b, *scales)
        if p.arithmetic == "xor":  # x ^ y = x + y - 2 x y of bits
            product = a.sum(axis=-1, keepdims=True) + b.sum(axis=-2, keepdims=True) - 2 * product
        if p.grouped:  # of each row the product of its group
            ends = [given[f"begin{group}"] for group in range(1, p.products + 1)]
            own = np.searchsorted(ends, np.arange(p.m), side="right"), np.arange(p.m)
            product, error = product[own], error[own]
        value, error = p.epilogue.definition(
            product, error, exact, 2 * sums, integers=p.accumulator.name == "s32"
        )  # fmt: skip
        return value, error + 2 * last * np.abs(value) + SMALLEST_SUM.get(p.result.name, 0.0) / 2


def factors(p: GemmProblem, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """A and B as m x k and k x n numbers, of which bytes may hold several.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> p = gemm_problem(1, 1, 8, "s4")
    >>> factors(p, {x: packed_bytes([-8, 7, 0, 1, 2, 3, 4, 5], "s4") for x in "ab"})[0].astype(int)
    array([[-8,  7,  0,  1,  2,  3,  4,  5]])
    """
    import numpy as np

    if p.packed == 1:
        return matrices(p, *(numbers_of(given[x], of) for x, of in zip("ab", p.elements, strict=True)))

    def unpacked(rows: Any) -> Any:
        words = np.pad(rows.reshape(-1), (0, -rows.size % 4)).view("u4")
        return decode(words[None], p.element)[0][: rows.size * p.packed].reshape(*rows.shape[:-1], -1) * 1.0

    a, b = matrices(p, *(given[x].view("u1") for x in "ab"))
    return unpacked(np.ascontiguousarray(a)), unpacked(np.ascontiguousarray(b.swapaxes(-1, -2))).swapaxes(
        -1, -2
    )


def packed_bytes(numbers: Any, element: str) -> Any:
    """Numbers that are narrower than a byte, a multiple of what one holds, as bytes.

    >>> packed_bytes([1, -1, 0, 3], "s4")
    array([241,  48], dtype=uint8)
    """
    import numpy as np

    flat, per = np.asarray(numbers), 8 // find_dtype(element).bits
    return encode(np.pad(flat, (0, -flat.size % (4 * per)))[None], element).view("u1")[0, : flat.size // per]


def integer_range(element: str) -> tuple[int, int]:
    """The least and the largest number of an integer type.

    >>> integer_range("s8"), integer_range("b1")
    ((-128, 127), (0, 1))
    """
    bits = find_dtype(element).bits
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if element.startswith("s") else (0, (1 << bits) - 1)


def _places(p: GemmProblem, name: str, leading: int) -> Any:
    """The positions of the elements of m x n matrices in their flat buffer."""
    import numpy as np

    flat = np.arange(p.elems(name, p.m, p.n, leading))
    places = operand_view(p, name, flat, (p.m, p.n), (leading, 1))
    return places[0] if p.grouped else places


def _expected(p: GemmProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    return Expected("d", *definition(p, given), p.result.name, _places(p, "d", p.ldd))


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: GemmProblem, n: int) -> dict[str, Any]:
    operand, to = "s8" if p.packed > 1 else p.operand.name, p.result.name
    a, b = random_normal(p.a_elems, 2 * n + 1, operand), random_normal(p.b_elems, 2 * n + 2, operand)
    d = device_array((p.m, p.n), random_normal(1, 0, to).dtype)
    return {name: x.view(CARRIER[x.itemsize]) for name, x in (("a", a), ("b", b), ("d", d))}


def _by_cublas(p: GemmProblem, arrays: Mapping[str, Any], into: Any = None) -> Launch | None:
    """A matmul; of groups a loop of them, one for each that has rows."""
    element = p.operand.name
    if p.grouped:
        out = device_array((p.m, p.n), random_normal(1, 0, p.result.name).dtype) if into is None else into
        return torch_group_matmuls(out, _groups_of(p, arrays))
    kinds = {
        "f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "uint16",
        "s8": "int8", "s32": "int32", "e4m3": "uint8",
    }  # fmt: skip
    if element not in kinds:
        return None
    plain = (p.a_major, p.b_major, p.result.name, p.arithmetic, p.b_operand) == ("k", "k", "bf16", "", None)
    if element == "e4m3" and (p.n % 16 or p.k % 16 or not plain):
        return None  # _scaled_mm takes no others, or computes something else
    a, b = (arrays[x].view(kinds[element]) for x in "ab")
    left = a.reshape(p.m, p.k) if p.a_major == "k" else a.reshape(p.k, p.m).T
    right = b.reshape(p.n, p.k).T if p.b_major == "k" else b.reshape(p.k, p.n)
    out = device_array((p.m, p.n), kinds[p.result.name]) if into is None else into
    return torch_matmul(out, left, right, element)


def _groups_of(p: GemmProblem, arrays: Mapping[str, Any]) -> GroupOperands:
    """The operands of groups as PyTorch takes them."""
    a, b, kind = arrays["a"], arrays["b"], random_normal(1, 0, p.operand.name).dtype
    inner = (1, p.ldb) if p.b_major == "k" else (p.ldb, 1)
    rows = a.reshape(p.m, p.k) if p.a_major == "k" else a.reshape(p.k, p.m).T
    ends = tuple(accumulate(sizes_of(arrays, p.products)))
    return GroupOperands(
        rows.view(kind), b.view(kind), (p.products, p.k, p.n), (p.batch[0].b, *inner), ends, p.operand.name
    )


def _notes(family: Family, p: GemmProblem, c: Any, arch: str) -> Mapping[str, Any]:
    """The expectation for groups of equal size: microseconds, boxes of results by TMA and by threads."""
    if not (p.grouped and family.clock):
        return {}
    across = -(-p.n // c.tile_n) * len(c.boxes(p.result.nbytes))
    full, cut = group_boxes(equal_sizes(p.m, p.products))
    if c.through != "tma":
        full, cut = 0, full + cut
    try:
        us: float | None = family.expected(p, c, family.board).us
    except UnsupportedError:  # a lock file's, which the planner does not offer
        us = None
    return {
        "expected us": us,
        "board": family.board,
        "boxes by TMA": full * across,
        "boxes by threads": cut * across,
    }


def differs(got: Any, expected: Any, p: GemmProblem) -> str:
    """Describe how a result differs from that of cuBLAS by more than rounding; empty where it does not.

    Sums of k products of normal numbers lie within 8 sqrt(k), and are rounded k times, in both results.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     x = device_array((4, 4), "float32")
    ...     assert not differs(x, x, gemm_problem(4, 4, 4, "f32"))
    """
    sums = HALF_PLACE["f64" if p.accumulator.name == "f64" else "tf32" if p.operand.name == "tf32" else "f32"]
    if p.accumulator.name == "s32":
        sums = 0.0
    allowed = 2 * 8 * p.k**0.5 * (p.k**0.5 * sums + HALF_PLACE.get(p.result.name, 0.0))
    seen = largest_difference(got, expected, p.result.name)
    return "" if seen <= allowed else f"differs from cuBLAS by {seen}, more than the {allowed} of rounding"


def _check(p: GemmProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    expected = device_array((p.m, p.n), random_normal(1, 0, p.result.name).dtype)
    cublas = _by_cublas(p, arrays, expected)
    if cublas is None:
        return ""
    cublas()
    arrays["d"][...] = 0
    ours()
    return differs(arrays["d"].view(expected.dtype), expected, p)


def _pace(p: GemmProblem) -> Pace:
    inner = max(1, min(50, round(SAMPLE_FLOPS / p.flops)))
    return Pace(max(5, min(15, round(ROUND_FLOPS / (p.flops * inner)))), inner, sets=1)


# --- the records ---------------------------------------------------------------------------------------


def checks(family: Family) -> Checks:
    """The checks of a family of products."""
    own = {"gemm-sm90": VERIFIED_BY_TMA, "gemv": VERIFIED_FEW}.get(family.name, VERIFIED)
    return Checks(
        operands,
        _expected,
        array_bytes=lambda p: 8 * (p.a_elems + p.b_elems + 4 * p.products * p.m * p.n),
        verified=tuple({"m": m, "n": n, "k": k, "reads_c": True, "bias": True} for m, n, k in own),
        trials=trials,
    )


def bench(family: Family) -> Bench:
    """The benchmark of a family of products."""

    def square(size: int, dtype: str | None, **asked: Any) -> GemmProblem:
        rows = min(size, family.asks["m"])
        p: GemmProblem = family.problem(
            rows, size, size, **({} if dtype is None else {"dtype": dtype}), **asked
        )
        return p

    grouped = {"grouped_mm": lambda p, x: torch_grouped_mm(_groups_of(p, x)) if p.grouped else None}
    return Bench(
        arrays=_arrays,
        contenders={"cublas": _by_cublas} | (grouped if "groups" in family.asks else {}),
        check=_check,
        cases=square_cases(square, (None,), SIZES),
        unit="TFLOP/s",
        work=lambda p: p.flops,
        pace=_pace,
        steps_size=STEPS_SIZE,
        notes=partial(_notes, family),
    )
