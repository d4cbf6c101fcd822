"""Lowering: a tile program to an equal one whose addresses cost one XOR, one addition a turn, or nothing.

The idea.  The address of an unrolled access is a function f(t, u) of the thread and the unroll indices.
For swizzled layouts it splits as

    f(t, u) = (A(t) ^ Cx(u)) + Ca(u)        Cx = c & OR(A),  Ca = c & ~OR(A),  c(u) = f(0, u)

Summands in other variables, such as the stage of a ring of buffers, are taken out first and stay summands.
A is computed once per thread and shared by every access with the same values.  Cx and Ca are constants
after unrolling: the first is one LOP3, the second is the immediate of the load.  A sum whose terms are
either the thread's or the unroll's splits with Cx = 0; an address that is affine over F2, as swizzled ones
are, splits by its columns; for any other the split is decided on the whole table of its values.  An address
that does not split stays as it is.

A global address that an outermost loop moves in equal steps, k * 32 or k * 64 * ld, is carried: the loop has
a pointer to where it is and adds the step, so that the address costs one 64-bit addition a turn.  What else
moves (inner loops, unrolled copies, a let of the loop's body) is added to that place where it is used.

Notes.  The pass also writes out unrolls of one step and branches whose condition is decided.  It maps
programs to programs.  Whoever states something of a kernel (the printer, the simulator behind `verify` and
behind arrays on the CPU) takes the one that `check` has passed and `lower` has made, from `printed`.

Source: S(a + b) = S(a) ^ S(b) for a & b = 0 (linearity of a swizzle over F2).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    Minus,
    Mul,
    Var,
    VarKind,
    Xor,
    affine,
    evaluate,
    rebuild,
    simplify,
    substitute,
    terms,
    total,
    variables,
)
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.program.conditions import Conditions
from layoutalg.codegen.program.tile import (
    Arg,
    BarrierRef,
    Body,
    Carry,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    RegRef,
    Role,
    Roles,
    Shared,
    Stmt,
    Unroll,
    calls,
    walk,
    with_bodies,
)

_TABLE_LIMIT = 1 << 20
"""Values of the table of an address, threads times unrolled steps, up to which a split is decided on it."""

_STILL = frozenset({"thread", "block", "param", "base"})
"""Kinds of variables that no loop changes."""


def lower(kernel: Kernel) -> Kernel:
    """An equal kernel with trivial unrolls and branches written out and shared addresses split.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> lower(KernelBuilder("empty", threads=32).build()).body
    ()
    """
    names = Counter(s.var.name for s in walk(kernel.body) if isinstance(s, Let))
    repeated = frozenset(name for name, times in names.items() if times > 1)
    body = _flatten(kernel.body, {}, repeated, Conditions())
    bases = _Bases(kernel)
    body = _with_exact(_split_body(body, bases, {}), Conditions(), {})
    return replace(kernel, body=(*bases.lets(), *body))


def printed(kernel: Kernel, arch: str | Arch = DEFAULT_ARCH) -> Kernel:
    """The program whose text is printed for a kernel: lowered, unless it is to be `as_written`.

    Raises what `check` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> printed(KernelBuilder("empty", threads=32).build()).name
    'empty'
    """
    check(kernel, arch)
    return kernel if kernel.as_written else lower(kernel)


def _flatten(body: Body, values: Mapping[Var, Expr], repeated: frozenset[str], known: Conditions) -> Body:
    """Write out one-step unrolls and branches that are decided where they are, substituting `values`.

    A body that names what another scope names too (`repeated`) keeps its scope.
    """

    def expr(e: Expr) -> Expr:
        return simplify(substitute(e, values)) if values else e

    def opened(inner: Body) -> Body:
        named = {s.var.name for s in inner if isinstance(s, Let)}
        return (If(Const(1), inner),) if named & repeated else inner

    out: list[Stmt] = []
    for s in body:
        match s:
            case Unroll(var, 1, inner):
                out += opened(_flatten(inner, {**values, var: Const(0)}, repeated, known))
            case If(condition, inner, orelse):
                condition = known.condition(expr(condition))
                taken, other = (
                    _acting(_flatten(part, values, repeated, known.under(condition, holds)))
                    for part, holds in ((inner, True), (orelse, False))
                )
                if condition.facts.is_constant:
                    out += opened(taken if condition.facts.lo else other)
                elif taken or other:
                    out.append(If(condition, taken, other))
            case _:
                s = with_expressions(s, expr)
                out.append(with_bodies(s, lambda inner: _flatten(inner, values, repeated, known)))
    return tuple(out)


def _acting(body: Body) -> Body:
    """The body of a branch, empty where it does nothing."""
    return body if any(calls(body)) else ()


def _with_exact(body: Body, known: Conditions, opens: dict[Expr, bool]) -> Body:
    """The body with its differences marked that are exact because of the branches around them.

    It comes last: what is named in front of a branch is computed by threads that do not take it.
    """

    def expr(e: Expr) -> Expr:
        return simplify(_marked(e, known, {})) if _has_open(e, opens) else e

    out: list[Stmt] = []
    for s in body:
        match s:
            case If(condition, inner, orelse):
                parts = ((inner, True), (orelse, False))
                taken, other = (_with_exact(x, known.under(condition, y), opens) for x, y in parts)
                out.append(If(_marked_condition(condition, known, opens), taken, other))
            case _:
                s = with_expressions(s, expr)
                out.append(with_bodies(s, lambda inner: _with_exact(inner, known, opens)))
    return tuple(out)


def _marked_condition(condition: Expr, known: Conditions, opens: dict[Expr, bool]) -> Expr:
    """The second part of a conjunction is evaluated where the first one holds."""
    if not _has_open(condition, opens):
        return condition
    match condition:
        case And(a, b):
            after = known.under(a, True)
            return And(_marked_condition(a, known, opens), _marked_condition(b, after, opens))
    return simplify(_marked(condition, known, {}))


def _has_open(node: Expr, opens: dict[Expr, bool]) -> bool:
    """Whether an expression has a difference that is not known to be exact."""
    if node not in opens:
        is_open = isinstance(node, Minus) and not node.exact
        opens[node] = is_open or any(_has_open(c, opens) for c in node.children)
    return opens[node]


def _marked(node: Expr, known: Conditions, done: dict[Expr, Expr]) -> Expr:
    if node not in done:
        old = node.children
        new = tuple([_marked(c, known, done) for c in old])
        done[node] = node if new == old else rebuild(node, new)
        match node:
            case Minus(a, b) if not node.exact and known.orders(b, a):
                done[node] = Minus(new[0], new[1], exact=True)
    return done[node]


class _Bases:
    """The per-thread base addresses carried so far, one per distinct table of values.

    Those of a role are of its own threads, with names that no other has.
    """

    def __init__(self, kernel: Kernel, tid: Var | None = None, taken: set[str] | None = None) -> None:
        self.kernel, self.tid = kernel, kernel.tid if tid is None else tid
        self.found: dict[bytes, tuple[Var, Expr]] = {}
        if taken is not None:
            self.taken = taken
            return
        inner = [s.var for s in walk(kernel.body) if isinstance(s, (Let, For, Unroll))]
        places = [c.var for s in walk(kernel.body) if isinstance(s, For) for c in s.carry]
        self.taken = {d.name for d in (*kernel.declared, *inner, *places)}

    def base(self, table: numpy.ndarray[Any, Any], value: Expr) -> Expr:
        if not variables(value):
            return value
        key = table.tobytes()
        if key not in self.found:
            self.found[key] = (self.variable("lane", value), value)
        return self.found[key][0]

    def variable(self, prefix: str, value: Expr, kind: VarKind = "let") -> Var:
        """A let variable for a value, with a name that nothing else has."""
        number = 0
        while f"{prefix}{number}" in self.taken:
            number += 1
        name = f"{prefix}{number}"
        self.taken.add(name)
        f = value.facts
        return Var(name, f.hi + 1, kind, f.lo, f.stride or 1, f.offset if f.stride else 0)

    def lets(self) -> tuple[Let, ...]:
        return tuple(Let(var, value) for var, value in self.found.values())


class _Carried:
    """The places in global memory that a loop carries along: one for each start and step of an address.

    A step is what multiplies the loop's variable, if it stays the same all the while.
    """

    def __init__(self, bases: _Bases, scope: frozenset[Var], loop: For) -> None:
        self.bases, self.scope, self.loop = bases, scope, loop
        self.carries: list[Carry] = []
        self._known: dict[tuple[Global, Expr, Expr], tuple[Var, int]] = {}

    def index(self, index: Expr, buffer: Global) -> Expr:
        """The same index, counted from a carried place where it moves in equal steps."""
        still, moving = parted(index, self._stays)
        steps = [self._step(term) for term in moving]
        step = simplify(total(s for s in steps if s is not None))
        if step == Const(0):
            return index
        rest = [t for t, s in zip(moving, steps, strict=True) if s is None]
        rest.sort(key=lambda term: any(v.kind == "unroll" for v in variables(term)))
        return total([*self._place(still, step, buffer), *rest])

    def _place(self, still: Expr, step: Expr, buffer: Global) -> tuple[Var, Const]:
        """A place and how far `still` is ahead: what differs by a constant shares the lowest so far."""
        # a pointer takes two registers and an addition a turn, a constant distance is an immediate
        constant = sum(t.value for t in terms(still) if isinstance(t, Const))
        key = buffer, total(t for t in terms(still) if not isinstance(t, Const)), step
        if key not in self._known or self._known[key][1] > constant:
            reach = still + step * self.loop.var
            var = self.bases.variable(f"{buffer.name}_at", reach, "place")
            self.carries.append(Carry(var, buffer, still, step))
            self._known[key] = var, constant
        var, start = self._known[key]
        return var, Const(constant - start)

    def _stays(self, var: Var) -> bool:
        return var.kind in _STILL or var in self.scope

    def _step(self, term: Expr) -> Expr | None:
        """The factor of the loop's variable in a product; None for any other term."""
        factors = terms(term, Mul)
        if factors.count(self.loop.var) != 1:
            return None
        others = [f for f in factors if f != self.loop.var]
        if not all(self._stays(v) for f in others for v in variables(f)):
            return None
        return simplify(functools.reduce(Mul, others)) if others else Const(1)


def _split_body(
    body: Body, bases: _Bases, lets: dict[Var, Expr], carried: _Carried | None = None,
    scope: frozenset[Var] = frozenset(),
) -> Body:  # fmt: skip
    out: list[Stmt] = []
    lets = dict(lets)
    for s in body:
        match s:
            case Do(instr, args):
                out.append(Do(instr, tuple(_split_arg(a, bases, lets, carried) for a in args)))
            case Let(var, value):
                scope |= {var}
                if isinstance(value, Expr):
                    value_in_tid = simplify(substitute(value, lets))
                    if variables(value_in_tid) <= {bases.tid}:
                        lets[var] = value_in_tid
                out.append(s)
            case For() if carried is None:  # an inner loop would start its pointers anew in each outer turn
                places = _Carried(bases, scope, s)
                inner = _split_body(s.body, bases, lets, places, scope)
                out.append(replace(s, body=inner, carry=(*s.carry, *places.carries)))
            case Roles(parts):
                out.append(Roles(tuple(_split_role(part, bases, scope) for part in parts)))
            case _:
                split = partial(_split_body, bases=bases, lets=lets, carried=carried, scope=scope)
                out.append(with_bodies(s, split))
    return tuple(out)


def _split_role(part: Role, bases: _Bases, scope: frozenset[Var]) -> Role:
    """A role: its addresses are split by its own threads, and named at its start."""
    own = _Bases(bases.kernel, part.thread, bases.taken)
    body = _split_body(part.body, own, {}, None, scope)
    return replace(part, body=(*own.lets(), *body))


def _split_arg(arg: Arg, bases: _Bases, lets: dict[Var, Expr], carried: _Carried | None) -> Arg:
    match arg:
        case MemRef(Global() as buffer, index) if carried is not None:
            return replace(arg, index=carried.index(index, buffer))
        case MemRef(Shared(), index):
            own, moving = parted(
                simplify(substitute(index, lets)), lambda v: v == bases.tid or v.kind == "unroll"
            )
            split = split_address(own, bases.tid)
            if split is not None:
                table, base, xor, immediate = split
                index = chained(bases.base(table, base), xor, immediate, moving)
            return replace(arg, index=index)
        case _:
            return arg


def parted(index: Expr, still: Callable[[Var], bool]) -> tuple[Expr, list[Expr]]:
    """The summands of an index in `still` variables alone, added up, and the others; products are expanded.

    What is added to an address may be anything, so that only the first part has to split or be named.

    >>> t, k, ld = Var("tid", 8), Var("k", 4, "loop"), Var("ld", 64, "param")
    >>> own, moving = parted((t + k * 2) * ld + 8, lambda v: v.kind != "loop")
    >>> str(own), [str(e) for e in moving]
    ('tid * ld + 8', ['k * 2 * ld'])
    """
    own: list[Expr] = []
    moving: list[Expr] = []
    for term in _expanded(index, still):
        (own if all(still(v) for v in variables(term)) else moving).append(term)
    return total(own), moving


def _expanded(node: Expr, still: Callable[[Var], bool]) -> list[Expr]:
    """The summands of a sum; a product of a mixed sum is multiplied out."""
    out: list[Expr] = []
    for term in terms(node):
        match term:
            case Mul(Add() as a, b) | Mul(b, Add() as a) if not all(still(v) for v in variables(a)):
                out += [simplify(Mul(part, b)) for part in _expanded(a, still)]
            case _:
                out.append(term)
    return out


def chained(base: Expr, xor: Expr, immediate: Expr, moving: list[Expr]) -> Expr:
    """(base ^ xor) + moving + immediate: what the thread owns, what moves, what is constant after unrolling.

    >>> str(chained(Var("a", 64), Const(16), Const(8), [Var("k", 4, "loop") * 64]))
    '(a ^ 16) + k * 64 + 8'
    """
    swizzled = base if xor.facts.hi == 0 else Xor(base, xor)
    last = [] if immediate.facts.hi == 0 else [immediate]
    return total([swizzled, *moving, *last])


def map_arg(arg: Arg, change: Any) -> Any:
    """An argument with `change` applied to its index expressions."""
    match arg:
        case RegRef(reg, index, count):
            return RegRef(reg, tuple(map(change, index)), count)
        case MemRef():
            return replace(arg, index=change(arg.index), coordinate=tuple(map(change, arg.coordinate)))
        case BarrierRef(bar, stage):
            return BarrierRef(bar, change(stage))
        case _ if isinstance(arg, Expr):
            return cast(Expr, change(arg))
        case _:
            return arg


def with_expressions(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """A statement with `change` applied to the expressions that it reads itself."""
    match s:
        case Do(instr, args):
            return Do(instr, tuple(map_arg(arg, change) for arg in args))
        case Let(var, value):
            return Let(var, map_arg(value, change))
        case For(_, count, _, _, carry):
            places = tuple(replace(c, first=change(c.first), step=change(c.step)) for c in carry)
            return replace(s, count=change(count), carry=places)
        case If(condition):
            return replace(s, condition=change(condition))
    return s


def split_address(index: Expr, tid: Var) -> tuple[numpy.ndarray[Any, Any], Expr, Expr, Expr] | None:
    """Split f(t, u) into (A(t) ^ Cx(u)) + Ca(u); None where it does not split or has other variables.

    Returns the table of A over all threads, and A, Cx, Ca as expressions.

    >>> t, u = Var("tid", 8), Var("u", 4, "unroll")
    >>> _, base, xor, immediate = split_address((t * 4 ^ u * 4) + u * 64, t)
    >>> str(base), str(xor), str(immediate)
    ('tid * 4', 'u * 4', 'u * 64')
    """
    unrolled = sorted(variables(index) - {tid}, key=lambda v: v.name)
    threads = tid.facts.hi + 1
    if not unrolled or any(v.kind != "unroll" for v in unrolled):
        return None
    own = total(t for t in terms(index) if variables(t) <= {tid} and variables(t))
    rest = total(t for t in terms(index) if not variables(t) or not variables(t) <= {tid})
    if tid not in variables(rest):
        values = evaluate(own, {tid: numpy.arange(threads)})
        return numpy.broadcast_to(values, threads).copy(), own, Const(0), rest
    split = split_by_columns(index, tid) or split_by_table(index, tid)
    if split is None:
        return None
    values, constant = split
    mask = int(numpy.bitwise_or.reduce(values))
    base = simplify(Xor(substitute(index, dict.fromkeys(unrolled, Const(0))), Const(constant)))
    of_unroll = simplify(substitute(index, {tid: Const(0)}))
    # of a mask only the bits that c can have, or the text would show constants that never act
    keep = (1 << max(1, of_unroll.facts.hi.bit_length())) - 1
    xor = simplify(And(of_unroll, Const(mask & keep)))
    return values, base, xor, simplify(And(of_unroll, Const(keep & ~mask)))


def split_by_columns(index: Expr, tid: Var) -> tuple[numpy.ndarray[Any, Any], int] | None:
    """(table of A, f(0, 0)) of an index that is affine over F2; None of any other.

    Of such a map f(t, u) = A(t) ^ c(u), and no bit of c that A never sets meets a carry: what
    `split_by_table` finds out from every value follows from the columns.

    >>> t, u = Var("tid", 4), Var("u", 2, "unroll")
    >>> split_by_columns((t * 4 ^ u * 4) + u * 64 + 1, t)
    (array([ 0,  4,  8, 12]), 1)
    """
    linear = affine(index)
    if linear is None:
        return None
    threads = numpy.arange(tid.facts.hi + 1)
    values = numpy.zeros_like(threads)
    for bit, column in enumerate(linear.columns.get(tid, ())):
        values ^= (threads >> bit & 1) * column
    return values, linear.constant


def split_by_table(index: Expr, tid: Var) -> tuple[numpy.ndarray[Any, Any], int] | None:
    """(table of A, f(0, 0)) where f(t, u) = (A(t) ^ c & OR(A)) + (c & ~OR(A)), decided on all of its values.

    None where that does not hold, and of a table of more than _TABLE_LIMIT values.
    """
    unrolled = sorted(variables(index) - {tid}, key=lambda v: v.name)
    extents = [v.facts.hi + 1 for v in (*unrolled, tid)]
    if math.prod(extents) > _TABLE_LIMIT:
        return None
    grids = numpy.indices(extents, dtype=numpy.int64)
    env = dict(zip([*unrolled, tid], grids, strict=True))
    f = numpy.broadcast_to(evaluate(index, env), grids.shape[1:]).reshape(-1, extents[-1])
    c = f[:, :1]
    a = f[0] ^ c[0]
    mask = int(numpy.bitwise_or.reduce(a))
    return (a, int(c[0, 0])) if numpy.array_equal((a ^ c & mask) + (c & ~mask), f) else None
