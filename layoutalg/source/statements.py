"""Statements of a kernel, read once for all threads."""

from __future__ import annotations

from layoutalg.source.calls import Calls
from layoutalg.source.front import Node
from layoutalg.source.machine import Frame, Place, inverse
from layoutalg.source.terms import ZERO, Sum
from layoutalg.source.values import UNSET, Address, Unknown, Value, blank, chosen, converted


class Statements(Calls):
    """Statements; `run` says whether what follows in the block is never reached."""

    def loop(self, node: Node) -> bool:
        """A loop; see loops."""
        raise NotImplementedError

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
                self.leave("loop" if node.kind == "break" else "turn")
                return True
            case "null":
                return False
            case "label":
                return self._block(node)
            case "switch" | "goto" | "case" | "default":
                self.skip(node, f"a {node.kind} statement is not read")
                return False
            case "other":
                self.unlisted(node)
                self.skip(node, f"{node.value} is not read")
                return False
        self.value(node)
        return False

    def _block(self, node: Node) -> bool:
        """Statements in order, to the first behind which nothing is reached."""
        return any(self.run(child) for child in node.children if child is not None)

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
            self.references[key] = self.place(init)
            return
        if init is None:
            self.variables[key] = blank(declared.type)
            return
        value = self.value(init)
        if declared.type.kind in ("int", "float", "pointer"):
            value = converted(value, declared.type)
        elif declared.type.kind == "record" and isinstance(value, Unknown):
            value = blank(declared.type) if value is UNSET else value
        elif declared.type.kind == "array" and isinstance(value, (Unknown, Address)):
            value = blank(declared.type)
        self.variables[key] = value

    def _branch(self, node: Node) -> bool:
        parts = [child for child in node.children if child is not None]
        if len(parts) > 3 or (len(parts) == 3 and parts[0].kind == "decl"):
            self.run(parts.pop(0))
        test, yes, no = parts[0], parts[1], parts[2] if len(parts) > 2 else None
        condition = self.condition(test)
        if isinstance(condition, Sum) and condition.known:
            taken, other_way = (yes, no) if condition.constant else (no, yes)
            if other_way is not None and not self.trying and not self.unrolling:
                kept = dict(self.variables)
                with self.under(ZERO):  # read, so that it is told; it is never executed
                    self.run(other_way)
                self.variables = kept
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
        given = self.functions[-1].result if self.functions else None
        if node.children and node.children[0] is not None:
            if given is not None and given.kind == "reference":
                place = self.place(node.children[0])
            else:
                result = self.value(node.children[0])
        at = max(i for i, e in enumerate(self.stack) if isinstance(e, Frame) and e.kind == "function")
        condition = self.here(at)
        frame = self.leave("function")
        if place is not None and frame.place is None:
            frame.place = place
        elif place is not None:
            frame.place = Place(place.type, why=Unknown("a reference to one of two places, by a condition"))
        frame.result = result if frame.result is UNSET else chosen(condition, result, frame.result)
        return True

    def skip(self, node: Node, why: str) -> None:
        """All below a statement that is not read: what it touches is told, what it sets is not known."""
        with self.under(Unknown(why)):
            before = dict(self.variables)
            for child in node.children:
                if child is None or child.kind in ("break", "continue", "goto", "const"):
                    continue
                if child.kind in ("switch", "case", "default", "block", "label"):
                    self.skip(child, why)
                else:
                    self.run(child)
            for key, value in before.items():
                if self.variables.get(key) is not value:
                    self.variables[key] = chosen(Unknown(why), self.variables.get(key, UNSET), value)
