"""The tile program: its statements, how it is written, checked and lowered.

    tile        Kernel, Global, Shared, Reg and the five statements
    builder     KernelBuilder: how a program is written
    bounds      no access leaves its buffer
    checks      check: everything that is refused before anything runs
    converged   which threads arrive together
    waits       dependent kernels wait before they touch memory
    dependent_launch   a kernel that may start early
    launch_contract    what a launch must give a kernel
    lowering    an equal program with cheap addresses
    printable   the program that is printed: checked and lowered

Programs are immutable values; the printer, the simulator and every analysis read the same one.
"""

from __future__ import annotations

from layoutalg.codegen.program.builder import KernelBuilder
from layoutalg.codegen.program.dependent_launch import dependent
from layoutalg.codegen.program.launch_contract import (
    GRID_LIMITS,
    check_argument,
    check_integers,
    contract,
    is_dynamic,
    lines,
    pointer_type,
    text,
)
from layoutalg.codegen.program.lowering import lower
from layoutalg.codegen.program.printable import printed
from layoutalg.codegen.program.tile import (
    Arg,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    Reg,
    RegRef,
    Shared,
    Stmt,
    Unroll,
    walk,
)

__all__ = [
    "GRID_LIMITS",
    "Arg",
    "Do",
    "For",
    "Global",
    "If",
    "Kernel",
    "KernelBuilder",
    "Let",
    "MemRef",
    "Reg",
    "RegRef",
    "Shared",
    "Stmt",
    "Unroll",
    "check_argument",
    "check_integers",
    "contract",
    "dependent",
    "is_dynamic",
    "lines",
    "lower",
    "pointer_type",
    "printed",
    "text",
    "walk",
]
