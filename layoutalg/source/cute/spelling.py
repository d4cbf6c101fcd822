"""CuTe's values as C++ types spell them, and back.

The idea.  The types of the declarations say what they are of: `C<8>` is 8, `tuple<C<8>, int>` a tuple, and
`call<f::coalesce, L>` is what `coalesce` gives for L.  A leaf `int` is known at run time alone: a symbol.

    read_type     a type as a term: its name and arguments
    value_of      a term as a value: see `functions`
    type_of       a value as a type: of numbers and tuples of them
    bits_of       the bits of an element type

>>> value_of(read_type("cute::Layout<cute::tuple<cute::C<8>, cute::C<4>>, cute::LayoutRight>"))
Layout((8, 4), (4, 1))
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from layoutalg.dtype import DType, dtype
from layoutalg.errors import LayoutAlgError, ParseError, UnsupportedError
from layoutalg.layout import ComposedLayout, Swizzle
from layoutalg.notation import Major
from layoutalg.source.cute import functions
from layoutalg.source.cute.values import Index
from layoutalg.source.values import Unknown

FAULTS = (LayoutAlgError, LookupError, ValueError, TypeError, AttributeError)
"""Errors of functions of CuTe for arguments of other kinds than they take."""


def words_of(error: Exception) -> str:
    """Why a function of CuTe has no value."""
    return error.message if isinstance(error, LayoutAlgError) else f"CuTe's arguments are not read: {error}"


_PARTS = re.compile(r"[<>,]|(?:[^<>,()]|\((?:[^()]|\([^()]*\))*\))+")
_MARKS = ("<", ",", ">")
_NUMBER = re.compile(r"(-?\d+)[uUlL]*\Z|(true|false)\Z")
_VECTOR = re.compile(r"(?:__half2|__nv_bfloat162|(u?(?:char|short|int|long|longlong|float|double))([1-4]))\Z")
_ELEMENTS = {
    "__fp16": "f16", "_Float16": "f16", "__nv_bfloat16": "bf16", "float": "f32", "double": "f64",
    "cutlass::tfloat32_t": "tf32", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2", "int": "s32",
    "unsigned int": "u32", "long": "s64", "unsigned long": "u64", "short": "s16", "unsigned short": "u16",
    "signed char": "s8", "char": "s8", "unsigned char": "u8", "bool": "u8", "long long": "s64",
    "unsigned long long": "u64",
}  # fmt: skip
"""Element types by the names that the front end prints."""

_INTEGERS = frozenset(name for name, kind in _ELEMENTS.items() if kind[0] in "su" and name != "bool")


class Term(NamedTuple):
    """A type: its name without namespaces of CuTe, and its arguments."""

    name: str
    arguments: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.arguments))}>" if self.arguments else self.name


def read_type(text: str) -> Term:
    """The term that a type's text is.  Raises ParseError.

    >>> read_type("const cute::tuple<cute::C<8>, int> &").arguments[1]
    Term(name='int', arguments=())
    """
    parts = [part[0].strip() for part in _PARTS.finditer(text)]

    def term(at: int) -> tuple[Term, int]:
        name, arguments = _plain(parts[at]), list[Term]()
        at += 1
        if parts[at : at + 1] == ["<"]:
            while parts[at] != ">":
                at += 1
                if parts[at] != ">":  # of what has no arguments
                    argument, at = term(at)
                    arguments.append(argument)
            at += 1
        while at < len(parts) and parts[at] not in _MARKS:  # const, &
            at += 1
        if name in _MARKS or parts[at : at + 1] == ["<"]:
            raise IndexError
        return Term(name, tuple(arguments)), at

    try:
        return term(0)[0]
    except IndexError:
        raise ParseError(f"the type {text[:80]} is not read") from None


def _plain(word: str) -> str:
    word = word.replace("const ", "").replace("volatile ", "").strip(" &")
    return re.sub(r"^(?:cute::)+(?:f::)?", "", word.removesuffix(" const"))


def _unknown() -> Index:
    return Index(Unknown("a number that is known at run time alone"))


def value_of(term: Term, leaf: Callable[[], Index] = _unknown) -> Any:
    """The value of a term; `leaf` gives that of an int.

    Raises what its functions raise, UnsupportedError for what has no value.
    """
    name, arguments = term
    number = _NUMBER.match(name)
    if number is not None:
        return int(number[1]) if number[1] is not None else int(number[2] == "true")
    if name in _INTEGERS:
        return leaf()
    match name:
        case "ints":
            return [value_of(each, leaf) for each in arguments]
        case "types":
            return [bits_of(str(each)) for each in arguments]
        case "Underscore":
            return None
        case "LayoutLeft" | "LayoutRight":
            return Major(name.removeprefix("Layout").lower())
        case "Tensor":
            return value_of(arguments[1], leaf)
        case "AutoVectorizingCopyWithAssumedAlignment":
            assumed = value_of(arguments[0]) if arguments else 128
            return replace(functions.atom(name, "DefaultCopy"), assumed=assumed)
        case "Copy_Atom" | "MMA_Atom" | "Copy_Traits" | "MMA_Traits":
            return functions.atom(name, value_of(arguments[0]), *(element_of(str(t)) for t in arguments[1:]))
        case "UniversalFMA":
            return f"UniversalFMA<{', '.join(t.name for t in (arguments * 4)[:4])}>"
    if name == "tma":
        raise UnsupportedError("how a bulk copy is divided is the copy engine's")
    if name.startswith("SM90_") and "Major" in str(term):
        return name
    if name.startswith("SM") or name == "UniversalCopy":
        return f"{name}<uint{bits_of(str(arguments[0]))}_t>" if arguments else name
    values = [value_of(each, leaf) for each in arguments if each.name not in ("made", "call")]
    match name:
        case "C" | "integral_constant" | "ThrCopy" | "ThrMMA":
            return values[-1]
        case "tuple":
            return tuple(values)
        case "Swizzle":
            return Swizzle(*values)
        case "ComposedLayout":
            return ComposedLayout(*values)
        case "Layout" | "TiledMMA" | "TiledCopy" if arguments[0].name == "call":
            function, *given = arguments[0].arguments
            return functions.call(function.name, *(value_of(each, leaf) for each in given))
        case "Layout":
            return functions.as_layout(*values)
        case "TiledMMA" | "TiledCopy":
            return functions.tiled(name, *values)
    raise UnsupportedError(f"{term} is not a value of CuTe that is read")


def element_of(text: str) -> DType:
    """The element type of a type's text.  Raises UnsupportedError.

    >>> str(element_of("const __fp16"))
    'f16'
    """
    name = str(read_type(text))
    if name not in _ELEMENTS:
        raise UnsupportedError(f"elements of type {name} are not read")
    return dtype(_ELEMENTS[name])


def bits_of(text: str) -> int:
    """The bits of an element type, of one of CUDA's vectors of them, or of uint128_t."""
    name = read_type(text).name
    vector = _VECTOR.match(name)
    if vector is None:
        return 128 if name.endswith("uint128_t") else element_of(text).bits
    if vector[2] is None:
        return 32
    return {"char": 8, "short": 16, "double": 64, "long": 64}.get(
        vector[1].lstrip("u").replace("longlong", "long"), 32
    ) * int(vector[2])


def type_of(value: Any) -> str:
    """A number, a tuple of numbers or an element type as a type; a symbol is an int."""
    if isinstance(value, bool):
        return f"cute::C<{str(value).lower()}>"
    if type(value) is int:
        return f"cute::C<{value}>"
    if isinstance(value, tuple):
        return f"cute::tuple<{', '.join(map(type_of, value))}>"
    if isinstance(value, DType):
        return next(name for name, element in _ELEMENTS.items() if element == str(value))
    if value is None:
        return "cute::Underscore"
    return "int"
