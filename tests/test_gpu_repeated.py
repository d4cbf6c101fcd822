"""Calls on GPU arrays, without a GPU: what they launch where, what a repeated one costs and must not miss."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, repeat
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layoutalg import ops
from layoutalg.codegen.gpu import compile_sequence, launch
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.kernels import FAMILIES, plan_cache
from layoutalg.kernels.calls import operation
from layoutalg.kernels.gemm import BatchMode, GemmProblem, gemm_problem
from layoutalg.kernels.rowwise import cross_entropy_problem, norm_problem, room
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.draws.sequences import launches_of
from tests.stand_ins.cache_faults import place
from tests.stand_ins.cuda_driver import STREAM, Array, Driver, standing_in
from tests.sweeps import each

MOST_CALLS = 12
"""Python calls of a call that repeats another, of one kernel or two."""

COMPILED: dict[str, Any] = {}
READY = plan_cache.ready_sequence


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver in CuPy's place; nothing is kept from another test, but compiled code."""

    def made(family: str, p: Any, arch: str, folder: Path | None, gpu: str) -> Any:
        if isinstance(p, GemmProblem):
            return READY(family, p, arch, None)
        if str(p) not in COMPILED:
            COMPILED[str(p)] = compile_sequence(launches_of(p, arch), arch).ready()
        return COMPILED[str(p)]

    monkeypatch.setattr(plan_cache, "ready_sequence", made)
    yield from standing_in(monkeypatch)


@pytest.fixture
def planned(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Problems that are planned."""
    seen, ready = list[str](), plan_cache.ready_sequence

    def counted(family: str, p: Any, *more: Any) -> Any:
        seen.append(str(p))
        return ready(family, p, *more)

    monkeypatch.setattr(plan_cache, "ready_sequence", counted)
    return seen


def tensors(monkeypatch: pytest.MonkeyPatch) -> type:
    """A class of tensors that is PyTorch's, as far as calls ask."""

    class Tensor:
        dtype = type(
            "dtype", (), {"itemsize": 4, "is_complex": False, "__str__": lambda self: "torch.float32"}
        )()
        device = type("device", (), {"type": "cuda", "index": 0})()
        layout, is_quantized, requires_grad, negative, made = "strided", False, False, False, [0x90000]
        is_conj = staticmethod(lambda: False)

        def __init__(self, address: int, shape: tuple[int, ...]) -> None:
            self.address, self.shape = address, shape

        def is_neg(self) -> bool:
            return self.negative

        def data_ptr(self) -> int:
            return self.address

        def stride(self) -> tuple[int, ...]:
            if self.layout != "strided":
                raise RuntimeError("sparse tensors do not have strides")
            return Array(0, self.shape, "u1").strides

        def new_empty(self, shape: tuple[int, ...]) -> Tensor:
            if not self.made:
                raise OutOfMemory
            return Tensor(self.made[0], shape)

    class OutOfMemory(RuntimeError):
        """No memory is left."""

    def empty_strided(shape: tuple[int, ...], strides: tuple[int, ...], **options: Any) -> Tensor:
        assert strides == Tensor(0, shape).stride() and list(options) == ["dtype", "device"]
        if not Tensor.made:
            raise OutOfMemory
        return Tensor(Tensor.made[0], shape)

    torch = ModuleType("torch")
    torch.__dict__.update(
        Tensor=Tensor, strided="strided", empty_strided=empty_strided, is_grad_enabled=lambda: torch.grad,
        cuda=SimpleNamespace(OutOfMemoryError=OutOfMemory, mem_get_info=lambda device: (7, 8)),
        _C=SimpleNamespace(_cuda_getCurrentRawStream={0: 11}.__getitem__), grad=True,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    return Tensor


def calls_of(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """The result of a call, and the functions of the library that are called meanwhile."""
    counted: list[str] = []

    def seen(frame: Any, event: str, arg: object) -> None:
        if event == "call" and "layoutalg" in frame.f_globals.get("__name__", ""):
            counted.append(frame.f_code.co_name)

    sys.setprofile(seen)
    try:
        return call(), counted
    finally:
        sys.setprofile(None)


def addresses(driver: Driver) -> list[list[int]]:
    return [values for _, _, values in driver.launched]


X, OUT, W, B = (Array(n << 16, shape) for n, shape in enumerate(((64, 96), (64, 96), (96,), (96,)), 1))
COLUMN, TURNED, LONG = Array(5 << 16, (64,)), Array(6 << 16, (96, 64)), Array(1 << 40, (1, 1 << 24))
# Rows of 124 bytes, which TMA does not read: what a tensor map packs is another test's.
M, N, D = (Array(n << 16, shape, "f2") for n, shape in ((7, (64, 62)), (8, (62, 62)), (9, (64, 62))))
FLAT, NAMES, ONE = Array(10 << 16, (96,)), Array(11 << 16, (64,), "i8"), Array(12 << 16, ())
ROWS, COLUMNS = Layout((8, 12), (12, 1)), Layout((8, 12))

CALLS: dict[str, tuple[Callable[[], Any], int, int]] = {
    "permute": (lambda: ops.permute(X, (1, 0), TURNED), 2, 1),
    "permute, new": (lambda: ops.permute(X, (1, 0)), 2, 1),
    "transpose": (lambda: ops.transpose(X, None, TURNED), 2, 1),
    "relayout": (lambda: ops.relayout(FLAT, ROWS, COLUMNS, B), 2, 1),
    "softmax": (lambda: ops.softmax(X, out=OUT), 2, 1),
    "softmax, new": (lambda: ops.softmax(X), 2, 1),
    "softmax in place": (lambda: ops.softmax(X, out=X), 1, 1),
    "layer_norm": (lambda: ops.layer_norm(X, -1, W, B, out=OUT), 4, 1),
    "rms_norm": (lambda: ops.rms_norm(X, -1, W, out=OUT), 3, 1),
    "sum": (lambda: ops.reduce(X, "sum", 1, out=COLUMN), 2, 1),
    "cross_entropy": (lambda: ops.cross_entropy(X, NAMES, reduction="none", out=COLUMN), 3, 1),
    "matmul": (lambda: ops.matmul(M, N, D, alpha=2), 0, 1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_is_a_few_python_calls_and_the_same_launch(name: str, driver: Driver) -> None:
    call, arguments, kernels = CALLS[name]
    if not arguments:  # all parameters of a product: read what it packs
        arguments = 4
    driver.arguments = repeat(arguments)
    call()
    first = driver.launched[-1]
    _, counted = calls_of(call)
    assert 1 <= len(counted) <= MOST_CALLS and "view" not in counted, counted
    last = driver.launched[-1]
    assert len(driver.launched) == 2 * kernels and len(driver.loaded) == kernels
    if "new" not in name:
        assert first == last
    else:
        assert first[:2] == last[:2] and first[2][0] == last[2][0] and first[2][1] + (1 << 20) == last[2][1]


def test_a_product_of_an_operand_that_is_copied_is_kept_too(driver: Driver) -> None:
    """Its copy lies in the scratch memory of the call, and the product reads it there."""
    backwards = Array(40 << 16, (64, 62), "f2")
    backwards.strides = (-128, 2)
    driver.arguments = repeat(2)
    ops.matmul(backwards, N, D)
    _, counted = calls_of(lambda: ops.matmul(backwards, N, D))
    assert len(counted) <= MOST_CALLS and len(driver.loaded) == 2 and len(driver.launched) == 4
    (source, first), (_, again) = addresses(driver)[::2]
    assert source == (40 << 16) - 63 * 128 and again == first + (1 << 20)


def test_losses_and_sums_lie_in_the_scratch_memory(driver: Driver) -> None:
    """A mean of losses: three kernels, of which each reads what the one before wrote."""
    driver.arguments = cycle((3, 2, 2))
    for _ in range(2):
        ops.cross_entropy(X, NAMES, out=ONE)
        (source, losses, names), (given, sums), (last, mean) = addresses(driver)[-3:]
        assert (source, mean) == (X.data.ptr, ONE.data.ptr) and NAMES.data.ptr in (losses, names)
        assert given in (losses, names) and last == sums == given + 2 * 64 * 4


def test_losses_lie_behind_the_partials_of_the_configuration_that_runs(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock may name one that shares rows among blocks, whose partials take memory."""
    wide, names = Array(1 << 30, (2, 5000)), Array(2 << 30, (2,), "i8")
    p = cross_entropy_problem((2, 5000))
    family = FAMILIES["cross_entropy"]
    locked = replace(family.choose(p, "sm_90a"), splits=3)
    ready = compile_sequence(family.launches(p, locked, "sm_90a"), "sm_90a").ready()
    monkeypatch.setattr(plan_cache, "ready_sequence", lambda *given, **limits: ready)
    driver.arguments = (len(names) for names in ready.buffers)
    ops.cross_entropy(wide, names, out=ONE)
    given = dict(zip(ready.buffers[1], addresses(driver)[1], strict=True))
    assert given["losses"] - given["scratch"] == room(p, locked, "sm_90a").losses > 0


def test_a_chain_of_two_kernels_builds_nothing_anew(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = launches_of(norm_problem("softmax", (1, 1 << 24), 1, "f32", in_place=True)).buffers
    driver.arguments = cycle((len(first), len(second)))
    ops.softmax(LONG, out=LONG)
    monkeypatch.setattr(launch, "Packed", None)
    monkeypatch.setattr(launch, "attribute_launcher", None)
    _, ours = calls_of(lambda: ops.softmax(LONG, out=LONG))
    assert len(ours) <= MOST_CALLS, ours
    assert driver.together == [1, 3] and len(driver.launched) == 4
    for n, values in enumerate(addresses(driver)):
        where = {"src": 1 << 40, "dst": 1 << 40, "scratch": (1 + n // 2) << 20}
        assert values == [where[name] for name in (first, second)[n % 2]]


def test_what_arrays_show_decides(driver: Driver, planned: list[str]) -> None:
    """Another shape, type, stride, start or device is another entry, and launches what it should."""
    for x, made in ((0x4000, 1), (0x8000, 2), (0x4000, 3)):
        y = ops.permute(Array(x, (6, 40)), (1, 0))
        assert type(y) is Array and y.shape == (40, 6) and y.dtype == "f4"
        assert addresses(driver)[-1] == [x, made << 20]
    assert len(planned) == len(driver.loaded) == 1 and driver.taken_up == [0]
    out, turned = Array(0x90000, (40, 6)), Array(0x8000, (6, 40))
    for start, unit in ((0x4004, 0x4000), (0x8004, 0x8000), (0x4008, 0x4000), (0x4000, 0x4000)):
        assert ops.permute(Array(start, (6, 40)), (1, 0), out) is out
        assert addresses(driver)[-1] == [unit, 0x90000]
    assert len(planned) == 3 and "at 1 -> 0" in planned[1]
    turned.strides = (4, 24)
    ops.permute(turned, (1, 0), out)
    ops.permute(Array(0x8000, (6, 40), "f8"), (1, 0), Array(0x90000, (40, 6), "f8"))
    ops.permute(Array(0x8000, (6, 40), device=1), (1, 0), Array(0x90000, (40, 6), device=1))
    assert len(driver.loaded) == 6


def test_types_of_one_width_share_a_kernel_and_a_transpose_is_a_permute(
    driver: Driver, planned: list[str]
) -> None:
    for dtype in ("f4", "i4", "u4"):
        assert ops.permute(Array(0x4000, (6, 5, 40), dtype), (2, 1, 0)).dtype == dtype
    assert ops.transpose(Array(0x4000, (6, 5, 40))).shape == (40, 5, 6)
    assert len(driver.launched) == 4 and len(planned) == 1


def test_a_call_runs_on_the_device_of_its_array_each_time(driver: Driver) -> None:
    for device in (0, 1, 0, 1, 1, 0):
        y = ops.softmax(Array(0x4000, (6, 40), device=device))
        assert y.data.device_id == device
    assert driver.devices == [0, 1, 0, 1, 1, 0] and driver.current == 0 and len(driver.loaded) == 2
    with pytest.raises(ArgumentTypeError, match="out is an array of cupy on GPU 1"):
        ops.permute(X, (1, 0), Array(0x9000, (96, 64), device=1))


def test_overlap_and_place_are_seen_at_every_call(driver: Driver) -> None:
    x = Array(0x4000, (6, 40))
    away = x.data.ptr + 960
    for out in (away, away + 16, x.data.ptr - 960):
        ops.permute(x, (1, 0), Array(out, (40, 6)))
    for out in (away - 16, x.data.ptr - 944, x.data.ptr):
        with pytest.raises(ArgumentTypeError, match="overlap"):
            ops.permute(x, (1, 0), Array(out, (40, 6)))
    driver.arguments = repeat(2)
    ops.softmax(x, out=Array(away, (6, 40)))
    driver.arguments = repeat(1)
    for _ in range(2):
        ops.softmax(x, out=Array(x.data.ptr, (6, 40)))
        assert addresses(driver)[-1] == [x.data.ptr]
    with pytest.raises(ArgumentTypeError, match="overlap"):
        ops.softmax(x, out=Array(x.data.ptr + 16, (6, 40)))
    weight = Array(0x20000, (40,))
    driver.arguments = repeat(3)
    ops.rms_norm(x, -1, weight, out=Array(away, (6, 40)))
    with pytest.raises(ArgumentTypeError, match="overlap"):
        ops.rms_norm(x, -1, Array(away, (40,)), out=Array(away, (6, 40)))


@each(
    ("right", "wrong", "error"),
    [
        (lambda: ops.permute(X, (1, 0)), lambda: ops.permute(X, (True, False)), ArgumentTypeError),
        (lambda: ops.transpose(X), lambda: ops.permute(X, None), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: ops.softmax(X, 1), lambda: ops.softmax(X, True), ArgumentTypeError),
        (lambda: ops.softmax(X, 1), lambda: ops.softmax(X, 1.0), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: ops.softmax(X, (1,)), lambda: ops.softmax(X, (True,)), ArgumentTypeError),
        (lambda: ops.softmax(X), lambda: ops.softmax(X, simulate=True), ArgumentTypeError),
        (lambda: ops.softmax(X), lambda: ops.softmax(X, simulate=0), ArgumentTypeError),  # type: ignore[arg-type]
        (lambda: ops.rms_norm(X, eps=1), lambda: ops.rms_norm(X, eps=True), ArgumentTypeError),
        (lambda: ops.softmax(X, (0,)), lambda: ops.softmax(X, (0, 0)), ShapeError),
    ],
)  # fmt: skip
def test_what_equals_a_known_option_and_is_refused_stays_refused(
    right: Callable[[], Any], wrong: Callable[[], Any], error: type, driver: Driver
) -> None:
    right()
    right()
    with pytest.raises(error):
        wrong()


def test_options_that_are_no_values_are_worked_out_each_time(driver: Driver) -> None:
    order = iter((1, 0))
    assert ops.permute(X, order).shape == (96, 64)
    with pytest.raises(ShapeError, match="not a permutation"):  # nothing is left of it
        ops.permute(X, order)
    assert ops.permute(X, [1, 0]).shape == (96, 64)
    assert len(operation.CALLS) == 0


def test_gradients_and_lazy_values_are_refused_at_every_call(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tensor = tensors(monkeypatch)
    x, out = Tensor(0x4000, (6, 40)), Tensor(0x80000, (6, 40))
    for _ in range(2):
        assert ops.softmax(x, out=out) is out
        assert ops.softmax(x).address == 0x90000
    torch: Any = sys.modules["torch"]
    for tensor in (x, out):
        tensor.requires_grad = True
        with pytest.raises(UnsupportedError, match="records gradients"):
            ops.softmax(x, out=out)
        torch.grad = False
        ops.softmax(x, out=out)
        torch.grad, tensor.requires_grad = True, False
    x.negative = True
    with pytest.raises(UnsupportedError, match="negative not yet computed"):
        ops.softmax(x, out=out)
    x.negative = False
    x.layout = "sparse"
    with pytest.raises(UnsupportedError, match="sparse"):
        ops.softmax(x, out=out)
    assert len(driver.launched) == 6 and {stream for _, stream, _ in driver.launched} == {11}


def test_results_come_from_the_allocator_of_compiled_code_where_it_is_the_devices(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tensor = tensors(monkeypatch)
    x, asked = Tensor(0x4000, (6, 40)), list[tuple[Any, ...]]()

    def quick(*given: Any) -> Any:
        asked.append(given)
        return Tensor(0xA0000, given[0])

    torch: Any = sys.modules["torch"]
    torch._C._dynamo = SimpleNamespace(guards=SimpleNamespace(_empty_strided_cuda=quick))
    ops.softmax(x)
    assert ops.softmax(x).address == 0xA0000
    assert asked == [((1,), (1,), x.dtype), ((6, 40), (40, 1), x.dtype)]
    operation.forget()
    monkeypatch.setattr(Tensor, "device", property(lambda self: object()), raising=True)
    assert operation._allocator(torch, x.dtype, "another") is None


def test_memory_that_is_out_or_lies_elsewhere_goes_the_long_way(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tensor = tensors(monkeypatch)
    x = Tensor(0x4000, (6, 40))
    ops.softmax(x)
    Tensor.made[:] = [0x90008]  # type: ignore[attr-defined]
    ops.softmax(x)
    assert addresses(driver) == [[0x4000, 0x90000], [0x4000, 0x90000]] and len(driver.loaded) == 2
    Tensor.made.clear()  # type: ignore[attr-defined]
    with pytest.raises(ResourceError, match="bytes of GPU memory: 960 asked, the limit is 7"):
        ops.softmax(x)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_scratch_memory_that_does_not_fit_is_refused_in_bytes(
    library: str, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a call that is worked out and in one that repeats it, with the library's own error as the cause."""
    p = norm_problem("softmax", (1, 1 << 24), 1, "f32", in_place=True)
    driver.arguments = cycle(len(names) for names in launches_of(p).buffers)
    asked = -(-launches_of(p).scratch_bytes // 4) * 4
    own: Any = tensors(monkeypatch) if library == "torch" else Array
    x = own(1 << 40, (1, 1 << 24))
    for _ in range(2):
        before = len(driver.launched)
        with monkeypatch.context() as patch:
            patch.setattr(driver, "full", True)
            if library == "torch":
                patch.setattr(own, "made", [])
            with pytest.raises(ResourceError, match=f"GPU memory: {asked} asked, the limit is 7") as refused:
                ops.softmax(x, out=x)
        assert type(refused.value.__cause__).__name__ in ("OutOfMemory", "MemoryError")
        assert len(driver.launched) == before
        ops.softmax(x, out=x)
        assert len(operation.CALLS) == 1


def test_threads_share_what_is_known(driver: Driver) -> None:
    """Every launch gets the addresses it was called with, whoever else repeats the call."""
    ops.softmax(X, out=OUT)
    driver.meanwhile = lambda: None
    wanted = [[(64 * n + thread) << 12, (64 * n + thread) << 24] for thread in range(4) for n in range(1, 50)]

    def work(thread: int) -> None:
        for x, out in wanted[49 * thread : 49 * (thread + 1)]:
            ops.softmax(Array(x, (64, 96)), out=Array(out, (64, 96)))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(addresses(driver)[1:]) == sorted(wanted) and len(driver.loaded) == 1
    assert len(driver.taken_up) == 5


def test_the_oldest_calls_leave(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation, "LOADED_PLANS", 2)
    for eps in (0.5, 0.25, 2.0, 0.5):
        ops.rms_norm(X, eps=eps)
        assert len(operation.CALLS) <= 2
    assert len(driver.loaded) == 3  # whose kernels stay with their plans


def test_a_prepared_call_is_its_launches(driver: Driver) -> None:
    made: list[Callable[[], Any]] = [
        ops.prepare("softmax", X, OUT),
        ops.prepare("sum", X, COLUMN, axes=1),
        ops.prepare("permute", X, TURNED, axes=(1, 0)),
        ops.prepare("relayout", FLAT, B, src=ROWS, dst=COLUMNS),
        ops.prepare("matmul", M, D, b=N),
    ]
    assert not driver.launched
    for call, out in zip(made, (OUT, COLUMN, TURNED, B, D), strict=True):
        assert call() is out
        got, counted = calls_of(call)
        assert got is out and len(counted) <= 7, counted
    assert [values for _, _, values in driver.launched[:4:2]] == [
        [X.data.ptr, OUT.data.ptr], [X.data.ptr, COLUMN.data.ptr],
    ]  # fmt: skip
    assert {stream for _, stream, _ in driver.launched} == {STREAM}


@pytest.mark.deep
@each(
    ("op", "others"),
    [
        ("matmul", {"b": ((62, 62), "f2"), "c": ((64, 62), "f2"), "beta": 1.0}),
        ("layer_norm", {"weight": ((62,), "f2"), "bias": ((62,), "f2")}),
        ("cross_entropy", {"target": ((64,), "i8")}),
    ],
)
def test_a_prepared_call_keeps_all_its_arrays_alive(op: str, others: dict[str, Any], driver: Driver) -> None:
    """Their addresses are packed: memory of an array that is gone would be another's."""
    given = {
        name: Array(n << 24, *v) if isinstance(v, tuple) else v
        for n, (name, v) in enumerate(others.items(), 1)
    }
    arrays = [weakref.ref(v) for v in given.values() if isinstance(v, Array)]
    call = ops.prepare(op, M, **given)
    del given
    gc.collect()
    assert arrays and all(one() is not None for one in arrays)
    del call
    gc.collect()
    assert not any(one() is not None for one in arrays)


@each(
    ("call", "error", "text"),
    [
        (lambda: ops.prepare("softmx", X), UnknownNameError, "softmax"),
        (lambda: ops.prepare(3, X), UnknownNameError, "operation"),  # type: ignore[arg-type]
        (lambda: ops.prepare("softmax", X, weight=W), UnknownNameError, "option of softmax"),
        (lambda: ops.prepare("rms_norm", X, bias=W), UnknownNameError, "option of rms_norm"),
        (lambda: ops.prepare("matmul", M), ArgumentTypeError, "matmul takes b too"),
        (lambda: ops.prepare("relayout", M), ArgumentTypeError, "relayout takes src and dst too"),
        (lambda: ops.prepare("softmax", X, COLUMN), ShapeError, "out has shape"),
    ],
)
def test_a_call_that_cannot_be_prepared_is_refused(
    call: Callable[[], Any], error: type[LayoutAlgError], text: str, driver: Driver
) -> None:
    with pytest.raises(error, match=text):
        call()


def test_a_relayout_is_one_launch(driver: Driver, planned: list[str]) -> None:
    rows, columns = Layout((6, 40), (40, 1)), Layout((6, 40))
    for address in (0x4000, 0x8000):
        assert ops.relayout(Array(address, (240,)), rows, columns, Array(0x9000, (240,))).shape == (240,)
    assert addresses(driver) == [[0x4000, 0x9000], [0x8000, 0x9000]] and len(planned) == 1
    ops.relayout(Array(0x4004, (240,)), rows, columns, Array(0x9000, (240,)))
    assert addresses(driver)[2] == [0x4000, 0x9000] and "at 1 -> 0" in planned[1]
    swizzled = ComposedLayout(Swizzle(1, 0, 2), 0, rows)
    for address, layout, multiple in ((0x4004, swizzled, 16), (0x4002, rows, 4)):
        with pytest.raises(AlignmentError, match=f"relayout takes it at multiples of {multiple} bytes"):
            ops.relayout(Array(address, (240,)), layout, columns, Array(0x9000, (240,)))


@pytest.mark.parametrize("eps", [1e-5, 1, 1.0])
def test_another_eps_is_another_kernel(driver: Driver, planned: list[str], eps: float) -> None:
    driver.arguments = repeat(3)
    x, weight = Array(0x4000, (6, 40)), Array(0x8000, (40,))
    ops.layer_norm(x, -1, weight, eps=0.5)
    ops.layer_norm(x, 1, weight, eps=eps)
    ops.layer_norm(x, (1,), weight, eps=eps)
    assert len(planned) == 2
    assert addresses(driver)[2] == [0x4000, 3 << 20, 0x8000]
    for wrong in (True, "1", [1]):
        with pytest.raises(ArgumentTypeError, match="a number is needed"):
            ops.layer_norm(x, -1, weight, eps=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_loaded_once_for_all_factors(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, turned: bool
) -> None:
    """Every parameter has its value, at its place; a result in columns is the product of b and a."""
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    a, b, c, d = (n << 16 for n in (1, 2, 3, 4))
    x, y, out = Array(a, (3, 64, 40)), Array(b, (40, 24)), Array(d, (3, 64, 24))
    old = Array(c, (64, 24))
    wanted = {
        "m": 64, "n": 24, "k": 40, "lda": 40, "ldb": 24, "ldc": 24, "ldd": 24, "batch0": 3, "a": a, "b": b,
        "c": c, "d": d, "stride_a0": 2560, "stride_b0": 0, "stride_c0": 0, "stride_d0": 1536,
    }  # fmt: skip
    if turned:
        out.strides, old = (6144, 4, 256), out
        wanted |= {"m": 24, "n": 64, "lda": 24, "ldb": 40, "ldc": 64, "ldd": 64, "a": b, "b": a, "c": d}
        wanted |= {"stride_a0": 0, "stride_b0": 2560, "stride_c0": 1536}
    modes = [BatchMode(3, *(wanted[f"stride_{name}0"] for name in "abcd"))]
    p = gemm_problem(
        wanted["m"], wanted["n"], 40, "f32", a_major="mn" if turned else "k", b_major="k" if turned else "mn",
        reads_c=True, batch=modes,
    )  # fmt: skip
    family = FAMILIES["gemm-simt"]
    assert family.called is not None
    (kernel,) = family.called(p, family.choose(p, "sm_90a"), "sm_90a").kernels
    names = [q.name for q in kernel.params]
    driver.arguments = repeat(len(names))
    for alpha, word in ((2, 0x40000000), (0.5, 0x3F000000)):
        assert ops.matmul(x, y, out, alpha=alpha, beta=1, c=old) is out
        factors = {"alpha": word, "beta": 0x3F800000}
        assert dict(zip(names, addresses(driver)[-1], strict=True)) == wanted | factors
    assert len(driver.loaded) == 1


def test_elements_that_start_between_elements_are_refused_by_their_address(driver: Driver) -> None:
    with pytest.raises(AlignmentError, match=r"x starts at 0x4002 with strides \(160, 4\) in bytes"):
        ops.reduce(Array(0x4002, (6, 40)), "sum", 1)


def test_the_cache_on_disk_is_asked_by_the_problem(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    monkeypatch.setattr(plan_cache, "ready_sequence", READY)
    for _ in range(2):
        ops.softmax(Array(0x4000, (6, 40)))
        ops.transpose(Array(0x4000, (6, 40)))
        operation.forget()
        plan_cache.plan_on_gpu.cache_clear()
        monkeypatch.setattr(plan_cache, "compile_sequence", None)  # nothing is planned any more
    assert driver.loaded[:2] == driver.loaded[2:]
    p = norm_problem("softmax", (6, 40), 1, "f32")
    key = plan_cache.plan_key("softmax", p, "sm_90a")
    assert key is not None and place(tmp_path, key).exists()


def test_tensors_are_ordered_by_pytorchs_stream(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, torch = tensors(monkeypatch)(0x4000, (6, 40)), sys.modules["torch"]
    ops.permute(x, (1, 0))
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", {0: 12}.__getitem__)
    ops.softmax(x)
    ops.permute(Array(0x4000, (6, 40)), (1, 0))
    assert [stream for _, stream, _ in driver.launched] == [11, 12, STREAM]
    assert addresses(driver)[:2] == [[0x4000, 0x90000]] * 2
