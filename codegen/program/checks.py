"""The grammar of a tile program: what must hold before it is printed or run.

One function per rule, each raising IRError (or the resource, alignment or support error that fits) with
the statement.  Accesses are proven to be aligned, and those of shared memory to stay inside their buffers.
What depends on data, such as bounds of global memory and races, is the simulator's business.

Threads part where a condition, or the number of a loop's turns, differs between them.  For every expression
there is the largest group of threads that is proved to agree on it, as barriers and the instructions of a
whole warp need:

    BLOCK    n < 64, kt + 1 < tiles         blocks, parameters and loop variables: one value per block
    WARPGROUP, WARP   tid // 32 < 2         one value per four warps or per warp, by the proof below
    THREAD   tid < 40                       nothing is proved

With tid = 32 warp + lane, `simplify` takes most expressions apart so that the lane is gone.  The rest of it
has to be in parts with no other variables than these two; each is tabulated over the threads of a block, and
has to be the same in all lanes of a warp.  The proof is sound, not complete: of (tid + n) // 32 it knows that
lanes agree where n is declared as a multiple of 32, not where n is always one for other reasons.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from enum import IntEnum

import numpy

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.expr import (
    Const,
    Expr,
    Var,
    evaluate,
    is_predicate,
    resolved,
    simplify,
    substitute,
    variables,
)
from layoutalg.codegen.instr import WARP, WARPGROUP, Instr, Operand, into
from layoutalg.codegen.program.asynchronous import check_asynchronous
from layoutalg.codegen.program.bounds import find_outside
from layoutalg.codegen.program.conditions import check_tensors
from layoutalg.codegen.program.dependent_launch import check_waits
from layoutalg.codegen.program.tile import (
    Arg,
    BarrierRef,
    Body,
    Do,
    For,
    Global,
    If,
    Kernel,
    Let,
    MemRef,
    RegRef,
    Roles,
    Stmt,
    TensorMapParam,
    Unroll,
    calls,
    expressions,
    walk,
)
from layoutalg.errors import AlignmentError, IRError, ResourceError, UnsupportedError


def check(kernel: Kernel, arch: str | Arch = DEFAULT_ARCH) -> None:
    """Check every rule on `kernel` for an architecture.  Raises the first violation found.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> check(KernelBuilder("empty", threads=32).build())
    """
    chip = find_arch(arch)
    _launch(kernel, chip)
    check_asynchronous(kernel, chip)
    _cooperative(kernel)
    scope = {kernel.tid, *kernel.block_vars, *kernel.integers}
    _body(kernel.body, kernel, chip, frozenset(scope), {}, Together.BLOCK)
    check_tensors(kernel)
    reach = find_outside(kernel)
    if reach is not None:
        raise IRError("bounds", reach.statement, f"'{reach.statement}' leaves its buffer in {reach.outside}")
    check_waits(kernel)


HOPPER = 90
"""The generation that brought TMA, mbarriers and wgmma."""

TURING = 75
"""The generation that brought ldmatrix, which is named in their place for GPUs that have it."""


def check_available(instr: Instr, chip: Arch) -> None:
    """Raise UnsupportedError unless an architecture has an instruction.

    >>> from layoutalg.codegen.instr import BAR
    >>> check_available(BAR, find_arch("sm_80"))
    """
    major, minor = chip.compute_capability
    sm, needed = 10 * major + minor, instr.requires.sm
    if not ((instr.requires.arch_specific and sm != needed) or sm < needed):
        return
    where = f"exists on sm_{needed}a alone" if instr.requires.arch_specific else f"needs sm_{needed}"
    there = "cp.async, ldmatrix and mma.sync" if sm >= 80 else "ldmatrix and mma.sync"
    instead = f"; {there} are there" if needed == HOPPER and sm >= TURING else ""
    raise UnsupportedError(f"{instr} {where}; {chip.name} does not have it{instead}")


def _launch(kernel: Kernel, chip: Arch) -> None:
    if kernel.threads % chip.lanes or not 0 < kernel.threads <= chip.max_threads_per_block:
        raise ResourceError(
            f"threads a block of {kernel.name}", kernel.threads, chip.max_threads_per_block,
            hint=f"a multiple of {chip.lanes} is needed",
        )  # fmt: skip
    if kernel.shared_bytes > chip.max_shared_bytes_per_block:
        what = f"shared memory bytes of {kernel.name} on {chip.name}"
        raise ResourceError(what, kernel.shared_bytes, chip.max_shared_bytes_per_block)
    for earlier, later in itertools.combinations(kernel.shared, 2):
        low, high = sorted((earlier, later), key=lambda b: b.offset_bytes)
        if low.offset_bytes + low.size_bytes > high.offset_bytes and not later.overlay:
            raise IRError("overlap", later, f"{earlier.name} and {later.name} overlap in shared memory")
    helpers = {s.instr.name for s in calls(kernel.body)}
    declared = {d.name for d in kernel.declared}
    named = [s for s in walk(kernel.body) if isinstance(s, (Let, For, Unroll))]
    for name in (kernel.name, *(d.name for d in kernel.declared), *(s.var.name for s in named)):
        if name in helpers:
            raise IRError("name", name, f"{name} is also the name of an instruction of {kernel.name}")
    for s in named:
        if s.var.name in declared:
            raise IRError("shadowing", s, f"{s.var.name} is already declared by {kernel.name}")
    for extent in kernel.grid:
        if not variables(extent) <= set(kernel.params):
            raise IRError("grid", extent, f"grid extent {extent} may use parameters only")
    for condition in kernel.conditions:
        if not is_predicate(condition) or not variables(condition) <= set(kernel.params):
            raise IRError("condition", condition, f"the condition {condition} must compare parameters only")


def _cooperative(kernel: Kernel) -> None:
    """Blocks that wait for each other say so, and have no clusters: it is not known how many of those fit."""
    waiting = (s for s in calls(kernel.body) if s.instr.requires.all_blocks)
    if (s := next(waiting, None)) is None:
        return
    if not kernel.cooperative:
        raise IRError(
            "cooperative", s, f"'{s}' waits for all blocks of {kernel.name}, which is not cooperative"
        )
    if kernel.cluster_blocks > 1:
        raise UnsupportedError(
            f"{kernel.name} has clusters of {kernel.cluster_blocks} blocks and waits for all blocks of its "
            "launch: one of both is accepted"
        )


def _body(
    body: Body, kernel: Kernel, chip: Arch, scope: frozenset[Var], lets: Mapping[Var, Expr],
    together: Together,
) -> None:  # fmt: skip
    for s in body:
        for e in expressions(s):
            _scoped(e, s, scope)
        match s:
            case Do():
                _do(s, kernel, chip, together)
            case Let(var, value):
                _fresh(var, scope, s)
                scope |= {var}
                if isinstance(value, RegRef):
                    _register(into(var.name, 1), value, s, kernel)
                else:
                    lets = {**lets, var: value}
            case For(var, count, inner, _, carry):
                _fresh(var, scope, s)
                inside = scope | {var} | {c.var for c in carry}
                _body(inner, kernel, chip, inside, lets, _parted(together, count, inner, lets))
            case Unroll(var, _, inner):
                _fresh(var, scope, s)
                _body(inner, kernel, chip, scope | {var}, lets, together)
            case Roles(parts):
                for part in parts:
                    inside = scope - {kernel.tid} | {part.thread}
                    mine = min(together, Together.WARPGROUP if part.is_warpgroups else Together.WARP)
                    _body(part.body, kernel, chip, inside, lets, mine)
            case If(condition, inner, orelse):
                if not is_predicate(condition):
                    raise IRError("predicate", s, f"the condition {condition} is not a comparison")
                inside_of = _parted(together, condition, (*inner, *orelse), lets)
                _body(inner, kernel, chip, scope, lets, inside_of)
                _body(orelse, kernel, chip, scope, lets, inside_of)


def _parted(together: Together, e: Expr, body: Body, lets: Mapping[Var, Expr]) -> Together:
    """The threads still together where an expression decides which run `body`; found only where needed."""
    needs = [s.instr.requires for s in calls(body)]
    matters = any(r.block_converged or r.warpgroup_converged for r in needs)
    return min(together, agreement(e, lets)) if matters or of_whole_warps(body) else together


def _fresh(var: Var, scope: frozenset[Var], s: Stmt) -> None:
    if any(v.name == var.name for v in scope):
        raise IRError("shadowing", s, f"{var.name} is already in scope at '{s}'")


def _scoped(e: Expr, s: Stmt, scope: frozenset[Var]) -> None:
    for v in variables(e):
        if v not in scope:
            raise IRError("scope", s, f"{v.name} is not in scope at '{s}'")


def _do(s: Do, kernel: Kernel, chip: Arch, together: Together) -> None:
    check_available(s.instr, chip)
    if s.instr.requires.block_converged and together < Together.BLOCK:
        raise IRError("converged", s, f"{s.instr} stands where not every thread of the block may arrive")
    if s.instr.requires.warpgroup_converged and together < Together.WARPGROUP:
        raise IRError(
            "converged", s, f"{s.instr} is of a whole warpgroup and stands where its warps may part: a role "
            "of 4 warps, or a condition that is the same in all of them, is needed",
        )  # fmt: skip
    if s.instr.requires.warp_converged and together < Together.WARP:
        raise IRError(
            "converged", s, f"{s.instr} is of a whole warp and stands where lanes of one may part: no proof "
            "was found that its condition is the same in all of them",
        )  # fmt: skip
    for operand, arg in s.pairs:
        _operand(operand, arg, s, kernel)


def _operand(operand: Operand, arg: Arg, s: Do, kernel: Kernel) -> None:
    match operand.role, arg:
        case ("imm", int()) if not isinstance(arg, bool):
            return
        case ("in" | "out" | "inout", RegRef()):
            _register(operand, arg, s, kernel)
        case ("read" | "write" | "update" | "place", MemRef()):
            _memory(operand, arg, s, kernel)
        case ("barrier", BarrierRef()) | ("map", TensorMapParam()):
            return
        case ("guard", _) if isinstance(arg, Expr) and is_predicate(arg):
            return
        case ("value", _) if isinstance(arg, Expr) and (not is_predicate(arg) or isinstance(arg, Const)):
            if arg.facts.hi >= 1 << 32:
                raise IRError("value", s, f"{operand.name} of {s.instr} takes 32 bits; {arg} may need more")
        case _:
            raise IRError("operand", s, f"operand {operand.name} of {s.instr} is {operand.role}, got {arg}")


def _register(operand: Operand, ref: RegRef, s: Do | Let, kernel: Kernel) -> None:
    if ref.reg not in kernel.regs:
        raise IRError("register", s, f"{ref.reg.name} is not a register of {kernel.name}")
    if ref.words != operand.words:
        raise IRError(
            "register words", s,
            f"operand {operand.name} of {s.instr if isinstance(s, Do) else s} takes {operand.words} words, "
            f"{ref} has {ref.words}",
        )  # fmt: skip
    if len(ref.index) > len(ref.reg.shape):
        raise IRError("register index", s, f"{ref}: {ref.reg.name} has {len(ref.reg.shape)} modes")
    for mode, (e, extent) in enumerate(zip(ref.index, ref.reg.shape, strict=False)):
        if any(v.kind != "unroll" for v in variables(e)):
            raise IRError("register index", s, f"{ref}: only unroll variables and ints may index registers")
        reach = e.facts.hi + (ref.count if mode == len(ref.reg.shape) - 1 else 1)
        if reach > extent:
            raise IRError("register index", s, f"{ref}: index {reach - 1} of a mode of {extent}")


def _memory(operand: Operand, ref: MemRef, s: Do, kernel: Kernel) -> None:
    buffer = ref.buffer
    if buffer not in (*kernel.pointers, *kernel.shared):
        raise IRError("buffer", s, f"{buffer.name} is not a buffer of {kernel.name}")
    if buffer.space != operand.space:
        raise IRError("space", s, f"operand {operand.name} of {s.instr} is in {operand.space} memory")
    if operand.role in ("write", "update") and not buffer.writable:
        raise IRError("read only", s, f"{buffer.name} is read only and '{s}' writes it")
    if isinstance(buffer, Global) and buffer.align_bytes % operand.bytes:
        raise AlignmentError(
            f"'{s}' moves {operand.bytes} bytes a lane, but {buffer.name} is only aligned to "
            f"{buffer.align_bytes}", offset=buffer.align_bytes, required_bytes=operand.bytes,
        )  # fmt: skip
    facts = (ref.index * buffer.unit_bytes + buffer.offset_bytes).facts
    if not facts.divisible_by(operand.bytes):
        raise AlignmentError(
            f"'{s}' moves {operand.bytes} bytes a lane, but its address is only known to be "
            f"{facts.offset} mod {facts.stride}", offset=facts.offset, required_bytes=operand.bytes,
        )  # fmt: skip


_UNIFORM = frozenset({"block", "param", "loop", "unroll", "base"})


class Together(IntEnum):
    """Threads that do the same: alone, in their warp, in their four warps, in their block."""

    THREAD = 0
    WARP = 1
    WARPGROUP = 2
    BLOCK = 3


def agreement(e: Expr, lets: Mapping[Var, Expr]) -> Together:
    """The threads that are proved to have the same value of an expression.

    `lets` are the values of the let variables in scope.

    >>> tid, n = Var("tid", 128, "thread"), Var("n", 64, "param")
    >>> [agreement(e, {}).name for e in (n < 7, tid // 32 < n, tid % 64 < 32, tid < n)]
    ['BLOCK', 'WARP', 'WARP', 'THREAD']
    """
    if all(v.kind in _UNIFORM for v in variables(e)):
        return Together.BLOCK
    full = resolved(e, lets)
    used = variables(full)
    threads = [v for v in used if v.kind == "thread"]
    if any(v.kind not in _UNIFORM and v.kind != "thread" for v in used):
        return Together.THREAD
    if not threads:
        return Together.BLOCK
    if len(threads) > 1:
        return Together.THREAD
    (tid,) = threads
    for lanes, together in ((WARPGROUP, Together.WARPGROUP), (WARP, Together.WARP)):
        warp = Var("warp", -(-(tid.facts.hi + 1) // lanes), "thread")
        lane = Var("lane", lanes, "thread")
        apart = simplify(substitute(full, {tid: warp * lanes + lane}))
        if _same_in_lanes(apart, warp, lane):
            return together
    return Together.THREAD


def _same_in_lanes(e: Expr, warp: Var, lane: Var) -> bool:
    """Whether the lane, of a warp or of four, makes no difference: by the absence of it, or by the table of
    all values.
    """
    used = variables(e)
    if lane not in used:
        return True
    if not used <= {warp, lane}:
        return all(_same_in_lanes(part, warp, lane) for part in e.children)
    try:
        table = evaluate(
            e,
            {warp: numpy.arange(warp.facts.hi + 1)[:, None], lane: numpy.arange(lane.facts.hi + 1)[None, :]},
        )
    except ResourceError:  # values past 63 bits
        return False
    return bool((table == table[:, :1]).all())


def of_whole_warps(body: Iterable[Stmt]) -> bool:
    """Whether statements contain an instruction that all lanes of a warp execute together.

    >>> from layoutalg.codegen.instr import WARP_SYNC
    >>> from layoutalg.codegen.program.tile import Do
    >>> of_whole_warps([Do(WARP_SYNC, ())])
    True
    """
    return any(s.instr.requires.warp_converged for s in calls(tuple(body)))
