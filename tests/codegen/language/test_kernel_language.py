"""The kernel language: the documented kernels, their length and machine code; verify finds what is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.atoms import make_tiled_copy
from layoutalg.codegen.costs import COUNTERS, predicted_counters
from layoutalg.codegen.expr import Const
from layoutalg.codegen.gpu import (
    CompiledSequence,
    Run,
    count_classes,
    counters,
    disassemble,
    gpu_status,
    main_loop,
    parse_sass,
    version,
)
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import verification, words
from layoutalg.codegen.language.verification import draw_sizes
from layoutalg.codegen.program import Let, launch_sequence, walk
from layoutalg.dtype import dtype
from layoutalg.errors import (
    ArgumentTypeError,
    IRError,
    MismatchError,
    ShapeError,
    SimulationError,
    UndecidedError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import Layout
from tests.documents import ROOT, blocks
from tests.sweeps import each

COPY = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout(128), Layout(4))


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    """The programs of the document, by name."""
    found: dict[str, Any] = {}
    for language, text in blocks(ROOT / "docs" / "kernel_language.md"):
        if language == "python":
            names: dict[str, Any] = {"__name__": "document"}
            exec(compile(text, "document", "exec"), names)
            found |= {x.name: x for x in names.values() if isinstance(x, cg.Program)}
    return found


def test_no_documented_kernel_has_a_name_that_is_not_used(kernels: dict[str, Any]) -> None:
    for kernel in kernels.values():
        text = cg.to_cuda(kernel).split("end of device helpers")[1]
        assert all(text.count(s.var.name) > 1 for s in walk(kernel.body) if isinstance(s, Let))


@pytest.mark.deep
def test_machine_code_of_the_documented_kernels(kernels: dict[str, Any]) -> None:
    try:
        version()
    except UnsupportedError as error:
        pytest.skip(str(error))
    cubins = {name: cg.compile(kernel) for name, kernel in kernels.items()}
    assert all(cubin.spill_bytes == 0 for cubin in cubins.values())
    (function,) = parse_sass(disassemble(cubins["gemm"].image))
    loop = main_loop(function)
    counts = count_classes(loop)
    assert len(loop) <= 225 and counts["integer"] <= 43
    assert (counts["tensor"], counts["ldsm"], counts["ldgsts"]) == (128, 32, 12)


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


COMPUTED: list[tuple[Callable[[Any, Any, Any, Any], Any], str, str, float]] = [
    (lambda f, v, w, a: (v - w) * a + 1 - v * 2, "f32", "f32", 0),
    (lambda f, v, w, a: 2 - (1 + v) * -w, "f32", "f32", 0),
    (lambda f, v, w, a: v / 4 + 1 / (w * w + 1), "f32", "f32", 1e-6),
    (lambda f, v, w, a: f.maximum(f.minimum(v, w), 0), "f32", "f32", 0),
    (lambda f, v, w, a: f.exp(-f.sqrt(v * v)) + f.tanh(w), "f32", "f32", 1e-6),
    (lambda f, v, w, a: v * a + w, "f16", "f32", 0),
    (lambda f, v, w, a: v + w, "f32", "f16", 0),
    (lambda f, v, w, a: f.maximum(v * a + w, 3) - 1, "s32", "s32", 0),
]
"""Functions of fragments by the language, and of arrays by NumPy."""


@each(("compute", "element", "result", "tolerance"), COMPUTED)
def test_arithmetic_on_registers(
    compute: Callable[[Any, Any, Any, Any], Any], element: str, result: str, tolerance: float
) -> None:
    def registers(v: Any, w: Any, a: Any) -> Any:
        found = compute(cg, v, w, a)
        return found.to(result) if result == "f16" else found

    def reference(x: Any, z: Any, alpha: Any) -> Any:
        x, z = (y.astype("f4") if element == "f16" else y for y in (x, z))
        return compute(np, x, z, alpha)

    cg.verify(elementwise(registers, element, result), reference, cases=1, tolerance=tolerance)


def two(machine: Any, group: Any) -> Any:
    return np.full((group.lanes, 1), 0x40000000, np.uint32)


TWO = cg.Instr("two", (cg.out("d", 1),), "void two(u32& d) { d = 0x40000000u; }", two)


@each(("element", "values", "bits"), [("u8", 4, 32), ("f16", 2, 32), ("f32", 2, 64)])
def test_elements_that_lie_apart_share_no_register(element: str, values: int, bits: int) -> None:
    """A vector of a tensor that is stored along the other mode is loaded one element after the other."""
    k = cg.Kernel("apart", 32)
    x, y = (k.tensor(name, element, (64, 4), (1, 64), writable=name == "y") for name in "xy")
    mine = k.get_slice(
        make_tiled_copy(f"UniversalCopy<uint{bits}_t>", element, Layout((32, 1)), Layout((1, values)))
    )
    part, to = mine.partition_S(x), mine.partition_D(y)
    k.store(k.load(part), to)
    cg.verify(k.build(), lambda x: x, cases=1)
    if bits < 64:
        with pytest.raises(
            UnsupportedError, match=rf"1 elements of {element} lie next to each other.*values=1"
        ):
            k.load(part, into=k.fragment("joined", element, part.shape, values=values))


def test_a_part_of_a_row_of_registers_is_mapped() -> None:
    k = cg.Kernel("part", 32)
    x, y = k.tensor("x", "f32", (32, 4), (4, 1)), k.tensor("y", "f32", (32, 2), (2, 1), writable=True)
    v = k.fragment("v", "f32", (4,))
    k.do(LDG[16], v, x.at(k.tid, 0))
    k.do(STG[8], y.at(k.tid, 0), k.map(v.view(Layout(2)) * 2.0))
    cg.verify(k.build(), lambda x: x[:, :2] * 2, cases=1)


def test_verify_draws_sizes_that_the_conditions_admit() -> None:
    k = cg.Kernel("rows", threads=32)
    m, n, ld = k.extent("m", 9), k.extent("n", 64), k.extent("ld", 96)
    y = k.tensor("y", "f32", (m, n), (ld, 1), writable=True)
    row, v = k.block(0, m), k.reg("v", 1)
    k.do(TWO, v)
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


def test_verify_finds_a_write_beside_the_tensor_and_a_race() -> None:
    k = cg.Kernel("beside", threads=32)
    n = k.extent("n", 32, 32)
    y = k.tensor("y", "f32", (n, 2), (4, 1), writable=True)
    v = k.reg("v", 1)
    k.do(TWO, v)
    with k.Unroll("i", 2) as i:
        k.do(STG[4], y.at(k.tid, i), v)
    cg.verify(k.build(), lambda n: np.full((n, 2), 2.0), cases=1)
    with k.If(k.tid < 31):
        k.do(STG[4], cg.MemRef(y.buffer, k.tid * 4 + 2), v)
    with pytest.raises(MismatchError, match="beside with n = 32 writes beside y: element 2 of its memory"):
        cg.verify(k.build(), lambda n: np.full((n, 2), 2.0), cases=1)
    k.do(STG[4], y.at(0, 0), v)
    with pytest.raises(SimulationError):
        cg.verify(k.build(), lambda n: np.full((n, 2), 2.0), cases=1)


REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "pointer": (
        lambda: cg.verify(raw(), lambda: 1),
        ArgumentTypeError,
        "raw|k reads or writes p as a tensor",
    ),
    "reference": (lambda: cg.verify(scaled(), lambda z: z), ArgumentTypeError, "of scaled asks for z"),
    "shape": (lambda: cg.verify(scaled(), lambda x: x[:1]), MismatchError, "has the shape"),
    "names": (lambda: cg.verify(scaled(), lambda x: {"x": x}), ArgumentTypeError, "scaled writes y; got x"),
    "number": (lambda: words(scaled(), {"alpha": "1"}), ArgumentTypeError, "alpha of scaled is '1'; a"),
    "scalar": (lambda: empty().scalar("a", "f64"), UnsupportedError, "a of f64: f32 and s32 are accepted"),
    "text": (lambda: value() + "x", ArgumentTypeError, "'x' is a str; registers, scalars of the kernel, i"),
    "nothing": (lambda: empty().map(cg.exp(1.0)), ArgumentTypeError, "holds no registers"),
    "sizes": (lambda: sums(4, 8), ShapeError, "has 4 elements, and .* has 8"),
    "lanes": (lambda: reduced(lanes=3), UnsupportedError, "sum over 3 lanes: a power of two up to 32"),
    "type": (lambda: reduced(element="f16"), UnsupportedError, "sum of f16: one of f32, s32, u32"),
    "into": (lambda: sums(4, 4, into="f16"), ShapeError, "4 of f32 are needed"),
    "address": (lambda: gathered(), ArgumentTypeError, r"x at v.*: registers do not address memory"),
    "corners": (lambda: stored_one_by_one(), UnsupportedError, r"4 lie next to each other.*values=4\)"),
    "words": (
        lambda: into_pairs(),
        UnsupportedError,
        "1 elements of .* lie side by side, and a register holds 2",
    ),
    "grid": (lambda: empty().grid((4, 4), (2,)), ShapeError, "2 extents and tiles of 1 modes"),
    "element": (lambda: cg.to_cuda(raw(32)), UnsupportedError, "p has elements of 32 bytes: 1, 2, 4"),
}


@each(("build", "kind", "message"), REFUSED.values())
def test_refused(build: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        build()


def gathered() -> object:
    k = empty()
    return k.tensor("x", "f32", (32,), (1,)).at(k.fragment("v", "s32", (1,)))


def stored_one_by_one() -> None:
    k = empty()
    copy = make_tiled_copy("UniversalCopy<uint64_t>", "f16", Layout(32), Layout(4))
    held, y = k.fragment("v", "f32", (4,), values=1), k.tensor("y", "f16", (128,), (1,), writable=True)
    k.store(held.to("f16"), k.get_slice(copy).partition_D(y))


def into_pairs() -> object:
    k = empty()
    return k.map(k.fragment("v", "f32", (4,), values=1).to("f16"), into=k.fragment("h", "f16", (4,)))


def sums(a: int, b: int, into: str = "") -> object:
    k = empty()
    held = k.fragment("h", into, (a,)) if into else None
    return k.map(k.fragment("v", "f32", (a,)) + k.fragment("w", "f32", (b,)), into=held)


def reduced(lanes: int = 32, element: str = "f32") -> object:
    k = empty()
    return k.reduce("sum", k.fragment("v", element, (4,)), lanes=lanes)


def empty() -> cg.Kernel:
    return cg.Kernel("k", threads=32)


def raw(element_bytes: int = 4) -> cg.Program:
    k = empty()
    k.pointer("p", element_bytes, writable=True)
    return k.build()


def value() -> Any:
    return empty().fragment("v", "f32", (4,)) * 2


def test_numbers_become_the_words_of_their_type() -> None:
    assert words(scaled(), {"alpha": 1, "n": 4}) == {"alpha": 0x3F800000, "n": 4}
    assert words(scaled(), {"alpha": np.float32(-0.5)})["alpha"] == 0xBF000000
    if not gpu_status().available:
        with pytest.raises(UnsupportedError):
            cg.launch(scaled(), {"n": 4, "alpha": 1.0, "x": np.zeros(4, "f4"), "y": np.zeros(4, "f4")})


def test_verify_by_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays go to the GPU and come back; here the simulator stands for it."""
    seen: list[str] = []

    def launched(kernel: cg.Program, args: Any) -> None:
        seen.append(kernel.name)
        cg.simulate(kernel, args)

    for name, instead in {"to_device": np.copy, "to_host": np.copy, "launch": launched}.items():
        monkeypatch.setattr(verification, name, instead)
    assert len(cg.verify(scaled(), lambda x, alpha: alpha * x, target="gpu")) == 3 == len(seen)
    with pytest.raises(MismatchError, match="where the reference has"):
        cg.verify(scaled(right=False), lambda x, alpha: alpha * x, target="gpu")
    with pytest.raises(UnknownNameError, match="target"):
        cg.verify(scaled(), lambda x: x, target="moon")  # type: ignore[arg-type]


def test_verify_with_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of all cases, of one process; of those that differ, the smallest is named."""
    more = 0

    def counted(runs: list[Run], metrics: tuple[str, ...], *, timeout_s: float) -> list[Any]:
        scalars = [{name: x for name, x in run.given.items() if isinstance(x, int)} for run in runs]
        found = [predicted_counters(launch_sequence([scaled()]), own) for own in scalars]
        return [({COUNTERS[name]: n + more for name, n in x.items()},) for x in found]

    stand_ins = {"to_device": np.copy, "to_host": np.copy, "launch": cg.simulate,
                 "require_gpu": lambda: GpuStatus(True, "NVIDIA H200", "sm_90a")}  # fmt: skip
    for name, instead in stand_ins.items():
        monkeypatch.setattr(verification, name, instead)
    monkeypatch.setattr(counters, "count_launches", counted)
    monkeypatch.setattr(counters, "compile_sequence", lambda sequence, arch: CompiledSequence(sequence, ()))
    sizes = cg.verify(scaled(), lambda x, alpha: alpha * x, target="gpu", counters=True)
    more, least = 1, min(case["n"] for case in sizes)
    with pytest.raises(MismatchError, match=rf"^12 counters are .*; .* of scaled with n = {least}, "):
        cg.verify(scaled(), lambda x, alpha: alpha * x, target="gpu", counters=True)
    with pytest.raises(UnsupportedError, match="those of a GPU"):
        cg.verify(scaled(), lambda x: x, counters=True)


def test_verify_takes_values_and_layouts_that_callers_have() -> None:
    seen: list[Any] = []

    def reference(x: Any, alpha: float) -> Any:
        seen.append((x.min(), x.max(), alpha))
        return alpha * x

    ones: dict[str, Any] = {"x": lambda numbers, shape: np.arange(shape[0]) % 3, "alpha": (7, 7)}
    cg.verify(scaled(), reference, values=ones, contiguous=("x", "y"), cases=1)
    cg.verify(scaled(), reference, values={"x": (100, 102)}, cases=1)
    assert seen[0] == (0, 2, 7) and 100 <= seen[1][0] < seen[1][1] <= 102
    k = cg.Kernel("apart", threads=32)
    m, v = k.extent("m", 1 << 10), k.reg("v", 1)
    y = k.tensor("y", "f32", (m, 32), (40, 1), writable=True)
    k.do(TWO, v)
    k.do(STG[4], y.at(k.block(0, m), k.tid), v)
    cg.verify(k.build(), lambda m: np.full((m, 32), 2.0))
    with pytest.raises(MismatchError, match=r"the strides \(40, 1\); a contiguous array has \(32, 1\)"):
        cg.verify(k.build(), lambda m: np.full((m, 32), 2.0), contiguous=("y",))
    for option in ({"contiguous": ("z",)}, {"values": {"z": (0, 1)}}):
        with pytest.raises(ArgumentTypeError, match="apart has no tensors z"):
            cg.verify(k.build(), lambda m: m, **option)


def test_an_effect_is_called_with_what_the_operands_give() -> None:
    k = cg.Kernel("wrong", threads=32)
    k.do(cg.Instr("two", (cg.updated("d", 1),), "void two(u32& d) { d = 0x40000000u; }", two), k.reg("v", 1))
    with pytest.raises(IRError, match="the effect of two is called with 1 values: too many positional"):
        cg.simulate(k.build(), {})


def test_sizes_are_those_on_which_a_program_shows_what_it_does() -> None:
    k = cg.Kernel("ring", threads=32)
    m, n, ld = k.extent("m", multiple=4), k.extent("n"), k.extent("ld")
    k.grid((m,), (64,))
    k.shared("s", "f32", Layout(32), stages=3)
    with k.For("t", (n + 31) // 32):
        pass
    k.require(n <= ld)
    kernel, cases = k.build(), []
    for case in range(30):
        drawn = draw_sizes(kernel, {}, random.Random(case), case)
        cases.append([drawn[v] for v in (m, n, ld)])
        assert drawn[n] <= drawn[ld] and drawn[m] % 4 == 0
    for a, b, _ in (c for i, c in enumerate(cases) if i % 3 != 2):
        assert -(-a // 64) >= 2 and -(-b // 32) >= 4
    assert all(a % 64 == b % 32 == 0 for a, b, _ in cases[1::3])
    assert any(a % 64 for a, *_ in cases[::3]) and any(b <= 32 for _, b, _ in cases[2::3])


def test_registers_without_rows_are_fragments() -> None:
    """A word of them has one index in C."""
    k = cg.Kernel("rowless", threads=32)
    acc, y = k.reg("acc", 4), k.tensor("y", "u32", (4,), (1,), writable=True)
    for i in range(4):
        k.map(k.tid * 0 + i, into=cg.Fragment(acc, dtype("u32"), Layout(1), start=Const(i)))
    with k.If(k.tid.eq(0)):
        k.do(cg.STG[16], y.at(0), acc)
    kernel = k.build()
    assert "acc[3]" in cg.to_cuda(kernel) and "acc[0][" not in cg.to_cuda(kernel)
    cg.verify(kernel, lambda: np.arange(4), cases=1)


def test_bf16_is_verified_as_floats() -> None:
    """NumPy has no such type: what a reference sees, and what it is compared with, are float32."""
    k = cg.Kernel("doubled", threads=128)
    n = k.extent("n", multiple=8)
    x, y = k.tensor("x", "bf16", (n,), (1,)), k.tensor("y", "bf16", (n,), (1,), writable=True)
    copy = make_tiled_copy("UniversalCopy<uint128_t>", "bf16", Layout(128), Layout(8))
    block, me = k.grid((n,), (1024,)), k.get_slice(copy)
    s, d = (p(cg.local_tile(t, (1024,), block)) for p, t in ((me.partition_S, x), (me.partition_D, y)))
    k.store((k.load(s, where=s.inside) * 3).to("bf16"), d, where=d.inside)
    kernel, seen = k.build(), []

    def reference(x: Any) -> Any:
        seen.append(x)
        return 3 * x

    cg.verify(kernel, reference, cases=1)
    assert seen[0].dtype == np.float32 and seen[0].min() < -7 and (seen[0] * 4 % 1 == 0).all()
    odd = {"x": lambda numbers, shape: numbers.uniform(1, 2, shape)}
    cg.verify(kernel, reference, values=odd)  # what the reference gives, rounded once
    assert (seen[-1].view("u4") & 0xFFFF == 0).all()
    with pytest.raises(MismatchError):
        cg.verify(kernel, lambda x: 3 * x + 2.0**-5, values=odd)
