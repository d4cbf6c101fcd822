"""The documented kernels of the kernel language on a GPU, as the document verifies them."""

from __future__ import annotations

from functools import partial

import pytest

from layoutalg import codegen as cg
from tests.documents import ROOT, blocks
from tests.draws.value_kernels import fetching
from tests.gpu.tools import needs_gpu
from tests.mutants.texts import finding, listed

pytestmark = needs_gpu

KERNELS = [text for _, text in blocks(ROOT / "docs" / "kernel_language.md") if "cg.verify(" in text]
GPU_MUTANTS = [m for m in listed() if m.verdict == "gpu"]


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_a_documented_kernel_is_right_on_a_gpu(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cg, "verify", partial(cg.verify, target="gpu"))
    exec(compile(KERNELS[number], "document", "exec"), {"__name__": "document"})


@pytest.mark.parametrize("element", ["f32", "f64", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_an_atomic_fetches_what_was_there(element: str, space: str) -> None:
    kernel, reference = fetching(element, space)
    cg.verify(kernel, reference, values={"m_cas": (0, 1), "c": (0, 1)}, target="gpu")


@pytest.mark.parametrize("number", range(len(GPU_MUTANTS)))
def test_the_text_of_an_instruction_is_verified_by_a_launch(number: int) -> None:
    """Mistakes that the simulator cannot see, since it runs what is stated."""
    mutant = GPU_MUTANTS[number]
    text = mutant.source.replace("cg.verify(kernel, ", 'cg.verify(kernel, target="gpu", reference=')
    assert finding(text)[0] == "result"
    assert finding(text.replace(mutant.new, mutant.old)) == ("", "")
