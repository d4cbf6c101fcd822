"""Mistakes in products of warpgroups: each is caught by name and place, in both schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from layoutalg import ComposedLayout, Layout, Swizzle, make_tiled_mma
from layoutalg import codegen as cg
from layoutalg.arch import SmemDescriptor, encode_descriptor
from layoutalg.codegen.instr import LDS, STS, WARPGROUP, fill
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, Kernel
from layoutalg.errors import AlignmentError, IRError, ShapeError, SimulationError, UnsupportedError
from tests.tiles import warpgroups as programs
from tests.tiles.edits import Edit, change, count, drop, edited, moved, operand
from tests.tiles.warpgroups import Case, expected, multicast, operands, result, ring, shared_layout

CASE = Case("f16", "f16", "f32", n=64)
FORM: dict[str, Any] = {"start_bytes": 0, "lbo_bytes": 16, "sbo_bytes": 1024, "mode": "128B"}


@dataclass
class Parts:
    """What the steps of a program work on."""

    k: KernelBuilder
    tile_a: Any
    tile_b: Any
    acc: Any
    left: Any
    right: Any
    mma: Any

    def start(self, steps: slice = slice(None)) -> None:
        """The products of the steps along K."""
        for step in range(4)[steps]:
            self.k.mma(self.mma, self.acc, self.left[None, None, step], self.right[None, None, step])


STEPS: dict[str, Callable[[Parts], None]] = {
    "clear": lambda p: p.k.clear(p.acc), "proxy": lambda p: p.k.do(cg.FENCE_PROXY_ASYNC),
    "barrier": lambda p: p.k.do(cg.BAR), "fence": lambda p: p.k.do(cg.WGMMA_FENCE),
    "start": lambda p: p.start(), "commit": lambda p: p.k.do(cg.WGMMA_COMMIT),
    "wait": lambda p: p.k.do(cg.WGMMA_WAIT, 0),
}  # fmt: skip
"""What a right program does between filling its tiles and storing its result."""


def program(threads: int = 128, *, filled: bool = True, **changed: Callable[[Parts], None] | None) -> Kernel:
    """A product whose steps are `changed`, or left out where None."""
    k = cg.Kernel("mistake", threads=threads)
    m, n, depth = 64, CASE.n, CASE.k
    mma = make_tiled_mma(CASE.atom)
    a, b = k.tensor("a", "f16", (m, depth), (depth, 1)), k.tensor("b", "f16", (n, depth), (depth, 1))
    d = k.tensor("d", "f32", (m, n), (n, 1), writable=True)
    tiles = [k.shared(f"tile_{x}", "f16", shared_layout("128B", "K", "f16", (64, depth))) for x in "ab"]
    programs.fill(k, a, tiles[0], "K")
    if filled:
        programs.fill(k, b, tiles[1], "K")
    me = k.get_slice(mma, k.tid % WARPGROUP)
    acc = me.fragment_C("acc", (m, n))
    parts = Parts(k, tiles[0], tiles[1], acc, me.partition_A(tiles[0]), me.partition_B(tiles[1]), mma)
    for step in {**STEPS, **changed}.values():
        if step is not None:
            step(parts)
    with k.If(k.tid < WARPGROUP):
        k.store(acc, me.partition_C(d))
    return k.build()


def run(kernel: Kernel, group: str = "block") -> bool:
    """Whether the result is right."""
    (a, b), d = operands(CASE), result(CASE)
    cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, group=group, trace=False)
    return bool((d == expected(a, b)).all())


def test_without_a_mistake_it_is_right() -> None:
    assert run(program()) and run(program(), "warp")


def both(*steps: Callable[[Parts], None]) -> Callable[[Parts], None]:
    """One step after the other."""

    def all_of(p: Parts) -> None:
        for step in steps:
            step(p)

    return all_of


def overwrite(p: Parts) -> None:
    """A thread stores to the tile of A."""
    word = p.k.reg(p.k.fresh("word"), 1)
    p.k.do(fill(1), word, 7)
    with p.k.If(p.k.tid.eq(0)):
        p.k.do(STS[4], p.tile_a.at(0, 0), word)


def first_half(p: Parts) -> None:
    """Two steps along K."""
    p.start(slice(0, 2))


def second_half(p: Parts) -> None:
    """The other two."""
    p.start(slice(2, 4))


def other_shape(p: Parts) -> None:
    """Two products of N = 64, then one of N = 32 on half of the same registers."""
    p.start(slice(0, 1))
    wide = p.acc.reg.slice(0, 0, count=32)
    narrow = p.acc.reg.slice(0, 0, count=16)
    form = encode_descriptor(SmemDescriptor(**FORM))
    for words, n in ((wide, 64), (narrow, 32)):
        instr = cg.find_wgmma(f"SM90_64x{n}x16_F32F16F16_SS")
        p.k.do(instr, words, p.tile_a.at(0, 0), p.tile_b.at(0, 0), 1, form, form, 1, 1, 0, 0)


def only_half(step: Callable[[Parts], None]) -> Callable[[Parts], None]:
    def half(p: Parts) -> None:
        with p.k.If(p.k.tid < 64):
            step(p)

    return half


def per_lane(p: Parts) -> None:
    """The descriptor's start depends on the thread."""
    form = encode_descriptor(SmemDescriptor(**FORM))
    at = p.tile_a.at(p.k.tid % 8 * 8, 0)
    p.k.do(cg.find_wgmma(CASE.atom), p.acc[None, 0, 0], at, p.tile_b.at(0, 0), 1, form, form, 1, 1, 0, 0)


_UNCLOSED = "reads register acc.* that no wgmma.commit_group has closed"
_UNFINISHED = "register acc.* that no wgmma.wait_group has finished"
_TOUCHED = r"on acc\[0\], which was read or written since the last wgmma.fence"
_UNFENCED = "with no fence.proxy.async behind the write"

MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no wgmma.fence before the first product": ({"fence": None}, "starts a wgmma before any wgmma.fence"),
    "the accumulator is cleared behind the fence": (
        {"clear": None, "fence": both(STEPS["fence"], STEPS["clear"])}, _TOUCHED
    ),
    "the accumulator is cleared between products, and not fenced again": (
        {"start": both(first_half, STEPS["commit"], STEPS["wait"], STEPS["clear"], second_half)}, _TOUCHED
    ),
    "no commit": ({"commit": None}, _UNCLOSED),
    "no wait: the accumulator is read early": ({"wait": None}, f"reads {_UNFINISHED}"),
    "the wait leaves one group": ({"wait": lambda p: p.k.do(cg.WGMMA_WAIT, 1)}, f"reads {_UNFINISHED}"),
    "the wait stands in front of the commit": (
        {"commit": STEPS["wait"], "wait": STEPS["commit"]}, f"reads {_UNFINISHED}"
    ),
    "the accumulator is written while products run": (
        {"wait": both(STEPS["clear"], STEPS["wait"])}, f"writes {_UNFINISHED}"
    ),
    "stores, and no fence.proxy.async": ({"proxy": None}, _UNFENCED),
    "fence.proxy.async by half of the threads": (
        {"proxy": only_half(STEPS["proxy"])}, f"thread 64 wrote it, {_UNFENCED}"
    ),
    "fence.proxy.async in front of a store": (
        {"proxy": both(STEPS["proxy"], STEPS["barrier"], overwrite)}, _UNFENCED
    ),
    "no barrier between the stores and the product": (
        {"barrier": None}, "multiplies byte .* of tile_a: thread .* wrote it, with no .*barrier in between"
    ),
    "a tile is overwritten while products read it": (
        {"commit": both(STEPS["commit"], overwrite)}, "byte 0 of tile_a: a wgmma of warpgroup 0 read it"
    ),
    "half a tile is filled": ({"filled": False}, "multiplies byte 0 of tile_b, which nobody has written"),
    "sums of nothing": ({"clear": None}, r"multiplies with acc\[0\], which nothing has written"),
    "another shape on the same registers": (
        {"start": other_shape}, r"starts a wgmma on acc\[0\]\[0\]..\+16, which belongs to"
    ),
    "the tile starts at another place in each thread": (
        {"start": per_lane}, "reads tile_a at 1024, and the first"
    ),
}  # fmt: skip
"""By name: the steps that are wrong, and what is said."""


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("group", ["block", "warp"])
def test_a_mistake_is_caught(name: str, group: str) -> None:
    changed, said = MISTAKES[name]
    with pytest.raises(SimulationError, match=said) as caught:
        run(program(**changed), group)
    assert caught.value.statement


def poisoned(p: Parts) -> None:
    """The accumulators are what lies in shared memory that nobody has written."""
    raw = p.k.shared("raw", "f32", Layout(WARPGROUP * 4))
    with p.k.Unroll("e", p.acc.reg.shape[-1] // 4) as e:
        p.k.do(LDS[16], p.acc.reg.slice(0, e * 4, count=4), raw.at(p.k.tid % WARPGROUP * 4))


def test_uninitialised_accumulators_are_refused_unless_they_are_forgotten() -> None:
    with pytest.raises(SimulationError, match="which holds uninitialised bytes"):
        run(program(clear=poisoned))

    def from_zero(p: Parts) -> None:
        p.k.mma(p.mma, p.acc, p.left, p.right, accumulate=0)

    assert run(program(clear=poisoned, start=from_zero))


# --- descriptors -------------------------------------------------------------------------------------------

WRONG: dict[str, dict[str, Any]] = {
    "SBO is that of the next mode": {"sbo_bytes": 512}, "SBO leaves the tile": {"sbo_bytes": 2048},
    "SBO and LBO change places": {"sbo_bytes": 16, "lbo_bytes": 1024}, "the mode is 64B": {"mode": "64B"},
    "the mode is 32B": {"mode": "32B"}, "there is no swizzle": {"mode": "none"},
    "a base offset where the pattern starts aligned": {"base_offset": 1}, "a step along K": {"offset": 8},
    "the major": {"b_mn": 1},
}  # fmt: skip


def described(*, b_mn: int = 0, offset: int = 0, **changed: Any) -> Kernel:
    """The product with a descriptor of B written by hand, from element `offset` of a row on."""

    def start(p: Parts) -> None:
        forms = [encode_descriptor(SmemDescriptor(**x)) for x in (FORM, {**FORM, **changed})]
        for step in range(4):
            at = p.tile_a.at(0, 16 * step), p.tile_b.at(0, (16 * step + offset) % 64)
            p.k.do(cg.find_wgmma(CASE.atom), p.acc[None, 0, 0], *at, 1, *forms, 1, 1, 0, b_mn)

    return program(start=start)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_descriptor_is_named_or_gives_a_wrong_result(name: str) -> None:
    assert run(described())
    try:
        assert not run(described(**WRONG[name]))
    except SimulationError as error:
        assert "tile_b" in str(error)


def test_the_lbo_of_an_mn_major_operand_counts() -> None:
    """B of 128 columns, MN-major 128B: two patterns side by side, LBO apart."""
    case, layout = Case("f16", "f16", "f32", n=128, b_major="MN"), Layout(((64, 2), 64), ((1, 4096), 64))
    for lbo, right in ((1024, False), (8192, True)):
        k = cg.Kernel("wide", threads=128)
        a, b = k.tensor("a", "f16", (64, 64), (64, 1)), k.tensor("b", "f16", (128, 64), (1, 128))
        d = k.tensor("d", "f32", (64, 128), (128, 1), writable=True)
        tile_a = k.shared("tile_a", "f16", shared_layout("128B", "K", "f16", (64, 64)))
        tile_b = k.shared("tile_b", "f16", ComposedLayout(Swizzle(3, 3, 3), 0, layout))
        programs.fill(k, a, tile_a, "K")
        programs.fill(k, b, tile_b, "MN")
        me = k.get_slice(make_tiled_mma(case.atom))
        acc = me.fragment_C("acc", (64, 128))
        for name in ("proxy", "barrier", "fence"):
            STEPS[name](Parts(k, tile_a, tile_b, acc, None, None, None))
        forms = [encode_descriptor(SmemDescriptor(**{**FORM, "lbo_bytes": x})) for x in (16, lbo)]
        for step in range(4):
            at = tile_a.at(0, 16 * step), tile_b.at(0, 16 * step)
            k.do(cg.find_wgmma(case.atom), acc[None, 0, 0], *at, int(step > 0), *forms, 1, 1, 0, 1)
        k.do(cg.WGMMA_COMMIT)
        k.warpgroup_wait(0, acc)
        k.store(acc, me.partition_C(d))
        x, y = operands(case)
        out = result(case)
        cg.simulate(k.build(), {"a": x.stored, "b": y.stored, "d": out}, trace=False)
        assert bool((out == expected(x, y)).all()) is right


# --- who executes ------------------------------------------------------------------------------------------


def test_half_a_warpgroup_is_refused_before_anything_is_compiled() -> None:
    kernel = program(fence=only_half(STEPS["fence"]))
    with pytest.raises(IRError, match="wgmma_fence is of a whole warpgroup"):
        cg.to_cuda(kernel)
    with pytest.raises(SimulationError, match="wgmma_fence of a whole warpgroup, threads 0 to 127"):
        run(kernel)


def test_a_block_of_three_warps_is_refused() -> None:
    k = cg.Kernel("few", threads=96)
    k.do(cg.WGMMA_FENCE)
    with pytest.raises(SimulationError, match="threads 0 to 127, of which not all"):
        cg.simulate(k.build(), {})


def test_a_role_that_starts_inside_a_warpgroup_is_refused() -> None:
    k = cg.Kernel("shifted", threads=192)
    with k.roles() as roles:
        with roles.role("producer", 2):
            pass
        with roles.role("consumer", 4):
            k.do(cg.WGMMA_FENCE)
    kernel = k.build()
    with pytest.raises(IRError, match="whole warpgroup"):
        cg.to_cuda(kernel)
    with pytest.raises(SimulationError, match="of a whole warpgroup"):
        cg.simulate(kernel, {})


def test_a_product_that_nobody_waits_for_is_found_at_the_end() -> None:
    def without_store(commit: bool) -> Kernel:
        changed: dict[str, Any] = {"wait": None} if commit else {"wait": None, "commit": None}
        kernel = program(**changed)
        return replace(kernel, body=kernel.body[:-1])

    for commit, said in ((True, "never waits for"), (False, "never commits")):
        with pytest.raises(SimulationError, match=f"has started a product that it {said}"):
            run(without_store(commit))


# --- A in registers ----------------------------------------------------------------------------------------


def from_registers(*, wait_first: bool = False, load_late: bool = False) -> Kernel:
    """Two products whose A comes from registers, which are loaded again in between."""
    k, case = cg.Kernel("registers", threads=128), Case("f16", "f16", "f32", rs=True)
    mma, me = make_tiled_mma(case.atom), k.get_slice(make_tiled_mma(case.atom))
    a, b = k.tensor("a", "f16", (64, 64), (64, 1)), k.tensor("b", "f16", (64, 64), (64, 1))
    d = k.tensor("d", "f32", (64, 64), (64, 1), writable=True)
    tile_b = k.shared("tile_b", "f16", shared_layout("128B", "K", "f16", (64, 64)))
    programs.fill(k, b, tile_b, "K")
    k.do(cg.FENCE_PROXY_ASYNC)
    k.do(cg.BAR)
    left, acc = me.fragment_A("left", (64, 16)), me.fragment_C("acc", (64, 64))
    parts, right = me.partition_A(a), me.partition_B(tile_b)
    for step in range(4):
        if wait_first:
            k.warpgroup_wait(0, left)
        if load_late:
            k.do(cg.WGMMA_FENCE)
        k.load(parts[None, None, step], into=left[None, None, 0])
        if not load_late:
            k.do(cg.WGMMA_FENCE)
        k.mma(mma, acc, left[None, None, 0], right[None, None, step], accumulate=int(step > 0))
        k.do(cg.WGMMA_COMMIT)
    k.warpgroup_wait(0, acc)
    k.store(acc, me.partition_C(d))
    return k.build()


def test_registers_of_a_are_free_behind_the_wait() -> None:
    assert run(from_registers(wait_first=True)) and run(from_registers(wait_first=True), "warp")
    assert cg.compile(from_registers(wait_first=True)).spill_bytes == 0


def test_registers_of_a_that_are_loaded_while_products_read_them() -> None:
    with pytest.raises(SimulationError, match=r"writes register left.* no wgmma.wait_group has finished"):
        run(from_registers())


def test_registers_of_a_that_are_loaded_behind_the_fence() -> None:
    with pytest.raises(SimulationError, match=r"on left.*, which was read or written since"):
        run(from_registers(wait_first=True, load_late=True))


# --- operands that k.mma refuses ---------------------------------------------------------------------------


def refused(layout: Any, element: str = "f16", **options: Any) -> Any:
    """What k.mma raises for B in this layout, of 64 x 64."""
    k = cg.Kernel("refused", threads=128)
    mma = make_tiled_mma("SM90_64x64x16_F32F16F16_SS")
    me = k.get_slice(mma)
    tile_a = k.shared("tile_a", "f16", shared_layout("128B", "K", "f16", (64, 64)))
    if "between" in options:
        k.shared("between", "f16", Layout(options.pop("between")))
    tile_b = k.shared("tile_b", element, layout, **options)
    tile_b = tile_b[None, None, 0] if "stages" in options else tile_b
    with pytest.raises((ShapeError, AlignmentError, UnsupportedError)) as caught:
        k.mma(mma, me.fragment_C("acc", (64, 64)), me.partition_A(tile_a), me.partition_B(tile_b))
    return caught.value


def test_a_layout_that_wgmma_cannot_read_is_refused_with_the_nearest() -> None:
    said = str(refused(Layout((64, 64), (72, 1))))
    assert "wgmma.pitch: rows of 16-byte chunks are 144 bytes apart" in said
    assert "nearest: Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))" in said


def test_a_tile_that_starts_inside_a_pattern_is_refused() -> None:
    layout = shared_layout("128B", "K", "f16", (64, 64))
    error = refused(layout, align_bytes=128, between=64)
    assert isinstance(error, AlignmentError) and "align_bytes=1024" in str(error)


def test_stages_that_are_no_whole_patterns_are_refused() -> None:
    layout = shared_layout("32B", "K", "f16", (64, 64))
    narrow = ComposedLayout(layout.outer, 0, Layout(((8, 8), (16, 4)), ((16, 128), (1, 1040))))
    assert "stages of" in str(refused(narrow, stages=2))


# --- rings -------------------------------------------------------------------------------------------------

READ = "loads a box into .*: a wgmma of warpgroup 1 read it"
RINGS: dict[str, tuple[str, Kernel, tuple[Edit, ...]]] = {
    "the stage is released before the products are waited for": (
        READ,
        ring(3, side=64),
        (moved("mbarrier_arrive(empty", "wgmma_commit", lambda v: (v["consumer_tid"] % 32).eq(0)),),
    ),
    "the wait leaves the stage that is released": (READ, ring(3, side=64), (operand("wgmma_wait", 0, 1, 0),)),
    "the wait is one too weak for the lag": (
        READ, ring(3, lag=1, side=64), (operand("wgmma_wait", 0, 2, 0),)
    ),
    "nobody waits until the stage is filled": (
        "multiplies byte 0 of tile_a", ring(3, side=64), (drop("mbarrier_wait(full"),)
    ),
    "nobody waits until the stage is empty": (
        "full.0., whose phase 0 has all", ring(3, side=64), (drop("mbarrier_wait(empty"),)
    ),
    "the barrier counts more arrivals than there are": ("deadlock", ring(3, side=64), (count("empty", 5),)),
    "the bytes of one box are not announced": (
        "bytes", ring(3, side=64), (operand("mbarrier_arrive_expect", 1, 64 * 64 * 2),)
    ),
    "a stage is empty when the own consumers say so": (
        "loads a box into byte .* of tile_b: the copy for full",
        multicast(),
        (
            change("mbarrier_arrive_remote", lambda s, v: (Do(s.instr, (s.args[0], v["block_x"] % 2)),), 0),
            drop("mbarrier_arrive_remote", 1),
            count("empty", 2),
        ),
    ),
    "a block leaves while its peer may write to it": (
        "may leave while thread .* touches its shared memory",
        multicast(),
        (drop("cluster_arrive()"), drop("cluster_wait", 1)),
    ),
    "the peer's half is not announced": (
        "of tile_b, which nobody has written|24576 were announced",
        multicast(),
        (operand("mbarrier_arrive_expect", 1, 24576),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("group", ["block", "warp"])
def test_a_mistake_in_a_ring_is_caught(name: str, group: str) -> None:
    said, right, edits = RINGS[name]
    m, n, depth = (256, 128, 448) if right.cluster[0] > 1 else (64, 64, 448)
    (a, b), d = programs.ring_operands(m, n, depth), np.zeros((m, n), np.float32)
    args = {"a": a.stored, "b": b.stored, "d": d, "m": m, "n": n, "k": depth}
    with pytest.raises(SimulationError, match=said):
        cg.simulate(edited(right, *edits), args, group=group, trace=False)
