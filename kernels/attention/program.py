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
from typing import Any

from layoutalg.algebra import left_inverse, tile_to_shape
from layoutalg.arch import atom_layout
from layoutalg.atoms import TiledMMA, make_tiled_copy_C, make_tiled_mma
from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr, Operand, Select, minus
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, local_tile
from layoutalg.codegen.program import Kernel, Mbarrier
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

    Consumers start their products in `turns`; results leave from where Q was (`over`), or from elsewhere.

    >>> AttentionConfig(2, 128).threads
    384
    """

    consumers: int
    keys: int
    stages: int = 2
    turns: bool = True
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


class _Writer:
    """The parts of the program, and their common state."""

    def __init__(self, p: AttentionProblem, c: AttentionConfig) -> None:
        self.p, self.c = p, c
        notes = [
            "",
            "O = softmax(scale Q K^T) V of each head, and lse, the logarithms of the sums of e^score.",
            f"A block makes {c.rows} rows of O, {ROWS} per warpgroup, and then its next tile;",
            f"keys go by {c.keys} through {c.stages} tiles in shared memory, which one thread fills by TMA.",
            "scale_log2 is the scale times log2(e); group heads of q share one of k and v.",
            "Any number of blocks is right, and any number of heads near each other.",
        ]
        self.k = k = KernelBuilder(f"attention_sm90_{p.element}_d{p.d}", c.threads, notes=notes)
        self.m, self.n = k.param("m", MOST_LENGTH), k.param("n", MOST_LENGTH)
        self.heads, self.batch = k.param("heads", MOST_HEADS), k.param("batch", MOST_HEADS)
        k.require(self.heads * self.batch <= MOST_HEADS)
        self.all_heads = k.let("all_heads", (self.heads * self.batch - 1) % MOST_HEADS + 1)
        self.group, kv_heads = k.param("group", MOST_HEADS), k.param("kv_heads", MOST_HEADS)
        k.require(self.heads.eq(kv_heads * self.group))
        self.near, self.blocks = k.param("near", MOST_HEADS), k.param("blocks", MOST_BLOCKS)
        self.block = k.block(0, self.blocks)
        # of query i the keys j with j + drop < i + reach, and i + skip <= j + back
        limits = [
            ("reach", "drop") if p.right is not None else (),
            ("skip", "back") if p.left is not None else (),
        ]
        self.limit = {x: k.param(x, 2 * MOST_LENGTH, 0) for pair in limits for x in pair}
        self.scale = k.scalar("scale_log2" if p.plain else "scale", "f32")
        self.q, self.load_q, self.q_tile = self._operand("q", self.m, self.heads, ROWS, c.consumers)
        self.kk, self.load_k, self.k_tile = self._operand("k", self.n, kv_heads, c.keys, c.stages)
        self.v, self.load_v, self.v_tile = self._operand("v", self.n, kv_heads, c.keys, c.stages)
        self.o, self.save, self.o_tile = self._operand("o", self.m, self.heads, ROWS, c.consumers, saved=True)
        self.o_tile = self.o_tile or self.q_tile
        if p.sums:
            self.lse = k.tensor("lse", "f32", (self.m, None), (1, self.m), writable=True)
        element = p.element.name.upper()
        self.scores = make_tiled_mma(f"SM90_64x{c.keys}x16_F32{element}{element}_SS")
        self.product = make_tiled_mma(f"SM90_64x{p.d}x16_F32{element}{element}_RS")
        self.full_q, self.empty_q = (
            k.mbarrier("full_q", 1, c.consumers),
            k.mbarrier("empty_q", 1, c.consumers),
        )
        self.full_k, self.empty_k = (
            k.mbarrier("full_k", 1, c.stages),
            k.mbarrier("empty_k", c.consumers, c.stages),
        )
        self.full_v, self.empty_v = (
            k.mbarrier("full_v", 1, c.stages),
            k.mbarrier("empty_v", c.consumers, c.stages),
        )

    def _operand(
        self, name: str, length: Expr, heads: Expr, rows: int, stages: int, *, saved: bool = False
    ) -> Any:
        """A tensor (length, d, head, batch), its map in boxes of a line of `rows`, and its tiles."""
        k, p = self.k, self.p
        multiple = 16 // p.element.nbytes
        steps = [k.param(f"{name}_{x}", MOST_STRIDE, multiple, multiple) for x in ("row", "head", "batch")]
        source = k.tensor(
            name, p.element, (length, p.d, heads, self.batch), (steps[0], 1, *steps[1:]), writable=saved
        )
        tma = k.tensor_map(f"{'save' if saved else 'load'}_{name}", source, (rows, LINE, 1, 1), mode="128B")
        if saved and self.c.over:
            return source, tma, None
        layout = tile_to_shape(atom_layout("Layout_K_SW128_Atom", p.element), (rows, p.d))
        return source, tma, k.shared(f"{name}_tile", p.element, layout, stages=stages)

    def write(self) -> Kernel:
        """The whole program."""
        k, c = self.k, self.c
        k.init(self.full_q, self.empty_q, self.full_k, self.empty_k, self.full_v, self.empty_v)
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
        steps = k.fragment("steps", "u32", (1,)) if self.limit else None
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
            span = self._span(row)
            yield _Tile(turn, row, of, head, batch, before, *span)
            if steps is not None:
                k.map(before + span[1], into=steps)

    def _span(self, row: Expr) -> tuple[Expr, Expr, Expr, Expr, Expr]:
        """The last tile of keys that a tile of queries walks, their number, and how many behind the last one
        have a mask for their ends, none, and one for their beginnings."""
        k, keys = self.k, self.c.keys
        end: Expr = self.n
        first: Expr = Const(0)
        right: Expr = Const(0)
        left: Expr = Const(0)
        clean: Expr | None = None
        clean_first: Expr | None = None
        if self.p.right is not None:
            ahead = row + self.limit["reach"]
            end = least(self.n, minus(ahead + (self.c.rows - 1), self.limit["drop"]))
            clean = minus(ahead, self.limit["drop"]) // keys
        if self.p.left is not None:
            first = minus(row + self.limit["skip"], self.limit["back"]) // keys
            clean_first = (
                minus(row + (self.c.rows - 1) + self.limit["skip"], self.limit["back"]) + (keys - 1)
            ) // keys
        first = k.let("first", first) if self.p.left is not None else first
        count = k.let("count", minus((end + (keys - 1)) // keys, first + 1) + 1)
        last = k.let("last", first + (count - 1))
        if clean is not None:
            right = k.let("right", minus(last, k.let("clean", most(clean, first))))
        if clean_first is not None:
            left = k.let("left", minus(least(clean_first, minus(last, right)), first))
        return last, count, right, minus(count, right + left + 1), left

    def _at(self, nth: Expr) -> tuple[Expr, Expr]:
        """The stage of a tile of keys, and the parity of the phase in which it is full."""
        stages = self.c.stages
        count = self.k.let(self.k.fresh("nth"), nth)
        return count % stages, count // stages % 2

    # --- the producer --------------------------------------------------------------------------------------

    def _produce(self) -> None:
        k, c = self.k, self.c
        with self._tiles() as tile:
            kv_head = k.let("kv_head", tile.head // self.group)

            def load(
                which: Any, ring: Tensor, source: Tensor, full: Mbarrier, empty: Mbarrier, nth: Expr
            ) -> None:
                stage, parity = self._at(tile.before + nth)
                k.wait(empty[stage], 1 - parity)
                at = (minus(tile.last, nth) * c.keys, kv_head, tile.batch)
                self._load(which, source, ring[None, None, stage], full[stage], *at)

            with k.For("j", tile.count) as j:
                load(self.load_k, self.k_tile, self.kk, self.full_k, self.empty_k, j)
                with k.If(j.eq(0)):  # behind K, whose stages are free before
                    for i in range(c.consumers):
                        k.wait(self.empty_q[i], 1 - tile.turn % 2)
                        at = (tile.row + i * ROWS, tile.head, tile.batch)
                        self._load(self.load_q, self.q, self.q_tile[None, None, i], self.full_q[i], *at)
                with k.Else():
                    load(self.load_v, self.v_tile, self.v, self.full_v, self.empty_v, minus(j, 1))
            load(self.load_v, self.v_tile, self.v, self.full_v, self.empty_v, tile.count - 1)

    def _load(
        self, which: Any, source: Tensor, tile: Tensor, full: Any, row: Expr, head: Expr, batch: Expr
    ) -> None:
        """Start the copies of a tile, line by line."""
        k, rows = self.k, which.box[1]
        k.expect(full, rows * self.p.d * self.p.element.nbytes)
        for i in range(self.p.d // LINE):
            box = local_tile(source, (rows, LINE, 1, 1), (0, i, 0, 0)).moved(row, 0, head, batch)
            k.tma_load(which, box, local_tile(tile, (rows, LINE), (0, i)), full)

    # --- the consumers -------------------------------------------------------------------------------------

    def _consume(self) -> None:
        k, c, p = self.k, self.c, self.p
        self.mine = group = k.let("warpgroup", k.thread // 128)
        thread = k.thread % 128
        one, two = k.get_slice(self.scores, thread), k.get_slice(self.product, thread)
        self.s = one.fragment_C("s", (ROWS, c.keys))
        self.out = two.fragment_C("out", (ROWS, p.d))
        self.weights = two.fragment_A("weights", (ROWS, c.keys))
        self.top, self.old, self.zero, self.total = (
            k.fragment(x, "f32", (2,), values=1) for x in ("top", "old", "zero", "total")
        )
        self.q_part = one.partition_A(self.q_tile[None, None, group])
        self.slices = one, two
        if c.turns:
            self._turn(group, c.consumers - 1, arrive=True)

        def start(turn: Expr, before: Expr) -> None:  # the first scores, under which the tile is found
            stage, parity = self._at(before)
            k.wait(self.full_q[group], turn % 2)
            k.wait(self.full_k[stage], parity)
            k.do(instr.WGMMA_FENCE)
            self._start_scores(stage)

        with self._tiles(start) as tile:
            row = k.let("my_row", tile.row + group * ROWS + thread // 32 * 16 + thread % 32 // 4)
            stage, parity = self._at(tile.before)
            k.warpgroup_wait(0, self.s)
            self._release(self.empty_k[stage])
            for h in range(2):
                k.map(-math.inf, into=self.top[h])
                k.map(0.0, into=self.total[h])
            self._softmax(tile, row, tile.last, masked=True)
            k.wait(self.full_v[stage], parity)
            self._weigh()
            before: Expr = Const(1)
            for name, count, masked in (
                ("right", tile.right, True),
                ("inner", tile.clean, False),
                ("left", tile.left, True),
            ):
                if count == Const(0):
                    continue
                with k.For(f"{name}_tile", count) as j:
                    self._step(tile, row, k.let(k.fresh("step"), before + j), masked=masked)
                before = before + count
            if not c.over:
                self._release(self.empty_q[group])
            stage, _ = self._at(tile.before + (tile.count - 1))
            k.do(instr.WGMMA_FENCE)
            self._start_product(stage, minus(tile.count, 1))
            self._finish_sums(tile, row)
            k.warpgroup_wait(0, self.out, self.weights)
            self._release(self.empty_v[stage])
            self._leave(tile, group)
        if c.turns:
            self._turn(group, 0)
        with k.If(thread.eq(0)):
            k.bulk_wait(0, read=True)

    def _step(self, tile: _Tile, row: Expr, j: Expr, *, masked: bool) -> None:
        """Scores of tile j beside the product of the one before, and softmax under it."""
        k, c, group = self.k, self.c, self.mine
        (stage, parity), (older, _) = self._at(tile.before + j), self._at(tile.before + minus(j, 1))
        k.wait(self.full_k[stage], parity)
        if c.turns:
            self._turn(group)
        k.do(instr.WGMMA_FENCE)
        self._start_scores(stage)
        self._start_product(older, minus(j, 1))
        if c.turns:
            self._turn(group, arrive=True)
        k.warpgroup_wait(1, self.s)
        self._release(self.empty_k[stage])
        self._softmax(tile, row, minus(tile.last, j), masked=masked)
        # a wait, since its branches keep ptxas from waiting for the product before it computes the weights
        k.wait(self.full_v[stage], parity)
        k.warpgroup_wait(0, self.out, self.weights)
        self._release(self.empty_v[older])
        for h in range(2):
            part = row_of(self.out, h)
            k.map(part * self.old[h], into=part)
        self._weigh()

    def _turn(self, group: Expr, only: int | None = None, *, arrive: bool = False) -> None:
        """The consumer waits for its turn, or gives the turn to the next one; of one consumer `only`, it."""
        k, c = self.k, self.c
        for i in range(c.consumers) if only is None else (only,):
            with k.If(group.eq(i)):
                if arrive:
                    k.do(instr.NAMED_ARRIVE, 1 + (i + 1) % c.consumers, 256)
                else:
                    k.named_barrier(1 + i, 256)

    def _release(self, bar: Any) -> None:
        with self.k.If((self.k.thread % 128).eq(0)):
            self.k.arrive(bar)

    def _start_scores(self, stage: Expr) -> None:
        """S = Q K^T."""
        right = self.slices[0].partition_B(self.k_tile[None, None, stage])
        self.k.mma(self.scores, self.s, self.q_part, right, accumulate=0)
        self.k.do(instr.WGMMA_COMMIT)

    def _start_product(self, stage: Expr, accumulate: Operand) -> None:
        """O += P V, or without `accumulate` O = P V."""
        right = self.slices[1].partition_B(self.v_tile[None, None, stage].transposed)
        self.k.mma(self.product, self.out, self.weights, right, accumulate=accumulate)
        self.k.do(instr.WGMMA_COMMIT)

    def _softmax(self, tile: _Tile, row: Expr, number: Expr, *, masked: bool) -> None:
        """S = exp2(S - the largest of the row so far), of tile `number` of the keys; the sums of rows, and
        `old`, by which what was summed before is multiplied."""
        k, p = self.k, self.p
        first = k.let(k.fresh("first_key"), number * self.c.keys + k.thread % 4 * 2)
        for h in range(2):
            part, top, old, zero, total = (
                row_of(self.s, h),
                self.top[h],
                self.old[h],
                self.zero[h],
                self.total[h],
            )
            if not p.plain:
                self._score(part, tile, row + 8 * h, first)
            if masked:  # without sides only the last keys may be cut
                cut = self.n < (number + 1) * self.c.keys
                with nullcontext() if self.limit else k.If(cut):
                    self._mask(part, row + 8 * h, first)
            k.map(top, into=old)
            pairs = part.size // 2
            with k.Unroll(k.fresh("e"), pairs) as e:
                k.map(maximum(top, maximum(part[2 * e], part[2 * e + 1])), into=top)
            for lanes in (1, 2):
                k.do(instr.butterfly("max", 1), lanes, top)
            scale = self.scale if p.plain else 1.0
            k.map(where(top.eq(-math.inf), 0.0, top * scale), into=zero)
            k.map(exp2(fma(old, scale, -zero)) if p.plain else exp2(old - zero), into=old)
            k.map(exp2(fma(part, scale, -zero)) if p.plain else exp2(part - zero), into=part)
            k.map(total * old, into=total)
            with k.Unroll(k.fresh("e"), pairs) as e:
                k.map(total + (part[2 * e] + part[2 * e + 1]), into=total)

    def _mask(self, part: Fragment, row: Expr, first: Expr) -> None:
        """The scores of a row that are -inf: of keys that there are not, and those that it does not see."""
        k, limit = self.k, self.limit
        end: Expr = self.n
        if self.p.right is not None:
            end = least(end, minus(row + limit["reach"], limit["drop"]))
        end = k.let(k.fresh("end"), minus(end, first))
        with k.Unroll(k.fresh("e"), part.size) as e:
            seen = e // 2 * 8 + e % 2 < end
            k.map(where(seen, part[e], -math.inf), into=part[e])
        if self.p.left is not None:
            begin = k.let(k.fresh("begin"), minus(minus(row + limit["skip"], limit["back"]), first))
            with k.Unroll(k.fresh("e"), part.size) as e:
                k.map(where(e // 2 * 8 + e % 2 < begin, -math.inf, part[e]), into=part[e])

    def _score(self, part: Fragment, tile: _Tile, row: Expr, first: Expr) -> None:
        """The user's function of each score of a row, in units of the exponent of 2."""
        k = self.k
        score = self.p.score or (lambda s, *_: s)
        with k.Unroll(k.fresh("e"), part.size) as e:
            places = tile.batch, tile.head, row, first + (e // 2 * 8 + e % 2)
            value = score(part[e] * self.scale, *(Value("to s32", (x,)) for x in places))
            k.map(value * LOG2_E, into=part[e])

    def _weigh(self) -> None:
        """P = S in the type of V, in the registers of an operand A."""
        held = self.s.view(as_operand(self.scores, self.product, (ROWS, self.c.keys)))
        self.k.map(held.to(self.p.element), into=self.weights)

    def _finish_sums(self, tile: _Tile, row: Expr) -> None:
        """The sums of whole rows, their logarithms, and in `old` what the results are multiplied by."""
        k = self.k
        for h in range(2):
            total = self.total[h]
            for lanes in (1, 2):
                k.do(instr.butterfly("sum", 1), lanes, total)
            k.map(where(total.eq(0.0), 0.0, rcp(total)), into=self.old[h])
            if not self.p.sums:
                continue
            scale, at = self.scale if self.p.plain else 1.0, row + 8 * h
            sums = where(total.eq(0.0), -math.inf, (log2(total) + self.top[h] * scale) * LN_2)
            k.map(sums, into=self.zero[h])
            with k.If((k.thread % 4).eq(0) & (at < self.m)):
                k.do(instr.STG[4], self.lse.at(at, tile.of), self.zero.at(h))

    def _leave(self, tile: _Tile, group: Expr) -> None:
        """O / sum by stmatrix to the consumer's tile, from where TMA stores it."""
        k, p = self.k, self.p
        thread = k.thread % 128
        for h in range(2):
            part = row_of(self.out, h)
            k.map(part * self.old[h], into=part)
        if not self.c.over:
            with k.If(thread.eq(0)):
                k.bulk_wait(0, read=True)
            self._sync(group)
        matrices = k.get_slice(make_tiled_copy_C("SM90_U32x4_STSM_N", self.product, p.element), thread)
        mine = self.o_tile[None, None, group]
        k.store(matrices.retile(k.map(self.out.to(p.element))), matrices.partition_D(mine))
        k.fence_async()
        self._sync(group)
        row = k.let("first_row", tile.row + group * ROWS)
        with k.If(thread.eq(0)):
            for i in range(p.d // LINE):
                box = local_tile(self.o, (ROWS, LINE, 1, 1), (0, i, 0, 0)).moved(
                    row, 0, tile.head, tile.batch
                )
                with k.If(row < self.m):
                    k.tma_store(self.save, local_tile(mine, (ROWS, LINE), (0, i)), box)
            k.bulk_commit()
            if self.c.over:
                k.bulk_wait(0, read=True)
                k.arrive(self.empty_q[group])

    def _sync(self, group: Expr) -> None:
        """The threads of a consumer meet."""
        for i in range(self.c.consumers):
            with self.k.If(group.eq(i)):
                self.k.named_barrier(8 + i, 128)


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile of queries: which of the block's, its first row, head, batch; the steps of keys before it; its
    last tile of keys, their number, and how many of them there are of each kind behind the last."""

    turn: Expr
    row: Expr
    of: Expr
    head: Expr
    batch: Expr
    before: Expr
    last: Expr
    count: Expr
    right: Expr
    clean: Expr
    left: Expr


def row_of(sums: Fragment, h: int) -> Fragment:
    """The accumulators of a thread in one of its two rows."""
    value: Any = modes(sums.layout)[0]
    (_, _, columns), (inner, across, step) = value.shape, value.stride
    return replace(sums, layout=Layout((2, columns), (inner, step)), start=sums.start + h * across)


def least(a: Expr, b: Expr) -> Expr:
    """The smaller one of two."""
    return Select(a < b, a, b)


def most(a: Expr, b: Expr) -> Expr:
    """The larger one of two."""
    return Select(a < b, b, a)
