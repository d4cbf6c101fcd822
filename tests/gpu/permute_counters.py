"""Predicted and measured accesses of permutes, side by side, from one `ncu` run of all.

python -m tests.gpu.permute_counters                                   small ones, and all of the bench
python -m tests.gpu.permute_counters f16 31,63,127,255 3,1,0,2         one kernel
python -m tests.gpu.permute_counters u8:f32 31,63,127,255 3,1,0,2      one that converts
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen import gpu
from layoutalg.codegen.costs import copied, traffic
from layoutalg.kernels import move
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.stage import Stage
from layoutalg.model import copied_sectors, tag_sectors
from tests.gpu import counters
from tests.gpu.counters import METRICS, Case, Row, count_launches, ints
from tests.gpu.gemm_ladder import ARRIVED
from tests.gpu.needed_wavefronts import needed_wavefronts

SHAPES = (
    ((5, 60, 60, 3), (0, 3, 1, 2)), ((5, 3, 60, 60), (0, 2, 3, 1)), ((20, 18, 16, 14), (3, 2, 1, 0)),
    ((3, 7, 101, 55), (3, 1, 0, 2)), ((4, 64, 16, 32), (0, 2, 1, 3)), ((333, 199), (1, 0)),
)  # fmt: skip


def of_all_types(shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]]) -> tuple[Case, ...]:
    """Shapes and axes as cases, of every type."""
    return tuple((t, *map(counters.text_of, both)) for t in ("f32", "f16", "u8") for both in shapes)


CONVERTED = (
    ("f32:f16", "5,60,60,3", "0,3,1,2"), ("u8:f32", "3,7,101,55", "3,1,0,2"), ("f64:f16", "333,199", "1,0"),
    ("f16:f64", "20,18,16,14", "3,2,1,0"), ("f32:u8", "4,64,16,32", "0,2,1,3"), ("bf16:s8", "333,199", "1,0"),
)  # fmt: skip
"""Types of source and result."""

SMALL = (*of_all_types(SHAPES), *CONVERTED)
CASES = (*SMALL, *of_all_types((*move.cases.CASES, *move.cases.random_cases())))
"""A few small ones, and with them every case of `layoutalg bench permute`."""

SUNK = "elements that are not stored are not loaded"
"""The compiler moves a load to where its element is stored, behind the test of whole vectors."""

UNIT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """The best configuration of a case, ready to load; `costs` are totals by instruction."""

    label: str
    ready: gpu.Prepared
    sides: tuple[tuple[int, int], tuple[int, int]]
    """Bytes and bytes of an element, of source and target."""
    blocks: int
    costs: dict[str, int]
    copies: tuple[int, ...] | None
    needed: int

    def total(self, access: str) -> int:
        """The cost of the instructions whose names have `access` in them."""
        return sum(cost for op, cost in self.costs.items() if access in op)


def planned(what: tuple[str, Case]) -> Plan:
    """The plan of a case for an architecture."""
    arch, (dtype, shape, axes) = what
    of, _, to = dtype.partition(":")
    x = move.normalise(move.permute_problem(ints(shape), ints(axes), of, result=to or None))
    return plan_of(f"{shape.replace(',', 'x')} -> {axes} {dtype}", x, move.permute_configs(x, arch)[0], arch)


def plan_of(label: str, x: move.Moves, config: move.PermuteConfig, arch: str) -> Plan:
    """A configuration of some moves, for an architecture."""
    size, to, kernel = x.element_bytes, x.result_bytes, move.build_permute(x, config)
    sectors = tuple(copied(kernel, {}, 16, count, arch) for count in (tag_sectors, copied_sectors))
    return Plan(
        label, gpu.prepare(kernel, arch), ((x.src_elems * size, size), (x.dst_elems * to, to)),
        Stage(x, config).blocks, {op: cost.total for op, cost in traffic(kernel, {}, arch).items()},
        sectors if any(sectors) else None, needed_wavefronts(x, config, arch),
    )  # fmt: skip


def plans(chosen: Sequence[Case]) -> list[Plan]:
    """The plans of all cases, for this machine's GPU."""
    arch = gpu.require_gpu().arch
    return gpu.in_processes(planned, [(arch, case) for case in chosen])


def launch(chosen: Sequence[Case]) -> None:
    """Launch every case once, on random bytes."""

    def on_gpu(nbytes: int, size: int) -> Any:
        return gpu.random_bytes(-(-nbytes // UNIT_BYTES) * UNIT_BYTES, 0).view(CARRIER[size])

    for p in plans(chosen):
        src, dst = (on_gpu(*side) for side in p.sides)
        gpu.load_prepared(p.ready)(src=src, dst=dst)


def measure(chosen: Sequence[Case]) -> Iterator[Row]:
    """Every case's predictions beside the counters of its launch."""
    metrics = [*(metric for metric, _ in METRICS.values()), ARRIVED]
    made, arch = plans(chosen), gpu.require_gpu().arch
    words = ("tests.gpu.permute_counters", "launch", *counters.words_of(chosen))
    seen = count_launches("^permute_", metrics, *words)
    for p, found in zip(made, seen, strict=True):
        yield from compared(p, found, arch)


def compared(p: Plan, found: Mapping[str, float], arch: str) -> Iterator[Row]:
    """What is predicted of a plan beside the counters of its launch."""
    board = find_arch(arch).board
    quiet = board is not None and p.blocks <= board.sms
    loads = int(found[METRICS["ld.shared"][0]])
    sunk = p.needed <= loads < p.total("ld.shared")
    tags, arriving = p.copies or (p.total(":global"), 0)
    for access, predicted, reason in (
        ("ld.global", p.total("ld.global") + tags, ""), ("st.global", p.total("st.global"), ""),
        ("ld.shared", p.total("ld.shared"), SUNK if sunk else "" if quiet else counters.LOST),
    ):  # fmt: skip
        metric, unit = METRICS[access]
        yield Row(p.label, access, unit, predicted, int(found[metric]), reason)
    if p.copies is not None:
        loaded, measured = p.total("ld.global"), int(found[ARRIVED])
        served = 0 < arriving + loaded - measured <= loaded
        reason = f"{loaded} by loads, of which the L1 serves some" if served else ""
        yield Row(p.label, "from the L2", "sectors", arriving + loaded, measured, reason)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction differs from its counter."""
    if args[:1] == ["launch"]:
        launch(counters.cases_of(args[1:], 3))
        return 0
    return counters.table("permute", measure(counters.cases_of(args, 3) or CASES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
