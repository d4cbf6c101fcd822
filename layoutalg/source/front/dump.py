"""A kernel's tree as the front end has it, in plain lists: what leaves the process that parsed the file.

The idea.  libclang's tree has some two hundred kinds of node; an access is decided by thirty.  A node is

    [kind, line, column, type, value, children]

with line and column of where it starts in the user's text, `type` and declarations as numbers of tables
beside it, and a constant wherever the front end knows one (literals, sizeof, constexpr, template arguments).
 Bodies of functions are those of the instance that is called.  See `Dump.KINDS` for the kinds.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

from clang import cindex

_K = cindex.CursorKind
_T = cindex.TypeKind

MOST_NODES = 150_000

_BINARY = {
    3: "*", 4: "/", 5: "%", 6: "+", 7: "-", 8: "<<", 9: ">>", 11: "<", 12: ">", 13: "<=", 14: ">=", 15: "==",
    16: "!=", 17: "&", 18: "^", 19: "|", 20: "&&", 21: "||", 22: "=", 23: "*=", 24: "/=", 25: "%=", 26: "+=",
    27: "-=", 28: "<<=", 29: ">>=", 30: "&=", 31: "^=", 32: "|=", 33: ",",
}  # fmt: skip
_UNARY = {1: "x++", 2: "x--", 3: "++x", 4: "--x", 5: "&", 6: "*", 7: "+", 8: "-", 9: "~", 10: "!"}

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
_INTEGERS = {
    _T.BOOL: False, _T.CHAR_U: False, _T.UCHAR: False, _T.USHORT: False, _T.UINT: False, _T.ULONG: False,
    _T.ULONGLONG: False, _T.CHAR_S: True, _T.SCHAR: True, _T.SHORT: True, _T.INT: True, _T.LONG: True,
    _T.LONGLONG: True, _T.WCHAR: True, _T.CHAR16: False, _T.CHAR32: False,
}  # fmt: skip


def _named(kinds: Any) -> None:
    """Give every number of libclang a kind: Python's binding refuses those that it has no name for."""
    for number in range(800):
        if number >= len(kinds._kinds) or kinds._kinds[number] is None:
            kinds(number)


_named(_K)
_named(_T)
_FLOAT16, _BFLOAT16 = 32, 39
_FLOATS = frozenset(
    {_T.FLOAT, _T.DOUBLE, _T.HALF, _T.FLOAT128, _T.LONGDOUBLE, _T.from_id(_FLOAT16), _T.from_id(_BFLOAT16)}
)


def library() -> Any:
    """libclang, with the functions that its Python binding of version 18 lacks."""
    lib = cindex.conf.lib
    for name in ("clang_getCursorBinaryOperatorKind", "clang_getCursorUnaryOperatorKind"):
        function = getattr(lib, name)
        function.argtypes, function.restype = [cindex.Cursor], ctypes.c_int
    lib.clang_Cursor_Evaluate.argtypes = [cindex.Cursor]
    lib.clang_Cursor_Evaluate.restype = ctypes.c_void_p
    for name, result in (("getKind", ctypes.c_int), ("getAsLongLong", ctypes.c_longlong),
                         ("getAsUnsigned", ctypes.c_ulonglong), ("isUnsignedInt", ctypes.c_uint),
                         ("getAsDouble", ctypes.c_double), ("dispose", None)):  # fmt: skip
        function = getattr(lib, f"clang_EvalResult_{name}")
        function.argtypes, function.restype = [ctypes.c_void_p], result
    lib.clang_Cursor_getVarDeclInitializer.argtypes = [cindex.Cursor]
    lib.clang_Cursor_getVarDeclInitializer.restype = cindex.Cursor
    lib.clang_getSpecializedCursorTemplate.argtypes = [cindex.Cursor]
    lib.clang_getSpecializedCursorTemplate.restype = cindex.Cursor
    return lib


def _expressions(cursor: Any) -> list[Any]:
    """The expressions that are right below a declaration."""
    return [child for child in cursor.get_children() if child.kind.is_expression()]


def _is_there(cursor: Any) -> bool:
    """Whether a function has a body in the text, or is the compiler's own."""
    return cursor.is_default_method() or cursor.get_definition() is not None


class Dump:
    """The tables of one translation unit.

    KINDS.  Expressions: const, name, cast, subscript, unary, binary, assign, cond, call, construct, member,
    asm, init, lambda, this, text, other.  Statements: block, decl (of var), if, for, while, do, return,
    break, continue, null, switch, case, default, goto, label.
    """

    def __init__(self, texts: dict[str, bytes], main: str) -> None:
        self.lib = library()
        self.texts, self.main = texts, main
        self.types: list[Any] = []
        self.decls: list[Any] = []
        self.functions: dict[int, Any] = {}
        self._type_numbers: dict[str, int] = {}
        self._decl_numbers: dict[tuple[int, str, int], int] = {}
        self._waiting: list[tuple[int, Any]] = []
        self._makers: list[tuple[int, Any, list[Any]]] = []
        self._files: dict[str, bytes] = dict(texts)
        self._nodes = 0
        self._asms: dict[int, int] = {}

    # --- tables -----------------------------------------------------------------------------------------

    def type_of(self, given: Any) -> int:
        """The number of a type in `types`."""
        whole = given.get_canonical()
        key = whole.spelling
        if key in self._type_numbers:
            return self._type_numbers[key]
        number = self._type_numbers[key] = len(self.types)
        self.types.append(None)
        kind = whole.kind
        entry: dict[str, Any] = {
            "name": key,
            "bytes": max(whole.get_size(), 0),
            "align": max(whole.get_align(), 1),
        }
        if kind in _INTEGERS:
            entry |= {"kind": "int", "signed": _INTEGERS[kind], "bool": kind == _T.BOOL}
        elif kind == _T.ENUM:
            under = whole.get_declaration().enum_type
            entry |= {"kind": "int", "signed": _INTEGERS.get(under.get_canonical().kind, True), "bool": False}
        elif kind in _FLOATS:
            entry |= {"kind": "float"}
        elif kind in (_T.POINTER, _T.LVALUEREFERENCE, _T.RVALUEREFERENCE):
            named = "pointer" if kind == _T.POINTER else "reference"
            entry |= {"kind": named, "to": self.type_of(whole.get_pointee())}
        elif kind in (_T.CONSTANTARRAY, _T.INCOMPLETEARRAY, _T.VARIABLEARRAY):
            extent = whole.element_count if kind == _T.CONSTANTARRAY else 0
            entry |= {"kind": "array", "extent": extent, "to": self.type_of(whole.element_type)}
        elif kind == _T.RECORD:
            fields = []
            for field in whole.get_fields():
                bits = field.get_field_offsetof()
                fields.append([field.spelling, bits // 8 if bits >= 0 else -1, self.type_of(field.type)])
            below = self._members(whole)
            bases = [c.type for c in below if c.kind == _K.CXX_BASE_SPECIFIER]
            entry |= {"kind": "record", "fields": fields, "bases": [self.type_of(base) for base in bases]}
            entry["ends"] = any(c.kind == _K.DESTRUCTOR and not _is_there(c) for c in below)
            self.types[number] = entry
            parts = [*bases, *(field.type for field in whole.get_fields())]
            entry["maker"] = self._maker(whole.get_declaration(), below, parts)
        else:
            entry |= {"kind": "void" if kind == _T.VOID else "other"}
        self.types[number] = entry
        return number

    def _members(self, given: Any) -> list[Any]:
        """What a record declares; of an instance, where that is empty, what its template does."""
        declared = given.get_declaration()
        below = list(declared.get_children())
        if not below:
            template = self.lib.clang_getSpecializedCursorTemplate(declared)
            template._tu = declared._tu
            below = list(template.get_children())
        return below

    def _maker(self, declared: Any, below: list[Any], parts: list[Any]) -> int:
        """The number of a function that does what a record does wherever an object of it is made; or -1.

        It holds the initializers of the members and the constructors of bases and members without one.
        """
        inits = [e for c in below if c.kind == _K.FIELD_DECL for e in _expressions(c)]
        made: list[Any] = []
        for part in parts:
            whole = part.get_canonical()
            while whole.kind == _T.CONSTANTARRAY:
                whole = whole.element_type.get_canonical()
            if whole.kind != _T.RECORD:
                continue
            number = self.type_of(whole)
            given = [c for c in self._members(whole) if c.kind == _K.CONSTRUCTOR]
            default = next(
                (c for c in given if c.is_default_constructor() and not c.is_default_method()), None
            )
            maker = (
                (self.types[number] or {}).get("maker", -1) if default is None else self.function_of(default)
            )
            if maker >= 0:
                made.append(["construct", 0, 0, number, maker, []])
        if not inits and not made:
            return -1
        number = len(self.decls)
        self.decls.append({"name": declared.spelling, "function": True})
        self._makers.append((number, declared, [*inits, *made]))
        return number

    def decl_of(self, cursor: Any) -> int:
        """The number of a variable's declaration in `decls`."""
        cursor = cursor.canonical if cursor.kind == _K.VAR_DECL else cursor
        key = (cursor.hash, cursor.spelling, cursor.location.offset)
        if key in self._decl_numbers:
            return self._decl_numbers[key]
        number = self._decl_numbers[key] = len(self.decls)
        place = cursor.location
        attributes = {child.kind for child in cursor.get_children() if child.kind.is_attribute()}
        space = "local"
        if _K.CUDASHARED_ATTR in attributes:
            space = "shared"
        elif _K.CUDACONSTANT_ATTR in attributes:
            space = "constant"
        elif _K.CUDADEVICE_ATTR in attributes:
            space = "global"
        own = cursor.semantic_parent is not None and cursor.semantic_parent.kind in (
            _K.TRANSLATION_UNIT, _K.NAMESPACE)  # fmt: skip
        entry = {
            "name": cursor.spelling,
            "type": self.type_of(cursor.type),
            "space": space,
            "line": place.line,
            "column": place.column,
            "file": "" if place.file is None or place.file.name == self.main else place.file.name,
        }
        entry |= {"parameter": cursor.kind == _K.PARM_DECL, "global": own, "init": None}
        entry["const"] = cursor.type.is_const_qualified()
        self.decls.append(entry)
        if own and entry["const"]:
            init = self.lib.clang_Cursor_getVarDeclInitializer(cursor)
            if init.kind.is_expression():
                init._tu = cursor._tu
                entry["init"] = self.node(init)
        return number

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
        while self._waiting or self._makers:
            if self._makers:
                number, cursor, parts = self._makers.pop()
                below = [self.node(part) if isinstance(part, cindex.Cursor) else part for part in parts]
                self.functions[number] = {
                    "name": cursor.spelling, "line": cursor.location.line, "parameters": [], "result": -1,
                    "body": ["block", cursor.location.line, 0, -1, None, below], "method": True,
                    "constructor": True, "foreign": False,
                }  # fmt: skip
                continue
            number, cursor = self._waiting.pop()
            children = list(cursor.get_children())
            body = next((c for c in children if c.kind == _K.COMPOUND_STMT), None)
            if cursor.is_default_method():  # the compiler's own copy
                body = None
            self.functions[number] = {
                "name": cursor.spelling,
                "line": cursor.location.line,
                "parameters": [self.decl_of(c) for c in children if c.kind == _K.PARM_DECL],
                "result": self.type_of(cursor.result_type) if cursor.result_type.kind != _T.INVALID else -1,
                "body": self._constructor(cursor, body)
                if cursor.kind == _K.CONSTRUCTOR
                else None
                if body is None
                else self.node(body),
                "method": cursor.kind in (_K.CXX_METHOD, _K.CONSTRUCTOR, _K.CONVERSION_FUNCTION),
                "constructor": cursor.kind == _K.CONSTRUCTOR,
                "foreign": self._foreign(cursor),
            }

    def _foreign(self, cursor: Any) -> bool:
        """Whether a function is neither in the text nor one that CUDA's headers declare."""
        if _is_there(cursor):
            return False
        place = cursor.location.file
        known = place is not None and place.name.endswith("/shim.cuh")
        any_result = "layoutalg_any" in cursor.result_type.spelling
        return not known or (any_result and not cursor.spelling.startswith("operator"))

    def _constructor(self, cursor: Any, body: Any) -> Any:
        """The body of a constructor, its initializers and those of the members in front; None of a copy."""
        if cursor.is_copy_constructor() or cursor.is_move_constructor():
            return None if body is None else self.node(body)
        kind = self.type_of(cursor.semantic_parent.type)
        maker = self.types[kind].get("maker", -1)
        place = [cursor.location.line, cursor.location.column]
        parts = [] if maker < 0 else [["construct", *place, kind, maker, []]]
        if body is not None:
            parts += [self.node(init) for init in _expressions(cursor)]
            parts.append(self.node(body))
        return ["block", *place, -1, None, parts] if parts else None

    # --- nodes ------------------------------------------------------------------------------------------

    def node(self, cursor: Any) -> Any:
        """A statement or an expression."""
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise OverflowError(f"a kernel has more than {MOST_NODES:,} statements and operators")
        kind = cursor.kind
        start = cursor.extent.start
        place = [start.line, start.column]
        if kind in _STATEMENTS:
            return [_STATEMENTS[kind], *place, -1, None, self._parts(cursor, kind)]
        if kind == _K.VAR_DECL:
            return self._variable(cursor, place)
        if kind in (_K.ASM_STMT, _K.MS_ASM_STMT):
            return ["asm", *place, -1, self._asm(cursor), [self.node(c) for c in self._own(cursor)]]
        if kind == _K.UNEXPOSED_STMT:  # a statement with attributes, such as #pragma unroll
            below = [c for c in self._own(cursor) if c.kind.is_statement()]
            if below:
                return self.node(below[-1])
        if not kind.is_expression():
            if kind.is_declaration():
                return ["null", *place, -1, None, []]
            return ["other", *place, -1, kind.name, self._below(self._own(cursor))]
        return self._expression(cursor, kind, place)

    def _below(self, children: list[Any]) -> list[Any]:
        return [self.node(c) for c in children]

    def _own(self, cursor: Any) -> list[Any]:
        return [c for c in cursor.get_children() if c.kind not in _REFERENCES and not c.kind.is_attribute()]

    def _expression(self, cursor: Any, kind: Any, place: list[int]) -> Any:
        whole = cursor.type
        number = self.type_of(whole)
        children = self._own(cursor)
        if kind in _CONSTANTS or (kind == _K.UNEXPOSED_EXPR and not children):
            value = self._value(cursor)
            if value is not None:
                return ["const", *place, number, value, []]
            if kind == _K.CXX_NULL_PTR_LITERAL_EXPR:
                return ["const", *place, number, 0, []]
            return ["other", *place, number, kind.name, []]
        if kind == _K.DECL_REF_EXPR:
            return self._name(cursor, place, number)
        if kind in _CASTS and len(children) == 1:
            return ["cast", *place, number, kind.name, [self.node(children[0])]]
        if kind in _CASTS and children:  # a cast whose type has an expression in it: the last one is cast
            return ["cast", *place, number, kind.name, [self.node(children[-1])]]
        if kind == _K.ARRAY_SUBSCRIPT_EXPR:
            return ["subscript", *place, number, None, self._below(children)]
        if kind in (_K.BINARY_OPERATOR, _K.COMPOUND_ASSIGNMENT_OPERATOR):
            op = _BINARY.get(self.lib.clang_getCursorBinaryOperatorKind(cursor), "?")
            if op.endswith("=") and op not in ("==", "!=", "<=", ">="):
                return ["assign", *place, number, op[:-1], self._below(children)]
            return ["binary", *place, number, op, self._below(children)]
        if kind == _K.UNARY_OPERATOR:
            op = _UNARY.get(self.lib.clang_getCursorUnaryOperatorKind(cursor), "?")
            return ["unary", *place, number, op, self._below(children)]
        if kind == _K.CONDITIONAL_OPERATOR:
            return ["cond", *place, number, None, self._below(children)]
        if kind in (_K.MEMBER_REF_EXPR,):
            return ["member", *place, number, cursor.spelling, self._below(children)]
        if kind == _K.CALL_EXPR:
            return self._call(cursor, place, number, children)
        if kind == _K.INIT_LIST_EXPR:
            return ["init", *place, number, None, self._below(children)]
        if kind == _K.LAMBDA_EXPR:
            return ["lambda", *place, number, None, []]
        if kind == _K.CXX_THIS_EXPR:
            return ["this", *place, number, None, []]
        if kind == _K.STRING_LITERAL:
            return ["text", *place, number, None, []]
        return ["other", *place, number, kind.name, self._below(children)]

    def _name(self, cursor: Any, place: list[int], number: int) -> Any:
        target = cursor.referenced
        if target is not None and target.kind in (_K.VAR_DECL, _K.PARM_DECL):
            if target.kind == _K.VAR_DECL and target.type.is_const_qualified():
                value = self._value(cursor)
                if value is not None:
                    return ["const", *place, number, value, []]
            return ["name", *place, number, self.decl_of(target), []]
        value = self._value(cursor)
        if value is not None:
            return ["const", *place, number, value, []]
        return ["other", *place, number, cursor.spelling, []]

    def _call(self, cursor: Any, place: list[int], number: int, children: list[Any]) -> Any:
        target = cursor.referenced
        given = list(cursor.get_arguments())
        arguments = [["null", *place, -1, None, []] if c is None else self.node(c) for c in given]
        if target is not None and target.kind == _K.CONSTRUCTOR:
            return ["construct", *place, number, self.function_of(target), arguments]
        value: dict[str, Any] = {"name": cursor.spelling, "function": -1, "object": None}
        if target is not None and target.kind in (_K.FUNCTION_DECL, _K.CXX_METHOD, _K.CONVERSION_FUNCTION):
            value["function"] = self.function_of(target)
            value["name"] = target.spelling
            around = target.semantic_parent
            names = []
            while around is not None and around.kind in (_K.NAMESPACE, _K.STRUCT_DECL, _K.CLASS_DECL):
                names.append(around.spelling)
                around = around.semantic_parent
            value["within"] = "::".join(reversed(names))
            if target.kind != _K.FUNCTION_DECL and not target.is_static_method():
                if target.spelling.startswith("operator") and arguments and len(children) > len(arguments):
                    value["object"], arguments = arguments[0], arguments[1:]
                elif children and children[0].kind == _K.MEMBER_REF_EXPR:
                    inner = self._own(children[0])
                    value["object"] = self.node(inner[0]) if inner else None
                elif arguments and target.spelling.startswith("operator"):
                    value["object"], arguments = arguments[0], arguments[1:]
        elif not value["name"] and children:
            value["name"] = children[0].spelling
        return ["call", *place, number, value, arguments]

    def _variable(self, cursor: Any, place: list[int]) -> Any:
        init = self.lib.clang_Cursor_getVarDeclInitializer(cursor)
        children: list[Any] = []
        if init.kind.is_expression():
            init._tu = cursor._tu
            children = [self.node(init)]
        static = cursor.storage_class == cindex.StorageClass.STATIC
        return ["var", *place, self.type_of(cursor.type), [self.decl_of(cursor), static], children]

    def _value(self, cursor: Any) -> int | float | None:
        """The constant that an expression is, or None."""
        result = self.lib.clang_Cursor_Evaluate(cursor)
        if not result:
            return None
        try:
            kind = self.lib.clang_EvalResult_getKind(result)
            if kind == 1:
                if self.lib.clang_EvalResult_isUnsignedInt(result):
                    return int(self.lib.clang_EvalResult_getAsUnsigned(result))
                return int(self.lib.clang_EvalResult_getAsLongLong(result))
            if kind == 2:
                return float(self.lib.clang_EvalResult_getAsDouble(result))
            return None
        finally:
            self.lib.clang_EvalResult_dispose(result)

    # --- what the tree leaves out -----------------------------------------------------------------------

    def _parts(self, cursor: Any, kind: Any) -> list[Any]:
        children = self._own(cursor)
        if kind == _K.FOR_STMT:
            return self._loop(cursor, children)
        return [self.node(c) for c in children]

    def _loop(self, cursor: Any, children: list[Any]) -> list[Any]:
        """[init, condition, step, body] of a for statement; None for what is not there."""
        body = self.node(children[-1])
        if len(children) == 4:
            return [*(self.node(c) for c in children[:3]), body]
        start = cursor.extent.start
        text = self._file(start)
        first = text.find(b"(", start.offset)
        stops, depth = [], 0
        for at in range(first, len(text)):
            c = text[at : at + 1]
            depth += (c in b"([{") - (c in b")]}")
            if depth == 0:
                break
            if c == b";" and depth == 1:
                stops.append(at)
        parts: list[Any] = [None, None, None]
        if len(stops) != 2:
            return [
                None,
                ["other", start.line, start.column, -1, "a loop whose head is not plain", []],
                None,
                body,
            ]
        for child in children[:-1]:
            at = child.extent.start.offset
            parts[(at > stops[0]) + (at > stops[1])] = self.node(child)
        return [*parts, body]

    def _file(self, location: Any) -> bytes:
        name = location.file.name if location.file is not None else self.main
        if name not in self._files:
            try:
                with open(name, "rb") as file:  # noqa: PTH123 - of the user's own folder
                    self._files[name] = file.read(1 << 22)
            except OSError:
                self._files[name] = b""
        return self._files[name]

    def _asm(self, cursor: Any) -> Any:
        """What `_sections` finds of an asm statement, written there or by a macro; None if not plain."""
        start = cursor.extent.start
        text = self._file(start).decode("utf-8", "replace")
        at = len(self._file(start)[: start.offset].decode("utf-8", "replace"))
        opened = _ASM.match(text, at)
        if opened is not None:
            return _sections(text, opened.end())
        name = re.compile(r"\w+").match(text, at)
        found = [] if name is None else self._in_macro(name[0], set())
        number = self._asms.get(start.offset, 0)
        self._asms[start.offset] = number + 1
        return found[number % len(found)] if found else None

    def _in_macro(self, name: str, entered: set[str]) -> list[Any]:
        """The asm statements that a macro writes, those of macros that it names with them."""
        if name in entered:
            return []
        entered.add(name)
        pattern = re.compile(
            rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(name)}\b((?:\\\r?\n|[^\n])*)", re.MULTILINE
        )
        found = []
        for data in self._files.values():
            for match in pattern.finditer(data.decode("utf-8", "replace")):
                body = re.sub(r"\\\r?\n", " ", match[1])
                for word in re.finditer(r"\b\w+\b", body):
                    opened = _ASM.match(body, word.start())
                    if opened is not None:
                        found.append(_sections(body, opened.end()))
                    elif word[0].isupper() or "asm" in word[0]:
                        found += self._in_macro(word[0], entered)
        return found


_ASM = re.compile(
    r"(?:__asm__|__asm|asm)\b[\s\\]*(?:(?:volatile|__volatile__|__volatile|inline|goto)[\s\\]*)*\("
)
_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|//[^\n]*|/\*.*?\*/|[()\[\]:]', re.DOTALL)


def _sections(text: str, at: int) -> Any:
    """{"text", "outputs", "kept"} of what follows the bracket of an asm statement: its strings, how many
    operands it sets, and which of those it reads too."""
    sections: list[list[str]] = [[]]
    depth = 1
    while depth:
        match = _TOKEN.search(text, at)
        if match is None or (len(sections) == 1 and text[at : match.start()].strip("\\ \t\r\n")):
            return None  # the end is missing, or a part of the instructions is not a string
        at = match.end()
        if match[1] is not None:
            sections[-1].append(match[1])
        elif match[0] in "([":
            depth += 1
        elif match[0] in ")]":
            depth -= 1
        elif match[0] == ":" and depth == 1:
            sections.append([])
    template = "".join(sections[0]).replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    given = [*sections[1:3], [], []]
    return {
        "text": template,
        "outputs": len(given[0]),
        "kept": [i for i, c in enumerate(given[0]) if "+" in c],
    }
