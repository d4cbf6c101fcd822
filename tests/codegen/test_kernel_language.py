"""The kernel language: the documented kernels, their length and machine code; verify finds what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.gpu import count_classes, disassemble, gpu_status, main_loop, parse_sass, version
from layoutalg.codegen.instr import STG
from layoutalg.codegen.language import KernelBuilder, words
from layoutalg.codegen.program import Let, walk
from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    MismatchError,
    ShapeError,
    SimulationError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import Layout
from tests.documents import ROOT, blocks
from tests.sweeps import each

MOST_LINES = {"scaled_transpose": 20, "softmax": 45, "gemm": 50}
COPY = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout(128), Layout(4))


def documented() -> dict[str, tuple[str, Any]]:
    """The programs of the document and their texts, by name."""
    found = {}
    for language, text in blocks(ROOT / "docs" / "kernel_language.md"):
        if language == "python":
            names: dict[str, Any] = {"__name__": "document"}
            exec(compile(text, "document", "exec"), names)
            found[names["kernel"].name] = text, names["kernel"]
    return found


@pytest.fixture(scope="module")
def kernels() -> dict[str, tuple[str, Any]]:
    return documented()


def test_the_documented_kernels_are_short(kernels: dict[str, tuple[str, Any]]) -> None:
    for name, most in MOST_LINES.items():
        text = kernels[name][0].partition("k.build()")[0]
        lines = [x for x in text.splitlines() if x.strip() and not x.startswith(("import ", "from "))]
        assert len(lines) <= most, name


def test_no_documented_kernel_has_a_name_that_is_not_used(kernels: dict[str, tuple[str, Any]]) -> None:
    for _, kernel in kernels.values():
        text = cg.to_cuda(kernel).split("end of device helpers")[1]
        for s in walk(kernel.body):
            if isinstance(s, Let):
                assert text.count(s.var.name) > 1, s


def test_machine_code_of_the_documented_kernels(kernels: dict[str, tuple[str, Any]]) -> None:
    try:
        version()
    except LayoutAlgError:
        pytest.skip("NVRTC is not installed")
    for name, (_, kernel) in kernels.items():
        cubin = cg.compile(kernel)
        assert cubin.spill_bytes == 0, name
        (function,) = parse_sass(disassemble(cubin.image))
        if name == "gemm":
            loop = main_loop(function)
            assert len(loop) <= 225 and count_classes(loop)["integer"] <= 43
            assert {c: count_classes(loop)[c] for c in ("tensor", "ldsm", "ldgsts")} == {
                "tensor": 128, "ldsm": 32, "ldgsts": 12,
            }  # fmt: skip


def test_every_name_of_the_face_is_there() -> None:
    for name in cg.__all__:
        assert getattr(cg, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        cg.nothing  # noqa: B018


def elementwise(
    compute: Callable[[Any, Any, Any], Any], element: str = "f32", result: str = "f32"
) -> cg.Program:
    """y = compute(x, x2, alpha) for whole blocks."""
    k = cg.Kernel("elementwise", threads=128)
    n, alpha = k.extent("n", 1 << 16, 1024), k.scalar("alpha", "s32" if element == "s32" else "f32")
    per = 128 // (8 * {"f32": 4, "s32": 4, "f16": 2}[element])
    copy = make_tiled_copy("UniversalCopy<uint128_t>", element, Layout(128), Layout(per))
    tile, me = (128 * per,), k.get_slice(copy)
    block = k.grid((n,), tile)
    x, z = k.tensor("x", element, (n,), (1,)), k.tensor("z", element, (n,), (1,))
    y = k.tensor("y", result, (n,), (1,), writable=True)
    v, w = (k.load(me.partition_S(cg.local_tile(t, tile, block))) for t in (x, z))
    bits = {"f32": 32, "s32": 32, "f16": 16}[result] * per
    atom = "UniversalCopy<uint64_t>" if bits == 64 else "UniversalCopy<uint128_t>"
    back = make_tiled_copy(atom, result, Layout(128), Layout(per))
    k.store(compute(v, w, alpha), k.get_slice(back).partition_D(cg.local_tile(y, tile, block)))
    return k.build()


COMPUTED: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[..., Any], str, str, float]] = {
    "operators": (lambda v, w, a: (v - w) * a + 1 - v * 2, lambda x, z, alpha: (x - z) * alpha + 1 - x * 2,
                  "f32", "f32", 0),
    "reversed": (lambda v, w, a: 2 - (1 + v) * -w, lambda x, z: 2 - (1 + x) * -z, "f32", "f32", 0),
    "division": (lambda v, w, a: v / 4 + 1 / (w * w + 1), lambda x, z: x / 4 + 1 / (z * z + 1),
                 "f32", "f32", 1e-6),
    "extremes": (lambda v, w, a: cg.maximum(cg.minimum(v, w), 0),
                 lambda x, z: np.maximum(np.minimum(x, z), 0), "f32", "f32", 0),
    "functions": (lambda v, w, a: cg.exp(-cg.sqrt(v * v)) + cg.tanh(w),
                  lambda x, z: np.exp(-np.abs(x)) + np.tanh(z), "f32", "f32", 1e-6),
    "halves": (lambda v, w, a: v * a + w, lambda x, z, alpha: x.astype("f4") * alpha + z, "f16", "f32", 0),
    "a cast": (lambda v, w, a: (v + w).to("f16"), lambda x, z: x + z, "f32", "f16", 0),
    "integers": (lambda v, w, a: cg.maximum(v * a + w, 3) - 1,
                 lambda x, z, alpha: np.maximum(x * alpha + z, 3) - 1, "s32", "s32", 0),
}  # fmt: skip


@each("name", list(COMPUTED))
def test_arithmetic_on_registers(name: str) -> None:
    compute, reference, element, result, tolerance = COMPUTED[name]
    cg.verify(elementwise(compute, element, result), reference, cases=1, tolerance=tolerance)


def test_verify_draws_sizes_that_the_conditions_admit() -> None:
    k = cg.Kernel("rows", threads=32)
    m, n, ld = k.extent("m", 9), k.extent("n", 64), k.extent("ld", 96)
    y = k.tensor("y", "f32", (m, n), (ld, 1), writable=True)
    row, v = k.block(0, m), k.reg("v", 1)
    k.do(cg.Instr("two", (cg.out("d", 1),), "void two(u32& d) { d = 0x40000000u; }", two), v)
    with k.For("j", (n + 31) // 32) as j, k.If(k.tid + j * 32 < n):
        k.do(STG[4], y.at(row, k.tid + j * 32), v)
    kernel = k.build()
    for sizes in cg.verify(kernel, lambda m, n: np.full((m, n), 2.0)):
        assert sizes["n"] <= sizes["ld"] and sizes["m"] <= 9
    assert cg.verify(kernel, lambda m, n: np.full((m, n), 2.0), sizes={"m": 2}, cases=2)[1]["m"] == 2
    with pytest.raises(UndecidedError, match="draws of the sizes of rows miss n <= ld"):
        cg.verify(kernel, lambda m: m, sizes={"n": 64, "ld": 3})
    with pytest.raises(ArgumentTypeError, match="rows has no extents k"):
        cg.verify(kernel, lambda m: m, sizes={"k": 64})


def two(machine: Any, group: Any) -> Any:
    return np.full((group.lanes, 1), 0x40000000, np.uint32)


def scaled(*, right: bool = True) -> cg.Program:
    k = cg.Kernel("scaled", threads=128)
    n, alpha = k.extent("n", multiple=4), k.scalar("alpha", "f32")
    x, y = k.tensor("x", "f32", (n,), (1,)), k.tensor("y", "f32", (n,), (1,), writable=True)
    block, me = k.grid((n,), (512,)), k.get_slice(COPY)
    s = me.partition_S(cg.local_tile(x, (512,), block))
    d = me.partition_D(cg.local_tile(y, (512,), block))
    v = k.load(s, where=s.inside)
    k.store(v * alpha if right else v, d, where=d.inside)
    return k.build()


def test_verify_finds_a_wrong_value_and_says_where() -> None:
    cg.verify(scaled(), lambda x, alpha: alpha * x)
    with pytest.raises(
        MismatchError, match=r"y of scaled with n = .*, alpha = .* at \(\d+,\), where the reference"
    ):
        cg.verify(scaled(right=False), lambda x, alpha: alpha * x)


def test_verify_finds_a_write_beside_the_tensor() -> None:
    k = cg.Kernel("beside", threads=32)
    n = k.extent("n", 32, 32)
    y = k.tensor("y", "f32", (n, 2), (4, 1), writable=True)
    v = k.reg("v", 1)
    k.do(cg.Instr("two", (cg.out("d", 1),), "void two(u32& d) { d = 0x40000000u; }", two), v)
    with k.Unroll("i", 2) as i:
        k.do(STG[4], y.at(k.tid, i), v)
    good = k.build()
    cg.verify(good, lambda n: np.full((n, 2), 2.0), cases=1)
    with k.If(k.tid < 31):
        k.do(STG[4], cg.MemRef(y.buffer, k.tid * 4 + 2), v)
    with pytest.raises(MismatchError, match="beside with n = 32 writes beside y: element 2 of its memory"):
        cg.verify(k.build(), lambda n: np.full((n, 2), 2.0), cases=1)


def test_verify_finds_a_race() -> None:
    k = KernelBuilder("race", 64)
    y = k.tensor("y", "f32", (64,), (1,), writable=True)
    tile, v = k.shared("tile", "f32", Layout(64)), k.reg("v", 1)
    k.do(cg.Instr("two", (cg.out("d", 1),), "void two(u32& d) { d = 0x40000000u; }", two), v)
    k.do(cg.STS[4], tile.at(k.tid), v)
    k.do(cg.LDS[4], v, tile.at(k.tid ^ 32))
    k.do(STG[4], y.at(k.tid), v)
    with pytest.raises(SimulationError):
        cg.verify(k.build(), lambda: np.full(64, 2.0))


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "pointer": (lambda: cg.verify(raw(), lambda: 1), ArgumentTypeError, "raw reads or writes p as a tensor"),
    "reference": (lambda: cg.verify(scaled(), lambda z: z), ArgumentTypeError, "of scaled asks for z"),
    "shape": (lambda: cg.verify(scaled(), lambda x: x[:1]), MismatchError, "has the shape"),
    "names": (lambda: cg.verify(scaled(), lambda x: {"x": x}), ArgumentTypeError, "scaled writes y; got x"),
    "number": (lambda: words(scaled(), {"alpha": "1"}), ArgumentTypeError, "alpha of scaled is '1'; a"),
    "scalar": (lambda: empty().scalar("a", "f64"), UnsupportedError, "a of f64: f32 and s32 are accepted"),
    "text": (lambda: value() + "x", ArgumentTypeError, "'x' is a str; registers, scalars of the kernel or"),
    "nothing": (lambda: empty().map(cg.exp(1.0)), ArgumentTypeError, "no registers in it"),
    "sizes": (lambda: sums(4, 8), ShapeError, "has 4 elements, and .* has 8"),
    "lanes": (lambda: reduced(lanes=3), UnsupportedError, "sum over 3 lanes: a power of two up to 32"),
    "type": (lambda: reduced(element="f16"), UnsupportedError, "sum of f16: sum and max of f32"),
    "into": (lambda: sums(4, 4, into="f16"), ShapeError, "4 of f32 are needed"),
    "grid": (lambda: empty().grid((4, 4), (2,)), ShapeError, "2 extents and tiles of 1 modes"),
}  # fmt: skip


@each("name", list(REFUSED))
def test_refused(name: str) -> None:
    build, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        build()


def empty() -> cg.Kernel:
    return cg.Kernel("k", threads=32)


def raw() -> cg.Program:
    k = cg.Kernel("raw", threads=32)
    k.pointer("p", 4, writable=True)
    return k.build()


def value() -> Any:
    return empty().fragment("v", "f32", (4,)) * 2


def sums(a: int, b: int, into: str = "") -> object:
    k = empty()
    held = k.fragment("h", into, (a,)) if into else None
    return k.map(k.fragment("v", "f32", (a,)) + k.fragment("w", "f32", (b,)), into=held)


def reduced(lanes: int = 32, element: str = "f32") -> object:
    k = empty()
    return k.reduce("sum", k.fragment("v", element, (4,)), lanes=lanes)


def test_numbers_become_the_words_of_their_type() -> None:
    assert words(scaled(), {"alpha": 1, "n": 4}) == {"alpha": 0x3F800000, "n": 4}
    assert words(scaled(), {"alpha": np.float32(-0.5)})["alpha"] == 0xBF000000


def test_launch_without_a_gpu() -> None:
    if gpu_status().available:
        pytest.skip("there is a GPU")
    with pytest.raises(UnsupportedError):
        cg.launch(scaled(), {"n": 4, "alpha": 1.0, "x": np.zeros(4, "f4"), "y": np.zeros(4, "f4")})
