"""gemm_sm80: D = activation(alpha A B + beta C + bias) with mma.sync, as gemm_sm80_plan says.

The program, for `stages` = S tiles in flight by cp.async:

    copy tiles 0 .. S-2, one group each; wait for tile 0; load its first fragments
    for each tile of k:
        for each step of it:
            before the last step: wait for the next tile, barrier
            load the fragments of the step after this one
            at the first step: start the copy of tile + S - 1 into the place that was read last
            multiply
    epilogue: the accumulators of 16 rows go through shared memory, a warp at a time, so that D is written
    (and C read) in rows of 16-byte vectors
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.expr import Const, Expr, Operand, Var
from layoutalg.codegen.instr_float import activate, add_scaled, pack, scale
from layoutalg.codegen.instr_mma import LDMATRIX, LDMATRIX_TRANS, MMA_SYNC, Mma, find_mma
from layoutalg.codegen.instr_sm75 import BAR, CLEAR, LDG, LDS, STG, STS, WARP_SYNC
from layoutalg.codegen.instr_sm80 import CP_ASYNC, CP_ASYNC_ZFILL, CP_COMMIT, CP_WAIT
from layoutalg.codegen.simplify import simplify
from layoutalg.codegen.tile import Global, Kernel, MemRef, Reg, Shared
from layoutalg.kernels.gemm import GemmProblem, Major
from layoutalg.kernels.gemm_sm80_plan import Sm80Config, stage_layout, stage_pitch, tile_layout

MOST_32 = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand: its matrix, its ring of tiles in shared memory, and who reads what."""

    k: KernelBuilder
    c: Sm80Config
    source: Global
    tile: Shared
    major: Major
    rows: int  # of the tile
    first: Expr  # row of the matrix where the tile starts
    extent: Var  # rows of the matrix
    depth: Var  # k of the matrix
    warp_row: Expr
    staged: Reg | None

    @property
    def size(self) -> int:
        return self.source.element_bytes

    @property
    def vec(self) -> int:
        """Elements of a vector."""
        return self.c.vector_bytes // self.size

    @property
    def stage_bytes(self) -> int:
        return self.rows * self.c.tile_k * self.size

    @property
    def passes(self) -> int:
        return self.rows * self.c.tile_k // (self.vec * self.c.threads)

    def place(self, step: Operand) -> tuple[Expr, Expr]:
        """(row, k) in the tile of the first element that a thread moves in a pass."""
        along = (self.c.tile_k if self.major == "k" else self.rows) // self.vec
        tid = self.k.tid
        near, far = tid % along * self.vec, tid // along + step * (self.c.threads // along)
        return (far, near) if self.major == "k" else (near, far)

    def slot(self, row: Operand, k: Operand, stage: Operand) -> MemRef:
        at = self.k.at(self.tile, row, k)
        return MemRef(at.buffer, simplify(at.index + stage * Const(self.stage_bytes)))

    def there(self, row: Expr, k: Expr) -> MemRef:
        crd = (row, k) if self.major == "k" else (k, row)
        return self.k.at(self.source, *crd)

    def inside(self, row: Expr, k: Expr) -> Expr:
        return (row < self.extent) & (k < self.depth)

    def start_copy(self, kt: Operand, stage: Operand, first: int, count: int) -> None:
        """Start passes of the copy of tile `kt` of k into a place of the ring."""
        k, nbytes = self.k, self.c.vector_bytes
        with k.Unroll("p", count) as p:
            row, col = self.place(p + first)
            far, deep = self.first + row, kt * Const(self.c.tile_k) + col
            if self.c.edges:
                guard = self.inside(far, deep)
                k.do(CP_ASYNC_ZFILL[nbytes], self.slot(row, col, stage), self.there(far, deep), guard)
            else:
                k.do(CP_ASYNC[nbytes], self.slot(row, col, stage), self.there(far, deep))

    def load(self, kt: Operand) -> None:
        """Load tile `kt` of k into registers."""
        assert self.staged is not None
        k, nbytes = self.k, self.c.vector_bytes
        with k.Unroll("p", self.passes) as p:
            row, col = self.place(p)
            far, deep = self.first + row, kt * Const(self.c.tile_k) + col
            if self.c.edges:
                with k.If(self.inside(far, deep)):
                    k.do(LDG[nbytes], self.staged[p], self.there(far, deep))
                with k.Else():
                    k.do(CLEAR[nbytes], self.staged[p])
            else:
                k.do(LDG[nbytes], self.staged[p], self.there(far, deep))

    def store(self, stage: Operand) -> None:
        """Store the loaded tile into a place of the ring."""
        assert self.staged is not None
        k = self.k
        with k.Unroll("p", self.passes) as p:
            k.do(STS[self.c.vector_bytes], self.slot(*self.place(p), stage), self.staged[p])

    def fragments(self, into: Reg, which: int, stage: Operand, step: int, *, paired: bool) -> None:
        """Load the fragments of a step of the tile: 16 rows at a time, `paired` for two 8-row fragments."""
        k, half = self.k, 16 // self.size
        lane = k.tid % 32
        if paired:  # matrices: rows 0-7 k 0, rows 0-7 k 1, rows 8-15 k 0, rows 8-15 k 1
            row_half, k_half = lane // 16, lane // 8 % 2
        else:  # rows 0-7 k 0, rows 8-15 k 0, rows 0-7 k 1, rows 8-15 k 1
            row_half, k_half = lane // 8 % 2, lane // 16
        with k.Unroll("f", into.shape[1]) as f:
            base = self.warp_row + f * 16
            if self.major == "k":
                row, col = base + row_half * 8 + lane % 8, k_half * half + step * 2 * half
                k.do(LDMATRIX, into[which, f], self.slot(row, col, stage))
            else:
                row, col = base + row_half * 8, k_half * 8 + lane % 8 + step * 16
                k.do(LDMATRIX_TRANS, into[which, f], self.slot(row, col, stage))


def build(p: GemmProblem, c: Sm80Config) -> Kernel:
    """The tile program of a configuration, for the problem's sizes and below."""
    size = p.operand.nbytes
    mma = find_mma(p.operand.name, p.accumulator.name, c.mma_k)
    k = KernelBuilder(f"gemm_sm80_{p.operand}", c.threads, min_blocks=c.min_blocks)
    step = 1 if c.edges else c.tile_k
    vec = c.vector_bytes // size
    m, n = k.param("m", p.m), k.param("n", p.n)
    depth = k.param("k", p.k, step, multiple=step)
    lda: Expr = Const(p.lda) if c.static_ld else k.param("lda", p.lda, vec, multiple=vec)
    ldb: Expr = Const(p.ldb) if c.static_ld else k.param("ldb", p.ldb, vec, multiple=vec)
    rvec = c.result_vec
    ldd = k.param("ldd", p.ldd, rvec, multiple=rvec)
    alpha = k.param("alpha", MOST_32, 0)
    tiles_m, tiles_n = (m + (c.tile_m - 1)) // c.tile_m, (n + (c.tile_n - 1)) // c.tile_n
    block = k.block(0, (tiles_n + (c.panel - 1)) // c.panel * c.panel * tiles_m)
    in_panel = block % (tiles_m * c.panel)
    n_tile = k.let("n_tile", block // (tiles_m * c.panel) * c.panel + in_panel % c.panel)
    m0 = k.let("m0", in_panel // c.panel * c.tile_m)
    n0 = k.let("n0", n_tile * c.tile_n)
    a = k.pointer("a", size, (lda, 1), align_bytes=c.vector_bytes)
    b = k.pointer("b", size, (ldb, 1), align_bytes=c.vector_bytes)
    dsize = p.result.nbytes
    d = k.pointer("d", dsize, (ldd, 1), writable=True, align_bytes=min(16, rvec * dsize))
    cin = beta = None
    if p.reads_c:
        ldc = k.param("ldc", p.ldc, rvec, multiple=rvec)
        cin = k.pointer("c", dsize, (ldc, 1), align_bytes=min(16, rvec * dsize))
        beta = k.param("beta", MOST_32, 0)
    warp = k.tid // 32
    sides = []
    for name, source, major, rows, first, extent, wrow in (
        ("a", a, p.a_major, c.tile_m, m0, m, warp % c.warps_m * c.warp_m),
        ("b", b, p.b_major, c.tile_n, n0, n, warp // c.warps_m * c.warp_n),
    ):
        layout = tile_layout(rows, c.tile_k, major, size, swizzled=c.swizzled)
        tile = k.shared(f"tile_{name}", size, layout, rows * c.tile_k * c.stages, 1024)
        staged = None
        if c.via == "registers":
            passes = rows * c.tile_k * size // (c.vector_bytes * c.threads)
            staged = k.reg(f"staged_{name}", passes, max(1, c.vector_bytes // 4))
        sides.append(_Side(k, c, source, tile, major, rows, first, extent, depth, wrow, staged))
    left, right = sides
    ra = k.reg("ra", c.fragments, c.warp_m // 16, 4)
    rb = k.reg("rb", c.fragments, c.warp_n // 16, 4)
    acc = k.reg("acc", c.warp_m // 16, c.warp_n // 8, mma.words[2])
    with k.Unroll("i", acc.shape[0]) as i, k.Unroll("j", acc.shape[1]) as j:
        k.do(CLEAR[4 * mma.words[2]], acc[i, j])
    kernel = _Program(k, c, mma, left, right, ra, rb, acc)
    with k.If(n_tile * c.tile_n < n):
        trips = k.let("trips", (depth + (c.tile_k - 1)) // c.tile_k)
        if c.via == "cp.async":
            kernel.pipelined(trips)
        else:
            kernel.through_registers(trips)
        epilogue(k, c, p, acc, d, cin, (m0, n0, m, n), alpha, beta)
    return k.build()


@dataclass(frozen=True, slots=True)
class _Program:
    k: KernelBuilder
    c: Sm80Config
    mma: Mma
    left: _Side
    right: _Side
    ra: Reg
    rb: Reg
    acc: Reg

    @property
    def steps(self) -> int:
        return self.c.tile_k // self.c.mma_k

    def pipelined(self, trips: Expr) -> None:
        k, stages = self.k, self.c.stages
        for s in range(stages - 1):
            with k.If(Const(s) < trips):
                for part in range(self.copy_steps):
                    self.start_copies(Const(s), Const(s), part)
            k.do(CP_COMMIT)
        k.do(CP_WAIT, stages - 2)
        k.do(BAR)
        if self.c.fragments == 2:
            self.fragments(0, Const(0), 0)
        if self.c.unroll_ring:
            with k.For("kr", (trips + (stages - 1)) // stages) as kr:
                for s in range(stages):
                    kt = kr * stages + s
                    with k.If(kt < trips):
                        ring = (Const(x % stages) for x in (s, s + 1, s + stages - 1))
                        self.tile_step(kt, trips, *ring)
        else:
            with k.For("kt", trips) as kt:
                self.tile_step(kt, trips, *((kt + x) % stages for x in (0, 1, stages - 1)))
        k.do(CP_WAIT, 0)

    def tile_step(self, kt: Expr, trips: Expr, here: Expr, after: Expr, last: Expr) -> None:
        """Multiply tile `kt`, in the place `here` of the ring, and start the copy of a later one."""
        k, stages = self.k, self.c.stages
        for s in range(self.steps):
            if s == self.steps - 1:
                k.do(CP_WAIT, stages - 2)
                k.do(BAR)
            if self.c.fragments == 2:
                follow = (after, 0) if s == self.steps - 1 else (here, s + 1)
                self.fragments((s + 1) % 2, *follow)
            else:
                self.fragments(0, here, s)
            rows = self.acc.shape[0]
            self.multiply(s % self.c.fragments, 0, rows // 2)
            if s < self.copy_steps:
                with k.If(kt + (stages - 1) < trips):
                    self.start_copies(kt + (stages - 1), last, s)
                if s == self.copy_steps - 1:
                    k.do(CP_COMMIT)
            self.multiply(s % self.c.fragments, rows // 2, rows - rows // 2)

    def through_registers(self, trips: Expr) -> None:
        k, two = self.k, self.c.stages == 2
        if self.c.ahead:
            self.loads(Const(0))
            self.stores(Const(0))
            k.do(BAR)
        with k.For("kt", trips) as kt:
            here = kt % 2 if two else Const(0)
            if self.c.ahead:
                with k.If(kt + 1 < trips):
                    self.loads(kt + 1)
            else:
                self.loads(kt)
                self.stores(here)
                k.do(BAR)
            if self.c.fragments == 2:
                self.fragments(0, here, 0)
            for s in range(self.steps):
                if self.c.fragments == 2:
                    if s + 1 < self.steps:
                        self.fragments((s + 1) % 2, here, s + 1)
                else:
                    self.fragments(0, here, s)
                self.multiply(s % self.c.fragments, 0, self.acc.shape[0])
            if self.c.ahead:
                if not two:
                    k.do(BAR)
                with k.If(kt + 1 < trips):
                    self.stores((kt + 1) % 2 if two else Const(0))
            k.do(BAR)

    @property
    def copy_steps(self) -> int:
        """Steps that start copies: all but the last, before which the next tile is waited for."""
        return max(1, self.steps - 1)

    def start_copies(self, kt: Operand, stage: Operand, part: int) -> None:
        """The share of a step in the copy of a tile."""
        for side in (self.left, self.right):
            first = -(-side.passes * part // self.copy_steps)
            after = -(-side.passes * (part + 1) // self.copy_steps)
            if after > first:
                side.start_copy(kt, stage, first, after - first)

    def loads(self, kt: Operand) -> None:
        self.left.load(kt)
        self.right.load(kt)

    def stores(self, stage: Operand) -> None:
        self.left.store(stage)
        self.right.store(stage)

    def fragments(self, which: int, stage: Operand, step: int) -> None:
        self.left.fragments(self.ra, which, stage, step, paired=False)
        self.right.fragments(self.rb, which, stage, step, paired=True)

    def multiply(self, which: int, first: int, count: int) -> None:
        k, words = self.k, self.mma.words[1]
        if count == 0:
            return
        with k.Unroll("i", count) as i, k.Unroll("j", self.acc.shape[1]) as j:
            b = self.rb.slice(which, j // 2, j % 2 * 2, count=words)
            k.do(MMA_SYNC[self.mma], self.acc[i + first, j], self.ra[which, i + first], b)


def epilogue(
    k: KernelBuilder,
    c: Sm80Config,
    p: GemmProblem,
    acc: Reg,
    d: Global,
    cin: Global | None,
    bounds: tuple[Var, Var, Var, Var],
    alpha: Var,
    beta: Var | None,
) -> None:
    """Write the accumulators, 16 rows of a warp at a time, through shared memory."""
    m0, n0, m, n = bounds
    v, lane, warp = c.result_vec, k.tid % 32, k.tid // 32
    staged_elems = 16 * stage_pitch(c.warp_n) * c.threads // 32
    stage = k.shared("stage", 4, stage_layout(c.warp_n), staged_elems, 1024, overlay=True)
    words = max(1, v)
    out = k.reg("out", words)
    packed = k.reg("packed", max(1, v * p.result.nbytes // 4))
    per_row = c.warp_n // v
    rows = 32 // per_row
    row0 = k.let("row0", m0 + warp % c.warps_m * c.warp_m + lane // per_row)
    col0 = k.let("col0", n0 + warp // c.warps_m * c.warp_n + lane % per_row * v)
    own = warp * (16 * stage_pitch(c.warp_n) * 4)

    def slot(row: Operand, col: Operand) -> MemRef:
        at = k.at(stage, row, col)
        return MemRef(at.buffer, simplify(at.index + own))

    k.do(BAR)
    with k.Unroll("i", acc.shape[0]) as i:
        with k.Unroll("j", acc.shape[1]) as j, k.Unroll("h", 2) as h:
            k.do(STS[8], slot(lane // 4 + h * 8, lane % 4 * 2 + j * 8), acc.slice(i, j, h * 2, count=2))
        k.do(WARP_SYNC)
        with k.Unroll("q", 16 // rows) as q:
            chunk = min(v, 4)
            with k.Unroll("e", v // chunk) as e:
                part = out.slice(e * chunk, count=chunk)
                at = slot(lane // per_row + q * rows, lane % per_row * v + e * chunk)
                k.do(LDS[4 * chunk], part, at)
            row = row0 + i * 16 + q * rows
            with k.If((row < m) & (col0 < n)):
                k.do(scale(v), out, alpha)
                if cin is not None and beta is not None:
                    k.do(LDG[v * p.result.nbytes], packed, k.at(cin, row, col0))
                    k.do(add_scaled(v, p.result.name), out, packed, beta)
                if p.activation != "none":
                    k.do(activate(v, p.activation), out)
                if p.result.name == "f32":
                    k.do(STG[v * 4], k.at(d, row, col0), out)
                else:
                    k.do(pack(v, p.result.name), packed, out)
                    k.do(STG[v * p.result.nbytes], k.at(d, row, col0), packed)
        k.do(WARP_SYNC)
