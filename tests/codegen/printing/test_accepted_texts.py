"""Five generated files that were read and accepted: see tests/golden/accepted.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from layoutalg.codegen.gpu.nvrtc import TARGETS
from layoutalg.codegen.printing.cuda import WIDTH
from tests.command import run
from tests.stand_ins.nvcc import compiled, needs_nvcc
from tests.sweeps import each, first

GOLDEN = Path(__file__).parents[2] / "golden"

ACCEPTED: dict[str, tuple[str, ...]] = {
    "accepted_transpose.cu": (
        "75", "transpose", "--dtype", "f16", "--m", "4096", "--n", "4096", "--arch", "sm_75",
    ),
    "accepted_gelu.cu": ("80", "gelu_tanh", "--dtype", "bf16", "--shape", "4096,4096"),
    "accepted_layer_norm.cu": ("80", "layer_norm", "--dtype", "f16", "--shape", "4096,1024"),
    "accepted_gemm.cu": ("80", "gemm-sm80", "--m", "4096", "--n", "4096", "--k", "4096"),
    "accepted_softmax.cu": ("90", "softmax", "--shape", "20000,8", "--axes", "0", "--launcher", "cpp"),
}  # fmt: skip
"""Files, with the first architecture of each, and how they are generated."""


@each("name", list(ACCEPTED))
def test_what_was_accepted_is_what_is_generated(name: str, golden: Callable[[str, str], None]) -> None:
    result = run("generate", *ACCEPTED[name][1:])
    assert result.exit_code == 0, result.output
    golden(name, result.stdout)


def number(target: str) -> int:
    return int(re.sub(r"\D", "", target))


COMPILED = [
    (name, target)
    for target in sorted(TARGETS, key=lambda t: (t != "sm_90a", number(t)))
    for name, (least, *_) in ACCEPTED.items()
    if int(least) <= number(target) <= 90
]
"""All for sm_90a first, then for the others from the oldest on."""


@pytest.mark.deep(but=("accepted_transpose.cu-sm_75",))
@needs_nvcc
@pytest.mark.parametrize(("name", "target"), first(len(ACCEPTED) + 1, COMPILED))
def test_nvcc_has_nothing_to_say(name: str, target: str) -> None:
    compiled(GOLDEN / name, target)


@each("name", list(ACCEPTED))
def test_lines_are_short_and_names_are_used(name: str) -> None:
    text = (GOLDEN / name).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    declared = re.findall(
        r"^ +(?:const )?(?:u8|u32|u64|float|f16x2|bf16x2)(?:\* const)? (\w+)(?:\[| =)", text, re.M
    )
    assert declared and [x for x in declared if len(re.findall(rf"\b{x}\b", text)) < 2] == []
    assert "if (1)" not in text and not re.search(r"\b\d{9,}u?\b", text)


def test_the_reasons_name_every_file() -> None:
    reasons = (GOLDEN / "accepted.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in reasons for name in ACCEPTED)
