"""Calls of a kernel: device functions are read where they are called; intrinsics and asm by what they do."""

from __future__ import annotations

import re

from layoutalg.source.expressions import Expressions
from layoutalg.source.front import (
    Function,
    Instruction,
    Node,
    Type,
    address,
    leaves,
    memory_operations,
    statements,
    takes_values,
    touches_memory,
)
from layoutalg.source.machine import Condition, Frame, Place, inverse
from layoutalg.source.terms import (
    ZERO,
    Sum,
    add,
    constant,
    extreme,
    floor_div,
    floor_mod,
    multiply,
    scale,
    truth,
)
from layoutalg.source.unread import SILENT, is_number
from layoutalg.source.values import (
    LOADED,
    REAL,
    UNSET,
    Address,
    Number,
    Real,
    Record,
    Unknown,
    Value,
    blank,
    moved,
    unknown,
)

MOST_DEPTH = 40

_LOADS = frozenset({"__ldg", "__ldcg", "__ldca", "__ldcs", "__ldlu", "__ldcv"})
_STORES = frozenset({"__stwb", "__stcg", "__stcs", "__stwt"})
_SAME = frozenset(
    {"__cvta_generic_to_shared", "__cvta_generic_to_global", "__builtin_assume_aligned", "forward", "move"}
)
_COPIES = frozenset({"cvta", "cvt", "mov"})
"""Instructions after which the first operand is the second."""

_REASONS = {
    "load_matrix_sync": "which lanes wmma's loads ask for what is not documented",
    "store_matrix_sync": "which lanes wmma's stores write what is not documented",
    "memcpy_async": "how memcpy_async divides its bytes among threads is the library's",
}


class Calls(Expressions):
    """Calls, and asm statements."""

    def run(self, node: Node) -> bool:
        """Read a statement; see statements."""
        raise NotImplementedError

    def call(self, node: Node) -> Value:
        """The value of a call, with all that it touches."""
        function = self.kernel.functions.get(node.value["function"])
        name = node.value["name"]
        if (
            function is not None
            and function.body is not None
            and not name.startswith("operator ")
            and (not self._trivial(node, function))
        ):
            frame = self._inlined(node, function)
            if isinstance(frame, Unknown):
                return frame
            return frame.result if frame.place is None else self.load(node, frame.place)
        if name == "operator=" and node.value["object"] is not None:
            target = self.place(node.value["object"])
            value = self.value(node.children[0])
            self.store(node, target, value)
            return value
        return self._known(node, name)

    def call_place(self, node: Node) -> Place:
        """The place of a reference that a call returns; others are not known."""
        function = self.kernel.functions.get(node.value["function"])
        if (
            function is not None
            and function.body is not None
            and function.result is not None
            and (function.result.kind == "reference")
        ):
            frame = self._inlined(node, function)
            if isinstance(frame, Unknown):
                return Place(node.type, why=frame)
            return frame.place or Place(node.type, why=Unknown(f"what {function.name} returns"))
        value = self.call(node)
        if isinstance(value, Address) and node.type is not None and node.type.kind != "pointer":
            return Place(node.type, value)
        if isinstance(value, Record):
            return Place(node.type, variable=self._hold(value))
        return Place(node.type, why=unknown(value) if not isinstance(value, Real) else Unknown("a value"))

    def _trivial(self, node: Node, function: Function) -> bool:
        """A body that is the compiler's own."""
        return function.constructor

    # --- functions of the file --------------------------------------------------------------------------

    def _inlined(self, node: Node, function: Function) -> Frame | Unknown:
        """The frame of a device function that was read where it is called."""
        given = [child for child in node.children if child is not None]
        if function in self.functions or len(self.functions) >= MOST_DEPTH:
            for child in given:
                self.value(child)
            self.refuse(node, f"call {function.name}", "", f"{function.name} calls itself")
            return Unknown(f"{function.name} calls itself")
        this = None
        held = node.value["object"]
        if held is not None:
            if held.type is not None and held.type.kind == "pointer":
                target = self.value(held)
                this = Place(held.type.to, target) if isinstance(target, Address) else None
            elif held.type is not None and held.type.fields:
                this = self.place(held)
        bound: list[tuple[int, Value | Place]] = []
        for key, child in zip(function.parameters, given, strict=False):
            kind = self.declaration(key).type
            if kind.kind == "reference" and child.kind not in ("const", "init", "binary", "construct"):
                bound.append((key, self.place(child)))
            else:
                bound.append((key, self.value(child)))
        return self.entered(function, bound, this)

    def entered(
        self, function: Function, bound: list[tuple[int, Value | Place]], this: Place | None
    ) -> Frame:
        """The frame of a function whose parameters are bound, after it was read."""
        for key, what in bound:
            self.references.pop(key, None)
            if isinstance(what, Place):
                self.references[key] = what
            else:
                self.variables[key] = what
        self.functions.append(function)
        self.reached.add(function.name)
        with self.frame("function") as frame:
            frame.this = this
            if function.body is not None:
                self.run(function.body)
        self.functions.pop()
        return frame

    # --- intrinsics -------------------------------------------------------------------------------------

    def _known(self, node: Node, name: str) -> Value:
        held = node.value["object"]
        given = [child for child in node.children if child is not None]
        if held is not None:
            return self._method(node, name, held, given)
        found = [self.handed(child, name) for child in given]
        if name in _LOADS and (place := _pointed(found[0], node.type)) is not None:
            self.memory(node, "ld", place)
            return REAL if node.type is not None and isinstance(blank(node.type), Real) else LOADED
        if (
            name in _STORES
            and given[0].type is not None
            and (place := _pointed(found[0], given[0].type.to)) is not None
        ):
            self.memory(node, "st", place)
            return UNSET
        if name in _SAME:
            return found[0]
        if name == "__pipeline_memcpy_async":
            return self._copied(node, found)
        numbers = [v for v in found if isinstance(v, Number)]
        if name in ("min", "max") and len(numbers) == 2:
            return Number(
                extreme(name, numbers[0].exact, numbers[1].exact), numbers[0].bits, numbers[0].signed
            )
        if name == "__brev" and len(numbers) == 1 and numbers[0].exact.low >= 0:
            x = numbers[0].exact
            turned = [
                scale(floor_mod(floor_div(x, 1 << n), 2), 1 << (31 - n))
                for n in range(min(x.high.bit_length(), 32))
            ]
            return Number(add(*turned), 32, False)
        if name == "abs" and len(numbers) == 1:
            x = numbers[0].exact
            return Number(extreme("max", x, multiply(x, constant(-1))), 32, True)
        if name in ("__umul24", "__mul24") and len(numbers) == 2:
            if all(v.exact.low >= 0 and v.exact.high < 1 << 23 for v in numbers):
                return Number(multiply(numbers[0].exact, numbers[1].exact), 32, name == "__mul24")
            return Unknown(f"{name} of numbers past 23 bits")
        if name == "atomicAdd" and self._reduced(node, given, found):
            return LOADED
        return self._foreign(node, name, given, found)

    def _foreign(self, node: Node, name: str, given: list[Node], found: list[Value]) -> Value:
        """A call whose body is not in the file: not read where it is given an address."""
        if not takes_values(name) or "sync" in name or "fence" in name:
            self.fence()
        if name not in SILENT and (array := self.reaching(name, given, found)) is not None:
            reason = _REASONS.get(name) or f"what {name} does is not in the file"
            if name.startswith("atomic"):
                reason = "what an atomic operation costs depends on more than addresses"
            self.refuse(node, f"call {name}", array, reason)
        if node.type is not None and isinstance(blank(node.type), Real):
            return REAL
        if node.type is not None and node.type.kind == "void":
            return UNSET
        for value in found:
            if isinstance(value, Unknown) and value.name:
                return value
        return Unknown(f"it depends on what {name} returns")

    def _method(self, node: Node, name: str, held: Node, given: list[Node]) -> Value:
        """A method whose body is not in the file: of CUDA's own types."""
        found = [self.handed(child, name) for child in given]
        kind = held.type.name if held.type is not None else ""
        if name.startswith("operator") and is_number(held.type):  # of half and the like: the object is loaded
            self.value(held)
            return REAL
        if "cooperative_groups" not in kind:
            self.fence()
            array = self.reaching(name, [held, *given], [self.handed(held, name), *found])
            if array is not None:
                self.refuse(node, f"call {name}", array, f"what {name} does is not in the file")
            return Unknown(f"it depends on what {name} returns")
        self.seen.add((held.line, held.column))
        self.fence()
        return self._group(name, kind)

    def _group(self, name: str, kind: str) -> Value:
        """A number that a cooperative group knows: of a thread in its block or tile, or how many."""
        x, y, z = (one.constant for one in self._triple("blockDim"))
        a, b, c = self._triple("threadIdx")
        rank = add(a, scale(add(b, scale(c, y)), x))
        found = {"thread_rank": rank, "size": constant(x * y * z), "num_threads": constant(x * y * z)}
        tile = re.search(r"thread_block_tile<(\d+)", kind)
        if tile is not None:
            size = int(tile[1])
            found = {"thread_rank": floor_mod(rank, size), "meta_group_rank": floor_div(rank, size)}
            found |= {"size": constant(size), "num_threads": constant(size)}
        elif "grid_group" in kind:
            found = {}
        if name in found:
            return Number(found[name], 32, False)
        return Unknown(f"it depends on what {name} returns")

    def _triple(self, name: str) -> tuple[Sum, ...]:
        """x, y and z of threadIdx or blockDim."""
        whole = self.geometry[name]
        members = whole.members if isinstance(whole, Record) else {}
        return tuple(v.sum if isinstance(v, Number) else ZERO for v in (members.get(axis) for axis in "xyz"))

    def _copied(self, node: Node, found: list[Value]) -> Value:
        """__pipeline_memcpy_async(to, from, bytes)."""
        size = found[2].exact if len(found) > 2 and isinstance(found[2], Number) else None
        if size is None or not size.known or size.constant not in (4, 8, 16):
            self.refuse(node, "cp.async", "", "the number of bytes is no constant of 4, 8 or 16")
            return UNSET
        width = size.constant
        for value, op in zip(found, (f"cp.async.{width}", f"cp.async.{width}:global"), strict=False):
            self.touch(node, op, value if isinstance(value, Address) else unknown(value), width)
        return UNSET

    def _reduced(self, node: Node, given: list[Node], found: list[Value]) -> bool:
        """An atomic addition of 32-bit integers in shared memory is counted as red.shared."""
        target, kind = found[0], given[0].type
        place = _pointed(target, None)
        if place is None or place.address is None or place.address.array.space != "shared":
            return False
        if kind is None or kind.to is None:
            return False
        if kind.to.kind != "int" or kind.to.bytes != 4:
            return False
        self.touch(node, "red.shared.u32", place.why or place.address, 4, place.address.array.name)
        return True

    # --- asm --------------------------------------------------------------------------------------------

    def inline_asm(self, node: Node) -> None:
        """What the instructions of an asm statement touch; its outputs are not known afterwards."""
        self.seen.add((node.line, node.column))
        self.fence()
        if node.value is None:
            for child in node.children:
                self.value(child)
            self.refuse(node, "asm", "", "the text of the asm statement is not one of plain strings")
            return
        outputs, kept = node.value["outputs"], node.value["kept"]
        names: dict[str, Value] = {}
        for i, child in enumerate(node.children):
            if i >= outputs or i in kept:
                names[f"%{i}"] = self.value(child)
        predicates: dict[str, Condition] = {}
        found = statements(node.value["text"])
        for instruction in found:
            self._instruction(node, instruction, names, predicates)
        copied = {i.operands[0] for i in found if i.opcode.split(".")[0] in _COPIES and len(i.operands) == 2}
        written = {word for i in found if i.operands for word in re.findall(r"%\d+", i.operands[0])} - copied
        for i in range(outputs):
            child, name = node.part(i), f"%{i}"
            if i in kept and name not in written and name not in copied:
                continue
            result = LOADED if name in written else names.get(name, LOADED)
            real = child.type is not None and child.type.kind == "float"
            self.store(child, self.place(child), REAL if real else result)

    def _instruction(
        self, node: Node, instruction: Instruction, names: dict[str, Value], predicates: dict[str, Condition]
    ) -> None:
        op, operands = instruction.opcode, instruction.operands
        if op.startswith("setp.ne") and len(operands) == 3 and operands[2] in ("0", "0x0"):
            value = names.get(operands[1], UNSET)
            found: Condition = truth(value.exact) if isinstance(value, Number) else unknown(value)
            predicates[operands[0]] = found
            return
        if op.split(".")[0] in _COPIES and len(operands) == 2:
            names[operands[0]] = names.get(operands[1], LOADED)
            return
        if leaves(instruction):
            self.refuse(node, op, "", "what is executed after it is not followed")
            return
        if not touches_memory(instruction):
            return
        instruction = instruction._replace(operands=tuple(_immediate(o, names) for o in operands))
        condition = predicates.get(instruction.predicate, Unknown(f"the predicate {instruction.predicate}"))
        if not instruction.predicate:
            self._touched(node, instruction, names)
            return
        with self.under(inverse(condition) if instruction.negated else condition):
            self._touched(node, instruction, names)

    def _touched(self, node: Node, instruction: Instruction, names: dict[str, Value]) -> None:
        for operation in memory_operations(instruction):
            if not operation.op:
                self.refuse(node, instruction.opcode, "", "the analysis has no such instruction")
                continue
            place = address(operation.operand)
            target = names.get(place[0], UNSET) if place is not None else UNSET
            if place is None or not isinstance(target, Address):
                why = (
                    unknown(target)
                    if place is not None and target is not UNSET
                    else Unknown("its address is not plain")
                )
                self.touch(node, operation.op, why, operation.width)
                continue
            op = operation.op.replace(".generic.", f".{target.array.space}.")
            space = "global" if op.endswith(":global") or ".global." in op else "shared"
            if target.array.space != space:
                self.refuse(
                    node, op, target.array.name, f"{target.array.name} is in {target.array.space} memory"
                )
                continue
            self.touch(node, op, moved(target, constant(place[1])), operation.width)


def _pointed(value: Value, kind: Type | None) -> Place | None:
    """The place that a pointer points at, of which at least the array is known."""
    if isinstance(value, Address):
        return Place(kind, value)
    if isinstance(value, Unknown) and value.array is not None:
        return Place(kind, Address(value.array, ZERO), why=value)
    return None


def _address_given(given: list[Node], found: list[Value]) -> str | None:
    """The array of the first argument that is an address in memory, "" of one that is not known; or None."""
    for child, value in zip(given, found, strict=True):
        if child.kind == "text" or (child.kind == "cast" and child.children and child.children[0]
                                    and child.children[0].kind == "text"):  # fmt: skip
            continue
        if isinstance(value, Address) and value.array.space != "local":
            return value.array.name
        if isinstance(value, Unknown) and child.type is not None and child.type.kind == "pointer":
            return ""
    return None


def _holds_pointer(kind: Type) -> bool:
    """Whether an object is behind a pointer, or has one in it."""
    return kind.kind == "pointer" or any(_holds_pointer(inner) for _, _, inner in kind.fields)


def _immediate(operand: str, names: dict[str, Value]) -> str:
    """An operand that is a known number, as that number; others as they are written."""
    value = names.get(operand)
    if operand.startswith("%") and isinstance(value, Number) and value.exact.known:
        return str(value.exact.constant)
    return operand
