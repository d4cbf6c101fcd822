"""Bytes of memory of random norms, reductions and permutes: predicted from the plan, and counted.

python -m tests.gpu.memory_bytes OUT.jsonl                               the second published seeds
python -m tests.gpu.memory_bytes OUT.jsonl --seed 20261123 --tensors 2027 --norms 20
python -m tests.gpu.memory_bytes OUT.jsonl --way 3                       the fourth plan of each, or the last

The prediction is of the plan: what a norm reads once or twice, what a split reduction keeps in between, and
of a permute the half lines that loads of its source and the sectors that stores of its target touch
(`analyze(..., level="dram")`).  The counters are `dram__bytes_read.sum` and `dram__bytes_write.sum`, both of
one pass of ncu.  Before and after each case a kernel reads 512 MB that nobody writes: it leaves nothing of
the operands in the L2, and what it writes back is what the case left dirty there: that is written, too.
"""

from __future__ import annotations

import argparse
import pickle
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from layoutalg.codegen.gpu import CompiledSequence, compile_sequence, in_processes, load_sequence, require_gpu
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.family import Traffic
from layoutalg.kernels.rowwise import ReduceProblem
from tests.gpu.counters import DRAM, count_launches
from tests.gpu.moves import timed_cases
from tests.gpu.row_bench import FRESH, drawn
from tests.gpu.timing import write_lines

TENSORS = 2028
FLUSH, FLUSH_BYTES = "read_clean_bytes", 512 << 20
FLUSH_TEXT = f"""
extern "C" __global__ void {FLUSH}(const uint4* src, unsigned* dst, int words) {{
    unsigned found = 0;
    for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < words; n += gridDim.x * blockDim.x) {{
        const uint4 x = src[n];
        found |= x.x | x.y | x.z | x.w;
    }}
    if (found) dst[0] = found;
}}
"""
"""Reads zeros, so that nothing is written."""

MOST_OFF = 0.01
"""Of what is predicted; more is said."""


class Made(NamedTuple):
    """A case with what is needed of memory and what is predicted of its plan, compiled."""

    label: str
    family: str
    config: str
    needed: Traffic
    predicted: Traffic
    compiled: CompiledSequence


def made(asked: tuple[tuple[str, tuple[int, ...], tuple[int, ...], str], str, int]) -> Made:
    """A case planned and compiled for an architecture, in the way of a number that stands."""
    (op, shape, axes, dtype), arch, way = asked
    family = find_family(op)
    p = family.problem(shape, axes, dtype)
    stand = (c.config for c in family.candidates(p, arch) if c.dropped is None)
    *_, config = family.choose(p, arch), *islice(stand, 1, way + 1)
    if family.memory is None:
        raise UnsupportedError(f"{op}: nothing is predicted of its memory")
    nbytes = prod(shape) * (p.element_bytes if op == "permute" else p.dtype.nbytes)
    kind = "permutes" if op == "permute" else "reductions" if isinstance(p, ReduceProblem) else "norms"
    return Made(
        f"{op} {'x'.join(map(str, shape))} {','.join(map(str, axes))} {dtype}", kind, repr(config),
        Traffic(nbytes, p.written_bytes if kind == "reductions" else nbytes), family.memory(p, config, arch),
        compile_sequence(family.launches(p, config, arch), arch),
    )  # fmt: skip


def cases(asked: argparse.Namespace) -> list[tuple[str, tuple[int, ...], tuple[int, ...], str]]:
    """Norms, reductions and permutes of the seeds."""
    found = [(c.op, c.shape, c.axes, c.dtype) for c in drawn(asked.seed, asked.norms, asked.reductions)]
    moved = timed_cases(asked.tensors, asked.permutes)
    return [*found, *(("permute", shape, axes, dtype) for dtype, (shape, axes) in moved)]


def launch(path: str) -> None:
    """Launch what was made, with a flush before the first and after each: what ncu watches."""
    import cupy

    plans: list[Made] = pickle.loads(Path(path).read_bytes())
    most = (max(m.needed[side] for m in plans) + 4096 for side in (0, 1))
    source, target, clean = (cupy.zeros(n, "u1") for n in (*most, FLUSH_BYTES))
    word, read = cupy.zeros(4, "u4"), cupy.RawKernel(FLUSH_TEXT, FLUSH)

    def flush() -> None:
        read((1056,), (512,), (clean, word, cupy.int32(FLUSH_BYTES // 16)))

    flush()
    for m in plans:
        load_sequence(m.compiled.ready()).on_arrays({"src": source, "dst": target})()
        flush()
    cupy.cuda.runtime.deviceSynchronize()


def counted(plans: Sequence[Made]) -> Iterator[Traffic]:
    """The bytes that memory read and wrote for each, of one run under ncu."""
    kernels = [[one.kernel.name for one in m.compiled.prepared] for m in plans]
    names = "|".join(map(re.escape, sorted({FLUSH, *(name for names in kernels for name in names)})))
    with tempfile.TemporaryDirectory() as folder:
        path, metrics = Path(folder) / "plans", tuple(DRAM.values())
        path.write_bytes(pickle.dumps(list(plans)))
        words = ("tests.gpu.memory_bytes", "launch", str(path))
        launches = iter(count_launches(f"^({names})$", metrics, *words, most=1 << 14))
    next(launches)
    for own in kernels:
        found, after = [next(launches) for _ in own], next(launches)
        read = sum(int(one[DRAM["read"]]) for one in found)
        yield Traffic(read, sum(int(one[DRAM["written"]]) for one in (*found, after)))


def row(m: Made, found: Traffic) -> dict[str, Any]:
    """A line of the file."""
    kinds = {"needed": m.needed, "predicted": m.predicted, "counted": found}
    bytes_ = {f"{kind} {way}": n for kind, traffic in kinds.items() for way, n in traffic._asdict().items()}
    return {"case": m.label, "family": m.family, "config": m.config, **bytes_}


def off(one: Mapping[str, Any], way: str) -> float:
    """How much more is counted than predicted."""
    return float(one[f"counted {way}"] / max(one[f"predicted {way}"], 1) - 1)


def said(one: Mapping[str, Any]) -> str:
    """A row of the table."""
    columns = [one["case"], f"{one['needed read']:,}", f"{one['needed written']:,}"]
    for way in ("read", "written"):
        columns += [f"{one[f'predicted {way}']:,}", f"{one[f'counted {way}']:,} ({off(one, way):+.2%})"]
    return f"| {' | '.join(columns)} |"


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of each family: means, what is furthest off and how many are further off than `MOST_OFF`."""
    for family, way in product(dict.fromkeys(one["family"] for one in rows), ("read", "written")):
        mine = [one for one in rows if one["family"] == family]
        if far := [off(one, way) for one in mine if one[f"predicted {way}"] > FLUSH_BYTES // 64]:
            ratios = geometric_mean(1 + x for x in far)
            yield (
                f"{family}, {way}: {len(far)} cases, counted over predicted {ratios:.4f} in the mean, "
                f"from {min(far):+.2%} to {max(far):+.2%}, "
                f"{sum(abs(x) > MOST_OFF for x in far)} further off than {MOST_OFF:.0%}"
            )


def main(args: list[str]) -> None:
    """See the module's text."""
    if args[:1] == ["launch"]:
        launch(args[1])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="a file of one JSON object per line")
    for name, default, text in (
        ("seed", FRESH, "of the norms and reductions"), ("tensors", TENSORS, "the seed of the permutes"),
        ("norms", 12, ""), ("reductions", 12, ""), ("permutes", 12, ""),
        ("way", 0, "0: the plan that is chosen, 1: the next one, ..."),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default, help=text)
    asked, arch = parser.parse_args(args), require_gpu().arch
    plans = in_processes(made, [(case, arch, asked.way) for case in cases(asked)])
    rows = [row(*both) for both in zip(plans, counted(plans), strict=True)]
    write_lines(asked.out, rows)
    print(*map(said, rows), *summary(rows), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
