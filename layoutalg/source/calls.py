"""Calls of a kernel: device functions are read where they are called, intrinsics by what they do."""

from __future__ import annotations

import re
from dataclasses import replace

from layoutalg.source.costs import exchanged
from layoutalg.source.expressions import Expressions
from layoutalg.source.front import (
    Function,
    Node,
    Type,
    takes_values,
)
from layoutalg.source.machine import Frame, Place
from layoutalg.source.places import MOST_MOVED, pointed
from layoutalg.source.terms import constant
from layoutalg.source.unread import SILENT, is_number
from layoutalg.source.values import (
    LOADED,
    REAL,
    UNSET,
    Address,
    Closure,
    Code,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    arrays_in,
    blank,
    converted,
    number,
    unknown,
    warp_uniform,
)

CALLS_INSIDE = 40
"""The deepest nesting of calls that is followed."""

_LOADS = frozenset({"__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv"})
_STORES = frozenset({"__stwb", "__stcg", "__stcs", "__stwt"})
_SAME = re.compile(r"__cvta_generic_to_(shared|global)\Z|__builtin_(assume_aligned|expect)")

_SPACES = {"__isShared": "shared", "__isGlobal": "global", "__isLocal": "local", "__isConstant": "constant"}

_EXCHANGE = re.compile(r"__shfl(?:_(up|down|xor))?_sync\Z")
_ALL = 0xFFFFFFFF
_WARP = constant(32).key
_SEGMENTS = {constant(1 << n).key for n in range(6)}
_VOTE = re.compile(r"__(ballot|any|all|reduce_\w+)_sync\Z|__syncthreads_(count|and|or)\Z")
"""Names of functions whose result all lanes have alike."""

_FETCH = re.compile(r"(tex|surf)(1D|2D|3D|Cubemap)")
"""Names of fetches of a texture or a surface, and of stores to a surface."""

_ATOMIC = re.compile(r"atomic(Add|Sub|Min|Max|And|Or|Xor|Exch|Inc|Dec|CAS)(_block|_system)?\Z")

_REASONS = {
    "load_matrix_sync": "which lanes wmma's loads ask for what is not documented",
    "store_matrix_sync": "which lanes wmma's stores write what is not documented",
    "cub_exchange": "how CUB's threads exchange values in shared memory depends on its version",
    "cp_async_bulk": "how a bulk copy is divided is the copy engine's",
}

_BY_VALUE = frozenset({*SILENT, *_REASONS, "memcpy", "memmove", "memset"})
"""Functions that are declared by their names alone and do not set their arguments, as intrinsics do not."""

_CHANGING = ("+=", "-=", "*=", "/=", "++", "--", "[]")
"""Ends of the names of operators that may change their object."""


class Calls(Expressions):
    """Calls of functions."""

    def call(self, node: Node) -> Value:
        """The value of a call, with all that it touches."""
        node = self._directed(node)
        function = self.kernel.functions.get(node.value["function"])
        name = node.value["name"]
        if function is not None and function.body is not None:
            frame = self._inlined(node, function)
            if isinstance(frame, Unknown):
                return frame
            return frame.result if frame.place is None else self.load(node, frame.place)
        if name == "operator=" and node.value["object"] is not None:
            value = self.value(node.children[0])
            self.store(node, self.place(node.value["object"]), value)
            return value
        return self._known(node, name)

    def _directed(self, node: Node) -> Node:
        """A call of a function by its address as a call of the function, where it is known."""
        if not node.value.get("through"):
            return node
        target = self.value(node.value["object"])
        number = target.function if isinstance(target, Code) else -1
        name = self.kernel.functions[number].name if number >= 0 else node.value["name"]
        return replace(node, value={"function": number, "name": name, "object": None})

    def call_place(self, node: Node) -> Place:
        """The place of a reference that a call returns; others are not known."""
        node = self._directed(node)
        function = self.kernel.functions.get(node.value["function"])
        if function is not None and function.body is not None and self.refers(node):
            frame = self._inlined(node, function)
            if isinstance(frame, Unknown):
                return Place(node.type, why=frame)
            return frame.place or Place(node.type, why=Unknown(f"what {function.name} returns"))
        if node.value["name"] == "operator=" and node.value["object"] is not None:
            self.call(node)
            return self.place(node.value["object"])
        value = self.call(node)
        if isinstance(value, Address) and node.type is not None and node.type.kind != "pointer":
            return Place(node.type, value)
        return Place(node.type, why=unknown(value)) if self.refers(node) else self.temporary(node, value)

    # --- functions of the file --------------------------------------------------------------------------

    def _inlined(self, node: Node, function: Function) -> Frame | Unknown:
        """The frame of a device function that was read where it is called."""
        held = node.value["object"]
        this = self.this() if function.method and held is None else None
        if held is not None:
            if held.type is not None and held.type.kind == "pointer":
                target = self.value(held)
                this = Place(held.type.to, target) if isinstance(target, Address) else None
            else:
                this = self.place(held)
                self.escape(this)
        return self._entered_from(node, function, this)

    def _entered_from(self, node: Node, function: Function, this: Place | None) -> Frame | Unknown:
        nodes = node.below
        if function in self.functions or len(self.functions) >= CALLS_INSIDE:
            itself = function in self.functions
            why = f"{function.name} " + (
                "calls itself" if itself else f"is call {CALLS_INSIDE + 1} inside another"
            )
            self.refuse(node, f"call {function.name}", "", why)
            self.poison(node, why)
            return Unknown(why)
        bound: list[tuple[int, Value | Place]] = []
        sets: list[set[int]] = []  # what each argument sets: in which order they are read, C++ does not say
        for key, child in zip(function.parameters, nodes, strict=False):
            kind = self.declaration(key).type
            before = dict(self.variables)
            if kind.kind == "reference":
                place = self.place(child)
                self.escape(place)
                bound.append((key, place))
            else:
                bound.append((key, self.value(child)))
            sets.append({k for k, v in before.items() if self.variables.get(k) is not v})
        for i, child in enumerate(nodes[: len(bound)]):
            others = set().union(*sets[:i], *sets[i + 1 :])
            if others and others & self.roots(child):
                unordered = Unknown("arguments set what others of them name")
                self.lose(others, unordered)
                if not isinstance(bound[i][1], Place):
                    bound[i] = (bound[i][0], unordered)
        if len(nodes) != len(function.parameters):
            self.poison(node, f"{function.name} is called with other arguments than it names")
        copies = self._copies(node, function, this)
        outside = {key: self.variables.get(key, UNSET) for key in copies}
        hidden = {key: self.references.pop(key) for key in copies if key in self.references}
        self.variables |= copies
        caller, self.caller = self.caller, (self.caller or node) if function.library else None
        self.calls.append(node)
        frame = self.entered(function, bound, this)
        self.calls.pop()
        self.caller = caller
        changed = any(self.variables.get(key) is not value for key, value in copies.items())
        self.variables |= outside
        self.references |= hidden
        if changed and this is not None:
            self.store(node, this, Unknown(f"{function.name} changes what the lambda copied"))
        return frame

    def _copies(self, node: Node, function: Function, this: Place | None) -> dict[int, Value]:
        """The values of the variables that a lambda copied."""
        if not function.copies:
            return {}
        lambda_ = self.load(node, this) if this is not None else UNSET
        if isinstance(lambda_, Closure):
            return {key: lambda_.copies.get(key, UNSET) for key in function.copies}
        return dict.fromkeys(function.copies, Unknown("what a lambda copied is not known"))

    def entered(
        self, function: Function, bound: list[tuple[int, Value | Place]], this: Place | None
    ) -> Frame:
        """The frame of a function whose parameters are bound, after it was read."""
        outside = set(self.variables)
        for key, what in bound:
            self.references.pop(key, None)
            if isinstance(what, Place):
                self.references[key] = what
            else:
                self.variables[key] = what
        self.functions.append(function)
        self.reached.add((function.name, function.extent))
        with self.frame("function") as frame:
            frame.this = this
            self.prepare(function)
            for name, child in function.inits:
                self._initialized(child, name, this)
            if function.body is not None:
                self.run(function.body)
        self.functions.pop()
        if self.functions:  # behind a kernel nothing follows
            self.after_breaks(frame)
            for key in [k for k in self.variables if k not in outside and k >= 0]:
                del self.variables[key]
        return frame

    def _initialized(self, node: Node, name: str, this: Place | None) -> None:
        """A member, or a base, of an object that is constructed."""
        kind = this.type if this is not None else None
        member = next((t for n, _, t in kind.fields if n == name), None) if kind is not None else None
        if this is None or kind is None:
            self.value(node)
        elif member is not None and member.kind == "reference":
            self.escape(self.place(node))
        elif member is not None:
            value = self.value(node)
            place = Place(member, base=this, member=name, narrow=kind.narrow.get(name))
            self.store(node, place, converted(value, member))
        else:
            value = self.value(node)
            current = self.load(node, this)
            if not name and isinstance(value, Record) and isinstance(current, Record):
                self.store(node, this, Record({**current.members, **value.members}))

    def constructed(self, node: Node) -> Value | None:
        """The object that a constructor of the file makes; None where it has no body there."""
        function = self.kernel.functions.get(node.value)
        if function is None or function.body is None or node.type is None:
            return None
        place = Place(node.type, variable=self.hold(blank(node.type), node.type))
        self.escape(place)
        frame = self._entered_from(node, function, place)
        return frame if isinstance(frame, Unknown) else self.variables[place.variable]

    # --- intrinsics -------------------------------------------------------------------------------------

    def _known(self, node: Node, name: str) -> Value:
        held = node.value["object"]
        nodes = node.below
        if held is not None:
            return self._method(node, name, held, nodes)
        function = self.kernel.functions.get(node.value["function"])
        if function is not None and not function.library:  # the user's own, whatever it is called
            return self._foreign(node, "", nodes, [self.handed(child, "") for child in nodes])
        values = [self.handed(child, name) for child in nodes]
        if name in _LOADS and (place := pointed(values[0], node.type)) is not None:
            self.memory(node, "ld", place)
            return self.loaded(node, place)
        if (
            name in _STORES
            and nodes[0].type is not None
            and (place := pointed(values[0], nodes[0].type.to)) is not None
        ):
            self.memory(node, "st", place)
            return UNSET
        if _SAME.match(name):
            return values[0]
        if (way := _EXCHANGE.match(name)) is not None:
            return self.exchanged(node, way[1] or "", values)
        if _VOTE.match(name) and node.type is not None and (name[2] == "s" or _is_full(values[0])):
            self.fence()
            return self.alike(node, name, node.type)
        if name in ("memcpy", "memmove"):
            return self._moved(node, nodes, values)
        if _FETCH.match(name) and self.reaching(name, nodes, values) is None:
            self.fetches[node.line, node.column] = name
            self.fence()
            for value in values:
                self.lose(arrays_in(value), LOADED)
            return self._taken(node)
        if name in _SPACES and isinstance(values[0], Address):
            return number(int(values[0].array.space == _SPACES[name]))
        if name == "__pipeline_memcpy_async":
            return self._copied(node, values)
        if _ATOMIC.match(name) and self._atomic(node, nodes, values):
            return self._taken(node)
        return self._foreign(node, name, nodes, values)

    def _taken(self, node: Node) -> Value:
        """The value of a call that loads something of each lane."""
        return REAL if node.type is not None and isinstance(blank(node.type), Real) else self.by_data(node)

    def exchanged(self, node: Node, way: str, values: list[Value]) -> Value:
        """The value of another lane: __shfl_sync(mask, value, lane, width) and its like."""
        self.fence()
        mask, value, lane, width = values
        segment = constant(32) if width is UNSET else width.exact if isinstance(width, Number) else None
        whole = not way and _is_full(mask) and segment is not None and segment.key == _WARP
        kind = node.type if isinstance(value, Unknown) else None
        one = isinstance(lane, Number) and warp_uniform(lane.sum, self.threads)
        if whole and one and kind is not None and kind.kind == "int":
            return self.alike(node, node.value["name"], kind)
        if not isinstance(value, Number):
            return value if isinstance(value, (Unknown, Real)) else Unknown("what another lane has")
        taken = None
        if isinstance(lane, Number) and segment is not None and segment.key in _SEGMENTS:
            taken = exchanged(way, value.exact, lane.exact, segment.constant, self.block)
        return Unknown("what another lane has") if taken is None else Number(taken, value.bits, value.signed)

    def _foreign(self, node: Node, name: str, nodes: list[Node], values: list[Value]) -> Value:
        """The value of a call whose body is not in the file; a call that takes an address is not read.

        `name` is that of one of CUDA's functions, or no name at all.
        """
        if not takes_values(name) or "sync" in name or "fence" in name:
            self.fence()
        if name not in SILENT:
            self._changed_by(node, name, nodes, values)
            array = self.reaching(name, nodes, values)
            if array is not None:
                called = self._called(node)
                why = _REASONS.get(name) or f"what {called} does is not in the file"
                if name.startswith("atomic"):
                    why = "the turns of a loop of compare and swap depend on more than addresses"
                self.refuse(node, f"call {called}", array, why)
            elif node.value["function"] < 0 and "layoutalg" not in name:
                self.refuse(node, f"call {node.value['name']}", "", "which function is called is not known")
        if node.type is not None and isinstance(blank(node.type), Real):
            return REAL
        if node.type is not None and node.type.kind == "void":
            return UNSET
        for value in values:
            if isinstance(value, Unknown) and value.name:
                return value
        return Unknown(f"it depends on what {node.value['name']} returns")

    def _called(self, node: Node) -> str:
        """The name of a function, of one that nothing declares with the namespace that it is called in."""
        function = self.kernel.functions.get(node.value["function"])
        foreign = function is not None and function.foreign
        return "::".join((*filter(None, [node.value.get("within") if foreign else ""]), node.value["name"]))

    def _changed_by(self, node: Node, name: str, nodes: list[Node], values: list[Value]) -> None:
        """Lose the variables that a function whose body is not in the file may change through addresses."""
        why = Unknown(f"it depends on what {node.value['name']} does")
        function = self.kernel.functions.get(node.value["function"])
        kinds = [self.declaration(key).type for key in function.parameters] if function is not None else []
        if function is None:
            self.stray(why)
        undeclared = (
            function is not None and function.result is not None and "layoutalg" in function.result.name
        )
        if undeclared and (name.startswith("__") or name in _BY_VALUE):
            kinds = []
        for i, (child, value) in enumerate(zip(nodes, values, strict=True)):
            self.lose(arrays_in(value), why)
            kind = kinds[i] if i < len(kinds) else None
            if kind is None or kind.kind != "reference" or kind.to is None or kind.to.const:
                continue
            named = isinstance(value, Address) and child.type is not None and child.type.kind != "pointer"
            if named or (child.kind in ("binary", "const") and child.value != ","):
                continue  # it refers to memory or to a number of no name, and not to what that was made of
            self.lose(self.roots(child), why)

    def roots(self, node: Node) -> set[int]:
        """The variables that the names in an expression stand for."""
        keys: set[int] = set()
        for inner in node.walk():
            if inner.kind == "name":
                place = self.references.get(inner.value)
                waiting = [Place(None, variable=inner.value) if place is None else place]
                while waiting:
                    place = waiting.pop()
                    if place.choice is not None:
                        waiting += place.choice[1:]
                    elif place.base is not None:
                        waiting.append(place.base)
                    elif place.address is not None and place.address.array.space == "local":
                        keys.add(place.address.array.key)
                    elif place.address is None:
                        keys.add(place.variable)
                for key in list(keys):
                    keys |= arrays_in(self.variables.get(key, UNSET))
        return keys

    def _method(self, node: Node, name: str, held: Node, nodes: list[Node]) -> Value:
        """A method whose body is not in the file: of CUDA's own types."""
        values = [self.handed(child, name) for child in nodes]
        kind = held.type.name if held.type is not None else ""
        if name.startswith("operator") and is_number(held.type) and not name.endswith(_CHANGING):
            self._changed_by(node, name, nodes, values)
            self.value(held)
            return REAL
        self.fence()
        if "cooperative_groups" not in kind:
            self._changed_by(node, name, nodes, values)
            if not name.startswith("operator") or name.endswith(_CHANGING) or name == "operator()":
                self.lose(self.roots(held), Unknown(f"it depends on what {name} does"))
            array = self.reaching(name, [held, *nodes], [self.handed(held, name), *values])
            if array is not None:
                self.refuse(node, f"call {name}", array, f"what {name} does is not in the file")
        elif node.type is not None and isinstance(blank(node.type), Real):
            return REAL
        return Unknown(f"it depends on what {name} returns")

    def _copied(self, node: Node, values: list[Value]) -> Value:
        """__pipeline_memcpy_async(to, from, bytes)."""
        size = values[2].exact if len(values) > 2 and isinstance(values[2], Number) else None
        if size is None or not size.known or size.constant not in (4, 8, 16):
            self.refuse(node, "cp.async", "", "the number of bytes is no constant of 4, 8 or 16")
            return UNSET
        width = size.constant
        for value, op in zip(values, (f"cp.async.{width}", f"cp.async.{width}:global"), strict=False):
            self.touch(node, op, value if isinstance(value, Address) else unknown(value), width)
        return UNSET

    def _moved(self, node: Node, nodes: list[Node], values: list[Value]) -> Value:
        """memcpy(to, from, bytes), byte by byte: the compiler takes no alignment from a pointer's type."""
        size = values[2].exact if isinstance(values[2], Number) else None
        for verb, value in (("ld", values[1]), ("st", values[0])):
            if isinstance(value, Address) and value.array.space == "local":
                continue
            target = value if isinstance(value, Address) else unknown(value)
            if isinstance(target, Unknown) or size is None or not size.known:
                no_size = Unknown("how many bytes it moves is not known")
                why = target if isinstance(target, Unknown) else no_size
                self.touch(node, f"call {node.value['name']}", why, 0)
                if verb == "st" and isinstance(target, Unknown):
                    self.stray(target)
                continue
            if size.constant > MOST_MOVED:
                why = Unknown(f"it moves {size.constant} bytes, more than are listed one by one")
                self.touch(node, f"call {node.value['name']}", why, 0)
            elif size.constant > 0:
                byte = Type("int", "unsigned char", 1, 1)
                moved_bytes = Type("array", byte.name, size.constant, 1, extent=size.constant, to=byte)
                self.memory(node, verb, Place(moved_bytes, target))
        for key in arrays_in(values[1]):
            self.leaked |= arrays_in(self.variables.get(key, UNSET))
        self.lose(arrays_in(values[0]), LOADED)
        return values[0]

    def _atomic(self, node: Node, nodes: list[Node], values: list[Value]) -> bool:
        """An atomic operation that is one instruction; others are loops of compare and swap."""
        kind = nodes[0].type.to if nodes[0].type is not None else None
        place = pointed(values[0], kind)
        if place is None and isinstance(values[0], Unknown):
            self.touch(node, f"call {node.value['name']}", values[0], 0)
            return True
        if place is None or place.address is None or kind is None or kind.bytes not in (4, 8):
            return False
        array = place.address.array
        if array.space == "global":
            op = f"atom.global.b{8 * kind.bytes}"
        elif (array.space, kind.kind, kind.bytes, "CAS" in node.value["name"]) == ("shared", "int", 4, False):
            op = "red.shared.u32"
        else:
            return False
        self.touch(node, op, place.why or place.address, kind.bytes, array.name, array)
        return True


def _is_full(mask: Value) -> bool:
    """Whether a mask names all lanes of a warp."""
    return isinstance(mask, Number) and mask.exact.known and mask.exact.constant & _ALL == _ALL
