"""Facts on cursors of libclang: functions with a body, members with values, expressions of plain numbers;
and the parts of an asm statement, out of its text, which libclang's tree does not have.

>>> found = sections('"mov.u32 %0, %1;" : "=r"(v) : "r"(t));', 0)
>>> found["text"], found["outputs"], found["kept"]
('mov.u32 %0, %1;', 1, [])
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

from clang import cindex

from layoutalg.source.front.launches import MOST_WRITTEN, closed, is_integer

_K = cindex.CursorKind

ASM = re.compile(
    r"(?:__asm__|__asm|asm)\b[\s\\]*(?:(?:volatile|__volatile__|__volatile|inline|goto)[\s\\]*)*\("
)
_TOKEN = re.compile(r'"((?:\\.|[^"\\])*)"|//[^\n]*|/\*.*?\*/|[()\[\]:]', re.DOTALL)


class _Ranges(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint), ("ranges", ctypes.POINTER(cindex.SourceRange)))


def skipped(unit: Any, path: str) -> list[tuple[int, int]]:
    """The first and last lines of what the preprocessor leaves out of a file, of a unit that records it."""
    lib = library()
    held = lib.clang_getSkippedRanges(unit, cindex.File.from_name(unit, path))
    try:
        found = held.contents
        return [(each.start.line, each.end.line) for each in found.ranges[: found.count]]
    finally:
        lib.clang_disposeSourceRangeList(held)


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
    lib.clang_getSpecializedCursorTemplate.argtypes = [cindex.Cursor]
    lib.clang_getSpecializedCursorTemplate.restype = cindex.Cursor
    lib.clang_getSkippedRanges.argtypes = [cindex.TranslationUnit, cindex.File]
    lib.clang_getSkippedRanges.restype = ctypes.POINTER(_Ranges)
    lib.clang_disposeSourceRangeList.argtypes = [ctypes.POINTER(_Ranges)]
    lib.clang_isVirtualBase.argtypes = [cindex.Cursor]
    lib.clang_isVirtualBase.restype = ctypes.c_uint
    lib.clang_Cursor_getVarDeclInitializer.argtypes = [cindex.Cursor]
    lib.clang_Cursor_getVarDeclInitializer.restype = cindex.Cursor
    return lib


def constant_of(cursor: Any) -> int | float | None:
    """The constant that an expression is, or None."""
    lib = library()
    result = lib.clang_Cursor_Evaluate(cursor)
    if not result:
        return None
    try:
        kind = lib.clang_EvalResult_getKind(result)
        if kind == 1:
            if lib.clang_EvalResult_isUnsignedInt(result):
                return int(lib.clang_EvalResult_getAsUnsigned(result))
            return int(lib.clang_EvalResult_getAsLongLong(result))
        if kind == 2:
            return float(lib.clang_EvalResult_getAsDouble(result))
        return None
    finally:
        lib.clang_EvalResult_dispose(result)


def is_there(cursor: Any) -> bool:
    """Whether a function has a body in the text, or is the compiler's own."""
    return cursor.is_default_method() or cursor.get_definition() is not None


def is_of_library(function: Any) -> bool:
    """Whether a function is the compiler's own, or one of the headers in front of the user's file."""
    file = function.location.file
    own = function.spelling.startswith("__builtin_")  # declared where it is called
    return own or (file is not None and file.name.endswith("/shim.cuh"))


def is_foreign(function: Any) -> bool:
    """Whether a function is neither in the text nor one that CUDA's headers declare."""
    if is_there(function):
        return False
    any_result = "layoutalg_any" in function.result_type.spelling
    return not is_of_library(function) or (any_result and not function.spelling.startswith("operator"))


_PLAIN = frozenset(
    {
        _K.INTEGER_LITERAL, _K.FLOATING_LITERAL, _K.CXX_BOOL_LITERAL_EXPR, _K.CHARACTER_LITERAL,
        _K.CXX_NULL_PTR_LITERAL_EXPR, _K.UNEXPOSED_EXPR, _K.PAREN_EXPR, _K.BINARY_OPERATOR, _K.MEMBER_REF,
        _K.CSTYLE_CAST_EXPR, _K.CXX_STATIC_CAST_EXPR, _K.CXX_FUNCTIONAL_CAST_EXPR, _K.INIT_LIST_EXPR,
        _K.COMPOUND_STMT, _K.PARM_DECL, _K.TYPE_REF, _K.NAMESPACE_REF, _K.TEMPLATE_REF,
    }
)  # fmt: skip
"""Kinds of initializers that touch no memory and call nothing."""


def is_plain(declared: Any) -> bool:
    """Whether what initializes a member, or is done by a constructor, is made of plain numbers."""
    for inner in list(declared.walk_preorder())[1:]:
        if inner.kind == _K.DECL_REF_EXPR and inner.referenced is not None:
            if inner.referenced.kind in (_K.PARM_DECL, _K.ENUM_CONSTANT_DECL, _K.TEMPLATE_NON_TYPE_PARAMETER):
                continue
            return False
        if inner.kind == _K.UNARY_OPERATOR and next(inner.get_tokens(), None) is not None:
            if next(inner.get_tokens()).spelling in ("-", "+", "~", "!"):
                continue
            return False
        if inner.kind not in _PLAIN and not inner.kind.is_attribute():
            return False
    return True


def is_made_plainly(record: Any) -> bool:
    """Whether the record's own constructor without arguments, if there is one, sets plain numbers alone."""
    own = (c for c in record.get_children() if c.kind == _K.CONSTRUCTOR and not c.is_default_method())
    return all(is_plain(c) for c in own if c.is_default_constructor())


def has_value(field: Any) -> bool:
    """Whether a field is given a value where it is declared."""
    values = [c for c in field.get_children() if c.kind.is_expression()]
    return len(values) > int(field.is_bitfield())


def function_named(called: Any) -> Any:
    """The function that an argument of the template around a call names, where that is what is called."""
    while called.kind != _K.DECL_REF_EXPR or called.referenced is None:
        below = [c for c in called.get_children() if c.kind.is_expression()]
        if len(below) != 1 or called.kind not in (_K.UNEXPOSED_EXPR, _K.UNARY_OPERATOR, _K.DECL_REF_EXPR):
            return None
        called = below[0]
    return called.referenced if called.referenced.kind == _K.FUNCTION_DECL else None


def is_unwritten(argument: Any) -> bool:
    """Whether an argument is the numbers in <...> of a function of CuTe, by default; see source.cute."""
    return argument.extent.start.file is None and "cute::ints<" in argument.type.get_canonical().spelling


def same_place(outer: Any, inner: Any) -> bool:
    """Whether two expressions are written at the same place: what the front end adds has no text."""
    a, b = outer.extent, inner.extent
    return (a.start.offset, a.end.offset) == (b.start.offset, b.end.offset) or not a.start.file


def head(text: bytes, at: int) -> tuple[int, str]:
    """The byte behind the next opening bracket, and the text in the brackets, a character for each byte."""
    first = text.find(b"(", at) + 1
    plain = text[first : first + MOST_WRITTEN].decode("latin-1")
    return first, plain[: max(closed(plain, 0, ")") - 1, 0)]


def qualified(cursor: Any) -> str:
    """A name with the namespaces around it."""
    names = [cursor.spelling]
    above = cursor.semantic_parent
    while above is not None and above.kind == _K.NAMESPACE:
        if above.spelling:
            names.append(above.spelling)
        above = above.semantic_parent
    return "::".join(reversed(names))


def sections(text: str, at: int) -> Any:
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
    operands = [*sections[1:3], [], []]
    return {
        "text": template,
        "outputs": len(operands[0]),
        "kept": [i for i, c in enumerate(operands[0]) if "+" in c],
    }


def in_macro(texts: list[str], name: str, entered: set[str]) -> list[Any]:
    """The asm statements that a macro writes, those of macros that it names with them."""
    if name in entered:
        return []
    entered.add(name)
    pattern = re.compile(rf"^[ \t]*#[ \t]*define[ \t]+{re.escape(name)}\b((?:\\\r?\n|[^\n])*)", re.MULTILINE)
    statements = []
    for text in texts:
        for match in pattern.finditer(text):
            body = re.sub(r"\\\r?\n", " ", match[1])
            for word in re.finditer(r"\b\w+\b", body):
                opened = ASM.match(body, word.start())
                if opened is not None:
                    statements.append(sections(body, opened.end()))
                elif word[0].isupper() or "asm" in word[0]:
                    statements += in_macro(texts, word[0], entered)
    return statements


def template_parameters(kernel: Any) -> list[dict[str, Any]]:
    """{"name", "kind", "type", "default"} of each parameter of a template: a type, a value or a pack."""
    out = []
    for child in kernel.get_children():
        if child.kind == _K.TEMPLATE_TEMPLATE_PARAMETER:
            out.append({"name": child.spelling, "kind": "value", "default": False, "type": "template"})
        if child.kind in (_K.TEMPLATE_NON_TYPE_PARAMETER, _K.TEMPLATE_TYPE_PARAMETER):
            value = child.kind == _K.TEMPLATE_NON_TYPE_PARAMETER
            tokens = [t.spelling for t in child.get_tokens()]
            plain = child.type.get_canonical().spelling if value else ""
            spelled = plain if is_integer(plain) else child.type.spelling
            kind = "pack" if "..." in tokens else "value" if value else "type"
            known = {"name": child.spelling, "kind": kind, "default": "=" in tokens}
            out.append(known | {"type": spelled if value else "typename"})
    return out


def instance_in(top: Any, space: str, name: str) -> Any:
    """The instance of a kernel that what is in a namespace uses, None where there is none."""
    for cursor in top.get_children():
        if cursor.spelling == space:
            for inner in cursor.walk_preorder():
                target = inner.referenced if inner.kind == _K.DECL_REF_EXPR else None
                made = target is not None and target.kind == _K.FUNCTION_DECL and target.is_definition()
                if made and target is not None and target.spelling == name:
                    return target
    return None


def hidden_base(written: list[Any]) -> str:
    """The template of the only base of an instance of a template, "" where it is not at its start."""
    bases = [p for p in written if p.kind == _K.CXX_BASE_SPECIFIER]
    moved = any(p.is_virtual_method() for p in written) or library().clang_isVirtualBase(bases[0])
    return "" if moved or len(bases) > 1 else template_of(bases[0].type.spelling)


def template_of(name: str) -> str:
    """The name of the template of a type, without its namespaces."""
    return re.split(r"::|\s", name.partition("<")[0])[-1] if "<" in name else ""
