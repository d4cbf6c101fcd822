"""Random kernels with accesses that can be read and others that cannot, and limits on them, from a seed.

A kernel is drawn as a list of pieces.  Each says by itself, without the reader of sources, which memory
spaces it touches and what it costs there, counted by hand: a stride of S floats takes gcd(S, 32) wavefronts
per warp, and one of E floats 4 E sectors.  A piece that no reader can count, because a number or a body is
missing, costs None.  From these a limit is true, false, or open, and no gate may be green where it is false
or open.

    python -m tests.checks.random_gates 300 SEED
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from layoutalg.checks import Outcome, read_checks, run_checks

SHARED, GLOBAL = "shared", "global"


@dataclass(frozen=True)
class Cost:
    """Wavefronts or sectors of all warps that are counted, their ideal, and the worst ratio."""

    total: int
    ideal: int
    ways: int


@dataclass(frozen=True)
class Piece:
    """Statements of a kernel, with what they cost in the spaces that they touch; `plain` ones must be read.

    The text is formatted with {n}, a number of its own, and {S}, a stride.  With `index` there is one more
    load, of 4 bytes per thread, from global memory.
    """

    name: str
    body: str
    top: str = ""
    spaces: tuple[str, ...] = (SHARED,)
    plain: bool = False
    counts: bool = False
    turns: int = 1
    index: bool = False
    block_one: bool = False


S_STORE, G_LOAD = "s[threadIdx.x * {S}] = v;", "v += g[threadIdx.x * {S}];"
PLAIN = (
    Piece("shared store", S_STORE, plain=True, counts=True),
    Piece("shared load", "v += s[threadIdx.x * {S}];", plain=True, counts=True),
    Piece("global load", G_LOAD, spaces=(GLOBAL,), plain=True, counts=True),
    Piece("global store", "o[threadIdx.x * {S}] = v;", spaces=(GLOBAL,), plain=True, counts=True),
    Piece("loop", "for (int i{n} = 0; i{n} < 3; ++i{n}) " + S_STORE, plain=True, counts=True, turns=3),
    Piece(
        "device function", "put{n}(s, v);", "__device__ void put{n}(float* s, float v) {{ " + S_STORE + " }}",
        plain=True, counts=True,
    ),
    Piece("macro", "PUT{n}(threadIdx.x);", "#define PUT{n}(i) s[(i) * {S}] = v", plain=True, counts=True),
)  # fmt: skip
"""Pieces that the reader of sources is known to read."""

COUNTABLE = (
    Piece(
        "constructor", "Tile{n} t{n}(s); t{n}(threadIdx.x) = v;",
        "struct Tile{n} {{ float* p; __device__ explicit Tile{n}(float* q) : p(q) {{}} "
        "__device__ float& operator()(int i) {{ return p[i * {S}]; }} }};",
        counts=True,
    ),
    Piece("lambda", "auto f{n} = [&](int i) {{ s[i * {S}] = v; }}; f{n}(threadIdx.x);", counts=True),
    Piece(
        "function pointer", "void (*f{n})(float*, float) = &to{n}; f{n}(s, v);",
        "__device__ void to{n}(float* s, float v) {{ " + S_STORE + " }}", counts=True,
    ),
    Piece(
        "recursion", "again{n}(s, v, 3);",
        "__device__ void again{n}(float* s, float v, int d) {{ if (d > 0) {{ " + S_STORE
        + " again{n}(s, v, d - 1); }} }}",
        counts=True, turns=3,
    ),
    Piece(
        "goto", "{{ int i{n} = 0; up{n}: " + S_STORE + " if (++i{n} < 3) goto up{n}; }}", counts=True, turns=3
    ),
    Piece("switch", "switch (3) {{ case 3: " + S_STORE + " break; default: v = 2.f; }}", counts=True),
    Piece(
        "address in asm",
        'asm volatile("{{ .reg .u32 a; add.u32 a, %0, 0; st.shared.f32 [a], %1; }}" :: '
        '"r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), "f"(v) : "memory");',
        counts=True,
    ),
    Piece("only in block 1", "if (blockIdx.x == 1) " + S_STORE, counts=True, block_one=True),
    Piece(
        "template of a type", "Holder{n}<float> h{n}{{s}}; h{n}.put(threadIdx.x, v);",
        "template <class T> struct Holder{n} {{ T* p; "
        "__device__ void put(int i, T v) {{ p[i * {S}] = v; }} }};",
        counts=True,
    ),
    Piece("dereference", "*(s + threadIdx.x * {S}) = v;", counts=True),
    Piece("member of a struct", "struct {{ float* p; }} m{n}; m{n}.p = s; m{n}.p[threadIdx.x * {S}] = v;",
          counts=True),
    Piece("reference", "float& r{n} = s[threadIdx.x * {S}]; r{n} = v;", counts=True),
    Piece("volatile", "((volatile float*)s)[threadIdx.x * {S}] = v;", counts=True),
    Piece("comma and conditional", "(v > 0.f ? v : v), s[threadIdx.x * {S}] = v;", counts=True),
    Piece(
        "destructor", "End{n} e{n}; e{n}.p = s;",
        "struct End{n} {{ float* p; __device__ ~End{n}() {{ p[threadIdx.x * {S}] = 1.f; }} }};", counts=True,
    ),
    Piece(
        "destructor of a temporary", "Over{n}{{s}};",
        "struct Over{n} {{ float* p; __device__ ~Over{n}() {{ p[threadIdx.x * {S}] = 1.f; }} }};",
        counts=True,
    ),
    Piece(
        "destructor of a member", "Outer{n} o{n}{{}}; o{n}.part.p = s;",
        "struct Part{n} {{ float* p; __device__ ~Part{n}() {{ p[threadIdx.x * {S}] = 1.f; }} }}; "
        "struct Outer{n} {{ Part{n} part; }};", counts=True,
    ),
    Piece(
        "label in asm",
        'asm volatile("{{ bra.uni L{n}; L{n}: st.shared.f32 [%0], %1; }}" :: '
        '"r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), "f"(v) : "memory");', counts=True,
    ),
    Piece(
        "body of a constructor", "Put{n} c{n}(s);",
        "struct Put{n} {{ __device__ Put{n}(float* q) {{ q[threadIdx.x * {S}] = 1.f; }} }};", counts=True,
    ),
    Piece(
        "copy of an object", "Copied{n} c{n}(s); Copied{n} d{n} = c{n};",
        "struct Copied{n} {{ float* p; __device__ Copied{n}(float* q) : p(q) {{}} __device__ "
        "Copied{n}(const Copied{n}& o) : p(o.p) {{ p[threadIdx.x * {S}] = 1.f; }} }};", counts=True,
    ),
    Piece(
        "pointer to a method", "By{n} y{n}; y{n}.p = s; void (By{n}::*m{n})() = &By{n}::put; (y{n}.*m{n})();",
        "struct By{n} {{ float* p; __device__ void put() {{ p[threadIdx.x * {S}] = 1.f; }} }};", counts=True,
    ),
    Piece(
        "placement new", "new (s + threadIdx.x * {S}) F{n}{{v}};",
        "struct F{n} {{ float x; "
        "static __device__ void* operator new(unsigned long, void* p) {{ return p; }} }};",
        counts=True,
    ),
    Piece(
        "asm of a macro",
        'asm volatile(ST{n} " [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(s + threadIdx.x * {S})), '
        '"f"(v) : "memory");', '#define ST{n} "st.shared.f32"', counts=True,
    ),
    Piece(
        "function of a template", "call{n}([&](auto i) {{ s[i * {S}] = v; }});",
        "template <class F> __device__ void call{n}(F f) {{ f(threadIdx.x); }}", counts=True,
    ),
    Piece("range of an array", "float* r{n}[1] = {{s}}; for (float* q : r{n}) q[threadIdx.x * {S}] = v;",
          counts=True),
    Piece(
        "operators of an object", "At{n} a{n}; a{n}.p = s; *a{n} = v;",
        "struct At{n} {{ float* p; __device__ float& operator*() {{ return p[threadIdx.x * {S}]; }} }};",
        counts=True,
    ),
    Piece("array of one pointer", "float* a{n}[2] = {{s, o}}; a{n}[0][threadIdx.x * {S}] = v;", counts=True),
)  # fmt: skip
"""Pieces that a reader may count, or may leave unread; it may not leave them out, nor count anything else."""

OPAQUE = (
    Piece("declared function", "foreign{n}(s);", "__device__ void foreign{n}(float*);"),
    Piece("undeclared function", "library{n}(s, g, 32);", spaces=(SHARED, GLOBAL)),
    Piece("unknown template", "View{n}<float> w{n}(s); w{n}.at(threadIdx.x) = v;"),
    Piece("unknown type", "Store{n} u{n}; u{n}.write(s + threadIdx.x, v);"),
    Piece("pointer at run time", "float* p{n} = n > 3 ? s : o; p{n}[threadIdx.x] = v;",
          spaces=(SHARED, GLOBAL)),
    Piece("array of pointers", "float* a{n}[2] = {{s, o}}; a{n}[n & 1][threadIdx.x * 32] = v;",
          spaces=(SHARED, GLOBAL)),
    Piece("declared operator", "Op{n} d{n}; d{n}.p = s; d{n}[threadIdx.x * 32] = v;",
          "struct Op{n} {{ float* p; __device__ float& operator[](int); }};"),
    Piece("declared constructor", "Made{n} d{n}(s);", "struct Made{n} {{ __device__ Made{n}(float*); }};"),
    Piece("result of a declared function", "float* p{n} = pick{n}(s); p{n}[threadIdx.x * 32] = v;",
          "__device__ float* pick{n}(float*);"),
    Piece("loaded index", "s[idx[threadIdx.x]] = v;", index=True),
    Piece("loaded index of global memory", "v += g[idx[threadIdx.x] & 7];", spaces=(GLOBAL,)),
    Piece("missing number", "s[(n * threadIdx.x) & 1023] = v;"),
    Piece("missing number in global memory", "v += g[n * threadIdx.x];", spaces=(GLOBAL,)),
    Piece("condition on a parameter", "if (n > 3) s[threadIdx.x * 32] = v;"),
    Piece("turns of a parameter", "for (int i{n} = 0; i{n} < n; ++i{n}) s[threadIdx.x * 32] = v;"),
    Piece("while of a load", "while (g[threadIdx.x] > v) {{ s[threadIdx.x * 32] = v; v += 1.f; }}",
          spaces=(SHARED, GLOBAL)),
    Piece("switch of a parameter", "switch (n) {{ case 1: s[threadIdx.x * 32] = v; break; default:; }}"),
    Piece("goto past an access", "if (n > 3) goto end{n}; s[threadIdx.x * 32] = v; end{n}: v += 1.f;"),
    Piece("backward goto", "int i{n} = 0; up{n}: s[threadIdx.x * 32] = v; if (++i{n} < n) goto up{n};"),
    Piece(
        "asm without a known instruction",
        'asm volatile("atom.shared.exch.b32 %0, [%1], %0;" : "+f"(v) : '
        '"r"((unsigned)__cvta_generic_to_shared(s)) : "memory");',
    ),
    Piece(
        "bulk copy in asm",
        'asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, '
        '[%2];" :: "r"((unsigned)__cvta_generic_to_shared(s)), "l"(g), "r"(0) : "memory");',
        spaces=(SHARED, GLOBAL),
    ),
    Piece("library copy", "cooperative_groups::memcpy_async(tb, s, g, 128);", spaces=(SHARED, GLOBAL)),
    Piece("memcpy", "memcpy(s, g, 128);", spaces=(SHARED, GLOBAL)),
    Piece("memset", "memset(s, 0, 128);"),
    Piece("library class", "BlockReduce{n}(tmp{n}).Sum(s[threadIdx.x]);"),
    Piece("float atomic", "atomicAdd(&s[threadIdx.x * 32], v);"),
    Piece("global atomic", "atomicMax((int*)o + n, 3);", spaces=(GLOBAL,)),
    Piece("vector of an unknown place", "*reinterpret_cast<float4*>(s + 4 * n) = make_float4(v, v, v, v);"),
    Piece("read-only load of an unknown place", "v += __ldg(g + n);", spaces=(GLOBAL,)),
    Piece("early return of a parameter", "if (n == 7) return; s[threadIdx.x * 32] = v;"),
    Piece("union", "union {{ float* p; long q; }} w{n}; w{n}.q = (long)s + n; w{n}.p[threadIdx.x] = v;"),
    Piece("method without a body", "Sink{n} z{n}; z{n}.put(s, v);",
          "struct Sink{n} {{ __device__ void put(float*, float); }};"),
    Piece("method without a body of an object that holds an address", "Held{n} y{n}; y{n}.p = s; y{n}.run();",
          "struct Held{n} {{ float* p; __device__ void run(); }};"),
    Piece("virtual function", "base{n}->put(s, v);", "struct Base{n} {{ __device__ virtual void put(float*, "
          "float) = 0; }}; __device__ Base{n}* base{n};", spaces=(SHARED, GLOBAL)),
)  # fmt: skip
"""Pieces that cannot be counted without what the source does not say."""

LIMITS = (
    "wavefronts", "ideal", "ways", "free", "sectors", "efficiency", "unread", "accesses", "baseline",
)  # fmt: skip

HEAD = "#include <cooperative_groups.h>\n#include <cub/cub.cuh>\n"


@dataclass(frozen=True)
class Drawn:
    """A piece with its number and stride."""

    piece: Piece
    number: int
    stride: int

    def cost(self, space: str, warps: int, blocks: int) -> Cost | None:
        """What it costs in a space; None where that is not to be known, no warps where it is not executed."""
        if space not in self.piece.spaces:
            loads = 4 * warps * blocks if self.piece.index and space == GLOBAL else 0
            return Cost(loads, loads, 1)
        if not self.piece.counts:
            return None
        times = self.piece.turns * warps * (blocks if not self.piece.block_one else 1)
        if space == SHARED:
            ways = math.gcd(self.stride, 32) if self.stride else 1
            return Cost(times * ways, times, ways)
        return Cost(times * 4 * max(1, self.stride), times * 4, self.stride)


@dataclass(frozen=True)
class Gate:
    """A source, its check and its baseline, and what is true of them."""

    seed: int
    source: str
    config: str
    baseline: dict[str, dict[str, Any]]
    pieces: tuple[Drawn, ...]
    warps: int
    grid: int | None
    other_unread: bool
    limits: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether all that is in it must be read."""
        return not self.other_unread and all(d.piece.plain for d in self.pieces)

    def truth(self, limit: str, *, pieces: Sequence[Drawn] | None = None) -> bool | None:
        """Whether a limit holds of some pieces, by default all of them; None where nobody can tell."""
        mine = self.pieces if pieces is None else pieces
        closed = pieces is not None or not self.other_unread
        if limit.startswith("no worse"):  # the baseline is worse than anything that is drawn
            return True if closed and all(self._known(mine, x) for x in (SHARED, GLOBAL)) else None
        if limit == "conflict-free":
            limit = "ways <= 1"
        name, relation, bound = limit.split()
        if name == "unread":
            return True if closed and all(d.piece.plain for d in mine) else None
        if name == "accesses":
            return True if closed and all(d.piece.counts for d in mine) else None
        space = SHARED if name in ("wavefronts", "ways") else GLOBAL
        if not closed or not self._known(mine, space):
            return None
        every = [d.cost(space, self.warps, self.grid or 1) for d in mine]
        costs = [c for c in every if c is not None and c.total]
        if not costs:
            return None
        value: Fraction | int
        if name in ("wavefronts", "sectors"):
            value = sum(c.total for c in costs)
        elif name == "ways":
            value = max(c.ways for c in costs)
        else:
            value = min(Fraction(c.ideal, c.total) for c in costs)
        ideal = sum(c.ideal for c in costs)
        right = ideal if bound == "ideal" else Fraction(bound.rstrip("%")) / (100 if "%" in bound else 1)
        return {"<=": value <= right, ">=": value >= right, "<": value < right}[relation]

    def _known(self, pieces: Sequence[Drawn], space: str) -> bool:
        """Whether each of the pieces can be counted in a space, by the blocks that are."""
        if self.grid is None and any(d.piece.block_one and space in d.piece.spaces for d in pieces):
            return False
        return all(d.cost(space, 1, 1) is not None for d in pieces)


def draw(seed: int) -> Gate:
    """The gate of a seed."""
    rng = random.Random(f"gates {seed}")
    kinds = rng.choice(((PLAIN,), (PLAIN, COUNTABLE), (PLAIN, OPAQUE), (PLAIN, COUNTABLE, OPAQUE), (OPAQUE,)))
    pieces = []
    for number in range(rng.randint(1, 5)):
        piece = rng.choice(rng.choice(kinds))
        strides = (0, 1, 2, 3, 5, 8, 32, 33) if piece.spaces == (SHARED,) else (1, 2, 4, 8)
        pieces.append(Drawn(piece, number, rng.choice(strides)))
    warps, grid = rng.choice((1, 2)), rng.choice((None, 2, 3))
    other, named = rng.choice((False, False, False, True)), rng.choice((False, True))
    source = _source(pieces, other)
    gate = Gate(seed, source, "", {}, tuple(pieces), warps, grid, other and not named, ())
    limits = tuple(_limits(rng, gate))
    lines = ["[[kernel]]", "name = 'c'", "file = 'k.cu'", f"block = {32 * warps}"]
    lines += [f"grid = {grid}"] if grid else []
    lines += ["kernel = 'k'"] if named else []
    lines.append(f"limits = [{', '.join(repr(limit) for limit in limits)}]")
    bad = {"unread": 99, "wavefronts": 10**9, "ways": 32, "sectors": 10**9, "efficiency": 0}
    before = {"c": bad} if any(limit.startswith("no worse") for limit in limits) else {}
    return Gate(
        seed, source, "\n".join(lines), before, tuple(pieces), warps, grid, other and not named, limits
    )


def _source(pieces: Sequence[Drawn], other: bool) -> str:
    """A kernel of the pieces; with `other` a template beside it of which no instance is known."""
    tops = [d.piece.top.format(n=d.number, S=d.stride) for d in pieces if d.piece.top]
    bodies = [f"  {d.piece.body.format(n=d.number, S=d.stride)}" for d in pieces]
    head = "__global__ void k(float* o, const float* __restrict__ g, const int* idx, int n) {"
    start = "  __shared__ float s[2048]; float v = 1.f; auto tb = cooperative_groups::this_thread_block();"
    hidden = "template <int T> __global__ void hidden(float* p) { __shared__ float q[T]; q[0] = p[0]; }"
    return HEAD + "\n".join([*tops, *([hidden] if other else []), head, start, *bodies, "}"]) + "\n"


def _limits(rng: random.Random, gate: Gate) -> list[str]:
    """One to four limits of all kinds; bounds are close to what the pieces cost where that is known."""
    found = []
    for name in rng.sample(LIMITS, rng.randint(1, 4)):
        relation = rng.choice(("<=", "<=", ">="))
        space = GLOBAL if name == "sectors" else SHARED
        costs = [d.cost(space, gate.warps, gate.grid or 1) for d in gate.pieces]
        total = sum(c.total for c in costs if c is not None)
        found.append(
            {
                "wavefronts": f"wavefronts {relation} {max(0, total + rng.choice((-1, 0, 4)))}",
                "ideal": "wavefronts <= ideal",
                "ways": f"ways <= {rng.choice((1, 1, 2, 32))}",
                "free": "conflict-free",
                "sectors": f"sectors <= {max(0, total + rng.choice((-1, 0, 8)))}",
                "efficiency": f"efficiency >= {rng.choice((12, 50, 100))}%",
                "unread": f"unread <= {rng.choice((0, 0, 0, 2, 9))}",
                "accesses": f"accesses >= {rng.choice((0, 1))}",
                "baseline": "no worse than the baseline",
            }[name]
        )
    return found


def run(gate: Gate) -> Outcome:
    """The outcome of a gate."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text(gate.source)
        file = read_checks(gate.config, folder=Path(folder))
        (outcome,) = run_checks(file, baseline=gate.baseline or None)
    return outcome


def faults(gate: Gate, outcome: Outcome) -> list[str]:
    """What is wrong with the outcome: green that was not earned, and what is refused although it is read."""
    allowed = any(limit.startswith("unread <= ") and limit != "unread <= 0" for limit in gate.limits)
    plain = [d for d in gate.pieces if d.piece.plain]
    wrong = []
    for one in outcome.examined:
        true, grows = gate.truth(one.limit), one.limit.startswith(("wavefronts >=", "unread", "accesses"))
        if one.verdict == "passed" and not allowed and true is not True and not (
            one.limit == "unread <= 0" and all(d.piece.counts for d in gate.pieces)
        ):  # fmt: skip
            wrong.append(f"{one.limit} passed, and is {'open' if true is None else 'false'}")
        if one.verdict == "passed" and allowed and not grows and gate.truth(one.limit, pieces=plain) is False:
            wrong.append(f"{one.limit} passed, and what must be read breaks it")
        if one.verdict == "failed" and true is True:
            wrong.append(f"{one.limit} failed, and is true")
        if one.verdict != "passed" and true is True and gate.plain:
            wrong.append(f"{one.limit} is {one.verdict}, and everything is read")
    green = outcome.status == "passed"
    if green and not (outcome.examined and all(one.verdict == "passed" for one in outcome.examined)):
        wrong.append("it is green, and not all of its limits passed")
    if green and not allowed and any(d.piece in OPAQUE for d in gate.pieces):
        scope = {space for d in gate.pieces if d.piece in OPAQUE for space in d.piece.spaces}
        spoken = {_space(limit) for limit in gate.limits}
        if None in spoken or spoken & scope:
            wrong.append("it is green, with accesses in its scope that nobody can read")
    return wrong


def _space(limit: str) -> str | None:
    """The memory space that a limit speaks of, None for all of them."""
    name = limit.split()[0]
    if name in ("wavefronts", "ways", "conflict-free"):
        return SHARED
    return GLOBAL if name in ("sectors", "efficiency") else None


def sweep(count: int, seed: int, said: Callable[[str], object] = lambda text: None) -> dict[str, int]:
    """How many gates of the seeds from `seed` on are of each status, and how many have faults, each said."""
    totals = {"passed": 0, "failed": 0, "undecided": 0, "unanswered": 0, "faults": 0}
    for number in range(seed, seed + count):
        gate = draw(number)
        outcome = run(gate)
        totals[outcome.status] += 1
        wrong = faults(gate, outcome)
        totals["faults"] += bool(wrong)
        if wrong:
            said(f"seed {number}: {'; '.join(wrong)}\n{gate.config}\n{gate.source}")
    return totals


if __name__ == "__main__":
    print(sweep(int(sys.argv[1]), int(sys.argv[2]), print))
