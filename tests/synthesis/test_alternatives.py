"""Alternatives: each a layout of the tile with its true cost, ranked, and none twice."""

from __future__ import annotations

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.layout import size
from layoutalg.synthesis import check_certificate, synthesize
from layoutalg.synthesis.tma import tma_layouts
from tests.sweeps import each

QUESTIONS = [
    ((64, 64), "f16", ["ldmatrix.x4"]),
    ((16, 16), "f16", ["ldmatrix.x4"]),
    ((64, 128), "f16", ["ldmatrix.x4", "st.shared.b128"]),
    ((32, 32), "f32", ["st.shared.b32@row", "ld.shared.b32@col"]),
    ((32, 32), "f32", ["st.shared.b128@row", "ld.shared.b32@col"]),
    ((96, 64), "f16", ["ldmatrix.x4"]),
]


@each(("shape", "element", "accesses"), QUESTIONS)
def test_costs_and_order(shape: tuple[int, int], element: str, accesses: list[str]) -> None:
    found = synthesize(shape, accesses, element=element, max_extra_bytes=4096)
    layouts = [found.layout, *(other.layout for other in found.alternatives)]
    assert len(set(layouts)) == len(layouts)
    keys = [(other.total, other.extra_bytes) for other in found.alternatives]
    assert keys == sorted(keys)
    lanes = [a for a in found.accesses if isinstance(a, Access)]
    for other in found.alternatives:
        assert size(other.layout) == size(layouts[-1])  # type: ignore[arg-type]
        reports = [analyze(other.layout, a, method="enumerated") for a in lanes]
        assert other.total == sum(r.total for r in reports if isinstance(r, SharedReport))
        assert other.ideal_total == sum(r.ideal_total for r in reports if isinstance(r, SharedReport))
    kinds = {other.kind for other in found.alternatives} | {found.kind}
    assert "plain" in kinds and ("padding" in kinds or found.layout is None)
    assert check_certificate(found)


def test_every_tensor_map_mode_that_serves_is_listed() -> None:
    found = synthesize((64, 128), ["ldmatrix.x4"], element="f16")
    listed = {str(other.layout) for other in found.alternatives} | {str(found.layout)}
    for layout, _ in tma_layouts((64, 128), dtype("f16"), "row", (), ARCHS["sm_90"]):
        report = analyze(layout, next(a for a in found.accesses if isinstance(a, Access)))
        assert isinstance(report, SharedReport)
        assert str(layout) in listed or not report.conflict_free
    assert "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))" in listed


def test_where_nothing_is_free_the_least_bad_swizzle_is_first() -> None:
    found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    assert found.layout is None
    best = found.alternatives[0]
    assert best.kind == "swizzle" and best.total > best.ideal_total
    assert best.total == min(other.total for other in found.alternatives)
