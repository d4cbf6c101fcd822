"""The picture of an access: which lane touches which bank, and in which wavefront it is served.

The idea.  A warp instruction is served group by group, and within a group each bank delivers one 4-byte word
per wavefront.  `schedule` writes that out: the k-th distinct word that lanes want from a bank is served in
wavefront k.  A table with a row per wavefront and a column per bank then shows the cost as its height:

    4 bytes per lane, 4 bytes apart           4 bytes per lane, 128 bytes apart
      bank  0  1  2 ... 31                      bank  0  1  2 ... 31
    w0      0  1  2 ... 31                    w0      0
                                              w1      1                   (32 rows: a 32-way conflict)

Notes.  The number of wavefronts is the hardware's; the order among equals is not known, and lane order is
shown.  Where lanes take vectors of several words, the banks of a vector are one column.  A global access is
drawn as the 128-byte lines it touches, one colour per 32-byte sector.

>>> [s.wavefront for s in schedule("ld.shared.b32", [0, 128, 4, 256] + [None] * 28)]
[0, 1, 0, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from layoutalg.analysis import (
    active_lanes,
    ideal_wavefronts,
    phase_groups,
    traffic,
    warp_rule,
    wavefronts,
)
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.draw.picture import BANK_LEGEND, EMPTY, HUES, Cell, Panel, Picture, grid


@dataclass(frozen=True, slots=True)
class Service:
    """A word delivered to a lane: `word` of `bank`, in wavefront `wavefront` of phase group `group`."""

    lane: int
    bank: int
    word: int
    group: int
    wavefront: int


def schedule(
    instruction: str, offsets: Sequence[int | None], arch: str | Arch = DEFAULT_ARCH
) -> tuple[Service, ...]:
    """Return the lane, bank and wavefront of each word: one entry per lane and word, in lane order.

    `offsets` are byte addresses in shared memory, one per lane, None where a lane is inactive.  Wavefronts
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
    arch: str | Arch = DEFAULT_ARCH,
    *,
    title: str = "",
    panels: tuple[Panel, ...] = (),
) -> Picture:
    """The picture of one warp instruction on these byte offsets; `panels` are put in front of it.

    Shared memory: a row per wavefront, a column per bank (or the banks of a vector), in each cell the lane it
    serves.  Global memory: a row per line, a column per word, in each cell the lane that wants it.  Raises as
    `layoutalg.analysis.wavefronts` and `traffic` do.

    >>> picture = access_picture("ld.shared.b32", [128 * lane for lane in range(32)])
    >>> len(picture.panels[0].rows), picture.notes[0]
    (32, '32 wavefronts; each row is one, each cell the lane that its bank serves')
    """
    machine = find_arch(arch)
    draw = _lines if find_instruction(instruction, machine).space == "global" else _wavefronts
    panel, notes = draw(instruction, offsets, machine)
    legend = BANK_LEGEND if draw is _wavefronts else ()
    return Picture(title or f"{instruction} on {machine.name}", (*panels, panel), notes, legend=legend)


def _wavefronts(
    instruction: str, offsets: Sequence[int | None], machine: Arch
) -> tuple[Panel, tuple[str, ...]]:
    """A row per wavefront, a column per bank."""
    served: dict[tuple[int, int], dict[int, list[int]]] = {}
    for s in schedule(instruction, offsets, machine):
        served.setdefault((s.group, s.wavefront), {}).setdefault(s.bank, []).append(s.lane)
    rows = sorted(served)
    several = len({group for group, _ in rows}) > 1

    def name(row: tuple[int, int]) -> str:
        return f"{_letter(row[0])}{row[1]}" if several else str(row[1])

    def cell(row: tuple[int, int], bank: int) -> Cell:
        """The first lane of a bank, marked where it waits for it."""
        lanes = served[row].get(bank)
        hue = bank * HUES // machine.banks
        return EMPTY if lanes is None else Cell(str(min(lanes)), hue, marked=row[1] > 0)

    total = wavefronts(instruction, offsets, machine)
    notes = [f"{counted(total, 'wavefront')}; each row is one, each cell the lane that its bank serves"]
    if several:
        notes.append("the letter of a row is its phase group, the lanes that are served together")
    if total > len(rows) > 0:
        notes.append(f"the hardware counter adds {total - len(rows)} to this instruction")
    notes += filter(None, [conflict_note(instruction, offsets, machine)])
    notes += _shared(lanes for banks in served.values() for lanes in banks.values())
    panel = grid("wavefronts by bank", rows, range(machine.banks), cell, name)
    rule, _ = warp_rule(instruction, "shared", machine)
    return _joined(panel, rule.width_bytes // machine.bank_bytes), tuple(notes)


def _lines(instruction: str, offsets: Sequence[int | None], machine: Arch) -> tuple[Panel, tuple[str, ...]]:
    """A row per line of memory that is touched, a column per 4-byte word of it."""
    rule, _ = warp_rule(instruction, "global", machine)
    wanted: dict[int, list[int]] = {}
    for lane, address in active_lanes(rule, machine, offsets):
        for word in sorted({byte // 4 for byte in range(address, address + rule.width_bytes)}):
            wanted.setdefault(word, []).append(lane)
    words, sector_words = machine.line_bytes // 4, machine.sector_bytes // 4
    touched = {word // sector_words for word in wanted}
    lines = sorted({word // words for word in wanted})

    def cell(line: int, column: int) -> Cell:
        word = line * words + column
        sector = word // sector_words
        text = str(min(wanted[word])) if word in wanted else "."
        return Cell(text, sector * 4 % HUES) if sector in touched else EMPTY

    moved = traffic(instruction, offsets, machine)
    notes = [
        f"{counted(moved.sectors, 'sector')} in {counted(moved.lines, 'line')} carry {moved.useful_bytes} "
        f"useful bytes of {moved.sectors * machine.sector_bytes}; each row is a line, each colour a sector "
        f"that moves, each cell a word and the lane that wants it (a dot: none)",
        *_shared(wanted.values()),
    ]
    title = "words by line, from byte"
    panel = grid(title, lines, range(words), cell, lambda line: str(line * machine.line_bytes))
    return panel, tuple(notes)


def _joined(panel: Panel, words: int) -> Panel:
    """The panel with the banks of a vector as one column, where they always serve one lane together."""
    starts = range(0, len(panel.columns), max(1, words))
    joint = all(len({cell.text for cell in row[s : s + words]}) == 1 for row in panel.cells for s in starts)
    if words < 2 or not panel.cells or not joint:
        return panel
    heads = tuple(f"{s}-{min(s + words, len(panel.columns)) - 1}" for s in starts)
    return replace(panel, columns=heads, cells=tuple(row[::words] for row in panel.cells))


def conflict_note(instruction: str, offsets: Sequence[int | None], arch: str | Arch) -> str:
    """The ways of a conflict and the bank it is about, beside the ideal; "" without an active lane.

    >>> conflict_note("ld.shared.b32", [128 * lane for lane in range(32)], "sm_90").partition("; ")[2]
    'a conflict of 32 ways: bank 0 delivers 32 words one by one, lanes past the first wavefront wait'
    """
    loads: dict[tuple[int, int], int] = {}
    for s in schedule(instruction, offsets, arch):
        loads[s.group, s.bank] = max(loads.get((s.group, s.bank), 0), s.wavefront + 1)
    if not loads:
        return ""
    ideal = f"ideal: {counted(ideal_wavefronts(instruction, offsets, arch), 'wavefront')}"
    ways = max(loads.values())
    if ways == 1:
        return f"{ideal}; no bank is asked for two words at once"
    group, bank = min(key for key, n in loads.items() if n == ways)
    lanes = f" to lanes of {_letter(group)}" if len({g for g, _ in loads}) > 1 else ""
    return (
        f"{ideal}; a conflict of {ways} ways: bank {bank} delivers {ways} words{lanes} one by one, "
        f"lanes past the first wavefront wait"
    )


def _shared(words: Iterable[Sequence[int]]) -> list[str]:
    """A note when some lanes do not show because a lower lane wants the same word."""
    hidden = {lane for lanes in words for lane in lanes if lane > min(lanes)}
    verb = "shares its word with a lower lane" if len(hidden) == 1 else "share a word with a lower lane"
    return [f"{counted(len(hidden), 'lane')} {verb}, which is shown"] if hidden else []


def _letter(group: int) -> str:
    """a to z, then aa to zz: the name of a phase group."""
    return chr(ord("a") + group % 26) * (1 + group // 26)


def counted(number: int, noun: str) -> str:
    """A number of things, in the singular or the plural."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
