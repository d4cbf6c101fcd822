"""Inline PTX that computes on registers, spelled as calls of the shim: conversions, mma.sync and movmatrix.

    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d[0]) : "f"(y), "f"(x));
    shim::ptx_pack<shim::f16>((d[0]), (y), (x));

The text around a statement, and the order of its registers, so stay what a GPU would run.
"""

from __future__ import annotations

import re

_STATEMENT = re.compile(r'asm(?: volatile)?\("(?P<ptx>[^"]*(?:"\s*"[^"]*)*)"(?P<operands>\s*:[^;]*)\);')
_CONSTRAINT = re.compile(r'"[=+]?[rfdh]"')
_MMA = re.compile(
    r"mma\.sync\.aligned\.m(?P<rows>8|16)n8k(?P<k>\d+)\.row\.col\.(?P<sum>\w+)\.(?P<a_type>\w+)\.(?P<b_type>\w+)"
    r"\.(?P=sum)(?:\.(?P<bits>xor|and)\.popc)?"
    r" \{(?P<d>[^}]*)\}, \{(?P<a>[^}]*)\}, \{(?P<b>[^}]*)\}, \{(?P=d)\};"
)
_HALF = "{.reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, "

_PACK = "{.reg .b16 l, h; cvt.rn.f16.f32 h, %1; cvt.rn.f16.f32 l, %2; mov.b32 %0, {l, h};}"
_NAN = (
    "{{.reg .pred p; .reg .f32 t; {op}.f32 t, %1, %2; setp.nan.f32 p, %1, %2; "
    "selp.f32 %0, 0f7FFFFFFF, t, p;}}"
)
"""Before sm_80."""

_FLOAT = {
    "max.NaN.f32 %0, %1, %2;": "shim::ptx_max_nan",
    "min.NaN.f32 %0, %1, %2;": "shim::ptx_min_nan",
    _NAN.format(op="max"): "shim::ptx_max_nan",
    _NAN.format(op="min"): "shim::ptx_min_nan",
    _PACK: "shim::ptx_pack<shim::f16>",
    "rsqrt.approx.f32 %0, %1;": "shim::ptx_rsqrt",
    _HALF + "l;}": "shim::ptx_half<0>",
    _HALF + "h;}": "shim::ptx_half<1>",
    "ex2.approx.ftz.f32 %0, %1;": "shim::ptx_ex2",
    "rcp.approx.ftz.f32 %0, %1;": "shim::ptx_rcp",
    "cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;": "shim::ptx_code<3>",
    "cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;": "shim::ptx_code<2>",
    "{.reg .b8 x, y; cvt.rn.satfinite.e2m1x2.f32 x, %2, %1; "
    "cvt.rn.satfinite.e2m1x2.f32 y, %4, %3; mov.b16 %0, {x, y};}": "shim::ptx_e2m1x4",
    "mul.rn.f16x2 %0, %1, %2;": "shim::ptx_mul_f16x2",
    "movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;": "shim::ptx_movmatrix",
}


def in_cpp(text: str) -> str:
    """The text with every PTX statement that the shim can spell replaced; others stay."""
    return _STATEMENT.sub(_call, text)


def _call(statement: re.Match[str]) -> str:
    name = _name(re.sub(r'"\s*"', "", statement["ptx"]))
    if name is None:
        return statement[0]
    operands = _CONSTRAINT.sub("", statement["operands"]).strip().removeprefix(":")
    return f"{name}({operands.replace(':', ',')});"


def _name(ptx: str) -> str | None:
    """The shim's function for a PTX text that takes its operands in order: outputs, then inputs."""
    if ptx in _FLOAT:
        return _FLOAT[ptx]
    if found := re.fullmatch(r"cvt\.rn\.(f16|bf16)x2\.f32 %0, %1, %2;", ptx):
        return f"shim::ptx_pack<shim::{found[1]}>"
    if found := _MMA.fullmatch(ptx):
        holes = [h.strip() for part in "dab" for h in found[part].split(",")]
        if holes == [f"%{i}" for i in range(len(holes))]:
            types = ", ".join(f"shim::{found[name]}" for name in ("a_type", "b_type", "sum"))
            return f"shim::ptx_mma<{types}, {found['rows']}, {found['k']}, {int(found['bits'] == 'xor')}>"
    return None
