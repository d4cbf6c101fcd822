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


_TORCH_FLOAT = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16"}


def torch_matmul(d: Any, a: Any, b: Any, element: str) -> Launch | None:
    """PyTorch's matmul(a, b, out=d), which calls cuBLAS; TF32 for the element "tf32" alone."""
    if find_spec("torch") is None or element not in _TORCH_FLOAT:
        return None
    import torch

    kind = getattr(torch, _TORCH_FLOAT[element])
    to, left, right = (torch.as_tensor(x, device="cuda") for x in (d, a, b))
    if element == "bf16":
        to, left, right = (x.view(kind) for x in (to, left, right))

    def launch() -> object:
        torch.backends.cuda.matmul.allow_tf32 = element == "tf32"
        return torch.matmul(left, right, out=to)

    return launch
