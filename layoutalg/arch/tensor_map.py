"""The tensor map: what the driver must know before TMA can copy boxes of a tensor, one parameter at a time.

The idea.  A tensor map describes a tensor in global memory, innermost dimension first, and the box that one
copy moves.  f16 (4096,1024) row-major in boxes of 64 x 64, swizzled by 128 bytes:

    tensorDataType   CU_TENSOR_MAP_DATA_TYPE_FLOAT16 (6)
    globalDim        1024 4096          elements, innermost first
    globalStrides    2048               bytes, of all dimensions but the innermost, whose stride is 1
    boxDim           64 64
    elementStrides   1 1
    swizzle          CU_TENSOR_MAP_SWIZZLE_128B (3)

The 128 bytes that cuTensorMapEncodeTiled makes of them are opaque, so the parameters are the record here, and
nothing is encoded.

>>> m = TensorMap(dtype("f16"), (1024, 4096), (2048,), (64, 64), (1, 1), mode=SWIZZLE_MODES["128B"])
>>> tensor_map_arguments(m)["swizzle"]
Enumerator(name='CU_TENSOR_MAP_SWIZZLE_128B', value=3)

Notes.  A TensorMap may be illegal: `layoutalg.legality.check_tma` says what the driver accepts.  Types that
TMA only carries (e4m3, s8, complex) travel as unsigned integers of their width.

Sources.  CUDA Driver API, "Tensor Map Object Management", cuTensorMapEncodeTiled and its enumerations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from layoutalg.arch.swizzle_modes import SWIZZLE_MODES, SwizzleMode
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, UnsupportedError, check_type, shown

SOURCE = "CUDA Driver API, cuTensorMapEncodeTiled"


class Enumerator(NamedTuple):
    """A value of a driver enumeration."""

    name: str
    value: int


def _types() -> Mapping[str, Enumerator]:
    codes = (
        ("UINT8", "u8 s8 e4m3 e5m2"), ("UINT16", "u16 s16"), ("UINT32", "u32"), ("INT32", "s32"),
        ("UINT64", "u64 c64"), ("INT64", "s64"), ("FLOAT16", "f16"), ("FLOAT32", "f32"), ("FLOAT64", "f64"),
        ("BFLOAT16", "bf16"), ("FLOAT32_FTZ", ""), ("TFLOAT32", "tf32"),
    )  # fmt: skip
    return MappingProxyType(
        {
            dtype(name).name: Enumerator(f"CU_TENSOR_MAP_DATA_TYPE_{code}", value)
            for value, (code, names) in enumerate(codes)
            for name in names.split()
        }
    )


TENSOR_MAP_TYPES: Mapping[str, Enumerator] = _types()
"""Element type -> CUtensorMapDataType; types without an entry cannot be copied as such."""

FLOAT_TYPES = frozenset(("f16", "bf16", "f32", "tf32", "f64"))
"""Types whose elements outside the tensor may be filled with NaN instead of 0."""

INTERLEAVES: Mapping[int, Enumerator] = MappingProxyType(
    {
        n: Enumerator(f"CU_TENSOR_MAP_INTERLEAVE_{n}B" if n else "CU_TENSOR_MAP_INTERLEAVE_NONE", i)
        for i, n in enumerate((0, 16, 32))
    }
)
"""Bytes of channels that lie together (NC/8HWC8: 16) -> CUtensorMapInterleave."""

L2_PROMOTIONS: Mapping[int, Enumerator] = MappingProxyType(
    {
        n: Enumerator(f"CU_TENSOR_MAP_L2_PROMOTION_{f'L2_{n}B' if n else 'NONE'}", i)
        for i, n in enumerate((0, 64, 128, 256))
    }
)
"""Bytes that L2 fetches at a time -> CUtensorMapL2promotion."""


MULTICAST_LEAST, MULTICAST_ZEROS = 2, 3
"""The fewest sectors of a box that several blocks get: for each 128 bytes of a row, of every line of memory
(128 bytes) that they touch, and for a row, of zeros where some of it is out of bounds: MEASURED on an H200
(tests/data/h200_multicast.json)."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """The parameters of cuTensorMapEncodeTiled, innermost dimension first; the address is given at run time.

    `dims` counts elements; `strides_bytes` has one entry fewer, because the innermost stride is one element;
    `box` is what one copy covers, `element_strides` the step inside it.  Raises ShapeError when their lengths
    do not fit, or an interleave or promotion is in no enumeration; limits are left to check_tma.

    >>> TensorMap(dtype("u8"), (64,), (), (64,), (1,)).rank
    1
    """

    element: DType
    dims: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave_bytes: int = 0
    mode: SwizzleMode = SWIZZLE_MODES["none"]
    l2_promotion_bytes: int = 0
    nan_fill: bool = False

    def __post_init__(self) -> None:
        rank = len(self.dims)
        if (len(self.strides_bytes), len(self.box), len(self.element_strides)) != (rank - 1, rank, rank):
            raise ShapeError(
                f"tensor map of {rank} dimensions with {len(self.strides_bytes)} strides, a box of "
                f"{len(self.box)} sides and {len(self.element_strides)} element strides; {rank - 1}, {rank} "
                f"and {rank} are needed"
            )
        for name, value, known in (
            ("interleave", self.interleave_bytes, INTERLEAVES),
            ("L2 promotion", self.l2_promotion_bytes, L2_PROMOTIONS),
        ):
            if value not in known:
                raise ShapeError(f"{name} of {shown(value)} bytes; there are {', '.join(map(str, known))}")

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)


def tensor_map_arguments(tensor_map: TensorMap) -> dict[str, Enumerator | int | tuple[int, ...]]:
    """The arguments of cuTensorMapEncodeTiled by their names there, without the two addresses.

    Raises UnsupportedError for an element type that the driver has no name for.

    >>> m = TensorMap(dtype("bf16"), (256, 8), (512,), (64, 8), (1, 1))
    >>> tensor_map_arguments(m)["tensorDataType"].value, tensor_map_arguments(m)["globalStrides"]
    (9, (512,))
    """
    check_type("tensor_map_arguments", tensor_map, TensorMap, "a tensor map")
    kind = TENSOR_MAP_TYPES.get(tensor_map.element.name)
    if kind is None:
        raise UnsupportedError(
            f"tensor map of {tensor_map.element}; it exists for {', '.join(TENSOR_MAP_TYPES)}"
        )
    mode = tensor_map.mode
    return {
        "tensorDataType": kind,
        "tensorRank": tensor_map.rank,
        "globalDim": tensor_map.dims,
        "globalStrides": tensor_map.strides_bytes,
        "boxDim": tensor_map.box,
        "elementStrides": tensor_map.element_strides,
        "interleave": INTERLEAVES[tensor_map.interleave_bytes],
        "swizzle": Enumerator(f"CU_TENSOR_MAP_SWIZZLE_{mode.name.upper()}", mode.tensor_map_code),
        "l2Promotion": L2_PROMOTIONS[tensor_map.l2_promotion_bytes],
        "oobFill": Enumerator(
            f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{'NAN_REQUEST_ZERO_FMA' if tensor_map.nan_fill else 'NONE'}",
            int(tensor_map.nan_fill),
        ),
    }
