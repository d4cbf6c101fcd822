"""Statements of a kernel, asm statements too, read once for all threads."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

from layoutalg.errors import UnsupportedError
from layoutalg.source.costs import lane_variables
from layoutalg.source.cute import CuteCalls, is_cute
from layoutalg.source.front import (
    Function,
    Instruction,
    Node,
    Type,
    address,
    leaves,
    memory_operations,
    reason,
    statements,
    touches_memory,
)
from layoutalg.source.machine import Frame
from layoutalg.source.terms import ONE, ZERO, Sum, add, compare, constant, floor_mod, scale, truth
from layoutalg.source.values import (
    LOADED,
    REAL,
    UNSET,
    Address,
    Condition,
    Number,
    Record,
    Unknown,
    Value,
    arrays_in,
    blank,
    chosen,
    conjunction,
    converted,
    disjunction,
    inverse,
    moved,
    number,
    unknown,
)

_OPERATORS = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^", "shl": "<<"}
_INTEGERS = frozenset(f"{sign}{bits}" for sign in "usb" for bits in (32, 64))
_SHUFFLES = {"idx": "", "up": "up", "down": "down", "bfly": "xor"}
_GEOMETRY = {"tid": "threadIdx", "ctaid": "blockIdx", "ntid": "blockDim", "nctaid": "gridDim"}


class Statements(CuteCalls):
    """Statements; `run` says whether what follows in the block is never reached."""

    def run(self, node: Node) -> bool:
        """Read a statement; True when no lane that came here goes on behind it."""
        self.step()
        match node.kind:
            case "block" | "decl":
                return self._block(node)
            case "var":
                self._declared(node)
                return False
            case "if":
                return self._branch(node)
            case "for" | "while" | "do":
                return self.loop(node)
            case "return":
                return self._returned(node)
            case "break" | "continue":
                self.leave("break" if node.kind == "break" else "turn")
                return True
            case "null":
                for first, last, text in self.removed:
                    if first <= node.line <= last:
                        self.gone(text)
                return False
            case "label":
                return self._block(node)
            case "switch":
                self._switch(node)
                return False
            case "goto":  # all that it may skip or repeat is a region
                return False
            case "case" | "default" | "other":
                self.unlisted(node)
                self.poison(node, f"{node.value or node.kind} is not read")
                return False
        self.effect(node)
        return False

    def prepare(self, function: Function) -> None:
        """Find the jumps of a function, once."""
        if function.body is not None and id(function.body) not in self.prepared:
            self.prepared.add(id(function.body))
            self.jumps |= jumps_of(function.body)

    def _block(self, node: Node) -> bool:
        """Statements in order, to the first behind which nothing is reached."""
        regions = self.jumps.get(id(node), ())
        at = 0
        while at < len(node.children):
            end = next((last for first, last in regions if first == at), None)
            if end is not None:
                self.region(
                    [c for c in node.children[at:end] if c is not None], "a jump may skip or repeat it"
                )
                at = end
                continue
            child = node.children[at]
            at += 1
            if child is not None and self.run(child):
                return True
        return False

    def _declared(self, node: Node) -> None:
        key, static = node.value
        self.seen.add((node.line, node.column))
        declared = self.declaration(key)
        self.references.pop(key, None)
        if declared.space != "local" or static:
            if declared.space == "shared":
                self.shared[key] = declared
            return
        init = node.children[0] if node.children else None
        if declared.type.kind == "reference" and init is not None:
            place = self.place(init)
            self.escape(place)
            if place.address is not None:
                named = self.named(key, place.address)
                place = replace(place, address=named) if isinstance(named, Address) else place
            self.references[key] = place
            return
        if declared.type.ends:
            self._ends(node, declared.type.name)
        if init is None:
            self.variables[key] = blank(declared.type)
            return
        value = self.value(init)
        if declared.type.kind in ("int", "float", "pointer"):
            value = converted(value, declared.type)
        elif declared.type.kind == "record" and isinstance(value, Unknown) and not is_cute(declared.type):
            value = blank(declared.type) if value is UNSET else value
        elif declared.type.kind == "array" and isinstance(value, (Unknown, Address)):
            value = blank(declared.type)
        self.variables[key] = self.named(key, value)

    def _branch(self, node: Node) -> bool:
        parts = node.below
        if len(parts) not in (2, 3):
            self.poison(node, "the form of an if statement is not read")
            return False
        test, yes, no = parts[0], parts[1], parts[2] if len(parts) > 2 else None
        condition = self.condition(test)
        if isinstance(condition, Sum) and condition.known:
            taken, other_way = (yes, no) if condition.constant else (no, yes)
            if other_way is not None:
                self.untaken(lambda: self.run(other_way))
            return self.run(taken) if taken is not None else False
        before = dict(self.variables)
        with self.under(condition):
            ended = self.run(yes)
        first = self.variables
        self.variables = dict(before)
        other = False
        if no is not None:
            with self.under(inverse(condition)):
                other = self.run(no)
        if ended and not other:
            return False
        self.variables = first if other and not ended else self.merge(condition, first, self.variables)
        return ended and other

    def _returned(self, node: Node) -> bool:
        result: Value = UNSET
        place = None
        kind = self.functions[-1].result if self.functions else None
        if node.children and node.children[0] is not None:
            if kind is not None and kind.kind == "reference":
                place = self.place(node.children[0])
            else:
                result = self.value(node.children[0])
        at = max(i for i, e in enumerate(self.stack) if isinstance(e, Frame) and e.kind == "function")
        condition = self.here(at)
        frame = self.stack[at]
        if isinstance(condition, Sum) and condition.known and not condition.constant:
            return True
        if place is not None and isinstance(frame, Frame):
            before = frame.place
            frame.place = place if before is None else self.either_place(condition, place, before)
        elif isinstance(frame, Frame):
            before_value = frame.result
            frame.result = result if before_value is UNSET else chosen(condition, result, before_value)
        self.leave("function")
        return True

    def _ends(self, node: Node, name: str) -> None:
        """A destructor runs somewhere behind: what it does there is not followed."""
        self.refuse(node, f"destroy {name}", "", "when a destructor runs is not followed")
        self.leave_unknown(Unknown(f"a destructor of {name} runs"))

    def leave_unknown(self, why: Unknown) -> None:
        """Whether a lane of this function goes on is not known from here on."""
        with self.under(why):
            self.leave("function")

    # --- asm --------------------------------------------------------------------------------------------

    def inline_asm(self, node: Node) -> None:
        """Read the accesses of an asm statement; its outputs are not known afterwards."""
        self.seen.add((node.line, node.column))
        self.fence()
        if node.value is None:
            for child in node.children:
                self.value(child)
                if child is not None:
                    self.lose(self.roots(child), Unknown("an asm statement may set it"))
            self.stray(Unknown("an asm statement may set it"))
            self.refuse(node, "asm", "", "the text of the asm statement is not one of plain strings")
            return
        outputs, updated = node.value["outputs"], node.value["kept"]
        names: dict[str, Value] = {}
        for i, child in enumerate(node.children):
            if i >= outputs or i in updated:
                names[f"%{i}"] = self.value(child)
        start = dict(names)
        instructions = statements(node.value["text"])
        for value in names.values():
            self.lose(arrays_in(value), Unknown("an asm statement has its address"))
        predicates: dict[str, Condition] = {}
        if any(map(leaves, instructions)):
            opcodes = {i.opcode.split(".")[0] for i in instructions}
            if opcodes & {"exit", "ret"}:  # which threads come to the accesses behind it?
                raise UnsupportedError(f"{node.place}: asm that ends threads is not followed")
            if "call" in opcodes:
                self.refuse(node, "call", "", "what is executed by a call in asm is not followed")
            with self.under(Unknown("a jump in an asm statement")):
                for instruction in instructions:
                    self._instruction(node, instruction, names, predicates)
            names = {}
            updated = []
        else:
            for instruction in instructions:
                self._instruction(node, instruction, names, predicates)
        before = dict(names)
        for i in range(outputs):
            child, name = node.part(i), f"%{i}"
            if i in updated and names.get(name) is start.get(name):
                continue
            real = child.type is not None and child.type.kind == "float"
            self.store(child, self.place(child), REAL if real else before.get(name, LOADED))

    def _instruction(
        self, node: Node, instruction: Instruction, names: dict[str, Value], predicates: dict[str, Condition]
    ) -> None:
        op, operands = instruction.opcode, instruction.operands
        if op.startswith("setp.ne") and len(operands) == 3 and operands[2] in ("0", "0x0"):
            value = names.get(operands[1], UNSET)
            predicates[operands[0]] = (
                truth(value.exact) if isinstance(value, Number) else self.asked(node, value)
            )
            return
        if (computed := self._computed(node, instruction, names)) is not None:
            names[operands[0].partition("|")[0]] = computed
            return
        touches = touches_memory(instruction)
        sets = operands and not (touches and operands[0].startswith("["))
        set_here = re.findall(r"[%\w$]+", operands[0]) if sets else []
        if not touches:
            names |= dict.fromkeys(set_here, LOADED)
            return
        instruction = instruction._replace(operands=tuple(_immediate(o, names) for o in operands))
        condition = predicates.get(instruction.predicate, Unknown(f"the predicate {instruction.predicate}"))
        if not instruction.predicate:
            self._touched(node, instruction, names)
        else:
            with self.under(inverse(condition) if instruction.negated else condition):
                self._touched(node, instruction, names)
        names |= dict.fromkeys(set_here, LOADED)

    def _computed(self, node: Node, instruction: Instruction, names: dict[str, Value]) -> Value | None:
        """The first operand after an instruction on integers, for every lane; None after another one."""
        op, operands = instruction.opcode.split("."), instruction.operands
        if instruction.predicate:
            return None
        given = [self._operand(operand, names) for operand in operands[1:]]
        if _copies(instruction):
            return given[0]
        if op[0] in _OPERATORS and len(op) == len(given) == 2 and op[1] in _INTEGERS:
            kind = Type("int", op[1], int(op[1][1:]) // 8, signed=op[1][0] == "s")
            return self.operated(
                _OPERATORS[op[0]], converted(given[0], kind), converted(given[1], kind), kind
            )
        clamp = given[2] if op[:2] == ["shfl", "sync"] and len(given) == 4 else None
        if not (isinstance(clamp, Number) and clamp.exact.known) or op[2] not in _SHUFFLES:
            return None
        width = number(32 - (clamp.exact.constant >> 8 & 31))
        return self.exchanged(node, _SHUFFLES[op[2]], [given[3], *given[:2], width])

    def _operand(self, operand: str, names: dict[str, Value]) -> Value:
        """The value of a register, a number, or a register that names the lane, the thread or the block."""
        if re.fullmatch(r"-?(\d+|0[xX][0-9a-fA-F]+)", operand):
            return number(int(operand, 0))
        special = re.fullmatch(r"%%(tid|ctaid|ntid|nctaid)\.([xyz])", operand)
        if special is not None:
            triple = self.geometry[_GEOMETRY[special[1]]]
            return triple.members[special[2]] if isinstance(triple, Record) else LOADED
        if operand == "%%laneid":
            x, y, z = lane_variables(self.block)
            thread = add(x, scale(y, self.block[0]), scale(z, self.block[0] * self.block[1]))
            return Number(floor_mod(thread, 32))
        return names.get(operand, LOADED)

    def _touched(self, node: Node, instruction: Instruction, names: dict[str, Value]) -> None:
        for operation in memory_operations(instruction):
            if not operation.op:
                self.refuse(node, instruction.opcode, "", reason(instruction))
                continue
            parts = address(operation.operand)
            target = names.get(parts[0], UNSET) if parts is not None else UNSET
            if parts is None or not isinstance(target, Address):
                why = (
                    unknown(target)
                    if parts is not None and target is not UNSET
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
            self.touch(node, op, moved(target, constant(parts[1])), operation.width)

    # --- what is not followed ---------------------------------------------------------------------------

    def poison(self, node: Node, why: str) -> None:
        """Give up following a node: its accesses are listed, all variables that it names are lost."""
        reason = Unknown(why)
        held = node.value.get("object") if isinstance(node.value, dict) else None
        keys = self.roots(node)
        self.lose(keys, reason)
        self.stray(reason)
        with self.frame("loop"), self.under(reason):
            for child in (*node.children, held):
                if child is not None:
                    self.run(child)
        self.lose(keys, reason)
        self.stray(reason)

    def gone(self, text: str) -> None:
        """A statement was taken out for its error: what it may set is not known, nor who goes on."""
        why = Unknown("a statement with an error may set it")
        names, parts = _set_in(text)
        keys = []
        for key in (k for k in (*self.variables, *self.references) if k >= 0):
            declared = self.declaration(key)
            if declared.name in names or (declared.name in parts and declared.type.kind != "pointer"):
                keys.append(key)
        for key in keys:
            place = self.references.get(key)
            if place is not None:
                self.escape(place)
        self.lose(keys, why)
        if any(key in self.references for key in keys) or re.search(r"\*|\w\s*\(", text):
            self.stray(why)
        words = set(re.findall(r"\b(?:return|break|continue|goto)\b", text))
        with self.under(why):
            if words & {"return", "goto"}:
                self.leave("function")
            elif words:
                inside = any(isinstance(e, Frame) and e.kind == "loop" for e in self.stack)
                self.leave("turn" if inside and "continue" in words else "break" if inside else "function")

    def region(self, nodes: list[Node], why: str) -> None:
        """Read statements some of which are skipped or repeated: the values that they set are not known."""
        reason = Unknown(why)
        start, back = dict(self.variables), self.kept()
        keys: set[int] = set()
        while True:
            self.lose(keys, reason)
            before = dict(self.variables)
            with self.under(reason):
                for node in nodes:
                    self.run(node)
            fresh = {k for k, v in self.variables.items() if before.get(k) is not v} - keys
            if not fresh & set(start):
                break
            keys |= fresh
            back()
        self.lose(keys | fresh, reason)

    def _switch(self, node: Node) -> None:
        """A switch whose cases are statements of its own block; lanes come in at their case."""
        parts = node.below
        items = _cases(parts[1]) if len(parts) == 2 and parts[1].kind == "block" else None
        if items is None or id(parts[1]) in self.jumps:
            self.poison(node, "the form of a switch statement is not read")
            return
        value = self.value(parts[0])
        tests: dict[int, Condition] = {}
        other: Condition = ONE
        for label in (label for labels, _ in items for label in labels if label.kind == "case"):
            constant = self.value(label.children[0])
            same: Condition = self.asked(node, value)
            if isinstance(value, Number) and isinstance(constant, Number):
                same = compare("==", value.exact, constant.exact)
            tests[id(label)] = same
            other = conjunction(other, inverse(same))
        with self.frame("switch") as frame:
            inside: Condition = ZERO
            for labels, statement in items:
                for label in labels:
                    inside = disjunction(inside, tests.get(id(label), other))
                self.only_where(inside, lambda: self.run(statement))  # noqa: B023 - called at once
        self.after_breaks(frame)


_SETS = re.compile(
    r"\b([A-Za-z_]\w*+)(?=\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--))"
    r"|(?:\+\+|--|&)\s*\(?\s*([A-Za-z_]\w*)"
    r"|(?:^|[;{}])\s*(?:[A-Za-z_]\w*\s+)*[A-Za-z_][\w:<>]*[\s*&]+([A-Za-z_]\w*)"
)
"""Names that a text may set, take the address of, or declare."""

_CALLS = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*+)\s*\(([^;{}]*)\)")
_OF_PARTS = re.compile(r"(?<![\w.])([A-Za-z_]\w*+)(?=\s*[\[.])")
_PART = re.compile(r"\s*(?:(\[)|\.\s*\w+)")
_SET = re.compile(r"\s*(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--|\Z)")


@functools.lru_cache(maxsize=256)
def _set_in(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a text may set, and those whose elements or members it may set."""
    names: set[str] = {name for match in _SETS.findall(text) for name in match}
    for function, arguments in _CALLS.findall(text):
        if not function.startswith("__"):
            names |= set(re.findall(r"\w+", arguments)) | {function.partition(".")[0]}
    opened: list[int] = []
    ends: dict[int, int] = {}
    for at, letter in enumerate(text):
        if letter == "[":
            opened.append(at)
        elif letter == "]" and opened:
            ends[opened.pop()] = at + 1
    found = ((match[1], _behind_parts(text, match.end(), ends)) for match in _OF_PARTS.finditer(text))
    return frozenset(names), frozenset(name for name, end in found if _SET.match(text, end))


def _behind_parts(text: str, at: int, ends: dict[int, int]) -> int:
    """The end of the subscripts and members that follow a name; `ends` are those of brackets."""
    while (part := _PART.match(text, at)) is not None:
        at = part.end() if part[1] is None else ends.get(part.start(1), len(text))
    return at


def _cases(body: Node) -> list[tuple[list[Node], Node]] | None:
    """(labels, statement) of a switch; None where a label stands inside another statement."""
    cases: list[tuple[list[Node], Node]] = []
    for child in body.children:
        labels: list[Node] = []
        statement = child
        while statement is not None and statement.kind in ("case", "default"):
            if len(statement.children) != (2 if statement.kind == "case" else 1):
                return None
            labels.append(statement)
            statement = statement.children[-1]
        if statement is None:
            continue
        if _labelled(statement):
            return None
        cases.append((labels, statement))
    return cases


def _labelled(node: Node) -> bool:
    """Whether a case of the switch around it stands inside a statement."""
    if node.kind in ("case", "default"):
        return True
    return node.kind != "switch" and any(map(_labelled, node.below))


def jumps_of(body: Node) -> dict[int, list[tuple[int, int]]]:
    """(first, behind the last) of the statements that jumps skip or repeat, by the block that they are in."""
    gotos: list[tuple[str | None, tuple[tuple[Node, int], ...]]] = []
    labels: dict[str, tuple[tuple[Node, int], ...]] = {}
    waiting: list[tuple[Node, tuple[tuple[Node, int], ...]]] = [(body, ())]
    while waiting:
        node, path = waiting.pop()
        if node.kind == "label":
            labels[node.value] = path
        elif node.kind == "goto" or (node.kind == "other" and node.value == "INDIRECT_GOTO_STMT"):
            gotos.append((node.value if node.kind == "goto" else None, path))
        waiting += [(c, (*path, (node, i))) for i, c in enumerate(node.children) if c is not None]
    spans: dict[int, list[tuple[int, int]]] = {}
    for name, path in gotos:
        target = labels.get(name) if name is not None else None
        if target is None:
            spans.setdefault(id(body), []).append((0, len(body.children)))
            continue
        depth = 0
        while depth + 1 < min(len(path), len(target)) and path[depth] == target[depth]:
            depth += 1
        while path[depth][0].kind != "block":
            depth -= 1
        (block, a), (_, b) = path[depth], target[depth]
        beside = a < b and len(target) == depth + 1
        spans.setdefault(id(block), []).append((min(a, b), max(a, b) + (not beside)))
    return {key: _joined(pairs) for key, pairs in spans.items()}


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap, as one."""
    out: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if out and first < out[-1][1]:
            out[-1] = out[-1][0], max(last, out[-1][1])
        else:
            out.append((first, last))
    return out


def _copies(instruction: Instruction) -> bool:
    """Whether the first operand is the second after an instruction, for every lane."""
    parts = instruction.opcode.split(".")
    wide = parts[0] in ("mov", "cvta") or (parts[0] == "cvt" and {*parts[1:]} <= {"u32", "u64", "b32", "b64"})
    return wide and len(instruction.operands) == 2 and not instruction.predicate


def _immediate(operand: str, names: dict[str, Value]) -> str:
    """An operand that is a known number, as that number; others as they are written."""
    value = names.get(operand)
    if operand.startswith("%") and isinstance(value, Number) and value.exact.known:
        return str(value.exact.constant)
    return operand
