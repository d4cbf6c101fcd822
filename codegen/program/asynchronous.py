"""The rules of tensor maps, mbarriers, roles and clusters that hold before anything is compiled.

The idea.  A tensor map is judged by layoutalg.legality.check_tma, once its strides are proved to be multiples
of 16 bytes; a box has to start, end and lie in shared memory where TMA can write it.  Barriers need somebody
who initialises them, roles warps of their own, clusters a grid that they divide.  Every refusal names the
rule and the nearest change.

What depends on the order in which things happen is the simulator's business.

Sources: CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA 9.0, 9.7.13.15.9 (mbarrier.init), 9.7.20.5
(setmaxnreg), 9.7.13.1 (barrier); CUDA C++ Programming Guide, thread block clusters.
"""

from __future__ import annotations

import functools
import math

from layoutalg.arch import Arch
from layoutalg.codegen import instr
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.program.tile import (
    BarrierRef,
    Do,
    Kernel,
    Mbarrier,
    Role,
    Roles,
    Shared,
    TensorMapParam,
    calls,
    walk,
)
from layoutalg.errors import AlignmentError, IRError, ResourceError, UnsupportedError
from layoutalg.layout import AnyLayout, Layout
from layoutalg.legality import TmaCopy, check_tma

MOST_ARRIVALS = (1 << 20) - 1
"""Arrivals of a phase of an mbarrier (PTX ISA, mbarrier.init: the range of its count)."""

MOST_CLUSTER = 16
"""Blocks of a cluster, where the device allows as many (CUDA C++ Programming Guide, 16 on Hopper)."""

PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every device allows."""

REGISTERS = 1 << 16
"""Registers of 32 bits of a multiprocessor, from sm_70 on (compute capabilities)."""

_CHANGES = (instr.SETMAXNREG_INC.name, instr.SETMAXNREG_DEC.name)


def check_asynchronous(kernel: Kernel, chip: Arch) -> None:
    """Check every rule of this module.  Raises the first violation found.

    >>> from layoutalg.arch import find_arch
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> check_asynchronous(KernelBuilder("empty", threads=32).build(), find_arch("sm_90"))
    """
    if (kernel.maps or kernel.barriers or kernel.cluster_blocks > 1) and chip.compute_capability < (9, 0):
        raise UnsupportedError(
            f"{kernel.name} has tensor maps, mbarriers or clusters; {chip.name} has cp.async and block "
            "barriers"
        )
    for tmap in kernel.maps:
        if tmap.source not in kernel.params:
            raise IRError("tensor map", tmap, f"{tmap}: {tmap.source.name} is not a pointer of {kernel.name}")
        written(tmap)
    _cluster(kernel)
    _barriers(kernel)
    roles = [s for s in walk(kernel.body) if isinstance(s, Roles)]
    for split in roles:
        _roles(split, kernel)
    for s in calls(kernel.body):
        _call(s, kernel)
    _registers(kernel, roles)


@functools.lru_cache(maxsize=256)
def written(one: TensorMapParam) -> TmaCopy:
    """The effect of a copy through a map, whatever the parameters are.  Raises what check_tma requires.

    >>> from layoutalg.codegen.expr import Const, Var
    >>> from layoutalg.codegen.program.tile import Global
    >>> from layoutalg.dtype import dtype
    >>> n = Var("n", 1024, "param", 1, 8)
    >>> x = Global("x", 2, (n, Const(1)), False)
    >>> m = TensorMapParam("m", x, (n, Const(64)), (n * 2,), (64, 8), dtype("f16"), order=(1, 0))
    >>> print(written(m).layout, written(m).transaction_bytes)
    (8,64):(64,1) 1024
    """
    for d, stride in enumerate(one.strides_bytes):
        if not stride.facts.divisible_by(16):
            elements = 16 // math.gcd(16, one.element.nbytes)
            raise AlignmentError(
                f"{one}: the stride of dimension {d + 1} of {one.source.name} is {stride} bytes, not known "
                f"to be a multiple of 16; declare it with multiple={elements}",
                required_bytes=16,
            )
    dims = [max(n, 1) for n in one.box]
    step = -(-dims[0] * one.element.nbytes // 16) * 16 // one.element.nbytes
    strides = [1]
    for n in dims[1:]:
        strides.append(step)
        step *= n
    order = one.order or tuple(reversed(range(one.rank)))
    position = [order.index(i) for i in range(one.rank)]
    steps = one.element_strides or (1,) * one.rank
    judged = check_tma(
        Layout(tuple(dims[i] for i in position), tuple(strides[i] for i in position)),
        tuple(one.box[i] for i in position), one.element, mode=one.mode,
        element_strides=tuple(steps[i] for i in position), nan_fill=one.nan_fill,
        global_alignment_bytes=one.source.align_bytes,
    )  # fmt: skip
    return judged.require()


def written_layout(one: TensorMapParam) -> AnyLayout:
    """The layout that a copy gives a box in shared memory, in the modes of the map's tensor.

    >>> from layoutalg.codegen.expr import Const
    >>> from layoutalg.codegen.program.tile import Global
    >>> from layoutalg.dtype import dtype
    >>> x = Global("x", 1, (Const(64), Const(1)), False)
    >>> m = TensorMapParam("m", x, (Const(64), Const(8)), (Const(64),), (64, 8), dtype("u8"))
    >>> print(written_layout(m))
    (8,64):(64,1)
    """
    layout = written(one).layout
    if layout is None:
        raise UnsupportedError(f"{one}: the order of an interleaved box is not modelled")
    return layout


def _cluster(kernel: Kernel) -> None:
    blocks = kernel.cluster_blocks
    if any(n < 1 for n in kernel.cluster) or blocks > MOST_CLUSTER:
        raise ResourceError(
            f"blocks of a cluster of {kernel.name}", blocks, MOST_CLUSTER,
            hint=f"{PORTABLE_CLUSTER} fit every device, {MOST_CLUSTER} where it allows them",
        )  # fmt: skip
    for axis, extent, side in zip("xyz", kernel.grid, kernel.cluster, strict=True):
        if not extent.facts.divisible_by(side):
            raise IRError(
                "cluster", extent, f"the grid of {kernel.name} has {extent} blocks along {axis}, which "
                f"{side} blocks of a cluster may not divide; declare what it is made of with "
                f"multiple={side}, or round up",
            )  # fmt: skip


def _barriers(kernel: Kernel) -> None:
    initialised = {
        arg.barrier.name
        for s in calls(kernel.body)
        if s.instr.name == instr.MBARRIER_INIT.name
        for arg in s.args
        if isinstance(arg, BarrierRef)
    }
    for bar in kernel.barriers:
        if not 1 <= bar.count <= MOST_ARRIVALS:
            raise ResourceError(f"arrivals of {bar.name}", bar.count, MOST_ARRIVALS)
        if bar.offset_bytes % 8:
            raise AlignmentError(f"{bar.name} starts at byte {bar.offset_bytes}", required_bytes=8)
        if bar.name not in initialised:
            raise IRError("mbarrier", bar, f"{bar.name} is initialised by nobody; k.init({bar.name}) does it")
        placed: tuple[Shared | Mbarrier, ...] = (*kernel.shared, *kernel.barriers)
        for other in placed:
            end = other.offset_bytes + other.size_bytes
            meets = other.offset_bytes < bar.offset_bytes + bar.size_bytes and bar.offset_bytes < end
            if other is not bar and meets:
                raise IRError(
                    "overlap", bar, f"{other.name} lies over the mbarriers {bar.name}, whose bytes are their "
                    "own; declare the buffers that lie over others first",
                )  # fmt: skip


def _roles(s: Roles, kernel: Kernel) -> None:
    taken: dict[int, Role] = {}
    warps = kernel.threads // WARP
    if len({part.name for part in s.parts}) < len(s.parts):
        raise IRError("roles", s, f"two roles of {kernel.name} have one name")
    for part in s.parts:
        if part.warps < 1 or part.first_warp < 0 or part.first_warp + part.warps > warps:
            raise IRError("roles", s, f"{part}: {kernel.name} has warps 0 to {warps - 1}")
        for warp in range(part.first_warp, part.first_warp + part.warps):
            if warp in taken:
                raise IRError("roles", s, f"warp {warp} is of the roles {taken[warp].name} and {part.name}")
            taken[warp] = part
        if nested := [inner for inner in walk(part.body) if isinstance(inner, Roles)]:
            raise IRError("roles", nested[0], f"roles inside of the role {part.name}")
        threads = WARP * part.warps
        for inner in calls(part.body):
            if inner.instr.name == instr.BAR.name:
                raise IRError(
                    "roles", inner, f"{instr.BAR} in the role {part.name} waits for warps that never get "
                    f"there; a named barrier of its {threads} threads does not: "
                    f"k.named_barrier(1, {threads})",
                )  # fmt: skip
            if inner.instr.requires.warpgroup_converged and not part.is_warpgroups:
                raise IRError(
                    "roles", inner, f"{inner.instr} is of whole warpgroups, and {part} is none: a role has "
                    "to start at a multiple of 4 warps and have a multiple of 4",
                )  # fmt: skip


def _call(s: Do, kernel: Kernel) -> None:
    for _, arg in s.pairs:
        match arg:
            case BarrierRef(bar, stage):
                if bar not in kernel.barriers:
                    raise IRError("mbarrier", s, f"{bar.name} is not an mbarrier of {kernel.name}")
                if stage.facts.hi >= bar.stages:
                    what = f"{arg} of '{s}' reaches stage {stage.facts.hi}; {bar.name} has {bar.stages}"
                    raise IRError("mbarrier", s, what)
            case TensorMapParam() if arg not in kernel.maps:
                raise IRError("tensor map", s, f"{arg} is no tensor map of {kernel.name}")
    if s.instr.engine in ("tma", "bulk"):
        _copy(s, kernel)
    if s.instr.name in (instr.NAMED_BARRIER.name, instr.NAMED_ARRIVE.name):
        number, threads = s.args
        if not isinstance(number, int) or not 1 <= number <= 15:
            raise IRError("named barrier", s, f"'{s}': barriers 1 to 15 have a number; 0 is the block's")
        if not isinstance(threads, int) or threads % WARP or not 0 < threads <= kernel.threads:
            raise IRError(
                "named barrier", s, f"'{s}': threads are whole warps, at most the {kernel.threads} of a block"
            )
    if s.instr.name == instr.MBARRIER_INIT.name:
        ref, count = s.args
        if isinstance(ref, BarrierRef) and count != ref.barrier.count:
            raise IRError(
                "mbarrier", s, f"'{s}': {ref.barrier.name} is declared for {ref.barrier.count} arrivals"
            )


def _copy(s: Do, kernel: Kernel) -> None:
    tmap = s.tensor_map
    if tmap is None or not s.memory:
        return
    ((_, place),) = s.memory
    coordinates = sum(o.role == "value" and o.name.startswith("c") for o in s.instr.operands)
    if coordinates != tmap.rank:
        raise IRError("TMA", s, f"'{s}' has {coordinates} coordinates; {tmap} has {tmap.rank} dimensions")
    if s.instr.engine == "bulk" and not tmap.source.writable:
        raise IRError("read only", s, f"{tmap.source.name} is read only and '{s}' writes it")
    if not isinstance(place.buffer, Shared):
        raise IRError("TMA", s, f"'{s}': {place.buffer.name} is in global memory")
    copy, buffer = written(tmap), place.buffer
    period = max(128, tmap.mode.period_bytes) if tmap.mode.swizzle.bits else 128
    base = (place.index + buffer.offset_bytes).facts
    if not base.divisible_by(period) or buffer.align_bytes % period:
        raise AlignmentError(
            f"'{s}' starts at byte {base.offset}{f' mod {base.stride}' if base.stride else ''} of shared "
            f"memory; mode {tmap.mode} of {tmap} needs a multiple of {period}: declare {buffer.name} with "
            f"align_bytes={period}", offset=base.offset, required_bytes=period,
        )  # fmt: skip
    if copy.shared_bytes > buffer.size_bytes:
        what = f"a box of {tmap} takes {copy.shared_bytes} bytes, {buffer.name} has {buffer.size_bytes}"
        raise IRError("bounds", s, what)


def _registers(kernel: Kernel, roles: list[Roles]) -> None:
    """The registers that setmaxnreg leaves the warps of a block are what the block has."""
    changes = [s for s in calls(kernel.body) if s.instr.name in _CHANGES]
    if not changes:
        return
    share = REGISTERS // kernel.threads // 8 * 8
    for s in changes:
        (count,) = s.args
        if not isinstance(count, int) or count % 8 or not 24 <= count <= 256:
            raise IRError("setmaxnreg", s, f"'{s}': 24 to 256 registers, a multiple of 8")
        if (s.instr.name == instr.SETMAXNREG_INC.name) != (count > share) and count != share:
            what = f"'{s}': a thread starts with {share} registers, 65536 over {kernel.threads} threads"
            raise IRError("setmaxnreg", s, what)
    for split in roles:
        taken = sum(_own(part, share) * WARP * part.warps for part in split.parts)
        rest = kernel.threads - sum(WARP * part.warps for part in split.parts)
        if taken + rest * share > share * kernel.threads:
            least = (share * kernel.threads - rest * share) // 8 * 8
            raise ResourceError(
                f"registers of the roles of {kernel.name}", taken, least,
                hint=f"a block starts with {share} per thread, and one role takes what another gives",
            )  # fmt: skip


def _own(part: Role, share: int) -> int:
    """Registers per thread of a role at the most."""
    counts = [int(str(s.args[0])) for s in calls(part.body) if s.instr.name in _CHANGES]
    return max(counts, default=share)
