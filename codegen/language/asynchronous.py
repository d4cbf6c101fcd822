"""The language of kernels for Hopper: tensor maps, mbarriers, TMA, roles, clusters.

    k = KernelBuilder("copy", threads=128)
    x, y = k.tensor("x", "f16", (m, n), (n, 1)), k.tensor("y", "f16", (m, n), (n, 1), writable=True)
    load, save = k.tensor_map("load", x, (64, 64)), k.tensor_map("save", y, (64, 64))
    tile, full = k.shared("tile", "f16", Layout((64, 64), (64, 1)), align_bytes=128), k.mbarrier("full")
    k.init(full)                                         one thread; fences; a barrier of the block
    with k.If(k.thread.eq(0)):
        k.expect(full[0], load.box_bytes)
        k.tma_load(load, local_tile(x, (64, 64), place), tile, full[0])
    k.wait(full[0], 0)

The idea.  A copy is written by tensors: the tile of a tensor in global memory, and where it lies in shared
memory; the map and its coordinates follow.  What the hardware would write elsewhere than the shared layout
says is refused here, with the layout that it does write.

    with k.roles() as roles:                             different warps do different work
        with roles.role("producer", warps=1): ...        k.thread counts from 0 in each
        with roles.role("consumer", warps=4): ...

    k.cluster(2)                                         blocks of two; k.rank counts them
    k.cluster_sync()

Source: CUTLASS, include/cute/atom/copy_traits_sm90_tma.hpp, make_tma_copy; include/cutlass/arch/barrier.h.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from layoutalg.arch import CHUNK_BYTES, SwizzleMode, find_swizzle_mode
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Operand, Var, as_expr, simplify
from layoutalg.codegen.language.tensor import Tensor
from layoutalg.codegen.program import (
    BarrierRef,
    Global,
    Mbarrier,
    MemRef,
    Role,
    Roles,
    Shared,
    TensorMapParam,
    written_layout,
)
from layoutalg.decide import find_difference
from layoutalg.errors import IRError, ShapeError
from layoutalg.layout import make_identity_layout, modes, size

if TYPE_CHECKING:
    from layoutalg.codegen.language.builder import KernelBuilder


@dataclass(slots=True)
class RolesBuilder:
    """The roles that are being written: `role` begins the next one, behind the warps of the ones before."""

    k: KernelBuilder
    parts: list[Role] = field(default_factory=list)

    @contextmanager
    def role(self, name: str, warps: int, *, registers: int = 0) -> Iterator[Role]:
        """Begin a role of the next `warps` warps; with `registers` per thread, by setmaxnreg, for warpgroups.

        Raises IRError where the block has fewer warps.
        """
        first, all_warps = sum(part.warps for part in self.parts), self.k.threads // instr.WARP
        if not 0 < warps <= all_warps - first:
            raise IRError(
                "roles", name, f"role {name} of {warps} warps: {all_warps - first} of the block are left"
            )
        role = Role(name, first, warps, ())
        with self.k.enter(role) as body:
            if registers:
                share = (1 << 16) // self.k.threads // 8 * 8
                self.k.do(instr.SETMAXNREG_INC if registers > share else instr.SETMAXNREG_DEC, registers)
            yield role
        self.parts.append(Role(name, first, warps, tuple(body)))


class AsynchronousBuilder:
    """The part of KernelBuilder that writes the engines that work beside the threads."""

    __slots__ = ()

    def tensor_map(
        self: Any,
        name: str,
        tensor: Tensor,
        box: tuple[int, ...],
        *,
        mode: str | int | SwizzleMode = "none",
        element_strides: tuple[int, ...] | None = None,
        l2_promotion_bytes: int = 0,
    ) -> TensorMapParam:
        """A tensor map of a whole tensor for copies of boxes `box`, in the tensor's modes, in a swizzle mode.

        Raises ShapeError for a box of other modes, IRError for a tensor whose extents are not stated; what
        the hardware does not do is refused by `build`.
        """
        source = tensor.buffer
        if not isinstance(source, Global) or tensor.element is None:
            raise IRError("tensor map", name, f"{name} of {tensor}: a tensor in global memory is needed")
        if len(box) != len(tensor.extents) or tensor.coordinates != make_identity_layout(tensor.shape):
            raise ShapeError(
                f"{name} of {tensor} in boxes {box}: a whole tensor, and a side per mode, are needed"
            )
        extents = [e for e in tensor.extents if e is not None]
        if len(extents) != len(box):
            raise IRError("tensor map", name, f"{name}: an extent of {source.name} is stated by nobody")
        order = _order(source)
        steps = element_strides or (1,) * len(box)
        made = TensorMapParam(
            self.declare(name),
            source,
            tuple(simplify(extents[i]) for i in order),
            tuple(simplify(source.strides[i] * source.element_bytes) for i in order[1:]),
            tuple(box[i] for i in order),
            tensor.element,
            find_swizzle_mode(mode),
            tuple(steps[i] for i in order),
            l2_promotion_bytes=l2_promotion_bytes,
            order=order,
        )
        self.maps.append(made)
        return made

    def mbarrier(self: Any, name: str, count: int = 1, stages: int = 1) -> Mbarrier:
        """`stages` mbarriers in shared memory, whose phases take `count` arrivals each; `bar[stage]` is
        one.
        """
        if count < 1 or stages < 1:
            raise IRError("mbarrier", name, f"{name} of {stages} stages and {count} arrivals: 1 at least")
        bar = Mbarrier(self.declare(name), count, stages, self.shared_end(8))
        self.barriers.append(bar)
        return bar

    def init(self: Any, *bars: Mbarrier) -> None:
        """Initialise mbarriers: by one thread, visibly for TMA and the cluster, then all threads meet.  What
        else threads of a cluster have written, others do not see there, which takes a fence of the GPU."""
        with self.If(self.thread.eq(0)):
            for bar in bars:
                for stage in range(bar.stages):
                    self.do(instr.MBARRIER_INIT, bar[stage], bar.count)
            self.do(instr.FENCE_BARRIER_INIT)
        if self.blocks_of_cluster > 1:
            self.do(instr.CLUSTER_ARRIVE_RELAXED)
            self.do(instr.CLUSTER_WAIT)
        else:
            self.do(instr.BAR)

    def arrive(self: Any, bar: BarrierRef, rank: Operand | None = None, *, release: bool = False) -> None:
        """Every thread that gets here arrives; with `rank` at the barrier in that block of the cluster.

        There it hands back what was read; with `release` it also shows what was written, which costs a
        barrier of all memory, to whoever waits with `cluster`.
        """
        if rank is None:
            self.do(instr.ARRIVE, bar)
        else:
            self.do(instr.ARRIVE_REMOTE_RELEASE if release else instr.ARRIVE_REMOTE, bar, as_expr(rank))

    def expect(self: Any, bar: BarrierRef, nbytes: Operand) -> None:
        """Every thread that gets here, one as a rule, arrives and announces bytes that copies bring."""
        self.do(instr.ARRIVE_EXPECT_TX, bar, as_expr(nbytes))

    def wait(
        self: Any, bar: BarrierRef, parity: Operand, *, rank: Operand | None = None, cluster: bool = False
    ) -> None:
        """Wait until the phase of a parity is complete; with `cluster` see what peers wrote who released it.

        Raises IRError for a `rank`: no thread waits at the barrier of another block.
        """
        if rank is not None:
            raise IRError(
                "remote wait", bar, f"a wait for {bar} in the block of rank {rank}: a block waits at its "
                "own barriers; "
                "let that block arrive at one of this block, by k.arrive(bar, rank)",
            )  # fmt: skip
        self.do(instr.TRY_WAIT_CLUSTER if cluster else instr.TRY_WAIT, bar, as_expr(parity))

    def fence_async(self: Any) -> None:
        """Make the block's stores to its shared memory visible to TMA and wgmma behind it, and a barrier."""
        self.do(instr.FENCE_PROXY_ASYNC_CTA)

    def tma_load(
        self: Any,
        tensor_map: TensorMapParam,
        tile: Tensor,
        into: Tensor,
        bar: BarrierRef,
        *,
        blocks: Operand | None = None,
    ) -> None:
        """Start the copy of a tile of the map's tensor into shared memory; its bytes complete at `bar`.

        `blocks` are bits of the ranks of a cluster whose blocks get it, each at the same place.  Raises
        ShapeError for a tile that is not the box, IRError for a shared layout that is not what is written.
        """
        crd = _coordinates(tensor_map, tile)
        rank, start = tensor_map.rank, _start(tensor_map, tile, into)
        if blocks is None:
            self.do(instr.TMA_LOAD[rank], start, tensor_map, bar, *crd)
        else:
            self.do(instr.TMA_LOAD_MULTICAST[rank], start, tensor_map, bar, as_expr(blocks), *crd)

    def tma_store(self: Any, tensor_map: TensorMapParam, source: Tensor, tile: Tensor) -> None:
        """Start the copy of a tile in shared memory to its place in the map's tensor; errors as of
        tma_load.
        """
        crd = _coordinates(tensor_map, tile)
        nbytes = tensor_map.element.nbytes
        self.require((tensor_map.dims[0] * nbytes % CHUNK_BYTES).eq(0))  # rows are written in whole chunks
        self.do(instr.TMA_STORE[tensor_map.rank], tensor_map, _start(tensor_map, tile, source), *crd)

    def bulk_commit(self: Any) -> None:
        """Close the group of the TMA stores that this thread has started since the last one."""
        self.do(instr.BULK_COMMIT)

    def bulk_wait(self: Any, newest: int = 0, *, read: bool = False) -> None:
        """Wait until at most the `newest` groups of this thread are unfinished, or, to `read`, unread."""
        self.do(instr.BULK_WAIT_READ if read else instr.BULK_WAIT, newest)

    def named_barrier(self: Any, number: int, threads: int) -> None:
        """bar.sync of `threads` threads, a multiple of 32, at barrier `number`, 1 to 15."""
        self.do(instr.NAMED_BARRIER, number, threads)

    @contextmanager
    def roles(self: Any) -> Iterator[RolesBuilder]:
        """Different warps do different work: see RolesBuilder.role."""
        made = RolesBuilder(self)
        yield made
        self.write(Roles(tuple(made.parts)))

    @property
    def thread(self: Any) -> Var:
        """The thread's index: in its role, and outside of one in its block."""
        thread: Var = self.role.thread if self.role else self.tid
        return thread

    def cluster(self: Any, x: int = 1, y: int = 1, z: int = 1) -> None:
        """Blocks come in clusters of so many along each side of the grid, which these have to divide."""
        self.cluster_shape = (x, y, z)

    @property
    def blocks_of_cluster(self: Any) -> int:
        """Blocks of one cluster."""
        return math.prod(self.cluster_shape)

    @property
    def rank(self: Any) -> Expr:
        """The block's rank in its cluster, x fastest."""
        total: Expr = Const(0)
        step = 1
        for axis, n in enumerate(self.cluster_shape):
            if n > 1:
                total = total + self.block_var(axis) % n * step
            step *= n
        return simplify(total)

    def cluster_sync(self: Any) -> None:
        """All threads of all blocks of the cluster meet."""
        self.do(instr.CLUSTER_ARRIVE)
        self.do(instr.CLUSTER_WAIT)


def _order(source: Global) -> tuple[int, ...]:
    """The modes of a tensor as a map has its dimensions: the one of stride 1, then by stride."""
    strides = [simplify(d) for d in source.strides]
    if Const(1) not in strides:
        shown = ", ".join(map(str, strides))
        raise IRError("tensor map", source, f"{source.name} has strides {shown}: one of them has to be 1")
    inner = strides.index(Const(1))
    rest = (i for i in range(len(strides)) if i != inner)
    return (inner, *sorted(rest, key=lambda i: (strides[i].facts.hi, abs(i - inner))))


def _coordinates(tensor_map: TensorMapParam, tile: Tensor) -> tuple[Expr, ...]:
    """The start of a tile of a map's tensor, innermost first."""
    box = dict(zip(tensor_map.order, tensor_map.box, strict=True))
    wanted = tuple(box[i] for i in range(tensor_map.rank))
    if tile.buffer != tensor_map.source or tile.coordinates != make_identity_layout(wanted):
        raise ShapeError(
            f"a copy of {tile} through {tensor_map}: a tile {wanted} of {tensor_map.source.name} is needed"
        )
    return tuple(tile.origin[i] for i in tensor_map.order)


def _start(tensor_map: TensorMapParam, tile: Tensor, shared: Tensor) -> MemRef:
    """The start of a tile in shared memory, whose layout is what the copy writes."""
    buffer = shared.buffer
    if not isinstance(buffer, Shared):
        raise IRError("TMA", shared, f"TMA copies between global and shared memory; {buffer.name} is global")
    written = written_layout(tensor_map)
    shapes = tuple(tile.shape), tuple(n for n in tile.shape if n > 1)  # modes of 1 may be left out
    is_whole = shared.coordinates in map(make_identity_layout, shapes) and size(buffer.layout) == tile.size
    if is_whole and (c := find_difference(buffer.layout, written)) is not None:
        raise IRError(
            "TMA layout", buffer, f"{buffer.name} is {buffer.layout}; {tensor_map} in mode {tensor_map.mode} "
            f"writes {written}, which differs at element {c}",
        )  # fmt: skip
    return shared.at(*(0,) * len(modes(shared.coordinates)))
