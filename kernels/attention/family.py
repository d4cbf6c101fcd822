"""The record of the family `attention`: its configurations, and the launches of a problem."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.attention.problem import ARRAYS, AttentionProblem, attention_problem
from layoutalg.kernels.attention.program import LOG2_E, MOST_BLOCKS, AttentionConfig, build
from layoutalg.kernels.family import NEEDED, Candidate, Family, Traffic

CONFIGS: Mapping[int, tuple[AttentionConfig, ...]] = {
    64: (AttentionConfig(3, 128), AttentionConfig(2, 128)),
    128: (AttentionConfig(2, 128), AttentionConfig(2, 176, over=True)),
    256: (AttentionConfig(2, 80, over=True), AttentionConfig(2, 64, over=True)),
}
"""The configurations by the elements of a head, best first."""


LEAST_L2_BYTES = 50 << 20
"""The least L2 of sm_90, by NVIDIA's H100 data sheet."""


def candidates(p: AttentionProblem, arch: str | Arch) -> Iterator[Candidate]:
    """The configurations, best first.  Raises UnsupportedError for other architectures than sm_90."""
    if find_arch(arch).name != "sm_90":
        raise UnsupportedError(f"attention on {find_arch(arch).name}: its wgmma and TMA are those of sm_90")
    yield from map(Candidate, CONFIGS[p.d])


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


def _scalars(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> dict[str, int]:
    """The numbers of a launch."""
    board = find_arch(arch).board
    tiles = -(-p.m // c.rows) * p.heads * p.batch
    blocks = max(1, min(tiles, board.sms if board else MOST_BLOCKS))
    scale = p.scale * LOG2_E if p.plain else p.scale
    numbers = {x: getattr(p, x) for x in ("m", "n", "heads", "batch", "group", "kv_heads")}
    l2_bytes = (board and board.l2_bytes) or LEAST_L2_BYTES
    near = 1 if p.right is None else max(1, l2_bytes // 2 * p.group // (2 * p.n * p.d * p.element.nbytes))
    numbers |= {"all_heads": p.heads * p.batch, "near": min(near, p.heads * p.batch), "blocks": blocks}
    numbers["scale"] = int.from_bytes(struct.pack("<f", scale), "little")
    for name in ARRAYS:
        numbers |= dict(zip((f"{name}_batch", f"{name}_head", f"{name}_row"), p.steps(name), strict=True))
    if p.right is not None:
        numbers |= {"reach": max(p.reach, 0), "drop": max(-p.reach, 0)}
    if p.left is not None:
        numbers |= {"skip": max(p.begin, 0), "back": max(-p.begin, 0)}
    return numbers


def memory(p: AttentionProblem, c: AttentionConfig, arch: str | Arch) -> Traffic:
    """Bytes that memory reads and writes at least: each array once."""
    size = p.element.nbytes * p.d * p.batch
    sums = 4 * p.batch * p.heads * p.m * p.sums
    return Traffic(size * (p.heads * p.m + 2 * p.kv_heads * p.n), size * p.heads * p.m + sums)


def _problem(
    shape: tuple[int, ...], causal: bool = False, dtype: Any = "bf16", **rest: Any
) -> AttentionProblem:
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
        way=lambda c: f"{c.rows}x{c.keys}",
        memory=memory,
    ),
)
"""The families of this room."""
