"""The state of a kernel while it is read: variables, conditions, turns of loops, and what was touched.

The idea.  A statement is read once for all threads: a variable holds a sum over thread numbers, a condition
is a number 0 or 1 per thread, and an access is kept with the conditions and the loops that it stands under.
Lanes that leave (return, break, continue) are turned off in the frame that they leave, so that what follows
stands under one condition more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from layoutalg.errors import ParseError
from layoutalg.limits import Most
from layoutalg.source.front import Declaration, Function, Kernel, Node, Type
from layoutalg.source.terms import (
    ONE,
    ZERO,
    Sum,
    compare,
    constant,
    floor_div,
    minus,
    opened,
    scale,
    size,
    table_of,
)
from layoutalg.source.values import (
    LOADED,
    PUNNED,
    REAL,
    UNSET,
    Address,
    Array,
    Cells,
    Condition,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    blank,
    chosen,
    conjunction,
    disjunction,
    elements,
    inverse,
    leaf,
    lost,
    only_real,
    read,
    same_kind,
    unknown,
    warp_uniform,
    written,
)

ASKED = "the condition of "
"""Name of a condition that is not known, in front of its line: a number 0 or 1, another one in each lane."""


class TooLong(Exception):
    """A loop that is read turn by turn takes more steps than it may."""


@dataclass(slots=True, eq=False)
class Touch:
    """An access as it was read: an instruction of every lane for which all `conditions` hold, in each turn.

    `offset` is in bytes from the start of `array`; of a shared one, `declared` is its declaration and `inner`
    are (index, extent) of the subscripts that name the element, `base` is the offset of the pointer that they
    are of.  `why` says why it is not read, "" where it
    is; `wanted` are the names that --set would settle.  `epoch` counts the fences before it; `align` is a
    number of bytes at whose multiples the array is known to start, 0 where a compiler does not join accesses.
    `function` is what it stands in, `block` what it is executed by; `through`: its address was loaded;
    `part` is the part of the array that the text names; `data` is where values are loaded that decide its
    address.
    """

    line: int
    column: int
    op: str
    array: str
    offset: Sum
    width: int
    conditions: tuple[Sum, ...]
    turns: tuple[tuple[str, int], ...]
    why: str = ""
    wanted: tuple[str, ...] = ()
    carried: bool = False
    declared: Declaration | None = None
    inner: tuple[tuple[Sum, int], ...] = ()
    base: Sum = ZERO
    epoch: int = 0
    align: int = 0
    function: str = ""
    block: tuple[int, int, int] = (1, 1, 1)
    through: bool = False
    part: str = ""
    data: str = ""

    @property
    def never(self) -> bool:
        """Whether no lane comes to it: it stands in a branch that is not taken."""
        return any(condition.known and not condition.constant for condition in self.conditions)


class Bound(NamedTuple):
    """The turns of a loop that sizes decide which are not given, and sums that no type may wrap then."""

    turns: Sum
    exact: tuple[Sum, ...]


@dataclass(slots=True, eq=False)
class Frame:
    """A function or a loop that lanes leave: `off` holds for those that have.

    `leaving` are (condition, variables) of the lanes that go on with the next turn.
    """

    kind: str
    off: Condition = ZERO
    turn_off: Condition = ZERO
    leaving: list[tuple[Condition, dict[int, Value]]] = field(default_factory=list)
    breaks: list[tuple[Condition, dict[int, Value]]] = field(default_factory=list)
    result: Value = UNSET
    place: Place | None = None
    this: Place | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Place of a value: in memory or an array in registers, in a variable, or in a member of either.

    `narrow` are the bits of a bit-field; `choice` is (condition, where it holds, elsewhere).
    """

    type: Type | None
    address: Address | None = None
    variable: int = -1
    base: Place | None = None
    member: str = ""
    why: Unknown | None = None
    narrow: int | None = None
    choice: tuple[Condition, Place, Place] | None = None


_UNDONE = (
    "variables", "references", "registers", "functions", "turns", "touches", "calls", "counters",
)  # fmt: skip
"""Lists and dictionaries that `State.kept` brings back; of the rest of a state, `caller` alone is undone."""


class State:
    """Variables, conditions and loops; `touches` is what was found, `seen` the places that were read.

    What reads expressions, calls, statements and loops is made by the classes that are built on it.
    """

    value: Callable[[Node | None], Value]
    effect: Callable[[Node | None], None]
    condition: Callable[[Node | None], Condition]
    place: Callable[[Node], Place]
    load: Callable[[Node, Place], Value]
    stepped: Callable[[Node, Place], Value]
    assigned: Callable[[Node], Place]
    call: Callable[[Node], Value]
    call_place: Callable[[Node], Place]
    constructed: Callable[[Node], Value | None]
    inline_asm: Callable[[Node], None]
    run: Callable[[Node], bool]
    loop: Callable[[Node], bool]
    poison: Callable[[Node, str], None]
    prepare: Callable[[Function], None]

    def __init__(self, kernel: Kernel, sets: Mapping[str, int | float], geometry: Mapping[str, Value],
                 threads: dict[str, Any]) -> None:  # fmt: skip
        self.kernel = kernel
        self.sets = sets
        self.geometry = geometry
        self.threads = threads
        x, y, z = (int(threads[axis].max()) + 1 for axis in "xyz")
        self.block = x, y, z
        self.variables: dict[int, Value] = {}
        self.references: dict[int, Place] = {}
        self.stack: list[Frame | Condition] = []
        self.turns: list[tuple[str, int]] = []
        self.touches: list[Touch] = []
        self.seen: set[tuple[int, int]] = set()
        self.registers: dict[tuple[int, int], str] = {}
        self.constants: dict[tuple[int, int], str] = {}
        self.fetches: dict[tuple[int, int], str] = {}
        self.functions: list[Function] = []
        self.calls: list[Node] = []
        self.counters: list[int] = []
        self.events: dict[tuple[object, ...], tuple[str, tuple[Node, ...]]] = {}
        self.mixed = False
        self.opened: dict[str, tuple[int, int]] = {}
        self.place_of: Callable[[int], str] = "line {}".format
        self.caller: Node | None = None
        self.reached: set[tuple[str, tuple[int, int]]] = set()
        self.shared: dict[int, Declaration] = {}
        self.trying = 0
        self.unrolling = 0
        self.unrolled: set[int] = set()
        self.epoch = 0
        self.fenced: set[str] = set()
        self.held_types: dict[int, Type | None] = {}
        self.starts: dict[int, dict[str, int]] = {}
        self.escaped: set[int] = set()
        self.leaked: set[int] = set()
        self.jumps: dict[int, list[tuple[int, int]]] = {}
        self.prepared: set[int] = set()
        self.removed: list[tuple[int, int, str]] = []
        self.bounds: dict[str, Bound] = {}
        self.made = 0
        self.steps = 0
        self.most_steps = self.until = Most.NODES.number
        self.loops = 0

    def step(self) -> None:
        """Count a node that is read; raises TooLong past `until`, ResourceError past Most.NODES."""
        self.steps += 1
        if self.steps > self.most_steps:
            Most.NODES.guard(self.steps, "statements and operators of a kernel that are read")
        if self.steps > self.until:
            raise TooLong

    def fence(self) -> None:
        """Note that something here may order accesses to memory."""
        self.epoch += 1
        self.fenced.update(name for name, _ in self.turns)

    # --- conditions -------------------------------------------------------------------------------------

    def conditions(self, above: int = 0) -> Iterator[Condition]:
        """The conditions that a lane must meet to be here, from entry `above` of the stack on."""
        for entry in self.stack[above:]:
            if isinstance(entry, Frame):
                for off in (entry.off, entry.turn_off):
                    if isinstance(off, Unknown) or not (off.known and off.constant == 0):
                        yield inverse(off)
            else:
                yield entry

    def here(self, above: int = 0) -> Condition:
        """All of `conditions` as one."""
        out: Condition = ONE
        for condition in self.conditions(above):
            out = conjunction(out, condition)
        return out

    @contextmanager
    def under(self, condition: Condition) -> Iterator[None]:
        """Read the body of the `with` statement under a condition."""
        depth = len(self.stack)
        self.stack.append(condition)
        try:
            yield
        finally:
            del self.stack[depth:]

    @contextmanager
    def frame(self, kind: str) -> Iterator[Frame]:
        """A function or a loop, for as long as it is read."""
        depth = len(self.stack)
        made = Frame(kind)
        self.stack.append(made)
        try:
            yield made
        finally:
            del self.stack[depth:]

    def leave(self, kind: str) -> None:
        """Turn off the lanes that are here in the innermost frame: of a function, a loop ("turn": for this
        turn), or, "break", of a loop or a switch."""
        kinds = {"turn": ("loop",), "break": ("loop", "switch")}.get(kind, (kind,))
        frames = [(i, e) for i, e in enumerate(self.stack) if isinstance(e, Frame) and e.kind in kinds]
        if not frames:
            raise ParseError(f"a {kind} stands where nothing is left")
        at, frame = frames[-1]
        condition = self.here(at)
        if isinstance(condition, Sum) and condition.known and not condition.constant:
            return
        if kind == "turn":
            frame.leaving.append((condition, dict(self.variables)))
            frame.turn_off = disjunction(frame.turn_off, condition)
        else:
            frame.breaks.append((condition, dict(self.variables)))
            frame.off = disjunction(frame.off, condition)

    def kept(self) -> Callable[[], None]:
        """A function that undoes what is read from here on."""
        around = [f for f in self.stack if isinstance(f, Frame)]
        frames = [(f, replace(f, leaving=[*f.leaving], breaks=[*f.breaks])) for f in around]
        before, caller = {name: getattr(self, name).copy() for name in _UNDONE}, self.caller

        def back() -> None:
            for f, was in frames:
                f.off, f.turn_off, f.leaving, f.breaks = was.off, was.turn_off, [*was.leaving], [*was.breaks]
                f.result, f.place = was.result, was.place
            for name, value in before.items():
                setattr(self, name, value.copy())
            self.caller = caller

        return back

    def departed(self) -> list[tuple[Condition, Condition, int]]:
        """The lanes that have left each of the frames around."""
        return [(f.off, f.turn_off, len(f.breaks)) for f in self.stack if isinstance(f, Frame)]

    def after_breaks(self, frame: Frame, keys: set[int] | None = None) -> None:
        """Lanes that broke off go on with the values that they had."""
        for condition, saved in frame.breaks:
            merged = self.merge(condition, saved, self.variables)
            self.variables = merged if keys is None else {k: v for k, v in merged.items() if k in keys}

    def asked(self, node: Node, value: Value) -> Unknown:
        """A condition that a node asks in each lane, of a value that is not known."""
        return replace(unknown(value), asked=f"{ASKED}{self.place_of(node.line)}", least=ZERO, most=ONE)

    # --- what is touched --------------------------------------------------------------------------------

    def touch(
        self,
        node: Node,
        op: str,
        target: Address | Unknown,
        width: int,
        name: str = "",
        of: Array | None = None,
    ) -> None:
        """Keep an access of `width` bytes per lane; `op` has its name without the number of bits.

        `of` is the array where the target is not known.
        """
        self.made += 1
        if self.trying:
            return
        of = target.array or of
        array = name or (target.array.name if isinstance(target, Address) else "")
        unread: Unknown | None = target if isinstance(target, Unknown) else None
        conditions: list[Sum] = []
        again = False
        for condition in self.conditions():
            if isinstance(condition, Unknown) and condition.asked and not condition.name:
                self.opened[condition.asked] = (0, 1)
                conditions += (condition.most, size(condition.asked, 0, 1))
                again = again or condition.carried
            elif isinstance(condition, Unknown):
                reason = f"whether it is executed is not known: {condition.why}"
                unread = unread or Unknown(reason, condition.name, condition.carried)
            else:
                conditions.append(condition)
        conditions = [each for each in conditions if not (each.known and each.constant)]
        if self.caller is not None and any(condition.known for condition in conditions):
            return  # a way that the library does not take is nothing to tell
        offset = target.offset if isinstance(target, Address) else ZERO
        at = self.caller or node
        made = Touch(at.line, at.column, op, array, offset, width, tuple(conditions), tuple(self.turns))
        made.carried = again
        if unread is not None:
            made.why, made.carried = unread.why, unread.carried or again
            made.wanted = (unread.name,) if unread.name else ()
            made.data = unread.data
        if of is not None and of.space == "shared":
            made.declared = self.declaration(of.key)
        made.inner, made.base = (target.inner, target.base) if isinstance(target, Address) else ((), ZERO)
        made.epoch, made.through = self.epoch, of is not None and of.loaded
        made.part = of.part if of is not None else ""
        made.function = self.functions[-1].name if self.functions else ""
        made.align = 0 if node.kind == "asm" or of is None else alignment(of)
        self.touches.append(made)

    # --- numbers that are not known, alike in all lanes of a warp ---------------------------------------

    def loaded(self, node: Node, place: Place) -> Value:
        """The value that a load takes from a place in memory: open where a warp's lanes load the same."""
        kind, address = place.type, place.address
        if kind is None or isinstance(blank(kind), Real):
            return REAL
        uniform = address is not None and place.why is None and warp_uniform(address.offset, self.threads)
        if address is None or not uniform or "volatile" in kind.name:
            return self.by_data(node)
        return self.alike(node, f"{address.array.name}[]", kind, (address.array.key,))

    def by_data(self, node: Node) -> Unknown:
        """A value of each lane that a node loads."""
        return replace(LOADED, data=self.place_of(node.line))

    def alike(self, node: Node, what: str, kind: Type, part: tuple[object, ...] = ()) -> Value:
        """A value of a type that all lanes of a warp have, of `part` of what a node gives.

        It is another one for each place in the text, call and turn, whatever is stored in between.
        """
        if kind.kind == "record" and kind.fields and not (kind.union or kind.narrow or kind.others):
            return Record({n: self.alike(node, f"{what}.{n}", t, (*part, n)) for n, _, t in kind.fields})
        if array := elements(kind, lambda i, t: self.alike(node, f"{what}[{i}]", t, (*part, i))):
            return array
        if kind.kind == "float":
            return REAL
        turns = [self.variables.get(key) for key in self.counters]
        known = [turn.exact for turn in turns if isinstance(turn, Number)]
        if (
            kind.kind not in ("int", "pointer")
            or len(known) < len(turns)
            or (kind.kind == "pointer" and self.mixed)
        ):
            return self.by_data(node)
        called = (*self.calls, node)
        key = (*map(id, called), *part)
        if key not in self.events:  # the nodes are kept, so that no other has the number of one of them
            where = " called in ".join(self.place_of(each.line) for each in reversed(called))
            name = f"{what} of {where}"
            others = sum(each.partition(" #")[0] == name for each in self.opened)
            self.events[key] = (f"{name} #{others + 1}" if others else name), called
        name, bits = self.events[key][0], 8 * kind.bytes
        if kind.kind == "pointer":
            return self._pointer(name, kind, known)
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.signed else (0, (1 << bits) - 1)
        self.opened[name] = (0, 1) if kind.bool else (least, most)
        return Number(opened(name, *self.opened[name], known), bits, kind.signed)

    def _pointer(self, name: str, kind: Type, turns: list[Sum]) -> Address:
        """A pointer that was loaded: an aligned address in global memory of its own."""
        align = kind.to.align if kind.to is not None else 1
        self.opened[name] = (0, 1 << 44)
        key = -1 - list(self.opened).index(name)
        own = Array(f"*{name.partition('[]')[0]}", "global", key, kind, loaded=True)
        return Address(own, scale(opened(name, *self.opened[name], turns), max(align, 1)))

    def refuse(self, node: Node, op: str, array: str, why: str) -> None:
        """Keep an access that is not read."""
        self.touch(node, op, Unknown(why), 0, array)

    # --- variables --------------------------------------------------------------------------------------

    def declaration(self, number: int) -> Declaration:
        """A variable's declaration."""
        return self.kernel.declarations[number]

    def named(self, key: int, value: Value) -> Value:
        """The value that a variable is set to: an address in dynamic shared memory has its name from then on.

        `starts` are the bytes at which such parts begin, by array; -1 where that is not constant.
        """
        if not isinstance(value, Address) or value.array.part or key < 0 or value.array.space != "shared":
            return value
        kind, name, at = value.array.type, self.declaration(key).name, value.offset
        if kind is None or kind.kind != "array" or kind.extent > 0:
            return value
        starts = self.starts.setdefault(value.array.key, {})
        if starts.setdefault(name, at.constant if at.known else -1) != (at.constant if at.known else -1):
            starts[name] = -1
        return replace(value, array=replace(value.array, part=name))

    def parts_of(self, touches: Sequence[Touch]) -> str:
        """The parts of an array that an access is to, by name; "" where none is named."""
        names = dict.fromkeys(map(self._part_of, touches))
        return ", ".join(name or touches[0].array for name in names) if any(names) else ""

    def _part_of(self, touch: Touch) -> str:
        """The words for a part of an array: a member, or bytes and their name."""
        starts = self.starts.get(touch.declared.number, {}) if touch.declared is not None else {}
        name, _, members = touch.part.partition(".")
        if name not in starts:
            return touch.part
        behind = sorted({*starts.values(), -1})
        first = starts[name]
        end = next((at for at in behind if at > first), "") if first >= 0 else ""
        words = f"{touch.array}[{first}:{end}]" if first >= 0 else touch.array
        return f"{words} ({'.'.join(filter(None, (name, members)))})"

    def merge(self, condition: Condition, yes: dict[int, Value], no: dict[int, Value]) -> dict[int, Value]:
        """The variables where a condition holds in `yes`, elsewhere in `no`."""
        out = dict(no)
        for key, value in yes.items():
            out[key] = chosen(condition, value, no[key]) if key in no else value
        return out

    def load_register(self, address: Address, given: Type | None) -> Value:
        """The value at an address of a variable."""
        return part_of(self.variables.get(address.array.key, UNSET), address, given)

    def store_register(self, address: Address, given: Type | None, value: Value) -> None:
        """Set what is at an address of a variable."""
        key, kind = address.array.key, address.array.type
        held = self.variables.get(key, UNSET)
        if kind is None:
            self.variables[key] = PUNNED
            return
        if address.offset.known:
            self.variables[key] = written(held, kind, address.offset.constant, given, value)
            return
        changing = self.trying or {name for name, _ in self.turns} & address.offset.variables
        places = None if changing or not isinstance(held, Cells) else _elements(address, given)
        if places is None or isinstance(value, Unknown):
            known = isinstance(value, Unknown) and not value.carried
            self.variables[key] = lost(kind, Unknown("a variable is set by an index that is not constant",
                                                     carried=not known))  # fmt: skip
            return
        for at in places:
            here = compare("==", address.offset, constant(at))
            held = written(held, kind, at, given, chosen(here, value, read(held, kind, at, given)))
        self.variables[key] = held


MOST_CHOSEN = 64
"""The elements of an array in registers among which an index that is not constant chooses."""


def part_of(held: Value, address: Address, given: Type | None) -> Value:
    """The part of a variable's value that is at an address of it."""
    kind = address.array.type
    if isinstance(held, Unknown) or kind is None or given is None:
        return held if isinstance(held, Unknown) else PUNNED
    if address.offset.known:
        return read(held, kind, address.offset.constant, given)
    if isinstance(held, Real):
        return REAL if only_real(given) else PUNNED
    if isinstance(held, Record) and not kind.union and address.inner:  # an element of an array in it
        start = minus(address.offset, scale(address.inner[-1][0], given.bytes))
        for name, at, t in kind.fields:
            if start.known and 0 <= at <= start.constant < at + t.bytes and name in held.members:
                inside = Address(
                    replace(address.array, type=t), minus(address.offset, constant(at)), address.inner
                )
                return part_of(held.members[name], inside, given)
    if not isinstance(held, Cells):
        return Unknown("a part of a variable is taken by an index that is not constant", carried=True)
    own = leaf(kind, 0)
    if own is None or not same_kind(own[0], given):
        return PUNNED if given.kind != "record" else Unknown("an element is taken by an index")
    if not held.elements:
        return held.rest
    places = _elements(address, given)
    values = [read(held, kind, at, given) for at in places or ()]
    if places is None or any(isinstance(value, Unknown) for value in values):
        rests = [v for v in (*held.elements.values(), held.rest) if not isinstance(v, Unknown) or v.carried]
        if not rests:
            return next(iter(held.elements.values()))
        return Unknown("an element of an array in registers is taken by an index that is not constant",
                       carried=True)  # fmt: skip
    numbers = [value.exact for value in values if isinstance(value, Number)]
    if len(numbers) == len(values) and all(number.known for number in numbers):
        index = minus(floor_div(address.offset, given.bytes), constant(places[0] // given.bytes))
        return Number(table_of(index, [number.constant for number in numbers]), 8 * given.bytes, given.signed)
    value = values[-1]
    for at, other in zip(places[:-1], values[:-1], strict=True):
        value = chosen(compare("==", address.offset, constant(at)), other, value)
    return value


def _elements(address: Address, given: Type | None) -> range | None:
    """The bytes at which an element may start that an index chooses; None of too many."""
    kind = address.array.type
    if kind is None or given is None or kind.bytes <= 0 or given.kind not in ("int", "pointer", "float"):
        return None
    size = given.bytes
    own = leaf(kind, 0)
    if own is None or not same_kind(own[0], given) or kind.kind != "array":
        return None
    low, high = max(address.offset.low, 0), min(address.offset.high, kind.bytes - size)
    places = range(-(-low // size) * size, high + 1, size)
    return places if 0 < len(places) <= MOST_CHOSEN else None


MOST_ALIGNED = 16
"""The bytes to which a compiler may align a static array: the width of its widest instruction."""


def alignment(array: Array) -> int:
    """The bytes that an array starts at multiples of; 0 for a volatile one, which is not joined."""
    kind = array.type
    if kind is None or "volatile" in kind.name:
        return 0
    static = array.space == "shared" and kind.kind == "array" and kind.extent > 0
    while kind.to is not None:
        kind = kind.to
    return MOST_ALIGNED if static else kind.align
