"""Index code and generated text: what they said or computed that was not so."""

from __future__ import annotations

import numpy
import pytest

from layoutalg.analysis import Guard
from layoutalg.codegen.expr import Const, Select, Var, to_c
from layoutalg.codegen.gpu import Cubin, Loaded, Prepared, to_cuda
from layoutalg.codegen.instr import BAR
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import MismatchError, ShapeError
from layoutalg.kernels.matrix import matrix_problem
from layoutalg.kernels.move.matrix import build_transpose
from layoutalg.kernels.move.matrix_plan import transpose_configs
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.testing import check_index_function, compile_shared
from tests.command import run
from tests.draws.ctext_cases import index_function
from tests.draws.domains import stated
from tests.draws.guards import active_lanes
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


@pytest.mark.deep
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


def test_a_text_states_the_multiples_that_it_needs() -> None:
    """It said "for m <= 256, n <= 256, lds <= 264, ldd <= 256", and was wrong for others of these; the trials
    of tests/draws/domains.py run and refuse what such a text says."""
    p = matrix_problem(256, 256, "f16", lds=264, turned=True)
    kernel = build_transpose(p, next(transpose_configs(p)))
    most = {"m": 256, "n": 256, "lds": 264, "ldd": 256}
    assert stated(to_cuda(kernel)).ranges == {name: (8, high, 8) for name, high in most.items()}
    values = {"m": 100, "n": 80, "lds": 80, "ldd": 100}
    src, dst = numpy.zeros(100 * 80, "u2"), numpy.zeros(80 * 100, "u2")
    with pytest.raises(ShapeError, match="was built for"):
        simulate(kernel, {**values, "src": src, "dst": dst})
    with pytest.raises(ShapeError, match="was built for"):
        cubin = Cubin("transpose_f16", "sm_80", b"", 1, 0, 0, 0, "")
        Loaded(Prepared(kernel, "", cubin), None)(**values, src=None, dst=None)


def test_a_products_text_states_tiles_and_built_in_leading_dimensions() -> None:
    words = ("generate", "gemm-sm80", "--m", "8192", "--n", "8192", "--k", "8192")
    leading = {f"ld{x}": (8, 16384, 8) for x in "abd"}
    assert stated(run(*words).stdout).ranges.items() >= leading.items()
    says = stated(run(*words, "--static").stdout)
    assert says.ranges == {"m": (128, 8192, 128), "n": (256, 8192, 256), "k": (64, 8192, 64)}
    assert says.built_in["lda"] == says.built_in["ldd"] == 8192


def test_a_guard_counts_threads_past_63_bits() -> None:
    """A thread number past 2^63 came back negative, and the warp at the bound was counted whole."""
    layout, bound = Layout((1003, 36783138731225427), (1, 0)), (1 << 63) + 31
    assert active_lanes(layout, Guard(threads=bound)) == bound
    assert active_lanes(Layout((32, 1 << 61), (1, 0)), Guard(threads=(1 << 63) - 1)) == (1 << 63) - 1
