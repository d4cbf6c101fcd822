"""Cases of kernels as plain data: what `layoutalg bench` measures by default, and random ones.

A case is the name of a family and the keyword arguments of its problem, so that it can stand in a file:

    {"family": "permute", "shape": [31, 63, 127, 255], "axes": [3, 1, 0, 2], "dtype": "f16"}
    {"family": "gemm-sm80", "m": 1000, "n": 264, "k": 4104, "dtype": "bf16", "bias": true, "splits": 4}

A product may name the "step" of its ladder that computes it, or the parts of k ("splits"); otherwise it is
computed as it is chosen to be.  `drawn(seed, count)` takes the families in turn, each as often as `SHARES`
says, and draws sizes that a GPU computes in milliseconds: aligned and ragged extents, all element types, gaps
between rows, offsets, strides, what a family has beside.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, islice
from math import prod
from typing import Any, TypeAlias

from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels import FAMILIES, Family
from layoutalg.kernels.checks import bench_of, rowwise
from layoutalg.kernels.checks import move as moves
from layoutalg.kernels.checks.gemm import SIZES
from layoutalg.kernels.registry import find_steps
from layoutalg.kernels.rowwise import FOLD

Case: TypeAlias = dict[str, Any]

MOST_BYTES = 1 << 27
"""Of an array of a drawn case."""


def label(case: Mapping[str, Any]) -> str:
    """A case in words: its family, and the arguments of its problem.

    >>> label({"family": "softmax", "shape": [64, 1000], "axes": [1], "dtype": "f16"})
    'softmax shape=64,1000 axes=1 dtype=f16'
    """
    words = (
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in case.items()
        if name != "family"
    )
    return " ".join((case["family"], *words))


# --- the bench -----------------------------------------------------------------------------------------


def benched() -> list[Case]:
    """Every case that `layoutalg bench` measures when nothing else is asked for, each once."""
    found = [*_matrices(), *_permutes(), *_reductions(), *_products()]
    return list({label(case): case for case in found}.values())


def _matrices() -> Iterator[Case]:
    for family in ("tiled_copy", "transpose"):
        for dtype in moves.MATRIX_DTYPES:
            for side in moves.SIDES:
                yield {"family": family, "m": side, "n": side, "dtype": dtype}


def _permutes() -> Iterator[Case]:
    for dtype in moves.DTYPES:
        for shape, axes in (*moves.CASES, *moves.random_cases()):
            yield {"family": "permute", "shape": list(shape), "axes": list(axes), "dtype": dtype}


def _reductions() -> Iterator[Case]:
    """With the long sums that reductions are compared with."""
    for op, shape, axes, dtype in (*rowwise.CASES, *rowwise.random_cases()):
        yield {"family": op, "shape": list(shape), "axes": list(axes), "dtype": dtype}
        if op in FOLD:
            words = prod(shape) * find_dtype(dtype).nbytes // 4
            yield {"family": "sum", "shape": [words], "axes": [0], "dtype": "f32"}


def _products() -> Iterator[Case]:
    for family in (FAMILIES["gemm-simt"], FAMILIES["gemm-sm80"]):
        for size in SIZES:
            yield _square(family, size)
        for step in find_steps(family.name):
            yield {**_square(family, bench_of(family).steps_size), "step": step}


def _square(family: Family, size: int) -> Case:
    p = family.problem(size)
    return {
        "family": family.name, "m": size, "n": size, "k": size, "dtype": p.operand.name,
        "b_major": p.b_major,
    }  # fmt: skip


# --- random cases --------------------------------------------------------------------------------------


def drawn(seed: int, count: int) -> list[Case]:
    """So many different random cases, the same for the same seed.

    >>> drawn(1, 20) == drawn(1, 30)[:20], len({case["family"] for case in drawn(1, 30)})
    (True, 11)
    """
    rng = random.Random(seed)
    families = cycle([name for turn in range(max(SHARES.values())) for name in SHARES if turn < SHARES[name]])
    found: dict[str, Case] = {}
    while len(found) < count:
        for name in islice(families, count - len(found)):
            case = {"family": name, **_DRAW[name](rng, name)}
            found[label(case)] = case
    return list(found.values())


SHARES: Mapping[str, int] = {
    "gemm-sm80": 10, "gemm-simt": 8, "permute": 8, "transpose": 6, "tiled_copy": 6, "softmax": 5,
    "layer_norm": 5, "sum": 4, "max": 3, "mean": 3, "relayout": 2,
}  # fmt: skip
"""How many of sixty cases are of a family."""


def _matrix(rng: random.Random, family: str) -> Case:
    dtype = rng.choice(("f32", "f16", "u8", "f64", "c128", "bf16"))
    most = {"c128": 2048, "f64": 3072}.get(dtype, 5000)
    m, n = (_extent(rng, 200, most) for _ in range(2))
    case = {"m": m, "n": n, "dtype": dtype}
    row = m if family == "transpose" else n
    return case | _gaps(rng, {"lds": n, "ldd": row})


def _permute(rng: random.Random, family: str) -> Case:
    dtype = rng.choice(("u8", "f16", "f32", "f64", "c128"))
    size = find_dtype(dtype).nbytes
    shape = _shape(rng, rng.randint(2, 5), rng.choice((1 << 20, 1 << 23, MOST_BYTES // 8)) // size)
    axes = rng.sample(range(len(shape)), len(shape))
    if axes == sorted(axes):
        axes = axes[::-1]
    case: Case = {"shape": shape, "axes": axes, "dtype": dtype}
    if rng.random() < 0.4:
        case["src"] = _padded(rng, shape)
    if rng.random() < 0.4:
        case["dst"] = _padded(rng, [shape[a] for a in axes])
    return case | _offsets(rng, 16 // size)


def _relayout(rng: random.Random, family: str) -> Case:
    """Rows to channels in groups of 32, or to swizzled rows."""
    n, hw, groups = rng.randint(4, 32), rng.choice((49, 196, 784)), rng.choice((2, 4, 8))
    channels = 32 * groups
    rows = f"({n},{hw},(32,{groups})):({hw * channels},{channels},(1,32))"
    if rng.random() < 0.5:
        to = f"({n},{hw},(32,{groups})):({hw * channels},32,(1,{32 * hw}))"
    else:
        to = f"Sw<3,4,3> o 0 o {rows}"
    return {"src": rows, "dst": to, "dtype": rng.choice(("f16", "u8", "f32"))}


def _reduction(rng: random.Random, family: str) -> Case:
    dtype = rng.choice(("f32", "f16", "bf16"))
    rank = rng.randint(1, 4)
    shape = _shape(rng, rank, rng.choice((1 << 18, 1 << 21, 1 << 24)))
    axes = sorted(rng.sample(range(rank), rng.randint(1, max(1, rank - 1))))
    case: Case = {"shape": shape, "axes": axes, "dtype": dtype}
    if rng.random() < 0.4:
        case["src"] = _padded(rng, shape)
    if rng.random() < 0.3 and dtype != "f32":
        case["result"] = "f32"
    return case | _offsets(rng, 8, sides=("src_offset",))


def _norm(rng: random.Random, family: str) -> Case:
    case = _reduction(rng, family)
    case.pop("result", None)
    if rng.random() < 0.4:
        case["in_place"] = True
    elif rng.random() < 0.4:
        case |= _offsets(rng, 8, sides=("dst_offset",))
    if family == "layer_norm":
        case |= {name: True for name in ("weight", "bias") if rng.random() < 0.6}
        case |= {f"{name}_offset": 3 for name in ("weight", "bias") if name in case and rng.random() < 0.3}
    return case


def _product(rng: random.Random, family: str) -> Case:
    dtype = rng.choice({"gemm-simt": ("f32", "f32", "f64")}.get(family, ("f16", "f16", "bf16", "tf32", "s8")))
    most = 1024 if dtype == "f64" else 3000
    m, n, k = (_extent(rng, 100, most) for _ in range(3))
    case: Case = {"m": m, "n": n, "k": k, "dtype": dtype}
    if rng.random() < 0.3:  # long k, and few tiles
        case |= {"m": _extent(rng, 64, 300), "n": _extent(rng, 64, 300), "k": _extent(rng, 2000, 9000)}
        case |= {"splits": rng.choice((2, 3, 4))} if rng.random() < 0.5 else {}
    if dtype not in ("tf32", "s8"):
        case |= {name: "mn" for name in ("a_major", "b_major") if rng.random() < 0.5}
    if dtype == "f16" and rng.random() < 0.3 and "splits" not in case:
        case["accumulator"] = "f16"
    elif dtype in ("f16", "bf16") and rng.random() < 0.4:
        case["result"] = "f32"
    if rng.random() < 0.4:
        rows = {
            "lda": case["m" if "a_major" in case else "k"], "ldb": case["n" if "b_major" in case else "k"],
            "ldd": case["n"],
        }  # fmt: skip
        case |= _gaps(rng, rows)
    case |= {name: True for name in ("reads_c", "bias") if rng.random() < 0.3}
    return case | ({"activation": "relu"} if rng.random() < 0.3 else {})


_DRAW: Mapping[str, Callable[[random.Random, str], Case]] = {
    "tiled_copy": _matrix, "transpose": _matrix, "permute": _permute, "relayout": _relayout,
    "sum": _reduction, "max": _reduction, "mean": _reduction, "softmax": _norm, "layer_norm": _norm,
    "gemm-simt": _product, "gemm-sm80": _product,
}  # fmt: skip


def _extent(rng: random.Random, least: int, most: int) -> int:
    """An extent, as likely a multiple of 128, of 8, or any."""
    grain = rng.choice((128, 8, 1))
    return max(1, round(rng.randint(least, most) / grain)) * grain


def _shape(rng: random.Random, rank: int, elems: int) -> list[int]:
    """Extents with about so many elements together."""
    cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
    shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
    grain = rng.choice((1, 1, 8, 32))
    return [max(1, round(n / grain) * grain or round(n)) for n in (elems**share for share in shares)]


def _padded(rng: random.Random, shape: list[int]) -> list[int]:
    """Strides of rows in some order of the modes, with gaps behind rows."""
    order = list(range(len(shape)))
    if rng.random() < 0.3:
        rng.shuffle(order)
    strides, step = [0] * len(shape), 1
    for place, mode in enumerate(reversed(order)):
        strides[mode] = step
        step = step * shape[mode] + (rng.choice((0, 1, 8)) if place == 0 else 0)
    return strides


def _gaps(rng: random.Random, rows: Mapping[str, int]) -> Case:
    """Leading dimensions that are larger than the rows, for some of them."""
    return {name: row + rng.choice((1, 8, 24)) for name, row in rows.items() if rng.random() < 0.35}


def _offsets(rng: random.Random, most: int, sides: tuple[str, ...] = ("src_offset", "dst_offset")) -> Case:
    """Offsets of tensors that start behind a 16-byte boundary, for some of them."""
    return {side: rng.randint(1, most) for side in sides if rng.random() < 0.25}
