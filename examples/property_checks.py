"""Properties of your own layouts, index functions and kernels, which hypothesis tries to break.

Run it:  python examples/property_checks.py        needs hypothesis and g++
"""

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutalg as la
from layoutalg import Layout, make_tiled_copy, testing
from layoutalg import codegen as cg
from layoutalg.errors import MismatchError

repeated = settings(derandomize=True, database=None, deadline=None, max_examples=40)


@repeated
@given(rows=st.sampled_from((16, 32, 64)), columns=st.sampled_from((64, 128)))
def swizzled_tiles_have_no_conflicts(rows: int, columns: int) -> None:
    tile = la.composition(la.Swizzle(3, 3, columns.bit_length() - 4), Layout((rows, columns), (columns, 1)))
    testing.check_bijective(tile)
    testing.check_conflict_free(tile, "ldmatrix.x4", element="f16")


@settings(repeated, max_examples=15)
@given(testing.index_functions())
def printed_functions_are_their_layouts(pair: tuple[str, la.AnyLayout]) -> None:
    text, layout = pair
    testing.check_index_function(text, layout)


def scale_rows(rows: int, columns: int, tiles: int) -> cg.Program:
    k = cg.Kernel("scale_rows", threads=32)
    src = k.tensor("src", "f32", (rows, columns), (columns, 1))
    dst = k.tensor("dst", "f32", (rows, columns), (columns, 1), writable=True)
    copy = k.get_slice(make_tiled_copy("UniversalCopy<uint32_t>", "f32", Layout((1, 32)), Layout((1, 1))))
    (row,) = k.grid((rows,), (1,))
    for tile in range(tiles):
        s, d = (copy.partition_S(cg.local_tile(t, (1, 32), (row, tile))) for t in (src, dst))
        k.store(k.load(s, where=s.inside) * 2, d, where=d.inside)
    return k.build()


def check_doubled(rows: int, columns: int, tiles: int, seed: int) -> None:
    src = numpy.random.default_rng(seed).standard_normal((rows, columns), numpy.float32)
    dst = numpy.zeros_like(src)
    cg.simulate(scale_rows(rows, columns, tiles), {"src": src, "dst": dst})
    if not (dst == 2 * src).all():
        raise MismatchError(f"{rows} x {columns}: {(dst != 2 * src).sum()} elements are wrong")


@settings(repeated, max_examples=10)
@given(rows=st.integers(1, 3), columns=st.integers(1, 100), seed=st.integers(0, 9))
def rows_are_doubled(rows: int, columns: int, seed: int) -> None:
    check_doubled(rows, columns, -(-columns // 32), seed)


@settings(repeated, max_examples=10)
@given(columns=st.integers(32, 100))
def rows_without_their_last_tile(columns: int) -> None:
    check_doubled(1, columns, columns // 32, 0)


for check in (swizzled_tiles_have_no_conflicts, printed_functions_are_their_layouts, rows_are_doubled):
    check()
    print(f"{check.__name__}: holds for all that was drawn")

try:
    rows_without_their_last_tile()
except MismatchError as error:
    print(f"the planted mistake, at the smallest size: {error}")
    assert "1 x 33" in str(error)
else:
    raise SystemExit("the planted mistake was not caught")
