"""attention_sm90: the forward pass with wgmma, whose operands TMA brings.

A block computes 64 rows of queries for each of its consumers, warpgroups, tile after tile; its last
warpgroup is the producer, one thread of which fills rings of K and V:

    producer    for each tile:   K[last], Q;  K[last - 1], V[last];  ...;  V[first]
    consumer    S = Q K[last]^T;  P = exp2(S - max)
                for each tile of keys before:   S = Q K[j]^T  and  O += P V[j + 1]  together
                                                P = exp2(S - max) under the second;  O *= what max moved
                O += P V[first];  O / sum leaves by TMA

Two products are in flight at a time, so that softmax runs under a product of its own warpgroup; named
barriers make the consumers start theirs in turn, so that it runs under those of the others too.

The accumulators of S are the operand A of the second product: D of a wgmma and A of one from registers have
the same elements in a thread, 64 x 16 after 64 x 16, so that P is S converted where it is (`as_operand` finds
the order by the algebra).  K is read as it lies, [key][d]; V too, as an operand B that lies along its rows.

Keys are walked from the last that a tile of queries sees to the first, so that tiles that need a mask come
first, and of a window last; the others have no comparison.  A tile that sees no key walks one, all masked.

Tiles are walked from the last rows to the first, of `near` heads together, there and back: where later rows
see more keys every block gets about as much, and blocks at work share keys and values that the L2 holds.

Sources: Shah et al., FlashAttention-3 (2024), sections 3.1 and 3.2; Milakov and Gimelshein, Online normalizer
calculation for softmax (2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from operator import add
from typing import Any, NamedTuple

from layoutalg.algebra import left_inverse, tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.atoms import TiledMMA, make_tiled_copy_C, make_tiled_mma
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Operand, Select, minus
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, local_tile
from layoutalg.codegen.program import Kernel, Mbarrier, TensorMapParam
from layoutalg.codegen.terms import Value, exp2, fma, log2, maximum, rcp, where
from layoutalg.compose import composition
from layoutalg.kernels.attention.problem import MOST_LENGTH, AttentionProblem
from layoutalg.layout import Layout, modes

ROWS, LINE = 64, 64
"""Rows of a wgmma, and elements of a line of 128 bytes, the widest box of TMA in its swizzle."""

MOST_BLOCKS, MOST_HEADS, MOST_STRIDE = 1 << 10, 1 << 16, 1 << 36
MOST_TILES, MOST_STEPS = 1 << 29, 1 << 31
"""Tiles of a launch, at most, and the number of steps at which their count begins again."""

LOG2_E, LN_2 = math.log2(math.e), math.log(2)
REGISTERS = {2: (24, 240), 3: (32, 160)}
"""Registers of a thread of the producer and of so many consumers, 65,536 in all."""


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """The way a block computes: warpgroups of 64 queries, tiles of keys, stages of the rings of K and V.

    Results leave from where Q was (`over`), or from elsewhere.

    >>> AttentionConfig(2, 128).threads
    384
    """

    consumers: int
    keys: int
    stages: int = 2
    over: bool = False

    @property
    def rows(self) -> int:
        """Queries of a tile."""
        return ROWS * self.consumers

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 128 * (self.consumers + 1)


def build(p: AttentionProblem, c: AttentionConfig) -> Kernel:
    """The tile program of a configuration, for any lengths, heads and strides.

    >>> from layoutalg.kernels.attention.problem import attention_problem
    >>> build(attention_problem(1, 1, 64), AttentionConfig(2, 64)).name
    'attention_sm90_bf16_d128'
    """
    return _Writer(p, c).write()


def as_operand(sums: TiledMMA, product: TiledMMA, shape: tuple[int, int]) -> Layout:
    """The layout from the registers of A in a product to those of C in another that has the same elements.

    >>> s, o = (make_tiled_mma(f"SM90_64x64x16_F32BF16BF16_{x}") for x in ("SS", "RS"))
    >>> print(as_operand(s, o, (64, 64)))
    ((2,2,2),(1,4)):((1,2,4),(0,8))
    """
    held, needed = sums.tidfrg("C", Layout(shape)), product.tidfrg("A", Layout(shape))
    return composition(left_inverse(modes(held)[1]), modes(needed)[1])


def _notes(c: AttentionConfig) -> list[str]:
    """The lines of the comment above the kernel."""
    return [
        "",
        "O = softmax(scale Q K^T) V of each head, and lse, the logarithms of the sums of e^score.",
        f"A block makes {c.rows} rows of O, {ROWS} per warpgroup, and then its next tile;",
        f"keys go by {c.keys} through {c.stages} tiles in shared memory, which one thread fills by TMA.",
        "scale_log2 is the scale times log2(e); group heads of q share one of k and v.",
        "Any number of blocks is right, and any number of heads near each other.",
    ]


class _Array(NamedTuple):
    """An array (length, d, head, batch), the map of its boxes, a line of rows each, and its tiles."""

    source: Tensor
    boxes: TensorMapParam
    tiles: Tensor


class _Row(NamedTuple):
    """The part of a thread in one of its two rows: scores and results; the largest score, the factor of what
    was summed before it, its exponent, and the sum of the weights."""

    scores: Fragment
    out: Fragment
    top: Fragment
    old: Fragment
    zero: Fragment
    total: Fragment


class _Tile(NamedTuple):
    """A tile of queries: which of the block's, its first row, head, batch; the steps of keys before it; its
    last tile of keys, their number, and how many of the others have a mask for ends, and for beginnings."""

    turn: Expr
    row: Expr
    of: Expr
    head: Expr
    batch: Expr
    before: Expr
    last: Expr
    total: Expr
    right: Expr
    left: Expr


class _Writer:
    """The parts of the program, and their common state."""

    def __init__(self, p: AttentionProblem, c: AttentionConfig) -> None:
        self.p, self.c = p, c
        self.k = k = KernelBuilder(f"attention_sm90_{p.element}_d{p.d}", c.threads, notes=_notes(c))
        self.m, self.n = (k.param(x, MOST_LENGTH) for x in "mn")
        self.heads, self.batch = (k.param(x, MOST_HEADS) for x in ("heads", "batch"))
        k.require(self.heads * self.batch <= MOST_HEADS)
        self.all_heads = k.let("all_heads", (self.heads * self.batch - 1) % MOST_HEADS + 1)
        self.group, kv_heads = (k.param(x, MOST_HEADS) for x in ("group", "kv_heads"))
        k.require(self.heads.eq(kv_heads * self.group))
        self.near, self.blocks = k.param("near", MOST_HEADS), k.param("blocks", MOST_BLOCKS)
        self.block = k.block(0, self.blocks)
        # of query i the keys j with j + drop < i + reach, and i + skip <= j + back
        self.right, self.left = (
            [k.param(x, 2 * MOST_LENGTH, 0) for x in names] if side is not None else []
            for side, names in ((p.right, ("reach", "drop")), (p.left, ("skip", "back")))
        )
        self.scale = k.scalar("scale_log2" if p.plain else "scale", "f32")
        self.arrays = {
            "q": self._array("load_q", self.m, self.heads, ROWS, c.consumers),
            "k": self._array("load_k", self.n, kv_heads, c.keys, c.stages),
            "v": self._array("load_v", self.n, kv_heads, c.keys, c.stages),
        }
        self.arrays["o"] = self._array("save_o", self.m, self.heads, ROWS, c.consumers)
        if p.sums:
            self.lse = k.tensor("lse", "f32", (self.m, None), (1, self.m), writable=True)
        kind = f"F32{p.element}{p.element}".upper()
        self.scores, self.product = (
            make_tiled_mma(f"SM90_64x{n}x16_{kind}_{x}") for n, x in ((c.keys, "SS"), (p.d, "RS"))
        )
        self.full, self.empty = dict[str, Mbarrier](), dict[str, Mbarrier]()
        for x, readers, stages in (("q", 1, c.consumers), *((x, c.consumers, c.stages) for x in "kv")):
            self.full[x] = k.mbarrier(f"full_{x}", 1, stages)
            self.empty[x] = k.mbarrier(f"empty_{x}", readers, stages)

    def _array(self, name: str, length: Expr, heads: Expr, rows: int, stages: int) -> _Array:
        """An array, in tiles of so many rows that TMA will load or save; O lies `over` Q."""
        k, p, (verb, x) = self.k, self.p, name.split("_")
        multiple = 16 // p.element.nbytes
        steps = [k.param(f"{x}_{y}", MOST_STRIDE, multiple, multiple) for y in ("row", "head", "batch")]
        extents = length, p.d, heads, self.batch
        source = k.tensor(x, p.element, extents, (steps[0], 1, *steps[1:]), writable=verb == "save")
        boxes = k.tensor_map(name, source, (rows, LINE, 1, 1), mode="128B")
        if x == "o" and self.c.over:
            return _Array(source, boxes, self.arrays["q"].tiles)
        layout = tile_to_shape(atom_layout("Layout_K_SW128_Atom", p.element), (rows, p.d))
        return _Array(source, boxes, k.shared(f"{x}_tile", p.element, layout, stages=stages))

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        k.init(*(bar for pair in zip(self.full.values(), self.empty.values(), strict=True) for bar in pair))
        few, many = REGISTERS[c.consumers]
        with k.roles() as roles:
            with roles.role("consumer", 4 * c.consumers, registers=many):
                self._consume()
            with roles.role("producer", 4, registers=few), k.If(k.thread.eq(0)):
                self._produce()
        return k.build()

    # --- what both roles walk ------------------------------------------------------------------------------

    @contextmanager
    def _tiles(self, start: Callable[[Expr, Expr], None] | None = None) -> Iterator[_Tile]:
        """Loop over the tiles of the block; `start` writes what begins a tile of a number, behind so many
        tiles of keys, before it is known which one that is."""
        k, c = self.k, self.c
        rows = k.let("row_tiles", (self.m + (c.rows - 1)) // c.rows)
        total = k.let("tiles", rows * self.all_heads)
        whole = k.let("rounds", total // self.blocks)
        back = k.let("back_at", minus(self.blocks, self.block + 1))
        mine = Select((whole % 2).eq(0), self.block, back)
        rounds = whole + Select(mine < total % self.blocks, Const(1), Const(0))
        steps = k.fragment("steps", "u32", (1,)) if self.left or self.right else None
        if steps is not None:  # tiles have as many steps as they see keys
            k.map(Const(0), into=steps)
        every = k.let("every", (self.n + (c.keys - 1)) // c.keys)
        with k.For("turn", rounds) as turn:
            if steps is not None:
                before = k.take("before", steps.at(0), MOST_STEPS - 1)
            else:
                before = k.let("before", turn * every % MOST_STEPS)
            if start is not None:
                start(turn, before)
            # moduli of powers of two change nothing, and say that 32 bits are enough
            number = turn * self.blocks + Select((turn % 2).eq(0), self.block, back)
            number = k.let("number", number % MOST_TILES)
            first = k.let("first_near", number // (rows * self.near) * self.near % (2 * MOST_HEADS))
            near = k.let("near_heads", least(self.near, minus(self.all_heads, first + 1) + 1))
            place = k.let("near_place", minus(number, first * rows))
            row = k.let("row", minus(rows, place // near + 1) * c.rows)
            of = k.let("of_heads", first + place % near)
            head, batch = k.let("head", of % self.heads), k.let("of_batch", of // self.heads)
            tile = _Tile(turn, row, of, head, batch, before, *self._span(row))
            yield tile
            if steps is not None:
                k.map(before + tile.total, into=steps)

    def _seen(self, row: Expr) -> tuple[Expr, Expr]:
        """The first key that a query sees, and the one behind those that it may see."""
        sides = (self.left, Const(0)), (self.right, self.n)
        begin, end = (minus(row + x[0], x[1]) if x else usual for x, usual in sides)
        return begin, end

    def _span(self, row: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        """The last tile of keys that a tile of queries walks, their number, and how many behind the last one
        have a mask for their ends, and for their beginnings."""
        k, keys = self.k, self.c.keys
        (begin, end), (begin_last, end_last) = self._seen(row), self._seen(row + (self.c.rows - 1))
        first = k.let("first", begin // keys) if self.left else begin
        end_last = least(self.n, end_last) if self.right else self.n
        count = k.let("count", minus((end_last + (keys - 1)) // keys, first + 1) + 1)
        last = k.let("last", first + (count - 1))
        right: Expr = Const(0)
        left: Expr = Const(0)
        if self.right:
            cut = k.let("cut", minus(last, end // keys))
            right = k.let("right", least(cut, minus(last, first)))
        if self.left:
            clean = (begin_last + (keys - 1)) // keys
            left = k.let("left", minus(least(clean, minus(last, right)), first))
        return last, count, right, left

    def _at(self, nth: Expr) -> tuple[Expr, Expr]:
        """The stage of a tile of keys, and the parity of the phase in which it is full."""
        count = self.k.let(self.k.fresh("nth"), nth)
        return count % self.c.stages, count // self.c.stages % 2

    def _lines(
        self, x: str, stage: Operand, row: Expr, head: Expr, batch: Expr
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The boxes of a tile in memory, and in a stage, line by line."""
        array = self.arrays[x]
        rows = array.boxes.box[1]
        for i in range(self.p.d // LINE):
            box = local_tile(array.source, (rows, LINE, 1, 1), (0, i, 0, 0)).moved(row, 0, head, batch)
            yield box, local_tile(array.tiles[None, None, stage], (rows, LINE), (0, i))

    # --- the producer --------------------------------------------------------------------------------------

    def _produce(self) -> None:
        k, c = self.k, self.c
        with self._tiles() as tile:
            kv_head = k.let("kv_head", tile.head // self.group)

            def fill(x: str, nth: Expr) -> None:
                stage, parity = self._at(tile.before + nth)
                k.wait(self.empty[x][stage], 1 - parity)
                self._load(x, stage, minus(tile.last, nth) * c.keys, kv_head, tile.batch)

            with k.For("j", tile.total) as j:
                fill("k", j)
                with k.If(j.eq(0)):  # behind K, whose stages are free before
                    for i in range(c.consumers):
                        k.wait(self.empty["q"][i], 1 - tile.turn % 2)
                        self._load("q", i, tile.row + i * ROWS, tile.head, tile.batch)
                with k.Else():
                    fill("v", minus(j, 1))
            fill("v", tile.total - 1)

    def _load(self, x: str, stage: Operand, row: Expr, head: Expr, batch: Expr) -> None:
        """Start the copies of a tile."""
        boxes, full = self.arrays[x].boxes, self.full[x][stage]
        self.k.expect(full, boxes.box[1] * self.p.d * self.p.element.nbytes)
        for box, line in self._lines(x, stage, row, head, batch):
            self.k.tma_load(boxes, box, line, full)

    # --- the consumers -------------------------------------------------------------------------------------

    def _consume(self) -> None:
        k, c, p = self.k, self.c, self.p
        self.mine = group = k.let("warpgroup", k.thread // 128)
        thread = k.thread % 128
        one, two = self.slices = k.get_slice(self.scores, thread), k.get_slice(self.product, thread)
        self.s = one.fragment_C("s", (ROWS, c.keys))
        self.out = two.fragment_C("out", (ROWS, p.d))
        self.weights = two.fragment_A("weights", (ROWS, c.keys))
        held = [k.fragment(x, "f32", (2,), values=1) for x in ("top", "old", "zero", "total")]
        self.rows = [_Row(row_of(self.s, h), row_of(self.out, h), *(x[h] for x in held)) for h in range(2)]
        self.q_part = one.partition_A(self.arrays["q"].tiles[None, None, group])
        self._meet(1, ahead=1, only=c.consumers - 1)

        def start(turn: Expr, before: Expr) -> None:  # the first scores, under which the tile is found
            stage, parity = self._at(before)
            k.wait(self.full["q"][group], turn % 2)
            k.wait(self.full["k"][stage], parity)
            k.do(instr.WGMMA_FENCE)
            self._multiply("k", stage)

        with self._tiles(start) as tile:
            row = k.let("my_row", tile.row + group * ROWS + thread // 32 * 16 + thread % 32 // 4)
            stage, parity = self._at(tile.before)
            k.warpgroup_wait(0, self.s)
            self._release("k", stage)
            for x in self.rows:
                k.map(-math.inf, into=x.top)
                k.map(0.0, into=x.total)
            self._softmax(tile, row, tile.last, masked=True)
            k.wait(self.full["v"][stage], parity)
            self._weigh()
            before: Expr = Const(1)
            clean = minus(tile.total, tile.right + tile.left + 1)
            for name, count in (("right", tile.right), ("inner", clean), ("left", tile.left)):
                if count != Const(0):
                    with k.For(f"{name}_tile", count) as j:
                        step = k.let(k.fresh("step"), before + j)
                        self._step(tile, row, step, masked=name != "inner")
                    before = before + count
            if not c.over:
                self._release("q", group)
            stage, _ = self._at(tile.before + (tile.total - 1))
            k.do(instr.WGMMA_FENCE)
            self._multiply("v", stage, minus(tile.total, 1))
            self._finish_sums(tile, row)
            k.warpgroup_wait(0, self.out, self.weights)
            self._release("v", stage)
            self._leave(tile)
        with k.If(thread.eq(0)):
            k.bulk_wait(0, read=True)

    def _step(self, tile: _Tile, row: Expr, j: Expr, *, masked: bool) -> None:
        """Scores of tile j beside the product of the one before, and softmax under it."""
        k = self.k
        (stage, parity), (older, _) = self._at(tile.before + j), self._at(tile.before + minus(j, 1))
        k.wait(self.full["k"][stage], parity)
        self._meet(1)
        k.do(instr.WGMMA_FENCE)
        self._multiply("k", stage)
        self._multiply("v", older, minus(j, 1))
        self._meet(1, ahead=1)
        k.warpgroup_wait(1, self.s)
        self._release("k", stage)
        self._softmax(tile, row, minus(tile.last, j), masked=masked)
        # a wait, since its branches keep ptxas from waiting for the product before it computes the weights
        k.wait(self.full["v"][stage], parity)
        k.warpgroup_wait(0, self.out, self.weights)
        self._release("v", older)
        self._rescale()
        self._weigh()

    def _meet(self, at: int, threads: int = 256, *, ahead: int = 0, only: int | None = None) -> None:
        """The consumer, or `only` one, waits at its named barrier, or arrives at that of one `ahead`."""
        k, c = self.k, self.c
        for i in range(c.consumers) if only is None else (only,):
            with k.If(self.mine.eq(i)):
                number = at + (i + ahead) % c.consumers
                k.do(instr.NAMED_ARRIVE if ahead else instr.NAMED_BARRIER, number, threads)

    def _release(self, x: str, stage: Expr) -> None:
        with self.k.If((self.k.thread % 128).eq(0)):
            self.k.arrive(self.empty[x][stage])

    def _multiply(self, x: str, stage: Expr, accumulate: Operand = 0) -> None:
        """Start S = Q K^T, or O += P V, without `accumulate` O = P V."""
        k, (one, two), tile = self.k, self.slices, self.arrays[x].tiles[None, None, stage]
        if x == "k":
            k.mma(self.scores, self.s, self.q_part, one.partition_B(tile), accumulate=0)
        else:
            k.mma(
                self.product, self.out, self.weights, two.partition_B(tile.transposed), accumulate=accumulate
            )
        k.do(instr.WGMMA_COMMIT)

    def _softmax(self, tile: _Tile, row: Expr, number: Expr, *, masked: bool) -> None:
        """S = exp2(S - the largest of the row so far), of tile `number` of the keys; the sums of rows, and
        `old`, by which what was summed before is multiplied."""
        k, p = self.k, self.p
        scale = self.scale if p.plain else 1.0
        first = k.let(k.fresh("first_key"), number * self.c.keys + k.thread % 4 * 2)
        for h, (part, _, top, old, zero, total) in enumerate(self.rows):
            if not p.plain:
                self._score(part, tile, row + 8 * h, first)
            if masked:  # without sides only the last keys may be cut
                cut = self.n < (number + 1) * self.c.keys
                with nullcontext() if self.left or self.right else k.If(cut):
                    self._mask(part, row + 8 * h, first)
            k.map(top, into=old)
            self._join(maximum, part, top)
            for lanes in (1, 2):
                k.do(instr.butterfly("max", 1), lanes, top)
            k.map(where(top.eq(-math.inf), 0.0, top * scale), into=zero)
            for x in (old, part):
                k.map(exp2(fma(x, scale, -zero) if p.plain else x - zero), into=x)
            k.map(total * old, into=total)
            self._join(add, part, total)

    def _join(self, join: Callable[[Any, Any], Any], part: Fragment, into: Fragment) -> None:
        """Join the elements of a row, two at a time, to what is known of it."""
        k = self.k
        with k.Unroll(k.fresh("e"), part.size // 2) as e:
            k.map(join(into, join(part[2 * e], part[2 * e + 1])), into=into)

    def _mask(self, part: Fragment, row: Expr, first: Expr) -> None:
        """The scores of a row that are -inf: of keys that there are not, and those that it does not see."""
        k, (begin, end) = self.k, self._seen(row)
        end = k.let(k.fresh("end"), minus(least(self.n, end) if self.right else end, first))
        begin = k.let(k.fresh("begin"), minus(begin, first)) if self.left else begin
        with k.Unroll(k.fresh("e"), part.size) as e:
            key = e // 2 * 8 + e % 2
            k.map(where((key < end) & (begin <= key), part[e], -math.inf), into=part[e])

    def _score(self, part: Fragment, tile: _Tile, row: Expr, first: Expr) -> None:
        """The user's function of each score of a row, in units of the exponent of 2."""
        k, score = self.k, self.p.score or (lambda s, *_: s)
        with k.Unroll(k.fresh("e"), part.size) as e:
            places = tile.batch, tile.head, row, first + (e // 2 * 8 + e % 2)
            value = score(part[e] * self.scale, *(Value("to s32", (x,)) for x in places))
            k.map(value * LOG2_E, into=part[e])

    def _weigh(self) -> None:
        """P = S in the type of V, in the registers of an operand A."""
        held = self.s.view(as_operand(self.scores, self.product, (ROWS, self.c.keys)))
        self.k.map(held.to(self.p.element), into=self.weights)

    def _rescale(self) -> None:
        """O times what its rows are multiplied by."""
        for x in self.rows:
            self.k.map(x.out * x.old, into=x.out)

    def _finish_sums(self, tile: _Tile, row: Expr) -> None:
        """The sums of whole rows, their logarithms, and in `old` what the results are multiplied by."""
        k, scale = self.k, self.scale if self.p.plain else 1.0
        for h, (_, _, top, old, zero, total) in enumerate(self.rows):
            for lanes in (1, 2):
                k.do(instr.butterfly("sum", 1), lanes, total)
            k.map(where(total.eq(0.0), 0.0, rcp(total)), into=old)
            if self.p.sums:
                sums = where(total.eq(0.0), -math.inf, (log2(total) + top * scale) * LN_2)
                k.map(sums, into=zero)
                at = row + 8 * h
                with k.If((k.thread % 4).eq(0) & (at < self.m)):
                    k.do(instr.STG[4], self.lse.at(at, tile.of), zero.at(0))

    def _leave(self, tile: _Tile) -> None:
        """O / sum by stmatrix to the consumer's tile, from where TMA stores it."""
        k, group, array = self.k, self.mine, self.arrays["o"]
        thread = k.thread % 128
        self._rescale()
        if not self.c.over:
            with k.If(thread.eq(0)):
                k.bulk_wait(0, read=True)
            self._meet(8, 128)
        matrices = k.get_slice(make_tiled_copy_C("SM90_U32x4_STSM_N", self.product, self.p.element), thread)
        results = matrices.retile(k.map(self.out.to(self.p.element)))
        k.store(results, matrices.partition_D(array.tiles[None, None, group]))
        k.fence_async()
        self._meet(8, 128)
        row = k.let("first_row", tile.row + group * ROWS)
        with k.If(thread.eq(0)):
            for box, line in self._lines("o", group, row, tile.head, tile.batch):
                with k.If(row < self.m):
                    k.tma_store(array.boxes, line, box)
            k.bulk_commit()
            if self.c.over:
                k.bulk_wait(0, read=True)
                k.arrive(self.empty["q"][group])


def row_of(sums: Fragment, h: int) -> Fragment:
    """The accumulators of a thread in one of its two rows."""
    value: Any = modes(sums.layout)[0]
    (_, _, columns), (inner, across, step) = value.shape, value.stride
    return replace(sums, layout=Layout((2, columns), (inner, step)), start=sums.start + h * across)


def least(a: Expr, b: Expr) -> Expr:
    """The smaller one of two."""
    return Select(a < b, a, b)
