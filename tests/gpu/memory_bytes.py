"""Bytes of memory of random norms, reductions and permutes: predicted from the plan, and counted.

python -m tests.gpu.memory_bytes OUT.jsonl                               the second published seeds
python -m tests.gpu.memory_bytes OUT.jsonl --seed 20261123 --tensors 2027 --norms 20
python -m tests.gpu.memory_bytes OUT.jsonl --way 3                       the fourth plan of each, or the last
python -m tests.gpu.memory_bytes predict OUT.jsonl --arch sm_90          the predictions alone: no GPU

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
from dataclasses import dataclass
from itertools import islice
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen.gpu import CompiledSequence, compile_sequence, in_processes, load_sequence, require_gpu
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels import find_family
from layoutalg.kernels.family import Traffic
from layoutalg.kernels.move.cases import timed_cases
from layoutalg.kernels.rowwise import ReduceProblem
from tests.gpu.counters import DRAM, count_launches
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


@dataclass(frozen=True, slots=True)
class Made:
    """A case with what is predicted of its plan, compiled where that was asked."""

    label: str
    family: str
    config: str
    needed: Traffic
    predicted: Traffic
    source_bytes: int
    target_bytes: int
    compiled: CompiledSequence | None = None


def made(asked: tuple[tuple[str, tuple[int, ...], tuple[int, ...], str], str, bool, int]) -> Made:
    """A case planned for an architecture, in the way of a number that stands, and compiled if asked."""
    (op, shape, axes, dtype), arch, compiling, way = asked
    family = find_family(op)
    p = family.problem(shape, axes, dtype)
    stand = (c.config for c in family.candidates(p, arch) if c.dropped is None)
    *_, config = family.choose(p, arch), *islice(stand, 1, way + 1)
    if family.memory is None:
        raise UnsupportedError(f"{op}: nothing is predicted of its memory")
    size = p.element_bytes if op == "permute" else p.dtype.nbytes
    elems = prod(shape) if op == "permute" or not isinstance(p, ReduceProblem) else 0
    read = prod(shape) * size
    written = elems * size or p.written_bytes
    return Made(
        f"{op} {'x'.join(map(str, shape))} {','.join(map(str, axes))} {dtype}",
        "permutes" if op == "permute" else "norms" if elems else "reductions",
        repr(config), Traffic(read, written), family.memory(p, config, arch), read, written,
        compile_sequence(family.launches(p, config, arch), arch) if compiling else None,
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
    most = [max(getattr(m, side) for m in plans) + 4096 for side in ("source_bytes", "target_bytes")]
    source, target, clean = (cupy.zeros(n, "u1") for n in (*most, FLUSH_BYTES))
    word, read = cupy.zeros(4, "u4"), cupy.RawKernel(FLUSH_TEXT, FLUSH)

    def flush() -> None:
        read((1056,), (512,), (clean, word, cupy.int32(FLUSH_BYTES // 16)))

    flush()
    for m in plans:
        if m.compiled is not None:
            load_sequence(m.compiled.ready()).on_arrays({"src": source, "dst": target})()
            flush()
    cupy.cuda.runtime.deviceSynchronize()


def counted(plans: Sequence[Made]) -> Iterator[Traffic]:
    """What memory read and wrote for each, of one run under ncu."""
    kernels = [[one.kernel.name for one in m.compiled.prepared] for m in plans if m.compiled is not None]
    names = "|".join(map(re.escape, sorted({FLUSH, *(name for names in kernels for name in names)})))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plans"
        path.write_bytes(pickle.dumps(list(plans)))
        seen = count_launches(
            f"^({names})$", tuple(DRAM.values()), "tests.gpu.memory_bytes", "launch", str(path),
            most=1 << 14,
        )  # fmt: skip
    launches = iter(seen)
    next(launches)
    for own in kernels:
        found = [next(launches) for _ in own]
        after = next(launches)
        yield Traffic(
            sum(int(one[DRAM["read"]]) for one in found),
            sum(int(one[DRAM["written"]]) for one in (*found, after)),
        )


def row(m: Made, found: Traffic | None) -> dict[str, Any]:
    """A line of the file."""
    words: dict[str, Any] = {"case": m.label, "family": m.family, "config": m.config}
    words |= {f"needed {way}": n for way, n in m.needed._asdict().items()}
    words |= {f"predicted {way}": n for way, n in m.predicted._asdict().items()}
    if found is not None:
        words |= {f"counted {way}": n for way, n in found._asdict().items()}
    return words


def off(one: Mapping[str, Any], way: str) -> float:
    """How much more is counted than predicted."""
    return float(one[f"counted {way}"] / max(one[f"predicted {way}"], 1) - 1)


def said(one: Mapping[str, Any]) -> str:
    """A row of the table."""
    columns = [one["case"], f"{one['needed read']:,}", f"{one['needed written']:,}"]
    for way in ("read", "written"):
        columns.append(f"{one[f'predicted {way}']:,}")
        if f"counted {way}" in one:
            columns.append(f"{one[f'counted {way}']:,} ({off(one, way):+.2%})")
    return f"| {' | '.join(columns)} |"


def summary(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of each family: means, what is furthest off and how many are further off than `MOST_OFF`."""
    for family in dict.fromkeys(one["family"] for one in rows):
        for way in ("read", "written"):
            mine = [one for one in rows if one["family"] == family]
            mine = [one for one in mine if one[f"predicted {way}"] > FLUSH_BYTES // 64]
            if mine:
                far = [off(one, way) for one in mine]
                ratios = geometric_mean(1 + x for x in far)
                yield (
                    f"{family}, {way}: {len(mine)} cases, counted over predicted {ratios:.4f} in the mean, "
                    f"from {min(far):+.2%} to {max(far):+.2%}, "
                    f"{sum(abs(x) > MOST_OFF for x in far)} further off than {MOST_OFF:.0%}"
                )


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[:1] == ["launch"]:
        launch(args[1])
        return 0
    predict = args[:1] == ["predict"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="a file of one JSON object per line")
    parser.add_argument("--seed", type=int, default=FRESH, help="of the norms and reductions")
    parser.add_argument("--tensors", type=int, default=TENSORS, help="the seed of the permutes")
    parser.add_argument("--norms", type=int, default=12)
    parser.add_argument("--reductions", type=int, default=12)
    parser.add_argument("--permutes", type=int, default=12)
    parser.add_argument("--way", type=int, default=0, help="0: the plan that is chosen, 1: the next one, ...")
    parser.add_argument("--arch", default="sm_90", help="of the predictions")
    asked = parser.parse_args(args[1:] if predict else args)
    arch = asked.arch if predict else require_gpu().arch
    plans = in_processes(made, [(case, arch, not predict, asked.way) for case in cases(asked)])
    try:
        found = [None] * len(plans) if predict else list(counted(plans))
    except LayoutAlgError as error:
        print(error)
        return 1
    rows = [row(*both) for both in zip(plans, found, strict=True)]
    write_lines(asked.out, rows)
    print(*map(said, rows), sep="\n")
    if not predict:
        print(*summary(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
