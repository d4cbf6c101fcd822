"""What a configuration of the SIMT GEMM must fulfil, rule by rule.

`check_config` refuses before anything is compiled: each refusal names the rule and the nearest value that
fulfils it.
"""

from __future__ import annotations

from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import AlignmentError, DivisibilityError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.config_fields import check_fields
from layoutalg.kernels.gemm.parts import check_splits, part_problem
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import SimtConfig, half, multiples

FREE_REGISTERS = 24
"""Registers of a thread that addresses and counters need at least, beside sums, fragments and copies."""

REGISTERS_PER_SM = 65536
MOST_REGISTERS = 255


def check_config(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> None:
    """Raise for the first rule that a configuration breaks for a problem.

    Raises what `check_fields` raises, UnsupportedError (element types, ways that do not go together),
    DivisibilityError (tiles that warps, runs or vectors do not divide), AlignmentError (leading dimensions
    and extents that cut vectors), ShapeError (edges without `edges`) or ResourceError (threads, shared
    memory, registers).

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_config(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    """
    chip = find_arch(arch)
    check_fields(c)
    check_splits(p, c.splits)
    _ways(p, c, chip)
    _tiles(p, c, chip)
    _alignment(p if c.splits == 1 else part_problem(p), c)
    _resources(p, c, chip)


def check_element(p: GemmProblem) -> None:
    """Raise UnsupportedError unless the element type has fused multiply-adds.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_element(gemm_problem(256, 256, 64, "f64"))
    """
    if p.operand.name not in ("f32", "f64"):
        raise UnsupportedError(f"fused multiply-adds of {p.operand}: f32 and f64 are accepted")


def _ways(p: GemmProblem, c: SimtConfig, chip: Arch) -> None:
    check_element(p)
    if "global" in (c.via, c.turn) and c.via != "global":
        raise UnsupportedError("turn = 'global': turned tiles go through 'registers' or by 'cp.async'")
    if c.via == "global" and c.splits > 1:
        raise UnsupportedError(
            "parts of k without tiles: take via = 'registers' or 'cp.async', or splits = 1"
        )
    if c.via == "global":
        return
    copies = "cp.async" in (c.via, c.turn)
    if copies and chip.compute_capability < (8, 0):
        raise UnsupportedError(f"cp.async needs sm_80; {chip.name} does not have it: take 'registers'")
    if copies and c.stages < 2:
        raise UnsupportedError("cp.async into one stage would overwrite what is read: take stages = 2")
    if c.stages < 1:
        raise UnsupportedError(f"stages = {c.stages}: at least 1 is needed")


def _tiles(p: GemmProblem, c: SimtConfig, chip: Arch) -> None:
    if c.lanes_m not in (1, 2, 4, 8, 16, 32):
        raise DivisibilityError(f"lanes_m = {c.lanes_m} does not divide a warp; powers of two up to 32 do")
    _multiple("lanes_n", c.lanes_n, c.weave, "the weave")
    for name, tile, lanes, thread, run in (
        ("m", c.tile_m, c.lanes_m, c.thread_m, c.run_m), ("n", c.tile_n, c.lanes_n, c.thread_n, c.run_n)
    ):  # fmt: skip
        _multiple(f"thread_{name}", thread, run, f"run_{name}")
        _multiple(f"tile_{name}", tile, lanes * thread, f"{lanes} lanes of {thread}")
    if c.threads > chip.max_threads_per_block:
        raise ResourceError(
            "threads a block", c.threads, chip.max_threads_per_block, hint="take a larger tile a thread"
        )
    if c.fragments not in (1, 2):
        raise UnsupportedError(f"fragments = {c.fragments}: 1 and 2 are accepted")
    if c.fragments == 2:
        _multiple("tile_k", c.tile_k, 2, "a step of each fragment")
    size = p.operand.nbytes
    _multiple("run_n", c.run_n, c.result_vec, "result_vec")
    for name, elems in (
        ("a_vector", c.a_vector), ("b_vector", c.b_vector), ("result_vec", c.result_vec),
        ("fragment", c.fragment),
    ):  # fmt: skip
        if elems * size not in (4, 8, 16) or elems < 1:
            raise UnsupportedError(f"{name} = {elems} of {p.operand}: {16 // size} or less, powers of two")
    if c.via == "global":
        return
    for side in ("a", "b"):
        h = half(p, c, "a" if side == "a" else "b")
        _multiple(f"a thread's {h.run} rows of {side}", h.run, h.fragment, "a load of a fragment")
        if h.fragment * size not in (4, 8, 16):
            raise UnsupportedError(
                f"fragments of {h.fragment} elements of {side}, as its runs are: powers of two up to "
                f"{16 // size} are loaded at once"
            )
        _multiple(f"the pitch of {side}'s tile", h.pitch, h.fragment, "a load of a fragment: pad")
        _multiple(f"rows of {h.near} elements of {side}", h.near, h.vector, "vectors")
        _multiple(
            f"the tile of {side}, {h.rows} x {h.deep} elements,", h.rows * h.deep, h.vector * c.threads,
            f"vectors of {c.threads} threads",
        )  # fmt: skip
        if c.threads % h.lanes_near:
            raise DivisibilityError(
                f"{c.threads} threads copy rows of {h.lanes_near} vectors of {side}: the threads must be a "
                f"multiple, such as {max(1, c.threads // h.lanes_near) * h.lanes_near}"
            )
        far = h.deep if h.major == "mn" else h.rows
        _multiple(f"the tile of {side}, {far} stored rows,", far, c.threads // h.lanes_near, "a pass")


def _multiple(name: str, value: int, part: int, what: str) -> None:
    if part < 1 or value < part or value % part:
        nearest = max(1, round(value / part)) * part if part > 0 else value
        raise DivisibilityError(
            f"{name} = {value} is no multiple of {part}, {what}; the nearest is {nearest}"
        )


def _alignment(p: GemmProblem, c: SimtConfig) -> None:
    a, b = half(p, c, "a").vector, half(p, c, "b").vector
    size = p.operand.nbytes
    for name, leading, vec in (
        ("lda", p.lda, a), ("ldb", p.ldb, b), ("ldd", p.ldd, c.result_vec),
        *((("ldc", p.ldc, c.result_vec),) if p.reads_c else ()),
    ):  # fmt: skip
        if leading % vec:
            raise AlignmentError(
                f"{name} = {leading} cuts vectors of {vec} elements; vectors of {gcd(leading, vec)} fit",
                offset=leading * size,
                required_bytes=vec * size,
            )
    for name, extent, of in zip("mnk", (p.m, p.n, p.k), multiples(p, c), strict=True):
        if extent % of and not c.edges:
            raise ShapeError(f"{name} = {extent} is no multiple of the tile's {of}: take edges=True")
        if extent % of:
            raise AlignmentError(
                f"{name} = {extent} cuts vectors of {of} elements; vectors of {gcd(extent, of)} fit",
                offset=extent * size,
                required_bytes=of * size,
            )


def _resources(p: GemmProblem, c: SimtConfig, chip: Arch) -> None:
    if c.via != "global":
        one = shared_bytes(p, c) // c.stages
        most = chip.max_shared_bytes_per_block
        if one * c.stages > most:
            raise ResourceError(
                f"shared memory bytes of {c}", one * c.stages, most,
                hint=f"{most // one} stages fit" if most >= one else "take a smaller tile",
            )  # fmt: skip
    held, most = registers(p, c), min(MOST_REGISTERS, REGISTERS_PER_SM // (c.threads * c.min_blocks))
    if held > most:
        raise ResourceError(
            f"registers a thread of {c}", held, most, hint="take fewer elements a thread or min_blocks = 1"
        )


def shared_bytes(p: GemmProblem, c: SimtConfig) -> int:
    """Shared memory of a block.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> shared_bytes(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 128, 8, 8, 8, 4))
    25344
    """
    elems = sum(half(p, c, side).stage_elems for side in ("a", "b"))
    return elems * c.stages * p.operand.nbytes


def registers(p: GemmProblem, c: SimtConfig) -> int:
    """Registers that a thread needs at least: sums, fragments, staged vectors, addresses.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> registers(gemm_problem(256, 256, 64, "f32"), SimtConfig(128, 256, 8, 16, 8, 4))
    200
    """
    words = p.operand.nbytes // 4
    held = c.thread_m * c.thread_n + c.fragments * (c.thread_m + c.thread_n)
    for h in (half(p, c, "a"), half(p, c, "b")):
        if h.via == "registers":
            held += h.passes * h.vector
    return held * words + FREE_REGISTERS
