"""The record of the family `attention`: its configurations, and the launches of a problem."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence
from layoutalg.errors import ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.attention.problem import ARRAYS, AttentionProblem, attention_problem
from layoutalg.kernels.attention.program import LOG2_E, MOST_BLOCKS, MOST_STEPS, AttentionConfig, build
from layoutalg.kernels.family import NEEDED, Candidate, Family, Traffic
from layoutalg.kernels.model import Clock, Expected, Machine, Work, machine_of, moved_bytes, time_us

CONFIGS: Mapping[int, tuple[AttentionConfig, ...]] = {
    64: (AttentionConfig(3, 128), AttentionConfig(2, 128)),
    128: (AttentionConfig(2, 160), AttentionConfig(2, 128)),
    256: (AttentionConfig(2, 80, over=True), AttentionConfig(2, 64, over=True)),
}
"""The configurations by the elements of a head."""

TILE_STEPS = 1.5
"""The time of a tile of queries beside its steps of keys, in steps: what no product runs under."""

EVEN = 1.03
"""The load of the busiest block, of the least that any order gives, at which fewer heads are near."""


MOST_WALKED = 1 << 22
"""Tiles of a launch whose blocks are followed, at most; of more, blocks get about as much in any order."""


def candidates(p: AttentionProblem, arch: str | Arch) -> Iterator[Candidate]:
    """The configurations, best first.  Raises UnsupportedError for other architectures than sm_90."""
    if find_arch(arch).name != "sm_90":
        raise UnsupportedError(f"attention on {find_arch(arch).name}: its wgmma and TMA are those of sm_90")
    machine = machine_of(arch)
    yield from map(Candidate, sorted(CONFIGS[p.d], key=lambda c: clock(p, c, arch)(machine).us))


def clock(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> Clock:
    """The time of the busiest block: of a step of keys the products and the exponentials, as far as neither
    hides the other, and what is the same for all; beside it the bytes of memory.

    >>> p = attention_problem(4, 16, 4096, causal=True)
    >>> 380 < clock(p, AttentionConfig(2, 128), "sm_90")(machine_of("sm_90")).us < 460
    True
    """
    blocks, scores = _blocks(p, c, arch), c.rows * c.keys
    load, nbytes = _near(p, c, blocks)[1], moved_bytes(*memory(p, c, arch))

    def time(m: Machine) -> Expected:
        law = m.ways["attention"]
        cycles = scores * (4 * p.d / law["operations"] + 1 / law["exponentials"]) + law["step"]
        us = load * cycles / m.cycles_per_us
        work = Work(nbytes, blocks=1, block_us=us, beside_us=law["start"], starts=blocks)
        return Expected(time_us(work, m), "what the function of scores takes" if p.score else "")

    return time


def _blocks(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> int:
    """Blocks of a launch: as many as run at a time, or as there are tiles."""
    board, tiles = find_arch(arch).board, -(-p.m // c.rows) * p.heads * p.batch
    return max(1, min(tiles, board.sms if board else MOST_BLOCKS))


def _steps(p: AttentionProblem, c: AttentionConfig) -> Any:
    """The tiles of keys that each tile of queries of a head walks."""
    first_row = numpy.arange(0, max(p.m, 1), c.rows)
    end = numpy.full_like(first_row, p.n)
    if p.right is not None:
        end = numpy.clip(first_row + c.rows - 1 + p.reach, 0, p.n)
    begin = numpy.maximum(first_row + p.begin, 0) if p.left is not None else 0 * first_row
    return numpy.maximum(-(-end // c.keys) - begin // c.keys, 1)


@functools.lru_cache(256)
def _near(p: AttentionProblem, c: AttentionConfig, blocks: int) -> tuple[int, float]:
    """The number of heads whose tiles are walked together, and the steps of the busiest block.

    Fewer heads together share more of the L2, and more of them, whose tiles are of all lengths from the
    longest to the shortest, are shared out more evenly.
    """
    steps = _steps(p, c) + TILE_STEPS
    rows, heads = len(steps), p.heads * p.batch
    if steps.sum() * heads > MOST_STEPS // 2 * blocks:
        raise ResourceError(f"steps of {blocks} blocks", int(steps.sum()) * heads, MOST_STEPS // 2 * blocks)
    if rows * heads > MOST_WALKED:
        return 1, float(steps.sum()) * heads / blocks
    number = numpy.arange(rows * heads)
    turn, place = number // blocks, number % blocks
    block = numpy.where(turn % 2 == 0, place, blocks - 1 - place)
    found = dict[int, float]()
    for near in sorted({min(x << i, heads) for x in (2, 3) for i in range(heads.bit_length())} | {1}):
        of_near = number // (rows * near) * near
        row = rows - 1 - (number - of_near * rows) // numpy.minimum(near, heads - of_near)
        found[near] = float(numpy.bincount(block, steps[row]).max())
        if p.left is None and p.right is None:
            break  # all are alike
    least = min(found.values())
    return next((near, load) for near, load in found.items() if load <= EVEN * least)


@functools.lru_cache(64)
def _kernel(p: AttentionProblem, c: AttentionConfig) -> Kernel:
    """The kernel of all problems that differ in numbers of a launch."""
    return build(p, c)


def launches(p: AttentionProblem, c: AttentionConfig, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The launch of a configuration.

    >>> one = launches(attention_problem(1, 2, 300, causal=True), AttentionConfig(2, 128))
    >>> one.buffers, dict(one.scalars)["blocks"]
    ((('q', 'k', 'v', 'dst', 'lse'),), 6)
    """
    usual = replace(
        p, batch=1, heads=1, m=1, n=1, group=1, strides=(), scale=1.0 if p.plain else 0.0, align="top-left",
        right=p.right and 0, left=p.left and 0,
    )  # fmt: skip
    return launch_sequence([_kernel(usual, c)], {"o": "dst"}, scalars=_scalars(p, c, arch), arch=arch)


def any_sizes(p: AttentionProblem, c: AttentionConfig, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The same, whose strides a launch gives too."""
    made = launches(p, c, arch)
    steps = {f"{name}_{mode}" for name in ARRAYS for mode in ("batch", "head", "row")}
    return replace(made, scalars=tuple(x for x in made.scalars if x[0] not in steps))


def _scalars(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> dict[str, int]:
    """The numbers of a launch."""
    blocks = _blocks(p, c, arch)
    scale = p.scale * LOG2_E if p.plain else p.scale
    numbers = {x: getattr(p, x) for x in ("m", "n", "heads", "batch", "group", "kv_heads")}
    numbers |= {"near": _near(p, c, blocks)[0], "blocks": blocks}
    numbers["scale_log2" if p.plain else "scale"] = int.from_bytes(struct.pack("<f", scale), "little")
    for name in ARRAYS:
        numbers |= dict(zip((f"{name}_batch", f"{name}_head", f"{name}_row"), p.steps(name), strict=True))
    if p.right is not None:
        numbers |= {"reach": max(p.reach, 0), "drop": max(-p.reach, 0)}
    if p.left is not None:
        numbers |= {"skip": max(p.begin, 0), "back": max(-p.begin, 0)}
    return numbers


def memory(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> Traffic:
    """Bytes that memory reads and writes at least: each array once.

    >>> memory(attention_problem(1, 2, 300, 100, 64), AttentionConfig(2, 128), "sm_90")
    Traffic(read=128000, written=79200)
    """
    q, k, v, o = (p.element.nbytes * prod(p.shape(x)) for x in ARRAYS)
    return Traffic(q + k + v, o + 4 * prod(p.shape("q")[:3]) * p.sums)


def by_tma(p: AttentionProblem, c: AttentionConfig) -> Traffic:
    """Bytes that TMA brings into shared memory, zeros past the ends among them, and takes out of it.

    >>> by_tma(attention_problem(1, 2, 300, 100, 64), AttentionConfig(2, 128))
    Traffic(read=294912, written=76800)
    """
    steps, heads, line = _steps(p, c), p.heads * p.batch, p.d * p.element.nbytes
    brought = len(steps) * c.rows + 2 * c.keys * int(steps.sum())
    return Traffic(heads * brought * line, heads * p.m * line)


def _problem(
    shape: tuple[int, ...], causal: bool = False, dtype: Any = "bf16", **rest: Any
) -> AttentionProblem:
    if len(shape) != 4:
        raise ShapeError(f"shape {shape} of attention: (batch, heads, length, elements of a head) is needed")
    batch, heads, m, d = shape
    return attention_problem(batch, heads, m, d=d, dtype=dtype, causal=causal, **rest)


ATTENTION_FAMILIES = (
    Family(
        "attention",
        "O = softmax(Q K^T) V per head, by wgmma and TMA",
        _problem,
        candidates,
        launches,
        asks={"shape": NEEDED},
        called=launches,
        any_sizes=any_sizes,
        way=lambda c: f"{c.rows}x{c.keys}",
        memory=memory,
        clock=clock,
        board="H200-SXM",
    ),
)
"""The families of this room."""
