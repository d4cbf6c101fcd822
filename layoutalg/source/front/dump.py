"""A kernel's tree as the front end has it, in plain lists: what leaves the process that parsed the file.

The idea.  libclang's tree has some two hundred kinds of node; an access is decided by thirty.  A node is

    [kind, line, column, type, value, children]

with line and column of where it starts in the user's text, `type` and declarations as numbers of tables
beside it, and constants where known.  Bodies are those of the instance that is called, kinds `Dump.KINDS`.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from clang import cindex

from layoutalg.limits import Most
from layoutalg.source.front.cursors import (
    ASM,
    constant_of,
    function_named,
    has_value,
    head,
    hidden_base,
    in_macro,
    is_foreign,
    is_made_plainly,
    is_of_library,
    is_plain,
    is_unwritten,
    library,
    same_place,
    sections,
    template_of,
)
from layoutalg.source.front.launches import signs
from layoutalg.source.front.texts import Texts

_K = cindex.CursorKind
_T = cindex.TypeKind

_BINARY = {
    3: "*", 4: "/", 5: "%", 6: "+", 7: "-", 8: "<<", 9: ">>", 11: "<", 12: ">", 13: "<=", 14: ">=", 15: "==",
    16: "!=", 17: "&", 18: "^", 19: "|", 20: "&&", 21: "||", 22: "=", 23: "*=", 24: "/=", 25: "%=", 26: "+=",
    27: "-=", 28: "<<=", 29: ">>=", 30: "&=", 31: "^=", 32: "|=", 33: ",",
}  # fmt: skip
_UNARY = {
    1: "x++", 2: "x--", 3: "++x", 4: "--x", 5: "&", 6: "*", 7: "+", 8: "-", 9: "~", 10: "!", 13: "+",
}  # fmt: skip
"""The 13th is __extension__, which changes nothing."""

_CASTS = frozenset(
    {_K.UNEXPOSED_EXPR, _K.PAREN_EXPR, _K.CSTYLE_CAST_EXPR, _K.CXX_STATIC_CAST_EXPR, _K.CXX_CONST_CAST_EXPR,
     _K.CXX_REINTERPRET_CAST_EXPR, _K.CXX_FUNCTIONAL_CAST_EXPR, _K.CXX_DYNAMIC_CAST_EXPR}
)  # fmt: skip
_CONSTANTS = frozenset(
    {_K.INTEGER_LITERAL, _K.FLOATING_LITERAL, _K.CHARACTER_LITERAL, _K.CXX_BOOL_LITERAL_EXPR,
     _K.CXX_UNARY_EXPR, _K.CXX_NULL_PTR_LITERAL_EXPR, _K.SIZE_OF_PACK_EXPR}
)  # fmt: skip
_REFERENCES = frozenset(
    {_K.TYPE_REF, _K.TEMPLATE_REF, _K.NAMESPACE_REF, _K.MEMBER_REF, _K.OVERLOADED_DECL_REF, _K.LABEL_REF}
)
_STATEMENTS = {
    _K.COMPOUND_STMT: "block", _K.DECL_STMT: "decl", _K.IF_STMT: "if", _K.FOR_STMT: "for",
    _K.WHILE_STMT: "while", _K.DO_STMT: "do", _K.RETURN_STMT: "return", _K.BREAK_STMT: "break",
    _K.CONTINUE_STMT: "continue", _K.NULL_STMT: "null", _K.SWITCH_STMT: "switch", _K.CASE_STMT: "case",
    _K.DEFAULT_STMT: "default", _K.GOTO_STMT: "goto", _K.LABEL_STMT: "label",
}  # fmt: skip
_STATEMENT_EXPRESSION = _K.StmtExpr
_EXPRESSIONS = {
    _K.ARRAY_SUBSCRIPT_EXPR: "subscript", _K.CONDITIONAL_OPERATOR: "cond", _K.INIT_LIST_EXPR: "init",
    _K.CXX_THIS_EXPR: "this", _K.STRING_LITERAL: "text",
}  # fmt: skip
"""Expressions without a value beside their children."""

_Parts: TypeAlias = tuple[str, Any, list[Any]]
"""The kind of a node, its value, and the cursors below it, None for one that is not written."""

_SILENT_DECLARATIONS = frozenset(
    {_K.STRUCT_DECL, _K.CLASS_DECL, _K.UNION_DECL, _K.ENUM_DECL, _K.TYPEDEF_DECL, _K.TYPE_ALIAS_DECL,
     _K.USING_DIRECTIVE, _K.USING_DECLARATION, _K.NAMESPACE_ALIAS, _K.STATIC_ASSERT, _K.FUNCTION_DECL,
     _K.CLASS_TEMPLATE, _K.FUNCTION_TEMPLATE, _K.TYPE_ALIAS_TEMPLATE_DECL}
)  # fmt: skip
"""Declarations inside functions that run nothing; nothing is assumed of other declarations but variables."""
_SPACES = {_K.CUDASHARED_ATTR: "shared", _K.CUDACONSTANT_ATTR: "constant", _K.CUDADEVICE_ATTR: "global"}
_INTEGERS = {
    _T.BOOL: False, _T.CHAR_U: False, _T.UCHAR: False, _T.USHORT: False, _T.UINT: False, _T.ULONG: False,
    _T.ULONGLONG: False, _T.CHAR_S: True, _T.SCHAR: True, _T.SHORT: True, _T.INT: True, _T.LONG: True,
    _T.LONGLONG: True, _T.WCHAR: True, _T.CHAR16: False, _T.CHAR32: False,
}  # fmt: skip


def _named(kinds: Any) -> None:
    """Give every number of libclang a kind: Python's binding refuses those for which it has no name."""
    for number in range(800):
        if number >= len(kinds._kinds) or kinds._kinds[number] is None:
            kinds(number)


_named(_K)
_named(_T)
_FLOAT16, _BFLOAT16 = 32, 39
_FLOATS = frozenset(
    {_T.FLOAT, _T.DOUBLE, _T.HALF, _T.FLOAT128, _T.LONGDOUBLE, _T.from_id(_FLOAT16), _T.from_id(_BFLOAT16)}
)


class Dump:
    """The tables of one translation unit.

    KINDS.  Expressions: const, name, function, cast, subscript, unary, binary, assign, cond, call,
    construct, member, asm, init, lambda, this, text, statements (the last is the value), other.
    Statements: block, decl (of var), if, for, while, do, return, break, continue, null, switch, case,
    default, goto, label.
    Whatever the front end has beyond these is "other", with all below it.
    """

    def __init__(self, texts: Texts) -> None:
        self.lib = library()
        self.texts = texts
        self.types: list[Any] = []
        self.decls: list[Any] = []
        self.functions: dict[int, Any] = {}
        self._type_numbers: dict[str | int, int] = {}
        self._decl_numbers: dict[tuple[int, str, int], int] = {}
        self._waiting: list[tuple[int, Any]] = []
        self._nodes = 0
        self._asms: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}

    # --- tables -----------------------------------------------------------------------------------------

    def type_of(self, given: Any) -> int:
        """The number of a type in `types`."""
        if given.data[0] in self._type_numbers:  # its place in the front end, which takes no time to ask for
            return self._type_numbers[given.data[0]]
        canonical = given.get_canonical()
        key = canonical.spelling
        number = self._type_numbers.setdefault(key, len(self.types))
        self._type_numbers[given.data[0]] = number
        if number < len(self.types):
            return number
        self.types.append(None)
        kind = canonical.kind
        entry: dict[str, Any] = {
            "name": key, "bytes": max(canonical.get_size(), 0), "align": max(canonical.get_align(), 1),
            "const": canonical.is_const_qualified(),
        }  # fmt: skip
        if kind in _INTEGERS:
            entry |= {"kind": "int", "signed": _INTEGERS[kind], "bool": kind == _T.BOOL}
        elif kind == _T.ENUM:
            under = canonical.get_declaration().enum_type
            entry |= {"kind": "int", "signed": _INTEGERS.get(under.get_canonical().kind, True), "bool": False}
        elif kind in _FLOATS:
            entry |= {"kind": "float"}
        elif kind in (_T.POINTER, _T.LVALUEREFERENCE, _T.RVALUEREFERENCE):
            named = "pointer" if kind == _T.POINTER else "reference"
            entry |= {"kind": named, "to": self.type_of(canonical.get_pointee())}
        elif kind in (_T.CONSTANTARRAY, _T.INCOMPLETEARRAY, _T.VARIABLEARRAY):
            extent = canonical.element_count if kind == _T.CONSTANTARRAY else 0
            entry |= {"kind": "array", "extent": extent, "to": self.type_of(canonical.element_type)}
        elif kind == _T.RECORD:
            entry |= {"kind": "record"} | self._record(canonical)
        else:
            entry |= {"kind": "void" if kind == _T.VOID else "other"}
        self.types[number] = entry
        return number

    def _record(self, canonical: Any) -> dict[str, Any]:
        """The fields of a struct, those of its first base in front: names, offsets, widths of bit-fields."""
        declared = canonical.get_declaration()
        definition = declared.get_definition() or declared
        fields, narrow, bases, others = list[Any](), dict[str, int](), list[str](), list[str]()
        parts = list(definition.get_children())
        filled = any(has_value(part) for part in parts if part.kind == _K.FIELD_DECL)
        written = parts or self._of_template(declared)  # an instance of a template has no children
        hidden = not parts and any(p.kind == _K.CXX_BASE_SPECIFIER for p in written)
        makes = hidden or any(p.kind == _K.FIELD_DECL and not is_plain(p) for p in written)
        ends = hidden or any(p.kind == _K.DESTRUCTOR and not p.is_default_method() for p in written)
        for number, base in enumerate(p for p in parts if p.kind == _K.CXX_BASE_SPECIFIER):
            above = self.types[self.type_of(base.type)] or {"name": "", "bases": (), "fields": ()}
            names = [above["name"], *above.get("bases", ())]
            ends = ends or above.get("ends", False)
            makes = makes or self._is_made_by_code(base.type)
            if number or self.lib.clang_isVirtualBase(base) or any(p.is_virtual_method() for p in parts):
                others += names
                continue
            bases += names
            others += above.get("others", ())
            fields += above.get("fields", ())
            narrow |= above.get("narrow", {})
        union = definition.kind == _K.UNION_DECL
        for field in canonical.get_fields():
            bits = field.get_field_offsetof()
            known = bits >= 0 and (bits == 0 or not any(self._is_unsized(f[2]) for f in fields))
            name = field.spelling if "(" not in field.spelling else ""  # V::(anonymous union at ...)
            fields.append([name, bits // 8 if known else -1, self.type_of(field.type)])
            held = self.types[fields[-1][2]]
            while held is not None and held["kind"] == "array":
                held = self.types[held["to"]]
            ends = ends or (held is not None and held.get("ends", False))
            makes = makes or self._is_made_by_code(field.type)
            if field.is_bitfield():
                narrow[name] = field.get_bitfield_width()
            if not name and known and held is not None:  # its members are named without it
                fields += [[n, bits // 8 + at if at >= 0 else -1, t] for n, at, t in held.get("fields", ())]
                narrow |= held.get("narrow", {})
                union = union or held.get("union", False)
        twice = {name for name, _, _ in fields if [f[0] for f in fields].count(name) > 1}
        return {
            "fields": [f for f in fields if f[0] and f[0] not in twice],
            "narrow": narrow,
            "bases": bases,
            "others": others,
            "union": union,
            "ends": ends,
            "makes": makes,
            "base": hidden_base(written) if hidden else "",
            "plain": not (filled or bases or others or twice or any(not f[0] for f in fields)),
        }

    def _is_unsized(self, number: int) -> bool:
        """Whether a type has a part of which the size is not known."""
        entry = self.types[number]
        while entry is not None and entry["kind"] == "array":
            entry = self.types[entry["to"]]
        parts = entry.get("fields", ()) if entry is not None else ()
        return entry is not None and (
            entry["name"] == "layoutalg_unsized" or any(self._is_unsized(part[2]) for part in parts)
        )

    def _show_base(self, to: int, of: int) -> None:
        """Add to a record the base as which it is used, which its template does not show."""
        base, used = self.types[to], self.types[of]
        if not base or not used or not used.get("base") or used["base"] != template_of(base["name"]):
            return
        named = used["name"].removeprefix("const ")
        for entry in (entry for entry in self.types if entry and entry.get("base")):
            if entry["name"].removeprefix("const ") == named:
                above = [f for f in base["fields"] if f[0] not in {own[0] for own in entry["fields"]}]
                bases = [base["name"].removeprefix("const "), *base["bases"]]
                entry |= {"fields": [*above, *entry["fields"]], "bases": bases, "base": ""}
                entry |= {"narrow": base["narrow"] | entry["narrow"]}

    def _of_template(self, declared: Any) -> list[Any]:
        """The declarations of the template that a record is an instance of."""
        template = self.lib.clang_getSpecializedCursorTemplate(declared)
        if template is not None:  # None: of no template
            template._tu = declared._tu
        return [] if template is None else list(template.get_children())

    def _is_made_by_code(self, kind: Any) -> bool:
        """Whether an object of a type that is made without arguments executes more than plain numbers."""
        canonical = kind.get_canonical()
        while canonical.kind == _T.CONSTANTARRAY:
            canonical = canonical.element_type.get_canonical()
        if canonical.kind != _T.RECORD:
            return False
        entry = self.types[self.type_of(canonical)]
        return entry is None or bool(entry.get("makes")) or not is_made_plainly(canonical.get_declaration())

    def decl_of(self, cursor: Any) -> int:
        """The number of a variable's declaration in `decls`."""
        cursor = cursor.canonical if cursor.kind == _K.VAR_DECL else cursor
        key = (cursor.hash, cursor.spelling, cursor.location.offset)
        if key in self._decl_numbers:
            return self._decl_numbers[key]
        number = self._decl_numbers[key] = len(self.decls)
        where = cursor.location
        attributes = {child.kind for child in cursor.get_children() if child.kind.is_attribute()}
        static = cursor.storage_class == cindex.StorageClass.STATIC
        fixed = cursor.type.get_canonical().is_const_qualified()  # of an array its elements
        other = "global" if static and not fixed else "local"  # a static one is for all threads
        space = next((name for attribute, name in _SPACES.items() if attribute in attributes), other)
        own = cursor.semantic_parent is not None and cursor.semantic_parent.kind in (
            _K.TRANSLATION_UNIT, _K.NAMESPACE)  # fmt: skip
        entry = {
            "name": cursor.spelling,
            "type": self.type_of(cursor.type),
            "space": space,
            "line": self._line(where),
            "column": where.column,
            "file": "" if where.file is None else self.texts.name(where.file.name),
        }
        entry |= {"parameter": cursor.kind == _K.PARM_DECL, "at_top": own, "init": None}
        self.decls.append(entry)
        if fixed and (own or static) and (init := self._initializer(cursor)) is not None:
            entry["init"] = self.node(init)
        return number

    def _initializer(self, variable: Any) -> Any:
        """The expression that a variable is initialized with; None where there is none."""
        init = self.lib.clang_Cursor_getVarDeclInitializer(variable)
        if not init.kind.is_expression():
            return None
        init._tu = variable._tu
        return init

    def function_of(self, cursor: Any) -> int:
        """The number of a function in `functions`; its body follows when `finish` is called."""
        defined = cursor.get_definition() or cursor
        key = (defined.hash, "()" + defined.displayname, defined.location.offset)
        if key not in self._decl_numbers:
            number = self._decl_numbers[key] = len(self.decls)
            self.decls.append({"name": defined.spelling, "function": True})
            self._waiting.append((number, defined))
        return self._decl_numbers[key]

    def finish(self) -> None:
        """Dump the bodies of all functions that were called."""
        while self._waiting:
            number, cursor = self._waiting.pop()
            children = list(cursor.get_children())
            body = next((c for c in children if c.kind == _K.COMPOUND_STMT), None)
            if cursor.is_default_method():  # the compiler's own copy
                body = None
            around = cursor.semantic_parent
            self.functions[number] = {
                "copies": self._copies.get(around.hash, []) if around is not None else [],
                "inits": self._initializers(children) if body is not None else [],
                "name": cursor.spelling,
                "line": self._line(cursor.location),
                "extent": [self._line(cursor.extent.start), self._line(cursor.extent.end)],
                "parameters": [self.decl_of(c) for c in children if c.kind == _K.PARM_DECL],
                "result": self.type_of(cursor.result_type) if cursor.result_type.kind != _T.INVALID else -1,
                "body": None if body is None else self.node(body),
                "method": cursor.kind in (_K.CXX_METHOD, _K.CONSTRUCTOR, _K.CONVERSION_FUNCTION),
                "constructor": cursor.kind == _K.CONSTRUCTOR,
                "foreign": is_foreign(cursor),
                "library": is_of_library(cursor),
            }

    def _initializers(self, children: list[Any]) -> list[Any]:
        """(member, or "" for a base, and its value) of each initializer of a constructor."""
        pairs: list[Any] = []
        name: str | None = None
        for child in children:
            if child.kind == _K.MEMBER_REF:
                name = child.spelling
            elif child.kind.is_expression():
                pairs.append([name or "", self.node(child)])
                name = None
        return pairs

    # --- nodes ------------------------------------------------------------------------------------------

    def node(self, cursor: Any) -> Any:
        """A statement or an expression."""
        self._nodes += 1
        if self._nodes > Most.FOLLOWED.number:
            raise OverflowError(f"a kernel has more than {Most.FOLLOWED.number:,} statements and operators")
        kind = cursor.kind
        start = cursor.extent.start
        where = [self._line(start), start.column]
        if kind in _STATEMENTS:
            label = None
            if kind == _K.GOTO_STMT:
                label = next((c.spelling for c in cursor.get_children() if c.kind == _K.LABEL_REF), None)
            elif kind == _K.LABEL_STMT:
                label = cursor.spelling
            elif kind == _K.IF_STMT:
                label = next((constant_of(c) for c in self._own(cursor) if c.kind.is_expression()), None)
            return [_STATEMENTS[kind], *where, -1, label, self._parts(cursor, kind)]
        if kind == _K.VAR_DECL:
            return self._variable(cursor, where)
        if kind in (_K.ASM_STMT, _K.MS_ASM_STMT):
            return ["asm", *where, -1, self._asm(cursor), self._below(cursor)]
        if kind == _K.UNEXPOSED_STMT:  # a statement with attributes, such as #pragma unroll
            below = [c for c in self._own(cursor) if c.kind.is_statement()]
            if below:
                return self.node(below[-1])
        if not kind.is_expression():
            if kind in _SILENT_DECLARATIONS:
                return ["null", *where, -1, None, []]
            return ["other", *where, -1, kind.name, self._below(cursor)]
        return self._expression(cursor, kind, where)

    def _below(self, cursor: Any) -> list[Any]:
        return [self.node(c) for c in self._own(cursor)]

    def _own(self, cursor: Any) -> list[Any]:
        return [c for c in cursor.get_children() if c.kind not in _REFERENCES and not c.kind.is_attribute()]

    def _expression(self, cursor: Any, kind: Any, where: list[int]) -> Any:
        number = self.type_of(cursor.type)
        named, value, below = self._of_expression(cursor, kind, number, self._own(cursor))
        if named in ("call", "construct"):
            null = ["null", *where, -1, None, list[Any]()]
            nodes = [null if c is None or is_unwritten(c) else self.node(c) for c in below]
        else:
            nodes = [self.node(c) for c in below]
        return [named, *where, number, value, nodes]

    def _of_expression(self, cursor: Any, kind: Any, number: int, children: list[Any]) -> _Parts:
        """The parts of an expression whose type has a number."""
        if kind in _CONSTANTS or (kind == _K.UNEXPOSED_EXPR and not children):
            value = constant_of(cursor)
            if value is None and kind == _K.CXX_NULL_PTR_LITERAL_EXPR:
                value = 0
            return ("other", kind.name, []) if value is None else ("const", value, [])
        if kind == _K.DECL_REF_EXPR:
            return self._name(cursor)
        if kind in _CASTS and (len(children) == 1 or (children and kind != _K.UNEXPOSED_EXPR)):
            return self._cast(cursor, kind, number, children)
        if kind in (_K.BINARY_OPERATOR, _K.COMPOUND_ASSIGNMENT_OPERATOR):
            op = _BINARY.get(self.lib.clang_getCursorBinaryOperatorKind(cursor), "?")
            sets = op.endswith("=") and op not in ("==", "!=", "<=", ">=")
            return ("assign", op[:-1], children) if sets else ("binary", op, children)
        if kind == _K.UNARY_OPERATOR:
            op = _UNARY.get(self.lib.clang_getCursorUnaryOperatorKind(cursor), "?")
            return "unary", op, children
        if kind == _K.MEMBER_REF_EXPR:
            return "member", cursor.spelling, children
        if kind == _K.CALL_EXPR:
            return self._call(cursor, children)
        if kind == _K.LAMBDA_EXPR:
            return self._lambda(cursor, children)
        if kind == _STATEMENT_EXPRESSION and len(children) == 1:
            return "statements", None, self._own(children[0])
        if kind in _EXPRESSIONS:
            return _EXPRESSIONS[kind], None, children
        return "other", kind.name, children

    def _cast(self, cursor: Any, kind: Any, number: int, children: list[Any]) -> _Parts:
        """A cast, also one that the front end adds; an expression in its type is a child too."""
        if kind == _K.UNEXPOSED_EXPR:
            if not same_place(cursor, children[0]):
                return "other", kind.name, children
            self._show_base(number, self.type_of(children[0].type))
        elif len(children) == 1 and kind != _K.PAREN_EXPR and self._is_place(children[0]):
            return "cast", "LVALUE", children  # (T&)x: no copy is made of x
        return "cast", kind.name, children[-1:]

    def _is_place(self, cursor: Any) -> bool:
        """Whether an expression names a place: for its value, the front end puts a node around it."""
        if cursor.kind == _K.PAREN_EXPR:
            return any(self._is_place(c) for c in self._own(cursor))
        if cursor.kind == _K.UNARY_OPERATOR:
            return self.lib.clang_getCursorUnaryOperatorKind(cursor) in (3, 4, 6)
        if cursor.kind == _K.DECL_REF_EXPR:
            target = cursor.referenced
            return target is not None and target.kind in (_K.VAR_DECL, _K.PARM_DECL)
        return cursor.kind in (_K.ARRAY_SUBSCRIPT_EXPR, _K.MEMBER_REF_EXPR)

    def _lambda(self, cursor: Any, children: list[Any]) -> _Parts:
        """A lambda: the variables that it copies, and what initializes those of its own."""
        tokens = [t.spelling for t in cursor.get_tokens()]
        depth, head = 0, []
        for token in tokens:
            depth += (token in ("[", "(", "{")) - (token in ("]", ")", "}"))
            if not depth:
                break
            head.append(token)
        head = head[1:]
        body = next((c for c in children if c.kind == _K.COMPOUND_STMT), None)
        start = cursor.extent.start.offset
        end = cursor.extent.end.offset
        named: dict[str, int] = {}
        for inner in body.walk_preorder() if body is not None else ():
            target = inner.referenced if inner.kind == _K.DECL_REF_EXPR else None
            if (
                target is not None
                and target.kind in (_K.VAR_DECL, _K.PARM_DECL)
                and not start <= target.location.offset < end
                and target.semantic_parent is not None
                and target.semantic_parent.kind not in (_K.TRANSLATION_UNIT, _K.NAMESPACE)
            ):
                named[target.spelling] = self.decl_of(target)
        by_name = {head[i + 1] for i, token in enumerate(head[:-1]) if token == "&"}
        every = "&" not in head[:1] or head[1:2] not in ([], [","])
        copies = [n for name, n in named.items() if every and name not in by_name]
        if not every:
            copies = [n for name, n in named.items() if name in head and name not in by_name]
        self._copies[cursor.type.get_declaration().hash] = copies
        inits = [c for c in children if c.kind.is_expression() and "=" in head[1:]]
        return "lambda", copies, inits

    def _name(self, cursor: Any) -> _Parts:
        target = cursor.referenced
        variable = target is not None and target.kind in (_K.VAR_DECL, _K.PARM_DECL)
        if not variable or (target.kind == _K.VAR_DECL and target.type.is_const_qualified()):
            value = constant_of(cursor)
            if value is not None:
                return "const", value, []
        if variable:
            return "name", self.decl_of(target), []
        if target is not None and target.kind == _K.FUNCTION_DECL:
            return "function", self.function_of(target), []
        return "other", cursor.spelling, []

    def _call(self, cursor: Any, children: list[Any]) -> _Parts:
        target = cursor.referenced or (function_named(children[0]) if children else None)
        arguments = list(cursor.get_arguments())
        if target is not None and target.kind == _K.CONSTRUCTOR:
            return "construct", self.function_of(target), arguments
        value: dict[str, Any] = {"name": cursor.spelling, "function": -1, "object": None}
        if target is not None and target.kind in (
            _K.FUNCTION_DECL, _K.CXX_METHOD, _K.CONVERSION_FUNCTION
        ) and not target.is_virtual_method():  # fmt: skip
            value["function"] = self.function_of(target)
            value["name"] = target.spelling
            around = target.semantic_parent
            names = []
            while around is not None and around.kind in (_K.NAMESPACE, _K.STRUCT_DECL, _K.CLASS_DECL):
                names.append(around.spelling)
                around = around.semantic_parent
            value["within"] = "::".join(reversed(names))
            value["keeps"] = target.kind == _K.CXX_METHOD and target.is_const_method()
            if target.kind != _K.FUNCTION_DECL and not target.is_static_method():
                operator = target.spelling.startswith("operator") and arguments
                member = children and children[0].kind == _K.MEMBER_REF_EXPR
                if operator and (len(children) > len(arguments) or not member):
                    value["object"], *arguments = arguments
                elif member:
                    value["object"] = next(iter(self._own(children[0])), None)
        elif children:
            value["name"] = value["name"] or children[0].spelling
            if children[0].type.get_canonical().kind == _T.POINTER:
                value |= {"object": children[0], "through": True}
        value["object"] = None if value["object"] is None else self.node(value["object"])
        return "call", value, arguments

    def _variable(self, cursor: Any, where: list[int]) -> Any:
        init = self._initializer(cursor)
        children = [] if init is None else [self.node(init)]
        static = cursor.storage_class == cindex.StorageClass.STATIC
        return ["var", *where, self.type_of(cursor.type), [self.decl_of(cursor), static], children]

    # --- what the tree leaves out -----------------------------------------------------------------------

    def _parts(self, cursor: Any, kind: Any) -> list[Any]:
        children = self._own(cursor)
        if kind == _K.FOR_STMT:
            return self._loop(cursor, children)
        if kind == _K.IF_STMT:
            return self._branches(cursor, children)
        if kind == _K.WHILE_STMT and len(children) == 3:  # while (int x = ...)
            head = [self.node(c) for c in children[:2]]
            return [["statements", *head[1][1:4], None, head], self.node(children[2])]
        return [self.node(c) for c in children]

    def _branches(self, cursor: Any, children: list[Any]) -> list[Any]:
        """[condition, yes, no] of an if statement; what its head declares or does first goes with it."""
        first = 0
        while first < len(children) and not children[first].kind.is_expression():
            first += 1
        if first == 0 and len(children) > 2:
            text, at = self._file(cursor.extent.start), cursor.extent.start.offset
            inside = head(text, at)[1] if text[at : at + 2] == b"if" else ""
            first = int(";" in inside if inside else children[0].type.get_canonical().kind != _T.BOOL)
        parts = [self.node(c) for c in children]
        if first:
            parts[: first + 1] = [["statements", *parts[first][1:4], None, parts[: first + 1]]]
        return parts

    def _loop(self, cursor: Any, children: list[Any]) -> list[Any]:
        """[init, condition, step, body] of a for statement; None for what is not there."""
        body = self.node(children[-1])
        if len(children) == 4:
            return [*(self.node(c) for c in children[:3]), body]
        start = cursor.extent.start
        first, text = head(self._file(start), start.offset)
        stops = [first + at for at in signs(text, ";")]
        parts: list[Any] = [None, None, None]
        if len(stops) != 2:
            return [
                None,
                ["other", self._line(start), start.column, -1, "a loop whose head is not plain", []],
                None,
                body,
            ]
        for child in children[:-1]:
            at = child.extent.start.offset
            parts[(at > stops[0]) + (at > stops[1])] = self.node(child)
        return [*parts, body]

    def _line(self, location: Any) -> int:
        """A line in the numbering of all texts."""
        first = self.texts.first_line(location.file.name if location.file is not None else "")
        return first + int(location.line)

    def _file(self, location: Any) -> bytes:
        text = self.texts.find(location.file.name) if location.file is not None else self.texts.main
        return text.left if text is not None else b""

    def _asm(self, cursor: Any) -> Any:
        """The sections of an asm statement, written there or by a macro; None if they are not plain."""
        start = cursor.extent.start
        text = self._file(start).decode("utf-8", "replace")
        at = len(self._file(start)[: start.offset].decode("utf-8", "replace"))
        opened = ASM.match(text, at)
        if opened is not None:
            return sections(text, opened.end())
        name = re.compile(r"\w+").match(text, at)
        texts = [text.left.decode("utf-8", "replace") for text in self.texts]
        written = [] if name is None else in_macro(texts, name[0], set())
        number = self._asms.get(start.offset, 0)
        self._asms[start.offset] = number + 1
        return written[number % len(written)] if written else None
