"""Small mistakes, planted in a tile program: each must be found by the simulator and by the host-run text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from layoutalg.codegen.expr import Expr, Var, substitute, variables
from layoutalg.codegen.program import Do, For, If, Kernel, Let, Roles, Stmt, Unroll, walk
from layoutalg.codegen.program.lowering import map_arg

Change = Callable[[Stmt], tuple[Stmt, ...]]


def rewrite(kernel: Kernel, change: Change) -> Kernel:
    """Replace every statement by what `change` makes of it, innermost first."""
    return replace(kernel, body=_rewrite(kernel.body, change))


def _rewrite(body: tuple[Stmt, ...], change: Change) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for s in body:
        match s:
            case For() | Unroll():
                s = replace(s, body=_rewrite(s.body, change))
            case If():
                s = replace(s, body=_rewrite(s.body, change), orelse=_rewrite(s.orelse, change))
            case Roles(parts):
                s = Roles(tuple(replace(part, body=_rewrite(part.body, change)) for part in parts))
            case Do() | Let():
                pass
        out += change(s)
    return tuple(out)


def without(kernel: Kernel, name: str) -> Kernel:
    """Drop every call of an instruction."""
    return rewrite(kernel, lambda s: () if isinstance(s, Do) and s.instr.name == name else (s,))


def with_let(kernel: Kernel, name: str, value: Callable[[Expr], Expr]) -> Kernel:
    """Give what has a name another value."""

    def change(s: Stmt) -> tuple[Stmt, ...]:
        match s:
            case Let(var, old) if var.name == name and isinstance(old, Expr):
                return (Let(var, value(old)),)
        return (s,)

    return rewrite(kernel, change)


def with_calls_of(kernel: Kernel, other: Kernel, prefix: str) -> Kernel:
    """Take the calls whose name starts with `prefix` from another kernel of the same form."""
    calls = iter(_calls(other.body, prefix))

    def change(s: Stmt) -> tuple[Stmt, ...]:
        return (next(calls),) if isinstance(s, Do) and s.instr.name.startswith(prefix) else (s,)

    return rewrite(kernel, change)


def _calls(body: tuple[Stmt, ...], prefix: str) -> list[Do]:
    return [s for s in walk(body) if isinstance(s, Do) and s.instr.name.startswith(prefix)]


def unguarded(kernel: Kernel) -> Kernel:
    """Run the body of every branch on the thread's own position, named or not, without asking."""
    own = {kernel.tid}
    for s in walk(kernel.body):
        if isinstance(s, Let) and isinstance(s.value, Expr) and own & set(variables(s.value)):
            own.add(s.var)

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, If) and own & set(variables(s.condition)):
            return s.body
        return (s,)

    return rewrite(kernel, change)


def swapped(kernel: Kernel, a: str, b: str) -> Kernel:
    """Exchange two parameters wherever memory is addressed."""
    params = {p.name: p for p in kernel.params if isinstance(p, Var)}
    exchange: dict[Var, Expr] = {params[a]: params[b], params[b]: params[a]}

    def change(s: Stmt) -> tuple[Stmt, ...]:
        if isinstance(s, Do):
            return (Do(s.instr, tuple(map_arg(x, lambda e: substitute(e, exchange)) for x in s.args)),)
        return (s,)

    return rewrite(kernel, change)
