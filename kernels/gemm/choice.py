"""The configurations to try for a product, best first, with the time that each is expected to take.

The idea.  A few tiles cover the trade between reuse and the number of blocks, and the law of their way (see
times) ranks them.  Parts of k (see parts) are more blocks with fewer tiles of k, and a kernel that adds them
up.

    SIMT.configs(p), SM80.configs(p)      the configurations that fit, the one expected to be fastest first
    SM80.fitted(p, config)                a tile with vectors and edges as a problem needs them

Refusals.  Rules are checked one after the other, so that what mends the first may break the next; the
configuration that a refusal names fulfils all:

    tile_n = 80 is not a multiple of 64, fragments of its warps; the nearest is 64; with tile_n=64 it works

Notes.  A configuration that a user names is refused by the rules that drop candidates: `check_config`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from math import gcd, inf
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import gemv
from layoutalg.kernels.gemm.gemv import MMA_ROWS, GemvConfig
from layoutalg.kernels.gemm.groups import BOX_ROWS
from layoutalg.kernels.gemm.problem import BYTE_FLOATS, GemmProblem, mmas_of, widest_vectors
from layoutalg.kernels.gemm.tiles import (
    STEP_BYTES,
    Config,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    tile_count,
)
from layoutalg.kernels.gemm.times import (
    SIMT_TILES,
    SM75_TILES,
    SM80_F64_TILES,
    SM80_PROMOTED_TILES,
    SM80_TILES,
    SM90_CROSSED_TILES,
    SM90_TILES,
    sm90_clock,
    tile_clock,
)
from layoutalg.kernels.gemm.validate import (
    check_config,
    crosses,
    is_one_way,
    leaves_crossed,
    vectors_of_integers,
)
from layoutalg.kernels.identity import difference, distance, nearest
from layoutalg.kernels.model import machine_of

OFFERED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The numbers of parts that are tried."""

LEAST_K = 128
"""The elements of k that a part has at least: two tiles of 64."""

MOST_ROUNDS = 12
"""The most blocks of parts that a multiprocessor computes: past that, tiles fill it without splitting."""

C = TypeVar("C", SimtConfig, Sm80Config, Sm75Config, Sm90Config, GemvConfig)


def offered_splits(p: GemmProblem, c: Config | GemvConfig, sms: int) -> tuple[int, ...]:
    """Numbers of parts worth trying for a problem in tiles of a configuration, on `sms` multiprocessors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> offered_splits(gemm_problem(256, 256, 1024), Sm80Config(128, 128, 64, 2, 2, 3), 132)
    (1, 2, 3, 4, 6, 8)
    """
    if p.accumulator.name == "f16" or p.batch or isinstance(c, GemvConfig) or c.cluster > 1 or c.pingpong:
        return (1,)
    tiles = tile_count(p, c)
    return tuple(s for s in OFFERED if s == 1 or (s * LEAST_K <= p.k and s * tiles <= MOST_ROUNDS * sms))


Clock: TypeAlias = Callable[[GemmProblem, Arch], Callable[[Any, int], float]]
"""The nanoseconds that a problem takes on an architecture in a configuration, in so many parts of k."""


@lru_cache(maxsize=1 << 12)
def _with(c: Any, changes: tuple[tuple[str, Any], ...]) -> Any:
    """`replace`, which costs more than all else that is asked of a tile: few configurations come of many
    problems."""
    return replace(c, **dict(changes))


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Generic[C]):
    """The tiles of a family; `fit` gives one the vectors, elements and edges that a problem needs.

    `fields` are those that depend on the problem alone; `parted` makes a configuration one for
    parts of k.  `offered` are the tiles of problems that have others than `tiles`.
    """

    family: str
    tiles: tuple[C, ...]
    clock: Clock
    fit: Callable[[GemmProblem, C, Arch], C]
    fields: tuple[str, ...]
    parted: Callable[[GemmProblem, C], C] = lambda p, c: c
    offered: Callable[[GemmProblem], Iterable[C]] | None = None

    def fitted(self, p: GemmProblem, c: C, arch: str | Arch = DEFAULT_ARCH) -> C:
        """A configuration with elements, vectors and edges as a problem needs them.

        >>> from layoutalg.kernels.gemm.problem import gemm_problem
        >>> SM80.fitted(gemm_problem(100, 100, 100), Sm80Config(128, 256, 64, 2, 4, 4)).a_bytes
        8
        """
        return self.fit(p, c, find_arch(arch))

    def configs(self, p: GemmProblem, arch: str | Arch = DEFAULT_ARCH) -> tuple[C, ...]:
        """Every tile that fits, with every number of parts worth trying, the fastest by the model first.

        Vectors are as wide as the leading dimensions and the extents allow.  Raises the refusal of the last
        tile where none fits.

        >>> from layoutalg.kernels.gemm.problem import gemm_problem
        >>> print(SM80.configs(gemm_problem(8192, 8192, 8192))[0])
        128x256x64, 4 stages
        """
        found, last = list[C](), None
        for _, config, why in self.timed(p, arch):
            last = why
            if why is None:
                found.append(config)
        if last is not None and not found:
            raise last
        return tuple(found)

    def timed(
        self, p: GemmProblem, arch: str | Arch = DEFAULT_ARCH
    ) -> Iterator[tuple[float, C, LayoutAlgError | None]]:
        """Yield the same behind the nanoseconds that are expected of each, then tiles that do not fit, with
        their refusals."""
        chip, clock = find_arch(arch), self.clock(p, find_arch(arch))
        tiles = self.offered(p) if self.offered else self.tiles
        refusals = [(c, _refusal(p, c, chip)) for c in (self.fit(p, tile, chip) for tile in tiles)]
        fitting = [c for c, why in refusals if why is None]
        ranked: list[tuple[float, C, int]] = [
            (clock(c, splits), c, splits)
            for c in fitting
            for splits in offered_splits(p, c, machine_of(chip).sms)
        ]
        for ns, c, splits in sorted(ranked, key=itemgetter(0)):
            yield ns, c if splits == 1 else self.parted(p, _with(c, (("splits", splits),))), None
        for c, why in refusals:
            if why is not None:
                yield inf, c, why


def _refusal(p: GemmProblem, config: Any, chip: Arch) -> LayoutAlgError | None:
    try:
        check_config(p, config, chip)
    except LayoutAlgError as error:
        return error
    return None


def _fit_simt(p: GemmProblem, c: SimtConfig, chip: Arch) -> SimtConfig:
    most = 16 // p.operand.nbytes
    a, b, across = (gcd(most, x) for x in widest_vectors(p))
    c = replace(c, a_vector=a, b_vector=b, run_m=min(c.run_m, most), edges=True, result_vec=across)
    if most == 2:
        c = replace(c, tile_n=c.tile_n // 2, thread_n=c.thread_n // 2)
    if chip.compute_capability < (8, 0):
        c = replace(c, via="registers", stages=2)
    return c


M = TypeVar("M", Sm80Config, Sm75Config)


def _fit_sm80(p: GemmProblem, c: M, chip: Arch) -> M:
    size = p.operand.nbytes
    tile_k = c.tile_k if p.element == "f64" else c.tile_k * 2 // size
    a, b, across = widest_vectors(p)
    major, minor = chip.compute_capability
    rows = {m.rows for m in mmas_of(p) if m.sm <= 10 * major + minor}  # those that the architecture has
    if c.mma_m not in rows and 8 in rows:
        c = replace(c, mma_m=8)
    if p.element == "f64" and c.mma_k == 0:
        # of a deeper one than 8 fragments take the registers
        c = replace(c, mma_k=min(8, max(m.k for m in mmas_of(p) if m.rows == c.mma_m)))
    changes = (
        ("tile_k", tile_k), ("a_bytes", gcd(16, a * size)), ("b_bytes", gcd(16, b * size)),
        ("result_vec", gcd(across, 16 // p.result.nbytes)), ("static_ld", c.via == "cp.async"),
        ("edges", bool(p.m % c.tile_m or p.n % c.tile_n or p.k % tile_k)),
    )  # fmt: skip
    fitted: M = _with(c, changes)
    return fitted


@lru_cache(maxsize=32)
def _leaving(p: GemmProblem, crossed: bool) -> tuple[tuple[str, Any], ...]:
    """The fields of a configuration that a problem decides, the same for every tile: the k of a step, and how
    results leave the registers."""
    most = 16 // p.result.nbytes
    across = gcd(widest_vectors(p)[2], most)
    rows = gcd(p.ldd, p.n, *p.steps("d"), *((p.ldc, *p.steps("c")) if p.reads_c else ()))
    boxed = not (rows % most or p.align_bytes[2] % 16) and (leaves_crossed(p) or not crossed)
    boxed = boxed and not vectors_of_integers(p)
    if p.reads_c:
        boxed = boxed and not (p.grouped or p.promoted) and all(p.steps("c"))
    if p.grouped:  # boxes of groups that are shorter than one leave by threads anyway
        boxed = boxed and p.rows >= BOX_ROWS
    return (
        ("through", "tma" if boxed else "shared"), ("result_vec", most if boxed else across),
        ("tile_k", STEP_BYTES // p.operand.nbytes), ("crossed", crossed),
    )  # fmt: skip


def _sm90_tiles(p: GemmProblem) -> tuple[Sm90Config, ...]:
    """Tiles of the product, and of the transposed one where its results leave in boxes or vectors.

    Element by element such a tile stores slowly: 3477 x 4581 x 957 took 97 us where 60 were expected.
    """
    alone = is_one_way(p) or ("result_vec", 1) in _leaving(p, True)
    return SM90_TILES if alone else (*SM90_TILES, *SM90_CROSSED_TILES)


SIMT: Choice[SimtConfig] = Choice(
    "gemm-simt",
    SIMT_TILES,
    partial(tile_clock, "gemm-simt"),
    _fit_simt,
    ("a_vector", "b_vector", "result_vec"),
)
SM80: Choice[Sm80Config] = Choice(
    "gemm-sm80",
    SM80_TILES,
    partial(tile_clock, "gemm-sm80"),
    _fit_sm80,
    ("a_bytes", "b_bytes", "result_vec"),
    offered=lambda p: {"f64": SM80_F64_TILES}.get(
        p.element, SM80_PROMOTED_TILES if p.promoted else SM80_TILES
    ),
)
SM75: Choice[Sm75Config] = Choice(
    "gemm-sm75",
    SM75_TILES,
    partial(tile_clock, "gemm-sm75"),
    _fit_sm80,
    ("a_bytes", "b_bytes", "result_vec"),
)
SM90: Choice[Sm90Config] = Choice(
    "gemm-sm90",
    SM90_TILES,
    lambda p, chip: sm90_clock(p, machine_of(chip)),
    lambda p, c, chip: _with(c, _leaving(p, c.crossed or crosses(p))),
    ("through", "result_vec", "tile_k", "crossed"),
    offered=_sm90_tiles,
    parted=lambda p, c: replace(c, through="shared", result_vec=gcd(4, p.n), pingpong=False),
)
GEMV: Choice[GemvConfig] = Choice(
    "gemv",
    (),
    lambda p, chip: lambda c, splits: gemv.expected_ns(p, c, chip),
    lambda p, c, chip: c if chip.compute_capability >= (8, 0) else _with(c, (("mma", False),)),
    (),
    offered=gemv.offered,
)
"""The families: without tensor cores, with mma.sync, with mma.sync before cp.async, with wgmma,
and of few rows."""


CHOICES: Mapping[type, Choice[Any]] = {SimtConfig: SIMT, Sm75Config: SM75, Sm80Config: SM80, Sm90Config: SM90}
"""The choice that a configuration is one of, by its type."""


def expected_family(
    p: GemmProblem, arch: str | Arch = DEFAULT_ARCH
) -> tuple[float, str, Config | GemvConfig | None]:
    """The family that is expected to be fastest, behind the nanoseconds, with its configuration.

    Where no family fits a product there is no configuration: infinity, and the family whose refusals say why.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> ns, family, config = expected_family(gemm_problem(4096, 4096, 4096, "bf16"))
    >>> round(ns / 1000), family, str(config)
    (173, 'gemm-sm90', '256x176x64, 3 stages')
    >>> [expected_family(gemm_problem(m, 4096, 4097))[1] for m in (1, 4096)]
    ['gemv', 'gemm-sm80']
    >>> expected_family(gemm_problem(4096, 4096, 4096), "sm_75")[1]
    'gemm-sm75'
    """
    chip = find_arch(arch)
    choices: list[Choice[Any]] = [SM80, SM90]
    if p.grouped:
        choices = [SM90]
    elif p.operand.name == "f32":
        choices = [SIMT]
    elif p.operand.name == "f64":
        choices = [SIMT] if chip.compute_capability < (8, 0) else [SIMT, SM80]
    elif p.element in BYTE_FLOATS and next(SM90.timed(p, chip))[2] is None:
        choices = [SM90]  # mma.sync makes f16 of them there
    elif chip.compute_capability < (8, 0):
        choices = [SM75]
    if p.m <= MMA_ROWS and not p.grouped:
        choices.append(GEMV)
    found: list[tuple[float, str, Config | GemvConfig | None]] = []
    for choice in choices:
        ns, config, why = next(choice.timed(p, chip), (inf, None, None))
        found.append((ns, choice.family, None if why else config))
    return min(found, key=lambda x: x[0])


def suggest_config(p: GemmProblem, c: Config, arch: str | Arch = DEFAULT_ARCH) -> Config | None:
    """The nearest configuration to a refused one that works; None where the family has none for the problem.

    The search is around c, and around c with the vectors that the problem allows.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> p, c = gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8)
    >>> difference(c, suggest_config(p, c))
    {'stages': 4}
    """
    choice = CHOICES[type(c)]
    chip = find_arch(arch)

    def works(x: Any) -> bool:
        return _refusal(p, x, chip) is None

    try:
        offered = choice.configs(p, chip)
    except LayoutAlgError:
        return None
    given: dict[str, Any] = {x: getattr(offered[0], x) for x in choice.fields}
    if "edges" in {f.name for f in fields(c)}:
        given["edges"] = True  # any size is computed
    fitted: Any = replace(c, **given)
    near = [nearest(c, offered, works), fitted if works(fitted) else nearest(fitted, offered, works)]
    return min((x for x in near if x is not None), key=lambda x: distance(c, x), default=None)


def check_or_suggest(p: GemmProblem, c: Config, arch: str | Arch = DEFAULT_ARCH) -> None:
    """Raise what `check_config` raises, the nearest configuration that works named.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> check_or_suggest(gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8))
    Traceback (most recent call last):
    layoutalg.errors.ResourceError: shared memory bytes of 128x256x64, 8 stages: 393216 asked, the limit is
    232448; 4 stages fit; with stages=4 it works
    """
    try:
        check_config(p, c, arch)
    except LayoutAlgError as error:
        found = suggest_config(p, c, arch)
        if found is None:
            hint = f"no configuration of its family works for {p} on {find_arch(arch).name}"
        else:
            hint = f"with {', '.join(f'{k}={v!r}' for k, v in difference(c, found).items())} it works"
        error.message = f"{error}; {hint}"
        error.args = (error.message,)
        raise
