"""Edits of a tile program, by the beginning of the text of the statement that they change.

    edited(kernel, drop("fence_proxy_async"), operand("mbarrier_wait(full", 1, 0))

An edit that changes nothing is an error.  `at` counts the statements of this beginning, from 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from layoutalg.codegen.expr import Expr, as_expr, variables
from layoutalg.codegen.program import BarrierRef, Do, For, If, Kernel, Let, Roles, Stmt, Unroll, walk
from layoutalg.codegen.program.lowering import map_arg
from tests.mutants.planting import rewrite

Edit = Callable[[Kernel], Kernel]
Names = Mapping[str, Any]
Condition = Callable[[Names], Expr]


def edited(kernel: Kernel, *edits: Edit) -> Kernel:
    """The kernel after one edit and the next."""
    for edit in edits:
        kernel = edit(kernel)
    return kernel


def names(kernel: Kernel) -> Names:
    """Variables by name, and operands by their text."""
    found: dict[str, Any] = {"tid": kernel.tid}

    def note(e: Expr) -> Expr:
        found.update({x.name: x for x in variables(e)})
        return e

    for s in walk(kernel.body):
        match s:
            case For() | Unroll() | Let():
                found[s.var.name] = s.var
            case Roles(parts):
                found |= {part.thread.name: part.thread for part in parts}
            case Do():
                found |= {str(map_arg(arg, note)): arg for arg in s.args}
    return found


def change(start: str, make: Callable[[Do, Names], tuple[Stmt, ...]], at: int | None = None) -> Edit:
    """Other statements in the place of one."""

    def edit(kernel: Kernel) -> Kernel:
        known, seen, made = names(kernel), 0, 0

        def of(s: Stmt) -> tuple[Stmt, ...]:
            nonlocal seen, made
            if not (isinstance(s, Do) and str(s).startswith(start)):
                return (s,)
            seen += 1
            if at not in (None, seen - 1):
                return (s,)
            made += 1
            return make(s, known)

        changed = rewrite(kernel, of)
        assert made, f"no {start} in {kernel}"
        return changed

    return edit


def drop(start: str, at: int | None = None) -> Edit:
    """Leave it out."""
    return change(start, lambda s, known: (), at)


def before(start: str, *others: Stmt, at: int | None = None) -> Edit:
    """Other statements in front of it."""
    return change(start, lambda s, known: (*others, s), at)


def behind(start: str, *others: Stmt, at: int | None = None) -> Edit:
    """Other statements behind it."""
    return change(start, lambda s, known: (s, *others), at)


def when(start: str, condition: Condition, at: int | None = None) -> Edit:
    """Only where a condition holds."""
    return change(start, lambda s, known: (If(condition(known), (s,)),), at)


def _with(s: Do, known: Names, others: Mapping[int, Any]) -> Do:
    args = list(s.args)
    for n, value in others.items():
        if callable(value):
            args[n] = map_arg(args[n], value)
        elif isinstance(value, str):
            args[n] = known[value]
        else:
            args[n] = as_expr(value) if isinstance(args[n], Expr) else value
    return Do(s.instr, tuple(args))


def operand(start: str, n: int, value: Any, at: int | None = None) -> Edit:
    """Another operand: a number, one of the kernel by its text, or a function of its expressions."""
    return change(start, lambda s, known: (_with(s, known, {n: value}),), at)


def twice(start: str, others: Mapping[int, Any] | None = None, at: int | None = None) -> Edit:
    """The statement, and again with other operands."""
    return change(start, lambda s, known: (s, _with(s, known, others or {})), at)


def other(start: str, instr: Any, at: int | None = None) -> Edit:
    """Another instruction, on as many of the operands as it takes."""
    return change(start, lambda s, known: (Do(instr, s.args[: len(instr.operands)]),), at)


def moved(
    start: str, place: str, only: Condition | None = None, *, at: int | None = None, keeps: bool = False
) -> Edit:
    """The first of them behind another statement, only where a condition holds; with `keeps` it stays too."""

    def edit(kernel: Kernel) -> Kernel:
        known = names(kernel)
        taken = next(s for s in walk(kernel.body) if str(s).startswith(start))
        kernel = kernel if keeps else drop(start)(kernel)
        new = If(only(known), (taken,)) if only else taken
        return behind(place, new, at=at)(kernel)

    return edit


def guard(start: str, condition: Condition | None) -> Edit:
    """Another condition around it, or none."""

    def edit(kernel: Kernel) -> Kernel:
        known, made = names(kernel), 0

        def of(s: Stmt) -> tuple[Stmt, ...]:
            nonlocal made
            if not (
                isinstance(s, If) and any(isinstance(x, Do) and str(x).startswith(start) for x in s.body)
            ):
                return (s,)
            made += 1
            return s.body if condition is None else (replace(s, condition=condition(known)),)

        changed = rewrite(kernel, of)
        assert made, f"no condition around {start} in {kernel}"
        return changed

    return edit


def count(name: str, arrivals: int) -> Edit:
    """Another number of arrivals of an mbarrier."""

    def edit(kernel: Kernel) -> Kernel:
        (old,) = (bar for bar in kernel.barriers if bar.name == name)
        new = replace(old, count=arrivals)

        def of(s: Stmt) -> tuple[Stmt, ...]:
            if not isinstance(s, Do):
                return (s,)
            args = [
                BarrierRef(new, x.stage) if isinstance(x, BarrierRef) and x.barrier == old else x
                for x in s.args
            ]
            if s.instr.name == "mbarrier_init" and args != list(s.args):
                args[1] = arrivals
            return (Do(s.instr, tuple(args)),)

        bars = tuple(new if bar == old else bar for bar in kernel.barriers)
        return replace(rewrite(kernel, of), barriers=bars)

    return edit


def cut(start: str) -> Edit:
    """The kernel up to the statement of its own body that holds one of this beginning."""

    def edit(kernel: Kernel) -> Kernel:
        until = next(
            n for n, s in enumerate(kernel.body) if any(str(x).startswith(start) for x in walk((s,)))
        )
        return replace(kernel, body=kernel.body[:until])

    return edit
