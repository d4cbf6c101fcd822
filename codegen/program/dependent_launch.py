"""Kernels that may start while the one in front of them on the stream still ends.

The idea.  Of two kernels in a row the second one's launch, some 2 us, can pass while the first one's last
blocks run, if it waits by itself before it reads what the first one wrote:

    first                ... blocks end one by one ...| memory is flushed |
    second                            | blocks start | wait ------------- | read, as before

`dependent` writes that into a kernel: the wait in front of everything, and loads of what the kernel in front
wrote that stay behind it.  A launch has to allow the early start; one that does not is right all the same.

Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.instr import GRID_WAIT, LDG, LDG_FRESH
from layoutalg.codegen.program.tile import Do, For, Global, If, Kernel, MemRef, Stmt, Unroll

EARLY_FROM = (9, 0)
"""Compute capability from which on kernels can start early."""

NOTES = ("It may be launched while the kernel in front of it ends, by programmatic stream serialization.",)
"""What the header of such a kernel says."""

_FRESH = {LDG[n].name: LDG_FRESH[n] for n in LDG}


def dependent(
    kernel: Kernel, written: Collection[str], arch: str | Arch, read: Collection[str] = ()
) -> Kernel:
    """The kernel, so that it may start before the one in front of it has ended, where the architecture can.

    `written`: those of its pointers, by name, that the kernel in front writes; `read`: those that it reads.
    A kernel that shares nothing with the one in front, but for what both of them read, stays as it is.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> k = KernelBuilder("read", threads=32)
    >>> k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("partial", 4), k.tid))
    >>> print(dependent(k.build(), ["partial"], "sm_90"))
    kernel read
      grid_wait()
      ldg32_fresh(v, partial[tid])
    """
    if find_arch(arch).compute_capability < EARLY_FROM:
        return kernel
    overwritten = (p.name for p in kernel.params if isinstance(p, Global) and p.writable and p.name in read)
    awaited = tuple(dict.fromkeys([*written, *overwritten]))
    if not awaited:
        return kernel
    body = (Do(GRID_WAIT, ()), *(_fresh(s, written) for s in kernel.body))
    return replace(kernel, body=body, notes=(*kernel.notes, *NOTES), awaited=awaited)


def _fresh(s: Stmt, written: Collection[str]) -> Stmt:
    """A statement whose loads of what was written stay behind the wait."""
    match s:
        case Do(instr, (_, MemRef(buffer))) if instr.name in _FRESH and buffer.name in written:
            return replace(s, instr=_FRESH[instr.name])
        case For() | Unroll():
            return replace(s, body=tuple(_fresh(x, written) for x in s.body))
        case If():
            body, orelse = (tuple(_fresh(x, written) for x in part) for part in (s.body, s.orelse))
            return replace(s, body=body, orelse=orelse)
    return s
