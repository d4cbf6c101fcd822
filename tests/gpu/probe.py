"""Random layouts, each written and read by a generated kernel: are the predicted wavefronts what is counted?

    python -m tests.gpu.probe              200 layouts under ncu: one table, exit status 1 if any differs
    python -m tests.gpu.probe launch       the launches alone: the process that ncu watches

A probe stores a tile from registers with one instruction and mapping and loads it with another.  The tile's
layout is drawn from five strata; its accesses cover full and partial warps, 1 to 16 bytes a lane.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.codegen.instr import BAR, LDG, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.program.checks import check
from layoutalg.decide import cosize, is_injective
from layoutalg.dtype import DTYPES, DType
from layoutalg.errors import AlignmentError, LayoutAlgError, UnsupportedError
from layoutalg.kernels.elements import CARRIER
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, product, size
from tests.gpu.counters import METRICS, count_launches, verdict

COUNT, SEED = 200, 20261121
STRATA = ("plain", "padded", "not a power of two", "swizzled", "swizzled with carries")
COUNTERS = {way: METRICS[f"{way}.shared"][0] for way in ("st", "ld")}


@dataclass(frozen=True, slots=True)
class Probe:
    """A tile that is stored by one access and loaded by another."""

    name: str
    stratum: str
    layout: AnyLayout
    store: Access
    load: Access

    @property
    def element(self) -> DType:
        """The tile's element type."""
        return self.store.element


@cache
def probes(count: int = COUNT, seed: int = SEED) -> tuple[Probe, ...]:
    """The same random probes every time, the strata in turn, no two of one layout."""
    rng = random.Random(seed)
    found: list[Probe] = []
    while len(found) < count:
        stratum = STRATA[len(found) % len(STRATA)]
        probe = _draw(rng, f"probe_{len(found):03}", stratum)
        if probe is not None and all(probe.layout != other.layout for other in found):
            found.append(probe)
    return tuple(found)


def _draw(rng: random.Random, name: str, stratum: str) -> Probe | None:
    """One random probe; None when its vectors do not fit its layout, or it fits no kernel."""
    element = DTYPES[rng.choice(("u8", "f16", "f32", "f64", "c128"))]
    if stratum == "not a power of two":
        rows, columns = rng.randint(2, 40), rng.randint(2, 40)
    else:
        rows, columns = 1 << rng.randint(1, 6), 1 << rng.randint(2, 6)
    carries = stratum == "swizzled with carries"
    pitch = columns + (rng.randint(1, 20) if stratum == "padded" or carries else 0)
    plain = Layout((rows, columns), (pitch, 1) if rng.random() < 0.7 else (1, rows))
    layout: AnyLayout = plain
    if stratum.startswith("swizzled"):
        bits, base = rng.randint(1, 4), rng.randint(0, 4)
        layout = ComposedLayout(Swizzle(bits, base, rng.randint(bits, 6)), 0, plain)
    if not is_injective(layout) or cosize(layout) * element.nbytes > 48 * 1024:
        return None
    try:
        store, load = (_access(rng, way, layout, element) for way in ("st", "ld"))
        probe = Probe(name, stratum, layout, store, load)
        check(kernel_of(probe))
    except (AlignmentError, UnsupportedError):
        return None
    except LayoutAlgError as error:
        if "threads a block" in str(error):
            return None
        raise
    return probe


def _access(rng: random.Random, way: str, layout: AnyLayout, element: DType) -> Access:
    vector = rng.choice([v for v in (1, 1, 2, 4, 8, 16) if v * element.nbytes <= 16])
    op = f"{way}.shared.b{8 * vector * element.nbytes}"
    return Access.along(op, layout, element, rng.choice(("row", "col", "default")))


def kernel_of(probe: Probe) -> Kernel:
    """One block: store the tile, meet, load the tile."""
    size_bytes = probe.element.nbytes
    lanes = [product(a.tv[0].shape) for a in (probe.store, probe.load)]
    vectors = [product(a.tv[1].shape) for a in (probe.store, probe.load)]
    k = KernelBuilder(probe.name, threads=-(-max(lanes) // 32) * 32)
    src = k.pointer("src", size_bytes, (vectors[0], 1))
    dst = k.pointer("dst", size_bytes, (vectors[1], 1), writable=True)
    tile = k.shared_buffer("tile", size_bytes, probe.layout, cosize(probe.layout), 1024)
    values = [k.reg(name, max(1, v * size_bytes // 4)) for name, v in zip("ab", vectors, strict=True)]
    widths = [v * size_bytes for v in vectors]
    with k.If(k.tid < lanes[0]):
        k.do(LDG[widths[0]], values[0], k.at(src, k.tid, 0))
        k.do(STS[widths[0]], k.at(tile, probe.store.tv(k.tid, 0)), values[0])
    k.do(BAR)
    with k.If(k.tid < lanes[1]):
        k.do(LDS[widths[1]], values[1], k.at(tile, probe.load.tv(k.tid, 0)))
        k.do(STG[widths[1]], k.at(dst, k.tid, 0), values[1])
    return k.build()


def data(probe: Probe) -> tuple[Any, Any]:
    """A random source, and what the probe must make of it."""
    count = size(probe.layout)
    rng = np.random.default_rng(int(probe.name[-3:]))
    raw = rng.integers(0, 256, count * probe.element.nbytes, dtype=np.uint8)
    src = raw.view(CARRIER[probe.element.nbytes])
    memory = np.zeros(cosize(probe.layout), dtype=src.dtype)
    memory[probe.layout(_order(probe.store))] = src
    return src, memory[probe.layout(_order(probe.load))]


def _order(access: Access) -> Any:
    """Flat index of the tile by (thread, value), values fastest."""
    threads, values = product(access.tv[0].shape), product(access.tv[1].shape)
    thread, value = np.divmod(np.arange(threads * values), values)
    return access.tv(thread, value)


def predicted(probe: Probe, way: str) -> SharedReport:
    """The closed form's report of the stores or the loads."""
    report = analyze(probe.layout, probe.store if way == "st" else probe.load)
    if not isinstance(report, SharedReport):
        raise TypeError(report)
    return report


def launch_all() -> None:
    """Launch every probe once and compare its result."""
    from layoutalg.codegen.gpu import load, to_device, to_host

    for probe in probes():
        src, expected = data(probe)
        dst = to_device(np.zeros_like(src))
        load(kernel_of(probe))(src=to_device(src), dst=dst)
        if to_host(dst).tobytes() != expected.tobytes():
            raise SystemExit(f"{probe.name} gives a wrong result: {probe}")


def rows(found: Iterable[Mapping[str, float]]) -> Iterator[tuple[Probe, str, SharedReport, int]]:
    """(probe, way, prediction, measured wavefronts) of every access, of the counters of all launches."""
    for probe, counts in zip(probes(), found, strict=True):
        for way, metric in COUNTERS.items():
            yield probe, way, predicted(probe, way), int(counts[metric])


def counted() -> list[dict[str, float]]:
    """The counters of all launches, from one ncu run."""
    return count_launches("^probe_", tuple(COUNTERS.values()), "tests.gpu.probe", "launch")


def main(args: list[str]) -> int:
    """See the module's text."""
    if args == ["launch"]:
        launch_all()
        return 0
    table: dict[str, list[int]] = {s: [0, 0, 0, 0, 0] for s in STRATA}
    for probe, way, report, measured in rows(counted()):
        equal, closed = int(report.total == measured), int(report.method != "enumerated")
        more = (1, equal, not report.conflict_free, measured, closed)
        table[probe.stratum] = [a + b for a, b in zip(table[probe.stratum], more, strict=True)]
        if not equal:
            print(f"{probe.name} {way}: {report.total} predicted, {measured} counted: {probe}")
    print("| layouts | accesses | equal | with conflicts | wavefronts counted | in closed form |")
    print("|---|---:|---:|---:|---:|---:|")
    for stratum, line in table.items():
        print(f"| {stratum} | {' | '.join(map(str, line))} |")
    count, equal, *_ = map(sum, zip(*table.values(), strict=True))
    return verdict(count - equal, count, "accesses")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
