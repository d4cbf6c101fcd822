"""The families of matrix products, as records: gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90, gemv."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import ArgumentTypeError, UnsupportedError, shown
from layoutalg.kernels.family import Candidate, Family, Law
from layoutalg.kernels.gemm.choice import GEMV, SIMT, SM75, SM80, SM90, Choice, cold_ns
from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.groups import (
    equal_sizes,
    group_begins,
    group_words,
    grouped,
    sizes_of,
)
from layoutalg.kernels.gemm.launches import (
    AnyConfig,
    OwnProgram,
    called_launches,
    launches,
    shared_launches,
)
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import Sm90Config, usual_schedule

FITTED = "H200-SXM"
"""The board that the laws were fitted on, except that of gemm-sm75."""


LARGEST, SIDE = 16384, 4096
"""The default upper bounds of a generated kernel: of m and n, and of k."""

OPTIONS = (
    "lda", "ldb", "ldc", "ldd", "a_major", "b_major", "accumulator", "result", "c", "bias", "activation"
)  # fmt: skip
"""The options of a product beside its extents."""


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


# --- configurations ------------------------------------------------------------------------------------


def _candidates(choice: Choice[Any], p: GemmProblem, arch: str | Arch) -> Iterator[Candidate]:
    if choice.accepts is not None:
        choice.accepts(p)
    first = choice.fastest(p, arch)
    if first is not None:
        yield Candidate(first[1])
    found, refused = choice.tried(p, arch)
    yield from map(Candidate, found[1:])
    yield from (Candidate(config, refusal) for config, refusal in refused)


def way(config: AnyConfig) -> str:
    """A configuration in a word: its tile, its clusters, its parts of k, ping-pong, its schedule if another.

    >>> from layoutalg.kernels.gemm.tiles import SimtConfig, Sm90Config
    >>> way(SimtConfig(128, 256, 8, 16, 8, 4)), way(SimtConfig(64, 64, 16, 8, 4, 4, splits=3))
    ('128x256x8', '64x64x16 by 3')
    >>> way(Sm90Config(128, 256, 4, schedule="streamk"))
    '128x256x64 streamk'
    """
    if isinstance(config, GemvConfig | OwnProgram):
        return str(config)
    tile = f"{config.tile_m}x{config.tile_n}x{config.tile_k}"
    if isinstance(config, Sm90Config):
        shape = f"{config.cluster_m}x{config.cluster_n}x{config.cluster_k}"
        tile += f" in {shape}" * (config.cluster > 1) + " ping-pong" * config.pingpong
    if config.schedule != usual_schedule(config):
        return f"{tile} {config.schedule}"
    return tile if config.splits == 1 else f"{tile} by {config.splits}"


def _law_ns(choice: Choice[Any], p: GemmProblem, c: AnyConfig, arch: str | Arch) -> float:
    """The time that `expected_family` gives a configuration: tiles without wgmma start cold too."""
    for ns, config in choice.timed(p, arch)[0]:
        if config == c:
            return ns + choice.warm * cold_ns(p, find_arch(arch))
    raise UnsupportedError(f"no time of {way(c)} is known: it is not offered for {p}")


# --- the records ---------------------------------------------------------------------------------------


def _family(
    name: str, summary: str, usual: str, b_major: Any, choice: Choice[Any],
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
        name,
        summary,
        problem,
        partial(_candidates, choice),
        launches=launches,
        asks={"m": rows, "n": LARGEST, "k": SIDE} | dict.fromkeys((*OPTIONS, *more)),
        scalars=_scalars,
        shared=shared_launches,
        called=called_launches,
        way=way,
        written=lambda config: bool(config.splits == 1 and config.schedule != "streamk"),
        words=_group_words,
        law=Law(board, partial(_law_ns, choice)),
    )


GEMM_FAMILIES = (
    _family("gemm-simt", "D = alpha A B + beta C + bias without tensor cores", "f32", "mn", SIMT),
    _family(
        "gemm-sm75",
        "D = alpha A B + beta C + bias by mma.sync, without cp.async",
        "f16",
        "mn",
        SM75,
        sums="f16",
        board="T4",
    ),
    _family("gemm-sm80", "D = alpha A B + beta C + bias by mma.sync", "f16", "k", SM80),
    _family(
        "gemm-sm90",
        "D = alpha A B + beta C + bias by wgmma and TMA",
        "bf16",
        "k",
        SM90,
        more=("groups",),
    ),
    _family("gemv", "D = alpha A B + beta C + bias of up to 8 rows", "bf16", "k", GEMV, rows=1),
)
"""The families of this room."""
