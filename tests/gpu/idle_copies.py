"""What the counters say of asynchronous copies that no lane makes, beside the same copies made by all lanes.

python -m tests.gpu.idle_copies        the table; the exit status is 1 where a rule is refuted

A warp comes to 64 copies in a loop, and makes the first ones, under a predicate of each lane.  For every
width and three address patterns:

* the pipe of shared memory takes the same for a copy that no lane makes, whatever its width and addresses;
* the counter of instructions has none for it where copies are of 4 and 8 bytes; where they are of 16 bytes,
  it has what the address registers say, as if all lanes copied.

So a copy of 16 bytes that no lane makes adds up to 32 to the second counter: what is left in its registers,
since the compiler computes addresses under the same predicate (IDLE_COPY of tests/gpu/counters.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from layoutalg.codegen.gpu import device_empty, require_gpu
from tests.gpu.counters import BY_INSTRUCTION, Row, count_launches, table

PIPE = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
EXECUTED = "smsp__inst_executed_op_ldgsts.sum"
COMES, MADE, WIDTHS = 64, (64, 32, 0), (4, 8, 16)
STRIDES = {"in order": (1, 1), "apart in banks": (8, 1), "apart in lines": (1, 32)}
"""Of neighbouring lanes, in shared and in global memory, in copies."""

SOURCE = """
extern "C" __global__ void idle_copies(
    const char* from, int to_stride, int from_stride, int made, int lanes) {
    extern __shared__ char shared[];
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(shared)) + threadIdx.x * to_stride;
    const char* const at = from + threadIdx.x * from_stride;
#pragma unroll 1
    for (int copy = 0; copy < COMES; ++copy) {
        const bool makes = (copy < made) | (threadIdx.x < lanes);
        if (makes)
            asm volatile("cp.async.CACHE.shared.global [%0], [%1], WIDTH;" ::"r"(to), "l"(at) : "memory");
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;");
        __syncthreads();  // without it the compiler branches past the copy instead of predicating it
    }
}
"""


def cases() -> Iterator[tuple[int, str, int]]:
    """Bytes of a copy, the pattern of its addresses, and how many are made."""
    for width in WIDTHS:
        for pattern in STRIDES:
            for made in MADE:
                yield width, pattern, made


def launch() -> None:
    """Launch a warp for every case: what the profiler watches."""
    import cupy

    source = device_empty((1 << 16,), "uint8")
    for width, pattern, made in cases():
        cache = "cg" if width == 16 else "ca"
        text = SOURCE.replace("CACHE", cache).replace("WIDTH", str(width)).replace("COMES", str(COMES))
        to, at = STRIDES[pattern]
        kernel = cupy.RawKernel(text, "idle_copies")
        kernel(
            (1,), (32,), (source, *map(cupy.int32, (to * width, at * width, made, 0))), shared_mem=8 * 16 * 32
        )
    cupy.cuda.get_current_stream().synchronize()


def rows() -> Iterator[Row]:
    """The counters of both rules beside what they should say, from the launch that makes every copy."""
    metrics = (PIPE, BY_INSTRUCTION, EXECUTED)
    seen = count_launches("^idle_copies$", metrics, "tests.gpu.idle_copies", "launch")
    found = dict(zip(cases(), seen, strict=True))
    for (width, pattern, made), counts in found.items():
        if made == COMES:
            continue
        label = f"{width} bytes, {pattern}, {made} of {COMES} made"
        yield Row(label, "cp.async", "instructions", COMES, round(counts[EXECUTED]))
        whole, none = found[width, pattern, COMES], found[WIDTHS[0], "in order", 0]
        by_instruction = whole[BY_INSTRUCTION] * (1 if width == 16 else made / COMES)
        yield Row(label, "by instruction", "wavefronts", round(by_instruction), round(counts[BY_INSTRUCTION]))
        apart = (whole[PIPE] - none[PIPE]) / COMES
        yield Row(label, "pipe", "wavefronts", round(none[PIPE] + made * apart), round(counts[PIPE]))


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a rule differs from a counter."""
    require_gpu()
    if args == ["launch"]:
        launch()
        return 0
    return table("copies", rows())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
