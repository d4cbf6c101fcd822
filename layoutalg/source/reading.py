"""read_kernel: the accesses of an unmodified CUDA source, each with its cost or with why it is not read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    ParseError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.source.counting import Cost, Launch, cost_of, lane_variables, sum_of
from layoutalg.source.front import Declaration, Function, Kernel, Parsed, Type, parse_cuda
from layoutalg.source.loops import Reader
from layoutalg.source.machine import Touch
from layoutalg.source.terms import ZERO, add, constant, variable
from layoutalg.source.values import Address, Array, Number, Real, Record, Unknown, Value, blank, number

_WHOLE = 1024
"""Bytes: a multiple of every line, and of all banks."""

REGISTERS = "registers"
"""The op of an access to an array in registers, which is not a memory access."""

CONSTANT = "constant"
"""The op of a load of constant memory, which has neither banks nor sectors."""

_MOST_EXTENT = (1 << 31) - 1
_NAME = re.compile(r"[A-Za-z_][\w.]*\Z", re.ASCII)
_SET = re.compile(r"-?\d{1,18}[uUlL]{0,3}\Z|-?\d+\.?\d*(?:[eE][+-]?\d+)?f?\Z|0[xX][0-9a-fA-F]{1,16}\Z|"
                  r"[A-Za-z_][\w:]*(?: [A-Za-z_]\w*){0,2}\Z", re.ASCII)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """One access of the source.

    `instructions` are warp instructions, of all loop turns; `total` wavefronts in shared memory and sectors
    in global memory, `ideal_total` the fewest.  `ways` is the worst instruction's wavefronts over its ideal,
    None in global memory; `efficiency` useful bytes over bytes moved, None in shared memory.  Where `read`
    is false, `why` says why, and the counts are None.
    """

    line: int
    column: int
    op: str
    array: str
    instructions: int | None
    total: int | None
    ideal_total: int | None
    ways: int | None
    efficiency: float | None
    read: bool
    why: str | None

    @property
    def space(self) -> str:
        """shared, global, registers, or "" where the op does not say."""
        if self.op in (REGISTERS, CONSTANT):
            return self.op
        if "global" in self.op:
            return "global"
        shared = (
            self.op.startswith(("ldmatrix", "stmatrix", "cp.async", "red.shared")) or ".shared." in self.op
        )
        return "shared" if shared else ""


@dataclass(frozen=True, slots=True)
class KernelReading:
    """What was read: `accesses` in the order of the text, counted for one block, or for `grid` blocks.

    `wanted` are the names whose values would tell more, as for --set; `notes` are true of the reading and
    easily overlooked; `touches` are the accesses with their index sums, for those who ask again.
    """

    kernels: tuple[str, ...]
    block: tuple[int, int, int]
    grid: tuple[int, int, int] | None
    arch: str
    accesses: tuple[SourceAccess, ...]
    wanted: tuple[str, ...]
    notes: tuple[str, ...]
    touches: tuple[Touch, ...]
    shared: tuple[Declaration, ...]

    @property
    def memory(self) -> tuple[SourceAccess, ...]:
        """The accesses to shared and global memory: those to registers and to constant memory left out."""
        return tuple(a for a in self.accesses if a.op not in (REGISTERS, CONSTANT))

    @property
    def share(self) -> float:
        """Accesses to memory that are read, over all of them; 1.0 where there are none."""
        memory = self.memory
        return sum(a.read for a in memory) / len(memory) if memory else 1.0

    @property
    def conflicting(self) -> tuple[str, ...]:
        """The shared arrays with an access that has bank conflicts."""
        found = (a.array for a in self.accesses if a.read and a.ways is not None and a.ways > 1)
        return tuple(dict.fromkeys(found))


def read_kernel(
    text: str,
    block: tuple[int, ...] | int,
    *,
    grid: tuple[int, ...] | int | None = None,
    sets: Mapping[str, int | float | str] | None = None,
    kernel: str | None = None,
    arch: str | Arch = "sm_90",
    folder: str | None = None,
) -> KernelReading:
    """The accesses of a kernel in a CUDA source that is read as it is; nothing of it is run.

    `block` are the threads of a block along x, y and z.  Without `grid` the counts are those of block
    (0,0,0), with it those of all its blocks.  `sets` gives values to parameters, template parameters, and
    names that the source leaves open.  `kernel` names one of several.  `folder` is where headers of the
    user's own lie.

    Arrays are taken to start at multiples of 1024 bytes.  An instruction is counted for each evaluation of
    the access in the source, as if nothing were kept in registers from turn to turn.

    Raises ParseError, ResourceError, ShapeError, UnknownNameError, UnsupportedError (a missing extra),
    UndecidedError and CompileError.

    >>> body = "__shared__ float s[32][32]; s[threadIdx.x][0] = p[threadIdx.x];"
    >>> found = read_kernel(f"__global__ void k(float* p) {{ {body} }}", 32)
    >>> [(a.op, a.array, a.total, a.ways) for a in found.accesses]
    [('st.shared.b32', 's', 32, 32), ('ld.global.b32', 'p', 4, None)]
    """
    machine = find_arch(arch)
    launch = Launch(_extents("block", block), None if grid is None else _extents("grid", grid))
    threads = launch.block[0] * launch.block[1] * launch.block[2]
    if threads > machine.max_threads_per_block:
        raise ShapeError(
            f"a block has {threads} threads, and {machine.name} has at most {machine.max_threads_per_block}"
        )
    given = checked_sets(sets or {})
    parsed = parse_cuda(text, kernel=kernel, sets=given, folder=folder, arch=machine.name)
    if not parsed.kernels:
        if kernel is not None and parsed.names:
            raise UnknownNameError("kernel", kernel, parsed.names)
        raise ParseError("the source has no __global__ function with a body" + _first_removed(parsed))
    return _Reading(parsed, launch, machine, given).result()


def checked_sets(sets: Mapping[str, int | float | str]) -> dict[str, str]:
    """Values for names, each a plain number or the name of a type; raises ParseError for anything else.

    >>> checked_sets({"N": 4096, "T": "float"})
    {'N': '4096', 'T': 'float'}
    """
    out = {}
    for name, value in sets.items():
        if not _NAME.match(name) or not _SET.match(str(value)):
            raise ParseError(
                f"{name}={value} is not NAME=VALUE with a number or the name of a type as its value"
            )
        out[name] = str(value)
    return out


def _extents(what: str, given: tuple[int, ...] | int) -> tuple[int, int, int]:
    sizes = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(sizes) <= 3 or any(type(n) is not int or not 1 <= n <= _MOST_EXTENT for n in sizes):
        raise ShapeError(f"{what} is {given!r}; one to three positive integers are needed, along x, y and z")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _first_removed(parsed: Parsed) -> str:
    if not parsed.removed:
        return ""
    _, _, line, column, why, _ = parsed.removed[0]
    return f": line {line}, column {column}: {why}"


def _number_of(text: str) -> int | float | None:
    """The number that a value is, or None for the name of a type."""
    plain = text.rstrip("uUlLf") if text[:2] not in ("0x", "0X") else text.rstrip("uUlL")
    try:
        return (
            int(plain, 0)
            if not plain.lstrip("-").startswith("0") or plain[:2].lower() == "0x"
            else int(plain)
        )
    except ValueError:
        try:
            return float(plain)
        except ValueError:
            return {"true": 1, "false": 0, "nullptr": 0}.get(text)


class _Reading:
    """All kernels that are asked for, and the census."""

    def __init__(self, parsed: Parsed, launch: Launch, machine: Arch, given: dict[str, str]) -> None:
        self.parsed, self.launch, self.machine, self.given = parsed, launch, machine, given
        self.used: set[str] = set(parsed.defined)
        self.accesses: list[SourceAccess] = []
        self.touches: list[Touch] = []
        self.shared: dict[str, Declaration] = {}
        self.wanted: dict[str, None] = {}
        self.notes: list[str] = []

    def result(self) -> KernelReading:
        for kernel in self.parsed.kernels:
            self.used |= set(kernel.template) & set(self.given)
            if kernel.root is None:
                self._unread(kernel)
            else:
                self._read(kernel, kernel.root)
        unused = [n for n in self.given if n not in self.used]
        if unused:
            known = sorted(
                {p for k in self.parsed.kernels for p in (*k.parameters, *k.template)}
                | set(self.parsed.unknown)
            )
            raise UnknownNameError("name to set", unused[0], known)
        self.accesses.sort(key=lambda a: (a.line, a.column))
        for name in self.parsed.unknown:
            self.wanted.setdefault(name)
        return KernelReading(
            tuple(k.name for k in self.parsed.kernels), self.launch.block, self.launch.grid,
            self.machine.name, tuple(self.accesses), tuple(self.wanted), tuple(self.notes),
            tuple(self.touches),
            tuple(self.shared.values()),
        )  # fmt: skip

    def _unread(self, kernel: Kernel) -> None:
        """A kernel that is not read: all that its text may touch is told."""
        for site in self.parsed.sites:
            if site.function == kernel.name.rpartition("::")[2] and site.kind != "call":
                self._tell(site.line, site.column, "", "", kernel.why)
        for name in kernel.template:
            if name not in self.given:
                self.wanted.setdefault(name)

    def _tell(self, line: int, column: int, op: str, array: str, why: str) -> None:
        self.accesses.append(SourceAccess(line, column, op, array, None, None, None, None, None, False, why))

    def _read(self, kernel: Kernel, root: Function) -> None:
        reader = Reader(kernel, {}, self._geometry(), self.launch.threads)
        reader.removed = [(first, last, text) for first, last, *_, text in self.parsed.removed]
        bound: list[tuple[int, Value | Any]] = []
        for key in root.parameters:
            declared = kernel.declarations[key]
            bound.append((key, self._parameter(declared.name, declared.type, key)))
        tops = {d.name for d in kernel.declarations.values() if d.at_top}
        reader.sets = {n: v for n in tops & set(self.given) if (v := _number_of(self.given[n])) is not None}
        self.used |= set(reader.sets)
        try:
            reader.entered(root, bound, None)
        except LayoutAlgError as error:
            self.notes.append(f"{kernel.name} is not read to its end: {error.message}")
            reader.trying = 0
        for declared in reader.shared.values():
            self.shared.setdefault(declared.name, declared)
        self._keep(reader)
        self._census(kernel, reader)

    def _geometry(self) -> dict[str, Value]:
        def triple(sums: Any) -> Record:
            return Record({axis: Number(one, 32, False) for axis, one in zip("xyz", sums, strict=True)})

        blocks = [variable(n, 0, e - 1) for n, e in self.launch.blocks.items()]
        grid: Value = Record({axis: Unknown(f"gridDim.{axis} is not known without --grid") for axis in "xyz"})
        if self.launch.grid is not None:
            grid = triple([constant(n) for n in self.launch.grid])
        found: dict[str, Value] = {
            "threadIdx": triple(lane_variables(self.launch.block)),
            "blockIdx": triple(blocks),
            "blockDim": triple([constant(n) for n in self.launch.block]),
            "gridDim": grid,
        }
        for name, text in self.given.items():
            whole, _, axis = name.partition(".")
            value = _number_of(text)
            record = found.get(whole)
            if whole in ("blockIdx", "gridDim") and axis in ("x", "y", "z") and isinstance(value, int) \
                    and isinstance(record, Record):  # fmt: skip
                found[whole] = Record({**record.members, axis: Number(constant(value), 32, False)})
                self.used.add(name)
        return found

    def _parameter(self, name: str, kind: Type, key: int) -> Value:
        """What a parameter of the kernel holds."""
        if kind.kind == "pointer":
            if self.given.get(name) in ("0", "nullptr"):
                self.used.add(name)
                return number(0)
            if name in self.given:
                self.used.add(name)
            return Address(Array(name, "global", key * 1000 + len(name), kind), ZERO)
        if kind.kind == "record" and kind.fields:
            if all(t.kind == "float" for _, _, t in kind.fields):
                return blank(kind)
            return Record({n: self._parameter(f"{name}.{n}", t, key) for n, _, t in kind.fields})
        if name in self.given:
            self.used.add(name)
            value = _number_of(self.given[name])
            if kind.kind == "int" and isinstance(value, int):
                return number(value, kind)
            if kind.kind == "float" and value is not None:
                return Real(float(value))
            raise ArgumentTypeError(f"{name}={self.given[name]}: the parameter {name} is a {kind.name}")
        if kind.kind in ("int", "float"):
            return Unknown(f"{name} is not known: --set {name}=VALUE", name)
        return Unknown(f"the parameter {name} is a {kind.name}")

    # --- counting ---------------------------------------------------------------------------------------

    def _keep(self, reader: Reader) -> None:
        """One access for each place, op and array of the source; its touches are added up."""
        groups: dict[tuple[int, int, str, str], list[Touch]] = {}
        for touch in reader.touches:
            groups.setdefault((touch.line, touch.column, touch.op, touch.array), []).append(touch)
        for (line, column, op, array), touches in groups.items():
            unread = next((t for t in touches if t.why), None)
            if unread is not None:
                for t in touches:
                    for name in t.wanted:
                        self.wanted.setdefault(name)
                self._tell(line, column, op, array, unread.why)
                continue
            try:
                cost = self._cost(touches)
            except LayoutAlgError as error:
                self._tell(line, column, op, array, error.message)
                continue
            self.touches += touches
            shared = ".global" not in op and ":global" not in op
            moved = cost.total * self.machine.sector_bytes
            efficiency = None if shared else (cost.useful_bytes / moved if moved else 1.0)
            self.accesses.append(
                SourceAccess(
                    line, column, op, array, cost.instructions, cost.total, cost.ideal,
                    cost.ways if shared else None, efficiency, True, None,
                )
            )  # fmt: skip
        for op, places in ((REGISTERS, reader.registers), (CONSTANT, reader.constants)):
            for (line, column), name in places.items():
                self.accesses.append(SourceAccess(line, column, op, name, 0, 0, 0, None, None, True, None))

    def _cost(self, touches: list[Touch]) -> Cost:
        total = Cost(0, 0, 0, 1, 0)
        known: dict[Any, Cost] = {}
        for given in touches:  # whole lines further, an access costs the same
            at = add(given.offset, constant(given.offset.constant // _WHOLE * -_WHOLE))
            touch = replace(given, offset=at)
            key = (touch.offset.key, tuple(c.key for c in touch.conditions), touch.turns)
            if key not in known:
                known[key] = cost_of(touch, self.launch, self.machine)
            cost = known[key]
            total = sum_of(total, cost)
        return total

    # --- the census -------------------------------------------------------------------------------------

    def _census(self, kernel: Kernel, reader: Reader) -> None:
        """Tell of every site that the front end has not, or that was not come to."""
        names: dict[str, list[tuple[int, int]]] = {}
        for name, extent in reader.reached:
            names.setdefault(name, []).append(extent)
        nodes = {
            (n.line, n.column) for f in kernel.functions.values() if f.body is not None for n in f.body.walk()
        }
        told = {(a.line, a.column) for a in self.accesses}
        pointers = {d.name for d in kernel.declarations.values() if d.type.kind in ("pointer", "array")}
        pointers |= set(kernel.parameters)
        for site in self.parsed.sites:
            at = (site.line, site.column)
            around = names.get(site.function, ())
            if at in reader.seen or at in told or not any(a <= site.line <= b for a, b in around):
                continue
            if site.kind == "call" and not any(
                re.search(rf"\b{re.escape(p)}\b", site.text) for p in pointers
            ):
                continue
            removed = next((r for r in self.parsed.removed if r[0] <= site.line <= r[1]), None)
            if removed is not None:
                why = f"the statement has an error: line {removed[2]}, column {removed[3]}: {removed[4]}"
            elif at in nodes:
                why = "it is never reached"
            else:
                why = "it is left out by the preprocessor, or of another instance of the template"
            told.add(at)
            op = f"call {site.text.partition('(')[0][:40]}" if site.kind == "call" else ""
            self._tell(site.line, site.column, op, "", why)


def refuse_unread(reading: KernelReading) -> None:
    """Raise UnsupportedError where nothing of a source could be read, saying what would help."""
    memory = reading.memory
    if not memory or any(a.read for a in memory):
        return
    hint = f"; --set is wanted for {', '.join(reading.wanted)}" if reading.wanted else ""
    first = memory[0]
    raise UnsupportedError(
        f"none of {len(memory)} accesses could be read: line {first.line}, column {first.column}: "
        f"{first.why}{hint}"
    )
