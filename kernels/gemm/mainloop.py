"""The operands of a product and its main loop: matrix, ring of tiles in shared memory, fragments.

A and B are alike: rows (m or n) by k.  Where an element lies follows from partitions alone: `copy` says what
a thread moves from the matrix to a tile, `read` what it loads of a tile for the multiplication.  A family
makes an `OperandPlan` of each operand and says how fragments are multiplied; the loop is the same.

    ring        two or more tiles: while tile t is multiplied, tile t + stages - 1 is on its way, by cp.async
                or through registers.  The last step of a tile waits for the next one: one barrier a tile
    buffered    one tile or two, through registers: loaded when it is needed or, `ahead`, while the one before
                is multiplied
    direct      no tiles: each k is read from the matrices

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
from layoutalg.dtype import DType
from layoutalg.kernels.gemm.problem import Major
from layoutalg.kernels.gemm.splitk import Part
from layoutalg.kernels.gemm.tiles import SimtConfig, Sm80Config, Via
from layoutalg.layout import AnyLayout, Layout


@cache
def operand_copy(via: Via, element: DType, major: Major, vector: int, lanes: int, threads: int) -> TiledCopy:
    """The copy of a tile (row, k), `vector` elements a thread: `lanes` along a stored row, the others across.

    >>> from layoutalg.dtype import dtype
    >>> print(operand_copy("cp.async", dtype("f16"), "k", 8, 8, 256).get_layoutD_TV())
    ((8,32),(8,1)):((256,1),(32,0))
    """
    bits = 8 * vector * element.nbytes
    atom = f"UniversalCopy<uint{bits}_t>"
    if via == "cp.async":
        atom = f"SM80_CP_ASYNC_CACHE{'GLOBAL' if bits == 128 else 'ALWAYS'}<uint{bits}_t>"
    across = threads // lanes
    if major == "k":
        return make_tiled_copy(atom, element, Layout((across, lanes), (lanes, 1)), Layout((1, vector)))
    return make_tiled_copy(atom, element, Layout((lanes, across)), Layout((vector, 1)))


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """How a tile of an operand, `rows` by `deep` k, is copied, stored and read.

    `layout` gives the element at (row, k) of a tile of `stage_elems`.  `copy` moves `vector` elements, stored
    `run` at a time.  `read` covers a step of k: a thread has `fragments` of its rows, each by one `load` of
    `words`.  With via "global" there is no tile.
    """

    rows: int
    deep: int
    major: Major
    element: DType
    via: Via
    copy: TiledCopy
    read: TiledCopy
    load: Instr
    layout: AnyLayout
    stage_elems: int
    vector: int
    run: int
    fragments: int
    words: int

    @property
    def passes(self) -> int:
        """Vectors that a thread moves for a tile."""
        return self.rows * self.deep // (self.vector * self.copy.threads)

    @property
    def steps(self) -> int:
        """Steps of k in a tile."""
        return self.deep // self.read.tile_shape[1]


class Operand:
    """An operand in a kernel that is being written: what a thread has of its matrix and of its ring of tiles.

    The tile starts at row `first` of the matrix; rows from `extent` on stand for row 0, unless it is None.
    The matrix is that of the product at `batch`, whose modes have `steps`.
    """

    def __init__(
        self,
        k: KernelBuilder,
        plan: OperandPlan,
        name: str,
        leading: Expr,
        first: Expr,
        extent: Var | None,
        *,
        stages: int,
        align_bytes: int,
        batch: tuple[Expr, ...] = (),
        steps: tuple[Expr, ...] = (),
    ) -> None:
        self.k, self.plan, self.extent, size = k, plan, extent, plan.element.nbytes
        self.nbytes = plan.vector * size
        strides = (*steps, leading, 1)
        self.matrix = k.tensor(name, plan.element, (None,) * len(strides), strides, align_bytes=self.nbytes)
        if batch:
            self.matrix = self.matrix[*batch, None, None]
        by_k = self.matrix if plan.major == "k" else self.matrix.transposed
        tile = self._moved(local_tile(by_k, (plan.rows, plan.deep), (0, 0)), first, Const(0))
        copy, read = k.get_slice(plan.copy), k.get_slice(plan.read)
        self.staged: Reg | None = None
        if plan.via == "global":
            self.fragment = read.partition_S(tile)
            return
        # a row that is compared has a name; else the block's part and the thread's stay summands
        named = extent is not None and not isinstance(leading, Const)
        self.source = copy.partition_S(tile) if named else partition(tile, plan.copy, "src", k.tid)
        elems = plan.stage_elems * stages
        ring = whole(
            k.shared_buffer(f"tile_{name}", size, plan.layout, elems, align_bytes, stages=stages),
            plan.element,
        )
        self.stages, self.target, self.fragment = stages, copy.partition_D(ring), read.partition_S(ring)
        if plan.via == "registers":
            self.staged = k.reg(f"staged_{name}", plan.passes, max(1, self.nbytes // 4))

    def start(self, base: Expr, stage: Value, bound: Expr | None, first: int, count: int) -> None:
        """Start passes of the copy of the tile whose first k is `base`; from `bound` on, k reads as zero."""
        with self.k.Unroll("p", count) as p:
            at = simplify((p + first) * self.plan.vector)
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
        with k.Unroll("p", self.plan.passes) as p:
            of, there = self._place(simplify(p * self.plan.vector), base, bound)
            if there is None:
                k.do(LDG[self.nbytes], staged[p], of)
            else:
                with k.If(there):
                    k.do(LDG[self.nbytes], staged[p], of)
                with k.Else():
                    k.do(CLEAR[self.nbytes], staged[p])

    def store(self, stage: Value) -> None:
        """Store the loaded tile: whole vectors, or where the copy turns the tile, element by element."""
        k, plan, staged = self.k, self.plan, self.staged
        if staged is None:
            return
        target, nbytes = self._stage(self.target, stage), plan.run * plan.element.nbytes
        with k.Unroll("p", plan.passes) as p:
            if plan.run == plan.vector:
                k.do(STS[nbytes], target.at(simplify(p * plan.vector)), staged[p])
            else:
                with k.Unroll("e", plan.vector // plan.run) as e:
                    held = staged.slice(p, e * (nbytes // 4), count=nbytes // 4)
                    k.do(STS[nbytes], target.at(simplify(p * plan.vector + e * plan.run)), held)

    def fetch(self, into: Reg, which: int, stage: Value, step: int) -> None:
        """Load the fragments of a step of a tile."""
        tile = self._stage(self.fragment, stage)
        with self.k.Unroll("f", self.plan.fragments) as f:
            self.k.do(self.plan.load, into[which, f], tile.at((0, f), 0, step))

    def read(self, into: Reg, k: Expr) -> None:
        """Load the fragments of one k straight from the matrix."""
        with self.k.Unroll("f", self.plan.fragments) as f:
            at = self._moved(self.fragment, Const(0), k).coordinate((0, f), 0, 0)
            self.k.do(self.plan.load, into[0, f], self._there(*self._stored(*at[-2:])))

    def _stage(self, ring: Tensor, stage: Value) -> Tensor:
        return ring if self.stages == 1 else ring[None, None, None, stage]

    def _place(self, at: Expr, base: Expr, bound: Expr | None) -> tuple[MemRef, Expr | None]:
        """Where a place of the thread's part of a tile comes from, and whether its k exists."""
        row, deep = self._stored(*self._moved(self.source, Const(0), base).coordinate(at)[-2:])
        return self._there(row, deep), None if bound is None else deep < bound

    def _there(self, row: Expr, deep: Expr) -> MemRef:
        if self.extent is not None:
            row = Select(row < self.extent, row, Const(0))
        return self.matrix.at(*self._stored(row, deep))

    def _moved(self, view: Tensor, row: Expr, k: Expr) -> Tensor:
        """A view of the matrix further on."""
        modes = len(self.matrix.origin) - 2
        return view.moved(*(Const(0),) * modes, *self._stored(row, k))

    def _stored(self, row: Expr, k: Expr) -> tuple[Expr, Expr]:
        """(row, k) in the order in which the matrix is stored, or the other way round."""
        return (row, k) if self.plan.major == "k" else (k, row)


@dataclass(frozen=True, slots=True)
class Mainloop:
    """The main loop of a kernel: operands, their fragments, and `multiply`, which takes one set of them."""

    k: KernelBuilder
    c: SimtConfig | Sm80Config
    operands: tuple[Operand, Operand]
    fragments: tuple[Reg, Reg]
    depth: Var
    part: Part
    multiply: Callable[[int], None]
    spread: int = 1

    def write(self) -> None:
        """Write the loop that the configuration asks for, where the block has k to multiply."""
        with self.part.work(self.k):
            if self.c.via == "global":
                self.direct()
            elif self.ringed:
                self.ring()
            else:
                self.buffered()

    @property
    def ringed(self) -> bool:
        """Whether fragments are loaded ahead across tiles."""
        return self.copied != [] or (isinstance(self.c, SimtConfig) and self.c.stages > 1)

    @property
    def copied(self) -> list[Operand]:
        """The operands that go by cp.async."""
        return [x for x in self.operands if x.plan.via == "cp.async"]

    @property
    def steps(self) -> int:
        """Steps of k in a tile."""
        return self.operands[0].plan.steps

    def ring(self) -> None:
        """Several tiles in shared memory; the last step of a tile waits for the next one."""
        k, c, tiles, stages = self.k, self.c, self.part.tiles, self.c.stages
        opening, second = tile_order(k, self.depth, c.tile_k, self.part, edges=c.edges)
        ragged = self.depth if c.edges else None
        self.load(opening, ragged)
        if self.copied:
            self.start(opening, Const(0), ragged)
            k.do(CP_COMMIT)
            for s in range(1, stages - 1):
                with k.If(Const(s) < tiles):
                    self.start(second + (s - 1), Const(s))
                k.do(CP_COMMIT)
        self.store(Const(0))
        self.wait()
        if c.fragments == 2:
            self.fetch(0, Const(0), 0)
        copy_steps = max(1, min(self.spread, self.steps - 1))
        with k.For("kt", tiles) as kt:
            here, after, before = ((kt + x) % stages for x in (0, 1, stages - 1))
            for step in range(self.steps):
                last = step == self.steps - 1
                if c.fragments == 1:
                    self.fetch(0, here, step)
                elif not last:
                    self.fetch((step + 1) % 2, here, step + 1)
                if step == 0 and len(self.copied) < 2:
                    with k.If(kt + 1 < tiles):
                        self.load(second + kt)
                if self.copied and step < copy_steps:
                    with k.If(kt + (stages - 1) < tiles):
                        self.start(second + kt + (stages - 2), before, share=(step, copy_steps))
                    if step == copy_steps - 1:
                        k.do(CP_COMMIT)
                if last:
                    if len(self.copied) < 2:
                        with k.If(kt + 1 < tiles):
                            self.store(after)
                    self.wait()
                    if c.fragments == 2:
                        self.fetch((step + 1) % 2, after, 0)
                self.multiply(step % c.fragments)
        if self.copied:
            k.do(CP_WAIT, 0)

    def buffered(self) -> None:
        """One tile in shared memory or two, through registers."""
        k, c, tiles, two = self.k, self.c, self.part.tiles, self.c.stages == 2
        opening, second = tile_order(k, self.depth, c.tile_k, self.part, edges=c.edges and c.ahead)
        ragged = self.depth if c.edges else None
        if c.ahead:
            self.load(opening, ragged)
            self.store(Const(0))
            k.do(BAR)
        with k.For("kt", tiles) as kt:
            here, after = (kt % 2, (kt + 1) % 2) if two else (Const(0), Const(0))
            if c.ahead:
                with k.If(kt + 1 < tiles):
                    self.load(second + kt)
            else:
                self.load(opening + kt, ragged)
                self.store(here)
                k.do(BAR)
            if c.fragments == 2:
                self.fetch(0, here, 0)
            for step in range(self.steps):
                if c.fragments == 1:
                    self.fetch(0, here, step)
                elif step + 1 < self.steps:
                    self.fetch((step + 1) % 2, here, step + 1)
                self.multiply(step % c.fragments)
            if c.ahead:
                if not two:
                    k.do(BAR)
                with k.If(kt + 1 < tiles):
                    self.store(after)
            k.do(BAR)

    def direct(self) -> None:
        """No tiles: every k is read from the matrices."""
        with self.k.For("kk", self.depth, unroll=4) as kk:
            for x, into in zip(self.operands, self.fragments, strict=True):
                x.read(into, kk)
            self.multiply(0)

    def start(
        self, tile: Expr, stage: Value, bound: Expr | None = None, share: tuple[int, int] = (0, 1)
    ) -> None:
        """Start copying a tile, or share i of n of its passes: copies that come one by one do not hold up the
        multiplications."""
        total, first, (i, n) = sum(x.plan.passes for x in self.copied), 0, share
        low, high = total * i // n, total * (i + 1) // n
        for x in self.copied:
            mine = range(max(low, first), min(high, first + x.plan.passes))
            if mine:
                x.start(simplify(tile * self.c.tile_k), stage, bound, mine.start - first, len(mine))
            first += x.plan.passes

    def load(self, tile: Expr, bound: Expr | None = None) -> None:
        """Load a tile of k into registers, of the operands that go through them."""
        for x in self.operands:
            x.load(simplify(tile * self.c.tile_k), bound)

    def store(self, stage: Value) -> None:
        """Store the loaded tiles."""
        for x in self.operands:
            x.store(stage)

    def wait(self) -> None:
        """Wait for this thread's copies of the oldest tile in flight, then for everybody's."""
        if self.copied:
            self.k.do(CP_WAIT, self.c.stages - 2)
        self.k.do(BAR)

    def fetch(self, which: int, stage: Value, step: int) -> None:
        """Load both operands' fragments of a step."""
        for x, into in zip(self.operands, self.fragments, strict=True):
            x.fetch(into, which, stage, step)


def least_extent(extent: int, rows: int, *, edges: bool) -> int:
    """The fewest rows that a kernel for up to `extent` of them takes: with edges a tile's, if there are.

    >>> least_extent(100, 64, edges=True), least_extent(50, 64, edges=True)
    (64, 1)
    """
    return rows if edges and extent >= rows else 1


def tile_start(k: KernelBuilder, name: str, first: Expr, rows: int, extent: Var, *, edges: bool) -> Expr:
    """Where a tile of `rows` rows lies that D has at `first`: there, or as far inward as the matrix asks.

    Of fewer rows than a tile's nothing is moved.

    >>> k = KernelBuilder("inward", threads=32)
    >>> m = k.param("m", 100, 64)
    >>> _ = tile_start(k, "a_row", k.block(0, 2) * 64, 64, m, edges=True)
    >>> str(k.build().body[0])
    'a_row = (block_x * 64 if block_x * 64 + 64 <= m else m - 64)'
    """
    if not edges or extent.facts.lo < rows:
        return first
    return k.let(name, Select(first + rows <= extent, first, extent - rows))


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
