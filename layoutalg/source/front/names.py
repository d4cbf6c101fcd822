"""Names of a text: those that it declares as plain numbers, and those that are open, for which a value helps.

The idea.  A name that is declared nowhere may be a macro or a constant of a header that is missing, and then
a value of it lets its statements be read.  It may as well be a namespace, a function, a type, or a variable
whose declaration has an error; no value helps with those.  A trial decides: all names that the text does
not declare become numbers, and the statements that then parse without an error tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from layoutalg.source.front.census import Census

_TYPES = frozenset({"primitive_type", "sized_type_specifier"})
_NUMBERS = re.compile(r"(u?(int|char|short|long|longlong)|size_t|ptrdiff_t|u?int(8|16|32|64|ptr)_t|(__)?half|"
                      r"(__)?nv_bfloat16|dim3)\Z")  # fmt: skip
_CONSTANT = re.compile(r"[\s\d+\-*/%()<>.]*(0[xX][0-9a-fA-F]+)?[uUlLfF]*\s*\Z")
_BEHIND = re.compile(rb"\s*(::|\(|\[|\.|->)")


_IDENTIFIERS = frozenset({"identifier", "type_identifier", "field_identifier", "operator_name"})
_NAMING = frozenset(
    {
        "struct_specifier", "class_specifier", "union_specifier", "enum_specifier", "alias_declaration",
        "enumerator", "preproc_def", "preproc_function_def",
    }
)  # fmt: skip


def declared_names(census: Census) -> tuple[frozenset[str], frozenset[str]]:
    """(all names that the text declares, those of them that are plain numbers wherever they are declared)."""
    every: set[str] = set()
    numbers: set[str] = set()
    others: set[str] = set()
    for kind in ("declaration", "parameter_declaration", "optional_parameter_declaration", "for_range_loop"):
        for node in census.nodes(kind):
            held = node.child_by_field_name("type")
            spelled = "" if held is None else census.said(held)
            number = held is not None and (held.type in _TYPES or _NUMBERS.match(spelled) is not None)
            for declarator in node.children_by_field_name("declarator"):
                if declarator.type == "init_declarator":
                    declarator = declarator.child_by_field_name("declarator") or declarator
                names = _declared(census, declarator)
                every |= names
                (numbers if number and declarator.type == "identifier" else others).update(names)
    for kind in ("function_declarator", "structured_binding_declarator", "init_declarator",
                 "array_declarator", "lambda_capture_initializer"):  # fmt: skip
        for node in census.nodes(kind):
            every |= _declared(census, node)
    for kind in ("namespace_definition", *_NAMING):
        for node in census.nodes(kind):
            name = node.child_by_field_name("name")
            used = kind == "enum_specifier" and node.child_by_field_name("body") is None
            every |= set() if name is None or used else {census.said(name)}
    for node in (*census.nodes("enumerator"), *census.nodes("preproc_def")):
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        plain = node.type == "enumerator" or (
            value is not None and _CONSTANT.match(census.said(value)) is not None
        )
        if name is not None:
            (numbers if plain else others).add(census.said(name))
    return frozenset(every), frozenset(numbers - others)


_AROUND = re.compile(
    r"translation_unit|namespace_definition|declaration_list|linkage_specification|preproc_(el)?(if|se)\w*"
)
"""Nodes of which each child declares something by itself."""


def parts_of(census: Census) -> Iterator[tuple[Any, frozenset[str]]]:
    """The parts of a text outside of each other, and the names that each declares for others."""
    waiting = [census.tree.root_node]
    while waiting:
        node = waiting.pop()
        if _AROUND.match(node.type):
            waiting += node.named_children
        else:
            yield node, declared_by(census, node)


_ASIDE = frozenset({"template_parameter_list", "template_argument_list", "base_class_clause"})
_INNER = frozenset({"parameter_list", "compound_statement", "field_initializer_list"})
"""Parts of a declaration in which it names nothing for others."""


def declared_in(text: bytes) -> frozenset[str]:
    """All names that a part of a text declares for others: of a part that declares nothing, all its names."""
    census = Census(text)
    return declared_by(census, census.tree.root_node)


def declared_by(census: Census, top: Any) -> frozenset[str]:
    """All names that a node declares for others: of a node that declares nothing, all its names."""
    names, waiting = set[str](), [top]
    while waiting:
        node = waiting.pop()
        if node.type in _IDENTIFIERS:
            names.add(census.said(node))
        name = node.child_by_field_name("name") if node.type in _NAMING else None
        waiting += [name] if name is not None else _inner(node)
        if node.type == "enum_specifier" and (body := node.child_by_field_name("body")) is not None:
            waiting.append(body)
    return frozenset(re.findall(r"\w+", " ".join(names)))


def _inner(node: Any) -> list[Any]:
    """The parts of a node that may name what it declares; all parts where it is not a declaration."""
    parts = [child for child in node.children if child.type not in _ASIDE]
    if node.child_by_field_name("declarator") is None:
        return parts
    aside = [*node.children_by_field_name("value"), *node.children_by_field_name("size")]
    aside += [child for child in node.children_by_field_name("type") if child.type not in _NAMING]
    return [child for child in parts if child.type not in _INNER and child not in aside]


def _declared(census: Census, node: Any) -> set[str]:
    """The names of a declarator."""
    while (inner := node.child_by_field_name("declarator")) is not None:
        node = inner
    return set(re.findall(r"[A-Za-z_]\w*", census.said(node).partition("=")[0]))


def candidates(census: Census, unknown: set[str], declared: frozenset[str]) -> list[str]:
    """The undeclared names that may be numbers: those without a call, a subscript or a member access.

    What something is declared with, or cast to a pointer to, is a type.
    """
    numbers = []
    types = {census.said(node) for node in census.nodes("type_identifier") if _is_type(node)}
    for name in sorted(unknown - declared - types):
        places = re.finditer(rb"\b" + re.escape(name.encode()) + rb"\b", census.text)
        if any(_BEHIND.match(census.text, match.end()) is None for match in places):
            numbers.append(name)
    return numbers


def _is_type(node: Any) -> bool:
    above = node.parent
    if above.type == "type_descriptor":  # `(name) * x` may be a product, and `f<name>(x)` has a number
        return any(child.type == "abstract_pointer_declarator" for child in above.children)
    return above.type in ("declaration", "parameter_declaration")
