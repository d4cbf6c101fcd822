"""read_kernel: the accesses of an unmodified CUDA source, each with its cost or with why it is not read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, ShapeError, UnknownNameError
from layoutalg.source.costs import Cost, Launch, bounds_of, cost_of, lane_variables, sum_of
from layoutalg.source.cute import is_cute, parameter_of
from layoutalg.source.front import Declaration, Function, Kernel, Parsed, Type, parse_cuda
from layoutalg.source.loops import Reader
from layoutalg.source.machine import ASKED, Touch
from layoutalg.source.rows import (
    CONSTANT,
    FETCH,
    REGISTERS,
    TAKEN,
    Code,
    Joined,
    Joiner,
    KernelReading,
    Open,
    Question,
    Row,
    Sized,
    SourceAccess,
    TakenNumber,
    Unfollowed,
    by_row,
    line_of,
    statement_end,
    statement_ends,
)
from layoutalg.source.terms import ZERO, add, constant, size, variable
from layoutalg.source.unread import (
    LEFT_OUT,
    MOST_TOLD,
    destructor,
    foreign,
    not_followed,
    objects,
    untold,
)
from layoutalg.source.values import (
    LOADED,
    Address,
    Array,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    blank,
    elements,
    not_given,
    number,
)

_WHOLE = 1024
"""A number of bytes that is a multiple of every line, and of a row of all banks."""

_MOST_EXTENT = (1 << 31) - 1
_BLOCKS = ("gridDim.x", "gridDim.y", "gridDim.z")
MOST_BLOCKS = 1 << 20
"""The most blocks along a side of a grid that is not given."""

_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+|\[\d{1,9}\])*\Z", re.ASCII)
_SET = re.compile(r"-?\d{1,18}[uUlL]{0,3}\Z|-?\d+\.?\d*(?:[eE][+-]?\d+)?f?\Z|0[xX][0-9a-fA-F]{1,16}\Z|"
                  r"[A-Za-z_][\w:]*(?: [A-Za-z_]\w*){0,2}\Z", re.ASCII)  # fmt: skip


def read_kernel(
    text: str,
    block: tuple[int, ...] | int | None = None,
    *,
    grid: tuple[int, ...] | int | None = None,
    sets: Mapping[str, int | float | str] | None = None,
    kernel: str | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    folder: str | None = None,
    include: Sequence[str] = (),
    defines: Mapping[str, str] | None = None,
    changed: Mapping[str, str] | None = None,
    compiled: bool = False,
) -> KernelReading:
    """The accesses of a kernel in a CUDA source that is read as it is; nothing of it is run.

    `block` are the threads of a block along x, y and z, by default those of each kernel's launch in the
    source, where they are constants.  Without `grid` the counts are those of block (0,0,0), with it those
    of all blocks.  `sets` gives values to parameters, template parameters and names that are open.
    `kernel` names one of several.  `folder` is where headers of the user's own lie, `include` are others,
    as for -I, `defines` macros, as for -D; `changed` are texts in place of those of headers, by path.

    With `compiled`, nvcc or NVRTC compiles the source, and accesses that its machine code has joined into
    vectors are counted so.

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
    blocks = None if grid is None else _extents("grid", grid)
    given = None if block is None else Launch(_extents("block", block), blocks)
    if given is not None and (threads := math.prod(given.block)) > machine.max_threads_per_block:
        raise ShapeError(
            f"a block has {threads} threads, and {machine.name} has at most {machine.max_threads_per_block}"
        )
    values = checked_sets(sets or {})
    parsed = parse_cuda(
        text, kernel=kernel, sets=values, folder=folder, include=include, arch=machine.name,
        defines=defines or {}, changed=changed,
    )  # fmt: skip
    if not parsed.kernels:
        if kernel is not None and parsed.names:
            raise UnknownNameError("kernel", kernel, parsed.names)
        raise ParseError("the source has no __global__ function with a body" + _first_removed(parsed))
    question = Question(text, block, grid, sets, kernel, arch, folder, include, defines, changed)
    reading = _Reading(parsed, given or Launch((1, 1, 1), blocks), machine, values, given is not None)
    if compiled:
        from layoutalg.source.rows import machine_code

        folders = [spot for spot in (folder, *include) if spot]
        reading.code = machine_code(text, parsed, values | dict(defines or {}), folders, machine.name)
        reading.ends = statement_ends(text)
    return replace(reading.result(), asked=question, paths=parsed.paths)


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


def _extents(what: str, sides: tuple[int, ...] | int) -> tuple[int, int, int]:
    sizes = (sides,) if isinstance(sides, int) else tuple(sides)
    if not 1 <= len(sizes) <= 3 or any(type(n) is not int or not 1 <= n <= _MOST_EXTENT for n in sizes):
        raise ShapeError(f"{what} is {sides!r}; one to three positive integers are needed, along x, y and z")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _first_removed(parsed: Parsed) -> str:
    if not parsed.removed:
        return ""
    first = parsed.removed[0]
    return f": {parsed.removal(first)}"


def _number_of(text: str) -> int | float | None:
    """The number that a value is, or None for the name of a type."""
    plain = text.rstrip("uUlLf") if text[:2] not in ("0x", "0X") else text.rstrip("uUlL")
    if plain[:2].lower() == "0x":
        return int(plain, 16)
    try:
        return int(plain) if plain.lstrip("-").isdecimal() else float(plain)
    except ValueError:
        return {"true": 1, "false": 0, "nullptr": 0}.get(text)


class _Reading:
    """The reading of all requested kernels, and the census."""

    def __init__(
        self, parsed: Parsed, launch: Launch, machine: Arch, given: dict[str, str], fixed: bool
    ) -> None:
        self.parsed, self.launch, self.machine, self.given = parsed, launch, machine, given
        self.fixed, self.sides, self.kernel = fixed, launch.grid, ""
        self.code: Mapping[str, Code] = {}
        self.ends: Sequence[int] = ()
        self.blocks: list[tuple[int, int, int] | None] = []
        self.used: set[str] = set(parsed.defined)
        self.accesses: list[SourceAccess] = []
        self.touches: list[Touch] = []
        self.unread: list[Touch] = []
        self.shared: dict[tuple[str, int, int, str], Declaration] = {}
        self.together: list[tuple[Declaration, ...]] = []
        self.seen: set[tuple[int, int]] = set()
        self.wanted: dict[str, None] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.opened: dict[str, tuple[int, int]] = {}
        self.taken: dict[str, int | str] = {}
        self.notes: list[str] = []
        self.unfollowed: dict[Unfollowed, None] = {}
        self.costs: dict[Any, Cost] = {}

    def result(self) -> KernelReading:
        for kernel in self.parsed.kernels:
            own = tuple(d for d in kernel.declarations.values() if d.space == "shared")
            self.together.append(own)
            self.used |= set(kernel.template) & set(self.given)
            kernel, self.kernel = self._launched(kernel), kernel.name
            self.blocks.append(None if kernel.root is None and not self.fixed else self.launch.block)
            if kernel.root is None:
                heads = {*kernel.parameters, "blockIdx", "gridDim"}  # values for what is not read are fine
                self.used |= {name for name in self.given if re.split(r"[.[]", name)[0] in heads}
                self._unread(kernel)
            else:
                self._read(kernel, kernel.root)
        for name, line in self.parsed.hidden:
            self.unfollowed[Unfollowed(line, f"the kernel {name} is not read: {self._hidden(line)}")] = None
        unused = [n for n in self.given if n not in self.used]
        if unused:
            known = sorted(
                {p for k in self.parsed.kernels for p in (*k.parameters, *k.template)}
                | set(self.parsed.unknown)
            )
            raise UnknownNameError("name to set", unused[0], known)
        self.accesses = [  # of another function of that name, which is read
            a for a in self.accesses if a.why != LEFT_OUT or (a.line, a.column) not in self.seen
        ]
        self.accesses.sort(key=lambda a: (a.line, a.column))
        unread = any(not a.read and a.reached for a in self.accesses)
        for name in (*self.parsed.unknown, *(self.parsed.open if unread else ())):
            self.wanted.setdefault(name)
        self.notes += self._left_out()
        return KernelReading(
            tuple(k.name for k in self.parsed.kernels), tuple(self.blocks), self.launch.grid,
            self.machine.name, tuple(map(self._placed, self.accesses)), tuple(self.wanted), tuple(self.notes),
            tuple(self.touches), tuple(self.unread), tuple(self.shared.values()), tuple(self.together),
            frozenset(self.seen), tuple(self._part(each) for each in sorted(self.unfollowed)),
            tuple(
                TakenNumber(name, "true" if name.startswith(ASKED) else value)
                for name, value in sorted(self.taken.items())
            ),
        )  # fmt: skip

    def _launched(self, kernel: Kernel) -> Kernel:
        """A kernel whose block is known from now on; one that is not read where no launch says it."""
        if self.fixed or kernel.root is None:
            return kernel
        known = [launch for launch in kernel.launches if launch.block is not None]
        if not known:
            where = [f"{line_of(*self.parsed.place(each.line))} ({each.text})" for each in kernel.launches]
            missing = f"the block is not constant in its launch in {', '.join(where)}" if where else (
                "no launch of it is in the source")  # fmt: skip
            return replace(kernel, root=None, why=f"{missing}: --block is wanted")
        chosen = known[0]
        block = chosen.block or (1, 1, 1)
        if math.prod(block) > self.machine.max_threads_per_block:
            where_ = line_of(*self.parsed.place(chosen.line))
            return replace(kernel, root=None, why=f"its launch in {where_} has {math.prod(block)} threads")
        self.launch, self.sides = Launch(block, self.launch.grid), self.launch.grid or chosen.grid
        others = {each.block: each for each in known if each.block != block}
        for other, each in others.items():
            threads = "x".join(map(str, other or ()))
            where_ = line_of(*self.parsed.place(each.line))
            self.notes.append(f"{kernel.name} is launched with other blocks too: --block {threads}, {where_}")
        return kernel

    def _placed(self, access: SourceAccess) -> SourceAccess:
        """An access with its line in its file."""
        file, line = self.parsed.place(access.line)
        return replace(access, line=line, file=file)

    def _part(self, part: Unfollowed) -> Unfollowed:
        file, line = self.parsed.place(part.line)
        return Unfollowed(line, part.why, file)

    def _left_out(self) -> list[str]:
        """The parts outside of all functions that have an error and that nothing else uses, in a sentence."""
        parts = [gone for gone in self.parsed.removed if not gone.function and not gone.doubt]
        places = [line_of(*self.parsed.place(gone.first)) for gone in parts[:MOST_TOLD]]
        more = f", and {len(parts) - MOST_TOLD} more" if len(parts) > MOST_TOLD else ""
        return [f"left out for its error is what no kernel uses: {'; '.join(places)}{more}"] if parts else []

    def _hidden(self, line: int) -> str:
        """Why a kernel of the text is not one of the front end."""
        gone = next((r for r in self.parsed.removed if r.first <= line <= r.last), None)
        return self.parsed.removal(gone) if gone else "it is left out by the preprocessor"

    def _unread(self, kernel: Kernel) -> None:
        """Report a kernel that is not read: all sites of its text that may touch memory."""
        self.unfollowed[Unfollowed(kernel.line, f"{kernel.name} is not read: {kernel.why}")] = None
        self._census(kernel, (), set())
        for name in kernel.template:
            if name not in self.given:
                self.wanted.setdefault(name)

    def _tell(self, row: Row, why: str, function: str, *touches: Touch) -> None:
        if bounds := bounds_of(touches, self.launch, self.machine):
            unit = "sectors" if "global" in row[2] else "wavefronts"
            data = " and ".join(sorted({touch.data for touch in touches if touch.data}))
            why = f"the data of {data} decides its address: {bounds[0]} to {bounds[1]} {unit} per instruction"
        none = None, None, None, None, None
        self.accesses.append(
            SourceAccess(*row, *none, False, why, kernel=self.kernel, function=function, bounds=bounds)
        )

    def _read(self, kernel: Kernel, root: Function) -> None:
        reader, failed = self._executed(kernel, root)
        if failed:
            why = f"{kernel.name} is not read to its end: {failed}"
            self.notes.append(why)
            self.unfollowed[Unfollowed(kernel.line, why)] = None
            for touch in reader.touches:  # a loop that was left may come to each of them again
                touch.why = touch.why or why
            kernel = replace(kernel, root=None, why=why)
            reader.reached, reader.seen, reader.trying = set(), set(), 0  # what was tried is not told
        for declared in reader.shared.values():
            first = self.shared.setdefault(declared.key, declared)
            first.references = tuple(sorted({*first.references, *declared.references}))
        self.seen |= reader.seen
        self._keep(reader, kernel, root)
        self._unlisted(kernel)
        self._census(kernel, reader.reached, reader.seen)

    def _executed(self, kernel: Kernel, root: Function, *, taken: bool = False) -> tuple[Reader, str]:
        """The state of a kernel that was read, and why it was not read to its end, or "".

        Numbers that are not given are open, or, `taken`, each has one value.
        """
        self.ranges = {}
        reader = Reader(kernel, {}, self._geometry(taken), self.launch.threads)
        reader.place_of = lambda line: line_of(*self.parsed.place(line))
        reader.removed = [(each.first, each.last, each.text) for each in self.parsed.removed]
        bound: list[tuple[int, Value | Any]] = []
        for key in root.parameters:
            declared = kernel.declarations[key]
            bound.append((key, self._parameter(declared.name, declared.type, key, taken)))
        tops = {d.name for d in kernel.declarations.values() if d.at_top}
        if "gridDim" in tops and self.sides is None:
            self.ranges |= dict.fromkeys(_BLOCKS, (1, MOST_BLOCKS))
        reader.sets = {n: v for n in tops & set(self.given) if (v := _number_of(self.given[n])) is not None}
        self.used |= set(reader.sets)
        try:
            reader.entered(root, bound, None)
        except LayoutAlgError as error:
            return reader, error.message
        except RecursionError:
            return reader, "its sums are nested too deeply"
        finally:
            self.opened |= reader.opened
            for touch in reader.touches:
                touch.block = self.launch.block
                if reader.mixed and touch.through:  # what it is loaded from may hold other addresses
                    touch.why = touch.why or LOADED.why
        return reader, ""

    def _geometry(self, taken: bool) -> dict[str, Value]:
        def triple(sums: Any) -> Record:
            return Record({axis: Number(total, 32, False) for axis, total in zip("xyz", sums, strict=True)})

        blocks = [variable(n, 0, e - 1) for n, e in self.launch.blocks.items()]
        grid = triple([constant(TAKEN) if taken else size(name, 1, MOST_BLOCKS) for name in _BLOCKS])
        if self.sides is not None:
            grid = triple([constant(n) for n in self.sides])
        known: dict[str, Value] = {
            "threadIdx": triple(lane_variables(self.launch.block)),
            "blockIdx": triple(blocks),
            "blockDim": triple([constant(n) for n in self.launch.block]),
            "gridDim": grid,
        }
        for name in self.parsed.open:
            known[name] = not_given(name)
        for name, text in self.given.items():
            head, _, axis = name.partition(".")
            value = _number_of(text)
            record = known.get(head)
            if head in ("blockIdx", "gridDim") and axis in ("x", "y", "z") and isinstance(value, int) \
                    and isinstance(record, Record):  # fmt: skip
                known[head] = Record({**record.members, axis: Number(constant(value), 32, False)})
                self.used.add(name)
        return known

    def _parameter(self, name: str, kind: Type, key: int, taken: bool) -> Value:
        """The value of a parameter of the kernel."""
        if kind.kind == "pointer":
            if self.given.get(name) in ("0", "nullptr"):
                self.used.add(name)
                return number(0)
            if name in self.given:
                self.used.add(name)
            return Address(Array(name, "global", key * 1000 + len(name), kind), ZERO)
        if is_cute(kind):
            integer = Type("int", "int", 4, signed=True)
            return parameter_of(kind, lambda at: self._parameter(f"{name}.{at}", integer, key, taken))
        if kind.kind == "record" and kind.fields:
            if all(t.kind == "float" for _, _, t in kind.fields):
                return blank(kind)
            return Record({n: self._parameter(f"{name}.{n}", t, key, taken) for n, _, t in kind.fields})
        if array := elements(kind, lambda i, part: self._parameter(f"{name}[{i}]", part, key, taken)):
            return array
        if kind.kind == "array":
            return Address(Array(name, "constant", key * 1000 + len(name), kind), ZERO)
        if name in self.given:
            self.used.add(name)
            value = _number_of(self.given[name])
            if kind.kind == "int" and isinstance(value, int):
                return number(value, kind)
            if kind.kind == "float" and value is not None:
                return Real(float(value))
            raise ArgumentTypeError(f"{name}={self.given[name]}: the parameter {name} is a {kind.name}")
        if kind.kind == "int":
            return self._size(name, kind, taken)
        if kind.kind == "float":
            return not_given(name)
        return Unknown(f"the parameter {name} is a {kind.name}")

    def _size(self, name: str, kind: Type, taken: bool) -> Number:
        """A number that is not given, which no arithmetic on sizes brings to the end of its type."""
        bits = 8 * kind.bytes
        most = 1 if kind.bool else min((1 << (bits - kind.signed)) - 1, 1 << (30 if bits <= 32 else 40))
        self.ranges[name] = (-most if kind.signed else 0, most)
        if taken:
            return number(min(TAKEN, most), kind)
        return Number(size(name, *self.ranges[name]), bits, kind.signed)

    # --- counting ---------------------------------------------------------------------------------------

    def _keep(self, reader: Reader, kernel: Kernel, root: Function) -> None:
        """Keep an access for each place, op and array of the source, with the sum of its touches."""
        counted: dict[Row, Sized] = {}
        unread: dict[Row, str] = {}
        touched, code = reader.touches, self.code.get(kernel.name)
        instructions: dict[Row, Counter[str]] = {}
        if code is not None:
            joiner = Joiner(touched, reader.fenced, self.launch, self.machine)
            pairs = list(joiner.compiled(code, self._statement))
            touched = [touch for touch, _ in pairs]
            instructions = {(t.line, t.column, t.op, t.array): ops for t, ops in pairs}
        rows = by_row(touched)
        numbers = Open(self.ranges | reader.opened, reader.bounds)
        for row, touches in rows.items():
            unread[row] = next((t.why for t in touches if t.why), "")
            if not unread[row]:
                try:
                    counted[row] = numbers.sized(touches, self.machine, self._cost)
                except LayoutAlgError as error:
                    unread[row] = error.message
        wanted = [row for row, why in unread.items() if why]
        again = self._with_values(kernel, root, set(map(_access, wanted))) if wanted and self.ranges else {}
        for row in wanted:
            if not any(_access(row) == _access(other) for other in again):
                for name in (name for t in rows[row] for name in t.wanted):
                    self.wanted.setdefault(name)
                self._tell(row, unread[row], rows[row][0].function, *rows[row])
                self.unread += rows[row]
        counted |= again
        most = self.ranges | self.opened
        placed = {(*_access(row), row[3]) for row in wanted if row[3]}
        elsewhere = {row for row in again if (*_access(row), row[3]) not in placed}
        own = [touch for row, sized in counted.items() if row not in again for touch in sized.touches]
        joiner = Joiner(own, reader.fenced, self.launch, self.machine)
        joined = dict(joiner.rows()) if code is None else {}
        numbers_of = {name: _number_of(value) for name, value in kernel.taken}
        open_ = {name: value if (n := numbers_of[name]) is None else int(n) for name, value in kernel.taken}
        for row, (cost, touches, taken, sizes, depends) in counted.items():
            sizes, depends = (tuple(sorted({*names, *open_})) for names in (sizes, depends))
            shared = ".global" not in row[2] and ":global" not in row[2]
            (self.unread if shared and depends else self.touches).extend(touches)
            moved = cost.total * self.machine.sector_bytes
            efficiency = None if shared else (cost.useful_bytes / moved if moved else 1.0)
            self.taken = {n: min(TAKEN, most[n][1]) for n in taken} | open_ | self.taken
            note, compiled, ops = self._note(taken | open_, joined.get(row)), None, instructions.get(row)
            if ops is not None:
                compiled = ops[row[2].partition(":")[0]]
                if not compiled and cost.instructions:
                    became = " and ".join(f"{count} {op}" for op, count in sorted(ops.items()))
                    note = f"counted as written; its statement became {became or 'no instruction like it'}"
            self.accesses.append(
                SourceAccess(
                    *row, cost.instructions, cost.total, cost.ideal, cost.ways if shared else None,
                    efficiency, True, None, note, sizes=sizes, depends=depends, compiled=compiled,
                    kernel=self.kernel, function=touches[0].function, elsewhere=row in elsewhere,
                    lanes=cost.lanes, part=reader.parts_of(touches),
                )
            )  # fmt: skip
        others = (REGISTERS, reader.registers), (CONSTANT, reader.constants), (FETCH, reader.fetches)
        for op, places in others:
            for (line, column), name in places.items():
                counts = (0, 0, 0, None, None, True, None)
                self.accesses.append(SourceAccess(line, column, op, name, *counts, kernel=self.kernel))

    def _with_values(
        self, kernel: Kernel, root: Function, wanted: set[tuple[int, int, str]]
    ) -> dict[Row, Sized]:
        """Some accesses by a second reading, in which each number that is not given has a value.

        What was not known of an access may have been its array, and how wide it is.
        """
        reader, failed = self._executed(kernel, root, taken=True)
        values = {name: min(TAKEN, most) for name, (_, most) in self.ranges.items()}
        numbers = Open(reader.opened, reader.bounds)
        rows = by_row(() if failed else reader.touches)
        found: dict[Row, Sized] = {}
        lost = set[tuple[int, int, str]]()
        for row, touches in rows.items():
            if _access(row) in wanted:
                try:
                    lost |= {_access(row)} if any(touch.why for touch in touches) else set()
                    own = numbers.sized(touches, self.machine, self._cost)
                except (LayoutAlgError, RecursionError):
                    own = Sized(Cost(), touches, {}, (), ())
                names = tuple({**values, **dict.fromkeys(own.sizes)})
                found[row] = own._replace(taken=values | own.taken, sizes=names, depends=names)
                lost |= set() if own.cost.instructions else {_access(row)}
        return {row: sized for row, sized in found.items() if _access(row) not in lost}

    def _statement(self, access: Any) -> tuple[str, int]:
        """The statement of an access."""
        file, line = self.parsed.place(access.line)
        return file, line if file else statement_end(self.ends, line)

    def _unlisted(self, kernel: Kernel) -> None:
        """Report instructions of the machine code of statements in which no access is listed."""
        listed = {*map(self._statement, self.accesses), *map(self._statement, self.parsed.sites)}
        for (file, line), ops in self.code.get(kernel.name, {}).items():
            if (file, line) not in listed:
                why = f"the machine code has {' and '.join(sorted(ops))} here, where no access is listed"
                self.unfollowed[Unfollowed(self.parsed.line(file, line), why)] = None

    def _note(self, taken: Mapping[str, int | str], joined: Joined | None) -> str | None:
        """A remark on the counts of an access."""
        others = [f"{name} = {value}" for name, value in taken.items() if value != self.taken[name]]
        parts = [f"counted with {' and '.join(others)}"] if others else []
        return "; ".join([*parts, *([joined.words] if joined is not None else [])]) or None

    def _cost(self, touches: Sequence[Touch], most: int) -> Cost:
        total = Cost()
        for original in touches:  # whole lines further, an access costs the same
            at = add(original.offset, constant(original.offset.constant // _WHOLE * -_WHOLE))
            touch = replace(original, offset=at)
            sums = touch.offset.key, *(c.key for c in touch.conditions)
            key = touch.op, touch.block, touch.turns, sums
            if key not in self.costs:
                self.costs[key] = cost_of(touch, self.launch, self.machine, most=most)
            total = sum_of(total, self.costs[key])
        return total

    # --- the census -------------------------------------------------------------------------------------

    def _census(
        self,
        kernel: Kernel,
        reached: Collection[tuple[str, tuple[int, int]]],
        seen: Collection[tuple[int, int]],
    ) -> None:
        """Report every site that the front end lacks, or that the reading did not reach."""
        listed = {(a.line, a.column) for a in self.accesses}
        for line, column, op, why, function in untold(self.parsed, kernel, reached, seen, listed):
            self._tell((line, column, op, ""), why, function)
        self._unfollowed(kernel, {kernel.name.rpartition("::")[2], *(name for name, _ in reached)})

    def _unfollowed(self, kernel: Kernel, names: Collection[str]) -> None:
        """Report what may do more than is listed, and statements taken out without a reported access."""
        refused = {(a.line, a.column) for a in self.accesses if not a.read}
        for function in kernel.functions.values():
            for node in function.nodes() if function.name in names else ():
                if what := not_followed(node):
                    self.unfollowed[Unfollowed(node.line, f"{what} is not followed")] = None
                elif (name := foreign(kernel, node)) and (node.line, node.column) not in refused:
                    self.unfollowed[Unfollowed(node.line, f"what {name} does is not in the file")] = None
        if further := len(kernel.others[MOST_TOLD:]):
            why = f"{further} further instances of {kernel.name} are not read"
            self.unfollowed[Unfollowed(kernel.line, why)] = None
        for other, options in kernel.others[:MOST_TOLD]:
            why = f"the instance {kernel.name}<{other}> is not read: {options}"
            self.unfollowed[Unfollowed(kernel.line, why)] = None
        for assumed in self.parsed.assumed:
            if assumed.function in names:
                self.unfollowed[Unfollowed(assumed.line, assumed.why)] = None
        for kind in objects(kernel):
            if kind.ends:
                why = f"when {destructor(kind.name)} is executed is not followed"
                self.unfollowed[Unfollowed(kernel.line, why)] = None
        unread = [a.line for a in self.accesses if not a.read]
        for gone in self.parsed.removed:
            if gone.doubt or (
                gone.function in names and not any(gone.first <= at <= gone.last for at in unread)
            ):
                why = f"the statement has an error: {self.parsed.removal(gone)}"
                self.unfollowed[Unfollowed(gone.first, why)] = None


def _access(row: Row) -> tuple[int, int, str]:
    """The place of an access, and whether it loads or stores."""
    return row[0], row[1], row[2].partition(".")[0]
