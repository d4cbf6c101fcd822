"""What a configuration of the tensor-core GEMM must fulfil, rule by rule.

`check_config` refuses before anything is compiled: each refusal names the rule and the nearest value that
fulfils it.
"""

from __future__ import annotations

from math import gcd

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.instr import MMAS
from layoutalg.errors import AlignmentError, DivisibilityError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.config_fields import check_fields
from layoutalg.kernels.gemm.parts import check_splits, part_problem
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.sm80_plan import Sm80Config, mma_of

FREE_REGISTERS = 40
"""Registers of a thread that addresses, counters and the copy need beside accumulators and fragments."""


def check_config(p: GemmProblem, c: Sm80Config, arch: str | Arch = "sm_90") -> None:
    """Raise for the first rule that a configuration breaks for a problem.

    Raises what `check_fields` raises, UnsupportedError (an mma or a copy the architecture lacks, an operand
    ldmatrix cannot turn), DivisibilityError (tiles that warps, fragments or vectors do not divide),
    AlignmentError (leading dimensions that cut vectors), ShapeError (edges without `edges`) or ResourceError
    (shared memory, registers).

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check_config(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4))
    """
    chip = find_arch(arch)
    check_fields(c)
    if not 32 <= c.threads <= chip.max_threads_per_block:
        raise ResourceError("threads a block", c.threads, chip.max_threads_per_block)
    check_splits(p, c.splits)
    _instructions(p, c, chip)
    _tiles(p, c)
    _alignment(p if c.splits == 1 else part_problem(p), c)
    _resources(p, c, chip)


def _instructions(p: GemmProblem, c: Sm80Config, chip: Arch) -> None:
    rows = [m for m in MMAS if (m.operand, m.accumulator) == (p.operand.name, p.accumulator.name)]
    if not rows:
        known = ", ".join(sorted({f"{m.operand} into {m.accumulator}" for m in MMAS}))
        raise UnsupportedError(f"no mma.sync multiplies {p.operand} into {p.accumulator}: there are {known}")
    if c.mma_k and c.mma_k not in (ks := [m.k for m in rows]):
        raise UnsupportedError(f"mma_k = {c.mma_k} of {p.operand}: {' and '.join(map(str, ks))} are accepted")
    major, minor = chip.compute_capability
    sm, mma = 10 * major + minor, mma_of(p, c)
    if sm < mma.sm:
        raise UnsupportedError(f"{mma.ptx} needs sm_{mma.sm}; {chip.name} does not have it")
    if c.via == "cp.async" and sm < 80:
        raise UnsupportedError(f"cp.async needs sm_80; {chip.name} does not have it: take via='registers'")
    if p.operand.nbytes != 2 and "mn" in (p.a_major, p.b_major):
        raise UnsupportedError(
            f"ldmatrix.trans turns 16-bit elements; {p.operand} operands must both be stored along k"
        )
    if c.via == "cp.async" and not c.stages >= 2:
        raise ResourceError("stages of the ring", c.stages, 2, hint="cp.async needs at least two")
    if c.via == "registers" and c.stages not in (1, 2):
        raise ResourceError("stages through registers", c.stages, 2)
    if c.via == "registers" and c.stages == 2 and not c.ahead:
        raise UnsupportedError("two buffers without loading ahead have no use: take stages=1 or ahead=True")


def _tiles(p: GemmProblem, c: Sm80Config) -> None:
    size = p.operand.nbytes
    if c.fragments not in (1, 2):
        raise UnsupportedError(f"fragments = {c.fragments}: 1 and 2 are accepted")
    for name, tile, part in (
        ("tile_m", c.tile_m, 16 * c.warps_m),
        ("tile_n", c.tile_n, 16 * c.warps_n),
        ("tile_k", c.tile_k, 32 // size),
    ):  # fmt: skip
        _multiple(name, tile, part, "fragments of its warps" if name != "tile_k" else "fragments of 32 bytes")
    if c.via == "cp.async" and c.fragments == 2 and c.tile_k * size < 64:
        raise UnsupportedError(
            f"fragments = 2 with tile_k = {c.tile_k} of {p.operand}: fragments are loaded a step ahead, so a "
            f"tile needs two steps of 32 bytes; take tile_k = {64 // size} or fragments = 1"
        )
    for name, tile in (("tile_m", c.tile_m), ("tile_n", c.tile_n), ("tile_k", c.tile_k)):
        if tile & (tile - 1):
            raise DivisibilityError(
                f"{name} = {tile} is no power of two, which the swizzle needs; the nearest is "
                f"{1 << tile.bit_length() - 1}"
            )
    for name, rows, nbytes, major in (
        ("a_bytes", c.tile_m, c.a_bytes, p.a_major), ("b_bytes", c.tile_n, c.b_bytes, p.b_major)
    ):  # fmt: skip
        widths = (4, 8, 16) if c.via == "cp.async" else (1, 2, 4, 8, 16)
        if nbytes not in widths or nbytes < size:
            raise UnsupportedError(
                f"{name} = {nbytes} by {c.via}: {', '.join(map(str, widths))} are accepted"
            )
        along = (c.tile_k if major == "k" else rows) * size // nbytes
        if (c.threads % along and along % c.threads) or along > c.threads:
            raise DivisibilityError(f"{c.threads} threads copy rows of {along} vectors: threads must divide")
        _multiple(
            f"the {rows} x {c.tile_k} tile", rows * c.tile_k * size, nbytes * c.threads, "a pass of copies"
        )
    if c.epilogue == "shared" and (c.warp_n % c.result_vec or c.result_vec not in (1, 2, 4, 8)):
        raise DivisibilityError(f"result_vec = {c.result_vec} does not divide {c.warp_n} columns of a warp")
    if c.epilogue == "shared" and c.result_vec * p.result.nbytes > 16:
        raise UnsupportedError(f"result_vec = {c.result_vec} of {p.result}: 16 bytes a lane are the most")
    if c.epilogue == "direct" and c.result_vec != 2:
        raise UnsupportedError(
            f"result_vec = {c.result_vec} with epilogue='direct': accumulators come in pairs"
        )


def _multiple(name: str, value: int, part: int, what: str) -> None:
    if value < part or value % part:
        nearest = max(part, round(value / part) * part)
        raise DivisibilityError(
            f"{name} = {value} is no multiple of {part}, {what}; the nearest is {nearest}"
        )


def _alignment(p: GemmProblem, c: Sm80Config) -> None:
    size = p.operand.nbytes
    for name, leading, vec, nbytes in (
        ("lda", p.lda, c.a_bytes // size, size), ("ldb", p.ldb, c.b_bytes // size, size),
        ("ldd", p.ldd, c.result_vec, p.result.nbytes),
        *((("ldc", p.ldc, c.result_vec, p.result.nbytes),) if p.reads_c else ()),
    ):  # fmt: skip
        if leading % vec:
            raise AlignmentError(
                f"{name} = {leading} cuts vectors of {vec} elements; vectors of {gcd(leading, vec)} fit",
                offset=leading * nbytes,
                required_bytes=vec * nbytes,
            )
    cut = {
        "m": c.a_bytes // size if p.a_major == "mn" else 1,
        "n": max(c.result_vec, c.b_bytes // size if p.b_major == "mn" else 1),
        "k": max(c.a_bytes // size if p.a_major == "k" else 1, c.b_bytes // size if p.b_major == "k" else 1),
    }
    whole = {"m": c.tile_m, "n": c.tile_n, "k": c.tile_k}
    for name in ("m", "n", "k"):
        extent = getattr(p, name)
        if not c.edges and extent % whole[name]:
            raise ShapeError(f"{name} = {extent} is no multiple of the tile's {whole[name]}: take edges=True")
        if extent % cut[name]:
            raise AlignmentError(
                f"{name} = {extent} cuts vectors of {cut[name]} elements; vectors of "
                f"{gcd(extent, cut[name])} fit",
                offset=extent,
                required_bytes=cut[name] * size,
            )


def _resources(p: GemmProblem, c: Sm80Config, chip: Arch) -> None:
    shared = max(c.ring_bytes(p.operand.nbytes), c.stage_bytes)
    if shared > chip.max_shared_bytes_per_block:
        one = c.ring_bytes(p.operand.nbytes) // c.stages
        fitting = chip.max_shared_bytes_per_block // one
        raise ResourceError(
            f"shared memory bytes of {c}", shared, chip.max_shared_bytes_per_block,
            hint=f"{fitting} stages fit" if fitting else "take a smaller tile",
        )  # fmt: skip
    words = mma_of(p, c).words[2]
    sums = c.warp_m // 16 * (c.warp_n // 8) * words
    held = sums + c.fragments * (c.warp_m + c.warp_n) // 16 * 4
    if c.via == "registers":
        held += (c.tile_m * c.tile_k + c.tile_n * c.tile_k) * p.operand.nbytes // (4 * c.threads)
    most = min(255, 65536 // (c.threads * c.min_blocks))
    if held + FREE_REGISTERS > most:
        raise ResourceError(
            f"registers a thread of {c}", held + FREE_REGISTERS, most,
            hint="take more warps, a smaller tile or fragments=1",
        )  # fmt: skip
