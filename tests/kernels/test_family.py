"""verify: it passes what is right, and names what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import MismatchError, UnknownNameError, UnsupportedError
from layoutalg.kernels import FAMILIES, find_family, verify
from layoutalg.kernels.family import buffers

TRANSPOSE = FAMILIES["transpose"]
PROBLEM = TRANSPOSE.problem(70, 140, "f32")


def test_a_right_kernel_passes_every_check() -> None:
    report = verify(TRANSPOSE, PROBLEM)
    assert report.passed
    names = [c.name for c in report.checks]
    assert names[:2] == ["result, one block at a time", "result, one warp at a time"]
    assert "accesses, st.shared.b32" in names
    report.require()


def test_a_wrong_reference_is_a_failed_check() -> None:
    def wrong(p: Any, src: Any, old: Any) -> Any:
        out = TRANSPOSE.reference(p, src, old)
        out[7] ^= 1
        return out

    report = verify(replace(TRANSPOSE, reference=wrong), PROBLEM)
    assert not report.passed
    with pytest.raises(MismatchError, match="result, one block at a time: 1 bytes differ, the first in el"):
        report.require()


@pytest.mark.parametrize("change", ["more", "less"])
def test_a_wrong_prediction_is_a_failed_check(change: str) -> None:
    def wrong(p: Any, c: Any) -> Any:
        right = dict(TRANSPOSE.predict(p, c))
        if change == "less":
            del right["st.shared.b32"]
        else:
            right["st.shared.b32"] += Cost(0, 1, 0)
        return right

    report = verify(replace(TRANSPOSE, predict=wrong), PROBLEM)
    failed = [c.name for c in report.checks if not c.passed]
    assert failed == (["accesses, st.shared.b32"] if change == "more" else ["no other accesses"])


def test_buffers_are_random_and_reproducible() -> None:
    (a, b), (c, d) = buffers(PROBLEM, 1), buffers(PROBLEM, 1)
    assert (a == c).all()
    assert (b == d).all()
    assert len(set(a.tolist())) > len(a) // 2
    assert not (buffers(PROBLEM, 2)[0] == a).all()


def test_on_a_machine_without_gpu_the_gpu_target_says_so() -> None:
    if gpu_status().available:
        assert verify(TRANSPOSE, PROBLEM, target="gpu").passed
        return
    with pytest.raises(UnsupportedError, match="running a kernel needs a GPU"):
        verify(TRANSPOSE, PROBLEM, target="gpu")


def test_families_are_found_by_name() -> None:
    assert find_family("transpose") is TRANSPOSE
    with pytest.raises(UnknownNameError, match="did you mean 'transpose'"):
        find_family("transposed")
    with pytest.raises(TypeError):
        FAMILIES["x"] = TRANSPOSE  # type: ignore[index]
