"""The effect of an atom, in NumPy: one matrix product and one copy for every instruction.

The idea.  An atom's layouts say where each element of its matrices is held.  So its effect is the same three
steps for all: gather A, B and C out of what the threads hold, multiply, scatter D to the threads.

>>> import numpy
>>> from layoutalg.atoms import find_mma_atom
>>> atom = find_mma_atom("SM80_8x8x4_F64F64F64F64_TN")
>>> a, b = numpy.arange(32.0).reshape(8, 4), numpy.eye(8, 4)
>>> d = run_mma(atom, hold(atom.a_tv, a), hold(atom.b_tv, b), numpy.zeros((32, 2)))
>>> bool((collect(atom.c_tv, (8, 8), d) == a @ b.T).all()), d[5]
(True, array([6., 7.]))

Notes.  What a thread holds is an array (threads, values) of numbers.  Products and sums are exact in 64-bit
integers or rounded in float64, and the result is rounded once to the type of D; the hardware adds in an order
and width of its own, which agrees wherever all partial sums are representable, as with small integers.
Sums of s32 wrap, or stop at its ends where the atom saturates.  A sparse A is given with its zeros.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from layoutalg.atoms.atom import CopyAtom, MMAAtom
from layoutalg.errors import MismatchError, ShapeError, check_type
from layoutalg.layout import Layout, check_integers, flatten_tree, layout_size, modes, normalize
from layoutalg.limits import Most

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def places(tv: Layout) -> Array:
    """The layout as a table: the index that each (thread, value) has.

    >>> places(Layout((2, 4), (4, 1)))
    array([[0, 1, 2, 3],
           [4, 5, 6, 7]])
    """
    import numpy as np

    check_integers("places", tv)
    if len(modes(tv)) != 2:
        raise ShapeError(f"places of {tv}: two modes (thread, value) are needed")
    threads, values = (layout_size(mode) for mode in modes(tv))
    Most.POINTS.guard(threads * values, f"places of {tv}")
    table: Array = np.broadcast_to(tv(np.arange(threads)[:, None], np.arange(values)), (threads, values))
    return table


def hold(tv: Layout, matrix: Array) -> Array:
    """Return what each thread holds of a matrix: (threads, values).  Indices of `tv` count its columns first.

    Raises ShapeError when `tv` reaches past the matrix.

    >>> import numpy
    >>> hold(Layout((2, 2), (1, 2)), numpy.array([[1, 2], [3, 4]]))
    array([[1, 2],
           [3, 4]])
    """
    import numpy as np

    check_type("hold", matrix, np.ndarray, "an array")
    flat, table = matrix.reshape(-1, order="F"), places(tv)
    if table.min() < 0 or table.max() >= flat.size:
        raise ShapeError(f"{tv} reaches index {table.max()} of a matrix of shape {matrix.shape}")
    return flat[table]


def collect(tv: Layout, shape: tuple[int, int], held: Array) -> Array:
    """The matrix of which the threads hold `held`: the inverse of `hold`.

    Raises ShapeError when `held` or `shape` does not fit `tv`, MismatchError when two places of one element
    differ.

    >>> import numpy
    >>> collect(Layout((2, 2), (2, 1)), (2, 2), numpy.array([[1, 3], [2, 4]]))
    array([[1, 2],
           [3, 4]])
    """
    import numpy as np

    table, extents = places(tv), flatten_tree(normalize(shape, "the shape of a matrix"))
    check_type("collect", held, np.ndarray, "an array")
    if held.shape != table.shape or table.min() < 0 or table.max() >= prod(extents):
        raise ShapeError(f"{tv} has places {table.shape} of a matrix {shape}; given are {held.shape}")
    Most.POINTS.guard(prod(extents), "elements of the matrix that is collected")
    flat = np.zeros(prod(extents), dtype=held.dtype)
    flat[table] = held
    differs = np.argwhere((flat[table] != held) & ~((flat[table] != flat[table]) & (held != held)))
    if len(differs):
        thread, value = map(int, differs[0])
        raise MismatchError(
            f"value {value} of thread {thread} is {held[thread, value]}, but another place of element "
            f"{table[thread, value]} holds {flat[table[thread, value]]}",
            index=(thread, value),
        )
    return flat.reshape(extents, order="F")


def multiply(atom: MMAAtom, a: Array, b: Array, c: Array) -> Array:
    """D of matrices A (M x K), B (N x K) and C (M x N), with the arithmetic and the type of the atom.

    >>> import numpy
    >>> from layoutalg.atoms import find_mma_atom
    >>> bits = numpy.ones((8, 128), dtype=int)
    >>> atom = find_mma_atom("SM80_8x8x128_S32U1U1S32_TN_XORPOPC")
    >>> int(multiply(atom, bits, bits, numpy.full((8, 8), 5)).max())
    5
    """
    import numpy as np

    result = np.dtype(atom.dtypes.d.numpy_name)
    wide = {"i": np.int64, "f": np.float64, "c": np.complex128}[result.kind]
    a, b, c = (x.astype(wide) for x in (a, b, c))
    with np.errstate(all="ignore"):
        if atom.arithmetic == "xor.popc":
            total = a.sum(axis=1)[:, None] + b.sum(axis=1) - 2 * (a @ b.T) + c  # x ^ y = x + y - 2 x y
        else:
            total = a @ b.T + c  # x & y = x y
        if atom.arithmetic == "saturate":
            total = np.clip(total, np.iinfo(result).min, np.iinfo(result).max)
        rounded: Array = total.astype(result)
    return rounded


def run_mma(atom: MMAAtom, a: Array, b: Array, c: Array) -> Array:
    """Return what the threads hold of D, from what they hold of A, B and C: arrays (threads, values).

    Every thread is given all elements of an operand in shared memory, as its layout says.  Raises what
    `collect` raises.

    >>> import numpy
    >>> from layoutalg.atoms import find_mma_atom
    >>> four = numpy.array([[1, 2, 3, 4]])
    >>> run_mma(find_mma_atom("SM61_DP4A"), four, four, numpy.array([[100]]))
    array([[130]], dtype=int32)
    """
    matrices = (
        collect(atom.a_tv, atom.extents("A"), a),
        collect(atom.b_tv, atom.extents("B"), b),
        collect(atom.c_tv, atom.extents("C"), c),
    )
    return hold(atom.c_tv, multiply(atom, *matrices))


def run_copy(atom: CopyAtom, src: Array) -> Array:
    """Return what the threads receive, from what they give: arrays (threads, bits), or (threads, elements).

    The elements may be of any width that stays together; it follows from their number.  Raises ShapeError
    when `src` has not one element for each place of the source, and what `collect` raises.

    >>> import numpy
    >>> from layoutalg.atoms import find_copy_atom
    >>> rows = numpy.arange(256).reshape(32, 8)
    >>> run_copy(find_copy_atom("SM75_U32x4_LDSM_N"), rows)[5]
    array([ 10,  11,  74,  75, 138, 139, 202, 203])
    """
    bits = layout_size(modes(atom.src_tv)[1])
    if src.ndim != 2 or not src.shape[1] or bits % src.shape[1]:
        raise ShapeError(f"{atom} moves {bits} bits of each thread; given are elements of shape {src.shape}")
    width = bits // src.shape[1]
    sides = (atom.bits_as("src", width), atom.bits_as("dst", width))
    count = int(places(sides[0]).max()) + 1
    return hold(sides[1], collect(sides[0], (count, 1), src))
