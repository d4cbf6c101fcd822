"""The libraries users would otherwise call, as launches on our buffers; the only module that imports torch.

Every function takes matrices as CuPy arrays and returns a launch, or None where the library is not
installed or has no such element type.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeAlias

Launch: TypeAlias = Callable[[], object]

_TORCH_CARRIER = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def torch_assign(dst: Any, src: Any) -> Launch | None:
    """PyTorch's dst.copy_(src), whatever the strides: what `x.t().contiguous()` runs, without allocation."""
    if find_spec("torch") is None:
        return None
    import torch

    to, of = (torch.as_tensor(a.view(_TORCH_CARRIER[a.itemsize]), device="cuda") for a in (dst, src))
    return lambda: to.copy_(of)
