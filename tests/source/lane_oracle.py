"""What kernels touch, by running their text: g++ compiles it, and every thread of a block runs alone.

The idea.  The text that is read as CUDA is ordinary C++ once its qualifiers are defined away.  Its one shared
array `s` becomes a recorder: every `s[index]` leaves (line, thread, byte offset) and the turns of the loops
and the lines of the calls that it stands in.  Accesses of a warp that agree in line, turns and calls are one
instruction, whose wavefronts are counted by the definition.

The text marks what a run cannot see by itself, with macros that are empty in CUDA:

    LOOP        before a loop, in a block of its own
    TURN        first in the body of a loop
    CALL        before a statement that calls a function, on the same line
    ENTER       first in the body of such a function
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from layoutalg.analysis import wavefronts
from layoutalg.errors import CompileError
from layoutalg.source import SourceAccess, read_kernel
from layoutalg.source.costs import Launch
from layoutalg.source.machine import Touch
from layoutalg.source.terms import values
from layoutalg.testing import compile_shared

HEAD = "#define LOOP\n#define TURN\n#define CALL\n#define ENTER\n"
"""In front of the CUDA text; the lines of a text count from behind it."""

SHARED = "__shared__ int s[4096];"

_MACHINE = """
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>
struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;
static long thread_, kernel_;
struct Row { long kernel, line, thread, offset, bytes, store; unsigned long path; };
static std::vector<Row> rows_;
static std::vector<long> path_;
static long call_;
static unsigned long steps_;
struct Loop_ {
    explicit Loop_(long line) { path_.push_back(line * 100000); }
    ~Loop_() { path_.pop_back(); }
    void turn() { ++path_.back(); if (++steps_ > 50000000ul) __builtin_trap(); }
};
struct Enter_ {
    Enter_() { path_.push_back(-call_); }
    ~Enter_() { path_.pop_back(); }
};
static void record_(long line, long offset, long bytes, bool store) {
    unsigned long h = 1469598103934665603ul;
    for (long p : path_) { h ^= (unsigned long)p; h *= 1099511628211ul; h ^= h >> 29; }
    rows_.push_back({kernel_, line, thread_, offset, bytes, store, h});
}
struct Index_ {
    long at, line;
    Index_(long at, int line = __builtin_LINE()) : at(at), line(line) {}
};
struct Element_ {
    Index_ where;
    int operator=(int value) { record_(where.line, 4 * where.at, 4, true); return value; }
    operator int() const { record_(where.line, 4 * where.at, 4, false); return 0; }
};
struct Pointer_ {
    long at;
    Element_ operator[](Index_ where) const { return {Index_(at + where.at, (int)where.line)}; }
    Pointer_ operator+(long n) const { return {at + n}; }
    Pointer_ operator-(long n) const { return {at - n}; }
    Pointer_& operator+=(long n) { at += n; return *this; }
    Pointer_& operator-=(long n) { at -= n; return *this; }
    Pointer_& operator++() { ++at; return *this; }
};
struct Recorder_ {
    Element_ operator[](Index_ where) const { return {where}; }
    Pointer_ operator+(long n) const { return {n}; }
};
template <class A, class B> static auto min(A a, B b) { return b < a ? b : a; }
template <class A, class B> static auto max(A a, B b) { return a < b ? b : a; }
static unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int n = 0; n < 32; ++n) y |= (x >> n & 1) << (31 - n);
    return y;
}
static unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
static int abs(int x) { return x < 0 ? -x : x; }
static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static int __ffs(int x) { return __builtin_ffs(x); }
#define __global__ static
#define __device__
#define __forceinline__ inline
#define LOOP Loop_ loop_(__LINE__);
#define TURN loop_.turn();
#define CALL call_ = __LINE__;
#define ENTER Enter_ enter_;
static void __syncthreads() {}
"""

FLAGS = ("-fwrapv", "-fno-strict-aliasing", "-O0", "-std=c++20")


@dataclass(frozen=True)
class Case:
    """A text with one kernel `k`, its threads along x, and its scalar n."""

    text: str
    threads: int = 64
    n: int = 5


class _Row(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("kernel", "line", "thread", "offset", "bytes",
                                                        "store", "path"))  # fmt: skip


Lanes: TypeAlias = "tuple[int | None, ...]"
Touched: TypeAlias = "dict[tuple[int, bool], Counter[Lanes]]"
"""By (line, whether it is a store): the byte offsets of a warp's lanes, and how often they occur."""


def _host_text(case: Case, number: int) -> str:
    body = case.text.replace(SHARED, "Recorder_ s;")
    return f'namespace k_{number} {{\n#line 1 "case{number}"\n{body}\n}}'


def lines_with_errors(case: Case) -> list[int]:
    """The lines of a text in which the compiler finds an error; those behind its end count as its last."""
    try:
        compile_shared(f"{_MACHINE}{_host_text(case, 0)}", flags=FLAGS)
    except CompileError as error:
        if error.log.startswith("does not load"):  # it calls what is declared and has no body
            return []
        found = re.findall(r"^case0:(\d+):\d+: (?:fatal )?error:", error.log, re.MULTILINE)
        return [min(int(line), case.text.count("\n") + 1) for line in found] or [1]
    return []


def ran(cases: Sequence[Case]) -> list[Touched]:
    """What each text touches when it is run; lines count from 1."""
    parts, runs = [_MACHINE], []
    for number, case in enumerate(cases):
        parts.append(_host_text(case, number))
        runs.append(
            f"case {number}: for (thread_ = 0; thread_ < {case.threads}; ++thread_) {{ "
            f"threadIdx.x = thread_; blockDim.x = {case.threads}; path_.clear(); k_{number}::k({case.n}); }} "
            "break;"
        )
    parts.append(
        'extern "C" long run(long number) { kernel_ = number; rows_.clear(); blockDim = {1, 1, 1}; '
        "gridDim = {1, 1, 1}; switch (number) {" + "\n".join(runs) + "} return rows_.size(); }\n"
        'extern "C" const Row* result() { return rows_.data(); }'
    )
    library = compile_shared("\n".join(parts), flags=FLAGS)
    library.run.restype, library.run.argtypes = ctypes.c_long, [ctypes.c_long]
    library.result.restype = ctypes.POINTER(_Row)
    out = []
    for number in range(len(cases)):
        count = library.run(number)
        raw = np.zeros((0, 7), dtype=np.int64)
        if count:
            words = ctypes.cast(library.result(), ctypes.POINTER(ctypes.c_long))
            raw = np.ctypeslib.as_array(words, (count, 7)).copy()
        out.append(_grouped(raw))
    return out


def _grouped(rows: NDArray[np.int64]) -> Touched:
    """Rows of one kernel, by line and verb."""
    groups: dict[tuple[int, ...], list[int | None]] = defaultdict(lambda: [None] * 32)
    again: dict[tuple[int, ...], int] = defaultdict(int)
    for _, line, thread, offset, _, store, path in rows.tolist():
        turn = again[line, store, path, thread]  # of a loop that jumps make
        again[line, store, path, thread] += 1
        groups[line, store, path, turn, thread // 32][thread % 32] = offset
    found: Touched = defaultdict(Counter)
    for (line, store, *_), lanes in groups.items():
        found[line, bool(store)][tuple(lanes)] += 1
    return found


@dataclass
class Told:
    """What is read of a text: touched lanes, counts of every line, lines that are not read, and notes."""

    touched: Touched = field(default_factory=lambda: defaultdict(Counter))
    counts: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    accesses: int = 0
    note: str = ""

    def wrong(self, ran: Touched) -> list[Any]:
        """The lines that are said to be read and are not what was run; none of a kernel read in part."""
        if self.note:
            return []
        out: list[Any] = []
        for key in {*self.counts, *ran}:
            if key[0] in self.unread:
                continue
            here = ran.get(key, Counter())
            said = self.counts.get(key, (0, 0))
            taken = sum(times * _wavefronts(key[1], lanes) for lanes, times in here.items())
            if said != (sum(here.values()), taken):
                out.append((key, said, (sum(here.values()), taken)))
            elif self.touched.get(key, Counter()) != here:
                out.append((key, "other addresses"))
        return out


def readings(
    bodies: Sequence[str], head: str = "", arch: str = "sm_90", block: int = 64, n: int = 5
) -> list[list[SourceAccess]]:
    """The accesses of some bodies, each of a kernel with threads t, n, int* g and s: parsed as one text."""
    text, starts = head, []
    for number, body in enumerate(bodies):
        starts.append(text.count("\n") + 1)
        text += f"namespace k_{number} {{ __global__ void k(int n, int* g) {{ {SHARED} "
        text += f"const int t = threadIdx.x;\n{body}\n}} }}\n"
    memory = read_kernel(text, block, sets={"n": n}, arch=arch).memory
    ends = [*starts[1:], text.count("\n") + 1]
    return [[a for a in memory if first <= a.line < last] for first, last in zip(starts, ends, strict=True)]


def told(cases: Sequence[Case]) -> list[Told]:
    """What layoutalg.source reads of some texts, which are parsed as one: launched alike, with one n."""
    text, starts = HEAD, []
    for number, case in enumerate(cases):
        text += f"namespace k_{number} {{\n"
        starts.append(text.count("\n"))
        text += f"{case.text}\n}}\n"
    reading = read_kernel(text, cases[0].threads, sets={"n": cases[0].n})
    out = [Told() for _ in cases]
    for note in reading.notes:
        out[int(note.split("::")[0].removeprefix("k_"))].note = note
    for access in reading.memory:
        at = bisect.bisect_left(starts, access.line) - 1
        key = access.line - starts[at], access.op.startswith("st")
        out[at].accesses += 1
        if not access.read:
            out[at].unread.setdefault(key[0], access.why or "")
        elif access.instructions and access.array == "s":
            a, b = out[at].counts.get(key, (0, 0))
            out[at].counts[key] = a + access.instructions, b + (access.total or 0)
    threads = Launch(reading.block, None).threads
    for touch in reading.touches:
        at = bisect.bisect_left(starts, touch.line) - 1
        if touch.array == "s":
            _lanes(touch, threads, out[at].touched[touch.line - starts[at], touch.op.startswith("st")])
    return out


def _lanes(touch: Touch, threads: dict[str, Any], found: Counter[Lanes]) -> None:
    """Every warp's addresses in every turn of the loops."""
    count = len(threads["thread"])
    for turn in itertools.product(*(range(n) for _, n in touch.turns)):
        env = threads | {name: n for (name, _), n in zip(touch.turns, turn, strict=True)}
        env |= {"bx": 0, "by": 0, "bz": 0}
        on = np.ones(count, dtype=bool)
        for condition in touch.conditions:
            on &= np.broadcast_to(np.asarray(values(condition, env)) != 0, count)
        offsets = np.broadcast_to(np.asarray(values(touch.offset, env)), count)
        for first in range(0, count, 32):
            here = zip(offsets[first : first + 32], on[first : first + 32], strict=True)
            lanes = [int(x) if active else None for x, active in here]
            if any(x is not None for x in lanes):
                found[tuple(lanes + [None] * (32 - len(lanes)))] += 1


@functools.lru_cache(maxsize=1 << 16)
def _wavefronts(store: bool, lanes: Lanes) -> int:
    shift = min(x for x in lanes if x is not None) // 128 * 128
    return wavefronts(
        f"{'st' if store else 'ld'}.shared.b32", [None if x is None else x - shift for x in lanes]
    )
