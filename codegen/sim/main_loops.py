"""A pipeline as a picture: what is in every stage of shared memory and every set of registers, step by step.

The idea.  The statements of a kernel are followed as thread 0 of block 0 goes through them, by number alone:
nothing is computed.  Copies to a stage of a ring, loads from it and multiplications tell what each place
holds; a step ends with a run of multiplications, so that a column shows what is under way while they run:

    tile_a 0  0*  0*  3+  3>  3>  3*        +  a copy of tile 3 begins     *  it is read
    tile_a 1  1>  1   1*  1*  4+  4>        >  it is on its way            nothing: it has landed
    ra 0      0.0* 0.2+ 0.2* 1.0+ ...       tile 0, its third fragments, are loaded, then multiplied

A cp.async has landed at the wait that covers its group, a plain store at the barrier.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> family = find_family("gemm-sm80")
    >>> one = family.launches(family.problem(256), find_steps("gemm-sm80")["6 two buffers"], "sm_90")
    >>> found = timeline(one.kernels[0], {**dict(one.scalars), "k": 96, "alpha": 1})
    >>> found.steps[:3], [row for row in found.rows if row.startswith("tile_a")]
    (('', '0.0', '0.1'), ['tile_a 0', 'tile_a 1'])
    >>> [found.uses["staged_a 0", n].text for n in range(3)]
    ['0+*', '1+', '1>']

Notes.  The order is that of the program.  A compiler moves instructions between barriers, and copies take
the time that they take: which step waits for what is exact, how long a step takes is not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.costs import followed
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.program import Do, For, Global, Kernel, MemRef, RegRef, Roles, Shared, check_integers
from layoutalg.draw import Cell, Panel, Picture
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.limits import Most


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a place in a step: `tile`, and of registers the `part` of it; whether it `begins` to come
    in that step, is still `coming` at its end, and is `read` in it.

    >>> Use(3, begins=True, coming=True).text, Use(3, 1, read=True).text
    ('3+', '3.1*')
    """

    tile: int
    part: int | None = None
    begins: bool = False
    coming: bool = False
    read: bool = False

    @property
    def text(self) -> str:
        """The use in a few letters."""
        name = str(self.tile) if self.part is None else f"{self.tile}.{self.part}"
        return name + "+" * self.begins + ">" * (self.coming and not self.begins) + "*" * self.read


@dataclass(frozen=True, slots=True)
class Timeline:
    """The places (`rows`), the steps by what they multiply, and what each place holds in each step."""

    kernel: str
    rows: tuple[str, ...]
    steps: tuple[str, ...]
    uses: Mapping[tuple[str, int], Use]

    def picture(self) -> Picture:
        """A row per place and a column per step, coloured by tile."""

        def cell(row: str, step: int) -> Cell:
            use = self.uses.get((row, step))
            return Cell() if use is None else Cell(use.text, use.tile * 4 % 32, marked=use.read)

        heads = tuple(step or "before" for step in self.steps)
        cells = tuple(tuple(cell(row, n) for n in range(len(self.steps))) for row in self.rows)
        panel = Panel("places by step: tile.part that is multiplied", self.rows, heads, cells)
        notes = (
            "a cell is the tile that a place holds, of registers its part too; the colour is the tile mod 8",
            "+ begins to come in this step, > is on its way, * is read; with neither it has landed",
            "what is loaded behind the last tile is what lay there, and is not multiplied",
        )
        return Picture(f"pipeline of {self.kernel}", (panel,), notes)


def timeline(kernel: Kernel, params: Mapping[str, int]) -> Timeline:
    """The contents of the places of a kernel's main loop, for values of its parameters.

    Raises UnsupportedError for a kernel whose warps have roles or that multiplies nothing it has loaded from
    shared memory, ResourceError for a loop of more than Most.FOLLOWED, ShapeError for values that the
    kernel is not right for.
    """
    if any(isinstance(s, Roles) for s in kernel.body):
        raise UnsupportedError(f"warps of {kernel.name} have roles: a timeline follows one thread")
    env = {**block_zero(kernel, params), kernel.tid: 0}
    seen = _Places(kernel)
    for n, (s, now, _) in enumerate(followed(kernel.tid, kernel.body, env, numpy.ones(1, dtype=bool))):
        Most.FOLLOWED.guard(n + 1, FOLLOWED)
        match s:
            case For():
                seen.begin_loop()
            case Do():
                seen.do(s, now)
    return seen.found()


FOLLOWED = "statements that are followed"


def block_zero(kernel: Kernel, params: Mapping[str, int]) -> dict[Var, Any]:
    """The values of a kernel's parameters, and block 0's.  Raises ShapeError for what it is not right for."""
    missing = [p.name for p in kernel.integers if p.name not in params]
    if missing:
        raise ShapeError(f"{kernel.name} needs {', '.join(missing)}")
    check_integers(kernel, params)
    own = {p: params[p.name] for p in kernel.integers}
    return own | dict.fromkeys(kernel.block_vars, 0)


class _Places:
    """The contents of every place, while statements go by."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.held: dict[str, Use] = {}
        self.tiles: dict[str, int] = {}
        self.parts: dict[str, int] = {}
        self.groups: list[list[str]] = [[]]
        self.stored: set[str] = set()
        self.steps: list[str] = []
        self.uses: dict[tuple[str, int], Use] = {}
        self.multiplied = ""
        self.order: dict[str, tuple[int, str]] = {}

    def do(self, s: Do, env: Mapping[Var, Any]) -> None:
        """Take one instruction into account."""
        roles = [operand.role for operand in s.instr.operands]
        memory = s.memory
        writes = [a for o, a in memory if o.role == "write" and isinstance(a.buffer, Shared)]
        reads = [a for o, a in memory if o.role == "read" and isinstance(a.buffer, Shared)]
        fetched = [a for o, a in memory if o.role == "read" and isinstance(a.buffer, Global)]
        held = {
            self._register(a, env)
            for role, a in zip(roles, s.args, strict=True)
            if isinstance(a, RegRef) and role in ("in", "inout")
        }
        method = s.instr.method
        multiplied = [x for x in sorted(held) if (use := self.held.get(x)) and use.part is not None]
        if len(multiplied) > 1 and not memory:
            self._multiply(multiplied)
            return
        if self.multiplied and (memory or "wait" in s.instr.name or method == "arrive_block_barrier"):
            self._end_step()
        if fetched and not writes:
            self._fetch(self._target(s, roles, env))
        for row in held if writes else ():
            if row in self.held:
                self.held[row] = replace(self.held[row], coming=False, read=True)
        for to in writes:
            self._fill(self._stage(to, env), asynchronous=bool(fetched))
        for of in reads:
            self._load(self._stage(of, env), self._target(s, roles, env))
        match method:
            case "commit_copies":
                self.groups.append([])
            case "wait_copies":
                pending = next(int(a) for a in s.args if isinstance(a, int))
                while len(self.groups) - 1 > pending:
                    self._land(self.groups.pop(0))
            case "arrive_block_barrier":
                self._land([x for x, use in self.held.items() if use.coming and x in self.stored])

    def found(self) -> Timeline:
        """The steps up to the last multiplication."""
        if self.multiplied:
            self._end_step()
        if not any(self.steps):
            raise UnsupportedError(f"{self.kernel.name} multiplies nothing that it loads from shared memory")
        while not self.steps[-1]:
            self.steps.pop()
        count = len(self.steps)
        uses = {(row, n): use for (row, n), use in self.uses.items() if n < count}
        rows = sorted({row for row, _ in uses}, key=lambda row: self.order[row])
        return Timeline(self.kernel.name, tuple(rows), tuple(self.steps), MappingProxyType(uses))

    def begin_loop(self) -> None:
        """Make a step of its own of what is under way before the first loop."""
        if self.held and not self.steps:
            self._end_step()

    def _multiply(self, sets: Sequence[str]) -> None:
        for row in sets:
            self.held[row] = replace(self.held[row], read=True)
            self.multiplied = f"{self.held[row].tile}.{self.held[row].part}"

    def _end_step(self) -> None:
        """Write down what every place holds, and begin the next step."""
        for row, use in self.held.items():
            self.uses[row, len(self.steps)] = use
            self.held[row] = replace(use, begins=False, read=False)
        self.steps.append(self.multiplied)
        self.multiplied = ""

    def _fill(self, row: str, *, asynchronous: bool) -> None:
        """A tile begins to come to a stage, with the first of its vectors."""
        use = self.held.get(row)
        if use is not None and use.begins and not use.read:
            return
        buffer = row.rpartition(" ")[0]
        tile = self.tiles[buffer] = self.tiles.get(buffer, -1) + 1
        self.held[row] = Use(tile, begins=True, coming=True)
        self.parts.pop(row, None)
        if asynchronous:
            self.groups[-1].append(row)
        else:
            self.stored.add(row)

    def _fetch(self, row: str) -> None:
        """A tile begins to come to registers, with the first of its vectors."""
        use = self.held.get(row)
        if row and (use is None or not use.coming):
            tile = self.tiles[row] = self.tiles.get(row, -1) + 1
            self.held[row] = Use(tile, begins=True, coming=True)

    def _load(self, row: str, target: str) -> None:
        """Fragments of a stage's tile come to a set of registers."""
        use = self.held.get(row)
        if use is None or not target:
            return
        self.held[row] = replace(use, read=True)
        old = self.held.get(target)
        if old is not None and old.begins and not old.read and old.tile == use.tile:
            return
        part = self.parts[row] = self.parts.get(row, -1) + 1
        self.held[target] = Use(use.tile, part, begins=True)

    def _land(self, rows: Sequence[str]) -> None:
        for row in rows:
            if row in self.held:
                self.held[row] = replace(self.held[row], coming=False)

    def _stage(self, at: MemRef, env: Mapping[Var, Any]) -> str:
        """The row of a place in shared memory: its buffer and stage."""
        buffer = at.buffer
        stages, size = (buffer.stages, buffer.size_bytes) if isinstance(buffer, Shared) else (1, 1)
        return self._row(0, buffer.name, evaluate(at.index, env) // (size // stages))

    def _target(self, s: Do, roles: Sequence[str], env: Mapping[Var, Any]) -> str:
        outs = (a for role, a in zip(roles, s.args, strict=True) if role == "out" and isinstance(a, RegRef))
        return next((self._register(a, env) for a in outs), "")

    def _register(self, at: RegRef, env: Mapping[Var, Any]) -> str:
        """The row of registers: an array whose first mode are sets of fragments, and the set."""
        sets = len(at.reg.shape) > 2 and at.index
        return self._row(1, at.reg.name, evaluate(at.index[0], env) if sets else 0)

    def _row(self, kind: int, name: str, number: int) -> str:
        row = f"{name} {number}"
        self.order.setdefault(row, (kind, row))
        return row
