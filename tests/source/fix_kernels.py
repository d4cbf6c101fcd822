"""Drawn kernels with bank conflicts, and a run of many of them on the CPU: what a fix may not change.

Every kernel writes a square of a shared array row by row and reads it column by column.  Its array is a plain
one of one to three dimensions, one of structs, one in a struct, or the launch's; it is named by its elements,
or through pointers, casts, sizes, references, functions and macros, and most arrays of a text have one name.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from layoutalg.testing import compile_shared
from tests.hostshim import HERE, _Argument, _dim3, host_text

SIDE = 32
BLOCK = (32, 8)
HEAD = """\
struct Pair { float x, y; };
struct Tile { float a[32][32]; float b[32]; };
template <class T> __device__ T at(const T* p, int i) { return p[i]; }
template <class T> __device__ void put(T* p, int i, T v) { p[i] = v; }
template <class T> __device__ void set(T& to, T v) { to = v; }
template <class T> __device__ T same(T v) { return v; }
"""
PLACE = re.compile(r"<<(\w+)\|([^|]*)\|([^|]*)\|([^>]*)>>")
"""An element: how it is named, its plane, row and column."""

CLEAN = ("plain", "plain", "plain", "bracketed", "valued")
DIRTY = ("alias", "cast", "pointer", "overrun", "row", "reference", "function", "macro", "copied", "sized")


class Moved(NamedTuple):
    """An index function, its name, the pitch of its rows, and the array's elements, "" where they stay."""

    function: str
    name: str
    pitch: int
    size: str


@dataclass(frozen=True)
class Drawn:
    """A kernel: its text with places for elements, and what the array is."""

    number: int
    kind: str
    scalar: str
    pitch: int
    text: str
    clean: bool

    def rendered(self, moved: str = "", pitch: int = 0) -> str:
        """The text; with `moved`, an element is that of this index function, in rows of `pitch`."""
        return PLACE.sub(lambda m: self._element(m, moved, pitch), self.text)

    def _element(self, match: re.Match[str], moved: str, pitch: int) -> str:
        form, plane, row, column = match.groups()
        if moved:
            return self._moved(moved, pitch, plane, row, column)
        if self.kind in ("line", "launch"):
            return f"s{self._own}[({row}) * {self.pitch} + ({column})]"
        if self.kind == "inside":
            return f"s.a[{row}][{column}]"
        if self.kind == "structs":
            return f"s[{row}][{column}].x"
        front = f"[{plane}]" if self.kind == "planes" else ""
        element = f"s{front}[{row}][{column}]"
        flat = f"({row}) * {self.pitch} + ({column})"
        if self.kind == "planes":
            flat = f"({plane}) * {SIDE * self.pitch} + {flat}"
        zeros = "[0][0]" if front else "[0]"
        return {
            "plain": element,
            "valued": element,
            "bracketed": f"(s{front}[{row}])[{column}]",
            "alias": f"f[{flat}]",
            "cast": f"(({self.scalar}*)s)[{flat}]",
            "pointer": f"*(&s{front}[{row}][0] + ({column}))",
            "overrun": f"s{zeros}[{flat}]",
            "row": f"(*(s{front} + {row}))[{column}]",
            "macro": f"AT{self.number}({row}, {column})" if not front else element,
            "sized": f"f[{flat} + 0 * (int)sizeof(s)]",
        }.get(form, element)

    def _moved(self, name: str, pitch: int, plane: str, row: str, column: str) -> str:
        if self.kind in ("line", "launch"):
            flat = f"({row}) * {self.pitch} + ({column})"
            return f"s{self._own}[{name}(({flat}) / {pitch}, ({flat}) % {pitch})]"
        line = f"({plane}) * {SIDE} + {row}" if self.kind == "planes" else row
        zeros = "[0]" * (3 if self.kind == "planes" else 2)
        member = ".x" if self.kind == "structs" else ""
        return f"(&s{zeros})[{name}({line}, {column})]{member}"

    @property
    def _own(self) -> str:
        return str(self.number) if self.kind == "launch" else ""


def drawn(rng: random.Random, number: int) -> Drawn:
    """A kernel of a text: `o` is its own part of the output."""
    kind = rng.choice(
        ("rows", "rows", "rows", "rows", "planes", "line", "launch", "structs", "inside", "scopes")
    )
    scalar = rng.choice(("float", "float", "int", "double"))
    pitch = rng.choice((32, 32, 64, 33, 48)) if kind != "inside" else 32
    if kind in ("structs", "inside"):
        scalar = "float"
    clean = rng.random() < 0.55
    forms = CLEAN if clean else (*CLEAN, *DIRTY)
    body = "\n".join(_part(rng, kind, scalar, pitch, forms, number) for _ in range(1 + (kind == "scopes")))
    macro = f"#define AT{number}(i, j) s[i][j]\n"
    text = (
        f"{macro if 'AT' in PLACE.sub(lambda m: 'AT' if m[1] == 'macro' else '', body) else ''}"
        f"__global__ void k{number}(float* o, int n) {{\n"
        f"  const int tx = threadIdx.x, ty = threadIdx.y;\n{body}\n}}\n"
    )
    return Drawn(number, "rows" if kind == "scopes" else kind, scalar, pitch, text, clean)


def _part(rng: random.Random, kind: str, scalar: str, pitch: int, forms: Sequence[str], number: int) -> str:
    """A declaration, the loop that writes, a barrier, and the loop that reads."""
    declared = {
        "planes": f"__shared__ {scalar} s[2][{SIDE}][{pitch}];",
        "line": f"__shared__ {scalar} s[{SIDE * pitch}];",
        "launch": f"extern __shared__ {scalar} s{number}[];",
        "structs": f"__shared__ Pair s[{SIDE}][{pitch}];",
        "inside": "__shared__ Tile s;",
    }.get(kind, f"__shared__ {scalar} s[{SIDE}][{pitch}];")
    into, out = rng.choice(forms), rng.choice(forms)
    plane = rng.choice(("0", "1"))
    skew = rng.choice(("tx", "(tx + r) % 32", "tx ^ (r & 31)"))
    place = f"<<{into}|{plane}|r|{skew}>>"
    back = f"<<{out}|{plane}|tx|{rng.choice(('r', '(tx + r) % 32'))}>>"
    value = f"({scalar})(r * 32 + tx + {rng.randrange(50)})"
    element = kind in ("rows", "planes", "scopes")
    store = {"reference": f"set({place}, {value});", "function": f"put(&{place}, 0, {value});",
             "copied": f"{{ {scalar} v = {value}; memcpy(&{place}, &v, sizeof v); }}"}  # fmt: skip
    load = {"reference": f"{scalar}& v = {back};", "function": f"{scalar} v = at(&{back}, 0);",
            "valued": f"{scalar} v = same({back});"}  # fmt: skip
    first = store.get(into, f"{place} = {value};") if element else f"{place} = {value};"
    second = load.get(out, f"{scalar} v = {back};") if element else f"{scalar} v = {back};"
    zeros = "[0][0][0]" if kind == "planes" else "[0][0]"
    alias = f" {scalar}* f = &s{zeros};" if element and {into, out} & {"alias", "sized"} else ""
    guard = rng.choice(("", "if (r < 32) ", "if (tx + r < n) "))
    return (
        f"  {{ {declared}{alias}\n"
        f"    for (int r = ty; r < 32; r += 8) {first}\n"
        f"    __syncthreads();\n"
        f"    for (int r = ty; r < 32; r += 8) {guard}{{ {second} o[r * 32 + tx] += (float)v; }}\n"
        f"    __syncthreads(); }}"
    )


def whole_text(kernels: Sequence[Drawn], moved: Mapping[int, Moved] | None = None) -> str:
    """The text of some kernels, those with a number in `moved` rewritten."""
    parts = [HEAD]
    for one in kernels:
        function, name, pitch, size = (moved or {}).get(one.number, Moved("", "", 0, ""))
        text = one.rendered(name, pitch)
        if size:
            text = re.sub(r"(__shared__ \w+ s)\[\d+\]", rf"\1[{size}]", text)
        parts.append(f"{function}\n{text}")
    return "".join(parts)


def results(texts: Sequence[str], kernels: Sequence[Any], sizes: Sequence[int] = (1000,)) -> Iterator[Any]:
    """What each kernel of some texts writes for each value of n: float32 of shape (texts, kernels, 1024)."""
    parts: list[str] = []
    cases: list[str] = []
    for n, text in enumerate(texts):
        parts.append(f"namespace v{n} {{\n{text}\n}}\n")
        for one in kernels:
            at = len(cases)
            cases.append(f"case {at}: v{n}::k{one.number}(o + {at} * 1024, n); break;")
    switch = "\n".join(cases)
    main = f"__global__ void every(int which, float* o, int n) {{ switch (which) {{\n{switch}\n}} }}\n"
    flags = (f"-I{HERE}", "-fno-strict-aliasing", "-O0", "-w")
    launch = compile_shared(host_text("".join(parts) + main, "every"), flags=flags).shim_launch
    launch.restype = ctypes.c_char_p
    for n, case in itertools.product(sizes, range(len(cases))):
        if not case:
            out = np.zeros((len(texts), len(kernels), 1024), dtype=np.float32)
        arguments = (_Argument * 3)()
        arguments[0].kind, arguments[0].value = b"i", case
        arguments[1].kind, arguments[1].value, arguments[1].bytes = b"p", out.ctypes.data, out.nbytes
        arguments[2].kind, arguments[2].value = b"i", n
        fault = launch(_dim3((1,)), _dim3(BLOCK), arguments, 3, 1 << 16, False)
        assert fault is None, (fault, kernels[case % len(kernels)].rendered())
        if case == len(cases) - 1:
            yield out
