"""Instructions that need sm_80: asynchronous copies from global to shared memory.

CP_ASYNC[n] starts a copy of n bytes a lane; CP_COMMIT closes the group of copies started since the last
one; CP_WAIT(n) waits until at most the n newest groups of this thread are unfinished.  Other threads'
copies are visible only after a barrier that follows their wait.  CP_ASYNC_LINE[n] is CP_ASYNC[n] with the
hint that the L2 fetch the whole line of 128 bytes: for lines of which the rest is read soon.

Source: PTX ISA 9.0, 9.7.9.25.3 (cp.async, cp.async.commit_group, cp.async.wait_group).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr.record import Instr, Requires, guard, imm, read, write


def _cp_async(nbytes: int, suffix: str = "", hint: str = "") -> Instr:
    name, cache = f"cp_async_{nbytes}{suffix}", "cg" if nbytes == 16 else "ca"
    ptx = f"cp.async.{cache}.shared.global{hint} [%0], [%1], {nbytes};"
    text = (
        f"void {name}(void* s, const void* p) {{\n"
        "    const u32 to = static_cast<u32>(__cvta_generic_to_shared(s));\n"
        f'    asm volatile("{ptx}" :: "r"(to), "l"(p) : "memory");\n'
        "}"
    )
    op = f"cp.async.{nbytes}"
    operands = (write("s", "shared", nbytes, op), read("p", "global", nbytes, f"{op}:global"))
    return Instr(name, operands, text, requires=Requires(sm=80), engine="cp.async")


def _cp_async_guarded(nbytes: int) -> Instr:
    name, cache = f"cp_async_{nbytes}_zfill", "cg" if nbytes == 16 else "ca"
    ptx = f"cp.async.{cache}.shared.global [%0], [%1], {nbytes}, %2;"
    text = (
        f"void {name}(void* s, const void* p, bool inside) {{\n"
        "    const u32 to = static_cast<u32>(__cvta_generic_to_shared(s));\n"
        f'    asm volatile("{ptx}" :: "r"(to), "l"(p), "r"(inside ? {nbytes} : 0) : "memory");\n'
        "}"
    )
    op = f"cp.async.{nbytes}"
    operands = (
        write("s", "shared", nbytes, op),
        read("p", "global", nbytes, f"{op}:global"),
        guard("inside"),
    )
    return Instr(name, operands, text, requires=Requires(sm=80), engine="cp.async")


CP_ASYNC_ZFILL: Mapping[int, Instr] = MappingProxyType({n: _cp_async_guarded(n) for n in (4, 8, 16)})
"""The same, but where the guard fails nothing is read and zeros are written."""

CP_ASYNC: Mapping[int, Instr] = MappingProxyType({n: _cp_async(n) for n in (4, 8, 16)})

CP_ASYNC_LINE: Mapping[int, Instr] = MappingProxyType(
    {n: _cp_async(n, "_line", ".L2::128B") for n in (4, 8, 16)}
)
"""The same, and the L2 fetches the whole line."""


def _commit(machine: Any, group: Any) -> None:
    machine.commit_copies(group)


def _wait(machine: Any, group: Any, newest: int) -> None:
    machine.wait_copies(group, newest)


CP_COMMIT = Instr(
    "cp_async_commit",
    (),
    'void cp_async_commit() {\n    asm volatile("cp.async.commit_group;" ::: "memory");\n}',
    _commit,
    Requires(sm=80),
)

CP_WAIT = Instr(
    "cp_async_wait",
    (imm("newest"),),
    'void cp_async_wait() {\n    asm volatile("cp.async.wait_group %0;" :: "n"(newest) : "memory");\n}',
    _wait,
    Requires(sm=80),
)

INSTRUCTIONS: Mapping[str, Instr] = MappingProxyType(
    {
        i.name: i
        for i in (
            *CP_ASYNC.values(), *CP_ASYNC_LINE.values(), *CP_ASYNC_ZFILL.values(), CP_COMMIT, CP_WAIT,
        )
    }
)  # fmt: skip
"""Every instruction of this module by name."""
