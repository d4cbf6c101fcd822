"""The baselines for the time of a launch: other libraries, and the least time that the hardware needs.

The libraries that users would otherwise call are launches on our buffers: functions take CuPy arrays (of
bfloat16: words) and return a launch, or None where the library is not installed or has no such element type.
This is the only module that imports torch.

What moves data is limited by bytes of memory, or by the load-store unit of a multiprocessor, which takes one
wavefront of shared memory per cycle, or one request to global memory; cycles are those of the board's clock,
or where no document states that, of the one that its rate of multiply-adds gives:

    least_us = max(bytes / bandwidth, (wavefronts + requests) / (multiprocessors * clock))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from layoutalg.arch import DEFAULT_ARCH, Arch, Board, find_board
from layoutalg.codegen.costs import Prediction
from layoutalg.kernels.elements import NUMPY_NAME, TORCH_CARRIER
from layoutalg.optional import import_trouble

Launch: TypeAlias = Callable[[], object]


def torch_assign(dst: Any, src: Any, to_type: str = "", of_type: str = "") -> Launch | None:
    """PyTorch's dst.copy_(src), for any strides: what `x.t().contiguous()` runs, without allocation.

    With element types of both the copy converts.
    """
    if import_trouble("torch", ""):
        return None
    to, of = _tensor(dst, to_type), _tensor(src, of_type)
    return lambda: to.copy_(of)


_TORCH_FLOAT = {"f64": "float64", "f32": "float32", "tf32": "float32", "f16": "float16", "bf16": "bfloat16"}
_TORCH_BYTES = {"e4m3": "float8_e4m3fn"}


def torch_matmul(d: Any, a: Any, b: Any, element: str) -> Launch | None:
    """PyTorch's matmul(a, b, out=d), or _int_mm of bytes, of cuBLAS; TF32 for the element "tf32" alone.

    _scaled_mm of 8-bit floats, whose sums are added up in f32, stores bf16 and takes operands along k.
    """
    if import_trouble("torch", "") or element not in (*_TORCH_FLOAT, *_TORCH_BYTES, "s8"):
        return None
    import torch

    to, left, right = (torch.as_tensor(x, device="cuda") for x in (d, a, b))
    if element == "s8":
        return lambda: torch._int_mm(left, right, out=to)
    if element in _TORCH_BYTES:
        kind, one = getattr(torch, _TORCH_BYTES[element]), torch.ones(1, device="cuda")
        left, right, to = left.view(kind), right.view(kind), to.view(torch.bfloat16)
        return lambda: torch._scaled_mm(left, right, one, one, out_dtype=to.dtype, out=to)
    if element == "bf16":
        to, left, right = (x.view(torch.bfloat16) for x in (to, left, right))

    def launch() -> object:
        torch.backends.cuda.matmul.allow_tf32 = element == "tf32"
        return torch.matmul(left, right, out=to)

    return launch


class GroupOperands(NamedTuple):
    """Rows of all groups, and a flat buffer that holds a matrix for each, of a shape (groups, k, n) and
    strides in elements; group g has the rows up to ends[g]."""

    a: Any
    b: Any
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    ends: tuple[int, ...]
    element: str


def torch_group_matmuls(d: Any, given: GroupOperands) -> Launch | None:
    """PyTorch's matmul(a, b, out=d) of each group that has rows, one after the other."""
    if import_trouble("torch", "") or given.element not in ("f16", "bf16"):
        return None
    import torch

    to, left, matrices = _tensor(d, given.element), *_halves(given)
    begins = (0, *given.ends[:-1])
    parts = [
        (left[begin:end], matrices[g], to[begin:end])
        for g, (begin, end) in enumerate(zip(begins, given.ends, strict=True))
        if begin < end
    ]

    def launch() -> None:
        for rows, matrix, out in parts:
            torch.matmul(rows, matrix, out=out)

    return launch


def torch_grouped_mm(given: GroupOperands) -> Launch | None:
    """PyTorch's `_grouped_mm`, which is not public; None where there is none, or where it refuses these."""
    if import_trouble("torch", "") or given.element != "bf16":
        return None
    import torch

    if not hasattr(torch, "_grouped_mm"):
        return None
    left, matrices = _halves(given)
    offsets = torch.tensor(given.ends, dtype=torch.int32, device="cuda")

    def launch() -> object:
        return torch._grouped_mm(left, matrices, offs=offsets)

    try:
        launch()
    except RuntimeError:
        return None
    return launch


def _halves(given: GroupOperands) -> tuple[Any, Any]:
    flat = _tensor(given.b, given.element)
    return _tensor(given.a, given.element), flat.as_strided(given.shape, given.strides)


_TORCH_REDUCTION = {
    "sum": "sum", "max": "amax", "min": "amin", "mean": "mean", "logsumexp": "logsumexp"
}  # fmt: skip

NORM_EPS = 1e-5
"""The default of PyTorch, and of layoutalg."""

MEAN_PLACES = 2.0**-22
"""The error of a mean in float32, relative to the largest element of its row: two last places."""


def torch_reduction(op: str, x: Any, axes: tuple[int, ...], element: str) -> Launch | None:
    """PyTorch's sum, amax, mean or norm; the launch returns its result, a new tensor.

    None where PyTorch has no such thing: products and indices over several axes.  Axes of a norm that PyTorch
    does not take are moved to the end, and stay there in the result.
    """
    if import_trouble("torch", ""):
        return None
    return _reduction(op, _tensor(x, element), axes)


def _reduction(op: str, y: Any, axes: tuple[int, ...]) -> Launch | None:
    import torch

    if op in ("prod", "argmax", "argmin"):
        single = getattr(torch, op)
        return (lambda: single(y, dim=axes[0])) if len(axes) == 1 else None
    if op in _TORCH_REDUCTION:
        reduction = getattr(torch, _TORCH_REDUCTION[op])
        return lambda: reduction(y, dim=axes)
    if op == "var":
        return lambda: torch.var(y, dim=axes, correction=0)
    if op == "softmax" and len(axes) == 1:
        return lambda: torch.softmax(y, axes[0])
    last = tuple(range(y.ndim - len(axes), y.ndim))
    if op == "softmax":
        return lambda: torch.softmax(y.movedim(axes, last).flatten(last[0]), -1)
    extents, norm = [y.shape[a] for a in axes], getattr(torch.nn.functional, op)
    return lambda: norm(y.movedim(axes, last), extents, eps=NORM_EPS)


def torch_cross_entropy(
    x: Any, target: Any, axis: int, element: str, ignore_index: int, reduction: str
) -> Launch | None:
    """PyTorch's cross entropy of logits along an axis; the launch returns its result, a new tensor."""
    if import_trouble("torch", ""):
        return None
    return _cross_entropy(_tensor(x, element), target, axis, ignore_index, reduction)


def torch_loss_difference(
    x: Any, target: Any, axis: int, element: str, ignore_index: int, reduction: str, ours: Any, result: str
) -> tuple[float, float]:
    """The same as `torch_difference` for a cross entropy."""
    exact = _cross_entropy(_tensor(x, element).double(), target, axis, ignore_index, reduction)
    wanted: Any = exact()
    got = _tensor(ours, result).double().reshape(wanted.shape)
    return float((got - wanted).abs().max()), float(wanted.abs().max())


def _cross_entropy(y: Any, target: Any, axis: int, ignore_index: int, reduction: str) -> Launch:
    import torch

    rows = y.movedim(axis, -1).reshape(-1, y.shape[axis])
    at = torch.as_tensor(target, device="cuda").reshape(-1).long()
    made = torch.nn.functional.cross_entropy
    return lambda: made(rows, at, ignore_index=ignore_index, reduction=reduction)


def torch_difference(op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any) -> tuple[float, float]:
    """Return the largest error of `ours` against PyTorch in float64, and the largest result.

    For a layer norm the error that a mean in float32 explains is subtracted: where elements differ only in
    the mean's last places, it is as large as the results.
    """
    last = tuple(range(x.ndim - len(axes), x.ndim))
    y, got = _tensor(x, element).double().movedim(axes, last), _tensor(ours, element).double()
    launch = _reduction(op, y, last)
    wanted: Any = launch and launch()
    if wanted.numel() == y.numel():  # a norm, whose axes were moved to the end
        got = got.reshape(x.shape).movedim(axes, last)
    apart = (got.reshape(wanted.shape) - wanted).abs()
    if op == "layer_norm":
        deviation = (y.var(last, correction=0, keepdim=True) + NORM_EPS).sqrt()
        apart = apart - y.abs().amax(last, keepdim=True) * MEAN_PLACES / deviation
    return float(apart.max().clamp_min(0)), float(wanted.abs().max())


def torch_wrong_indices(op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any) -> int:
    """Count the indices that are not those of the first "argmax" or "argmin" along an axis, by PyTorch."""
    import torch

    y, (axis,) = _tensor(x, element), axes
    best = (y.amax if op == "argmax" else y.amin)(axis, keepdim=True)
    places = torch.arange(y.shape[axis], device=y.device).reshape(-1, *[1] * (y.ndim - 1 - axis))
    first = torch.where(y == best, places, y.shape[axis]).amin(axis)
    return int((torch.as_tensor(ours.view("int64"), device="cuda").reshape(first.shape) != first).sum())


def _tensor(x: Any, element: str) -> Any:
    """A CuPy array as a PyTorch tensor of an element type, or of words, that shares its memory."""
    import torch

    words = torch.as_tensor(x.view(TORCH_CARRIER[x.itemsize]), device="cuda")
    return words.view(getattr(torch, _TORCH_FLOAT.get(element) or NUMPY_NAME[element])) if element else words


def torch_map(op: str, dst: Any, sources: Sequence[Any], element: str) -> Launch | None:
    """PyTorch's add, or its function of a name, of arrays of one shape; None where it has none."""
    if import_trouble("torch", ""):
        return None
    import torch

    to, *of = (_tensor(x, element) for x in (dst, *sources))
    if op == "add":
        return lambda: torch.add(*of, out=to)
    functional = torch.nn.functional
    if op == "gelu_tanh":
        return lambda: functional.gelu(*of, approximate="tanh")
    compute = getattr(functional, op, None)
    return compute and (lambda: compute(*of))


# --- the hardware -----------------------------------------------------------------------------------------

FLOPS_PER_CYCLE = 256
"""The operations of a multiprocessor with 128 FMA lanes, as boards' rates count them."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The requests to a unit of the hardware, and the least time they need, in microseconds."""

    unit: str
    asked: int
    least_us: float

    def __str__(self) -> str:
        return f"{self.unit}: {self.asked}, {self.least_us:.1f} us"


def clock_of(board: Board) -> float:
    """The clock of a board's rates in Hz, where its document states none that at which FFMA reaches its rate.

    >>> clock_of(find_board("sm_90")) / 1e6
    1980.0
    """
    return board.boost_hz or board.f32_flops_per_s / (board.sms * FLOPS_PER_CYCLE)


def limits(
    moved_bytes: int, predictions: Iterable[Prediction], arch: str | Arch = DEFAULT_ARCH
) -> tuple[Bound, ...]:
    """The bounds of some launches that move so many bytes of memory, the tightest first.

    Raises as `find_board` does.

    >>> [str(b) for b in limits(1 << 27, [])]
    ['bytes of memory: 134217728, 28.0 us', 'load-store cycles: 0, 0.0 us']
    """
    board = find_board(arch)
    cycles = sum(
        cost.instructions if "global" in op else cost.total for x in predictions for op, cost in x.items()
    )
    bounds = (
        Bound("bytes of memory", moved_bytes, moved_bytes / board.dram_bytes_per_s * 1e6),
        Bound("load-store cycles", cycles, cycles / (board.sms * clock_of(board)) * 1e6),
    )
    return tuple(sorted(bounds, key=lambda b: -b.least_us))


def torch_attention(
    backend: str, given: Sequence[Any], element: str, *, causal: bool, scale: float, group: int
) -> Launch | None:
    """PyTorch's scaled_dot_product_attention of q, k and v by a back end, "cudnn" or "flash"; None where it
    is missing or refuses these."""
    if import_trouble("torch", ""):
        return None
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (_tensor(x, element) for x in given)
    chosen = SDPBackend.CUDNN_ATTENTION if backend == "cudnn" else SDPBackend.FLASH_ATTENTION

    def launch() -> object:
        with sdpa_kernel([chosen]):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, scale=scale, enable_gqa=group > 1
            )

    try:
        launch()
    except RuntimeError:
        return None
    return launch
