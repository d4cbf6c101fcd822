"""The accesses to shared memory that a compiler leaves of a program, as the kernel's machine code says.

The idea.  A compiler makes loads where they are used, loads no words that nothing uses, and joins neighbours:

    lds128(v, tile[t])                                if i < n:
    if i < n: stg128(dst[i], v)                           lds128(v, tile[t])
                                                          stg128(dst[i], v)

    sts64(tile[16 t], v); sts64(tile[16 t + 8], w)    sts128(tile[16 t], vw)

Which it did is read from machine code, whose accesses are those of the program by the constants of their
addresses; the condition of a load is that of the branch that uses it.  Unrolls and loops of one turn are
written out, since machine code is.

Source: counters of an H200, docs/measured.md, "Predictions beside counters".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from layoutalg.codegen.expr import Const, Expr, Var, simplify, substitute, terms, variables
from layoutalg.codegen.instr import LDS, STS
from layoutalg.codegen.program import (
    Body,
    Do,
    For,
    If,
    Kernel,
    Let,
    RegRef,
    Shared,
    Stmt,
    Unroll,
    bodies,
    calls,
    lower,
    with_bodies,
    with_expressions,
)

MOST_STATEMENTS = 1 << 14
"""Statements of a program up to which it is written out; of a larger one the accesses are as written."""

Words: TypeAlias = "frozenset[tuple[str, int]]"
"""Words of registers, by the name of the register and their number."""


Key: TypeAlias = "tuple[str, int, int]"
"""Loads ("ld") or stores ("st") by their bytes and the constant of their address."""

Code: TypeAlias = "Mapping[Key, int]"
"""Accesses of machine code, and the most conditions of lanes behind which it makes one: `shared_accesses`."""

UNREAD: Code = MappingProxyType({})
"""Machine code that nobody has read: the program's accesses stay as they are written."""


def compiled(kernel: Kernel, code: Code = UNREAD) -> Kernel:
    """A program written out, with its accesses to shared memory as machine code makes them; as it is where
    that is too long.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> compiled(KernelBuilder("empty", threads=32).build()).body
    ()
    """
    body = lower(kernel).body
    if _length(body) > MOST_STATEMENTS:
        return kernel
    return replace(kernel, body=_as_made(_settled(_written(body, {}), frozenset(), code), code))


def _length(body: Body) -> int:
    """Statements of a body that is written out."""
    return sum((s.count if isinstance(s, Unroll) else 1) * (1 + sum(map(_length, bodies(s)))) for s in body)


def _written(body: Body, values: Mapping[Var, Expr]) -> Body:
    """A body with unrolls and loops of one turn written out, for `values` of variables."""
    known, out = dict(values), list[Stmt]()
    for s in body:
        match s:
            case Unroll(var, count, inner):
                for n in range(count):
                    out += _written(inner, {**known, var: Const(n)})
            case For(var, Const(1), inner, carry=()):
                out += _written(inner, {**known, var: Const(0)})
            case Let(var, RegRef(reg, index, words)):
                known[var] = fresh = replace(var, name=f"{var.name}_{len(known)}_{len(out)}")
                at = tuple(simplify(substitute(e, known)) for e in index)
                out.append(Let(fresh, RegRef(reg, at, words)))
            case Let(var, value) if not isinstance(value, RegRef):
                known[var] = simplify(substitute(value, known))
            case If(condition, inner, orelse):
                raw = substitute(condition, known)
                decided = _decided(raw)
                if decided is None:
                    out.append(If(raw, _written(inner, known), _written(orelse, known)))
                else:
                    out += _written(inner if decided else orelse, known)
            case _:
                s = with_expressions(s, lambda e: simplify(substitute(e, known)))
                out.append(with_bodies(s, lambda part: _written(part, known)))
    return tuple(out)


def _decided(condition: Expr) -> int | None:
    """The value of a condition that a compiler knows, who does not know the most of a parameter."""
    parameters = [v for v in variables(condition) if v.kind == "param"]
    anything = {v: Var(f"any_{v.name}", 1 << 32, lo=v.facts.lo) for v in parameters}
    match simplify(substitute(condition, anything)):
        case Const(value):
            return value
    return None


@dataclass(frozen=True, slots=True)
class _Effects:
    """The words that a statement reads, those that it writes, whether it loads from shared memory, and
    whether it orders memory or writes to it."""

    reads: Words
    writes: Words
    loads: bool
    orders: bool


_known: dict[int, tuple[Stmt, _Effects]] = {}


def _effects(s: Stmt) -> _Effects:
    found = _known.get(id(s))
    if found is None or found[0] is not s:
        found = _known[id(s)] = s, _made_effects(s)
    return found[1]


def _made_effects(s: Stmt) -> _Effects:
    match s:
        case Do():
            return _effects_of_call(s)
        case Let(_, RegRef() as ref):
            return _Effects(frozenset(_words(ref)), frozenset(), loads=False, orders=False)
    reads, writes = set[tuple[str, int]](), set[tuple[str, int]]()
    loads = orders = False
    for body in bodies(s):
        before = set[tuple[str, int]]()
        for part in body:
            its = _effects(part)
            reads |= its.reads - before
            writes |= its.writes
            before |= its.writes if isinstance(part, Do) else set()
            loads, orders = loads or its.loads, orders or its.orders
    return _Effects(frozenset(reads), frozenset(writes), loads, orders)


def _effects_of_call(s: Do) -> _Effects:
    reads, writes = set[tuple[str, int]](), set[tuple[str, int]]()
    for operand, arg in s.pairs:
        if isinstance(arg, RegRef):
            reads |= _words(arg) if operand.role != "out" else set()
            writes |= _words(arg) if operand.role in ("out", "inout") else set()
    roles = {o.role for o in s.instr.operands if o.space == "shared"}
    kept = '"memory"' in s.instr.text or s.instr.engine is not None or s.instr.method
    orders = bool(roles - {"read"} or kept)
    return _Effects(frozenset(reads), frozenset(writes), "read" in roles, orders)


def _words(ref: RegRef) -> set[tuple[str, int]]:
    """The words of a register; all of them where the first is not known."""
    match ref.offset:
        case Const(first):
            return {(ref.reg.name, n) for n in range(first, first + ref.words)}
    whole = 1
    for extent in ref.reg.shape:
        whole *= extent
    return {(ref.reg.name, n) for n in range(whole)}


def _settled(body: Body, live: Words, code: Code, depth: int = 0) -> Body:
    """A body whose computations and loads are where they are used; `live` are the words used after it, and
    `depth` the conditions that it is behind."""
    out: Body = ()
    after = live
    for s in reversed(body):
        if bodies(s):
            used = after | _effects(s).reads if isinstance(s, For) else after
            within = depth + isinstance(s, If)
            s = with_bodies(s, lambda inner, used=used, n=within: _settled(inner, used, code, n))  # type: ignore[misc]
        out = _placed(s, out, live, code, depth)
        after |= _effects(s).reads
    return out


def _placed(s: Stmt, body: Body, live: Words, code: Code, depth: int) -> Body:
    """The body with a statement in front, or in the one branch that uses it, or nowhere."""
    mine = _effects(s)
    if not isinstance(s, Do) or not mine.writes or not _only_computes(s):
        return (s, *body)
    movable = not mine.loads or ((key := _key(s)) is not None and code.get(key, 0) > depth)
    for n, other in enumerate(body):
        its = _effects(other)
        kills = isinstance(other, Do) and mine.writes <= its.writes
        if its.reads & mine.writes:
            later = _later(body[n + 1 :], mine.writes, live)
            if not (movable and isinstance(other, If)) or later & mine.writes:
                return (s, *body)
            if _effects(If(other.condition, other.orelse)).reads & mine.writes:
                return (s, *body)
            inner = _placed(s, other.body, later, code, depth + 1)
            return (*body[:n], replace(other, body=inner), *body[n + 1 :])
        if kills:
            return body
        if its.writes & (mine.reads | mine.writes) or (mine.loads and its.orders):
            movable = False
    return (s, *body) if mine.writes & live else body


def _as_made(body: Body, code: Code) -> Body:
    """A body with the accesses that machine code makes at the constants of its own: narrower or joined ones;
    where it has any, those that it makes none of are left out."""
    keys = {key for s in calls(body) if (key := _key(s))} - code.keys()
    made = {
        (way, nbytes, first): [(n, at) for op, n, at in code if op == way and first <= at < first + nbytes]
        for way, nbytes, first in keys
    }
    return _with_accesses(body, made) if any(made.values()) else body


def _with_accesses(body: Body, made: Mapping[Key, list[tuple[int, int]]]) -> Body:
    out = list[Stmt]()
    for s in body:
        s = with_bodies(s, lambda part: _with_accesses(part, made))
        key = _key(s) if isinstance(s, Do) else None
        if not isinstance(s, Do) or key is None or key not in made:
            out.append(s)
            continue
        way, _, first = key
        _, place = s.memory[0]
        for nbytes, at in made[key]:
            moved = replace(place, index=simplify(place.index + (at - first)))
            args = tuple(moved if x is place else x for x in s.args)
            out.append(Do((LDS if way == "ld" else STS)[nbytes], args))
    return tuple(out)


def _key(s: Do) -> Key | None:
    """The key of a plain load or store of shared memory."""
    way = next((way for way, table in (("ld", LDS), ("st", STS)) if s.instr in table.values()), None)
    if way is None:
        return None
    operand, place = s.memory[0]
    start = place.buffer.offset_bytes if isinstance(place.buffer, Shared) else 0
    return way, operand.bytes, start + sum(x.value for x in terms(place.index) if isinstance(x, Const))


def _only_computes(s: Do) -> bool:
    """Whether nothing but its registers changes by an instruction, and it loads from shared memory alone."""
    within = all(o.role == "read" and o.space == "shared" for o, _ in s.memory)
    return (
        within
        and s.instr.engine is None
        and not s.instr.method
        and not any(o.role in ("barrier", "map", "place") for o in s.instr.operands)
    )


def _later(body: Body, words: Words, live: Words) -> Words:
    """The words that a body reads before it writes them anew, and those live behind it."""
    used = set[tuple[str, int]]()
    for s in body:
        its = _effects(s)
        used |= its.reads
        if isinstance(s, Do):
            words -= its.writes - its.reads
            if not words:
                return frozenset(used)
    return frozenset(used | live)
