"""The tile program: its statements, how it is written, checked and lowered.

    tile        Kernel, its declarations and the six statements
    asynchronous   the rules of tensor maps, mbarriers, roles and clusters
    bounds      no access leaves its buffer
    checks      check: everything that is refused before anything runs; which threads arrive together
    dependent_launch   programmatic dependent launch: a kernel that starts early and waits before using memory
    launch_contract    the conditions of a launch
    conditions  facts that hold inside a branch, and proofs from them: no coordinate passes an extent
    lowering    an equivalent program with cheap addresses, which is the one that is printed
    sequence    LaunchSequence: kernels launched in order, and what their parameters are

Programs are immutable values; the printer, the simulator and every analysis read the same one.
"""

from __future__ import annotations

from layoutalg.codegen.program.asynchronous import PORTABLE_CLUSTER, written_layout
from layoutalg.codegen.program.checks import check_available
from layoutalg.codegen.program.conditions import check_tensors
from layoutalg.codegen.program.dependent_launch import dependent
from layoutalg.codegen.program.launch_contract import (
    COOPERATIVE,
    EARLY,
    LARGE_CLUSTER,
    MOST_SHARED,
    Contract,
    Parameter,
    check_argument,
    check_integers,
    contract,
    dynamic_bytes,
    lines,
    only_target,
    text,
)
from layoutalg.codegen.program.lowering import lower, printed, with_expressions
from layoutalg.codegen.program.sequence import (
    SCRATCH,
    LaunchSequence,
    launch_sequence,
    overlapped,
    printed_sequence,
)
from layoutalg.codegen.program.tile import (
    MBARRIER_BYTES,
    Arg,
    BarrierRef,
    Body,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    Mbarrier,
    MemRef,
    Reg,
    RegRef,
    Role,
    Roles,
    Shared,
    Stmt,
    TensorMapParam,
    Unroll,
    bodies,
    calls,
    expressions,
    walk,
    with_bodies,
)
