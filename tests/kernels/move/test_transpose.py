"""transpose: the program that is built from a plan."""

from __future__ import annotations

import pytest

from layoutalg.codegen.program import Do, Let, MemRef, Shared, lower, walk
from layoutalg.codegen.program.checks import check
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.move.matrix_plan import transpose_configs as configs
from layoutalg.kernels.move.programs.matrix import build_transpose as build
from layoutalg.kernels.move.programs.matrix import transpose_problem as problem
from tests.sweeps import each

WIDTHS = {"u8": 1, "f16": 2, "f32": 4, "f64": 8, "c128": 16}


@each("arch", ["sm_75", "sm_80", "sm_90"])
@each("leading", [4096, 4097, 4100], sample=2)
@each("dtype", WIDTHS, sample=1)
def test_every_configuration_passes_the_grammar(dtype: str, leading: int, arch: str) -> None:
    p = problem(4096, 4096, dtype, leading, leading)
    for c in configs(p, arch):
        check(build(p, c), arch)


def test_narrow_elements_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="elements of 4 bits"):
        problem(8, 8, "u4")


@pytest.mark.parametrize("dtype", WIDTHS)
def test_shared_addresses_cost_at_most_an_xor_with_a_constant(dtype: str) -> None:
    """After lowering, what is left of the thread in a shared address of a full tile is one hoisted name."""
    p = problem(4096, 4096, dtype)
    kernel = lower(build(p, configs(p)[0]))
    bases = [s.var.name for s in kernel.body if isinstance(s, Let) and s.var.name.startswith("lane")]
    assert len(bases) == 2
    accesses = [
        str(arg.index) for s in walk(kernel.body) if isinstance(s, Do) for arg in s.args
        if isinstance(arg, MemRef) and isinstance(arg.buffer, Shared)
    ]  # fmt: skip
    assert accesses
    for index in accesses:
        assert "tid" not in index
        assert sum(index.count(base) for base in bases) == 1


def test_parameters_are_multiples_of_their_vectors() -> None:
    p = problem(1000, 2000, "f16")
    kernel = build(p, configs(p)[0])
    multiples = {v.name: v.multiple for v in kernel.params if hasattr(v, "multiple")}
    assert multiples == {"m": 8, "n": 8, "lds": 8, "ldd": 8}


def test_the_header_says_what_is_predicted() -> None:
    p = problem(4096, 4096, "f32")
    notes = "\n".join(build(p, configs(p)[0]).notes)
    assert "Sw<" in notes
    assert "st.shared.b32     128 instructions    128 wavefronts (ideal 128)" in notes
