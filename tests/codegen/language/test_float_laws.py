"""Floats on all numbers of 16 and of 8 bits: the simulator computes the definition, and so does the text."""

from __future__ import annotations

import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.language import words
from tests.draws.float_laws import LAWS, Law
from tests.draws.value_kernels import THREADS
from tests.hostshim import run_cuda_text


def check_simulator(law: Law) -> None:
    """The effects are the definition, of approximations the nearest float."""
    assert law.made.differences(law.made.simulated(), law.wanted, {}) == []


def check_text(law: Law) -> None:
    """The text, with the functions of the host, is so within the stated places."""
    made, got = law.made, law.made.copies()
    given = words(made.kernel, {**made.arguments, **got})
    run_cuda_text(
        cg.to_cuda(made.kernel), made.kernel.name, made.kernel.blocks({}), (THREADS,),
        [got[p.name] if p.name in got else given[p.name] for p in made.kernel.params],
    )  # fmt: skip
    assert made.differences(got, law.wanted) == []


def test_all_pairs_of_floats_of_4_bits_convert() -> None:
    check_simulator(LAWS["convert e2m1"]())


@pytest.mark.deep
@pytest.mark.parametrize("name", LAWS)
def test_the_simulator_computes_the_definition(name: str) -> None:
    check_simulator(LAWS[name]())


@pytest.mark.deep
@pytest.mark.parametrize("name", LAWS)
def test_the_text_computes_the_definition(name: str) -> None:
    check_text(LAWS[name]())
