"""Predicted and counted accesses of generated kernels, side by side, from one `ncu` run of all on an H200.

python -m tests.gpu.kernel_counters matrices               transposes and copies
python -m tests.gpu.kernel_counters permutes               small ones, and all of the bench
python -m tests.gpu.kernel_counters reductions             the same of sums and others
python -m tests.gpu.kernel_counters norms
python -m tests.gpu.kernel_counters parts                  products in parts of k
python -m tests.gpu.kernel_counters frozen                 every case of tests/frozen/kernel_freeze.py
python -m tests.gpu.kernel_counters permutes small         without those of the bench
python -m tests.gpu.kernel_counters frozen all permute     cases whose label a regular expression finds
python -m tests.gpu.kernel_counters plain                  transposes and copies of every type and of every
                                                           configuration, small, for a sanitizer

A case is plain data, see tests/frozen/kernel_cases.py.  Both steps are those of tests/bench/kernel_images.py:
machine code is made and put into a folder; `launch FOLDER` launches it once, on random numbers, and is what
the profiler watches.  The exit status is 1 where a prediction is refuted.  Of ragged products, shared
wavefronts of copies are refuted in some cases: lanes past an edge copy one place to many, and of that only
the sectors are known.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from layoutalg.arch import find_board
from layoutalg.codegen.costs import Prediction, copied, traffic
from layoutalg.codegen.gpu import in_processes, require_gpu
from layoutalg.kernels import FAMILIES, find_family, move, verify
from layoutalg.kernels.checks import move as moved
from layoutalg.kernels.checks import rowwise as reduced
from layoutalg.kernels.gemm import GemmProblem, scalar_words
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.counters import copied_words, counted, vectorized_loads
from layoutalg.kernels.ladder.sgemm import Sgemm
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.norms import NORMS as OPS
from layoutalg.kernels.rowwise import FOLD, NormProblem, ReduceProblem
from layoutalg.model import copied_sectors, tag_sectors
from tests.bench import bench_kernels, kernel_images
from tests.draws.sequences import MATRIX_OPS
from tests.frozen import kernel_adapter
from tests.frozen.kernel_cases import label
from tests.frozen.kernel_freeze import stored
from tests.gpu import counters
from tests.gpu.counters import ARRIVED, BY_INSTRUCTION, COPIES, LDS, METRICS, Row, count_launches, idle_most
from tests.gpu.needed_wavefronts import needed_wavefronts
from tests.gpu.timing import plainly

ARCH = kernel_adapter.ARCH
MATRIX_DTYPES = ("u8", "f16", "f32", "f64", "c128")
COUNTED = (*counters.TRAFFIC, ARRIVED, COPIES, LDS)
KERNELS = "^(permute|reduce|softmax|layer_norm|rms_norm|transpose|copy|gemm)_"
"""Names of kernels of ours."""

Case = Mapping[str, Any]
Found = Sequence[Mapping[str, float]]

# --- cases -----------------------------------------------------------------------------------------------

MATRICES = (
    ("transpose", "f32", 640, 640), ("transpose", "f16", 256, 384), ("transpose", "u8", 512, 704),
    ("transpose", "f64", 256, 320), ("transpose", "c128", 128, 160), ("transpose", "f32", 515, 643),
    ("transpose", "f16", 300, 301), ("transpose", "u8", 333, 199), ("tiled_copy", "f32", 320, 500),
    ("transpose", "f32", 4096, 4096), ("transpose", "f16", 4096, 4096), ("transpose", "u8", 4096, 4096),
    ("transpose", "f32", 4099, 3077), ("tiled_copy", "f16", 4096, 4096),
)  # fmt: skip
Moved = tuple[tuple[tuple[int, ...], Any], ...]
MOVES: Moved = (
    ((5, 60, 60, 3), (0, 3, 1, 2)), ((5, 3, 60, 60), (0, 2, 3, 1)), ((20, 18, 16, 14), (3, 2, 1, 0)),
    ((3, 7, 101, 55), (3, 1, 0, 2)), ((4, 64, 16, 32), (0, 2, 1, 3)), ((333, 199), (1, 0)),
)  # fmt: skip
CONVERTED = (
    ("f32", "f16", 0), ("u8", "f32", 3), ("f64", "f16", 5), ("f16", "f64", 2), ("f32", "u8", 4),
    ("bf16", "s8", 5),
)  # fmt: skip
"""Types of source and result, and the number of the move."""

ROWS: Moved = (
    ((300, 520), 1),
    ((300, 520), 0),
    ((301, 521), 1),
    ((301, 521), 0),
    ((6, 40, 28, 28), (0, 2, 3)),
)
NORMS = (
    ("softmax", "f32", 0), ("softmax", "f16", 1), ("softmax", "f16", 2), ("softmax", "f32", 3),
    ("layer_norm", "bf16", 4),
)  # fmt: skip
PARTS = (
    ("gemm-sm80", "f16", 256, 256, 2048, 4), ("gemm-sm80", "s8", 256, 256, 2048, 3),
    ("gemm-simt", "f32", 256, 256, 2048, 4), ("gemm-simt", "f64", 256, 256, 1024, 2),
)  # fmt: skip


def tensor(family: str, shape: Sequence[int], axes: Any, dtype: str, **more: Any) -> Case:
    """A case of a tensor."""
    over = [axes] if isinstance(axes, int) else list(axes)
    return {"family": family, "shape": list(shape), "axes": over, "dtype": dtype, **more}


def matrices(small: bool) -> Iterator[Case]:
    """Transposes and copies."""
    for family, dtype, m, n in MATRICES:
        if not small or m * n < 1 << 20:
            yield {"family": family, "m": m, "n": n, "dtype": dtype}


def permutes(small: bool) -> Iterator[Case]:
    """A few small ones of every type, some that convert, and every case of `layoutalg bench permute`."""
    timed = () if small else (*moved.CASES, *moved.random_cases())
    for dtype, (shape, axes) in product(("f32", "f16", "u8"), (*MOVES, *timed)):
        yield tensor("permute", shape, axes, dtype)
    for dtype, result, n in CONVERTED:
        yield tensor("permute", *MOVES[n], dtype, result=result)


def of_the_bench(kind: Container[str], small: bool) -> Iterator[Case]:
    """Every case of `layoutalg bench reduce` that is of these operations."""
    for c in () if small else (*reduced.CASES, *reduced.random_cases()):
        if c.op in kind:
            yield tensor(c.op, c.shape, c.axes, c.dtype)


def reductions(small: bool) -> Iterator[Case]:
    """A few sums, and those of the bench."""
    for dtype, (shape, axes) in product(("f32", "f16"), (*ROWS, ((40000,), 0))):
        yield tensor("sum", shape, axes, dtype)
    yield from of_the_bench(FOLD, small)


def norms(small: bool) -> Iterator[Case]:
    """A few norms, and those of the bench."""
    yield from (tensor(op, *ROWS[n], dtype) for op, dtype, n in NORMS)
    yield from of_the_bench(OPS, small)


def parts(small: bool) -> Iterator[Case]:
    """Products in parts of k."""
    for family, dtype, m, n, k, splits in PARTS:
        turned = {"b_major": "mn"} if family == "gemm-simt" else {}
        yield {"family": family, "m": m, "n": n, "k": k, "dtype": dtype, "splits": splits, **turned}


def frozen(small: bool) -> Iterator[Case]:
    """Those of the freeze."""
    yield from (one["case"] for one in stored()["cases"])


KINDS: Mapping[str, Callable[[bool], Iterator[Case]]] = {
    "matrices": matrices, "permutes": permutes, "reductions": reductions, "norms": norms, "parts": parts,
    "frozen": frozen,
}  # fmt: skip

# --- what is predicted -----------------------------------------------------------------------------------


def rows_of(asked: tuple[Case, Sequence[int], Found]) -> list[Row]:
    """What is predicted of a case beside the counters of its launches, whose blocks are given."""
    case, blocks, found = asked
    name, (_, p, config) = label(case), kernel_adapter.chosen(case)
    quiet = blocks[0] <= find_board(ARCH).sms
    if isinstance(p, MatrixProblem):
        (prediction,) = FAMILIES[case["family"]].costs(p, config, ARCH)
        return list(counters.compared(name, prediction, found, quiet=quiet))
    if isinstance(p, ReduceProblem | NormProblem):
        return list(along_rows(name, p, config, found))
    if isinstance(p, GemmProblem):
        # Of a product whose loads the compiler may have merged, the prediction that holds, if any does.
        ways = (False, True) if isinstance(config, Sgemm) else (False,)
        tried = [list(of_product(name, p, config, found, merged=merged)) for merged in ways]
        return next((rows for rows in tried if not any(row.refuted for row in rows)), tried[0])
    return list(of_moves(name, move.normalise(p), config, found[0], quiet=quiet))


SUNK = "elements that are not stored are not loaded"
"""The compiler moves a load to where its element is stored, behind the test of whole vectors."""


def of_moves(
    name: str, x: move.Moves, config: move.PermuteConfig, found: Mapping[str, float], *, quiet: bool
) -> Iterator[Row]:
    """What is predicted of a permute beside the counters of its launch."""
    kernel = move.build_permute(x, config)
    costs = traffic(kernel, {}, ARCH)

    def total(access: str) -> int:
        return sum(cost.total for op, cost in costs.items() if access in op)

    tags, arriving = (copied(kernel, {}, 16, count, ARCH) for count in (tag_sectors, copied_sectors))
    known, loads = bool(tags or arriving), int(found[METRICS["ld.shared"][0]])
    sunk = needed_wavefronts(x, config, ARCH) <= loads < total("ld.shared")
    for access, predicted, reason in (
        ("ld.global", total("ld.global") + (tags if known else total(":global")), ""),
        ("st.global", total("st.global"), ""),
        ("ld.shared", total("ld.shared"), SUNK if sunk else "" if quiet else counters.LOST),
    ):
        metric, unit = METRICS[access]
        yield Row(name, access, unit, predicted, int(found[metric]), reason)
    if known:
        loaded, measured = total("ld.global"), int(found[ARRIVED])
        served = 0 < arriving + loaded - measured <= loaded
        reason = f"{loaded} by loads, of which the L1 serves some" if served else ""
        yield Row(name, "from the L2", "sectors", arriving + loaded, measured, reason)


def along_rows(name: str, p: Any, config: Any, found: Found) -> Iterator[Row]:
    """What is predicted of the launches of a plan beside their counters, the passes of a reduction apart.

    Memory is compared where it is moved at all: what fits the L2 is read from there.
    """
    family, board = find_family(p.op), find_board(ARCH)
    kernels, memory = family.launches(p, config, ARCH).kernels, family.memory
    if isinstance(p, ReduceProblem):
        for n, (kernel, one) in enumerate(zip(kernels, found, strict=True), 1):
            own = f"{name}, pass {n}" if len(found) > 1 else name
            yield from counters.accesses(own, [kernel], [one], ARCH)
    else:
        yield from counters.accesses(name, kernels, found, ARCH, polls=config.together)
    expected = memory(p, config, ARCH) if memory else (0, 0)
    if sum(expected) > (board.l2_bytes or 0):
        for (way, metric), predicted in zip(counters.DRAM.items(), expected, strict=True):
            measured = sum(int(one[metric]) for one in found)
            yield Row(name, f"memory {way}", "bytes", predicted, measured, counters.MOVED)


def of_product(name: str, p: GemmProblem, c: Any, seen: Found, *, merged: bool = False) -> Iterator[Row]:
    """What the kernels of a product are predicted to access beside the counters of their launches.

    `merged`: loads of fragments are vectors that the compiler made.
    """
    sequence = launches(p, c)
    params = dict(sequence.scalars) | scalar_words(p, "alpha", 1.0) | scalar_words(p, "beta", 1.0)
    first, *second = sequence.kernels
    fewer = sum(most - least for least, most in copied_words(first, params).values())
    if merged and isinstance(c, Sgemm):
        one = vectorized_loads(p, c, first, params)
    else:
        one = counted(first, params)
    yield from of_kernel(f"{name}, parts" if second else name, one, seen[0], fewer)
    for kernel in second:
        yield from of_kernel(f"{name}, sums", traffic(kernel, params), seen[1])


def of_kernel(name: str, one: Prediction, found: Mapping[str, float], fewer: int = 0) -> Iterator[Row]:
    """What a kernel of a product asks of the L1 and of shared memory beside its counters.

    Three things move the wavefronts by instruction: copies that no lane makes (IDLE_COPY), loads that the
    compiler makes again in a word of its own (each is counted among the loads, and takes one wavefront), and
    both sides of copies that conflict, which may take so many `fewer` wavefronts.
    """
    totals = {"ld.global": 0, "st.global": 0, "shared, by instruction": 0}
    for op, cost in one.items():
        written = "st.global" if op.startswith("st") else "ld.global"
        totals[written if "global" in op else "shared, by instruction"] += cost.total
    loads = sum(cost.instructions for op, cost in one.items() if op.startswith("ld.shared"))
    again, off = round(found.get(LDS, 0)) - loads, round(found[COPIES]) - counters.copies_of(one)
    for access, predicted in totals.items():
        metric, unit = METRICS.get(access, (BY_INSTRUCTION, "wavefronts"))
        measured, reason = round(found[metric]), ""
        if unit == "wavefronts":
            if 0 < measured - predicted <= idle_most(one, off):
                reason = f"{off} copies no lane makes"
            elif 0 < measured - predicted == again:
                reason = f"{again} words loaded again"
            elif 0 < predicted - measured <= fewer:
                reason = "conflicts on both sides"
        yield Row(name, access, unit, predicted, measured, reason)


# --- what is counted -------------------------------------------------------------------------------------


def made(case: Case) -> tuple[dict[str, Any], list[bytes]]:
    """A case's launches as data, and their machine code."""
    return kernel_images.side(kernel_adapter, case)


def launch(folder: Path) -> None:
    """Launch every case of a folder once, on random numbers: what the profiler watches."""
    for pair in kernel_images.pairs(folder):
        held = bench_kernels.Buffers(pair, 1)
        held.launches(pair.now, folder)[0]()
        del held
        bench_kernels.free()


def measure(cases: Sequence[Case]) -> Iterator[Row]:
    """Launch all cases under ncu, and put what was counted beside what is predicted."""
    found = in_processes(made, cases)
    both = list(zip(cases, (one for one, _ in found), strict=True))
    if lost := [f"{label(case)}: {one['raised']}" for case, one in both if "raised" in one]:
        raise SystemExit("\n".join(lost))
    with tempfile.TemporaryDirectory(prefix="layoutalg-") as name:
        folder = Path(name)
        for image in (image for _, images in found for image in images):
            kernel_images.store(folder, image)
        kernel_images.write(folder, [{"case": label(case), "base": one, "now": one} for case, one in both])
        seen = iter(count_launches(KERNELS, COUNTED, "tests.gpu.kernel_counters", "launch", name))
    asked = []
    for case, one in both:
        blocks = [x * y * z for x, y, z in (kernel["grid"] for kernel in one["kernels"])]
        asked.append((case, blocks, counters.taken(seen, len(blocks))))
    for rows in in_processes(rows_of, asked):
        yield from rows


def launch_small() -> int:
    """Launch full tiles, edges, narrow vectors and gaps of what moves matrices; how many there were."""
    done, arch = 0, require_gpu().arch
    shapes = ((256, 512, 0, 0), (131, 259, 0, 0), (140, 300, 20, 52), (1, 1, 0, 0))
    for name, dtype, (m, n, more, past) in product(MATRIX_OPS, MATRIX_DTYPES, shapes):
        family = FAMILIES[name]
        p = family.problem(m, n, dtype, n + more, (m if name == "transpose" else n) + past)
        for config in family.configs(p, arch):
            verify(family, p, config, target="gpu").require()
            done += 1
    return done


def main(args: list[str]) -> int:
    """Print the table."""
    kind, which, pattern = [*args, *("", "all", "")[len(args) :]]
    if kind == "launch":
        launch(Path(which))
        return 0
    if kind == "plain":
        plainly()
        print(f"{launch_small()} launches correct")
        return 0
    cases = [case for case in KINDS[kind](which == "small") if re.search(pattern, label(case))]
    return counters.table(kind, measure(cases))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
