"""CuTe in a kernel: calls of its functions are evaluated, and what a copy moves is an access.

The idea.  A variable whose type is one of CuTe's holds a value of `values`, wherever it is: the reader
hands it on as it is.  Where nothing was followed, the type of the expression is its value."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from layoutalg.errors import LayoutAlgError
from layoutalg.layout import Layout, flatten_tree, is_symbolic
from layoutalg.source.calls import Calls
from layoutalg.source.cute import functions
from layoutalg.source.cute.copies import Copies
from layoutalg.source.cute.declarations import MOVING
from layoutalg.source.cute.spelling import FAULTS, bits_of, read_type, value_of
from layoutalg.source.cute.values import Coordinates, Index, Tensor, Tiled, dynamic
from layoutalg.source.front import Node, Type
from layoutalg.source.machine import Place
from layoutalg.source.terms import ZERO
from layoutalg.source.values import (
    REAL,
    UNSET,
    Address,
    Array,
    Cells,
    Number,
    Object,
    Unknown,
    Value,
    unknown,
)

_TUPLES = frozenset({"make_tuple", "make_shape", "make_stride", "make_coord", "make_tile", "make_step"})
_POINTERS = frozenset({"make_gmem_ptr", "make_smem_ptr", "make_rmem_ptr", "raw_pointer_cast"})
_SILENT = frozenset(
    {"cp_async_fence", "cp_async_wait", "print", "print_tensor", "print_layout", "print_latex"}
)
_OPEN = re.compile(r"\b(?:(?:Tensor|pointer|Thr\w+)<|(?:int|long)\b)")
"""Types that do not say all of a value."""

_FRAGMENTS = ("make_tensor_like", "make_fragment_", "partition_fragment_")


def is_cute(kind: Type | None) -> bool:
    """Whether a type is one of CuTe's values."""
    name = kind.name.removeprefix("const ") if kind is not None else ""
    return name.startswith("cute::") and not name.startswith(("cute::array_aligned<", "cute::ArrayEngine<"))


def parameter_of(kind: Type, integer: Callable[[int], Value]) -> Value:
    """The value of a parameter of a kernel; `integer` gives its n-th int."""
    count = itertools.count()

    def leaf() -> Index:
        value = integer(next(count))
        return Index(value.exact if isinstance(value, Number) else unknown(value))

    try:
        return Object(value_of(read_type(kind.name), leaf))
    except FAULTS as error:
        return Unknown(_words(error))


class CuteCalls(Calls, Copies):
    """Calls of CuTe's functions."""

    def value(self, node: Node | None) -> Value:
        """The value of an expression; of CuTe's objects that are made from nothing, that of their type."""
        if node is not None and is_cute(node.type) and node.kind in ("construct", "init", "cast"):
            return self._object(node)
        return super().value(node)

    def _object(self, node: Node) -> Value:
        self.seen.add((node.line, node.column))
        nodes = [child for child in node.children if child is not None]
        kind = read_type(node.type.name if node.type is not None else "").name
        if len(nodes) == 1 and (node.kind == "cast" or (is_cute(nodes[0].type) and kind != "tuple")):
            return self.value(nodes[0])
        if not nodes:
            return self._typed(node.type)
        given = [self._given(child) for child in nodes]
        if kind == "tuple":
            return self._evaluated(lambda *parts: parts, given)
        return self._evaluated(functions.as_layout, given)

    def _typed(self, kind: Type | None) -> Value:
        """The value that a type says."""
        return self._evaluated(lambda: value_of(read_type(kind.name if kind is not None else "")), [])

    def call(self, node: Node) -> Value:
        """The value of a call."""
        name = node.value["name"]
        if not (node.value.get("within") or "").startswith("cute") or name in ("begin", "data_", "move"):
            return super().call(node)
        self.seen.add((node.line, node.column))
        return self._of_cute(node, name)

    def call_place(self, node: Node) -> Place:
        """The place of an element of a tensor, or of what another call returns."""
        name = node.value["name"]
        held = node.value.get("object")
        if name in ("operator()", "operator[]") and held is not None and is_cute(held.type) \
                and not is_cute(node.type):  # fmt: skip
            self.seen.add((node.line, node.column))
            of = self._given(held)
            point = [self._given(child) for child in node.children if child is not None]
            if isinstance(of, Unknown) or any(isinstance(p, Unknown) for p in point):
                why = next(v for v in (of, *point) if isinstance(v, Unknown))
                return Place(node.type, why=why)
            if isinstance(of, Tensor) and of.pointer is not None:
                try:
                    at = of.address(point[0] if len(point) == 1 else tuple(point))
                except FAULTS as error:
                    return Place(node.type, why=Unknown(_words(error)))
                if isinstance(at, Address):
                    return Place(node.type, at)
                array = at.array
                return Place(node.type, None if array is None else Address(array, ZERO), why=at)
        return super().call_place(node)

    # --- values -----------------------------------------------------------------------------------------

    def _given(self, node: Node) -> Any:
        """An argument as a value of CuTe: an integer as an Index, one of a static type as a number."""
        value = self.value(node)
        if isinstance(value, Object):
            return value.content
        kind = node.type
        if isinstance(value, Number):
            if kind is not None and is_cute(kind):
                return value_of(read_type(kind.name))
            return Index(value.exact)
        if isinstance(value, Unknown) and kind is not None and is_cute(kind):
            if value is UNSET or not _OPEN.search(kind.name):
                return self._content(self._typed(kind))
            return value
        if isinstance(value, Unknown) and kind is not None and kind.kind == "int":
            return Index(value)
        if isinstance(value, Address):
            return value
        return unknown(value) if isinstance(value, Unknown) else value

    def _content(self, value: Value) -> Any:
        return value.content if isinstance(value, Object) else value

    def _evaluated(self, function: Callable[..., Any], given: list[Any]) -> Value:
        """The value of a function, or why there is none."""
        for part in given:
            if isinstance(part, Unknown):
                return part
        try:
            return Object(function(*given))
        except FAULTS as error:
            return Unknown(_words(error))

    def _of_cute(self, node: Node, name: str) -> Value:
        held = node.value.get("object")
        nodes = [child for child in (held, *node.children) if child is not None and child.kind != "null"]
        if name in _SILENT:
            self.fence()
            return UNSET
        own = is_cute(node.type) or (held is not None and is_cute(held.type) and not node.children)
        if own and name.startswith("operator") and name not in ("operator()", "operator[]"):
            return self._converted(node, held)
        if name in ("operator()", "operator[]") and not is_cute(node.type) and held is not None \
                and "Tensor" in (held.type.name if held.type is not None else ""):  # fmt: skip
            return self.load(node, self.call_place(node))
        given = [self._given(child) for child in nodes]
        if name in MOVING:
            self.moved_by(node, name, given, nodes)
            return UNSET
        if name in _TUPLES:
            return self._evaluated(lambda *parts: parts, given)
        if name in _POINTERS:
            return self._pointer(given[0])
        if name == "make_tensor":
            return self._tensor(node, given)
        if name == "make_identity_tensor":
            return self._evaluated(lambda shape: Coordinates.of_shape(dynamic(shape)), given)
        if (name == "data" or name == "get") and isinstance(given[0], (Tensor, Address)):
            return given[0].pointer or UNSET if isinstance(given[0], Tensor) else given[0]
        if name in ("get_slice", "get_thread_slice"):
            return self._evaluated(lambda by, thread: Tiled(by.tiling, by.atom, thread), given)
        if name.startswith(_FRAGMENTS) and "Tensor" in (node.type.name if node.type is not None else ""):
            layout = self._evaluated(lambda *parts: functions.call(name, *parts), given)
            return self._registers(node, layout)
        numbers = self._numbers(node)
        if name == "operator()":
            name = "slice" if None in flatten_tree(tuple(given[1:])) else "at"
        if name == "recast" and isinstance(given[0], Tensor):
            made = _element(node.type)
            numbers = [given[0].bits, made[0] if made is not None else 0]
        before = [] if numbers is None else [numbers]
        value = self._evaluated(lambda *parts: functions.call(name, *before, *parts), given)
        return self._number(node, value)

    def _numbers(self, node: Node) -> list[int] | None:
        """The numbers in <...> of a call, as the parameters of the function say."""
        function = self.kernel.functions.get(node.value["function"])
        for key in function.parameters if function is not None else ():
            name = self.declaration(key).type.name
            if name.startswith(("cute::ints<", "cute::types<")):
                return value_of(read_type(name))  # type: ignore[no-any-return]
        return None

    def _converted(self, node: Node, held: Node | None) -> Value:
        """A static number as a plain one, or an operation on static numbers, whose type has the result."""
        kind = node.type if is_cute(node.type) or held is None else held.type
        return self._number(node, self._typed(kind))

    def _number(self, node: Node, value: Value) -> Value:
        """An integer that a function returns as a number of the kernel."""
        if not isinstance(value, Object) or is_cute(node.type):
            return value
        content = value.content
        if isinstance(content, Index) or type(content) is int or is_symbolic(content):
            total = Index.of(content).value
            if isinstance(total, Unknown):
                return total
            bits = 8 * node.type.bytes if node.type is not None and node.type.kind == "int" else 32
            return Number(total, bits, node.type.signed if node.type is not None else True)
        return value

    def _pointer(self, given: Any) -> Value:
        return given if isinstance(given, (Address, Unknown)) else unknown(given)

    def _tensor(self, node: Node, given: list[Any]) -> Value:
        """make_tensor: of a pointer, or of registers."""
        element = _element(node.type)
        if given and isinstance(given[0], Address):
            pointer, rest = given[0], given[1:]
        elif given and isinstance(given[0], Unknown) and not is_cute(node.part(0).type):
            return given[0]
        elif any(isinstance(part, Unknown) for part in given):
            return next(part for part in given if isinstance(part, Unknown))
        else:
            return self._registers(node, self._evaluated(functions.as_layout, given))
        if element is None:
            return Unknown("the element type of a tensor is not known")
        bits, kind = element
        return self._evaluated(
            lambda *parts: functions.tensor(pointer, functions.as_layout(*parts), bits, kind), rest
        )

    def _registers(self, node: Node, layout: Value) -> Value:
        """A tensor in registers."""
        element = _element(node.type)
        if isinstance(layout, Unknown) or not isinstance(layout, Object) or element is None:
            return (
                layout
                if isinstance(layout, Unknown)
                else Unknown("the element type of registers is not known")
            )
        bits, kind = element
        integer = kind in ("bool", "int", "unsigned int")
        one = Type(
            "int" if integer else "float", kind, max(bits // 8, 1), bool=kind == "bool", signed=kind == "int"
        )
        count = _count(layout.content)
        every = Type("array", f"{kind} [{count}]", one.bytes * count, extent=count, to=one)
        key = self.hold(Cells({}, UNSET) if integer else REAL, every)
        array = Array("a tensor in registers", "local", key, every)
        return self._evaluated(lambda: functions.tensor(Address(array, ZERO), layout.content, bits, kind), [])


def _count(layout: Any) -> int:
    from layoutalg.decide import cosize

    return int(cosize(layout)) if isinstance(layout, Layout) else 1


def _element(kind: Type | None) -> tuple[int, str] | None:
    """Bits and name of the elements of a Tensor type."""
    if kind is None:
        return None
    term = read_type(kind.name)
    if term.name != "Tensor" or term.arguments[0].name != "pointer":
        return None
    name = term.arguments[0].arguments[0]
    try:
        return bits_of(str(name)), str(name)
    except LayoutAlgError:
        return None


def _words(error: Exception) -> str:
    return error.message if isinstance(error, LayoutAlgError) else f"CuTe's arguments are not read: {error}"
