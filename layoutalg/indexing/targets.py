"""The text of an index function in each language: C, CUDA, CuTe C++, CuTe DSL, Triton and Python.

The idea.  One expression, printed for six readers.  Comments inside of the function say what it is, the
ranges of its parameters, and what was proved, so that nothing but the function is printed.

    c, cuda         unsigned integers, of 64 bits where 32 do not hold every number on the way
    cpp             the layout itself, in CuTe's types, called on the parameters
    dsl, triton     shifts and masks in place of divisions by powers of two: their integers have signs
    python          integers, or arrays of them

>>> print(text_of(Function("f", "8:2", (Var("i", 8),), Var("i", 8) * 2), "c"))
unsigned f(unsigned i) {
    // 8:2, in elements
    // i in [0,8)
    return i * 2;
}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

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

    `lets` are the names that `value` uses besides its parameters, each with what it is, in order.  `of` is
    the layout's text, `unit` what offsets count, `notes` more lines of the comment.  `layout` and `through`
    are there for CuTe C++, and `scale` bytes per element.
    """

    name: str
    of: str
    parameters: tuple[Var, ...]
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
    lets: tuple[tuple[Var, Expr], ...] = ()

    @property
    def comments(self) -> tuple[str, ...]:
        """The lines of the comment."""
        ranges = ", ".join(map(_range, self.parameters))
        through = f" of {self.through}" if self.through is not None else ""
        first = f"{self.of}{through}, in {self.unit}"
        return (first, *((ranges,) if ranges else ()), *self.notes)


def _range(v: Var) -> str:
    """The values of a parameter: [0,n) where its extent is the expression n."""
    end = v.extent if v.lo == 0 and v.multiple == 1 else v.facts.hi + 1
    residue = f", {v.name} % {v.multiple} == {v.offset}" if v.multiple > 1 else ""
    return f"{v.name} in [{v.facts.lo},{end}){residue}"


def text_of(f: Function, to: str) -> str:
    """The function in the language `to`, one of TARGETS, without an end of line."""
    return TARGETS[to](f)


# --- C and CUDA ------------------------------------------------------------------------------------------


def _expression(value: Expr) -> str:
    return re.sub(r"\bu64\b", "unsigned long long", to_c(value))


def _unsigned(wide: bool) -> str:
    return "unsigned long long" if wide else "unsigned"


def value_in_c(f: Function) -> tuple[str, str]:
    """(type, expression) of the value, signed where it may be below 0."""
    text = _expression(f.value)
    wide = ctype(f.value) == "u64"
    if not f.less:
        return _unsigned(wide), text
    signed = "long long" if wide or f.value.facts.hi >= INT_END or f.less >= INT_END else "int"
    number = f"{f.less}ll" if signed != "int" else str(f.less)
    return signed, f"({signed})({text}) - {number}"


def _c(f: Function, before: str = "", pointer: str = "char") -> str:
    result, value = value_in_c(f)
    takes = [f"{_c_type(v)} {v.name}" for v in f.parameters]
    if f.pointer:
        result, value = f"{pointer}*", f"{f.pointer} + {_summand(value, f)}"
        takes = [f"{pointer}* {f.pointer}", *takes]
    # A mode of stride 0 has a parameter that nothing reads.
    read = {v.name for value in (f.value, *(value for _, value in f.lets)) for v in variables(value)}
    body = [f"(void){v.name};" for v in f.parameters if v.name not in read]
    body += [f"{_unsigned(ctype(value) == 'u64')} {v.name} = {_expression(value)};" for v, value in f.lets]
    return _braced(f, f"{before}{result} {f.name}({', '.join(takes) or 'void'})", *body, f"return {value};")


def _summand(value: str, f: Function) -> str:
    return f"({value})" if f.less or not isinstance(f.value, (Var, Const)) else value


def _c_type(v: Var) -> str:
    return _unsigned(v.facts.hi >= 1 << 32)


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
    most = max([f.value.facts.hi, f.less, *(v.facts.hi + 1 for v in f.parameters)])
    declared = [f"{'int' if most < INT_END else 'long long'} {v.name}" for v in f.parameters]
    body = [f"auto layout = {cute_text(f.layout)};"]
    arguments = f.fixed or tuple(v.name for v in f.parameters)
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


def _indented(f: Function, before: str, notes: tuple[str, ...]) -> str:
    names = [*((f.pointer,) if f.pointer else ()), *(v.name for v in f.parameters)]
    text = render(f.value)
    if f.less:
        text = f"{text if _sum(f.value) else f'({text})'} - {f.less}"
    if f.pointer:
        text = f"{f.pointer} + ({text})"
    comments = (*f.comments[: len(f.comments) - len(f.notes)], *notes)
    lines = [f"{before}def {f.name}({', '.join(names)}):", *(f"    # {note}" for note in comments)]
    lines += [f"    {v.name} = {render(value)}" for v, value in f.lets]
    return "\n".join([*lines, f"    return {text}"])


def _sum(value: Expr) -> bool:
    return isinstance(value, (Var, Const, Add, Mul, Minus, FloorDiv, Mod))


def _wide(f: Function) -> tuple[str, ...]:
    """The notes, with one where 32 bits do not hold what is computed."""
    most = max(_most(value) for value in (f.value, *(value for _, value in f.lets)))
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


def _masked(f: Function) -> Function:
    lets = tuple((v, masked(value)) for v, value in f.lets)
    return replace(f, value=masked(f.value), lets=lets)


TARGETS: Mapping[str, Callable[[Function], str]] = {
    "c": _to_c,
    "cuda": _to_cuda,
    "cpp": _to_cpp,
    "dsl": lambda f: _indented(_masked(f), "", (_DSL_NOTE, *_wide(f))),
    "triton": lambda f: _indented(_masked(f), "@triton.jit\n", _wide(f)),
    "python": lambda f: _indented(f, "", f.notes),
}
"""The languages, by the names that `code` takes."""
