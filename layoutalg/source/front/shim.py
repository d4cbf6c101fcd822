"""The declarations of CUDA's headers that kernels name: read in front of a user's file, never compiled.

The idea.  A front end needs types and declarations, no bodies: `cuda.cuh` has those of CUDA's headers, and
`library.cuh` the bodies by which accesses are decided.  A function that is neither there nor in the file is
declared by the name under which it is called (`unknown_function`); its result converts to any type.

>>> unknown_function("__hfma2").splitlines()[0]
'template <class... Given> __host__ __device__ layoutalg_any __hfma2(Given&&...);'
>>> headers_named('#include <cuda_fp16.h>\\n#include "../tile.cuh"')
('cuda_fp16.h', '../tile.cuh')
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

_REALS = {
    1: "sqrt rsqrt cbrt exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh erf erfc fabs floor ceil round trunc rint nearbyint",
    2: "fmax fmin pow fmod atan2 fdivide copysign",
    3: "fma",
}
_FAST = {
    1: "__expf __exp10f __logf __log2f __log10f __sinf __cosf __tanf __saturatef __frcp_rn "
    "__fsqrt_rn __frsqrt_rn",
    2: "__powf __fdividef __fadd_rn __fmul_rn __fsub_rn __fdiv_rn",
    3: "__fmaf_rn",
}
_HALVES = "ceil cos exp exp10 exp2 floor log log10 log2 rcp rint rsqrt sin sqrt tanh trunc"
"""Functions of half with an h in front, of half2 with h2."""


def _reals() -> str:
    lines = []
    for count in _REALS:
        for name in _REALS[count].split():
            for kind, suffix in (("float", "f"), ("double", "")):
                arguments = ", ".join([kind] * count)
                lines.append(f"__host__ __device__ {kind} {name}{suffix}({arguments});")
            lines.append(f"__host__ __device__ float {name}({', '.join(['float'] * count)});")
            lines.append(f"namespace std {{ using ::{name}; using ::{name}f; }}")
        for name in _FAST[count].split():
            lines.append(f"__host__ __device__ float {name}({', '.join(['float'] * count)});")
    for name in _HALVES.split():
        lines.append(f"__device__ __half h{name}(__half); __device__ __half2 h2{name}(__half2);")
    lines.append("__host__ __device__ long lrintf(float);")
    return "\n".join(lines) + "\n"


_CONVERTED = {
    "int": "int", "uint": "unsigned", "ll": "long long", "ull": "unsigned long long", "short": "short",
    "ushort": "unsigned short", "longlong": "long long", "ulonglong": "unsigned long long", "char": "char",
    "uchar": "unsigned char", "float": "float", "double": "double", "half": "__half",
    "bfloat16": "__nv_bfloat16", "float2": "float2", "half2": "__half2", "bfloat162": "__nv_bfloat162",
}  # fmt: skip
"""The types in names of conversions; the plural of one means two of it."""

_PLURALS = {"floats": "float", "halves": "half", "ints": "int"}


def conversion(name: str) -> str:
    """The declaration of a conversion of CUDA's headers, out of its name; "" for another name.

    >>> conversion("__floats2half2_rn"), conversion("__half_as_short"), conversion("__hadd2")
    ('__device__ __half2 __floats2half2_rn(float, float);', '__device__ short __half_as_short(__half);', '')
    """
    stem = re.sub(r"_r[nzud]\Z", "", name.removeprefix("__")) if name.startswith("__") else ""
    for sign in re.finditer("2|_as_", stem):
        before, after = stem[: sign.start()], _CONVERTED.get(stem[sign.end() :])
        kind = _CONVERTED.get(_PLURALS.get(before, before))
        if kind is not None and after is not None:
            arguments = ", ".join([kind] * (1 + (before in _PLURALS)))
            return f"__device__ {after} {name}({arguments});"
    return ""


_LIBRARIES = {"cub": ("cub/",), "torch": ("torch/", "ATen/", "c10/")}
"""Files here that stand for headers of these folders where they are missing."""


def shim_text(arch: int = 900, words: Iterable[str] = (), missing: Iterable[str] = ()) -> str:
    """The header; `arch` is __CUDA_ARCH__, `words` those of the texts, `missing` the headers they lack.

    >>> shim_text(750).splitlines()[1]
    '#define __CUDA_ARCH__ 750'
    """
    named = f"#undef __CUDA_ARCH__\n#define __CUDA_ARCH__ {arch}\n"
    lacking = tuple(missing)
    files = [name for name, fronts in _LIBRARIES.items() if any(each.startswith(fronts) for each in lacking)]
    texts = (Path(__file__).with_name(f"{name}.cuh") for name in ("cuda", "library", *files))
    declared, *library = (text.read_text(encoding="utf-8") for text in texts)
    conversions = "\n".join(filter(None, map(conversion, sorted(words))))
    return f"{named}{declared}{_reals()}{''.join(library)}{conversions}\n"


_OTHER_REALS = (
    "isnan isinf isfinite signbit ldexp scalbn ilogb logb remainder hypot rhypot norm3d norm4d tgamma lgamma "
    "sinpi cospi tanpi normcdf erfcx erfinv erfcinv llrint lround llround roundf nextafter "
    "fdim sinpif cospif min max abs labs llabs umin umax clock clock64 printf assert"
)
_VECTOR = re.compile(r"make_(u?(char|short|int|long|longlong)|float|double)[1-4]")
_MEMORY_NAMES = re.compile(
    r"__(ld|st|pipeline_memcpy|cvta|builtin_(mem|str|nontemporal|prefetch|assume_aligned|arm|nvvm)|atomic|"
    r"sync_|nv_atomic|iAtomic|uAtomic|fAtomic|shared|global|tma|bulk)"
)


def takes_values(name: str) -> bool:
    """Whether a function of CUDA's headers takes numbers by value: all it reads is what it is given.

    >>> takes_values("__hfma2"), takes_values("sqrtf"), takes_values("__ldg"), takes_values("copy")
    (True, True, False, False)
    """
    if name.startswith("__"):
        return _MEMORY_NAMES.match(name) is None
    plain = name.removeprefix("std::").removeprefix("::")
    return plain in _numeric_names() or _VECTOR.fullmatch(plain) is not None


@functools.cache
def _numeric_names() -> frozenset[str]:
    words = " ".join((*_REALS.values(), *_FAST.values(), _OTHER_REALS, "lrintf")).split()
    halves = (f"{front}{word}" for word in _HALVES.split() for front in ("h", "h2"))
    return frozenset({*words, *(f"{word}f" for word in words), *halves})


def unknown_function(name: str, within: str = "") -> str:
    """The declaration of a function that is known only by its name, and by the namespace that it is in."""
    text = f"template <class... Given> __host__ __device__ layoutalg_any {name}(Given&&...);"
    return f"namespace {within} {{ {text} }}\n" if within else f"{text}\n"


def unknown_number(name: str) -> str:
    """The declaration of a number that is known only by its name."""
    return f"extern const __device__ int {name};\n"


def headers_named(text: str) -> tuple[str, ...]:
    """The headers that the text includes, in order."""
    return tuple(re.findall(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^<>"\n]+)[>"]', text, re.MULTILINE))
