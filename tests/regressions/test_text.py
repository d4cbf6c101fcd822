"""Index code and generated text: what they said or computed that was not so."""

from __future__ import annotations

import re

import numpy
import pytest

from layoutalg.analysis import Guard
from layoutalg.codegen.expr import Const, Select, Var, to_c
from layoutalg.codegen.expr.ctext import index_function
from layoutalg.codegen.gpu import Cubin, Loaded, to_cuda
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.instr import BAR
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, check_integers
from layoutalg.codegen.sim import simulate
from layoutalg.errors import MismatchError, ShapeError
from layoutalg.kernels.matrix import buffers, reference
from layoutalg.kernels.move.matrix_plan import transpose_configs
from layoutalg.kernels.move.programs.matrix import build_transpose, transpose_problem
from layoutalg.kernels.rowwise import plans, reduce_problem
from layoutalg.kernels.rowwise.families import sequence_of
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.testing import check_index_function, compile_shared
from tests.command import run
from tests.draws.guards import active_lanes
from tests.hostshim import KernelFault, run_cuda_text
from tests.sweeps import each


def test_a_select_of_two_constants_is_unsigned() -> None:
    """`(x < 4 ? 1 : 2) * 1500000000` overflowed an int, and its sign went into the 64-bit sum."""
    x, y = Var("x", 8), Var("y", 1 << 40)
    node = y + Select(x < 4, Const(1), Const(2)) * 1_500_000_000
    assert to_c(node) == "y + (x < 4 ? 1u : 2u) * 1500000000"
    at = compile_shared(index_function(node, "at", (x, y)), language="c").at
    assert at(5, 0) & 0xFFFFFFFF == 3_000_000_000


@each(
    ("node", "text"),
    [
        (Const(65535) << 16, "65535u << 16"),
        ((Var("x", 8) < 4) * 2_147_483_647 + 5, "(u32)(x < 4) * 2147483647u + 5"),
        ((Var("x", 8) < 4) << 31, "(u32)(x < 4) << 31"),
        (Const(1 << 30) * 3 + Var("y", 1 << 40), "1073741824u * 3u + y"),
        (Var("x", 8) >> 70, "0"),
        (Var("y", 1 << 40) >> 64, "0"),
    ],
)
def test_nothing_is_computed_with_signed_integers(node: Var, text: str) -> None:
    assert to_c(node) == text


def test_the_end_of_a_loop_may_be_a_select() -> None:
    """`i < n < 3 ? 2 : 5` was read as `(i < n < 3) ? 2 : 5`, and the loop never ended."""
    k = KernelBuilder("turns", threads=32)
    n = k.param("n", 8)
    with k.For("i", Select(n < 3, Const(2), Const(5))):
        k.do(BAR)
    assert "for (u32 i = 0; i < (n < 3 ? 2u : 5u); ++i) {" in print_kernel(k.build())


def test_an_index_function_has_the_parameters_of_its_layout() -> None:
    """They came in alphabetical order, (col, row), and the checker refused what the library had printed."""
    tile = ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1)))
    row, col = Var("row", 8), Var("col", 8)
    for text in (index_function(tile(row, col), "swz"), index_function(tile(row, col), "swz", (row, col))):
        assert "swz(u32 row, u32 col)" in text
        check_index_function(text, tile, "swz")


def test_a_division_by_zero_ends_a_process_of_its_own() -> None:
    with pytest.raises(
        MismatchError, match=r"f ends its process at index 5 with SIGFPE \(a division by zero\)"
    ) as e:
        check_index_function("int f(int i) { return 7 / (i - 5); }", Layout(8))
    assert e.value.index == 5


def transposes_of_halves() -> Kernel:
    """Up to 256 x 256, with leading dimensions up to 264 and 256."""
    p = transpose_problem(256, 256, "f16", lds=264)
    return build_transpose(p, transpose_configs(p)[0])


def wrong_elements(kernel: Kernel, m: int, n: int, lds: int, ldd: int) -> int:
    """Elements, padding included, that the text on the host leaves otherwise than it should; -1: a fault."""
    p = transpose_problem(m, n, "f16", lds, ldd)
    src, old = buffers(p, 0)
    dst, values = old.copy(), {"m": m, "n": n, "lds": lds, "ldd": ldd}
    grid, block = launch_grid(kernel, values), (kernel.threads,)
    try:
        run_cuda_text(to_cuda(kernel), kernel.name, grid, block, [*values.values(), src, dst])
    except KernelFault:
        return -1
    return int((dst != reference(p, src, old)).sum())


def test_a_text_states_the_multiples_that_it_needs() -> None:
    """It said "for m <= 256, n <= 256, lds <= 264, ldd <= 256", and was wrong for three of these."""
    kernel = transposes_of_halves()
    head = to_cuda(kernel).split("\n\n")[0]
    for name, most in (("m", 256), ("n", 256), ("lds", 264), ("ldd", 256)):
        assert re.search(rf"^//   {name} +8 to {most}, a multiple of 8$", head, re.M)
    assert wrong_elements(kernel, 104, 80, 88, 112) == 0
    for m, n, lds, ldd in ((100, 80, 80, 100), (101, 77, 77, 101), (104, 80, 80, 96)):
        assert ldd < m or wrong_elements(kernel, m, n, lds, ldd) != 0
        values = {"m": m, "n": n, "lds": lds, "ldd": ldd}
        with pytest.raises(ShapeError, match="was built for"):
            check_integers(kernel, values)
        src, dst = numpy.zeros(m * lds, "u2"), numpy.zeros(n * ldd, "u2")
        with pytest.raises(ShapeError, match="was built for"):
            simulate(kernel, {**values, "src": src, "dst": dst})
        with pytest.raises(ShapeError, match="was built for"):
            Loaded(kernel, CUBIN, "", None)(**values, src=None, dst=None)


CUBIN = Cubin("transpose_f16", "sm_80", b"", 1, 0, 0, 0, "")


def test_a_products_text_states_tiles_and_built_in_leading_dimensions() -> None:
    source = run("generate", "gemm-sm80", "--m", "8192", "--n", "8192", "--k", "8192").stdout
    for line in (
        "m      128 to 8192, a multiple of 128",
        "n      256 to 8192, a multiple of 256",
        "k      64 to 8192, a multiple of 64",
        "lda    8192, built in",
        "ldd    8192, built in",
    ):
        assert f"//   {line}\n" in source
    assert "<= 8192" not in source
    assert "for all sizes" not in " ".join(run("generate", "--help").stdout.split())


def test_a_guard_counts_threads_past_63_bits() -> None:
    """A thread number past 2^63 came back negative, and the warp at the bound was counted whole."""
    layout, bound = Layout((1003, 36783138731225427), (1, 0)), (1 << 63) + 31
    assert active_lanes(layout, Guard(threads=bound)) == bound
    assert active_lanes(Layout((32, 1 << 61), (1, 0)), Guard(threads=(1 << 63) - 1)) == (1 << 63) - 1


@pytest.mark.deep
def test_kernels_that_start_early_run_on_the_host() -> None:
    """`grid_wait` and the loads behind it were unknown there, and the bench of texts ended at them."""
    src, partial, dst = numpy.ones(64000, "f4"), numpy.zeros(32000, "f4"), numpy.zeros(64, "f4")
    given = {"src": src.view("u4"), "scratch": partial.view("u4"), "dst": dst.view("u4")}
    plan = next(p for p in plans(reduce_problem((1000, 64), 0, "sum", "f32")) if len(p.passes) > 1)
    chain = sequence_of(plan, "sm_90")
    assert "grid_wait();" in to_cuda(chain.kernels[1]) and "_fresh(" in to_cuda(chain.kernels[1])
    for kernel, names in zip(chain.kernels, chain.buffers, strict=True):
        buffers = [given[name] for name in names]
        run_cuda_text(to_cuda(kernel), kernel.name, launch_grid(kernel, {}), (kernel.threads,), buffers)
    assert (dst == 1000).all()
