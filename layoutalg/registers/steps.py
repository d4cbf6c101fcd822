"""The steps of a conversion between register layouts: what a warp executes, what it costs, what it does.

The idea.  Five steps are enough, and each takes the values of a lane, an ordered list, to the next list:

    Rename    the list in another order, some twice, some not at all: no instruction
    Select    each value from one of two registers, by the parity of some bits of lane and warp
    Shuffle   each value from another lane, lane' = D lane ^ K warp ^ (a constant per register)
    Store     the values to shared memory, in vectors
    Load      the values from there, behind a barrier

`run` executes them on NumPy arrays of shape (warp, lane, register), so that a plan can be compared with the
definition, `converted`: every place gets the element that its layout says.

>>> import numpy
>>> exchange = (Shuffle((1, 2), (), (0, 1)),)      # register 1 comes from the neighbour
>>> run(exchange, numpy.arange(8).reshape(1, 4, 2)).tolist()
[[[0, 3], [2, 1], [4, 7], [6, 5]]]

Notes.  Costs are per warp.  CYCLES weighs them by throughput; latency is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from layoutalg.errors import DivisibilityError, ShapeError, check_type
from layoutalg.f2 import Columns, LinearLayout, identity
from layoutalg.layout import AnyLayout
from layoutalg.registers.fragments import over_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

CYCLES: Mapping[str, float] = MappingProxyType(
    {"selects": 0.5, "permutes": 0.5, "shuffles": 1.0, "wavefronts": 1.0, "barriers": 2.0}
)
"""Cycles of an SM for one warp: 64 lanes per cycle select or permute, 32 shuffle, 16 arrive at a barrier.

Source: CUDA C++ Programming Guide, "Arithmetic Instructions" (selects and permutes taken as compares, warp
shuffle) and "Synchronization Instruction", compute capability 8.x; carried over to the others.
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a conversion for one warp.

    `permutes` are byte permutations (PRMT) that take narrow values out of registers and put them back;
    `wavefronts` are those of stores and loads together.

    >>> Cost(shuffles=4, selects=8) + Cost(wavefronts=2, barriers=1)
    Cost(selects=8, permutes=0, shuffles=4, wavefronts=2, barriers=1)
    >>> Cost(shuffles=4, selects=8).cycles
    8.0
    """

    selects: int = 0
    permutes: int = 0
    shuffles: int = 0
    wavefronts: int = 0
    barriers: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    @property
    def cycles(self) -> float:
        """The sum, weighed by CYCLES."""
        return sum((CYCLES[name] * int(getattr(self, name)) for name in self.__slots__), 0.0)


@dataclass(frozen=True, slots=True)
class Rename:
    """Value i of the new list is value sources[i] of the old one."""

    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """Value i is old value odd[i] where an odd number of the bits of both masks is set, even[i] elsewhere."""

    lane_mask: int
    warp_mask: int
    even: tuple[int, ...]
    odd: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """Value i comes from value i of lane D lane ^ K warp ^ offsets[i] of the same warp.

    `lane_columns` are those of D, `warp_columns` those of K.  With D the identity it is `shfl.bfly`, else
    `shfl.idx`.
    """

    lane_columns: Columns
    warp_columns: Columns
    offsets: tuple[int, ...]

    @property
    def is_xor(self) -> bool:
        """True when lanes exchange values in pairs."""
        return self.lane_columns == identity(len(self.lane_columns))

    @property
    def moving(self) -> int:
        """Values that leave their lane."""
        if self.is_xor and not any(self.warp_columns):
            return sum(offset != 0 for offset in self.offsets)
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A side of an exchange through shared memory.

    Instruction j moves the values `vectors[j]` to or from `tile(bases[j] ^ lane's ^ warp's)` and the
    places after it, where lane and warp move by `lane_columns` and `warp_columns`.  `wavefronts` are those
    of all instructions of a warp.
    """

    op: str
    vectors: tuple[tuple[int, ...], ...]
    bases: tuple[int, ...]
    lane_columns: Columns
    warp_columns: Columns
    wavefronts: int


@dataclass(frozen=True, slots=True)
class Store:
    """Values to shared memory; `tile` maps flat indices to places, and is as large as `size` says.

    Every place is written once: lanes and warps with a bit of `silent_lanes`, `silent_warps` in their number
    hold what others store, and do not.
    """

    tile: AnyLayout
    size: int
    transfer: Transfer
    silent_lanes: int = 0
    silent_warps: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """A barrier, and the whole list of values from shared memory."""

    tile: AnyLayout
    transfer: Transfer


PlanStep: TypeAlias = "Rename | Select | Shuffle | Store | Load"


def cost_of(steps: Iterable[PlanStep], words: int = 1) -> Cost:
    """The cost of a warp's steps, for values of `words` registers each.

    >>> cost_of([Select(1, 0, (0, 1), (1, 0)), Shuffle((1,), (), (0, 1)), Rename((1, 0))])
    Cost(selects=2, permutes=0, shuffles=1, wavefronts=0, barriers=0)
    """
    total = Cost()
    for step in steps:
        match step:
            case Select():
                different = sum(a != b for a, b in zip(step.even, step.odd, strict=True))
                total += Cost(selects=different * words)
            case Shuffle():
                total += Cost(shuffles=step.moving * words)
            case Store():
                total += Cost(wavefronts=step.transfer.wavefronts)
            case Load():
                total += Cost(wavefronts=step.transfer.wavefronts, barriers=1)
            case Rename():
                pass
    return total


def run(steps: Iterable[PlanStep], values: NDArray[Any]) -> NDArray[Any]:
    """Execute steps on an array (warp, lane, register, ...): the values every lane has afterwards.

    >>> import numpy
    >>> run([Rename((1, 1, 0))], numpy.array([[[5, 6]]])).tolist()
    [[[6, 6, 5]]]
    """
    import numpy as np

    lanes = np.arange(values.shape[1])[None, :]
    warps = np.arange(values.shape[0])[:, None]
    shared = values[:0, 0, 0]
    for step in steps:
        match step:
            case Rename(sources):
                values = values[:, :, list(sources)]
            case Select(lane_mask, warp_mask, even, odd):
                is_odd = _parity(lanes & lane_mask) ^ _parity(warps & warp_mask)
                index = np.where(is_odd[:, :, None], np.array(odd), np.array(even))
                values = values[warps[:, :, None], lanes[:, :, None], index]
            case Shuffle(lane_columns, warp_columns, offsets):
                source = _apply(lane_columns, lanes) ^ _apply(warp_columns, warps)
                index = source[:, :, None] ^ np.array(offsets)
                values = values[warps[:, :, None], index, np.arange(len(offsets))]
            case Store(tile, size, transfer):
                shared = np.zeros((size, *values.shape[3:]), values.dtype)
                order = [value for vector in transfer.vectors for value in vector]
                storing = (lanes & step.silent_lanes == 0) & (warps & step.silent_warps == 0)
                shared[_places(tile, transfer, lanes, warps)[storing]] = values[:, :, order][storing]
            case Load(tile, transfer):
                loaded = shared[_places(tile, transfer, lanes, warps)]
                order = [value for vector in transfer.vectors for value in vector]
                values = np.empty_like(loaded)
                values[:, :, order] = loaded
    return values


def converted(src: LinearLayout, dst: LinearLayout, values: NDArray[Any]) -> NDArray[Any]:
    """The definition: `values` of shape (warp, lane, register), held as `src` says, as `dst` wants them.

    Where `src` holds an element several times, the values there are taken to be equal.  Raises
    DivisibilityError when `dst` wants an element that `src` does not hold, ShapeError for values of other
    places than those of `src`.

    >>> import numpy
    >>> src = LinearLayout({"register": [1], "lane": [2]}, {"n": 4})
    >>> dst = LinearLayout({"register": [2], "lane": [1]}, {"n": 4})
    >>> converted(src, dst, numpy.array([[[0, 1], [2, 3]]])).tolist()
    [[[0, 2], [1, 3]]]
    """
    import numpy as np

    for layout in (src, dst):
        check_type("converted", layout, LinearLayout, "a LinearLayout")
    check_type("converted", values, np.ndarray, "an array (warp, lane, register)")
    source, wanted = over_places(src), over_places(dst)
    places = tuple(1 << bits for bits in reversed(source.in_bits.values()))
    if values.shape[:3] != places:
        raise ShapeError(
            f"converted: values of shape {values.shape}; the source has (warp, lane, register) of {places}"
        )
    held: dict[tuple[int, ...], Any] = {}
    for warp, lane, register in np.ndindex(values.shape[:3]):
        element = tuple(source(register=register, lane=lane, warp=warp).values())
        held.setdefault(element, values[warp, lane, register])
    registers, lanes, warps = (1 << bits for bits in wanted.in_bits.values())
    out = np.empty((warps, lanes, registers, *values.shape[3:]), values.dtype)
    for warp, lane, register in np.ndindex(warps, lanes, registers):
        element = tuple(wanted(register=register, lane=lane, warp=warp).values())
        if element not in held:
            raise DivisibilityError(
                f"the destination holds element {element}, which no place of the source does",
                lhs=src,
                rhs=dst,
            )
        out[warp, lane, register] = held[element]
    return out


def _places(tile: AnyLayout, transfer: Transfer, lanes: NDArray[Any], warps: NDArray[Any]) -> NDArray[Any]:
    """The places of each lane's values in shared memory: an array (warp, lane, value)."""
    import numpy as np

    starts = [
        base ^ k for base, v in zip(transfer.bases, transfer.vectors, strict=True) for k in range(len(v))
    ]
    moved = _apply(transfer.lane_columns, lanes) ^ _apply(transfer.warp_columns, warps)
    places: NDArray[Any] = np.asarray(tile(moved[:, :, None] ^ np.array(starts)))
    return places


def _apply(columns: Sequence[int], x: NDArray[Any]) -> NDArray[Any]:
    out = x & 0
    for j, column in enumerate(columns):
        out ^= (x >> j & 1) * column
    return out


def _parity(x: NDArray[Any]) -> NDArray[Any]:
    out = x & 0
    while x.any():
        out ^= x & 1
        x = x >> 1
    return out.astype(bool)
