"""Every place of a text that names a shared array, and whether it takes an element there and nothing else.

The idea.  A declaration may be padded where each use of the array is a subscript with all its dimensions: the
compiler then finds each element again, wherever it is.  A pointer into the array, its size, a part of it that
is handed on or a macro that names it knows where elements were.  The grammar without types sees all of them,
also in statements that have an error; a use of a form that is not listed here is of the second kind.

    Written     the declaration as it is written, and its uses
    Use         one use: "" for an element, else a clause that says what it is
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from layoutalg.source.front.census import Census, outward
from layoutalg.source.front.shim import takes_values

MACRO = "a macro names it"
"""The form of a use in the body of a macro, at which it is noted."""

_THROUGH = frozenset({"parenthesized_expression", "conditional_expression", "comma_expression"})
"""The value of these is the element itself."""

_VALUES = frozenset(
    {
        "assignment_expression", "binary_expression", "expression_statement", "update_expression",
        "unary_expression", "subscript_argument_list", "condition_clause", "for_statement", "if_statement",
        "while_statement", "do_statement", "switch_statement", "gnu_asm_input_operand", "sizeof_expression",
        "gnu_asm_output_operand",
    }
)  # fmt: skip
"""Parents that take an element's value, or set it."""


_HEADS = frozenset({"declaration", "init_declarator", "compound_statement", "compound_literal_expression"})


class Use(NamedTuple):
    """A use of an array: where, what it is but an element ("" for an element), and its statement's text."""

    line: int
    column: int
    form: str
    text: str


class Written(NamedTuple):
    """A declaration: its statement with line and column, (start, end) of each extent in it, and the uses."""

    line: int
    column: int
    text: str
    extents: tuple[tuple[int, int], ...]
    uses: tuple[Use, ...]


def note_uses(texts: Iterable[Any], dump: Any) -> None:
    """Add `written` to the shared arrays of a dump, None for an array that is in none of the texts."""
    censuses = {text.name: text.census for text in texts}
    for entry in dump.decls:
        if entry.get("space") != "shared":
            continue
        dims, kind = 0, dump.types[entry["type"]]
        while kind["kind"] == "array":
            dims, kind = dims + 1, dump.types[kind["to"]]
        census = censuses.get(entry["file"])
        place = entry["name"], entry["line"], entry["column"], dims
        entry["written"] = None if census is None else written(census, *place)


def written(census: Census, name: str, line: int, column: int, dims: int) -> Written | None:
    """The declaration of an array of `dims` dimensions whose name is at a line and column (in bytes).

    None where the name is not there: a macro writes the declaration.
    """
    text = census.text
    at = _offset(text, line - census.before, column)
    if text[at : at + len(name)] != name.encode():
        return None
    spans, end = extents(text, at + len(name), dims)
    start = max(text.rfind(c, 0, at) for c in (b";", b"{", b"}")) + 1
    start += len(text[start:at]) - len(text[start:at].lstrip())
    stop = text.find(b";", end)
    if stop < 0 or len(spans) != dims:
        return None
    scope = outward(census.node_at(at, at), "compound_statement") or census.tree.root_node
    uses = [_use(census, node, dims) for node in _named(scope, name.encode()) if node.start_byte != at]
    uses += _in_macros(census, name, scope)
    statement = text[start : stop + 1].decode("utf-8", "replace")
    row, first = text.count(b"\n", 0, start), start - (text.rfind(b"\n", 0, start) + 1)
    places = tuple((a - start, b - start) for a, b in spans)
    return Written(census.before + row + 1, first + 1, statement, places, tuple(uses))


def _offset(text: bytes, line: int, column: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = text.find(b"\n", at) + 1
    return at + column - 1


def extents(text: bytes, at: int, dims: int) -> tuple[list[tuple[int, int]], int]:
    """(start, end) of what is in up to `dims` brackets behind a name, and where they end."""
    spans: list[tuple[int, int]] = []
    while len(spans) < dims:
        opened = re.compile(rb"\s*\[").match(text, at)
        if opened is None:
            break
        depth, end = 1, opened.end()
        while depth and end < len(text):
            depth += (text[end : end + 1] == b"[") - (text[end : end + 1] == b"]")
            end += 1
        spans.append((opened.end(), end - 1))
        at = end
    return spans, at


def _named(scope: Any, name: bytes) -> Iterator[Any]:
    """Every word of the scope that is the name, but members of that name."""
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        if not node.children and node.text == name and node.type != "field_identifier":
            yield node
        waiting += reversed(node.children)


def _in_macros(census: Census, name: str, scope: Any) -> Iterator[Use]:
    """The macros that the scope uses and whose bodies name it, in macros that they use or themselves."""
    bodies = [(node, census.said(node)) for node in census.nodes("preproc_arg")]
    names, nodes = {name}, []
    while True:
        word = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")
        nodes = [node for node, body in bodies if word.search(body)]
        heads = {_macro(census, node) for node in nodes} - {""}
        if heads <= names:
            break
        names |= heads
    within = census.said(scope)
    for node in nodes:
        head = _macro(census, node)
        if head and re.search(rf"\b{re.escape(head)}\b", within) and (
            head != name or re.search(rf"\b{re.escape(name)}\s*\(", within)
        ):  # fmt: skip
            yield Use(
                census.before + node.start_point[0] + 1, node.start_point[1] + 1, MACRO, _line(census, node)
            )


def _macro(census: Census, node: Any) -> str:
    """The name of the macro whose body a node is."""
    held = node.parent.child_by_field_name("name") if node.parent is not None else None
    return "" if held is None else str(census.said(held))


def _use(census: Census, node: Any, dims: int) -> Use:
    line, column = node.start_point
    return Use(census.before + line + 1, column + 1, _form(census, node, dims), _line(census, node))


def _line(census: Census, node: Any) -> str:
    """The line of the text that a node starts in."""
    line: bytes = census.text.split(b"\n")[node.start_point[0]]
    return line.decode("utf-8", "replace").strip()[:100]


def _form(census: Census, node: Any, dims: int) -> str:
    """The kind of a use, "" for an element whose value is taken or set."""
    taken, node = 0, _outside(node)
    while node.parent.type == "subscript_expression" and _is_field(node, "argument"):
        taken, node = taken + 1, _outside(node.parent)
    above = node.parent
    if taken < dims:
        if above.type == "sizeof_expression":
            return "its size is taken"
        if above.type == "pointer_expression" and above.children[0].type == "&":
            return "its address is taken"
        if above.type == "call_expression" and census.said(node) in census.macros:
            return "a macro of its name is used"
        if _callee(census, above) is not None:
            return f"it is handed to {_callee(census, above)}"
        return "it is used as a pointer"
    while above.type == "field_expression" and _is_field(node, "argument"):
        if any(child.type == "->" for child in above.children):
            return ""
        node = _outside(above)
        while node.parent.type == "subscript_expression" and _is_field(node, "argument"):
            node = _outside(node.parent)
        above = node.parent
    return _of_element(census, node, above)


def _of_element(census: Census, node: Any, above: Any) -> str:
    while above.type in _THROUGH or (above.type == "assignment_expression" and _is_field(node, "left")):
        node, above = above, above.parent
    if above.type == "pointer_expression":
        return "its address is taken" if above.children[0].type == "&" else ""
    if above.type in _VALUES:
        return ""
    if above.type == "cast_expression":
        return "it is cast to a reference" if "&" in _before(census, above, node) else ""
    function = _callee(census, above)
    if function is not None:
        return "" if _by_value(census, function) else f"it is handed to {function}"
    if above.type in ("init_declarator", "initializer_list"):
        return "a reference is bound to it" if "&" in _head(census, above, node) else ""
    if above.type == "return_statement":
        return "" if "&" not in _result(census, above) else "a reference to it is returned"
    return "it is used in a form that is not known"


def _outside(node: Any) -> Any:
    """The node with the brackets around it."""
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    return node


def _is_field(node: Any, field: str) -> bool:
    held = node.parent.child_by_field_name(field)
    return held is not None and held.id == node.id


def _before(census: Census, above: Any, node: Any) -> str:
    return census.text[above.start_byte : node.start_byte].decode("utf-8", "replace")


def _head(census: Census, above: Any, node: Any) -> str:
    """A declaration up to a value in it: its type and the name that is declared."""
    above = outward(above, *_HEADS) or census.tree.root_node
    head = _before(census, above, node)
    if above.type == "init_declarator" and above.parent.type == "declaration":
        kind = above.parent.child_by_field_name("type")
        head += census.said(kind) if kind is not None else ""
    return head


def _result(census: Census, node: Any) -> str:
    """The head of the function or lambda around a statement."""
    node = outward(node, "function_definition", "lambda_expression") or census.tree.root_node
    body = node.child_by_field_name("body")
    head = "" if body is None else _before(census, node, body)
    return head.rpartition("->")[2] if node.type == "lambda_expression" else head.partition("(")[0]


def _callee(census: Census, above: Any) -> str | None:
    """The name of the function whose argument something is."""
    if above.type != "argument_list" or above.parent is None:
        return None
    function = above.parent.child_by_field_name("function")
    return census.said(function) if function is not None else census.said(above.parent).partition("(")[0][:40]


def _by_value(census: Census, function: str) -> bool:
    """Whether a function takes its arguments by value: of CUDA's headers, a cast, or of this file."""
    name, _, arguments = function.partition("<")
    if name.endswith("_cast") or function in ("int", "float", "double", "unsigned", "half", "bool"):
        return "&" not in arguments and "*" not in arguments
    if name in census.macros:
        return False
    own = [f for f in census.functions if f.name == name.rpartition("::")[2]]
    return all("&" not in f.parameters for f in own) if own else takes_values(name)
