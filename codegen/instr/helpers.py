"""Device functions that the helpers of several instructions call: conversions and single PTX instructions.

    MAX_NAN     float max_nan(float a, float b)             NaN when either is
    EXP2        float exp2_approx(float x)                  subnormal results are 0
    PACK[t]     t x2 pack_tx2(float low, float high)        rounded to the nearest, ties to even
    LOW[t]      float low_t(t x2 w), HIGH[t]                one element of a packed word

`f16x2` and `bf16x2` are PTX's packed types: two elements in 32 bits, low half first.

Source: PTX ISA 9.0, 9.7.3.12 (max.NaN), 9.7.3.21 (ex2.approx), 9.7.9.21 (cvt).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

MAX_NAN = """float max_nan(float a, float b) {
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}"""

MIN_NAN = MAX_NAN.replace("max", "min")

EXP2 = """float exp2_approx(float x) {
    float d;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}"""

RSQRT = """float rsqrt_approx(float x) {
    float d;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(d) : "f"(x));
    return d;
}"""

PACKED: Mapping[str, str] = MappingProxyType({"f16": "f16x2", "bf16": "bf16x2"})
"""PTX's name of two elements in a word."""


def _pack(element: str) -> str:
    pair = PACKED[element]
    return (
        f"{pair} pack_{pair}(float low, float high) {{\n    {pair} d;\n"
        f'    asm("cvt.rn.{pair}.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));\n    return d;\n}}'
    )


def _half(element: str, which: str) -> str:
    if element == "bf16":
        bits = "w << 16" if which == "low" else "w & 0xFFFF0000u"
        return f"float {which}_bf16(bf16x2 w) {{ return __uint_as_float({bits}); }}"
    half = which[0]
    ptx = f"{{.reg .b16 l, h; mov.b32 {{l, h}}, %1; cvt.f32.f16 %0, {half};}}"
    body = f'float d;\n    asm("{ptx}" : "=f"(d) : "r"(w));\n    return d;'
    return f"float {which}_f16(f16x2 w) {{\n    {body}\n}}"


PACK: Mapping[str, str] = MappingProxyType({e: _pack(e) for e in PACKED})
"""Two floats to a word, by element; needs sm_80."""

LOW: Mapping[str, str] = MappingProxyType({e: _half(e, "low") for e in PACKED})
HIGH: Mapping[str, str] = MappingProxyType({e: _half(e, "high") for e in PACKED})
"""An element of a word as a float, by element."""

C_TYPE: Mapping[str, str] = MappingProxyType(
    {"": "u32", "f32": "float", "f16x2": "f16x2", "bf16x2": "bf16x2"}
)
"""The C type of an operand's words, by its element."""


def ref(name: str, words: int, element: str = "", *, const: bool = False) -> str:
    """A parameter of a helper: one word by reference, several by their address.

    >>> ref("v", 4, "f32", const=True), ref("d", 1)
    ('const float* v', 'u32& d')
    """
    return f"{'const ' if const else ''}{C_TYPE[element]}{'&' if words == 1 else '*'} {name}"


def at(name: str, i: object, words: int) -> str:
    """Word i of such a parameter.

    >>> at("v", "i", 4), at("d", "i", 1)
    ('v[i]', 'd')
    """
    return name if words == 1 else f"{name}[{i}]"


def each(n: int, lines: Sequence[str], i: str = "i") -> str:
    """The lines of a helper that do `lines` for i = 0 .. n - 1; one value needs no loop.

    >>> print(each(2, ["v[i] = 0;"]), end="")
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            v[i] = 0;
        }
    """
    if n == 1:
        return "".join(f"    {line}\n" for line in lines)
    body = "".join(f"        {line}\n" for line in lines)
    return f"    #pragma unroll\n    for (int {i} = 0; {i} < {n}; ++{i}) {{\n{body}    }}\n"


def doubles(n: int, value: Callable[[int], str]) -> str:
    """The lines of a helper that set double i of v to `value`; of a loop nvcc would make more instructions.

    A double is two words, low half first.

    >>> print(doubles(1, lambda i: "0.0"), end="")
        const double x0 = 0.0;
        v[0] = __double2loint(x0);
        v[1] = __double2hiint(x0);
    """
    lines = []
    for i in range(n):
        lines.append(f"const double x{i} = {value(i)};")
        lines += [f"v[{2 * i}] = __double2loint(x{i});", f"v[{2 * i + 1}] = __double2hiint(x{i});"]
    return "".join(f"    {line}\n" for line in lines)


def double_at(name: str, i: int) -> str:
    """Double i of an array of words.

    >>> double_at("c", 1)
    '__hiloint2double(c[3], c[2])'
    """
    return f"__hiloint2double({name}[{2 * i + 1}], {name}[{2 * i}])"


def float_literal(number: float) -> str:
    """A float in C: the shortest decimal that is it, INFINITY, or the bits of a NaN.

    >>> float_literal(0.044715), float_literal(1.0), float_literal(float("-inf"))
    ('0.044715f', '1.0f', '-INFINITY')
    """
    import numpy

    single = numpy.float32(number)
    if numpy.isnan(single):
        return f"__uint_as_float(0x{int(single.view(numpy.uint32)):08X}u)"
    if numpy.isinf(single):
        return "INFINITY" if single > 0 else "-INFINITY"
    return f"{single!s}f"
