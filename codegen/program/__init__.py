"""The tile program: its statements, how it is written, checked and lowered.

    tile        Kernel, Global, Shared, Reg and the five statements
    tensor      Tensor: a view of a buffer by coordinates; local_tile, partition
    fragment    Fragment: the registers of a thread by the places of a partition
    values      arithmetic on fragments: v * alpha + b
    copying     tiled copies: load, store and copy partitions, under predicates
    ring        pipeline: a ring of shared tiles that cp.async fills, stated once
    builder     KernelBuilder: how a program is written
    bounds      no access leaves its buffer
    checks      check: everything that is refused before anything runs
    converged   which threads arrive together
    waits       dependent kernels wait before they touch memory
    dependent_launch   a kernel that may start early
    launch_contract    what a launch must give a kernel
    conditions  what is known inside a branch
    lowering    an equal program with cheap addresses
    printable   the program that is printed: checked and lowered
    sequence    LaunchSequence: kernels launched in order, and what their parameters are

Programs are immutable values; the printer, the simulator and every analysis read the same one.
"""

from __future__ import annotations

from layoutalg.codegen.program.builder import KernelBuilder
from layoutalg.codegen.program.copying import ThreadSlice, Where
from layoutalg.codegen.program.dependent_launch import dependent
from layoutalg.codegen.program.fragment import Fragment
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
from layoutalg.codegen.program.ring import pipeline
from layoutalg.codegen.program.sequence import (
    SCRATCH,
    LaunchSequence,
    launch_sequence,
    overlapped,
    printed_sequence,
)
from layoutalg.codegen.program.tensor import Side, Tensor, local_tile, partition, whole
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
    expressions,
    walk,
)
from layoutalg.codegen.program.values import (
    Arithmetic,
    Scalar,
    Value,
    exp,
    exp2,
    maximum,
    minimum,
    reciprocal,
    rsqrt,
    sqrt,
    tanh,
)

__all__ = [
    "GRID_LIMITS",
    "SCRATCH",
    "Arg",
    "Arithmetic",
    "Do",
    "For",
    "Fragment",
    "Global",
    "If",
    "Kernel",
    "KernelBuilder",
    "LaunchSequence",
    "Let",
    "MemRef",
    "Reg",
    "RegRef",
    "Scalar",
    "Shared",
    "Side",
    "Stmt",
    "Tensor",
    "ThreadSlice",
    "Unroll",
    "Value",
    "Where",
    "check_argument",
    "check_integers",
    "contract",
    "dependent",
    "exp",
    "exp2",
    "expressions",
    "is_dynamic",
    "launch_sequence",
    "lines",
    "local_tile",
    "lower",
    "maximum",
    "minimum",
    "overlapped",
    "partition",
    "pipeline",
    "pointer_type",
    "printed",
    "printed_sequence",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "tanh",
    "text",
    "walk",
    "whole",
]
