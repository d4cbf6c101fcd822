"""tile_product: products of tiles whose copies, layouts and rings are found, right and free of conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.codegen.block_product import tile_product
from layoutalg.errors import LayoutAlgError
from tests.sweeps import each

F32 = "SM80_16x8x16_F32F16F16F32_TN"
F16 = "SM80_16x8x16_F16F16F16F16_TN"


def product(
    tile: tuple[int, int, int], a_major: str = "k", b_major: str = "k", atom: str = F32,
    a_type: str = "f16", apart: int = 1, threads: int = 128, warps: tuple[int, int, int] = (2, 2, 1),
    step: int = 16, **options: Any,
) -> Any:  # fmt: skip
    """D = A B with B given as (n, k), both stored along k or along their rows."""
    mma = make_tiled_mma(atom, warps, (32, 32, step))
    k = cg.Kernel("product", threads=threads)
    m, n, depth = (k.extent(x, 1 << 12, of) for x, of in zip("mnk", tile, strict=True))
    a = k.tensor("a", a_type, (m, depth), (depth, 1) if a_major == "k" else (1, m))
    b = k.tensor("b", "f16", (n, depth), (apart * depth, apart) if b_major == "k" else (1, n))
    block = k.grid((m, n), tile[:2])
    acc = tile_product(k, mma, a, b, block, tile, **options)
    d = k.tensor("d", "f32" if atom == F32 else "f16", (m, n), (n, 1), writable=True)
    k.store(acc, k.get_slice(mma).partition_C(cg.local_tile(d, tile[:2], block)))
    return k.build()


def verified(kernel: Any, **sizes: int) -> bool:
    """Whether it is the product, in the simulator."""
    return len(cg.verify(kernel, lambda a, b: a.astype("f4") @ b.astype("f4").T, sizes=sizes, cases=1)) == 1


@pytest.mark.parametrize("majors", [("k", "k"), ("k", "mn"), ("mn", "k"), ("mn", "mn")])
def test_a_product_stored_either_way(majors: tuple[str, str]) -> None:
    kernel = product((64, 64, 32), *majors)
    assert verified(kernel, m=64, n=128, k=160)
    found = cg.traffic(kernel, {"m": 64, "n": 128, "k": 160})
    assert {op for op, cost in found.items() if cost.total != cost.ideal and "global" not in op} == set()


@pytest.mark.parametrize(
    ("tile", "options"),
    [((128, 128, 32), {"stages": 3}), ((64, 32, 64), {"stages": 2, "sets": 4}), ((64, 64, 16), {"sets": 1})],
)
def test_tiles_stages_and_sets(tile: tuple[int, int, int], options: dict[str, Any]) -> None:
    kernel = product(tile, **options)
    assert [s.stages for s in kernel.shared] == [options.get("stages", 3)] * 2
    assert verified(kernel, m=tile[0], n=tile[1], k=3 * tile[2])


def test_a_step_of_several_instructions_along_k() -> None:
    assert verified(product((64, 64, 64), step=32), m=64, n=64, k=128)


def test_the_layouts_of_the_published_tile_are_found() -> None:
    """(128,128,32), three stages, f16 sums: Sw<2,3,3> on rows of 32, as its author chose."""
    kernel = product((128, 128, 32), atom=F16)
    assert {str(s.layout) for s in kernel.shared} == {"Sw<2,3,3> o 0 o (128,32):(32,1)"}
    assert len(cg.compile(kernel).image) > 0


@each(
    ("tile", "options", "part"),
    [
        ((100, 64, 32), {}, "rows of A is not tiled by the 32"), ((64, 64, 24), {}, "not tiled by the 16"),
        ((64, 64, 32), {"sets": 3}, "3 sets"), ((64, 64, 32), {"stages": 1}, "two or more"),
        ((32, 64, 16), {"sets": 1}, "not copied by 128 threads"),
        ((64, 64, 64), {"a_type": "f32"}, "16-bit elements"),
        ((64, 64, 64), {"a_type": "bf16"}, "multiplies f16"),
        ((64, 64, 64), {"threads": 64}, "128 are needed"),
        ((64, 64, 64), {"warps": (2, 1, 2), "step": 32}, "warps along k"),
        ((64, 64, 64), {"apart": 2}, "neither along k nor along its rows"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(tile: Any, options: dict[str, Any], part: str) -> None:
    with pytest.raises(LayoutAlgError, match=part):
        product(tile, **options)
