"""CUDA text made ready for the host's C++ compiler: types, intrinsics and thread variables of CUDA's headers.

The idea.  An index function computes with integers, so that a host runs it once what CUDA adds is there:
vector types, half, threadIdx, __umul24 and the like.  What has no meaning on a host is taken out of the text,
its lines left in place: launches and inline asm, of kernels beside the function.  CUDA's own headers become
empty ones, and so does every other header that is not found.

>>> prepared("k<<<1, 32>>>(p);\\nasm volatile(\\"bar.sync 0;\\");").splitlines()
[';', ';']
>>> headers_of('#include <cuda_fp16.h>\\n#include "tile.cuh"')
('cuda_fp16.h', 'tile.cuh')

The C++ that tabulates an index function, and the processes that run it.

The idea.  Templates read the parameters of whatever is called, a function, a functor or a lambda: an integer
takes one coordinate, an int2 two, a pointer none, for it is a base from which the result is counted.
Coordinates that are left over come first and go to threadIdx.  A loop then fills a table of 64-bit results.

The words of the file that a process writes: 0 while the code is loaded, i + 1 while index i is computed, -1
when all is done; the number of coordinates it takes, or an index that its parameters cannot hold, or -2 - i
where the pointer at index i lies between two elements; the results.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from pathlib import Path

_VECTORS = (
    ("char", "signed char"), ("uchar", "unsigned char"), ("short", "short"), ("ushort", "unsigned short"),
    ("int", "int"), ("uint", "unsigned int"), ("long", "long"), ("ulong", "unsigned long"),
    ("longlong", "long long"), ("ulonglong", "unsigned long long"), ("float", "float"), ("double", "double"),
)  # fmt: skip


def _vector_types() -> str:
    lines = []
    for name, kind in _VECTORS:
        for count in range(1, 5):
            both, axes = f"{name}{count}", "xyzw"[:count]
            members = [f"{kind} {axis}" for axis in axes]
            lines.append(f"struct {both} {{ {'; '.join(members)}; }};")
            made = f"{both} make_{both}({', '.join(members)}) {{ return {both}{{{', '.join(axes)}}}; }}"
            lines.append(f"static inline {made}")
    return "\n".join(lines)


def text_of(name: str) -> str:
    """The text of a file of the folder `assets`, behind an empty line.

    >>> "#define __device__" in text_of("qualifiers.h")
    True
    """
    return "\n" + (files("layoutalg.testing") / "assets" / name).read_text(encoding="utf-8")


@functools.cache
def shim(*, types: bool) -> str:
    """The text that takes the place of CUDA's headers before the user's, with their types or without."""
    own = f"{text_of('types.h')}{_vector_types()}\n" if types else ""
    return f"{text_of('qualifiers.h')}{own}{text_of('intrinsics.h')}"


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">\n]{1,200})[">]', re.MULTILINE)
_OWN = re.compile(
    r"(cuda|cu(blas|rand|fft)|device_|driver_|host_|math_|mma|nvtx|sm_|vector_|cooperative_groups|"
    r"cute/|cutlass/|cub/|thrust/|crt/|nv/|nvrtc)[\w./+-]*\Z",
    re.ASCII,
)
_LAUNCH = re.compile(r"[A-Za-z_][\w:]*\s*(?:<[^<>;{}]*>)?\s*<<<")
_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(")


def headers_of(source: str) -> tuple[str, ...]:
    """The headers that a text includes, each once; those outside of its folders are left out."""
    return tuple(
        dict.fromkeys(
            name
            for name in _INCLUDE.findall(source)
            if not name.startswith("/") and ".." not in Path(name).parts
        )
    )


def is_of_cuda(header: str) -> bool:
    """True for a header that the shim stands for.

    >>> is_of_cuda("cuda_fp16.h"), is_of_cuda("cstdint")
    (True, False)
    """
    return _OWN.match(header) is not None


def prepared(source: str) -> str:
    """The text without launches and inline asm; no line moves."""
    for pattern in (_LAUNCH, _ASM):
        at = 0
        while (match := pattern.search(source, at)) is not None:
            start = match.end() - 1 if pattern is _ASM else source.find(">>>", match.end())
            opened = source.find("(", start) if start >= 0 else -1
            end = _closing(source, opened)
            if end < 0:
                break
            gone = source[match.start() : end + 1]
            source = source[: match.start()] + "\n" * gone.count("\n") + source[end + 1 :]
            at = match.start()
    return source


def body_of(source: str, name: str) -> str:
    """The text between the braces of a function, lambda or functor; all of the text where none is found.

    >>> body_of("int g() { return 1; } int f(int i) { return i; }", "f")
    ' return i; '
    """
    last = name.rpartition("::")[2].partition("<")[0]
    for match in re.finditer(rf"\b{re.escape(last)}\b", source):
        opened = source.find("{", match.end())
        stop = source.find(";", match.end())
        if opened < 0 or 0 <= stop < opened:
            continue
        end = _closing(source, opened)
        if end > 0:
            return source[opened + 1 : end]
    return source


def _closing(source: str, opened: int) -> int:
    """The index that closes the bracket at `opened`; -1 where none does.  Strings in between do not count."""
    if opened < 0:
        return -1
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|[()\[\]{}]', source[opened:]):
        if match[0] in ("(", "[", "{"):
            depth += 1
        elif match[0] in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return opened + match.start()
    return -1


_LIMITS = """
import ctypes, mmap, resource, sys
for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 1 << 20), (resource.RLIMIT_NOFILE, 64)):
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (most if hard < 0 else min(most, hard),) * 2)
product, path, (lead, first, count, *extents) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:])
with open(path, "r+b") as file:
    words = (ctypes.c_longlong * (count + 2)).from_buffer(mmap.mmap(file.fileno(), 0))
"""

C_RUNNER = (
    _LIMITS
    + """
library = ctypes.CDLL(product)
if extents:
    table, place = library.layoutalg_table, ctypes.addressof(words)
    table.restype = ctypes.c_longlong
    table.argtypes = [ctypes.c_longlong] * 2 + [ctypes.c_void_p] + [ctypes.c_int] * 2 + [ctypes.c_void_p] * 2
    sides = (ctypes.c_longlong * len(extents))(*extents)
    words[1] = table(first, count, sides, len(sides), lead, place, place + 16)
else:
    words[1] = library.layoutalg_slots()
words[0] = -1
"""
)
"""The process that runs compiled index code: product, file, leading coordinates, first, count, extents."""

PYTHON_RUNNER = (
    _LIMITS
    + """
import importlib, inspect, linecache, operator, types
name, _, product = product.partition(":")
with open(product, encoding="utf-8") as file:
    text = file.read()
def same(x, *more, **named):
    return x if callable(x) else same
for missing in ("triton", "triton.language", "cutlass", "cutlass.cute"):
    if missing.partition(".")[0] in text:
        try:
            importlib.import_module(missing)
        except ImportError:
            module = sys.modules[missing] = types.ModuleType(missing)
            module.__path__ = []
            module.__getattr__ = lambda name: same
            above, _, last = missing.rpartition(".")
            if above:
                setattr(sys.modules[above], last, module)
# Triton reads the source of a function, which must be a line of some file.
linecache.cache["@LABEL@"] = (len(text), None, text.splitlines(True), "@LABEL@")
space = {"__name__": "layoutalg_index_code"}
space |= {name: module for name, module in sys.modules.items() if name in ("triton", "cutlass")}
exec(compile(text, "@LABEL@", "exec"), space)
if name not in space:
    sys.exit(f"there is no {name} in the text")
function = getattr(space[name], "fn", space[name])
constants = space.get("layoutalg_constants", {}).get(name)
if extents:
    words[1] = -1
    for i in range(count):
        rest = first + i
        words[0] = rest + 1
        given = []
        for side in extents[:-1]:
            rest, digit = divmod(rest, side)
            given.append(digit)
        given.append(rest)
        if constants is not None:
            given = space["layoutalg_given"](function, given, constants)
        words[2 + i] = operator.index(function(*given))
else:
    words[1] = len(inspect.signature(function).parameters)
words[0] = -1
"""
)
"""The same of a function in Python, whose text is at `product`, after its name and a colon."""
