"""Expressions of a kernel: their values, the places that they name, the loads and stores that they make."""

from __future__ import annotations

from dataclasses import replace

from layoutalg.source.front import Node, Type
from layoutalg.source.machine import Condition, Place, conjunction, register_array
from layoutalg.source.terms import (
    ONE,
    ZERO,
    Sum,
    add,
    bits,
    compare,
    constant,
    divide,
    either,
    floor_div,
    minus,
    multiply,
    negated,
    remainder,
    scale,
    truth,
)
from layoutalg.source.unread import Unread, is_number
from layoutalg.source.values import (
    LOADED,
    REAL,
    UNSET,
    Address,
    Array,
    Cells,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    apart,
    blank,
    chosen,
    converted,
    moved,
    number,
    unknown,
)

WIDTHS = (1, 2, 4, 8, 16)
_COMPARED = frozenset({"<", ">", "<=", ">=", "==", "!="})
_BITS = {"&": "and", "|": "or", "^": "xor"}


class Expressions(Unread):
    """Values and places of expressions."""

    def call(self, node: Node) -> Value:
        """The value of a call; see calls."""
        raise NotImplementedError

    def call_place(self, node: Node) -> Place:
        """The place that a call returns a reference to."""
        raise NotImplementedError

    def inline_asm(self, node: Node) -> None:
        """An asm statement; see calls."""
        raise NotImplementedError

    # --- values -----------------------------------------------------------------------------------------

    def value(self, node: Node | None) -> Value:
        """The value of an expression, with the loads that it makes."""
        if node is None:
            return UNSET
        self.step()
        self.seen.add((node.line, node.column))
        match node.kind:
            case "const":
                if isinstance(node.value, float):
                    return Real(node.value)
                return number(node.value, node.type)
            case "name" | "subscript" | "member":
                return self.load(node, self.place(node))
            case "cast":
                return self._cast(node)
            case "unary":
                return self._unary(node)
            case "binary":
                return self._binary(node)
            case "assign":
                self.store(node, self._assigned(node))
                return self._kept
            case "cond":
                return self._conditional(node)
            case "call":
                return self.call(node)
            case "construct":
                return self._constructed(node)
            case "init":
                return self._listed(node)
            case "asm":
                self.inline_asm(node)
                return UNSET
            case "text" | "lambda" | "null":
                return UNSET
            case "this":
                return self._this()
        for child in node.children:
            if child is not None and child.kind != "block":
                self.value(child)
        self.unlisted(node)
        return Unknown(f"{node.value or node.kind} at {node.place} is not read")

    _kept: Value = UNSET
    """What the last assignment stored."""

    def condition(self, node: Node | None) -> Condition:
        """An expression as a condition: 0 or 1 per thread, or why it is not known."""
        if node is None:
            return ONE
        value = self.value(node)
        if isinstance(value, Number):
            return truth(value.exact)
        if isinstance(value, Real) and value.value is not None:
            return ONE if value.value else ZERO
        if isinstance(value, Address):
            return ONE
        return unknown(value)

    def _cast(self, node: Node) -> Value:
        inner = node.children[0]
        if inner is None:
            return UNSET
        if (
            inner.type is not None
            and inner.type.kind == "array"
            and (node.type is not None and node.type.kind == "pointer")
        ):
            if inner.kind == "text":
                return UNSET
            place = self.place(inner)
            if place.why is not None:
                return place.why
            return place.address or Unknown("an array is not in memory")
        if node.type is not None and node.type.kind == "void":
            self.value(inner)
            return UNSET
        value = self.value(inner)
        if node.type is not None and node.type.kind == "record":
            return value
        return converted(value, node.type)

    def _unary(self, node: Node) -> Value:
        op, inner = node.value, node.part(0)
        if op == "*":
            return self.load(node, self.place(node))
        if op == "&":
            if inner.type is not None and inner.type.kind == "other":
                return Unknown("the address of a function")
            place = self.place(inner)
            if place.why is not None:
                return place.why
            if place.address is not None:
                return place.address
            if place.variable >= 0:
                return Address(register_array(self.declaration(place.variable)), ZERO)
            return Unknown("the address of a member of a variable")
        if op in ("x++", "x--", "++x", "--x"):
            place = self.place(inner)
            before = self.load(inner, place)
            by = number(1 if "+" in op else -1)
            after = self.operated("+", before, by, inner.type)
            self.store(inner, place, after)
            return before if op.startswith("x") else after
        value = self.value(inner)
        if op == "!":
            if isinstance(value, Number):
                return Number(negated(truth(value.exact)), 8, False)
            if isinstance(value, Real) and value.value is not None:
                return number(int(not value.value), node.type)
            return Unknown(unknown(value).why, unknown(value).name)
        if isinstance(value, Real):
            return Real(None if value.value is None else (-value.value if op == "-" else value.value))
        if not isinstance(value, Number):
            return unknown(value)
        kind = (value.bits, value.signed)
        if op == "-":
            return Number(scale(value.sum, -1), *kind)
        if op == "~":
            return Number(minus(constant(-1), value.sum), *kind)
        return value

    def _binary(self, node: Node) -> Value:
        op = node.value
        left, right = node.children
        if op in ("&&", "||"):
            first = self.condition(left)
            with self.under(first if op == "&&" else _not(first)):
                second = self.condition(right)
            if isinstance(first, Sum) and isinstance(second, Sum):
                whole = conjunction(first, second) if op == "&&" else either(first, second)
                return Number(whole, 8, False) if isinstance(whole, Sum) else whole
            sure = first if isinstance(first, Sum) else second
            other = second if isinstance(first, Sum) else first
            if isinstance(sure, Sum) and sure.known and sure.constant == (op == "||"):
                return Number(sure, 8, False)
            return unknown(other) if not isinstance(other, Sum) else Number(other, 8, False)
        if op == ",":
            self.value(left)
            return self.value(right)
        return self.operated(op, self.value(left), self.value(right), node.type, left.type if left else None)

    def operated(self, op: str, a: Value, b: Value, result: Type | None, of: Type | None = None) -> Value:
        """a op b as C computes it; `of` is the type of a, which says how far a pointer moves."""
        if isinstance(a, Address) or isinstance(b, Address):
            return self._on_addresses(op, a, b, result, of)
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            return a if isinstance(a, Unknown) else unknown(b)
        if isinstance(a, Real) or isinstance(b, Real):
            return _on_reals(op, a, b)
        if not (isinstance(a, Number) and isinstance(b, Number)):
            return unknown(a)
        width, signed = (8 * result.bytes, result.signed) if result and result.kind == "int" else (
            max(a.bits, b.bits), a.signed and b.signed)  # fmt: skip
        if result is not None and result.bool:
            width, signed = 8, False
        if op in _COMPARED:
            return Number(compare(op, a.exact, b.exact), 8, False)
        if op in ("+", "-"):
            return Number(add(a.sum, b.sum) if op == "+" else minus(a.sum, b.sum), width, signed)
        if op == "*":
            return Number(multiply(a.sum, b.sum), width, signed)
        x, y = a.exact, b.exact
        if op == "<<":
            if y.known and 0 <= y.constant < 64:
                return Number(scale(a.sum, 1 << y.constant), width, signed)
            if x.known and y.low >= 0 and y.high < 31:
                powers = [constant(0)]
                for n in range(y.low, y.high + 1):
                    powers.append(multiply(compare("==", y, constant(n)), constant(x.constant << n)))
                return Number(add(*powers), width, signed)
            return Unknown("a shift by a number that is no constant")
        if op == ">>":
            if y.known and 0 <= y.constant < 64:
                return Number(floor_div(x, 1 << y.constant), width, signed)
            return Unknown("a shift by a number that is no constant")
        if op in _BITS:
            return Number(bits(_BITS[op], x, y), width, signed)
        found = divide(x, y) if op == "/" else remainder(x, y) if op == "%" else None
        if found is None:
            return Unknown(f"'{op}' by a number that may be zero, or of negative numbers")
        return Number(found, width, signed)

    def _on_addresses(self, op: str, a: Value, b: Value, result: Type | None, of: Type | None) -> Value:
        size = 1
        if result is not None and result.kind == "pointer" and result.to is not None:
            size = max(result.to.bytes, 1)
        if isinstance(a, Address) and isinstance(b, Address):
            distance = apart(a, b)
            if distance is None:
                return Unknown(f"addresses in {a.array.name} and {b.array.name} are compared")
            if op == "-":
                each = of.to.bytes if of is not None and of.kind == "pointer" and of.to is not None else 1
                return Number(floor_div(distance, max(each, 1)), 64, True)
            if op in _COMPARED:
                return Number(compare(op, distance, ZERO), 8, False)
            return Unknown("two addresses are combined")
        if op in ("==", "!=") and (isinstance(a, Number) or isinstance(b, Number)):
            return number(int(op == "!="))
        if isinstance(b, Address):
            a, b = b, a
            if op == "-":
                return Unknown("a number less an address")
        if not (isinstance(a, Address) and isinstance(b, Number)):
            why = unknown(b) if isinstance(a, Address) else unknown(a)
            array = a.array if isinstance(a, Address) else None
            return replace(why, array=array) if op in ("+", "-") else why
        if op in ("+", "-"):
            return moved(a, scale(b.exact, size if op == "+" else -size))
        if op in _BITS and a.array.space == "shared":  # arrays start at multiples of 1024 bytes
            return Address(a.array, bits(_BITS[op], a.offset, b.exact))
        if op == "<<" and b.exact.known and b.exact.constant == 0:
            return a
        return Unknown(f"'{op}' on an address of {a.array.name}")

    def _conditional(self, node: Node) -> Value:
        test, yes, no = node.children
        condition = self.condition(test)
        if isinstance(condition, Sum) and condition.known:
            return self.value(yes if condition.constant else no)
        with self.under(condition):
            first = self.value(yes)
        with self.under(_not(condition)):
            second = self.value(no)
        return chosen(condition, first, second)

    def _constructed(self, node: Node) -> Value:
        given = [child for child in node.children if child is not None]
        name = node.type.name.replace("const ", "") if node.type is not None else ""
        if (
            len(given) == 1
            and given[0].type is not None
            and node.type is not None
            and (given[0].type.name.replace("const ", "") == name)
        ):
            if self.touches_memory(self.kernel.functions.get(node.value)):
                self.fence()
                self.refuse(node, f"construct {name}", "", f"what the copy of {name} does is not read")
            return self.value(given[0])
        found = [self.handed(child, "") for child in given]
        if name == "dim3":
            sizes = [*found, *[number(1)] * 3][:3]
            sizes = [number(1) if child is UNSET else child for child in sizes]
            return Record(dict(zip("xyz", sizes, strict=True)))
        array = None if is_number(node.type) else self.reaching("", given, found)
        if array is not None:
            self.fence()
            self.refuse(node, f"construct {name}", array, f"{name} is made of its address")
        elif self.touches_memory(self.kernel.functions.get(node.value)):
            self.fence()
            self.refuse(node, f"construct {name}", "", f"what the constructor of {name} does is not read")
        if found and all(isinstance(v, Real) for v in found):
            return REAL
        return blank(node.type)

    def _listed(self, node: Node) -> Value:
        kind = node.type
        parts = [self.value(child) for child in node.children if child is not None]
        if kind is None:
            return UNSET
        left_out = kind.kind == "record" and len(parts) < len(kind.fields) + len(kind.bases)
        if left_out and self.touches_memory(self.kernel.functions.get(kind.maker)):
            self.fence()
            what = f"what the initializers of {kind.name} do is not read"
            self.refuse(node, f"construct {kind.name}", "", what)
        if kind.kind == "record" and not isinstance(blank(kind), Real):
            members: dict[str, Value] = {}
            for i, (name, _, t) in enumerate(kind.fields):
                members[name] = converted(parts[i], t) if i < len(parts) else number(0, t)
            return Record(members)
        if kind.kind == "array":
            return self._cells(kind, parts)
        if kind.kind in ("int", "pointer"):
            return converted(parts[0], kind) if parts else number(0, kind)
        return REAL

    def _cells(self, kind: Type, parts: list[Value]) -> Value:
        if not isinstance(blank(kind), Cells) or kind.to is None:
            return REAL
        found: dict[int, Value] = {}
        for i, part in enumerate(parts):
            if isinstance(part, Cells):
                found |= {i * kind.to.bytes + at: v for at, v in part.elements.items()}
            else:
                found[i * kind.to.bytes] = part
        return Cells(found, number(0))

    def _this(self) -> Value:
        for entry in reversed(self.stack):
            if not isinstance(entry, (Sum, Unknown)) and entry.kind == "function":
                if entry.this is not None and entry.this.address is not None:
                    return entry.this.address
                break
        return Unknown("an object that is not in memory")

    # --- places -----------------------------------------------------------------------------------------

    def place(self, node: Node) -> Place:
        """The place that an expression names."""
        self.seen.add((node.line, node.column))
        match node.kind:
            case "name":
                return self._named(node)
            case "subscript":
                base, index = node.children
                return self._element(node, self.value(base), self.value(index))
            case "unary" if node.value == "*":
                return self._element(node, self.value(node.children[0]), number(0))
            case "unary" if node.value in ("++x", "--x"):
                inner = node.part(0)
                self.value(node)
                return self.place(inner)
            case "member":
                return self._member(node)
            case "cast":
                inner = node.part(0)
                place = self.place(inner)
                return Place(node.type, place.address, place.variable, place.base, place.member, place.why)
            case "assign":
                target = self._assigned(node)
                self.store(node, target)
                return target
            case "call":
                return self.call_place(node)
            case "binary" if node.value == ",":
                self.value(node.children[0])
                return self.place(node.part(1))
            case "cond":
                condition = self.condition(node.children[0])
                if isinstance(condition, Sum) and condition.known:
                    return self.place(node.part(1 if condition.constant else 2))
        kept = self.value(node)
        if isinstance(kept, Record):
            return Place(node.type, variable=self._hold(kept))
        if isinstance(kept, (Cells, Real, Number)):
            return Place(node.type, why=Unknown("a value that is not kept"))
        return Place(node.type, why=unknown(kept))

    _held = -1

    def _hold(self, value: Value) -> int:
        """A variable of no name for a value that is used as a place."""
        self._held -= 1
        self.variables[self._held] = value
        return self._held

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
            return Place(declared.type, Address(register_array(declared), ZERO))
        return Place(declared.type, variable=key)

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
        if base.array.space == "local":
            self.registers[node.line, node.column] = base.array.name
        at = moved(base, scale(index.exact, size))
        held = node.part(0).children[0] if node.part(0).kind == "cast" else None  # an array that decays
        if held is not None and held.type is not None and held.type.kind == "array":
            at = replace(at, inner=(*at.inner, (index.exact, held.type.extent)))
        return Place(node.type, at)

    def _member(self, node: Node) -> Place:
        inner = node.children[0] if node.children else None
        if inner is None:
            base = None
            for entry in reversed(self.stack):
                if not isinstance(entry, (Sum, Unknown)) and entry.kind == "function":
                    base = entry.this
                    break
            if base is None:
                return Place(node.type, why=Unknown("a member of an object that is not known"))
        elif inner.type is not None and inner.type.kind == "pointer":
            target = self.value(inner)
            if not isinstance(target, Address):
                return Place(node.type, why=unknown(target))
            base = Place(inner.type.to, target)
        else:
            base = self.place(inner)
        if base.why is not None and base.address is None:
            return Place(node.type, why=base.why)
        if base.address is not None and base.type is not None:
            offset = next((at for name, at, _ in base.type.fields if name == node.value), None)
            if offset is None or offset < 0:
                return Place(node.type, why=Unknown(f"the member {node.value} has no place"))
            return Place(node.type, moved(base.address, constant(offset)), why=base.why)
        if node.type is not None and node.type.kind == "array":
            key = self._hold(REAL if isinstance(blank(node.type), Real) else LOADED)
            return Place(node.type, Address(Array(node.value, "local", key, node.type), ZERO))
        return Place(node.type, base=base, member=node.value)

    # --- loads and stores -------------------------------------------------------------------------------

    def load(self, node: Node, place: Place) -> Value:
        """What a place holds; of memory, a load."""
        if place.base is not None:
            whole = self.load(node, place.base)
            if isinstance(whole, Record):
                return whole.members.get(place.member, UNSET)
            return REAL if isinstance(whole, Real) else unknown(whole)
        if place.address is not None:
            if place.type is not None and place.type.kind == "array":
                return place.why or place.address
            if place.address.array.space == "local":
                if place.why is not None:  # which element: what it points at is another array
                    return replace(place.why, array=None)
                return self.load_register(place.address, place.type)
            self.memory(node, "ld", place)
            return REAL if place.type is not None and isinstance(blank(place.type), Real) else LOADED
        if place.why is not None:
            if place.type is not None and place.type.kind != "array":
                self.touch(node, "ld", place.why, 0)
            return place.why
        if place.variable >= 0:
            declared = self.declaration(place.variable)
            if declared.name in self.geometry and declared.at_top:
                return self.geometry[declared.name]
            if place.variable not in self.variables and declared.init is not None:
                return self.value(declared.init)
            if place.variable not in self.variables and declared.at_top and declared.name in self.sets:
                given = self.sets[declared.name]
                return (
                    number(int(given), declared.type) if declared.type.kind == "int" else Real(float(given))
                )
        return self.variables.get(place.variable, UNSET)

    def store(self, node: Node, place: Place, value: Value | None = None) -> None:
        """Set a place; in memory, a store."""
        kept = self._kept if value is None else value
        if place.base is not None:
            whole = self.load(node, place.base)
            if isinstance(whole, Record):
                self.store(node, place.base, Record({**whole.members, place.member: kept}))
            return
        if place.address is not None:
            if place.address.array.space == "local":
                if place.why is not None:  # some element: none of them is known now
                    self.variables[place.address.array.key] = Cells({}, place.why)
                else:
                    self.store_register(place.address, kept)
            else:
                self.memory(node, "st", place)
            return
        if place.why is not None:
            self.touch(node, "st", place.why, 0)
            return
        self.variables[place.variable] = kept

    def _assigned(self, node: Node) -> Place:
        """The place that an assignment sets; its value is left in `_kept`."""
        left, right = node.part(0), node.children[1]
        if node.value:
            value = self.value(right)
            place = self.place(left)
            before = self.load(left, place)
            result = self.operated(node.value, before, value, left.type, left.type)
            self._kept = converted(result, left.type)
        else:
            value = self.value(right)
            place = self.place(left)
            self._kept = converted(value, left.type)
        return place

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
        if kind.bytes in WIDTHS and (kind.align >= kind.bytes or kind.kind != "record"):
            target: Address | Unknown = place.why if place.why is not None else address
            self.touch(
                node, f"{name}.b{8 * kind.bytes}", target, kind.bytes, address.array.name, address.array
            )
        elif kind.kind == "record" and kind.fields and all(at >= 0 for _, at, _ in kind.fields):
            for _, at, part in kind.fields:
                if part.kind == "array":
                    self.refuse(node, name, address.array.name, "an array in a struct is moved as a whole")
                else:
                    self.memory(node, verb, Place(part, moved(address, constant(at)), why=place.why))
        else:
            self.refuse(node, name, address.array.name, f"no instruction moves {kind.bytes} bytes per lane")


def _not(condition: Condition) -> Condition:
    return condition if isinstance(condition, Unknown) else negated(condition)


def _on_reals(op: str, a: Value, b: Value) -> Value:
    """Floating point numbers: known ones are compared, nothing else is computed."""
    x, y = (
        v.value
        if isinstance(v, Real)
        else float(v.exact.constant)
        if isinstance(v, Number) and v.exact.known
        else None
        for v in (a, b)
    )
    if op not in _COMPARED:
        return REAL
    if x is None or y is None:
        return Unknown("it depends on a floating point number that is not known")
    found = {"<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y, "==": x == y, "!=": x != y}[op]
    return number(int(found))
