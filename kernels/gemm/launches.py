"""The launches that compute a product, one kernel or several, and the records of the families of products.

Parts of k are one kernel, and another that adds them up.  A kernel is built for the extents and leading
dimensions of a problem and below; those of calls serve a whole class of problems (`called_problem`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias, runtime_checkable

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.program import SCRATCH, Kernel, LaunchSequence, launch_sequence
from layoutalg.errors import ArgumentTypeError, UnsupportedError, shown
from layoutalg.kernels.family import Candidate, Family
from layoutalg.kernels.gemm import gemv, tiles
from layoutalg.kernels.gemm.choice import GEMV, SIMT, SM75, SM80, SM90, Choice
from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.groups import equal_sizes, group_begins, group_words, grouped, room_for, sizes_of
from layoutalg.kernels.gemm.parts import block_count, build_combine, combine_vector
from layoutalg.kernels.gemm.problem import (
    ALIGNED,
    SCALE_STEPS,
    BatchMode,
    GemmProblem,
    gemm_problem,
    scalar_words,
)
from layoutalg.kernels.gemm.programs import build_simt, build_sm80, build_sm90
from layoutalg.kernels.gemm.rasterize import batch_scalars
from layoutalg.kernels.gemm.validate import MOST_EXTENT, multiples
from layoutalg.kernels.model import Clock, Expected

MOST_CALLED = 1 << 14
"""The largest extents and leading dimensions for kernels of calls, so that 32 bits address them."""

WIDEST_BATCH = (65535, 1 << 36, 1 << 36, 1 << 36, 1 << 36)
"""Each mode of a batch that kernels are built for: what a grid's third axis holds, steps past all memory."""


@runtime_checkable
class OwnProgram(Protocol):
    """A configuration that writes a program of its own, as published kernels do."""

    def build(self, p: GemmProblem) -> Kernel:
        """Return the program for the problem's sizes and below."""


Chosen: TypeAlias = tiles.Config | GemvConfig
"""A configuration that a family of products chooses."""

AnyConfig: TypeAlias = Chosen | OwnProgram
"""A configuration of any family of products, or a published step of its kernel."""

SIZES = "m", "n", "k", "lda", "ldb", "ldc", "ldd"
"""The numbers of a problem that a launch gives."""


def launches(
    p: GemmProblem, c: AnyConfig, arch: str | Arch = DEFAULT_ARCH, *, any_sizes: bool = False
) -> LaunchSequence:
    """The launches of a configuration; what adds parts up starts early, where `arch` can.  With `any_sizes`
    leading dimensions of one part are parameters of up to MOST_CALLED elements, or those of the problem.

    Raises what the family's `build` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> one = launches(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4))
    >>> [kernel.name for kernel in one.kernels], one.scratch_bytes
    (['gemm_sm80_f16', 'gemm_combine_f16'], 65536)
    """
    if isinstance(c, OwnProgram):
        return launch_sequence([c.build(p)], scalars={x: getattr(p, x) for x in SIZES}, arch=arch)
    wide = p
    if any_sizes and isinstance(c, tiles.SimtConfig | tiles.Sm80Config) and c.splits == 1:
        wide = replace(p, **{x: max(getattr(p, x), MOST_CALLED) for x in SIZES[3:]})
        c = replace(c, static_ld=False)
    kernels = [_product(wide, c, arch)]
    if c.splits > 1:
        kernels.append(build_combine(p))
    return sequence_of(p, c, tuple(kernels), arch)


def _product(p: GemmProblem, c: Chosen, arch: str | Arch) -> Kernel:
    match c:
        case GemvConfig():
            return gemv.build(p, c)
        case tiles.SimtConfig():
            return build_simt(p, c)
        case tiles.Sm90Config():
            return build_sm90(p, c)
        case _:
            return build_sm80(p, c, arch)


def called_launches(p: GemmProblem, c: Chosen, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The launches for a call on arrays: leading dimensions are parameters too, and every problem of up to
    MOST_CALLED rows that is computed by this configuration has the same kernels.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> c = Sm80Config(64, 64, 64, 2, 2, 4, edges=True, static_ld=True)
    >>> one, other = (called_launches(gemm_problem(m, n, 80), c) for m, n in ((96, 200), (999, 8000)))
    >>> one.kernels == other.kernels
    True
    """
    return sequence_of(p, c, _called(*called_class(p, c), arch).kernels)


def called_class(p: GemmProblem, c: Chosen) -> tuple[GemmProblem, Chosen]:
    """The problem and the configuration whose kernels compute this one too."""
    free = c
    if not isinstance(free, GemvConfig):
        free = replace(free, splits=min(c.splits, 2))  # a kernel takes any number of parts
    if isinstance(free, tiles.SimtConfig | tiles.Sm80Config):
        free = replace(free, static_ld=False)
    return called_problem(p, free), free


_called = lru_cache(maxsize=256)(launches)


def called_problem(p: GemmProblem, c: Chosen) -> GemmProblem:
    """A problem whose kernels compute this one too, the same for all of its class.

    Classes differ where kernels do: fewer rows or columns than a tile has, and more than MOST_CALLED along
    any mode, where 32 bits no longer hold what is addressed.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> p = gemm_problem(96, 200, 80)
    >>> wide = called_problem(p, Sm80Config(128, 64, 64, 2, 2, 4, edges=True))
    >>> wide.m, wide.n, wide.k, wide.lda
    (127, 16384, 16384, 16384)
    """
    rows = p.lda, p.ldb, p.ldc, p.ldd
    more = 14 if c.splits > 1 else 16  # sums of parts are numbered from the first one's first
    most = MOST_CALLED if max(p.m, p.n, p.k, *rows) <= MOST_CALLED else MOST_CALLED << more
    m = n = k = most
    lda = most
    if isinstance(c, GemvConfig):
        m, lda = p.m, most if p.a_major == "k" else p.lda  # one row of A may be stored along m, by itself
    elif isinstance(c, tiles.Sm90Config):
        m, n, k = (MOST_CALLED if max(p.m, p.n, p.k) <= MOST_CALLED else MOST_EXTENT,) * 3
        if p.grouped and max(p.n, p.k) <= MOST_CALLED:
            n = k = MOST_CALLED  # rows of all groups are many more than a matrix has
    else:
        by_m, by_n, _ = multiples(p, c)
        m = most if p.m >= c.tile_m else c.tile_m - by_m
        n = most if p.n >= c.tile_n else c.tile_n - by_n
    ldd = most + (combine_vector(p) if c.splits > 1 else 0)  # what cuts the rows of the sums that are added
    batch = widest_batch(p, c)
    return replace(
        p, m=m, n=n, k=k, lda=lda, ldb=most, ldc=most, ldd=ldd, batch=batch, align_bytes=ALIGNED,
        scale_strides=tuple(max(most, d) for d in p.scale_strides),
    )  # fmt: skip


def widest_batch(p: GemmProblem, c: Chosen) -> tuple[BatchMode, ...]:
    """The batch that the kernels of neighbouring problems are built for: of gemm-sm90 an operand that all
    products share stays one, since its tensor map has no dimension for the batch.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p = gemm_problem(8, 8, 8, batch=[BatchMode(3, a=64, d=64)])
    >>> widest_batch(p, tiles.Sm90Config(64, 64, 4, 1))[0].b
    0
    """
    widest = BatchMode(*WIDEST_BATCH)
    if p.grouped:
        return (BatchMode(room_for(p.products), b=widest.b),)
    if c.via != "tma":
        return (widest,) * len(p.batch)
    return tuple(
        replace(widest, a=widest.a if mode.a else 0, b=widest.b if mode.b else 0) for mode in p.batch
    )


def sequence_of(
    p: GemmProblem, c: Chosen, kernels: tuple[Kernel, ...], arch: str | Arch | None = None
) -> LaunchSequence:
    """The sequence in which kernels that were built for this product, or for larger ones, compute it.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> sequence_of(gemm_problem(8, 8, 8), tiles.SimtConfig(64, 64, 16, 8, 4, 4, splits=2), ()).scratch_bytes
    512
    """
    splits = c.splits
    scalars = {x: getattr(p, x) for x in SIZES} | {"splits": splits}
    scalars |= batch_scalars(p) | dict(zip(SCALE_STEPS, p.scale_strides, strict=False))
    scratch = splits * p.m * p.n * p.accumulator.nbytes if splits > 1 else 0
    if isinstance(c, tiles.Sm90Config):
        scalars["all_tiles"] = tiles.cluster_tiles(p, c)
        scalars["blocks"] = block_count(p, c, arch or DEFAULT_ARCH)
    return launch_sequence(kernels, {"sums": SCRATCH}, scalars=scalars, scratch_bytes=scratch, arch=arch)


# --- configurations ------------------------------------------------------------------------------------


def _group_words(p: GemmProblem, c: Any, given: Mapping[str, Any]) -> Mapping[str, int]:
    """The words of a launch of groups, with the first tile of each, which depends on the tile's height."""
    if not p.grouped:
        return {}
    return group_words(sizes_of(given, p.products), c.tile_m * c.cluster_m)


def _scalars(p: GemmProblem) -> dict[str, int]:
    """Numbers of a call that is timed or counted: C is read where it is there, groups have one size."""
    beta = scalar_words(p, "beta", 1.0) if p.reads_c else {}
    groups = group_begins(equal_sizes(p.m, p.products)) if p.grouped else {}
    return {**scalar_words(p, "alpha", 1.0), **beta, **groups}


def way(config: AnyConfig) -> str:
    """A configuration in a word: its tile, its clusters, ping-pong, crossed, its parts of k.

    >>> from layoutalg.kernels.gemm.tiles import SimtConfig
    >>> way(SimtConfig(128, 256, 8, 16, 8, 4)), way(SimtConfig(64, 64, 16, 8, 4, 4, splits=3))
    ('128x256x8', '64x64x16 by 3')
    """
    if isinstance(config, GemvConfig | OwnProgram):
        return str(config)
    shape = f"{config.cluster_m}x{config.cluster_n}x{config.cluster_k}"
    tile = f"{config.tile_m}x{config.tile_n}x{config.tile_k}"
    tile += f" in {shape}" * (config.cluster > 1) + " ping-pong" * config.pingpong
    tile += " crossed" * config.crossed
    return tile if config.splits == 1 else f"{tile} by {config.splits}"


def _clock(choice: Choice[Any], p: GemmProblem, c: AnyConfig, arch: str | Arch) -> Clock:
    """The time that `expected_family` gives a configuration."""
    ns = _times(choice, p, arch).get(c)
    if ns is None:
        raise UnsupportedError(f"no time of {way(c)} is known: it is not offered for {p}")
    return lambda m: Expected(ns / 1e3)


@lru_cache(maxsize=16)
def _times(choice: Choice[Any], p: GemmProblem, arch: str | Arch) -> dict[AnyConfig, float]:
    return {config: ns for ns, config, why in choice.timed(p, arch) if why is None}


# --- the records ---------------------------------------------------------------------------------------

FITTED = "H200-SXM"
"""The board that the laws were fitted on, except that of gemm-sm75."""

LARGEST, SIDE = 16384, 4096
"""The default upper bounds of a generated kernel: of m and n, and of k."""

OPTIONS = (
    "lda", "ldb", "ldc", "ldd", "a_major", "b_major", "accumulator", "result", "c", "bias", "activation",
    "b_dtype", "scale_a", "scale_b", "arithmetic",
)  # fmt: skip
"""The options of a product beside its extents."""


def _family(
    choice: Choice[Any], summary: str, usual: str, b_major: Any,
    rows: int = LARGEST, sums: str | None = None, more: Sequence[str] = (), board: str = FITTED,
) -> Family:  # fmt: skip
    def problem(
        m: int, n: int | None = None, k: int | None = None, dtype: Any = usual, c: bool | None = None,
        groups: int | None = None, **rest: Any,
    ) -> GemmProblem:  # fmt: skip
        n, k = (m if x is None else x for x in (n, k))
        if c is not None:
            if not isinstance(c, bool):
                raise ArgumentTypeError(f"c = {shown(c)}: True or False is needed")
            rest["reads_c"] = c
        p = gemm_problem(m, n, k, dtype, **{"b_major": b_major, "accumulator": sums, **rest})
        whole = 16 // p.operand.nbytes
        return p if groups is None else grouped(p, groups, -(-p.b_elems // whole) * whole)

    return Family(
        choice.family,
        summary,
        problem,
        lambda p, arch: (Candidate(config, why) for _, config, why in choice.timed(p, arch)),
        launches=launches,
        asks={"m": rows, "n": LARGEST, "k": SIDE} | dict.fromkeys((*OPTIONS, *more)),
        scalars=_scalars,
        called=called_launches,
        any_sizes=partial(launches, any_sizes=True),
        way=way,
        written=lambda config: bool(config.splits == 1),
        words=_group_words,
        clock=partial(_clock, choice),
        board=board,
    )


GEMM_FAMILIES = (
    _family(SIMT, "D = alpha A B + beta C + bias without tensor cores", "f32", "mn"),
    _family(
        SM75,
        "D = alpha A B + beta C + bias by mma.sync, without cp.async",
        "f16",
        "mn",
        sums="f16",
        board="T4",
    ),
    _family(SM80, "D = alpha A B + beta C + bias by mma.sync", "f16", "k"),
    _family(SM90, "D = alpha A B + beta C + bias by wgmma and TMA", "bf16", "k", more=("groups",)),
    _family(GEMV, "D = alpha A B + beta C + bias of up to 16 rows", "bf16", "k", rows=1),
)
"""The families of this room."""
