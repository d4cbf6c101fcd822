"""Rows beside QuACK and permutes beside cuTENSOR, on the same buffers and in turn.

python -m tests.gpu.peers rows out.json              softmaxes and norms of rows: ours, QuACK, eager, a copy
python -m tests.gpu.peers permutes out.json          random tensors: ours, cuTENSOR, a copy

The peers are optional: where quack-kernels cannot be imported, or libcutensor.so.2 (the wheel cutensor-cu13,
its folder in LD_LIBRARY_PATH) cannot be loaded, that is said, and the rest is measured.

Rows are of 256 to 1,048,576 columns in tensors of 256 MB, without weights: both sides move the same bytes.
Permutes are of the tensors that `tests.gpu.tune_permute` draws for a seed.  Times as
in `tests.gpu.row_bench`; ours runs twice, which says what repeats.  A ratio is the peer's time over ours.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from math import prod
from statistics import geometric_mean
from typing import Any, TypeAlias, TypeVar, cast

from layoutalg.codegen import gpu
from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.checks.rowwise import Case
from tests.gpu import row_bench
from tests.gpu.counters import verdict
from tests.gpu.moves import Moved, Variant, timed_cases
from tests.gpu.timing import Run, Turns, as_torch, one_stream, write_lines
from tests.gpu.tune_permute import variants_of

ROW_BYTES = 256 << 20
COLUMNS = (
    256, 1000, 1024, 4096, 5000, 8192, 12344, 16384, 32768, 40008, 65536, 131072, 200008, 262144,
    524288, 1048576,
)  # fmt: skip
"""Powers of two, and multiples of 8 that are not of 64."""

QUACK_MOST = 524288
"""Columns, at most, that QuACK is asked for: of more its compiler takes minutes and 10 GB per kernel."""

DTYPES = ("f32", "bf16", "f16")
PERMUTED = ("f64", "f32", "f16")
SEED, TENSORS = 2027, 27
ROW_LIMIT, PERMUTE_LIMIT = 0.95, 0.98
"""Ratios below these are counted."""

TROUBLES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError
)  # fmt: skip
"""Errors of compilers and launches of a peer for what they do not take."""

TOLERANCE = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}

Row: TypeAlias = dict[str, Any]


class PeerError(RuntimeError):
    """A call of a peer that did not succeed."""


Peer = TypeVar("Peer")


def there(make: Callable[[], Peer], name: str, *errors: type[Exception]) -> tuple[Peer | None, str]:
    """A peer, or why it is left out."""
    try:
        return make(), ""
    except errors as error:
        return None, f"{name} left out: {type(error).__name__}: {error}"


# --- rows beside QuACK ---------------------------------------------------------------------------------


def row_cases() -> Iterator[Case]:
    """Softmaxes and norms of rows; of each type those of most columns are last."""
    for dtype in DTYPES:
        for n in COLUMNS:
            rows = ROW_BYTES // find_dtype(dtype).nbytes // n
            yield from (Case(op, (rows, n), (1,), dtype) for op in row_bench.NORMED)


class Quack:
    """QuACK's softmax and norms without weights.  Raises ImportError or OSError where it is not installed."""

    def __init__(self) -> None:
        self.norms, self.softmax = (import_module(f"quack.{name}") for name in ("rmsnorm", "softmax"))
        self.troubles = (*TROUBLES, import_module("cutlass.base_dsl.common").DSLBaseError)

    def run(self, op: str, x: Any, out: Any) -> Run:
        """The launch of an operation along the last axis."""
        if op == "softmax":
            return lambda: self.softmax._softmax_fwd(x, out)
        options = (None, out, None, None, None, None, None, row_bench.EPS, op == "layer_norm")
        return lambda: self.norms._rmsnorm_fwd(x, *options)


class Rows:
    """Sources, targets and the peer, once for all cases."""

    peer_name, key, limit, kinds = "QuACK", "quack", ROW_LIMIT, ("op", "dtype")

    def __init__(self, rounds: int) -> None:
        self.bench = row_bench.bench(rounds, seed=0, once_us=row_bench.SLOW_US)
        self.quack, self.trouble = there(Quack, self.peer_name, ImportError, OSError, RuntimeError)
        self.out = gpu.device_empty((ROW_BYTES,), "u1")

    @staticmethod
    def compiled() -> dict[Case, row_bench.Way]:
        """The cases and the ways that are chosen."""
        return dict(row_bench.compiled_ways((case, None) for case in row_cases()))

    def row(self, case: Case, way: row_bench.Way) -> Row:
        """The times of a case, and what went wrong."""
        src, dst, nbytes = self.bench.arrays(case)
        x, y, out = (as_torch(z.view("u1")[:nbytes], case.dtype, case.shape) for z in (src, dst, self.out))
        peer, more = self.trouble, dict[str, Run]()
        if case.shape[1] > QUACK_MOST:
            peer = "QuACK left out: takes minutes to compile"
        elif self.quack is not None:
            run = self.quack.run(case.op, x, out)
            try:
                run()
                more["quack"] = run
            except self.quack.troubles as error:
                peer = f"{type(error).__name__}: {str(error)[:200]}"
        found = self.bench.timed(case, {"ours": way}, "ours", ["eager"], more)
        if more:
            theirs, mine = (z[:64].float() for z in (out, y))
            apart = float((theirs - mine).abs().nan_to_num(0).max())
            peer = f"the results are {apart:.2g} apart" if apart > TOLERANCE[case.dtype] else peer
            nans = [int(z.isnan().sum()) for z in (theirs, mine)]
            peer = f"of the first 64 rows QuACK's has {nans[0]} NaN, ours {nans[1]}" if any(nans) else peer
        return {
            "case": str(case), "op": case.op, "dtype": case.dtype, "columns": case.shape[1],
            "config": repr(way.config), "wrong": found.wrong, "peer": peer,
            **compared(found.us, "quack", row_bench.problem_of(case).moved_bytes, nbytes),
        }  # fmt: skip


def compared(us: dict[str, float], peer: str, moved: int, nbytes: int) -> Row:
    """Times as ratios and shares of the copy of `nbytes`."""
    least = moved * us["copy"] / (2 * nbytes)
    found: Row = {"us": us, "aa": us["again"] / us["ours"], "share": least / us["ours"]}
    found |= {f"over {name}": us[name] / us["ours"] for name in (peer, "eager") if name in us}
    return found | ({"share of the peer": least / us[peer]} if peer in us else {})


def said(row: Row) -> str:
    """A row of the table."""
    numbers = (f"{key} {row[key]:5.3f}" for key in row if key.startswith(("over", "share", "aa")))
    return f"{' '.join(numbers)} {row['us']['ours']:8.1f} us {row['case']}  {row['wrong']} {row['peer']}"


def measured(cases: Sequence[Any], one: Callable[[Any], Row], asked: argparse.Namespace) -> list[Row]:
    """The rows of cases until the time is over; each is written when it is there."""
    rows, began = list[Row](), time.monotonic()
    for n, case in enumerate(cases):
        if time.monotonic() - began > asked.seconds:
            print(f"{len(cases) - n} of {len(cases)} cases not begun after {asked.seconds:.0f} s", flush=True)
            break
        rows.append(one(case))
        write_lines(asked.out, rows)
        print(said(rows[-1]), flush=True)
    return rows


def summary(rows: Iterable[Row], key: str, limit: float, of: str = "dtype") -> Iterator[str]:
    """Geometric mean, least and how many are below the limit, of all rows and of each kind of them."""
    found = [row for row in rows if key in row]
    for name in ("all", *dict.fromkeys(row[of] for row in found)):
        if group := [row for row in found if name in ("all", row[of])]:
            ratios = [row[key] for row in group]
            worst = min(group, key=lambda row: float(row[key]))
            means = (geometric_mean(row[k] for row in group) for k in ("share", "share of the peer"))
            yield (
                f"{key}, {name}: {len(group)} cases, geometric mean {geometric_mean(ratios):.3f}, "
                f"least {min(ratios):.3f} ({worst['case']}), {sum(r < limit for r in ratios)} below {limit}; "
                f"shares of the copy {' and '.join(f'{mean:.3f}' for mean in means)}"
            )


def spread(rows: Sequence[Row]) -> str:
    """The share that repeats: the second run of ours over the first."""
    aa = sorted(row["aa"] for row in rows)
    return f"ours again over ours: {aa[0]:.3f} to {aa[-1]:.3f}, middle {aa[len(aa) // 2]:.3f}" if aa else ""


# --- permutes beside cuTENSOR --------------------------------------------------------------------------

_DATA = {"f16": 2, "f32": 0, "f64": 1}
_IDENTITY, _DEFAULT, _NO_JIT, _ALIGNED = 1, -1, 0, 128


class CuTensor:
    """The library, by its C interface.  Raises OSError where it cannot be loaded."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcutensor.so.2")
        self.lib.cutensorGetErrorString.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.do("cutensorCreate", ctypes.byref(self.handle))

    def do(self, name: str, *args: Any) -> None:
        """A call.  Raises PeerError for a status other than success."""
        if status := getattr(self.lib, name)(*args):
            raise PeerError(f"{name}: {self.lib.cutensorGetErrorString(status).decode()}")

    def permute(
        self, dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], dst: int, src: int, stream: int
    ) -> Run:
        """The launch of dst = permute(src, axes), both row-major; alpha is 1, on the host."""
        rank, desc = len(shape), [ctypes.c_void_p() for _ in range(2)]
        orders = (range(rank), axes)
        for one, order in zip(desc, orders, strict=True):
            extents = [shape[a] for a in order]
            strides = [prod(extents[n + 1 :]) for n in range(rank)]
            self.do(
                "cutensorCreateTensorDescriptor", self.handle, ctypes.byref(one), ctypes.c_uint32(rank),
                (ctypes.c_int64 * rank)(*extents), (ctypes.c_int64 * rank)(*strides),
                ctypes.c_int(_DATA[dtype]), ctypes.c_uint32(_ALIGNED),
            )  # fmt: skip
        modes = [(ctypes.c_int32 * rank)(*order) for order in orders]
        number = "64F" if dtype == "f64" else "32F"
        compute = ctypes.c_void_p.in_dll(self.lib, f"CUTENSOR_COMPUTE_DESC_{number}")
        operation, preference, plan = (ctypes.c_void_p() for _ in range(3))
        self.do(
            "cutensorCreatePermutation", self.handle, ctypes.byref(operation), desc[0], modes[0],
            ctypes.c_int(_IDENTITY), desc[1], modes[1], compute,
        )  # fmt: skip
        self.do(
            "cutensorCreatePlanPreference", self.handle, ctypes.byref(preference), ctypes.c_int(_DEFAULT),
            ctypes.c_int(_NO_JIT),
        )  # fmt: skip
        size = ctypes.c_uint64(0)
        self.do("cutensorCreatePlan", self.handle, ctypes.byref(plan), operation, preference, size)
        alpha = ctypes.c_double(1.0) if dtype == "f64" else ctypes.c_float(1.0)
        call, told = self.lib.cutensorPermute, ctypes.byref(alpha)
        from_, to, queue = ctypes.c_void_p(src), ctypes.c_void_p(dst), ctypes.c_void_p(stream)

        def launch() -> object:
            if status := call(self.handle, plan, told, from_, to, queue):
                raise PeerError(f"cutensorPermute: {self.lib.cutensorGetErrorString(status).decode()}")
            return alpha

        return launch


def permute_cases(dtypes: Sequence[str], tensors: int, seed: int) -> list[tuple[str, Any]]:
    """The first tensors of a seed, so many of each type.

    >>> [dtype for dtype, _ in permute_cases(("f64", "f16"), 2, SEED)]
    ['f64', 'f64', 'f16', 'f16']
    """
    drawn = timed_cases(seed, tensors * 4)
    return [one for dtype in dtypes for one in drawn if one[0] == dtype]


class Permutes:
    """Buffers and the peer, once for all cases."""

    peer_name, key, limit, kinds = "cuTENSOR", "cutensor", PERMUTE_LIMIT, ("dtype",)

    def __init__(self, rounds: int) -> None:
        self.turns = Turns(rounds, 0, row_bench.AHEAD_CYCLES, row_bench.SLOW_US)
        self.source, self.target = (gpu.device_empty((row_bench.MOST_BYTES + 4096,), "u1") for _ in range(2))
        self.peer, self.trouble = there(CuTensor, self.peer_name, OSError, PeerError, AttributeError)

    @staticmethod
    def compiled() -> dict[tuple[str, Any], Variant]:
        """The cases and the configurations that are chosen."""
        cases, arch = permute_cases(PERMUTED, TENSORS, SEED), gpu.require_gpu().arch
        made = gpu.in_processes(variants_of, [(arch, 0, case) for case in cases])
        return {case: variants[0] for case, variants in zip(cases, made, strict=True)}

    def row(self, case: tuple[str, Any], v: Variant) -> Row:
        """The times of a case, and what went wrong."""
        dtype, (shape, axes) = case
        numbers = gpu.random_normal(prod(shape), 1, dtype).view("u1")
        self.source[: numbers.size] = numbers
        moved = Moved(*case, self.source, self.target)
        ours, peer = moved.run(v), self.trouble
        wrong = "" if moved.is_right(ours) else "WRONG"
        runs: dict[str, Run] = {"ours": ours, "again": ours, "copy": moved.copy}
        if self.peer is not None:
            try:
                places = (moved.target.data.ptr, moved.source.data.ptr)
                run = self.peer.permute(dtype, shape, axes, *places, gpu.runtime.current_stream())
                peer = "" if moved.is_right(run) else "cuTENSOR's result differs"
                runs["cutensor"] = run
            except PeerError as error:
                peer = str(error)
        for each in runs.values():
            each()
        us = self.turns.medians(runs)
        return {
            "case": f"{dtype} {shape} -> {axes}", "dtype": dtype, "rank": f"rank {len(shape)}",
            "config": repr(v.config), "wrong": wrong, "peer": peer,
            **compared(us, "cutensor", 2 * moved.used, moved.source.size),
        }  # fmt: skip


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("rows", "permutes"))
    parser.add_argument("out", help="a file of one JSON object per line")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=600.0, help="no further case is begun after these")
    asked = parser.parse_args(args)
    kind: Any = Rows if asked.what == "rows" else Permutes
    made = kind.compiled()
    print(f"{len(made)} cases compiled", flush=True)
    with one_stream():
        bench = kind(asked.rounds)
        print(bench.trouble or f"{kind.peer_name} is there", flush=True)
        found = measured(list(made), lambda c: cast(Row, bench.row(c, made[c])), asked)
    lines = (line for of in kind.kinds for line in summary(found, f"over {kind.key}", kind.limit, of))
    print(*lines, spread(found), sep="\n")
    return verdict(sum(bool(row["wrong"]) for row in found), len(found), "results")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
