"""Values of a kernel's expressions; a kind of node that is not here makes unknown what it may change."""

from __future__ import annotations

from dataclasses import replace

from layoutalg.source.front import Node, Type
from layoutalg.source.machine import Place
from layoutalg.source.places import LVALUE, Places
from layoutalg.source.terms import (
    ONE,
    ZERO,
    Sum,
    add,
    bits,
    compare,
    constant,
    divide,
    floor_div,
    minus,
    multiply,
    negated,
    remainder,
    scale,
    select,
    table_of,
    truth,
)
from layoutalg.source.unread import is_number
from layoutalg.source.values import (
    REAL,
    UNSET,
    Address,
    Cells,
    Closure,
    Code,
    Condition,
    Number,
    Quotient,
    Real,
    Record,
    Unknown,
    Value,
    apart,
    arrays_in,
    blank,
    chosen,
    conjunction,
    converted,
    disjunction,
    fitted,
    inverse,
    lost,
    moved,
    number,
    only_real,
    present,
    unknown,
    written,
)

_COMPARED = frozenset({"<", ">", "<=", ">=", "==", "!="})
_START = 1024
_BITS = {"&": "and", "|": "or", "^": "xor"}


class Expressions(Places):
    """Values and places of expressions."""

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
                self.assigned(node)
                return self._kept
            case "cond":
                return self.either_way(node, self.value, chosen)
            case "call":
                return self.call(node)
            case "construct":
                return self._constructed(node)
            case "init":
                return self._listed(node)
            case "asm":
                self.inline_asm(node)
                return UNSET
            case "text" | "null":
                return UNSET
            case "function":
                return Code(node.value)
            case "lambda":
                return self._lambda(node)
            case "statements":
                for child in node.children[:-1]:
                    if child is not None:
                        self.run(child)
                return self.value(node.children[-1]) if node.children else UNSET
            case "this":
                place = self.this()
                if place is None:
                    return Unknown("an object that is not known")
                return self.address_of(place)
        why = f"{node.value or node.kind} at {node.place} is not read"
        self.unlisted(node)
        if node.children or node.kind != "other":
            self.poison(node, why)
        return Unknown(why)

    def effect(self, node: Node | None) -> None:
        """Read an expression whose value nobody takes: the place that a call returns is not loaded."""
        if node is not None and node.kind == "binary" and node.value == ",":
            self.effect(node.part(0))
            self.effect(node.part(1))
        elif node is not None and node.kind == "cast" and node.value == "PAREN_EXPR":
            self.effect(node.part(0))
        elif node is not None and node.kind == "call" and self.refers(node):
            self.call_place(node)
        else:
            self.value(node)

    def refers(self, node: Node) -> bool:
        """Whether a call returns a reference."""
        function = self.kernel.functions.get(node.value["function"])
        return function is not None and function.result is not None and function.result.kind == "reference"

    def _lambda(self, node: Node) -> Value:
        """A lambda, with what it copies; what it has by reference may be set from elsewhere."""
        for child in node.children:
            self.value(child)
        copies = {}
        for key in node.value:
            place = self.references.get(key)
            copies[key] = self.variables.get(key, UNSET) if place is None else self.load(node, place)
        return Closure(copies)

    _kept: Value = UNSET
    """The value that the last assignment stored."""

    def condition(self, node: Node | None) -> Condition:
        """An expression as a condition: 0 or 1 per thread, or why it is not known."""
        if node is None:
            return ONE
        inner = node
        while inner.kind == "cast" and inner.children[0] is not None:
            inner = inner.children[0]
        if inner.kind == "binary" and inner.value in ("&&", "||"):
            return self._of_two(inner)
        if (inner.kind, inner.value) == ("unary", "!"):
            return inverse(self.condition(inner.part(0)))
        value = self.value(node)
        if isinstance(value, Number):
            return truth(value.exact)
        if isinstance(value, Real) and value.value is not None:
            return ONE if value.value else ZERO
        if isinstance(value, Address):
            return present(value)
        return self.asked(node, value)

    def _of_two(self, node: Node) -> Condition:
        """Two conditions, of which the second is asked where the first does not decide."""
        left, right = node.children
        join, first = (conjunction if node.value == "&&" else disjunction), self.condition(left)
        rest = first if node.value == "&&" else inverse(first)
        return join(first, self.only_where(rest, lambda: self.condition(right)))

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
            return self.address_of(self.place(inner))
        if node.type is not None and node.type.kind == "void":
            self.effect(inner)
            return UNSET
        if node.value == LVALUE and node.type is not None and node.type.kind in ("int", "float", "pointer"):
            return self.load(node, self.place(node))
        value = self.value(inner)
        to, of = node.type, inner.type
        if to is None or of is None:
            return converted(value, to)
        if to.kind == "record":
            if of.name.removeprefix("const ") == to.name.removeprefix("const "):
                return value
            return value if of.kind != "record" else blank(to)
        if isinstance(value, Address) and to.kind == of.kind == "pointer" and to.to and of.to \
                and to.to.name.removeprefix("const ") in of.to.others:  # fmt: skip
            return Unknown(f"an address becomes that of a base behind others, {to.to.name}")
        return converted(value, to)

    def _unary(self, node: Node) -> Value:
        op, inner = node.value, node.part(0)
        if op == "*":
            function = node.type is not None and node.type.kind == "other"
            return self.value(inner) if function else self.load(node, self.place(node))
        if op == "&":
            if inner.kind == "function":
                return self.value(inner)
            return self.address_of(self.place(inner))
        if op in ("x++", "x--", "++x", "--x"):
            return self.stepped(node, self.place(inner))
        if op == "?":
            self.poison(node, f"an operator at {node.place} is not read")
            return Unknown(f"an operator at {node.place} is not read")
        value = self.value(inner)
        if op == "!":
            if isinstance(value, Number):
                return Number(negated(truth(value.exact)), 8, False)
            if isinstance(value, Real) and value.value is not None:
                return number(int(not value.value), node.type)
            return replace(unknown(value), array=None)
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

    def stepped(self, node: Node, place: Place) -> Value:
        """x++ and its like on a place."""
        op, kind = node.value, node.part(0).type
        before = self.load(node, place)
        by = number(1 if "+" in op else -1)
        integer = kind is not None and kind.kind == "int"
        after = self.operated("+", before, by, promoted(kind) if integer and kind is not None else kind)
        stored = self.store_as(node.part(0), place, after)
        return before if op.startswith("x") else stored

    def _binary(self, node: Node) -> Value:
        op = node.value
        left, right = node.children
        if op in ("&&", "||"):
            both = self._of_two(node)
            if isinstance(both, Sum):
                return Number(both, 8, False)
            return Unknown(both.why, both.name, both.carried, data=both.data)
        if op == ",":
            self.effect(left)
            return self.value(right)
        return self.operated(op, self.value(left), self.value(right), node.type, left.type if left else None)

    def operated(self, op: str, a: Value, b: Value, result: Type | None, of: Type | None = None) -> Value:
        """a op b as C computes it; `of` is the type of a, which says how far a pointer moves."""
        part = _part(op, a, b, result)
        if part is not None:
            return part
        if isinstance(a, Address) or isinstance(b, Address):
            return self._on_addresses(op, a, b, result, of)
        if isinstance(a, Unknown) or isinstance(b, Unknown):
            if result is not None and result.kind == "int" and _is_zero(op, a, b):
                return number(0, result)
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
        if op in ("<<", ">>"):
            shifted = _shifted(op, a.sum if op == "<<" else x, y, width)
            if shifted is None:
                return Unknown("a shift by a number that is not known, or past its type", carried=True)
            return Number(shifted, width, signed)
        if op in _BITS:
            return Number(bits(_BITS[op], x, y), width, signed)
        computed = divide(x, y) if op == "/" else remainder(x, y) if op == "%" else None
        if computed is None:
            return Unknown(f"'{op}' by a number that may be zero, or of negative numbers")
        return Number(computed, width, signed)

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
        pointers = of is None or of.kind == "pointer"
        if op in ("==", "!=") and pointers and (isinstance(a, Number) or isinstance(b, Number)):
            there = next(present(each) for each in (a, b) if isinstance(each, Address))
            return Number(there if op == "!=" else negated(there), 8, False)  # a number and a pointer: null
        if isinstance(b, Address):
            a, b = b, a
            if op == "-":
                return Unknown("a number less an address")
        if not (isinstance(a, Address) and isinstance(b, Number)):
            why = unknown(b) if isinstance(a, Address) else unknown(a)
            array = a.array if isinstance(a, Address) else None
            if op in ("+", "-"):
                return replace(why, array=array)
            return Unknown(f"'{op}' on an address and a number that is not known", why.name, why.carried,
                           data=why.data)  # fmt: skip
        if op in ("+", "-"):
            return moved(a, scale(b.exact, size if op == "+" else -size))
        if op in _BITS and a.array.space == "shared":
            return Address(a.array, bits(_BITS[op], a.offset, b.exact))
        if op == "<<" and b.exact.known and b.exact.constant == 0:
            return a
        return Unknown(f"'{op}' on an address of {a.array.name}")

    def _constructed(self, node: Node) -> Value:
        nodes = node.below
        name = node.type.name.replace("const ", "") if node.type is not None else ""
        if (
            self.kernel.functions.get(node.value) is None or self.kernel.functions[node.value].body is None
        ) and (
            len(nodes) == 1
            and nodes[0].type is not None
            and node.type is not None
            and (nodes[0].type.name.replace("const ", "") == name)
        ):
            return self.value(nodes[0])
        self._made(node)
        made = self.constructed(node) if name != "dim3" else None
        if made is not None:
            return made
        values = [self.handed(child, "") for child in nodes]
        for value in values:
            self.lose(arrays_in(value), Unknown(f"a constructor of {name} has its address"))
        if name == "dim3":
            sizes = [*values, *[number(1)] * 3][:3]
            sizes = [number(1) if child is UNSET else child for child in sizes]
            return Record(dict(zip("xyz", sizes, strict=True)))
        array = None if is_number(node.type) else self.reaching("", nodes, values)
        if array is not None:
            self.fence()
            self.refuse(node, f"construct {name}", array, f"{name} is made of its address")
        elif self.touches_memory(self.kernel.functions.get(node.value)):
            self.fence()
            self.refuse(node, f"construct {name}", "", f"what the constructor of {name} does is not read")
        if values and all(isinstance(v, Real) for v in values):
            return REAL
        return blank(node.type)

    def _made(self, node: Node) -> None:
        """Tell of initializers of members and bases that are not followed."""
        if node.type is not None and node.type.makes:
            self.fence()
            what = f"what initializers in {node.type.name} do is not read"
            self.refuse(node, f"construct {node.type.name}", "", what)
            self.stray(Unknown(what))

    def _listed(self, node: Node) -> Value:
        """The value of a list in braces; where the front end has more in it than values, it is not known."""
        kind = node.type
        nodes = node.below
        parts = [self.value(child) for child in nodes]
        if kind is None:
            return UNSET
        if kind.kind in ("int", "pointer", "float"):
            return converted(parts[0], kind) if parts else number(0, kind)
        if len(parts) < len(kind.fields):
            self._made(node)
        wanted: list[Type] = []
        if kind.kind == "record":
            wanted = [t for _, _, t in kind.fields][: 1 if kind.union else None]
        elif kind.kind == "array" and kind.to is not None:
            wanted = [kind.to] * kind.extent
        plain = len(parts) <= len(wanted) and kind.plain
        for child, t in zip(nodes, wanted, strict=False):
            if t.kind == "reference":
                self.escape(self.place(child))
            inner = child.type.kind if child.type is not None else "other"
            plain = plain and child.kind != "other" and (inner in ("array", "record")) == (
                t.kind in ("array", "record"))  # fmt: skip
        if not plain or isinstance(blank(kind), Real):
            return lost(kind, Unknown("what a list in braces sets is not followed"))
        if kind.kind == "array":
            made: Value = Cells({}, number(0))
            for i, (part, t) in enumerate(zip(parts, wanted, strict=False)):
                made = written(made, kind, i * t.bytes, t, part)
            return made
        members: dict[str, Value] = {}
        for i, (name, _, t) in enumerate(kind.fields):
            value = fitted(converted(parts[i], t), kind.narrow.get(name)) if i < len(parts) else zero(t)
            members[name] = lost(t, UNSET) if kind.union and i else value
        return Record(members)

    def assigned(self, node: Node) -> Place:
        """The place that an assignment has set."""
        left, right = node.part(0), node.part(1)
        value = self.value(right)
        place = self.place(left)
        if node.value:
            before = self.load(left, place)
            value = self._compound(node.value, before, value, left.type, right.type)
        self._kept = self.store_as(left, place, value)
        return place

    def _compound(self, op: str, a: Value, b: Value, left: Type | None, right: Type | None) -> Value:
        """The value of `a op= b` before it is converted to the type of a."""
        if left is None or right is None or left.kind != "int" or right.kind != "int":
            return self.operated(op, a, b, left, left)
        of = promoted(left)
        if op not in ("<<", ">>"):
            of = common(of, promoted(right))
            b = converted(b, of)
        return self.operated(op, converted(a, of), b, of, of)


def promoted(kind: Type) -> Type:
    """The type in which arithmetic on an integer is done."""
    if kind.bytes >= 4:
        return kind
    return Type("int", "int", 4, 4, True)


def common(a: Type, b: Type) -> Type:
    """The type in which two integers are computed with each other, both of them promoted."""
    if a.bytes != b.bytes:
        return a if a.bytes > b.bytes else b
    return b if a.signed else a


def zero(kind: Type) -> Value:
    """The value of a member that a list in braces leaves out."""
    if kind.kind in ("int", "pointer"):
        return number(0, kind)
    if only_real(kind):
        return REAL
    if kind.kind == "array":
        return Cells({}, number(0))
    if kind.kind == "record" and kind.plain:
        return Record({name: zero(t) for name, _, t in kind.fields})
    return UNSET


def _shifted(op: str, x: Sum, y: Sum, width: int) -> Sum | None:
    """x shifted by each number that y may be; None where one of them is not below the width of the type."""
    if y.low < 0 or y.high >= min(width, 63) or y.high - y.low >= 32:
        return None
    if op == "<<":
        return multiply(x, table_of(y, [1 << n for n in range(y.high + 1)]))
    out = floor_div(x, 1 << y.high)
    for n in range(y.low, y.high):
        out = select(compare("==", y, constant(n)), floor_div(x, 1 << n), out)
    return out


def _part(op: str, a: Value, b: Value, result: Type | None) -> Value | None:
    """A remainder, a quotient or bits of an address by a constant; None for anything else.

    Arrays start at multiples of 1024 bytes, which powers of two up to that divide.
    """
    if isinstance(a, Address) and a.array.space != "local":
        wide = result is not None and (result.bytes == 8 or not result.signed)  # else it may be negative
        if op == "&" or a.array.space == "shared" or wide:
            a = Quotient(a.offset, _START)
    if not (isinstance(a, Quotient) and isinstance(b, Number) and b.exact.known):
        return None
    by = b.exact.constant
    if op in ("/", ">>"):
        by = 1 << by if op == ">>" and 0 <= by < 32 else by if op == "/" else 0
        return Quotient(floor_div(a.sum, by), a.step // by) if by > 0 and a.step % by == 0 else None
    mask = by - (op == "%")
    if op in ("&", "%") and 0 <= mask < a.step and (op == "&" or not (mask + 1) & mask):
        return Number(bits("and", a.sum, constant(mask)), 64, False)
    return None


def _is_zero(op: str, a: Value, b: Value) -> bool:
    """Whether an operation with a number that is not known is zero, as where a zero is multiplied by it."""
    zero = [isinstance(v, Number) and v.exact.known and not v.exact.constant for v in (a, b)]
    return any(zero) if op in ("*", "&") else zero[0] and op in ("/", "%", "<<", ">>")


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
    holds = {"<": x < y, ">": x > y, "<=": x <= y, ">=": x >= y, "==": x == y, "!=": x != y}[op]
    return number(int(holds))
