"""Mutants: the program that is printed, with one small mistake each, and what verification says of them.

Every statement of a program is a site.  At a site one of these is done, once:

    drop        an instruction, a barrier, a wait or a commit is left out
    unguard     the body of a branch is run by all lanes, its other side by none
    skip        the body of a branch is run by none
    part        one of the predicates of a condition is left out
    turn        a loop has a turn more, or a turn less
    operand     a number given to an instruction is another: a wait's, a mask, a factor; a guard always holds
    place       an access is one access further on
    source      a register that is read is the next one of its array

And, to see whether a statement is executed at all: "trip", an error in its place.

A mutant is verified as the right program is, up to the first check that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import pytest

from layoutalg.codegen.expr import And, Const, Expr, simplify
from layoutalg.codegen.instr import Instr
from layoutalg.codegen.program import (
    Arg,
    Do,
    For,
    Global,
    If,
    Kernel,
    MemRef,
    RegRef,
    Stmt,
    Unroll,
    lower,
    walk,
)
from layoutalg.codegen.program import lowering as printing
from layoutalg.codegen.program.checks import check
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.checks.record import Check

KINDS = ("drop", "unguard", "skip", "part", "turn", "operand", "place", "source")


def _trip(machine: Any, group: Any) -> None:
    raise group.fail("runs")


TRIP = Instr("trip", (), "", _trip)
"""What is an error wherever it is executed."""

FORTY_TWO = 0x42280000
"""42.0f: what a factor or a start of 0 is mistaken for."""

Checks = Callable[[], Iterator[Check]]
"""Makes the checks of a problem, one after the other."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: in kernel number `kernel` of those of a problem, at statement `site` in `walk`'s order.

    `which` of the mistakes of its kind there; `text` is the statement.
    """

    kernel: int
    site: int
    kind: str
    which: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.which} at {self.kernel}.{self.site}: {self.text}"


def mutants_of(number: int, kernel: Kernel, kinds: tuple[str, ...] = KINDS) -> Iterator[Mutant]:
    """Every mutant of a lowered program."""
    for site, s in enumerate(walk(kernel.body)):
        for kind in kinds:
            for n in range(len(_made(s, kind))):
                yield Mutant(number, site, kind, n, str(s))


def mutated(kernel: Kernel, mutant: Mutant) -> Kernel:
    """The lowered program with the mistake."""
    sites = iter(range(1 << 30))
    return replace(kernel, body=_body(kernel.body, sites, mutant))


def _body(body: tuple[Stmt, ...], sites: Iterator[int], mutant: Mutant) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        if next(sites) == mutant.site:
            out += _made(s, mutant.kind)[mutant.which]
            for _ in walk((s,)):
                next(sites)
        else:
            out.append(_inside(s, sites, mutant))
    return tuple(out)


def _inside(s: Stmt, sites: Iterator[int], mutant: Mutant) -> Stmt:
    match s:
        case For() | Unroll():
            return replace(s, body=_body(s.body, sites, mutant))
        case If():
            yes = _body(s.body, sites, mutant)
            return replace(s, body=yes, orelse=_body(s.orelse, sites, mutant))
    return s


def _made(s: Stmt, kind: str) -> list[tuple[Stmt, ...]]:
    """What may stand in the place of a statement, for one kind of mistake."""
    match kind, s:
        case "drop", Do():
            return [()]
        case "trip", Do():
            return [(Do(TRIP, ()),)]
        case "unguard", If():
            return [s.body]
        case "skip", If():
            return [s.orelse]
        case "part", If(condition=And() as condition):
            parts = _conjuncts(condition)
            return [(replace(s, condition=_all([p for p in parts if p is not left])),) for left in parts]
        case "turn", For(var=var, count=count, body=body):
            return [(replace(s, count=count + 1),), (replace(s, body=(If(var + 1 < count, body),)),)]
        case (("operand" | "place" | "source"), Do(instr, args)):
            found: list[tuple[Stmt, ...]] = []
            for n, (operand, arg) in enumerate(zip(instr.operands, args, strict=True)):
                other = _other(kind, operand.role, operand.bytes, arg)
                if other is not None:
                    found.append((Do(instr, (*args[:n], other, *args[n + 1 :])),))
            return found
    return []


def _other(kind: str, role: str, nbytes: int, arg: Arg) -> Arg | None:
    """The argument of a mistaken call, None where this kind makes no mistake of it."""
    match kind, arg:
        case "operand", int():
            return arg * 2 if arg else 1
        case "operand", _ if isinstance(arg, Expr):
            return Const(1 if role == "guard" else FORTY_TWO if arg == Const(0) else 0)
        case "place", MemRef(buffer, index):
            step = nbytes // buffer.element_bytes if isinstance(buffer, Global) else nbytes
            return MemRef(buffer, index + step)
        case "source", RegRef(reg, index, count) if role == "in":
            for mode, at in enumerate(index):
                extent, step = reg.shape[mode], count if mode == len(reg.shape) - 1 else 1
                if extent > step:
                    moved = simplify((at + step) % extent)
                    return RegRef(reg, (*index[:mode], moved, *index[mode + 1 :]), count)
    return None


def _conjuncts(e: Expr) -> list[Expr]:
    return [*_conjuncts(e.a), *_conjuncts(e.b)] if isinstance(e, And) else [e]


def _all(predicates: list[Expr]) -> Expr:
    total = predicates[0]
    for p in predicates[1:]:
        total = total & p
    return total


@contextmanager
def planted(mutant: Mutant | None, *, alone: bool = False) -> Iterator[None]:
    """Within, the kernels of a problem are lowered to the mutant, or a kernel that stands `alone` is."""
    count = repeat(0) if alone else iter(range(1 << 30))

    def wrongly(kernel: Kernel) -> Kernel:
        right = lower(kernel)
        if mutant is None or next(count) != mutant.kernel:
            return right
        wrong = mutated(right, mutant)
        check(wrong)
        return wrong

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printing, "lower", wrongly)
        yield


def verdict(problems: tuple[Checks, ...], mutant: Mutant | None) -> str:
    """What catches a mutant, over the problems that its program serves; "" where nothing does."""
    for checks in problems:
        with planted(mutant):
            try:
                failed = next((c.name for c in checks() if not c.passed), None)
            except SimulationError:
                return "hazard"
            except LayoutAlgError:
                return "refused"
        if failed is not None:
            return "result" if failed.startswith("result") else "accesses"
    return ""
