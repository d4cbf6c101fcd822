"""Random products and configurations that compute them, of each family: any sizes, types, storages, batches,
epilogues and options; `drawn(kind, seed)`.

Extents are small, and often 1; rows have gaps; a batch has its modes in any order, some operands shared.
Of a kind that ends with "tiles" the configuration is the tile of that number among those that are offered,
and the product is about as large as one or two tiles.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from layoutalg.codegen.instr import FUNCTIONS, ScalarFunction
from layoutalg.codegen.terms import maximum
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import (
    BYTE_FLOATS,
    BatchMode,
    GemmProblem,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    gemm_problem,
    group_words,
    grouped,
)
from layoutalg.kernels.gemm.choice import GEMV, SIMT, SM80, SM90
from layoutalg.kernels.gemm.epilogue import AddMatrix, AddVector, Epilogue, Map, Scale, ScaleVector
from layoutalg.kernels.gemm.gemv import MMA_ROWS, MOST_ROWS, GemvConfig, check
from layoutalg.kernels.gemm.problem import widest_vectors
from layoutalg.kernels.gemm.times import SM90_CROSSED_TILES, SM90_TILES
from layoutalg.kernels.gemm.validate import check_config

LEAKY = ScalarFunction("leaky", lambda x: maximum(x, 0.125 * x), lambda x, y: 0.0)
RELU, GELU, SILU = (FUNCTIONS[name] for name in ("relu", "gelu", "silu"))
BESIDE = (
    Sm90Config(64, 48, 3, pingpong=True), Sm90Config(128, 48, 3, cluster_n=4),
    Sm90Config(64, 64, 3, cluster_m=4, pingpong=True), Sm90Config(192, 32, 2, 3),
    Sm90Config(320, 32, 2, 1),
)  # fmt: skip
"""What users may ask for beside the offered tiles, in small tiles."""
SM90_OF = (*SM90_TILES, *SM90_CROSSED_TILES, *BESIDE)
ARITHMETIC = {"b1": ("and", "xor"), **dict.fromkeys(BYTE_FLOATS, ("", "fast", "blocks"))}
"""What sums are, of types that have a choice."""
MMA_K = {"f16": (0, 8), "bf16": (0, 8), "f64": (4, 8, 16), "s4": (0, 32), "b1": (0, 128)}
"""The k of one mma, 0 for the largest."""


class Drawn(NamedTuple):
    """A product, a configuration, and of groups their sizes and what a launch gives for them."""

    p: GemmProblem
    c: Any
    sizes: tuple[int, ...] = ()

    @property
    def words(self) -> dict[str, int]:
        """The arguments that tell of groups."""
        return group_words(self.sizes, self.c.tile_m * self.c.cluster_m) if self.sizes else {}


def placed(
    rng: random.Random, rows: int, columns: int, batch: Sequence[int], unit: int, *, shared: bool
) -> list[int]:
    """The leading dimension and the steps of matrices whose rows lie anywhere among the batch, with gaps;
    steps of 0 for what may be `shared`."""
    step, found = -(-(columns + rng.choice((0, 0, 3, unit))) // unit) * unit, {}
    for mode in rng.sample(range(-1, len(batch)), len(batch) + 1):
        found[mode] = 0 if mode >= 0 and shared and rng.random() < 0.3 else step
        step *= (rows if mode < 0 else batch[mode]) if found[mode] else 1
    return [found[i] for i in range(-1, len(batch))]


def product(
    rng: random.Random, dtypes: Sequence[str], most: tuple[int, int, int], *, unit: int = 0, modes: int = 2,
    groups: Sequence[int] = (),
) -> GemmProblem:  # fmt: skip
    """A product of extents up to `most`; rows of A and B are multiples of `unit`, or with 0 of what extents
    are multiples of."""
    dtype, step = rng.choice(dtypes), rng.choice((1, 8) if unit else (1, 1, 2, 4, 8, 64))
    per = max(1, 8 // find_dtype(dtype).bits)  # elements of a byte
    batch = [rng.randint(2, 3) for _ in range(rng.choice((0, 0, *range(modes + 1))))] if modes else []
    sides = (rng.choice((1, x, rng.randint(1, x), rng.randint(1, x))) // (len(batch) + 1) for x in most)
    m, n, k = (max(step, x // step * step) for x in sides)
    m = sum(groups) or m
    narrow = dtype in BYTE_FLOATS
    only_k = dtype in ("s8", "s4", "u4", "b1") or narrow
    majors: Any = [rng.choice(("k", "mn")) if not only_k else "k" for _ in range(2)]
    shapes = [(x, k) if major == "k" else (k, x) for x, major in zip((m, n), majors, strict=True)]
    (lda, *a), (ldb, *b) = (placed(rng, *shape, batch, unit or step, shared=True) for shape in shapes)
    (ldc, *c), (ldd, *d) = (
        placed(rng, m, n, batch, rng.choice((step, 8)), shared=shared) for shared in (True, False)
    )
    integers = dtype == "s8" or per > 1
    steps: list[Any] = [Scale(), AddMatrix(), AddVector("bias"), AddVector("offset", "m"), Map(RELU)]
    steps += [] if integers else [Scale("gamma"), Map(GELU), Map(SILU), Map(LEAKY)]
    if narrow:
        steps = [ScaleVector("of_row"), ScaleVector("of_column", "n"), ScaleVector("of_all", ""), *steps]
    sums = [x for x in ARITHMETIC.get(dtype, ("",)) if x != "blocks" or (unit and not batch and not groups)]
    chosen = rng.sample(steps, rng.randint(0, 5)) if rng.random() < 0.5 else steps[: rng.choice((0, 1, 1, 2))]
    half = dtype == "f16"
    p = gemm_problem(
        m, n, k * per, dtype, accumulator=rng.choice((None, None, "f16")) if half and not unit else None,
        a_major=majors[0], b_major=majors[1], lda=lda * per, ldb=ldb * per, ldc=ldc, ldd=ldd,
        epilogue=Epilogue(tuple(chosen)),
        arithmetic=rng.choice(sums) if len(sums) > 1 else "",
        b_dtype=rng.choice(BYTE_FLOATS) if narrow else None,
        result=rng.choice(("bf16", "f16", "f32")) if narrow else None,
        batch=[BatchMode(n, per * i, per * j, *rest) for n, i, j, *rest in zip(batch, a, b, c, d,
        strict=True)],
        align_bytes=(16, 16, 16) if unit else tuple(rng.choice((16, 16, 8)) for _ in "abd"),  # type: ignore[arg-type]
    )  # fmt: skip
    wide = half or dtype == "bf16"
    return replace(p, result=p.accumulator) if wide and rng.random() < 0.3 else p


def by_simt(rng: random.Random, p: GemmProblem) -> Any:
    """Any options, vectors as wide as they can be."""
    a, b, across = widest_vectors(p)
    lanes_m, m, n = (rng.choice((2, 4, 8)) for _ in range(3))
    via: Any = rng.choice(("cp.async", "registers", "cp.async"))
    return SimtConfig(
        lanes_m * m * rng.choice((1, 2, 3)), 32 // lanes_m * n * rng.choice((1, 2)), rng.choice((4, 8, 16)),
        m, n, lanes_m, run_m=rng.choice((1, 2, 4)), via=via, stages=rng.choice((1, 2, 3, 4)), a_vector=a,
        b_vector=b, edges=rng.random() < 0.6, panel=rng.choice((1, 2, 8)), result_vec=across,
        static_ld=rng.random() < 0.3, splits=rng.choice((1, 1, 2, 3, 5)),
    )  # fmt: skip


def by_sm80(rng: random.Random, p: GemmProblem, record: Any = Sm80Config) -> Any:
    """Any options, vectors as wide as they can be or narrower."""
    size = p.operand.nbytes
    a, b, across = widest_vectors(p)
    a, b = (x * size // rng.choice((1, 1, 1, 2)) or size for x in (a, b))
    by_sm75 = record is Sm75Config
    via: Any = rng.choice(("cp.async", "registers")) if min(a, b) >= 4 and not by_sm75 else "registers"
    return record(
        rng.choice((32, 64)), rng.choice((32, 64)), rng.choice((16, 32, 64)) * 2 // size, 2,
        rng.choice((1, 2)), rng.choice((2, 3, 4, 5)) if via == "cp.async" else rng.choice((1, 2)),
        panel=rng.choice((1, 2, 8)), via=via, a_bytes=a, b_bytes=b, edges=rng.random() < 0.6,
        mma_k=8 if by_sm75 else rng.choice(MMA_K.get(p.element, (0,))), mma_m=rng.choice((16, 16, 8)),
        result_vec=across, static_ld=rng.random() < 0.5, splits=rng.choice((1, 1, 1, 2, 3, 7)),
    )  # fmt: skip


def by_sm90(rng: random.Random, p: GemmProblem, tile: Any = None, *, crossed: bool = False) -> Any:
    """Any options; results leave in boxes where they can, but for some."""
    if tile is None:
        consumers = rng.choice((1, 1, 2, 2, 3))
        tile = Sm90Config(64 * consumers, rng.choice((16, 48, 64, 128)), rng.randint(2, 4), consumers)
        along = rng.choice(("", "", "cluster_m", "cluster_n", "cluster_k"))
        options: dict[str, Any] = {along: rng.choice((2, 2, 3, 4))} if along else {}
        tile = replace(
            tile, panel=rng.randint(1, 8), pingpong=consumers == 2 and rng.random() < 0.5, crossed=crossed,
            **options,
        )  # fmt: skip
    c = SM90.fitted(p, tile)
    if c.through == "tma" and rng.random() < 0.2:
        c = replace(c, through="shared", result_vec=1)
    if p.grouped and rng.random() < 0.5:
        c = replace(c, through="tma", result_vec=16 // p.result.nbytes)
    return SM90.parted(p, replace(c, splits=rng.randint(2, 3))) if rng.random() < 0.2 else c


def by_gemv(rng: random.Random, p: GemmProblem) -> GemvConfig:
    """One of those that are tried, or any other."""
    if rng.random() < 0.4:
        return rng.choice(GEMV.configs(p))
    lanes, columns = ((32, 64, 128, 256), (1, 2, 4)) if p.b_major == "k" else ((4, 8, 16, 32), (1,))
    vec = rng.choice([x for x in (1, 2, 4, 8) if widest_vectors(p)[1] % x == 0])
    mma = p.b_major == "k" and vec == 8 and p.k % 8 == 0 and p.operand.name != "f32"
    c = GemvConfig(
        p.m, rng.choice(columns), rng.choice(lanes), vec, rng.randint(1, 4), rng.choice((256, 512)), mma
    )
    check(p, c)
    return c


def groups_of(rng: random.Random) -> tuple[int, ...]:
    """Rows of groups: none, one, and about as many as boxes have."""
    sizes = [rng.choice((0, 1, 30, 63, 64, 65, 100, 130)) for _ in range(rng.randint(1, 6))]
    return tuple(sizes) if sum(sizes) else (65, 0, 1)


def _by_sm90(
    rng: random.Random, number: int, *, tiles: bool, many: bool, bytes_each: int = 2
) -> Drawn:  # fmt: skip
    """By wgmma: one product or a batch, or groups."""
    dtypes, unit = ((*BYTE_FLOATS, "s8"), 16) if bytes_each == 1 else (("f16", "bf16"), 8)
    those = [c for c in SM90_OF if c.cluster_k == 1 and not c.crossed] if many else SM90_OF
    tile = those[number % len(those)] if tiles else None
    most = (
        (tile.tile_m * tile.cluster_m + 9, tile.tile_n * tile.cluster_n + 9, 280 // bytes_each)
        if tile
        else (150, 150, 600 // bytes_each)
    )
    sizes = groups_of(rng) if many else ()
    p = product(rng, dtypes, most, unit=unit, modes=0 if many or tiles else 3, groups=sizes)
    if many:
        p = grouped(p, len(sizes), -(-p.b_elems // unit) * unit)
    return Drawn(p, by_sm90(rng, p, tile), sizes)


def _simt_tile(rng: random.Random, number: int) -> Drawn:
    tile = SIMT.tiles[number % len(SIMT.tiles)]
    p = product(rng, ("f32",), (tile.tile_m + 9, tile.tile_n + 9, 3 * tile.tile_k), modes=0)
    return Drawn(p, replace(SIMT.fitted(p, tile), splits=rng.choice((1, 2))))


def _sm80_tile(rng: random.Random, number: int) -> Drawn:
    p = product(rng, ("f16", "bf16", "tf32", "f64"), (90, 80, 120), modes=0)
    return Drawn(p, rng.choice([c for c in SM80.configs(p) if c.tile_m * c.tile_n <= 64 * 64]))


def _of(dtypes: Sequence[str], most: tuple[int, int, int], config: Any, **how: Any) -> Callable[..., Drawn]:
    def one(rng: random.Random, number: int) -> Drawn:
        p = product(rng, dtypes, most, **how)
        return Drawn(p, config(rng, p))

    return one


KINDS: dict[str, Callable[[random.Random, int], Drawn]] = {
    "simt": _of(("f32", "f32", "f64"), (60, 60, 40), by_simt), "simt tiles": _simt_tile,
    "sm80": _of(("f16", "bf16", "tf32"), (90, 90, 120), by_sm80), "sm80 tiles": _sm80_tile,
    "sm80 integers": _of(("s8", "s4", "u4", "b1"), (80, 80, 200), by_sm80),
    "sm80 bytes": _of(BYTE_FLOATS, (80, 80, 300), by_sm80),
    "sm80 f64": _of(("f64",), (50, 50, 50), by_sm80),
    "sm75": _of(("f16",), (90, 90, 100), lambda rng, p: by_sm80(rng, p, Sm75Config)),
    "gemv": _of(("f16", "bf16", "f32"), (MOST_ROWS, 40, 300), by_gemv),
    "gemv of vectors": _of(("f16", "bf16"), (MMA_ROWS, 70, 600), by_gemv, unit=8),
    "sm90 crossed": _of(
        ("f16", "bf16", *BYTE_FLOATS), (150, 150, 400), partial(by_sm90, crossed=True), unit=16
    ),
    "sm90 tf32": _of(("tf32",), (90, 80, 90), by_sm90, unit=8, modes=1),
    "sm90": lambda rng, number: _by_sm90(rng, number, tiles=False, many=False),
    "sm90 bytes": partial(_by_sm90, tiles=False, many=False, bytes_each=1),
    "group bytes": partial(_by_sm90, tiles=False, many=True, bytes_each=1),
    "sm90 tiles": lambda rng, number: _by_sm90(rng, number, tiles=True, many=False),
    "groups": lambda rng, number: _by_sm90(rng, number, tiles=False, many=True),
    "group tiles": lambda rng, number: _by_sm90(rng, number, tiles=True, many=True),
}  # fmt: skip


def arch_of(kind: str) -> str:
    """The architecture that a kind is for."""
    return "sm_75" if kind == "sm75" else "sm_90"


def drawn(kind: str, seed: int) -> Drawn:
    """A product and a configuration that is accepted for it, the same for the same seed."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(2000):
        try:
            found = KINDS[kind](rng, seed)
            if not isinstance(found.c, GemvConfig):
                check_config(found.p, found.c, arch_of(kind))
        except (LayoutAlgError, IndexError):
            continue
        return found
    raise AssertionError(f"nothing is accepted of {kind} with the seed {seed}")
