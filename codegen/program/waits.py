"""A kernel that may start early waits before it touches what the kernel in front of it works on.

The idea.  `awaited` of a kernel names the pointers whose memory the kernel in front writes, or reads where
this one writes: to touch them earlier is a race that no simulation of one kernel after the other can show.
Every access has to stand where its thread has passed a GRID_WAIT:

    grid_wait(); ld(partial)                    behind it
    if c: grid_wait();  ld(partial)             not behind it: a thread may have gone past the branch
    if c: grid_wait(); ld(partial)              inside of the branch: behind it

Notes.  What the kernel only reads is, by its text, constant: the compiler may load it ahead of a wait, and
through the read-only path.  LDG_FRESH stays.

Sources: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA 9.0,
9.7.13.13 (griddepcontrol).
"""

from __future__ import annotations

from layoutalg.codegen.instr import GRID_WAIT, LDG
from layoutalg.codegen.program.tile import Do, For, Global, If, Kernel, Let, MemRef, Stmt, Unroll
from layoutalg.errors import IRError

_MOVABLE = frozenset(instr.name for instr in LDG.values())
"""Loads that are plain text."""


def check_waits(kernel: Kernel) -> None:
    """Raise IRError where a kernel may touch what it has to wait for too early.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> check_waits(KernelBuilder("empty", threads=32).build())
    """
    pointers = {p.name: p for p in kernel.params if isinstance(p, Global)}
    for name in kernel.awaited:
        if name not in pointers:
            raise IRError("awaited", name, f"{name} is not a pointer of {kernel.name}")
    _waited(kernel.body, frozenset(pointers[name] for name in kernel.awaited), waited=False)


def _waited(body: tuple[Stmt, ...], awaited: frozenset[Global], *, waited: bool) -> bool:
    """Whether threads that come out of `body` have waited, given whether those that enter have."""
    for s in body:
        match s:
            case Do():
                _access(s, awaited, waited=waited)
                waited = waited or s.instr.name == GRID_WAIT.name
            case For(body=inner):  # of no turns, perhaps
                _waited(inner, awaited, waited=waited)
            case Unroll(body=inner, count=count):
                waited = _waited(inner, awaited, waited=waited) and (waited or count > 0)
            case If(body=inner, orelse=orelse):
                yes = _waited(inner, awaited, waited=waited)
                no = _waited(orelse, awaited, waited=waited)
                waited = yes and no
            case Let():
                pass
    return waited


def _access(s: Do, awaited: frozenset[Global], *, waited: bool) -> None:
    for operand, arg in zip(s.instr.operands, s.args, strict=True):
        if not isinstance(arg, MemRef) or arg.buffer not in awaited:
            continue
        name = arg.buffer.name
        if not waited:
            raise IRError("grid_wait", s, f"'{s}' may touch {name} while the kernel in front works on it")
        if operand.role == "read" and not arg.buffer.writable and s.instr.name in _MOVABLE:
            raise IRError("fresh", s, f"'{s}' may be moved ahead of grid_wait: {name} takes {s.instr}_fresh")
