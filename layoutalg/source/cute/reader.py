"""CuTe in a kernel: calls of its functions are evaluated, and what a copy moves is an access.

The idea.  A variable whose type is one of CuTe's holds a value of `values`, wherever it is: the reader
hands it on as it is.  Where nothing was followed, the type of the expression is its value."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from layoutalg.errors import UnsupportedError
from layoutalg.layout import flatten_tree, is_symbolic
from layoutalg.source.calls import Calls
from layoutalg.source.cute import functions
from layoutalg.source.cute.copies import Copies
from layoutalg.source.cute.declarations import MOVING
from layoutalg.source.cute.spelling import FAULTS, bits_of, read_type, value_of, words_of
from layoutalg.source.cute.values import Index, Tensor
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

_POINTERS = frozenset({"make_gmem_ptr", "make_smem_ptr", "make_rmem_ptr", "raw_pointer_cast"})
_SILENT = frozenset(
    {"cp_async_fence", "cp_async_wait", "print", "print_tensor", "print_layout", "print_latex"}
)
_OPEN = re.compile(r"\b(?:(?:Tensor|pointer|Thr\w+)<|(?:int|long)\b)")
"""Types that do not say all of a value."""

_FRAGMENTS = ("make_tensor_like", "make_fragment_", "partition_fragment_")
_ELEMENTS = ("operator()", "operator[]")


def is_cute(kind: Type | None) -> bool:
    """Whether a type is one of CuTe's values."""
    name = kind.name.removeprefix("const ") if kind is not None else ""
    return name.startswith("cute::") and not name.startswith(("cute::array_aligned<", "cute::ArrayEngine<"))


def _is_tensor(kind: Type | None) -> bool:
    return kind is not None and is_cute(kind) and "Tensor" in kind.name


def parameter_of(kind: Type, integer: Callable[[int], Value]) -> Value:
    """The value of a parameter of a kernel; `integer` gives its n-th int."""
    count = itertools.count()

    def leaf() -> Index:
        value = integer(next(count))
        return Index(value.exact if isinstance(value, Number) else unknown(value))

    return _evaluated(lambda: value_of(read_type(kind.name), leaf))


def _evaluated(function: Callable[..., Any], *given: Any) -> Value:
    """The value of a function, or why there is none."""
    for part in given:
        if isinstance(part, Unknown):
            return part
    try:
        return Object(function(*given))
    except FAULTS as error:
        return Unknown(words_of(error))


def _typed(kind: Type | None) -> Value:
    """The value that a type says."""
    return _evaluated(lambda: value_of(read_type(kind.name if kind is not None else "")))


class CuteCalls(Calls, Copies):
    """Calls of CuTe's functions."""

    def value(self, node: Node | None) -> Value:
        """The value of an expression; of CuTe's objects that are made from nothing, that of their type."""
        if node is not None and is_cute(node.type) and node.kind in ("construct", "init", "cast"):
            return self._object(node)
        return super().value(node)

    def _object(self, node: Node) -> Value:
        self.seen.add((node.line, node.column))
        nodes = node.below
        kind = read_type(node.type.name if node.type is not None else "").name
        if len(nodes) == 1 and (node.kind == "cast" or (is_cute(nodes[0].type) and kind != "tuple")):
            return self.value(nodes[0])
        if not nodes:
            return _typed(node.type)
        function = "make_tuple" if kind == "tuple" else "make_layout"
        return _evaluated(functions.OWN[function], *map(self._given, nodes))

    def call(self, node: Node) -> Value:
        """The value of a call."""
        name = node.value["name"]
        if not (node.value.get("within") or "").startswith("cute") or name in ("begin", "data_", "move"):
            return super().call(node)
        self.seen.add((node.line, node.column))
        return self._of_cute(node, name)

    def call_place(self, node: Node) -> Place:
        """The place of an element of a tensor, or of what another call returns."""
        held = node.value.get("object")
        if not self._is_element(node, held):
            return super().call_place(node)
        self.seen.add((node.line, node.column))
        nodes = (held, *node.below)
        made = _evaluated(Tensor.address, *map(self._given, nodes))
        at: Any = made.content if isinstance(made, Object) else made
        if isinstance(at, Address):
            return Place(node.type, at)
        array = at.array if isinstance(made, Object) else None
        return Place(node.type, None if array is None else Address(array, ZERO), why=at)

    def _is_element(self, node: Node, held: Node | None) -> bool:
        named = node.value["name"] in _ELEMENTS and held is not None and _is_tensor(held.type)
        return named and not is_cute(node.type)

    # --- values -----------------------------------------------------------------------------------------

    def _given(self, node: Node) -> Any:
        """An argument as a value of CuTe: an integer as an Index, one of a static type as a number."""
        value, kind = self.value(node), node.type
        if kind is not None and is_cute(kind):
            said = value is UNSET or not _OPEN.search(kind.name)
            if isinstance(value, Number) or (isinstance(value, Unknown) and said):
                value = _typed(kind)
        elif isinstance(value, Number):
            return Index(value.exact)
        elif isinstance(value, Unknown) and kind is not None and kind.kind == "int":
            return Index(value)
        return value.content if isinstance(value, Object) else value

    def _of_cute(self, node: Node, name: str) -> Value:
        held = node.value.get("object")
        nodes = [child for child in (held, *node.children) if child is not None and child.kind != "null"]
        if name in _SILENT:
            self.fence()
            return UNSET
        if name == "with":  # it takes a reference to a barrier, and loads nothing
            return _typed(node.type)
        own = is_cute(node.type) or (held is not None and is_cute(held.type) and not node.children)
        if own and name.startswith("operator") and name not in _ELEMENTS:
            # an operation on static numbers has its result in its type, one that makes a plain number before
            return self._number(node, _typed(node.type if is_cute(node.type) or held is None else held.type))
        if self._is_element(node, held):
            return self.load(node, self.call_place(node))
        given = [self._given(child) for child in nodes]
        first: Any = given[0] if given else None
        if name in MOVING:
            self.moved_by(node, name, given, nodes)
            return UNSET
        if name in _POINTERS:
            return first if isinstance(first, (Address, Unknown)) else unknown(first)
        if name == "as_position_independent_swizzle_tensor":
            return Object(first) if isinstance(first, Tensor) else unknown(first)
        if name in ("data", "get") and isinstance(first, (Tensor, Address)):
            return (first.pointer or UNSET) if isinstance(first, Tensor) else first
        if name == "make_tensor" and isinstance(first, Address):
            return _evaluated(
                lambda *parts: functions.tensor(first, functions.as_layout(*parts), *_element(node.type)),
                *given[1:],
            )
        if name == "make_tensor":
            return self._registers(node, _evaluated(functions.as_layout, *given))
        if name.startswith(_FRAGMENTS) and _is_tensor(node.type):
            return self._registers(node, _evaluated(functions.OWN[name], *given))
        if name == "recast" and isinstance(first, Tensor):
            return _evaluated(lambda: functions.recast([first.bits, _element(node.type)[0]], first))
        numbers = self._numbers(node)
        if name == "operator()":
            name = "slice" if None in flatten_tree(tuple(given[1:])) else "at"
        return self._number(node, _evaluated(lambda *parts: functions.call(name, *parts), *numbers, *given))

    def _numbers(self, node: Node) -> list[Any]:
        """The numbers in <...> of a call, as the parameters of the function say, as its first argument."""
        function = self.kernel.functions.get(node.value["function"])
        keys = function.parameters if function is not None else ()
        names = (self.declaration(key).type.name for key in keys)
        return [value_of(read_type(n)) for n in names if n.startswith(("cute::ints<", "cute::types<"))]

    def _number(self, node: Node, value: Value) -> Value:
        """An integer that a function returns as a number of the kernel."""
        content = value.content if isinstance(value, Object) else None
        if is_cute(node.type) or not (
            isinstance(content, Index) or type(content) is int or is_symbolic(content)
        ):
            return value
        total, kind = Index.of(content).value, node.type
        if isinstance(total, Unknown):
            return total
        whole = kind is not None and kind.kind == "int"
        return Number(total, 8 * kind.bytes if whole and kind else 32, kind.signed if kind else True)

    def _registers(self, node: Node, layout: Value) -> Value:
        """A tensor in registers."""
        if not isinstance(layout, Object):
            return layout

        def made() -> Tensor:
            bits, kind = _element(node.type)
            integer = kind in ("bool", "int", "unsigned int")
            element = Type(
                "int" if integer else "float", kind, max(bits // 8, 1), bool=kind == "bool",
                signed=kind == "int",
            )  # fmt: skip
            count = functions.call("cosize", [], layout.content)
            every = Type("array", f"{kind} [{count}]", element.bytes * count, extent=count, to=element)
            key = self.hold(Cells({}, UNSET) if integer else REAL, every)
            array = Array("a tensor in registers", "local", key, every)
            return functions.tensor(Address(array, ZERO), layout.content, bits, kind)

        return _evaluated(made)


def _element(kind: Type | None) -> tuple[int, str]:
    """Bits and name of the elements of a Tensor type.  Raises UnsupportedError where they are not known."""
    term = read_type(kind.name if kind is not None else "")
    if term.name != "Tensor" or term.arguments[0].name != "pointer":
        raise UnsupportedError("the element type of a tensor is not known")
    name = str(term.arguments[0].arguments[0])
    return bits_of(name), name
