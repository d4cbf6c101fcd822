"""relayout: common modes by the definition, the formats people use, what is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, traffic
from layoutalg.codegen.sim import simulate
from layoutalg.errors import NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import common_modes, normalise, reference, relayout_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, size
from layoutalg.notation import parse
from tests.permutations import random_buffers
from tests.sweeps import each

FORMATS = (
    ("NHWC to NCHW", "(2,6,7,24):(1008,168,24,1)", "(2,6,7,24):(1008,7,1,42)", "f16"),
    ("NHWC to NC/32HW32", "(2,6,7,(32,2)):(2688,448,64,(1,32))", "(2,6,7,(32,2)):(2688,224,32,(1,1344))",
     "s8"),
    ("NC/32HW32 to NCHW", "(2,6,7,(32,2)):(2688,224,32,(1,1344))", "(2,6,7,64):(2688,7,1,42)", "s8"),
    ("tokens to pages of 16", "((16,5),4,32):((128,2048),32,1)", "((16,5),4,32):((32,2048),512,1)", "f16"),
    ("scales 128x4 to 32x4x4 tiles", "((32,4,2),(4,3)):((12,384,1536),(1,4))",
     "((32,4,2),(4,3)):((16,4,1536),(1,512))", "u8"),
    ("core matrices, no swizzle", "(64,64):(64,1)", "((8,8),(8,8)):((8,512),(1,64))", "f16"),
    ("128-byte atoms", "(64,128):(128,1)", "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))", "f16"),
    ("and back", "Sw<3,3,3> o 0 o ((8,8),(64,2)):((64,512),(1,4096))", "(64,128):(128,1)", "f16"),
    ("32-byte atoms, transposed", "(64,32):(1,64)", "Sw<1,4,3> o 0 o ((8,8),32):((32,256),1)", "u8"),
    ("fragments of mma", "(16,16):(16,1)", "((8,2),(2,4,2)):((8,2),(1,64,4))", "f16"),
)  # fmt: skip


def layout(text: str) -> AnyLayout:
    found = parse(text)
    assert isinstance(found, (Layout, ComposedLayout))
    return found


def by_definition(src: AnyLayout, dst: AnyLayout, buffer: Any, old: Any) -> Any:
    result = old.copy()
    for i in range(int(size(src))):
        result[dst(i)] = buffer[src(i)]
    return result


@pytest.mark.deep
@each(("src", "dst", "dtype"), [f[1:] for f in FORMATS], ids=[f[0] for f in FORMATS])
def test_formats_move_as_defined_and_as_predicted(src: str, dst: str, dtype: str) -> None:
    a, b = layout(src), layout(dst)
    p = relayout_problem(a, b, dtype)
    of, old = random_buffers(p, 1)
    expected = reference(p, of, old)
    assert expected.tobytes() == by_definition(a, b, of, old).tobytes()
    x = normalise(p)
    for c in configs(x):
        to = old.view("u1").copy()
        run = simulate(build(x, c), {"src": of.view("u1").copy(), "dst": to})
        assert to.tobytes() == expected.tobytes(), c
        ran = {site.op for site in run.trace.sites if run.trace.total(site.op)[0]}
        assert {op: Cost(*run.trace.total(op)) for op in ran} == dict(traffic(build(x, c), {})), c


@each("seed", range(40))
def test_common_modes_are_both_layouts(seed: int) -> None:
    rng = random.Random(seed)

    def cut() -> tuple[int, ...]:
        left, shape = [2, 2, 2, 3, 3, 5], [1]
        for factor in left:
            if rng.random() < 0.5:
                shape.append(1)
            shape[-1] *= factor
        return tuple(shape)

    a, b = (Layout(shape, tuple(rng.randrange(50) for _ in shape)) for shape in (cut(), cut()))
    shape, of, to = common_modes(a, b)
    every = range(360)
    assert [Layout(shape, of)(i) for i in every] == [a(i) for i in every]
    assert [Layout(shape, to)(i) for i in every] == [b(i) for i in every]


def test_what_has_no_common_modes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="continues with 2, the other with 3 coordinates"):
        common_modes(Layout((2, 3), (3, 1)), Layout((3, 2), (2, 1)))
    with pytest.raises(UnsupportedError, match="negative stride"):
        relayout_problem(Layout(4, -1), Layout(4), "u8")
    with pytest.raises(UnsupportedError, match="composed of layouts"):
        relayout_problem(layout("(2,2):(2,1) o 1 o 3:1"), Layout(3), "u8")


def test_a_layout_of_layouts_moves_where_it_has_a_normal_form() -> None:
    source = layout("(4,4):(4,1) o 0 o (2,8):(1,2)")
    p = relayout_problem(source, Layout((2, 8)), "u8")
    moved = reference(p, np.arange(16, dtype="u1"), np.zeros(16, "u1"))
    assert moved.tolist() == [source(i) for i in range(16)]


def test_domains_and_buffers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="have 8 and 6 coordinates"):
        relayout_problem(Layout(8), Layout(6), "u8")
    with pytest.raises(ShapeError, match="needs 8 elements; its buffer has 7"):
        relayout_problem(Layout(8), Layout(8), "u8", (7, 8))


def test_an_aliasing_destination_is_refused() -> None:
    with pytest.raises(NotInjectiveError):
        relayout_problem(Layout((4, 4)), Layout((4, 4), (1, 1)), "f32")


def test_a_broadcast_source_is_fine() -> None:
    p = relayout_problem(Layout((4, 4), (0, 1)), Layout((4, 4)), "f32")
    of, old = random_buffers(p, 2)
    assert np.array_equal(reference(p, of, old).reshape(4, 4), np.repeat(of, 4).reshape(4, 4))
