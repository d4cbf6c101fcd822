"""What registers compute in kernels: random ones against texts and traffic, gathers, reductions, atomics."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from layoutalg import codegen as cg
from layoutalg.atoms import make_tiled_copy, make_tiled_mma
from layoutalg.codegen.costs import traffic, traffic_enumerated, uncounted, without_data
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import words
from layoutalg.codegen.language.verification import _compare_accesses
from layoutalg.codegen.program import calls, printed
from layoutalg.errors import (
    ArgumentTypeError,
    IRError,
    LayoutAlgError,
    MismatchError,
    ShapeError,
    SimulationError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import Layout
from tests.documents import ROOT, blocks
from tests.draws.value_kernels import THREADS, TILE, ValueKernel, fetching, kernels, random_kernel
from tests.hostshim import run_cuda_text
from tests.sweeps import each, first


def check(made: ValueKernel) -> None:
    """The text leaves what the simulator leaves."""
    wanted, got = made.simulated(), made.copies()
    given = words(made.kernel, {**made.arguments, **got})
    run_cuda_text(
        cg.to_cuda(made.kernel), "values", (-(-made.arguments["n"] // TILE),), (THREADS,),
        [got[p.name] if p.name in got else given[p.name] for p in made.kernel.params],
    )  # fmt: skip
    assert made.differences(got, wanted) == []


def check_traffic(made: ValueKernel) -> None:
    """Counted by classes, by enumeration, and as the simulator traces it."""
    ran, args = printed(made.kernel), words(made.kernel, {**made.arguments, **made.copies()})
    sizes = {name: x for name, x in args.items() if isinstance(x, int)}
    trace = cg.simulate(ran, {**made.arguments, **made.copies()}).trace
    kept = {id(s) for s in calls(without_data(ran.body))}
    numbers = [n for n, s in enumerate(calls(ran.body)) if id(s) in kept]
    counted = traffic(made.kernel, sizes)
    _compare_accesses("it", counted, trace, numbers)
    assert dict(counted) == dict(traffic_enumerated(made.kernel, sizes))
    skipped = {s.instr.name for s in calls(ran.body) if s.memory and id(s) not in kept}
    assert skipped <= set(uncounted([made.kernel]))


@pytest.mark.parametrize("seed", range(2))
def test_a_random_kernel_is_its_text(seed: int) -> None:
    check(random_kernel(random.Random(seed)))


@pytest.mark.deep
@given(kernels)
@settings(max_examples=12)
def test_random_kernels_are_their_texts(made: ValueKernel) -> None:
    check(made)


def test_the_traffic_of_a_random_kernel_is_that_of_its_trace() -> None:
    check_traffic(random_kernel(random.Random(3)))


@pytest.mark.deep
@given(kernels)
@settings(max_examples=12)
def test_the_traffic_of_random_kernels_is_that_of_their_traces(made: ValueKernel) -> None:
    check_traffic(made)


def test_a_documented_kernel_of_values_has_at_most_30_lines() -> None:
    page = (ROOT / "docs" / "kernel_language.md").read_text(encoding="utf-8")
    first = page[: page.index("## A scaled transpose")]
    shown = [text for language, text in blocks(ROOT / "docs" / "kernel_language.md") if text.strip() in first]
    programs = [text for text in shown if "cg.verify(" in text]
    assert len(programs) == 11
    assert all(len(text.strip().splitlines()) <= 30 for text in programs)


# --- gathers and scatters --------------------------------------------------------------------------------


def gathered(
    bound: Callable[[Any, Any, Any], Any], element: str = "s32", extent: int = 16, *, shared: bool = False
) -> cg.Program:
    """y[i] = t[x[i]], the index as `bound` states it: a predicate, or None where the formula does."""
    k = cg.Kernel("gathered", threads=32)
    x, y = k.tensor("x", element, (32,), (1,)), k.tensor("y", "f32", (32,), (1,), writable=True)
    t, v = k.tensor("t", "f32", (extent,), (1,)), k.fragment("v", "f32", (1,))
    if shared:
        t = k.shared("s", "f32", Layout(16))
        k.clear(v)
        with k.If(k.tid < 16):
            k.do(cg.STS[4], t.at(k.tid), v)
        k.do(cg.BAR)
    row = bound(k, k.index, x.at(k.tid))
    row, inside = row if isinstance(row, tuple) else (row, None)
    k.clear(v)
    load = cg.LDS[4] if shared else LDG[4]
    if inside is None:
        k.do(load, v, t.at(row))
    else:
        with k.If(inside):
            k.do(load, v, t.at(row))
    k.do(STG[4], y.at(k.tid), v)
    return k.build()


def masked(k: Any, index: Any, place: Any) -> Any:
    held = k.fragment("held", "s32", (1,))
    k.do(LDG[4], held, place)
    return index("row", held & 15)


def predicated(k: Any, index: Any, place: Any) -> Any:
    row = index("row", place)
    return row, row < 16


@each("bound", [masked, predicated])
@each("shared", [False, True])
def test_a_gather_is_bounded_by_its_formula_or_by_a_predicate(bound: Any, shared: bool) -> None:
    kernel = gathered(bound, shared=shared)

    def reference(x: Any, t: Any) -> Any:
        inside = (x >= 0) & (x < 16) if bound is predicated else x == x
        return inside * (t[x & 15] if not shared else 0.0)

    if not shared:
        cg.verify(kernel, reference, cases=1, values={"x": (-9, 40)})
    else:
        out = np.ones(32, "f4")
        cg.simulate(kernel, {"x": np.arange(32, dtype="i4"), "t": np.ones(16, "f4"), "y": out})
        assert not out.any()


@each(("element", "kind"), [("u8", "u1"), ("s64", "i8"), ("u16", "u2"), ("s8", "i1")])
def test_an_index_of_any_integer_is_taken_with_its_range(element: str, kind: str) -> None:
    """A negative one, and one past 32 bits, is above all extents."""
    kernel = gathered(predicated, element)
    x = np.arange(32).astype(kind)
    x[:2] = np.array([-1 if kind[0] == "i" else 255, 1 << 32 | 3 if kind == "i8" else 16]).astype(kind)
    t, y = np.arange(1, 17, dtype="f4"), np.zeros(32, "f4")
    cg.simulate(printed(kernel), {"x": x, "t": t, "y": y}, group="warp")
    wanted = [t[i] if 0 <= i < 16 else 0 for i in x.tolist()]
    assert y.tolist() == wanted
    assert uncounted([kernel]) == ("ldg32",)
    if element == "u8":  # its type is proof enough
        gathered(lambda k, index, place: index("row", place), element, 256)


REFUSED_GATHERS: dict[str, tuple[Callable[[], object], type[LayoutAlgError], str]] = {
    "leaves": (
        lambda: gathered(lambda k, i, x: i("row", x)), IRError,
        r"'ldg32\(v\[0\], t\[row\]\)' can pass the extent 16 of mode 0 of t; a predicate",
    ),
    "leaves shared memory": (
        lambda: gathered(lambda k, i, x: i("row", x), shared=True), IRError, "the extent 16 of mode 0 of s"
    ),
    "above a byte": (lambda: gathered(lambda k, i, x: i("row", x), "u8", 255), IRError, "the extent 255 of"),
    "another predicate": (
        lambda: gathered(lambda k, i, x: ((row := i("row", x)), row < 17)), IRError, "can pass the extent 16"
    ),
    "floats": (lambda: gathered(predicated, "f32"), UnsupportedError, "index row of f32: an integer is"),
    "several": (
        lambda: gathered(lambda k, i, x: i("row", k.fragment("two", "u32", (2,)))), ShapeError, "one element",
    ),
}  # fmt: skip


@each(("build", "kind", "message"), REFUSED_GATHERS.values())
def test_a_gather_that_can_leave_its_tensor_is_refused(build: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        build()


def test_a_place_that_data_moves_is_no_pointer_that_a_loop_carries() -> None:
    """Each turn takes its row by a number that the turn before has read."""
    k = cg.Kernel("list_walk", threads=32)
    turns, nodes = k.extent("turns", 9), k.extent("nodes", 64)
    after = k.tensor("after", "u32", (nodes,), (1,))
    y = k.tensor("y", "u32", (32,), (1,), writable=True)
    at = k.map(k.tid * 0, into=k.fragment("at", "u32", (1,)))
    with k.For("turn", turns):
        node = k.index("node", at)
        with k.If(node < nodes):
            k.do(LDG[4], at, after.at(node))
    k.do(STG[4], y.at(k.tid), at)

    def reference(after: Any, turns: int, nodes: int) -> Any:
        at = 0
        for _ in range(turns):
            at = int(after[at]) if at < nodes else at
        return np.full(32, at, "u4")

    cg.verify(k.build(), reference, values={"after": (0, 70)})


def scattered(flip: int) -> cg.Program:
    """y[x[i] ^ flip] = i"""
    k = cg.Kernel("scattered", threads=32)
    x, y = k.tensor("x", "u32", (32,), (1,)), k.tensor("y", "u32", (32,), (1,), writable=True)
    held, mine = k.fragment("held", "u32", (1,)), k.fragment("mine", "u32", (1,))
    k.do(LDG[4], held, x.at(k.tid))
    k.map(k.tid, into=mine)
    k.do(STG[4], y.at(k.index("to", (held ^ flip) & 31)), mine)
    return k.build()


def test_lanes_that_data_sends_to_one_place_are_a_race() -> None:
    def order(numbers: Any, shape: Any) -> Any:
        return numbers.permutation(32)

    def reference(x: Any) -> Any:
        y = np.zeros(32, "u4")
        y[(x ^ 5) & 31] = np.arange(32)
        return y

    cg.verify(scattered(5), reference, values={"x": order})
    with pytest.raises(SimulationError, match="writes it in the same instruction"):
        cg.verify(scattered(5), reference, values={"x": (0, 7)})


# --- atomics ---------------------------------------------------------------------------------------------


def summed(element: str = "f32", *, then: str = "", barrier: bool = False) -> cg.Program:
    """y[0] += x[i] by atomics; `then` a load or a store of y follows."""
    k = cg.Kernel("summed", threads=64)
    x, y = k.tensor("x", element, (64,), (1,)), k.tensor("y", element, (1,), (1,), writable=True)
    v = k.fragment("v", element, (1,))
    k.do(LDG[4], v, x.at(k.tid))
    k.atomic("add", v, y.at(0))
    if barrier:
        k.do(cg.BAR)
    with k.If(k.tid.eq(63)):
        if then == "load":
            k.do(LDG[4], v, y.at(0))
        if then == "store":
            k.do(STG[4], y.at(0), v)
    return k.build()


def total(x: Any, y: Any) -> Any:
    return y + x.sum(dtype="f8")


def thirds(numbers: Any, shape: Any) -> Any:
    """Sums of these depend on their order."""
    return numbers.permutation(64) / 3 * 10.0 ** numbers.integers(-3, 4, 64)


def test_the_order_of_atomics_is_undetermined_and_verify_sees_it() -> None:
    """Sums that every order gives are exact; others need a tolerance."""
    cg.verify(summed(), total)
    with pytest.raises(MismatchError):
        cg.verify(summed(), total, values={"x": thirds})
    cg.verify(summed(), total, values={"x": thirds}, tolerance=1e-5)
    assert uncounted([summed()]) == ("atomic_add_f32_global",)


@each("then", ["load", "store"])
def test_what_is_not_separated_from_an_atomic_by_a_barrier_is_a_race(then: str) -> None:
    args = {"x": np.ones(64, "f4"), "y": np.zeros(1, "f4")}
    with pytest.raises(SimulationError, match="updated it, with no"):
        cg.simulate(summed(then=then), args)
    cg.simulate(summed(then=then, barrier=True), args)


def joined(op: str, element: str, where: str = "global") -> cg.Program:
    k = cg.Kernel("joined", threads=64)
    y = k.tensor("y", element, (4,), (1,), writable=True)
    y = y if where == "global" else k.shared("s", element, Layout(4))
    k.atomic(op, 1, y.at(k.tid % 4))  # type: ignore[arg-type]
    return k.build()


def tickets(threads: int, elected: int) -> cg.Program:
    """Some lanes of each block take a number of a counter, which is stored at the number of the thread."""
    k = cg.Kernel("tickets", threads=threads)
    n = k.extent("n")
    (block,) = k.grid((n,), (threads,))
    count = k.tensor("count", "u32", (1,), (1,), writable=True)
    y = k.tensor("y", "u32", (n,), (1,), writable=True)
    i = block * threads + k.tid
    with k.If((k.tid % elected).eq(0)), k.If(i < n):
        k.do(STG[4], y.at(i), k.atomic("add", 1, count.at(0), fetch=True))
    return k.build()


@each(("threads", "elected"), [(32, 1), (64, 32), (32, 32)])
def test_what_an_atomic_fetches_is_undetermined_and_verify_sees_it(threads: int, elected: int) -> None:
    """The set of what lanes, warps and blocks get is known, and nothing else."""

    def reference(y: Any) -> dict[str, Any]:
        there = y[::elected]
        there[:] = np.arange(len(there))
        return {"y": y, "count": np.array([len(there)])}

    zero, sizes = {"count": (0, 0)}, {"n": 2 * threads + 1}
    kernel = tickets(threads, elected)
    cg.verify(kernel, reference, values=zero, sizes=sizes, cases=1, unordered=("y",))
    with pytest.raises(MismatchError, match="y of tickets"):
        cg.verify(kernel, reference, values=zero, sizes=sizes, cases=1)


FETCHED = [
    (element, space)
    for element in ("f32", "f64", "s32", "u32", "s64", "u64")
    for space in ("global", "shared")
]


@pytest.mark.parametrize("number", first(1, range(len(FETCHED))))
def test_an_atomic_fetches_what_was_there(number: int) -> None:
    kernel, reference = fetching(*FETCHED[number])
    cg.verify(kernel, reference, cases=1, values={"m_cas": (0, 1), "c": (0, 1)})


def test_cas_alone_compares() -> None:
    for op, compare in (("cas", None), ("add", 1)):
        with pytest.raises(ArgumentTypeError, match="`compare` is what cas takes"):
            k = cg.Kernel("compared", threads=32)
            y = k.tensor("y", "u32", (4,), (1,), writable=True)
            k.atomic(op, 1, y.at(0), compare=compare)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"atomic max of f32, z: there are add of f32.* cas of u64"):
        k.atomic("max", 1.0, k.tensor("z", "f32", (4,), (1,), writable=True).at(0), fetch=True)


@each(("op", "element"), [("max", "f32"), ("min", "f64"), ("add", "f16"), ("add", "u8"), ("xor", "u32")])
def test_an_atomic_of_a_type_without_one_is_refused(op: str, element: str) -> None:
    for where in ("global", "shared"):
        with pytest.raises(UnsupportedError, match=f"atomic {op} of {element}, .: there are add of f32"):
            joined(op, element, where)


def test_atomics_of_bytes_that_nobody_has_written_are_refused() -> None:
    with pytest.raises(SimulationError, match="updates bytes of s that nobody has written"):
        cg.simulate(joined("add", "u32", "shared"), {"y": np.zeros(4, "u4")})


# --- reductions ------------------------------------------------------------------------------------------


def reduced(op: Any, element: str = "f32", lanes: int = 32, **options: Any) -> cg.Program:
    """y of each group of lanes: the join of 4 elements of each lane; of several numbers, the last."""
    k = cg.Kernel("reduced", threads=32)
    x = k.tensor("x", element, (128,), (1,))
    copy = make_tiled_copy("UniversalCopy<uint128_t>", element, Layout(32), Layout(4))
    part = k.get_slice(copy).partition_S(cg.local_tile(x, (128,), (0,)))
    v = k.load(part)
    options |= {"index": k.coordinates(part, 0)} if str(op).startswith("arg") else {}
    held = (v, k.map(v * v)) if options.pop("pairs", False) else v
    found = k.reduce(op, held, lanes=lanes, **options)
    last = found[-1] if isinstance(found, tuple) else found
    y = k.tensor("y", last.element, (32 // lanes,), (1,), writable=True)
    with k.If((k.tid % lanes).eq(0)):
        k.do(STG[4], y.at(k.tid // lanes), last)
    return k.build()


NUMPY: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1), "max": lambda x: x.max(1), "min": lambda x: x.min(1),
    "prod": lambda x: x.prod(1, dtype=x.dtype), "any": lambda x: x.any(1), "all": lambda x: x.all(1),
}  # fmt: skip


KINDS = [("f32", 32), ("s32", 4), ("u32", 16), ("f32", 1)]
CASES = [(op, *KINDS[(i + j) % 4]) for j in range(2) for i, op in enumerate([*NUMPY, "argmax", "argmin"])]


@each(("op", "element", "lanes"), CASES[:12])
def test_a_reduction_is_numpys(op: str, element: str, lanes: int) -> None:
    def reference(x: Any) -> Any:
        rows = x.reshape(32 // lanes, -1)
        if op.startswith("arg"):
            return getattr(rows, op)(1) + np.arange(0, 128, 4 * lanes)
        return NUMPY[op](rows)

    zeros = op in ("any", "all", "prod") or element == "u32"
    few = (0, 1) if zeros else (-3, 3)  # ties, and exact products
    cg.verify(reduced(op, element, lanes), reference, cases=1, values={"x": few})


def test_of_nan_the_first_is_the_best_and_functions_of_ones_own_join() -> None:
    x, y = np.arange(128, dtype="f4"), np.zeros(1, "u4")
    x[[70, 20]] = np.nan
    for op in ("argmax", "argmin"):
        cg.simulate(printed(reduced(op)), {"x": x, "y": y}, group="warp")
        assert y[0] == 20
    largest = reduced(lambda a, b: cg.maximum(abs(a), abs(b)), neutral=0.0)
    cg.verify(largest, lambda x: abs(x).max(keepdims=True), cases=1)
    cg.verify(
        reduced(lambda a, b: (cg.minimum(a[0], b[0]), a[1] + b[1]), neutral=(0.0, 0.0), pairs=True),
        lambda x: (x * x).sum(keepdims=True), cases=1,
    )  # fmt: skip


REFUSED_REDUCTIONS: dict[str, tuple[Callable[[], object], type[LayoutAlgError], str]] = {
    "name": (lambda: reduced("mean"), UnknownNameError, "mean"),
    "lanes": (lambda: reduced("sum", lanes=12), UnsupportedError, "over 12 lanes: a power of"),
    "neutral": (lambda: reduced(lambda a, b: a + b), ArgumentTypeError, "its `neutral` value is needed"),
    "neutrals": (lambda: reduced(lambda a, b: a, neutral=(1,), pairs=True), ShapeError, "as many elements"),
    "index": (
        lambda: (k := cg.Kernel("k", 32)).reduce("argmax", k.fragment("v", "f32", (2,))), ArgumentTypeError,
        "the `index` of each element, of u32, is needed",
    ),
    "type": (
        lambda: (k := cg.Kernel("k", 32)).reduce("sum", k.fragment("v", "f16", (2,))), UnsupportedError,
        "sum of f16: one of f32, s32, u32",
    ),
}  # fmt: skip


@each(("build", "kind", "message"), REFUSED_REDUCTIONS.values())
def test_a_reduction_that_says_too_little_is_refused(build: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message):
        build()


# --- registers -------------------------------------------------------------------------------------------


def test_registers_are_recast_and_converted_on_the_way_to_memory() -> None:
    """A byte is two integers of 4 bits, the low one first; a part of a register is no element of 32."""
    k = cg.Kernel("nibbles", threads=32)
    x, y = k.tensor("x", "u8", (128,), (1,)), k.tensor("y", "f16", (256,), (1,), writable=True)
    of_8 = make_tiled_copy("UniversalCopy<uint32_t>", "u8", Layout(32), Layout(4))
    of_16 = make_tiled_copy("UniversalCopy<uint128_t>", "f16", Layout(32), Layout(8))
    v = k.load(k.get_slice(of_8).partition_S(x))
    k.store(v.recast("s4").to("f16"), k.get_slice(of_16).partition_D(y))

    def reference(x: Any) -> Any:
        nibbles = np.stack([x & 15, x >> 4], 1).reshape(-1).astype("i4")
        return nibbles - (nibbles >> 3 << 4)

    cg.verify(k.build(), reference, cases=1, values={"x": (0, 255)})
    for make in (partial(k.tensor, "z", "e2m1", (8,), (1,)), partial(k.shared, "t", "s4", Layout(8))):
        with pytest.raises(UnsupportedError, match=r", of which several share a byte: .* recast\(.* takes"):
            make()
    with pytest.raises(ShapeError, match="u8 as u32: 8 bits lie in a register"):
        k.fragment("one", "u8", (1,)).recast("u32")


@each("element", ["e4m3", "e5m2"])
def test_tensors_of_floats_that_numpy_lacks_are_verified(element: str) -> None:
    """Their numbers are drawn and compared; to twice as much they are rounded."""
    k = cg.Kernel("doubled", threads=32)
    x, y = (k.tensor(name, element, (128,), (1,), writable=name == "y") for name in "xy")
    copy = make_tiled_copy("UniversalCopy<uint32_t>", element, Layout(32), Layout(4))
    s, d = (k.get_slice(copy).partition_S(cg.local_tile(t, (128,), (0,))) for t in (x, y))
    k.store((k.map(k.load(s).to("f32")) * 1.25).to(element), d)
    kernel = k.build()
    cg.verify(kernel, lambda x: x * 1.25, cases=1)
    with pytest.raises(MismatchError):
        cg.verify(kernel, lambda x: x, cases=1)


def test_truth_is_decided_when_the_kernel_runs() -> None:
    v = cg.Kernel("k", 32).fragment("v", "f32", (4,))
    with pytest.raises(IRError, match="is decided when the kernel runs; where chooses by it"):
        bool(v > 0)
    with pytest.raises(UnsupportedError, match=r"2\.5 beside values of s32: a whole number is needed"):
        (k := cg.Kernel("k", 32)).map(k.fragment("i", "s32", (4,)) + 2.5)
    with pytest.raises(UnsupportedError, match="cast from f32 to s8"):
        k.map((k.fragment("f", "f32", (4,)).to("s8")) + 1)


def unpacked(both: bool = False, along: bool = True) -> cg.Program:
    """D = A (B - 128) of bytes B, with a ragged end of k."""
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    k = cg.Kernel("unpacked", threads=mma.threads)
    m, n, depth = (k.extent(x, 1 << 12, 16) for x in ("m", "n", "depth"))
    a = k.tensor("a", "u8" if both else "f16", (m, depth), (depth, 1))
    b = k.tensor("b", "u8", (n, depth), (depth, 1) if along else (1, n))
    d = k.tensor("d", "f32", (m, n), (n, 1), writable=True)
    block = k.grid((m, n), (32, 64))
    centred = cg.Unpack(lambda w: (w.to("f32") - 128).to("f16"))
    acc = cg.tile_product(
        k, mma, a, b, block, (32, 64, 32), unpack_a=centred if both else None, unpack_b=centred
    )
    cg.tile_epilogue(k, mma, acc, cg.local_tile(d, (32, 64), block))
    return k.build()


def test_an_operand_is_unpacked_on_its_way() -> None:
    """Past k the function is of zeros, which the zeros of the other operand take out."""
    sizes = {"m": 16, "n": 32, "depth": 48}
    cg.verify(unpacked(), lambda a, b: a.astype("f4") @ (b.astype("f4") - 128).T, sizes=sizes, cases=1)
    with pytest.raises(UnsupportedError, match="neither has to be 0 past k = depth, so a multiple"):
        unpacked(both=True)
    with pytest.raises(UnsupportedError, match="b is unpacked along k: store it along k"):
        unpacked(along=False)
