"""gemv: products with few rows of D, which memory bounds: every element of B is read once and multiplied.

    B stored along k       32 to 256 threads stream a few columns of B, vector by vector along k
    by tensor cores        or warps stream 8 columns at a time, as operands of mma.sync
    B stored along n       4 to 32 lanes have a vector of columns each, the other threads other k

The idea.  With m rows a product makes 2 m operations per element of B: up to some 8 rows memory is slower
than fused multiply-adds, and tiles of 64 rows are mostly empty.  So B goes from global memory to registers,
no shared memory between, with enough loads in flight; A, which all blocks read, comes from the caches.

Unpacking and multiplying 16-bit elements for several rows takes longer than memory does.  Tensor cores take
words as they are: of 32 of k a lane has one vector of a column of B and one of a row of A, or of two rows,
the same 8 of k of each, in any order; the rows of an eight that D does not have are copies of its last.

A thread adds its products up in order; then lanes join theirs by butterflies, and warps through shared
memory, in the order of their numbers: equal calls give equal bits.  Sums are f32.

    warp 0     | partials[0][m][column]      a thread per (m, column) adds the warps' partials, and applies
    warp 1     | partials[1][m][column]      the epilogue
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from layoutalg.arch import Arch
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Select, minus
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.codegen.program import Global, Kernel, RegRef
from layoutalg.errors import DivisibilityError, ResourceError, UnsupportedError
from layoutalg.kernels.gemm.epilogue import Output, statement
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.rasterize import batch_strides, declare_batch
from layoutalg.kernels.gemm.tiles import Alone
from layoutalg.kernels.identity import check_fields
from layoutalg.kernels.model import Work, machine_of, time_us
from layoutalg.layout import Layout

WARP, VECTOR_BYTES = 32, 16

EIGHT = 8
"""The columns of an mma, and the rows of half of one."""

STEP = 32
"""The elements of k that a warp loads a vector of each column of."""

MOST_ROWS = 8
"""The most rows of D for which a thread has sums."""

MMA_ROWS = 16
"""The rows of an mma."""

IN_FLIGHT = 8
"""The vectors of B that a thread has in flight, for all of its columns; half as many for more than 4 rows."""

MMA_THREADS = 512
"""Threads that a multiprocessor has at once by mma, with the registers that loads in flight take."""

THREADS = {"k": (256, 1024), "mn": (1024, 2048)}
"""The threads of a block by the order of B, and those that an SM has at once, as registers allow."""

REGISTERS = 1 << 16
"""Registers of a multiprocessor."""


@dataclass(frozen=True, slots=True)
class GemvConfig(Alone):
    """The way a block computes `rows` rows of D.

    Where B is stored along k, `lanes` threads share `columns` columns, and read vectors of `vec` elements
    along k; where it is stored along n, `lanes` threads lie along n with `vec` columns each, `columns` is 1,
    and the others take other k.  `depth` vectors of each column are in flight.  By `mma` columns are eights.

    >>> GemvConfig(1, 2, 64, 8, 4).splits
    1
    """

    rows: int
    columns: int
    lanes: int
    vec: int
    depth: int
    threads: int = 256
    mma: bool = False

    # what other families choose, and every configuration of this one has
    splits, min_blocks, edges, static_ld, via = 1, 1, True, False, "registers"

    @property
    def groups(self) -> int:
        """Groups of threads: of different columns, or where B is stored along n of different k."""
        return self.threads // self.lanes

    def __str__(self) -> str:
        columns = f"{self.columns} eights by mma" if self.mma else f"{self.columns} columns"
        block = f", {self.threads} in a block" if self.mma and self.threads != 256 else ""
        return f"{self.rows} rows, {columns} of {self.lanes} threads, vectors of {self.vec}{block}"


def block_columns(p: GemmProblem, c: GemvConfig) -> int:
    """Columns of D that a block computes.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> block_columns(gemm_problem(1, 64, 64), GemvConfig(1, 2, 64, 8, 4))
    8
    """
    own = EIGHT * c.columns if c.mma else c.columns
    return c.groups * own if p.b_major == "k" else c.lanes * c.vec


def check(p: GemmProblem, c: GemvConfig) -> None:
    """Raise for the first rule that a configuration breaks for a problem.

    Raises what `check_fields` raises, UnsupportedError for element types and orders of A that are not read,
    ResourceError for more rows than threads have sums for, DivisibilityError for threads and vectors that do
    not go together.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> check(gemm_problem(1, 64, 64), GemvConfig(1, 2, 64, 8, 4))
    """
    check_fields(c)
    if (p.operand.name, p.accumulator.name) not in (("f16", "f32"), ("bf16", "f32"), ("f32", "f32")):
        other = "gemm-simt" if p.operand.name == "f64" else "gemm-sm80"
        raise UnsupportedError(
            f"gemv multiplies f16, bf16 and f32 into f32, not {p.operand} into {p.accumulator}: take {other}"
        )
    most_rows = MMA_ROWS if c.mma else MOST_ROWS
    if p.m > most_rows:
        raise ResourceError("rows of gemv", p.m, most_rows, hint="take gemm-simt, gemm-sm80 or gemm-sm90")
    if p.a_major != "k" and p.m * p.lda > 1:
        raise UnsupportedError("gemv with A stored along m: store it along k, or take gemm-sm80 or gemm-simt")
    if c.rows != p.m:
        raise DivisibilityError(
            f"rows = {c.rows} of a product of {p.m}: threads have sums for each; take {p.m}"
        )
    along_n = p.b_major == "mn"
    if c.lanes not in ((4, 8, 16, 32) if along_n else (32, 64, 128, 256)):
        raise UnsupportedError(
            f"lanes = {c.lanes}: {'4, 8, 16 and 32' if along_n else '32, 64, 128 and 256'} are accepted"
        )
    if c.threads not in (256, 512, 1024):
        raise UnsupportedError(f"threads = {c.threads}: 256, 512 and 1024 are accepted")
    if along_n and c.columns != 1:
        raise UnsupportedError(f"columns = {c.columns} of B stored along n: vectors have {c.vec}; take 1")
    if c.mma and (along_n or c.vec != EIGHT or p.operand.name == "f32" or p.k % c.vec):
        raise UnsupportedError("mma of gemv: B along k, and vectors of 8 elements of 16 bits, are needed")
    most = vector(p)
    if most % c.vec:
        raise DivisibilityError(f"vec = {c.vec}: rows of B start and end at multiples of {most} elements")


def vector(p: GemmProblem) -> int:
    """Elements of the longest vectors that A and B can be read in, up to 16 bytes.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> [vector(gemm_problem(1, 64, k)) for k in (100, 101, 104)]
    [4, 1, 8]
    """
    size = p.operand.nbytes
    of_b = VECTOR_BYTES // size, p.align_bytes[1] // size, p.ldb, *p.steps("b")
    if p.b_major == "mn":
        return gcd(*of_b, p.n)
    return gcd(*of_b, p.align_bytes[0] // size, p.lda if p.m > 1 else 0, *p.steps("a"))


def expected_ns(p: GemmProblem, c: GemvConfig, chip: Arch) -> float:
    """Nanoseconds: memory, instructions, and waiting for rounds of loads.

    The board's file has the nanoseconds in which warps join their sums, and more for each sum of a warp where
    B lies along n; the instructions that one of the count below stands for, which unpacks, converts and tests
    too; and the bytes by which runs of a row are longer for the memory than they are, all fitted to 228 times
    of 45 drawn products.  By mma it has the nanoseconds of joining, the cycles that a warp's turn on an eight
    holds its scheduler twice for, and the bytes of A that a multiprocessor brings in a microsecond for its
    blocks, one after another: fitted to 289 times of 26 drawn products of 2 to 16 rows.
    """
    m, wide, along_k = machine_of(chip), c.vec * p.operand.nbytes, p.b_major == "k"
    law = m.ways["gemv"]
    join_us = law["join"] / 1e3
    along, across = (p.k, p.n) if along_k else (p.n, p.k)
    loads = -(-along // c.vec) * across * p.products
    blocks = -(-p.n // block_columns(p, c)) * p.products
    if c.mma:
        rounds, held = -(-p.k // (STEP * c.lanes // WARP * c.depth)), -(-blocks // m.sms)
        steps = blocks * c.threads // WARP * rounds * c.depth * m.sms / min(m.sms, blocks)
        turns = -(-held // max(1, MMA_THREADS // c.threads))
        of_a = held * c.rows * p.k * p.operand.nbytes / law["cached"]
        work = Work(
            loads * (wide + m.load_bytes), 2 * law["multiply"] * steps * c.columns,
            blocks=1, block_us=turns * rounds * m.load_us + of_a, beside_us=law["join by mma"] / 1e3,
        )  # fmt: skip
        return 1e3 * time_us(work, m, power=4)
    of_a = c.rows / c.columns * (2 + c.vec) if along_k else 3 * c.rows
    rounds = -(-p.k // (c.depth * (c.vec * c.lanes if along_k else c.groups)))
    held = 1 if along_k else c.rows * (c.vec + c.depth) + c.depth * wide // 4
    together = max(1, min(THREADS[p.b_major][1], REGISTERS // held) // c.threads)
    idle = m.sms / min(m.sms, blocks)  # multiprocessors without a block issue nothing
    run, sums = (along * wide, 0) if along_k else (c.lanes * wide, c.threads // WARP * c.rows * c.vec)
    work = Work(
        loads * (wide + m.load_bytes) * (1 + law["run"] / run),
        law["issued"] * loads / WARP * (2 + c.vec * (1 + c.rows) + of_a) * idle,
        blocks=-(-blocks // (m.sms * together)),
        block_us=rounds * (m.load_us + m.byte_us * c.depth * c.columns * wide) + sums * law["sum"] / 1e3,
        beside_us=join_us,
    )
    return 1e3 * time_us(work, m, power=4)


def offered(p: GemmProblem) -> Iterator[GemvConfig]:
    """The configurations to try, in vectors as wide as rows allow.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> print(next(offered(gemm_problem(1, 8192, 8192, "bf16"))))
    1 rows, 1 columns of 32 threads, vectors of 8
    """
    flight, vec, threads = IN_FLIGHT if p.m <= 4 else IN_FLIGHT // 2, vector(p), THREADS[p.b_major][0]
    held = p.m * (vec + flight) + flight * vec * p.operand.nbytes // 4  # words of sums, of A and of B
    while p.b_major == "mn" and threads * held > REGISTERS:
        threads //= 2  # or sums are spilled: 6 rows times 8192 x 1752 took ten times as long
    if p.m > 1 and p.b_major == "k" and vec == EIGHT and p.k % vec == 0:  # one row is as fast without
        for some, each, of in ((1, 256, 256), (2, 256, 256), (4, 256, 256), (4, 128, 256), (2, 256, 512)):
            if some > 1 and some * EIGHT // 2 >= p.n:  # half of them are past the last column
                continue
            yield GemvConfig(min(p.m, MMA_ROWS), some, each, vec, IN_FLIGHT // some, of, mma=True)
        return
    columns, lanes = ((1,), (4, 8, 16)) if p.b_major == "mn" else ((1, 2, 4), (32, 64, 128, 256))
    for some in columns:
        for each in lanes if some // 2 < p.n else ():
            yield GemvConfig(min(p.m, MOST_ROWS), some, each, vec, flight // some, threads)


def build(p: GemmProblem, c: GemvConfig) -> Kernel:
    """The tile program of a configuration, for the problem's n, k and leading dimensions and below.

    `alpha` and `beta` are passed as the 32-bit words of floats.  Raises what `check` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> build(gemm_problem(1, 64, 100, "bf16"), GemvConfig(1, 2, 64, 4, 4)).name
    'gemv_bf16'
    """
    check(p, c)
    notes = [
        "", f"{statement(p)}.",
        f"A block of {c.threads} threads makes {block_columns(p, c)} columns of D;",
        f"a thread has {c.depth * c.columns} vectors of {c.vec} elements of B in flight.",
    ]  # fmt: skip
    k = KernelBuilder(f"gemv_{p.operand}", c.threads, notes=notes)
    if c.mma:
        return _ByMma(k, p, c).write()
    return (_AlongK if p.b_major == "k" else _AlongN)(k, p, c).write()


class _Writer:
    """The code that both orders of B share: operands, sums, and their way to D."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: GemvConfig, a_vec: int, own: int) -> None:
        """A is read in vectors of `a_vec`; a thread has sums of `own` columns."""
        self.k, self.p, self.c, self.own, self.across = k, p, c, own, block_columns(p, c)
        self.m, self.n, self.depth = k.param("m", c.rows, c.rows), k.param("n", p.n), k.param("k", p.k)
        self.batch = declare_batch(k, p)
        self.a = self._operand("a", p.lda if c.rows > 1 else 0, a_vec)
        self.b = self._operand("b", p.ldb, c.vec)
        self.first = k.let("first", k.block(0, (self.n + (self.across - 1)) // self.across) * self.across)
        self.output = Output(k, p, 1, self.m, self.n, batch=self.batch)
        words, a_words = (max(1, vec * p.operand.nbytes // 4) for vec in (c.vec, a_vec))
        self.b_words = k.reg("b_words", c.depth, c.columns, words)
        self.a_words = k.reg("a_words", c.depth, -(-c.rows // EIGHT) if c.mma else c.rows, a_words)
        if not c.mma:
            self.a_floats, self.b_floats = k.reg("a_floats", c.rows * a_vec), k.reg("b_floats", c.vec)
            self.acc = k.reg("acc", c.rows * own)
            k.do(instr.fill(c.rows * own), self.acc, Const(0))

    def _operand(self, name: str, leading: int, vec: int) -> Global:
        """A matrix whose rows start at vectors; of one row there is no leading dimension."""
        ld: Expr = self.k.param(f"ld{name}", leading, vec, vec) if leading else Const(0)
        strides = (*batch_strides(self.k, self.p, name, vec), ld, 1)
        size = self.p.operand.nbytes
        return self.k.pointer(name, size, strides, align_bytes=size * vec)

    def fetch(self, to: RegRef, vec: int, of: Global, row: Expr, column: Expr, inside: Expr | None) -> None:
        """Load `vec` elements at a row and a column, or zeros where they are not `inside`."""
        k, nbytes = self.k, vec * self.p.operand.nbytes
        if inside is None:
            k.do(instr.LDG[nbytes], to, k.at(of, *self.batch, row, column))
            return
        k.do(instr.CLEAR[nbytes], to)
        with k.If(inside):
            k.do(instr.LDG[nbytes], to, k.at(of, *self.batch, row, column))

    def floats(self, words: RegRef, vec: int, into: RegRef) -> RegRef:
        """Elements as floats: unpacked, or unchanged."""
        if self.p.operand.name == "f32":
            return words
        self.k.do(instr.convert(vec, self.p.operand.name, "f32"), into, words)
        return into

    def finish(self, ways: int, way: Expr, lanes: tuple[int, ...], column: Expr) -> Kernel:
        """Join the lanes whose numbers differ by `lanes`, then `ways` partials, and write D.

        The first of a thread's columns is number `column` of the block.
        """
        k, c, part, unit = self.k, self.c, self.partials(ways), gcd(self.own, 4)
        for mask in lanes:
            k.do(instr.butterfly("sum", c.rows * self.own), mask, self.acc)
        first_lane = (k.tid // lanes[-1] % (WARP // lanes[-1])).eq(0) if lanes else Const(1)
        with k.If(first_lane):
            for r in range(c.rows):
                for j in range(0, self.own, unit):
                    own = self.acc.slice(r * self.own + j, count=unit)
                    k.do(instr.STS[4 * unit], part.at(way, r, column + j), own)
        return self.join(part, ways)

    def partials(self, ways: int) -> Tensor:
        """The sums of each way, row and column of the block."""
        layout = Layout((ways, self.c.rows, self.across), (self.c.rows * self.across, self.across, 1))
        return self.k.shared("partials", "f32", layout, align_bytes=16)

    def join(self, part: Tensor, ways: int) -> Kernel:
        """Add the ways up, and write D."""
        k, c, across = self.k, self.c, self.across
        k.do(instr.BAR)
        total, one, outputs = k.reg("total", 1), k.reg("one", 1), c.rows * across
        with k.For("turn", -(-outputs // c.threads)) as turn:
            number = k.let("number", turn * c.threads + k.tid)
            with k.If(number < outputs):
                row, place = k.let("row", number // across % c.rows), k.let("place", number % across)
                k.do(instr.CLEAR[4], total)
                with k.Unroll("w", ways) as w:
                    k.do(instr.LDS[4], one, part.at(w, row, place))
                    k.do(instr.fold("sum", 1, 1), total, one)
                self.output.write(total, (*self.batch, row, self.first + place))
        return k.build()


class _AlongK(_Writer):
    """B stored along k: the threads of a column read neighbouring vectors of it, and of A."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: GemvConfig) -> None:
        super().__init__(k, p, c, c.vec, c.columns)
        group, self.y = k.let("group", k.tid // c.lanes), k.let("y", k.tid % c.lanes)
        self.column = group * c.columns
        self.columns = []
        for j in range(c.columns):  # past the last one: its sums are not stored
            at = self.first + self.column + j
            self.columns.append(k.let(f"column{j}", Select(at < self.n, at, minus(self.n, 1))))

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        vectors, step = k.let("vectors", self.depth // c.vec), c.lanes * c.depth
        rounds = k.let("rounds", vectors // step)
        if rounds.facts.hi:
            with k.For("i", rounds) as i:
                self._round(c.depth, c.vec, i * step, None)
        with k.If(rounds * step < vectors):
            self._round(c.depth, c.vec, rounds * step, vectors)
        if c.vec > 1:
            with k.If(vectors * c.vec < self.depth):
                self._round(1, 1, vectors * c.vec, self.depth)
        warps = c.lanes // WARP
        return self.finish(warps, k.tid // WARP % warps, (16, 8, 4, 2, 1), self.column)

    def _round(self, depth: int, vec: int, first: Expr, most: Expr | None) -> None:
        """Multiply `depth` vectors from number `first` on, of those below `most`."""
        k, c, words = self.k, self.c, max(1, vec * self.p.operand.nbytes // 4)
        fa, fb = (x.slice(0, count=vec) for x in (self.a_floats, self.b_floats))
        with k.Unroll("u", depth) as u:
            number = first + u * c.lanes + self.y
            inside = None if most is None else number < most
            for j, column in enumerate(self.columns):
                to = self.b_words.slice(u, j, 0, count=words)
                self.fetch(to, vec, self.b, column, number * vec, inside)
            for r in range(c.rows):
                to = self.a_words.slice(u, r, 0, count=words)
                self.fetch(to, vec, self.a, Const(r), number * vec, inside)
        with k.Unroll("u", depth) as u:
            for r in range(c.rows):
                left = self.floats(self.a_words.slice(u, r, 0, count=words), vec, fa)
                for j in range(c.columns):
                    right = self.floats(self.b_words.slice(u, j, 0, count=words), vec, fb)
                    with k.Unroll("e", vec) as e:
                        one, other = (_element(x, e) for x in (left, right))
                        k.do(instr.fma_outer(1, 1), self.acc[r * c.columns + j], one, other)


class _ByMma(_Writer):
    """B stored along k, by tensor cores: a lane has a vector of a column of 8, and of a row."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: GemvConfig) -> None:
        super().__init__(k, p, c, c.vec, 0)
        self.mma = instr.MMA_SYNC[instr.find_mma(p.operand.name, "f32", 16)]
        self.sums = k.reg("sums", c.columns, 4)
        k.do(instr.fill(4 * c.columns), self.sums, Const(0))
        self.left = k.reg("left", 4)  # without more than 8 rows the upper half of an mma is zeros
        k.do(instr.fill(4), self.left, Const(0))
        self.way, lane = k.let("way", k.tid // WARP % (c.lanes // WARP)), k.tid % WARP
        self.of_eight, self.quarter = k.let("of_eight", lane // 4), k.let("quarter", lane % 4)
        self.column = k.let("group", k.tid // c.lanes) * (EIGHT * c.columns)
        last = minus(self.n, 1)
        at = [self.first + self.column + EIGHT * j + self.of_eight for j in range(c.columns)]
        self.columns = [k.let(f"column{j}", Select(x < self.n, x, last)) for j, x in enumerate(at)]
        rows = [self.of_eight + first for first in range(0, c.rows, EIGHT)]
        self.rows = [
            k.let(f"of_a{h or ''}", Select(row < c.rows, row, Const(c.rows - 1)))
            for h, row in enumerate(rows)
        ]

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        ways = c.lanes // WARP
        vectors, step = k.let("vectors", self.depth // c.vec), ways * c.depth * (STEP // c.vec)
        rounds = k.let("rounds", vectors // step)
        if rounds.facts.hi:
            with k.If(Const(0) < rounds):
                with k.Unroll("u", c.depth) as u:
                    self._fetch(u, Const(0), None)
                if rounds.facts.hi > 1:
                    with k.For("i", minus(rounds, 1)) as i, k.Unroll("u", c.depth) as u:
                        self._multiply(u)
                        self._fetch(u, (i + 1) * step, None)  # as many vectors are in flight all the time
                with k.Unroll("u", c.depth) as u:
                    self._multiply(u)
        with k.If(rounds * step < vectors):
            with k.Unroll("u", c.depth) as u:
                self._fetch(u, rounds * step, vectors)
            with k.Unroll("u", c.depth) as u:
                self._multiply(u)
        part = self.partials(ways)
        for h in range(len(self.rows)):
            row = self.of_eight + EIGHT * h
            with k.If(row < c.rows):
                for j in range(c.columns):
                    to = part.at(self.way, row, self.column + EIGHT * j + self.quarter * 2)
                    k.do(instr.STS[8], to, self.sums.slice(j, 2 * h, count=2))
        return self.join(part, ways)

    def _fetch(self, u: Expr, first: Expr, most: Expr | None) -> None:
        """Load vector `u` of the way, of those from number `first` on, below `most`."""
        c = self.c
        number = first + (self.way * c.depth + u) * (STEP // c.vec) + self.quarter
        inside = None if most is None else number < most
        for j, column in enumerate(self.columns):
            self.fetch(self.b_words[u, j], c.vec, self.b, column, number * c.vec, inside)
        for h, row in enumerate(self.rows):
            self.fetch(self.a_words[u, h], c.vec, self.a, row, number * c.vec, inside)

    def _multiply(self, u: Expr) -> None:
        """Multiply 16 of k, and the other 16, of all columns."""
        k = self.k
        for half in range(2):
            for word in range(2):
                for h in range(len(self.rows)):
                    k.do(instr.MOVE, self.left[2 * word + h], self.a_words[u, h, 2 * half + word])
            for j in range(self.c.columns):
                k.do(self.mma, self.sums[j], self.left, self.b_words.slice(u, j, 2 * half, count=2))


class _AlongN(_Writer):
    """B stored along n: lanes have neighbouring columns, and groups of them different k."""

    def __init__(self, k: KernelBuilder, p: GemmProblem, c: GemvConfig) -> None:
        super().__init__(k, p, c, 1, c.vec)
        self.group, y = k.let("group", k.tid // c.lanes), k.let("y", k.tid % c.lanes)
        self.column = k.let("own", y * c.vec)
        at = self.first + self.column
        # a column past the last one stands for the first; its sums are not stored
        self.at = k.let("column", Select(at < self.n, at, Const(0)))

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        step = c.groups * c.depth
        rounds = k.let("rounds", self.depth // step)
        if rounds.facts.hi:
            with k.For("i", rounds) as i:
                self._round(i * step, None)
        with k.If(rounds * step < self.depth):
            self._round(rounds * step, self.depth)
        masks = tuple(mask for mask in (16, 8, 4) if mask >= c.lanes)
        return self.finish(c.threads // WARP, k.tid // WARP, masks, self.column)

    def _round(self, first: Expr, most: Expr | None) -> None:
        """Multiply `depth` vectors of rows from number `first` on, of those below `most`."""
        k, c = self.k, self.c
        with k.Unroll("u", c.depth) as u:
            at = first + u * c.groups + self.group
            inside = None if most is None else at < most
            self.fetch(self.b_words[u, 0], c.vec, self.b, at, self.at, inside)
            for r in range(c.rows):
                self.fetch(self.a_words[u, r], 1, self.a, Const(r), at, inside)
        with k.Unroll("u", c.depth) as u:
            left = self.a_words[u]
            for r in range(c.rows):
                if self.floats(self.a_words[u, r], 1, self.a_floats[r]).reg == self.a_floats:
                    left = self.a_floats[()]
            right = self.floats(self.b_words[u, 0], c.vec, self.b_floats[()])
            k.do(instr.fma_outer(c.rows, c.vec), self.acc, left, right)


def _element(floats: RegRef, e: Expr) -> RegRef:
    """Return the float `e` places behind a register."""
    *before, last = floats.index
    return RegRef(floats.reg, (*before, last + e))
