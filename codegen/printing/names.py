"""The names in a text: the bases of its addresses after what lies there, and nothing that is never used.

The idea.  A program has names for everything, and lowering numbers the bases that it takes out of addresses.
A reader wants to know what a base is the base of:

    // tile_a: bytes of Sw<3,3,3> o 0 o (128,64):(64,1), 4 of them
    const u32 tile_a_ld0 = ((tid / 16 % 2) ^ (tid % 8)) * 16 + tid % 16 * 128 + tid / 32 % 2 * 8192;

A base is called after the buffer and what is done there, st or ld; a buffer of shared memory is a pointer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from layoutalg.codegen.expr import Var, variables
from layoutalg.codegen.printing.value_types import Types
from layoutalg.codegen.program import (
    BarrierRef,
    Body,
    Do,
    For,
    Global,
    Kernel,
    Let,
    RegRef,
    Roles,
    Shared,
    Stmt,
    Unroll,
    bodies,
    calls,
    expressions,
    walk,
    with_bodies,
)

_BASE = re.compile(r"lane\d+")
"""The names that lowering gives to bases."""


def used_statements(body: Body) -> Body:
    """A body without the names that nothing reads, and without registers that are only set.

    >>> from layoutalg.codegen.expr import Const
    >>> used_statements((Let(Var("i", 1, "let"), Const(0)),))
    ()
    """
    read = {
        arg.reg.name for s in calls(body) for o, arg in s.pairs if isinstance(arg, RegRef) and o.role != "out"
    } | {held.reg.name for held in _taken_as_indices(body)}
    return _needed(body, set(), read)[0]


def _taken_as_indices(body: Body) -> Iterator[RegRef]:
    """Registers whose numbers are taken as indices."""
    return (s.value for s in walk(body) if isinstance(s, Let) and isinstance(s.value, RegRef))


def _needed(body: Body, after: set[Var], read: set[str]) -> tuple[Body, set[Var]]:
    """A body in front of what reads the variables `after`, and those that both read."""
    out: list[Stmt] = []
    needed = set(after)
    for s in reversed(body):
        match s:
            case Let(var) if var not in needed:
                continue
            case Let(var):
                needed.discard(var)
            case Do() if _only_sets(s, read):
                continue
            case _:
                inside = [_needed(inner, needed, read) for inner in bodies(s)]
                shorter = iter([inner for inner, _ in inside])
                s = with_bodies(s, lambda _: next(shorter))  # noqa: B023
                needed = needed.union(*(reads for _, reads in inside))
        needed.update(v for e in expressions(s) for v in variables(e))
        out.append(s)
    return tuple(reversed(out)), needed


def _only_sets(call: Do, read: set[str]) -> bool:
    """Whether a call does nothing but set registers that nothing reads."""
    roles = {o.role for o in call.instr.operands}
    if "out" not in roles or not roles <= {"out", "value", "imm"} or call.instr.requires.warp_converged:
        return False
    return not any(isinstance(arg, RegRef) and arg.reg.name in read for arg in call.args)


class Names:
    """The names of one kernel's text, and the comments beside them."""

    def __init__(self, kernel: Kernel, body: Body) -> None:
        self.kernel = kernel
        self._taken = {d.name for d in kernel.declared} | {kernel.name, "smem", "warp"}
        self._taken |= {part.thread.name for s in walk(body) if isinstance(s, Roles) for part in s.parts}
        self._taken |= {s.var.name for s in walk(body) if isinstance(s, (Let, For, Unroll))}
        self._taken |= {s.instr.name for s in calls(body)}
        self._used = {v.name for s in walk(body) for e in expressions(s) for v in variables(e)}
        arguments = [arg for s in calls(body) for arg in s.args]
        self._used |= {
            arg.reg.name for arg in (*arguments, *_taken_as_indices(body)) if isinstance(arg, RegRef)
        }
        self._used |= {arg.barrier.name for arg in arguments if isinstance(arg, BarrierRef)}
        self._said: set[object] = set()
        self._bases = self._base_names(body)
        self._new = {old: name for old, (name, _) in self._bases.items()}

    def is_used(self, name: str) -> bool:
        """Whether a statement reads or writes it."""
        return name in self._used

    def of(self, var: Var) -> str:
        """The name of a variable in the text."""
        return self._new.get(var.name, var.name)

    def shared_lines(self) -> Iterator[str]:
        """Declare where buffers and mbarriers start in shared memory, and how they are laid out."""
        for s in self.kernel.shared:
            if s.name in self._touched:
                stages = f", {s.stages} of them" if s.stages > 1 else ""
                yield f"    // {s.name}: {s.element_bytes}-byte elements at {s.layout}{stages}"
                yield f"    u8* const {s.name} = smem{f' + {s.offset_bytes}' if s.offset_bytes else ''};"
        for b in self.kernel.barriers:
            if b.name in self._used:
                many = f"{b.stages} mbarriers" if b.stages > 1 else "an mbarrier"
                yield f"    // {b.name}: {many}, {b.count} arrival{'s' if b.count > 1 else ''} per phase"
                start = f"smem + {b.offset_bytes}" if b.offset_bytes else "smem"
                yield f"    u64* const {b.name} = reinterpret_cast<u64*>({start});"

    def _base_names(self, body: Body) -> dict[str, tuple[str, tuple[Shared, ...]]]:
        """A new name for every base, after the buffer it is first used for, and all of its buffers."""
        roles: dict[str, str] = {}
        buffers: dict[str, dict[Shared, None]] = {}
        self._touched: set[str] = set()
        for s in calls(body):
            for operand, at in s.memory:
                if isinstance(at.buffer, Shared):
                    self._touched.add(at.buffer.name)
                    for v in variables(at.index):
                        if _BASE.fullmatch(v.name):
                            way = {"write": "st", "place": "at"}.get(operand.role, "ld")
                            roles.setdefault(v.name, f"{at.buffer.name}_{way}")
                            buffers.setdefault(v.name, {})[at.buffer] = None
        names: dict[str, tuple[str, tuple[Shared, ...]]] = {}
        counts = Counter(roles.values())
        for old in sorted(roles, key=lambda name: int(name[4:])):
            prefix, n = roles[old], 0
            while (name := prefix if counts[prefix] == 1 and not n else f"{prefix}{n}") in self._taken:
                n += 1
            self._taken.add(name)
            names[old] = name, tuple(buffers[old])
        return names

    def base_layout(self, var: Var) -> Iterator[str]:
        """The layout that a base counts in, once for each of the buffers."""
        if var.name in self._bases:
            _, buffers = self._bases[var.name]
            if buffers not in self._said:
                self._said.add(buffers)
                yield "bytes into " + ", and into ".join(f"{b.name}, {b.layout}" for b in buffers)

    def layouts(self, call: Do) -> Iterator[str]:
        """The tensors in global memory that a call accesses, each when it is first accessed in this way."""
        for operand, at in call.memory:
            tensor, buffer = at.tensor, at.buffer
            if tensor is None or not isinstance(buffer, Global):
                continue
            key = buffer.name, str(tensor.coordinates), operand.role
            if key in self._said:
                continue
            self._said.add(key)
            strides = ",".join(map(str, buffer.strides))
            shape = ",".join("_" if e is None else str(e) for e in tensor.extents)
            part = f", per thread {tensor.coordinates}" if tensor.size > 1 else ""
            yield f"{buffer.name} ({shape}):({strides}){part}"

    def renamed(self, text: str, types: Types) -> str:
        """An expression with the text's names; a scalar that is passed as a float is taken as its bits."""
        for scalar, _ in self.kernel.scalars:
            if types.is_float(scalar):
                text = re.sub(rf"\b0 < {scalar} % 2147483648u", f"{scalar} != 0.0f", text)
                text = re.sub(rf"\b{scalar}\b(?! !=)", f"__float_as_uint({scalar})", text)
        if self._new:
            text = re.sub(r"\blane\d+\b", lambda m: self._new.get(m[0], m[0]), text)
        return text
