"""The operands of a product and its main loop: matrix, ring of tiles in shared memory, fragments.

A and B are alike: rows (m or n) by k.  The place of an element follows from partitions alone: `copy` is what
a thread moves from the matrix to a tile, `read` what it loads from a tile for the multiplication.  A family
makes an `OperandPlan` of each operand and defines the multiplication of fragments; the loop is the same.

    ring        two or more tiles: while tile t is multiplied, tile t + stages - 1 is on its way, by cp.async
                or through registers.  The last step of a tile waits for the next one, and loads its first
                fragments: one barrier per tile
    buffered    one tile or two, through registers: loaded while the one before is multiplied; fragments are
                loaded ahead within a tile

Edges cost the main loop nothing.  The tile of k that is not whole comes first, before the loop, under a
guard (`tile_order`).  A tile that would leave the matrix is moved inward, to its last rows (`tile_start`):
rows that the tile before it has too are computed twice and stored once; or rows past the end stand for row 0,
which are not stored.

    main loop, 128 x 256 x 64, f16, sm_90a             instructions     rate on an H200, 4096 cubed
    whole tiles                                        227              1
    a guard a copy, of row and k                       245              0.979
    row guards as bits of a mask, tested in the loop   254              0.982
    rows past the end read the first, an address each  219              0.970
    tiles moved inward                                 227              0.996
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from layoutalg.atoms import TiledCopy, make_tiled_copy
from layoutalg.codegen.expr import Const, Expr, Select, Var, simplify
from layoutalg.codegen.expr import Operand as Value
from layoutalg.codegen.instr import BAR, CLEAR, CP_ASYNC, CP_ASYNC_ZFILL, CP_COMMIT, CP_WAIT, LDG, STS, Instr
from layoutalg.codegen.language import KernelBuilder, Tensor, local_tile, partition, whole
from layoutalg.codegen.program import MemRef, Reg
from layoutalg.kernels.gemm.parts import Part, declare_part
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.rasterize import (
    batch_strides,
    declare_batch,
    declare_extents,
    declare_tile,
    inward_corner,
    k_tiles,
)
from layoutalg.kernels.gemm.tiles import OperandTile, Side, SimtConfig, Sm80Config
from layoutalg.kernels.gemm.validate import multiples
from layoutalg.layout import AnyLayout, Layout


@cache
def operand_copy(tile: OperandTile) -> TiledCopy:
    """The copy of a tile (row, k), a vector per thread: `lanes` threads along a stored row, others across.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import operand_tile
    >>> tile = operand_tile(gemm_problem(256, 256, 64), Sm80Config(128, 256, 64, 2, 4, 4), "a")
    >>> print(operand_copy(tile).get_layoutD_TV())
    ((8,32),(8,1)):((256,1),(32,0))
    """
    bits = 8 * tile.vector * tile.element.nbytes
    atom = f"UniversalCopy<uint{bits}_t>"
    if tile.via == "cp.async":
        atom = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}<uint{bits}_t>"
    lanes, across = tile.lanes, tile.threads // tile.lanes
    if tile.major == "k":
        threads, values = Layout((across, lanes), (lanes, 1)), Layout((1, tile.vector))
    else:
        threads, values = Layout((lanes, across)), Layout((tile.vector, 1))
    return make_tiled_copy(atom, tile.element, threads, values)


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """The copy, the storage and the reads of a tile of an operand.

    `layout` gives the element at (row, k) of a tile.  `read` covers a step of k: a thread has fragments of
    its rows, each by one or several `load`.
    """

    tile: OperandTile
    copy: TiledCopy
    read: TiledCopy
    load: Instr
    layout: AnyLayout

    @property
    def steps(self) -> int:
        """Steps of k in a tile."""
        return self.tile.deep // self.read.tile_shape[1]


class Operand:
    """An operand in a kernel that is being written: what a thread has of its matrix and of its ring of tiles.

    The tile starts at row `first` of the matrix; rows from `extent` on stand for row 0, unless it is None.
    The matrix is that of the product at `batch`.
    """

    def __init__(
        self, k: KernelBuilder, p: GemmProblem, c: SimtConfig | Sm80Config, plan: OperandPlan, side: Side,
        first: Expr, extent: Var | None, batch: tuple[Expr, ...], align_bytes: int,
    ) -> None:  # fmt: skip
        self.k, self.plan, self.tile, self.extent, self.stages = k, plan, plan.tile, extent, c.stages
        name, ld, vector = f"ld{side}", p.lda if side == "a" else p.ldb, self.tile.vector
        leading = k.constant(name, ld) if c.static_ld else k.param(name, ld, vector, multiple=vector)
        size, strides = self.tile.element.nbytes, (*batch_strides(k, p, side, vector), leading, 1)
        self.nbytes = vector * size
        self.matrix = k.tensor(
            side, self.tile.element, (None,) * len(strides), strides, align_bytes=self.nbytes
        )
        if batch:
            self.matrix = self.matrix[*batch, None, None]
        by_k = self.matrix if self.tile.major == "k" else self.matrix.transposed
        tile = self._moved(local_tile(by_k, (self.tile.rows, self.tile.deep), (0, 0)), first, Const(0))
        read = k.get_slice(plan.read)
        self.staged: Reg | None = None
        # a row that is compared has a name; else the block's part and the thread's stay summands
        named = extent is not None and not isinstance(leading, Const)
        copy = k.get_slice(plan.copy)
        self.source = copy.partition_S(tile) if named else partition(tile, plan.copy, "src", k.tid)
        elems = self.tile.stage_elems * c.stages
        ring = whole(
            k.shared_buffer(f"tile_{side}", size, plan.layout, elems, align_bytes, stages=c.stages),
            self.tile.element,
        )
        self.target, self.fragment = copy.partition_D(ring), read.partition_S(ring)
        if self.tile.via == "registers":
            self.staged = k.reg(f"staged_{side}", self.tile.passes, max(1, self.tile.vector * size // 4))

    def start(self, base: Expr, stage: Value, bound: Expr | None) -> None:
        """Start copying the tile whose first k is `base`; from `bound` on, k reads as zero."""
        with self.k.Unroll("p", self.tile.passes) as p:
            at = simplify(p * self.tile.vector)
            to, (of, there) = self._stage(self.target, stage).at(at), self._place(at, base, bound)
            if there is None:
                self.k.do(CP_ASYNC[self.nbytes], to, of)
            else:
                self.k.do(CP_ASYNC_ZFILL[self.nbytes], to, of, there)

    def load(self, base: Expr, bound: Expr | None) -> None:
        """Load that tile into registers, if they are on its way."""
        k, staged = self.k, self.staged
        if staged is None:
            return
        with k.Unroll("p", self.tile.passes) as p:
            of, there = self._place(simplify(p * self.tile.vector), base, bound)
            into = staged.slice(p, 0, count=staged.shape[-1])
            if there is None:
                k.do(LDG[self.nbytes], into, of)
            else:
                with k.If(there):
                    k.do(LDG[self.nbytes], into, of)
                with k.Else():
                    k.do(CLEAR[self.nbytes], into)

    def store(self, stage: Value) -> None:
        """Store the loaded tile: whole vectors, or where the copy turns the tile, element by element."""
        k, vector, staged = self.k, self.tile.vector, self.staged
        if staged is None:
            return
        run = 1 if self.tile.turned else vector
        target, nbytes = self._stage(self.target, stage), run * self.tile.element.nbytes
        with k.Unroll("p", self.tile.passes) as p:
            if run == vector:
                k.do(STS[nbytes], target.at(simplify(p * vector)), staged[p])
            else:
                with k.Unroll("e", vector // run) as e:
                    held = staged.slice(p, e * (nbytes // 4), count=nbytes // 4)
                    k.do(STS[nbytes], target.at(simplify(p * vector + e * run)), held)

    def fetch(self, into: Reg, which: int, stage: Value, step: int) -> None:
        """Load the fragments of a step of a tile."""
        tile, k, words = self._stage(self.fragment, stage), self.k, self.plan.load.operands[0].words
        loads = self.tile.words // words
        with k.Unroll("f", self.tile.fragments) as f:
            if loads == 1:
                k.do(self.plan.load, into[which, f], tile.at((0, f), 0, step))
            else:
                with k.Unroll("e", loads) as e:
                    held = into.slice(which, f, e * words, count=words)
                    k.do(self.plan.load, held, tile.at((0, f * loads + e), 0, step))

    def _stage(self, ring: Tensor, stage: Value) -> Tensor:
        return ring if self.stages == 1 else ring[None, None, None, stage]

    def _place(self, at: Expr, base: Expr, bound: Expr | None) -> tuple[MemRef, Expr | None]:
        """The source of a position in the thread's part of a tile, and the condition that its k exists."""
        row, deep = self._stored(*self._moved(self.source, Const(0), base).coordinate(at)[-2:])
        if self.extent is not None:
            row = Select(row < self.extent, row, Const(0))
        return self.matrix.at(*self._stored(row, deep)), None if bound is None else deep < bound

    def _moved(self, view: Tensor, row: Expr, k: Expr) -> Tensor:
        """A view of the matrix further on."""
        modes = len(self.matrix.origin) - 2
        return view.moved(*(Const(0),) * modes, *self._stored(row, k))

    def _stored(self, row: Expr, k: Expr) -> tuple[Expr, Expr]:
        """(row, k) in the order in which the matrix is stored, or the other way round."""
        return (row, k) if self.tile.major == "k" else (k, row)


class Mainloop:
    """The main loop of a kernel that is being written, and what it works on.

    Declares m, n and k (`depth`), the leading dimensions, the operands' tiles, the block's `part` of k, and
    registers for `fragments` of both.  The block's tile of D is at `corner` of the product at `batch`; with
    `inward` operands are read from as far inward as `tile_start` says, at `first`.
    """

    def __init__(
        self,
        k: KernelBuilder,
        p: GemmProblem,
        c: SimtConfig | Sm80Config,
        plan: Callable[[Side], OperandPlan],
        *,
        inward: bool,
        align_bytes: int,
    ) -> None:
        self.k, self.c = k, c
        self.m, self.n, self.depth = declare_extents(k, p, c, multiples(p, c), inward=inward)
        self.corner = declare_tile(k, self.m, self.n, (c.tile_m, c.tile_n), c.panel)
        self.batch = declare_batch(k, p)
        self.first = inward_corner(k, self.corner, (self.m, self.n), c) if inward else self.corner

        def operand(side: Side, first: Expr, extent: Var) -> Operand:
            own = plan(side)
            compared = c.edges and not (inward and extent.facts.lo >= own.tile.rows)
            return Operand(k, p, c, own, side, first, extent if compared else None, self.batch, align_bytes)

        self.operands = operand("a", self.first[0], self.m), operand("b", self.first[1], self.n)
        self.part = declare_part(k, k_tiles(self.depth, c.tile_k), c.splits)
        self.fragments = tuple(
            k.reg(f"r{side}", c.fragments, x.tile.fragments, x.tile.words)
            for side, x in zip("ab", self.operands, strict=True)
        )
        self.steps = self.operands[0].plan.steps

    def write(
        self, multiply: Callable[[int], None], behind: Callable[[], None] = lambda: None
    ) -> None:  # fmt: skip
        """Write the loop, where the block has k to multiply; `multiply` takes the number of a set, and what
        is `behind` a tile of k follows its last step."""
        with self.part.work(self.k):
            self._tiles(multiply, behind)

    def _tiles(self, multiply: Callable[[int], None], behind: Callable[[], None]) -> None:
        """The tiles, one after the other; fragments are loaded `lead` steps ahead, `across` tiles or within.

        The next tile has to be there at the step whose fragments it has first, the last one or `lead` before
        the end.
        """
        k, c, tiles, stages = self.k, self.c, self.part.tiles, self.c.stages
        lead, copied = c.fragments - 1, c.via == "cp.async"
        turn = self.steps - max(1, lead)
        # mma.sync through registers has none to spare for fragments of the next tile beside the staged one
        across = copied or (isinstance(c, SimtConfig) and stages > 1)
        opening, second = tile_order(k, self.depth, c.tile_k, self.part, edges=c.edges)
        ragged = self.depth if c.edges else None
        if copied:
            self._start(opening, Const(0), ragged)
            k.do(CP_COMMIT)
            for s in range(1, stages - 1):
                with k.If(Const(s) < tiles):
                    self._start(second + (s - 1), Const(s))
                k.do(CP_COMMIT)  # without a tile too: waits count groups
        else:
            self._load(opening, ragged)
            self._store(Const(0))
        self._wait()
        for step in range(lead if across else 0):
            self._fetch(step, Const(0), step)
        with k.For("kt", tiles) as kt:
            here, after, before = ((kt + x) % stages for x in (0, 1, stages - 1))
            if not copied:  # as early as can be: memory answers while the tile is multiplied
                with k.If(kt + 1 < tiles):
                    self._load(second + kt)
            for step in range(0 if across else lead):
                self._fetch(step, here, step)
            for step in range(self.steps):
                due = step + lead
                if due < self.steps:
                    self._fetch(due % c.fragments, here, due)
                if copied and step == 0:  # past the barrier behind which nobody reads what is overwritten
                    with k.If(kt + (stages - 1) < tiles):
                        self._start(second + kt + (stages - 2), before)
                    k.do(CP_COMMIT)
                if across and step == turn:
                    if not copied:
                        with k.If(kt + 1 < tiles):
                            self._store(after)
                    self._wait()
                if across and due >= self.steps:
                    self._fetch(due % c.fragments, after, due - self.steps)
                multiply(step % c.fragments)
            behind()
            if not across:
                if stages == 1:
                    k.do(BAR)  # everybody has read the tile that is overwritten
                with k.If(kt + 1 < tiles):
                    self._store(after)
                k.do(BAR)
        if copied:
            k.do(CP_WAIT, 0)  # results may go where the ring was

    def _start(self, tile: Expr, stage: Value, bound: Expr | None = None) -> None:
        """Start copying a tile."""
        for x in self.operands:
            x.start(simplify(tile * self.c.tile_k), stage, bound)

    def _load(self, tile: Expr, bound: Expr | None = None) -> None:
        """Load a tile of k into registers."""
        for x in self.operands:
            x.load(simplify(tile * self.c.tile_k), bound)

    def _store(self, stage: Value) -> None:
        """Store the loaded tiles."""
        for x in self.operands:
            x.store(stage)

    def _wait(self) -> None:
        """Wait for this thread's copies of the oldest tile in flight, then for everybody's."""
        if self.c.via == "cp.async":
            self.k.do(CP_WAIT, self.c.stages - 2)
        self.k.do(BAR)

    def _fetch(self, which: int, stage: Value, step: int) -> None:
        """Load both operands' fragments of a step."""
        for x, into in zip(self.operands, self.fragments, strict=True):
            x.fetch(into, which, stage, step)


def tile_order(k: KernelBuilder, depth: Var, tile_k: int, part: Part, *, edges: bool) -> tuple[Expr, Expr]:
    """The tile of k that a block multiplies first of its part, and the next; the others follow in order.

    With `edges` the last one opens where k ends inside it, so that every other is whole:

        k = 200 in tiles of 64        3 (8 of k), 0, 1, 2

    >>> k = KernelBuilder("order", threads=32)
    >>> depth = k.param("k", 200)
    >>> whole = Part(None, Const(0), k.let("tiles", (depth + 63) // 64))
    >>> _ = tile_order(k, depth, 64, whole, edges=True)
    >>> [str(s) for s in k.build().body[1:]]
    ['opening = (k // 64 if k < tiles * 64 else 0)', 'second = (0 if k < tiles * 64 else 1)']
    """
    first = part.first_tile
    if not edges:
        return first, first + 1
    ragged = depth < (first + part.tiles) * tile_k
    opening = k.let("opening", Select(ragged, depth // tile_k, first))
    return opening, k.let("second", first + Select(ragged, Const(0), Const(1)))
