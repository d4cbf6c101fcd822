"""What only a GPU can show.  Run by hand on one: python3 -m pytest tests/gpu"""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import load, to_cuda
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.matrix import arguments, buffers
from tests.draws.sequences import MATRIX_OPS
from tests.gpu.tools import STATUS, counters, needs_gpu, sanitize

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
    assert "(u64)" in kernel.source
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


@pytest.mark.parametrize("kind", ["memcheck", "racecheck", "synccheck"])
def test_the_sanitizer_is_silent(kind: str) -> None:
    assert "launches correct" in sanitize(kind, "tests.gpu.counters", "plain")


def test_predictions_equal_the_hardware_counters() -> None:
    counters()
    from tests.gpu.counters import CASES, measure

    for case in CASES:
        assert [str(row) for row in measure(*case) if row.refuted] == []


def test_the_wavefronts_of_random_layouts_are_the_predicted_ones() -> None:
    counters()
    from tests.gpu.probe import counted, rows

    compared = list(rows(counted()))
    assert len(compared) == 400
    for probe, way, report, measured in compared:
        assert report.total == measured, (probe, way)


def test_the_compiled_text_is_the_printed_text() -> None:
    family = FAMILIES["tiled_copy"]
    p = family.problem(64, 64, "f32")
    kernel = family.build(p, family.configs(p, STATUS.arch)[0])
    assert load(kernel).source == to_cuda(kernel, STATUS.arch)
