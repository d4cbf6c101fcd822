"""Pages of docs/ that the library writes itself: the cookbook of swizzles, and facts of the hardware.

    python -m tests.docs.pages        writes them, and the regions of docs/figures.json; then read the diff

Tests compare all with what is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from layoutalg import arch as facts
from layoutalg import legality
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from layoutalg.synthesis import TileSynthesis, check_certificate, synthesize_tile
from tests.docs import figures
from tests.docs.tables import table

DOCS = Path(__file__).parents[2] / "docs"
TILES = (
    *((16, 16), (32, 32), (64, 32), (64, 64), (64, 128)),
    *((128, 32), (128, 64), (128, 128), (64, 72), (64, 80)),
)
SCALAR = {"u8": "b8", "f16": "b16", "f32": "b32", "f64": "b64"}
"""The load of one element, by its type."""

MATRIX = ("f16",)
NEEDS: Sequence[tuple[str, tuple[tuple[str, ...], ...], tuple[str, ...]]] = (
    (
        "A GEMM operand, read plain, transposed or both",
        (
            ("st.shared.b128", "ldmatrix.x4"),
            ("st.shared.b128", "ldmatrix.x4.trans"),
            ("cp.async.16", "ldmatrix.x4", "ldmatrix.x4.trans"),
        ),
        MATRIX,
    ),
    ("A transpose by scalars", (("st.shared.{}@row", "ld.shared.{}@col"),), tuple(SCALAR)),
    ("Vectors in, scalars out", (("st.shared.b128@row", "ld.shared.{}@col"),), ("f16", "f32")),
)
"""Heading, lists of accesses that have equal layouts, element types."""


def sourced(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose last column is a source: a letter in the table, the sources below it."""
    found = [tuple(map(str, row)) for row in rows]
    names = [*"abcdefghijklmnopqrstuvwxyz", *(f"a{x}" for x in "abcdefghijklmnopqrstuvwxyz")]
    letters = dict(zip(dict.fromkeys(row[-1] for row in found), names, strict=False))
    legend = "".join(f"- {letter}: {source}\n" for source, letter in letters.items())
    return table(head, [(*row[:-1], letters[row[-1]]) for row in found]) + f"\nSources:\n\n{legend}"


# --- the cookbook -------------------------------------------------------------------------------------------


def _padding(found: TileSynthesis) -> str:
    """The first layout by padding alone that reaches the ideal, with the memory that it takes."""
    for choice in found.ranking:
        if choice.kind == "padding" and choice.total == choice.ideal_total:
            return f"`{choice.layout}`, {choice.extra_bytes} B"
    return "-"


def _row(tile: tuple[int, int], element: str, accesses: Sequence[str]) -> tuple[str, ...]:
    rows, columns = tile
    try:
        found = synthesize_tile(Layout(tile, (columns, 1)), accesses, element=element)
    except LayoutAlgError:
        return f"{rows} x {columns}", element, "not tiled by these accesses", "-", "-", "-"
    claim = check_certificate(found.synthesis)
    if found.synthesis.layout is None:
        said = claim.partition(": ")[0].removeprefix("none is ")
        return f"{rows} x {columns}", element, f"none is {said}", "-", "-", _padding(found)
    best = found.found
    assert best is not None
    tma = "unswizzled" if best.tma == "none" else best.tma
    return f"{rows} x {columns}", element, f"`{best.layout}`", tma, best.wgmma, _padding(found)


COOKBOOK = """# Cookbook: which swizzle

For row-major tiles in shared memory and the accesses to them: the layout without bank conflicts that
`layoutalg synthesize` finds. In the columns: *TMA*, the swizzle mode in which TMA writes the layout;
*wgmma*, the operands of wgmma that it can be (neither takes those of the other sections); *by padding*,
longer rows without conflicts, with their extra memory. bN is the load or store of one element of N bits.
Where no layout is free of conflicts, `layoutalg synthesize` shows the best one. `python -m tests.docs.pages`
writes this page and checks each certificate again; a test compares the page with what the library finds.

For other tiles, accesses, element types and buffers of stages, see [synthesis](synthesis.md).
"""


COLUMNS = ("tile", "type", "layout", "TMA", "wgmma", "by padding")
MATRIX_COLUMNS = ("TMA", "wgmma")
"""Columns that only tiles of a matrix product have."""


def needs(count: int | None = None) -> str:
    """The sections of the cookbook; `count` leaves all tables but the first so many rows of each type out."""
    parts = []
    for heading, lists, elements in NEEDS:
        named = ["`, `".join(accesses).replace("{}", "bN") for accesses in lists]
        tables = {
            tuple(
                _row(tile, element, [access.format(SCALAR[element]) for access in accesses])
                for element in elements
                for tile in TILES[:count]
            )
            for accesses in lists
        }
        (rows,) = tables  # what stands in one section has one table
        here = [i for i, name in enumerate(COLUMNS) if elements == MATRIX or name not in MATRIX_COLUMNS]
        assert {row[i] for row in rows for i in range(len(COLUMNS)) if i not in here} <= {"no", "-"}
        shown = table([COLUMNS[i] for i in here], [[row[i] for i in here] for row in rows])
        parts.append(f"## {heading}\n\nAccesses: `{'`; or `'.join(named)}`.\n\n{shown}")
    return "\n".join(parts)


def cookbook() -> str:
    """docs/cookbook.md."""
    return f"{COOKBOOK}\n{needs()}"


# --- the hardware -------------------------------------------------------------------------------------------


def _kib(count: int) -> str:
    return f"{count / 1024:g}"


def _limits(arch: facts.Arch) -> tuple[object, ...]:
    major, minor = arch.compute_capability
    return (
        arch.name, f"{major}.{minor}", _kib(arch.max_shared_bytes_per_block), _kib(arch.shared_bytes_per_sm),
        arch.max_warps_per_sm, arch.max_blocks_per_sm, arch.registers_per_sm, arch.source,
    )  # fmt: skip


def _rate(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:,.0f}" if value / unit >= 100 else f"{value / unit:.1f}"


def _board(arch: facts.Arch, board: facts.Board) -> tuple[object, ...]:
    l2 = "-" if board.l2_bytes is None else f"{board.l2_bytes / (1 << 20):g}"
    return (
        board.name, arch.name, board.sms, l2,
        _rate(board.dram_bytes_per_s, 1e9), _rate(board.f32_flops_per_s, 1e12),
        _rate(board.f16_tensor_flops_per_s, 1e12), _rate(board.boost_hz, 1e6), board.source,
    )  # fmt: skip


def _instruction(rule: facts.Instruction) -> tuple[object, ...]:
    shared = rule.space == "shared"
    return (
        f"`{rule.name}`", rule.width_bytes, rule.lanes, rule.group_lanes if shared else "-",
        rule.ideal if shared else "-", "yes" if rule.broadcast else "no",
        ", ".join(map(str, rule.merge_xor)) or "-", rule.counter_bias or "-", rule.provenance, rule.source,
    )  # fmt: skip


def _joined(rules: Iterable[facts.Instruction]) -> list[tuple[object, ...]]:
    """A row for all instructions that have the same facts."""
    rows: dict[tuple[object, ...], list[str]] = {}
    for name, *rest in map(_instruction, rules):
        rows.setdefault(tuple(rest), []).append(str(name))
    return [(", ".join(names), *rest) for rest, names in rows.items()]


HARDWARE = """# Hardware facts

The facts of `layoutalg.arch` that all analyses use, each with its source. *Measured*: counted on a GPU; the
counts are in `tests/data`. *Documented*: stated by a manual. *Assumed*: taken from a measured rule of
another architecture or instruction, which the source names. `python -m tests.docs.pages` writes this page,
and a test compares it with the records.

## Memory instructions on sm_90

*Phase* is the number of lanes that are served together; *ideal*, the wavefronts of a full warp without
conflicts. If for one of the distances d under *merge* every active lane n has the address of lane n ^ d, two
phases are served as one. *Bias* is what Nsight Compute's counter adds to each instruction.

{instructions}
## How the rules are known

Number of instruction rules, by architecture:

{known}
## Limits

Shared memory in KiB.

{limits}
## Boards

Peak dense rates of data sheets; - if none is stated. L2 in MiB, DRAM in GB/s, rates in TFLOP/s, SM clock in
MHz.

{boards}
## Tensor cores

{cores}
## Swizzle modes of TMA and wgmma

Swizzles of byte addresses; *repeats* is the period of the pattern, of which the base has to be a multiple.
Sources: PTX ISA, matrix descriptors of wgmma and tcgen05; CUDA driver API, CUtensorMapSwizzle.

{modes}
## Products of tcgen05

M and N of one CTA and of two, K, and what shares a scale factor. None of it is measured. With a sparse A, K
and the elements that share a factor are twice as many. K of 96, of sm_103, is not described, and neither is
the place of a sparse A's metadata. The atoms and the places of their operands are compared with CUTLASS's
traits (`tests/atoms/test_blackwell.py`), and differ in two documented places:

- a narrow A in tensor memory has a byte per element (PTX ISA 9.0, 9.7.16.10.4.3); CuTe counts 4 bits;
- D of a sparse product of two CTAs with 64 rows each lies by data path C (9.7.16.10.5); CuTe has B.

{kinds}
## Load modes of TMA

{loads}
## Limits of a request

A request past a limit is refused by an error that says what was asked, what the limit is, and what helps
where something does. What hardware or a format allows is stated above; the limits of requests, with their
units, are a table in [limits.py](../layoutalg/limits.py).
"""

MARKS: tuple[facts.Provenance, ...] = ("measured", "documented", "assumed")
INSTRUCTION_HEAD = (
    "instruction", "bytes per lane", "lanes", "phase", "ideal", "broadcast", "merge", "bias", "provenance",
    "source",
)  # fmt: skip
LIMIT_HEAD = (
    "architecture", "capability", "shared per block", "shared per SM", "warps per SM", "blocks per SM",
    "registers per SM", "source",
)  # fmt: skip
BOARD_HEAD = ("board", "architecture", "SMs", "L2", "DRAM", "f32", "f16 tensor", "clock", "source")
CORE_HEAD = ("architecture", "generation", "per SM", "m x n x k per cycle", "FMA per cycle, SM", "source")
MODE_HEAD = (
    "mode", "row, bytes", "on bytes", "on f16", "repeats, bytes", "sm_90 code", "sm_100 code",
    "tensor map code", "CUTLASS",
)  # fmt: skip
KIND_HEAD = (
    "kind", "A and B", "D", "M", "N", "M, 2 CTAs", "N, 2 CTAs", "K", "scaled", "architectures", "provenance",
    "source",
)  # fmt: skip


def _mode(mode: facts.SwizzleMode) -> tuple[object, ...]:
    return (
        mode.name, mode.row_bytes, f"`{mode.swizzle}`", f"`{mode.in_elements(16)}`", mode.period_bytes,
        "-" if mode.sm_90_code is None else mode.sm_90_code, mode.sm_100_code, mode.tensor_map_code,
        mode.atom,
    )  # fmt: skip


def _cores(cores: facts.TensorCores) -> tuple[object, ...]:
    shape = " x ".join(map(str, cores.shape))
    return cores.arch, cores.generation, cores.per_sm, shape, cores.fmas_per_cycle, cores.source


def _known(arch: facts.Arch) -> tuple[object, ...]:
    counted = Counter(rule.provenance for rule in arch.instructions.values())
    return arch.name, *(counted[mark] for mark in MARKS)


def _sizes(kind: facts.Tcgen05Kind) -> tuple[object, ...]:
    sides = [facts.sizes_text(side(ctas)) for ctas in (1, 2) for side in (kind.rows, kind.columns)]
    blocks = ", ".join(f"{n} by {factor}" for factor, n in kind.blocks) or "-"
    return (
        kind.name, ", ".join(kind.operands), ", ".join(kind.accumulators), *sides, kind.k, blocks,
        ", ".join(kind.machines), kind.provenance, kind.source,
    )  # fmt: skip


def _load(name: str) -> tuple[object, ...]:
    direction, majors, needs = legality.LOAD_MODES[name]
    machines = [a.name for a in facts.ARCHS.values() if a.compute_capability[0] in majors]
    return name, direction, ", ".join(machines), needs


def hardware() -> str:
    """docs/hardware.md."""
    archs = list(facts.ARCHS.values())
    return HARDWARE.format(
        instructions=sourced(INSTRUCTION_HEAD, _joined(facts.ARCHS["sm_90"].instructions.values())),
        known=table(("architecture", *MARKS), map(_known, archs)),
        limits=sourced(LIMIT_HEAD, map(_limits, archs)),
        boards=sourced(
            BOARD_HEAD, [_board(arch, board) for arch in archs for board in facts.BOARDS[arch.name]]
        ),
        cores=sourced(CORE_HEAD, map(_cores, facts.TENSOR_CORES.values())),
        modes=table(MODE_HEAD, map(_mode, facts.SWIZZLE_MODES.values())),
        kinds=sourced(KIND_HEAD, map(_sizes, facts.TCGEN05_KINDS.values())),
        loads=table(("mode", "direction", "architectures", "needs"), map(_load, legality.LOAD_MODES)),
    )


PAGES = {"cookbook.md": cookbook, "hardware.md": hardware}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    figures.write()
