"""What memory moves for patterns of loads and stores: counters of DRAM and L2, and times.

python -m tests.gpu.dram_probe times OUT.json                   microseconds of every pattern, in turns
python -m tests.gpu.dram_probe counters OUT.jsonl [NAME ...]    bytes of DRAM under ncu, beside predictions
python -m tests.gpu.dram_probe caches OUT.jsonl [NAME ...]      sectors and requests of L1 and L2 under ncu
python -m tests.gpu.dram_probe launch SPAN,SPAN NAME ...        launch the patterns at each size, for ncu

A pattern is a layout (thread, step) -> byte address, printed as CUDA by layoutalg.indexing; a thread makes
all its loads before it looks at one of them.  Patterns cover SPAN bytes of addresses; counters of DRAM are
those of SPAN less those of half of it: what the L2 held before, and dirty lines that stay in it, drop out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from layoutalg.analysis import Access, DramReport, dram_of
from layoutalg.dtype import dtype
from layoutalg.indexing import code
from layoutalg.layout import Layout, concat, flatten, modes, size
from tests.gpu.counters import count_launches, verdict
from tests.gpu.timing import Turns, flush_buffer, one_stream, write, write_lines

SPAN = 1 << 30
"""Bytes of addresses that a pattern covers where it is timed and where DRAM is counted."""

SMALL = 1 << 25
"""The same where the L1 and the L2 are counted."""

BLOCK, WARPS, STEPS, ROUNDS = 256, 8, 8, 9
AHEAD_CYCLES = 400_000
MOST_OFF = 0.015
"""Of what memory moves, what a counter may be off: dirty lines that stay in the L2."""

GRANULARITY_LIMIT = 0x05
"""cudaLimitMaxL2FetchGranularity."""

DRAM = ("dram__bytes_read.sum", "dram__bytes_write.sum")
CACHES = tuple(
    f"lts__t_{what}_srcunit_tex_op_{way}.sum" for what in ("sectors", "requests") for way in ("read", "write")
)

ONCE = Layout(1, 0)


@dataclass(frozen=True, slots=True)
class Pattern:
    """`op` of `width_bytes` per lane: `lanes` places the threads of a chunk of `chunk_bytes`, `turns` their
    steps in it; `first_bytes` is where the first chunk begins.

    `loose`: counters are near the prediction, not at it, where sectors are filled so late that some were
    written back before, and hints are not always followed.  `granularity` is the limit of the
    L2's fetch granularity to set, 0 for what the device begins with.
    """

    name: str
    op: str
    width_bytes: int
    lanes: Layout
    chunk_bytes: int
    turns: Layout = ONCE
    first_bytes: int = 0
    granularity: int = 0
    loose: bool = False

    def layout(self, span: int) -> Layout:
        """(thread, step) -> byte address less `first_bytes`."""
        unrolled = max(1, STEPS // size(self.turns))
        near = WARPS * self.chunk_bytes
        groups = span // (near * unrolled)
        threads = flatten(concat(self.lanes, Layout((WARPS, groups), (self.chunk_bytes, near * unrolled))))
        return concat(threads, flatten(concat(self.turns, Layout(unrolled, near))))

    @property
    def kernel(self) -> str:
        """The name of its kernel."""
        return f"dram_probe_{self.name}"

    @property
    def loads(self) -> bool:
        """Whether it reads."""
        return not self.op.startswith("st")

    @property
    def fill_bytes(self) -> int | None:
        """What its loads bring, where that is not what the device does by itself."""
        hint = self.op.rpartition("::")[2].removesuffix("B")
        return self.granularity or (int(hint) if hint.isdigit() else None)

    def access(self, span: int) -> Access:
        """The same as an access of bytes of one array."""
        threads, steps = modes(self.layout(span))
        tv = concat(threads, Layout(self.width_bytes, 1), steps)
        op = f"{'ld' if self.loads else 'st'}.global.b{8 * self.width_bytes}"
        return Access(op, tv, dtype("u8"), base_bytes=self.first_bytes)

    def predicted(self, span: int) -> DramReport:
        """What memory should move for it."""
        return dram_of(Layout(2 * span), self.access(span), fill_bytes=self.fill_bytes)

    def source(self, span: int) -> str:
        """The kernel and its index function."""
        steps = size(modes(self.layout(span))[1])
        at = code(self.layout(span), "cuda", f"at_{self.name}_{span.bit_length()}")
        vector = {1: "u8", 2: "u16", 4: "u32", 8: "v2.u32", 16: "v4.u32"}[self.width_bytes]
        words, kind = max(1, self.width_bytes // 4), "h" if self.width_bytes == 2 else "r"
        names = ", ".join(f"%{n}" for n in range(words))
        held = f"{{{names}}}" if words > 1 else names
        if self.op.startswith("cp.async"):
            body = (
                f'asm volatile("{self.op} [%0], [%1], {self.width_bytes};" :: "r"(room + step * {BLOCK} * '
                f'{self.width_bytes}), "l"(from) : "memory");'
            )
        elif self.loads:
            outs = ", ".join(f'"={kind}"(held[step][{n}])' for n in range(words))
            body = f'asm volatile("{self.op}.{vector} {held}, [%{words}];" : {outs} : "l"(from));'
        else:
            ins = ", ".join(f'"{kind}"(static_cast<word>(thread * 2654435761u + {n}))' for n in range(words))
            body = f'asm volatile("{self.op}.{vector} [%{words}], {held};" :: {ins}, "l"(from) : "memory");'
        wait = 'asm volatile("cp.async.wait_all;" ::: "memory");' if "cp.async" in self.op else ""
        word = "unsigned short" if self.width_bytes == 2 else "unsigned"
        return f"""{at}
extern "C" __global__ void __launch_bounds__({BLOCK}) {self.kernel}_{span.bit_length()}(
    char* data, unsigned* out, unsigned never) {{
    using word = {word};
    __shared__ alignas(16) char shared[{BLOCK * STEPS * 16 if "cp.async" in self.op else 16}];
    const unsigned room = static_cast<unsigned>(__cvta_generic_to_shared(shared))
        + threadIdx.x * {self.width_bytes};
    const unsigned thread = blockIdx.x * {BLOCK}u + threadIdx.x;
    word held[{steps}][{words}] = {{}};
#pragma unroll
    for (unsigned step = 0; step < {steps}; ++step) {{
        char* const from = data + {self.first_bytes} + at_{self.name}_{span.bit_length()}(thread, step);
        {body}
    }}
    {wait}
    unsigned mixed = room == never;
#pragma unroll
    for (unsigned step = 0; step < {steps}; ++step)
        for (unsigned n = 0; n < {words}; ++n) mixed ^= held[step][n];
    if (mixed == never) *out = mixed;
}}
"""


def _patterns() -> Iterator[Pattern]:
    """All patterns, loads and stores of the same kinds first."""
    for op in ("ld", "st"):
        for name, nbytes, lanes, chunk in (
            ("contiguous", 16, Layout(32, 16), 512), ("half", 16, Layout((4, 8), (16, 128)), 1024),
            ("both_halves", 16, Layout((2, 2, 8), (16, 64, 128)), 1024),
            ("sector", 16, Layout((2, 16), (16, 128)), 2048), ("16_bytes", 16, Layout(32, 128), 4096),
            ("16_of_64", 16, Layout(32, 64), 2048), ("16_of_32", 16, Layout(32, 32), 1024),
            ("half_over_two", 16, Layout((4, 8), (16, 128)), 1024),
            ("half_of_256", 16, Layout((4, 8), (16, 256)), 2048),
            ("sector_of_96", 16, Layout((2, 16), (16, 96)), 1536), ("word_of_128", 4, Layout(32, 128), 4096),
            ("words_of_sector", 4, Layout((8, 4), (4, 128)), 512),
            ("rows_of_64_by_400", 4, Layout((16, 16), (4, 400)), 6400), ("words", 4, Layout(32, 4), 128),
        ):  # fmt: skip
            first = 32 if name == "half_over_two" else 0
            yield Pattern(f"{op}_{name}", f"{op}.global", nbytes, lanes, chunk, first_bytes=first)
    sector, half = Layout((2, 16), (16, 128)), Layout((4, 8), (16, 256))
    for name, nbytes, lanes, chunk, turns in (
        ("st_lines_by_steps", 16, sector, 2048, Layout(4, 32)),
        ("st_sectors_by_steps", 16, Layout(32, 128), 4096, Layout(8, 16)),
        ("st_halves_by_steps", 16, Layout(32, 32), 1024, Layout(2, 16)),
        ("st_pairs", 16, Layout((2, 16, 4), (16, 128, 32)), 2048, ONCE),
        ("st_reversed", 16, Layout((2,) * 7, (1024, 512, 256, 128, 64, 32, 16)), 2048, ONCE),
        ("st_interleaved", 16, Layout((32, 4), (64, 16)), 2048, ONCE),
        ("st_words_off_by_16", 4, Layout(32, 4), 128, ONCE),
        ("st_byte_of_128", 1, Layout(32, 128), 4096, ONCE), ("st_byte_of_32", 1, Layout(32, 32), 1024, ONCE),
        ("st_halfwords", 2, Layout(32, 2), 64, ONCE), ("st_pairs_of_words", 8, Layout(32, 8), 256, ONCE),
        ("ld_interleaved", 16, Layout((32, 4), (64, 16)), 2048, ONCE),
        ("ld_lines_by_steps", 16, sector, 2048, Layout(4, 32)),
    ):  # fmt: skip
        first = 16 if name == "st_words_off_by_16" else 0
        yield Pattern(name, f"{name[:2]}.global", nbytes, lanes, chunk, turns, first, loose=name in LOOSE)
    for most in (128, 256):
        name = f"ld_half_of_256_by_{most}"
        yield Pattern(name, f"ld.global.L2::{most}B", 16, half, 2048, loose=name in LOOSE)
    for suffix, op in (
        ("64", "ld.global.L2::64B"), ("128", "ld.global.L2::128B"), ("256", "ld.global.L2::256B"),
        ("nc", "ld.global.nc"), ("unallocated", "ld.global.L1::no_allocate"),
        ("copied", "cp.async.cg.shared.global"), ("copied_128", "cp.async.cg.shared.global.L2::128B"),
    ):  # fmt: skip
        yield Pattern(f"ld_sector_{suffix}", op, 16, sector, 2048)
    for limit in (32, 64, 128):
        yield Pattern(f"ld_sector_limit_{limit}", "ld.global", 16, sector, 2048, granularity=limit)
        yield Pattern(f"st_16_limit_{limit}", "st.global", 16, Layout(32, 128), 4096, granularity=limit)


LOOSE = frozenset({
    "st_sectors_by_steps", "st_halves_by_steps", "st_reversed", "st_interleaved", "st_words_off_by_16",
    "ld_half_of_256_by_256",
})  # fmt: skip
PATTERNS: Mapping[str, Pattern] = {pattern.name: pattern for pattern in _patterns()}


class Launches:
    """The patterns compiled for some spans, and the memory they share."""

    def __init__(self, patterns: Sequence[Pattern], spans: Sequence[int]) -> None:
        import cupy

        text = "\n".join(pattern.source(span) for pattern in patterns for span in spans)
        self.module = cupy.RawModule(code=text, options=("-std=c++17",))
        self.data = cupy.random.RandomState(1).randint(0, 1 << 31, (max(spans) + (1 << 20)) // 4, "i4")
        self.out, self.flush = cupy.zeros(1, "u4"), flush_buffer()
        self.granularity = cupy.cuda.runtime.deviceGetLimit(GRANULARITY_LIMIT)

    def run(self, pattern: Pattern, span: int) -> None:
        """Launch a pattern once."""
        import cupy

        threads = size(modes(pattern.layout(span))[0])
        if threads % BLOCK:
            raise SystemExit(f"{pattern.name}: {threads} threads are no whole number of blocks of {BLOCK}")
        run = self.module.get_function(f"{pattern.kernel}_{span.bit_length()}")
        run((threads // BLOCK,), (BLOCK,), (self.data, self.out, cupy.uint32(0x9E3779B9)))

    def limit(self, pattern: Pattern) -> None:
        """Set the limit of the L2's fetch granularity that a pattern asks for."""
        import cupy

        wanted = pattern.granularity or self.granularity
        if cupy.cuda.runtime.deviceGetLimit(GRANULARITY_LIMIT) != wanted:
            cupy.cuda.runtime.deviceSetLimit(GRANULARITY_LIMIT, wanted)


def launch(spans: Sequence[int], patterns: Sequence[Pattern]) -> None:
    """Launch every pattern at every span: what the profiler watches."""
    import cupy

    launches = Launches(patterns, spans)
    for pattern in patterns:
        launches.limit(pattern)
        for span in spans:
            launches.flush.sum()
            launches.run(pattern, span)
    cupy.cuda.get_current_stream().synchronize()


def times(out: str) -> None:
    """Write and print the median time of every pattern, and the useful bytes per second."""
    rows: list[dict[str, Any]] = []
    with one_stream():
        launches, turns = Launches(list(PATTERNS.values()), [SPAN]), Turns(ROUNDS, cycles=AHEAD_CYCLES)
        print(f"fetch granularity: {launches.granularity}", flush=True)

        found: dict[str, list[float]] = {name: [] for name in PATTERNS}
        for turn in range(ROUNDS + 1):
            for pattern in turns.rng.sample(list(PATTERNS.values()), len(PATTERNS)):
                launches.limit(pattern)
                us = turns.us(lambda p=pattern: launches.run(p, SPAN))  # type: ignore[misc]
                if turn:  # the first loads the kernel
                    found[pattern.name].append(us)
    for name, pattern in PATTERNS.items():
        us, useful = median(found[name]), size(pattern.layout(SPAN)) * pattern.width_bytes
        rows.append({"name": name, "us": us, "useful_bytes": useful, "gb_per_s": useful / us / 1e3})
        print(f"{name:24} {us:9.1f} us {useful / us / 1e3:7.0f} GB/s", flush=True)
    write(out, rows, granularity=launches.granularity)


def counters(out: str, names: Sequence[str], metrics: Sequence[str], spans: Sequence[int]) -> int:
    """Write counters: of the last span, less those of the first of two; the exit status."""
    patterns, words = [PATTERNS[name] for name in names], (",".join(map(str, spans)), *names)
    seen = count_launches("^dram_probe_", metrics, "tests.gpu.dram_probe", "launch", *words)
    if len(seen) != len(patterns) * len(spans):
        raise SystemExit(f"{len(seen)} launches were counted, {len(patterns) * len(spans)} were made")
    rows, wrong = list[dict[str, Any]](), 0
    for n, pattern in enumerate(patterns):
        *less, last = seen[n * len(spans) : (n + 1) * len(spans)]
        row = {name: last[name] - sum(one[name] for one in less) for name in last}
        rows.append(described(pattern, spans) | row)
        wrong += metrics == DRAM and compared(pattern, spans, row)
    write_lines(out, rows)
    return verdict(wrong, len(rows), "patterns") if metrics == DRAM else 0


def described(pattern: Pattern, spans: Sequence[int]) -> dict[str, Any]:
    """What a row of counters is of: the access of each span, in bytes."""
    threads, steps = modes(pattern.layout(spans[-1]))
    return {
        "pattern": pattern.name, "op": pattern.op, "width_bytes": pattern.width_bytes,
        "threads": str(threads), "steps": str(steps), "first_bytes": pattern.first_bytes,
        "fill_bytes": pattern.fill_bytes, "loose": pattern.loose, "spans": list(spans),
    }  # fmt: skip


def compared(pattern: Pattern, spans: Sequence[int], row: Mapping[str, float]) -> bool:
    """Print what was predicted beside what was counted; whether that refutes it."""
    *less, last = (pattern.predicted(span) for span in spans)
    useful = last.useful_bytes - sum(one.useful_bytes for one in less)
    read = last.read_bytes - sum(one.read_bytes for one in less)
    written = last.written_bytes - sum(one.written_bytes for one in less)
    off = max(abs(row[DRAM[0]] - read), abs(row[DRAM[1]] - written)) / (read + written)
    refuted = not pattern.loose and off > MOST_OFF
    said = " refuted" if refuted else " loose" if pattern.loose else ""
    counted, predicted = row[DRAM[0]] / useful, read / useful
    out = f"{pattern.name:24} read per useful byte {counted:8.4f}, predicted {predicted:8.4f}; "
    counted, predicted = row[DRAM[1]] / useful, written / useful
    print(f"{out}written {counted:8.4f}, predicted {predicted:8.4f}; off by {off:.2%}{said}", flush=True)
    return refuted


def main(args: list[str]) -> int:
    """See the module's text."""
    what, where, *names = args
    if what == "launch":
        launch([int(n) for n in where.split(",")], [PATTERNS[name] for name in names])
    elif what == "times":
        times(where)
    else:
        metrics, spans = (DRAM, (SPAN // 2, SPAN)) if what == "counters" else (CACHES, (SMALL,))
        return counters(where, names or list(PATTERNS), metrics, spans)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
