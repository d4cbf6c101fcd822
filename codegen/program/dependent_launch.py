"""Kernels that may start while the one in front of them on the stream still ends.

The idea.  Of two kernels in a row the second one's launch, some 2 us, can pass while the first one's last
blocks run, if it waits by itself before it reads what the first one wrote:

    first                ... blocks end one by one ...| memory is flushed |
    second                            | blocks start | wait ------------- | read, as before

`dependent` writes that into a kernel: the wait in front of everything, and loads of what the kernel in front
wrote that stay behind it.  A launch has to allow the early start; one that does not is right all the same.

`awaited` of a kernel names the pointers whose memory the kernel in front writes, or reads where this one
writes: to touch them earlier is a race that no simulation of one kernel after the other can show.
`check_waits` refuses an access that is not where its thread has passed a GRID_WAIT:

    grid_wait(); ld(partial)                    behind it
    if c: grid_wait();  ld(partial)             not behind it: a thread may have gone past the branch
    if c: grid_wait(); ld(partial)              inside of the branch: behind it

Notes.  What the kernel only reads is, by its text, constant: the compiler may load it ahead of a wait, and
through the read-only path.  LDG_FRESH stays.

Sources: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX ISA 9.0,
9.7.13.13 (griddepcontrol).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.instr import GRID_WAIT, LDG, LDG_FRESH
from layoutalg.codegen.program import tile
from layoutalg.errors import IRError

EARLY_FROM = (9, 0)
"""Compute capability from which on kernels can start early."""

NOTES = ("It may be launched while the kernel in front of it ends, by programmatic stream serialization.",)
"""The notes in the header of such a kernel."""

_FRESH = {LDG[n].name: LDG_FRESH[n] for n in LDG}
"""Loads that are plain text, and may be moved, with those that stay."""


def dependent(
    kernel: tile.Kernel, written: Collection[str], arch: str | Arch, read: Collection[str] = ()
) -> tile.Kernel:
    """The kernel, so that it may start before the one in front of it has ended, where the architecture can.

    `written`: those of its pointers, by name, that the kernel in front writes; `read`: those that it reads.
    A kernel that shares nothing with the one in front, except what both of them read, stays as it is, and
    so does a cooperative one, all blocks of which the driver starts at once.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("read", threads=32)
    >>> k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("partial", 4), k.tid))
    >>> print(dependent(k.build(), ["partial"], "sm_90"))
    kernel read
      grid_wait()
      ldg32_fresh(v, partial[tid])
    """
    if find_arch(arch).compute_capability < EARLY_FROM or kernel.cooperative:
        return kernel
    overwritten = (p.name for p in kernel.pointers if p.writable and p.name in read)
    awaited = tuple(dict.fromkeys([*written, *overwritten]))
    if not awaited:
        return kernel
    body = (tile.Do(GRID_WAIT, ()), *(_fresh(s, written) for s in kernel.body))
    return replace(kernel, body=body, notes=(*kernel.notes, *NOTES), awaited=awaited)


def _fresh(s: tile.Stmt, written: Collection[str]) -> tile.Stmt:
    """A statement whose loads of what was written stay behind the wait."""
    match s:
        case tile.Do(instr, (_, tile.MemRef(buffer))) if instr.name in _FRESH and buffer.name in written:
            return replace(s, instr=_FRESH[instr.name])
    return tile.with_bodies(s, lambda body: tuple(_fresh(x, written) for x in body))


def check_waits(kernel: tile.Kernel) -> None:
    """Raise IRError where a kernel may touch what it has to wait for too early.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> check_waits(KernelBuilder("empty", threads=32).build())
    """
    pointers = {p.name: p for p in kernel.pointers}
    for name in kernel.awaited:
        if name not in pointers:
            raise IRError("awaited", name, f"{name} is not a pointer of {kernel.name}")
    _waited(kernel.body, frozenset(pointers[name] for name in kernel.awaited), waited=False)


def _waited(body: tile.Body, awaited: frozenset[tile.Global], *, waited: bool) -> bool:
    """Whether threads that come out of `body` have waited, given whether those that enter have."""
    for s in body:
        match s:
            case tile.Do():
                _access(s, awaited, waited=waited)
                waited = waited or s.instr.name == GRID_WAIT.name
            case _:  # a For may have no turns, and warps of no role pass by
                inside = [_waited(inner, awaited, waited=waited) for inner in tile.bodies(s)]
                certain = isinstance(s, tile.If) or (isinstance(s, tile.Unroll) and s.count > 0)
                waited = waited or (certain and all(inside))
    return waited


def _access(s: tile.Do, awaited: frozenset[tile.Global], *, waited: bool) -> None:
    for operand, at in s.memory:
        if at.buffer not in awaited:
            continue
        name = at.buffer.name
        if not waited:
            raise IRError("grid_wait", s, f"'{s}' may touch {name} while the kernel in front works on it")
        if operand.role == "read" and not at.buffer.writable and s.instr.name in _FRESH:
            raise IRError("fresh", s, f"'{s}' may be moved ahead of grid_wait: {name} takes {s.instr}_fresh")
