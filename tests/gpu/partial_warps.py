"""Wavefronts of accesses by a part of a warp: what an H200 counts, for tests/data/h200_partial_warps.jsonl.

python -m tests.gpu.partial_warps out.jsonl     one launch under ncu for each pattern
python -m tests.gpu.partial_warps launch        the launches alone: the process that ncu watches

A pattern has an instruction, the lanes that execute it, and an offset for each.  Lanes are every second,
fourth, eighth one, a few, or drawn; offsets are equal, in sequence, in one bank, equal in pairs, or drawn
from a few.  Two counts are written: `wavefronts` of the pipe, which the model states, and `by_instruction`,
which the tool attributes to the instruction, and which is another number for some loads.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.gpu.counters import BY_INSTRUCTION, METRICS, count_launches
from tests.gpu.timing import write_lines

SEED, DRAWN, FEW = 20261123, 45, 6
LANES = range(32)
MASKS = {
    "every fourth": range(0, 32, 4), "every second": range(0, 32, 2), "every eighth": range(0, 32, 8),
    "every sixteenth": range(0, 32, 16), "one": (5,), "first and last": (0, 31), "four": range(4),
    "every fourth, from 1": range(1, 32, 4), "two of eight": [n for n in LANES if n % 8 < 2],
    "low half": range(16), "every fourth of the low half": range(0, 16, 4), "0 and 4": (0, 4),
    "0 and 8": (0, 8),
}  # fmt: skip
OPS = {
    "LDS32": "ld.shared.b32 {%0}, [%4];", "LDS64": "ld.shared.v2.b32 {%0, %1}, [%4];",
    "LDS128": "ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];", "STS64": "st.shared.v2.b32 [%4], {%0, %1};",
    "STS128": "st.shared.v4.b32 [%4], {%0, %1, %2, %3};",
}  # fmt: skip
"""The text of an instruction, by its name in the data."""

KERNEL = r"""
extern "C" __global__ void __launch_bounds__(32) probe_{op}(
    const unsigned* offsets, unsigned lanes, unsigned* out
) {{
    __shared__ __align__(1024) unsigned memory[2048];
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(memory)) + offsets[threadIdx.x];
    unsigned a = 1, b = 2, c = 3, d = 4;
    if (lanes >> threadIdx.x & 1) {{
        asm volatile("{text}" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : "r"(at) : "memory");
    }}
    out[threadIdx.x] = a ^ b ^ c ^ d;
}}
"""


class Pattern(NamedTuple):
    """An instruction of the data, and the offset of each lane; None of lanes that do not execute it."""

    op: str
    name: str
    offsets: tuple[int | None, ...]


def patterns() -> Iterator[Pattern]:
    """The same ones every time: all masks by all kinds of offsets, then drawn ones."""
    rng = random.Random(SEED)
    for op, width in (("LDS128", 16), ("LDS64", 8)):
        for name, lanes in MASKS.items():
            kinds = (("equal", 0, 1), ("in sequence", width, 1), ("in one bank", 128, 1))
            for kind, step, of in (*kinds, ("equal in pairs", width, 2)):
                places = {lane: step * (n // of) for n, lane in enumerate(lanes)}
                yield _pattern(op, f"{name}, {kind}", places)
        for _ in range(DRAWN):
            yield _drawn(rng, op, width, rng.randint(1, 31), rng.choice((1, 2, 3, 4, 8, 32)))
    for op, width in (("LDS32", 4), ("STS64", 8), ("STS128", 16)):
        for _ in range(FEW):
            yield _drawn(rng, op, width, rng.randint(1, 12), 4)


def _drawn(rng: random.Random, op: str, width: int, lanes: int, places: int) -> Pattern:
    some = [width * rng.randrange(64) for _ in range(places)]
    near = rng.choice((1, 1, 2, 4))  # lanes beside each other that have the same place
    each = [rng.choice(some) for _ in LANES]
    found = {lane: each[lane - lane % near] for lane in rng.sample(LANES, lanes)}
    return _pattern(op, f"{lanes} lanes drawn, {places} places", found)


def _pattern(op: str, name: str, offsets: dict[int, int]) -> Pattern:
    return Pattern(op, name, tuple(offsets.get(lane) for lane in LANES))


def launch() -> None:
    """Launch every pattern once."""
    import cupy

    made = {
        op: cupy.RawModule(code=KERNEL.format(op=op, text=text)).get_function(f"probe_{op}")
        for op, text in OPS.items()
    }
    out = cupy.zeros(32, "u4")
    for p in patterns():
        lanes = sum(1 << n for n, at in enumerate(p.offsets) if at is not None)
        made[p.op]((1,), (32,), (cupy.array([at or 0 for at in p.offsets], "u4"), cupy.uint32(lanes), out))
    cupy.cuda.runtime.deviceSynchronize()


def main(args: list[str]) -> None:
    """See the module's text."""
    if args == ["launch"]:
        launch()
        return
    pipes, rows = {"L": METRICS["ld.shared"][0], "S": METRICS["st.shared"][0]}, list[dict[str, Any]]()
    metrics = (*pipes.values(), BY_INSTRUCTION)
    counted = count_launches("^probe_", metrics, "tests.gpu.partial_warps", "launch")
    for p, found in zip(patterns(), counted, strict=True):
        pipe, by_instruction = (int(found[metric]) for metric in (pipes[p.op[0]], BY_INSTRUCTION))
        rows.append({**p._asdict(), "wavefronts": pipe, "by_instruction": by_instruction})
    write_lines(args[0], rows)
    apart = sum(row["wavefronts"] != row["by_instruction"] for row in rows)
    print(f"{len(rows)} patterns, by instruction another number in {apart}")


if __name__ == "__main__":
    main(sys.argv[1:])
