"""The text of an index function in each language: C, CUDA, CuTe C++, CuTe DSL, Triton and Python.

The idea.  One expression, printed for six readers.  Comments inside of the function say what it is, the
ranges of its parameters, and what was proved, so that nothing but the function is printed.

    c, cuda         unsigned integers, of 64 bits where 32 do not hold every number on the way
    cpp             the layout itself, in CuTe's types, called on the parameters
    dsl, triton     shifts and masks in place of divisions by powers of two: their integers have signs
    python          integers, or arrays of them

>>> print(text_of(Function("f", "8:2", (("i", 8),), Var("i", 8) * 2), "c"))
unsigned f(unsigned i) {
    // 8:2, in elements
    // i in [0,8)
    return i * 2;
}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from layoutalg.codegen.expr import (
    Add,
    And,
    Const,
    Expr,
    FloorDiv,
    Minus,
    Mod,
    Mul,
    Shr,
    Var,
    as_expr,
    ctype,
    rebuild,
    render,
    to_c,
    variables,
)
from layoutalg.errors import UnsupportedError
from layoutalg.layout import AnyLayout, Layout
from layoutalg.notation import cute_text

INT_END = 1 << 31
LONG_END = 1 << 62


@dataclass(frozen=True, slots=True)
class Function:
    """A function to print: `value - less`, counted from a `pointer` where a loop carries an offset along.

    `of` is the layout's text, `unit` what offsets count, `notes` more lines of the comment.  `layout` and
    `through` are there for CuTe C++, and `scale` bytes per element.
    """

    name: str
    of: str
    parameters: tuple[tuple[str, int], ...]
    value: Expr
    less: int = 0
    unit: str = "elements"
    notes: tuple[str, ...] = ()
    pointer: str = ""
    layout: AnyLayout | None = None
    through: Layout | None = None
    scale: int = 1
    fixed: tuple[str, ...] = ()
    """Parameters that are 0, for CuTe C++: those a loop steps along."""

    @property
    def comments(self) -> tuple[str, ...]:
        """The lines of the comment."""
        ranges = ", ".join(f"{name} in [0,{extent})" for name, extent in self.parameters)
        through = f" of {self.through}" if self.through is not None else ""
        first = f"{self.of}{through}, in {self.unit}"
        return (first, *((ranges,) if ranges else ()), *self.notes)


def text_of(f: Function, to: str) -> str:
    """The function in the language `to`, one of TARGETS, without an end of line."""
    return TARGETS[to](f)


# --- C and CUDA ------------------------------------------------------------------------------------------


def value_in_c(f: Function) -> tuple[str, str]:
    """(type, expression) of the value, signed where it may be below 0."""
    text = re.sub(r"\bu64\b", "unsigned long long", to_c(f.value))
    wide = ctype(f.value) == "u64"
    if not f.less:
        return "unsigned long long" if wide else "unsigned", text
    signed = "long long" if wide or f.value.facts.hi >= INT_END or f.less >= INT_END else "int"
    number = f"{f.less}ll" if signed != "int" else str(f.less)
    return signed, f"({signed})({text}) - {number}"


def _c(f: Function, before: str = "", pointer: str = "char") -> str:
    result, value = value_in_c(f)
    takes = [f"{_c_type(extent)} {name}" for name, extent in f.parameters]
    if f.pointer:
        result, value = f"{pointer}*", f"{f.pointer} + {_summand(value, f)}"
        takes = [f"{pointer}* {f.pointer}", *takes]
    read = {v.name for v in variables(f.value)}  # a mode of stride 0 has a parameter that nothing reads
    unread = [f"(void){name};" for name, _ in f.parameters if name not in read]
    return _braced(f, f"{before}{result} {f.name}({', '.join(takes) or 'void'})", *unread, f"return {value};")


def _summand(value: str, f: Function) -> str:
    return f"({value})" if f.less or not isinstance(f.value, (Var, Const)) else value


def _c_type(extent: int) -> str:
    return "unsigned" if extent <= 1 << 32 else "unsigned long long"


def _braced(f: Function, head: str, *body: str) -> str:
    lines = [f"{head} {{", *(f"    // {note}" for note in f.comments), *(f"    {line}" for line in body), "}"]
    return "\n".join(lines)


def _to_c(f: Function) -> str:
    if f.pointer and f.unit != "bytes":
        raise UnsupportedError(
            "a carried pointer in C counts bytes, since C has no type of an element: give bytes"
        )
    return _c(f)


def _to_cuda(f: Function) -> str:
    typed = f.pointer and f.unit != "bytes"
    text = _c(f, "__device__ __forceinline__ ", "T" if typed else "char")
    return f"template <class T>\n{text}" if typed else text


# --- CuTe C++ --------------------------------------------------------------------------------------------


def _to_cpp(f: Function) -> str:
    if f.layout is None:
        raise UnsupportedError("CuTe C++ prints a layout, and there is none")
    integer = (
        "int" if max([f.value.facts.hi, f.less, *(n for _, n in f.parameters)]) < INT_END else "long long"
    )
    declared = [f"{integer} {name}" for name, _ in f.parameters]
    body = [f"auto layout = {cute_text(f.layout)};"]
    arguments = f.fixed or tuple(name for name, _ in f.parameters)
    call = f"layout({', '.join(arguments)})"
    if f.through is not None:
        body.append(f"auto through = {cute_text(f.through)};")
        call = f"layout(through({', '.join(arguments)}))"
    value = call if f.scale == 1 else f"{call} * {f.scale}"
    head = "CUTE_HOST_DEVICE constexpr "
    if f.pointer:
        declared.insert(0, f"T* {f.pointer}" if f.unit != "bytes" else f"char* {f.pointer}")
        value = f"{f.pointer} + {value}"
        head = ("template <class T>\n" if f.unit != "bytes" else "") + head
    return _braced(f, f"{head}auto {f.name}({', '.join(declared)})", *body, f"return {value};")


# --- Python, Triton, CuTe DSL ----------------------------------------------------------------------------


_DSL_NOTE = "called in @cute.jit and @cute.kernel functions"


def _indented(f: Function, before: str, value: Expr, notes: tuple[str, ...]) -> str:
    names = [*((f.pointer,) if f.pointer else ()), *(name for name, _ in f.parameters)]
    text = render(value)
    if f.less:
        text = f"{text if _sum(value) else f'({text})'} - {f.less}"
    if f.pointer:
        text = f"{f.pointer} + ({text})"
    comments = (*f.comments[: len(f.comments) - len(f.notes)], *notes)
    lines = [f"{before}def {f.name}({', '.join(names)}):", *(f"    # {note}" for note in comments)]
    return "\n".join([*lines, f"    return {text}"])


def _sum(value: Expr) -> bool:
    return isinstance(value, (Var, Const, Add, Mul, Minus, FloorDiv, Mod))


def _wide(f: Function) -> tuple[str, ...]:
    """The notes, with one where 32 bits do not hold what is computed."""
    most = _most(f.value)
    return (*f.notes, f"numbers reach {most}: pass integers of 64 bits") if most >= INT_END else f.notes


def _most(value: Expr) -> int:
    return max([value.facts.hi, *map(_most, value.children)])


def masked(value: Expr) -> Expr:
    """The same number with shifts and masks in place of divisions by powers of two.

    >>> print(masked(Var("i", 64) % 8 * 4 + Var("i", 64) // 8))
    (i & 7) * 4 + (i >> 3)
    """
    old = value.children
    new = tuple(map(masked, old))
    match value:
        case FloorDiv(_, Const(c)) if c & (c - 1) == 0:
            return Shr(new[0], c.bit_length() - 1)
        case Mod(_, Const(c)) if c & (c - 1) == 0:
            return And(new[0], as_expr(c - 1))
    return value if new == old else rebuild(value, new)


TARGETS: Mapping[str, Callable[[Function], str]] = {
    "c": _to_c,
    "cuda": _to_cuda,
    "cpp": _to_cpp,
    "dsl": lambda f: _indented(f, "", masked(f.value), (_DSL_NOTE, *_wide(f))),
    "triton": lambda f: _indented(f, "@triton.jit\n", masked(f.value), _wide(f)),
    "python": lambda f: _indented(f, "", f.value, f.notes),
}
"""The languages, by the names that `code` takes."""
