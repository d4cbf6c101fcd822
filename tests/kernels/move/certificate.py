"""The certificate of a permute's tile in shared memory: its cost, and that no swizzle costs less.

The idea.  Every access of one block's tile is served on the plan's own addresses, warp by warp, and held
against two numbers that depend on no layout:

    ideal     what the instruction needs when nothing conflicts
    least     what it needs under ANY placement that keeps the chunks of the copy whole, whatever it is:
              a chunk of 16 bytes covers 4 of the 32 banks, so the n words that lanes want at one place of
              their chunks lie in 8 banks, and take at least n / 8 wavefronts

Where the chosen swizzle reaches the least it is optimal.  Where extents are powers of two, the tile is also a
question to the synthesizer, whose answer has a certificate that can be checked without it
(layoutalg.synthesis.check_certificate).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutalg.analysis import Access, batch_lanes, served_batch, warp_rule
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction
from layoutalg.dtype import dtype
from layoutalg.kernels.move.gather import tile_accesses
from layoutalg.kernels.move.partition import Store
from layoutalg.kernels.move.problem import Moves
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.layout import Layout
from layoutalg.synthesis import Synthesis, synthesize


@dataclass(frozen=True, slots=True)
class Claim:
    """An access of the first block's tile: its wavefronts, those without conflicts, the least possible."""

    op: str
    wavefronts: int
    ideal: int
    least: int


@dataclass(frozen=True, slots=True)
class TileCertificate:
    """The claims about a tile's layout, one per access, and the synthesizer's answer if it has one.

    `synthesis` is None where extents or distances are not powers of two.
    """

    claims: tuple[Claim, ...]
    synthesis: Synthesis | None


def certify(x: Moves, c: PermuteConfig, arch: str | Arch = DEFAULT_ARCH) -> TileCertificate:
    """Return the cost of a staged configuration's tile in shared memory, beside the least possible."""
    stage = Stage(x, c)
    accesses = list(tile_reads(stage))
    claims = tuple(_claim(stage, *access, arch) for access in accesses)
    return TileCertificate(claims, _synthesis(stage, accesses, arch))


def tile_reads(stage: Stage) -> Iterator[tuple[str, Any, Any]]:
    """The accesses of the first block to its tile: the op, the bytes (access, x) of all chunks or vectors x,
    and which x exist."""
    for op, places, one in tile_accesses(stage, np.arange(stage.loads), np.arange(stage.stores)):
        there = np.ones(one.x.shape, dtype=bool)
        if isinstance(one, Store):
            predicates = one.part.exists
        else:
            predicates = one.exists if one.inside is None else (*one.exists, one.inside)
            op = f"cp.async.{stage.chunk_bytes}" if stage.config.via == "cp.async" else op
        for predicate in predicates:
            there = there & predicate
        yield op, places, there


def _claim(stage: Stage, op: str, places: Any, there: Any, arch: str | Arch) -> Claim:
    rule, machine = warp_rule(op, "shared", arch)
    more = -places.shape[1] % 32
    active = np.broadcast_to(np.pad(there, (0, more)), (len(places), len(there) + more)).reshape(-1, 32)
    at = np.pad(places, ((0, 0), (0, more))).reshape(-1, 32) * active
    served, ideal, _ = served_batch(
        rule, machine, *batch_lanes(rule, machine, stage.layout(at) * active, active)
    )
    least = sum(
        max(int(floor), _least(stage, rule, machine, lanes[on]))
        for floor, lanes, on in zip(ideal, at, active, strict=True)
    )
    return Claim(op, int(served.sum()), int(ideal.sum()), least)


def _least(stage: Stage, rule: Instruction, machine: Arch, lanes: Any) -> int:
    """Wavefronts of one access of a word or less per lane wherever chunks lie: words at one place of a chunk
    share as many banks as there are chunks in a line of banks; 0 where that says nothing."""
    words = stage.chunk_bytes // machine.bank_bytes
    if not words or rule.width_bytes > machine.bank_bytes or rule.group_lanes < machine.lanes:
        return 0
    wanted = {int(byte) // machine.bank_bytes for byte in lanes}
    each = [sum(word % words == place for word in wanted) for place in range(words)]
    return max(-(-n // (machine.banks // words)) for n in each)


def _synthesis(stage: Stage, found: Sequence[tuple[str, Any, Any]], arch: str | Arch) -> Synthesis | None:
    """The tile as a question to the synthesizer, its bytes in the order of the plain layout."""
    nbytes = stage.elements * stage.size
    if nbytes & (nbytes - 1) or stage.lead or stage.config.pad_bytes or not stage.src_aligned:
        return None
    accesses: list[Access] = []
    for op, places, there in found:
        rule, _ = warp_rule(op, "shared", arch)
        tv = _thread_value(places, rule.width_bytes)
        if tv is None or not there.all() or int(places.max()) + rule.width_bytes > nbytes:
            return None
        accesses.append(Access(op, tv, dtype("u8")))
    return synthesize((nbytes,), accesses, element="u8", arch=arch)


def _thread_value(places: Any, width: int) -> Layout | None:
    """Places (round, thread) of accesses of `width` bytes as (thread, value, round); None if not linear."""
    rounds, threads = places.shape
    if threads & (threads - 1) or rounds & (rounds - 1) or threads < 32 or places[0, 0]:
        return None
    strides = [
        tuple(int(line[1 << j]) for j in range((n - 1).bit_length()))
        for line, n in ((places[0], threads), (places[:, 0], rounds))
    ]
    lanes, turns = (Layout((2,) * len(d) or 1, d or 0) for d in strides)
    if not np.array_equal(lanes(np.arange(threads))[None] + turns(np.arange(rounds))[:, None], places):
        return None
    return Layout((lanes.shape, width, turns.shape), (lanes.stride, 1, turns.stride))
