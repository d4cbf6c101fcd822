"""Random kernels of CuTe: tiles, layouts of threads and values, swizzles, element types, atoms of copies.

`kernel(seed)` is a text that is CUDA for layoutalg.source and C++ for tests.source.cute_oracle.  Tiles and
threads are powers of two, and vectors divide the rows that they lie in, as CuTe asks for."""

from __future__ import annotations

import random

from layoutalg.source import read_kernel
from layoutalg.source.costs import Launch
from layoutalg.source.terms import values
from tests.source.cute_oracle import Case, Move

_TYPES = {"float": 4, "half_t": 2, "double": 8, "int8_t": 1}


class _Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def pick(self, *choices: object) -> str:
        return str(self.random.choice(choices))

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def integer(self, n: int) -> str:
        return f"Int<{n}>{{}}"

    def shared(self, rows: int, columns: int, size: int, across: bool) -> str:
        """A layout of a tile in shared memory, its rows or, `across`, its columns next to each other."""
        inner, outer = (columns, rows) if across else (rows, columns)
        way = self.random.randrange(5)
        if way == 0 and inner * size >= 64 and outer >= 8:  # an atom, repeated
            vector = (16 // size).bit_length() - 1
            length = min(inner, 128 // size)
            bits = min(3, (length * size // 16).bit_length() - 1)
            swizzle = f"Swizzle<{bits},{vector},{max(length.bit_length() - 1 - vector, bits)}>{{}}"
            atom = f"Layout<Shape<_8, Int<{length}>>, Stride<Int<{length}>, _1>>{{}}" if across else (
                f"Layout<Shape<Int<{length}>, _8>, Stride<_1, Int<{length}>>>{{}}")  # fmt: skip
            return f"tile_to_shape(composition({swizzle}, {atom}), Shape<Int<{rows}>, Int<{columns}>>{{}})"
        if way == 1:
            vector = self.random.randrange(5)
            swizzle = f"Swizzle<{self.random.randint(1, 3)},{vector},3>{{}}"
            major = "LayoutRight" if across else "LayoutLeft"
            return f"composition({swizzle}, make_layout(Shape<Int<{rows}>, Int<{columns}>>{{}}, {major}{{}}))"
        pad = self.random.choice((0, 0, 16 // size, 1)) if way == 2 else 0
        stride = f"Int<{inner + pad}>"
        strides = f"{stride}, _1" if across else f"_1, {stride}"
        return f"Layout<Shape<Int<{rows}>, Int<{columns}>>, Stride<{strides}>>{{}}"

    def threads(self, rows: int, columns: int, most: int) -> tuple[int, int, str]:
        """(along rows, along columns, layout) of threads that divide a tile."""
        a = 1 << self.random.randint(0, min(rows, most).bit_length() - 1)
        b = 1 << self.random.randint(0, min(columns, most // a).bit_length() - 1)
        major = self.pick("", ", LayoutRight{}")
        return a, b, f"make_layout(make_shape({self.integer(a)}, {self.integer(b)}){major})"


def kernel(seed: int) -> Case:
    """A kernel that copies a tile of global memory to shared memory, and in parts to registers or back."""
    w = _Writer(seed)
    kind = w.pick(*_TYPES)
    size = _TYPES[kind]
    rows, columns = (1 << w.random.randint(4, 7) for _ in range(2))
    across = w.chance(60)
    m, n = rows * w.random.randint(1, 2), columns * w.random.randint(1, 2)
    dynamic = w.chance(60)
    leading = "ld" if dynamic else f"Int<{(n if across else m)}>{{}}"
    strides = f"{leading}, Int<1>{{}}" if across else f"Int<1>{{}}, {leading}"
    w.lines += [
        f"auto mA = make_tensor(make_gmem_ptr(A), make_shape(m, n), make_stride({strides}));",
        f"auto gA = local_tile(mA, make_shape({w.integer(rows)}, {w.integer(columns)}), "
        "make_coord(blockIdx.x, 0));",
        f"auto sL = {w.shared(rows, columns, size, across)};",
        f"__shared__ {kind} smem[cosize_v<decltype(sL)>];",
        "auto sA = make_tensor(make_smem_ptr(smem), sL);",
    ]
    way = w.random.randrange(4)
    vector = w.random.choice(
        [v for v in (1, 2, 4, 8, 16) if v * size <= 16 and v <= (columns if across else rows)]
    )
    if way == 0:
        a, b, layout = w.threads(rows, columns, 128)
        threads = a * b
        w.lines += [f"auto tA = {layout};",
                    "auto g = local_partition(gA, tA, threadIdx.x);",
                    "auto s = local_partition(sA, tA, threadIdx.x);", "copy(g, s);"]  # fmt: skip
    else:
        lanes = (rows, columns // vector) if across else (rows // vector, columns)
        a, b, layout = w.threads(*lanes, 128)
        threads = a * b
        shape = f"_1, Int<{vector}>" if across else f"Int<{vector}>, _1"
        width = 8 * vector * size
        instructions = [f"UniversalCopy<uint_bit_t<{width}>>" if width < 128 else "UniversalCopy<uint128_t>"]
        instructions += ["AutoVectorizingCopy", "DefaultCopy"]
        if width >= 32:
            instructions.append(
                f"SM80_CP_ASYNC_CACHEALWAYS<{'uint128_t' if width == 128 else f'uint{width}_t'}>"
            )
        instruction = w.pick(*instructions)
        instruction = instruction.replace("uint_bit_t<8>", "uint8_t").replace("uint_bit_t<16>", "uint16_t")
        instruction = instruction.replace("uint_bit_t<32>", "uint32_t").replace("uint_bit_t<64>", "uint64_t")
        w.lines += [
            f"auto by = make_tiled_copy(Copy_Atom<{instruction}, {kind}>{{}}, {layout}, "
            f"Layout<Shape<{shape}>>{{}});",
            "auto mine = by.get_slice(threadIdx.x);",
            "auto g = mine.partition_S(gA);", "auto s = mine.partition_D(sA);", "copy(by, g, s);",
        ]  # fmt: skip
    w.lines.append("__syncthreads();")
    after = w.random.randrange(4)
    if after == 0:
        a, b, layout = w.threads(rows, columns, threads)
        if a * b == threads:
            w.lines += [f"auto tB = {layout};", "auto s2 = local_partition(sA, tB, threadIdx.x);",
                        "auto r2 = make_fragment_like(s2);",
                        w.pick("copy(s2, r2);", "copy_aligned(s2, r2);")]  # fmt: skip
    elif after == 1 and kind == "half_t" and rows >= 16 and columns >= 16 and threads % 32 == 0:
        atoms = threads // 32 if rows % (threads // 2) == 0 else 0
        if atoms:
            w.lines += _product(w, atoms, across)
    elif after == 2 and way == 0:
        w.lines += ["copy(s, g);"]
    elif after == 3:
        w.lines += [f"auto r = make_tensor<{kind}>(shape(s));", "copy(s, r);", "copy(r, s);"]
    body = "\n  ".join(w.lines)
    name = f"k{seed}"
    head = (
        f"__global__ void {name}({kind}* A, int m, int n, int ld) {{\n  using namespace cute;\n  {body}\n}}\n"
    )
    text = f"#include <cute/tensor.hpp>\nusing namespace cute;\n{head}"
    block = w.random.randrange(m // rows)
    element = kind if kind in ("float", "double") else f"cute::{kind}"
    return Case(name, text, threads, block, ((element, "A", m * n),),
                (("m", m), ("n", n), ("ld", n if across else m)), ("smem",))  # fmt: skip


def _product(w: _Writer, atoms: int, across: bool) -> list[str]:
    """A's fragments of a product, by plain copies or by ldmatrix."""
    instruction = (
        w.pick("SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N", "UniversalCopy<half_t>") if across else "DefaultCopy"
    )
    return [
        "auto mma = make_tiled_mma(MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>{}, "
        f"Layout<Shape<Int<{atoms}>, _1, _1>>{{}});",
        "auto part = mma.get_slice(threadIdx.x);",
        "auto rA = part.partition_fragment_A(sA);",
        f"auto byA = make_tiled_copy_A(Copy_Atom<{instruction}, half_t>{{}}, mma);",
        "auto mineA = byA.get_slice(threadIdx.x);",
        "auto xA = mineA.partition_S(sA);", "auto yA = mineA.retile_D(rA);", "copy(byA, xA, yA);",
    ]  # fmt: skip


def read_moves(case: Case) -> list[Move] | str:
    """The accesses of a case as they are read, in the order of its threads; a text where one is not."""
    sets = {**dict(case.sets), "blockIdx.x": case.block}
    reading = read_kernel(case.text, case.threads, sets=sets)
    why = [a.why for a in reading.accesses if not a.read] + [part.why for part in reading.unfollowed]
    if why:
        return str(why[0])
    launch = Launch((case.threads, 1, 1), None)
    rows: list[Move] = []
    by_thread: dict[int, list[Move]] = {}
    for touch in reading.touches:
        assert not touch.conditions and not touch.turns
        at = values(touch.offset, launch.threads)
        kind = "l" if touch.op.startswith(("ld", "ldmatrix")) or touch.op.endswith(":global") else "s"
        for thread in range(case.threads):
            byte = int(
                at
                if isinstance(at, int)
                else at[..., thread % at.shape[-1]].item()
                if at.size > 1
                else at.item()
            )
            by_thread.setdefault(thread, []).append(Move(thread, kind, touch.array, byte, touch.width))
    for thread in sorted(by_thread):
        rows += by_thread[thread]
    return rows
