"""Check your own index code: as an expression, as CUDA, and as a property that hypothesis tests.

Run it:  python examples/check_your_own_index.py        needs g++ and hypothesis
"""

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg import Layout, Swizzle, analysis, composition
from layoutalg.errors import MismatchError
from layoutalg.reading import parse_index
from layoutalg.testing import check_bijective, check_index_function

# The cost of an index expression from a kernel, in Python or C, without a layout.
index = parse_index("(threadIdx.x / 8) * 144 + (threadIdx.x % 8) * 16")
offsets = index(tid=numpy.arange(32)).tolist()
print(f"{index.text}: {analysis.wavefronts('ld.shared.b128', offsets)} wavefronts")
assert analysis.wavefronts("ld.shared.b128", offsets) == 4

# Hand-written CUDA, compared with the layout that it should compute, over its whole domain.
swizzled = composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))
right = "__device__ int f(int row, int col) { return row * 64 + (col ^ (row % 8) * 8); }"
check_index_function(right, swizzled)
check_index_function("row * 64 + (col ^ (row % 8) * 8)", swizzled)
print("the index function is right")

wrong = right.replace("row % 8", "row % 4")
try:
    check_index_function(wrong, swizzled)
except MismatchError as error:
    print(f"the other one is wrong: {error}")
    assert error.index is not None
else:
    raise SystemExit("a wrong index function was not caught")


# A property: whatever the tile is, the expression that your generator writes is the layout that you mean.
@settings(max_examples=50, derandomize=True)
@given(rows=st.integers(1, 32), bits=st.integers(0, 3), vector=st.sampled_from((1, 2, 4, 8)))
def check_swizzled_tile(rows: int, bits: int, vector: int) -> None:
    columns = vector << bits
    tile = Layout((rows, columns), (columns, 1))
    meant = composition(Swizzle(bits, vector.bit_length() - 1, bits), tile) if bits else tile
    check_index_function(f"row * {columns} + (col ^ row % {1 << bits} * {vector})", meant)


check_swizzled_tile()
print("the index expression is right for every tile that hypothesis drew")

# A layout in which two elements have the same offset.
try:
    check_bijective(Layout((4, 8), (8, 2)))
except MismatchError as error:
    print(f"not a permutation: {error}")
else:
    raise SystemExit("a layout that is not a permutation was not caught")
