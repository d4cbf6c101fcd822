"""The configurations to try for a product, best first, with the time that each is expected to take.

The idea.  A few tiles cover the trade between reuse and the number of blocks.  Every block of a product does
the same: so many tiles of k, then its results.  A multiprocessor that holds R blocks at most computes its
share in rounds of R, and the rest of them at the end:

    time = rounds * (tiles of k * step[R] + block[R]) + tiles of k * step[rest] + block[rest]

step[r] is the time of r blocks together for a tile of k, block[r] their time beside that: filling the ring,
writing results.  Parts of k (see parts) are more blocks with fewer tiles; writing their sums, reading
them again and launching the kernel that adds them up come on top.

Stream-K (see there) has W whole waves of R blocks per multiprocessor, and then each block its share of steps:

    time = W * (tiles of k * step[R] + block[R]) + share * step[R] + u * block[R] + launch + bytes * byte

u is 1 or 2, the tiles that a block has a part of; launch and byte are those of parts of k.

    SIMT.configs(p), SM80.configs(p)      the configurations that fit, the one expected to be fastest first
    SM80.fitted(p, config)                a tile with vectors and edges as a problem needs them

Refusals.  Rules are checked one after the other, so that what mends the first may break the next; the
configuration that a refusal names fulfils all:

    tile_n = 80 is not a multiple of 64, fragments of its warps; the nearest is 64; with tile_n=64 it works

Notes.  step and block are data, fitted to the times of every choice on 24 published problems on an H200; the
measurements are in the tests, which hold the selectors to them.  Other element types are taken to be in
proportion: a tile of k has the same bytes there, or the same multiply-adds.  Tiles of wgmma have no such data
but one law for all of them, times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import gcd, inf, prod
from operator import itemgetter
from typing import Any, Generic, TypeAlias, TypeVar

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import gemv
from layoutalg.kernels.gemm.gemv import MOST_ROWS, GemvConfig
from layoutalg.kernels.gemm.groups import BOX_ROWS
from layoutalg.kernels.gemm.parts import part_count, share_of
from layoutalg.kernels.gemm.problem import GemmProblem, mmas_of, widest_vectors
from layoutalg.kernels.gemm.tiles import (
    Config,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    tile_count,
)
from layoutalg.kernels.gemm.times import (
    SIMT_SUMS,
    SIMT_TILES,
    SM75_SUMS,
    SM75_TILES,
    SM80_F64_TILES,
    SM80_SUMS,
    SM80_TILES,
    SM90_TILES,
    C,
    Sums,
    Tile,
    sm90_clock,
)
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.identity import difference, distance, nearest
from layoutalg.kernels.model import machine_of

OFFERED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""The numbers of parts that are tried."""

LEAST_K = 128
"""The elements of k that a part has at least: two tiles of 64."""

MOST_ROUNDS = 12
"""The most blocks of parts that a multiprocessor computes: past that, tiles fill it without splitting."""

STREAMK_GAIN = 0.03
"""The least share of the expected time that stream-K has to save to be offered."""

COLD_NS = 2500
"""Nanoseconds that a cold L2 adds to tiles whose times are those of a warm one."""

COLD_SHARE = 0.27
"""The share of what memory takes for all operands, at its rate, that a cold L2 adds beside.
Both were chosen on 33 products by gemm-sm80 (an H200, 2026-11-23): 28 took 0.96 to 1.12 of the time expected
with them, three with rows at odd multiples of 16 bytes 1.15 to 1.18, one of 16 rows 1.5, one of 32 rows 2.2.
"""

FEW = 1.4
"""The factor of what is expected of such tiles for the few rows that gemv takes: 1.4 to 1.5 with weights of
470 MB (an H200, 2026-11-30)."""


def offered_splits(p: GemmProblem, c: Config | GemvConfig, sms: int) -> tuple[int, ...]:
    """Numbers of parts worth trying for a problem in tiles of a configuration, on `sms` multiprocessors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> offered_splits(gemm_problem(256, 256, 1024), Sm80Config(128, 128, 64, 2, 2, 3), 132)
    (1, 2, 3, 4, 6, 8)
    """
    if p.accumulator.name == "f16" or p.batch or isinstance(c, GemvConfig):
        return (1,)
    if isinstance(c, Sm90Config) and (c.cluster > 1 or c.pingpong):
        return (1,)
    tiles = tile_count(p, c)
    return tuple(s for s in OFFERED if s == 1 or (s * LEAST_K <= p.k and s * tiles <= MOST_ROUNDS * sms))


def expected_ns(
    p: GemmProblem, c: Config, tile: Tile[Any], sums: Sums, sms: int, splits: int | None = None
) -> float:
    """Nanoseconds that the model of the module's text expects of `tile` as the configuration `c` has it, with
    so many parts of k, its own where none are given.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = Sm80Config(128, 128, 64, 2, 2, 3)
    >>> p, tile = gemm_problem(256, 256, 1024), Tile(c, (100.0, 150.0), (1000.0, 1200.0))
    >>> expected_ns(p, c, tile, Sums(2000.0, 0.001), 132)
    2600.0
    """
    if c.schedule == "streamk":
        return _streamk_ns(p, c, tile, sums, sms)
    splits = splits or c.splits
    blocks, tiles = tile_count(p, c) * splits, -(-p.k // c.tile_k)
    steps = -(-tiles // splits)
    rounds, rest = divmod(-(-blocks // sms), len(tile.step))
    ns = rounds * (steps * tile.step[-1] + tile.block[-1])
    if rest:
        ns += steps * tile.step[rest - 1] + tile.block[rest - 1]
    if _is_narrow(p, c):
        ns *= tile.narrow
    if splits > 1:
        ns += sums.launch + splits * p.m * p.n * p.accumulator.nbytes * sums.byte
    return ns


Clock: TypeAlias = Callable[[GemmProblem, Arch], Callable[[Any, Tile[Any], int], float]]
"""The nanoseconds that a problem takes on an architecture in a tile, as a configuration has it, in so many
parts of k."""


def clock_by(sums: Sums) -> Clock:
    """`expected_ns` in the form that a `Choice` takes.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = Sm80Config(128, 128, 64, 2, 2, 3)
    >>> clock = clock_by(Sums(0, 0))(gemm_problem(256, 256, 1024), find_arch("sm_90"))
    >>> clock(c, Tile(c, (100.0, 150.0), (1000.0, 1200.0)), 1)
    2600.0
    """
    return lambda p, chip: lambda c, tile, splits: expected_ns(p, c, tile, sums, machine_of(chip).sms, splits)


def _sm90_clock(p: GemmProblem, chip: Arch) -> Callable[[Sm90Config, Tile[Sm90Config], int], float]:
    """The law of wgmma, which has no numbers of single tiles."""
    clock = sm90_clock(p, machine_of(chip).sms)
    return lambda c, tile, splits: clock(c, splits)


def _streamk_ns(p: GemmProblem, c: Config, tile: Tile[Any], sums: Sums, sms: int) -> float:
    """Whole waves; each block's share, which fills the ring and is written once or twice; the sums."""
    tiles, steps, blocks = tile_count(p, c), -(-p.k // c.tile_k), sms * c.min_blocks
    waves, share = tiles // blocks, share_of(tiles, steps, blocks)
    step, block = tile.step[c.min_blocks - 1], tile.block[c.min_blocks - 1]
    ns = waves * (steps * step + block)
    if share:
        ns += share * step + block * (1 if steps % share == 0 else 2)
    if _is_narrow(p, c):
        ns *= tile.narrow
    if parts := part_count(tiles, steps, blocks):
        ns += sums.launch + parts * c.tile_m * c.tile_n * p.accumulator.nbytes * sums.byte
    return ns


def _is_narrow(p: GemmProblem, c: Config) -> bool:
    if isinstance(c, SimtConfig):
        return min(c.a_vector, c.b_vector) == 1
    return isinstance(c, Sm80Config) and min(c.a_bytes, c.b_bytes) < 2 * p.operand.nbytes


@lru_cache(maxsize=1 << 12)
def _with(c: Any, changes: tuple[tuple[str, Any], ...]) -> Any:
    """`replace`, which costs more than all else that is asked of a tile: few configurations come of many
    problems."""
    return replace(c, **dict(changes))


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Generic[C]):
    """The tiles of a family; `fit` gives one the vectors, elements and edges that a problem needs.

    `fields` are those that depend on the problem alone; `parted` makes a configuration one for
    parts of k, and `shared` one by stream-K, of families that have it.  `offered` are the tiles of problems
    that have others than `tiles`.  The clock of a family that starts `warm` does not have what memory takes.
    """

    family: str
    tiles: tuple[Tile[C], ...]
    clock: Clock
    fit: Callable[[GemmProblem, C, Arch], C]
    fields: tuple[str, ...]
    parted: Callable[[GemmProblem, C], C] = lambda p, c: c
    shared: Callable[[C], C] | None = None
    offered: Callable[[GemmProblem], Iterable[Tile[C]]] | None = None
    warm: bool = True

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
        their refusals.

        Rules are checked as tiles come out, so that who takes the first pays for few.
        """
        chip: Arch = find_arch(arch)
        refusals: dict[int, LayoutAlgError | None] = {}  # by identity, since hashing takes longer

        def refusal(config: C) -> LayoutAlgError | None:
            if id(config) not in refusals:  # tiles come once per number of parts
                refusals[id(config)] = _refusal(p, config, chip)
            return refusals[id(config)]

        usual = list(_usual(self, p, chip))
        ranked: list[Expected] = sorted(usual, key=_EXPECTED)
        first: float = next((ns for ns, config, _ in ranked if refusal(config) is None), 0.0)
        ranked = sorted([*_by_streamk(self, p, chip, first), *ranked], key=_EXPECTED)
        for ns, config, splits in ranked:
            if refusal(config) is None:
                yield ns, self._parted(p, config, splits), None
        for config in dict.fromkeys(config for _, config, _ in usual):
            if (why := refusal(config)) is not None:
                yield inf, config, why

    def _parted(self, p: GemmProblem, config: C, splits: int) -> C:
        return config if splits == 1 else self.parted(p, _with(config, (("splits", splits),)))


Expected: TypeAlias = "tuple[float, Any, int]"
"""Nanoseconds, a tile as the problem needs it, parts of k."""

_EXPECTED = itemgetter(0)


@lru_cache(maxsize=16)
def _fitted(choice: Choice[Any], p: GemmProblem, chip: Arch) -> tuple[tuple[Tile[Any], Any], ...]:
    tiles = choice.offered(p) if choice.offered else choice.tiles
    return tuple((tile, choice.fit(p, tile.config, chip)) for tile in tiles)


def _usual(choice: Choice[Any], p: GemmProblem, chip: Arch) -> Iterator[Expected]:
    """Every tile, with every number of parts worth trying, whether or not it fits."""
    clock = choice.clock(p, chip)
    for tile, config in _fitted(choice, p, chip):
        for splits in offered_splits(p, config, machine_of(chip).sms):
            yield clock(config, tile, splits), config, splits


def _by_streamk(choice: Choice[Any], p: GemmProblem, chip: Arch, usual: float) -> Iterator[Expected]:
    """The tiles by stream-K that are expected to save STREAMK_GAIN of the `usual` nanoseconds, of products
    that have a tile for every multiprocessor: of others parts of k were faster than what is expected here."""
    if choice.shared is None or chip.board is None or p.batch:
        return
    clock = choice.clock(p, chip)
    for tile, fitted in _fitted(choice, p, chip):
        if tile_count(p, fitted) < chip.board.sms:
            continue
        config = choice.shared(fitted)
        ns = clock(config, tile, 1)
        if ns * (1 + STREAMK_GAIN) <= usual:
            yield ns, config, 1


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
        c = replace(c, mma_k=min(m.k for m in mmas_of(p)))  # of a deeper one fragments take the registers
    changes = (
        ("tile_k", tile_k), ("a_bytes", gcd(16, a * size)), ("b_bytes", gcd(16, b * size)),
        ("result_vec", gcd(across, 16 // p.result.nbytes)), ("static_ld", c.via == "cp.async"),
        ("edges", bool(p.m % c.tile_m or p.n % c.tile_n or p.k % tile_k)),
    )  # fmt: skip
    fitted: M = _with(c, changes)
    return fitted


def _fit_sm90(p: GemmProblem, c: Sm90Config, chip: Arch) -> Sm90Config:
    """Boxes by TMA where D can be stored so and no matrix is added, else rows, as wide as they can be."""
    fitted: Sm90Config = _with(c, _leaving(p))
    return fitted


@lru_cache(maxsize=16)
def _leaving(p: GemmProblem) -> tuple[tuple[str, Any], ...]:
    """The fields of a configuration that say how results leave the registers; the same for every tile."""
    most = 16 // p.result.nbytes
    across = gcd(widest_vectors(p)[2], most)
    rows = gcd(p.ldd, p.n, *p.steps("d"))
    boxed = not (rows % most or p.align_bytes[2] % 16 or p.reads_c)
    if p.grouped:  # boxes of groups that are shorter than one leave by threads anyway
        boxed = boxed and p.rows >= BOX_ROWS
    return ("through", "tma" if boxed else "shared"), ("result_vec", most if boxed else across)


SIMT: Choice[SimtConfig] = Choice(
    "gemm-simt", SIMT_TILES, clock_by(SIMT_SUMS), _fit_simt, ("a_vector", "b_vector", "result_vec")
)
SM80: Choice[Sm80Config] = Choice(
    "gemm-sm80",
    SM80_TILES,
    clock_by(SM80_SUMS),
    _fit_sm80,
    ("a_bytes", "b_bytes", "result_vec"),
    offered=lambda p: SM80_F64_TILES if p.element == "f64" else SM80_TILES,
    shared=lambda c: _with(c, (("schedule", "streamk"),)),
)
SM75: Choice[Sm75Config] = Choice(
    "gemm-sm75", SM75_TILES, clock_by(SM75_SUMS), _fit_sm80, ("a_bytes", "b_bytes", "result_vec")
)
SM90: Choice[Sm90Config] = Choice(
    "gemm-sm90",
    SM90_TILES,
    _sm90_clock,
    _fit_sm90,
    ("through", "result_vec"),
    parted=lambda p, c: replace(c, through="shared", result_vec=gcd(4, p.n), pingpong=False),
    shared=lambda c: _with(c, (("schedule", "streamk"),)),
    warm=False,
)
GEMV: Choice[GemvConfig] = Choice(
    "gemv",
    (),
    lambda p, chip: lambda c, tile, splits: gemv.expected_ns(p, c, chip),
    lambda p, c, chip: c if chip.compute_capability >= (8, 0) else _with(c, (("mma", False),)),
    (),
    offered=lambda p: map(Tile, gemv.offered(p)),
    warm=False,
)
"""The families: without tensor cores, with mma.sync, with mma.sync before cp.async, with wgmma,
and of few rows."""


CHOICES: Mapping[type, Choice[Any]] = {SimtConfig: SIMT, Sm75Config: SM75, Sm80Config: SM80, Sm90Config: SM90}
"""The choice that a configuration is one of, by its type."""


def expected_family(
    p: GemmProblem, arch: str | Arch = DEFAULT_ARCH
) -> tuple[float, str, Config | GemvConfig | None]:
    """The family that is expected to be fastest, behind the nanoseconds, with its configuration.

    Tiles other than those of gemm-sm90 are timed on a warm L2: what memory takes is added.
    Where no family fits a product there is no configuration: infinity, and the family whose refusals say why.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> ns, family, config = expected_family(gemm_problem(4096, 4096, 4096, "bf16"))
    >>> round(ns / 1000), family, str(config)
    (175, 'gemm-sm90', '256x128x64, 4 stages, clusters of 1x2x1')
    >>> [expected_family(gemm_problem(m, 4096, 4097))[1] for m in (1, 4096)]
    ['gemv', 'gemm-sm80']
    >>> expected_family(gemm_problem(4096, 4096, 4096), "sm_75")[1]
    'gemm-sm75'
    """
    chip = find_arch(arch)
    choices: list[Choice[Any]] = [SM80, SM90]
    if p.grouped:
        choices = [SM90]
    elif p.operand.name in ("f32", "f64"):
        choices = [SIMT]
    elif chip.compute_capability < (8, 0):
        choices = [SM75]
    if p.m <= MOST_ROWS and not p.grouped:
        choices.append(GEMV)
    found: list[tuple[float, str, Config | GemvConfig | None]] = []
    for choice in choices:
        ns, config, why = next(choice.timed(p, chip), (inf, None, None))
        ns += choice.warm * cold_ns(p, chip)
        ns *= FEW if choice.warm and p.m <= MOST_ROWS else 1
        found.append((ns, choice.family, None if why else config))
    return min(found, key=lambda x: x[0])


def cold_ns(p: GemmProblem, chip: Arch) -> float:
    """Return the nanoseconds that a cold L2 adds to a product whose tiles are loaded through L1.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> round(cold_ns(gemm_problem(128, 7168, 16384), find_arch("sm_90")) / 1000)
    17
    """
    each = (p.m * p.k, p.steps("a")), (p.n * p.k, p.steps("b")), (p.m * p.n, p.steps("d"))
    nbytes = 0
    for (elems, steps), size in zip(each, (p.operand.nbytes, p.operand.nbytes, p.result.nbytes), strict=True):
        nbytes += elems * size * prod(mode.extent for mode, step in zip(p.batch, steps, strict=True) if step)
    return COLD_NS + 1e3 * COLD_SHARE * nbytes / machine_of(chip).bytes_per_us


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
