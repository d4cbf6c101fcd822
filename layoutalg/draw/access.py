"""One access as a picture: which lane touches which bank, and in which wavefront it is served.

The idea.  A warp instruction is served group by group, and within a group each bank delivers one 4-byte word
a wavefront.  `schedule` writes that out: the k-th distinct word that lanes want from a bank is served in
wavefront k.  A table with a row a wavefront and a column a bank then shows the cost as its height:

    4 bytes a lane, 4 bytes apart             4 bytes a lane, 128 bytes apart
      bank  0  1  2 ... 31                      bank  0  1  2 ... 31
    w0      0  1  2 ... 31                    w0      0
                                              w1      1                   (32 rows: a 32-way conflict)

Notes.  The number of wavefronts is the hardware's; the order among equals is not known, and lane order is
shown.  A global access is drawn as the 128-byte lines it touches, one colour a 32-byte sector.

>>> [s.wavefront for s in schedule("ld.shared.b32", [0, 128, 4, 256] + [None] * 28)]
[0, 1, 0, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from layoutalg.analysis import (
    Access,
    Place,
    SharedReport,
    active_lanes,
    analyze_access,
    instruction_offsets,
    phase_groups,
    traffic,
    vector_elems,
    warp_rule,
    wavefronts,
)
from layoutalg.arch import Arch, find_arch, find_instruction
from layoutalg.draw.picture import EMPTY, HUES, Cell, Panel, Picture, check_cells
from layoutalg.layout import AnyLayout, modes, product

MAX_TILE_CELLS = 64 * 64
"""Beside an access, the part of the tile it touches is drawn up to this many cells."""


@dataclass(frozen=True, slots=True)
class Service:
    """A word delivered to a lane: `word` of `bank`, in wavefront `wavefront` of phase group `group`."""

    lane: int
    bank: int
    word: int
    group: int
    wavefront: int


def schedule(
    instruction: str, offsets: Sequence[int | None], arch: str | Arch = "sm_90"
) -> tuple[Service, ...]:
    """Which lane gets which word from which bank, and when: one entry a lane and word, in lane order.

    `offsets` are byte addresses in shared memory, one a lane, None where a lane is inactive.  Wavefronts
    count from 0 in each phase group.  Raises as `layoutalg.analysis.banks.wavefronts` does.

    >>> [(s.lane, s.bank, s.wavefront) for s in schedule("st.shared.b64", [0, 256] + [None] * 30)]
    [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)]
    """
    rule, machine = warp_rule(instruction, "shared", arch)
    words = max(1, rule.width_bytes // machine.bank_bytes)
    out: list[Service] = []
    for number, group in enumerate(phase_groups(rule, active_lanes(rule, machine, offsets))):
        queues: dict[int, list[int]] = {}
        for lane, address in group:
            first = address // machine.bank_bytes
            for word in range(first, first + words):
                queue = queues.setdefault(word % machine.banks, [])
                if word not in queue or not rule.broadcast:
                    queue.append(word)
                    turn = len(queue) - 1
                else:
                    turn = queue.index(word)
                out.append(Service(lane, word % machine.banks, word, number, turn))
    return tuple(out)


def access_picture(
    instruction: str,
    offsets: Sequence[int | None],
    arch: str | Arch = "sm_90",
    *,
    title: str = "",
    panels: tuple[Panel, ...] = (),
) -> Picture:
    """The picture of one warp instruction on these byte offsets; `panels` are put in front of it.

    Shared memory: a row a wavefront, a column a bank, in each cell the lane it serves.  Global memory: a
    row a line, a column a word, in each cell the lane that wants it.  Raises as the definitions do.

    >>> picture = access_picture("ld.shared.b32", [128 * lane for lane in range(32)])
    >>> len(picture.panels[0].rows), picture.notes[0]
    (32, '32 wavefronts; each row is one, each cell the lane that its bank serves')
    """
    machine = find_arch(arch)
    draw = _lines if find_instruction(instruction, machine).space == "global" else _wavefronts
    panel, notes = draw(instruction, offsets, machine)
    return Picture(title or f"{instruction} on {machine.name}", (*panels, panel), notes)


def layout_access_picture(layout: AnyLayout, access: Access, arch: str | Arch = "sm_90") -> Picture:
    """The worst instruction of an access on a layout: the part of the tile it touches, and how it is served.

    For global memory the first instruction is drawn.  The part of the tile is left out where it spans more
    than MAX_TILE_CELLS cells.  Raises as `layoutalg.analysis.analyze` does.

    >>> from layoutalg.layout import Layout
    >>> tile = Layout((32, 32), (32, 1))
    >>> picture = layout_access_picture(tile, Access.of("ld.shared.b32@col", tile, "f32"))
    >>> [len(panel.rows) for panel in picture.panels]
    [32, 32]
    """
    machine = find_arch(arch)
    report = analyze_access(layout, access, machine)
    elems = vector_elems(find_instruction(access.op, machine), access.element)
    place = Place(0, 0, 0)
    if isinstance(report, SharedReport) and report.witness is not None:
        worst = report.witness
        place = Place(worst.warp, worst.value // elems, worst.iteration)
    offsets = instruction_offsets(layout, access, place, machine)
    rows = product(layout.shape[0]) if isinstance(layout.shape, tuple) and len(layout.shape) > 1 else 1
    touched: dict[tuple[int, int], tuple[int, int]] = {}
    for lane, address in enumerate(offsets):
        if address is None:
            continue
        for n in range(elems):
            crd = (place.warp * machine.lanes + lane, place.register * elems + n, place.iteration)
            index = access.tv(*crd[: len(modes(access.tv))])
            byte = address + n * access.element.bits // 8
            touched.setdefault((index % rows, index // rows), (lane, byte // machine.bank_bytes))
    where = f"warp {place.warp}, register {place.register}, iteration {place.iteration}"
    picture = access_picture(
        access.op,
        offsets,
        machine,
        title=f"{access.op} on {layout}, {access.element}, {machine.name}: {where}",
        panels=_tile_panels(touched),
    )
    return replace(picture, notes=(*picture.notes, *report.notes))


def tile_panel(title: str, touched: Mapping[tuple[int, int], tuple[int, int]]) -> Panel:
    """The part of a tile that an access touches: (lane, bank) by (row, column).

    Rows and columns run from the first to the last that is touched.  Raises ResourceError past MAX_CELLS.

    >>> panel = tile_panel("tile", {(1, 2): (0, 0), (2, 2): (1, 8)})
    >>> panel.rows, panel.columns, panel.cells[1][0].text
    (('1', '2'), ('2',), '1')
    """
    rows = range(min(r for r, _ in touched), max(r for r, _ in touched) + 1)
    columns = range(min(c for _, c in touched), max(c for _, c in touched) + 1)
    check_cells(len(rows) * len(columns))

    def cell(crd: tuple[int, int]) -> Cell:
        return Cell(str(touched[crd][0]), touched[crd][1] % HUES) if crd in touched else EMPTY

    cells = tuple(tuple(cell((r, c)) for c in columns) for r in rows)
    return Panel(title, tuple(map(str, rows)), tuple(map(str, columns)), cells)


def _tile_panels(touched: dict[tuple[int, int], tuple[int, int]]) -> tuple[Panel, ...]:
    """The touched part of the tile, where there is one and it is small enough to be read."""
    rows, columns = {r for r, _ in touched}, {c for _, c in touched}
    if not touched or (max(rows) - min(rows) + 1) * (max(columns) - min(columns) + 1) > MAX_TILE_CELLS:
        return ()
    return (tile_panel("the lane of each element it touches", touched),)


def _wavefronts(
    instruction: str, offsets: Sequence[int | None], machine: Arch
) -> tuple[Panel, tuple[str, ...]]:
    """A row a wavefront, a column a bank."""
    served: dict[tuple[int, int], dict[int, list[int]]] = {}
    for s in schedule(instruction, offsets, machine):
        served.setdefault((s.group, s.wavefront), {}).setdefault(s.bank, []).append(s.lane)
    rows = sorted(served)
    several = len({group for group, _ in rows}) > 1
    names = tuple(f"{_letter(group)}{turn}" if several else str(turn) for group, turn in rows)
    cells = tuple(
        tuple(_cell(served[row].get(bank), bank * HUES // machine.banks) for bank in range(machine.banks))
        for row in rows
    )
    total = wavefronts(instruction, offsets, machine)
    notes = [f"{_some(total, 'wavefront')}; each row is one, each cell the lane that its bank serves"]
    if several:
        notes.append("the letter of a row is its phase group, the lanes that are served together")
    if total > len(rows) > 0:
        notes.append(f"the hardware counter adds {total - len(rows)} to this instruction")
    notes += _shared(lanes for banks in served.values() for lanes in banks.values())
    columns = tuple(map(str, range(machine.banks)))
    return Panel("wavefronts by bank", names, columns, cells), tuple(notes)


def _lines(instruction: str, offsets: Sequence[int | None], machine: Arch) -> tuple[Panel, tuple[str, ...]]:
    """A row a line of memory that is touched, a column a 4-byte word of it."""
    rule, _ = warp_rule(instruction, "global", machine)
    wanted: dict[int, list[int]] = {}
    for lane, address in active_lanes(rule, machine, offsets):
        for word in sorted({byte // 4 for byte in range(address, address + rule.width_bytes)}):
            wanted.setdefault(word, []).append(lane)
    words, sector_words = machine.line_bytes // 4, machine.sector_bytes // 4
    touched = {word // sector_words for word in wanted}
    lines = sorted({word // words for word in wanted})

    def cell(word: int) -> Cell:
        sector = word // sector_words
        text = str(min(wanted[word])) if word in wanted else "."
        return Cell(text, sector * 4 % HUES) if sector in touched else EMPTY

    cells = tuple(tuple(cell(line * words + column) for column in range(words)) for line in lines)
    moved = traffic(instruction, offsets, machine)
    notes = [
        f"{_some(moved.sectors, 'sector')} in {_some(moved.lines, 'line')} carry {moved.useful_bytes} useful "
        f"bytes of {moved.sectors * machine.sector_bytes}; each row is a line, each colour a sector that "
        f"moves, each cell a word and the lane that wants it (a dot: none)",
        *_shared(wanted.values()),
    ]
    names = tuple(str(line * machine.line_bytes) for line in lines)
    return Panel("words by line, from byte", names, tuple(map(str, range(words))), cells), tuple(notes)


def _cell(lanes: Sequence[int] | None, hue: int | None) -> Cell:
    """The cell of the lanes that want one word: the first of them."""
    return EMPTY if lanes is None else Cell(str(min(lanes)), hue)


def _shared(words: Iterable[Sequence[int]]) -> list[str]:
    """A note when some lanes do not show because a lower lane wants the same word."""
    hidden = {lane for lanes in words for lane in lanes if lane > min(lanes)}
    verb = "shares its word with a lower lane" if len(hidden) == 1 else "share a word with a lower lane"
    return [f"{_some(len(hidden), 'lane')} {verb}, which is shown"] if hidden else []


def _letter(group: int) -> str:
    """a to z, then aa to zz: the name of a phase group."""
    return chr(ord("a") + group % 26) * (1 + group // 26)


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
