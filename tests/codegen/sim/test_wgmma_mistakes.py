"""Mistakes in products of warpgroups: each is caught by name and place, in both schedules."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from layoutalg import ComposedLayout, Layout, make_tiled_mma
from layoutalg import codegen as cg
from layoutalg.arch import SmemDescriptor, encode_descriptor
from layoutalg.codegen.expr import Const, Var
from layoutalg.codegen.instr import LDS, STS, fill
from layoutalg.codegen.program import Do, If, Kernel
from layoutalg.errors import IRError, LayoutAlgError, SimulationError
from tests.tiles import warpgroups as wg
from tests.tiles.edits import Edit, Names, change, drop, edited, moved, operand, when
from tests.tiles.warpgroups import Case, ring, shared_layout

CASE, TILE = Case("f16", "f16", "f32"), shared_layout("128B", "K", "f16", (64, 64))
REGISTERS, WIDE = Case("f16", "f16", "f32", rs=True), Case("f16", "f16", "f32", n=128, b_major="MN")
PRODUCT, TID = "wgmma_m64", Var("tid", 128, "thread")
BOTH = pytest.mark.parametrize("group", ["block", "warp"])


def product(*, poisoned: bool = False) -> Kernel:
    """D = A B in four products on sums that are cleared first, or hold what nobody has written."""
    k, mma = cg.Kernel("product", threads=128), make_tiled_mma(CASE.atom)
    a, b = (k.tensor(name, "f16", (64, 64), (64, 1)) for name in "ab")
    d = k.tensor("d", "f32", (64, 64), (64, 1), writable=True)
    tiles = [k.shared(f"tile_{x}", "f16", TILE) for x in "ab"]
    for source, tile in zip((a, b), tiles, strict=True):
        wg.fill(k, source, tile, "K")
    me, acc = k.get_slice(mma), k.get_slice(mma).fragment_C("acc", (64, 64))
    if poisoned:
        raw = k.shared("raw", "f32", Layout(512))
        with k.Unroll("e", 8) as e:
            k.do(LDS[16], acc.reg.slice(0, e * 4, count=4), raw.at(k.tid * 4))
    else:
        k.clear(acc)
    for instr in (cg.FENCE_PROXY_ASYNC, cg.BAR, cg.WGMMA_FENCE):
        k.do(instr)
    left, right = me.partition_A(tiles[0]), me.partition_B(tiles[1])
    for step in range(4):
        k.mma(mma, acc, left[None, None, step], right[None, None, step])
    k.do(cg.WGMMA_COMMIT)
    k.do(cg.WGMMA_WAIT, 0)
    k.store(acc, me.partition_C(d))
    return k.build()


def run(kernel: Kernel, *edits: Edit, case: Case = CASE, group: str = "block") -> bool:
    """Whether the result is right."""
    (a, b), d = wg.operands(case), wg.result(case)
    args = {"a": a.stored, "b": b.stored, "d": d}
    cg.simulate(edited(kernel, *edits), args, group=group, trace=False)
    return bool((d == wg.expected(a, b)).all())


def clear(v: Any, name: str = "acc[0]", words: int = 32) -> Do:
    return Do(fill(words), (v[name], Const(0)))


def overwrite(v: Any) -> If:
    """A thread stores to the tile of A."""
    return If(v["tid"].eq(0), (Do(STS[4], (v["tile_a[0]"], v["a_v[i]"].reg.slice(0, 0, count=1))),))


def narrow(s: Any, v: Any) -> tuple[Do]:
    """The product of N = 32 on half of the same registers."""
    return (
        Do(cg.find_wgmma("SM90_64x32x16_F32F16F16_SS"), (s.args[0].reg.slice(0, 0, count=16), *s.args[1:])),
    )


DONE = Do(cg.WGMMA_COMMIT, ()), Do(cg.WGMMA_WAIT, (0,))
UNFINISHED = "register acc.* that no wgmma.wait_group has finished"
TOUCHED = r"on acc\[0\], which was read or written since the last wgmma.fence"
UNFENCED = "with no fence.proxy.async behind the write"

MISTAKES: dict[str, tuple[str, *tuple[Edit, ...]]] = {
    "no wgmma.fence before the first product": ("starts a wgmma before any wgmma.fence", drop("wgmma_fence")),
    "the accumulator is cleared behind the fence": (
        TOUCHED, change("wgmma_fence", lambda s, v: (s, clear(v)))
    ),
    "the accumulator is cleared between products, and not fenced again": (
        TOUCHED, change(PRODUCT, lambda s, v: (s, *DONE, clear(v)), 1)
    ),
    "no commit": ("reads register acc.* that no wgmma.commit_group has closed", drop("wgmma_commit")),
    "no wait: the accumulator is read early": (f"reads {UNFINISHED}", drop("wgmma_wait")),
    "the wait leaves one group": (f"reads {UNFINISHED}", operand("wgmma_wait", 0, 1)),
    "the wait stands in front of the commit": (f"reads {UNFINISHED}", moved("wgmma_commit", "wgmma_wait")),
    "the accumulator is written while products run": (
        f"writes {UNFINISHED}", change("wgmma_wait", lambda s, v: (clear(v), s))
    ),
    "stores, and no fence.proxy.async": (UNFENCED, drop("fence_proxy")),
    "fence.proxy.async by half of the threads": (
        f"thread 64 wrote it, {UNFENCED}", when("fence_proxy", lambda v: v["tid"] < 64)
    ),
    "fence.proxy.async in front of a store": (
        UNFENCED, change("block_sync", lambda s, v: (s, overwrite(v), s))
    ),
    "no barrier between the stores and the product": (
        "multiplies byte .* of tile_a: thread .* wrote it, with no .*barrier", drop("block_sync")
    ),
    "a tile is overwritten while products read it": (
        "byte 0 of tile_a: a wgmma of warpgroup 0 read it",
        change("wgmma_commit", lambda s, v: (s, overwrite(v))),
    ),
    "half a tile is filled": ("multiplies byte 0 of tile_b, which nobody has written", drop("sts128", 1)),
    "sums of nothing": (r"multiplies with acc\[0\], which nothing has written", drop("clear128")),
    "another shape on the same registers": (
        r"starts a wgmma on acc\[0\]\[0\]..\+16, which belongs to", change(PRODUCT, narrow, 1)
    ),
    "the tile starts at another place in each thread": (
        "reads tile_a at 16, and the first", operand(PRODUCT, 1, lambda e: e + TID % 8 * 16, 0)
    ),
    "nobody waits until the end": ("a product that it never waits for", drop("wgmma_wait"), drop("stg64")),
    "nobody commits until the end": (
        "a product that it never commits", drop("wgmma_wait"), drop("wgmma_commit"), drop("stg64")
    ),
    "half a warpgroup": (
        "wgmma_fence of a whole warpgroup, threads 0 to 127", when("wgmma_fence", lambda v: v["tid"] < 64)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
@BOTH
def test_a_mistake_is_caught(name: str, group: str) -> None:
    said, *edits = MISTAKES[name]
    with pytest.raises(SimulationError, match=said) as caught:
        run(product(), *edits, group=group)
    assert caught.value.statement


@BOTH
def test_without_a_mistake_it_is_right(group: str) -> None:
    """Uninitialised sums are refused unless they are forgotten; registers of A are free behind the wait."""
    assert run(product(), group=group) and run(product(poisoned=True), operand(PRODUCT, 3, 0, 0), group=group)
    with pytest.raises(SimulationError, match="which holds uninitialised bytes"):
        run(product(poisoned=True), group=group)
    kernel, left = wg.one_block(REGISTERS), partial(clear, name="left[0]", words=4)
    assert run(kernel, change("wgmma_wait", lambda s, v: (s, left(v))), case=REGISTERS, group=group)
    for start, said in (
        (PRODUCT, "writes register left.*, which belongs"),
        ("wgmma_fence", "on left.*, which was read or written since"),
    ):
        with pytest.raises(SimulationError, match=said):
            run(kernel, change(start, lambda s, v: (s, left(v)), 0), case=REGISTERS, group=group)


FORM: dict[str, Any] = {"start_bytes": 0, "lbo_bytes": 16, "sbo_bytes": 1024, "mode": "128B"}


def form(**changed: Any) -> Edit:
    """Another descriptor of B, but for its start."""
    other = encode_descriptor(SmemDescriptor(**{**FORM, **changed}))

    def changed_in(s: Do, _: Names) -> tuple[Do]:
        own = s.args[5]
        assert isinstance(own, int)
        return (Do(s.instr, (*s.args[:5], other | own & 0x3FFF, *s.args[6:])),)

    return change(PRODUCT, changed_in)


WRONG: dict[str, Edit] = {
    "SBO is that of the next mode": form(sbo_bytes=512), "SBO leaves the tile": form(sbo_bytes=2048),
    "SBO and LBO change places": form(sbo_bytes=16, lbo_bytes=1024), "the mode is 64B": form(mode="64B"),
    "the mode is 32B": form(mode="32B"), "there is no swizzle": form(mode="none"),
    "a base offset where the pattern starts aligned": form(base_offset=1),
    "a step along K": operand(PRODUCT, 2, lambda e: (e + 16) % 128), "the major": operand(PRODUCT, 9, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_descriptor_is_named_or_gives_a_wrong_result(name: str) -> None:
    assert run(product(), form())
    try:
        assert not run(product(), WRONG[name])
    except SimulationError as error:
        assert "tile_b" in str(error)


@pytest.mark.parametrize("lbo", [512, 1024])
def test_the_lbo_of_an_mn_major_operand_counts(lbo: int) -> None:
    """B of 128 columns, MN-major 128B: two patterns side by side, LBO apart."""
    assert run(wg.one_block(WIDE), form(lbo_bytes=lbo, sbo_bytes=2048), case=WIDE) is (lbo == 1024)


# --- what is refused before it runs ------------------------------------------------------------------------


def shifted() -> Kernel:
    """A role that starts inside of a warpgroup."""
    k = cg.Kernel("shifted", threads=192)
    with k.roles() as roles:
        with roles.role("producer", 2):
            pass
        with roles.role("consumer", 4):
            k.do(cg.WGMMA_FENCE)
    return k.build()


def test_less_than_a_warpgroup_is_refused_before_anything_is_compiled() -> None:
    few = cg.Kernel("few", threads=96)
    few.do(cg.WGMMA_FENCE)
    half = edited(product(), when("wgmma_fence", lambda v: v["tid"] < 64))
    for kernel in (half, shifted()):
        with pytest.raises(IRError, match="whole warpgroup"):
            cg.to_cuda(kernel)
    for kernel in (few.build(), shifted()):
        with pytest.raises(SimulationError, match="of a whole warpgroup"):
            cg.simulate(kernel, {})


NARROW = ComposedLayout(
    shared_layout("32B", "K", "f16", (64, 64)).outer, 0, Layout(((8, 8), (16, 4)), ((16, 128), (1, 1040)))
)
REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "rows that no mode has": (
        Layout((64, 64), (72, 1)), {},
        r"wgmma.pitch: rows of 16-byte chunks are 144 .*nearest: Sw<3,3,3> o 0 o \(\(8,8\),\(64,1\)\)",
    ),
    "a tile that starts inside a pattern": (TILE, {"align_bytes": 128, "between": 64}, "align_bytes=1024"),
    "stages that are no whole patterns": (NARROW, {"stages": 2}, "stages of"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_that_wgmma_cannot_read_is_refused(name: str) -> None:
    layout, options, said = REFUSED[name]
    k, mma = cg.Kernel("refused", threads=128), make_tiled_mma(CASE.atom)
    me, tile_a = k.get_slice(mma), k.shared("tile_a", "f16", TILE)
    k.shared("between", "f16", Layout(options.pop("between", 8192)))
    tile_b = k.shared("tile_b", "f16", layout, **options)
    tile_b = tile_b[None, None, 0] if "stages" in options else tile_b
    with pytest.raises(LayoutAlgError, match=said):
        k.mma(mma, me.fragment_C("acc", (64, 64)), me.partition_A(tile_a), me.partition_B(tile_b))


# --- rings -------------------------------------------------------------------------------------------------

READ = "loads a box into .*: a wgmma of warpgroup 1 read it"
EARLY = moved("mbarrier_arrive(empty", "wgmma_commit", lambda v: (v["consumer_tid"] % 32).eq(0))
RINGS: dict[str, tuple[str, int, Edit]] = {
    "the stage is released before the products are waited for": (READ, 0, EARLY),
    "the wait leaves the stage that is released": (READ, 0, operand("wgmma_wait", 0, 1, 0)),
    "the wait is one too weak for the lag": (READ, 1, operand("wgmma_wait", 0, 2, 0)),
    "nobody waits until the stage is filled": ("multiplies byte 0 of tile_a", 0, drop("mbarrier_wait(full")),
    "the bytes of one box are not announced": ("bytes", 0, operand("mbarrier_arrive_expect", 1, 64 * 64 * 2)),
}


@pytest.mark.parametrize("name", RINGS)
@BOTH
def test_a_mistake_in_a_ring_is_caught(name: str, group: str) -> None:
    """What reads is a product here; mistakes of the barriers alone are those of all rings."""
    said, lag, edit = RINGS[name]
    (a, b), d = wg.ring_operands(64, 64, 448), np.zeros((64, 64), np.float32)
    args = {"a": a.stored, "b": b.stored, "d": d, "m": 64, "n": 64, "k": 448}
    with pytest.raises(SimulationError, match=said):
        cg.simulate(edited(ring(3, lag=lag, side=64), edit), args, group=group, trace=False)
