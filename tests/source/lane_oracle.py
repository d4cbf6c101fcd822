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

Elements of its array `g` in global memory are random numbers, others for each index, line, turn and call.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from layoutalg.analysis import wavefronts
from layoutalg.arch import find_arch
from layoutalg.errors import CompileError
from layoutalg.source import SourceAccess, read_kernel, reading
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.machine import ASKED, Touch
from layoutalg.source.terms import SIZE, ZERO, sizes, table, values, variable
from layoutalg.testing import compile_shared

HEAD = "#define LOOP\n#define TURN\n#define CALL\n#define ENTER\n"
"""In front of the CUDA text; the lines of a text count from behind it."""

SHARED = "__shared__ int s[4096];"
GLOBAL = "__device__ int g[64];"

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
static std::vector<long> loads_;
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
static unsigned long hash_() {
    unsigned long h = 1469598103934665603ul;
    for (long p : path_) { h ^= (unsigned long)p; h *= 1099511628211ul; h ^= h >> 29; }
    return h;
}
static void record_(long line, long offset, long bytes, bool store) {
    rows_.push_back({kernel_, line, thread_, offset, bytes, store, hash_()});
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
struct Found_ {
    Index_ where;
    int operator=(int value) { return value; }
    operator int() const {
        unsigned long h = (hash_() ^ where.line * 131 ^ where.at) * 0x9e3779b97f4a7c15ul;
        long value = (h >> 40) % 47 - 5;
        loads_.insert(loads_.end(), {thread_, where.line, value, (long)path_.size()});
        loads_.insert(loads_.end(), path_.begin(), path_.end());
        return value;
    }
};
struct Source_ { Found_ operator[](Index_ where) const { return {where}; } };
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
Loads: TypeAlias = "dict[tuple[int, tuple[int, ...], tuple[int, ...]], dict[int, int | None]]"
"""By line, lines of the calls around and turns of the loops: what each thread loads, None of several."""


class Touched(dict[tuple[int, bool], Counter[Lanes]]):
    """By (line, whether it is a store): the byte offsets of a warp's lanes, and how often they occur."""

    loads: Loads

    def __init__(self) -> None:
        super().__init__()
        self.loads = {}

    def __missing__(self, key: tuple[int, bool]) -> Counter[Lanes]:
        return self.setdefault(key, Counter())


def _host_text(case: Case, number: int) -> str:
    body = case.text.replace(SHARED, "Recorder_ s;").replace(GLOBAL, "Source_ g;")
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
        'extern "C" long run(long number) { kernel_ = number; rows_.clear(); loads_.clear(); '
        "blockDim = {1, 1, 1}; "
        "gridDim = {1, 1, 1}; switch (number) {" + "\n".join(runs) + "} return rows_.size(); }\n"
        'extern "C" const Row* result() { return rows_.data(); }\n'
        'extern "C" const long* loads(long* count) { *count = loads_.size(); return loads_.data(); }'
    )
    library = compile_shared("\n".join(parts), flags=FLAGS)
    library.run.restype, library.run.argtypes = ctypes.c_long, [ctypes.c_long]
    library.result.restype = ctypes.POINTER(_Row)
    library.loads.restype = ctypes.POINTER(ctypes.c_long)
    out = []
    for number in range(len(cases)):
        count = library.run(number)
        raw = np.zeros((0, 7), dtype=np.int64)
        if count:
            words = ctypes.cast(library.result(), ctypes.POINTER(ctypes.c_long))
            raw = np.ctypeslib.as_array(words, (count, 7)).copy()
        out.append(_grouped(raw))
        words = library.loads(ctypes.byref(length := ctypes.c_long()))
        out[-1].loads = _loads(words[: length.value])
    return out


def _loads(words: list[int]) -> Loads:
    """What each thread loads, of (thread, line, value, length of the path, path) again and again."""
    found: Loads = {}
    at = 0
    while at < len(words):
        thread, line, value, length = words[at : at + 4]
        path, at = words[at + 4 : at + 4 + length], at + 4 + length
        calls, turns = tuple(-p for p in path if p < 0), tuple(p % 100000 for p in path if p >= 0)
        threads = found.setdefault((line, calls, turns), {})
        threads[thread] = value if threads.get(thread, value) == value else None
    return found


def _grouped(rows: NDArray[np.int64]) -> Touched:
    """Rows of one kernel, by line and verb."""
    groups: dict[tuple[int, ...], list[int | None]] = defaultdict(lambda: [None] * 32)
    again: dict[tuple[int, ...], int] = defaultdict(int)
    for _, line, thread, offset, _, store, path in rows.tolist():
        turn = again[line, store, path, thread]  # of a loop that jumps make
        again[line, store, path, thread] += 1
        groups[line, store, path, turn, thread // 32][thread % 32] = offset
    found = Touched()
    for (line, store, *_), lanes in groups.items():
        found[line, bool(store)][tuple(lanes)] += 1
    return found


@dataclass
class Told:
    """What is read of a text: touches, counts of every line, lines that are not read, and notes.

    `open` are lines whose counts depend on numbers that are loaded, with the most ways that they are said to
    have, or 0 where that depends on the numbers too.  `most` are lines of which the lanes are not known, and
    `bounds` are of those whose address data decides.
    """

    touches: list[Touch] = field(default_factory=list)
    counts: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)
    open: dict[tuple[int, bool], int] = field(default_factory=dict)
    most: set[tuple[int, bool]] = field(default_factory=set)
    unread: dict[int, str] = field(default_factory=dict)
    bounds: dict[tuple[int, bool], tuple[int, int]] = field(default_factory=dict)
    accesses: int = 0
    note: str = ""
    threads: int = 64

    def wrong(self, ran: Touched) -> list[Any]:
        """The lines that are said to be read and are not what was run; none of a kernel read in part."""
        if self.note:
            return []
        out: list[Any] = []
        touched = self.touched(ran.loads)
        for key in {*self.counts, *ran}:
            here = ran.get(key, Counter())
            if key[0] in self.unread:
                low, high = self.bounds.get(key, (0, 32))
                if any(not low <= _wavefronts(key[1], lanes) <= high for lanes in here):
                    out.append((key, f"other wavefronts than {low} to {high}"))
                continue
            said = self.counts.get(key, (0, 0))
            taken = sum(times * _wavefronts(key[1], lanes) for lanes, times in here.items())
            most = max((_ways(key[1], lanes) for lanes in here), default=1)
            if key in self.most:
                if not _within(here, touched[key]):
                    out.append((key, "other addresses than those of all lanes that may come"))
            elif key not in self.open and said != (sum(here.values()), taken):
                out.append((key, said, (sum(here.values()), taken)))
            elif touched[key] != here:
                out.append((key, "other addresses"))
            if most > (self.open.get(key) or most):
                out.append((key, f"{self.open[key]} ways at most, and {most} as it is run"))
        return out

    def touched(self, loads: Loads) -> Touched:
        """What is read, with the numbers that a run has loaded."""
        found, threads = Touched(), Launch((self.threads, 1, 1), None).threads
        for touch in self.touches:
            if touch.line not in self.unread:
                _lanes(touch, threads, loads, found[touch.line, touch.op.startswith("st")])
        return found


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


class _Kept(reading._Reading):
    """A reading that keeps its touches as they were read, before numbers have values."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.as_read = _AS_READ

    def _executed(self, *given: Any, **options: Any) -> Any:
        reader, failed = super()._executed(*given, **options)
        if not options:
            self.as_read += reader.touches
        return reader, failed


_AS_READ: list[Touch] = []


def told(cases: Sequence[Case]) -> list[Told]:
    """What layoutalg.source reads of some texts, which are parsed as one: launched alike, with one n."""
    text, starts = HEAD, []
    for number, case in enumerate(cases):
        text += f"namespace k_{number} {{\n"
        starts.append(text.count("\n"))
        text += f"{case.text}\n}}\n"
    _AS_READ.clear()
    with mock.patch.object(reading, "_Reading", _Kept):
        whole = read_kernel(text, cases[0].threads, sets={"n": cases[0].n})
    out = [Told(threads=cases[0].threads) for _ in cases]
    for note in whole.notes:
        out[int(note.split("::")[0].removeprefix("k_"))].note = note
    for access in whole.memory:
        at = bisect.bisect_left(starts, access.line) - 1
        key = access.line - starts[at], access.op.startswith("st")
        out[at].accesses += access.array != "g"
        if not access.read and access.array != "g":
            out[at].unread.setdefault(key[0], access.why or "")
            if access.bounds is not None:
                out[at].bounds[key] = access.bounds
        elif access.instructions and access.array == "s":
            a, b = out[at].counts.get(key, (0, 0))
            out[at].counts[key] = a + access.instructions, b + (access.total or 0)
            if any(name.startswith(ASKED) for name in access.sizes):
                out[at].most.add(key)
            if access.sizes:
                known = out[at].open.get(key, access.ways)
                out[at].open[key] = 0 if access.depends or not known else max(known, access.ways or 1)
    for touch in _AS_READ:
        at = bisect.bisect_left(starts, touch.line) - 1
        if touch.array == "s":
            line, function = touch.line - starts[at], str(starts[at])
            out[at].touches.append(replace(touch, line=line, function=function))
    return out


_MOST_TURNS = 48
"""The turns of a loop that a loaded number ends: all such numbers are less."""


def _within(ran: Counter[Lanes], most: Counter[Lanes]) -> bool:
    """Whether each instruction that was run is one of `most`, or of a part of its lanes."""
    left = most.copy()
    for lanes in sorted(ran.elements(), key=lambda lanes: lanes.count(None)):
        alike = (w for w in left if all(a in (None, b) for a, b in zip(lanes, w, strict=True)))
        if (wider := max(alike, key=lambda w: w.count(None), default=None)) is None:
            return False
        left -= Counter({wider: 1})
    return True


def _lanes(touch: Touch, threads: dict[str, Any], loads: Loads, found: Counter[Lanes]) -> None:
    """Every warp's addresses in every turn of the loops."""
    count = len(threads["thread"])
    opened = {
        name: 1
        if name.startswith(SIZE + ASKED)
        else functools.partial(_loaded, name, int(touch.function), count, loads)
        for name in (SIZE + each for each in sizes(touch.offset, *touch.conditions))
    }
    for turn in itertools.product(*(range(min(n, _MOST_TURNS)) for _, n in touch.turns)):
        env = threads | {name: n for (name, _), n in zip(touch.turns, turn, strict=True)} | opened
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


def _loaded(name: str, start: int, count: int, loads: Loads, *turns: Any) -> NDArray[np.int64]:
    """What the threads have loaded in a turn; 0 where one of them did not, 1 << 40 where two numbers."""
    line, *calls = (int(n) - start for n in re.findall(r"line (\d+)", name))
    here = loads.get((line, tuple(reversed(calls)), tuple(int(turn) + 1 for turn in turns)), {})
    found = (here.get(thread, 0) for thread in range(count))
    return np.array([1 << 40 if value is None else value for value in found], dtype=np.int64)


@functools.lru_cache(maxsize=1 << 16)
def _ways(store: bool, lanes: Lanes) -> int:
    """The n of an instruction's n-way conflict."""
    touch = Touch(1, 1, f"{'st' if store else 'ld'}.shared.b32", "s", ZERO, 4, (), ())
    shift = min(x for x in lanes if x is not None) // 128 * 128
    offsets = np.array([0 if x is None else x - shift for x in lanes])
    on = np.array([x is not None for x in lanes]).astype(np.int64)
    lane = variable("thread", 0, 31)
    touch = replace(touch, offset=table(lane, offsets), conditions=(table(lane, on),))
    return cost_of(touch, Launch((32, 1, 1), None), find_arch("sm_90")).ways


@functools.lru_cache(maxsize=1 << 16)
def _wavefronts(store: bool, lanes: Lanes) -> int:
    shift = min(x for x in lanes if x is not None) // 128 * 128
    return wavefronts(
        f"{'st' if store else 'ld'}.shared.b32", [None if x is None else x - shift for x in lanes]
    )
