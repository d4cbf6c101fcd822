"""One mistake at a time in what orders a kernel: its barriers, phases, stages, descriptors and fences.

A mutant is a finished tile program in which one statement that orders others is different.  Every place of
every such statement is taken, so that a kernel with more of them has more mutants:

    left out, twice            arrivals, waits, fences, commits, copies, named and block barriers
    swapped                    with the statement behind it
    arguments                  stage, barrier, parity, bytes, count of a wait, number of a named barrier,
                               start of a tile, coordinate of a box, descriptor, accumulation
    conditions                 who executes it: all, nobody, the next thread, one turn earlier or later
    loops                      one turn more, one fewer
    counts                     arrivals of a phase

    for mutant in mutants(kernel):
        mutant.label, mutant.kernel
    for mutant in islice(mutants(kernel, Random(7)), 100):      some of them, without making the others
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from layoutalg.codegen.expr import Const, Expr, Var, as_expr, minus, substitute, variables
from layoutalg.codegen.program import (
    BarrierRef,
    Do,
    For,
    If,
    Kernel,
    Let,
    MemRef,
    Roles,
    Shared,
    Stmt,
    Unroll,
    walk,
)
from tests.mutants.planting import rewrite

ORDERS = (
    "mbarrier", "fence", "wgmma", "named", "bulk_", "tma_", "block_sync", "warp_sync", "cluster_", "grid_",
)  # fmt: skip
"""How the names of instructions begin that order others, or are ordered by them alone."""

TWICE = ("mbarrier_arrive", "mbarrier_init", "tma_", "wgmma_commit", "bulk_commit", "wgmma_m", "named_arrive")
"""Those of which a second one may do harm."""

PHASES = ("slot", "parity", "count", "before", "stage", "phase", "step")
"""How the names of variables begin that say which stage and which phase."""

STARTS = (16, 32, 128, 1024)
"""Bytes by which a tile in shared memory starts too late."""


@dataclass(frozen=True)
class Mutant:
    """A kernel with one mistake, and what it is: where it stands and what was done."""

    label: str
    kernel: Kernel


def mutants(kernel: Kernel, rng: Random | None = None) -> Iterator[Mutant]:
    """Every mutant of a kernel, in a random order if one is given, no two with the same statements; labels
    are unique."""
    seen, labels = {str(kernel)}, set()
    every = list(_all(kernel))
    for what, body, barriers in rng.sample(every, len(every)) if rng else every:
        other = replace(kernel, body=body, barriers=barriers)
        text = f"{other} {[b.count for b in barriers]}"
        if text in seen or str(other) in seen:
            continue
        seen.add(text)
        label, n = what, 2
        while label in labels:
            label, n = f"{what} ({n})", n + 1
        labels.add(label)
        yield Mutant(label, other)


def _all(kernel: Kernel) -> Iterator[tuple[str, tuple[Stmt, ...], Any]]:
    for what, body in _edited(kernel.body, _Around(kernel)):
        yield what, body, kernel.barriers
    for i, bar in enumerate(kernel.barriers):
        for count in {bar.count - 1, bar.count + 1} - {0}:
            other = replace(bar, count=count)
            body = _with_barrier(kernel, bar, other)
            changed = (*kernel.barriers[:i], other, *kernel.barriers[i + 1 :])
            yield f"{bar.name}: {count} arrivals for {bar.count}", body, changed


def orders(s: Stmt) -> bool:
    """Whether a statement, or one in it, orders others."""
    return any(isinstance(x, Do) and x.instr.name.startswith(ORDERS) for x in walk((s,)))


# --- bodies --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Around:
    """What stands around a statement: the kernel, and the thread's index there."""

    kernel: Kernel
    where: str = ""
    thread: Var | None = None


def _edited(body: tuple[Stmt, ...], around: _Around) -> Iterator[tuple[str, tuple[Stmt, ...]]]:
    for i, s in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        if not orders(s) and not (isinstance(s, Let) and s.var.name.startswith(PHASES)):
            continue
        for what, other in _statement(s, around):
            yield f"{around.where}{what}", (*before, *other, *after)
        if after and orders(s) and orders(after[0]):
            what = f"{around.where}{_short(after[0])} before {_short(s)}"
            yield what, (*before, after[0], s, *after[1:])
        for what, changed in _inside(s, around):
            yield what, (*before, changed, *after)


def _inside(s: Stmt, around: _Around) -> Iterator[tuple[str, Stmt]]:
    match s:
        case For() | Unroll() | If():
            for what, body in _edited(s.body, around):
                yield what, replace(s, body=body)
            if isinstance(s, If):
                for what, body in _edited(s.orelse, around):
                    yield what, replace(s, orelse=body)
        case Roles(parts):
            for i, part in enumerate(parts):
                inner = replace(around, where=f"{part.name}: ", thread=part.thread)
                for what, body in _edited(part.body, inner):
                    yield what, Roles((*parts[:i], replace(part, body=body), *parts[i + 1 :]))
        case _:
            pass


def _statement(s: Stmt, around: _Around) -> Iterator[tuple[str, tuple[Stmt, ...]]]:
    match s:
        case Do():
            name = _short(s)
            yield f"no {name}", ()
            if s.instr.name.startswith(TWICE):
                yield f"{name} twice", (s, s)
            for what, args in _arguments(s, around):
                yield f"{name}: {what}", (replace(s, args=args),)
        case If(condition, body, orelse):
            yield f"{_short(s)} without its condition", body
            yield f"{_short(s)} never", orelse
            thread = around.kernel.tid if around.thread is None else around.thread
            if thread in variables(condition):
                by_next = substitute(condition, {thread: (thread + 1) % (thread.facts.hi + 1)})
                yield f"{_short(s)} by the last thread", (replace(s, condition=by_next),)
                both = substitute(condition, {thread: thread // 2 * 2})
                yield f"{_short(s)} by two threads", (replace(s, condition=both),)
            for var in variables(condition) - {thread}:
                for change in (1, -1) if var.kind == "loop" else ():
                    shifted = substitute(condition, {var: var + 1 if change > 0 else minus(var, Const(1))})
                    yield f"{_short(s)} at {var} + {change}", (replace(s, condition=shifted),)
        case For(_, count):
            yield f"{s}: one turn more", (replace(s, count=count + 1),)
            yield f"{s}: one turn fewer", (replace(s, count=minus(count, Const(1))),)
        case Let(var, value) if isinstance(value, Expr):
            yield f"{s}: one more", (Let(var, (value + 1) % (var.facts.hi + 1)),)
        case _:
            pass


def _short(s: Stmt) -> str:
    """A statement, as a label names it: what it begins with."""
    inner = next((x for x in walk((s,)) if isinstance(x, Do)), s)
    if isinstance(inner, Do):
        first = next((f" {arg}" for arg in inner.args if isinstance(arg, BarrierRef)), "")
        number = "".join(f" {arg}" for arg in inner.args[:1] if isinstance(arg, int))
        return f"{inner.instr.name}{first}{number}"
    return str(inner)


# --- arguments -----------------------------------------------------------------------------------------


def _arguments(s: Do, around: _Around) -> Iterator[tuple[str, tuple[Any, ...]]]:
    for i, (operand, arg) in enumerate(s.pairs):
        for what, other in _argument(s, operand, arg, around):
            yield f"{operand.name} {what}", (*s.args[:i], other, *s.args[i + 1 :])


def _argument(s: Do, operand: Any, arg: Any, around: _Around) -> Iterator[tuple[str, Any]]:
    match arg:
        case BarrierRef(bar, stage):
            for shift in range(1, bar.stages):
                yield f"{shift} stages on", bar[(stage + shift) % bar.stages]
            for other in around.kernel.barriers:
                if other is not bar and other.stages == bar.stages:
                    yield f"is {other.name}", other[stage]
        case MemRef(buffer=Shared() as buffer, index=index) if operand.role == "place":
            for shift in STARTS:
                yield f"{shift} bytes on", MemRef(buffer, (index + shift) % buffer.size_bytes)
            if buffer.stages > 1:
                there = (index + buffer.size_bytes // buffer.stages) % buffer.size_bytes
                yield "one stage on", MemRef(buffer, there)
        case _ if operand.role == "value":
            yield from _value(operand.name, as_expr(arg))
        case int() if operand.element == "u64":
            for name, bit in (("LBO", 16), ("SBO", 32), ("base offset", 49), ("mode", 62)):
                yield name, arg ^ (1 << bit)
        case int() if operand.name.endswith(("_mn", "_scale")):
            yield "turned", -arg if operand.name.endswith("_scale") else 1 - arg
        case int() if not s.instr.name.startswith(("mbarrier_init", "setmaxnreg")):
            others = (arg + 1, arg - 1) if operand.name == "newest" else (arg + 1, 2 * arg, arg // 2)
            for n in others:
                if n >= 0:
                    yield f"{n}", n
        case _:
            pass


def _value(name: str, arg: Expr) -> Iterator[tuple[str, Expr]]:
    if name == "parity":
        yield "turned", minus(Const(1), arg)
    if name == "nbytes":
        yield "fewer", minus(arg, Const(16))
    if name == "arrivals":
        yield "one fewer", minus(arg, Const(1))
    if name in ("parity", "accumulate", "rank", "blocks"):
        yield "0", Const(0)
        yield "1", Const(1)
    else:
        yield "more", arg + 16


def _with_barrier(kernel: Kernel, old: Any, new: Any) -> tuple[Stmt, ...]:
    """The statements with another count of a barrier, where it is initialised too."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Do) or not any(isinstance(a, BarrierRef) and a.barrier == old for a in s.args):
            return (s,)
        counts = s.instr.name == "mbarrier_init"
        args = (new[a.stage] if isinstance(a, BarrierRef) and a.barrier == old
                else new.count if counts and isinstance(a, int) else a for a in s.args)  # fmt: skip
        return (replace(s, args=tuple(args)),)

    return rewrite(kernel, change).body
