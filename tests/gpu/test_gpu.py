"""What only a GPU can show.  Run by hand on one: python3 -m pytest tests/gpu"""

from __future__ import annotations

import pytest

import layoutalg
from layoutalg import Layout
from layoutalg.codegen.gpu import load, to_cuda
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.elementwise import FORMULAS
from tests.draws.matrices import arguments, buffers
from tests.draws.sequences import MATRIX_OPS
from tests.gpu.tools import STATUS, needs_gpu

pytestmark = needs_gpu

DTYPES = ("u8", "f16", "f32", "f64", "c128")
SIZES = ((1, 1), (1, 1000), (1000, 1), (127, 257), (509, 1021), (1024, 2048), (2049, 1031))


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MATRIX_OPS)
def test_reference_is_gpu(name: str, dtype: str, size: tuple[int, int]) -> None:
    family = FAMILIES[name]
    m, n = size
    for more in (0, 16, 3):
        columns = m if name == "transpose" else n
        p = family.problem(m, n, dtype, n + more, columns + more)
        for config in family.configs(p, STATUS.arch):
            verify(family, p, config, target="gpu", seed=more).require()


def test_more_than_2_to_32_elements() -> None:
    """64-bit index code on real addresses: compared tile by tile on the GPU."""
    import cupy

    family = FAMILIES["transpose"]
    m, n = 65536 + 64, 65536 + 16
    p = family.problem(m, n, "u8")
    kernel = load(family.build(p, family.configs(p, STATUS.arch)[0]))
    assert "(u64)" in kernel.ready.source
    src = cupy.random.randint(0, 256, (m, n), dtype=cupy.uint8)
    dst = cupy.zeros((n, m), dtype=cupy.uint8)
    kernel(**arguments(p, src, dst))
    for i in range(0, n, 8192):
        assert bool((dst[i : i + 8192] == src.T[i : i + 8192]).all())


def test_a_launch_with_foreign_arguments_is_refused() -> None:
    import cupy

    family = FAMILIES["transpose"]
    p = family.problem(256, 256, "f32")
    kernel = load(family.build(p, family.configs(p, STATUS.arch)[0]))
    src, dst = (cupy.asarray(a) for a in buffers(p, 0))
    good = arguments(p, src, dst)
    kernel(**good)
    for change, error in (
        ({"m": 257}, ShapeError), ({"lds": 255}, ShapeError), ({"m": 1.0}, ArgumentTypeError),
        ({"src": src.get()}, ArgumentTypeError), ({"src": src.view("u1")}, ArgumentTypeError),
        ({"src": cupy.zeros(70000, "u4")[1:]}, AlignmentError), ({"extra": 1}, ArgumentTypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            kernel(**{**good, **change})


def test_the_compiled_text_is_the_printed_text() -> None:
    family = FAMILIES["tiled_copy"]
    p = family.problem(64, 64, "f32")
    kernel = family.build(p, family.configs(p, STATUS.arch)[0])
    assert load(kernel).ready.source == to_cuda(kernel, STATUS.arch)


PRODUCTS = {"gemm-sm75": ("f16",), "gemm-sm80": ("f16", "bf16", "tf32", "s8"), "gemm-simt": ("f32", "f64")}


EXTENTS = (
    (128, 128, 128), (67, 131, 45), (1009, 1013, 1019), (1, 2053, 64), (2048, 1, 999), (640, 1280, 2304)
)  # fmt: skip


@pytest.mark.parametrize("extents", EXTENTS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_within_their_bound(name: str, extents: tuple[int, int, int]) -> None:
    """As they are chosen, and in parts of k where the family offers them."""
    family = FAMILIES[name]
    for dtype in PRODUCTS[name]:
        p = family.problem(*extents, dtype, reads_c=True, bias=True)
        configs = list(family.configs(p, STATUS.arch))
        for config in dict.fromkeys((configs[0], next((c for c in configs if c.splits > 1), configs[0]))):
            verify(family, p, config, target="gpu").require()


@pytest.mark.parametrize("name", ["rms_norm", *FORMULAS])
def test_families_that_no_other_module_runs(name: str) -> None:
    family = FAMILIES[name]
    for asked in checks_of(family).verified:
        verify(family, family.problem(**asked), target="gpu", seed=20261122).require()


def test_formats_of_relayout() -> None:
    import cupy

    nhwc = Layout((16, 56, 56, (32, 4)), (401408, 7168, 128, (1, 32)))
    blocked = Layout((16, 56, 56, (32, 4)), (401408, 1792, 32, (1, 100352)))
    x = cupy.random.randint(0, 127, 16 * 56 * 56 * 128).astype("i1")
    expected = x.reshape(16, 56, 56, 4, 32).transpose(0, 3, 1, 2, 4).ravel()
    y = layoutalg.ops.relayout(x, nhwc, blocked)
    assert bool((y == expected).all()) and bool((layoutalg.ops.relayout(y, blocked, nhwc) == x).all())
