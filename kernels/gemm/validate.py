"""The rules that a configuration of a product must fulfil, for both families.

`check_config` refuses before anything is compiled: each refusal names the rule and the nearest value that
fulfils it.  The instructions and the division of tiles are specific to a family; vectors, edges, shared
memory and registers are checked in one way for both.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from math import gcd

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import GRID_LIMITS
from layoutalg.codegen.instr import MMAS
from layoutalg.codegen.program import PORTABLE_CLUSTER
from layoutalg.errors import AlignmentError, DivisibilityError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.gemm import gemv
from layoutalg.kernels.gemm.epilogue import AddVector
from layoutalg.kernels.gemm.gemv import GemvConfig
from layoutalg.kernels.gemm.groups import MOST_TOGETHER
from layoutalg.kernels.gemm.problem import (
    BYTE_FLOATS,
    MOST_SPLITS,
    PROMOTED_K,
    GemmProblem,
    Major,
    fragment_k,
    mma_of,
    mmas_of,
    stored_problem,
)
from layoutalg.kernels.gemm.tiles import (
    ROLE_REGISTERS,
    SIDES,
    STEP_BYTES,
    Config,
    SimtConfig,
    Sm75Config,
    Sm80Config,
    Sm90Config,
    operand_tile,
    tile_count,
    vectors,
)
from layoutalg.kernels.identity import check_fields

ADDRESS_REGISTERS = 8
"""Registers of a thread with the places of A's elements in shared memory, where they go through registers:
without them ptxas 13.0 serializes wgmma of the widest tiles, as of 128x176 in turns."""

FREE_REGISTERS = 24
"""The registers of a thread for addresses and counters beside sums, fragments and copies."""

FRAGMENT_REGISTERS = 16
"""The registers that addresses of ldmatrix take beside."""

MOST_EXTENT = 1 << 20
"""The most rows, columns and k of gemm-sm90, whose coordinates have 32 bits."""

MOST_MODES = 3
"""The most modes of a batch of gemm-sm90: those of a tensor map beside rows and columns."""

MOST_CALLING = 1024
"""The most sums of a warp whose mma is a call: more would be spilled around it (as NVRTC 13 compiles it)."""


def check_config(p: GemmProblem, c: Config | GemvConfig, arch: str | Arch = DEFAULT_ARCH) -> None:
    """Raise for the first rule that a configuration breaks for a problem.

    Raises what `check_fields` raises, UnsupportedError (element types, an mma or a copy that the architecture
    lacks, ways that do not go together), DivisibilityError (tiles that warps, fragments, runs or vectors do
    not divide), AlignmentError (leading dimensions and extents that cut vectors), ShapeError (edges without
    `edges`) or ResourceError (threads, shared memory, registers).

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_config(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    >>> check_config(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4))
    """
    chip = find_arch(arch)
    if p.grouped and c.via != "tma":
        raise UnsupportedError(f"{p}: groups of rows are computed by gemm-sm90, or by a launch for each")
    if isinstance(c, GemvConfig):
        gemv.check(p, c)
        if c.mma and chip.compute_capability < (8, 0):
            raise UnsupportedError(f"mma of gemv needs sm_80; {chip.name} is older: take mma=False")
        return
    check_fields(c)
    check_splits(p, c.splits)
    if isinstance(c, Sm90Config):
        _sm90(p, c, chip)
        return
    if c.via == "cp.async":
        if chip.compute_capability < (8, 0):
            raise UnsupportedError(f"cp.async needs sm_80; {chip.name} does not have it: take 'registers'")
        if c.stages < 2:
            raise UnsupportedError("cp.async into one stage would overwrite what is read: take stages = 2")
    if isinstance(c, SimtConfig):
        _simt_tiles(p, c, chip)
    else:
        _sm80_widths(p, c)
        _sm80_instructions(p, c, chip)
        _sm80_tiles(p, c, chip)
    _copies(p, c)
    _alignment(stored_problem(p, c.splits) if isinstance(c, Sm80Config) else p, c)
    _resources(p, c, chip)


def check_splits(p: GemmProblem, splits: int) -> None:
    """Raise ShapeError for a number of parts there cannot be, UnsupportedError for sums none adds up.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_splits(gemm_problem(64, 64, 512), 8)
    """
    if not 1 <= splits <= MOST_SPLITS:
        raise ShapeError(f"splits = {splits}: 1 to {MOST_SPLITS} parts of k are accepted")
    if splits > 1 and p.accumulator.name == "f16":
        raise UnsupportedError("parts of f16 sums are not added up: f32, f64 and s32 are, or take splits = 1")
    if splits > 1 and p.batch:
        raise UnsupportedError("parts of k of a batch are not added up: take splits = 1")


def _multiple(name: str, value: int, part: int, what: str) -> None:
    if part < 1 or value < part or value % part:
        nearest = max(1, round(value / part)) * part if part > 0 else value
        raise DivisibilityError(
            f"{name} = {value} is not a multiple of {part}, {what}; the nearest is {nearest}"
        )


def _threads(threads: int, chip: Arch) -> None:
    if not 32 <= threads <= chip.max_threads_per_block:
        hint = "take a larger tile per thread or fewer warps"
        raise ResourceError("threads per block", threads, chip.max_threads_per_block, hint=hint)


def _simt_tiles(p: GemmProblem, c: SimtConfig, chip: Arch) -> None:
    if p.operand.name not in ("f32", "f64"):
        raise UnsupportedError(f"fused multiply-adds of {p.operand}: f32 and f64 are accepted")
    if c.lanes_m not in (1, 2, 4, 8, 16):
        raise DivisibilityError(f"lanes_m = {c.lanes_m} does not divide a warp; powers of two up to 16 do")
    size, (a, b) = p.operand.nbytes, (operand_tile(p, c, side) for side in SIDES)
    for name, tile, lanes, thread, run, what in (
        ("m", c.tile_m, c.lanes_m, c.thread_m, c.run_m, "run_m"),
        ("n", c.tile_n, c.lanes_n, c.thread_n, b.fragment, "a run of 16 bytes"),
    ):
        _multiple(f"thread_{name}", thread, run, what)
        _multiple(f"tile_{name}", tile, lanes * thread, f"{lanes} lanes of {thread}")
    _threads(c.threads, chip)
    _multiple("tile_k", c.tile_k, c.fragments, "a step of each fragment")
    _multiple("run_m", c.run_m, a.fragment, "a load of a fragment")
    _multiple("a run of n", 16 // size, c.result_vec, "result_vec")
    for name, elems in (
        ("a_vector", c.a_vector), ("b_vector", c.b_vector), ("result_vec", c.result_vec),
        ("a fragment of run_m", a.fragment),
    ):  # fmt: skip
        if elems * size not in (4, 8, 16):
            raise UnsupportedError(f"{name} = {elems} of {p.operand}: {16 // size} or less, powers of two")


def _sm80_widths(p: GemmProblem, c: Sm80Config) -> None:
    """Check the bytes that a copy moves, first since rows of odd lengths rule out most tiles."""
    widths = (4, 8, 16) if c.via == "cp.async" else (1, 2, 4, 8, 16)
    for name, nbytes in (("a_bytes", c.a_bytes), ("b_bytes", c.b_bytes)):
        if nbytes not in widths or nbytes < p.operand.nbytes:
            raise UnsupportedError(
                f"{name} = {nbytes} by {c.via}: {', '.join(map(str, widths))} are accepted"
            )


def _without_program(chip: Arch) -> UnsupportedError:
    """The refusal of a product on an architecture whose tensor cores no program uses, with what there is."""
    return UnsupportedError(
        f"{chip.name} multiplies by tcgen05.mma, which is analysed (layoutalg legal tcgen05, layoutalg draw "
        "SM100_MMA_F16BF16_SS<...>) and not generated: gemm-simt is generated for it; mma.sync, at a part of "
        f"the rate, by gemm-sm80 --arch sm_90 --compile {chip.name}"
    )


def _sm80_instructions(p: GemmProblem, c: Sm80Config, chip: Arch) -> None:
    if chip.name == "sm_70":
        raise UnsupportedError(
            "mma.sync of a whole warp needs sm_75; sm_70 does not have it: its mma.m8n8k4 is there in "
            "layoutalg.codegen, and gemm-simt for products"
        )
    if isinstance(c, Sm75Config) and p.operand.name != "f16":
        raise UnsupportedError(
            f"mma.sync of {p.operand} needs sm_80; sm_75 does not have it: gemm-sm75 multiplies f16"
        )
    if p.block_scales:
        raise UnsupportedError("factors of blocks are multiplied in by gemm-sm90 alone")
    all_rows = mmas_of(p)
    if not all_rows:
        known = ", ".join(sorted({f"{m.operand} into {m.accumulator}" for m in MMAS}))
        raise UnsupportedError(f"no mma.sync multiplies {p.element} into {p.accumulator}: there are {known}")
    rows = [m for m in all_rows if m.rows == c.mma_m]
    if not rows:
        raise UnsupportedError(f"mma_m = {c.mma_m} of {p.element}: {all_rows[0].rows} is accepted")
    if c.mma_k and c.mma_k not in (ks := [m.k for m in rows]):
        raise UnsupportedError(f"mma_k = {c.mma_k} of {p.element}: {' and '.join(map(str, ks))} are accepted")
    major, minor = chip.compute_capability
    mma = mma_of(p, c)
    if 10 * major + minor < mma.sm:
        instead = ": take gemm-sm75" if chip.name == "sm_75" and p.operand.name == "f16" else ""
        raise UnsupportedError(f"{mma.ptx} needs sm_{mma.sm}; {chip.name} does not have it{instead}")
    if major == 10:
        raise _without_program(chip)
    if mma.emulated_from and 10 * major + minor >= mma.emulated_from and c.warp_m * c.warp_n > MOST_CALLING:
        raise ResourceError(
            f"sums of a warp by {mma.ptx}, which {chip.name} has no tensor core for and calls a function,",
            c.warp_m * c.warp_n, MOST_CALLING, hint="take warps of 32 x 32",
        )  # fmt: skip
    if p.operand.nbytes < 2 and "mn" in (p.a_major, p.b_major):
        raise UnsupportedError(
            f"ldmatrix.trans turns 16-bit elements; {p.element} operands must both be stored along k"
        )
    if c.via == "registers" and c.stages not in (1, 2):
        raise ResourceError("stages through registers", c.stages, 2)


def _sm80_tiles(p: GemmProblem, c: Sm80Config, chip: Arch) -> None:
    size, step = p.operand.nbytes, fragment_k(p, c)
    _threads(c.threads, chip)
    for name, tile, part in (
        ("tile_m", c.tile_m, 16 * c.warps_m), ("tile_n", c.tile_n, 16 * c.warps_n),
        ("tile_k", c.tile_k, step),
    ):  # fmt: skip
        rows = name != "tile_k"
        _multiple(name, tile, part, "fragments of its warps" if rows else f"fragments of {step * size} bytes")
        if tile & (tile - 1):
            nearest = 1 << tile.bit_length() - 1
            raise DivisibilityError(
                f"{name} = {tile} is not a power of two, which the swizzle needs; the nearest is {nearest}"
            )
    if c.via == "cp.async" and c.fragments == 2 and c.tile_k < 2 * step:
        raise UnsupportedError(
            f"fragments = 2 with tile_k = {c.tile_k} of {p.operand}: fragments are loaded a step ahead, so a "
            f"tile needs two steps of {step * size} bytes; take tile_k = {2 * step}"
        )
    if c.warp_n % c.result_vec or c.result_vec not in (1, 2, 4, 8):
        raise DivisibilityError(f"result_vec = {c.result_vec} does not divide {c.warp_n} columns of a warp")
    if c.result_vec * p.result.nbytes > 16:
        raise UnsupportedError(f"result_vec = {c.result_vec} of {p.result}: 16 bytes per lane are the most")


def _clusters(p: GemmProblem, c: Sm90Config) -> None:
    """Clusters of up to 4 blocks along one side of D; each block loads whole boxes of the shared operand."""
    first, second = majors(p, c)
    for name, blocks, major, tile in (
        ("cluster_m", c.cluster_m, second, c.tile_n), ("cluster_n", c.cluster_n, first, c.tile_m)
    ):  # fmt: skip
        if blocks not in (1, 2, 4):
            raise UnsupportedError(f"{name} = {blocks}: clusters of 1, 2 and 4 blocks are accepted")
        least = 8 if major == "k" else c.tile_k
        if tile % (blocks * least):
            _multiple(f"the tile that {name} = {blocks} shares", tile, blocks * least, "boxes of each block")
    if c.cluster not in (c.cluster_m, c.cluster_n, c.cluster_k):
        raise UnsupportedError(
            f"clusters of {c.cluster_m}x{c.cluster_n}x{c.cluster_k}: two of the three are 1"
        )
    if not 1 <= c.cluster_k <= PORTABLE_CLUSTER:
        raise UnsupportedError(f"cluster_k = {c.cluster_k}: 1 to {PORTABLE_CLUSTER} blocks share a tile")
    if c.cluster_k > 1 and p.batch:
        raise UnsupportedError(f"cluster_k = {c.cluster_k} of a batch: take cluster_k = 1")
    if c.cluster_k > 1:
        _multiple("tile_n", c.tile_n, 16 * c.cluster_k, "16 columns of each block of cluster_k")
        if c.splits > 1 or c.pingpong:
            raise UnsupportedError(
                "cluster_k with parts of k or ping-pong: take splits = 1, pingpong = False"
            )
        if (most := tile_count(p, c) * c.cluster_k) > GRID_LIMITS[0]:
            asked = f"blocks of {c}, which compute one tile each,"
            raise ResourceError(asked, most, GRID_LIMITS[0], hint="take cluster_k = 1")
    if c.pingpong and (c.consumers != 2 or c.splits > 1):
        raise UnsupportedError(
            f"ping-pong of {c.consumers} consumers, {c.splits} parts: take consumers = 2, splits = 1"
        )


def crosses(p: GemmProblem) -> bool:
    """Whether gemm-sm90 computes the transposed product: wgmma takes only its A, which is B, from registers.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> crosses(gemm_problem(256, 256, 64, "tf32", b_major="mn"))
    True
    """
    return p.by_registers and p.b_major == "mn"


def is_one_way(p: GemmProblem) -> bool:
    """Whether a problem says if its tiles are of the transposed product: groups, factors of blocks, and
    operands that go through registers.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> [is_one_way(gemm_problem(256, 256, 64, x, b_major="mn")) for x in ("tf32", "bf16")]
    [True, False]
    """
    return p.by_registers or p.grouped or bool(p.block_scales)


def leaves_crossed(p: GemmProblem) -> bool:
    """Whether tiles of the transposed product leave by TMA: stmatrix turns 16 bits, and pairs of a bias are
    read at even places.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> leaves_crossed(gemm_problem(256, 256, 64)), leaves_crossed(gemm_problem(256, 256, 64, bias="m"))
    (True, False)
    """
    along_m = any(isinstance(step, AddVector) and step.along == "m" for step in p.epilogue.steps)
    return p.result.nbytes == 2 and not along_m


def majors(p: GemmProblem, c: Config) -> tuple[Major, Major]:
    """The orders of the operands of which tiles have tile_m and tile_n rows."""
    return (p.b_major, p.a_major) if c.crossed else (p.a_major, p.b_major)


def check_sm90_problem(p: GemmProblem, chip: Arch) -> None:
    """Raise for the first rule of gemm-sm90 that a problem breaks with every configuration.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_sm90_problem(gemm_problem(256, 256, 64), find_arch("sm_90"))
    """
    if chip.compute_capability != (9, 0):
        if chip.compute_capability[0] == 10:
            raise _without_program(chip)
        raise UnsupportedError(f"wgmma needs sm_90; {chip.name} does not have it: take gemm-sm80")
    narrow = p.operand.name in (*BYTE_FLOATS, "s8")
    if not narrow and (p.operand.name not in ("f16", "bf16", "tf32") or p.accumulator.name != "f32"):
        other = "gemm-simt" if p.operand.name == "f32" else "gemm-sm80"
        near = "; of f16 the nearest is a sum in f32" if p.operand.name == "f16" else ""
        raise UnsupportedError(
            f"gemm-sm90 multiplies f16, bf16, tf32, 8-bit floats and s8 into 32 bits, not {p.operand} into "
            f"{p.accumulator}: take {other}{near}"
        )
    if p.operand.name == "tf32" and p.a_major == p.b_major == "mn":
        raise UnsupportedError(f"wgmma turns 16-bit elements alone: store A or B of {p.operand} along k")
    if narrow and "mn" in (p.a_major, p.b_major):
        raise UnsupportedError(
            f"wgmma turns 16-bit elements alone; {p.element} operands must both be stored along k"
        )
    if p.block_scales and p.batch:
        raise UnsupportedError("factors of blocks of several products: launch for each of them")
    if p.grouped and p.products > MOST_TOGETHER:
        raise ResourceError("groups of a launch", p.products, MOST_TOGETHER, hint="launch for parts of them")
    if len(p.batch) > MOST_MODES:
        raise UnsupportedError(
            f"a batch of {len(p.batch)} modes: tensor maps have room for {MOST_MODES}; take gemm-sm80, or "
            f"launch for each place along {len(p.batch) - MOST_MODES} of them"
        )
    for name, extent in (("m", p.m), ("n", p.n), ("k", p.k)):
        if extent > MOST_EXTENT:
            raise ResourceError(f"{name} of gemm-sm90", extent, MOST_EXTENT, hint="take gemm-sm80")
    for name, lead, start in (("a", p.lda, p.align_bytes[0]), ("b", p.ldb, p.align_bytes[1])):
        _rows_for_tma(name, lead, start, p.operand.nbytes, p.steps(name))


def _sm90(p: GemmProblem, c: Sm90Config, chip: Arch) -> None:
    """TMA and wgmma of 16-bit elements, and what fits a multiprocessor."""
    check_sm90_problem(p, chip)
    if c.consumers not in ROLE_REGISTERS:
        raise UnsupportedError(f"consumers = {c.consumers}: 1, 2 and 3 warpgroups multiply")
    if c.tile_k * p.operand.nbytes != STEP_BYTES:
        near = STEP_BYTES // p.operand.nbytes
        raise UnsupportedError(f"tile_k = {c.tile_k} of {p.operand}: rows of {STEP_BYTES} bytes are {near}")
    if is_one_way(p) and c.crossed != crosses(p):
        raise UnsupportedError(
            f"crossed = {c.crossed}: groups and factors of blocks are of rows, and of tf32 an operand along "
            f"m or n comes first; take crossed = {crosses(p)}"
        )
    if c.crossed and c.through == "tma" and not leaves_crossed(p):
        raise UnsupportedError(
            "crossed by 'tma', of results of 32 bits or with a bias along m: take 'shared'"
        )
    _multiple("tile_m", c.tile_m, 64 * c.readers, "64 rows of each consumer")
    _clusters(p, c)
    _multiple("tile_n", c.tile_n, 64 if majors(p, c)[1] == "mn" else 16, "columns of wgmma and of boxes")
    if not 16 <= c.tile_n <= 256:
        raise UnsupportedError(f"tile_n = {c.tile_n}: wgmma has 16 to 256 columns")
    if p.block_scales and PROMOTED_K % c.tile_n:
        raise DivisibilityError(
            f"tile_n = {c.tile_n} with factors of blocks: it has to divide the {PROMOTED_K} columns of one"
        )
    if c.stages < 2:
        raise UnsupportedError(f"stages = {c.stages}: one is multiplied while another is loaded; take 2")
    one = stored_problem(p, c.splits)
    size = one.result.nbytes
    if c.through == "tma":
        if c.splits > 1:
            raise UnsupportedError("through = 'tma' with parts of k: take 'shared'")
        if p.reads_c and (p.grouped or p.promoted or not all(p.steps("c"))):
            raise UnsupportedError(
                "through = 'tma' adds no matrix of groups, none to 8-bit floats added in f32, nor one that "
                "products of a batch share: take 'shared'"
            )
        if vectors_of_integers(p):
            raise UnsupportedError("through = 'tma' adds no vector to integers: take 'shared'")
        _rows_for_tma("d", p.ldd, p.align_bytes[2], size, p.steps("d"))
        if p.reads_c:
            _rows_for_tma("c", p.ldc, p.align_bytes[2], size, p.steps("c"))
        if p.n * size % 16:
            raise AlignmentError(
                f"through = 'tma' with rows of {p.n} elements of {one.result}: TMA writes 16-byte chunks, "
                f"{-p.n * size % 16} bytes behind them; take 'shared'", offset=p.n * size, required_bytes=16,
            )  # fmt: skip
        if c.result_vec != 16 // size:
            raise UnsupportedError(f"result_vec = {c.result_vec} through 'tma': {16 // size} of {one.result}")
    else:
        if c.result_vec * size > 16 or c.result_vec not in (1, 2, 4, 8):
            raise UnsupportedError(
                f"result_vec = {c.result_vec} of {one.result}: up to {16 // size} are accepted"
            )
        for name, elems in (("ldd", one.ldd), ("n", p.n), *[("ldc", p.ldc)] * p.reads_c):
            _multiple(name, elems, c.result_vec, "result_vec")
        for name in "dc" if p.reads_c else "d":
            for step in filter(None, p.steps(name)):
                _multiple(f"a step of {name}", step, c.result_vec, "result_vec")
    _resources(p, c, chip)


def vectors_of_integers(p: GemmProblem) -> bool:
    """True where a vector is added to integers, which is stated for vectors in memory alone.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> vectors_of_integers(gemm_problem(256, 256, 64, "s8", bias=True))
    True
    """
    return p.accumulator.name == "s32" and any(modes != "mn" for modes in p.epilogue.arrays.values())


def _rows_for_tma(name: str, leading: int, start: int, nbytes: int, steps: tuple[int, ...]) -> None:
    """TMA takes rows that start at multiples of 16 bytes."""
    begin = f"the start of {name}, at a multiple of {start} bytes,"
    asked = [(begin, start, "copy it to one")]
    for what, elems in ((f"ld{name}", leading), *((f"a step of {name}", step) for step in steps)):
        near = -(-elems * nbytes // 16) * 16 // nbytes
        asked.append((f"{what} = {elems}", elems * nbytes, f"the nearest is {near}, with padded rows"))
    for what, at, mend in asked:
        if at % 16:
            raise AlignmentError(
                f"{what} is no multiple of 16 bytes, which TMA needs: {mend}; or take gemm-sm80",
                offset=at, required_bytes=16,
            )  # fmt: skip


def _copies(p: GemmProblem, c: SimtConfig | Sm80Config) -> None:
    """Threads copy tiles in whole passes, some along each stored row, the others across."""
    for side in SIDES:
        t = operand_tile(p, c, side)
        row = f"rows of {t.near} elements of {side}"
        _multiple(row, t.near, t.vector, "vectors")
        _multiple(
            f"the tile of {side}, {t.rows} x {t.deep} elements,", t.rows * t.deep, t.vector * t.threads,
            f"vectors of {t.threads} threads",
        )  # fmt: skip
        _multiple(f"{t.threads} threads", t.threads, t.lanes, f"the {t.lanes} that copy {row}")
        _multiple(row, t.near, t.lanes * t.vector, "a pass")
        across = t.deep if t.major == "mn" else t.rows
        _multiple(f"the tile of {side}, {across} stored rows,", across, t.threads // t.lanes, "a pass")


def _alignment(p: GemmProblem, c: SimtConfig | Sm80Config) -> None:
    """Vectors end where rows do, and extents are whole tiles, or with edges whole vectors."""
    size, to = p.operand.nbytes, p.result.nbytes
    a, b, across = vectors(p, c)
    for name, leading, start, vec, nbytes in (
        ("a", p.lda, p.align_bytes[0], a, size), ("b", p.ldb, p.align_bytes[1], b, size),
        ("d", p.ldd, p.align_bytes[2], across, to), *[("c", p.ldc, p.align_bytes[2], across, to)] * p.reads_c,
    ):  # fmt: skip
        steps = [(f"a step of {name} = {step}", step) for step in p.steps(name)]
        at = (f"the start of {name}, at a multiple of {start} bytes,", start // nbytes)
        for what, elems in [(f"ld{name} = {leading}", leading), *steps, *[at] * (start < 16)]:
            if elems % vec:
                raise AlignmentError(
                    f"{what} cuts vectors of {vec} elements; vectors of {gcd(elems, vec)} fit",
                    offset=elems * nbytes,
                    required_bytes=vec * nbytes,
                )
    extents = ("m", p.m, c.tile_m), ("n", p.n, c.tile_n), ("k", p.k, c.tile_k)
    for (name, extent, tile), vec in zip(extents, along_extents(p, c), strict=True):
        if not c.edges and extent % tile:
            raise ShapeError(f"{name} = {extent} is not a multiple of the tile's {tile}: take edges=True")
        if extent % vec:
            raise AlignmentError(
                f"{name} = {extent} cuts vectors of {vec} elements; vectors of {gcd(extent, vec)} fit",
                offset=extent * size,
                required_bytes=vec * size,
            )


def along_extents(p: GemmProblem, c: SimtConfig | Sm80Config) -> tuple[int, int, int]:
    """The elements of the longest vectors along m, n and k.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> along_extents(gemm_problem(100, 100, 100, "f32", b_major="mn"), SimtConfig(128, 128, 8, 8, 8, 4))
    (1, 4, 1)
    """
    a, b, across = vectors(p, c)
    return (
        a if p.a_major == "mn" else 1,
        max(across, b if p.b_major == "mn" else 1),
        max(a if p.a_major == "k" else 1, b if p.b_major == "k" else 1),
    )


def multiples(p: GemmProblem, c: SimtConfig | Sm80Config) -> tuple[int, int, int]:
    """Return the divisors that m, n and k must have: the tile's extents, or with edges its vectors.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> multiples(gemm_problem(128, 128, 64), Sm80Config(128, 128, 64, 2, 2, 3))
    (128, 128, 64)
    """
    return along_extents(p, c) if c.edges else (c.tile_m, c.tile_n, c.tile_k)


def _resources(p: GemmProblem, c: Config, chip: Arch) -> None:
    needed, most = shared_bytes(p, c), chip.max_shared_bytes_per_block
    if needed > most:
        what = f"shared memory bytes of {c}"
        if isinstance(c, Sm90Config):
            stage = (c.tile_m + c.tile_n) * c.tile_k * p.operand.nbytes + 16
            what += f", which are {c.stages} of {stage} and {needed - stage * c.stages} for results,"
        raise ResourceError(what, needed, most, hint=_fitting_stages(p, c, most))
    match c:
        case Sm90Config():
            share, hint = ROLE_REGISTERS[c.consumers][1], "take a smaller tile"
        case SimtConfig():
            share, hint = 0, "take fewer elements per thread or min_blocks = 1"
        case _:
            share, hint = 0, "take more warps or a smaller tile"
    most = min(chip.max_registers_per_thread, share or chip.registers_per_sm // (c.threads * c.min_blocks))
    if (held := registers(p, c)) > most:
        raise ResourceError(f"registers per thread of {c}", held, most, hint=hint)


def _fitting_stages(p: GemmProblem, c: Config, most: int) -> str:
    """Name the most stages that fit into `most` bytes of shared memory, or a smaller tile where none fit."""
    numbers = range(1 if c.via == "registers" else 2, c.stages)
    fitting = bisect_left(numbers, 1, key=lambda stages: shared_bytes(p, replace(c, stages=stages)) > most)
    if not fitting:
        return "take a smaller tile"
    return "1 stage fits" if numbers[fitting - 1] == 1 else f"{numbers[fitting - 1]} stages fit"


def shared_bytes(p: GemmProblem, c: Config) -> int:
    """Shared memory of a block.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> shared_bytes(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 128, 8, 8, 8, 4))
    25344
    """
    if isinstance(c, Sm90Config):
        results = c.results_bytes(stored_problem(p, c.splits).result.nbytes)
        barriers = 16 * c.stages + (8 * c.consumers if c.pingpong else 0)
        if c.cluster_k > 1:
            results, barriers = results + c.tile_m * (c.tile_n - c.written_n) * 4, barriers + 8
        if c.through == "tma" and p.reads_c:  # one for each place of a box
            nbytes = p.result.nbytes
            barriers += 8 * c.consumers * (c.box_buffers(nbytes) + len(set(c.boxes(nbytes))) - 1)
        return c.stages * (c.tile_m + c.tile_n) * c.tile_k * p.operand.nbytes + barriers + results
    ring = sum(operand_tile(p, c, side).stage_elems for side in SIDES) * c.stages
    words = p.accumulator.nbytes // 4 or 1
    return max(ring * p.operand.nbytes, words * c.stage_bytes if isinstance(c, Sm80Config) else 0)


def registers(p: GemmProblem, c: Config) -> int:
    """Registers that a thread is taken to need: sums, fragments, staged vectors, addresses; what a compiler
    does not keep at one time takes fewer.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> registers(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    200
    """
    if isinstance(c, Sm90Config):
        sums = c.consumer_m * c.tile_n // 128
        held = c.consumer_m // 4 + ADDRESS_REGISTERS if p.by_registers else 0
        part = c.tile_n // 2 if p.promoted else 0
        return FREE_REGISTERS + held + sums + part + (2 * sums // c.cluster_k if c.cluster_k > 1 else 0)
    tiles = [operand_tile(p, c, side) for side in SIDES]
    held = FREE_REGISTERS + c.fragments * sum(t.fragments * t.words for t in tiles)
    if isinstance(c, Sm80Config):
        sums = c.warp_m * c.warp_n * p.accumulator.bits // (32 * 32)
        held += FRAGMENT_REGISTERS * (p.operand.nbytes < 8)  # doubles are read by constant offsets
        held += sums * (2 if p.promoted else 1)
    else:
        held += c.thread_m * c.thread_n * p.operand.nbytes // 4
    return held + sum(t.passes * t.vector * p.operand.nbytes // 4 for t in tiles if t.via == "registers")
