"""Pages of docs/ that the library writes itself: the cookbook of swizzles, and the facts of the hardware.

    python -m tests.docs.pages        writes docs/cookbook.md and docs/hardware.md; then read the diff

A test compares both with what the library says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from layoutalg.arch import ARCHS, SWIZZLE_MODES, TENSOR_CORES, Arch, Board, Instruction
from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout
from layoutalg.synthesis import check_certificate
from layoutalg.synthesis.tiles import TileSynthesis, synthesize_tile

DOCS = Path(__file__).parents[2] / "docs"
TILES = (
    (16, 16),
    (32, 32),
    (64, 32),
    (64, 64),
    (64, 128),
    (128, 32),
    (128, 64),
    (128, 128),
    (64, 72),
    (64, 80),
)
SCALAR = {"u8": "b8", "f16": "b16", "f32": "b32", "f64": "b64"}
"""The load of one element, by its type."""

MATRIX = ("f16",)
NEEDS: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = (
    ("A product reads its operand", ("st.shared.b128", "ldmatrix.x4"), MATRIX),
    ("The same, transposed", ("st.shared.b128", "ldmatrix.x4.trans"), MATRIX),
    ("One tile read both ways", ("cp.async.16", "ldmatrix.x4", "ldmatrix.x4.trans"), MATRIX),
    ("A transpose by scalars", ("st.shared.{}@row", "ld.shared.{}@col"), tuple(SCALAR)),
    ("Vectors in, scalars out", ("st.shared.b128@row", "ld.shared.{}@col"), ("f16", "f32")),
)
"""Heading, accesses, element types."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


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


def cookbook() -> str:
    """docs/cookbook.md."""
    parts = [
        "# Cookbook: which swizzle\n",
        "Row-major tiles of shared memory, the accesses that they have to serve without bank conflicts, and the\n"
        "layout that `layoutalg synthesize` finds for all of them at once. Each certificate was checked again when\n"
        "this page was written; `python -m tests.docs.pages` writes it, and a test compares it with what the library\n"
        "finds. TMA: the mode in which a tensor-map copy writes the layout; wgmma: the operands that it is. Padding:\n"
        "longer rows that serve as well, and the memory that they take.\n",
        'Other tiles, accesses and rings of stages: `layoutalg synthesize "(64,64,3):(64,1,4096)" --dtype f16 '
        "--access ldmatrix.x4`\n([synthesis](synthesis.md)).\n",
    ]
    for heading, accesses, elements in NEEDS:
        parts.append(f"## {heading}\n")
        named = [access.format("bN" if "{}" in access else "") for access in accesses]
        parts.append(f"Accesses: {', '.join(f'`{name}`' for name in named)}.\n")
        rows = [
            _row(tile, element, [access.format(SCALAR[element]) for access in accesses])
            for element in elements
            for tile in TILES
        ]
        parts.append(table(("tile", "type", "layout", "TMA", "wgmma", "by padding"), rows))
    parts.append(
        "bN is the load or store of one element. Where none is free of conflicts, the classes of layouts that were\n"
        "ruled out are in the answer of `layoutalg synthesize`, with the best layout that there is.\n"
    )
    return "\n".join(parts)


# --- the hardware -------------------------------------------------------------------------------------------


def _kib(count: int) -> str:
    return f"{count / 1024:g}"


def _limits(arch: Arch) -> tuple[object, ...]:
    major, minor = arch.compute_capability
    return (
        arch.name, f"{major}.{minor}", _kib(arch.max_shared_bytes_per_block), _kib(arch.shared_bytes_per_sm),
        arch.max_warps_per_sm, arch.max_blocks_per_sm, arch.registers_per_sm, arch.source,
    )  # fmt: skip


def _rate(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:,.0f}" if value / unit >= 100 else f"{value / unit:.1f}"


def _board(arch: Arch, board: Board) -> tuple[object, ...]:
    return (
        board.name, arch.name, board.sms, f"{board.l2_bytes / (1 << 20):g}", _rate(board.dram_bytes_per_s, 1e9),
        _rate(board.f32_flops_per_s, 1e12), _rate(board.f16_tensor_flops_per_s, 1e12),
        _rate(board.boost_hz, 1e6), board.source,
    )  # fmt: skip


def _instruction(rule: Instruction) -> tuple[object, ...]:
    shared = rule.space == "shared"
    return (
        f"`{rule.name}`", rule.width_bytes, rule.lanes, rule.group_lanes if shared else "-",
        rule.ideal if shared else "-", "yes" if rule.broadcast else "no",
        ", ".join(map(str, rule.merge_xor)) or "-", rule.counter_bias or "-", rule.provenance, rule.source,
    )  # fmt: skip


def hardware() -> str:
    """docs/hardware.md."""
    archs = list(ARCHS.values())
    marks = ("measured", "documented", "assumed")
    counted = [(arch, Counter(rule.provenance for rule in arch.instructions.values())) for arch in archs]
    return "\n".join(
        [
            "# The facts of the hardware\n",
            "What every answer rests on, from the records of `layoutalg.arch`, each with its source. *Measured*: counted\n"
            "on a GPU, the counts are in `tests/data`. *Documented*: a manual states it. *Assumed*: taken from a counted\n"
            "rule of another architecture or instruction, which the source names. `python -m tests.docs.pages` writes\n"
            "this page, and a test compares it with the records.\n",
            "## Memory instructions on sm_90\n",
            "A phase is the lanes that are served together; ideal, the wavefronts of a full warp without conflicts.\n"
            "Where neighbours at one of the lane distances under *merge* all read the same address, two phases become one.\n"
            "*Bias* is what the counter adds to each instruction.\n",
            table(
                ("instruction", "bytes per lane", "lanes", "phase", "ideal", "broadcast", "merge", "bias",
                 "provenance", "source"),
                [_instruction(rule) for rule in ARCHS["sm_90"].instructions.values()],
            ),
            "## How far the rules are known\n",
            "Rules of instructions, by architecture:\n",
            table(("architecture", *marks), [(a.name, *(n[mark] for mark in marks)) for a, n in counted]),
            "## Limits\n",
            "Shared memory in KiB.\n",
            table(
                ("architecture", "capability", "shared per block", "shared per SM", "warps per SM", "blocks per SM",
                 "registers per SM", "source"),
                [_limits(arch) for arch in archs],
            ),
            "## Boards\n",
            "Peak rates of data sheets, dense; - where none is stated. L2 in MiB, DRAM in GB/s, rates in TFLOP/s, the\n"
            "clock of a multiprocessor in MHz.\n",
            table(
                ("board", "architecture", "SMs", "L2", "DRAM", "f32", "f16 tensor", "clock", "source"),
                [_board(arch, arch.board) for arch in archs if arch.board is not None],
            ),
            "## Tensor cores\n",
            table(
                ("architecture", "generation", "per SM", "m x n x k per cycle", "FMA per cycle and SM", "source"),
                [
                    (c.arch, c.generation, c.per_sm, " x ".join(map(str, c.shape)), c.fmas_per_cycle, c.source)
                    for c in TENSOR_CORES.values()
                ],
            ),
            "## Swizzle modes of TMA and wgmma\n",
            "On byte addresses; *repeats* is what the base has to be a multiple of. Sources: PTX ISA, matrix descriptors of\n"
            "wgmma and tcgen05; CUDA driver API, CUtensorMapSwizzle.\n",
            table(
                ("mode", "row, bytes", "on bytes", "on f16", "repeats, bytes", "sm_90 code", "sm_100 code",
                 "tensor map code", "CUTLASS"),
                [
                    (
                        m.name, m.row_bytes, f"`{m.swizzle}`", f"`{m.in_elements(16)}`", m.period_bytes,
                        "-" if m.sm_90_code is None else m.sm_90_code, m.sm_100_code, m.tensor_map_code, m.atom,
                    )
                    for m in SWIZZLE_MODES.values()
                ],
            ),
        ]
    )  # fmt: skip


PAGES = {"cookbook.md": cookbook, "hardware.md": hardware}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
