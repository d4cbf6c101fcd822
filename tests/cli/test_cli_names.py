"""Every command takes an architecture and an instruction by any of their names, and refuses others with 2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.command import answer, refusal
from tests.sweeps import each

TILE = "(64,64):(64,1)"
COMMANDS = {
    "analyze": ("analyze", TILE, "--dtype", "f16"),
    "solve": ("solve", "(64,64):(ld,1)", "--dtype", "f16"),
    "synthesize": ("synthesize", TILE, "--dtype", "f16"),
    "draw": ("draw", TILE, "--dtype", "f16"),
}
WRITING = {
    "generate": ("generate", "transpose", "--m", "64", "--n", "64"),
    "sass": ("inspect", "sass", "transpose", "--m", "128", "--n", "128"),
}


def _unnamed(value: Any) -> Any:
    """An answer without what its accesses are called."""
    if isinstance(value, list):
        return [_unnamed(v) for v in value]
    return {k: _unnamed(v) for k, v in value.items() if k != "access"} if isinstance(value, dict) else value


@pytest.mark.deep(only=("solve", "synthesize"))
@pytest.mark.parametrize("command", COMMANDS)
def test_accesses_have_many_names(command: str) -> None:
    def told(access: str, arch: str) -> Any:
        return _unnamed(answer(*COMMANDS[command], "--access", access, "--arch", arch))

    for access, name in (
        ("ldmatrix@row", "ldmatrix.x4@row"), ("LDS.128", "ld.shared.b128"),
        ("st.shared.v2.b32", "st.shared.b64"), ("SM75_U32x4_LDSM_N", "ldmatrix.x4"),
        ("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "cp.async.16"),
    ):  # fmt: skip
        assert told(access, "H100") == told(name, "sm_90")
    for access in ("LDS.7", "UniversalCopy<uint128_t>", "ldmatrix.x8@row", ""):
        error, said = refusal(*COMMANDS[command], "--access", access)
        assert error == "UnknownNameError" and "unknown instruction" in said


@pytest.mark.deep
@each("command", [*COMMANDS, *WRITING])
def test_architectures_have_many_names(command: str) -> None:
    words = WRITING.get(command) or (*COMMANDS[command], "--access", "ld.shared.b32@row")
    for name, target in (("rtx3090", "sm_86"), ("12.0", "sm_120"), ("sm90a", "sm_90"), ("sm_103", "sm_103")):
        found = answer(*words, "--arch", name)
        assert found.get("arch", target) == target
    for name in ("ampere", "sm_42", "rtx", ""):
        error, said = refusal(*words, "--arch", name)
        assert error == "UnknownNameError" and "architecture" in said
