"""The registry of families: complete, read only, and every entry keeps the protocol."""

from __future__ import annotations

import pytest

from layoutalg.codegen.check import check
from layoutalg.errors import UnknownNameError
from layoutalg.kernels.families import FAMILIES, find_family


@pytest.mark.parametrize("name", FAMILIES)
def test_an_entry_keeps_the_protocol(name: str) -> None:
    family = FAMILIES[name]
    assert family.name == name
    assert family.summary
    p = family.problem(m=100, n=200, dtype="f16")
    for config in family.configs(p, "sm_90"):
        kernel = family.build(p, config)
        check(kernel)
        assert {v.name for v in kernel.params} == {"m", "n", "lds", "ldd", "src", "dst"}
        assert family.predict(p, config)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="tiled_copy, transpose"):
        find_family("gemm")
