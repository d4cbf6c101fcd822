"""The layout article on Hopper's shared memory, as executable examples.

What its pictures show, one core matrix (8 rows of 16 bytes) at a time and coloured by bank: under every
swizzle mode, K-major and MN-major, the eight rows lie in eight different groups of four banks; without the
XOR they share one, two or four of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from layoutalg.algebra import tile_to_shape
from layoutalg.analysis import Access, SharedReport, analyze, wavefronts
from layoutalg.arch import HOPPER_MODES, SMEM_ATOMS, Major, SmemAtom, SwizzleMode, atom_layout
from layoutalg.decide import same_function
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.legality import check_tma, check_wgmma
from layoutalg.notation import parse_cute as parse
from tests.sweeps import each

ATOMS = [atom for atom in SMEM_ATOMS.values() if atom.mode.sm_90_code is not None]
MODES = pytest.mark.parametrize("mode", HOPPER_MODES, ids=str)
BANK_GROUPS = 8
"""32 banks of 4 bytes, four to 16 bytes."""


def core_matrices(tile: AnyLayout, shape: tuple[int, int], major: Major, element: str) -> Iterator[list[int]]:
    """The byte addresses of the eight rows of every core matrix of a tile (M or N, K)."""
    element_bytes = dtype(element).nbytes
    chunk = 16 // element_bytes
    mn, k = shape
    rows, columns = (mn, k) if major == "K" else (k, mn)
    for row in range(0, rows, 8):
        for column in range(0, columns, chunk):
            crds = [(row + i, column) if major == "K" else (column, row + i) for i in range(8)]
            yield [tile(*crd) * element_bytes for crd in crds]


@each("element", ["u8", "f16", "tf32"])
@each("atom", ATOMS, ids=lambda atom: atom.name)
def test_eight_rows_lie_in_eight_bank_groups(atom: SmemAtom, element: str) -> None:
    width = 8 * atom.mode.row_bytes // dtype(element).bits
    shape = (16, 2 * width) if atom.major == "K" else (2 * width, 16)
    tile = tile_to_shape(atom_layout(atom, element), shape)
    matrices = list(core_matrices(tile, shape, atom.major, element))
    assert len(matrices) == 2 * 2 * atom.mode.row_bytes // 16
    for rows in matrices:
        assert {address // 16 % BANK_GROUPS for address in rows} == set(range(BANK_GROUPS))
        assert wavefronts("ldmatrix.x1", rows + [None] * 24) == 1


@MODES
@pytest.mark.parametrize("major", ["K", "MN"])
def test_without_the_swizzle_they_share_bank_groups(mode: SwizzleMode, major: Major) -> None:
    """Rows of 16, 32, 64, 128 bytes start in 8, 4, 2, 1 groups: 1, 2, 4 and 8 wavefronts."""
    tile = atom_layout(f"Layout_{major}_{mode.atom}_Atom", "f16")
    plain = tile.inner if isinstance(tile, ComposedLayout) else tile
    width = mode.row_bytes // 2
    for rows in core_matrices(plain, (8, width) if major == "K" else (width, 8), major, "f16"):
        ways = mode.row_bytes // 16
        assert len({address // 16 % BANK_GROUPS for address in rows}) == BANK_GROUPS // ways
        assert wavefronts("ldmatrix.x1", rows + [None] * 24) == ways


def test_a_row_of_the_128_byte_atom_fills_all_banks() -> None:
    """Both directions at once: eight chunks of a row, and eight rows of a chunk, take one wavefront each."""
    atom = atom_layout("Layout_K_SW128_Atom", "f16")
    for row in range(8):
        chunks = [2 * atom(row, 8 * j) for j in range(8)]
        assert {address // 16 % 8 for address in chunks} == set(range(8))


def test_the_modes_on_bytes_and_on_f16_elements() -> None:
    assert [mode.swizzle for mode in HOPPER_MODES] == [Swizzle(b, 4, 3) for b in range(4)]
    assert [mode.in_elements(16) for mode in HOPPER_MODES] == [Swizzle(b, 3, 3) for b in range(4)]
    for b, mode in enumerate(HOPPER_MODES):
        tile = atom_layout(f"Layout_K_{mode.atom}_Atom", "f16")
        text = f"Sw<{b},4,3> o smem_ptr[16b](unset) o (8,{mode.row_bytes // 2}):({mode.row_bytes // 2},1)"
        read = parse(text)
        assert not isinstance(read, Swizzle) and same_function(tile, read)


def test_a_swizzle_is_a_sum_modulo_the_row_turned_into_a_xor() -> None:
    """(m, n) -> m N + (m + n) mod N and m N + (m xor n): both put the rows of a column in different banks."""
    n = 8
    by_sum = [[m * n + (m + j) % n for m in range(n)] for j in range(n)]
    by_xor = [[Swizzle(3, 0, 3)(m * n + j) for m in range(n)] for j in range(n)]
    for column in (*by_sum, *by_xor):
        assert {x % n for x in column} == set(range(n))
    assert [sorted(x for c in columns for x in c) for columns in (by_sum, by_xor)] == [list(range(n * n))] * 2


@MODES
def test_ldmatrix_over_a_whole_tile_of_each_mode(mode: SwizzleMode) -> None:
    """The default ldmatrix.x4 of a (64, row) tile: conflict-free in closed form under every mode."""
    width = mode.row_bytes // 2
    tile = tile_to_shape(atom_layout(f"Layout_K_{mode.atom}_Atom", "f16"), (64, max(16, width)))
    report = analyze(tile, Access.default("ldmatrix.x4", tile, "f16"))
    assert isinstance(report, SharedReport)
    assert report.conflict_free and report.method == "f2"


@MODES
def test_the_xor_acts_on_addresses(mode: SwizzleMode) -> None:
    """S(base + x) = base + S(x) for all x exactly when the base is a multiple of the period: this is why
    tiles for TMA and wgmma start at multiples of 256, 512 and 1024 bytes."""
    swizzle, period = mode.swizzle, mode.period_bytes
    for base in range(0, 4096, 128):
        moves = any(swizzle(base + x) != base + swizzle(x) for x in range(0, 2048, 16))
        assert moves == (base % period != 0 and swizzle.bits > 0)
    assert period == {"none": 16, "32B": 256, "64B": 512, "128B": 1024}[mode.name]


@MODES
def test_what_tma_writes_wgmma_reads(mode: SwizzleMode) -> None:
    """A (64, row) box of a row-major f16 tensor, straight from the copy into the descriptor."""
    width = max(16, mode.row_bytes // 2)
    copy = check_tma(Layout((1024, 1024), (1024, 1)), (64, width), "f16", mode=mode).require()
    assert copy.layout is not None
    report = check_wgmma(copy.layout, "f16", "A", base_bytes=4096)
    if mode.name == "none":  # rows of 32 bytes without a swizzle are no canonical layout
        assert report.broken == ("wgmma.swizzle",)
        return
    operand = report.require()
    assert operand.canonical.mode == mode and operand.advance("K") == tuple(range(0, width // 8, 2))
