"""Places of a kernel: what an expression names, loads and stores, and what an unknown store may change.

The idea.  A place is memory, a variable, a member of either, or one of two places by a condition.  A store
whose place is not known may change every variable that a pointer or a reference may lead to: all whose
address was taken or bound (`escaped`), or those whose address is in memory (`leaked`) where the pointer was
loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from layoutalg.source.front import Node, Type
from layoutalg.source.machine import Frame, Place
from layoutalg.source.terms import ZERO, Sum, constant, scale, select
from layoutalg.source.unread import Unread
from layoutalg.source.values import (
    LOADED,
    REAL,
    UNSET,
    Address,
    Array,
    Closure,
    Condition,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    arrays_in,
    chosen,
    converted,
    fitted,
    inverse,
    is_loaded,
    lost,
    moved,
    number,
    unknown,
)

WIDTHS = (1, 2, 4, 8, 16)
MOST_MOVED = 64
"""The elements of an array in a struct that is moved as a whole, one by one as its type aligns them."""

LVALUE = "LVALUE"
"""A cast that names bytes as another type, and copies none."""

T = TypeVar("T")


class Places(Unread):
    """Places of expressions, loads and stores."""

    # --- one of two ways --------------------------------------------------------------------------------

    def only_where(self, condition: Condition, read: Callable[[], T]) -> T:
        """Return what `read` reads under a condition; what it sets is set where the condition holds."""
        before = dict(self.variables)
        with self.under(condition):
            result = read()
        for key, value in list(self.variables.items()):
            if key in before and before[key] is not value:
                self.variables[key] = chosen(condition, value, before[key])
        return result

    def untaken(self, read: Callable[[], object]) -> None:
        """Read a branch that no lane takes, so that its accesses are listed; it changes nothing."""
        if self.trying or self.unrolling or self.caller is not None:
            return
        before = dict(self.variables)
        with self.under(ZERO):
            read()
        self.variables = before

    def either_way(self, node: Node, read: Callable[[Node], T], join: Callable[[Condition, T, T], T]) -> T:
        """Read the way that a conditional operator takes, or join both where lanes take both."""
        condition, yes, no = self.condition(node.children[0]), node.part(1), node.part(2)
        if isinstance(condition, Sum) and condition.known:
            taken, other = (yes, no) if condition.constant else (no, yes)
            self.untaken(lambda: read(other))
            return read(taken)
        first = self.only_where(condition, lambda: read(yes))
        second = self.only_where(inverse(condition), lambda: read(no))
        return join(condition, first, second)

    def either_place(self, condition: Condition, a: Place, b: Place) -> Place:
        """a where a condition holds, else b."""
        if isinstance(condition, Sum) and condition.known:
            return a if condition.constant else b
        kind = a.type
        x, y = a.address, b.address
        if x is not None and y is not None and a.why is None and b.why is None:
            if x.array == y.array and isinstance(condition, Sum):
                return Place(kind, Address(x.array.joined(y.array), select(condition, x.offset, y.offset)))
            if "local" not in (x.array.space, y.array.space):
                why = f"an address is in {x.array.name} or in {y.array.name}, by a condition"
                return Place(kind, why=Unknown(why))
        return Place(kind, choice=(condition, a, b))

    # --- what is lost -----------------------------------------------------------------------------------

    def kind_of_variable(self, key: int) -> Type | None:
        """The type of a variable, that of what it refers to where it is a reference."""
        if key < 0:
            return self.held_types.get(key)
        kind = self.declaration(key).type
        return kind.to if kind.kind == "reference" else kind

    def lose(self, keys: Iterable[int], why: Unknown) -> None:
        """Forget the values of some variables."""
        for key in keys:
            if key in self.variables:
                self.variables[key] = lost(self.kind_of_variable(key), why)

    def stray(self, why: Unknown) -> None:
        """Forget the values of all variables that a pointer may lead to: a store has an unknown target."""
        self.lose(list(self.leaked if is_loaded(why) else self.escaped), why)

    def escape(self, place: Place) -> None:
        """The address of a place is taken, or a reference bound to it."""
        if place.choice is not None:
            for part in place.choice[1:]:
                self.escape(part)
        while place.base is not None:
            place = place.base
        if place.variable >= 0 or place.variable in self.held_types:
            self.escaped.add(place.variable)
        elif place.address is not None and place.address.array.space == "local":
            self.escaped.add(place.address.array.key)

    def address_of(self, place: Place) -> Address | Unknown:
        """The address of a place, which may be stored to by it from now on."""
        self.escape(place)
        if place.choice is not None:
            condition, a, b = place.choice
            merged = chosen(condition, self.address_of(a), self.address_of(b))
            return merged if isinstance(merged, Address) else unknown(merged)
        if place.why is not None:
            return replace(place.why, array=place.address.array) if place.address else place.why
        if place.address is not None:
            return place.address
        if place.base is not None:
            base = self.address_of(place.base)
            return base if isinstance(base, Unknown) else self._member_at(base, place.base.type, place.member)
        kind = self.kind_of_variable(place.variable)
        name = self.declaration(place.variable).name if place.variable >= 0 else "a value"
        return Address(Array(name, "local", place.variable, kind), ZERO)

    def _member_at(self, base: Address, kind: Type | None, name: str) -> Address | Unknown:
        if kind is not None and name not in kind.narrow:
            for member, at, _ in kind.fields:
                if member == name and at >= 0:
                    array = replace(base.array, part=f"{base.array.part or base.array.name}.{name}")
                    return replace(moved(base, constant(at)), array=array)
        return Unknown(f"the member {name} has no address", array=base.array)

    # --- places -----------------------------------------------------------------------------------------

    def place(self, node: Node) -> Place:
        """The place that an expression names; a value that has none is kept in a variable of no name."""
        self.seen.add((node.line, node.column))
        match node.kind:
            case "name":
                return self._named(node)
            case "subscript":
                base, index = node.children
                return self._element(node, self._base(base), self._base(index))
            case "unary" if node.value == "*":
                return self._element(node, self.value(node.children[0]), number(0))
            case "unary" if node.value in ("++x", "--x"):
                place = self.place(node.part(0))
                self.stepped(node, place)
                return place
            case "member":
                return self._member(node)
            case "cast":
                return self._cast_place(node)
            case "assign":
                return self.assigned(node)
            case "call":
                return self.call_place(node)
            case "binary" if node.value == ",":
                self.effect(node.children[0])
                return self.place(node.part(1))
            case "cond":
                return self.either_way(node, self.place, self.either_place)
        return self.temporary(node, self.value(node))

    def temporary(self, node: Node, value: Value) -> Place:
        """The place of a value that has none."""
        if isinstance(value, Unknown):
            return Place(node.type, why=value)
        return Place(node.type, variable=self.hold(value, node.type))

    def hold(self, value: Value, kind: Type | None) -> int:
        """A variable of no name for a value that is used as a place."""
        key = -2 - len(self.held_types)
        self.held_types[key] = kind
        self.variables[key] = value
        return key

    def _base(self, node: Node | None) -> Value:
        """A pointer that is subscripted at once: its array stays as well known as before."""
        if node is not None and node.kind == "cast" and node.children[0] is not None:
            inner = node.children[0]
            if inner.kind in ("name", "member", "subscript") and inner.type is not None \
                    and inner.type.kind == "array":  # fmt: skip
                escaped = set(self.escaped)
                pointer = self.value(node)
                self.escaped = escaped
                return pointer
        return self.value(node)

    def _named(self, node: Node) -> Place:
        key = node.value
        if key in self.references:
            return self.references[key]
        declared = self.declaration(key)
        if declared.space in ("shared", "constant", "global"):
            if declared.name in self.geometry:
                return Place(node.type, variable=key)
            if declared.space == "shared":
                self.shared[key] = declared
            return Place(
                declared.type, Address(Array(declared.name, declared.space, key, declared.type), ZERO)
            )
        if declared.type.kind == "array":
            return Place(declared.type, Address(Array(declared.name, "local", key, declared.type), ZERO))
        return Place(node.type if declared.type.kind == "reference" else declared.type, variable=key)

    def _cast_place(self, node: Node) -> Place:
        """The place that a cast names: the same place, the same bytes as another type, or a copy."""
        inner = node.part(0)
        to, of = node.type, inner.type
        if to is None or of is None:
            return self.place(inner)
        if to.kind == "record" and of.kind == "record":
            place = self.place(inner)
            name = to.name.removeprefix("const ")
            if name in (of.name.removeprefix("const "), *of.bases):
                return replace(place, type=to)
            if node.value == LVALUE and name not in of.others:
                return pointed(self.address_of(place), to) or Place(to, why=place.why)
            return Place(to, why=Unknown(f"a {of.name} is used as a {to.name}"))
        same = (to.kind, to.bytes, to.signed) == (of.kind, of.bytes, of.signed)
        alias = node.value in ("PAREN_EXPR", "CXX_CONST_CAST_EXPR") or (
            node.value == "UNEXPOSED_EXPR" and to.const and same  # the front end's "as constant" of a name
        )
        if to.kind in ("int", "float", "pointer") and not alias and node.value != LVALUE:
            return self.temporary(node, self.value(node))
        place = self.place(inner)
        if node.value == LVALUE and place.address is None and (to.kind, to.bytes) != (of.kind, of.bytes):
            at = self.address_of(place)
            if isinstance(at, Unknown):
                return Place(to, why=at)
            return Place(to, at)
        return replace(place, type=to)

    def _element(self, node: Node, base: Value, index: Value) -> Place:
        if isinstance(base, Number) and isinstance(index, Address):
            base, index = index, base
        if isinstance(base, Unknown) and base.array is not None:
            return Place(node.type, Address(base.array, ZERO), why=base)
        if not isinstance(base, Address):
            return Place(node.type, why=unknown(base))
        if not isinstance(index, Number):
            why = replace(unknown(index), array=base.array)
            return Place(node.type, Address(base.array, ZERO), why=why)
        size = node.type.bytes if node.type is not None else 1
        if base.array.space == "local" and node.part(0).kind != "this":
            named = self.caller or node
            self.registers[named.line, named.column] = base.array.name
        at = moved(base, scale(index.exact, size))
        held = node.part(0).children[0] if node.part(0).kind == "cast" else None  # an array that decays
        if held is not None and held.type is not None and held.type.kind == "array":
            at = replace(at, inner=(*at.inner, (index.exact, held.type.extent)))
        elif node.kind == "subscript":
            at = replace(at, base=base.offset)
        return Place(node.type, at)

    def this(self) -> Place | None:
        """The object of the method that is read; None where it is not known."""
        for entry in reversed(self.stack):
            if isinstance(entry, Frame) and entry.kind == "function":
                return entry.this
        return None

    def _member(self, node: Node) -> Place:
        inner = node.children[0] if node.children else None
        base: Place | None
        if inner is None or inner.kind == "this":
            base = self.this()
            if base is None:
                return Place(node.type, why=Unknown("a member of an object that is not known"))
        elif inner.type is not None and inner.type.kind == "pointer":
            target = self.value(inner)
            if isinstance(target, Unknown) and target.array is not None:
                return Place(node.type, Address(target.array, ZERO), why=target)
            if not isinstance(target, Address):
                return Place(node.type, why=unknown(target))
            base = Place(inner.type.to, target)
        else:
            base = self.place(inner)
        return self._member_of(base, node)

    def _member_of(self, base: Place, node: Node) -> Place:
        name = node.value
        if base.choice is not None:
            condition, a, b = base.choice
            return self.either_place(condition, self._member_of(a, node), self._member_of(b, node))
        if base.why is not None and base.address is None:
            return Place(node.type, why=base.why)
        kind = base.type
        if kind is not None and any(n == name and t.kind == "reference" for n, _, t in kind.fields):
            self.load(node, base)
            return Place(node.type, why=Unknown(f"the member {name} is a reference"))
        if base.address is not None and kind is not None:
            if name in kind.narrow and base.address.array.space != "local":
                return Place(node.type, why=Unknown(f"the member {name} is a bit-field in memory"))
            at = self._member_at(base.address, kind, name)
            if isinstance(at, Unknown):
                return Place(node.type, Address(base.address.array, ZERO), why=at)
            return Place(node.type, at, why=base.why)
        if node.type is not None and node.type.kind == "array":
            own = Place(node.type, base=base, member=name)
            held = self.load(node, own) if base.address is None else UNSET
            if isinstance(held, Address):  # an array in a parameter, which is in constant memory
                return Place(node.type, held)
            at = self.address_of(own)
            if isinstance(at, Unknown):
                return Place(node.type, why=at)
            return Place(node.type, at)
        narrow = kind.narrow.get(name) if kind is not None else None
        return Place(node.type, base=base, member=name, narrow=narrow)

    # --- loads and stores -------------------------------------------------------------------------------

    def load(self, node: Node, place: Place) -> Value:
        """The value of a place; for a place in memory, a load."""
        if place.choice is not None:
            condition, a, b = place.choice
            first = self.only_where(condition, lambda: self.load(node, a))
            other = replace(node)  # what the one place holds, and the other, are two numbers
            second = self.only_where(inverse(condition), lambda: self.load(other, b))
            return chosen(condition, first, second)
        if place.base is not None:
            owner = self.load(node, place.base)
            if isinstance(owner, Record):
                return owner.members.get(place.member, UNSET)
            return REAL if isinstance(owner, Real) else unknown(owner)
        if place.address is not None:
            if place.type is not None and place.type.kind == "array":
                return place.why or place.address
            if place.address.array.space == "local":
                if place.why is not None:  # which element: what it points at is another array
                    return replace(place.why, array=None)
                self.is_constant(place.address.array)
                return self.load_register(place.address, place.type)
            self.memory(node, "ld", place)
            if place.why is None and self.is_constant(place.address.array):
                return self.load_register(place.address, place.type)
            return self.loaded(node, place)
        if place.why is not None:
            if place.type is not None and place.type.kind != "array":
                self.touch(node, "ld", place.why, 0)
            return place.why
        return self._load_variable(node, place)

    def is_constant(self, array: Array) -> bool:
        """Whether an array is a constant whose elements its declaration gives, as it has them then."""
        declared = self.kernel.declarations.get(
            array.key
        )  # arrays behind parameters have numbers of their own
        if declared is None or declared.init is None or declared.type is not array.type:
            return False
        if array.key not in self.variables:
            self.variables[array.key] = self.value(declared.init)
        return True

    def _load_variable(self, node: Node, place: Place) -> Value:
        key = place.variable
        if key >= 0:
            declared = self.declaration(key)
            if declared.name in self.geometry and declared.at_top:
                return self.geometry[declared.name]
            if key not in self.variables and declared.init is not None:
                return self.value(declared.init)
            if key not in self.variables and declared.at_top and declared.name in self.sets:
                value = self.sets[declared.name]
                return (
                    number(int(value), declared.type) if declared.type.kind == "int" else Real(float(value))
                )
        return self.variables.get(key, UNSET)

    def store(self, node: Node, place: Place, kept: Value) -> None:
        """Set a place; in memory, a store."""
        if place.choice is not None:
            condition, a, b = place.choice
            self.only_where(condition, lambda: self.store(node, a, kept))
            self.only_where(inverse(condition), lambda: self.store(node, b, kept))
            return
        if place.base is not None:
            self._store_member(node, place, place.base, kept)
            return
        if place.address is not None:
            if place.address.array.space != "local":
                self.leaked |= arrays_in(kept)
                self.mixed |= bool(arrays_in(kept, ("local", "shared")))
                self.memory(node, "st", place)
                if place.address.array.loaded:
                    self.stray(LOADED)
            elif place.why is not None:  # some element: none of them is known now
                self.lose((place.address.array.key,), place.why)
            else:
                self.store_register(place.address, place.type, kept)
            return
        if place.why is not None:
            self.touch(node, "st", place.why, 0)
            self.leaked |= arrays_in(kept)
            self.stray(place.why)
            return
        self.variables[place.variable] = self.named(place.variable, kept)

    def _store_member(self, node: Node, place: Place, base: Place, value: Value) -> None:
        owner = self.load(node, base)
        kind = base.type
        if isinstance(owner, Unknown) and kind is not None and kind.fields and base.why is None:
            owner = lost(kind, owner)
        if isinstance(owner, Real):
            return
        if not isinstance(owner, Record) or place.member not in owner.members:
            self.leaked |= arrays_in(value)
            if isinstance(owner, Closure) or base.why is not None:
                self.stray(Unknown(f"the member {place.member} of an object that is not known is set"))
            return
        members = {**owner.members, place.member: fitted(value, place.narrow)}
        if kind is not None and kind.union:
            for name, _, t in kind.fields:
                if name != place.member:
                    members[name] = lost(t, Unknown("another member of the union was set"))
        self.store(node, base, Record(members))

    def memory(self, node: Node, verb: str, place: Place) -> None:
        """The instructions that load or store a place in memory."""
        address, kind = place.address, place.type
        if address is None:
            return
        if address.array.space == "constant":
            self.constants[node.line, node.column] = address.array.name
            return
        if kind is None:
            self.refuse(node, verb, address.array.name, "it has no type")
            return
        name = f"{verb}.{address.array.space}"
        if kind.bytes in WIDTHS and (kind.align >= kind.bytes or kind.kind not in ("record", "array")):
            target: Address | Unknown = place.why if place.why is not None else address
            self.touch(
                node, f"{name}.b{8 * kind.bytes}", target, kind.bytes, address.array.name, address.array
            )
        elif kind.kind == "record" and kind.fields and all(at >= 0 for _, at, _ in kind.fields):
            parts = {at: part for _, at, part in kind.fields}  # of members of a union at one byte one
            spans = [(at, at + part.bytes) for _, at, part in kind.fields]
            apart = all(at == other or end <= other or other <= at for at, end in spans for other in parts)
            alike = all(end == at + parts[at].bytes for at, end in spans)
            if kind.narrow or kind.others or not (apart and alike):
                self.refuse(node, name, address.array.name, f"how a {kind.name} is moved is the compiler's")
                return
            for at, part in parts.items():
                self.memory(node, verb, Place(part, moved(address, constant(at)), why=place.why))
        elif kind.kind == "array" and kind.to is not None and 0 < kind.extent <= MOST_MOVED:
            for at in range(0, kind.bytes, kind.to.bytes):
                self.memory(node, verb, Place(kind.to, moved(address, constant(at)), why=place.why))
        else:
            self.refuse(node, name, address.array.name, f"no instruction moves {kind.bytes} bytes per lane")

    def store_as(self, node: Node, place: Place, value: Value) -> Value:
        """Store a value as the type of an expression: what its place holds then."""
        stored = fitted(converted(value, node.type), place.narrow)
        self.store(node, place, stored)
        return stored


def pointed(value: Value, kind: Type | None) -> Place | None:
    """The place that a pointer points at; at least its array is known."""
    if isinstance(value, Address):
        return Place(kind, value)
    if isinstance(value, Unknown) and value.array is not None:
        return Place(kind, Address(value.array, ZERO), why=value)
    return None
