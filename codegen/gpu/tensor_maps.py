"""Tensor maps as a launch passes them: 128 bytes that the driver makes of a record and an address.

    images = MapImages(TensorMap(dtype("f16"), (64, 100), (208,), (64, 64), (1, 1)))
    images.at(address)                   128 bytes, encoded once per address

The idea.  What TMA is to know is the record arch.TensorMap, which people, the simulator and the rules of
legality read.  Its bytes are opaque: no document says what they hold, so nothing here reads them, and the
record is what is beside them.  To encode takes microseconds, and a launch that is repeated has the same
addresses again: the images of a form are kept by address, up to a limit.

A map that breaks a rule is refused with the nearest legal change before the driver, which would say no
more than CUDA_ERROR_INVALID_VALUE.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from layoutalg.arch import TensorMap
from layoutalg.codegen.gpu.driver import encode_tiled, status_name
from layoutalg.errors import UnsupportedError
from layoutalg.legality import check_tensor_map

MOST_IMAGES = 256
"""Addresses for which a form keeps its image; the one that was encoded first goes first."""

WIDEST = 256
"""Rules of global addresses require at most this many bytes."""


def encode_tensor_map(
    tensor_map: TensorMap, address: int, *, arch: str = "sm_90", library: Any = None
) -> bytes:
    """The 128 bytes of a tensor map of the tensor at `address`, in bytes; `library` replaces libcuda.

    Raises the error of the first rule that is broken, with the nearest legal change, and UnsupportedError for
    an architecture without TMA, and with the driver's name for it for what the driver alone refuses.

    >>> from types import SimpleNamespace
    >>> from layoutalg.dtype import dtype
    >>> m = TensorMap(dtype("f16"), (64, 100), (200,), (64, 64), (1, 1))
    >>> encode_tensor_map(m, 1 << 20, library=SimpleNamespace())
    Traceback (most recent call last):
    ...
    layoutalg.errors.AlignmentError: tensor map of f16 (64,100) in boxes (64,64), mode none: tma.stride: \
the stride of leaf 1 is 200 bytes; accepted are multiples of 16 bytes; nearest: 208 bytes, 8 bytes of padding
    """
    require_legal(tensor_map, min(address & -address or WIDEST, WIDEST), arch)
    status, image = encode_tiled(tensor_map, address, library)
    if status:
        raise UnsupportedError(
            f"cuTensorMapEncodeTiled of {tensor_map} at {address:#x}: {status_name(status, library)}"
        )
    return image


def require_legal(tensor_map: TensorMap, alignment_bytes: int, arch: str = "sm_90") -> None:
    """Raise the error of a rule that a tensor map breaks, where its address is a multiple of so many bytes.

    >>> from layoutalg.dtype import dtype
    >>> require_legal(TensorMap(dtype("u8"), (64,), (), (64,), (1,)), 16)
    """
    if alignment_bytes < _least_alignment(tensor_map, arch):
        check_tensor_map(tensor_map, global_alignment_bytes=alignment_bytes, arch=arch).require()


@functools.lru_cache(maxsize=1024)
def _least_alignment(tensor_map: TensorMap, arch: str) -> int:
    """The least power of two that, if it divides the address, breaks no rule: what divides it too is as good;
    past WIDEST where there is none."""
    nbytes = 16
    while (
        nbytes <= WIDEST and check_tensor_map(tensor_map, global_alignment_bytes=nbytes, arch=arch).violations
    ):
        nbytes *= 2
    return nbytes


class MapImages:
    """The images of one form, by address."""

    __slots__ = ("_arch", "_images", "_lock", "tensor_map")

    def __init__(self, tensor_map: TensorMap, arch: str = "sm_90") -> None:
        self.tensor_map, self._arch = tensor_map, arch
        self._images: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def at(self, address: int) -> bytes:
        """The 128 bytes for a tensor at an address.  Raises what `encode_tensor_map` raises."""
        image = self._images.get(address)
        if image is None:
            image = encode_tensor_map(self.tensor_map, address, arch=self._arch)
            with self._lock:
                while len(self._images) >= MOST_IMAGES:
                    del self._images[next(iter(self._images))]
                self._images[address] = image
        return image

    def __len__(self) -> int:
        return len(self._images)
