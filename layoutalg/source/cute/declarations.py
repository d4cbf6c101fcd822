"""Declarations of CuTe with which a text parses; CUTLASS's own headers are never read.

The idea.  The type of an expression of CuTe is that expression: `make_layout(make_shape(_8{}, n))` has the
type `Layout<call<f::make_layout, tuple<C<8>, int>>, made>`, so that `decltype`, template arguments and
parameters carry what was written, and the library's algebra evaluates it (see `spelling`).  CUTLASS's
headers compute instead; they are long, need a standard library, and would be a second algebra beside the
library's.  With them and without, a text is read in the same way.

Where C++ itself needs a number, as in `float s[cosize_v<L>]`, it asks for `known<call<f::cosize, ints<>,
L>>`, which is declared and not defined: the error has the expression in it, and `definition_of` defines it.

    declared_text   the text of `cute.cuh`, with the names of instructions and numbers that a text uses
    asked           the types that errors ask for
    definition_of   what such a type is
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

from layoutalg.source.cute.spelling import FAULTS, read_type, type_of, value_of

MOVING = frozenset({"copy", "copy_if", "copy_aligned", "gemm", "axpby", "clear", "fill"})
"""Functions that touch memory."""

_ASKED = re.compile(r"undefined template '(cute::known<.*>)'")
_INSTRUCTION = re.compile(r"\bSM\d+_\w+\b(?!\s*<)")
_INTEGER = re.compile(r"\b_(\d{1,6})\b")


@functools.cache
def _given() -> str:
    return Path(__file__).with_name("cute.cuh").read_text()


@functools.cache
def tags() -> frozenset[str]:
    """The functions whose calls are types."""
    lists = re.findall(r"LAYOUTALG_\w+\(([^()]*)\)", _given())
    return frozenset({*re.findall(r"\bf::(\w+)", _given()), *re.findall(r"\w+", " ".join(lists))})


def silent_functions() -> frozenset[str]:
    """The functions and macros that touch no memory."""
    declared = re.findall(r"\b([a-z]\w+)\(", _given()) + re.findall(r"#define (CUTE_\w+)", _given())
    return tags() | {*declared, "congruent"} - MOVING


def declared_text(texts: Iterable[str]) -> str:
    """The declarations for some texts."""
    text, given = "\n".join(texts), _given()
    head = f"namespace cute {{ namespace f {{ {' '.join(f'struct {tag};' for tag in sorted(tags()))} }} }}"
    integers = sorted({*map(int, _INTEGER.findall(text)), *range(33), 64, 128, 256})
    names = sorted(set(_INSTRUCTION.findall(text)))
    chosen = sorted({*re.findall(r"\b(SM\d+_\d\w+)\s*<", text)} - {*names})
    tail = [f"using _{n} = Int<{n}>;" for n in integers]
    tail += [f"struct {name} {{}};" for name in names if f"struct {name} " not in given]
    tail += [f"template <auto...> struct {name} {{}};" for name in chosen]
    return f"{head}\n{given}\nnamespace cute {{ {' '.join(tail)} }}\n"


def asked(messages: Iterable[str]) -> list[str]:
    """The types `known<...>` that messages of the front end ask for."""
    return list(dict.fromkeys(found[1] for text in messages if (found := _ASKED.search(text)) is not None))


def definition_of(known: str) -> str:
    """The definition of a type `known<...>`; of what has no value, a value of no known type."""
    try:
        function, *arguments = (call := read_type(known).arguments[0]).arguments
        value = value_of(read_type(f"Layout<{call}, made>")) if function and arguments else None
    except FAULTS:
        kind = "layoutalg_any"
    else:
        kind = type_of(value)
    body = (
        f"static constexpr {kind} value() {{ return {{}}; }}"
        if kind != "int"
        else "static __host__ __device__ int value();"
    )
    return f"template <> struct {known} {{ using type = {kind}; {body} }};\n"
