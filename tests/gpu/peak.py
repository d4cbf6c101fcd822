"""What the arithmetic units of a GPU do when nothing else is in the way: multiplications on registers alone.

python -m tests.gpu.peak              TFLOP/s short and sustained; flops a cycle, counted by ncu
python -m tests.gpu.peak f16.k16      one kind

A block of eight warps a multiprocessor, two to each of its partitions, repeats one instruction on a set of
independent accumulators.  What is left out is all memory: it is the ceiling of a product by that instruction.
Zeros toggle nothing and draw little power: their rate is that of the highest clock.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import Loaded, device_array, load, random_bytes, random_normal, require_gpu
from layoutalg.codegen.instr import CLEAR, LDG, MMA_SYNC, STG, Instr, find_mma, fma_outer
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from tests.gpu.counters import count_launches

THREADS, TURNS = 256, 16000
SUSTAINED_S = 2.0
CYCLES = "sm__cycles_elapsed.max"


@dataclass(frozen=True, slots=True)
class Kind:
    """One instruction on registers: `sets` sums of `words` words; a set takes `a` and `b` words a lane.

    `flops` are a warp's for one instruction on one set.
    """

    instr: Instr
    sets: int
    words: int
    a: int
    b: int
    flops: int


def _mma(operand: str, accumulator: str, k: int, arithmetic: str = "") -> Kind:
    mma = find_mma(operand, accumulator, k, arithmetic=arithmetic)
    a, b, c = mma.words
    return Kind(MMA_SYNC[mma], 32 if c <= 4 else 64 // c, c, a, b, 2 * 16 * 8 * k)


KINDS: Mapping[str, Kind] = {
    "f16.k16": _mma("f16", "f32", 16), "f16.k8": _mma("f16", "f32", 8), "tf32.k8": _mma("tf32", "f32", 8),
    "s8.k32": _mma("s8", "s32", 32), "b1.k256": _mma("b1", "s32", 256, "and"),
    "f64.k4": _mma("f64", "f64", 4), "f64.k8": _mma("f64", "f64", 8), "f64.k16": _mma("f64", "f64", 16),
    "ffma": Kind(fma_outer(8, 8), 1, 64, 8, 8, 2 * 64 * 32),
}  # fmt: skip
"""mma.sync of 16 x 8 x k into 32 sets of sums, of doubles into 8, and fused multiply-adds."""


def build(kind: Kind) -> Kernel:
    """Load fragments once, multiply them `turns` times, store every sum."""
    k = KernelBuilder("peak", THREADS)
    turns, blocks = k.param("turns", 1 << 24), k.param("blocks", 1 << 10)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    at = k.let("at", k.block(0, blocks) * THREADS + k.tid)
    a, b = k.reg("a", min(4, kind.sets), kind.a), k.reg("b", -(-kind.sets // 4), kind.b)
    acc = k.reg("acc", kind.sets, kind.words)
    for fragments in (a, b):
        count, words = fragments.shape
        with k.Unroll("i", count) as i, k.Unroll("w", words) as w:
            k.do(LDG[4], fragments.slice(i, w, count=1), k.at(x, at + (i * words + w)))
    with k.Unroll("i", kind.sets) as i, k.Unroll("w", kind.words // 4) as w:
        k.do(CLEAR[16], acc.slice(i, w * 4, count=4))
    with k.For("turn", turns, unroll=4):
        for n in range(kind.sets):
            k.do(kind.instr, acc[n], a[n % a.shape[0]], b[n // a.shape[0]])
    with k.Unroll("i", kind.sets) as i, k.Unroll("w", kind.words) as w:
        place = k.at(y, at + (i * kind.words + w) * (blocks * THREADS))
        k.do(STG[4], place, acc.slice(i, w, count=1))
    return k.build()


@dataclass(frozen=True, slots=True)
class Peak:
    """A kind's kernel on this GPU: `launch(turns)` runs it, `flops(turns)` says what that computes."""

    kind: Kind
    loaded: Loaded
    blocks: int
    args: Mapping[str, Any]

    def launch(self, turns: int) -> None:
        """Start one launch."""
        self.loaded(turns=turns, blocks=self.blocks, **self.args)

    def flops(self, turns: int) -> int:
        """Multiplications and additions of one launch."""
        return self.blocks * THREADS // 32 * turns * self.kind.sets * self.kind.flops

    def rate(self, turns: int) -> float:
        """TFLOP/s of one launch, by events around it."""
        import cupy

        start, stop = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        self.launch(turns)
        stop.record()
        stop.synchronize()
        ms: float = cupy.cuda.get_elapsed_time(start, stop)
        return self.flops(turns) / ms / 1e9


def prepare(name: str, *, zeros: bool = False) -> Peak:
    """Load a kind and its operands: normal random numbers, random bytes for integers, or zeros."""
    kind, board = KINDS[name], find_arch(require_gpu().arch).board
    if board is None:
        raise UnsupportedError("the number of multiprocessors of this GPU is not known")
    words = board.sms * THREADS + 64
    element = {"f16": "f16", "s8": ""}.get(name.partition(".")[0], "f32")
    x = random_normal(words * 4, 1, element) if element else random_bytes(words * 4, 1)
    y = device_array((board.sms * THREADS * kind.sets * kind.words,), "uint32")
    if zeros:
        x = device_array(x.shape, x.dtype)
    return Peak(kind, load(build(kind)), board.sms, {"x": x.view("uint32"), "y": y})


def sustained(peak: Peak) -> tuple[float, str]:
    """TFLOP/s after SUSTAINED_S seconds, and the clock and power that the driver reports then."""
    turns = 10 * TURNS
    end = time.monotonic() + SUSTAINED_S
    while time.monotonic() < end:
        peak.rate(turns)
    query = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader"]
    seen = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return peak.rate(turns), seen or "unknown"


def main(args: list[str]) -> int:
    """Print the table; `count NAME` is the launch that the profiler watches."""
    if args[:1] == ["count"]:
        prepare(args[1]).launch(TURNS)
        return 0
    print("| instruction | zeros, TFLOP/s | normal, short | sustained | clock, power | flops a cycle, SM |")
    print("|---|---:|---:|---:|---|---:|")
    for name in args or KINDS:
        peak = prepare(name)
        peak.rate(TURNS // 10)
        time.sleep(0.5)
        short = max(peak.rate(TURNS) for _ in range(3))
        cold = prepare(name, zeros=True)
        time.sleep(0.5)
        idle = max(cold.rate(TURNS) for _ in range(3))
        long, clock = sustained(peak)
        (seen,) = count_launches("^peak$", (CYCLES,), "tests.gpu.peak", "count", name, most=1)
        by_cycle = peak.flops(TURNS) / seen[CYCLES] / peak.blocks
        print(f"| {name} | {idle:.1f} | {short:.1f} | {long:.1f} | {clock} | {by_cycle:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
