"""tile_product, tile_epilogue: tiles are right, without conflicts, or refused with the nearest legal one."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.codegen.program import lower, printed
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from tests.draws.tile_products import draw
from tests.mutants.statements import Mutant, mutants_of, planted
from tests.sweeps import each

F32 = "SM80_16x8x16_F32F16F16F32_TN"
F16 = "SM80_16x8x16_F16F16F16F16_TN"


def product(
    tile: tuple[int, int, int], a_major: str = "k", b_major: str = "k", atom: str = F32,
    a_type: str = "f16", apart: int = 1, threads: int = 0, warps: tuple[int, int, int] = (2, 2, 1),
    part: tuple[int, int, int] = (32, 32, 16), result: str = "f32", **options: Any,
) -> Any:  # fmt: skip
    """D = A B with B given as (n, k), both stored along k or along their rows."""
    mma = make_tiled_mma(atom, warps, part)
    k = cg.Kernel("product", threads=threads or mma.threads)
    m, n, depth = (k.extent(x, 1 << 12, of) for x, of in zip("mnk", tile, strict=True))
    a = k.tensor("a", a_type, (m, depth), (depth, 1) if a_major == "k" else (1, m))
    b = k.tensor("b", "f16", (n, depth), (apart * depth, apart) if b_major == "k" else (1, n))
    block = k.grid((m, n), tile[:2])
    acc = cg.tile_product(k, mma, a, b, block, tile, **options)
    d = k.tensor("d", result, (m, n), (n, 1), writable=True)
    cg.tile_epilogue(k, mma, acc, cg.local_tile(d, tile[:2], block))
    return k.build()


def reference(a: Any, b: Any) -> Any:
    return a.astype("f4") @ b.astype("f4").T


@pytest.mark.deep
@each("seed", range(100), sample=3)
def test_a_draw_is_a_right_product_or_is_refused_with_what_is_legal(seed: int) -> None:
    case, refusals, kernel = draw(seed), list[str](), None
    while kernel is None and len(refusals) < 6:  # of the GPU, of each tensor, of the tile
        try:
            kernel = case.kernel()
        except LayoutAlgError as error:
            refusals.append(str(error))
            case = case.nearest(refusals[-1])
    assert kernel is not None, refusals
    printed(kernel, case.arch)
    assert cg.verify(kernel, case.product, sizes=case.sizes, cases=1)


@pytest.mark.deep(but=("majors1", "majors2"))
@pytest.mark.parametrize("majors", [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")])
def test_what_whole_tiles_access_is_ideal(majors: tuple[str, str]) -> None:
    sizes = {"m": 64, "n": 128, "k": 160}
    kernel = product((64, 64, 32), *majors, result="f16" if "mn" in majors else "f32")
    assert cg.verify(kernel, reference, sizes=sizes, cases=1)
    found = cg.traffic(kernel, sizes)
    assert "st.global.b128" in found and all(cost.total == cost.ideal for cost in found.values())


def test_the_published_kernel() -> None:
    """(128,128,32), three stages, f16 sums: Sw<2,3,3> on rows of 32, as its author chose."""
    kernel = product((128, 128, 32), atom=F16, result="f16")
    assert {str(s.layout) for s in kernel.shared[:2]} == {"Sw<2,3,3> o 0 o (128,32):(32,1)"}
    assert kernel.shared_bytes == 49152 and cg.compile(kernel, "sm_80").registers <= 168


def in_f16() -> Any:
    return product((32, 16, 32), atom=F16, result="f16", warps=(2, 1, 1), part=(32, 16, 16), stages=2)


@pytest.mark.deep
@each("mutant", lambda: [None, *mutants_of(0, lower(in_f16()))], sample=6)
def test_sums_of_f16_are_exact_and_a_mistake_in_them_is_seen(mutant: Mutant | None) -> None:
    with planted(mutant, alone=True):
        try:
            cg.verify(in_f16(), reference, sizes={"m": 32, "n": 32, "k": 96}, cases=1)
        except LayoutAlgError:
            assert mutant is not None
        else:
            assert mutant is None or "cp_async_wait(0)" in mutant.text  # the groups that are left are empty


@each(
    ("tile", "options", "part"),
    [
        ((100, 64, 32), {}, r"rows of A is not tiled by the 32 .*the nearest is tile = \(96, 64, 32\)"),
        ((64, 64, 24), {}, "not tiled by the 16"),
        ((64, 64, 32), {"sets": 3}, "3 sets.*the nearest is sets = 2"),
        ((64, 64, 32), {"stages": 1}, "two or more are needed; the nearest is stages = 2"),
        ((64, 64, 64), {"stages": 20}, "the nearest is stages = 14"),
        ((64, 64, 64), {"stages": 20, "arch": "sm_86"}, "the nearest is stages = 6"),
        ((256, 256, 32), {}, r"registers per thread.*the nearest is tile = \(128, 128, 32\)"),
        ((512, 512, 16), {"part": (512, 512, 16), "sets": 1}, "more warps are needed"),
        ((64, 64, 64), {"a_type": "f32"}, "multiplies f16"),
        ((64, 64, 64), {"a_type": "bf16"}, "multiplies f16"),
        ((64, 64, 64), {"apart": 2}, "neither of its modes"),
        ((64, 64, 64), {"threads": 64}, "128 are needed"),
        ((64, 64, 64), {"warps": (2, 1, 2), "part": (32, 32, 32)}, "warps along k"),
        ((64, 64, 64), {"arch": "sm_75"}, "needs sm_80"),
        ((64, 64, 64), {"result": "c64"}, "conversions of c64"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tile: Any, options: dict[str, Any], part: str) -> None:
    with pytest.raises(LayoutAlgError, match=part):
        product(tile, **options)


def test_an_epilogue_stores_its_own_accumulators() -> None:
    mma = make_tiled_mma(F32)
    k = cg.Kernel("other", threads=32)
    d = k.tensor("d", "f32", (16, 16), (16, 1), writable=True)
    with pytest.raises(LayoutAlgError, match="8 accumulators are needed"):
        cg.tile_epilogue(k, mma, k.fragment("x", "f32", Layout((4, 1, 1))), d)
