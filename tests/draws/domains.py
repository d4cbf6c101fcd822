"""Kernels at the edges of what their text says they are right for: drawn, run in two ways, compared.

A trial builds small kernels of one family, reads from their printed comments what a launch may give, draws
such values, at the ends of their ranges and one multiple inside, and runs the kernels in the simulator and as
text on the host, with pointers that are aligned as stated and no better.  Both must give what the definition
gives and leave everything else as it was; values one step outside must be refused.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from layoutalg.codegen.expr import Var
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.launch import check_aligned
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.program import SCRATCH, Kernel, check_integers, dynamic_bytes, lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError
from layoutalg.kernels import FAMILIES, matrix
from layoutalg.kernels.gemm.choice import SIMT, SM80
from layoutalg.kernels.gemm.launches import launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, Major, gemm_problem
from layoutalg.kernels.gemm.tiles import Config
from layoutalg.kernels.move import plan as permute_plan
from layoutalg.kernels.move.problem import normalise
from layoutalg.kernels.rowwise.ways.norm_plan import norm_configs
from layoutalg.reading import parse_index
from tests.draws import matrices, norms, reductions
from tests.draws.permutations import random_problem
from tests.draws.sequences import family_of
from tests.hostshim import run_cuda_text
from tests.judges.agreement import trial
from tests.kernels.gemm.cases import arguments, expected

Values = dict[str, int]
Run = Callable[[Kernel, Mapping[str, Any]], None]

LAUNCH = re.compile(
    r"Launch (.*) blocks? of (\d+) threads(?:, (\d+) bytes of dynamic shared memory)?(?:, for|\.)$"
)
RANGE = re.compile(r"  (\w+) +(\d+)(?: to (\d+)(?:, a multiple of (\d+))?)?$")
BUILT_IN = re.compile(r"  (\w+) +(\d+), built in$")
ADDRESS = re.compile(r"  (\w+) +an address that is a multiple of (\d+)$")
SCALAR = re.compile(r"  (\w+) +the (?:(?:low|high) )?32 bits of the (\w+) \w+$")
CONDITION = re.compile(r"  (.*) <= (.*)$")


@dataclass(frozen=True)
class Stated:
    """What a text says of its launches, as a reader of its comment takes it."""

    grid: tuple[str, ...]
    threads: int
    dynamic: int
    ranges: Mapping[str, tuple[int, int, int]]
    built_in: Mapping[str, int]
    aligned: Mapping[str, int]
    scalars: tuple[str, ...]
    conditions: tuple[tuple[str, str], ...]

    def draw(self, rng: random.Random, fixed: Mapping[str, Sequence[int]]) -> Values:
        """Values that are allowed; those of some names from a list."""
        while True:
            found: Values = {}
            for name, (least, most, step) in self.ranges.items():
                ends = [least, least + step, most, most - step, rng.randrange(least, most + 1, step)]
                found[name] = rng.choice([x for x in fixed.get(name, ends) if least <= x <= most])
            for a, b in self.conditions:  # of a and b, the one that can be made to fit
                if b in found and value(a, found) > found[b]:
                    found[b] = rng.choice((self.ranges[b][1], value(a, found)))
            if self.allows(found):
                return found

    def allows(self, values: Values) -> bool:
        """Whether a launch may give these."""
        for name, (least, most, step) in self.ranges.items():
            if not least <= values[name] <= most or values[name] % step:
                return False
        return all(value(a, values) <= value(b, values) for a, b in self.conditions)


def value(text: str, values: Values) -> int:
    """An expression of a comment, as the library's reader of index expressions takes it."""
    return int(parse_index(text, {n: n for n in values})(**{n: np.int64(x) for n, x in values.items()}))


def stated(text: str) -> Stated:
    """Read the comment of a text.  Every line of the launch must be understood."""
    head = re.sub(r"\n// {5,}", " ", text.split("\n\n")[0])  # a long line goes on further in
    comment = [line[3:] for line in head.splitlines()]
    at = next(n for n, line in enumerate(comment) if line.startswith("Launch "))
    first = LAUNCH.match(comment[at])
    assert first, comment[at]
    grid = first[1][1:-1].split(", ") if ", " in first[1] else [first[1], "1", "1"]
    ranges: dict[str, tuple[int, int, int]] = {}
    built_in: dict[str, int] = {}
    aligned: dict[str, int] = {}
    scalars: list[str] = []
    conditions: list[tuple[str, str]] = []
    for line in comment[at + 1 :]:
        if m := RANGE.match(line):
            ranges[m[1]] = (int(m[2]), int(m[3] or m[2]), int(m[4] or 1))
        elif m := BUILT_IN.match(line):
            built_in[m[1]] = int(m[2])
        elif m := ADDRESS.match(line):
            aligned[m[1]] = int(m[2])
        elif m := SCALAR.match(line):
            scalars.append(m[1])
        elif m := CONDITION.match(line):
            conditions.append((m[1], m[2]))
        else:
            assert line == "A buffer that is written must not overlap another one.", line
    threads, dynamic = int(first[2]), int(first[3] or 0)
    return Stated(
        tuple(grid), threads, dynamic, ranges, built_in, aligned, tuple(scalars), tuple(conditions)
    )  # fmt: skip


def misstated(kernel: Kernel, rng: random.Random) -> list[str]:
    """What a kernel's text says that its declarations do not, or that a launch is not held to."""
    says, wrong = stated(to_cuda(kernel)), []
    declared = {p.name: (p.facts.lo, p.facts.hi, p.multiple) for p in kernel.params if isinstance(p, Var)}
    for name, (least, most, step) in declared.items():
        if name not in says.scalars and says.ranges[name] != (least, most, step if least < most else 1):
            wrong.append(f"{name} is declared {least} to {most} by {step}")
    pointers = {p.name: p.align_bytes for p in kernel.params if not isinstance(p, Var)}
    if pointers != says.aligned or (says.threads, says.dynamic) != (kernel.threads, dynamic_bytes(kernel)):
        wrong.append("pointers, threads or shared memory are not the kernel's")
    words = dict.fromkeys(says.scalars, 7)
    inside = says.draw(rng, {}) if says.ranges else {}
    check_integers(kernel, inside | words)
    try:
        grid = launch_grid(kernel, inside | words)
    except LayoutAlgError:
        grid = None  # more blocks than there can be
    if grid is not None and grid != tuple(value(g, inside) if not g.isdigit() else int(g) for g in says.grid):
        wrong.append(f"the grid at {inside} is {grid}")
    for name, (least, most, step) in says.ranges.items():
        for x in {least - step, most + step, least + 1 if step > 1 else most + 1}:
            if not refused(ShapeError, partial(check_integers, kernel, {**inside, **words, name: x})):
                wrong.append(f"{name} = {x} is not refused")
    for a, b in says.conditions:
        for name, (least, _, _) in says.ranges.items():
            other = {**inside, name: least}
            if not says.allows(other) and not refused(
                ShapeError, partial(check_integers, kernel, other | words)
            ):
                wrong.append(f"{other} is not refused, for {a} <= {b}")
    for name, n in says.aligned.items():
        check_aligned(name, n, 4096 + n)
        if n > 1 and not refused(AlignmentError, partial(check_aligned, name, n, 4096 + n // 2)):
            wrong.append(f"{name} at {n // 2} is not refused")
    return [f"{kernel.name}: {x}" for x in wrong]


def refused(error: type[Exception], call: Callable[[], object]) -> bool:
    """Whether a call raises an error."""
    try:
        call()
    except error:
        return True
    return False


def placed(array: Any, align_bytes: int) -> Any:
    """A copy at an address that is a multiple of so many bytes, and not of twice as many."""
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    room = np.empty(raw.size + 4 * align_bytes, np.uint8)
    start = (align_bytes - room.ctypes.data) % (2 * align_bytes)
    out = room[start : start + raw.size]
    out[:] = raw
    return out.view(array.dtype)


def in_simulator(kernel: Kernel, args: Mapping[str, Any]) -> None:
    """Run what is printed, statement by statement."""
    simulate(lower(kernel), args, trace=False)


def on_host(kernel: Kernel, args: Mapping[str, Any]) -> None:
    """Run the text; arrays are moved to addresses that are aligned as it says."""
    text = to_cuda(kernel)
    says = stated(text)
    moved = {name: placed(args[name], n) for name, n in says.aligned.items()}
    given = [{**args, **moved}[p.name] for p in kernel.params]
    grid = launch_grid(kernel, {name: x for name, x in args.items() if isinstance(x, int)})
    run_cuda_text(text, kernel.name, grid, (says.threads,), given, says.dynamic)
    for name, array in moved.items():
        if not any(p.name == name and not p.writable for p in kernel.params if not isinstance(p, Var)):
            args[name][:] = array


RUNS: Mapping[str, Run] = {"simulator": in_simulator, "text": on_host}


def matrix_trial(name: str, rng: random.Random, draws: int) -> list[str]:
    """A copy or a transpose."""
    chosen = FAMILIES[name]
    width, m, n = rng.choice(("u8", "f16", "f32", "f64", "c128")), rng.randint(1, 90), rng.randint(1, 90)
    m, n = (x + -x % rng.choice((1, 2, 4, 16)) for x in (m, n))
    pads = [rng.choice((0, 0, 1, 2, 8, 16)) for _ in "sd"]
    p = chosen.problem(m, n, width, n + pads[0], (m if name == "transpose" else n) + pads[1])
    kernel = chosen.build(p, rng.choice(chosen.configs(p, "sm_90")))
    says, wrong = stated(to_cuda(kernel)), misstated(kernel, rng)
    for _ in range(draws):
        x = says.draw(rng, {})
        q = replace(p, m=x["m"], n=x["n"], lds=x["lds"], ldd=x["ldd"])
        src, old = matrices.buffers(q, rng.randrange(99))
        for way, run in RUNS.items():
            dst = old.copy()
            run(kernel, {**x, "src": src, "dst": dst})
            if dst.tobytes() != matrix.reference(q, src, old).tobytes():
                wrong.append(f"{name} {width}, the {way} at {x}")
    return wrong


def gemm_trial(name: str, rng: random.Random, draws: int) -> list[str]:
    """A product, whole or in parts, by a small tile."""
    simt = name == "gemm-simt"
    p, c = _product(rng, simt)
    while True:
        try:
            kernels = launches(p, c).kernels
            break
        except LayoutAlgError:
            p, c = _product(rng, simt)
    wrong = [fault for kernel in kernels for fault in misstated(kernel, rng)]
    says = joined([stated(to_cuda(kernel)) for kernel in kernels])
    for _ in range(draws):
        x = says.draw(rng, {"splits": (1, 2, 5)})
        splits = x.get("splits", 1)
        extents: dict[str, Any] = {**x, **says.built_in}
        q = replace(p, **{n: v for n, v in extents.items() if n != "splits"})
        one = sequence_of(q, replace(c, splits=splits), kernels)
        given = arguments(q, rng.randrange(99))
        given["d"][:] = ~np.zeros_like(given["d"])
        want = expected(q, given)
        for way, run in RUNS.items():
            args = given | {"d": given["d"].copy()}
            room = splits * q.m * q.n * q.accumulator.nbytes if len(kernels) > 1 else 0
            sums = np.full(room, 255, "u1")  # of a kernel in parts also where a launch has one part
            for kernel, mine in zip(kernels, one.arguments({**args, SCRATCH: sums}), strict=True):
                run(kernel, mine)
            if args["d"].tobytes() != want.tobytes():
                wrong.append(f"{name} {p} {c}, the {way} at {x}")
    return wrong


def joined(parts: Sequence[Stated]) -> Stated:
    """What the launches of several kernels may give together."""
    whole = parts[0]
    for one in parts[1:]:
        ranges = dict(whole.ranges)
        for name, (least, most, step) in one.ranges.items():
            a, b, c = ranges.get(name, (least, most, step))
            by = math.lcm(step, c)
            ranges[name] = (-(-max(a, least) // by) * by, min(b, most) // by * by, by)
        whole = replace(whole, ranges=ranges, conditions=(*whole.conditions, *one.conditions))
    return whole


MAJORS: tuple[Major, Major] = ("k", "mn")


def _product(rng: random.Random, simt: bool) -> tuple[GemmProblem, Config]:
    dtype = rng.choice(("f32", "f32", "f64") if simt else ("f16", "f16", "bf16", "tf32", "s8"))
    extents = [(rng.randint(1, 140), 8 * rng.randint(1, 18), 64 * rng.randint(1, 2)) for _ in "mnk"]
    m, n, k = map(rng.choice, extents)
    a, b = rng.choice(MAJORS), rng.choice(MAJORS)
    rows = {"lda": k if a == "k" else m, "ldb": k if b == "k" else n, "ldc": n, "ldd": n}
    wider: dict[str, Any] = {name: least + rng.choice((0, 0, 0, 1, 3, 8, 16)) for name, least in rows.items()}
    p = gemm_problem(
        m, n, k, dtype, a_major=a, b_major=b, **wider, reads_c=rng.random() < 0.3, bias=rng.random() < 0.3,
        activation=rng.choice(("none", "relu")),
    )  # fmt: skip
    splits = rng.choice((1, 1, 3))
    if simt:
        small = rng.choice(SIMT.tiles[-2:])
        return p, replace(SIMT.fitted(p, small), splits=splits)
    c = SM80.fitted(p, rng.choice(SM80.tiles[-2:]))
    return p, replace(c, splits=splits, static_ld=c.static_ld and rng.random() < 0.5)


def tensor_trial(
    drawn: Callable[[random.Random], tuple[Any, Any]], rng: random.Random, draws: int
) -> list[str]:
    """A permute, a reduction or a norm, of one pass or two."""
    p, c = drawn(rng)
    sequence = family_of(p).launches(p, c, "sm_90")
    wrong = [fault for kernel in sequence.kernels for fault in misstated(kernel, rng)]
    for seed in range(draws):
        for way, run in RUNS.items():
            given, judge = trial(p, c, seed)
            scratch = np.full(max(16, sequence.scratch_bytes), 255, "u1")
            for kernel, mine in zip(
                sequence.kernels, sequence.arguments({**given, SCRATCH: scratch}), strict=True
            ):
                run(kernel, mine)
            try:
                judge(given["dst"])
            except AssertionError as error:
                wrong.append(f"{p}, the {way}: {error}")
    return wrong


def _permute(rng: random.Random) -> tuple[Any, Any]:
    p = random_problem(rng, 2000)
    return p, rng.choice(permute_plan.configs(normalise(p)))


def _reduction(rng: random.Random) -> tuple[Any, Any]:
    p = reductions.random_reduction(rng, 2000)
    return p, reductions.random_plan(rng, p).passes[0].config


def _norm(rng: random.Random) -> tuple[Any, Any]:
    p = norms.random_problem(rng, 1500)
    return p, rng.choice(norm_configs(p))


TRIALS: Mapping[str, Callable[[random.Random, int], list[str]]] = {
    "tiled_copy": partial(matrix_trial, "tiled_copy"), "transpose": partial(matrix_trial, "transpose"),
    "gemm-simt": partial(gemm_trial, "gemm-simt"), "gemm-sm80": partial(gemm_trial, "gemm-sm80"),
    "permute": partial(tensor_trial, _permute), "reduce": partial(tensor_trial, _reduction),
    "norm": partial(tensor_trial, _norm),
}  # fmt: skip
"""A trial of each family: of a source of random numbers and how many launches, what was found wrong."""
