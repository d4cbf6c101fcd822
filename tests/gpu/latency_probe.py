"""Latencies and issue intervals of instructions, measured with clock64: rows for codegen/timing/facts.json.

python -m tests.gpu.latency_probe                   print the rows of this GPU
python -m tests.gpu.latency_probe --json rows.json  write them: behind those of facts.json they replace them

A latency is the cycles of a chain in which each instruction takes the result of the one before it, over their
number, by one warp alone; the least of several launches.  An interval is the cycles between independent
instructions of one scheduler, four warps on it, from the first warp's start to the last one's end.  Each
kernel is disassembled first: it must hold its opcode as often as it is unrolled, or the probe stops.

    LDG.L1, .L2, .DRAM    a chain of addresses through 8 KiB, through 8 MiB past the L1, and through 512 MiB,
                          elsewhere in it at each launch, from an L2 that holds other data
    BAR                   barriers of one warp, one behind the other
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.gpu import compile_cubin, disassemble, parse_sass, require_gpu
from layoutalg.codegen.instr import MMA_SYNC, find_mma
from layoutalg.errors import CompileError

UNROLLED, TURNS = 64, 8
WARPS = 16
"""Four on each scheduler, where intervals are measured."""

SIZES: Mapping[str, int] = MappingProxyType({"L1": 8 << 10, "L2": 8 << 20, "DRAM": 512 << 20})
STRIDE = 4096 + 128
"""Bytes from an address of the chain to the next: lines of their own, in sets of their own."""

PART = 20_000 * STRIDE
"""Bytes from where a launch starts in the longest chain to where the next one does."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One kernel: `before` it declares, `chain` is what is repeated, with `i` its number, and `opcode` the
    start of what it becomes; the first architecture that has it is `sm`."""

    what: str
    opcode: str
    before: str
    chain: str
    after: str
    sm: int = 75
    warps: int = 1
    helper: str = ""
    level: str = ""


def _arithmetic() -> Iterator[Probe]:
    for opcode, before, ptx, register, after in (
        ("IMAD", "unsigned x = start, y = start | 1;", "mad.lo.u32 %0, %0, %1, %1;", "r", "x"),
        ("FFMA", "float x = start, y = start + 1;", "fma.rn.f32 %0, %0, %1, %1;", "f", "__float_as_uint(x)"),
        ("MUFU", "float x = start;", "ex2.approx.ftz.f32 %0, %0;", "f", "__float_as_uint(x)"),
        ("SHFL", "unsigned x = threadIdx.x;", "shfl.sync.bfly.b32 %0, %0, 1, 31, 0xffffffff;", "r", "x"),
    ):  # fmt: skip
        second = f' : "{register}"(y)' if "y" in before else ""
        yield Probe(
            f"latency {opcode}", opcode, before, f'asm volatile("{ptx}" : "+{register}"(x){second});', after
        )
    yield Probe("latency BAR", "BAR", "unsigned x = start;", "__syncthreads();", "x")


def _memory() -> Iterator[Probe]:
    base = "unsigned x = static_cast<unsigned>(__cvta_generic_to_shared(room));"
    for bits, vector, holes in ((32, "", "%0"), (64, ".v2", "{%0, t0}"), (128, ".v4", "{%0, t0, t1, t2}")):
        ptx = f"{{.reg .b32 t0, t1, t2; ld.volatile.shared{vector}.b32 {holes}, [%0];}}"
        opcode = "LDS" if bits == 32 else f"LDS.{bits}"
        yield Probe(f"latency LDS.{bits}", opcode, base, f'asm volatile("{ptx}" : "+r"(x));', "x")
    for count in (1, 2, 4):
        holes = ", ".join(["%0", *(f"t{i}" for i in range(count - 1))])
        ptx = f"ldmatrix.sync.aligned.m8n8.x{count}.shared.b16 {{{holes}}}, [%0];"
        chain = f'asm volatile("{{.reg .b32 t0, t1, t2; {ptx}}}" : "+r"(x));'
        yield Probe(f"latency LDSM.{count}", "LDSM", base, chain, "x")
    for level, cache in (("L1", "ca"), ("L2", "cg"), ("DRAM", "cg")):
        chain = f'asm volatile("ld.global.{cache}.u64 %0, [%0];" : "+l"(x));'
        after = "static_cast<unsigned>(x)"
        yield Probe(f"latency LDG.{level}", "LDG", "unsigned long long x = data;", chain, after, level=level)


_MMAS = (
    ("f16", "f32", 16, "HMMA.16816.F32"), ("f16", "f16", 16, "HMMA.16816.F16"),
    ("f16", "f32", 8, "HMMA.1688.F32"), ("f16", "f16", 8, "HMMA.1688.F16"),
    ("tf32", "f32", 8, "HMMA.1688.F32.TF32"), ("s8", "s32", 32, "IMMA.16832"),
    ("f64", "f64", 4, "DMMA.16x8x4"), ("f64", "f64", 8, "DMMA.16x8x8"), ("f64", "f64", 16, "DMMA.16x8x16"),
)  # fmt: skip


def _mma() -> Iterator[Probe]:
    for operand, sums, k, opcode in _MMAS:
        mma = find_mma(operand, sums, k)
        instr, (a, b, c) = MMA_SYNC[mma], mma.words
        kind = "float" if sums == "f32" else "unsigned"
        fragments = f"unsigned a[{a}], b[{b}]; "
        fill = "".join(f"{x}[{i}] = start; " for x, n in (("a", a), ("b", b)) for i in range(n))
        second = "b[0]" if b == 1 else "b"
        for what, sets, warps in ((f"latency {opcode}", 1, 1), (f"interval {opcode}", 4, WARPS)):
            total = " + ".join(f"d[{s}][{w}]" for s in range(sets) for w in range(c))
            after = f"__float_as_uint({total})" if kind == "float" else total
            before = f"{fragments}{fill}{kind} d[{sets}][{c}] = {{}}; "
            call = f"{instr.name}(d[i % {sets}], a, {second});"
            yield Probe(what, opcode.partition(".")[0], before, call, after, mma.sm, warps, instr.text)


def probes(sm: int) -> tuple[Probe, ...]:
    """The probes that an architecture has the instructions of."""
    return tuple(p for p in (*_arithmetic(), *_memory(), *_mma()) if p.sm <= sm)


def text_of(p: Probe) -> str:
    """The kernel: out[warp] is the clock before the last UNROLLED repetitions, out[WARPS + warp] after."""
    helper = f"__device__ __forceinline__ {p.helper}" if p.helper else ""
    return f"""typedef unsigned u32; typedef unsigned f16x2; typedef unsigned bf16x2;
{helper}
extern "C" __global__ void probe(long long* out, unsigned long long data, unsigned start) {{
    __shared__ __align__(128) unsigned room[1024];
    const unsigned first = static_cast<unsigned>(__cvta_generic_to_shared(room));
    for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) room[i] = first;
    __syncthreads();
    {p.before}
    long long begin = 0, end = 0;
    for (int turn = 0; turn < {TURNS}; ++turn) {{
        __syncthreads();
        begin = clock64();
        #pragma unroll
        for (int i = 0; i < {UNROLLED}; ++i) {{ {p.chain} }}
        asm volatile("" :: "r"({p.after}) : "memory");
        end = clock64();
    }}
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = begin, out[{WARPS} + threadIdx.x / 32] = end;
    if ({p.after} == 0x12345678u) out[{2 * WARPS}] = 1;
}}
"""


def compiled(p: Probe, arch: str) -> Any:
    """Its machine code.  Raises CompileError where that does not hold the instruction so many times."""
    cubin = compile_cubin(text_of(p), "probe", arch)
    (code,) = parse_sass(disassemble(cubin.image))
    parts = set(p.opcode.split("."))
    count = sum(parts <= set(i.opcode.split(".")) for i in code.instructions)
    if count < UNROLLED:
        raise CompileError(f"{p.what}: {count} of {p.opcode} where {UNROLLED} are repeated", log=text_of(p))
    return cubin


def chained(nbytes: int) -> Any:
    """A buffer of addresses, each of the next of a ring through it."""
    import cupy

    steps = max(2, nbytes // STRIDE)
    data = cupy.zeros(nbytes // 8 + STRIDE, dtype=cupy.uint64)
    at = cupy.arange(steps, dtype=cupy.uint64) * (STRIDE // 8)
    data[at] = data.data.ptr + 8 * cupy.roll(at, -1)
    return data


def measure(p: Probe, arch: str) -> float:
    """Cycles per instruction: of a chain by one warp, or of a scheduler's between two."""
    import cupy
    import numpy

    module = cupy.cuda.Module()
    module.load(compiled(p, arch).image)
    function, out = module.get_function("probe"), cupy.zeros(2 * WARPS + 1, dtype=cupy.int64)
    data = chained(SIZES[p.level]) if p.level else None
    least = float("inf")
    flush = cupy.zeros(64 << 20, dtype=cupy.float32) if p.level == "DRAM" else None
    for launch in range(5):
        if flush is not None:
            flush.sum()
        start = launch * PART if p.level == "DRAM" else 0
        first = numpy.uint64(data.data.ptr + start if data is not None else 0)
        function((1,), (32 * p.warps,), (out, first, numpy.uint32(0)))
        cycles = float(out[WARPS : WARPS + p.warps].max() - out[: p.warps].min())
        per_scheduler = UNROLLED * max(1, p.warps // 4)
        least = min(least, cycles / per_scheduler)
    return least


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    asked, arch, rows = parser.parse_args(args), require_gpu().arch, list[str]()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    source = f"tests/gpu/latency_probe.py on an {name}, {datetime.date.today().isoformat()}"
    for p in probes(int(arch.removeprefix("sm_").removesuffix("a"))):
        rows.append(json.dumps({
            "arch": arch.removesuffix("a"), "what": p.what, "value": round(measure(p, arch), 2),
            "provenance": "measured", "source": source,
        }))  # fmt: skip
        print(rows[-1], flush=True)
    if asked.json:
        asked.json.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
